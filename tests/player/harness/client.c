/* An application: a stream of records, answers to what it is told, and looks at the page. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEARNT = 200 }; /* records */

size_t fixed_of(uint32_t op)
{
    return op == SDI_OP_NDRANGE ? sizeof(struct sdi_rec_ndrange)
           : op == SDI_OP_READ  ? sizeof(struct sdi_rec_read)
           : op == SDI_OP_WRITE ? sizeof(struct sdi_rec_write)
           : op == SDI_OP_COPY  ? sizeof(struct sdi_rec_copy)
           : op == SDI_OP_FILL  ? sizeof(struct sdi_rec_fill)
           : op == SDI_OP_MAP   ? sizeof(struct sdi_rec_map)
           : op == SDI_OP_UNMAP ? sizeof(struct sdi_rec_unmap)
                                : sizeof(struct sdi_rec_marker);
}

bool is_read(const struct command *c)
{
    return c->op == SDI_OP_READ && !c->kind->is_shown;
}

struct command *command_of(uint64_t id)
{
    for (unsigned n = 0; n < w.num_commands; n++)
        if (w.all[n].id == id)
            return &w.all[n];
    return NULL;
}

const uint8_t *carried_by(const struct command *c)
{
    return c->staged_at ? c->staged
                        : (const uint8_t *)c->record + fixed_of(c->op) + 8 * c->num_waits;
}

/* It does not need its staged bytes any more. */
void staged_taken(const struct command *c)
{
    struct sdi_wire_arena_header *header = (void *)w.arena;
    __atomic_fetch_add(&header->taken_nbytes, c->carried, __ATOMIC_RELEASE);
    w.taken += c->carried;
}

/* Whether they are still where they were staged. */
bool finds_staged(const struct command *c)
{
    return !memcmp(w.arena + c->staged_at, c->staged, c->carried);
}

/* All that was staged and sent is taken: the memory is used for something else. */
static void stage_again(void)
{
    const struct sdi_wire_arena_header *header = (const void *)w.arena;
    uint64_t nbytes = 0;
    for (unsigned n = 0; n < w.num_commands; n++)
        nbytes += w.all[n].is_sent && w.all[n].staged_at ? w.all[n].carried : 0;
    if (nbytes == w.staged_again || nbytes != __atomic_load_n(&header->taken_nbytes, __ATOMIC_ACQUIRE))
        return;
    w.staged_again = nbytes;
    counted[STAGED_AGAIN]++;
    for (unsigned n = 0; n < w.num_commands; n++)
        for (uint32_t i = 0; w.all[n].is_sent && w.all[n].staged_at && i < w.all[n].carried; i++)
            w.arena[w.all[n].staged_at + i] ^= (char)(1 + below(255));
}

/* What is in a record behind its command fields, without its wait list and without bytes that it carries. */
size_t bare_key(const struct command *c, uint8_t *key)
{
    size_t fixed = fixed_of(c->op), waits = 8 * c->num_waits;
    memcpy(key, c->record + PREFIX, fixed - PREFIX);
    if (c->op == SDI_OP_WRITE || c->op == SDI_OP_FILL)
        return fixed - PREFIX;
    memcpy(key + fixed - PREFIX, c->record + fixed + waits, c->nbytes - fixed - waits);
    return c->nbytes - waits - PREFIX;
}

/* ---- what it will send ---------------------------------------------------------------------------------- */

