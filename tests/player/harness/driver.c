/* A driver: streams that do what they are given in order, sooner or later, and events. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { CUDA_LOST = 719 };

/* A call of the player's: its failure, or 0. */
static int called(void)
{
    w.now_ns += 50 + below(300);
    if (w.is_freeing)
        return 0;
    if (!w.is_playing && !(w.is_looking && w.player->num_untold))
        broken("the driver is called while Python acts");
    if (!w.threads && ++w.idle > 1000000)
        broken("the player asks for ever");
    if (w.pace == LATE && !w.threads && one_in(3))
        driver_step();
    if (!(w.fails_in && --w.fails_in == 0) && !(w.has_failed && w.stays_failed))
        return 0;
    w.has_failed = true;
    w.fails_in = 0;
    return w.driver == DRIVER_CUDA ? CUDA_LOST : CL_OUT_OF_RESOURCES;
}

static void raise_to(uint64_t *to, const uint64_t *from)
{
    for (unsigned l = 0; l < LANES; l++)
        if (from[l] > to[l])
            to[l] = from[l];
}

static void push(struct stream *s, struct item item)
{
    if (s->num_items == s->room) {
        s->room = s->room ? 2 * s->room : 256;
        s->items = realloc(s->items, s->room * sizeof *s->items);
    }
    s->items[s->num_items++] = item;
}

/* An event with times comes behind operations before which there is another one. */
static void end_row(struct stream *s, const struct event *event)
{
    struct ran *first = &s->ran[s->row - 1];
    first->in_row = s->executed - s->row + 1;
    for (uint64_t n = s->row; n <= s->executed; n++) {
        s->ran[n - 1].took_ns = event->executed_ns - s->before->executed_ns;
        s->ran[n - 1].row = s->row;
        first->row_usual_ns += s->ran[n - 1].usual_ns;
    }
    first->from = s->before;
    first->to = event;
    first->from_ns = s->before->executed_ns;
}

/* The host's bytes are read or written; whether those that are read are what was there. */
static bool finds(const struct touch *touch)
{
    uint8_t *memory = w.memory[touch->segment];
    if (touch->touches && touch->writes)
        memcpy(memory + touch->from, touch->bytes + touch->from, MEMORY_NBYTES / OPS);
    return !touch->touches || touch->writes || w.has_failed || !memcmp(memory, touch->bytes, MEMORY_NBYTES);
}

static bool run_item(struct stream *s, bool all)
{
    if (s->done >= (w.driver == DRIVER_OPENCL && !all ? s->flushed : s->num_items))
        return false;
    const struct item *item = &s->items[s->done];
    if (item->is_own)
        return false;
    if (item->is_wait && w.streams[item->lane].done < item->position)
        return false;
    s->was_operation &= !item->is_wait;
    if (item->event) {
        item->event->executed_ns = harness_now();
        if (item->event->is_timed && s->row && s->before)
            end_row(s, item->event);
        s->before = item->event->is_timed ? item->event : NULL;
        s->is_end = s->was_operation;
        s->was_operation = false;
        s->row = 0;
    } else if (item->is_wait) {
        s->before = NULL;
    } else { /* an operation */
        if (item->position > s->ran_room) {
            s->ran_room = 2 * item->position + 64;
            s->ran = realloc(s->ran, s->ran_room * sizeof *s->ran);
        }
        s->ran[item->position - 1] = (struct ran){
            .executed_ns = harness_now(), .given_ns = s->before && s->is_end ? item->given_ns : 0, .usual_ns = item->usual_ns};
        s->was_operation = true;
        s->executed = item->position;
        s->row = s->row ? s->row : s->before ? item->position : 0;
        if (item->of->as && item->of->as->given.client == CLIENT_STAGED && !w.has_failed && !finds_staged(item->of))
            broken("command %lu finds other bytes than it has staged", (unsigned long)item->of->id);
        if (!finds(&item->touch))
            broken("operation %lu of lane %u finds other bytes than those that were there", (unsigned long)item->position,
                   s->lane);
    }
    s->done++;
    w.idle = 0;
    return true;
}

