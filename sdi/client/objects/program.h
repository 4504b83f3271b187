/* Programs, what builds say of them, and kernels. */
#ifndef SDI_PROGRAM_H
#define SDI_PROGRAM_H

#include "objects/object.h"

enum { SDI_SPARE_KERNELS = 16 };

struct sdi_argument {
    uint32_t kind, nbytes, address, access;
    uint64_t type;
    bool holds_pointers; /* what it points to has addresses in it */
    bool is_written;     /* the kernel may write what it points to */
    char *name, *type_name;
    size_t at; /* where its entry begins in a kernel's payload */
};

struct sdi_sub_groups;

struct sdi_kernel_table {
    char *name, *attributes;
    uint32_t num_args;
    bool prints; /* it may call printf */
    bool follows_pointers; /* it may reach shared virtual memory that is no argument, or wants to know where it is */
    size_t required_size[3];
    struct sdi_wire_work_group_entry *limits; /* on each device */
    struct sdi_argument *arguments;
    size_t payload_nbytes;
    struct sdi_sub_groups *sub_groups; /* what was asked about them; NULL: nothing */
    uint64_t spare[SDI_SPARE_KERNELS]; /* ids of kernels that were released, for the next ones, ascending */
    uint32_t num_spare;
};

enum sdi_origin { SDI_FROM_LINK = 0, SDI_FROM_SOURCE, SDI_FROM_BINARY };

/* What one call made of a program, for one device of it or several. */
struct sdi_build {
    uint32_t refs; /* devices, and calls under way */
    int status;
    uint64_t id; /* of the executable, in the service; 0: none */
    cl_uint binary_type;
    char *object_code; /* what the service made and can make an executable from; or NULL */
    size_t object_nbytes;
    char *options, *log; /* or NULL */
    bool tells_arguments;  /* what their names and types are: it was built with an option that asks for it */
    bool is_kept;          /* the application has it as a binary, and the service was told */
    struct sdi_kernel_table *tables;
    uint32_t num_tables;
};

/* One device of a program, and what was built for it last; all begin with one that is nothing yet. */
struct sdi_target {
    cl_device_id device;
    struct sdi_build *build;
};

struct sdi_program {
    struct sdi_object object;
    cl_context context;
    char *source; /* empty if it was not made from source */
    size_t source_nbytes;
    uint32_t origin; /* FROM_BINARY: a build's options are the binary's */
    cl_uint num_targets;
    struct sdi_target *targets;
    uint32_t num_kernels; /* attached objects */
};
SDI_FITS(struct sdi_program);

struct sdi_bound {
    cl_mem buffer; /* may have been released since: compare its id */
    uint64_t id;   /* 0: NULL buffer, or no memory object */
    bool set;
    bool by_address; /* in shared virtual memory: a pointer into a region, from where what is before it can be reached,
                      * too; or a region that the application may look at meanwhile */
};

struct sdi_kernel {
    struct sdi_object object;
    cl_program program;
    struct sdi_kernel_table *table; /* of the first device that has it; all others' arguments are the same */
    uint64_t id; /* in the records of its launches: that of a kernel before it, if one like it was released */
    uint32_t *indices; /* by the program's targets: among the build's tables; SDI_NO_KERNEL: not built */
    unsigned char *payload; /* the arguments as an NDRANGE record has them */
    struct sdi_bound *bound;
    struct sdi_reach *reach; /* of shared virtual memory, beside its arguments; or NULL */
    bool said_reach; /* the application said what it may reach, if only nothing */
};
SDI_FITS(struct sdi_kernel);

/* ---- program.c, binary.c, build.c ------------------------------------------------------------------------- */

/* Takes the source over; for all devices of the context, or these, each of which counts once.  NULL: no memory. */
cl_program sdi_new_program(cl_context context, char *source, size_t nbytes, cl_uint num_devices,
                           const cl_device_id *devices);
/* Client lock held.  A build with one reference, which is nothing yet; NULL: no memory. */
struct sdi_build *sdi_new_build(void);
void sdi_build_unref(struct sdi_build *build);
void sdi_keep_build(struct sdi_build *build);
/* The target of a device; NULL: it is none of the program's. */
struct sdi_target *sdi_target_of(cl_program program, cl_device_id device);
/* The first build with an executable; NULL: there is none. */
struct sdi_build *sdi_executable(cl_program program);

size_t sdi_binary_nbytes(const struct sdi_build *build);
void sdi_write_binary(const struct sdi_build *build, unsigned char *to);
cl_int sdi_read_binary(const unsigned char *bytes, size_t nbytes, struct sdi_build *build);

/* Client lock held, and let go of while the program, which is held, is being built by another thread: programs that give
 * a callback and then use the kernels at once work wherever builds are done when the call returns. */
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

#define SDI_NO_KERNEL UINT32_MAX
/* What a kernel is on a device; NULL: it was not built for that. */
const struct sdi_kernel_table *sdi_kernel_on(cl_kernel kernel, cl_device_id device, uint64_t *build, uint32_t *index);
/* The kernel's own local memory on a device and that of its arguments set so far. */
uint64_t sdi_kernel_local_nbytes(cl_kernel kernel, const struct sdi_kernel_table *table, cl_device_id device);

#endif
