"""A second context for the same device, with its own program, buffers and queue, used in turn."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"tc_first": "split", "tc_second": "split"}

SOURCE = """
__kernel void NAME(__global int *data, int v)
{
    size_t i = get_global_id(0);
    data[i] = data[i] OP v;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Interleave work of two contexts and pass data between them through the host."""
    second_ctx = cl.Context([ctx.devices[0]])
    second_queue = cl.CommandQueue(second_ctx)
    assert second_ctx.devices[0] == ctx.devices[0]
    (first,) = kernels(ctx, SOURCE, "tc_first", options=["-DNAME=tc_first", "-DOP=+"])
    (second,) = kernels(second_ctx, SOURCE, "tc_second", options=["-DNAME=tc_second", "-DOP=*"])
    n = 360
    a, b = np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int32)[::-1].copy()
    a_dev, b_dev = to_device(ctx, a), to_device(second_ctx, b)
    for k in range(1, 6):
        first(queue, (n,), (30,), a_dev, np.int32(k))
        second(second_queue, (n,), (30,), b_dev, np.int32(k))
        a, b = a + k, b * k
    moved = to_host(second_queue, b_dev, b)
    cl.enqueue_copy(queue, a_dev, moved[:100])
    a[:100] = b[:100]
    first(queue, (n,), (30,), a_dev, np.int32(-9))
    a -= 9
    outputs = {"first": to_host(queue, a_dev, a), "second": to_host(second_queue, b_dev, b)}
    same(outputs["first"], a, "first context")
    same(outputs["second"], b, "second context")
    return outputs
