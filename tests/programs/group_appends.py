"""One addition for each work-group says where all of it store: compared as sets, as the order is open."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {
    "ga_compact": "split",
    "ga_limited": "split",
    "ga_parted": "split",
    "ga_runs": "split",
    "ga_gather": "split",
    "ga_loop": "split",
    "ga_pairs": "split",
    "ga_plane": "split",
    "ga_rows": "whole",
    "ga_sum": "split",
}

SOURCE = """
__kernel void ga_compact(__global const int *in, __global int *out, volatile __global int *size)
{
    __local int count, base;
    int lid = get_local_id(0), v = in[get_global_id(0)];
    if (lid == 0)
        count = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    int slot;
    if (v % 3 == 0)
        slot = atomic_inc(&count);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0)
        base = atomic_add(size, count);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (v % 3 == 0)
        out[base + slot] = v;
}

__kernel void ga_limited(__global const int *in, __global int *out, volatile __global uint *size, uint limit,
                         __local uint *place)
{
    int v = in[get_global_id(0)], slot = -1;
    if (get_local_id(0) == 0)
        place[0] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (v % 3 == 0)
        slot = atomic_inc(place);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0)
        place[0] = atomic_add(size, place[0]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (slot >= 0 && place[0] + slot < limit)
        out[place[0] + slot] = v;
}

__kernel void ga_parted(__global const int *in, __global int *odd, __global float2 *even,
                        volatile __global uint *sizes)
{
    __local uint counts[2], bases[2];
    uint lid = get_local_id(0);
    int i = get_global_id(0), v = in[i];
    if (lid == 0) {
        counts[0] = 0;
        counts[1] = 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint slot;
    if (v & 1)
        slot = atomic_inc(&counts[0]);
    else
        slot = atomic_inc(&counts[1]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0) {
        bases[0] = atomic_add(&sizes[1], counts[0]);
        bases[1] = atomic_add(&sizes[3], counts[1]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (v & 1)
        odd[bases[0] + slot] = v;
    else
        even[bases[1] + slot] = (float2)(i, v);
}

__kernel void ga_runs(__global const uint *in, __global uint *out, volatile __global uint *size)
{
    __local uint count, base;
    uint v = in[get_global_id(0)], k = v % 5u;
    if (get_local_id(0) == 0)
        count = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint slot = atomic_add(&count, k);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == get_local_size(0) - 1 && count > 0)
        base = atomic_add(size, 2 * count);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < k; i++) {
        uint at = base + 2 * (slot + i);
        out[at] = v;
        out[at + 1] = i;
    }
}

__kernel void ga_gather(__global const int *in, __global int *out, volatile __global uint *size, uint limit)
{
    __local int kept[128];
    __local uint count, base;
    uint lid = get_local_id(0);
    int v = in[get_global_id(0)];
    if (lid == 0)
        count = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 3; k++)
        if ((v >> k) % 3 == 0)
            kept[atomic_inc(&count)] = v * 4 + k;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0)
        base = atomic_add(size, count);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = lid; i < count; i += get_local_size(0))
        if (base + i < limit)
            out[base + i] = kept[i];
}

__kernel void ga_loop(__global const int *in, __global int *out, volatile __global uint *size, int n)
{
    __local uint count, base;
    uint lid = get_local_id(0);
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) {
        if (lid == 0)
            count = 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        int v = in[i], keep = v % 3 == 0;
        uint slot = atomic_add(&count, keep);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid == 0)
            base = atomic_add(size, count);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (!keep)
            continue;
        uint at = base + slot;
        out[at] = v;
    }
}

typedef struct { int one, other; float distance; } pair;

__kernel void ga_pairs(__global const float *x, __global pair *pairs, volatile __global uint *size,
                       float near, int n)
{
    __local pair found[512];
    __local uint count, base;
    uint lid = get_local_id(0);
    int i = get_global_id(0);
    if (lid == 0)
        count = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = i + 1; j < n; j++) {
        float d = fabs(x[i] - x[j]);
        if (d > near)
            continue;
        uint slot = atomic_inc(&count);
        found[slot].one = i;
        found[slot].other = j;
        found[slot].distance = d;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0)
        base = atomic_add(size, count);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = lid; k < count; k += get_local_size(0))
        pairs[base + k] = found[k];
}

__kernel void ga_plane(__global const int *in, __global int2 *out, volatile __global uint *size)
{
    __local uint count, base;
    int x = get_global_id(0), y = get_global_id(1), v = in[y * get_global_size(0) + x];
    uint lid = get_local_id(1) * get_local_size(0) + get_local_id(0);
    if (lid == 0)
        count = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint slot;
    if (v % 3 == 0)
        slot = atomic_inc(&count);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0 && get_local_id(1) == 0)
        base = atomic_add(size, count);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (v % 3 == 0) {
        out[base + slot].x = x;
        out[base + slot].y = y;
    }
}

// In a plane several work-items of a group add.
__kernel void ga_rows(__global const int *in, __global int *out, volatile __global uint *size)
{
    __local uint count, base;
    uint lid = get_local_id(0);
    int v = in[get_global_id(1) * get_global_size(0) + get_global_id(0)];
    if (lid == 0)
        count = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint slot;
    if (v % 3 == 0)
        slot = atomic_inc(&count);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0)
        base = atomic_add(size, count);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (v % 3 == 0)
        out[base + slot] = v;
}

