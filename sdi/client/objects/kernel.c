/* Kernels and their arguments.  A kernel keeps its arguments in the form in which an NDRANGE record has them:
 * setting one is a check and a copy of a few bytes. */
#include "objects/memory.h"

/* ---- creation ---------------------------------------------------------------------------------------------------- */

/* Libraries make the same kernels anew for each call: launches are known again if the ids in their records are. */
static uint64_t take_id(struct sdi_kernel_table *table, cl_kernel kernel)
{
    if (table->num_spare == 0)
        return kernel->object.id;
    uint64_t id = table->spare[0];
    memmove(table->spare, table->spare + 1, --table->num_spare * sizeof id);
    return id;
}

static void give_id(struct sdi_kernel_table *table, uint64_t id)
{
    uint32_t at = table->num_spare;
    if (at == SDI_SPARE_KERNELS)
        return;
    for (; at > 0 && table->spare[at - 1] > id; at--)
        table->spare[at] = table->spare[at - 1];
    table->spare[at] = id;
    table->num_spare++;
}

static bool is_same_definition(const struct sdi_kernel_table *a, const struct sdi_kernel_table *b)
{
    if (a->num_args != b->num_args)
        return false;
    for (uint32_t i = 0; i < a->num_args; i++) {
        const struct sdi_argument *one = &a->arguments[i], *other = &b->arguments[i];
        if (one->kind != other->kind || one->nbytes != other->nbytes || one->address != other->address
            || one->access != other->access || strcmp(one->type_name, other->type_name) != 0)
            return false;
    }
    return true;
}

/* Client lock held.  Finds the kernel in each build of the program; the first, or NULL and why. */
static struct sdi_kernel_table *find_tables(cl_program program, const char *name, uint32_t *indices, cl_int *status)
{
    struct sdi_kernel_table *first = NULL;
    *status = CL_INVALID_KERNEL_NAME;
    for (cl_uint i = 0; i < program->num_targets; i++) {
        const struct sdi_build *build = program->targets[i].build;
        indices[i] = SDI_NO_KERNEL;
        for (uint32_t at = 0; at < build->num_tables; at++) {
            if (strcmp(build->tables[at].name, name) != 0)
                continue;
            indices[i] = at;
            first = first ? first : &build->tables[at];
            if (is_same_definition(first, &build->tables[at]))
                break;
            *status = CL_INVALID_KERNEL_DEFINITION;
            return NULL;
        }
    }
    return first;
}

/* Client lock held.  NULL, and why. */
static cl_kernel make(cl_program program, const char *name, cl_int *status)
{
    uint32_t *indices = malloc(program->num_targets * sizeof *indices);
    struct sdi_kernel_table *table = NULL;
    *status = CL_OUT_OF_HOST_MEMORY;
    if (indices)
        table = find_tables(program, name, indices, status);
    if (!table) {
        free(indices);
        return NULL;
    }
    unsigned char *payload = calloc(1, table->payload_nbytes + 8);
    struct sdi_bound *bound = calloc(table->num_args + 1, sizeof *bound);
    cl_kernel kernel = payload && bound ? sdi_new(SDI_KERNEL) : NULL;
    if (!kernel) {
        *status = CL_OUT_OF_HOST_MEMORY;
        free(indices);
        free(payload);
        free(bound);
        return NULL;
    }
    for (uint32_t i = 0; i < table->num_args; i++) {
        const struct sdi_argument *argument = &table->arguments[i];
        struct sdi_wire_arg_entry entry = {
            .kind = argument->kind,
            .nbytes = (uint32_t)sdi_argument_nbytes(argument),
        };
        memcpy(payload + argument->at, &entry, sizeof entry);
    }
    kernel->program = program;
    sdi_hold(program);
    program->num_kernels++;
    kernel->table = table;
    kernel->id = take_id(table, kernel);
    kernel->indices = indices;
    kernel->payload = payload;
    kernel->bound = bound;
    *status = CL_SUCCESS;
    return kernel;
}

