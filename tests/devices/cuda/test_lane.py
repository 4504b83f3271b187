"""The order of CUDA members' operations, with a driver made of Python objects (no GPU needed)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sdi.devices.cuda.channel import Channel, CudaTicket, Event
from sdi.devices.cuda.lane import CudaLane, late
from sdi.devices.issue import MEASURED
from sdi.devices.polling import Polling
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from tests.devices.conftest import PATIENCE_S, finish


class FakeEvent:
    def __init__(self) -> None:
        self.recorded = threading.Event()
        self.at = 0.0

    def record(self, stream: object) -> None:
        self.at = time.monotonic()
        self.recorded.set()

    def synchronize(self) -> None:
        assert self.recorded.is_set(), "waits for an event that was never recorded"

    def query(self) -> bool:
        return self.recorded.is_set()

    def time_till(self, other: Event) -> float:
        assert isinstance(other, FakeEvent)
        return (other.at - self.at) * 1e3


class FakeStream:
    handle = 0

    def __init__(self) -> None:
        self.waited: list[Event] = []

    def wait_for_event(self, event: Event) -> None:
        assert isinstance(event, FakeEvent) and event.recorded.is_set()
        self.waited.append(event)


class FakeDriver:
    def enter(self) -> None:
        pass

    def new_event(self, is_timed: bool) -> Event:
        return FakeEvent()


class Member:
    """A lane with a stream for kernels and one for copies; remembers what ran."""

    def __init__(self, number: int) -> None:
        self.lane = CudaLane(FakeDriver(), f"member {number}", Polling())
        self.kernels = Channel(self.lane, FakeStream(), f"sdi-gpu-{number}-done")
        self.copies = Channel(self.lane, FakeStream(), f"sdi-gpu-{number}-up-done")
        self.ran: list[str] = []

    def launch(self, name: str, *wait: Ticket) -> Ticket:
        return self.lane.issue(self.kernels, lambda: self.ran.append(name), wait, MEASURED)

    def copy(self, name: str, *wait: Ticket) -> Ticket:
        return self.lane.issue(self.copies, lambda: self.ran.append(name), wait, MEASURED, is_blocking=True)

    def fail(self, *wait: Ticket) -> Ticket:
        def start() -> None:
            raise ValueError("refused")

        return self.lane.issue(self.kernels, start, wait, MEASURED)

    def close(self) -> None:
        self.lane.close()


@pytest.fixture
def members() -> Iterator[list[Member]]:
    opened = [Member(0), Member(1)]
    yield opened
    for member in opened:
        member.close()


def test_an_operation_without_dependencies_starts_at_once(members: list[Member]) -> None:
    ticket = members[0].launch("a")
    assert members[0].ran == ["a"]
    finish(ticket)
    assert 0 < ticket.start_ns <= ticket.end_ns <= time.monotonic_ns()


def test_streams_of_two_members_wait_for_each_other_on_the_device(members: list[Member]) -> None:
    first = members[0].launch("a")
    native = first.native
    second = members[1].launch("b", first)
    assert members[1].ran == ["b"], "issued, not held until the first is done"
    if native is not None:
        assert isinstance(members[1].kernels.stream, FakeStream)
        assert len(members[1].kernels.stream.waited) <= 1
    finish(second)
    assert first.done


def test_what_waits_for_a_blocking_copy_starts_when_that_is_issued(members: list[Member]) -> None:
    gate = Ticket()
    copy = members[0].copy("copy", gate)
    launch = members[1].launch("launch", copy)
    last = members[0].launch("last", launch, copy)
    assert members[0].ran == [] and members[1].ran == []
    gate.complete()
    finish(last)
    assert members[0].ran == ["copy", "last"]
    assert members[1].ran == ["launch"]


def test_a_member_is_not_idle_while_its_thread_has_a_copy_to_make(members: list[Member]) -> None:
    own, begun, go_on = members[0], threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert go_on.wait(PATIENCE_S)

    first = own.lane.issue(own.copies, wait, (), MEASURED, is_blocking=True)
    second = own.copy("second")
    assert begun.wait(PATIENCE_S) and not own.copies.pending and not own.lane.is_idle()
    go_on.set()
    finish(first)
    finish(second)
    deadline = time.monotonic() + PATIENCE_S
    while not own.lane.is_idle():
        assert time.monotonic() < deadline


def test_a_member_is_not_idle_before_other_threads_have_given_what_was_held_back(
    members: list[Member],
) -> None:
    """A call of the driver's lets who asks go on, who would take the operation for done."""
    lane, copies = members[0].lane, members[0].copies
    early: list[int] = []
    with ThreadPoolExecutor(1) as host:
        for number in range(100):
            given: list[int] = []

            def start(number: int = number, given: list[int] = given) -> None:
                time.sleep(0)  # without the interpreter's lock
                given.append(number)

            before = Ticket()
            ticket = lane.issue(copies, start, [before], MEASURED)
            over = host.submit(before.complete, None, 1, 2)
            while not before.done or not lane.is_idle():
                lane.ask()
                lane.complete()
            early += [] if given else [number]
            over.result()
            finish(ticket)
    assert not early


