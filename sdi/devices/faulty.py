"""A member on which one kernel fails: a test hook (SDI_TEST_FAIL_MEMBER)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from sdi.devices.base import (
    BoundArgument,
    BoundKernel,
    Device,
    DeviceBuffer,
    DeviceFacts,
    DeviceProgram,
    HostBytes,
    KernelFacts,
)
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.ndrange import Int3


@dataclass(frozen=True, slots=True)
class _FaultyKernel:
    """What ``bind`` answers for the kernel that fails."""

    name: str


class FaultyDevice:
    """``device``, but launches of ``kernel`` run nothing and fail with DeviceFailed when their turn comes."""

    def __init__(self, device: Device, kernel: str) -> None:
        self.facts: DeviceFacts = device.facts
        self._device = device
        self._kernel = kernel

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        if kernel == self._kernel:
            return BoundKernel(_FaultyKernel(kernel))
        return self._device.bind(program, kernel, arguments)

    def launch(
        self, bound: BoundKernel, groups: Int3, local_size: Int3, work_dim: int, wait: Sequence[Ticket]
    ) -> Ticket:
        faulty = cast(object, bound)
        if not isinstance(faulty, _FaultyKernel):
            return self._device.launch(bound, groups, local_size, work_dim, wait)
        ticket = Ticket()
        failure = DeviceFailed(self.facts.name, f"kernel {faulty.name} fails because a test asked for it")
        join(wait, lambda error: ticket.complete(error or failure))
        return ticket

    def allocate(self, nbytes: int) -> DeviceBuffer:
        return self._device.allocate(nbytes)

    def adopt(self, host: HostBytes) -> DeviceBuffer:
        return self._device.adopt(host)

    def free(self, buffer: DeviceBuffer) -> None:
        self._device.free(buffer)

    def upload(self, host: HostBytes, buffer: DeviceBuffer, offset: int, wait: Sequence[Ticket]) -> Ticket:
        return self._device.upload(host, buffer, offset, wait)

    def download(self, buffer: DeviceBuffer, offset: int, host: HostBytes, wait: Sequence[Ticket]) -> Ticket:
        return self._device.download(buffer, offset, host, wait)

    def copy(
        self,
        source: DeviceBuffer,
        source_offset: int,
        target: DeviceBuffer,
        target_offset: int,
        nbytes: int,
        wait: Sequence[Ticket],
    ) -> Ticket:
        return self._device.copy(source, source_offset, target, target_offset, nbytes, wait)

    def peer_copy(
        self,
        source_device: Device,
        source: DeviceBuffer,
        source_offset: int,
        target: DeviceBuffer,
        target_offset: int,
        nbytes: int,
        wait: Sequence[Ticket],
    ) -> Ticket:
        return self._device.peer_copy(
            source_device, source, source_offset, target, target_offset, nbytes, wait
        )

    def fill(
        self, buffer: DeviceBuffer, offset: int, nbytes: int, pattern: bytes, wait: Sequence[Ticket]
    ) -> Ticket:
        return self._device.fill(buffer, offset, nbytes, pattern, wait)

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        return self._device.build(text, options)

    def kernel_facts(self, program: DeviceProgram, kernel: str) -> KernelFacts:
        return self._device.kernel_facts(program, kernel)

    def flush(self) -> None:
        self._device.flush()

    def memory_in_use(self) -> int:
        return self._device.memory_in_use()

    def close(self) -> None:
        self._device.close()
