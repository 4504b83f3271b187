"""Fine-grained shared virtual memory: application and kernels use the same bytes, with no command between."""

import ctypes
import threading

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host
from tests.programs._svm import allocate, from_svm, has_fine_grain, reaches, set_pointer, to_svm

NEEDS = has_fine_grain
KERNELS: dict[str, str] = {
    "sf_add": "beside",
    "sf_odd": "beside",
    "sf_walk": "beside",
    "sf_rows": "beside",
    "sf_count": "beside",
}

SOURCE = """
kernel void sf_add(global int *a, global const int *b)
{
    int i = get_global_id(0);
    a[i] += b[i];
}

/* Every other byte; the application writes those between. */
kernel void sf_odd(global uchar *a, int more)
{
    int i = get_global_id(0);
    a[2 * i + 1] += more;
}

typedef struct node { global struct node *next; int value; int sum; } node;

kernel void sf_walk(global node *nodes)
{
    global node *own = &nodes[get_global_id(0)], *at = own;
    int sum = 0;
    for (int k = 0; k < 7 && at; k++, at = at->next)
        sum = 3 * sum + at->value;
    own->sum = sum;
}

kernel void sf_rows(global const int *a, global int *sums, int width)
{
    int i = get_global_id(0), sum = 0;
    for (int k = 0; k < width; k++)
        sum += a[i * width + k] * (k + 1);
    sums[i] = sum;
}

kernel void sf_count(global const int *a, global int *counts)
{
    atomic_add(&counts[a[get_global_id(0)] & 15], 1);
}
"""
COUNT = 1920
NODE = np.dtype([("next", np.uint64), ("value", np.int32), ("sum", np.int32)])


