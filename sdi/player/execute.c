/* Recordings are executed: what each operation waits for, and what uses which bytes. */
#include "player.h"

#include <string.h>

/* The lane of an operation: its member's stream for the queue. */
static unsigned lane_of(const struct sdi_player *p, const struct op *op, unsigned queue)
{
    return op->lane + stream_of(p, &p->queues[queue]) * p->num_members;
}

/* What an access has to follow. */
static void need(uint64_t *needs, const struct segment *s, bool writes, bool is_launch, unsigned lanes)
{
    if (s->writer > needs[s->writer_lane])
        needs[s->writer_lane] = s->writer;
    if (writes)
        needs_raise(needs, s->readers, lanes);
    if (is_launch)
        return;
    needs_raise(needs, s->launch_writers, lanes);
    if (writes)
        needs_raise(needs, s->launch_readers, lanes);
}

static void accessed(struct segment *s, bool writes, bool is_launch, unsigned lane, uint64_t number)
{
    if (is_launch) {
        (writes ? s->launch_writers : s->launch_readers)[lane] = number;
    } else if (!writes) {
        s->readers[lane] = number;
    } else { /* it follows all of them */
        s->writer = number;
        s->writer_lane = lane;
        memset(s->readers, 0, sizeof s->readers);
        memset(s->launch_writers, 0, sizeof s->launch_writers);
        memset(s->launch_readers, 0, sizeof s->launch_readers);
    }
}

/* Whether what uses the same bytes may run at the same time: other launches, parts of one copy. */
static bool is_beside(const struct op *op, const struct access *access)
{
    return op->kind == OP_LAUNCH || access->writes == WRITES_BESIDE;
}

/* What an operation's access has to follow.  `is_beside`: launches need not be waited for; but nothing else orders those
 * that use one memory together. */
static void access_needs(uint64_t *needs, const struct sdi_player *p, const struct access *access, bool is_beside)
{
    need(needs, &p->segments[access->segment], access->writes, is_beside && access->writes != WRITES_TOGETHER, p->num_lanes);
}

/* Whether an access waits for what another lane has not done: OpenCL members have a context each, and no events
 * in common.  What the player makes at once waits for all of them. */
static bool waits_elsewhere(const struct sdi_player *p, const struct access *access, const struct op *op)
{
    uint64_t needs[LANES_MAX] = {0};
    access_needs(needs, p, access, op->kind == OP_LAUNCH);
    if (op->kind != OP_COPY_NOW)
        needs[op->lane] = 0; /* the member's only one: its queues have it in common */
    return !lanes_reached(p, needs);
}

/* Whether the application writes a buffer's bytes in the arena by it, or has them written there. */
bool recording_writes_host(const struct recording *r)
{
    return r->client == CLIENT_WRITES || r->client == CLIENT_FILLS || r->client == CLIENT_TAKES
           || r->client == CLIENT_WRITTEN;
}

/* Whether bytes that it uses have yet to be copied here, to or from the arena: that ends by itself. */
bool recording_awaits_copies(const struct sdi_player *p, const struct recording *r)
{
    const struct segment *own = r->client != CLIENT_NONE ? &p->segments[r->client_segment] : NULL;
    if (own && (own->shown || (recording_writes_host(r) && own->showing)))
        return true;
    for (uint32_t i = 0; i < r->num_ops; i++)
        for (uint32_t a = 0; a < r->ops[i].num_accesses; a++) {
            const struct access *access = &r->accesses[r->ops[i].first_access + a];
            const struct segment *s = &p->segments[access->segment];
            if (s->shown || (access->writes && s->showing))
                return true;
        }
    return false;
}

/* Whether it writes bytes that the client has yet to copy. */
bool recording_awaits_client(const struct sdi_player *p, const struct recording *r)
{
    for (uint32_t i = 0; i < r->num_ops; i++)
        for (uint32_t a = 0; a < r->ops[i].num_accesses; a++) {
            const struct access *access = &r->accesses[r->ops[i].first_access + a];
            if (access->writes && p->segments[access->segment].client_reads)
                return true;
        }
    return false;
}

/* Whether all of its operations can go to their lanes now: none waits for the client's copies, none is an upload
 * of host bytes that are still on their way (the driver may take them at once), each lane has room. */
bool recording_may_execute(struct sdi_player *p, const struct recording *r)
{
    for (unsigned l = 0; l < p->num_lanes; l++)
        if (!lane_has_room(&p->lanes[l], r->num_ops))
            return false;
    if (recording_awaits_client(p, r))
        return false;
    for (uint32_t i = 0; i < r->num_ops; i++) {
        const struct op *op = &r->ops[i];
        for (uint32_t a = 0; a < op->num_accesses; a++) {
            const struct access *access = &r->accesses[op->first_access + a];
            const struct segment *s = &p->segments[access->segment];
            if (p->lanes[op->lane].driver == DRIVER_OPENCL && waits_elsewhere(p, access, op))
                return false;
            if (op->kind == OP_UPLOAD && !access->writes && !segment_is_free(p, s, false))
                return false;
        }
    }
    return true;
}

