"""The virtual GPU device: turns ready commands into actions on members and host.

Source: papers/1 section 3.1 and table 1.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import assert_never

import numpy as np

from sdi.commands import (
    Command,
    CopyBuffer,
    Fill,
    Launch,
    Map,
    Marker,
    Migrate,
    Read,
    Rectangle,
    Unmap,
    Write,
    overwrites,
)
from sdi.devices.issue import Issue
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed, DeviceLost, Status, require
from sdi.intervals import ByteRange
from sdi.launch.launcher import Launcher
from sdi.launch.recording import Change
from sdi.launch.steps import Steps
from sdi.player.keeper import (
    LARGE_MAX_NBYTES,
    READ_MAX_NBYTES,
    SHOWN_MAX_NBYTES,
    Keeper,
    write_granule,
)
from sdi.player.library import CLIENT_FILLS, CLIENT_LOOKS, CLIENT_TAKES
from sdi.region import Bytes, alike, as_region, packed_like
from sdi.regions import RegionSet
from sdi.runtime.reads import Reads
from sdi.runtime.region_copies import RegionCopies
from sdi.runtime.round_trips import RoundTrips
from sdi.runtime.small import (
    Run,
    bring_for_copy,
    copied_alone,
    copied_by,
    held_beside,
    holding,
    is_small,
    read_where_held,
    renew,
    run_to_bring,
    run_to_read,
    run_to_write,
    write_where_held,
)
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, State, member_memory
from sdi.vmem.host import AT_ONCE_NBYTES
from sdi.vmem.memory import VirtualMemory
from sdi.vmem.placed import GRANULE_NBYTES
from sdi.vmem.transfers import Transfer

_log = logging.getLogger("sdi.members")
_HOMES_MAX = 32
"""A copy of bytes that are scattered more than that goes through the arena."""
_FILL_NBYTES = 1 << 20
"""A fill of less is made in the arena: it is likely that several members want all of it."""
_PAGE_NBYTES = 4096
_BESIDE_NBYTES = 1 << 20
"""A map shows all of a buffer of CPU members that has no more than this beside what was asked for."""


class IssuedWork:
    """What was issued for a command: it is done when ``tickets`` are.

    ``transfer``: stands for what the client does after that: its copy, or putting out what was printed.
    ``packed_at``: where in the arena it finds or puts the bytes in a row; 0: where the buffer is.
    """

    __slots__ = ("packed_at", "tickets", "transfer")

    def __init__(self, tickets: list[Ticket], transfer: Ticket | None = None, packed_at: int = 0) -> None:
        self.tickets = tickets
        self.transfer = transfer
        self.packed_at = packed_at


class VirtualDevice:
    """Issues commands.  The one device that the application sees."""

    def __init__(self, memory: VirtualMemory, launcher: Launcher) -> None:
        self._memory = memory
        self._launcher = launcher
        self._round_trips = RoundTrips(memory)
        facts = [device.capabilities for device in memory.devices]
        copies_itself = memory.transfers.links.is_far or any(each.is_host_memory for each in facts)
        self._read_max_nbytes = READ_MAX_NBYTES if copies_itself else LARGE_MAX_NBYTES
        self._has_own_memory = not all(each.is_host_memory for each in facts)
        self._reads = Reads(memory, launcher)
        self.player: Keeper | None = None
        self._is_host_only = all(device.capabilities.kind.is_host_processor for device in memory.devices)

    def issue(self, command: Command, issue: Issue) -> Steps[IssuedWork]:
        """Issue ``command``; never waits.  Raises ClError when it cannot be done at all."""
        match command:
            case Launch():
                tickets = yield from self._launcher.issue(command, issue)
                return IssuedWork(tickets, Ticket() if command.prints else None)
            case Read():
                return self._read(command, issue)
            case Write():
                back = self._round_trips.before(command)
                work = self._write(command, issue)
                if back is not None:
                    self._round_trips.after(back, command, work.transfer, issue)
                return work
            case CopyBuffer():
                return IssuedWork((yield from self._copy(command, issue)))
            case Fill():
                return IssuedWork((yield from self._fill(command, issue)))
            case Map():
                return self._map(command, issue)
            case Unmap():
                return self._unmap(command, issue)
            case Migrate():
                return (yield from self._migrate(command, issue))
            case Marker():
                return IssuedWork([])
            case _:
                assert_never(command)

    def repeat(self, launch: Launch, issue: Issue) -> list[Ticket] | None:
        """Issue a launch just as the last time; None where ``issue`` has to.  Raises what that does."""
        return self._launcher.repeat(launch, issue)

    def pending(self) -> list[Ticket]:
        """Everything issued that is not done yet."""
        return self._memory.recovery.pending()

    def poison(self, command: Command, why: Exception) -> None:
        """``command`` could not be issued: whoever reads what it was to write fails too."""
        if isinstance(command, Launch):
            self._launcher.poison(command, why)
        written = overwrites(command)
        if written is None:
            return
        buffer_id, rectangle = written
        try:
            buffer = self._memory.buffer(buffer_id)
        except ClError:
            return  # what is gone is read by nobody
        self._memory.recovery.poison(buffer, rectangle.strided, why)

    def drop_members(self, error: DeviceFailed) -> None:
        """``error`` made a command fail; nothing that was issued is pending any more.

        Copies that did not come about count no more.  Lost members are not part of the image any more.
        """
        memory = self._memory
        lost = [member for member in memory.members if memory.devices[member].is_lost()]
        nodes = memory.memories.nodes.lost()
        if not (lost or nodes):
            self.forget_copies(error)
            return
        names, gone_nbytes = list[str](), 0
        for node in nodes:
            names.append(node.device.capabilities.name)
            why = DeviceLost(names[-1], f"it is lost, and what it alone had: {error}")
            gone_nbytes += memory.recovery.drop_node(node, why)
        for member in lost:
            names.append(name := memory.devices[member].capabilities.name)
            why = DeviceLost(name, f"it is lost, and what it alone had: {error}")
            gone_nbytes += memory.recovery.drop_member(member, why)
            self._launcher.drop_member(member, why)
        self._reads.forget()
        memory.accounting.events.members_lost += len(lost)
        memory.accounting.events.lost_nbytes += gone_nbytes
        left = ", ".join(map(str, memory.members))
        data = f"{gone_nbytes} bytes were nowhere else" if gone_nbytes else "nothing was there alone"
        onwards = f"the image goes on with {left}" if left else "no member is left"
        _log.error("lost: %s (%s); %s; %s", ", ".join(names), error, data, onwards)

    def forget_copies(self, error: DeviceFailed) -> None:
        """Copies that did not come about, because of ``error`` or another, count no more where others are."""
        self._memory.recovery.drop_member(None, error)

    def _buffer(self, buffer_id: int, over: ByteRange) -> VirtualBuffer:
        buffer = self._memory.buffer(buffer_id)
        require(
            over.stop <= buffer.nbytes,
            Status.INVALID_VALUE,
            f"buffer {buffer_id}: [{over.start}, {over.stop}) past its {buffer.nbytes} bytes",
        )
        return buffer

    def _read(self, command: Read, issue: Issue) -> IssuedWork:
        over = command.rectangle.bounds
        buffer = self._buffer(command.buffer, over)
        if command.into:
            require(command.rectangle.contiguous, Status.INVALID_VALUE, "a read of rows into the arena")
        shown = self._memory.holding(command.into, over.nbytes) if command.into else None
        transfer = Ticket()
        run = None
        if self._may_keep(command) and not command.into:
            run = run_to_read(self._memory, buffer, command.rectangle.over)
        if not command.unasked:
            self._memory.moved.application += command.rectangle.nbytes
            rows = command.rectangle.strided
            packed = RegionCopies(self._memory, issue).gather(buffer, rows) if run is None else None
            if packed is not None:
                packed.give([transfer])
                return IssuedWork(packed.waits, transfer, packed.offset)
        is_short = over.nbytes <= (SHOWN_MAX_NBYTES if command.into else self._read_max_nbytes)
        is_short |= buffer.together != 0 and not command.into  # the client's copy is all of it
        if self.player is not None and run is not None:
            brought = read_where_held(self._memory, buffer, run, command.rectangle.over, issue)
            self.player.keep_small(command, buffer, run.over, brought)
        elif self.player is not None and command.rectangle.contiguous and is_short:
            self._fetch_recorded(self.player, command, buffer, over, issue)
        else:
            wanted = command.rectangle.strided if self._is_on_node(buffer, over) else over
            self._reads.fetch(buffer, wanted, issue)
        dependencies = buffer.dependencies[HOST]
        waits = dependencies.before_read(over)
        if shown is not None:
            target, there = shown
            waits += target.dependencies[HOST].before_write(there)
            target.dependencies[HOST].written_by(there, transfer)
        dependencies.read_by(over, transfer)
        self._memory.used_on_host(buffer, over, transfer, fetch=True)
        if not command.unasked:
            self._round_trips.read(buffer, command.rectangle.strided)
        # The buffer may be released, and not be known by its number any more, before the service copies.
        return IssuedWork(waits, transfer, buffer.offset + over.start if shown is not None else 0)

    def _is_on_node(self, buffer: VirtualBuffer, over: ByteRange) -> bool:
        """Whether some of it is in other nodes' own memory, from where single rows can come."""
        mask = self._memory.memories.nodes.mask
        return bool(mask) and any(held & mask for _, held, _ in buffer.directory.holders(over))

    def _fetch_recorded(
        self, player: Keeper, command: Read, buffer: VirtualBuffer, over: ByteRange, issue: Issue
    ) -> None:
        before = buffer.directory.state()
        transfers = self._fetch(buffer, over, issue)
        if before is not None and not command.into and is_small(self._memory, buffer, over):
            buffer.directory.enter(before)
        change = _change(buffer, before)
        if change is not None:
            player.keep_read(command, buffer, tuple(transfers), change)

    def _fetch(self, buffer: VirtualBuffer, over: Bytes, issue: Issue) -> list[Transfer]:
        """Make ``over`` current in the arena, by these."""
        transfers = self._memory.transfers.plan(buffer, HOST, (over,), False, issue.cause)
        for transfer in transfers:
            self._memory.transfers.perform(transfer, issue)
        return transfers

    def _write(self, command: Write, issue: Issue) -> IssuedWork:
        rectangle = command.rectangle
        buffer = self._buffer(command.buffer, rectangle.bounds)
        transfer = Ticket()
        if not command.unasked:
            self._memory.moved.application += rectangle.nbytes
        run = self._run_to_write(command, buffer) if command.data else None
        if command.written_ns:
            now_ns = time.monotonic_ns()
            transfer.complete(None, min(command.written_ns, now_ns), now_ns)
        elif not command.unasked and run is None:
            packed_at = RegionCopies(self._memory, issue).scatter(buffer, rectangle.strided, transfer)
            if packed_at is not None and command.data:
                begin_ns = time.monotonic_ns()
                self._memory.arena.view(packed_at, rectangle.nbytes)[:] = command.data
                transfer.complete(None, begin_ns, time.monotonic_ns())
                return IssuedWork([transfer])
            if packed_at is not None:
                return IssuedWork([], transfer, packed_at)
        if command.data:
            return IssuedWork(self._write_carried(command, buffer, run, issue))
        player = self.player if command.written_ns and rectangle.contiguous else None
        before = buffer.directory.state() if player is not None else None
        written = self._memory.write_host(buffer, rectangle.strided, transfer)
        waits = [ticket for ticket in written if ticket is not transfer]
        change = _change(buffer, before)
        if player is not None and change is not None:
            player.keep_write(command, buffer, rectangle.bounds, 0, (), change)
        return IssuedWork([*waits, transfer]) if command.written_ns else IssuedWork(waits, transfer)

    def _may_keep(self, command: Read | Write) -> bool:
        """Whether the player may make it, too, the next time: else other ways are as quick for rows."""
        player = self.player
        return player is not None and (
            command.rectangle.contiguous or (player.is_on and bool(command.record))
        )

    def _run_to_write(self, command: Write, buffer: VirtualBuffer) -> Run | None:
        """Where lengths differ each time, those recordings are right that know none."""
        nbytes = len(command.data)
        is_alike, buffer.written_nbytes = buffer.written_nbytes == nbytes, nbytes
        player = self.player
        if player is None or not self._may_keep(command):
            return None
        run = None
        if self._has_own_memory and command.rectangle.contiguous and player.brings(nbytes):
            run = run_to_bring(self._memory, buffer, command.rectangle.bounds, not command.is_mapped)
        if run is None and is_alike:
            run = run_to_write(self._memory, buffer, command.rectangle.over)
        return run

    def _write_carried(
        self, command: Write, buffer: VirtualBuffer, run: Run | None, issue: Issue
    ) -> list[Ticket]:
        """The bytes came with the record: at once where nobody is at those of the arena.

        What it waits for includes the copies for members: if one fails, so does the command, since nothing
        may be replayed on what that left.
        """
        memory, over, data = self._memory, command.rectangle.strided, memoryview(command.data)
        player = self.player if command.rectangle.contiguous or run is not None else None
        before = buffer.directory.state() if player is not None else None
        from_, to = alike(packed_like(over), over.at(0))
        target, source = to.of(memory.memories.host_view(buffer, over.bounds)), from_.of(data)
        waits = buffer.dependencies[HOST].before_write(over)
        ticket = memory.run_on_host(partial(np.copyto, target, source), waits, issue, "write", data.nbytes)
        done = [ticket]
        if player is not None and run is not None:
            memory.write_host(buffer, over, ticket)
            written = write_where_held(memory, buffer, run, command.rectangle.over, issue, done)
            if run.before is not None:
                brought = Change(buffer.directory, run.before, run.state)
                player.keep_brought(command, buffer, run.over, written, brought)
                return done
            player.keep_small(command, buffer, run.over, written)
            return done
        hull = held_beside(buffer, over.bounds) if player is not None and player.is_on else None
        counted, slack = over.bounds, 0
        if hull is not None:
            counted, slack = hull, write_granule(over.bounds.nbytes) - 1
        copies = copied_alone(memory, buffer, counted) if player is not None else {}
        memory.write_host(buffer, over, ticket)
        if player is not None:
            if hull is not None:
                buffer.directory.wrote(HOST, hull)
            transfers = renew(memory, buffer, copies, issue, done)
            change = _change(buffer, before)
            if change is not None:
                player.keep_write(command, buffer, counted, slack, transfers, change)
        return done

    def _copy(self, command: CopyBuffer, issue: Issue) -> Steps[list[Ticket]]:
        here, there = command.source_rectangle, command.target_rectangle
        source = self._buffer(command.source, here.bounds)
        target = self._buffer(command.target, there.bounds)
        player = self.player
        ends = source, here.strided, target, there.strided, self._place_for(command.member)
        if player is None or source is target:
            return (yield from RegionCopies(self._memory, issue).copy(*ends))
        is_run = here.contiguous and there.contiguous
        parts_of_both = (source, here.bounds), (target, there.bounds)
        yield from bring_for_copy(self._memory, *parts_of_both, is_run, ends[-1], issue)
        before = source.directory.state(), target.directory.state()
        held = holding(source, here, is_written=False)
        tickets = yield from RegionCopies(self._memory, issue).copy(*ends)
        after = source.directory.state(), target.directory.state()
        made = holding(target, there, is_written=True)
        changes = tuple(
            [
                Change(buffer.directory, old, new)
                for buffer, old, new in zip((source, target), before, after, strict=True)
                if old is not None and new is not None
            ]
        )
        regions = (here.over, there.over) if is_run else (here.strided, there.strided)
        parts = copied_by(held, made, *alike(*map(as_region, regions)))
        if len(changes) == 2 and parts and all(member in self._memory.members for member, _, _ in parts):
            player.keep_copy(command, (source, target), parts, changes)
        return tickets

    def _fill(self, command: Fill, issue: Issue) -> Steps[list[Ticket]]:
        """On the members that have the bytes or are to have them, else in the arena."""
        rectangle, pattern = command.rectangle, command.pattern
        over = rectangle.bounds
        buffer, memory = self._buffer(command.buffer, over), self._memory
        filled = RegionCopies(self._memory, issue).fill(buffer, rectangle.strided, pattern)
        if filled is not None:
            return filled
        parts = [(HOST if buffer.is_in_place else self._place_for(command.member), over)]
        is_left_open = rectangle.contiguous and memory.coherence == "lazy" and not command.member
        is_left_open &= not buffer.is_in_place
        if is_left_open and self._fills_on_members(over.nbytes):
            parts = _fill_places(buffer, over, len(pattern), memory.members, memory.memories.shared)
        player = self.player if rectangle.contiguous and over.nbytes <= AT_ONCE_NBYTES else None
        before = buffer.directory.state() if player is not None else None
        filled_by: list[tuple[int, ByteRange]] = []
        tickets: list[Ticket] = []
        for where, part in parts:
            member = where - 1
            is_row = rectangle.contiguous and memory.coherence == "lazy"
            if where == HOST or not is_row or not memory.placement.fits(member, part, places=1):
                row = Rectangle(part.start, (part.nbytes, 1, 1), part.nbytes, part.nbytes)
                tickets.append(
                    self._fill_in_arena(buffer, row if rectangle.contiguous else rectangle, pattern, issue)
                )
                continue
            while waits := memory.placement.reserve([(buffer, member, part)], issue):
                yield waits
            tickets.append(memory.fill_on_member(member, buffer, part, pattern, issue))
            filled_by.append((member, part))
        change = _change(buffer, before)
        if player is not None and change is not None:
            if len(filled_by) == len(parts):
                player.keep_fill(command, buffer, filled_by, change)
            elif not filled_by and len(parts) == 1:
                player.keep_on_host(command, CLIENT_FILLS, buffer, (), change)
        return tickets

    def _fills_on_members(self, nbytes: int) -> bool:
        """Whether a fill of so much is quicker there; CPU members' memory is the host's."""
        members = [self._memory.devices[member].capabilities for member in self._memory.members]
        if not members:  # all are lost
            return False
        is_quick = nbytes >= _FILL_NBYTES and not any(each.is_host_memory for each in members)
        return len(members) == 1 or is_quick or self._launcher.split == "always"

    def _fill_in_arena(
        self, buffer: VirtualBuffer, rectangle: Rectangle, pattern: bytes, issue: Issue
    ) -> Ticket:
        memory, over = self._memory, rectangle.strided
        target = over.at(0).of(memory.memories.host_view(buffer, over.bounds), len(pattern))
        value = np.frombuffer(pattern, target.dtype)
        waits = buffer.dependencies[HOST].before_write(over)
        ticket = memory.run_on_host(partial(np.copyto, target, value), waits, issue, "fill", rectangle.nbytes)
        memory.write_host(buffer, over, ticket)
        return ticket

    def _map(self, command: Map, issue: Issue) -> IssuedWork:
        over = command.rectangle.bounds
        buffer = self._buffer(command.buffer, over)
        buffer.is_outside |= command.for_writing
        mapped = Ticket()
        waits: list[Ticket] = []
        player = self.player if command.rectangle.contiguous and not command.transfer else None
        before = buffer.directory.state() if player is not None else None
        transfers: list[Transfer] = []
        if command.fetch or not command.rectangle.contiguous:
            if player is not None:
                transfers += self._fetch(buffer, over, issue)
            else:
                self._reads.fetch(buffer, over, issue)
            waits += buffer.dependencies[HOST].before_read(over)
            buffer.dependencies[HOST].read_by(over, mapped)
            if command.for_writing:  # it is written when it is unmapped: a map that fails changes nothing
                waits += [t for t in buffer.dependencies[HOST].before_write(over) if t is not mapped]
            if not command.transfer:
                waits += self._show_beside(buffer, over, transfers, issue)
        elif command.for_writing:
            waits += self._memory.write_host(buffer, over, mapped)
        change = _change(buffer, before)
        if player is not None and change is not None:
            kind = CLIENT_TAKES if command.for_writing else CLIENT_LOOKS
            player.keep_on_host(command, kind, buffer, tuple(transfers), change)
        return _host_work(mapped, waits, command.transfer)

    def _show_beside(
        self, buffer: VirtualBuffer, over: ByteRange, transfers: list[Transfer], issue: Issue
    ) -> list[Ticket]:
        """Fetch what lies beside a mapped region too, where that is as good as free: programs look there.

        Drivers give a pointer into the whole buffer.  What fails there is not the map's failure.  What does
        it is added to ``transfers``.
        """
        start, stop = over.start // _PAGE_NBYTES * _PAGE_NBYTES, -(-over.stop // _PAGE_NBYTES) * _PAGE_NBYTES
        shown = ByteRange(start, min(stop, buffer.nbytes))
        if self._is_host_only and buffer.nbytes - over.nbytes <= _BESIDE_NBYTES:
            shown = buffer.whole
        waits: list[Ticket] = []
        for beside in RegionSet((shown,)).difference(RegionSet((over,))).regions:
            transfers += self._fetch(buffer, beside, issue)
            waits += buffer.dependencies[HOST].before_read(beside)
        if not waits:
            return []
        settled = Ticket()
        join(waits, lambda _error: settled.complete(None))
        return [settled]

    def _migrate(self, command: Migrate, issue: Issue) -> Steps[IssuedWork]:
        """What has no room on the member stays where it is: a launch that needs it is made in parts."""
        waits: list[Ticket] = []
        place = self._place_for(command.member)
        for buffer_id, start, nbytes in command.places:
            over = ByteRange(start, start + nbytes)
            buffer = self._buffer(buffer_id, over)
            is_here = buffer.is_in_place or not self._memory.placement.fits(place - 1, over, places=1)
            if place != HOST and is_here:
                continue
            while place != HOST and (
                held := self._memory.placement.reserve([(buffer, place - 1, over)], issue)
            ):
                yield held
            if place == HOST:
                self._reads.fetch(buffer, over, issue)
            else:
                for transfer in self._memory.transfers.plan(buffer, place, (over,), False, issue.cause):
                    self._memory.transfers.perform(transfer, issue)
            waits += buffer.dependencies[place].before_read(over)
        return IssuedWork(list(dict.fromkeys(waits)))

    def _place_for(self, member: int) -> int:
        """The memory of a command's member, the host's where that is open.  Raises DeviceLost."""
        if member and member - 1 not in self._memory.members:
            name = self._memory.devices[member - 1].capabilities.name
            raise DeviceLost(name, "it is lost, and the queue is for it")
        return member_memory(member - 1) if member else HOST

    def _unmap(self, command: Unmap, issue: Issue) -> IssuedWork:
        player = self.player if command.rectangle.contiguous and not command.transfer else None
        if not command.wrote:
            if player is not None:
                player.keep_unmap(command)
            return IssuedWork([])
        rectangle, memory = command.rectangle, self._memory
        buffer = self._buffer(command.buffer, rectangle.bounds)
        before = buffer.directory.state() if player is not None else None
        unmapped = Ticket()
        waits = [t for t in memory.write_host(buffer, rectangle.strided, unmapped) if t is not unmapped]
        change = _change(buffer, before)
        if player is not None and change is not None:
            player.keep_on_host(command, CLIENT_TAKES, buffer, (), change)
        return _host_work(unmapped, waits, command.transfer)


