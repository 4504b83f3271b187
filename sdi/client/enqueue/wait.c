/* Waiting for commands and asking about them: events, user events, callbacks. */
#include "enqueue/enqueue.h"
#include "threads/threads.h"

/* For programs that only poll: looks now and then whether a pending event's service lives. */
static int polled_status(cl_event event)
{
    static uint64_t looked_ns;
    int status = sdi_event_status(event);
    if (status <= 0)
        return status;
    uint64_t now = sdi_now_ns();
    if (now - __atomic_load_n(&looked_ns, __ATOMIC_RELAXED) < 20 * 1000 * 1000)
        return status;
    __atomic_store_n(&looked_ns, now, __ATOMIC_RELAXED);
    return sdi_session_check() ? sdi_event_status(event) : status;
}

cl_int sdi_clGetEventInfo(cl_event event, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    if (!sdi_is_event(event))
        return CL_INVALID_EVENT;
    switch (param) {
    case CL_EVENT_COMMAND_QUEUE:
        SDI_ANSWER(cl_command_queue, event->queue);
    case CL_EVENT_CONTEXT:
        SDI_ANSWER(cl_context, event->context);
    case CL_EVENT_COMMAND_TYPE:
        SDI_ANSWER(cl_uint, event->type);
    case CL_EVENT_COMMAND_EXECUTION_STATUS: {
        int status = event->is_awaited ? sdi_slot_wait(event->slot) : polled_status(event);
        if (status <= 0)
            sdi_host_show();
        SDI_ANSWER(cl_int, status);
    }
    case CL_EVENT_REFERENCE_COUNT:
        SDI_ANSWER(cl_uint, event->object.refs);
    default:
        return CL_INVALID_VALUE;
    }
}

cl_int sdi_clGetEventProfilingInfo(cl_event event, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    if (!sdi_is_event(event))
        return CL_INVALID_EVENT;
    if (param < CL_PROFILING_COMMAND_QUEUED || param > CL_PROFILING_COMMAND_COMPLETE)
        return CL_INVALID_VALUE;
    if (!event->profiling)
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    bool comes_soon = event->is_awaited || event->is_done; /* the service has yet to say when it was */
    if ((comes_soon ? sdi_slot_wait(event->slot) : sdi_event_status(event)) != CL_COMPLETE)
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    sdi_host_show();
    const struct sdi_wire_slot *slot = &sdi_session.slots[event->slot];
    switch (param) {
    case CL_PROFILING_COMMAND_QUEUED:
        SDI_ANSWER(cl_ulong, slot->queued_ns);
    case CL_PROFILING_COMMAND_SUBMIT:
        SDI_ANSWER(cl_ulong, slot->submitted_ns);
    case CL_PROFILING_COMMAND_START:
        SDI_ANSWER(cl_ulong, slot->started_ns);
    default:
        SDI_ANSWER(cl_ulong, slot->ended_ns);
    }
}

/* ---- waiting --------------------------------------------------------------------------------------------- */

static int await(cl_event event)
{
    for (;;) {
        uint32_t seen = sdi_epoch();
        int status = sdi_event_status(event);
        if (status <= 0)
            return status;
        if (sdi_interrupted(sdi_epoch_wait(seen)))
            return SDI_INTERRUPTED;
    }
}

cl_int sdi_clWaitForEvents(cl_uint num, const cl_event *list)
{
    if (num == 0 || !list)
        return CL_INVALID_VALUE;
    sdi_lock();
    cl_int result = CL_SUCCESS;
    for (cl_uint i = 0; i < num && !result; i++)
        if (!sdi_is_event(list[i]))
            result = CL_INVALID_EVENT;
    for (cl_uint i = 0; i < num && !result; i++)
        if (list[i]->context != list[0]->context)
            result = CL_INVALID_CONTEXT;
    for (cl_uint i = 0; i < num && !result; i++)
        sdi_hold(list[i]);
    sdi_unlock();
    if (result)
        return result;
    bool is_given_up = false;
    for (cl_uint i = 0; i < num && !is_given_up; i++) {
        int status = await(list[i]);
        is_given_up = status == SDI_INTERRUPTED;
        if (status < 0)
            result = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    }
    if (is_given_up || (result && sdi_session_dead()))
        result = CL_OUT_OF_RESOURCES;
    sdi_lock();
    for (cl_uint i = 0; i < num; i++) {
        if (!result && list[i]->queue)
            sdi_queue_reached(list[i]->queue, list[i]->object.id);
        sdi_unhold(list[i]);
    }
    sdi_unlock();
    if (!is_given_up)
        sdi_host_show();
    return result;
}