static void repeat(char *to, size_t nbytes, const char *pattern, size_t done)
{
    memcpy(to, pattern, done);
    for (size_t part; done < nbytes; done += part) {
        part = done < nbytes - done ? done : nbytes - done;
        memcpy(to + done, to, part);
    }
}

/* Whether a launch is measured.  Cells of the watch: so many of the next ones are; after so many one is; and then after so
 * many each time. */
static bool is_watched(struct sdi_player *p, uint32_t watch)
{
    volatile uint32_t *first = &p->cells[watch], *left = first + 1, *every = first + 2;
    bool found = *first > 0;
    *first -= found;
    if (*left && --*left == 0) {
        found = true;
        *left = *every;
    }
    return found;
}

/* What an operation has to follow, by lane: what the wait list waits for, what its queue did, and what the bytes do. */
static void op_needs(const struct sdi_player *p, const struct recording *r, const struct op *op, const struct queue *queue,
                     uint64_t *needs)
{
    for (unsigned l = op->lane; l < p->num_lanes; l += p->num_members) /* others use other memory */
        if (queue->after[l] > needs[l])
            needs[l] = queue->after[l];
    const struct access *accesses = &r->accesses[op->first_access];
    for (uint32_t a = 0; a < op->num_accesses; a++)
        access_needs(needs, p, &accesses[a], is_beside(op, &accesses[a]));
}

/* Operations that are beside each other: so many from the `first` on. */
struct group {
    uint32_t first, count;
};

static bool has(const struct group *group, uint32_t i)
{
    return i - group->first < group->count;
}

/* Events behind what an operation on this lane has to follow on others. */
static int mark_needs(struct sdi_player *p, unsigned lane, const uint64_t *needs)
{
    int status = 0;
    for (unsigned l = 0; l < p->num_lanes && status == 0; l++)
        if (l != lane)
            status = lane_mark_behind(p, l, needs[l]);
    return status;
}

/* What those of a group have to follow beside `waits`, before any of them is issued; and the events for that, which would
 * be behind the others else. */
static int group_needs(struct sdi_player *p, const struct recording *r, const struct node *node, const struct group *group,
                       const uint64_t *waits, uint64_t (*needs)[LANES_MAX])
{
    int status = 0;
    for (uint32_t k = 0; k < group->count; k++) {
        const struct op *op = &r->ops[group->first + k];
        memcpy(needs[k], waits, sizeof needs[k]);
        op_needs(p, r, op, &p->queues[node->queue], needs[k]);
        if (status == 0)
            status = mark_needs(p, lane_of(p, op, node->queue), needs[k]);
    }
    return status;
}

/* The copies before a launch were issued: events behind them, for members that may not write what others are yet to read.
 * They would be behind the others' launches else, and one member would compute after the other. */
static int launches_need(struct sdi_player *p, const struct recording *r, const struct node *node, uint32_t num_ops)
{
    int status = 0;
    for (uint32_t i = r->first_launch; i < num_ops && status == 0; i++) {
        const struct op *op = &r->ops[i];
        uint64_t needs[LANES_MAX] = {0};
        op_needs(p, r, op, &p->queues[node->queue], needs);
        status = mark_needs(p, lane_of(p, op, node->queue), needs);
    }
    return status;
}

static void op_accessed(struct sdi_player *p, const struct recording *r, const struct op *op, unsigned lane, uint64_t number,
                        bool reads, bool writes)
{
    const struct access *accesses = &r->accesses[op->first_access];
    for (uint32_t a = 0; a < op->num_accesses; a++)
        if (accesses[a].writes ? writes : reads)
            accessed(&p->segments[accesses[a].segment], accesses[a].writes, is_beside(op, &accesses[a]), lane, number);
}

/* The first `count` of them were issued: none has waited for what others read, so that comes last. */
static void group_accessed(struct sdi_player *p, const struct recording *r, const struct node *node, uint32_t first,
                           uint32_t count, const uint64_t *numbers)
{
    const struct op *ops = &r->ops[first];
    for (uint32_t k = 0; k < count; k++)
        op_accessed(p, r, &ops[k], lane_of(p, &ops[k], node->queue), numbers[k], false, true);
    for (uint32_t k = 0; k < count; k++)
        op_accessed(p, r, &ops[k], lane_of(p, &ops[k], node->queue), numbers[k], true, false);
}

