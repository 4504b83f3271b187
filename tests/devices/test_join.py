"""Waiting for several tickets at once."""

from __future__ import annotations

import itertools

import pytest

from sdi.devices.join import join, united
from sdi.devices.ticket import Ticket, completed


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_it_ends_with_the_last_ticket_and_the_first_error(order: tuple[int, ...]) -> None:
    tickets, heard = [Ticket() for _ in range(3)], []
    join(tickets, heard.append)
    errors = [None, ValueError("second"), ValueError("third")]
    for number in order:
        assert not heard
        tickets[number].complete(errors[number])
    assert heard == [errors[1]]


def test_what_is_done_already_is_told_at_once() -> None:
    heard: list[BaseException | None] = []
    join([], heard.append)
    join([completed()], heard.append)
    failure = ValueError("before")
    join([completed(), completed(failure)], heard.append)
    assert heard == [None, None, failure]


def test_both_ends_of_a_copy_wait_for_each_ticket_once() -> None:
    one, two, three = (Ticket() for _ in range(3))
    assert united([one, two], [two, three]) == [one, two, three]
    assert united([], [one]) == united([one], []) == [one] and not united([], [])
