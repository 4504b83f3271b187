"""Double precision: constants, built-in functions, conversions and a sum that single precision would lose."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, near, to_device, to_host

KERNELS: dict[str, str] = {"do_math": "split", "do_series": "split"}

SOURCE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

__kernel void do_math(__global const double *x, __global double *out, double shift)
{
    size_t i = get_global_id(0), n = get_global_size(0);
    double v = x[i] + shift;
    out[i] = sqrt(v) * M_PI;
    out[n + i] = fma(v, v, -1.0e-9) / (v + 3.0);
    out[2 * n + i] = exp(-v) + sin(v) * cos(v);
    out[3 * n + i] = fmod(v * 1000.0, 7.0) + floor(v) + (double)(float)v
                   + convert_double_rte((long)(v * 1e6));
}

__kernel void do_series(__global double *out, int terms)
{
    size_t i = get_global_id(0);
    double sum = 1.0e9;
    for (int k = 1; k <= terms; ++k)
        sum += 1.0 / ((double)k * (double)k + (double)i);
    out[i] = sum - 1.0e9;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Four functions of 91 numbers and 40 slowly converging series."""
    math, series = kernels(ctx, SOURCE, *KERNELS)
    x = np.random.default_rng(11).random(91)
    out, sums = to_device(ctx, np.zeros((4, 91))), to_device(ctx, np.zeros(40))
    math(queue, (91,), (7,), to_device(ctx, x), out, np.float64(0.125))
    series(queue, (40,), (5,), sums, np.int32(500))
    outputs = {"math": to_host(queue, out, np.zeros((4, 91))), "series": to_host(queue, sums, np.zeros(40))}
    v = x + 0.125
    near(outputs["math"][0], np.sqrt(v) * np.pi, "square root", rtol=1e-14)
    near(outputs["math"][1], (v * v - 1e-9) / (v + 3), "fused", rtol=1e-13)
    near(outputs["math"][2], np.exp(-v) + np.sin(v) * np.cos(v), "exponential", rtol=1e-13)
    k = np.arange(1.0, 501.0)
    near(outputs["series"], (1 / (k * k + np.arange(40)[:, None])).sum(axis=1), "series", rtol=1e-4)
    return outputs
