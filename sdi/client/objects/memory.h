/* Memory objects: buffers, parts of buffers, images; and the application's memory that they use. */
#ifndef SDI_MEMORY_H
#define SDI_MEMORY_H

#include "objects/event.h"
#include "objects/program.h"

#include <pthread.h>

enum { SDI_PAGE_NBYTES = 4096 };

/* Rows of bytes in a memory. */
struct sdi_box {
    size_t offset, end; /* of its first byte, past its last */
    size_t region[3], row, slice;
};

struct sdi_mapping {
    struct sdi_mapping *next;
    char *pointer;
    struct sdi_box box; /* in the root buffer */
    cl_ulong flags;
    cl_event mapped; /* held: of a map for writing of the application's memory that did not block; or NULL */
    bool is_made;    /* the application may end it: until then it is the call's that makes it */
    const void *queue; /* by which it was made, and the thread; nothing but a hint */
    pthread_t thread;
    struct sdi_mapping *before, *after; /* among those of `sdi_is_mapped` */
};

/* How the bytes of an image lie.  `region`: pixels in a row, rows in a plane, planes, each at least 1; the layers
 * of a 1D array are rows, those of a 2D array planes.  The rest: what clGetImageInfo answers. */
struct sdi_image {
    cl_uint type, order, data_type;
    size_t pixel_nbytes;
    size_t region[3], row, plane; /* bytes from row to row, from plane to plane */
    size_t width, height, depth, layers, told_pitch, slice_pitch, told_nbytes;
    size_t row_pitch; /* what mappings have */
    cl_mem source; /* the buffer it was made from, held; or NULL */
};

/* A buffer, or a part of one (`root` is another object), or an image: a buffer that holds its pixels row by row, or
 * a view of one. */
struct sdi_buffer {
    struct sdi_object object;
    cl_context context;
    cl_mem root;
    size_t origin, nbytes;
    size_t room;                   /* root: so many bytes the service has for it, at least `nbytes` */
    cl_ulong flags;
    cl_mem parent;                 /* held: of which the application made this part; or NULL */
    bool is_region;                /* root: of shared virtual memory; with a `host_ptr` the application's is apart */
    bool is_watched;               /* root: it is known which pages of the application's memory were written */
    bool is_batch;                 /* such a one: all of it is taken to be written, and read */
    struct sdi_lazy *lazy;         /* such a one: see faults.c; or NULL */
    uint64_t born;                 /* of a region: so many had been freed */
    bool uses_svm;                 /* made of a pointer to that: `host_ptr`, which is where its bytes are */
    char *host_ptr;                /* of this object: USE_HOST_PTR; or NULL */
    char *bytes;                   /* root: first byte in the arena */
    uint8_t *touched;              /* root: one per piece whose pages exist in this process; or NULL */
    uint64_t quiet_id, quiet_queue; /* root: the last write whose bytes went with its record or were staged, and that its
                                    * queue, by id, does not wait for; client lock */
    bool was_mapped;               /* root: it or a part of it, for writing; client lock */
    bool is_unnamed;               /* root: atomic; no command but early writes has named it: more may be written early */
    struct sdi_mapping *mappings;
    uint32_t num_mappings;
    struct sdi_call *destructors;
    size_t num_properties; /* given: only the final 0, or nothing */
    struct sdi_image *image; /* NULL: a buffer */
    struct sdi_hosted *hosted; /* root: see host_pointer.c; or NULL */
};
SDI_FITS(struct sdi_buffer);

static inline bool sdi_is_buffer(cl_mem m) { return sdi_is_mem(m) && !m->image; }
/* Its bytes are shared virtual memory that the application may use at any time. */
static inline bool sdi_is_fine(cl_mem m) { return (m->root->flags & CL_MEM_SVM_FINE_GRAIN_BUFFER) != 0; }
static inline bool sdi_is_image(cl_mem m) { return sdi_is_mem(m) && m->image; }

/* ---- buffer.c, image.c ----------------------------------------------------------------------------------- */

bool sdi_mem_flags_valid(cl_ulong flags);
/* The flags of a part or image of a buffer: what is not given comes from the whole.  False: contradictory. */
bool sdi_part_flags(cl_ulong whole, cl_ulong flags, cl_ulong *result);
/* A memory object of `nbytes` of its own, filled from `host_ptr` where flags say so; NULL and the code.  `at_page`: it has
 * to begin at a page's beginning. */
