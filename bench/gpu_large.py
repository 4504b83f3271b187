"""Data larger than a GPU: a buffer that is filled, transformed and checked, a matrix product, a table.

An ordinary OpenCL program; run it on the image.  Nothing but results and samples crosses to the host, but for
the table, which is written from there; it is read at random and so wanted whole by every member.
``python bench/gpu_large.py [--mib N] [--only buffer matmul table] [--rows M] [--columns N] [--items N]
[--json FILE]``
``--mib``: of the buffer, of the operands of the product together, of the table; small values, with
SDI_MEMBER_MEMORY, try the same on other members.  ``--items``: that read the table.  Ends with an error where
an answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pyopencl as cl

LOCAL, STEPS, TILE, READS = 256, 16, 16, 16
CHUNK_NBYTES = LOCAL * STEPS * 16
SEED = 2463534242
SAMPLES = 64

SOURCE = """
uint4 numbers(ulong at, uint seed) {
    uint4 x = (uint4)((uint)at, (uint)(at >> 32), (uint)at * 2654435761u, seed);
    return (x ^ (x << 13)) * 2246822519u + seed;
}

__kernel void transform(__global uint4 *p, uint seed) {
    ulong base = (ulong)get_group_id(0) * (LOCAL * STEPS) + get_local_id(0);
    for (int j = 0; j < STEPS; j++) {
        ulong at = base + (ulong)j * LOCAL;
        p[at] = p[at] * 3u + numbers(at, seed);
    }
}

__kernel void check(__global const uint4 *p, __global uint *wrong, uint seed, uint filled) {
    ulong base = (ulong)get_group_id(0) * (LOCAL * STEPS) + get_local_id(0);
    uint bad = 0;
    for (int j = 0; j < STEPS; j++) {
        ulong at = base + (ulong)j * LOCAL;
        uint4 off = p[at] - ((uint4)(filled) * 3u + numbers(at, seed));
        bad += (off.x | off.y | off.z | off.w) != 0;
    }
    __local uint sums[LOCAL];
    int me = get_local_id(0);
    sums[me] = bad;
    for (int some = LOCAL / 2; some > 0; some >>= 1) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (me < some)
            sums[me] += sums[me + some];
    }
    if (me == 0)
        wrong[get_group_id(0)] = sums[0];
}

__kernel void make_a(__global float *a, ulong inner) {
    ulong k = get_global_id(0), row = get_global_id(1);
    a[row * inner + k] = (float)((row * 7 + k) % 5) - 2.0f;
}

__kernel void make_b(__global float *b, ulong columns) {
    ulong column = get_global_id(0), k = get_global_id(1);
    b[k * columns + column] = (float)((k * 3 + column) % 7) - 3.0f;
}

