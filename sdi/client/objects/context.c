/* Contexts: known to the client only. */
#include "objects/event.h"
#include "threads/threads.h"

/* Contexts with a callback for errors; client lock. */
static cl_context listening;

static void forget(void)
{
    listening = NULL;
}

/* Checks a property list; its length without the final 0 (in words) in *num. */
static cl_int check_properties(const intptr_t *properties, size_t *num)
{
    bool platform = false, sync = false;
    *num = 0;
    if (!properties)
        return CL_SUCCESS;
    for (const intptr_t *at = properties; at[0]; at += 2, *num += 2) {
        bool *given = at[0] == CL_CONTEXT_PLATFORM ? &platform : at[0] == CL_CONTEXT_INTEROP_USER_SYNC ? &sync : NULL;
        if (!given || *given)
            return CL_INVALID_PROPERTY;
        *given = true;
        if (at[0] == CL_CONTEXT_PLATFORM && !sdi_is_platform_id((cl_platform_id)at[1]))
            return CL_INVALID_PLATFORM;
        if (at[0] == CL_CONTEXT_INTEROP_USER_SYNC && at[1] != 0 && at[1] != 1)
            return CL_INVALID_PROPERTY;
    }
    return CL_SUCCESS;
}

bool sdi_context_has(cl_context context, cl_device_id device)
{
    for (cl_uint i = 0; i < context->num_devices; i++)
        if (context->devices[i] == device)
            return true;
    return false;
}

static void widen(struct sdi_limits *limits, const struct sdi_limits *by)
{
    limits->type |= by->type;
    limits->max_alloc_nbytes = SDI_MAX(limits->max_alloc_nbytes, by->max_alloc_nbytes);
    limits->base_align_nbytes = SDI_MIN(limits->base_align_nbytes, by->base_align_nbytes);
    limits->images |= by->images;
    for (int i = 0; i < 2; i++)
        limits->image2d[i] = SDI_MAX(limits->image2d[i], by->image2d[i]);
    for (int i = 0; i < 3; i++)
        limits->image3d[i] = SDI_MAX(limits->image3d[i], by->image3d[i]);
    limits->image_layers = SDI_MAX(limits->image_layers, by->image_layers);
    limits->image_buffer = SDI_MAX(limits->image_buffer, by->image_buffer);
    limits->image_row_align = SDI_MAX(limits->image_row_align, by->image_row_align);
}

static void set_devices(cl_context context, cl_device_id *own, cl_uint num, const cl_device_id *devices)
{
    context->devices = own;
    context->limits = sdi_session.limits[devices[0]->number];
    for (cl_uint i = 0; i < num; i++) {
        if (sdi_context_has(context, devices[i]))
            continue;
        own[context->num_devices++] = devices[i];
        widen(&context->limits, &sdi_session.limits[devices[i]->number]);
    }
}

static cl_context create(const intptr_t *properties, size_t num, cl_uint num_devices, const cl_device_id *devices,
                         void (*notify)(const char *, const void *, size_t, void *), void *data, cl_int *errcode_ret)
{
    if (sdi_session_check())
        return sdi_fail(errcode_ret, CL_OUT_OF_RESOURCES);
    intptr_t *copy = NULL;
    cl_device_id *own = malloc(num_devices * sizeof *own);
    if (!own)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    if (properties) {
        copy = malloc((num + 1) * sizeof *copy);
        if (!copy) {
            free(own);
            return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
        }
        memcpy(copy, properties, (num + 1) * sizeof *copy);
    }
    sdi_lock();
    cl_context context = sdi_new(SDI_CONTEXT);
    if (context) {
        set_devices(context, own, num_devices, devices);
        context->properties = copy;
        context->num_properties = copy ? num + 1 : 0;
    }
    if (context && notify) {
        context->notify = notify;
        context->notify_data = data;
        context->next_listening = listening;
        listening = context;
    }
    sdi_unlock();
    if (!context) {
        free(own);
        free(copy);
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    }
    sdi_succeed(errcode_ret);
    return context;
}

cl_context sdi_clCreateContext(const intptr_t *properties, cl_uint num_devices, const cl_device_id *devices,
                               void (*notify)(const char *, const void *, size_t, void *), void *data,
                               cl_int *errcode_ret)
{
    size_t num;
    cl_int status = check_properties(properties, &num);
    if (status)
        return sdi_fail(errcode_ret, status);
    if (!devices || num_devices == 0 || (!notify && data))
        return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    for (cl_uint i = 0; i < num_devices; i++)
        if (!sdi_is_device_id(devices[i]))
            return sdi_fail(errcode_ret, CL_INVALID_DEVICE);
    return create(properties, num, num_devices, devices, notify, data, errcode_ret);
}

