/* What must be so, whatever the player does and the driver takes its time for. */
#include "harness.h"

#include <string.h>

enum {
    ROUNDING_NS = 5000, /* CUDA tells milliseconds as float */
    GUESSED_MOST = 2 * 63, /* of two lanes, which are told of in another order */
    GIVING_NS = 1000,   /* from when the player gives an operation to when the driver has it */
};

static void merge(uint64_t *to, const uint64_t *from)
{
    for (unsigned l = 0; l < LANES; l++)
        if (from[l] > to[l])
            to[l] = from[l];
}

static bool holds(const struct recorded *r)
{
    for (unsigned n = 0; n < r->given.num_guards; n++)
        if (w.truth[r->guards[n].cell] != r->guards[n].value)
            return false;
    return !r->given.num_budgets || w.truth[r->budget];
}

/* The case that the first hole of a launch is, as C counts; false: it is none. */
bool case_of(const struct command *c, struct test *test)
{
    const struct kind *kind = c->kind;
    uint8_t key[KEY_NBYTES];
    bare_key(c, key);
    __int128 value = 0;
    for (unsigned n = kind->hole_nbytes[0]; n > 0; n--)
        value = value * 256 + key[kind->hole_at[0] + n - 1];
    __int128 end = (__int128)1 << (8 * kind->hole_nbytes[0]);
    if (kind->is_signed && value >= end / 2)
        value -= end;
    *test = (struct test){kind->hole_at[0], kind->hole_nbytes[0], kind->is_signed, 0, kind->threshold, INT64_MAX,
                          kind->modulus, (int64_t)((value % kind->modulus + kind->modulus) % kind->modulus)};
    if (value < kind->threshold) {
        test->lo = kind->is_signed ? INT64_MIN : 0;
        test->hi = kind->threshold - 1;
    }
    return value <= INT64_MAX;
}

bool admits(const struct recorded *r, const struct command *c)
{
    struct test found;
    return !r->kind->is_tested
           || (case_of(c, &found) && found.lo == r->test.lo && found.residue == r->test.residue);
}

/* The recording that is right for a command now, or NULL; `is_known`: there is one for other facts, at least. */
struct recorded *model_find(const struct command *c, bool *is_known)
{
    *is_known = false;
    for (struct recorded *r = w.recorded; r; r = r->older)
        if (!r->is_dropped && r->kind == c->kind) {
            *is_known = true;
            if (holds(r) && admits(r, c))
                return r;
        }
    return NULL;
}

static void check_key(const struct command *c, const struct recorded *r)
{
    uint8_t key[KEY_NBYTES];
    if (bare_key(c, key) != r->given.key_nbytes || c->op != r->given.op)
        broken("command %lu is replayed as another one", (unsigned long)c->id);
    for (uint32_t n = 0; n < r->given.key_nbytes; n++)
        if ((key[n] & r->kind->mask[n]) != r->key[n])
            broken("command %lu is replayed with other bytes", (unsigned long)c->id);
    if (!admits(r, c))
        broken("command %lu is replayed as another case", (unsigned long)c->id);
}

/* The bytes of a write are there, behind all that came before it. */
void model_write(const struct command *c)
{
    const struct kind *kind = c->kind;
    uint8_t *in_order = w.in_order[kind->host - (SEGMENTS - HOST_SEGMENTS)];
    if (c->op == SDI_OP_WRITE && !kind->is_early_write)
        for (uint32_t row = 0, nbytes = c->carried / kind->rows; row < kind->rows; row++)
            memcpy(in_order + c->at + row * kind->pitch, carried_by(c) + row * nbytes, nbytes);
    for (unsigned n = kind->from; c->op == SDI_OP_FILL && !kind->on_member && n < kind->stop; n++)
        in_order[n] = carried_by(c)[(n - kind->from) % kind->pattern_nbytes];
}

/* The client copies what it read. */
void model_copied(const struct command *c)
{
    const uint8_t *memory = c->as ? w.memory[c->as->given.client_segment - (SEGMENTS - HOST_SEGMENTS)] : NULL;
    if (memory && c->is_played && !w.has_failed && memcmp(memory, c->finds, MEMORY_NBYTES))
        broken("the client copies other bytes than read %lu is to find", (unsigned long)c->id);
}

static bool reads(const struct recorded *r)
{
    return r->given.client == CLIENT_READS || r->given.client == CLIENT_SHOWN;
}

/* Whether the application reads by it, and looks at it. */
bool model_is_awaited(const struct command *c)
{
    return c->slot && c->as && reads(c->as);
}

