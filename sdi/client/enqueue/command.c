/* Enqueueing: a command is one record, built on the caller's stack and sent by one send(). */
#include "enqueue/enqueue.h"
#include "threads/threads.h"

cl_int sdi_check_waits(cl_context context, struct sdi_waits waits)
{
    if ((waits.num == 0) != (waits.events == NULL))
        return CL_INVALID_EVENT_WAIT_LIST;
    for (cl_uint i = 0; i < waits.num; i++)
        if (!sdi_is_event(waits.events[i]))
            return CL_INVALID_EVENT_WAIT_LIST;
    for (cl_uint i = 0; i < waits.num; i++)
        if (waits.events[i]->context != context)
            return CL_INVALID_CONTEXT;
    return CL_SUCCESS;
}

void *sdi_record_open(struct sdi_record *record, uint32_t op, size_t fixed_nbytes, struct sdi_waits waits, bool keep,
                      size_t tail_nbytes)
{
    size_t nbytes = fixed_nbytes + 8 * (size_t)waits.num + sdi_padded(tail_nbytes);
    size_t room = nbytes + sizeof(struct sdi_rec_release_event); /* sdi_enqueue may append one */
    record->at = (unsigned char *)record->small;
    if (room > sizeof record->small)
        record->at = room > SDI_MAX_RECORD_NBYTES ? NULL : malloc(room);
    if (!record->at)
        return NULL;
    memset(record->at, 0, fixed_nbytes);
    struct sdi_rec_marker *head = (struct sdi_rec_marker *)record->at; /* all commands begin like this */
    uint64_t *ids = (uint64_t *)(record->at + fixed_nbytes);
    uint32_t num = 0;
    record->gate = record->bar = 0;
    for (cl_uint i = 0; i < waits.num; i++) {
        bool is_complete = sdi_event_status(waits.events[i]) == CL_COMPLETE;
        if (keep || !is_complete)
            ids[num++] = waits.events[i]->object.id;
        if (is_complete)
            continue;
        record->gate = SDI_MAX(record->gate, waits.events[i]->gate);
        if (waits.events[i]->bar)
            record->bar = waits.events[i]->bar;
    }
    record->tail = record->at + fixed_nbytes + 8 * num;
    record->nbytes = fixed_nbytes + 8 * num + sdi_padded(tail_nbytes);
    if (tail_nbytes % 8)
        memset(record->at + record->nbytes - 8, 0, 8);
    head->nbytes = (uint32_t)record->nbytes;
    head->op = op;
    head->num_waits = num;
    return head;
}

void sdi_record_cut(struct sdi_record *record, size_t tail_nbytes)
{
    record->nbytes = (size_t)(record->tail - record->at) + tail_nbytes;
    ((struct sdi_wire_header *)record->at)->nbytes = (uint32_t)record->nbytes;
}

void sdi_record_close(struct sdi_record *record)
{
    if (record->at != (unsigned char *)record->small)
        free(record->at);
}

/* Client lock held.  Whether the service may not have come to a write of the buffer that nobody waits for. */
static bool has_quiet(cl_mem root, cl_command_queue queue)
{
    return root->quiet_id && (root->quiet_queue != queue->object.id || queue->reached_id <= root->quiet_id);
}

