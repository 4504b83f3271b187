"""A matrix product whose rows are dealt out to all devices by hand: a queue and a part of the result each."""

from itertools import pairwise

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, same

SOURCE = """
__kernel void rows(__global const int *a, __global const int *b, __global int *c, int width, int first)
{
    int x = get_global_id(0), y = get_global_id(1) + first, sum = 0;
    for (int k = 0; k < width; k++)
        sum += a[y * width + k] * b[k * width + x];
    c[y * width + x] = sum;
}
"""
WIDTH = 96


def run(devices: list[cl.Device]) -> Outputs:
    """Each device has its rows of a buffer that all share."""
    context = cl.Context(devices)
    queues = [cl.CommandQueue(context, device) for device in devices]
    random = np.random.default_rng(7)
    a, b = (random.integers(-50, 50, (WIDTH, WIDTH), dtype=np.int32) for _ in range(2))
    flags = cl.mem_flags
    on = [cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=each) for each in (a, b)]
    result = cl.Buffer(context, flags.WRITE_ONLY, a.nbytes)
    program = cl.Program(context, SOURCE).build()
    edges = np.linspace(0, WIDTH, len(devices) + 1).astype(int)
    done = []
    for queue, (first, stop) in zip(queues, pairwise(edges), strict=True):
        rows = cl.Kernel(program, "rows")
        size = (WIDTH, int(stop - first))
        done.append(rows(queue, size, None, *on, result, np.int32(WIDTH), np.int32(first)))
        queue.flush()
    c = np.empty_like(a)
    cl.enqueue_copy(queues[0], c, result, wait_for=done)
    same(c, a @ b, "product")
    return {"c": c}
