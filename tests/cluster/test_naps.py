"""How the transport over MPI looks for messages, with an MPI that tells of one when it is asked again."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from sdi.cluster import mpi
from sdi.cluster.mpi import _Loop

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

    def Improbe(self, *_: object) -> Message | None:  # noqa: N802
        self.probes += 1
        return self.told.pop(0) if self.told else None


class Transport:
    """Of a process that has nothing to send."""

    def __init__(self) -> None:
        self.is_spare = self._is_napping = False
        self._wake = threading.Lock()
        self._wake.acquire()
        self._outgoing: list[Any] = []
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
