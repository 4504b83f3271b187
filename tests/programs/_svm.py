"""Shared virtual memory as the programs use it: what pyopencl has no call for goes through the loader."""

import ctypes
from collections.abc import Sequence

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array

_EXEC_INFO_SVM_PTRS = 0x11B6
_loader = ctypes.CDLL("libOpenCL.so.1")


def has_svm(device: cl.Device) -> bool:
    """Whether it has coarse-grained buffers."""
    return bool(device.svm_capabilities & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER)


def has_fine_grain(device: cl.Device) -> bool:
    """Whether it has fine-grained buffers."""
    return bool(device.svm_capabilities & cl.device_svm_capabilities.FINE_GRAIN_BUFFER)


def allocate(ctx: cl.Context, queue: cl.CommandQueue, nbytes: int) -> cl.SVMAllocation:
    """A region, freed behind what ``queue`` has been given."""
    return cl.SVMAllocation(ctx, nbytes, 0, cl.svm_mem_flags.READ_WRITE, queue)


def to_svm(ctx: cl.Context, queue: cl.CommandQueue, array: Array) -> cl.SVMAllocation:
    """A region that holds a copy of ``array``."""
    region = allocate(ctx, queue, array.nbytes)
    with region.map(queue, flags=cl.map_flags.WRITE_INVALIDATE_REGION) as mapped:
        mapped[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return region


def from_svm(queue: cl.CommandQueue, region: cl.SVMAllocation, like: Array) -> Array:
    """The region's bytes, in an array shaped and typed like ``like``."""
    with region.map_ro(queue) as mapped:
        return np.array(mapped).view(like.dtype).reshape(like.shape)


def set_pointer(kernel: cl.Kernel, index: int, address: int) -> None:
    """Set an argument to any address in a region."""
    _check(_loader.clSetKernelArgSVMPointer(_handle(kernel), ctypes.c_uint(index), ctypes.c_void_p(address)))


def reaches(kernel: cl.Kernel, regions: Sequence[cl.SVMAllocation | int]) -> None:
    """Say which regions ``kernel`` may reach beside its arguments, or any addresses in them."""
    found = [region if isinstance(region, int) else region.svm_ptr for region in regions]
    pointers = (ctypes.c_void_p * len(regions))(*found)
    nbytes = ctypes.c_size_t(ctypes.sizeof(pointers))
    _check(_loader.clSetKernelExecInfo(_handle(kernel), ctypes.c_uint(_EXEC_INFO_SVM_PTRS), nbytes, pointers))


def _handle(kernel: cl.Kernel) -> ctypes.c_void_p:
    return ctypes.c_void_p(kernel.int_ptr)


def _check(status: int) -> None:
    assert status == 0, f"status {status}"
