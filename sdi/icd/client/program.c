/* Programs: source, build, and what a build told about the kernels. */
#include "client.h"

#include <stdio.h>
#include <unistd.h>

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

/* Takes source and options over.  With options: the program comes from a binary.  NULL source: no memory. */
static cl_program new_program(cl_context context, char *source, size_t nbytes, char *options, cl_int *errcode_ret)
{
    cl_program program = NULL;
    if (source) {
        sdi_lock();
        program = sdi_new(SDI_PROGRAM);
        if (program) {
            program->context = context;
            sdi_hold(context);
            program->source = source;
            program->source_nbytes = nbytes;
            program->options = options;
            program->from_binary = options != NULL;
            program->build_status = CL_BUILD_NONE;
        }
        sdi_unlock();
    }
    if (!program) {
        free(source);
        free(options);
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    }
    sdi_succeed(errcode_ret);
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
    return new_program(context, source, nbytes, NULL, errcode_ret);
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
    char *options, *source;
    size_t nbytes;
    cl_int status = sdi_read_binary(binaries[0], lengths[0], &options, &source, &nbytes);
    if (binary_status)
        binary_status[0] = status == CL_INVALID_BINARY ? status : CL_SUCCESS;
    if (status)
        return sdi_fail(errcode_ret, status);
    return new_program(context, source, nbytes, options, errcode_ret);
}

cl_int sdi_clRetainProgram(cl_program program)
{
    return sdi_retain(program, SDI_PROGRAM, CL_INVALID_PROGRAM);
}

cl_int sdi_clReleaseProgram(cl_program program)
{
    return sdi_release(program, SDI_PROGRAM, CL_INVALID_PROGRAM);
}

void sdi_drop_program(cl_program program)
{
    if (program->build)
        sdi_send_bare(SDI_OP_RELEASE_BUILD, program->build);
    free(program->source);
    free(program->options);
    free(program->log);
    sdi_free_tables(program->tables, program->num_tables);
    sdi_unhold(program->context);
}

/* ---- building --------------------------------------------------------------------------------------------------- */

struct build {
    cl_program program; /* held */
    char *options;
    void (*notify)(cl_program, void *);
    void *data;
};

static struct sdi_reply ask_for_build(const struct build *build, uint64_t id)
{
    struct sdi_reply failed = {.status = CL_OUT_OF_HOST_MEMORY};
    char directory[4096];
    if (!getcwd(directory, sizeof directory))
        directory[0] = 0;
    size_t options = strlen(build->options), there = strlen(directory), source = build->program->source_nbytes;
    size_t nbytes = sdi_padded(sizeof(struct sdi_rec_build) + options + there + source);
    unsigned char *bytes = nbytes <= SDI_MAX_RECORD_NBYTES ? calloc(1, nbytes) : NULL;
    if (!bytes)
        return failed;
    struct sdi_rec_build *record = (struct sdi_rec_build *)bytes;
    record->nbytes = (uint32_t)nbytes;
    record->op = SDI_OP_BUILD;
    record->id = id;
    record->options_nbytes = (uint32_t)options;
    record->directory_nbytes = (uint32_t)there;
    record->source_nbytes = source;
    unsigned char *at = bytes + sizeof *record;
    memcpy(at, build->options, options);
    memcpy(at + options, directory, there);
    memcpy(at + options + there, build->program->source, source);
    struct sdi_reply reply = sdi_ask(bytes, nbytes);
    free(bytes);
    return reply;
}

