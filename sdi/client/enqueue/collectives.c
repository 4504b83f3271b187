/* Collective commands (cl_sdi_collectives): made of copies from device to device and of reductions there, all of them
 * commands of the first queue, and a marker that stands for all. */
#include "enqueue/reductions.h"

/* Fewer bytes go down a tree of copies, or straight; more along a chain, where each device sends them once. */
#define CHAINED_NBYTES ((size_t)1 << 20)
/* What goes along a chain does so in up to so many pieces: the next one is sent while others travel. */
enum { PIECES_MAX = 8 };

/* Buffers with offsets, `nbytes` from each. */
struct places {
    cl_uint num;
    const cl_mem *buffers;
    const size_t *offsets; /* NULL: all 0 */
    size_t nbytes;
};

/* One collective command, and what was enqueued for it so far. */
struct collective {
    cl_uint type;
    const cl_command_queue *queues; /* one for each target */
    struct places sources, targets;
    size_t nbytes;
    struct sdi_reduction reduction;
    struct sdi_waits waits;
    cl_event *own; /* events of commands, held */
    cl_uint num_own, room;
    cl_int status; /* of the first command that could not be enqueued */
};

/* ---- checks --------------------------------------------------------------------------------------------------- */

static size_t offset_of(const struct places *places, cl_uint i)
{
    return places->offsets ? places->offsets[i] : 0;
}

static cl_int check_places(cl_context context, const struct places *places)
{
    for (cl_uint i = 0; i < places->num; i++) {
        cl_mem buffer = places->buffers[i];
        if (!sdi_is_buffer(buffer))
            return CL_INVALID_MEM_OBJECT;
        if (buffer->context != context)
            return CL_INVALID_CONTEXT;
        size_t offset = offset_of(places, i);
        if (offset > buffer->nbytes || places->nbytes > buffer->nbytes - offset)
            return CL_INVALID_VALUE;
    }
    return CL_SUCCESS;
}

static bool share_bytes(const struct places *a, cl_uint i, const struct places *b, cl_uint j)
{
    cl_mem one = a->buffers[i], other = b->buffers[j];
    size_t at = one->origin + offset_of(a, i), there = other->origin + offset_of(b, j);
    return one->root == other->root && at < there + b->nbytes && there < at + a->nbytes;
}

static cl_int check_apart(const struct places *sources, const struct places *targets)
{
    for (cl_uint i = 0; i < targets->num; i++) {
        for (cl_uint j = 0; j < sources->num; j++)
            if (share_bytes(targets, i, sources, j))
                return CL_MEM_COPY_OVERLAP;
        for (cl_uint j = i + 1; j < targets->num; j++)
            if (share_bytes(targets, i, targets, j))
                return CL_MEM_COPY_OVERLAP;
    }
    return CL_SUCCESS;
}

static cl_int check_elements(const struct collective *c)
{
    size_t each = c->reduction.element_nbytes;
    const struct places *both[] = {&c->sources, &c->targets};
    for (int k = 0; k < 2; k++)
        for (cl_uint i = 0; i < both[k]->num; i++)
            if ((both[k]->buffers[i]->origin + offset_of(both[k], i)) % each)
                return CL_INVALID_VALUE;
    return c->nbytes % each ? CL_INVALID_VALUE : CL_SUCCESS;
}

static cl_int check(const struct collective *c)
{
    const cl_command_queue *queues = c->queues;
    if (!queues || !c->sources.num || !c->sources.buffers || !c->targets.num || !c->targets.buffers || !c->nbytes)
        return CL_INVALID_VALUE;
    for (cl_uint i = 0; i < c->targets.num; i++)
        if (!sdi_is_command_queue(queues[i]))
            return CL_INVALID_COMMAND_QUEUE;
    cl_context context = queues[0]->context;
    for (cl_uint i = 1; i < c->targets.num; i++)
        if (queues[i]->context != context)
            return CL_INVALID_CONTEXT;
    cl_int status = check_places(context, &c->sources);
    if (!status)
        status = check_places(context, &c->targets);
    if (!status)
        status = sdi_check_waits(context, c->waits);
    return status ? status : check_apart(&c->sources, &c->targets);
}

