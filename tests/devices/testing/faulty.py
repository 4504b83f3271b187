"""Members that fail: test hooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from sdi.devices.base import BoundArgument, Device, KernelFacts, Place, SubGroupQuery
from sdi.devices.handles import BoundKernel, DeviceBuffer, DeviceProgram, HostBytes
from sdi.devices.image import ImageShape
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.join import join
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed, DeviceLost
from sdi.ndrange import Int3
from sdi.region import Region


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
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        faulty = cast(object, bound)
        if not isinstance(faulty, _FaultyKernel):
            return super().launch(bound, groups, local_size, work_dim, wait, timing)
        ticket = Ticket()
        failure = DeviceFailed(
            self.capabilities.name, f"kernel {faulty.name} fails because a test asked for it"
        )
        join(wait, lambda error: ticket.complete(error or failure))
        return ticket


class LosingDevice(ForwardingDevice):
    """``device``, which does ``lasts`` operations and is lost then: DeviceLost whatever it is asked for.

    Others can't read it either.  ``operations``: how many it was asked for.
    """

    def __init__(self, device: Device, lasts: int) -> None:
        super().__init__(device)
        self._lasts: Final = lasts
        self.operations = 0

    def is_lost(self) -> bool:
        return self.operations > self._lasts

    def _before(self, wait: Sequence[Ticket]) -> Sequence[Ticket]:
        self.operations += 1
        return [*wait, completed(self._loss())] if self.is_lost() else wait

    def _loss(self) -> DeviceLost:
        return DeviceLost(self.capabilities.name, "a test asked for it")

    def _alive(self) -> None:
        if self.is_lost():
            raise self._loss()

    def allocate(self, wanted: int | ImageShape | HostBytes, on_host: bool = False) -> DeviceBuffer:
        self._alive()
        return super().allocate(wanted, on_host)

    def host_bytes(self, buffer: DeviceBuffer) -> HostBytes | None:
        return None if self.is_lost() else super().host_bytes(buffer)

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        self._alive()
        return super().build(text, options)

    def kernel_info(
        self, program: DeviceProgram, kernel: str, asked: SubGroupQuery | None = None
    ) -> KernelFacts:
        self._alive()
        return super().kernel_info(program, kernel, asked)

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        self._alive()
        return super().bind(program, kernel, arguments)

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        waits = self._reading(source, source_waits)
        return super().copy(source, target, region, waits, target_waits, timing)

    def _reading(self, source: Place, wait: Sequence[Ticket]) -> Sequence[Ticket]:
        """``wait``, and a failure of this member, which is not lost, if the other one is."""
        other = source.device
        if isinstance(other, LosingDevice) and other is not self and other.is_lost():
            what = f"can't read {other.capabilities.name}"
            return [*wait, completed(DeviceFailed(self.capabilities.name, what))]
        return wait
