/* Building, compiling and linking: one round trip each, in the calling thread or in one of its own. */
#include "objects/program.h"

#include <unistd.h>

/* One build, compilation or link on its way. */
struct work {
    cl_program program; /* held */
    uint32_t op;
    uint64_t id;
    cl_uint type;          /* of the binary that it makes */
    char *options;         /* becomes the program's */
    unsigned char *record; /* NULL: no memory, or too large */
    void (*notify)(cl_program, void *);
    void *data;
};

/* ---- records ------------------------------------------------------------------------------------------------- */

static unsigned char *put(unsigned char *at, const void *bytes, size_t nbytes)
{
    if (nbytes)
        memcpy(at, bytes, nbytes);
    return at + nbytes;
}

/* A zeroed record of that many bytes with its header; NULL: no memory, or too large. */
static void *new_record(struct work *work, size_t nbytes)
{
    nbytes = sdi_padded(nbytes);
    work->record = nbytes <= SDI_MAX_RECORD_NBYTES ? calloc(1, nbytes) : NULL;
    if (work->record) {
        struct sdi_wire_header head = {.nbytes = (uint32_t)nbytes, .op = work->op, .id = work->id};
        memcpy(work->record, &head, sizeof head);
    }
    return work->record;
}

static void working_directory(char *directory, size_t nbytes)
{
    if (!getcwd(directory, nbytes))
        directory[0] = 0;
}

static void write_build(struct work *work)
{
    char directory[4096];
    working_directory(directory, sizeof directory);
    size_t options = strlen(work->options), there = strlen(directory), source = work->program->source_nbytes;
    struct sdi_rec_build *body = new_record(work, sizeof *body + options + there + source);
    if (!body)
        return;
    body->options_nbytes = (uint32_t)options;
    body->directory_nbytes = (uint32_t)there;
    body->source_nbytes = source;
    unsigned char *at = put((unsigned char *)(body + 1), work->options, options);
    put(put(at, directory, there), work->program->source, source);
}

static void write_compile(struct work *work, cl_uint num, const cl_program *headers, const char **names)
{
    char directory[4096];
    working_directory(directory, sizeof directory);
    size_t options = strlen(work->options), there = strlen(directory), source = work->program->source_nbytes;
    size_t nbytes = sizeof(struct sdi_rec_compile) + options + there + source;
    for (cl_uint i = 0; i < num; i++)
        nbytes += sizeof(struct sdi_wire_header_entry) + strlen(names[i]) + headers[i]->source_nbytes;
    struct sdi_rec_compile *body = new_record(work, nbytes);
    if (!body)
        return;
    body->options_nbytes = (uint32_t)options;
    body->directory_nbytes = (uint32_t)there;
    body->source_nbytes = source;
    body->num_headers = num;
    unsigned char *at = put((unsigned char *)(body + 1), work->options, options);
    at = put(put(at, directory, there), work->program->source, source);
    for (cl_uint i = 0; i < num; i++) {
        struct sdi_wire_header_entry entry = {
            .name_nbytes = (uint32_t)strlen(names[i]),
            .text_nbytes = (uint32_t)headers[i]->source_nbytes,
        };
        at = put(put(at, &entry, sizeof entry), names[i], entry.name_nbytes);
        at = put(at, headers[i]->source, entry.text_nbytes);
    }
}

/* Client lock held: the inputs' objects may be replaced by builds in other threads. */
static void write_link(struct work *work, cl_uint num, const cl_program *inputs, bool rebuild)
{
    size_t options = strlen(work->options), nbytes = sizeof(struct sdi_rec_link) + options;
    for (cl_uint i = 0; i < num; i++)
        nbytes += 8 + inputs[i]->object_nbytes;
    struct sdi_rec_link *body = new_record(work, nbytes);
    if (!body)
        return;
    body->options_nbytes = (uint32_t)options;
    body->num_objects = num;
    body->rebuild = rebuild;
    unsigned char *at = (unsigned char *)(body + 1);
    for (cl_uint i = 0; i < num; i++) {
        uint64_t size = inputs[i]->object_nbytes;
        at = put(at, &size, sizeof size);
    }
    at = put(at, work->options, options);
    for (cl_uint i = 0; i < num; i++)
        at = put(at, inputs[i]->object_code, inputs[i]->object_nbytes);
}

/* ---- the round trip -------------------------------------------------------------------------------------------- */

