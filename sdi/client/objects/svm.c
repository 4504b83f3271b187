/* Shared virtual memory: a region is a root buffer whose place in the arena the application knows.  That is where
 * kernels find it that follow pointers; to all others it is a buffer like any. */
#include "objects/memory.h"

#define ACCESS_FLAGS (CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY)
enum { ALIGNMENT_MAX = SDI_PAGE_NBYTES };

static cl_mem *regions; /* by address; client lock */
static size_t num_regions, room;
static uint64_t num_freed; /* regions; client lock */
static struct sdi_reach *recent[8]; /* told of most recently, each once more referenced; client lock */
static unsigned next_recent;

static void forget(void)
{
    regions = NULL; /* another thread may have been about to replace it */
    num_regions = room = 0;
    memset(recent, 0, sizeof recent);
}

SDI_AT_FORK(forget)

/* Client lock held.  How many regions begin at `at` or below. */
static size_t num_below(const char *at)
{
    size_t low = 0, high = num_regions;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sdi_region_at(regions[middle]) <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Client lock held.  The region that has the byte at `at`; NULL: there is none. */
static cl_mem find(const void *at)
{
    size_t below = num_below(at);
    cl_mem found = below ? regions[below - 1] : NULL;
    return found && (size_t)((const char *)at - sdi_region_at(found)) < found->nbytes ? found : NULL;
}

cl_mem sdi_region_of(const void *at, size_t *offset)
{
    if (!sdi_session.has_svm || (uintptr_t)at - (uintptr_t)sdi_session.arena >= sdi_session.arena_nbytes)
        return NULL;
    sdi_lock(); /* what is found may be freed by another thread as soon as it is let go of */
    cl_mem found = find(at);
    *offset = found ? (size_t)((const char *)at - sdi_region_at(found)) : 0;
    sdi_unlock();
    return found;
}

cl_int sdi_region_bytes(cl_context context, const void *at, size_t nbytes, cl_mem *region, size_t *offset)
{
    *region = sdi_region_of(at, offset);
    if (!*region || nbytes > (*region)->nbytes - *offset)
        return CL_INVALID_VALUE;
    return (*region)->context == context ? CL_SUCCESS : CL_INVALID_CONTEXT;
}

/* Client lock held.  False: no memory. */
static bool add(cl_mem region)
{
    if (num_regions == room) {
        size_t more = room ? 2 * room : 64;
        cl_mem *grown = realloc(regions, more * sizeof *grown);
        if (!grown)
            return false;
        regions = grown;
        room = more;
    }
    size_t at = num_below(sdi_region_at(region));
    memmove(regions + at + 1, regions + at, (num_regions - at) * sizeof *regions);
    regions[at] = region;
    num_regions++;
    return true;
}

/* Whether regions can be had with these flags: every device of a session has the same kinds. */
static bool are_flags_valid(cl_ulong flags)
{
    cl_ulong kinds = 0, access = flags & ACCESS_FLAGS;
    size_t nbytes;
    const void *fact = sdi_fact(0, CL_DEVICE_SVM_CAPABILITIES, &nbytes);
    if (fact)
        memcpy(&kinds, fact, sizeof kinds);
    cl_ulong known = ACCESS_FLAGS | (kinds & CL_DEVICE_SVM_FINE_GRAIN_BUFFER ? CL_MEM_SVM_FINE_GRAIN_BUFFER : 0);
    return !(flags & ~known) && !(access & (access - 1));
}

void *sdi_clSVMAlloc(cl_context context, cl_ulong flags, size_t nbytes, cl_uint alignment)
{
    cl_int status;
    if (!sdi_is_context(context) || !sdi_session.has_svm || !are_flags_valid(flags) || nbytes == 0
        || nbytes > context->limits.max_alloc_nbytes || alignment & (alignment - 1) || alignment > ALIGNMENT_MAX)
        return NULL;
    size_t none;
    bool is_apart = flags & CL_MEM_SVM_FINE_GRAIN_BUFFER && !sdi_fact(0, SDI_FACT_FINE_IN_PLACE, &none);
    cl_mem region = sdi_new_memory(context, is_apart ? flags & ACCESS_FLAGS : flags, nbytes, NULL, true, &status);
    if (!region)
        return NULL;
    region->is_region = true;
    status = is_apart ? sdi_region_apart(region) : CL_SUCCESS;
    sdi_lock();
    region->born = num_freed;
    bool is_added = !status && add(region);
    if (is_added)
        sdi_arena_shows(is_apart);
    else
        sdi_discard(region);
    sdi_unlock();
    return is_added ? sdi_region_at(region) : NULL;
}

void sdi_clSVMFree(cl_context context, void *pointer)
{
    cl_mem region = NULL;
    if (!pointer || !sdi_is_context(context))
        return;
    sdi_lock();
    size_t below = num_below(pointer);
    if (below && sdi_region_at(regions[below - 1]) == pointer && regions[below - 1]->context == context) {
        region = regions[below - 1];
        memmove(regions + below - 1, regions + below, (num_regions - below) * sizeof *regions);
        num_regions--;
        num_freed++;
    }
    sdi_unlock();
    if (region)
        sdi_release(region, SDI_BUFFER, CL_INVALID_MEM_OBJECT);
}

/* ---- kernels ------------------------------------------------------------------------------------------------ */

cl_int sdi_clSetKernelArgSVMPointer(cl_kernel kernel, cl_uint index, const void *pointer)
{
    if (!sdi_is_kernel(kernel))
        return CL_INVALID_KERNEL;
    if (!sdi_session.has_svm)
        return CL_INVALID_OPERATION;
    if (index >= kernel->table->num_args)
        return CL_INVALID_ARG_INDEX;
    const struct sdi_argument *argument = &kernel->table->arguments[index];
    if (argument->kind != SDI_ARG_GLOBAL && argument->kind != SDI_ARG_CONSTANT)
        return CL_INVALID_ARG_VALUE;
    size_t offset = 0;
    cl_mem region = pointer ? sdi_region_of(pointer, &offset) : NULL;
    if (pointer && (!region || region->context != kernel->program->context))
        return CL_INVALID_ARG_VALUE;
    struct sdi_wire_pointer_argument place = {0};
    if (region) {
        place.buffer = region->object.id;
        place.offset = offset;
        place.nbytes = region->nbytes - offset;
    }
    kernel->bound[index] = (struct sdi_bound){.buffer = region, .set = true};
    if (region) {
        kernel->bound[index].id = region->object.id;
        kernel->bound[index].by_address = offset || sdi_is_fine(region);
    }
    memcpy(kernel->payload + argument->at + sizeof(struct sdi_wire_arg_entry), &place, sizeof place);
    return CL_SUCCESS;
}

/* ---- what kernels may reach beside their arguments: told to the service once ------------------------------------- */

struct sdi_reach {
    uint32_t refs; /* client lock */
    uint64_t id;
    cl_context context; /* to compare */
    uint64_t num_freed; /* when all of them were last seen to be there */
    size_t num;
    void *pointers[]; /* as the application gave them */
};

void sdi_reach_ref(struct sdi_reach *reach)
{
    if (reach)
        reach->refs++;
}

void sdi_reach_unref(struct sdi_reach *reach)
{
    if (!reach || --reach->refs)
        return;
    sdi_send_bare(SDI_OP_RELEASE_REACH, reach->id);
    free(reach);
}

/* Client lock held.  Tells the service which regions these are. */
static cl_int tell(struct sdi_reach *reach, cl_context context)
{
    struct sdi_rec_reach *record = NULL;
    size_t nbytes = sizeof *record + reach->num * sizeof(uint64_t);
    if (nbytes <= SDI_MAX_RECORD_NBYTES)
        record = malloc(nbytes);
    if (!record)
        return CL_OUT_OF_HOST_MEMORY;
    *record = (struct sdi_rec_reach){.nbytes = (uint32_t)nbytes, .op = SDI_OP_REACH, .num_regions = reach->num};
    cl_int status = CL_SUCCESS;
    uint64_t *ids = (uint64_t *)(record + 1);
    for (size_t i = 0; i < reach->num && !status; i++) {
        cl_mem region = find(reach->pointers[i]);
        if (region && region->context == context)
            ids[i] = region->object.id;
        else
            status = CL_INVALID_VALUE;
    }
    for (size_t i = 0; i < reach->num && !status; i++)
        sdi_named(find(reach->pointers[i]));
    record->id = reach->id = sdi_next_id();
    reach->num_freed = num_freed;
    if (!status)
        status = sdi_send(record, nbytes);
    free(record);
    return status;
}

/* Client lock held.  Whether it is what these pointers stand for: none of the regions was freed since, though others may
 * have been. */
static bool is_of(struct sdi_reach *reach, cl_context context, size_t num, void *const *pointers)
{
    if (!reach || reach->context != context || reach->num != num || memcmp(reach->pointers, pointers, num * sizeof *pointers))
        return false;
    if (reach->num_freed == num_freed)
        return true;
    for (size_t i = 0; i < num; i++) {
        cl_mem region = find(pointers[i]);
        if (!region || region->born > reach->num_freed)
            return false;
    }
    reach->num_freed = num_freed;
    return true;
}

/* Client lock held.  One more reference to what these pointers stand for, which is told unless it was; or the code. */
static cl_int reach_of(cl_context context, size_t num, void *const *pointers, struct sdi_reach **found)
{
    for (size_t i = 0; i < sizeof recent / sizeof *recent; i++)
        if (is_of(recent[i], context, num, pointers)) {
            sdi_reach_ref(*found = recent[i]);
            return CL_SUCCESS;
        }
    struct sdi_reach *reach = malloc(sizeof *reach + num * sizeof *pointers);
    if (!reach)
        return CL_OUT_OF_HOST_MEMORY;
    *reach = (struct sdi_reach){.refs = 2, .context = context, .num = num};
    memcpy(reach->pointers, pointers, num * sizeof *pointers);
    cl_int status = tell(reach, context);
    if (status) {
        free(reach);
        return status;
    }
    sdi_reach_unref(recent[next_recent]);
    recent[next_recent++] = *found = reach;
    next_recent %= sizeof recent / sizeof *recent;
    return CL_SUCCESS;
}

/* Client lock held. */
static cl_int set_reach(cl_kernel kernel, size_t num, void *const *pointers)
{
    struct sdi_reach *reach = NULL;
    cl_int status = num ? reach_of(kernel->program->context, num, pointers, &reach) : CL_SUCCESS;
    if (status)
        return status;
    sdi_reach_unref(kernel->reach);
    kernel->reach = reach;
    return CL_SUCCESS;
}

/* Client lock held.  Whether it has addresses from a buffer: they can only be of regions, of which none need be an
 * argument. */
static bool takes_addresses(cl_kernel kernel)
{
    for (uint32_t i = 0; i < kernel->table->num_args; i++) {
        const struct sdi_bound *bound = &kernel->bound[i];
        if (kernel->table->arguments[i].holds_pointers && bound->id && sdi_is_mem(bound->buffer)
            && bound->buffer->object.id == bound->id && !bound->buffer->root->is_region)
            return true;
    }
    return false;
}

/* Client lock held. */
static cl_int reach_all(cl_kernel kernel)
{
    void **pointers = malloc((num_regions + 1) * sizeof *pointers);
    if (!pointers)
        return CL_OUT_OF_HOST_MEMORY;
    size_t num = 0;
    for (size_t i = 0; i < num_regions; i++)
        if (regions[i]->context == kernel->program->context)
            pointers[num++] = (void *)sdi_region_at(regions[i]);
    cl_int status = set_reach(kernel, num, pointers);
    free(pointers);
    return status;
}

cl_int sdi_kernel_reach(cl_kernel kernel, struct sdi_reach **reach)
{
    sdi_lock(); /* launches of the kernel in other threads may replace it as soon as it is let go of */
    cl_int status = CL_SUCCESS;
    if (!kernel->said_reach && takes_addresses(kernel))
        status = reach_all(kernel);
    else if (!kernel->said_reach && kernel->reach)
        status = set_reach(kernel, 0, NULL);
    *reach = status ? NULL : kernel->reach;
    sdi_reach_ref(*reach);
    sdi_unlock();
    return status;
}

static cl_int set_regions(cl_kernel kernel, size_t num, void *const *pointers)
{
    sdi_lock(); /* what is told may be freed by another thread as soon as it is let go of */
    cl_int status = set_reach(kernel, num, pointers);
    if (!status)
        kernel->said_reach = true;
    sdi_unlock();
    return status;
}

cl_int sdi_clSetKernelExecInfo(cl_kernel kernel, cl_uint param, size_t size, const void *value)
{
    cl_uint wants_all;
    if (!sdi_is_kernel(kernel))
        return CL_INVALID_KERNEL;
    if (!sdi_session.has_svm)
        return CL_INVALID_OPERATION;
    switch (param) {
    case CL_KERNEL_EXEC_INFO_SVM_PTRS:
        if ((size == 0) != (value == NULL) || size % sizeof(void *))
            return CL_INVALID_VALUE;
        return set_regions(kernel, size / sizeof(void *), value);
    case CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM:
        if (!value || size != sizeof wants_all)
            return CL_INVALID_VALUE;
        memcpy(&wants_all, value, sizeof wants_all);
        return wants_all ? CL_INVALID_OPERATION : CL_SUCCESS;
    default:
        return CL_INVALID_VALUE;
    }
}

/* Client lock held. */
static size_t add_region(const struct sdi_bound *bound, uint64_t *id)
{
    if (!bound->id || !sdi_is_mem(bound->buffer) || bound->buffer->object.id != bound->id
        || !bound->buffer->root->is_region)
        return 0;
    sdi_named(bound->buffer);
    *id = bound->buffer->root->object.id;
    return 1;
}

bool sdi_kernel_is_by_address(cl_kernel kernel, const struct sdi_kernel_table *table)
{
    bool is_by_address = table->follows_pointers;
    for (uint32_t i = 0; i < kernel->table->num_args && !is_by_address; i++)
        is_by_address = kernel->bound[i].by_address;
    return is_by_address;
}

uint64_t sdi_reach_id(const struct sdi_reach *reach)
{
    return reach ? reach->id : 0;
}

cl_int sdi_reach_uses(const struct sdi_reach *reach, struct sdi_use **uses)
{
    cl_int status = CL_SUCCESS;
    for (size_t i = 0; reach && i < reach->num && !status; i++) {
        sdi_lock(); /* meanwhile other threads free regions */
        cl_mem region = find(reach->pointers[i]);
        bool is_apart = region && region->hosted;
        if (is_apart)
            sdi_hold(region);
        sdi_unlock();
        if (!is_apart)
            continue;
        status = sdi_host_use(uses, region, 0, region->nbytes, true);
        sdi_lock();
        sdi_unhold(region);
        sdi_unlock();
    }
    return status;
}

cl_int sdi_regions_use(cl_context context, struct sdi_use **uses)
{
    sdi_lock(); /* from then on other threads may free regions */
    size_t num = 0;
    cl_mem *held = malloc((num_regions + 1) * sizeof *held);
    for (size_t i = 0; held && i < num_regions; i++)
        if (regions[i]->context == context && regions[i]->hosted)
            sdi_hold(held[num++] = regions[i]);
    sdi_unlock();
    cl_int status = held ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < num && !status; i++)
        status = sdi_host_use(uses, held[i], 0, held[i]->nbytes, true);
    sdi_lock();
    while (num)
        sdi_unhold(held[--num]);
    sdi_unlock();
    free(held);
    return status;
}

size_t sdi_kernel_regions(cl_kernel kernel, uint64_t *ids)
{
    size_t num = 0;
    sdi_lock(); /* meanwhile other threads free regions */
    for (uint32_t i = 0; i < kernel->table->num_args; i++)
        num += add_region(&kernel->bound[i], ids + num);
    sdi_unlock();
    return num;
}
