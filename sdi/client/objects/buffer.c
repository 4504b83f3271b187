/* Buffers and parts of buffers. */
#include "objects/memory.h"
#include "threads/threads.h"

#define ACCESS_FLAGS (CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY)
#define HOST_FLAGS (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)
#define POINTER_FLAGS (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)

static bool several(cl_ulong bits)
{
    return (bits & (bits - 1)) != 0;
}

/* A hint to AMD's drivers, with which programs for these make buffers anywhere. */
#define HINT_FLAGS CL_MEM_USE_PERSISTENT_MEM_AMD

bool sdi_mem_flags_valid(cl_ulong flags)
{
    return !(flags & ~(ACCESS_FLAGS | HOST_FLAGS | POINTER_FLAGS | HINT_FLAGS)) && !several(flags & ACCESS_FLAGS)
           && !several(flags & HOST_FLAGS)
           && !(flags & CL_MEM_USE_HOST_PTR && flags & (CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR));
}

/* ---- creation ------------------------------------------------------------------------------------------------- */

static void discard(cl_mem buffer)
{
    sdi_lock();
    sdi_discard(buffer);
    sdi_unlock();
}

/* Has the service make room in the arena. */
static cl_int ask_for_place(cl_mem buffer, size_t shift)
{
    struct sdi_rec_create_buffer record = {
        .nbytes = sizeof record,
        .op = SDI_OP_CREATE_BUFFER,
        .id = buffer->object.id,
        .flags = buffer->flags,
        .buffer_nbytes = buffer->room,
        .shift = shift,
    };
    struct sdi_reply reply = sdi_ask(&record, sizeof record);
    free(reply.payload);
    const size_t behind = reply.value % SDI_PAGE_NBYTES;
    if (reply.payload_nbytes || (!reply.status && (reply.value < SDI_HEAP_OFFSET || (behind && behind != shift)))) {
        sdi_session_died();
        return CL_OUT_OF_RESOURCES;
    }
    if (reply.status)
        return reply.status;
    if (reply.value > sdi_session.arena_nbytes
        || buffer->room > sdi_session.arena_nbytes - reply.value) {
        sdi_lock();
        sdi_send_bare(SDI_OP_RELEASE_BUFFER, buffer->object.id);
        sdi_unlock();
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    buffer->bytes = sdi_session.arena + reply.value;
    buffer->touched = calloc(buffer->room / SDI_PIECE_NBYTES + 1, 1); /* without it: slower first copies */
    return CL_SUCCESS;
}

/* A kernel uses the same elements of its buffers together: where all begin at pages' beginnings these are in the same few
 * lines of the processor's cache ([M] 26 arrays: 14.0 ms, 9.7 with it), so each begins behind one by as much more. */
static size_t next_shift(void)
{
    static size_t count;
    return __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED) % (SDI_PAGE_NBYTES / SDI_SHIFT_NBYTES) * SDI_SHIFT_NBYTES;
}

static cl_int place(cl_mem buffer, bool at_page)
{
    sdi_lock();
    bool is_reused = sdi_reuse(buffer, at_page);
    sdi_unlock();
    if (is_reused)
        return CL_SUCCESS;
    const size_t shift = at_page ? 0 : next_shift();
    cl_int status = ask_for_place(buffer, shift);
    if (status == CL_MEM_OBJECT_ALLOCATION_FAILURE) {
        sdi_lock();
        bool may_help = sdi_recycled_give_up() || buffer->room > buffer->nbytes;
        sdi_unlock();
        buffer->room = buffer->nbytes;
        if (may_help)
            status = ask_for_place(buffer, shift);
    }
    return status;
}

