/* A program to which a service says all that services say: "short_client TRIAL ..." runs once for each trial, a value of
 * SDI_FAKE_SHORT, in processes of their own, several at a time, and puts out "TRIAL: what happened". */
#define CL_TARGET_OPENCL_VERSION 300
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <CL/cl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AT_ONCE = 48, LIMIT_S = 60, WRONG = 99, INTERRUPTS_PER_S = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static int event_told = 1, error_told = 1;

static void hear_event(cl_event event, cl_int status, void *data)
{
    (void)event, (void)data;
    pthread_mutex_lock(&lock);
    event_told = status;
    pthread_cond_broadcast(&told);
    pthread_mutex_unlock(&lock);
}

static void hear_error(const char *text, const void *more, size_t nbytes, void *data)
{
    (void)more, (void)nbytes, (void)data;
    pthread_mutex_lock(&lock);
    error_told = strcmp(text, "fill failed") == 0 ? 0 : CL_OUT_OF_RESOURCES;
    pthread_cond_broadcast(&told);
    pthread_mutex_unlock(&lock);
}

static int until_told(const int *what)
{
    pthread_mutex_lock(&lock);
    while (*what > 0)
        pthread_cond_wait(&told, &lock);
    int status = *what;
    pthread_mutex_unlock(&lock);
    return status;
}

#define TRY(call) \
    do { \
        status = (call); \
        if (status) \
            return status; \
    } while (0)
#define MAKE(what, call) \
    do { \
        what = (call); \
        if (status) \
            return status; \
    } while (0)

/* 0: all was said and is right. */
static cl_int all_that_is_said(void)
{
    static const char *source = "kernel void k() {}", *options = "";
    static char host[4096];
    const size_t one = 1;
    cl_int status = 0, zero = 0, final;
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_mem buffer;
    cl_program program, part, linked;
    cl_kernel kernel;
    cl_event event;
    TRY(clGetPlatformIDs(1, &platform, NULL));
    TRY(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    MAKE(context, clCreateContext(NULL, 1, &device, hear_error, NULL, &status));
    MAKE(queue, clCreateCommandQueueWithProperties(context, device, NULL, &status));
    MAKE(buffer, clCreateBuffer(context, 0, sizeof host, NULL, &status));
    MAKE(program, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    TRY(clBuildProgram(program, 1, &device, options, NULL, NULL));
    MAKE(kernel, clCreateKernel(program, "k", &status));
    MAKE(part, clCreateProgramWithSource(context, 1, &source, NULL, &status));
    TRY(clCompileProgram(part, 1, &device, options, 0, NULL, NULL, NULL, NULL));
    MAKE(linked, clLinkProgram(context, 1, &device, options, 1, &part, NULL, NULL, &status));
    TRY(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, &event));
    TRY(clWaitForEvents(1, &event));
    TRY(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, sizeof host, host, 0, NULL, &event));
    TRY(clWaitForEvents(1, &event));
    TRY(clEnqueueMarkerWithWaitList(queue, 0, NULL, &event));
    TRY(clSetEventCallback(event, CL_COMPLETE, hear_event, NULL));
    TRY(until_told(&event_told));
    TRY(clEnqueueFillBuffer(queue, buffer, &zero, sizeof zero, 0, sizeof host, 0, NULL, &event));
    TRY(until_told(&error_told));
    TRY(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof final, &final, NULL));
    return linked && final == CL_OUT_OF_RESOURCES ? 0 : WRONG;
}

/* Handles a signal so that calls of the kernel end early, now and then. */
static void interrupt(int number)
{
    static int times;
    if (++times == LIMIT_S * INTERRUPTS_PER_S)
        signal(number, SIG_DFL); /* it hangs */
}

static void be_interrupted(void)
{
    const struct sigaction early = {.sa_handler = interrupt};
    const struct timeval often = {.tv_usec = 1000000 / INTERRUPTS_PER_S};
    sigaction(SIGALRM, &early, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){often, often}, NULL);
}

static void try_once(const char *trial)
{
    setenv("SDI_FAKE_SHORT", trial, 1);
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
        _exit(WRONG);
    if (strstr(trial, " late"))
        be_interrupted();
    else
        alarm(LIMIT_S);
    _exit(-all_that_is_said());
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IONBF, 0); /* or children would put out again what was put out before */
    pid_t running[AT_ONCE] = {0};
    int which[AT_ONCE], next = 1, ended = 0;
    while (ended < argc - 1) {
        for (int i = 0; i < AT_ONCE && next < argc; i++)
            if (!running[i]) {
                which[i] = next++;
                running[i] = fork();
                if (running[i] == 0)
                    try_once(argv[which[i]]);
            }
        int status;
        pid_t pid = wait(&status);
        for (int i = 0; i < AT_ONCE; i++)
            if (running[i] == pid) {
                running[i] = 0;
                ended++;
                if (WIFEXITED(status))
                    printf("%s: %d\n", argv[which[i]], WEXITSTATUS(status));
                else
                    printf("%s: %s\n", argv[which[i]], WTERMSIG(status) == SIGALRM ? "hangs" : "crashes");
            }
    }
    return 0;
}
