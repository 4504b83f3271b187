/* Programs: how they are made, and what is known of them. */
#include "objects/event.h"
#include "objects/program.h"

#include <stdio.h>

/* ---- creation --------------------------------------------------------------------------------------------------- */

/* The strings in one, NUL-terminated; NULL: no memory. */
static char *join(cl_uint count, const char **strings, const size_t *lengths, size_t *nbytes)
{
    size_t total = 0;
    for (cl_uint i = 0; i < count; i++)
        total += lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
    char *text = malloc(total + 1), *at = text;
    if (!text)
        return NULL;
    for (cl_uint i = 0; i < count; i++) {
        size_t n = lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
        memcpy(at, strings[i], n);
        at += n;
    }
    *at = 0;
    *nbytes = total;
    return text;
}

struct sdi_build *sdi_new_build(void)
{
    struct sdi_build *build = calloc(1, sizeof *build);
    if (build) {
        build->refs = 1;
        build->status = CL_BUILD_NONE;
    }
    return build;
}

/* Client lock held.  The application has a binary of it. */
void sdi_keep_build(struct sdi_build *build)
{
    if (build->id && !build->is_kept)
        sdi_send_bare(SDI_OP_KEEP_BUILD, build->id);
    build->is_kept = true;
}

void sdi_build_unref(struct sdi_build *build)
{
    if (--build->refs)
        return;
    if (build->id)
        sdi_send_bare(SDI_OP_RELEASE_BUILD, build->id);
    sdi_free_tables(build->tables, build->num_tables);
    free(build->object_code);
    free(build->options);
    free(build->log);
    free(build);
}

struct sdi_target *sdi_target_of(cl_program program, cl_device_id device)
{
    for (cl_uint i = 0; i < program->num_targets; i++)
        if (program->targets[i].device == device)
            return &program->targets[i];
    return NULL;
}

struct sdi_build *sdi_executable(cl_program program)
{
    for (cl_uint i = 0; i < program->num_targets; i++)
        if (program->targets[i].build->id)
            return program->targets[i].build;
    return NULL;
}

cl_program sdi_new_program(cl_context context, char *source, size_t nbytes, cl_uint num_devices,
                           const cl_device_id *devices)
{
    cl_program program = NULL;
    if (num_devices == 0) {
        num_devices = context->num_devices;
        devices = context->devices;
    }
    struct sdi_target *targets = calloc(num_devices, sizeof *targets);
    struct sdi_build *nothing = sdi_new_build();
    sdi_lock();
    if (source && targets && nothing)
        program = sdi_new(SDI_PROGRAM);
    if (program) {
        program->context = context;
        sdi_hold(context);
        program->source = source;
        program->source_nbytes = nbytes;
        program->targets = targets;
        for (cl_uint i = 0; i < num_devices; i++)
            if (!sdi_target_of(program, devices[i]))
                targets[program->num_targets++] = (struct sdi_target){devices[i], nothing};
        nothing->refs = program->num_targets;
    }
    sdi_unlock();
    if (!program) {
        free(nothing);
        free(targets);
        free(source);
    }
    return program;
}

cl_program sdi_clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                                         const size_t *lengths, cl_int *errcode_ret)
{
    if (!sdi_is_context(context))
        return sdi_fail(errcode_ret, CL_INVALID_CONTEXT);
    if (count == 0 || !strings)
        return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    for (cl_uint i = 0; i < count; i++)
        if (!strings[i])
            return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    size_t nbytes = 0;
    char *source = join(count, strings, lengths, &nbytes);
    cl_program program = sdi_new_program(context, source, nbytes, 0, NULL);
    if (!program)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    program->origin = SDI_FROM_SOURCE;
    sdi_succeed(errcode_ret);
    return program;
}