static void read_by_client(struct command *c)
{
    uint32_t client = c->as ? c->as->given.client : CLIENT_NONE;
    const bool takes = client == CLIENT_TAKES || client == CLIENT_WRITTEN;
    if (client == CLIENT_READS || client == CLIENT_SHOWN || client == CLIENT_LOOKS || takes)
        merge(c->over, w.wrote[COPIES][c->as->given.client_segment]);
    if (takes)
        merge(c->over, w.read[COPIES][c->as->given.client_segment]);
    if (takes && w.reading[c->as->given.client_segment])
        broken("command %lu lets the application write what it has yet to copy", (unsigned long)c->id);
    if (c->as && reads(c->as))
        memcpy(c->finds, w.in_order[c->as->given.client_segment - (SEGMENTS - HOST_SEGMENTS)], MEMORY_NBYTES);
    if (c->as && c->as->given.client == CLIENT_READS && !c->is_answered) {
        c->is_counted = true;
        w.reading[c->as->given.client_segment]++;
    }
}

static void come_before(struct command *c, const struct command *other)
{
    merge(c->earlier, other->earlier);
    merge(c->earlier, other->own);
    merge(c->over, other->over);
}

/* The player has taken a command, which comes to `as`; a marker comes to nothing. */
static void take(struct command *c, struct recorded *as)
{
    c->is_played = true;
    c->as = as;
    if (!w.is_playable[c->queue])
        broken("command %lu is in a queue that is Python's", (unsigned long)c->id);
    if (c->before >= 0)
        come_before(c, &w.all[c->before]);
    for (unsigned n = 0; n < c->num_waits; n++)
        come_before(c, &w.all[c->waits[n]]);
    if (!as)
        return;
    check_key(c, as);
    if (!holds(as))
        broken("command %lu is replayed although a guard fails", (unsigned long)c->id);
    for (unsigned n = 0; n < as->given.num_effects; n++)
        w.truth[as->effects[n].cell] = as->effects[n].value;
    if (as->given.num_budgets)
        w.truth[as->budget]--;
    if (as->given.watch) { /* so many in a row, and then one after so many */
        uint32_t *cells = &w.truth[as->given.watch];
        c->is_measured = cells[0] || cells[1] == 1;
        cells[0] -= cells[0] ? 1 : 0;
        cells[1] = cells[1] == 1 ? cells[2] : cells[1] ? cells[1] - 1 : 0;
    }
    if (as->given.client == CLIENT_WRITES || as->given.client == CLIENT_FILLS)
        model_write(c);
    if (as->given.client == CLIENT_WRITES && c->staged_at)
        w.taken += c->carried;
    counted[STAGED] += as->given.client == CLIENT_STAGED;
    if (as->given.client == CLIENT_STAGED && !c->staged_at)
        broken("command %lu has staged nothing", (unsigned long)c->id);
    as->runs++;
    as->newest = c;
    w.replays++;
    w.running = as;
    w.current_command = c;
    w.next_op = 0;
    if (!as->given.num_ops)
        read_by_client(c);
}

static void check_whole(void)
{
    if (!w.running || w.next_op == w.running->given.num_ops)
        return;
    if (!w.has_failed)
        broken("a recording was left off after %u operations", w.next_op);
    w.current_command->must_fail = true;
}

/* The stream of each member that a queue's commands go to. */
static unsigned stream_now(unsigned queue)
{
    return w.way == WAY_SHARED ? 0 : w.stream_of[queue];
}

/* The player is behind a record of which the driver was told nothing. */
static void pass(const struct sent *s, bool is_last)
{
    struct command *c = s->command;
    if (s->what == A_RELEASE)
        c->is_released = true;
    const struct sdi_rec_watch *watch = (const void *)s->record;
    if (s->what == A_WATCH && watch->status)
        broken("a watch that is Python's was passed over");
    if (s->what == A_WATCH)
        c->owes_player = true;
    if (s->buffer)
        shared_pass(s);
    const struct sdi_rec_transfer_done *done = (const void *)s->record;
    if (s->what == ANOTHER || s->what == DAMAGED || (s->what == AN_ANSWER && done->status < 0))
        broken("a record that is Python's was passed over");
    if (s->what != A_COMMAND || c->is_played)
        return;
    check_whole();
    if (c->op == SDI_OP_MARKER || c->op == SDI_OP_BARRIER) {
        take(c, NULL);
        for (unsigned m = 0; m < w.num_members && c->slot; m++) {
            struct stream *own = &w.streams[stream_now(c->queue) * w.num_members + m];
            own->awaited = own->issued;
            own->of = c;
        }
        return;
    }
    bool is_known;
    struct recorded *found = c->kind ? model_find(c, &is_known) : NULL;
    if (!found || (found->given.num_ops && !(w.has_failed && is_last)))
        broken("command %lu was passed over", (unsigned long)c->id);
    take(c, found);
}

