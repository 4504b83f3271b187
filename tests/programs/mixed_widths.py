"""One argument stored to in two widths: whole words, and bytes of a word by different groups, some alike."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"mw_store": "split", "mw_struct": "split", "mw_marks": "split"}

SOURCE = """
__kernel void mw_store(__global uint *words, int n)
{
    int i = get_global_id(0);
    words[i] = 0x10000u + i;
    __global uchar *bytes = (__global uchar *)(words + n);
    int lane = get_local_id(0), group = get_group_id(0);
    bytes[lane * (int)get_num_groups(0) + group] = (uchar)(group + 1);
}

typedef struct { uint total; uchar part[4]; } cell_t;

__kernel void mw_struct(__global cell_t *cells, int n)
{
    int i = get_global_id(0);
    if (i < n)
        cells[i].total += 7u;
    cells[i % n].part[i / n] = (uchar)(i ^ 0x5A);
}

__kernel void mw_marks(__global const uint *where, __global uint *marks, uint n)
{
    uint v = where[get_global_id(0)];
    marks[v % n] = v % n;
    ((__global uchar *)(marks + n))[v % (4 * n)] = 1;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Words followed by interleaved bytes, structs whose bytes four distant work-items write, and marks."""
    store, struct, mark = kernels(ctx, SOURCE, *KERNELS)
    groups, local = 9, 16
    n = groups * local
    words = np.zeros(n + n // 4, np.uint32)
    words_dev = to_device(ctx, words)
    store(queue, (n,), (local,), words_dev, np.int32(n))
    words[:n] = 0x10000 + np.arange(n)
    words[n:].view(np.uint8)[:] = np.tile(np.arange(1, groups + 1), local)

    cells = np.full((40, 8), 0x11, np.uint8)
    cells_dev = to_device(ctx, cells)
    struct(queue, (160,), (8,), cells_dev, np.int32(40))
    cells[:, :4].view(np.uint32)[:] += 7
    cells[:, 4:] = (np.arange(160).reshape(4, 40).T ^ 0x5A).astype(np.uint8)

    where = np.random.default_rng(5).integers(0, 1 << 30, (3, 96), np.uint32)
    marks = np.zeros(64 + 64, np.uint32)
    marks_dev = to_device(ctx, marks)
    for each in where:
        mark(queue, each.shape, (8,), to_device(ctx, each), marks_dev, np.uint32(64))
    marks[where % 64] = where % 64
    marks[64:].view(np.uint8)[where % 256] = 1
    outputs = {
        "words": to_host(queue, words_dev, words),
        "cells": to_host(queue, cells_dev, cells),
        "marks": to_host(queue, marks_dev, marks),
    }
    same(outputs["words"], words, "words and bytes")
    same(outputs["cells"], cells, "structs")
    same(outputs["marks"], marks, "marks")
    return outputs
