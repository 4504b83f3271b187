"""Copies of regions between buffers, made where the bytes are: on members that hold them, or in the arena.

A copy is cut into pieces, of each of which one memory holds all that is read and one all of the range in
which is written; so what lies between the runs stays as it is.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sdi.dataclass import dataclass, replace
from sdi.devices.base import Place
from sdi.devices.copying import within
from sdi.devices.handles import DeviceBuffer
from sdi.devices.host_copy import BESIDE_KERNELS_NBYTES
from sdi.devices.issue import Issue
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.launch.steps import Steps
from sdi.region import Region, alike, packed_like
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, Directory, member_memory
from sdi.vmem.host import is_short
from sdi.vmem.memory import VirtualMemory
from sdi.vmem.placed import Wanted

_PARTS_MAX = 64
"""Bytes that are scattered over memories more than that are copied in the arena."""
_ATTEMPTS = 4
_FEW_RUNS = 64
"""The arena's as well as packed ones'."""


@dataclass(frozen=True, slots=True)
class HeldBytes:
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
class _Where:
    """Bytes of a member or of the arena, and which of them."""

    bytes: DeviceBuffer | memoryview
    over: Region


@dataclass(frozen=True, slots=True, eq=False)
class _End:
    """One end of a copy.

    ``waits``: what comes before it there.  ``by(ticket)``: it is over there when the ticket is done.
    """

    memory: int
    place: _Where
    waits: list[Ticket]
    by: Callable[[Ticket], None]


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Runs in a row, at an offset in the arena, until they are given back; see ``Scratch``."""

    offset: int
    waits: list[Ticket]
    give: Callable[[Sequence[Ticket]], None]


def parts_of(directory: Directory, over: ByteRange) -> list[HeldBytes] | None:
    """``over`` in as few parts as that takes, in order; None where these are very many.

    What different members have is not put together because the host has all of it too.
    """
    found: list[HeldBytes] = []
    runs = directory.runs(over, 4 * _PARTS_MAX)
    for part, holders, defined in runs or ():
        last = found[-1] if found else None
        both = last.holders & holders if last is not None and last.defined == defined else 0
        if last is not None and both and (both != 1 << HOST or 1 << HOST in (last.holders, holders)):
            found[-1] = HeldBytes(ByteRange(last.over.start, part.stop), both, defined)
        else:
            found.append(HeldBytes(part, holders, defined))
    return None if runs is None or len(found) > _PARTS_MAX else found


