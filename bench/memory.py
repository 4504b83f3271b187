"""What virtual device memory costs: directory, merges, links, read-back, launches and what stays allocated.

``python bench/memory.py [--quick] [--only NAME ...]`` prints one table.  Every figure is the median over
repetitions; those of members are of this machine's CPU driver, where a member's memory is the host's.  Where
it makes a difference the paper's protocol (``SDI_COHERENCE=host``) stands beside ours.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.chunk_overlap import Recorder, spans
from sdi.cli.copies import wait
from sdi.devices import copying
from sdi.devices.base import Device, Place
from sdi.devices.capabilities import CPU
from sdi.devices.copying import bounce as bounce_copy
from sdi.devices.discover import choose
from sdi.devices.opencl.member import OpenCLDevice, driver_devices
from sdi.intervals import ByteRange
from sdi.region import Region
from sdi.vmem.directory import Directory
from sdi.vmem.memory import Coherence
from sdi.vmem.merging.host import merge_diffs
from sdi.wire.records import Op
from tests.service.wire_client import WireClient

PROTOCOLS: tuple[Coherence, ...] = ("lazy", "host")
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
    parser.add_argument("--only", nargs="+", metavar="NAME", help="parts of the table")
    options = parser.parse_args()
    quick = options.quick
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    repetitions = 3 if quick else 7
    print(f"{platform.processor() or platform.machine()}, {len(os.sched_getaffinity(0))} CPUs, ", end="")
    print(f"commit {commit.strip()}, median of {repetitions}\n")
    nbytes = 16 * MIB if quick else 64 * MIB
    parts: dict[str, Callable[[], None]] = {
        "directory": lambda: directory(repetitions),
        "merges": lambda: merges(repetitions, nbytes),
        "links": lambda: links(repetitions, nbytes),
        "read-back": lambda: read_back(repetitions, 128 * MIB if quick else 1024 * MIB),
        "launch": lambda: symmetric_launch(repetitions, nbytes),
        "cycles": lambda: cycles(1_000, MIB),
        "stencil": lambda: stencil(repetitions, 512 if quick else 2048),
    }
    for name in options.only or parts:
        parts[name]()
    return 0


def row(what: str, value: str) -> None:
    """One line of the table."""
    print(f"  {what:58s} {value:>20s}", flush=True)


def median_s(
    repetitions: int, call: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> float:
    """The median time of a call, after one that does not count."""
    call()
    times = []
    for _ in range(repetitions):
        start = clock()
        call()
        times.append(clock() - start)
    return statistics.median(times)


def directory(repetitions: int) -> None:
    """Random writes and reads of one interval's length; the number of intervals stays about the same."""
    print("directory, us of processor time per operation")
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
            took_s = median_s(repetitions, call, time.thread_time)
            row(f"{what}, {intervals} intervals", f"{took_s / len(at) * 1e6:.2f}")


def merges(repetitions: int, nbytes: int) -> None:
    """Two copies compared with their twin and applied, one thread."""
    what = f"diff and merge of two copies of {nbytes // MIB} MiB on one host thread"
    print(f"{what}, GB/s of the buffer in processor time")
    twin = np.full(nbytes, 7, np.uint8)
    target = np.empty_like(twin)
    one_s = median_s(repetitions, lambda: np.copyto(target, twin), time.thread_time)
    row("one memcpy", f"{nbytes / one_s / 1e9:.1f}")
    for share in (0.0, 0.01, 0.5):
        first, second = twin.copy(), twin.copy()
        changed = int(nbytes * share) // 4 * 4
        if changed:
            first[:changed], second[-changed:] = 8, 9

        def merge(copies: tuple[np.ndarray, np.ndarray] = (first, second)) -> None:
            np.copyto(target, twin)
            merge_diffs(target, copies, 4)

        took_s = median_s(repetitions, merge, time.thread_time)
        row(f"{share:.0%} changed in each", f"{nbytes / took_s / 1e9:.1f} ({took_s / one_s:.1f} memcpy)")


@contextmanager
def members(count: int) -> Iterator[list[Device]]:
    """Members on the CPU driver."""
    cpus = [device for device in driver_devices() if device.kind is CPU]
    made: list[Device] = [OpenCLDevice(d, k, 1 << 32) for k, d in enumerate(choose(cpus, count, None))]
    try:
        yield made
    finally:
        for member in reversed(made):
            member.close()


def links(repetitions: int, nbytes: int) -> None:
    """One buffer from one member to the other."""
    print(f"{nbytes // MIB} MiB from one CPU member to another, GB/s")
    host = memoryview(bytearray(nbytes))
    with members(2) as (first, second):
        source, target = first.allocate(nbytes), second.allocate(nbytes)

        def peer() -> None:
            wait(copying.across(second, first, source, 0, target, 0, nbytes, [], [])[1])

        def bounce() -> None:
            there, here = Place(source, 0, first), Place(target, 0, second)
            wait(bounce_copy(there, here, Region(0, nbytes), [], [])[1])

        def arena() -> None:
            wait(copying.upload(second, host, target, 0, [copying.download(first, source, 0, host, [])]))

        for what, call in (("directly", peer), ("bounce buffer", bounce), ("through the arena", arena)):
            row(what, f"{nbytes / median_s(repetitions, call) / 1e9:.1f}")


TRIPLE = """
__kernel void triple(__global const int *from, __global int *to, int times)
{
    int i = get_global_id(0), x = from[i];
    for (int k = 0; k < times; k++)
        x = 3 * x + k;
    to[i] = x;
}
"""


