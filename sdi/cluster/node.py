"""A node: serves its members to the process that has the application's session.

It does what records ask for, in their order, with the members' own operations and tickets; only bytes come
later, see ``exchange``.  A ticket that it does not know is one of somebody else's: operations that wait for
it are given to the member at once, and the member holds them back until the record RESOLVE comes.
"""

from __future__ import annotations

import logging
import pickle
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, cast

from sdi.atomics import Update
from sdi.cluster.arguments import UPDATES, arguments_of
from sdi.cluster.exchange import Exchange, region_of
from sdi.cluster.gathered import Run, runs_packed
from sdi.cluster.host_blocks import HostBlock, HostBlocks
from sdi.cluster.mixed import MixedTransport
from sdi.cluster.near import NearError, come, received_arena
from sdi.cluster.part import OPERATIONS_MAX, REPLAYS, Parts, complete_replay, unknown_replay
from sdi.cluster.records import (
    ALL,
    NODE_MEMORY,
    DamagedBatch,
    NodeRecord,
    RecordKind,
    failure,
    failure_of,
    packed,
    records,
    regions_of,
    strings_of,
)
from sdi.cluster.shared import Mapped, Pool
from sdi.cluster.transport import Room, Traffic, copied
from sdi.cluster.tree import Branch, Spread
from sdi.devices.base import Comparison, Device, MergeStep, Place
from sdi.devices.copying import across, download, upload, within
from sdi.devices.handles import BoundKernel, DeviceBuffer, DeviceProgram, HostBytes
from sdi.devices.image import ImageShape
from sdi.devices.issue import Timing
from sdi.devices.join import join
from sdi.devices.page_locks import PAGE_LOCKS
from sdi.devices.polling import Polling
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.service.kernel_output import Printed

_log = logging.getLogger("sdi.node")
_LINGER_NS = 100_000
"""How long members are asked what is done, after the last message over a socket."""
ROOT = 0
"""The rank beside which the application runs."""

OpenMembers = Callable[[bytes, Polling], Sequence[Device]]
"""Opens the members that an OPEN record's tail asks for."""


