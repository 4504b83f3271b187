/* Commands that the service does alone: copies and fills. */
#include "enqueue/enqueue.h"

/* Whether two boxes of the same region in one memory, `distance` bytes apart, with the same pitches, share a byte:
 * the distance must be x + y * row + z * slice with |x|, |y|, |z| less than the region. */
static bool boxes_meet(const struct sdi_box *box, size_t distance)
{
    for (size_t up = 0; up < 2; up++) {
        size_t z = distance / box->slice + up;
        size_t in_slice = up ? box->slice - distance % box->slice : distance % box->slice;
        if (z >= box->region[2])
            continue;
        for (size_t side = 0; side < 2; side++) {
            size_t y = in_slice / box->row + side;
            size_t x = side ? box->row - in_slice % box->row : in_slice % box->row;
            if (y < box->region[1] && x < box->region[0])
                return true;
        }
    }
    return false;
}

static cl_int check_pair(cl_command_queue queue, cl_mem source, cl_mem target)
{
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    if (!sdi_is_buffer(source) || !sdi_is_buffer(target))
        return CL_INVALID_MEM_OBJECT;
    return source->context != queue->context || target->context != queue->context ? CL_INVALID_CONTEXT : CL_SUCCESS;
}

/* Sends the record of a copy from so many bytes to so many. */
static cl_int send_copy(struct sdi_record *record, cl_command_queue queue, cl_uint type, cl_mem source,
                        size_t source_offset, size_t source_nbytes, cl_mem target, size_t target_offset,
                        size_t target_nbytes, cl_event *event)
{
    struct sdi_use *uses = NULL;
    if (sdi_host_use(&uses, source, source_offset, source_nbytes, false)
        || sdi_host_use(&uses, target, target_offset, target_nbytes, true)) {
        sdi_host_unuse(uses);
        sdi_record_close(record);
        return CL_OUT_OF_HOST_MEMORY;
    }
    return sdi_enqueue_using(record, queue, type, uses, event);
}

static struct sdi_rec_copy *open_copy(struct sdi_record *record, uint32_t member, cl_mem source, cl_mem target,
                                      size_t source_offset, size_t target_offset, struct sdi_waits waits)
{
    struct sdi_rec_copy *body = sdi_record_open(record, SDI_OP_COPY, sizeof *body, waits, false, 0);
    if (body) {
        sdi_named(source);
        sdi_named(target);
        body->source = source->root->object.id;
        body->target = target->root->object.id;
        body->source_offset = source->origin + source_offset;
        body->target_offset = target->origin + target_offset;
        body->member = member;
    }
    return body;
}

cl_int sdi_copy(cl_command_queue queue, cl_uint type, cl_mem source, const struct sdi_box *from, cl_mem target,
                const struct sdi_box *to, struct sdi_waits waits, cl_event *event)
{
    struct sdi_record record;
    struct sdi_rec_copy *body = open_copy(&record, sdi_queue_member(queue), source, target, from->offset, to->offset,
                                          waits);
    if (!body)
        return CL_OUT_OF_HOST_MEMORY;
    for (int i = 0; i < 3; i++)
        body->region[i] = from->region[i];
    if (sdi_box_is_dense(from) && sdi_box_is_dense(to)) {
        body->region[0] *= from->region[1] * from->region[2];
        body->region[1] = body->region[2] = 1;
    } else {
        body->source_row_pitch = from->row;
        body->source_slice_pitch = from->slice;
        body->target_row_pitch = to->row;
        body->target_slice_pitch = to->slice;
    }
    return send_copy(&record, queue, type, source, from->offset, from->end - from->offset, target, to->offset,
                     to->end - to->offset, event);
}

cl_int sdi_copy_to(cl_command_queue queue, cl_device_id device, cl_uint type, cl_mem source, size_t source_offset,
                   cl_mem target, size_t target_offset, size_t nbytes, struct sdi_waits waits, cl_event *event)
{
    struct sdi_record record;
    struct sdi_rec_copy *body = open_copy(&record, sdi_device_member(device), source, target, source_offset,
                                          target_offset, waits);
    if (!body)
        return CL_OUT_OF_HOST_MEMORY;
    body->region[0] = nbytes;
    body->region[1] = body->region[2] = 1;
    return send_copy(&record, queue, type, source, source_offset, nbytes, target, target_offset, nbytes, event);
}