/* The bytes of a write, into the arena; copies of them for members follow. */
static void take_bytes(struct sdi_player *p, const struct recording *r, struct node *node, const char *record)
{
    const struct sdi_rec_write *write = (const void *)record;
    const char *data = write->staged_at ? p->arena + write->staged_at : (const char *)(write + 1);
    char *to = (char *)(uintptr_t)r->client_at + (write->offset - r->client_from);
    const uint64_t row = write->region[0], nbytes = box_nbytes(write->region);
    for (uint64_t slice = 0; slice < write->region[2]; slice++)
        for (uint64_t i = 0; i < write->region[1]; i++, data += row)
            memcpy(to + slice * write->slice_pitch + i * write->row_pitch, data, row);
    p->carried_nbytes += nbytes;
    node->nbytes = (uint32_t)nbytes;
    if (write->staged_at)
        page_has_taken(p, nbytes);
}

/* Its copies are those of a read or write that begins where this record says; and of so many bytes, where it is right for
 * any number of them. */
static void float_to(struct recording *r, const char *record)
{
    const struct sdi_rec_write *write = (const void *)record;
    const uint64_t offset = r->client == CLIENT_READS ? ((const struct sdi_rec_read *)(const void *)record)->offset
                                                      : write->offset;
    const uint64_t delta = offset - r->client_from;
    for (uint32_t i = 0; i < r->num_ops; i++) {
        r->ops[i].from += delta - r->delta;
        r->ops[i].to += delta - r->delta;
        if (r->client_nbytes)
            continue;
        r->ops[i].nbytes = write->region[0];
        r->ops[i].took_ns = 0; /* each time it is another one */
        r->ops[i].block_nbytes += write->region[0]; /* for Python, which counts them */
    }
    r->delta = delta;
}

/* The bytes of a write stay where they are staged until its operations have taken them. */
static void take_staged(struct sdi_player *p, struct recording *r, struct node *node, const char *record)
{
    const struct sdi_rec_write *write = (const void *)record;
    for (uint32_t i = 0; i < r->num_ops; i++)
        r->ops[i].from = (uintptr_t)p->arena + write->staged_at;
    p->carried_nbytes += write->region[0];
    node->nbytes = node->staged = (uint32_t)write->region[0];
}

/* Give one operation to its lane, behind what it has to follow; a driver's error. */
int recording_perform(struct sdi_player *p, struct recording *r, struct op *op, struct node *node,
                      const char *record)
{
    const unsigned lane = lane_of(p, op, node->queue);
    uint64_t needs[LANES_MAX] = {0};
    int status = 0;
    op_needs(p, r, op, &p->queues[node->queue], needs);
    for (unsigned l = 0; l < p->num_lanes && status == 0; l++)
        if (needs[l])
            status = lane_wait(p, lane, l, needs[l]);
    if (status == 0)
        status = lane_perform(p, lane, r, op, record, p->log ? (uint32_t)(node - p->nodes) + 1 : 0, false);
    op_accessed(p, r, op, lane, p->lanes[lane].issued, true, true);
    node->waits[lane] = p->lanes[lane].issued;
    return status;
}

/* Whether nothing that an attempt moves has to wait for another lane whose members have no events in common. */
bool recording_may_move(const struct sdi_player *p, const struct recording *r)
{
    for (uint32_t i = r->num_ops - r->num_moves; i < r->num_ops; i++)
        for (uint32_t a = 0; a < r->ops[i].num_accesses; a++)
            if (p->lanes[r->ops[i].lane].driver == DRIVER_OPENCL
                && waits_elsewhere(p, &r->accesses[r->ops[i].first_access + a], &r->ops[i]))
                return false;
    return true;
}

/* Its command counts from now on. */
void recording_counts(struct sdi_player *p, struct recording *r, struct node *node, int status)
{
    for (uint32_t i = 0; i < r->num_effects; i++)
        p->cells[r->effects[i].cell] = r->effects[i].value;
    for (uint32_t i = 0; i < r->num_budgets; i++)
        if (p->cells[r->budgets[i]]) /* Python may have used it up while an attempt was under way */
            p->cells[r->budgets[i]]--;
    if (!r->runs++)
        p->played[p->num_played++] = (uint32_t)(r - p->recordings);
    node->status = status;
    if (p->log)
        node->issued_ns = sdi_player_now();
}

/* The application wants to know when a command is over, not what comes after it: an event behind what it waits for.  Behind
 * each launch that would cost as much as a short one takes: where a lane has such an event yet, the next look has one. */
static int node_mark(struct sdi_player *p, const struct node *node, bool reads)
{
    int status = 0;
    for (unsigned l = 0; l < p->num_lanes && status == 0; l++)
        if (node->slot && (reads || !p->lanes[l].num_marks))
            status = lane_mark_behind(p, l, node->waits[l]);
    return status;
}

