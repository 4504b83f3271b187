/* The client lock, and what runs when it is given back. */
#include "link/link.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t last_id;
static struct sdi_call *(*take_due)(void);
static void (*run_due)(struct sdi_call *calls);

static void forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

SDI_AT_FORK(forget)

void sdi_register_unlock(struct sdi_call *(*take)(void), void (*run)(struct sdi_call *calls))
{
    take_due = take;
    run_due = run;
}

void sdi_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sdi_unlock(void)
{
    struct sdi_call *due = take_due();
    pthread_mutex_unlock(&lock);
    if (due)
        run_due(due);
}

void sdi_await_change(void)
{
    pthread_cond_wait(&changed, &lock);
}

void sdi_tell_change(void)
{
    pthread_cond_broadcast(&changed);
}

uint64_t sdi_next_id(void)
{
    return ++last_id;
}
