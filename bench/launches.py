"""What a launch costs the service itself: its processor time per launch, with members that do nothing.

``python bench/launches.py [--quick] [--profile CASE]`` prints one table.  Commands go through the engine as
those of an in-order queue do; the members take every operation and complete it when the bench says so.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import statistics
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sdi.commands import Launch  # noqa: E402
from sdi.devices.base import Device  # noqa: E402
from sdi.devices.issue import Issue  # noqa: E402
from sdi.devices.testing.null import NullDevice  # noqa: E402
from sdi.launch.counters import Counters  # noqa: E402
from sdi.launch.launcher import Launcher  # noqa: E402
from sdi.launch.programs.builds import Target, build  # noqa: E402
from sdi.ndrange import Int3  # noqa: E402
from sdi.runtime.command_graph import CommandNode, SchedulerCore  # noqa: E402
from sdi.runtime.engine import Engine  # noqa: E402
from sdi.runtime.virtual_device import VirtualDevice  # noqa: E402
from sdi.vmem.arena import Arena  # noqa: E402
from sdi.vmem.host import HostWorker  # noqa: E402
from sdi.vmem.memory import VirtualMemory  # noqa: E402

MEMBERS = (1, 2, 4)
IN_FLIGHT = 64
"""Operations of a member that are not complete yet."""

SOURCE = """
__kernel void empty(void) {}

__kernel void axpy(__global const float *x, __global float *y, float a)
{
    int i = get_global_id(0);
    y[i] += a * x[i];
}

__kernel void jacobi(__global const float *from, __global float *to, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && x < w - 1 && y > 0 && y < h - 1)
        to[y * w + x] = 0.25f * (from[y * w + x - 1] + from[y * w + x + 1]
                                 + from[(y - 1) * w + x] + from[(y + 1) * w + x]);
}

__kernel void nbody(__global const float4 *from, __global float4 *to, __global float4 *speed, int n)
{
    int i = get_global_id(0);
    float4 p = from[i], f = (float4)(0.0f);
    for (int j = 0; j < n; j++) {
        float4 d = from[j] - p;
        f += d * rsqrt(dot(d, d) + 0.01f);
    }
    speed[i] += f;
    to[i] = p + speed[i];
}

__kernel void lu(__global float *a, int n, int k)
{
    int x = k + 1 + get_global_id(0), y = k + 1 + get_global_id(1);
    if (x < n && y < n)
        a[y * n + x] -= a[y * n + k] * a[k * n + x];
}

