/* Memory of the application that buffers use, where the image has CPU members: as on their drivers, kernels and the
 * application see one memory without a map.  What the application changed is *taken* before a command is sent that
 * names the bytes; what commands changed is *shown* before the application is told that one is complete.
 *
 * A snapshot of each such buffer holds the bytes that both sides agreed on last.  A *use* is a command that may write,
 * or a kernel that may read, from when it is sent until a call told the application of its completion.  Bytes without a
 * use are in arena and snapshot alike, so whatever differs from them is the application's and can be written to the
 * arena at once, in whole pages: so what commands wrote is shown whatever the host-access flags say.  While a use is
 * there nothing is taken: to the plain driver that would be a race.  What the application writes meanwhile is not lost:
 * only bytes that commands changed are written to its memory, if it did not change them too, and the others are taken
 * by the first command after the use.
 *
 * design/0017 says why. */
#include "objects/hosted.h"
#include "threads/threads.h"

#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* MAX_RUNS: so many runs of changed pages are written at a time, or what lies between is written too. */
enum { MAX_RUNS = 64 };

struct sdi_host sdi_host = {.busy = PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t batch = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static void forget(void)
{
    sdi_host = (struct sdi_host){.busy = PTHREAD_MUTEX_INITIALIZER};
    batch = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

void sdi_batch_begins(void)
{
    pthread_mutex_lock(&batch);
}

void sdi_batch_ends(void)
{
    pthread_mutex_unlock(&batch);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static void copy_to_snapshot(const void *work, size_t piece)
{
    struct sdi_span span = sdi_piece_of(work, piece);
    char *to = span.root->hosted->snapshot + span.begin;
    madvise(to, span.end - span.begin, MADV_POPULATE_WRITE); /* or page by page */
    memcpy(to, span.root->host_ptr + span.begin, span.end - span.begin);
}

cl_int sdi_host_new(cl_mem root)
{
    bool is_seen = root->context->limits.type & CL_DEVICE_TYPE_CPU && !(root->flags & CL_MEM_HOST_NO_ACCESS);
    if (!is_seen && !root->is_region)
        return CL_SUCCESS;
    struct sdi_hosted *hosted = calloc(1, sizeof *hosted);
    const size_t num_pages = root->nbytes / SDI_PAGE_NBYTES + 1;
    uint8_t *changed = calloc(num_pages, 1);
    void *snapshot = mmap(NULL, root->nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!hosted || !changed || snapshot == MAP_FAILED) {
        if (snapshot != MAP_FAILED)
            munmap(snapshot, root->nbytes);
        free(changed);
        free(hosted);
        return CL_OUT_OF_HOST_MEMORY;
    }
    hosted->snapshot = snapshot;
    hosted->changed = changed;
    hosted->written = root->is_watched ? calloc(num_pages, 1) : NULL;
    if (root->is_watched && !hosted->written)
        root->is_watched = false;
    root->hosted = hosted;
    struct sdi_span all = {root, 0, root->nbytes, NULL};
    sdi_copy_pieces(copy_to_snapshot, &all, sdi_num_pieces(&all));
    sdi_copy_run(root, 0, snapshot, root->nbytes, true);
    return CL_SUCCESS;
}

char *sdi_host_snapshot(cl_mem root)
{
    return root->hosted->snapshot;
}

void sdi_host_drop(cl_mem root)
{
    if (root->is_watched && !root->is_region)
        sdi_host_unwatch(root);
    munmap(root->hosted->snapshot, root->nbytes);
    free(root->hosted->changed);
    free(root->hosted->written);
    free(root->hosted);
}

/* ---- taking ---------------------------------------------------------------------------------------------------- */

/* Client lock held.  Whether a use may have begun; the application was not told of its end. */
static bool is_in_use(const struct sdi_use *use)
{
    return !sdi_is_barred(use->first->bar);
}

/* Client lock held.  The first bytes of the span that no use has; false: there are none. */
static bool find_unused(struct sdi_span *span)
{
    const struct sdi_use *uses = span->root->hosted->uses;
    for (bool moved = true; moved;) {
        moved = false;
        for (const struct sdi_use *use = uses; use; use = use->next)
            if (use->begin <= span->begin && span->begin < use->end && is_in_use(use)) {
                span->begin = use->end;
                moved = true;
            }
    }
    for (const struct sdi_use *use = uses; use; use = use->next)
        if (span->begin < use->begin && use->begin < span->end && is_in_use(use))
            span->end = use->begin;
    return span->begin < span->end;
}

static void take_piece(const void *work, size_t piece)
{
    struct sdi_span span = sdi_piece_of(work, piece);
    struct sdi_hosted *hosted = span.root->hosted;
    uint64_t compared = 0, copied = 0;
    for (size_t at = span.begin, end; at < span.end; at = end) {
        end = sdi_page_end(at, span.end);
        if (span.written && !span.written[at / SDI_PAGE_NBYTES])
            continue;
        compared += end - at;
        char *snapshot = hosted->snapshot + at, *host = span.root->host_ptr + at;
        if (!span.root->is_batch && memcmp(snapshot, host, end - at) == 0)
            continue;
        memcpy(snapshot, host, end - at); /* it may yet change: arena and snapshot must not differ */
        memcpy(span.root->bytes + at, snapshot, end - at);
        __atomic_store_n(&hosted->changed[at / SDI_PAGE_NBYTES], 1, __ATOMIC_RELAXED); /* pieces may share a page */
        copied += end - at;
    }
    sdi_host_count(compared, copied);
}

/* The next run of changed pages from `*at` on in which at most `gap` unchanged ones follow each other, and none is missing. */
static bool next_run(cl_mem root, size_t *at, size_t end, size_t gap, size_t *stop)
{
    const uint8_t *changed = root->hosted->changed;
    while (*at < end && !changed[*at])
        ++*at;
    *stop = *at;
    for (size_t page = *at; page < end && page - *stop <= gap && !sdi_lazy_lacks(root, page); page++)
        if (changed[page])
            *stop = page + 1;
    return *at < end;
}

/* Client lock held. */
bool sdi_host_have_queue(int number)
{
    uint64_t *queue = &sdi_host.queues[number];
    struct sdi_rec_create_queue record = {
        .nbytes = sizeof record,
        .op = SDI_OP_CREATE_QUEUE,
        .properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE,
        .unasked = number == SDI_HOST_FREE ? 1 : 2,
    };
    if (*queue)
        return true;
    record.id = sdi_next_id();
    if (sdi_send(&record, sizeof record) == CL_SUCCESS)
        *queue = record.id;
    return *queue != 0;
}

/* Client lock held.  Tells the service that bytes in the arena are new. */
static void send_written_early(const struct sdi_span *span, uint64_t since_ns)
{
    struct sdi_rec_write record = {
        .nbytes = sizeof record,
        .op = SDI_OP_WRITE,
        .id = sdi_next_id(),
        .queue = sdi_host.queues[SDI_HOST_FIRST],
        .buffer = span->root->object.id,
        .offset = span->begin,
        .region = {span->end - span->begin, 1, 1},
        .unasked = 1,
        .written_ns = since_ns,
    };
    sdi_send(&record, sizeof record);
}

void sdi_host_tell_all(cl_mem root)
{
    struct sdi_span all = {root, 0, root->nbytes, NULL};
    sdi_lock();
    if (sdi_host_have_queue(SDI_HOST_FIRST))
        send_written_early(&all, sdi_now_ns());
    sdi_unlock();
}

static void take_span(struct sdi_span *span)
{
    uint64_t since_ns = sdi_now_ns();
    struct sdi_hosted *hosted = span->root->hosted;
    uint8_t *changed = hosted->changed;
    size_t first = span->begin / SDI_PAGE_NBYTES, end = (span->end - 1) / SDI_PAGE_NBYTES + 1;
    sdi_host_watch(span->root);
    if (hosted->written && sdi_pages_written(span->root, span->begin, span->end, hosted->written))
        span->written = hosted->written;
    sdi_host_watched(span);
    sdi_copy_pieces(take_piece, span, sdi_num_pieces(span));
    if (span->written)
        sdi_pages_taken(span->root, span->begin, span->end, hosted->written);
    size_t num, gap = 0;
    for (;; gap = 4 * gap + 1) {
        num = 0;
        for (size_t at = first, stop; next_run(span->root, &at, end, gap, &stop); at = stop)
            num++;
        if (num <= MAX_RUNS || gap > end - first)
            break;
    }
    hosted->num_same = num ? 0 : SDI_MIN(hosted->num_same + 1, UINT8_MAX);
    sdi_lock();
    if (num && sdi_host_have_queue(SDI_HOST_FIRST))
        for (size_t at = first, stop; next_run(span->root, &at, end, gap, &stop); at = stop) {
            struct sdi_span run = {
                .root = span->root,
                .begin = SDI_MAX(at * SDI_PAGE_NBYTES, span->begin),
                .end = SDI_MIN(stop * SDI_PAGE_NBYTES, span->end),
            };
            send_written_early(&run, since_ns);
        }
    sdi_unlock();
    if (num)
        memset(changed + first, 0, end - first);
}

/* Busy lock held. */
static void take_all(struct sdi_span span)
{
    for (size_t end = span.end;; span = (struct sdi_span){span.root, span.end, end, NULL}) {
        sdi_lock();
        bool some = find_unused(&span);
        sdi_unlock();
        if (!some)
            return;
        take_span(&span);
    }
}

/* Busy lock held.  Whether the application changed bytes of the span, as far as they are not missing. */
static bool is_changed(const struct sdi_span *span)
{
    struct sdi_hosted *hosted = span->root->hosted;
    uint8_t *written = hosted->written;
    if (written && !sdi_pages_written(span->root, span->begin, span->end, written))
        written = NULL;
    for (size_t at = span->begin, end; at < span->end; at = end) {
        end = sdi_page_end(at, span->end);
        const size_t page = at / SDI_PAGE_NBYTES;
        if ((!written || written[page]) && !sdi_lazy_lacks(span->root, page)
            && memcmp(hosted->snapshot + at, span->root->host_ptr + at, end - at) != 0)
            return true;
    }
    return false;
}

/* Client lock held.  Held: the last event of a use of these bytes that the application need not do anything for; or NULL. */
static cl_event find_under_way(const struct sdi_span *span)
{
    for (const struct sdi_use *use = span->root->hosted->uses; use; use = use->next)
        if (use->begin < span->end && span->begin < use->end && sdi_event_status(use->last) > 0
            && !sdi_is_gated(use->last->gate)) {
            sdi_hold(use->last);
            return use->last;
        }
    return NULL;
}

/* Of a region the application may write bytes that the commands under way don't use, and the next command sees them.  As
 * bytes are taken by pages, these have to end first. */
static void settle(const struct sdi_span *span)
{
    sdi_lock();
    bool is_used = false;
    for (const struct sdi_use *use = span->root->hosted->uses; use && !is_used; use = use->next)
        is_used = use->begin < span->end && span->begin < use->end && is_in_use(use);
    sdi_unlock();
    if (!is_used)
        return;
    pthread_mutex_lock(&sdi_host.busy);
    bool has_to_wait = span->root->is_batch || is_changed(span);
    pthread_mutex_unlock(&sdi_host.busy);
    if (!has_to_wait)
        return;
    bool is_given_up = false;
    sdi_lock();
    for (cl_event event; !is_given_up && (event = find_under_way(span)) != NULL; sdi_unhold(event)) {
        sdi_unlock();
        is_given_up = sdi_slot_await(event->slot) == SDI_INTERRUPTED;
        sdi_lock();
    }
    sdi_unlock();
    sdi_host_show();
}

void sdi_host_take(cl_mem buffer, size_t offset, size_t nbytes)
{
    cl_mem root = buffer->root;
    if (!root->hosted || root->flags & CL_MEM_HOST_READ_ONLY || nbytes == 0)
        return;
    struct sdi_span span = {root, buffer->origin + offset, buffer->origin + offset + nbytes, NULL}, some = span;
    if (root->is_batch)
        sdi_batch_begins();
    if (root->is_region)
        settle(&span);
    sdi_lock();
    bool is_needed = find_unused(&some);
    sdi_unlock();
    if (is_needed) {
        pthread_mutex_lock(&sdi_host.busy);
        take_all(span);
        pthread_mutex_unlock(&sdi_host.busy);
    }
    if (root->is_batch)
        sdi_batch_ends();
}

/* What was written to a block (faults.c), while commands are no reason to. */
static bool take_early(cl_mem region, size_t begin, size_t end)
{
    if (pthread_mutex_trylock(&sdi_host.busy) != 0)
        return false;
    sdi_lazy_written(region, begin, end, region->hosted->written);
    take_all((struct sdi_span){region, begin, end, NULL});
    pthread_mutex_unlock(&sdi_host.busy);
    return true;
}

SDI_AT_LOAD void register_all(void)
{
    sdi_register_fork(forget);
    sdi_register_take(take_early);
}

bool sdi_host_is_used(void)
{
    return __atomic_load_n(&sdi_host.num_used, __ATOMIC_RELAXED) != 0;
}

bool sdi_host_gate(void)
{
    if (!sdi_host_is_used())
        return false;
    pthread_mutex_lock(&sdi_host.busy); /* so the list is only added to, and roots in it live */
    sdi_lock();
    cl_mem root = sdi_host.used;
    sdi_unlock();
    for (; root; root = root->hosted->next) {
        struct sdi_span span = {root, SIZE_MAX, 0, NULL};
        sdi_lock();
        for (const struct sdi_use *use = root->hosted->uses; use; use = use->next)
            if (!is_in_use(use)) {
                span.begin = SDI_MIN(span.begin, use->begin);
                span.end = SDI_MAX(span.end, use->end);
            }
        sdi_unlock();
        if (span.end && !(root->flags & CL_MEM_HOST_READ_ONLY))
            take_all(span);
    }
    return true;
}

void sdi_host_gate_end(void)
{
    pthread_mutex_unlock(&sdi_host.busy);
}

/* ---- uses ------------------------------------------------------------------------------------------------------ */

cl_int sdi_host_use(struct sdi_use **uses, cl_mem buffer, size_t offset, size_t nbytes, bool writes)
{
    cl_mem root = buffer->root;
    size_t begin = buffer->origin + offset;
    if (!root->hosted || nbytes == 0)
        return CL_SUCCESS;
    struct sdi_use *use = malloc(sizeof *use);
    if (!use)
        return CL_OUT_OF_HOST_MEMORY;
    sdi_host_take(buffer, offset, nbytes);
    sdi_lock();
    sdi_hold(root);
    sdi_unlock();
    *use = (struct sdi_use){.next = *uses, .root = root, .begin = begin, .end = begin + nbytes, .writes = writes};
    *uses = use;
    return CL_SUCCESS;
}

void sdi_host_unuse(struct sdi_use *uses)
{
    sdi_lock();
    while (uses) {
        struct sdi_use *use = uses;
        uses = use->next;
        sdi_unhold(use->root);
        free(use);
    }
    sdi_unlock();
}

/* One of the same queue, where commands complete in order, on the same bytes; or NULL. */
static struct sdi_use *find_like(const struct sdi_use *given)
{
    if (given->queue->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return NULL;
    for (struct sdi_use *use = given->root->hosted->uses; use; use = use->next)
        if (use->queue == given->queue && use->begin == given->begin && use->end == given->end
            && use->writes == given->writes)
            return use;
    return NULL;
}

void sdi_host_used(struct sdi_use *uses, cl_event event)
{
    while (uses) {
        struct sdi_use *use = uses;
        cl_mem root = use->root;
        struct sdi_hosted *hosted = root->hosted;
        uses = use->next;
        use->queue = event->queue;
        struct sdi_use *like = find_like(use);
        sdi_hold(event);
        if (like) {
            sdi_unhold(like->last);
            like->last = event;
            free(use);
            sdi_unhold(root); /* the list of used ones holds it */
            continue;
        }
        sdi_hold(event);
        use->first = use->last = event;
        if (hosted->is_listed) {
            sdi_unhold(root);
        } else { /* the list takes over the use's hold */
            hosted->is_listed = true;
            hosted->next = sdi_host.used;
            sdi_host.used = root;
            __atomic_fetch_add(&sdi_host.num_used, 1, __ATOMIC_RELAXED);
        }
        use->next = hosted->uses;
        hosted->uses = use;
    }
}
