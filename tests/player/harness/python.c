/* What Python does: acts on records, records what they came to, takes over what is in flight. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- recordings ----------------------------------------------------------------------------------------- */

static void add_access(struct recorded *r, struct op *op, uint32_t segment, uint32_t writes)
{
    for (uint32_t n = 0; n < op->num_accesses; n++)
        if (r->accesses[op->first_access + n].segment == segment && r->accesses[op->first_access + n].writes == writes)
            return;
    r->accesses[op->first_access + op->num_accesses++] = (struct access){segment, writes};
    r->given.num_accesses++;
}

static void make_kernel(struct recorded *r, struct op *op)
{
    for (unsigned d = 0; d < 3; d++) {
        op->size[d] = 1 + below(9);
        op->local[d] = 1 + below(9);
    }
    op->shared = below(100);
    op->dim = 1 + below(3);
    op->block_at = r->given.block_nbytes;
    op->block_nbytes = BLOCK_NBYTES;
    r->given.block_nbytes += BLOCK_NBYTES;
}

static void make_launch(struct recorded *r, struct op *op, bool is_together)
{
    const struct kind *kind = r->kind;
    op->kind = OP_LAUNCH;
    for (unsigned n = 1 + below(3); n; n--) { /* bytes in its member's memory */
        uint32_t segment = kind->device[below(3)];
        segment -= segment % w.num_members;
        add_access(r, op, segment + op->lane < SEGMENTS - HOST_SEGMENTS ? segment + op->lane : op->lane, one_in(2));
    }
    if (is_together)
        add_access(r, op, kind->host, WRITES_TOGETHER);
    make_kernel(r, op);
    op->first_hole = r->given.num_holes;
    op->num_holes = kind->num_holes;
    for (unsigned h = 0; h < kind->num_holes; h++) {
        uint32_t to = w.driver == DRIVER_OPENCL ? 7 + h : 16 * h + below(8);
        r->holes[r->given.num_holes++] = (struct hole){PREFIX + kind->hole_at[h], to, kind->hole_nbytes[h]};
    }
}

/* Between two members, or one and the host, in memory that there is.  `size`: the kind that it is else. */
static void make_copy_now(struct op *op)
{
    static uint8_t members[2][1 << 10];
    op->size[0] = op->kind;
    op->kind = OP_COPY_NOW;
    op->near = (uintptr_t)members[0];
    op->near_other = (uintptr_t)members[1];
    op->from = below(100);
    op->to = below(100);
    op->nbytes = 1 + below(100);
    if (one_in(2)) {
        op->num_runs = 1 + below(5);
        op->nbytes *= op->num_runs;
        op->to_pitch = 100 + below(50);
        op->from_pitch = 100 + 2 * below(25) + (op->size[0] == OP_DOWNLOAD);
    }
}

static void make_copy(struct recorded *r, struct op *op, uint32_t kind)
{
    uint32_t device = r->kind->device[below(3)], other = r->kind->device[below(3)], host = r->kind->host;
    op->kind = kind;
    if (kind == OP_FILL) {
        *op = (struct op){.kind = kind, .lane = op->lane, .first_access = op->first_access, .object = op->object};
        op->to = w.driver == DRIVER_CUDA ? (uintptr_t)&r->planned[r->given.num_ops] : random_bits();
        op->nbytes = 4 * (1 + below(1 << 14));
        add_access(r, op, device, true);
        return;
    }
    op->to = random_bits();
    op->from = random_bits();
    op->nbytes = 1 + below(1 << 16);
    uint64_t itself = (uintptr_t)&r->planned[r->given.num_ops];
    if (w.driver != DRIVER_OPENCL) {
        *(kind == OP_DOWNLOAD ? &op->from : &op->to) = itself;
        if (kind == OP_COPY && one_in(3)) { /* by a kernel */
            op->kind = OP_FETCH;
            make_kernel(r, op);
        } else if (kind == OP_COPY) {
            op->object = w.streams[below(w.num_members)].context;
            op->other = w.streams[below(w.num_members)].context;
        }
    } else {
        op->other = kind == OP_COPY ? w.cells : NULL;
        if (w.is_near)
            op->near = op->near_other = random_bits() | 1;
        if (w.is_near && r->given.op == SDI_OP_NDRANGE && one_in(2))
            make_copy_now(op);
    }
    if (r->kind->is_any) {
        add_access(r, op, device, 1);
        if (!r->kind->is_kept)
            add_access(r, op, host, false);
        return;
    }
    const bool is_peer = w.driver == DRIVER_CUDA && kind == OP_COPY && op->object != op->other;
    if (op->kind == kind && !is_peer && one_in(4)) {
        op->num_runs = 2 + below(5);
        op->nbytes = op->num_runs * (1 + below(1 << 10));
        op->to_pitch = random_bits();
        op->from_pitch = (random_bits() & ~(uint64_t)1) | (kind == OP_DOWNLOAD); /* tells which end names it */
    }
    add_access(r, op, kind == OP_UPLOAD ? host : device, false);
    bool is_beside = op->kind == OP_DOWNLOAD && w.driver == DRIVER_OPENCL;
    add_access(r, op, kind == OP_DOWNLOAD ? host : kind == OP_UPLOAD ? device : other, is_beside ? WRITES_BESIDE : 1);
}

