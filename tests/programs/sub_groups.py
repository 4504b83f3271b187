"""Sub-groups: their functions, what is exchanged in them, and what is written where they say.

On devices without them: the same functions in C, for sub-groups of one work-item.
"""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {
    "sg_geometry": "split",
    "sg_collectives": "split",
    "sg_shuffles": "split",
    "sg_ballots": "split",
    "sg_types": "split",
    "sg_divergent": "split",
    "sg_local": "split",
    "sg_chosen": "split",
    "sg_leaders": "split",
    "sg_compact": "split",
    "sg_grid": "split",
}
GROUPS, GROUP = 12, 40
ITEMS = GROUPS * GROUP
EXTENSIONS = [
    "extended_types",
    "non_uniform_vote",
    "ballot",
    "non_uniform_arithmetic",
    "shuffle",
    "shuffle_relative",
    "clustered_reduce",
    "rotate",
]

ALONE = r"""
#define get_sub_group_size() 1u
#define get_max_sub_group_size() 1u
#define get_num_sub_groups() ((uint)(get_local_size(0) * get_local_size(1)))
#define get_enqueued_num_sub_groups() get_num_sub_groups()
#define get_sub_group_id() ((uint)(get_local_id(1) * get_local_size(0) + get_local_id(0)))
#define get_sub_group_local_id() 0u
#define sub_group_barrier(flags) mem_fence(flags)
#define sub_group_all(x) (!!(x))
#define sub_group_any(x) (!!(x))
#define sub_group_broadcast(x, i) (x)
#define sub_group_reduce_add(x) (x)
#define sub_group_reduce_max(x) (x)
#define sub_group_scan_inclusive_add(x) (x)
#define sub_group_scan_exclusive_add(x) ((x) * 0)
#define sub_group_shuffle(x, i) (x)
#define sub_group_shuffle_xor(x, i) (x)
#define sub_group_shuffle_up(x, i) (x)
#define sub_group_shuffle_down(x, i) (x)
#define sub_group_rotate(x, i) (x)
#define sub_group_clustered_reduce_add(x, n) (x)
#define sub_group_elect() 1
#define sub_group_non_uniform_all(x) (!!(x))
#define sub_group_non_uniform_all_equal(x) 1
#define sub_group_non_uniform_reduce_add(x) (x)
#define sub_group_non_uniform_scan_exclusive_add(x) ((x) * 0)
#define sub_group_broadcast_first(x) (x)
#define sub_group_ballot(x) ((uint4)(!!(x), 0, 0, 0))
#define sub_group_ballot_bit_count(q) ((q).x)
#define sub_group_ballot_exclusive_scan(q) 0u
#define sub_group_ballot_find_lsb(q) 0u
#define sub_group_inverse_ballot(q) ((q).x)
"""
SOURCE = r"""
__kernel void sg_geometry(__global uint *size, __global uint *id, __global uint *local_id,
                          __global uint *most)
{
    size_t i = get_global_id(0);
    size[i] = get_sub_group_size();
    id[i] = get_sub_group_id();
    local_id[i] = get_sub_group_local_id();
    most[i] = get_max_sub_group_size() * 1000 + get_num_sub_groups();
}

__kernel void sg_collectives(__global const int *in, __global int *out, uint n)
{
    size_t i = get_global_id(0);
    out[i] = sub_group_reduce_add(in[i]);
    out[n + i] = sub_group_reduce_max(in[i]);
    out[2 * n + i] = sub_group_scan_inclusive_add(in[i]);
    out[3 * n + i] = sub_group_scan_exclusive_add(in[i]);
    out[4 * n + i] = sub_group_broadcast(in[i], 0);
    out[5 * n + i] = sub_group_all(in[i] > -90) * 2 + sub_group_any(in[i] > 90);
}

__kernel void sg_shuffles(__global const int *in, __global int *out)
{
    size_t i = get_global_id(0);
    uint last = get_sub_group_size() - 1, lane = get_sub_group_local_id();
    int x = sub_group_shuffle(in[i], last - lane);
    x = x * 31 + sub_group_shuffle(in[i], (lane ^ 1) > last ? lane : lane ^ 1);
    int y = sub_group_shuffle_up(in[i], 1u), z = sub_group_shuffle_down(in[i], 1u);
    x = x * 31 + (lane ? y : 0);
    x = x * 31 + (lane < last ? z : 0);
    out[i] = x;
}

__kernel void sg_ballots(__global const int *in, __global uint4 *bits, __global uint *counts)
{
    size_t i = get_global_id(0);
    uint4 q = sub_group_ballot(in[i] > 0);
    bits[i] = q;
    counts[i] = sub_group_ballot_bit_count(q) * 10000 + sub_group_ballot_exclusive_scan(q) * 10
              + (sub_group_inverse_ballot(q) ? 1 : 0);
}

__kernel void sg_types(__global const float4 *in, __global float4 *vectors, __global short *shorts,
                       __global float *floats, __global int *rotated)
{
    size_t i = get_global_id(0);
    vectors[i] = sub_group_broadcast(in[i], 0) + in[i];
    shorts[i] = sub_group_reduce_add((short)in[i].x);
    floats[i] = sub_group_reduce_add(in[i].y) + sub_group_scan_inclusive_add(in[i].z);
    rotated[i] = get_sub_group_size() == get_max_sub_group_size()
               ? sub_group_rotate((int)in[i].x, 1) + sub_group_clustered_reduce_add((int)in[i].w, 1u) : 0;
}

__kernel void sg_divergent(__global const int *in, __global int *out)
{
    size_t i = get_global_id(0);
    int x = in[i];
    if (x > 0)
        out[i] = sub_group_non_uniform_reduce_add(x) + (sub_group_elect() ? 1000000 : 0);
    else
        out[i] = sub_group_non_uniform_scan_exclusive_add(x) - sub_group_broadcast_first(x);
}

__kernel void sg_local(__global const int *in, __global int *out)
{
    __local int kept[40];
    size_t i = get_global_id(0), l = get_local_id(0);
    kept[l] = in[i];
    sub_group_barrier(CLK_LOCAL_MEM_FENCE);
    uint lane = get_sub_group_local_id();
    out[i] = kept[l - lane] - kept[l];
}

__kernel void sg_chosen(__global const int *in, __global int *out)
{
    size_t i = get_global_id(0);
    if (sub_group_any(in[i] > 90))
        out[i] = in[i];
}

__kernel void sg_leaders(__global const int *in, __global int *out)
{
    int sum = sub_group_reduce_add(in[get_global_id(0)]);
    if (get_sub_group_local_id() == 0)
        out[get_group_id(0) * get_local_size(0) + get_sub_group_id()] = sum;
}

__kernel void sg_compact(__global const int *in, __global int *out)
{
    size_t i = get_global_id(0);
    int keep = in[i] > 0;
    int at = sub_group_scan_exclusive_add(keep);
    size_t begin = get_group_id(0) * get_local_size(0) + get_local_id(0) - get_sub_group_local_id();
    if (keep)
        out[begin + at] = in[i];
}

__kernel void sg_grid(__global const int *in, __global int *out, uint width)
{
    size_t i = get_global_id(1) * width + get_global_id(0);
    out[i] = sub_group_reduce_add(in[i]) * 100 + get_sub_group_id();
}
"""