/* The player asks for more: all that it had is taken, and from here on queues use streams in another way. */
void model_turn(void)
{
    const struct trial *trial = &w.player->trial;
    if (trial->turns && !w.player->attempt)
        broken("streams were to be used in another way, and are not");
    if (w.way == w.player->way)
        return;
    while (w.passed < w.num_sent && w.sent[w.passed].end <= w.received - (w.player->tail - w.player->head))
        pass(&w.sent[w.passed++], false);
    counted[WAYS_CHANGED]++;
    w.way = w.player->way;
}

/* The player has read `consumed` bytes of the stream, the last ones of which are the record, if it returned one. */
struct sent *model_pass(uint64_t consumed, const char *record, size_t nbytes)
{
    uint64_t until = consumed - (record ? nbytes : 0);
    while (w.passed < w.num_sent && w.sent[w.passed].end <= until) {
        bool is_last = w.sent[w.passed].end == until;
        pass(&w.sent[w.passed++], is_last);
    }
    check_whole();
    w.running = NULL;
    if (!record)
        return NULL;
    struct sent *s = &w.sent[w.passed++];
    if (w.passed > w.num_sent || s->end - s->nbytes != until || memcmp(s->record, record, nbytes)
        || (s->nbytes != nbytes && s->what != DAMAGED))
        broken("the record is not the next one");
    return s;
}

/* The record that an operation is of: the first one that has operations. */
static void begin(struct recorded *of)
{
    check_whole();
    w.running = NULL;
    while (w.passed < w.num_sent) {
        const struct sent *s = &w.sent[w.passed++];
        bool is_known;
        struct recorded *found = s->what == A_COMMAND && s->command->kind ? model_find(s->command, &is_known) : NULL;
        if (found && found->given.num_ops) {
            if (found != of)
                broken("command %lu is replayed as another one", (unsigned long)s->command->id);
            take(s->command, found);
            return;
        }
        pass(s, false);
    }
    broken("an operation is of no record");
}

/* What it does to the client's bytes, if anything. */
static void touch(uint32_t segment, bool writes, unsigned part)
{
    if (segment < SEGMENTS - HOST_SEGMENTS)
        return;
    w.touch = (struct touch){.touches = true, .writes = writes, .segment = segment - (SEGMENTS - HOST_SEGMENTS)};
    uint8_t *in_order = w.in_order[w.touch.segment];
    w.touch.from = part * (MEMORY_NBYTES / OPS);
    for (unsigned n = 0; writes && n < MEMORY_NBYTES / OPS; n++)
        in_order[w.touch.from + n] = (uint8_t)random_bits();
    memcpy(w.touch.bytes, in_order, MEMORY_NBYTES);
}

static void must_follow(unsigned lane, const uint64_t *before, const char *what)
{
    for (unsigned l = 0; l < w.num_lanes; l++)
        if (l != lane && before[l] > w.streams[lane].after[l] && before[l] > w.observed[l])
            broken("command %lu on lane %u starts before operation %lu of lane %u, %s",
                   (unsigned long)w.current_command->id, lane, (unsigned long)before[l], l, what);
}

/* A queue is made, or made anew: it goes to the first of the streams that the fewest other queues use. */
void model_queue(unsigned queue, bool is_playable)
{
    unsigned found = 0, used[STREAMS_MAX] = {0};
    w.is_playable[queue] = false;
    for (unsigned q = 0; q < w.num_queues; q++)
        used[w.stream_of[q]] += w.is_playable[q];
    for (unsigned s = w.num_lanes / w.num_members; s; s--)
        found = used[s - 1] <= used[found] ? s - 1 : found;
    w.stream_of[queue] = found;
    w.is_playable[queue] = is_playable;
}

/* Other launches may use the bytes meanwhile: nothing of what the application asked for orders them. */
static bool is_at_once(unsigned lane, const uint64_t *used)
{
    for (unsigned l = 0; l < w.num_lanes; l++)
        if (l != lane && used[l] > w.streams[lane].after[l] && used[l] > w.observed[l])
            return true;
    return false;
}

/* Whether another stream of its member has yet to do something. */
static bool is_beside_another(unsigned lane)
{
    for (unsigned l = lane % w.num_members; l < w.num_lanes; l += w.num_members)
        if (l != lane && w.streams[l].issued > w.streams[l].executed)
            return true;
    return false;
}

