/* Which pages of a fine-grained region the application wrote, as far as anybody knows: the kernel where it tells without a
 * fault that anybody handles (userfaultfd's asynchronous write protection, PAGEMAP_SCAN: Linux 6.7), faults.c where that
 * answers them.
 *
 * design/0022 says why. */
#include "objects/memory.h"
#include "objects/userfault.h"

enum { FOUND_MAX = 256 };

/* linux/fs.h */
struct page_region {
    uint64_t start, end, categories;
};
struct scan {
    uint64_t nbytes, flags, start, end, walked_to, found, num_found, max_pages;
    uint64_t inverted, all_of, any_of, told;
};
#define PAGEMAP_SCAN _IOWR('f', 16, struct scan)
#define SCAN_PROTECT UINT64_C(1)
#define SCAN_CHECK UINT64_C(2)
#define PAGE_IS_WRITTEN UINT64_C(2)
#define FEATURES (UFFD_FEATURE_WP | UFFD_FEATURE_WP_UNPOPULATED | UFFD_FEATURE_WP_ASYNC)

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

bool sdi_region_watch(const void *at, size_t nbytes)
{
    const int flags = O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY;
    if (faults == -1 && (faults = sdi_userfault_with((int)syscall(SYS_userfaultfd, flags), FEATURES)) < 0)
        faults = -2;
    if (pages == -1)
        pages = faults >= 0 ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) : -2;
    if (faults < 0 || pages < 0)
        return false;
    return sdi_userfault_register(faults, at, nbytes, UFFD_WRITE_PROTECT) && sdi_userfault_protect(faults, at, nbytes, true);
}

bool sdi_region_written(cl_mem region, size_t begin, size_t end, uint8_t *written)
{
    if (!region->is_watched)
        return false;
    if (region->lazy) {
        sdi_lazy_written(region, begin, end, written);
        return true;
    }
    const uint64_t base = (uintptr_t)region->host_ptr;
    struct page_region found[FOUND_MAX];
    struct scan scan = {
        .nbytes = sizeof scan,
        .flags = SCAN_PROTECT | SCAN_CHECK,
        .start = base + begin / SDI_PAGE_NBYTES * SDI_PAGE_NBYTES,
        .end = base + (end + SDI_PAGE_NBYTES - 1) / SDI_PAGE_NBYTES * SDI_PAGE_NBYTES,
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
            memset(written + (found[i].start - base) / SDI_PAGE_NBYTES, 1, (found[i].end - found[i].start) / SDI_PAGE_NBYTES);
    }
    return true;
}

void sdi_region_taken(cl_mem region, size_t begin, size_t end, uint8_t *written)
{
    size_t first = (begin + SDI_PAGE_NBYTES - 1) / SDI_PAGE_NBYTES;
    size_t stop = end == region->nbytes ? (end + SDI_PAGE_NBYTES - 1) / SDI_PAGE_NBYTES : end / SDI_PAGE_NBYTES;
    if (first < stop)
        memset(written + first, 0, stop - first);
}