cl_context sdi_clCreateContextFromType(const intptr_t *properties, cl_ulong type,
                                       void (*notify)(const char *, const void *, size_t, void *), void *data,
                                       cl_int *errcode_ret)
{
    size_t num;
    cl_int status = check_properties(properties, &num);
    if (status)
        return sdi_fail(errcode_ret, status);
    if (!notify && data)
        return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    cl_uint num_devices;
    status = sdi_clGetDeviceIDs(&sdi_platform, type, 0, NULL, &num_devices);
    if (status)
        return sdi_fail(errcode_ret, status);
    cl_device_id *devices = malloc(num_devices * sizeof *devices);
    if (!devices)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    sdi_devices_of_type(type, num_devices, devices);
    cl_context context = create(properties, num, num_devices, devices, notify, data, errcode_ret);
    free(devices);
    return context;
}

SDI_COUNTED(Context, cl_context, SDI_CONTEXT, CL_INVALID_CONTEXT)

static void drop(void *object)
{
    cl_context context = object;
    cl_context *at = &listening;
    while (*at && *at != context)
        at = &(*at)->next_listening;
    if (*at)
        *at = context->next_listening;
    free(context->properties);
    free(context->devices);
    sdi_defer(context->destructors);
}

cl_int sdi_clGetContextInfo(cl_context context, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    if (!sdi_is_context(context))
        return CL_INVALID_CONTEXT;
    switch (param) {
    case CL_CONTEXT_REFERENCE_COUNT:
        SDI_ANSWER(cl_uint, context->object.refs);
    case CL_CONTEXT_NUM_DEVICES:
        SDI_ANSWER(cl_uint, context->num_devices);
    case CL_CONTEXT_DEVICES:
        return sdi_answer(context->devices, context->num_devices * sizeof *context->devices, size, value, size_ret);
    case CL_CONTEXT_PROPERTIES:
        return sdi_answer(context->properties, context->num_properties * sizeof *context->properties, size, value,
                          size_ret);
    default:
        return CL_INVALID_VALUE;
    }
}

static void run_error(struct sdi_call *call)
{
    call->function.error(call->text, NULL, 0, call->data);
    free(call->text);
    sdi_lock();
    sdi_unhold(call->object);
    sdi_unlock();
}

/* Only errors that no call's code tells reach the callback: commands that fail when they run, and the end of the
 * service.  It runs in the callback thread, as all callbacks do; there is no binary data to log. */
static void tell(uint64_t id, const char *text, size_t nbytes)
{
    sdi_lock();
    for (cl_context context = listening; context; context = context->next_listening) {
        if (id && context->object.id != id)
            continue;
        struct sdi_call *call = malloc(sizeof *call);
        char *copy = malloc(nbytes + 1);
        if (!call || !copy) {
            free(call);
            free(copy);
            break;
        }
        memcpy(copy, text, nbytes);
        copy[nbytes] = 0;
        *call = (struct sdi_call){.run = run_error, .object = context, .data = context->notify_data, .text = copy};
        call->function.error = context->notify;
        sdi_hold(context);
        sdi_callback_post(call);
    }
    sdi_unlock();
}

static bool on_failure(const struct sdi_rec_notice *notice, const char *text)
{
    tell(notice->id, text, notice->text_nbytes);
    return true;
}

static void on_end(void)
{
    static const char text[] = "sdi: the service has ended";
    tell(0, text, sizeof text - 1);
}

SDI_AT_LOAD void register_all(void)
{
    sdi_register_fork(forget);
    sdi_register_drop(SDI_CONTEXT, drop);
    sdi_register_notice(SDI_NOTICE_FAILED, on_failure, on_end);
}

static void run_destructor(struct sdi_call *call)
{
    call->function.context(call->object, call->data);
}

cl_int sdi_clSetContextDestructorCallback(cl_context context, void (*notify)(cl_context, void *), void *data)
{
    if (!sdi_is_context(context))
        return CL_INVALID_CONTEXT;
    if (!notify)
        return CL_INVALID_VALUE;
    struct sdi_call call = {.run = run_destructor, .function.context = notify, .object = context, .data = data};
    return sdi_destructor_add(&context->destructors, call);
}