class Node:
    """Serves members to rank 0.  Implements ``Receiver``.  Owned by: sdi-net.

    ``found``: what the node has, as the answer to FACTS of no member.  ``printed``: what kernels print here,
    where this process's output is not that of rank 0.
    """

    def __init__(
        self, transport: MixedTransport, found: bytes, open_members: OpenMembers, printed: Printed | None
    ) -> None:
        self._transport: Final = transport
        self._control: socket.socket | None = None
        self._arena: Mapped | None = None
        self._found: Final = found
        self._open_members: Final = open_members
        self._printed: Final = printed
        self._prints = False
        self._printing: Final = threading.Lock()
        self._unprinted = b""
        self._exchange: Final = Exchange(transport)
        self._devices: Sequence[Device] = ()
        self._objects: dict[int, object] = {}
        self._blocks: Final = HostBlocks(self._exchange, self._object)
        self._parts = Parts(self._exchange.mailboxes)
        self._branch: Final = Branch(
            transport, self._act, self._spread, self._forget_tickets, self._lost_members
        )
        self._touched: set[int] = set()
        self._lock: Final = threading.Lock()
        self._tickets: dict[int, Ticket] = {}
        self._gathered: list[Run] = []  # by the part that is issued
        self._told: deque[tuple[int, list[int]]] = deque()  # counted over all sessions, as rank 0 does
        self._messages = 0
        self._pending = 0
        self._answering = 0
        self._said = 0
        self._before = copied(transport.traffic)
        self._builder: Final = ThreadPoolExecutor(1, "sdi-build")
        self._builder.submit(int)  # its thread is there from the start
        self._look_until_ns = 0
        self._polling: Final = Polling()
        transport.pace(None, self._look)
        self.left: Final = threading.Event()
        """Set when rank 0 has gone."""
        self.is_refused = False
        """Whether rank 0 goes on without this node."""

    # -- Receiver ---------------------------------------------------------------------------------------

    def received(self, source: int, batch: memoryview, bulk_nbytes: int) -> Room | None:
        room = None
        if source in self._transport.near:
            self._polling.is_busy, self._look_until_ns = True, time.monotonic_ns() + _LINGER_NS
        for record in records(batch):
            if record.kind in (RecordKind.DATA, RecordKind.RETURN):
                room = self._exchange.received(source, record)
            elif record.kind is RecordKind.SPREAD:
                self._branch.spread(record)
            elif record.kind is RecordKind.SUMMED:
                self._branch.answered(source, record)
            elif source != ROOT:
                raise DamagedBatch(f"rank {source} sent {record.kind.name}")
            elif record.kind is RecordKind.GONE:
                self._gone(record.fields[0])
            elif record.kind is RecordKind.REFUSED:
                self._refused_by_root()
            elif record.kind is RecordKind.BEAT:
                self._transport.send(ROOT, packed(RecordKind.BEAT, 0, 0))
            else:
                self._branch.direct(record)
        touched, self._touched = self._touched, set()
        for member in touched:
            if member < len(self._devices):
                self._devices[member].flush()
        return room if bulk_nbytes else None

    def _act(self, record: NodeRecord) -> None:
        """Do what a direct record asks for."""
        self._do(record)
        self._touched.add(record.member)

    def _gone(self, rank: int) -> None:
        """Another node is lost."""
        self._exchange.lost(rank, DeviceFailed(f"rank {rank}", "it is lost"))
        self._transport.refuse(rank, "it is lost")
        self._branch.lost()

    def _refused_by_root(self) -> None:
        """Rank 0 goes on without this node."""
        _log.error("rank 0 has not heard of this node for too long and goes on without it")
        self.is_refused = True
        self._transport.refuse(ROOT, "it refuses this node")

    def _look(self) -> bool:
        """Complete what is done on members, as long as more is soon; then their threads do.  On sdi-near."""
        if self._polling.is_busy:
            if self._polling.poll() and time.monotonic_ns() < self._look_until_ns:
                return True
            self._polling.idle()
        return False

    def lost(self, rank: int, why: str) -> None:
        if rank == ROOT:
            self.left.set()
        self._exchange.lost(rank, DeviceFailed(f"rank {rank}", why))

    def is_busy(self) -> bool:
        return self._pending > 0

    def beat(self) -> None:
        """Say that this node is there, if it has something to do and said nothing since the last time."""
        self._exchange.mailboxes.end_waits()
        if self._transport.hangs():
            self._exchange.abandon()
        said = self._transport.traffic[ROOT].messages
        if (self._pending or self._answering) and said == self._said:
            self._transport.send(ROOT, packed(RecordKind.BEAT, 0, 0))
            said += 1
        self._said = said

    def close(self) -> None:
        """Close what is open; after the transport is."""
        self._builder.shutdown(cancel_futures=True)
        self._close()
        self._exchange.close()
        if self._control is not None:
            self._control.close()

    def _close(self) -> None:
        self._exchange.abandon()
        for device in self._devices:
            device.close()
        self._devices = ()
        self._objects.clear()
        self._blocks.close()
        self._parts.forget(0)
        self._exchange.mailboxes.clear()
        if self._arena is not None:
            self._arena.close()
            self._arena = None
        with self._lock:
            self._tickets.clear()
            self._told.clear()
        self._pending, self._prints = 0, False

    # -- tickets ----------------------------------------------------------------------------------------

    def _waits(self, record: NodeRecord) -> list[Ticket]:
        """What the record's operation waits for."""
        found = []
        with self._lock:
            for name in record.waits:
                ticket = self._tickets.get(name)
                if ticket is None and name >= REPLAYS:  # nobody will ever complete it
                    ticket = self._tickets.get(name - name % OPERATIONS_MAX) or unknown_replay(name)
                elif ticket is None:
                    ticket = self._tickets[name] = Ticket()
                found.append(ticket)
        return found

    def _issued(self, record: NodeRecord, ticket: Ticket) -> None:
        """``ticket`` is that of the record's operation."""
        with self._lock:
            self._tickets[record.ticket] = ticket
            self._pending += 1
        ticket.when_done(partial(self._done, [record.ticket], record.member))

    def _done(self, names: list[int], member: int, ticket: Ticket, gathered: Sequence[Run] = ()) -> None:
        """Tell rank 0 that the first of ``names`` is done, and thus all; on the thread that completes it."""
        parts = []
        with self._lock:
            self._pending -= 1
        if self._prints and self._printed is not None:
            text = self._take_lines(self._printed)
            if text:
                parts.append(packed(RecordKind.PRINTED, member, 0, tail=text))
        if ticket.error is not None:
            tail = failure(ticket.error)
            parts += [packed(RecordKind.LOST, number, 0) for number in self._lost_members()]
        else:
            tail = runs_packed(gathered)
        fields = ticket.start_ns, ticket.end_ns, int(ticket.error is not None)
        parts.append(packed(RecordKind.DONE, member, names[0], fields, tail=tail))
        with self._lock:
            self._messages += 1
            self._told.append((self._messages, names))
            self._transport.send(ROOT, b"".join(parts))

    def _take_lines(self, printed: Printed) -> bytes:
        """What was printed: whole lines while more may come, or another node's text gets between."""
        with self._printing:
            was_idle = not self._pending
            text = self._unprinted + printed.take()
            end = len(text) if was_idle and not self._pending else text.rfind(b"\n") + 1
            self._unprinted = text[end:]
            return text[:end]

    def _lost_members(self) -> list[int]:
        """All of them each time: which of several answers comes first is not known."""
        return [number for number, device in enumerate(self._devices) if device.is_lost()]

    def _seen(self, messages: int) -> None:
        """Rank 0 names no ticket any more of which it was told in that many messages."""
        with self._lock:
            while self._told and self._told[0][0] <= messages:
                for name in self._told.popleft()[1]:
                    self._tickets.pop(name, None)

    def _resolve(self, record: NodeRecord) -> None:
        """What others had to do is done, or failed."""
        with self._lock:
            ticket = self._tickets.pop(record.ticket, None)
        if ticket is not None:
            ticket.complete(failure_of(record.tail))

    # -- records ----------------------------------------------------------------------------------------

    def _do(self, record: NodeRecord) -> None:
        match record.kind:
            case RecordKind.RESOLVE:
                self._resolve(record)
            case RecordKind.SEEN:
                self._seen(record.ticket)
            case RecordKind.NEAR:
                self._answered(record, self._come)
            case RecordKind.SHARE:
                self._answered(record, self._share)
            case RecordKind.OPEN:
                self._answered(record, self._open)
            case RecordKind.CLOSE if record.member == ALL:
                self._answered(record, self._closed)
            case RecordKind.CLOSE:  # it may wait for what the driver has
                self._answer_later(record, self._close_member)
            case RecordKind.CLOCK:
                self._answer(record, time.monotonic_ns().to_bytes(8, "little"))
            case RecordKind.TRAFFIC:
                self._answer(record, pickle.dumps(self._traffic()))
            case RecordKind.LEAVE:
                self.left.set()
            case RecordKind.OFFSET:
                self._branch.clock_offset_ns = record.fields[0]
            case RecordKind.BUILD:
                self._answer_later(record, self._build)
            case RecordKind.ASK_COMPILER:
                self._answer_later(record, self._ask_compiler)
            case RecordKind.FACTS:
                self._answer_later(record, self._facts)
            case RecordKind.ALLOCATE | RecordKind.ADOPT | RecordKind.CREATE_IMAGE | RecordKind.BIND:
                self._make(record)
            case RecordKind.KEEP_BUILD:
                cast(DeviceProgram, self._objects[record.ticket]).keep()
            case RecordKind.FREE:
                self._free(record)
            case RecordKind.DROP:
                self._objects.pop(record.ticket, None)
            case RecordKind.KEEP:
                self._parts.keep(record, self._devices, self._objects)
            case RecordKind.AWAIT:
                self._parts.wait_before(record.ticket, record.fields[0], self._waits(record))
            case RecordKind.REPLAY:
                self._replay(record)
            case RecordKind.FORGET:
                self._parts.forget(record.ticket)
            case _:
                self._operate(record)

    def _answer_later(self, record: NodeRecord, work: Callable[[NodeRecord], bytes]) -> None:
        """As ``_answered``, on the thread that builds."""
        self._count_answers(1)
        later = self._builder.submit(self._answered, record, work)
        later.add_done_callback(lambda _: self._count_answers(-1))

    def _count_answers(self, more: int) -> None:
        with self._lock:
            self._answering += more

    def _answered(self, record: NodeRecord, work: Callable[[NodeRecord], bytes]) -> None:
        """Answer with what ``work`` gives, or why it failed."""
        self._count_answers(1)
        try:
            tail, status = work(record), 0
        except Exception as error:
            _log.debug("%s", record.kind.name, exc_info=True)
            tail, status = failure(error), 1
        finally:
            self._count_answers(-1)
        self._answer(record, tail, status)

    def _answer(self, record: NodeRecord, tail: bytes, status: int = 0) -> None:
        answer = packed(RecordKind.ANSWER, record.member, record.ticket, (status,), tail=tail)
        self._transport.send(ROOT, answer)

    def _come(self, record: NodeRecord) -> bytes:
        """Share memory with the processes of this machine, and talk to them over sockets."""
        pool = Pool()
        try:
            met, self._control = come(record.tail, self._transport.rank, pool)
        except NearError:
            pool.close()
            raise
        self._exchange.meet(pool, met.pools)
        self._transport.meet(met)
        return b""

    def _share(self, record: NodeRecord) -> bytes:
        """Map the session's arena; whether its pages are locked here."""
        assert self._control is not None
        self._arena = received_arena(self._control, *record.fields)
        return bytes((PAGE_LOCKS.locks,))

    def _shared(self, place: int, nbytes: int) -> HostBytes:
        """Bytes of the arena.  Raises DeviceFailed."""
        if self._arena is None:
            raise DeviceFailed("a node", "it has not the application's memory")
        return self._arena.view(place, nbytes)

    def _open(self, record: NodeRecord) -> bytes:
        if not record.tail:
            return self._found
        self._close()
        self._before = copied(self._transport.traffic)
        self._devices = self._open_members(bytes(record.tail), self._polling)
        return pickle.dumps([self._exchange.facts_of(device) for device in self._devices])

    def _traffic(self) -> dict[int, Traffic]:
        """What was sent since the session began."""
        now = self._transport.traffic
        return {rank: now[rank].since(before) for rank, before in self._before.items()}

    def _closed(self, _: NodeRecord) -> bytes:
        self._close()
        return b""

    def _close_member(self, record: NodeRecord) -> bytes:
        self._devices[record.member].close()
        return b""

    def _build(self, record: NodeRecord) -> bytes:
        text, *options = (part.decode() for part in strings_of(record.tail))
        self._prints |= "printf" in text
        self._objects[record.ticket] = self._devices[record.member].build(text, options)
        return b""

    def _ask_compiler(self, record: NodeRecord) -> bytes:
        questions, options = pickle.loads(record.tail)
        return pickle.dumps(self._devices[record.member].ask(questions, options))

    def _facts(self, record: NodeRecord) -> bytes:
        if record.member >= len(self._devices):
            return self._found
        program = cast(DeviceProgram, self._objects[record.fields[0]])
        return pickle.dumps(self._devices[record.member].kernel_info(program, *pickle.loads(record.tail)))

    def _make(self, record: NodeRecord) -> None:
        """Make an object; who uses it after that failed fails too."""
        try:
            made: object
            if record.member == NODE_MEMORY:
                made = self._blocks.allocate(record.fields[0])
            elif record.kind is RecordKind.ALLOCATE:
                nbytes, is_on_host = record.fields
                made = self._devices[record.member].allocate(nbytes, bool(is_on_host))
            elif record.kind is RecordKind.ADOPT:
                made = self._devices[record.member].allocate(self._shared(*record.fields))
            elif record.kind is RecordKind.CREATE_IMAGE:
                made = self._devices[record.member].allocate(ImageShape(*record.fields))
            else:
                name, arguments = arguments_of(record.tail, self._objects)
                program = cast(DeviceProgram, self._objects[record.fields[0]])
                made = self._devices[record.member].bind(program, name, arguments)
        except Exception as error:
            made = error
        self._objects[record.ticket] = made

    def _free(self, record: NodeRecord) -> None:
        found = self._objects.pop(record.ticket, None)
        if found is None or isinstance(found, Exception):
            return
        if isinstance(found, HostBlock):
            self._blocks.free(found)
        else:
            self._devices[record.member].free(cast(DeviceBuffer, found))

    # -- parts of recordings ----------------------------------------------------------------------------

    def _replay(self, record: NodeRecord) -> None:
        """Do a part again; rank 0 is told once, when all of it is done."""
        whole, names, gathered = self._replayed(record.ticket, record.fields, bytes(record.tail))
        whole.when_done(partial(self._done, names, 0, gathered=gathered))

    def _spread(self, record: NodeRecord) -> Spread:
        """The same, where the answer goes another way; nothing where this node has no part."""
        _, _, *how = record.fields
        if how[0] not in self._parts:
            return completed(), (), ()
        found = self._replayed(record.ticket, how, bytes(record.tail))
        found[0].when_done(self._over)
        return found

    def _over(self, _: Ticket) -> None:
        with self._lock:
            self._pending -= 1

    def _replayed(self, name: int, how: Sequence[int], given: bytes) -> tuple[Ticket, list[int], list[Run]]:
        """Do a part again as ``name``: the ticket of all of it, what its tickets are called, and what it
        gathers, which is there with the ticket.  ``how``: which, its timing, and whether it is firm.
        """
        number, timing, is_firm = how
        whole, self._gathered = Ticket(), []
        tickets, launches, members, why = self._parts.replay(
            number, name, given, Timing(timing), is_firm > 0, self._attempt
        )
        names = [*range(name, name + 1 + len(tickets))]
        with self._lock:
            self._tickets.update(zip(names, (whole, *tickets), strict=True))
            self._pending += 1
        if why is not None:
            whole.complete(why)
        else:
            join(tickets, partial(complete_replay, whole, launches))
        for member in members:
            self._devices[member].flush()
        return whole, names, self._gathered

    def _forget_tickets(self, names: Sequence[int]) -> None:
        with self._lock:
            for name in names:
                self._tickets.pop(name, None)

    # -- operations -------------------------------------------------------------------------------------

    def _operate(self, record: NodeRecord) -> None:
        """Issue an operation."""
        self._issued(record, self._attempt(record, self._waits(record)))

    def _attempt(self, record: NodeRecord, wait: list[Ticket], name: int = 0) -> Ticket:
        """Issue an operation, whose keys count from ``name`` on; where that fails, a ticket that did."""
        try:
            return self._issue(record, wait, name)
        except Exception as error:
            self._refused(record, error, name)
            return completed(error)

    def _refused(self, record: NodeRecord, error: Exception, name: int) -> None:
        """An operation could not be issued: who waits for its bytes has to know, what comes is dropped."""
        if record.kind is RecordKind.SEND:
            _, *region, to, _ = record.fields
            self._exchange.refuse(region_of(*region), to, name + record.ticket, error)
        elif record.kind is RecordKind.RECEIVE:
            _, *region, _, source, key = record.fields
            self._exchange.drop(region_of(*region), source, name + key)

    def _object(self, name: int) -> object:
        """What was made under that id.  Raises why it was not."""
        found = self._objects.get(name)
        if found is None:
            raise DeviceFailed("a node", f"object {name} is not known")
        if isinstance(found, Exception):
            raise found
        return found

    def _buffer(self, name: int) -> DeviceBuffer:
        return cast(DeviceBuffer, self._object(name))

    def _issue(self, record: NodeRecord, wait: list[Ticket], name: int) -> Ticket:
        if record.member == NODE_MEMORY:
            return self._blocks.issue(self._devices, record, wait, name)
        device, fields = self._devices[record.member], record.fields
        match record.kind:
            case RecordKind.LAUNCH:
                kernel, gx, gy, gz, lx, ly, lz, dimensions = fields
                bound = cast(BoundKernel, self._object(kernel))
                return device.launch(bound, (gx, gy, gz), (lx, ly, lz), dimensions, wait)
            case RecordKind.SEND:
                buffer, *strided, to, is_signalled = fields
                over, own, key = region_of(*strided), self._buffer(buffer), name + record.ticket
                return self._exchange.send(device, own, over, wait, to, key, is_signalled > 0)
            case RecordKind.GATHER:
                buffer, offset, nbytes, place = fields
                memory = memoryview(bytearray(nbytes))
                self._gathered.append((place, memory))
                return download(device, self._buffer(buffer), offset, memory, wait)
            case RecordKind.RECEIVE:
                buffer, *strided, is_signalled, source, key = fields
                over, own, key = region_of(*strided), self._buffer(buffer), name + key
                return self._exchange.receive(device, own, over, wait, source, key, is_signalled > 0)
            case RecordKind.UPLOAD | RecordKind.DOWNLOAD:
                return self._copy_host(device, record, wait)
            case RecordKind.COPY:
                here, there = regions_of(record.tail)
                from_, to = fields
                return within(device, self._buffer(from_), here, self._buffer(to), there, wait)
            case RecordKind.COPY_PIXELS:
                from_, to, start, offset = fields
                region, _ = regions_of(record.tail)
                places = Place(self._buffer(from_), start, device), Place(self._buffer(to), offset, device)
                return device.copy(*places, region, wait, ())[1]
            case RecordKind.PEER_COPY:
                return self._peer_copy(device, record, wait)
            case RecordKind.FILL:
                buffer, offset, nbytes = fields
                return device.fill(self._buffer(buffer), offset, nbytes, bytes(record.tail), wait)
            case RecordKind.DIFF | RecordKind.APPLY:
                comparison, changes = self._comparison(record)
                step = MergeStep.DIFF if record.kind is RecordKind.DIFF else MergeStep.APPLY
                return device.merge(step, comparison, changes, wait)
            case _:
                raise DamagedBatch(f"a node is not asked for {record.kind.name}")

    def _copy_host(self, device: Device, record: NodeRecord, wait: list[Ticket]) -> Ticket:
        """Between a member and the arena that rank 0 has, too."""
        buffer, *strided, place = record.fields
        region = region_of(*strided)
        host = self._shared(place, region.span_nbytes)
        if record.kind is RecordKind.UPLOAD:
            return upload(device, host, self._buffer(buffer), region.base, wait, region.at(0))
        self._transport.traffic[ROOT].shared_nbytes += region.total_nbytes
        return download(device, self._buffer(buffer), region.base, host, wait, region.at(0))

    def _peer_copy(self, device: Device, record: NodeRecord, wait: list[Ticket]) -> Ticket:
        member, source, start, target, *strided = record.fields
        if member == NODE_MEMORY:
            return self._blocks.give(device, record, wait)
        there, here, region = self._buffer(source), self._buffer(target), region_of(*strided)
        other, over = self._devices[member], region.at(0)
        return across(device, other, there, start, here, region.base, over, wait, ())[1]

    def _comparison(self, record: NodeRecord) -> tuple[Comparison, DeviceBuffer]:
        buffer, offset, twin, twin_offset, nbytes, unit, smallest, changes, *kind = record.fields
        operation, width, signed = kind
        update = Update(UPDATES[operation], width, bool(signed)) if width else None
        places = self._buffer(buffer), offset, self._buffer(twin), twin_offset
        return Comparison(*places, nbytes, unit, smallest, update), self._buffer(changes)
