"""Memory of several GPUs in one range of addresses, which all of them read and write.

For what is larger than one GPU and wanted whole by each.  Source: CUDA driver API, Virtual Memory Management.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

from sdi.devices.cuda.driver import check, slow
from sdi.devices.cuda.member import CudaDevice
from sdi.devices.cuda.memory import CudaBuffer
from sdi.devices.handles import DeviceBuffer
from sdi.devices.pooled import PooledBytes, PooledMemory
from sdi.errors import ClError, DeviceFailed, Status
from sdi.wire.cuda import (
    CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    CU_MEM_ALLOC_GRANULARITY_MINIMUM,
    CU_MEM_ALLOCATION_TYPE_PINNED,
    CU_MEM_LOCATION_TYPE_DEVICE,
)


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


@dataclass(slots=True, eq=False)
class Spread:
    """``nbytes`` from ``address`` on, in pieces of one size, one on each of the GPUs ``ordinals``."""

    address: int
    nbytes: int
    ordinals: tuple[int, ...]
    piece_nbytes: int
    _handles: list[int] = field(default_factory=list)

    def free(self) -> None:
        """Give everything back; nothing may use it."""
        driver = slow()
        for number, handle in enumerate(self._handles):
            driver.cuMemUnmap(self.address + number * self.piece_nbytes, self.piece_nbytes)
            driver.cuMemRelease(handle)
        self._handles.clear()
        driver.cuMemAddressFree(self.address, self.piece_nbytes * len(self.ordinals))


def piece_nbytes(ordinals: Sequence[int], nbytes: int) -> int:
    """What of ``nbytes`` lies on each of the GPUs.  Raises DeviceFailed."""
    granule = ctypes.c_size_t()
    largest = 1
    for ordinal in ordinals:
        call = slow().cuMemGetAllocationGranularity(
            ctypes.byref(granule), _properties(ordinal), CU_MEM_ALLOC_GRANULARITY_MINIMUM
        )
        check(call, "cuMemGetAllocationGranularity")
        largest = max(largest, granule.value)
    share = -(-nbytes // len(ordinals))
    return -(-share // largest) * largest


def spread(ordinals: Sequence[int], nbytes: int) -> Spread:
    """New memory, its content undefined.  Raises DeviceFailed, also where the GPUs don't reach each other."""
    driver, each = slow(), piece_nbytes(ordinals, nbytes)
    address = ctypes.c_uint64()
    total = each * len(ordinals)
    check(driver.cuMemAddressReserve(ctypes.byref(address), total, 0, 0, 0), "cuMemAddressReserve")
    made = Spread(address.value, nbytes, tuple(ordinals), each)
    try:
        for number, ordinal in enumerate(ordinals):
            handle = ctypes.c_uint64()
            created = driver.cuMemCreate(ctypes.byref(handle), each, _properties(ordinal), 0)
            check(created, f"cuMemCreate of {each} bytes on GPU {ordinal}")
            mapped = driver.cuMemMap(made.address + number * each, each, 0, handle.value, 0)
            if mapped:
                driver.cuMemRelease(handle.value)
            check(mapped, "cuMemMap")
            made._handles.append(handle.value)
        access = (_Access * len(ordinals))(
            *(_Access(_place(ordinal), CU_MEM_ACCESS_FLAGS_PROT_READWRITE) for ordinal in ordinals)
        )
        check(driver.cuMemSetAccess(made.address, total, access, len(ordinals)), "cuMemSetAccess")
    except DeviceFailed:
        with contextlib.suppress(DeviceFailed):
            made.free()
        raise
    return made


def _properties(ordinal: int) -> ctypes._Pointer[_Properties]:
    return ctypes.pointer(_Properties(CU_MEM_ALLOCATION_TYPE_PINNED, 0, _place(ordinal), None))


def _place(ordinal: int) -> _Location:
    return _Location(CU_MEM_LOCATION_TYPE_DEVICE, ordinal)


def pool_over(members: Sequence[CudaDevice]) -> PooledMemory:
    """The memory of members on different GPUs together.  It has room where all reach each other directly."""

    def make(nbytes: int) -> PooledBytes:
        if not all(one.link(other) for one in members for other in members if one is not other):
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, "the GPUs do not reach each other's memory")
        ordinals = [member.gpu.ordinal for member in members]
        with contextlib.ExitStack() as undo:
            try:
                each = piece_nbytes(ordinals, nbytes)
                for member in members:
                    member.memory.take(each)
                    undo.callback(member.memory.give, each)
                made = spread(ordinals, nbytes)
            except DeviceFailed as cause:
                raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, str(cause)) from cause
            undo.callback(made.free)
            view = DeviceBuffer(CudaBuffer(None, made.address, nbytes))
            return PooledBytes((view,) * len(members), nbytes, undo.pop_all().close)

    return PooledMemory(members, make, lambda n: piece_nbytes([m.gpu.ordinal for m in members], n))
