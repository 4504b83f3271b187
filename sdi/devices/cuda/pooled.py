"""Memory of several GPUs in one range of addresses, which all of them read and write.

For what is larger than one GPU and wanted whole by each, and for kernels that follow pointers into shared
virtual memory.  Source: CUDA driver API, Virtual Memory Management.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Final

from sdi.dataclass import dataclass, field
from sdi.devices.cuda.driver import check, slow
from sdi.devices.cuda.member import CudaDevice
from sdi.devices.cuda.memory import CudaBuffer
from sdi.devices.cuda.topology import do_reach
from sdi.devices.handles import DeviceBuffer
from sdi.devices.pooled import PooledBytes, PooledMemory
from sdi.errors import ClError, DeviceFailed, Status
from sdi.intervals import ByteRange
from sdi.wire.cuda import (
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    CU_MEM_ALLOC_GRANULARITY_MINIMUM,
    CU_MEM_ALLOCATION_TYPE_PINNED,
    CU_MEM_LOCATION_TYPE_DEVICE,
)

_ROOM = 4
"""So many times as much must be left where all bytes of a place lie on one GPU."""


class _Location(ctypes.Structure):
    """``CUmemLocation``."""

    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Properties(ctypes.Structure):
    """``CUmemAllocationProp``."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("handles", ctypes.c_int),
        ("location", _Location),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class _Access(ctypes.Structure):
    """``CUmemAccessDesc``."""

    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


@dataclass(slots=True)
class _Backing:
    """Memory of one GPU behind a range of the addresses.  ``users``: how many places it is part of."""

    address: int
    nbytes: int
    ordinal: int
    handle: int
    users: int = 1


