"""Unaligned ``vloadn`` and ``vstoren``, half floats in memory, and reinterpreted bits."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"vl_unaligned": "split", "vl_half": "split", "vl_bits": "split"}

SOURCE = """
__kernel void vl_unaligned(__global const uchar *in, __global uchar *out, int from, int to)
{
    size_t i = get_global_id(0);
    vstore8(vload8(i, in + from).s70615243, i, out + to);
}

__kernel void vl_half(__global const half *in, __global half *out)
{
    size_t i = get_global_id(0);
    vstore_half4(vload_half4(i, in) * 2.0f + 0.5f, i, out);
}

__kernel void vl_bits(__global const float *in, __global uint *out)
{
    size_t i = get_global_id(0);
    uint bits = as_uint(in[i]);
    uchar4 bytes = as_uchar4(bits);
    out[i] = as_uint(bytes.wxzy) ^ (bits >> 23);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Move bytes to odd offsets, scale halves, and shuffle the bytes of floats."""
    unaligned, half, bits = kernels(ctx, SOURCE, *KERNELS)
    rng = np.random.default_rng(8)
    raw = rng.integers(0, 256, 720, dtype=np.uint8)
    moved = to_device(ctx, np.full(720, 0xEE, np.uint8))
    unaligned(queue, (88,), (8,), to_device(ctx, raw), moved, np.int32(3), np.int32(5))

    halves = rng.integers(-64, 64, 352).astype(np.float16)
    scaled = to_device(ctx, np.zeros_like(halves))
    half(queue, (88,), (8,), to_device(ctx, halves), scaled)

    floats = rng.standard_normal(90).astype(np.float32)
    shuffled = to_device(ctx, np.zeros(90, np.uint32))
    bits(queue, (90,), (9,), to_device(ctx, floats), shuffled)

    outputs = {
        "moved": to_host(queue, moved, raw),
        "scaled": to_host(queue, scaled, halves),
        "shuffled": to_host(queue, shuffled, np.zeros(90, np.uint32)),
    }
    expected = np.full(720, 0xEE, np.uint8)
    expected[5:709] = raw[3:707].reshape(-1, 8)[:, [7, 0, 6, 1, 5, 2, 4, 3]].ravel()
    same(outputs["moved"], expected, "moved bytes")
    same(outputs["scaled"], halves * 2 + np.float16(0.5), "scaled halves")
    words = floats.view(np.uint32)
    mixed = (
        np.ascontiguousarray(floats.view(np.uint8).reshape(-1, 4)[:, [3, 0, 2, 1]]).view(np.uint32).ravel()
    )
    same(outputs["shuffled"], mixed ^ (words >> 23), "shuffled bits")
    return outputs
