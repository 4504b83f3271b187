/* What host_pointer.c, host_show.c and watching.c, and nobody else, know of memory of the application that buffers use. */
#ifndef SDI_HOSTED_H
#define SDI_HOSTED_H

#include "objects/memory.h"

#include <pthread.h>

/* Commands of one ordered queue on the same bytes, or one of another queue. */
struct sdi_use {
    struct sdi_use *next;
    cl_event first, last; /* held: the oldest that was not shown, the newest */
    cl_command_queue queue;
    cl_mem root;
    size_t begin, end; /* in it */
    bool writes;
};

/* A READ that nobody but these files asks for. */
struct sdi_asked {
    uint64_t id;
    uint32_t slot; /* 0: there is none */
};

/* Of a root buffer.  `uses`, `next`, `is_listed`: client lock; all else: busy lock. */
struct sdi_hosted {
    char *snapshot;
    uint8_t *changed;     /* one per page, while bytes are taken */
    uint8_t *written;     /* one per page that the application may have written since it was taken; or NULL: all */
    uint8_t num_same, num_written; /* takes in a row in which nothing was other; in which much was written */
    cl_mem next_watched;           /* client lock */
    struct sdi_use *uses; /* the newest first */
    cl_mem next;          /* in `used` */
    bool is_listed;       /* there: from its first use until all is shown and it has none */
    size_t begin, end;    /* to be shown; or 0, 0 */
    struct sdi_asked asked;
};

/* Queues: FREE for READs that wait for nobody, since threads that have other READs awaited may be waiting for them; the others
 * for those that are awaited together, and for WRITEs. */
enum { SDI_HOST_FREE, SDI_HOST_FIRST, SDI_HOST_QUEUES = 9 };

/* Of the process. */
struct sdi_host {
    /* Held while bytes are taken or shown, also while READs of these files are awaited, which nothing holds up but
     * commands that are issued: these end without the application.  Before the client lock; never taken by the
     * completion thread. */
    pthread_mutex_t busy;
    cl_mem used;     /* roots that are listed, held; changed under the client lock, cut under both */
    size_t num_used; /* atomic */
    uint64_t queues[SDI_HOST_QUEUES]; /* ids of the queues of these files; 0: none yet */
};
extern struct sdi_host sdi_host;

/* Client lock held. */
bool sdi_host_have_queue(int number);

static inline void sdi_host_count(uint64_t compared_nbytes, uint64_t copied_nbytes)
{
    __atomic_fetch_add(&sdi_session.header->host_compared_nbytes, compared_nbytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sdi_session.header->host_copied_nbytes, copied_nbytes, __ATOMIC_RELAXED);
}

/* A range of a root, by the pieces that threads share. */
struct sdi_span {
    cl_mem root;
    size_t begin, end;
    const uint8_t *written; /* of the root's pages, if they are known; or NULL */
};

static inline size_t sdi_num_pieces(const struct sdi_span *span)
{
    return (span->end - 1) / SDI_PIECE_NBYTES - span->begin / SDI_PIECE_NBYTES + 1;
}

static inline struct sdi_span sdi_piece_of(const struct sdi_span *span, size_t piece)
{
    size_t number = span->begin / SDI_PIECE_NBYTES + piece;
    size_t begin = piece ? number * SDI_PIECE_NBYTES : span->begin;
    return (struct sdi_span){span->root, begin, SDI_MIN((number + 1) * SDI_PIECE_NBYTES, span->end), span->written};
}

/* ---- watching.c: which pages of memory that is no region's were written ------------------------------------------ */

/* Busy lock held, bytes are about to be taken: has the kernel watch a root's memory, where that is worth it. */
void sdi_host_watch(cl_mem root);
/* Busy lock held, bytes are about to be compared, `written` ones if that is known: has the kernel watch no more where that is
 * not worth it. */
void sdi_host_watched(const struct sdi_span *span);
/* Client lock held.  The kernel watches no more. */
void sdi_host_unwatch(cl_mem root);

static inline size_t sdi_page_end(size_t at, size_t end)
{
    return SDI_MIN(at - at % SDI_PAGE_NBYTES + SDI_PAGE_NBYTES, end);
}

#endif
