"""Bytes that the application reads from one buffer and writes to another: copied between members instead.

Where members are on other machines a write of bytes that one of them has need not bring them there from rank
0, whose link all reads share.  That they are the same bytes is known by comparing them with the arena's, in
which the read left them.  Source: papers/4, device-host-device copy removal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_

import numpy as np

from sdi.cells import STAGE_IN_USE
from sdi.commands import Write
from sdi.dataclass import dataclass
from sdi.devices.issue import Issue
from sdi.devices.ticket import Ticket
from sdi.region import Bytes, Region, alike, as_region, packed_like
from sdi.regions import RegionSet
from sdi.runtime.region_copies import RegionCopies
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.memory import VirtualMemory

LEAST_NBYTES = 64 << 10
"""What is shorter is not compared."""
_TOLD_NS, _ALONE_NS = 1e6, 1e5
"""What it costs to have two nodes make a copy, or one within itself, rather than to send bytes along.
[M] 256 KiB between four ranks: 1.5 ms of processor time of all of them more, 2.5 ms of 500 Mbit/s less."""
_READS_MAX = 32
_PARTS_MAX = 64
_COMPARED_NBYTES = 1 << 20
_SLOWER = 2.0
"""Links between nodes may be measured to be so much slower than rank 0's: everybody uses that one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Back:
    """A write of as many bytes as were read.  ``held``: what members on other machines had of them before.

    ``is_unchanged``: these are the bytes that were there.
    """

    buffer: VirtualBuffer
    over: Region
    held: Sequence[tuple[int, Sequence[Bytes]]]
    reads: Sequence[tuple[VirtualBuffer, Region]]
    is_unchanged: bool


class RoundTrips:
    """What was read of late, and what is written of it.  Owned by: sdi-scheduler."""

    def __init__(self, memory: VirtualMemory) -> None:
        self._memory = memory
        self._reads: OrderedDict[tuple[int, Region], VirtualBuffer] = OrderedDict()
        self._is_on = (
            memory.transfers.links.is_far and memory.coherence == "lazy" and memory.memories.pooled is None
        )

    def read(self, buffer: VirtualBuffer, over: Region) -> None:
        """The application gets ``over`` from the arena, as soon as it is there."""
        if not self._is_on or over.total_nbytes < LEAST_NBYTES or buffer.is_outside:
            return
        self._reads[buffer.id, over] = buffer
        self._reads.move_to_end((buffer.id, over))
        buffer.on_release.add(self._forget)
        if len(self._reads) > _READS_MAX:
            self._reads.popitem(last=False)

    def _forget(self, buffer_id: int) -> None:
        for key in [key for key in self._reads if key[0] == buffer_id]:
            del self._reads[key]

    def before(self, command: Write) -> _Back | None:
        """What to find out once ``command`` is issued; None: it can't bring back what was read."""
        if not self._reads or command.unasked or command.written_ns:
            return None
        over, buffer = command.rectangle.strided, self._memory.buffer(command.buffer)
        if over.total_nbytes < LEAST_NBYTES or buffer.is_outside:
            return None
        reads = [
            (source, from_)
            for (_, from_), source in reversed(self._reads.items())
            if (from_.nbytes, from_.counts) == (over.nbytes, over.counts)
            and source.stage == STAGE_IN_USE
            and not (source is buffer and _overlap(from_, over))
        ]
        is_unchanged = (
            bool(command.data) and (buffer.id, over) in self._reads and self._has(buffer, over, command.data)
        )
        if not reads and not is_unchanged:
            return None
        links, directory = self._memory.transfers.links, buffer.directory
        held = [
            (member_memory(member), parts)
            for member in self._memory.members
            if links.crosses(HOST, member_memory(member))
            and not buffer.dependencies[member_memory(member)].poisoned
            and (parts := directory.current_in(member_memory(member), over))
        ]
        return _Back(buffer, over, held, reads, is_unchanged) if held else None

    def _has(self, buffer: VirtualBuffer, over: Region, data: bytes) -> bool:
        """Whether the arena has these bytes there already."""
        arena = self._memory.memories.host_view(buffer, over.bounds)
        return self._is_there(buffer, over) and is_same(
            memoryview(data), packed_like(over), arena, over.at(0)
        )

    def after(self, back: _Back, command: Write, transfer: Ticket | None, issue: Issue) -> None:
        """``command`` was issued.  ``transfer``: of the client, which has yet to copy."""
        issue = issue.because("round trip")
        if back.is_unchanged:
            self._keep(back)
        elif command.data:
            self._bring(back, memoryview(command.data), packed_like(back.over), issue)
        elif transfer is not None:
            transfer.when_done(lambda done: self._copied(back, done, issue))

    def _copied(self, back: _Back, transfer: Ticket, issue: Issue) -> None:
        if transfer.error is None and self._is_there(back.buffer, back.over):
            arena = self._memory.memories.host_view(back.buffer, back.over.bounds)
            self._bring(back, arena, back.over.at(0), issue)

    def _is_there(self, buffer: VirtualBuffer, over: Region) -> bool:
        """Whether the arena has these bytes, and nobody is about to write them."""
        dependencies = buffer.dependencies[HOST]
        is_quiet = not dependencies.poisoned and not dependencies.before_read(over)
        return is_quiet and buffer.stage == STAGE_IN_USE and buffer.directory.is_current(HOST, over)

    def _bring(self, back: _Back, written: memoryview, like: Region, issue: Issue) -> None:
        """Have members that had what was overwritten get the new bytes from those that have them."""
        if not back.buffer.directory.is_current(HOST, back.over):
            return
        for source, from_ in back.reads:
            if not self._is_there(source, from_) or source.is_outside or back.buffer.is_outside:
                continue
            arena = self._memory.memories.host_view(source, from_.bounds)
            if is_same(written, like, arena, from_.at(0)):
                with self._memory.transfers.links.at_once():
                    self._copy(back, source, from_, issue)
                return

    def _keep(self, back: _Back) -> None:
        """Nothing has changed: members have what they had."""
        directory = back.buffer.directory
        if directory.is_current(HOST, back.over):  # not where rows went to members in another way
            for memory, held in back.held:
                for part in held:
                    directory.copied(memory, part)
            self._count(sum(part.total_nbytes for _, held in back.held for part in held))

    def _count(self, nbytes: int) -> None:
        events = self._memory.accounting.events
        events.round_trips += nbytes > 0
        events.round_trip_nbytes += nbytes

    def _copy(self, back: _Back, source: VirtualBuffer, from_: Region, issue: Issue) -> None:
        """The bytes of ``source`` are those that were written."""
        target, directory = back.buffer, back.buffer.directory
        copies, brought_nbytes = RegionCopies(self._memory, issue), 0
        for memory, held in back.held:
            for there, here, holders in _parts(source, from_, back.over, held):
                found = None if directory.is_current(memory, here) else self._nearest(memory, holders, here)
                if found is None or source.dependencies[found].poisoned:
                    continue
                if not (_has_place(source, found, there) and _has_place(target, memory, here)):
                    continue  # released, or put elsewhere, while the client copied
                if copies.bring(source, found, there, target, memory, here):
                    directory.copied(memory, here)
                    brought_nbytes += here.total_nbytes
        self._count(brought_nbytes)

    def _nearest(self, memory: int, holders: int, over: Region) -> int | None:
        """The member's memory among ``holders`` from which bytes come that rank 0 need not send."""
        links, nbytes = self._memory.transfers.links, over.total_nbytes
        holders &= ~self._memory.memories.shared
        sent_ns = links.cost_ns(HOST, memory, nbytes)
        if holders >> memory & 1:
            return memory if sent_ns >= _ALONE_NS else None
        may = [
            source
            for source in range(1, holders.bit_length())
            if holders >> source & 1
            and links.crosses(HOST, source)
            and sent_ns >= (_TOLD_NS if links.crosses(source, memory) else _ALONE_NS)
            and links.cost_ns(source, memory, nbytes) <= _SLOWER * sent_ns
        ]
        return links.choose(memory, sum(1 << source for source in may), nbytes) if may else None


