"""A member on which one kernel fails: a test hook (SDI_TEST_FAIL_MEMBER)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sdi.devices.base import BoundArgument, BoundKernel, Device, DeviceProgram
from sdi.devices.forwarding import ForwardingDevice
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.ndrange import Int3


@dataclass(frozen=True, slots=True)
class _FaultyKernel:
    """What ``bind`` answers for the kernel that fails."""

    name: str


class FaultyDevice(ForwardingDevice):
    """``device``, but launches of ``kernel`` run nothing and fail with DeviceFailed when their turn comes."""

    def __init__(self, device: Device, kernel: str) -> None:
        super().__init__(device)
        self._kernel = kernel

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        if kernel == self._kernel:
            return BoundKernel(_FaultyKernel(kernel))
        return super().bind(program, kernel, arguments)

    def launch(
        self, bound: BoundKernel, groups: Int3, local_size: Int3, work_dim: int, wait: Sequence[Ticket]
    ) -> Ticket:
        faulty = cast(object, bound)
        if not isinstance(faulty, _FaultyKernel):
            return super().launch(bound, groups, local_size, work_dim, wait)
        ticket = Ticket()
        failure = DeviceFailed(self.facts.name, f"kernel {faulty.name} fails because a test asked for it")
        join(wait, lambda error: ticket.complete(error or failure))
        return ticket
