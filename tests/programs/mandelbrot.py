"""The Mandelbrot set: loops of very different lengths, two outputs of different widths."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, to_device, to_host

KERNELS: dict[str, str] = {"md_rows": "split"}

SOURCE = """
__kernel void md_rows(__global uchar4 *pixels, __global ushort *counts, float2 corner, float step,
                      int width, ushort most)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= width)
        return;
    float2 c = corner + step * (float2)(x, y), z = 0;
    ushort k = 0;
    while (k < most && dot(z, z) < 4.0f) {
        z = (float2)(z.x * z.x - z.y * z.y, 2.0f * z.x * z.y) + c;
        k++;
    }
    counts[y * width + x] = k;
    pixels[y * width + x] = k == most ? (uchar4)(0, 0, 0, 255) : (uchar4)(k * 5, 255 - k, k % 7 * 30, 255);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Draw 90 x 64 pixels."""
    (rows,) = kernels(ctx, SOURCE, "md_rows")
    width, height, most = 90, 64, 120
    pixels_dev = to_device(ctx, np.zeros((height, width, 4), np.uint8))
    counts_dev = to_device(ctx, np.zeros((height, width), np.uint16))
    corner, step = np.array([-2.0, -1.1], np.float32), np.float32(2.2 / 64)
    size = (96, height)
    rows(queue, size, (16, 4), pixels_dev, counts_dev, corner, step, np.int32(width), np.uint16(most))
    outputs = {
        "pixels": to_host(queue, pixels_dev, np.zeros((height, width, 4), np.uint8)),
        "counts": to_host(queue, counts_dev, np.zeros((height, width), np.uint16)),
    }
    y, x = np.indices((height, width))
    c = corner[0] + x * step + 1j * (corner[1] + y * step)
    z, expected = np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(most):
        inside = np.abs(z) < 2
        z = np.where(inside, z * z + c, z)
        expected += inside
    counts = outputs["counts"]
    assert (np.abs(counts.astype(int) - expected) > 1).mean() < 0.02, "too many pixels differ from the host's"
    inside_color = np.array([0, 0, 0, 255], np.uint8)
    assert (outputs["pixels"][counts == most] == inside_color).all(), "pixels inside must be black"
    return outputs
