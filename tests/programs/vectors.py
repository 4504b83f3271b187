"""Vectors of two to sixteen elements: literals, swizzles, conversions, comparisons and selections."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {
    "ve_float4": "split",
    "ve_int8": "split",
    "ve_uchar16": "split",
    "ve_double2": "split",
}

SOURCE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

__kernel void ve_float4(__global const float4 *in, __global float4 *out, float scale, float4 shift)
{
    size_t i = get_global_id(0);
    float4 v = in[i], w = (float4)(v.y, scale, (float2)(v.x + 1.0f, v.w));
    v.xz = v.wy;
    v.hi += w.lo;
    v.s0 = max(v, (float4)(0.5f)).z;
    out[i] = select(v.wzyx * shift, w + shift, isgreater(v, w));
}

__kernel void ve_int8(__global int8 *data, int8 mask)
{
    size_t i = get_global_id(0);
    int8 v = data[i];
    v.odd = v.even ^ mask.lo;
    v = (v << 3) | (v >> 29) & 7;
    v += (v > mask) ? (int8)(-1) : mask;
    data[i] = v.s76543210;
}

__kernel void ve_uchar16(__global const uchar16 *in, __global uchar16 *out, __global ushort8 *wide)
{
    size_t i = get_global_id(0);
    uchar16 v = in[i];
    out[i] = add_sat(v, (uchar16)(100)).s0f1e2d3c4b5a6978;
    wide[i] = convert_ushort8(v.lo) * convert_ushort8(v.hi);
    out[i].s5 = (uchar)any(v.lo > v.hi);
}

__kernel void ve_double2(__global const float2 *in, __global double2 *out)
{
    size_t i = get_global_id(0);
    double2 v = convert_double2(in[i]);
    out[i] = (double2)(dot(v, v), v.x / v.y);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Run the four kernels over 8 to 11 groups."""
    float4, int8, uchar16, double2 = kernels(ctx, SOURCE, *KERNELS)
    rng = np.random.default_rng(6)

    a = rng.random((88, 4), dtype=np.float32)
    a_out = to_device(ctx, np.zeros_like(a))
    shift = np.array([1, 2, 3, 4], np.float32)
    float4(queue, (88,), (8,), to_device(ctx, a), a_out, np.float32(0.25), shift)

    b = rng.integers(-(1 << 20), 1 << 20, (64, 8), dtype=np.int32)
    mask = np.array([1, 20, 300, 4000, -5, -60, -700, -8000], np.int32)
    b_dev = to_device(ctx, b)
    int8(queue, (64,), (8,), b_dev, mask)

    c = rng.integers(0, 256, (80, 16), dtype=np.uint8)
    c_out, wide = to_device(ctx, np.zeros_like(c)), to_device(ctx, np.zeros((80, 8), np.uint16))
    uchar16(queue, (80,), (8,), to_device(ctx, c), c_out, wide)

    d = rng.random((88, 2), dtype=np.float32) + 1
    d_out = to_device(ctx, np.zeros((88, 2)))
    double2(queue, (88,), (8,), to_device(ctx, d), d_out)

    outputs = {
        "float4": to_host(queue, a_out, a),
        "int8": to_host(queue, b_dev, b),
        "uchar16": to_host(queue, c_out, c),
        "ushort8": to_host(queue, wide, np.zeros((80, 8), np.uint16)),
        "double2": to_host(queue, d_out, np.zeros((88, 2))),
    }
    v = b.copy()
    v[:, 1::2] = v[:, ::2] ^ mask[:4]
    v = (v << 3) | (v >> 29) & 7
    v += np.where(v > mask, -1, mask)
    same(outputs["int8"], v[:, ::-1], "int8")
    order = [0, 15, 1, 14, 2, 13, 3, 12, 4, 11, 5, 10, 6, 9, 7, 8]
    added = np.minimum(c.astype(int) + 100, 255).astype(np.uint8)[:, order]
    added[:, 5] = (c[:, :8] > c[:, 8:]).any(axis=1)
    same(outputs["uchar16"], added, "uchar16")
    same(outputs["ushort8"], c[:, :8].astype(np.uint16) * c[:, 8:], "ushort8")
    return outputs
