"""A member that passes everything on to another: what test hooks change one thing of."""

from __future__ import annotations

from collections.abc import Sequence

from sdi.clc.preprocess.compiler import Ask
from sdi.devices.base import BoundArgument, Comparison, Device, KernelFacts, MergeStep, Place, SubGroupQuery
from sdi.devices.capabilities import Capabilities
from sdi.devices.handles import BoundKernel, DeviceBuffer, DeviceProgram, HostBytes
from sdi.devices.image import ImageShape
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.memory_share import MemoryShare
from sdi.devices.native import NativeMember
from sdi.devices.signals import Signals
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3
from sdi.region import Region


class ForwardingDevice:
    """``device``.  Implements ``Device``; a subclass overrides what is to be different."""

    native: NativeMember | None = None
    signals: Signals | None = None

    def __init__(self, device: Device) -> None:
        self.capabilities: Capabilities = device.capabilities
        self.memory: MemoryShare = device.memory
        self.ask: Ask = device.ask
        self._device = device

    @property
    def behind(self) -> Device:
        """The member that everything is passed on to."""
        device = self._device
        return device.behind if isinstance(device, ForwardingDevice) else device

    def _before(self, wait: Sequence[Ticket]) -> Sequence[Ticket]:
        """What an operation waits for that was asked to wait for ``wait``."""
        return wait

    def allocate(self, wanted: int | ImageShape | HostBytes, on_host: bool = False) -> DeviceBuffer:
        return self._device.allocate(wanted, on_host)

    def free(self, buffer: DeviceBuffer) -> None:
        self._device.free(buffer)

    def host_bytes(self, buffer: DeviceBuffer) -> HostBytes | None:
        return self._device.host_bytes(buffer)

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        waits = self._before(target_waits)
        return self._device.copy(
            self._inside(source), self._inside(target), region, source_waits, waits, timing
        )

    def _inside(self, place: Place) -> Place:
        """``place`` as ``device`` knows it."""
        return place._replace(device=self._device) if place.device is self else place

    def merge(
        self,
        step: MergeStep,
        comparison: Comparison,
        changes: DeviceBuffer,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._device.merge(step, comparison, changes, self._before(wait), timing)

    def fill(
        self,
        buffer: DeviceBuffer,
        offset: int,
        nbytes: int,
        pattern: bytes,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._device.fill(buffer, offset, nbytes, pattern, self._before(wait), timing)

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        return self._device.build(text, options)

    def kernel_info(
        self, program: DeviceProgram, kernel: str, asked: SubGroupQuery | None = None
    ) -> KernelFacts:
        return self._device.kernel_info(program, kernel, asked)

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        return self._device.bind(program, kernel, arguments)

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._device.launch(bound, groups, local_size, work_dim, self._before(wait), timing)

    def flush(self) -> None:
        self._device.flush()

    def is_lost(self) -> bool:
        return self._device.is_lost()

    def close(self) -> None:
        self._device.close()
