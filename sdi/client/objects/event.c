/* Events: status, waiting, user events, callbacks. */
#include "client.h"

static size_t num_unset;  /* user events; client lock */
static cl_event unset;    /* these */
static uint64_t gate = 1; /* atomic: written under the client lock; counts how often the last of them was set */

void sdi_event_forget(void)
{
    num_unset = 0;
    unset = NULL;
}

static void forget_unset(cl_event event)
{
    cl_event *at = &unset;
    while (*at != event)
        at = &(*at)->next_unset;
    *at = event->next_unset;
    if (--num_unset == 0)
        __atomic_store_n(&gate, gate + 1, __ATOMIC_RELAXED);
}

uint64_t sdi_gate(void)
{
    return gate;
}

bool sdi_is_gated(uint64_t of)
{
    return of == __atomic_load_n(&gate, __ATOMIC_RELAXED);
}

bool sdi_is_barred(uint64_t bar)
{
    cl_event event = bar ? unset : NULL;
    while (event && event->object.id != bar)
        event = event->next_unset;
    return event != NULL;
}

bool sdi_events_unset(void)
{
    return num_unset != 0;
}

int sdi_event_status(cl_event event)
{
    if (!event->queue) {
        int status = __atomic_load_n(&event->user_status, __ATOMIC_ACQUIRE);
        return status > 0 && sdi_session_dead() ? CL_OUT_OF_RESOURCES : status;
    }
    return sdi_slot_status(event->slot);
}

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

cl_int sdi_clRetainEvent(cl_event event)
{
    return sdi_retain(event, SDI_EVENT, CL_INVALID_EVENT);
}

cl_int sdi_clReleaseEvent(cl_event event)
{
    return sdi_release(event, SDI_EVENT, CL_INVALID_EVENT);
}

void sdi_drop_event(cl_event event)
{
    sdi_send_bare(SDI_OP_RELEASE_EVENT, event->object.id);
    sdi_slot_release(event->slot);
    if (event->queue)
        sdi_unhold(event->queue);
    else if (event->user_status > 0)
        forget_unset(event);
    sdi_unhold(event->context);
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
    if ((event->is_awaited ? sdi_slot_wait(event->slot) : sdi_event_status(event)) != CL_COMPLETE)
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
    for (cl_uint i = 0; i < num; i++) {
        int status;
        for (;;) {
            uint32_t seen = sdi_epoch();
            status = sdi_event_status(list[i]);
            if (status <= 0)
                break;
            sdi_epoch_wait(seen);
        }
        if (status < 0)
            result = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    }
    if (result && sdi_session_dead())
        result = CL_OUT_OF_RESOURCES;
    sdi_lock();
    for (cl_uint i = 0; i < num; i++) {
        if (!result && list[i]->queue)
            sdi_queue_reached(list[i]->queue, list[i]->object.id);
        sdi_unhold(list[i]);
    }
    sdi_unlock();
    sdi_host_show();
    return result;
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
        event->gate = sdi_gate();
        event->bar = event->object.id;
        event->next_unset = unset;
        unset = event;
        num_unset++;
        status = sdi_send(&record, sizeof record);
        if (status) {
            event->object.refs = 0;
            sdi_hold(event);
            sdi_unhold(event);
        }
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
        forget_unset(event);
        sdi_event_fire(event, status);
    }
    sdi_unlock();
    if (gated)
        sdi_host_gate_end();
    sdi_epoch_wake();
    return result;
}

/* ---- callbacks --------------------------------------------------------------------------------------------- */

/* Those for earlier statuses first, whatever the order of registration. */
void sdi_event_fire(cl_event event, int status)
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
        sdi_caller_post(due);
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
    *call = (struct sdi_call){.what = SDI_CALL_EVENT, .object = event, .status = type, .data = data};
    call->function.event = notify;

    sdi_lock();
    cl_int result = sdi_caller_start();
    if (!result && event->queue)
        result = sdi_lander_start();
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
        sdi_event_fire(event, status);
    } else if (event->queue) {
        sdi_lander_watch(event);
        if (sdi_send_status(SDI_OP_WATCH, event->object.id, type) != CL_SUCCESS)
            sdi_event_fire(event, CL_OUT_OF_RESOURCES);
    }
    sdi_unlock();
    return CL_SUCCESS;
}
