/* The client's own threads: callbacks, completions, copies.  Each starts when it is first needed and never ends. */
#ifndef SDI_THREADS_H
#define SDI_THREADS_H

#include "link/link.h"

/* ---- callback.c ------------------------------------------------------------------------------------------ */

/* A callback that is registered, or due. */
struct sdi_call {
    struct sdi_call *next;
    void (*run)(struct sdi_call *call); /* no lock held: calls the function, lets go of the object */
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
/* No lock held but possibly the client lock.  Has the callback thread run the chain, in order. */
void sdi_callback_post(struct sdi_call *calls);
cl_int sdi_callback_start(void);
/* No lock held.  Adds a destructor callback to an object's, of which the last registered runs first. */
cl_int sdi_destructor_add(struct sdi_call **destructors, struct sdi_call given);
/* Client lock held.  Destructor callbacks to be run when the lock is given back. */
void sdi_defer(struct sdi_call *calls);

/* ---- completion.c ---------------------------------------------------------------------------------------- */

/* What is done with notices of a kind, in the completion thread, no lock held.  `told`: its text follows; false: it
 * makes no sense.  `ended`: the service is gone, none will come any more.  One for each kind. */
void sdi_register_notice(uint32_t kind, bool (*told)(const struct sdi_rec_notice *notice, const char *text),
                         void (*ended)(void));
/* Client lock held.  CL_OUT_OF_HOST_MEMORY when no thread can be had. */
cl_int sdi_completion_start(void);
bool sdi_on_completion_thread(void);

/* ---- copy_pool.c ----------------------------------------------------------------------------------------- */

/* Calls `copy` for the pieces 0 to `num_pieces` - 1 of `work`, in any order, from this thread and from others where
 * there are CPUs for them and no other thread has them; returns when all are done. */
void sdi_copy_pieces(void (*copy)(const void *work, size_t piece), const void *work, size_t num_pieces);

#endif
