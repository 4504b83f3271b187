/* Buffers that the application has released and the service keeps, for the next of that size: programs make the same
 * buffers anew for each problem.  One that is used again keeps its id, its place in the arena and all that the service
 * ever planned for it, and nobody waits for the service.  All under the client lock. */
#include "objects/memory.h"

enum { NUM_RECYCLED = 128, NUM_ALIKE = 16 };
static const size_t EACH_MAX_NBYTES = 256 << 20, ALL_MAX_NBYTES = 1 << 30, ALIKE_MIN_NBYTES = 64 << 10;

static struct recycled {
    uint64_t id;
    size_t nbytes;
    char *bytes;
    uint8_t *touched;
    uint32_t slot;
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
    recycled_nbytes -= taken.nbytes;
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
    while (num_recycled == NUM_RECYCLED || recycled_nbytes + one.nbytes > ALL_MAX_NBYTES)
        give_up(take(0));
    recycled[num_recycled++] = one;
    recycled_nbytes += one.nbytes;
}

bool sdi_recycle(cl_mem buffer)
{
    struct sdi_rec_recycle_buffer record = {.nbytes = sizeof record, .op = SDI_OP_RECYCLE_BUFFER, .id = buffer->object.id};
    if (buffer->nbytes > EACH_MAX_NBYTES || sdi_session_dead())
        return false;
    record.slot = sdi_slot_new(CL_QUEUED);
    if (!record.slot)
        return false;
    if (sdi_send(&record, sizeof record)) {
        sdi_slot_release(record.slot);
        return false;
    }
    put((struct recycled){buffer->object.id, buffer->nbytes, buffer->bytes, buffer->touched, record.slot});
    return true;
}

bool sdi_recycled_give_up(void)
{
    bool some = num_recycled != 0;
    while (num_recycled)
        give_up(take(0));
    return some;
}

/* The index of the one of this size with the lowest id above `id`, num_recycled if there is none: the same program asks
 * in the same order and gets the same buffers. */
static size_t next_of(size_t nbytes, uint64_t id)
{
    size_t best = num_recycled;
    for (size_t i = 0; i < num_recycled; i++)
        if (recycled[i].nbytes == nbytes && recycled[i].id > id && (best == num_recycled || recycled[i].id < recycled[best].id))
            best = i;
    return best;
}

/* Gives up the first of those that are about as large, if there are many and none is of the size that is wanted: sizes
 * differ each time, and pages that were touched before are cheaper than new ones. */
static void give_up_alike(size_t nbytes)
{
    size_t count = 0, first = num_recycled;
    for (size_t i = num_recycled; nbytes >= ALIKE_MIN_NBYTES && i-- > 0;)
        if (recycled[i].nbytes <= nbytes + nbytes / 8 && nbytes <= recycled[i].nbytes + recycled[i].nbytes / 8) {
            count++;
            first = i;
        }
    if (count >= NUM_ALIKE)
        give_up(take(first));
}

bool sdi_reuse(cl_mem buffer)
{
    uint64_t id = 0;
    for (;;) {
        size_t at = next_of(buffer->nbytes, id);
        if (at == num_recycled) {
            if (!id)
                give_up_alike(buffer->nbytes);
            return false;
        }
        struct recycled one = take(at);
        id = one.id;
        int status;
        for (;;) { /* until the service has looked: as long as it would take to answer anything else */
            uint32_t seen = sdi_epoch();
            status = sdi_slot_status(one.slot);
            if (status != CL_QUEUED)
                break;
            sdi_unlock();
            sdi_epoch_wait(seen);
            sdi_lock();
        }
        if (status > 0) { /* something uses it yet; meanwhile others may have been recycled */
            put(one);
            continue;
        }
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
        buffer->bytes = one.bytes;
        buffer->touched = one.touched;
        return true;
    }
}