/* Client lock held. */
static cl_int send_command(struct sdi_record *record, struct sdi_command *command)
{
    struct sdi_rec_marker *head = (struct sdi_rec_marker *)record->at;
    cl_event event = NULL;
    if (!sdi_session.running || sdi_session_dead())
        return CL_OUT_OF_RESOURCES;
    if (command->early && (sdi_any_busy() || has_quiet(command->early->root, command->queue)))
        return SDI_BUSY;
    if (command->transfer && sdi_completion_start() != CL_SUCCESS)
        return CL_OUT_OF_HOST_MEMORY;
    command->slot = 0;
    command->gate = SDI_MAX(record->gate, command->queue->gate);
    command->bar = record->bar;
    if (!sdi_is_barred(command->bar) && !(command->queue->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))
        command->bar = command->queue->bar;
    if (command->wants_event || command->wants_slot) {
        command->slot = sdi_slot_new(CL_QUEUED);
        if (!command->slot)
            return CL_OUT_OF_RESOURCES;
    }
    if (command->wants_event) {
        event = sdi_new(SDI_EVENT);
        if (!event) {
            sdi_session.slots[command->slot].status = CL_COMPLETE;
            sdi_slot_release(command->slot);
            return CL_OUT_OF_HOST_MEMORY;
        }
        event->context = command->queue->context;
        event->queue = command->queue;
        event->type = command->type;
        event->slot = command->slot;
        event->gate = command->gate;
        event->bar = command->bar;
        event->profiling = (command->queue->properties & CL_QUEUE_PROFILING_ENABLE) != 0;
        if (command->there_ns)
            sdi_session.slots[command->slot].queued_ns = command->there_ns;
        sdi_hold(event->context);
        sdi_hold(event->queue);
        command->id = event->object.id;
    } else {
        command->id = sdi_next_id();
    }
    command->event = event;
    head->id = command->id;
    head->queue = command->queue->object.id;
    /* What comes after it finds it done: all records are acted on in their order, and it waits for no command. */
    bool is_over = command->there_ns && !command->queue->is_busy;
    head->slot = is_over ? 0 : command->slot;
    size_t nbytes = record->nbytes;
    if (command->forget && command->slot && !event) {
        struct sdi_rec_release_event release = {
            .nbytes = sizeof release,
            .op = SDI_OP_RELEASE_EVENT,
            .id = command->id,
        };
        memcpy(record->at + nbytes, &release, sizeof release);
        nbytes += sizeof release;
    }
    struct sdi_transfer *transfer = command->transfer;
    if (transfer) {
        transfer->id = command->id;
        transfer->slot = command->slot;
        transfer->event = event;
        transfer->queue = command->queue;
        transfer->gate = command->gate;
        if (event)
            sdi_hold(event);
        sdi_hold(transfer->queue);
        sdi_hold(transfer->root);
        sdi_pending_add(transfer);
    }
    if (command->early) {
        ((struct sdi_rec_write *)record->at)->written_ns = command->there_ns;
        sdi_copy_box(command->early);
    }
    if (command->quiet)
        ((struct sdi_rec_write *)record->at)->is_mapped = command->quiet->was_mapped;
    cl_int status = is_over && !sdi_has_staged_much() ? sdi_send_quietly(record->at, nbytes) : sdi_send(record->at, nbytes);
    if (!status) {
        if (command->holds)
            sdi_hold(command->holds);
        if (command->quiet) {
            command->quiet->quiet_id = command->id;
            command->quiet->quiet_queue = command->queue->object.id;
        }
        if (is_over && command->slot) {
            sdi_slot_is_over(command->slot, command->there_ns);
        } else if (!is_over) {
            sdi_queue_is_busy(command->queue, true);
            if (command->shows)
                sdi_queue_shows(command->queue, command->id);
            command->queue->last_id = command->id;
            command->queue->gate = command->gate;
            command->queue->bar = command->bar;
        }
        if (command->uses)
            sdi_host_used(command->uses, event);
        return CL_SUCCESS;
    }
    if (transfer) {
        sdi_pending_remove(transfer);
        sdi_unhold(transfer->root);
        sdi_unhold(transfer->queue);
        if (event)
            sdi_unhold(event);
    }
    if (event)
        sdi_discard(event);
    else if (command->slot)
        sdi_slot_release(command->slot);
    return status;
}

cl_int sdi_enqueue(struct sdi_record *record, struct sdi_command *command)
{
    cl_int status = CL_OUT_OF_RESOURCES;
    if (sdi_await_room()) {
        sdi_lock();
        status = send_command(record, command);
        sdi_unlock();
    }
    if (status == SDI_BUSY)
        return status;
    sdi_record_close(record);
    if (status)
        sdi_host_unuse(command->uses);
    return status;
}

