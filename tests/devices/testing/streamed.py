"""A member whose operations go through streams as a GPU's do: a test hook.

An operation is given to the stream of its kind when all that it waits for was given to one, or is done.  A
stream does one after the other, and what waits there keeps back all that was given to it later.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, cast

from sdi.devices.base import Comparison, Device, MergeStep, Place
from sdi.devices.copying import Sender
from sdi.devices.handles import BoundKernel, DeviceBuffer, HostBytes
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.join import join
from sdi.devices.signals import CopyRound, RepeatedCopy, Signal
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.ndrange import Int3
from sdi.region import Region
from tests.devices.testing.due import DueCalls
from tests.devices.testing.signalling import HostSignals

_CLOSE_S = 60.0
_lock = threading.Lock()
"""Guards what is held back and what streams have, over all members."""


class StreamTicket(Ticket):
    """Of an operation.  ``followers``: what is held back until it is given to its stream."""

    __slots__ = ("followers", "is_given", "missing", "on_given", "start", "stream", "waits")

    missing: int

    def __init__(
        self,
        stream: StreamOfCalls,
        start: Callable[[], Ticket],
        waits: Sequence[Ticket],
        on_given: Callable[[], None] | None,
    ) -> None:
        super().__init__()
        self.stream = stream
        self.start = start
        self.waits = waits
        self.on_given = on_given
        self.is_given = False
        self.followers: list[StreamTicket] = []


_held: Final[set[StreamTicket]] = set()
"""What was given to no stream yet."""


class StreamOfCalls:
    """``given``: what it has to do, the oldest first.  ``is_busy``: with that."""

    def __init__(self, of: Streams) -> None:
        self.of: Final = of
        self.given: Final[deque[StreamTicket]] = deque()
        self.is_busy = False


class Streams:
    """Those of a member.  Any thread."""

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._due: Final = DueCalls("sdi-streams")
        self._streams: Final[dict[str, StreamOfCalls]] = {}
        self._is_closed = False

    def issue(
        self,
        kind: str,
        waits: Sequence[Ticket],
        start: Callable[[], Ticket],
        on_given: Callable[[], None] | None = None,
        after: Sequence[Ticket] | None = None,
    ) -> Ticket:
        """Do ``start`` in the stream of that kind, behind ``waits``.

        ``on_given``: called when it is given to its stream, unless something has failed by then.
        ``after``: of a round, it is not given before these are done and all that is held back now is given.
        """
        stream = self._streams.setdefault(kind, StreamOfCalls(self))
        ticket = StreamTicket(stream, start, [*waits], on_given)
        others: list[Ticket] = []
        with _lock:
            before = [*waits] if after is None else [*waits, *after, *_held]
            if not self._is_closed:
                _held.add(ticket)
            ticket.missing = 1
            for wait in before:
                if wait.done or (isinstance(wait, StreamTicket) and wait.is_given):
                    continue
                ticket.missing += 1
                if isinstance(wait, StreamTicket):
                    wait.followers.append(ticket)
                else:
                    others.append(wait)
            is_closed = self._is_closed
        if is_closed:
            ticket.complete(DeviceFailed(self._name, "is closed"))
            return ticket
        for wait in others:
            wait.when_done(lambda _: self._less(ticket))
        self._less(ticket)
        return ticket

    def _less(self, first: StreamTicket) -> None:
        """One thing less is in the way of ``first``."""
        given: list[StreamTicket] = []
        with _lock:
            ready = [first]
            while ready:
                ticket = ready.pop(0)
                ticket.missing -= 1
                if ticket.missing or ticket.done or ticket.is_given:
                    continue
                ticket.is_given = True
                _held.discard(ticket)
                ticket.stream.given.append(ticket)
                given.append(ticket)
                ready += ticket.followers
                ticket.followers = []
        for ticket in given:
            if ticket.on_given is not None and not any(wait.error for wait in ticket.waits):
                ticket.on_given()
            ticket.stream.of._due.at(0, partial(self._go_on, ticket.stream))

    def _go_on(self, stream: StreamOfCalls) -> None:
        with _lock:
            if stream.is_busy or not stream.given:
                return
            stream.is_busy, first = True, stream.given[0]
        join(first.waits, lambda error: self._due.at(0, partial(self._start, first, error)))

    def _start(self, ticket: StreamTicket, error: BaseException | None) -> None:
        if error is None:
            try:
                done = ticket.start()
            except Exception as cause:
                done = completed(cause)
        else:
            done = completed(error)
        done.when_done(partial(self._ended, ticket))

    def _ended(self, ticket: StreamTicket, done: Ticket) -> None:
        with _lock:
            ticket.stream.given.popleft()
            ticket.stream.is_busy = False
        ticket.complete(done.error, done.start_ns, done.end_ns)
        self._due.at(0, partial(self._go_on, ticket.stream))

    def close(self) -> None:
        """What is held back fails; wait for all else."""
        with _lock:
            self._is_closed = True
            held = [ticket for ticket in _held if ticket.stream.of is self]
            for ticket in held:
                ticket.missing = 1 << 30
            _held.difference_update(held)
        for ticket in held:
            ticket.complete(DeviceFailed(self._name, "closed before the operation could start"))
            with _lock:
                followers, ticket.followers = ticket.followers, []
            for each in followers:
                self._less(each)
        end = time.monotonic() + _CLOSE_S
        while any(stream.given for stream in self._streams.values()):
            assert time.monotonic() < end, "a stream hangs"
            time.sleep(1e-4)
        self._due.close()


class StreamedDevice(ForwardingDevice):
    """``device``, all of whose operations go through streams, with signals that are given late."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self._signals: Final = HostSignals(device)
        self.streams: Final = Streams(device.capabilities.name)
        self.signals = StreamedSignals(self.streams, self._signals)

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        other = source.device
        if other is not None and other.capabilities.node != self.capabilities.node:
            return cast(Sender, other).send_to(source, target, region, source_waits, target_waits)
        kind = "down" if target.device is None else "up" if other is None else "done"
        if other is not None and target.device is not None and other is not target.device:
            kind = "peer"

        def start() -> Ticket:
            if isinstance(other, StreamedDevice) and other is not self:
                there = source._replace(device=other._device)
            else:
                there = self._inside(source)
            made = self._device.copy(there, self._inside(target), region, (), (), timing)
            self._device.flush()
            return made[1]

        ticket = self.streams.issue(kind, [*source_waits, *target_waits], start)
        return ticket, ticket

    def merge(
        self,
        step: MergeStep,
        comparison: Comparison,
        changes: DeviceBuffer,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._issued(wait, lambda: self._device.merge(step, comparison, changes, (), timing))

    def fill(
        self,
        buffer: DeviceBuffer,
        offset: int,
        nbytes: int,
        pattern: bytes,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._issued(wait, lambda: self._device.fill(buffer, offset, nbytes, pattern, (), timing))

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._issued(
            wait, lambda: self._device.launch(bound, groups, local_size, work_dim, (), timing)
        )

    def _issued(self, wait: Sequence[Ticket], call: Callable[[], Ticket]) -> Ticket:
        def start() -> Ticket:
            ticket = call()
            self._device.flush()
            return ticket

        return self.streams.issue("done", wait, start)

    def close(self) -> None:
        self._signals.stop()  # or what still waits in a stream would for ever
        self.streams.close()
        self._signals.close()
        super().close()


class StreamedSignals:
    """Implements ``Signals``."""

    def __init__(self, streams: Streams, signals: HostSignals) -> None:
        self._streams: Final = streams
        self._signals: Final = signals
        self.last_round: Ticket = completed()

    def reaches(self, words: Callable[[], Sequence[HostBytes]]) -> bool:
        return self._signals.reaches(words)

    def carries(self, region: Region) -> bool:
        return self._signals.carries(region)

    def send(
        self,
        buffer: DeviceBuffer,
        region: Region,
        memory: HostBytes,
        signal: Signal,
        wait: Sequence[Ticket],
        given: Callable[[], None],
    ) -> Ticket:
        start = partial(self._signals.send, buffer, region, memory, signal, (), lambda: None)
        return self._streams.issue("down", wait, start, given)

    def receive(
        self,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        came: Callable[[], tuple[HostBytes, Signal | None]],
        verdict: Callable[[], BaseException | None],
    ) -> Ticket:
        start = partial(self._signals.receive, buffer, region, (), came, verdict)
        return self._streams.issue("peer", wait, start)

    def round_of(self, copies: Sequence[RepeatedCopy]) -> CopyRound:
        return _StreamedRound(self, self._streams, self._signals.round_of(copies))


class _StreamedRound:
    """Implements ``CopyRound``."""

    def __init__(self, signals: StreamedSignals, streams: Streams, copies: CopyRound) -> None:
        self._signals: Final = signals
        self._streams: Final = streams
        self._copies: Final = copies

    def issue(
        self,
        number: int,
        wait: Sequence[Ticket],
        after: Sequence[Ticket],
        verdict: Callable[[], BaseException | None],
    ) -> Ticket:
        start = partial(self._copies.issue, number, (), (), verdict)
        ticket = self._streams.issue("round", [*wait, self._signals.last_round], start, after=after)
        self._signals.last_round = ticket
        return ticket
