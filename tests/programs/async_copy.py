"""Groups that fetch and store through ``async_work_group_copy``, plain and strided, with ``prefetch``."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ay_reverse": "split", "ay_column": "split"}

SOURCE = """
#define L 24
__kernel void ay_reverse(__global const int *in, __global int *out)
{
    __local int a[L], b[L];
    size_t base = get_group_id(0) * L, lid = get_local_id(0);
    prefetch(in + base, L);
    event_t e = async_work_group_copy(a, in + base, L, 0);
    wait_group_events(1, &e);
    b[L - 1 - lid] = a[lid] * 2;
    barrier(CLK_LOCAL_MEM_FENCE);
    e = async_work_group_copy(out + base, b, L, 0);
    wait_group_events(1, &e);
}

__kernel void ay_column(__global const short *matrix, __global short *out, int width)
{
    __local short column[L];
    size_t x = get_group_id(0);
    event_t e = async_work_group_strided_copy(column, matrix + x, L, width, 0);
    wait_group_events(1, &e);
    column[get_local_id(0)] += (short)x;
    barrier(CLK_LOCAL_MEM_FENCE);
    e = async_work_group_strided_copy(out + x, column, L, width, 0);
    wait_group_events(1, &e);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Reverse 11 blocks, and add its number to each of 13 columns."""
    reverse, column = kernels(ctx, SOURCE, *KERNELS)
    data = np.arange(11 * 24, dtype=np.int32)
    matrix = np.random.default_rng(39).integers(-99, 99, (24, 13), dtype=np.int16)
    out_dev, columns_dev = to_device(ctx, np.zeros_like(data)), to_device(ctx, np.zeros_like(matrix))
    reverse(queue, (data.size,), (24,), to_device(ctx, data), out_dev)
    column(queue, (13 * 24,), (24,), to_device(ctx, matrix), columns_dev, np.int32(13))
    outputs = {"blocks": to_host(queue, out_dev, data), "columns": to_host(queue, columns_dev, matrix)}
    same(outputs["blocks"], (data.reshape(11, 24)[:, ::-1] * 2).ravel(), "blocks")
    same(outputs["columns"], matrix + np.arange(13, dtype=np.int16), "columns")
    return outputs