cl_kernel sdi_clCreateKernel(cl_program program, const char *name, cl_int *errcode_ret)
{
    if (!sdi_is_program(program))
        return sdi_fail(errcode_ret, CL_INVALID_PROGRAM);
    cl_kernel kernel = NULL;
    cl_int status = CL_SUCCESS;
    sdi_lock();
    sdi_hold(program);
    sdi_await_build(program);
    if (!sdi_executable(program))
        status = CL_INVALID_PROGRAM_EXECUTABLE;
    else if (!name)
        status = CL_INVALID_VALUE;
    else
        kernel = make(program, name, &status);
    sdi_unhold(program);
    sdi_unlock();
    if (status)
        return sdi_fail(errcode_ret, status);
    sdi_succeed(errcode_ret);
    return kernel;
}

/* All that the program's first executable has. */
cl_int sdi_clCreateKernelsInProgram(cl_program program, cl_uint num, cl_kernel *kernels, cl_uint *num_ret)
{
    if (!sdi_is_program(program))
        return CL_INVALID_PROGRAM;
    cl_int status = CL_SUCCESS;
    sdi_lock();
    sdi_hold(program);
    sdi_await_build(program);
    const struct sdi_build *build = sdi_executable(program);
    if (!build)
        status = CL_INVALID_PROGRAM_EXECUTABLE;
    else if (kernels && num < build->num_tables)
        status = CL_INVALID_VALUE;
    for (uint32_t i = 0; kernels && !status && i < build->num_tables; i++) {
        kernels[i] = make(program, build->tables[i].name, &status);
        if (kernels[i])
            continue;
        while (i--)
            sdi_discard(kernels[i]);
        break;
    }
    if (!status && num_ret)
        *num_ret = build->num_tables;
    sdi_unhold(program);
    sdi_unlock();
    return status;
}

cl_kernel sdi_clCloneKernel(cl_kernel source, cl_int *errcode_ret)
{
    if (!sdi_is_kernel(source))
        return sdi_fail(errcode_ret, CL_INVALID_KERNEL);
    cl_int status;
    sdi_lock();
    cl_kernel kernel = make(source->program, source->table->name, &status);
    if (kernel) {
        memcpy(kernel->payload, source->payload, source->table->payload_nbytes);
        memcpy(kernel->bound, source->bound, source->table->num_args * sizeof *source->bound);
        kernel->reach = source->reach;
        kernel->said_reach = source->said_reach;
        sdi_reach_ref(kernel->reach);
    }
    sdi_unlock();
    if (!kernel)
        return sdi_fail(errcode_ret, status);
    sdi_succeed(errcode_ret);
    return kernel;
}

SDI_COUNTED(Kernel, cl_kernel, SDI_KERNEL, CL_INVALID_KERNEL)

static void drop(void *object)
{
    cl_kernel kernel = object;
    free(kernel->payload);
    free(kernel->bound);
    sdi_reach_unref(kernel->reach);
    free(kernel->indices);
    give_id(kernel->table, kernel->id);
    kernel->program->num_kernels--;
    sdi_unhold(kernel->program);
}

SDI_AT_DROP(SDI_KERNEL, drop)

/* ---- arguments ----------------------------------------------------------------------------------------------------- */

static cl_int set_buffer(cl_kernel kernel, struct sdi_bound *bound, unsigned char *bytes, size_t size,
                         const void *value)
{
    cl_mem buffer = NULL;
    if (size != sizeof buffer)
        return CL_INVALID_ARG_SIZE;
    if (value)
        memcpy(&buffer, value, sizeof buffer);
    /* A call that fails leaves the argument as it was. */
    if (buffer && (!sdi_is_buffer(buffer) || buffer->context != kernel->program->context))
        return CL_INVALID_MEM_OBJECT;
    struct sdi_wire_pointer_argument place = {0};
    bound->buffer = buffer;
    bound->id = 0;
    bound->by_address = false;
    if (buffer) {
        bound->by_address = sdi_is_fine(buffer);
        bound->id = buffer->object.id;
        place.buffer = buffer->root->object.id;
        place.offset = buffer->origin;
        place.nbytes = buffer->root == buffer ? buffer->room : buffer->nbytes; /* launches on others of that room are the same */
    }
    memcpy(bytes, &place, sizeof place);
    bound->set = true;
    return CL_SUCCESS;
}

