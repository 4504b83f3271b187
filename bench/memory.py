"""What virtual device memory costs: directory, merges, links, and a stencil in both protocols.

``python bench/memory.py [--quick]`` prints one table.  Every figure is the median over repetitions; those of
members are of this machine's CPU driver, where a member's memory is the host's.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sdi.devices.base import Device
from sdi.devices.bounce import bounce_copy
from sdi.devices.discover import choose
from sdi.devices.opencl import OpenCLDevice, driver_devices
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.vmem.directory import Directory
from sdi.vmem.merge import merge_diffs

MIB = 1 << 20
STENCIL = """
__kernel void smooth(__global const float *from, __global float *to, int width, int rows)
{
    int x = get_global_id(0), y = get_global_id(1), i = y * width + x;
    if (x == 0 || y == 0 || x == width - 1 || y == rows - 1)
        to[i] = from[i];
    else
        to[i] = 0.25f * (from[i - 1] + from[i + 1] + from[i - width] + from[i + width]);
}
"""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller buffers")
    quick = parser.parse_args().quick
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    repetitions = 3 if quick else 7
    print(f"{platform.processor() or platform.machine()}, {len(os.sched_getaffinity(0))} CPUs, ", end="")
    print(f"commit {commit.strip()}, median of {repetitions}\n")
    directory(repetitions)
    merges(repetitions, 16 * MIB if quick else 64 * MIB)
    links(repetitions, 16 * MIB if quick else 64 * MIB)
    stencil(repetitions, 512 if quick else 2048)
    return 0


def row(what: str, value: str) -> None:
    """One line of the table."""
    print(f"  {what:58s} {value:>20s}", flush=True)


def median_s(repetitions: int, call: Callable[[], object]) -> float:
    """The median time of a call, after one that does not count."""
    call()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def directory(repetitions: int) -> None:
    """Random writes and reads of one interval's length; the number of intervals stays about the same."""
    print("directory, us per operation")
    for intervals in (10, 1_000, 100_000):
        made = Directory(intervals * 64, defined=True)
        for number in range(0, intervals, 2):
            made.wrote(1 + number % 3, ByteRange(number * 64, number * 64 + 64))
        numbers = random.Random(1)
        at = [numbers.randrange(intervals) * 64 for _ in range(2_000)]

        def write(made: Directory = made, at: list[int] = at) -> None:
            for number, start in enumerate(at):
                made.wrote(1 + number % 3, ByteRange(start, start + 64))

        def read(made: Directory = made, at: list[int] = at) -> None:
            for number, start in enumerate(at):
                made.read(1 + number % 3, ByteRange(start, start + 64))

        def look(made: Directory = made, at: list[int] = at) -> None:
            for start in at:
                made.is_current(1, ByteRange(start, start + 64))

        for what, call in (("wrote", write), ("read", read), ("is_current", look)):
            row(f"{what}, {intervals} intervals", f"{median_s(repetitions, call) / len(at) * 1e6:.2f}")


def merges(repetitions: int, nbytes: int) -> None:
    """Two copies compared with their twin and applied, one thread."""
    print(f"diff and merge of two copies of {nbytes // MIB} MiB on one host thread, GB/s of the buffer")
    twin = np.full(nbytes, 7, np.uint8)
    target = np.empty_like(twin)
    row("one memcpy", f"{nbytes / median_s(repetitions, lambda: np.copyto(target, twin)) / 1e9:.1f}")
    for share in (0.0, 0.01, 0.5):
        first, second = twin.copy(), twin.copy()
        changed = int(nbytes * share) // 4 * 4
        if changed:
            first[:changed], second[-changed:] = 8, 9

        def merge(copies: tuple[np.ndarray, np.ndarray] = (first, second)) -> None:
            np.copyto(target, twin)
            merge_diffs(target, copies, 4)

        row(f"{share:.0%} changed in each", f"{nbytes / median_s(repetitions, merge) / 1e9:.1f}")


@contextmanager
def members(count: int) -> Iterator[list[Device]]:
    """Members on the CPU driver."""
    cpus = [device for device in driver_devices() if device.kind == "cpu"]
    made: list[Device] = [OpenCLDevice(d, k, 1 << 32) for k, d in enumerate(choose(cpus, count, None))]
    try:
        yield made
    finally:
        for member in reversed(made):
            member.close()


def wait(ticket: Ticket) -> None:
    """Until ``ticket`` is done."""
    done = threading.Event()
    ticket.when_done(lambda _: done.set())
    done.wait()
    assert ticket.error is None, ticket.error


def links(repetitions: int, nbytes: int) -> None:
    """One buffer from one member to the other."""
    print(f"{nbytes // MIB} MiB from one CPU member to another, GB/s")
    host = memoryview(bytearray(nbytes))
    with members(2) as (first, second):
        source, target = first.allocate(nbytes), second.allocate(nbytes)

        def peer() -> None:
            wait(second.peer_copy(first, source, 0, target, 0, nbytes, []))

        def bounce() -> None:
            wait(bounce_copy(first, source, 0, second, target, 0, nbytes, []))

        def arena() -> None:
            wait(second.upload(host, target, 0, [first.download(source, 0, host, [])]))

        for what, call in (("directly", peer), ("bounce buffer", bounce), ("through the arena", arena)):
            row(what, f"{nbytes / median_s(repetitions, call) / 1e9:.1f}")


def stencil(repetitions: int, width: int) -> None:
    """A ping-pong stencil on the image, in processes of their own: this one may have no image."""
    print(f"stencil on {width} x {width} floats, 20 iterations and one read, s")
    python = Path(sys.executable)
    vendors = subprocess.run(
        [python, "-m", "sdi.cli", "env", "--vendors"], capture_output=True, text=True, check=True
    ).stdout.strip()
    for count in (1, 2, 4):
        for coherence in ("lazy", "host"):
            environ = os.environ | {
                "OCL_ICD_VENDORS": vendors,
                "SDI_NUM_GPUS": str(count),
                "SDI_SPLIT": "always",
                "SDI_COHERENCE": coherence,
                "PYOPENCL_NO_CACHE": "1",
            }
            command = [python, __file__, "--stencil", str(width), str(repetitions)]
            done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
            row(f"{count} members, SDI_COHERENCE={coherence}", done.stdout.strip())


def run_stencil(width: int, repetitions: int) -> None:
    """In a process with the image: print the median time."""
    import pyopencl as cl

    context = cl.Context(cl.get_platforms()[0].get_devices())
    queue = cl.CommandQueue(context)
    kernel = cl.Program(context, STENCIL).build().smooth
    data = np.random.default_rng(1).random((width, width), np.float32)
    buffers = [
        cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=data)
        for _ in range(2)
    ]
    result = np.empty_like(data)

    def iterate() -> None:
        for number in range(20):
            source, target = buffers[number % 2], buffers[1 - number % 2]
            kernel(queue, (width, width), (16, 4), source, target, np.int32(width), np.int32(width))
        cl.enqueue_copy(queue, result, buffers[0])

    print(f"{median_s(repetitions, iterate):.3f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--stencil"]:
        run_stencil(int(sys.argv[2]), int(sys.argv[3]))
    else:
        sys.exit(main())
