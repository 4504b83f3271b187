"""Copies between two processes: one reads bytes and sends them in chunks, the other takes them in.

Each end has a wait list and a ticket of its own.  A copy is known by a key, which is the same at both ends;
the bytes of rows travel without what lies between them.  Bytes may arrive before it was said where they
belong.  Between processes of one machine that share memory chunks are not sent: the sender lends them, the
receiver reads them where they are and then returns them.  What is short is lent as soon as the sender's
device has the copy to do, where the receiver's device can wait for its end (``devices/signals.py``).
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np

from sdi.cluster.arriving import Arriving, behind, chunks
from sdi.cluster.loans import Loan, Loans
from sdi.cluster.mailboxes import Mailboxes
from sdi.cluster.records import IN_BATCH, DamagedBatch, NodeRecord, RecordKind, failure, failure_of, packed
from sdi.cluster.shared import Mapped, Pool, word_at
from sdi.cluster.staging import LENT_NBYTES, Staging
from sdi.cluster.transport import Room, Transport
from sdi.dataclass import dataclass, replace
from sdi.devices.base import Device
from sdi.devices.capabilities import Capabilities
from sdi.devices.copying import download, upload
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.join import all_of, join
from sdi.devices.signals import Signal
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.intervals import ByteRange
from sdi.region import Region, packed_like
from sdi.vmem.links import CHUNK_NBYTES

SIGNALLED_NBYTES = CHUNK_NBYTES
"""What is longer takes longer than it takes to hear of it, and says how fast the link is."""
TIMED_NBYTES = 256 << 10
"""Of so much that arrives the time on the network counts too; what is shorter is ordered by drivers."""
_SENDING = 4
"""So many of host memory are on their way."""


def fields_of(region: Region) -> tuple[int, int, int, int]:
    """Offset, count, nbytes and pitch of a region of no more than one level, as records have them."""
    pitch, count = region.levels[0] if region.levels else (region.nbytes, 1)
    return region.base, count, region.nbytes, pitch


@functools.lru_cache(4096)
def region_of(offset: int, count: int, nbytes: int, pitch: int) -> Region:
    """The contrary.  Raises ValueError where they are none."""
    return Region(offset, nbytes, () if count == 1 else ((pitch, count),))


@dataclass(slots=True, eq=False)
class _Chunk:
    """``memory``: where its bytes go; None until they are there, where they may be lent.

    ``arrived``: is done when they are there.  ``place``: of lent bytes, in the sender's pool.  ``signal``:
    they are there only with that; ``why``: it will not be given, or does not count.
    """

    memory: memoryview | None
    arrived: Ticket
    place: int = IN_BATCH
    signal: Signal | None = None
    why: BaseException | None = None

    @property
    def bytes(self) -> memoryview:
        """Of a chunk that is there, or that is not lent."""
        assert self.memory is not None
        return self.memory


class Exchange:
    """The copies of one process.  Owned by: the issuing thread; sdi-net says what arrives."""

    def __init__(self, transport: Transport) -> None:
        self._transport: Final = transport
        self._staging: Final = Staging()
        self._lock: Final = threading.Lock()
        self._coming: Final[dict[tuple[int, int], dict[int, _Chunk]]] = {}
        self._lost: Final[dict[int, DeviceFailed]] = {}
        self._loans: Final = Loans(transport, self._staging)
        self.mailboxes: Final = Mailboxes(transport, self._loans, self._staging)

    def meet(self, pool: Pool, pools: Mapping[int, Mapped]) -> None:
        """This process' pool, which others read, and theirs, by rank; all are this object's now."""
        self._staging.pool = pool
        self._loans.pools = pools

    def close(self) -> None:
        """Nothing is on its way any more."""
        self.mailboxes.clear()
        self._loans.close()
        if self._staging.pool is not None:
            self._staging.pool.close()
            self._staging.pool = None

    def signals(self, device: Device) -> bool:
        """Whether ``device`` can wait for devices of all processes that share memory, and they for it."""
        signals = device.signals
        return signals is not None and bool(self._loans.pools) and signals.reaches(self._loans.words)

    def facts_of(self, device: Device) -> Capabilities:
        """What rank 0 is told of a member of this process."""
        return replace(device.capabilities, signals=self.signals(device))

    def is_short(self, region: Region, other: int) -> bool:
        """Whether what counts of a copy of ``region`` is who waits for it; the same at both ends."""
        return other in self._loans.pools and region.total_nbytes <= SIGNALLED_NBYTES

    def _is_signalled(self, device: Device, region: Region, other: int) -> bool:
        """Whether a copy is made by signals; the same at both ends."""
        signals = device.signals
        return self.is_short(region, other) and signals is not None and signals.carries(region)

    def believe(self) -> None:
        """Signals count from now on, in all processes: none is under way.  At rank 0."""
        self.mailboxes.clear()
        self._loans.believe()

    # -- sending ------------------------------------------------------------------------------------------

    def send(
        self,
        device: Device,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        to: int,
        key: int,
        is_signalled: bool = False,
    ) -> Ticket:
        """Send ``region`` of ``buffer``; the ticket says that it was read.

        ``is_signalled``: both this device and the one it is for ``signal``.
        """
        if is_signalled and self.mailboxes.are_none_under_way and self._is_signalled(device, region, to):
            signalled = self._send_signalled(device, buffer, region, wait, to, key)
            if signalled is not None:
                return signalled
        reads: list[Ticket] = []
        loans: list[Loan] = []
        parts = list(chunks(region))
        lent = sum(part.total_nbytes > LENT_NBYTES for _, part in parts)  # all, or all but the last
        ring = self._loans.ring(to, [part.total_nbytes for _, part in parts[:lent]])
        for number, (at, part) in enumerate(parts):
            loan, before = None, behind(wait, buffer, part.bounds)
            if ring and number < lent:
                whole = ring[number % len(ring)]
                if number >= len(ring):
                    before = [*before, loans[number - len(ring)].returned]
                is_last = number + len(ring) >= lent
                place = self._loans.place(whole)
                loan = Loan(to, whole[: part.total_nbytes], whole, place, is_last, Ticket())
                loans.append(loan)
            is_lent = not part.levels and loan is not None
            memory = loan.memory if loan is not None and is_lent else self._staging.take(part.span_nbytes)
            ticket = download(device, buffer, part.base, memory, before, part.at(0))
            reads.append(ticket)
            ticket.when_done(partial(self._read, to, key, at, part, memory, loan))
        device.flush()
        return all_of(reads)

    def _send_signalled(
        self,
        device: Device,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        to: int,
        key: int,
    ) -> Ticket | None:
        """What is said to ``to`` is said as soon as ``device`` has the copy to do; None: there is no room."""
        assert self._staging.pool is not None and device.signals is not None
        whole = self._staging.pool.take(region.total_nbytes)
        if whole is None:
            return None
        memory, read, place = whole[: region.total_nbytes], Ticket(), self._staging.pool.place(whole)
        loan = Loan(to, memory, whole, place, True, Ticket(), read)
        word = self._staging.pool.word(place)
        signal = Signal(word, (int.from_bytes(word, "little") + 1 & 0xFFFFFFFF) or 1)
        lend = partial(self._loans.lend, loan, key, 0, signal.number)
        before = behind(wait, buffer, region.bounds)
        ticket = device.signals.send(buffer, region, memory, signal, before, lend)
        ticket.when_done(partial(self._has_read, loan, key, read))
        device.flush()
        return ticket

    def _has_read(self, loan: Loan, key: int, read: Ticket, ticket: Ticket) -> None:
        """A copy that was to give a signal is done; where it failed the other end hears of that."""
        read.complete()
        if ticket.error is None:
            return
        self._send_failure(loan.to, key, 0, ticket.error, loan.is_said)
        if not loan.is_said:
            self._loans.end(loan)

    def _read(
        self, to: int, key: int, at: int, part: Region, memory: memoryview, loan: Loan | None, ticket: Ticket
    ) -> None:
        if ticket.error is not None:
            if part.levels or loan is None:
                self._staging.give(memory)
            if loan is not None:
                self._loans.end(loan)
            self._send_failure(to, key, at, ticket.error)
            return
        if part.levels:
            together = self._staging.take(part.total_nbytes) if loan is None else loan.memory
            np.copyto(packed_like(part).of(together), part.at(0).of(memory))
            self._staging.give(memory)
            memory = together
        if loan is not None:
            self._loans.lend(loan, key, at)
            return
        batch = packed(RecordKind.DATA, 0, key, (at, memory.nbytes, IN_BATCH, 0))
        self._transport.send(to, batch, memory, lambda: self._staging.give(memory))

    def send_host(self, host: HostBytes, region: Region, wait: Sequence[Ticket], to: int, key: int) -> Ticket:
        """Send ``region`` of ``host``; the ticket says that ``host`` may change.

        A few chunks at a time: what is said to the node meanwhile must not come behind all of them.
        """
        sent: list[Ticket] = []
        for number, (at, part) in enumerate(chunks(region)):
            gone = Ticket()
            join(
                [*wait, sent[number - _SENDING]] if number >= _SENDING else wait,
                partial(self._send_host, host, part, to, key, at, gone),
            )
            sent.append(gone)
        return all_of(sent)

    def _send_host(
        self,
        host: HostBytes,
        part: Region,
        to: int,
        key: int,
        at: int,
        gone: Ticket,
        error: BaseException | None,
    ) -> None:
        if error is not None:
            self._send_failure(to, key, at, error)
            gone.complete(error)
            return
        batch = packed(RecordKind.DATA, 0, key, (at, part.total_nbytes, IN_BATCH, 0))
        if not part.levels:
            self._transport.send(to, batch, host[part.base : part.base + part.nbytes], gone.complete)
        else:
            memory = self._staging.take(part.total_nbytes)
            np.copyto(packed_like(part).of(memory), part.of(host))
            self._transport.send(to, batch, memory, partial(_both, gone.complete, self._staging, memory))

    def refuse(self, region: Region, to: int, key: int, error: BaseException) -> None:
        """The ``region`` that was to be sent is not: the copy ``key`` fails at its other end too."""
        for at, _ in chunks(region):
            self._send_failure(to, key, at, error)

    def _send_failure(
        self, to: int, key: int, at: int, error: BaseException, is_refuted: bool = False
    ) -> None:
        """Instead of the chunk that begins ``at``: of each, the other end hears once.

        ``is_refuted``: it has heard that there would be a signal, which there will not.
        """
        fields = at, 0, IN_BATCH, int(is_refuted)
        self._transport.send(to, packed(RecordKind.DATA, 0, key, fields, tail=failure(error)))

    # -- receiving ----------------------------------------------------------------------------------------

    def receive(
        self,
        device: Device,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        source: int,
        key: int,
        is_signalled: bool = False,
    ) -> Ticket:
        """Write the ``region`` that ``source`` sends to ``buffer``; the ticket says that it is there.

        ``is_signalled``: see ``send``.
        """
        if is_signalled and self._is_signalled(device, region, source):
            return self._receive_signalled(device, buffer, region, wait, source, key)
        writes: list[tuple[ByteRange, Ticket]] = []
        for at, part in chunks(region):
            nbytes = part.total_nbytes
            may_be_lent = nbytes > LENT_NBYTES and source in self._loans.pools
            chunk = self._chunk(source, key, at, nbytes, may_be_lent=may_be_lent)
            used = partial(self._used, source, key, at, chunk)
            if may_be_lent:
                ticket = self._receive_lent(device, buffer, part, wait, chunk, used)
            elif not part.levels:
                ticket = upload(device, chunk.bytes, buffer, part.base, [*wait, chunk.arrived])
                # Where it failed its bytes may still be on their way into that memory.
                join([ticket, chunk.arrived], used)
                if nbytes >= TIMED_NBYTES:
                    ticket = _since_arrival(ticket, chunk.arrived)
            else:
                ticket = self._receive_rows(device, buffer, part, wait, chunk)
                join([ticket], used)
            writes.append((part.bounds, ticket))
        device.flush()
        return writes[0][1] if len(writes) == 1 else Arriving(buffer, writes)

    def _receive_signalled(
        self,
        device: Device,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        source: int,
        key: int,
    ) -> Ticket:
        """Write what may come with a signal, in which case ``device`` waits for that."""
        assert device.signals is not None
        chunk = self._chunk(source, key, 0, region.total_nbytes, may_be_lent=True)
        before = [*wait, chunk.arrived]

        def came() -> tuple[memoryview, Signal | None]:
            if (why := verdict()) is not None:
                raise why
            return chunk.bytes, chunk.signal

        def verdict() -> BaseException | None:
            if chunk.why is None and chunk.signal is not None and self._loans.is_in_doubt():
                return DeviceFailed(f"rank {source}", "it may have gone on with what it never got")
            return chunk.why

        ticket = device.signals.receive(buffer, region, before, came, verdict)
        join([ticket, chunk.arrived], partial(self._used, source, key, 0, chunk))
        device.flush()
        return ticket

    def _receive_lent(
        self,
        device: Device,
        buffer: DeviceBuffer,
        part: Region,
        wait: Sequence[Ticket],
        chunk: _Chunk,
        used: Callable[[BaseException | None], None],
    ) -> Ticket:
        """Write a chunk of which it is known where it lies only when it has arrived."""
        written, given = Ticket(), self.mailboxes.kept_back()

        def arrived(ticket: Ticket) -> None:
            if ticket.error is not None:
                used(ticket.error)
                written.complete(ticket.error)
                return
            memory = chunk.bytes
            try:
                if part.levels:
                    memory = self._staging.take(part.span_nbytes)
                    np.copyto(part.at(0).of(memory), packed_like(part).of(chunk.bytes))
                written_there = upload(device, memory, buffer, part.base, wait, part.at(0))
                device.flush()
            except Exception as error:
                written_there = completed(error)
            written_there.when_done(partial(finished, memory))

        def finished(memory: memoryview, ended: Ticket) -> None:
            if part.levels:
                self._staging.give(memory)
            used(ended.error)
            written.complete(ended.error, ended.start_ns, ended.end_ns)

        chunk.arrived.when_done(arrived)
        chunk.arrived.when_done(lambda _: given.complete())
        return written

    def drop(self, region: Region, source: int, key: int) -> None:
        """The ``region`` that ``source`` sends is not wanted."""
        for at, part in chunks(region):
            nbytes = part.total_nbytes
            chunk = self._chunk(source, key, at, nbytes, may_be_lent=source in self._loans.pools)
            join([chunk.arrived], partial(self._used, source, key, at, chunk))

    def _receive_rows(
        self,
        device: Device,
        buffer: DeviceBuffer,
        part: Region,
        wait: Sequence[Ticket],
        chunk: _Chunk,
    ) -> Ticket:
        memory, spread = self._staging.take(part.span_nbytes), Ticket()

        def arrived(ticket: Ticket) -> None:
            if ticket.error is None:
                np.copyto(part.at(0).of(memory), packed_like(part).of(chunk.bytes))
            spread.complete(ticket.error)

        chunk.arrived.when_done(arrived)
        ticket = upload(device, memory, buffer, part.base, [*wait, spread], part.at(0))
        whole = Ticket()

        def written(error: BaseException | None) -> None:
            self._staging.give(memory)
            whole.complete(error, ticket.start_ns, ticket.end_ns)

        join([ticket, spread], written)
        return _since_arrival(whole, chunk.arrived) if part.total_nbytes >= TIMED_NBYTES else whole

    def receive_host(self, host: HostBytes, region: Region, source: int, key: int) -> Ticket:
        """Write the ``region`` that ``source`` sends to ``host``, as soon as it comes.

        To be called before ``source`` is asked for them.
        """
        arrivals: list[Ticket] = []
        for at, part in chunks(region):
            nbytes = part.total_nbytes
            if not part.levels:
                chunk = self._chunk(source, key, at, nbytes, host[part.base : part.base + nbytes])
                arrivals.append(chunk.arrived)
            else:
                chunk = self._chunk(source, key, at, nbytes)
                spread = Ticket()
                chunk.arrived.when_done(partial(self._spread, chunk, host, part, spread))
                arrivals.append(spread)
            chunk.arrived.when_done(partial(self._came, source, key, at))
        return all_of(arrivals)

    def _spread(self, chunk: _Chunk, host: memoryview, part: Region, spread: Ticket, arrived: Ticket) -> None:
        if arrived.error is None:
            np.copyto(part.of(host), packed_like(part).of(chunk.bytes))
            self._staging.give(chunk.bytes)
        spread.complete(arrived.error)

    def _used(self, source: int, key: int, at: int, chunk: _Chunk, _: BaseException | None) -> None:
        self._came(source, key, at, chunk.arrived)  # before its word can be another's
        if chunk.place != IN_BATCH:
            self._loans.give_back(source, chunk.place, is_awaited=chunk.signal is None)
        elif chunk.arrived.error is None:
            self._staging.give(chunk.bytes)

    def _came(self, source: int, key: int, at: int, _: Ticket) -> None:
        """Nothing more is to be known of this part of the copy."""
        with self._lock:
            parts = self._coming.get((source, key))
            if parts is not None:
                parts.pop(at, None)
                if not parts:
                    del self._coming[source, key]

    def _chunk(
        self,
        source: int,
        key: int,
        at: int,
        nbytes: int,
        memory: memoryview | None = None,
        may_be_lent: bool = False,
    ) -> _Chunk:
        """The part of a copy that begins ``at``, whether it has come already, or has failed, or not."""
        with self._lock:
            why = self._lost.get(source)
            parts = {} if why is not None else self._coming.setdefault((source, key), {})
            found = parts.get(at)
            if found is None:
                found = parts[at] = _Chunk(None, Ticket() if why is None else completed(why))
            if found.memory is None and not may_be_lent:
                found.memory = memory or self._staging.take(nbytes)
            return found

    # -- what the transport's receiver passes on --------------------------------------------------------

    def received(self, source: int, record: NodeRecord) -> Room | None:
        """A record DATA or RETURN; where the bytes go that follow it.  Raises DamagedBatch."""
        if record.kind is RecordKind.RETURN:
            self._loans.returned(record.fields[0])
            return None
        at, nbytes, place, number = record.fields
        if not nbytes:
            self._has_failed(source, record.ticket, at, record.tail, bool(number))
        elif place == IN_BATCH:
            return self._room(source, record.ticket, at, nbytes)
        else:
            self._is_lent(source, record.ticket, at, nbytes, place, number)
        return None

    def _room(self, source: int, key: int, at: int, nbytes: int) -> Room:
        """Where bytes of a copy go that arrive now."""
        chunk = self._chunk(source, key, at, nbytes)
        if chunk.arrived.done or chunk.bytes.nbytes != nbytes:  # it has failed meanwhile
            memory = self._staging.take(nbytes)
            return Room(memory, lambda: self._staging.give(memory))

        begin_ns = time.monotonic_ns()

        def filled() -> None:
            if not chunk.arrived.done:
                chunk.arrived.complete(None, begin_ns, time.monotonic_ns())

        return Room(chunk.bytes, filled)

    def _is_lent(self, source: int, key: int, at: int, nbytes: int, place: int, number: int) -> None:
        """Bytes of a copy lie at ``place`` of the pool of ``source`` until they are returned.

        ``number``: of their signal; 0: they are there.
        """
        try:
            memory = self._loans.pools[source].view(place, nbytes)
            word = self._loans.pools[source].view(*word_at(place))
        except (KeyError, ValueError) as error:
            raise DamagedBatch(f"rank {source} lends what it has not: {error}") from error
        chunk = self._chunk(source, key, at, nbytes, may_be_lent=True)
        if chunk.arrived.done:  # it has failed meanwhile
            self._loans.give_back(source, place)
            return
        if chunk.memory is None:
            chunk.memory, chunk.place = memory, place
            chunk.signal = Signal(word, number) if number else None
        elif number:
            raise DamagedBatch(f"rank {source} gives a signal for what is to be there")
        else:  # it was said before where they are to be
            chunk.memory[:] = memory
            self._loans.give_back(source, place)
        chunk.arrived.complete()

    def _has_failed(self, source: int, key: int, at: int, tail: bytes | memoryview, is_refuted: bool) -> None:
        """The chunk that begins ``at`` does not come: the copy failed at its other end."""
        why = failure_of(tail) or DeviceFailed(f"rank {source}", "a copy failed")
        if is_refuted:
            with self._lock:
                known = self._coming.get((source, key), {}).get(at)
                self._refute([known] if known is not None else [], why)
        else:
            _fail([self._chunk(source, key, at, 0, may_be_lent=True)], why)

    def _refute(self, parts: Sequence[_Chunk], why: Exception) -> None:
        """What has arrived of them does not count.  The caller has the lock, and they are still coming.

        Whoever waits for their signals goes on, and fails.  What others were sent meanwhile may hang on that,
        and they can't know: it is in doubt first.
        """
        for chunk in parts:
            if chunk.signal is not None:
                self._loans.doubt()
                chunk.why = why
                if not chunk.signal.is_given():
                    chunk.signal.give()

    def abandon(self) -> None:
        """No signal is waited for any more: devices are closed, perhaps not all at once.  Any thread."""
        why = DeviceFailed("a node", "the session has ended, or it hangs")
        self.mailboxes.abandon()
        with self._lock:
            self._refute([chunk for parts in self._coming.values() for chunk in parts.values()], why)

    def lost(self, rank: int, why: DeviceFailed) -> None:
        """Nothing comes from ``rank`` any more."""
        if rank not in self._lost:  # who hears of it again does in a later session, perhaps
            self.mailboxes.give_up()
        with self._lock:
            self._lost[rank] = why
            keys = [key for key in self._coming if key[0] == rank]
            parts = [chunk for key in keys for chunk in self._coming.pop(key).values()]
            self._refute(parts, why)
        _fail(parts, why)
        self._loans.lost(rank)


def _fail(parts: Sequence[_Chunk], why: Exception) -> None:
    for chunk in parts:
        if not chunk.arrived.done:
            chunk.arrived.complete(why)


def _since_arrival(written: Ticket, arrived: Ticket) -> Ticket:
    """``written``, which also took as long as its bytes took to arrive, whatever it waited for in between."""
    whole = Ticket()
    whole.is_typical = written.is_typical

    def finished(error: BaseException | None) -> None:
        arriving_ns = arrived.end_ns - arrived.start_ns
        whole.complete(error, written.start_ns and written.start_ns - arriving_ns, written.end_ns)

    join([written, arrived], finished)
    return whole


def _both(sent: Callable[[], None], staging: Staging, memory: memoryview) -> None:
    staging.give(memory)
    sent()
