"""The CUDA driver: pycuda, and calls that it lacks or has only for threads with its own stack of contexts.

``drv``: pycuda's module, None where it is missing.
"""

from __future__ import annotations

import ctypes
import functools

from sdi.errors import DeviceFailed
from sdi.region import Region
from sdi.wire.cuda import CU_MEMORYTYPE_UNIFIED

try:
    import pycuda.driver as drv
except (ImportError, OSError) as _missing:
    drv = None
    _why_missing: Exception | None = _missing
else:
    _why_missing = None

__all__ = [
    "MAX_PITCH",
    "check",
    "copy_peer",
    "copy_pitched",
    "copy_region",
    "device_attribute",
    "drv",
    "memory_info",
    "quick",
    "slow",
    "why_missing",
]

MAX_PITCH = (1 << 31) - 1
"""Bytes from row to row that a copy of rows may have.  Source: CU_DEVICE_ATTRIBUTE_MAX_PITCH of all GPUs."""


class _Copy2D(ctypes.Structure):
    """``CUDA_MEMCPY2D``.  Source: CUDA driver API, "Data types used by CUDA driver"."""

    _fields_ = [
        ("src_x", ctypes.c_size_t),
        ("src_y", ctypes.c_size_t),
        ("src_type", ctypes.c_uint),
        ("src_host", ctypes.c_void_p),
        ("src_device", ctypes.c_uint64),
        ("src_array", ctypes.c_void_p),
        ("src_pitch", ctypes.c_size_t),
        ("dst_x", ctypes.c_size_t),
        ("dst_y", ctypes.c_size_t),
        ("dst_type", ctypes.c_uint),
        ("dst_host", ctypes.c_void_p),
        ("dst_device", ctypes.c_uint64),
        ("dst_array", ctypes.c_void_p),
        ("dst_pitch", ctypes.c_size_t),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    ]


class _Copy3D(ctypes.Structure):
    """``CUDA_MEMCPY3D``.  Source: CUDA driver API, "Data types used by CUDA driver"."""

    _fields_ = [
        ("src_x", ctypes.c_size_t),
        ("src_y", ctypes.c_size_t),
        ("src_z", ctypes.c_size_t),
        ("src_lod", ctypes.c_size_t),
        ("src_type", ctypes.c_uint),
        ("src_host", ctypes.c_void_p),
        ("src_device", ctypes.c_uint64),
        ("src_array", ctypes.c_void_p),
        ("src_reserved", ctypes.c_void_p),
        ("src_pitch", ctypes.c_size_t),
        ("src_height", ctypes.c_size_t),
        ("dst_x", ctypes.c_size_t),
        ("dst_y", ctypes.c_size_t),
        ("dst_z", ctypes.c_size_t),
        ("dst_lod", ctypes.c_size_t),
        ("dst_type", ctypes.c_uint),
        ("dst_host", ctypes.c_void_p),
        ("dst_device", ctypes.c_uint64),
        ("dst_array", ctypes.c_void_p),
        ("dst_reserved", ctypes.c_void_p),
        ("dst_pitch", ctypes.c_size_t),
        ("dst_height", ctypes.c_size_t),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("depth", ctypes.c_size_t),
    ]


def why_missing() -> Exception | None:
    """Why there is no ``drv``."""
    return _why_missing


def _declared(lib: ctypes.CDLL) -> ctypes.CDLL:
    address, handle, size = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
    lib.cuCtxSetCurrent.argtypes = [handle]
    lib.cuMemcpyPeerAsync.argtypes = [address, handle, address, handle, size, handle]
    lib.cuMemcpyAsync.argtypes = [address, address, size, handle]
    lib.cuMemcpy2DAsync_v2.argtypes = [ctypes.POINTER(_Copy2D), handle]
    lib.cuMemcpy3DAsync_v2.argtypes = [ctypes.POINTER(_Copy3D), handle]
    lib.cuMemHostRegister_v2.argtypes = [handle, size, ctypes.c_uint]
    lib.cuMemGetInfo_v2.argtypes = [ctypes.POINTER(size), ctypes.POINTER(size)]
    lib.cuMemHostUnregister.argtypes = [handle]
    number = ctypes.POINTER(ctypes.c_int)
    lib.cuDeviceGetAttribute.argtypes = [number, ctypes.c_int, ctypes.c_int]
    if hasattr(lib, "cuStreamWaitValue32_v2"):  # drivers from 11.7 on
        for call in (lib.cuStreamWaitValue32_v2, lib.cuStreamWriteValue32_v2):
            call.argtypes = [handle, address, ctypes.c_uint32, ctypes.c_uint]
    long = ctypes.c_uint64
    lib.cuTexObjectCreate.argtypes = [ctypes.POINTER(long), handle, handle, handle]
    lib.cuTexObjectDestroy.argtypes = [long]
    lib.cuMemGetAllocationGranularity.argtypes = [ctypes.POINTER(size), handle, ctypes.c_int]
    lib.cuMemAddressReserve.argtypes = [ctypes.POINTER(long), size, size, address, long]
    lib.cuMemAddressFree.argtypes = [address, size]
    lib.cuMemCreate.argtypes = [ctypes.POINTER(long), size, handle, long]
    lib.cuMemRelease.argtypes = [long]
    lib.cuMemMap.argtypes = [address, size, size, long, long]
    lib.cuMemUnmap.argtypes = [address, size]
    lib.cuMemSetAccess.argtypes = [address, size, handle, size]
    return lib


