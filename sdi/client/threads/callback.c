/* The callback thread: runs callbacks, which may call any OpenCL function; started when first needed. */
#include "threads/threads.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER;
static struct sdi_call *first, **end = &first;
static bool started;
static struct sdi_call *deferred, **deferred_end = &deferred; /* client lock */

static void forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    posted = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    first = NULL;
    end = &first;
    started = false;
    deferred = NULL;
    deferred_end = &deferred;
}

static void run_calls(struct sdi_call *calls)
{
    while (calls) {
        struct sdi_call *call = calls;
        calls = call->next;
        call->run(call);
        free(call);
    }
}

static void *run(void *argument)
{
    (void)argument;
    pthread_setname_np(pthread_self(), "sdi-callback");
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!first)
            pthread_cond_wait(&posted, &lock);
        struct sdi_call *calls = first;
        first = NULL;
        end = &first;
        pthread_mutex_unlock(&lock);
        run_calls(calls);
    }
    return NULL;
}

cl_int sdi_callback_start(void)
{
    pthread_mutex_lock(&lock);
    if (!started)
        started = sdi_start_thread(run, NULL) == 0;
    bool ok = started;
    pthread_mutex_unlock(&lock);
    return ok ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

void sdi_callback_post(struct sdi_call *calls)
{
    sdi_callback_start();
    pthread_mutex_lock(&lock);
    *end = calls;
    while (*end)
        end = &(*end)->next;
    pthread_cond_signal(&posted);
    pthread_mutex_unlock(&lock);
}

/* ---- destructor callbacks ------------------------------------------------------------------------------------- */

cl_int sdi_destructor_add(struct sdi_call **destructors, struct sdi_call given)
{
    struct sdi_call *call = malloc(sizeof *call);
    if (!call)
        return CL_OUT_OF_HOST_MEMORY;
    *call = given;
    sdi_lock();
    call->next = *destructors;
    *destructors = call;
    sdi_unlock();
    return CL_SUCCESS;
}

void sdi_defer(struct sdi_call *calls)
{
    *deferred_end = calls;
    while (*deferred_end)
        deferred_end = &(*deferred_end)->next;
}

static struct sdi_call *take_deferred(void)
{
    struct sdi_call *due = deferred;
    deferred = NULL;
    deferred_end = &deferred;
    return due;
}

/* What the application does in them may need those threads. */
static void run_deferred(struct sdi_call *due)
{
    if (sdi_on_completion_thread() || sdi_locks_around())
        sdi_callback_post(due);
    else
        run_calls(due);
}

SDI_AT_LOAD void register_all(void)
{
    sdi_register_fork(forget);
    sdi_register_unlock(take_deferred, run_deferred);
}
