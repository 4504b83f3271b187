"""libOpenCL through ctypes, nothing between: every wrong argument arrives as it is given."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from sdi.wire.api import ENTRIES

_SCALARS: dict[str, Any] = {
    "cl_int": ctypes.c_int32,
    "cl_uint": ctypes.c_uint32,
    "cl_ulong": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
}
DEVICE_TYPE_ALL = 0xFFFFFFFF
PLATFORM_NAME = 0x0902


class Api:
    """All functions of the API table by their names, with their parameters' types set."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libOpenCL.so.1")
        for entry in ENTRIES:
            function = getattr(library, entry.name, None)
            if entry.reserved or function is None:
                continue
            function.argtypes = [_SCALARS.get(kind, ctypes.c_void_p) for kind in entry.parameters]
            function.restype = _SCALARS.get(entry.result, ctypes.c_void_p)
            setattr(self, entry.name, function)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the loader lacks {name}")

    def device(self) -> int:
        """The first of ``devices``."""
        return self.devices()[0]

    def devices(self) -> list[int]:
        """The devices of the platform named by ``OCL_TEST_PLATFORM``, or of the first of all."""
        found, count = (ctypes.c_void_p * 16)(), ctypes.c_uint32()
        assert self.clGetPlatformIDs(16, found, ctypes.byref(count)) == 0
        wanted = os.environ.get("OCL_TEST_PLATFORM", "").encode()
        for platform in found[: count.value]:
            name = ctypes.create_string_buffer(256)
            assert self.clGetPlatformInfo(platform, PLATFORM_NAME, 256, name, None) == 0
            if wanted in name.value:
                assert self.clGetDeviceIDs(platform, DEVICE_TYPE_ALL, 16, found, ctypes.byref(count)) == 0
                return [int(device or 0) for device in found[: count.value]]
        raise LookupError(f"no platform {wanted.decode()}")
