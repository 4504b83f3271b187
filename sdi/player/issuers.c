/* Issuers: threads that give CUDA members their calls, so that a launch on several costs about what one does.
 *
 * The player decides what is called, and in which order; an issuer makes the calls of one member, one after the other.  A
 * stream's wait is made once its event was recorded, by whichever issuer.  An issuer that has had nothing to do for a
 * while sleeps, and the player makes its member's calls itself until these come often: waking it takes longer than a
 * few calls do. */
#include "player.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ASLEEP, WAKING, AWAKE };

enum {
    RING_NBYTES = 1 << 18,    /* more than the largest call's; a power of two */
    IDLE_NS = 300000,         /* so long an issuer asks for calls before it sleeps */
    OFTEN_NS = 100000,        /* commands that come within this come often */
    CALLS_ALIGNMENT = 16,
};

#define DONE(issuer) __atomic_load_n(&(issuer)->done, __ATOMIC_ACQUIRE)

static int make(const struct cuda_table *cuda, const struct call *call, void *block)
{
    switch (call->kind) {
    case CALL_LAUNCH: {
        size_t nbytes = call->block_nbytes;
        void *extra[] = {(void *)1, block, (void *)2, &nbytes, NULL};
        return cuda->launch(call->object, call->groups[0], call->groups[1], call->groups[2], call->local[0], call->local[1],
                            call->local[2], call->shared, call->stream, NULL, extra);
    }
    case CALL_UPLOAD:
        return cuda->upload(call->to, (const void *)(uintptr_t)call->from, call->count, call->stream);
    case CALL_DOWNLOAD:
        return cuda->download((void *)(uintptr_t)call->to, call->from, call->count, call->stream);
    case CALL_COPY:
        return cuda->copy(call->to, call->from, call->count, call->stream);
    case CALL_COPY_PEER:
        return cuda->copy_peer(call->to, call->object, call->from, call->other, call->count, call->stream);
    case CALL_FILL_BYTES:
        return cuda->fill_bytes(call->to, (unsigned char)call->word, call->count, call->stream);
    case CALL_FILL_SHORTS:
        return cuda->fill_shorts(call->to, (unsigned short)call->word, call->count, call->stream);
    case CALL_FILL_WORDS:
        return cuda->fill_words(call->to, call->word, call->count, call->stream);
    case CALL_COPY_ROWS: {
        const struct cuda_rows rows = {.from_type = CU_MEMORYTYPE_UNIFIED, .from = call->from, .from_pitch = call->from_pitch,
                                       .to_type = CU_MEMORYTYPE_UNIFIED, .to = call->to, .to_pitch = call->to_pitch,
                                       .nbytes = call->count, .count = call->num_runs};
        return cuda->copy_rows(&rows, call->stream);
    }
    case CALL_RECORD:
        return cuda->event_record(call->object, call->stream);
    default:
        return cuda->stream_wait(call->stream, call->object, 0);
    }
}

/* Until the event that a call waits for was recorded; the failure of whoever was to record it, or 0. */
static int await_recorded(const struct issuer *all, const struct call *call)
{
    const struct issuer *other = &all[call->from];
    while (DONE(other) < call->after)
        sched_yield();
    return call->after ? __atomic_load_n(&other->status, __ATOMIC_RELAXED) : 0;
}

/* ---- the issuer's side --------------------------------------------------------------------------------- */

/* Make a call, unless one before it has failed. */
static void take(struct issuer *issuer, const struct call *call)
{
    int status = __atomic_load_n(&issuer->status, __ATOMIC_RELAXED);
    if (!status && call->kind == CALL_WAIT)
        status = await_recorded(issuer->all, call);
    if (!status)
        status = make(issuer->cuda, call, (char *)(uintptr_t)call + sizeof *call);
    if (status) {
        uint64_t *refused = &issuer->refused[call->lane / issuer->num_members];
        *refused = *refused ? *refused : call->number;
        __atomic_store_n(&issuer->status, status, __ATOMIC_RELAXED);
    }
}

/* Sleep until there are calls, or it is over. */
static void sleep_until_woken(struct issuer *issuer)
{
    __atomic_store_n(&issuer->state, ASLEEP, __ATOMIC_SEQ_CST);
    const bool is_idle = __atomic_load_n(&issuer->pushed, __ATOMIC_SEQ_CST) == issuer->popped
                         && !__atomic_load_n(&issuer->is_over, __ATOMIC_SEQ_CST);
    while (is_idle && __atomic_load_n(&issuer->state, __ATOMIC_SEQ_CST) == ASLEEP)
        syscall(SYS_futex, &issuer->state, FUTEX_WAIT_PRIVATE, ASLEEP, NULL, NULL, 0);
    __atomic_store_n(&issuer->state, AWAKE, __ATOMIC_SEQ_CST);
}