static cl_int set_image(cl_kernel kernel, struct sdi_bound *bound, const struct sdi_argument *argument,
                        unsigned char *bytes, size_t size, const void *value)
{
    cl_mem object;
    if (!value)
        return CL_INVALID_ARG_VALUE;
    if (size != sizeof object)
        return CL_INVALID_ARG_SIZE;
    memcpy(&object, value, sizeof object);
    if (!sdi_is_image(object) || object->context != kernel->program->context)
        return CL_INVALID_MEM_OBJECT;
    if (!sdi_image_fits(object, argument))
        return CL_INVALID_ARG_VALUE;
    const struct sdi_image *image = object->image;
    struct sdi_wire_image_argument place = {
        .buffer = object->root->object.id,
        .offset = object->origin,
        .type = image->type,
        .order = image->order,
        .data_type = image->data_type,
        .width = image->region[0],
        .rows = image->region[1],
        .planes = image->region[2],
        .row_pitch = image->row,
        .plane_pitch = image->plane,
    };
    memcpy(bytes, &place, sizeof place);
    bound->by_address = sdi_is_fine(object);
    bound->buffer = object;
    bound->id = object->object.id;
    bound->set = true;
    return CL_SUCCESS;
}

static cl_int set_sampler(cl_kernel kernel, struct sdi_bound *bound, unsigned char *bytes, size_t size,
                          const void *value)
{
    cl_sampler sampler;
    if (!value)
        return CL_INVALID_ARG_VALUE;
    if (size != sizeof sampler)
        return CL_INVALID_ARG_SIZE;
    memcpy(&sampler, value, sizeof sampler);
    if (!sdi_is_sampler(sampler) || sampler->context != kernel->program->context)
        return CL_INVALID_SAMPLER;
    struct sdi_wire_sampler_argument modes = {
        .normalized = sampler->normalized,
        .addressing = sampler->addressing,
        .filter = sampler->filter,
    };
    memcpy(bytes, &modes, sizeof modes);
    bound->set = true;
    return CL_SUCCESS;
}

cl_int sdi_clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    if (!sdi_is_kernel(kernel))
        return CL_INVALID_KERNEL;
    if (index >= kernel->table->num_args)
        return CL_INVALID_ARG_INDEX;
    const struct sdi_argument *argument = &kernel->table->arguments[index];
    struct sdi_bound *bound = &kernel->bound[index];
    unsigned char *bytes = kernel->payload + argument->at + sizeof(struct sdi_wire_arg_entry);
    struct sdi_wire_local_argument local = {.nbytes = size};
    switch (argument->kind) {
    case SDI_ARG_VALUE:
        if (!value)
            return CL_INVALID_ARG_VALUE;
        if (size != argument->nbytes)
            return CL_INVALID_ARG_SIZE;
        memcpy(bytes, value, size);
        bound->set = true;
        return CL_SUCCESS;
    case SDI_ARG_GLOBAL:
    case SDI_ARG_CONSTANT:
        return set_buffer(kernel, bound, bytes, size, value);
    case SDI_ARG_LOCAL:
        if (value)
            return CL_INVALID_ARG_VALUE;
        if (size == 0)
            return CL_INVALID_ARG_SIZE;
        memcpy(bytes, &local, sizeof local);
        bound->set = true;
        return CL_SUCCESS;
    case SDI_ARG_SAMPLER:
        return set_sampler(kernel, bound, bytes, size, value);
    case SDI_ARG_IMAGE:
        return set_image(kernel, bound, argument, bytes, size, value);
    default:
        return CL_INVALID_ARG_VALUE;
    }
}

/* ---- information ------------------------------------------------------------------------------------------------------ */

