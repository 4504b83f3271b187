"""One buffer bound to two arguments: disjoint halves, the same element, bytes of the same words."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"al_halves": "split", "al_element": "split", "al_bytes": "split"}

SOURCE = """
__kernel void al_halves(__global const int *in, __global int *out, int from, int to)
{
    int i = get_global_id(0);
    out[to + i] = in[from + i] * 3 + 1;
}

__kernel void al_element(__global int *a, __global int *b, int n)
{
    int i = get_global_id(0);
    if (i < n) {
        a[i] += 5;
        b[i] *= 2;
        a[i] -= b[i] / 3;
    }
}

__kernel void al_bytes(__global uint *words, __global uchar *bytes)
{
    size_t i = get_global_id(0);
    words[2 * i] = 0xAABBCCDDu;
    bytes[8 * i + 5] = (uchar)i;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """All three kernels on one buffer of 192 words."""
    halves, element, by_bytes = kernels(ctx, SOURCE, *KERNELS)
    data = np.random.default_rng(20).integers(0, 1000, 192, dtype=np.int32)
    device = to_device(ctx, data)
    outputs: Outputs = {}
    halves(queue, (96,), (8,), device, device, np.int32(0), np.int32(96))
    data[96:] = data[:96] * 3 + 1
    outputs["halves"] = to_host(queue, device, data)
    same(outputs["halves"], data, "halves")
    element(queue, (192,), (16,), device, device, np.int32(181))
    doubled = (data[:181] + 5) * 2
    data[:181] = doubled - doubled // 3
    outputs["element"] = to_host(queue, device, data)
    same(outputs["element"], data, "element")
    by_bytes(queue, (96,), (8,), device, device)
    data.view(np.uint32)[::2] = 0xAABBCCDD
    data.view(np.uint8)[5::8] = np.arange(96)
    outputs["bytes"] = to_host(queue, device, data)
    same(outputs["bytes"], data, "bytes")
    return outputs
