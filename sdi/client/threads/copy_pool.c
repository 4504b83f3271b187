/* The copy pool: threads with which what many bytes take is divided.
 *
 * Made when first needed, never ended; they work for one thread at a time. */
#include "threads/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

enum { MAX_HELPERS = 7 };

/* Pieces of one thread's work; on its stack. */
struct job {
    void (*copy)(const void *work, size_t piece);
    const void *work;
    size_t num_pieces;
    size_t next;         /* atomic: the first piece that nobody has taken */
    unsigned places;     /* how many more helpers may come */
    unsigned num_inside; /* helpers that have come and not left */
};

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER; /* whose work it is holds it; nobody waits for it */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for what follows, and places and num_inside of jobs */
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;
static struct job *current; /* NULL: none that a thread of the pool may come to */
static unsigned num_helpers;

static void forget(void)
{
    busy = lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    posted = left = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    current = NULL;
    num_helpers = 0;
}

SDI_AT_FORK(forget)

/* Copies pieces until all are taken. */
static void take_pieces(struct job *job)
{
    for (;;) {
        size_t piece = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (piece >= job->num_pieces)
            return;
        job->copy(job->work, piece);
    }
}

static void *run(void *argument)
{
    char name[16];
    snprintf(name, sizeof name, "sdi-copy-%u", (unsigned)(uintptr_t)argument);
    pthread_setname_np(pthread_self(), name);
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!current)
            pthread_cond_wait(&posted, &lock);
        struct job *job = current;
        job->num_inside++;
        if (--job->places == 0)
            current = NULL;
        pthread_mutex_unlock(&lock);
        take_pieces(job);
        pthread_mutex_lock(&lock);
        if (current == job)
            current = NULL; /* all is taken */
        if (--job->num_inside == 0)
            pthread_cond_signal(&left);
    }
    return NULL;
}

/* How many may help the calling thread: none where it has one CPU, and at most as many as leave half of its CPUs to
 * others.  The busy lock is held. */
static unsigned find_helpers(void)
{
    cpu_set_t cpus;
    unsigned wanted = MAX_HELPERS;
    if (sched_getaffinity(0, sizeof cpus, &cpus) == 0) /* otherwise: more CPUs than a set has room for */
        wanted = SDI_MIN(wanted, (unsigned)CPU_COUNT(&cpus) / 2);
    while (num_helpers < wanted && sdi_start_thread(run, (void *)(uintptr_t)(num_helpers + 1)) == 0)
        num_helpers++;
    return SDI_MIN(wanted, num_helpers);
}

void sdi_copy_pieces(void (*copy)(const void *work, size_t piece), const void *work, size_t num_pieces)
{
    struct job job = {.copy = copy, .work = work, .num_pieces = num_pieces};
    int cancellation;
    if (num_pieces < 2 || pthread_mutex_trylock(&busy) != 0) {
        take_pieces(&job);
        return;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
    job.places = (unsigned)SDI_MIN((size_t)find_helpers(), num_pieces - 1);
    pthread_mutex_lock(&lock);
    if (job.places) {
        current = &job;
        pthread_cond_broadcast(&posted);
    }
    pthread_mutex_unlock(&lock);
    take_pieces(&job);
    pthread_mutex_lock(&lock);
    current = NULL;
    while (job.num_inside)
        pthread_cond_wait(&left, &lock);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&busy);
    pthread_setcancelstate(cancellation, NULL);
}