def read_back(repetitions: int, nbytes: int) -> None:
    """A large buffer to the application: when the host has it, and when it is spread over members."""
    print(f"read-back of {nbytes // MIB} MiB, GB/s")
    result, source = np.zeros(nbytes, np.uint8), np.ones(nbytes, np.uint8)
    one_s = median_s(repetitions, partial(np.copyto, result, source))
    del source
    row("one memcpy", f"{nbytes / one_s / 1e9:.1f}")
    count = nbytes // 4
    for coherence in PROTOCOLS:
        with members(4) as made, WireClient(made, "always", coherence) as client:
            build, status, _ = client.build(TRIPLE)
            assert status == 0
            buffer = client.buffer(nbytes)
            times: dict[str, list[float]] = {"current on the host": [], "written by 4 members": []}
            for _ in range(repetitions + 1):
                client.launch(build, [(buffer, 0), (buffer, 0), struct.pack("<i", 1)], [count], [256])
                client.finish()
                for took in reversed(times.values()):  # the first read brings it home
                    start = time.perf_counter()
                    read_into(client, buffer, result)
                    took.append(time.perf_counter() - start)
            for what, took in times.items():
                took_s = statistics.median(took[1:])
                row(f"{what}, {coherence}", f"{nbytes / took_s / 1e9:.1f} ({took_s / one_s:.2f} memcpy)")


def read_into(client: WireClient, buffer: int, result: np.ndarray) -> None:
    """A read, with the copy that the client library makes."""
    command = client.command(Op.READ, buffer=buffer, offset=0, region=[result.nbytes, 1, 1])
    client.notice()
    np.copyto(result, np.frombuffer(client.arena, np.uint8, result.nbytes, client.offsets[buffer]))
    client.send(Op.TRANSFER_DONE, command, status=0)
    assert client.wait(command) == 0


def symmetric_launch(repetitions: int, nbytes: int) -> None:
    """A launch whose members need as much each, from the host, and its result back there (papers/1, 3.7)."""
    print(f"launch on {nbytes // MIB} MiB in and out, over the paper's N T_in + T_K + T_out of the same run")
    count = nbytes // 4
    for number in (2, 4):
        for coherence in PROTOCOLS:
            with members(number) as made:
                recorders = [Recorder(member) for member in made]
                with WireClient(recorders, "always", coherence) as client:
                    build, status, _ = client.build(TRIPLE)
                    assert status == 0
                    data = bytes(nbytes)
                    from_, to = client.buffer(data), client.buffer(nbytes)
                    found = []
                    for _ in range(repetitions + 1):
                        client.write(from_, data)
                        client.finish()
                        for recorder in recorders:
                            recorder.forget()
                        start = time.perf_counter()
                        client.launch(build, [(from_, 0), (to, 0), struct.pack("<i", 200)], [count], [256])
                        read = client.command(Op.READ, buffer=to, offset=0, region=[nbytes, 1, 1])
                        client.notice()  # the result is in the host's memory
                        took_s = time.perf_counter() - start
                        client.send(Op.TRANSFER_DONE, read, status=0)
                        client.finish()
                        found.append((took_s, paper_s(recorders)))
                    took_s, model_s = (statistics.median(each[k] for each in found[1:]) for k in (0, 1))
                    text = f"{took_s * 1e3:.0f} / {model_s * 1e3:.0f} ms = {took_s / model_s:.2f}"
                    row(f"{number} members, {coherence}", text)


def paper_s(recorders: Sequence[Recorder]) -> float:
    """N T_in + T_K + T_out, each the mean over the members."""
    sums = [
        statistics.mean(sum(stop - start for start, stop in spans(each)) for each in tickets)
        for tickets in zip(*((r.uploads, r.kernels, r.downloads) for r in recorders), strict=True)
    ]
    return (len(recorders) * sums[0] + sums[1] + sums[2]) / 1e9


def cycles(count: int, nbytes: int) -> None:
    """Buffers that are made, used by all members and released: what stays allocated."""
    print(f"{count} cycles of a buffer of {nbytes // MIB} MiB: made, written on 2 members, released")
    for coherence in PROTOCOLS:
        with members(2) as made, WireClient(made, "always", coherence) as client:
            build, status, _ = client.build(TRIPLE)
            assert status == 0
            from_, found = client.buffer(bytes(nbytes)), []
            for number in range(1, count + 1):
                to = client.buffer(nbytes)
                client.launch(build, [(from_, 0), (to, 0), struct.pack("<i", 1)], [nbytes // 4], [256])
                client.send(Op.RELEASE_BUFFER, to)
                client.finish()
                if number in (count // 10, count):
                    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf(
                        "SC_PAGESIZE"
                    )
                    found.append((sum(member.memory.in_use for member in made), resident))
            (early, early_all), (late, late_all) = found
            text = f"{early / MIB:.1f} and {late / MIB:.1f} MiB"
            row(f"on members after {count // 10} and {count} cycles, {coherence}", text)
            text = f"{early_all / MIB:.0f} and {late_all / MIB:.0f} MiB"
            row(f"resident in all after {count // 10} and {count} cycles, {coherence}", text)


def stencil(repetitions: int, width: int) -> None:
    """A ping-pong stencil on the image, in processes of their own: this one may have no image."""
    print(f"stencil on {width} x {width} floats, 20 iterations and one read, s")
    python = Path(sys.executable)
    vendors = subprocess.run(
        [python, "-m", "sdi.cli", "env", "--vendors"], capture_output=True, text=True, check=True
    ).stdout.strip()
    for count in (1, 2, 4):
        for coherence in PROTOCOLS:
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
