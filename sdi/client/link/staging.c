/* Bytes of writes on their way to the service: through memory that both map, since a socket copies them twice, slowly.
 *
 * Memory is handed out from the front on, and from the front again when the service has taken all.  Small amounts stay
 * at the front, in the processor's caches. */
#include "link/link.h"

#include <time.h>

enum { NAP_NS = 20000, PATIENCE_NS = 10000000, FEW_NBYTES = 1 << 20 };

static uint64_t put_nbytes; /* handed out since the service was started */
static size_t used;         /* since all was taken */
static uint64_t no_room_at; /* so much was taken when somebody waited in vain, + 1 */

static void forget(void)
{
    put_nbytes = 0;
    used = 0;
    no_room_at = 0;
}

SDI_AT_FORK(forget)

void sdi_unstage(size_t nbytes)
{
    put_nbytes -= nbytes;
}

bool sdi_has_staged_much(void)
{
    return put_nbytes - __atomic_load_n(&sdi_session.header->taken_nbytes, __ATOMIC_RELAXED) > FEW_NBYTES;
}

/* NULL: there is no room, and may be none until what members do is done, which may be waiting for the application. */
char *sdi_stage(size_t nbytes)
{
    char *found = NULL;
    uint64_t since = 0;
    sdi_lock();
    while (!found && !sdi_session_dead()) {
        if (__atomic_load_n(&sdi_session.header->taken_nbytes, __ATOMIC_ACQUIRE) == put_nbytes)
            used = 0;
        if (nbytes <= SDI_STAGING_NBYTES - used) {
            found = sdi_session.arena + SDI_STAGING_OFFSET + used;
            used += (nbytes + 63) & ~(size_t)63;
            put_nbytes += nbytes;
            break;
        }
        const uint64_t now = sdi_now_ns(), taken = __atomic_load_n(&sdi_session.header->taken_nbytes, __ATOMIC_RELAXED);
        since = since ? since : now;
        if (no_room_at == taken + 1)
            break;
        if (now - since > PATIENCE_NS) {
            no_room_at = taken + 1;
            break;
        }
        sdi_unlock();
        sdi_speak_up();
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        sdi_session_check();
        sdi_lock();
    }
    sdi_unlock();
    return found;
}
