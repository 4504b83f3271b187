/* Records: which are executed here, and what they wait for. */
#include "player.h"

#include <stdlib.h>
#include <string.h>

enum { LONG_RUNS = 2, PASSED_MAX = 64 }; /* a merging launch that takes long is tried again after so many */
enum { HOST_WAIT_NS = 10000000 }; /* a write waits no longer here for bytes in use: what ends that may be behind it */

static struct node *node_find(const struct sdi_player *p, uint64_t id)
{
    for (unsigned n = 0; n < p->num_queues; n++)
        for (uint32_t at = p->queues[n].first; at; at = p->nodes[at - 1].next)
            if (p->nodes[at - 1].id == id)
                return (struct node *)&p->nodes[at - 1];
    return NULL;
}

static size_t fixed_nbytes(uint32_t op)
{
    switch (op) {
    case SDI_OP_NDRANGE:
        return sizeof(struct sdi_rec_ndrange);
    case SDI_OP_READ:
        return sizeof(struct sdi_rec_read);
    case SDI_OP_WRITE:
        return sizeof(struct sdi_rec_write);
    case SDI_OP_COPY:
        return sizeof(struct sdi_rec_copy);
    case SDI_OP_FILL:
        return sizeof(struct sdi_rec_fill);
    case SDI_OP_MAP:
        return sizeof(struct sdi_rec_map);
    case SDI_OP_UNMAP:
        return sizeof(struct sdi_rec_unmap);
    default:
        return sizeof(struct sdi_rec_marker);
    }
}

/* The record without its wait list, and in `needs` what that waits for; NULL: it waits for what Python knows, or
 * for a copy of the client in another queue.  `behind`: takes which commands these are. */
static const char *without_waits(struct sdi_player *p, uint32_t op, int queue, const char *record, size_t *nbytes,
                                 uint64_t *needs, struct node *behind)
{
    const struct sdi_wire_command *command = (const void *)(record + sizeof(struct sdi_wire_header));
    size_t fixed = fixed_nbytes(op), waits = 8 * (size_t)command->num_waits;
    if (!waits)
        return record;
    if (p->cells[CELL_NO_WAITS] || waits > *nbytes || fixed > *nbytes - waits)
        return NULL;
    for (size_t at = fixed; at < fixed + waits; at += 8) {
        uint64_t id;
        memcpy(&id, record + at, sizeof id);
        const struct node *node = node_find(p, id);
        if (!node || node->queue == (uint32_t)queue)
            continue; /* complete; or before it anyway */
        behind->behind |= UINT64_C(1) << node->queue;
        if (behind->behind_until < node->sequence)
            behind->behind_until = node->sequence;
        /* It is complete when all that is before it in its queue is. */
        const struct node *each = &p->nodes[p->queues[node->queue].first - 1];
        for (;; each = &p->nodes[each->next - 1]) {
            if (node_client_read(p, each))
                return NULL;
            needs_raise(needs, each->waits, p->num_lanes);
            if (each == node)
                break;
        }
    }
    if (p->bare_room < *nbytes) {
        char *more = realloc(p->bare, *nbytes);
        if (!more)
            return NULL;
        p->bare = more;
        p->bare_room = *nbytes;
    }
    memcpy(p->bare, record, fixed);
    memcpy(p->bare + fixed, record + fixed + waits, *nbytes - fixed - waits);
    *nbytes -= waits;
    return p->bare;
}

static void node_is_behind(struct sdi_player *p, struct node *node, const struct node *behind)
{
    node->behind = behind->behind;
    node->behind_until = behind->behind_until;
    p->num_behind += node->behind != 0;
}

/* Whether its bytes are where a write says that they are staged. */
static bool is_staged(const struct sdi_rec_write *write)
{
    const uint64_t at = write->staged_at - SDI_STAGING_OFFSET, nbytes = box_nbytes(write->region);
    return nbytes && nbytes <= SDI_STAGED_MAX_NBYTES && at <= SDI_STAGING_NBYTES - nbytes;
}

/* Leave of a record only what it is known by; false: it is none that is known. */
static bool cut(uint32_t op, const char *record, size_t *nbytes)
{
    size_t fixed = fixed_nbytes(op), rest;
    if (op != SDI_OP_WRITE && op != SDI_OP_FILL)
        return true;
    if (*nbytes < fixed)
        return false;
    if (op == SDI_OP_WRITE) {
        const struct sdi_rec_write *write = (const void *)record;
        rest = write->carried_nbytes;
        if (write->staged_at)
            return !rest && !write->written_ns && is_staged(write);
        if (write->written_ns)
            return !rest;
        rest = rest > SDI_CARRIED_MAX_NBYTES ? 0 : rest;
    } else {
        rest = ((const struct sdi_rec_fill *)(const void *)record)->pattern_nbytes;
        rest = rest > SDI_PATTERN_MAX_NBYTES ? 0 : rest;
    }
    if (!rest || *nbytes - fixed != (rest + 7) / 8 * 8)
        return false;
    *nbytes = fixed;
    return true;
}

