"""A member that is slower than the others: a test hook (SDI_TEST_SLOW_MEMBER) for shares by throughput."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Sequence
from typing import Final

from sdi.devices.base import BoundKernel, Device
from sdi.devices.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3


class SlowedDevice(ForwardingDevice):
    """``device``, but each launch takes ``factor`` times as long: its ticket is done so much later.

    Owned by: the issuing thread; its own ``-slow`` thread completes launches.
    """

    def __init__(self, device: Device, factor: float) -> None:
        super().__init__(device)
        self._factor: Final = factor
        self._changed: Final = threading.Condition()
        self._late: Final[list[tuple[int, int, Ticket, Ticket]]] = []
        self._numbers: Final = itertools.count()
        self._closing = False
        self._thread: Final = threading.Thread(target=self._run, name="sdi-slow", daemon=True)
        self._thread.start()

    def close(self) -> None:
        super().close()  # launches under way end now, and come to ``_late``
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def launch(
        self, bound: BoundKernel, groups: Int3, local_size: Int3, work_dim: int, wait: Sequence[Ticket]
    ) -> Ticket:
        late = Ticket()

        def ended(done: Ticket) -> None:
            due_ns = done.start_ns + int(self._factor * (done.end_ns - done.start_ns))
            with self._changed:
                heapq.heappush(self._late, (due_ns, next(self._numbers), done, late))
                self._changed.notify()

        super().launch(bound, groups, local_size, work_dim, wait).when_done(ended)
        self.flush()  # others may wait for the ticket, which no driver knows
        return late

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._late or self._closing)
                if not self._late:
                    return
                due_ns, _, done, late = self._late[0]
                if not self._closing and (left_ns := due_ns - time.monotonic_ns()) > 0:
                    self._changed.wait(left_ns / 1e9)
                    continue
                heapq.heappop(self._late)
            late.complete(done.error, done.start_ns, due_ns if done.error is None else done.end_ns)
