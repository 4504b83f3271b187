"""A Fourier transform in stages of radix 4, whose values are in an array of registers in between."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, near, to_device, to_host

KERNELS: dict[str, str] = {"fr_stage": "split", "fr_scale": "split"}

SOURCE = """
float2 times(float2 a, float2 b)
{
    return (float2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

void transformed(float2 r[4])
{
    float2 a = r[0] + r[2], b = r[0] - r[2], c = r[1] + r[3], d = r[1] - r[3];
    d = (float2)(d.y, -d.x);
    r[0] = a + c;
    r[1] = b + d;
    r[2] = a - c;
    r[3] = b - d;
}

__kernel void fr_stage(__global const float2 *from, __global float2 *to, int p)
{
    int i = get_global_id(0), n = get_global_size(0), k = i & (p - 1);
    float2 r[4];
    for (int m = 0; m < 4; m++) {
        float angle = -M_PI_F * m * k / (2 * p);
        r[m] = times(from[i + m * n], (float2)(cos(angle), sin(angle)));
    }
    transformed(r);
    to += ((i - k) << 2) + k;
    for (int m = 0; m < 4; m++)
        to[m * p] = r[m];
}

__kernel void fr_scale(__global float2 *values, float by)
{
    size_t i = get_global_id(0);
    values[i] = (float2)(values[i].x, -values[i].y) * by;
}
"""
POINTS, STAGES = 4096, 6


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """There, and back by the transform of the conjugate."""
    stage, scale = kernels(ctx, SOURCE, *KERNELS)
    random = np.random.default_rng(4)
    values = (random.normal(size=POINTS) + 1j * random.normal(size=POINTS)).astype(np.complex64)
    a, b = to_device(ctx, values), to_device(ctx, np.zeros_like(values))
    found: Outputs = {}
    for name, expected, by in (("there", np.fft.fft(values), 1.0), ("back", values, 1 / POINTS)):
        for number in range(STAGES):
            stage(queue, (POINTS // 4,), (32,), a, b, np.int32(4**number))
            a, b = b, a
        scale(queue, (POINTS,), (32,), a, np.float32(by))
        found[name] = to_host(queue, a, values)
        near(found[name], expected.conj() if name == "there" else expected, name, rtol=1e-3, atol=1e-3)
    return found