def pieces(
    source: Region, target: Region, from_parts: list[HeldBytes], to_parts: list[HeldBytes]
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
    """Copies regions of buffers for one command."""

    def __init__(self, memory: VirtualMemory, issue: Issue) -> None:
        self._memory = memory
        self._for = issue
        self._wanted_in = HOST

    def copy(
        self, source: VirtualBuffer, from_: Region, target: VirtualBuffer, to: Region, wanted: int = HOST
    ) -> Steps[list[Ticket]]:
        """Issue a copy of ``from_`` to ``to``, which are alike and share no byte.

        In the arena where the bytes are scattered, or some of them are poisoned; else, where ``to`` has no
        gaps, to the member of the memory ``wanted``, if it is one's.
        """
        self._wanted_in = wanted
        from_, to = alike(from_, to)
        here = self._parts_of(source, from_.bounds)
        there = [HeldBytes(to.bounds, 0, False)] if to.is_dense else self._parts_of(target, to.bounds)
        is_poisoned = any(
            dependencies.failed() for buffer in (source, target) for dependencies in buffer.dependencies
        )
        is_home = self._memory.coherence == "host" or source.is_in_place or target.is_in_place
        if here is None or there is None or is_poisoned or is_home:
            return [self._in_arena(source, from_, target, to)]
        tickets: list[Ticket] = []
        # The large ones run while the others, of what lies at the edges of members' parts, are issued.
        found = sorted(pieces(from_, to, here, there), key=lambda pair: -pair[0].total_nbytes)
        for left, right in found:
            tickets += yield from self._piece(source, left, target, right)
        return tickets

    def bring(
        self,
        source: VirtualBuffer,
        from_memory: int,
        from_: Region,
        target: VirtualBuffer,
        to_memory: int,
        to: Region,
    ) -> bool:
        """Copy ``from_``, which ``from_memory`` holds, to ``to``, which has a place in ``to_memory``.

        Directories are the caller's.  False where there is no room for what is under way.
        """
        from_, to = alike(from_, to)
        read, written = self._reading(source, from_memory, from_), self._written(target, to_memory, to)
        return self._carry(read, written) is not None

    def gather(self, buffer: VirtualBuffer, over: Region) -> Packed | None:
        """Bring ``over`` alone to the arena, packed, for one reader; ``Packed.waits`` makes it true there.

        None: the arena has it, or it pays to bring all of the range that it is in, or that has to be done.
        """
        over, _ = alike(over, over)
        parts = self._scattered(buffer, over)
        if parts is None or 2 * over.total_nbytes > over.span_nbytes:
            return None
        found = _packed_pieces(over, parts)
        packed = self._memory.scratch.take(HOST, over.total_nbytes) if _is_on_members(found) else None
        if packed is None:
            return None
        waits: list[Ticket] = []
        for memory, piece, inside in found:
            to = _End(HOST, _Where(packed.bytes, inside), [], waits.append)
            if self._carry(self._reading(buffer, memory, piece), to) is None:
                self._memory.transfers.fetch_host(buffer, piece.bounds, self._for)
                self._carry(self._reading(buffer, HOST, piece), to)
        return Packed(packed.offset, waits, packed.give)

    def scatter(self, buffer: VirtualBuffer, over: Region, transfer: Ticket) -> int | None:
        """Where in the arena the application is to put the bytes of ``over``, packed, for ``transfer``.

        They are copied on to the memories that hold what lies between the runs, which need not be brought to
        the arena.  None: the arena does, or that can't be done.
        """
        over, _ = alike(over, over)
        parts = self._scattered(buffer, over)
        if parts is None or over.num_runs <= _FEW_RUNS:
            return None
        found = _packed_pieces(over, parts)
        packed = self._memory.scratch.take(HOST, over.total_nbytes) if _is_on_members(found) else None
        if packed is None:
            return None
        taken: list[Ticket] = [transfer]
        for memory, piece, inside in found:
            from_ = _End(HOST, _Where(packed.bytes, inside), [transfer], taken.append)
            if self._carry(from_, self._written(buffer, memory, piece)) is None:
                self._memory.transfers.fetch_host(buffer, piece.bounds, self._for)
                self._carry(from_, self._written(buffer, HOST, piece))
                memory = HOST
            buffer.directory.wrote(memory, piece)
        packed.give(taken)
        return packed.offset

    def fill(self, buffer: VirtualBuffer, over: Region, pattern: bytes) -> list[Ticket] | None:
        """Repeat ``pattern`` over each run, where the bytes are; None where the arena is the place."""
        over, _ = alike(over, over)
        parts = self._scattered(buffer, over)
        if parts is None or over.num_runs <= _FEW_RUNS:
            return None
        found = [(piece, _elsewhere(parts, piece)) for piece, _ in pieces(over, over, parts, parts)]
        is_cut = any(
            piece.nbytes % len(pattern) or (piece.base - over.base) % len(pattern) for piece, _ in found
        )
        if is_cut or any(member == HOST for _, member in found):
            return None
        memory = self._memory
        tickets: list[Ticket] = []
        for piece, member in found:
            scratch = memory.scratch.take(member, piece.total_nbytes)
            if scratch is None:
                return None  # what was filled is filled again
            device, nbytes = memory.devices[member - 1], piece.total_nbytes
            filled = device.fill(DeviceBuffer(scratch.bytes), 0, nbytes, pattern, [], self._for.timing)
            target = self._written(buffer, member, piece)
            source = _Where(scratch.bytes, packed_like(piece))
            ticket = self._local(member, source, target.place, [filled, *target.waits])
            target.by(ticket)
            memory.accounting.worked("fill", member - 1, nbytes, filled, self._for)
            scratch.give([filled, ticket])
            buffer.directory.wrote(member, piece)
            tickets.append(ticket)
        return tickets

    def _scattered(self, buffer: VirtualBuffer, over: Region) -> list[HeldBytes] | None:
        """The parts of a region with gaps, if it can be copied piece by piece."""
        memory = self._memory
        if over.is_dense or memory.coherence == "host":
            return None
        if any(dependencies.failed() for dependencies in buffer.dependencies):
            return None
        parts, shared = parts_of(buffer.directory, over.bounds), memory.memories.shared
        is_shared = shared and any(part.holders & shared for part in parts or ())
        return None if is_shared else parts

    def _parts_of(self, buffer: VirtualBuffer, over: ByteRange) -> list[HeldBytes] | None:
        """See ``parts_of``.  What nodes' own memory alone has counts as a member's there, to which it is
        brought before it is used; or the host's, where none is left.
        """
        parts, nodes = parts_of(buffer.directory, over), self._memory.memories.nodes
        if parts is None or not nodes.mask:
            return parts
        return [replace(part, holders=self._usable(part.holders)) for part in parts]

    def _usable(self, holders: int) -> int:
        memory, nodes = self._memory, self._memory.memories.nodes
        usable = holders & ~nodes.mask
        for node in nodes if not usable else ():
            if holders >> node.number & 1:
                there = [m for m in memory.members if memory.devices[m].capabilities.node == node.node]
                return 1 << (member_memory(there[0]) if there else HOST)
        return usable

    def _piece(
        self, source: VirtualBuffer, from_: Region, target: VirtualBuffer, to: Region
    ) -> Steps[list[Ticket]]:
        from_, to = alike(from_, to)
        for _ in range(_ATTEMPTS):
            ends = self._ends(source, from_, target, to)
            if ends is None:
                break
            wanted = self._wanted(source, from_, target, to, ends)
            waits = self._memory.placement.reserve(wanted, self._for)
            if not waits and self._ends(source, from_, target, to) != ends:
                continue  # making room for one has taken the other's
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
        here = self._parts_of(source, from_.bounds)
        there = None if to.is_dense else self._parts_of(target, to.bounds)
        if here is None or len(here) > 1:
            return None
        readers = here[0].holders
        is_open = to.is_dense or (there is not None and not any(part.defined for part in there))
        if is_open and self._wanted_in != HOST:
            is_there = readers >> self._wanted_in & 1
            nearest = memory.transfers.links.choose(self._wanted_in, readers, from_.total_nbytes)
            ends = Ends(self._wanted_in if is_there else nearest, self._wanted_in)
        elif is_open:
            now = self._parts_of(target, to.bounds) or ()
            on_member = readers & now[0].holders & ~(1 << HOST) if len(now) == 1 else 0
            place = _lowest(on_member or readers)
            ends = Ends(place, place)
        elif there is None or len(there) > 1:
            return None
        else:
            both = readers & there[0].holders
            writer = _member_first(both or there[0].holders)
            ends = Ends(writer if both else _member_first(readers), writer)
        if memory.memories.pooled is not None and memory.memories.pooled_memory in (ends.source, ends.target):
            return None
        for buffer, member, over in self._wanted(source, from_, target, to, ends):
            extent = buffer.allocations[member]
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
        if self._memory.memories.nodes.mask:  # where only a node's own memory had it, see ``_parts_of``
            self._memory.transfers.bring(source, ends.source, from_.bounds, self._for)
            if not to.is_dense:
                self._memory.transfers.bring(target, ends.target, to.bounds, self._for)
        left, right = self._reading(source, ends.source, from_), self._written(target, ends.target, to)
        ticket = self._carry(left, right)
        if ticket is not None:
            target.directory.wrote(ends.target, to)
        return ticket

    def _reading(self, buffer: VirtualBuffer, memory: int, over: Region) -> _End:
        use = buffer.dependencies[memory].use((over,), ())
        return _End(memory, self._place(buffer, memory, over), use.waits(), use.by)

    def _written(self, buffer: VirtualBuffer, memory: int, over: Region) -> _End:
        use = buffer.dependencies[memory].use((), (over,))
        return _End(memory, self._place(buffer, memory, over), use.waits(), use.by)

    def _place(self, buffer: VirtualBuffer, memory: int, over: Region) -> _Where:
        if memory == HOST:
            return _Where(self._memory.memories.host_view(buffer, over.bounds), over.at(0))
        extent = self._memory.memories.allocation(buffer, memory - 1)
        return _Where(extent.device_buffer, over.moved(-extent.over.start))

    def _carry(self, source: _End, target: _End) -> Ticket | None:
        """Copy from end to end.  None where there is no room for what is under way."""
        if self._is_for_host(source, target):
            ticket = self._by_host(source, target)
        elif source.memory != target.memory:
            return self._across(source, target)
        else:
            waits = [*source.waits, *target.waits]
            ticket = self._local(source.memory, source.place, target.place, waits)
        source.by(ticket)
        target.by(ticket)
        return ticket

    def _is_for_host(self, source: _End, target: _End) -> bool:
        """Whether the host copies as fast as anybody, where it sees both: rows, and what is done at once."""
        from_, to = source.place.over, target.place.over
        is_wanted = bool(from_.levels or to.levels)
        if source.memory == target.memory:
            is_at_once = not (source.waits or target.waits) and is_short(from_, to)
            is_long = max(from_.span_nbytes, to.span_nbytes) >= BESIDE_KERNELS_NBYTES
            is_wanted = is_at_once or (is_wanted and is_long)
        return is_wanted and self._seen(source) is not None and self._seen(target) is not None

    def _by_host(self, source: _End, target: _End) -> Ticket:
        there, here = self._seen(source), self._seen(target)
        assert there is not None and here is not None
        from_, to, waits = source.place.over, target.place.over, [*source.waits, *target.waits]
        ticket = self._memory.host.copy(there, from_, here, to, waits)
        self._account(source.memory, target.memory, to.total_nbytes, ticket)
        return ticket

    def _account(self, source: int, target: int, nbytes: int, ticket: Ticket) -> None:
        if source == target:
            self._memory.accounting.worked("copy", source - 1, nbytes, ticket, self._for)
        else:
            cause, command = self._for.cause, self._for.command
            self._memory.accounting.copied(source, target, nbytes, ticket, cause, command)

    def _seen(self, end: _End) -> memoryview | None:
        """The bytes of an end, if the host can copy them."""
        there = end.place.bytes
        if isinstance(there, memoryview):
            return there
        return self._memory.devices[end.memory - 1].host_bytes(DeviceBuffer(there))

    def _local(self, memory: int, source: _Where, target: _Where, waits: list[Ticket]) -> Ticket:
        """Copy within one memory."""
        from_, to = alike(source.over, target.over)
        if isinstance(source.bytes, memoryview) and isinstance(target.bytes, memoryview):
            ticket = self._memory.host.copy(source.bytes, from_, target.bytes, to, waits)
        else:
            device = self._memory.devices[memory - 1]
            here, there = DeviceBuffer(source.bytes), DeviceBuffer(target.bytes)
            ticket = within(device, here, from_, there, to, waits, self._for.timing)
            device.flush()
        self._account(memory, memory, to.total_nbytes, ticket)
        return ticket

    def _across(self, source: _End, target: _End) -> Ticket | None:
        """Copy from memory to memory: packed where the bytes are, moved, unpacked where they are to be.

        None where there is no room for packed bytes.
        """
        nbytes, like = source.place.over.total_nbytes, packed_like(source.place.over)
        in_rows = [end for end in (source, target) if not end.place.over.is_dense]
        rooms = [self._memory.scratch.take(end.memory, nbytes) for end in in_rows]
        if None in rooms:
            for room in rooms:
                if room is not None:
                    room.give([])
            return None
        leaving = rooms[0] if source in in_rows else None
        arriving = rooms[-1] if target in in_rows else None
        first, last = source.place, target.place
        leave, arrive = source.waits, target.waits
        if leaving is not None:
            gathered = self._local(source.memory, first, _Where(leaving.bytes, like), leave)
            source.by(gathered)
            first, leave = _Where(leaving.bytes, Region(0, nbytes)), [gathered]
        if arriving is not None:
            last, arrive = _Where(arriving.bytes, Region(0, nbytes)), []
        left, ticket = self._move(source.memory, first, target.memory, last, nbytes, leave, arrive)
        if leaving is None:
            source.by(left)
        else:
            leaving.give([*leave, left])
        if arriving is not None:
            moved, packed = ticket, _Where(arriving.bytes, like)
            ticket = self._local(target.memory, packed, target.place, [moved, *target.waits])
            arriving.give([moved, ticket])
        target.by(ticket)
        return ticket

    def _move(
        self,
        source: int,
        first: _Where,
        target: int,
        last: _Where,
        nbytes: int,
        leave: list[Ticket],
        arrive: list[Ticket],
    ) -> tuple[Ticket, Ticket]:
        """Copy ``nbytes`` in one run from ``first`` in ``source`` to ``last`` in ``target``, elsewhere.

        A ticket for each end, see ``Device.copy``.
        """
        devices = self._memory.devices
        device = devices[(source if target == HOST else target) - 1]
        there, here = (
            Place(where.bytes, where.over.base, None if memory == HOST else devices[memory - 1])
            for memory, where in ((source, first), (target, last))
        )
        left, ticket = device.copy(there, here, Region(0, nbytes), leave, arrive, self._for.timing)
        device.flush()
        self._account(source, target, nbytes, ticket)
        return left, ticket

    def _in_arena(self, source: VirtualBuffer, from_: Region, target: VirtualBuffer, to: Region) -> Ticket:
        """Bring what is needed to the arena and copy there."""
        memory = self._memory
        memory.transfers.fetch_host(source, from_.bounds, self._for)
        waits = source.dependencies[HOST].before_read(from_.bounds)
        waits += target.dependencies[HOST].before_write(to)
        reads = source.dependencies[HOST].use((from_.bounds,), ())
        ticket = self._local(HOST, self._place(source, HOST, from_), self._place(target, HOST, to), waits)
        reads.by(ticket)
        memory.write_host(target, to, ticket)
        return ticket


def _elsewhere(parts: list[HeldBytes], piece: Region) -> int:
    """The memory that holds the part in which a piece is: the host's if it does, else that of a member."""
    return _lowest(next(part for part in parts if piece.base < part.over.stop).holders)


def _packed_pieces(over: Region, parts: list[HeldBytes]) -> list[tuple[int, Region, Region]]:
    """The pieces of a region: the memory of each, and where it is among all runs in a row."""
    packed = packed_like(over)
    whole = [HeldBytes(packed.bounds, 0, False)]
    found = pieces(over, packed, parts, whole)
    return [(_elsewhere(parts, piece), piece, inside) for piece, inside in found]


def _is_on_members(found: list[tuple[int, Region, Region]]) -> bool:
    return any(memory != HOST for memory, _, _ in found)


def _lowest(memories: int) -> int:
    return (memories & -memories).bit_length() - 1


def _member_first(memories: int) -> int:
    """The member with the lowest number among these memories, or else the host."""
    members = memories & ~(1 << HOST)
    return _lowest(members or memories)
