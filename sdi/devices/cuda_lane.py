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
from typing import Final, Protocol, cast

from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed

_log = logging.getLogger(__name__)
_ANCHOR_MAX_NS = 1_000_000_000  # the driver tells intervals as floats in ms: 60 ns at one second
_ANCHOR_OFF_NS = 50_000_000  # completions seen later than this say that the clocks drifted apart
_GATHER_NS = 100_000


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


@dataclass(frozen=True, slots=True)
class _Failed:
    """``native`` of a ticket that never reaches the driver, until its thread completes it."""

    error: BaseException


class CudaTicket(Ticket):
    """An operation of a CUDA member: the ticket, and what its lane keeps of it until it is done.

    ``native`` is its ``end``, the event that says that it is complete, once it is issued.  ``begin`` is None
    where it begins when the operation before it on its stream ends.  ``number``: its place on its stream.
    ``followers``: held operations that wait until this one is issued; ``missing``: what it still waits for
    itself while it is held.
    """

    __slots__ = (
        "begin",
        "channel",
        "followers",
        "is_blocking",
        "issued_ns",
        "keep",
        "missing",
        "number",
        "start",
        "wait",
    )

    def __init__(
        self,
        owner: object,
        channel: Channel,
        start: Callable[[], object],
        wait: tuple[Ticket, ...],
        keep: object,
        is_blocking: bool,
    ) -> None:
        super().__init__(owner)
        self.channel = channel
        self.start: Callable[[], object] | None = start
        self.wait = wait
        self.keep = keep
        self.is_blocking = is_blocking
        self.begin: Event | None = None
        self.number = 0
        self.issued_ns = 0
        self.missing = 0
        self.followers: list[CudaTicket] | None = None


_order = threading.Lock()
"""Guards who follows whom, over all CUDA members: an operation may follow one of another member."""


class Channel:
    """One stream with its thread.  Owned by: its lane.

    ``issued``: number of the last operation given to the stream; ``complete_to``: of the last complete one.
    """

    def __init__(self, lane: CudaLane, stream: Stream, thread_name: str) -> None:
        self.stream: Final = stream
        self.recording: Final = threading.Lock()
        self.issued = 0
        self.complete_to = 0
        self._queue: Final[SimpleQueue[CudaTicket | None]] = SimpleQueue()
        self._lane: Final = lane
        self._anchor: tuple[Event, int] | None = None
        self._waited_ns = 0
        self._name: Final = thread_name
        self._thread: threading.Thread | None = None

    def put(self, ticket: CudaTicket) -> None:
        """To be performed, or waited for, by the channel's thread, which starts with the first."""
        self._queue.put(ticket)
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
        get = self._queue.get
        while (ticket := get()) is not None:
            try:
                if ticket.native is None:
                    self._lane.perform(ticket)
                    release_followers(ticket)
                self._complete(ticket)
            except Exception:
                _log.exception("%s: a callback of a completed ticket failed", self._lane.name)
            del ticket

    def _complete(self, ticket: CudaTicket) -> None:
        start_ns = end_ns = 0
        error: BaseException | None = None
        native = ticket.native
        if isinstance(native, _Failed):
            error = native.error
        else:
            end = cast(Event, native)
            try:
                # A query keeps the GIL: to give it up and get it back costs more than the driver's answer.
                if not end.query():
                    self._wait(end)
                start_ns, end_ns = self._host_times(ticket, end)
            except Exception as cause:
                error = DeviceFailed(self._lane.name, str(cause))
                error.__cause__ = cause.with_traceback(None)  # whose frames keep events and streams
        self.complete_to = max(self.complete_to, ticket.number)
        wait, ticket.wait = ticket.wait, ()
        ticket.keep = ticket.start = None
        late: list[Ticket] = []
        for other in wait:
            if other.error is not None:
                error, start_ns, end_ns = other.error, 0, 0
                break
            if not other.done:
                late.append(other)
        if not late or error is not None:
            ticket.complete(error, start_ns, end_ns)
            return

        # Complete on the device, but another stream's thread has yet to say so: keep the order.
        def complete(failure: BaseException | None) -> None:
            times = (start_ns, end_ns) if failure is None else (0, 0)
            ticket.complete(failure, *times)

        join(late, complete)

    def _wait(self, end: Event) -> None:
        """Until ``end``; where more is under way and completions come fast, several of them gather first.

        A thread that is woken for each takes the GIL from the one that issues, each time.
        """
        now_ns = time.monotonic_ns()
        if now_ns - self._waited_ns < _GATHER_NS and not self._queue.empty():
            time.sleep(_GATHER_NS / 1e9)
        end.synchronize()
        self._waited_ns = time.monotonic_ns()

    def _host_times(self, ticket: CudaTicket, end: Event) -> tuple[int, int]:
        """Start and end on the host clock: relative to the stream's last known end, within what was seen."""
        now_ns = time.monotonic_ns()
        begin, events = ticket.begin, self._lane.events
        start_ns = end_ns = 0
        if self._anchor is not None:
            anchor, anchor_ns = self._anchor
            since_ns = int(anchor.time_till(end) * 1e6)
            start_ns = anchor_ns
            if since_ns < _ANCHOR_MAX_NS and anchor_ns + since_ns > now_ns - _ANCHOR_OFF_NS:
                end_ns = min(now_ns, anchor_ns + since_ns)
            events.append(anchor)
        end_ns = end_ns or now_ns
        if begin is not None:
            start_ns = end_ns - int(begin.time_till(end) * 1e6)
            events.append(begin)
            ticket.begin = None
        start_ns = max(start_ns, ticket.issued_ns)
        self._anchor = (end, end_ns)
        return min(start_ns, end_ns), end_ns


