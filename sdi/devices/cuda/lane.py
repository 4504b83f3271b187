"""The order of a CUDA member's operations: streams on the device, tickets on the host.

A member has one stream per kind of work.  An operation is given to its stream when everything it waits for
is *issued* on some CUDA member (its stream then waits for their events, also across GPUs) or is *done*;
until then it is held here, never in the driver.  Copies of pageable memory would block the issuing
thread: the stream's own thread performs them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, cast

from sdi.devices.cuda.channel import Channel, CudaTicket, Driver, Event, failure
from sdi.devices.hold import Failed, HeldTicket, Hold, release
from sdi.devices.issue import MEASURED, TOGETHER, Timing
from sdi.devices.polling import Polling
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed

_late: Final[set[CudaTicket]] = set()
"""What members were asked for and is with no stream yet."""


def late() -> list[CudaTicket]:
    """What was asked for, of any member, and was not given to its stream yet."""
    return list(_late)


class CudaLane:
    """Owned by: the issuing thread; threads that complete foreign tickets issue what these held back."""

    def __init__(self, driver: Driver, name: str, polling: Polling) -> None:
        self.driver: Final = driver
        self.name: Final = name
        self.polling: Final = polling
        self.channels: Final[list[Channel]] = []
        self._timed: Final[list[Event]] = []
        self.untimed: Final[list[Event]] = []
        self.hold: Final = Hold(name, CudaLane, self._give)
        polling.add(self)

    def issue(
        self,
        channel: Channel,
        start: Callable[[], object],
        wait: Sequence[Ticket],
        timing: Timing,
        keep: object = None,
        is_blocking: bool = False,
        verdict: Callable[[], BaseException | None] | None = None,
        after: Sequence[Ticket] = (),
    ) -> Ticket:
        """Start when ``wait`` allows; never blocks.  ``keep`` is referenced until the ticket is done.

        ``verdict``: see ``CudaTicket``.  ``after``: it is not given to its stream before these are given to
        theirs, or done, and waits for none of them there.
        """
        # A copy of what still matters: the caller may add the new ticket to its list.
        waits: list[Ticket] = []
        may_start = True
        for other in wait:
            if not other.done:
                waits.append(other)
                may_start = may_start and _is_issued(other)
            elif other.error is not None:
                waits.append(other)
        ticket = CudaTicket(
            self, self.hold, channel, start, waits, keep, is_blocking, timing is MEASURED, verdict
        )
        if self.hold.is_closed:
            ticket.complete(DeviceFailed(self.name, "is closed"))
            return ticket
        before = (*waits, *after) if after else waits
        is_free = may_start and not after
        if not is_free and (blockers := [o for o in before if not o.done and not _is_issued(o)]):
            _late.add(ticket)
            self.hold.add(ticket, blockers)
        elif is_blocking:
            _late.add(ticket)
            channel.put(ticket)
        else:
            self.perform(ticket, timing is TOGETHER and not channel.is_behind)
            channel.look_after()
        return ticket

    def mark(self) -> None:
        """Have an event behind all that was given so far: who waits for that waits for nothing later."""
        unmarked = [channel for channel in self.channels if channel.unmarked is not None]
        if unmarked:
            self.driver.enter()
            for channel in unmarked:
                channel.mark()

    def is_idle(self) -> bool:
        """Whether all that was asked for is done.

        In this order: other threads meanwhile make what is late pending before it is late no more.
        """
        if any(ticket.owner is self for ticket in late()):
            return False
        return not any(channel.pending for channel in self.channels)

    def ask(self) -> None:
        """See ``Pollable``."""
        for channel in self.channels:
            if channel.pending:
                channel.ask()

    def complete(self) -> bool:
        """See ``Pollable``."""
        is_left = False
        for channel in self.channels:
            if channel.pending:
                is_left |= channel.complete()
        return is_left

    def arm(self) -> None:
        """Have the channels' threads complete what is left."""
        for channel in self.channels:
            channel.arm()

    def close(self) -> None:
        """Fail what is still held back, wait for everything that the driver has, join the threads."""
        if not self.hold.close(_fail):
            return
        for channel in self.channels:
            channel.close()
        self.polling.remove(self)

    def drop(self) -> None:
        """Let go of the driver's objects; the lane is closed."""
        self.channels.clear()
        self._timed.clear()
        self.untimed.clear()

    def perform(self, ticket: CudaTicket, is_unmarked: bool = False) -> None:
        """Give an operation to its stream, or mark it as failed if something it waits for failed.

        ``is_unmarked``: without an event of its own.
        """
        channel = ticket.channel
        stream = channel.stream
        error: BaseException | None = None
        last: dict[Channel, CudaTicket] | None = None  # of other streams: with it, all before it is complete
        for other in ticket.wait:
            native = other.native  # before ``error``: completion sets that first, then forgets ``native``
            if isinstance(native, Failed):
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
                if last is not None:
                    self._follow(ticket, last)
                if not is_unmarked:
                    if channel.unmarked is not None:
                        channel.mark()
                    end = self.event(is_timed)
                # With such work before it on its stream, and on no other, it begins when that ends.
                if is_timed and (last or not channel.was_timed or channel.reached == channel.issued):
                    begin = self.event(is_timed)
                    begin.record(stream)
                start = ticket.start
                assert start is not None
                start()
                with channel.recording:  # numbers are in the order of the events
                    channel.was_timed = is_timed
                    if end is None:
                        channel.unmarked = ticket
                    else:
                        end.record(stream)
                        ticket.begin, ticket.end = begin, end
                        channel.unmarked = None
                        channel.marked.append(ticket)
                    channel.issued = ticket.number = channel.issued + 1
                    ticket.native = channel
                    channel.pending.append(ticket)
                return
            except Exception as cause:
                error = failure(self.name, cause)
                for event in (begin, end):
                    if event is not None:
                        self.reuse(event, is_timed)
        ticket.native = Failed(error)
        channel.append(ticket)

    def perform_next(self, ticket: CudaTicket) -> None:
        """The same on the thread of its channel; then start what was held back until it was issued."""
        self.perform(ticket)
        _late.discard(ticket)
        release(ticket)

    def _give(self, ticket: HeldTicket) -> bool:
        """What was held back may start now."""
        own = cast(CudaTicket, ticket)
        if own.is_blocking:
            own.channel.put(own)
            return False
        self.perform(own)
        _late.discard(own)
        own.channel.look_after()
        return True

    def _follow(self, ticket: CudaTicket, last: dict[Channel, CudaTicket]) -> None:
        """Have the stream wait for operations of others that it does not wait for yet."""
        channel = ticket.channel
        stream, seen = channel.stream, channel.seen
        for other, of in last.items():
            if of.number <= other.reached or (seen.get(other, 0) >= of.number and not ticket.is_blocking):
                continue
            later: CudaTicket | None = of
            end = of.end
            if end is None:
                later = other.cover(of)
                end = later.end if later is not None else None
                self.driver.enter()
            if later is None or end is None:
                continue
            if ticket.is_blocking:
                # The driver may read pageable memory at once, whatever the stream waits for.
                end.synchronize()
            else:
                stream.wait_for_event(end)
                seen[other] = later.number

    def event(self, is_timed: bool) -> Event:
        """One that nothing refers to, or a new one."""
        try:
            return (self._timed if is_timed else self.untimed).pop()
        except IndexError:
            return self.driver.new_event(is_timed)

    def reuse(self, event: Event, is_timed: bool) -> None:
        """Nothing refers to ``event`` any more."""
        (self._timed if is_timed else self.untimed).append(event)


def _is_issued(ticket: Ticket) -> bool:
    """Whether a stream can wait for it; another kind of member's handle means nothing here."""
    return type(ticket) is CudaTicket and ticket.native is not None


def _fail(ticket: HeldTicket) -> None:
    own = cast(CudaTicket, ticket)
    own.channel.append(own)
    _late.discard(own)
