"""Loaded code of a GPU, and its functions, by the driver's own handles.

Not pycuda's, which keeps the handles to itself: the player launches functions too.  All of it is used only
while the module's context is current; a module that is dropped is unloaded by whoever drops it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Final, Protocol

from sdi.devices.cuda.driver import check, quick, slow
from sdi.ndrange import Int3
from sdi.wire.cuda import CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE

"""Which words of a launch's extra arguments follow.  Source: CUDA driver API, cuLaunchKernel."""


class _Stream(Protocol):
    @property
    def handle(self) -> int: ...


@functools.cache
def _launch() -> Callable[..., int]:
    number, handle = ctypes.c_uint, ctypes.c_void_p
    call = quick().cuLaunchKernel
    call.argtypes = [handle, *[number] * 7, handle, handle, handle]
    found: Callable[..., int] = call
    return found


class CudaFunction:
    """A kernel of a module.  ``handle``: the driver's."""

    def __init__(self, handle: int, module: CudaModule) -> None:
        self.handle: Final = handle
        self._module: Final = module  # which stays loaded as long

    def get_attribute(self, attribute: int) -> int:
        """Raises DeviceFailed."""
        value = ctypes.c_int()
        call = quick().cuFuncGetAttribute
        check(call(ctypes.byref(value), int(attribute), ctypes.c_void_p(self.handle)), "cuFuncGetAttribute")
        return value.value

    def set_attribute(self, attribute: int, value: int) -> None:
        """Raises DeviceFailed."""
        call = quick().cuFuncSetAttribute
        check(call(ctypes.c_void_p(self.handle), int(attribute), int(value)), "cuFuncSetAttribute")

    def fitting(self, items: int, local_nbytes: int) -> int:
        """How many groups of so many work-items, with so much local memory each, a unit has room for.

        The module's context is current.  Raises DeviceFailed.
        """
        value = ctypes.c_int()
        call = quick().cuOccupancyMaxActiveBlocksPerMultiprocessor
        status = call(
            ctypes.byref(value), ctypes.c_void_p(self.handle), int(items), ctypes.c_size_t(local_nbytes)
        )
        check(status, "cuOccupancyMaxActiveBlocksPerMultiprocessor")
        return value.value

    def starter(
        self, grid: Int3, block: Int3, parameters: bytes, shared_nbytes: int, stream: _Stream
    ) -> Callable[[], None]:
        """What launches, any number of times; all that stays the same is made here."""
        content = ctypes.create_string_buffer(parameters, len(parameters))
        nbytes = ctypes.c_size_t(len(parameters))
        extra = (ctypes.c_void_p * 5)(
            CU_LAUNCH_PARAM_BUFFER_POINTER,
            ctypes.addressof(content),
            CU_LAUNCH_PARAM_BUFFER_SIZE,
            ctypes.addressof(nbytes),
            None,
        )
        numbers = [ctypes.c_uint(number) for number in (*grid, *block, shared_nbytes)]
        launch = functools.partial(
            _launch(),
            ctypes.c_void_p(self.handle),
            *numbers,
            ctypes.c_void_p(stream.handle),
            None,
            ctypes.byref(extra),
        )
        kept = (content, nbytes, extra, self)

        def start(_kept: object = kept) -> None:
            status = launch()
            if status:
                check(status, "cuLaunchKernel")

        return start


class CudaModule:
    """Code that is loaded in the current context.  Raises DeviceFailed."""

    def __init__(self, code: bytes) -> None:
        handle = ctypes.c_void_p()
        check(slow().cuModuleLoadData(ctypes.byref(handle), code), "cuModuleLoadData")
        self._handle = handle

    def get_function(self, name: str) -> CudaFunction:
        """Raises DeviceFailed."""
        found = ctypes.c_void_p()
        check(
            quick().cuModuleGetFunction(ctypes.byref(found), self._handle, name.encode()),
            "cuModuleGetFunction",
        )
        return CudaFunction(found.value or 0, self)

    def get_global(self, name: str) -> tuple[int, int]:
        """Address and bytes of a variable.  Raises DeviceFailed."""
        address, nbytes = ctypes.c_uint64(), ctypes.c_size_t()
        call = quick().cuModuleGetGlobal_v2
        check(
            call(ctypes.byref(address), ctypes.byref(nbytes), self._handle, name.encode()),
            "cuModuleGetGlobal",
        )
        return address.value, nbytes.value

    def unload(self) -> None:
        """Nothing of it is used any more."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            slow().cuModuleUnload(handle)
