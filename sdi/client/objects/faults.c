/* Fine-grained regions of which the application is brought what it looks at: a thread of the client answers the faults of all
 * others, also of their system calls (userfaultfd), without a signal.
 *
 * Of a region's pages in the application some are *missing*: commands may have written them since.  The first access to one
 * brings all of its *block* that is missing.  A block is *open* from the first write to it on until it is taken: then it is
 * write-protected again.  A page may be missing in an open block, but what was written and not taken is never let go of.
 *
 * Under rolling update few blocks are open at a time: the one that was opened first is taken when there are more.
 *
 * design/0022 says why. */
#include "objects/memory.h"
#include "objects/userfault.h"
#include "threads/threads.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

enum { NUM_WAITING = 64 };

/* `opened`, `missing`: fault lock. */
struct sdi_lazy {
    cl_mem next; /* in `regions` */
    size_t block_nbytes, num_blocks;
    char *snapshot;
    uint8_t *missing;  /* one per page; atomic */
    uint64_t opened[]; /* by block: the number of its opening; 0: it is not open; atomic */
};

struct opening {
    cl_mem region;
    size_t block;
    uint64_t number;
};

/* Held while a fault is answered, also while that waits for a READ.  After the busy lock, before the client lock; whoever has it
 * does not touch memory in which pages may be missing. */
static pthread_mutex_t states = PTHREAD_MUTEX_INITIALIZER;
static int faults = -1; /* -1: not yet, -2: not here.  Client lock, as all that follows */
static cl_mem regions;
static size_t num_regions;
static size_t most_open;              /* atomic; SIZE_MAX: any number; 0: two for each region */
static struct opening *openings;      /* in their order from `first_opening` on, some of them over */
static size_t first_opening, end_opening, openings_room;
static size_t num_open;       /* atomic */
static uint64_t num_openings; /* fault lock */

/* Of the thread that answers. */
static struct uffd_message waiting[NUM_WAITING];
static size_t num_waiting;

static void (*bring)(cl_mem, size_t, size_t, void (*)(cl_mem, size_t, size_t, bool));
static bool (*take)(cl_mem, size_t, size_t);

static void forget(void)
{
    if (faults >= 0)
        close(faults); /* of the parent's memory */
    states = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    faults = -1;
    regions = NULL;
    openings = NULL;
    num_regions = first_opening = end_opening = openings_room = num_open = num_waiting = 0;
}

SDI_AT_FORK(forget)

void sdi_register_bring(void (*how)(cl_mem, size_t, size_t, void (*)(cl_mem, size_t, size_t, bool)))
{
    bring = how;
}

