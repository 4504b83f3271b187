"""Sobel edges of an image with clamped borders, through a ``__local`` tile and a halo."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"so_edges": "split"}

SOURCE = """
#define T 8
__kernel void so_edges(__global const uchar *in, __global uchar *out, __global short2 *slope, int w, int h)
{
    __local short tile[T + 2][T + 2];
    int x0 = get_group_id(0) * T - 1, y0 = get_group_id(1) * T - 1;
    for (int k = get_local_id(1) * T + get_local_id(0); k < (T + 2) * (T + 2); k += T * T) {
        int tx = k % (T + 2), ty = k / (T + 2);
        tile[ty][tx] = in[clamp(y0 + ty, 0, h - 1) * w + clamp(x0 + tx, 0, w - 1)];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int x = get_global_id(0), y = get_global_id(1), lx = get_local_id(0), ly = get_local_id(1);
    if (x >= w || y >= h)
        return;
    short gx = tile[ly][lx + 2] + 2 * tile[ly + 1][lx + 2] + tile[ly + 2][lx + 2]
             - tile[ly][lx] - 2 * tile[ly + 1][lx] - tile[ly + 2][lx];
    short gy = tile[ly + 2][lx] + 2 * tile[ly + 2][lx + 1] + tile[ly + 2][lx + 2]
             - tile[ly][lx] - 2 * tile[ly][lx + 1] - tile[ly][lx + 2];
    slope[y * w + x] = (short2)(gx, gy);
    out[y * w + x] = convert_uchar_sat(abs(gx) + abs(gy));
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """An image of 91 x 70 pixels."""
    (edges,) = kernels(ctx, SOURCE, "so_edges")
    h, w = 70, 91
    y, x = np.indices((h, w))
    image = ((x * y) % 251 + 40 * np.sin(x / 9) * np.cos(y / 7)).clip(0, 255).astype(np.uint8)
    out_dev, slope_dev = to_device(ctx, np.zeros_like(image)), to_device(ctx, np.zeros((h, w, 2), np.int16))
    edges(queue, (96, 72), (8, 8), to_device(ctx, image), out_dev, slope_dev, np.int32(w), np.int32(h))
    outputs = {
        "edges": to_host(queue, out_dev, image),
        "slope": to_host(queue, slope_dev, np.zeros((h, w, 2), np.int16)),
    }
    p = np.pad(image, 1, mode="edge").astype(int)
    gx = p[:-2, 2:] + 2 * p[1:-1, 2:] + p[2:, 2:] - p[:-2, :-2] - 2 * p[1:-1, :-2] - p[2:, :-2]
    gy = p[2:, :-2] + 2 * p[2:, 1:-1] + p[2:, 2:] - p[:-2, :-2] - 2 * p[:-2, 1:-1] - p[:-2, 2:]
    same(outputs["slope"], np.stack([gx, gy], axis=2).astype(np.int16), "slopes")
    same(outputs["edges"], np.minimum(np.abs(gx) + np.abs(gy), 255).astype(np.uint8), "edges")
    return outputs
