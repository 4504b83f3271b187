"""Memory of several members that each of them reads and writes where it is.

For what is larger than one member and wanted whole by each: design/0004, "Memory of several members".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from sdi.devices.base import Device
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.testing.forwarding import ForwardingDevice


@dataclass(frozen=True, slots=True, eq=False)
class SharedBytes:
    """The same bytes as each of the members names them, and what gives them back."""

    views: tuple[DeviceBuffer, ...]
    nbytes: int
    free: Callable[[], None]


Make = Callable[[int], SharedBytes]
"""New bytes of that number, their content undefined.  Raises ClError(MEM_OBJECT_ALLOCATION_FAILURE)."""


class SpreadDevice(ForwardingDevice):
    """The memory of ``members`` together, as one more place for buffers.  It runs nothing and copies nothing:
    members do, each through its ``view``.
    """

    def __init__(self, members: Sequence[Device], make: Make, share_nbytes: Callable[[int], int]) -> None:
        """``share_nbytes(n)``: what of n bytes lies on each member.  May raise DeviceFailed."""
        super().__init__(members[0])
        self.share_nbytes: Final = share_nbytes
        self.capabilities = replace(
            members[0].capabilities,
            name="all members together",
            memory_nbytes=sum(member.capabilities.memory_nbytes for member in members),
        )
        self._make: Final = make
        self._used_nbytes = 0

    @staticmethod
    def view(buffer: DeviceBuffer, member: int) -> DeviceBuffer:
        """``buffer`` as ``member`` names it."""
        return cast(SharedBytes, buffer).views[member]

    def allocate(self, nbytes: int) -> DeviceBuffer:
        made = self._make(nbytes)
        self._used_nbytes += nbytes
        return DeviceBuffer(made)

    def host_bytes(self, buffer: DeviceBuffer) -> HostBytes | None:
        return None

    def free(self, buffer: DeviceBuffer) -> None:
        own = cast(SharedBytes, buffer)
        self._used_nbytes -= own.nbytes
        own.free()

    def memory_in_use(self) -> int:
        return self._used_nbytes

    def close(self) -> None:
        """The members are closed by who opened them."""
