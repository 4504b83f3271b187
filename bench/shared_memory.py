"""Array programs on shared virtual memory beside the same on buffers, and a list that kernels walk.

``sdi run -n 2 -- python -m bench.shared_memory [--rounds 15] [--quick]``

OCL_TEST_PLATFORM: part of the name of another platform whose first device has coarse-grained buffers.  Each
array program runs on both in turn; the ratio is that of the medians, without the first rounds.  The list is
walked by a kernel that follows pointers, so by address; beside it the same walk with indices on a buffer.
Then launches that may reach very many regions, each waited for; the first ones apart.
Ends with 1 where results differ.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.programs._svm import allocate, has_svm, reaches  # noqa: E402

WARM = 4
SOURCE = """
kernel void axpy(global const float *x, global float *y) { int i = get_global_id(0); y[i] += 0.5f * x[i]; }

kernel void stencil(global const float *x, global float *y)
{
    int i = get_global_id(1), j = get_global_id(0), w = get_global_size(0), h = get_global_size(1);
    float up = i ? x[(i - 1) * w + j] : 0, down = i + 1 < h ? x[(i + 1) * w + j] : 0;
    y[i * w + j] = 0.25f * (up + down + x[i * w + (j ? j - 1 : j)] + x[i * w + (j + 1 < w ? j + 1 : j)]);
}

kernel void forces(global const float4 *x, global float4 *y)
{
    int i = get_global_id(0), n = get_global_size(0);
    float4 own = x[i], sum = 0;
    for (int k = 0; k < n; k++) {
        float4 d = x[k] - own;
        float r = rsqrt(d.x * d.x + d.y * d.y + d.z * d.z + 0.01f);
        sum += d * (r * r * r);
    }
    y[i] = sum;
}

typedef struct node { global struct node *next; ulong value; } node;

kernel void walk_pointers(global ulong *heads, global ulong *sums, int steps)
{
    int i = get_global_id(0);
    global node *at = (global node *)heads[i];
    ulong sum = 0;
    for (int k = 0; k < steps; k++, at = at->next)
        sum = sum * 3 + at->value;
    sums[i] = sum;
}

kernel void walk_indices(global const ulong2 *nodes, global const ulong *heads, global ulong *sums, int steps)
{
    int i = get_global_id(0);
    ulong at = heads[i], sum = 0;
    for (int k = 0; k < steps; k++, at = nodes[at].x)
        sum = sum * 3 + nodes[at].y;
    sums[i] = sum;
}