def _parts(
    source: VirtualBuffer, from_: Region, to: Region, held: Sequence[Bytes]
) -> Iterator[tuple[Region, Region, int]]:
    """Bytes of ``from_``, those of ``to`` that they are, and who holds all of them; within ``held``.

    Rows all or none, and nothing where there are very many parts.
    """
    if from_.levels:
        if sum(part.total_nbytes for part in held) == to.total_nbytes:
            yield from_, to, reduce(and_, [holders for _, holders, _ in source.directory.holders(from_)])
        return
    shift = from_.base - to.base
    found = [
        (as_region(part), holders)
        for each in held
        for part, holders, _ in source.directory.holders(as_region(each).moved(shift))
    ]
    for part, holders in found if len(found) <= _PARTS_MAX else ():
        yield part, part.moved(-shift), holders


def _has_place(buffer: VirtualBuffer, memory: int, over: Region) -> bool:
    place = buffer.allocations[memory - 1]
    return place is not None and place.holds(over.bounds)


def _overlap(one: Region, other: Region) -> bool:
    return RegionSet((one,)).overlaps(RegionSet((other,)))


def is_same(one: memoryview, from_: Region, other: memoryview, to: Region) -> bool:
    """Whether like regions have the same bytes.  It is mostly known by the first ones where they differ."""
    from_, to = alike(from_, to)
    if from_.levels:
        return np.array_equal(from_.of(one, 1), to.of(other, 1))
    start, nbytes = 0, 64
    while start < from_.nbytes:
        stop = min(start + nbytes, from_.nbytes)
        here = one[from_.base + start : from_.base + stop]
        there = other[to.base + start : to.base + stop]
        if (stop - start) % 8 == 0:
            here, there = here.cast("B"), there.cast("B")
            if not np.array_equal(np.frombuffer(here, np.uint64), np.frombuffer(there, np.uint64)):
                return False
        elif bytes(here) != bytes(there):
            return False
        start, nbytes = stop, _COMPARED_NBYTES
    return True


__all__ = ["LEAST_NBYTES", "RoundTrips", "is_same"]
