/* What a build tells about its kernels: read once from the reply, every length checked. */
#include "client.h"

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

/* A text, padded in the reply, NUL-terminated here; NULL: malformed, or no memory. */
static char *take_text(struct reader *reader, size_t nbytes)
{
    size_t padded = sdi_padded(nbytes);
    if (reader->left < padded)
        return NULL;
    char *text = malloc(nbytes + 1);
    if (text) {
        memcpy(text, reader->at, nbytes);
        text[nbytes] = 0;
    }
    reader->at += padded;
    reader->left -= padded;
    return text;
}

void sdi_free_tables(struct sdi_kernel_table *tables, uint32_t num)
{
    for (uint32_t i = 0; i < num; i++) {
        for (uint32_t j = 0; tables[i].arguments && j < tables[i].num_args; j++) {
            free(tables[i].arguments[j].name);
            free(tables[i].arguments[j].type_name);
        }
        free(tables[i].arguments);
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
        return 24;
    case SDI_ARG_IMAGE:
        return sizeof(struct sdi_wire_image_argument);
    case SDI_ARG_SAMPLER:
        return sizeof(struct sdi_wire_sampler_argument);
    default:
        return 8;
    }
}

static bool take_argument(struct reader *reader, struct sdi_argument *argument, size_t *payload_nbytes)
{
    struct sdi_wire_argument_entry entry;
    if (!take(reader, &entry, sizeof entry))
        return false;
    argument->kind = entry.kind;
    argument->nbytes = entry.nbytes;
    argument->address = entry.address;
    argument->access = entry.access;
    argument->type = entry.type;
    argument->at = *payload_nbytes;
    *payload_nbytes += sizeof(struct sdi_wire_arg_entry) + sdi_padded(sdi_argument_nbytes(argument));
    argument->name = take_text(reader, entry.name_nbytes);
    argument->type_name = argument->name ? take_text(reader, entry.type_nbytes) : NULL;
    return argument->type_name != NULL;
}

static bool take_kernel(struct reader *reader, struct sdi_kernel_table *table)
{
    struct sdi_wire_kernel_entry entry;
    if (!take(reader, &entry, sizeof entry) || entry.num_args > reader->left / sizeof(struct sdi_wire_argument_entry))
        return false;
    for (int i = 0; i < 3; i++)
        table->required_size[i] = entry.required_size[i];
    table->prints = entry.prints != 0;
    table->work_group_size = entry.work_group_size;
    table->preferred_multiple = entry.preferred_multiple;
    table->local_mem_nbytes = entry.local_mem_nbytes;
    table->private_mem_nbytes = entry.private_mem_nbytes;
    table->name = take_text(reader, entry.name_nbytes);
    table->attributes = table->name ? take_text(reader, entry.attributes_nbytes) : NULL;
    table->arguments = calloc(entry.num_args + 1, sizeof *table->arguments);
    if (!table->attributes || !table->arguments)
        return false;
    table->num_args = entry.num_args;
    for (uint32_t i = 0; i < entry.num_args; i++)
        if (!take_argument(reader, &table->arguments[i], &table->payload_nbytes))
            return false;
    return true;
}

bool sdi_read_build(const unsigned char *at, size_t nbytes, struct sdi_build_result *result)
{
    struct reader reader = {at, nbytes};
    struct sdi_wire_build_reply head;
    memset(result, 0, sizeof *result);
    if (!take(&reader, &head, sizeof head) || !(result->log = take_text(&reader, head.log_nbytes))
        || head.num_kernels > reader.left / sizeof(struct sdi_wire_kernel_entry))
        return false;
    struct sdi_kernel_table *made = calloc(head.num_kernels + 1, sizeof *made);
    if (!made)
        return false;
    for (uint32_t i = 0; i < head.num_kernels; i++)
        if (!take_kernel(&reader, &made[i])) {
            sdi_free_tables(made, head.num_kernels);
            return false;
        }
    result->tables = made;
    result->num_tables = head.num_kernels;
    if (reader.left == 0)
        return true;
    result->object_nbytes = reader.left;
    result->object = malloc(reader.left);
    return result->object && take(&reader, result->object, reader.left);
}
