"""Buffers made with COPY_HOST_PTR, USE_HOST_PTR and ALLOC_HOST_PTR, and the memory behind them."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_host

KERNELS: dict[str, str] = {"hp_add": "split"}

SOURCE = """
__kernel void hp_add(__global const int *in, __global int *out, int v)
{
    size_t i = get_global_id(0);
    out[i] = in[i] + v;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Pass data through one buffer of each kind."""
    (add,) = kernels(ctx, SOURCE, "hp_add")
    n = 528
    flags = cl.mem_flags
    dtype = np.dtype(np.int32)
    data = np.arange(n, dtype=np.int32) * 7

    start = data.copy()
    copied = cl.Buffer(ctx, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=start)
    start[:] = -1
    used_memory = np.zeros(n, np.int32)
    used = cl.Buffer(ctx, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=used_memory)
    allocated = cl.Buffer(ctx, flags.READ_WRITE | flags.ALLOC_HOST_PTR, n * 4)
    both = cl.Buffer(ctx, flags.WRITE_ONLY | flags.ALLOC_HOST_PTR | flags.COPY_HOST_PTR, hostbuf=data)
    outputs: Outputs = {}

    add(queue, (n,), (33,), copied, used, np.int32(1))
    view, _ = cl.enqueue_map_buffer(queue, used, cl.map_flags.READ | cl.map_flags.WRITE, 40, (n - 10,), dtype)
    assert view.ctypes.data == used_memory.ctypes.data + 40, "a map of USE_HOST_PTR must be the host pointer"
    outputs["used"] = used_memory[10:].copy()
    same(outputs["used"], data[10:] + 1, "host memory while mapped")
    used_memory[20:30] = 1_000_000
    view.base.release(queue)  # type: ignore[union-attr]
    expected = data + 1
    expected[20:30] = 1_000_000

    add(queue, (n,), (33,), used, allocated, np.int32(10))
    expected += 10
    view, _ = cl.enqueue_map_buffer(queue, allocated, cl.map_flags.READ | cl.map_flags.WRITE, 0, (n,), dtype)
    outputs["allocated"] = view.copy()
    same(outputs["allocated"], expected, "allocated")
    view[0] = 5
    expected[0] = 5
    view.base.release(queue)  # type: ignore[union-attr]

    outputs["both_before"] = to_host(queue, both, data)
    same(outputs["both_before"], data, "copied at creation")
    add(queue, (n,), (33,), allocated, both, np.int32(-3))
    outputs["both"] = to_host(queue, both, data)
    same(outputs["both"], expected - 3, "both")
    outputs["copied"] = to_host(queue, copied, data)
    same(outputs["copied"], data, "copied")
    return outputs
