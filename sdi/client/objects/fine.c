/* Fine-grained regions where members have copies: the application has memory of its own at the region's address, and what
 * either side changed is taken and shown like memory that it gave a buffer (host_pointer.c).  The client sees the arena's
 * bytes of such a region elsewhere.
 *
 * Which pages the application wrote is asked of the kernel where it tells (userfaultfd's asynchronous write protection,
 * PAGEMAP_SCAN: Linux 6.7), without a signal or a fault that anybody handles; else all are compared.
 *
 * design/0022 says why. */
#include "objects/memory.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE_NBYTES = 4096, FOUND_MAX = 256 };

/* linux/userfaultfd.h and linux/fs.h, which are older than what they are about on many machines */
struct uffd_range {
    uint64_t start, nbytes;
};
struct uffd_api {
    uint64_t api, features, ioctls;
};
struct uffd_register {
    struct uffd_range range;
    uint64_t mode, ioctls;
};
struct uffd_protect {
    struct uffd_range range;
    uint64_t mode;
};
struct page_region {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t nbytes, flags, start, end, walked_to, found, num_found, max_pages;
    uint64_t inverted, all_of, any_of, told;
};
#define UFFD_USER_MODE_ONLY 1
#define UFFD_API UINT64_C(0xAA)
#define UFFD_WRITE_PROTECT UINT64_C(2)
#define UFFD_FEATURES (UINT64_C(1) << 0 | UINT64_C(1) << 13 | UINT64_C(1) << 15) /* WP, WP_UNPOPULATED, WP_ASYNC */
#define UFFDIO_API _IOWR(0xAA, 0x3F, struct uffd_api)
#define UFFDIO_REGISTER _IOWR(0xAA, 0x00, struct uffd_register)
#define UFFDIO_WRITEPROTECT _IOWR(0xAA, 0x06, struct uffd_protect)
#define PAGEMAP_SCAN _IOWR('f', 16, struct scan)
#define SCAN_PROTECT UINT64_C(1)
#define SCAN_CHECK UINT64_C(2)
#define PAGE_IS_WRITTEN UINT64_C(2)

static int faults = -1, pages = -1; /* userfaultfd, /proc/self/pagemap; -1: not yet, -2: the kernel does not tell */

static void forget(void)
{
    if (faults >= 0)
        close(faults); /* of the parent's memory */
    if (pages >= 0)
        close(pages);
    faults = pages = -1;
}

SDI_AT_FORK(forget)

/* ---- asking the kernel ------------------------------------------------------------------------------------------ */

static int open_faults(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    struct uffd_api api = {.api = UFFD_API, .features = UFFD_FEATURES};
    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -2;
}

/* Client lock held.  Whether the kernel tells from now on which pages of these were written. */
static bool watch(const void *at, size_t nbytes)
{
    if (faults == -1)
        faults = open_faults();
    if (pages == -1)
        pages = faults >= 0 ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) : -2;
    if (faults < 0 || pages < 0)
        return false;
    struct uffd_range range = {(uintptr_t)at, nbytes};
    struct uffd_register all = {.range = range, .mode = UFFD_WRITE_PROTECT};
    struct uffd_protect protect = {.range = range, .mode = 1};
    return ioctl(faults, UFFDIO_REGISTER, &all) == 0 && ioctl(faults, UFFDIO_WRITEPROTECT, &protect) == 0;
}

bool sdi_region_written(cl_mem region, size_t begin, size_t end, uint8_t *written)
{
    if (!region->is_watched)
        return false;
    const uint64_t base = (uintptr_t)region->host_ptr;
    struct page_region found[FOUND_MAX];
    struct scan scan = {
        .nbytes = sizeof scan,
        .flags = SCAN_PROTECT | SCAN_CHECK,
        .start = base + begin / PAGE_NBYTES * PAGE_NBYTES,
        .end = base + (end + PAGE_NBYTES - 1) / PAGE_NBYTES * PAGE_NBYTES,
        .found = (uintptr_t)found,
        .num_found = FOUND_MAX,
        .all_of = PAGE_IS_WRITTEN,
        .told = PAGE_IS_WRITTEN,
    };
    for (; scan.start < scan.end; scan.start = scan.walked_to) {
        int num = ioctl(pages, PAGEMAP_SCAN, &scan);
        if (num < 0)
            return false;
        for (int i = 0; i < num; i++)
            memset(written + (found[i].start - base) / PAGE_NBYTES, 1, (found[i].end - found[i].start) / PAGE_NBYTES);
    }
    return true;
}

void sdi_region_taken(cl_mem region, size_t begin, size_t end, uint8_t *written)
{
    size_t first = (begin + PAGE_NBYTES - 1) / PAGE_NBYTES;
    size_t stop = end == region->nbytes ? (end + PAGE_NBYTES - 1) / PAGE_NBYTES : end / PAGE_NBYTES;
    if (first < stop)
        memset(written + first, 0, stop - first);
}

/* ---- memory ------------------------------------------------------------------------------------------------------- */

static size_t in_pages(size_t nbytes)
{
    return (nbytes + PAGE_NBYTES - 1) / PAGE_NBYTES * PAGE_NBYTES;
}

/* Of `nbytes` from `at` in the arena on, how many come before those that lie in a file, which are mapped by themselves;
 * all of them where that is no border inside. */
static size_t before_file(const char *at, size_t nbytes)
{
    size_t offset = (size_t)(at - sdi_session.arena);
    return offset < sdi_session.file_offset ? SDI_MIN(nbytes, sdi_session.file_offset - offset) : nbytes;
}

/* One more mapping of the same bytes of the arena, anywhere; MAP_FAILED: no room. */
static char *map_again(char *at, size_t nbytes)
{
    size_t first = before_file(at, nbytes);
    char *bytes = mremap(at, 0, nbytes, MREMAP_MAYMOVE); /* of a shared mapping: its bytes, and what comes behind */
    if (bytes == MAP_FAILED || first == nbytes)
        return bytes;
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    if (mremap(at + first, 0, nbytes - first, flags, bytes + first) != MAP_FAILED)
        return bytes;
    munmap(bytes, nbytes);
    return MAP_FAILED;
}

/* Client lock held. */
static bool set_apart(cl_mem region)
{
    char *at = region->bytes;
    size_t nbytes = in_pages(region->nbytes);
    char *bytes = map_again(at, nbytes);
    if (bytes == MAP_FAILED)
        return false;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(at, nbytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) {
        munmap(bytes, nbytes);
        return false;
    }
    madvise(at, nbytes, MADV_DONTFORK); /* as all of the arena: a child has one of its own there */
    region->host_ptr = at;
    region->bytes = bytes;
    region->is_watched = watch(at, nbytes);
    return true;
}

cl_int sdi_region_apart(cl_mem region)
{
    sdi_lock();
    bool is_apart = set_apart(region);
    sdi_unlock();
    region->is_unnamed = false;
    cl_int status = is_apart ? sdi_host_new(region) : CL_OUT_OF_HOST_MEMORY;
    if (!status)
        sdi_host_tell_all(region); /* else what the application sets to what it was is not known to be so on members */
    return status;
}

bool sdi_region_together(cl_mem region)
{
    char *at = region->host_ptr, *bytes = region->bytes;
    size_t nbytes = in_pages(region->nbytes), first = before_file(at, nbytes), rest = nbytes - first;
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    if (mremap(bytes, first, first, flags, at) == MAP_FAILED
        || (rest && mremap(bytes + first, rest, rest, flags, at + first) == MAP_FAILED))
        return false;
    region->bytes = at;
    region->host_ptr = NULL;
    return true;
}
