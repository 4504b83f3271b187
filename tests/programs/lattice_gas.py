"""A lattice Boltzmann step in place: each cell pushes nine bytes, which its neighbours' bytes surround."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"lg_push": "split", "lg_collide": "split", "lg_halo": "split"}

# Cells are interleaved: byte 9 * cell + direction.  The push from cell c in direction d writes byte d of its
# neighbour, which nobody else writes; what it reads, byte d of c in the other plane, nobody writes at all.
SOURCE = """
__constant char2 way[9] = { (char2)(0, 0), (char2)(1, 0), (char2)(0, 1), (char2)(-1, 0), (char2)(0, -1),
                            (char2)(1, 1), (char2)(-1, 1), (char2)(-1, -1), (char2)(1, -1) };

__kernel void lg_collide(__global uchar *cells, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= w || y >= h)
        return;
    __global uchar *f = cells + 9 * ((y + 1) * (w + 2) + x + 1);
    int total = 0;
    for (int d = 0; d < 9; ++d)
        total += f[d];
    for (int d = 0; d < 9; ++d)
        f[d] = (uchar)((f[d] * 3 + total / 9 + d) / 4);
}

__kernel void lg_push(__global const uchar *cells, __global uchar *next, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= w || y >= h)
        return;
    int row = w + 2, at = (y + 1) * row + x + 1;
    for (int d = 0; d < 9; ++d)
        next[9 * (at + way[d].y * row + way[d].x) + d] = cells[9 * at + d];
}

__kernel void lg_halo(__global uchar *cells, int w, int h)
{
    int k = get_global_id(0), row = w + 2;
    if (k < w)
        for (int d = 0; d < 9; ++d) {
            if (way[d].y > 0)
                cells[9 * (row + k + 1) + d] = cells[9 * ((h + 1) * row + k + 1) + d];
            if (way[d].y < 0)
                cells[9 * (h * row + k + 1) + d] = cells[9 * (k + 1) + d];
        }
}
"""

WAYS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))


def push(cells: Array, following: Array) -> None:
    """The push of all inner cells, on the host."""
    h, w = cells.shape[0] - 2, cells.shape[1] - 2
    for d, (dx, dy) in enumerate(WAYS):
        following[1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w, d] = cells[1:-1, 1:-1, d]


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Sixteen steps of 35 x 30 cells between two planes that keep their halos."""
    collide, pushing, halo = kernels(ctx, SOURCE, "lg_collide", "lg_push", "lg_halo")
    h, w = 30, 35
    cells = np.random.default_rng(36).integers(0, 256, (h + 2, w + 2, 9), dtype=np.uint8)
    following = cells.copy()
    a, b = to_device(ctx, cells), to_device(ctx, following)
    size, sizes = (40, 32), (np.int32(w), np.int32(h))
    for _ in range(16):
        collide(queue, size, (8, 4), a, *sizes)
        pushing(queue, size, (8, 4), a, b, *sizes)
        halo(queue, (40,), (4,), b, *sizes)
        a, b = b, a

        inner = cells[1:-1, 1:-1].astype(int)
        inner = (inner * 3 + inner.sum(axis=2, keepdims=True) // 9 + np.arange(9)) // 4
        cells[1:-1, 1:-1] = inner.astype(np.uint8)
        push(cells, following)
        for d, (_, dy) in enumerate(WAYS):
            if dy > 0:
                following[1, 1:-1, d] = following[h + 1, 1:-1, d]
            if dy < 0:
                following[h, 1:-1, d] = following[0, 1:-1, d]
        cells, following = following, cells
    outputs = {"cells": to_host(queue, a, cells), "other": to_host(queue, b, cells)}
    same(outputs["cells"], cells, "cells")
    same(outputs["other"], following, "other plane")
    return outputs
