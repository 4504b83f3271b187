"""All shortest paths: every launch reads a row and a column that it also rewrites with the same values."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"fw_via": "split"}

SOURCE = """
__kernel void fw_via(__global uint *distance, __global uchar *via, uint n, uint k)
{
    uint x = get_global_id(0), y = get_global_id(1);
    if (x >= n || y >= n)
        return;
    uint through = distance[y * n + k] + distance[k * n + x];
    if (through < distance[y * n + x]) {
        distance[y * n + x] = through;
        via[y * n + x] = k;
    }
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """A random graph of 43 nodes."""
    (step,) = kernels(ctx, SOURCE, "fw_via")
    n = 43
    rng = np.random.default_rng(38)
    distance = np.where(rng.random((n, n)) < 0.15, rng.integers(1, 100, (n, n)), 1_000_000).astype(np.uint32)
    np.fill_diagonal(distance, 0)
    via = np.full((n, n), 255, np.uint8)
    distance_dev, via_dev = to_device(ctx, distance), to_device(ctx, via)
    for k in range(n):
        step(queue, (48, 48), (16, 4), distance_dev, via_dev, np.uint32(n), np.uint32(k))
        through = distance[:, k, None] + distance[k]
        via[through < distance] = k
        distance = np.minimum(distance, through)
    outputs = {"distance": to_host(queue, distance_dev, distance), "via": to_host(queue, via_dev, via)}
    same(outputs["distance"], distance, "distances")
    same(outputs["via"], via, "intermediate nodes")
    return outputs
