"""A solver of small blocks along lines, whose kernels see buffers through pointers to arrays."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ap_set": "split", "ap_rhs": "split", "ap_solve": "split", "ap_add": "split"}

SOURCE = """
#define JMAX 10
#define IMAX (4 * 3)
typedef uint Cell[5];

__kernel void ap_set(__global uint *g_u, int depth)
{
    int i = get_global_id(0), j = get_global_id(1), k = get_global_id(2);
    if (k >= depth)
        return;
    __global uint (*u)[JMAX + 1][IMAX + 1][5] = (__global uint (*)[JMAX + 1][IMAX + 1][5])g_u;
    for (int m = 0; m < 5; m++)
        u[k][j][i][m] = i + 100 * j + 10000 * k + 1000000 * m;
}

__kernel void ap_rhs(__global const uint *g_u, __global uint *g_rhs, int depth)
{
    __global const uint (*u)[JMAX + 1][IMAX + 1][5];
    __global Cell (*rhs)[JMAX + 1][IMAX + 1];
    int i = get_global_id(0) + 1, j = get_global_id(1) + 1, k = get_global_id(2) + 1;
    if (k > depth - 2 || j > JMAX - 1 || i > IMAX - 1)
        return;
    u = (__global const uint (*)[JMAX + 1][IMAX + 1][5])g_u;
    rhs = (__global Cell (*)[JMAX + 1][IMAX + 1])g_rhs;
    for (int m = 0; m < 5; m++)
        rhs[k][j][i][m] = u[k - 1][j][i][m] + 3 * u[k + 1][j][i][m]
                        + 5 * u[k][j - 1][i][m] + 7 * u[k][j + 1][i][m];
}

void times(__global uint *to, uint (*block)[2], uint by)
{
    for (int m = 0; m < 2; m++)
        to[m] = block[m][0] * by + block[m][1];
}

__kernel void ap_solve(__global uint *g_rhs, int depth)
{
    int j = get_global_id(0) + 1, k = get_global_id(1) + 1;
    if (k > depth - 2 || j > JMAX - 1)
        return;
    __global uint (*rhs)[JMAX + 1][IMAX + 1][5] = (__global uint (*)[JMAX + 1][IMAX + 1][5])g_rhs;
    uint block[2][2];
    for (int i = 2; i < IMAX; i++) {
        for (int m = 0; m < 2; m++)
            for (int n = 0; n < 2; n++)
                block[m][n] = rhs[k][j][i - 1][m] * 3 + n;
        times(rhs[k][j][i], block, 69069u + i);
    }
    for (int i = IMAX - 2; i > 0; i--)
        rhs[k][j][i][4] += rhs[k][j][i + 1][4];
}

__kernel void ap_add(__global uint *g_u, __global const uint *g_rhs, int depth)
{
    int i = get_global_id(0) + 1, j = get_global_id(1) + 1, k = get_global_id(2) + 1;
    if (k > depth - 2 || j > JMAX - 1 || i > IMAX - 1)
        return;
    __global uint (*u)[JMAX + 1][IMAX + 1][5] = (__global uint (*)[JMAX + 1][IMAX + 1][5])g_u;
    __global const uint (*rhs)[JMAX + 1][IMAX + 1][5] = (__global const uint (*)[JMAX + 1][IMAX + 1][5])g_rhs;
    for (int m = 0; m < 5; m++)
        u[k][j][i][m] += rhs[k][j][i][m];
}
"""
DEPTH, HIGH, WIDE = 17, 11, 13
STEPS = 3


def expected() -> tuple[np.ndarray, np.ndarray]:
    """The same by numpy: u and rhs."""
    k, j, i, m = np.ogrid[:DEPTH, :HIGH, :WIDE, :5]
    u = (i + 100 * j + 10000 * k + 1000000 * m).astype(np.uint32)
    rhs = np.zeros_like(u)
    inner = (slice(1, -1), slice(1, -1), slice(1, -1))
    for _ in range(STEPS):
        rhs[inner] = (
            u[:-2, 1:-1, 1:-1] + 3 * u[2:, 1:-1, 1:-1] + 5 * u[1:-1, :-2, 1:-1] + 7 * u[1:-1, 2:, 1:-1]
        )
        for x in range(2, WIDE - 1):
            block = rhs[1:-1, 1:-1, x - 1, :2] * np.uint32(3)
            rhs[1:-1, 1:-1, x, :2] = block * np.uint32(69069 + x) + (block + np.uint32(1))
        for x in range(WIDE - 3, 0, -1):
            rhs[1:-1, 1:-1, x, 4] += rhs[1:-1, 1:-1, x + 1, 4]
        u[inner] += rhs[inner]
    return u, rhs


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Some steps of it; planes of cells cross between members, and nothing is written by two."""
    set_, rhs_of, solve, add = kernels(ctx, SOURCE, "ap_set", "ap_rhs", "ap_solve", "ap_add")
    cells = np.zeros(DEPTH * HIGH * WIDE * 5, np.uint32)
    u, rhs = to_device(ctx, cells), to_device(ctx, cells)
    set_(queue, (WIDE, HIGH, DEPTH + 3), (WIDE, 1, 4), u, np.int32(DEPTH))
    for _ in range(STEPS):
        rhs_of(queue, (12, 10, 16), (4, 2, 4), u, rhs, np.int32(DEPTH))
        solve(queue, (10, 16), (5, 2), rhs, np.int32(DEPTH))
        add(queue, (12, 10, 16), (4, 5, 1), u, rhs, np.int32(DEPTH))
    found = {"u": to_host(queue, u, cells), "rhs": to_host(queue, rhs, cells)}
    for name, truth in zip(("u", "rhs"), expected(), strict=True):
        same(found[name], truth.ravel(), name)
    return found
