/* Launches: checked in the specification's order, then one record with a copy of the kernel's arguments. */
#include "enqueue/enqueue.h"
#include "threads/threads.h"

#define OPENCL_2_1 ((2u << 22) | (1u << 12))

struct range {
    const struct sdi_kernel_table *kernel; /* what it is on the queue's device */
    cl_uint work_dim;
    size_t offset[3], global[3], local[3]; /* local 0, 0, 0: not given */
    bool empty;
};

static cl_int check_objects(cl_command_queue queue, cl_kernel kernel)
{
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    if (!sdi_is_kernel(kernel))
        return CL_INVALID_KERNEL;
    if (kernel->program->context != queue->context)
        return CL_INVALID_CONTEXT;
    for (uint32_t i = 0; i < kernel->table->num_args; i++) {
        const struct sdi_bound *bound = &kernel->bound[i];
        if (!bound->set || (bound->id && (!sdi_is_mem(bound->buffer) || bound->buffer->object.id != bound->id)))
            return CL_INVALID_KERNEL_ARGS;
        if (bound->id)
            sdi_named(bound->buffer);
    }
    return CL_SUCCESS;
}

static cl_int check_local(cl_device_id device, struct range *range, const size_t *local)
{
    const struct sdi_limits *limits = &sdi_session.limits[device->number];
    const size_t *required = range->kernel->required_size;
    size_t items = 1;
    if (!local && required[0])
        local = required;
    if (!local)
        return CL_SUCCESS;
    for (cl_uint i = 0; i < 3; i++)
        range->local[i] = i < range->work_dim ? local[i] : 1;
    for (cl_uint i = 0; i < 3; i++)
        if (required[0] && range->local[i] != required[i])
            return CL_INVALID_WORK_GROUP_SIZE;
    for (cl_uint i = 0; i < range->work_dim; i++)
        if (range->local[i] == 0 || (range->global[i] % range->local[i] && !limits->non_uniform))
            return CL_INVALID_WORK_GROUP_SIZE;
    for (cl_uint i = 0; i < range->work_dim; i++)
        if (range->local[i] > limits->max_work_item_sizes[i])
            return CL_INVALID_WORK_ITEM_SIZE;
    for (cl_uint i = 0; i < range->work_dim; i++)
        if (__builtin_mul_overflow(items, range->local[i], &items))
            return CL_INVALID_WORK_GROUP_SIZE;
    size_t most = SDI_MIN(range->kernel->limits[device->number].work_group_size, limits->max_work_group_size);
    return items > most ? CL_INVALID_WORK_GROUP_SIZE : CL_SUCCESS;
}

static cl_int check_range(cl_device_id device, cl_kernel kernel, struct range *range, const size_t *offset,
                          const size_t *global, const size_t *local)
{
    const struct sdi_limits *limits = &sdi_session.limits[device->number];
    if (range->work_dim < 1 || range->work_dim > limits->work_dimensions)
        return CL_INVALID_WORK_DIMENSION;
    for (cl_uint i = 0; i < 3; i++) {
        range->offset[i] = offset && i < range->work_dim ? offset[i] : 0;
        range->global[i] = i >= range->work_dim ? 1 : global ? global[i] : 0;
        range->local[i] = 0;
        range->empty |= range->global[i] == 0;
    }
    if (range->empty && limits->version < OPENCL_2_1)
        return CL_INVALID_GLOBAL_WORK_SIZE;
    for (cl_uint i = 0; i < 3; i++) {
        size_t end;
        if (__builtin_add_overflow(range->offset[i], range->global[i], &end))
            return CL_INVALID_GLOBAL_OFFSET;
    }
    cl_int status = check_local(device, range, local);
    if (status)
        return status;
    if (sdi_kernel_local_nbytes(kernel, range->kernel, device) > limits->local_mem_nbytes)
        return CL_OUT_OF_RESOURCES;
    return CL_SUCCESS;
}

static bool may_write(const struct sdi_argument *argument, cl_mem buffer)
{
    return argument->is_written && !(buffer->root->flags & CL_MEM_READ_ONLY || buffer->flags & CL_MEM_READ_ONLY);
}

/* The application's memory that the kernel uses: through its arguments, and all that it may reach. */
static cl_int find_uses(cl_kernel kernel, const struct sdi_kernel_table *table, const struct sdi_reach *reach,
                        struct sdi_use **uses)
{
    *uses = NULL;
    cl_int status = sdi_regions_are_batch() ? sdi_regions_use(kernel->program->context, uses) : sdi_reach_uses(reach, uses);
    for (uint32_t i = 0; i < table->num_args && !status; i++) {
        const struct sdi_bound *bound = &kernel->bound[i];
        if (!bound->id || !bound->buffer->root->hosted || bound->buffer->root->is_batch)
            continue;
        bool writes = may_write(&table->arguments[i], bound->buffer);
        status = sdi_host_use(uses, bound->buffer, 0, bound->buffer->nbytes, writes);
    }
    if (status)
        sdi_host_unuse(*uses);
    return status;
}

