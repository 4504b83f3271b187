"""Accesses by replays are known in dependencies as if each had been recorded when it was issued."""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import given, settings

from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.intervals import ByteRange
from sdi.vmem.dependencies import Dependencies, Use
from sdi.vmem.replayed import Accesses, Replayed

NBYTES = 64
MEMORIES = 2
ranges = st.tuples(st.integers(0, 6), st.integers(1, 3)).map(
    lambda at: ByteRange(8 * at[0], min(8 * sum(at) - 1, NBYTES))
)
operations = st.lists(st.tuples(st.integers(0, MEMORIES - 1), st.booleans(), ranges), min_size=1, max_size=3)
steps = st.lists(
    st.tuples(st.sampled_from(["replay", "replay", "other", "end", "fail"]), st.integers(0, 60)), max_size=60
)


@dataclass(slots=True, eq=False)
class One:
    """A replay, whose operations have a ticket each.  Implements ``Replay``."""

    accesses: Accesses
    tickets: list[Ticket] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return all(ticket.done and ticket.error is None for ticket in self.tickets)

    def ticket(self, operation: int) -> Ticket:
        return self.tickets[operation]


class Both:
    """Dependencies that know of replays late, and others that are told at once.

    ``is_in_order``: everything is done in the order in which it was issued.
    """

    def __init__(self, recordings: list[list[tuple[int, bool, ByteRange]]], is_in_order: bool = True) -> None:
        self.is_in_order = is_in_order
        self.replayed = Replayed(7)
        self.late = [Dependencies(NBYTES, self.replayed, memory) for memory in range(MEMORIES)]
        self.plain = [Dependencies(NBYTES) for _ in range(MEMORIES)]
        self.recordings = []
        self.known: list[list[Use]] = []
        for recording in recordings:
            accesses: dict[object, list[tuple[Use, int]]] = {}
            for number, (memory, writes, over) in enumerate(recording):
                accesses.setdefault(self.late[memory], []).append(
                    (_use(self.late[memory], writes, over), number)
                )
            self.recordings.append(accesses)
            self.known.append([_use(self.plain[memory], writes, over) for memory, writes, over in recording])
        self.pending: list[Ticket] = []

    def replay(self, which: int) -> None:
        tickets = [Ticket() for _ in self.known[which]]
        for use, ticket in zip(self.known[which], tickets, strict=True):
            use.by(ticket)
        self.replayed.by(One(self.recordings[which], tickets))
        self.pending += tickets

    def other(self, memory: int, writes: bool, over: ByteRange) -> None:
        """Something else, which has to wait for the same on both."""
        late, plain = _use(self.late[memory], writes, over), _use(self.plain[memory], writes, over)
        self.compare(set(late.waits()), set(plain.waits()))
        ticket = Ticket()
        for use in (late, plain):
            use.by(ticket)
        self.pending.append(ticket)

    def compare(self, late: set[Ticket], plain: set[Ticket]) -> None:
        """What is done before anybody heard of it may not have waited for what it overtook: that stays."""
        assert late == plain if self.is_in_order else late >= plain

    def end(self, number: int, error: Exception | None) -> None:
        if self.pending:
            at = 0 if self.is_in_order else number % len(self.pending)
            self.pending.pop(at).complete(error)


def _use(dependencies: Dependencies, writes: bool, over: ByteRange) -> Use:
    return dependencies.use((), (over,)) if writes else dependencies.use((over,), ())


@settings(max_examples=200, deadline=None)
@given(
    recordings=st.lists(operations, min_size=1, max_size=3),
    given_steps=steps,
    others=operations,
    is_in_order=st.booleans(),
)
def test_waits_are_those_of_dependencies_that_are_told_at_once(
    recordings: list[list[tuple[int, bool, ByteRange]]],
    given_steps: list[tuple[str, int]],
    others: list[tuple[int, bool, ByteRange]],
    is_in_order: bool,
) -> None:
    both = Both(recordings, is_in_order)
    for what, number in given_steps:
        match what:
            case "replay":
                both.replay(number % len(recordings))
            case "other":
                both.other(*others[number % len(others)])
            case "end":
                both.end(number, None)
            case "fail":
                both.end(number, DeviceFailed("gpu", "it failed"))
    for late, plain in zip(both.late, both.plain, strict=True):
        both.compare(set(late.pending()), set(plain.pending()))
        assert late.is_idle() == (not late.pending())
        failed = [sum(over.total_nbytes for over in each.failed()) for each in (late, plain)]
        assert failed[0] == failed[1]


def test_many_replays_that_are_over_are_forgotten_but_the_last() -> None:
    both = Both([[(0, True, ByteRange(0, 8))], [(1, False, ByteRange(0, 8))]])
    for turn in range(1000):
        both.replay(turn % 2)
        both.end(0, None)
    assert len(list(both.replayed.since(0))) < 40
    both.other(0, False, ByteRange(0, 8))


def test_a_use_by_something_else_is_counted_with_its_memory() -> None:
    both = Both([[(0, True, ByteRange(0, 8))]])
    both.replay(0)
    assert both.replayed.changes == 0
    both.other(1, True, ByteRange(0, 8))
    both.other(0, False, ByteRange(0, 8))
    assert both.replayed.changed == {1: 1, 0: 2}


def test_what_is_known_of_a_recording_s_replays_is_forgotten_with_it() -> None:
    both = Both([[(0, True, ByteRange(0, 8))], [(1, False, ByteRange(0, 8))]])
    for which in (0, 1, 0):
        both.replay(which)
    both.late[0].catch_up()
    both.replayed.forget(both.recordings[0])
    assert [replay.accesses for replay in both.replayed.since(0)] == [both.recordings[1]]
    for memory in (0, 1):
        both.other(memory, True, ByteRange(0, 8))
