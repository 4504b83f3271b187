/* Programs, what builds say of them, and kernels. */
#ifndef SDI_PROGRAM_H
#define SDI_PROGRAM_H

#include "objects/object.h"

enum { SDI_SPARE_KERNELS = 16 };

struct sdi_argument {
    uint32_t kind, nbytes, address, access;
    uint64_t type;
    char *name, *type_name;
    size_t at; /* where its entry begins in a kernel's payload */
};

struct sdi_sub_groups;

struct sdi_kernel_table {
    char *name, *attributes;
    uint32_t num_args;
    bool prints; /* it may call printf */
    size_t required_size[3];
    size_t work_group_size, preferred_multiple;
    uint64_t local_mem_nbytes, private_mem_nbytes;
    struct sdi_argument *arguments;
    size_t payload_nbytes;
    struct sdi_sub_groups *sub_groups; /* what was asked about them; NULL: nothing */
    uint64_t spare[SDI_SPARE_KERNELS]; /* ids of kernels that were released, for the next ones, ascending */
    uint32_t num_spare;
};

enum sdi_origin { SDI_FROM_LINK = 0, SDI_FROM_SOURCE, SDI_FROM_BINARY };

struct sdi_program {
    struct sdi_object object;
    cl_context context;
    char *source; /* empty if it was not made from source */
    size_t source_nbytes;
    uint32_t origin; /* FROM_BINARY: options are the binary's */
    cl_uint binary_type;
    int build_status;
    uint64_t build; /* its id; 0: no executable */
    char *object_code; /* what the service made of it and can make an executable from; or NULL */
    size_t object_nbytes;
    char *options, *log;
    struct sdi_kernel_table *tables;
    uint32_t num_tables;
    uint32_t num_kernels; /* attached objects */
};
SDI_FITS(struct sdi_program);

struct sdi_bound {
    cl_mem buffer; /* may have been released since: compare its id */
    uint64_t id;   /* 0: NULL buffer, or no memory object */
    bool set;
};

struct sdi_kernel {
    struct sdi_object object;
    cl_program program;
    const struct sdi_kernel_table *table;
    uint64_t build;
    uint64_t id; /* in the records of its launches: that of a kernel before it, if one like it was released */
    uint32_t index;
    unsigned char *payload; /* the arguments as an NDRANGE record has them */
    struct sdi_bound *bound;
};
SDI_FITS(struct sdi_kernel);

/* ---- program.c, binary.c, build.c ------------------------------------------------------------------------- */

/* Takes the source over; NULL: no memory. */
cl_program sdi_new_program(cl_context context, char *source, size_t nbytes);

struct sdi_binary {
    cl_uint type;
    char *options, *object;
    size_t object_nbytes;
};
size_t sdi_binary_nbytes(cl_program program);
void sdi_write_binary(cl_program program, unsigned char *to);
cl_int sdi_read_binary(const unsigned char *bytes, size_t nbytes, struct sdi_binary *binary);

/* Client lock held, and let go of while the program is being built by another thread: programs that give a callback
 * and then use the kernels at once work wherever builds are done when the call returns. */
void sdi_await_build(cl_program program);

/* ---- tables.c: what a build says; all for the caller to free ------------------------------------------------- */

struct sdi_build_result {
    char *log;
    struct sdi_kernel_table *tables;
    uint32_t num_tables;
    char *object; /* NULL: none */
    size_t object_nbytes;
};
/* Bytes of an argument's value in an NDRANGE record, before padding. */
size_t sdi_argument_nbytes(const struct sdi_argument *argument);
void sdi_free_tables(struct sdi_kernel_table *tables, uint32_t num);
/* CL_OUT_OF_RESOURCES when the reply is malformed, CL_OUT_OF_HOST_MEMORY; the result can be freed all the same. */
cl_int sdi_read_build(const unsigned char *at, size_t nbytes, struct sdi_build_result *result);

/* ---- kernel.c ------------------------------------------------------------------------------------------------ */

uint64_t sdi_kernel_local_nbytes(cl_kernel kernel);

#endif
