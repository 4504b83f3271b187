"""The order of a CUDA member's operations: streams on the device, tickets on the host.

A member has one stream per kind of work.  An operation is given to its stream when everything it waits for
is *issued* on some CUDA member (its stream then waits for their events, also across GPUs) or is *done*;
until then it is held here, never in the driver.  Copies of pageable memory would block the issuing
thread: the stream's own thread performs them.

Behind each operation lies an event.  What is complete is found out by whoever has time: the issuing thread
between two commands, or, when it rests, a thread per stream that waits in the driver (``pace``).  One answer
completes all operations of the stream up to that event.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Final, Protocol

from sdi.devices.join import join
from sdi.devices.pace import PACE
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed

_log = logging.getLogger(__name__)
_ANCHOR_MAX_NS = 1_000_000_000  # the driver tells intervals as floats in ms: 60 ns at one second
_ANCHOR_OFF_NS = 50_000_000  # who seems to have ended so long before it had says that clocks drifted
_GATHER_NS = 100_000


class Event(Protocol):
    """A driver's event."""

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
    def new_event(self, is_timed: bool) -> Event: ...


class _Failed:
    """``native`` of a ticket that never reaches the driver, until it is completed."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class CudaTicket(Ticket):
    """An operation of a CUDA member: the ticket, and what its lane keeps of it until it is done.

    ``native``: its channel once it is issued.  ``number``: its place on its stream.  ``end``: the event
    behind it; ``begin``: the one before it, None where it begins when the operation before it ends, or where
    nobody asks for its times (``is_timed``).  ``is_awaited``: a thread waits for ``end`` in the driver;
    ``is_released``: nothing else needs that event any more.  ``followers``: held operations that wait until
    this one is issued; ``missing``: what it still waits for itself while it is held.
    """

    __slots__ = (
        "begin",
        "channel",
        "end",
        "followers",
        "is_awaited",
        "is_blocking",
        "is_released",
        "is_timed",
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
        wait: Sequence[Ticket],
        keep: object,
        is_blocking: bool,
        is_timed: bool,
    ) -> None:
        super().__init__(owner)
        self.channel = channel
        self.start: Callable[[], object] | None = start
        self.wait = wait
        self.keep = keep
        self.is_blocking = is_blocking
        self.is_timed = is_timed
        self.is_awaited = self.is_released = False
        self.begin: Event | None = None
        self.end: Event | None = None
        self.number = 0
        self.issued_ns = 0
        self.missing = 0
        self.followers: list[CudaTicket] | None = None


_order = threading.Lock()
"""Guards who follows whom, over all CUDA members: an operation may follow one of another member."""


class Channel:
    """One stream, with a thread for what can't be done without blocking.  Owned by: its lane.

    ``issued``: number of the last operation given to the stream; ``reached``: of the last that is known to be
    complete.  ``pending``: what was issued and has not been completed, in the order of the stream.  ``seen``:
    by other channel, the number of the last operation there that this stream waits for.
    ``was_timed``: the last operation has an event with time behind it.
    """

    def __init__(self, lane: CudaLane, stream: Stream, thread_name: str) -> None:
        self.stream: Final = stream
        self.recording: Final = threading.Lock()
        self.issued = 0
        self.reached = 0
        self.pending: Final[deque[CudaTicket]] = deque()
        self.seen: Final[dict[Channel, int]] = {}
        self.was_timed = False
        self._orders: Final[SimpleQueue[CudaTicket | bool]] = SimpleQueue()
        self._turn: Final = threading.Lock()
        self._lane: Final = lane
        self._anchor: tuple[Event, int, CudaTicket] | None = None
        self._last_ns = 0
        self._running_ns = 0  # when the oldest operation was last seen not to be complete
        self._waited_ns = 0
        self._is_watched = False
        self._name: Final = thread_name
        self._waiter: threading.Thread | None = None
        lane.channels.append(self)

    def put(self, ticket: CudaTicket) -> None:
        """To be performed by the channel's thread."""
        self._order(ticket)

    def look_after(self) -> None:
        """Something was issued: have the thread wait for it, unless the issuing thread will ask."""
        if not (PACE.is_busy or self._is_watched):
            self.watch()

    def watch(self) -> None:
        """Have the thread complete what is pending."""
        if self.pending and not self._is_watched:
            self._is_watched = True
            self._order(True)

    def close(self) -> None:
        """Complete everything that was issued or put, then join the thread."""
        if self._waiter is not None or self.pending:
            self._order(False)
            assert self._waiter is not None
            self._waiter.join()
        self._anchor = None

    def poll(self) -> bool:
        """Complete what is done; whether anything is left.  Keeps the GIL: to get it back costs more."""
        pending = self.pending
        try:
            # Mostly all is done, or all but the last, or nothing: asking of each costs more than the rest.
            running = self._skip_to(pending[-1])
            if running is not None and len(pending) > 1:
                running = self._skip_to(pending[-2]) or running
            while pending:
                first = pending[0]
                if first.number <= self.reached:
                    break
                if first is running or not _is_over(first):
                    self._running_ns = time.monotonic_ns()
                    break
                self._drain(first.number)
        except IndexError:  # another thread completed the last
            return False
        return bool(pending)

    def _skip_to(self, ticket: CudaTicket) -> CudaTicket | None:
        """Complete all up to ``ticket`` if it is complete; it itself where it is seen to be under way."""
        end = ticket.end
        if end is None:
            return None
        try:
            is_over = end.query()
        except Exception:
            return None  # a fault says nothing of what came before
        if not is_over:
            return ticket
        self._drain(ticket.number)
        return None

    def _order(self, order: CudaTicket | bool) -> None:
        """What the thread does next: perform an operation, wait for what is pending (True), or end."""
        self._orders.put(order)
        if self._waiter is None:
            with _order:
                if self._waiter is None:
                    self._waiter = threading.Thread(target=self._run, name=self._name, daemon=True)
                    self._waiter.start()

    def _run(self) -> None:
        self._lane.driver.enter()
        while True:
            order = self._orders.get()
            if isinstance(order, CudaTicket):
                self._lane.perform(order)
                release_followers(order)
            elif not order:
                break
            self._wait()
        while self.pending:
            self._wait_for_first()

    def _wait(self) -> None:
        """Complete what is pending, as long as the issuing thread does not and nothing is to be performed.

        Where completions come fast, several of them gather first.
        """
        pending = self.pending
        self._is_watched = True
        while self._orders.empty():
            if not pending or PACE.is_busy:
                self._is_watched = False
                # What was issued since may have counted on this thread.
                if not pending or PACE.is_busy:
                    return
                self._is_watched = True
            if len(pending) > 1 and time.monotonic_ns() - self._waited_ns < _GATHER_NS:
                time.sleep(_GATHER_NS / 1e9)
            self._wait_for_first()
            self._waited_ns = time.monotonic_ns()
        self._is_watched = False

    def _wait_for_first(self) -> None:
        """Wait in the driver for the oldest operation, then complete all that is done."""
        with self.recording:  # or it might be completed meanwhile, and its event used again
            if not self.pending:
                return
            first = self.pending[0]
            end = first.end
            first.is_awaited = end is not None
        if end is not None:
            try:
                end.synchronize()
            except Exception as cause:
                _log.debug("%s: %s", self._lane.name, cause)  # it is asked again
            with self.recording:
                first.is_awaited = False
                if first.is_released:
                    self._lane.reuse(end, first.is_timed)
        self.poll()

    def _drain(self, reached: int) -> None:
        """The stream has come so far: complete what that makes done, in order; one thread at a time."""
        if self.reached < reached:
            self.reached = reached
        while self._is_due(reached) and self._turn.acquire(False):
            try:
                while self._is_due(reached):
                    self._complete(reached)
            finally:
                self._turn.release()

    def _is_due(self, reached: int) -> bool:
        try:
            return self.pending[0].number <= reached
        except IndexError:
            return False

    def _catch_up(self, ticket: CudaTicket) -> None:
        """Complete what is done up to ``ticket``, and nothing that may wait for what comes after it."""
        while self._is_due(ticket.number):
            try:
                first = self.pending[0]
            except IndexError:
                return
            if first.number > self.reached and not _is_over(first):
                return
            self._drain(first.number)
            if not first.done:  # another thread has the turn
                return

    def _complete(self, reached: int) -> None:
        """Complete the oldest operation, and those without times behind it up to ``reached``.

        The caller has the turn, and the oldest is due.
        """
        pending, reuse = self.pending, self._lane.untimed
        ended: list[CudaTicket] = []
        with self.recording:
            while pending and pending[0].number <= reached and not pending[0].is_timed:
                ticket = pending.popleft()
                end, ticket.end = ticket.end, None
                ended.append(ticket)
                if end is None:
                    pass
                elif ticket.is_awaited:
                    ticket.is_released = True  # the thread that waits gives it back
                else:
                    reuse.append(end)
        now_ns = time.monotonic_ns()
        for ticket in ended:
            start_ns = max(self._last_ns, ticket.issued_ns)
            self._last_ns = now_ns
            self._completed(ticket, start_ns if start_ns < now_ns else now_ns, now_ns)
        if not ended:
            self._complete_timed()

    def _complete_timed(self) -> None:
        """Likewise, the oldest operation, which has times."""
        with self.recording:
            ticket = self.pending.popleft()
            end, ticket.end = ticket.end, None
        start_ns = end_ns = 0
        if not isinstance(ticket.native, _Failed):
            try:
                start_ns, end_ns = self._host_times(ticket, end)
            except Exception as cause:
                ticket.native = _Failed(_failure(self._lane, cause))
        if end is not None and isinstance(ticket.native, _Failed):
            self._give_back(ticket, end)
        self._completed(ticket, start_ns, end_ns)

    def _completed(self, ticket: CudaTicket, start_ns: int, end_ns: int) -> None:
        """``ticket`` is complete, or has failed; whoever waits for it hears of it."""
        native = ticket.native
        error = native.error if isinstance(native, _Failed) else None
        if error is not None:
            start_ns = end_ns = 0
        wait, ticket.wait = ticket.wait, ()
        ticket.keep = ticket.start = None
        late: list[Ticket] | None = None
        for other in wait:
            if other.done and other.error is None:
                continue
            if not other.done and type(other) is CudaTicket and isinstance(other.native, Channel):
                other.channel._catch_up(other)  # it was complete before this one began
            if other.error is not None:
                error, start_ns, end_ns = other.error, 0, 0
                break
            if not other.done:
                late = late or []
                late.append(other)
        try:
            if late is None or error is not None:
                ticket.complete(error, start_ns, end_ns)
            else:
                _complete_after(late, ticket, start_ns, end_ns)
        except Exception:
            _log.exception("%s: a callback of a completed ticket failed", self._lane.name)

    def _before_last_ns(self, end: Event) -> int:
        """How long before the last operation that is known to be complete ``end`` was."""
        with self.recording:
            done = [t.end for t in self.pending if t.number <= self.reached and t.is_timed]
        last = done[-1] if done else None
        return int(end.time_till(last) * 1e6) if last is not None else 0

    def _give_back(self, ticket: CudaTicket, end: Event) -> None:
        """Nothing needs the event behind a completed operation any more, but perhaps a thread that waits."""
        with self.recording:
            if ticket.is_awaited:
                ticket.is_released = True  # that thread gives it back
            else:
                self._lane.reuse(end, ticket.is_timed)

    def _host_times(self, ticket: CudaTicket, end: Event | None) -> tuple[int, int]:
        """Start and end on the host clock: relative to the stream's last known end, within what was seen.

        Of an operation with times; of others they are when that was seen.
        """
        now_ns = time.monotonic_ns()
        start_ns, end_ns = self._last_ns, now_ns
        if end is not None:
            begin, anchor = ticket.begin, self._anchor
            took_ns, is_placed = 0, False
            if anchor is not None:
                last, last_ns, of = anchor
                took_ns = int(last.time_till(end) * 1e6)
                # Whoever looks may come late; what was still running then can't have ended before.
                running_ns = self._running_ns if now_ns - self._running_ns < _ANCHOR_MAX_NS else now_ns
                is_placed = took_ns < _ANCHOR_MAX_NS and last_ns + took_ns > running_ns - _ANCHOR_OFF_NS
                if is_placed:
                    end_ns = min(now_ns, last_ns + took_ns)
            if not is_placed:
                end_ns -= self._before_last_ns(end)
            if begin is not None:
                ticket.begin = None
                took_ns = int(begin.time_till(end) * 1e6)
                self._lane.reuse(begin, is_timed=True)
            start_ns = end_ns - took_ns
            self._anchor = (end, end_ns, ticket)
            if anchor is not None:
                self._give_back(of, last)
        self._last_ns = end_ns
        if start_ns < ticket.issued_ns:
            start_ns = ticket.issued_ns
        return (start_ns if start_ns < end_ns else end_ns), end_ns


