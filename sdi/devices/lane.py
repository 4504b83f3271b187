"""A lane: gives a member's operations to its driver once they can't block, and completes their tickets.

An operation goes to the driver's in-order queue when every ticket of another owner that it waits for is
*done* and every ticket of its own member is *issued*: the queue orders the rest.  Until then ``hold.py`` has
it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Final, Generic, Protocol, TypeVar, cast

from sdi.devices.hold import Failed, HeldTicket, Hold
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed

_log = logging.getLogger(__name__)


class Native(Protocol):
    """A driver's handle of an operation in its queue."""

    def wait(self) -> object:
        """Block until the operation is complete, without the GIL.  Raises the driver's error."""


N = TypeVar("N", bound=Native)
Start = Callable[[], N]
"""Gives one operation to the driver; must not block.  Raises the driver's error."""
InTheWay = Callable[[Ticket], Sequence[Ticket]]
"""Of an operation that could start now: what has to be done first, or of the same owner issued."""


class LaneTicket(HeldTicket):
    """Ticket of an operation of a lane.

    ``handle``: what ``native`` will be, kept until it is complete: dropping that of a host copy would wait
    holding the GIL.  ``in_the_way``: what it has to wait for besides, found when it could start.
    """

    __slots__ = ("handle", "in_the_way")

    handle: object
    in_the_way: InTheWay | None


class Lane(Generic[N]):
    """Owned by: the issuing thread; threads that complete foreign tickets issue what these held back.

    ``times(native)`` gives start and end of a complete operation on the driver's clock, in ns; they are put
    on the host clock so that nothing starts before it was issued or ends after it was seen to be complete.
    """

    def __init__(
        self, owner: object, name: str, times: Callable[[N], tuple[int, int]], thread_name: str
    ) -> None:
        self._owner: Final = owner
        self._name: Final = name
        self._times: Final = times
        self._hold: Final = Hold(name, owner, self._give)
        self._clock_offset_ns: int | None = None
        self._issued: Final[SimpleQueue[LaneTicket | None]] = SimpleQueue()
        self._unfinished: Final[set[Ticket]] = set()
        self._waiter: Final = threading.Thread(target=self._run, name=thread_name, daemon=True)
        self._waiter.start()

    def issue(
        self,
        start: Start[N],
        wait: Sequence[Ticket],
        keep: object = None,
        in_the_way: InTheWay | None = None,
    ) -> Ticket:
        """Start when ``wait`` allows, and then ``in_the_way``; never blocks.

        What is in the way may fail, what is in ``wait`` may not.  ``keep`` is referenced until it is done.
        """
        owner = self._owner
        ticket = LaneTicket(owner, self._hold, start, wait, keep)
        ticket.in_the_way = in_the_way
        if self._hold.is_closed:
            ticket.complete(DeviceFailed(self._name, "is closed"))
            return ticket
        self._unfinished.add(ticket)
        blockers = [
            other for other in wait if not other.done and (other.owner is not owner or other.native is None)
        ]
        if blockers:
            self._hold.add(ticket, blockers)
        else:
            self._give(ticket)
        return ticket

    def is_idle(self) -> bool:
        """Whether all that was issued is done, or will be in a moment without the driver."""
        return not self._unfinished

    def close(self) -> None:
        """Fail what is still held back, wait for everything that the driver has, join the thread."""
        if self._hold.close(self._fail):
            self._issued.put(None)
            self._waiter.join()

    def _give(self, ticket: HeldTicket) -> bool:
        """Hand the operation to the driver, or mark it as failed if one of what it waits for failed.

        False where something else is in its way.
        """
        own, start = cast(LaneTicket, ticket), ticket.start
        assert start is not None
        error = None
        for other in own.wait:
            error = _failure(other)
            if error is not None:
                break
        if error is None and own.in_the_way is not None and (blockers := own.in_the_way(own)):
            self._hold.add(own, blockers)
            return False
        own.issued_ns = time.monotonic_ns()
        try:
            own.handle = start() if error is None else Failed(error)
        except Exception as cause:
            own.handle = Failed(self._failed(cause))
        own.start = None
        # In the queue before others can see that it is issued, so that a follower can't be queued before it.
        self._issued.put(own)
        own.native = own.handle
        if own.done:
            own.native = None
        return True

    def _fail(self, ticket: HeldTicket) -> None:
        own = cast(LaneTicket, ticket)
        own.handle = own.native
        self._issued.put(own)

    def _failed(self, cause: Exception) -> DeviceFailed:
        failure = DeviceFailed(self._name, str(cause))
        failure.__cause__ = cause
        return failure

    def _run(self) -> None:
        while (ticket := self._issued.get()) is not None:
            try:
                self._complete(ticket)
            except Exception:
                _log.exception("%s: a callback of a completed ticket failed", self._name)
            del ticket

    def _complete(self, ticket: LaneTicket) -> None:
        native = ticket.handle
        start_ns = end_ns = 0
        error: BaseException | None = None
        if isinstance(native, Failed):
            error = native.error
        else:
            try:
                cast(Native, native).wait()
                start_ns, end_ns = self._host_times(cast(N, native), ticket.issued_ns)
            except Exception as cause:
                error = self._failed(cause)
            for other in ticket.wait:
                if other.error is not None:
                    error, start_ns, end_ns = other.error, 0, 0
                    break
        self._unfinished.discard(ticket)
        ticket.wait, ticket.keep, ticket.handle = (), None, None
        ticket.complete(error, start_ns, end_ns)

    def _host_times(self, native: N, issued_ns: int) -> tuple[int, int]:
        now_ns = time.monotonic_ns()
        start, end = self._times(native)
        offset = self._clock_offset_ns
        if offset is None or end + offset > now_ns:
            offset = now_ns - end
        if start + offset < issued_ns:
            offset = issued_ns - start
        self._clock_offset_ns = offset
        return start + offset, end + offset


def _failure(ticket: Ticket) -> BaseException | None:
    native = ticket.native  # read before ``error``: completion sets ``error`` first, then forgets ``native``
    return native.error if isinstance(native, Failed) else ticket.error