cl_mem sdi_new_memory(cl_context context, cl_ulong flags, size_t nbytes, void *host_ptr, bool at_page, cl_int *errcode_ret)
{
    sdi_lock();
    cl_mem buffer = sdi_new(SDI_BUFFER);
    if (buffer) {
        buffer->context = context;
        sdi_hold(context);
        buffer->root = buffer;
        buffer->nbytes = buffer->room = nbytes;
        buffer->flags = flags ? flags : CL_MEM_READ_WRITE;
        buffer->host_ptr = flags & CL_MEM_USE_HOST_PTR ? host_ptr : NULL;
    }
    sdi_unlock();
    if (!buffer)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    cl_int status = place(buffer, at_page || buffer->host_ptr);
    if (!status && buffer->host_ptr)
        status = sdi_host_new(buffer);
    if (status) {
        discard(buffer);
        return sdi_fail(errcode_ret, status);
    }
    buffer->is_unnamed = !buffer->hosted;
    if (host_ptr && !buffer->hosted)
        sdi_copy_run(buffer, 0, host_ptr, nbytes, true);
    sdi_succeed(errcode_ret);
    return buffer;
}

/* A buffer of bytes of shared virtual memory: they are where they are. */
static cl_mem over_region(cl_context context, cl_mem region, size_t offset, cl_ulong flags, size_t nbytes,
                          cl_int *errcode_ret)
{
    if (region->context != context)
        return sdi_fail(errcode_ret, CL_INVALID_CONTEXT);
    if (nbytes > region->nbytes - offset)
        return sdi_fail(errcode_ret, CL_INVALID_BUFFER_SIZE);
    if (sdi_session_dead())
        return sdi_fail(errcode_ret, CL_OUT_OF_RESOURCES);
    cl_mem view = sdi_new_view(region, flags, offset, nbytes);
    if (!view)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    view->uses_svm = true;
    view->host_ptr = sdi_region_at(region) + offset;
    sdi_succeed(errcode_ret);
    return view;
}

static cl_mem create(cl_context context, const cl_ulong *properties, cl_ulong flags, size_t nbytes, void *host_ptr,
                     cl_int *errcode_ret)
{
    if (!sdi_is_context(context))
        return sdi_fail(errcode_ret, CL_INVALID_CONTEXT);
    if (properties && properties[0])
        return sdi_fail(errcode_ret, CL_INVALID_PROPERTY);
    if (!sdi_mem_flags_valid(flags))
        return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    if (nbytes == 0 || nbytes > context->limits.max_alloc_nbytes)
        return sdi_fail(errcode_ret, CL_INVALID_BUFFER_SIZE);
    if ((host_ptr != NULL) != ((flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) != 0))
        return sdi_fail(errcode_ret, CL_INVALID_HOST_PTR);
    size_t offset = 0;
    cl_mem region = flags & CL_MEM_USE_HOST_PTR ? sdi_region_of(host_ptr, &offset) : NULL;
    cl_mem buffer = region ? over_region(context, region, offset, flags, nbytes, errcode_ret)
                           : sdi_new_memory(context, flags, nbytes, host_ptr, false, errcode_ret);
    if (buffer)
        buffer->num_properties = properties ? 1 : 0;
    return buffer;
}

cl_mem sdi_clCreateBuffer(cl_context context, cl_ulong flags, size_t nbytes, void *host_ptr, cl_int *errcode_ret)
{
    return create(context, NULL, flags, nbytes, host_ptr, errcode_ret);
}

cl_mem sdi_clCreateBufferWithProperties(cl_context context, const cl_ulong *properties, cl_ulong flags, size_t nbytes,
                                        void *host_ptr, cl_int *errcode_ret)
{
    return create(context, properties, flags, nbytes, host_ptr, errcode_ret);
}

