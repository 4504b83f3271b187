"""Breadth-first search: many work-items write the same value to one place, and a flag is read back."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"bf_level": "split"}

SOURCE = """
__kernel void bf_level(__global const int * restrict start, __global const int * restrict edges,
                       __global const int * restrict old, __global int *level, __global uchar *changed,
                       int depth, int n)
{
    int node = get_global_id(0);
    if (node >= n || old[node] != depth)
        return;
    for (int k = start[node]; k < start[node + 1]; ++k)
        if (old[edges[k]] < 0) {
            level[edges[k]] = depth + 1;
            *changed = 1;
        }
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """A random graph of 401 nodes, one launch per level until nothing changes."""
    (search,) = kernels(ctx, SOURCE, "bf_level")
    n = 401
    rng = np.random.default_rng(46)
    counts = rng.integers(0, 4, n)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    edges = rng.integers(0, n, start[-1], dtype=np.int32)
    level = np.full(n, -1, np.int32)
    level[7] = 0
    start_dev, edges_dev, level_dev, old_dev = (to_device(ctx, x) for x in (start, edges, level, level))
    changed_dev = to_device(ctx, np.zeros(1, np.uint8))
    depth, changed = 0, np.ones(1, np.uint8)
    while changed[0]:
        cl.enqueue_fill_buffer(queue, changed_dev, np.uint8(0), 0, 1)
        sizes = np.int32(depth), np.int32(n)
        search(queue, (416,), (16,), start_dev, edges_dev, old_dev, level_dev, changed_dev, *sizes)
        cl.enqueue_copy(queue, old_dev, level_dev)
        cl.enqueue_copy(queue, changed, changed_dev)
        for node in np.flatnonzero(level == depth):
            reached = edges[start[node] : start[node + 1]]
            level[reached[level[reached] < 0]] = depth + 1
        depth += 1
    outputs = {"level": to_host(queue, level_dev, level), "depth": np.array([depth], np.int32)}
    same(outputs["level"], level, "levels")
    return outputs
