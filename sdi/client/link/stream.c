/* The command stream: records to the service under the client lock, replies to whoever asked.
 *
 * Several threads may wait for replies (a long build, a new buffer).  One of them reads the socket and hands each
 * reply to the thread it belongs to; when it has its own, another takes over. */
#include "link/link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SDI_STALL_MS /* tests have less patience */
#define SDI_STALL_MS 10000
#endif

struct waiter {
    struct waiter *next;
    uint64_t id;
    bool done;
    struct sdi_reply reply;
};

static pthread_mutex_t reply_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reply_arrived = PTHREAD_COND_INITIALIZER;
static struct waiter *waiters;
static bool reading;
enum { NUM_ABANDONED = 64 }; /* the replies that nobody waits for any more */
static uint64_t abandoned[NUM_ABANDONED];
static unsigned num_abandoned;

enum { CHECK_AFTER = 32 }; /* records for which the socket has room when a quarter of it at most is full */
static unsigned num_unchecked; /* atomic: sent since somebody looked whether there is room, or the service lives */

static bool in_ring;  /* client lock; or atomic: records go to the ring, and none to the socket any more */
static uint64_t head; /* likewise: what was written to it */
static bool has_quiet; /* atomic: the ring has records that the service may not have been woken for */

enum { NAP_LEAST_NS = 20000, NAP_MOST_NS = 2000000, INTERRUPTIBLE_NS = 100000000 };

static void forget(void)
{
    reply_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    reply_arrived = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    waiters = NULL;
    reading = false;
    num_abandoned = 0;
    in_ring = has_quiet = false;
    head = 0;
}

SDI_AT_FORK(forget)

static struct sdi_wire_ring *ring_of_session(void)
{
    return (struct sdi_wire_ring *)(sdi_session.arena + SDI_RING_OFFSET);
}

/* Any thread.  How much of the ring the service has not read. */
static uint64_t unread(void)
{
    const uint64_t tail = __atomic_load_n(&ring_of_session()->tail, __ATOMIC_ACQUIRE); /* before `head`, which is ahead */
    return __atomic_load_n(&head, __ATOMIC_ACQUIRE) - tail;
}

/* For a part of what it has waited; whether a signal ended that. */
static bool nap(uint64_t waited_ns)
{
    const uint64_t part = waited_ns / 16;
    const struct timespec most = {.tv_nsec = (long)(part < NAP_LEAST_NS ? NAP_LEAST_NS : part > NAP_MOST_NS ? NAP_MOST_NS : part)};
    return nanosleep(&most, NULL) != 0 && errno == EINTR;
}

