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
#include "objects/memory.h"
#include "threads/threads.h"

#include <pthread.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* MAX_RUNS: so many runs of changed pages are written at a time, or what lies between is written too. */
enum { PAGE_NBYTES = 4096, WORD_NBYTES = 8, MAX_RUNS = 64 };

/* Commands of one ordered queue on the same bytes, or one of another queue. */
struct sdi_use {
    struct sdi_use *next;
    cl_event first, last; /* held: the oldest that was not shown, the newest */
    cl_command_queue queue;
    cl_mem root;
    size_t begin, end; /* in it */
    bool writes;
};

/* Of a root buffer.  `uses`, `next`, `is_listed`: client lock; all else: busy lock. */
struct sdi_hosted {
    char *snapshot;
    uint8_t *changed;     /* one per page, while bytes are taken */
    uint8_t *written;     /* one per page that the application may have written since it was taken; or NULL: all */
    struct sdi_use *uses; /* the newest first */
    cl_mem next;          /* in `used` */
    bool is_listed;       /* there: from its first use until all is shown and it has none */
    size_t begin, end;    /* to be shown; or 0, 0 */
    uint64_t id;          /* of the READ that fetches them */
    uint32_t slot;
};

/* Held while bytes are taken or shown, also while READs of this file are awaited, which nothing holds up but commands
 * that are issued: these end without the application.  Before the client lock; never taken by the completion thread. */
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static cl_mem used;        /* roots that are listed, held; changed under the client lock, cut under both */
static size_t num_used;    /* atomic */
static uint64_t queue;     /* id of the queue of this file, without order; 0: none yet */
static uint64_t compared_nbytes, copied_nbytes; /* atomic: the service has not been told of */

static void forget(void)
{
    busy = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    used = NULL;
    num_used = 0;
    queue = compared_nbytes = copied_nbytes = 0;
}

SDI_AT_FORK(forget)

/* ---- pieces ---------------------------------------------------------------------------------------------------- */

/* A range of a root, by the pieces that threads share. */
struct span {
    cl_mem root;
    size_t begin, end;
    const uint8_t *written; /* of the root's pages, if they are known; or NULL */
};

static size_t num_pieces(const struct span *span)
{
    return (span->end - 1) / SDI_PIECE_NBYTES - span->begin / SDI_PIECE_NBYTES + 1;
}

static struct span piece_of(const struct span *span, size_t piece)
{
    size_t number = span->begin / SDI_PIECE_NBYTES + piece;
    size_t begin = piece ? number * SDI_PIECE_NBYTES : span->begin;
    return (struct span){span->root, begin, SDI_MIN((number + 1) * SDI_PIECE_NBYTES, span->end), span->written};
}