/* Client lock held.  Gives a device its binary; one that is the same as another's is kept once. */
static cl_int take_binary(cl_program program, cl_uint number, const cl_device_id *devices, const size_t *lengths,
                          const unsigned char **binaries)
{
    struct sdi_target *target = sdi_target_of(program, devices[number]);
    struct sdi_build *build = NULL;
    cl_int status = CL_SUCCESS;
    for (cl_uint i = 0; !build && i < number; i++)
        if (lengths[i] == lengths[number] && memcmp(binaries[i], binaries[number], lengths[i]) == 0)
            build = sdi_target_of(program, devices[i])->build;
    if (build) {
        build->refs++;
    } else {
        build = sdi_new_build();
        status = build ? sdi_read_binary(binaries[number], lengths[number], build) : CL_OUT_OF_HOST_MEMORY;
        if (!build)
            return status;
    }
    sdi_build_unref(target->build);
    target->build = build;
    return status;
}

cl_program sdi_clCreateProgramWithBinary(cl_context context, cl_uint num_devices, const cl_device_id *devices,
                                         const size_t *lengths, const unsigned char **binaries,
                                         cl_int *binary_status, cl_int *errcode_ret)
{
    if (!sdi_is_context(context))
        return sdi_fail(errcode_ret, CL_INVALID_CONTEXT);
    if (num_devices == 0 || !devices || !lengths || !binaries)
        return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    for (cl_uint i = 0; i < num_devices; i++) {
        if (!sdi_is_device_id(devices[i]) || !sdi_context_has(context, devices[i]))
            return sdi_fail(errcode_ret, CL_INVALID_DEVICE);
        bool empty = lengths[i] == 0 || !binaries[i];
        if (binary_status)
            binary_status[i] = empty ? CL_INVALID_VALUE : CL_SUCCESS;
        if (empty)
            return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    }
    cl_program program = sdi_new_program(context, strdup(""), 0, num_devices, devices);
    if (!program)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    program->origin = SDI_FROM_BINARY;
    cl_int status = CL_SUCCESS;
    sdi_lock();
    for (cl_uint i = 0; i < num_devices; i++) {
        cl_int one = take_binary(program, i, devices, lengths, binaries);
        if (binary_status)
            binary_status[i] = one == CL_INVALID_BINARY ? one : CL_SUCCESS;
        status = status ? status : one;
    }
    if (status)
        sdi_discard(program);
    sdi_unlock();
    if (status)
        return sdi_fail(errcode_ret, status);
    sdi_succeed(errcode_ret);
    return program;
}

SDI_COUNTED(Program, cl_program, SDI_PROGRAM, CL_INVALID_PROGRAM)

static void drop(void *object)
{
    cl_program program = object;
    for (cl_uint i = 0; i < program->num_targets; i++)
        sdi_build_unref(program->targets[i].build);
    free(program->targets);
    free(program->source);
    sdi_unhold(program->context);
}

SDI_AT_DROP(SDI_PROGRAM, drop)

/* ---- information -------------------------------------------------------------------------------------------------- */

/* Client lock held. */
static cl_int answer_names(const struct sdi_build *build, size_t size, void *value, size_t *size_ret)
{
    size_t nbytes = 1;
    for (uint32_t i = 0; i < build->num_tables; i++)
        nbytes += strlen(build->tables[i].name) + (i > 0);
    char *names = malloc(nbytes), *at = names;
    if (!names)
        return CL_OUT_OF_HOST_MEMORY;
    *at = 0;
    for (uint32_t i = 0; i < build->num_tables; i++)
        at += sprintf(at, i ? ";%s" : "%s", build->tables[i].name);
    cl_int status = sdi_answer(names, nbytes, size, value, size_ret);
    free(names);
    return status;
}

/* Client lock held: a build in another thread replaces the tables. */
static cl_int answer_kernels(cl_program program, bool names, size_t size, void *value, size_t *size_ret)
{
    const struct sdi_build *build = sdi_executable(program);
    if (!build)
        return CL_INVALID_PROGRAM_EXECUTABLE;
    if (names)
        return answer_names(build, size, value, size_ret);
    SDI_ANSWER(size_t, build->num_tables);
}

static cl_int answer_devices(cl_program program, size_t size, void *value, size_t *size_ret)
{
    size_t nbytes = program->num_targets * sizeof(cl_device_id);
    if (value && size < nbytes)
        return CL_INVALID_VALUE;
    for (cl_uint i = 0; value && i < program->num_targets; i++)
        memcpy((cl_device_id *)value + i, &program->targets[i].device, sizeof(cl_device_id));
    if (size_ret)
        *size_ret = nbytes;
    return CL_SUCCESS;
}