cl_int sdi_enqueue_alone(struct sdi_record *record, struct sdi_command *command, bool is_awaited, cl_event *event)
{
    command->wants_event = event != NULL;
    command->wants_slot = command->forget = is_awaited;
    cl_int status = sdi_enqueue(record, command);
    if (status)
        return status;
    if (is_awaited)
        return sdi_finish_blocking(command, sdi_slot_await(command->slot), event);
    if (event)
        *event = command->event;
    return CL_SUCCESS;
}

cl_int sdi_enqueue_using(struct sdi_record *record, cl_command_queue queue, cl_uint type, struct sdi_use *uses,
                         cl_event *event)
{
    struct sdi_command command = {.queue = queue, .type = type, .wants_event = event || uses, .uses = uses};
    cl_int status = sdi_enqueue(record, &command);
    if (!status && event)
        *event = command.event;
    else if (!status && command.event)
        sdi_release(command.event, SDI_EVENT, CL_INVALID_EVENT);
    return status;
}

static unsigned num_showing; /* queues; client lock */

static void forget_showing(void)
{
    num_showing = 0;
}

SDI_AT_FORK(forget_showing)

void sdi_queue_shows(cl_command_queue queue, uint64_t id)
{
    num_showing += !queue->shows_id && id;
    num_showing -= queue->shows_id && !id;
    queue->shows_id = id;
}

bool sdi_any_shows(void)
{
    return num_showing != 0;
}

void sdi_queue_reached(cl_command_queue queue, uint64_t id)
{
    if (!(queue->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))
        sdi_queue_finished(queue, id);
}

void sdi_queue_finished(cl_command_queue queue, uint64_t id)
{
    if (id >= queue->shows_id)
        sdi_queue_shows(queue, 0);
    if (id > queue->reached_id)
        queue->reached_id = id;
    if (id == queue->last_id)
        sdi_queue_is_busy(queue, false);
}

cl_int sdi_finish_blocking(struct sdi_command *command, cl_int status, cl_event *event)
{
    if (command->uses && status >= 0)
        status = sdi_slot_await(command->slot);
    sdi_lock();
    if (command->event && status >= 0) /* copied, and the service was told: nothing that it says is waited for */
        command->event->is_done = true;
    if (command->holds)
        sdi_unhold(command->holds);
    if (!command->event)
        sdi_slot_release(command->slot);
    if (status >= 0)
        sdi_queue_reached(command->queue, command->id);
    sdi_unlock();
    if (status != SDI_INTERRUPTED)
        sdi_host_show();
    if (command->event && status < 0)
        sdi_release(command->event, SDI_EVENT, CL_INVALID_EVENT);
    else if (command->event)
        *event = command->event;
    if (status >= 0)
        return CL_SUCCESS;
    return status == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST ? status : CL_OUT_OF_RESOURCES;
}

/* ---- markers and barriers ---------------------------------------------------------------------------------- */

/* `keep`: an empty wait list means every command before. */
static cl_int mark(cl_command_queue queue, uint32_t op, cl_uint type, struct sdi_waits waits, bool keep,
                   cl_event *event)
{
    struct sdi_record record;
    _Static_assert(sizeof(struct sdi_rec_marker) == sizeof(struct sdi_rec_barrier), "markers and barriers");
    if (!sdi_record_open(&record, op, sizeof(struct sdi_rec_marker), waits, keep, 0))
        return CL_OUT_OF_HOST_MEMORY;
    return sdi_enqueue_using(&record, queue, type, NULL, event);
}

cl_int sdi_mark(cl_command_queue queue, cl_uint type, struct sdi_waits waits, cl_event *event)
{
    return mark(queue, SDI_OP_MARKER, type, waits, true, event);
}

static cl_int check_and_mark(cl_command_queue queue, uint32_t op, cl_uint type, struct sdi_waits waits,
                             cl_event *event)
{
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    cl_int status = sdi_check_waits(queue->context, waits);
    return status ? status : mark(queue, op, type, waits, true, event);
}

cl_int sdi_clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint num, const cl_event *list, cl_event *event)
{
    return check_and_mark(queue, SDI_OP_MARKER, CL_COMMAND_MARKER, (struct sdi_waits){num, list}, event);
}

