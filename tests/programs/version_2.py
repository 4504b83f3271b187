"""A program that asks for OpenCL C 2.0, which drivers of 3.0 may take without listing it."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"v2_scale": "split"}

SOURCE = """
#if __OPENCL_C_VERSION__ == 200
#define PLACE get_global_linear_id()
#else
#define PLACE (get_global_id(1) * get_global_size(0) + get_global_id(0))
#endif
constant float factors[] = { 0.5f, 2.0f, 3.0f };

float4 step(float4 a) { return a + 1; }
static void add(float *sum, global const float *from) { *sum += *from; }

kernel void v2_scale(global float *out, global const float *in)
{
    float sum = 0, *at = &sum;
    size_t i = PLACE;
    for (int k = 0; k < 3; k++)
        add(at, in + 3 * i + k);
    float f = factors[get_global_id(0) % 3];
    out[i] = fma(sum, f, step(0.5f, sum)) + step((float4)(sum)).y;
    work_group_barrier(CLK_LOCAL_MEM_FENCE);
}
"""


def takes_version_2(ctx: cl.Context) -> bool:
    """Whether a build with it succeeds."""
    try:
        kernels(ctx, SOURCE, *KERNELS, options=["-cl-std=CL2.0"])
    except cl.RuntimeError:
        return False
    return True


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Rows of 24 items, by 2.0 where that is there and by 3.0 where not; the values are small halves."""
    options = ["-cl-std=CL2.0" if takes_version_2(ctx) else "-cl-std=CL3.0", "-cl-fast-relaxed-math"]
    (scale,) = kernels(ctx, SOURCE, *KERNELS, options=options)
    width, height = 24, 40
    given = np.random.default_rng(21).integers(-8, 8, (height, width, 3)).astype(np.float32) / 2
    out = np.zeros((height, width), np.float32)
    buffers = [to_device(ctx, each) for each in (out, given)]
    scale(queue, (width, height), (8, 4), *buffers)
    sums = given.sum(axis=2)
    factors = np.array([0.5, 2, 3], np.float32)[np.arange(width) % 3]
    expected = sums * factors + np.where(sums < 0.5, 0, 1) + sums + 1
    outputs = {"out": to_host(queue, buffers[0], out)}
    same(outputs["out"], expected.astype(np.float32), "out")
    return outputs
