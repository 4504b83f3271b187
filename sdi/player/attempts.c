/* Attempts: launches of which what members made of counters tells whether they count (design/0023); and launches whose
 * results are brought together here, which always do (0019).
 *
 * Each member runs its share with a copy of what several may write.  When all are done either what they appended is moved
 * behind each other and the counters are added up, or the copies are merged, or nothing of it counts, and Python runs the
 * launch anew.  Until then no other record is acted on. */
#include "player.h"

#include <string.h>

#define LONG_NS UINT64_C(5000000)
#define SMALL (INT64_C(1) << 31) /* below it no number of 32 bits wraps around */

/* OUTSIDE: it may count, but residency would be another than that of the recording. */
enum verdict { COUNTS, UNDONE, OUTSIDE };

struct piece {
    uint32_t op, segment;
    uint64_t source, target, nbytes;
};

static char *on_host(const struct watched *w)
{
    return (char *)(uintptr_t)w->host_at;
}

static int64_t number_at(const char *at, uint32_t nbytes)
{
    int32_t small;
    int64_t large;
    if (nbytes == sizeof small)
        return memcpy(&small, at, sizeof small), small;
    return memcpy(&large, at, sizeof large), large;
}

static void put_number(char *at, uint32_t nbytes, uint64_t value)
{
    uint32_t small = (uint32_t)value;
    if (nbytes == sizeof small)
        memcpy(at, &small, sizeof small);
    else
        memcpy(at, &value, sizeof value);
}

/* What a member added to an element, as its type has it. */
static int64_t added(const struct watched *w, uint32_t k, uint64_t at)
{
    uint64_t before = (uint64_t)number_at(on_host(w) + at, w->element_nbytes);
    uint64_t after = (uint64_t)number_at(copy_of_member(w, k) + at, w->element_nbytes);
    return w->element_nbytes == sizeof(int32_t) ? (int32_t)(uint32_t)(after - before) : (int64_t)(after - before);
}

/* The only member that changed anything; -1: none has; -2: several have. */
static int changed_by(const struct recording *r)
{
    int found = -1;
    for (uint32_t k = 0; k < r->num_tried; k++)
        for (uint32_t i = 0; i < r->num_watched && found != (int)k; i++) {
            const struct watched *w = &r->watched[i];
            if (!memcmp(on_host(w), copy_of_member(w, k), w->nbytes))
                continue;
            if (found >= 0)
                return -2;
            found = (int)k;
        }
    return found;
}

static bool watch_stands(const struct recording *r)
{
    int winner = changed_by(r);
    for (uint32_t i = 0; i < r->num_watched && winner >= 0; i++)
        memcpy(on_host(&r->watched[i]), copy_of_member(&r->watched[i], (uint32_t)winner), r->watched[i].nbytes);
    return winner != -2;
}

/* What members store for one counter, piece by piece. */
static enum verdict find_pieces(const struct recording *r, const struct store *s, struct piece *pieces, uint32_t *count)
{
    const struct handed *h = &r->handed[s->handed];
    const struct watched *w = &r->watched[h->watched];
    const uint64_t at = (uint64_t)h->element * w->element_nbytes;
    const int64_t before = number_at(on_host(w) + at, w->element_nbytes), step = s->step;
    const uint64_t block = (uint64_t)(step < 0 ? -step : step);
    int64_t after = before;
    for (uint32_t k = 0; k < r->num_tried; k++) {
        const int64_t own = added(w, k, at);
        if (own < 0 || __builtin_add_overflow(after, own, &after) || after >= SMALL)
            return UNDONE;
    }
    if (after > h->most || (h->is_limited && before < 0))
        return UNDONE;
    int64_t behind = 0;
    for (uint32_t k = 0; k < r->num_tried; k++) {
        const int64_t own = added(w, k, at);
        const int64_t first = step > 0 ? before : before + own - 1;
        const int64_t source = s->first + step * first, target = source + step * behind;
        const uint64_t nbytes = block * (uint64_t)own;
        behind += own;
        if (!own)
            continue;
        if (source < s->start || target < s->start || source + (int64_t)nbytes > s->stop
            || target + (int64_t)nbytes > s->stop)
            return OUTSIDE;
        if (*count == PIECES_MAX)
            return UNDONE;
        pieces[(*count)++] = (struct piece){s->op + k, s->buffer, (uint64_t)(source - s->start), (uint64_t)(target - s->start), nbytes};
    }
    return COUNTS;
}

static bool are_apart(const struct piece *pieces, uint32_t count, const struct recording *r)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = i + 1; j < count; j++)
            if (pieces[i].segment == pieces[j].segment) {
                const struct op *one = &r->ops[pieces[i].op], *other = &r->ops[pieces[j].op];
                const uint64_t here = one->size[1] + pieces[i].target, there = other->size[1] + pieces[j].target;
                if (here < there + pieces[j].nbytes && there < here + pieces[i].nbytes)
                    return false;
            }
    return true;
}

static void add_up(const struct recording *r)
{
    for (uint32_t i = 0; i < r->num_watched; i++) {
        const struct watched *w = &r->watched[i];
        for (uint64_t at = 0; at + w->element_nbytes <= w->nbytes; at += w->element_nbytes) {
            uint64_t sum = 0;
            for (uint32_t k = 0; k < r->num_tried; k++)
                sum += (uint64_t)added(w, k, at);
            put_number(on_host(w) + at, w->element_nbytes, (uint64_t)number_at(on_host(w) + at, w->element_nbytes) + sum);
        }
    }
}

