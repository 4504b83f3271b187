"""A relaxation in place: cells of one colour of a checkerboard change by those of the other."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"rb_relax": "split"}

SOURCE = """
__kernel void rb_relax(__global int *cells, int w, int h, int colour)
{
    int x = get_global_id(0) + 1, y = get_global_id(1) + 1;
    if (x < w - 1 && y < h - 1 && ((x + y) & 1) == colour) {
        int at = y * w + x;
        cells[at] += (cells[at - 1] + cells[at + 1] + cells[at - w] + cells[at + w]) >> 2;
    }
}
"""
WIDTH, HEIGHT, STEPS = 61, 50, 6


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Both colours in turn."""
    (relax,) = kernels(ctx, SOURCE, "rb_relax")
    truth = np.random.default_rng(12).integers(-1000, 1000, (HEIGHT, WIDTH), dtype=np.int32)
    cells = to_device(ctx, truth)
    y, x = np.mgrid[1 : HEIGHT - 1, 1 : WIDTH - 1]
    for step in range(2 * STEPS):
        relax(queue, (64, 48), (16, 4), cells, np.int32(WIDTH), np.int32(HEIGHT), np.int32(step % 2))
        around = truth[1:-1, :-2] + truth[1:-1, 2:] + truth[:-2, 1:-1] + truth[2:, 1:-1]
        truth[1:-1, 1:-1] += np.where((x + y) % 2 == step % 2, around >> 2, 0)
    found = to_host(queue, cells, truth)
    same(found, truth, "cells")
    return {"cells": found}
