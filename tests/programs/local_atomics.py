"""Atomics on ``__local`` counters, whose totals each group writes to a place of its own."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"lo_groups": "split"}

SOURCE = """
void note(volatile __local int *slot, int v) { atomic_max(slot, v); }

__kernel void lo_groups(__global const int *in, __global int *out, __local int *kept)
{
    __local int count, highest, used;
    int lid = get_local_id(0);
    if (lid == 0) {
        count = 0;
        highest = INT_MIN;
        used = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    int v = in[get_global_id(0)];
    note(&highest, v);
    if (v & 1) {
        atomic_add(&count, v);
        kept[atomic_inc(&used)] = v;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0) {
        int mixed = 0;
        for (int k = 0; k < used; ++k)
            mixed ^= kept[k];
        __global int *mine = out + get_group_id(0) * 4;
        mine[0] = count;
        mine[1] = highest;
        mine[2] = used;
        mine[3] = mixed;
    }
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Seventeen groups of 40."""
    (groups,) = kernels(ctx, SOURCE, "lo_groups")
    data = np.random.default_rng(27).integers(-10_000, 10_000, (17, 40), dtype=np.int32)
    out_dev = to_device(ctx, np.zeros((17, 4), np.int32))
    groups(queue, (680,), (40,), to_device(ctx, data), out_dev, cl.LocalMemory(160))
    odd = np.where(data & 1, data, 0)
    columns = odd.sum(axis=1), data.max(axis=1), (data & 1).sum(axis=1), np.bitwise_xor.reduce(odd, axis=1)
    expected = np.stack(columns, axis=1).astype(np.int32)
    out = to_host(queue, out_dev, expected)
    same(out, expected, "per group")
    return {"out": out}
