"""Updates in place: element by element, mirrored pairs, and a grid-stride loop."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ip_step": "split", "ip_reverse": "split", "ip_stride": "split"}

SOURCE = """
__kernel void ip_step(__global uint *data, uint n)
{
    uint i = get_global_id(0);
    if (i < n)
        data[i] = data[i] * 1664525u + 1013904223u;
}

__kernel void ip_reverse(__global uint *data, uint n)
{
    uint i = get_global_id(0);
    if (i < n / 2) {
        uint v = data[i];
        data[i] = data[n - 1 - i];
        data[n - 1 - i] = v;
    }
}

__kernel void ip_stride(__global uint *data, uint n)
{
    for (uint i = get_global_id(0); i < n; i += get_global_size(0))
        data[i] ^= i << 8;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Thirty rounds of all three kernels on 997 words."""
    step, reverse, stride = kernels(ctx, SOURCE, *KERNELS)
    data = np.random.default_rng(18).integers(0, 1 << 32, 997, dtype=np.uint32)
    device, n = to_device(ctx, data), np.uint32(997)
    for _ in range(30):
        step(queue, (1024,), (64,), device, n)
        reverse(queue, (512,), (32,), device, n)
        stride(queue, (80,), (8,), device, n)
        data = (data * np.uint32(1664525) + np.uint32(1013904223))[::-1] ^ (
            np.arange(997, dtype=np.uint32) << 8
        )
    outputs = {"data": to_host(queue, device, data)}
    same(outputs["data"], data, "data")
    return outputs