/* Client lock held: a build in another thread replaces the options.  The binaries' sizes, or the binaries, through the
 * pointers that the application passes (NULL: not wanted). */
static cl_int answer_binaries(cl_program program, bool only_sizes, size_t size, void *value, size_t *size_ret)
{
    _Static_assert(sizeof(void *) == sizeof(size_t), "pointers and sizes");
    size_t all = program->num_targets * sizeof(void *);
    if (value && size < all)
        return CL_INVALID_VALUE;
    if (size_ret)
        *size_ret = all;
    for (cl_uint i = 0; value && i < program->num_targets; i++) {
        struct sdi_build *build = program->targets[i].build;
        size_t nbytes = sdi_binary_nbytes(build);
        unsigned char *to;
        if (only_sizes) {
            memcpy((size_t *)value + i, &nbytes, sizeof nbytes);
            continue;
        }
        memcpy(&to, (unsigned char **)value + i, sizeof to);
        if (to && nbytes) {
            sdi_write_binary(build, to);
            sdi_keep_build(build);
        }
    }
    return CL_SUCCESS;
}

cl_int sdi_clGetProgramInfo(cl_program program, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    cl_int status;
    if (!sdi_is_program(program))
        return CL_INVALID_PROGRAM;
    switch (param) {
    case CL_PROGRAM_REFERENCE_COUNT:
        SDI_ANSWER(cl_uint, program->object.refs);
    case CL_PROGRAM_CONTEXT:
        SDI_ANSWER(cl_context, program->context);
    case CL_PROGRAM_NUM_DEVICES:
        SDI_ANSWER(cl_uint, program->num_targets);
    case CL_PROGRAM_DEVICES:
        return answer_devices(program, size, value, size_ret);
    case CL_PROGRAM_SOURCE:
        return sdi_answer(program->source, program->source_nbytes + 1, size, value, size_ret);
    case CL_PROGRAM_BINARY_SIZES:
    case CL_PROGRAM_BINARIES:
        sdi_lock();
        status = answer_binaries(program, param == CL_PROGRAM_BINARY_SIZES, size, value, size_ret);
        sdi_unlock();
        return status;
    case CL_PROGRAM_IL:
        return sdi_answer(NULL, 0, size, value, size_ret);
    case CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT:
    case CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT:
        SDI_ANSWER(cl_uint, 0);
    case CL_PROGRAM_NUM_KERNELS:
    case CL_PROGRAM_KERNEL_NAMES:
        sdi_lock();
        status = answer_kernels(program, param == CL_PROGRAM_KERNEL_NAMES, size, value, size_ret);
        sdi_unlock();
        return status;
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int sdi_clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_uint param, size_t size, void *value,
                                 size_t *size_ret)
{
    if (!sdi_is_program(program))
        return CL_INVALID_PROGRAM;
    const struct sdi_target *target = sdi_is_device_id(device) ? sdi_target_of(program, device) : NULL;
    if (!target)
        return CL_INVALID_DEVICE;
    sdi_lock(); /* a build in another thread replaces it */
    const struct sdi_build *build = target->build;
    cl_int status = CL_INVALID_VALUE;
    size_t no_variables = 0;
    if (param == CL_PROGRAM_BUILD_STATUS)
        status = sdi_answer(&build->status, sizeof(cl_int), size, value, size_ret);
    else if (param == CL_PROGRAM_BUILD_OPTIONS)
        status = sdi_answer_text(build->options, size, value, size_ret);
    else if (param == CL_PROGRAM_BUILD_LOG)
        status = sdi_answer_text(build->log, size, value, size_ret);
    else if (param == CL_PROGRAM_BINARY_TYPE)
        status = sdi_answer(&build->binary_type, sizeof build->binary_type, size, value, size_ret);
    else if (param == CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE)
        status = sdi_answer(&no_variables, sizeof no_variables, size, value, size_ret);
    sdi_unlock();
    return status;
}
