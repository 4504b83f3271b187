/* Commands in flight, and what the application sees of them. */
#include "player.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- what the application sees ------------------------------------------------------------------------- */

static struct sdi_wire_slot *slot_of(struct sdi_player *p, uint32_t slot)
{
    return (struct sdi_wire_slot *)(p->arena + SDI_SLOTS_OFFSET) + slot;
}

void page_publish(struct sdi_player *p)
{
    if (!p->page_changed)
        return;
    p->page_changed = false;
    struct sdi_wire_arena_header *header = (void *)p->arena;
    __atomic_fetch_add(&header->epoch, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&header->waiters, __ATOMIC_SEQ_CST)) /* who comes now sees the new epoch */
        return;
    syscall(SYS_futex, &header->epoch, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* What a slot says that is of no command. */
void page_say(struct sdi_player *p, uint32_t slot, int32_t status)
{
    __atomic_store_n(&slot_of(p, slot)->status, status, __ATOMIC_RELEASE);
    p->page_changed = true;
}

/* So many more staged bytes may be overwritten. */
void page_has_taken(struct sdi_player *p, uint64_t nbytes)
{
    struct sdi_wire_arena_header *header = (void *)p->arena;
    __atomic_fetch_add(&header->taken_nbytes, nbytes, __ATOMIC_RELEASE);
}

/* Whether there is room for a notice now: the application has to read others first, else. */
static bool has_room(const struct sdi_player *p)
{
    struct pollfd end = {.fd = p->notices, .events = POLLOUT};
    return poll(&end, 1, 0) > 0;
}

/* False: there is no room.  An application that has gone needs none. */
static bool notify(struct sdi_player *p, uint32_t kind, uint64_t id, int32_t status)
{
    struct sdi_rec_notice notice = {
        .nbytes = sizeof notice, .op = SDI_OP_NOTICE, .id = id, .kind = kind, .status = status};
    page_publish(p);
    return send(p->notices, &notice, sizeof notice, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 || errno == EPIPE
           || errno == ECONNRESET || errno == ENOTCONN;
}

/* ---- nodes --------------------------------------------------------------------------------------------- */

int queue_find(const struct sdi_player *p, uint64_t id)
{
    for (unsigned n = 0; n < p->num_queues; n++)
        if (p->queues[n].id == id)
            return (int)n;
    return -1;
}

struct node *node_new(struct sdi_player *p, int queue, uint64_t id, uint32_t slot, uint32_t recording)
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
    node->profiled = recording == NO_RECORDING ? 0 : p->recordings[recording].profiled;
    node->sequence = p->sequence++;
    node->submitted_ns = p->record_ns = sdi_player_now();
    if (p->num_nodes == 1)
        streams_paused(p, p->record_ns);
    struct queue *q = &p->queues[queue];
    if (q->last)
        p->nodes[q->last - 1].next = number;
    else
        q->first = number;
    q->last = number;
    if (slot) {
        struct sdi_wire_slot *told = slot_of(p, slot);
        told->submitted_ns = node->submitted_ns;
        __atomic_store_n(&told->status, CL_SUBMITTED, __ATOMIC_RELEASE);
    }
    node->issued_ns = node->submitted_ns;
    return node;
}

bool node_is_over(const struct sdi_player *p, const struct node *node)
{
    return lanes_reached(p, node->waits);
}

void node_free(struct sdi_player *p, struct node *node)
{
    node->next = p->free_nodes;
    p->free_nodes = (uint32_t)(node - p->nodes) + 1;
}

/* The last of its queue was never there; nothing of it is in flight. */
void node_take_back(struct sdi_player *p, struct node *node)
{
    struct queue *q = &p->queues[node->queue];
    const uint32_t own = (uint32_t)(node - p->nodes) + 1;
    uint32_t before = 0;
    for (uint32_t at = q->first; at != own; at = p->nodes[at - 1].next)
        before = at;
    if (before)
        p->nodes[before - 1].next = 0;
    else
        q->first = 0;
    q->last = before;
    p->num_behind -= node->behind != 0;
    node_free(p, node);
    p->num_nodes--;
}

/* An operation is over, of which a profile was told. */
void node_told_of(struct sdi_player *p, struct node *node)
{
    if (!node->untold || --node->untold)
        return;
    node_free(p, node);
    p->num_untold--;
}

/* What waits for a command begins no earlier than that ended. */
static void raise_floors(struct sdi_player *p, const struct node *ended, uint64_t end_ns)
{
    for (unsigned n = 0; n < p->num_queues; n++)
        for (uint32_t at = p->queues[n].first; at; at = p->nodes[at - 1].next) {
            struct node *node = &p->nodes[at - 1];
            if (node->behind >> ended->queue & 1 && node->behind_until >= ended->sequence && node->floor_ns < end_ns)
                node->floor_ns = end_ns;
        }
}

/* Whether who watches it can be told. */
bool node_may_finish(const struct sdi_player *p, const struct node *node)
{
    return !node->wants_notice || has_room(p);
}

/* The application wants a notice when a command is complete; `node`: NULL where it is.  False: Python has to give it. */
bool node_watch(struct sdi_player *p, struct node *node, uint64_t id)
{
    if (node) {
        node->wants_notice = true;
        return true;
    }
    return has_room(p) && notify(p, SDI_NOTICE_EVENT_STATUS, id, 0);
}

/* The first of its queue is complete; it may finish. */
void node_finish(struct sdi_player *p, struct queue *q, int32_t status)
{
    uint32_t number = q->first;
    struct node *node = &p->nodes[number - 1];
    if (node->staged)
        page_has_taken(p, node->staged);
    if (node->recording != NO_RECORDING) {
        const struct recording *r = &p->recordings[node->recording];
        if (r->client == CLIENT_READS) {
            p->segments[r->client_segment].client_reads--;
        } else if (r->client == CLIENT_SHOWN) {
            memmove((void *)(uintptr_t)r->client_to, (const void *)(uintptr_t)r->client_at, r->client_nbytes);
            p->segments[r->client_segment].showing--;
            if (r->client_shown)
                p->segments[r->client_shown - 1].shown--;
        }
    }
    uint64_t now = sdi_player_now(), end = node->ended_ns;
    streams_completed(p, node, now);
    uint64_t floor = node->floor_ns > q->end_ns ? node->floor_ns : q->end_ns;
    uint64_t start = node->began_ns ? node->began_ns : node->start_ns ? node->start_ns : node->submitted_ns;
    if (start < floor) /* clocks are compared with some error, which lasts no longer than this command */
        start = floor;
    if (!(q->is_timed || p->log) || node->start_ns)
        end = now;
    end = end < start ? start : end > now ? now : end;
    q->end_ns = end;
    p->num_behind -= node->behind != 0;
    if (p->num_behind)
        raise_floors(p, node, end);
    profile_command(p, node, start, end);
    if (node->slot) {
        struct sdi_wire_slot *told = slot_of(p, node->slot);
        told->submitted_ns = node->submitted_ns;
        told->started_ns = start;
        told->ended_ns = end;
        __atomic_store_n(&told->status, status, __ATOMIC_RELEASE);
        p->page_changed = true;
    }
    if (node->wants_notice)
        notify(p, SDI_NOTICE_EVENT_STATUS, node->id, status);
    q->first = node->next;
    if (!q->first)
        q->last = 0;
    node_free(p, node);
    p->num_nodes--;
}

static struct node *first_of(struct sdi_player *p, const struct queue *q)
{
    return q->first ? &p->nodes[q->first - 1] : NULL;
}

const struct recording *node_client_read(const struct sdi_player *p, const struct node *node)
{
    const struct recording *r = node->recording != NO_RECORDING ? &p->recordings[node->recording] : NULL;
    return r && r->client == CLIENT_READS ? r : NULL;
}

/* Whether the application is told when its turn has come. */
static bool needs_notice(const struct sdi_player *p, const struct node *node)
{
    const struct recording *r = node_client_read(p, node);
    return r ? !r->blocking : node->wants_notice;
}

/* The queue whose first command is complete, or may be copied by the client: of these the one that came first, so
 * that the page shows nothing complete before what it waits for; nor what came after one that can't be told of yet. */
static struct queue *next_over(struct sdi_player *p)
{
    struct queue *found = NULL;
    uint64_t first = UINT64_MAX;
    for (unsigned n = 0; n < p->num_queues; n++) {
        const struct node *node = first_of(p, &p->queues[n]);
        if (!node || node->stage != STAGE_ISSUED || node->sequence > first || !node_is_over(p, node))
            continue;
        const bool is_late = p->is_deaf && needs_notice(p, node);
        if (is_late && node_client_read(p, node)) /* nothing here waits for it */
            continue;
        first = node->sequence;
        found = is_late ? NULL : &p->queues[n];
    }
    return found;
}

/* Tell the application of all that is complete; of what it has no room for now, later. */
void nodes_complete(struct sdi_player *p)
{
    struct queue *q;
    p->is_deaf = false;
    while ((q = next_over(p))) {
        struct node *node = first_of(p, q);
        const struct recording *r = node_client_read(p, node);
        if (!r) {
            if (node_may_finish(p, node))
                node_finish(p, q, 0);
            else
                p->is_deaf = true;
            continue;
        }
        if (!node->start_ns && node->slot) {
            slot_of(p, node->slot)->packed_at = 0;
            __atomic_store_n(&slot_of(p, node->slot)->ready_nbytes, r->client_nbytes, __ATOMIC_RELEASE);
            p->page_changed = true;
        }
        if (!node->start_ns)
            node->start_ns = sdi_player_now();
        p->is_deaf = !r->blocking && !notify(p, SDI_NOTICE_TRANSFER_READY, node->id, 0);
        if (!p->is_deaf)
            node->stage = STAGE_COPYING;
    }
    buffers_complete(p);
}

/* Whether a command's turn has come, and only the application's copy or room for its notice is missing. */
bool nodes_await_client(struct sdi_player *p)
{
    for (unsigned n = 0; n < p->num_queues; n++) {
        const struct node *node = first_of(p, &p->queues[n]);
        if (node && node_is_over(p, node) && (node_client_read(p, node) || (p->is_deaf && needs_notice(p, node))))
            return true;
    }
    return false;
}