/* Something of what was given is done, perhaps. */
bool driver_step(void)
{
    struct stream *s = &w.streams[below(w.num_lanes)];
    if (s->stalled) {
        s->stalled--;
        return false;
    }
    if (one_in(40))
        s->stalled = below(200);
    return run_item(s, false);
}

/* All that was given is done, and Python knows. */
void driver_drain(void)
{
    for (unsigned l = 0; w.has_failed && l < w.num_lanes; l++) /* nobody makes them any more */
        for (uint64_t n = w.streams[l].done; n < w.streams[l].num_items; n++)
            w.streams[l].items[n].is_own = false;
    for (bool more = true; more;) {
        more = false;
        for (unsigned l = 0; l < w.num_lanes; l++)
            while (run_item(&w.streams[l], true))
                more = true;
    }
    for (unsigned l = 0; l < w.num_lanes; l++) {
        if (w.streams[l].done != w.streams[l].num_items)
            broken("lane %u waits for what never comes", l);
        w.streams[l].flushed = w.streams[l].num_items;
        w.observed[l] = w.streams[l].issued;
    }
}

void driver_reset(void)
{
    if (w.made != w.freed)
        broken("%lu events were made, %lu freed", (unsigned long)w.made, (unsigned long)w.freed);
    for (struct event *older; w.events; w.events = older) {
        older = w.events->older;
        free(w.events);
    }
    for (unsigned l = 0; l < LANES; l++) {
        free(w.streams[l].items);
        free(w.streams[l].ran);
    }
}

static void at_once(void)
{
    if (w.pace != AT_ONCE)
        return;
    for (bool more = true; more;) {
        more = false;
        for (unsigned l = 0; l < w.num_lanes; l++)
            while (run_item(&w.streams[l], true))
                more = true;
    }
}

static struct event *make_event(unsigned lane)
{
    struct event *event = calloc(1, sizeof *event);
    event->lane = lane;
    event->older = w.events;
    w.events = event;
    w.made++;
    return event;
}

static void check_event(const struct event *event)
{
    if (event->is_freed)
        broken("an event is used after it was freed");
}

static int free_event(struct event *event)
{
    check_event(event);
    event->is_freed = true;
    w.freed++;
    return 0;
}

/* The event comes behind all that the stream was given. */
static void behind(struct event *event, const struct stream *s)
{
    event->lane = s->lane;
    event->position = s->num_items;
    memcpy(event->after, s->after, sizeof event->after);
}

static bool is_complete(const struct event *event)
{
    if (w.streams[event->lane].done < event->position)
        return false;
    raise_to(w.observed, event->after);
    return true;
}

static int issue(const struct planned *planned, struct stream *s)
{
    model_issue(planned, s->lane);
    counted[OPERATIONS]++;
    struct lane *lane = &w.player->lanes[s->lane];
    const uint64_t marked = lane->num_marks ? lane_mark_at(lane, lane->num_marks - 1)->number : lane->reached;
    if (w.driver == DRIVER_CUDA && s->awaited > marked && s->of != w.current_command && !w.has_failed)
        broken("who waits for operation %lu of lane %u waits for the next one, too", (unsigned long)s->awaited, s->lane);
    s->of = w.current_command;
    if (model_is_awaited(s->of))
        s->awaited = s->issued + 1;
    s->after[s->lane] = ++s->issued;
    const uint64_t usual_ns = w.player->recordings[planned->of->number].ops[planned->index].took_ns;
    push(s, (struct item){.position = s->issued, .given_ns = w.threads ? harness_now() : w.now_ns, .usual_ns = usual_ns,
                          .touch = w.touch, .of = w.current_command});
    return 0;
}

static void check_launch(const struct planned *planned, const uint64_t *size, const uint64_t *local)
{
    const struct op *op = &planned->of->ops[planned->index];
    if ((op->kind != OP_LAUNCH && op->kind != OP_FETCH) || memcmp(size, op->size, sizeof op->size) || memcmp(local, op->local, sizeof op->local))
        broken("a launch has another size than its recording");
}

/* The operation that a copy names. */
static const struct planned *named(uint64_t at)
{
    return (const void *)(uintptr_t)(at & -(uint64_t)PLANNED_NBYTES);
}

