"""One stream of a CUDA member: what was given to it, and how far it has come.

Behind each operation lies an event.  What is complete is found out by whoever has time: the issuing thread
between two commands, or, when it is idle, a thread per stream that waits in the driver (``polling``).  One
answer completes all operations of the stream up to that event.  Brief operations that the issuing thread
gives a stream in a row have one event together: behind the last when that thread looks, before anything
longer comes, or as soon as somebody has to wait for one of them.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from operator import attrgetter
from queue import SimpleQueue
from typing import Final, Protocol

from sdi.devices.hold import Failed, HeldTicket, Hold
from sdi.devices.join import join
from sdi.devices.polling import Polling
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed

_log = logging.getLogger(__name__)
_ANCHOR_MAX_NS = 1_000_000_000  # the driver tells intervals as floats in ms: 60 ns at one second
_ANCHOR_OFF_NS = 50_000_000  # who seems to have ended so long before it had says that clocks drifted
_GATHER_NS = 100_000
_BEHIND_NS = 500_000
_NUMBER = attrgetter("number")


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


class ChannelOwner(Protocol):
    """What a channel needs of its lane.  ``untimed``: events that nothing refers to."""

    @property
    def name(self) -> str: ...
    @property
    def driver(self) -> Driver: ...
    @property
    def polling(self) -> Polling: ...
    @property
    def channels(self) -> list[Channel]: ...
    @property
    def untimed(self) -> list[Event]: ...
    def event(self, is_timed: bool) -> Event: ...
    def reuse(self, event: Event, is_timed: bool) -> None: ...
    def perform_next(self, ticket: CudaTicket) -> None: ...


class CudaTicket(HeldTicket):
    """An operation of a CUDA member.

    ``native``: its channel once it is issued.  ``number``: its place on its stream.  ``end``: the event
    behind it, None where a later one serves; ``begin``: the one before it, None where it begins when the
    operation before it ends, or where nobody asks for its times (``is_timed``).  ``is_awaited``: a thread
    waits for ``end`` in the driver; ``is_released``: nothing else needs that event any more.
    ``verdict``: asked when it is complete, why it failed all the same.
    """

    __slots__ = (
        "begin",
        "channel",
        "end",
        "is_awaited",
        "is_blocking",
        "is_released",
        "is_timed",
        "number",
        "verdict",
    )

    def __init__(
        self,
        owner: object,
        hold: Hold,
        channel: Channel,
        start: Callable[[], object],
        wait: Sequence[Ticket],
        keep: object,
        is_blocking: bool,
        is_timed: bool,
        verdict: Callable[[], BaseException | None] | None = None,
    ) -> None:
        HeldTicket.__init__(self, owner, hold, start, wait, keep)  # quicker than by super()
        self.channel = channel
        self.is_blocking = is_blocking
        self.is_timed = is_timed
        self.verdict = verdict
        self.is_awaited = self.is_released = False
        self.begin: Event | None = None
        self.end: Event | None = None
        self.number = 0


_starting = threading.Lock()
"""Guards that a channel has one thread."""


class Channel:
    """One stream, with a thread for what can't be done without blocking.  Owned by: its lane.

    ``issued``: number of the last operation given to the stream; ``reached``: of the last that is known to be
    complete.  ``pending``: what was issued and has not been completed, in the order of the stream;
    ``marked``: of these, what has an event or never reached the driver; ``unmarked``: the last operation, if
    no event lies behind it yet.  ``seen``: by other channel, the number of the last operation there that this
    stream waits for.  ``was_timed``: the last operation has an event with time behind it.
    ``is_behind``: when somebody looked last, something was not complete long after it was issued.
    """

    def __init__(self, lane: ChannelOwner, stream: Stream, thread_name: str) -> None:
        self.stream: Final = stream
        self.recording: Final = threading.Lock()
        self.issued = 0
        self.reached = 0
        self.pending: Final[deque[CudaTicket]] = deque()
        self.marked: Final[deque[CudaTicket]] = deque()
        self.unmarked: CudaTicket | None = None
        self.seen: Final[dict[Channel, int]] = {}
        self.was_timed = self.is_behind = False
        self._orders: Final[SimpleQueue[CudaTicket | bool]] = SimpleQueue()
        self._turn: Final = threading.Lock()
        self._lane: Final[ChannelOwner] = lane
        self._polling: Final = lane.polling
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
        if not (self._polling.is_busy or self._is_watched):
            self.arm()

    def arm(self) -> None:
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
        """Complete what is done; whether anything is left."""
        self.ask()
        return self.complete()

    def ask(self) -> None:
        """Find out how far the stream has come.  Keeps the GIL: to get it back costs more."""
        marked = self.marked
        self.is_behind = False
        try:
            # Mostly all is done, or all but the last, or nothing: asking of each costs more than the rest.
            last = marked[-1]
            is_over = self._ask(last)
            if is_over or (is_over is not None and len(marked) > 1 and self._ask(marked[-2])):
                return
            running = last if is_over is not None else None
            at = 0
            while True:
                first = marked[at]
                if first.number > self.reached:
                    if first is running or not self._is_over(first):
                        self._running_ns = time.monotonic_ns()
                        self.is_behind = self._running_ns - first.issued_ns > _BEHIND_NS
                        return
                    self.reached = max(self.reached, first.number)
                at += 1
        except IndexError:  # there is none, or another thread completed it
            return

    def complete(self) -> bool:
        """Complete what is known to be done; whether anything is left."""
        if self.unmarked is not None:
            self.mark()
        self._drain(self.reached)
        return bool(self.pending)

    def _ask(self, ticket: CudaTicket) -> bool | None:
        """Whether ``ticket`` is complete; None where the driver does not say, as after a fault."""
        if ticket.number <= self.reached:
            return True
        end = self._event_behind(ticket)
        if end is None:
            return None
        try:
            is_over = end.query()
        except Exception:  # whoever completes it asks again, and hears why
            return None
        if is_over:
            self.reached = max(self.reached, ticket.number)
        return is_over

    def mark(self) -> None:
        """Have an event behind the last operation.  Any thread, which is in this member's context then."""
        with self.recording:
            self._mark()

    def append(self, failed: CudaTicket) -> None:
        """Queue what never reaches the driver, behind what the stream has."""
        with self.recording:
            self._mark()
            self.issued = failed.number = self.issued + 1
            self.pending.append(failed)
            self.marked.append(failed)

    def _mark(self) -> None:
        last, self.unmarked = self.unmarked, None
        if last is None:
            return
        lane = self._lane
        try:
            lane.driver.enter()
            end = lane.event(False)
            end.record(self.stream)
            last.end = end
        except Exception as cause:
            self._fail(self.marked[-1].number if self.marked else 0, last.number, cause)
        self.marked.append(last)

    def _fail(self, after: int, last: int, cause: Exception) -> None:
        """The driver says nothing more of what came to the stream after number ``after``, up to ``last``."""
        failed = Failed(failure(self._lane.name, cause))
        for ticket in list(self.pending):
            if after < ticket.number <= last and isinstance(ticket.native, Channel):
                ticket.native = failed

    def cover(self, ticket: CudaTicket) -> CudaTicket | None:
        """The operation whose event shows that ``ticket`` is complete; None where that is known.

        Any thread, which may be in this member's context then.
        """
        with self.recording:
            if ticket.number <= self.reached:
                return None
            if ticket.end is not None:
                return ticket
            last = self.unmarked
            found = last if last is not None and last.number >= ticket.number else None
            for later in reversed(self.marked):
                if later.number < ticket.number:
                    break
                if later.end is not None:
                    found = later
            if found is last:
                self._mark()
            return found

    def _event_behind(self, ticket: CudaTicket) -> Event | None:
        """What shows that ``ticket`` is complete; None where that is known, or no event will."""
        end = ticket.end
        if end is None and isinstance(ticket.native, Channel):
            later = self.cover(ticket)
            end = later.end if later is not None else None
        return end

    def _is_over(self, ticket: CudaTicket) -> bool:
        """Whether the oldest operation with an event is complete, or failed: its ``native`` says why."""
        end = self._event_behind(ticket)
        if end is None:
            return True
        try:
            return end.query()
        except Exception as cause:
            self._fail(self.reached, ticket.number, cause)  # those before it have no event of their own
            return True

    def _order(self, order: CudaTicket | bool) -> None:
        """What the thread does next: perform an operation, wait for what is pending (True), or end."""
        self._orders.put(order)
        if self._waiter is None:
            with _starting:
                if self._waiter is None:
                    self._waiter = threading.Thread(target=self._run, name=self._name, daemon=True)
                    self._waiter.start()

    def _run(self) -> None:
        self._lane.driver.enter()
        while True:
            order = self._orders.get()
            if isinstance(order, CudaTicket):
                self._lane.perform_next(order)
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
            if not pending or self._polling.is_busy:
                self._is_watched = False
                # What was issued since may have counted on this thread.
                if not pending or self._polling.is_busy:
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
            self._mark()
            if not self.marked:
                return
            first = self.marked[0]
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
        if (is_over := self._ask(ticket)) is not None:
            if is_over:
                self._drain(ticket.number)
            return
        while self._is_due(ticket.number):
            try:
                first = self.pending[0]
            except IndexError:
                return
            if first.number > self.reached and not self._is_over(first):
                return
            self._drain(first.number)
            if not first.done:  # another thread has the turn
                return

    def _complete(self, reached: int) -> None:
        """Complete the oldest operation, and those without times behind it up to ``reached``.

        The caller has the turn, and the oldest is due.
        """
        pending, marked, reuse = self.pending, self.marked, self._lane.untimed
        ended: list[CudaTicket] = []
        with self.recording:
            while pending and pending[0].number <= reached and not pending[0].is_timed:
                ticket = pending.popleft()
                ended.append(ticket)
                if marked and marked[0] is ticket:
                    marked.popleft()
                end, ticket.end = ticket.end, None
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
            self.marked.popleft()
            end, ticket.end = ticket.end, None
        start_ns = end_ns = 0
        if not isinstance(ticket.native, Failed):
            try:
                start_ns, end_ns = self._host_times(ticket, end)
            except Exception as cause:
                ticket.native = Failed(failure(self._lane.name, cause))
        if end is not None and isinstance(ticket.native, Failed):
            self._give_back(ticket, end)
        self._completed(ticket, start_ns, end_ns)

    def _completed(self, ticket: CudaTicket, start_ns: int, end_ns: int) -> None:
        """``ticket`` is complete, or has failed; whoever waits for it hears of it."""
        native = ticket.native
        error = native.error if isinstance(native, Failed) else None
        if error is None and ticket.verdict is not None:
            error = ticket.verdict()
        if error is not None:
            start_ns = end_ns = 0
        wait, ticket.wait = ticket.wait, ()
        ticket.keep = ticket.start = ticket.verdict = None
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
            pending = self.pending
            known = bisect_right(pending, self.reached, key=_NUMBER)
            timed = (t for at in range(known - 1, -1, -1) if (t := pending[at]).is_timed)
            last = next((t.end for t in timed if not _has_failed(t)), None)
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


def _has_failed(ticket: CudaTicket) -> bool:
    return isinstance(ticket.native, Failed)


def failure(member: str, cause: Exception) -> DeviceFailed:
    """``cause``, as the rest of the program knows it."""
    found = DeviceFailed(member, str(cause))
    found.__cause__ = cause.with_traceback(None)  # whose frames keep events and streams
    return found