static void make_kind(struct kind *kind, unsigned number)
{
    memset(kind, 0, sizeof *kind);
    unsigned what = w.is_long && w.reads && number == 0 ? 6 : below(w.is_long ? 10 : 20);
    kind->op = what < 6    ? SDI_OP_NDRANGE
               : what < 8  ? w.reads ? SDI_OP_READ : SDI_OP_COPY
               : what < 10 ? SDI_OP_COPY
               : what < 13 ? SDI_OP_WRITE
               : what < 16 ? SDI_OP_FILL
               : what < 18 ? SDI_OP_MAP
                           : SDI_OP_UNMAP;
    kind->nbytes = (uint32_t)(fixed_of(kind->op) - PREFIX);
    if (kind->op == SDI_OP_NDRANGE)
        kind->nbytes += 16 + 8 * (number % 4);
    for (unsigned n = 0; n < kind->nbytes; n++)
        kind->key[n] = (uint8_t)random_bits();
    memset(kind->mask, 0xFF, sizeof kind->mask);
    kind->key[24] = (uint8_t)number; /* no two are alike */
    if (kind->op == SDI_OP_NDRANGE) {
        kind->build = 1 + below(2);
        kind->index = number; /* what counts is the same for all launches of a kernel */
        memcpy(kind->key, &kind->build, sizeof kind->build);
        memcpy(kind->key + offsetof(struct sdi_rec_ndrange, kernel_index) - PREFIX, &kind->index, 4);
        uint32_t at = (uint32_t)(fixed_of(kind->op) - PREFIX);
        kind->num_holes = below(HOLES + 1);
        for (unsigned h = 0; h < kind->num_holes && at + 8 <= kind->nbytes; h++) {
            kind->hole_at[h] = at;
            kind->hole_nbytes[h] = 1 + below(8);
            memset(kind->mask + at, 0, kind->hole_nbytes[h]);
            at += 8;
        }
        for (unsigned h = kind->num_holes; h > 0 && !kind->hole_nbytes[h - 1]; h--)
            kind->num_holes--;
        if (kind->num_holes && one_in(2)) {
            kind->is_tested = true;
            kind->hole_nbytes[0] = 4 * (1 + below(2));
            memset(kind->mask + kind->hole_at[0], 0xFF, 8);
            memset(kind->mask + kind->hole_at[0], 0, kind->hole_nbytes[0]);
            kind->is_signed = one_in(2);
            kind->modulus = 1 + below(3);
            kind->threshold = kind->is_signed && one_in(2) ? 0 : 1 << 30;
        }
    }
    kind->blocking = one_in(2);
    kind->is_shown = one_in(3);
    if (kind->op == SDI_OP_READ) {
        uint32_t blocking = kind->blocking;
        memcpy(kind->key + offsetof(struct sdi_rec_read, blocking) - PREFIX, &blocking, sizeof blocking);
    }
    kind->from = below(MEMORY_NBYTES / 2);
    kind->stop = kind->from + 8 * (1 + below((MEMORY_NBYTES - kind->from) / 8));
    kind->slack = below(4);
    if (kind->op == SDI_OP_READ ? !kind->is_shown && one_in(3) : kind->op == SDI_OP_WRITE && one_in(3))
        kind->floats = 1 + below(kind->stop - kind->from);
    kind->rows = 1;
    kind->pitch = kind->span = kind->floats;
    if (kind->floats && one_in(2)) {
        const uint32_t most = kind->stop - kind->from, row = 1 + below(most);
        kind->pitch = row + below(4);
        kind->rows = 1 + below((most - row) / kind->pitch + 1);
        kind->floats = row * kind->rows;
        kind->span = (kind->rows - 1) * kind->pitch + row;
    } else if (kind->floats && kind->op == SDI_OP_WRITE) {
        kind->is_any = kind->key[1] & 1;
        kind->is_kept = kind->is_any && kind->key[1] & 2;
    }
    if (kind->op == SDI_OP_READ && kind->floats) {
        memset(kind->mask + offsetof(struct sdi_rec_read, offset) - PREFIX, 0, 8);
        memcpy(kind->key + offsetof(struct sdi_rec_read, region) - PREFIX,
               (uint64_t[]){kind->floats / kind->rows, kind->rows, 1, kind->pitch}, 32);
        kind->key[0] = (uint8_t)number;
    }
    kind->takes = one_in(2);
    kind->on_member = one_in(2);
    kind->is_early_write = kind->op == SDI_OP_WRITE && !kind->floats && one_in(4);
    if (kind->op == SDI_OP_WRITE) { /* where it is, how much, and since when it is written does not count */
        memset(kind->mask + offsetof(struct sdi_rec_write, offset) - PREFIX, 0, 16);
        memset(kind->mask + offsetof(struct sdi_rec_write, written_ns) - PREFIX, 0, 24);
        memcpy(kind->key + offsetof(struct sdi_rec_write, region[1]) - PREFIX, (uint64_t[]){kind->rows, 1, kind->pitch}, 24);
        kind->key[0] = (uint8_t)number;
    }
    if (kind->op == SDI_OP_FILL) {
        kind->pattern_nbytes = 1u << below(3);
        memcpy(kind->key + offsetof(struct sdi_rec_fill, pattern_nbytes) - PREFIX, &kind->pattern_nbytes, 4);
    }
    kind->num_states = 1 + below(STATES);
    for (unsigned n = 0; n < kind->num_states; n++)
        kind->states[n] = CELLS_RESERVED + 4 * n + below(4);
    kind->budget = kind->op == SDI_OP_NDRANGE && one_in(2) ? CELLS_RESERVED + 4 * STATES + number : 0;
    kind->watch = kind->op == SDI_OP_NDRANGE && one_in(2) ? CELLS_RESERVED + 4 * STATES + KINDS + 3 * number : 0;
    for (unsigned n = 0; n < 3; n++)
        kind->device[n] = below(SEGMENTS - HOST_SEGMENTS);
    kind->host = SEGMENTS - HOST_SEGMENTS + below(HOST_SEGMENTS);
}

