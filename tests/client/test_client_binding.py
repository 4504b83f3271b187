"""OpenCL by ctypes, for programs that test the C client.

Run one by ``python -m tests.client.test_client_binding MODULE NAME``.  Functions come from ``libOpenCL.so.1``
(any loader) with the types of the API table.  ``Cl`` adds what every program needs; its shortcuts fail on
any code but CL_SUCCESS.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sdi.wire.api import ENTRIES
from sdi.wire.layout import offset_of
from sdi.wire.records import ARENA_HEADER

Program = Callable[["Cl"], None]

READ, WRITE, INVALIDATE = 1, 2, 4
USE_HOST_PTR, ALLOC_HOST_PTR, COPY_HOST_PTR = 8, 16, 32
READ_WRITE, WRITE_ONLY, READ_ONLY = 1, 2, 4
HOST_WRITE_ONLY, HOST_READ_ONLY, HOST_NO_ACCESS = 128, 256, 512
COMPLETE, RUNNING, SUBMITTED, QUEUED = 0, 1, 2, 3
OUT_OF_ORDER, PROFILING = 1, 2

_TYPES: dict[str, type] = {
    "cl_int": ctypes.c_int32,
    "cl_uint": ctypes.c_uint32,
    "cl_ulong": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
}

ADD = "__kernel void add(global int *data, int term) {}"


class _Log:
    """The services' log; what was read is not read again."""

    def __init__(self) -> None:
        self._lines: list[dict] = []
        self._nbytes = 0
        self._lock = threading.Lock()

    def lines(self) -> list[dict]:
        """All that are whole."""
        with self._lock, Path(os.environ["SDI_FAKE_LOG"]).open("rb") as file:
            file.seek(self._nbytes)
            whole, end, _ = file.read().rpartition(b"\n")
            self._lines += map(json.loads, whole.splitlines())
            self._nbytes += len(whole + end)
            return self._lines.copy()


_log = _Log()


class ClientError(AssertionError):
    """A function that should have succeeded returned this code."""


def sizes(values: Sequence[int] | None) -> object:
    """An array of size_t, or NULL."""
    return (ctypes.c_size_t * len(values))(*values) if values is not None else None


def handles(values: Sequence[int]) -> object:
    """An array of handles, or NULL when there are none."""
    return (ctypes.c_void_p * len(values))(*values) if values else None


