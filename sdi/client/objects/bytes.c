/* Copying between the arena and memory of the application: pages made present, past the caches, by several threads. */
#include "objects/memory.h"
#include "threads/threads.h"

#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

enum { POPULATE_NBYTES = 64 << 10, PAGE_NBYTES = 4096, LINE_NBYTES = 64 };

/* memcpy that leaves the caches to others: lines of the target are written without being read before. */
static void stream(char *to, const char *from, size_t nbytes)
{
#ifdef __SSE2__
    size_t before = SDI_MIN(-(uintptr_t)to % LINE_NBYTES, nbytes);
    memcpy(to, from, before);
    to += before;
    from += before;
    nbytes -= before;
    for (; nbytes >= LINE_NBYTES; nbytes -= LINE_NBYTES, to += LINE_NBYTES, from += LINE_NBYTES) {
        __m128i part[4];
        for (int i = 0; i < 4; i++)
            part[i] = _mm_loadu_si128((const __m128i *)from + i);
        for (int i = 0; i < 4; i++)
            _mm_stream_si128((__m128i *)to + i, part[i]);
    }
    _mm_sfence();
#endif
    memcpy(to, from, nbytes);
}

/* Whether some of these bytes lie in a file.  The client has those of a region that is apart outside the arena. */
static bool is_in_file(cl_mem root, size_t offset, size_t nbytes)
{
    const char *arena = root->is_region && root->host_ptr ? root->host_ptr : root->bytes;
    return (size_t)(arena - sdi_session.arena) + offset + nbytes > sdi_session.file_offset;
}

/* For whole pages that hold all of `nbytes` from `at` on. */
static void advise(const char *at, size_t nbytes, int advice)
{
    char *first = (char *)((uintptr_t)at & ~(uintptr_t)(PAGE_NBYTES - 1));
    madvise(first, (size_t)(at + nbytes - first), advice);
}

/* Has the kernel make pages of the arena present at once: much cheaper than one fault for each.  Once per piece. */
static void populate_arena(cl_mem root, size_t offset, size_t nbytes)
{
    size_t piece = offset / SDI_PIECE_NBYTES;
    if (!root->touched || nbytes < POPULATE_NBYTES || __atomic_load_n(&root->touched[piece], __ATOMIC_RELAXED))
        return;
    advise(root->bytes + offset, nbytes, MADV_POPULATE_WRITE);
    size_t piece_nbytes = SDI_MIN(SDI_PIECE_NBYTES, root->nbytes - piece * SDI_PIECE_NBYTES);
    if (nbytes == piece_nbytes)
        __atomic_store_n(&root->touched[piece], 1, __ATOMIC_RELAXED);
}

/* The same for memory of the application that is about to be written, as far as pages lie wholly in it; the first of
 * them answers for all.  Where the kernel can't do that it is written as it is. */
static void populate_host(char *host, size_t nbytes)
{
    size_t before = -(uintptr_t)host % PAGE_NBYTES;
    unsigned char present = 1;
    if (nbytes < POPULATE_NBYTES)
        return;
    nbytes = (nbytes - before) & ~(size_t)(PAGE_NBYTES - 1);
    if (mincore(host + before, PAGE_NBYTES, &present) == 0 && !(present & 1))
        madvise(host + before, nbytes, MADV_POPULATE_WRITE);
}

/* Bytes in a row, copied piece by piece: the pieces of the buffer that `touched` counts. */
struct run {
    cl_mem root;
    size_t offset, nbytes;
    char *host;
    bool to_arena;
    void (*copy)(char *to, const char *from, size_t nbytes);
};

static void copy_piece(const void *work, size_t piece)
{
    const struct run *run = work;
    size_t number = run->offset / SDI_PIECE_NBYTES + piece;
    size_t begin = piece ? number * SDI_PIECE_NBYTES : run->offset;
    size_t nbytes = SDI_MIN((number + 1) * SDI_PIECE_NBYTES, run->offset + run->nbytes) - begin;
    char *arena = run->root->bytes + begin, *host = run->host + (begin - run->offset);
    bool in_file = is_in_file(run->root, begin, nbytes);
    if (!in_file)
        populate_arena(run->root, begin, nbytes);
    else if (nbytes >= POPULATE_NBYTES)
        advise(arena, nbytes, run->to_arena ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    if (run->to_arena) {
        run->copy(arena, host, nbytes);
    } else {
        populate_host(host, nbytes);
        run->copy(host, arena, nbytes);
    }
    if (in_file) /* what is mapped here stays in memory */
        advise(arena, nbytes, MADV_DONTNEED);
}

static void keep(char *to, const char *from, size_t nbytes)
{
    memcpy(to, from, nbytes);
}

void sdi_copy_run(cl_mem root, size_t offset, char *host, size_t nbytes, bool to_arena)
{
    char *arena = root->bytes + offset;
    if (nbytes == 0)
        return;
    if (arena < host + nbytes && host < arena + nbytes) {
        memmove(to_arena ? arena : host, to_arena ? host : arena, nbytes);
        return;
    }
    bool large = nbytes >= SDI_LARGE_NBYTES;
    struct run run = {root, offset, nbytes, host, to_arena, large ? stream : keep};
    size_t num_pieces = (offset + nbytes - 1) / SDI_PIECE_NBYTES - offset / SDI_PIECE_NBYTES + 1;
    if (large)
        sdi_copy_pieces(copy_piece, &run, num_pieces);
    else
        for (size_t piece = 0; piece < num_pieces; piece++)
            copy_piece(&run, piece);
}
