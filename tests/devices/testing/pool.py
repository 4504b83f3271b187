"""Memory of all members together, as images of GPUs have it: for members on the CPU."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass

from sdi.devices.base import Device
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.kinds import Found
from sdi.devices.polling import Polling
from sdi.devices.pooled import PooledBytes, PooledMemory
from sdi.errors import ClError
from sdi.intervals import ByteRange


@dataclass(frozen=True)
class Elsewhere:
    """Memory at addresses that the application knows, and has other memory at: as GPUs have."""

    address: int

    def view(self, over: ByteRange) -> HostBytes:
        """The bytes for those of the arena."""
        return memoryview((ctypes.c_char * over.nbytes).from_address(self.address + over.start)).cast("B")


def pool_of(members: Sequence[Device], elsewhere: Elsewhere | None = None) -> PooledMemory:
    """Host memory that all members map, with as much taken from each as if a part lay there.

    It is ``elsewhere``, or anywhere.
    """

    def reserve(nbytes: int, address: int) -> bool:
        return not address or (elsewhere is not None and elsewhere.address == address)

    def share(nbytes: int) -> int:
        return -(-nbytes // len(members) // 4096) * 4096

    def make(over: ByteRange) -> PooledBytes:
        nbytes = over.nbytes
        taken: list[DeviceBuffer] = []
        try:
            for member in members:
                taken.append(member.allocate(share(nbytes)))
        except ClError:
            for member, part in zip(members, taken, strict=False):
                member.free(part)
            raise
        host: HostBytes = memoryview(mmap.mmap(-1, nbytes)).cast("B")
        if elsewhere is not None:
            host = elsewhere.view(over)
        views = tuple(member.allocate(host) for member in members)

        def free() -> None:
            for member, view, part in zip(members, views, taken, strict=True):
                member.free(view)
                member.free(part)

        return PooledBytes(views, nbytes, free)

    return PooledMemory(members, make, share, reserve)


class PoolSource:
    """No kind of members: what those have that others found."""

    def find(self) -> Sequence[Found]:
        return []

    def open(
        self, found: Found, number: int, nbytes: int, beside: Sequence[Device], polling: Polling | None
    ) -> Device | None:
        return None

    def connection(self, one: Found, other: Found) -> str:
        return ""

    def pool(self, members: Sequence[Device]) -> PooledMemory | None:
        return pool_of(members)
