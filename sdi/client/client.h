/* What the files of the client share.  One section per file; comments say who may call what, holding what.
 *
 * Locks, in the order in which they may be taken:
 *   start lock (session.c)   one thread starts the service
 *   busy lock (host_pointer.c)   bytes are taken from the application's memory or shown there
 *   client lock (handle.c)   handles, ids, slots, the command stream, all fields of objects that change
 *   reply lock (stream.c)    threads that wait for replies
 *   caller lock (callback.c)   callbacks to run
 * No lock but the busy lock is held while a callback of the application runs, while a reply or an event is awaited,
 * or while bytes of a transfer are copied; that is not while a callback runs. */
#ifndef SDI_CLIENT_H
#define SDI_CLIENT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cl.h"
#include "sdi_api.h"
#include "sdi_wire.h"

#ifndef SDI_VERSION
#define SDI_VERSION "0"
#endif

/* What one thread copies in a row, and what pages are made present for, counted from a buffer's first byte. */
#define SDI_PIECE_NBYTES ((size_t)1 << 20)

#define SDI_MIN(a, b) ((a) < (b) ? (a) : (b))
#define SDI_MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- handle.c: objects -------------------------------------------------------------------------------- */

enum sdi_kind {
    SDI_FREE = 0,
    SDI_DEVICE,
    SDI_CONTEXT,
    SDI_QUEUE,
    SDI_BUFFER,
    SDI_PROGRAM,
    SDI_KERNEL,
    SDI_EVENT,
    SDI_SAMPLER,
};

/* Begins every object.  `dispatch` comes first, as ICD loaders want, and stays valid after release.  `refs` is
 * what the application retained; `holds` is what other objects, transfers and callbacks need.  An object lives
 * while one of them is not 0. */
struct sdi_object {
    const sdi_function *dispatch;
    uint32_t kind;
    uint32_t generation;
    uint64_t id;
    uint32_t refs;
    uint32_t holds;
};

struct sdi_platform {
    const sdi_function *dispatch;
};

struct sdi_device {
    struct sdi_object object;
};

struct sdi_context {
    struct sdi_object object;
    cl_device_id device;
    intptr_t *properties; /* as given, with the final 0; or NULL */
    size_t num_properties;
    struct sdi_call *destructors;
    void (*notify)(const char *, const void *, size_t, void *); /* hears of commands that fail; or NULL */
    void *notify_data;
    cl_context next_listening;
};

struct sdi_queue {
    struct sdi_object object;
    cl_context context;
    cl_ulong properties;
    cl_ulong *property_list; /* as given, with the final 0; or NULL */
    size_t num_property_list;
    uint64_t last_id; /* of the command enqueued last, but for writes that landed while `quiet` */
    uint64_t gate;    /* of the last command that had one */
    uint64_t bar;     /* the same */
    bool quiet;       /* all that was enqueued is known to be complete */
    uint64_t shows_id; /* the last command that brings bytes to where the application looks, untold; 0: none under way */
};

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
};

/* How the bytes of an image lie.  `region`: pixels in a row, rows in a plane, planes, each at least 1; the layers
 * of a 1D array are rows, those of a 2D array planes.  The rest: what clGetImageInfo answers. */
struct sdi_image {
    cl_uint type, order, data_type;
    size_t pixel_nbytes;
    size_t region[3], row, plane; /* bytes from row to row, from plane to plane */
    size_t width, height, depth, layers, row_pitch, slice_pitch;
    cl_mem source; /* the buffer it was made from, held; or NULL */
};

/* A buffer, or a part of one (`root` is another object), or an image: a buffer that holds its pixels row by row, or
 * a view of one. */
struct sdi_buffer {
    struct sdi_object object;
    cl_context context;
    cl_mem root;
    size_t origin, nbytes;
    cl_ulong flags;
    char *host_ptr;                /* of this object: USE_HOST_PTR; or NULL */
    char *bytes;                   /* root: first byte in the arena */
    uint8_t *touched;              /* root: one per piece whose pages exist in this process; or NULL */
    bool fresh;                    /* root: atomic; no command but writes that landed has named it */
    struct sdi_mapping *mappings;
    uint32_t num_mappings;
    struct sdi_call *destructors;
    size_t num_properties; /* given: only the final 0, or nothing */
    struct sdi_image *image; /* NULL: a buffer */
    struct sdi_hosted *hosted; /* root: see host_pointer.c; or NULL */
};

