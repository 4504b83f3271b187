/* Kernels of the client's own, which reduce the elements of two buffers to one. */
#ifndef SDI_REDUCTIONS_H
#define SDI_REDUCTIONS_H

#include "enqueue/enqueue.h"

/* Where bytes of a buffer begin, counted from the object's first. */
struct sdi_place {
    cl_mem buffer;
    size_t offset;
};

struct sdi_reduction {
    uint64_t build; /* in the service */
    size_t element_nbytes;
};

/* No lock held.  Finds the kernel, or has it built; CL_INVALID_VALUE: there is no such operation or type,
 * CL_INVALID_OPERATION: the devices don't have it. */
cl_int sdi_reduction_find(cl_uint operation, cl_uint type, struct sdi_reduction *found);
/* No lock held.  Enqueues `into` = `a` op `b` of these bytes on a device; `into` may be one of them. */
cl_int sdi_reduction_enqueue(const struct sdi_reduction *reduction, cl_command_queue queue, cl_device_id device,
                             struct sdi_place into, struct sdi_place a, struct sdi_place b, size_t nbytes,
                             struct sdi_waits waits, cl_event *event);

#endif