/* Move what was appended; a driver's error. */
static int move(struct sdi_player *p, struct recording *r, struct node *node, const struct piece *pieces, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct op *op = &r->ops[pieces[i].op];
        if (op->kind == OP_NONE)
            continue; /* it is where it belongs */
        op->from = op->size[0] + pieces[i].source;
        op->to = op->size[1] + pieces[i].target;
        op->nbytes = pieces[i].nbytes;
        op->took_ns = 0; /* each time it is another one */
        op->block_nbytes += op->nbytes; /* for Python, which counts them */
        int status = recording_perform(p, r, op, node, NULL);
        if (status)
            return status;
    }
    return 0;
}

/* Whether the host's bytes may be written that it changes, and what it copies needs not wait for other lanes. */
static bool may_be_decided(const struct sdi_player *p, const struct recording *r, const struct node *node)
{
    if (!node_is_over(p, node))
        return false;
    for (uint32_t i = 0; i < r->num_watched; i++)
        if (!segment_is_free(p, &p->segments[r->watched[i].segment], true))
            return false;
    return recording_may_move(p, r);
}

/* The last operations stand for what is done here. */
static enum verdict merge(struct sdi_player *p, struct recording *r, const struct node *node)
{
    for (uint32_t i = 0; i < r->num_watched; i++) {
        const uint64_t began_ns = sdi_player_now();
        sdi_player_merge(&r->watched[i]);
        profile_operation(p, node, r->num_ops - r->num_moves + i, began_ns, sdi_player_now());
    }
    r->long_runs = sdi_player_now() - p->attempt_ns > LONG_NS ? r->long_runs + 1 : 0;
    r->passed = 0;
    return COUNTS;
}

static enum verdict decide(struct sdi_player *p, struct recording *r, struct node *node, int *status)
{
    if (r->merges)
        return merge(p, r, node);
    if (!r->num_handed)
        return watch_stands(r) ? COUNTS : UNDONE;
    struct piece pieces[PIECES_MAX];
    uint32_t count = 0;
    enum verdict verdict = COUNTS;
    for (uint32_t i = 0; i < r->num_stores && verdict != UNDONE; i++) {
        const enum verdict found = find_pieces(r, &r->stores[i], pieces, &count);
        verdict = found == COUNTS ? verdict : found;
    }
    if (verdict != COUNTS)
        return verdict;
    if (!are_apart(pieces, count, r))
        return UNDONE;
    *status = move(p, r, node, pieces, count);
    add_up(r);
    return COUNTS;
}

/* Of the attempt under way: FULL while its members work; NOT_MINE where Python has to run it anew. */
enum taken attempt_take(struct sdi_player *p)
{
    struct node *node = &p->nodes[p->attempt - 1];
    struct recording *r = &p->recordings[node->recording];
    if (player_look(p))
        return BROKEN;
    if (!may_be_decided(p, r, node))
        return FULL;
    p->attempt = 0;
    int status = 0;
    const enum verdict verdict = decide(p, r, node, &status);
    if (verdict != COUNTS) {
        for (uint32_t i = 0; i < r->num_undone; i++)
            p->cells[r->undone[i].cell] = r->undone[i].value;
        p->undone = (node->recording + 1) | (verdict == OUTSIDE ? (uint32_t)SAYS_OUTSIDE : 0);
        node_take_back(p, node);
        p->why = WHY_UNDONE;
        return NOT_MINE;
    }
    node->stage = STAGE_ISSUED;
    recording_counts(p, r, node, status);
    return status ? REFUSED : TAKEN;
}

/* A driver refused something meanwhile: the command fails, and its record is done with. */
void attempt_fails(struct sdi_player *p)
{
    struct node *node = &p->nodes[p->attempt - 1];
    const struct sdi_wire_header *header = (const void *)(p->data + p->head);
    p->attempt = 0;
    node->stage = STAGE_ISSUED;
    recording_counts(p, &p->recordings[node->recording], node, -1);
    p->last_id = header->id;
    p->head += header->nbytes;
}

/* The recording whose attempt was undone since the last call, + 1; 0: none was.  SAYS_OUTSIDE: because it stored
 * where residency would change. */
API uint32_t sdi_player_undone(struct sdi_player *p)
{
    uint32_t found = p->undone;
    p->undone = 0;
    return found;
}

/* Of what is watched number `i` of a recording: conflicts, and bytes that members changed, since the last call. */
API void sdi_player_merged(struct sdi_player *p, uint32_t number, uint32_t i, uint64_t *counts)
{
    struct watched *of = &p->recordings[number].watched[i];
    counts[0] = of->conflicts;
    counts[1] = of->changed_nbytes;
    of->conflicts = of->changed_nbytes = 0;
}

/* Bytes that were moved by operation `op` of a recording since the last call. */
API uint64_t sdi_player_moved(struct sdi_player *p, uint32_t number, uint32_t op)
{
    struct op *of = &p->recordings[number].ops[op];
    uint64_t found = of->block_nbytes;
    of->block_nbytes = 0;
    return found;
}
