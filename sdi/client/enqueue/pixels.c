/* Commands on images: their pixels are rows of bytes in a buffer of the service, so each is a command on boxes. */
#include "enqueue/enqueue.h"

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* The box of a region given in pixels; false when it is not inside the image. */
static bool make_box(struct sdi_box *box, const struct sdi_image *image, const size_t *origin, const size_t *region)
{
    if (!origin || !region)
        return false;
    for (int i = 0; i < 3; i++)
        if (region[i] == 0 || origin[i] > image->region[i] || region[i] > image->region[i] - origin[i])
            return false;
    const size_t bytes_origin[3] = {origin[0] * image->pixel_nbytes, origin[1], origin[2]};
    const size_t bytes_region[3] = {region[0] * image->pixel_nbytes, region[1], region[2]};
    return sdi_box_make(box, bytes_origin, bytes_region, image->row, image->plane);
}

/* The application's memory for such a region; false when the pitches are too small or of no use. */
static bool make_host_box(struct sdi_box *box, const struct sdi_image *image, const struct sdi_box *inside,
                          size_t row_pitch, size_t slice_pitch)
{
    static const size_t nowhere[3] = {0, 0, 0};
    bool is_line_array = image->type == CL_MEM_OBJECT_IMAGE1D_ARRAY;
    size_t least_row = inside->region[0], row = row_pitch ? row_pitch : least_row, least_slice;
    if (row < least_row || __builtin_mul_overflow(row, is_line_array ? 1 : inside->region[1], &least_slice))
        return false;
    if (slice_pitch && (image->slice_pitch == 0 || slice_pitch < least_slice))
        return false;
    size_t slice = slice_pitch ? slice_pitch : least_slice;
    return is_line_array ? sdi_box_make(box, nowhere, inside->region, slice, 0)
                         : sdi_box_make(box, nowhere, inside->region, row, slice);
}

/* ---- reading and writing ------------------------------------------------------------------------------------------- */

struct place {
    const size_t *origin, *region;
    size_t row_pitch, slice_pitch;
    char *host;
};

static cl_int transfer(cl_command_queue queue, cl_mem image, bool to_arena, bool blocking, struct place place,
                       struct sdi_waits waits, cl_event *event)
{
    struct sdi_box inside, outside;
    cl_int status = sdi_check_queue(queue, image, sdi_is_image(image));
    if (status)
        return status;
    if (!place.host || !make_box(&inside, image->image, place.origin, place.region)
        || !make_host_box(&outside, image->image, &inside, place.row_pitch, place.slice_pitch))
        return CL_INVALID_VALUE;
    struct sdi_transfer shape = sdi_transfer_shape(&inside, &outside, place.host, to_arena);
    return sdi_transfer_box(queue, image, to_arena ? CL_COMMAND_WRITE_IMAGE : CL_COMMAND_READ_IMAGE, blocking, &shape,
                            waits, event);
}

cl_int sdi_clEnqueueReadImage(cl_command_queue queue, cl_mem image, cl_uint blocking, const size_t *origin,
                              const size_t *region, size_t row_pitch, size_t slice_pitch, void *host, cl_uint num,
                              const cl_event *list, cl_event *event)
{
    struct place place = {origin, region, row_pitch, slice_pitch, host};
    return transfer(queue, image, false, blocking != 0, place, (struct sdi_waits){num, list}, event);
}

cl_int sdi_clEnqueueWriteImage(cl_command_queue queue, cl_mem image, cl_uint blocking, const size_t *origin,
                               const size_t *region, size_t row_pitch, size_t slice_pitch, const void *host,
                               cl_uint num, const cl_event *list, cl_event *event)
{
    struct place place = {origin, region, row_pitch, slice_pitch, (char *)host};
    return transfer(queue, image, true, blocking != 0, place, (struct sdi_waits){num, list}, event);
}

/* ---- mapping ------------------------------------------------------------------------------------------------------- */

void *sdi_clEnqueueMapImage(cl_command_queue queue, cl_mem image, cl_uint blocking, cl_ulong flags,
                            const size_t *origin, const size_t *region, size_t *row_pitch, size_t *slice_pitch,
                            cl_uint num, const cl_event *list, cl_event *event, cl_int *errcode_ret)
{
    struct sdi_waits waits = {num, list};
    struct sdi_box box;
    cl_int status = sdi_check_queue(queue, image, sdi_is_image(image));
    if (status)
        return sdi_fail(errcode_ret, status);
    size_t image_slice = image->image->slice_pitch;
    if (!make_box(&box, image->image, origin, region) || !row_pitch || (image_slice && !slice_pitch))
        return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    status = sdi_check_map(queue, image, flags, waits);
    if (status)
        return sdi_fail(errcode_ret, status);
    void *pointer = sdi_map(queue, image, CL_COMMAND_MAP_IMAGE, blocking != 0, flags, box, waits, event, errcode_ret);
    if (pointer) {
        *row_pitch = image->image->row_pitch;
        if (slice_pitch)
            *slice_pitch = image_slice;
    }
    return pointer;
}

