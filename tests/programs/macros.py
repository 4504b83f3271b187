"""Macros and ``-D`` options: types, operators, whole statements, conditional code and unrolled loops."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ma_plus_int": "split", "ma_xor_uint": "split"}

SOURCE = """
#ifndef TYPE
#error "TYPE is not defined"
#endif
#define CAT_(a, b, c) a##b##c
#define CAT(a, b, c) CAT_(a, b, c)
#define NAME(op) CAT(ma_, op, CAT(_, TYPE, ))
#define AT(p, i) (p)[(i) * STRIDE + OFFSET]
#define UPDATE(p, i, ...) do { AT(p, i) = __VA_ARGS__; } while (0)
#if defined(USE_XOR) && STRIDE > 1
#  define COMBINE(a, b) ((a) ^ (b))
#  define OP xor
#else
#  define COMBINE(a, b) ((a) + (b))
#  define OP plus
#endif
#define ID get_global_id(0)

__kernel void NAME(OP)(__global TYPE *data, __global const TYPE *in)
{
    TYPE v = 0;
    #pragma unroll 4
    for (int k = 0; k < ROUNDS; k++)
        v = COMBINE(v, in[(ID + k) % get_global_size(0)] << k);
    UPDATE(data, ID, COMBINE(AT(data, ID), v));
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Build the same source twice with different options."""
    common = ["-DROUNDS=6", "-D", "OFFSET=1"]
    (plus,) = kernels(ctx, SOURCE, "ma_plus_int", options=["-DTYPE=int", "-DSTRIDE=1", *common])
    options = ["-DTYPE=uint", "-DSTRIDE=3", "-D USE_XOR", "-cl-mad-enable", "-w", *common]
    (xor,) = kernels(ctx, SOURCE, "ma_xor_uint", options=options)
    data = np.random.default_rng(12).integers(0, 1 << 16, 90, dtype=np.int32)
    plus_dev, xor_dev = (
        to_device(ctx, np.arange(92, dtype=np.int32)),
        to_device(ctx, np.arange(273, dtype=np.uint32)),
    )
    plus(queue, (90,), (9,), plus_dev, to_device(ctx, data))
    xor(queue, (90,), (9,), xor_dev, to_device(ctx, data.view(np.uint32)))
    outputs = {
        "plus": to_host(queue, plus_dev, np.zeros(92, np.int32)),
        "xor": to_host(queue, xor_dev, np.zeros(273, np.uint32)),
    }
    shifted = np.stack([np.roll(data, -k) << k for k in range(6)])
    plus_expected, xor_expected = np.arange(92, dtype=np.int32), np.arange(273, dtype=np.uint32)
    plus_expected[1:91] += shifted.sum(axis=0, dtype=np.int32)
    xor_expected[1:271:3] ^= np.bitwise_xor.reduce(shifted.view(np.uint32), axis=0)
    same(outputs["plus"], plus_expected, "sum")
    same(outputs["xor"], xor_expected, "exclusive or")
    return outputs
