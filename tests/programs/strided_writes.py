"""Strided, column and diagonal writes, which leave everything between them untouched."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"sw_stride": "split", "sw_column": "split", "sw_diagonal": "split"}

SOURCE = """
__kernel void sw_stride(__global short *out, int stride, int first, int n)
{
    int i = get_global_id(0);
    if (i < n)
        out[first + i * stride] = i;
}

__kernel void sw_column(__global int *matrix, int width, int height, int column)
{
    int y = get_global_id(0);
    if (y < height)
        matrix[y * width + column] += 1000 + y;
}

__kernel void sw_diagonal(__global int *matrix, int width)
{
    int y = get_global_id(0);
    matrix[y * width + y] = -y;
    matrix[y * width + (width - 1 - y)] = y;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Several strides and columns over one background, then both diagonals."""
    stride, column, diagonal = kernels(ctx, SOURCE, *KERNELS)
    line = np.full(1500, -7, np.int16)
    matrix = np.arange(72 * 72, dtype=np.int32).reshape(72, 72)
    line_dev, matrix_dev = to_device(ctx, line), to_device(ctx, matrix)
    for step, first, n in ((3, 1, 333), (7, 5, 200), (11, 1400, 9)):
        stride(queue, (336,), (16,), line_dev, np.int32(step), np.int32(first), np.int32(n))
        line[first : first + n * step : step][:n] = np.arange(n)
    for c in (0, 71, 33, 34):
        column(queue, (80,), (8,), matrix_dev, np.int32(72), np.int32(72), np.int32(c))
        matrix[:, c] += 1000 + np.arange(72, dtype=np.int32)
    diagonal(queue, (72,), (8,), matrix_dev, np.int32(72))
    y = np.arange(72)
    matrix[y, y], matrix[y, 71 - y] = -y, y
    outputs = {"line": to_host(queue, line_dev, line), "matrix": to_host(queue, matrix_dev, matrix)}
    same(outputs["line"], line, "strided")
    same(outputs["matrix"], matrix, "columns and diagonals")
    return outputs
