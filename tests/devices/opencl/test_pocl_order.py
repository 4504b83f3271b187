"""Launches that pocl must not run side by side wait for each other, and no others do."""

from __future__ import annotations

from sdi.devices.opencl.pocl_order import PoclOrder, grid_width
from sdi.devices.ticket import Ticket


def launch(order: PoclOrder, key: str, width: int, owner: object = None) -> tuple[Ticket, list[Ticket]]:
    """Of a queue of its own, unless ``owner`` is given; what is in its way."""
    ticket = Ticket(owner if owner is not None else object())
    return ticket, order.enter((key,), width, ticket)


def test_a_launch_wider_than_all_before_runs_alone() -> None:
    order = PoclOrder()
    first, waits = launch(order, "k", 32)
    assert waits == []
    second, waits = launch(order, "k", 40)
    assert waits == [first]
    first.complete()
    assert order.enter(("k",), 40, second) == []
    _, waits = launch(order, "k", 32)
    assert waits == [second]
    second.complete()
    assert launch(order, "k", 40)[1] == []
    assert launch(order, "k", 8)[1] == []


def test_what_waits_for_others_is_in_nobodys_way() -> None:
    order = PoclOrder()
    first, _ = launch(order, "k", 32)
    assert launch(order, "k", 40)[1] == launch(order, "k", 40)[1] == [first]
    assert launch(order, "k", 32)[1] == [first]
    first.complete()
    assert launch(order, "k", 32)[1] == []


def test_a_queue_keeps_its_own_launches_in_order() -> None:
    order, queue = PoclOrder(), object()
    assert [launch(order, "k", width, queue)[1] for width in (8, 32, 16, 64)] == [[], [], [], []]


def test_other_kernels_are_not_held_up() -> None:
    order = PoclOrder()
    launch(order, "k", 32)
    assert launch(order, "other", 64)[1] == []


def test_the_width_is_that_of_the_widest_dimension_in_work_items() -> None:
    assert grid_width((3, 10, 1), (16, 4, 2)) == 48