@functools.cache
def quick() -> ctypes.CDLL:
    """For calls that return at once: they keep the GIL, since getting it back costs more than they take."""
    return _declared(ctypes.PyDLL("libcuda.so.1"))


@functools.cache
def slow() -> ctypes.CDLL:
    """For calls that may block: without the GIL."""
    return _declared(ctypes.CDLL("libcuda.so.1"))


def check(status: int, call: str) -> None:
    """Raise DeviceFailed unless ``status`` is 0."""
    if status:
        raise DeviceFailed("CUDA", f"{call} failed with {status}")


def device_attribute(ordinal: int, attribute: int) -> int:
    """One of a GPU's.  Raises DeviceFailed."""
    found = ctypes.c_int()
    check(quick().cuDeviceGetAttribute(found, attribute, ordinal), "cuDeviceGetAttribute")
    return found.value


def memory_info() -> tuple[int, int]:
    """Bytes of the current context's GPU: (free, in all).  Raises DeviceFailed, of a dead context always."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(quick().cuMemGetInfo_v2(free, total), "cuMemGetInfo")
    return free.value, total.value


def copy_peer(to: int, to_context: int, from_: int, from_context: int, nbytes: int, stream: int) -> None:
    """Copy between two GPUs.  Raises DeviceFailed."""
    check(quick().cuMemcpyPeerAsync(to, to_context, from_, from_context, nbytes, stream), "cuMemcpyPeerAsync")


def copy_pitched(to: tuple[int, int], from_: tuple[int, int], nbytes: int, count: int, stream: int) -> None:
    """Copy ``count`` rows of ``nbytes`` between (address, pitch) and (address, pitch).

    Addresses are of this GPU's memory, of page-locked host memory or of a GPU's that this one reads directly.
    Raises DeviceFailed.
    """
    if count == 1 or to[1] == from_[1] == nbytes:
        check(quick().cuMemcpyAsync(to[0], from_[0], nbytes * count, stream), "cuMemcpyAsync")
        return
    description = _Copy2D(
        src_type=CU_MEMORYTYPE_UNIFIED,
        src_device=from_[0],
        src_pitch=from_[1],
        dst_type=CU_MEMORYTYPE_UNIFIED,
        dst_device=to[0],
        dst_pitch=to[1],
        width=nbytes,
        height=count,
    )
    check(quick().cuMemcpy2DAsync_v2(description, stream), "cuMemcpy2DAsync")


def copy_region(to: Region, from_: Region, stream: int) -> None:
    """Copy between two regions of this GPU's memory that are ``alike``; their bases are addresses.

    Raises DeviceFailed.
    """
    (here, count), (there, _) = to.levels[0], from_.levels[0]
    if len(to.levels) == 1 and max(here, there) <= MAX_PITCH:
        copy_pitched((to.base, here), (from_.base, there), to.nbytes, count, stream)
    elif len(to.levels) == 2 and _is_box(to) and _is_box(from_):
        description = _Copy3D(
            src_type=CU_MEMORYTYPE_UNIFIED,
            src_device=from_.base,
            src_pitch=there,
            src_height=from_.levels[1][0] // there,
            dst_type=CU_MEMORYTYPE_UNIFIED,
            dst_device=to.base,
            dst_pitch=here,
            dst_height=to.levels[1][0] // here,
            width=to.nbytes,
            height=count,
            depth=to.counts[1],
        )
        check(quick().cuMemcpy3DAsync_v2(description, stream), "cuMemcpy3DAsync")
    else:
        for number in range(to.counts[-1]):
            part, other = to.part(number, number + 1), from_.part(number, number + 1)
            if part.levels:
                copy_region(part, other, stream)
            else:
                check(quick().cuMemcpyAsync(part.base, other.base, part.nbytes, stream), "cuMemcpyAsync")


def _is_box(region: Region) -> bool:
    """Whether the driver can copy these two levels at a time."""
    (pitch, _), (far, _) = region.levels
    return pitch <= MAX_PITCH and far % pitch == 0
