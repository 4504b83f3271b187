/* The loop: records in, known commands to the lanes, events to the status page. */
#include "player.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SUBMITTED = 2,
    LOOK_AFTER = 16, /* records after which it looks what is complete */
    LINGER_NS = 100000,
    SPIN_NS = 50000,
    SPIN_LONG_NS = 300000, /* where there are cores to spare, and only asking tells what a GPU has done */
    SPARE_CORES = 4,
    NAP_LEAST_NS = 10000,
    NAP_MOST_NS = 250000,
    RECEIVE_NBYTES = 1 << 18,
    SHORT_STINT = 8, /* so few records in a row were not worth waiting for */
    LONG_STINT = 32,
    HOST_WAIT_NS = 10000000, /* a write waits no longer here for bytes in use: what ends that may be behind it */
    WANTED_MOST = 16, /* less than what programs launch between two waits */
};

uint64_t sdi_player_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

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
    for (uint32_t n = 0; n < NODES_MAX; n++)
        p->nodes[n].next = n + 1 < NODES_MAX ? n + 2 : 0;
    p->free_nodes = 1;
    return p;
}

API uint32_t sdi_player_segment_nbytes(void)
{
    return sizeof(struct segment);
}

API void sdi_player_free(struct sdi_player *p)
{
    lanes_free(p);
    recordings_free(p);
    free(p->bare);
    free(p->data);
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
    cpu_set_t cores;
    bool has_spare = !sched_getaffinity(0, sizeof cores, &cores) && CPU_COUNT(&cores) >= SPARE_CORES;
    p->spin_ns = driver == DRIVER_CUDA && has_spare ? SPIN_LONG_NS : SPIN_NS;
    p->nap_part = driver == DRIVER_CUDA ? 32 : 8; /* else its members want the cores */
    p->lanes[p->num_lanes].driver = driver;
    p->lanes[p->num_lanes].context = context;
    p->lanes[p->num_lanes].stream = stream;
    p->num_members++;
    p->num_streams = 1;
    return (int)p->num_lanes++;
}

/* One more stream for each member, in the members' order; -1: there is no room. */
API int sdi_player_streams(struct sdi_player *p, void *const *streams)
{
    if ((p->num_streams + 1) * p->num_members > LANES_MAX || p->num_streams == STREAMS_MAX)
        return -1;
    for (unsigned m = 0; m < p->num_members; m++) {
        struct lane *lane = &p->lanes[p->num_streams * p->num_members + m];
        lane->driver = p->lanes[m].driver;
        lane->context = p->lanes[m].context;
        lane->stream = streams[m];
    }
    p->num_streams++;
    return 0;
}

static int find_queue(const struct sdi_player *p, uint64_t id)
{
    for (unsigned n = 0; n < p->num_queues; n++)
        if (p->queues[n].id == id)
            return (int)n;
    return -1;
}

/* The stream that the fewest queues use; the first one of these. */
static uint32_t choose_stream(const struct sdi_player *p)
{
    unsigned queues[STREAMS_MAX] = {0}, found = 0;
    for (unsigned n = 0; n < p->num_queues; n++)
        queues[p->queues[n].stream] += p->queues[n].is_playable;
    for (unsigned s = 1; s < p->num_streams; s++)
        if (queues[s] < queues[found])
            found = s;
    return found;
}

/* A queue of the application; those that are not playable are Python's. */
API void sdi_player_queue(struct sdi_player *p, uint64_t id, bool is_playable, bool is_timed)
{
    int found = find_queue(p, id);
    for (unsigned n = 0; found < 0 && n < p->num_queues; n++)
        if (!p->queues[n].is_playable && !p->queues[n].first)
            found = (int)n;
    if (found < 0 && p->num_queues < QUEUES_MAX)
        found = (int)p->num_queues++;
    if (found < 0)
        return;
    p->queues[found] = (struct queue){.id = id, .is_timed = is_timed};
    p->queues[found].stream = choose_stream(p);
    p->queues[found].is_playable = is_playable;
}

/* ---- what the application sees ------------------------------------------------------------------------- */

static struct sdi_wire_slot *slot_of(struct sdi_player *p, uint32_t slot)
{
    return (struct sdi_wire_slot *)(p->arena + SDI_SLOTS_OFFSET) + slot;
}

