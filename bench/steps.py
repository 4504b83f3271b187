"""Steps of an application that does something of its own between, or makes its buffers anew.

``OCL_ICD_VENDORS=folder python bench/steps.py``: on the first device there is, which may be an image's
(``sdi run -n 1 -- python bench/steps.py``).  Microseconds in the median: of a launch and its wait, and of a
blocking read of 4 KiB, after the application was busy for so long; milliseconds of a step that makes so many
buffers of 4 KiB, launches a kernel on each and releases them all.  Needs pyopencl.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import pyopencl as cl

SOURCE = """
kernel void add(global int *to, global const int *from)
{
    size_t i = get_global_id(0);
    to[i] = from[i] + 1;
}
"""
NUM, GROUP = 1024, 64
PAUSES_US = (0, 50, 150, 300, 1_000, 3_000, 10_000)
COUNTS = (100, 300, 1_000, 3_000)
STEPS = 12
"""The first two are not counted."""


def took_us(do: Callable[[], object], pause_us: int) -> float:
    """After as much work of our own."""
    begin = time.perf_counter()
    while (time.perf_counter() - begin) * 1e6 < pause_us:
        pass
    begin = time.perf_counter()
    do()
    return (time.perf_counter() - begin) * 1e6


def paused(queue: cl.CommandQueue, kernel: cl.Kernel, buffers: list[cl.Buffer], pause_us: int) -> list[float]:
    """Medians of a launch with its wait and of a read."""
    found, times = np.zeros(NUM, np.int32), []
    kernel.set_args(*buffers)
    for _ in range(200 if pause_us > 5_000 else 500):
        launched = took_us(
            lambda: cl.enqueue_nd_range_kernel(queue, kernel, (NUM,), (GROUP,)).wait(), pause_us
        )
        times.append((launched, took_us(lambda: cl.enqueue_copy(queue, found, buffers[0]), pause_us)))
    return [median(each) for each in zip(*times[len(times) // 4 :], strict=True)]


def with_new_buffers(queue: cl.CommandQueue, kernel: cl.Kernel, count: int) -> float:
    """Milliseconds of a step."""
    first, found, times = np.zeros(NUM, np.int32), np.zeros(NUM, np.int32), []
    for _ in range(STEPS):
        begin = time.perf_counter()
        buffers = [cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, first.nbytes) for _ in range(count)]
        cl.enqueue_copy(queue, buffers[0], first)
        for to, from_ in zip(buffers[1:], buffers, strict=False):
            kernel(queue, (NUM,), (GROUP,), to, from_)
        cl.enqueue_copy(queue, found, buffers[-1])
        assert (found == count - 1).all()
        for buffer in buffers:
            buffer.release()
        times.append((time.perf_counter() - begin) * 1e3)
    return median(times[2:])


def main() -> None:
    """Print a line for each pause and each number of buffers."""
    device = cl.get_platforms()[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    kernel = cl.Kernel(cl.Program(context, SOURCE).build(), "add")
    buffers = [cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * NUM) for _ in range(2)]
    cl.enqueue_copy(queue, buffers[1], np.zeros(NUM, np.int32))
    print(device.name)
    for pause_us in PAUSES_US:
        launched, read = paused(queue, kernel, buffers, pause_us)
        print(f"after {pause_us:>6} us: launch and wait {launched:7.1f} us, read {read:7.1f} us", flush=True)
    for count in COUNTS:
        print(f"{count:>5} new buffers: {with_new_buffers(queue, kernel, count):8.2f} ms", flush=True)


if __name__ == "__main__":
    main()
