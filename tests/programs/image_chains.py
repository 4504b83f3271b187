"""Images that kernels write and read in turns, row by row, with the host and copies in between."""

import numpy as np
import pyopencl as cl

from tests.programs._images import FLOAT, IMAGE1D, IMAGE2D, IMAGE3D, INT32, R, image, read, write
from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {
    "ih_blur": "some",
    "ih_scatter": "whole",
    "ih_slices": "some",
    "ih_border": "some",
    "ih_line": "some",
    "ih_odd": "some",
}

SOURCE = """
#ifdef cl_khr_3d_image_writes
#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable
#endif
constant sampler_t edge = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;

__kernel void ih_blur(read_only image2d_t from, write_only image2d_t to)
{
    int x = get_global_id(0), y = get_global_id(1);
    float sum = read_imagef(from, edge, (int2)(x, y)).x * 4.0f;
    sum += read_imagef(from, edge, (int2)(x - 1, y)).x + read_imagef(from, edge, (int2)(x + 1, y)).x;
    sum += read_imagef(from, edge, (int2)(x, y - 1)).x + read_imagef(from, edge, (int2)(x, y + 1)).x;
    write_imagef(to, (int2)(x, y), (float4)(sum / 8.0f, 0, 0, 1));
}
__kernel void ih_scatter(__global const int2 *places, write_only image2d_t to)
{
    int i = get_global_id(0);
    write_imagef(to, places[i], (float4)(i, 0, 0, 1));
}
__kernel void ih_slices(read_only image3d_t from, write_only image3d_t to)
{
    int x = get_global_id(0), z = get_global_id(1);
    for (int y = 0; y < get_image_height(from); y++) {
        int4 above = read_imagei(from, edge, (int4)(x, y, z + 1, 0));
        write_imagei(to, (int4)(x, y, z, 0), above + read_imagei(from, edge, (int4)(x, y, z, 0)));
    }
}
__kernel void ih_border(write_only image2d_t to, int width, int height)
{
    int x = (int)get_global_id(0) - 2, y = (int)get_global_id(1) - 3;   // more work-items than pixels
    if (x % 2 == 0 && x >= 0 && y >= 0 && x < width && y < height)
        write_imagef(to, (int2)(x, y), (float4)(x * 1000 + y, 0, 0, 1));
}
__kernel void ih_line(write_only image1d_t to, __global const int *source)
{
    int i = get_global_id(0);
    write_imagei(to, i, (int4)(source[i], 0, 0, 1));
}
__kernel void ih_odd(write_only image2d_t to, __global float *beside)
{
    int x = get_global_id(0), y = get_global_id(1) * 2 + 1;
    beside[get_global_id(1) * get_global_size(0) + x] = y;
    write_imagef(to, (int2)(x, y), (float4)(-y, 0, 0, 1));
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Chains of launches over the same images."""
    blur, scatter, slices, border, line, odd = kernels(ctx, SOURCE, *KERNELS)
    random = np.random.default_rng(12)
    outputs: Outputs = {}
    width, height = 40, 30
    start = random.random((height, width), np.float32)
    pair = [image(ctx, IMAGE2D, R, FLOAT, (width, height), host=start) for _ in range(2)]
    for step in range(6):
        blur(queue, (width, height), (8, 3), pair[step % 2], pair[1 - step % 2])
        if step == 2:
            row = random.random((1, width), np.float32)
            cl.enqueue_copy(queue, pair[1], row, origin=(0, 11, 0), region=(width, 1, 1))
        if step == 3:
            outputs["on the way"] = read(queue, pair[0], (width, height), start)
    outputs["blurred"] = read(queue, pair[0], (width, height), start)

    places = np.stack([random.permutation(width)[:24], random.permutation(height)[:24]], 1).astype(np.int32)
    scatter(queue, (24,), (4,), to_device(ctx, places), pair[0])
    blur(queue, (width, height), (8, 3), pair[0], pair[1])
    outputs["scattered"] = read(queue, pair[1], (width, height), start)
    border(queue, (width + 8, height + 6), (8, 6), pair[1], np.int32(width), np.int32(height))
    beside = to_device(ctx, np.zeros((10, width), np.float32))
    odd(queue, (width, 10), (8, 1), pair[1], beside)
    outputs["beside"] = to_host(queue, beside, np.zeros((10, width), np.float32))
    outputs["border"] = read(queue, pair[1], (width, height), start)
    expected = outputs["scattered"].copy()
    expected[:, ::2] = np.arange(0, width, 2) * 1000 + np.arange(height)[:, None]
    expected[1:21:2] = -np.arange(1, 21, 2)[:, None]
    same(outputs["border"], expected, "rows and pixels that stay unwritten")

    volume = random.integers(-1000, 1000, (9, 5, 16), np.int32)
    cubes = [image(ctx, IMAGE3D, R, INT32, (16, 5, 9), host=volume) for _ in range(2)]
    for step in range(4):
        slices(queue, (16, 9), (8, 1), cubes[step % 2], cubes[1 - step % 2])
    outputs["slices"] = read(queue, cubes[0], (16, 5, 9), volume)

    values = random.integers(0, 99, 64, np.int32)
    thread = image(ctx, IMAGE1D, R, INT32, (64,))
    write(queue, thread, (64,), np.zeros(64, np.int32))
    line(queue, (48,), (8,), thread, to_device(ctx, values))
    outputs["line"] = read(queue, thread, (64,), values)
    return outputs