def test_tickets_complete_in_the_order_of_their_dependencies(members: list[Member]) -> None:
    order: list[str] = []
    for _ in range(200):
        copy = members[0].copy("c")
        launch = members[0].launch("l", copy)
        copy.when_done(lambda _: order.append("copy"))
        launch.when_done(lambda _: order.append("launch"))
        finish(launch)
    assert order == ["copy", "launch"] * 200


def test_a_refused_operation_fails_what_depends_on_it(members: list[Member]) -> None:
    refused = members[0].fail()
    later = members[1].launch("never", refused)
    held = members[0].launch("held", Ticket(), refused)
    for ticket in (refused, later):
        with pytest.raises(DeviceFailed, match="refused"):
            finish(ticket)
    assert later.error is refused.error
    assert members[1].ran == []
    assert not held.done


def test_a_failed_ticket_of_another_kind_fails_what_waits_for_it(members: list[Member]) -> None:
    gate, failure = Ticket(), KeyError("elsewhere")
    chain = [members[0].launch("a", gate)]
    chain.append(members[1].copy("b", chain[-1]))
    chain.append(members[0].launch("c", completed(), chain[-1]))
    gate.complete(failure)
    for ticket in chain:
        with pytest.raises(KeyError):
            finish(ticket)
        assert ticket.error is failure
    assert members[0].ran == members[1].ran == []


def test_a_chain_of_any_length_is_released_without_recursion(members: list[Member]) -> None:
    gate = Ticket()
    ticket: Ticket = gate
    for number in range(10_000):
        ticket = members[number % 2].launch(str(number), ticket)
    gate.complete()
    finish(ticket)
    assert members[0].ran == [str(n) for n in range(0, 10_000, 2)]
    assert members[1].ran == [str(n) for n in range(1, 10_000, 2)]


def test_closing_fails_what_is_held_and_completes_the_rest() -> None:
    first, second = Member(0), Member(1)
    never = Ticket()
    held = [first.launch("held", never)]
    held.append(first.copy("held too", held[-1]))
    held.append(second.launch("of another member", held[-1]))
    running = [first.launch("running") for _ in range(100)]
    first.close()
    assert all(ticket.done and ticket.error is None for ticket in running)
    for ticket in held:
        with pytest.raises(DeviceFailed):
            finish(ticket)
    never.complete()
    with pytest.raises(DeviceFailed):
        finish(first.launch("late"))
    assert first.ran == ["running"] * 100
    second.close()


def test_many_threads_may_release_what_is_held(members: list[Member]) -> None:
    gates = [Ticket() for _ in range(200)]
    tickets = [
        members[n % 2].launch(str(n), gates[n], *([members[1 - n % 2].copy("c", gates[-1 - n])] if n else []))
        for n in range(200)
    ]
    threads = [
        threading.Thread(target=lambda part=part: [gate.complete() for gate in gates[part::4]])
        for part in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for ticket in tickets:
        finish(ticket)


def test_an_event_that_a_thread_waits_for_is_used_again_when_its_times_are_known_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting, asked, passed = threading.Event(), threading.Event(), threading.Event()

    class SlowEvent(FakeEvent):
        is_over = False

        def query(self) -> bool:
            return self.is_over

        def synchronize(self) -> None:
            waiting.set()
            assert asked.wait(PATIENCE_S)

        def time_till(self, other: Event) -> float:
            asked.set()  # the thread that waits gets on while this one works out the times
            assert passed.wait(PATIENCE_S)
            return super().time_till(other)

    class SlowDriver(FakeDriver):
        def new_event(self, is_timed: bool) -> Event:
            return SlowEvent()

    lane = CudaLane(SlowDriver(), "member", Polling())
    channel = Channel(lane, FakeStream(), "sdi-gpu-0-done")
    ticket = lane.issue(channel, lambda: None, (), MEASURED)
    assert isinstance(ticket, CudaTicket) and isinstance(ticket.end, SlowEvent)
    assert waiting.wait(PATIENCE_S)
    poll, end = channel.poll, ticket.end

    def poll_after() -> bool:
        passed.set()
        return poll()

    monkeypatch.setattr(channel, "poll", poll_after)
    end.is_over = True
    poll()
    finish(ticket)
    again = lane._timed
    assert channel._anchor is not None and channel._anchor[0] is end
    assert end not in again and len(set(again)) == len(again)
    lane.close()


def test_what_is_to_come_after_others_is_given_when_they_are_and_does_not_fail_with_them(
    members: list[Member],
) -> None:
    """A round of copies: what is behind it would keep back what others may have to do first."""
    one, two = members
    gate, other = Ticket(), Ticket()
    held = [two.launch("held", gate), one.copy("copy", gate)]
    assert {*late()} >= {*held}
    last = one.lane.issue(one.copies, lambda: one.ran.append("round"), [], MEASURED, after=[other, *late()])
    behind = one.launch("behind", last)
    assert not one.ran and not two.ran
    gate.complete(KeyError("elsewhere"))
    assert "round" not in one.ran
    other.complete(KeyError("elsewhere"))
    finish(behind)
    assert one.ran == ["round", "behind"] and not two.ran
    assert not {*late()} & {*held, last, behind}
    assert all(ticket.error for ticket in held)
