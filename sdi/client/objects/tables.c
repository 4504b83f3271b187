/* What a build tells about its kernels: read once from the reply, every length checked. */
#include "objects/program.h"

struct reader {
    const unsigned char *at;
    size_t left;
};

static bool take(struct reader *reader, void *into, size_t nbytes)
{
    if (reader->left < nbytes)
        return false;
    memcpy(into, reader->at, nbytes);
    reader->at += nbytes;
    reader->left -= nbytes;
    return true;
}

/* Takes `nbytes` and the zeros behind it.  False: it is not all there. */
static bool skip(struct reader *reader, size_t nbytes)
{
    size_t padded = sdi_padded(nbytes);
    if (reader->left < padded)
        return false;
    reader->at += padded;
    reader->left -= padded;
    return true;
}

/* A text, padded in the reply, NUL-terminated here. */
static cl_int take_text(struct reader *reader, size_t nbytes, char **text)
{
    const unsigned char *from = reader->at;
    if (!skip(reader, nbytes))
        return CL_OUT_OF_RESOURCES;
    *text = malloc(nbytes + 1);
    if (!*text)
        return CL_OUT_OF_HOST_MEMORY;
    memcpy(*text, from, nbytes);
    (*text)[nbytes] = 0;
    return CL_SUCCESS;
}

void sdi_free_tables(struct sdi_kernel_table *tables, uint32_t num)
{
    for (uint32_t i = 0; i < num; i++) {
        for (uint32_t j = 0; tables[i].arguments && j < tables[i].num_args; j++) {
            free(tables[i].arguments[j].name);
            free(tables[i].arguments[j].type_name);
        }
        free(tables[i].arguments);
        free(tables[i].sub_groups);
        free(tables[i].limits);
        free(tables[i].name);
        free(tables[i].attributes);
    }
    free(tables);
}

/* Bytes of an argument in an NDRANGE record, without its entry. */
size_t sdi_argument_nbytes(const struct sdi_argument *argument)
{
    switch (argument->kind) {
    case SDI_ARG_VALUE:
        return argument->nbytes;
    case SDI_ARG_GLOBAL:
    case SDI_ARG_CONSTANT:
        return sizeof(struct sdi_wire_pointer_argument);
    case SDI_ARG_IMAGE:
        return sizeof(struct sdi_wire_image_argument);
    case SDI_ARG_SAMPLER:
        return sizeof(struct sdi_wire_sampler_argument);
    default:
        return sizeof(struct sdi_wire_local_argument);
    }
}

static cl_int take_argument(struct reader *reader, struct sdi_argument *argument, size_t *payload_nbytes)
{
    struct sdi_wire_argument_entry entry;
    if (!take(reader, &entry, sizeof entry) || entry.kind > SDI_ARG_SAMPLER || entry.nbytes > SDI_MAX_RECORD_NBYTES)
        return CL_OUT_OF_RESOURCES;
    argument->kind = entry.kind;
    argument->nbytes = entry.nbytes;
    argument->address = entry.address;
    argument->access = entry.access;
    argument->type = entry.type;
    argument->holds_pointers = entry.holds_pointers != 0;
    argument->is_written = entry.is_written != 0;
    argument->at = *payload_nbytes;
    *payload_nbytes += sizeof(struct sdi_wire_arg_entry) + sdi_padded(sdi_argument_nbytes(argument));
    cl_int status = take_text(reader, entry.name_nbytes, &argument->name);
    return status ? status : take_text(reader, entry.type_nbytes, &argument->type_name);
}

static cl_int take_kernel(struct reader *reader, uint32_t num_devices, struct sdi_kernel_table *table)
{
    struct sdi_wire_kernel_entry entry;
    if (!take(reader, &entry, sizeof entry) || entry.num_args > reader->left / sizeof(struct sdi_wire_argument_entry))
        return CL_OUT_OF_RESOURCES;
    for (int i = 0; i < 3; i++)
        table->required_size[i] = entry.required_size[i];
    table->prints = entry.prints != 0;
    table->follows_pointers = entry.follows_pointers != 0;
    table->limits = calloc(num_devices, sizeof *table->limits);
    if (!table->limits)
        return CL_OUT_OF_HOST_MEMORY;
    if (!take(reader, table->limits, num_devices * sizeof *table->limits))
        return CL_OUT_OF_RESOURCES;
    cl_int status = take_text(reader, entry.name_nbytes, &table->name);
    if (!status)
        status = take_text(reader, entry.attributes_nbytes, &table->attributes);
    if (status)
        return status;
    table->arguments = calloc(entry.num_args + 1, sizeof *table->arguments);
    if (!table->arguments)
        return CL_OUT_OF_HOST_MEMORY;
    table->num_args = entry.num_args;
    for (uint32_t i = 0; i < entry.num_args && !status; i++)
        status = take_argument(reader, &table->arguments[i], &table->payload_nbytes);
    return status;
}

static cl_int take_object(struct reader *reader, size_t nbytes, struct sdi_build_result *result)
{
    if (reader->left != nbytes)
        return CL_OUT_OF_RESOURCES;
    if (nbytes == 0)
        return CL_SUCCESS;
    result->object_nbytes = nbytes;
    result->object = malloc(nbytes);
    return result->object && take(reader, result->object, nbytes) ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

cl_int sdi_read_build(const unsigned char *at, size_t nbytes, struct sdi_build_result *result)
{
    struct reader reader = {at, nbytes};
    struct sdi_wire_build_reply head;
    memset(result, 0, sizeof *result);
    if (!take(&reader, &head, sizeof head))
        return CL_OUT_OF_RESOURCES;
    cl_int status = take_text(&reader, head.log_nbytes, &result->log);
    if (!status
        && (head.num_kernels > reader.left / sizeof(struct sdi_wire_kernel_entry)
            || (head.num_kernels && head.num_devices != sdi_session.num_devices)))
        status = CL_OUT_OF_RESOURCES;
    if (status)
        return status;
    struct sdi_kernel_table *made = calloc(head.num_kernels + 1, sizeof *made);
    if (!made)
        return CL_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < head.num_kernels && !status; i++)
        status = take_kernel(&reader, head.num_devices, &made[i]);
    if (status) {
        sdi_free_tables(made, head.num_kernels);
        return status;
    }
    result->tables = made;
    result->num_tables = head.num_kernels;
    return take_object(&reader, head.object_nbytes, result);
}
