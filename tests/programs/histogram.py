"""Histograms in ``__local`` memory, one per group, merged by a second kernel."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"hi_partial": "split", "hi_merge": "split"}

SOURCE = """
#define BINS 64
__kernel void hi_partial(__global const uchar4 *pixels, __global uint *partial, uint n)
{
    __local uint bins[BINS];
    for (uint b = get_local_id(0); b < BINS; b += get_local_size(0))
        bins[b] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) {
        uchar4 p = pixels[i] >> (uchar4)(2);
        atomic_inc(&bins[p.x]);
        atomic_inc(&bins[p.y]);
        atomic_inc(&bins[p.z]);
        atomic_inc(&bins[p.w]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint b = get_local_id(0); b < BINS; b += get_local_size(0))
        partial[get_group_id(0) * BINS + b] = bins[b];
}

__kernel void hi_merge(__global const uint *partial, __global uint *bins, uint groups)
{
    uint b = get_global_id(0), sum = 0;
    for (uint g = 0; g < groups; ++g)
        sum += partial[g * BINS + b];
    bins[b] = sum;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Count 8,012 bytes into 64 bins with 12 groups."""
    partial, merge = kernels(ctx, SOURCE, *KERNELS)
    pixels = np.random.default_rng(28).binomial(255, 0.4, 8012).astype(np.uint8)
    partial_dev, bins_dev = (
        to_device(ctx, np.zeros((12, 64), np.uint32)),
        to_device(ctx, np.zeros(64, np.uint32)),
    )
    partial(queue, (12 * 32,), (32,), to_device(ctx, pixels), partial_dev, np.uint32(pixels.size // 4))
    merge(queue, (64,), (8,), partial_dev, bins_dev, np.uint32(12))
    expected = np.bincount(pixels >> 2, minlength=64).astype(np.uint32)
    outputs = {
        "bins": to_host(queue, bins_dev, expected),
        "partial": to_host(queue, partial_dev, np.zeros((12, 64), np.uint32)),
    }
    same(outputs["bins"], expected, "bins")
    return outputs