static void check_run(const struct planned *planned, const struct command *of, uint32_t kind, uint64_t to, uint64_t from,
                      size_t nbytes, uint64_t number)
{
    const struct op *op = &planned->of->ops[planned->index];
    const uint64_t delta = of->kind && of->kind->floats ? of->at - of->kind->from : 0;
    const bool is_staged = of->as && of->as->given.client == CLIENT_STAGED;
    const uint64_t begins = is_staged ? (uintptr_t)w.arena + of->staged_at : op->from + delta;
    to -= number * op->to_pitch;
    from -= number * op->from_pitch;
    if (op->kind != (uint32_t)kind || op->to + delta != to || begins != from
        || (of->kind && of->kind->is_any ? of->carried : op->nbytes) != nbytes * (op->num_runs ? op->num_runs : 1))
        broken("a copy is another one than its recording's");
}

static void check_copy(const struct planned *planned, const struct command *of, uint32_t kind, uint64_t to, uint64_t from,
                       size_t nbytes)
{
    if (planned->of->ops[planned->index].num_runs)
        broken("rows are copied as one run");
    check_run(planned, of, kind, to, from, nbytes, 0);
}

/* ---- like CUDA ------------------------------------------------------------------------------------------ */

#define BEGIN()             \
    lock();                 \
    int status = called();  \
    if (status) {           \
        unlock();           \
        return status;      \
    }

#define END(value)          \
    do {                    \
        int ended = value;  \
        at_once();          \
        unlock();           \
        return ended;       \
    } while (0)

static void check_context(const struct stream *s)
{
    if (w.current != s->context)
        broken("another context is current");
}

static int cuda_set_current(void *context)
{
    BEGIN();
    w.current = context;
    END(0);
}

static int cuda_launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void *stream, void **parameters, void **extra)
{
    BEGIN();
    const struct planned *planned = function;
    const struct recorded *of = planned->of;
    const struct op *op = &of->ops[planned->index];
    check_context(stream);
    check_launch(planned, (uint64_t[]){gx, gy, gz}, (uint64_t[]){bx, by, bz});
    if (shared != op->shared || parameters || *(size_t *)extra[3] != op->block_nbytes)
        broken("a launch has other parameters than its recording");
    int issued = issue(planned, stream); /* then `current_command` is its command */
    uint8_t block[BLOCK_NBYTES];
    memcpy(block, of->block + op->block_at, op->block_nbytes);
    uint8_t bare[PREFIX + KEY_NBYTES];
    bare_key(w.current_command, bare + PREFIX);
    for (unsigned h = 0; h < op->num_holes; h++) {
        const struct hole *hole = &of->holes[op->first_hole + h];
        memcpy(block + hole->to, bare + hole->from, hole->nbytes);
    }
    if (memcmp(block, extra[1], op->block_nbytes))
        broken("a launch has not the scalars of its record");
    END(issued);
}

static int cuda_upload(uint64_t to, const void *from, size_t nbytes, void *stream)
{
    BEGIN();
    check_context(stream);
    const struct planned *planned = named(to);
    int issued = issue(planned, stream); /* then `current_command` is its command */
    check_copy(planned, w.current_command, OP_UPLOAD, to, (uintptr_t)from, nbytes);
    END(issued);
}

static int cuda_download(void *to, uint64_t from, size_t nbytes, void *stream)
{
    BEGIN();
    check_context(stream);
    const struct planned *planned = named(from);
    int issued = issue(planned, stream);
    check_copy(planned, w.current_command, OP_DOWNLOAD, (uintptr_t)to, from, nbytes);
    END(issued);
}

static int cuda_copy(uint64_t to, uint64_t from, size_t nbytes, void *stream)
{
    BEGIN();
    check_context(stream);
    const struct planned *planned = (const void *)(uintptr_t)to;
    int issued = issue(planned, stream);
    check_copy(planned, w.current_command, OP_COPY, to, from, nbytes);
    if (planned->of->ops[planned->index].object != planned->of->ops[planned->index].other)
        broken("a copy between contexts is made within one");
    END(issued);
}