char *client_put(size_t nbytes)
{
    char *at = w.bytes + w.num_bytes;
    w.num_bytes += nbytes;
    memset(at, 0, nbytes);
    return at;
}

static struct sent *script(enum what what, struct command *c, uint32_t op, uint64_t id, size_t nbytes)
{
    char *record = client_put(nbytes);
    struct sdi_wire_header header = {.nbytes = (uint32_t)nbytes, .op = op, .id = id};
    memcpy(record, &header, sizeof header);
    struct sent *s = &w.script[w.num_script++];
    *s = (struct sent){.what = what, .command = c, .record = record, .nbytes = nbytes};
    return s;
}

static void choose_waits(struct command *c)
{
    for (unsigned tries = one_in(w.is_long ? 60 : 3) ? 1 + below(WAITS) : 0; tries && c > w.all; tries--) {
        unsigned back = 1 + below(12), at = (unsigned)(c - w.all);
        const struct command *before = &w.all[back > at ? 0 : at - back];
        if (before->slot && !before->is_released)
            c->waits[c->num_waits++] = (unsigned)(before - w.all);
    }
}

/* `since`: when the client began with an early write; `staged_at`: where its bytes are; both 0: they come along. */
static void say_where(char *record, uint64_t at, uint64_t nbytes, uint32_t rows, uint64_t since, uint64_t staged_at)
{
    uint64_t carried = since || staged_at ? 0 : nbytes, row = nbytes / rows;
    memcpy(record + offsetof(struct sdi_rec_write, staged_at), &staged_at, sizeof staged_at);
    memcpy(record + offsetof(struct sdi_rec_write, offset), &at, sizeof at);
    memcpy(record + offsetof(struct sdi_rec_write, region), &row, sizeof row);
    memcpy(record + offsetof(struct sdi_rec_write, written_ns), &since, sizeof since);
    memcpy(record + offsetof(struct sdi_rec_write, carried_nbytes), &carried, sizeof carried);
}

