"""A thousand work-groups, enough for images of very many members: own bytes, others' bytes, merged bytes."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"mg_own": "split", "mg_others": "split", "mg_spread": "split", "mg_count": "split"}

SOURCE = """
__kernel void mg_own(__global int *own)
{
    int i = get_global_id(0);
    own[i] = 3 * i + 1;
}

__kernel void mg_others(__global const int *own, __global int *sums)
{
    int i = get_global_id(0), n = get_global_size(0);
    sums[i] = own[(i + 1) % n] * 5 + own[n - 1 - i];
}

__kernel void mg_spread(__global const int *to, __global const int *sums, __global int *spread)
{
    int i = get_global_id(0);
    spread[to[i]] = sums[i];
}

__kernel void mg_count(__global const int *sums, __global int *counts)
{
    atomic_inc(&counts[sums[get_global_id(0)] % 61]);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """65,536 numbers, each from the one before; one part of each member's is another's in the next launch."""
    own, others, spread, count = kernels(ctx, SOURCE, *KERNELS)
    n = 1 << 16
    at = np.arange(n, dtype=np.int32)
    to = np.random.default_rng(62).permutation(n).astype(np.int32)
    old = np.full(n, -7, np.int32)
    own_dev, sums_dev, spread_dev = (to_device(ctx, old) for _ in range(3))
    counts_dev = to_device(ctx, old[:61])
    own(queue, (n,), (64,), own_dev)
    others(queue, (n,), (64,), own_dev, sums_dev)
    spread(queue, (n,), (64,), to_device(ctx, to), sums_dev, spread_dev)
    count(queue, (n,), (64,), sums_dev, counts_dev)
    expected = {"own": 3 * at + 1, "sums": (3 * ((at + 1) % n) + 1) * 5 + 3 * (n - 1 - at) + 1}
    expected["spread"] = np.empty_like(at)
    expected["spread"][to] = expected["sums"]
    expected["counts"] = (np.bincount(expected["sums"] % 61, minlength=61) - 7).astype(np.int32)
    buffers = {"own": own_dev, "sums": sums_dev, "spread": spread_dev, "counts": counts_dev}
    outputs = {name: to_host(queue, buffer, expected[name]) for name, buffer in buffers.items()}
    for name, array in outputs.items():
        same(array, expected[name], name)
    return outputs
