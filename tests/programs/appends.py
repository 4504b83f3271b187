"""Results of atomic additions that say where to store: compared as sets, as their order is open."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {
    "ap_compact": "split",
    "ap_limited": "split",
    "ap_columns": "split",
    "ap_runs": "split",
    "ap_triangles": "split",
    "ap_bins": "split",
    "ap_both_ends": "split",
    "ap_frontier": "split",
    "ap_sort": "split",
    "ap_pairs": "split",
    "ap_visit": "whole",
    "ap_converted": "split",
    "ap_named": "split",
    "ap_marked": "whole",
    "ap_far": "split",
    "ap_wrapped": "split",
}

SOURCE = """
__kernel void ap_compact(__global const int *in, __global int *out, __global int *size)
{
    int v = in[get_global_id(0)];
    if (v % 3 == 0)
        out[atomic_inc(size)] = v;
}

__kernel void ap_limited(__global const int *in, __global int *out, volatile __global uint *size, uint limit,
                         __global int *seen)
{
    int i = get_global_id(0), v = in[i];
    seen[i] += v;
    if (v % 3 == 0) {
        uint p = atomic_add(size, 1u);
        if (p < limit)
            out[p] = v;
    }
}

__kernel void ap_columns(__global const int *in, __global int *keys, __global float2 *values,
                         volatile __global int *sizes, __global int *small)
{
    int i = get_global_id(0), v = in[i];
    if (v & 1) {
        int p = atomic_inc(&sizes[1]);
        keys[p] = v;
        values[p] = (float2)(i, v);
    } else if (v < 1000) {
        small[atomic_inc(&sizes[3])] = v;
    }
}

__kernel void ap_runs(__global const uint *in, __global uint *out, volatile __global uint *size, uint limit)
{
    uint v = in[get_global_id(0)], k = v % 5u;
    uint p = atomic_add(size, k);
    if (p + k > limit)
        return;
    for (uint i = 0; i < k; i++)
        out[p + i] = v * 8u + i;
}

__kernel void ap_triangles(__global const float *field, __global float2 *corners,
                           volatile __global uint *size, __constant uchar *table, int width)
{
    int x = get_global_id(0), y = get_global_id(1), cube = 0;
    for (int corner = 0; corner < 4; corner++)
        if (field[(y + corner / 2) * (width + 1) + x + corner % 2] > 0.5f)
            cube |= 1 << corner;
    uint triangles = table[cube];
    if (!triangles)
        return;
    uint base = atomic_add(size, triangles * 3);
    for (uint t = 0; t < triangles; ++t) {
        uint at = base + 3 * t;
        corners[at] = (float2)(x, y);
        corners[at + 1] = (float2)(x + 1, y + t);
        corners[at + 2] = (float2)(x, cube);
    }
}

__kernel void ap_bins(__global const float *x, volatile __global uint *counts, __global int *cells, int room,
                      int n)
{
    int i = get_global_id(0);
    if (i >= n)
        return;
    int cell = (int)(x[i] * 50.0f);
    int slot = atomic_inc(&counts[cell]);
    if (slot < room)
        cells[cell * room + slot] = i;
}

__kernel void ap_both_ends(__global const int *in, __global int *out, volatile __global int *ends, int n)
{
    int v = in[get_global_id(0)];
    if (v % 7 < 3)
        out[atomic_inc(ends)] = v;
    else
        out[n - 1 - atomic_inc(ends + 1)] = v;
}

__kernel void ap_frontier(__global const int *starts, __global const int *targets, __global const int *level,
                          int now, __global int2 *next, volatile __global int *size)
{
    int v = get_global_id(0);
    if (level[v] != now)
        return;
    for (int e = starts[v]; e < starts[v + 1]; e++) {
        int u = targets[e];
        if (level[u] < 0) {
            int p = atomic_inc(size);
            next[p] = (int2)(u, v);
        }
    }
}

__kernel void ap_sort(__global const uint *keys, __global const uint *starts, volatile __global uint *cursors,
                      __global uint *sorted)
{
    uint i = get_global_id(0);
    uint key = keys[i] & 63u;
    sorted[starts[key] + atomic_inc(&cursors[key])] = keys[i];
}

// Looks at what others set.
__kernel void ap_visit(__global const int *targets, __global int *visited, __global int *next,
                       volatile __global int *size)
{
    int u = targets[get_global_id(0)];
    if (!visited[u]) {
        visited[u] = 1;
        next[atomic_inc(size)] = u;
    }
}

typedef struct { int one, other; float distance; } pair;

