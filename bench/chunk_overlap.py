"""How much of the copies of a launch in chunks runs beside its kernels.

``python bench/chunk_overlap.py [--quick]`` launches a kernel on data twice as large as all members may hold,
on the CPU driver, records when each member's kernels and copies ran, and prints what share of the copies'
time was hidden.  The first chunk's copies to a member and the last one's from it can't be: counted apart.
"""

from __future__ import annotations

import argparse
import statistics
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sdi.devices.base import Device, Place  # noqa: E402
from sdi.devices.capabilities import CPU  # noqa: E402
from sdi.devices.discover import choose  # noqa: E402
from sdi.devices.handles import BoundKernel  # noqa: E402
from sdi.devices.issue import MEASURED, Timing  # noqa: E402
from sdi.devices.opencl.member import OpenCLDevice, driver_devices  # noqa: E402
from sdi.devices.testing.forwarding import ForwardingDevice  # noqa: E402
from sdi.devices.ticket import Ticket  # noqa: E402
from sdi.ndrange import Int3  # noqa: E402
from sdi.region import Region  # noqa: E402
from tests.service.wire_client import WireClient  # noqa: E402

MIB = 1 << 20
SOURCE = """
__kernel void heavy(__global const float *from, __global float *to, int times)
{
    size_t i = get_global_id(0);
    float x = from[i];
    for (int k = 0; k < times; k++)
        x = x * 1.0001f + 0.5f;
    to[i] = x;
}
"""
Span = tuple[int, int]


class Recorder(ForwardingDevice):
    """Remembers the tickets of a member's kernels and of its copies from and to the host."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.forget()

    def forget(self) -> None:
        """Begin again."""
        self.kernels: list[Ticket] = []
        self.uploads: list[Ticket] = []
        self.downloads: list[Ticket] = []

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        self.kernels.append(super().launch(bound, groups, local_size, work_dim, wait, timing))
        return self.kernels[-1]

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        left, ticket = super().copy(source, target, region, source_waits, target_waits, timing)
        if source.device is None:
            self.uploads.append(ticket)
        elif target.device is None:
            self.downloads.append(ticket)
        return left, ticket


def spans(tickets: Sequence[Ticket]) -> list[Span]:
    """When they ran."""
    return sorted((ticket.start_ns, ticket.end_ns) for ticket in tickets if ticket.end_ns)


def covered(span: Span, others: Sequence[Span]) -> int:
    """How much of ``span`` the disjoint ``others`` cover."""
    return sum(max(0, min(span[1], stop) - max(span[0], start)) for start, stop in others)


def hidden(member: Recorder) -> tuple[float, float, int]:
    """The shares of the copies' time that kernels hid, of those that they can hide and of all; and chunks."""
    kernels = spans(member.kernels)
    first, last = kernels[0][0], kernels[-1][1]
    everything = spans([*member.uploads, *member.downloads])
    inner = [span for span in everything if span[1] > first and span[0] < last]
    shares = [
        sum(covered(span, kernels) for span in copies) / max(1, sum(b - a for a, b in copies))
        for copies in (inner, everything)
    ]
    return shares[0], shares[1], len(kernels)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, once")
    quick = parser.parse_args().quick
    limit = (8 if quick else 32) * MIB
    members, count = 2, limit // 2
    print(f"{members} members of {limit // MIB} MiB, {2 * 4 * count // MIB} MiB of data: per member")
    for times in (50, 200, 800):
        found: list[tuple[float, float, int]] = []
        for _ in range(1 if quick else 3):
            cpus = [device for device in driver_devices() if device.kind is CPU]
            recorders = [
                Recorder(OpenCLDevice(device, number, limit))
                for number, device in enumerate(choose(cpus, members, None))
            ]
            with WireClient(recorders) as client:
                build, status, log = client.build(SOURCE)
                assert status == 0, log
                from_, to = client.buffer(bytes(4 * count)), client.buffer(bytes(4 * count))
                arguments = [(from_, 0), (to, 0), struct.pack("<i", times)]
                client.launch(build, arguments, [count], [64])
                client.finish()
            found += [hidden(recorder) for recorder in recorders]
        inner, everything = (statistics.median(each[k] for each in found) for k in (0, 1))
        chunks = found[0][2]
        shares = f"{inner:4.0%} hidden of what can be, {everything:4.0%} of all"
        print(f"  {times:4d} steps per item, {chunks} chunks: {shares}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
