"""What a launch costs the service from the socket to the event status page, with members that have no GPU.

``python bench/wire_launches.py [--members 1 2 4] [--profile] [--gpus]``: a client sends many
launches of a kernel at once, each with an event that it releases, as bindings of other languages do.  The
members' lanes are those of CUDA members; streams and events are Python objects: an operation is complete 5 us
after it was issued and after those before it.  Microseconds of processor time of the service's thread per
launch, least of some rounds, and behind it the calls of the driver that a launch comes to: events recorded,
questions whether one is complete, events waited for.  ``--gpus``: with CUDA members, which share the GPUs if
there are fewer.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "bench"))

from launches import SOURCE  # noqa: E402

from sdi.devices.base import Device, Place  # noqa: E402
from sdi.devices.cuda.channel import Channel, Event  # noqa: E402
from sdi.devices.cuda.info import CudaAttributes, device_info  # noqa: E402
from sdi.devices.cuda.lane import CudaLane  # noqa: E402
from sdi.devices.handles import BoundKernel  # noqa: E402
from sdi.devices.issue import MEASURED, Timing  # noqa: E402
from sdi.devices.join import united  # noqa: E402
from sdi.devices.polling import Polling  # noqa: E402
from sdi.devices.testing.null import NullDevice  # noqa: E402
from sdi.devices.ticket import Ticket  # noqa: E402
from sdi.ndrange import Int3  # noqa: E402
from sdi.region import Region  # noqa: E402
from sdi.service.session import Session  # noqa: E402
from sdi.wire.layout import layout, padded  # noqa: E402
from sdi.wire.records import BODY, COMMAND, HEADER, Op  # noqa: E402
from tests.service.wire_client import WireClient  # noqa: E402

LAUNCHES, ROUNDS, SIDE = 2000, 5, 4096
SOON_NS = 5000


_ATTRIBUTES = CudaAttributes(
    "none", "CUDA 13.0", 1 << 34, 4, 10**6, 1024, (1024, 1024, 64), 48 << 10, 64 << 10, 1 << 20, True
)


class Calls:
    """What the driver was asked for."""

    records = questions = waits = 0


class SoonEvent:
    """Of what is complete soon.  ``at_ns``: when."""

    at_ns = 0

    def record(self, stream: object) -> None:
        assert isinstance(stream, SoonStream)
        Calls.records += 1
        self.at_ns = stream.free_ns = max(stream.free_ns, time.perf_counter_ns()) + SOON_NS

    def synchronize(self) -> None:
        while not self.query():
            pass

    def query(self) -> bool:
        Calls.questions += 1
        return time.perf_counter_ns() >= self.at_ns

    def time_till(self, other: Event) -> float:
        return SOON_NS / 1e6


class SoonStream:
    """Completes everything in order.  ``free_ns``: when that is done."""

    handle = free_ns = 0

    def wait_for_event(self, event: Event) -> None:
        Calls.waits += 1


class LaneMember(NullDevice):
    """Gives launches and copies between members to a CUDA lane, whose driver does nothing."""

    def __init__(self, number: int, polling: Polling) -> None:
        super().__init__(number, info=device_info(_ATTRIBUTES))
        self._lane = CudaLane(self, f"member {number}", polling)
        self._kernels, self._copies = (
            Channel(self._lane, SoonStream(), f"sdi-gpu-{number}-{kind}") for kind in ("done", "peer-done")
        )

    def enter(self) -> None: ...

    def new_event(self, is_timed: bool) -> Event:
        return SoonEvent()

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        self.launches += 1
        return self._lane.issue(self._kernels, self.enter, wait, timing, bound)

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        if source.device is None or target.device is None:
            return super().copy(source, target, region, source_waits, target_waits, timing)
        self.copies += 1
        ticket = self._lane.issue(self._copies, self.enter, united(source_waits, target_waits), timing)
        return ticket, ticket

    def close(self) -> None:
        self._lane.close()


def on_gpus(members: int, polling: Polling) -> list[Device]:
    """CUDA members."""
    from sdi.devices.cuda.gpu import cuda_devices
    from sdi.devices.cuda.member import CudaDevice

    gpus = cuda_devices()
    return [CudaDevice(gpus[number % len(gpus)], number, 1 << 32, polling) for number in range(members)]


def measure(
    members: Sequence[Device], polling: Polling, case: str, profile: cProfile.Profile | None
) -> tuple[float, str]:
    """us of processor time per launch; calls of the driver."""
    Calls.records = Calls.questions = Calls.waits = 0
    if profile is not None:
        run = Session.run
        Session.run = lambda self: profile.runcall(run, self)  # type: ignore[method-assign]
    with WireClient(members, balance=("auto", 0), polling=polling) as client:
        clock = time.pthread_getcpuclockid(client._thread.ident or 0)
        build, status, _ = client.build(SOURCE)
        assert status == 0
        buffers = [client.buffer(4 * SIDE * SIDE) for _ in range(2)]
        best = float("inf")
        for _ in range(ROUNDS):
            records = b"".join(_launch(client, case, build, buffers, step) for step in range(LAUNCHES))
            start = time.clock_gettime_ns(clock)
            client.commands.sendall(records)
            client.finish()
            best = min(best, (time.clock_gettime_ns(clock) - start) / LAUNCHES / 1000)
    assert all(m.launches == ROUNDS * LAUNCHES for m in members if isinstance(m, LaneMember))
    if profile is not None:
        Session.run = run  # type: ignore[method-assign]
    each = [count / ROUNDS / LAUNCHES for count in (Calls.records, Calls.questions, Calls.waits)]
    return best, " ".join(f"{count:.1f}" for count in each)


def _launch(client: WireClient, case: str, build: int, buffers: list[int], step: int) -> bytes:
    """A launch with an event, and the event's release."""
    first, second = buffers[step % 2], buffers[1 - step % 2]
    values: list[bytes] = []
    index, size, local = 0, [1 << 16, 1, 1], [256, 1, 1]
    if case == "axpy":
        index, size = 1, [1 << 20, 1, 1]
        values = [_buffer(buffers[0]), _buffer(buffers[1]), _scalar(0)]
    elif case == "jacobi":
        index, size, local = 2, [SIDE, SIDE, 1], [16, 16, 1]
        values = [_buffer(first), _buffer(second), _scalar(SIDE), _scalar(SIDE)]
    entries = b"".join(values)
    command = client.new_id()
    body = layout(COMMAND).pack(1, 1 + step, 0) + layout(BODY[Op.NDRANGE]).pack(
        build, 0, index, 2 if case == "jacobi" else 1, 0, 0, 0, *size, *local, len(values), len(entries), 0, 0
    )
    tail = body + padded(entries)
    header = layout(HEADER)
    release = header.pack(header.size, Op.RELEASE_EVENT, command)
    return header.pack(header.size + len(tail), Op.NDRANGE, command) + tail + release


def _buffer(buffer: int) -> bytes:
    return struct.pack("<IIQQQ", 1, 24, buffer, 0, 0)


def _scalar(value: int) -> bytes:
    return struct.pack("<IIi4x", 0, 4, value)


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--cases", nargs="+", default=["empty", "axpy", "jacobi"])
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--gpus", action="store_true")
    options = parser.parse_args()
    sys.setswitchinterval(1e-5)  # as the service does
    print("| us of processor time per launch | " + " | ".join(map(str, options.members)) + " |")
    for case in options.cases:
        row = []
        for count in options.members:
            profile = cProfile.Profile() if options.profile else None
            polling = Polling()
            members = (
                on_gpus(count, polling) if options.gpus else [LaneMember(k, polling) for k in range(count)]
            )
            row.append(measure(members, polling, case, profile))
            if profile is not None:
                pstats.Stats(profile).sort_stats("tottime").print_stats(45)
        print(f"| {case} | " + " | ".join(f"{us:.1f} ({calls})" for us, calls in row) + " |")


if __name__ == "__main__":
    main()