static cl_int run(struct work *work)
{
    cl_program program = work->program;
    struct sdi_reply reply = {.status = CL_OUT_OF_HOST_MEMORY};
    struct sdi_build_result result = {0};
    if (work->record)
        reply = sdi_ask(work->record, ((const struct sdi_wire_header *)work->record)->nbytes);
    free(work->record);
    cl_int status = reply.status, readable = CL_SUCCESS;
    if (reply.payload_nbytes || !status)
        readable = sdi_read_build(reply.payload, reply.payload_nbytes, &result);
    if (readable == CL_OUT_OF_RESOURCES)
        sdi_session_died();
    if (readable && (!status || readable == CL_OUT_OF_RESOURCES))
        status = readable;
    free(reply.payload);

    sdi_lock();
    free(program->options);
    free(program->log);
    program->options = work->options;
    program->log = result.log;
    if (!status) {
        free(program->object_code);
        program->object_code = result.object;
        program->object_nbytes = result.object_nbytes;
        program->binary_type = work->type;
        if (work->type == CL_PROGRAM_BINARY_TYPE_EXECUTABLE) {
            program->tables = result.tables;
            program->num_tables = result.num_tables;
            program->build = work->id;
        } else {
            sdi_free_tables(result.tables, result.num_tables);
        }
        program->build_status = CL_BUILD_SUCCESS;
    } else {
        if (!reply.status)
            sdi_send_bare(SDI_OP_RELEASE_BUILD, work->id); /* made, but its answer can't be used */
        sdi_free_tables(result.tables, result.num_tables);
        free(result.object);
        program->build_status = CL_BUILD_ERROR;
    }
    sdi_tell_change();
    sdi_unlock();
    return status;
}

void sdi_await_build(cl_program program)
{
    sdi_hold(program);
    while (program->build_status == CL_BUILD_IN_PROGRESS)
        sdi_await_change();
    sdi_unhold(program);
}

static void *run_and_notify(void *argument)
{
    struct work *work = argument;
    run(work);
    work->notify(work->program, work->data);
    sdi_lock();
    sdi_unhold(work->program);
    sdi_unlock();
    free(work);
    return NULL;
}

/* Runs the work, which has its record; with `notify` in a thread of its own. */
static cl_int run_or_start(struct work *work)
{
    if (work->notify) {
        struct work *own = malloc(sizeof *own);
        if (own) {
            *own = *work;
            if (sdi_start_thread(run_and_notify, own) == 0)
                return CL_SUCCESS;
            free(own);
        }
    }
    cl_int status = run(work); /* also when no thread can be had */
    if (work->notify)
        work->notify(work->program, work->data);
    sdi_lock();
    sdi_unhold(work->program);
    sdi_unlock();
    return work->notify ? CL_SUCCESS : status;
}

/* Client lock held.  Takes the program into the state "in progress"; what an earlier build made is gone, but for the
 * object of a binary. */
static cl_int begin(cl_program program)
{
    if (program->num_kernels || program->build_status == CL_BUILD_IN_PROGRESS)
        return CL_INVALID_OPERATION;
    if (program->build)
        sdi_send_bare(SDI_OP_RELEASE_BUILD, program->build);
    program->build = 0;
    sdi_free_tables(program->tables, program->num_tables);
    program->tables = NULL;
    program->num_tables = 0;
    program->build_status = CL_BUILD_IN_PROGRESS;
    if (program->origin == SDI_FROM_SOURCE) {
        free(program->object_code);
        program->object_code = NULL;
        program->object_nbytes = 0;
        program->binary_type = CL_PROGRAM_BINARY_TYPE_NONE;
    }
    sdi_hold(program);
    return CL_SUCCESS;
}

static cl_int check_devices(cl_uint num_devices, const cl_device_id *devices, bool notified, const void *data)
{
    if ((num_devices == 0) != (devices == NULL) || (!notified && data))
        return CL_INVALID_VALUE;
    for (cl_uint i = 0; i < num_devices; i++)
        if (!sdi_is_device_id(devices[i]))
            return CL_INVALID_DEVICE;
    return CL_SUCCESS;
}

/* ---- entry points ------------------------------------------------------------------------------------------------ */

cl_int sdi_clBuildProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices, const char *options,
                          void (*notify)(cl_program, void *), void *data)
{
    if (!sdi_is_program(program))
        return CL_INVALID_PROGRAM;
    cl_int status = check_devices(num_devices, devices, notify != NULL, data);
    if (status)
        return status;
    bool from_binary = program->origin == SDI_FROM_BINARY;
    if (program->origin == SDI_FROM_LINK)
        return CL_INVALID_OPERATION;
    if (from_binary && program->binary_type != CL_PROGRAM_BINARY_TYPE_EXECUTABLE)
        return CL_INVALID_BINARY;
    struct work work = {
        .program = program,
        .op = from_binary ? SDI_OP_LINK : SDI_OP_BUILD,
        .type = CL_PROGRAM_BINARY_TYPE_EXECUTABLE,
        .notify = notify,
        .data = data,
    };
    sdi_lock(); /* a binary is built with the options that it was made with */
    work.id = sdi_next_id();
    work.options = strdup(from_binary ? program->options : options ? options : "");
    status = work.options ? begin(program) : CL_OUT_OF_HOST_MEMORY;
    if (!status && from_binary)
        write_link(&work, 1, &program, true);
    sdi_unlock();
    if (status) {
        free(work.options);
        return status;
    }
    if (!from_binary)
        write_build(&work);
    return run_or_start(&work);
}