/* OpenCL members have a context each: operations that use the same bytes are on one lane, or the first is one that is made
 * at once. */
static bool is_crossed(const struct recorded *r)
{
    for (uint32_t n = 0; n < r->given.num_ops; n++)
        for (uint32_t m = 0; m < n; m++)
            for (uint32_t a = 0; a < r->ops[n].num_accesses; a++)
                for (uint32_t b = 0; b < r->ops[m].num_accesses; b++) {
                    const struct access *one = &r->accesses[r->ops[n].first_access + a];
                    const struct access *two = &r->accesses[r->ops[m].first_access + b];
                    bool is_beside = one->writes == two->writes && one->writes > 1;
                    const bool is_now = r->ops[n].kind == OP_COPY_NOW;
                    if (one->segment == two->segment && (one->writes || two->writes) && !is_beside
                        && r->ops[m].kind != OP_COPY_NOW && (is_now || r->ops[n].lane != r->ops[m].lane))
                        return true;
                }
    return false;
}

/* So many of the next launches are measured; then one after so many, and one of so many. */
static void watch(const struct kind *kind)
{
    const uint32_t values[] = {below(4), one_in(4) ? 0 : 1 + below(9), one_in(4) ? 0 : 1 + below(9)};
    for (unsigned n = 0; kind->watch && n < 3; n++)
        w.truth[kind->watch + n] = w.cells[kind->watch + n] = values[n];
}

/* How many copies at the beginning may be beside each other: none writes bytes of the client that another one uses, and
 * what several write of a segment is on one lane. */
static uint32_t beside(const struct recorded *r)
{
    uint32_t count = 0;
    while (count < r->given.num_ops && r->ops[count].kind != OP_LAUNCH)
        count++;
    for (uint32_t n = 0; n < count; n++)
        for (uint32_t m = 0; m < count; m++)
            for (uint32_t a = 0; m != n && a < r->ops[n].num_accesses; a++)
                for (uint32_t b = 0; b < r->ops[m].num_accesses; b++) {
                    const struct access *one = &r->accesses[r->ops[n].first_access + a];
                    const struct access *two = &r->accesses[r->ops[m].first_access + b];
                    if (one->segment == two->segment && one->writes
                        && (one->segment >= SEGMENTS - HOST_SEGMENTS || (two->writes && r->ops[n].lane != r->ops[m].lane)))
                        return 0;
                }
    return w.driver == DRIVER_CUDA && count > 1 && !one_in(4) ? count : 0;
}

