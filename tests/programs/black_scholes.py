"""Black-Scholes prices in float and double, with exponentials, logarithms and error functions."""

import math

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, near, to_device, to_host

KERNELS: dict[str, str] = {"bs_float": "split", "bs_double": "split"}

SOURCE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define PRICE(NAME, T, C) \\
T normal_##T(T d) { return (T)0.5 * erfc(-d * (T)M_SQRT1_2); } \\
__kernel void NAME(__global const T *stock, __global const T *strike, __global const T *years, \\
                   __global T *call, __global T *put, T rate, T volatility, int n) \\
{ \\
    int i = get_global_id(0); \\
    if (i >= n) \\
        return; \\
    T spread = volatility * sqrt(years[i]); \\
    T d1 = (log(stock[i] / strike[i]) + (rate + (T)0.5 * volatility * volatility) * years[i]) / spread; \\
    T d2 = d1 - spread, discounted = strike[i] * exp(-rate * years[i]); \\
    call[i] = stock[i] * normal_##T(d1) - discounted * normal_##T(d2); \\
    put[i] = discounted * normal_##T(-d2) - stock[i] * normal_##T(-d1); \\
}
PRICE(bs_float, float, f)
PRICE(bs_double, double, )
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Price 1501 options."""
    n = 1501
    outputs: Outputs = {}
    for kernel, dtype in zip(kernels(ctx, SOURCE, *KERNELS), (np.float32, np.float64), strict=True):
        rng = np.random.default_rng(32)
        stock, strike, years = (
            rng.uniform(low, high, n).astype(dtype) for low, high in ((5, 30), (1, 100), (0.25, 10))
        )
        call_dev, put_dev = to_device(ctx, np.zeros(n, dtype)), to_device(ctx, np.zeros(n, dtype))
        inputs = (to_device(ctx, x) for x in (stock, strike, years))
        kernel(queue, (1536,), (64,), *inputs, call_dev, put_dev, dtype(0.02), dtype(0.3), np.int32(n))
        name = np.dtype(dtype).name
        outputs[f"call_{name}"] = to_host(queue, call_dev, stock)
        outputs[f"put_{name}"] = to_host(queue, put_dev, stock)
        s, k, t = stock.astype(float), strike.astype(float), years.astype(float)
        d1 = (np.log(s / k) + (0.02 + 0.045) * t) / (0.3 * np.sqrt(t))
        d2 = d1 - 0.3 * np.sqrt(t)
        phi = np.vectorize(lambda d: 0.5 * math.erfc(-d * math.sqrt(0.5)))
        call = s * phi(d1) - k * np.exp(-0.02 * t) * phi(d2)
        tolerance = 1e-4 if dtype is np.float32 else 1e-11
        near(outputs[f"call_{name}"], call, f"calls, {name}", rtol=tolerance, atol=tolerance)
        parity = call - s + k * np.exp(-0.02 * t)
        near(outputs[f"put_{name}"], parity, f"puts, {name}", rtol=tolerance, atol=tolerance)
    return outputs
