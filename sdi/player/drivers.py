"""Entry points of the drivers, for the player's tables."""

from __future__ import annotations

import ctypes

_CUDA = (
    "cuCtxSetCurrent",
    "cuLaunchKernel",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventDestroy_v2",
    "cuStreamWaitEvent",
    "cuEventElapsedTime",
    "cuMemsetD8Async",
    "cuMemsetD16Async",
    "cuMemsetD32Async",
    "cuMemcpy2DAsync_v2",
)
_OPENCL = (
    "clEnqueueNDRangeKernel",
    "clSetKernelArg",
    "clEnqueueWriteBuffer",
    "clEnqueueReadBuffer",
    "clEnqueueCopyBuffer",
    "clEnqueueFillBuffer",
    "clFlush",
    "clGetEventInfo",
    "clReleaseEvent",
    "clGetEventProfilingInfo",
    "clEnqueueWriteBufferRect",
    "clEnqueueReadBufferRect",
    "clEnqueueCopyBufferRect",
)


def _table(library: ctypes.CDLL, names: tuple[str, ...]) -> ctypes.Array[ctypes.c_void_p]:
    """The functions' addresses, in the order of the table in ``player.h``."""
    found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
    return (ctypes.c_void_p * len(names))(*found)


def cuda_table() -> ctypes.Array[ctypes.c_void_p]:
    """``struct cuda_table``."""
    return _table(ctypes.CDLL("libcuda.so.1"), _CUDA)


def opencl_table() -> ctypes.Array[ctypes.c_void_p]:
    """``struct opencl_table``, of the loader that pyopencl is linked to."""
    from pyopencl import _cl

    return _table(ctypes.CDLL(_cl.__file__), _OPENCL)
