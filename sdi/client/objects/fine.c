/* Fine-grained regions where members have copies: the application has memory of its own at the region's address, and what
 * either side changed is taken and shown like memory that it gave a buffer (host_pointer.c).  The client sees the arena's
 * bytes of such a region elsewhere.
 *
 * When that is done is the update (SDI_FINE_GRAIN):
 *   eager     pages that were written are taken before a command, and shown after it (pages.c)
 *   batch     all of every region is, before and after each launch, without a look at what was written
 *   lazy      what commands wrote is brought when the application looks at the region, all of it (faults.c)
 *   rolling   the same by blocks, of which few are written at a time: the oldest is taken early
 *
 * design/0022 says why. */
#include "objects/memory.h"

#include <sys/mman.h>

static size_t in_pages(size_t nbytes)
{
    return (nbytes + SDI_PAGE_NBYTES - 1) / SDI_PAGE_NBYTES * SDI_PAGE_NBYTES;
}

/* Of so many bytes at `at` in the arena those before its file, which is a mapping of its own. */
static size_t before_file(const char *at, size_t nbytes)
{
    const size_t from = (size_t)(at - sdi_session.arena), file = sdi_session.file_offset;
    return from >= file ? 0 : SDI_MIN(file - from, nbytes);
}

/* Whether these bytes are seen at `to`; `old_nbytes` of 0: there, too, as they are shared, or else no longer at `from`. */
static bool move(char *from, size_t old_nbytes, size_t nbytes, char *to)
{
    return !nbytes || mremap(from, old_nbytes, nbytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
}

static bool are_batch; /* atomic */

static void forget(void)
{
    are_batch = false;
}

SDI_AT_FORK(forget)

bool sdi_regions_are_batch(void)
{
    return __atomic_load_n(&are_batch, __ATOMIC_RELAXED);
}

/* What the service told of updates. */
struct update {
    uint64_t kind, block_nbytes, most_blocks;
};

static struct update told(void)
{
    struct update update = {.kind = SDI_FINE_EAGER};
    size_t nbytes;
    const void *fact = sdi_fact(0, SDI_FACT_FINE_UPDATE, &nbytes);
    if (fact && nbytes == sizeof update)
        memcpy(&update, fact, sizeof update);
    if (update.kind != SDI_FINE_ROLLING) {
        update.block_nbytes = SIZE_MAX;
        update.most_blocks = SIZE_MAX;
    }
    return update;
}

static bool is_lazy(const struct update *update)
{
    return update->kind == SDI_FINE_LAZY || update->kind == SDI_FINE_ROLLING;
}

/* Client lock held. */
static bool set_apart(cl_mem region, struct update *update)
{
    char *at = region->bytes;
    size_t nbytes = in_pages(region->nbytes), before = before_file(at, nbytes);
    char *bytes = mmap(NULL, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED)
        return false;
    if (!move(at, 0, before, bytes) || !move(at + before, 0, nbytes - before, bytes + before)) {
        munmap(bytes, nbytes);
        return false;
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(at, nbytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) {
        munmap(bytes, nbytes);
        return false;
    }
    madvise(at, nbytes, MADV_DONTFORK); /* as all of the arena: a child has one of its own there */
    region->host_ptr = at;
    region->bytes = bytes;
    if (is_lazy(update) && !sdi_faults_start())
        update->kind = SDI_FINE_EAGER;
    region->is_batch = update->kind == SDI_FINE_BATCH;
    if (region->is_batch)
        __atomic_store_n(&are_batch, true, __ATOMIC_RELAXED);
    region->is_watched = is_lazy(update) || (!region->is_batch && sdi_pages_watch(region));
    return true;
}

cl_int sdi_region_apart(cl_mem region)
{
    sdi_lock();
    struct update update = told();
    bool is_apart = set_apart(region, &update);
    sdi_unlock();
    region->is_unnamed = false;
    cl_int status = is_apart ? sdi_host_new(region) : CL_OUT_OF_HOST_MEMORY;
    if (!status && is_lazy(&update) && region->is_watched)
        region->is_watched = sdi_lazy_new(region, sdi_host_snapshot(region), update.block_nbytes, update.most_blocks);
    if (!status)
        sdi_host_tell_all(region); /* else what the application sets to what it was is not known to be so on members */
    return status;
}

bool sdi_region_together(cl_mem region)
{
    size_t nbytes = in_pages(region->nbytes), before = before_file(region->host_ptr, nbytes), rest = nbytes - before;
    if (!move(region->bytes, before, before, region->host_ptr)
        || !move(region->bytes + before, rest, rest, region->host_ptr + before))
        return false;
    region->bytes = region->host_ptr;
    region->host_ptr = NULL;
    return true;
}