def has_sub_groups(device: cl.Device) -> bool:
    """Whether the device has all that the kernels use."""
    listed = device.extensions.split()
    return all(f"cl_khr_subgroup_{name}" in listed for name in EXTENSIONS)


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """480 items in groups of 40, which sub-groups need not divide; against the host."""
    has = has_sub_groups(ctx.devices[0])
    source, options = (SOURCE, ["-cl-std=CL3.0"]) if has else (ALONE + SOURCE, [])
    by_name = dict(zip(KERNELS, kernels(ctx, source, *KERNELS, options=options), strict=True))
    numbers = np.random.default_rng(23)
    given = numbers.integers(-100, 100, ITEMS).astype(np.int32)
    fours = numbers.integers(-50, 50, (ITEMS, 4)).astype(np.float32)
    in_dev, fours_dev, n = to_device(ctx, given), to_device(ctx, fours), np.uint32(ITEMS)

    def ran(name: str, *arguments: object, grid: tuple[int, ...] = (ITEMS,), **like: Array) -> Outputs:
        """What a kernel writes: to its last arguments, or where one is None."""
        own = {key: to_device(ctx, array) for key, array in like.items()}
        buffers = iter(own.values())
        filled = [next(buffers) if each is None else each for each in arguments]
        group = (GROUP,) if len(grid) == 1 else (10, 4)
        by_name[name](queue, grid, group, *filled, *buffers)
        return {key: to_host(queue, own[key], array) for key, array in like.items()}

    u32, i32 = np.zeros(ITEMS, np.uint32), np.zeros(ITEMS, np.int32)
    out = ran("sg_geometry", size=u32, id=u32, local_id=u32, most=u32)
    size, first = out["size"].astype(int), np.arange(ITEMS) - out["local_id"].astype(int)
    assert (out["local_id"] < size).all() and (size >= 1).all()
    same(
        out["id"], np.concatenate([np.cumsum(first[g] == np.arange(ITEMS)[g]) - 1 for g in _groups()]), "ids"
    )
    members = [np.flatnonzero(first == at) for at in np.unique(first)]  # of each sub-group
    assert all(len(each) == size[each[0]] for each in members)
    out |= ran("sg_collectives", in_dev, None, n, collected=np.zeros(6 * ITEMS, np.int32))
    same(out["collected"], np.concatenate(expected_collectives(given, members)), "collectives")
    out |= ran("sg_shuffles", in_dev, shuffled=i32)
    same(out["shuffled"], expected_shuffles(given, members), "shuffles")
    out |= ran("sg_ballots", in_dev, bits=np.zeros((ITEMS, 4), np.uint32), counts=u32)
    counted = [given[each] > 0 for each in members]
    scans = np.concatenate([np.cumsum(each) - each for each in counted])
    wanted = np.concatenate([np.full(each.size, each.sum()) for each in counted]) * 10000 + scans * 10
    same(out["counts"], (wanted + (given > 0)).astype(np.uint32), "ballots")
    out |= ran(
        *("sg_types", fours_dev),
        vectors=fours * 0,
        shorts=i32.astype(np.int16),
        floats=fours[:, 0] * 0,
        rotated=i32,
    )
    same(out["vectors"], fours + fours[first], "vectors")
    sums = np.concatenate([np.full(each.size, fours[each, 0].sum()) for each in members])
    same(out["shorts"], sums.astype(np.int16), "shorts")
    out |= ran("sg_divergent", in_dev, divergent=i32)
    out |= ran("sg_local", in_dev, local=i32)
    same(out["local"], given[first] - given, "local memory")
    out |= ran("sg_chosen", in_dev, chosen=i32 - 1)
    any_large = np.concatenate([np.full(each.size, (given[each] > 90).any()) for each in members])
    same(out["chosen"], np.where(any_large, given, -1).astype(np.int32), "chosen")
    out |= ran("sg_leaders", in_dev, leaders=i32 - 1)
    out |= ran("sg_compact", in_dev, compact=i32 - 1)
    compact = i32 - 1
    for each in members:
        kept = given[each][given[each] > 0]
        compact[each[: kept.size]] = kept
    same(out["compact"], compact, "compacted")
    out |= ran("sg_grid", in_dev, None, np.uint32(GROUP), grid=(GROUP, GROUPS), of_grid=i32)
    return out | (asked(by_name, ctx.devices[0], size) if has else {})


