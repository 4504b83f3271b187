/* The lander thread: reads notices, does the copies of non-blocking transfers, puts out what kernels printed,
 * passes callbacks on.
 *
 * Started at the first non-blocking transfer, watched event or queue of a context with a callback; never runs
 * code of the application. */
#include "client.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>

enum { NUM_BUCKETS = 1024, SWEEP_AFTER = 4096 };

/* By id; all under the client lock. */
static struct sdi_transfer *transfers[NUM_BUCKETS];
static cl_event watched[NUM_BUCKETS];
static size_t num_transfers, sweep_at = SWEEP_AFTER;
static size_t num_reads; /* transfers to the application's memory */
static bool started, running;
static pthread_t lander;

void sdi_lander_forget(void)
{
    memset(transfers, 0, sizeof transfers);
    memset(watched, 0, sizeof watched);
    num_transfers = num_reads = 0;
    sweep_at = SWEEP_AFTER;
    started = running = false;
}

bool sdi_on_lander(void)
{
    return __atomic_load_n(&running, __ATOMIC_ACQUIRE) && pthread_equal(lander, pthread_self());
}

/* ---- tables ------------------------------------------------------------------------------------------------ */

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

/* A transfer whose command failed before it could be copied is over; its notice may never come. */
static void sweep(void)
{
    for (size_t i = 0; i < NUM_BUCKETS; i++)
        for (struct sdi_transfer **at = &transfers[i]; *at;) {
            struct sdi_transfer *transfer = *at;
            if (transfer->busy || sdi_slot_status(transfer->slot) >= 0) {
                at = &transfer->next;
                continue;
            }
            *at = transfer->next;
            num_transfers--;
            num_reads -= !transfer->to_arena;
            if (!transfer->event)
                sdi_send_bare(SDI_OP_RELEASE_EVENT, transfer->id);
            let_go(transfer);
        }
}

void sdi_lander_add(struct sdi_transfer *transfer)
{
    struct sdi_transfer **bucket = &transfers[transfer->id % NUM_BUCKETS];
    if (num_transfers >= sweep_at) {
        sweep();
        sweep_at = num_transfers * 2 > SWEEP_AFTER ? num_transfers * 2 : SWEEP_AFTER;
    }
    transfer->next = *bucket;
    *bucket = transfer;
    num_transfers++;
    num_reads += !transfer->to_arena;
}

void sdi_lander_remove(struct sdi_transfer *transfer)
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

void sdi_lander_await(const struct sdi_object *released)
{
    while (is_left(released))
        sdi_await_change();
}

bool sdi_lander_is_busy(void)
{
    return num_transfers != 0;
}

bool sdi_lander_writes(void)
{
    return num_reads != 0;
}

void sdi_lander_watch(cl_event event)
{
    cl_event *bucket = &watched[event->object.id % NUM_BUCKETS];
    for (cl_event at = *bucket; at; at = at->next_watched)
        if (at == event)
            return;
    event->next_watched = *bucket;
    *bucket = event;
    sdi_hold(event);
}

/* ---- notices ----------------------------------------------------------------------------------------------- */

static void event_notice(uint64_t id, int status)
{
    sdi_lock();
    cl_event *at = &watched[id % NUM_BUCKETS];
    while (*at && (*at)->object.id != id)
        at = &(*at)->next_watched;
    cl_event event = *at;
    if (event) {
        int final = sdi_event_status(event);
        sdi_event_fire(event, final <= 0 ? final : status);
        if (!event->callbacks) {
            *at = event->next_watched;
            event->next_watched = NULL;
            sdi_unhold(event);
        }
    }
    sdi_unlock();
}

/* Copies what is ready of the transfer `id`, if it is one. */
static void transfer_notice(uint64_t id)
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
    int done = sdi_transfer_step(transfer);
    if (done == 0) {
        sdi_lock();
        transfer->busy = false;
        sdi_unlock();
        return;
    }
    struct {
        struct sdi_rec_transfer_done done;
        struct sdi_rec_release_event release;
    } records = {
        .done = {.nbytes = sizeof records.done, .op = SDI_OP_TRANSFER_DONE, .id = id},
        .release = {.nbytes = sizeof records.release, .op = SDI_OP_RELEASE_EVENT, .id = id},
    };
    _Static_assert(sizeof records == sizeof records.done + sizeof records.release, "two records in a row");
    sdi_lock();
    if (done > 0)
        sdi_send(&records, transfer->event ? sizeof records.done : sizeof records);
    else if (!transfer->event)
        sdi_send(&records.release, sizeof records.release);
    sdi_lander_remove(transfer);
    let_go(transfer);
    sdi_unlock();
}