static void publish(struct sdi_player *p)
{
    if (!p->page_changed)
        return;
    p->page_changed = false;
    struct sdi_wire_arena_header *header = (void *)p->arena;
    __atomic_fetch_add(&header->epoch, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &header->epoch, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* False: the application has to read others first.  One that has gone needs none. */
static bool notify(struct sdi_player *p, uint32_t kind, uint64_t id)
{
    struct sdi_rec_notice notice = {.nbytes = sizeof notice, .op = SDI_OP_NOTICE, .id = id, .kind = kind};
    publish(p);
    return send(p->notices, &notice, sizeof notice, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EPIPE
           || errno == ECONNRESET || errno == ENOTCONN;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

static struct node *new_node(struct sdi_player *p, int queue, uint64_t id, uint32_t slot, uint32_t recording)
{
    uint32_t number = p->free_nodes;
    struct node *node = &p->nodes[number - 1];
    p->free_nodes = node->next;
    p->num_nodes++;
    memset(node, 0, sizeof *node);
    node->id = id;
    node->slot = slot;
    node->forgotten = slot == 0;
    node->queue = (uint32_t)queue;
    node->recording = recording;
    node->sequence = p->sequence++;
    node->submitted_ns = sdi_player_now();
    struct queue *q = &p->queues[queue];
    if (q->last)
        p->nodes[q->last - 1].next = number;
    else
        q->first = number;
    q->last = number;
    if (slot) {
        struct sdi_wire_slot *told = slot_of(p, slot);
        told->submitted_ns = node->submitted_ns;
        __atomic_store_n(&told->status, SUBMITTED, __ATOMIC_RELEASE);
    }
    return node;
}

static bool is_over(const struct sdi_player *p, const struct node *node)
{
    for (unsigned l = 0; l < p->num_lanes; l++)
        if (node->waits[l] > p->lanes[l].reached)
            return false;
    return true;
}

/* The first of its queue is complete. */
static void finish(struct sdi_player *p, struct queue *q, int32_t status)
{
    uint32_t number = q->first;
    struct node *node = &p->nodes[number - 1];
    if (node->recording != NO_RECORDING) {
        const struct recording *r = &p->recordings[node->recording];
        if (r->client == CLIENT_READS || r->client == CLIENT_SHOWN)
            p->segments[r->client_segment].client_reads--;
        if (r->client == CLIENT_SHOWN)
            memmove((void *)(uintptr_t)r->client_to, (const void *)(uintptr_t)r->client_at, r->client_nbytes);
    }
    uint64_t now = sdi_player_now(), end = node->ended_ns ? node->ended_ns : now;
    uint64_t start = node->began_ns ? node->began_ns : node->start_ns ? node->start_ns : node->submitted_ns;
    if (start < q->end_ns) { /* clocks are compared with some error: better moved than shortened */
        end += node->ended_ns ? q->end_ns - start : 0;
        start = q->end_ns;
    }
    end = end < start ? start : end > now ? now : end;
    q->end_ns = end;
    if (node->slot) {
        struct sdi_wire_slot *told = slot_of(p, node->slot);
        told->submitted_ns = node->submitted_ns;
        told->started_ns = start;
        told->ended_ns = end;
        __atomic_store_n(&told->status, status, __ATOMIC_RELEASE);
        p->page_changed = true;
    }
    q->first = node->next;
    if (!q->first)
        q->last = 0;
    node->next = p->free_nodes;
    p->free_nodes = number;
    p->num_nodes--;
}

static struct node *first_of(struct sdi_player *p, const struct queue *q)
{
    return q->first ? &p->nodes[q->first - 1] : NULL;
}

static const struct recording *read_of(const struct sdi_player *p, const struct node *node)
{
    const struct recording *r = node->recording != NO_RECORDING ? &p->recordings[node->recording] : NULL;
    return r && r->client == CLIENT_READS ? r : NULL;
}

/* The queue whose first command is complete, or may be copied by the client: of these the one that came first, so
 * that the page shows nothing complete before what it waits for. */
static struct queue *next_over(struct sdi_player *p)
{
    struct queue *found = NULL;
    for (unsigned n = 0; n < p->num_queues; n++) {
        struct queue *q = &p->queues[n];
        const struct node *node = first_of(p, q);
        if (!node || node->stage != STAGE_ISSUED || (found && first_of(p, found)->sequence < node->sequence))
            continue;
        const struct recording *r = p->is_deaf ? read_of(p, node) : NULL;
        if (!(r && !r->blocking) && is_over(p, node))
            found = q;
    }
    return found;
}

/* Tell the application of all that is complete; of what it has no room for now, later. */
static void complete(struct sdi_player *p)
{
    struct queue *q;
    p->is_deaf = false;
    while ((q = next_over(p))) {
        struct node *node = first_of(p, q);
        const struct recording *r = read_of(p, node);
        if (!r) {
            finish(p, q, 0);
            continue;
        }
        if (!node->start_ns && node->slot) {
            slot_of(p, node->slot)->packed_at = 0;
            __atomic_store_n(&slot_of(p, node->slot)->ready_nbytes, r->client_nbytes, __ATOMIC_RELEASE);
            p->page_changed = true;
        }
        if (!node->start_ns)
            node->start_ns = sdi_player_now();
        p->is_deaf = !r->blocking && !notify(p, SDI_NOTICE_TRANSFER_READY, node->id);
        if (!p->is_deaf)
            node->stage = STAGE_COPYING;
    }
}

/* Whether a command's turn has come, and only the application's copy or room for its notice is missing. */
static bool awaits_client(struct sdi_player *p)
{
    for (unsigned n = 0; n < p->num_queues; n++) {
        const struct node *node = first_of(p, &p->queues[n]);
        if (node && read_of(p, node) && is_over(p, node))
            return true;
    }
    return false;
}

/* ---- executing ----------------------------------------------------------------------------------------- */

/* The lane of an operation: its member's stream for the queue. */
static unsigned lane_of(const struct sdi_player *p, const struct op *op, unsigned queue)
{
    return op->lane + p->queues[queue].stream * p->num_members;
}

static void raise_to(uint64_t *needs, const uint64_t *numbers, unsigned lanes)
{
    for (unsigned l = 0; l < lanes; l++)
        if (numbers[l] > needs[l])
            needs[l] = numbers[l];
}

/* What an access has to follow. */
static void need(uint64_t *needs, const struct segment *s, bool writes, bool is_launch, unsigned lanes)
{
    if (s->writer > needs[s->writer_lane])
        needs[s->writer_lane] = s->writer;
    if (writes)
        raise_to(needs, s->readers, lanes);
    if (is_launch)
        return;
    raise_to(needs, s->launch_writers, lanes);
    if (writes)
        raise_to(needs, s->launch_readers, lanes);
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

/* Whether an access waits for what another lane has not done: OpenCL members have a context each, and no events
 * in common. */
static bool waits_elsewhere(const struct sdi_player *p, const struct segment *s, bool writes, const struct op *op)
{
    uint64_t needs[LANES_MAX] = {0};
    need(needs, s, writes, op->kind == OP_LAUNCH, p->num_lanes);
    for (unsigned l = 0; l < p->num_lanes; l++)
        if (l != op->lane && needs[l] > p->lanes[l].reached)
            return true;
    return false;
}

static bool is_written(const struct sdi_player *p, const struct segment *s)
{
    uint64_t needs[LANES_MAX] = {0};
    need(needs, s, false, false, p->num_lanes);
    for (unsigned l = 0; l < p->num_lanes; l++)
        if (needs[l] > p->lanes[l].reached)
            return false;
    return true;
}

/* Whether all of its operations can go to their lanes now: none waits for the client's copies, none is an upload
 * of host bytes that are still on their way (the driver may take them at once), each lane has room. */
static bool may_execute(struct sdi_player *p, const struct recording *r)
{
    for (unsigned l = 0; l < p->num_lanes; l++)
        if (!lane_has_room(&p->lanes[l], r->num_ops))
            return false;
    for (uint32_t i = 0; i < r->num_ops; i++) {
        const struct op *op = &r->ops[i];
        for (uint32_t a = 0; a < op->num_accesses; a++) {
            const struct access *access = &r->accesses[op->first_access + a];
            const struct segment *s = &p->segments[access->segment];
            if (access->writes && s->client_reads)
                return false;
            if (p->lanes[op->lane].driver == DRIVER_OPENCL && waits_elsewhere(p, s, access->writes, op))
                return false;
            if (op->kind == OP_UPLOAD && !access->writes && !is_written(p, s))
                return false;
        }
    }
    return true;
}

/* Whether nothing that was issued is at these bytes of the arena, which no launch uses. */
static bool is_at_rest(const struct sdi_player *p, const struct segment *s)
{
    for (unsigned l = 0; l < p->num_lanes; l++)
        if (s->readers[l] > p->lanes[l].reached)
            return false;
    return is_written(p, s);
}

static void repeat(char *to, size_t nbytes, const char *pattern, size_t done)
{
    memcpy(to, pattern, done);
    for (size_t part; done < nbytes; done += part) {
        part = done < nbytes - done ? done : nbytes - done;
        memcpy(to + done, to, part);
    }
}

static int execute(struct sdi_player *p, struct recording *r, struct node *node, const char *record)
{
    int status = 0;
    uint64_t waits[LANES_MAX];
    struct queue *queue = &p->queues[node->queue];
    const bool is_timed = queue->is_timed && r->client == CLIENT_NONE;
    const uint32_t own = (uint32_t)(node - p->nodes) + 1;
    memcpy(waits, node->waits, sizeof waits);
    for (uint32_t i = 0; i < r->num_ops && status == 0; i++) {
        const struct op *op = &r->ops[i];
        const unsigned lane = lane_of(p, op, node->queue);
        const bool is_launch = op->kind == OP_LAUNCH;
        uint64_t needs[LANES_MAX]; /* what the wait list waits for, what the queue did, and what the bytes do */
        memcpy(needs, waits, sizeof needs);
        for (unsigned l = op->lane; l < p->num_lanes; l += p->num_members) /* others use other memory */
            if (queue->after[l] > needs[l])
                needs[l] = queue->after[l];
        const struct access *accesses = &r->accesses[op->first_access];
        for (uint32_t a = 0; a < op->num_accesses; a++)
            need(needs, &p->segments[accesses[a].segment], accesses[a].writes,
                 is_launch || accesses[a].writes == WRITES_BESIDE, p->num_lanes);
        for (unsigned l = 0; l < p->num_lanes && status == 0; l++)
            if (needs[l])
                status = lane_wait(p, lane, l, needs[l]);
        if (status == 0)
            status = lane_perform(p, lane, r, op, record, is_timed && (is_launch || r->op != SDI_OP_NDRANGE) ? own : 0);
        uint64_t number = p->lanes[lane].issued;
        for (uint32_t a = 0; a < op->num_accesses; a++)
            accessed(&p->segments[accesses[a].segment], accesses[a].writes,
                     is_launch || accesses[a].writes == WRITES_BESIDE, lane, number);
        node->waits[lane] = number;
    }
    if (r->client == CLIENT_READS || r->client == CLIENT_SHOWN) {
        need(node->waits, &p->segments[r->client_segment], false, false, p->num_lanes);
        p->segments[r->client_segment].client_reads++;
    } else if (r->client == CLIENT_WRITES) {
        const struct sdi_rec_write *write = (const void *)record;
        memcpy((char *)(uintptr_t)r->client_at + (write->offset - r->client_from), write + 1, write->carried_nbytes);
        p->carried_nbytes += write->carried_nbytes;
    } else if (r->client == CLIENT_FILLS) {
        const struct sdi_rec_fill *fill = (const void *)record;
        repeat((char *)(uintptr_t)r->client_at, r->client_nbytes, (const char *)(fill + 1), fill->pattern_nbytes);
    } else if (r->client != CLIENT_NONE) {
        need(node->waits, &p->segments[r->client_segment], r->client == CLIENT_TAKES, false, p->num_lanes);
    }
    for (uint32_t i = 0; i < r->num_effects; i++)
        p->cells[r->effects[i].cell] = r->effects[i].value;
    for (uint32_t i = 0; i < r->num_budgets; i++)
        p->cells[r->budgets[i]]--;
    if (!r->runs++)
        p->played[p->num_played++] = (uint32_t)(r - p->recordings);
    node->status = status;
    return status;
}

static int look(struct sdi_player *p)
{
    int status = 0;
    for (unsigned l = 0; l < p->num_lanes && status == 0; l++) {
        status = lane_mark(p, l);
        if (status == 0)
            status = lane_poll(p, l);
    }
    p->looks++;
    complete(p);
    publish(p);
    return status;
}

/* ---- records ------------------------------------------------------------------------------------------- */

/* FULL and BROKEN leave the record to be read again; one that is REFUSED is a node that has failed. */
enum taken { TAKEN, NOT_MINE, FULL, BROKEN, REFUSED };

static struct node *find_node(const struct sdi_player *p, uint64_t id)
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
 * for a copy of the client in another queue. */
static const char *without_waits(struct sdi_player *p, uint32_t op, int queue, const char *record, size_t *nbytes,
                                 uint64_t *needs)
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
        const struct node *node = find_node(p, id);
        if (!node || node->queue == (uint32_t)queue)
            continue; /* complete; or before it anyway */
        /* It is complete when all that is before it in its queue is. */
        const struct node *each = &p->nodes[p->queues[node->queue].first - 1];
        for (;; each = &p->nodes[each->next - 1]) {
            if (read_of(p, each))
                return NULL;
            for (unsigned l = 0; l < p->num_lanes; l++)
                if (each->waits[l] > needs[l])
                    needs[l] = each->waits[l];
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

/* Leave of a record only what it is known by; false: it is none that is known. */
static bool cut(uint32_t op, const char *record, size_t *nbytes)
{
    size_t fixed = fixed_nbytes(op), rest;
    if (op != SDI_OP_WRITE && op != SDI_OP_FILL)
        return true;
    if (*nbytes < fixed)
        return false;
    if (op == SDI_OP_WRITE) {
        rest = ((const struct sdi_rec_write *)(const void *)record)->carried_nbytes;
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

static enum taken take_command(struct sdi_player *p, uint32_t op, uint64_t id, const char *record, size_t nbytes)
{
    const struct sdi_wire_command *command = (const void *)(record + sizeof(struct sdi_wire_header));
    if (nbytes < sizeof(struct sdi_wire_header) + sizeof *command || command->slot >= SDI_NUM_SLOTS
        || id <= p->last_id)
        return NOT_MINE;
    uint64_t needs[LANES_MAX] = {0};
    int queue = find_queue(p, command->queue);
    if (queue < 0 || !p->queues[queue].is_playable)
        return not_mine(p, WHY_QUEUE);
    if (p->num_nodes == NODES_MAX) /* what the client has to say may be behind this record */
        return awaits_client(p) ? not_mine(p, WHY_LANES) : FULL;
    record = without_waits(p, op, queue, record, &nbytes, needs);
    if (!record)
        return not_mine(p, WHY_WAITS);
    if (command->num_waits)
        raise_to(p->queues[queue].after, needs, p->num_lanes);
    if (!cut(op, record, &nbytes))
        return NOT_MINE;
    if (op == SDI_OP_MARKER || op == SDI_OP_BARRIER) {
        if (nbytes != sizeof(struct sdi_rec_marker))
            return NOT_MINE;
        struct node *node = new_node(p, queue, id, command->slot, NO_RECORDING);
        memcpy(node->waits, needs, sizeof needs);
        return TAKEN;
    }
    struct recording *r = recording_find(p, op, record, nbytes);
    if (!r)
        return NOT_MINE;
    unsigned lanes = (p->queues[queue].stream + 1) * p->num_members;
    if (p->num_lanes < lanes)
        p->num_lanes = lanes;
    if (!may_execute(p, r)) {
        if (look(p))
            return BROKEN;
        if (!may_execute(p, r))
            return not_mine(p, WHY_LANES);
    }
    if (r->client == CLIENT_WRITES || r->client == CLIENT_FILLS || r->client == CLIENT_TAKES) {
        const struct segment *s = &p->segments[r->client_segment];
        bool waits = r->client != CLIENT_TAKES && !is_at_rest(p, s);
        if (s->client_reads || (waits && p->waited_ns > HOST_WAIT_NS))
            return not_mine(p, WHY_LANES);
        if (waits)
            return FULL;
    }
    for (uint32_t i = 0; i < r->num_ops; i++)
        for (unsigned l = 0; l < p->num_lanes; l++)
            if (p->lanes[l].driver == DRIVER_OPENCL && l != r->ops[i].lane && needs[l] > p->lanes[l].reached)
                return not_mine(p, WHY_WAITS);
    struct node *node = new_node(p, queue, id, command->slot, (uint32_t)(r - p->recordings));
    memcpy(node->waits, needs, sizeof needs);
    return execute(p, r, node, record) ? REFUSED : TAKEN;
}

static enum taken take_release(struct sdi_player *p, uint64_t id)
{
    struct node *newest = NULL;
    for (unsigned n = 0; n < p->num_queues && !newest; n++)
        if (p->queues[n].last && p->nodes[p->queues[n].last - 1].id == id)
            newest = &p->nodes[p->queues[n].last - 1];
    if (!newest && p->num_nodes)
        newest = find_node(p, id);
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

static enum taken take(struct sdi_player *p, uint32_t op, uint64_t id, const char *record, size_t nbytes)
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
    case SDI_OP_TRANSFER_DONE: {
        const struct sdi_rec_transfer_done *done = (const void *)record;
        if (nbytes != sizeof *done)
            return NOT_MINE;
        for (unsigned n = 0; n < p->num_queues; n++) {
            struct queue *q = &p->queues[n];
            if (q->first && p->nodes[q->first - 1].id == id && p->nodes[q->first - 1].stage == STAGE_COPYING) {
                if (done->status < 0)
                    return NOT_MINE;
                finish(p, q, 0);
                complete(p);
                return TAKEN;
            }
        }
        return NOT_MINE;
    }
    default:
        return NOT_MINE;
    }
}

static bool is_known(struct sdi_player *p, uint32_t op, const char *record, size_t nbytes)
{
    if (op < SDI_OP_NDRANGE || op >= SDI_OP_MARKER || nbytes < fixed_nbytes(op))
        return false;
    uint64_t needs[LANES_MAX] = {0};
    record = without_waits(p, op, -1, record, &nbytes, needs);
    return record && cut(op, record, &nbytes) && recording_find(p, op, record, nbytes);
}

static bool is_posted(const struct sdi_player *p)
{
    return __atomic_load_n(&p->cells[CELL_POSTED], __ATOMIC_RELAXED);
}

static void count(struct sdi_player *p, uint32_t op, enum why why)
{
    p->records[(op < OPS_COUNT ? op : 0) * WHY_COUNT + why]++;
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

/* More of the stream: bytes, 0 where there are none yet, -1 at its end. */
static ssize_t receive(struct sdi_player *p, size_t wanted)
{
    if (p->head == p->tail)
        p->head = p->tail = 0;
    size_t room = wanted + RECEIVE_NBYTES;
    if (p->room - p->head < room) {
        if (p->room < room || p->tail - p->head > p->room / 2) {
            char *more = malloc(room + (p->tail - p->head));
            if (!more)
                return -1;
            if (p->tail > p->head)
                memcpy(more, p->data + p->head, p->tail - p->head);
            free(p->data);
            p->data = more;
            p->room = room + (p->tail - p->head);
        } else {
            memmove(p->data, p->data + p->head, p->tail - p->head);
        }
        p->tail -= p->head;
        p->head = 0;
    }
    ssize_t n;
    while ((n = recv(p->commands, p->data + p->tail, p->room - p->tail, MSG_DONTWAIT)) < 0 && errno == EINTR)
        ;
    if (n > 0) {
        p->tail += (size_t)n;
        return n;
    }
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : -1;
}

static _Thread_local bool slack_is_set;

/* A little of the time that it has waited.  `reads`: the next record ends it too. */
static void nap(struct sdi_player *p, uint64_t waited_ns, bool reads)
{
    struct pollfd ends[] = {
        {.fd = reads ? p->commands : -1, .events = POLLIN},
        {.fd = p->is_deaf ? p->notices : -1, .events = POLLOUT},
    };
    uint64_t ns = waited_ns / p->nap_part;
    ns = ns < NAP_LEAST_NS ? NAP_LEAST_NS : ns > NAP_MOST_NS ? NAP_MOST_NS : ns;
    struct timespec most = {.tv_nsec = (long)ns};
    if (!slack_is_set) { /* else a nap takes 50 us more than it is asked for */
        prctl(PR_SET_TIMERSLACK, 1000);
        slack_is_set = true;
    }
    p->naps++;
    ppoll(ends, sizeof ends / sizeof *ends, &most, NULL);
}

/* Ask again soon, or sleep a little; how long that has been so, with `since` 0 at first. */
static uint64_t wait(struct sdi_player *p, uint64_t *since, bool reads)
{
    uint64_t now = sdi_player_now();
    if (!*since)
        *since = now;
    if (p->num_nodes && now - *since > p->spin_ns)
        nap(p, now - *since, reads);
    return now - *since;
}

static bool has_timed(const struct sdi_player *p)
{
    for (unsigned n = 0; n < p->num_queues; n++)
        for (uint32_t at = p->queues[n].is_timed ? p->queues[n].first : 0; at; at = p->nodes[at - 1].next)
            if (!is_over(p, &p->nodes[at - 1]))
                return true;
    return false;
}

/* Python takes over, and would not find out when they ran: commands of which times are wanted end first.  That a driver
 * refuses something is said next time: there may be a record to act on first. */
static void await_timed(struct sdi_player *p)
{
    for (uint64_t since = 0; has_timed(p);) {
        if (look(p)) {
            p->has_failed = true;
            return;
        }
        if (has_timed(p))
            wait(p, &since, false);
    }
}

/* Python, which knows the first stream of each member only, takes over: have that wait for the others.  What it can't
 * wait for has failed, as far as Python goes. */
static void gather(struct sdi_player *p)
{
    for (unsigned l = p->num_members; l < p->num_lanes; l++) {
        const struct lane *lane = &p->lanes[l];
        int status = lane_wait(p, l % p->num_members, l, lane->issued);
        if (status == 0)
            continue;
        for (unsigned n = 0; n < p->num_queues; n++)
            for (uint32_t at = p->queues[n].first; at; at = p->nodes[at - 1].next)
                if (p->nodes[at - 1].waits[l] > lane->reached && !p->nodes[at - 1].status)
                    p->nodes[at - 1].status = status;
    }
}

static int play(struct sdi_player *p, bool may_play)
{
    unsigned taken = 0;
    uint64_t since = 0;
    size_t wanted = 0;
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
            enum taken what = NOT_MINE;
            p->why = may_play ? WHY_KIND : WHY_BUSY;
            if (may_play) {
                what = take(p, op, id, record, nbytes);
                if (what == BROKEN || (what == FULL && look(p)))
                    return SDI_FAILED;
                if (what == FULL && is_posted(p))
                    return SDI_POSTED;
                if (what == FULL) {
                    p->waited_ns = wait(p, &since, false);
                    continue;
                }
                p->waited_ns = 0;
            } else if (is_known(p, op, record, nbytes)) {
                /* What Python has in flight does not end before the client has said something, which is behind this. */
                if (++p->streak >= p->wanted_after && !p->passes && !p->cells[CELL_AWAITS])
                    return SDI_WANTED;
                p->passes = false;
                p->why = WHY_BUSY;
            } else if (op != SDI_OP_RELEASE_EVENT && op != SDI_OP_TRANSFER_DONE && op != SDI_OP_MARKER
                       && op != SDI_OP_BARRIER) {
                p->streak = 0;
            }
            p->head += nbytes;
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
                count(p, op, p->why);
                return SDI_RECORD;
            }
            count(p, op, PLAYED);
            p->stint++;
            since = 0;
            if (++taken % LOOK_AFTER == 0) {
                if (look(p))
                    return SDI_FAILED;
                if (is_posted(p))
                    return SDI_POSTED;
            }
        }
        ssize_t got = receive(p, wanted);
        if (got < 0)
            return SDI_END;
        if (got > 0) {
            since = 0;
            continue;
        }
        if (!may_play)
            return SDI_IDLE;
        if (look(p))
            return SDI_FAILED;
        if (is_posted(p))
            return SDI_POSTED;
        if (wait(p, &since, true) > LINGER_NS && !p->num_nodes)
            return SDI_IDLE;
    }
}

API int sdi_player_run(struct sdi_player *p, bool may_play)
{
    p->current = NULL;
    if (p->has_failed) {
        p->has_failed = false;
        return SDI_FAILED;
    }
    int why = play(p, may_play);
    if (p->num_nodes && why != SDI_FAILED)
        await_timed(p);
    if (p->num_nodes)
        gather(p);
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
            told[count++] = (struct node_told){node->id, p->queues[n].id, node->sequence, node->submitted_ns, lanes,
                                               node->slot, node->recording, node->stage, node->forgotten,
                                               node->status, 0};
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

/* Python has taken over all that is in flight. */
API void sdi_player_handed_over(struct sdi_player *p, uint32_t num_segments)
{
    for (unsigned n = 0; n < p->num_queues; n++) {
        struct queue *q = &p->queues[n];
        while (q->first) {
            uint32_t at = q->first;
            q->first = p->nodes[at - 1].next;
            p->nodes[at - 1].next = p->free_nodes;
            p->free_nodes = at;
        }
        q->last = 0;
        memset(q->after, 0, sizeof q->after);
    }
    for (unsigned l = 0; l < p->num_lanes; l++)
        for (unsigned n = 0; n < p->lanes[l].num_marks; n++)
            lane_mark_at(&p->lanes[l], n)->node = 0;
    p->num_nodes = 0;
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