struct sdi_sampler {
    struct sdi_object object;
    cl_context context;
    cl_uint normalized, addressing, filter;
    cl_ulong properties[7]; /* as given, with the final 0 */
    size_t num_properties;
};

struct sdi_argument {
    uint32_t kind, nbytes, address, access;
    uint64_t type;
    char *name, *type_name;
    size_t at; /* where its entry begins in a kernel's payload */
};

struct sdi_kernel_table {
    char *name, *attributes;
    uint32_t num_args;
    bool prints; /* it may call printf */
    size_t required_size[3];
    size_t work_group_size, preferred_multiple;
    uint64_t local_mem_nbytes, private_mem_nbytes;
    struct sdi_argument *arguments;
    size_t payload_nbytes;
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
    uint32_t index;
    unsigned char *payload; /* the arguments as an NDRANGE record has them */
    struct sdi_bound *bound;
};

struct sdi_event {
    struct sdi_object object;
    cl_context context;
    cl_command_queue queue; /* NULL: user event */
    cl_uint type;
    uint32_t slot;
    int user_status;
    uint64_t gate, bar; /* see sdi_is_gated, sdi_is_barred */
    cl_event next_unset;
    bool profiling;
    bool is_awaited; /* its call blocked, if not to the end: who looks at it finds it complete */
    struct sdi_call *callbacks;
    cl_event next_watched;
};

extern struct sdi_platform sdi_platform;
extern uint32_t sdi_generation;

struct sdi_object *sdi_find(const void *handle, enum sdi_kind kind);

/* Whether a handle is an object of this process that lives; any value may be asked about. */
static inline bool sdi_is_platform_id(cl_platform_id p) { return p == &sdi_platform; }
static inline bool sdi_is_device_id(cl_device_id d) { return sdi_find(d, SDI_DEVICE) != NULL; }
static inline bool sdi_is_context(cl_context c) { return sdi_find(c, SDI_CONTEXT) != NULL; }
static inline bool sdi_is_command_queue(cl_command_queue q) { return sdi_find(q, SDI_QUEUE) != NULL; }
static inline bool sdi_is_mem(cl_mem m) { return sdi_find(m, SDI_BUFFER) != NULL; }
static inline bool sdi_is_buffer(cl_mem m) { return sdi_is_mem(m) && !m->image; }
static inline bool sdi_is_image(cl_mem m) { return sdi_is_mem(m) && m->image; }
static inline bool sdi_is_sampler(cl_sampler s) { return sdi_find(s, SDI_SAMPLER) != NULL; }
static inline bool sdi_is_program(cl_program p) { return sdi_find(p, SDI_PROGRAM) != NULL; }
static inline bool sdi_is_kernel(cl_kernel k) { return sdi_find(k, SDI_KERNEL) != NULL; }
static inline bool sdi_is_event(cl_event e) { return sdi_find(e, SDI_EVENT) != NULL; }

void sdi_lock(void);
/* Runs the destructor callbacks that became due, after unlocking. */
void sdi_unlock(void);
/* Client lock held, and let go of meanwhile: until somebody tells of a change, or for no reason. */
void sdi_await_change(void);
void sdi_tell_change(void);

/* Client lock held.  A new object with one reference, zeroed, with a fresh id; NULL when memory is exhausted. */
void *sdi_new(enum sdi_kind kind);
void sdi_hold(void *object);
void sdi_unhold(void *object);
uint64_t sdi_next_id(void);

/* Client lock not held. */
cl_int sdi_retain(void *handle, enum sdi_kind kind, cl_int invalid);
cl_int sdi_release(void *handle, enum sdi_kind kind, cl_int invalid);

/* Client lock held: the last count of an object went; release what it owns, tell the service. */
void sdi_drop_context(cl_context context);
void sdi_drop_queue(cl_command_queue queue);
void sdi_drop_buffer(cl_mem buffer);
void sdi_drop_program(cl_program program);
void sdi_drop_kernel(cl_kernel kernel);
void sdi_drop_event(cl_event event);
void sdi_drop_sampler(cl_sampler sampler);

