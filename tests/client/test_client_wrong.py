"""Calls that are right but for one argument, for every argument after the first (see test_client.py).

``calls`` has a valid call per entry point that takes another object, a wait list, sizes or pointers; what is
wrong with an argument, and the code of the specification, follow from its type in the API table.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

from sdi.wire.api import ENTRIES, Entry
from tests.client.test_client_binding import READ, Cl, handles, sizes
from tests.client.test_client_door import INVALID, functions, objects
from tests.client.test_client_images import IMAGE2D, image

INVALID_VALUE, INVALID_CONTEXT, INVALID_WAIT_LIST = -30, -34, -57
HUGE = 2**64 - 1
_WAIT = ("cl_uint", "const cl_event *")
_ERRCODE = "cl_int *"
_NULL_IS_FINE = "clEnqueueNDRangeKernel"
"""Its offset, global size (which launches nothing, since OpenCL 2.1) and local size may be absent."""


def calls(cl: Cl, live: dict[str, int], at: int) -> dict[str, list[object]]:
    """By name: valid arguments, without wait list, event and errcode_ret.  ``at``: 4096 bytes of memory."""
    context, queue, buffer = live["cl_context"], live["cl_command_queue"], live["cl_mem"]
    other = cl.buffer(context, 64)
    picture, copied = image(cl, context, IMAGE2D, 4, 4), image(cl, context, IMAGE2D, 4, 4)
    mapped = cl.make("clEnqueueMapBuffer", queue, buffer, 1, READ, 0, 64, 0, None, None)
    zero, box, pixels = sizes([0, 0, 0]), sizes([8, 2, 2]), sizes([2, 2, 1])
    region, shape = (zero, zero, box, 0, 0, 0, 0), (zero, pixels)
    return {
        "clCreateCommandQueue": [context, live["cl_device_id"], 0],
        "clCreateCommandQueueWithProperties": [context, live["cl_device_id"], None],
        "clEnqueueReadBuffer": [queue, buffer, 1, 0, 64, at],
        "clEnqueueWriteBuffer": [queue, buffer, 1, 0, 64, at],
        "clEnqueueCopyBuffer": [queue, buffer, other, 0, 0, 64],
        "clEnqueueReadBufferRect": [queue, buffer, 1, *region, at],
        "clEnqueueWriteBufferRect": [queue, buffer, 1, *region, at],
        "clEnqueueCopyBufferRect": [queue, buffer, other, *region],
        "clEnqueueFillBuffer": [queue, buffer, at, 4, 0, 64],
        "clEnqueueMapBuffer": [queue, other, 1, READ, 0, 64],
        "clEnqueueUnmapMemObject": [queue, buffer, mapped],
        "clEnqueueReadImage": [queue, picture, 1, *shape, 0, 0, at],
        "clEnqueueWriteImage": [queue, picture, 1, *shape, 0, 0, at],
        "clEnqueueCopyImage": [queue, picture, copied, zero, *shape],
        "clEnqueueCopyImageToBuffer": [queue, picture, buffer, *shape, 0],
        "clEnqueueCopyBufferToImage": [queue, buffer, picture, 0, *shape],
        "clEnqueueFillImage": [queue, picture, at, *shape],
        "clEnqueueMapImage": [queue, copied, 1, READ, *shape, at + 1024, None],
        "clEnqueueNDRangeKernel": [queue, live["cl_kernel"], 1, None, sizes([16]), sizes([4])],
        "clEnqueueTask": [queue, live["cl_kernel"]],
        "clEnqueueMarkerWithWaitList": [queue],
        "clEnqueueBarrierWithWaitList": [queue],
        "clEnqueueMigrateMemObjects": [queue, 1, handles([buffer]), 0],
    }


def completed(entry: Entry, given: list[object]) -> list[object]:
    """With an empty wait list, no event and no errcode_ret."""
    found = list(given)
    for kind in entry.parameters[len(given) :]:
        found.append(0 if kind == "cl_uint" else None)
    return found


def wait_list_at(entry: Entry) -> int | None:
    """Where the number of events to wait for stands; None: the function has no wait list."""
    pairs = zip(entry.parameters, entry.parameters[1:], strict=False)
    return next((i for i, pair in enumerate(pairs) if pair == _WAIT), None)


def wrong_handles(
    entry: Entry, right: list[object], live: dict[str, int], freed: dict[str, int], foreign: dict[str, int]
) -> Iterator[tuple[int, object, int]]:
    """Handles after the first argument: (which argument, instead of it, the code)."""
    for i, kind in enumerate(entry.parameters[1 : len(right)], 1):
        if kind not in INVALID:
            continue
        yield i, None, INVALID[kind]
        yield i, 8, INVALID[kind]
        yield i, HUGE, INVALID[kind]
        for other, handle in live.items():
            if other != kind:
                yield i, handle, INVALID[kind]
        if kind in freed:
            yield i, freed[kind], INVALID[kind]
        if kind in foreign:
            yield i, foreign[kind], INVALID_CONTEXT


def every_argument_is_checked_alone(cl: Cl) -> None:
    memory = ctypes.create_string_buffer(8192)
    at = ctypes.addressof(memory) + 1024
    live, freed = objects(cl)
    term = ctypes.c_int32(1)
    cl.set_args(live["cl_kernel"], ctypes.c_void_p(live["cl_mem"]), term)
    outside = cl.context()
    program = cl.program(outside, "__kernel void add(global int *data, int term) {}")
    foreign = {
        "cl_mem": cl.buffer(outside, 64),
        "cl_event": cl.user_event(outside),
        "cl_kernel": cl.kernel(program, "add"),
    }
    pictures = {"cl_mem": image(cl, outside, IMAGE2D, 4, 4)}
    table, valid = functions(cl), calls(cl, live, at)
    checked = 0

    def code(entry: Entry, arguments: list[object]) -> int:
        if entry.parameters[-1] != _ERRCODE:
            return int(table[entry.name](*arguments) or 0)
        status = ctypes.c_int32(12345)
        result = table[entry.name](*arguments[:-1], ctypes.addressof(status))
        assert (status.value == 0) == bool(result), f"{entry.name}: {result} and {status.value}"
        return status.value

    def expect(entry: Entry, arguments: list[object], wanted: int, what: str) -> None:
        nonlocal checked
        found = code(entry, arguments)
        assert found == wanted, f"{entry.name}, {what}: {found}, not {wanted}"
        checked += 1

    for entry in ENTRIES:
        if entry.name not in valid:
            continue
        right = completed(entry, valid[entry.name])
        is_image = "Image" in entry.name
        is_mixed = entry.name.endswith(("ImageToBuffer", "BufferToImage"))
        for i, wrong, wanted in wrong_handles(
            entry, valid[entry.name], live, freed, foreign | pictures if is_image else foreign
        ):
            if wanted == INVALID_CONTEXT and is_mixed:
                wrong = (foreign if (i == 1) == entry.name.endswith("BufferToImage") else pictures)["cl_mem"]
            expect(entry, [*right[:i], wrong, *right[i + 1 :]], wanted, f"argument {i} is {wrong}")
        if (i := wait_list_at(entry)) is not None:
            for num, events, wanted in (
                (1, None, INVALID_WAIT_LIST),
                (0, handles([live["cl_event"]]), INVALID_WAIT_LIST),
                (1, handles([freed["cl_event"]]), INVALID_WAIT_LIST),
                (2, handles([live["cl_event"], live["cl_mem"]]), INVALID_WAIT_LIST),
                (2, handles([live["cl_event"], foreign["cl_event"]]), INVALID_CONTEXT),
            ):
                arguments = [*right[:i], num, events, *right[i + 2 :]]
                expect(entry, arguments, wanted, f"a wait list of {num}")
        for i, kind in enumerate(entry.parameters[: len(valid[entry.name])]):
            if right[i] is not None and kind in ("void *", "const void *", "const size_t *", "size_t *"):
                wanted = 0 if entry.name == _NULL_IS_FINE else INVALID_VALUE
                expect(entry, [*right[:i], None, *right[i + 1 :]], wanted, f"argument {i} is NULL")
            if kind == "size_t":
                expect(entry, [*right[:i], HUGE, *right[i + 1 :]], INVALID_VALUE, f"argument {i} is huge")
        expect(entry, right, 0, "nothing wrong")
    cl.check(cl.clFinish(live["cl_command_queue"]))
    assert checked > 500, checked


PROGRAMS = (every_argument_is_checked_alone,)
