"""Buffers as ``__constant`` arguments, one changed between launches and one also bound as ``__global``."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ca_poly": "split"}

SOURCE = """
__kernel void ca_poly(__constant int *coefficients, __global const int *x, __global int *out, int degree,
                      __constant uchar4 *flags)
{
    int i = get_global_id(0), v = 0;
    for (int k = degree; k >= 0; --k)
        v = v * x[i] + coefficients[k];
    out[i] = v + flags[i & 1].y - flags[0].w;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Evaluate a polynomial, change its coefficients on the device, evaluate it over its own coefficients."""
    (poly,) = kernels(ctx, SOURCE, "ca_poly")
    coefficients = np.zeros(96, np.int32)
    coefficients[:5] = [3, -1, 4, 1, -5]
    flags = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.uint8)
    x = np.random.default_rng(15).integers(-20, 20, 96, dtype=np.int32)
    c_dev, x_dev, f_dev = to_device(ctx, coefficients), to_device(ctx, x), to_device(ctx, flags)
    outputs: Outputs = {}
    for name, second in (("first", -1), ("second", 77)):
        update = np.array([second], np.int32)
        cl.enqueue_copy(queue, c_dev, update, dst_offset=4)
        coefficients[1] = second
        for source, values, device in (("x", x, x_dev), ("self", coefficients, c_dev)):
            out_dev = to_device(ctx, np.zeros(96, np.int32))
            poly(queue, (96,), (8,), c_dev, device, out_dev, np.int32(4), f_dev)
            v = np.zeros(96, np.int32)
            for k in range(4, -1, -1):
                v = v * values + coefficients[k]
            v += np.tile(np.array([2, 6], np.int32), 48) - 4
            outputs[f"{name}_{source}"] = to_host(queue, out_dev, v)
            same(outputs[f"{name}_{source}"], v, f"{name}, {source}")
    return outputs
