"""Waiting for several tickets at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from sdi.devices.ticket import Ticket


def join(tickets: Iterable[Ticket], then: Callable[[BaseException | None], None]) -> None:
    """Call ``then(first error or None)`` once all ``tickets`` are done.

    Called on the thread that completes the last one, or at once on this thread when none is pending.
    """
    pending = [ticket for ticket in tickets if not (ticket.done and ticket.error is None)]
    if not pending:
        then(None)
        return
    if len(pending) == 1:
        pending[0].when_done(lambda ticket: then(ticket.error))
        return
    remaining = len(pending)
    lock = threading.Lock()
    first_error: list[BaseException] = []

    def one_done(ticket: Ticket) -> None:
        nonlocal remaining
        with lock:
            if ticket.error is not None:
                first_error.append(ticket.error)
            remaining -= 1
            last = remaining == 0
        if last:
            then(first_error[0] if first_error else None)

    for ticket in pending:
        ticket.when_done(one_done)
