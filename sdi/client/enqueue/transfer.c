/* Reads and writes: the thread that waits for them or the completion thread copies the bytes between the arena and the
 * application's memory, as far as the service says that they are ready. */
#include "enqueue/enqueue.h"

/* ---- the protocol ---------------------------------------------------------------------------------------------- */

/* In the thread that enqueued: copies until all is done; tells the service. */
static int follow(struct sdi_transfer *transfer, const struct sdi_command *command)
{
    int done;
    for (;;) {
        uint32_t seen = sdi_epoch();
        done = sdi_transfer_step(transfer);
        if (done != 0)
            break;
        if (sdi_interrupted(sdi_epoch_wait(seen))) {
            done = SDI_INTERRUPTED;
            break;
        }
    }
    sdi_lock();
    sdi_transfer_end(command->id, done, command->event != NULL);
    sdi_unlock();
    return done > 0 ? CL_SUCCESS : done; /* the bytes are where they belong, whatever became of the service */
}

/* Client lock held.  Whether what is there in the arena is what the application sees and nobody else writes: of a mapping,
 * whose bytes may yet be on their way there. */
static bool is_there_in_arena(const struct sdi_transfer *transfer)
{
    const size_t nbytes = (transfer->region[2] - 1) * transfer->host_slice + (transfer->region[1] - 1) * transfer->host_row
        + transfer->region[0];
    const size_t at = (size_t)(transfer->host - transfer->root->bytes);
    const bool is_itself = at < transfer->root->nbytes || -at < nbytes;
    return !is_itself && !sdi_any_shows() && sdi_is_mapped(transfer->host, nbytes);
}

/* Whether the bytes of a write may be read before anybody is told: they are there. */
static bool may_read(const struct sdi_record *record, const struct sdi_transfer *transfer)
{
    const struct sdi_rec_write *body = (const struct sdi_rec_write *)record->at;
    if (body->op != SDI_OP_WRITE || body->num_waits)
        return false;
    const bool is_in_arena = (uintptr_t)transfer->host - (uintptr_t)sdi_session.arena < sdi_session.arena_nbytes;
    sdi_lock(); /* what is to be written may itself have to be read first, or be made by the application until then */
    bool is_there = !sdi_pending_reads() && !sdi_events_unset() && (!is_in_arena || is_there_in_arena(transfer));
    sdi_unlock();
    return is_there;
}

/* Whether the bytes that are read go to memory of the arena, in a row: to what is mapped, most often. */
static bool goes_to_arena(const struct sdi_record *record, const struct sdi_transfer *transfer)
{
    const struct sdi_rec_read *body = (const struct sdi_rec_read *)record->at;
    uintptr_t at = (uintptr_t)transfer->host - (uintptr_t)sdi_session.arena;
    if (body->op != SDI_OP_READ || transfer->total != transfer->region[0] || at >= sdi_session.arena_nbytes
        || transfer->total > sdi_session.arena_nbytes - at || sdi_copy_overlaps(transfer))
        return false;
    size_t offset;
    cl_mem region = sdi_region_of(transfer->host, &offset);
    return !region || !region->host_ptr;
}

/* How the bytes of a write that may be read now get to the service. */
enum way {
    NOT_NOW, /* the client copies when it is told */
    EARLY,   /* they are in the arena before the record is sent: nobody else looks there */
    CARRIED, /* they go with it */
    STAGED,  /* they are where the service takes them from */
};

/* A write that blocks promises only that its bytes have been read, but applications take it for the end of what is before
 * it in its queue too: where that copies from or to their memory, it is waited for.  SDI_BUSY: there is no room for what is
 * to be staged. */
static cl_int write_now(struct sdi_record *record, struct sdi_command *command, const struct sdi_transfer *transfer,
                        enum way way, bool blocking, cl_event *event)
{
    struct sdi_rec_write *body = (struct sdi_rec_write *)record->at;
    if (way != CARRIED)
        sdi_record_cut(record, 0);
    command->there_ns = sdi_now_ns();
    if (way == EARLY) {
        body->written_ns = command->there_ns;
        sdi_copy_box(transfer);
    } else if (way == CARRIED) {
        command->quiet = transfer->root;
        body->carried_nbytes = transfer->total;
        sdi_copy_packed(transfer, (char *)record->tail);
    } else {
        char *stage = sdi_stage(transfer->total);
        if (!stage) {
            command->there_ns = 0;
            return SDI_BUSY;
        }
        command->quiet = transfer->root;
        body->staged_at = (uint64_t)(stage - sdi_session.arena);
        sdi_copy_packed(transfer, stage);
    }
    sdi_lock();
    bool is_awaited = blocking && (sdi_pending_any() || sdi_host_is_used() || command->queue->shows_id);
    sdi_unlock();
    cl_int status = sdi_enqueue_alone(record, command, is_awaited, event);
    if (!status && event && !is_awaited)
        (*event)->is_awaited = blocking;
    if (way == STAGED && !command->id) {
        sdi_lock();
        sdi_unstage(transfer->total);
        sdi_unlock();
    }
    return status;
}

