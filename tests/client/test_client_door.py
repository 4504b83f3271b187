"""Every entry point with every argument wrong, generated from the API table (see test_client.py).

The functions come from the dispatch table itself: a loader would look into a handle that is none.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable

from sdi.wire.api import ENTRIES, Entry
from tests.client.test_client_binding import _TYPES, ADD, Cl, handles

INVALID = {
    "cl_platform_id": -32,
    "cl_device_id": -33,
    "cl_context": -34,
    "cl_command_queue": -36,
    "cl_mem": -38,
    "cl_sampler": -41,
    "cl_program": -44,
    "cl_kernel": -48,
    "cl_event": -58,
}
CODES = frozenset(range(-72, -29)) | frozenset(range(-19, 1)) | {-1001}
# These say nothing, or know no object.
_SILENT = frozenset({"clSVMFree", "clSVMAlloc", "clGetExtensionFunctionAddressForPlatform"})
# Would wait for ever, end the service or the process, or read what no array's length bounds.
_NEVER = frozenset({"clCreateProgramWithSource", "clSetUserEventStatus", "clCreateProgramWithIL"})
_POINTER_NBYTES = 4096


def functions(cl: Cl) -> dict[str, Callable[..., int | None]]:
    """The dispatch table's functions by name."""
    table = ctypes.cast(cl.platform(), ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))[0]
    found = {}
    for entry, address in zip(ENTRIES, table[: len(ENTRIES)], strict=True):
        assert address, f"{entry.name}: an empty slot"
        if entry.reserved:
            continue
        result = None if entry.result == "void" else _TYPES.get(entry.result, ctypes.c_void_p)
        types = [_TYPES.get(p, ctypes.c_void_p) for p in entry.parameters]
        found[entry.name] = ctypes.CFUNCTYPE(result, *types)(address)
    return found


def objects(cl: Cl) -> tuple[dict[str, int], dict[str, int]]:
    """A live object of each type, and a released one."""
    context = cl.context()
    queue = cl.queue(context)
    buffer = cl.buffer(context, 64)
    program = cl.program(context, ADD)
    event = cl.event_of("clEnqueueMarkerWithWaitList", queue, 0, None)
    sampler = cl.make("clCreateSampler", context, 1, 0x1132, 0x1140)
    cl.check(cl.clFinish(queue))
    live = {
        "cl_platform_id": cl.platform(),
        "cl_device_id": cl.device(),
        "cl_context": context,
        "cl_command_queue": queue,
        "cl_mem": buffer,
        "cl_program": program,
        "cl_kernel": cl.kernel(program, "add"),
        "cl_event": event,
        "cl_sampler": sampler,
    }
    other = cl.context()
    freed = {
        "cl_mem": cl.buffer(other, 64),
        "cl_event": cl.user_event(other),
        "cl_program": cl.source(other, ADD),
        "cl_sampler": cl.make("clCreateSampler", other, 1, 0x1132, 0x1140),
    }
    freed["cl_command_queue"] = cl.queue(other)
    built = cl.program(context, ADD)
    freed["cl_kernel"] = cl.kernel(built, "add")
    cl.check(cl.clReleaseMemObject(freed["cl_mem"]))
    cl.check(cl.clReleaseEvent(freed["cl_event"]))
    cl.check(cl.clReleaseSampler(freed["cl_sampler"]))
    cl.check(cl.clReleaseProgram(freed["cl_program"]))
    cl.check(cl.clReleaseCommandQueue(freed["cl_command_queue"]))
    cl.check(cl.clReleaseKernel(freed["cl_kernel"]))
    cl.check(cl.clReleaseContext(other))
    freed["cl_context"] = other
    return live, freed


def code_of(entry: Entry, function: Callable[..., int | None], arguments: list[object]) -> int:
    """Call; the status it returned or stored through its last argument."""
    if entry.result == "cl_int":
        return int(function(*arguments) or 0)
    stored = ctypes.c_int32(12345)
    result = function(*arguments[:-1], ctypes.addressof(stored))
    assert (stored.value == 0) == bool(result), f"{entry.name}: {result} and {stored.value}"
    return stored.value


