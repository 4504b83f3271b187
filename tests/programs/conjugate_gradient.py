"""Conjugate gradients for a 2-D Poisson problem, with dot products that the host finishes in each step."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, near, to_device, to_host

KERNELS: dict[str, str] = {"cg_apply": "split", "cg_dot": "split", "cg_axpy": "split"}

SOURCE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable

__kernel void cg_apply(__global const double *p, __global double *q, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1), at = y * w + x;
    if (x >= w || y >= h)
        return;
    double v = 4.0 * p[at];
    v -= x > 0 ? p[at - 1] : 0.0;
    v -= x < w - 1 ? p[at + 1] : 0.0;
    v -= y > 0 ? p[at - w] : 0.0;
    v -= y < h - 1 ? p[at + w] : 0.0;
    q[at] = v;
}

__kernel void cg_dot(__global const double *a, __global const double *b, __global double *parts,
                     __local double *tmp, int n)
{
    int i = get_global_id(0), lid = get_local_id(0);
    tmp[lid] = i < n ? a[i] * b[i] : 0.0;
    for (int s = get_local_size(0) / 2; s > 0; s >>= 1) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < s)
            tmp[lid] += tmp[lid + s];
    }
    if (lid == 0)
        parts[get_group_id(0)] = tmp[0];
}

__kernel void cg_axpy(__global double *y, __global const double *x, double a, double b, int n)
{
    int i = get_global_id(0);
    if (i < n)
        y[i] = b * y[i] + a * x[i];
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Solve for 30 x 27 unknowns until the residual is small."""
    apply, dot, axpy = kernels(ctx, SOURCE, *KERNELS)
    w, h, local = 30, 27, 32
    n = w * h
    groups = -(-n // local)
    rhs = np.random.default_rng(47).random(n)
    parts_dev, parts = to_device(ctx, np.zeros(groups)), np.zeros(groups)
    x_dev, q_dev = to_device(ctx, np.zeros(n)), to_device(ctx, np.zeros(n))
    r_dev, p_dev = to_device(ctx, rhs), to_device(ctx, rhs)
    count = np.int32(n)

    def inner(a: cl.Buffer, b: cl.Buffer) -> float:
        dot(queue, (groups * local,), (local,), a, b, parts_dev, cl.LocalMemory(8 * local), count)
        cl.enqueue_copy(queue, parts, parts_dev)
        return float(parts.sum())

    def update(y: cl.Buffer, x: cl.Buffer, a: float, b: float) -> None:
        axpy(queue, (groups * local,), (local,), y, x, np.float64(a), np.float64(b), count)

    rr = inner(r_dev, r_dev)
    history = [rr]
    while rr > 1e-18 and len(history) < 200:
        apply(queue, (32, 28), (16, 2), p_dev, q_dev, np.int32(w), np.int32(h))
        alpha = rr / inner(p_dev, q_dev)
        update(x_dev, p_dev, alpha, 1.0)
        update(r_dev, q_dev, -alpha, 1.0)
        before, rr = rr, inner(r_dev, r_dev)
        update(p_dev, r_dev, 1.0, rr / before)
        history.append(rr)
    x = to_host(queue, x_dev, rhs).reshape(h, w)
    padded = np.pad(x, 1)
    applied = 4 * x - padded[1:-1, :-2] - padded[1:-1, 2:] - padded[:-2, 1:-1] - padded[2:, 1:-1]
    near(applied.ravel(), rhs, "A x", rtol=1e-7)
    return {"x": x, "history": np.array(history)}
