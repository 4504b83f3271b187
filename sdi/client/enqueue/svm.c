/* Commands on shared virtual memory: those on buffers, by address. */
#include "enqueue/enqueue.h"
#include "threads/threads.h"

static cl_int check(cl_command_queue queue)
{
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    return sdi_session.has_svm ? CL_SUCCESS : CL_INVALID_OPERATION;
}

/* A command on no bytes only takes its place in the order. */
static cl_int enqueue_nothing(cl_command_queue queue, cl_uint type, bool blocking, struct sdi_waits waits,
                              cl_event *event)
{
    cl_event own = NULL;
    cl_int status = sdi_check_waits(queue->context, waits);
    if (!status)
        status = sdi_mark(queue, type, waits, blocking || event ? &own : NULL);
    return sdi_finish_own(status, own, blocking, event);
}

/* ---- free ----------------------------------------------------------------------------------------------------- */

struct freeing {
    cl_command_queue queue;
    cl_context context;
    void (*notify)(cl_command_queue, cl_uint, void **, void *);
    void *data;
    cl_uint num;
    void *pointers[];
};

static void free_them(cl_event event, cl_int status, void *data)
{
    struct freeing *freeing = data;
    (void)event; /* held until this returns */
    bool is_executed = status == CL_COMPLETE; /* else what it waits for failed */
    if (is_executed && freeing->notify)
        freeing->notify(freeing->queue, freeing->num, freeing->pointers, freeing->data);
    for (cl_uint i = 0; is_executed && !freeing->notify && i < freeing->num; i++)
        sdi_clSVMFree(freeing->context, freeing->pointers[i]);
    free(freeing);
}

cl_int sdi_clEnqueueSVMFree(cl_command_queue queue, cl_uint num_pointers, void **pointers,
                            void (*notify)(cl_command_queue, cl_uint, void **, void *), void *data, cl_uint num,
                            const cl_event *list, cl_event *event)
{
    struct sdi_waits waits = {num, list};
    cl_int status = check(queue);
    if (status)
        return status;
    if ((num_pointers == 0) != (pointers == NULL))
        return CL_INVALID_VALUE;
    status = sdi_check_waits(queue->context, waits);
    if (status)
        return status;
    struct freeing *freeing = malloc(sizeof *freeing + num_pointers * sizeof *pointers);
    if (!freeing)
        return CL_OUT_OF_HOST_MEMORY;
    *freeing = (struct freeing){queue, queue->context, notify, data, num_pointers};
    if (num_pointers)
        memcpy(freeing->pointers, pointers, num_pointers * sizeof *pointers);
    cl_event own;
    status = sdi_mark(queue, CL_COMMAND_SVM_FREE, waits, &own);
    if (status) {
        free(freeing);
        return status;
    }
    status = sdi_clSetEventCallback(own, CL_COMPLETE, free_them, freeing);
    if (status)
        free(freeing);
    if (!status && event)
        *event = own;
    else
        sdi_release(own, SDI_EVENT, CL_INVALID_EVENT);
    return status;
}

/* ---- copies and fills ------------------------------------------------------------------------------------------- */

/* Between regions. */
static cl_int copy(cl_command_queue queue, cl_mem target, size_t to, cl_mem source, size_t from, size_t nbytes,
                   bool blocking, struct sdi_waits waits, cl_event *event)
{
    cl_event own = NULL;
    cl_int status = sdi_copy_to(queue, queue->device, CL_COMMAND_SVM_MEMCPY, source, from, target, to, nbytes, waits,
                                blocking || event ? &own : NULL);
    return sdi_finish_own(status, own, blocking, event);
}

/* Between memory of the application and such memory: through a buffer, since what is before it in the queue may have
 * yet to write what it reads. */
static cl_int copy_outside(cl_command_queue queue, char *to, const char *from, size_t nbytes, bool blocking,
                           struct sdi_waits waits, cl_event *event)
{
    cl_int status;
    cl_event written;
    cl_mem between = sdi_new_memory(queue->context, CL_MEM_READ_WRITE, nbytes, NULL, false, &status);
    if (!between)
        return status;
    struct sdi_transfer in = {.to_arena = true, .host = (char *)from, .region = {nbytes, 1, 1}};
    struct sdi_transfer out = {.host = to, .region = {nbytes, 1, 1}};
    status = sdi_transfer_box(queue, between, CL_COMMAND_SVM_MEMCPY, false, &in, waits, &written);
    if (!status) {
        struct sdi_waits behind = {1, &written};
        status = sdi_transfer_box(queue, between, CL_COMMAND_SVM_MEMCPY, blocking, &out, behind, event);
        sdi_release(written, SDI_EVENT, CL_INVALID_EVENT);
    }
    sdi_release(between, SDI_BUFFER, CL_INVALID_MEM_OBJECT);
    return status;
}

