"""A prefix sum in one launch, in which groups take tickets and spin for their predecessor."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"cs_scan": "whole"}

SOURCE = """
__kernel void cs_scan(__global const uint *in, __global uint *out, volatile __global uint *state)
{
    __local uint sums[32], ticket, before;
    uint lid = get_local_id(0);
    if (lid == 0)
        ticket = atomic_inc(&state[0]);
    barrier(CLK_LOCAL_MEM_FENCE);
    uint at = ticket * 32 + lid;
    sums[lid] = in[at];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0) {
        for (int k = 1; k < 32; ++k)
            sums[k] += sums[k - 1];
        uint waited = 0;
        if (ticket > 0)
            while ((waited = atomic_add(&state[ticket], 0)) == 0)
                ;
        before = waited & 0x7FFFFFFFu;
        atomic_xchg(&state[ticket + 1], 0x80000000u | (before + sums[31]));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    out[at] = before + sums[lid];
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Scan 24 groups of 32 numbers."""
    (scan,) = kernels(ctx, SOURCE, "cs_scan")
    n = 24 * 32
    data = np.random.default_rng(26).integers(0, 1000, n, dtype=np.uint32)
    out_dev, state_dev = to_device(ctx, np.zeros(n, np.uint32)), to_device(ctx, np.zeros(26, np.uint32))
    scan(queue, (n,), (32,), to_device(ctx, data), out_dev, state_dev)
    out = to_host(queue, out_dev, data)
    same(out, np.cumsum(data, dtype=np.uint32), "scan")
    return {"out": out, "state": to_host(queue, state_dev, np.zeros(26, np.uint32))}
