/* Lanes: what is given to a driver, in order, and how far it has come. */
#include "player.h"

#include <sched.h>
#include <string.h>

/* An event takes a GPU 3 us.  Operations that each take less than EACH share one while they take less than ROW together, and
 * are few; each is timed by itself again after so often. */
#define UNMARKED_EACH_NS UINT64_C(40000)
#define UNMARKED_ROW_NS UINT64_C(100000)
enum { UNMARKED_ROW = 7, UNMARKED_OFTEN = 63 };

int lane_enter(struct sdi_player *p, const struct lane *lane)
{
    if (p->current == lane->context)
        return 0;
    int status = p->cuda.set_current(lane->context);
    if (status == 0)
        p->current = lane->context;
    return status;
}

bool lane_has_room(const struct lane *lane, unsigned ops)
{
    return lane->num_marks + ops + 2 < MARKS_MAX;
}

/* How many operations the other streams of its member were given; BUSY: they have not done all of them. */
uint64_t lane_beside(const struct sdi_player *p, unsigned number)
{
    uint64_t found = 0;
    for (unsigned l = number % p->num_members; l < p->num_lanes; l += p->num_members) {
        const struct lane *other = &p->lanes[l];
        if (l != number && other->reached < other->issued)
            return BUSY;
        found += l == number ? 0 : other->issued;
    }
    return found;
}

/* `used`: by calls up to this one, some of which an issuer may have yet to make. */
static void drop_event(struct sdi_player *p, struct lane *lane, void *event, bool is_timed, uint64_t used)
{
    struct spare *spare = &lane->spare[is_timed];
    if (lane->driver == DRIVER_OPENCL) {
        p->opencl.event_free(event);
        return;
    }
    if (spare->count == SPARE_MAX) { /* then the oldest one */
        while (!issuers_passed(p, spare->events[spare->first].used))
            sched_yield();
        p->cuda.event_free(spare->events[spare->first].event);
        spare->first = (spare->first + 1) % SPARE_MAX;
        spare->count--;
    }
    const unsigned at = (spare->first + spare->count++) % SPARE_MAX;
    spare->events[at].event = event;
    spare->events[at].used = used;
}

static uint64_t mark_used(const struct mark *mark)
{
    return mark->awaited > mark->recorded ? mark->awaited : mark->recorded;
}

static void drop_mark(struct sdi_player *p, struct lane *lane, const struct mark *mark)
{
    if (mark->event)
        drop_event(p, lane, mark->event, mark->begin || mark->node, mark_used(mark));
    if (mark->begin)
        drop_event(p, lane, mark->begin, true, mark->recorded);
}

static void drop_anchor(struct sdi_player *p, struct lane *lane)
{
    if (lane->anchor)
        drop_event(p, lane, lane->anchor, true, lane->anchor_used);
    lane->anchor = NULL;
}

/* The event of a mark with times stays until the next one does. */
void lane_anchor(struct sdi_player *p, struct lane *lane, struct mark *last)
{
    drop_anchor(p, lane);
    lane->anchor = last->event;
    lane->anchor_used = mark_used(last);
    last->event = NULL;
}

/* CUDA: an event behind all that the lane was given.  One that issuers have yet to look at is not used again: who waits
 * for it would wait for more. */
static int record_event(struct sdi_player *p, struct lane *lane, bool is_timed, void **event, uint64_t *recorded)
{
    struct spare *spare = &lane->spare[is_timed];
    if (spare->count && issuers_passed(p, spare->events[spare->first].used)) {
        *event = spare->events[spare->first].event;
        spare->first = (spare->first + 1) % SPARE_MAX;
        spare->count--;
    } else {
        int status = lane_enter(p, lane);
        if (status == 0)
            status = p->cuda.event_new(event, is_timed ? 0 : CU_EVENT_DISABLE_TIMING);
        if (status)
            return status;
    }
    struct call call = {.kind = CALL_RECORD, .object = *event};
    int status = issue_call(p, (unsigned)(lane - p->lanes), &call, NULL);
    if (status)
        drop_event(p, lane, *event, is_timed, 0);
    *recorded = call.sequence;
    return status;
}

/* A mark behind an operation with times, and behind those before it that have no event of their own. */
static struct mark *put_timed(struct lane *lane, void *event, void *begin, uint64_t recorded, const struct unmarked *last)
{
    struct mark *mark = lane_put_mark(lane, event, begin, last->node, last->op);
    mark->recorded = recorded;
    mark->given_ns = last->given_ns;
    mark->usual_ns = last->usual_ns;
    mark->num_unmarked = lane->num_open;
    lane->num_open = 0;
    lane->open_ns = 0;
    return mark;
}

