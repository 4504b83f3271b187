"""Copies between processes, chunk by chunk: what is passed on as it comes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from sdi.cluster.arriving import CHUNK_NBYTES
from sdi.cluster.exchange import SIGNALLED_NBYTES, Exchange
from sdi.cluster.records import IN_BATCH, NodeRecord, RecordKind, failure, records
from sdi.cluster.shared import Mapped, Pool
from sdi.cluster.transport import Traffic
from sdi.devices.handles import DeviceBuffer
from sdi.devices.signals import Signal
from sdi.devices.testing.null import NullDevice
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.region import Region

BEFORE, AFTER = 1, 2
"""The ranks from which bytes come, and to which they go on."""
CAME, WENT = 10, 20
"""The keys of these copies."""
BASE = 100


class _Sent:
    """A transport that keeps what it is given.  Implements ``Transport`` as far as copies need it."""

    rank, size, is_spare = 0, 3, False

    def __init__(self) -> None:
        self.traffic = {rank: Traffic() for rank in range(self.size)}
        self.chunks: list[tuple[int, int, bool]] = []  # where in the copy, how many bytes, whether it failed
        self.under_way: list[Callable[[], None]] | None = None

    def send(
        self, to: int, batch: bytes, bulk: memoryview | None = None, sent: Callable[[], None] | None = None
    ) -> None:
        (record,) = records(memoryview(batch))
        assert (to, record.kind, record.ticket) == (AFTER, RecordKind.DATA, WENT)
        at, nbytes, _, _ = record.fields
        self.chunks.append((at, nbytes, bool(record.tail)))
        if sent is not None and self.under_way is not None:
            self.under_way.append(sent)
        elif sent is not None:
            sent()


@pytest.fixture
def sent() -> _Sent:
    return _Sent()


@pytest.fixture
def exchange(sent: _Sent) -> Exchange:
    return Exchange(sent)  # type: ignore[arg-type]


def comes(exchange: Exchange, at: int, nbytes: int) -> None:
    """A chunk of what rank BEFORE sends."""
    room = exchange.received(BEFORE, NodeRecord(RecordKind.DATA, 0, CAME, (at, nbytes, IN_BATCH, 0)))
    assert room is not None and room.memory.nbytes == nbytes
    np.frombuffer(room.memory, np.uint8)[:] = 1
    room.filled()


def fails(exchange: Exchange, at: int) -> None:
    """A chunk of that which rank BEFORE could not read."""
    why = failure(DeviceFailed("a member", "it is broken"))
    assert (
        exchange.received(BEFORE, NodeRecord(RecordKind.DATA, 0, CAME, (at, 0, IN_BATCH, 0), (), why)) is None
    )


def arriving(exchange: Exchange, device: NullDevice, buffer: DeviceBuffer, nbytes: int) -> Ticket:
    return exchange.receive(device, buffer, Region(BASE, nbytes), (), BEFORE, CAME)


def test_each_chunk_is_passed_on_when_it_is_there(exchange: Exchange, sent: _Sent) -> None:
    device, buffer, nbytes = NullDevice(0), DeviceBuffer(object()), 2 * CHUNK_NBYTES + 5
    come = arriving(exchange, device, buffer, nbytes)
    gone = exchange.send(device, buffer, Region(BASE, nbytes), [come], AFTER, WENT)
    for at, size in ((0, CHUNK_NBYTES), (CHUNK_NBYTES, CHUNK_NBYTES), (2 * CHUNK_NBYTES, 5)):
        assert not come.done and not gone.done
        comes(exchange, at, size)
        assert sent.chunks[-1] == (at, size, False)
    assert come.done and gone.done and len(sent.chunks) == 3


def test_a_chunk_that_lies_in_two_that_come_waits_for_both(exchange: Exchange, sent: _Sent) -> None:
    device, buffer = NullDevice(0), DeviceBuffer(object())
    come = arriving(exchange, device, buffer, 3 * CHUNK_NBYTES)
    gone = exchange.send(device, buffer, Region(BASE + 7, 2 * CHUNK_NBYTES), [come], AFTER, WENT)
    comes(exchange, CHUNK_NBYTES, CHUNK_NBYTES)
    assert not sent.chunks
    comes(exchange, 0, CHUNK_NBYTES)
    assert sent.chunks == [(0, CHUNK_NBYTES, False)] and not gone.done
    comes(exchange, 2 * CHUNK_NBYTES, CHUNK_NBYTES)
    assert sent.chunks[1:] == [(CHUNK_NBYTES, CHUNK_NBYTES, False)] and gone.done


def test_what_is_sent_of_another_buffer_waits_for_all(exchange: Exchange, sent: _Sent) -> None:
    device, nbytes = NullDevice(0), 2 * CHUNK_NBYTES
    come = arriving(exchange, device, DeviceBuffer(object()), nbytes)
    exchange.send(device, DeviceBuffer(object()), Region(BASE, nbytes), [come], AFTER, WENT)
    comes(exchange, 0, CHUNK_NBYTES)
    assert not sent.chunks
    comes(exchange, CHUNK_NBYTES, CHUNK_NBYTES)
    assert len(sent.chunks) == 2


def test_what_else_a_copy_waits_for_holds_back_all_chunks(exchange: Exchange, sent: _Sent) -> None:
    device, buffer, nbytes, gate = NullDevice(0), DeviceBuffer(object()), 2 * CHUNK_NBYTES, Ticket()
    come = arriving(exchange, device, buffer, nbytes)
    exchange.send(device, buffer, Region(BASE, nbytes), [come, gate], AFTER, WENT)
    for at in (0, CHUNK_NBYTES):
        comes(exchange, at, CHUNK_NBYTES)
    assert come.done and not sent.chunks
    gate.complete()
    assert len(sent.chunks) == 2


def test_where_a_copy_fails_on_its_way_what_is_passed_on_fails_too(exchange: Exchange, sent: _Sent) -> None:
    device, buffer, nbytes = NullDevice(0), DeviceBuffer(object()), 2 * CHUNK_NBYTES
    come = arriving(exchange, device, buffer, nbytes)
    gone = exchange.send(device, buffer, Region(BASE, nbytes), [come], AFTER, WENT)
    comes(exchange, 0, CHUNK_NBYTES)
    fails(exchange, CHUNK_NBYTES)
    assert isinstance(come.error, DeviceFailed) and isinstance(gone.error, DeviceFailed)
    assert sent.chunks == [(0, CHUNK_NBYTES, False), (CHUNK_NBYTES, 0, True)]
    late = exchange.send(device, buffer, Region(BASE, nbytes), [come], AFTER, WENT)
    assert isinstance(late.error, DeviceFailed)


def test_a_copy_of_which_it_was_heard_before_that_it_failed_fails(exchange: Exchange, sent: _Sent) -> None:
    device, buffer, nbytes = NullDevice(0), DeviceBuffer(object()), 2 * CHUNK_NBYTES + 5
    for at in range(0, nbytes, CHUNK_NBYTES):
        fails(exchange, at)
    come = arriving(exchange, device, buffer, nbytes)
    gone = exchange.send(device, buffer, Region(BASE, nbytes), [come], AFTER, WENT)
    assert isinstance(come.error, DeviceFailed) and isinstance(gone.error, DeviceFailed)
    assert [at for at, _, _ in sent.chunks] == [0, CHUNK_NBYTES, 2 * CHUNK_NBYTES]


def test_chunks_behind_one_that_failed_still_come_and_are_passed_on(exchange: Exchange, sent: _Sent) -> None:
    device, buffer, nbytes = NullDevice(0), DeviceBuffer(object()), 3 * CHUNK_NBYTES
    come = arriving(exchange, device, buffer, nbytes)
    gone = exchange.send(device, buffer, Region(BASE, nbytes), [come], AFTER, WENT)
    fails(exchange, 0)
    comes(exchange, CHUNK_NBYTES, CHUNK_NBYTES)
    assert not come.done and not gone.done
    comes(exchange, 2 * CHUNK_NBYTES, CHUNK_NBYTES)
    assert isinstance(come.error, DeviceFailed) and isinstance(gone.error, DeviceFailed)
    assert sent.chunks[0] == (0, 0, True) and len(sent.chunks) == 3


def test_who_is_told_of_a_copy_that_is_refused_has_it_fail_whole(exchange: Exchange, sent: _Sent) -> None:
    rows = Region(BASE, CHUNK_NBYTES // 2, ((CHUNK_NBYTES, 4),))
    exchange.refuse(rows, AFTER, WENT, DeviceFailed("a member", "it is broken"))
    assert sent.chunks == [(0, 0, True), (CHUNK_NBYTES, 0, True)]


def test_rows_are_passed_on_as_their_chunks_come(exchange: Exchange, sent: _Sent) -> None:
    device, buffer = NullDevice(0), DeviceBuffer(object())
    half = CHUNK_NBYTES // 2
    rows = Region(BASE, half, ((2 * half, 4),))
    come = exchange.receive(device, buffer, rows, (), BEFORE, CAME)
    gone = exchange.send(device, buffer, rows, [come], AFTER, WENT)
    comes(exchange, 0, CHUNK_NBYTES)
    assert sent.chunks == [(0, CHUNK_NBYTES, False)] and not gone.done
    comes(exchange, CHUNK_NBYTES, CHUNK_NBYTES)
    assert len(sent.chunks) == 2 and gone.done


def test_of_host_memory_a_few_chunks_are_on_their_way_at_a_time(exchange: Exchange, sent: _Sent) -> None:
    sent.under_way = []
    nbytes = 6 * CHUNK_NBYTES + 3
    host = memoryview(bytearray(nbytes))
    gone = exchange.send_host(host, Region(0, nbytes), (), AFTER, WENT)
    assert [at for at, _, _ in sent.chunks] == [0, CHUNK_NBYTES, 2 * CHUNK_NBYTES, 3 * CHUNK_NBYTES]
    sent.under_way.pop(1)()
    assert sent.chunks[4:] == [(5 * CHUNK_NBYTES, CHUNK_NBYTES, False)]
    while sent.under_way:
        assert not gone.done
        sent.under_way.pop(0)()
    assert sum(size for _, size, _ in sent.chunks) == nbytes and len(sent.chunks) == 7
    assert gone.done and gone.error is None


def test_what_is_not_sent_of_host_memory_fails_chunk_by_chunk_at_the_other_end(
    exchange: Exchange, sent: _Sent
) -> None:
    wait, host = Ticket(), memoryview(bytearray(6 * CHUNK_NBYTES))
    gone = exchange.send_host(host, Region(0, host.nbytes), [wait], AFTER, WENT)
    assert not sent.chunks
    wait.complete(DeviceFailed("a member", "it is broken"))
    assert isinstance(gone.error, DeviceFailed)
    assert sent.chunks == [(at, 0, True) for at in range(0, host.nbytes, CHUNK_NBYTES)]


class _Signals:
    """Of a member whose device does what it is told to when the test says so.  Implements ``Signals``."""

    def __init__(self) -> None:
        self.sent: list[tuple[memoryview, Signal, Callable[[], None], Ticket]] = []
        self.received: list[tuple[Callable[[], object], Callable[[], object], Sequence[Ticket], Ticket]] = []

    def reaches(self, words: Callable[[], Sequence[memoryview]]) -> bool:
        return len(words()) == 2

    def carries(self, region: Region) -> bool:
        return True

    def send(self, buffer, region, memory, signal, wait, given) -> Ticket:  # type: ignore[no-untyped-def]
        self.sent.append((memory, signal, given, Ticket()))
        return self.sent[-1][-1]

    def receive(self, buffer, region, wait, came, verdict) -> Ticket:  # type: ignore[no-untyped-def]
        self.received.append((came, verdict, wait, Ticket()))
        return self.received[-1][-1]


class _Pair:
    """Two processes that share memory: ``exchanges``, and of each its signals and what it has sent."""

    def __init__(self) -> None:
        self.devices, self.buffer = [NullDevice(0), NullDevice(1)], DeviceBuffer(object())
        self.signals = [_Signals(), _Signals()]
        for device, signals in zip(self.devices, self.signals, strict=True):
            device.signals = signals
        self.sent: list[list[tuple[bytes, bytes]]] = [[], []]
        self.exchanges = [Exchange(self._transport(number)) for number in range(2)]  # type: ignore[arg-type]
        pools = [Pool(1 << 20) for _ in range(2)]
        others = [Mapped(pool.descriptor, pool.nbytes) for pool in reversed(pools)]
        for number, exchange in enumerate(self.exchanges):
            exchange.meet(pools[number], {1 - number: others[number]})

    def _transport(self, number: int) -> SimpleNamespace:
        def send(
            to: int,
            batch: bytes,
            bulk: memoryview | None = None,
            sent: Callable[[], None] = lambda: None,
        ) -> None:
            assert to == 1 - number
            self.sent[number].append((batch, bytes(bulk or b"")))
            sent()

        return SimpleNamespace(rank=number, traffic={1 - number: Traffic()}, send=send)

    def deliver(self, number: int) -> list[RecordKind]:
        """What ``number`` has sent comes to the other one."""
        kinds = []
        batches, self.sent[number] = self.sent[number], []
        for batch, bulk in batches:
            for record in records(memoryview(batch)):
                kinds.append(record.kind)
                room = self.exchanges[1 - number].received(number, record)
                if room is not None:
                    room.memory[:] = bulk
                    room.filled()
        return kinds

    def send(self, nbytes: int = 100) -> Ticket:
        assert self.exchanges[0].signals(self.devices[0])
        return self.exchanges[0].send(self.devices[0], self.buffer, Region(BASE, nbytes), (), 1, WENT, True)

    def receive(self) -> Ticket:
        return self.exchanges[1].receive(self.devices[1], self.buffer, Region(BASE, 100), (), 0, WENT, True)


@pytest.fixture
def pair() -> Iterator[_Pair]:
    made = _Pair()
    yield made
    for exchange in made.exchanges:
        assert not exchange._coming, "everything is known of every copy"
        exchange.close()
    del made.devices[:], made.signals[:]
    gc.collect()


@pytest.mark.parametrize("is_early", [False, True])
def test_what_is_short_is_lent_before_it_is_there_and_has_a_signal(pair: _Pair, is_early: bool) -> None:
    if not is_early:
        pair.receive()
    gone = pair.send()
    ((memory, signal, given, reading),) = pair.signals[0].sent
    assert not pair.sent[0] and memory.nbytes == 100
    given()
    pair.deliver(0)
    if is_early:
        pair.receive()
    ((came, verdict, wait, writing),) = pair.signals[1].received
    assert all(ticket.done for ticket in wait) and not gone.done
    found = came()
    assert isinstance(found, tuple)
    there, awaited = found
    assert awaited.number == signal.number and not awaited.is_given()
    memory[:] = bytes(range(100))
    signal.give()
    assert bytes(there) == bytes(range(100)) and awaited.is_given() and verdict() is None
    reading.complete()
    writing.complete()
    assert gone.done and not pair.sent[1], "what is not needed any more is said later"
    assert pair.exchanges[0]._loans._lent


@pytest.mark.parametrize("is_early", [False, True])
def test_where_the_copy_fails_its_receiver_goes_on_and_fails(pair: _Pair, is_early: bool) -> None:
    if not is_early:
        pair.receive()
    gone, why = pair.send(), DeviceFailed("gpu", "it is broken")
    _, signal, given, reading = pair.signals[0].sent[0]
    given()
    pair.deliver(0)
    reading.complete(why)
    pair.deliver(0)
    if is_early:
        pair.receive()
        with pytest.raises(DeviceFailed, match="broken"):
            pair.signals[1].received[0][0]()
    _, verdict, _, writing = pair.signals[1].received[0]
    assert gone.error is why and signal.is_given() and "broken" in str(verdict())
    writing.complete(why)


def test_what_fails_before_the_device_has_it_fails_as_any_copy(pair: _Pair) -> None:
    pair.receive()
    pair.send()
    pair.signals[0].sent[0][-1].complete(DeviceFailed("gpu", "it is broken"))
    assert pair.deliver(0) == [RecordKind.DATA]
    _, _, wait, writing = pair.signals[1].received[0]
    assert "broken" in str(wait[-1].error)
    writing.complete(wait[-1].error)
    assert not pair.sent[1] and not pair.exchanges[0]._loans._lent


def test_a_failure_that_comes_after_the_receiver_s_own_leaves_nothing_behind(pair: _Pair) -> None:
    pair.receive()
    pair.send()
    _, _, given, reading = pair.signals[0].sent[0]
    given()
    pair.deliver(0)
    pair.signals[1].received[0][-1].complete(DeviceFailed("gpu", "another one"))
    pair.exchanges[1]._loans.give_back(0, 1 << 19)  # with which the other is said too
    pair.deliver(1)
    reading.complete(DeviceFailed("gpu", "it is broken"))
    pair.deliver(0)


def test_what_was_sent_meanwhile_by_signals_does_not_count_either(pair: _Pair) -> None:
    """Devices had it to do before it was known that they would go on with what never came."""
    pair.receive()
    pair.send()
    _, signal, given, reading = pair.signals[0].sent[0]
    given()
    pair.deliver(0)
    _, verdict, _, writing = pair.signals[1].received[0]
    pair.exchanges[0]._loans.doubt()  # as another process does before it gives a signal that says nothing
    signal.give()
    assert "never got" in str(verdict())
    writing.complete(verdict())
    reading.complete()
    pair.send()
    assert len(pair.signals[0].sent) == 1 and pair.deliver(0) == [RecordKind.DATA], "the host sees it first"
    pair.receive()
    came, verdict, _, writing = pair.signals[1].received[1]
    found = came()
    assert isinstance(found, tuple) and found[1] is None and verdict() is None, "those count"
    writing.complete()
    pair.exchanges[0].believe()
    pair.send()
    assert len(pair.signals[0].sent) == 2
    pair.signals[0].sent[1][-1].complete(DeviceFailed("gpu", "it is broken"))
    pair.deliver(0)
    pair.receive()
    pair.signals[1].received[2][-1].complete(DeviceFailed("gpu", "it is broken"))


def test_a_signal_that_was_given_is_not_given_again(pair: _Pair) -> None:
    """The word may be of another copy by then."""
    pair.receive()
    pair.send()
    _, signal, given, reading = pair.signals[0].sent[0]
    given()
    pair.deliver(0)
    Signal(signal.word, signal.number + 1).give()
    pair.exchanges[1].abandon()
    assert Signal(signal.word, signal.number + 1).is_given()
    pair.signals[1].received[0][-1].complete()
    reading.complete()


@pytest.mark.parametrize("how", ["lost", "closed"])
def test_nothing_waits_for_the_signal_of_who_is_gone(pair: _Pair, how: str) -> None:
    pair.receive()
    pair.send()
    _, signal, given, reading = pair.signals[0].sent[0]
    given()
    pair.deliver(0)
    _, verdict, _, writing = pair.signals[1].received[0]
    if how == "lost":
        pair.exchanges[1].lost(0, DeviceFailed("rank 0", "it is gone"))
    else:
        pair.exchanges[1].abandon()
    assert signal.is_given() and verdict() is not None
    writing.complete(DeviceFailed("rank 0", "it is gone"))
    reading.complete()


def test_without_room_or_where_it_is_long_the_bytes_are_there(pair: _Pair) -> None:
    pool = pair.exchanges[0]._staging.pool
    assert pool is not None
    while pool.take(1 << 16) is not None:
        pass
    pair.receive()
    pair.send()
    assert pair.deliver(0) == [RecordKind.DATA]
    came, _, _, writing = pair.signals[1].received[0]
    found = came()
    assert isinstance(found, tuple) and found[1] is None and found[0].nbytes == 100
    writing.complete()
    pair.send(SIGNALLED_NBYTES + 1)
    assert not pair.signals[0].sent and len(pair.sent[0]) == 2


def test_behind_a_round_that_is_under_way_nothing_is_said_before_it_is_there(pair: _Pair) -> None:
    mailboxes, ended = pair.exchanges[0].mailboxes, Ticket()
    mailboxes.began(1)
    ended.when_done(mailboxes.ended)
    pair.receive()
    pair.send()
    assert not pair.signals[0].sent
    pair.deliver(0)
    ((came, _, wait, writing),) = pair.signals[1].received
    found = came()
    assert all(ticket.done for ticket in wait) and isinstance(found, tuple) and found[1] is None
    writing.complete()
    ended.complete()
    pair.receive()
    pair.send()
    ((_, _, given, reading),) = pair.signals[0].sent
    given()
    pair.deliver(0)
    for ticket in (reading, pair.signals[1].received[-1][-1]):
        ticket.complete()


@pytest.mark.parametrize("fails", [False, True])
def test_chunks_that_are_written_when_they_come_keep_back_rounds_until_then(pair: _Pair, fails: bool) -> None:
    (there, here), region = pair.exchanges, Region(BASE, 100_000)
    here.receive(pair.devices[1], pair.buffer, region, (), 0, WENT)
    assert len(here.mailboxes.late) == 1
    if fails:
        there.refuse(region, 1, WENT, DeviceFailed("gpu", "it is broken"))
    else:
        there.send(pair.devices[0], pair.buffer, region, (), 1, WENT)
    pair.deliver(0)
    assert not here.mailboxes.late
