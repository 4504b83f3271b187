"""Virtual memory over real members on the CPU driver, without a session."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from sdi.devices.base import Device
from sdi.devices.capabilities import CPU
from sdi.devices.discover import choose
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.issue import Issue
from sdi.devices.join import join
from sdi.devices.opencl.member import OpenCLDevice, driver_devices
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.vmem.arena import Arena
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.host import HostWorker
from sdi.vmem.memory import Coherence, VirtualBuffer, VirtualMemory
from sdi.vmem.placed import Wanted, WantedImage
from sdi.vmem.spill.budget import Spill
from sdi.vmem.spill.file import SpillFile
from sdi.vmem.spill.spilling import spilling_of
from tests.devices.testing.late import DelayedDevice
from tests.devices.testing.pool import pool_of
from tests.service.conftest import serve

__all__ = ["MakeRig", "Rig", "noise", "rig", "serve"]

PATIENCE_S = 60.0
FOR = Issue("k: a")
"""What everything is issued for."""


class Rig:
    """Members, arena and memory; ``post`` keeps calls for this thread, which runs them while it waits."""

    def __init__(
        self,
        devices: Sequence[Device],
        coherence: Coherence = "lazy",
        compares: bool = False,
        nodes: Sequence[Device] = (),
        spill: Spill | None = None,
        is_pooled: bool = False,
        in_arena: int | None = None,
    ) -> None:
        self.devices = list(devices)
        self.nodes = list(nodes)
        if spill is None:
            self.arena = Arena(1 << 32, 1 << 16)
        else:
            file = SpillFile(spill.folder, spill.limit_nbytes)
            self.arena = Arena(1 << 32, 1 << 16, file=file, file_offset=(1 << 16) + spill.memory_nbytes)
        self.spilling = spilling_of(self.arena, spill)
        self.host = HostWorker(2)
        self._posted: deque[Callable[[], None]] = deque()
        self._changed = threading.Event()
        self.memory = VirtualMemory(
            self.arena,
            self.devices,
            self.host,
            self.post,
            coherence,
            None,
            lambda _: compares,
            pooled=pool_of(self.devices) if is_pooled else None,
            nodes=self.nodes,
            spilling=self.spilling,
            in_arena=in_arena,
        )
        self.limit = 1 << 30
        self.compares = compares
        self._ids = iter(range(1, 1 << 30))

    def post(self, call: Callable[[], None]) -> None:
        self._posted.append(call)
        self._changed.set()

    def turn(self) -> None:
        """Run what was posted."""
        while self._posted:
            self._posted.popleft()()

    def wait(self, *tickets: Ticket) -> None:
        """Until all are done; raises the first error."""
        end = time.monotonic() + PATIENCE_S
        for ticket in tickets:
            ticket.when_done(lambda _: self._changed.set())
        while not all(ticket.done for ticket in tickets):
            self.turn()
            assert self._changed.wait(end - time.monotonic()), "a ticket is not done in time"
            self._changed.clear()
        self.turn()
        for ticket in tickets:
            if ticket.error is not None:
                raise ticket.error

    def until(self, holds: Callable[[], bool]) -> None:
        """Run what is posted until ``holds()``: a ticket is done before those who wait for it have heard."""
        end = time.monotonic() + PATIENCE_S
        while True:
            self._changed.clear()
            self.turn()
            if holds():
                return
            assert self._changed.wait(end - time.monotonic()), "what was expected was not posted in time"

    def settle(self) -> None:
        """Until nothing is pending on any buffer."""
        for buffer in list(self.memory._buffers.values()):
            self.wait(*(ticket for dependencies in buffer.dependencies for ticket in dependencies.pending()))

    def buffer(self, data: bytes | int) -> VirtualBuffer:
        """A buffer with this content, or of so many undefined bytes."""
        nbytes = data if isinstance(data, int) else len(data)
        made = self.memory.create(next(self._ids), nbytes, not isinstance(data, int))
        if not isinstance(data, int):
            self.memory.memories.host_view(made, made.whole)[:] = data
        return made

    def read(self, buffer: VirtualBuffer, over: ByteRange | None = None) -> bytes:
        """What the application reads."""
        over = over or buffer.whole
        done = Ticket()
        try:
            self.wait(*self.read_behind(buffer, over, done))
            return bytes(self.memory.memories.host_view(buffer, over))
        finally:
            done.complete()

    def read_behind(self, buffer: VirtualBuffer, over: ByteRange, done: Ticket) -> list[Ticket]:
        """The application reads until ``done``: what that waits for."""
        self.memory.transfers.fetch_host(buffer, over, FOR)
        waits = buffer.dependencies[HOST].before_read(over)
        buffer.dependencies[HOST].read_by(over, done)
        return waits

    def write(self, buffer: VirtualBuffer, start: int, data: bytes) -> None:
        """What the application writes."""
        done = Ticket()
        over = ByteRange(start, start + len(data))
        self.wait(*self.memory.write_host(buffer, over, done))
        self.memory.memories.host_view(buffer, over)[:] = data
        done.complete()

    def reserve(self, *wanted: Wanted, images: Sequence[WantedImage] = ()) -> None:
        """Make room, and wait for it where that takes time."""
        while waits := self.memory.placement.reserve(wanted, FOR, images):
            self.wait(_over(waits))

    def fill(self, member: int, buffer: VirtualBuffer, over: ByteRange, pattern: bytes) -> Ticket:
        """Write on a member, as a kernel would."""
        self.reserve((buffer, member, over))
        return self.memory.fill_on_member(member, buffer, over, pattern, FOR)

    def fetch(self, buffer: VirtualBuffer, member: int, over: ByteRange, same_undefined: bool) -> None:
        """Make a range current on a member."""
        self.reserve((buffer, member, over))
        there = member_memory(member)
        for transfer in self.memory.transfers.plan(buffer, there, (over,), same_undefined, FOR.cause):
            self.memory.transfers.perform(transfer, FOR)

    def push_out(self, member: int) -> None:
        """Have a member give up all that it has."""
        other = self.buffer(self.devices[member].capabilities.memory_nbytes)
        self.reserve((other, member, other.whole))
        self.memory.release(other.id)
        self.settle()

    def links(self) -> dict[str, int]:
        """Bytes that went from memory to memory."""
        found = self.memory.accounting.report()["links"]
        assert isinstance(found, dict)
        return {ends: total["nbytes"] for ends, total in found.items()}

    def moved(self) -> int:
        """Bytes moved over all links so far."""
        counts = self.memory.moved
        return counts.host_to_member + counts.member_to_host + counts.member_to_member

    def close(self) -> None:
        self.settle()
        for device in reversed([*self.devices, *self.nodes]):
            device.close()
        self.host.close()
        if self.spilling is not None:
            self.spilling.close()
        self.turn()
        self.arena.close()
        del (
            self.memory,
            self.arena,
            self.devices,
            self.nodes,
            self.spilling,
        )  # pytest keeps what a fixture made for a while


def _over(tickets: Sequence[Ticket]) -> Ticket:
    over = Ticket()
    join(tickets, lambda _error: over.complete())
    return over


def _late(device: Device, seed: int) -> Device:
    numbers = random.Random(seed)
    return DelayedDevice(device, lambda: numbers.choice((0, 100_000, 1_000_000, 5_000_000)))


def _put(device: Device, node: int) -> None:
    """Have it count as one of another machine."""
    device.capabilities = replace(device.capabilities, node=node, is_near=False)


class Apart(ForwardingDevice):
    """A member whose memory only its driver sees."""

    def host_bytes(self, buffer: DeviceBuffer) -> HostBytes | None:
        return None


MakeRig = Callable[..., Rig]


@pytest.fixture
def rig() -> Iterator[MakeRig]:
    """Makes rigs: ``rig(3, memory_nbytes=1 << 20, late=[0])``.  ``compares``: merges are made on members.

    ``apart``: the host does not see members' memory, as that of GPUs.  ``nodes``: of each member, those above
    0 as on other machines, each of which has ``node_nbytes`` of its own.  ``spill``: where what host memory
    has no room for lies.  ``is_pooled``: the members have memory together.
    ``in_arena``: the member that computes in the arena.
    """
    made: list[Rig] = []

    def make(
        members: int,
        memory_nbytes: int = 1 << 30,
        late: Sequence[int] = (),
        coherence: Coherence = "lazy",
        compares: bool = False,
        apart: bool = False,
        nodes: Sequence[int] = (),
        node_nbytes: int = 1 << 30,
        spill: Spill | None = None,
        is_pooled: bool = False,
        in_arena: int | None = None,
    ) -> Rig:
        cpus = [device for device in driver_devices() if device.kind is CPU]
        if not cpus:
            pytest.skip("no OpenCL driver offers a CPU device")
        devices: list[Device] = []
        for number, device in enumerate(choose(cpus, members, None)):
            member: Device = OpenCLDevice(device, number, memory_nbytes)
            member = Apart(member) if apart else member
            if nodes and nodes[number]:
                _put(member, nodes[number])
            devices.append(_late(member, number) if number in late else member)
        own: list[Device] = []
        for number, node in enumerate(sorted(set(nodes) - {0}), members):
            own.append(OpenCLDevice(cpus[0], number, node_nbytes))
            _put(own[-1], node)
        made.append(Rig(devices, coherence, compares, own, spill, is_pooled, in_arena))
        return made[-1]

    yield make
    for each in made:
        each.close()


def noise(nbytes: int, seed: int = 1) -> bytes:
    """Bytes that no two places share by plan."""
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8).tobytes()