/* What is launched, and how. */
struct launch {
    cl_command_queue queue;
    cl_kernel kernel;
    cl_uint type;
    uint64_t build;
    uint32_t index;
    bool is_by_address;
    struct sdi_reach *reach;
};

static cl_int send_launch(const struct launch *launch, const struct range *range, struct sdi_waits waits, cl_event *event)
{
    cl_kernel kernel = launch->kernel;
    struct sdi_use *uses;
    cl_int status = find_uses(kernel, range->kernel, launch->reach, &uses);
    if (status)
        return status;
    struct sdi_record record;
    size_t args_nbytes = kernel->table->payload_nbytes;
    size_t most_regions = launch->is_by_address ? kernel->table->num_args : 0;
    struct sdi_rec_ndrange *body = sdi_record_open(&record, SDI_OP_NDRANGE, sizeof *body, waits, false,
                                                   args_nbytes + most_regions * sizeof(uint64_t));
    if (!body) {
        sdi_host_unuse(uses);
        return CL_OUT_OF_HOST_MEMORY;
    }
    body->build = launch->build;
    body->kernel = kernel->id;
    body->kernel_index = launch->index;
    body->work_dim = range->work_dim;
    for (int i = 0; i < 3; i++) {
        body->offset[i] = range->offset[i];
        body->global_size[i] = range->global[i];
        body->local_size[i] = range->local[i];
    }
    body->num_args = kernel->table->num_args;
    body->args_nbytes = (uint32_t)args_nbytes;
    body->member = sdi_queue_member(launch->queue);
    memcpy(record.tail, kernel->payload, args_nbytes);
    if (launch->is_by_address) {
        body->reach = sdi_reach_id(launch->reach);
        body->num_regions = (uint32_t)sdi_kernel_regions(kernel, (uint64_t *)(record.tail + args_nbytes));
        sdi_record_cut(&record, args_nbytes + body->num_regions * sizeof(uint64_t));
    }
    return sdi_enqueue_using(&record, launch->queue, launch->type, uses, event);
}

static cl_int launch(cl_command_queue queue, cl_kernel kernel, cl_uint type, cl_uint work_dim, const size_t *offset,
                     const size_t *global, const size_t *local, struct sdi_waits waits, cl_event *event)
{
    struct range range = {.work_dim = work_dim};
    struct launch launch = {.queue = queue, .kernel = kernel, .type = type};
    cl_int status = check_objects(queue, kernel);
    if (!status && !(range.kernel = sdi_kernel_on(kernel, queue->device, &launch.build, &launch.index)))
        status = CL_INVALID_PROGRAM_EXECUTABLE;
    if (!status)
        status = check_range(queue->device, kernel, &range, offset, global, local);
    if (!status)
        status = sdi_check_waits(queue->context, waits);
    if (status)
        return status;
    if (range.empty)
        return sdi_mark(queue, type, waits, event); /* it only takes its place in the order of commands */
    if (range.kernel->prints) {
        sdi_lock();
        status = sdi_completion_start();
        sdi_unlock();
        if (status)
            return status;
    }
    launch.is_by_address = sdi_kernel_is_by_address(kernel, range.kernel);
    if (launch.is_by_address)
        status = sdi_kernel_reach(kernel, &launch.reach);
    const bool is_batch = sdi_regions_are_batch();
    if (is_batch)
        sdi_batch_begins();
    if (!status)
        status = send_launch(&launch, &range, waits, event);
    if (is_batch)
        sdi_batch_ends();
    if (launch.reach) {
        sdi_lock();
        sdi_reach_unref(launch.reach);
        sdi_unlock();
    }
    return status;
}

cl_int sdi_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint work_dim, const size_t *offset,
                                  const size_t *global, const size_t *local, cl_uint num, const cl_event *list,
                                  cl_event *event)
{
    return launch(queue, kernel, CL_COMMAND_NDRANGE_KERNEL, work_dim, offset, global, local,
                  (struct sdi_waits){num, list}, event);
}

cl_int sdi_clEnqueueTask(cl_command_queue queue, cl_kernel kernel, cl_uint num, const cl_event *list, cl_event *event)
{
    static const size_t one[3] = {1, 1, 1};
    return launch(queue, kernel, CL_COMMAND_TASK, 1, NULL, one, one, (struct sdi_waits){num, list}, event);
}
