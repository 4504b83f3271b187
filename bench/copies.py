"""What reads and writes of buffers copy per second, beside ``memcpy`` by one thread: one table.

``python -m bench.copies [--most MIB] [--rounds N]`` measures the device that ``OCL_TEST_PLATFORM`` and
``OCL_ICD_VENDORS`` choose (see ``bench.applications``), here an image of one member:
``OCL_TEST_PLATFORM=SDI OCL_ICD_VENDORS=$(sdi env --vendors) SDI_NUM_GPUS=1 python -m bench.copies``.
Every figure is a median in GB/s of blocking calls.  A fresh buffer was never written before, fresh memory has
no pages yet; "huge" is fresh memory that is advised to have huge pages, as NumPy advises for large arrays.
What is read was written by the application: nothing is brought from the member.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyopencl as cl

from bench.applications.__main__ import choose_device
from bench.applications.program import Array

MIB = 1 << 20
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.copies", description=(__doc__ or ""))
    parser.add_argument("--most", type=int, default=1024, metavar="MIB", help="the largest size")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    device = choose_device()
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    huge = HUGE_PAGES.read_text().strip() if HUGE_PAGES.exists() else "none"
    where = f"{device.name.strip()}, {device.platform.name.strip()}, {len(os.sched_getaffinity(0))} CPUs"
    print(f"{where}, huge pages: {huge}, commit {commit}, GB/s, median of {options.rounds}\n")
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    header = ["MiB", "memcpy", "to fresh", "to huge", "write", "fresh buffer", "read", "to fresh", "to huge"]
    print("| " + " | ".join(header) + " |\n" + "|---" * len(header) + "|")
    for size in (1, 2, 4, 8, 16, 64, 256, 1024):
        if size <= min(options.most, device.max_mem_alloc_size // MIB):
            speeds = measure(context, queue, size * MIB, options.rounds)
            print(f"| {size} | " + " | ".join(f"{speed:.1f}" for speed in speeds) + " |", flush=True)
    return 0


def fresh(nbytes: int, huge: bool) -> Array:
    """Memory without pages, of its own; given back with the array."""
    memory = mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if huge:
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def measure(context: cl.Context, queue: cl.CommandQueue, nbytes: int, rounds: int) -> list[float]:
    """GB/s of memcpy into warm, fresh and huge memory, of writes to a warm and a fresh buffer, of reads as
    those of memcpy.
    """
    source = np.arange(nbytes // 4, dtype=np.uint32).view(np.uint8)
    warm = np.ones(nbytes, np.uint8)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, nbytes)
    cl.enqueue_copy(queue, buffer, source)

    def copy(target: Array) -> None:
        ctypes.memmove(target.ctypes.data, source.ctypes.data, nbytes)

    def write(target: cl.Buffer) -> None:
        cl.enqueue_copy(queue, target, source, is_blocking=True)

    def read(target: Array) -> None:
        cl.enqueue_copy(queue, target, buffer, is_blocking=True)

    def new_buffer() -> cl.Buffer:
        return cl.Buffer(context, cl.mem_flags.READ_WRITE, nbytes)

    ways: list[tuple[Callable[..., None], Callable[[], object]]] = [
        (copy, lambda: warm),
        (copy, lambda: fresh(nbytes, huge=False)),
        (copy, lambda: fresh(nbytes, huge=True)),
        (write, lambda: buffer),
        (write, new_buffer),
        (read, lambda: warm),
        (read, lambda: fresh(nbytes, huge=False)),
        (read, lambda: fresh(nbytes, huge=True)),
    ]
    times: list[list[float]] = [[] for _ in ways]
    for number in range(rounds + 1):  # the first warms up
        for way, (move, make) in enumerate(ways):
            target = make()
            start = time.perf_counter()
            move(target)
            if number:
                times[way].append(time.perf_counter() - start)
            if isinstance(target, np.ndarray):
                assert target[-1] == source[-1] and target[nbytes // 2] == source[nbytes // 2]
    return [nbytes / statistics.median(found) / 1e9 for found in times]


if __name__ == "__main__":
    raise SystemExit(main())
