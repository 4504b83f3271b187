"""Launches that pocl must not run side by side wait for each other, and no others do."""

from __future__ import annotations

from random import Random

import pytest

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
    third, waits = launch(order, "k", 32)
    assert waits == [second], "or there might always be another one before it"
    first.complete()
    assert order.enter(("k",), 40, second) == []
    assert order.enter(("k",), 32, third) == [second]
    second.complete()
    assert order.enter(("k",), 32, third) == []
    assert launch(order, "k", 40)[1] == []
    assert launch(order, "k", 8)[1] == []


def test_of_several_that_are_wider_each_runs_alone() -> None:
    order, queue = PoclOrder(), object()
    first, _ = launch(order, "k", 8)
    second, waits = launch(order, "k", 16, queue)
    assert waits == [first]
    third, waits = launch(order, "k", 32)
    assert waits == [second, first]
    behind, waits = launch(order, "k", 8, queue)
    assert waits == [third]
    first.complete()
    assert order.enter(("k",), 16, second) == []
    second.complete()
    assert order.enter(("k",), 32, third) == []
    third.complete()
    assert order.enter(("k",), 8, behind) == []


def test_a_wider_launch_that_fails_before_it_runs_leaves_nothing_behind() -> None:
    order = PoclOrder()
    first, _ = launch(order, "k", 10)
    wider, waits = launch(order, "k", 20)
    assert waits == [first]
    wider.complete(ValueError("its member was closed"))
    between, waits = launch(order, "k", 15)
    assert waits == [first], "pocl has nothing so wide"
    first.complete()
    assert order.enter(("k",), 15, between) == []
    widest, waits = launch(order, "k", 40)
    assert waits == [between]
    widest.complete(ValueError("lost"))
    assert launch(order, "k", 12)[1] == [between]


def test_of_a_queue_whose_wider_launch_waits_the_next_ones_wait_too() -> None:
    order, queue = PoclOrder(), object()
    other, _ = launch(order, "k", 8)
    wider, waits = launch(order, "k", 64, queue)
    assert waits == [other]
    behind, waits = launch(order, "k", 32, queue)
    assert waits == [wider], "it would run beside the other one"
    other.complete()
    assert order.enter(("k",), 64, wider) == [] == order.enter(("k",), 32, behind)


def test_it_is_known_how_wide_launches_of_a_kernel_were() -> None:
    order = PoclOrder()
    assert not order.has_had(("k",), 8)
    ticket, _ = launch(order, "k", 8)
    assert order.has_had(("k",), 8) and not order.has_had(("k",), 9) and not order.has_had(("other",), 8)
    wider, waits = launch(order, "k", 9)
    assert waits == [ticket]
    assert not order.has_had(("k",), 9), "it waits"
    ticket.complete()
    assert order.enter(("k",), 9, wider) == [] and order.has_had(("k",), 9)


def test_what_is_done_is_forgotten() -> None:
    order = PoclOrder()
    for _ in range(1000):
        done = Ticket()
        done.complete()
        order.launched(("k",), done)
    assert len(order._by_key[("k",)].running) < 100


def test_a_queue_keeps_its_own_launches_in_order() -> None:
    order, queue = PoclOrder(), object()
    assert [launch(order, "k", width, queue)[1] for width in (8, 32, 16, 64)] == [[], [], [], []]


def test_other_kernels_are_not_held_up() -> None:
    order = PoclOrder()
    launch(order, "k", 32)
    assert launch(order, "other", 64)[1] == []


def test_the_width_is_that_of_the_widest_dimension_in_work_items() -> None:
    assert grid_width((3, 10, 1), (16, 4, 2)) == 48


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_launched_none_runs_beside_one_that_is_wider_than_all_before_it(seed: int) -> None:
    """Of three queues, which end in any order; some fail before they get there."""
    random, order, key = Random(seed), PoclOrder(), ("k",)
    held: dict[Ticket, tuple[int, list[Ticket]]] = {}  # width, what is in its way
    running: list[Ticket] = []
    widest, alone, num_given = 0, Ticket(), 0

    def in_the_way(ticket: Ticket, other: Ticket) -> bool:
        return not (other.done or (other.owner == ticket.owner and other in running))

    for step in range(800):
        if step < 600 and len(held) + len(running) < 12:
            held[Ticket(random.randrange(3))] = random.choice((4, 8, 16, 24, random.randrange(1, 400))), []
        first = [each for n, each in enumerate(running) if all(b.owner != each.owner for b in running[:n])]
        if first and random.randrange(2):
            running.remove(done := random.choice(first))
            done.complete()
        if held and random.randrange(20) == 0:
            held.pop(failed := random.choice(list(held)))
            failed.complete(ValueError("closed"))
        for ticket in random.sample(list(held), len(held)):
            width, before = held[ticket]
            if any(in_the_way(ticket, other) for other in before):
                continue
            if waits := order.enter(key, width, ticket):
                held[ticket] = width, waits
                continue
            del held[ticket]
            others = [other for other in running if other.owner != ticket.owner]
            assert not (width > widest and others), "a wider one runs alone"
            assert alone.done or alone.owner == ticket.owner or not widest
            if width > widest:
                widest, alone = width, ticket
            running.append(ticket)
            num_given += 1
    assert not held and not running and num_given > 100, "each gets there"
