"""Jacobi iteration on a 2-D grid with a fixed rim, ping-pong between two buffers."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, near, to_device, to_host

KERNELS: dict[str, str] = {"ja_sweep": "split"}

SOURCE = """
__kernel void ja_sweep(__global const float *old, __global float *fresh, __global const float *rhs,
                       int nx, int ny)
{
    int x = get_global_id(0) + 1, y = get_global_id(1) + 1;
    if (x < nx - 1 && y < ny - 1) {
        int at = y * nx + x;
        fresh[at] = 0.25f * (old[at - 1] + old[at + 1] + old[at - nx] + old[at + nx] - rhs[at]);
    }
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Forty sweeps over 61 x 75 points."""
    (sweep,) = kernels(ctx, SOURCE, "ja_sweep")
    ny, nx = 75, 61
    rng = np.random.default_rng(30)
    grid, rhs = rng.random((2, ny, nx), dtype=np.float32)
    old, fresh, rhs_dev = to_device(ctx, grid), to_device(ctx, grid), to_device(ctx, rhs)
    expected = grid.astype(np.float64)
    for _ in range(40):
        sweep(queue, (64, 80), (16, 8), old, fresh, rhs_dev, np.int32(nx), np.int32(ny))
        old, fresh = fresh, old
        around = expected[1:-1, :-2] + expected[1:-1, 2:] + expected[:-2, 1:-1] + expected[2:, 1:-1]
        expected[1:-1, 1:-1] = 0.25 * (around - rhs[1:-1, 1:-1])
    outputs = {"grid": to_host(queue, old, grid), "previous": to_host(queue, fresh, grid)}
    near(outputs["grid"], expected, "grid", rtol=1e-4, atol=1e-5)
    return outputs