__kernel void matmul(__global const float *a, __global const float *b, __global float *c,
                     ulong inner, ulong columns) {
    __local float at[TILE][TILE], bt[TILE][TILE];
    int x = get_local_id(0), y = get_local_id(1);
    ulong column = get_global_id(0), row = get_global_id(1);
    float sum = 0;
    for (ulong k = 0; k < inner; k += TILE) {
        at[y][x] = a[row * inner + k + x];
        bt[y][x] = b[(k + y) * columns + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < TILE; j++)
            sum += at[y][j] * bt[j][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * columns + column] = sum;
}

__kernel void look_up(__global const uint *table, __global uint *out, ulong entries) {
    ulong i = get_global_id(0), at = i;
    uint sum = 0;
    for (int k = 0; k < READS; k++) {
        at = at * 6364136223846793005ul + 1442695040888963407ul + sum;
        sum += table[(at >> 20) % entries];
    }
    out[i] = sum;
}

__kernel void enter(__global uint *table, __global const uint *where, uint by) {
    table[where[get_global_id(0)]] += by;
}
"""


class Steps:
    """Times of the steps of one case, printed as they are done."""

    def __init__(self, queue: cl.CommandQueue, case: str) -> None:
        self._queue, self._case = queue, case
        self.found: dict[str, float] = {}

    def done(self, name: str, begun: float, work: float, unit: str) -> None:
        self._queue.finish()
        seconds = time.perf_counter() - begun
        self.found[f"{name}_s"] = seconds
        self.found[f"{name}_{unit}"] = work / seconds / 1e9
        print(f"{self._case:7} {name:10} {seconds:8.3f} s {work / seconds / 1e9:10.1f} {unit}", flush=True)


def numbers(at: np.ndarray) -> np.ndarray:
    """What the kernels' ``numbers`` gives: uint32, shape (n, 4)."""
    low = at.astype(np.uint32)
    x = np.stack([low, (at >> np.uint64(32)).astype(np.uint32), low * np.uint32(2654435761), 0 * low], 1)
    x[:, 3] = SEED & 0xFFFFFFFF
    return (x ^ (x << np.uint32(13))) * np.uint32(2246822519) + np.uint32(SEED)


def buffer_case(context: cl.Context, program: cl.Program, nbytes: int) -> dict[str, float]:
    """Fill, transform twice over: the kernel, then its check; samples are compared with numpy."""
    chunks = nbytes // CHUNK_NBYTES
    nbytes = chunks * CHUNK_NBYTES
    queue, filled = cl.CommandQueue(context), np.uint32(12345)
    data = cl.Buffer(context, cl.mem_flags.READ_WRITE, nbytes)
    wrong = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, 4 * chunks)
    steps = Steps(queue, "buffer")
    begun = time.perf_counter()
    cl.enqueue_fill_buffer(queue, data, filled, 0, nbytes)
    steps.done("fill", begun, nbytes, "GB/s")
    begun = time.perf_counter()
    program.transform(queue, (chunks * LOCAL,), (LOCAL,), data, np.uint32(SEED))
    steps.done("transform", begun, 2 * nbytes, "GB/s")
    begun = time.perf_counter()
    program.check(queue, (chunks * LOCAL,), (LOCAL,), data, wrong, np.uint32(SEED), filled)
    steps.done("check", begun, nbytes, "GB/s")
    counts = np.empty(chunks, np.uint32)
    cl.enqueue_copy(queue, counts, wrong)
    assert not counts.any(), f"{np.count_nonzero(counts)} of {chunks} chunks are wrong"
    rng = np.random.default_rng(1)
    last = nbytes // 16 - 256
    for first in {0, last, *(int(at) for at in rng.integers(0, last + 1, SAMPLES))}:
        found = np.empty((256, 4), np.uint32)
        cl.enqueue_copy(queue, found, data, src_offset=16 * first)
        expected = filled * np.uint32(3) + numbers(np.arange(first, first + 256, dtype=np.uint64))
        assert np.array_equal(found, expected), f"elements from {first} on are wrong"
    return {"nbytes": nbytes, **steps.found}


def matmul_case(
    context: cl.Context, program: cl.Program, nbytes: int, rows: int, columns: int
) -> dict[str, float]:
    """A product of small integers, exact in float: samples, and the sum of all elements, are compared."""
    inner = nbytes // (4 * (rows + columns)) // TILE * TILE
    assert 6 * inner < 1 << 24, "sums would not be exact"
    queue = cl.CommandQueue(context)
    a, b, c = (
        cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * n)
        for n in (rows * inner, inner * columns, rows * columns)
    )
    steps = Steps(queue, "matmul")
    begun = time.perf_counter()
    program.make_a(queue, (inner, rows), (TILE, TILE), a, np.uint64(inner))
    program.make_b(queue, (columns, inner), (TILE, TILE), b, np.uint64(columns))
    steps.done("make", begun, 4 * inner * (rows + columns), "GB/s")
    begun = time.perf_counter()
    shape = ((columns, rows), (TILE, TILE))
    program.matmul(queue, *shape, a, b, c, np.uint64(inner), np.uint64(columns))
    steps.done("multiply", begun, 2.0 * rows * columns * inner, "GFLOP/s")
    found = np.empty((rows, columns), np.float32)
    cl.enqueue_copy(queue, found, c)
    k = np.arange(inner, dtype=np.int64)
    a_sums = np.array([sum((row * 7 + r) % 5 - 2 for row in range(rows)) for r in range(5)])[k % 5]
    b_sums = np.array([sum((r + column) % 7 - 3 for column in range(columns)) for r in range(7)])[k * 3 % 7]
    total = int((a_sums * b_sums).sum())
    assert int(found.astype(np.int64).sum()) == total, "the sum of all elements is wrong"
    rng = np.random.default_rng(2)
    for _ in range(SAMPLES):
        row, column = int(rng.integers(rows)), int(rng.integers(columns))
        expected = int((((row * 7 + k) % 5 - 2) * ((k * 3 + column) % 7 - 3)).sum())
        assert found[row, column] == expected, f"[{row}, {column}]: {found[row, column]}, not {expected}"
    return {"nbytes": 4 * (inner * (rows + columns) + rows * columns), **steps.found}