/* ---- commands --------------------------------------------------------------------------------------------------- */

static struct sdi_place source(const struct collective *c, cl_uint i, size_t further)
{
    return (struct sdi_place){c->sources.buffers[i], offset_of(&c->sources, i) + further};
}

static struct sdi_place target(const struct collective *c, cl_uint i, size_t further)
{
    return (struct sdi_place){c->targets.buffers[i], offset_of(&c->targets, i) + further};
}

/* What the next command waits for: what the collective does; in a queue without order also the one before it, so that
 * they are looked at in their order. */
static bool begin(struct collective *c, struct sdi_waits *waits, cl_event **list)
{
    *waits = c->waits;
    *list = NULL;
    if (c->status)
        return false;
    if (c->num_own == c->room) {
        cl_uint room = 2 * c->room + 8;
        cl_event *more = realloc(c->own, room * sizeof *more);
        if (!more) {
            c->status = CL_OUT_OF_HOST_MEMORY;
            return false;
        }
        c->own = more;
        c->room = room;
    }
    if (!c->num_own || !(c->queues[0]->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))
        return true;
    *list = malloc((c->waits.num + 1) * sizeof **list);
    if (!*list) {
        c->status = CL_OUT_OF_HOST_MEMORY;
        return false;
    }
    if (c->waits.num)
        memcpy(*list, c->waits.events, c->waits.num * sizeof **list);
    (*list)[c->waits.num] = c->own[c->num_own - 1];
    *waits = (struct sdi_waits){c->waits.num + 1, *list};
    return true;
}

static void end(struct collective *c, cl_int status, cl_event *list)
{
    free(list);
    c->status = status;
    if (!status)
        c->num_own++;
}

/* To the device of target `to`'s queue. */
static void copy(struct collective *c, cl_uint to, struct sdi_place from, struct sdi_place into, size_t nbytes)
{
    struct sdi_waits waits;
    cl_event *list;
    if (!nbytes || !begin(c, &waits, &list))
        return;
    end(c,
        sdi_copy_to(c->queues[0], c->queues[to]->device, CL_COMMAND_COPY_BUFFER, from.buffer, from.offset, into.buffer,
                    into.offset, nbytes, waits, &c->own[c->num_own]),
        list);
}

static void reduce(struct collective *c, cl_uint to, struct sdi_place a, struct sdi_place b, struct sdi_place into,
                   size_t nbytes)
{
    struct sdi_waits waits;
    cl_event *list;
    if (!nbytes || !begin(c, &waits, &list))
        return;
    end(c,
        sdi_reduction_enqueue(&c->reduction, c->queues[0], c->queues[to]->device, into, a, b, nbytes, waits,
                              &c->own[c->num_own]),
        list);
}

/* Reduces these bytes of all sources, from the left, on the device of target `to`. */
static void reduce_all(struct collective *c, cl_uint to, size_t further, struct sdi_place into, size_t nbytes)
{
    if (c->sources.num == 1)
        copy(c, to, source(c, 0, further), into, nbytes);
    for (cl_uint i = 1; i < c->sources.num; i++)
        reduce(c, to, i == 1 ? source(c, 0, further) : into, source(c, i, further), into, nbytes);
}

/* The targets but the first `skipped`, by the numbers of their devices: those of a node are neighbours. */
static bool sort_targets(struct collective *c, cl_uint skipped, cl_uint **order)
{
    cl_uint num = c->targets.num - skipped;
    *order = malloc((num + 1) * sizeof **order);
    if (!*order) {
        c->status = CL_OUT_OF_HOST_MEMORY;
        return false;
    }
    for (cl_uint i = 0; i < num; i++) {
        cl_uint at = i;
        for (; at > 0 && c->queues[(*order)[at - 1]]->device->number > c->queues[i + skipped]->device->number; at--)
            (*order)[at] = (*order)[at - 1];
        (*order)[at] = i + skipped;
    }
    return true;
}