static size_t page_end(size_t at, size_t end)
{
    return SDI_MIN(at - at % PAGE_NBYTES + PAGE_NBYTES, end);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static void copy_to_snapshot(const void *work, size_t piece)
{
    struct span span = piece_of(work, piece);
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
    const size_t num_pages = root->nbytes / PAGE_NBYTES + 1;
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
    root->hosted = hosted;
    struct span all = {root, 0, root->nbytes, NULL};
    sdi_copy_pieces(copy_to_snapshot, &all, num_pieces(&all));
    sdi_copy_run(root, 0, snapshot, root->nbytes, true);
    return CL_SUCCESS;
}

/* Client lock held. */
static void tell(void)
{
    struct sdi_rec_host_pointers record = {
        .nbytes = sizeof record,
        .op = SDI_OP_HOST_POINTERS,
        .id = sdi_next_id(),
        .compared_nbytes = __atomic_exchange_n(&compared_nbytes, 0, __ATOMIC_RELAXED),
        .copied_nbytes = __atomic_exchange_n(&copied_nbytes, 0, __ATOMIC_RELAXED),
    };
    if (record.compared_nbytes)
        sdi_send(&record, sizeof record);
}

void sdi_host_drop(cl_mem root)
{
    tell();
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
static bool find_unused(struct span *span)
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
    struct span span = piece_of(work, piece);
    struct sdi_hosted *hosted = span.root->hosted;
    uint64_t compared = 0, copied = 0;
    for (size_t at = span.begin, end; at < span.end; at = end) {
        end = page_end(at, span.end);
        if (span.written && !span.written[at / PAGE_NBYTES])
            continue;
        compared += end - at;
        char *snapshot = hosted->snapshot + at, *host = span.root->host_ptr + at;
        if (memcmp(snapshot, host, end - at) == 0)
            continue;
        memcpy(snapshot, host, end - at); /* it may yet change: arena and snapshot must not differ */
        memcpy(span.root->bytes + at, snapshot, end - at);
        __atomic_store_n(&hosted->changed[at / PAGE_NBYTES], 1, __ATOMIC_RELAXED); /* pieces may share a page */
        copied += end - at;
    }
    __atomic_fetch_add(&compared_nbytes, compared, __ATOMIC_RELAXED);
    __atomic_fetch_add(&copied_nbytes, copied, __ATOMIC_RELAXED);
}

/* The next run of changed pages from `*at` on in which at most `gap` unchanged ones follow each other. */
static bool next_run(const uint8_t *changed, size_t *at, size_t end, size_t gap, size_t *stop)
{
    while (*at < end && !changed[*at])
        ++*at;
    *stop = *at;
    for (size_t page = *at; page < end && page - *stop <= gap; page++)
        if (changed[page])
            *stop = page + 1;
    return *at < end;
}

/* Client lock held. */
static bool have_queue(void)
{
    struct sdi_rec_create_queue record = {
        .nbytes = sizeof record,
        .op = SDI_OP_CREATE_QUEUE,
        .properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE,
    };
    if (queue)
        return true;
    record.id = sdi_next_id();
    if (sdi_send(&record, sizeof record) == CL_SUCCESS)
        queue = record.id;
    return queue != 0;
}

/* Client lock held.  Tells the service that bytes in the arena are new. */
static void send_written_early(const struct span *span, uint64_t since_ns)
{
    struct sdi_rec_write record = {
        .nbytes = sizeof record,
        .op = SDI_OP_WRITE,
        .id = sdi_next_id(),
        .queue = queue,
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
    struct span all = {root, 0, root->nbytes, NULL};
    sdi_lock();
    if (have_queue())
        send_written_early(&all, sdi_now_ns());
    sdi_unlock();
}

static void take_span(struct span *span)
{
    uint64_t since_ns = sdi_now_ns();
    struct sdi_hosted *hosted = span->root->hosted;
    uint8_t *changed = hosted->changed;
    size_t first = span->begin / PAGE_NBYTES, end = (span->end - 1) / PAGE_NBYTES + 1;
    if (hosted->written && sdi_region_written(span->root, span->begin, span->end, hosted->written))
        span->written = hosted->written;
    sdi_copy_pieces(take_piece, span, num_pieces(span));
    if (span->written)
        sdi_region_taken(span->root, span->begin, span->end, hosted->written);
    size_t num, gap = 0;
    for (;; gap = 4 * gap + 1) {
        num = 0;
        for (size_t at = first, stop; next_run(changed, &at, end, gap, &stop); at = stop)
            num++;
        if (num <= MAX_RUNS)
            break;
    }
    sdi_lock();
    if (num && have_queue())
        for (size_t at = first, stop; next_run(changed, &at, end, gap, &stop); at = stop) {
            struct span run = {
                .root = span->root,
                .begin = SDI_MAX(at * PAGE_NBYTES, span->begin),
                .end = SDI_MIN(stop * PAGE_NBYTES, span->end),
            };
            send_written_early(&run, since_ns);
        }
    sdi_unlock();
    if (num)
        memset(changed + first, 0, end - first);
}

/* Busy lock held. */
static void take_all(struct span span)
{
    for (size_t end = span.end;; span = (struct span){span.root, span.end, end, NULL}) {
        sdi_lock();
        bool some = find_unused(&span);
        sdi_unlock();
        if (!some)
            return;
        take_span(&span);
    }
}

void sdi_host_take(cl_mem buffer, size_t offset, size_t nbytes)
{
    cl_mem root = buffer->root;
    if (!root->hosted || root->flags & CL_MEM_HOST_READ_ONLY || nbytes == 0)
        return;
    struct span span = {root, buffer->origin + offset, buffer->origin + offset + nbytes, NULL}, some = span;
    sdi_lock();
    bool is_needed = find_unused(&some);
    sdi_unlock();
    if (!is_needed)
        return;
    pthread_mutex_lock(&busy);
    take_all(span);
    pthread_mutex_unlock(&busy);
}

bool sdi_host_is_used(void)
{
    return __atomic_load_n(&num_used, __ATOMIC_RELAXED) != 0;
}

bool sdi_host_gate(void)
{
    if (!sdi_host_is_used())
        return false;
    pthread_mutex_lock(&busy); /* so the list is only added to, and roots in it live */
    sdi_lock();
    cl_mem root = used;
    sdi_unlock();
    for (; root; root = root->hosted->next) {
        struct span span = {root, SIZE_MAX, 0, NULL};
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
    pthread_mutex_unlock(&busy);
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
    *use = (struct sdi_use){.next = *uses, .root = root, .begin = begin, .end = begin + nbytes, .writes = writes};
    *uses = use;
    return CL_SUCCESS;
}

void sdi_host_unuse(struct sdi_use *uses)
{
    while (uses) {
        struct sdi_use *use = uses;
        uses = use->next;
        free(use);
    }
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
        struct sdi_hosted *hosted = use->root->hosted;
        uses = use->next;
        use->queue = event->queue;
        struct sdi_use *like = find_like(use);
        sdi_hold(event);
        if (like) {
            sdi_unhold(like->last);
            like->last = event;
            free(use);
            continue;
        }
        sdi_hold(event);
        use->first = use->last = event;
        if (!hosted->is_listed) {
            sdi_hold(use->root);
            hosted->is_listed = true;
            hosted->next = used;
            used = use->root;
            __atomic_fetch_add(&num_used, 1, __ATOMIC_RELAXED);
        }
        use->next = hosted->uses;
        hosted->uses = use;
    }
}

/* ---- showing --------------------------------------------------------------------------------------------------- */

/* Busy and client lock held.  Forgets uses that are complete; what they and those that are so in part may have written
 * is to be shown. */
static void collect(struct sdi_hosted *hosted)
{
    hosted->begin = SIZE_MAX;
    hosted->end = 0;
    for (struct sdi_use **at = &hosted->uses, *use; (use = *at) != NULL;) {
        if (sdi_event_status(use->first) > 0) {
            at = &use->next;
            continue;
        }
        if (use->writes) {
            hosted->begin = SDI_MIN(hosted->begin, use->begin);
            hosted->end = SDI_MAX(hosted->end, use->end);
        }
        if (sdi_event_status(use->last) > 0) {
            at = &use->next;
            continue;
        }
        *at = use->next;
        sdi_unhold(use->first);
        sdi_unhold(use->last);
        free(use);
    }
}

/* Busy and client lock held.  Has the service make what is to be shown current in the arena, and keep it. */
static void ask(cl_mem root)
{
    struct sdi_hosted *hosted = root->hosted;
    hosted->slot = 0;
    if (!hosted->end || !have_queue())
        return;
    hosted->slot = sdi_slot_new(CL_QUEUED);
    if (!hosted->slot)
        return;
    struct sdi_rec_read record = {
        .nbytes = sizeof record,
        .op = SDI_OP_READ,
        .id = hosted->id = sdi_next_id(),
        .queue = queue,
        .slot = hosted->slot,
        .buffer = root->object.id,
        .offset = hosted->begin,
        .region = {hosted->end - hosted->begin, 1, 1},
        .blocking = 1,
        .unasked = 1,
    };
    if (sdi_send(&record, sizeof record)) {
        sdi_slot_release(hosted->slot);
        hosted->slot = 0;
    }
}

/* Words that commands changed and the application did not, one at a time: the application may write others meanwhile. */
static void show_page(char *host, char *snapshot, const char *arena, size_t nbytes)
{
    size_t at = 0;
    for (uint64_t now, then, there; at + WORD_NBYTES <= nbytes; at += WORD_NBYTES) {
        memcpy(&now, arena + at, WORD_NBYTES);
        memcpy(&then, snapshot + at, WORD_NBYTES);
        if (now == then)
            continue;
        memcpy(&there, host + at, WORD_NBYTES);
        if (there == then)
            memcpy(host + at, &now, WORD_NBYTES);
        else
            for (size_t i = at; i < at + WORD_NBYTES; i++)
                if (arena[i] != snapshot[i] && host[i] == snapshot[i])
                    host[i] = arena[i];
        memcpy(snapshot + at, &now, WORD_NBYTES);
    }
    for (; at < nbytes; at++) {
        if (arena[at] != snapshot[at] && host[at] == snapshot[at])
            host[at] = arena[at];
        snapshot[at] = arena[at];
    }
}

static void show_piece(const void *work, size_t piece)
{
    struct span span = piece_of(work, piece);
    uint64_t copied = 0;
    for (size_t at = span.begin, end; at < span.end; at = end) {
        end = page_end(at, span.end);
        char *snapshot = span.root->hosted->snapshot + at;
        const char *arena = span.root->bytes + at;
        if (memcmp(snapshot, arena, end - at) == 0)
            continue;
        show_page(span.root->host_ptr + at, snapshot, arena, end - at);
        copied += end - at;
    }
    __atomic_fetch_add(&compared_nbytes, span.end - span.begin, __ATOMIC_RELAXED);
    __atomic_fetch_add(&copied_nbytes, copied, __ATOMIC_RELAXED);
}

/* Busy lock held.  Waits for what was asked for and shows it. */
static void show(cl_mem root)
{
    struct sdi_hosted *hosted = root->hosted;
    struct span span = {root, hosted->begin, hosted->end, NULL};
    int status;
    if (!hosted->slot)
        return;
    for (;;) {
        uint32_t seen = sdi_epoch();
        status = sdi_slot_status(hosted->slot);
        size_t ready = __atomic_load_n(&sdi_session.slots[hosted->slot].ready_nbytes, __ATOMIC_ACQUIRE);
        if (status <= 0 || ready >= span.end - span.begin)
            break;
        sdi_epoch_wait(seen);
    }
    if (status > 0)
        sdi_copy_pieces(show_piece, &span, num_pieces(&span));
    sdi_lock();
    if (status > 0)
        sdi_send_status(SDI_OP_TRANSFER_DONE, hosted->id, CL_SUCCESS);
    sdi_send_bare(SDI_OP_RELEASE_EVENT, hosted->id);
    sdi_slot_release(hosted->slot);
    sdi_unlock();
}

void sdi_host_show(void)
{
    if (!sdi_host_is_used())
        return;
    pthread_mutex_lock(&busy);
    sdi_lock();
    cl_mem first = used; /* only added to meanwhile, before it */
    for (cl_mem root = first; root; root = root->hosted->next) {
        collect(root->hosted);
        ask(root);
    }
    sdi_unlock();
    for (cl_mem root = first; root; root = root->hosted->next)
        show(root);
    sdi_lock();
    for (cl_mem *at = &used, root; (root = *at) != NULL;) {
        if (root->hosted->uses) {
            at = &root->hosted->next;
            continue;
        }
        *at = root->hosted->next;
        root->hosted->is_listed = false;
        __atomic_fetch_sub(&num_used, 1, __ATOMIC_RELAXED);
        sdi_unhold(root);
    }
    tell();
    sdi_unlock();
    pthread_mutex_unlock(&busy);
}

void sdi_host_released(cl_mem root)
{
    struct sdi_hosted *hosted = root->hosted;
    if (!hosted)
        return;
    sdi_lock();
    for (struct sdi_use *use = hosted->uses; use;) {
        cl_event event = use->last;
        if (sdi_event_status(event) <= 0 || sdi_is_gated(event->gate)) {
            use = use->next;
            continue;
        }
        sdi_hold(event);
        sdi_unlock();
        sdi_slot_wait(event->slot);
        sdi_lock();
        sdi_unhold(event);
        use = hosted->uses;
    }
    sdi_unlock();
    sdi_host_show();
}
