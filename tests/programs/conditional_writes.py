"""Writes that depend on the data: some work-items, some whole groups, and sometimes nobody writes."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"cw_pass": "split", "cw_rows": "split"}

SOURCE = """
__kernel void cw_pass(__global const int *in, __global int *out, int limit)
{
    size_t i = get_global_id(0);
    if (in[i] > limit)
        out[i] = in[i];
    else if (in[i] == limit)
        out[i] = out[i];
}

__kernel void cw_rows(__global const uchar *wanted, __global ulong *rows, int width)
{
    if (!wanted[get_group_id(0)])
        return;
    for (int x = get_local_id(0); x < width; x += get_local_size(0))
        rows[get_group_id(0) * width + x] ^= 0x0101010101010101UL * (x & 0xFF);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Limits that let all, half, few and none pass; then rows chosen by a mask."""
    passing, rows = kernels(ctx, SOURCE, *KERNELS)
    rng = np.random.default_rng(17)
    data = rng.integers(0, 1000, 640, dtype=np.int32)
    out = np.full(640, -1, np.int32)
    in_dev, out_dev = to_device(ctx, data), to_device(ctx, out)
    outputs: Outputs = {}
    for limit in (2000, 990, 500, -1):
        passing(queue, (640,), (32,), in_dev, out_dev, np.int32(limit))
        out = np.where(data > limit, data, out)
        outputs[f"above{limit}"] = to_host(queue, out_dev, out)
        same(outputs[f"above{limit}"], out, f"above {limit}")
    table = rng.integers(0, 1 << 63, (13, 37), dtype=np.uint64)
    wanted = np.array([0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1], np.uint8)
    table_dev = to_device(ctx, table)
    rows(queue, (13 * 8,), (8,), to_device(ctx, wanted), table_dev, np.int32(37))
    table[wanted == 1] ^= np.uint64(0x0101010101010101) * np.arange(37, dtype=np.uint64)
    outputs["rows"] = to_host(queue, table_dev, table)
    same(outputs["rows"], table, "rows")
    return outputs