cl_int sdi_clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint num, const cl_event *list, cl_event *event)
{
    return check_and_mark(queue, SDI_OP_BARRIER, CL_COMMAND_BARRIER, (struct sdi_waits){num, list}, event);
}

cl_int sdi_clEnqueueMarker(cl_command_queue queue, cl_event *event)
{
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    if (!event)
        return CL_INVALID_VALUE;
    return mark(queue, SDI_OP_MARKER, CL_COMMAND_MARKER, (struct sdi_waits){0, NULL}, true, event);
}

cl_int sdi_clEnqueueBarrier(cl_command_queue queue)
{
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    return mark(queue, SDI_OP_BARRIER, CL_COMMAND_BARRIER, (struct sdi_waits){0, NULL}, true, NULL);
}

cl_int sdi_clEnqueueWaitForEvents(cl_command_queue queue, cl_uint num, const cl_event *list)
{
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    if (num == 0 || !list)
        return CL_INVALID_VALUE;
    cl_int status = sdi_check_waits(queue->context, (struct sdi_waits){num, list});
    if (status)
        return status == CL_INVALID_EVENT_WAIT_LIST ? CL_INVALID_EVENT : status;
    return mark(queue, SDI_OP_BARRIER, CL_COMMAND_BARRIER, (struct sdi_waits){num, list}, true, NULL);
}

/* To a member, or the host (0). */
static cl_int migrate(cl_command_queue queue, cl_uint type, uint32_t member, cl_uint num, const struct sdi_extent *places,
                      struct sdi_waits waits, cl_event *event)
{
    struct sdi_record record;
    size_t nbytes = 3 * sizeof(uint64_t) * (size_t)num;
    struct sdi_rec_migrate *body = sdi_record_open(&record, SDI_OP_MIGRATE, sizeof *body, waits, false, nbytes);
    if (!body)
        return CL_OUT_OF_HOST_MEMORY;
    body->num_places = num;
    body->member = member;
    uint64_t *place = (uint64_t *)record.tail;
    for (cl_uint i = 0; i < num; i++) {
        sdi_named(places[i].memory);
        *place++ = places[i].memory->root->object.id;
        *place++ = places[i].memory->origin + places[i].offset;
        *place++ = places[i].nbytes;
    }
    return sdi_enqueue_using(&record, queue, type, NULL, event);
}

cl_int sdi_migrate(cl_command_queue queue, cl_uint type, cl_uint num, const struct sdi_extent *places, cl_ulong flags,
                   struct sdi_waits waits, cl_event *event)
{
    uint32_t member = flags & CL_MIGRATE_MEM_OBJECT_HOST ? 0 : sdi_queue_member(queue);
    if (!(flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED) && (member || flags))
        return migrate(queue, type, member, num, places, waits, event);
    return sdi_mark(queue, type, waits, event);
}

cl_int sdi_clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint num_objects, const cl_mem *objects,
                                      cl_ulong flags, cl_uint num, const cl_event *list, cl_event *event)
{
    struct sdi_waits waits = {num, list};
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    if (num_objects == 0 || !objects || flags & ~CL_MIGRATE_MEM_OBJECT_KNOWN)
        return CL_INVALID_VALUE;
    for (cl_uint i = 0; i < num_objects; i++) {
        if (!sdi_is_mem(objects[i]))
            return CL_INVALID_MEM_OBJECT;
        if (objects[i]->context != queue->context)
            return CL_INVALID_CONTEXT;
    }
    cl_int status = sdi_check_waits(queue->context, waits);
    if (status)
        return status;
    struct sdi_extent *places = malloc(num_objects * sizeof *places);
    if (!places)
        return CL_OUT_OF_HOST_MEMORY;
    for (cl_uint i = 0; i < num_objects; i++)
        places[i] = (struct sdi_extent){objects[i], 0, objects[i]->nbytes};
    status = sdi_migrate(queue, CL_COMMAND_MIGRATE_MEM_OBJECTS, num_objects, places, flags, waits, event);
    free(places);
    return status;
}