cl_int sdi_clEnqueueSVMMemcpy(cl_command_queue queue, cl_uint blocking, void *to, const void *from, size_t nbytes,
                              cl_uint num, const cl_event *list, cl_event *event)
{
    struct sdi_waits waits = {num, list};
    size_t at_source = 0, at_target = 0;
    cl_int status = check(queue);
    if (status)
        return status;
    if (!to || !from)
        return CL_INVALID_VALUE;
    if (nbytes == 0)
        return enqueue_nothing(queue, CL_COMMAND_SVM_MEMCPY, blocking != 0, waits, event);
    if ((uintptr_t)to - (uintptr_t)from < nbytes || (uintptr_t)from - (uintptr_t)to < nbytes)
        return CL_MEM_COPY_OVERLAP;
    cl_mem source = sdi_region_of(from, &at_source), target = sdi_region_of(to, &at_target);
    if ((source && source->context != queue->context) || (target && target->context != queue->context))
        return CL_INVALID_CONTEXT;
    if ((source && nbytes > source->nbytes - at_source) || (target && nbytes > target->nbytes - at_target))
        return CL_INVALID_VALUE;
    status = sdi_check_waits(queue->context, waits);
    if (status)
        return status;
    if (source && target)
        return copy(queue, target, at_target, source, at_source, nbytes, blocking != 0, waits, event);
    if (!source && !target)
        return copy_outside(queue, to, from, nbytes, blocking != 0, waits, event);
    struct sdi_transfer shape = {.to_arena = target != NULL, .region = {nbytes, 1, 1}};
    shape.host = target ? (char *)from : to;
    shape.offset = target ? at_target : at_source;
    return sdi_transfer_box(queue, target ? target : source, CL_COMMAND_SVM_MEMCPY, blocking != 0, &shape, waits, event);
}

cl_int sdi_clEnqueueSVMMemFill(cl_command_queue queue, void *pointer, const void *pattern, size_t pattern_nbytes,
                               size_t nbytes, cl_uint num, const cl_event *list, cl_event *event)
{
    struct sdi_waits waits = {num, list};
    cl_mem region;
    size_t offset;
    cl_int status = check(queue);
    if (status)
        return status;
    if (!pointer || !sdi_pattern_fits(pattern, pattern_nbytes, (uintptr_t)pointer, nbytes))
        return CL_INVALID_VALUE;
    if (nbytes == 0)
        return enqueue_nothing(queue, CL_COMMAND_SVM_MEMFILL, false, waits, event);
    status = sdi_region_bytes(queue->context, pointer, nbytes, &region, &offset);
    if (status)
        return status;
    struct sdi_box box = {.offset = offset, .end = offset + nbytes, .region = {nbytes, 1, 1}};
    return sdi_fill(queue, CL_COMMAND_SVM_MEMFILL, region, pattern, pattern_nbytes, &box, waits, event);
}

/* ---- maps --------------------------------------------------------------------------------------------------------- */

cl_int sdi_clEnqueueSVMMap(cl_command_queue queue, cl_uint blocking, cl_ulong flags, void *pointer, size_t nbytes,
                           cl_uint num, const cl_event *list, cl_event *event)
{
    struct sdi_waits waits = {num, list};
    cl_mem region;
    size_t offset;
    cl_int status = check(queue);
    if (status)
        return status;
    if (!pointer || nbytes == 0)
        return CL_INVALID_VALUE;
    status = sdi_region_bytes(queue->context, pointer, nbytes, &region, &offset);
    if (!status)
        status = sdi_check_map(queue, region, flags, waits);
    if (status)
        return status;
    struct sdi_box box = {.offset = offset, .end = offset + nbytes, .region = {nbytes, 1, 1}};
    sdi_map(queue, region, CL_COMMAND_SVM_MAP, blocking != 0, flags, box, waits, event, &status);
    return status;
}

cl_int sdi_clEnqueueSVMUnmap(cl_command_queue queue, void *pointer, cl_uint num, const cl_event *list, cl_event *event)
{
    struct sdi_waits waits = {num, list};
    cl_mem region;
    size_t offset;
    cl_int status = check(queue);
    if (!status)
        status = sdi_region_bytes(queue->context, pointer, 1, &region, &offset);
    if (!status)
        status = sdi_check_waits(queue->context, waits);
    return status ? status : sdi_unmap(queue, CL_COMMAND_SVM_UNMAP, region, pointer, waits, event);
}

cl_int sdi_clEnqueueSVMMigrateMem(cl_command_queue queue, cl_uint num_pointers, const void **pointers,
                                  const size_t *sizes, cl_ulong flags, cl_uint num, const cl_event *list,
                                  cl_event *event)
{
    struct sdi_waits waits = {num, list};
    cl_int status = check(queue);
    if (status)
        return status;
    if (num_pointers == 0 || !pointers || flags & ~(cl_ulong)CL_MIGRATE_MEM_OBJECT_KNOWN)
        return CL_INVALID_VALUE;
    struct sdi_extent *places = malloc(num_pointers * sizeof *places);
    if (!places)
        return CL_OUT_OF_HOST_MEMORY;
    for (cl_uint i = 0; i < num_pointers && !status; i++) {
        cl_mem region;
        size_t offset, nbytes = sizes ? sizes[i] : 0;
        status = sdi_region_bytes(queue->context, pointers[i], nbytes, &region, &offset);
        if (!status)
            places[i] = nbytes ? (struct sdi_extent){region, offset, nbytes} : (struct sdi_extent){region, 0, region->nbytes};
    }
    if (!status)
        status = sdi_check_waits(queue->context, waits);
    if (!status)
        status = sdi_migrate(queue, CL_COMMAND_SVM_MIGRATE_MEM, num_pointers, places, flags, waits, event);
    free(places);
    return status;
}