/* ---- answers ------------------------------------------------------------------------------------------ */

/* Answers a clGet*Info query by `nbytes` bytes at `data`. */
cl_int sdi_answer(const void *data, size_t nbytes, size_t size, void *value, size_t *size_ret);
cl_int sdi_answer_text(const char *text, size_t size, void *value, size_t *size_ret);
#define SDI_ANSWER(type, expression) \
    do { \
        type answer_ = (expression); \
        return sdi_answer(&answer_, sizeof answer_, size, value, size_ret); \
    } while (0)

static inline void *sdi_fail(cl_int *errcode_ret, cl_int status)
{
    if (errcode_ret)
        *errcode_ret = status;
    return NULL;
}

static inline void sdi_succeed(cl_int *errcode_ret)
{
    if (errcode_ret)
        *errcode_ret = CL_SUCCESS;
}

/* ---- session.c: the service of this process ------------------------------------------------------------ */

/* Values of the facts that calls are validated against. */
struct sdi_limits {
    cl_ulong type, max_alloc_nbytes, local_mem_nbytes, queue_properties;
    size_t base_align_nbytes;
    size_t max_work_group_size, max_work_item_sizes[3];
    cl_uint work_dimensions, version;
    bool non_uniform;
    bool images;
    size_t image2d[2], image3d[3], image_layers, image_buffer;
};

struct sdi_session {
    int commands, notices; /* sockets; -1 before the start */
    bool running;
    bool dead; /* atomic: the service is gone; nothing will happen any more */
    char *arena;
    size_t arena_nbytes;
    struct sdi_wire_arena_header *header;
    struct sdi_wire_slot *slots;
    struct sdi_limits limits;
    cl_device_id device;
};

extern struct sdi_session sdi_session;

/* No lock held.  Starts the service if this process has none yet; the device, or NULL. */
cl_device_id sdi_session_device(void);
/* Whether this process may know nothing of the image, and start nothing: in the service itself, which would find
 * itself; and where the program has more rights than who started it (AT_SECURE: setuid, setgid, file capabilities),
 * since the environment says what the service is. */
bool sdi_hidden(void);
/* Any thread, any lock: no more answers come from the service, or none that make sense; it is left. */
void sdi_session_died(void);
static inline bool sdi_session_dead(void) { return __atomic_load_n(&sdi_session.dead, __ATOMIC_ACQUIRE); }
/* Looks whether the service has hung up; whether it is dead. */
bool sdi_session_check(void);
const void *sdi_fact(cl_uint param, size_t *nbytes);
void sdi_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sdi_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The absolute path of this library as the loader knows it, remembered at the first call. */
const char *sdi_library_path(void);

/* How much address space could be reserved at once now, at most `most`. */
uint64_t sdi_room(uint64_t most);
/* service.c: starts the service process; 0 and its two sockets (ours), or -1 after one line on stderr. */
int sdi_service_start(int sockets[2]);
/* All descriptors that a start has open at the moment, for the child of a fork to close; -1: none. */
extern int sdi_service_descriptors[4];

/* The child of a fork forgets what the parent had; nobody else runs. */
void sdi_handle_forget(void);
void sdi_parked_forget(void);
void sdi_event_forget(void);
void sdi_context_forget(void);
void sdi_stream_forget(void);
void sdi_slot_forget(void);
void sdi_lander_forget(void);
void sdi_caller_forget(void);
void sdi_copier_forget(void);
void sdi_host_forget(void);

/* ---- stream.c: records --------------------------------------------------------------------------------- */

/* Client lock held.  Sends whole records; CL_OUT_OF_RESOURCES when the service is dead. */
cl_int sdi_send(const void *records, size_t nbytes);
/* Client lock held.  A record without wait list whose body is nothing, or a status. */
void sdi_send_bare(uint32_t op, uint64_t id);
cl_int sdi_send_status(uint32_t op, uint64_t id, cl_int status);

/* Whether more comes of a record of which something has come, from the service's `end`: its rest is on its way, or the
 * service is stuck. */
