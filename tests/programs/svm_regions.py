"""Regions of shared virtual memory: very many, freed at once, mapped across each other, by two threads."""

import os
import threading

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same
from tests.programs._svm import allocate, from_svm, has_svm, reaches, set_pointer, to_svm

NEEDS = has_svm
KERNELS: dict[str, str] = {
    "sr_begin": "split",
    "sr_turn": "split",
    "sr_collect": "split",
    "sr_add": "split",
    "sr_far": "split",
}

SOURCE = """
kernel void sr_begin(global const ulong *where, int first)
{
    int i = get_global_id(0);
    global int *own = (global int *)where[i];
    own[0] = first + i;
    own[1] = -i;
}

/* Each adds what stands in the next region, which nobody writes. */
kernel void sr_turn(global const ulong *where, int count)
{
    int i = get_global_id(0);
    global int *own = (global int *)where[i];
    own[0] += ((global const int *)where[(i + 1) % count])[1];
}

kernel void sr_collect(global const ulong *where, global int *found)
{
    int i = get_global_id(0);
    found[i] = ((global const int *)where[i])[0];
}

kernel void sr_add(global int *a, int more)
{
    a[get_global_id(0)] += more;
}

/* A pointer into a region, and more of it by what stands there. */
kernel void sr_far(global int *a, global const ulong *where, int count)
{
    int i = get_global_id(0);
    a[i] += ((global const int *)where[0])[count - 1 - i];
}
"""
MANY, FEW, COUNT, LARGE = 10_000, 48, 960, 1 << 15


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """What is compared are values, since addresses differ."""
    out: Outputs = {}
    many(ctx, queue, out, MANY, [5])
    many(ctx, queue, out, 400, [8, 900, -7])
    freed(ctx, queue, out)
    freed_reached(ctx, queue, out)
    mapped(ctx, queue, out)
    inner(ctx, queue, out)
    two_threads(ctx, out)
    return out


def addresses(ctx: cl.Context, queue: cl.CommandQueue, regions: list[cl.SVMAllocation]) -> cl.SVMAllocation:
    """A region with where others are."""
    return to_svm(ctx, queue, np.array([region.svm_ptr for region in regions], np.uint64))


def many(ctx: cl.Context, queue: cl.CommandQueue, out: Outputs, count: int, rounds: list[int]) -> None:
    """Regions of few bytes; after each round half of them go, and others come."""
    begin, turn, collect = kernels(ctx, SOURCE, "sr_begin", "sr_turn", "sr_collect")
    regions = [allocate(ctx, queue, 8) for _ in range(count)]
    found = to_svm(ctx, queue, np.zeros(count, np.int32))
    for first in rounds:
        where = addresses(ctx, queue, regions)
        for kernel in (begin, turn, collect):
            reaches(kernel, regions)
        begin.set_args(where, np.int32(first))
        turn.set_args(where, np.int32(count))
        collect.set_args(where, found)
        cl.enqueue_nd_range_kernel(queue, begin, (count,), (40,))
        for _ in range(3):
            cl.enqueue_nd_range_kernel(queue, turn, (count,), (40,))
        cl.enqueue_nd_range_kernel(queue, collect, (count,), (40,))
        expected = first + np.arange(count) - 3 * np.roll(np.arange(count), -1)
        out[f"many {first}"] = from_svm(queue, found, np.zeros(count, np.int32))
        same(out[f"many {first}"], expected.astype(np.int32), "many")
        if first != rounds[-1]:
            regions[::2] = [allocate(ctx, queue, 8) for _ in regions[::2]]


def freed(ctx: cl.Context, queue: cl.CommandQueue, out: Outputs) -> None:
    """What a launch uses is freed behind it at once, and its place is another's."""
    (add,) = kernels(ctx, SOURCE, "sr_add")
    found = []
    for step in range(12):
        region = to_svm(ctx, queue, np.full(COUNT, step, np.int32))
        add.set_args(region, np.int32(1000))
        cl.enqueue_nd_range_kernel(queue, add, (COUNT,), (16,))
        kept = allocate(ctx, queue, 4 * COUNT)
        cl.enqueue_copy(queue, kept, region)
        del region  # behind the copy
        found.append(from_svm(queue, kept, np.zeros(COUNT, np.int32)))
    out["freed"] = np.array(found)
    same(out["freed"], np.repeat(np.arange(12, dtype=np.int32)[:, None] + 1000, COUNT, 1), "freed")


def freed_reached(ctx: cl.Context, queue: cl.CommandQueue, out: Outputs) -> None:
    """The same of regions that launches reach: more of that size come before the launches have ended."""
    chain = kernels(ctx, SOURCE, "sr_begin", "sr_turn", "sr_collect")
    found = []
    for step in range(12):
        last = turn_twice(ctx, queue, chain, 100 * step)
        others = [allocate(ctx, queue, 8) for _ in range(FEW)]
        for other in others:
            cl.enqueue_svm_memfill(queue, other, np.full(1, -1, np.int32))
        found.append(from_svm(queue, last, np.zeros(FEW, np.int32)))
        for other in others:
            same(from_svm(queue, other, np.zeros(2, np.int32)), np.full(2, -1, np.int32), "others")
    out["freed, reached"] = np.array(found)
    first = 100 * np.arange(12)[:, None]
    same(out["freed, reached"], turned_twice(first), "freed, reached")


