/* Buffers that the application releases and uses again: it, the model and Python, as far as they go. */
#include "harness.h"

#include <string.h>

enum { STAGES_AT = CELLS - BUFFERS };

/* Whether a command or a release that has the slot is not over yet. */
static bool is_open(uint32_t slot)
{
    int32_t status = __atomic_load_n(&slot_at(slot)->status, __ATOMIC_ACQUIRE);
    return status > 0 && status != SEEN;
}

/* ---- the application ------------------------------------------------------------------------------------ */

void shared_begin(void)
{
    for (unsigned n = 0; n < BUFFERS; n++) {
        struct shared *b = &w.buffers[n];
        b->id = 10 + n;
        b->state = CELLS_RESERVED + 4 * n + below(4);
        b->stage = STAGES_AT + n;
        b->fresh[0] = 1 + below(3);
        b->fresh[1] = 1 + below(3);
        b->segments[b->num_segments++] = below(SEGMENTS - HOST_SEGMENTS);
        if (one_in(2))
            b->segments[b->num_segments++] = SEGMENTS - HOST_SEGMENTS + below(HOST_SEGMENTS);
        w.truth[b->stage] = w.cells[b->stage] = STAGE_IN_USE;
    }
    shared_known(false);
}

static void send_recycle(struct shared *b)
{
    b->slot = SLOTS - 2 - w.num_recycled++;
    *slot_at(b->slot) = (struct sdi_wire_slot){.status = 3};
    b->is_released = true;
    b->is_passed = b->may_reuse = false;
    b->command = w.num_commands;
    for (unsigned n = 0; n < w.num_commands && b->command == w.num_commands; n++)
        if (!w.all[n].is_sent)
            b->command = n;
    struct sdi_rec_recycle_buffer recycle = {sizeof recycle, SDI_OP_RECYCLE_BUFFER, b->id, b->slot, 0};
    char *record = client_put(sizeof recycle);
    memcpy(record, &recycle, sizeof recycle);
    client_append(&(struct sent){.what = A_RECYCLE, .buffer = b, .record = record, .nbytes = sizeof recycle});
}

static void send_reuse(struct shared *b)
{
    uint64_t flags = one_in(2) ? 1 : 1 | (one_in(2) ? 1 << 5 : 1 << 3);
    struct sdi_rec_reuse_buffer reuse = {sizeof reuse, SDI_OP_REUSE_BUFFER, b->id, flags};
    char *record = client_put(sizeof reuse);
    memcpy(record, &reuse, sizeof reuse);
    b->is_undecided = !b->may_reuse;
    b->is_released = b->is_undecided;
    client_append(&(struct sent){.what = A_REUSE, .buffer = b, .is_early = b->is_undecided, .record = record, .nbytes = sizeof reuse});
}

/* What is released can't be released, and ends the session. */
static void send_damaged(struct shared *b)
{
    struct sdi_rec_recycle_buffer recycle = {sizeof recycle, SDI_OP_RECYCLE_BUFFER, b->id, SLOTS - 1, 0};
    char *record = client_put(sizeof recycle);
    memcpy(record, &recycle, sizeof recycle);
    client_append(&(struct sent){.what = DAMAGED, .record = record, .nbytes = sizeof recycle});
}

/* What the application may use again: nothing that used it before it was released is under way. */
void shared_look(void)
{
    for (struct shared *b = w.buffers; b < w.buffers + BUFFERS; b++) {
        if (!b->slot || b->may_reuse || __atomic_load_n(&slot_at(b->slot)->status, __ATOMIC_ACQUIRE) > 0)
            continue;
        model_until(&b->is_passed);
        if (!b->is_passed)
            broken("buffer %lu may be used, and nobody read that it was released", (unsigned long)b->id);
        b->may_reuse = true;
        w.idle = 0;
        __atomic_store_n(&slot_at(b->slot)->status, SEEN, __ATOMIC_RELAXED);
        if (w.has_failed)
            continue;
        for (unsigned l = 0; l < w.num_lanes; l++)
            if (b->over[l] > w.streams[l].executed)
                broken("buffer %lu may be used before operation %lu of lane %u", (unsigned long)b->id,
                       (unsigned long)b->over[l], l);
        for (const struct command *c = w.all; c < w.all + b->command; c++) {
            if (!c->is_played || !c->as || c->is_over)
                continue;
            const struct given *g = &c->as->given;
            bool is_read = g->client == CLIENT_READS && !c->is_answered;
            bool is_shown = g->client == CLIENT_SHOWN && c->slot && !c->is_seen && is_open(c->slot);
            for (uint32_t n = 0; n < b->num_segments; n++)
                if (((is_read || is_shown) && g->client_segment == b->segments[n])
                    || (is_shown && g->client_shown == b->segments[n] + 1))
                    broken("buffer %lu may be used before command %lu is copied", (unsigned long)b->id, (unsigned long)c->id);
        }
    }
}

