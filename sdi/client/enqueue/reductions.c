/* Reductions: one kernel for each operation and type, built when it is first needed and kept as long as the service. */
#include "enqueue/reductions.h"

#include <stdio.h>

enum { GROUP_ITEMS = 64, NUM_OPERATIONS = 10, NUM_TYPES = 10 };

/* What is computed of `a` and `b` of type T; W: an unsigned type of at least its size, in which nothing overflows. */
static const struct {
    cl_uint number;
    bool integers_only;
    const char *text;
} operations[NUM_OPERATIONS] = {
    {CL_SDI_REDUCE_SUM, false, "(T)((W)a + (W)b)"},      {CL_SDI_REDUCE_PRODUCT, false, "(T)((W)a * (W)b)"},
    {CL_SDI_REDUCE_MIN, false, "b < a ? b : a"},         {CL_SDI_REDUCE_MAX, false, "b > a ? b : a"},
    {CL_SDI_REDUCE_BAND, true, "a & b"},                 {CL_SDI_REDUCE_BOR, true, "a | b"},
    {CL_SDI_REDUCE_BXOR, true, "a ^ b"},                 {CL_SDI_REDUCE_LAND, true, "a && b"},
    {CL_SDI_REDUCE_LOR, true, "a || b"},                 {CL_SDI_REDUCE_LXOR, true, "!a != !b"},
};

static const struct {
    cl_uint number;
    bool is_integer;
    size_t nbytes;
    const char *name, *wide;
} types[NUM_TYPES] = {
    {CL_SIGNED_INT8, true, 1, "char", "uint"},           {CL_SIGNED_INT16, true, 2, "short", "uint"},
    {CL_SIGNED_INT32, true, 4, "int", "uint"},           {CL_UNSIGNED_INT8, true, 1, "uchar", "uint"},
    {CL_UNSIGNED_INT16, true, 2, "ushort", "uint"},      {CL_UNSIGNED_INT32, true, 4, "uint", "uint"},
    {CL_FLOAT, false, 4, "float", "float"},              {CL_SDI_SIGNED_INT64, true, 8, "long", "ulong"},
    {CL_SDI_UNSIGNED_INT64, true, 8, "ulong", "ulong"},  {CL_SDI_DOUBLE, false, 8, "double", "double"},
};

static struct sdi_reduction known[NUM_OPERATIONS][NUM_TYPES]; /* client lock; build 0: not yet */

static void forget(void)
{
    memset(known, 0, sizeof known);
}

SDI_AT_FORK(forget)

static const char SOURCE[] = "#define T %s\n"
                             "#define W %s\n"
                             "__kernel void sdi_reduce(__global T *into, __global const T *left,\n"
                             "                         __global const T *right, ulong count)\n"
                             "{\n"
                             "    size_t i = get_global_id(0);\n"
                             "    if (i < count) {\n"
                             "        T a = left[i], b = right[i];\n"
                             "        into[i] = %s;\n"
                             "    }\n"
                             "}\n";

/* No lock held. */
static cl_int build(unsigned operation, unsigned type, struct sdi_reduction *made)
{
    char record[sizeof(struct sdi_rec_build) + sizeof SOURCE + 128] = {0};
    struct sdi_rec_build *body = (void *)record;
    size_t room = sizeof record - sizeof *body - 8;
    int length = snprintf((char *)(body + 1), room, SOURCE, types[type].name, types[type].wide,
                          operations[operation].text);
    body->op = SDI_OP_BUILD;
    body->source_nbytes = (size_t)length;
    body->nbytes = (uint32_t)(sizeof *body + sdi_padded((size_t)length));
    sdi_lock();
    body->id = sdi_next_id();
    sdi_unlock();
    struct sdi_reply reply = sdi_ask(record, body->nbytes);
    free(reply.payload);
    *made = (struct sdi_reduction){.build = body->id, .element_nbytes = types[type].nbytes};
    return reply.status == CL_BUILD_PROGRAM_FAILURE ? CL_INVALID_OPERATION : reply.status;
}