class CudaLane:
    """Owned by: the issuing thread; threads that complete foreign tickets issue what these held back."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.driver: Final = driver
        self.name: Final = name
        self.events: Final[deque[Event]] = deque()
        self._held: Final[set[CudaTicket]] = set()
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
        # A copy of what still matters: the caller may add the new ticket to its list.
        waits = tuple([other for other in wait if not other.done or other.error is not None])
        ticket = CudaTicket(self, channel, start, waits, keep, is_blocking)
        if self.is_closed:
            ticket.complete(DeviceFailed(self.name, "is closed"))
            return ticket
        blockers = [other for other in waits if not other.done and not _is_issued(other)]
        if blockers:
            self._hold(ticket, blockers)
        else:
            if not is_blocking:
                self.perform(ticket)
            channel.put(ticket)
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
        for ticket in abandoned:
            ticket.native = _Failed(DeviceFailed(self.name, "closed before the operation could start"))
            ticket.wait = ()
            ticket.channel.put(ticket)
            release_followers(ticket)
        for channel in channels:
            channel.close()

    def perform(self, ticket: CudaTicket) -> None:
        """Give an operation to its stream, or mark it as failed if something it waits for failed."""
        channel = ticket.channel
        stream = channel.stream
        error: BaseException | None = None
        last: dict[Channel, CudaTicket] = {}  # of each other stream: what comes before is complete with it
        for other in ticket.wait:
            native = other.native  # before ``error``: completion sets that first, then forgets ``native``
            if isinstance(native, _Failed):
                error = error or native.error
            elif native is not None and type(other) is CudaTicket and other.channel is not channel:
                known = last.get(other.channel)
                if known is None or known.number < other.number:
                    last[other.channel] = other
            error = error or other.error
        ticket.issued_ns = time.monotonic_ns()
        if error is None:
            begin: Event | None = None
            end: Event | None = None
            try:
                self.driver.enter()
                end = self._event()
                for other in last.values():
                    native = other.native
                    if native is None or isinstance(native, _Failed):
                        continue
                    if ticket.is_blocking:
                        # The driver may read pageable memory at once, whatever the stream waits for.
                        cast(Event, native).synchronize()
                    else:
                        stream.wait_for_event(cast(Event, native))
                # With work before it on its stream, and on no other, an operation begins when that ends.
                if last or channel.complete_to == channel.issued:
                    begin = self._event()
                    begin.record(stream)
                start = ticket.start
                assert start is not None
                start()
                with channel.recording:  # numbers are in the order of the events
                    end.record(stream)
                    channel.issued = ticket.number = channel.issued + 1
            except Exception as cause:
                error = DeviceFailed(self.name, str(cause))
                error.__cause__ = cause.with_traceback(None)  # whose frames keep events and streams
                self.events.extend(event for event in (begin, end) if event is not None)
            else:
                ticket.begin = begin
        ticket.native = end if error is None else _Failed(error)

    def _event(self) -> Event:
        try:
            return self.events.pop()
        except IndexError:
            return self.driver.new_event()

    def _hold(self, ticket: CudaTicket, blockers: Sequence[Ticket]) -> None:
        ticket.missing = len(blockers) + 1
        with _order:
            self._held.add(ticket)
        for blocker in blockers:
            if isinstance(blocker, CudaTicket):
                with _order:
                    if blocker.native is None and not blocker.done:
                        if blocker.followers is None:
                            blocker.followers = []
                        blocker.followers.append(ticket)
                        continue
                _unblock(ticket)
            else:
                blocker.when_done(lambda _: _unblock(ticket))
        _unblock(ticket)

    def take(self, ticket: CudaTicket) -> bool:
        """Whether the operation may start now; the caller holds ``_order``."""
        ticket.missing -= 1
        if ticket.missing or ticket not in self._held:
            return False
        self._held.remove(ticket)
        self._starting += 1
        return True

    def started(self) -> None:
        """An operation that ``take`` let start was given to its stream; the caller holds ``_order``."""
        self._starting -= 1
        if not self._starting:
            self._idle.notify_all()


def _is_issued(ticket: Ticket) -> bool:
    """Whether a stream can wait for it; another kind of member's handle means nothing here."""
    return type(ticket) is CudaTicket and ticket.native is not None


def _lane(ticket: CudaTicket) -> CudaLane:
    owner = ticket.owner
    assert isinstance(owner, CudaLane)
    return owner


def release_followers(ticket: CudaTicket) -> None:
    """Start what was held back until ``ticket`` was issued."""
    with _order:
        followers, ticket.followers = ticket.followers, None
        ready = [each for each in followers or () if _lane(each).take(each)]
    _start_all(deque(ready))


def _unblock(ticket: CudaTicket) -> None:
    with _order:
        if not _lane(ticket).take(ticket):
            return
    _start_all(deque([ticket]))


def _start_all(ready: deque[CudaTicket]) -> None:
    """Start operations and what followed them, without recursion."""
    while ready:
        ticket = ready.popleft()
        lane, channel = _lane(ticket), ticket.channel
        if ticket.is_blocking:
            channel.put(ticket)
            with _order:
                lane.started()
            continue
        lane.perform(ticket)
        channel.put(ticket)
        with _order:
            lane.started()
            followers, ticket.followers = ticket.followers, None
            ready.extend(each for each in followers or () if _lane(each).take(each))
