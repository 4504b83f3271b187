/* Buffers that the application has released and the service keeps, for the next that fits: programs make the same
 * buffers anew for each problem, or lists that are a little longer each time.  One that is used again keeps its id, its
 * place in the arena and all that the service ever planned for it, and nobody waits for the service.  All under the client
 * lock. */
#include "objects/memory.h"

enum { NUM_RECYCLED = 1024, NUM_ALIKE = 16 };
static const size_t EACH_MAX_NBYTES = 256 << 20, ALL_MAX_NBYTES = 1 << 30, ALIKE_MIN_NBYTES = 64 << 10;

static struct recycled {
    uint64_t id;
    size_t room;
    char *bytes;
    uint8_t *touched;
    uint32_t slot;
    bool is_fine; /* the application may use it at any time */
} recycled[NUM_RECYCLED]; /* the one that was released first is the first */
static size_t num_recycled, recycled_nbytes;

static void forget(void)
{
    num_recycled = recycled_nbytes = 0;
}

SDI_AT_FORK(forget)

static struct recycled take(size_t at)
{
    struct recycled taken = recycled[at];
    recycled_nbytes -= taken.room;
    memmove(recycled + at, recycled + at + 1, (--num_recycled - at) * sizeof *recycled);
    return taken;
}

static void give_up(struct recycled one)
{
    sdi_send_bare(SDI_OP_RELEASE_BUFFER, one.id);
    sdi_slot_release(one.slot);
    free(one.touched);
}

static void put(struct recycled one)
{
    while (num_recycled == NUM_RECYCLED || recycled_nbytes + one.room > ALL_MAX_NBYTES)
        give_up(take(0));
    recycled[num_recycled++] = one;
    recycled_nbytes += one.room;
}

bool sdi_recycle(cl_mem buffer)
{
    struct sdi_rec_recycle_buffer record = {.nbytes = sizeof record, .op = SDI_OP_RECYCLE_BUFFER, .id = buffer->object.id};
    if (buffer->room > EACH_MAX_NBYTES || sdi_session_dead())
        return false;
    record.slot = sdi_slot_new(CL_QUEUED);
    if (!record.slot)
        return false;
    if (sdi_send(&record, sizeof record)) {
        sdi_slot_release(record.slot);
        return false;
    }
    put((struct recycled){buffer->object.id, buffer->room, buffer->bytes, buffer->touched, record.slot, sdi_is_fine(buffer)});
    return true;
}

bool sdi_recycled_give_up(void)
{
    bool some = num_recycled != 0;
    while (num_recycled)
        give_up(take(0));
    return some;
}

/* The least of sixteen sizes per power of two that holds `nbytes`: members' blocks come in these, too. */
static size_t rounded(size_t nbytes)
{
    size_t step = 64;
    while (step * 32 <= nbytes)
        step *= 2;
    return (nbytes + step - 1) / step * step;
}

/* The index of the smallest that has room for `nbytes` without wasting more than rounding does and that nothing uses any
 * more, as far as is known; of several the one with the lowest id: the same program asks in the same order and gets the same
 * buffers.  num_recycled if there is none; `some`: whether any has room. */
static size_t best_for(size_t nbytes, bool at_page, bool is_fine, bool *some)
{
    size_t best = num_recycled;
    const size_t most = rounded(nbytes);
    *some = false;
    for (size_t i = 0; i < num_recycled; i++) {
        const struct recycled *one = &recycled[i], *other = &recycled[best];
        if (one->room < nbytes || one->room > most || one->is_fine != is_fine || (at_page && (uintptr_t)one->bytes % SDI_PAGE_NBYTES))
            continue;
        *some = true;
        if (best != num_recycled && (one->room > other->room || (one->room == other->room && one->id > other->id)))
            continue;
        const int status = __atomic_load_n(&sdi_session.slots[one->slot].status, __ATOMIC_RELAXED);
        if (status <= 0 || status == CL_QUEUED)
            best = i;
    }
    return best;
}

/* For one of `nbytes` that none has room for.  Where some are about as large sizes differ from time to time: the next is
 * to fit too.  If there are many the first of them is given up: pages that were touched before are cheaper than new ones. */
static size_t room_among_alike(size_t nbytes)
{
    size_t count = 0, first = num_recycled;
    for (size_t i = num_recycled; i-- > 0;)
        if (recycled[i].room <= nbytes + nbytes / 8 && nbytes <= recycled[i].room + recycled[i].room / 8) {
            count++;
            first = i;
        }
    if (nbytes >= ALIKE_MIN_NBYTES && count >= NUM_ALIKE)
        give_up(take(first));
    return count && rounded(nbytes) <= EACH_MAX_NBYTES ? rounded(nbytes) : nbytes;
}

bool sdi_reuse(cl_mem buffer, bool at_page)
{
    for (;;) {
        bool some;
        size_t at = best_for(buffer->nbytes, at_page, sdi_is_fine(buffer), &some);
        if (at == num_recycled) {
            if (!some)
                buffer->room = SDI_MIN(room_among_alike(buffer->nbytes), SDI_MAX(buffer->nbytes, buffer->context->limits.max_alloc_nbytes));
            return false;
        }
        const uint32_t seen = sdi_epoch();
        const int status = sdi_slot_status(recycled[at].slot);
        if (status == CL_QUEUED) { /* until the service has looked: as long as it would take to answer anything else */
            sdi_unlock();
            sdi_epoch_wait(seen);
            sdi_lock();
            continue;
        }
        if (status > 0) /* it has just said that something uses it yet */
            continue;
        struct recycled one = take(at);
        struct sdi_rec_reuse_buffer record = {
            .nbytes = sizeof record,
            .op = SDI_OP_REUSE_BUFFER,
            .id = one.id,
            .flags = buffer->flags,
        };
        if (status < 0 || sdi_send(&record, sizeof record)) {
            give_up(one);
            continue;
        }
        sdi_slot_release(one.slot);
        buffer->object.id = one.id;
        buffer->room = one.room;
        buffer->bytes = one.bytes;
        buffer->touched = one.touched;
        return true;
    }
}
