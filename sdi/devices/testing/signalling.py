"""A member that gives and awaits signals on the host: a test hook (SDI_TEST_SIGNALS) for what devices do."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, cast

from sdi.devices.base import Device, Place
from sdi.devices.copying import Sender
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.join import join
from sdi.devices.signals import Signal
from sdi.devices.testing.due import DueCalls
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.region import Region, packed_like

_DELAYS_NS = (0, 2_000_000, 0, 0, 500_000)
_LOOK_NS = 100_000


class SignallingDevice(ForwardingDevice):
    """``device``, which says what it sends before that is there, and gives its signals late."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.signals = self._signals = HostSignals(device)

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
        return super().copy(source, target, region, source_waits, target_waits, timing)

    def close(self) -> None:
        self._signals.close()
        super().close()


class HostSignals:
    """Of one member.  Implements ``Signals``.  Owned by: the issuing thread; its own ``-signals`` thread."""

    def __init__(self, device: Device) -> None:
        self._device: Final = device
        self._due: Final = DueCalls("sdi-signals")
        self._delays: Final = itertools.cycle(_DELAYS_NS)
        self._is_closed = False

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
        places = Place(buffer, region.base, self._device), Place(memory, 0, None, packed_like(region).levels)
        read = self._device.copy(*places, region.at(0), wait, ())[1]

        def give() -> None:
            if read.error is None:
                signal.give()
            sent.complete(read.error)

        read.when_done(lambda _: self._due.at(due_ns, give))
        self._device.flush()
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
                here = Place(buffer, region.base, self._device)
                there = Place(memory, 0, None, packed_like(region).levels)
                self._device.copy(there, here, region.at(0), (), ())[1].when_done(ended)
                self._device.flush()

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

    def close(self) -> None:
        """What is still awaited fails."""
        self._is_closed = True
        self._due.close()
