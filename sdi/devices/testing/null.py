"""A member that answers at once and computes nothing: what remains is what sdi itself does."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from sdi.clc.preprocess.clang_dialect import ask
from sdi.clc.preprocess.compiler import Ask
from sdi.devices.base import BoundArgument, Comparison, KernelFacts, MergeStep, Place, SubGroupQuery
from sdi.devices.capabilities import GPU, Capabilities, MemberKind
from sdi.devices.handles import BoundKernel, DeviceBuffer, DeviceProgram, HostBytes
from sdi.devices.image import ImageShape
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.join import join, united
from sdi.devices.memory_share import MemoryShare
from sdi.devices.native import NativeMember
from sdi.devices.signals import Signals
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3
from sdi.region import Region
from sdi.wire.opencl import DeviceInfo

_INFO = {
    int(DeviceInfo.EXTENSIONS): b"cl_khr_byte_addressable_store\0",
    int(DeviceInfo.MAX_MEM_ALLOC_SIZE): (1 << 34).to_bytes(8, "little"),
}


class NullDevice:
    """Implements ``Device``: operations are done as soon as what they wait for is, and change no byte.

    ``keeps``: they are done when ``complete`` is called, whatever they wait for.  ``copies``, ``launches``:
    how many it was asked for.  Owned by: the issuing thread.
    """

    native: NativeMember | None = None
    signals: Signals | None = None

    def __init__(
        self,
        number: int,
        kind: MemberKind = GPU,
        memory_nbytes: int = 1 << 34,
        info: Mapping[int, bytes] = _INFO,
        keeps: bool = False,
    ) -> None:
        name = f"null {number}"
        self.capabilities = Capabilities(name, kind, "", "", name, memory_nbytes, info)
        self.copies = self.launches = 0
        self._keeps: Final = keeps
        self._kept: Final[deque[Ticket]] = deque()
        self.memory: MemoryShare = MemoryShare(name, memory_nbytes)
        self.ask: Ask = ask

    def complete(self, keep: int = 0) -> None:
        """End all operations that were kept but the last ``keep``."""
        while len(self._kept) > keep:
            self._kept.popleft().complete(None, 1, 2)

    def _issue(self, wait: Sequence[Ticket], more: Sequence[Ticket] = ()) -> Ticket:
        ticket = Ticket(self)
        if self._keeps:
            self._kept.append(ticket)
        else:
            join(united(wait, more), ticket.complete)
        return ticket

    def allocate(self, wanted: int | ImageShape | HostBytes, on_host: bool = False) -> DeviceBuffer:
        if isinstance(wanted, memoryview):
            return DeviceBuffer(0)
        nbytes = wanted if isinstance(wanted, int) else wanted.nbytes
        if on_host:
            return DeviceBuffer(0)
        self.memory.take(nbytes)
        return DeviceBuffer(nbytes)

    def free(self, buffer: DeviceBuffer) -> None:
        assert isinstance(buffer, int)
        self.memory.give(buffer)

    def host_bytes(self, buffer: DeviceBuffer) -> HostBytes | None:
        return None

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        self.copies += 1
        ticket = self._issue(source_waits, target_waits)
        return ticket, ticket

    def merge(
        self,
        step: MergeStep,
        comparison: Comparison,
        changes: DeviceBuffer,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._issue(wait)

    def fill(
        self,
        buffer: DeviceBuffer,
        offset: int,
        nbytes: int,
        pattern: bytes,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._issue(wait)

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        return DeviceProgram()

    def kernel_info(
        self, program: DeviceProgram, kernel: str, asked: SubGroupQuery | None = None
    ) -> KernelFacts:
        size, lanes = (4096, 8) if self.capabilities.kind.is_host_processor else (1024, 32)
        return KernelFacts(size, lanes, 0, 0, (32,) * asked.num_answers if asked is not None else ())

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        return BoundKernel(tuple(arguments))

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        self.launches += 1
        return self._issue(wait)

    def flush(self) -> None:
        """Nothing waits for that."""

    def is_lost(self) -> bool:
        return False

    def close(self) -> None:
        self.complete()
