"""Tiled matrix multiplication with the tile size given by ``-D``."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, near, to_device, to_host

KERNELS: dict[str, str] = {"mm_tiled": "split"}

SOURCE = """
__kernel void mm_tiled(__global const float *a, __global const float *b, __global float *c,
                       int m, int n, int k)
{
    __local float at[TILE][TILE], bt[TILE][TILE];
    int lx = get_local_id(0), ly = get_local_id(1), x = get_global_id(0), y = get_global_id(1);
    float sum = 0.0f;
    for (int t = 0; t < k; t += TILE) {
        at[ly][lx] = y < m && t + lx < k ? a[y * k + t + lx] : 0.0f;
        bt[ly][lx] = x < n && t + ly < k ? b[(t + ly) * n + x] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < TILE; ++i)
            sum += at[ly][i] * bt[i][lx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (x < n && y < m)
        c[y * n + x] = sum;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Multiply 70 x 45 by 45 x 83."""
    (matmul,) = kernels(ctx, SOURCE, "mm_tiled", options=["-DTILE=8"])
    m, n, k = 70, 83, 45
    rng = np.random.default_rng(5)
    a, b = rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)
    c_dev = to_device(ctx, np.zeros((m, n), np.float32))
    sizes = np.int32(m), np.int32(n), np.int32(k)
    matmul(queue, (88, 72), (8, 8), to_device(ctx, a), to_device(ctx, b), c_dev, *sizes)
    c = to_host(queue, c_dev, np.zeros((m, n), np.float32))
    near(c, a.astype(np.float64) @ b, "product", rtol=1e-4)
    return {"c": c}
