/* Mapping: a buffer's bytes are in the arena already, so the pointer is known at once; only buffers that use
 * memory of the application have their bytes copied there and back. */
#include "client.h"

static bool meet(const struct sdi_mapping *a, size_t offset, size_t nbytes)
{
    return a->offset < offset + nbytes && offset < a->offset + a->nbytes;
}

/* Client lock held.  Whether a byte of the range is mapped for writing through this object. */
static bool mapped_for_writing(cl_mem buffer, size_t offset, size_t nbytes)
{
    for (const struct sdi_mapping *m = buffer->mappings; m; m = m->next)
        if (m->flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) && meet(m, offset, nbytes))
            return true;
    return false;
}

/* The transfer between a range of the root's arena bytes and the application's memory. */
static struct sdi_transfer whole_range(cl_mem root, char *host, size_t offset, size_t nbytes, bool to_arena)
{
    struct sdi_transfer transfer = {
        .root = root,
        .to_arena = to_arena,
        .host = host,
        .offset = offset,
        .region = {nbytes, 1, 1},
        .total = nbytes,
    };
    return transfer;
}

static cl_int check_map(cl_command_queue queue, cl_mem buffer, cl_ulong flags, size_t offset, size_t nbytes,
                        struct sdi_waits waits)
{
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    if (!sdi_is_mem(buffer))
        return CL_INVALID_MEM_OBJECT;
    if (buffer->context != queue->context)
        return CL_INVALID_CONTEXT;
    if (nbytes == 0 || offset > buffer->nbytes || nbytes > buffer->nbytes - offset)
        return CL_INVALID_VALUE;
    if (flags & ~(CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)
        || (flags & CL_MAP_WRITE_INVALIDATE_REGION && flags != CL_MAP_WRITE_INVALIDATE_REGION))
        return CL_INVALID_VALUE;
    cl_int status = sdi_check_waits(queue->context, waits);
    if (status)
        return status;
    return sdi_host_access(buffer, flags & CL_MAP_READ, flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION));
}

/* Registers a mapping; an error code when that can't be. */
static cl_int add_mapping(cl_mem buffer, char *pointer, cl_ulong flags, size_t offset, size_t nbytes)
{
    struct sdi_mapping *mapping = malloc(sizeof *mapping);
    if (!mapping)
        return CL_OUT_OF_HOST_MEMORY;
    *mapping = (struct sdi_mapping){.pointer = pointer, .offset = offset, .nbytes = nbytes, .flags = flags};
    cl_int status = CL_SUCCESS;
    sdi_lock();
    if (flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) && mapped_for_writing(buffer, offset, nbytes)) {
        status = CL_INVALID_OPERATION;
    } else {
        mapping->next = buffer->mappings;
        buffer->mappings = mapping;
        buffer->num_mappings++;
    }
    sdi_unlock();
    if (status)
        free(mapping);
    return status;
}

/* The newest mapping that begins at `pointer`, no longer the buffer's; or NULL. */
static struct sdi_mapping *take_mapping(cl_mem buffer, const char *pointer)
{
    sdi_lock();
    struct sdi_mapping **at = &buffer->mappings;
    while (*at && (*at)->pointer != pointer)
        at = &(*at)->next;
    struct sdi_mapping *mapping = *at;
    if (mapping) {
        *at = mapping->next;
        buffer->num_mappings--;
    }
    sdi_unlock();
    return mapping;
}

void *sdi_clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_uint blocking, cl_ulong flags, size_t offset,
                             size_t nbytes, cl_uint num, const cl_event *list, cl_event *event, cl_int *errcode_ret)
{
    struct sdi_waits waits = {num, list};
    cl_int status = check_map(queue, buffer, flags, offset, nbytes, waits);
    if (status)
        return sdi_fail(errcode_ret, status);
    cl_mem root = buffer->root;
    size_t at = buffer->origin + offset;
    char *pointer = root->host_ptr ? root->host_ptr + at : root->bytes + at;
    bool transferred = root->host_ptr && flags & (CL_MAP_READ | CL_MAP_WRITE);

    struct sdi_record record;
    struct sdi_rec_map *body = sdi_record_open(&record, SDI_OP_MAP, sizeof *body, waits, false, 0);
    if (!body)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    body->buffer = root->object.id;
    body->offset = at;
    body->map_nbytes = nbytes;
    body->flags = flags;
    body->transfer = transferred;
    body->blocking = blocking != 0;

    status = add_mapping(buffer, pointer, flags, at, nbytes);
    if (status) {
        sdi_record_close(&record);
        return sdi_fail(errcode_ret, status);
    }
    struct sdi_command command = {.queue = queue, .type = CL_COMMAND_MAP_BUFFER};
    if (transferred) {
        struct sdi_transfer transfer = whole_range(root, pointer, at, nbytes, false);
        status = sdi_transfer_enqueue(&record, &command, &transfer, blocking != 0, event);
    } else if (blocking) {
        command.wants_event = event != NULL;
        command.wants_slot = command.forget = true;
        status = sdi_enqueue(&record, &command);
        if (!status)
            status = sdi_finish_blocking(&command, sdi_slot_wait(command.slot), event);
    } else {
        status = sdi_enqueue_simple(&record, queue, CL_COMMAND_MAP_BUFFER, event);
    }
    if (status) {
        free(take_mapping(buffer, pointer));
        return sdi_fail(errcode_ret, status);
    }
    sdi_succeed(errcode_ret);
    return pointer;
}

cl_int sdi_clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void *pointer, cl_uint num,
                                   const cl_event *list, cl_event *event)
{
    struct sdi_waits waits = {num, list};
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    if (!sdi_is_mem(buffer))
        return CL_INVALID_MEM_OBJECT;
    if (buffer->context != queue->context)
        return CL_INVALID_CONTEXT;
    cl_int status = sdi_check_waits(queue->context, waits);
    if (status)
        return status;
    struct sdi_record record;
    struct sdi_rec_unmap *body = sdi_record_open(&record, SDI_OP_UNMAP, sizeof *body, waits, false, 0);
    if (!body)
        return CL_OUT_OF_HOST_MEMORY;
    struct sdi_mapping *mapping = pointer ? take_mapping(buffer, pointer) : NULL;
    if (!mapping) {
        sdi_record_close(&record);
        return CL_INVALID_VALUE;
    }
    cl_mem root = buffer->root;
    bool wrote = (mapping->flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)) != 0;
    bool transferred = wrote && root->host_ptr;
    body->buffer = root->object.id;
    body->offset = mapping->offset;
    body->map_nbytes = mapping->nbytes;
    body->wrote = wrote;
    body->transfer = transferred;
    if (transferred) {
        struct sdi_command command = {.queue = queue, .type = CL_COMMAND_UNMAP_MEM_OBJECT};
        struct sdi_transfer transfer = whole_range(root, pointer, mapping->offset, mapping->nbytes, true);
        status = sdi_transfer_enqueue(&record, &command, &transfer, false, event);
    } else {
        status = sdi_enqueue_simple(&record, queue, CL_COMMAND_UNMAP_MEM_OBJECT, event);
    }
    free(mapping);
    return status;
}
