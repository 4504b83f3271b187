/* Memory of the application, which host_pointer.c compares with what it was before each command that names it.  Where nothing
 * is found to be other, again and again, the kernel is asked which pages were written (pages.c), and only these are compared:
 * [M] 25 us for 64 MiB where nothing was.  But the first write to a page costs 0.9 us then, more than it takes to compare it:
 * so where many are written, again and again, the kernel is not asked any more; nor where it once had no answer.
 *
 * design/0017 says why. */
#include "objects/hosted.h"

/* SAME_BEFORE: takes in a row in which nothing was other.  WRITTEN_BEFORE: in which more than a quarter of
 * the pages was written, and not only a few. */
enum { SAME_BEFORE = 2, WRITTEN_BEFORE = 3, FEW_PAGES = 16 };

static cl_mem watched; /* client lock: the roots */

static void forget(void)
{
    watched = NULL;
}

SDI_AT_FORK(forget)

void sdi_host_unwatch(cl_mem root)
{
    cl_mem *at = &watched;
    while (*at && *at != root)
        at = &(*at)->hosted->next_watched;
    if (*at)
        *at = root->hosted->next_watched;
    sdi_pages_unwatch(root);
}

/* Client lock held.  Whether no other root's memory is watched there: what one takes the other would not see.  Nor is that
 * any more then. */
static bool is_alone(cl_mem root)
{
    bool is_other = false;
    for (cl_mem other = watched, next; other; other = next) {
        next = other->hosted->next_watched;
        if (other->host_ptr < root->host_ptr + root->nbytes && root->host_ptr < other->host_ptr + other->nbytes) {
            sdi_host_unwatch(other);
            is_other = true;
        }
    }
    return !is_other;
}

void sdi_host_watch(cl_mem root)
{
    struct sdi_hosted *hosted = root->hosted;
    const uint64_t least = sdi_session.header->watched_nbytes;
    const char *arena = sdi_session.arena; /* where regions are, which are watched by themselves */
    const bool is_apart = root->host_ptr + root->nbytes <= arena || root->host_ptr >= arena + sdi_session.arena_nbytes;
    if (!is_apart || hosted->written || hosted->num_same < SAME_BEFORE || !least || root->nbytes < least)
        return;
    const size_t num_pages = root->nbytes / SDI_PAGE_NBYTES + 1;
    hosted->written = malloc(num_pages);
    if (!hosted->written)
        return;
    memset(hosted->written, 1, num_pages); /* before it was watched */
    sdi_lock();
    if (is_alone(root) && sdi_pages_watch(root)) {
        hosted->next_watched = watched;
        watched = root;
    }
    sdi_unlock();
}

void sdi_host_watched(const struct sdi_span *span)
{
    struct sdi_hosted *hosted = span->root->hosted;
    const size_t first = span->begin / SDI_PAGE_NBYTES, end = (span->end - 1) / SDI_PAGE_NBYTES + 1;
    size_t num = 0;
    if (span->root->is_region || !span->root->is_watched)
        return;
    for (size_t page = first; span->written && page < end; page++)
        num += span->written[page];
    hosted->num_written = num > (end - first) / 4 && num > FEW_PAGES ? hosted->num_written + 1 : 0;
    if (span->written && hosted->num_written < WRITTEN_BEFORE)
        return;
    sdi_lock();
    sdi_host_unwatch(span->root);
    sdi_unlock();
}