bool sdi_rest_comes(int end);

struct sdi_reply {
    cl_int status;
    uint64_t value;
    unsigned char *payload; /* to be freed; NULL when empty */
    size_t payload_nbytes;
};
/* No lock held.  Sends a record and waits for its reply. */
struct sdi_reply sdi_ask(const void *record, size_t nbytes);

static inline size_t sdi_padded(size_t nbytes) { return (nbytes + 7) & ~(size_t)7; }

/* ---- slot.c: the event status page ------------------------------------------------------------------- */

/* Client lock held.  0: none left. */
uint32_t sdi_slot_new(int status);
void sdi_slot_release(uint32_t slot);
/* Status of a slot; a pending one of a dead service counts as failed. */
int sdi_slot_status(uint32_t slot);
uint32_t sdi_epoch(void);
/* Waits until the epoch is no longer `seen`, at most 100 ms; then looks whether the service lives. */
void sdi_epoch_wait(uint32_t seen);
void sdi_epoch_wake(void);
int sdi_slot_wait(uint32_t slot);
/* The slot of a command that is complete although the service does not know it: done by the client since then. */
void sdi_slot_is_over(uint32_t slot, uint64_t start_ns);
uint64_t sdi_now_ns(void);

/* ---- command.c: enqueueing ----------------------------------------------------------------------------- */

struct sdi_waits {
    cl_uint num;
    const cl_event *events;
};

/* CL_SUCCESS, CL_INVALID_EVENT_WAIT_LIST or CL_INVALID_CONTEXT. */
cl_int sdi_check_waits(cl_context context, struct sdi_waits waits);

/* One command's record under construction; on the caller's stack. */
struct sdi_record {
    unsigned char *at;
    size_t nbytes;
    unsigned char *tail; /* the variable part */
    uint64_t gate, bar;  /* of what it waits for, the newest gate */
    uint64_t small[252];
};

/* The fixed part (zeroed, header and waits filled), or NULL: no memory.  Complete events are left out of the wait
 * list unless `keep` (where an empty list means "everything before"). */
void *sdi_record_open(struct sdi_record *record, uint32_t op, size_t fixed_nbytes, struct sdi_waits waits, bool keep,
                      size_t tail_nbytes);
/* Does without the variable part. */
void sdi_record_cut(struct sdi_record *record);
void sdi_record_close(struct sdi_record *record);

struct sdi_command {
    cl_command_queue queue;
    cl_uint type;
    bool wants_event;              /* the application asked for its event */
    bool wants_slot;               /* without an event: the client itself waits */
    bool forget;                   /* without an event: the service may forget the id when it is complete */
    bool shows;                    /* it brings bytes to where the application looks, by itself */
    uint64_t landed_ns;            /* the bytes are in the arena since then; 0: no such write */
    struct sdi_use *uses;          /* of the application's memory, taken over; they need an event */
    uint64_t gate, bar;            /* out: see sdi_is_gated, sdi_is_barred */
    struct sdi_transfer *transfer; /* to be done by the lander */
    cl_mem holds;                  /* a blocking transfer's root, until sdi_finish_blocking; or NULL */
    uint64_t id;                   /* out: this and the following */
    uint32_t slot;
    cl_event event;
};
/* No lock held.  Sends the record (and closes it); makes slot and event. */
cl_int sdi_enqueue(struct sdi_record *record, struct sdi_command *command);
/* The same for one that the service does alone; `is_awaited`: returns when it is over. */
cl_int sdi_enqueue_alone(struct sdi_record *record, struct sdi_command *command, bool is_awaited, cl_event *event);
/* The same for commands that nobody waits for and that have no transfer. */
cl_int sdi_enqueue_simple(struct sdi_record *record, cl_command_queue queue, cl_uint type, cl_event *event);
/* The same for one that uses memory of the application. */
cl_int sdi_enqueue_using(struct sdi_record *record, cl_command_queue queue, cl_uint type, struct sdi_use *uses,
                         cl_event *event);
/* No lock held.  After a blocking command: waits as far as the application may see it. */
cl_int sdi_finish_blocking(struct sdi_command *command, cl_int status, cl_event *event);

