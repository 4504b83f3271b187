"""Replays on many nodes: rank 0 tells a few, each of which tells others; answers come back the same way.

What rank 0 says to one node goes there directly, so a node hears of replays and of everything else on two
ways.  It acts in the order of issue all the same: a replay says how many direct records those nodes must
have had that were told anything since the replay before, and rank 0 says BEHIND before a direct record that
follows a replay.  Where a node is lost nothing is told by others any more: rank 0 repeats what is not
answered to each node, which does what it has not done yet and answers rank 0 itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from sdi.cluster.gathered import Run, runs_packed
from sdi.cluster.records import NodeRecord, RecordKind, failure, packed
from sdi.cluster.transport import Transport
from sdi.dataclass import dataclass, field
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceLost

FIRST = 2
"""So many nodes are told by rank 0, which has more to do than any other."""
FAN = 4
"""So many by each of the others."""
ROOT = 0


def children(rank: int, size: int) -> range:
    """The ranks that ``rank`` tells, of ``size`` in all."""
    start = 1 if rank == ROOT else FIRST + 1 + FAN * (rank - 1)
    return range(start, min(start + (FIRST if rank == ROOT else FAN), size))


def parent(rank: int) -> int:
    """Who tells ``rank``, which is not 0."""
    return ROOT if rank <= FIRST else (rank - FIRST - 1) // FAN + 1


def _pairs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each rank with what is said of it."""
    return zip(numbers[::2], numbers[1::2], strict=True)


class Spoken(Protocol):
    """A node as ``ReplayTree`` sees it."""

    failure: DeviceLost | None

    @property
    def lost_members(self) -> set[int]:
        """The numbers of its members that are lost."""

    @property
    def said(self) -> int:
        """How many direct records it was told."""

    def flush(self) -> None:
        """Send what was said."""


@dataclass(slots=True, eq=False)
class _Spread:
    """A replay that is not answered.  ``missing``: ranks whose answer is.  ``needs``: ranks with a part.

    ``gathered``: is told what answers bring.
    """

    record: bytes
    needs: Collection[int]
    missing: set[int]
    ticket: Ticket
    gathered: Callable[[bytes], None] | None
    start_ns: int = 0
    end_ns: int = 0
    error: BaseException | None = None


class ReplayTree:
    """Rank 0's end.  ``count``: how many replays were spread.  ``changed``: the ranks that were told anything
    since the last one.  ``is_on``: replays on several nodes go this way.  Owned by: sdi-scheduler; sdi-net
    tells answers.

    ``failed``: why something failed, by the tail of a record.
    """

    def __init__(
        self,
        transport: Transport,
        nodes: Mapping[int, Spoken],
        failed: Callable[[bytes | memoryview], BaseException | None],
    ) -> None:
        self._transport: Final = transport
        self._nodes: Final = nodes
        self._failed: Final = failed
        self._children: Final = tuple(children(ROOT, transport.size))
        self._lock: Final = threading.Lock()
        self._pending: dict[int, _Spread] = {}
        self.count = 0
        self.changed: set[int] = set()
        self.is_on = transport.size - 1 > FIRST

    def spread(
        self,
        name: int,
        recording: int,
        timing: int,
        is_firm: bool,
        given: bytes,
        needs: Collection[int],
        gathered: Callable[[bytes], None] | None = None,
    ) -> Ticket | None:
        """Have all nodes do their parts of a recording as the replay ``name``; the ticket of all of that.

        ``needs``: the ranks of those that have one.  ``gathered``: is told what answers bring, some perhaps
        more than once, before the ticket is done.  None, and nothing was said, where a node is lost.
        """
        with self._lock:
            # Before what nodes were told is counted: they forget what is over behind all that names it.
            seen = next(iter(self._pending), self.count + 1) - 1
        changed, self.changed = self.changed, set()
        counts: list[int] = []
        for rank in changed:
            node = self._nodes[rank]
            counts += (rank, node.said)
            node.flush()
        ticket = Ticket()
        with self._lock:
            if not self.is_on:
                return None
            self.count += 1
            fields = (self.count, seen, recording, timing, is_firm)
            record = packed(RecordKind.SPREAD, 0, name, fields, counts, given)
            self._pending[self.count] = _Spread(record, needs, set(self._children), ticket, gathered)
            for rank in self._children:
                self._transport.send(rank, record)
        return ticket

    def _left(self) -> set[int]:
        """The ranks that are not lost."""
        return {rank for rank, node in self._nodes.items() if node.failure is None}

    @property
    def is_busy(self) -> bool:
        """Whether an answer is missing."""
        return bool(self._pending)

    def heard(self, rank: int, record: NodeRecord) -> None:
        """A node has answered for itself and all whom it told."""
        number, start_ns, end_ns, has_failed = record.fields
        for node, member in _pairs(record.waits):
            self._nodes[node].lost_members.add(member)
        with self._lock:
            spread = self._pending.get(number)
            if spread is None:
                return
            spread.missing.discard(rank)
            spread.start_ns = min(spread.start_ns or start_ns, start_ns or spread.start_ns)
            spread.end_ns = max(spread.end_ns, end_ns)
            if has_failed:
                spread.error = spread.error or self._failed(record.tail)
            elif record.tail and spread.gathered is not None:
                spread.gathered(bytes(record.tail))
            if spread.missing:
                return
        self._over(number, spread)

    def _over(self, number: int, spread: _Spread) -> None:
        """All have answered.  Nodes forget names only when nobody here asks for their tickets any more."""
        try:
            spread.ticket.complete(spread.error, spread.start_ns, spread.end_ns)
        finally:
            with self._lock:
                del self._pending[number]

    def lost(self, rank: int, why: DeviceLost) -> None:
        """Nothing is heard of ``rank`` any more, and nothing goes through others."""
        with self._lock:
            self.is_on = False
            left = self._left() - {rank}
            pending = list(self._pending.items())
            for _, spread in pending:
                spread.missing = set(left)
                if rank in spread.needs:
                    spread.error = spread.error or why
            for other in left:
                for _, spread in pending:
                    self._transport.send(other, spread.record)
        if not left:
            for number, spread in pending:
                self._over(number, spread)