/* Have an event behind operations that have none yet; a driver's error. */
int lane_close(struct sdi_player *p, unsigned number)
{
    struct lane *lane = &p->lanes[number];
    void *event = NULL;
    uint64_t recorded = 0;
    if (!lane->num_open)
        return 0;
    int status = record_event(p, lane, true, &event, &recorded);
    if (status == 0) {
        const struct unmarked last = *lane_unmarked_at(lane, --lane->num_unmarked);
        lane->num_open--;
        put_timed(lane, event, NULL, recorded, &last);
    }
    return status;
}

/* Have an event behind the last operation. */
int lane_mark(struct sdi_player *p, unsigned number)
{
    struct lane *lane = &p->lanes[number];
    if (lane->unflushed) {
        lane->unflushed = false;
        int status = p->opencl.flush(lane->stream);
        if (status)
            return status;
    }
    if (lane->driver != DRIVER_CUDA || lane->reached == lane->issued)
        return 0;
    if (lane->num_open)
        return lane_close(p, number);
    if (lane->num_marks && lane_mark_at(lane, lane->num_marks - 1)->number == lane->issued)
        return 0;
    void *event = NULL;
    uint64_t recorded = 0;
    int status = record_event(p, lane, false, &event, &recorded);
    if (status == 0)
        lane_put_mark(lane, event, NULL, 0, 0)->recorded = recorded;
    return status;
}

/* Have an event behind operation `wanted` before the lane is given more: who waits for it waits for no more than that. */
int lane_mark_behind(struct sdi_player *p, unsigned number, uint64_t wanted)
{
    struct lane *lane = &p->lanes[number];
    if (lane->driver != DRIVER_CUDA || lane->reached >= wanted)
        return 0;
    if (lane->num_marks && lane_mark_at(lane, lane->num_marks - 1)->number >= wanted)
        return 0;
    return lane_mark(p, number);
}

