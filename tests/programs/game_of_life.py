"""Conway's Game of Life on a torus of bytes."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"gl_step": "split"}

SOURCE = """
int alive(__global const uchar *cells, int x, int y, int w, int h)
{
    return cells[((y + h) % h) * w + (x + w) % w];
}

__kernel void gl_step(__global const uchar *cells, __global uchar *next, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= w || y >= h)
        return;
    int around = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            if (dx || dy)
                around += alive(cells, x + dx, y + dy, w, h);
    next[y * w + x] = around == 3 || (around == 2 && cells[y * w + x]);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Fifty generations of 77 x 53 cells."""
    (step,) = kernels(ctx, SOURCE, "gl_step")
    h, w = 53, 77
    cells = (np.random.default_rng(33).random((h, w)) < 0.35).astype(np.uint8)
    now, after = to_device(ctx, cells), to_device(ctx, np.zeros_like(cells))
    for _ in range(50):
        step(queue, (80, 56), (16, 4), now, after, np.int32(w), np.int32(h))
        now, after = after, now
        shifts = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
        around = sum(np.roll(cells, s, axis=(0, 1)).astype(int) for s in shifts)
        cells = ((around == 3) | ((around == 2) & (cells == 1))).astype(np.uint8)
    outputs = {"cells": to_host(queue, now, cells), "before": to_host(queue, after, cells)}
    same(outputs["cells"], cells, "cells")
    return outputs