static int cuda_copy_peer(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t nbytes,
                          void *stream)
{
    BEGIN();
    check_context(stream);
    const struct planned *planned = (const void *)(uintptr_t)to;
    int issued = issue(planned, stream);
    check_copy(planned, w.current_command, OP_COPY, to, from, nbytes);
    const struct op *op = &planned->of->ops[planned->index];
    if (op->object != to_context || op->other != from_context || to_context == from_context)
        broken("a copy is between other contexts");
    END(issued);
}

static int cuda_copy_rows(const struct cuda_rows *rows, void *stream)
{
    BEGIN();
    check_context(stream);
    const struct planned *planned = named(rows->from_pitch & 1 ? rows->from : rows->to); /* see `make_copy` */
    int issued = issue(planned, stream);
    const struct op *op = &planned->of->ops[planned->index];
    check_run(planned, w.current_command, op->kind, rows->to, rows->from, rows->nbytes, 0);
    if (rows->count != op->num_runs || rows->to_pitch != op->to_pitch || rows->from_pitch != op->from_pitch
        || rows->to_type != CU_MEMORYTYPE_UNIFIED || rows->from_type != CU_MEMORYTYPE_UNIFIED || rows->from_x || rows->from_y
        || rows->to_x || rows->to_y || (op->kind == OP_COPY && op->object != op->other))
        broken("rows are others than their recording's");
    END(issued);
}

static int fill(uint64_t to, unsigned value, size_t nbytes, void *stream, unsigned pattern_nbytes)
{
    BEGIN();
    check_context(stream);
    const struct planned *planned = (const void *)(uintptr_t)to;
    int issued = issue(planned, stream);
    check_copy(planned, w.current_command, OP_FILL, to, planned->of->ops[planned->index].from, nbytes);
    if (pattern_nbytes != w.current_command->kind->pattern_nbytes
        || memcmp(&value, carried_by(w.current_command), pattern_nbytes))
        broken("a fill has not the pattern of its record");
    END(issued);
}

static int cuda_fill_bytes(uint64_t to, unsigned char value, size_t count, void *stream)
{
    return fill(to, value, count, stream, 1);
}

static int cuda_fill_shorts(uint64_t to, unsigned short value, size_t count, void *stream)
{
    return fill(to, value, 2 * count, stream, 2);
}

static int cuda_fill_words(uint64_t to, unsigned value, size_t count, void *stream)
{
    return fill(to, value, 4 * count, stream, 4);
}

static int cuda_event_new(void **event, unsigned flags)
{
    BEGIN();
    if (flags != 2 && flags != 0)
        broken("an event of another kind");
    struct event *made = make_event(0);
    made->is_timed = flags == 0;
    *event = made;
    END(0);
}

static int cuda_event_record(void *event, void *stream)
{
    BEGIN();
    check_context(stream);
    check_event(event);
    push(stream, (struct item){.event = event});
    behind(event, stream);
    END(0);
}

static int cuda_event_query(void *event)
{
    BEGIN();
    check_event(event);
    END(is_complete(event) ? 0 : CUDA_ERROR_NOT_READY);
}

static int cuda_event_free(void *event)
{
    lock();
    int freed = free_event(event);
    unlock();
    return freed;
}

static int cuda_stream_wait(void *stream, void *event, unsigned flags)
{
    BEGIN();
    struct stream *s = stream;
    const struct event *before = event;
    check_context(s);
    check_event(before);
    if (flags)
        broken("a wait with flags");
    counted[LANE_WAITS]++;
    push(s, (struct item){.is_wait = true, .lane = before->lane, .position = before->position});
    raise_to(s->after, before->after);
    END(0);
}

static int cuda_event_elapsed(float *ms, void *from, void *to)
{
    lock();
    struct event *first = from, *second = to;
    check_event(first);
    check_event(second);
    if (!first->is_timed || !second->is_timed || !is_complete(first) || !is_complete(second))
        broken("an event that has no time");
    *ms = (float)((double)((int64_t)second->executed_ns - (int64_t)first->executed_ns) / 1e6);
    int status = w.is_playing && one_in(200) ? CUDA_ERROR_NOT_READY : 0; /* then it is not known */
    first->is_unknown |= status != 0;
    second->is_unknown |= status != 0;
    unlock();
    return status;
}

