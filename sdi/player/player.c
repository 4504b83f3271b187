/* The loop: records in, known commands to the lanes, events to the status page. */
#include "player.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOK_AFTER = 16, /* records after which it looks what is complete */
    LINGER_NS = 100000,  /* with nothing in flight it asks for so long, unless members want the cores, */
    LINGER_LONG_NS = 1000000, /* or where there are cores to spare: to wake up takes 40 us, */
    IDLE_NS = 100000000, /* then it sleeps, for so long until it is Python that sleeps; */
    REST_NS = 2000000,   /* of that so long each time, if it would not hear else what is to be said or done; */
    TURN_NS = 500000000, /* if Python had no turn for so long it gets one at once: it gives back memory then */
    SPIN_NS = 50000,
    SPIN_LONG_NS = 5000000, /* where there are cores to spare, and only asking tells what a GPU has done */
    SPARE_CORES = 4,
    NAP_LEAST_NS = 10000,
    NAP_MOST_NS = 250000,
    SHORT_STINT = 8, /* so few records in a row were not worth waiting for */
    LONG_STINT = 32,
    WAKE_AFTER = 8,   /* commands in a row of a member, before an issuer makes its calls */
    WANTED_MOST = 16, /* less than what programs launch between two waits */
};

/* ---- making ------------------------------------------------------------------------------------------- */

API struct sdi_player *sdi_player_new(int commands, int notices, void *arena, uint32_t *cells, struct segment *segments,
                                      uint64_t *released)
{
    struct sdi_player *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->commands = commands;
    p->notices = notices;
    p->arena = arena;
    p->cells = cells;
    p->segments = segments;
    p->released = released;
    p->wanted_after = 1;
    p->bell = -1;
    for (uint32_t n = 0; n < NODES_MAX; n++)
        p->nodes[n].next = n + 1 < NODES_MAX ? n + 2 : 0;
    p->free_nodes = 1;
    return p;
}