/* What has been received and not been looked at. */
struct inbox {
    size_t begin, end;
    char bytes[16 << 10];
};

/* Makes at least `nbytes` available, of at most the size of the inbox; false: the service is gone.  `begun`: they are
 * not the first of a notice. */
static bool fill(struct inbox *inbox, size_t nbytes, bool begun)
{
    if (inbox->begin + nbytes > sizeof inbox->bytes) {
        memmove(inbox->bytes, inbox->bytes + inbox->begin, inbox->end - inbox->begin);
        inbox->end -= inbox->begin;
        inbox->begin = 0;
    }
    while (inbox->end - inbox->begin < nbytes) {
        if ((begun || inbox->end != inbox->begin) && !sdi_rest_comes(sdi_session.notices))
            return false;
        ssize_t n = recv(sdi_session.notices, inbox->bytes + inbox->end, sizeof inbox->bytes - inbox->end, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        inbox->end += (size_t)n;
    }
    return true;
}

/* Text of kernels, through the application's own stdio; then the launch may complete. */
static bool print_notice(struct inbox *inbox, const struct sdi_rec_notice *notice)
{
    size_t text = notice->text_nbytes, left = notice->nbytes - sizeof *notice;
    if (text > SDI_MAX_RECORD_NBYTES || left != sdi_padded(text))
        return false;
    while (left) {
        if (inbox->begin == inbox->end && !fill(inbox, 1, true))
            return false;
        size_t here = SDI_MIN(left, inbox->end - inbox->begin), printed = SDI_MIN(text, here);
        if (printed)
            fwrite(inbox->bytes + inbox->begin, 1, printed, stdout);
        inbox->begin += here;
        left -= here;
        text -= printed;
    }
    sdi_lock();
    sdi_send_status(SDI_OP_TRANSFER_DONE, notice->id, CL_SUCCESS);
    sdi_unlock();
    return true;
}

/* What went wrong with a command, for its context's callback. */
static bool failure_notice(struct inbox *inbox, const struct sdi_rec_notice *notice)
{
    size_t text = notice->text_nbytes, left = notice->nbytes - sizeof *notice;
    if (text > SDI_FAILURE_MAX_NBYTES || left != sdi_padded(text) || !fill(inbox, left, true))
        return false;
    sdi_context_failed(notice->id, inbox->bytes + inbox->begin, text);
    inbox->begin += left;
    return true;
}

/* The service is gone: every transfer is over, every watched event has failed. */
static void fail_all(void)
{
    sdi_session_died();
    sdi_lock();
    sweep();
    for (size_t i = 0; i < NUM_BUCKETS; i++)
        while (watched[i]) {
            cl_event event = watched[i];
            watched[i] = event->next_watched;
            event->next_watched = NULL;
            int status = sdi_event_status(event);
            sdi_event_fire(event, status > 0 ? CL_OUT_OF_RESOURCES : status);
            sdi_unhold(event);
        }
    sdi_unlock();
    static const char text[] = "sdi: the service has ended";
    sdi_context_failed(0, text, sizeof text - 1);
}

static void *run(void *argument)
{
    (void)argument;
    static struct inbox inbox;
    inbox.begin = inbox.end = 0;
    lander = pthread_self();
    __atomic_store_n(&running, true, __ATOMIC_RELEASE);
    pthread_setname_np(pthread_self(), "sdi-lander");
    struct sdi_rec_notice notice;
    while (fill(&inbox, sizeof notice, false)) {
        memcpy(&notice, inbox.bytes + inbox.begin, sizeof notice);
        inbox.begin += sizeof notice;
        if (notice.op != SDI_OP_NOTICE || notice.nbytes < sizeof notice)
            break;
        if (notice.kind == SDI_NOTICE_PRINTED) {
            if (!print_notice(&inbox, &notice))
                break;
            continue;
        }
        if (notice.kind == SDI_NOTICE_FAILED) {
            if (!failure_notice(&inbox, &notice))
                break;
            continue;
        }
        if (notice.nbytes != sizeof notice
            || (notice.kind != SDI_NOTICE_TRANSFER_READY && notice.kind != SDI_NOTICE_EVENT_STATUS))
            break;
        transfer_notice(notice.id);
        if (notice.kind == SDI_NOTICE_EVENT_STATUS)
            event_notice(notice.id, notice.status);
    }
    fail_all();
    return NULL;
}

cl_int sdi_lander_start(void)
{
    if (!started)
        started = sdi_start_thread(run, NULL) == 0;
    return started ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}
