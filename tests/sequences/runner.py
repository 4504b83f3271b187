"""Runs generated sequences and puts out one line of JSON for each: what every step ended with.

``python -m tests.sequences.runner FIRST STOP [trace]``: the sequences FIRST to STOP - 1, one context each;
with ``trace`` every step is named before it begins.  Objects
that could not be made are NULL from then on, so that any part of a sequence is a sequence.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import random
import sys
import threading
import time
import zlib
from collections.abc import Sequence
from typing import Any

from tests.sequences.api import Api
from tests.sequences.generate import Step, generate
from tests.sequences.kernels import HEADER, LIBRARY, SOURCES, USER
from tests.sequences.model import COPY_HOST_PTR, MAP_READ, USE_HOST_PTR
from tests.sequences.pixels import PixelSteps
from tests.sequences.wrong import wrong_call

PATIENCE_S = 10.0
_EVENT_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
_BUFFER_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)

Ended = list[Any]
"""The code of a call, then whatever else is to be compared."""


class Runner(PixelSteps):
    """One sequence.  Methods named as the steps are."""

    def __init__(self, api: Api, devices: Sequence[int], seed: int) -> None:
        """Queues are for ``devices`` in turn."""
        self.api, self.devices, self.device = api, devices, devices[0]
        self.num_queues = 0
        self.random = random.Random(seed)
        self.code = ctypes.c_int32()
        self.handles: dict[str, int] = {}
        self.memory: dict[str, Any] = {}
        self.pointers: dict[str, tuple[int, int]] = {}
        self.keep: list[Any] = []
        self.called: dict[str, list[int]] = {}
        self.made_once: dict[str, int] = {}
        self.expected = self.roots = 0
        self.lock = threading.Lock()
        all_of_them = (len(devices), self.array(devices))
        self.context = self.made(api.clCreateContext(None, *all_of_them, None, None, self.error()))
        for name in ("h0", "h1", "h2"):
            self.memory[name] = (ctypes.c_char * (1 << 15)).from_buffer_copy(self.bytes(1 << 15))

    # -- helpers -------------------------------------------------------------------------------------

    def error(self) -> Any:
        self.code.value = 12345
        return ctypes.byref(self.code)

    def made(self, handle: int | None) -> int:
        return handle or 0

    def keep_object(self, name: str, handle: int | None) -> Ended:
        if handle:
            self.handles[name] = handle
        return [self.code.value, bool(handle)]

    def get(self, name: str) -> int | None:
        return self.handles.get(name)

    def bytes(self, nbytes: int) -> bytes:
        return self.random.randbytes(nbytes)

    @staticmethod
    def array(handles: Sequence[int | None]) -> Any:
        return (ctypes.c_void_p * len(handles))(*handles)

    @staticmethod
    def sizes(values: Sequence[int]) -> Any:
        return (ctypes.c_size_t * len(values))(*values)

    def ending(self, waits: list[str], event: str) -> tuple[tuple[Any, Any, Any], ctypes.c_void_p | None]:
        """The last three parameters of a command."""
        found = [self.handles[name] for name in waits if name in self.handles]
        made = ctypes.c_void_p() if event else None
        return (
            len(found),
            self.array(found) if found else None,
            None if made is None else ctypes.byref(made),
        ), made

    def ended(self, code: int, event: str, made: ctypes.c_void_p | None) -> Ended:
        if made is not None and made.value and code == 0:
            self.handles[event] = made.value
        return [code]

    def info(self, function: Any, *before: Any, param: int) -> Ended:
        """An information as bytes, with its code and size."""
        size = ctypes.c_size_t(0)
        code = function(*before, param, 0, None, ctypes.byref(size))
        if code or not size.value:
            return [code, size.value]
        value = ctypes.create_string_buffer(size.value)
        code = function(*before, param, size.value, value, None)
        return [code, value.raw.hex()]

    # -- objects -------------------------------------------------------------------------------------

    def create_queue(self, name: str, properties: int) -> Ended:
        device = self.devices[self.num_queues % len(self.devices)]
        self.num_queues += 1
        made = self.api.clCreateCommandQueue(self.context, device, properties, self.error())
        return self.keep_object(name, made)

    def create_buffer(self, name: str, flags: int, nbytes: int) -> Ended:
        pointer = None
        if flags & (USE_HOST_PTR | COPY_HOST_PTR):
            # Aligned, so that a driver may use it as it is.
            room = (ctypes.c_char * (nbytes + 4096))()
            pointer = -(-ctypes.addressof(room) // 4096) * 4096
            ctypes.memmove(pointer, self.bytes(nbytes), nbytes)
            self.keep.append(room)
        made = self.api.clCreateBuffer(self.context, flags, nbytes, pointer, self.error())
        ended = self.keep_object(name, made)
        if made:
            self.watch_destruction(name, made)
        return ended

    def watch_destruction(self, name: str, buffer: int) -> None:
        def destroyed(_buffer: int, _data: int) -> None:
            with self.lock:
                self.called.setdefault(f"destroyed {name}", []).append(0)

        callback = _BUFFER_CALLBACK(destroyed)
        self.keep.append(callback)
        self.api.clSetMemObjectDestructorCallback(buffer, callback, None)
        self.roots += 1

    def create_part(self, name: str, whole: str, flags: int, origin: int, nbytes: int) -> Ended:
        region = self.sizes((origin, nbytes))
        made = self.api.clCreateSubBuffer(self.get(whole), flags, 0x1220, region, self.error())
        return self.keep_object(name, made)

    def create_program(self, name: str, source: str, pieces: int) -> Ended:
        text = SOURCES[source][0].encode()
        cuts = [len(text) * k // pieces for k in range(pieces + 1)]
        parts = [text[a:b] for a, b in itertools.pairwise(cuts)]
        return self.keep_object(name, self.from_source(parts))

    def from_source(self, parts: Sequence[bytes]) -> int | None:
        strings = (ctypes.c_char_p * len(parts))(*parts)
        lengths = self.sizes([len(part) for part in parts])
        made: int | None = self.api.clCreateProgramWithSource(
            self.context, len(parts), strings, lengths, self.error()
        )
        return made

    def build(self, program: str, options: str) -> Ended:
        options += " -cl-kernel-arg-info"
        code = self.api.clBuildProgram(self.get(program), 0, None, options.encode(), None, None)
        return [
            code,
            *self.info(self.api.clGetProgramBuildInfo, self.get(program), self.device, param=0x1181),
        ]

    def from_binary(self, program: str) -> Ended:
        """Replace the program by one made from its binary."""
        old, count = self.get(program), len(self.devices)
        sizes = (ctypes.c_size_t * count)()
        code = self.api.clGetProgramInfo(old, 0x1165, 8 * count, sizes, None)
        if code or not sizes[0]:
            return [code]
        binaries = [ctypes.create_string_buffer(size) for size in sizes]
        pointers = self.array([ctypes.addressof(binary) for binary in binaries])
        codes = [self.api.clGetProgramInfo(old, 0x1166, 8 * count, pointers, None)]
        states = (ctypes.c_int32 * count)()
        made = self.api.clCreateProgramWithBinary(
            self.context, count, self.array(self.devices), sizes, pointers, states, self.error()
        )
        assert len(set(states)) == 1
        codes += [self.code.value, states[0], bool(made)]
        if made:
            codes += [self.api.clBuildProgram(made, 0, None, b"", None, None)]
            self.handles[program] = made
            self.api.clReleaseProgram(old)
        return codes

    def link(self, name: str, options: str) -> Ended:
        header = self.from_source([HEADER.encode()])
        objects, codes = [], []
        for text in (LIBRARY, USER):
            program = self.from_source([text.encode()])
            names = (ctypes.c_char_p * 1)(b"spans.h")
            codes.append(
                self.api.clCompileProgram(
                    program, 0, None, options.encode() + b" -DK=4", 1, self.array([header]), names, None, None
                )
            )
            objects.append(program)
        made = self.api.clLinkProgram(
            self.context, 0, None, None, 2, self.array(objects), None, None, self.error()
        )
        for program in (header, *objects):
            self.api.clReleaseProgram(program)
        return [*self.keep_object(name, made), *codes]

    def create_kernel(self, name: str, program: str, kernel: str) -> Ended:
        made = self.api.clCreateKernel(self.get(program), kernel.encode(), self.error())
        return self.keep_object(name, made)

    def clone_kernel(self, name: str, kernel: str) -> Ended:
        return self.keep_object(name, self.api.clCloneKernel(self.get(kernel), self.error()))

    def release(self, kind: str, name: str) -> Ended:
        handle = self.handles.pop(name, None)
        return [getattr(self.api, f"clRelease{kind}")(handle)]

    # -- arguments -----------------------------------------------------------------------------------

    def set_buffer(self, kernel: str, index: int, buffer: str) -> Ended:
        value = ctypes.c_void_p(self.handles.get(buffer))
        return [self.api.clSetKernelArg(self.get(kernel), index, 8, ctypes.byref(value))]

    def set_local(self, kernel: str, index: int, nbytes: int) -> Ended:
        return [self.api.clSetKernelArg(self.get(kernel), index, nbytes, None)]

    def set_number(self, kernel: str, index: int, value: int) -> Ended:
        number = ctypes.c_int32(value)
        return [self.api.clSetKernelArg(self.get(kernel), index, 4, ctypes.byref(number))]

    def set_value(self, kernel: str, index: int, nbytes: int) -> Ended:
        # Small integers and ones: no NaN, whose bits may differ.
        value = bytes(self.random.choice((0, 0, 1, 2)) for _ in range(nbytes))
        return [self.api.clSetKernelArg(self.get(kernel), index, nbytes, value)]

    # -- commands ------------------------------------------------------------------------------------

    def transfer(
        self, to_device: bool, buffer: str, offset: int, nbytes: int, host: str, at: int, blocking: bool,
        queue: str, waits: list[str], event: str,
    ) -> Ended:  # fmt: skip
        enqueue = self.api.clEnqueueWriteBuffer if to_device else self.api.clEnqueueReadBuffer
        ending, made = self.ending(waits, event)
        pointer = ctypes.addressof(self.memory[host]) + at
        code = enqueue(self.get(queue), self.get(buffer), blocking, offset, nbytes, pointer, *ending)
        return self.ended(code, event, made)

    def transfer_box(
        self, to_device: bool, buffer: str, inside: dict[str, Any], outside: dict[str, Any], host: str,
        blocking: bool, queue: str, waits: list[str], event: str,
    ) -> Ended:  # fmt: skip
        enqueue = self.api.clEnqueueWriteBufferRect if to_device else self.api.clEnqueueReadBufferRect
        ending, made = self.ending(waits, event)
        code = enqueue(
            self.get(queue), self.get(buffer), blocking, self.sizes(inside["origin"]),
            self.sizes(outside["origin"]), self.sizes(inside["region"]), inside["row"], inside["slice"],
            outside["row"], outside["slice"], self.memory[host], *ending,
        )  # fmt: skip
        return self.ended(code, event, made)

    def copy(
        self, source: str, target: str, offset: int, to: int, nbytes: int, queue: str, waits: list[str],
        event: str,
    ) -> Ended:  # fmt: skip
        ending, made = self.ending(waits, event)
        code = self.api.clEnqueueCopyBuffer(
            self.get(queue), self.get(source), self.get(target), offset, to, nbytes, *ending
        )
        return self.ended(code, event, made)

    def copy_box(
        self, source: str, target: str, here: dict[str, Any], there: dict[str, Any], queue: str,
        waits: list[str], event: str,
    ) -> Ended:  # fmt: skip
        ending, made = self.ending(waits, event)
        code = self.api.clEnqueueCopyBufferRect(
            self.get(queue), self.get(source), self.get(target), self.sizes(here["origin"]),
            self.sizes(there["origin"]), self.sizes(here["region"]), here["row"], here["slice"],
            there["row"], there["slice"], *ending,
        )  # fmt: skip
        return self.ended(code, event, made)

    def fill(
        self, buffer: str, pattern: int, offset: int, nbytes: int, queue: str, waits: list[str], event: str
    ) -> Ended:
        ending, made = self.ending(waits, event)
        value = self.bytes(pattern)
        code = self.api.clEnqueueFillBuffer(
            self.get(queue), self.get(buffer), value, pattern, offset, nbytes, *ending
        )
        return self.ended(code, event, made)

    def map(
        self, name: str, buffer: str, flags: int, offset: int, nbytes: int, blocking: bool,
        write: tuple[int, int] | None, queue: str, waits: list[str], event: str,
    ) -> Ended:  # fmt: skip
        ending, made = self.ending(waits, event)
        pointer = self.api.clEnqueueMapBuffer(
            self.get(queue), self.get(buffer), blocking, flags, offset, nbytes, *ending, self.error()
        )
        ended = self.ended(self.code.value, event, made)
        if not pointer:
            return ended
        self.pointers[name] = (pointer, nbytes)
        if not blocking:
            ended.append(self.api.clWaitForEvents(1, self.array([self.get(event)])))
        if flags & MAP_READ:
            ended.append(zlib.crc32(ctypes.string_at(pointer, nbytes)))
        if write:
            ctypes.memmove(pointer + write[0], self.bytes(write[1]), write[1])
        return ended

    def unmap(self, buffer: str, mapping: str, queue: str, waits: list[str], event: str) -> Ended:
        ending, made = self.ending(waits, event)
        pointer = self.pointers.pop(mapping, (0, 0))[0]
        code = self.api.clEnqueueUnmapMemObject(self.get(queue), self.get(buffer), pointer, *ending)
        return self.ended(code, event, made)

    def launch(
        self, kernel: str, offset: list[int] | None, sizes: list[int], local: list[int] | None, queue: str,
        waits: list[str], event: str,
    ) -> Ended:  # fmt: skip
        ending, made = self.ending(waits, event)
        code = self.api.clEnqueueNDRangeKernel(
            self.get(queue), self.get(kernel), len(sizes), self.sizes(offset) if offset else None,
            self.sizes(sizes), self.sizes(local) if local else None, *ending,
        )  # fmt: skip
        return self.ended(code, event, made)

    def migrate(self, buffer: str, flags: int, queue: str, waits: list[str], event: str) -> Ended:
        ending, made = self.ending(waits, event)
        code = self.api.clEnqueueMigrateMemObjects(
            self.get(queue), 1, self.array([self.get(buffer)]), flags, *ending
        )
        return self.ended(code, event, made)

    def marker(self, barrier: bool, queue: str, waits: list[str], event: str) -> Ended:
        ending, made = self.ending(waits, event)
        enqueue = self.api.clEnqueueBarrierWithWaitList if barrier else self.api.clEnqueueMarkerWithWaitList
        return self.ended(enqueue(self.get(queue), *ending), event, made)

    def create_user_event(self, name: str) -> Ended:
        return self.keep_object(name, self.api.clCreateUserEvent(self.context, self.error()))

    def set_user_event(self, event: str, status: int) -> Ended:
        return [self.api.clSetUserEventStatus(self.get(event), status)]

    # -- waiting and looking -------------------------------------------------------------------------

    def flush(self, queue: str) -> Ended:
        return [self.api.clFlush(self.get(queue))]

    def finish(self, queue: str) -> Ended:
        return [self.api.clFinish(self.get(queue))]

    def wait(self, events: list[str]) -> Ended:
        found = [self.handles[name] for name in events if name in self.handles]
        return [self.api.clWaitForEvents(len(found), self.array(found))]

    def callback(self, event: str, status: int) -> Ended:
        name = f"{event} at {status} ({len(self.keep)})"

        def called(_event: int, found: int, _data: int) -> None:
            with self.lock:
                self.called.setdefault(name, []).append(min(found, 0) if status == 0 else 0)

        function = _EVENT_CALLBACK(called)
        self.keep.append(function)
        code = self.api.clSetEventCallback(self.get(event), status, function, None)
        self.expected += code == 0
        return [code]

    def count_callbacks(self) -> Ended:
        """Every callback of an event has been called once when its event is complete."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with self.lock:
                events = {k: v for k, v in self.called.items() if " at " in k}
            if len(events) >= self.expected:
                break
            time.sleep(0.001)
        return [0, sorted(v for v in events.values()), len(events) == self.expected]

    def look_at_event(self, event: str, profiling: bool) -> Ended:
        handle = self.get(event)
        about = [self.info(self.api.clGetEventInfo, handle, param=p) for p in (0x11D1, 0x11D3)]
        times = [self.info(self.api.clGetEventProfilingInfo, handle, param=p) for p in range(0x1280, 0x1284)]
        codes = [found[0] for found in times]
        rising = None
        if profiling and not any(codes):
            values = [int.from_bytes(bytes.fromhex(found[1]), "little") for found in times]
            rising = values == sorted(values)
        return [0, about, codes, rising]

    def look_at_buffer(self, buffer: str) -> Ended:
        handle = self.get(buffer)
        params = (0x1100, 0x1101, 0x1102, 0x1108, 0x1109)
        return [0, [self.info(self.api.clGetMemObjectInfo, handle, param=p) for p in params]]

    def look_at_kernel(self, kernel: str, arguments: bool) -> Ended:
        handle = self.get(kernel)
        about = [self.info(self.api.clGetKernelInfo, handle, param=p) for p in (0x1190, 0x1191, 0x1195)]
        for index in range(3 if arguments else 0):
            about += [
                self.info(self.api.clGetKernelArgInfo, handle, index, param=p) for p in range(0x1196, 0x119B)
            ]
        about.append(self.info(self.api.clGetKernelWorkGroupInfo, handle, self.device, param=0x11B1))
        return [0, about]

    def look_at_program(self, program: str) -> Ended:
        handle = self.get(program)
        about = [self.info(self.api.clGetProgramInfo, handle, param=0x1167)]
        devices = self.info(self.api.clGetProgramInfo, handle, param=0x1163)
        about.append([devices[0], len(bytes.fromhex(devices[1])) // 8 == len(self.devices)])
        names = self.info(self.api.clGetProgramInfo, handle, param=0x1168)
        if names[0] == 0:
            names[1] = sorted(bytes.fromhex(names[1]).rstrip(b"\0").decode().split(";"))
        build = [
            self.info(self.api.clGetProgramBuildInfo, handle, self.device, param=p) for p in (0x1181, 0x1184)
        ]
        return [0, about, names, build]

    def read_all(self, buffer: str, queue: str, nbytes: int) -> Ended:
        """The bytes of a buffer, also of one that the host may not read."""
        target = ctypes.create_string_buffer(nbytes)
        where, source = self.get(queue), self.get(buffer)
        code = self.api.clEnqueueReadBuffer(where, source, 1, 0, nbytes, target, 0, None, None)
        ended = [code]
        if code:
            copy = self.api.clCreateBuffer(self.context, 0, nbytes, None, self.error())
            ended.append(self.api.clEnqueueCopyBuffer(where, source, copy, 0, 0, nbytes, 0, None, None))
            self.api.clFinish(where)
            ended.append(self.api.clEnqueueReadBuffer(where, copy, 1, 0, nbytes, target, 0, None, None))
            self.api.clReleaseMemObject(copy)
        return [*ended, zlib.crc32(target.raw)]

    def look_at_host(self, host: str) -> Ended:
        return [0, zlib.crc32(self.memory[host].raw)]

    def wrong(self, which: int, buffer: str, queue: str, kernel: str, program: str) -> Ended:
        return wrong_call(self, which, buffer, queue, kernel, program)

    # -- the whole -----------------------------------------------------------------------------------

    def close(self) -> Ended:
        """Release everything; every buffer has to be destroyed then."""
        kinds = {
            "q": "CommandQueue",
            "b": "MemObject",
            "i": "MemObject",
            "s": "Sampler",
            "p": "Program",
            "k": "Kernel",
            "e": "Event",
            "u": "Event",
        }
        codes = [
            getattr(self.api, f"clRelease{kinds[name[0]]}")(handle) for name, handle in self.handles.items()
        ]
        codes.append(self.api.clReleaseContext(self.context))
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with self.lock:
                destroyed = sum(name.startswith("destroyed") for name in self.called)
            if destroyed == self.roots:
                break
            time.sleep(0.001)
        return [sorted(set(codes)), destroyed == self.roots]


def run(
    api: Api, devices: Sequence[int], seed: int, steps: Sequence[Step], trace: bool = False
) -> list[Ended]:
    """How each step ended."""
    runner = Runner(api, devices, seed)
    found = []
    for number, (op, arguments) in enumerate(steps):
        if trace:
            print(seed, number, op, arguments, file=sys.stderr, flush=True)
        found.append(getattr(runner, op)(**arguments))
    return [*found, runner.close()]


def main(arguments: list[str]) -> None:
    """See the module."""
    api = Api()
    devices, trace = api.devices(), arguments[2:] == ["trace"]
    for seed in range(int(arguments[0]), int(arguments[1])):
        print(json.dumps({"seed": seed, "ended": run(api, devices, seed, generate(seed), trace)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