__kernel void ap_pairs(__global const float *x, __global pair *pairs, volatile __global int *size, int room,
                       float near, int n)
{
    int i = get_global_id(0);
    for (int j = i + 1; j < n; j++) {
        float d = fabs(x[i] - x[j]);
        if (d > near)
            continue;
        int p = atomic_inc(size);
        if (p < room) {
            pairs[p].one = i;
            pairs[p].other = j;
            pairs[p].distance = d;
        }
    }
}

// The limit that counts is not the number of the argument.
__kernel void ap_converted(__global const int *in, __global int *out, volatile __global int *size, long limit)
{
    int v = in[get_global_id(0)], p = atomic_inc(size);
    if (p < (int)limit)
        out[p] = v;
}

// Two counters, or one by two names.
__kernel void ap_named(__global const int *in, __global int *odd, __global int *even,
                       volatile __global int *sizes, int a, int b)
{
    int v = in[get_global_id(0)];
    if (v & 1)
        odd[atomic_inc(&sizes[a])] = v;
    else
        even[atomic_inc(&sizes[b])] = v;
}

int claimed(volatile __global int *mark)
{
    return atomic_cmpxchg(mark, 0, 1) == 0;
}

// Uses results in two ways.
__kernel void ap_marked(__global const int *in, __global int *out, volatile __global int *size,
                        volatile __global int *marks)
{
    int i = get_global_id(0);
    if (in[i] > 50000 && claimed(&marks[i]))
        marks[i] = 2;
    if (i > 400)
        out[atomic_inc(size)] = in[i];
}

// The counter has come far.
__kernel void ap_far(__global const int *in, __global int *out, volatile __global uint *size, uint base)
{
    int v = in[get_global_id(0)];
    if (v % 3 == 0)
        out[atomic_inc(size) - base] = v;
}

// A sum of 64 bits that wraps around.
__kernel void ap_wrapped(__global const int *in, __global int *out, volatile __global uint *size, ulong base)
{
    int v = in[get_global_id(0)];
    if (v % 3 == 0)
        out[base + atomic_inc(size)] = v;
}

