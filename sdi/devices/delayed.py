"""A member that is late: a test hook (SDI_TEST_DELAY_MEMBER) that shows what does not wait for it."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

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
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3

_DELAYS_NS = (2_000_000, 0, 3_000_000, 500_000, 1_000_000)


class DelayedDevice:
    """``device``, but each operation starts some time after it was issued, as if the member were busy.

    ``delay_ns()`` says how much for the next operation (a fixed cycle of 0 to 3 ms by default).  Delays start
    at issue, so they overlap: n operations issued at once are late by one delay, not n.  Released in order.
    Owned by: the issuing thread; its own ``-late`` thread releases.
    """

    def __init__(self, device: Device, delay_ns: Callable[[], int] | None = None) -> None:
        self.facts: DeviceFacts = device.facts
        self._device: Final = device
        self._delay_ns: Final = delay_ns or itertools.cycle(_DELAYS_NS).__next__
        self._changed: Final = threading.Condition()
        self._gates: Final[deque[tuple[int, Ticket]]] = deque()
        self._closing = False
        self._thread: Final = threading.Thread(target=self._run, name="sdi-late", daemon=True)
        self._thread.start()

    def upload(self, host: HostBytes, buffer: DeviceBuffer, offset: int, wait: Sequence[Ticket]) -> Ticket:
        return self._device.upload(host, buffer, offset, self._late(wait))

    def download(self, buffer: DeviceBuffer, offset: int, host: HostBytes, wait: Sequence[Ticket]) -> Ticket:
        return self._device.download(buffer, offset, host, self._late(wait))

    def copy(
        self,
        source: DeviceBuffer,
        source_offset: int,
        target: DeviceBuffer,
        target_offset: int,
        nbytes: int,
        wait: Sequence[Ticket],
    ) -> Ticket:
        return self._device.copy(source, source_offset, target, target_offset, nbytes, self._late(wait))

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
            source_device, source, source_offset, target, target_offset, nbytes, self._late(wait)
        )

    def fill(
        self, buffer: DeviceBuffer, offset: int, nbytes: int, pattern: bytes, wait: Sequence[Ticket]
    ) -> Ticket:
        return self._device.fill(buffer, offset, nbytes, pattern, self._late(wait))

    def launch(
        self, bound: BoundKernel, groups: Int3, local_size: Int3, work_dim: int, wait: Sequence[Ticket]
    ) -> Ticket:
        return self._device.launch(bound, groups, local_size, work_dim, self._late(wait))

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()
        self._device.close()

    def _late(self, wait: Sequence[Ticket]) -> list[Ticket]:
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

    def allocate(self, nbytes: int) -> DeviceBuffer:
        return self._device.allocate(nbytes)

    def adopt(self, host: HostBytes) -> DeviceBuffer:
        return self._device.adopt(host)

    def free(self, buffer: DeviceBuffer) -> None:
        self._device.free(buffer)

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        return self._device.build(text, options)

    def kernel_facts(self, program: DeviceProgram, kernel: str) -> KernelFacts:
        return self._device.kernel_facts(program, kernel)

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        return self._device.bind(program, kernel, arguments)

    def flush(self) -> None:
        self._device.flush()

    def memory_in_use(self) -> int:
        return self._device.memory_in_use()