static void *go_on(void *of)
{
    struct issuer *issuer = of;
    int status = issuer->cuda->set_current(issuer->context);
    __atomic_store_n(&issuer->status, status, __ATOMIC_RELAXED);
    __atomic_store_n(&issuer->state, AWAKE, __ATOMIC_SEQ_CST);
    uint64_t idle_since = sdi_player_now();
    for (;;) {
        const uint64_t pushed = __atomic_load_n(&issuer->pushed, __ATOMIC_ACQUIRE);
        uint64_t popped = issuer->popped;
        if (popped == pushed) {
            if (__atomic_load_n(&issuer->is_over, __ATOMIC_ACQUIRE))
                return NULL;
            if (sdi_player_now() - idle_since < IDLE_NS) {
                sched_yield();
            } else {
                sleep_until_woken(issuer);
                idle_since = sdi_player_now();
            }
            continue;
        }
        while (popped != pushed) {
            const struct call *call = (const void *)(issuer->ring + popped % RING_NBYTES);
            const uint64_t sequence = call->kind == CALL_NONE ? 0 : call->sequence;
            if (sequence)
                take(issuer, call);
            popped += call->nbytes;
            __atomic_store_n(&issuer->popped, popped, __ATOMIC_RELEASE);
            if (sequence)
                __atomic_store_n(&issuer->done, sequence, __ATOMIC_RELEASE);
        }
        idle_since = sdi_player_now();
    }
}

/* ---- the player's side --------------------------------------------------------------------------------- */

