"""Copies of regions between buffers, made where the bytes are: on members that hold them, or in the arena.

A copy is cut into pieces, of each of which one memory holds all that is read and one all of the range in
which is written; so what lies between the runs stays as it is.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from sdi.devices.base import DeviceBuffer, Rows
from sdi.devices.ticket import Ticket
from sdi.errors import Status, require
from sdi.intervals import ByteRange
from sdi.region import Region, alike
from sdi.runtime.steps import Steps
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, Directory
from sdi.vmem.hazards import RANGES_MAX, Use
from sdi.vmem.memory import Scratch, VirtualMemory
from sdi.vmem.placement import Wanted

_PARTS_MAX = 64
"""Bytes that are scattered over memories more than that are copied in the arena."""
SPOILT_RUNS_MAX = 1 << 14
"""So many runs are told apart where bytes among them are spoilt."""
_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of which each of ``holders``, a bit set, holds all.  ``defined``: somebody wrote them."""

    over: ByteRange
    holders: int
    defined: bool


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a piece is read and where it is written."""

    source: int
    target: int


@dataclass(frozen=True, slots=True, eq=False)
class _End:
    """``over`` of ``buffer`` in a memory, and the access to it there."""

    memory: int
    buffer: VirtualBuffer
    over: Region
    use: Use


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Bytes of a member or of the arena, and which of them."""

    bytes: DeviceBuffer | memoryview
    over: Region


def parts_of(directory: Directory, over: ByteRange) -> list[Part] | None:
    """``over`` in as few parts as that takes, in order; None where these are very many."""
    found: list[Part] = []
    intervals = directory.intervals(over)
    for part, holders, defined in islice(intervals, 4 * _PARTS_MAX):
        last = found[-1] if found else None
        if last is not None and last.defined == defined and last.holders & holders:
            found[-1] = Part(ByteRange(last.over.start, part.stop), last.holders & holders, defined)
        else:
            found.append(Part(part, holders, defined))
    return None if len(found) > _PARTS_MAX or next(intervals, None) is not None else found


def pieces(
    source: Region, target: Region, from_parts: list[Part], to_parts: list[Part]
) -> Iterator[tuple[Region, Region]]:
    """The two regions, which are alike, in pieces of which each end lies in one part."""
    here = next(part.over for part in from_parts if source.base < part.over.stop)
    there = next(part.over for part in to_parts if target.base < part.over.stop)
    if source.bounds.stop <= here.stop and target.bounds.stop <= there.stop:
        yield source, target
        return
    if not source.levels:
        first = min(here.stop - source.base, there.stop - target.base)
        yield Region(source.base, first), Region(target.base, first)
        rest = source.nbytes - first
        source, target = Region(source.base + first, rest), Region(target.base + first, rest)
    else:
        count = source.counts[-1]
        first = min(_fitting(source, here.stop), _fitting(target, there.stop))
        if first:
            yield source.part(0, first), target.part(0, first)
        else:
            first = 1
            yield from pieces(source.part(0, 1), target.part(0, 1), from_parts, to_parts)
        if first == count:
            return
        source, target = source.part(first, count), target.part(first, count)
    yield from pieces(source, target, from_parts, to_parts)