/* What `lane` does from now on begins after operation `wanted` of lane `other`. */
int lane_wait(struct sdi_player *p, unsigned number, unsigned other, uint64_t wanted)
{
    struct lane *lane = &p->lanes[number], *before = &p->lanes[other];
    if (number == other || before->reached >= wanted || lane->seen[other] >= wanted)
        return 0;
    int status = lane_mark_behind(p, other, wanted);
    if (status)
        return status;
    unsigned low = 0, high = before->num_marks - 1; /* the first mark at or behind it */
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (lane_mark_at(before, middle)->number < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    struct mark *mark = lane_mark_at(before, low);
    status = lane_close(p, number); /* what comes before does not take the time of the wait */
    if (status)
        return status;
    struct call call = {.kind = CALL_WAIT, .object = mark->event, .from = other % p->num_members, .after = mark->recorded};
    status = issue_call(p, number, &call, NULL);
    if (status)
        return status;
    if (call.sequence)
        mark->awaited = call.sequence;
    lane->waited = lane->issued + 1;
    lane->seen[other] = mark->number;
    return 0;
}

static int cuda_perform(struct sdi_player *p, const struct recording *r, const struct op *op, unsigned lane,
                        const char *record)
{
    struct call call = {.to = op->to, .from = op->from, .count = op->nbytes, .object = op->object, .other = op->other};
    const uint8_t *block = NULL;
    switch (op->kind) {
    case OP_LAUNCH:
    case OP_FETCH: {
        uint8_t *filled = r->block + op->block_at;
        for (uint32_t i = 0; i < op->num_holes; i++) {
            const struct hole *hole = &r->holes[op->first_hole + i];
            memcpy(filled + hole->to, record + hole->from, hole->nbytes);
        }
        for (int d = 0; d < 3; d++) {
            call.groups[d] = (uint32_t)op->size[d];
            call.local[d] = op->local[d];
        }
        call.kind = CALL_LAUNCH;
        call.shared = op->shared;
        call.block_nbytes = op->block_nbytes;
        block = filled;
        break;
    }
    case OP_UPLOAD:
        call.kind = CALL_UPLOAD;
        break;
    case OP_FILL: {
        const struct sdi_rec_fill *fill = (const void *)record;
        memcpy(&call.word, fill + 1, fill->pattern_nbytes);
        call.kind = fill->pattern_nbytes == 1 ? CALL_FILL_BYTES : fill->pattern_nbytes == 2 ? CALL_FILL_SHORTS : CALL_FILL_WORDS;
        call.count /= fill->pattern_nbytes;
        break;
    }
    case OP_DOWNLOAD:
        call.kind = CALL_DOWNLOAD;
        break;
    default:
        call.kind = op->object == op->other ? CALL_COPY : CALL_COPY_PEER;
    }
    if (op->num_runs) {
        call.kind = CALL_COPY_ROWS;
        call.count = op->nbytes / op->num_runs;
        call.num_runs = op->num_runs;
        call.to_pitch = op->to_pitch;
        call.from_pitch = op->from_pitch;
    }
    return issue_call(p, lane, &call, block);
}

/* When a launch will probably be done, and with it all that the lane was given. */
static void foresee(const struct sdi_player *p, const struct recording *r, const struct op *op, struct lane *lane,
                    struct mark *mark)
{
    const uint64_t now = sdi_player_now();
    mark->launch = (uint32_t)(r - p->recordings) + 1;
    lane->due_ns = (lane->due_ns > now ? lane->due_ns : now) + op->took_ns;
}

static int opencl_perform(struct sdi_player *p, const struct recording *r, const struct op *op, struct lane *lane,
                          const char *record, uint32_t node)
{
    if (copy_is_near(lane, op)) {
        copy_keep(lane, r, op, node);
        return lane_poll(p, (unsigned)(lane - p->lanes));
    }
    void *event = NULL;
    int status = copies_give(p, lane);
    if (status)
        return status;
    switch (op->kind) {
    case OP_LAUNCH: {
        for (uint32_t i = 0; i < op->num_holes && status == 0; i++) {
            const struct hole *hole = &r->holes[op->first_hole + i];
            status = p->opencl.set_argument(op->object, hole->to, hole->nbytes, record + hole->from);
        }
        size_t global[3], local[3];
        for (int d = 0; d < 3; d++) {
            local[d] = op->local[d];
            global[d] = op->size[d] * op->local[d];
        }
        if (status == 0)
            status = p->opencl.launch(lane->stream, op->object, op->dim, NULL, global, local, 0, NULL, &event);
        break;
    }
    case OP_FILL: {
        const struct sdi_rec_fill *fill = (const void *)record;
        status = p->opencl.fill(lane->stream, op->object, fill + 1, fill->pattern_nbytes, op->to, op->nbytes, 0, NULL,
                                &event);
        break;
    }
    default: {
        const struct own_copy copy = copy_by(op);
        status = copy_give(p, lane, &copy, &event);
    }
    }
    if (status == 0) {
        lane->issued++;
        struct mark *mark = lane_put_mark(lane, event, NULL, node, (uint32_t)(op - r->ops));
        lane->unflushed = true;
        if (op->kind == OP_LAUNCH)
            foresee(p, r, op, lane, mark);
    }
    return status;
}

/* CUDA: whether what a lane is given now begins when an operation ends of which there are times, unless that is long ago. */
static bool follows(struct lane *lane)
{
    const struct mark *last = lane->num_marks ? lane_mark_at(lane, lane->num_marks - 1) : NULL;
    return last && last->node && last->number == lane->issued && lane->waited <= lane->issued;
}

/* CUDA: whether an operation's times may be guessed from what it usually takes and when it and its neighbours ended. */
static bool may_be_unmarked(struct lane *lane, const struct op *op)
{
    const bool is_idle = !lane->num_open && !lane->num_marks;
    const bool has_before = is_idle ? lane->anchor && lane->waited <= lane->issued && op->took_ns < UNMARKED_EACH_NS
                                    : lane->num_open || follows(lane);
    return has_before && op->took_ns && op->unmarked < UNMARKED_OFTEN && lane->num_unmarked < UNMARKED_MAX;
}

/* CUDA: an operation goes to the driver whose times a profile wants, which many short ones must not double. */
static int perform_unmarked(struct sdi_player *p, unsigned number, struct recording *r, struct op *op, const char *record,
                            uint32_t node)
{
    struct lane *lane = &p->lanes[number];
    const struct unmarked own = {node, (uint32_t)(op - r->ops), sdi_player_now(), op->took_ns};
    void *event = NULL;
    uint64_t recorded = 0;
    int status = cuda_perform(p, r, op, number, record);
    if (status)
        return status;
    lane->issued++;
    op->unmarked++;
    const uint64_t row_ns = lane->open_ns + op->took_ns;
    if (op->took_ns < UNMARKED_EACH_NS && row_ns < UNMARKED_ROW_NS && lane->num_open < UNMARKED_ROW) {
        *lane_unmarked_at(lane, lane->num_unmarked++) = own;
        lane->num_open++;
        lane->open_ns = row_ns;
        return 0;
    }
    status = record_event(p, lane, true, &event, &recorded);
    if (status == 0)
        put_timed(lane, event, NULL, recorded, &own);
    return status;
}

/* Give an operation to its lane; a driver's error.  `node`: + 1, the command that wants its times, or 0; `exact`: somebody
 * learns from them. */
int lane_perform(struct sdi_player *p, unsigned number, struct recording *r, struct op *op, const char *record,
                 uint32_t node, bool exact)
{
    struct lane *lane = &p->lanes[number];
    if (lane->driver == DRIVER_OPENCL)
        return opencl_perform(p, r, op, lane, record, node);
    if (node && !exact && may_be_unmarked(lane, op))
        return perform_unmarked(p, number, r, op, record, node);
    void *begin = NULL, *end = NULL;
    uint64_t recorded = 0;
    int status = lane_close(p, number);
    const uint64_t beside = node ? lane_beside(p, number) : 0;
    const struct unmarked own = {node, (uint32_t)(op - r->ops), node ? sdi_player_now() : 0, op->took_ns};
    if (status == 0 && node && (exact || !follows(lane)))
        status = record_event(p, lane, true, &begin, &recorded);
    if (status)
        return status;
    status = cuda_perform(p, r, op, number, record);
    if (status == 0) {
        lane->issued++;
        if (node)
            status = record_event(p, lane, true, &end, &recorded);
    }
    if (begin && status) {
        drop_event(p, lane, begin, true, recorded);
    } else if (node && !status) {
        op->unmarked = 0;
        put_timed(lane, end, begin, recorded, &own)->beside = beside;
    }
    return status;
}

/* 0: complete; 1: not yet; else the driver's error. */
static int ask(struct sdi_player *p, struct lane *lane, struct mark *mark)
{
    if (lane->driver == DRIVER_CUDA) {
        int status = issuer_recorded(p, (unsigned)(lane - p->lanes), mark->recorded);
        if (status == 0)
            status = lane_enter(p, lane);
        if (status == 0)
            status = p->cuda.event_query(mark->event);
        return status == CUDA_ERROR_NOT_READY ? 1 : status == 1 ? -1 : status;
    }
    if (!mark->event) {
        copy_make(lane, &mark->copy);
        return 0;
    }
    int stage = 0;
    int status = p->opencl.event_info(mark->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof stage, &stage, NULL);
    return status ? status : stage > 0 ? 1 : stage;
}

static void reach(struct sdi_player *p, struct lane *lane, unsigned marks)
{
    if (marks == lane->num_marks)
        lane->due_ns = 0;
    lane->reached = lane_mark_at(lane, marks - 1)->number;
    lane_times(p, lane, marks);
    for (unsigned n = 0; n < marks; n++) {
        const struct mark *mark = lane_mark_at(lane, n);
        if (mark->node)
            node_told_of(p, &p->nodes[mark->node - 1]);
        for (unsigned u = 0; u < mark->num_unmarked; u++)
            node_told_of(p, &p->nodes[lane_unmarked_at(lane, u)->node - 1]);
        lane->first_unmarked = (lane->first_unmarked + mark->num_unmarked) % UNMARKED_MAX;
        lane->num_unmarked -= mark->num_unmarked;
        drop_mark(p, lane, mark);
    }
    lane->first = (lane->first + marks) % MARKS_MAX;
    lane->num_marks -= marks;
}

/* Find out how far a lane has come; a driver's error.  Mostly all is done, or nothing. */
int lane_poll(struct sdi_player *p, unsigned number)
{
    struct lane *lane = &p->lanes[number];
    if (!lane->num_marks)
        return 0;
    if (lane->driver == DRIVER_CUDA) {
        int status = ask(p, lane, lane_mark_at(lane, lane->num_marks - 1));
        if (status == 0)
            reach(p, lane, lane->num_marks);
        else if (lane->anchor)
            lane->running_ns = sdi_player_now();
        if (status != 1 || lane->num_marks < 2)
            return status == 1 ? 0 : status;
    }
    unsigned done = 0;
    int status = 0;
    while (done < lane->num_marks && (status = ask(p, lane, lane_mark_at(lane, done))) == 0)
        done++;
    if (done)
        reach(p, lane, done);
    return status == 1 ? 0 : status;
}

void lanes_free(struct sdi_player *p)
{
    issuers_stop(p);
    for (unsigned n = 0; n < p->num_lanes; n++) {
        struct lane *lane = &p->lanes[n];
        if (lane->driver == DRIVER_CUDA && lane_enter(p, lane) != 0)
            continue;
        for (unsigned m = 0; m < lane->num_marks; m++)
            drop_mark(p, lane, lane_mark_at(lane, m));
        drop_anchor(p, lane);
        for (unsigned timed = 0; timed < 2; timed++)
            for (struct spare *spare = &lane->spare[timed]; spare->count; spare->count--)
                p->cuda.event_free(spare->events[(spare->first + spare->count - 1) % SPARE_MAX].event);
        lane->num_marks = 0;
    }
}
