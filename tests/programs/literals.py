"""Floating-point literals without a suffix: floats before OpenCL C 1.2, unless doubles are enabled."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, build, same, to_device, to_host

KERNELS: dict[str, str] = {"li_third": "split"}

DOUBLES = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
SOURCE = """
#define TURN 3.14159265358979323846
__kernel void li_third(__global const float *x, __global float *out, __global int *sizes)
{
    size_t i = get_global_id(0);
    out[i] = TURN * x[i] + 0.1;
    sizes[i] = sizeof(TURN) + (int)i * (int)(sizeof(1.5f) + sizeof(x[i] * 2.0));
}
"""
COUNT = 60


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """The same sums in four languages."""
    outputs: Outputs = {}
    x = np.random.default_rng(29).random(COUNT, dtype=np.float32) * 1000
    item = np.arange(COUNT, dtype=np.int32)
    for name, source, standard in (
        ("1.1", SOURCE, "CL1.1"),
        ("1.1 with doubles", DOUBLES + SOURCE, "CL1.1"),
        ("1.2", SOURCE, "CL1.2"),
        ("1.2 with doubles", DOUBLES + SOURCE, "CL1.2"),
    ):
        third = cl.Kernel(build(ctx, source, [f"-cl-std={standard}", "-w"]), "li_third")
        out, sizes = to_device(ctx, np.zeros_like(x)), to_device(ctx, np.zeros_like(item))
        third(queue, (COUNT,), (6,), to_device(ctx, x), out, sizes)
        outputs[f"{name} values"] = to_host(queue, out, x)
        outputs[f"{name} sizes"] = to_host(queue, sizes, item)
        size = 4 if name == "1.1" else 8
        same(outputs[f"{name} sizes"], size + item * (4 + size), f"sizes in {name}")
    return outputs
