"""An exclusive scan in three kernels: blocks, their sums, and the sums added back."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"sb_blocks": "split", "sb_sums": "split", "sb_add": "split"}

SOURCE = """
#define L 32
__kernel void sb_blocks(__global const int *in, __global int *out, __global int *sums, int n)
{
    __local int tmp[2 * L];
    int lid = get_local_id(0), base = get_group_id(0) * 2 * L, offset = 1;
    tmp[2 * lid] = base + 2 * lid < n ? in[base + 2 * lid] : 0;
    tmp[2 * lid + 1] = base + 2 * lid + 1 < n ? in[base + 2 * lid + 1] : 0;
    for (int d = L; d > 0; d >>= 1) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < d)
            tmp[offset * (2 * lid + 2) - 1] += tmp[offset * (2 * lid + 1) - 1];
        offset *= 2;
    }
    if (lid == 0) {
        sums[get_group_id(0)] = tmp[2 * L - 1];
        tmp[2 * L - 1] = 0;
    }
    for (int d = 1; d < 2 * L; d *= 2) {
        offset >>= 1;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < d) {
            int low = offset * (2 * lid + 1) - 1, high = offset * (2 * lid + 2) - 1, v = tmp[low];
            tmp[low] = tmp[high];
            tmp[high] += v;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (base + 2 * lid < n)
        out[base + 2 * lid] = tmp[2 * lid];
    if (base + 2 * lid + 1 < n)
        out[base + 2 * lid + 1] = tmp[2 * lid + 1];
}

__kernel void sb_sums(__global int *sums, int count)
{
    int total = 0;
    for (int g = 0; g < count; ++g) {
        int v = sums[g];
        sums[g] = total;
        total += v;
    }
}

__kernel void sb_add(__global int *out, __global const int *sums, int n)
{
    int i = get_global_id(0);
    if (i < n)
        out[i] += sums[i / (2 * L)];
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Scan 1001 numbers in 16 blocks."""
    blocks, sums, add = kernels(ctx, SOURCE, *KERNELS)
    n, groups = 1001, 16
    data = np.random.default_rng(29).integers(-100, 100, n, dtype=np.int32)
    out_dev, sums_dev = to_device(ctx, np.zeros(n, np.int32)), to_device(ctx, np.zeros(groups, np.int32))
    blocks(queue, (groups * 32,), (32,), to_device(ctx, data), out_dev, sums_dev, np.int32(n))
    sums(queue, (1,), (1,), sums_dev, np.int32(groups))
    add(queue, (1024,), (64,), out_dev, sums_dev, np.int32(n))
    outputs = {
        "out": to_host(queue, out_dev, data),
        "sums": to_host(queue, sums_dev, np.zeros(groups, np.int32)),
    }
    same(outputs["out"], (np.cumsum(data) - data).astype(np.int32), "scan")
    return outputs