const struct cuda_table cuda = {
    cuda_set_current, cuda_launch,       cuda_upload,      cuda_download,   cuda_copy,        cuda_copy_peer,
    cuda_event_new,   cuda_event_record, cuda_event_query, cuda_event_free, cuda_stream_wait,
    cuda_event_elapsed, cuda_fill_bytes, cuda_fill_shorts, cuda_fill_words, cuda_copy_rows,
};

/* ---- like OpenCL ---------------------------------------------------------------------------------------- */

/* The first copy that the stream's lane has kept for the player; NULL: there is none. */
static struct item *first_own(struct stream *s)
{
    for (uint64_t n = s->done; n < s->num_items; n++)
        if (s->items[n].is_own)
            return &s->items[n];
    return NULL;
}

static int give(const struct planned *planned, struct stream *s, unsigned num_waits, void **event)
{
    if (num_waits)
        broken("an OpenCL operation with a wait list");
    struct item *own = first_own(s);
    struct event *made = make_event(s->lane);
    if (own) { /* the player gives up to make that one itself */
        if (own->planned != planned)
            broken("the driver of lane %u is given something before what it kept", s->lane);
        own->is_own = false;
        w.given = own->of;
        counted[GIVEN_AFTER_ALL]++;
        behind(made, s);
        made->position = (uint64_t)(own - s->items) + 1;
        made->after[s->lane] = made->operation = own->position;
    } else {
        issue(planned, s);
        w.given = w.current_command;
        behind(made, s);
        made->operation = s->issued;
    }
    made->issued_ns = harness_now();
    if (w.fails_in && w.fails_later && one_in(20)) { /* the operation fails, not the call */
        made->has_failed = true;
        w.fails_in = 0;
    }
    *event = made;
    return 0;
}

void __real_copy_keep(struct lane *, const struct recording *, const struct op *, uint32_t);
void __wrap_copy_keep(struct lane *lane, const struct recording *r, const struct op *op, uint32_t node)
{
    lock();
    struct stream *s = lane->stream;
    if (w.driver != DRIVER_OPENCL || !op->near)
        broken("lane %u keeps what the player can't copy", s->lane);
    issue(op->object, s);
    s->items[s->num_items - 1].is_own = true;
    s->items[s->num_items - 1].planned = op->object;
    __real_copy_keep(lane, r, op, node);
    unlock();
}

/* It is the next one of its lane, all of whose operations before it are seen to be done. */
void __wrap_copy_make(struct lane *lane, struct own_copy *copy)
{
    lock();
    struct stream *s = lane->stream;
    struct item *item = first_own(s);
    if (copy->is_given_up) {
        unlock();
        return;
    }
    if (!item || item->planned != copy->object || item != &s->items[s->done] || w.observed[s->lane] + 1 < item->position)
        broken("the player copies before lane %u has done what is before it", s->lane);
    const struct planned *planned = copy->object;
    const struct op *op = &planned->of->ops[planned->index];
    if (copy->num_runs != op->num_runs || copy->to_pitch != op->to_pitch || copy->from_pitch != op->from_pitch)
        broken("the player copies other rows than its recording's");
    check_run(planned, item->of, copy->kind, copy->to, copy->from, copy->nbytes / (op->num_runs ? op->num_runs : 1), 0);
    counted[COPIED]++;
    counted[COPIED_LATE] += item->position < s->issued || planned->of != w.running;
    w.now_ns += 50 + below(300);
    item->is_own = false;
    copy->ended_ns = harness_now();
    copy->began_ns = copy->ended_ns - 1;
    run_item(s, true);
    s->ran[item->position - 1].took_ns = 1;
    w.observed[s->lane] = item->position;
    lane->num_own--;
    unlock();
}

void __real_copy_now(struct sdi_player *, const struct recording *, const struct op *, const struct node *);
void __wrap_copy_now(struct sdi_player *p, const struct recording *r, const struct op *op, const struct node *node)
{
    lock();
    if (w.driver != DRIVER_OPENCL || !w.is_near || op->kind != OP_COPY_NOW)
        broken("the player makes a copy at once that is none of its own");
    model_copy_now(op->object);
    if (!finds(&w.touch))
        broken("the player copies other bytes than those that were there");
    w.now_ns += 50 + below(300);
    unlock();
    __real_copy_now(p, r, op, node);
}