/* By the calling thread, or by the completion thread. */
static cl_int enqueue(struct sdi_record *record, struct sdi_command *command, const struct sdi_transfer *transfer,
                      bool blocking, cl_event *event)
{
    if (goes_to_arena(record, transfer)) {
        ((struct sdi_rec_read *)record->at)->into = (uint64_t)(transfer->host - sdi_session.arena);
        command->shows = !blocking;
        return sdi_enqueue_alone(record, command, blocking, event);
    }
    command->wants_event = event != NULL;
    command->wants_slot = true;
    if (blocking) {
        struct sdi_transfer mine = *transfer;
        command->holds = transfer->root;
        cl_int status = sdi_enqueue(record, command);
        if (status)
            return status;
        mine.slot = command->slot;
        return sdi_finish_blocking(command, follow(&mine, command), event);
    }
    command->transfer = malloc(sizeof *transfer);
    if (!command->transfer) {
        sdi_record_close(record);
        sdi_host_unuse(command->uses);
        return CL_OUT_OF_HOST_MEMORY;
    }
    *command->transfer = *transfer;
    struct sdi_transfer *own = command->transfer;
    cl_int status = sdi_enqueue(record, command);
    if (status)
        free(own);
    else if (event)
        *event = command->event;
    return status;
}

/* More than is staged; who enqueues something meanwhile waits, so not much more. */
enum { EARLY_MAX_NBYTES = 32 << 20 };

/* Whether a write may be made in the arena as long as nothing is under way, which is found out with the client lock. */
static bool may_be_early(const struct sdi_command *command, const struct sdi_transfer *transfer)
{
    const size_t nbytes = (transfer->region[2] - 1) * transfer->host_slice + (transfer->region[1] - 1) * transfer->host_row
                          + transfer->region[0];
    const cl_mem root = transfer->root;
    size_t offset;
    return transfer->to_arena && transfer->total <= EARLY_MAX_NBYTES && !command->queue->is_busy
           && root->nbytes <= __atomic_load_n(&sdi_session.header->resting_nbytes, __ATOMIC_ACQUIRE) && !root->hosted && !root->is_region
           && !root->host_ptr && !sdi_region_of(transfer->host, &offset) && !sdi_region_of(transfer->host + nbytes - 1, &offset);
}

/* SDI_BUSY: it was not made. */
static cl_int write_early(struct sdi_record *record, struct sdi_command *command, const struct sdi_transfer *transfer,
                          bool blocking, cl_event *event)
{
    sdi_record_cut(record, 0);
    command->early = transfer;
    command->there_ns = sdi_now_ns();
    cl_int status = sdi_enqueue_alone(record, command, false, event);
    if (status == SDI_BUSY) {
        command->early = NULL;
        command->there_ns = 0;
        command->wants_event = command->wants_slot = command->forget = false;
    } else if (!status && event) {
        (*event)->is_awaited = blocking;
    }
    return status;
}

cl_int sdi_transfer_enqueue(struct sdi_record *record, struct sdi_command *command,
                            const struct sdi_transfer *transfer, bool blocking, cl_event *event)
{
    bool has_room = (size_t)(record->tail - record->at) < record->nbytes;
    bool may_stage = transfer->total <= SDI_MIN(sdi_session.header->staged_nbytes, (uint64_t)SDI_STAGED_MAX_NBYTES)
                     && !transfer->root->hosted;
    enum way way = __atomic_load_n(&transfer->root->is_unnamed, __ATOMIC_RELAXED) ? EARLY
                   : has_room                                                     ? CARRIED
                   : may_stage                                                    ? STAGED
                                                                                  : NOT_NOW;
    if (way != NOT_NOW && may_read(record, transfer)) {
        cl_int status = write_now(record, command, transfer, way, blocking, event);
        if (status != SDI_BUSY)
            return status;
        way = NOT_NOW;
    }
    if (way == NOT_NOW && may_be_early(command, transfer) && may_read(record, transfer)) {
        cl_int status = write_early(record, command, transfer, blocking, event);
        if (status != SDI_BUSY)
            return status;
    }
    sdi_record_cut(record, 0);
    size_t span = (transfer->region[1] - 1) * transfer->arena_row + (transfer->region[2] - 1) * transfer->arena_slice
                  + transfer->region[0];
    sdi_named(transfer->root);
    sdi_host_take(transfer->root, transfer->offset, span);
    if (transfer->to_arena && sdi_host_use(&command->uses, transfer->root, transfer->offset, span, true)) {
        sdi_record_close(record);
        return CL_OUT_OF_HOST_MEMORY;
    }
    cl_event own = NULL;
    if (command->uses && !event)
        event = &own;
    cl_int status = enqueue(record, command, transfer, blocking, event);
    if (own)
        sdi_release(own, SDI_EVENT, CL_INVALID_EVENT);
    return status;
}

