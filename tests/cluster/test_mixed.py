"""Sockets and another transport as one: who hears of a message may issue, and look for more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from sdi.cluster.loopback import Loopback
from sdi.cluster.mixed import MixedTransport
from sdi.cluster.near import Met
from sdi.cluster.transport import Receiver, Room, Traffic

ROUNDS, PATIENCE_S = 200, 60.0


class Far:
    """The other transport: what it receives is said by hand."""

    rank, size, is_spare, deaf = 0, 3, False, {1: "nothing arrives there"}

    def __init__(self) -> None:
        self.traffic = {1: Traffic(), 2: Traffic()}
        self.receiver: Receiver | None = None

    def start(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def send(
        self, to: int, batch: bytes, bulk: memoryview | None = None, sent: Callable[[], None] | None = None
    ) -> None:
        """Nobody is there."""

    def refuse(self, rank: int, why: str, last: bytes = b"") -> None:
        assert self.receiver is not None
        self.receiver.lost(rank, why)

    def close(self) -> None:
        """Nothing is open."""


class Hearer:
    """Looks for more whenever something came from afar, as one does who completes a ticket and issues."""

    def __init__(self, mixed: MixedTransport | None = None) -> None:
        self.mixed = mixed
        self.count = 0

    def received(self, source: int, batch: memoryview, bulk_nbytes: int) -> Room | None:
        self.count += 1
        if source == 2 and self.mixed is not None:
            self.mixed.poll()
        return None

    def lost(self, rank: int, why: str) -> None:
        """Nobody is."""

    def is_busy(self) -> bool:
        return False


def test_who_hears_of_a_message_from_afar_may_look_for_those_from_near() -> None:
    far = Far()
    mixed = MixedTransport(far)
    mixed.pace(lambda: True, None)  # somebody polls: no thread of the sockets' own receives
    hearer = Hearer(mixed)
    mixed.start(hearer)
    here, there = socket.socketpair()
    mixed.meet(Met({1: here}, {}, {}))
    other = Loopback(1, {0: there})
    other.start(Hearer())
    done = threading.Event()

    def talk() -> None:
        assert far.receiver is not None
        for _ in range(ROUNDS):
            other.send(0, bytes(16))
            far.receiver.received(2, memoryview(b""), 0)
        done.set()

    threading.Thread(target=talk, daemon=True).start()
    assert done.wait(PATIENCE_S)
    assert hearer.count >= ROUNDS
    mixed.part()
    other.part()
    other.close()
    mixed.close()


@pytest.mark.parametrize("near", [{1}, {1, 2}])
def test_where_all_others_are_near_the_other_transport_is_spare(near: set[int]) -> None:
    far = Far()
    mixed = MixedTransport(far)
    mixed.start(Hearer())
    pairs = {rank: socket.socketpair() for rank in near}
    mixed.meet(Met({rank: here for rank, (here, _) in pairs.items()}, {}, {}))
    assert far.is_spare == (len(near) == 2) == (not mixed.deaf)
    mixed.part()
    mixed.close()
    for _, there in pairs.values():
        there.close()


def test_what_a_refused_process_still_says_does_not_count() -> None:
    far, hearer = Far(), Hearer()
    mixed = MixedTransport(far)
    mixed.start(hearer)
    assert far.receiver is not None
    far.receiver.received(2, memoryview(b"first"), 0)
    assert mixed.heard() == {2} and mixed.heard() == set()
    mixed.refuse(2, "it is slow")
    room = far.receiver.received(2, memoryview(b"second"), 7)
    assert room is not None and room.memory.nbytes == 7, "bulk bytes go nowhere"
    room.filled()
    assert far.receiver.received(2, memoryview(b"third"), 0) is None
    assert hearer.count == 1 and mixed.heard() == set()
    mixed.close()
