/* Objects: handles, counts, the client lock; and answers to queries. */
#ifndef SDI_OBJECT_H
#define SDI_OBJECT_H

#include "link/link.h"

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
    SDI_NUM_KINDS,
};

/* Begins every object.  `dispatch` comes first, as ICD loaders want, and stays valid after release.  `refs` is
 * what the application retained; `holds` is what other objects, transfers and callbacks need.  An object lives
 * while one of them is not 0.  It fits SDI_OBJECT_NBYTES: SDI_FITS says so. */
struct sdi_object {
    const sdi_function *dispatch;
    uint32_t kind;
    uint32_t generation;
    uint64_t id;
    uint32_t refs;
    uint32_t holds;
};
enum { SDI_OBJECT_NBYTES = 256 };
#define SDI_FITS(type) _Static_assert(sizeof(type) <= SDI_OBJECT_NBYTES, "an object does not fit its slot")

extern uint32_t sdi_generation;

/* What is done when the last count of an object of this kind went: it releases what it owns and tells the service.
 * Client lock held. */
void sdi_register_drop(enum sdi_kind kind, void (*drop)(void *object));
#define SDI_AT_DROP(kind, drop) \
    SDI_AT_LOAD void register_drop(void) { sdi_register_drop(kind, drop); }
/* And before, when its last reference was given up; something holds it.  Client lock held, and may be let go of. */
void sdi_register_released(enum sdi_kind kind, void (*released)(void *object));

struct sdi_object *sdi_find(const void *handle, enum sdi_kind kind);

/* Whether a handle is an object of this process that lives; any value may be asked about (memory.h: memory objects). */
static inline bool sdi_is_platform_id(cl_platform_id p) { return p == &sdi_platform; }
static inline bool sdi_is_device_id(cl_device_id d) { return sdi_find(d, SDI_DEVICE) != NULL; }
static inline bool sdi_is_context(cl_context c) { return sdi_find(c, SDI_CONTEXT) != NULL; }
static inline bool sdi_is_command_queue(cl_command_queue q) { return sdi_find(q, SDI_QUEUE) != NULL; }
static inline bool sdi_is_mem(cl_mem m) { return sdi_find(m, SDI_BUFFER) != NULL; }
static inline bool sdi_is_sampler(cl_sampler s) { return sdi_find(s, SDI_SAMPLER) != NULL; }
static inline bool sdi_is_program(cl_program p) { return sdi_find(p, SDI_PROGRAM) != NULL; }
static inline bool sdi_is_kernel(cl_kernel k) { return sdi_find(k, SDI_KERNEL) != NULL; }
static inline bool sdi_is_event(cl_event e) { return sdi_find(e, SDI_EVENT) != NULL; }

/* Client lock held.  A new object with one reference, zeroed, with a fresh id; NULL when memory is exhausted. */
void *sdi_new(enum sdi_kind kind);
/* The same: releases one that the application never saw. */
void sdi_discard(void *object);
void sdi_hold(void *object);
void sdi_unhold(void *object);

/* Client lock not held. */
cl_int sdi_retain(void *handle, enum sdi_kind kind, cl_int invalid);
cl_int sdi_release(void *handle, enum sdi_kind kind, cl_int invalid);
/* clRetain... and clRelease... of a kind. */
#define SDI_COUNTED(name, type, kind, invalid) \
    cl_int sdi_clRetain##name(type object) { return sdi_retain(object, kind, invalid); } \
    cl_int sdi_clRelease##name(type object) { return sdi_release(object, kind, invalid); }

/* What clGetExtensionFunctionAddressForPlatform finds beside the functions of the dispatch table; when the library is
 * loaded. */
struct sdi_extension_function {
    const char *name;
    sdi_function function;
    struct sdi_extension_function *next;
};
void sdi_register_extension_function(struct sdi_extension_function *function);

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

#endif
