/* Mapping: a buffer's bytes are in the arena already, so the pointer is known at once; only buffers that use
 * memory of the application have their bytes copied there and back.  Back in the call that unmaps: afterwards the
 * application may free its memory. */
#include "enqueue/enqueue.h"

#define FOR_WRITING (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)

/* Client lock held.  Whether a byte of the box is mapped for writing through this object. */
static bool mapped_for_writing(cl_mem buffer, const struct sdi_box *box)
{
    for (const struct sdi_mapping *m = buffer->mappings; m; m = m->next)
        if (m->flags & FOR_WRITING && sdi_boxes_meet(&m->box, box, buffer->origin))
            return true;
    return false;
}

/* The transfer between a box of the root's arena bytes and the application's memory, which is laid out alike. */
static struct sdi_transfer alike(cl_mem root, char *host, const struct sdi_box *box, bool to_arena)
{
    struct sdi_box outside = *box;
    outside.offset = 0;
    struct sdi_transfer transfer = sdi_transfer_shape(box, &outside, host, to_arena);
    transfer.root = root;
    transfer.total = box->region[0] * box->region[1] * box->region[2];
    return transfer;
}

cl_int sdi_check_map(cl_command_queue queue, cl_mem buffer, cl_ulong flags, struct sdi_waits waits)
{
    if (flags & ~(CL_MAP_READ | FOR_WRITING)
        || (flags & CL_MAP_WRITE_INVALIDATE_REGION && flags != CL_MAP_WRITE_INVALIDATE_REGION))
        return CL_INVALID_VALUE;
    cl_int status = sdi_check_waits(queue->context, waits);
    if (status)
        return status;
    return sdi_host_access(buffer, flags & CL_MAP_READ, flags & FOR_WRITING);
}

static cl_int check_map_buffer(cl_command_queue queue, cl_mem buffer, cl_ulong flags, size_t offset, size_t nbytes,
                               struct sdi_waits waits)
{
    cl_int status = sdi_check_queue(queue, buffer, sdi_is_buffer(buffer));
    if (status)
        return status;
    if (nbytes == 0 || offset > buffer->nbytes || nbytes > buffer->nbytes - offset)
        return CL_INVALID_VALUE;
    return sdi_check_map(queue, buffer, flags, waits);
}

/* Registers a mapping, `*made`; an error code when that can't be. */
static cl_int add_mapping(cl_command_queue queue, cl_mem buffer, char *pointer, cl_ulong flags, const struct sdi_box *box,
                          struct sdi_mapping **made)
{
    struct sdi_mapping *mapping = *made = malloc(sizeof *mapping);
    if (!mapping)
        return CL_OUT_OF_HOST_MEMORY;
    *mapping = (struct sdi_mapping){.pointer = pointer, .box = *box, .flags = flags, .queue = queue, .thread = pthread_self()};
    cl_int status = CL_SUCCESS;
    sdi_lock();
    /* Of shared virtual memory maps may lie within each other. */
    if (flags & FOR_WRITING && !buffer->is_region && mapped_for_writing(buffer, box)) {
        status = CL_INVALID_OPERATION;
    } else {
        mapping->next = buffer->mappings;
        buffer->mappings = mapping;
        buffer->num_mappings++;
        buffer->root->was_mapped |= (flags & FOR_WRITING) != 0;
    }
    sdi_unlock();
    if (status)
        free(mapping);
    return status;
}

static void forget_mapping(struct sdi_mapping *mapping)
{
    sdi_lock();
    sdi_mapping_free(mapping);
    sdi_unlock();
}

/* The application may end it from now on; `mapped`: see `struct sdi_mapping`. */
static void finish_mapping(const struct sdi_buffer *root, struct sdi_mapping *mapping, cl_event mapped)
{
    sdi_lock();
    mapping->is_made = true;
    if (!root->is_region && !root->host_ptr)
        sdi_mapping_list(mapping);
    mapping->mapped = mapped;
    if (mapped)
        sdi_hold(mapped);
    sdi_unlock();
}

/* Client lock held.  It is no longer the buffer's. */
static struct sdi_mapping *remove_mapping(cl_mem buffer, struct sdi_mapping **at)
{
    struct sdi_mapping *mapping = *at;
    *at = mapping->next;
    buffer->num_mappings--;
    return mapping;
}

/* The command that it is for was not sent. */
static void drop_mapping(cl_mem buffer, const struct sdi_mapping *mapping)
{
    sdi_lock();
    struct sdi_mapping **at = &buffer->mappings;
    while (*at != mapping)
        at = &(*at)->next;
    sdi_mapping_free(remove_mapping(buffer, at));
    sdi_unlock();
}

/* A mapping that begins at `pointer`, no longer the buffer's; or NULL.  Where there are several (one thread reads, another
 * writes) the pointer does not say which: one that was made by this queue and this thread, by the queue, by the thread, the
 * newest. */
static struct sdi_mapping *take_mapping(cl_command_queue queue, cl_mem buffer, const char *pointer)
{
    sdi_lock();
    struct sdi_mapping **best = NULL;
    int most = -1;
    for (struct sdi_mapping **at = &buffer->mappings; *at; at = &(*at)->next) {
        const int like = 2 * ((*at)->queue == queue) + (pthread_equal((*at)->thread, pthread_self()) != 0);
        if ((*at)->pointer != pointer || !(*at)->is_made || like <= most)
            continue;
        best = at;
        most = like;
    }
    struct sdi_mapping *mapping = best ? remove_mapping(buffer, best) : NULL;
    sdi_unlock();
    return mapping;
}