/* ---- transfer.c ------------------------------------------------------------------------------------------ */

/* Bytes to be copied between a buffer's place in the arena and memory of the application. */
struct sdi_transfer {
    struct sdi_transfer *next; /* in the lander's table */
    uint64_t id;
    uint32_t slot;
    cl_event event; /* held; or NULL: the slot is the transfer's own */
    cl_mem root;    /* held */
    cl_command_queue queue; /* held */
    uint64_t gate;          /* see sdi_is_gated */
    bool to_arena;
    bool busy; /* the lander copies: only it may free this */
    char *host;
    size_t offset; /* in root */
    size_t region[3], arena_row, arena_slice, host_row, host_slice;
    size_t copied, total;
};
/* No lock held.  Copies what is ready; 1: all is copied, 0: more to come, negative: the command failed. */
int sdi_transfer_step(struct sdi_transfer *transfer);
/* No lock held.  Enqueues the record's command with this transfer, blocking or by the lander. */
cl_int sdi_transfer_enqueue(struct sdi_record *record, struct sdi_command *command,
                            const struct sdi_transfer *transfer, bool blocking, cl_event *event);
cl_int sdi_host_access(cl_mem buffer, bool reads, bool writes);

/* What `sdi_transfer_box` takes: from or to the box `inside` of a buffer and the box `outside`, of the same region, of
 * the application's memory at `host`; in one run where neither has gaps. */
struct sdi_transfer sdi_transfer_shape(const struct sdi_box *inside, const struct sdi_box *outside, char *host,
                                       bool to_arena);
/* The same for a box: enqueues a read or write of `shape`, whose offset counts from the first byte of `buffer`. */
cl_int sdi_transfer_box(cl_command_queue queue, cl_mem buffer, cl_uint type, bool blocking,
                        struct sdi_transfer *shape, struct sdi_waits waits, cl_event *event);

/* ---- bytes.c --------------------------------------------------------------------------------------------- */

/* Between a root's bytes in the arena and the application's memory, at once. */
void sdi_copy_run(cl_mem root, size_t offset, char *host, size_t nbytes, bool to_arena);
void sdi_copy_box(const struct sdi_transfer *transfer);
/* The same, where the rows follow one another in the arena from `packed` on. */
void sdi_copy_packed(const struct sdi_transfer *transfer, char *packed);
/* Whether the two share memory: the application may pass what it got by mapping a buffer. */
bool sdi_copy_overlaps(const struct sdi_transfer *transfer);
/* The same for new buffers. */
void sdi_copy_to_arena(cl_mem root, size_t offset, const char *from, size_t nbytes);

/* ---- copy_pool.c ----------------------------------------------------------------------------------------- */

/* Calls `copy` for the pieces 0 to `num_pieces` - 1 of `work`, in any order, from this thread and from others where
 * there are CPUs for them and no other thread has them; returns when all are done. */
void sdi_copy_pieces(void (*copy)(const void *work, size_t piece), const void *work, size_t num_pieces);

/* ---- context.c ------------------------------------------------------------------------------------------- */

/* No lock held.  Tells the callback of the context with this id, or all callbacks (id 0), of an error. */
void sdi_context_failed(uint64_t id, const char *text, size_t nbytes);

/* ---- buffer.c -------------------------------------------------------------------------------------------- */

bool sdi_mem_flags_valid(cl_ulong flags);
/* The flags of a part or image of a buffer: what is not given comes from the whole.  False: contradictory. */
bool sdi_part_flags(cl_ulong whole, cl_ulong flags, cl_ulong *result);
/* A memory object of `nbytes` of its own, filled from `host_ptr` where flags say so; NULL and the code. */
cl_mem sdi_new_memory(cl_context context, cl_ulong flags, size_t nbytes, void *host_ptr, cl_int *errcode_ret);
/* A view of `nbytes` of a buffer; NULL: no memory. */
cl_mem sdi_new_view(cl_mem whole, cl_ulong flags, size_t origin, size_t nbytes);
/* Releases an object that the application never saw. */
void sdi_discard_memory(cl_mem buffer);
/* A command names it: its bytes are not the client's alone any more. */
static inline void sdi_named(cl_mem buffer) { __atomic_store_n(&buffer->root->fresh, false, __ATOMIC_RELAXED); }

