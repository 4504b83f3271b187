"""Stores that data switch on or off, at addresses that they do not decide: the rest is what others wrote."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {
    "cd_all": "split",
    "cd_column": "split",
    "cd_until": "split",
    "cd_triangle": "split",
}

SOURCE = """
__kernel void cd_all(__global uint *data, uint k)
{
    size_t i = get_global_id(0);
    data[i] = data[i] * 69069u + k;
}

__kernel void cd_column(__global uint *data, __global const float *chosen, uint w, uint h, uint k,
                        float limit)
{
    uint x = get_global_id(0);
    for (uint y = 0; y < h; y++)
        if (chosen[y * w + x] > limit)
            data[y * w + x] = k + y;
}

__kernel void cd_until(__global uint *data, __global const float *chosen, uint w, uint h, uint k)
{
    uint x = get_global_id(0);
    for (uint y = 0; y < h; y++) {
        if (chosen[y * w + x] > 0.9f)
            break;
        data[y * w + x] = k + 3 * y;
    }
}

__kernel void cd_triangle(__global uint *data, __global const float *chosen, uint w, uint k)
{
    uint x = get_global_id(0), y = get_global_id(1);
    if (x <= y && chosen[y * w + x] < 0.4f)
        data[y * w + x] = k + 7 * x;
}
"""
WIDTH, HEIGHT = 128, 96


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Each launch finds bytes that other members have written, and leaves some of them."""
    every, column, until, triangle = kernels(ctx, SOURCE, "cd_all", "cd_column", "cd_until", "cd_triangle")
    random = np.random.default_rng(11)
    truth = random.integers(0, 1 << 32, (HEIGHT, WIDTH), dtype=np.uint32)
    chosen = random.random((HEIGHT, WIDTH), dtype=np.float32)
    data, flags = to_device(ctx, truth), to_device(ctx, chosen)
    w, h = np.uint32(WIDTH), np.uint32(HEIGHT)
    ys, xs = np.mgrid[:HEIGHT, :WIDTH].astype(np.uint32)
    before = np.logical_and.accumulate(~(chosen > np.float32(0.9)), axis=0)
    where = (chosen > np.float32(0.5), before, (xs <= ys) & (chosen < np.float32(0.4)))
    outputs: Outputs = {}
    for step in range(6):
        k = np.uint32(1000 * step)
        every(queue, (truth.size,), (64,), data, k)
        truth = truth * np.uint32(69069) + k
        if step % 3 == 0:
            column(queue, (WIDTH,), (8,), data, flags, w, h, k, np.float32(0.5))
            truth = np.where(where[0], k + ys, truth)
        elif step % 3 == 1:
            until(queue, (WIDTH,), (8,), data, flags, w, h, k)
            truth = np.where(where[1], k + np.uint32(3) * ys, truth)
        else:
            triangle(queue, (WIDTH, HEIGHT), (16, 8), data, flags, w, k)
            truth = np.where(where[2], k + np.uint32(7) * xs, truth)
        outputs[f"step {step}"] = to_host(queue, data, truth)
        same(outputs[f"step {step}"], truth, f"step {step}")
    for limit in (2.0, 0.7, -1.0):  # none of the host's bytes are overwritten, some, all
        truth = random.integers(0, 1 << 32, (HEIGHT, WIDTH), dtype=np.uint32)
        cl.enqueue_copy(queue, data, truth)
        column(queue, (WIDTH,), (8,), data, flags, w, h, np.uint32(7), np.float32(limit))
        truth = np.where(chosen > np.float32(limit), np.uint32(7) + ys, truth)
        outputs[f"above {limit}"] = to_host(queue, data, truth)
        same(outputs[f"above {limit}"], truth, f"above {limit}")
    return outputs