/* ---- entry points --------------------------------------------------------------------------------------------- */

cl_int sdi_host_access(cl_mem buffer, bool reads, bool writes)
{
    if (reads && buffer->flags & (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS))
        return CL_INVALID_OPERATION;
    if (writes && buffer->flags & (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS))
        return CL_INVALID_OPERATION;
    return CL_SUCCESS;
}

cl_int sdi_finish_own(cl_int status, cl_event own, bool blocking, cl_event *event)
{
    if (!status && blocking)
        status = sdi_clWaitForEvents(1, &own);
    if (own && event && !status)
        *event = own;
    else if (own)
        sdi_release(own, SDI_EVENT, CL_INVALID_EVENT);
    return status;
}

/* The box of a transfer that begins at `offset`; pitches of 0: it has no gaps. */
static struct sdi_box box_at(const struct sdi_transfer *shape, size_t offset, size_t row, size_t slice)
{
    const size_t *region = shape->region;
    struct sdi_box box = {.offset = offset, .region = {region[0], region[1], region[2]}};
    box.row = row ? row : region[0];
    box.slice = slice ? slice : box.row * region[1];
    box.end = offset + (region[2] - 1) * box.slice + (region[1] - 1) * box.row + region[0];
    return box;
}

/* The fine-grained region that has all the application's bytes of a transfer, and the box that these are of it; or NULL. */
static cl_mem find_fine(cl_mem buffer, const struct sdi_transfer *shape, const struct sdi_box *inside,
                        struct sdi_box *outside)
{
    size_t offset;
    cl_mem region = sdi_region_of(shape->host, &offset);
    if (!region || !(region->hosted || sdi_is_fine(region)) || region->context != buffer->context)
        return NULL;
    *outside = box_at(shape, offset, shape->host_row, shape->host_slice);
    size_t begin = buffer->origin + inside->offset, end = buffer->origin + inside->end;
    bool is_itself = buffer->root == region && begin < outside->end && outside->offset < end;
    return outside->end <= region->nbytes && !is_itself ? region : NULL;
}

/* Kernels behind it see what is in the region then, and it what kernels before it left there. */
static cl_int copy_fine(cl_command_queue queue, cl_mem buffer, cl_uint type, bool blocking, bool to_buffer,
                        const struct sdi_box *inside, cl_mem region, const struct sdi_box *outside, struct sdi_waits waits,
                        cl_event *event)
{
    cl_event own = NULL, *wanted = blocking || event ? &own : NULL;
    cl_int status = to_buffer ? sdi_copy(queue, type, region, outside, buffer, inside, waits, wanted)
                              : sdi_copy(queue, type, buffer, inside, region, outside, waits, wanted);
    return sdi_finish_own(status, own, blocking, event);
}

cl_int sdi_transfer_box(cl_command_queue queue, cl_mem buffer, cl_uint type, bool blocking,
                        struct sdi_transfer *shape, struct sdi_waits waits, cl_event *event)
{
    cl_int status = sdi_check_waits(queue->context, waits);
    if (!status)
        status = sdi_host_access(buffer, !shape->to_arena, shape->to_arena);
    if (status)
        return status;
    struct sdi_box inside = box_at(shape, shape->offset, shape->arena_row, shape->arena_slice), outside;
    cl_mem region = find_fine(buffer, shape, &inside, &outside);
    if (region)
        return copy_fine(queue, buffer, type, blocking, shape->to_arena, &inside, region, &outside, waits, event);
    shape->root = buffer->root;
    shape->offset += buffer->origin;
    shape->total = shape->region[0] * shape->region[1] * shape->region[2];
    bool may_carry = shape->to_arena && shape->total <= SDI_CARRIED_MAX_NBYTES && !shape->root->hosted;
    struct sdi_record record;
    struct sdi_rec_read *body = sdi_record_open(&record, shape->to_arena ? SDI_OP_WRITE : SDI_OP_READ, sizeof *body,
                                                waits, false, may_carry ? shape->total : 0);
    _Static_assert(sizeof(struct sdi_rec_read) == sizeof(struct sdi_rec_write), "reads and writes");
    if (!body)
        return CL_OUT_OF_HOST_MEMORY;
    body->buffer = shape->root->object.id;
    body->offset = shape->offset;
    const bool is_run = sdi_box_is_dense(&inside);
    for (int i = 0; i < 3; i++)
        body->region[i] = is_run ? i ? 1 : shape->total : shape->region[i];
    if (!is_run) {
        body->row_pitch = shape->arena_row;
        body->slice_pitch = shape->arena_slice;
    }
    body->blocking = blocking;
    struct sdi_command command = {.queue = queue, .type = type};
    return sdi_transfer_enqueue(&record, &command, shape, blocking, event);
}