cl_int sdi_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem source, cl_mem target, size_t source_offset,
                               size_t target_offset, size_t nbytes, cl_uint num, const cl_event *list,
                               cl_event *event)
{
    struct sdi_waits waits = {num, list};
    cl_int status = check_pair(queue, source, target);
    if (status)
        return status;
    if (nbytes == 0 || source_offset > source->nbytes || nbytes > source->nbytes - source_offset
        || target_offset > target->nbytes || nbytes > target->nbytes - target_offset)
        return CL_INVALID_VALUE;
    status = sdi_check_waits(queue->context, waits);
    if (status)
        return status;
    if (source->root == target->root) {
        size_t from = source->origin + source_offset, to = target->origin + target_offset;
        if ((from < to ? to - from : from - to) < nbytes)
            return CL_MEM_COPY_OVERLAP;
    }
    return sdi_copy_to(queue, queue->device, CL_COMMAND_COPY_BUFFER, source, source_offset, target, target_offset, nbytes,
                       waits, event);
}

cl_int sdi_clEnqueueCopyBufferRect(cl_command_queue queue, cl_mem source, cl_mem target, const size_t *source_origin,
                                   const size_t *target_origin, const size_t *region, size_t source_row,
                                   size_t source_slice, size_t target_row, size_t target_slice, cl_uint num,
                                   const cl_event *list, cl_event *event)
{
    struct sdi_waits waits = {num, list};
    struct sdi_box from, to;
    cl_int status = check_pair(queue, source, target);
    if (status)
        return status;
    if (!sdi_box_make(&from, source_origin, region, source_row, source_slice)
        || !sdi_box_make(&to, target_origin, region, target_row, target_slice) || from.end > source->nbytes
        || to.end > target->nbytes)
        return CL_INVALID_VALUE;
    bool same_pitches = from.row == to.row && from.slice == to.slice;
    if (source == target && from.row != to.row && from.slice != to.slice)
        return CL_INVALID_VALUE;
    status = sdi_check_waits(queue->context, waits);
    if (status)
        return status;
    if (source->root == target->root) {
        size_t a = source->origin + from.offset, b = target->origin + to.offset;
        bool apart = source->origin + from.end <= b || target->origin + to.end <= a;
        if (!apart && (!same_pitches || boxes_meet(&from, a < b ? b - a : a - b)))
            return CL_MEM_COPY_OVERLAP;
    }
    return sdi_copy(queue, CL_COMMAND_COPY_BUFFER_RECT, source, &from, target, &to, waits, event);
}

cl_int sdi_clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void *pattern, size_t pattern_nbytes,
                               size_t offset, size_t nbytes, cl_uint num, const cl_event *list, cl_event *event)
{
    struct sdi_waits waits = {num, list};
    cl_int status = check_pair(queue, buffer, buffer);
    if (status)
        return status;
    if (offset > buffer->nbytes || nbytes > buffer->nbytes - offset || nbytes == 0
        || !sdi_pattern_fits(pattern, pattern_nbytes, offset, nbytes))
        return CL_INVALID_VALUE;
    struct sdi_box box = {.offset = offset, .end = offset + nbytes, .region = {nbytes, 1, 1}};
    return sdi_fill(queue, CL_COMMAND_FILL_BUFFER, buffer, pattern, pattern_nbytes, &box, waits, event);
}

bool sdi_pattern_fits(const void *pattern, size_t pattern_nbytes, size_t offset, size_t nbytes)
{
    return pattern && pattern_nbytes != 0 && pattern_nbytes <= SDI_PATTERN_MAX_NBYTES
           && !(pattern_nbytes & (pattern_nbytes - 1)) && offset % pattern_nbytes == 0 && nbytes % pattern_nbytes == 0;
}

cl_int sdi_fill(cl_command_queue queue, cl_uint type, cl_mem memory, const void *pattern, size_t pattern_nbytes,
                const struct sdi_box *box, struct sdi_waits waits, cl_event *event)
{
    cl_int status = sdi_check_waits(queue->context, waits);
    if (status)
        return status;
    struct sdi_record record;
    struct sdi_rec_fill *body = sdi_record_open(&record, SDI_OP_FILL, sizeof *body, waits, false, pattern_nbytes);
    if (!body)
        return CL_OUT_OF_HOST_MEMORY;
    sdi_named(memory);
    body->buffer = memory->root->object.id;
    body->offset = memory->origin + box->offset;
    for (int i = 0; i < 3; i++)
        body->region[i] = box->region[i];
    body->row_pitch = box->row;
    body->slice_pitch = box->slice;
    body->pattern_nbytes = (uint32_t)pattern_nbytes;
    if (memory->image) {
        body->order = memory->image->order;
        body->data_type = memory->image->data_type;
    }
    body->member = sdi_queue_member(queue);
    memcpy(record.tail, pattern, pattern_nbytes);
    struct sdi_use *uses = NULL;
    if (sdi_host_use(&uses, memory, box->offset, box->end - box->offset, true)) {
        sdi_record_close(&record);
        return CL_OUT_OF_HOST_MEMORY;
    }
    return sdi_enqueue_using(&record, queue, type, uses, event);
}