/* Number `i` of a tree in which everybody sends to others as soon as it has got something: who sends to it. */
static cl_uint parent(cl_uint i)
{
    cl_uint highest = 1;
    while (highest <= i / 2)
        highest *= 2;
    return i - highest;
}

/* From a place to all targets but the first `skipped`. */
static void spread(struct collective *c, struct sdi_place from, cl_uint skipped)
{
    cl_uint *order, num = c->targets.num - skipped;
    if (!sort_targets(c, skipped, &order))
        return;
    size_t pieces = c->nbytes < CHAINED_NBYTES ? 1 : SDI_MIN(c->nbytes / CHAINED_NBYTES, (size_t)PIECES_MAX);
    size_t each = sdi_padded((c->nbytes + pieces - 1) / pieces);
    for (size_t at = 0; at < c->nbytes; at += each)
        for (cl_uint i = 1; i <= num; i++) {
            cl_uint by = pieces > 1 ? i - 1 : parent(i);
            struct sdi_place here = by ? target(c, order[by - 1], at)
                                       : (struct sdi_place){from.buffer, from.offset + at};
            copy(c, order[i - 1], here, target(c, order[i - 1], at), SDI_MIN(each, c->nbytes - at));
        }
    free(order);
}

/* Where part `i` begins of `num` of so many bytes in whole elements; part `num` is the end. */
static size_t part_at(const struct collective *c, cl_uint i)
{
    size_t count = c->nbytes / c->reduction.element_nbytes, num = c->targets.num;
    return (count / num * i + SDI_MIN((size_t)i, count % num)) * c->reduction.element_nbytes;
}

/* ---- what each of them does ---------------------------------------------------------------------------------------- */

static void broadcast(struct collective *c)
{
    spread(c, source(c, 0, 0), 0);
}

static void scatter(struct collective *c)
{
    for (cl_uint i = 0; i < c->targets.num; i++)
        copy(c, i, source(c, 0, i * c->nbytes), target(c, i, 0), c->nbytes);
}

static void gather(struct collective *c)
{
    for (cl_uint i = 0; i < c->sources.num; i++)
        copy(c, 0, source(c, i, 0), target(c, 0, i * c->nbytes), c->nbytes);
}

/* Much goes round a ring: each part leaves each device once. */
static void all_gather(struct collective *c)
{
    cl_uint num = c->targets.num;
    for (cl_uint step = 0; step < num; step++)
        for (cl_uint i = 0; i < num; i++) {
            cl_uint to = (i + step) % num, before = (to + num - 1) % num;
            bool rings = step && c->nbytes >= CHAINED_NBYTES;
            copy(c, to, rings ? target(c, before, i * c->nbytes) : source(c, i, 0), target(c, to, i * c->nbytes),
                 c->nbytes);
        }
}

/* In each step everybody sends to another one. */
static void all_to_all(struct collective *c)
{
    cl_uint num = c->targets.num;
    for (cl_uint step = 0; step < num; step++)
        for (cl_uint i = 0; i < num; i++) {
            cl_uint to = (i + step) % num;
            copy(c, to, source(c, i, to * c->nbytes), target(c, to, i * c->nbytes), c->nbytes);
        }
}

static void reduce_to_one(struct collective *c)
{
    reduce_all(c, 0, 0, target(c, 0, 0), c->nbytes);
}

/* Much is reduced by parts, one on each device, which then go round a ring. */
static void all_reduce(struct collective *c)
{
    cl_uint num = c->targets.num;
    if (c->nbytes < CHAINED_NBYTES) {
        reduce_all(c, 0, 0, target(c, 0, 0), c->nbytes);
        spread(c, target(c, 0, 0), 1);
        return;
    }
    for (cl_uint i = 0; i < num; i++)
        reduce_all(c, i, part_at(c, i), target(c, i, part_at(c, i)), part_at(c, i + 1) - part_at(c, i));
    for (cl_uint step = 1; step < num; step++)
        for (cl_uint i = 0; i < num; i++) {
            cl_uint to = (i + step) % num, before = (to + num - 1) % num;
            copy(c, to, target(c, before, part_at(c, i)), target(c, to, part_at(c, i)),
                 part_at(c, i + 1) - part_at(c, i));
        }
}

