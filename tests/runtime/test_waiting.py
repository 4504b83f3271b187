"""What calls wait for, and what they do not: one member's kernels end only when they are told to."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from sdi.devices.base import Device, Place
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.handles import BoundKernel
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3
from sdi.region import Region
from sdi.wire.records import NoticeKind, Op
from tests.service.wire_client import WireClient

MEMBERS, N = 3, 3 * 1024
NBYTES = 4 * N
SOURCE = """
kernel void twice(global const int *in, global int *out) {
    out[get_global_id(0)] = 2 * in[get_global_id(0)];
}
"""
PATIENCE_S = 60.0


class Gated(ForwardingDevice):
    """``device``, whose next kernels wait for one of ``gates`` each."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.gates: deque[Ticket] = deque()
        self.uploads: list[Ticket] = []

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        gate = [self.gates.popleft()] if self.gates else []
        return super().launch(bound, groups, local_size, work_dim, [*wait, *gate], timing)

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
        return left, ticket


class Stage:
    """A client with three queues, and kernels that do not end on one member before their ``gates`` open."""

    def __init__(self, client: WireClient, devices: list[Gated]) -> None:
        self.client = client
        self.devices = devices
        self.gates = [Ticket() for _ in range(4)]
        self.build, status, log = client.build(SOURCE)
        assert status == 0, log
        self.data = np.arange(N, dtype=np.int32)
        self.a, self.b, self.c, self.d = (client.buffer(self.data.tobytes()) for _ in range(4))
        self.second, self.third = client.new_id(), client.new_id()
        for queue in (self.second, self.third):
            client.send(Op.CREATE_QUEUE, queue, properties=0)

    def launch(self, source: int, target: int, **more: int) -> int:
        return self.client.launch(self.build, [(source, 0), (target, 0)], [N], [64], **more)

    def read(self, buffer: int) -> np.ndarray:
        """A blocking read in the third queue."""
        client = self.client
        command = client.command(Op.READ, buffer=buffer, region=[NBYTES, 1, 1], queue=self.third)
        assert client.notice()[:2] == (NoticeKind.TRANSFER_READY, command)
        found = np.frombuffer(
            client.arena[client.offsets[buffer] : client.offsets[buffer] + NBYTES], np.int32
        )
        client.send(Op.TRANSFER_DONE, command, status=0)
        assert client.wait(command) == 0
        return found


@pytest.fixture(params=range(MEMBERS), ids=lambda member: f"member-{member}-late")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """After a first launch from ``a`` to ``b``, so that members hold ``b``; then the gates are shut."""
    devices = [Gated(device) for device in open_members(MemberSettings(count=MEMBERS))]
    with WireClient(devices) as client:
        made = Stage(client, devices)
        made.launch(made.a, made.b)
        client.finish()
        devices[request.param].gates.extend(made.gates)
        yield made
        for gate in made.gates:
            if not gate.done:
                gate.complete()
        client.finish()
    made.__dict__.clear()  # pytest keeps what a fixture made for a while


def test_reads_writes_and_maps_of_a_buffer_do_not_wait_for_kernels_on_others(stage: Stage) -> None:
    client = stage.client
    pending = stage.launch(stage.c, stage.d)
    assert (stage.read(stage.b) == 2 * stage.data).all()  # members wrote it
    assert (stage.read(stage.a) == stage.data).all()  # the host has it still
    write = client.command(Op.WRITE, buffer=stage.a, region=[NBYTES, 1, 1], queue=stage.second)
    assert client.notice()[:2] == (NoticeKind.TRANSFER_READY, write)
    client.send(Op.TRANSFER_DONE, write, status=0)
    mapped = client.command(Op.MAP, buffer=stage.b, region=[NBYTES, 1, 1], flags=1, queue=stage.second)
    assert client.wait(mapped) == 0
    assert client.slot(pending)[0] > 0
    stage.gates[0].complete()
    assert client.wait(pending) == 0


def test_a_read_waits_for_the_kernel_that_writes_its_buffer_and_for_no_later_one(stage: Stage) -> None:
    client = stage.client
    pending = stage.launch(stage.c, stage.d)
    command = client.command(Op.READ, buffer=stage.d, region=[NBYTES, 1, 1], queue=stage.second)
    later = stage.launch(stage.c, stage.b)
    assert (stage.read(stage.a) == stage.data).all()  # so all are issued, and the other read is not ready
    stage.gates[0].complete()
    assert client.notice()[:2] == (NoticeKind.TRANSFER_READY, command)
    at = client.offsets[stage.d]
    assert client.arena[at : at + NBYTES] == (2 * stage.data).tobytes()
    client.send(Op.TRANSFER_DONE, command, status=0)
    assert client.wait(command) == client.wait(pending) == 0
    assert client.slot(later)[0] > 0
    stage.gates[1].complete()
    assert client.wait(later) == 0


def test_copies_of_the_next_launch_run_beside_the_kernel_before_it(stage: Stage) -> None:
    client, fresh = stage.client, stage.client.buffer(stage.data.tobytes())
    for device in stage.devices:
        device.uploads.clear()
    pending = stage.launch(stage.c, stage.d)
    following = stage.launch(fresh, stage.a)
    assert client.wait(client.command(Op.MARKER, queue=stage.third)) == 0  # all that came before is issued
    uploads = [ticket for device in stage.devices for ticket in device.uploads]
    assert len(uploads) == 2 * MEMBERS  # a third of ``c`` to each, and of ``fresh``
    done = threading.Semaphore(0)
    for ticket in uploads:
        ticket.when_done(lambda _: done.release())
    for _ in uploads:
        assert done.acquire(timeout=PATIENCE_S)
    assert all(client.slot(command)[0] > 0 for command in (pending, following))


def test_copies_of_the_next_chunk_run_beside_the_kernel_of_the_one_before() -> None:
    limit, gate = 64 << 10, Ticket()
    count = limit // 4  # two buffers of a member's size: four chunks, each of half a member
    (device,) = (Gated(each) for each in open_members(MemberSettings(count=1, memory_nbytes=limit)))
    device.gates.append(gate)
    with WireClient([device]) as client:
        build, status, log = client.build(SOURCE)
        assert status == 0, log
        data = np.arange(count, dtype=np.int32)
        source, target = client.buffer(data.tobytes()), client.buffer(4 * count)
        other = client.new_id()
        client.send(Op.CREATE_QUEUE, other, properties=0)
        launch = client.launch(build, [(source, 0), (target, 0)], [count], [64])
        assert client.wait(client.command(Op.MARKER, queue=other)) == 0  # what has room is issued
        assert len(device.uploads) == 2
        done = threading.Semaphore(0)
        device.uploads[1].when_done(lambda _: done.release())
        assert done.acquire(timeout=PATIENCE_S)
        assert client.slot(launch)[0] > 0 and not gate.done
        gate.complete()
        assert client.read(target, 4 * count) == (2 * data).tobytes()
        assert client.session._memory.accounting.events.chunks == 3
