/* How the service ended where nobody asked it to: it leaves the signal in the arena, and the client says it. */
#include "link/link.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define AFTER "; all calls of this program fail from now on"

/* By which kernels and drivers end a process. */
static const struct {
    int number;
    const char *name;
} signals[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGILL, "SIGILL"}, {SIGFPE, "SIGFPE"}, {SIGABRT, "SIGABRT"},
};
enum { NUM_SIGNALS = sizeof signals / sizeof *signals };

/* ---- in the service ------------------------------------------------------------------------------------------ */

static uint32_t *told;
static pid_t teller;
static struct sigaction before[NUM_SIGNALS];

/* The signal comes once more, for who had it before: what a fault came from runs again, what was sent is sent again. */
static void tell(int number, siginfo_t *information, void *context)
{
    (void)context;
    if (getpid() == teller) /* a child has the arena too */
        __atomic_store_n(told, (uint32_t)number, __ATOMIC_RELEASE);
    for (int i = 0; i < NUM_SIGNALS; i++)
        if (signals[i].number == number)
            sigaction(number, &before[i], NULL);
    if (information->si_code <= 0)
        raise(number);
}

EXPORTED void sdi_tell_signals(uint32_t *where);

/* For the service, not for applications: `where`, in the arena, has the signal by which this process ends from now on.
 * Drivers' compilers take these signals too, and let them end the process; PoCL carries on after divisions by zero, so that
 * one is a driver's where one has it. */
void sdi_tell_signals(uint32_t *where)
{
    const struct sigaction action = {.sa_sigaction = tell, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    told = where;
    teller = getpid();
    for (int i = 0; i < NUM_SIGNALS; i++)
        if (sigaction(signals[i].number, NULL, &before[i]) == 0
            && (signals[i].number != SIGFPE || before[i].sa_handler == SIG_DFL))
            sigaction(signals[i].number, &action, NULL);
}

/* ---- in the application -------------------------------------------------------------------------------------- */

/* Not where this process has closed the sockets, or leaves a service that is there. */
static bool has_hung_up(void)
{
    struct pollfd ends[] = {{.fd = sdi_session.commands, .events = POLLRDHUP},
                            {.fd = sdi_session.notices, .events = POLLRDHUP}};
    int seen = poll(ends, 2, 0) > 0 ? ends[0].revents | ends[1].revents : 0;
    return seen & (POLLRDHUP | POLLHUP) && !(seen & POLLNVAL);
}

void sdi_tell_end(void)
{
    const bool is_gone = has_hung_up();
    const uint32_t how = sdi_session.header ? __atomic_load_n(&sdi_session.header->ended, __ATOMIC_ACQUIRE) : 0;
    if (!is_gone || how == SDI_ENDED_BY_ITSELF) {
        sdi_log(is_gone ? "the service has ended" : "the service is left");
        return;
    }
    for (int i = 0; i < NUM_SIGNALS; i++)
        if ((uint32_t)signals[i].number == how) {
            sdi_complain("the service was ended by %s, perhaps by a kernel that stores outside of its buffers, or by a "
                         "driver" AFTER, signals[i].name);
            return;
        }
    sdi_complain("the service has ended and did not say why: it was killed, perhaps for want of memory, or a kernel or a "
                 "driver ended it" AFTER);
}