bool sdi_send_all(int fd, const char *at, size_t nbytes)
{
    while (nbytes) {
        ssize_t n = send(fd, at, nbytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += n;
        nbytes -= (size_t)n;
    }
    return true;
}

static cl_int send_by_socket(const char *at, size_t nbytes)
{
    if (sdi_send_all(sdi_session.commands, at, nbytes))
        return CL_SUCCESS;
    sdi_session_died();
    return CL_OUT_OF_RESOURCES;
}

/* What is in the ring is the service's to see: wake it if it sleeps.  The bytes come before the look at whether it does, as
 * it looks at the bytes after it has said so. */
static cl_int wake_service(void)
{
    struct sdi_wire_ring *ring = ring_of_session();
    if (!__atomic_load_n(&ring->asleep, __ATOMIC_SEQ_CST) || !__atomic_exchange_n(&ring->asleep, 0, __ATOMIC_SEQ_CST))
        return CL_SUCCESS;
    return send_by_socket("", 1);
}

void sdi_speak_up(void)
{
    if (__atomic_load_n(&has_quiet, __ATOMIC_RELAXED) && __atomic_exchange_n(&has_quiet, false, __ATOMIC_RELAXED))
        wake_service();
}

static cl_int send_by_ring(const char *at, size_t nbytes, bool quietly)
{
    struct sdi_wire_ring *ring = ring_of_session();
    char *bytes = sdi_session.arena + SDI_RING_BYTES_OFFSET;
    uint64_t waited = 0;
    while (nbytes) {
        const uint64_t to = head % SDI_RING_NBYTES, room = SDI_RING_NBYTES - unread();
        const size_t now = SDI_MIN(SDI_MIN(nbytes, (size_t)room), (size_t)(SDI_RING_NBYTES - to));
        if (!now) {
            wake_service();
            waited = waited ? waited : sdi_now_ns();
            nap(sdi_now_ns() - waited);
            if (sdi_session_check())
                return CL_OUT_OF_RESOURCES;
            continue;
        }
        memcpy(bytes + to, at, now);
        __atomic_store_n(&head, head + now, __ATOMIC_RELAXED);
        __atomic_store_n(&ring->head, head, __ATOMIC_SEQ_CST);
        at += now;
        nbytes -= now;
        if (!quietly && wake_service())
            return CL_OUT_OF_RESOURCES;
    }
    __atomic_store_n(&has_quiet, quietly, __ATOMIC_RELAXED);
    return CL_SUCCESS;
}

/* The service reads the ring by now: the socket's last record says that the others are there. */
static cl_int use_ring(void)
{
    const struct sdi_wire_header last = {.nbytes = sizeof last, .op = SDI_OP_RING};
    cl_int status = send_by_socket((const char *)&last, sizeof last);
    __atomic_store_n(&in_ring, status == CL_SUCCESS, __ATOMIC_RELAXED);
    return status;
}

static cl_int send_records(const void *records, size_t nbytes, bool quietly)
{
    const unsigned unchecked = __atomic_load_n(&num_unchecked, __ATOMIC_RELAXED) + 1;
    __atomic_store_n(&num_unchecked, in_ring ? unchecked % CHECK_AFTER : unchecked, __ATOMIC_RELAXED);
    if (!sdi_session.running || sdi_session_dead())
        return CL_OUT_OF_RESOURCES;
    if (in_ring && unchecked == CHECK_AFTER && sdi_session_check()) /* the ring says nothing of it */
        return CL_OUT_OF_RESOURCES;
    if (!in_ring && __atomic_load_n(&sdi_session.header->has_ring, __ATOMIC_ACQUIRE) && use_ring())
        return CL_OUT_OF_RESOURCES;
    return in_ring ? send_by_ring(records, nbytes, quietly) : send_by_socket(records, nbytes);
}

cl_int sdi_send(const void *records, size_t nbytes)
{
    return send_records(records, nbytes, false);
}

cl_int sdi_send_quietly(const void *records, size_t nbytes)
{
    return send_records(records, nbytes, !sdi_has_spare_cores());
}

void sdi_send_bare(uint32_t op, uint64_t id)
{
    struct sdi_wire_header record = {.nbytes = sizeof record, .op = op, .id = id};
    sdi_send(&record, sizeof record);
}

cl_int sdi_send_status(uint32_t op, uint64_t id, cl_int status)
{
    struct sdi_rec_transfer_done record = {.nbytes = sizeof record, .op = op, .id = id, .status = status};
    _Static_assert(sizeof(struct sdi_rec_set_user_event) == sizeof record, "records with a status");
    _Static_assert(sizeof(struct sdi_rec_watch) == sizeof record, "records with a status");
    return sdi_send(&record, sizeof record);
}

bool sdi_rest_comes(int end)
{
    struct pollfd look = {.fd = end, .events = POLLIN};
    int ready;
    while ((ready = poll(&look, 1, SDI_STALL_MS)) < 0 && errno == EINTR)
        ;
    if (ready == 0)
        sdi_complain("the service stopped in the middle of what it said");
    return ready > 0;
}

bool sdi_receive(int end, void *data, size_t nbytes, bool begun, int *passed)
{
    char *at = data;
    while (nbytes) {
        if (begun && !sdi_rest_comes(end))
            return false;
        char control[CMSG_SPACE(SDI_PASSED_MAX * sizeof(int))];
        struct iovec piece = {.iov_base = at, .iov_len = nbytes};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
        message.msg_control = passed ? control : NULL;
        message.msg_controllen = passed ? sizeof control : 0;
        ssize_t n = recvmsg(end, &message, MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
            if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
                size_t num = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                for (size_t i = 0; i < num && i < SDI_PASSED_MAX; i++) {
                    if (passed[i] >= 0)
                        close(passed[i]);
                    memcpy(&passed[i], CMSG_DATA(c) + i * sizeof(int), sizeof(int));
                }
            }
        at += n;
        nbytes -= (size_t)n;
        begun = true;
    }
    return true;
}

/* Reads one reply; false: the service is gone, or out of step. */
static bool read_reply(uint64_t *id, struct sdi_reply *reply)
{
    struct sdi_rec_reply record;
    *reply = (struct sdi_reply){.status = CL_OUT_OF_RESOURCES};
    if (!sdi_receive(sdi_session.commands, &record, sizeof record, false, NULL) || record.op != SDI_OP_REPLY
        || record.status > 0 || record.nbytes > SDI_MAX_RECORD_NBYTES || record.payload_nbytes > SDI_MAX_RECORD_NBYTES
        || record.nbytes != sizeof record + sdi_padded(record.payload_nbytes))
        return false;
    size_t rest = record.nbytes - sizeof record;
    if (rest) {
        reply->payload = malloc(rest);
        if (!reply->payload || !sdi_receive(sdi_session.commands, reply->payload, rest, true, NULL)) {
            free(reply->payload);
            reply->payload = NULL;
            return false;
        }
    }
    *id = record.id;
    reply->status = record.status;
    reply->value = record.value;
    reply->payload_nbytes = record.payload_nbytes;
    return true;
}

static bool is_abandoned(uint64_t id)
{
    for (unsigned i = 0; i < SDI_MIN(num_abandoned, (unsigned)NUM_ABANDONED); i++)
        if (abandoned[i] == id)
            return true;
    return false;
}

static void remove_waiter(struct waiter *gone)
{
    struct waiter **at = &waiters;
    while (*at && *at != gone)
        at = &(*at)->next;
    if (*at)
        *at = gone->next;
}

/* No lock held.  Waits for `events` at the socket, or what is wrong with it; false: interrupted. */
static bool await_socket(short events)
{
    struct pollfd look = {.fd = sdi_session.commands, .events = events};
    for (;;) {
        int ready = poll(&look, 1, 100);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return true;
        if (sdi_interrupted(ready < 0 ? EINTR : ETIMEDOUT))
            return false;
    }
}

/* No lock held.  Waits until a quarter of the ring at least is free, which is asked before each command: so others rarely
 * wait for room with the lock.  False: interrupted. */
static bool await_ring(void)
{
    uint64_t since = 0, asked = 0;
    while (unread() > SDI_RING_NBYTES / 4 * 3) {
        sdi_speak_up();
        const uint64_t now = sdi_now_ns();
        asked = since ? asked : now;
        since = since ? since : now;
        const int error = nap(now - since) ? EINTR : now - asked > INTERRUPTIBLE_NS ? ETIMEDOUT : 0;
        if (error == ETIMEDOUT)
            asked = now;
        if (sdi_session_dead())
            return true;
        if (error && (sdi_session_check() || sdi_interrupted(error)))
            return sdi_session_dead();
    }
    return true;
}

bool sdi_await_room(void)
{
    if (__atomic_load_n(&in_ring, __ATOMIC_RELAXED))
        return await_ring();
    if (__atomic_load_n(&num_unchecked, __ATOMIC_RELAXED) < CHECK_AFTER)
        return true;
    __atomic_store_n(&num_unchecked, 0, __ATOMIC_RELAXED);
    return await_socket(POLLOUT);
}

/* Reply lock held on entry and return.  False: interrupted. */
static bool read_for_all(void)
{
    uint64_t id = 0;
    struct sdi_reply reply;
    reading = true;
    pthread_mutex_unlock(&reply_lock);
    bool is_there = await_socket(POLLIN), ok = is_there && read_reply(&id, &reply);
    pthread_mutex_lock(&reply_lock);
    reading = false;
    if (!is_there) {
        pthread_cond_broadcast(&reply_arrived);
        return false;
    }
    struct waiter *owner = waiters;
    while (ok && owner && owner->id != id)
        owner = owner->next;
    if (ok && owner) {
        owner->reply = reply;
        owner->done = true;
        remove_waiter(owner);
    } else if (ok && is_abandoned(id)) {
        free(reply.payload);
    } else { /* gone, or out of step: nobody has asked for this */
        free(reply.payload);
        sdi_session_died();
    }
    pthread_cond_broadcast(&reply_arrived);
    return true;
}

struct sdi_reply sdi_ask(const void *record, size_t nbytes)
{
    struct waiter waiter = {.id = ((const struct sdi_wire_header *)record)->id};
    waiter.reply.status = CL_OUT_OF_RESOURCES;
    pthread_mutex_lock(&reply_lock);
    waiter.next = waiters;
    waiters = &waiter;
    pthread_mutex_unlock(&reply_lock);

    sdi_lock();
    bool sent = sdi_send(record, nbytes) == CL_SUCCESS;
    sdi_unlock();

    pthread_mutex_lock(&reply_lock);
    while (sent && !waiter.done && !sdi_session_dead()) {
        if (reading)
            pthread_cond_wait(&reply_arrived, &reply_lock);
        else if (!read_for_all())
            break;
    }
    if (!waiter.done) {
        remove_waiter(&waiter);
        if (sent)
            abandoned[num_abandoned++ % NUM_ABANDONED] = waiter.id;
    }
    pthread_mutex_unlock(&reply_lock);
    return waiter.reply;
}