cl_int sdi_reduction_find(cl_uint operation_number, cl_uint type_number, struct sdi_reduction *found)
{
    unsigned operation = 0, type = 0;
    while (operation < NUM_OPERATIONS && operations[operation].number != operation_number)
        operation++;
    while (type < NUM_TYPES && types[type].number != type_number)
        type++;
    if (operation == NUM_OPERATIONS || type == NUM_TYPES
        || (operations[operation].integers_only && !types[type].is_integer))
        return CL_INVALID_VALUE;
    sdi_lock();
    *found = known[operation][type];
    sdi_unlock();
    if (found->build)
        return CL_SUCCESS;
    cl_int status = build(operation, type, found);
    if (status)
        return status;
    sdi_lock();
    if (known[operation][type].build) { /* another thread was as quick */
        sdi_send_bare(SDI_OP_RELEASE_BUILD, found->build);
        *found = known[operation][type];
    }
    known[operation][type] = *found;
    sdi_unlock();
    return CL_SUCCESS;
}

/* One argument; where the next one begins. */
static unsigned char *put(unsigned char *at, uint32_t kind, const void *value, uint32_t nbytes)
{
    struct sdi_wire_arg_entry entry = {.kind = kind, .nbytes = nbytes};
    memcpy(at, &entry, sizeof entry);
    memcpy(at + sizeof entry, value, nbytes);
    return at + sizeof entry + nbytes;
}

cl_int sdi_reduction_enqueue(const struct sdi_reduction *reduction, cl_command_queue queue, cl_device_id device,
                             struct sdi_place into, struct sdi_place a, struct sdi_place b, size_t nbytes,
                             struct sdi_waits waits, cl_event *event)
{
    const struct sdi_place *places[] = {&into, &a, &b};
    enum { NUM_PLACES = 3 };
    struct sdi_use *uses = NULL;
    for (int i = 0; i < NUM_PLACES; i++) {
        sdi_named(places[i]->buffer);
        if (sdi_host_use(&uses, places[i]->buffer, places[i]->offset, nbytes, i == 0)) {
            sdi_host_unuse(uses);
            return CL_OUT_OF_HOST_MEMORY;
        }
    }
    struct sdi_record record;
    uint64_t count = nbytes / reduction->element_nbytes;
    size_t entry = sizeof(struct sdi_wire_arg_entry);
    size_t args_nbytes = NUM_PLACES * (entry + sizeof(struct sdi_wire_pointer_argument)) + entry + sizeof count;
    struct sdi_rec_ndrange *body = sdi_record_open(&record, SDI_OP_NDRANGE, sizeof *body, waits, false, args_nbytes);
    if (!body) {
        sdi_host_unuse(uses);
        return CL_OUT_OF_HOST_MEMORY;
    }
    size_t most = sdi_session.limits[device->number].max_work_group_size;
    size_t items = most < GROUP_ITEMS ? 1 : GROUP_ITEMS;
    body->build = reduction->build;
    body->work_dim = 1;
    body->num_args = NUM_PLACES + 1;
    body->args_nbytes = (uint32_t)args_nbytes;
    body->member = sdi_device_member(device);
    for (int i = 0; i < 3; i++)
        body->global_size[i] = body->local_size[i] = 1;
    body->local_size[0] = items;
    body->global_size[0] = (count + items - 1) / items * items;
    unsigned char *at = record.tail;
    for (int i = 0; i < NUM_PLACES; i++) {
        struct sdi_wire_pointer_argument place = {
            .buffer = places[i]->buffer->root->object.id,
            .offset = places[i]->buffer->origin + places[i]->offset,
            .nbytes = nbytes,
        };
        at = put(at, SDI_ARG_GLOBAL, &place, sizeof place);
    }
    put(at, SDI_ARG_VALUE, &count, sizeof count);
    return sdi_enqueue_using(&record, queue, CL_COMMAND_NDRANGE_KERNEL, uses, event);
}