static void reduce_scatter(struct collective *c)
{
    for (cl_uint i = 0; i < c->targets.num; i++)
        reduce_all(c, i, i * c->nbytes, target(c, i, 0), c->nbytes);
}

static void scan(struct collective *c)
{
    copy(c, 0, source(c, 0, 0), target(c, 0, 0), c->nbytes);
    for (cl_uint i = 1; i < c->targets.num; i++)
        reduce(c, i, target(c, i - 1, 0), source(c, i, 0), target(c, i, 0), c->nbytes);
}

/* ---- entry points -------------------------------------------------------------------------------------------------- */

static cl_int finish(struct collective *c, cl_event *event)
{
    struct sdi_record record;
    struct sdi_waits all = {c->num_own, c->own};
    if (!c->status && !sdi_record_open(&record, SDI_OP_MARKER, sizeof(struct sdi_rec_marker), all, true, 0))
        c->status = CL_OUT_OF_HOST_MEMORY;
    if (!c->status)
        c->status = sdi_enqueue_using(&record, c->queues[0], c->type, NULL, event);
    for (cl_uint i = 0; i < c->num_own; i++)
        sdi_release(c->own[i], SDI_EVENT, CL_INVALID_EVENT);
    free(c->own);
    return c->status;
}

/* `parts`: of how many a source, or a target, has the bytes. */
static cl_int run(struct collective c, void (*make)(struct collective *c), size_t source_parts, size_t target_parts,
                  const cl_uint *reduction, cl_event *event)
{
    if (__builtin_mul_overflow(c.nbytes, source_parts, &c.sources.nbytes)
        || __builtin_mul_overflow(c.nbytes, target_parts, &c.targets.nbytes))
        return CL_INVALID_VALUE;
    cl_int status = check(&c);
    if (!status && reduction) {
        status = sdi_reduction_find(reduction[0], reduction[1], &c.reduction);
        if (!status)
            status = check_elements(&c);
    }
    if (status)
        return status;
    make(&c);
    return finish(&c, event);
}

#define WAITS cl_uint num_waits, const cl_event *waits, cl_event *event
#define LISTS                                                                                                          \
    cl_command_queue *queues, cl_uint num, cl_mem *sources, cl_mem *targets, size_t *source_offsets,                   \
        size_t *target_offsets, size_t nbytes
#define BETWEEN_LISTS                                                                                                  \
    .queues = queues, .sources = {num, sources, source_offsets, 0}, .targets = {num, targets, target_offsets, 0},     \
    .nbytes = nbytes, .waits = {num_waits, waits}

static cl_int broadcast_buffer(cl_command_queue *queues, cl_uint num, cl_mem source, cl_mem *targets,
                               size_t source_offset, size_t *target_offsets, size_t nbytes, WAITS)
{
    struct collective c = {
        .type = CL_SDI_COMMAND_BROADCAST_BUFFER,
        .queues = queues,
        .sources = {1, &source, &source_offset, 0},
        .targets = {num, targets, target_offsets, 0},
        .nbytes = nbytes,
        .waits = {num_waits, waits},
    };
    return run(c, broadcast, 1, 1, NULL, event);
}

static cl_int scatter_buffer(cl_command_queue *queues, cl_uint num, cl_mem source, cl_mem *targets,
                             size_t source_offset, size_t *target_offsets, size_t nbytes, WAITS)
{
    struct collective c = {
        .type = CL_SDI_COMMAND_SCATTER_BUFFER,
        .queues = queues,
        .sources = {1, &source, &source_offset, 0},
        .targets = {num, targets, target_offsets, 0},
        .nbytes = nbytes,
        .waits = {num_waits, waits},
    };
    return run(c, scatter, num, 1, NULL, event);
}

