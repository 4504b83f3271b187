"""Tickets: what an issued action returns and later actions wait for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Ticket:
    """Completion of one issued action.  Starts pending; becomes done exactly once.

    Any thread may read ``done`` and ``error`` or call ``when_done``; only the issuer completes it.
    ``error`` is None or the exception that made the action (or one it waited for) fail.
    ``start_ns``, ``end_ns``: host clock (``time.monotonic_ns``), 0 where nothing ran.
    ``owner``: the member that issued it (compared by identity; lets a member order work among its own
    tickets on the device), ``native``: that member's handle, None for tickets completed by hand.
    ``is_typical``: False where it takes longer than the next like it will, as copies of memory that is not
    page-locked yet do.
    """

    __slots__ = (
        "_callbacks",
        "done",
        "end_ns",
        "error",
        "is_typical",
        "native",
        "owner",
        "start_ns",
    )

    def __init__(self, owner: object = None, native: object = None) -> None:
        self.owner = owner
        self.native = native
        self.done = False
        self.error: BaseException | None = None
        self.start_ns = 0
        self.end_ns = 0
        self.is_typical = True
        self._callbacks: list[Callable[[Ticket], None]] | None = None

    def complete(self, error: BaseException | None = None, start_ns: int = 0, end_ns: int = 0) -> None:
        """Mark as done and run the callbacks on this thread.  They must be short and never block.

        Completing a ticket in a callback is legal: its callbacks run after those of the tickets completed
        before it, without recursion, so a chain of any length is released in constant stack.  All have run
        when the outermost ``complete`` returns; it raises the first exception that a callback raised.
        """
        assert not self.done, "a ticket completes once"
        self.error = error
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.done = True
        self.native = (
            None  # not before: one that is neither done nor issued is held back, and will be released
        )
        # Most tickets have no callbacks: then this takes no lock.  One that is added meanwhile sees ``done``.
        if self._callbacks is not None and (callbacks := self._take()):
            pending = _running.get(threading.get_ident())
            if pending is None:
                _run(callbacks, self)
            else:
                for callback in callbacks:
                    pending.append((callback, self))

    def when_done(self, callback: Callable[[Ticket], None]) -> None:
        """Call ``callback(self)`` once: at completion on the completing thread, or now if done."""
        if self.done or not self._is_added(callback):
            callback(self)

    def _take(self) -> list[Callable[[Ticket], None]] | None:
        """The callbacks, to be called; one that is added just now is not among them."""
        with _changing:
            callbacks, self._callbacks = self._callbacks, None
        return callbacks

    def _is_added(self, callback: Callable[[Ticket], None]) -> bool:
        """Whether it will be called at completion; False where the ticket was done meanwhile."""
        with _changing:
            callbacks = self._callbacks if self._callbacks is not None else []
            callbacks.append(callback)
            self._callbacks = callbacks
            if not self.done:  # who completes it looks for callbacks after it said that it is done
                return True
            callbacks.pop()
            if not callbacks:
                self._callbacks = None
            return False


_changing = threading.Lock()
"""Guards the callbacks of all tickets: held for a moment, and few tickets have any."""
_running: dict[int, deque[tuple[Callable[[Ticket], None], Ticket]]] = {}
"""By thread, the callbacks that ``Ticket.complete`` still has to run there."""


def _run(callbacks: list[Callable[[Ticket], None]], done: Ticket) -> None:
    """Run ``callbacks`` and all that they add, even if some raise; then raise the first such exception."""
    thread, pending = threading.get_ident(), deque([(callback, done) for callback in callbacks])
    _running[thread] = pending
    failure: Exception | None = None
    try:
        while pending:
            callback, ticket = pending.popleft()
            try:
                callback(ticket)
            except Exception as error:
                failure = failure or error
    finally:
        del _running[thread]
    if failure is not None:
        raise failure


def completed(error: BaseException | None = None) -> Ticket:
    """A ticket that is done from the start."""
    ticket = Ticket()
    ticket.complete(error)
    return ticket
