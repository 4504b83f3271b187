"""Matrix transpose through padded ``__local`` tiles, with edges that no tile divides."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"tr_tiled": "split", "tr_naive": "split"}

SOURCE = """
#define TILE 8
__kernel void tr_tiled(__global const int *in, __global int *out, int width, int height)
{
    __local int tile[TILE][TILE + 1];
    int lx = get_local_id(0), ly = get_local_id(1);
    int x = get_group_id(0) * TILE + lx, y = get_group_id(1) * TILE + ly;
    if (x < width && y < height)
        tile[ly][lx] = in[y * width + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    x = get_group_id(1) * TILE + lx;
    y = get_group_id(0) * TILE + ly;
    if (x < height && y < width)
        out[y * height + x] = tile[lx][ly];
}

__kernel void tr_naive(__global const int *in, __global int *out, int width, int height)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x < width && y < height)
        out[x * height + y] = in[y * width + x];
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Transpose a 67 x 93 matrix there and back."""
    tiled, naive = kernels(ctx, SOURCE, "tr_tiled", "tr_naive")
    height, width = 67, 93
    matrix = np.random.default_rng(4).integers(0, 1 << 30, (height, width), dtype=np.int32)
    there = to_device(ctx, np.zeros((width, height), np.int32))
    back = to_device(ctx, np.zeros((height, width), np.int32))
    size, flipped = (96, 72), (72, 96)
    tiled(queue, size, (8, 8), to_device(ctx, matrix), there, np.int32(width), np.int32(height))
    naive(queue, flipped, (8, 8), there, back, np.int32(height), np.int32(width))
    outputs = {"there": to_host(queue, there, matrix.T), "back": to_host(queue, back, matrix)}
    same(outputs["there"], matrix.T, "transpose")
    same(outputs["back"], matrix, "transpose of the transpose")
    return outputs
