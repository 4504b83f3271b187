"""LU decomposition in place, with a scalar that changes at each of its 94 launches."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, near, to_device, to_host

KERNELS: dict[str, str] = {"lu_column": "split", "lu_update": "split"}

SOURCE = """
__kernel void lu_column(__global float *a, int n, int k)
{
    int y = k + 1 + get_global_id(0);
    if (y < n)
        a[y * n + k] /= a[k * n + k];
}

__kernel void lu_update(__global float *a, int n, int k)
{
    int x = k + 1 + get_global_id(0), y = k + 1 + get_global_id(1);
    if (x < n && y < n)
        a[y * n + x] -= a[y * n + k] * a[k * n + x];
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Decompose a 48 x 48 matrix with a dominant diagonal."""
    column, update = kernels(ctx, SOURCE, *KERNELS)
    n = 48
    matrix = np.random.default_rng(37).random((n, n), dtype=np.float32) + n * np.eye(n, dtype=np.float32)
    device = to_device(ctx, matrix)
    for k in range(n - 1):
        column(queue, (48,), (4,), device, np.int32(n), np.int32(k))
        update(queue, (48, 48), (8, 4), device, np.int32(n), np.int32(k))
    lu = to_host(queue, device, matrix)
    lower = np.tril(lu, -1).astype(np.float64) + np.eye(n)
    near(lower @ np.triu(lu).astype(np.float64), matrix, "L times U", rtol=1e-4, atol=1e-4)
    return {"lu": lu}
