/* The process, its service, and what goes between them. */
#ifndef SDI_LINK_H
#define SDI_LINK_H

#include "client.h"
#include "sdi_api.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* ---- process.c: any thread, any lock ------------------------------------------------------------------- */

/* Has `forget` run in the child of a fork, where nobody else runs: it forgets what the parent had. */
void sdi_register_fork(void (*forget)(void));
#define SDI_AT_FORK(forget) \
    SDI_AT_LOAD void register_fork(void) { sdi_register_fork(forget); }
/* Whether all that were registered will run. */
bool sdi_forks_are_known(void);
/* Whether this process may know nothing of the image, and start nothing: in the service itself, which would find
 * itself; and where the program has more rights than who started it (AT_SECURE: setuid, setgid, file capabilities),
 * since the environment says what the service is. */
bool sdi_hidden(void);
/* Leaves a letter for `sdi run`, once: 'p', the application was shown the platform; 'd', it asked for devices. */
void sdi_leave_mark(char what);
void sdi_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sdi_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The absolute path of this library as the loader knows it, remembered at the first call. */
const char *sdi_library_path(void);
/* How much address space could be reserved at once now, at most `most`. */
uint64_t sdi_room(uint64_t most);
/* Where `*nbytes` of it are free at addresses that others can have free too: these, as hexadecimal numbers with commas
 * between.  Where that is nowhere, but fewer bytes are: there, and `*nbytes` is that many. */
void sdi_places(uint64_t *nbytes, char *text, size_t room);
uint64_t sdi_now_ns(void);
/* Detached, with all signals blocked but those of faults; 0, or -1: no thread can be had. */
int sdi_start_thread(void *(*run)(void *), void *argument);

/* ---- ready.c ------------------------------------------------------------------------------------------------- */

/* Whether a process that was ready has the two sockets and is the service now, as with these arguments and environment. */
bool sdi_take_ready(const int sockets[2], char *const *arguments, char *const *environment);

/* ---- lock.c: the client lock ----------------------------------------------------------------------------- */

void sdi_lock(void);
/* Runs the destructor callbacks that became due, after unlocking. */
void sdi_unlock(void);
/* The calling thread answers others' faults, which may come while they have the lock, in memory that the application gave a
 * call: where its owner is one of those (`stopped`, asked now and then) it acts in its place. */
void sdi_lock_around(bool (*stopped)(int thread));
/* Any lock.  Whether the calling thread is that one. */
bool sdi_locks_around(void);
/* What runs when the client lock is given back: `take`, before, says what; `run`, after, unless that was NULL. */
struct sdi_call;
void sdi_register_unlock(struct sdi_call *(*take)(void), void (*run)(struct sdi_call *calls));
/* Client lock held, and let go of meanwhile: until somebody tells of a change, or for no reason. */
void sdi_await_change(void);
void sdi_tell_change(void);
/* Client lock held. */
uint64_t sdi_next_id(void);

/* ---- session.c: the service of this process ------------------------------------------------------------ */

/* Values of the facts of a device that calls are validated against. */
struct sdi_limits {
    cl_ulong type, max_alloc_nbytes, local_mem_nbytes, queue_properties;
    size_t base_align_nbytes;
    size_t max_work_group_size, max_work_item_sizes[3];
    cl_uint work_dimensions, version;
    bool non_uniform;
    bool images;
    size_t image2d[2], image3d[3], image_layers, image_buffer;
    size_t image_row_align; /* rows of 2D images begin at multiples of so many bytes, a power of two */
};

struct sdi_session {
    int commands, notices; /* sockets; -1 before the start */
    bool running; /* atomic */
    bool dead; /* atomic: the service is gone; nothing will happen any more */
    char *arena;
    size_t arena_nbytes;
    size_t file_offset; /* from there on the arena is a file; arena_nbytes: none of it is */
    bool has_svm; /* the arena is at the address at which members find its bytes */
    struct sdi_wire_arena_header *header;
    struct sdi_wire_slot *slots;
    cl_uint num_devices;
    struct sdi_limits *limits; /* of each device */
    cl_ulong types;            /* of all of them */
};

extern struct sdi_session sdi_session;

/* Any thread, any lock: no more answers come from the service, or none that make sense; it is left. */
void sdi_session_died(void);
static inline bool sdi_session_dead(void) { return __atomic_load_n(&sdi_session.dead, __ATOMIC_ACQUIRE); }
/* Looks whether the service has hung up; whether it is dead. */
bool sdi_session_check(void);

/* ---- ending.c ------------------------------------------------------------------------------------------------ */

/* Once, any thread, any lock: says why the service is gone, unless it ended by itself, which it has explained. */
void sdi_tell_end(void);

/* ---- start.c, service.c ---------------------------------------------------------------------------------- */

/* No lock held.  Starts the service if this process has none yet; whether it has one. */
bool sdi_session_start(void);
/* Client lock held.  The application knows an address in the arena: the child of a fork, which has none, gets a copy at
 * its place.  `is_apart`: the bytes are elsewhere; then it gets none. */
void sdi_arena_shows(bool is_apart);
/* What is said of a device, by its number; NULL: nothing. */
const void *sdi_fact(cl_uint device, cl_uint param, size_t *nbytes);

