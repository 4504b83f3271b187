"""Two buffers that swap roles over 150 launches, with a third that every tenth launch reads."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"pp_rule": "split", "pp_mix": "split"}

SOURCE = """
__kernel void pp_rule(__global const uchar *old, __global uchar *new_cells, int n)
{
    int i = get_global_id(0);
    if (i >= n)
        return;
    int left = old[(i + n - 1) % n], right = old[(i + 1) % n];
    new_cells[i] = (uchar)((left + 3 * right + (old[i] >> 1)) ^ 0x35);
}

__kernel void pp_mix(__global uchar *cells, __global const uchar *salt)
{
    size_t i = get_global_id(0);
    cells[i] += salt[i];
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """An automaton on a ring of 1040 bytes."""
    rule, mix = kernels(ctx, SOURCE, *KERNELS)
    n = 1040
    rng = np.random.default_rng(19)
    cells, salt = rng.integers(0, 256, (2, n), dtype=np.uint8)
    old, new = to_device(ctx, cells), to_device(ctx, np.zeros(n, np.uint8))
    salt_dev = to_device(ctx, salt)
    for k in range(150):
        rule(queue, (1088,), (64,), old, new, np.int32(n))
        old, new = new, old
        cells = (np.roll(cells, 1) + 3 * np.roll(cells, -1) + (cells >> 1)) ^ np.uint8(0x35)
        if k % 10 == 9:
            mix(queue, (n,), (40,), old, salt_dev)
            cells = cells + salt
    outputs = {"cells": to_host(queue, old, cells)}
    same(outputs["cells"], cells, "cells")
    return outputs
