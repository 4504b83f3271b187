"""A member that is late: a test hook (SDI_TEST_DELAY_MEMBER) that shows what does not wait for it."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from sdi.devices.base import Device
from sdi.devices.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket

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
        self._changed: Final = threading.Condition()
        self._gates: Final[deque[tuple[int, Ticket]]] = deque()
        self._closing = False
        self._thread: Final = threading.Thread(target=self._run, name="sdi-late", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()
        super().close()

    def _before(self, wait: Sequence[Ticket]) -> Sequence[Ticket]:
        """``wait`` and a ticket that is completed after the delay."""
        gate = Ticket()
        due_ns = time.monotonic_ns() + self._delay_ns()
        with self._changed:
            self._gates.append((due_ns, gate))
            self._changed.notify()
        return [*wait, gate]

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._gates or self._closing)
                if not self._gates:
                    return
                due_ns, gate = self._gates[0]
                while not self._closing and (left_ns := due_ns - time.monotonic_ns()) > 0:
                    self._changed.wait(left_ns / 1e9)
                self._gates.popleft()
            gate.complete()
