"""What a driver says of a kernel's sub-groups, through the loader that pyopencl is linked to.

pyopencl asks too, but not for as many dimensions as it is told to.  Source: OpenCL 3.0 API specification,
``clGetKernelSubGroupInfo``; drivers before OpenCL 2.1 have it as a function of their extension.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import cast

import pyopencl as cl
from pyopencl import _cl

from sdi.devices.base import SubGroupQuery
from sdi.errors import ClError, DeviceFailed, Status

_Get = Callable[[int, int, int, int, object, int, object, None], int]
_SIGNATURE = ctypes.CFUNCTYPE(
    *(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p),
    *(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p),
)
_REFUSED = frozenset({Status.INVALID_VALUE, Status.INVALID_OPERATION})


def answered(kernel: cl.Kernel, device: cl.Device, name: str, asked: SubGroupQuery) -> tuple[int, ...]:
    """``name``: the member's.  Raises ClError for what the driver does not answer, DeviceFailed."""
    given, found = (ctypes.c_uint64 * 3)(*asked.given), (ctypes.c_uint64 * asked.num_answers)()
    get = _function(device)
    status = get(
        *(kernel.int_ptr, device.int_ptr, asked.param, 8 * len(asked.given), given if asked.given else None),
        *(ctypes.sizeof(found), found, None),
    )
    if status in _REFUSED:
        raise ClError(Status(status), f"{name}: query {asked.param:#x} of sub-groups, given {asked.given}")
    if status:
        raise DeviceFailed(name, f"clGetKernelSubGroupInfo({asked.param:#x}): status {status}")
    return tuple(found)


def _function(device: cl.Device) -> _Get:
    """The driver's function.  Raises ClError where it has none."""
    loader = ctypes.CDLL(_cl.__file__)
    platform = device.platform
    if tuple(map(int, platform.version.split()[1].split("."))) >= (2, 1):
        return cast(_Get, _SIGNATURE(("clGetKernelSubGroupInfo", loader)))
    find = loader.clGetExtensionFunctionAddressForPlatform
    find.argtypes, find.restype = (ctypes.c_void_p, ctypes.c_char_p), ctypes.c_void_p
    found = find(platform.int_ptr, b"clGetKernelSubGroupInfoKHR")
    if not found:
        raise ClError(Status.INVALID_OPERATION, f"{platform.name} has no clGetKernelSubGroupInfoKHR")
    return cast(_Get, _SIGNATURE(found))
