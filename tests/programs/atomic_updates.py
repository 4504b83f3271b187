"""Atomic updates that members make on copies of their own: histograms, extremes, bits; some they may not."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {
    "au_direct": "split",
    "au_groups": "split",
    "au_extremes": "split",
    "au_wide": "split",
    "au_apart": "split",
    "au_offset": "split",
    "au_mixed": "whole",
    "au_kinds": "whole",
    "au_aliases": "whole",
}

SOURCE = """
#define BINS 64
__kernel void au_direct(__global const uchar *in, __global uint *bins)
{
    atomic_inc(&bins[in[get_global_id(0)]]);
}

__kernel void au_groups(__global const uchar *in, volatile __global uint *bins)
{
    __local uint own[BINS];
    for (uint b = get_local_id(0); b < BINS; b += get_local_size(0))
        own[b] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_inc(&own[in[get_global_id(0)] % BINS]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint b = get_local_id(0); b < BINS; b += get_local_size(0))
        if (own[b])
            atomic_add(&bins[b], own[b]);
}

__kernel void au_extremes(__global const int *in, __global int *low, __global int *high,
                          __global uint *ulow, __global uint *uhigh)
{
    int v = in[get_global_id(0)];
    atomic_min(low, v);
    atomic_max(high, v);
    atomic_min(ulow, (uint)v);
    atomic_max(uhigh, (uint)v);
}

#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
__kernel void au_wide(__global const long *in, volatile __global long *sums, volatile __global long *low,
                      volatile __global ulong *high, volatile __global ulong *bits)
{
    long v = in[get_global_id(0)];
    atom_add(&sums[v & 3], v);
    atom_sub(&sums[4 + (v & 3)], v * 3);
    atom_min(&low[v & 7], v);
    atom_max(&high[v & 7], (ulong)v);
    atom_xor(&bits[0], (ulong)v);
    atom_or(&bits[1], 1UL << (v & 63));
    atom_and(&bits[2], ~(1UL << (v & 15)));
}

/* One buffer: the work-items' results, and behind them a counter. */
__kernel void au_apart(__global const int *in, __global int *out, int n)
{
    int i = get_global_id(0);
    out[i] = in[i] * 2;
    if (in[i] > 0)
        atomic_inc(&out[n + 1]);
    atomic_sub(&out[n + 3], in[i]);
}

/* Each work-group has two counters, the second of which it shares with the next one. */
__kernel void au_offset(__global const int *in, __global int *counts)
{
    atomic_add(&counts[get_group_id(0)], in[get_global_id(0)]);
    atomic_add(&counts[get_group_id(0) + 1], 1);
}

__kernel void au_mixed(__global const uchar *in, __global uint *bins, __global uint *out)
{
    if (bins[BINS] == 0)
        atomic_inc(&bins[(uint)(float)(in[get_global_id(0)] % BINS)]);
    out[get_global_id(0)] = in[get_global_id(0)];
}

__kernel void au_kinds(__global const int *in, __global int *slots)
{
    int v = in[get_global_id(0)], k = (int)(float)((v >> 1) & 7);
    if (v & 1)
        atomic_add(&slots[k], v);
    else
        atomic_or(&slots[8 + k], v);
}