def _complete_after(late: list[Ticket], ticket: CudaTicket, start_ns: int, end_ns: int) -> None:
    """``ticket`` is complete on the device; ``late``, for which it waited, are not known to be."""

    def complete(failure: BaseException | None) -> None:
        times = (start_ns, end_ns) if failure is None else (0, 0)
        ticket.complete(failure, *times)

    join(late, complete)


def _is_over(ticket: CudaTicket) -> bool:
    """Whether an issued operation is complete, or will never be: then its ``native`` says why."""
    end = ticket.end
    if end is None:
        return True
    try:
        return end.query()
    except Exception as cause:
        lane = _lane(ticket)
        ticket.native = _Failed(_failure(lane, cause))
        return True


def _failure(lane: CudaLane, cause: Exception) -> DeviceFailed:
    failure = DeviceFailed(lane.name, str(cause))
    failure.__cause__ = cause.with_traceback(None)  # whose frames keep events and streams
    return failure


class CudaLane:
    """Owned by: the issuing thread; threads that complete foreign tickets issue what these held back."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.driver: Final = driver
        self.name: Final = name
        self.channels: Final[list[Channel]] = []
        self._timed: Final[list[Event]] = []
        self.untimed: Final[list[Event]] = []
        self._held: Final[set[CudaTicket]] = set()
        self._idle: Final = threading.Condition(_order)
        self._starting = 0
        self.is_closed = False
        PACE.add(self)

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
        waits: list[Ticket] = []
        may_start = True
        for other in wait:
            if not other.done:
                waits.append(other)
                may_start = may_start and _is_issued(other)
            elif other.error is not None:
                waits.append(other)
        ticket = CudaTicket(self, channel, start, waits, keep, is_blocking, PACE.wants_times)
        if self.is_closed:
            ticket.complete(DeviceFailed(self.name, "is closed"))
            return ticket
        if not may_start and (blockers := [o for o in waits if not o.done and not _is_issued(o)]):
            self._hold(ticket, blockers)
        elif is_blocking:
            channel.put(ticket)
        else:
            self.perform(ticket)
            channel.look_after()
        return ticket

    def poll(self) -> bool:
        """Complete what is done; whether anything is left."""
        is_left = False
        for channel in self.channels:
            if channel.pending:
                is_left |= channel.poll()
        return is_left

    def watch(self) -> None:
        """Have the channels' threads complete what is left."""
        for channel in self.channels:
            channel.watch()

    def close(self) -> None:
        """Fail what is still held back, wait for everything that the driver has, join the threads."""
        with _order:
            if self.is_closed:
                return
            self.is_closed = True
            abandoned = list(self._held)
            self._held.clear()
            self._idle.wait_for(lambda: not self._starting)
        for ticket in abandoned:
            ticket.wait = ()
            ticket.native = _Failed(DeviceFailed(self.name, "closed before the operation could start"))
            _append(ticket)
            release_followers(ticket)
        for channel in self.channels:
            channel.close()
        PACE.remove(self)

    def drop(self) -> None:
        """Let go of the driver's objects; the lane is closed."""
        self.channels.clear()
        self._timed.clear()
        self.untimed.clear()

    def perform(self, ticket: CudaTicket) -> None:
        """Give an operation to its stream, or mark it as failed if something it waits for failed."""
        channel = ticket.channel
        stream = channel.stream
        error: BaseException | None = None
        last: dict[Channel, CudaTicket] | None = None  # of other streams: with it, all before it is complete
        for other in ticket.wait:
            native = other.native  # before ``error``: completion sets that first, then forgets ``native``
            if isinstance(native, _Failed):
                error = error or native.error
            elif native is not None and type(other) is CudaTicket and other.channel is not channel:
                if last is None:
                    last = {}
                known = last.get(other.channel)
                if known is None or known.number < other.number:
                    last[other.channel] = other
            error = error or other.error
        ticket.issued_ns = time.monotonic_ns()
        if error is None:
            begin: Event | None = None
            end: Event | None = None
            is_timed = ticket.is_timed
            try:
                self.driver.enter()
                end = self._event(is_timed)
                if last is not None:
                    self._follow(ticket, last)
                # With such work before it on its stream, and on no other, it begins when that ends.
                if is_timed and (last or not channel.was_timed or channel.reached == channel.issued):
                    begin = self._event(is_timed)
                    begin.record(stream)
                start = ticket.start
                assert start is not None
                start()
                with channel.recording:  # numbers are in the order of the events
                    end.record(stream)
                    ticket.begin, ticket.end = begin, end
                    channel.was_timed = is_timed
                    channel.issued = ticket.number = channel.issued + 1
                    ticket.native = channel
                    channel.pending.append(ticket)
                return
            except Exception as cause:
                error = _failure(self, cause)
                for event in (begin, end):
                    if event is not None:
                        self.reuse(event, is_timed)
        ticket.native = _Failed(error)
        _append(ticket)

    def _follow(self, ticket: CudaTicket, last: dict[Channel, CudaTicket]) -> None:
        """Have the stream wait for operations of others that it does not wait for yet."""
        channel = ticket.channel
        stream, seen = channel.stream, channel.seen
        for other, of in last.items():
            end = of.end
            if end is None or of.number <= other.reached:
                continue
            if ticket.is_blocking:
                # The driver may read pageable memory at once, whatever the stream waits for.
                end.synchronize()
            elif seen.get(other, 0) < of.number:
                stream.wait_for_event(end)
                seen[other] = of.number

    def _event(self, is_timed: bool) -> Event:
        try:
            return (self._timed if is_timed else self.untimed).pop()
        except IndexError:
            return self.driver.new_event(is_timed)

    def reuse(self, event: Event, is_timed: bool) -> None:
        """Nothing refers to ``event`` any more."""
        (self._timed if is_timed else self.untimed).append(event)

    def _hold(self, ticket: CudaTicket, blockers: Sequence[Ticket]) -> None:
        ticket.missing = len(blockers) + 1
        with _order:
            self._held.add(ticket)
        for blocker in blockers:
            if isinstance(blocker, CudaTicket):
                if not _held_by(blocker, ticket):
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


def _held_by(blocker: CudaTicket, ticket: CudaTicket) -> bool:
    """Whether ``ticket`` will be unblocked when ``blocker`` is issued; False where that has happened."""
    with _order:
        if blocker.native is not None or blocker.done:
            return False
        if blocker.followers is None:
            blocker.followers = []
        blocker.followers.append(ticket)
        return True


def _append(failed: CudaTicket) -> None:
    """Queue what never reaches the driver, behind what its stream has."""
    channel = failed.channel
    with channel.recording:
        channel.issued = failed.number = channel.issued + 1
        channel.pending.append(failed)


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
        channel.look_after()
        with _order:
            lane.started()
            followers, ticket.followers = ticket.followers, None
            ready.extend(each for each in followers or () if _lane(each).take(each))