cl_mem sdi_new_memory(cl_context context, cl_ulong flags, size_t nbytes, void *host_ptr, bool at_page, cl_int *errcode_ret);
/* A view of `nbytes` of a buffer; NULL: no memory. */
cl_mem sdi_new_view(cl_mem whole, cl_ulong flags, size_t origin, size_t nbytes);
/* A command names it: its bytes are not the client's alone any more. */
static inline void sdi_named(cl_mem buffer) { __atomic_store_n(&buffer->root->is_unnamed, false, __ATOMIC_RELAXED); }
/* Client lock held. */
void sdi_mapping_free(struct sdi_mapping *mapping);
/* Client lock held.  It is one of a buffer of which the application knows the bytes only while it is mapped. */
void sdi_mapping_list(struct sdi_mapping *mapping);
/* Client lock held.  Whether the application may look at `nbytes` of the arena because they are mapped, by one such. */
bool sdi_is_mapped(const char *at, size_t nbytes);

/* Whether an image may be bound to a kernel's argument: its type, and what the kernel may do with it. */
bool sdi_image_fits(cl_mem image, const struct sdi_argument *argument);

/* ---- svm.c: regions of shared virtual memory, root buffers whose place in the arena the application knows ---- */

/* No lock held.  The root of the region that has the byte at `at`, and how far in that is; NULL: there is none. */
cl_mem sdi_region_of(const void *at, size_t *offset);
/* No lock held.  The same for `nbytes` from there on, for a command; CL_SUCCESS or the code for what is wrong: also
 * where there is none. */
cl_int sdi_region_bytes(cl_context context, const void *at, size_t nbytes, cl_mem *region, size_t *offset);
/* Whether launches of a kernel use regions where the application knows them; false: its arguments may be anywhere, since
 * on its device (`table`) it follows no pointer, and all of them are whole regions. */
bool sdi_kernel_is_by_address(cl_kernel kernel, const struct sdi_kernel_table *table);
/* No lock held.  Writes the ids of the regions that its arguments name, at most one each; how many these are. */
size_t sdi_kernel_regions(cl_kernel kernel, uint64_t *ids);
/* What kernels may reach beside their arguments. */
struct sdi_reach;
/* No lock held.  For a launch by address, one more reference to what it may reach, or NULL; where the application never said
 * what that is, and a buffer among the kernel's arguments has addresses in it, that is all regions. */
cl_int sdi_kernel_reach(cl_kernel kernel, struct sdi_reach **reach);
/* As launches name it; 0: nothing. */
uint64_t sdi_reach_id(const struct sdi_reach *reach);
/* No lock held.  Adds the application's own memory of these to `*uses`, see sdi_host_use. */
struct sdi_use;
cl_int sdi_reach_uses(const struct sdi_reach *reach, struct sdi_use **uses);
/* The same for all regions of a context. */
cl_int sdi_regions_use(cl_context context, struct sdi_use **uses);
/* Client lock held.  One more has it, or one less; NULL: nothing. */
void sdi_reach_ref(struct sdi_reach *reach);
void sdi_reach_unref(struct sdi_reach *reach);

/* ---- fine.c: fine-grained regions where members have copies -------------------------------------------------- */

/* No lock held.  Gives the application memory of its own at a new region's address. */
cl_int sdi_region_apart(cl_mem region);
/* Client lock held, a root goes: its place in the arena is seen there again; false: it can't be, and nobody else may
 * have the place. */
bool sdi_region_together(cl_mem region);
/* Whether launches take and show all regions, whatever they use. */
bool sdi_regions_are_batch(void);
/* Around a launch that does, from when it takes them until it is sent: what another thread takes meanwhile would be read back as
 * it was, and what such a launch uses can't be taken. */
void sdi_batch_begins(void);
void sdi_batch_ends(void);
/* Where the application finds a region. */
static inline char *sdi_region_at(cl_mem region) { return region->host_ptr ? region->host_ptr : region->bytes; }

/* ---- pages.c: which pages of the application's memory were written ------------------------------------------- */

/* Client lock held.  Whether the kernel tells from now on which pages of a root's memory are written. */
bool sdi_pages_watch(cl_mem root);
/* Client lock held.  It tells no more. */
void sdi_pages_unwatch(cl_mem root);
/* Busy lock held.  Marks the pages of these bytes that the application wrote since the last time, as far as anybody can
 * tell; false: nobody can. */
bool sdi_pages_written(cl_mem root, size_t begin, size_t end, uint8_t *written);
/* What was written to these bytes is taken: forgets the pages that lie wholly among them. */
void sdi_pages_taken(cl_mem root, size_t begin, size_t end, uint8_t *written);

