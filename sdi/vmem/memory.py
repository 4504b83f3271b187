"""Virtual device memory: virtual buffers in the arena, device buffers on members, and the moves between.

Source: papers/1 section 3.6.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from sdi.atomics import Update
from sdi.devices.base import Device, Rows
from sdi.devices.handles import DeviceBuffer
from sdi.devices.issue import MEASURED, Issue
from sdi.devices.join import join
from sdi.devices.pooled import PooledMemory
from sdi.devices.ticket import Ticket, completed
from sdi.errors import ClError, Status
from sdi.intervals import ByteRange, RangeSet, coalesce
from sdi.region import Region, alike
from sdi.vmem.accounting import Accounting, BytesMoved
from sdi.vmem.allocation import Placement
from sdi.vmem.arena import Arena
from sdi.vmem.buffer import Allocation, ImageCopy, ImageView, VirtualBuffer
from sdi.vmem.dependencies import RANGES_MAX, Dependencies, Use
from sdi.vmem.directory import HOST, Copy, Directory, member_memory
from sdi.vmem.host import HostWorker
from sdi.vmem.images import LinearBytes, refresh, write_back
from sdi.vmem.links import MEASURED_NBYTES, Links
from sdi.vmem.merging.host import Bytes, MergeResult, merge_diffs, merge_updates
from sdi.vmem.merging.members import MemberMerges
from sdi.vmem.recycling import Recycling
from sdi.vmem.rows import in_rows, ranges_of

Coherence = Literal["lazy", "host"]
_PIECE_NBYTES = 4 << 20
_PIECES_MAX = 64
_COPY_TASK_NBYTES = 2 << 20
_MERGE_TASK_NBYTES = 4 << 20
"""Merges are cut into tasks of this size, for several threads."""


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """A copy of bytes of ``buffer`` between two memories, which can be made any number of times.

    ``copy.over``: all of it, or from the first to the last of ``rows``; ``nbytes``: what is moved of that.
    ``leave``, ``arrive``: what it reads and writes there.  ``cause``: see ``Accounting``.  ``is_staged``: one
    of two that together bring bytes from a member to another through the host.
    """

    buffer: VirtualBuffer
    copy: Copy
    nbytes: int
    leave: Use
    arrive: Use
    cause: str
    is_staged: bool = False
    rows: Rows | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """``give(pending)``: the bytes are not wanted any more once all of that is done.

    ``offset``: in the arena, if they are there.
    """

    bytes: DeviceBuffer | memoryview
    give: Callable[[Sequence[Ticket]], None]
    offset: int = 0


def compares_faster(device: Device) -> bool:
    """Whether members of this kind compare and merge faster than the host does: design/0004."""
    return device.capabilities.kind.merges


class VirtualMemory:
    """All virtual buffers of one session over the members' memories."""

    def __init__(
        self,
        arena: Arena,
        devices: Sequence[Device],
        host: HostWorker,
        post: Callable[[Callable[[], None]], None],
        coherence: Coherence = "lazy",
        links: Links | None = None,
        compares: Callable[[Device], bool] = compares_faster,
        pooled: PooledMemory | None = None,
    ) -> None:
        """``post`` runs a call on sdi-scheduler, from any thread.

        ``compares(member)``: whether that member, if it can, compares and merges what it and others wrote.

        ``pooled``: the memory of all members together, if they have that.
        ``coherence``: "lazy", or "host" for the protocol of papers/1 to the letter: results go to the host
        after every kernel, and members get the ranges that they access from there before the next.
        """
        self.arena = arena
        self.pooled: int | None = None if pooled is None else len(devices)
        self.members = list(range(len(devices)))  # those that are not lost
        self.devices = devices
        known = [device.capabilities for device in devices]
        if pooled is not None:
            known.append(pooled.capabilities)
        self.coherence = coherence
        self.accounting = Accounting(BytesMoved(), [0] * len(self.members))
        self.moved = self.accounting.moved
        self.links = links or Links(
            [each.kind for each in known],
            nodes=[each.node for each in known],
            near=[each.is_near for each in known],
        )
        self.placement = Placement(devices, self.accounting, post, self.fetch_host, pooled)
        self.merges = MemberMerges(
            devices,
            self.placement.heaps,
            self.accounting,
            post,
            lambda device: coherence == "lazy" and compares(device),
        )
        self._host = host
        self._post = post
        self._buffers: dict[int, VirtualBuffer] = {}
        self.has_poisoned = False
        """Whether any bytes were poisoned so far."""
        self.recycling = Recycling(self.placement, post)

    def create(self, buffer_id: int, nbytes: int, defined: bool) -> VirtualBuffer:
        """A new root buffer; nothing is allocated on members.  ``defined``: the client fills it first."""
        buffer = VirtualBuffer(
            buffer_id,
            nbytes,
            self.arena.allocate(nbytes),
            Directory(nbytes, defined),
            [Dependencies(nbytes) for _ in range(len(self.placement.heaps) + 1)],
            [None] * len(self.placement.heaps),
        )
        self._buffers[buffer_id] = buffer
        return buffer

    def buffer(self, buffer_id: int) -> VirtualBuffer:
        """The buffer with this id.  Raises ClError(INVALID_MEM_OBJECT)."""
        found = self._buffers.get(buffer_id)
        if found is None:
            raise ClError(Status.INVALID_MEM_OBJECT, f"buffer {buffer_id} is not known")
        return found

    def holding(self, offset: int, nbytes: int) -> tuple[VirtualBuffer, ByteRange]:
        """The buffer that has these bytes of the arena, and which they are.  Raises ClError."""
        for buffer in self._buffers.values():
            start = offset - buffer.offset
            if start >= 0 and start + nbytes <= buffer.nbytes:
                return buffer, ByteRange(start, start + nbytes)
        raise ClError(Status.INVALID_VALUE, f"no buffer has byte {offset} of the arena")

    def recycle(self, buffer_id: int, told: Callable[[bool], None]) -> None:
        """Keep a released buffer for ``reuse``, see ``Recycling.recycle``.  Raises ClError."""
        self.recycling.recycle(self.buffer(buffer_id), told)

    def reuse(self, buffer_id: int, defined: bool) -> None:
        """A recycled buffer is as if it were just created.  Raises ClError where it is not recycled."""
        buffer = self.buffer(buffer_id)
        if not self.recycling.take(buffer):
            raise ClError(Status.INVALID_MEM_OBJECT, f"buffer {buffer_id} is in use")
        buffer.directory.reset(defined)

    def trim(self) -> None:
        """Give back memory of members that is kept for reuse and was not used for long."""
        self.recycling.trim()
        self.placement.trim()

    def release(self, buffer_id: int) -> None:
        """Free a buffer once everything issued on it is done."""
        buffer = self._buffers.pop(buffer_id, None)
        if buffer is None:
            return
        self.recycling.take(buffer)
        for forget in buffer.on_release:
            forget(buffer_id)
        buffer.when_idle(self._post, lambda: self._free(buffer))

    def poison(self, buffer: VirtualBuffer, over: ByteRange, why: BaseException) -> None:
        """What should have been written to ``over`` was not: whoever reads it fails, until it is written."""
        over = ByteRange(over.start, min(over.stop, buffer.nbytes))  # nobody checked what was not issued
        buffer.directory.wrote(HOST, over)
        dependencies = buffer.dependencies[HOST]
        dependencies.written_by(over, completed(why))
        dependencies.poisoned = self.has_poisoned = True

    def _forget_unheld(self, buffer: VirtualBuffer, memory: int) -> None:
        """What failed to arrive in ``memory`` does not matter where it does not count as a holder now."""
        dependencies = buffer.dependencies[memory]
        for over in dependencies.failed():
            held = RangeSet.of(buffer.directory.current_in(memory, over))
            dependencies.forget_failures(RangeSet((over,)).difference(held).ranges)
        dependencies.poisoned = bool(dependencies.failed())

    def pending(self) -> list[Ticket]:
        """Tickets of everything issued on any buffer that is not done yet."""
        found = dict.fromkeys(
            ticket for buffer in self._buffers.values() for h in buffer.dependencies for ticket in h.pending()
        )
        return list(found)

    def drop_member(self, lost: int | None, why: BaseException) -> int:
        """Something failed: forget copies that are not what they should be where others are; nothing pends.

        ``lost``: a member that is lost.  What it alone held is gone: whoever reads it fails with ``why``,
        until it is written again.  Returns the bytes of that.
        """
        gone_nbytes = 0
        memories: list[int | None] = [None]
        if lost is not None:
            self.members.remove(lost)
            memories = [member_memory(lost)]
            if self.pooled is not None:  # a part of it was there
                memories.append(member_memory(self.pooled))
        for buffer in self._buffers.values():
            bad = [
                (where, over)
                for where, dependencies in enumerate(buffer.dependencies)
                for over in dependencies.failed()
            ]
            for memory in memories if bad or lost is not None else ():
                for over in buffer.directory.without(bad, memory):
                    self.poison(buffer, over, why)
                    gone_nbytes += over.nbytes
            for where in dict(bad):
                self._forget_unheld(buffer, where)
            if lost is not None:
                buffer.mapped.pop(lost, None)
        for memory in memories:
            if memory is not None:
                self.placement.drop_member(memory - 1)
        return gone_nbytes

    def is_host_idle(self) -> bool:
        """Whether the host has done all that it was given."""
        return self._host.is_idle()

    def host_view(self, buffer: VirtualBuffer, over: ByteRange) -> memoryview:
        """The arena's bytes of ``over``."""
        return self.arena.view(buffer.offset + over.start, over.nbytes)

    def allocation(self, buffer: VirtualBuffer, member: int) -> Allocation:
        """The buffer's place on a member; the caller has reserved one."""
        found = buffer.allocations[member]
        assert found is not None, f"buffer {buffer.id} has no place on member {member}"
        return found

    @property
    def pooled_memory(self) -> int:
        """The memory of all members together; the host's number where there is none."""
        return HOST if self.pooled is None else member_memory(self.pooled)

    def pooled_allocation(self, buffer: VirtualBuffer) -> Allocation | None:
        """The buffer's place in the memory of all members together, if it has one."""
        return None if self.pooled is None else buffer.allocations[self.pooled]

    def home(self, buffer: VirtualBuffer) -> int:
        """The memory in which all members use a buffer that is larger than any of them."""
        return HOST if self.pooled_allocation(buffer) is None else self.pooled_memory

    def mapped(self, buffer: VirtualBuffer, member: int) -> DeviceBuffer:
        """``buffer``'s bytes in its home as a device buffer of ``member``.  Raises ClError."""
        pooled = self.pooled_allocation(buffer)
        if pooled is not None:
            return PooledMemory.view(pooled.device_buffer, member)
        found = buffer.mapped.get(member)
        if found is None:
            found = buffer.mapped[member] = self.devices[member].map_host(
                self.host_view(buffer, buffer.whole)
            )
            self.accounting.events.mapped += 1
        return found

    def image(self, buffer: VirtualBuffer, member: int, view: ImageView) -> ImageCopy:
        """The opaque copy of a view on a member; the caller has reserved one."""
        return buffer.images[member, view]

    def refresh_image(
        self, buffer: VirtualBuffer, member: int, view: ImageView, needs: RangeSet, mapped: bool, issue: Issue
    ) -> None:
        """Make the pixels in ``needs``, whose linear bytes are current there, current in the opaque copy."""
        copy, linear = self.image(buffer, member, view), self._linear(buffer, member, mapped)
        self.accounting.events.image_refreshed_nbytes += refresh(
            self.devices[member], buffer, copy, linear, needs, issue.timing
        )

    def write_image_back(
        self,
        buffer: VirtualBuffer,
        member: int,
        view: ImageView,
        writes: RangeSet,
        mapped: bool,
        issue: Issue,
    ) -> list[Ticket]:
        """Bring what a kernel may have written to the opaque copy to the linear bytes."""
        copy, linear = self.image(buffer, member, view), self._linear(buffer, member, mapped)
        self.accounting.events.image_written_nbytes += writes.nbytes
        tickets = write_back(self.devices[member], copy, linear, writes, issue.timing)
        self.devices[member].flush()
        return tickets

    def image_is_current(self, buffer: VirtualBuffer, member: int, view: ImageView, writes: RangeSet) -> None:
        """The linear bytes ``writes`` have their last values from this opaque copy."""
        memory = member_memory(member)
        for over in writes.ranges:
            if buffer.directory.is_current(memory, over):
                buffer.directory.copied_opaquely(self.image(buffer, member, view).number, over)

    def _linear(self, buffer: VirtualBuffer, member: int, mapped: bool) -> LinearBytes:
        if mapped:
            return LinearBytes(self.mapped(buffer, member), 0, buffer.dependencies[self.home(buffer)])
        allocation, dependencies = self.allocation(buffer, member), buffer.dependencies[member_memory(member)]
        return LinearBytes(allocation.device_buffer, allocation.over.start, dependencies)

    def fetch_host(self, buffer: VirtualBuffer, over: ByteRange, issue: Issue) -> None:
        """Make ``over`` current in the arena; readers wait through the host's dependencies."""
        for transfer in self.plan_fetch(buffer, HOST, (over,), False, issue.cause):
            self.perform(transfer, issue)

    def plan_fetch(
        self,
        buffer: VirtualBuffer,
        memory: int,
        ranges: Sequence[ByteRange],
        same_undefined: bool,
        cause: str,
    ) -> list[Transfer]:
        """What has to be performed, in order, to make ``ranges``, which are disjoint and in order, current in
        ``memory``; it counts as done.
        """
        directory, choose = buffer.directory, partial(self.links.choose, memory)
        if buffer.dependencies[memory].poisoned:
            self._forget_unheld(buffer, memory)
        direct: list[Copy] = []
        home: list[Copy] = []  # the first halves of those that are staged
        for over in ranges:
            if directory.is_current(memory, over):
                continue
            for copy in directory.read(memory, over, same_undefined, choose):
                source, part = copy.source, copy.over
                if HOST not in (source, memory) and self.links.through_host(source, memory, part.nbytes):
                    directory.copied(HOST, part)
                    home.append(Copy(source, HOST, part))
                else:
                    direct.append(copy)
        if not direct and not home:
            return []
        out = [Copy(HOST, memory, over) for over in coalesce(copy.over for copy in home)]
        return [
            *(
                self._transfer(buffer, copy, rows, cause, True)
                for copy, rows in (*in_rows(home), *in_rows(out))
            ),
            *(self._transfer(buffer, copy, rows, cause, False) for copy, rows in self._in_pieces(direct)),
        ]

    def _in_pieces(self, copies: list[Copy]) -> Iterable[tuple[Copy, Rows | None]]:
        """``copies`` in rows, large ones between nodes in pieces: the next is sent one while others come."""
        return self._pieces(in_rows(copies)) if self.links.is_far else in_rows(copies)

    def _pieces(self, copies: Iterable[tuple[Copy, Rows | None]]) -> Iterator[tuple[Copy, Rows | None]]:
        for copy, rows in copies:
            if rows is not None or not self.links.crosses(copy.source, copy.target):
                yield copy, rows
                continue
            over = copy.over
            each = max(_PIECE_NBYTES, -(-over.nbytes // (_PIECES_MAX * _PIECE_NBYTES)) * _PIECE_NBYTES)
            for start in range(over.start, over.stop, each):
                yield Copy(copy.source, copy.target, ByteRange(start, min(start + each, over.stop))), None

    def _transfer(
        self, buffer: VirtualBuffer, copy: Copy, rows: Rows | None, cause: str, is_staged: bool
    ) -> Transfer:
        over = ranges_of(copy.over, rows, RANGES_MAX)
        leave, there = buffer.dependencies[copy.source].use(over, ()), buffer.dependencies[copy.target]
        if rows is not None and rows.count > RANGES_MAX:
            arrive = there.use_all(copy.over, partial(ranges_of, copy.over, rows, rows.count))
        else:
            arrive = there.use((), over)
        nbytes = copy.over.nbytes if rows is None else rows.count * rows.nbytes
        # Who is asked next for the same bytes should know that this source is busy.
        self.links.planned(copy.source, copy.target, nbytes)
        return Transfer(buffer, copy, nbytes, leave, arrive, cause, is_staged, rows)

    def _seen(self, buffer: VirtualBuffer, memory: int, by: int, offset: int) -> tuple[DeviceBuffer, int]:
        """The buffer's place in ``memory``, as the member of memory ``by`` names it; where ``offset`` is."""
        allocation = self.allocation(buffer, memory - 1)
        found = allocation.device_buffer
        if memory != by:
            found = PooledMemory.view(found, by - 1)
        return found, offset - allocation.over.start

    def perform(self, transfer: Transfer, issue: Issue, is_repeated: bool = False) -> None:
        """Issue a copy, behind everything that conflicts with it; both places are there.

        ``is_repeated``: it was planned for an earlier launch.
        """
        buffer, copy = transfer.buffer, transfer.copy
        source, target, over = copy.source, copy.target, copy.over
        rows = transfer.rows
        nbytes = transfer.nbytes
        timing = MEASURED if nbytes >= MEASURED_NBYTES else issue.timing
        from_, to = source, target  # or, for the memory of all together, the member that copies
        if self.pooled is not None and self.pooled_memory in (source, target):
            ends = (target, source, member_memory(self.members[0]))
            by = next(memory for memory in ends if memory not in (HOST, self.pooled_memory))
            from_, to = (by if memory == self.pooled_memory else memory for memory in (source, target))
        if HOST in (source, target):
            found: dict[Ticket, None] = {}
            transfer.leave.gather(found)
            transfer.arrive.gather(found)
            waits = list(found)
        if target == HOST:
            device, host = self.devices[from_ - 1], self.host_view(buffer, over)
            there, start = self._seen(buffer, source, from_, over.start)
            if rows is None:
                ticket = device.download(there, start, host, waits, timing)
            else:
                ticket = device.download_rows(there, start, host, rows, waits, timing)
            left = ticket
            device.flush()
        elif source == HOST:
            device, host = self.devices[to - 1], self.host_view(buffer, over)
            here, start = self._seen(buffer, target, to, over.start)
            if rows is None:
                ticket = device.upload(host, here, start, waits, timing)
            else:
                ticket = device.upload_rows(host, here, start, rows, waits, timing)
            left = ticket
        else:
            device, other = self.devices[to - 1], self.devices[from_ - 1]
            there, first = self._seen(buffer, source, from_, over.start)
            here, start = self._seen(buffer, target, to, over.start)
            before: dict[Ticket, None] = {}
            behind: dict[Ticket, None] = {}
            transfer.leave.gather(before)
            transfer.arrive.gather(behind)
            leave, arrive = list(before), list(behind)
            if rows is None:
                left, ticket = device.peer_copy(
                    other, there, first, here, start, over.stop - over.start, leave, arrive, timing
                )
            else:
                left, ticket = device.peer_copy_rows(
                    other, there, first, here, start, rows, leave, arrive, timing
                )
        transfer.leave.by(left)
        transfer.arrive.by(ticket)
        cause, is_staged = transfer.cause, transfer.is_staged
        self.accounting.copied(from_, to, nbytes, ticket, cause, issue.command, is_staged)
        if nbytes >= MEASURED_NBYTES:
            if is_repeated:
                self.links.planned(source, target, nbytes)
            self.links.issued(source, target, nbytes, ticket)

    def after_kernel(self, buffer: VirtualBuffer, members: Sequence[int], issue: Issue) -> None:
        """A kernel that used ``buffer`` was issued on ``members``, and the directory knows what it wrote."""
        if self.coherence == "host":
            self.fetch_host(buffer, buffer.whole, issue)
            for member in members:
                buffer.directory.dropped(member_memory(member))

    def write_host(self, buffer: VirtualBuffer, over: ByteRange, ticket: Ticket) -> list[Ticket]:
        """``over`` is overwritten in the arena by an action that ``ticket`` stands for: what it waits for."""
        dependencies = buffer.dependencies[HOST]
        waits = dependencies.before_write(over)
        dependencies.written_by(over, ticket)
        buffer.directory.wrote(HOST, over)
        for others in buffer.dependencies[HOST + 1 :]:
            if others.poisoned:
                others.forget_failures((over,))
        return waits

    def merge(
        self,
        buffer: VirtualBuffer,
        over: ByteRange,
        launched: Sequence[tuple[int, Sequence[Ticket]]],
        unit_nbytes: int,
        smallest_nbytes: int,
        update: Update | None,
        issue: Issue,
    ) -> Ticket:
        """Bring home what several members wrote to ``over`` in one launch.

        ``launched``: each member, and what is done when it has written.

        The arena and all of these members held the same bytes before the launch (the twin).  With ``update``
        they all changed them by that, each on its own copy.
        """
        staged: list[int] = []
        downloads: list[Ticket] = []
        for member, launch in launched:
            at = self.arena.allocate(over.nbytes)
            staged.append(at)
            dependencies = buffer.dependencies[member_memory(member)]
            allocation = self.allocation(buffer, member)
            ticket = self.devices[member].download(
                allocation.device_buffer,
                over.start - allocation.over.start,
                self.arena.view(at, over.nbytes),
                launch,
                issue.timing,
            )
            dependencies.read_by(over, ticket)
            downloads.append(ticket)
            self.devices[member].flush()
            self.accounting.copied(
                member_memory(member), HOST, over.nbytes, ticket, issue.cause, issue.command
            )
            self.links.planned(member_memory(member), HOST, over.nbytes)
            self.links.issued(member_memory(member), HOST, over.nbytes, ticket)
        target = self.host_array(buffer, over)
        copies = [np.frombuffer(self.arena.view(at, over.nbytes), np.uint8) for at in staged]
        found: list[MergeResult] = []

        def merge(start: int, stop: int) -> None:
            parts = [copy[start:stop] for copy in copies]
            if update is not None:
                found.append(merge_updates(target[start:stop], parts, update))
            else:
                found.append(merge_diffs(target[start:stop], parts, unit_nbytes, smallest_nbytes))

        tasks = [
            partial(merge, start, min(start + _MERGE_TASK_NBYTES, over.nbytes))
            for start in range(0, over.nbytes, _MERGE_TASK_NBYTES)
        ]
        dependencies = buffer.dependencies[HOST]  # what did not change stays as it is there, poisoned or not
        waits = [*downloads, *dependencies.before_read(over), *dependencies.before_write(over)]
        merged = self._host.submit_all(tasks, waits)
        self.accounting.worked("merge", -1, over.nbytes, merged, issue)
        buffer.dependencies[HOST].written_by(over, merged)
        buffer.directory.wrote(HOST, over)
        events = self.accounting.events
        events.twins += 1
        events.twin_nbytes += over.nbytes

        def finished() -> None:
            for offset in staged:
                self.arena.free(offset)
            events.conflicts += sum(result.conflicts for result in found)
            events.diff_nbytes += unit_nbytes * sum(result.changed_units for result in found)

        merged.when_done(lambda _ticket: self._post(finished))
        return merged

    def host_array(self, buffer: VirtualBuffer, over: ByteRange) -> Bytes:
        """``host_view`` as uint8, shape ``(over.nbytes,)``."""
        return np.frombuffer(self.host_view(buffer, over), np.uint8)

    def scratch(self, memory: int, nbytes: int) -> Scratch | None:
        """Bytes in a memory for what is under way, until they are given back; None where there is no room."""
        if memory == HOST:
            try:
                offset = self.arena.allocate(nbytes)
            except ClError:
                return None

            def give(pending: Sequence[Ticket]) -> None:
                join(pending, lambda _error: self._post(lambda: self.arena.free(offset)))

            return Scratch(self.arena.view(offset, nbytes), give, offset)
        heap = self.placement.heaps[memory - 1]
        block = heap.take(nbytes)
        if block is None:
            return None
        assert block.device_buffer is not None
        return Scratch(block.device_buffer, partial(heap.give, block))

    def fill_on_member(
        self, member: int, buffer: VirtualBuffer, over: ByteRange, pattern: bytes, issue: Issue
    ) -> Ticket:
        """Repeat ``pattern`` over a range that has a place on ``member``; only that member has it then."""
        memory = member_memory(member)
        allocation = self.allocation(buffer, member)
        ticket = self.devices[member].fill(
            allocation.device_buffer,
            over.start - allocation.over.start,
            over.nbytes,
            pattern,
            buffer.dependencies[memory].before_write(over),
            issue.timing,
        )
        self.devices[member].flush()
        self.accounting.worked("fill", member, over.nbytes, ticket, issue)
        buffer.dependencies[memory].written_by(over, ticket)
        buffer.directory.wrote(memory, over)
        return ticket

    def run_on_host(
        self,
        task: Callable[[], None],
        wait: Sequence[Ticket],
        issue: Issue,
        what: str = "task",
        nbytes: int = 0,
    ) -> Ticket:
        """Run ``task``, which works on arena bytes, after ``wait``; the profile calls it ``what``."""
        ticket = self._host.submit(task, wait)
        self.accounting.worked(what, -1, nbytes, ticket, issue)
        return ticket

    def copy_on_host(
        self, source: memoryview, from_: Region, target: memoryview, to: Region, wait: Sequence[Ticket]
    ) -> Ticket:
        """Copy between bytes that the host sees, by several threads where it is worth it."""
        from_, to = alike(from_, to)
        most = max(from_.span_nbytes, to.span_nbytes) // _COPY_TASK_NBYTES
        num = max(1, min(self._host.threads, most, to.counts[-1] if to.levels else 1))
        cuts = [to.counts[-1] * number // num for number in range(num + 1)] if num > 1 else []
        parts = [(from_.part(a, b), to.part(a, b)) for a, b in itertools.pairwise(cuts)] or [(from_, to)]
        tasks = [partial(np.copyto, there.of(target), here.of(source)) for here, there in parts]
        return self._host.submit_all(tasks, wait)

    def _free(self, buffer: VirtualBuffer) -> None:
        self.placement.discard(buffer)
        for member, device_buffer in buffer.mapped.items():  # a lost member has none
            self.devices[member].free(device_buffer)
        self.arena.free(buffer.offset)


__all__ = ["Coherence", "VirtualBuffer", "VirtualMemory"]