__kernel void au_aliases(__global const int *in, __global int *sums, __global int *most)
{
    int v = in[get_global_id(0)], k = (int)(float)(v & 3);
    atomic_add(&sums[k], v);
    atomic_max(&most[4 + k], v);
}
"""
ITEMS, LOCAL = 960, 32


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Every kernel twice, so that the second launch starts from what the first left."""
    names = list(KERNELS)
    made = dict(zip(names, kernels(ctx, SOURCE, *names), strict=True))
    rng = np.random.default_rng(91)
    small = rng.binomial(255, 0.3, ITEMS).astype(np.uint8)
    ints = rng.integers(-(1 << 31), 1 << 31, ITEMS, dtype=np.int32)
    longs = rng.integers(-(1 << 63), (1 << 63) - 1, ITEMS, dtype=np.int64)
    outputs: Outputs = {}

    def twice(name: str, source: Array, *arrays: Array, scalars: tuple[np.int32, ...] = ()) -> list[Array]:
        buffers = [to_device(ctx, array) for array in arrays]
        source_dev = to_device(ctx, source)
        for _ in range(2):
            made[name](queue, (ITEMS,), (LOCAL,), source_dev, *buffers, *scalars)
        found = [to_host(queue, b, a) for b, a in zip(buffers, arrays, strict=True)]
        for number, array in enumerate(found):
            outputs[f"{name} {number}"] = array
        return found

    (bins,) = twice("au_direct", small, np.arange(256, dtype=np.uint32))
    same(
        bins,
        np.arange(256, dtype=np.uint32) + 2 * np.bincount(small, minlength=256).astype(np.uint32),
        "bins",
    )

    start = np.full(64, 0xFFFFFFF0, np.uint32)
    (bins,) = twice("au_groups", small, start)
    same(bins, start + 2 * np.bincount(small % 64, minlength=64).astype(np.uint32), "bins of groups")

    ends = np.array([7], np.int32)
    low, high, ulow, uhigh = twice(
        "au_extremes", ints, ends, ends, ends.view(np.uint32), ends.view(np.uint32)
    )
    unsigned = ints.view(np.uint32)
    for found, expected in ((low, ints.min()), (high, ints.max()), (ulow, 7), (uhigh, unsigned.max())):
        assert found[0] == expected, f"{found[0]} instead of {expected}"

    sums, lows, highs = np.zeros(8, np.int64), np.full(8, 5, np.int64), np.full(8, 5, np.uint64)
    bits = np.array([0, 0, 0xFFFF_FFFF_FFFF_FFFF], np.uint64)
    found_sums, found_lows, found_highs, found_bits = twice("au_wide", longs, sums, lows, highs, bits)
    np.add.at(sums, longs & 3, longs * 2)
    np.add.at(sums, 4 + (longs & 3), longs * -6)
    np.minimum.at(lows, longs & 7, longs)
    np.maximum.at(highs, longs & 7, longs.view(np.uint64))
    bits[1] = np.bitwise_or.reduce(np.uint64(1) << (longs & 63).astype(np.uint64))
    bits[2] &= ~np.bitwise_or.reduce(np.uint64(1) << (longs & 15).astype(np.uint64))
    for found, expected in ((found_sums, sums), (found_lows, lows), (found_highs, highs), (found_bits, bits)):
        same(found, expected, "64-bit updates")

    (apart,) = twice("au_apart", ints, np.arange(ITEMS + 5, dtype=np.int32), scalars=(np.int32(ITEMS),))
    expected = np.arange(ITEMS + 5, dtype=np.int32)
    expected[:ITEMS] = ints * 2
    expected[ITEMS + 1] += 2 * np.count_nonzero(ints > 0)
    expected[ITEMS + 3] -= ints.sum(dtype=np.int32) * np.int32(2)
    same(apart, expected, "results and counters in one buffer")

    groups = ITEMS // LOCAL
    (counts,) = twice("au_offset", ints, np.zeros(groups + 1, np.int32))
    expected = np.zeros(groups + 1, np.int32)
    expected[:-1] += ints.reshape(groups, LOCAL).sum(axis=1, dtype=np.int32) * np.int32(2)
    expected[1:] += 2 * LOCAL
    same(counts, expected, "counters of neighbours")

    bins, copied = twice("au_mixed", small, np.zeros(65, np.uint32), np.zeros(ITEMS, np.uint32))
    expected = np.append(2 * np.bincount(small % 64, minlength=64), 0).astype(np.uint32)
    same(bins, expected, "bins that are read too")
    same(copied, small.astype(np.uint32), "copy")

    (slots,) = twice("au_kinds", ints >> 20, np.zeros(16, np.int32))
    v, expected = ints >> 20, np.zeros(16, np.int32)
    odd = v[v % 2 != 0]
    np.add.at(expected, (odd >> 1) & 7, odd * 2)
    even = v[v % 2 == 0]
    np.bitwise_or.at(expected, 8 + ((even >> 1) & 7), even)
    same(slots, expected, "two kinds of updates")

    shared = to_device(ctx, np.zeros(8, np.int32))
    source_dev = to_device(ctx, ints >> 16)
    made["au_aliases"](queue, (ITEMS,), (LOCAL,), source_dev, shared, shared)
    v, expected = ints >> 16, np.zeros(8, np.int32)
    np.add.at(expected, v & 3, v)
    np.maximum.at(expected, 4 + (v & 3), v)
    outputs["au_aliases 0"] = to_host(queue, shared, expected)
    same(outputs["au_aliases 0"], expected, "one buffer for two arguments")
    return outputs