/* ---- recycled.c: released buffers to be used again.  Client lock held, but see sdi_unpark ------------------- */

/* Keeps the place of a root buffer that goes; false: it can't be kept. */
bool sdi_park(cl_mem buffer);
/* Gives a new root buffer a parked one's id and place; false: there is none.  Lets go of the lock meanwhile. */
bool sdi_unpark(cl_mem buffer);
/* Releases all; whether there were any. */
bool sdi_parked_give_up(void);

/* ---- mapping.c ------------------------------------------------------------------------------------------- */

/* Maps a box of `buffer` (counted from its first byte) after the caller has checked all but its flags. */
void *sdi_map(cl_command_queue queue, cl_mem buffer, cl_uint type, bool blocking, cl_ulong flags, struct sdi_box box,
              struct sdi_waits waits, cl_event *event, cl_int *errcode_ret);
cl_int sdi_check_map(cl_command_queue queue, cl_mem buffer, cl_ulong flags, struct sdi_waits waits);
/* Client lock held. */
void sdi_mapping_free(struct sdi_mapping *mapping);

/* ---- host_pointer.c: memory of the application that is to be as if members used it ------------------------ */

/* No lock held.  Begins with a new root buffer that uses the application's memory, where the image does that. */
cl_int sdi_host_new(cl_mem root);
/* Client lock held: a root goes. */
void sdi_host_drop(cl_mem root);
/* No lock held, before a command is sent that names these bytes, counted from the object's first: takes what the
 * application changed there.  Does nothing for other buffers. */
void sdi_host_take(cl_mem buffer, size_t offset, size_t nbytes);
/* The same for commands whose results have to be shown (`writes`), or during which nothing may be taken: adds to
 * `*uses`, which go with the command or are given back. */
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
/* Whether commands use memory of the application of which it was not told that they are complete. */
bool sdi_host_is_used(void);
void sdi_host_gate_end(void);

/* ---- image.c --------------------------------------------------------------------------------------------- */

/* Whether an image may be bound to a kernel's argument: its type, and what the kernel may do with it. */
bool sdi_image_fits(cl_mem image, const struct sdi_argument *argument);

/* ---- copy.c ---------------------------------------------------------------------------------------------- */

/* Enqueues a copy between boxes, whose offsets count from the first bytes of the objects. */
cl_int sdi_copy(cl_command_queue queue, cl_uint type, cl_mem source, const struct sdi_box *from, cl_mem target,
                const struct sdi_box *to, struct sdi_waits waits, cl_event *event);
/* Sends the record of a fill of these bytes, counted from the object's first. */
cl_int sdi_enqueue_fill(struct sdi_record *record, cl_command_queue queue, cl_uint type, cl_mem buffer, size_t offset,
                        size_t nbytes, cl_event *event);
/* False when the box is empty, its pitches are too small, or a number overflows. */
bool sdi_box_make(struct sdi_box *box, const size_t *origin, const size_t *region, size_t row, size_t slice);
/* Whether it has no gaps. */
bool sdi_box_is_dense(const struct sdi_box *box);
/* Whether two boxes share a byte that have the same pitches and the same origin (where their rows begin to count). */
bool sdi_boxes_meet(const struct sdi_box *a, const struct sdi_box *b, size_t origin);

/* ---- completion.c, callback.c: threads ------------------------------------------------------------------------- */

/* Client lock held.  Starts the lander; CL_OUT_OF_HOST_MEMORY when no thread can be had. */
cl_int sdi_lander_start(void);
/* Client lock held. */
void sdi_lander_add(struct sdi_transfer *transfer);
void sdi_lander_remove(struct sdi_transfer *transfer);
void sdi_lander_watch(cl_event event);
/* Whether it has yet to write to the application's memory. */
bool sdi_lander_writes(void);
/* Client lock held.  Whether it has transfers to do. */
bool sdi_lander_is_busy(void);
/* Client lock held, and let go of meanwhile.  The application gave up its last reference to a queue, a context or a
 * buffer in memory of its own, which is held: waits for the lander's copies from and to the application's memory that
 * belong to it, as the application may now do as it likes with that.  Not for those that wait for a user event: only
 * the application can end that wait, and it may be this thread that does. */