static int opencl_launch(void *queue, void *kernel, unsigned dim, const size_t *offset, const size_t *global,
                         const size_t *local, unsigned num_waits, const void *waits, void **event)
{
    BEGIN();
    const struct planned *planned = kernel;
    const struct op *op = &planned->of->ops[planned->index];
    uint64_t size[3], locals[3];
    for (unsigned d = 0; d < 3; d++) {
        locals[d] = local[d];
        size[d] = global[d] / local[d];
    }
    check_launch(planned, size, locals);
    if (dim != op->dim || offset || waits)
        broken("a launch has other parameters than its recording");
    int given = give(planned, queue, num_waits, event);
    uint8_t bare[PREFIX + KEY_NBYTES];
    bare_key(w.current_command, bare + PREFIX);
    for (unsigned h = 0; h < op->num_holes; h++) {
        const struct hole *hole = &planned->of->holes[op->first_hole + h];
        if (memcmp(w.arguments[h], bare + hole->from, hole->nbytes))
            broken("a launch has not the scalars of its record");
    }
    END(given);
}

static int opencl_set_argument(void *kernel, unsigned index, size_t nbytes, const void *value)
{
    BEGIN();
    const struct planned *planned = kernel;
    const struct op *op = &planned->of->ops[planned->index];
    for (unsigned h = 0; h < op->num_holes; h++) {
        const struct hole *hole = &planned->of->holes[op->first_hole + h];
        if (hole->to == index && hole->nbytes == nbytes)
            memcpy(w.arguments[h], value, nbytes);
    }
    END(0);
}

static int opencl_upload(void *queue, void *buffer, unsigned blocking, size_t offset, size_t nbytes, const void *from,
                         unsigned num_waits, const void *waits, void **event)
{
    BEGIN();
    int given = give(buffer, queue, num_waits, event);
    check_copy(buffer, w.given, OP_UPLOAD, offset, (uintptr_t)from, nbytes);
    if (blocking || waits)
        broken("an upload blocks");
    END(given);
}

static int opencl_download(void *queue, void *buffer, unsigned blocking, size_t offset, size_t nbytes, void *to,
                           unsigned num_waits, const void *waits, void **event)
{
    BEGIN();
    int given = give(buffer, queue, num_waits, event);
    check_copy(buffer, w.given, OP_DOWNLOAD, (uintptr_t)to, offset, nbytes);
    if (blocking || waits)
        broken("a download blocks");
    END(given);
}

static int opencl_copy(void *queue, void *from, void *to, size_t from_offset, size_t to_offset, size_t nbytes,
                       unsigned num_waits, const void *waits, void **event)
{
    BEGIN();
    const struct planned *planned = to;
    int given = give(planned, queue, num_waits, event);
    check_copy(planned, w.given, OP_COPY, to_offset, from_offset, nbytes);
    if (from != planned->of->ops[planned->index].other || waits)
        broken("a copy is between other buffers");
    END(given);
}

static int give_rows(const struct planned *planned, struct stream *s, uint32_t kind, uint64_t to, uint64_t from,
                     const size_t *region, size_t to_pitch, size_t from_pitch, void **event)
{
    const struct op *op = &planned->of->ops[planned->index];
    int given = give(planned, s, 0, event);
    check_run(planned, w.given, kind, to, from, region[0], 0);
    if (region[1] != op->num_runs || region[2] != 1 || to_pitch != op->to_pitch || from_pitch != op->from_pitch)
        broken("rows are others than their recording's");
    return given;
}

static int opencl_upload_rows(void *queue, void *buffer, unsigned blocking, const size_t *to, const size_t *from,
                              const size_t *region, size_t to_pitch, size_t to_slice, size_t from_pitch, size_t from_slice,
                              const void *host, unsigned num_waits, const void *waits, void **event)
{
    BEGIN();
    if (blocking || num_waits || waits || to_slice || from_slice || to[1] || to[2] || from[0] || from[1] || from[2])
        broken("an upload of rows blocks, or is of others");
    int given = give_rows(buffer, queue, OP_UPLOAD, to[0], (uintptr_t)host, region, to_pitch, from_pitch, event);
    END(given);
}

