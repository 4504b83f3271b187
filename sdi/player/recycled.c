/* Buffers that the application releases and uses again: see sdi/wire/records.py.  Their id, place and
 * all that was recorded for them stay; nothing in them is current any more. */
#include "player.h"

#include <string.h>

static uint32_t *bucket_of(struct sdi_player *p, uint64_t id)
{
    return &p->buffer_buckets[(id * UINT64_C(0x9E3779B97F4A7C15)) >> 32 & (BUFFERS_MAX - 1)];
}

static struct buffer *buffer_find(struct sdi_player *p, uint64_t id)
{
    for (uint32_t n = *bucket_of(p, id); n; n = p->buffers[n - 1].next)
        if (p->buffers[n - 1].id == id)
            return &p->buffers[n - 1];
    return NULL;
}

/* ---- what Python says ---------------------------------------------------------------------------------- */

/* A buffer has cells.  `fresh`: the states of one that is new, undefined and defined.  False: there is no room. */
API bool sdi_player_buffer(struct sdi_player *p, uint64_t id, uint32_t state, uint32_t stage, const uint32_t *fresh)
{
    uint32_t number = p->free_buffers;
    if (number)
        p->free_buffers = p->buffers[number - 1].next;
    else if (p->num_buffers < BUFFERS_MAX)
        number = ++p->num_buffers;
    else
        return false;
    uint32_t *bucket = bucket_of(p, id);
    p->buffers[number - 1] = (struct buffer){.id = id, .state = state, .stage = stage, .fresh = {fresh[0], fresh[1]}, .next = *bucket};
    *bucket = number;
    return true;
}

/* It has none any more; Python has taken over what happened to it. */
API void sdi_player_no_buffer(struct sdi_player *p, uint64_t id)
{
    for (uint32_t *at = bucket_of(p, id), n; (n = *at); at = &p->buffers[n - 1].next) {
        if (p->buffers[n - 1].id != id)
            continue;
        *at = p->buffers[n - 1].next;
        p->buffers[n - 1] = (struct buffer){.next = p->free_buffers};
        p->free_buffers = n;
        return;
    }
}

/* One of its memories has this segment.  One that has too many is not known any more. */
API void sdi_player_buffer_segment(struct sdi_player *p, uint64_t id, uint32_t segment)
{
    struct buffer *b = buffer_find(p, id);
    if (b && b->num_segments < LANES_MAX + 1)
        b->segments[b->num_segments++] = segment;
    else if (b)
        sdi_player_no_buffer(p, id);
}

/* What became of buffers since the last call.  `slot`: that one was recycled is not said yet; Python does it, if it
 * `takes_over`: else it hears of such a buffer another time. */
API uint32_t sdi_player_recycled(struct sdi_player *p, struct recycled *told, bool takes_over)
{
    uint32_t count = 0, left = 0;
    for (uint32_t n = 0; n < p->num_recycled; n++) {
        struct buffer *b = &p->buffers[p->recycled[n]];
        if (b->slot && !takes_over) {
            p->recycled[left++] = p->recycled[n];
            continue;
        }
        told[count++] = (struct recycled){b->id, b->recycled_ns, b->slot, p->cells[b->stage], b->is_outside};
        b->slot = 0;
        b->is_listed = false;
    }
    p->num_recycled = left;
    if (takes_over)
        p->num_unready = 0;
    return count;
}

/* ---- records ------------------------------------------------------------------------------------------- */

static void becomes(struct sdi_player *p, struct buffer *b, uint32_t stage, uint32_t state)
{
    p->cells[b->stage] = stage;
    p->cells[b->state] = state;
    if (!b->is_listed) {
        b->is_listed = true;
        p->recycled[p->num_recycled++] = (uint32_t)(b - p->buffers);
    }
}

/* Whether nothing that was issued uses its bytes any more. */
static bool is_at_rest(const struct sdi_player *p, const struct buffer *b)
{
    for (uint32_t n = 0; n < b->num_segments; n++) {
        const struct segment *s = &p->segments[b->segments[n]];
        if (s->client_reads || s->shown || s->showing || !segment_is_free(p, s, true))
            return false;
    }
    return true;
}

static bool say_recycled(struct sdi_player *p, struct buffer *b)
{
    if (!is_at_rest(p, b))
        return false;
    page_say(p, b->slot, 0);
    b->slot = 0;
    p->cells[b->stage] = STAGE_RECYCLED;
    return true;
}

/* Tell the application of those that it may use again. */
void buffers_complete(struct sdi_player *p)
{
    uint32_t left = 0;
    for (uint32_t n = 0; n < p->num_unready; n++)
        if (!say_recycled(p, &p->buffers[p->unready[n]]))
            p->unready[left++] = p->unready[n];
    p->num_unready = left;
}

enum why buffer_recycle(struct sdi_player *p, uint64_t id, const char *record, size_t nbytes)
{
    const struct sdi_rec_recycle_buffer *recycle = (const void *)record;
    struct buffer *b = buffer_find(p, id);
    if (nbytes != sizeof *recycle || !recycle->slot || recycle->slot >= SDI_NUM_SLOTS)
        return WHY_KIND;
    if (!b)
        return WHY_UNKNOWN;
    if (p->cells[b->stage] != STAGE_IN_USE)
        return WHY_GUARDS;
    becomes(p, b, STAGE_RECYCLING, b->fresh[0]);
    b->slot = recycle->slot;
    b->recycled_ns = sdi_player_now();
    if (!say_recycled(p, b)) {
        page_say(p, b->slot, CL_SUBMITTED);
        p->unready[p->num_unready++] = (uint32_t)(b - p->buffers);
    }
    return PLAYED;
}

enum why buffer_reuse(struct sdi_player *p, uint64_t id, const char *record, size_t nbytes)
{
    const struct sdi_rec_reuse_buffer *reuse = (const void *)record;
    struct buffer *b = buffer_find(p, id);
    if (nbytes != sizeof *reuse)
        return WHY_KIND;
    if (!b)
        return WHY_UNKNOWN;
    if (p->cells[b->stage] != STAGE_RECYCLED)
        return WHY_GUARDS;
    const uint64_t has_bytes = CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR | CL_MEM_SVM_FINE_GRAIN_BUFFER;
    becomes(p, b, STAGE_IN_USE, b->fresh[(reuse->flags & has_bytes) != 0]);
    b->is_outside = reuse->flags & CL_MEM_USE_HOST_PTR;
    return PLAYED;
}