/* Starts the service process; 0 and its two sockets (ours), or -1 after one line on stderr. */
int sdi_service_start(int sockets[2]);
/* All descriptors that a start has open at the moment, for the child of a fork to close; -1: none. */
extern int sdi_service_descriptors[4];

/* ---- interrupt.c ----------------------------------------------------------------------------------------- */

enum { SDI_INTERRUPTED = -100000 }; /* no status of OpenCL */

/* No lock held, in the course of a wait that is gone into every 100 ms at least; `error`: how that was over.  Whether it
 * is to fail, as an interpreter that the application runs in was interrupted. */
bool sdi_interrupted(int error);
void sdi_listen(void);
/* Has `run` run, no lock held, when a wait fails for that: what is to be copied later is not. */
void sdi_register_interrupt(void (*run)(void));

/* ---- stream.c: records --------------------------------------------------------------------------------- */

/* All of it, without a signal where nobody reads; false: the other end is gone, or has not read in time. */
bool sdi_send_all(int fd, const char *at, size_t nbytes);
/* Client lock held.  Sends whole records; CL_OUT_OF_RESOURCES when the service is dead. */
cl_int sdi_send(const void *records, size_t nbytes);
/* Likewise, of what nobody waits for: where that would take a core from others, a service that sleeps is not woken before
 * the next record, or `sdi_speak_up`. */
cl_int sdi_send_quietly(const void *records, size_t nbytes);
/* Any lock, or none.  Who waits for something calls it: the service is woken for what was sent quietly. */
void sdi_speak_up(void);
/* Client lock held.  A record without wait list whose body is nothing, or a status. */
void sdi_send_bare(uint32_t op, uint64_t id);
cl_int sdi_send_status(uint32_t op, uint64_t id, cl_int status);

/* Whether more comes of a record of which something has come, from the service's `end`: its rest is on its way, or the
 * service is stuck. */
bool sdi_rest_comes(int end);
/* No lock held.  Waits until there is room for records, now and then; false: interrupted. */
bool sdi_await_room(void);

enum { SDI_PASSED_MAX = 2 };
/* Receives all of `nbytes`; `begun`: something of the record has come before.  Descriptors that come along replace
 * those of `passed`, SDI_PASSED_MAX of them, if they are asked for.  False: end of stream. */
bool sdi_receive(int end, void *data, size_t nbytes, bool begun, int *passed);

struct sdi_reply {
    cl_int status;
    uint64_t value;
    unsigned char *payload; /* to be freed; NULL when empty */
    size_t payload_nbytes;
};
/* No lock held.  Sends a record and waits for its reply; interrupted, CL_OUT_OF_RESOURCES. */
struct sdi_reply sdi_ask(const void *record, size_t nbytes);

static inline size_t sdi_padded(size_t nbytes) { return (nbytes + 7) & ~(size_t)7; }

/* ---- slot.c: the event status page ------------------------------------------------------------------- */

/* Client lock held.  0: none left. */
uint32_t sdi_slot_new(int status);
void sdi_slot_release(uint32_t slot);
/* Status of a slot; a pending one of a dead service counts as failed. */
int sdi_slot_status(uint32_t slot);
uint32_t sdi_epoch(void);
/* Whether a core may be kept busy for a moment. */
bool sdi_has_spare_cores(void);
/* Waits until the epoch is no longer `seen`, at most 100 ms; then looks whether the service lives.  0, or why
 * it was over before: EINTR, ETIMEDOUT, EAGAIN. */
int sdi_epoch_wait(uint32_t seen);
void sdi_epoch_wake(void);
int sdi_slot_wait(uint32_t slot);
/* The same, no lock held, for the application; SDI_INTERRUPTED: it does not want to wait any longer. */
int sdi_slot_await(uint32_t slot);
/* The slot of a command that is complete although the service does not know it: done by the client since then. */
void sdi_slot_is_over(uint32_t slot, uint64_t start_ns);

/* ---- staging.c: bytes of writes on their way to the service ------------------------------------------- */

/* No lock held.  Memory of the arena for the bytes of one write, until the service has taken them; waits while there is no
 * room.  NULL: the service is dead. */
char *sdi_stage(size_t nbytes);
/* Client lock held.  Whether the service should take what there is, so that the next bytes come to the front again. */
bool sdi_has_staged_much(void);
/* Client lock held.  The write was not sent. */
void sdi_unstage(size_t nbytes);

/* ---- profile.c: calls timed for SDI_PROFILE --------------------------------------------------------------- */

/* The table that the platform and objects get: sdi_dispatch, or the timed one; chosen when the library is loaded. */
extern const sdi_function *sdi_table;
struct sdi_platform {
    const sdi_function *dispatch;
};
extern struct sdi_platform sdi_platform;

struct sdi_timed_call {
    uint32_t function; /* its slot */
    uint64_t start_ns; /* 0: not recorded */
    uint64_t *end_ns;  /* in the file; NULL: no room for the span */
};
struct sdi_timed_call sdi_call_begin(uint32_t function);
void sdi_call_end(const struct sdi_timed_call *call, bool failed);

#endif