/* Whether it is the longest launch, which has its member for itself now. */
static bool is_alone(const struct recorded *of)
{
    const struct launch_shape *longest = &w.player->trial.longest;
    for (uint32_t n = 0; n < of->given.num_ops && w.player->way == WAY_ALONE; n++)
        if (of->ops[n].kind == OP_LAUNCH)
            return of->ops[n].object == longest->kernel && !memcmp(of->ops[n].size, longest->size, sizeof longest->size);
    return false;
}

/* An operation comes, as the next one of its command. */
static void come(const struct planned *planned)
{
    if (!w.is_playing || w.has_failed)
        broken("an operation is issued by nobody's leave");
    const struct recorded *of = planned->of;
    if (planned->index == 0)
        begin(planned->of);
    else if (w.running != of || planned->index != w.next_op)
        broken("operation %u comes at the wrong time", planned->index);
    w.next_op = planned->index + 1;
    if (planned->index == 0) {
        memcpy(w.wrote_before, w.wrote, sizeof w.wrote);
        memcpy(w.read_before, w.read, sizeof w.read);
        for (unsigned l = 0; l < w.num_lanes; l++)
            w.others[l] = w.streams[l].issued;
    }
}

static void must_be_done(const uint64_t *before, const char *what)
{
    for (unsigned l = 0; l < w.num_lanes; l++)
        if (before[l] > w.observed[l])
            broken("command %lu copies before operation %lu of lane %u is seen to be done, %s",
                   (unsigned long)w.current_command->id, (unsigned long)before[l], l, what);
}

/* The player makes a copy itself, now. */
void model_copy_now(const struct planned *planned)
{
    come(planned);
    struct command *c = w.current_command;
    const struct op *op = &planned->of->ops[planned->index];
    const struct access *accesses = &planned->of->accesses[op->first_access];
    for (unsigned n = 0; n < op->num_accesses; n++) {
        const uint32_t segment = accesses[n].segment;
        for (unsigned kind = 0; kind < 2; kind++) {
            must_be_done(w.wrote[kind][segment], "which writes what it uses");
            if (accesses[n].writes)
                must_be_done(w.read[kind][segment], "which reads what it writes");
        }
        if (accesses[n].writes && w.reading[segment])
            broken("command %lu writes what the client has yet to copy", (unsigned long)c->id);
    }
    w.touch.touches = false;
    for (unsigned n = 0; n < op->num_accesses; n++)
        touch(accesses[n].segment, accesses[n].writes, planned->index);
    counted[COPIED_NOW]++;
    if (w.next_op == planned->of->given.num_ops)
        read_by_client(c);
}

/* An operation is given to the driver. */
void model_issue(const struct planned *planned, unsigned lane)
{
    come(planned);
    const struct recorded *of = planned->of;
    const bool is_apart = planned->index < of->given.num_beside; /* from the others of its own command */
    uint64_t (*wrote)[SEGMENTS][LANES] = is_apart ? w.wrote_before : w.wrote;
    uint64_t (*read)[SEGMENTS][LANES] = is_apart ? w.read_before : w.read;
    struct command *c = w.current_command;
    const struct op *op = &of->ops[planned->index];
    if (lane != op->lane + stream_now(c->queue) * w.num_members)
        broken("an operation is on another lane than recorded");
    counted[ASIDE] += lane != op->lane;
    /* What is before it in its own queue it follows on its member; on others by its bytes, or it can't matter. */
    uint64_t earlier[LANES] = {0};
    for (unsigned l = op->lane; l < w.num_lanes; l += w.num_members)
        earlier[l] = c->earlier[l];
    must_follow(lane, earlier, "which is before it in its queue");
    if (op->kind == OP_LAUNCH && is_alone(of)) {
        for (unsigned l = op->lane; l < w.num_lanes; l += w.num_members)
            earlier[l] = w.others[l];
        counted[ALONE] += is_beside_another(lane);
        must_follow(lane, earlier, "and is to run alone");
    }
    for (unsigned n = 0; n < c->num_waits; n++)
        if (w.all[c->waits[n]].queue != c->queue)
            must_follow(lane, w.all[c->waits[n]].over, "which it waits for");
    const struct access *accesses = &of->accesses[op->first_access];
    const unsigned kind = op->kind == OP_LAUNCH ? LAUNCHES : COPIES;
    for (unsigned n = 0; n < op->num_accesses; n++) {
        uint32_t segment = accesses[n].segment;
        bool is_beside = accesses[n].writes == WRITES_BESIDE; /* of what its own command writes */
        must_follow(lane, (is_beside ? w.wrote_before : wrote)[COPIES][segment], "which writes what it uses");
        if (accesses[n].writes)
            must_follow(lane, read[COPIES][segment], "which reads what it writes");
        if (accesses[n].writes == WRITES_TOGETHER) { /* as the others of its own command do */
            must_follow(lane, w.wrote_before[LAUNCHES][segment], "which writes what it uses");
            must_follow(lane, w.read_before[LAUNCHES][segment], "which reads what it writes");
            counted[TOGETHER] += is_at_once(lane, w.wrote[LAUNCHES][segment]);
        }
        if (kind == COPIES)
            must_follow(lane, wrote[LAUNCHES][segment], "which writes what it uses");
        if (kind == COPIES && accesses[n].writes)
            must_follow(lane, read[LAUNCHES][segment], "which reads what it writes");
        counted[APART] += is_apart && is_at_once(lane, (accesses[n].writes ? w.read : w.wrote)[COPIES][segment]);
        counted[AT_ONCE_USES] += is_at_once(lane, w.wrote[LAUNCHES][segment]);
        if (accesses[n].writes && w.reading[segment])
            broken("command %lu writes what the client has yet to copy", (unsigned long)c->id);
    }
    uint64_t number = w.streams[lane].issued + 1;
    w.touch.touches = false;
    for (unsigned n = 0; n < op->num_accesses; n++)
        touch(accesses[n].segment, accesses[n].writes, planned->index);
    for (unsigned n = 0; n < op->num_accesses; n++)
        (accesses[n].writes ? w.wrote : w.read)[kind][accesses[n].segment][lane] = number;
    c->own[lane] = c->over[lane] = number;
    c->lane_of[planned->index] = lane;
    c->number_of[planned->index] = number;
    c->was_beside |= (unsigned)is_beside_another(lane) << planned->index;
    if (w.next_op == of->given.num_ops)
        read_by_client(c);
}