def turn_twice(
    ctx: cl.Context, queue: cl.CommandQueue, chain: tuple[cl.Kernel, ...], first: int
) -> cl.SVMAllocation:
    """What ``FEW`` regions hold after ``sr_begin``, twice ``sr_turn``, ``sr_collect``; they are freed."""
    begin, turn, collect = chain
    regions = [allocate(ctx, queue, 8) for _ in range(FEW)]
    where, last = addresses(ctx, queue, regions), to_svm(ctx, queue, np.zeros(FEW, np.int32))
    for kernel in chain:
        reaches(kernel, regions)
    begin.set_args(where, np.int32(first))
    turn.set_args(where, np.int32(FEW))
    collect.set_args(where, last)
    for kernel in (begin, turn, turn, collect):
        cl.enqueue_nd_range_kernel(queue, kernel, (FEW,), (8,))
    return last


def turned_twice(first: np.ndarray) -> np.ndarray:
    """What ``turn_twice`` leaves, for each of ``first``, of shape (n, 1)."""
    return (first + np.arange(FEW) - 2 * np.roll(np.arange(FEW), -1)).astype(np.int32)


def mapped(ctx: cl.Context, queue: cl.CommandQueue, out: Outputs) -> None:
    """Maps in maps and across others; a fork meanwhile; larger than a member may be."""
    (add,) = kernels(ctx, SOURCE, "sr_add")
    region = to_svm(ctx, queue, np.arange(LARGE, dtype=np.int32))
    add.set_args(region, np.int32(7))
    for _ in range(3):
        cl.enqueue_nd_range_kernel(queue, add, (LARGE,), (64,))
    with region.map_rw(queue) as outer:
        numbers = outer.view(np.int32)
        part = cl.SVM(numbers[1000:20000])
        with part.map_ro(queue) as inside:
            assert inside.ctypes.data == region.svm_ptr + 4000
            total = int(inside.sum(dtype=np.int64))
            with cl.SVM(numbers[19000:30000]).map_ro(queue) as across:
                total += int(across.sum(dtype=np.int64))
            child = os.fork()
            if not child:
                os._exit(3)
            assert os.waitpid(child, 0)[1] == 3 << 8
        numbers[::3] = -numbers[::3]
    cl.enqueue_nd_range_kernel(queue, add, (LARGE,), (64,))
    after = np.arange(LARGE, dtype=np.int32) + 21
    expected = int(after[1000:20000].sum(dtype=np.int64) + after[19000:30000].sum(dtype=np.int64))
    assert total == expected
    after[::3] = -after[::3]
    out["mapped"] = from_svm(queue, region, after)
    same(out["mapped"], after + 7, "mapped")


def inner(ctx: cl.Context, queue: cl.CommandQueue, out: Outputs) -> None:
    """Regions named by what is inside of them, as arguments and as what is reached."""
    (far,) = kernels(ctx, SOURCE, "sr_far")
    a = to_svm(ctx, queue, np.arange(2 * COUNT, dtype=np.int32))
    b = to_svm(ctx, queue, np.arange(LARGE, dtype=np.int32))
    where = to_svm(ctx, queue, np.array([b.svm_ptr + 4 * (LARGE - COUNT)], np.uint64))
    far.set_args(a, where, np.int32(COUNT))
    set_pointer(far, 0, a.svm_ptr + 4 * 100)
    reaches(far, [b.svm_ptr + 4000, b.svm_ptr + 4 * LARGE - 1])
    for _ in range(5):
        cl.enqueue_nd_range_kernel(queue, far, (COUNT,), (16,))
    expected = np.arange(2 * COUNT, dtype=np.int32)
    expected[100 : 100 + COUNT] += 5 * np.arange(LARGE - 1, LARGE - 1 - COUNT, -1, dtype=np.int32)
    out["inner"] = from_svm(queue, a, expected)
    same(out["inner"], expected, "inner")


def two_threads(ctx: cl.Context, out: Outputs) -> None:
    """Each with a queue, kernels and regions of its own."""
    found: dict[int, np.ndarray] = {}

    def work(number: int) -> None:
        queue = cl.CommandQueue(ctx)
        chain = kernels(ctx, SOURCE, "sr_begin", "sr_turn", "sr_collect")
        for step in range(4):
            last = turn_twice(ctx, queue, chain, 100 * number + step)
            found[4 * number + step] = from_svm(queue, last, np.zeros(FEW, np.int32))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    out["threads"] = np.array([found[each] for each in sorted(found)])
    first = np.array([100 * number + step for number in range(2) for step in range(4)])[:, None]
    same(out["threads"], turned_twice(first), "threads")
