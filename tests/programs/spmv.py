"""Sparse matrix times vector (CSR), one row per work-item and one row per group, in a power iteration."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, near, to_device, to_host

KERNELS: dict[str, str] = {"sp_item": "split", "sp_group": "split"}

SOURCE = """
__kernel void sp_item(__global const int *start, __global const int *column, __global const float *value,
                      __global const float *x, __global float *y, int rows)
{
    int row = get_global_id(0);
    if (row < rows) {
        float sum = 0.0f;
        for (int k = start[row]; k < start[row + 1]; ++k)
            sum += value[k] * x[column[k]];
        y[row] = sum;
    }
}

__kernel void sp_group(__global const int *start, __global const int *column, __global const float *value,
                       __global const float *x, __global float *y, __local float *part)
{
    int row = get_group_id(0), lid = get_local_id(0), size = get_local_size(0);
    float sum = 0.0f;
    for (int k = start[row] + lid; k < start[row + 1]; k += size)
        sum += value[k] * x[column[k]];
    part[lid] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int s = size / 2; s > 0; s /= 2) {
        if (lid < s)
            part[lid] += part[lid + s];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lid == 0)
        y[row] = part[0];
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Multiply a 203 x 203 matrix with 0 to 30 entries a row by six successive vectors."""
    item, group = kernels(ctx, SOURCE, *KERNELS)
    n = 203
    rng = np.random.default_rng(34)
    counts = rng.integers(0, 31, n)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    column = np.concatenate([np.sort(rng.choice(n, c, replace=False)) for c in counts]).astype(np.int32)
    value = rng.random(column.size, dtype=np.float32) / 8
    dense = np.zeros((n, n))
    dense[np.repeat(np.arange(n), counts), column] = value
    x = rng.random(n, dtype=np.float32)
    matrix = [to_device(ctx, part) for part in (start, column, value)]
    x_dev, y_dev = to_device(ctx, x), to_device(ctx, np.zeros_like(x))
    expected = x.astype(np.float64)
    for _ in range(3):
        item(queue, (224,), (16,), *matrix, x_dev, y_dev, np.int32(n))
        group(queue, (n * 8,), (8,), *matrix, y_dev, x_dev, cl.LocalMemory(32))
        expected = dense @ (dense @ expected)
    outputs = {"x": to_host(queue, x_dev, x), "y": to_host(queue, y_dev, x)}
    near(outputs["x"], expected, "x", rtol=1e-4)
    return outputs
