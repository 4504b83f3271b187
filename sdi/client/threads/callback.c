/* The caller thread: runs callbacks, which may call any OpenCL function; started when first needed. */
#include "client.h"

#include <pthread.h>
#include <signal.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER;
static struct sdi_call *first, **end = &first;
static bool started;

void sdi_caller_forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    posted = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    first = NULL;
    end = &first;
    started = false;
}

int sdi_start_thread(void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return -1;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    sigdelset(&all, SIGSEGV); /* memory of the application that its own handler makes accessible */
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error ? -1 : 0;
}

void sdi_run_calls(struct sdi_call *calls)
{
    while (calls) {
        struct sdi_call *call = calls;
        calls = call->next;
        switch (call->what) {
        case SDI_CALL_EVENT:
            if (call->status <= 0)
                sdi_host_show();
            call->function.event(call->object, call->status, call->data);
            sdi_lock();
            sdi_unhold(call->object);
            sdi_unlock();
            break;
        case SDI_CALL_ERROR:
            call->function.error(call->text, NULL, 0, call->data);
            free(call->text);
            sdi_lock();
            sdi_unhold(call->object);
            sdi_unlock();
            break;
        case SDI_CALL_BUFFER:
            call->function.buffer(call->object, call->data);
            break;
        case SDI_CALL_CONTEXT:
            call->function.context(call->object, call->data);
            break;
        }
        free(call);
    }
}

static void *run(void *argument)
{
    (void)argument;
    pthread_setname_np(pthread_self(), "sdi-caller");
    for (;;) {
        pthread_mutex_lock(&lock);
        while (!first)
            pthread_cond_wait(&posted, &lock);
        struct sdi_call *calls = first;
        first = NULL;
        end = &first;
        pthread_mutex_unlock(&lock);
        sdi_run_calls(calls);
    }
    return NULL;
}

cl_int sdi_caller_start(void)
{
    pthread_mutex_lock(&lock);
    if (!started)
        started = sdi_start_thread(run, NULL) == 0;
    bool ok = started;
    pthread_mutex_unlock(&lock);
    return ok ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

void sdi_caller_post(struct sdi_call *calls)
{
    sdi_caller_start();
    pthread_mutex_lock(&lock);
    *end = calls;
    while (*end)
        end = &(*end)->next;
    pthread_cond_signal(&posted);
    pthread_mutex_unlock(&lock);
}
