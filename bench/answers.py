"""Kernels that use the results of their atomics, on images of several sizes: appends, and seldom hits.

``sdi run -- python -m bench.answers [--members 1,2] [--launches 60] [--rounds 2000] [--size 4194304]``

Each image is a process of its own (SDI_NUM_GPUS; all other settings are this one's); a launch is timed with
the reset of its counter and the read of it.  ``--rounds``: of the hash that each item computes, so that a
launch takes some milliseconds.  Per kernel: milliseconds, the median of the second half of the launches, the
whole loop's seconds, and both against the first image.  Ends with 1 where counts, or the sets of what was
found, differ.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SOURCE = """
uint hash(uint x, int rounds)
{
    for (int i = 0; i < rounds; i++)
        x = (x ^ (x >> 15)) * 0x2c1b3c6du + i;
    return x;
}

kernel void plain(global uint *found, global uint *out, uint mask, int rounds)
{
    uint i = get_global_id(0);
    out[i] = hash(i, rounds) & mask;
}

kernel void compact(volatile global uint *found, global uint *out, uint mask, int rounds)
{
    uint i = get_global_id(0);
    if (!(hash(i, rounds) & mask))
        out[atomic_inc(found)] = i;
}

kernel void grouped(volatile global uint *found, global uint *out, uint mask, int rounds)
{
    local uint count, base;
    uint i = get_global_id(0), slot;
    if (get_local_id(0) == 0)
        count = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    bool keep = !(hash(i, rounds) & mask);
    if (keep)
        slot = atomic_inc(&count);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0)
        base = atomic_add(found, count);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (keep)
        out[base + slot] = i;
}

kernel void limited(volatile global uint *found, global uint *out, uint mask, int rounds, uint limit)
{
    uint i = get_global_id(0);
    if (!(hash(i, rounds) & mask)) {
        uint at = atomic_inc(found);
        if (at < limit)
            out[at] = i;
    }
}

kernel void search(volatile global uint *found, global uint *hit, uint mask, int rounds, uint wanted)
{
    uint i = get_global_id(0);
    if ((hash(i, rounds) & mask) == wanted) {
        uint at = atomic_xchg(&found[1], i) ? 1 : atomic_inc(found);
        hit[at & 15] = i;
    }
}
"""


def cases(size: int) -> dict[str, tuple[str, int, tuple[np.uint32, ...]]]:
    """By title: kernel, mask of the hash, further arguments."""
    every = (1 << 32) - 1
    return {
        "without": ("plain", every, ()),
        "compaction, 1 of 16": ("compact", 15, ()),
        "once for each group": ("grouped", 15, ()),
        "below a limit": ("limited", 255, (np.uint32(size),)),
        "search, no hit": ("search", every, (np.uint32(0xDEADBEEF),)),
        "search, always hits": ("search", 4095, (np.uint32(7),)),
    }


def measure(size: int, launches: int, rounds: int) -> dict[str, object]:
    """On the image of this process."""
    import pyopencl as cl

    name = os.environ.get("OCL_TEST_PLATFORM", "SDI")
    devices = [device for each in cl.get_platforms() if name in each.name for device in each.get_devices()]
    context = cl.Context(devices[:1])
    queue, program = cl.CommandQueue(context), cl.Program(context, SOURCE).build()
    found = cl.Buffer(context, cl.mem_flags.READ_WRITE, 8)
    out = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * size)
    report: dict[str, object] = {}
    for title, (kernel_name, mask, more) in cases(size).items():
        kernel = cl.Kernel(program, kernel_name)
        kernel.set_args(found, out, np.uint32(mask), np.int32(rounds), *more)
        took, count, zero = [], np.zeros(2, np.uint32), np.zeros(2, np.uint32)
        begin = time.perf_counter()
        for _ in range(launches):
            start = time.perf_counter()
            cl.enqueue_copy(queue, found, zero, is_blocking=False)
            cl.enqueue_nd_range_kernel(queue, kernel, (size,), (64,))
            cl.enqueue_copy(queue, count, found)
            took.append(time.perf_counter() - start)
        total = time.perf_counter() - begin
        result = 0
        if kernel_name in ("compact", "grouped", "limited"):
            items = np.empty(int(count[0]), np.uint32)
            cl.enqueue_copy(queue, items, out)
            result = int(
                np.sort(items).astype(np.uint64) @ np.arange(len(items), dtype=np.uint64) % (1 << 31)
            )
        median = statistics.median(took[launches // 2 :])
        report[title] = {"ms": 1e3 * median, "s": total, "count": int(count[0]), "set": result}
    return report


def main() -> int:
    """All images, then the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", default="1,2")
    parser.add_argument("--launches", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--size", type=int, default=1 << 22)
    parser.add_argument("--here", action="store_true", help="only this process' image, as JSON")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measure(options.size, options.launches, options.rounds)))
        return 0
    reports = {}
    for members in options.members.split(","):
        numbers = [f"--{name}={getattr(options, name)}" for name in ("launches", "rounds", "size")]
        command = [sys.executable, "-W", "ignore", "-m", "bench.answers", "--here", *numbers]
        variables = {**os.environ, "SDI_NUM_GPUS": members}
        done = subprocess.run(command, check=False, cwd=ROOT, env=variables, capture_output=True, text=True)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return 1
        reports[members] = json.loads(done.stdout.splitlines()[-1])
    first, status = next(iter(reports.values())), 0
    print(f"{'':22}" + "".join(f"{f'image of {members}':>34}" for members in reports))
    for title, base in first.items():
        row = f"{title:22}"
        for found in (report[title] for report in reports.values()):
            row += f"{found['ms']:10.2f} ms {base['ms'] / found['ms']:5.2f}x"
            row += f"{found['s']:7.2f} s {base['s'] / found['s']:4.2f}x"
            is_same = (found["count"], found["set"]) == (base["count"], base["set"])
            if not is_same and "always" not in title:
                row, status = f"{row} differs", 1
        print(row)
    return status


if __name__ == "__main__":
    sys.exit(main())
