"""Launches without a local size, whose results do not depend on the one that is chosen."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"nl_line": "split", "nl_grid": "some"}

SOURCE = """
__kernel void nl_line(__global uint *out)
{
    size_t i = get_global_id(0) - get_global_offset(0);
    uint item = get_group_id(0) * get_local_size(0) + get_local_id(0);
    out[i] = (uint)get_global_id(0) * 7u + (item == i) + (get_local_id(0) < get_local_size(0));
}

__kernel void nl_grid(__global uint *out)
{
    size_t x = get_global_id(0), y = get_global_id(1);
    uint covered = get_num_groups(0) * get_local_size(0) == get_global_size(0);
    out[y * get_global_size(0) + x] = (uint)(y * 1000 + x) * 2u + covered;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Launch composite, prime and tiny global sizes."""
    line, grid = kernels(ctx, SOURCE, "nl_line", "nl_grid")
    outputs: Outputs = {}
    for n, offset in ((1, 0), (960, 0), (1009, 0), (1000, 24)):
        out_dev = to_device(ctx, np.zeros(n, np.uint32))
        line(queue, (n,), None, out_dev, global_offset=(offset,))
        expected = (np.arange(n, dtype=np.uint32) + offset) * 7 + 2
        outputs[f"line{n}"] = to_host(queue, out_dev, expected)
        same(outputs[f"line{n}"], expected, f"{n} items")
    for nx, ny in ((31, 29), (64, 48)):
        y, x = np.indices((ny, nx), dtype=np.uint32)
        expected = (y * 1000 + x) * 2 + 1
        out_dev = to_device(ctx, np.zeros_like(expected))
        grid(queue, (nx, ny), None, out_dev)
        outputs[f"grid{nx}x{ny}"] = to_host(queue, out_dev, expected)
        same(outputs[f"grid{nx}x{ny}"], expected, f"{nx} x {ny} items")
    return outputs