/* The player is behind a record of which that says whether it was passed. */
void model_until(const bool *is_passed)
{
    while (!*is_passed && w.passed < w.num_sent)
        pass(&w.sent[w.passed++], false);
}

/* The client was told that it may copy. */
void model_told(struct command *c)
{
    while (!c->is_played && !c->is_pythons && w.passed < w.num_sent)
        pass(&w.sent[w.passed++], false);
    if (c->is_told)
        broken("the client is told twice of read %lu", (unsigned long)c->id);
    for (unsigned l = 0; l < w.num_lanes; l++)
        if (c->over[l] > w.streams[l].executed)
            broken("the client is told of bytes of read %lu that are not there", (unsigned long)c->id);
}

/* Whether an operation took so long, as far as the driver says. */
bool model_took(const struct command *c, uint32_t op, uint64_t told)
{
    const struct stream *s = &w.streams[c->lane_of[op]];
    const uint64_t number = c->number_of[op], took = number && s->executed >= number ? s->ran[number - 1].took_ns : 0;
    return told <= took + ROUNDING_NS && took <= told + ROUNDING_NS;
}

/* Operations of which the driver says together how long they ran have run one after the other, and where they were all there
 * before the first one began each has had its usual part of that. */
static void check_row(const struct command *c, uint32_t op, const struct stream *s, uint64_t began_ns, uint64_t ended_ns)
{
    const uint64_t number = c->number_of[op], told = ended_ns - began_ns;
    if (++c->as->planned[op].guessed > GUESSED_MOST)
        broken("operation %u of command %lu was not timed by itself for too long", op, (unsigned long)c->id);
    struct ran *own = &s->ran[number - 1], *first = &s->ran[own->row - 1];
    const struct ran *last = &s->ran[own->row + first->in_row - 2];
    const bool is_known = !first->from->is_unknown && !first->to->is_unknown;
    counted[UNMARKED]++;
    if (began_ns + 1 < first->until_ns)
        broken("operation %u of command %lu began before the one before it ended", op, (unsigned long)c->id);
    first->until_ns = ended_ns;
    first->told_ns += told;
    first->num_told++;
    if (!is_known)
        return;
    if (first->told_ns > first->took_ns + ROUNDING_NS)
        broken("operations up to %u of command %lu took %lu ns, not %lu", op, (unsigned long)c->id,
               (unsigned long)first->took_ns, (unsigned long)first->told_ns);
    if (!last->given_ns || last->given_ns > first->from_ns)
        return;
    const double usual = (double)own->usual_ns / (double)first->row_usual_ns * (double)first->took_ns;
    if ((double)told > usual + ROUNDING_NS || usual > (double)told + ROUNDING_NS)
        broken("operation %u of command %lu took %lu ns, not %.0f as usual", op, (unsigned long)c->id, (unsigned long)told, usual);
    counted[ROWS_FULL] += number == own->row + first->in_row - 1;
}

