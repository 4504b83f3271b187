/* Copying between the arena and memory of the application: pages made present, past the caches, by several threads. */
#include "client.h"

#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* LARGE_NBYTES: from here on threads share a copy, and nothing is kept in caches. */
enum { LARGE_NBYTES = 4 << 20, POPULATE_NBYTES = 64 << 10 };
enum { HUGE_NBYTES = 2 << 20, PAGE_NBYTES = 4096, LINE_NBYTES = 64 };

/* ---- bytes in a row ----------------------------------------------------------------------------------------- */

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

/* Has the kernel make pages of the arena present at once: much cheaper than one fault for each. */
static void populate_arena(cl_mem root, size_t offset, size_t nbytes)
{
    while (nbytes) {
        size_t piece = offset / SDI_PIECE_NBYTES;
        size_t here = SDI_MIN(nbytes, (piece + 1) * SDI_PIECE_NBYTES - offset);
        size_t first = offset & ~(size_t)(PAGE_NBYTES - 1);
        if (root->touched && here >= POPULATE_NBYTES && !__atomic_load_n(&root->touched[piece], __ATOMIC_RELAXED))
            madvise(root->bytes + first, offset + here - first, MADV_POPULATE_WRITE);
        offset += here;
        nbytes -= here;
    }
}

/* Remembers that this part of the arena has pages now, as far as it is whole pieces. */
static void mark_touched(cl_mem root, size_t offset, size_t nbytes)
{
    size_t end = offset + nbytes == root->nbytes ? offset + nbytes + SDI_PIECE_NBYTES - 1 : offset + nbytes;
    if (!root->touched)
        return;
    for (size_t piece = (offset + SDI_PIECE_NBYTES - 1) / SDI_PIECE_NBYTES; piece < end / SDI_PIECE_NBYTES; piece++)
        __atomic_store_n(&root->touched[piece], 1, __ATOMIC_RELAXED);
}

/* Whether memory of the application seems to have no pages yet: the one in the middle answers for all. */
static bool has_no_pages(char *host, size_t nbytes)
{
    char *middle = host + nbytes / 2;
    unsigned char present = 1;
    middle -= (uintptr_t)middle % PAGE_NBYTES;
    return nbytes >= POPULATE_NBYTES && mincore(middle, PAGE_NBYTES, &present) == 0 && !(present & 1);
}

/* Like populate_arena, for memory of the application that is about to be written, as far as pages lie wholly in it.
 * Where the kernel can't do that it is written as it is. */
static void populate_host(char *host, size_t nbytes)
{
    size_t before = -(uintptr_t)host % PAGE_NBYTES;
    if (nbytes >= before + PAGE_NBYTES)
        madvise(host + before, (nbytes - before) & ~(size_t)(PAGE_NBYTES - 1), MADV_POPULATE_WRITE);
}

/* Bytes in a row, copied in pieces.  Cuts are where the application's memory is fresh at multiples of huge pages there:
 * two threads that meet in one would both clear it; elsewhere at multiples of pieces in the buffer. */
struct run {
    cl_mem root;
    size_t offset, nbytes;
    char *host;
    bool to_arena, fresh;
    void (*copy)(char *to, const char *from, size_t nbytes);
    size_t piece_nbytes, skipped; /* `skipped`: bytes of the first piece that lie before the run */
};

static void copy_piece(const void *work, size_t piece)
{
    const struct run *run = work;
    size_t begin = piece ? piece * run->piece_nbytes - run->skipped : 0;
    size_t nbytes = SDI_MIN((piece + 1) * run->piece_nbytes - run->skipped, run->nbytes) - begin;
    char *arena = run->root->bytes + run->offset + begin, *host = run->host + begin;
    populate_arena(run->root, run->offset + begin, nbytes);
    if (run->fresh)
        populate_host(host, nbytes);
    if (run->to_arena)
        run->copy(arena, host, nbytes);
    else
        run->copy(host, arena, nbytes);
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
    bool large = nbytes >= LARGE_NBYTES;
    struct run run = {root, offset, nbytes, host, to_arena, .copy = large ? stream : keep};
    run.fresh = !to_arena && has_no_pages(host, nbytes);
    run.piece_nbytes = run.fresh ? HUGE_NBYTES : SDI_PIECE_NBYTES;
    run.skipped = (run.fresh ? (uintptr_t)host : offset) % run.piece_nbytes;
    size_t num_pieces = (run.skipped + nbytes + run.piece_nbytes - 1) / run.piece_nbytes;
    if (large)
        sdi_copy_pieces(copy_piece, &run, num_pieces);
    else
        for (size_t piece = 0; piece < num_pieces; piece++)
            copy_piece(&run, piece);
    mark_touched(root, offset, nbytes);
}

void sdi_copy_to_arena(cl_mem root, size_t offset, const char *from, size_t nbytes)
{
    sdi_copy_run(root, offset, (char *)from, nbytes, true);
}

/* ---- boxes -------------------------------------------------------------------------------------------------- */

static void copy_row(const struct sdi_transfer *transfer, size_t row)
{
    size_t y = row % transfer->region[1], z = row / transfer->region[1];
    char *arena = transfer->root->bytes + transfer->offset + z * transfer->arena_slice + y * transfer->arena_row;
    char *host = transfer->host + z * transfer->host_slice + y * transfer->host_row;
    if (transfer->to_arena)
        memmove(arena, host, transfer->region[0]);
    else
        memmove(host, arena, transfer->region[0]);
}

static size_t rows_of_piece(const struct sdi_transfer *transfer)
{
    return transfer->region[0] < SDI_PIECE_NBYTES ? SDI_PIECE_NBYTES / transfer->region[0] : 1;
}

static void copy_rows(const void *work, size_t piece)
{
    const struct sdi_transfer *transfer = work;
    size_t num = rows_of_piece(transfer), rows = transfer->region[1] * transfer->region[2];
    for (size_t row = piece * num; row < SDI_MIN((piece + 1) * num, rows); row++)
        copy_row(transfer, row);
}

bool sdi_copy_overlaps(const struct sdi_transfer *transfer)
{
    const size_t *region = transfer->region;
    const char *arena = transfer->root->bytes + transfer->offset, *host = transfer->host;
    size_t z = region[2] - 1, y = region[1] - 1;
    return arena < host + z * transfer->host_slice + y * transfer->host_row + region[0]
           && host < arena + z * transfer->arena_slice + y * transfer->arena_row + region[0];
}

void sdi_copy_box(const struct sdi_transfer *transfer)
{
    size_t rows = transfer->region[1] * transfer->region[2], num = rows_of_piece(transfer);
    if (rows == 1)
        sdi_copy_run(transfer->root, transfer->offset, transfer->host, transfer->total, transfer->to_arena);
    else if (transfer->total >= LARGE_NBYTES && !sdi_copy_overlaps(transfer))
        sdi_copy_pieces(copy_rows, transfer, (rows + num - 1) / num);
    else
        for (size_t row = 0; row < rows; row++)
            copy_row(transfer, row);
}