// What a group counts is a sum that it has made by steps.
__kernel void ga_sum(__global const int *in, __global int *out, volatile __global uint *size)
{
    __local uint sums[64];
    __local int kept[64];
    __local uint base;
    uint lid = get_local_id(0);
    int v = in[get_global_id(0)];
    uint keep = v % 3 == 0;
    sums[lid] = keep;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint step = 1; step < get_local_size(0); step *= 2) {
        uint more = lid >= step ? sums[lid - step] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        sums[lid] += more;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (keep)
        kept[sums[lid] - 1] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid == 0)
        base = atomic_add(size, sums[31]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = lid; i < sums[31]; i += get_local_size(0))
        out[base + i] = kept[i];
}
"""

GROUPS, LOCAL = 20, 32
N = GROUPS * LOCAL


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Compaction, partition, runs and pairs, again and again."""
    compact, limited, parted, runs, gather, loop, pairs, plane, rows, sums = kernels(ctx, SOURCE, *KERNELS)
    rng = np.random.default_rng(29)
    data = rng.integers(0, 100_000, N, dtype=np.int32)
    in_dev = to_device(ctx, data)
    chosen = np.sort(data[data % 3 == 0])
    outputs: Outputs = {}

    def counter(count: int = 1) -> cl.Buffer:
        return to_device(ctx, np.zeros(count, np.int32))

    out_dev, size_dev = counter(4 * N), counter()
    for number in range(4):  # behind each other, and launched again
        compact(queue, (N,), (LOCAL,), in_dev, out_dev, size_dev)
        size = to_host(queue, size_dev, np.zeros(1, np.int32))
        same(size, np.array([(number + 1) * chosen.size], np.int32), "size")
    found = to_host(queue, out_dev, np.zeros(4 * N, np.int32))
    for number in range(4):
        part = np.sort(found[number * chosen.size : (number + 1) * chosen.size])
        same(part, chosen, f"part {number}")
    outputs["compact"] = np.sort(found)

    for limit in (N, chosen.size, 50):
        out_dev, size_dev = counter(N), counter()
        for _ in range(2):
            cl.enqueue_fill_buffer(queue, size_dev, np.int32(0), 0, 4)
            limited(queue, (N,), (LOCAL,), in_dev, out_dev, size_dev, np.uint32(limit), cl.LocalMemory(8))
        found = to_host(queue, out_dev, data)
        same(to_host(queue, size_dev, np.zeros(1, np.int32)), np.array([chosen.size], np.int32), "all")
        assert np.isin(found[: min(limit, chosen.size)], chosen).all() and not found[limit:].any()
        if limit >= chosen.size:
            outputs[f"limited by {limit}"] = np.sort(found)

    odd_dev, even_dev, sizes_dev = counter(N), counter(2 * N), counter(4)
    parted(queue, (N,), (LOCAL,), in_dev, odd_dev, even_dev, sizes_dev)
    outputs["odd"] = np.sort(to_host(queue, odd_dev, data))
    even = to_host(queue, even_dev, np.zeros((N, 2), np.float32))
    outputs["even"] = np.array(sorted(map(tuple, even.tolist())), np.float32)
    outputs["sizes"] = to_host(queue, sizes_dev, np.zeros(4, np.int32))

    out_dev, size_dev = counter(8 * N), counter()
    runs(queue, (N,), (LOCAL,), in_dev, out_dev, size_dev)
    found = to_host(queue, out_dev, np.zeros((4 * N, 2), np.int32))
    outputs["runs"] = np.array(sorted(map(tuple, found.tolist())), np.int32)
    outputs["runs size"] = to_host(queue, size_dev, np.zeros(1, np.int32))

    for limit in (3 * N, 100):
        out_dev, size_dev = counter(3 * N), counter()
        gather(queue, (N,), (LOCAL,), in_dev, out_dev, size_dev, np.uint32(limit))
        found = to_host(queue, out_dev, np.zeros(3 * N, np.int32))
        outputs[f"gathered {limit}"] = to_host(queue, size_dev, np.zeros(1, np.int32))
        assert not found[limit:].any() and found[: min(limit, int(outputs[f"gathered {limit}"][0]))].any()
        if limit > N:
            outputs["gathered"] = np.sort(found)

    out_dev, size_dev = counter(N), counter()
    loop(queue, (N // 4,), (LOCAL,), in_dev, out_dev, size_dev, np.int32(N))
    outputs["loop"] = np.sort(to_host(queue, out_dev, data))
    same(outputs["loop"][-chosen.size :], chosen, "in a loop")

    x = rng.random(N).astype(np.float32)
    pairs_dev, size_dev = counter(3 * 2000), counter()
    pairs(queue, (N,), (LOCAL,), to_device(ctx, x), pairs_dev, size_dev, np.float32(0.003), np.int32(N))
    found = to_host(queue, pairs_dev, np.zeros((2000, 3), np.int32))
    outputs["pairs"] = np.array(sorted(map(tuple, found.tolist())), np.int32)
    outputs["number of pairs"] = to_host(queue, size_dev, np.zeros(1, np.int32))
    assert 500 < outputs["number of pairs"][0] <= 2000

    out_dev, size_dev = counter(2 * N), counter()
    plane(queue, (N // 16, 16), (8, 4), in_dev, out_dev, size_dev)
    found = to_host(queue, out_dev, np.zeros((N, 2), np.int32))
    outputs["plane"] = np.array(sorted(map(tuple, found.tolist())), np.int32)
    outputs["plane size"] = to_host(queue, size_dev, np.zeros(1, np.int32))

    out_dev, size_dev = counter(4 * N), counter()
    rows(queue, (N // 16, 16), (8, 4), in_dev, out_dev, size_dev)
    outputs["rows size"] = to_host(queue, size_dev, np.zeros(1, np.int32))

    out_dev, size_dev = counter(N), counter()
    sums(queue, (N,), (LOCAL,), in_dev, out_dev, size_dev)
    outputs["sums"] = np.sort(to_host(queue, out_dev, data))
    same(outputs["sums"][-chosen.size :], chosen, "sums")
    return outputs
