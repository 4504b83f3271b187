"""Calls that must be refused: each breaks one rule of the specification, with objects that are fine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sequences.runner import Ended, Runner

HUGE = (1 << 64) - 4
Call = Callable[["Runner", Any, Any, Any, Any], int]


def _made(runner: Runner, handle: int | None) -> int:
    """The code; 1 when it was made all the same."""
    return 1 if handle else runner.code.value


def _buffer(flags: int, nbytes: int, pointer: Any) -> Call:
    return lambda r, b, q, k, p: _made(r, r.api.clCreateBuffer(r.context, flags, nbytes, pointer, r.error()))


def _part(flags: int, origin: int, nbytes: int, kind: int = 0x1220) -> Call:
    return lambda r, b, q, k, p: _made(
        r, r.api.clCreateSubBuffer(b, flags, kind, r.sizes((origin, nbytes)), r.error())
    )


def _read(offset: int, nbytes: int, pointer: bool = True, waits: int = 0) -> Call:
    return lambda r, b, q, k, p: r.api.clEnqueueReadBuffer(
        q, b, 1, offset, nbytes, r.memory["h0"] if pointer else None, waits, None, None
    )


def _write(offset: int, nbytes: int, pointer: bool = True) -> Call:
    return lambda r, b, q, k, p: r.api.clEnqueueWriteBuffer(
        q, b, 0, offset, nbytes, r.memory["h0"] if pointer else None, 0, None, None
    )


def _read_box(region: tuple[int, ...], row: int, slice_: int) -> Call:
    def call(r: Runner, b: Any, q: Any, k: Any, p: Any) -> int:
        zero = r.sizes((0, 0, 0))
        code: int = r.api.clEnqueueReadBufferRect(
            q, b, 1, zero, zero, r.sizes(region), row, slice_, 0, 0, r.memory["h0"], 0, None, None
        )
        return code

    return call


def _fill(pattern: int, offset: int, nbytes: int) -> Call:
    return lambda r, b, q, k, p: r.api.clEnqueueFillBuffer(
        q, b, bytes(256) if pattern else None, pattern, offset, nbytes, 0, None, None
    )


def _map(flags: int, offset: int, nbytes: int) -> Call:
    return lambda r, b, q, k, p: _made(
        r, r.api.clEnqueueMapBuffer(q, b, 1, flags, offset, nbytes, 0, None, None, r.error())
    )


def _launch(dims: int, sizes: tuple[int, ...] | None, local: tuple[int, ...] | None) -> Call:
    return lambda r, b, q, k, p: r.api.clEnqueueNDRangeKernel(
        q, k, dims, None, r.sizes(sizes) if sizes else None, r.sizes(local) if local else None, 0, None, None
    )


def _argument(index: int, nbytes: int, value: Any) -> Call:
    return lambda r, b, q, k, p: r.api.clSetKernelArg(k, index, nbytes, value)


def _queue(properties: int) -> Call:
    return lambda r, b, q, k, p: _made(
        r, r.api.clCreateCommandQueue(r.context, r.device, properties, r.error())
    )


def _unmap(r: Runner, b: Any, q: Any, k: Any, p: Any) -> int:
    code: int = r.api.clEnqueueUnmapMemObject(q, b, ctypes.addressof(r.memory["h1"]), 0, None, None)
    return code


def _kernel(name: bytes | None) -> Call:
    return lambda r, b, q, k, p: _made(r, r.api.clCreateKernel(p, name, r.error()))


def _fresh_kernel(r: Runner, b: Any, q: Any, k: Any, p: Any) -> int:
    """A kernel without arguments cannot be launched."""
    count = ctypes.c_uint32()
    kernels = (ctypes.c_void_p * 16)()
    code: int = r.api.clCreateKernelsInProgram(p, 16, kernels, ctypes.byref(count))
    if code:
        return code
    code = r.api.clEnqueueNDRangeKernel(q, kernels[0], 1, None, r.sizes((16,)), None, 0, None, None)
    for kernel in kernels[: count.value]:
        r.api.clReleaseKernel(kernel)
    return code


def _build(source: bytes, options: bytes) -> Call:
    def call(r: Runner, b: Any, q: Any, k: Any, p: Any) -> int:
        program = r.from_source([source])
        code: int = r.api.clBuildProgram(program, 0, None, options, None, None)
        r.api.clReleaseProgram(program)
        return code

    return call


def _user_event(status: int, again: int | None = None) -> Call:
    def call(r: Runner, b: Any, q: Any, k: Any, p: Any) -> int:
        event = r.api.clCreateUserEvent(r.context, r.error())
        code: int = r.api.clSetUserEventStatus(event, status)
        if again is not None:
            code = r.api.clSetUserEventStatus(event, again)
        else:
            r.api.clSetUserEventStatus(event, 0)
        r.api.clReleaseEvent(event)
        return code

    return call


def _info(function: str, param: int, size: int = 4096) -> Call:
    """Of the kernel, queue, program or buffer."""

    def call(r: Runner, b: Any, q: Any, k: Any, p: Any) -> int:
        target = {"Kernel": k, "CommandQueue": q, "Program": p, "MemObject": b}[function]
        value = ctypes.create_string_buffer(4096)
        code: int = getattr(r.api, f"clGet{function}Info")(target, param, size, value, None)
        return code

    return call


def _migrate(flags: int, num: int) -> Call:
    return lambda r, b, q, k, p: r.api.clEnqueueMigrateMemObjects(
        q, num, r.array([b]) if num else None, flags, 0, None, None
    )


def _copy(offset: int, to: int, nbytes: int) -> Call:
    return lambda r, b, q, k, p: r.api.clEnqueueCopyBuffer(q, b, b, offset, to, nbytes, 0, None, None)


CALLS: tuple[Call, ...] = (
    _buffer(1 | 2, 64, None), _buffer(2 | 4, 64, None), _buffer(8 | 16, 64, b"x" * 64),
    _buffer(8 | 32, 64, b"x" * 64), _buffer(128 | 256, 64, None), _buffer(256 | 512, 64, None),
    _buffer(1, 0, None), _buffer(8, 64, None), _buffer(32, 64, None), _buffer(1, 64, b"x" * 64),
    _buffer(1, 1 << 60, None), _buffer(1 << 40, 64, None),
    _part(0, 1, 16), _part(0, 0, 0), _part(0, 0, 1 << 40), _part(0, 1 << 40, 64), _part(0, 0, 16, 0x1221),
    _part(8, 0, 16),
    _read(0, 1 << 20), _read(HUGE, 8), _read(8, HUGE), _read(0, 8, False), _read(0, 8, True, 1),
    _write(0, 1 << 20), _write(HUGE, 8), _write(1 << 20, 1), _write(0, 8, False),
    _read_box((0, 1, 1), 0, 0), _read_box((8, 2, 2), 4, 0), _read_box((8, 2, 2), 8, 9),
    _read_box((1 << 20, 1, 1), 0, 0), _read_box((8, 1 << 61, 2), 0, 0),
    _fill(0, 0, 16), _fill(3, 0, 12), _fill(256, 0, 256), _fill(4, 2, 4), _fill(4, 0, 6),
    _fill(4, 0, 1 << 20), _fill(4, HUGE, 8),
    _map(1, 0, 0), _map(1, 0, 1 << 20), _map(1, HUGE, 8),
    _unmap,
    _launch(0, (16,), None), _launch(4, (16, 1, 1, 1), None),
    _launch(1, (16,), (1 << 20,)), _launch(2, (16, 16), (1 << 14, 1 << 14)),
    _argument(99, 4, b"1234"), _argument(0, 3, b"123"), _argument(0, 4, b"1234"),
    _queue(1 << 20), _kernel(b"no_such"), _kernel(None), _fresh_kernel,
    _build(b"kernel void f(", b""), _build(b"kernel void f() { g(); }", b""),
    _build(b"kernel void f() {}", b"-no-such-option"), _build(b"kernel void f() {}", b"-cl-std=CL9.9"),
    _user_event(1), _user_event(3), _user_event(0, 0), _user_event(0, -1),
    _info("Kernel", 0x1), _info("CommandQueue", 0x1), _info("Program", 0x1), _info("MemObject", 0x1),
    _info("Kernel", 0x1193, 3), _info("CommandQueue", 0x1090, 3), _info("Program", 0x1160, 3),
    _info("MemObject", 0x1102, 3),
    _migrate(1 << 10, 1), _migrate(0, 0), _copy(0, 0, 64), _copy(0, 8, 16), _copy(0, 32, 1 << 20),
    _copy(HUGE, 0, 8), _copy(0, HUGE, 8), _copy(0, 0, 0),
)  # fmt: skip


def wrong_call(runner: Runner, which: int, buffer: str, queue: str, kernel: str, program: str) -> Ended:
    """The code of the call ``which`` (modulo how many there are)."""
    get = runner.get
    index = which % len(CALLS)
    return [CALLS[index](runner, get(buffer), get(queue), get(kernel), get(program)), index]