kernel void turn(global const ulong *where, int first)
{
    global int *own = (global int *)where[first + get_global_id(0)];
    own[0] = 3 * own[0] + 1;
}
"""
NODES, STEPS = 1 << 20, 64
REGIONS, TURNS = 10_000, 40


def programs(is_quick: bool) -> dict[str, tuple[str, tuple[int, ...], tuple[int, ...], int, int]]:
    """By name: kernel, global and local size, bytes of each of its two arrays, launches of a round."""
    side, bodies = (1024, 4096) if is_quick else (4096, 32768)
    return {
        "axpy 4 Ki": ("axpy", (4096,), (64,), 4 << 12, 400),
        "axpy 16 Mi": ("axpy", (1 << 24,), (256,), 4 << 24, 20),
        "stencil": ("stencil", (side, side), (64, 4), 4 * side * side, 20),
        "n-body": ("forces", (bodies,), (64,), 16 * bodies, 2),
    }


def medians(
    ways: Sequence[tuple[str, Callable[[], None]]], finish: Callable[[], object], rounds: int
) -> dict[str, float]:
    """Seconds that a round of each way takes, the ways in turn."""
    found: dict[str, list[float]] = {name: [] for name, _ in ways}
    for _ in range(rounds + WARM):
        for name, run in ways:
            begin = time.perf_counter()
            run()
            finish()
            found[name].append(time.perf_counter() - begin)
    return {name: statistics.median(times[WARM:]) for name, times in found.items()}


def repeat(queue: cl.CommandQueue, kernel: cl.Kernel, sizes: Any, launches: int) -> Callable[[], None]:
    """A round of launches."""

    def run() -> None:
        for _ in range(launches):
            cl.enqueue_nd_range_kernel(queue, kernel, *sizes)

    return run


def main() -> int:
    """Run all of them; 1 where results differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="small arrays")
    options = parser.parse_args()
    name = os.environ.get("OCL_TEST_PLATFORM", "SDI")
    devices = [device for each in cl.get_platforms() if name in each.name for device in each.get_devices()]
    if not devices or not has_svm(devices[0]):
        print(f"no device of a platform {name} with shared virtual memory")
        return 1
    context = cl.Context(devices[:1])
    queue, program = cl.CommandQueue(context), cl.Program(context, SOURCE).build()
    random, flags, wrong = np.random.default_rng(3), cl.mem_flags.READ_WRITE, []
    print(f"{devices[0].name}; {options.rounds} rounds; microseconds a launch\n")
    print(f"{'':12} {'buffers':>9} {'shared':>9}  ratio")
    for title, (kernel_name, global_size, local_size, nbytes, launches) in programs(options.quick).items():
        data = random.random(nbytes // 4, np.float32)
        buffers = [cl.Buffer(context, flags, nbytes) for _ in range(2)]
        regions = [allocate(context, queue, nbytes) for _ in range(2)]
        ways = []
        for way, arrays in (("buffers", buffers), ("shared", regions)):
            kernel = cl.Kernel(program, kernel_name)
            kernel.set_args(*arrays)
            ways.append((way, repeat(queue, kernel, (global_size, local_size), launches)))
        for buffer, region in zip(buffers, regions, strict=True):
            cl.enqueue_copy(queue, buffer, data)
            cl.enqueue_copy(queue, region, data)
        took = medians(ways, queue.finish, options.rounds)
        results = [np.empty_like(data) for _ in range(2)]
        cl.enqueue_copy(queue, results[0], buffers[1])
        cl.enqueue_copy(queue, results[1], regions[1])
        queue.finish()
        if not np.array_equal(*results):
            wrong.append(title)
        buffered, shared = (1e6 * took[way] / launches for way in ("buffers", "shared"))
        print(f"{title:12} {buffered:9.1f} {shared:9.1f}  {shared / buffered:.3f}")
    wrong += walks(context, queue, program, options.rounds)
    wrong += reaches_many(context, queue, program)
    print("" if not wrong else f"\nresults differ: {', '.join(wrong)}")
    return bool(wrong)


def walks(context: cl.Context, queue: cl.CommandQueue, program: cl.Program, rounds: int) -> list[str]:
    """A list by its pointers and by indices; its name where the results differ."""
    random, flags = np.random.default_rng(4), cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    order = random.permutation(NODES).astype(np.uint64)
    nodes = np.empty((NODES, 2), np.uint64)
    nodes[order, 0] = np.roll(order, -1)
    nodes[:, 1] = random.integers(0, 1 << 20, NODES)
    heads = np.arange(0, NODES, 4, dtype=np.uint64)
    sums = np.empty((2, len(heads)), np.uint64)
    indices = cl.Kernel(program, "walk_indices")
    out = [cl.Buffer(context, cl.mem_flags.READ_WRITE, sums[0].nbytes) for _ in range(2)]
    by_index = [cl.Buffer(context, flags, hostbuf=each) for each in (nodes, heads)]
    indices.set_args(*by_index, out[0], np.int32(STEPS))
    region = allocate(context, queue, nodes.nbytes)
    linked = nodes.copy()
    linked[:, 0] = region.svm_ptr + 16 * nodes[:, 0]
    cl.enqueue_copy(queue, region, linked)
    addresses = cl.Buffer(context, flags, hostbuf=region.svm_ptr + 16 * heads)
    pointers = cl.Kernel(program, "walk_pointers")
    pointers.set_args(addresses, out[1], np.int32(STEPS))
    reaches(pointers, [region])
    ways = [
        (way, repeat(queue, kernel, ((len(heads),), (64,)), 2))
        for way, kernel in (("indices", indices), ("pointers", pointers))
    ]
    took = medians(ways, queue.finish, rounds)
    for found, buffer in zip(sums, out, strict=True):
        cl.enqueue_copy(queue, found, buffer)
    by_indices, by_pointers = (1e6 * took[way] / 2 for way in ("indices", "pointers"))
    ratio = by_pointers / by_indices
    print(f"\n{'list':12} {by_indices:9.1f} {by_pointers:9.1f}  {ratio:.3f}  (indices, pointers)")
    return [] if np.array_equal(*sums) else ["list"]


def reaches_many(context: cl.Context, queue: cl.CommandQueue, program: cl.Program) -> list[str]:
    """Launches by address that may reach one region, and very many; its name where results differ."""
    regions = [allocate(context, queue, 64) for _ in range(REGIONS)]
    addresses = np.array([region.svm_ptr for region in regions], np.uint64)
    where = allocate(context, queue, addresses.nbytes)
    cl.enqueue_copy(queue, where, addresses)
    for region in regions:
        cl.enqueue_svm_memfill(queue, region, np.int32(1))
    queue.finish()
    wrong = []
    print(f"\n{'regions':>12} {'first':>9} {'second':>9} {'median':>9}  microseconds a launch, waited for")
    for count in (1, 100, REGIONS):
        kernel = cl.Kernel(program, "turn")
        kernel.set_args(where, np.int32(REGIONS - count))
        reaches(kernel, regions[-count:])
        times = []
        for _ in range(TURNS):
            begin = time.perf_counter()
            cl.enqueue_nd_range_kernel(queue, kernel, (count,), (1,))
            queue.finish()
            times.append(1e6 * (time.perf_counter() - begin))
        print(f"{count:12} {times[0]:9.0f} {times[1]:9.0f} {statistics.median(times[TURNS // 2 :]):9.0f}")
    found = np.empty(16, np.int32)
    for region, turns in ((regions[0], TURNS), (regions[-1], 3 * TURNS)):
        cl.enqueue_copy(queue, found, region)
        expected = np.int32(1)
        with np.errstate(over="ignore"):
            for _ in range(turns):
                expected = np.int32(3) * expected + np.int32(1)
        if found[0] != expected:
            wrong.append(f"{region.svm_ptr:#x}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