static void record(struct kind *kind, const struct command *c)
{
    struct test test = {0};
    if (kind->is_tested && !case_of(c, &test))
        return;
    struct recorded *r = aligned_alloc(PLANNED_NBYTES, sizeof *r);
    memset(r, 0, sizeof *r);
    r->kind = kind;
    r->test = test;
    struct given *g = &r->given;
    g->tests = &r->test;
    g->num_tests = kind->is_tested;
    g->op = kind->op;
    g->build = kind->op == SDI_OP_NDRANGE ? kind->build : 0;
    g->index = kind->op == SDI_OP_NDRANGE ? kind->index : 0;
    g->key_nbytes = kind->nbytes;
    for (uint32_t n = 0; n < kind->nbytes; n++)
        r->key[n] = kind->key[n] & kind->mask[n];
    unsigned ops = kind->op == SDI_OP_NDRANGE ? 1 + below(OPS)
                   : kind->op == SDI_OP_READ || kind->op == SDI_OP_MAP ? below(OPS)
                   : kind->op == SDI_OP_WRITE && !kind->is_early_write && one_in(2) ? below(OPS)
                   : kind->op == SDI_OP_FILL                           ? kind->on_member
                                                                       : kind->op == SDI_OP_COPY;
    if (kind->is_kept && !ops)
        ops = 1;
    const bool is_together = kind->op == SDI_OP_NDRANGE && one_in(4); /* its launches use the client's bytes */
    for (unsigned n = 0; n < ops; n++) {
        struct op *op = &r->ops[n];
        r->planned[n] = (struct planned){.of = r, .index = n};
        op->lane = below(w.num_members);
        op->first_access = g->num_accesses;
        op->object = &r->planned[n];
        if (kind->op == SDI_OP_NDRANGE && (n + 1 == ops || g->num_together || one_in(2))) {
            make_launch(r, op, is_together);
            g->num_together += is_together;
        } else
            make_copy(r, op, kind->op == SDI_OP_FILL                 ? OP_FILL
                             : kind->op == SDI_OP_WRITE             ? OP_UPLOAD
                             : kind->op == SDI_OP_READ || kind->op == SDI_OP_MAP ? OP_DOWNLOAD
                             : kind->op == SDI_OP_COPY || one_in(2) ? OP_COPY
                             : one_in(4)                            ? OP_DOWNLOAD
                                                                     : OP_UPLOAD);
        g->num_ops++;
    }
    if (w.driver == DRIVER_OPENCL && is_crossed(r))
        for (unsigned n = 0; n < ops; n++) {
            r->ops[n].lane = r->ops[0].lane;
            if (r->ops[n].kind == OP_COPY_NOW)
                r->ops[n].kind = (uint32_t)r->ops[n].size[0];
        }
    g->num_beside = beside(r);
    for (unsigned n = 0; n < sizeof r->block; n++)
        r->block[n] = (uint8_t)random_bits();
    for (unsigned n = 0; n < kind->num_states; n++) {
        r->guards[g->num_guards++] = (struct cell_value){kind->states[n], w.truth[kind->states[n]]};
        if (one_in(w.is_long ? 12 : 3))
            r->effects[g->num_effects++] = (struct cell_value){kind->states[n], 1 + below(3)};
    }
    if (kind->budget) {
        r->budget = kind->budget;
        g->num_budgets = 1;
        w.truth[kind->budget] = w.cells[kind->budget] = 1 + below(w.calm ? 1000 : 30);
    }
    g->profiled = ++w.num_profiled;
    g->watch = kind->watch;
    watch(kind);
    if (kind->op == SDI_OP_READ) {
        g->client = kind->is_shown ? CLIENT_SHOWN : CLIENT_READS;
        g->client_segment = kind->host;
        g->client_nbytes = kind->is_shown ? MEMORY_NBYTES : kind->floats ? kind->floats : 4;
        g->client_from = kind->from;
        g->client_stop = kind->stop;
        g->client_at = (uintptr_t)w.memory[kind->host - (SEGMENTS - HOST_SEGMENTS)];
        g->client_to = (uintptr_t)r->shown;
        g->client_shown = kind->is_shown && one_in(2) ? 1 + kind->device[0] : 0;
        g->blocking = kind->blocking;
    }
    if (kind->op == SDI_OP_WRITE || (kind->op == SDI_OP_FILL && !kind->on_member)) {
        g->client = kind->is_early_write ? CLIENT_WRITTEN : kind->op == SDI_OP_WRITE ? CLIENT_WRITES : CLIENT_FILLS;
        g->client_at = (uintptr_t)&w.memory[kind->host - (SEGMENTS - HOST_SEGMENTS)][kind->from];
        g->client_nbytes = kind->stop - kind->from;
        g->client_from = kind->from;
        g->client_stop = kind->stop;
        g->client_slack = kind->slack;
        if (kind->floats)
            g->client_nbytes = kind->is_any ? 0 : kind->floats;
        if (kind->is_kept)
            g->client = CLIENT_STAGED;
    }
    g->floats = kind->floats != 0;
    g->client_span = kind->span;
    if (kind->op == SDI_OP_MAP || (kind->op == SDI_OP_UNMAP && kind->takes))
        g->client = kind->takes ? CLIENT_TAKES : CLIENT_LOOKS;
    if (g->client != CLIENT_NONE)
        g->client_segment = kind->host;
    g->key = r->key;
    g->mask = kind->mask;
    g->guards = r->guards;
    g->effects = r->effects;
    g->budgets = &r->budget;
    g->ops = r->ops;
    g->accesses = r->accesses;
    g->holes = r->holes;
    g->block = r->block;
    r->number = sdi_player_add(w.player, g);
    if (r->number < 0)
        broken("there is no room for a recording");
    r->older = w.recorded;
    w.recorded = r;
}