/* It ran as long as the driver says; or less, where it began no earlier than it was given: then it took what it usually does. */
static void check_took(const struct command *c, uint32_t op, uint64_t began_ns, uint64_t ended_ns)
{
    const struct stream *s = &w.streams[c->lane_of[op]];
    const uint64_t number = c->number_of[op], took = s->executed >= number ? s->ran[number - 1].took_ns : 0, told = ended_ns - began_ns;
    const uint64_t given_ns = s->executed >= number ? s->ran[number - 1].given_ns : 0;
    const uint64_t usual_ns = given_ns ? s->ran[number - 1].usual_ns : 0;
    const bool is_idle = given_ns && s->ran[number - 1].row && given_ns > s->ran[number - 1].from_ns;
    const bool is_usual = is_idle && usual_ns && began_ns >= given_ns && told <= usual_ns + 1 && usual_ns <= told + 1;
    const bool is_less = s->executed >= number && (began_ns <= given_ns || is_usual);
    counted[FOLLOWED] += !w.has_failed && given_ns;
    if (!w.has_failed && !w.threads && began_ns + GIVING_NS < given_ns)
        broken("operation %u of command %lu began before it was given", op, (unsigned long)c->id);
    if (took && s->ran[number - 1].row && s->ran[s->ran[number - 1].row - 1].in_row > 1) {
        if (!w.has_failed && !w.threads)
            check_row(c, op, s, began_ns, ended_ns);
        return;
    }
    c->as->planned[op].guessed = 0;
    if (!w.has_failed && told && (told > took + ROUNDING_NS || (took > told + ROUNDING_NS && !is_less)))
        broken("operation %u of command %lu took %lu ns, not %lu", op, (unsigned long)c->id, (unsigned long)took,
               (unsigned long)told);
}

/* The player says when an operation ran: once, when it is done, and as the driver says. */
void model_report(const struct report *report)
{
    struct command *c = command_of(report->command);
    if (!c || !c->is_played || !c->is_measured || report->op >= OPS)
        broken("nobody asked how long command %lu took", (unsigned long)report->command);
    const uint64_t told = report->ended_ns - report->began_ns;
    if (report->recording != c->as->number || c->as->ops[report->op].kind != OP_LAUNCH || !c->number_of[report->op]
        || c->reported >> report->op & 1)
        broken("command %lu is told to have taken time where it did not", (unsigned long)c->id);
    c->reported |= 1u << report->op;
    counted[REPORTS]++;
    counted[REPORTS_KNOWN] += told != 0;
    if (told && told < 1000000 && c->was_beside >> report->op & 1)
        broken("operation %u of command %lu is told to take %lu ns, and others ran beside it", report->op,
               (unsigned long)c->id, (unsigned long)told);
    check_took(c, report->op, report->began_ns, report->ended_ns);
}

/* A command is in the profile, once: when it is complete, or Python finishes it. */
static void log_command(struct command *c, const struct logged *first, const struct logged *second)
{
    uint64_t *before = &w.logged_ns[c->queue];
    const bool is_write = c->as && (c->as->given.client == CLIENT_WRITES || c->as->given.client == CLIENT_STAGED);
    if (second->what != LOG_END || c->is_logged || second->id != c->queue + 1
        || second->which != (is_write ? c->carried : 0))
        broken("command %lu is in the profile as another one", (unsigned long)c->id);
    c->is_logged = true;
    if (first->began_ns > first->ended_ns)
        broken("command %lu was issued before it came", (unsigned long)c->id);
    if (c->is_taken_over != !second->ended_ns)
        broken("command %lu is finished by both, or by nobody", (unsigned long)c->id);
    if (c->is_taken_over)
        return;
    if (second->began_ns < first->began_ns || second->began_ns < *before || second->ended_ns < second->began_ns)
        broken("times of command %lu don't rise in the profile", (unsigned long)c->id);
    if (c->as && c->as->given.client == CLIENT_NONE && second->ended_ns < c->ran_until_ns)
        broken("command %lu ends before its operations", (unsigned long)c->id);
    *before = second->ended_ns;
}

