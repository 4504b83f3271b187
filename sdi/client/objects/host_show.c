/* The other half of host_pointer.c: what commands wrote to memory of the application is shown to it, or, where faults
 * tell what it looks at (faults.c), brought when it does. */
#include "objects/hosted.h"
#include "threads/threads.h"

enum { WORD_NBYTES = 8, WORDS = 8 };

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

/* Client lock held.  Has the service make bytes current in the arena, and keep them; false: it can't. */
static bool ask(cl_mem root, size_t begin, size_t end, int queue, struct sdi_asked *asked)
{
    asked->slot = end && sdi_host_have_queue(queue) ? sdi_slot_new(CL_QUEUED) : 0;
    if (!asked->slot)
        return false;
    struct sdi_rec_read record = {
        .nbytes = sizeof record,
        .op = SDI_OP_READ,
        .id = asked->id = sdi_next_id(),
        .queue = sdi_host.queues[queue],
        .slot = asked->slot,
        .buffer = root->object.id,
        .offset = begin,
        .region = {end - begin, 1, 1},
        .blocking = 1,
        .unasked = 1,
    };
    if (sdi_send(&record, sizeof record) == CL_SUCCESS)
        return true;
    sdi_slot_release(asked->slot);
    asked->slot = 0;
    return false;
}

/* No lock held but the busy or fault lock.  Whether the bytes are current. */
static bool await(const struct sdi_asked *asked, size_t nbytes)
{
    for (;;) {
        uint32_t seen = sdi_epoch();
        int status = sdi_slot_status(asked->slot);
        size_t ready = __atomic_load_n(&sdi_session.slots[asked->slot].ready_nbytes, __ATOMIC_ACQUIRE);
        if (status <= 0 || ready >= nbytes)
            return status > 0;
        sdi_epoch_wait(seen);
    }
}

/* Client lock held.  Whether they are: they need not stay so. */
static void let_go(const struct sdi_asked *asked, bool is_there)
{
    if (is_there)
        sdi_send_status(SDI_OP_TRANSFER_DONE, asked->id, CL_SUCCESS);
    sdi_send_bare(SDI_OP_RELEASE_EVENT, asked->id);
    sdi_slot_release(asked->slot);
}

/* So many words in a row, if commands changed all of them and the application none, or none is changed; false: it is not so.
 * They need not be aligned. */
static bool show_words(char *host, char *snapshot, const char *arena)
{
    uint64_t now[WORDS], then[WORDS], there[WORDS], differ = 0, alike = 0, written = 0;
    memcpy(now, arena, sizeof now);
    memcpy(then, snapshot, sizeof then);
    memcpy(there, host, sizeof there);
    for (int i = 0; i < WORDS; i++) {
        differ |= now[i] ^ then[i];
        alike |= now[i] == then[i];
        written |= there[i] ^ then[i];
    }
    if (differ && (alike || written))
        return false;
    if (differ) {
        memcpy(host, now, sizeof now);
        memcpy(snapshot, now, sizeof now);
    }
    return true;
}

/* Words that commands changed and the application did not, one at a time. */
static size_t show_singly(char *host, char *snapshot, const char *arena, size_t nbytes)
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
    return at;
}

/* What commands changed and the application did not, and nothing else: the application may write it meanwhile. */
static void show_page(char *host, char *snapshot, const char *arena, size_t nbytes)
{
    size_t at = 0;
    for (const size_t row = WORDS * WORD_NBYTES; at + row <= nbytes; at += row)
        if (!show_words(host + at, snapshot + at, arena + at))
            show_singly(host + at, snapshot + at, arena + at, row);
    at += show_singly(host + at, snapshot + at, arena + at, nbytes - at);
    for (; at < nbytes; at++) {
        if (arena[at] != snapshot[at] && host[at] == snapshot[at])
            host[at] = arena[at];
        snapshot[at] = arena[at];
    }
}

static void show_piece(const void *work, size_t piece)
{
    struct sdi_span span = sdi_piece_of(work, piece);
    uint64_t copied = 0;
    for (size_t at = span.begin, end; at < span.end; at = end) {
        end = sdi_page_end(at, span.end);
        if (sdi_lazy_lacks(span.root, at / SDI_PAGE_NBYTES))
            continue;
        char *snapshot = span.root->hosted->snapshot + at;
        const char *arena = span.root->bytes + at;
        if (memcmp(snapshot, arena, end - at) == 0)
            continue;
        show_page(span.root->host_ptr + at, snapshot, arena, end - at);
        copied += end - at;
    }
    sdi_host_count(span.end - span.begin, copied);
}

/* Busy lock held.  Waits for what was asked for and shows it. */
static void show(cl_mem root)
{
    struct sdi_hosted *hosted = root->hosted;
    struct sdi_span span = {root, hosted->begin, hosted->end, NULL};
    if (!hosted->asked.slot)
        return;
    bool is_there = await(&hosted->asked, span.end - span.begin);
    if (is_there)
        sdi_copy_pieces(show_piece, &span, sdi_num_pieces(&span));
    sdi_lock();
    let_go(&hosted->asked, is_there);
    sdi_unlock();
}

/* As faults.c wants it. */
static void bring(cl_mem region, size_t begin, size_t end, void (*arrived)(cl_mem, size_t, size_t, bool))
{
    struct sdi_asked asked;
    sdi_lock();
    bool is_asked = ask(region, begin, end, SDI_HOST_FREE, &asked);
    sdi_unlock();
    bool is_there = is_asked && await(&asked, end - begin);
    arrived(region, begin, end, is_there);
    sdi_lock();
    if (is_asked)
        let_go(&asked, is_there);
    sdi_unlock();
}

SDI_AT_LOAD void register_bring(void)
{
    sdi_register_bring(bring);
}

void sdi_host_show(void)
{
    if (!sdi_host_is_used())
        return;
    pthread_mutex_lock(&sdi_host.busy);
    sdi_lock();
    cl_mem first = sdi_host.used; /* only added to meanwhile, before it */
    for (cl_mem root = first; root; root = root->hosted->next)
        collect(root->hosted);
    sdi_unlock();
    for (cl_mem root = first; root; root = root->hosted->next)
        if (root->lazy && root->hosted->end)
            sdi_lazy_forget(root, root->hosted->written, &root->hosted->begin, &root->hosted->end);
    sdi_lock();
    unsigned num = 0; /* they are awaited in this order, too */
    for (cl_mem root = first; root; root = root->hosted->next)
        num += ask(root, root->hosted->begin, root->hosted->end,
                   SDI_HOST_FIRST + num % (SDI_HOST_QUEUES - SDI_HOST_FIRST), &root->hosted->asked);
    sdi_unlock();
    for (cl_mem root = first; root; root = root->hosted->next)
        show(root);
    sdi_lock();
    for (cl_mem *at = &sdi_host.used, root; (root = *at) != NULL;) {
        if (root->hosted->uses) {
            at = &root->hosted->next;
            continue;
        }
        *at = root->hosted->next;
        root->hosted->is_listed = false;
        __atomic_fetch_sub(&sdi_host.num_used, 1, __ATOMIC_RELAXED);
        sdi_unhold(root);
    }
    pthread_mutex_unlock(&sdi_host.busy); /* first: destructor callbacks run when the other lock is given back */
    sdi_unlock();
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
