/* Transfers under way that nobody waits for: the completion thread copies between the arena and the application's
 * memory what the service says is ready. */
#include "enqueue/enqueue.h"
#include "threads/threads.h"

enum { NUM_BUCKETS = 1024, SWEEP_AFTER = 4096 };

/* By id; all under the client lock. */
static struct sdi_transfer *transfers[NUM_BUCKETS];
static size_t num_transfers, sweep_at = SWEEP_AFTER;
static size_t num_reads; /* transfers to the application's memory */

static void forget(void)
{
    memset(transfers, 0, sizeof transfers);
    num_transfers = num_reads = 0;
    sweep_at = SWEEP_AFTER;
}

/* ---- copying --------------------------------------------------------------------------------------------------- */

int sdi_transfer_step(struct sdi_transfer *transfer)
{
    int status = sdi_slot_status(transfer->slot);
    if (status < 0)
        return status;
    const struct sdi_wire_slot *slot = &sdi_session.slots[transfer->slot];
    size_t ready = __atomic_load_n(&slot->ready_nbytes, __ATOMIC_ACQUIRE);
    ready = SDI_MIN(ready, transfer->total);
    if (ready && slot->packed_at) {
        sdi_copy_packed(transfer, sdi_session.arena + slot->packed_at);
        transfer->copied = transfer->total;
    } else if (transfer->region[1] == 1 && transfer->region[2] == 1 && !sdi_copy_overlaps(transfer)) {
        sdi_copy_run(transfer->root, transfer->offset + transfer->copied, transfer->host + transfer->copied,
                     ready - transfer->copied, transfer->to_arena);
        transfer->copied = ready;
    } else if (ready == transfer->total) {
        sdi_copy_box(transfer);
        transfer->copied = ready;
    }
    return transfer->copied == transfer->total;
}