def _groups() -> list[slice]:
    return [slice(at, at + GROUP) for at in range(0, ITEMS, GROUP)]


def expected_collectives(given: Array, members: list[Array]) -> list[Array]:
    """What ``sg_collectives`` makes of it, function by function."""
    parts: list[list[Array]] = [[] for _ in range(6)]
    for each in members:
        own, ones = given[each], np.ones(each.size, np.int32)
        parts[0].append(ones * own.sum())
        parts[1].append(ones * own.max())
        parts[2].append(np.cumsum(own))
        parts[3].append(np.cumsum(own) - own)
        parts[4].append(ones * own[0])
        parts[5].append(ones * (2 * (own > -90).all() + (own > 90).any()))
    return [np.concatenate(part).astype(np.int32) for part in parts]


def expected_shuffles(given: Array, members: list[Array]) -> Array:
    """What ``sg_shuffles`` makes of it."""
    found = []
    for each in members:
        own, lane = given[each].astype(np.int64), np.arange(each.size)
        x = own[::-1] * 31 + own[np.where(lane ^ 1 > each.size - 1, lane, lane ^ 1)]
        x = x * 31 + np.where(lane, np.roll(own, 1), 0)
        found.append(x * 31 + np.where(lane < each.size - 1, np.roll(own, -1), 0))
    return np.concatenate(found).astype(np.int32)


def asked(by_name: dict[str, cl.Kernel], device: cl.Device, size: Array) -> Outputs:
    """What is said of each kernel's sub-groups."""
    about, told = cl.kernel_sub_group_info, {}
    for name, kernel in by_name.items():
        most = kernel.get_sub_group_info(device, about.MAX_SUB_GROUP_SIZE_FOR_NDRANGE, [GROUP])
        count = kernel.get_sub_group_info(device, about.SUB_GROUP_COUNT_FOR_NDRANGE, [GROUP])
        largest = kernel.get_sub_group_info(device, about.MAX_NUM_SUB_GROUPS)
        told[f"asked_{name}"] = np.array([most, count, largest])
        assert count == -(-GROUP // most) and largest >= count, (name, most, count, largest)
    assert told["asked_sg_geometry"][0] == size.max()
    return told