/* ---- copies -------------------------------------------------------------------------------------------------------- */

cl_int sdi_clEnqueueCopyImage(cl_command_queue queue, cl_mem source, cl_mem target, const size_t *source_origin,
                              const size_t *target_origin, const size_t *region, cl_uint num, const cl_event *list,
                              cl_event *event)
{
    struct sdi_waits waits = {num, list};
    struct sdi_box from, to;
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    if (!sdi_is_image(source) || !sdi_is_image(target))
        return CL_INVALID_MEM_OBJECT;
    if (source->context != queue->context || target->context != queue->context)
        return CL_INVALID_CONTEXT;
    if (source->image->order != target->image->order || source->image->data_type != target->image->data_type)
        return CL_IMAGE_FORMAT_MISMATCH;
    if (!make_box(&from, source->image, source_origin, region)
        || !make_box(&to, target->image, target_origin, region))
        return CL_INVALID_VALUE;
    cl_int status = sdi_check_waits(queue->context, waits);
    if (status)
        return status;
    if (source == target && sdi_boxes_meet(&from, &to, 0))
        return CL_MEM_COPY_OVERLAP;
    return sdi_copy(queue, CL_COMMAND_COPY_IMAGE, source, &from, target, &to, waits, event);
}

/* The pixels of a region one after the other in a buffer; false when they are not inside it. */
static bool make_run(struct sdi_box *run, cl_mem buffer, size_t offset, const struct sdi_box *pixels)
{
    static const size_t nowhere[3] = {0, 0, 0};
    if (offset > buffer->nbytes || !sdi_box_make(run, nowhere, pixels->region, 0, 0)
        || run->end > buffer->nbytes - offset)
        return false;
    run->offset += offset;
    run->end += offset;
    return true;
}

static cl_int copy_run(cl_command_queue queue, cl_mem image, cl_mem buffer, bool to_image, const size_t *origin,
                       const size_t *region, size_t offset, struct sdi_waits waits, cl_event *event)
{
    struct sdi_box pixels, run;
    cl_int status = sdi_check_queue(queue, image, sdi_is_image(image));
    if (status)
        return status;
    if (!sdi_is_buffer(buffer) || image->image->source == buffer)
        return CL_INVALID_MEM_OBJECT;
    if (buffer->context != queue->context)
        return CL_INVALID_CONTEXT;
    if (!make_box(&pixels, image->image, origin, region) || !make_run(&run, buffer, offset, &pixels))
        return CL_INVALID_VALUE;
    status = sdi_check_waits(queue->context, waits);
    if (status)
        return status;
    if (image->root == buffer->root && image->origin + pixels.offset < buffer->origin + run.end
        && buffer->origin + run.offset < image->origin + pixels.end)
        return CL_MEM_COPY_OVERLAP;
    return to_image ? sdi_copy(queue, CL_COMMAND_COPY_BUFFER_TO_IMAGE, buffer, &run, image, &pixels, waits, event)
                    : sdi_copy(queue, CL_COMMAND_COPY_IMAGE_TO_BUFFER, image, &pixels, buffer, &run, waits, event);
}

cl_int sdi_clEnqueueCopyImageToBuffer(cl_command_queue queue, cl_mem image, cl_mem buffer, const size_t *origin,
                                      const size_t *region, size_t offset, cl_uint num, const cl_event *list,
                                      cl_event *event)
{
    return copy_run(queue, image, buffer, false, origin, region, offset, (struct sdi_waits){num, list}, event);
}

cl_int sdi_clEnqueueCopyBufferToImage(cl_command_queue queue, cl_mem buffer, cl_mem image, size_t offset,
                                      const size_t *origin, const size_t *region, cl_uint num, const cl_event *list,
                                      cl_event *event)
{
    return copy_run(queue, image, buffer, true, origin, region, offset, (struct sdi_waits){num, list}, event);
}

/* ---- filling ------------------------------------------------------------------------------------------------------- */

cl_int sdi_clEnqueueFillImage(cl_command_queue queue, cl_mem image, const void *color, const size_t *origin,
                              const size_t *region, cl_uint num, const cl_event *list, cl_event *event)
{
    enum { COLOR_NBYTES = 16 };
    struct sdi_waits waits = {num, list};
    struct sdi_box box;
    cl_int status = sdi_check_queue(queue, image, sdi_is_image(image));
    if (status)
        return status;
    if (!color || !make_box(&box, image->image, origin, region))
        return CL_INVALID_VALUE;
    return sdi_fill(queue, CL_COMMAND_FILL_IMAGE, image, color, COLOR_NBYTES, &box, waits, event);
}
