"""Sizes and strides that are made of floating-point scalars: launches that differ in such a scalar alone."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {
    "fs_fraction": "split",
    "fs_stride": "split",
    "fs_blocks": "split",
    "fs_leave": "split",
}

SOURCE = """
__kernel void fs_fraction(__global int *a, int n, float part, int value)
{
    int i = get_global_id(0), count = (int)(n * part);
    if (i < count)
        a[i] += value;
}

__kernel void fs_stride(__global int *a, float step, int value)
{
    int i = get_global_id(0), stride = (int)floor(step);
    a[i * stride] += value;
}

__kernel void fs_blocks(__global int *a, int n, float width, int value)
{
    int i = get_global_id(0), blocks = (int)ceil((float)n / width);
    for (int k = 0; k < blocks; k++)
        if (i * blocks + k < n)
            a[i * blocks + k] += value;
}

__kernel void fs_leave(__global int *a, int n, float width, int value)
{
    int i = get_global_id(0), each = (int)(width + 0.5f);
    for (int k = 0; k < each; k++) {
        if (i * each + k >= n)
            return;
        a[i * each + k] += value;
    }
}
"""
N, LOCAL = 256, 8


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Add to parts of an array again and again, with other floats and, now and then, the same ones."""
    fraction, stride, blocks, leave = kernels(ctx, SOURCE, *KERNELS)
    expected: Array = np.zeros(4 * N, np.int32)
    device = to_device(ctx, expected)
    for number in range(48):
        part = np.float32((number * 5 % 17) / 16)
        fraction(queue, (N,), (LOCAL,), device, np.int32(N), part, np.int32(number))
        expected[: int(N * part)] += number

        step = np.float32(1 + number % 5 * 0.75)
        stride(queue, (N,), (LOCAL,), device, step, np.int32(number))
        expected[np.arange(N) * int(step)] += number

        width = np.float32((N, 100, N / 4, N / 2.5)[number % 4])  # some divide evenly, some don't
        each = int(np.ceil(np.float32(N) / width))
        blocks(queue, (N,), (LOCAL,), device, np.int32(N), width, np.int32(number))
        expected[:N] += number * (np.arange(N) < N * each)

        width = np.float32((1.0, 2.25, 3.75)[number % 3])
        size = N + number % 7 * 31
        leave(queue, (N,), (LOCAL,), device, np.int32(size), width, np.int32(number))
        expected[: min(size, N * int(width + 0.5))] += number
    outputs = {"a": to_host(queue, device, expected)}
    same(outputs["a"], expected, "sums")
    return outputs