def _fitting(region: Region, stop: int) -> int:
    """How many of the outermost level's numbers end before ``stop``."""
    stride, count = region.levels[-1]
    inner = region.span_nbytes - (count - 1) * stride
    return max(0, min(count, (stop - region.base - inner) // stride + 1))


class RegionCopies:
    """Copies regions of one session's buffers."""

    def __init__(self, memory: VirtualMemory) -> None:
        self._memory = memory

    def copy(
        self, source: VirtualBuffer, from_: Region, target: VirtualBuffer, to: Region
    ) -> Steps[list[Ticket]]:
        """Issue a copy of ``from_`` to ``to``, which are alike and share no byte.

        In the arena where the bytes are scattered, or some of them are spoilt.
        """
        from_, to = alike(from_, to)
        here = parts_of(source.directory, from_.bounds)
        there = [Part(to.bounds, 0, False)] if to.is_dense else parts_of(target.directory, to.bounds)
        is_spoilt = any(hazards.failed() for buffer in (source, target) for hazards in buffer.hazards)
        if here is None or there is None or is_spoilt or self._memory.coherence == "host":
            return [self._in_arena(source, from_, target, to)]
        tickets: list[Ticket] = []
        # The large ones run while the others, of what lies at the edges of members' parts, are issued.
        found = sorted(pieces(from_, to, here, there), key=lambda pair: -pair[0].total_nbytes)
        for left, right in found:
            tickets += yield from self._piece(source, left, target, right)
        return tickets

    def bring(self, buffer: VirtualBuffer, over: Region) -> bool:
        """Bring ``over`` alone to the arena, for one reader: it does not count as held there.

        False: it pays to bring all of the range that it is in, or that has to be done.
        """
        over, _ = alike(over, over)
        parts = self._scattered(buffer, over)
        if parts is None or 2 * over.total_nbytes > over.span_nbytes:
            return False
        for piece, _ in pieces(over, over, parts, parts):
            member = _elsewhere(parts, piece)
            if member is None:
                continue
            source = _End(member, buffer, piece, buffer.hazards[member].use((piece.bounds,), ()))
            target = _End(HOST, buffer, piece, _writing(buffer, HOST, piece))
            if self._is_direct(source, target):
                self._directly(source, target)
                continue
            scratch = self._scratch(source, target)
            if scratch is None:
                return False
            self._across(source, target, scratch)
        return True

    def write(self, buffer: VirtualBuffer, over: Region, transfer: Ticket) -> list[Ticket] | None:
        """``transfer`` stands for the application's copy to ``over`` in the arena: what that waits for.

        What only members hold is copied on to them, so that what lies between the runs need not be brought to
        the arena.  None: that is not so, or can't be done.
        """
        over, _ = alike(over, over)
        parts = self._scattered(buffer, over)
        if parts is None or over.num_runs <= RANGES_MAX:
            return None
        found = [(piece, _elsewhere(parts, piece)) for piece, _ in pieces(over, over, parts, parts)]
        if all(member is None for _, member in found):
            return None
        written = _writing(buffer, HOST, over)
        copies: list[tuple[_End, _End, tuple[Scratch, Scratch] | None]] = []
        for piece, member in found:
            if member is None:
                continue
            source = _End(HOST, buffer, piece, buffer.hazards[HOST].use((piece.bounds,), ()))
            target = _End(member, buffer, piece, _writing(buffer, member, piece))
            is_direct = self._is_direct(source, target)
            scratch = None if is_direct else self._scratch(source, target)
            if scratch is None and not is_direct:
                for one in (one for _, _, taken in copies for one in taken or ()):
                    one.give([])
                return None
            copies.append((source, target, scratch))
        waits = written.waits()
        written.by(transfer)
        for piece, member in found:
            buffer.directory.wrote(HOST if member is None else member, piece.bounds)
        for source, target, scratch in copies:
            if scratch is None:
                self._directly(source, target)
            else:
                self._across(source, target, scratch)
        return waits

    def fill(self, buffer: VirtualBuffer, over: Region, pattern: bytes) -> list[Ticket] | None:
        """Repeat ``pattern`` over each run, where the bytes are; None where the arena is the place."""
        over, _ = alike(over, over)
        parts = self._scattered(buffer, over)
        if parts is None or over.num_runs <= RANGES_MAX:
            return None
        found = [(piece, _elsewhere(parts, piece)) for piece, _ in pieces(over, over, parts, parts)]
        is_cut = any(
            piece.nbytes % len(pattern) or (piece.base - over.base) % len(pattern) for piece, _ in found
        )
        if is_cut or any(member is None for _, member in found):
            return None
        memory = self._memory
        tickets: list[Ticket] = []
        for piece, member in found:
            assert member is not None
            scratch = memory.scratch(member, piece.total_nbytes)
            if scratch is None:
                return None  # what was filled is filled again
            device, nbytes = memory.devices[member - 1], piece.total_nbytes
            filled = device.fill(DeviceBuffer(scratch.bytes), 0, nbytes, pattern, [])
            target = _End(member, buffer, piece, _writing(buffer, member, piece))
            source = _Place(scratch.bytes, packed_like(piece))
            ticket = self._local(member, source, self._place(target), [filled, *target.use.waits()])
            target.use.by(ticket)
            memory.accounting.worked("fill", member - 1, nbytes, filled)
            scratch.give([filled, ticket])
            buffer.directory.wrote(member, piece.bounds)
            tickets.append(ticket)
        return tickets

    def _scattered(self, buffer: VirtualBuffer, over: Region) -> list[Part] | None:
        """The parts of a region with gaps, if it can be copied piece by piece."""
        memory = self._memory
        if over.is_dense or memory.coherence == "host":
            return None
        if any(hazards.failed() for hazards in buffer.hazards):
            return None
        parts = parts_of(buffer.directory, over.bounds)
        is_shared = memory.spread is not None and any(
            part.holders >> memory.shared & 1 for part in parts or ()
        )
        return None if is_shared else parts

    def _piece(
        self, source: VirtualBuffer, from_: Region, target: VirtualBuffer, to: Region
    ) -> Steps[list[Ticket]]:
        from_, to = alike(from_, to)
        for _ in range(_ATTEMPTS):
            ends = self._ends(source, from_, target, to)
            if ends is None:
                break
            waits = self._memory.placement.reserve(self._wanted(source, from_, target, to, ends))
            if not waits:
                ticket = self._issue(source, from_, target, to, ends)
                if ticket is None:
                    break
                return [ticket]
            yield waits
        return [self._in_arena(source, from_, target, to)]

    def _ends(self, source: VirtualBuffer, from_: Region, target: VirtualBuffer, to: Region) -> Ends | None:
        """Where to make a piece now; None: in the arena, where the bytes are not."""
        memory = self._memory
        here = parts_of(source.directory, from_.bounds)
        there = None if to.is_dense else parts_of(target.directory, to.bounds)
        if here is None or len(here) > 1:
            return None
        readers = here[0].holders
        if to.is_dense or (there is not None and not any(part.defined for part in there)):
            ends = Ends(_lowest(readers), _lowest(readers))
        elif there is None or len(there) > 1:
            return None
        else:
            both = readers & there[0].holders
            writer = _member_first(both or there[0].holders)
            ends = Ends(writer if both else _member_first(readers), writer)
        if memory.spread is not None and memory.shared in (ends.source, ends.target):
            return None
        for buffer, member, over in self._wanted(source, from_, target, to, ends):
            extent = buffer.extents[member]
            is_there = extent is not None and extent.holds(over)
            if not is_there and not memory.placement.fits(member, over):
                return None
        return ends

    def _wanted(
        self, source: VirtualBuffer, from_: Region, target: VirtualBuffer, to: Region, ends: Ends
    ) -> list[Wanted]:
        wanted: list[Wanted] = []
        if ends.source != HOST:
            wanted.append((source, ends.source - 1, from_.bounds))
        if ends.target != HOST:
            if source is target and ends.source == ends.target:
                start = min(from_.bounds.start, to.bounds.start)
                both = ByteRange(start, max(from_.bounds.stop, to.bounds.stop))
                return [(target, ends.target - 1, both)]
            wanted.append((target, ends.target - 1, to.bounds))
        return wanted

    def _issue(
        self, source: VirtualBuffer, from_: Region, target: VirtualBuffer, to: Region, ends: Ends
    ) -> Ticket | None:
        """None where there is no room for what is under way."""
        reads = source.hazards[ends.source].use((from_.bounds,), ())
        left, right = (
            _End(ends.source, source, from_, reads),
            _End(ends.target, target, to, _writing(target, ends.target, to)),
        )
        if ends.source == ends.target:
            places = self._place(left), self._place(right)
            ticket = self._local(ends.source, *places, [*reads.waits(), *right.use.waits()])
            reads.by(ticket)
            right.use.by(ticket)
        elif self._is_direct(left, right):
            ticket = self._directly(left, right)
        else:
            scratch = self._scratch(left, right)
            if scratch is None:
                return None
            ticket = self._across(left, right, scratch)
        for over in to.runs() if to.num_runs <= RANGES_MAX else (to.bounds,):
            target.directory.wrote(ends.target, over)
        return ticket

    def _place(self, end: _End) -> _Place:
        """Where an end is."""
        if end.memory == HOST:
            return _Place(self._memory.host_view(end.buffer, end.over.bounds), end.over.at(0))
        extent = self._memory.extent(end.buffer, end.memory - 1)
        return _Place(extent.device_buffer, end.over.moved(-extent.over.start))

    def _local(self, memory: int, source: _Place, target: _Place, waits: list[Ticket]) -> Ticket:
        """Copy within one memory."""
        from_, to = alike(source.over, target.over)
        nbytes = to.total_nbytes
        if isinstance(source.bytes, memoryview) and isinstance(target.bytes, memoryview):
            task = partial(np.copyto, to.of(target.bytes), from_.of(source.bytes))
            return self._memory.run_on_host(task, waits, "copy", nbytes)
        device = self._memory.devices[memory - 1]
        ticket = device.copy(DeviceBuffer(source.bytes), from_, DeviceBuffer(target.bytes), to, waits)
        device.flush()
        self._memory.accounting.worked("copy", memory - 1, nbytes, ticket)
        return ticket

    def _is_direct(self, source: _End, target: _End) -> bool:
        """Whether members copy these rows as they are, as fast as packed."""
        devices = self._memory.devices
        return (
            len(source.over.levels) == 1
            and source.over.levels == target.over.levels
            and all(
                devices[end.memory - 1].facts.is_host_memory for end in (source, target) if end.memory != HOST
            )
        )

    def _directly(self, source: _End, target: _End) -> Ticket:
        """Copy from memory to memory by rows of the same pitch."""
        ((pitch, count),) = source.over.levels
        rows = Rows(count, source.over.nbytes, pitch)
        (there, from_), (here, to) = (
            (place.bytes, place.over.base) for place in (self._place(source), self._place(target))
        )
        leave, arrive = source.use.waits(), target.use.waits()
        devices = self._memory.devices
        device = devices[(target.memory or source.memory) - 1]
        if isinstance(there, memoryview):
            left = ticket = device.upload_rows(there, DeviceBuffer(here), to, rows, [*leave, *arrive])
        elif isinstance(here, memoryview):
            left = ticket = device.download_rows(there, from_, here, rows, [*leave, *arrive])
        else:
            other = devices[source.memory - 1]
            left, ticket = device.peer_copy_rows(other, there, from_, here, to, rows, leave, arrive)
        device.flush()
        source.use.by(left)
        target.use.by(ticket)
        nbytes = source.over.total_nbytes
        self._memory.accounting.copied(source.memory, target.memory, nbytes, ticket)
        return ticket

    def _scratch(self, source: _End, target: _End) -> tuple[Scratch, Scratch] | None:
        """Room for the packed bytes of a copy between two memories; None where there is none."""
        nbytes = source.over.total_nbytes
        leaving = self._memory.scratch(source.memory, nbytes)
        arriving = None if leaving is None else self._memory.scratch(target.memory, nbytes)
        if leaving is None or arriving is None:
            if leaving is not None:
                leaving.give([])
            return None
        return leaving, arriving

    def _across(self, source: _End, target: _End, scratch: tuple[Scratch, Scratch]) -> Ticket:
        """Copy from memory to memory: packed where the bytes are, moved, unpacked where they are to be."""
        leaving, arriving = scratch
        nbytes = source.over.total_nbytes
        like, packed = packed_like(source.over), Region(0, nbytes)
        first = self._place(source)
        ready = source.use.waits()
        if not source.over.is_dense:
            gathered = self._local(source.memory, first, _Place(leaving.bytes, like), ready)
            source.use.by(gathered)
            first, ready = _Place(leaving.bytes, packed), [gathered]
        left, moved = self._move(source.memory, first, target.memory, arriving.bytes, nbytes, ready)
        if source.over.is_dense:
            source.use.by(left)
        last = self._place(target)
        ticket = self._local(target.memory, _Place(arriving.bytes, like), last, [moved, *target.use.waits()])
        target.use.by(ticket)
        leaving.give([*ready, left])
        arriving.give([moved, ticket])
        return ticket

    def _move(
        self,
        source: int,
        first: _Place,
        target: int,
        to: DeviceBuffer | memoryview,
        nbytes: int,
        waits: list[Ticket],
    ) -> tuple[Ticket, Ticket]:
        """Copy ``nbytes`` in one run from ``first`` in ``source`` to the start of ``to``, elsewhere.

        A ticket for each end, see ``Device.peer_copy``.
        """
        there, at = first.bytes, first.over.base
        devices = self._memory.devices
        if isinstance(there, memoryview):
            device = devices[target - 1]
            left = ticket = device.upload(there[at : at + nbytes], DeviceBuffer(to), 0, waits)
        elif isinstance(to, memoryview):
            device = devices[source - 1]
            left = ticket = device.download(there, at, to[:nbytes], waits)
        else:
            device = devices[target - 1]
            left, ticket = device.peer_copy(devices[source - 1], there, at, to, 0, nbytes, waits, ())
        device.flush()
        self._memory.accounting.copied(source, target, nbytes, ticket)
        return left, ticket

    def _in_arena(self, source: VirtualBuffer, from_: Region, target: VirtualBuffer, to: Region) -> Ticket:
        """Bring what is needed to the arena and copy there."""
        memory = self._memory
        memory.fetch_host(source, from_.bounds)
        waits = source.hazards[HOST].before_read(from_.bounds)
        parts, more = overwritten(memory, target, to)
        waits += more
        for part in parts:
            waits += target.hazards[HOST].before_write(part)
        reads = source.hazards[HOST].use((from_.bounds,), ())
        ends = _End(HOST, source, from_, reads), _End(HOST, target, to, reads)
        ticket = self._local(HOST, self._place(ends[0]), self._place(ends[1]), waits)
        reads.by(ticket)
        for part in parts:
            memory.write_host(target, part, ticket)
        return ticket


def overwritten(
    memory: VirtualMemory, buffer: VirtualBuffer, over: Region
) -> tuple[list[ByteRange], list[Ticket]]:
    """What counts as written when ``over`` is, in the arena, and what to wait for besides.

    What lies between the runs stays where it is, and spoilt if it is that.  Among very many runs of which
    none is spoilt it is brought to the arena; raises ClError where one is, and they can't be told apart.
    """
    bounds = over.bounds
    if over.is_dense:
        return [bounds], []
    is_spoilt = any(
        part.start < bounds.stop and bounds.start < part.stop for part in buffer.hazards[HOST].failed()
    )
    if is_spoilt or over.num_runs <= RANGES_MAX:
        what = f"buffer {buffer.id}: {over.num_runs} rows among bytes that a failed command was to write"
        require(over.num_runs <= SPOILT_RUNS_MAX, Status.OUT_OF_RESOURCES, what)
        return list(over.runs()), []
    memory.fetch_host(buffer, bounds)
    return [bounds], buffer.hazards[HOST].before_read(bounds)


def packed_like(over: Region) -> Region:
    """The same runs, one right after the other from 0 on."""
    levels, span = [], over.nbytes
    for _, count in over.levels:
        levels.append((span, count))
        span *= count
    return Region(0, over.nbytes, tuple(levels))


def _writing(buffer: VirtualBuffer, memory: int, over: Region) -> Use:
    """The access of a copy to ``over``, between the runs of which the memory has what is there."""
    if over.num_runs <= RANGES_MAX:
        return buffer.hazards[memory].use((), list(over.runs()))
    return buffer.hazards[memory].use_all(over.bounds, lambda: list(over.runs()))


def _elsewhere(parts: list[Part], piece: Region) -> int | None:
    """A member that holds the part in which a piece is, if the host does not."""
    part = next(part for part in parts if piece.base < part.over.stop)
    return None if part.holders >> HOST & 1 else _lowest(part.holders)


def _lowest(memories: int) -> int:
    return (memories & -memories).bit_length() - 1


def _member_first(memories: int) -> int:
    """The member with the lowest number among these memories, or else the host."""
    members = memories & ~(1 << HOST)
    return _lowest(members or memories)