bool sdi_part_flags(cl_ulong whole, cl_ulong flags, cl_ulong *result)
{
    if (!sdi_mem_flags_valid(flags) || flags & POINTER_FLAGS)
        return false;
    if ((whole & CL_MEM_WRITE_ONLY && flags & (CL_MEM_READ_WRITE | CL_MEM_READ_ONLY))
        || (whole & CL_MEM_READ_ONLY && flags & (CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY))
        || (whole & CL_MEM_HOST_WRITE_ONLY && flags & CL_MEM_HOST_READ_ONLY)
        || (whole & CL_MEM_HOST_READ_ONLY && flags & CL_MEM_HOST_WRITE_ONLY)
        || (whole & CL_MEM_HOST_NO_ACCESS && flags & (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY)))
        return false;
    *result = flags | (whole & POINTER_FLAGS);
    if (!(flags & ACCESS_FLAGS))
        *result |= whole & ACCESS_FLAGS;
    if (!(flags & HOST_FLAGS))
        *result |= whole & HOST_FLAGS;
    return true;
}

/* A part is a view: only the client knows of it. */
cl_mem sdi_new_view(cl_mem whole, cl_ulong flags, size_t origin, size_t nbytes)
{
    sdi_lock();
    cl_mem part = sdi_new(SDI_BUFFER);
    if (part) {
        part->context = whole->context;
        sdi_hold(part->context);
        part->root = whole->root;
        sdi_hold(part->root);
        part->origin = whole->origin + origin;
        part->nbytes = nbytes;
        part->flags = flags;
        part->host_ptr = whole->host_ptr ? whole->host_ptr + origin : NULL;
    }
    sdi_unlock();
    return part;
}

