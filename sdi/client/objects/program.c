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

cl_program sdi_new_program(cl_context context, char *source, size_t nbytes)
{
    cl_program program = NULL;
    sdi_lock();
    if (source)
        program = sdi_new(SDI_PROGRAM);
    if (program) {
        program->context = context;
        sdi_hold(context);
        program->source = source;
        program->source_nbytes = nbytes;
        program->build_status = CL_BUILD_NONE;
    }
    sdi_unlock();
    if (!program)
        free(source);
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
    cl_program program = sdi_new_program(context, source, nbytes);
    if (!program)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    program->origin = SDI_FROM_SOURCE;
    sdi_succeed(errcode_ret);
    return program;
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
        if (!sdi_is_device_id(devices[i]))
            return sdi_fail(errcode_ret, CL_INVALID_DEVICE);
        bool empty = lengths[i] == 0 || !binaries[i];
        if (binary_status)
            binary_status[i] = empty ? CL_INVALID_VALUE : CL_SUCCESS;
        if (empty)
            return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    }
    if (num_devices > 1) /* the platform has one */
        return sdi_fail(errcode_ret, CL_INVALID_DEVICE);
    struct sdi_binary binary;
    cl_int status = sdi_read_binary(binaries[0], lengths[0], &binary);
    if (binary_status)
        binary_status[0] = status == CL_INVALID_BINARY ? status : CL_SUCCESS;
    if (status)
        return sdi_fail(errcode_ret, status);
    cl_program program = sdi_new_program(context, strdup(""), 0);
    if (!program) {
        free(binary.options);
        free(binary.object);
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    }
    program->origin = SDI_FROM_BINARY;
    program->options = binary.options;
    program->object_code = binary.object;
    program->object_nbytes = binary.object_nbytes;
    program->binary_type = binary.type;
    sdi_succeed(errcode_ret);
    return program;
}

SDI_COUNTED(Program, cl_program, SDI_PROGRAM, CL_INVALID_PROGRAM)

static void drop(void *object)
{
    cl_program program = object;
    if (program->build)
        sdi_send_bare(SDI_OP_RELEASE_BUILD, program->build);
    free(program->source);
    free(program->options);
    free(program->log);
    free(program->object_code);
    sdi_free_tables(program->tables, program->num_tables);
    sdi_unhold(program->context);
}

SDI_AT_DROP(SDI_PROGRAM, drop)

/* ---- information -------------------------------------------------------------------------------------------------- */

/* Client lock held. */
static cl_int answer_names(cl_program program, size_t size, void *value, size_t *size_ret)
{
    size_t nbytes = 1;
    if (!program->build)
        return CL_INVALID_PROGRAM_EXECUTABLE;
    for (uint32_t i = 0; i < program->num_tables; i++)
        nbytes += strlen(program->tables[i].name) + (i > 0);
    char *names = malloc(nbytes), *at = names;
    if (!names)
        return CL_OUT_OF_HOST_MEMORY;
    *at = 0;
    for (uint32_t i = 0; i < program->num_tables; i++)
        at += sprintf(at, i ? ";%s" : "%s", program->tables[i].name);
    cl_int status = sdi_answer(names, nbytes, size, value, size_ret);
    free(names);
    return status;
}

/* The binary's size, or the binary through the one pointer that the application passes (NULL: not wanted). */
static cl_int answer_binary(cl_program program, bool only_size, size_t size, void *value, size_t *size_ret)
{
    sdi_lock(); /* a build in another thread replaces the options */
    size_t nbytes = sdi_binary_nbytes(program);
    cl_int status;
    if (only_size) {
        status = sdi_answer(&nbytes, sizeof nbytes, size, value, size_ret);
    } else {
        status = value && size < sizeof(void *) ? CL_INVALID_VALUE : CL_SUCCESS;
        if (!status && size_ret)
            *size_ret = sizeof(void *);
        if (!status && value && *(unsigned char **)value && nbytes)
            sdi_write_binary(program, *(unsigned char **)value);
    }
    sdi_unlock();
    return status;
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
        SDI_ANSWER(cl_uint, 1);
    case CL_PROGRAM_DEVICES:
        SDI_ANSWER(cl_device_id, program->context->device);
    case CL_PROGRAM_SOURCE:
        return sdi_answer(program->source, program->source_nbytes + 1, size, value, size_ret);
    case CL_PROGRAM_BINARY_SIZES:
        return answer_binary(program, true, size, value, size_ret);
    case CL_PROGRAM_BINARIES:
        return answer_binary(program, false, size, value, size_ret);
    case CL_PROGRAM_IL:
        return sdi_answer(NULL, 0, size, value, size_ret);
    case CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT:
    case CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT:
        SDI_ANSWER(cl_uint, 0);
    case CL_PROGRAM_NUM_KERNELS:
        if (!program->build)
            return CL_INVALID_PROGRAM_EXECUTABLE;
        SDI_ANSWER(size_t, program->num_tables);
    case CL_PROGRAM_KERNEL_NAMES:
        sdi_lock(); /* a build in another thread replaces the tables */
        status = answer_names(program, size, value, size_ret);
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
    if (!sdi_is_device_id(device))
        return CL_INVALID_DEVICE;
    sdi_lock(); /* a build in another thread replaces the texts */
    cl_int status = CL_INVALID_VALUE;
    size_t no_variables = 0;
    if (param == CL_PROGRAM_BUILD_STATUS)
        status = sdi_answer(&program->build_status, sizeof(cl_int), size, value, size_ret);
    else if (param == CL_PROGRAM_BUILD_OPTIONS)
        status = sdi_answer_text(program->options, size, value, size_ret);
    else if (param == CL_PROGRAM_BUILD_LOG)
        status = sdi_answer_text(program->log, size, value, size_ret);
    else if (param == CL_PROGRAM_BINARY_TYPE)
        status = sdi_answer(&program->binary_type, sizeof program->binary_type, size, value, size_ret);
    else if (param == CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE)
        status = sdi_answer(&no_variables, sizeof no_variables, size, value, size_ret);
    sdi_unlock();
    return status;
}
