"""Firm replays, at rank 0: copies between processes go by mailboxes whose places come with the recording.

Nothing is said of such a copy, and no host waits for another one: a device may be told to wait for what
another process has yet to issue.  See design/0011-nodes.md, "Firm replays".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sdi.cluster.exchange import Exchange, region_of
from sdi.cluster.job import Job
from sdi.cluster.mailboxes import NUMBERS_MAX, RepeatedRound
from sdi.cluster.part import KeptRecord, copy_number, replay_number
from sdi.cluster.records import RecordKind
from sdi.cluster.remote_node import ROOT, RemoteNode
from sdi.cluster.writing import Half, Signalled, Writer
from sdi.devices.base import Device
from sdi.devices.signals import RepeatedCopy
from sdi.devices.ticket import Ticket
from sdi.region import Region
from sdi.vmem.merging.members import MemberMerges
from sdi.vmem.transfers import Transfer

_PITCH_MAX = 1 << 31
"""All members copy rows that are closer."""


class FirmCopies:
    """Those of one recording.  ``places``: of the mailboxes, by the copies' numbers.

    ``issue``: this process' copies, none: it has none.  ``nodes``: all of the job.
    ``last``: what is done when the last replay is.
    """

    def __init__(
        self,
        places: Mapping[int, int],
        issue: RepeatedRound | None,
        nodes: Collection[RemoteNode],
    ) -> None:
        self.places: Final = places
        self._nodes: Final = nodes
        self.last: Sequence[Ticket] = ()
        self._issue: Final = issue

    def again(self, name: int) -> Ticket | None:
        """Make this process' copies in the replay ``name``; their ticket."""
        if self._issue is None:
            return None
        for node in self._nodes:  # what comes next may wait in the driver for any of them
            node.flush()
        return self._issue.issue(replay_number(name))

    def places_of(self, records: Sequence[KeptRecord]) -> dict[int, int]:
        """The mailboxes by which what these records ask for goes."""
        return {number: self.places[number] for number in map(copy_number, records) if number is not None}


class FirmReplays:
    """Those of a session.  Owned by: sdi-scheduler.  ``merges``: the session's."""

    def __init__(self, job: Job, merges: MemberMerges) -> None:
        self._exchange: Final = job.exchange
        self._nodes: Final = job.nodes.values()
        self._merges: Final = merges
        self._retired: list[tuple[Sequence[Ticket], Mapping[int, int]]] = []

    def made(
        self, writers: Mapping[int, Writer], copies: Sequence[Half | Transfer], own: Sequence[Device]
    ) -> FirmCopies | None:
        """The copies of a recording by mailboxes; None where not all of them can be.

        ``writers``: what nodes do, by rank; ``copies``: this process' part, ``own``: the members here that
        launch.  Each process has one member with a part, whose stream keeps all of it in order.
        """
        if self._exchange.mailboxes.is_in_doubt:  # until the session ends, and the memory would stay taken
            return None
        ends, halves = list[tuple[int, Signalled]](), list[Half]()
        for copy in copies:
            if isinstance(copy, Transfer):
                return None
            halves.append(copy)
            for part in copy.parts:
                if part.signalled is None:
                    return None
                ends.append((part.number, part.signalled))
        if len({*own, *(end.device for _, end in ends)}) > 1:
            return None
        sizes = {number: end.region.total_nbytes for number, end in ends if end.is_sent}
        for rank, writer in writers.items():
            found = _sent_by(rank, writer, self._exchange)
            if found is None:
                return None
            sizes |= found
        if not sizes or not all(_is_short(end.region, end.rank, self._exchange) for _, end in ends):
            return None
        return self._with_places(sizes, ends, halves)

    def _with_places(
        self, sizes: Mapping[int, int], ends: Sequence[tuple[int, Signalled]], halves: Sequence[Half]
    ) -> FirmCopies | None:
        self._give_back()
        mailboxes, places = self._exchange.mailboxes, dict[int, int]()
        for number, nbytes in sizes.items():
            place = mailboxes.make(nbytes)
            if place is None:
                for other in places.values():
                    mailboxes.give(other)
                return None
            places[number] = place
        if not ends:
            return FirmCopies(places, None, self._nodes)
        repeated, sent = list[RepeatedCopy](), dict[int, int]()
        for number, end in ends:
            box = mailboxes.use(places[number], end.region.total_nbytes)
            repeated.append(RepeatedCopy(end.buffer, end.region, box, end.is_sent))
            if end.is_sent:
                sent[end.rank] = sent.get(end.rank, 0) + end.region.total_nbytes
        uses = [half.use for half in halves]
        issue = mailboxes.round_of(ends[0][1].device, repeated, sent, uses)
        return FirmCopies(places, issue, self._nodes)

    def may_be(self, copies: FirmCopies | None, name: int) -> bool:
        """Whether the replay ``name`` may go so: nothing older is asked for later, on behalf of a merge."""
        return (
            copies is not None
            and not self._merges.is_any_under_way
            and replay_number(name) < NUMBERS_MAX
            and not self._exchange.mailboxes.is_in_doubt
        )

    def retire(self, copies: FirmCopies) -> None:
        """These are not made again."""
        self._retired.append((copies.last, copies.places))

    def _give_back(self) -> None:
        """Those places that nobody uses any more are used for others, unless it is in doubt who does."""
        if self._exchange.mailboxes.is_in_doubt:
            return
        left: list[tuple[Sequence[Ticket], Mapping[int, int]]] = []
        for last, places in self._retired:
            if all(ticket.done for ticket in last):
                for place in places.values():
                    self._exchange.mailboxes.give(place)
            else:
                left.append((last, places))
        self._retired = left


def _is_short(region: Region, rank: int, exchange: Exchange) -> bool:
    pitch = region.levels[0][0] if region.levels else 0
    is_near = rank == ROOT or exchange.is_short(region, rank)
    return is_near and len(region.levels) < 2 and pitch < _PITCH_MAX


def _sent_by(rank: int, writer: Writer, exchange: Exchange) -> dict[int, int] | None:
    """So many bytes the node sends by each copy, by its number; None where not all it does may be firm."""
    sizes: dict[int, int] = {}
    members: set[int] = set()
    for records, _ in writer.operations:
        if len(records) != 1:
            return None
        (record,) = records
        members.add(record.member)
        if record.kind == RecordKind.LAUNCH:
            continue
        number = copy_number(record)
        if number is None or len(members) > 1:
            return None
        region = region_of(*record.fields[1:5])
        other, is_signalled = record.fields[5:7] if record.kind == RecordKind.SEND else record.fields[6:4:-1]
        if not (is_signalled and _is_short(region, other, exchange) and _is_short(region, rank, exchange)):
            return None
        if record.kind == RecordKind.SEND:
            sizes[number] = region.total_nbytes
    return sizes if len(members) == 1 else None