static enum taken not_mine(struct sdi_player *p, enum why why)
{
    p->why = why;
    return NOT_MINE;
}

/* What it waits for ends by itself, unless what is before that in a queue is the client's to end. */
static enum taken later(struct sdi_player *p)
{
    return nodes_await_client(p) || p->waited_ns > HOST_WAIT_NS ? not_mine(p, WHY_LANES) : FULL;
}

/* Whether the application has another queue. */
static bool is_one_of_several(const struct sdi_player *p, int queue)
{
    for (unsigned n = 0; n < p->num_queues; n++)
        if ((int)n != queue && p->queues[n].is_playable && p->queues[n].launches)
            return true;
    return false;
}

/* Have events behind all that a queue was given. */
static int queue_mark(struct sdi_player *p, const struct queue *queue)
{
    const unsigned first = stream_of(p, queue) * p->num_members;
    int status = 0;
    for (unsigned l = first; l < first + p->num_members && status == 0; l++)
        status = lane_mark_behind(p, l, p->lanes[l].issued);
    return status;
}

static enum taken take_command(struct sdi_player *p, uint32_t op, uint64_t id, const char *record, size_t nbytes)
{
    const struct sdi_wire_command *command = (const void *)(record + sizeof(struct sdi_wire_header));
    if (p->attempt)
        return attempt_take(p);
    if (nbytes < sizeof(struct sdi_wire_header) + sizeof *command || command->slot >= SDI_NUM_SLOTS
        || id <= p->last_id)
        return NOT_MINE;
    uint64_t needs[LANES_MAX] = {0};
    struct node behind = {0};
    int queue = queue_find(p, command->queue);
    if (queue < 0 || !p->queues[queue].is_playable)
        return not_mine(p, WHY_QUEUE);
    if (p->num_nodes + p->num_untold == NODES_MAX) /* what the client has to say may be behind this record */
        return nodes_await_client(p) ? not_mine(p, WHY_LANES) : FULL;
    record = without_waits(p, op, queue, record, &nbytes, needs, &behind);
    if (!record)
        return not_mine(p, WHY_WAITS);
    if (command->num_waits) {
        needs_raise(p->queues[queue].after, needs, p->num_lanes);
        for (unsigned l = 0; l < p->num_lanes; l++)
            if (lane_mark_behind(p, l, needs[l]))
                return BROKEN;
    }
    if (!cut(op, record, &nbytes))
        return NOT_MINE;
    if (op == SDI_OP_MARKER || op == SDI_OP_BARRIER) {
        if (nbytes != sizeof(struct sdi_rec_marker))
            return NOT_MINE;
        if (command->slot && queue_mark(p, &p->queues[queue]))
            return BROKEN;
        struct node *node = node_new(p, queue, id, command->slot, NO_RECORDING);
        node_is_behind(p, node, &behind);
        memcpy(node->waits, needs, sizeof needs);
        return TAKEN;
    }
    struct recording *r = recording_find(p, op, record, nbytes);
    if (!r)
        return NOT_MINE;
    if (r->long_runs >= LONG_RUNS && is_one_of_several(p, queue) && ++r->passed < PASSED_MAX)
        return not_mine(p, WHY_LANES); /* it would hold them up */
    unsigned lanes = (stream_of(p, &p->queues[queue]) + 1) * p->num_members;
    if (p->num_lanes < lanes)
        p->num_lanes = lanes;
    if (recording_awaits_copies(p, r)) {
        if (player_look(p))
            return BROKEN;
        if (recording_awaits_copies(p, r))
            return later(p);
    }
    if (!recording_may_execute(p, r)) {
        if (player_look(p))
            return BROKEN;
        if (!recording_may_execute(p, r))
            return recording_awaits_client(p, r) ? not_mine(p, WHY_LANES) : later(p);
    }
    if (r->client_shown && p->segments[r->client_shown - 1].client_reads)
        return not_mine(p, WHY_LANES);
    if (recording_writes_host(r)) {
        const struct segment *s = &p->segments[r->client_segment];
        bool waits = r->client != CLIENT_TAKES && !segment_is_free(p, s, true);
        if (s->client_reads || (waits && p->waited_ns > HOST_WAIT_NS))
            return not_mine(p, WHY_LANES);
        if (waits)
            return FULL;
    }
    for (uint32_t i = 0; i < r->num_watched; i++) {
        const struct segment *s = &p->segments[r->watched[i].segment];
        if (s->client_reads)
            return not_mine(p, WHY_LANES);
        if (s->shown || s->showing)
            return later(p);
    }
    for (uint32_t i = 0; i < r->num_ops; i++)
        for (unsigned l = 0; l < p->num_lanes; l++)
            if (p->lanes[l].driver == DRIVER_OPENCL && l != r->ops[i].lane && needs[l] > p->lanes[l].reached)
                return not_mine(p, WHY_WAITS);
    struct node *node = node_new(p, queue, id, command->slot, (uint32_t)(r - p->recordings));
    node_is_behind(p, node, &behind);
    memcpy(node->waits, needs, sizeof needs);
    if (recording_execute(p, r, node, record))
        return REFUSED;
    streams_issued(p, node);
    return p->attempt ? attempt_take(p) : TAKEN;
}

