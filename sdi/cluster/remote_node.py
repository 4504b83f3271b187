"""A node as rank 0 sees it: what it is asked and told, the tickets of its operations, and its answers.

Operations go out in the order in which they were issued, at once; none is held back here, or a node could
be given one before another that it waits for.  Tickets of the same node are named; others get a name of
their own there, and the node is told when they are done.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sdi.cluster.exchange import Exchange
from sdi.cluster.mixed import MixedTransport
from sdi.cluster.records import GivenFailure, NodeRecord, RecordKind, failure, failure_of, packed
from sdi.cluster.shared import offset_in
from sdi.cluster.tree import ReplayTree
from sdi.devices.handles import HostBytes
from sdi.devices.join import join
from sdi.devices.page_locks import PAGE_LOCKS
from sdi.devices.polling import Polling
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed, DeviceLost
from sdi.vmem.arena import Arena

ROOT = 0
_ANSWER_S = 600.0
_FAILURES_MAX = 1024
ids = itertools.count(1)
"""Names of tickets and objects: never used again, whatever the node."""


class RemoteTicket(Ticket):
    """``owner``: the node.  ``name``: the ticket's there.

    ``left``: of a copy to host memory here, which the node does not see: the ticket of the end that it sees.
    """

    __slots__ = ("left", "name")

    def __init__(self, node: RemoteNode, name: int, left: RemoteTicket | None = None) -> None:
        super().__init__(node)
        self.name = name
        self.left = left


class Failures:
    """Errors that nodes were told of: when they fail others there, these fail with the same ones here."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._known: Final[OrderedDict[int, BaseException]] = OrderedDict()

    def keep(self, error: BaseException) -> int:
        """What nodes call ``error``."""
        name = next(ids)
        with self._lock:
            self._known[name] = error
            if len(self._known) > _FAILURES_MAX:
                self._known.popitem(last=False)
        return name

    def of(self, tail: bytes | memoryview) -> BaseException | None:
        """Why something failed, by what a node says."""
        found = failure_of(tail)
        if not isinstance(found, GivenFailure):
            return found
        with self._lock:
            return self._known.get(found.name) or DeviceFailed("a node", str(found))