__kernel void ap_fill(__global int *x)
{
    x[get_global_id(0)] = -(int)get_global_id(0) - 1;
}
"""

GROUPS, LOCAL = 20, 32
N = GROUPS * LOCAL


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Stream compaction, marching squares, particles in cells and a frontier, again and again."""
    (
        compact,
        limited,
        columns,
        runs,
        triangles,
        bins,
        both_ends,
        frontier,
        sort,
        pairs,
        visit,
        converted,
        named,
        marked,
        far,
        wrapped,
        fill,
    ) = kernels(ctx, SOURCE, *KERNELS, "ap_fill")
    rng = np.random.default_rng(23)
    data = rng.integers(0, 100_000, N, dtype=np.int32)
    in_dev = to_device(ctx, data)
    outputs: Outputs = {}

    def counter(count: int = 1) -> cl.Buffer:
        return to_device(ctx, np.zeros(count, np.int32))

    # Without a limit, twice behind each other.
    out_dev, size_dev = to_device(ctx, np.full(2 * N, -1, np.int32)), counter()
    for _ in range(2):
        compact(queue, (N,), (LOCAL,), in_dev, out_dev, size_dev)
    kept = to_host(queue, out_dev, np.zeros(2 * N, np.int32))
    chosen = data[data % 3 == 0]
    same(np.sort(kept[: 2 * chosen.size]), np.sort(np.tile(chosen, 2)), "kept")
    same(np.sort(kept[: chosen.size]), np.sort(chosen), "first half")
    outputs["kept"] = np.sort(kept)
    outputs["size"] = to_host(queue, size_dev, np.zeros(1, np.int32))

    # With one that is not reached, is reached exactly, and is crossed.
    for name, limit in (
        ("roomy", N),
        ("exact", int(chosen.size)),
        ("crossed", int(chosen.size) - 50),
        ("none", 0),
    ):
        out_dev, size_dev = to_device(ctx, np.full(N, -1, np.int32)), counter()
        seen_dev = to_device(ctx, data)
        limited(queue, (N,), (LOCAL,), in_dev, out_dev, size_dev, np.uint32(limit), seen_dev)
        kept = to_host(queue, out_dev, np.zeros(N, np.int32))
        stored = min(limit, chosen.size)
        assert np.all(np.isin(kept[:stored], chosen)) and np.all(kept[stored:] == -1), name
        if limit >= chosen.size:
            outputs[name] = np.sort(kept)
        outputs[f"{name} size"] = to_host(queue, size_dev, np.zeros(1, np.int32))
        outputs[f"{name} seen"] = to_host(queue, seen_dev, data)
        same(outputs[f"{name} seen"], 2 * data, f"{name}: seen")

    # Two columns by one counter, and another counter beside it.
    keys_dev, small_dev, sizes_dev = counter(N), counter(N), counter(8)
    values_dev = to_device(ctx, np.zeros((N, 2), np.float32))
    columns(queue, (N,), (LOCAL,), in_dev, keys_dev, values_dev, sizes_dev, small_dev)
    keys, values = to_host(queue, keys_dev, data), to_host(queue, values_dev, np.zeros((N, 2), np.float32))
    odd = np.count_nonzero(data & 1)
    same(keys[:odd], values[:odd, 1].astype(np.int32), "columns belong together")
    outputs["rows"] = np.array(sorted(map(tuple, values.tolist())), np.float32)
    outputs["small"] = np.sort(to_host(queue, small_dev, data))
    outputs["sizes"] = to_host(queue, sizes_dev, np.zeros(8, np.int32))

    # As many as data say at a time.
    for name, limit in (("runs", 4 * N), ("cut runs", N)):
        out_dev, size_dev = counter(4 * N), counter()
        runs(queue, (N,), (LOCAL,), in_dev, out_dev, size_dev, np.uint32(limit))
        found = to_host(queue, out_dev, np.zeros(4 * N, np.uint32))
        if limit > N:
            outputs[name] = np.sort(found)
        outputs[f"{name} size"] = to_host(queue, size_dev, np.zeros(1, np.int32))
        assert not found[limit:].any(), name

    # Triangles of marching squares.
    width = 16
    field = rng.random((GROUPS + 1, width + 1), dtype=np.float32)
    table = np.array([0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 2], np.uint8)
    corners_dev = to_device(ctx, np.zeros((9 * width * GROUPS, 2), np.float32))
    size_dev = counter()
    triangles(
        queue,
        (width, GROUPS),
        (width, 1),
        to_device(ctx, field),
        corners_dev,
        size_dev,
        to_device(ctx, table),
        np.int32(width),
    )
    corners = to_host(queue, corners_dev, np.zeros((9 * width * GROUPS, 2), np.float32)).reshape(-1, 6)
    outputs["triangles"] = np.array(sorted(map(tuple, corners.tolist())), np.float32)
    outputs["corners"] = to_host(queue, size_dev, np.zeros(1, np.int32))

    # Particles in cells, with room for all and for some.
    particles = rng.random(N, dtype=np.float32)
    most = int(np.bincount((particles * np.float32(50)).astype(int)).max())
    for name, room in (("cells", most + 2), ("full cells", most), ("small cells", most - 3)):
        counts_dev, cells_dev = counter(50), to_device(ctx, np.full((50, room), -1, np.int32))
        arguments = counts_dev, cells_dev, np.int32(room), np.int32(N - 5)
        bins(queue, (N,), (LOCAL,), to_device(ctx, particles), *arguments)
        cells = to_host(queue, cells_dev, np.zeros((50, room), np.int32))
        outputs[f"{name} counts"] = to_host(queue, counts_dev, np.zeros(50, np.int32))
        if room >= most:
            outputs[name] = np.sort(cells, axis=1)
        same((cells >= 0).sum(axis=1), np.minimum(outputs[f"{name} counts"], room).astype(int), name)

    ends_dev, out_dev = counter(2), counter(N)
    both_ends(queue, (N,), (LOCAL,), in_dev, out_dev, ends_dev, np.int32(N))
    parts, ends = to_host(queue, out_dev, data), to_host(queue, ends_dev, np.zeros(2, np.int32))
    outputs["ends"] = ends
    outputs["low"], outputs["high"] = np.sort(parts[: ends[0]]), np.sort(parts[ends[0] :])

    # Levels of a search, each from the one before.
    degrees = rng.integers(0, 5, N)
    starts = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    targets = rng.integers(0, N, starts[-1]).astype(np.int32)
    level = np.full(N, -1, np.int32)
    level[:3] = 0
    starts_dev, targets_dev = to_device(ctx, starts), to_device(ctx, targets)
    for now in range(6):
        next_dev, size_dev = to_device(ctx, np.zeros((targets.size, 2), np.int32)), counter()
        frontier(
            queue,
            (N,),
            (LOCAL,),
            starts_dev,
            targets_dev,
            to_device(ctx, level),
            np.int32(now),
            next_dev,
            size_dev,
        )
        (count,) = to_host(queue, size_dev, np.zeros(1, np.int32))
        found = to_host(queue, next_dev, np.zeros((targets.size, 2), np.int32))
        outputs[f"level {now}"] = np.array(sorted(map(tuple, found.tolist())), np.int32)
        level[found[:count, 0]] = now + 1
    outputs["levels"] = level

    # A counting sort, and a neighbour list.
    numbers = rng.integers(0, 1 << 20, N, dtype=np.uint32)
    sizes = np.bincount(numbers & 63, minlength=64)
    begins = (np.cumsum(sizes) - sizes).astype(np.uint32)
    cursors_dev, sorted_dev = counter(64), counter(N)
    sort(queue, (N,), (LOCAL,), to_device(ctx, numbers), to_device(ctx, begins), cursors_dev, sorted_dev)
    found = to_host(queue, sorted_dev, numbers)
    same(found & 63, np.sort(numbers & 63), "keys")
    outputs["sorted"] = found[np.lexsort((found, found & 63))]
    outputs["cursors"] = to_host(queue, cursors_dev, np.zeros(64, np.uint32))

    size_dev, pairs_dev = counter(), to_device(ctx, np.zeros((2500, 3), np.int32))
    near = np.float32(0.005)
    pairs(
        queue,
        (N,),
        (LOCAL,),
        to_device(ctx, particles),
        pairs_dev,
        size_dev,
        np.int32(2500),
        near,
        np.int32(N),
    )
    rows = to_host(queue, pairs_dev, np.zeros((2500, 3), np.int32))
    outputs["pairs"] = np.array(sorted(map(tuple, rows.tolist())), np.int32)
    outputs["number of pairs"] = to_host(queue, size_dev, np.zeros(1, np.int32))
    assert 1000 < outputs["number of pairs"][0] <= 2500

    size_dev, next_dev, visited_dev = counter(), counter(N), counter(N)
    visit(queue, (N,), (LOCAL,), to_device(ctx, targets[:N]), visited_dev, next_dev, size_dev)
    outputs["visited"] = to_host(queue, visited_dev, np.zeros(N, np.int32))
    outputs["next"] = np.unique(to_host(queue, next_dev, np.zeros(N, np.int32)))

    for limit in (N, (1 << 32) + 5):
        out_dev, size_dev = to_device(ctx, np.full(N, -1, np.int32)), counter()
        converted(queue, (N,), (LOCAL,), in_dev, out_dev, size_dev, np.int64(limit))
        found = to_host(queue, out_dev, data)
        assert np.count_nonzero(found >= 0) == min(limit % (1 << 32), N), "places below the converted limit"

    # What is not stored to keeps what members had there.
    for name, numbers in (("two counters", (1, 4)), ("one counter", (2, 2))):
        parts_dev, sizes_dev = (counter(N), counter(N)), counter(8)
        for part in parts_dev:
            fill(queue, (N,), (LOCAL,), part)
        named(queue, (N,), (LOCAL,), in_dev, *parts_dev, sizes_dev, *map(np.int32, numbers))
        for part, which in zip(parts_dev, (data[data & 1 == 1], data[data & 1 == 0]), strict=True):
            found = to_host(queue, part, data)
            same(np.sort(found[found >= 0]), np.sort(which), name)
            same(found[found < 0], (-np.arange(N, dtype=np.int32) - 1)[found < 0], f"{name}: the rest")
        outputs[name] = to_host(queue, sizes_dev, np.zeros(8, np.int32))

    for kernel, begin, base in (
        (far, (1 << 31) - 50, np.uint32((1 << 31) - 50)),
        (wrapped, 10, np.uint64((1 << 64) - 10)),
    ):
        name = kernel.function_name
        out_dev, size_dev = counter(N), to_device(ctx, np.array([begin], np.uint32))
        fill(queue, (N,), (LOCAL,), out_dev)
        kernel(queue, (N,), (LOCAL,), in_dev, out_dev, size_dev, base)
        outputs[name] = np.sort(to_host(queue, out_dev, data))
        outputs[f"{name} size"] = to_host(queue, size_dev, np.zeros(1, np.uint32))
        assert outputs[f"{name} size"][0] == begin + chosen.size, name
        same(outputs[name], np.sort([*-np.arange(chosen.size, N) - 1, *chosen]).astype(np.int32), name)

    out_dev, size_dev, marks_dev = counter(N), counter(), counter(N)
    fill(queue, (N,), (LOCAL,), out_dev)
    marked(queue, (N,), (LOCAL,), in_dev, out_dev, size_dev, marks_dev)
    outputs["marked"] = np.sort(to_host(queue, out_dev, data))
    outputs["marks"] = to_host(queue, marks_dev, data)
    same(outputs["marked"][-(N - 401) :], np.sort(data[401:]), "marked")
    return outputs
