"""A member on another node, and that node as rank 0 sees it.

Operations go out in the order in which they were issued, at once; none is held back here, or a node could
be given one before another that it waits for.  Tickets of the same node are named; others get a name of
their own there, and the node is told when they are done.
"""

from __future__ import annotations

import itertools
import pickle
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, cast

from sdi.clc.probe import Answers
from sdi.cluster.arguments import UPDATES, bound
from sdi.cluster.exchange import Exchange, plain
from sdi.cluster.mixed import MixedTransport
from sdi.cluster.records import GivenFailure, Kind, Record, failure, failure_of, packed, regions, strings
from sdi.cluster.shared import offset_in
from sdi.devices.base import (
    BoundArgument,
    BoundKernel,
    Comparison,
    Device,
    DeviceBuffer,
    DeviceFacts,
    DeviceImage,
    DeviceProgram,
    HostBytes,
    KernelFacts,
    Rows,
)
from sdi.devices.image import ImageShape, Slabs
from sdi.devices.join import join, united
from sdi.devices.pace import PACE
from sdi.devices.page_locks import PAGE_LOCKS
from sdi.devices.ticket import Ticket, completed
from sdi.errors import ClError, DeviceFailed, DeviceLost, Status, require
from sdi.ndrange import Int3
from sdi.region import Region
from sdi.vmem.arena import Arena

ROOT = 0
_MAX_MEM_ALLOC_SIZE = 0x1010
_ANSWER_S = 600.0
_FAILURES_MAX = 1024
_ids = itertools.count(1)
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


class _Made:
    """Something on a member of a node.  ``nbytes``: what it takes of the member's memory."""

    __slots__ = ("__weakref__", "device", "name", "nbytes")

    def __init__(self, device: RemoteDevice, name: int, nbytes: int = 0) -> None:
        self.device = device
        self.name = name
        self.nbytes = nbytes