int recording_execute(struct sdi_player *p, struct recording *r, struct node *node, const char *record)
{
    streams_issue(p, r, node->queue);
    const uint32_t num_ops = r->num_ops - r->num_moves;
    uint64_t waits[LANES_MAX], beside[BESIDE_MAX][LANES_MAX], numbers[BESIDE_MAX];
    const struct group groups[] = {{0, r->num_beside}, {num_ops - r->num_together, r->num_together}};
    const struct group *group = &groups[0];
    int status = group_needs(p, r, node, group, node->waits, beside);
    uint32_t done = 0;
    struct queue *queue = &p->queues[node->queue];
    const uint32_t own = (uint32_t)(node - p->nodes) + 1;
    node->is_measured = r->watch && is_watched(p, r->watch);
    node->is_timed = (queue->is_timed || p->log) && r->client != CLIENT_READS;
    node->is_surveyed = p->trial.surveys && r->op == SDI_OP_NDRANGE;
    const bool wants_times = node->is_timed || node->is_measured || node->is_surveyed;
    const bool is_exact = queue->is_timed || node->is_measured || node->is_surveyed;
    memcpy(waits, node->waits, sizeof waits);
    if (r->floats)
        float_to(r, record);
    if (r->client == CLIENT_WRITES)
        take_bytes(p, r, node, record);
    if (r->client == CLIENT_STAGED)
        take_staged(p, r, node, record);
    for (uint32_t i = 0; i < num_ops && status == 0; i++) {
        struct op *op = &r->ops[i];
        if (op->kind == OP_COPY_NOW) {
            copy_now(p, r, op, node);
            continue;
        }
        const unsigned lane = lane_of(p, op, node->queue);
        uint64_t needs[LANES_MAX];
        if (r->num_together && i == groups[1].first) {
            group = &groups[1];
            done = 0;
            status = group_needs(p, r, node, group, waits, beside);
        }
        if (i && i == r->first_launch && !r->num_together && status == 0)
            status = launches_need(p, r, node, num_ops);
        const bool is_grouped = has(group, i);
        memcpy(needs, is_grouped ? beside[i - group->first] : waits, sizeof needs);
        if (!is_grouped)
            op_needs(p, r, op, queue, needs);
        for (unsigned l = 0; l < p->num_lanes && status == 0; l++)
            if (needs[l])
                status = lane_wait(p, lane, l, needs[l]);
        if (status == 0)
            status = lane_perform(p, lane, r, op, record, p->log || (wants_times && op_counts(r, op)) ? own : 0, is_exact);
        uint64_t number = p->lanes[lane].issued;
        if (is_grouped)
            numbers[done++] = number;
        else
            op_accessed(p, r, op, lane, number, true, true);
        if (is_grouped && (done == group->count || status))
            group_accessed(p, r, node, group->first, done, numbers);
        node->waits[lane] = number;
    }
    if (r->client == CLIENT_READS || r->client == CLIENT_SHOWN) {
        need(node->waits, &p->segments[r->client_segment], false, false, p->num_lanes);
        if (r->client == CLIENT_READS)
            p->segments[r->client_segment].client_reads++;
        else
            p->segments[r->client_segment].showing++;
        if (r->client_shown) {
            need(node->waits, &p->segments[r->client_shown - 1], true, false, p->num_lanes);
            p->segments[r->client_shown - 1].shown++;
        }
    } else if (r->client == CLIENT_FILLS) {
        const struct sdi_rec_fill *fill = (const void *)record;
        repeat((char *)(uintptr_t)r->client_at, r->client_nbytes, (const char *)(fill + 1), fill->pattern_nbytes);
    } else if (r->client == CLIENT_WRITTEN) {
        const uint64_t since = ((const struct sdi_rec_write *)(const void *)record)->written_ns;
        node->ended_ns = node->submitted_ns;
        node->submitted_ns = since < node->submitted_ns ? since : node->submitted_ns;
    } else if (r->client != CLIENT_NONE && r->client != CLIENT_WRITES && r->client != CLIENT_STAGED) {
        need(node->waits, &p->segments[r->client_segment], r->client == CLIENT_TAKES, false, p->num_lanes);
    }
    if (status == 0)
        status = node_mark(p, node, r->client == CLIENT_READS || r->client == CLIENT_SHOWN);
    if (r->num_watched && status == 0) {
        node->stage = STAGE_TRYING;
        p->attempt = own;
        p->attempt_ns = sdi_player_now();
    } else {
        recording_counts(p, r, node, status);
    }
    return status;
}

int player_look(struct sdi_player *p)
{
    int status = 0;
    for (unsigned l = 0; l < p->num_lanes && status == 0; l++) {
        status = lane_mark(p, l);
        if (status == 0)
            status = lane_poll(p, l);
    }
    p->looks++;
    nodes_complete(p);
    page_publish(p);
    return status;
}
