"""Signals that a host gives and awaits, late on purpose: for test hooks that do what devices do."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sdi.devices.base import Device, Place
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.join import join
from sdi.devices.signals import CopyRound, RepeatedCopy, Signal
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.region import Region, packed_like
from tests.devices.testing.due import DueCalls

_DELAYS_NS = (0, 2_000_000, 0, 0, 500_000)
_LOOK_NS = 100_000


class HostSignals:
    """Of one member.  Implements ``Signals``.  Owned by: the issuing thread; its own ``-signals`` thread."""

    def __init__(self, device: Device) -> None:
        self._device: Final = device
        self._due: Final = DueCalls("sdi-signals")
        self._delays: Final = itertools.cycle(_DELAYS_NS)
        self._is_closed = False
        self.last_round: Ticket = completed()

    def reaches(self, words: Callable[[], Sequence[HostBytes]]) -> bool:
        return True

    def carries(self, region: Region) -> bool:
        return len(region.levels) < 2

    def send(
        self,
        buffer: DeviceBuffer,
        region: Region,
        memory: HostBytes,
        signal: Signal,
        wait: Sequence[Ticket],
        given: Callable[[], None],
    ) -> Ticket:
        sent, due_ns = Ticket(), time.monotonic_ns() + next(self._delays)
        if not any(other.error for other in wait):
            given()
        read = self.move(buffer, region, memory, wait, is_sent=True)

        def give() -> None:
            if read.error is None:
                signal.give()
            sent.complete(read.error)

        read.when_done(lambda _: self._due.at(due_ns, give))
        return sent

    def receive(
        self,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        came: Callable[[], tuple[HostBytes, Signal | None]],
        verdict: Callable[[], BaseException | None],
    ) -> Ticket:
        received = Ticket()

        def ended(done: Ticket) -> None:
            received.complete(done.error or verdict(), done.start_ns, done.end_ns)

        def look(memory: HostBytes, signal: Signal | None) -> None:
            if self._is_closed:
                received.complete(DeviceFailed(self._device.capabilities.name, "is closed"))
            elif signal is not None and not signal.is_given():
                self._due.at(time.monotonic_ns() + _LOOK_NS, partial(look, memory, signal))
            else:
                self.move(buffer, region, memory, (), is_sent=False).when_done(ended)

        def ready(error: BaseException | None) -> None:
            try:
                if error is not None:
                    raise error
                found = came()
            except BaseException as why:
                received.complete(why)
            else:
                self._due.at(0, partial(look, *found))

        join(wait, ready)
        return received

    def round_of(self, copies: Sequence[RepeatedCopy]) -> CopyRound:
        return _HostRound(self, copies)

    def move(
        self, buffer: DeviceBuffer, region: Region, memory: HostBytes, wait: Sequence[Ticket], is_sent: bool
    ) -> Ticket:
        """Bring ``region`` of ``buffer`` to ``memory``, or from there."""
        here = Place(buffer, region.base, self._device)
        there = Place(memory, 0, None, packed_like(region).levels)
        source, target = (here, there) if is_sent else (there, here)
        ticket = self._device.copy(source, target, region.at(0), wait, ())[1]
        self._device.flush()
        return ticket

    def later(self, call: Callable[[], None], is_delayed: bool) -> None:
        """Make ``call`` on the thread of signals, sooner or later or after a look."""
        wait_ns = next(self._delays) if is_delayed else _LOOK_NS
        self._due.at(time.monotonic_ns() + wait_ns, call)

    @property
    def is_closed(self) -> bool:
        """Whether nothing is waited for any more."""
        return self._is_closed

    def stop(self) -> None:
        """What is still awaited fails."""
        self._is_closed = True

    def close(self) -> None:
        """The same, and nothing is asked for any more."""
        self.stop()
        self._due.close()


class _HostRound:
    """Implements ``CopyRound``: copies one after the other, behind the round before."""

    def __init__(self, signals: HostSignals, copies: Sequence[RepeatedCopy]) -> None:
        self._signals: Final = signals
        self._copies: Final = copies
        self._used = [0, 0]
        self._times = 0

    def issue(
        self,
        number: int,
        wait: Sequence[Ticket],
        after: Sequence[Ticket],
        verdict: Callable[[], BaseException | None],
    ) -> Ticket:
        half, self._times = self._times % 2, self._times + 1
        before, self._used[half] = self._used[half], number
        whole, last = Ticket(), self._signals.last_round
        self._signals.last_round = whole

        def go_on(at: int, error: BaseException | None = None) -> None:
            if error is not None or at == len(self._copies):
                whole.complete(error or verdict())
                return
            copy = self._copies[at]
            box = copy.mailbox
            awaited, word = (before, box.emptied) if copy.is_sent else (number, box.filled)
            if self._signals.is_closed:
                whole.complete(DeviceFailed("a member", "is closed"))
            elif awaited and not Signal(word, awaited).is_given():
                self._signals.later(partial(go_on, at), is_delayed=False)
            else:
                done = Signal(box.filled if copy.is_sent else box.emptied, number)
                self._signals.move(copy.buffer, copy.region, box.halves[half], (), copy.is_sent).when_done(
                    lambda moved: self._signals.later(partial(given, at, done, moved), is_delayed=True)
                )

        def given(at: int, done: Signal, moved: Ticket) -> None:
            if moved.error is None:
                done.give()
            go_on(at + 1, moved.error)

        join([*wait, last], lambda error: self._signals.later(partial(go_on, 0, error), is_delayed=False))
        return whole