/* What the profile is told: turns, operations, commands. */
void model_log(const struct logged *log, uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        const struct logged *line = &log[n];
        if (line->what == LOG_TURN) {
            if (line->began_ns < w.turn_ns || line->ended_ns < line->began_ns)
                broken("a turn begins before the one before it ended");
            w.turn_ns = line->ended_ns;
            counted[TURNS]++;
            continue;
        }
        struct command *c = command_of(line->id);
        if (!c || !c->is_played || line->which != (c->as ? c->as->given.profiled : 0))
            broken("the profile says that command %lu was another one", (unsigned long)line->id);
        if (line->what == LOG_COMMAND) {
            log_command(c, line, line + 1);
            n++;
            continue;
        }
        if (!c->as || line->what >= c->as->given.num_ops || c->logged >> line->what & 1
            || (c->is_logged && !c->is_taken_over))
            broken("command %lu comes to no such operation, or it was told", (unsigned long)c->id);
        c->logged |= 1u << line->what;
        const bool counts = c->op != SDI_OP_NDRANGE || c->as->ops[line->what].kind == OP_LAUNCH;
        if (counts && line->ended_ns > c->ran_until_ns)
            c->ran_until_ns = line->ended_ns;
        if (c->as->ops[line->what].kind != OP_COPY_NOW)
            check_took(c, line->what, line->began_ns, line->ended_ns);
        else if (line->began_ns > line->ended_ns)
            broken("a copy of command %lu ends before it begins", (unsigned long)c->id);
        counted[LOGGED]++;
    }
    counted[LOG_FULL] += count > w.player->log_soon;
    if (!w.threads && count > w.player->log_soon + (2 + OPS) * (w.most_nodes + 1) + 4)
        broken("the profile is %u lines long before it is read", count);
}

/* Nothing is missing in a profile, but operations that were under way when the application left or a driver refused. */
static void check_log(const struct command *c)
{
    const unsigned all = c->as ? (1u << c->as->given.num_ops) - 1 : 0;
    if (!w.is_profiled || !c->is_played)
        return;
    if (!c->is_logged)
        broken("command %lu is not in the profile", (unsigned long)c->id);
    if (c->logged != all && !w.has_failed && !(c->is_left || c->taken_in == w.runs))
        broken("of command %lu operations %x are in the profile, not %x", (unsigned long)c->id, c->logged, all);
}

/* What was measured was told, but where Python took over meanwhile, or there was no room. */
static void check_reports(const struct command *c)
{
    unsigned expected = 0;
    for (unsigned n = 0; c->is_measured && n < c->as->given.num_ops; n++)
        expected |= (unsigned)(c->as->ops[n].kind == OP_LAUNCH) << n;
    if (c->reported != expected && !c->is_over && !c->status && !w.has_failed && !w.lost_reports)
        broken("of command %lu operations %x are told, not %x", (unsigned long)c->id, c->reported, expected);
}

/* What the player says that is in flight: all that it took and that is not complete. */
void model_nodes(const struct node_told *told, uint32_t count)
{
    static bool is_there[COMMANDS];
    memset(is_there, 0, sizeof is_there);
    for (uint32_t n = 0; n < count; n++) {
        const struct command *c = command_of(told[n].id);
        if (!c || !c->is_played || c->is_over || c->is_seen)
            broken("command %lu is said to be in flight", (unsigned long)told[n].id);
        is_there[c - w.all] = true;
        bool is_forgotten = c->is_released || !c->slot;
        if (told[n].is_measured != c->is_measured)
            broken("command %lu is told to be measured, or not", (unsigned long)c->id);
        if (told[n].slot != c->slot || told[n].queue != c->queue + 1 || told[n].forgotten != is_forgotten)
            broken("command %lu is told otherwise", (unsigned long)c->id);
        if ((told[n].recording == NO_RECORDING) != !c->as || (c->as && told[n].recording != c->as->number))
            broken("command %lu is said to be another recording", (unsigned long)c->id);
        if (told[n].wants_notice != c->owes_player)
            broken("command %lu is told to be watched, or not", (unsigned long)c->id);
        if (told[n].staged != (c->as && c->as->given.client == CLIENT_STAGED ? c->carried : 0))
            broken("command %lu is told to have staged %u bytes", (unsigned long)c->id, told[n].staged);
        if (told[n].status && !w.has_failed)
            broken("command %lu failed for no reason", (unsigned long)c->id);
        if (c->must_fail && !told[n].status)
            broken("nobody says that command %lu failed", (unsigned long)c->id);
        for (unsigned l = 0; l < w.num_lanes; l++) {
            unsigned member = l % w.num_members;
            if (c->own[l] <= w.observed[l])
                continue;
            if (!(told[n].lanes >> member & 1))
                broken("command %lu is not complete on lane %u", (unsigned long)c->id, l);
            if (l != member && w.streams[member].after[l] < c->own[l] && !told[n].status)
                broken("what Python does on member %u does not follow command %lu", member, (unsigned long)c->id);
        }
    }
    for (unsigned n = 0; n < w.num_commands; n++) {
        const struct command *c = &w.all[n];
        if (c->is_played && !c->is_over && !c->is_seen && c->slot && !is_there[n])
            broken("command %lu is in flight, and nobody says so", (unsigned long)c->id);
    }
}

