"""How the transport over MPI looks for messages and rings, with an MPI that tells of one when asked again."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from sdi.cluster import mpi
from sdi.cluster.mpi import MpiTransport, _Loop
from sdi.cluster.transport import Traffic

BATCH = bytes(8)


class Message:
    def Recv(self, _: object) -> None: ...  # noqa: N802


class Status:
    def Get_source(self) -> int:  # noqa: N802
        return 1

    def Get_count(self, _: object) -> int:  # noqa: N802
        return len(BATCH)


class Comm:
    """``told``: what it says to probes, one after the other; nothing when that is over."""

    def __init__(self) -> None:
        self.told: list[Message | None] = []
        self.probes = 0

    def Dup(self) -> Comm:  # noqa: N802
        return Comm()

    def Set_errhandler(self, _: object) -> None: ...  # noqa: N802

    def Isend(self, *_: object) -> object:  # noqa: N802
        return object()

    def Improbe(self, *_: object) -> Message | None:  # noqa: N802
        self.probes += 1
        return self.told.pop(0) if self.told else None


class Bell:
    """``rung``: which ranks were rung.  ``rings``: whether each wait ends with a ring; then none does."""

    is_rung = True

    def __init__(self) -> None:
        self.rung: list[int] = []
        self.rings: list[bool] = []
        self.waits: list[float] = []

    def ring(self, rank: int) -> bool:
        self.rung.append(rank)
        return True

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        return self.rings.pop(0) if self.rings else False


class Transport:
    """Of a process that has nothing to send."""

    _ring = MpiTransport._ring

    def __init__(self) -> None:
        self.is_spare = self._is_napping = self._is_listening = self._ending = False
        self._bell: Any = Bell()
        self._sent_ns: dict[int, int] = {}
        self.traffic = {1: Traffic(), 2: Traffic()}
        self._wake = threading.Lock()
        self._wake.acquire()
        self._outgoing: Any = []
        self._receiver = self
        self.received_from: list[int] = []

    def received(self, source: int, *_: object) -> None:
        self.received_from.append(source)


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def loop(transport: Transport) -> _Loop:
    found = SimpleNamespace(
        COMM_WORLD=Comm(), ERRORS_RETURN=0, BYTE=0, ANY_SOURCE=-1, Status=Status, Exception=OSError
    )
    return _Loop(transport, found)  # type: ignore[arg-type]


def test_a_message_that_mpi_tells_of_when_asked_again_is_received_at_once(
    loop: _Loop, transport: Transport
) -> None:
    loop._batches.told = [None, Message(), None, Message()]
    assert loop._receive()
    assert transport.received_from == [1, 1]
    assert not loop._receive()


@pytest.mark.parametrize(("cost_us", "nap_us"), [(1, 200), (9, 500), (18, 1000), (90, 1200)])
def test_idle_naps_are_so_long_that_they_take_a_small_part_of_a_core(
    loop: _Loop, transport: Transport, monkeypatch: pytest.MonkeyPatch, cost_us: int, nap_us: int
) -> None:
    naps: list[float] = []
    transport._bell = None

    def sleep(seconds: float) -> bool:
        naps.append(seconds)
        return len(naps) == 200

    monkeypatch.setattr(loop, "_sleep", sleep)
    monkeypatch.setattr(mpi.time, "thread_time_ns", lambda: 1000 * cost_us * len(naps))
    loop._idle()
    assert naps[-1] == pytest.approx(nap_us / 1e6)
    assert loop._batches.probes == 2 * 199


def test_a_spare_transport_naps_long(
    loop: _Loop, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    transport.is_spare = True
    monkeypatch.setattr(loop, "_sleep", lambda seconds: naps.append(seconds) or len(naps) == 100)
    loop._idle()
    assert set(naps) == {50e-3}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What time it is, in ms."""
    found = [1000]
    monkeypatch.setattr(mpi.time, "monotonic_ns", lambda: 1_000_000 * found[0])
    return found


def send(loop: _Loop, transport: Transport, to: int) -> None:
    transport._outgoing = deque([(to, BATCH, None, None)])
    assert loop._send()


def test_who_may_be_idle_is_rung_and_nobody_in_a_busy_exchange(
    loop: _Loop, transport: Transport, clock: list[int]
) -> None:
    send(loop, transport, 1)
    assert transport._bell.rung == [1], "nothing was sent to it before"
    for _ in range(100):
        clock[0] += 15
        send(loop, transport, 1)
        clock[0] += 1
        send(loop, transport, 1)
    assert transport._bell.rung == [1]
    send(loop, transport, 2)
    clock[0] += 16
    send(loop, transport, 2)
    send(loop, transport, 1)
    assert transport._bell.rung == [1, 2, 2, 1]
    assert [transport.traffic[rank].rings for rank in (1, 2)] == [2, 2]


def test_a_process_is_rung_before_it_can_be_idle() -> None:
    assert 0 < mpi._UNSURE_NS < mpi._RESTLESS_NS


def test_a_lost_rank_is_not_rung(loop: _Loop, transport: Transport, clock: list[int]) -> None:
    loop._lost.add(1)
    send(loop, transport, 1)
    assert not transport._bell.rung


def test_an_idle_process_that_is_rung_looks_seldom_until_it_is(loop: _Loop, transport: Transport) -> None:
    transport._bell.rings = [False] * 9 + [True]
    loop._idle()
    assert transport._bell.waits == [mpi._SELDOM_S] * 10
    assert loop._batches.probes == 2 * 9
    assert not transport._is_listening and not transport._is_napping


def test_an_idle_process_whose_ring_is_lost_finds_the_message(loop: _Loop, transport: Transport) -> None:
    loop._batches.told = [None, None, Message()]
    loop._idle()
    assert transport.received_from == [1] and len(transport._bell.waits) == 2


@pytest.mark.parametrize("what", ["_outgoing", "_ending"])
def test_an_idle_process_with_something_to_do_waits_for_no_ring(
    loop: _Loop, transport: Transport, what: str
) -> None:
    setattr(transport, what, [True])
    loop._idle()
    assert not transport._bell.waits


@pytest.mark.parametrize("is_spare", [False, True])
def test_an_idle_process_that_can_not_be_rung_or_is_reached_another_way_naps(
    loop: _Loop, transport: Transport, monkeypatch: pytest.MonkeyPatch, is_spare: bool
) -> None:
    naps: list[float] = []
    transport._bell.is_rung, transport.is_spare = is_spare, is_spare
    monkeypatch.setattr(loop, "_sleep", lambda seconds: naps.append(seconds) or True)
    loop._idle()
    assert naps == [mpi._SPARE_S if is_spare else loop._idle_s] and not transport._bell.waits
