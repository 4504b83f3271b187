/* Objects: fixed slots in one mapping that is never unmapped, so that a handle of any age can be looked at.
 *
 * A freed slot keeps its dispatch pointer (a loader may dereference it) and is used again as late as possible.
 * Objects of the process before a fork have another generation: their slots are never used again in the child. */
#include "client.h"

#include <pthread.h>
#include <sys/mman.h>

enum { SLOT_NBYTES = 256, COMMIT_NBYTES = 1 << 20, REUSE_AFTER = 4096, SLAB_SHARE = 16 };
#define SLAB_NBYTES (UINT64_C(1) << 36)

union slot {
    struct sdi_object object;
    struct sdi_context context;
    struct sdi_queue queue;
    struct sdi_buffer buffer;
    struct sdi_program program;
    struct sdi_kernel kernel;
    struct sdi_event event;
    struct sdi_sampler sampler;
    struct {
        struct sdi_object object;
        union slot *next;
    } free;
    char bytes[SLOT_NBYTES];
};
_Static_assert(sizeof(union slot) == SLOT_NBYTES, "an object does not fit its slot");

struct sdi_platform sdi_platform = {sdi_dispatch};
uint32_t sdi_generation = 1;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char *slab;
static size_t slab_nbytes, committed_nbytes;
static size_t used_nbytes; /* atomic: read without the lock */
static union slot *first_free, *last_free;
static size_t num_free;
static uint64_t last_id;
static struct sdi_call *deferred, **deferred_end = &deferred;

void sdi_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sdi_unlock(void)
{
    struct sdi_call *due = deferred;
    deferred = NULL;
    deferred_end = &deferred;
    pthread_mutex_unlock(&lock);
    if (!due)
        return;
    if (sdi_on_lander())
        sdi_caller_post(due);
    else
        sdi_run_calls(due);
}

cl_int sdi_destructor_add(struct sdi_call **destructors, struct sdi_call given)
{
    struct sdi_call *call = malloc(sizeof *call);
    if (!call)
        return CL_OUT_OF_HOST_MEMORY;
    *call = given;
    sdi_lock();
    call->next = *destructors;
    *destructors = call;
    sdi_unlock();
    return CL_SUCCESS;
}

void sdi_await_change(void)
{
    pthread_cond_wait(&changed, &lock);
}

void sdi_tell_change(void)
{
    pthread_cond_broadcast(&changed);
}

void sdi_defer(struct sdi_call *calls)
{
    *deferred_end = calls;
    while (*deferred_end)
        deferred_end = &(*deferred_end)->next;
}

void sdi_handle_forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    sdi_generation++;
    first_free = last_free = NULL;
    num_free = 0;
    deferred = NULL;
    deferred_end = &deferred;
}

uint64_t sdi_next_id(void)
{
    return ++last_id;
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
}

static void drop(struct sdi_object *object)
{
    switch ((enum sdi_kind)object->kind) {
    case SDI_CONTEXT:
        sdi_drop_context((cl_context)object);
        break;
    case SDI_QUEUE:
        sdi_drop_queue((cl_command_queue)object);
        break;
    case SDI_BUFFER:
        sdi_drop_buffer((cl_mem)object);
        break;
    case SDI_PROGRAM:
        sdi_drop_program((cl_program)object);
        break;
    case SDI_KERNEL:
        sdi_drop_kernel((cl_kernel)object);
        break;
    case SDI_EVENT:
        sdi_drop_event((cl_event)object);
        break;
    case SDI_SAMPLER:
        sdi_drop_sampler((cl_sampler)object);
        break;
    case SDI_DEVICE:
    case SDI_FREE:
        break;
    }
    free_slot(object);
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
    if (--object->holds == 0 && object->refs == 0)
        drop(object);
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
        if (kind == SDI_QUEUE || kind == SDI_CONTEXT || (kind == SDI_BUFFER && ((cl_mem)object)->root->host_ptr))
            sdi_lander_await(object);
        if (kind == SDI_BUFFER && ((cl_mem)object)->root->hosted) {
            sdi_unlock();
            sdi_host_released(((cl_mem)object)->root);
            sdi_lock();
        }
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
