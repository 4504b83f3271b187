"""Bitonic sort: small strides in ``__local`` memory, large ones in place over the whole buffer."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"bt_local": "split", "bt_global": "split"}

SOURCE = """
#define BLOCK 64
void order(uint *a, uint *b, bool up)
{
    if ((*a > *b) == up) {
        uint t = *a;
        *a = *b;
        *b = t;
    }
}

__kernel void bt_local(__global uint *data)
{
    __local uint tile[BLOCK];
    uint lid = get_local_id(0), base = get_group_id(0) * BLOCK;
    tile[lid] = data[base + lid];
    tile[lid + BLOCK / 2] = data[base + lid + BLOCK / 2];
    for (uint size = 2; size <= BLOCK; size *= 2)
        for (uint stride = size / 2; stride > 0; stride /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            uint at = 2 * lid - (lid & (stride - 1));
            uint a = tile[at], b = tile[at + stride];
            order(&a, &b, ((base + at) & size) == 0);
            tile[at] = a;
            tile[at + stride] = b;
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    data[base + lid] = tile[lid];
    data[base + lid + BLOCK / 2] = tile[lid + BLOCK / 2];
}

__kernel void bt_global(__global uint *data, uint size, uint stride)
{
    uint i = get_global_id(0), at = 2 * i - (i & (stride - 1));
    uint a = data[at], b = data[at + stride];
    order(&a, &b, (at & size) == 0);
    data[at] = a;
    data[at + stride] = b;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Sort 1024 numbers: one local launch of 16 groups and 34 global ones."""
    local, globally = kernels(ctx, SOURCE, *KERNELS)
    n = 1024
    data = np.random.default_rng(35).integers(0, 1 << 32, n, dtype=np.uint32)
    device = to_device(ctx, data)
    local(queue, (n // 2,), (32,), device)
    outputs = {"blocks": to_host(queue, device, data)}
    size = 128
    while size <= n:
        stride = size // 2
        while stride:
            globally(queue, (n // 2,), (32,), device, np.uint32(size), np.uint32(stride))
            stride //= 2
        size *= 2
    outputs["sorted"] = to_host(queue, device, data)
    same(outputs["sorted"], np.sort(data), "sorted")
    return outputs
