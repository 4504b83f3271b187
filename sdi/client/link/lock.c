/* The client lock, and what runs when it is given back. */
#include "link/link.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int owner; /* the thread that has it, atomic; 0: none, or it says so in a moment */
static pthread_key_t numbers; /* the kernel's of each thread */
static bool have_numbers; /* client lock */
static pthread_t answering; /* the thread that gave `is_stopped`, atomic */
static bool (*is_stopped)(int thread);
static bool is_borrowed; /* that thread's */
static uint64_t last_id;
static struct sdi_call *(*take_due)(void);
static void (*run_due)(struct sdi_call *calls);

static void forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    owner = 0;
    is_stopped = NULL;
    is_borrowed = false;
    if (have_numbers)
        pthread_setspecific(numbers, NULL);
}

SDI_AT_FORK(forget)

void sdi_register_unlock(struct sdi_call *(*take)(void), void (*run)(struct sdi_call *calls))
{
    take_due = take;
    run_due = run;
}

void sdi_lock_around(bool (*stopped)(int thread))
{
    answering = pthread_self();
    __atomic_store_n(&is_stopped, stopped, __ATOMIC_RELEASE);
}

bool sdi_locks_around(void)
{
    return __atomic_load_n(&is_stopped, __ATOMIC_ACQUIRE) && pthread_equal(answering, pthread_self());
}

static void set_owner(void)
{
    if (!have_numbers)
        have_numbers = pthread_key_create(&numbers, NULL) == 0;
    intptr_t number = have_numbers ? (intptr_t)pthread_getspecific(numbers) : 0;
    if (!number) {
        number = syscall(SYS_gettid);
        if (have_numbers)
            pthread_setspecific(numbers, (void *)number);
    }
    __atomic_store_n(&owner, (int)number, __ATOMIC_RELAXED);
}

/* False: it belongs to a thread that goes on only when this one has. */
static bool take_around(void)
{
    while (pthread_mutex_trylock(&lock) != 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 1000 * 1000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (is_stopped(__atomic_load_n(&owner, __ATOMIC_RELAXED)))
            return false;
        if (pthread_mutex_timedlock(&lock, &until) == 0)
            break;
    }
    return true;
}

void sdi_lock(void)
{
    if (!sdi_locks_around())
        pthread_mutex_lock(&lock);
    else if (!take_around()) {
        is_borrowed = true;
        return;
    }
    set_owner();
}

void sdi_unlock(void)
{
    if (sdi_locks_around() && is_borrowed) {
        is_borrowed = false;
        return;
    }
    struct sdi_call *due = take_due();
    __atomic_store_n(&owner, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    if (due)
        run_due(due);
}

void sdi_await_change(void)
{
    __atomic_store_n(&owner, 0, __ATOMIC_RELAXED);
    pthread_cond_wait(&changed, &lock);
    set_owner();
}

void sdi_tell_change(void)
{
    pthread_cond_broadcast(&changed);
}

uint64_t sdi_next_id(void)
{
    return ++last_id;
}
