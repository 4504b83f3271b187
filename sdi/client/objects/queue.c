/* Command queues. */
#include "objects/event.h"
#include "threads/threads.h"

static cl_command_queue create(cl_context context, cl_device_id device, cl_ulong properties, cl_ulong *list,
                               size_t num_list, cl_int *errcode_ret)
{
    cl_int status = CL_SUCCESS;
    if (properties & ~CL_QUEUE_KNOWN)
        status = CL_INVALID_VALUE;
    else if (properties & ~(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE)
             || properties & ~sdi_session.limits[device->number].queue_properties)
        status = CL_INVALID_QUEUE_PROPERTIES;
    cl_command_queue queue = NULL;
    if (!status) {
        sdi_lock();
        queue = sdi_new(SDI_QUEUE);
        if (queue) {
            struct sdi_rec_create_queue record = {
                .nbytes = sizeof record,
                .op = SDI_OP_CREATE_QUEUE,
                .id = queue->object.id,
                .properties = properties,
                .listener = context->notify ? context->object.id : 0,
            };
            queue->context = context;
            queue->device = device;
            sdi_hold(context);
            queue->properties = properties;
            if (context->notify) /* only the completion thread hears of failures */
                status = sdi_completion_start();
            if (!status)
                status = sdi_send(&record, sizeof record);
            if (!status) {
                queue->property_list = list;
                queue->num_property_list = num_list;
            } else {
                sdi_discard(queue);
            }
        } else {
            status = CL_OUT_OF_HOST_MEMORY;
        }
        sdi_unlock();
    }
    if (status) {
        free(list);
        return sdi_fail(errcode_ret, status);
    }
    sdi_succeed(errcode_ret);
    return queue;
}

cl_command_queue sdi_clCreateCommandQueue(cl_context context, cl_device_id device, cl_ulong properties,
                                          cl_int *errcode_ret)
{
    if (!sdi_is_context(context))
        return sdi_fail(errcode_ret, CL_INVALID_CONTEXT);
    if (!sdi_is_device_id(device) || !sdi_context_has(context, device))
        return sdi_fail(errcode_ret, CL_INVALID_DEVICE);
    return create(context, device, properties, NULL, 0, errcode_ret);
}

cl_command_queue sdi_clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                                        const cl_ulong *list, cl_int *errcode_ret)
{
    cl_ulong properties = 0;
    size_t num = 0;
    if (!sdi_is_context(context))
        return sdi_fail(errcode_ret, CL_INVALID_CONTEXT);
    if (!sdi_is_device_id(device) || !sdi_context_has(context, device))
        return sdi_fail(errcode_ret, CL_INVALID_DEVICE);
    for (; list && list[num]; num += 2) {
        if (list[num] == CL_QUEUE_PROPERTIES)
            properties = list[num + 1];
        else if (list[num] == CL_QUEUE_SIZE) /* for queues on the device only */
            return sdi_fail(errcode_ret, CL_INVALID_QUEUE_PROPERTIES);
        else
            return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    }
    cl_ulong *copy = NULL;
    if (list) {
        copy = malloc((num + 1) * sizeof *copy);
        if (!copy)
            return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
        memcpy(copy, list, (num + 1) * sizeof *copy);
    }
    return create(context, device, properties, copy, copy ? num + 1 : 0, errcode_ret);
}

SDI_COUNTED(CommandQueue, cl_command_queue, SDI_QUEUE, CL_INVALID_COMMAND_QUEUE)

static unsigned num_busy; /* queues, with those that were busy when they went, for ever; client lock */

static void forget_busy(void)
{
    num_busy = 0;
}

SDI_AT_FORK(forget_busy)

void sdi_queue_is_busy(cl_command_queue queue, bool busy)
{
    if (busy && !queue->is_busy)
        num_busy++;
    else if (!busy && queue->is_busy && num_busy)
        num_busy--;
    queue->is_busy = busy;
}

bool sdi_any_busy(void)
{
    return num_busy != 0;
}

static void drop(void *object)
{
    cl_command_queue queue = object;
    sdi_send_bare(SDI_OP_RELEASE_QUEUE, queue->object.id);
    free(queue->property_list);
    sdi_unhold(queue->context);
}

SDI_AT_DROP(SDI_QUEUE, drop)

cl_int sdi_clGetCommandQueueInfo(cl_command_queue queue, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    switch (param) {
    case CL_QUEUE_CONTEXT:
        SDI_ANSWER(cl_context, queue->context);
    case CL_QUEUE_DEVICE:
        SDI_ANSWER(cl_device_id, queue->device);
    case CL_QUEUE_REFERENCE_COUNT:
        SDI_ANSWER(cl_uint, queue->object.refs);
    case CL_QUEUE_PROPERTIES:
        SDI_ANSWER(cl_ulong, queue->properties);
    case CL_QUEUE_SIZE:
        return CL_INVALID_COMMAND_QUEUE; /* this is no queue on the device */
    case CL_QUEUE_DEVICE_DEFAULT:
        SDI_ANSWER(cl_command_queue, NULL);
    case CL_QUEUE_PROPERTIES_ARRAY:
        return sdi_answer(queue->property_list, queue->num_property_list * sizeof *queue->property_list, size, value,
                          size_ret);
    default:
        return CL_INVALID_VALUE;
    }
}

/* Records are sent at once: there is nothing to flush. */
cl_int sdi_clFlush(cl_command_queue queue)
{
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    sdi_speak_up();
    return sdi_session_dead() ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}