void sdi_register_take(bool (*how)(cl_mem, size_t, size_t))
{
    take = how;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static size_t num_pages(cl_mem region)
{
    return (region->nbytes + SDI_PAGE_NBYTES - 1) / SDI_PAGE_NBYTES;
}

static size_t page_end(cl_mem region, size_t block)
{
    return SDI_MIN((block + 1) * region->lazy->block_nbytes / SDI_PAGE_NBYTES, num_pages(region));
}

static char *page_at(cl_mem region, size_t page)
{
    return region->host_ptr + page * SDI_PAGE_NBYTES;
}

bool sdi_lazy_lacks(cl_mem region, size_t page)
{
    return region->lazy && __atomic_load_n(&region->lazy->missing[page], __ATOMIC_ACQUIRE);
}

/* Fault lock held.  Write-protects the open blocks among these, whose pages are marked.  A block stays open where that fails. */
static void close_blocks(cl_mem region, size_t begin, size_t end, uint8_t *written)
{
    struct sdi_lazy *lazy = region->lazy;
    const size_t stop = (end - 1) / lazy->block_nbytes + 1;
    for (size_t block = begin / lazy->block_nbytes, last; block < stop; block = last) {
        last = block + 1;
        if (!lazy->opened[block])
            continue;
        while (last < stop && lazy->opened[last])
            last++;
        size_t first_page = block * lazy->block_nbytes / SDI_PAGE_NBYTES, end_page = page_end(region, last - 1);
        size_t nbytes = (end_page - first_page) * SDI_PAGE_NBYTES;
        bool is_closed = sdi_userfault_protect(faults, page_at(region, first_page), nbytes, true);
        for (size_t page = first_page; page < end_page; page++)
            written[page] |= !lazy->missing[page];
        for (size_t at = block; is_closed && at < last; at++) {
            __atomic_store_n(&lazy->opened[at], 0, __ATOMIC_RELAXED);
            __atomic_fetch_sub(&num_open, 1, __ATOMIC_RELAXED);
        }
    }
}

void sdi_lazy_written(cl_mem region, size_t begin, size_t end, uint8_t *written)
{
    pthread_mutex_lock(&states);
    close_blocks(region, begin, end, written);
    pthread_mutex_unlock(&states);
}

/* Busy lock held.  Forgets of the marked pages those that the application did not change. */
static void compare(cl_mem region, size_t first, size_t stop, uint8_t *written)
{
    for (size_t page = first; page < stop; page++) {
        const size_t at = page * SDI_PAGE_NBYTES, nbytes = SDI_MIN((size_t)SDI_PAGE_NBYTES, region->nbytes - at);
        if (written[page] && memcmp(region->host_ptr + at, region->lazy->snapshot + at, nbytes) == 0)
            written[page] = 0; /* it is marked again when its block is closed, if it is open now */
    }
}

/* Fault lock held.  Whether it is the snapshot's, and can't be written without a fault. */
static bool is_unchanged(cl_mem region, size_t page, const uint8_t *written)
{
    const struct sdi_lazy *lazy = region->lazy;
    return !lazy->missing[page] && !written[page] && !lazy->opened[page * SDI_PAGE_NBYTES / lazy->block_nbytes];
}

void sdi_lazy_forget(cl_mem region, uint8_t *written, size_t *begin, size_t *end)
{
    struct sdi_lazy *lazy = region->lazy;
    const size_t stop = (*end - 1) / SDI_PAGE_NBYTES + 1;
    size_t page = *begin / SDI_PAGE_NBYTES, left = SIZE_MAX, left_end = 0;
    sdi_lazy_written(region, *begin, *end, written);
    compare(region, page, stop, written);
    pthread_mutex_lock(&states);
    while (page < stop) {
        size_t first = page;
        while (page < stop && is_unchanged(region, page, written))
            page++;
        size_t nbytes = (page - first) * SDI_PAGE_NBYTES;
        if (nbytes && madvise(page_at(region, first), nbytes, MADV_DONTNEED) == 0) {
            memset(lazy->missing + first, 1, page - first);
            continue;
        }
        page += !nbytes;
        if (nbytes || !lazy->missing[first]) { /* changed by both sides, or locked in memory */
            left = SDI_MIN(left, SDI_MAX(first * SDI_PAGE_NBYTES, *begin));
            left_end = SDI_MIN(page * SDI_PAGE_NBYTES, *end);
        }
    }
    pthread_mutex_unlock(&states);
    *begin = left_end ? left : 0;
    *end = left_end;
}

/* ---- opening order: client lock held ----------------------------------------------------------------------------- */

static bool is_over(const struct opening *opening)
{
    return __atomic_load_n(&opening->region->lazy->opened[opening->block], __ATOMIC_RELAXED) != opening->number;
}

/* Makes room at the end: no memory, and it is taken with its region's next command. */
static bool make_room(void)
{
    size_t num = 0;
    for (size_t i = first_opening; i < end_opening; i++)
        if (!is_over(&openings[i]))
            openings[num++] = openings[i];
    first_opening = 0;
    end_opening = num;
    if (2 * num < openings_room)
        return true;
    size_t more = openings_room ? 2 * openings_room : 64;
    struct opening *grown = realloc(openings, more * sizeof *grown);
    if (!grown)
        return num < openings_room;
    openings = grown;
    openings_room = more;
    return true;
}

static void add_opening(struct opening opening)
{
    if (end_opening < openings_room || make_room())
        openings[end_opening++] = opening;
}

/* No lock held.  Takes blocks that are open for longest, as long as there are too many. */
static void roll(struct opening last)
{
    sdi_lock();
    add_opening(last);
    for (bool goes_on = true; goes_on;) {
        while (first_opening < end_opening && is_over(&openings[first_opening]))
            first_opening++;
        const size_t most = most_open ? most_open : 2 * num_regions;
        if (first_opening == end_opening || __atomic_load_n(&num_open, __ATOMIC_RELAXED) <= most)
            break;
        cl_mem region = openings[first_opening].region;
        const size_t begin = openings[first_opening].block * region->lazy->block_nbytes;
        const size_t end = SDI_MIN(begin + region->lazy->block_nbytes, region->nbytes);
        sdi_hold(region);
        sdi_unlock();
        goes_on = take(region, begin, end);
        sdi_lock();
        first_opening += goes_on;
        sdi_unhold(region);
    }
    sdi_unlock();
}

/* ---- answering --------------------------------------------------------------------------------------------------- */

static void receive(void)
{
    ssize_t n = read(faults, waiting + num_waiting, (NUM_WAITING - num_waiting) * sizeof *waiting);
    if (n > 0)
        num_waiting += (size_t)n / sizeof *waiting;
}

/* Whether it waits for an answer: no other thread has it go on. */
static bool is_stopped(int thread)
{
    receive();
    for (size_t i = 0; i < num_waiting; i++)
        if (waiting[i].thread == (uint32_t)thread)
            return true;
    return false;
}

/* Has all threads go on that wait for these bytes. */
static void wake(uint64_t begin, size_t nbytes)
{
    struct uffd_range range = {begin, nbytes};
    size_t num = 0;
    for (size_t i = 0; i < num_waiting; i++)
        if (waiting[i].address - begin >= nbytes)
            waiting[num++] = waiting[i];
    num_waiting = num;
    ioctl(faults, UFFDIO_WAKE, &range);
}

/* Fault lock held.  Gives the application the snapshot's bytes of pages that are in one block, and that it lacks. */
static void fill_in(cl_mem region, size_t first, size_t end)
{
    struct sdi_lazy *lazy = region->lazy;
    const size_t block = first * SDI_PAGE_NBYTES / lazy->block_nbytes;
    for (size_t page = first; page < end;) {
        struct uffd_copy copy = {
            .to = (uintptr_t)page_at(region, page),
            .from = (uintptr_t)lazy->snapshot + page * SDI_PAGE_NBYTES,
            .nbytes = (end - page) * SDI_PAGE_NBYTES,
            .mode = UFFD_COPY_SILENTLY | (lazy->opened[block] ? 0 : UFFD_COPY_PROTECTED),
        };
        size_t done = 1;
        if (ioctl(faults, UFFDIO_COPY, &copy) == 0)
            done = end - page;
        else if (copy.copied > 0)
            done = (size_t)copy.copied / SDI_PAGE_NBYTES;
        else if (errno == EAGAIN)
            done = 0;
        else if (errno != EEXIST)
            return; /* no memory: who looks faults again */
        for (size_t i = 0; i < done; i++)
            __atomic_store_n(&lazy->missing[page + i], 0, __ATOMIC_RELEASE);
        page += done;
    }
}

/* Fault lock held.  Not `is_there`: the command failed, or the service is gone, and what was there last has to do. */
static void arrived(cl_mem region, size_t begin, size_t end, bool is_there)
{
    struct sdi_lazy *lazy = region->lazy;
    const size_t stop = (end - 1) / SDI_PAGE_NBYTES + 1;
    for (size_t page = begin / SDI_PAGE_NBYTES, first; page < stop; page++) {
        for (first = page; page < stop && lazy->missing[page]; page++)
            ;
        if (first == page)
            continue;
        const size_t at = first * SDI_PAGE_NBYTES;
        if (is_there)
            memcpy(lazy->snapshot + at, region->bytes + at, SDI_MIN(page * SDI_PAGE_NBYTES, end) - at);
        fill_in(region, first, page);
    }
}

/* Fault lock held. */
static void fill(cl_mem region, size_t block, size_t page)
{
    const uint8_t *missing = region->lazy->missing;
    size_t first = block * region->lazy->block_nbytes / SDI_PAGE_NBYTES, end = page_end(region, block);
    if (!missing[page]) { /* it came meanwhile; or it was let go of by somebody else */
        fill_in(region, page, page + 1);
        return;
    }
    while (!missing[first])
        first++;
    while (!missing[end - 1])
        end--;
    bring(region, first * SDI_PAGE_NBYTES, SDI_MIN(end * SDI_PAGE_NBYTES, region->nbytes), arrived);
}

/* Client lock held.  Held: the region with this byte in the application's memory; or NULL. */
static cl_mem find(uint64_t address)
{
    cl_mem region = regions;
    while (region && address - (uintptr_t)region->host_ptr >= num_pages(region) * SDI_PAGE_NBYTES)
        region = region->lazy->next;
    if (region)
        sdi_hold(region);
    return region;
}

static void answer(struct uffd_message fault)
{
    const uint64_t since_ns = sdi_now_ns();
    sdi_lock();
    cl_mem region = fault.event == UFFD_EVENT_FAULT ? find(fault.address) : NULL;
    sdi_unlock();
    if (!region) { /* it goes: what is there then has no faults */
        wake(fault.address & ~(uint64_t)(SDI_PAGE_NBYTES - 1), SDI_PAGE_NBYTES);
        return;
    }
    struct sdi_lazy *lazy = region->lazy;
    const size_t at = fault.address - (uintptr_t)region->host_ptr, block = at / lazy->block_nbytes;
    const size_t first = block * lazy->block_nbytes / SDI_PAGE_NBYTES;
    const size_t nbytes = (page_end(region, block) - first) * SDI_PAGE_NBYTES;
    pthread_mutex_lock(&states);
    bool opens = fault.flags & (UFFD_FAULT_WRITES | UFFD_FAULT_PROTECTED) && !lazy->opened[block];
    struct opening opening = {region, block, opens ? ++num_openings : 0};
    if (opens) {
        __atomic_store_n(&lazy->opened[block], opening.number, __ATOMIC_RELAXED);
        __atomic_fetch_add(&num_open, 1, __ATOMIC_RELAXED);
    }
    if (!(fault.flags & UFFD_FAULT_PROTECTED))
        fill(region, block, at / SDI_PAGE_NBYTES);
    if (opens)
        sdi_userfault_protect(faults, page_at(region, first), nbytes, false);
    wake((uintptr_t)page_at(region, first), nbytes);
    pthread_mutex_unlock(&states);
    __atomic_fetch_add(&sdi_session.header->host_faults, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sdi_session.header->host_faults_ns, sdi_now_ns() - since_ns, __ATOMIC_RELAXED);
    if (opens && __atomic_load_n(&most_open, __ATOMIC_RELAXED) != SIZE_MAX)
        roll(opening);
    sdi_lock();
    sdi_unhold(region);
    sdi_unlock();
}

/* Descriptors of its own, so that the kernel goes on telling if the application closes those that it did not open: all but
 * these are closed here. */
static void keep_descriptors(void)
{
#ifdef SYS_close_range
    int kept[] = {STDERR_FILENO, faults, sdi_session.commands, sdi_session.notices};
    const size_t num = sizeof kept / sizeof *kept;
    for (size_t i = 1; i < num; i++)
        for (size_t k = i; k > 0 && kept[k] < kept[k - 1]; k--) {
            int swapped = kept[k];
            kept[k] = kept[k - 1];
            kept[k - 1] = swapped;
        }
    if (unshare(CLONE_FILES) != 0)
        return;
    unsigned from = 0;
    for (size_t i = 0; i < num; i++) {
        if (kept[i] > (int)from)
            syscall(SYS_close_range, from, (unsigned)kept[i] - 1, 0);
        from = (unsigned)kept[i] + 1;
    }
    syscall(SYS_close_range, from, ~0u, 0);
#endif
}

static void *run(void *argument)
{
    (void)argument;
    pthread_setname_np(pthread_self(), "sdi-faults");
    keep_descriptors();
    sdi_lock_around(is_stopped);
    struct pollfd look = {.fd = faults, .events = POLLIN};
    while (poll(&look, 1, -1) >= 0 || errno == EINTR) {
        if (look.revents & POLLNVAL)
            break;
        receive();
        while (num_waiting)
            answer(waiting[0]);
    }
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

/* One that tells of the faults of system calls too. */
static int open_faults(void)
{
    const uint64_t features = UFFD_FEATURE_WP | UFFD_FEATURE_THREAD_ID;
    int found = sdi_userfault_with((int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK), features);
    if (found >= 0)
        return found;
    int device = open(UFFD_DEVICE, O_RDWR | O_CLOEXEC);
    if (device < 0)
        return -1;
    found = sdi_userfault_with(ioctl(device, UFFD_DEVICE_NEW, O_CLOEXEC | O_NONBLOCK), features);
    close(device);
    return found;
}

bool sdi_faults_start(void)
{
    if (faults == -1) {
        faults = open_faults();
        if (faults >= 0 && sdi_start_thread(run, NULL) != 0) {
            close(faults);
            faults = -1;
        }
        if (faults < 0) {
            faults = -2;
            sdi_complain("this process may not answer its own page faults (userfaultfd: root, vm.unprivileged_userfaultfd=1 "
                         "or " UFFD_DEVICE "): fine-grained memory has eager update");
        }
    }
    return faults >= 0;
}

static bool answers_for(const void *at, size_t nbytes)
{
    if (!sdi_userfault_register(faults, at, nbytes, UFFD_MISSING | UFFD_WRITE_PROTECT))
        return false;
    if (sdi_userfault_protect(faults, at, nbytes, true))
        return true;
    struct uffd_range range = {(uintptr_t)at, nbytes};
    ioctl(faults, UFFDIO_UNREGISTER, &range);
    return false;
}

bool sdi_lazy_new(cl_mem region, char *snapshot, size_t block_nbytes, size_t most)
{
    const size_t nbytes = num_pages(region) * SDI_PAGE_NBYTES, block = SDI_MIN(block_nbytes, nbytes);
    const size_t num_blocks = (nbytes - 1) / block + 1;
    struct sdi_lazy *lazy = calloc(1, sizeof *lazy + num_blocks * sizeof *lazy->opened);
    uint8_t *missing = calloc(num_pages(region), 1);
    if (!lazy || !missing || !answers_for(region->host_ptr, nbytes)) {
        free(lazy);
        free(missing);
        return false;
    }
    lazy->block_nbytes = block;
    lazy->num_blocks = num_blocks;
    lazy->snapshot = snapshot;
    lazy->missing = missing;
    sdi_lock();
    __atomic_store_n(&most_open, most, __ATOMIC_RELAXED);
    lazy->next = regions;
    region->lazy = lazy;
    regions = region;
    num_regions++;
    sdi_unlock();
    return true;
}

void sdi_lazy_drop(cl_mem region)
{
    struct sdi_lazy *lazy = region->lazy;
    cl_mem *at = &regions;
    while (*at != region)
        at = &(*at)->lazy->next;
    *at = lazy->next;
    num_regions--;
    size_t num = first_opening;
    for (size_t i = first_opening; i < end_opening; i++)
        if (openings[i].region != region)
            openings[num++] = openings[i];
    end_opening = num;
    for (size_t block = 0; block < lazy->num_blocks; block++)
        if (lazy->opened[block])
            __atomic_fetch_sub(&num_open, 1, __ATOMIC_RELAXED);
    free(lazy->missing);
    free(lazy);
    region->lazy = NULL;
}