def the_first_argument_is_checked_first(cl: Cl) -> None:
    calls = functions(cl)
    live, freed = objects(cl)
    inside = (ctypes.c_char * 64)()
    checked = 0
    for entry in ENTRIES:
        kind = entry.parameters[0] if entry.parameters else ""
        if kind not in INVALID or entry.name in _SILENT:
            continue
        wrong = [None, freed.get(kind), ctypes.addressof(inside), live["cl_context"] + 8, 1, 2**63, 2**64 - 1]
        wrong += [handle for other, handle in live.items() if other != kind]
        for handle in wrong:
            if handle is None and kind == "cl_platform_id" and entry.name == "clGetDeviceIDs":
                continue
            arguments: list[object] = [0 if p in _TYPES else None for p in entry.parameters]
            arguments[0] = handle
            code = code_of(entry, calls[entry.name], arguments)
            assert code == INVALID[kind], f"{entry.name}({handle}): {code}"
            checked += 1
    assert checked > 1000


def _choices(
    entry: Entry, at: int, live: dict[str, int], freed: dict[str, int], pointers: list[int | None]
) -> list[object]:
    """Values to try for a parameter, the harmless ones first."""
    kind = entry.parameters[at]
    following = entry.parameters[at + 1] if at + 1 < len(entry.parameters) else ""
    if kind in INVALID:
        return [live.get(kind), live.get(kind), live.get(kind), freed.get(kind), None, live["cl_context"]]
    if kind == "cl_uint" and "*" in following:
        return [0, 1]
    if kind in ("cl_uint", "cl_int"):
        return [
            0,
            1,
            2,
            3,
            4,
            0x1001,
            0x1090,
            0x10F0,
            0x1100,
            0x1160,
            0x1180,
            0x1190,
            0x11D0,
            0x1220,
            2**31 - 1,
        ]
    if kind == "cl_ulong":
        return [0, 1, 2, 4, 8, 16, 32, 64, 1 << 63, 2**64 - 1, 0xFFFFFFFF]
    if kind == "size_t":
        return [0, 1, 4, 8, 16, 64, 65, 2**32, 2**63, 2**64 - 1]
    if "(*)" in kind:
        return [None]
    return list(pointers)


def random_arguments_do_no_harm(cl: Cl) -> None:
    calls = functions(cl)
    live, freed = objects(cl)
    choose = random.Random(7)
    zeros = ctypes.create_string_buffer(_POINTER_NBYTES)
    ones = ctypes.create_string_buffer(b"\1\0\0\0\0\0\0\0" * (_POINTER_NBYTES // 8))
    events = handles([live["cl_event"]] * 8)
    buffers = handles([live["cl_mem"]] * 8)
    assert events is not None and buffers is not None
    kept = (zeros, ones, events, buffers)
    pointers = [None, *(ctypes.addressof(each) for each in kept)]  # type: ignore[arg-type]
    releases = ("clRelease", "clRetain", "clSet")
    for entry in ENTRIES:
        if entry.reserved or entry.name in _NEVER or entry.name.startswith(releases):
            continue
        for _ in range(60):
            arguments = [
                choose.choice(_choices(entry, i, live, freed, pointers)) for i in range(len(entry.parameters))
            ]
            if entry.name.startswith("clCreateBuffer") and arguments[-3] not in (0, 1, 4, 8, 16, 64, 65):
                arguments[-2] = None  # the application promises that so many bytes are there
            for i, kind in enumerate(entry.parameters):
                if kind.startswith("const") and kind.endswith("**") and arguments[i]:
                    arguments[i] = None  # arrays of pointers would have to be true
                if kind in ("void *", "size_t *", "cl_event *", "cl_uint *") and arguments[i] in pointers[3:]:
                    arguments[i] = pointers[1]  # what is written to must not be read as handles later
            result = calls[entry.name](*arguments)
            if entry.result == "cl_int":
                assert result in CODES, f"{entry.name}{arguments}: {result}"
    cl.check(cl.clFinish(live["cl_command_queue"]))
    assert cl.number("clGetContextInfo", live["cl_context"], 0x1083) == 1


PROGRAMS = (the_first_argument_is_checked_first, random_arguments_do_no_harm)