cl_int sdi_clCompileProgram(cl_program program, cl_uint num_devices, const cl_device_id *devices, const char *options,
                            cl_uint num_headers, const cl_program *headers, const char **names,
                            void (*notify)(cl_program, void *), void *data)
{
    if (!sdi_is_program(program))
        return CL_INVALID_PROGRAM;
    cl_int status = check_devices(num_devices, devices, notify != NULL, data);
    if (status)
        return status;
    if ((num_headers == 0) != (headers == NULL) || (num_headers == 0) != (names == NULL))
        return CL_INVALID_VALUE;
    for (cl_uint i = 0; i < num_headers; i++) {
        if (!sdi_is_program(headers[i]) || headers[i]->origin != SDI_FROM_SOURCE)
            return CL_INVALID_PROGRAM;
        if (!names[i])
            return CL_INVALID_VALUE;
    }
    if (program->origin != SDI_FROM_SOURCE)
        return CL_INVALID_OPERATION;
    struct work work = {
        .program = program,
        .op = SDI_OP_COMPILE,
        .type = CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT,
        .options = strdup(options ? options : ""),
        .notify = notify,
        .data = data,
    };
    sdi_lock();
    work.id = sdi_next_id();
    status = work.options ? begin(program) : CL_OUT_OF_HOST_MEMORY;
    sdi_unlock();
    if (status) {
        free(work.options);
        return status;
    }
    write_compile(&work, num_headers, headers, names);
    return run_or_start(&work);
}

/* Whether a word of the options is `word`. */
static bool has_word(const char *options, const char *word)
{
    size_t nbytes = strlen(word);
    for (const char *at = strstr(options, word); at; at = strstr(at + 1, word))
        if ((at == options || at[-1] == ' ') && (at[nbytes] == 0 || at[nbytes] == ' '))
            return true;
    return false;
}

/* Client lock held. */
static cl_int check_inputs(cl_uint num, const cl_program *inputs)
{
    for (cl_uint i = 0; i < num; i++)
        if (inputs[i]->build_status == CL_BUILD_IN_PROGRESS
            || (inputs[i]->binary_type != CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT
                && inputs[i]->binary_type != CL_PROGRAM_BINARY_TYPE_LIBRARY))
            return CL_INVALID_OPERATION;
    return CL_SUCCESS;
}

static void release(cl_program program)
{
    sdi_release(program, SDI_PROGRAM, CL_INVALID_PROGRAM);
}

cl_program sdi_clLinkProgram(cl_context context, cl_uint num_devices, const cl_device_id *devices,
                             const char *options, cl_uint num_inputs, const cl_program *inputs,
                             void (*notify)(cl_program, void *), void *data, cl_int *errcode_ret)
{
    if (!sdi_is_context(context))
        return sdi_fail(errcode_ret, CL_INVALID_CONTEXT);
    cl_int status = check_devices(num_devices, devices, notify != NULL, data);
    if (!status && (num_inputs == 0 || !inputs))
        status = CL_INVALID_VALUE;
    for (cl_uint i = 0; !status && i < num_inputs; i++)
        if (!sdi_is_program(inputs[i]) || inputs[i]->context != context)
            status = CL_INVALID_PROGRAM;
    if (status)
        return sdi_fail(errcode_ret, status);
    options = options ? options : "";
    cl_program program = sdi_new_program(context, strdup(""), 0);
    if (!program)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    struct work work = {
        .program = program,
        .op = SDI_OP_LINK,
        .type = has_word(options, "-create-library") ? CL_PROGRAM_BINARY_TYPE_LIBRARY
                                                     : CL_PROGRAM_BINARY_TYPE_EXECUTABLE,
        .options = strdup(options),
        .notify = notify,
        .data = data,
    };
    sdi_lock();
    work.id = sdi_next_id();
    status = work.options ? check_inputs(num_inputs, inputs) : CL_OUT_OF_HOST_MEMORY;
    if (!status) {
        begin(program);
        write_link(&work, num_inputs, inputs, false);
    }
    sdi_unlock();
    if (status) {
        free(work.options);
        release(program);
        return sdi_fail(errcode_ret, status);
    }
    status = run_or_start(&work);
    if (status && status != CL_LINK_PROGRAM_FAILURE) { /* it could not even begin */
        release(program);
        return sdi_fail(errcode_ret, status);
    }
    if (errcode_ret)
        *errcode_ret = status;
    return program;
}
