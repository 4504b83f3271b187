"""Memory of several members that each of them reads and writes where it is.

For what is larger than one member and wanted whole by each: design/0004, "Memory of several members"; and for
kernels that follow pointers: design/0022.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from sdi.dataclass import dataclass, replace
from sdi.devices.base import Device
from sdi.devices.capabilities import Capabilities
from sdi.devices.handles import DeviceBuffer
from sdi.devices.memory_share import MemoryShare
from sdi.intervals import ByteRange


@dataclass(frozen=True, slots=True, eq=False)
class PooledBytes:
    """The same bytes as each of the members names them, and what gives them back."""

    views: tuple[DeviceBuffer, ...]
    nbytes: int
    free: Callable[[], None]


Make = Callable[[ByteRange], PooledBytes]
"""New memory for those bytes of the arena, its content undefined; at the application's addresses, if they are
reserved.  Raises ClError(MEM_OBJECT_ALLOCATION_FAILURE)."""
Reserve = Callable[[int, int], bool]
"""Whether so many bytes are reserved from an address on now; with 0, from any."""


class PooledMemory:
    """The memory of ``members`` together.  It is no member: they use it, each through its ``view``."""

    def __init__(
        self,
        members: Sequence[Device],
        make: Make,
        share_nbytes: Callable[[int], int],
        reserve: Reserve = lambda nbytes, address: not address,
    ) -> None:
        """``share_nbytes(n)``: what of n bytes lies on each member at most.  May raise DeviceFailed."""
        self.share_nbytes: Final = share_nbytes
        self.reserve: Final = reserve
        name = "all members together"
        self.capabilities: Capabilities = replace(
            members[0].capabilities,
            name=name,
            memory_nbytes=sum(member.capabilities.memory_nbytes for member in members),
        )
        self._make: Final = make
        self.memory: MemoryShare = MemoryShare(name, self.capabilities.memory_nbytes)

    @staticmethod
    def view(buffer: DeviceBuffer, member: int) -> DeviceBuffer:
        """``buffer`` as ``member`` names it."""
        return cast(PooledBytes, buffer).views[member]

    def allocate(self, over: ByteRange) -> DeviceBuffer:
        """New memory for those bytes of the arena.  Raises ClError(MEM_OBJECT_ALLOCATION_FAILURE)."""
        made = self._make(over)
        self.memory.in_use += made.nbytes
        return DeviceBuffer(made)

    def free(self, buffer: DeviceBuffer) -> None:
        """See ``Device``."""
        own = cast(PooledBytes, buffer)
        self.memory.give(own.nbytes)
        own.free()