cl_int sdi_clFinish(cl_command_queue queue)
{
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    struct sdi_record record;
    if (!sdi_record_open(&record, SDI_OP_MARKER, sizeof(struct sdi_rec_marker), (struct sdi_waits){0, NULL}, true, 0))
        return CL_OUT_OF_HOST_MEMORY;
    struct sdi_command command = {.queue = queue, .type = CL_COMMAND_MARKER, .wants_slot = true, .forget = true};
    cl_int status = sdi_enqueue(&record, &command);
    if (status)
        return status;
    status = sdi_slot_await(command.slot);
    sdi_lock();
    sdi_slot_release(command.slot);
    if (status >= 0)
        sdi_queue_finished(queue, command.id);
    sdi_unlock();
    if (status != SDI_INTERRUPTED)
        sdi_host_show();
    return status < 0 ? CL_OUT_OF_RESOURCES : CL_SUCCESS;
}

/* ---- callbacks --------------------------------------------------------------------------------------------- */

enum { NUM_BUCKETS = 1024 };

static cl_event watched[NUM_BUCKETS]; /* by id; client lock */

static void forget(void)
{
    memset(watched, 0, sizeof watched);
}

static void watch(cl_event event)
{
    cl_event *bucket = &watched[event->object.id % NUM_BUCKETS];
    for (cl_event at = *bucket; at; at = at->next_watched)
        if (at == event)
            return;
    event->next_watched = *bucket;
    *bucket = event;
    sdi_hold(event);
}

/* Client lock held.  Hands the event's callbacks that `status` satisfies to the callback thread: those for earlier
 * statuses first, whatever the order of registration. */
static void fire(cl_event event, int status)
{
    struct sdi_call *due = NULL, **end = &due;
    for (int level = CL_SUBMITTED; level >= CL_COMPLETE && level >= status; level--)
        for (struct sdi_call **at = &event->callbacks; *at;) {
            struct sdi_call *call = *at;
            if (call->status != level) {
                at = &call->next;
                continue;
            }
            *at = call->next;
            call->next = NULL;
            *end = call;
            end = &call->next;
        }
    for (struct sdi_call *call = due; call && status < 0; call = call->next)
        call->status = status;
    if (due)
        sdi_callback_post(due);
}

static bool on_status(const struct sdi_rec_notice *notice, const char *text)
{
    uint64_t id = notice->id;
    (void)text;
    sdi_pending_ready(id); /* it may be a transfer */
    sdi_lock();
    cl_event *at = &watched[id % NUM_BUCKETS];
    while (*at && (*at)->object.id != id)
        at = &(*at)->next_watched;
    cl_event event = *at;
    if (event) {
        int final = sdi_event_status(event);
        fire(event, final <= 0 ? final : notice->status);
        if (!event->callbacks) {
            *at = event->next_watched;
            event->next_watched = NULL;
            sdi_unhold(event);
        }
    }
    sdi_unlock();
    return true;
}

/* The service is gone: every watched event has failed. */
static void on_end(void)
{
    sdi_lock();
    for (size_t i = 0; i < NUM_BUCKETS; i++)
        while (watched[i]) {
            cl_event event = watched[i];
            watched[i] = event->next_watched;
            event->next_watched = NULL;
            int status = sdi_event_status(event);
            fire(event, status > 0 ? CL_OUT_OF_RESOURCES : status);
            sdi_unhold(event);
        }
    sdi_unlock();
}

