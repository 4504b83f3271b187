"""Members that are slower than others."""

from __future__ import annotations

from collections.abc import Sequence

from sdi.devices.handles import BoundKernel
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.testing.null import NullDevice
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.ndrange import Int3
from tests.devices.conftest import finish
from tests.devices.testing.slow import SlowedDevice

SIZE = (1, 1, 1)


class Timed(NullDevice):
    """Launches took from 1000 to 3000 ns, or failed with ``error``."""

    error: Exception | None = None

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        ticket = Ticket()
        ticket.complete(self.error, 1000, 3000)
        return ticket


def test_launches_take_so_much_longer_and_fail_as_they_do() -> None:
    timed = Timed(0)
    member = SlowedDevice(timed, 2.5)
    bound = member.bind(member.build("", ()), "k", ())
    ticket = member.launch(bound, SIZE, SIZE, 1, [])
    finish(ticket)
    assert (ticket.start_ns, ticket.end_ns) == (1000, 6000)
    timed.error = DeviceFailed("null 0", "it failed")
    failed = member.launch(bound, SIZE, SIZE, 1, [])
    member.close()
    assert failed.error is timed.error
