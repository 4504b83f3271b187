"""Fills with patterns of 1 to 16 bytes and copies between buffers, interleaved with kernels."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"fc_mix": "split"}

SOURCE = """
__kernel void fc_mix(__global const uint *in, __global uint *out)
{
    size_t i = get_global_id(0);
    out[i] = out[i] * 31u + in[i];
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Fill one buffer in pieces, copy pieces of it to another, and mix both after each step."""
    (mix,) = kernels(ctx, SOURCE, "fc_mix")
    n = 720
    a, b = np.zeros(n, np.uint32), np.arange(n, dtype=np.uint32)
    a_dev, b_dev = to_device(ctx, a), to_device(ctx, b)
    bytes_a, bytes_b = a.view(np.uint8), b.view(np.uint8)
    for k, (size, offset, length) in enumerate(
        ((1, 3, 1001), (2, 4, 900), (4, 0, 2880), (8, 800, 808), (16, 1600, 64))
    ):
        pattern = np.arange(1 + k, 1 + k + size, dtype=np.uint8) * 17
        cl.enqueue_fill_buffer(queue, a_dev, pattern, offset, length)
        bytes_a[offset : offset + length] = np.resize(pattern, length)
        mix(queue, (n,), (40,), a_dev, b_dev)
        b[:] = b * 31 + a
        source, target = 100 * k + 1, 2000 - 300 * k
        cl.enqueue_copy(queue, b_dev, a_dev, src_offset=source, dst_offset=target, byte_count=777)
        bytes_b[target : target + 777] = bytes_a[source : source + 777]
        cl.enqueue_copy(queue, b_dev, b_dev, src_offset=0, dst_offset=2600, byte_count=129)
        bytes_b[2600:2729] = bytes_b[:129]
        mix(queue, (n,), (40,), b_dev, a_dev)
        a[:] = a * 31 + b
    outputs = {"a": to_host(queue, a_dev, a), "b": to_host(queue, b_dev, b)}
    same(outputs["a"], a, "a")
    same(outputs["b"], b, "b")
    return outputs