static void add_command(uint64_t id, int *last)
{
    struct command *c = &w.all[w.num_commands++];
    memset(c, 0, sizeof *c);
    c->id = id;
    unsigned what = below(20);
    c->kind = what < 16 ? &w.kinds[below(w.num_kinds)] : NULL;
    if (w.is_long && w.reads) { /* few reads, then one that many commands come behind */
        if (w.num_commands == LEARNT + 100)
            c->kind = &w.kinds[0];
        else if (c->kind && c->kind->op == SDI_OP_READ && (w.num_commands > LEARNT || !one_in(10)))
            c->kind = NULL;
    }
    c->op = c->kind ? c->kind->op : what < 18 || (w.calm && !one_in(50)) ? SDI_OP_MARKER
            : what < 19 ? SDI_OP_BARRIER : SDI_OP_FILL;
    c->queue = below(w.num_queues);
    c->slot = one_in(8) && !(c->kind && c->kind->blocking) ? 0 : w.num_commands;
    c->before = last[c->queue];
    last[c->queue] = (int)(c - w.all);
    choose_waits(c);
    size_t fixed = fixed_of(c->op), waits = 8 * c->num_waits;
    c->nbytes = (c->kind ? c->kind->nbytes + PREFIX : fixed) + waits;
    if (c->op == SDI_OP_WRITE && !c->kind->is_early_write) {
        c->at = c->kind->from + below(c->kind->slack + 1);
        c->carried = c->kind->stop - c->at - below(c->kind->slack + 1);
        if (c->kind->floats) {
            c->at = c->kind->from + below(c->kind->stop - c->kind->from - c->kind->span + 1);
            c->carried = c->kind->floats;
        }
        if (c->kind->is_any) {
            c->at = c->kind->from + below(c->kind->stop - c->kind->from);
            const uint32_t room = c->kind->stop - c->at;
            c->carried = 1 + below(room < c->kind->floats ? room : c->kind->floats);
        }
        if ((c->kind->is_kept || one_in(2)) && w.staged + c->carried <= SDI_STAGING_NBYTES) {
            c->staged_at = SDI_STAGING_OFFSET + w.staged;
            w.staged += c->carried;
            for (uint32_t n = 0; n < c->carried; n++)
                w.arena[c->staged_at + n] = (char)(c->staged[n] = (uint8_t)random_bits());
        } else {
            c->nbytes += (c->carried + 7) / 8 * 8;
        }
    } else if (c->op == SDI_OP_FILL && c->kind) {
        c->nbytes += 8;
    }
    char *record = (char *)script(A_COMMAND, c, c->op, id, c->nbytes)->record;
    c->record = record;
    struct sdi_wire_command fields = {.queue = c->queue + 1, .slot = c->slot, .num_waits = c->num_waits};
    memcpy(record + sizeof(struct sdi_wire_header), &fields, sizeof fields);
    for (unsigned n = 0; n < c->num_waits; n++)
        memcpy(record + fixed + 8 * n, &w.all[c->waits[n]].id, 8);
    if (!c->kind)
        return;
    uint8_t key[KEY_NBYTES];
    memcpy(key, c->kind->key, sizeof key);
    for (unsigned h = 0; h < c->kind->num_holes; h++)
        for (unsigned n = 0; n < c->kind->hole_nbytes[h]; n++)
            key[c->kind->hole_at[h] + n] = (uint8_t)random_bits();
    memcpy(record + PREFIX, key, fixed - PREFIX);
    if (c->op == SDI_OP_READ && c->kind->floats) {
        c->at = c->kind->from + below(c->kind->stop - c->kind->from - c->kind->span + 1);
        memcpy(record + offsetof(struct sdi_rec_read, offset), (uint64_t[]){c->at}, 8);
    }
    if (c->op == SDI_OP_NDRANGE)
        memcpy(record + fixed + waits, key + fixed - PREFIX, c->kind->nbytes + PREFIX - fixed);
    if (c->op == SDI_OP_WRITE)
        say_where(record, c->kind->is_early_write ? c->kind->from : c->at,
                  c->kind->is_early_write ? c->kind->stop - c->kind->from : c->carried, c->kind->rows, c->kind->is_early_write ? one_in(4) ? UINT64_MAX / 2 : 1 + below(9) : 0,
                  c->staged_at);
    for (size_t n = fixed + waits; n < c->nbytes && (c->op == SDI_OP_WRITE || c->op == SDI_OP_FILL); n++)
        record[n] = (char)random_bits();
}

static void add_release(void)
{
    struct command *c = &w.all[below(w.num_commands)];
    if (!c->slot || c->is_released)
        return;
    c->is_released = true; /* no more waits for it; taken back below */
    script(A_RELEASE, c, SDI_OP_RELEASE_EVENT, c->id, sizeof(struct sdi_rec_release_event));
}

/* A notice is wanted when one of the last is complete. */
static void add_watch(void)
{
    const unsigned last = w.num_commands < 8 ? w.num_commands : 8;
    struct command *c = &w.all[w.num_commands - 1 - below(last)];
    if (!c->slot || c->is_released)
        return;
    char *record = (char *)script(A_WATCH, c, SDI_OP_WATCH, c->id, sizeof(struct sdi_rec_watch))->record;
    const int32_t status = one_in(10) ? 1 : CL_COMPLETE; /* or when it begins: only Python knows */
    memcpy(record + offsetof(struct sdi_rec_watch, status), &status, sizeof status);
}

