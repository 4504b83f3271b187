"""Writes through an index array: a permutation, a partial one, and several outputs per work-item."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"sc_scatter": "split", "sc_several": "split"}

SOURCE = """
__kernel void sc_scatter(__global const uint *index, __global const float *in, __global float *out)
{
    size_t i = get_global_id(0);
    out[index[i]] = in[i] * 2.0f;
}

__kernel void sc_several(__global const uint *first, __global const uint *link, __global ushort *out)
{
    uint at = first[get_global_id(0)];
    for (ushort k = 1; at != 0xFFFFFFFFu; ++k) {
        out[at] = (ushort)(get_global_id(0) * 16 + k);
        at = link[at];
    }
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Scatter 800 of 1000 elements, then walk 104 linked lists through a permutation."""
    scatter, several = kernels(ctx, SOURCE, *KERNELS)
    rng = np.random.default_rng(16)
    index = rng.permutation(1000)[:800].astype(np.uint32)
    data = rng.random(800, dtype=np.float32)
    out = np.full(1000, -1, np.float32)
    out_dev = to_device(ctx, out)
    scatter(queue, (800,), (16,), to_device(ctx, index), to_device(ctx, data), out_dev)
    out[index] = data * 2

    order = rng.permutation(600).astype(np.uint32)
    first, link = np.full(104, 0xFFFFFFFF, np.uint32), np.full(600, 0xFFFFFFFF, np.uint32)
    walked = np.full(600, 0xBEEF, np.uint16)
    walked_dev = to_device(ctx, walked)
    for item, chain in enumerate(np.split(order, np.arange(1, 104) * 5)):
        first[item] = chain[0]
        link[chain[:-1]] = chain[1:]
        walked[chain] = item * 16 + 1 + np.arange(chain.size)
    several(queue, (104,), (8,), to_device(ctx, first), to_device(ctx, link), walked_dev)

    outputs = {"out": to_host(queue, out_dev, out), "walked": to_host(queue, walked_dev, walked)}
    same(outputs["out"], out, "scattered")
    same(outputs["walked"], walked, "walked")
    return outputs