def looked_up(table: np.ndarray, items: np.ndarray) -> np.ndarray:
    """What ``look_up`` gives for some work-items."""
    at, total = items.astype(np.uint64), np.zeros(len(items), np.uint32)
    for _ in range(READS):
        at = at * np.uint64(6364136223846793005) + np.uint64(1442695040888963407) + total.astype(np.uint64)
        total = total + table[(at >> np.uint64(20)) % np.uint64(len(table))]
    return total


def table_case(context: cl.Context, program: cl.Program, nbytes: int, items: int) -> dict[str, float]:
    """A table that every work-item reads at random, and then writes at places that a list gives."""
    entries = nbytes // 4
    table = np.arange(entries, dtype=np.uint32) * np.uint32(2654435761)
    queue = cl.CommandQueue(context)
    steps = Steps(queue, "table")
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * entries)
    out = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, 4 * items)
    begun = time.perf_counter()
    cl.enqueue_copy(queue, buffer, table)
    steps.done("write", begun, 4 * entries, "GB/s")
    some = np.random.default_rng(3).integers(0, items, min(items, 100_000))
    found = np.empty(items, np.uint32)
    changed = min(1 << 20, entries // 2) // LOCAL * LOCAL
    where = np.random.default_rng(4).permutation(changed).astype(np.uint32) * np.uint32(entries // changed)
    places = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=where)
    look_up, enter = cl.Kernel(program, "look_up"), cl.Kernel(program, "enter")
    for name in ("first", "again", "changed"):
        begun = time.perf_counter()
        look_up(queue, (items,), (LOCAL,), buffer, out, np.uint64(entries))
        steps.done(name, begun, READS * items, "Greads/s")
        cl.enqueue_copy(queue, found, out)
        assert np.array_equal(found[some], looked_up(table, some)), f"{name}: what was looked up is wrong"
        if name == "again":
            enter(queue, (changed,), (LOCAL,), buffer, places, np.uint32(9))
            table[where] += np.uint32(9)
    return {"nbytes": 4 * entries, **steps.found}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=150 << 10)
    parser.add_argument(
        "--only", nargs="+", choices=["buffer", "matmul", "table"], default=["buffer", "matmul"]
    )
    parser.add_argument("--items", type=int, default=1 << 24)
    parser.add_argument("--rows", type=int, default=16384)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = cl.get_platforms()[0].get_devices()[0]
    print(f"{device.name}: {device.global_mem_size / 2**30:.0f} GiB, {options.mib} MiB asked")
    context = cl.Context([device])
    program = cl.Program(context, SOURCE).build(
        f"-DLOCAL={LOCAL} -DSTEPS={STEPS} -DTILE={TILE} -DREADS={READS}"
    )
    nbytes = options.mib << 20
    results: dict[str, dict[str, float]] = {}
    if "buffer" in options.only:
        results["buffer"] = buffer_case(context, program, nbytes)
    if "matmul" in options.only:
        results["matmul"] = matmul_case(context, program, nbytes, options.rows, options.columns)
    if "table" in options.only:
        results["table"] = table_case(context, program, nbytes, options.items)
    print("everything is right")
    if options.json is not None:
        options.json.write_text(json.dumps({"device": device.name, **results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
