/* Commands: records under construction, transfers between the arena and the application's memory, boxes of bytes. */
#ifndef SDI_ENQUEUE_H
#define SDI_ENQUEUE_H

#include "objects/memory.h"

/* ---- command.c: enqueueing ----------------------------------------------------------------------------- */

struct sdi_waits {
    cl_uint num;
    const cl_event *events;
};

/* CL_SUCCESS, CL_INVALID_EVENT_WAIT_LIST or CL_INVALID_CONTEXT. */
cl_int sdi_check_waits(cl_context context, struct sdi_waits waits);
/* CL_SUCCESS, or the code for a queue and a memory object that don't belong together; `fits`: it is of the right kind. */
static inline cl_int sdi_check_queue(cl_command_queue queue, cl_mem memory, bool fits)
{
    if (!sdi_is_command_queue(queue))
        return CL_INVALID_COMMAND_QUEUE;
    return !fits ? CL_INVALID_MEM_OBJECT : memory->context != queue->context ? CL_INVALID_CONTEXT : CL_SUCCESS;
}

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
/* Keeps of the variable part so many bytes, a multiple of 8. */
void sdi_record_cut(struct sdi_record *record, size_t tail_nbytes);
void sdi_record_close(struct sdi_record *record);

struct sdi_command {
    cl_command_queue queue;
    cl_uint type;
    bool wants_event;              /* the application asked for its event */
    bool wants_slot;               /* without an event: the client itself waits */
    bool forget;                   /* without an event: the service may forget the id when it is complete */
    bool shows;                    /* it brings bytes to where the application looks, by itself */
    uint64_t there_ns;             /* since then its bytes are where the service finds them; 0: they are not */
    const struct sdi_transfer *early; /* a write that is made before the record is sent if nothing is under way; or NULL */
    cl_mem quiet;                  /* the root of a write that is carried or staged; or NULL */
    struct sdi_use *uses;          /* of the application's memory, taken over; they need an event */
    uint64_t gate, bar;            /* out: see sdi_is_gated, sdi_is_barred */
    struct sdi_transfer *transfer; /* to be done by the completion thread */
    cl_mem holds;                  /* a blocking transfer's root, until sdi_finish_blocking; or NULL */
    uint64_t id;                   /* out: this and the following */
    uint32_t slot;
    cl_event event;
};
enum { SDI_BUSY = 1 }; /* nothing was done, the record is open: of `early` */
/* No lock held.  Sends the record (and closes it); makes slot and event. */
cl_int sdi_enqueue(struct sdi_record *record, struct sdi_command *command);
/* The same for one that the service does alone; `is_awaited`: returns when it is over. */
cl_int sdi_enqueue_alone(struct sdi_record *record, struct sdi_command *command, bool is_awaited, cl_event *event);
/* The same for one that nobody waits for and that has no transfer; `uses`: of the application's memory, or NULL. */
cl_int sdi_enqueue_using(struct sdi_record *record, cl_command_queue queue, cl_uint type, struct sdi_use *uses,
                         cl_event *event);
/* No lock held.  After a blocking command: waits as far as the application may see it. */
cl_int sdi_finish_blocking(struct sdi_command *command, cl_int status, cl_event *event);

/* No lock held.  A marker that counts as a command of this type; without a wait list it is behind all before it. */
cl_int sdi_mark(cl_command_queue queue, cl_uint type, struct sdi_waits waits, cl_event *event);

/* Bytes of a memory object, counted from its first. */
struct sdi_extent {
    cl_mem memory;
    size_t offset, nbytes;
};
/* No lock held.  Enqueues a migration.  To the host and to a device that is one member data moves now, to the members of
 * an image when they need it: then it only takes its place in the order, as where what is there counts no more. */
cl_int sdi_migrate(cl_command_queue queue, cl_uint type, cl_uint num, const struct sdi_extent *places, cl_ulong flags,
                   struct sdi_waits waits, cl_event *event);

/* Client lock held.  A command of an ordered queue is complete: so is all before it. */
void sdi_queue_reached(cl_command_queue queue, uint64_t id);
/* Client lock held.  So is all before a command of any queue. */
void sdi_queue_finished(cl_command_queue queue, uint64_t id);
/* Client lock held.  The queue's `shows_id` is this one. */
void sdi_queue_shows(cl_command_queue queue, uint64_t id);
/* Client lock held.  Whether bytes may be on their way to where the application looks, by commands of any queue.  (One that
 * was released before it was known counts for ever.) */
bool sdi_any_shows(void);

/* ---- pending.c: transfers ---------------------------------------------------------------------------------- */

/* Bytes to be copied between a buffer's place in the arena and memory of the application. */
struct sdi_transfer {
    struct sdi_transfer *next; /* in the table */
    uint64_t id;
    uint32_t slot;
    cl_event event; /* held; or NULL: the slot is the transfer's own */
    cl_mem root;    /* held */
    cl_command_queue queue; /* held */
    uint64_t gate;          /* see sdi_is_gated */
    bool to_arena;
    bool busy; /* the completion thread copies: only it may free this */
    char *host;
    size_t offset; /* in root */
    size_t region[3], arena_row, arena_slice, host_row, host_slice;
    size_t copied, total;
};
/* No lock held.  Copies what is ready; 1: all is copied, 0: more to come, negative: the command failed. */
int sdi_transfer_step(struct sdi_transfer *transfer);
/* Client lock held.  Says to the service that it is over, as the last step said, or SDI_INTERRUPTED; without an event also
 * that nobody asks for it any more. */
