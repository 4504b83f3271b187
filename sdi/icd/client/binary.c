/* Program binaries: a container of our own that holds what the program is built from.
 *
 * Any image, whatever its members, can build from it.  Layout: struct container, options, source. */
#include "client.h"

static const char MAGIC[8] = "sdi-prg";

enum { CONTAINER_VERSION = 1 };

struct container {
    char magic[8];
    uint32_t version, reserved;
    uint64_t options_nbytes, source_nbytes;
    uint64_t checksum; /* of options and source */
};

/* FNV-1a, 64 bits. */
static uint64_t checksum(uint64_t sum, const char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        sum = (sum ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static uint64_t checksum_of(const char *options, size_t options_nbytes, const char *source, size_t source_nbytes)
{
    return checksum(checksum(UINT64_C(0xcbf29ce484222325), options, options_nbytes), source, source_nbytes);
}

/* Size of the program's binary; 0: there is none. */
size_t sdi_binary_nbytes(cl_program program)
{
    if (!program->build && !program->from_binary)
        return 0;
    return sizeof(struct container) + strlen(program->options ? program->options : "") + program->source_nbytes;
}

/* Writes sdi_binary_nbytes bytes. */
void sdi_write_binary(cl_program program, unsigned char *to)
{
    const char *options = program->options ? program->options : "";
    struct container head = {
        .version = CONTAINER_VERSION,
        .options_nbytes = strlen(options),
        .source_nbytes = program->source_nbytes,
        .checksum = checksum_of(options, strlen(options), program->source, program->source_nbytes),
    };
    memcpy(head.magic, MAGIC, sizeof head.magic);
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, options, head.options_nbytes);
    memcpy(to + sizeof head + head.options_nbytes, program->source, program->source_nbytes);
}

/* Options and source of a binary, both terminated and for the caller to free.  CL_INVALID_BINARY: foreign, damaged or
 * of another version. */
cl_int sdi_read_binary(const unsigned char *bytes, size_t nbytes, char **options, char **source, size_t *source_nbytes)
{
    struct container head;
    if (nbytes < sizeof head)
        return CL_INVALID_BINARY;
    memcpy(&head, bytes, sizeof head);
    size_t rest = nbytes - sizeof head;
    if (memcmp(head.magic, MAGIC, sizeof head.magic) != 0 || head.version != CONTAINER_VERSION || head.reserved
        || head.options_nbytes > rest || head.source_nbytes != rest - head.options_nbytes)
        return CL_INVALID_BINARY;
    const char *texts = (const char *)bytes + sizeof head;
    if (checksum_of(texts, head.options_nbytes, texts + head.options_nbytes, head.source_nbytes) != head.checksum)
        return CL_INVALID_BINARY;
    *options = strndup(texts, head.options_nbytes);
    *source = malloc(head.source_nbytes + 1);
    if (!*options || !*source) {
        free(*options);
        free(*source);
        return CL_OUT_OF_HOST_MEMORY;
    }
    memcpy(*source, texts + head.options_nbytes, head.source_nbytes);
    (*source)[head.source_nbytes] = 0;
    *source_nbytes = head.source_nbytes;
    return CL_SUCCESS;
}
