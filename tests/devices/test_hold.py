"""Operations that may not go to their drivers yet."""

from __future__ import annotations

from collections.abc import Callable

from sdi.devices.hold import Failed, HeldTicket, Hold, release
from sdi.devices.ticket import Ticket


class Lane:
    """One that notes what its driver is given.  ``order``: see ``Hold``."""

    def __init__(self, order: object = None) -> None:
        self.given: list[str] = []
        self.failed: list[HeldTicket] = []
        self.hold = Hold("member 1", order, self._give)

    def _give(self, ticket: HeldTicket) -> bool:
        self.given.append(str(ticket.keep))
        ticket.native = object()
        return True

    def issue(self, name: str, *blockers: Ticket) -> HeldTicket:
        ticket = HeldTicket(self, self.hold, lambda: None, blockers, name)
        self.hold.add(ticket, blockers)
        return ticket


def is_empty(hold: Hold) -> bool:
    """Whether nothing is held back."""
    return not hold._held


def test_where_the_driver_keeps_order_what_is_issued_is_waited_for_no_more() -> None:
    order, gate = object(), Ticket()
    one, other = Lane(order), Lane(order)
    first = one.issue("first", gate)
    second = other.issue("second", first)
    one.issue("third", second)
    assert one.given == other.given == [] and not is_empty(one.hold)
    gate.complete()
    assert (one.given, other.given) == (["first", "third"], ["second"]) and is_empty(one.hold)


def test_where_another_driver_does_it_has_to_be_done() -> None:
    one, other = Lane(object()), Lane(object())
    first = one.issue("first")
    other.issue("second", first)
    assert (one.given, other.given) == (["first"], [])
    first.complete()
    assert other.given == ["second"]


class Looked(HeldTicket):
    """``look`` is called at the moment when it forgets its handle."""

    look: Callable[[], object] = staticmethod(lambda: None)

    def __setattr__(self, name: str, value: object) -> None:
        """See above."""
        super().__setattr__(name, value)
        if name == "native" and value is None:
            self.look()


def test_what_comes_while_an_operation_completes_is_not_held_back_for_ever() -> None:
    order = object()
    one, other = Lane(order), Lane(order)
    first = Looked(one, one.hold, lambda: None, (), "first")
    one.hold.add(first, ())
    first.look = lambda: other.issue("second", first)
    first.complete()
    assert (one.given, other.given) == (["first"], ["second"]) and is_empty(other.hold)


def test_a_long_row_of_operations_is_released_without_recursion() -> None:
    lane, gate = Lane(object()), Ticket()
    last: Ticket = gate
    for number in range(5000):
        last = lane.issue(str(number), last)
    gate.complete()
    assert lane.given == [str(number) for number in range(5000)]


def test_closing_fails_what_is_held_and_what_comes_behind_it_once() -> None:
    lane = Lane(object())
    held = lane.issue("held", Ticket())
    assert lane.hold.close(lane.failed.append) and not lane.hold.close(lane.failed.append)
    assert lane.failed == [held] and isinstance(held.native, Failed)
    assert str(held.native.error) == "member 1: closed before the operation could start"
    release(held)
    assert lane.given == []
