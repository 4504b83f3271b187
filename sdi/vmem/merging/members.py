"""Merges that stay on the members: twins, diffs and results are device memory, only changes cross a link.

What several members write to the same bytes in one launch comes together on one of them, the keeper: it takes
the others' changes in their order (``devices/comparing.py``).  Over a network the members of each node first
bring theirs together on the first of them, so that one list of changes leaves the node; and of much, members
on each node keep a part, so that no node's link has to take all of it.  How much has
to be copied is known only when a member has compared: from there on a merge goes in turns of sdi-scheduler,
and a ticket completed by hand stands for it.  Source: papers/1 section 3.6, without the host.

Owned by: sdi-scheduler.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby, pairwise

import numpy as np

from sdi.atomics import Update
from sdi.dataclass import dataclass, field, replace
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
from sdi.vmem.links import Links
from sdi.vmem.placed import GRANULE_NBYTES

_UNITS_MAX = 1 << 31
"""Units are counted in 32 bits."""
_PART_NS = 8e6
"""A node keeps a part of its own where that would take so long to come over its link, were all of it changed.
[M] Each part more costs five ranks on two cores 9 ms; of 4 MiB at 500 Mbit/s five parts save 160."""


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
    """One member's share.  ``changes``: what it changed; for the keeper, room for the others' changes.

    ``own``: what the keeper itself changed, where others come before it in order.
    ``header``: of what it changed, on the host.  ``pending``: what has to be done before that is fetched.
    """

    member: int
    twin: Block
    changes: Block
    own: Block | None = None
    comparison: Comparison | None = None
    header: bytearray = field(default_factory=lambda: bytearray(HEADER_NBYTES))
    pending: list[Ticket] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class MemberMerge:
    """One merge of the bytes ``over`` of ``buffer``.  ``done``: once the keeper has the result.

    ``headers``: what tells of conflicts then.
    """

    buffer: VirtualBuffer
    over: ByteRange
    units: MergeUnits
    parts: list[_Part]
    keeps: int
    done: Ticket = field(default_factory=Ticket)
    headers: list[bytearray] = field(default_factory=list)

    @property
    def keeper(self) -> _Part:
        """Where it comes together."""
        return self.parts[self.keeps]

    @property
    def compared(self) -> list[_Part]:
        """Those whose changes are listed, in order: the keeper too where its changes have to wait."""
        return [part for part in self.parts if part is not self.keeper or self.lists_own]

    @property
    def lists_own(self) -> bool:
        """Whether the keeper's own changes have to wait for those of others."""
        return self.keeps > 0 and self.keeper.own is not None