/* Something is recorded for these facts, but nothing is left of its budget: it gets `more`. */
static bool lacks_budget(const struct command *c, uint32_t more)
{
    for (const struct recorded *r = w.recorded; r; r = r->older)
        if (!r->is_dropped && r->kind == c->kind && admits(r, c)) {
            bool same = true;
            for (uint32_t n = 0; n < r->given.num_guards; n++)
                same = same && w.truth[r->guards[n].cell] == r->guards[n].value;
            if (same) {
                w.truth[r->budget] = w.cells[r->budget] = more;
                return true;
            }
        }
    return false;
}

static void learn(const struct command *c)
{
    bool is_known;
    struct kind *kind = c->kind;
    if (one_in(w.calm ? 100 : 4))
        for (unsigned n = 0; n < kind->num_states; n++)
            w.truth[kind->states[n]] = w.cells[kind->states[n]] = 1 + below(3);
    if (kind->budget && one_in(w.calm ? 20 : 2))
        w.truth[kind->budget] = w.cells[kind->budget] = 1 + below(30);
    if (one_in(w.calm ? 20 : 2))
        watch(kind);
    if (w.is_on && !one_in(5) && !model_find(c, &is_known) && !lacks_budget(c, 1 + below(30)))
        record(kind, c);
}

static void drop_all(void)
{
    sdi_player_drop_all(w.player);
    for (struct recorded *r = w.recorded; r; r = r->older)
        r->is_dropped = true;
    shared_known(true);
}

/* ---- commands ------------------------------------------------------------------------------------------- */

static void complete(struct command *c)
{
    c->is_over = true;
    if (c->is_taken_over && c->as && c->as->given.client == CLIENT_STAGED)
        staged_taken(c);
    if (is_read(c) && !c->is_answered) { /* it failed */
        if (c->is_counted)
            w.reading[c->as->given.client_segment]--;
        c->is_counted = false;
        w.num_open--;
    }
    if (c->is_pythons && c->kind) {
        model_write(c);
        memcpy(w.memory, w.in_order, sizeof w.memory);
    }
    if (!c->slot)
        return;
    struct sdi_wire_slot *slot = slot_at(c->slot);
    if (slot->status <= 0 || slot->status == SEEN)
        broken("command %lu is complete already", (unsigned long)c->id);
    slot->submitted_ns = slot->started_ns = harness_now();
    slot->ended_ns = harness_now();
    __atomic_store_n(&slot->status, c->status, __ATOMIC_RELEASE);
    if (c->owes_python)
        client_notified(c);
    c->owes_python = false;
}

/* In order of arrival, each when the client has copied what it reads. */
static void go_on(void)
{
    while (w.num_pending) {
        struct command *c = w.pending[0];
        if (is_read(c) && !c->has_answer && !c->status) {
            if (!c->was_told && !c->is_told)
                client_told(c);
            c->was_told = true;
            return;
        }
        complete(c);
        memmove(w.pending, w.pending + 1, --w.num_pending * sizeof *w.pending);
    }
    shared_go_on();
}

static int by_sequence(const void *one, const void *two)
{
    const struct node_told *a = one, *b = two;
    return a->sequence < b->sequence ? -1 : 1;
}

static void learn_times(void)
{
    static struct report reports[REPORTS_MAX];
    w.lost_reports |= w.player->num_reports == REPORTS_MAX;
    for (uint32_t n = 0, count = sdi_player_reports(w.player, reports); n < count; n++)
        model_report(&reports[n]);
    const struct logged *log;
    if (w.is_profiled) {
        uint32_t count = sdi_player_logged(w.player, &log);
        model_log(log, count);
    }
}