/* Records that no command comes of: what only Python knows, or what is wrong with them. */
static void add_another(uint64_t id)
{
    unsigned what = one_in(2) ? 5 : below(8);
    if (what > 5) { /* to release a buffer, or use it again, as nobody says it */
        bool recycles = what == 6;
        size_t nbytes = sizeof(struct sdi_rec_recycle_buffer) + 8 * one_in(recycles ? 3 : 1);
        id = w.buffers[below(BUFFERS)].id;
        char *record = (char *)script(ANOTHER, NULL, recycles ? SDI_OP_RECYCLE_BUFFER : SDI_OP_REUSE_BUFFER, id, nbytes)->record;
        uint32_t slot = nbytes > sizeof(struct sdi_rec_recycle_buffer) ? SLOTS - 1 : one_in(2) ? 0 : SDI_NUM_SLOTS + below(9);
        memcpy(record + offsetof(struct sdi_rec_recycle_buffer, slot), &slot, sizeof slot);
        return;
    }
    uint32_t op = what == 0 ? SDI_OP_WATCH : what == 1 ? SDI_OP_NDRANGE : what < 4 ? SDI_OP_MARKER : SDI_OP_WRITE;
    const struct kind *kind = &w.kinds[below(w.num_kinds)];
    for (unsigned tries = 9; tries && what == 5 && kind->op != SDI_OP_WRITE && !kind->floats; tries--)
        kind = &w.kinds[below(w.num_kinds)];
    /* Of other bytes than are recorded, or with fewer than it says; or it was written early, or brings them, unlike what is recorded. */
    bool is_write = what == 5 && kind->op == SDI_OP_WRITE, is_read = what == 5 && kind->op == SDI_OP_READ && kind->floats;
    unsigned how = is_read || (kind->floats && one_in(2)) ? below(2) : below(kind->is_early_write ? 6 : 8);
    if (kind->is_any && is_write && !one_in(3))
        how = 2; /* longer than any, or not staged */
    uint64_t at = kind->from + (how == 0 ? kind->slack + 1 : how == 1 ? -(uint64_t)1 : 0);
    uint64_t carried = kind->stop - at - (how == 2 ? kind->slack + 1 : how == 3 ? -(uint64_t)1 : 0);
    if (kind->floats) {
        at = how == 0 ? kind->stop - kind->span + 1 : kind->from - (how == 1);
        carried = kind->floats - (how == 2 && !kind->is_any) * kind->rows + (how == 3) * kind->rows - (how == 5 && kind->rows == 1);
    }
    if (kind->is_any && is_write) {
        at = how == 0 ? kind->stop : at;
        carried += how == 2 && !kind->is_kept;
    }
    uint64_t since = how == 6 ? 5 : 0;
    if (kind->is_early_write) {
        since = how == 0 ? 0 : 5;
        at = kind->from + (how == 1);
        carried = kind->stop - kind->from - (how == 2);
    }
    /* Staged where nothing can be, or no room is left for them. */
    uint64_t places[] = {1, SDI_STAGING_OFFSET - 1, SDI_HEAP_OFFSET - carried + 1, UINT64_MAX - below(9)};
    uint64_t staged_at = how == 7 ? places[below(4)] : 0;
    size_t rest = staged_at ? 0 : since ? how == 4 ? 8 : 0 : (carried + 7) / 8 * 8 - (how == 4 ? 8 : 0);
    size_t nbytes = is_write ? sizeof(struct sdi_rec_write) + rest : is_read ? sizeof(struct sdi_rec_read) : PREFIX;
    op = is_read ? SDI_OP_READ : op;
    char *record = (char *)script(ANOTHER, NULL, op, what == 3 ? 0 : id, nbytes)->record;
    if (is_read) {
        memcpy(record + PREFIX, kind->key, sizeof(struct sdi_rec_read) - PREFIX);
        memcpy(record + offsetof(struct sdi_rec_read, offset), &at, sizeof at);
    }
    if (is_write) {
        memcpy(record + PREFIX, kind->key, kind->nbytes);
        say_where(record, at, carried, kind->rows, since, staged_at);
        if (kind->is_early_write && how == 3)
            memset(record + offsetof(struct sdi_rec_write, carried_nbytes), 8, 1);
        if (how == 5) { /* more bytes than it brings, or so many that their number goes around */
            const uint64_t around = kind->rows > 1 ? UINT64_MAX / kind->rows + 1 : 0;
            const uint64_t row = kind->floats ? kind->floats / kind->rows + around : UINT64_MAX / 255;
            memcpy(record + offsetof(struct sdi_rec_write, region), &row, sizeof row);
        }
    }
    struct sdi_wire_command fields = {
        .queue = 1,
        .slot = what == 2 ? SDI_NUM_SLOTS + below(9) : 0,
        .num_waits = what == 1 ? below(1u << 30) + 1 : 0,
    };
    memcpy(record + sizeof(struct sdi_wire_header), &fields, sizeof fields);
}