void sdi_transfer_end(uint64_t id, int step, bool has_event)
{
    struct {
        struct sdi_rec_transfer_done done;
        struct sdi_rec_release_event release;
    } records = {
        .done = {.nbytes = sizeof records.done, .op = SDI_OP_TRANSFER_DONE, .id = id},
        .release = {.nbytes = sizeof records.release, .op = SDI_OP_RELEASE_EVENT, .id = id},
    };
    _Static_assert(sizeof records == sizeof records.done + sizeof records.release, "two records in a row");
    if (step == SDI_INTERRUPTED)
        records.done.status = CL_OUT_OF_RESOURCES;
    if (step > 0 || step == SDI_INTERRUPTED)
        sdi_send(&records, has_event ? sizeof records.done : sizeof records);
    else if (!has_event)
        sdi_send(&records.release, sizeof records.release);
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

static void let_go(struct sdi_transfer *transfer)
{
    if (transfer->event)
        sdi_unhold(transfer->event);
    else
        sdi_slot_release(transfer->slot);
    sdi_unhold(transfer->root);
    sdi_unhold(transfer->queue);
    free(transfer);
    sdi_tell_change();
}

/* Client lock held.  A transfer whose command failed before it could be copied is over; its notice may never come.
 * `all`: so are those that nobody copies at the moment. */
static void sweep(bool all)
{
    for (size_t i = 0; i < NUM_BUCKETS; i++)
        for (struct sdi_transfer **at = &transfers[i]; *at;) {
            struct sdi_transfer *transfer = *at;
            if (transfer->busy || (!all && sdi_slot_status(transfer->slot) >= 0)) {
                at = &transfer->next;
                continue;
            }
            *at = transfer->next;
            num_transfers--;
            num_reads -= !transfer->to_arena;
            if (all && transfer->event)
                transfer->event->is_given_up = true;
            sdi_transfer_end(transfer->id, all ? SDI_INTERRUPTED : CL_OUT_OF_RESOURCES, transfer->event != NULL);
            let_go(transfer);
        }
}

void sdi_pending_add(struct sdi_transfer *transfer)
{
    struct sdi_transfer **bucket = &transfers[transfer->id % NUM_BUCKETS];
    if (num_transfers >= sweep_at) {
        sweep(false);
        sweep_at = num_transfers * 2 > SWEEP_AFTER ? num_transfers * 2 : SWEEP_AFTER;
    }
    transfer->next = *bucket;
    *bucket = transfer;
    num_transfers++;
    num_reads += !transfer->to_arena;
}

void sdi_pending_remove(struct sdi_transfer *transfer)
{
    struct sdi_transfer **at = &transfers[transfer->id % NUM_BUCKETS];
    while (*at && *at != transfer)
        at = &(*at)->next;
    if (*at) {
        *at = transfer->next;
        num_transfers--;
        num_reads -= !transfer->to_arena;
    }
}

bool sdi_pending_any(void)
{
    return num_transfers != 0;
}

bool sdi_pending_reads(void)
{
    return num_reads != 0;
}

/* ---- the completion thread ------------------------------------------------------------------------------------ */

void sdi_pending_ready(uint64_t id)
{
    sdi_lock();
    struct sdi_transfer *transfer = transfers[id % NUM_BUCKETS];
    while (transfer && transfer->id != id)
        transfer = transfer->next;
    if (transfer)
        transfer->busy = true;
    sdi_unlock();
    if (!transfer)
        return;
    int step = sdi_transfer_step(transfer);
    sdi_lock();
    if (step == 0) {
        transfer->busy = false;
    } else {
        sdi_transfer_end(id, step, transfer->event != NULL);
        sdi_pending_remove(transfer);
        let_go(transfer);
    }
    sdi_unlock();
}

static bool on_ready(const struct sdi_rec_notice *notice, const char *text)
{
    (void)text;
    sdi_pending_ready(notice->id);
    return true;
}

/* The service is gone: every transfer is over. */
static void on_end(void)
{
    sdi_lock();
    sweep(false);
    sdi_unlock();
}

/* The application may leave the memory that is copied from and to. */
static void give_up(void)
{
    sdi_lock();
    sweep(true);
    sdi_unlock();
}

/* ---- releases --------------------------------------------------------------------------------------------------- */

static bool concerns(const struct sdi_transfer *transfer, const struct sdi_object *object)
{
    if (object->kind == SDI_BUFFER)
        return transfer->root == ((cl_mem)object)->root;
    if (object->kind == SDI_QUEUE)
        return transfer->queue == (cl_command_queue)object;
    return transfer->root->context == (cl_context)object;
}

static bool is_left(const struct sdi_object *released)
{
    for (size_t i = 0; num_transfers && i < NUM_BUCKETS; i++)
        for (const struct sdi_transfer *at = transfers[i]; at; at = at->next)
            if (concerns(at, released) && (at->busy || (!sdi_is_gated(at->gate) && sdi_slot_status(at->slot) >= 0)))
                return true;
    return false;
}

/* The application gave up its last reference to a queue, a context or a buffer in memory of its own: waits for copies
 * from and to the application's memory that belong to it, as the application may now do as it likes with that.  Not for
 * those that wait for a user event: only the application can end that wait, and it may be this thread that does. */
static void await(void *released)
{
    while (is_left(released))
        sdi_await_change();
}

static void await_buffer(void *released)
{
    cl_mem root = ((cl_mem)released)->root;
    if (root->host_ptr)
        await(released);
    if (!root->hosted)
        return;
    sdi_unlock();
    sdi_host_released(root);
    sdi_lock();
}

SDI_AT_LOAD void register_all(void)
{
    sdi_register_fork(forget);
    sdi_register_notice(SDI_NOTICE_TRANSFER_READY, on_ready, on_end);
    sdi_register_interrupt(give_up);
    sdi_register_released(SDI_QUEUE, await);
    sdi_register_released(SDI_CONTEXT, await);
    sdi_register_released(SDI_BUFFER, await_buffer);
}