class MemberMerges:
    """Makes merges.  ``able(member)``: whether that one is to compare; ``post``: as in VirtualMemory."""

    def __init__(
        self,
        devices: Sequence[Device],
        heaps: Sequence[MemberHeap],
        accounting: Accounting,
        post: Callable[[Callable[[], None]], None],
        able: Callable[[int], bool],
        links: Links,
    ) -> None:
        self._links = links
        self._devices = devices
        self._heaps = heaps
        self._accounting = accounting
        self._post = post
        self._under_way: set[Ticket] = set()
        self._able = [device.capabilities.compares and able(member) for member, device in enumerate(devices)]

    @property
    def is_any_under_way(self) -> bool:
        """Whether members are still to be asked for something on behalf of a launch that was issued."""
        return bool(self._under_way)

    def are_able(self, members: Sequence[int]) -> bool:
        """Whether what all of them did comes together on them, and not on the host."""
        return all(self._able[member] for member in members)

    def shared_out(self, over: ByteRange, members: Sequence[int]) -> list[tuple[ByteRange, int]]:
        """Parts of what ``members`` write, each with the position of the one that is to keep it."""
        places: dict[int, int] = {}
        for position, member in enumerate(members):
            places.setdefault(self._links.place(member_memory(member)), position)
        keepers = list(places.values())
        if len(keepers) < 2:
            return [(over, 0)]
        here, there = (member_memory(members[at]) for at in keepers[-2:])
        count = min(len(keepers), int(self._links.cost_ns(here, there, over.nbytes) / _PART_NS))
        start = over.start // GRANULE_NBYTES * GRANULE_NBYTES
        each = -(-(over.stop - start) // max(1, count) // GRANULE_NBYTES) * GRANULE_NBYTES
        edges = [over.start, *range(start + each, over.stop, each), over.stop]
        parts = [ByteRange(*ends) for ends in pairwise(edges)]
        return list(zip(parts, keepers[: len(parts)], strict=True))

    def begin(
        self,
        buffer: VirtualBuffer,
        over: ByteRange,
        members: Sequence[int],
        units: MergeUnits,
        keeps: int = 0,
    ) -> MemberMerge | None:
        """Take the memory that a merge needs; None where the host has to merge.

        ``keeps``: the position among ``members`` of the one that has the result then.
        """
        unit = units.compared_nbytes
        count, rest = divmod(over.nbytes, unit)
        if not all(self._able[m] for m in members) or rest or over.start % unit or count > _UNITS_MAX:
            return None
        merge = MemberMerge(buffer, over, units, [], keeps)
        with contextlib.ExitStack() as undo:

            def take(member: int, nbytes: int) -> Block | None:
                block = self._heaps[member].take(nbytes)
                if block is not None:
                    undo.callback(self._heaps[member].give, block, ())
                return block

            for position, member in enumerate(members):
                is_listed = position == keeps > 0 and units.update is None
                twin = take(member, over.nbytes)
                changes = take(member, changes_nbytes(over.nbytes, unit)) if twin is not None else None
                own = take(member, changes_nbytes(over.nbytes, unit)) if is_listed and changes else None
                if twin is None or changes is None or (is_listed and own is None):
                    return None
                merge.parts.append(_Part(member, twin, changes, own))
            undo.pop_all()
        return merge

    def give_up(self, merge: MemberMerge, pending: Sequence[Ticket] = ()) -> None:
        """Its memory is not wanted any more, once ``pending`` and what was issued on it is done."""
        for part in merge.parts:
            until = [*part.pending, *pending]
            self._heaps[part.member].give(part.twin, until)
            self._heaps[part.member].give(part.changes, until)
            if part.own is not None:
                self._heaps[part.member].give(part.own, until)

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
        self._under_way.add(merge.done)
        merge.done.when_done(self._under_way.discard)
        buffer, over = merge.buffer, merge.over
        for part, done in zip(merge.parts, launched, strict=True):
            part.pending += done
        within_nodes, between = self._by_node(merge)
        compared: list[Ticket] = []
        for each in within_nodes or [between]:
            self._compare(each, issue, compared)
        for part in between.parts if within_nodes else ():  # they compare later: who writes next waits
            buffer.dependencies[member_memory(part.member)].read_by(over, merge.done)
        here = member_memory(merge.keeper.member)
        buffer.dependencies[here].written_by(over, merge.done)
        buffer.directory.wrote(here, over)
        events = self._accounting.events
        events.twins += 1
        events.twin_nbytes += over.nbytes
        self._then(between, compared, issue, partial(self._bring, within_nodes, between, issue))
        self.give_up(merge, [merge.done])
        return merge.done

    def _by_node(self, merge: MemberMerge) -> tuple[list[MemberMerge], MemberMerge]:
        """What members of one node bring together first, on the first of them; and then nodes, all of it.

        None first where all are on one node, or members of several take turns: their order counts.
        """
        places = [self._links.place(member_memory(part.member)) for part in merge.parts]
        groups = [list(parts) for _, parts in groupby(zip(places, merge.parts, strict=True), lambda p: p[0])]
        firsts = [group[0][1] for group in groups]
        is_apart = 1 < len(groups) == len(set(places)) < len(places)
        if not is_apart or not any(first is merge.keeper for first in firsts):
            return [], merge
        between = replace(merge, parts=firsts, keeps=[first is merge.keeper for first in firsts].index(True))
        within_nodes = [
            replace(merge, parts=[part for _, part in group], keeps=0) for group in groups if len(group) > 1
        ]
        return within_nodes, between

    def _compare(self, merge: MemberMerge, issue: Issue, before: list[Ticket]) -> None:
        """Have those whose changes are listed list them.

        Adds to ``before`` what has to be done before it is known how many each has.
        """
        for part in merge.compared:
            assert part.comparison is not None
            device, changes = self._devices[part.member], _bytes(part.own or part.changes)
            diff = device.merge(MergeStep.DIFF, part.comparison, changes, part.pending, issue.timing)
            self._accounting.worked("diff", part.member, merge.over.nbytes, diff, issue)
            merge.buffer.dependencies[member_memory(part.member)].read_by(merge.over, diff)
            room = memoryview(part.header)
            header = download(device, changes, 0, room, [diff], timing=issue.timing)
            device.flush()
            part.pending = [header]
            before.append(header)
        before += [ticket for part in merge.parts for ticket in part.pending]

    def _then(
        self,
        merge: MemberMerge,
        before: Sequence[Ticket],
        issue: Issue,
        go_on: Callable[[list[Ticket]], None],
    ) -> None:
        """In a turn behind ``before`` ``go_on`` with a list for the tickets of what it issues, all of which
        are waited for if it can't.
        """

        def turn(error: BaseException | None) -> None:
            if error is not None:
                self._finish(merge, issue, error)
                return
            issued: list[Ticket] = []
            try:
                go_on(issued)
            except Exception as cause:  # or nobody would ever hear of the launch again
                failure = cause
                join(issued, lambda _error: self._finish(merge, issue, failure))
                raise

        join(before, lambda error: self._post(lambda: turn(error)))

    def _bring(
        self,
        within_nodes: Sequence[MemberMerge],
        between: MemberMerge,
        issue: Issue,
        issued: list[Ticket],
    ) -> None:
        """All have compared: copy the changes to the keepers and apply them there; nodes' first, if any."""
        if not within_nodes:
            self._apply(between, issue, issued)
            join(issued, lambda error: self._finish(between, issue, error))
            return
        for each in within_nodes:
            known = len(issued)
            self._apply(each, issue, issued)
            each.keeper.pending += issued[known:]
        self._compare(between, issue, issued)
        self._then(between, issued, issue, partial(self._bring, (), between, issue))

    def _apply(self, merge: MemberMerge, issue: Issue, issued: list[Ticket]) -> None:
        """Copy and apply the changes one member after the other.  Adds to ``issued`` the tickets of that."""
        keeper, unit = merge.keeper, merge.units.compared_nbytes
        device, comparison = self._devices[keeper.member], keeper.comparison
        assert comparison is not None
        last: list[Ticket] = []
        events, accounting = self._accounting.events, self._accounting
        if merge.lists_own:
            last = [self._restore(merge, issue)]
            issued += last
        for part in merge.compared:
            records, values = np.frombuffer(part.header, np.uint32)[:2].tolist()
            if not records:
                continue
            changes, copies = _bytes(part.own or keeper.changes), last
            if part is not keeper:
                copies = self._fetch(merge, part, records, values, last, issue, issued)
            events.diff_nbytes += values * unit
            applied = device.merge(MergeStep.APPLY, comparison, changes, copies, issue.timing)
            accounting.worked("merge", keeper.member, values * unit, applied, issue)
            merge.headers.append(bytearray(HEADER_NBYTES))
            room = memoryview(merge.headers[-1])
            counted = download(device, changes, 0, room, [applied], timing=issue.timing)
            issued += (applied, counted)
            last = [counted]
        device.flush()

    def _restore(self, merge: MemberMerge, issue: Issue) -> Ticket:
        """The keeper's bytes are as they were before the launch: what it changed itself comes in its turn."""
        comparison = merge.keeper.comparison
        assert comparison is not None
        over = Region(comparison.offset, merge.over.nbytes)
        ticket = within(
            self._devices[merge.keeper.member],
            _bytes(merge.keeper.twin),
            Region(0, merge.over.nbytes),
            comparison.buffer,
            over,
            (),
            issue.timing,
        )
        self._accounting.worked("twin", merge.keeper.member, merge.over.nbytes, ticket, issue)
        return ticket

    def _fetch(
        self,
        merge: MemberMerge,
        part: _Part,
        records: int,
        values: int,
        last: Sequence[Ticket],
        issue: Issue,
        issued: list[Ticket],
    ) -> list[Ticket]:
        """Copy what a member changed to the keeper, behind ``last``."""
        keeper, unit = merge.keeper, merge.units.compared_nbytes
        there, here = member_memory(part.member), member_memory(keeper.member)
        copies: list[Ticket] = []
        sizes = ((0, HEADER_NBYTES + records * RECORD_NBYTES), (self._values(merge), values * unit))
        for at, nbytes in sizes:
            left, ticket = across(
                self._devices[keeper.member],
                self._devices[part.member],
                _bytes(part.changes),
                at,
                _bytes(keeper.changes),
                at,
                nbytes,
                (),
                last,
                issue.timing,
            )
            copies.append(ticket)
            issued += [left, ticket]
            self._accounting.copied(there, here, nbytes, ticket, issue.cause, issue.command)
        return copies

    def _finish(self, merge: MemberMerge, issue: Issue, error: BaseException | None) -> None:
        """On any thread."""
        merge.done.complete(error)
        headers = merge.headers if error is None else []

        def settle() -> None:
            conflicts = sum(int(np.frombuffer(header, np.uint32)[2]) for header in headers)
            self._accounting.raced(issue.cause, conflicts)

        self._post(settle)

    def _values(self, merge: MemberMerge) -> int:
        return values_offset(merge.over.nbytes, merge.units.compared_nbytes)


def _bytes(block: Block) -> DeviceBuffer:
    assert block.device_buffer is not None
    return block.device_buffer