void sdi_lander_await(const struct sdi_object *released);
bool sdi_on_lander(void);
/* Detached, with all signals blocked but those of faults; 0, or -1: no thread can be had. */
int sdi_start_thread(void *(*run)(void *), void *argument);

/* A callback that is registered, or due. */
struct sdi_call {
    struct sdi_call *next;
    enum { SDI_CALL_EVENT, SDI_CALL_BUFFER, SDI_CALL_CONTEXT, SDI_CALL_ERROR } what;
    union {
        void (*event)(cl_event, cl_int, void *);
        void (*buffer)(cl_mem, void *);
        void (*context)(cl_context, void *);
        void (*error)(const char *, const void *, size_t, void *);
    } function;
    void *object; /* an event, or the context of an error, is held until its callback has returned */
    cl_int status;
    void *data;
    char *text; /* of an error */
};
/* No lock held but possibly the client lock.  Has the caller thread run the chain, in order. */
void sdi_caller_post(struct sdi_call *calls);
cl_int sdi_caller_start(void);
/* No lock held.  Runs and frees the chain here. */
void sdi_run_calls(struct sdi_call *calls);
/* Adds a destructor callback to an object's, of which the last registered runs first. */
cl_int sdi_destructor_add(struct sdi_call **destructors, struct sdi_call given);
/* Client lock held.  Destructor callbacks to be run when the lock is given back. */
void sdi_defer(struct sdi_call *calls);

/* ---- event.c ---------------------------------------------------------------------------------------------- */

int sdi_event_status(cl_event event);
/* Client lock held.  Whether there are user events that the application has not set. */
bool sdi_events_unset(void);
/* Client lock held.  The gate of what waits for a user event that is not set; never 0. */
uint64_t sdi_gate(void);
/* Any lock.  Whether a command, by the gate that it got, may yet wait for user events that are not set: all in an
 * ordered queue after one that does, and so in other queues. */
bool sdi_is_gated(uint64_t gate);
/* Client lock held.  Whether a command, by the bar that it got (0: none), is known to wait for a user event that is not
 * set; false does not say that it waits for none. */
bool sdi_is_barred(uint64_t bar);
/* Client lock held.  A command of an ordered queue is complete: so is all before it. */
void sdi_queue_reached(cl_command_queue queue, uint64_t id);
/* Client lock held.  Moves the event's callbacks that `status` satisfies to the caller thread. */
void sdi_event_fire(cl_event event, int status);

/* ---- program.c ---------------------------------------------------------------------------------------------- */

/* Takes the source over; NULL: no memory. */
cl_program sdi_new_program(cl_context context, char *source, size_t nbytes);

/* binary.c */
struct sdi_binary {
    cl_uint type;
    char *options, *object;
    size_t object_nbytes;
};
size_t sdi_binary_nbytes(cl_program program);
void sdi_write_binary(cl_program program, unsigned char *to);
cl_int sdi_read_binary(const unsigned char *bytes, size_t nbytes, struct sdi_binary *binary);

/* build.c.  Client lock held, and let go of while the program is being built by another thread: programs that give a
 * callback and then use the kernels at once work wherever builds are done when the call returns. */
void sdi_await_build(cl_program program);

/* tables.c: what a build says; all for the caller to free. */
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

/* ---- profile.c: calls timed for SDI_PROFILE --------------------------------------------------------------- */

/* The table that objects get: sdi_dispatch, or the timed one; chosen when the library is loaded. */
extern const sdi_function *sdi_table;

struct sdi_timed_call {
    uint32_t function; /* its slot */
    uint64_t start_ns; /* 0: not recorded */
    uint64_t *end_ns;  /* in the file; NULL: no room for the span */
};
struct sdi_timed_call sdi_call_begin(uint32_t function);
void sdi_call_end(const struct sdi_timed_call *call, bool failed);

/* ---- kernel.c ----------------------------------------------------------------------------------------------- */

uint64_t sdi_kernel_local_nbytes(cl_kernel kernel);

#endif
