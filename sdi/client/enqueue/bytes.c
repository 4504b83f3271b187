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
enum { LARGE_NBYTES = 4 << 20, POPULATE_NBYTES = 64 << 10, PAGE_NBYTES = 4096, LINE_NBYTES = 64 };

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

/* Has the kernel make pages of the arena present at once: much cheaper than one fault for each.  Once per piece. */
static void populate_arena(cl_mem root, size_t offset, size_t nbytes)
{
    size_t piece = offset / SDI_PIECE_NBYTES;
    if (!root->touched || nbytes < POPULATE_NBYTES || __atomic_load_n(&root->touched[piece], __ATOMIC_RELAXED))
        return;
    size_t first = offset & ~(size_t)(PAGE_NBYTES - 1);
    madvise(root->bytes + first, offset + nbytes - first, MADV_POPULATE_WRITE);
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
    populate_arena(run->root, begin, nbytes);
    if (run->to_arena) {
        run->copy(arena, host, nbytes);
    } else {
        populate_host(host, nbytes);
        run->copy(host, arena, nbytes);
    }
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
    struct run run = {root, offset, nbytes, host, to_arena, large ? stream : keep};
    size_t num_pieces = (offset + nbytes - 1) / SDI_PIECE_NBYTES - offset / SDI_PIECE_NBYTES + 1;
    if (large)
        sdi_copy_pieces(copy_piece, &run, num_pieces);
    else
        for (size_t piece = 0; piece < num_pieces; piece++)
            copy_piece(&run, piece);
}

void sdi_copy_to_arena(cl_mem root, size_t offset, const char *from, size_t nbytes)
{
    sdi_copy_run(root, offset, (char *)from, nbytes, true);
}

/* ---- boxes -------------------------------------------------------------------------------------------------- */

/* Rows at a distance from one another, on both sides; a row may overlap itself. */
struct rows {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, count;
};

/* Rows of so few bytes that calls would take longer than the bytes. */
#define COPY_SCALARS(type)                                                                                             \
    for (size_t row = 0; row < rows.count; row++, rows.to += rows.to_pitch, rows.from += rows.from_pitch) {            \
        type scalar;                                                                                                   \
        memcpy(&scalar, rows.from, sizeof scalar);                                                                     \
        memcpy(rows.to, &scalar, sizeof scalar);                                                                       \
    }

static void copy_slice(struct rows rows, size_t nbytes)
{
    switch (nbytes) {
    case 1:
        COPY_SCALARS(uint8_t);
        break;
    case 2:
        COPY_SCALARS(uint16_t);
        break;
    case 4:
        COPY_SCALARS(uint32_t);
        break;
    case 8:
        COPY_SCALARS(uint64_t);
        break;
    default:
        for (size_t row = 0; row < rows.count; row++, rows.to += rows.to_pitch, rows.from += rows.from_pitch)
            memmove(rows.to, rows.from, nbytes);
    }
}

/* What a transfer copies, and where its bytes are in the arena. */
struct box {
    const struct sdi_transfer *transfer;
    char *arena;
    size_t arena_row, arena_slice;
};

/* The rows `first` up to `stop` of those of all slices. */
static void copy_rows(const struct box *box, size_t first, size_t stop)
{
    const struct sdi_transfer *transfer = box->transfer;
    size_t height = transfer->region[1];
    while (first < stop) {
        size_t z = first / height, y = first % height, count = SDI_MIN(height - y, stop - first);
        char *inside = box->arena + z * box->arena_slice + y * box->arena_row;
        char *outside = transfer->host + z * transfer->host_slice + y * transfer->host_row;
        struct rows rows = {outside, inside, transfer->host_row, box->arena_row, count};
        if (transfer->to_arena)
            rows = (struct rows){inside, outside, box->arena_row, transfer->host_row, count};
        copy_slice(rows, transfer->region[0]);
        first += count;
    }
}

static size_t rows_of_piece(const struct sdi_transfer *transfer)
{
    return transfer->region[0] < SDI_PIECE_NBYTES ? SDI_PIECE_NBYTES / transfer->region[0] : 1;
}

static size_t num_rows(const struct sdi_transfer *transfer)
{
    return transfer->region[1] * transfer->region[2];
}

static void copy_piece_of_rows(const void *work, size_t piece)
{
    const struct box *box = work;
    size_t num = rows_of_piece(box->transfer);
    copy_rows(box, piece * num, SDI_MIN((piece + 1) * num, num_rows(box->transfer)));
}

/* `apart`: no byte of the two sides is the same. */
static void copy_box(const struct box *box, bool apart)
{
    size_t rows = num_rows(box->transfer), num = rows_of_piece(box->transfer);
    if (box->transfer->total >= LARGE_NBYTES && apart)
        sdi_copy_pieces(copy_piece_of_rows, box, (rows + num - 1) / num);
    else
        copy_rows(box, 0, rows);
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
    struct box box = {transfer, transfer->root->bytes + transfer->offset, transfer->arena_row, transfer->arena_slice};
    if (num_rows(transfer) == 1)
        sdi_copy_run(transfer->root, transfer->offset, transfer->host, transfer->total, transfer->to_arena);
    else
        copy_box(&box, !sdi_copy_overlaps(transfer));
}

void sdi_copy_packed(const struct sdi_transfer *transfer, char *packed)
{
    size_t row = transfer->region[0], slice = row * transfer->region[1];
    struct box box = {transfer, packed, row, slice};
    if (transfer->host_row != row || transfer->host_slice != slice || transfer->total >= LARGE_NBYTES)
        copy_box(&box, true);
    else if (transfer->to_arena)
        memcpy(packed, transfer->host, transfer->total);
    else
        memcpy(transfer->host, packed, transfer->total);
}
