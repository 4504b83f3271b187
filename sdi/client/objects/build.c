/* Building, compiling and linking: one round trip each, in the calling thread or in one of its own. */
#include "objects/event.h"
#include "objects/program.h"

#include <unistd.h>

/* One build, compilation or link of a program, for devices that it is the same for. */
struct job {
    struct sdi_build *build; /* referred to */
    uint64_t id;
    unsigned char *record; /* NULL: no memory, or too large */
};

/* What one call asks for. */
struct work {
    cl_program program; /* held */
    uint32_t op;
    cl_uint type; /* of the binaries that it makes */
    bool *listed; /* which of the program's targets it is for */
    struct job *jobs;
    cl_uint num_jobs;
    const char *asked; /* the options of the call, also where those of a binary stay; NULL: of none, or of a link */
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
static void *new_record(struct job *job, uint32_t op, size_t nbytes)
{
    nbytes = sdi_padded(nbytes);
    job->record = nbytes <= SDI_MAX_RECORD_NBYTES ? calloc(1, nbytes) : NULL;
    if (job->record) {
        struct sdi_wire_header head = {.nbytes = (uint32_t)nbytes, .op = op, .id = job->id};
        memcpy(job->record, &head, sizeof head);
    }
    return job->record;
}

static void working_directory(char *directory, size_t nbytes)
{
    if (!getcwd(directory, nbytes))
        directory[0] = 0;
}

static void write_build(cl_program program, struct job *job)
{
    char directory[4096];
    working_directory(directory, sizeof directory);
    size_t options = strlen(job->build->options), there = strlen(directory), source = program->source_nbytes;
    struct sdi_rec_build *body = new_record(job, SDI_OP_BUILD, sizeof *body + options + there + source);
    if (!body)
        return;
    body->options_nbytes = (uint32_t)options;
    body->directory_nbytes = (uint32_t)there;
    body->source_nbytes = source;
    unsigned char *at = put((unsigned char *)(body + 1), job->build->options, options);
    put(put(at, directory, there), program->source, source);
}

static void write_compile(cl_program program, struct job *job, cl_uint num, const cl_program *headers,
                          const char **names)
{
    char directory[4096];
    working_directory(directory, sizeof directory);
    size_t options = strlen(job->build->options), there = strlen(directory), source = program->source_nbytes;
    size_t nbytes = sizeof(struct sdi_rec_compile) + options + there + source;
    for (cl_uint i = 0; i < num; i++)
        nbytes += sizeof(struct sdi_wire_header_entry) + strlen(names[i]) + headers[i]->source_nbytes;
    struct sdi_rec_compile *body = new_record(job, SDI_OP_COMPILE, nbytes);
    if (!body)
        return;
    body->options_nbytes = (uint32_t)options;
    body->directory_nbytes = (uint32_t)there;
    body->source_nbytes = source;
    body->num_headers = num;
    unsigned char *at = put((unsigned char *)(body + 1), job->build->options, options);
    at = put(put(at, directory, there), program->source, source);
    for (cl_uint i = 0; i < num; i++) {
        struct sdi_wire_header_entry entry = {
            .name_nbytes = (uint32_t)strlen(names[i]),
            .text_nbytes = (uint32_t)headers[i]->source_nbytes,
        };
        at = put(put(at, &entry, sizeof entry), names[i], entry.name_nbytes);
        at = put(at, headers[i]->source, entry.text_nbytes);
    }
}

/* Client lock held: builds in other threads may replace what the inputs have for this device. */
static void write_link(struct job *job, cl_device_id device, cl_uint num, const cl_program *inputs, bool rebuild)
{
    size_t options = strlen(job->build->options), nbytes = sizeof(struct sdi_rec_link) + options;
    for (cl_uint i = 0; i < num; i++)
        nbytes += 8 + sdi_target_of(inputs[i], device)->build->object_nbytes;
    struct sdi_rec_link *body = new_record(job, SDI_OP_LINK, nbytes);
    if (!body)
        return;
    body->options_nbytes = (uint32_t)options;
    body->num_objects = num;
    body->rebuild = rebuild;
    unsigned char *at = (unsigned char *)(body + 1);
    for (cl_uint i = 0; i < num; i++) {
        uint64_t size = sdi_target_of(inputs[i], device)->build->object_nbytes;
        at = put(at, &size, sizeof size);
    }
    at = put(at, job->build->options, options);
    for (cl_uint i = 0; i < num; i++) {
        const struct sdi_build *input = sdi_target_of(inputs[i], device)->build;
        at = put(at, input->object_code, input->object_nbytes);
    }
}

/* ---- the round trip -------------------------------------------------------------------------------------------- */

static cl_int run_job(const struct work *work, struct job *job)
{
    struct sdi_build *build = job->build;
    struct sdi_reply reply = {.status = CL_OUT_OF_HOST_MEMORY};
    struct sdi_build_result result = {0};
    if (job->record)
        reply = sdi_ask(job->record, ((const struct sdi_wire_header *)job->record)->nbytes);
    free(job->record);
    cl_int status = reply.status, readable = CL_SUCCESS;
    if (reply.payload_nbytes || !status)
        readable = sdi_read_build(reply.payload, reply.payload_nbytes, &result);
    if (readable == CL_OUT_OF_RESOURCES)
        sdi_session_died();
    if (readable && (!status || readable == CL_OUT_OF_RESOURCES))
        status = readable;
    free(reply.payload);

    sdi_lock();
    build->log = result.log;
    if (!status) {
        free(build->object_code);
        build->object_code = result.object;
        build->object_nbytes = result.object_nbytes;
        build->binary_type = work->type;
        if (work->type == CL_PROGRAM_BINARY_TYPE_EXECUTABLE) {
            build->tables = result.tables;
            build->num_tables = result.num_tables;
            build->id = job->id;
            if (work->program->origin == SDI_FROM_BINARY)
                sdi_keep_build(build);
        } else {
            sdi_free_tables(result.tables, result.num_tables);
        }
        build->status = CL_BUILD_SUCCESS;
    } else {
        if (!reply.status)
            sdi_send_bare(SDI_OP_RELEASE_BUILD, job->id); /* made, but its answer can't be used */
        sdi_free_tables(result.tables, result.num_tables);
        free(result.object);
        build->status = CL_BUILD_ERROR;
    }
    sdi_build_unref(build);
    sdi_tell_change();
    sdi_unlock();
    return status;
}

/* All jobs; the first error.  The work is done with. */
static cl_int run(const struct work *work)
{
    cl_int status = CL_SUCCESS;
    for (cl_uint i = 0; i < work->num_jobs; i++) {
        cl_int one = run_job(work, &work->jobs[i]);
        status = status ? status : one;
    }
    free(work->jobs);
    free(work->listed);
    if (work->notify)
        work->notify(work->program, work->data);
    sdi_lock();
    sdi_unhold(work->program);
    sdi_unlock();
    return work->notify ? CL_SUCCESS : status;
}

static bool is_in_progress(cl_program program)
{
    for (cl_uint i = 0; i < program->num_targets; i++)
        if (program->targets[i].build->status == CL_BUILD_IN_PROGRESS)
            return true;
    return false;
}

void sdi_await_build(cl_program program)
{
    while (is_in_progress(program))
        sdi_await_change();
}

static void *run_apart(void *argument)
{
    run(argument);
    free(argument);
    return NULL;
}

/* Runs the work, whose jobs have their records; with `notify` in a thread of its own. */
static cl_int run_or_start(const struct work *work)
{
    if (work->notify) {
        struct work *own = malloc(sizeof *own);
        if (own) {
            *own = *work;
            if (sdi_start_thread(run_apart, own) == 0)
                return CL_SUCCESS;
            free(own);
        }
    }
    return run(work); /* also when no thread can be had */
}

/* Client lock held.  Whether the same is built for two devices of a program: from its source always, else where what it
 * is made from is the same. */
static bool is_same_work(cl_device_id a, cl_device_id b, cl_uint num, const cl_program *inputs)
{
    for (cl_uint i = 0; i < num; i++)
        if (sdi_target_of(inputs[i], a)->build != sdi_target_of(inputs[i], b)->build)
            return false;
    return true;
}

/* Whether a word of the options asks for argument information. */
static bool asks_for_argument_info(const char *options)
{
    static const char WORD[] = "-cl-kernel-arg-info", BETWEEN[] = " \t\n\v\f\r\"'"; /* and the final NUL */
    size_t nbytes = sizeof WORD - 1;
    for (const char *at = options; at && (at = strstr(at, WORD)); at += nbytes)
        if ((at == options || memchr(BETWEEN, at[-1], sizeof BETWEEN)) && memchr(BETWEEN, at[nbytes], sizeof BETWEEN))
            return true;
    return false;
}

/* A job for devices for which the program has had `before`. */
static bool new_job(struct job *job, const struct sdi_build *before, const char *options, bool from_binary)
{
    struct sdi_build *build = sdi_new_build();
    if (!build)
        return false;
    build->options = strdup(options);
    if (from_binary && before->object_code && (build->object_code = malloc(before->object_nbytes + 1))) {
        memcpy(build->object_code, before->object_code, before->object_nbytes);
        build->object_nbytes = before->object_nbytes;
        build->binary_type = before->binary_type;
    }
    if (!build->options || (from_binary && !build->object_code)) {
        sdi_build_unref(build);
        return false;
    }
    build->status = CL_BUILD_IN_PROGRESS;
    *job = (struct job){.build = build, .id = sdi_next_id()};
    return true;
}

/* Client lock held.  Makes the jobs and their records, but for a source's; takes the targets into the state "in
 * progress".  What an earlier build made is gone, but for the object of a binary.  `options`: NULL: those of the
 * binary; `inputs`: what is linked, or NULL. */
static cl_int begin(struct work *work, const char *options, cl_uint num_inputs, const cl_program *inputs)
{
    cl_program program = work->program;
    bool from_binary = program->origin == SDI_FROM_BINARY;
    struct job *job_of[program->num_targets];
    struct sdi_target *first_of[program->num_targets];
    if (program->num_kernels)
        return CL_INVALID_OPERATION;
    for (cl_uint i = 0; i < program->num_targets; i++)
        if (work->listed[i] && program->targets[i].build->status == CL_BUILD_IN_PROGRESS)
            return CL_INVALID_OPERATION;
    work->jobs = calloc(program->num_targets, sizeof *work->jobs);
    bool ok = work->jobs != NULL;
    for (cl_uint i = 0; ok && i < program->num_targets; i++) {
        struct sdi_target *target = &program->targets[i];
        job_of[i] = NULL;
        for (cl_uint at = 0; work->listed[i] && !job_of[i] && at < work->num_jobs; at++)
            if (is_same_work(first_of[at]->device, target->device, num_inputs, inputs))
                job_of[i] = &work->jobs[at];
        if (!work->listed[i] || job_of[i])
            continue;
        job_of[i] = &work->jobs[work->num_jobs];
        ok = new_job(job_of[i], target->build, options ? options : target->build->options, from_binary);
        if (!ok)
            break;
        job_of[i]->build->tells_arguments = asks_for_argument_info(work->asked);
        first_of[work->num_jobs++] = target;
        if (num_inputs)
            write_link(job_of[i], target->device, num_inputs, inputs, from_binary);
    }
    if (!ok) {
        for (cl_uint at = 0; at < work->num_jobs; at++) {
            free(work->jobs[at].record);
            sdi_build_unref(work->jobs[at].build);
        }
        free(work->jobs);
        return CL_OUT_OF_HOST_MEMORY;
    }
    for (cl_uint i = 0; i < program->num_targets; i++) {
        if (!job_of[i])
            continue;
        sdi_build_unref(program->targets[i].build);
        program->targets[i].build = job_of[i]->build;
        job_of[i]->build->refs++;
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

/* Which of the program's devices a call is for: all, where it lists none. */
static cl_int list_targets(struct work *work, cl_uint num_devices, const cl_device_id *devices)
{
    cl_program program = work->program;
    work->listed = malloc(program->num_targets * sizeof *work->listed);
    if (!work->listed)
        return CL_OUT_OF_HOST_MEMORY;
    for (cl_uint i = 0; i < program->num_targets; i++)
        work->listed[i] = num_devices == 0;
    for (cl_uint i = 0; i < num_devices; i++) {
        struct sdi_target *target = sdi_target_of(program, devices[i]);
        if (!target) {
            free(work->listed);
            return CL_INVALID_DEVICE;
        }
        work->listed[target - program->targets] = true;
    }
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
    struct work work = {
        .program = program,
        .op = from_binary ? SDI_OP_LINK : SDI_OP_BUILD,
        .type = CL_PROGRAM_BINARY_TYPE_EXECUTABLE,
        .asked = options,
        .notify = notify,
        .data = data,
    };
    status = list_targets(&work, num_devices, devices);
    if (status)
        return status;
    sdi_lock();
    for (cl_uint i = 0; from_binary && i < program->num_targets; i++)
        if (work.listed[i] && program->targets[i].build->binary_type != CL_PROGRAM_BINARY_TYPE_EXECUTABLE)
            status = CL_INVALID_BINARY;
    if (!status && from_binary) /* with the options that the binary was made with */
        status = begin(&work, NULL, 1, &program);
    else if (!status)
        status = begin(&work, options ? options : "", 0, NULL);
    sdi_unlock();
    if (status) {
        free(work.listed);
        return status;
    }
    if (!from_binary)
        write_build(program, work.jobs);
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
        .notify = notify,
        .data = data,
    };
    status = list_targets(&work, num_devices, devices);
    if (status)
        return status;
    sdi_lock();
    status = begin(&work, options ? options : "", 0, NULL);
    sdi_unlock();
    if (status) {
        free(work.listed);
        return status;
    }
    write_compile(program, work.jobs, num_headers, headers, names);
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

/* Client lock held.  Whether all inputs have what can be linked for the program's devices. */
static cl_int check_inputs(cl_program program, cl_uint num, const cl_program *inputs)
{
    for (cl_uint i = 0; i < num; i++)
        for (cl_uint at = 0; at < program->num_targets; at++) {
            const struct sdi_target *input = sdi_target_of(inputs[i], program->targets[at].device);
            if (!input || input->build->status == CL_BUILD_IN_PROGRESS
                || (input->build->binary_type != CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT
                    && input->build->binary_type != CL_PROGRAM_BINARY_TYPE_LIBRARY))
                return CL_INVALID_OPERATION;
        }
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
    for (cl_uint i = 0; !status && i < num_devices; i++)
        if (!sdi_context_has(context, devices[i]))
            status = CL_INVALID_DEVICE;
    if (!status && (num_inputs == 0 || !inputs))
        status = CL_INVALID_VALUE;
    for (cl_uint i = 0; !status && i < num_inputs; i++)
        if (!sdi_is_program(inputs[i]) || inputs[i]->context != context)
            status = CL_INVALID_PROGRAM;
    if (status)
        return sdi_fail(errcode_ret, status);
    options = options ? options : "";
    cl_program program = sdi_new_program(context, strdup(""), 0, num_devices, devices);
    if (!program)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    struct work work = {
        .program = program,
        .op = SDI_OP_LINK,
        .type = has_word(options, "-create-library") ? CL_PROGRAM_BINARY_TYPE_LIBRARY
                                                     : CL_PROGRAM_BINARY_TYPE_EXECUTABLE,
        .notify = notify,
        .data = data,
    };
    status = list_targets(&work, 0, NULL);
    if (!status) {
        sdi_lock();
        status = check_inputs(program, num_inputs, inputs);
        if (!status)
            status = begin(&work, options, num_inputs, inputs);
        sdi_unlock();
        if (status)
            free(work.listed);
    }
    if (status) {
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