void *sdi_map(cl_command_queue queue, cl_mem buffer, cl_uint type, bool blocking, cl_ulong flags, struct sdi_box box,
              struct sdi_waits waits, cl_event *event, cl_int *errcode_ret)
{
    cl_mem root = buffer->root;
    sdi_named(buffer);
    box.offset += buffer->origin;
    box.end += buffer->origin;
    char *pointer = root->host_ptr ? root->host_ptr + box.offset : root->bytes + box.offset;
    /* Hosted memory is shown when the map is complete, and what is written there is taken before the next command. */
    bool is_hosted = root->hosted != NULL;
    bool transferred = root->host_ptr && !is_hosted && flags & (CL_MAP_READ | CL_MAP_WRITE);

    struct sdi_record record;
    struct sdi_rec_map *body = sdi_record_open(&record, SDI_OP_MAP, sizeof *body, waits, false, 0);
    if (!body)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    body->buffer = root->object.id;
    body->offset = box.offset;
    for (int i = 0; i < 3; i++)
        body->region[i] = box.region[i];
    body->row_pitch = box.row;
    body->slice_pitch = box.slice;
    body->flags = is_hosted ? CL_MAP_READ : flags;
    body->transfer = transferred;
    body->blocking = blocking;

    struct sdi_mapping *mapping;
    cl_int status = add_mapping(queue, buffer, pointer, flags, &box, &mapping);
    if (status) {
        sdi_record_close(&record);
        return sdi_fail(errcode_ret, status);
    }
    struct sdi_command command = {.queue = queue, .type = type};
    bool is_awaited = !blocking && root->host_ptr && !is_hosted && flags & FOR_WRITING; /* before bytes are copied back */
    cl_event own = NULL, *wanted = event ? event : is_awaited ? &own : NULL;
    if (transferred) {
        struct sdi_transfer transfer = alike(root, pointer, &box, false);
        status = sdi_transfer_enqueue(&record, &command, &transfer, blocking, wanted);
    } else {
        command.shows = !blocking;
        status = sdi_enqueue_alone(&record, &command, blocking, wanted);
    }
    if (status) {
        drop_mapping(buffer, mapping);
        return sdi_fail(errcode_ret, status);
    }
    finish_mapping(root, mapping, is_awaited ? *wanted : NULL);
    if (own)
        sdi_release(own, SDI_EVENT, CL_INVALID_EVENT);
    sdi_succeed(errcode_ret);
    return pointer;
}

void *sdi_clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_uint blocking, cl_ulong flags, size_t offset,
                             size_t nbytes, cl_uint num, const cl_event *list, cl_event *event, cl_int *errcode_ret)
{
    struct sdi_waits waits = {num, list};
    cl_int status = check_map_buffer(queue, buffer, flags, offset, nbytes, waits);
    if (status)
        return sdi_fail(errcode_ret, status);
    struct sdi_box box = {.offset = offset, .end = offset + nbytes, .region = {nbytes, 1, 1}};
    return sdi_map(queue, buffer, CL_COMMAND_MAP_BUFFER, blocking != 0, flags, box, waits, event, errcode_ret);
}

cl_int sdi_clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void *pointer, cl_uint num,
                                   const cl_event *list, cl_event *event)
{
    struct sdi_waits waits = {num, list};
    cl_int status = sdi_check_queue(queue, buffer, sdi_is_mem(buffer));
    if (!status)
        status = sdi_check_waits(queue->context, waits);
    return status ? status : sdi_unmap(queue, CL_COMMAND_UNMAP_MEM_OBJECT, buffer, pointer, waits, event);
}

cl_int sdi_unmap(cl_command_queue queue, cl_uint type, cl_mem buffer, void *pointer, struct sdi_waits waits,
                 cl_event *event)
{
    cl_int status;
    struct sdi_record record;
    struct sdi_rec_unmap *body = sdi_record_open(&record, SDI_OP_UNMAP, sizeof *body, waits, false, 0);
    if (!body)
        return CL_OUT_OF_HOST_MEMORY;
    struct sdi_mapping *mapping = pointer ? take_mapping(queue, buffer, pointer) : NULL;
    if (!mapping) {
        sdi_record_close(&record);
        return CL_INVALID_VALUE;
    }
    cl_mem root = buffer->root;
    bool wrote = mapping->flags & FOR_WRITING && !root->hosted;
    bool transferred = wrote && root->host_ptr;
    body->buffer = root->object.id;
    body->offset = mapping->box.offset;
    for (int i = 0; i < 3; i++)
        body->region[i] = mapping->box.region[i];
    body->row_pitch = mapping->box.row;
    body->slice_pitch = mapping->box.slice;
    body->wrote = wrote;
    struct sdi_transfer transfer = alike(root, pointer, &mapping->box, true);
    if (transferred && (!mapping->mapped || sdi_event_status(mapping->mapped) <= 0)) {
        sdi_copy_box(&transfer); /* since it is mapped, nobody else looks at these bytes in the arena */
        transferred = false;
    }
    body->transfer = transferred;
    struct sdi_command command = {.queue = queue, .type = type};
    if (transferred) {
        status = sdi_transfer_enqueue(&record, &command, &transfer, false, event);
    } else {
        if (!body->num_waits && !root->host_ptr)
            command.there_ns = sdi_now_ns();
        status = sdi_enqueue_alone(&record, &command, false, event);
    }
    forget_mapping(mapping);
    return status;
}
