"""A small OpenCL application for ``sdi doctor``: ``python -I -m sdi.cli.probe LOADER``.

Uses the image through the given loader (a shared library) as any program would, with a kernel that is split,
and prints one line of JSON: ``{"device": name, "svm": bits, "first_s": seconds, "kernel_s": seconds}`` or
``{"error": what}``.  It runs in a process of its own: what goes wrong in a loader or driver stays there.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

from sdi.wire.opencl import DeviceInfo, DeviceType, MemFlags, Number

ITEMS = 4096
SOURCE = (
    b"__kernel void probe(__global uint *p, uint a) { p[get_global_id(0)] = a * (uint)get_global_id(0); }"
)
_OWN_EXTENSION = "cl_sdi_collectives"


class ProbeFailed(Exception):
    """An OpenCL call failed, or the kernel's result is wrong."""


class ProbedImage:
    """The image's platform behind one loader; what it is called is the user's affair."""

    def __init__(self, loader: str) -> None:
        self._cl = ctypes.CDLL(loader)
        for name in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer", "clCreateKernel"):
            getattr(self._cl, name).restype = c_void_p
        self._cl.clCreateProgramWithSource.restype = c_void_p
        self._platform = self._find_platform()

    def _call(self, name: str, *arguments: object) -> None:
        status = getattr(self._cl, name)(*arguments)
        if status != 0:
            raise ProbeFailed(f"{name} answers {status}")

    def _create(self, name: str, *arguments: object) -> c_void_p:
        status = c_int(0)
        made = getattr(self._cl, name)(*arguments, byref(status))
        if status.value != 0 or not made:
            raise ProbeFailed(f"{name} answers {status.value}")
        return c_void_p(made)

    def _text(self, call: str, handle: c_void_p, param: int) -> str:
        text = ctypes.create_string_buffer(1 << 16)  # of extensions there may be many
        self._call(call, handle, c_uint(param), c_size_t(len(text)), text, None)
        return text.value.decode(errors="replace")

    def _find_platform(self) -> c_void_p:
        found, count = (c_void_p * 32)(), c_uint(0)
        status = self._cl.clGetPlatformIDs(c_uint(32), found, byref(count))
        handles = [c_void_p(handle) for handle in found[: count.value]]
        names = []
        for handle in handles:
            extensions = self._text("clGetPlatformInfo", handle, Number.PLATFORM_EXTENSIONS)
            if _OWN_EXTENSION in extensions.split():
                return handle
            names.append(self._text("clGetPlatformInfo", handle, Number.PLATFORM_NAME))
        shown = ", ".join(names) or f"none (clGetPlatformIDs answers {status})"
        raise ProbeFailed(f'no platform "SDI" behind this loader; platforms: {shown}')

    def first_device(self) -> tuple[c_void_p, str]:
        """The one device; starts the service."""
        device = c_void_p()
        self._call("clGetDeviceIDs", self._platform, c_uint64(DeviceType.ALL), c_uint(1), byref(device), None)
        return device, self._text("clGetDeviceInfo", device, DeviceInfo.NAME)

    def shared_virtual_memory(self, device: c_void_p) -> int:
        """``CL_DEVICE_SVM_CAPABILITIES``."""
        found = c_uint64()
        param = c_uint(DeviceInfo.SVM_CAPABILITIES)
        self._call("clGetDeviceInfo", device, param, c_size_t(8), byref(found), None)
        return found.value

    def run_kernel(self, device: c_void_p) -> None:
        """Build and run a kernel, check what it wrote."""
        context = self._create("clCreateContext", None, c_uint(1), byref(device), None, None)
        queue = self._create("clCreateCommandQueue", context, device, c_uint64(0))
        buffer = self._create(
            "clCreateBuffer", context, c_uint64(MemFlags.READ_WRITE), c_size_t(4 * ITEMS), None
        )
        source = c_char_p(SOURCE)
        program = self._create("clCreateProgramWithSource", context, c_uint(1), byref(source), None)
        status = self._cl.clBuildProgram(program, c_uint(1), byref(device), b"", None, None)
        if status != 0:
            log = ctypes.create_string_buffer(4096)
            self._cl.clGetProgramBuildInfo(
                program, device, c_uint(Number.PROGRAM_BUILD_LOG), c_size_t(len(log)), log, None
            )
            raise ProbeFailed(
                f"clBuildProgram answers {status}: {log.value.decode(errors='replace').strip()}"
            )
        kernel = self._create("clCreateKernel", program, b"probe")
        factor = c_uint(3)
        self._call("clSetKernelArg", kernel, c_uint(0), c_size_t(8), byref(buffer))
        self._call("clSetKernelArg", kernel, c_uint(1), c_size_t(4), byref(factor))
        items, group = c_size_t(ITEMS), c_size_t(64)
        no_waits = (c_uint(0), None, None)
        self._call(
            "clEnqueueNDRangeKernel", queue, kernel, c_uint(1), None, byref(items), byref(group), *no_waits
        )
        result = (c_uint * ITEMS)()
        span = (c_size_t(0), c_size_t(4 * ITEMS))
        self._call("clEnqueueReadBuffer", queue, buffer, c_uint(1), *span, result, *no_waits)
        wrong = next((i for i in range(ITEMS) if result[i] != 3 * i), None)
        if wrong is not None:
            raise ProbeFailed(f"the kernel's result is wrong: [{wrong}] is {result[wrong]}, not {3 * wrong}")
        for name, handle in (
            ("clReleaseKernel", kernel),
            ("clReleaseProgram", program),
            ("clReleaseMemObject", buffer),
            ("clReleaseCommandQueue", queue),
            ("clReleaseContext", context),
        ):
            self._call(name, handle)


def main(loader: str) -> dict[str, str | float]:
    """What is printed."""
    try:
        image = ProbedImage(loader)
        start = time.perf_counter()
        device, name = image.first_device()
        first = time.perf_counter()
        image.run_kernel(device)
        ran = time.perf_counter()
        svm = image.shared_virtual_memory(device)
        return {"device": name, "svm": svm, "first_s": first - start, "kernel_s": ran - first}
    except (ProbeFailed, OSError, AttributeError) as error:
        return {"error": str(error)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
