"""The order of a CUDA member's operations: streams on the device, tickets on the host.

A member has one stream per kind of work.  An operation is given to its stream when everything it waits for
is *issued* on some CUDA member (its stream then waits for their events, also across GPUs) or is *done*;
until then it is held here, never in the driver.  Copies of pageable memory would block the issuing
thread: the stream's own thread performs them.  Each stream's thread also waits for its events in order and
completes the tickets.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Final, Protocol

from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed

_log = logging.getLogger(__name__)
_ANCHOR_MAX_NS = 1_000_000_000  # the driver tells intervals as floats in ms: 60 ns at one second


class Event(Protocol):
    """A driver's event with timing."""

    def record(self, stream: object) -> object: ...
    def synchronize(self) -> object: ...
    def query(self) -> bool: ...
    def time_till(self, other: Event) -> float: ...


class Stream(Protocol):
    """A driver's stream."""

    @property
    def handle(self) -> int: ...
    def wait_for_event(self, event: Event) -> object: ...


class Driver(Protocol):
    """What the lane needs of its member.  ``enter``: make the member's context current on this thread."""

    def enter(self) -> None: ...
    def new_event(self) -> Event: ...


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """``native`` of an issued ticket: the stream it is on, and the event that says that it is complete."""

    stream: Stream
    end: Event


@dataclass(frozen=True, slots=True)
class _Failed:
    """``native`` of a ticket that never reaches the driver, until its thread completes it."""

    error: BaseException


_OURS = (Mark, _Failed)  # another kind of member's handle means nothing here


class CudaTicket(Ticket):
    """``followers``: held operations that wait until this one is issued."""

    __slots__ = ("followers",)

    def __init__(self, owner: object) -> None:
        super().__init__(owner)
        self.followers: list[_Operation] | None = None


@dataclass(slots=True, eq=False)
class _Operation:
    """One operation on its way to its stream.  ``missing``: tickets it still waits for here."""

    ticket: CudaTicket
    channel: Channel
    start: Callable[[], object]
    wait: Sequence[Ticket]
    keep: object
    is_blocking: bool
    missing: int = 0


@dataclass(slots=True, eq=False)
class _Issued:
    ticket: CudaTicket
    begin: Event | None
    end: Event | None
    error: BaseException | None
    wait: Sequence[Ticket]
    keep: object
    issued_ns: int


_order = threading.Lock()
"""Guards who follows whom, over all CUDA members: an operation may follow one of another member."""


class Channel:
    """One stream with its thread.  Owned by: its lane."""

    def __init__(self, lane: CudaLane, stream: Stream, thread_name: str) -> None:
        self.stream: Final = stream
        self._queue: Final[SimpleQueue[_Issued | _Operation | None]] = SimpleQueue()
        self._lane: Final = lane
        self._anchor: tuple[Event, int] | None = None
        self._name: Final = thread_name
        self._thread: threading.Thread | None = None

    def put(self, item: _Issued | _Operation) -> None:
        """To be performed, or waited for, by the channel's thread, which starts with the first."""
        self._queue.put(item)
        if self._thread is None:
            with _order:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                    self._thread.start()

    def close(self) -> None:
        """Complete everything that was queued, then join the thread."""
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()
        self._anchor = None

    def _run(self) -> None:
        self._lane.driver.enter()
        while (item := self._queue.get()) is not None:
            try:
                if isinstance(item, _Operation):
                    operation, item = item, self._lane.perform_held(item)
                    release_followers(operation.ticket)
                    del operation
                self._complete(item)
            except Exception:
                _log.exception("%s: a callback of a completed ticket failed", self._lane.name)
            del item

    def _complete(self, issued: _Issued) -> None:
        start_ns = end_ns = 0
        error = issued.error
        begin, end = issued.begin, issued.end
        if begin is not None and end is not None:
            try:
                # A query keeps the GIL: to give it up and get it back costs more than the driver's answer.
                if not end.query():
                    end.synchronize()
                start_ns, end_ns = self._host_times(begin, end, issued.issued_ns)
            except Exception as cause:
                error = DeviceFailed(self._lane.name, str(cause))
                error.__cause__ = cause
            for other in issued.wait:
                if other.error is not None:
                    error, start_ns, end_ns = other.error, 0, 0
                    break
        issued.keep = None
        late = [other for other in issued.wait if not other.done] if error is None else []
        if not late:
            issued.ticket.complete(error, start_ns, end_ns)
            return

        # Complete on the device, but another stream's thread has yet to say so: keep the order.
        def complete(failure: BaseException | None) -> None:
            times = (start_ns, end_ns) if failure is None else (0, 0)
            issued.ticket.complete(failure, *times)

        join(late, complete)

    def _host_times(self, begin: Event, end: Event, issued_ns: int) -> tuple[int, int]:
        """Start and end on the host clock: relative to the stream's last known end, within what was seen."""
        now_ns = time.monotonic_ns()
        duration_ns = int(begin.time_till(end) * 1e6)
        end_ns = now_ns
        events = self._lane.events
        if self._anchor is not None:
            anchor, anchor_ns = self._anchor
            if now_ns - anchor_ns < _ANCHOR_MAX_NS:
                end_ns = min(now_ns, anchor_ns + int(anchor.time_till(end) * 1e6))
            events.append(anchor)
        start_ns = max(end_ns - duration_ns, issued_ns)
        end_ns = min(max(end_ns, start_ns + duration_ns), now_ns)
        self._anchor = (end, end_ns)
        events.append(begin)
        return min(start_ns, end_ns), end_ns