static cl_int gather_buffer(cl_command_queue queue, cl_uint num, cl_mem *sources, cl_mem target,
                            size_t *source_offsets, size_t target_offset, size_t nbytes, WAITS)
{
    struct collective c = {
        .type = CL_SDI_COMMAND_GATHER_BUFFER,
        .queues = &queue,
        .sources = {num, sources, source_offsets, 0},
        .targets = {1, &target, &target_offset, 0},
        .nbytes = nbytes,
        .waits = {num_waits, waits},
    };
    return run(c, gather, 1, num, NULL, event);
}

static cl_int all_gather_buffer(LISTS, WAITS)
{
    struct collective c = {.type = CL_SDI_COMMAND_ALL_GATHER_BUFFER, BETWEEN_LISTS};
    return run(c, all_gather, 1, num, NULL, event);
}

static cl_int all_to_all_buffer(LISTS, WAITS)
{
    struct collective c = {.type = CL_SDI_COMMAND_ALL_TO_ALL_BUFFER, BETWEEN_LISTS};
    return run(c, all_to_all, num, num, NULL, event);
}

static cl_int reduce_buffer(cl_command_queue queue, cl_uint num, cl_mem *sources, cl_mem target,
                            size_t *source_offsets, size_t target_offset, size_t nbytes, cl_uint reduction,
                            cl_uint type, WAITS)
{
    struct collective c = {
        .type = CL_SDI_COMMAND_REDUCE_BUFFER,
        .queues = &queue,
        .sources = {num, sources, source_offsets, 0},
        .targets = {1, &target, &target_offset, 0},
        .nbytes = nbytes,
        .waits = {num_waits, waits},
    };
    return run(c, reduce_to_one, 1, 1, (cl_uint[]){reduction, type}, event);
}

static cl_int all_reduce_buffer(LISTS, cl_uint reduction, cl_uint type, WAITS)
{
    struct collective c = {.type = CL_SDI_COMMAND_ALL_REDUCE_BUFFER, BETWEEN_LISTS};
    return run(c, all_reduce, 1, 1, (cl_uint[]){reduction, type}, event);
}

static cl_int reduce_scatter_buffer(LISTS, cl_uint reduction, cl_uint type, WAITS)
{
    struct collective c = {.type = CL_SDI_COMMAND_REDUCE_SCATTER_BUFFER, BETWEEN_LISTS};
    return run(c, reduce_scatter, num, 1, (cl_uint[]){reduction, type}, event);
}

static cl_int scan_buffer(LISTS, cl_uint reduction, cl_uint type, WAITS)
{
    struct collective c = {.type = CL_SDI_COMMAND_SCAN_BUFFER, BETWEEN_LISTS};
    return run(c, scan, 1, 1, (cl_uint[]){reduction, type}, event);
}

static struct sdi_extension_function functions[] = {
    {"clEnqueueBroadcastBuffer", (sdi_function)broadcast_buffer, NULL},
    {"clEnqueueScatterBuffer", (sdi_function)scatter_buffer, NULL},
    {"clEnqueueGatherBuffer", (sdi_function)gather_buffer, NULL},
    {"clEnqueueAllGatherBuffer", (sdi_function)all_gather_buffer, NULL},
    {"clEnqueueAlltoAllBuffer", (sdi_function)all_to_all_buffer, NULL},
    {"clEnqueueReduceBuffer", (sdi_function)reduce_buffer, NULL},
    {"clEnqueueAllReduceBuffer", (sdi_function)all_reduce_buffer, NULL},
    {"clEnqueueReduceScatterBuffer", (sdi_function)reduce_scatter_buffer, NULL},
    {"clEnqueueScanBuffer", (sdi_function)scan_buffer, NULL},
};

SDI_AT_LOAD void register_functions(void)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        sdi_register_extension_function(&functions[i]);
}
