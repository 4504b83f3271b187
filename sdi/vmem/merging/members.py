"""Merges that stay on the members: twins, diffs and results are device memory, only changes cross a link.

What several members write to the same bytes in one launch comes together on the first of them: it keeps
what it changed itself, and takes the others' changes in their order (``devices/comparing.py``).  How much has
to be copied is known only when a member has compared: from there on a merge goes in turns of sdi-scheduler,
and a ticket completed by hand stands for it.  Source: papers/1 section 3.6, without the host.

Owned by: sdi-scheduler.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sdi.atomics import Update
from sdi.devices.base import Comparison, Device, MergeStep
from sdi.devices.comparing import HEADER_NBYTES, RECORD_NBYTES, changes_nbytes, values_offset
from sdi.devices.copying import across, download, within
from sdi.devices.handles import DeviceBuffer
from sdi.devices.issue import Issue
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.region import Region
from sdi.vmem.accounting import Accounting
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import member_memory
from sdi.vmem.heap import Block, MemberHeap

_UNITS_MAX = 1 << 31
"""Units are counted in 32 bits."""


@dataclass(frozen=True, slots=True)
class MergeUnits:
    """In what bytes are compared: see ``Comparison``."""

    unit_nbytes: int
    smallest_nbytes: int
    update: Update | None = None

    @property
    def compared_nbytes(self) -> int:
        """The size of what is compared."""
        return self.unit_nbytes if self.update is None else self.update.nbytes


@dataclass(slots=True, eq=False)
class _Part:
    """One member's share.  ``changes``: what it changed; for the first member, room for the others' changes.

    ``header``: of ``changes``, on the host.  ``pending``: what has to be done before the changes are fetched.
    """

    member: int
    twin: Block
    changes: Block
    comparison: Comparison | None = None
    header: bytearray = field(default_factory=lambda: bytearray(HEADER_NBYTES))
    pending: list[Ticket] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class MemberMerge:
    """One merge of the bytes ``over`` of ``buffer``.  ``done``: once the first member has the result."""

    buffer: VirtualBuffer
    over: ByteRange
    units: MergeUnits
    parts: list[_Part]
    done: Ticket = field(default_factory=Ticket)


class MemberMerges:
    """Makes merges.  ``able(device)``: whether that member is to compare; ``post``: as in VirtualMemory."""

    def __init__(
        self,
        devices: Sequence[Device],
        heaps: Sequence[MemberHeap],
        accounting: Accounting,
        post: Callable[[Callable[[], None]], None],
        able: Callable[[Device], bool],
    ) -> None:
        self._devices = devices
        self._heaps = heaps
        self._accounting = accounting
        self._post = post
        self._able = [device.capabilities.compares and able(device) for device in devices]

    def begin(
        self, buffer: VirtualBuffer, over: ByteRange, members: Sequence[int], units: MergeUnits
    ) -> MemberMerge | None:
        """Take the memory that a merge needs; None where the host has to merge."""
        unit = units.compared_nbytes
        count, rest = divmod(over.nbytes, unit)
        if not all(self._able[m] for m in members) or rest or over.start % unit or count > _UNITS_MAX:
            return None
        merge = MemberMerge(buffer, over, units, [])
        with contextlib.ExitStack() as undo:

            def take(member: int, nbytes: int) -> Block | None:
                block = self._heaps[member].take(nbytes)
                if block is not None:
                    undo.callback(self._heaps[member].give, block, ())
                return block

            for member in members:
                twin = take(member, over.nbytes)
                changes = take(member, changes_nbytes(over.nbytes, unit)) if twin is not None else None
                if twin is None or changes is None:
                    return None
                merge.parts.append(_Part(member, twin, changes))
            undo.pop_all()
        return merge

    def give_up(self, merge: MemberMerge, pending: Sequence[Ticket] = ()) -> None:
        """Its memory is not wanted any more, once ``pending`` and what was issued on it is done."""
        for part in merge.parts:
            until = [*part.pending, *pending]
            self._heaps[part.member].give(part.twin, until)
            self._heaps[part.member].give(part.changes, until)

    def keep_twins(self, merge: MemberMerge, issue: Issue) -> None:
        """All members have the same bytes now: keep them.  The launch waits, as for any reader."""
        for part in merge.parts:
            allocation = merge.buffer.allocations[part.member]
            assert allocation is not None
            dependencies = merge.buffer.dependencies[member_memory(part.member)]
            offset = merge.over.start - allocation.over.start
            device = self._devices[part.member]
            ticket = within(
                device,
                allocation.device_buffer,
                Region(offset, merge.over.nbytes),
                _bytes(part.twin),
                Region(0, merge.over.nbytes),
                dependencies.before_read(merge.over),
                issue.timing,
            )
            self._accounting.worked("twin", part.member, merge.over.nbytes, ticket, issue)
            dependencies.read_by(merge.over, ticket)
            part.pending.append(ticket)
            part.comparison = Comparison(
                allocation.device_buffer,
                offset,
                _bytes(part.twin),
                0,
                merge.over.nbytes,
                merge.units.compared_nbytes,
                min(merge.units.smallest_nbytes, merge.units.compared_nbytes),
                merge.units.update,
            )

    def run(self, merge: MemberMerge, launched: Sequence[Sequence[Ticket]], issue: Issue) -> Ticket:
        """Compare once each member's tickets are done, and bring the changes together."""
        first, others = merge.parts[0], merge.parts[1:]
        first.pending += launched[0]
        for part, done in zip(others, launched[1:], strict=True):
            assert part.comparison is not None
            device = self._devices[part.member]
            waits, changes = [*part.pending, *done], _bytes(part.changes)
            diff = device.merge(MergeStep.DIFF, part.comparison, changes, waits, issue.timing)
            self._accounting.worked("diff", part.member, merge.over.nbytes, diff, issue)
            merge.buffer.dependencies[member_memory(part.member)].read_by(merge.over, diff)
            room = memoryview(part.header)
            header = download(device, changes, 0, room, [diff], timing=issue.timing)
            device.flush()
            part.pending = [header]
        here = member_memory(first.member)
        merge.buffer.dependencies[here].written_by(merge.over, merge.done)
        merge.buffer.directory.wrote(here, merge.over)
        compared = [ticket for part in merge.parts for ticket in part.pending]
        join(compared, lambda error: self._post(lambda: self._bring(merge, issue, error)))
        self.give_up(merge, [merge.done])
        return merge.done

    def _bring(self, merge: MemberMerge, issue: Issue, error: BaseException | None) -> None:
        """All have compared: copy the changes to the first member and apply them there."""
        if error is not None:
            self._finish(merge, issue, error, [])
            return
        issued: list[Ticket] = []
        try:
            headers = self._apply(merge, issue, issued)
        except Exception as cause:  # or nobody would ever hear of the launch again
            failure = cause
            join(issued, lambda _error: self._finish(merge, issue, failure, []))
            raise
        join(issued, lambda error: self._finish(merge, issue, error, headers))

    def _apply(self, merge: MemberMerge, issue: Issue, issued: list[Ticket]) -> list[bytearray]:
        """Copy and apply the changes one member after the other; what then tells of conflicts.

        Adds to ``issued`` the tickets of all that.
        """
        first = merge.parts[0]
        here, device = member_memory(first.member), self._devices[first.member]
        assert first.comparison is not None
        last: list[Ticket] = []
        headers: list[bytearray] = []
        events, accounting = self._accounting.events, self._accounting
        for part in merge.parts[1:]:
            records, values = np.frombuffer(part.header, np.uint32)[:2].tolist()
            if not records:
                continue
            unit = merge.units.compared_nbytes
            copies: list[Ticket] = []
            sizes = ((0, HEADER_NBYTES + records * RECORD_NBYTES), (self._values(merge), values * unit))
            for at, nbytes in sizes:
                left, ticket = across(
                    device,
                    self._devices[part.member],
                    _bytes(part.changes),
                    at,
                    _bytes(first.changes),
                    at,
                    nbytes,
                    (),
                    last,
                    issue.timing,
                )
                copies.append(ticket)
                issued += [left, ticket]
                there = member_memory(part.member)
                accounting.copied(there, here, nbytes, ticket, issue.cause, issue.command)
            events.diff_nbytes += values * unit
            changes = _bytes(first.changes)
            applied = device.merge(MergeStep.APPLY, first.comparison, changes, copies, issue.timing)
            accounting.worked("merge", first.member, values * unit, applied, issue)
            headers.append(bytearray(HEADER_NBYTES))
            room = memoryview(headers[-1])
            counted = download(device, changes, 0, room, [applied], timing=issue.timing)
            issued += (applied, counted)
            last = [counted]
        device.flush()
        events.twins += 1
        events.twin_nbytes += merge.over.nbytes
        return headers

    def _finish(
        self, merge: MemberMerge, issue: Issue, error: BaseException | None, headers: list[bytearray]
    ) -> None:
        """On any thread."""
        merge.done.complete(error)

        def settle() -> None:
            conflicts = sum(int(np.frombuffer(header, np.uint32)[2]) for header in headers)
            self._accounting.raced(issue.cause, conflicts)

        self._post(settle)

    def _values(self, merge: MemberMerge) -> int:
        return values_offset(merge.over.nbytes, merge.units.compared_nbytes)


def _bytes(block: Block) -> DeviceBuffer:
    assert block.device_buffer is not None
    return block.device_buffer