static void hear(void)
{
    static uint64_t pairs[2 * COMMANDS];
    uint32_t count = sdi_player_played(w.player, pairs);
    for (struct recorded *r = w.recorded; r; r = r->older) {
        uint64_t runs = 0;
        for (uint32_t n = 0; n < count && !r->is_dropped; n++)
            if ((int64_t)pairs[2 * n] == r->number)
                runs = pairs[2 * n + 1];
        if (r->runs != runs && !r->is_dropped)
            broken("a recording ran %lu times, and is said to have run %lu times", (unsigned long)r->runs,
                   (unsigned long)runs);
        r->runs = 0;
    }
    sdi_player_released(w.player);
}

/* What the player asked about is recorded, or not; all that it has in flight stays its own. */
static void plan(void)
{
    const struct sent *next = &w.sent[w.passed];
    bool is_known;
    hear();
    shared_hear();
    if (w.passed == w.num_sent || one_in(4))
        return;
    if (next->what == A_RECYCLE)
        shared_plan(next->buffer);
    else if (next->what == A_COMMAND && next->command->kind && w.is_on && !model_find(next->command, &is_known) && !lacks_budget(next->command, 1 + below(30))) {
        record(next->command->kind, next->command);
        counted[PLANNED]++;
    }
}

static void take_over(bool is_end)
{
    learn_times();
    static struct node_told told[NODES_MAX];
    hear();
    __atomic_store_n(&w.cells[CELL_POSTED], 0, __ATOMIC_RELAXED);
    client_look();
    uint32_t count = sdi_player_nodes(w.player, told);
    model_nodes(told, count);
    shared_take_over(count);
    if (memcmp(w.cells + CELLS_RESERVED, w.truth + CELLS_RESERVED, sizeof w.cells - CELLS_RESERVED * sizeof *w.cells))
        broken("cells have other values than the effects");
    if (!count)
        return;
    counted[TAKEN_OVER] += count;
    driver_drain();
    qsort(told, count, sizeof *told, by_sequence);
    for (uint32_t n = 0; n < count; n++) {
        struct command *c = command_of(told[n].id);
        c->status = told[n].status ? -5 : 0;
        c->may_fail |= c->status != 0;
        w.is_on &= c->status == 0;
        c->was_told = told[n].stage == STAGE_COPYING;
        c->is_taken_over = true;
        c->is_left = is_end;
        c->taken_in = w.runs;
        c->owes_python = told[n].wants_notice;
        c->owes_player = false;
        w.pending[w.num_pending++] = c;
    }
    sdi_player_handed_over(w.player, SEGMENTS);
    learn_times();
}

/* Whether the player had a reason to leave a command to Python. */
static void check_why(const struct command *c, bool was_busy, uint32_t num_nodes)
{
    bool is_known, holds = c->kind && model_find(c, &is_known), playable = w.is_playable[c->queue];
    for (unsigned q = 0; q < w.num_queues; q++) /* it may have waited until nothing of these is in flight any more */
        num_nodes += w.is_timed[q];
    switch (w.player->why) {
    case WHY_BUSY:
        if (!was_busy)
            broken("command %lu was left although Python has nothing in flight", (unsigned long)c->id);
        break;
    case WHY_KIND:
        if (c->op != SDI_OP_FILL)
            broken("command %lu was not looked at", (unsigned long)c->id);
        break;
    case WHY_QUEUE:
        if (playable)
            broken("command %lu is in a queue that is played", (unsigned long)c->id);
        break;
    case WHY_WAITS:
        if (!c->num_waits || (!num_nodes && !w.cells[CELL_NO_WAITS]))
            broken("command %lu waits for nothing unknown", (unsigned long)c->id);
        break;
    case WHY_LANES:
        if (!num_nodes)
            broken("command %lu was left although nothing is in flight", (unsigned long)c->id);
        break;
    default:
        if (holds)
            broken("command %lu was left although its recording holds", (unsigned long)c->id);
    }
}

