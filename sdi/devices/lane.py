"""A lane: gives a member's operations to its driver once they can't block, and completes their tickets.

An operation goes to the driver's in-order queue when every ticket of another owner that it waits for is
*done* and every ticket of its own member is *issued*: the queue orders the rest.  Until then it is held back
here, not in the driver.  Why not OpenCL user events: pocl 3.1 hangs when a command waits for one that has
failed, and a blocked command in an in-order queue blocks commands that do not depend on it.  [M] A hop
between two members costs the same within the noise (alternating runs on two busy cores: held 41-105 us,
through a user event 24-124 us).

No deadlock: the driver only ever has operations that can run, and a held operation waits only for tickets
that existed before it was issued, so that the waits form no cycle.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Final, Generic, Protocol, TypeVar

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


class _Failed:
    """Stands where the native handle would be, for an operation that never reaches the driver."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class LaneTicket(Ticket, Generic[N]):
    """Ticket of an operation of a lane; ``native`` is None while the operation is held back.

    ``followers``: held operations of the same lane that wait until this one is issued.
    """

    __slots__ = ("followers",)

    def __init__(self, owner: object) -> None:
        super().__init__(owner)
        self.followers: list[_Held[N]] | None = None


class _Held(Generic[N]):
    """An operation that is held back.  ``missing``: tickets that it still waits for here."""

    __slots__ = ("keep", "missing", "start", "ticket", "wait")

    def __init__(self, ticket: LaneTicket[N], start: Start[N], wait: Sequence[Ticket], keep: object) -> None:
        self.ticket = ticket
        self.start = start
        self.wait = wait
        self.keep = keep
        self.missing = 0


class _Issued(Generic[N]):
    """An operation that the driver has, or that failed before: what the ``-done`` thread needs of it.

    Keeps the native handle until it is complete: dropping that of a host copy would wait holding the GIL.
    """

    __slots__ = ("issued_ns", "keep", "native", "ticket", "wait")

    def __init__(
        self,
        ticket: LaneTicket[N],
        native: N | _Failed,
        wait: Sequence[Ticket],
        keep: object,
        issued_ns: int,
    ) -> None:
        self.ticket = ticket
        self.native = native
        self.wait = wait
        self.keep = keep
        self.issued_ns = issued_ns


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
        self._lock: Final = threading.Lock()
        self._idle: Final = threading.Condition(self._lock)
        self._held: Final[set[_Held[N]]] = set()
        self._starting = 0  # operations on their way from _held to _issued
        self._closed = False
        self._clock_offset_ns: int | None = None
        self._issued: Final[SimpleQueue[_Issued[N] | None]] = SimpleQueue()
        self._unfinished: Final[set[Ticket]] = set()
        self._waiter: Final = threading.Thread(target=self._run, name=thread_name, daemon=True)
        self._waiter.start()

    def issue(self, start: Start[N], wait: Sequence[Ticket], keep: object = None) -> Ticket:
        """Start when ``wait`` allows; never blocks.  ``keep`` is referenced until the ticket is done."""
        owner = self._owner
        ticket: LaneTicket[N] = LaneTicket(owner)
        if self._closed:
            ticket.complete(DeviceFailed(self._name, "is closed"))
            return ticket
        self._unfinished.add(ticket)
        blockers = [
            other for other in wait if not other.done and (other.owner is not owner or other.native is None)
        ]
        if blockers:
            self._hold(_Held(ticket, start, wait, keep), blockers)
        else:
            self._give(ticket, start, wait, keep)
        return ticket

    def is_idle(self) -> bool:
        """Whether all that was issued is done, or will be in a moment without the driver."""
        return not self._unfinished

    def close(self) -> None:
        """Fail what is still held back, wait for everything that the driver has, join the thread."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            abandoned = list(self._held)
            self._held.clear()
            self._idle.wait_for(lambda: not self._starting)
        for held in abandoned:
            failed = _Failed(DeviceFailed(self._name, "closed before the operation could start"))
            self._issued.put(_Issued(held.ticket, failed, (), held.keep, 0))
        self._issued.put(None)
        self._waiter.join()

    def _give(self, ticket: LaneTicket[N], start: Start[N], wait: Sequence[Ticket], keep: object) -> None:
        """Hand the operation to the driver, or mark it as failed if one of ``wait`` failed."""
        native: N | _Failed
        error = None
        for other in wait:
            error = _failure(other)
            if error is not None:
                break
        issued_ns = time.monotonic_ns()
        if error is not None:
            native = _Failed(error)
        else:
            try:
                native = start()
            except Exception as cause:
                failure = DeviceFailed(self._name, str(cause))
                failure.__cause__ = cause
                native = _Failed(failure)
        # In the queue before others can see that it is issued, so that a follower can't be queued before it.
        self._issued.put(_Issued(ticket, native, wait, keep, issued_ns))
        ticket.native = native
        if ticket.done:
            ticket.native = None

    def _hold(self, held: _Held[N], blockers: Sequence[Ticket]) -> None:
        held.missing = len(blockers) + 1
        with self._lock:
            self._held.add(held)
        for blocker in blockers:
            if isinstance(blocker, LaneTicket) and blocker.owner is self._owner:
                if not self._follows(held, blocker):
                    self._unblock(held)
            else:
                blocker.when_done(lambda _: self._unblock(held))
        self._unblock(held)

    def _follows(self, held: _Held[N], blocker: LaneTicket[N]) -> bool:
        """Whether ``held`` will be unblocked when ``blocker`` is issued; False where that has happened."""
        with self._lock:
            if blocker.native is not None or blocker.done:
                return False
            if blocker.followers is None:
                blocker.followers = []
            blocker.followers.append(held)
            return True

    def _unblock(self, held: _Held[N]) -> None:
        with self._lock:
            held.missing -= 1
            if held.missing or held not in self._held:
                return
            self._held.remove(held)
            self._starting += 1
        ready = deque([held])
        while ready:
            now = ready.popleft()
            self._give(now.ticket, now.start, now.wait, now.keep)
            with self._lock:
                self._starting -= 1
                followers, now.ticket.followers = now.ticket.followers, None
                for follower in followers or ():
                    follower.missing -= 1
                    if not follower.missing and follower in self._held:
                        self._held.remove(follower)
                        self._starting += 1
                        ready.append(follower)
                if not self._starting:
                    self._idle.notify_all()

    def _run(self) -> None:
        while (issued := self._issued.get()) is not None:
            try:
                self._complete(issued)
            except Exception:
                _log.exception("%s: a callback of a completed ticket failed", self._name)
            del issued

    def _complete(self, issued: _Issued[N]) -> None:
        native = issued.native
        start_ns = end_ns = 0
        error = None
        if isinstance(native, _Failed):
            error = native.error
        else:
            try:
                native.wait()
                start_ns, end_ns = self._host_times(native, issued.issued_ns)
            except Exception as cause:
                error = DeviceFailed(self._name, str(cause))
                error.__cause__ = cause
            for other in issued.wait:
                if other.error is not None:
                    error, start_ns, end_ns = other.error, 0, 0
                    break
        self._unfinished.discard(issued.ticket)
        issued.ticket.complete(error, start_ns, end_ns)

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
    return native.error if isinstance(native, _Failed) else ticket.error