static cl_int transfer_range(cl_command_queue queue, cl_mem buffer, bool to_arena, bool blocking, size_t offset,
                             size_t nbytes, char *host, struct sdi_waits waits, cl_event *event)
{
    cl_int status = sdi_check_queue(queue, buffer, sdi_is_buffer(buffer));
    if (status)
        return status;
    if (!host || nbytes == 0 || offset > buffer->nbytes || nbytes > buffer->nbytes - offset)
        return CL_INVALID_VALUE;
    struct sdi_transfer shape = {.to_arena = to_arena, .host = host, .offset = offset, .region = {nbytes, 1, 1}};
    return sdi_transfer_box(queue, buffer, to_arena ? CL_COMMAND_WRITE_BUFFER : CL_COMMAND_READ_BUFFER, blocking,
                            &shape, waits, event);
}

cl_int sdi_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_uint blocking, size_t offset, size_t nbytes,
                               void *host, cl_uint num, const cl_event *list, cl_event *event)
{
    return transfer_range(queue, buffer, false, blocking != 0, offset, nbytes, host, (struct sdi_waits){num, list},
                          event);
}

cl_int sdi_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_uint blocking, size_t offset, size_t nbytes,
                                const void *host, cl_uint num, const cl_event *list, cl_event *event)
{
    return transfer_range(queue, buffer, true, blocking != 0, offset, nbytes, (char *)host,
                          (struct sdi_waits){num, list}, event);
}

struct sdi_transfer sdi_transfer_shape(const struct sdi_box *inside, const struct sdi_box *outside, char *host,
                                       bool to_arena)
{
    struct sdi_transfer shape = {
        .to_arena = to_arena,
        .host = host + outside->offset,
        .offset = inside->offset,
        .region = {inside->region[0], inside->region[1], inside->region[2]},
        .arena_row = inside->row,
        .arena_slice = inside->slice,
        .host_row = outside->row,
        .host_slice = outside->slice,
    };
    if (sdi_box_is_dense(inside) && sdi_box_is_dense(outside)) {
        shape.region[0] *= shape.region[1] * shape.region[2];
        shape.region[1] = shape.region[2] = 1;
    }
    return shape;
}

struct rectangle {
    const size_t *buffer_origin, *host_origin, *region;
    size_t buffer_row, buffer_slice, host_row, host_slice;
};

static cl_int transfer_rectangle(cl_command_queue queue, cl_mem buffer, bool to_arena, bool blocking,
                                 struct rectangle given, char *host, struct sdi_waits waits, cl_event *event)
{
    cl_int status = sdi_check_queue(queue, buffer, sdi_is_buffer(buffer));
    if (status)
        return status;
    struct sdi_box inside, outside;
    if (!host || !sdi_box_make(&inside, given.buffer_origin, given.region, given.buffer_row, given.buffer_slice)
        || !sdi_box_make(&outside, given.host_origin, given.region, given.host_row, given.host_slice)
        || inside.end > buffer->nbytes)
        return CL_INVALID_VALUE;
    struct sdi_transfer shape = sdi_transfer_shape(&inside, &outside, host, to_arena);
    return sdi_transfer_box(queue, buffer, to_arena ? CL_COMMAND_WRITE_BUFFER_RECT : CL_COMMAND_READ_BUFFER_RECT,
                            blocking, &shape, waits, event);
}

cl_int sdi_clEnqueueReadBufferRect(cl_command_queue queue, cl_mem buffer, cl_uint blocking,
                                   const size_t *buffer_origin, const size_t *host_origin, const size_t *region,
                                   size_t buffer_row, size_t buffer_slice, size_t host_row, size_t host_slice,
                                   void *host, cl_uint num, const cl_event *list, cl_event *event)
{
    struct rectangle given = {buffer_origin, host_origin, region, buffer_row, buffer_slice, host_row, host_slice};
    return transfer_rectangle(queue, buffer, false, blocking != 0, given, host, (struct sdi_waits){num, list}, event);
}

cl_int sdi_clEnqueueWriteBufferRect(cl_command_queue queue, cl_mem buffer, cl_uint blocking,
                                    const size_t *buffer_origin, const size_t *host_origin, const size_t *region,
                                    size_t buffer_row, size_t buffer_slice, size_t host_row, size_t host_slice,
                                    const void *host, cl_uint num, const cl_event *list, cl_event *event)
{
    struct rectangle given = {buffer_origin, host_origin, region, buffer_row, buffer_slice, host_row, host_slice};
    return transfer_rectangle(queue, buffer, true, blocking != 0, given, (char *)host, (struct sdi_waits){num, list},
                              event);
}
