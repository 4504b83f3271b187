/* Boxes of bytes, and copying them between the arena and memory of the application. */
#include "enqueue/enqueue.h"
#include "threads/threads.h"

bool sdi_box_make(struct sdi_box *box, const size_t *origin, const size_t *region, size_t row, size_t slice)
{
    size_t least, z, y, last;
    if (!origin || !region || !region[0] || !region[1] || !region[2])
        return false;
    row = row ? row : region[0];
    if (row < region[0] || __builtin_mul_overflow(region[1], row, &least))
        return false;
    slice = slice ? slice : least;
    if (slice < least || __builtin_mul_overflow(origin[2], slice, &z) || __builtin_mul_overflow(origin[1], row, &y)
        || __builtin_add_overflow(z, y, &box->offset) || __builtin_add_overflow(box->offset, origin[0], &box->offset)
        || __builtin_mul_overflow(region[2] - 1, slice, &last)
        || __builtin_add_overflow(last, (region[1] - 1) * row + region[0], &last)
        || __builtin_add_overflow(box->offset, last, &box->end))
        return false;
    memcpy(box->region, region, sizeof box->region);
    box->row = row;
    box->slice = slice;
    return true;
}

bool sdi_box_is_dense(const struct sdi_box *box)
{
    return (box->region[1] == 1 || box->row == box->region[0])
           && (box->region[2] == 1 || box->slice == box->region[0] * box->region[1]);
}

bool sdi_boxes_meet(const struct sdi_box *a, const struct sdi_box *b, size_t origin)
{
    const struct sdi_box *boxes[2] = {a, b};
    size_t from[2][3];
    if (a->end <= b->offset || b->end <= a->offset)
        return false;
    if (!a->row)
        return true;
    for (int i = 0; i < 2; i++) {
        size_t offset = boxes[i]->offset - origin;
        from[i][2] = offset / a->slice;
        from[i][1] = offset % a->slice / a->row;
        from[i][0] = offset % a->slice % a->row;
    }
    for (int d = 0; d < 3; d++)
        if (from[0][d] + a->region[d] <= from[1][d] || from[1][d] + b->region[d] <= from[0][d])
            return false;
    return true;
}

/* ---- copying ------------------------------------------------------------------------------------------------ */


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
    if (box->transfer->total >= SDI_LARGE_NBYTES && apart)
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

struct run {
    char *to;
    const char *from;
    size_t nbytes;
};

static void copy_piece_of_run(const void *work, size_t piece)
{
    const struct run *run = work;
    const size_t begin = piece * SDI_PIECE_NBYTES;
    memcpy(run->to + begin, run->from + begin, SDI_MIN(SDI_PIECE_NBYTES, run->nbytes - begin));
}

static void copy_run(char *to, const char *from, size_t nbytes)
{
    struct run run = {to, from, nbytes};
    if (nbytes >= SDI_LARGE_NBYTES)
        sdi_copy_pieces(copy_piece_of_run, &run, (nbytes + SDI_PIECE_NBYTES - 1) / SDI_PIECE_NBYTES);
    else
        memcpy(to, from, nbytes);
}

void sdi_copy_packed(const struct sdi_transfer *transfer, char *packed)
{
    size_t row = transfer->region[0], slice = row * transfer->region[1];
    struct box box = {transfer, packed, row, slice};
    const bool is_dense = transfer->host_row == row && transfer->host_slice == slice;
    if (num_rows(transfer) > 1 && !(is_dense && transfer->total < SDI_LARGE_NBYTES))
        copy_box(&box, true);
    else if (transfer->to_arena)
        copy_run(packed, transfer->host, transfer->total);
    else
        memcpy(transfer->host, packed, transfer->total);
}
