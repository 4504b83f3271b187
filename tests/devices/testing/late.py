"""A member that is late: a test hook that shows what does not wait for it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Final

from sdi.devices.base import Device
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket
from tests.devices.testing.due import DueCalls

_DELAYS_NS = (2_000_000, 0, 3_000_000, 500_000, 1_000_000)


class DelayedDevice(ForwardingDevice):
    """``device``, but each operation starts some time after it was issued, as if the member were busy.

    ``delay_ns()`` says how much for the next operation (a fixed cycle of 0 to 3 ms by default).  Delays start
    at issue, so they overlap: n operations issued at once are late by one delay, not n.  Released in order.
    Owned by: the issuing thread; its own ``-late`` thread releases.
    """

    def __init__(self, device: Device, delay_ns: Callable[[], int] | None = None) -> None:
        super().__init__(device)
        self._delay_ns: Final = delay_ns or itertools.cycle(_DELAYS_NS).__next__
        self._last_ns = 0
        self._due: Final = DueCalls("sdi-late")

    def close(self) -> None:
        self._due.close()
        super().close()

    def _before(self, wait: Sequence[Ticket]) -> Sequence[Ticket]:
        """``wait`` and a ticket that is completed after the delay."""
        gate = Ticket()
        self._last_ns = max(self._last_ns, time.monotonic_ns() + self._delay_ns())
        self._due.at(self._last_ns, gate.complete)
        return [*wait, gate]