static bool start(struct sdi_player *p, unsigned member)
{
    struct issuer *issuer = &p->issuers[member];
    sigset_t all, before;
    issuer->cuda = &p->cuda;
    issuer->all = p->issuers;
    issuer->num_members = p->num_members;
    issuer->context = p->lanes[member].context;
    issuer->state = WAKING;
    issuer->ring = aligned_alloc(CALLS_ALIGNMENT, RING_NBYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    issuer->is_started = issuer->ring && !pthread_create(&issuer->thread, NULL, go_on, issuer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (issuer->is_started)
        pthread_setname_np(issuer->thread, "sdi-issuer");
    else
        free(issuer->ring);
    return issuer->is_started;
}

static void wake(struct issuer *issuer)
{
    uint32_t expected = ASLEEP;
    if (__atomic_compare_exchange_n(&issuer->state, &expected, WAKING, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &issuer->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool is_awake(const struct issuer *issuer)
{
    return issuer->is_started && __atomic_load_n(&issuer->state, __ATOMIC_SEQ_CST) == AWAKE;
}

/* Whether it helps that a member's issuer makes its calls: the first member's only while another one is awake.  Else the
 * player has nothing to do meanwhile, and is sooner. */
static bool helps(const struct sdi_player *p, unsigned member)
{
    for (unsigned m = 1; !member && m < p->num_members; m++)
        if (is_awake(&p->issuers[m]))
            return true;
    return member;
}

/* The player makes a call itself: where those of this member come often, its issuer does it next time. */
static void consider(struct sdi_player *p, unsigned member)
{
    struct issuer *issuer = &p->issuers[member];
    if (!p->wake_after || p->record_ns == issuer->recent_ns || !helps(p, member))
        return;
    issuer->streak = p->record_ns - issuer->recent_ns < OFTEN_NS ? issuer->streak + 1 : 1;
    issuer->recent_ns = p->record_ns;
    if (issuer->streak < p->wake_after)
        return;
    issuer->streak = 0;
    if (issuer->is_started)
        wake(issuer);
    else if (!start(p, member))
        p->wake_after = 0;
}

static void push(struct issuer *issuer, struct call *call, const void *block)
{
    const uint64_t at = issuer->head % RING_NBYTES, left = RING_NBYTES - at;
    call->nbytes = (uint32_t)((sizeof *call + call->block_nbytes + CALLS_ALIGNMENT - 1) / CALLS_ALIGNMENT * CALLS_ALIGNMENT);
    const uint64_t skipped = left < call->nbytes ? left : 0, head = issuer->head + skipped;
    while (head + call->nbytes - __atomic_load_n(&issuer->popped, __ATOMIC_ACQUIRE) > RING_NBYTES)
        sched_yield();
    if (skipped) {
        struct call *none = (void *)(issuer->ring + at);
        none->nbytes = (uint32_t)skipped;
        none->kind = CALL_NONE;
    }
    char *to = issuer->ring + head % RING_NBYTES;
    memcpy(to, call, sizeof *call);
    if (block)
        memcpy(to + sizeof *call, block, call->block_nbytes);
    issuer->head = head + call->nbytes;
    issuer->last = call->sequence;
    __atomic_store_n(&issuer->pushed, issuer->head, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&issuer->state, __ATOMIC_SEQ_CST) == ASLEEP)
        wake(issuer);
}

/* Have a call made on a lane, now or behind others that its issuer has yet to make; a driver's error.  Its `sequence` is 0
 * where it was made. */
int issue_call(struct sdi_player *p, unsigned number, struct call *call, const void *block)
{
    const unsigned member = number % p->num_members;
    struct issuer *issuer = &p->issuers[member];
    struct lane *lane = &p->lanes[number];
    call->lane = number;
    call->number = lane->issued + 1;
    call->stream = lane->stream;
    if (issuer->is_started) {
        const bool is_done = DONE(issuer) == issuer->last;
        int status = __atomic_load_n(&issuer->status, __ATOMIC_RELAXED);
        if (status)
            return status;
        if (!is_done || (is_awake(issuer) && helps(p, member))) {
            call->sequence = ++p->calls;
            push(issuer, call, block);
            return 0;
        }
    }
    call->sequence = 0;
    consider(p, member);
    int status = call->kind == CALL_WAIT ? await_recorded(p->issuers, call) : 0;
    if (!status)
        status = lane_enter(p, lane);
    return status ? status : make(&p->cuda, call, (void *)(uintptr_t)block);
}

/* Whether a lane's issuer has recorded an event by that call: 0; NOT_READY; or it has failed. */
int issuer_recorded(const struct sdi_player *p, unsigned lane, uint64_t sequence)
{
    const struct issuer *issuer = &p->issuers[lane % p->num_members];
    if (DONE(issuer) < sequence)
        return CUDA_ERROR_NOT_READY;
    return __atomic_load_n(&issuer->status, __ATOMIC_RELAXED);
}

/* Whether all calls up to that one are made. */
bool issuers_passed(const struct sdi_player *p, uint64_t sequence)
{
    for (unsigned m = 0; sequence && m < p->num_members; m++) {
        const struct issuer *issuer = &p->issuers[m];
        if (issuer->last && DONE(issuer) < (sequence < issuer->last ? sequence : issuer->last))
            return false;
    }
    return true;
}

/* Until all calls are made: then another may use the lanes. */
void issuers_settle(struct sdi_player *p)
{
    while (!issuers_passed(p, p->calls))
        sched_yield();
}

/* Commands of which something was not given to a member, because a call before it failed, have failed; so have those that
 * are not complete on streams for which Python's, the first one, should have waited. */
void issuers_blame(struct sdi_player *p)
{
    for (unsigned m = 0; m < p->num_members; m++) {
        const struct issuer *issuer = &p->issuers[m];
        const int status = issuer->last ? __atomic_load_n(&issuer->status, __ATOMIC_RELAXED) : 0;
        for (unsigned l = m; status && l < p->num_lanes; l += p->num_members) {
            const uint64_t own = issuer->refused[l / p->num_members];
            const uint64_t first = l != m && issuer->refused[0] ? p->lanes[l].reached + 1 : own;
            for (unsigned n = 0; first && n < p->num_queues; n++)
                for (uint32_t at = p->queues[n].first; at; at = p->nodes[at - 1].next)
                    if (p->nodes[at - 1].waits[l] >= first && !p->nodes[at - 1].status)
                        p->nodes[at - 1].status = status;
        }
    }
}

void issuers_stop(struct sdi_player *p)
{
    for (unsigned m = 0; m < p->num_members; m++) {
        struct issuer *issuer = &p->issuers[m];
        if (!issuer->is_started)
            continue;
        __atomic_store_n(&issuer->is_over, true, __ATOMIC_SEQ_CST);
        wake(issuer);
        pthread_join(issuer->thread, NULL);
        free(issuer->ring);
        issuer->is_started = false;
    }
}
