/* Python programs that are interrupted while they wait for the service.
 *
 * Python's own handler of SIGINT only notes it; what the program wants done runs when the call into this library returns,
 * which may be minutes later.  So a wait that goes on although it was interrupted runs Python's handlers itself, as Python
 * asks libraries to; where one raises (KeyboardInterrupt), the wait fails, and the exception is raised as soon as Python
 * code goes on.  Programs without Python do, as ever, what their handlers say.
 *
 * Python's lock is taken only after SIGINT: who has it may wait for what this thread has.  A wait that is woken by a
 * signal can't see which; and one whose time is over when the signal comes does not see it at all.  So waits that last
 * longer put a handler before Python's. */
#include "link/link.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATIENCE_NS = 200 * 1000 * 1000 }; /* most waits are over before anybody has to ask */

static uint64_t signalled_ns; /* atomic; 0: no signal since the main thread last asked Python */
static struct sigaction pythons; /* what was to be done at SIGINT before `note` */
static void (*give_up)(void);

void sdi_register_interrupt(void (*run)(void))
{
    give_up = run;
}

/* Python's, if this process has one where all can see it. */
struct python {
    int (*is_initialized)(void), (*ensure)(void), (*check_signals)(void);
    void (*release)(int), (*fetch)(void **, void **, void **), (*restore)(void *, void *, void *), (*drop)(void *);
    int (*set_async)(unsigned long, void *);
    unsigned long (*thread)(void);
};

static bool find(struct python *python)
{
    struct {
        const char *name;
        void *function;
    } const wanted[] = {
        {"Py_IsInitialized", &python->is_initialized}, {"PyGILState_Ensure", &python->ensure},
        {"PyErr_CheckSignals", &python->check_signals}, {"PyGILState_Release", &python->release},
        {"PyErr_Fetch", &python->fetch}, {"PyErr_Restore", &python->restore}, {"Py_DecRef", &python->drop},
        {"PyThreadState_SetAsyncExc", &python->set_async}, {"PyThread_get_thread_ident", &python->thread},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = dlsym(RTLD_DEFAULT, wanted[i].name);
        if (!found)
            return false;
        memcpy(wanted[i].function, &found, sizeof found);
    }
    return python->is_initialized();
}

/* Runs the handlers of what was signalled; whether one raised: then its exception is raised in this thread later. */
static bool raises(void)
{
    struct python python;
    if (!find(&python))
        return false;
    void *before[3], *raised[3];
    int state = python.ensure();
    python.fetch(&before[0], &before[1], &before[2]);
    bool has_raised = python.check_signals() != 0;
    if (has_raised) {
        python.fetch(&raised[0], &raised[1], &raised[2]);
        python.set_async(python.thread(), raised[0]);
        for (int i = 0; i < 3; i++)
            python.drop(raised[i]);
    }
    python.restore(before[0], before[1], before[2]);
    python.release(state);
    return has_raised;
}

static void note(int number, siginfo_t *info, void *context)
{
    __atomic_store_n(&signalled_ns, sdi_now_ns(), __ATOMIC_RELAXED);
    if (pythons.sa_flags & SA_SIGINFO)
        pythons.sa_sigaction(number, info, context);
    else
        pythons.sa_handler(number);
}

enum listening { NEVER, BEGINS, LISTENS };

/* Has `note` run at SIGINT, if Python's own handler would. */
static enum listening listen(void)
{
    struct sigaction now;
    Dl_info handler, python;
    void *check = dlsym(RTLD_DEFAULT, "PyErr_CheckSignals");
    if (!check || sigaction(SIGINT, NULL, &now) != 0)
        return NEVER;
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == note)
        return LISTENS;
    void *runs = now.sa_flags & SA_SIGINFO ? (void *)now.sa_sigaction : (void *)now.sa_handler;
    if (!dladdr(runs, &handler) || !dladdr(check, &python) || handler.dli_fbase != python.dli_fbase)
        return NEVER;
    pythons = now;
    now.sa_flags |= SA_SIGINFO;
    now.sa_sigaction = note;
    return sigaction(SIGINT, &now, NULL) == 0 ? BEGINS : NEVER;
}

/* A wait may be longer than a moment, and not be asleep: no signal would end it. */
void sdi_listen(void)
{
    if (syscall(SYS_gettid) == getpid())
        listen();
}

bool sdi_interrupted(int error)
{
    uint64_t since_ns = __atomic_load_n(&signalled_ns, __ATOMIC_RELAXED);
    if (!since_ns && error != EINTR && error != ETIMEDOUT)
        return false;
    if (syscall(SYS_gettid) != getpid()) /* only the main thread runs Python's handlers */
        return false;
    enum listening before = listen();
    if (before == BEGINS && error == EINTR && !since_ns) /* it may have been SIGINT */
        __atomic_store_n(&signalled_ns, since_ns = sdi_now_ns(), __ATOMIC_RELAXED);
    if (before == NEVER || !since_ns || sdi_now_ns() - since_ns < PATIENCE_NS)
        return false;
    __atomic_store_n(&signalled_ns, 0, __ATOMIC_RELAXED);
    if (!raises())
        return false;
    give_up();
    return true;
}
