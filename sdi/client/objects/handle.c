/* Objects: fixed slots in one mapping that is never unmapped, so that a handle of any age can be looked at.
 *
 * A freed slot keeps its dispatch pointer (a loader may dereference it) and is used again as late as possible.
 * Objects of the process before a fork have another generation: their slots are never used again in the child. */
#include "objects/object.h"

#include <stddef.h>
#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

enum { SLOT_NBYTES = SDI_OBJECT_NBYTES, COMMIT_NBYTES = 1 << 20, REUSE_AFTER = 4096, SLAB_SHARE = 16 };
#define SLAB_NBYTES (UINT64_C(1) << 36)

union slot {
    struct sdi_object object;
    struct {
        struct sdi_object object;
        union slot *next;
    } free;
    char bytes[SLOT_NBYTES];
};

uint32_t sdi_generation = 1;

static char *slab;
static size_t slab_nbytes, committed_nbytes;
static size_t used_nbytes; /* atomic: read without the lock */
static union slot *first_free, *last_free;
static size_t num_free;
static struct {
    void (*drop)(void *object), (*released)(void *object);
} kinds[SDI_NUM_KINDS];

static void forget(void)
{
    sdi_generation++;
    first_free = last_free = NULL;
    num_free = 0;
}

SDI_AT_FORK(forget)

void sdi_register_drop(enum sdi_kind kind, void (*drop)(void *object))
{
    kinds[kind].drop = drop;
}

void sdi_register_released(enum sdi_kind kind, void (*released)(void *object))
{
    kinds[kind].released = released;
}

struct sdi_object *sdi_find(const void *handle, enum sdi_kind kind)
{
    uintptr_t at = (uintptr_t)handle - (uintptr_t)slab;
    if (at >= __atomic_load_n(&used_nbytes, __ATOMIC_RELAXED) || at % SLOT_NBYTES)
        return NULL;
    struct sdi_object *object = (struct sdi_object *)(slab + at);
    if (__atomic_load_n(&object->kind, __ATOMIC_RELAXED) != kind || object->generation != sdi_generation)
        return NULL;
    return object;
}

/* Where address space is limited the most of it stays the application's. */
static bool reserve(void)
{
    uint64_t room = sdi_room(SLAB_NBYTES);
    slab_nbytes = room < SLAB_NBYTES ? SDI_MAX(room / SLAB_SHARE / COMMIT_NBYTES, 1) * COMMIT_NBYTES : SLAB_NBYTES;
    void *at = mmap(NULL, slab_nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return false;
    slab = at;
    return true;
}

/* Of a free slot nobody may look at more than whether it is free: the address sanitizer, if there is one, sees to that. */
static void guard(union slot *slot, bool is_free)
{
#ifdef __SANITIZE_ADDRESS__
    void (*set)(const volatile void *, size_t) = is_free ? __asan_poison_memory_region : __asan_unpoison_memory_region;
    set(&slot->object.refs, sizeof slot->object - offsetof(struct sdi_object, refs));
    set(slot->bytes + sizeof slot->free, SLOT_NBYTES - sizeof slot->free);
#else
    (void)slot;
    (void)is_free;
#endif
}

static union slot *fresh_slot(void)
{
    if (!slab && !reserve())
        return NULL;
    if (used_nbytes + SLOT_NBYTES > committed_nbytes) {
        if (committed_nbytes + COMMIT_NBYTES > slab_nbytes
            || mprotect(slab + committed_nbytes, COMMIT_NBYTES, PROT_READ | PROT_WRITE) != 0)
            return NULL;
        committed_nbytes += COMMIT_NBYTES;
    }
    union slot *slot = (union slot *)(slab + used_nbytes);
    slot->object.dispatch = sdi_table;
    __atomic_store_n(&used_nbytes, used_nbytes + SLOT_NBYTES, __ATOMIC_RELAXED);
    return slot;
}

void *sdi_new(enum sdi_kind kind)
{
    union slot *slot = num_free > REUSE_AFTER ? NULL : fresh_slot();
    if (!slot && (slot = first_free) != NULL) {
        first_free = slot->free.next;
        num_free--;
    }
    if (!slot)
        return NULL;
    guard(slot, false);
    memset(slot->bytes + sizeof slot->object, 0, SLOT_NBYTES - sizeof slot->object);
    slot->object.generation = sdi_generation;
    slot->object.id = sdi_next_id();
    slot->object.refs = 1;
    slot->object.holds = 0;
    __atomic_store_n(&slot->object.kind, kind, __ATOMIC_RELEASE);
    return slot;
}

static void free_slot(struct sdi_object *object)
{
    union slot *slot = (union slot *)object;
    __atomic_store_n(&object->kind, SDI_FREE, __ATOMIC_RELAXED);
    object->id = 0;
    slot->free.next = NULL;
    if (num_free++)
        last_free->free.next = slot;
    else
        first_free = slot;
    last_free = slot;
    guard(slot, true);
}

void sdi_hold(void *held)
{
    ((struct sdi_object *)held)->holds++;
}

void sdi_unhold(void *held)
{
    struct sdi_object *object = held;
    if (object->generation != sdi_generation)
        return; /* held before a fork, by a callback that is now in the child */
    if (--object->holds == 0 && object->refs == 0) {
        if (kinds[object->kind].drop)
            kinds[object->kind].drop(object);
        free_slot(object);
    }
}

void sdi_discard(void *object)
{
    ((struct sdi_object *)object)->refs = 0;
    sdi_hold(object);
    sdi_unhold(object);
}

cl_int sdi_retain(void *handle, enum sdi_kind kind, cl_int invalid)
{
    sdi_lock();
    struct sdi_object *object = sdi_find(handle, kind);
    if (object)
        object->refs++;
    sdi_unlock();
    return object ? CL_SUCCESS : invalid;
}

cl_int sdi_release(void *handle, enum sdi_kind kind, cl_int invalid)
{
    sdi_lock();
    struct sdi_object *object = sdi_find(handle, kind);
    if (object && object->refs == 0)
        object = NULL; /* released before; something else still holds it */
    if (object && --object->refs == 0) {
        sdi_hold(object);
        if (kinds[kind].released)
            kinds[kind].released(object);
        sdi_unhold(object);
    }
    sdi_unlock();
    return object ? CL_SUCCESS : invalid;
}

cl_int sdi_answer(const void *data, size_t nbytes, size_t size, void *value, size_t *size_ret)
{
    if (value && size < nbytes)
        return CL_INVALID_VALUE;
    if (value && nbytes)
        memcpy(value, data, nbytes);
    if (size_ret)
        *size_ret = nbytes;
    return CL_SUCCESS;
}

cl_int sdi_answer_text(const char *text, size_t size, void *value, size_t *size_ret)
{
    return sdi_answer(text ? text : "", text ? strlen(text) + 1 : 1, size, value, size_ret);
}