class CudaLane:
    """Owned by: the issuing thread; threads that complete foreign tickets issue what these held back."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.driver: Final = driver
        self.name: Final = name
        self.events: Final[deque[Event]] = deque()
        self._held: Final[set[_Operation]] = set()
        self._idle: Final = threading.Condition(_order)
        self._starting = 0
        self.is_closed = False

    def issue(
        self,
        channel: Channel,
        start: Callable[[], object],
        wait: Sequence[Ticket],
        keep: object = None,
        is_blocking: bool = False,
    ) -> Ticket:
        """Start when ``wait`` allows; never blocks.  ``keep`` is referenced until the ticket is done."""
        ticket = CudaTicket(self)
        if self.is_closed:
            ticket.complete(DeviceFailed(self.name, "is closed"))
            return ticket
        wait = tuple(wait)  # the caller may add the new ticket to its list
        blockers = [other for other in wait if not other.done and not isinstance(other.native, _OURS)]
        if blockers:
            self._hold(_Operation(ticket, channel, start, wait, keep, is_blocking), blockers)
        elif is_blocking:
            channel.put(_Operation(ticket, channel, start, wait, keep, is_blocking))
        else:
            channel.put(self.perform(ticket, channel, start, wait, keep))
        return ticket

    def close(self, channels: Sequence[Channel]) -> None:
        """Fail what is still held back, wait for everything that the driver has, join the threads."""
        with _order:
            if self.is_closed:
                return
            self.is_closed = True
            abandoned = list(self._held)
            self._held.clear()
            self._idle.wait_for(lambda: not self._starting)
        for operation in abandoned:
            error = DeviceFailed(self.name, "closed before the operation could start")
            operation.ticket.native = _Failed(error)
            operation.channel.put(_Issued(operation.ticket, None, None, error, (), operation.keep, 0))
            release_followers(operation.ticket)
        for channel in channels:
            channel.close()

    def perform(
        self,
        ticket: CudaTicket,
        channel: Channel,
        start: Callable[[], object],
        wait: Sequence[Ticket],
        keep: object,
    ) -> _Issued:
        """Give an operation to its stream, or mark it as failed if something it waits for failed."""
        error: BaseException | None = None
        begin: Event | None = None
        end: Event | None = None
        stream = channel.stream
        marks: list[Mark] = []
        for other in wait:
            native = other.native  # before ``error``: completion sets that first, then forgets ``native``
            if isinstance(native, Mark):
                if native.stream is not stream:
                    marks.append(native)
            elif isinstance(native, _Failed):
                error = error or native.error
            error = error or other.error
        issued_ns = time.monotonic_ns()
        if error is None:
            try:
                self.driver.enter()
                begin, end = self._event(), self._event()
                for mark in marks:
                    stream.wait_for_event(mark.end)
                begin.record(stream)
                start()
                end.record(stream)
            except Exception as cause:
                error = DeviceFailed(self.name, str(cause))
                error.__cause__ = cause
                self.events.extend(event for event in (begin, end) if event is not None)
                begin = end = None
        if error is None and end is not None:
            ticket.native = Mark(stream, end)
        else:
            assert error is not None
            ticket.native = _Failed(error)
        return _Issued(ticket, begin, end, error, wait, keep, issued_ns)

    def perform_held(self, operation: _Operation) -> _Issued:
        """``perform`` for an operation that was held, or whose thread performs it."""
        own = operation
        return self.perform(own.ticket, own.channel, own.start, own.wait, own.keep)

    def _event(self) -> Event:
        try:
            return self.events.pop()
        except IndexError:
            return self.driver.new_event()

    def _hold(self, operation: _Operation, blockers: Sequence[Ticket]) -> None:
        operation.missing = len(blockers) + 1
        with _order:
            self._held.add(operation)
        for blocker in blockers:
            if isinstance(blocker, CudaTicket):
                with _order:
                    if blocker.native is None and not blocker.done:
                        if blocker.followers is None:
                            blocker.followers = []
                        blocker.followers.append(operation)
                        continue
                _unblock(operation)
            else:
                blocker.when_done(lambda _: _unblock(operation))
        _unblock(operation)

    def take(self, operation: _Operation) -> bool:
        """Whether the operation may start now; the caller holds ``_order``."""
        operation.missing -= 1
        if operation.missing or operation not in self._held:
            return False
        self._held.remove(operation)
        self._starting += 1
        return True

    def started(self) -> None:
        """An operation that ``take`` let start was given to its stream; the caller holds ``_order``."""
        self._starting -= 1
        if not self._starting:
            self._idle.notify_all()


def _lane(operation: _Operation) -> CudaLane:
    owner = operation.ticket.owner
    assert isinstance(owner, CudaLane)
    return owner


def release_followers(ticket: CudaTicket) -> None:
    """Start what was held back until ``ticket`` was issued."""
    with _order:
        followers, ticket.followers = ticket.followers, None
        ready = [each for each in followers or () if _lane(each).take(each)]
    _start_all(deque(ready))


def _unblock(operation: _Operation) -> None:
    with _order:
        if not _lane(operation).take(operation):
            return
    _start_all(deque([operation]))


def _start_all(ready: deque[_Operation]) -> None:
    """Start operations and what followed them, without recursion."""
    while ready:
        operation = ready.popleft()
        lane, channel = _lane(operation), operation.channel
        if operation.is_blocking:
            channel.put(operation)
            with _order:
                lane.started()
            continue
        channel.put(lane.perform_held(operation))
        with _order:
            lane.started()
            followers, operation.ticket.followers = operation.ticket.followers, None
            ready.extend(each for each in followers or () if _lane(each).take(each))