cl_mem sdi_clCreateSubBuffer(cl_mem whole, cl_ulong flags, cl_uint type, const void *info, cl_int *errcode_ret)
{
    if (!sdi_is_buffer(whole) || whole->parent)
        return sdi_fail(errcode_ret, CL_INVALID_MEM_OBJECT);
    struct {
        size_t origin, nbytes;
    } region;
    cl_ulong all_flags;
    if (!sdi_part_flags(whole->flags, flags, &all_flags) || type != CL_BUFFER_CREATE_TYPE_REGION || !info)
        return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    memcpy(&region, info, sizeof region);
    if (region.nbytes == 0)
        return sdi_fail(errcode_ret, CL_INVALID_BUFFER_SIZE);
    if (region.origin > whole->nbytes || region.nbytes > whole->nbytes - region.origin)
        return sdi_fail(errcode_ret, CL_INVALID_VALUE);
    if (region.origin % whole->context->limits.base_align_nbytes)
        return sdi_fail(errcode_ret, CL_MISALIGNED_SUB_BUFFER_OFFSET);
    if (sdi_session_dead())
        return sdi_fail(errcode_ret, CL_OUT_OF_RESOURCES);
    cl_mem part = sdi_new_view(whole, all_flags, region.origin, region.nbytes);
    if (!part)
        return sdi_fail(errcode_ret, CL_OUT_OF_HOST_MEMORY);
    sdi_lock();
    part->parent = whole;
    sdi_hold(whole);
    sdi_unlock();
    part->uses_svm = whole->uses_svm;
    sdi_succeed(errcode_ret);
    return part;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

SDI_COUNTED(MemObject, cl_mem, SDI_BUFFER, CL_INVALID_MEM_OBJECT)

static struct sdi_mapping *listed; /* newest first; client lock */

static void forget_listed(void)
{
    listed = NULL;
}

SDI_AT_FORK(forget_listed)

void sdi_mapping_list(struct sdi_mapping *mapping)
{
    mapping->after = listed;
    if (listed)
        listed->before = mapping;
    listed = mapping;
}

bool sdi_is_mapped(const char *at, size_t nbytes)
{
    for (const struct sdi_mapping *m = listed; m; m = m->after)
        if (at >= m->pointer && (size_t)(at - m->pointer) <= m->box.end - m->box.offset
            && nbytes <= m->box.end - m->box.offset - (size_t)(at - m->pointer))
            return true;
    return false;
}

void sdi_mapping_free(struct sdi_mapping *mapping)
{
    if (mapping->before)
        mapping->before->after = mapping->after;
    else if (listed == mapping)
        listed = mapping->after;
    if (mapping->after)
        mapping->after->before = mapping->before;
    if (mapping->mapped)
        sdi_unhold(mapping->mapped);
    free(mapping);
}

static void drop(void *object)
{
    cl_mem buffer = object;
    if (buffer->lazy)
        sdi_lazy_drop(buffer);
    if (buffer->hosted)
        sdi_host_drop(buffer);
    bool is_free = !buffer->is_region || !buffer->host_ptr || sdi_region_together(buffer);
    if (buffer->parent)
        sdi_unhold(buffer->parent);
    if (buffer->root != buffer)
        sdi_unhold(buffer->root);
    else if (buffer->bytes && is_free && !buffer->mappings && sdi_recycle(buffer))
        buffer->touched = NULL;
    else if (buffer->bytes && is_free)
        sdi_send_bare(SDI_OP_RELEASE_BUFFER, buffer->object.id);
    free(buffer->touched);
    while (buffer->mappings) {
        struct sdi_mapping *mapping = buffer->mappings;
        buffer->mappings = mapping->next;
        sdi_mapping_free(mapping);
    }
    if (buffer->image && buffer->image->source)
        sdi_unhold(buffer->image->source);
    free(buffer->image);
    sdi_defer(buffer->destructors);
    sdi_unhold(buffer->context);
}

SDI_AT_DROP(SDI_BUFFER, drop)

static void run_destructor(struct sdi_call *call)
{
    call->function.buffer(call->object, call->data);
}

cl_int sdi_clSetMemObjectDestructorCallback(cl_mem buffer, void (*notify)(cl_mem, void *), void *data)
{
    if (!sdi_is_mem(buffer))
        return CL_INVALID_MEM_OBJECT;
    if (!notify)
        return CL_INVALID_VALUE;
    struct sdi_call call = {.run = run_destructor, .function.buffer = notify, .object = buffer, .data = data};
    return sdi_destructor_add(&buffer->destructors, call);
}

cl_int sdi_clGetMemObjectInfo(cl_mem buffer, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    static const cl_ulong no_properties = 0;
    if (!sdi_is_mem(buffer))
        return CL_INVALID_MEM_OBJECT;
    switch (param) {
    case CL_MEM_TYPE:
        SDI_ANSWER(cl_uint, buffer->image ? buffer->image->type : CL_MEM_OBJECT_BUFFER);
    case CL_MEM_FLAGS:
        SDI_ANSWER(cl_ulong, buffer->flags);
    case CL_MEM_SIZE:
        SDI_ANSWER(size_t, buffer->image ? buffer->image->told_nbytes : buffer->nbytes);
    case CL_MEM_HOST_PTR:
        SDI_ANSWER(void *, buffer->host_ptr);
    case CL_MEM_MAP_COUNT:
        SDI_ANSWER(cl_uint, buffer->num_mappings);
    case CL_MEM_REFERENCE_COUNT:
        SDI_ANSWER(cl_uint, buffer->object.refs);
    case CL_MEM_CONTEXT:
        SDI_ANSWER(cl_context, buffer->context);
    case CL_MEM_ASSOCIATED_MEMOBJECT:
        if (buffer->image)
            SDI_ANSWER(cl_mem, buffer->image->source);
        SDI_ANSWER(cl_mem, buffer->parent);
    case CL_MEM_OFFSET:
        SDI_ANSWER(size_t, buffer->parent ? buffer->origin - buffer->parent->origin : 0);
    case CL_MEM_USES_SVM_POINTER:
        SDI_ANSWER(cl_uint, buffer->uses_svm);
    case CL_MEM_PROPERTIES:
        return sdi_answer(&no_properties, buffer->num_properties * sizeof no_properties, size, value, size_ret);
    default:
        return CL_INVALID_VALUE;
    }
}
