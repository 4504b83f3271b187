"""Launches of 1, 2, 3, 5, 7, 11 and 13 groups, where members are left without work, and small 2-D grids."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"fg_line": "split", "fg_grid": "some"}

SOURCE = """
__kernel void fg_line(__global uint *out, uint salt)
{
    size_t i = get_global_id(0);
    out[i] = out[i] * 3u + salt + (uint)get_group_id(0) * 1000u + (uint)get_num_groups(0);
}

__kernel void fg_grid(__global uint *out)
{
    size_t x = get_global_id(0), y = get_global_id(1);
    out[y * get_global_size(0) + x] += (uint)(get_group_id(1) * get_num_groups(0) + get_group_id(0)) + 1u;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Launch each number of groups twice on the same buffer."""
    line, grid = kernels(ctx, SOURCE, "fg_line", "fg_grid")
    outputs: Outputs = {}
    for groups in (1, 2, 3, 5, 7, 11, 13):
        out = np.arange(groups * 16, dtype=np.uint32)
        out_dev = to_device(ctx, out)
        group = np.repeat(np.arange(groups, dtype=np.uint32), 16)
        for salt in (5, 9):
            line(queue, (groups * 16,), (16,), out_dev, np.uint32(salt))
            out = out * np.uint32(3) + np.uint32(salt) + group * np.uint32(1000) + np.uint32(groups)
        outputs[f"line{groups}"] = to_host(queue, out_dev, out)
        same(outputs[f"line{groups}"], out, f"{groups} groups")
    for gx, gy in ((2, 2), (3, 2), (1, 5), (4, 3)):
        out = np.zeros((gy * 3, gx * 4), np.uint32)
        out_dev = to_device(ctx, out)
        for _ in range(2):
            grid(queue, (gx * 4, gy * 3), (4, 3), out_dev)
        expected = np.kron(np.arange(1, gx * gy + 1).reshape(gy, gx), np.ones((3, 4))).astype(np.uint32) * 2
        outputs[f"grid{gx}x{gy}"] = to_host(queue, out_dev, out)
        same(outputs[f"grid{gx}x{gy}"], expected, f"{gx} x {gy} groups")
    return outputs
