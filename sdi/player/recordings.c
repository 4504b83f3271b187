/* Recordings: found by the bytes of a record, under a mask of what counts. */
#include "player.h"

#include <stdlib.h>
#include <string.h>

enum { COMMAND_NBYTES = sizeof(struct sdi_wire_header) + sizeof(struct sdi_wire_command) };

static uint64_t word_at(const void *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

uint64_t record_hash(const char *data, const uint8_t *mask, size_t nbytes)
{
    uint64_t hash = 0x9E3779B97F4A7C15u ^ nbytes;
    for (size_t at = 0; at < nbytes; at += 8) {
        hash = (hash ^ (word_at(data + at) & word_at(mask + at))) * 0xD6E8FEB86659FD93u;
        hash ^= hash >> 32;
    }
    return hash;
}

static bool equal(const char *data, const struct recording *r)
{
    for (size_t at = 0; at < r->key_nbytes; at += 8)
        if ((word_at(data + at) & word_at(r->mask + at)) != word_at(r->key + at))
            return false;
    return true;
}

/* Whether the scalars that are no part of the key have the values for which it was recorded. */
static bool admits(const char *key, const struct recording *r)
{
    for (uint32_t i = 0; i < r->num_tests; i++) {
        const struct test *test = &r->tests[i];
        int64_t value = 0;
        memcpy(&value, key + test->at, test->nbytes);
        if (test->nbytes == 4 && test->is_signed)
            value = (int32_t)value;
        if (value < test->lo || value > test->hi)
            return false;
        int64_t rest = value % test->modulus;
        if ((rest < 0 ? rest + test->modulus : rest) != test->residue)
            return false;
    }
    return true;
}

/* `client_nbytes`: 0 where it is right for any number of bytes up to `client_span`. */
static bool lies_within(const struct recording *r, uint64_t offset, uint64_t nbytes)
{
    if (!r->client_nbytes)
        return nbytes <= r->client_span && offset >= r->client_from && offset <= r->client_stop
               && nbytes <= r->client_stop - offset;
    return nbytes == r->client_nbytes && offset >= r->client_from && offset <= r->client_stop - r->client_span;
}

/* Whether a write is of the bytes whose state its recording tells: it begins and ends near their ends; or, as a read, whether
 * it lies between them where that is enough. */
static bool fits(const struct recording *r, const char *record)
{
    if (r->floats && r->client == CLIENT_READS) {
        const struct sdi_rec_read *read = (const void *)record;
        return lies_within(r, read->offset, box_nbytes(read->region));
    }
    if (r->client != CLIENT_WRITES && r->client != CLIENT_WRITTEN && r->client != CLIENT_STAGED)
        return true;
    const struct sdi_rec_write *write = (const void *)record;
    if ((write->written_ns != 0) != (r->client == CLIENT_WRITTEN))
        return false;
    if (r->client == CLIENT_WRITTEN)
        return write->offset == r->client_from && write->region[0] == r->client_stop - r->client_from;
    /* too few to get around the end of numbers */
    const uint64_t nbytes = box_nbytes(write->region);
    if (r->client == CLIENT_STAGED ? !write->staged_at : !write->staged_at && nbytes != write->carried_nbytes)
        return false;
    if (r->floats)
        return lies_within(r, write->offset, nbytes);
    if (nbytes != write->region[0])
        return false;
    return write->offset - r->client_from <= r->client_slack
           && r->client_stop - write->offset - nbytes <= r->client_slack;
}

struct form *form_find(struct sdi_player *p, uint32_t op, uint64_t build, uint32_t index, uint32_t nbytes, bool make)
{
    uint64_t hash = (build * 31 + index) * 31 + op + (uint64_t)nbytes * 0x9E37;
    for (uint32_t tries = 0; tries < FORMS; tries++) {
        struct form *form = &p->forms[(hash + tries) % FORMS];
        if (form->masks && form->op == op && form->build == build && form->index == index && form->nbytes == nbytes)
            return form;
        if (!form->masks) {
            if (!make)
                return NULL;
            form->masks = malloc((size_t)MASKS_MAX * nbytes);
            if (!form->masks)
                return NULL;
            form->num_masks = 0;
            form->op = op;
            form->build = build;
            form->index = index;
            form->nbytes = nbytes;
            return form;
        }
    }
    return NULL;
}

/* The kernel of a launch; other commands have none. */
static void kernel_of(uint32_t op, const char *record, uint64_t *build, uint32_t *index)
{
    *build = 0;
    *index = 0;
    if (op == SDI_OP_NDRANGE) {
        const struct sdi_rec_ndrange *launch = (const void *)record;
        *build = launch->build;
        *index = launch->kernel_index;
    }
}

bool recording_holds(const struct sdi_player *p, const struct recording *r)
{
    for (uint32_t i = 0; i < r->num_guards; i++)
        if (p->cells[r->guards[i].cell] != r->guards[i].value)
            return false;
    for (uint32_t i = 0; i < r->num_budgets; i++)
        if (p->cells[r->budgets[i]] == 0)
            return false;
    return true;
}

struct recording *recording_find(struct sdi_player *p, uint32_t op, const char *record, size_t nbytes)
{
    if (nbytes < COMMAND_NBYTES || (op == SDI_OP_NDRANGE && nbytes < sizeof(struct sdi_rec_ndrange)))
        return NULL;
    uint64_t build;
    uint32_t index;
    kernel_of(op, record, &build, &index);
    const char *key = record + COMMAND_NBYTES;
    uint32_t key_nbytes = (uint32_t)(nbytes - COMMAND_NBYTES);
    struct form *form = form_find(p, op, build, index, key_nbytes, false);
    p->why = WHY_UNKNOWN;
    if (!form)
        return NULL;
    for (uint32_t m = 0; m < form->num_masks; m++) {
        uint64_t hash = record_hash(key, form->masks + (size_t)m * key_nbytes, key_nbytes);
        uint32_t *bucket = &p->buckets[hash % BUCKETS];
        for (uint32_t *at = bucket, n; (n = *at) != 0; at = &p->recordings[n - 1].next) {
            struct recording *r = &p->recordings[n - 1];
            if (r->hash != hash || r->op != op || r->key_nbytes != key_nbytes || !equal(key, r) || !admits(key, r)
                || !fits(r, record))
                continue;
            if (recording_holds(p, r)) {
                *at = r->next; /* first from now on: there may be many for states that never come again */
                r->next = *bucket;
                *bucket = n;
                return r;
            }
            p->why = WHY_GUARDS;
        }
    }
    return NULL;
}

/* The form knows the mask from now on, in the place of the last one if there are too many. */
static void form_add(struct form *form, const uint8_t *mask)
{
    uint32_t m = 0;
    while (m < form->num_masks && memcmp(form->masks + (size_t)m * form->nbytes, mask, form->nbytes))
        m++;
    if (m == MASKS_MAX)
        m--;
    memcpy(form->masks + (size_t)m * form->nbytes, mask, form->nbytes);
    if (m == form->num_masks)
        form->num_masks++;
}

static void *copy_of(const void *data, size_t nbytes)
{
    void *made = malloc(nbytes ? nbytes : 1);
    if (made && nbytes)
        memcpy(made, data, nbytes);
    return made;
}

/* All that a recording has a copy of, and how many bytes. */
#define COPIES(DO)                                                                                                     \
    DO(key, r->key_nbytes) DO(mask, r->key_nbytes) DO(block, r->block_nbytes)                                          \
    DO(guards, r->num_guards * sizeof *r->guards) DO(effects, r->num_effects * sizeof *r->effects)                     \
    DO(budgets, r->num_budgets * sizeof *r->budgets) DO(ops, r->num_ops * sizeof *r->ops)                              \
    DO(accesses, r->num_accesses * sizeof *r->accesses) DO(holes, r->num_holes * sizeof *r->holes)                     \
    DO(tests, r->num_tests * sizeof *r->tests) DO(watched, r->num_watched * sizeof *r->watched)                        \
    DO(handed, r->num_handed * sizeof *r->handed) DO(stores, r->num_stores * sizeof *r->stores)                        \
    DO(undone, r->num_undone * sizeof *r->undone)

static void clear(struct recording *r)
{
#define FREE(what, nbytes) free(r->what);
    COPIES(FREE)
    memset(r, 0, sizeof *r);
}

/* The recording's number, or -1 where there is no memory or no room; `key` is masked already. */
API int64_t sdi_player_add(struct sdi_player *p, const struct given *g)
{
    const uint32_t number = p->num_recordings;
    if (number == p->recordings_room) {
        uint32_t room = p->recordings_room ? 2 * p->recordings_room : 64;
        struct recording *more = realloc(p->recordings, room * sizeof *more);
        uint32_t *played = realloc(p->played, room * sizeof *played);
        if (more)
            p->recordings = more;
        if (played)
            p->played = played;
        if (!more || !played)
            return -1;
        memset(p->recordings + p->recordings_room, 0, (room - p->recordings_room) * sizeof *more);
        p->recordings_room = room;
    }
    if (g->num_together > BESIDE_MAX || g->num_together > g->num_ops)
        return -1;
    struct form *form = form_find(p, g->op, g->build, g->index, g->key_nbytes, true);
    if (!form)
        return -1;
    form_add(form, g->mask);
    struct recording *r = &p->recordings[number];
    *r = (struct recording){.given = *g};
    bool has_all = true;
#define COPY(what, nbytes) has_all &= (r->what = copy_of(g->what, nbytes)) != NULL;
    COPIES(COPY)
    if (!has_all) {
        clear(r);
        return -1;
    }
    r->num_beside = g->num_beside <= BESIDE_MAX ? g->num_beside : 0;
    while (r->first_launch < r->num_ops && r->ops[r->first_launch].kind != OP_LAUNCH)
        r->first_launch++;
    r->hash = record_hash((const char *)r->key, r->mask, r->key_nbytes);
    uint32_t *bucket = &p->buckets[r->hash % BUCKETS];
    r->next = *bucket;
    *bucket = number + 1;
    return p->num_recordings++;
}

/* Nothing is in flight, and Python has asked how often they ran. */
API void sdi_player_drop_all(struct sdi_player *p)
{
    for (uint32_t n = 0; n < p->num_recordings; n++)
        clear(&p->recordings[n]);
    for (uint32_t n = 0; n < FORMS; n++)
        free(p->forms[n].masks);
    memset(p->forms, 0, sizeof p->forms);
    memset(p->buckets, 0, sizeof p->buckets);
    p->num_recordings = 0;
}

/* How often it ran since Python last asked. */
API uint64_t sdi_player_runs(const struct sdi_player *p, uint32_t number)
{
    return p->recordings[number].runs;
}

API bool sdi_player_holds(const struct sdi_player *p, uint32_t number)
{
    return recording_holds(p, &p->recordings[number]);
}

void recordings_free(struct sdi_player *p)
{
    for (uint32_t n = 0; n < p->num_recordings; n++)
        clear(&p->recordings[n]);
    for (uint32_t n = 0; n < FORMS; n++)
        free(p->forms[n].masks);
    free(p->recordings);
    free(p->played);
}
