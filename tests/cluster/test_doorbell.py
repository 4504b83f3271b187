"""Rings between processes of a job, here all in one."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from sdi.cluster import doorbell
from sdi.cluster.doorbell import Card, Doorbell, Heard

UNREACHABLE = "198.51.100.1"
"""An address for documentation (RFC 5737)."""
LATE = 1 << 62
"""A count above all that are used."""

Hang = Callable[..., list[Doorbell]]


def meet(bells: Sequence[Doorbell], cards: Sequence[Card]) -> None:
    """As each rank does, in a thread for each."""
    barrier = threading.Barrier(len(bells))
    told: dict[int, Heard] = {}

    def of(rank: int) -> None:
        def exchange(heard: Heard) -> list[Heard]:
            told[rank] = heard
            barrier.wait()
            found = [told[other] for other in range(len(bells))]
            barrier.wait()
            return found

        bells[rank].meet(cards, barrier.wait, exchange)

    with ThreadPoolExecutor(len(bells)) as pool:
        for done in [pool.submit(of, rank) for rank in range(len(bells))]:
            done.result(60)


@pytest.fixture
def hang() -> Iterator[Hang]:
    made: list[Doorbell] = []

    def hang(size: int, unreachable: int | None = None) -> list[Doorbell]:
        """Doorbells of so many ranks that have met; ``unreachable``: one that is elsewhere than it says."""
        made.extend(Doorbell(rank) for rank in range(size))
        cards = [each.card for each in made]
        if unreachable is not None:
            cards[unreachable] = replace(cards[unreachable], addresses=(UNREACHABLE,))
        meet(made, cards)
        assert not any(each.wait(0) for each in made), "what came while they met is no ring"
        return made

    yield hang
    for each in made:
        each.close()


def send(to: Doorbell, data: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(data, ("127.0.0.1", to.card.port))


def ring(key: bytes, count: int) -> bytes:
    body = doorbell._RING.pack(0, 0, count)
    return body + doorbell._code(key, body)


def test_a_ring_wakes_whom_it_is_for_and_nobody_else(hang: Hang) -> None:
    bells = hang(3)
    assert all(bell.is_rung and not bell.deaf for bell in bells)
    assert bells[0].ring(2)
    assert [bell.wait(0) for bell in bells] == [False, False, True]
    assert [bell.wait(0) for bell in bells] == [False, False, False]
    bells[1].ring_here()
    assert [bell.wait(0) for bell in bells] == [False, True, False]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        bytes(29),
        bytes(60000),
        ring(bytes(16), LATE),
        ring(bytes(16), LATE)[:13] + bytes(16),
    ],
    ids=len,
)
def test_a_datagram_without_the_right_key_wakes_nobody(hang: Hang, data: bytes) -> None:
    bell = hang(2)[1]
    send(bell, data)
    assert not bell.wait(0)
    send(bell, data)
    send(bell, ring(bell.card.key, LATE))
    assert bell.wait(0), "the same with the key wakes, and is found behind others"


def test_a_ring_that_somebody_saw_wakes_nobody_again(hang: Hang) -> None:
    bell = hang(2)[1]
    seen = ring(bell.card.key, LATE)
    send(bell, seen)
    assert bell.wait(0)
    send(bell, seen)
    send(bell, seen + b"\0")
    send(bell, ring(bell.card.key, LATE - 1))
    assert not bell.wait(0)


def test_a_rank_that_others_can_not_reach_is_named_and_not_rung(hang: Hang) -> None:
    bells = hang(3, unreachable=1)
    for bell in bells:
        assert bell.deaf == {1: "datagrams of rank 0, 1, 2 do not arrive there"}
    assert [bell.is_rung for bell in bells] == [True, False, True]
    assert not bells[0].ring(1) and bells[1].ring(0)
    assert [bell.wait(0) for bell in bells] == [True, False, False]


def test_more_ranks_than_a_socket_holds_datagrams_of_all_hear_each_other(
    hang: Hang, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sockets hold few, and nobody looks until all have called: what most call is lost at first."""
    opened, calls = doorbell._opened, Doorbell._call

    def little() -> socket.socket:
        found = opened()
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        return found

    rounds: list[int] = []

    def call(bell: Doorbell, cards: Sequence[Card], heard: Sequence[Heard]) -> None:
        rounds.append(bell._rank)
        with monkeypatch.context() as patched:
            patched.setattr(bell, "_take", lambda: False)
            calls(bell, cards, heard)

    monkeypatch.setattr(doorbell, "_ON_THE_WAY_S", 0.02)
    monkeypatch.setattr(doorbell, "_opened", little)
    monkeypatch.setattr(Doorbell, "_call", call)
    bells = hang(12)
    assert len(rounds) > 12, "all were heard at once"
    assert all(bell.is_rung and not bell.deaf for bell in bells)
    assert bells[0].ring(11) and bells[11].wait(0)


def test_addresses_are_those_that_a_socket_can_be_bound_to() -> None:
    found = doorbell.own_addresses()
    assert "127.0.0.1" in found and len(set(found)) == len(found)
    for address in found:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as bound:
            bound.bind((address, 0))


def test_without_ipv6_rings_go_over_ipv4(hang: Hang, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbell.socket, "has_dualstack_ipv6", lambda: False)
    bells = hang(2)
    assert bells[0].ring(1) and bells[1].wait(0)


def open_descriptors() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def test_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_descriptors()
    bell = Doorbell(0)
    assert len(open_descriptors() - before) == 2
    bell.close()
    assert open_descriptors() == before

    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many")

    for owner, name in ((doorbell, "own_addresses"), (doorbell.os, "eventfd"), (socket.socket, "bind")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, fail)
            with pytest.raises(OSError, match="too many"):
                Doorbell(0)
        assert open_descriptors() == before
