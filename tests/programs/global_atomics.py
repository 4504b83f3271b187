"""Atomics on global counters whose results nobody uses, so that their order does not matter."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ga_count": "split", "ga_bits": "whole"}

SOURCE = """
__kernel void ga_count(__global const int *in, __global int *counters, __global uint *bins)
{
    int v = in[get_global_id(0)];
    atomic_inc(&counters[0]);
    atomic_add(&counters[1], v);
    atomic_sub(&counters[2], v / 2);
    atomic_min(&counters[3], v);
    atomic_max(&counters[4], v);
    atom_dec(&counters[5]);
    atomic_inc(&bins[v & 15]);
}

void mark(volatile __global uint *set, uint bit) { atomic_or(&set[bit / 32], 1u << (bit % 32)); }

__kernel void ga_bits(__global const int *in, volatile __global uint *set)
{
    uint v = in[get_global_id(0)] & 1023;
    mark(set, v);
    atomic_xor(&set[32], v);
    atomic_and(&set[33], ~(v & 0xFFu));
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Count 700 numbers, twice into the same counters."""
    count, bits = kernels(ctx, SOURCE, *KERNELS)
    data = np.random.default_rng(24).integers(-5000, 5000, 700, dtype=np.int32)
    counters, bins, marks = np.zeros(6, np.int32), np.zeros(16, np.uint32), np.zeros(34, np.uint32)
    marks[33] = 0xFFFFFFFF
    in_dev, counters_dev, bins_dev = (to_device(ctx, x) for x in (data, counters, bins))
    marks_dev = to_device(ctx, marks)
    for _ in range(2):
        count(queue, (700,), (35,), in_dev, counters_dev, bins_dev)
        bits(queue, (700,), (35,), in_dev, marks_dev)
    v = data & 1023
    half = np.trunc(data / 2).astype(np.int32)
    counters[:] = [1400, data.sum() * 2, -2 * half.sum(), min(0, data.min()), max(0, data.max()), -1400]
    np.add.at(bins, data & 15, 2)
    np.bitwise_or.at(marks, v // 32, np.uint32(1) << (v % 32).astype(np.uint32))
    marks[33] &= ~np.uint32(np.bitwise_or.reduce(v & 0xFF))
    outputs = {
        "counters": to_host(queue, counters_dev, counters),
        "bins": to_host(queue, bins_dev, bins),
        "marks": to_host(queue, marks_dev, marks),
    }
    for name, expected in (("counters", counters), ("bins", bins), ("marks", marks)):
        same(outputs[name], expected, name)
    return outputs
