"""Virtual device memory: virtual buffers in the arena, device buffers on members, and the moves between.

Source: papers/1 section 3.6.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sdi.devices.base import Device, DeviceBuffer
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, Status
from sdi.intervals import ByteRange
from sdi.vmem.arena import Arena
from sdi.vmem.directory import HOST, Directory, member_memory
from sdi.vmem.hazards import Hazards
from sdi.vmem.host import HostWorker
from sdi.vmem.merge import Bytes, merge_diffs


@dataclass(slots=True)
class BytesMoved:
    """Bytes moved since the start, by link."""

    host_to_member: int = 0
    member_to_host: int = 0
    member_to_member: int = 0
    application: int = 0
    merge_conflicts: int = 0


@dataclass(slots=True, eq=False)
class VirtualBuffer:
    """What a ``cl_mem`` names: ``nbytes`` bytes at ``offset`` in the arena, and device buffers by member.

    ``on_release``: told the buffer's id when it goes, to drop what refers to its device buffers.
    """

    id: int
    nbytes: int
    offset: int
    directory: Directory
    hazards: list[Hazards]
    device_buffers: list[DeviceBuffer | None]
    on_release: set[Callable[[int], None]] = field(default_factory=set)
    whole: ByteRange = field(init=False)

    def __post_init__(self) -> None:
        self.whole = ByteRange(0, self.nbytes)


class VirtualMemory:
    """All virtual buffers of one session over the members' memories."""

    def __init__(
        self,
        arena: Arena,
        devices: Sequence[Device],
        host: HostWorker,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        """``post`` runs a call on sdi-scheduler, from any thread."""
        self.arena = arena
        self.devices = devices
        self.moved = BytesMoved()
        self._host = host
        self._post = post
        self._buffers: dict[int, VirtualBuffer] = {}

    def create(self, buffer_id: int, nbytes: int, defined: bool) -> VirtualBuffer:
        """A new root buffer; nothing is allocated on members.  ``defined``: the client fills it first."""
        buffer = VirtualBuffer(
            buffer_id,
            nbytes,
            self.arena.allocate(nbytes),
            Directory(nbytes, defined),
            [Hazards(nbytes) for _ in range(len(self.devices) + 1)],
            [None] * len(self.devices),
        )
        self._buffers[buffer_id] = buffer
        return buffer

    def buffer(self, buffer_id: int) -> VirtualBuffer:
        """The buffer with this id.  Raises ClError(INVALID_MEM_OBJECT)."""
        found = self._buffers.get(buffer_id)
        if found is None:
            raise ClError(Status.INVALID_MEM_OBJECT, f"buffer {buffer_id} is not known")
        return found

    def release(self, buffer_id: int) -> None:
        """Free a buffer once everything issued on it is done."""
        buffer = self._buffers.pop(buffer_id, None)
        if buffer is None:
            return
        for forget in buffer.on_release:
            forget(buffer_id)
        pending = [ticket for hazards in buffer.hazards for ticket in hazards.pending()]
        join(pending, lambda _error: self._post(lambda: self._free(buffer)))

    def host_view(self, buffer: VirtualBuffer, over: ByteRange) -> memoryview:
        """The arena's bytes of ``over``."""
        return self.arena.view(buffer.offset + over.start, over.nbytes)

    def device_buffer(self, buffer: VirtualBuffer, member: int) -> DeviceBuffer:
        """The member's device buffer, allocated at first use.  Raises ClError when the member is full."""
        found = buffer.device_buffers[member]
        if found is None:
            found = self.devices[member].allocate(buffer.nbytes)
            buffer.device_buffers[member] = found
        return found

    def fetch_host(self, buffer: VirtualBuffer, over: ByteRange) -> None:
        """Make ``over`` current in the arena; readers wait through the host's hazards."""
        for copy in buffer.directory.read(HOST, over):
            member = copy.source - 1
            device_buffer = self.device_buffer(buffer, member)
            host, there = buffer.hazards[HOST], buffer.hazards[copy.source]
            ticket = self.devices[member].download(
                device_buffer,
                copy.over.start,
                self.host_view(buffer, copy.over),
                [*there.before_read(copy.over), *host.before_write(copy.over)],
            )
            there.read_by(copy.over, ticket)
            host.written_by(copy.over, ticket)
            self.devices[member].flush()
            self.moved.member_to_host += copy.over.nbytes

    def fetch(self, buffer: VirtualBuffer, member: int, over: ByteRange, same_undefined: bool) -> None:
        """Make ``over`` current on ``member``, through the host where another member holds it."""
        memory = member_memory(member)
        if buffer.directory.is_current(memory, over):
            return
        device_buffer = self.device_buffer(buffer, member)
        # Bring home first what only other members hold: once the read is planned, the directory counts this
        # member as a holder, and the way home might start here, where the bytes are not yet.
        for part in buffer.directory.elsewhere(memory, over):
            self.fetch_host(buffer, part)
        for copy in buffer.directory.read(memory, over, same_undefined):
            assert copy.source == HOST
            host, here = buffer.hazards[HOST], buffer.hazards[memory]
            ticket = self.devices[member].upload(
                self.host_view(buffer, copy.over),
                device_buffer,
                copy.over.start,
                [*host.before_read(copy.over), *here.before_write(copy.over)],
            )
            host.read_by(copy.over, ticket)
            here.written_by(copy.over, ticket)
            self.moved.host_to_member += copy.over.nbytes

    def write_host(self, buffer: VirtualBuffer, over: ByteRange, ticket: Ticket) -> list[Ticket]:
        """``over`` is overwritten in the arena by an action that ``ticket`` stands for: what it waits for."""
        hazards = buffer.hazards[HOST]
        waits = hazards.before_write(over)
        hazards.written_by(over, ticket)
        buffer.directory.wrote(HOST, over)
        return waits

    def read_host(self, buffer: VirtualBuffer, over: ByteRange, ticket: Ticket) -> list[Ticket]:
        """``over`` is read in the arena by an action that ``ticket`` stands for: what it waits for."""
        self.fetch_host(buffer, over)
        hazards = buffer.hazards[HOST]
        waits = hazards.before_read(over)
        hazards.read_by(over, ticket)
        return waits

    def merge(
        self,
        buffer: VirtualBuffer,
        over: ByteRange,
        launched: Sequence[tuple[int, Ticket]],
        unit_nbytes: int,
        smallest_nbytes: int,
    ) -> Ticket:
        """Bring home what several members wrote to ``over`` in one launch: ``launched`` is (member, ticket).

        The arena and all of these members held the same bytes before the launch (the twin).
        """
        staged: list[int] = []
        downloads: list[Ticket] = []
        for member, launch in launched:
            at = self.arena.allocate(over.nbytes)
            staged.append(at)
            hazards = buffer.hazards[member_memory(member)]
            ticket = self.devices[member].download(
                self.device_buffer(buffer, member), over.start, self.arena.view(at, over.nbytes), [launch]
            )
            hazards.read_by(over, ticket)
            downloads.append(ticket)
            self.devices[member].flush()
            self.moved.member_to_host += over.nbytes
        target = self.host_array(buffer, over)
        copies = [np.frombuffer(self.arena.view(at, over.nbytes), np.uint8) for at in staged]

        def merge() -> None:
            self.moved.merge_conflicts += merge_diffs(target, copies, unit_nbytes, smallest_nbytes).conflicts

        merged = self._host.submit(merge, [*downloads, *buffer.hazards[HOST].before_write(over)])
        buffer.hazards[HOST].written_by(over, merged)
        buffer.directory.wrote(HOST, over)
        merged.when_done(lambda _ticket: self._post(lambda: self._free_staged(staged)))
        return merged

    def host_array(self, buffer: VirtualBuffer, over: ByteRange) -> Bytes:
        """``host_view`` as uint8, shape ``(over.nbytes,)``."""
        return np.frombuffer(self.host_view(buffer, over), np.uint8)

    def copy_on_member(
        self, member: int, source: VirtualBuffer, over: ByteRange, target: VirtualBuffer, to: ByteRange
    ) -> Ticket:
        """Copy ``over`` of ``source``, current on ``member``, to ``to`` of ``target``.

        Afterwards only that member holds ``to``.
        """
        memory = member_memory(member)
        there = self.device_buffer(target, member)
        ticket = self.devices[member].copy(
            self.device_buffer(source, member),
            over.start,
            there,
            to.start,
            over.nbytes,
            [*source.hazards[memory].before_read(over), *target.hazards[memory].before_write(to)],
        )
        self.devices[member].flush()
        source.hazards[memory].read_by(over, ticket)
        target.hazards[memory].written_by(to, ticket)
        target.directory.wrote(memory, to)
        return ticket

    def fill_on_member(self, member: int, buffer: VirtualBuffer, over: ByteRange, pattern: bytes) -> Ticket:
        """Repeat ``pattern`` over a range; only ``member`` has it then."""
        memory = member_memory(member)
        ticket = self.devices[member].fill(
            self.device_buffer(buffer, member),
            over.start,
            over.nbytes,
            pattern,
            buffer.hazards[memory].before_write(over),
        )
        self.devices[member].flush()
        buffer.hazards[memory].written_by(over, ticket)
        buffer.directory.wrote(memory, over)
        return ticket

    def run_on_host(self, task: Callable[[], None], wait: Sequence[Ticket]) -> Ticket:
        """Run ``task``, which works on arena bytes, after ``wait``."""
        return self._host.submit(task, wait)

    def _free_staged(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            self.arena.free(offset)

    def _free(self, buffer: VirtualBuffer) -> None:
        for member, device_buffer in enumerate(buffer.device_buffers):
            if device_buffer is not None:
                self.devices[member].free(device_buffer)
        self.arena.free(buffer.offset)