void client_generate(unsigned records)
{
    int last[QUEUES];
    for (unsigned q = 0; q < QUEUES; q++)
        last[q] = -1;
    w.num_kinds = w.is_long ? 3 : 1 + below(KINDS);
    for (unsigned n = 0; n < w.num_kinds; n++)
        make_kind(&w.kinds[n], n);
    for (uint64_t id = 100; w.num_commands < records; id++) {
        if (one_in(w.is_long ? 3000 : w.calm ? 500 : 25))
            add_another(id++);
        add_command(id, last);
        if (w.watches && one_in(4))
            add_watch();
        while (one_in(3))
            add_release();
    }
    for (unsigned n = 0; n < w.num_commands; n++)
        w.all[n].is_released = false;
    if (one_in(15)) {
        char *record = (char *)script(DAMAGED, NULL, SDI_OP_MARKER, 1u << 20, PREFIX)->record;
        uint32_t wrong[] = {0, 15, 33, 1u << 31};
        memcpy(record, &wrong[below(4)], sizeof *wrong);
    }
}

/* ---- what it does --------------------------------------------------------------------------------------- */

void client_append(const struct sent *s)
{
    memcpy(w.out + w.num_out, s->record, s->nbytes);
    w.num_out += s->nbytes;
    w.sent[w.num_sent] = *s;
    w.sent[w.num_sent++].end = w.num_out;
    if (s->what == A_COMMAND && is_read(s->command))
        w.num_open++;
    if (s->what == A_WATCH)
        s->command->is_watched = s->command->awaits_notice = true;
}

/* One that it watches is complete, and the page says so. */
void client_notified(struct command *c)
{
    if (!c->is_watched || (!c->is_seen && __atomic_load_n(&slot_at(c->slot)->status, __ATOMIC_ACQUIRE) > 0))
        broken("the client is told that command %lu is complete", (unsigned long)c->id);
    counted[WATCHED]++;
    c->awaits_notice = false;
    w.idle = 0;
}

/* It may copy the bytes of a read. */
void client_told(struct command *c)
{
    model_told(c);
    c->is_told = true;
    w.told[w.num_told++] = c;
    w.idle = 0;
}

static void look_at_notices(void)
{
    struct sdi_rec_notice notice;
    while (__real_recv(w.notices[1], &notice, sizeof notice, MSG_DONTWAIT) == (ssize_t)sizeof notice) {
        if (notice.kind == SDI_NOTICE_PRINTED)
            continue;
        struct command *c = command_of(notice.id);
        if (c && notice.kind == SDI_NOTICE_EVENT_STATUS && notice.status <= 0) {
            c->owes_player = false;
            client_notified(c);
            continue;
        }
        if (!c || !is_read(c) || notice.kind != SDI_NOTICE_TRANSFER_READY)
            broken("a notice of nothing");
        counted[NOTICES]++;
        client_told(c);
    }
}

/* Looks which commands are complete. */
void client_look(void)
{
    for (unsigned n = w.first_unseen; n < w.num_commands; n++) {
        struct command *c = &w.all[n];
        if (!c->slot || c->is_seen) {
            w.first_unseen += n == w.first_unseen;
            continue;
        }
        if (c->record >= w.bytes + w.num_bytes || !c->is_sent)
            return;
        struct sdi_wire_slot *slot = slot_at(c->slot);
        if (is_read(c) && c->kind->blocking && !c->is_told && __atomic_load_n(&slot->ready_nbytes, __ATOMIC_ACQUIRE))
            client_told(c);
        int32_t status = __atomic_load_n(&slot->status, __ATOMIC_ACQUIRE);
        if (status > 0)
            continue;
        c->status = status;
        c->submitted_ns = slot->submitted_ns;
        c->started_ns = slot->started_ns;
        c->ended_ns = slot->ended_ns;
        c->is_seen = true;
        model_seen(c);
        __atomic_store_n(&slot->status, SEEN, __ATOMIC_RELAXED);
        w.idle = 0;
    }
}

