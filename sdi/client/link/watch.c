/* For the service, not for applications: it ends when its client has ended, whatever its threads do (sdi/service/watch.py).
 * In C, as a driver that never returns may keep Python from running anything at all. */
#include "link/link.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

/* What Python says, at any time: how long it may be silent after the end of the client; its signs of life. */
struct signs {
    int patience_ms, beats;
};

struct watch {
    int end;
    const struct signs *signs;
};

static void *watch(void *argument)
{
    struct watch given = *(struct watch *)argument;
    struct pollfd look = {.fd = given.end, .events = POLLRDHUP};
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    free(argument);
    while (poll(&look, 1, -1) < 0 && errno == EINTR)
        ;
    int seen = 0;
    for (uint64_t now_ns = sdi_now_ns(), seen_ns = now_ns;; now_ns = sdi_now_ns()) {
        int beats = __atomic_load_n(&given.signs->beats, __ATOMIC_ACQUIRE);
        if (beats != seen)
            seen_ns = now_ns;
        seen = beats;
        if (now_ns - seen_ns > (uint64_t)__atomic_load_n(&given.signs->patience_ms, __ATOMIC_ACQUIRE) * 1000000)
            _exit(1);
        nanosleep(&pause, NULL);
    }
}

EXPORTED int sdi_watch_client(int end, const struct signs *signs);

/* Ends this process when the other end of the socket is closed and Python is silent for longer than `signs`, which stay
 * where they are, say; 0, or -1: no thread can be had. */
int sdi_watch_client(int end, const struct signs *signs)
{
    struct watch *given = malloc(sizeof *given);
    if (!given)
        return -1;
    *given = (struct watch){end, signs};
    if (sdi_start_thread(watch, given) == 0)
        return 0;
    free(given);
    return -1;
}
