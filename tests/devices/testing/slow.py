"""A member that is slower than the others: a test hook for shares by throughput."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sdi.devices.base import Device
from sdi.devices.handles import BoundKernel
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3
from tests.devices.testing.due import DueCalls


class SlowedDevice(ForwardingDevice):
    """``device``, but each launch takes ``factor`` times as long: its ticket is done so much later.

    Owned by: the issuing thread; its own ``-slow`` thread completes launches.
    """

    def __init__(self, device: Device, factor: float) -> None:
        super().__init__(device)
        self._factor: Final = factor
        self._due: Final = DueCalls("sdi-slow")

    def close(self) -> None:
        super().close()  # launches under way end now, and come to ``_due``
        self._due.close()

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        late = Ticket()

        def ended(done: Ticket) -> None:
            due_ns = done.start_ns + int(self._factor * (done.end_ns - done.start_ns))
            end_ns = due_ns if done.error is None else done.end_ns
            self._due.at(due_ns, lambda: late.complete(done.error, done.start_ns, end_ns))

        super().launch(bound, groups, local_size, work_dim, wait, MEASURED).when_done(ended)
        self.flush()  # others may wait for the ticket, which no driver knows
        return late