/* ---- faults.c: regions of which the application is brought what it looks at ---------------------------------- */

/* Client lock held.  Whether faults of the application can be answered; says once if not. */
bool sdi_faults_start(void);
/* No lock held.  From now on those in a new region's memory are, by blocks of so many bytes, at most all; `most` blocks of all
 * regions may be written and not be taken yet (0: two for each region, SIZE_MAX: any number).  False: it can't be. */
bool sdi_lazy_new(cl_mem region, char *snapshot, size_t block_nbytes, size_t most);
/* Client lock held: it goes. */
void sdi_lazy_drop(cl_mem region);
/* Busy lock held.  As sdi_pages_written; the pages that were written are not missing. */
void sdi_lazy_written(cl_mem region, size_t begin, size_t end, uint8_t *written);
/* Busy lock held.  Commands may have written these bytes: the application is brought them when it looks at them.  What is left
 * from `*begin` to `*end` has to be shown at once, but for pages that are missing; or 0, 0: nothing. */
void sdi_lazy_forget(cl_mem region, uint8_t *written, size_t *begin, size_t *end);
/* Whether a page is missing: it is brought when somebody touches it. */
bool sdi_lazy_lacks(cl_mem region, size_t page);
/* How bytes are brought, no lock held but the fault lock: made current in the arena until `arrived` has returned; not
 * `is_there`: they can't be. */
void sdi_register_bring(void (*bring)(cl_mem region, size_t begin, size_t end,
                                      void (*arrived)(cl_mem region, size_t begin, size_t end, bool is_there)));
/* No lock held: how a block is taken early.  False: not now. */
void sdi_register_take(bool (*take)(cl_mem region, size_t begin, size_t end));

/* ---- bytes.c ---------------------------------------------------------------------------------------------- */

/* From here on threads share a copy, and nothing is kept in caches. */
#define SDI_LARGE_NBYTES ((size_t)4 << 20)
/* No lock held.  Copies between a root's bytes in the arena and the application's memory, at once. */
void sdi_copy_run(cl_mem root, size_t offset, char *host, size_t nbytes, bool to_arena);

/* ---- recycled.c: released buffers to be used again.  Client lock held, but see sdi_reuse --------------------- */

/* Keeps the place of a root buffer that goes; false: it can't be kept. */
bool sdi_recycle(cl_mem buffer);
/* Gives a new root buffer a recycled one's id and place; false: there is none.  Lets go of the lock meanwhile.  `at_page`: as for
 * sdi_new_memory. */
bool sdi_reuse(cl_mem buffer, bool at_page);
/* Releases all; whether there were any. */
bool sdi_recycled_give_up(void);

/* ---- host_pointer.c: memory of the application that is to be as if members used it ------------------------ */

/* No lock held.  Begins with a new root buffer that uses the application's memory, where the image does that. */
cl_int sdi_host_new(cl_mem root);
/* What both sides agreed on last; of a root that has it. */
char *sdi_host_snapshot(cl_mem root);
/* No lock held.  Tells the service, which does not know by the flags, that it has all bytes in the arena. */
void sdi_host_tell_all(cl_mem root);
/* Client lock held: a root goes. */
void sdi_host_drop(cl_mem root);
/* No lock held, before a command is sent that names these bytes, counted from the object's first: takes what the
 * application changed there.  Does nothing for other buffers. */
void sdi_host_take(cl_mem buffer, size_t offset, size_t nbytes);
/* The same for commands whose results have to be shown (`writes`), or during which nothing may be taken: adds to
 * `*uses`, which hold the object's root, and go with the command or are given back. */
struct sdi_use;
cl_int sdi_host_use(struct sdi_use **uses, cl_mem buffer, size_t offset, size_t nbytes, bool writes);
void sdi_host_unuse(struct sdi_use *uses);
/* Client lock held.  The command was sent; takes the uses over. */
void sdi_host_used(struct sdi_use *uses, cl_event event);
/* No lock held, and before the application is told that any command is complete: shows it what such commands wrote. */
void sdi_host_show(void);
/* No lock held.  Its last reference was given up, it is held: waits for its uses, but those behind user events, and
 * shows. */
void sdi_host_released(cl_mem root);
/* No lock held, before a user event is set: takes what the application changed since it enqueued what waits for that;
 * where it is true, sdi_host_gate_end follows. */
bool sdi_host_gate(void);
void sdi_host_gate_end(void);
/* Whether commands use memory of the application of which it was not told that they are complete. */
bool sdi_host_is_used(void);

#endif