cl_int sdi_clGetKernelInfo(cl_kernel kernel, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    if (!sdi_is_kernel(kernel))
        return CL_INVALID_KERNEL;
    switch (param) {
    case CL_KERNEL_FUNCTION_NAME:
        return sdi_answer_text(kernel->table->name, size, value, size_ret);
    case CL_KERNEL_NUM_ARGS:
        SDI_ANSWER(cl_uint, kernel->table->num_args);
    case CL_KERNEL_REFERENCE_COUNT:
        SDI_ANSWER(cl_uint, kernel->object.refs);
    case CL_KERNEL_CONTEXT:
        SDI_ANSWER(cl_context, kernel->program->context);
    case CL_KERNEL_PROGRAM:
        SDI_ANSWER(cl_program, kernel->program);
    case CL_KERNEL_ATTRIBUTES:
        return sdi_answer_text(kernel->table->attributes, size, value, size_ret);
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int sdi_clGetKernelArgInfo(cl_kernel kernel, cl_uint index, cl_uint param, size_t size, void *value,
                              size_t *size_ret)
{
    if (!sdi_is_kernel(kernel))
        return CL_INVALID_KERNEL;
    if (index >= kernel->table->num_args)
        return CL_INVALID_ARG_INDEX;
    /* A program is not built again while it has kernels. */
    if (!sdi_executable(kernel->program)->tells_arguments)
        return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
    const struct sdi_argument *argument = &kernel->table->arguments[index];
    switch (param) {
    case CL_KERNEL_ARG_ADDRESS_QUALIFIER:
        SDI_ANSWER(cl_uint, argument->address);
    case CL_KERNEL_ARG_ACCESS_QUALIFIER:
        SDI_ANSWER(cl_uint, argument->access);
    case CL_KERNEL_ARG_TYPE_QUALIFIER:
        SDI_ANSWER(cl_ulong, argument->type);
    case CL_KERNEL_ARG_TYPE_NAME:
        return sdi_answer_text(argument->type_name, size, value, size_ret);
    case CL_KERNEL_ARG_NAME:
        return sdi_answer_text(argument->name, size, value, size_ret);
    default:
        return CL_INVALID_VALUE;
    }
}

const struct sdi_kernel_table *sdi_kernel_on(cl_kernel kernel, cl_device_id device, uint64_t *build,
                                             uint32_t *index)
{
    /* A program is not built again while it has kernels. */
    const struct sdi_target *target = sdi_target_of(kernel->program, device);
    uint32_t found = target ? kernel->indices[target - kernel->program->targets] : SDI_NO_KERNEL;
    if (found == SDI_NO_KERNEL)
        return NULL;
    if (build)
        *build = target->build->id;
    if (index)
        *index = found;
    return &target->build->tables[found];
}

uint64_t sdi_kernel_local_nbytes(cl_kernel kernel, const struct sdi_kernel_table *table, cl_device_id device)
{
    uint64_t total = table->limits[device->number].local_mem_nbytes;
    for (uint32_t i = 0; i < kernel->table->num_args; i++)
        if (kernel->table->arguments[i].kind == SDI_ARG_LOCAL) {
            uint64_t nbytes;
            memcpy(&nbytes, kernel->payload + kernel->table->arguments[i].at + sizeof(struct sdi_wire_arg_entry),
                   sizeof nbytes);
            if (__builtin_add_overflow(total, nbytes, &total))
                return UINT64_MAX;
        }
    return total;
}

cl_int sdi_clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_uint param, size_t size, void *value,
                                    size_t *size_ret)
{
    if (!sdi_is_kernel(kernel))
        return CL_INVALID_KERNEL;
    if (!device && kernel->program->num_targets == 1)
        device = kernel->program->targets[0].device;
    const struct sdi_kernel_table *table = NULL;
    if (sdi_is_device_id(device))
        table = sdi_kernel_on(kernel, device, NULL, NULL);
    if (!table)
        return CL_INVALID_DEVICE;
    const struct sdi_wire_work_group_entry *limits = &table->limits[device->number];
    switch (param) {
    case CL_KERNEL_WORK_GROUP_SIZE:
        SDI_ANSWER(size_t, limits->work_group_size);
    case CL_KERNEL_COMPILE_WORK_GROUP_SIZE:
        return sdi_answer(table->required_size, sizeof table->required_size, size, value, size_ret);
    case CL_KERNEL_LOCAL_MEM_SIZE:
        SDI_ANSWER(cl_ulong, sdi_kernel_local_nbytes(kernel, table, device));
    case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE:
        SDI_ANSWER(size_t, limits->preferred_multiple);
    case CL_KERNEL_PRIVATE_MEM_SIZE:
        SDI_ANSWER(cl_ulong, limits->private_mem_nbytes);
    default:
        return CL_INVALID_VALUE; /* GLOBAL_WORK_SIZE too: this is neither a custom device nor a built-in kernel */
    }
}