/* The round trip; the program's new state. */
static cl_int run_build(struct build *build)
{
    cl_program program = build->program;
    sdi_lock();
    uint64_t id = sdi_next_id();
    sdi_unlock();
    struct sdi_reply reply = ask_for_build(build, id);
    char *log = NULL;
    struct sdi_kernel_table *tables = NULL;
    uint32_t num = 0;
    cl_int status = reply.status;
    if (reply.payload_nbytes && !sdi_read_tables(reply.payload, reply.payload_nbytes, &log, &tables, &num) && !status)
        status = CL_OUT_OF_HOST_MEMORY;
    free(reply.payload);

    sdi_lock();
    free(program->options);
    free(program->log);
    program->options = build->options;
    program->log = log;
    if (!status) {
        program->tables = tables;
        program->num_tables = num;
        program->build = id;
        program->build_status = CL_BUILD_SUCCESS;
    } else {
        if (!reply.status)
            sdi_send_bare(SDI_OP_RELEASE_BUILD, id); /* made, but its answer can't be used */
        sdi_free_tables(tables, num);
        program->build_status = CL_BUILD_ERROR;
    }
    sdi_unlock();
    return status;
}

static void *build_and_notify(void *argument)
{
    struct build *build = argument;
    run_build(build);
    build->notify(build->program, build->data);
    sdi_lock();
    sdi_unhold(build->program);
    sdi_unlock();
    free(build);
    return NULL;
}

/* Takes the program into the state "in progress"; what an earlier build made is gone. */
static cl_int begin_build(cl_program program)
{
    cl_int status = CL_SUCCESS;
    sdi_lock();
    if (program->num_kernels || program->build_status == CL_BUILD_IN_PROGRESS) {
        status = CL_INVALID_OPERATION;
    } else {
        if (program->build)
            sdi_send_bare(SDI_OP_RELEASE_BUILD, program->build);
        program->build = 0;
        sdi_free_tables(program->tables, program->num_tables);
        program->tables = NULL;
        program->num_tables = 0;
        program->build_status = CL_BUILD_IN_PROGRESS;
        sdi_hold(program);
    }
    sdi_unlock();
    return status;
}

cl_int sdi_clBuildProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices, const char *options,
                          void (*notify)(cl_program, void *), void *data)
{
    if (!sdi_is_program(program))
        return CL_INVALID_PROGRAM;
    if ((num_devices == 0) != (devices == NULL) || (!notify && data))
        return CL_INVALID_VALUE;
    for (cl_uint i = 0; i < num_devices; i++)
        if (!sdi_is_device_id(devices[i]))
            return CL_INVALID_DEVICE;
    struct build build = {.program = program, .notify = notify, .data = data};
    struct build *own = notify ? malloc(sizeof *own) : NULL;
    sdi_lock(); /* a binary is built with the options that it was made with */
    build.options = strdup(program->from_binary ? program->options : options ? options : "");
    sdi_unlock();
    cl_int status = !build.options || (notify && !own) ? CL_OUT_OF_HOST_MEMORY : begin_build(program);
    if (status) {
        free(build.options);
        free(own);
        return status;
    }
    if (notify) {
        *own = build;
        if (sdi_start_thread(build_and_notify, own) == 0)
            return CL_SUCCESS;
        free(own);
    }
    status = run_build(&build); /* also when no thread can be had */
    if (notify)
        notify(program, data);
    sdi_lock();
    sdi_unhold(program);
    sdi_unlock();
    return notify ? CL_SUCCESS : status;
}

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
        if (program->from_binary)
            return sdi_answer("", 1, size, value, size_ret);
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
    cl_uint type = program->build || program->from_binary ? CL_PROGRAM_BINARY_TYPE_EXECUTABLE : CL_PROGRAM_BINARY_TYPE_NONE;
    size_t no_variables = 0;
    if (param == CL_PROGRAM_BUILD_STATUS)
        status = sdi_answer(&program->build_status, sizeof(cl_int), size, value, size_ret);
    else if (param == CL_PROGRAM_BUILD_OPTIONS)
        status = sdi_answer_text(program->options, size, value, size_ret);
    else if (param == CL_PROGRAM_BUILD_LOG)
        status = sdi_answer_text(program->log, size, value, size_ret);
    else if (param == CL_PROGRAM_BINARY_TYPE)
        status = sdi_answer(&type, sizeof type, size, value, size_ret);
    else if (param == CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE)
        status = sdi_answer(&no_variables, sizeof no_variables, size, value, size_ret);
    sdi_unlock();
    return status;
}
