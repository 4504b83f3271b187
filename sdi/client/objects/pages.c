/* Which pages of its memory the application wrote, as far as anybody knows: the kernel where it tells without a fault that
 * anybody handles (userfaultfd's asynchronous write protection, PAGEMAP_SCAN: Linux 6.7), faults.c where that answers them.
 * A buffer's pages begin where it does; of memory that is not a region's only the kernel's pages that lie wholly in it are
 * watched, and what is at its ends counts as written.
 *
 * design/0017 and 0022 say why. */
#include "objects/memory.h"
#include "objects/userfault.h"

#include <stdio.h>

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

/* Applications that close what they did not open may have something else by that number. */
static void close_own(int file, const char *name)
{
    char link[32], target[64] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    if (file >= 0 && readlink(link, target, sizeof target - 1) > 0 && strstr(target, name))
        close(file);
}

static void forget(void)
{
    close_own(faults, "userfaultfd"); /* of the parent's memory */
    close_own(pages, "/pagemap");
    faults = pages = -1;
}

SDI_AT_FORK(forget)

/* The kernel's pages that are watched: of a region all, of other memory those that lie wholly in it. */
struct watched {
    uintptr_t begin, end;
};

static struct watched watched_of(cl_mem root)
{
    const uintptr_t at = (uintptr_t)root->host_ptr, end = at + root->nbytes + (root->is_region ? SDI_PAGE_NBYTES - 1 : 0);
    return (struct watched){(at + SDI_PAGE_NBYTES - 1) / SDI_PAGE_NBYTES * SDI_PAGE_NBYTES, end / SDI_PAGE_NBYTES * SDI_PAGE_NBYTES};
}

/* Whether memory of this process is pinned, for devices that write there without a fault. */
static bool is_pinned(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    unsigned long pinned = 1;
    while (status && fgets(line, sizeof line, status) && sscanf(line, "VmPin: %lu", &pinned) != 1)
        ;
    if (status)
        fclose(status);
    return pinned != 0;
}

/* Whether only this process can write there. */
static bool are_own(struct watched where)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[256], access[5];
    bool is_begin = true;
    while (maps && where.begin < where.end && fgets(line, sizeof line, maps)) {
        unsigned long from, to, inode;
        const bool is_one = is_begin && sscanf(line, "%lx-%lx %4s %*x %*s %lu", &from, &to, access, &inode) == 4;
        is_begin = strchr(line, '\n') != NULL; /* names may be long */
        if (!is_one || to <= where.begin)
            continue;
        if (from > where.begin || strncmp(access, "rw-p", 4) != 0 || inode)
            break;
        where.begin = to;
    }
    if (maps)
        fclose(maps);
    return where.begin >= where.end;
}

bool sdi_pages_watch(cl_mem root)
{
    const int flags = O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY;
    const struct watched where = watched_of(root);
    const void *at = (const void *)where.begin;
    const size_t nbytes = where.end - where.begin;
    if (faults == -1 && (faults = sdi_userfault_with((int)syscall(SYS_userfaultfd, flags), FEATURES)) < 0)
        faults = -2;
    if (pages == -1)
        pages = faults >= 0 ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) : -2;
    if (faults < 0 || pages < 0 || (!root->is_region && (!are_own(where) || is_pinned())))
        return false;
    root->is_watched = sdi_userfault_register(faults, at, nbytes, UFFD_WRITE_PROTECT);
    if (root->is_watched && !sdi_userfault_protect(faults, at, nbytes, true))
        sdi_pages_unwatch(root);
    return root->is_watched;
}

void sdi_pages_unwatch(cl_mem root)
{
    const struct watched where = watched_of(root);
    struct uffd_range range = {where.begin, where.end - where.begin};
    ioctl(faults, UFFDIO_UNREGISTER, &range); /* or nothing is there any more */
    root->is_watched = false;
}

static void mark(cl_mem root, size_t begin, size_t end, uint8_t *written)
{
    end = SDI_MIN(end, root->nbytes);
    if (begin < end)
        memset(written + begin / SDI_PAGE_NBYTES, 1, (end - 1) / SDI_PAGE_NBYTES - begin / SDI_PAGE_NBYTES + 1);
}

bool sdi_pages_written(cl_mem root, size_t begin, size_t end, uint8_t *written)
{
    if (!root->is_watched)
        return false;
    if (root->lazy) {
        sdi_lazy_written(root, begin, end, written);
        return true;
    }
    const struct watched where = watched_of(root);
    const uint64_t base = (uintptr_t)root->host_ptr;
    const uint64_t from = (base + begin) / SDI_PAGE_NBYTES * SDI_PAGE_NBYTES;
    const uint64_t to = (base + end + SDI_PAGE_NBYTES - 1) / SDI_PAGE_NBYTES * SDI_PAGE_NBYTES;
    struct page_region found[FOUND_MAX];
    struct scan scan = {
        .nbytes = sizeof scan,
        .flags = SCAN_PROTECT | SCAN_CHECK,
        .start = SDI_MAX(from, where.begin),
        .end = SDI_MIN(to, where.end),
        .found = (uintptr_t)found,
        .num_found = FOUND_MAX,
        .all_of = PAGE_IS_WRITTEN,
        .told = PAGE_IS_WRITTEN,
    };
    if (from < where.begin)
        mark(root, begin, where.begin - base, written);
    if (to > where.end)
        mark(root, SDI_MAX(begin, where.end - base), end, written);
    bool is_known = true, is_any = false;
    for (; is_known && scan.start < scan.end; scan.start = scan.walked_to) {
        int num = ioctl(pages, PAGEMAP_SCAN, &scan);
        for (int i = 0; i < num; i++)
            mark(root, found[i].start - base, found[i].end - base, written);
        is_known = num >= 0;
        is_any |= num > 0;
    }
    /* Pages count as written when they are pinned, and never after. */
    is_known = is_known && (root->is_region || !is_any || !is_pinned());
    if (!is_known) /* some pages may be protected again, and the first and the last reach beyond these bytes */
        memset(written, 1, (root->nbytes - 1) / SDI_PAGE_NBYTES + 1);
    return is_known;
}

void sdi_pages_taken(cl_mem root, size_t begin, size_t end, uint8_t *written)
{
    size_t first = (begin + SDI_PAGE_NBYTES - 1) / SDI_PAGE_NBYTES;
    size_t stop = end == root->nbytes ? (end + SDI_PAGE_NBYTES - 1) / SDI_PAGE_NBYTES : end / SDI_PAGE_NBYTES;
    if (first < stop)
        memset(written + first, 0, stop - first);
}
