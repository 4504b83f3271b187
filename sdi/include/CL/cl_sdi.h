/* Collective commands of the platform "SDI" (extension cl_sdi_collectives): as those of MPI, between buffers.
 *
 * Include it after <CL/cl.h>, with the folder that `sdi env --include` prints in the compiler's search path.  The
 * functions come from clGetExtensionFunctionAddressForPlatform, by their names; each has a type:
 * clEnqueueScatterBuffer is a clEnqueueScatterBuffer_fn.
 *
 * What they have in common.  Buffer number i of a list of targets is to be on the device of queue number i, where
 * it is when the command is complete; one target has one queue.  Where sources are makes no difference but for
 * time.  A command belongs to the first queue: it waits for what is before it there (in an ordered queue) and for
 * its wait list, and is complete, as one, when all of it is; other queues neither wait for it nor does it wait for
 * them.  Lists have `num` elements and are read before the function returns.  A list of offsets may be NULL: all
 * are 0.  `nbytes` counts per pair of buffers: of AllGather, AlltoAll, Scatter and Gather each part has so many,
 * of ReduceScatter each result.
 *
 * Reductions.  Elements are reduced in the order of the list of sources, from the left: ((s0 op s1) op s2) op ...;
 * each step is rounded to the type.  So the bytes depend neither on the number of devices nor on where buffers
 * are.  Integers wrap around.  MIN and MAX keep the left operand unless the right one is less or greater (so a NaN
 * on the right is never taken). LAND, LOR and LXOR give 1 or 0.  BAND, BOR, BXOR, LAND, LOR and LXOR are for
 * integers only.  Offsets and `nbytes` are multiples of the element's size.
 *
 * Errors, beside those of clEnqueueCopyBuffer for each pair: CL_INVALID_VALUE: `num` is 0, a list is NULL,
 * `nbytes` is 0, an operation or type there is not, elements that are cut; CL_INVALID_CONTEXT: queues or buffers
 * of several contexts; CL_MEM_COPY_OVERLAP: a target's bytes are those of a source or of another target;
 * CL_INVALID_OPERATION: the devices have no such type.  A function that fails has enqueued nothing, unless it
 * fails for want of memory. */
#ifndef CL_SDI_H
#define CL_SDI_H

#ifndef __OPENCL_CL_H
#include <CL/cl.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define CL_SDI_COLLECTIVES_EXTENSION_NAME "cl_sdi_collectives"

/* What is done with two elements. */
typedef cl_uint cl_sdi_reduction;
#define CL_SDI_REDUCE_SUM 0x53440000
#define CL_SDI_REDUCE_PRODUCT 0x53440001
#define CL_SDI_REDUCE_MIN 0x53440002
#define CL_SDI_REDUCE_MAX 0x53440003
#define CL_SDI_REDUCE_BAND 0x53440004
#define CL_SDI_REDUCE_BOR 0x53440005
#define CL_SDI_REDUCE_BXOR 0x53440006
#define CL_SDI_REDUCE_LAND 0x53440007
#define CL_SDI_REDUCE_LOR 0x53440008
#define CL_SDI_REDUCE_LXOR 0x53440009

/* Elements: CL_SIGNED_INT8, CL_SIGNED_INT16, CL_SIGNED_INT32, CL_UNSIGNED_INT8, CL_UNSIGNED_INT16, CL_UNSIGNED_INT32,
 * CL_FLOAT, and those that no channel of an image has: */
#define CL_SDI_SIGNED_INT64 0x53440100
#define CL_SDI_UNSIGNED_INT64 0x53440101
#define CL_SDI_DOUBLE 0x53440102

/* CL_EVENT_COMMAND_TYPE */
#define CL_SDI_COMMAND_BROADCAST_BUFFER 0x53440200
#define CL_SDI_COMMAND_SCATTER_BUFFER 0x53440201
#define CL_SDI_COMMAND_GATHER_BUFFER 0x53440202
#define CL_SDI_COMMAND_ALL_GATHER_BUFFER 0x53440203
#define CL_SDI_COMMAND_ALL_TO_ALL_BUFFER 0x53440204
#define CL_SDI_COMMAND_REDUCE_BUFFER 0x53440205
#define CL_SDI_COMMAND_ALL_REDUCE_BUFFER 0x53440206
#define CL_SDI_COMMAND_REDUCE_SCATTER_BUFFER 0x53440207
#define CL_SDI_COMMAND_SCAN_BUFFER 0x53440208

/* target[i] = source */
typedef cl_int(CL_API_CALL *clEnqueueBroadcastBuffer_fn)(
    cl_command_queue *queues, cl_uint num, cl_mem source, cl_mem *targets, size_t source_offset, size_t *target_offsets,
    size_t nbytes, cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/* target[i] = part i of source */
typedef cl_int(CL_API_CALL *clEnqueueScatterBuffer_fn)(
    cl_command_queue *queues, cl_uint num, cl_mem source, cl_mem *targets, size_t source_offset, size_t *target_offsets,
    size_t nbytes, cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/* part i of target = source[i] */
typedef cl_int(CL_API_CALL *clEnqueueGatherBuffer_fn)(
    cl_command_queue queue, cl_uint num, cl_mem *sources, cl_mem target, size_t *source_offsets, size_t target_offset,
    size_t nbytes, cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/* The other five have lists of both ends. */
#define CL_SDI_BETWEEN_LISTS                                                                                           \
    cl_command_queue *queues, cl_uint num, cl_mem *sources, cl_mem *targets, size_t *source_offsets,                   \
        size_t *target_offsets, size_t nbytes

/* part i of target[j] = source[i] */
typedef cl_int(CL_API_CALL *clEnqueueAllGatherBuffer_fn)(
    CL_SDI_BETWEEN_LISTS, cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/* part i of target[j] = part j of source[i] */
typedef cl_int(CL_API_CALL *clEnqueueAlltoAllBuffer_fn)(
    CL_SDI_BETWEEN_LISTS, cl_uint num_events_in_wait_list, const cl_event *event_wait_list, cl_event *event);

/* target = source[0] op source[1] op ... */
typedef cl_int(CL_API_CALL *clEnqueueReduceBuffer_fn)(
    cl_command_queue queue, cl_uint num, cl_mem *sources, cl_mem target, size_t *source_offsets, size_t target_offset,
    size_t nbytes, cl_sdi_reduction reduction, cl_channel_type type, cl_uint num_events_in_wait_list,
    const cl_event *event_wait_list, cl_event *event);

/* target[j] = source[0] op source[1] op ... */
typedef cl_int(CL_API_CALL *clEnqueueAllReduceBuffer_fn)(
    CL_SDI_BETWEEN_LISTS, cl_sdi_reduction reduction, cl_channel_type type, cl_uint num_events_in_wait_list,
    const cl_event *event_wait_list, cl_event *event);

/* target[j] = part j of source[0] op part j of source[1] op ... */
typedef cl_int(CL_API_CALL *clEnqueueReduceScatterBuffer_fn)(
    CL_SDI_BETWEEN_LISTS, cl_sdi_reduction reduction, cl_channel_type type, cl_uint num_events_in_wait_list,
    const cl_event *event_wait_list, cl_event *event);

/* target[j] = source[0] op ... op source[j] */
typedef cl_int(CL_API_CALL *clEnqueueScanBuffer_fn)(
    CL_SDI_BETWEEN_LISTS, cl_sdi_reduction reduction, cl_channel_type type, cl_uint num_events_in_wait_list,
    const cl_event *event_wait_list, cl_event *event);

#ifdef __cplusplus
}
#endif

#endif
