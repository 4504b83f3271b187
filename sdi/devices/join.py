"""Waiting for several tickets at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sdi.devices.ticket import Ticket


class _Join:
    """Waits for one of ``tickets`` at a time, the last first: members complete in order, so it is mostly the
    only one that has to be waited for.
    """

    __slots__ = ("left", "then", "tickets")

    def __init__(self, tickets: list[Ticket], then: Callable[[BaseException | None], None]) -> None:
        self.tickets = tickets
        self.then = then
        self.left = len(tickets)

    def look(self, _: Ticket) -> None:
        """Go on behind a ticket that is done."""
        tickets = self.tickets
        while self.left:
            last = tickets[self.left - 1]
            if not last.done:
                last.when_done(self.look)
                return
            self.left -= 1
        for ticket in tickets:
            if ticket.error is not None:
                self.then(ticket.error)
                return
        self.then(None)


def united(leave: Sequence[Ticket], arrive: Sequence[Ticket]) -> Sequence[Ticket]:
    """What both ends of a copy wait for, each ticket once."""
    if not leave or not arrive:
        return leave or arrive
    return list(dict.fromkeys((*leave, *arrive)))


def join(tickets: Iterable[Ticket], then: Callable[[BaseException | None], None]) -> None:
    """Call ``then(error or None)`` once all ``tickets`` are done; of several errors that of the first ticket.

    Called on the thread that completes the last one, or at once on this thread when none is pending.
    """
    pending = [ticket for ticket in tickets if not (ticket.done and ticket.error is None)]
    if pending:
        _Join(pending, then).look(pending[0])
    else:
        then(None)


def all_of(parts: Sequence[Ticket], whole: Ticket | None = None) -> Ticket:
    """A ticket that stands for all of some operations: ``whole``, which nobody else completes, if given.

    From the first one's start to the last one's end.
    """
    if whole is None:
        if len(parts) == 1:
            return parts[0]
        whole = Ticket()
    whole.is_typical = all(part.is_typical for part in parts)

    def finished(error: BaseException | None) -> None:
        starts = [part.start_ns for part in parts if part.start_ns]
        whole.complete(error, min(starts, default=0), max((part.end_ns for part in parts), default=0))

    join(parts, finished)
    return whole