SDI_AT_LOAD void register_all(void)
{
    sdi_register_fork(forget);
    sdi_register_notice(SDI_NOTICE_EVENT_STATUS, on_status, on_end);
}

static void run_callback(struct sdi_call *call)
{
    if (call->status <= 0)
        sdi_host_show();
    call->function.event(call->object, call->status, call->data);
    sdi_lock();
    sdi_unhold(call->object);
    sdi_unlock();
}

cl_int sdi_clSetEventCallback(cl_event event, cl_int type, void (*notify)(cl_event, cl_int, void *), void *data)
{
    if (!sdi_is_event(event))
        return CL_INVALID_EVENT;
    if (!notify || type < CL_COMPLETE || type > CL_SUBMITTED)
        return CL_INVALID_VALUE;
    struct sdi_call *call = malloc(sizeof *call);
    if (!call)
        return CL_OUT_OF_HOST_MEMORY;
    *call = (struct sdi_call){.run = run_callback, .object = event, .status = type, .data = data};
    call->function.event = notify;

    sdi_lock();
    cl_int result = sdi_callback_start();
    if (!result && event->queue)
        result = sdi_completion_start();
    if (result) {
        sdi_unlock();
        free(call);
        return result;
    }
    struct sdi_call **end = &event->callbacks;
    while (*end)
        end = &(*end)->next;
    *end = call;
    sdi_hold(event);
    int status = sdi_event_status(event);
    if (status <= type) {
        fire(event, status);
    } else if (event->queue) {
        watch(event);
        if (sdi_send_status(SDI_OP_WATCH, event->object.id, type) != CL_SUCCESS)
            fire(event, CL_OUT_OF_RESOURCES);
    }
    sdi_unlock();
    return CL_SUCCESS;
}

/* ---- user events ----------------------------------------------------------------------------------------- */

cl_event sdi_clCreateUserEvent(cl_context context, cl_int *errcode_ret)
{
    if (!sdi_is_context(context))
        return sdi_fail(errcode_ret, CL_INVALID_CONTEXT);
    cl_int status = CL_SUCCESS;
    sdi_lock();
    uint32_t slot = sdi_session_dead() ? 0 : sdi_slot_new(CL_SUBMITTED);
    cl_event event = slot ? sdi_new(SDI_EVENT) : NULL;
    if (event) {
        struct sdi_rec_create_user_event record = {
            .nbytes = sizeof record,
            .op = SDI_OP_CREATE_USER_EVENT,
            .id = event->object.id,
            .slot = slot,
        };
        event->context = context;
        sdi_hold(context);
        event->slot = slot;
        event->type = CL_COMMAND_USER;
        event->user_status = CL_SUBMITTED;
        sdi_event_unset(event);
        status = sdi_send(&record, sizeof record);
        if (status)
            sdi_discard(event);
    } else {
        status = slot ? CL_OUT_OF_HOST_MEMORY : CL_OUT_OF_RESOURCES;
        if (slot) {
            sdi_session.slots[slot].status = CL_COMPLETE;
            sdi_slot_release(slot);
        }
    }
    sdi_unlock();
    if (status)
        return sdi_fail(errcode_ret, status);
    sdi_succeed(errcode_ret);
    return event;
}

cl_int sdi_clSetUserEventStatus(cl_event event, cl_int status)
{
    if (!sdi_is_event(event) || event->queue)
        return CL_INVALID_EVENT;
    if (status > 0)
        return CL_INVALID_VALUE;
    bool gated = sdi_host_gate();
    sdi_lock();
    cl_int result = CL_INVALID_OPERATION;
    if (event->user_status > 0) {
        __atomic_store_n(&event->user_status, status, __ATOMIC_RELEASE);
        result = sdi_send_status(SDI_OP_SET_USER_EVENT, event->object.id, status);
        sdi_event_set(event);
        fire(event, status);
    }
    sdi_unlock();
    if (gated)
        sdi_host_gate_end();
    sdi_epoch_wake();
    return result;
}