def fine(ctx: cl.Context, nbytes: int) -> tuple[cl.SVMAllocation, np.ndarray]:
    """A region, and its bytes as the application has them."""
    flags = cl.svm_mem_flags.READ_WRITE | cl.svm_mem_flags.SVM_FINE_GRAIN_BUFFER
    region = cl.SVMAllocation(ctx, nbytes, 0, flags)
    return region, np.frombuffer((ctypes.c_uint8 * nbytes).from_address(region.svm_ptr), np.uint8)


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """No region is mapped; other commands are as on other regions."""
    add, odd, walk, rows, count = kernels(ctx, SOURCE, *KERNELS)
    random = np.random.default_rng(11)
    out: Outputs = {}

    # Steps, of which the application changes the bytes between and sees what each left.
    a, numbers = fine(ctx, 4 * COUNT)
    ints = numbers.view(np.int32)
    ints[:] = np.arange(COUNT)
    more = random.integers(-9, 9, COUNT).astype(np.int32)
    coarse, buffer = to_svm(ctx, queue, more), to_device(ctx, more)
    expected, seen = np.arange(COUNT, dtype=np.int32), []
    for step in range(8):
        add.set_args(a, coarse if step % 2 else buffer)
        cl.enqueue_nd_range_kernel(queue, add, (COUNT,), (16,)).wait()
        expected += more
        same(ints, expected, f"step {step}")
        seen.append(ints.copy())
        ints[step::9] -= 5
        expected[step::9] -= 5
    out["steps"] = np.array(seen)

    # Bytes beside those that a kernel writes, written meanwhile by a thread.
    b, tiny = fine(ctx, 2 * COUNT)
    tiny[:] = 1
    odd.set_args(b, np.int32(3))
    done = cl.enqueue_nd_range_kernel(queue, odd, (COUNT,), (16,))
    thread = threading.Thread(target=lambda: tiny[::2].fill(77))
    thread.start()
    for _ in range(4):
        done = cl.enqueue_nd_range_kernel(queue, odd, (COUNT,), (16,))
    thread.join()
    done.wait()
    same(tiny, np.tile(np.array([77, 16], np.uint8), COUNT), "bytes")
    out["bytes"] = tiny.copy()

    # A list that the application links anew between launches.
    c, raw = fine(ctx, COUNT * NODE.itemsize)
    nodes = raw.view(NODE)
    nodes["value"] = random.integers(0, 99, COUNT)
    for step in range(3):
        order = random.permutation(COUNT)
        nodes["next"][order[:-1]] = c.svm_ptr + order[1:] * NODE.itemsize
        nodes["next"][order[-1]] = 0
        walk.set_args(c)
        cl.enqueue_nd_range_kernel(queue, walk, (COUNT,), (16,)).wait()
        out[f"list {step}"] = nodes["sum"].copy()

    # Copies, fills, buffers over it and pointers into it, all seen without a map.
    cl.enqueue_svm_memfill(queue, a, np.int32(7), byte_count=4 * 960).wait()
    same(ints[:960], np.full(960, 7, np.int32), "filled")
    other, _ = fine(ctx, 4 * COUNT)
    cl.enqueue_copy(queue, other, coarse)
    cl.enqueue_copy(queue, a, other).wait()
    same(ints, more, "copied")
    cl.enqueue_svm_migrate_mem(queue, [a], 0)
    over = a.as_buffer(ctx)
    sums = to_svm(ctx, queue, np.zeros(96, np.int32))
    for step in range(3):
        ints[5::7] += step
        rows.set_args(over, sums, np.int32(20))
        cl.enqueue_nd_range_kernel(queue, rows, (96,), (8,))
        out[f"rows {step}"] = from_svm(queue, sums, np.zeros(96, np.int32))
        expected = (ints.reshape(96, 20) * np.arange(1, 21)).sum(axis=1, dtype=np.int32)
        same(out[f"rows {step}"], expected, "rows")
    cl.enqueue_copy(queue, over, np.arange(COUNT, dtype=np.int32))
    queue.finish()
    same(ints, np.arange(COUNT, dtype=np.int32), "written")
    same(to_host(queue, over, ints), ints, "read")

    # Transfers that do not block, to and from what kernels before and behind them use, in a row and by rows.
    arange, sides = np.arange(COUNT, dtype=np.int32), to_device(ctx, np.zeros(COUNT, np.int32))
    by_rows = {"buffer_origin": (0, 0), "host_origin": (40, 3), "region": (80, 30), "buffer_pitches": (80,)}
    for step in range(2):
        for shape in ({}, by_rows | {"host_pitches": (160,)}):
            ints[:] = arange
            cl.enqueue_fill_buffer(queue, sides, np.int32(1000 + step), 0, 4 * COUNT)
            cl.enqueue_copy(queue, ints, sides, is_blocking=False, **shape)
            add.set_args(a, coarse)
            cl.enqueue_nd_range_kernel(queue, add, (COUNT,), (16,))
            cl.enqueue_copy(queue, sides, ints, is_blocking=False, **shape)
            cl.enqueue_nd_range_kernel(queue, add, (COUNT,), (16,))
            queue.finish()
            name = f"transfers {step} {len(shape)}"
            out[name] = np.array([ints, to_host(queue, sides, ints)])
            if not shape:
                same(out[name][1], more + 1000 + step, name)
    ints[:] = arange

    # Atomics of all members on one memory; and where pointers lead inside.
    counts, counted = fine(ctx, 64)
    counted[:] = 0
    count.set_args(a, counts)
    for _ in range(3):
        cl.enqueue_nd_range_kernel(queue, count, (COUNT,), (16,)).wait()
    out["counts"] = counted.view(np.int32).copy()
    same(out["counts"], np.full(16, 3 * COUNT // 16, np.int32), "counts")
    set_pointer(add, 0, a.svm_ptr + 4 * 320)
    reaches(add, [counts])
    plain = allocate(ctx, queue, 4 * COUNT)
    cl.enqueue_copy(queue, plain, coarse)
    add.set_arg(1, plain)
    cl.enqueue_nd_range_kernel(queue, add, (1600,), (16,)).wait()
    expected = np.arange(COUNT, dtype=np.int32)
    expected[320:] += more[:1600]
    same(ints, expected, "inside")
    out["inside"] = ints.copy()

    # Regions that are freed, and others of that size after them, of both grains in turn.
    for step in range(12):
        last, numbers = fine(ctx, 4 * COUNT)
        numbers.view(np.int32)[:] = step
        add.set_args(last, coarse)
        cl.enqueue_nd_range_kernel(queue, add, (COUNT,), (16,)).wait()
        same(numbers.view(np.int32), more + step, f"again {step}")
        numbers.view(np.int32)[::3] = -1
        cl.enqueue_nd_range_kernel(queue, add, (COUNT,), (16,)).wait()
        out[f"again {step}"] = numbers.view(np.int32).copy()
        last.release()
        if step % 3 == 2:
            beside = to_svm(ctx, queue, more)
            out[f"beside {step}"] = from_svm(queue, beside, more)
            beside.release()
    return out
