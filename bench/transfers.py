"""Writes, reads and maps that are waited for, by size, each with a launch before it.

``[sdi run -n 1 --] python bench/transfers.py [--rounds 400]``: microseconds, the tenth smallest of a hundred
and the median; a buffer is written from and read to the application's memory, and mapped for reading.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import pyopencl as cl

SOURCE = """
kernel void copy(global const uchar *a, global uchar *b)
{
    b[get_global_id(0)] = a[get_global_id(0)];
}
"""
SIZES = (1 << 10, 8 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    rounds: int = parser.parse_args().rounds
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    copy = cl.Kernel(cl.Program(context, SOURCE).build(), "copy")
    a, b = (cl.Buffer(context, cl.mem_flags.READ_WRITE, SIZES[-1]) for _ in range(2))
    for nbytes in SIZES:
        memory = np.zeros(nbytes, np.uint8)

        def read(into: np.ndarray = memory) -> None:
            cl.enqueue_copy(queue, into, b)

        def write(source: np.ndarray = memory) -> None:
            cl.enqueue_copy(queue, a, source, is_blocking=False).wait()

        def look(of: np.ndarray = memory) -> None:
            mapped, _ = cl.enqueue_map_buffer(queue, b, cl.map_flags.READ, 0, of.shape, of.dtype)
            mapped.base.release(queue)

        texts = []
        for what in (write, read, look):
            work: Callable[[], None] = what
            times = []
            for _ in range(max(20, min(rounds, (rounds << 22) // nbytes))):
                copy(queue, (nbytes,), (64,), a, b).wait()
                begin = time.perf_counter_ns()
                work()
                times.append((time.perf_counter_ns() - begin) / 1000)
            times.sort()
            texts.append(f"{times[len(times) // 10]:8.1f} {times[len(times) // 2]:8.1f}")
        print(f"{nbytes >> 10:6} KiB   write {texts[0]}   read {texts[1]}   map {texts[2]}", flush=True)


if __name__ == "__main__":
    main()
