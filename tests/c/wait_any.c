/* An application that reaps children in a thread: OpenCL must neither lose nor add any. */
#include "session.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

static atomic_int stop, signals, own_children, waits;

static void on_child(int number)
{
    (void)number;
    signals++;
}

/* Without a child of the application's own, each wait must fail at once. */
static void *reap(void *argument)
{
    (void)argument;
    while (!stop) {
        int status;
        pid_t pid = wait(&status);
        waits++;
        if (pid >= 0) {
            REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 77, "reaped %d with status %#x, a stranger",
                    (int)pid, (unsigned)status);
            own_children++;
        } else {
            REQUIRE(errno == ECHILD || errno == EINTR, "wait failed with errno %d", errno);
            sched_yield();
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t reaper;
    struct sigaction action = {.sa_handler = on_child};
    enum { CHILDREN = 5 };

    sigaction(SIGCHLD, &action, NULL);
    pthread_create(&reaper, NULL, reap, NULL);
    session_t s = session_start();
    for (cl_uint digit = 0; digit < 20; digit++)
        session_step(&s, digit % 10);
    REQUIRE(signals == 0 && own_children == 0, "%d signals, %d children", signals, own_children);
    int before = waits;
    while (waits < before + 1000)
        sched_yield();

    for (int k = 0; k < CHILDREN; k++) {
        pid_t child = fork();
        if (child == 0)
            _exit(77);
        REQUIRE(child > 0, "no fork");
        session_step(&s, (cl_uint)k);
        while (own_children <= k)
            sched_yield();
    }
    session_end(&s);
    stop = 1;
    pthread_join(reaper, NULL);
    REQUIRE(own_children == CHILDREN && signals >= 1 && signals <= CHILDREN, "%d children, %d signals",
            own_children, signals);
    printf("waits: ok\n");
    return 0;
}
