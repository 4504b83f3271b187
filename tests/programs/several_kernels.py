"""One program with many kernels, made all at once and by name, and asked about themselves."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, build, same, to_device, to_host

KERNELS: dict[str, str] = {"sk_init": "split", "sk_add": "split", "sk_square": "split"}

SOURCE = """
int twice(int v);
__kernel void sk_init(__global int *data) { data[get_global_id(0)] = get_global_id(0); }
__kernel void sk_add(__global int *data, int a, short b, char c)
{
    data[get_global_id(0)] += twice(a) + b + c;
}
__kernel void sk_unused(__global const float *in, __global float *out, __local float *tmp) { out[0] = in[0]; }
int twice(int v) { return v * 2; }
__kernel void sk_square(__global int *data) { data[get_global_id(0)] *= data[get_global_id(0)]; }
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Alternate two kernel objects of the same name with different arguments."""
    program = build(ctx, SOURCE)
    made = {kernel.function_name: kernel for kernel in program.all_kernels()}
    arguments = {name: kernel.num_args for name, kernel in made.items()}
    assert arguments == {"sk_init": 1, "sk_add": 4, "sk_unused": 3, "sk_square": 1}, arguments
    assert sorted(program.kernel_names.split(";")) == sorted(made)
    n = 80
    device = to_device(ctx, np.full(n, -1, np.int32))
    again = cl.Kernel(program, "sk_add")
    again.set_args(device, np.int32(1), np.int16(-20), np.int8(-3))
    made["sk_add"].set_args(device, np.int32(4), np.int16(300), np.int8(100))
    made["sk_init"](queue, (n,), (8,), device)
    cl.enqueue_nd_range_kernel(queue, made["sk_add"], (n,), (8,))
    cl.enqueue_nd_range_kernel(queue, again, (n,), (8,))
    made["sk_square"](queue, (n,), (8,), device)
    cl.enqueue_nd_range_kernel(queue, again, (n,), (8,))
    expected = (np.arange(n, dtype=np.int32) + 408 - 21) ** 2 - 21
    out = to_host(queue, device, expected)
    same(out, expected, "out")
    return {"out": out}