class RemoteNode:
    """Rank ``rank`` of the job.  Any thread issues; sdi-net tells what was received.

    ``said``: so many records were said to it.  ``tree``: the job's, if replays are spread.
    ``printed`` is told what kernels printed there.  ``polling``: of the job's session.  ``is_near``: it is on
    this machine and shares memory.
    """

    def __init__(
        self,
        rank: int,
        transport: MixedTransport,
        exchange: Exchange,
        failures: Failures,
        printed: Callable[[bytes], None],
        polling: Polling,
    ) -> None:
        self.rank: Final = rank
        self._failures: Final = failures
        self.exchange: Final = exchange
        self._transport: Final = transport
        self._printed: Final = printed
        self.polling: Final = polling
        self._lock: Final = threading.RLock()
        self._batch: list[bytes] = []
        self._tickets: dict[int, RemoteTicket] = {}
        self._foreign: dict[Ticket, int] = {}
        self._gathers: dict[int, Callable[[bytes], None]] = {}  # by replays' names
        self._answers: dict[int, Answer] = {}
        self._messages = self._seen = 0
        self._clock_ns, self._clock_offset_ns = 1 << 62, 0
        self.unused: Final[deque[bytes]] = deque()
        """Records for ``flush`` that are appended where no lock may be taken: when an object is collected."""
        self.failure: DeviceLost | None = None
        """Why the node is lost, if it is."""
        self.lost_members: Final[set[int]] = set()
        self.is_near = False
        self.tree: ReplayTree | None = None
        self.said = self._behind = 0
        self._arena: Arena | None = None
        self._locks = False

    def shares(self, arena: Arena | None, locks: bool = False) -> None:
        """The node has mapped ``arena`` too; None: it has not any more.  ``locks``: it locks pages of it."""
        self._arena, self._locks = arena, locks

    def place(self, host: HostBytes) -> int | None:
        """Where in the arena the node finds ``host``, which it will copy; None where it does not."""
        arena = self._arena
        if arena is None:
            return None
        found = offset_in(arena.address, arena.nbytes, host)
        if found is not None and self._locks:
            PAGE_LOCKS.keep(arena.address + found, host.nbytes)
        return found

    def copies_host(self, nbytes: int) -> None:
        """Count so many bytes that it finds in the arena."""
        self._transport.traffic[self.rank].shared_nbytes += nbytes

    # -- what is sent -----------------------------------------------------------------------------------

    def say(self, record: bytes) -> None:
        """Append to the batch that ``flush`` sends."""
        with self._lock:
            self._append(record)

    def _append(self, record: bytes) -> None:
        """See ``say``.  The caller has the lock."""
        tree = self.tree
        if tree is not None:
            if self._behind != tree.count:
                self._behind = tree.count
                self._batch.append(packed(RecordKind.BEHIND, 0, self._behind))
            tree.changed.add(self.rank)
        self.said += 1
        self._batch.append(record)

    def flush(self) -> None:
        """Send what was said."""
        with self._lock:
            while self.unused:
                self._append(self.unused.popleft())
            if not self._batch:
                return
            if self._seen != self._messages:
                self._seen = self._messages
                self._append(packed(RecordKind.SEEN, 0, self._seen))
            batch, self._batch = self._batch, []
            self._transport.send(self.rank, b"".join(batch))

    def question(
        self, kind: RecordKind, member: int = 0, fields: Sequence[int] = (), tail: bytes = b"", name: int = 0
    ) -> Callable[[], bytes]:
        """Ask; what is returned waits for the answer, never on sdi-net, and raises what went wrong there.

        ``name``: of what is made by that, if something is.  Raises DeviceLost.
        """
        return self.asked(kind, member, fields, tail, name).wait

    def asked(
        self, kind: RecordKind, member: int = 0, fields: Sequence[int] = (), tail: bytes = b"", name: int = 0
    ) -> Answer:
        """Like ``question``, where it matters whether the answer is there."""
        answer, number = Answer(), name or next(ids)
        with self._lock:
            if self.failure is not None:
                raise self.failure
            self._answers[number] = answer
            self.say(packed(kind, member, number, fields, tail=tail))
            self.flush()
        return answer

    def issue(
        self,
        kind: RecordKind,
        member: int,
        fields: Sequence[int],
        wait: Sequence[Ticket],
        tail: bytes = b"",
        name: int = 0,
        lands: Ticket | None = None,
        on_host: bool = False,
    ) -> Ticket:
        """Send an operation that waits for ``wait``; its ticket.

        ``lands``: what has to be done here, too, before it is done.  ``on_host``: it uses the arena.
        """
        ticket = RemoteTicket(self, name or next(ids))
        foreign: list[tuple[Ticket, int]] = []
        with self._lock:
            if self.failure is not None:
                ticket.complete(self.failure)
                return ticket
            self._tickets[ticket.name] = ticket
            waits = [found for other in wait if (found := self._name(other, foreign, on_host))]
            self._append(packed(kind, member, ticket.name, fields, waits, tail))
        for other, there in foreign:
            other.when_done(partial(self._resolve, there))
        self._send_soon()
        if lands is None:
            return ticket
        whole = RemoteTicket(self, ticket.name, ticket)

        def landed(error: BaseException | None) -> None:
            end_ns = time.monotonic_ns() if error is None else 0
            whole.complete(error, ticket.start_ns, end_ns)

        join([ticket, lands], landed)
        return whole

    def replay(self, name: int, record: bytes, gathered: Callable[[bytes], None] | None = None) -> Ticket:
        """Send ``record``, which has the node do its part of a recording again; the ticket of that.

        ``gathered``: is told what the answer brings, before the ticket is done.
        """
        ticket = RemoteTicket(self, name)
        with self._lock:
            if self.failure is not None:
                ticket.complete(self.failure)
                return ticket
            self._tickets[name] = ticket
            if gathered is not None:
                self._gathers[name] = gathered
            self._append(record)
        self._send_soon()
        return ticket

    def wait_before(self, replay: int, operation: int, wait: Sequence[Ticket], on_host: bool) -> None:
        """Have an operation of a replay that is sent next wait for ``wait``; ``on_host`` as for ``issue``."""
        foreign: list[tuple[Ticket, int]] = []
        with self._lock:
            names = [found for other in wait if (found := self._name(other, foreign, on_host))]
            if names:
                self._append(packed(RecordKind.AWAIT, 0, replay, (operation,), names))
        for other, there in foreign:
            other.when_done(partial(self._resolve, there))

    def _send_soon(self) -> None:
        """Send what was said, unless who issues now will see to it."""
        if self.polling.gathers:
            self.polling.later(self.flush)
        elif not self.polling.is_busy:
            self.flush()

    def _name(self, ticket: Ticket, foreign: list[tuple[Ticket, int]], on_host: bool) -> int:
        """What the node calls ``ticket``; 0 where there is nothing to wait for.  The caller has the lock.

        Adds to ``foreign`` what it has to be told of.
        """
        is_own = isinstance(ticket, RemoteTicket) and ticket.owner is self
        if isinstance(ticket, RemoteTicket) and is_own and not (on_host and ticket.left is not None):
            ticket = ticket.left or ticket
            if not ticket.done:
                return ticket.name
        if ticket.done and ticket.error is None:
            return 0
        found = self._foreign.get(ticket)
        if found is None:
            found = self._foreign[ticket] = next(ids)
            foreign.append((ticket, found))
        return found

    def _resolve(self, name: int, ticket: Ticket) -> None:
        """A ticket of somebody else's is done: the node may go on.  Any thread."""
        with self._lock:
            self._foreign.pop(ticket, None)
            tail = b"" if ticket.error is None else failure(ticket.error, self._failures.keep(ticket.error))
            self.say(packed(RecordKind.RESOLVE, 0, name, tail=tail))
            self.flush()

    def hear(self) -> None:
        """Who issues is busy: it receives what was sent meanwhile, since others may wait for that."""
        self._transport.poll()

    def ask(self) -> None:
        """Nothing has to be asked, see ``Pollable``: what was said goes out."""
        self.flush()

    def complete(self) -> bool:
        """Nothing is left: sdi-net says what is done."""
        return False

    def arm(self) -> None:
        """See ``ask``."""
        self.flush()

    def ask_clock(self) -> Callable[[], None]:
        """Ask what the node's clock says; what is returned waits for that.  Raises DeviceFailed.

        What it is ahead of this one counts by the quickest answer of all: see ``tell_offset``.  What it says
        between question and answer is what this machine's clock says.
        """
        sent_ns = time.monotonic_ns()
        answer = self.asked(RecordKind.CLOCK)

        def note() -> None:
            there_ns = int.from_bytes(answer.wait(), "little")
            took_ns = answer.at_ns - sent_ns
            if took_ns < self._clock_ns:
                is_same = sent_ns <= there_ns <= answer.at_ns
                self._clock_ns = took_ns
                self._clock_offset_ns = 0 if is_same else there_ns - sent_ns - took_ns // 2

        return note

    @property
    def hop_ns(self) -> int:
        """What a message takes, there or back, as the quickest answer did."""
        return self._clock_ns // 2

    def tell_offset(self) -> None:
        """Tell the node by how much its clock is ahead."""
        self.say(packed(RecordKind.OFFSET, 0, 0, (self._clock_offset_ns,)))

    # -- what is received -------------------------------------------------------------------------------

    def heard(self, record: NodeRecord) -> None:
        """A record of the node's."""
        match record.kind:
            case RecordKind.DONE:
                self._done(record)
            case RecordKind.ANSWER:
                answer = self._answers.pop(record.ticket)
                answer.give(bytes(record.tail), bool(record.fields[0]))
            case RecordKind.PRINTED:
                self._printed(bytes(record.tail))
            case RecordKind.LOST:
                self.lost_members.add(record.member)
            case RecordKind.BEAT:
                pass  # that it came is all that it says
            case _:
                raise ValueError(f"a node sent {record.kind.name}")

    def _done(self, record: NodeRecord) -> None:
        ticket = self._tickets.pop(record.ticket, None)
        gathered = self._gathers.pop(record.ticket, None)
        *times, has_failed = record.fields
        if ticket is not None and not ticket.done:
            if gathered is not None and not has_failed:
                gathered(bytes(record.tail))
            start_ns, end_ns = (at and at - self._clock_offset_ns for at in times)
            ticket.complete(self._failures.of(record.tail) if has_failed else None, start_ns, end_ns)
        with self._lock:
            self._messages += 1

    def lost(self, why: str) -> None:
        """Nothing is heard of the node any more."""
        failed = DeviceLost(f"rank {self.rank}", why)
        with self._lock:
            self.failure = failed
            self._batch.clear()
            self._gathers.clear()
            tickets, self._tickets = list(self._tickets.values()), {}
            answers, self._answers = list(self._answers.values()), {}
        for ticket in tickets:
            if not ticket.done:
                ticket.complete(failed)
        for answer in answers:
            answer.fail(failed)

    @property
    def is_busy(self) -> bool:
        """Whether it has something to tell soon."""
        return bool(self._tickets or self._answers)


class Answer:
    """What a node is asked.  ``at_ns``: when its answer came, by ``time.monotonic_ns``."""

    def __init__(self) -> None:
        self.at_ns = 0
        self._there: Final = threading.Event()
        self._tail = b""
        self._error: Exception | None = None

    def give(self, tail: bytes, is_failure: bool) -> None:
        """It has come."""
        self.at_ns = time.monotonic_ns()
        if is_failure:
            self._error = failure_of(tail) or DeviceFailed("a node", "it does not say why")
        self._tail = tail
        self._there.set()

    def fail(self, error: Exception) -> None:
        """It will not come."""
        self._error = error
        self._there.set()

    @property
    def is_there(self) -> bool:
        """Whether it has come, or will not."""
        return self._there.is_set()

    def wait(self) -> bytes:
        """The answer.  Raises what went wrong."""
        if not self._there.wait(_ANSWER_S):
            raise DeviceFailed("a node", f"no answer within {_ANSWER_S:.0f} s")
        if self._error is not None:
            raise self._error
        return self._tail
