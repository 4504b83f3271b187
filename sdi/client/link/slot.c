/* The event status page: slots of the arena, handed out by the client, and waiting for their status. */
#include "link/link.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    WAIT_NS = 100 * 1000 * 1000,
    SPIN_NS = 100000,  /* most that is waited for in a loop takes less; to be woken takes 20 us */
    SPIN_LONG_NS = 5000000, /* after that, one thread, which without sdi the driver would have ask its GPU all the time */
    LOOKS = 64,        /* before others may run */
    SPARE_CORES = 4,
};

/* Released slots, oldest first; one is free when its status is final. */
static uint32_t next_of[SDI_NUM_SLOTS];
static uint32_t oldest, newest;
static uint32_t num_used = 1; /* slot 0 is nobody's */

static uint32_t num_spinning; /* atomic */

static void forget(void)
{
    num_spinning = 0;
    oldest = newest = 0;
    num_used = 1;
}

SDI_AT_FORK(forget)

static int status_of(uint32_t slot)
{
    return __atomic_load_n(&sdi_session.slots[slot].status, __ATOMIC_ACQUIRE);
}

void sdi_slot_release(uint32_t slot)
{
    next_of[slot] = 0;
    if (oldest)
        next_of[newest] = slot;
    else
        oldest = slot;
    newest = slot;
}

static uint32_t take_oldest(void)
{
    uint32_t slot = oldest;
    oldest = next_of[slot];
    return slot;
}

/* A released slot whose command is over; looks at `attempts` of them. */
static uint32_t reuse(uint32_t attempts)
{
    while (oldest && attempts--) {
        uint32_t slot = take_oldest();
        if (status_of(slot) <= 0)
            return slot;
        sdi_slot_release(slot);
    }
    return 0;
}

uint32_t sdi_slot_new(int status)
{
    uint32_t slot = reuse(2);
    if (!slot && num_used < SDI_NUM_SLOTS)
        slot = num_used++;
    if (!slot)
        slot = reuse(SDI_NUM_SLOTS);
    if (!slot)
        return 0;
    struct sdi_wire_slot *made = &sdi_session.slots[slot];
    made->ready_nbytes = 0;
    made->queued_ns = sdi_now_ns();
    __atomic_store_n(&made->status, status, __ATOMIC_RELEASE);
    return slot;
}

void sdi_slot_is_over(uint32_t slot, uint64_t start_ns)
{
    struct sdi_wire_slot *over = &sdi_session.slots[slot];
    over->submitted_ns = over->started_ns = start_ns;
    over->ended_ns = sdi_now_ns();
    __atomic_store_n(&over->status, CL_COMPLETE, __ATOMIC_RELEASE);
}

int sdi_slot_status(uint32_t slot)
{
    int status = status_of(slot);
    if (status > 0)
        sdi_speak_up();
    return status > 0 && sdi_session_dead() ? CL_OUT_OF_RESOURCES : status;
}

uint32_t sdi_epoch(void)
{
    return __atomic_load_n(&sdi_session.header->epoch, __ATOMIC_ACQUIRE);
}

/* Whether a core may be kept busy for a moment: those of a CPU's members have work to do. */
bool sdi_has_spare_cores(void)
{
    static int known; /* 0: not yet; atomic */
    int spare = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!spare) {
        spare = sdi_session.header->cores >= SPARE_CORES && !(sdi_session.types & CL_DEVICE_TYPE_CPU) ? 1 : -1;
        __atomic_store_n(&known, spare, __ATOMIC_RELAXED);
    }
    return spare > 0;
}

/* The service may be waiting for this very core: so others run now and then. */
static bool changes_within(uint32_t seen, uint64_t limit_ns)
{
    const uint64_t begin = sdi_now_ns();
    do {
        for (unsigned n = 0; n < LOOKS; n++)
            if (sdi_epoch() != seen)
                return true;
        sched_yield();
    } while (sdi_now_ns() - begin < limit_ns);
    return false;
}

static bool changes_soon(uint32_t seen)
{
    const bool is_first = __atomic_fetch_add(&num_spinning, 1, __ATOMIC_RELAXED) == 0;
    bool changes = changes_within(seen, SPIN_NS);
    if (!changes && is_first) {
        sdi_listen();
        changes = changes_within(seen, SPIN_LONG_NS);
    }
    __atomic_fetch_sub(&num_spinning, 1, __ATOMIC_RELAXED);
    return changes;
}

int sdi_epoch_wait(uint32_t seen)
{
    sdi_speak_up();
    if (sdi_has_spare_cores() && changes_soon(seen))
        return 0;
    struct timespec limit = {.tv_nsec = WAIT_NS};
    struct sdi_wire_arena_header *header = sdi_session.header;
    __atomic_fetch_add(&header->waiters, 1, __ATOMIC_SEQ_CST); /* before the kernel looks at the epoch */
    int error = syscall(SYS_futex, &header->epoch, FUTEX_WAIT, seen, &limit, NULL, 0) ? errno : 0;
    __atomic_fetch_sub(&header->waiters, 1, __ATOMIC_SEQ_CST);
    if (error == ETIMEDOUT)
        sdi_session_check();
    return error;
}

void sdi_epoch_wake(void)
{
    if (sdi_session.header)
        syscall(SYS_futex, &sdi_session.header->epoch, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static int wait_for(uint32_t slot, bool may_leave)
{
    for (;;) {
        uint32_t seen = sdi_epoch();
        int status = sdi_slot_status(slot);
        if (status <= 0)
            return status;
        int error = sdi_epoch_wait(seen);
        if (may_leave && sdi_interrupted(error))
            return SDI_INTERRUPTED;
    }
}

int sdi_slot_wait(uint32_t slot)
{
    return wait_for(slot, false);
}

int sdi_slot_await(uint32_t slot)
{
    return wait_for(slot, true);
}
