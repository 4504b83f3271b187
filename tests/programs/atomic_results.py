"""Global atomics whose results are used: compaction by a counter, tickets, compare-and-swap and exchange."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ar_compact": "split", "ar_last": "whole", "ar_swap": "whole"}

SOURCE = """
__kernel void ar_compact(__global const int *in, __global int *out, __global int *size)
{
    int v = in[get_global_id(0)];
    if (v % 3 == 0)
        out[atomic_inc(size)] = v;
}

__kernel void ar_last(__global const int *in, volatile __global int *partial, volatile __global int *arrived,
                      __global int *total)
{
    __local int sum, last;
    if (get_local_id(0) == 0)
        sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&sum, in[get_global_id(0)]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        atomic_xchg(&partial[get_group_id(0)], sum);
        mem_fence(CLK_GLOBAL_MEM_FENCE);
        last = atomic_inc(arrived) == (int)get_num_groups(0) - 1;
        if (last) {
            int all = 0;
            for (uint g = 0; g < get_num_groups(0); ++g)
                all += atomic_add(&partial[g], 0);
            *total = all;
            *arrived = 0;
        }
    }
}

__kernel void ar_swap(__global const float *in, volatile __global uint *maximum)
{
    uint seen = *maximum;
    while (in[get_global_id(0)] > as_float(seen)) {
        uint before = atomic_cmpxchg(maximum, seen, as_uint(in[get_global_id(0)]));
        if (before == seen)
            break;
        seen = before;
    }
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Results that depend on the order are sorted before they are returned."""
    compact, last, swap = kernels(ctx, SOURCE, *KERNELS)
    rng = np.random.default_rng(25)
    data = rng.integers(0, 100_000, 640, dtype=np.int32)
    in_dev = to_device(ctx, data)
    out_dev, size_dev = to_device(ctx, np.full(640, -1, np.int32)), to_device(ctx, np.zeros(1, np.int32))
    compact(queue, (640,), (32,), in_dev, out_dev, size_dev)
    outputs = {
        "kept": np.sort(to_host(queue, out_dev, data)),
        "size": to_host(queue, size_dev, np.zeros(1, np.int32)),
    }
    kept = np.full(640, -1, np.int32)
    kept[: (data % 3 == 0).sum()] = data[data % 3 == 0]
    same(outputs["kept"], np.sort(kept), "kept")

    partial_dev, arrived_dev = to_device(ctx, np.zeros(20, np.int32)), to_device(ctx, np.zeros(1, np.int32))
    total_dev = to_device(ctx, np.zeros(1, np.int32))
    for _ in range(2):
        last(queue, (640,), (32,), in_dev, partial_dev, arrived_dev, total_dev)
    outputs["partial"] = to_host(queue, partial_dev, np.zeros(20, np.int32))
    outputs["total"] = to_host(queue, total_dev, np.zeros(1, np.int32))
    same(outputs["partial"], data.reshape(20, 32).sum(axis=1, dtype=np.int32), "partial sums")
    same(outputs["total"], data.sum(dtype=np.int32, keepdims=True), "total")

    floats = rng.random(640, dtype=np.float32)
    maximum_dev = to_device(ctx, np.zeros(1, np.float32))
    swap(queue, (640,), (32,), to_device(ctx, floats), maximum_dev)
    outputs["maximum"] = to_host(queue, maximum_dev, np.zeros(1, np.float32))
    same(outputs["maximum"], floats.max(keepdims=True), "maximum")
    return outputs