def _change(buffer: VirtualBuffer, before: State | None) -> Change | None:
    """What became of the state that the buffer was in; None where that can't be said."""
    after = buffer.directory.state() if before is not None else None
    return None if before is None or after is None else Change(buffer.directory, before, after)


def _host_work(ticket: Ticket, waits: list[Ticket], transfer: bool) -> IssuedWork:
    """``ticket`` stands for an access by the application: the client's copy, or a mapping (no copy)."""
    if transfer:
        return IssuedWork(waits, ticket)
    join(waits, lambda error: ticket.complete(error, 0, max((wait.end_ns for wait in waits), default=0)))
    return IssuedWork([ticket])


def _homes(buffer: VirtualBuffer, over: ByteRange, shared: int) -> list[tuple[int, ByteRange]]:
    """``over`` by memory that holds it, the host first; all of it by the host when that is too fine.

    What no member has by itself counts as the host's: in a memory among the bit set ``shared``.
    """
    found: list[tuple[int, ByteRange]] = []
    runs = buffer.directory.runs(over, _HOMES_MAX)
    if runs is None:
        return [(HOST, over)]
    for part, holders, _ in runs:
        held = holders & ~shared or holders
        memory = (held & -held).bit_length() - 1
        if shared >> memory & 1:
            memory = HOST
        if found and found[-1][0] == memory:
            found[-1] = (memory, ByteRange(found[-1][1].start, part.stop))
        else:
            found.append((memory, part))
    return found


def _fill_places(
    buffer: VirtualBuffer, over: ByteRange, unit_nbytes: int, members: Sequence[int], shared: int
) -> list[tuple[int, ByteRange]]:
    """The memories in which ``over`` is filled, each with its part, all multiples of ``unit_nbytes``.

    What members alone hold is filled there; the rest evenly over the members, as kernels are cut.
    """
    found: list[tuple[int, ByteRange]] = []
    for where, part in _homes(buffer, over, shared):
        if where != HOST:
            found.append((where, part))
            continue
        share = -(-part.nbytes // (len(members) * GRANULE_NBYTES)) * GRANULE_NBYTES
        for member, start in zip(members, range(part.start, part.stop, share), strict=False):
            found.append((member_memory(member), ByteRange(start, min(start + share, part.stop))))
    if any((part.start - over.start) % unit_nbytes or part.nbytes % unit_nbytes for _, part in found):
        return [(HOST, over)]
    return found
