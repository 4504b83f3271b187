"""Memory of several members that each of them reads and writes where it is.

For what is larger than one member and wanted whole by each: design/0004, "Memory of several members".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from sdi.devices.base import Device
from sdi.devices.capabilities import Capabilities
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.image import ImageShape
from sdi.devices.memory_share import MemoryShare


@dataclass(frozen=True, slots=True, eq=False)
class PooledBytes:
    """The same bytes as each of the members names them, and what gives them back."""

    views: tuple[DeviceBuffer, ...]
    nbytes: int
    free: Callable[[], None]


Make = Callable[[int], PooledBytes]
"""New bytes of that number, their content undefined.  Raises ClError(MEM_OBJECT_ALLOCATION_FAILURE)."""


class PooledMemory:
    """The memory of ``members`` together.  It is no member: they use it, each through its ``view``."""

    def __init__(self, members: Sequence[Device], make: Make, share_nbytes: Callable[[int], int]) -> None:
        """``share_nbytes(n)``: what of n bytes lies on each member.  May raise DeviceFailed."""
        self.share_nbytes: Final = share_nbytes
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

    def allocate(self, wanted: int | ImageShape | HostBytes, on_host: bool = False) -> DeviceBuffer:
        """See ``Device``; it has no images."""
        assert isinstance(wanted, int) and not on_host
        made = self._make(wanted)
        self.memory.in_use += wanted
        return DeviceBuffer(made)

    def free(self, buffer: DeviceBuffer) -> None:
        """See ``Device``."""
        own = cast(PooledBytes, buffer)
        self.memory.give(own.nbytes)
        own.free()
