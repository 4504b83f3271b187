"""What planning the launches of the paper's applications costs the service, with members that do nothing.

``python bench/planning.py [NAME ...] [--size gpu] [--members 2] [--runs 4] [--profile]``: each run makes new
buffers and launches what the application launches; kernels take ``--launch-ms`` on one member, copies what a
link of 50 GB/s takes.  Milliseconds of processor time in plans (``plan_ns`` of SDI_STATS, figures' "analysis
at launch") in the first run, and in the median of the others.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "bench"))


from bench.applications import NAMES  # noqa: E402
from bench.applications.program import Array, load  # noqa: E402
from sdi.commands import Launch  # noqa: E402
from sdi.devices.base import Device, Place  # noqa: E402
from sdi.devices.handles import BoundKernel  # noqa: E402
from sdi.devices.issue import MEASURED, Timing  # noqa: E402
from sdi.devices.testing.null import NullDevice  # noqa: E402
from sdi.devices.ticket import Ticket  # noqa: E402
from sdi.intervals import ByteRange  # noqa: E402
from sdi.launch.counters import Counters  # noqa: E402
from sdi.launch.launcher import Launcher  # noqa: E402
from sdi.launch.programs.builds import Target, build  # noqa: E402
from sdi.ndrange import Int3  # noqa: E402
from sdi.region import Region  # noqa: E402
from sdi.runtime.command_graph import CommandNode, SchedulerCore  # noqa: E402
from sdi.runtime.engine import Engine  # noqa: E402
from sdi.runtime.virtual_device import VirtualDevice  # noqa: E402
from sdi.vmem.arena import Arena  # noqa: E402
from sdi.vmem.directory import HOST  # noqa: E402
from sdi.vmem.host import HostWorker  # noqa: E402
from sdi.vmem.memory import VirtualMemory  # noqa: E402

COPY_NS_PER_BYTE = 0.02


class TimedDevice(NullDevice):
    """A null member whose tickets took some time."""

    def __init__(self, number: int, launch_ns: float) -> None:
        super().__init__(number, memory_nbytes=139 << 30, keeps=True)
        self.launch_ns = launch_ns
        self.total_groups = 1
        self._ends: deque[tuple[Ticket, int]] = deque()

    def took(self, ticket: Ticket, ns: float) -> Ticket:
        self._ends.append((ticket, max(1, int(ns))))
        return ticket

    def complete(self, keep: int = 0) -> None:
        while len(self._ends) > keep:
            ticket, ns = self._ends.popleft()
            ticket.complete(None, 1, 1 + ns)

    def _issue(self, wait: Sequence[Ticket], more: Sequence[Ticket] = ()) -> Ticket:
        return self.took(Ticket(self), 1)

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        ns = region.total_nbytes * COPY_NS_PER_BYTE if source.device is None else 1
        ticket = self.took(Ticket(self), ns)
        return ticket, ticket

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        share = groups[0] * groups[1] * groups[2] / self.total_groups
        return self.took(Ticket(self), share * self.launch_ns)


class Rig:
    """The runtime of a session over such members."""

    def __init__(self, source: str, members: int, launch_ns: float, arena_nbytes: int) -> None:
        self.devices = [TimedDevice(number, launch_ns) for number in range(members)]
        devices: list[Device] = list(self.devices)
        self.calls: deque[Callable[[], None]] = deque()
        self.arena = Arena(arena_nbytes, 1 << 20)
        self.host = HostWorker(1)
        self.memory = VirtualMemory(self.arena, devices, self.host, self.calls.append)
        self.counters = Counters(members, self.memory.accounting, self.memory.transfers.links, "always", 1e4)
        launcher = Launcher(self.memory, "auto", self.counters, balance=("auto", 0))
        self.core = SchedulerCore()
        self.core.create_queue(1, in_order=True)
        self.engine = Engine(self.core, VirtualDevice(self.memory, launcher), self, self.calls.append)
        made = build(source, "", "", Target(devices))
        launcher.add(1, made)
        self.kernels = {kernel.model.name: number for number, kernel in enumerate(made.kernels)}
        self.models = [kernel.model for kernel in made.kernels]
        self.failed = 0
        self.next_id = 100

    def submitted(self, node: CommandNode) -> None: ...

    def start_transfer(self, node: CommandNode) -> None: ...

    def finished(self, node: CommandNode) -> None:
        if node.status < 0:
            self.failed += 1
            print(node.failure)

    def settle(self, keep: int = 0) -> None:
        for device in self.devices:
            device.complete(keep)
        while self.calls:
            self.calls.popleft()()

    def close(self) -> None:
        while not self.core.is_settled():
            self.settle()
        self.host.close()
        self.arena.close()

    def plan_ns(self) -> int:
        """So far, of all kernels."""
        return sum(self.counters.kernel(name).plan_ns for name in self.kernels)


@dataclass(slots=True)
class ReplaySession:
    """Looks like ``bench.applications.program.Session``; nothing is computed, and downloads give zeros."""

    rig: Rig
    buffers: list[int]
    launches: int = 0

    def upload(self, array: Array) -> int:
        buffer = self.empty(array.nbytes)
        self.rig.memory.buffer(buffer).directory.wrote(HOST, ByteRange(0, array.nbytes))
        return buffer

    def empty(self, nbytes: int) -> int:
        self.rig.next_id += 1
        self.rig.memory.create(self.rig.next_id, nbytes, False)
        self.buffers.append(self.rig.next_id)
        return self.rig.next_id

    def zeros(self, nbytes: int) -> int:
        buffer = self.empty(nbytes)
        self.rig.memory.buffer(buffer).directory.wrote(HOST, ByteRange(0, nbytes))
        return buffer

    def launch(
        self, kernel: str, global_size: Sequence[int], local_size: Sequence[int], *values: Any
    ) -> None:
        entries = bytearray()
        number = self.rig.kernels[kernel]
        for argument, value in zip(self.rig.models[number].arguments, values, strict=True):
            if isinstance(value, int):
                payload = struct.pack("<QQQ", value, 0, 0)
            elif isinstance(value, np.generic | np.ndarray):
                payload = value.tobytes()
            else:
                payload = struct.pack("<Q", value.size)
            entries += struct.pack("<II", argument.kind.value, len(payload)) + payload
            entries += bytes(-len(payload) % 8)
        size, local = (tuple([*map(int, each), 1, 1][:3]) for each in (global_size, local_size))
        groups = [s // n for s, n in zip(size, local, strict=True)]
        for device in self.rig.devices:
            device.total_groups = groups[0] * groups[1] * groups[2]
        given = bytes(entries)
        record = repr((number, size, local)).encode() + given
        launch = Launch(
            1, number, len(global_size), (0, 0, 0), size, local, given, len(values), record=record
        )
        self.rig.next_id += 1
        self.rig.engine.enqueue(1, self.rig.next_id, 0, launch, ())
        self.rig.settle()
        self.launches += 1

    def download(self, buffer: int, shape: int | tuple[int, ...], dtype: type) -> Array:
        self.rig.settle()
        return np.zeros(shape, dtype)


def measure(
    name: str, size: str, members: int, runs: int, launch_ns: float, profile: cProfile.Profile | None
) -> tuple[list[float], int]:
    """Milliseconds of planning in each run, and launches of a run."""
    application = load(name)
    inputs = application.inputs(application.SIZES[size])
    rig = Rig(application.SOURCE, members, launch_ns, 1 << 38)
    found: list[float] = []
    clock, time.perf_counter_ns = time.perf_counter_ns, time.thread_time_ns  # of a machine that others use
    try:
        for number in range(runs):
            before = rig.plan_ns()
            session = ReplaySession(rig, [])
            if profile is not None and number:
                profile.enable()
            application.run(session, application.SIZES[size], inputs)  # type: ignore[arg-type]
            rig.settle()
            if profile is not None:
                profile.disable()
            for buffer in session.buffers:
                rig.memory.release(buffer)
            rig.settle()
            found.append((rig.plan_ns() - before) / 1e6)
        assert not rig.failed, f"{name}: {rig.failed} commands failed"
        return found, session.launches
    finally:
        time.perf_counter_ns = clock
        rig.close()


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--size", default="gpu")
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--launch-ms", type=float, default=8.0)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    print(f"{'application':20}{'launches':>10}{'first, ms':>12}{'later, ms':>12}{'us each':>10}")
    for name in options.names:
        profile = cProfile.Profile() if options.profile else None
        try:
            took, launches = measure(
                name, options.size, options.members, options.runs, options.launch_ms * 1e6, profile
            )
        except (MemoryError, ValueError) as error:
            print(f"{name:20} {type(error).__name__}: {error}")
            continue
        later = statistics.median(took[1:])
        print(f"{name:20}{launches:10}{took[0]:12.2f}{later:12.2f}{later / launches * 1e3:10.0f}", flush=True)
        if profile is not None:
            pstats.Stats(profile).sort_stats("cumtime").print_stats(45)


if __name__ == "__main__":
    main()
