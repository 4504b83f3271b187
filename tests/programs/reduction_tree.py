"""Sum by trees in ``__local`` arrays, launched until one value is left."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, near, to_device, to_host

KERNELS: dict[str, str] = {"rt_sum": "split"}

SOURCE = """
#define LOCAL 64
__kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1)))
void rt_sum(__global const float *in, __global float *out, uint n)
{
    __local float tree[LOCAL];
    uint lid = get_local_id(0), i = get_group_id(0) * (LOCAL * 2) + lid;
    float mine = i < n ? in[i] : 0.0f;
    if (i + LOCAL < n)
        mine += in[i + LOCAL];
    tree[lid] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint reach = LOCAL / 2; reach > 0; reach >>= 1) {
        if (lid < reach)
            tree[lid] += tree[lid + reach];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lid == 0)
        out[get_group_id(0)] = tree[0];
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Reduce 10,007 floats in three launches (79, 1 and 1 groups)."""
    (total,) = kernels(ctx, SOURCE, "rt_sum")
    data = np.random.default_rng(2).random(10_007, dtype=np.float32)
    source = to_device(ctx, data)
    n = data.size
    outputs: Outputs = {}
    while n > 1:
        groups = -(-n // 128)
        sums = to_device(ctx, np.zeros(groups, np.float32))
        total(queue, (groups * 64,), (64,), source, sums, np.uint32(n))
        outputs[f"sums{groups}"] = to_host(queue, sums, np.zeros(groups, np.float32))
        source, n = sums, groups
    near(outputs["sums1"], np.array([data.sum(dtype=np.float64)]), "sum", rtol=1e-4)
    return outputs
