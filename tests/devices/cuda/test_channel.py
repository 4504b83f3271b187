"""How operations of CUDA members complete: by the issuing thread, in batches, or by threads that wait.

Streams and events run on native threads (``native_streams.c``), so that they behave as a driver's do.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from typing import cast

import pytest

from sdi.devices.cuda.channel import Channel, CudaTicket
from sdi.devices.cuda.lane import CudaLane
from sdi.devices.issue import MEASURED, SEEN, TOGETHER, Timing
from sdi.devices.polling import Polling
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from tests.devices.conftest import PATIENCE_S, finish
from tests.devices.cuda.native_streams import NativeDriver, NativeEvent, NativeGate, NativeStream, ran

MS = 1_000_000


class Issuer:
    """Who issues operations: a session would.  ``timing``: of the next ones."""

    def __init__(self) -> None:
        self.polling = Polling()
        self.timing = MEASURED

    def begin(self, timing: Timing) -> None:
        """It will look what is complete."""
        self.polling.is_busy, self.timing = True, timing


class Member:
    """A lane with a stream for kernels and one for copies."""

    def __init__(self, number: int, issuer: Issuer) -> None:
        self.driver = NativeDriver()
        self.issuer = issuer
        self.lane = CudaLane(self.driver, f"member {number}", issuer.polling)
        self.streams = [NativeStream(), NativeStream()]
        self.channels = [
            Channel(self.lane, stream, f"sdi-gpu-{number}-{k}-done") for k, stream in enumerate(self.streams)
        ]

    def run(self, tag: int, *wait: Ticket, ns: int = 0, on: int = 0, is_blocking: bool = False) -> Ticket:
        stream = self.streams[on]
        timing = self.issuer.timing
        return self.lane.issue(
            self.channels[on], lambda: stream.run(tag, ns), wait, timing, None, is_blocking
        )


@pytest.fixture
def members() -> Iterator[list[Member]]:
    ran()
    issuer = Issuer()
    opened = [Member(number, issuer) for number in range(3)]
    yield opened
    issuer.polling.idle()
    for member in opened:
        member.lane.close()
        member.lane.drop()


def begun(members: list[Member], timing: Timing) -> Issuer:
    """The issuer of these, which is busy now and wants such times."""
    issuer = members[0].issuer
    issuer.begin(timing)
    return issuer


def poll_until(ticket: Ticket) -> None:
    """As the issuing thread does while it is busy."""
    limit = time.monotonic() + PATIENCE_S
    while not ticket.done:
        assert time.monotonic() < limit, "a ticket is not done in time"
        cast(CudaLane, ticket.owner).polling.poll()
    if ticket.error is not None:
        raise ticket.error


def test_a_busy_issuer_completes_operations_itself_and_no_thread_starts(members: list[Member]) -> None:
    issuer = begun(members, SEEN)
    seen: list[int] = []
    tickets = [members[0].run(tag) for tag in range(500)]
    for tag, ticket in enumerate(tickets):
        ticket.when_done(lambda _, tag=tag: seen.append(tag))  # type: ignore[misc]
    poll_until(tickets[-1])
    assert seen == ran() == list(range(500))
    assert not issuer.polling.poll(), "nothing is left"
    assert not [t for t in threading.enumerate() if t.name.startswith("sdi-gpu")]


def test_whoever_looks_asks_of_the_last_operations_only(
    members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    issuer = begun(members, SEEN)
    tickets = [members[0].run(tag) for tag in range(50)]
    gate, stream, ended = NativeGate(), members[0].streams[0], list[int]()
    long = members[0].lane.issue(members[0].channels[0], lambda: stream.hold(gate), (), issuer.timing)
    limit = time.monotonic() + PATIENCE_S
    while len(ended) < 50:
        assert time.monotonic() < limit
        ended += ran()
    tickets[-1].when_done(lambda _: ended.append(-1))
    asked, query = [], NativeEvent.query

    def counted(event: NativeEvent) -> bool:
        asked.append(event)
        return query(event)

    monkeypatch.setattr(NativeEvent, "query", counted)
    try:
        while not tickets[-1].done:  # its event comes a moment after it ran
            del asked[:]
            assert issuer.polling.poll() and time.monotonic() < limit
        assert len(asked) == 2 and ended[-1] == -1
        assert all(ticket.done for ticket in tickets) and not long.done
    finally:
        gate.release()
    poll_until(long)


def test_events_are_used_again_and_those_without_times_have_none(members: list[Member]) -> None:
    begun(members, SEEN)
    for tag in range(2000):
        poll_until(members[0].run(tag))
    assert members[0].driver.made == 1 and not members[0].driver.timed


def test_brief_operations_in_a_row_have_one_event_together(members: list[Member]) -> None:
    issuer = begun(members, TOGETHER)
    seen: list[int] = []
    for first in range(0, 600, 20):
        tickets = [members[0].run(tag) for tag in range(first, first + 20)]
        for tag, ticket in enumerate(tickets, first):
            ticket.when_done(lambda _, tag=tag: seen.append(tag))  # type: ignore[misc]
        poll_until(tickets[-1])
    assert seen == ran() == list(range(600))
    assert members[0].driver.made == 1 and not issuer.polling.poll()


def test_brief_operations_complete_before_a_longer_one_behind_them_does(members: list[Member]) -> None:
    gate, stream = NativeGate(), members[0].streams[0]
    issuer = begun(members, TOGETHER)
    brief = [members[0].run(tag) for tag in range(3)]
    issuer.timing = SEEN
    long = members[0].lane.issue(members[0].channels[0], lambda: stream.hold(gate), (), issuer.timing)
    issuer.timing = TOGETHER
    behind = members[0].run(3)
    try:
        poll_until(brief[-1])
        assert brief[0].done and not long.done and not behind.done
    finally:
        gate.release()
    poll_until(behind)
    assert long.done and ran() == [0, 1, 2, 3]


def test_other_streams_wait_for_brief_operations_whoever_issued_what_lies_behind(
    members: list[Member],
) -> None:
    begun(members, TOGETHER)
    kernels = [members[0].run(tag, ns=10 * MS if tag == 1 else 0) for tag in range(4)]
    copy = members[1].run(9, kernels[2], on=1)
    blocking = members[2].run(10, kernels[1], is_blocking=True)
    assert members[0].driver.made == 1, "the copies wait for one event"
    poll_until(copy)
    poll_until(blocking)
    assert kernels[2].done and set(ran()[:3]) == {0, 1, 2}


def test_what_is_behind_gets_an_event_for_each_operation(members: list[Member]) -> None:
    gate, stream = NativeGate(), members[0].streams[0]
    issuer = begun(members, TOGETHER)
    members[0].lane.issue(members[0].channels[0], lambda: stream.hold(gate), (), issuer.timing)
    try:
        limit = time.monotonic() + PATIENCE_S
        while not members[0].channels[0].is_behind:
            assert issuer.polling.poll() and time.monotonic() < limit
        tickets = [members[0].run(tag) for tag in range(5)]
        assert members[0].driver.made == 6
    finally:
        gate.release()
    poll_until(tickets[-1])
    assert all(ticket.done for ticket in tickets)


def test_brief_operations_of_a_stream_that_fails_fail_together(members: list[Member]) -> None:
    begun(members, TOGETHER)
    good = [members[0].run(tag) for tag in range(3)]
    poll_until(good[-1])
    bad = [members[0].run(3)]
    members[0].streams[0].fail()
    bad += [members[0].run(tag) for tag in range(4, 7)]
    for ticket in bad:
        with pytest.raises(DeviceFailed, match="the stream failed"):
            poll_until(ticket)
    assert all(ticket.error is None for ticket in good)


def test_what_was_complete_before_a_fault_does_not_fail(members: list[Member]) -> None:
    issuer = begun(members, SEEN)
    good = [members[0].run(tag) for tag in range(3)]
    last, limit = good[-1], time.monotonic() + PATIENCE_S
    assert isinstance(last, CudaTicket) and last.end is not None
    while not last.end.query():  # nobody is told yet
        assert time.monotonic() < limit
    members[0].streams[0].fail()
    issuer.timing = TOGETHER
    bad = [members[0].run(tag) for tag in range(3, 6)]
    for ticket in bad:
        with pytest.raises(DeviceFailed, match="the stream failed"):
            poll_until(ticket)
    assert all(ticket.done and ticket.error is None for ticket in good)


def test_an_operation_that_is_refused_among_brief_ones_fails_alone(members: list[Member]) -> None:
    def refuse() -> None:
        raise ValueError("refused")

    issuer = begun(members, TOGETHER)
    for first in range(0, 90, 3):
        before = members[0].run(first)
        refused = members[0].lane.issue(members[0].channels[0], refuse, (), issuer.timing)
        behind = [members[0].run(first + 1), members[0].run(first + 2)]
        poll_until(behind[-1])
        assert before.error is None and isinstance(refused.error, DeviceFailed)
    assert ran() == list(range(90)) and not members[0].channels[0].marked


def test_operations_whose_times_are_wanted_know_them_among_others(members: list[Member]) -> None:
    issuer = begun(members, SEEN)
    before_ns = time.monotonic_ns()
    short = members[0].run(0, ns=5 * MS)
    issuer.timing = MEASURED
    long = members[0].run(1, ns=20 * MS)
    after = members[0].run(2, ns=5 * MS)
    issuer.timing = SEEN
    last = members[0].run(3)
    limit, ended = time.monotonic() + PATIENCE_S, list[int]()
    while (
        3 not in ended
    ):  # the issuer comes late: the driver's clock says how long they took, not the issuer's
        assert time.monotonic() < limit
        ended += ran()
    poll_until(last)
    assert before_ns <= short.start_ns <= short.end_ns <= last.end_ns
    assert long.end_ns - long.start_ns >= 20 * MS
    assert after.end_ns - after.start_ns >= 5 * MS
    begin_ns, middle_ns, end_ns = sorted(event.at_ns() for event in members[0].driver.timed)
    assert long.end_ns - long.start_ns == pytest.approx(middle_ns - begin_ns, abs=1000)
    assert after.end_ns - after.start_ns == pytest.approx(end_ns - middle_ns, abs=1000)
    assert long.end_ns <= after.start_ns and after.end_ns <= time.monotonic_ns()


def test_who_looks_late_places_operations_where_they_were_all_the_same(members: list[Member]) -> None:
    issuer = begun(members, MEASURED)
    poll_until(members[0].run(0, ns=MS))
    gate, stream = NativeGate(), members[0].streams[0]
    members[0].lane.issue(members[0].channels[0], lambda: stream.hold(gate), (), issuer.timing)
    assert issuer.polling.poll(), "it is seen to be running"
    gate.release()
    tickets = [members[0].run(tag, ns=20 * MS) for tag in (2, 3, 4)]
    issuer.timing = SEEN
    members[1].run(9, ns=250 * MS)
    limit, ended = time.monotonic() + PATIENCE_S, list[int]()
    while 9 not in ended:  # the issuer is held up
        assert time.monotonic() < limit
        ended += ran()
    poll_until(tickets[-1])
    at_ns = sorted(event.at_ns() for event in members[0].driver.timed)[-3:]
    assert [ticket.end_ns for ticket in tickets] == pytest.approx(at_ns, abs=60 * MS)
    assert tickets[0].end_ns <= tickets[1].start_ns <= tickets[1].end_ns <= tickets[2].start_ns


def test_when_the_issuer_rests_threads_complete_what_is_left(members: list[Member]) -> None:
    issuer = begun(members, SEEN)
    tickets = [member.run(0, ns=2 * MS, on=on) for member in members for on in (0, 1)]
    issuer.timing = TOGETHER
    tickets += [member.run(0, on=on) for member in members for on in (0, 1)]
    issuer.timing = SEEN
    issuer.polling.idle()
    for ticket in tickets:
        finish(ticket)


def test_a_long_operation_holds_back_none_of_another_stream_or_before_it(members: list[Member]) -> None:
    gate, stream = NativeGate(), members[0].streams[0]
    issuer = begun(members, SEEN)
    first = members[0].run(0)
    long = members[0].lane.issue(members[0].channels[0], lambda: stream.hold(gate), (), issuer.timing)
    other = members[0].run(2, on=1)
    elsewhere = members[1].run(3)
    issuer.polling.idle()
    try:
        for ticket in (first, other, elsewhere):
            finish(ticket)
        assert not long.done
    finally:
        gate.release()
    finish(long)


def test_a_stream_waits_once_for_what_another_did(members: list[Member]) -> None:
    begun(members, SEEN)
    kernel = members[0].run(0, ns=30 * MS)
    copies = [members[1].run(k, kernel, on=1) for k in (1, 2)]
    later = members[0].run(3, *copies)
    assert members[1].streams[1].waits == 1 and members[0].streams[0].waits == 1
    poll_until(later)
    assert ran() == [0, 1, 2, 3]


def test_a_ticket_completes_after_those_it_waited_for_on_other_members(members: list[Member]) -> None:
    begun(members, SEEN)
    order: list[int] = []
    for round_ in range(60):
        chain: list[Ticket] = []
        for number in range(6):
            ticket = members[(2 * number + round_) % 3].run(number, *chain[-2:], on=number % 2)
            ticket.when_done(lambda _, number=number: order.append(number))  # type: ignore[misc]
            chain.append(ticket)
        poll_until(chain[-1])
    assert order == list(range(6)) * 60


def test_a_stream_that_fails_fails_its_operations_and_those_that_waited(members: list[Member]) -> None:
    good = members[0].run(0)
    finish(good)
    issuer = begun(members, MEASURED)
    members[0].streams[0].fail()
    bad = [members[0].run(tag) for tag in range(3)]
    follower = members[1].run(9, bad[-1])
    issuer.polling.idle()
    for ticket in (*bad, follower):
        with pytest.raises(DeviceFailed, match="the stream failed"):
            finish(ticket)
    finish(members[1].run(10))


@pytest.mark.logs("a callback of a completed ticket failed")
def test_a_callback_that_raises_keeps_no_other_from_completing(
    members: list[Member], caplog: pytest.LogCaptureFixture
) -> None:
    def fault(_: Ticket) -> None:
        raise ValueError("a bug of the caller")

    begun(members, MEASURED)
    tickets = [members[0].run(tag) for tag in range(3)]
    tickets[0].when_done(fault)
    poll_until(tickets[-1])
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ValueError]


def test_closing_completes_what_a_busy_issuer_left(members: list[Member]) -> None:
    issuer = begun(members, MEASURED)
    tickets = [members[0].run(tag, ns=MS) for tag in range(5)]
    issuer.timing = TOGETHER
    tickets += [members[0].run(tag) for tag in range(5, 8)]
    members[0].lane.close()
    assert all(ticket.done and ticket.error is None for ticket in tickets)
    assert not [t for t in threading.enumerate() if t.name.startswith("sdi-gpu-0")]


def test_a_copy_by_the_thread_is_not_kept_waiting_by_what_others_issue(members: list[Member]) -> None:
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            finish(members[0].run(0, ns=MS))

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        for tag in range(1, 20):
            finish(members[0].run(tag, is_blocking=True))
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("seed", range(6))
def test_random_operations_run_after_what_they_wait_for(members: list[Member], seed: int) -> None:
    """Issued by a thread that is busy or rests, on all streams, some performed by their threads."""
    numbers, issuer = random.Random(seed), members[0].issuer
    tickets: list[Ticket] = []
    waits: list[list[int]] = []
    for tag in range(1500):
        chosen = numbers.sample(range(max(0, tag - 40), tag), min(tag, numbers.randrange(4)))
        issuer.timing = numbers.choice([MEASURED, SEEN, TOGETHER])
        ticket = numbers.choice(members).run(
            tag,
            *(tickets[k] for k in chosen),
            on=numbers.randrange(2),
            ns=numbers.choice([0, 0, 0, 20_000]),
            is_blocking=numbers.random() < 0.1,
        )
        tickets.append(ticket)
        waits.append(chosen)
        if numbers.random() < 0.1:
            issuer.polling.is_busy = True
            issuer.polling.poll()
        elif numbers.random() < 0.05:
            issuer.polling.idle()
    issuer.polling.idle()
    for ticket in tickets:
        finish(ticket)
    at = {tag: place for place, tag in enumerate(ran())}
    assert len(at) == len(tickets)
    for tag, chosen in enumerate(waits):
        assert all(at[k] < at[tag] for k in chosen), f"{tag} ran before what it waits for"
        assert tickets[tag].start_ns <= tickets[tag].end_ns