void shared_step(void)
{
    shared_look();
    struct shared *b = &w.buffers[below(BUFFERS)];
    if (!one_in(w.is_long ? 40 : 6) || b->is_undecided || w.at_script == w.num_script)
        return;
    if (!b->is_released && w.num_recycled < SLOTS - 2 - COMMANDS)
        send_recycle(b);
    else if (b->is_released && (b->may_reuse || one_in(20)))
        send_reuse(b);
    else if (b->is_released && one_in(200))
        send_damaged(b);
}

/* ---- the model ------------------------------------------------------------------------------------------ */

static void reuse(struct shared *b, const struct sent *s)
{
    const struct sdi_rec_reuse_buffer *record = (const void *)s->record;
    w.truth[b->stage] = STAGE_IN_USE;
    w.truth[b->state] = b->fresh[(record->flags & (1 << 5 | 1 << 3)) != 0];
    if (s->is_early)
        b->is_released = b->is_undecided = false;
}

/* The player has acted on it. */
void shared_pass(const struct sent *s)
{
    struct shared *b = s->buffer;
    if (!b->is_known)
        broken("buffer %lu is none of the player's", (unsigned long)b->id);
    b->is_listed = true;
    if (s->what == A_REUSE) {
        if (b->is_players && is_open(b->acted))
            broken("buffer %lu is used again before it may be", (unsigned long)b->id);
        if (!b->is_players && w.truth[b->stage] != STAGE_RECYCLED)
            broken("buffer %lu is used again, which is in use", (unsigned long)b->id);
        b->is_players = false;
        counted[REUSED]++;
        reuse(b, s);
        return;
    }
    if (w.truth[b->stage] != STAGE_IN_USE)
        broken("buffer %lu is released, which is not in use", (unsigned long)b->id);
    b->is_passed = b->is_players = true;
    b->acted = ((const struct sdi_rec_recycle_buffer *)(const void *)s->record)->slot;
    w.truth[b->stage] = STAGE_RECYCLING;
    w.truth[b->state] = b->fresh[0];
    memset(b->over, 0, sizeof b->over);
    for (uint32_t n = 0; n < b->num_segments; n++)
        for (unsigned kind = COPIES; kind <= LAUNCHES; kind++)
            for (unsigned l = 0; l < w.num_lanes; l++) {
                uint64_t wrote = w.wrote[kind][b->segments[n]][l], read = w.read[kind][b->segments[n]][l];
                uint64_t last = wrote > read ? wrote : read;
                b->over[l] = last > b->over[l] ? last : b->over[l];
            }
}

/* All that was released was said to be free, once. */
void shared_end(void)
{
    shared_look();
    for (const struct shared *b = w.buffers; b < w.buffers + BUFFERS; b++)
        if (b->is_passed && slot_at(b->slot)->status != SEEN)
            broken("nobody says, or somebody twice, that buffer %lu may be used", (unsigned long)b->id);
}

/* ---- Python --------------------------------------------------------------------------------------------- */

static void know(struct shared *b)
{
    if (!sdi_player_buffer(w.player, b->id, b->state, b->stage, b->fresh))
        broken("there is no room for a buffer");
    for (uint32_t n = 0; n < b->num_segments; n++)
        sdi_player_buffer_segment(w.player, b->id, b->segments[n]);
    b->is_known = true;
}

/* The player knows some of them, or others than before. */
void shared_known(bool again)
{
    for (struct shared *b = w.buffers; b < w.buffers + BUFFERS; b++) {
        if (b->is_known)
            sdi_player_no_buffer(w.player, b->id);
        b->is_known = false;
        if (!one_in(again ? 2 : 6))
            know(b);
    }
}