class Cl:
    """The functions of the API (``cl.clFinish(...)``) and shortcuts."""

    def __init__(self) -> None:
        self.loader = ctypes.CDLL("libOpenCL.so.1")
        self.functions: dict[str, Callable[..., int]] = {}
        self.kept: list[object] = []
        for entry in ENTRIES:
            if entry.reserved or not hasattr(self.loader, entry.name):
                continue
            function = getattr(self.loader, entry.name)
            function.argtypes = [_TYPES.get(p, ctypes.c_void_p) for p in entry.parameters]
            function.restype = None if entry.result == "void" else _TYPES.get(entry.result, ctypes.c_void_p)
            self.functions[entry.name] = function

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cl"):
            raise AttributeError(name)
        return self.functions[name]

    # -- checking --------------------------------------------------------------------------------------

    @staticmethod
    def check(status: int) -> None:
        """Fail on an error code."""
        if status != 0:
            raise ClientError(f"status {status}")

    def made(self, name: str, *arguments: object) -> tuple[int | None, int]:
        """Call a function that ends with errcode_ret: its result and the code."""
        status = ctypes.c_int32(12345)
        return self.functions[name](*arguments, ctypes.byref(status)), status.value

    def make(self, name: str, *arguments: object) -> int:
        """The same, and it must succeed."""
        result, status = self.made(name, *arguments)
        self.check(status)
        assert result
        return result

    def code(self, name: str, *arguments: object) -> int:
        """The same, and it must fail: the code."""
        result, status = self.made(name, *arguments)
        assert not result, f"{name} succeeded"
        return status

    # -- information -----------------------------------------------------------------------------------

    def info(self, name: str, *arguments: object) -> bytes:
        """The bytes that a clGet*Info function answers."""
        size = ctypes.c_size_t()
        self.check(self.functions[name](*arguments, 0, None, ctypes.byref(size)))
        value = ctypes.create_string_buffer(max(1, size.value))
        self.check(self.functions[name](*arguments, size.value, value, None))
        return value.raw[: size.value]

    def number(self, name: str, *arguments: object) -> int:
        """The same as an integer."""
        return int.from_bytes(self.info(name, *arguments), "little")

    def text(self, name: str, *arguments: object) -> str:
        """The same as text."""
        data = self.info(name, *arguments)
        assert data[-1:] == b"\0"
        return data[:-1].decode()

    def status(self, event: int) -> int:
        """Execution status of an event."""
        value = self.number("clGetEventInfo", event, 0x11D3)
        return value - (1 << 32) if value >= 1 << 31 else value

    # -- objects ---------------------------------------------------------------------------------------

    def platform(self) -> int:
        """The SDI platform."""
        found = (ctypes.c_void_p * 8)()
        num = ctypes.c_uint32()
        self.check(self.clGetPlatformIDs(8, found, ctypes.byref(num)))
        for platform in found[: num.value]:
            if platform and self.text("clGetPlatformInfo", platform, 0x0920) == "SDI":
                return platform
        raise AssertionError("no SDI platform")

    def device(self) -> int:
        """Its device; starts the service."""
        found = ctypes.c_void_p()
        self.check(self.clGetDeviceIDs(self.platform(), 0xFFFFFFFF, 1, ctypes.byref(found), None))
        assert found.value
        return found.value

    def context(self) -> int:
        """A context."""
        return self.make("clCreateContext", None, 1, handles([self.device()]), None, None)

    def queue(self, context: int, properties: int = 0) -> int:
        """A queue."""
        return self.make("clCreateCommandQueue", context, self.device(), properties)

    def buffer(self, context: int, nbytes: int, flags: int = 0, host: object = None) -> int:
        """A buffer."""
        return self.make("clCreateBuffer", context, flags, nbytes, host)

    def program(self, context: int, source: str, options: str | None = None) -> int:
        """A built program."""
        program = self.source(context, source)
        self.check(self.clBuildProgram(program, 0, None, options.encode() if options else None, None, None))
        return program

    def source(self, context: int, source: str) -> int:
        """A program that isn't built."""
        strings = (ctypes.c_char_p * 1)(source.encode())
        return self.make("clCreateProgramWithSource", context, 1, strings, None)

    def kernel(self, program: int, name: str) -> int:
        """A kernel."""
        return self.make("clCreateKernel", program, name.encode())

    def user_event(self, context: int) -> int:
        """A user event."""
        return self.make("clCreateUserEvent", context)

    # -- arguments and commands ------------------------------------------------------------------------

    def set_arg(self, kernel: int, index: int, value: object, size: int | None = None) -> int:
        """The code of setting an argument to a ctypes object (None: NULL)."""
        nbytes = size if size is not None else ctypes.sizeof(value)  # type: ignore[arg-type]
        return self.clSetKernelArg(kernel, index, nbytes, None if value is None else ctypes.byref(value))  # type: ignore[arg-type]

    def set_args(self, kernel: int, *values: object) -> None:
        """Set all arguments; they must be right."""
        for index, value in enumerate(values):
            self.check(self.set_arg(kernel, index, value))

    def launch(
        self, queue: int, kernel: int, n: int = 256, waits: Sequence[int] = (), event: object = None
    ) -> None:
        """Enqueue a kernel over ``n`` work-items."""
        self.check(
            self.clEnqueueNDRangeKernel(
                queue, kernel, 1, None, sizes([n]), None, len(waits), handles(waits), event
            )
        )

    def write(self, queue: int, buffer: int, data: bytes, offset: int = 0) -> None:
        """A blocking write."""
        self.check(self.clEnqueueWriteBuffer(queue, buffer, 1, offset, len(data), data, 0, None, None))

    def read(self, queue: int, buffer: int, nbytes: int, offset: int = 0) -> bytes:
        """A blocking read."""
        data = ctypes.create_string_buffer(nbytes)
        self.check(self.clEnqueueReadBuffer(queue, buffer, 1, offset, nbytes, data, 0, None, None))
        return data.raw

    def event_of(self, name: str, *arguments: object) -> int:
        """Call an enqueueing function that ends with an event; the event."""
        event = ctypes.c_void_p()
        self.check(self.functions[name](*arguments, ctypes.byref(event)))
        assert event.value
        return event.value

    def wait(self, *events: int) -> int:
        """The code of waiting for events."""
        return self.clWaitForEvents(len(events), handles(events))

    def callback(self, function: Callable[..., None], *types: type) -> object:
        """A C callback (with user data last) that lives as long as this object."""
        made = ctypes.CFUNCTYPE(None, *types, ctypes.c_void_p)(function)
        self.kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p)

    # -- what the service saw --------------------------------------------------------------------------

    @staticmethod
    def records(*ops: str) -> list[dict]:
        """The records of these kinds that the service has received so far, in order."""
        found = [r for r in Cl.lines() if "op" in r]
        return [r for r in found if r["op"] in ops or not ops]

    @staticmethod
    def counted(name: str) -> int:
        """A count of the header of the memory that this process and its service share."""
        maps = Path("/proc/self/maps").read_text().splitlines()
        (begin, *_), *_ = (line.split("-") for line in maps if " 00000000 " in line and "sdi-fake" in line)
        return ctypes.c_uint64.from_address(int(begin, 16) + offset_of(ARENA_HEADER, name)).value

    @staticmethod
    def starts() -> list[dict]:
        """What every service that was started found in its process."""
        return [r["start"] for r in Cl.lines() if "start" in r]

    @staticmethod
    def lines() -> list[dict]:
        """The services' log, without a line that is being written just now."""
        return _log.lines()

    def last(self, op: str) -> dict:
        """The last record of a kind."""
        return self.records(op)[-1]


def until(condition: Callable[[], bool]) -> None:
    """Look again until it is true; the run's time limit is the limit."""
    while not condition():
        time.sleep(0)


def asks_the_kernel() -> Iterator[int]:
    """The descriptors by which the client asks which pages were written."""
    for each in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(each)
        except FileNotFoundError:
            continue
        if "userfaultfd" in target or target.endswith("/pagemap"):
            yield int(each.name)


def main() -> None:
    """Run one program."""
    module, name = sys.argv[1:]
    program: Program = getattr(importlib.import_module(module), name)
    program(Cl())


if __name__ == "__main__":
    main()