class Reservation:
    """Reserved addresses, behind parts of which there is memory of the GPUs ``ordinals``.

    A place in it has the same address each time that it is made: with shared virtual memory that is the
    application's.  Memory comes in granules; those that several places have a part of are one GPU's.
    """

    def __init__(self, ordinals: Sequence[int]) -> None:
        self._ordinals: Final = tuple(dict.fromkeys(ordinals))
        self._granule_nbytes = 0
        self._shared: dict[int, _Backing] = {}
        self.address = 0

    def reserve(self, nbytes: int, address: int = 0) -> bool:
        """Whether ``nbytes`` are reserved now: from ``address`` on, or, with 0, anywhere.

        Raises DeviceFailed where there is no driver for it.
        """
        driver, found = slow(), ctypes.c_uint64()
        if driver.cuMemAddressReserve(ctypes.byref(found), nbytes, 0, address, 0):
            return False
        if address and found.value != address:
            driver.cuMemAddressFree(found.value, nbytes)
            return False
        self.address = found.value
        return True

    def most_nbytes(self, nbytes: int) -> int:
        """What of a place of ``nbytes`` lies on one of the GPUs at most.  Raises DeviceFailed."""
        granule = self._granule()
        return (-(-nbytes // granule // len(self._ordinals)) + 2) * granule

    def make(
        self,
        over: ByteRange,
        take: Callable[[int, int], None],
        give: Callable[[int, int], None],
        among: Sequence[int] | None = None,
    ) -> Spread:
        """Memory behind the bytes ``over`` of the addresses, its content undefined.  Raises DeviceFailed.

        ``take(ordinal, nbytes)``, ``give``: count what is on a GPU; the first may raise ClError.  ``among``:
        the GPUs whose memory it is, where it is not all's.
        """
        made = Spread(self.address + over.start, over.nbytes, self, give)
        try:
            for begin, nbytes, ordinal in self._cut(over, among or self._ordinals):
                shared = self._shared.get(begin)
                if shared is not None:
                    shared.users += 1
                    made.pieces.append(shared)
                    continue
                take(ordinal, nbytes)
                try:
                    piece = self._back(begin, nbytes, ordinal)
                except DeviceFailed:
                    give(ordinal, nbytes)
                    raise
                made.pieces.append(piece)
                if nbytes == self._granule():
                    self._shared[begin] = piece
        except (ClError, DeviceFailed):
            made.free()
            raise
        return made

    def drop(self, piece: _Backing) -> bool:
        """Whether the last of those that used ``piece`` does so no more, so it is gone."""
        piece.users -= 1
        if piece.users:
            return False
        self._shared.pop(piece.address - self.address, None)
        driver = slow()
        driver.cuMemUnmap(piece.address, piece.nbytes)
        driver.cuMemRelease(piece.handle)
        return True

    def _cut(self, over: ByteRange, ordinals: Sequence[int]) -> list[tuple[int, int, int]]:
        """The granules of ``over``: first offset, bytes and GPU of parts that have one handle each.

        The first and last are their own where others may need them too.
        """
        granule, count = self._granule(), len(ordinals)
        first, stop = over.start // granule, -(-over.stop // granule)
        head = first + (over.start % granule != 0)
        tail = max(head, stop - (over.stop % granule != 0))
        inner = [
            (head + (tail - head) * k // count, head + (tail - head) * (k + 1) // count, ordinal)
            for k, ordinal in enumerate(ordinals)
        ]
        found = [(first, head, ordinals[0]), *inner, (tail, stop, ordinals[-1])]
        return [(a * granule, (b - a) * granule, ordinal) for a, b, ordinal in found if a < b]

    def _back(self, begin: int, nbytes: int, ordinal: int) -> _Backing:
        driver, address = slow(), self.address + begin
        handle = ctypes.c_uint64()
        created = driver.cuMemCreate(ctypes.byref(handle), nbytes, _properties(ordinal), 0)
        check(created, f"cuMemCreate of {nbytes} bytes on GPU {ordinal}")
        mapped = driver.cuMemMap(address, nbytes, 0, handle.value, 0)
        if mapped:
            driver.cuMemRelease(handle.value)
        check(mapped, "cuMemMap")
        access = (_Access * len(self._ordinals))(
            *(_Access(_place(each), CU_MEM_ACCESS_FLAGS_PROT_READWRITE) for each in self._ordinals)
        )
        allowed = driver.cuMemSetAccess(address, nbytes, access, len(self._ordinals))
        if allowed:
            driver.cuMemUnmap(address, nbytes)
            driver.cuMemRelease(handle.value)
        check(allowed, "cuMemSetAccess")
        return _Backing(address, nbytes, ordinal, handle.value)

    def _granule(self) -> int:
        """Bytes that memory comes in on all of the GPUs."""
        granule = ctypes.c_size_t()
        for ordinal in self._ordinals if not self._granule_nbytes else ():
            call = slow().cuMemGetAllocationGranularity(
                ctypes.byref(granule), _properties(ordinal), CU_MEM_ALLOC_GRANULARITY_MINIMUM
            )
            check(call, "cuMemGetAllocationGranularity")
            self._granule_nbytes = max(self._granule_nbytes, granule.value)
        return self._granule_nbytes


@dataclass(slots=True, eq=False)
class Spread:
    """``nbytes`` from ``address`` on, in ``pieces`` on the GPUs."""

    address: int
    nbytes: int
    of: Reservation
    give: Callable[[int, int], None]
    pieces: list[_Backing] = field(default_factory=list)

    def free(self) -> None:
        """Give everything back; nothing may use it."""
        for piece in self.pieces:
            if self.of.drop(piece):
                self.give(piece.ordinal, piece.nbytes)
        self.pieces.clear()


def _properties(ordinal: int) -> ctypes._Pointer[_Properties]:
    return ctypes.pointer(_Properties(CU_MEM_ALLOCATION_TYPE_PINNED, 0, _place(ordinal), None))


def _place(ordinal: int) -> _Location:
    return _Location(CU_MEM_LOCATION_TYPE_DEVICE, ordinal)


def pool_over(members: Sequence[CudaDevice]) -> PooledMemory:
    """The memory of members on GPUs together.  It has room where all reach each other directly.

    Bytes lie on the first GPU while it has several times as much room, else on all: most launches that need
    them there run on one member, and a link is several times as slow as a GPU's own memory.
    """
    of_gpu = {member.gpu.ordinal: member for member in members}  # of several that share one, the last counts
    addresses = Reservation([member.gpu.ordinal for member in members])
    pairs = list(combinations(of_gpu.values(), 2))

    def reserve(nbytes: int, address: int) -> bool:
        try:
            return all(do_reach(one.gpu, other.gpu) for one, other in pairs) and addresses.reserve(
                nbytes, address
            )
        except DeviceFailed:
            return False

    def make(over: ByteRange) -> PooledBytes:
        if not addresses.address or not all(one.link(other) and other.link(one) for one, other in pairs):
            what = "the GPUs do not reach each other's memory, or have no addresses for it"
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, what)
        first = next(iter(of_gpu))
        memory = of_gpu[first].memory
        is_roomy = _ROOM * over.nbytes <= memory.nbytes - memory.in_use
        try:
            made = addresses.make(
                over,
                lambda ordinal, nbytes: of_gpu[ordinal].memory.take(nbytes),
                lambda ordinal, nbytes: of_gpu[ordinal].memory.give(nbytes),
                [first] if is_roomy else None,
            )
        except DeviceFailed as cause:
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, str(cause)) from cause
        view = DeviceBuffer(CudaBuffer(None, made.address, made.nbytes))
        return PooledBytes((view,) * len(members), made.nbytes, made.free)

    return PooledMemory(members, make, addresses.most_nbytes, reserve)
