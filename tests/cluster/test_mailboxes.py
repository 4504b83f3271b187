"""Mailboxes: where two processes find them, who ends all waits when, and whose memory is used again."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from sdi.cluster.exchange import Exchange
from sdi.cluster.mailboxes import Mailboxes
from sdi.cluster.shared import Mapped, Pool
from sdi.cluster.transport import Traffic
from sdi.devices.base import Device
from sdi.devices.handles import DeviceBuffer
from sdi.devices.signals import CopyRound, Mailbox, RepeatedCopy, Signal
from sdi.devices.testing.null import NullDevice
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.region import Region

NBYTES = 70_000
"""More than a page of a pool, so that the words of both halves are far from each other."""
BROKEN = DeviceFailed("a member", "it is broken")


class _Rounds:
    """The signals of a member whose rounds are done when a test says so."""

    def __init__(self) -> None:
        self.issued: list[tuple[int, Callable[[], BaseException | None], Ticket]] = []
        self.copies: Sequence[RepeatedCopy] = ()
        self.after: Sequence[Ticket] = ()

    def reaches(self, words: object) -> bool:
        return True

    def round_of(self, copies: Sequence[RepeatedCopy]) -> CopyRound:
        self.copies = copies
        return self

    def issue(
        self,
        number: int,
        wait: Sequence[Ticket],
        after: Sequence[Ticket],
        verdict: Callable[[], BaseException | None],
    ) -> Ticket:
        self.after = after
        self.issued.append((number, verdict, Ticket()))
        return self.issued[-1][-1]


class _Pair:
    """Rank 0 and another process that has mapped its pool."""

    def __init__(self) -> None:
        self.traffic = {0: Traffic(), 1: Traffic()}
        pools = [Pool(1 << 24) for _ in range(2)]
        self.exchanges = [
            Exchange(SimpleNamespace(rank=rank, traffic=self.traffic, send=lambda *_: None))  # type: ignore[arg-type]
            for rank in range(2)
        ]
        for rank, exchange in enumerate(self.exchanges):
            other = pools[1 - rank]
            exchange.meet(pools[rank], {1 - rank: Mapped(other.descriptor, other.nbytes)})
        self.pool = pools[0]

    @property
    def both(self) -> tuple[Mailboxes, Mailboxes]:
        root, node = self.exchanges
        return root.mailboxes, node.mailboxes

    def made(self) -> tuple[int, Mailbox, Mailbox]:
        """A place, and what both processes have there."""
        root, node = self.both
        place = root.make(NBYTES)
        assert place is not None
        return place, root.use(place, NBYTES), node.use(place, NBYTES)


@pytest.fixture
def pair() -> Iterator[_Pair]:
    made = _Pair()
    yield made
    for exchange in made.exchanges:
        exchange.close()
    del made
    gc.collect()


def fresh(mailboxes: Mailboxes) -> int:
    """Where the next one is."""
    place = mailboxes.make(NBYTES)
    assert place is not None
    return place


def is_over(box: Mailbox, number: int) -> bool:
    """Whether nobody waits there for that number."""
    return Signal(box.filled, number).is_given() and Signal(box.emptied, number).is_given()


def test_both_processes_see_the_same_halves_and_words_and_no_two_are_the_same(pair: _Pair) -> None:
    _, ours, theirs = pair.made()
    parts = [*ours.halves, ours.filled, ours.emptied]
    for number, part in enumerate(parts):
        part[:] = bytes([number + 1]) * part.nbytes
    seen = [*theirs.halves, theirs.filled, theirs.emptied]
    assert [part.nbytes for part in seen] == [NBYTES, NBYTES, 4, 4]
    assert [bytes(part) for part in seen] == [
        bytes([number + 1]) * part.nbytes for number, part in enumerate(parts)
    ]


def test_words_of_one_that_is_used_again_say_nothing(pair: _Pair) -> None:
    root, node = pair.both
    place, ours, _ = pair.made()
    ours.filled[:] = ours.emptied[:] = (77).to_bytes(4, "little")
    root.give(place)
    assert fresh(root) == place
    again = node.use(place, NBYTES)
    assert bytes(again.filled) == bytes(again.emptied) == bytes(4) and not is_over(again, 1)


def test_where_the_pool_is_full_there_is_none(pair: _Pair) -> None:
    root, _ = pair.both
    while pair.pool.take(1 << 20) is not None:
        pass
    assert root.make(1 << 20) is None


def test_they_leave_most_of_the_pool_to_other_copies(pair: _Pair) -> None:
    root, _ = pair.both
    places = []
    while (place := root.make(NBYTES)) is not None:
        places.append(place)
    assert 4 <= len(places) <= pair.pool.nbytes // 8 // (2 * NBYTES)
    root.give(places[0])
    assert root.make(NBYTES) is not None and root.make(NBYTES) is None


def test_what_fails_ends_all_waits_and_whatever_comes_then_does_not_count(pair: _Pair) -> None:
    root, node = pair.both
    _, ours, theirs = pair.made()
    signals = _Rounds()
    device = NullDevice(0)
    device.signals = signals  # type: ignore[assignment]
    copies = [RepeatedCopy(DeviceBuffer(object()), Region(0, NBYTES), theirs, True)]
    issue = node.round_of(cast(Device, device), copies, {0: NBYTES}, ())
    done = issue.issue(5, ())
    number, verdict, ticket = signals.issued[0]
    assert (number, verdict(), done) == (5, None, ticket) and not is_over(ours, 1)
    assert pair.traffic[0].shared_nbytes == NBYTES
    ticket.complete(BROKEN)
    for late in (1, 5, 6, 1 << 20):
        assert is_over(ours, late)
    assert root.is_in_doubt and isinstance(verdict(), DeviceFailed)


def test_what_was_on_its_way_behind_that_holds_nobody_up(pair: _Pair) -> None:
    root, node = pair.both
    _, ours, _ = pair.made()
    node.began(9)
    node.give_up()
    ours.filled[:] = (9).to_bytes(4, "little")  # by a device that had the copy to do
    assert not Signal(ours.filled, 10).is_given()
    root.end_waits()
    assert is_over(ours, 10)


def test_what_comes_late_keeps_back_rounds_that_are_issued_later(pair: _Pair) -> None:
    _, node = pair.both
    _, _, theirs = pair.made()
    signals, late = _Rounds(), [node.kept_back(), node.kept_back()]
    device = NullDevice(0)
    device.signals = signals  # type: ignore[assignment]
    copies = [RepeatedCopy(DeviceBuffer(object()), Region(0, NBYTES), theirs, True)]
    issue = node.round_of(cast(Device, device), copies, {0: NBYTES}, ())
    issue.issue(1, ())
    assert {*signals.after} == {*late} and not node.are_none_under_way
    late[0].complete()
    late[1].complete(BROKEN)
    issue.issue(2, ())
    assert not signals.after
    for _, _, ticket in signals.issued:
        ticket.complete()
    assert node.are_none_under_way


def test_a_process_that_was_lost_before_ends_nothing_of_the_next_session(pair: _Pair) -> None:
    root, node = pair.exchanges
    node.lost(2, BROKEN)  # rank 0 has told so
    root.believe()
    node.mailboxes.clear()
    _, ours, _ = pair.made()
    node.lost(2, BROKEN)  # its socket has closed
    assert not root.mailboxes.is_in_doubt and not is_over(ours, 1)


def test_without_doubt_no_wait_is_ended(pair: _Pair) -> None:
    root, node = pair.both
    _, ours, _ = pair.made()
    root.end_waits()
    node.end_waits()
    node.abandon()  # nothing is under way
    assert not is_over(ours, 1) and not root.is_in_doubt


def test_who_gives_up_in_the_middle_ends_them(pair: _Pair) -> None:
    _, node = pair.both
    _, ours, _ = pair.made()
    node.began(3)
    node.abandon()
    assert is_over(ours, 3) and node.is_in_doubt


def test_who_uses_none_raises_no_doubt(pair: _Pair) -> None:
    root, node = pair.both
    node.give_up()
    assert not root.is_in_doubt


def test_a_lost_process_ends_them(pair: _Pair) -> None:
    _, ours, _ = pair.made()
    pair.exchanges[0].lost(1, BROKEN)
    assert is_over(ours, 1)


@pytest.mark.parametrize("is_broken", [False, True])
def test_the_next_session_takes_the_memory_again_unless_somebody_may_write_there(
    pair: _Pair, is_broken: bool
) -> None:
    root, node = pair.both
    place, _, _ = pair.made()
    node.began(1)
    if is_broken:
        node.give_up()
    pair.exchanges[0].believe()
    assert not root.is_in_doubt
    assert (fresh(root) == place) is not is_broken
