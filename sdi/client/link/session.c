/* The session with the service of this process: what is known of it, and whether it lives. */
#include "link/link.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

struct sdi_session sdi_session = {.commands = -1, .notices = -1};

static void forget(void) /* the arena isn't there (MADV_DONTFORK) */
{
    if (sdi_session.commands >= 0)
        close(sdi_session.commands);
    if (sdi_session.notices >= 0)
        close(sdi_session.notices);
    memset(&sdi_session, 0, sizeof sdi_session);
    sdi_session.commands = sdi_session.notices = -1;
}

SDI_AT_FORK(forget)

void sdi_session_died(void)
{
    if (__atomic_exchange_n(&sdi_session.dead, true, __ATOMIC_ACQ_REL))
        return;
    sdi_tell_end();
    shutdown(sdi_session.commands, SHUT_RDWR); /* if not, it ends now, and who reads, sees it */
    shutdown(sdi_session.notices, SHUT_RDWR);
    sdi_epoch_wake();
}

bool sdi_session_check(void)
{
    if (!sdi_session.running || sdi_session_dead())
        return true;
    struct pollfd look = {.fd = sdi_session.commands, .events = POLLRDHUP};
    if (poll(&look, 1, 0) > 0 && look.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL))
        sdi_session_died();
    return sdi_session_dead();
}