class Failures:
    """Errors that nodes were told of: when they fail others there, these fail with the same ones here."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._known: Final[OrderedDict[int, BaseException]] = OrderedDict()

    def keep(self, error: BaseException) -> int:
        """What nodes call ``error``."""
        name = next(_ids)
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

    ``printed`` is told what kernels printed there.  ``is_near``: it is on this machine and shares memory.
    """

    def __init__(
        self,
        rank: int,
        transport: MixedTransport,
        exchange: Exchange,
        failures: Failures,
        printed: Callable[[bytes], None],
    ) -> None:
        self.rank: Final = rank
        self._failures: Final = failures
        self.exchange: Final = exchange
        self._transport: Final = transport
        self._printed: Final = printed
        self._lock: Final = threading.RLock()
        self._batch: list[bytes] = []
        self._tickets: dict[int, RemoteTicket] = {}
        self._foreign: dict[Ticket, int] = {}
        self._answers: dict[int, Answer] = {}
        self._messages = self._seen = 0
        self._clock_offset_ns = 0
        self.unused: Final[deque[bytes]] = deque()
        """Records for ``flush`` that are appended where no lock may be taken: when an object is collected."""
        self.failure: DeviceLost | None = None
        """Why the node is lost, if it is."""
        self.lost_members: Final[set[int]] = set()
        self.is_near = False
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
            self._batch.append(record)

    def flush(self) -> None:
        """Send what was said."""
        with self._lock:
            while self.unused:
                self._batch.append(self.unused.popleft())
            if not self._batch:
                return
            if self._seen != self._messages:
                self._seen = self._messages
                self._batch.append(packed(Kind.SEEN, 0, self._seen))
            batch, self._batch = self._batch, []
            self._transport.send(self.rank, b"".join(batch))

    def question(
        self, kind: Kind, member: int = 0, fields: Sequence[int] = (), tail: bytes = b"", name: int = 0
    ) -> Callable[[], bytes]:
        """Ask; what is returned waits for the answer, never on sdi-net, and raises what went wrong there.

        ``name``: of what is made by that, if something is.  Raises DeviceLost.
        """
        return self.asked(kind, member, fields, tail, name).wait

    def asked(
        self, kind: Kind, member: int = 0, fields: Sequence[int] = (), tail: bytes = b"", name: int = 0
    ) -> Answer:
        """Like ``question``, where it matters whether the answer is there."""
        answer, number = Answer(), name or next(_ids)
        with self._lock:
            if self.failure is not None:
                raise self.failure
            self._answers[number] = answer
            self.say(packed(kind, member, number, fields, tail=tail))
            self.flush()
        return answer

    def issue(
        self,
        kind: Kind,
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
        ticket = RemoteTicket(self, name or next(_ids))
        foreign: list[tuple[Ticket, int]] = []
        with self._lock:
            if self.failure is not None:
                ticket.complete(self.failure)
                return ticket
            self._tickets[ticket.name] = ticket
            waits = [found for other in wait if (found := self._name(other, foreign, on_host))]
            self._batch.append(packed(kind, member, ticket.name, fields, waits, tail))
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

    def _send_soon(self) -> None:
        """Send what was said, unless who issues now will see to it."""
        if PACE.gathers:
            PACE.later(self.flush)
        elif not PACE.is_busy:
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
            found = self._foreign[ticket] = next(_ids)
            foreign.append((ticket, found))
        return found

    def _resolve(self, name: int, ticket: Ticket) -> None:
        """A ticket of somebody else's is done: the node may go on.  Any thread."""
        with self._lock:
            self._foreign.pop(ticket, None)
            tail = b"" if ticket.error is None else failure(ticket.error, self._failures.keep(ticket.error))
            self.say(packed(Kind.RESOLVE, 0, name, tail=tail))
            self.flush()

    def hear(self) -> None:
        """Who issues is busy: it receives what was sent meanwhile, since others may wait for that."""
        self._transport.poll()

    def ask(self) -> None:
        """Nothing has to be asked, see ``Pollable``: what was said goes out."""
        self.flush()

    def settle(self) -> bool:
        """Nothing is left: sdi-net says what is done."""
        return False

    def watch(self) -> None:
        """See ``ask``."""
        self.flush()

    def measure_clock(self, rounds: int = 5) -> None:
        """Find out what the node's clock is ahead of this one, by the quickest of some questions."""
        best_ns = 1 << 62
        for _ in range(rounds):
            sent_ns = time.monotonic_ns()
            there_ns = int.from_bytes(self.question(Kind.CLOCK)(), "little")
            took_ns = time.monotonic_ns() - sent_ns
            if took_ns < best_ns:
                best_ns, self._clock_offset_ns = took_ns, there_ns - sent_ns - took_ns // 2

    # -- what is received -------------------------------------------------------------------------------

    def heard(self, record: Record) -> None:
        """A record of the node's."""
        match record.kind:
            case Kind.DONE:
                self._done(record)
            case Kind.ANSWER:
                answer = self._answers.pop(record.ticket)
                answer.give(bytes(record.tail), bool(record.fields[0]))
            case Kind.PRINTED:
                self._printed(bytes(record.tail))
            case Kind.LOST:
                self.lost_members.add(record.member)
            case _:
                raise ValueError(f"a node sent {record.kind.name}")

    def _done(self, record: Record) -> None:
        ticket = self._tickets.pop(record.ticket, None)
        if ticket is not None and not ticket.done:
            start_ns, end_ns = (at and at - self._clock_offset_ns for at in record.fields)
            ticket.complete(self._failures.of(record.tail), start_ns, end_ns)
        with self._lock:
            self._messages += 1

    def lost(self, why: str) -> None:
        """Nothing is heard of the node any more."""
        failed = DeviceLost(f"rank {self.rank}", why)
        with self._lock:
            self.failure = failed
            self._batch.clear()
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
    """What a node is asked."""

    def __init__(self) -> None:
        self._there: Final = threading.Event()
        self._tail = b""
        self._error: Exception | None = None

    def give(self, tail: bytes, is_failure: bool) -> None:
        """It has come."""
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


class RemoteDevice:
    """Member ``number`` of ``node``.  Implements ``Device``.

    Memory is accounted for here; what the node's driver refuses all the same fails with what uses it.
    """

    def __init__(self, node: RemoteNode, number: int, facts: DeviceFacts) -> None:
        self.facts: DeviceFacts = facts
        self.node: Final = node
        self._number: Final = number
        self._used_nbytes = 0

    def _made(self, kind: Kind, fields: Sequence[int], nbytes: int = 0, tail: bytes = b"") -> _Made:
        if self.is_lost():
            raise self._loss()
        made = _Made(self, next(_ids), nbytes)
        self.node.say(packed(kind, self._number, made.name, fields, tail=tail))
        self._used_nbytes += nbytes
        return made

    def _loss(self) -> DeviceLost:
        return self.node.failure or DeviceLost(self.facts.name, "it is lost")

    def _issue(self, kind: Kind, fields: Sequence[int], wait: Sequence[Ticket], tail: bytes = b"") -> Ticket:
        return self.node.issue(kind, self._number, fields, wait, tail)

    def allocate(self, nbytes: int) -> DeviceBuffer:
        available = self.facts.memory_nbytes - self._used_nbytes
        asked = (
            f"{self.facts.name}: {nbytes} bytes asked, {available} of {self.facts.memory_nbytes} available"
        )
        require(0 < nbytes <= available, Status.MEM_OBJECT_ALLOCATION_FAILURE, asked)
        most = int.from_bytes(self.facts.info[_MAX_MEM_ALLOC_SIZE], "little")
        too_large = f"{asked}; its driver gives {most} at a time"
        require(nbytes <= most, Status.MEM_OBJECT_ALLOCATION_FAILURE, too_large)
        return DeviceBuffer(self._made(Kind.ALLOCATE, (nbytes, 0), nbytes))

    def allocate_on_host(self, nbytes: int) -> DeviceBuffer:
        return DeviceBuffer(self._made(Kind.ALLOCATE, (nbytes, 1)))

    def adopt(self, host: HostBytes) -> DeviceBuffer:
        place = self.node.place(host)
        if place is not None:
            return DeviceBuffer(self._made(Kind.ADOPT, (place, host.nbytes)))
        raise ClError(
            Status.MEM_OBJECT_ALLOCATION_FAILURE,
            f"{self.facts.name}: {host.nbytes} bytes are in host memory that it does not reach",
        )

    def free(self, buffer: DeviceBuffer) -> None:
        own = cast(_Made, buffer)
        self._used_nbytes -= own.nbytes
        self.node.say(packed(Kind.FREE, self._number, own.name))

    def host_bytes(self, buffer: DeviceBuffer) -> HostBytes | None:
        return None

    def upload(self, host: HostBytes, buffer: DeviceBuffer, offset: int, wait: Sequence[Ticket]) -> Ticket:
        return self._upload(host, buffer, offset, plain(host.nbytes), wait)

    def upload_rows(
        self,
        host: HostBytes,
        buffer: DeviceBuffer,
        offset: int,
        rows: Rows,
        wait: Sequence[Ticket],
    ) -> Ticket:
        return self._upload(host, buffer, offset, rows, wait)

    def _upload(
        self, host: HostBytes, buffer: DeviceBuffer, offset: int, rows: Rows, wait: Sequence[Ticket]
    ) -> Ticket:
        place = self.node.place(host)
        if place is not None:
            self.node.copies_host(rows.count * rows.nbytes)
            return self._copy_host(Kind.UPLOAD, buffer, offset, rows, place, wait)
        key = next(_ids)
        ticket = self._receive(buffer, offset, rows, wait, ROOT, key)
        # What writes ``host`` is done here, or lands here: the node's other tickets are of its own memory.
        node = self.node
        before = [t for t in wait if not (isinstance(t, RemoteTicket) and t.owner is node and t.left is None)]
        node.exchange.send_host(host, rows, before, node.rank, key)
        return ticket

    def _copy_host(
        self,
        kind: Kind,
        buffer: DeviceBuffer,
        offset: int,
        rows: Rows,
        place: int,
        wait: Sequence[Ticket],
    ) -> Ticket:
        """Copy between ``buffer`` and the arena, which the node has too."""
        fields = (cast(_Made, buffer).name, offset, rows.count, rows.nbytes, rows.pitch, place)
        return self.node.issue(kind, self._number, fields, wait, on_host=True)

    def _receive(
        self,
        buffer: DeviceBuffer,
        offset: int,
        rows: Rows,
        wait: Sequence[Ticket],
        source: int,
        key: int,
    ) -> Ticket:
        to = cast(_Made, buffer).name
        fields = (to, offset, rows.count, rows.nbytes, rows.pitch, source, key)
        return self._issue(Kind.RECEIVE, fields, wait)

    def download(self, buffer: DeviceBuffer, offset: int, host: HostBytes, wait: Sequence[Ticket]) -> Ticket:
        return self._download(buffer, offset, host, plain(host.nbytes), wait)

    def download_rows(
        self,
        buffer: DeviceBuffer,
        offset: int,
        host: HostBytes,
        rows: Rows,
        wait: Sequence[Ticket],
    ) -> Ticket:
        return self._download(buffer, offset, host, rows, wait)

    def _download(
        self, buffer: DeviceBuffer, offset: int, host: HostBytes, rows: Rows, wait: Sequence[Ticket]
    ) -> Ticket:
        if host.readonly:
            refused = DeviceFailed(self.facts.name, "host memory that can't be written")
            refused.__cause__ = BufferError("read-only")
            return completed(refused)
        place = self.node.place(host)
        if place is not None:
            return self._copy_host(Kind.DOWNLOAD, buffer, offset, rows, place, wait)
        node, key = self.node, next(_ids)
        landed = node.exchange.receive_host(host, rows, node.rank, key)
        fields = (cast(_Made, buffer).name, offset, rows.count, rows.nbytes, rows.pitch, ROOT)
        return node.issue(Kind.SEND, self._number, fields, wait, name=key, lands=landed, on_host=True)

    def copy(
        self,
        source: DeviceBuffer,
        from_: Region,
        target: DeviceBuffer,
        to: Region,
        wait: Sequence[Ticket],
    ) -> Ticket:
        ends = cast(_Made, source).name, cast(_Made, target).name
        return self._issue(Kind.COPY, ends, wait, regions(from_, to))

    def peer_copy(
        self,
        source_device: Device,
        source: DeviceBuffer,
        source_offset: int,
        target: DeviceBuffer,
        target_offset: int,
        nbytes: int,
        leave: Sequence[Ticket],
        arrive: Sequence[Ticket],
    ) -> tuple[Ticket, Ticket]:
        return self._peer_copy(
            source_device, source, source_offset, target, target_offset, plain(nbytes), leave, arrive
        )

    def peer_copy_rows(
        self,
        source_device: Device,
        source: DeviceBuffer,
        source_offset: int,
        target: DeviceBuffer,
        target_offset: int,
        rows: Rows,
        leave: Sequence[Ticket],
        arrive: Sequence[Ticket],
    ) -> tuple[Ticket, Ticket]:
        return self._peer_copy(
            source_device, source, source_offset, target, target_offset, rows, leave, arrive
        )

    def _peer_copy(
        self,
        source_device: Device,
        source: DeviceBuffer,
        source_offset: int,
        target: DeviceBuffer,
        target_offset: int,
        rows: Rows,
        leave: Sequence[Ticket],
        arrive: Sequence[Ticket],
    ) -> tuple[Ticket, Ticket]:
        node, key = self.node, next(_ids)
        if not isinstance(source_device, RemoteDevice):
            left = node.exchange.send(source_device, source, source_offset, rows, leave, node.rank, key)
            return left, self._receive(target, target_offset, rows, arrive, ROOT, key)
        other = source_device.node
        if other is node:
            from_, to = cast(_Made, source).name, cast(_Made, target).name
            places = (source_device._number, from_, source_offset, to, target_offset)
            both = (*places, rows.count, rows.nbytes, rows.pitch)
            ticket = self._issue(Kind.PEER_COPY, both, united(leave, arrive))
            return ticket, ticket
        fields = (cast(_Made, source).name, source_offset, rows.count, rows.nbytes, rows.pitch, node.rank)
        left = other.issue(Kind.SEND, source_device._number, fields, leave, name=key)
        return left, self._receive(target, target_offset, rows, arrive, other.rank, key)

    def send_to(
        self,
        target_device: Device,
        source: DeviceBuffer,
        source_offset: int,
        target: DeviceBuffer,
        target_offset: int,
        rows: Rows,
        leave: Sequence[Ticket],
        arrive: Sequence[Ticket],
    ) -> tuple[Ticket, Ticket]:
        """Copy to a member of this process."""
        node, key = self.node, next(_ids)
        fields = (cast(_Made, source).name, source_offset, rows.count, rows.nbytes, rows.pitch, ROOT)
        left = node.issue(Kind.SEND, self._number, fields, leave, name=key)
        return left, node.exchange.receive(target_device, target, target_offset, rows, arrive, node.rank, key)

    def fill(
        self, buffer: DeviceBuffer, offset: int, nbytes: int, pattern: bytes, wait: Sequence[Ticket]
    ) -> Ticket:
        return self._issue(Kind.FILL, (cast(_Made, buffer).name, offset, nbytes), wait, pattern)

    def diff(self, comparison: Comparison, changes: DeviceBuffer, wait: Sequence[Ticket]) -> Ticket:
        return self._compare(Kind.DIFF, comparison, changes, wait)

    def apply(self, comparison: Comparison, changes: DeviceBuffer, wait: Sequence[Ticket]) -> Ticket:
        return self._compare(Kind.APPLY, comparison, changes, wait)

    def _compare(
        self, kind: Kind, comparison: Comparison, changes: DeviceBuffer, wait: Sequence[Ticket]
    ) -> Ticket:
        update = comparison.update
        fields = (
            cast(_Made, comparison.buffer).name,
            comparison.offset,
            cast(_Made, comparison.twin).name,
            comparison.twin_offset,
            comparison.nbytes,
            comparison.unit_nbytes,
            comparison.smallest_nbytes,
            cast(_Made, changes).name,
            0 if update is None else UPDATES.index(update.operation),
            0 if update is None else update.nbytes,
            0 if update is None else int(update.signed),
        )
        return self._issue(kind, fields, wait)

    def create_image(self, shape: ImageShape) -> DeviceImage:
        available = self.facts.memory_nbytes - self._used_nbytes
        require(
            shape.nbytes <= available,
            Status.MEM_OBJECT_ALLOCATION_FAILURE,
            f"{self.facts.name}: an image of {shape.nbytes} bytes asked, {available} available",
        )
        fields = (
            shape.type,
            shape.order,
            shape.data_type,
            shape.width,
            shape.rows,
            shape.planes,
            shape.row_pitch,
            shape.plane_pitch,
        )
        return DeviceImage(self._made(Kind.CREATE_IMAGE, fields, shape.nbytes))

    def free_image(self, image: DeviceImage) -> None:
        own = cast(_Made, image)
        self._used_nbytes -= own.nbytes
        self.node.say(packed(Kind.FREE_IMAGE, self._number, own.name))

    def set_pixels(
        self, buffer: DeviceBuffer, offset: int, image: DeviceImage, slabs: Slabs, wait: Sequence[Ticket]
    ) -> Ticket:
        fields = (cast(_Made, image).name, cast(_Made, buffer).name, offset, slabs.start, slabs.stop)
        return self._issue(Kind.SET_PIXELS, fields, wait)

    def get_pixels(
        self, image: DeviceImage, slabs: Slabs, buffer: DeviceBuffer, offset: int, wait: Sequence[Ticket]
    ) -> Ticket:
        fields = (cast(_Made, image).name, cast(_Made, buffer).name, offset, slabs.start, slabs.stop)
        return self._issue(Kind.GET_PIXELS, fields, wait)

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        if self.is_lost():
            raise self._loss()
        program = self._kept(_Made(self, next(_ids)))
        self.node.question(Kind.BUILD, self._number, tail=strings((text, *options)), name=program.name)()
        return DeviceProgram(program)

    def _kept(self, made: _Made) -> _Made:
        """``made``, which the node forgets when nobody has it here any more."""
        drop = packed(Kind.DROP, self._number, made.name)
        weakref.finalize(made, self.node.unused.append, drop).atexit = False
        return made

    def answers(self, questions: Sequence[str], options: Sequence[str]) -> Answers:
        asked = pickle.dumps((list(questions), list(options)))
        found: Answers = pickle.loads(self.node.question(Kind.ASK_COMPILER, self._number, tail=asked)())
        return found

    def kernel_facts(self, program: DeviceProgram, kernel: str) -> KernelFacts:
        name = cast(_Made, program).name
        found = pickle.loads(self.node.question(Kind.FACTS, self._number, (name,), kernel.encode())())
        assert isinstance(found, KernelFacts)
        return found

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        tail = bound(kernel, arguments, lambda made: cast(_Made, made).name)
        return BoundKernel(self._kept(self._made(Kind.BIND, (cast(_Made, program).name,), tail=tail)))

    def launch(
        self, bound: BoundKernel, groups: Int3, local_size: Int3, work_dim: int, wait: Sequence[Ticket]
    ) -> Ticket:
        fields = (cast(_Made, bound).name, *groups, *local_size, work_dim)
        return self._issue(Kind.LAUNCH, fields, wait)

    def flush(self) -> None:
        self.node.flush()
        if PACE.is_busy:
            self.node.hear()

    def is_lost(self) -> bool:
        return self.node.failure is not None or self._number in self.node.lost_members

    def memory_in_use(self) -> int:
        return self._used_nbytes

    def close(self) -> None:
        with suppress(DeviceFailed):
            self.node.question(Kind.CLOSE, self._number)()