/* A command that was one operation took as long as the driver says, rounding aside; or less, where it would else begin
 * before the one before it ended, or end after it was seen to be over: `MEASURED` counts those that did not. */
static void check_duration(const struct command *c)
{
    if (!c->is_played || c->is_over || !c->as || c->as->given.num_ops != 1 || c->as->given.client != CLIENT_NONE || c->status)
        return;
    const struct op *op = &c->as->ops[0];
    unsigned lane = op->lane;
    while (lane < w.num_lanes && !c->own[lane]) /* of the queue that it was in */
        lane += w.num_members;
    if (lane >= w.num_lanes || (op->kind != OP_LAUNCH && c->op == SDI_OP_NDRANGE))
        return;
    const uint64_t took = w.streams[lane].ran[c->own[lane] - 1].took_ns, told = c->ended_ns - c->started_ns;
    if (!took)
        broken("nobody asked how long command %lu took", (unsigned long)c->id);
    if (told > took + ROUNDING_NS)
        broken("command %lu took %lu ns, not %lu", (unsigned long)c->id, (unsigned long)took, (unsigned long)told);
    counted[TIMED]++;
    counted[MEASURED] += told + ROUNDING_NS / 10 >= took;
}

/* The page shows that a command is complete. */
void model_seen(const struct command *c)
{
    for (unsigned l = 0; c->is_played && !c->status && l < w.num_lanes; l++)
        if (c->over[l] > w.streams[l].executed)
            broken("command %lu is complete before operation %lu of lane %u", (unsigned long)c->id,
                   (unsigned long)c->over[l], l);
    if (!c->is_played || c->is_over || c->status || !c->as || c->as->given.client != CLIENT_SHOWN || w.has_failed)
        return;
    counted[SHOWN]++;
    for (const struct command *later = c + 1; later < w.all + w.num_commands; later++)
        if (later->is_sent && later->kind == c->kind)
            return; /* it may have been replayed too, without an operation that would tell */
    if (c->as->newest == c && memcmp(c->as->shown, c->finds, MEMORY_NBYTES))
        broken("read %lu shows other bytes than it is to find", (unsigned long)c->id);
}

static void check_times(const struct command *c)
{
    const bool is_timed = w.is_timed[c->queue] || w.is_profiled;
    uint64_t least = w.threads || is_timed ? 0 : 1; /* else the clock never shows the same time twice */
    if (is_timed)
        check_duration(c);
    if (c->submitted_ns > c->started_ns || c->started_ns > c->ended_ns)
        broken("times of command %lu don't rise", (unsigned long)c->id);
    for (unsigned l = 0; c->is_played && !is_timed && l < w.num_lanes; l++)
        if (c->over[l] && w.streams[l].ran[c->over[l] - 1].executed_ns > c->ended_ns)
            broken("command %lu was complete before operation %lu of lane %u", (unsigned long)c->id,
                   (unsigned long)c->over[l], l);
    int before = c->before;
    while (before >= 0 && !w.all[before].is_seen)
        before = w.all[before].before;
    if (before >= 0 && w.all[before].ended_ns + least > c->ended_ns)
        broken("command %lu was complete before one that is before it", (unsigned long)c->id);
    for (unsigned n = 0; n < c->num_waits; n++)
        if (w.all[c->waits[n]].is_seen && w.all[c->waits[n]].ended_ns + least > c->ended_ns)
            broken("command %lu was complete before what it waits for", (unsigned long)c->id);
}

/* The player is gone. */
void model_end(void)
{
    for (unsigned n = 0; n < w.num_commands; n++) {
        const struct command *c = &w.all[n];
        check_log(c);
        if (!c->is_played && !c->is_pythons) {
            if (c->is_seen || !w.has_left)
                broken("command %lu was acted on by nobody", (unsigned long)c->id);
            continue;
        }
        if (!c->slot)
            continue;
        if (!c->is_seen)
            broken("command %lu was never complete", (unsigned long)c->id);
        if (slot_at(c->slot)->status != SEEN)
            broken("command %lu was complete twice", (unsigned long)c->id);
        if (c->status && !c->may_fail)
            broken("command %lu failed for no reason", (unsigned long)c->id);
        if (c->must_fail && !c->status)
            broken("command %lu did not fail", (unsigned long)c->id);
        if ((c->owes_player || c->owes_python) && !w.has_left)
            broken("nobody said that command %lu was complete", (unsigned long)c->id);
        check_times(c);
        check_reports(c);
    }
}