static enum taken take_release(struct sdi_player *p, uint64_t id)
{
    struct node *newest = NULL;
    for (unsigned n = 0; n < p->num_queues && !newest; n++)
        if (p->queues[n].last && p->nodes[p->queues[n].last - 1].id == id)
            newest = &p->nodes[p->queues[n].last - 1];
    if (!newest && p->num_nodes)
        newest = node_find(p, id);
    if (newest) {
        newest->forgotten = true;
        return TAKEN;
    }
    if (!p->cells[CELL_PYTHON_EVENTS])
        return TAKEN; /* nobody remembers it */
    if (p->num_released == NODES_MAX)
        return NOT_MINE;
    p->released[p->num_released++] = id;
    return TAKEN;
}

/* Only for when a command is complete; earlier ones are of those that Python issues. */
static enum taken take_watch(struct sdi_player *p, uint64_t id, const char *record, size_t nbytes)
{
    const struct sdi_rec_watch *watch = (const void *)record;
    if (nbytes != sizeof *watch || watch->status != CL_COMPLETE)
        return NOT_MINE;
    struct node *node = node_find(p, id);
    if (!node && p->cells[CELL_PYTHON_EVENTS])
        return NOT_MINE; /* it may be one of these */
    for (unsigned l = 0; node && l < p->num_lanes; l++)
        if (lane_mark_behind(p, l, node->waits[l]))
            return BROKEN;
    return node_watch(p, node, id) ? TAKEN : NOT_MINE;
}

enum taken record_take(struct sdi_player *p, uint32_t op, uint64_t id, const char *record, size_t nbytes)
{
    switch (op) {
    case SDI_OP_NDRANGE:
    case SDI_OP_READ:
    case SDI_OP_WRITE:
    case SDI_OP_COPY:
    case SDI_OP_FILL:
    case SDI_OP_MAP:
    case SDI_OP_UNMAP:
    case SDI_OP_MARKER:
    case SDI_OP_BARRIER:
        return take_command(p, op, id, record, nbytes);
    case SDI_OP_RELEASE_EVENT:
        return take_release(p, id);
    case SDI_OP_WATCH:
        return take_watch(p, id, record, nbytes);
    case SDI_OP_RECYCLE_BUFFER:
    case SDI_OP_REUSE_BUFFER: {
        enum why why = (op == SDI_OP_RECYCLE_BUFFER ? buffer_recycle : buffer_reuse)(p, id, record, nbytes);
        return why == PLAYED ? TAKEN : not_mine(p, why);
    }
    case SDI_OP_TRANSFER_DONE: {
        const struct sdi_rec_transfer_done *done = (const void *)record;
        if (nbytes != sizeof *done)
            return NOT_MINE;
        for (unsigned n = 0; n < p->num_queues; n++) {
            struct queue *q = &p->queues[n];
            if (q->first && p->nodes[q->first - 1].id == id && p->nodes[q->first - 1].stage == STAGE_COPYING) {
                if (done->status < 0 || !node_may_finish(p, &p->nodes[q->first - 1]))
                    return NOT_MINE;
                node_finish(p, q, 0);
                nodes_complete(p);
                return TAKEN;
            }
        }
        return NOT_MINE;
    }
    default:
        return NOT_MINE;
    }
}

bool record_is_known(struct sdi_player *p, uint32_t op, const char *record, size_t nbytes)
{
    if (op < SDI_OP_NDRANGE || op >= SDI_OP_MARKER || nbytes < fixed_nbytes(op))
        return false;
    uint64_t needs[LANES_MAX] = {0};
    struct node behind = {0};
    record = without_waits(p, op, -1, record, &nbytes, needs, &behind);
    return record && cut(op, record, &nbytes) && recording_find(p, op, record, nbytes);
}

bool player_is_posted(const struct sdi_player *p)
{
    return __atomic_load_n(&p->cells[CELL_POSTED], __ATOMIC_RELAXED);
}

void record_count(struct sdi_player *p, uint32_t op, enum why why)
{
    p->records[(op < OPS_COUNT ? op : 0) * WHY_COUNT + why]++;
}
