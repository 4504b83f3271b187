"""Who receives over sockets: their own thread, or whoever polls."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sdi.cluster import loopback
from sdi.cluster.loopback import Loopback, sockets
from sdi.cluster.transport import Room

PATIENCE_S = 60.0


class Heard:
    """Remembers what came, and on which thread."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.threads: set[str] = set()
        self.came = threading.Event()
        self.whys: list[str] = []
        self.left = threading.Event()

    def received(self, source: int, batch: memoryview, bulk_nbytes: int) -> Room | None:
        self.batches.append(bytes(batch))
        self.threads.add(threading.current_thread().name)
        self.came.set()
        return None

    def lost(self, rank: int, why: str) -> None:
        self.whys.append(why)
        self.left.set()

    def is_busy(self) -> bool:
        return False


@pytest.fixture
def ends() -> Iterator[tuple[Loopback, Loopback, Heard]]:
    """Rank 0, rank 1, and what rank 0 has heard."""
    first, second = (Loopback(rank, own, f"sdi-net-{rank}") for rank, own in enumerate(sockets(2)))
    heard = Heard()
    second.start(Heard())
    yield first, second, heard
    for end in (first, second):
        end.close()


def test_who_polls_receives_on_its_own_thread(
    ends: tuple[Loopback, Loopback, Heard], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, heard = ends
    monkeypatch.setattr(loopback, "_ASIDE_MS", 1_000_000)
    first.is_polled = lambda: True
    first.start(heard)
    for number in range(3):
        second.send(0, bytes((number,)))
    while len(heard.batches) < 3:
        first.poll()
    assert heard.batches == [b"\0", b"\1", b"\2"]
    assert heard.threads == {threading.current_thread().name}


def test_what_nobody_polls_for_is_received_all_the_same(ends: tuple[Loopback, Loopback, Heard]) -> None:
    first, second, heard = ends
    first.is_polled = lambda: True  # it says so, but has something else to do
    first.start(heard)
    second.send(0, b"one")
    assert heard.came.wait(PATIENCE_S) and heard.threads == {"sdi-net-0"}


def test_its_thread_takes_over_when_nobody_polls_any_more(
    ends: tuple[Loopback, Loopback, Heard], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, heard = ends
    monkeypatch.setattr(loopback, "_ASIDE_MS", 1_000_000)
    busy = [True]
    first.is_polled = lambda: busy[0]
    first.start(heard)
    second.send(0, b"one")
    while not heard.batches:
        first.poll()
    busy[0] = False
    first.watch()
    heard.came.clear()
    second.send(0, b"two")
    assert heard.came.wait(PATIENCE_S) and heard.batches == [b"one", b"two"]


def test_a_thread_with_members_to_look_after_is_asked_until_nothing_is_left(
    ends: tuple[Loopback, Loopback, Heard],
) -> None:
    first, second, heard = ends
    left, done = [100], threading.Event()

    def look() -> bool:
        if not heard.batches:
            return False
        left[0] -= 1
        if not left[0]:
            done.set()
        return left[0] > 0

    first.look = look
    first.start(heard)
    second.send(0, b"one")
    assert done.wait(PATIENCE_S)


def test_who_is_refused_hears_that_and_the_end_and_is_heard_no_more() -> None:
    first, second = (Loopback(rank, own, f"sdi-net-{rank}") for rank, own in enumerate(sockets(2)))
    here, there = Heard(), Heard()
    try:
        second.start(there)
        first.start(here)
        first.refuse(1, "it is slow", b"go")
        assert here.left.wait(PATIENCE_S) and there.left.wait(PATIENCE_S)
        assert here.whys == ["it is slow"] and there.batches == [b"go"]
        told = threading.Event()
        first.send(1, b"more", memoryview(b"bulk"), told.set)
        second.send(0, b"still there")
        assert told.wait(PATIENCE_S) and not here.batches
        first.refuse(1, "again")
    finally:
        first.close()
        second.close()
    assert here.whys == ["it is slow"] and there.batches == [b"go"]
