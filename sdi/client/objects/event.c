/* Events: their status, and what waits for user events. */
#include "objects/event.h"

static size_t num_unset;  /* user events; client lock */
static cl_event unset;    /* these */
static uint64_t gate = 1; /* atomic: written under the client lock; counts how often the last of them was set */

static void forget(void)
{
    num_unset = 0;
    unset = NULL;
}

void sdi_event_unset(cl_event event)
{
    event->gate = gate;
    event->bar = event->object.id;
    event->next_unset = unset;
    unset = event;
    num_unset++;
}

void sdi_event_set(cl_event event)
{
    cl_event *at = &unset;
    while (*at != event)
        at = &(*at)->next_unset;
    *at = event->next_unset;
    if (--num_unset == 0)
        __atomic_store_n(&gate, gate + 1, __ATOMIC_RELAXED);
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
    if (event->is_done)
        return CL_COMPLETE;
    return event->is_given_up ? CL_OUT_OF_RESOURCES : sdi_slot_status(event->slot);
}

static void drop(void *object)
{
    cl_event event = object;
    const struct sdi_wire_header record = {.nbytes = sizeof record, .op = SDI_OP_RELEASE_EVENT, .id = event->object.id};
    sdi_send_quietly(&record, sizeof record);
    sdi_slot_release(event->slot);
    if (event->queue)
        sdi_unhold(event->queue);
    else if (event->user_status > 0)
        sdi_event_set(event);
    sdi_unhold(event->context);
}

SDI_AT_LOAD void register_all(void)
{
    sdi_register_fork(forget);
    sdi_register_drop(SDI_EVENT, drop);
}

SDI_COUNTED(Event, cl_event, SDI_EVENT, CL_INVALID_EVENT)
