"""A member that passes everything on to another: what test hooks change one thing of."""

from __future__ import annotations

from collections.abc import Sequence

from sdi.clc.preprocess.probe import Answers
from sdi.devices.base import BoundArgument, Comparison, Device, KernelFacts, Rows
from sdi.devices.capabilities import Capabilities
from sdi.devices.handles import BoundKernel, DeviceBuffer, DeviceProgram, HostBytes
from sdi.devices.image import ImageShape, Slabs
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.native import NativeMember
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3
from sdi.region import Region


class ForwardingDevice:
    """``device``.  Implements ``Device``; a subclass overrides what is to be different."""

    native: NativeMember | None = None

    def __init__(self, device: Device) -> None:
        self.capabilities: Capabilities = device.capabilities
        self._device = device

    def _before(self, wait: Sequence[Ticket]) -> Sequence[Ticket]:
        """What an operation waits for that was asked to wait for ``wait``."""
        return wait

    def allocate(self, wanted: int | ImageShape, on_host: bool = False) -> DeviceBuffer:
        return self._device.allocate(wanted, on_host)

    def map_host(self, host: HostBytes) -> DeviceBuffer:
        return self._device.map_host(host)

    def free(self, buffer: DeviceBuffer) -> None:
        self._device.free(buffer)

    def host_bytes(self, buffer: DeviceBuffer) -> HostBytes | None:
        return self._device.host_bytes(buffer)

    def upload(
        self,
        host: HostBytes,
        buffer: DeviceBuffer,
        offset: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._device.upload(host, buffer, offset, self._before(wait), timing)

    def download(
        self,
        buffer: DeviceBuffer,
        offset: int,
        host: HostBytes,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._device.download(buffer, offset, host, self._before(wait), timing)

    def copy(
        self,
        source: DeviceBuffer,
        from_: Region,
        target: DeviceBuffer,
        to: Region,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._device.copy(source, from_, target, to, self._before(wait), timing)

    def peer_copy(
        self,
        source_device: Device,
        source: DeviceBuffer,
        source_offset: int,
        target: DeviceBuffer,
        target_offset: int,
        nbytes: int,
        leave: Sequence[Ticket],
        arrive: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        return self._device.peer_copy(
            source_device,
            source,
            source_offset,
            target,
            target_offset,
            nbytes,
            leave,
            self._before(arrive),
            timing,
        )

    def upload_rows(
        self,
        host: HostBytes,
        buffer: DeviceBuffer,
        offset: int,
        rows: Rows,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._device.upload_rows(host, buffer, offset, rows, self._before(wait), timing)

    def download_rows(
        self,
        buffer: DeviceBuffer,
        offset: int,
        host: HostBytes,
        rows: Rows,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._device.download_rows(buffer, offset, host, rows, self._before(wait), timing)

    def peer_copy_rows(
        self,
        source_device: Device,
        source: DeviceBuffer,
        source_offset: int,
        target: DeviceBuffer,
        target_offset: int,
        rows: Rows,
        leave: Sequence[Ticket],
        arrive: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        return self._device.peer_copy_rows(
            source_device,
            source,
            source_offset,
            target,
            target_offset,
            rows,
            leave,
            self._before(arrive),
            timing,
        )

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

    def diff(
        self, comparison: Comparison, changes: DeviceBuffer, wait: Sequence[Ticket], timing: Timing = MEASURED
    ) -> Ticket:
        return self._device.diff(comparison, changes, self._before(wait), timing)

    def apply(
        self, comparison: Comparison, changes: DeviceBuffer, wait: Sequence[Ticket], timing: Timing = MEASURED
    ) -> Ticket:
        return self._device.apply(comparison, changes, self._before(wait), timing)

    def set_pixels(
        self,
        buffer: DeviceBuffer,
        offset: int,
        image: DeviceBuffer,
        slabs: Slabs,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._device.set_pixels(buffer, offset, image, slabs, self._before(wait), timing)

    def get_pixels(
        self,
        image: DeviceBuffer,
        slabs: Slabs,
        buffer: DeviceBuffer,
        offset: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._device.get_pixels(image, slabs, buffer, offset, self._before(wait), timing)

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        return self._device.build(text, options)

    def answers(self, questions: Sequence[str], options: Sequence[str]) -> Answers:
        return self._device.answers(questions, options)

    def kernel_facts(self, program: DeviceProgram, kernel: str) -> KernelFacts:
        return self._device.kernel_facts(program, kernel)

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

    def memory_in_use(self) -> int:
        return self._device.memory_in_use()

    def close(self) -> None:
        self._device.close()