/* Python hears of those of which all is said; of the others another time. */
void shared_hear(void)
{
    static struct recycled told[BUFFERS_MAX];
    shared_look();
    uint32_t count = sdi_player_recycled(w.player, told, false);
    for (uint32_t n = 0; n < count; n++) {
        struct shared *b = w.buffers;
        while (b < w.buffers + BUFFERS && b->id != told[n].id)
            b++;
        if (b == w.buffers + BUFFERS || !b->is_listed || told[n].slot || (b->is_players && is_open(b->acted)))
            broken("buffer %lu is told too early, or twice", (unsigned long)told[n].id);
        b->is_listed = false;
        if (b->is_players) {
            w.truth[b->stage] = STAGE_RECYCLED;
            counted[RECYCLED]++;
            b->is_players = false;
        }
        if (told[n].stage != w.truth[b->stage])
            broken("buffer %lu is told otherwise", (unsigned long)b->id);
    }
}

/* The player knows one that is released next. */
void shared_plan(struct shared *b)
{
    if (b->is_known)
        return;
    know(b);
    counted[PLANNED]++;
}

void shared_take_over(uint32_t num_nodes)
{
    static struct recycled told[BUFFERS_MAX];
    shared_look();
    uint32_t count = sdi_player_recycled(w.player, told, true), listed = 0;
    for (struct shared *b = w.buffers; b < w.buffers + BUFFERS; b++) {
        listed += b->is_listed;
        bool is_late = b->is_players && is_open(b->acted);
        if (b->is_players && !is_late)
            w.truth[b->stage] = STAGE_RECYCLED;
        for (uint32_t n = 0; n < count; n++)
            if (told[n].id == b->id
                && (!b->is_listed || told[n].slot != (is_late ? b->acted : 0) || told[n].stage != w.truth[b->stage]))
                broken("buffer %lu is told otherwise", (unsigned long)b->id);
        if (b->is_players)
            counted[is_late ? RECYCLED_BY_PYTHON : RECYCLED]++;
        if (is_late && (!num_nodes || slot_at(b->acted)->status == 3) && !w.has_failed)
            broken("nobody says that buffer %lu may be used, or that it was released", (unsigned long)b->id);
        b->is_pythons |= is_late;
        b->is_players = b->is_listed = false;
    }
    if (listed != count)
        broken("%u buffers are told of, not %u", count, listed);
}

void shared_act(const struct sent *s, bool was_busy)
{
    struct shared *b = s->buffer;
    const bool recycles = s->what == A_RECYCLE, fits = w.truth[b->stage] == (recycles ? STAGE_IN_USE : STAGE_RECYCLED);
    const enum why why = w.player->why;
    bool may_change = false; /* while times are waited for */
    for (unsigned q = 0; q < w.num_queues; q++)
        may_change |= w.is_timed[q] && s->is_early;
    if (why == WHY_BUSY ? !was_busy : why == WHY_UNKNOWN ? b->is_known : why != WHY_GUARDS || (fits && !may_change))
        broken("buffer %lu was left for no reason", (unsigned long)b->id);
    if (recycles) {
        b->is_passed = b->is_pythons = true;
        b->acted = ((const struct sdi_rec_recycle_buffer *)(const void *)s->record)->slot;
        w.truth[b->stage] = w.cells[b->stage] = STAGE_RECYCLING;
        return;
    }
    if (fits)
        reuse(b, s);
    if (s->is_early)
        b->is_undecided = false;
    w.cells[b->stage] = w.truth[b->stage];
    w.cells[b->state] = w.truth[b->state];
}

/* Nothing is under way. */
void shared_go_on(void)
{
    for (struct shared *b = w.buffers; b < w.buffers + BUFFERS && !w.num_pending; b++) {
        if (!b->is_pythons)
            continue;
        b->is_pythons = false;
        w.truth[b->stage] = w.cells[b->stage] = STAGE_RECYCLED;
        w.truth[b->state] = w.cells[b->state] = b->fresh[0];
        __atomic_store_n(&slot_at(b->acted)->status, 0, __ATOMIC_RELEASE);
    }
}