@dataclass(slots=True, eq=False)
class _Answer:
    """What a node does in a replay.  ``missing``: the ranks, itself one, that have not answered it.

    ``lost``: ranks, each with a member of it that was lost.  ``failure``: why it failed, if it did.
    """

    missing: set[int]
    start_ns: int = 0
    end_ns: int = 0
    lost: list[int] = field(default_factory=list)
    failure: bytes = b""
    gathered: list[bytes] = field(default_factory=list)
    is_own_done: bool = False

    def record(self, number: int) -> bytes:
        """What is told of it."""
        fields = number, self.start_ns, self.end_ns, int(bool(self.failure))
        tail = self.failure or b"".join(self.gathered)
        return packed(RecordKind.SUMMED, 0, 0, fields, self.lost, tail)


Spread = tuple[Ticket, Sequence[int], Sequence[Run]]
"""A part that was done again: its ticket, the names that are forgotten when rank 0 has heard of it, and what
it gathers."""


class Branch:
    """A node's end.  Owned by: sdi-net; members tell what is done.

    ``act``: does what a direct record asks for.  ``replay``: does the node's part of a SPREAD record, if it
    has one.  ``forget``: names of a part.  ``lost_members``: the numbers of the node's members that are lost.
    ``clock_offset_ns``: what this machine's clock is ahead of rank 0's.
    """

    def __init__(
        self,
        transport: Transport,
        act: Callable[[NodeRecord], None],
        replay: Callable[[NodeRecord], Spread],
        forget: Callable[[Sequence[int]], None],
        lost_members: Callable[[], Sequence[int]],
    ) -> None:
        self._transport: Final = transport
        self._rank: Final = transport.rank
        self._act: Final = act
        self._replay: Final = replay
        self._forget: Final = forget
        self._lost_members: Final = lost_members
        self._lock: Final = threading.Lock()
        self._children: tuple[int, ...] = tuple(children(self._rank, transport.size))
        self._parent = parent(self._rank)
        self._parts: dict[int, _Answer] = {}
        self._early: dict[int, list[tuple[int, NodeRecord]]] = {}  # answers to what is not here yet
        self._names: deque[tuple[int, Sequence[int]]] = deque()
        self._waiting: deque[NodeRecord] = deque()
        self._held: deque[NodeRecord] = deque()
        self._received = self._done = self._num_direct = 0
        self.clock_offset_ns = 0

    def direct(self, record: NodeRecord) -> None:
        """A record that rank 0 sent to this node alone: acted on when all that was issued before is."""
        if self._held or not self._may_act(record):
            self._held.append(record._replace(tail=bytes(record.tail)))
        else:
            self._act_on(record)
        if self._waiting:
            self._go_on()

    def spread(self, record: NodeRecord) -> None:
        """A replay, from whoever tells this node."""
        number = record.fields[0]
        if number <= self._received:
            return
        assert number == self._received + 1, f"replay {number} behind {self._received}"
        self._received = number
        kept = record._replace(tail=bytes(record.tail))
        if self._children:
            told = packed(kept.kind, 0, kept.ticket, kept.fields, kept.waits, kept.tail)
            for child in self._children:
                self._transport.send(child, told)
        with self._lock:
            self._parts[number] = _Answer({self._rank, *self._children})
        self._waiting.append(kept)
        for child, answer in self._early.pop(number, ()):
            self.answered(child, answer)
        self._go_on()

    def _go_on(self) -> None:
        """Do all whose turn it is."""
        while True:
            if self._held and self._may_act(self._held[0]):
                self._act_on(self._held.popleft())
            elif self._waiting and self._may_replay(self._waiting[0]):
                self._do(self._waiting.popleft())
            else:
                return

    def _may_act(self, record: NodeRecord) -> bool:
        return record.kind is not RecordKind.BEHIND or self._done >= record.ticket

    def _act_on(self, record: NodeRecord) -> None:
        if record.kind is not RecordKind.BEHIND:
            self._act(record)
            self._num_direct += 1

    def _may_replay(self, record: NodeRecord) -> bool:
        for rank, count in _pairs(record.waits):
            if rank == self._rank:
                return count <= self._num_direct
        return True

    def _do(self, record: NodeRecord) -> None:
        number, seen, *_ = record.fields
        while self._names and self._names[0][0] <= seen:
            self._forget(self._names.popleft()[1])
        with self._lock:
            while (oldest := next(iter(self._parts))) <= seen:
                del self._parts[oldest]
        ticket, names, gathered = self._replay(record)
        self._names.append((number, names))
        self._done = number
        ticket.when_done(partial(self._own_done, number, gathered))

    def answered(self, child: int, record: NodeRecord) -> None:
        """One that this node told has answered, for all whom it told."""
        number, *_ = record.fields
        with self._lock:
            part = self._parts.get(number)
        if part is None:
            if number > self._received:  # told directly, it was quicker
                kept = record._replace(tail=bytes(record.tail))
                self._early.setdefault(number, []).append((child, kept))
            return
        self._answer(number, part, child, record)

    def _own_done(self, number: int, gathered: Sequence[Run], done: Ticket) -> None:
        with self._lock:
            part = self._parts[number]
        offset_ns = self.clock_offset_ns
        times = [at and at - offset_ns for at in (done.start_ns, done.end_ns)]
        tail, lost = b"", []
        if done.error is not None:
            tail = failure(done.error)
            for member in self._lost_members():
                lost += [self._rank, member]
        elif gathered:
            tail = runs_packed(gathered)
        fields = number, *times, int(done.error is not None)
        own = NodeRecord(RecordKind.SUMMED, 0, 0, fields, tuple(lost), tail)
        self._answer(number, part, self._rank, own)

    def _answer(self, number: int, part: _Answer, rank: int, record: NodeRecord) -> None:
        """``rank`` has answered; tell the next one if it was the last.  Any thread."""
        _, start_ns, end_ns, has_failed = record.fields
        with self._lock:
            if rank not in part.missing:
                return
            part.missing.discard(rank)
            part.is_own_done |= rank == self._rank
            part.start_ns = min(part.start_ns or start_ns, start_ns or part.start_ns)
            part.end_ns = max(part.end_ns, end_ns)
            part.lost += record.waits
            if has_failed:
                part.failure = part.failure or bytes(record.tail)
            elif record.tail:
                part.gathered.append(bytes(record.tail))
            is_whole, to = not part.missing, self._parent
        if is_whole:
            self._transport.send(to, part.record(number))

    def lost(self) -> None:
        """A node is lost: each answers rank 0 for itself alone from now on, also what it answered before."""
        with self._lock:
            self._parent, self._children = ROOT, ()
            again = [(number, part) for number, part in self._parts.items() if part.is_own_done]
            for part in self._parts.values():
                part.missing = set() if part.is_own_done else {self._rank}
        for number, part in again:
            self._transport.send(ROOT, part.record(number))
