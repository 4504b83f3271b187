"""A kernel that calls another kernel, which is also launched by itself."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"kc_inner": "split", "kc_outer": "split"}

SOURCE = """
__kernel void kc_inner(__global int *data, int v)
{
    size_t i = get_global_id(0);
    data[i] = data[i] * 3 + v + (int)get_group_id(0);
}

__kernel void kc_outer(__global int *data, __global int *other)
{
    kc_inner(data, 5);
    kc_inner(other, data[get_global_id(0)] & 7);
    data[get_global_id(0)] ^= 1;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Launch the inner kernel, the outer one, and the inner one again."""
    inner, outer = kernels(ctx, SOURCE, *KERNELS)
    n = 99
    data, other = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32)[::-1].copy()
    data_dev, other_dev = to_device(ctx, data), to_device(ctx, other)
    inner(queue, (n,), (9,), data_dev, np.int32(-2))
    outer(queue, (n,), (9,), data_dev, other_dev)
    inner(queue, (n,), (9,), other_dev, np.int32(100))
    group = np.arange(n, dtype=np.int32) // 9
    data = data * 3 - 2 + group
    data = data * 3 + 5 + group
    other = other * 3 + (data & 7) + group
    data ^= 1
    other = other * 3 + 100 + group
    outputs = {"data": to_host(queue, data_dev, data), "other": to_host(queue, other_dev, other)}
    same(outputs["data"], data, "data")
    same(outputs["other"], other, "other")
    return outputs
