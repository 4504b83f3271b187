"""Tickets complete once and release what waits for them."""

from __future__ import annotations

import itertools
import threading

import pytest

from sdi.devices.ticket import Ticket, completed


def test_callbacks_run_at_completion_in_the_order_they_were_added() -> None:
    ticket, seen = Ticket(), []
    ticket.when_done(lambda _: seen.append(1))
    ticket.when_done(lambda _: seen.append(2))
    assert seen == []
    ticket.complete(None, 3, 4)
    assert seen == [1, 2]
    assert (ticket.done, ticket.error, ticket.start_ns, ticket.end_ns) == (True, None, 3, 4)


def test_a_callback_on_a_done_ticket_runs_now() -> None:
    seen: list[Ticket] = []
    ticket = completed()
    ticket.when_done(seen.append)
    assert seen == [ticket]


def test_a_ticket_forgets_its_native_handle_when_done() -> None:
    ticket = Ticket(native=object())
    ticket.complete()
    assert ticket.native is None


def test_completing_twice_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        completed().complete()


def test_a_chain_of_100000_tickets_is_released_without_recursion() -> None:
    chain = [Ticket() for _ in range(100_000)]
    for before, after in itertools.pairwise(chain):
        before.when_done(lambda ticket, after=after: after.complete(ticket.error))
    failure = ValueError("the first")
    chain[0].complete(failure)
    assert chain[-1].error is failure


def test_everything_is_released_when_the_outermost_completion_returns() -> None:
    first, second, seen = Ticket(), Ticket(), []
    first.when_done(lambda _: second.complete())
    first.when_done(lambda _: seen.append("first"))
    second.when_done(lambda _: seen.append("second"))
    first.complete()
    assert seen == ["first", "second"]


def test_a_callback_that_raises_does_not_keep_the_others_from_running() -> None:
    ticket, seen = Ticket(), []

    def fails(_: Ticket) -> None:
        raise ValueError("in a callback")

    ticket.when_done(fails)
    ticket.when_done(seen.append)
    with pytest.raises(ValueError, match="in a callback"):
        ticket.complete()
    assert seen == [ticket]
    other = Ticket()
    other.when_done(seen.append)
    other.complete()
    assert seen == [ticket, other]


def test_callbacks_that_are_added_while_another_thread_completes_run_once() -> None:
    tickets, seen = [Ticket() for _ in range(20_000)], list[int]()
    start = threading.Barrier(3)

    def add(which: int) -> None:
        start.wait()
        for k, ticket in enumerate(tickets):
            ticket.when_done(lambda _, k=k: seen.append(3 * k + which))  # type: ignore[misc]

    adding = [threading.Thread(target=add, args=(which,)) for which in (0, 1)]
    for thread in adding:
        thread.start()
    start.wait()
    for k, ticket in enumerate(tickets):
        ticket.when_done(lambda _, k=k: seen.append(3 * k + 2))  # type: ignore[misc]
        ticket.complete()
    for thread in adding:
        thread.join()
    assert sorted(seen) == list(range(3 * len(tickets)))
