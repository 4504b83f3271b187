/* The command stream: what the client says, in a socket, and then in a ring of shared memory.
 *
 * With a socket each record costs the client a call of the kernel, and the player one to look for it.  So the client, once it
 * has seen that the service reads the ring, says so by its last record in the socket, and writes all others to the ring.
 * Where the service sleeps it sets `asleep` first, and looks at the ring once more; who sets that back wakes it by a byte in
 * the socket, which means nothing else.  The end of the socket is the end of the stream, when the ring is empty. */
#include "player.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RECEIVE_NBYTES = 1 << 18 };

static struct sdi_wire_ring *ring_of(const struct sdi_player *p)
{
    return (void *)(p->arena + SDI_RING_OFFSET);
}

/* How much is in the ring; more than it holds: the client writes to what isn't its own. */
static uint64_t ring_nbytes(const struct sdi_player *p)
{
    return p->uses_ring ? __atomic_load_n(&ring_of(p)->head, __ATOMIC_SEQ_CST) - p->ring_tail : 0;
}

static ssize_t take_from_ring(struct sdi_player *p)
{
    uint64_t nbytes = ring_nbytes(p);
    if (nbytes > SDI_RING_NBYTES)
        return -1;
    if (nbytes > p->room - p->tail)
        nbytes = p->room - p->tail;
    const char *bytes = p->arena + SDI_RING_BYTES_OFFSET;
    const uint64_t at = p->ring_tail % SDI_RING_NBYTES, left = SDI_RING_NBYTES - at;
    const uint64_t first = nbytes < left ? nbytes : left;
    memcpy(p->data + p->tail, bytes + at, first);
    memcpy(p->data + p->tail + first, bytes, nbytes - first);
    p->tail += nbytes;
    p->ring_tail += nbytes;
    __atomic_store_n(&ring_of(p)->tail, p->ring_tail, __ATOMIC_RELEASE);
    return (ssize_t)nbytes;
}

/* Bytes that woke us; 0: there may be more; -1: the application is gone. */
static ssize_t drain_socket(struct sdi_player *p)
{
    char bytes[64];
    ssize_t n;
    while ((n = recv(p->commands, bytes, sizeof bytes, MSG_DONTWAIT)) < 0 && errno == EINTR)
        ;
    if (n > 0)
        return 0;
    p->socket_speaks = false;
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
}

/* Room for that many bytes more than are unread, and as many as are received at once. */
static bool make_room(struct sdi_player *p, size_t wanted)
{
    if (p->head == p->tail)
        p->head = p->tail = 0;
    const size_t room = wanted + RECEIVE_NBYTES, unread = p->tail - p->head;
    if (p->room - p->head >= room)
        return true;
    if (p->room < room || unread > p->room / 2) {
        char *more = malloc(room + unread);
        if (!more)
            return false;
        if (unread)
            memcpy(more, p->data + p->head, unread);
        free(p->data);
        p->data = more;
        p->room = room + unread;
    } else {
        memmove(p->data, p->data + p->head, unread);
    }
    p->tail = unread;
    p->head = 0;
    return true;
}

/* More of the stream: bytes, 0 where there are none yet, -1 at its end. */
ssize_t input_receive(struct sdi_player *p, size_t wanted)
{
    if (!make_room(p, wanted))
        return -1;
    ssize_t n = p->uses_ring ? take_from_ring(p) : 0;
    if (n)
        return n;
    if (p->uses_ring) {
        if (!p->socket_speaks || drain_socket(p) == 0)
            return 0;
        n = take_from_ring(p); /* what was written before the application ended */
        return n ? n : -1;
    }
    while ((n = recv(p->commands, p->data + p->tail, p->room - p->tail, MSG_DONTWAIT)) < 0 && errno == EINTR)
        ;
    if (n > 0) {
        p->tail += (size_t)n;
        return n;
    }
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
}

/* The record that says so was taken.  What came behind it in the socket woke us, or tried to. */
void input_use_ring(struct sdi_player *p)
{
    p->uses_ring = true;
    p->head = p->tail = 0;
}

/* From now on the client wakes whoever polls the socket; false: there are records already. */
static bool fall_asleep(struct sdi_player *p)
{
    if (!p->uses_ring)
        return true;
    __atomic_store_n(&ring_of(p)->asleep, 1, __ATOMIC_SEQ_CST);
    if (!ring_nbytes(p))
        return true;
    __atomic_store_n(&ring_of(p)->asleep, 0, __ATOMIC_SEQ_CST);
    return false;
}

static void wake_up(struct sdi_player *p)
{
    if (p->uses_ring)
        __atomic_store_n(&ring_of(p)->asleep, 0, __ATOMIC_SEQ_CST);
}

static _Thread_local bool slack_is_set;

/* `reads`: the next record ends it too, and what is posted. */
void input_sleep(struct sdi_player *p, uint64_t ns, bool reads)
{
    struct pollfd ends[] = {
        {.fd = reads ? p->commands : -1, .events = POLLIN},
        {.fd = p->is_deaf ? p->notices : -1, .events = POLLOUT},
        {.fd = reads ? p->bell : -1, .events = POLLIN},
    };
    struct timespec most = {.tv_nsec = (long)ns};
    if (!slack_is_set) { /* else a nap takes 50 us more than it is asked for */
        prctl(PR_SET_TIMERSLACK, 1000);
        slack_is_set = true;
    }
    p->naps++;
    if (reads && !fall_asleep(p))
        return;
    if (reads)
        __atomic_store_n(&p->is_asleep, 1, __ATOMIC_SEQ_CST);
    if (!reads || !__atomic_load_n(&p->cells[CELL_POSTED], __ATOMIC_SEQ_CST))
        ppoll(ends, sizeof ends / sizeof *ends, &most, NULL);
    if (reads) {
        __atomic_store_n(&p->is_asleep, 0, __ATOMIC_SEQ_CST);
        wake_up(p);
    }
    if (ends[0].revents)
        p->socket_speaks = true;
    uint64_t rung;
    if (ends[2].revents && read(p->bell, &rung, sizeof rung) < 0)
        return; /* who rang has stopped to */
}

/* Whoever has the turn reads again; it may have polled the socket meanwhile. */
void input_begin(struct sdi_player *p)
{
    wake_up(p);
    p->socket_speaks = true;
}

/* ---- what Python asks ---------------------------------------------------------------------------------- */

/* The client may write to the ring from now on, whose memory is there. */
API void sdi_player_offer_ring(struct sdi_player *p)
{
    struct sdi_wire_arena_header *header = (void *)p->arena;
    p->offers_ring = true;
    __atomic_store_n(&header->has_ring, 1, __ATOMIC_RELEASE);
}

/* Something was posted: the player returns soon, even from sleep.  Any thread. */
API void sdi_player_poke(struct sdi_player *p)
{
    const uint64_t one = 1;
    __atomic_store_n(&p->cells[CELL_POSTED], 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&p->is_asleep, __ATOMIC_SEQ_CST) && write(p->bell, &one, sizeof one) < 0)
        return; /* it has been rung before, or there is none: it wakes up by itself */
}

/* Whether there are records in the ring. */
API bool sdi_player_is_told(const struct sdi_player *p)
{
    return ring_nbytes(p) != 0;
}

/* Python polls the socket next; false: there are records already. */
API bool sdi_player_may_sleep(struct sdi_player *p)
{
    return fall_asleep(p);
}