__kernel void turn(__global float *a, int n, uint t)
{
    int x = get_global_id(0), y = get_global_id(1), from = t % 2 * n, to = n - from;
    if (x > 0 && x < n - 1 && y > 0 && y < n - 1)
        a[(to + y) * n + x] = a[(from + y + 1) * n + x] + a[(from + y - 1) * n + x + 1] + (float)t;
}
"""


class Rig:
    """The runtime of a session over null members; ``finished`` counts complete commands."""

    def __init__(self, members: int, source: str = SOURCE) -> None:
        self.nulls = [NullDevice(number, keeps=True) for number in range(members)]
        devices: list[Device] = list(self.nulls)
        self.calls: deque[Callable[[], None]] = deque()
        self.arena = Arena(1 << 34, 1 << 20)
        self.host = HostWorker(1)
        self.memory = VirtualMemory(self.arena, devices, self.host, self.calls.append)
        counters = Counters(members, self.memory.accounting, self.memory.transfers.links, "always", 1e4)
        self.launcher = Launcher(self.memory, "always", counters)
        self.core = SchedulerCore()
        self.core.create_queue(1, in_order=True)
        self.engine = Engine(self.core, VirtualDevice(self.memory, self.launcher), self, self.calls.append)
        self.launcher.add(1, build(source, "", "", Target(devices)))
        self.finished_count = self.failed = 0
        self._next = 100

    def submitted(self, node: CommandNode) -> None: ...

    def start_transfer(self, node: CommandNode) -> None: ...

    def finished(self, node: CommandNode) -> None:
        self.finished_count += 1
        self.failed += node.status < 0

    def enqueue(self, command: Launch) -> None:
        self._next += 1
        self.engine.enqueue(1, self._next, 0, command, ())

    def settle(self, keep: int) -> None:
        """Complete all but the last ``keep`` operations of each member, and do what follows."""
        for null in self.nulls:
            null.complete(keep)
        while self.calls:
            self.calls.popleft()()

    def close(self) -> None:
        while not self.core.is_settled():
            self.settle(0)
        self.host.close()
        self.arena.close()


def arguments(*values: int | bytes) -> bytes:
    """Argument entries of the wire: buffer ids as ints, values as bytes."""
    entries = bytearray()
    for value in values:
        kind, payload = (0, value) if isinstance(value, bytes) else (1, struct.pack("<QQQ", value, 0, 0))
        entries += struct.pack("<II", kind, len(payload)) + payload + bytes(-len(payload) % 8)
    return bytes(entries)


def i32(value: int) -> bytes:
    return struct.pack("<i", value)


@dataclass(frozen=True, slots=True)
class Case:
    """``launch(step)`` is the launch number ``step``; ``nbytes``: of buffers 1, 2, 3."""

    title: str
    launch: Callable[[int], Launch]
    nbytes: tuple[int, ...] = ()


def _launch(kernel: str, global_size: Int3, local_size: Int3, *values: int | bytes) -> Launch:
    dim = 2 if global_size[1] > 1 else 1
    index = _ORDER[kernel]
    given = arguments(*values)
    record = bytes([index]) + given  # what tells these launches from each other
    return Launch(1, index, dim, (0, 0, 0), global_size, local_size, given, len(values), record=record)


_ORDER = {"empty": 0, "axpy": 1, "jacobi": 2, "nbody": 3, "lu": 4, "turn": 5}
SIDE, BODIES, LU_SIDE = 4096, 1 << 18, 2048
CASES = (
    Case("empty kernel", lambda s: _launch("empty", (1 << 16, 1, 1), (256, 1, 1))),
    Case(
        "axpy, the same arguments",
        lambda s: _launch("axpy", (1 << 20, 1, 1), (256, 1, 1), 1, 2, i32(0)),
        (1 << 22,) * 2,
    ),
    Case(
        "Jacobi, ping-pong",
        lambda s: _launch("jacobi", (SIDE, SIDE, 1), (16, 16, 1), 1 + s % 2, 2 - s % 2, i32(SIDE), i32(SIDE)),
        (4 * SIDE * SIDE,) * 2,
    ),
    Case(
        "n-body, ping-pong",
        lambda s: _launch("nbody", (BODIES, 1, 1), (256, 1, 1), 1 + s % 2, 2 - s % 2, 3, i32(BODIES)),
        (16 * BODIES,) * 3,
    ),
    Case(
        "axpy, a new scalar each time",
        lambda s: _launch("axpy", (1 << 20, 1, 1), (256, 1, 1), 1, 2, i32(s)),
        (1 << 22,) * 2,
    ),
    Case(
        "LU, a new index each time",
        lambda s: _launch("lu", (LU_SIDE, LU_SIDE, 1), (16, 16, 1), 1, i32(LU_SIDE), i32(s % LU_SIDE)),
        (4 * LU_SIDE * LU_SIDE,),
    ),
    Case(
        "a step's number, of which the parity counts",
        lambda s: _launch("turn", (SIDE, SIDE, 1), (16, 16, 1), 1, i32(SIDE), i32(s)),
        (8 * SIDE * SIDE,),
    ),
)


def measure(case: Case, members: int, launches: int, profile: cProfile.Profile | None = None) -> float:
    """us of this thread's processor time per launch, after a warm-up."""
    rig = Rig(members)
    try:
        for number, nbytes in enumerate(case.nbytes, 1):
            rig.memory.create(number, nbytes, True)
        batches = []
        warm = 32
        for step in range(warm):
            rig.enqueue(case.launch(step))
            rig.settle(4)
        if profile is not None:
            profile.enable()
        for batch in range(8):
            # Outside of the measured time: the application and the wire.
            commands = [case.launch(warm + batch * launches // 8 + k) for k in range(launches // 8)]
            start = time.thread_time_ns()
            for at, command in enumerate(commands):
                rig.enqueue(command)
                if at % 8 == 7:
                    rig.settle(IN_FLIGHT)
            batches.append((time.thread_time_ns() - start) / len(commands) / 1000)
        if profile is not None:
            profile.disable()
        rig.settle(0)
        assert not rig.failed, f"{case.title}: {rig.failed} launches failed"
        assert sum(null.launches for null in rig.nulls) == (warm + 8 * (launches // 8)) * members
        return statistics.median(batches)
    finally:
        rig.close()


def measure_hits(case: Case, members: int, launches: int) -> float:
    """us of processor time that ``Launcher.issue`` alone takes on a binding hit: least of many rounds."""
    rig = Rig(members)
    try:
        for number, nbytes in enumerate(case.nbytes, 1):
            rig.memory.create(number, nbytes, True)
        best, issue = float("inf"), Issue("launch")
        for _ in range(launches // 50 + 2):
            commands = [case.launch(step) for step in range(50)]
            start = time.thread_time_ns()
            for command in commands:
                waits = next(rig.launcher.issue(command, issue), None)
                assert waits is None, "a launch is held back for memory"
            best = min(best, (time.thread_time_ns() - start) / len(commands) / 1000)
            rig.settle(0)
        return best
    finally:
        rig.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="Processor time of the service per launch.")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--profile", metavar="CASE", help="show where the time goes on 4 members")
    parser.add_argument("--sort", default="tottime", help="a key of pstats")
    options = parser.parse_args()
    launches = 400 if options.quick else 4000
    gc.freeze()  # as the service does (sdi/service/main.py)
    gc.set_threshold(10_000, 20, 50)
    if options.profile is not None:
        (case,) = (case for case in CASES if options.profile in case.title)
        profile = cProfile.Profile()
        measure(case, 4, launches, profile)
        pstats.Stats(profile).sort_stats(options.sort).print_stats(60)
        return 0
    print(f"{'us of processor time per launch':44}" + "".join(f"{n:>10}" for n in MEMBERS) + "  members")
    for case in CASES:
        row = [measure(case, members, launches) for members in MEMBERS]
        print(f"{case.title:44}" + "".join(f"{value:10.1f}" for value in row))
    print("of which issuing on a binding hit, with the members' operations (0.3 us each here)")
    for case in CASES[:4]:
        row = [measure_hits(case, members, launches) for members in MEMBERS]
        print(f"{case.title:44}" + "".join(f"{value:10.1f}" for value in row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
