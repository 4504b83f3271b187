/* Program binaries: a container of our own that holds what the program is made from.
 *
 * Any image, whatever its members, can build or link it.  Layout: struct container, options, object. */
#include "objects/program.h"

static const char MAGIC[8] = "sdi-prg";

enum { CONTAINER_VERSION = 2 };

struct container {
    char magic[8];
    uint32_t version, type;
    uint64_t options_nbytes, object_nbytes;
    uint64_t checksum; /* of options and object */
};

/* FNV-1a, 64 bits. */
static uint64_t checksum(uint64_t sum, const char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        sum = (sum ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static uint64_t checksum_of(const char *options, size_t options_nbytes, const char *object, size_t object_nbytes)
{
    return checksum(checksum(UINT64_C(0xcbf29ce484222325), options, options_nbytes), object, object_nbytes);
}

/* Size of a build's binary; 0: there is none. */
size_t sdi_binary_nbytes(const struct sdi_build *build)
{
    if (!build->object_code)
        return 0;
    return sizeof(struct container) + strlen(build->options ? build->options : "") + build->object_nbytes;
}

/* Writes sdi_binary_nbytes bytes. */
void sdi_write_binary(const struct sdi_build *build, unsigned char *to)
{
    const char *options = build->options ? build->options : "";
    struct container head = {
        .version = CONTAINER_VERSION,
        .type = build->binary_type,
        .options_nbytes = strlen(options),
        .object_nbytes = build->object_nbytes,
        .checksum = checksum_of(options, strlen(options), build->object_code, build->object_nbytes),
    };
    memcpy(head.magic, MAGIC, sizeof head.magic);
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, options, head.options_nbytes);
    memcpy(to + sizeof head + head.options_nbytes, build->object_code, build->object_nbytes);
}

/* A new build gets what a binary holds.  CL_INVALID_BINARY: foreign, damaged or of another version. */
cl_int sdi_read_binary(const unsigned char *bytes, size_t nbytes, struct sdi_build *build)
{
    struct container head;
    if (nbytes < sizeof head)
        return CL_INVALID_BINARY;
    memcpy(&head, bytes, sizeof head);
    size_t rest = nbytes - sizeof head;
    if (memcmp(head.magic, MAGIC, sizeof head.magic) != 0 || head.version != CONTAINER_VERSION
        || head.type < CL_PROGRAM_BINARY_TYPE_COMPILED_OBJECT || head.type > CL_PROGRAM_BINARY_TYPE_EXECUTABLE
        || head.options_nbytes > rest || head.object_nbytes != rest - head.options_nbytes)
        return CL_INVALID_BINARY;
    const char *texts = (const char *)bytes + sizeof head;
    if (memchr(texts, 0, head.options_nbytes)
        || checksum_of(texts, head.options_nbytes, texts + head.options_nbytes, head.object_nbytes) != head.checksum)
        return CL_INVALID_BINARY;
    build->binary_type = head.type;
    build->options = strndup(texts, head.options_nbytes);
    build->object_code = malloc(head.object_nbytes + 1);
    build->object_nbytes = head.object_nbytes;
    if (!build->options || !build->object_code)
        return CL_OUT_OF_HOST_MEMORY;
    memcpy(build->object_code, texts + head.options_nbytes, head.object_nbytes);
    return CL_SUCCESS;
}