static int opencl_download_rows(void *queue, void *buffer, unsigned blocking, const size_t *from, const size_t *to,
                                const size_t *region, size_t from_pitch, size_t from_slice, size_t to_pitch,
                                size_t to_slice, void *host, unsigned num_waits, const void *waits, void **event)
{
    BEGIN();
    if (blocking || num_waits || waits || to_slice || from_slice || from[1] || from[2] || to[0] || to[1] || to[2])
        broken("a download of rows blocks, or is of others");
    int given = give_rows(buffer, queue, OP_DOWNLOAD, (uintptr_t)host, from[0], region, to_pitch, from_pitch, event);
    END(given);
}

static int opencl_copy_rows(void *queue, void *from, void *to, const size_t *from_at, const size_t *to_at,
                            const size_t *region, size_t from_pitch, size_t from_slice, size_t to_pitch, size_t to_slice,
                            unsigned num_waits, const void *waits, void **event)
{
    BEGIN();
    const struct planned *planned = to;
    if (num_waits || waits || to_slice || from_slice || from_at[1] || from_at[2] || to_at[1] || to_at[2]
        || from != planned->of->ops[planned->index].other)
        broken("a copy of rows is between others");
    int given = give_rows(planned, queue, OP_COPY, to_at[0], from_at[0], region, to_pitch, from_pitch, event);
    END(given);
}

static int opencl_fill(void *queue, void *buffer, const void *pattern, size_t pattern_nbytes, size_t offset,
                       size_t nbytes, unsigned num_waits, const void *waits, void **event)
{
    BEGIN();
    const struct planned *planned = buffer;
    int given = give(planned, queue, num_waits, event);
    check_copy(planned, w.given, OP_FILL, offset, planned->of->ops[planned->index].from, nbytes);
    if (waits || pattern_nbytes != w.current_command->kind->pattern_nbytes
        || memcmp(pattern, carried_by(w.current_command), pattern_nbytes))
        broken("a fill has not the pattern of its record");
    END(given);
}

static int opencl_flush(void *queue)
{
    BEGIN();
    struct stream *s = queue;
    s->flushed = s->num_items;
    END(0);
}

static int opencl_event_info(void *event, unsigned what, size_t nbytes, void *value, size_t *got)
{
    BEGIN();
    const struct event *asked = event;
    check_event(asked);
    if (what != 0x11D3 || nbytes != sizeof(int) || got)
        broken("an event is asked for something else");
    int stage = is_complete(asked) ? 0 : 1;
    if (stage == 0 && asked->has_failed) {
        stage = CL_OUT_OF_RESOURCES;
        w.has_failed = true;
    }
    memcpy(value, &stage, sizeof stage);
    END(0);
}

/* On a clock of its own. */
static int opencl_event_times(void *event, unsigned what, size_t nbytes, void *value, size_t *got)
{
    lock();
    const struct event *asked = event;
    const struct stream *s = &w.streams[asked->lane];
    check_event(asked);
    if (!is_complete(asked) || (what != 0x1282 && what != 0x1283) || nbytes != sizeof(uint64_t) || got)
        broken("an event is asked for times that it has not got");
    uint64_t ended = s->ran[asked->operation - 1].executed_ns;
    uint64_t before = asked->operation > 1 ? s->ran[asked->operation - 2].executed_ns : 0;
    uint64_t took = 1 + (before > asked->issued_ns ? ended - before : ended - asked->issued_ns) / 2;
    s->ran[asked->operation - 1].took_ns = took;
    ended += UINT64_C(5000000000) - (what == 0x1282 ? took : 0);
    memcpy(value, &ended, sizeof ended);
    unlock();
    return 0;
}

static int opencl_event_free(void *event)
{
    return cuda_event_free(event);
}

const struct opencl_table opencl = {
    opencl_launch, opencl_set_argument, opencl_upload,     opencl_download,
    opencl_copy,   opencl_fill,         opencl_flush,      opencl_event_info, opencl_event_free,
    opencl_event_times, opencl_upload_rows,
    opencl_download_rows, opencl_copy_rows,
};
