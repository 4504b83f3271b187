"""A stencil on slabs that devices have for themselves; neighbours' edges are copied between their buffers."""

from itertools import pairwise

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, same

SOURCE = """
__kernel void blur(__global const int *from, __global int *to, int width)
{
    int x = get_global_id(0), at = (get_global_id(1) + 1) * width + x;
    int left = x ? from[at - 1] : 0, right = x + 1 < width ? from[at + 1] : 0;
    to[at] = (from[at - width] + from[at + width] + left + right + 3 * from[at]) % 9973;
}
"""
WIDTH, HEIGHT, STEPS = 64, 60, 7


def run(devices: list[cl.Device]) -> Outputs:
    """Rows and two halos per device, in buffers of its own."""
    context = cl.Context(devices)
    queues = [cl.CommandQueue(context, device) for device in devices]
    grid = np.random.default_rng(3).integers(0, 9973, (HEIGHT, WIDTH), dtype=np.int32)
    padded = np.pad(grid, ((1, 1), (0, 0)))
    edges = np.linspace(0, HEIGHT, len(devices) + 1).astype(int)
    slabs = [(int(a), int(b)) for a, b in pairwise(edges)]
    program = cl.Program(context, SOURCE).build()
    row = 4 * WIDTH
    parts = []
    for queue, (first, stop) in zip(queues, slabs, strict=True):
        pair = [cl.Buffer(context, cl.mem_flags.READ_WRITE, (stop - first + 2) * row) for _ in range(2)]
        for each in pair:
            cl.enqueue_fill_buffer(queue, each, np.int32(0), 0, (stop - first + 2) * row)
        cl.enqueue_copy(queue, pair[0], padded[first : stop + 2].copy())
        parts.append((cl.Kernel(program, "blur"), pair))
    for step in range(STEPS):
        done = []
        for queue, (kernel, pair), (first, stop) in zip(queues, parts, slabs, strict=True):
            ends = pair[step % 2], pair[1 - step % 2]
            done.append(kernel(queue, (WIDTH, stop - first), None, *ends, np.int32(WIDTH)))
            queue.flush()
        copies = []
        for k in range(len(devices) - 1):
            upper, lower = parts[k][1][1 - step % 2], parts[k + 1][1][1 - step % 2]
            rows = slabs[k][1] - slabs[k][0]
            down = {"src_offset": rows * row, "dst_offset": 0, "byte_count": row}
            up = {"src_offset": row, "dst_offset": (rows + 1) * row, "byte_count": row}
            copies.append(cl.enqueue_copy(queues[k + 1], lower, upper, **down, wait_for=done))
            copies.append(cl.enqueue_copy(queues[k], upper, lower, **up, wait_for=done))
        for queue in queues:
            cl.enqueue_barrier(queue, wait_for=copies)
    found = np.empty_like(grid)
    for queue, (_, pair), (first, stop) in zip(queues, parts, slabs, strict=True):
        part = np.empty((stop - first, WIDTH), np.int32)
        cl.enqueue_copy(queue, part, pair[STEPS % 2], src_offset=row)
        found[first:stop] = part
    for _ in range(STEPS):
        wide = np.pad(grid, 1)
        around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
        grid = (around + 3 * grid) % 9973
    same(found, grid, "grid")
    return {"grid": found}