/* False: the session ends. */
static bool act(struct sent *s, bool was_busy, uint32_t num_nodes)
{
    struct command *c = s->command;
    switch (s->what) {
    case A_COMMAND:
        check_why(c, was_busy, num_nodes);
        c->is_pythons = true;
        if (c->staged_at)
            staged_taken(c);
        w.pending[w.num_pending++] = c;
        if (c->kind)
            learn(c);
        break;
    case A_RELEASE:
        c->is_released = true;
        break;
    case A_WATCH:
        c->owes_python = !c->is_over && (c->is_pythons || c->is_taken_over);
        if (!c->owes_python)
            client_notified(c);
        break;
    case AN_ANSWER: {
        const struct sdi_rec_transfer_done *done = (const void *)s->record;
        if (c->is_over || !(c->is_pythons || c->was_told))
            broken("an answer to what nobody asked");
        c->has_answer = true;
        c->status = done->status;
        break;
    }
    case A_RECYCLE:
    case A_REUSE:
        shared_act(s, was_busy);
        break;
    case ANOTHER:
        if (one_in(4))
            drop_all();
        if (one_in(4)) {
            unsigned queue = below(w.num_queues);
            model_queue(queue, !one_in(4));
            w.logged_ns[queue] = 0;
            sdi_player_queue(w.player, queue + 1, w.is_playable[queue], w.is_timed[queue], true);
        }
        break;
    case DAMAGED:
        return false;
    }
    return true;
}

static void rest(void)
{
    if (w.threads) {
        unlock();
        usleep(20);
        lock();
        return;
    }
    if (++w.idle > 100000)
        broken("nothing goes on");
    client_step();
    for (unsigned n = below(4); n; n--)
        driver_step();
}

static void set(uint32_t cell, bool value)
{
    w.cells[cell] = w.truth[cell] = value;
}

/* A session, from the first record to the last. */
void python_run(void)
{
    struct sdi_player *p = w.player;
    for (bool goes_on = true; goes_on;) {
        bool may_play = w.is_on && !w.num_pending && !w.busy;
        w.busy -= w.busy != 0;
        set(CELL_PYTHON_EVENTS, one_in(3));
        set(CELL_NO_WAITS, one_in(w.calm ? 300 : 30));
        w.is_playing = may_play;
        w.is_looking = w.is_profiled;
        unlock();
        w.runs++;
        int why = sdi_player_run(p, may_play);
        lock();
        w.is_playing = w.is_looking = false;
        uint64_t nbytes, left;
        const char *record = why == SDI_RECORD ? sdi_player_record(p, &nbytes, &left) : NULL;
        struct sent *s = model_pass(stream_taken() - (p->tail - p->head), record, record ? nbytes : 0);
        uint32_t num_nodes = p->num_nodes;
        if (why == SDI_MEASURED || !may_play)
            learn_times();
        else if (why == SDI_UNKNOWN)
            plan();
        else if (may_play)
            take_over(why == SDI_END);
        else if (num_nodes)
            broken("the player keeps what Python took over");
        switch (why) {
        case SDI_RECORD:
            goes_on = act(s, !may_play, num_nodes);
            if (one_in(w.calm ? 50 : 8))
                w.busy = below(6);
            break;
        case SDI_IDLE:
            if (may_play && num_nodes)
                broken("the player rests with commands in flight");
            rest();
            break;
        case SDI_END:
            goes_on = false;
            break;
        case SDI_UNKNOWN:
            if (!may_play || w.is_profiled)
                broken("a record is to be planned that can't be");
            break;
        case SDI_MEASURED:
            if (!may_play)
                broken("times are told while Python has commands in flight");
            break;
        case SDI_POSTED:
            counted[POSTED_TIMES]++;
            if (!w.was_posted)
                broken("nothing was posted");
            break;
        case SDI_FAILED:
            if (!w.has_failed)
                broken("the player gives up for no reason");
            w.is_on = false;
            break;
        case SDI_WANTED:
            counted[WANTED_TIMES]++;
            go_on();
            sdi_player_waited(p, w.num_pending != 0 || one_in(5));
            w.busy = 0;
            break;
        default:
            broken("the player returns %d", why);
        }
        go_on();
        if (!goes_on)
            break;
    }
    client_leave();
    for (unsigned n = 0; n < w.num_pending; n++)
        if (is_read(w.pending[n]))
            w.pending[n]->has_answer = true;
    go_on();
    client_look();
}