static void answer(void)
{
    unsigned at = below(w.num_told);
    struct command *c = w.told[at];
    w.told[at] = w.told[--w.num_told];
    c->is_answered = true;
    model_copied(c);
    if (c->is_counted)
        w.reading[c->as->given.client_segment]--;
    c->is_counted = false;
    w.num_open--;
    struct sdi_rec_transfer_done done = {sizeof done, SDI_OP_TRANSFER_DONE, c->id, one_in(40) ? -5 : 0, 0};
    c->may_fail |= done.status < 0;
    char *record = client_put(sizeof done);
    memcpy(record, &done, sizeof done);
    client_append(&(struct sent){.what = AN_ANSWER, .command = c, .record = record, .nbytes = sizeof done});
}

bool client_is_done(void)
{
    if (w.at_script < w.num_script || w.at_out < w.num_out || w.num_open)
        return false;
    for (unsigned n = w.first_unseen; n < w.num_commands; n++)
        if (w.all[n].slot && !w.all[n].is_seen)
            return false;
    for (unsigned n = 0; w.watches && n < w.num_commands; n++)
        if (w.all[n].awaits_notice)
            return false;
    return true;
}

void client_leave(void)
{
    if (w.has_left)
        return;
    w.has_left = true;
    close(w.commands[1]);
}

static void post(void)
{
    w.was_posted = true;
    sdi_player_poke(w.player);
}

static size_t send_by_socket(const char *bytes, size_t nbytes)
{
    __atomic_fetch_add(&w.in_socket, nbytes, __ATOMIC_RELAXED); /* before another thread reads them */
    ssize_t sent = send(w.commands[1], bytes, nbytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    const size_t done = sent > 0 ? (size_t)sent : 0;
    __atomic_fetch_sub(&w.in_socket, nbytes - done, __ATOMIC_RELAXED);
    return done;
}

/* From here on, where a record ends, the stream goes on in the ring: unless the socket is full. */
static void use_ring(void)
{
    const struct sdi_wire_header last = {.nbytes = sizeof last, .op = SDI_OP_RING};
    size_t sent = send_by_socket((const char *)&last, sizeof last);
    if (sent && sent != sizeof last)
        broken("half of a record is in the socket");
    w.in_ring = sent != 0;
    w.ring_from = w.at_out;
}

/* As the client does (stream.c). */
static size_t send_by_ring(size_t nbytes)
{
    struct sdi_wire_ring *ring = (void *)(w.arena + SDI_RING_OFFSET);
    const uint64_t head = w.at_out - w.ring_from, at = head % SDI_RING_NBYTES;
    const uint64_t room = SDI_RING_NBYTES - (head - __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE));
    if (nbytes > room)
        nbytes = room;
    if (nbytes > SDI_RING_NBYTES - at)
        nbytes = SDI_RING_NBYTES - at;
    memcpy(w.arena + SDI_RING_BYTES_OFFSET + at, w.out + w.at_out, nbytes);
    __atomic_store_n(&ring->head, head + nbytes, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&ring->asleep, __ATOMIC_SEQ_CST) && __atomic_exchange_n(&ring->asleep, 0, __ATOMIC_SEQ_CST))
        send_by_socket("", 1);
    return nbytes;
}

/* Go on a little. */
void client_step(void)
{
    if (w.has_left)
        return;
    if (w.deaf)
        w.deaf--;
    else if (one_in(4))
        look_at_notices();
    client_look();
    shared_step();
    stage_again();
    bool learns = w.is_long && w.at_script < LEARNT; /* few at once, soon answered: then all is known */
    if (w.num_told && one_in(learns ? 2 : w.patience))
        answer();
    for (unsigned n = w.is_patient && w.num_open ? 0 : below(2 * (learns ? 10 : w.hurry)); n && w.at_script < w.num_script; n--) {
        struct sent *s = &w.script[w.at_script++];
        if (s->what == A_COMMAND)
            s->command->is_sent = true;
        client_append(s);
    }
    if (w.offers_ring && !w.in_ring && w.at_out == w.num_out && one_in(4))
        use_ring();
    if (w.at_out < w.num_out) {
        size_t left = w.num_out - w.at_out, most = one_in(3) ? 1 + below(300) : left;
        size_t part = most < left ? most : left;
        w.at_out += w.in_ring ? send_by_ring(part) : send_by_socket(w.out + w.at_out, part);
    }
    if (w.posts && one_in(60))
        post();
    if ((w.leaves_after && w.at_script >= w.leaves_after) || (client_is_done() && one_in(3)))
        client_leave();
}