void sdi_transfer_end(uint64_t id, int step, bool has_event);
/* No lock held.  In the completion thread: copies what is ready of the transfer `id`, if that is one. */
void sdi_pending_ready(uint64_t id);
/* Client lock held.  The completion thread does it from now on, or does not; it has the command's references. */
void sdi_pending_add(struct sdi_transfer *transfer);
void sdi_pending_remove(struct sdi_transfer *transfer);
/* Client lock held.  Whether there are any; whether any is to write to the application's memory. */
bool sdi_pending_any(void);
bool sdi_pending_reads(void);

/* ---- transfer.c ------------------------------------------------------------------------------------------- */

/* No lock held.  Enqueues the record's command with this transfer, blocking or by the completion thread. */
cl_int sdi_transfer_enqueue(struct sdi_record *record, struct sdi_command *command,
                            const struct sdi_transfer *transfer, bool blocking, cl_event *event);
/* No lock held.  Waits for a command that blocks; its event `own`, or NULL, is the application's if it wants it. */
cl_int sdi_finish_own(cl_int status, cl_event own, bool blocking, cl_event *event);
cl_int sdi_host_access(cl_mem buffer, bool reads, bool writes);

/* What `sdi_transfer_box` takes: from or to the box `inside` of a buffer and the box `outside`, of the same region, of
 * the application's memory at `host`; in one run where neither has gaps. */
struct sdi_transfer sdi_transfer_shape(const struct sdi_box *inside, const struct sdi_box *outside, char *host,
                                       bool to_arena);
/* The same for a box: enqueues a read or write of `shape`, whose offset counts from the first byte of `buffer`. */
cl_int sdi_transfer_box(cl_command_queue queue, cl_mem buffer, cl_uint type, bool blocking,
                        struct sdi_transfer *shape, struct sdi_waits waits, cl_event *event);

/* ---- boxes.c ---------------------------------------------------------------------------------------------- */

/* False when the box is empty, its pitches are too small, or a number overflows. */
bool sdi_box_make(struct sdi_box *box, const size_t *origin, const size_t *region, size_t row, size_t slice);
/* Whether it has no gaps. */
bool sdi_box_is_dense(const struct sdi_box *box);
/* Whether two boxes share a byte that have the same pitches and the same origin (where their rows begin to count). */
bool sdi_boxes_meet(const struct sdi_box *a, const struct sdi_box *b, size_t origin);

/* Between the arena and the application's memory, at once. */
void sdi_copy_box(const struct sdi_transfer *transfer);
/* The same, where the rows follow one another in the arena from `packed` on. */
void sdi_copy_packed(const struct sdi_transfer *transfer, char *packed);
/* Whether the two share memory: the application may pass what it got by mapping a buffer. */
bool sdi_copy_overlaps(const struct sdi_transfer *transfer);

/* ---- mapping.c ------------------------------------------------------------------------------------------- */

/* Maps a box of `buffer` (counted from its first byte) after the caller has checked all but its flags. */
void *sdi_map(cl_command_queue queue, cl_mem buffer, cl_uint type, bool blocking, cl_ulong flags, struct sdi_box box,
              struct sdi_waits waits, cl_event *event, cl_int *errcode_ret);
cl_int sdi_check_map(cl_command_queue queue, cl_mem buffer, cl_ulong flags, struct sdi_waits waits);
/* Ends the newest mapping that begins at `pointer`, of a memory object and a queue that belong together. */
cl_int sdi_unmap(cl_command_queue queue, cl_uint type, cl_mem buffer, void *pointer, struct sdi_waits waits,
                 cl_event *event);

/* ---- copy.c ---------------------------------------------------------------------------------------------- */

/* Enqueues a copy between boxes, whose offsets count from the first bytes of the objects. */
cl_int sdi_copy(cl_command_queue queue, cl_uint type, cl_mem source, const struct sdi_box *from, cl_mem target,
                const struct sdi_box *to, struct sdi_waits waits, cl_event *event);
/* Enqueues a copy of a run of bytes to a device, by any queue. */
cl_int sdi_copy_to(cl_command_queue queue, cl_device_id device, cl_uint type, cl_mem source, size_t source_offset,
                   cl_mem target, size_t target_offset, size_t nbytes, struct sdi_waits waits, cl_event *event);
/* Whether such a pattern can fill these bytes. */
bool sdi_pattern_fits(const void *pattern, size_t pattern_nbytes, size_t offset, size_t nbytes);
/* Enqueues a fill of a box, counted from the object's first byte, by a pattern that fits it, or of an image by a color. */
cl_int sdi_fill(cl_command_queue queue, cl_uint type, cl_mem memory, const void *pattern, size_t pattern_nbytes,
                const struct sdi_box *box, struct sdi_waits waits, cl_event *event);

#endif
