"""Lanes against drivers made of paper, whose operations complete when the test says so."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.devices.lane import Lane
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from tests.devices.conftest import finish


@dataclass
class PaperOperation:
    """Complete once ``complete`` is called."""

    start_ns: int = 0
    end_ns: int = 0
    failure: Exception | None = None
    _done: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        self._done.wait()
        if self.failure is not None:
            raise self.failure

    def complete(self) -> None:
        self._done.set()


def times(operation: PaperOperation) -> tuple[int, int]:
    return operation.start_ns, operation.end_ns


@dataclass(frozen=True)
class Step:
    """One operation: its lane (None: a ticket completed by hand), what it waits for, whether it fails."""

    lane: int | None
    wait: tuple[int, ...]
    fails: bool


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    steps: list[Step] = []
    for index in range(draw(st.integers(1, 14))):
        lane = draw(st.sampled_from([None, 0, 0, 1, 1, 2]))
        waits = st.lists(st.integers(0, index - 1), max_size=4) if index and lane is not None else st.just([])
        steps.append(Step(lane, tuple(draw(waits)), draw(st.integers(0, 7)) == 0))
    return steps


@settings(max_examples=300, deadline=None)
@given(programs(), st.integers(0, 2**32 - 1))
def test_operations_start_after_what_they_wait_for_and_fail_with_it(steps: list[Step], seed: int) -> None:
    chance = random.Random(seed)  # how often it is asked depends on the lanes' threads
    lanes = [Lane[PaperOperation](object(), f"member {k}", times, f"lane-{k}") for k in range(3)]
    tickets: list[Ticket] = []
    operations: dict[int, PaperOperation] = {}
    problems: list[str] = []
    over = threading.Event()

    def start(index: int) -> PaperOperation:
        for other in steps[index].wait:
            own = steps[other].lane == steps[index].lane
            if tickets[other].error is not None:
                problems.append(f"{index} is performed although {other} failed")
            if not tickets[other].done and not (own and other in operations):
                problems.append(f"{index} starts before {other}")
        operations[index] = PaperOperation(
            failure=ValueError(f"step {index}") if steps[index].fails else None
        )
        if over.is_set():
            operations[index].complete()
        return operations[index]

    try:
        # Gates by hand are opened in any order, also between the issues.
        gates: list[int] = []
        for index, step in enumerate(steps):
            if step.lane is None:
                tickets.append(Ticket())
                gates.append(index)
            else:
                waits = [tickets[other] for other in step.wait]
                tickets.append(lanes[step.lane].issue(lambda index=index: start(index), waits))
            if gates and chance.random() < 0.5:
                gate = gates.pop(chance.randrange(len(gates)))
                tickets[gate].complete(ValueError(f"step {gate}") if steps[gate].fails else None)
            for operation in list(operations.values()):
                if chance.random() < 0.5:
                    operation.complete()
        for gate in gates:
            tickets[gate].complete(ValueError(f"step {gate}") if steps[gate].fails else None)
        for index, ticket in enumerate(tickets):
            while not ticket.done:
                for operation in list(operations.values()):
                    operation.complete()
                done = threading.Event()
                ticket.when_done(lambda _, done=done: done.set())
                done.wait(0.001)
            expected = [
                tickets[other].error for other in steps[index].wait if tickets[other].error is not None
            ]
            if expected:
                assert ticket.error in expected, "the same error object"
            elif steps[index].fails:
                assert isinstance(ticket.error, DeviceFailed if steps[index].lane is not None else ValueError)
            else:
                assert ticket.error is None
                assert steps[index].lane is None or index in operations
    finally:
        over.set()
        for operation in list(operations.values()):
            operation.complete()
        for lane in lanes:
            lane.close()
    assert problems == []


@pytest.fixture
def lane() -> Iterator[Lane[PaperOperation]]:
    lane = Lane[PaperOperation]("owner", "member 0", times, "lane")
    yield lane
    lane.close()


def test_a_blocked_operation_does_not_delay_one_that_does_not_depend_on_it(
    lane: Lane[PaperOperation],
) -> None:
    blocked = lane.issue(PaperOperation, [Ticket()])
    operation = PaperOperation()
    free = lane.issue(lambda: operation, [])
    operation.complete()
    finish(free)
    assert not blocked.done


def test_10000_followers_of_a_held_operation_are_issued_iteratively_and_in_order(
    lane: Lane[PaperOperation],
) -> None:
    gate, order = Ticket(), []
    done = PaperOperation()
    done.complete()

    def start(number: int) -> PaperOperation:
        order.append(number)
        return done

    last = gate
    for number in range(10_000):
        last = lane.issue(lambda number=number: start(number), [last])
    assert order == []
    gate.complete()
    finish(last)
    assert order == list(range(10_000))


def test_what_the_driver_refuses_fails_with_the_cause(lane: Lane[PaperOperation]) -> None:
    refusal = ValueError("no")

    def refuse() -> PaperOperation:
        raise refusal

    first = lane.issue(refuse, [])
    second = lane.issue(PaperOperation, [first])
    with pytest.raises(DeviceFailed, match="member 0: no") as caught:
        finish(second)
    assert caught.value.__cause__ is refusal
    assert second.error is first.error


def test_an_operation_that_fails_on_the_device_fails_those_that_follow_it(lane: Lane[PaperOperation]) -> None:
    first, second = PaperOperation(failure=ValueError("lost")), PaperOperation()
    tickets = [lane.issue(lambda: first, [])]
    tickets.append(lane.issue(lambda: second, tickets))
    first.complete()
    second.complete()
    with pytest.raises(DeviceFailed, match="lost"):
        finish(tickets[1])
    assert tickets[0].error is tickets[1].error


def test_a_failed_ticket_is_not_done_before_the_other_tickets_it_waits_for(
    lane: Lane[PaperOperation],
) -> None:
    failed, pending = Ticket(), Ticket()
    failed.complete(ValueError("early"))
    ticket = lane.issue(PaperOperation, [failed, pending])
    assert not ticket.done
    pending.complete()
    with pytest.raises(ValueError, match="early"):
        finish(ticket)


def test_closing_fails_what_is_held_back_and_waits_for_what_the_driver_has() -> None:
    lane = Lane[PaperOperation]("owner", "member 0", times, "lane")
    operation = PaperOperation()
    running = lane.issue(lambda: operation, [])
    gate = Ticket()
    held = lane.issue(PaperOperation, [gate])
    follower = lane.issue(PaperOperation, [held])
    running.when_done(lambda _: order.append("running"))
    held.when_done(lambda _: order.append("held"))
    order: list[str] = []
    threading.Timer(0.01, operation.complete).start()
    lane.close()
    assert order == ["running", "held"]
    assert isinstance(held.error, DeviceFailed)
    assert isinstance(follower.error, DeviceFailed)
    gate.complete()  # nothing happens any more
    assert isinstance(lane.issue(PaperOperation, []).error, DeviceFailed)


@pytest.mark.logs("a callback of a completed ticket failed")
def test_a_callback_that_raises_does_not_end_the_done_thread(lane: Lane[PaperOperation]) -> None:
    operation = PaperOperation()
    first = lane.issue(lambda: operation, [])

    def fails(_: Ticket) -> None:
        raise ValueError("in a callback")

    first.when_done(fails)
    operation.complete()
    finish(lane.issue(lambda: operation, []))


def test_times_lie_between_issue_and_completion_whatever_the_driver_clock() -> None:
    clock = 5_000_000_000_000
    lane = Lane[PaperOperation]("owner", "member 0", times, "lane")
    for step_ns in (0, 10, 1_000_000_000, 20):  # the driver's clock jumps
        clock += step_ns
        operation = PaperOperation(start_ns=clock, end_ns=clock + 5)
        operation.complete()
        before = time.monotonic_ns()
        ticket = lane.issue(lambda operation=operation: operation, [])
        finish(ticket)
        assert before <= ticket.start_ns <= ticket.end_ns <= time.monotonic_ns()
    lane.close()


def test_what_is_in_the_way_is_asked_for_when_nothing_else_is_and_its_failure_stays_its_own(
    lane: Lane[PaperOperation],
) -> None:
    gate, obstacles = Ticket(), [[one := Ticket()], [other := Ticket()], []]
    operation = PaperOperation()
    operation.complete()
    asked: list[Ticket] = []

    def in_the_way(ticket: Ticket) -> list[Ticket]:
        asked.append(ticket)
        return obstacles.pop(0)

    ticket = lane.issue(lambda: operation, [gate], in_the_way=in_the_way)
    behind = lane.issue(lambda: operation, [ticket])
    assert asked == []
    gate.complete()
    assert asked == [ticket]
    one.complete(DeviceFailed("another", "failed"))
    assert asked == [ticket] * 2 and not ticket.done and not behind.done
    other.complete()
    finish(behind)
    assert asked == [ticket] * 3 and ticket.error is None


def test_closing_fails_what_something_is_in_the_way_of(lane: Lane[PaperOperation]) -> None:
    obstacle, gate = Ticket(), Ticket()
    ticket = lane.issue(PaperOperation, [gate], in_the_way=lambda _: [obstacle])
    gate.complete()
    lane.close()
    assert isinstance(ticket.error, DeviceFailed)
    obstacle.complete()
