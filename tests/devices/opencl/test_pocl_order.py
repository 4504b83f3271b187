"""Launches that pocl must not run side by side wait for each other, and no others do."""

from __future__ import annotations

from sdi.devices.opencl.pocl_order import PoclOrder, grid_width
from sdi.devices.ticket import Ticket


def launch(order: PoclOrder, key: str, width: int) -> tuple[Ticket, list[Ticket]]:
    ticket, waits = Ticket(), order.before((key,), width)
    order.launched((key,), width, ticket)
    return ticket, waits


def test_a_launch_wider_than_all_before_runs_alone() -> None:
    order = PoclOrder()
    first, waits = launch(order, "k", 32)
    assert waits == []
    second, waits = launch(order, "k", 40)
    assert waits == [first]
    _, waits = launch(order, "k", 32)
    assert waits == [second]
    first.complete()
    second.complete()
    assert launch(order, "k", 40)[1] == []
    assert launch(order, "k", 8)[1] == []


def test_other_kernels_are_not_held_up() -> None:
    order = PoclOrder()
    launch(order, "k", 32)
    assert launch(order, "other", 64)[1] == []


def test_the_width_is_that_of_the_widest_dimension_in_work_items() -> None:
    assert grid_width((3, 10, 1), (16, 4, 2)) == 48