/* From now on what is posted wakes it up, at the price of a descriptor.  Without one it looks every REST_NS. */
API void sdi_player_hang_bell(struct sdi_player *p)
{
    p->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

API uint32_t sdi_player_segment_nbytes(void)
{
    return sizeof(struct segment);
}

API void sdi_player_free(struct sdi_player *p)
{
    lanes_free(p);
    recordings_free(p);
    if (p->bell >= 0)
        close(p->bell);
    free(p->bare);
    free(p->data);
    free(p->log);
    free(p);
}

API void sdi_player_drivers(struct sdi_player *p, const struct cuda_table *cuda, const struct opencl_table *opencl)
{
    if (cuda)
        p->cuda = *cuda;
    if (opencl)
        p->opencl = *opencl;
}

API int sdi_player_lane(struct sdi_player *p, uint32_t driver, void *context, void *stream)
{
    if (p->num_lanes == LANES_MAX)
        return -1;
    const unsigned cores = p->arena ? ((struct sdi_wire_arena_header *)(void *)p->arena)->cores : 0;
    const bool has_spare = cores >= SPARE_CORES;
    p->spin_ns = driver == DRIVER_CUDA && has_spare ? SPIN_LONG_NS : SPIN_NS;
    p->linger_ns = driver == DRIVER_CUDA && has_spare ? LINGER_LONG_NS : LINGER_NS;
    p->nap_part = driver != DRIVER_CUDA ? 8 : has_spare ? 128 : 32; /* else its members want the cores */
    p->rests = driver != DRIVER_CUDA;
    p->lanes[p->num_lanes].driver = driver;
    p->lanes[p->num_lanes].context = context;
    p->lanes[p->num_lanes].stream = stream;
    p->num_members++;
    p->num_streams = 1;
    const bool has_cores = has_spare && cores >= 2 * (p->num_members + 1);
    p->wake_after = driver == DRIVER_CUDA && has_cores ? WAKE_AFTER : 0;
    return (int)p->num_lanes++;
}

/* A queue of the application; those that are not playable are Python's. */
API void sdi_player_queue(struct sdi_player *p, uint64_t id, bool is_playable, bool is_timed, bool launches)
{
    int found = queue_find(p, id);
    for (unsigned n = 0; found < 0 && n < p->num_queues; n++)
        if (!p->queues[n].is_playable && !p->queues[n].first)
            found = (int)n;
    if (found < 0 && p->num_queues < QUEUES_MAX)
        found = (int)p->num_queues++;
    if (found < 0)
        return;
    p->queues[found] = (struct queue){.id = id, .is_timed = is_timed};
    p->queues[found].stream = launches ? stream_for_queue(p) : 0;
    p->queues[found].is_playable = is_playable;
    p->queues[found].launches = launches;
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

/* When the first of the members that have something to do has probably done it; 0: not known. */
static uint64_t lanes_due(const struct sdi_player *p)
{
    uint64_t due = UINT64_MAX;
    for (unsigned l = 0; p->rests && l < p->num_lanes; l++)
        if (p->lanes[l].num_marks && p->lanes[l].due_ns < due)
            due = p->lanes[l].due_ns;
    return due == UINT64_MAX ? 0 : due;
}

/* A little of the time that it has waited; no longer than something is late. */
static void nap(struct sdi_player *p, uint64_t waited_ns, uint64_t late_ns, bool reads)
{
    uint64_t ns = waited_ns / p->nap_part;
    if (ns > late_ns)
        ns = late_ns < 2 * NAP_LEAST_NS ? 2 * NAP_LEAST_NS : late_ns;
    input_sleep(p, ns < NAP_LEAST_NS ? NAP_LEAST_NS : ns > NAP_MOST_NS ? NAP_MOST_NS : ns, reads);
}

/* Ask again soon, or sleep a little; how long that has been so, with `since` 0 at first.  Others run in between: the
 * application, which may have been woken on this core, and threads of members, whose locks asking takes. */
static uint64_t wait(struct sdi_player *p, uint64_t *since, bool reads)
{
    const uint64_t now = sdi_player_now(), due = lanes_due(p);
    if (!*since)
        *since = now;
    const bool asks = now - *since <= p->spin_ns; /* the next record mostly comes soon */
    const bool rests = p->rests || now - *since > p->linger_ns;
    const bool hears = p->bell >= 0 && !p->num_reports && !p->num_logged;
    if (p->num_nodes && !asks && due > now + p->spin_ns)
        input_sleep(p, due - now < REST_NS ? due - now - (due - now) / 8 : REST_NS, reads);
    else if (p->num_nodes && !asks)
        nap(p, now - *since, due && due < now ? now - due : UINT64_MAX, reads);
    else if (!p->num_nodes && rests && reads)
        input_sleep(p, hears ? IDLE_NS : REST_NS, reads);
    else
        sched_yield();
    return sdi_player_now() - *since;
}

static bool has_timed(const struct sdi_player *p)
{
    for (unsigned n = 0; n < p->num_queues; n++)
        for (uint32_t at = p->queues[n].is_timed ? p->queues[n].first : 0; at; at = p->nodes[at - 1].next)
            if (!node_is_over(p, &p->nodes[at - 1]))
                return true;
    return false;
}

/* Python takes over, and would not find out when they ran: commands of which times are wanted end first.  That a driver
 * refuses something is said next time: there may be a record to act on first. */
static void await_timed(struct sdi_player *p)
{
    for (uint64_t since = 0; has_timed(p);) {
        if (player_look(p)) {
            p->has_failed = true;
            return;
        }
        if (has_timed(p))
            wait(p, &since, false);
    }
}

/* A driver refused something that lane `l` was to be given: the commands that wait for more than it has done have failed. */
static void blame_waiting(struct sdi_player *p, unsigned l, int status)
{
    for (unsigned n = 0; n < p->num_queues; n++)
        for (uint32_t at = p->queues[n].first; at; at = p->nodes[at - 1].next)
            if (p->nodes[at - 1].waits[l] > p->lanes[l].reached && !p->nodes[at - 1].status)
                p->nodes[at - 1].status = status;
}

/* Python, which knows the first stream of each member only, takes over: have that wait for the others.  What it can't
 * wait for has failed, as far as Python goes. */
static void gather(struct sdi_player *p)
{
    for (unsigned l = p->num_members; l < p->num_lanes; l++) {
        int status = lane_wait(p, l % p->num_members, l, p->lanes[l].issued);
        if (status)
            blame_waiting(p, l, status);
    }
}

/* Python, which gives lanes more, takes over: have the drivers make what the player would have copied.  What they refuse
 * has failed. */
static void give_copies(struct sdi_player *p)
{
    for (unsigned l = 0; l < p->num_lanes; l++) {
        int status = copies_give(p, &p->lanes[l]);
        if (status)
            blame_waiting(p, l, status);
        copies_give_up(&p->lanes[l]);
    }
}

/* Whether Python may record what comes next, so that it need not take over what is in flight.  It is asked once. */
static bool asks(const struct sdi_player *p, uint32_t op, bool may_play)
{
    const bool may_be_known = p->why == WHY_UNKNOWN || p->why == WHY_GUARDS;
    return may_play && may_be_known && !p->has_asked && !p->attempt && !p->log
           && (op == SDI_OP_NDRANGE || op == SDI_OP_RECYCLE_BUFFER);
}

static int play(struct sdi_player *p, bool may_play)
{
    unsigned taken = 0;
    uint64_t since = 0;
    size_t wanted = 0;
    bool is_over = false; /* nothing is in flight, and nothing has come for long */
    p->waited_ns = 0;
    for (;;) {
        while (p->tail - p->head >= sizeof(struct sdi_wire_header)) {
            const struct sdi_wire_header *header = (const void *)(p->data + p->head);
            size_t nbytes = header->nbytes;
            wanted = nbytes;
            if (nbytes < sizeof *header || nbytes > SDI_MAX_RECORD_NBYTES || nbytes % 8)
                nbytes = sizeof *header; /* Python says what is wrong with it */
            else if (p->tail - p->head < nbytes)
                break;
            char *record = p->data + p->head;
            uint32_t op = header->op;
            uint64_t id = header->id;
            if (op == SDI_OP_RING && p->offers_ring && nbytes == sizeof *header && !id) {
                input_use_ring(p);
                break;
            }
            enum taken what = NOT_MINE;
            p->why = may_play ? WHY_KIND : WHY_BUSY;
            if (may_play) {
                if (profile_is_full(p))
                    return SDI_MEASURED;
                profile_turn_begins(p);
                what = record_take(p, op, id, record, nbytes);
                if (what == BROKEN || (what == FULL && player_look(p)))
                    return SDI_FAILED;
                if (what == FULL && player_is_posted(p) && !p->attempt)
                    return SDI_POSTED;
                if (what == FULL) {
                    profile_turn_ends(p, !since);
                    if (profile_is_due(p))
                        return SDI_MEASURED;
                    p->waited_ns = wait(p, &since, false);
                    continue;
                }
                p->waited_ns = 0;
            } else if (record_is_known(p, op, record, nbytes)) {
                /* What Python has in flight does not end before the client has said something, which is behind this. */
                if (++p->streak >= p->wanted_after && !p->passes && !p->cells[CELL_AWAITS])
                    return SDI_WANTED;
                p->passes = false;
                p->why = WHY_BUSY;
            } else if (op != SDI_OP_RELEASE_EVENT && op != SDI_OP_TRANSFER_DONE && op != SDI_OP_MARKER
                       && op != SDI_OP_BARRIER && op != SDI_OP_RECYCLE_BUFFER && op != SDI_OP_REUSE_BUFFER && op != SDI_OP_WATCH) {
                p->streak = 0;
            }
            if (what == NOT_MINE && asks(p, op, may_play)) {
                p->has_asked = true;
                p->record = record;
                p->record_nbytes = nbytes;
                return SDI_UNKNOWN;
            }
            p->has_asked = false;
            p->head += nbytes;
            p->cells[CELL_TAKEN]++;
            if (id > p->last_id && op >= SDI_OP_NDRANGE)
                p->last_id = id;
            if (what == REFUSED)
                return SDI_FAILED;
            if (what == NOT_MINE) {
                if (may_play && p->stint < SHORT_STINT && p->wanted_after < WANTED_MOST)
                    p->wanted_after *= 2;
                else if (may_play && p->stint > LONG_STINT)
                    p->wanted_after = 1;
                p->stint = 0;
                p->record = record;
                p->record_nbytes = nbytes;
                record_count(p, op, p->why);
                return SDI_RECORD;
            }
            record_count(p, op, PLAYED);
            p->stint++;
            since = 0;
            if (++taken % LOOK_AFTER == 0) {
                if (player_look(p))
                    return SDI_FAILED;
                if (player_is_posted(p))
                    return SDI_POSTED;
                if (p->num_reports > REPORTS_MAX / 2)
                    return SDI_MEASURED;
            }
        }
        if (p->trial.turns && !p->attempt)
            streams_turn(p, sdi_player_now());
        ssize_t got = is_over ? 0 : input_receive(p, wanted);
        if (got < 0)
            return SDI_END;
        if (got > 0) {
            since = 0;
            continue;
        }
        if (!may_play || is_over) {
            p->rested_ns = sdi_player_now();
            return SDI_IDLE;
        }
        const bool was_busy = p->num_nodes;
        if (player_look(p))
            return SDI_FAILED;
        if (was_busy && !p->num_nodes)
            since = 0; /* the application has just been told, and mostly goes on at once */
        profile_turn_ends(p, true);
        if (player_is_posted(p))
            return SDI_POSTED;
        if (reports_are_due(p) || profile_is_due(p))
            return SDI_MEASURED;
        const uint64_t waited_ns = wait(p, &since, true);
        is_over = !p->num_nodes && waited_ns > (since - p->rested_ns > TURN_NS ? LINGER_NS : IDLE_NS);
    }
}

API int sdi_player_run(struct sdi_player *p, bool may_play)
{
    p->current = NULL;
    input_begin(p);
    if (p->has_failed) {
        p->has_failed = false;
        return SDI_FAILED;
    }
    for (unsigned l = 0; p->num_untold && l < p->num_lanes; l++)
        if (lane_poll(p, l)) {
            p->num_untold = 0; /* nothing is played any more */
            if (p->attempt)
                attempt_fails(p);
            return SDI_FAILED;
        }
    int why = play(p, may_play);
    if (why == SDI_MEASURED || why == SDI_UNKNOWN)
        return why; /* Python issues nothing */
    for (unsigned l = 0; l < p->num_lanes; l++)
        if (why != SDI_FAILED && lane_close(p, l))
            p->has_failed = true; /* said the next time: there may be a record to act on first */
    if (why == SDI_FAILED && p->attempt)
        attempt_fails(p);
    profile_turn_ends(p, true);
    if (p->num_nodes && why != SDI_FAILED && why != SDI_END)
        await_timed(p);
    give_copies(p);
    if (p->num_nodes)
        gather(p);
    issuers_settle(p);
    issuers_blame(p);
    page_publish(p); /* what was said since the last look, and nobody else knows of */
    return why;
}

/* ---- what Python asks ---------------------------------------------------------------------------------- */

API const char *sdi_player_record(struct sdi_player *p, uint64_t *nbytes, uint64_t *left)
{
    *nbytes = p->record_nbytes;
    *left = p->tail - p->head;
    return p->record;
}

/* Python has nothing in flight, or (`gave_up`) did not come to that: then it acts on the next record. */
API void sdi_player_waited(struct sdi_player *p, bool gave_up)
{
    p->streak = 0;
    p->passes = gave_up;
    if (gave_up && p->wanted_after < WANTED_MOST)
        p->wanted_after *= 2;
}

/* Commands in flight, and for each the members on which something of it is not complete. */
API uint32_t sdi_player_nodes(struct sdi_player *p, struct node_told *told)
{
    uint32_t count = 0;
    for (unsigned n = 0; n < p->num_queues; n++)
        for (uint32_t at = p->queues[n].first; at; at = p->nodes[at - 1].next) {
            const struct node *node = &p->nodes[at - 1];
            uint64_t lanes = 0;
            for (unsigned l = 0; l < p->num_lanes; l++)
                if (node->waits[l] > p->lanes[l].reached)
                    lanes |= UINT64_C(1) << l % p->num_members;
            told[count++] = (struct node_told){node->id, p->queues[n].id, node->sequence, node->submitted_ns,
                                               node->began_ns, node->ended_ns, lanes, node->slot, node->recording,
                                               node->stage, node->forgotten, node->status, node->is_measured,
                                               node->nbytes, node->wants_notice, node->staged};
        }
    return count;
}

/* How often which recordings ran since the last call: pairs of numbers. */
API uint32_t sdi_player_played(struct sdi_player *p, uint64_t *pairs)
{
    uint32_t count = p->num_played;
    for (uint32_t n = 0; n < count; n++) {
        struct recording *r = &p->recordings[p->played[n]];
        pairs[2 * n] = p->played[n];
        pairs[2 * n + 1] = r->runs;
        r->runs = 0;
    }
    p->num_played = 0;
    return count;
}

API uint32_t sdi_player_released(struct sdi_player *p)
{
    uint32_t count = p->num_released;
    p->num_released = 0;
    return count;
}

/* What was measured since the last call. */
API uint32_t sdi_player_reports(struct sdi_player *p, struct report *reports)
{
    uint32_t count = p->num_reports;
    memcpy(reports, p->reports, count * sizeof *reports);
    p->num_reports = 0;
    p->report_soon = false;
    return count;
}

/* Python has taken over all that is in flight.  Of a profile's operations it does not know when they ran: they are looked
 * at when it runs the player again. */
API void sdi_player_handed_over(struct sdi_player *p, uint32_t num_segments)
{
    for (uint32_t n = 0; n < NODES_MAX && p->num_untold; n++) /* counted anew */
        p->nodes[n].untold = 0;
    p->num_untold = 0;
    for (unsigned l = 0; l < p->num_lanes; l++) {
        struct lane *lane = &p->lanes[l];
        for (unsigned n = 0; n < lane->num_marks; n++) {
            struct mark *mark = lane_mark_at(lane, n);
            if (!p->log)
                mark->node = 0;
            else if (mark->node)
                p->num_untold += !p->nodes[mark->node - 1].untold++;
        }
        lane->num_unmarked -= lane->num_open; /* where a driver has failed */
        lane->num_open = 0;
        lane->open_ns = 0;
        for (unsigned n = 0; n < lane->num_unmarked; n++)
            p->num_untold += !p->nodes[lane_unmarked_at(lane, n)->node - 1].untold++;
    }
    for (unsigned n = 0; n < p->num_queues; n++) {
        struct queue *q = &p->queues[n];
        while (q->first) {
            struct node *node = &p->nodes[q->first - 1];
            profile_command(p, node, 0, 0);
            q->first = node->next;
            if (!node->untold)
                node_free(p, node);
        }
        q->last = 0;
        memset(q->after, 0, sizeof q->after);
    }
    p->num_nodes = p->num_behind = 0;
    memset(p->segments, 0, num_segments * sizeof *p->segments);
    p->streak = 0;
}

/* Bytes that came with writes. */
API uint64_t sdi_player_carried(const struct sdi_player *p)
{
    return p->carried_nbytes;
}

API uint64_t sdi_player_looks(const struct sdi_player *p)
{
    return p->looks;
}

API uint64_t sdi_player_naps(const struct sdi_player *p)
{
    return p->naps;
}

/* How many records of a kind were executed here, or left to Python, and why. */
API uint64_t sdi_player_records(const struct sdi_player *p, uint32_t op, uint32_t why)
{
    return op < OPS_COUNT && why < WHY_COUNT ? p->records[op * WHY_COUNT + why] : 0;
}
