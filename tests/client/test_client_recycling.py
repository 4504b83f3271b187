"""Programs in which the client keeps released buffers for the next of that size, and writes unasked."""

from __future__ import annotations

import ctypes
import struct
from ctypes import c_int32, c_void_p

from tests.client.test_client_binding import ADD, Cl, handles, sizes
from tests.client.test_client_svm import places_of

DATA = bytes(range(256)) * 16
OUT_OF_ORDER, PROFILING, COPY_HOST_PTR = 1, 2, 1 << 5
QUEUED, END = 0x1280, 0x1283
HOLD_AND_LET_GO = ADD.replace("add", "hold") + ADD.replace("add", "let_go")


def a_released_buffer_is_used_again(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    first = [cl.buffer(context, nbytes) for nbytes in (4096, 8192, 4096)]
    ids = [r["id"] for r in cl.records("CREATE_BUFFER")]
    for buffer in reversed(first):
        cl.check(cl.clReleaseMemObject(buffer))
    assert cl.clReleaseMemObject(first[0]) == -38, "it is gone for the application"
    again = [cl.buffer(context, nbytes) for nbytes in (4096, 4096, 8192)]
    cl.check(cl.clFinish(queue))
    assert len(cl.records("CREATE_BUFFER")) == 3
    assert [r["id"] for r in cl.records("REUSE_BUFFER")] == [ids[0], ids[2], ids[1]], (
        "the oldest of its size first"
    )
    assert not cl.records("RELEASE_BUFFER")
    other = cl.buffer(context, 4096)
    assert len(cl.records("CREATE_BUFFER")) == 4
    for number, buffer in enumerate([*again, other]):  # each has bytes of its own
        cl.write(queue, buffer, bytes([number]) * 4096)
    assert [cl.read(queue, buffer, 1)[0] for buffer in [*again, other]] == [0, 1, 2, 3]
    full = cl.buffer(context, 4096, COPY_HOST_PTR, DATA)
    assert cl.read(queue, full, 4096) == DATA


def a_buffer_in_use_is_not_used_again(cl: Cl) -> None:
    context = cl.context()
    queue, other = cl.queue(context), cl.queue(context)
    program = cl.program(context, HOLD_AND_LET_GO)
    hold, go = cl.kernel(program, "hold"), cl.kernel(program, "let_go")
    buffer, used = cl.buffer(context, 4096), cl.buffer(context, 1024)
    cl.set_args(hold, c_void_p(buffer), c_int32(1))
    cl.set_args(go, c_void_p(used), c_int32(1))
    cl.launch(queue, hold)
    cl.check(cl.clReleaseMemObject(buffer))
    assert cl.buffer(context, 4096)
    assert len(cl.records("CREATE_BUFFER")) == 3 and not cl.records("REUSE_BUFFER")
    cl.launch(other, go)
    cl.check(cl.clFinish(queue))
    cl.buffer(context, 4096)
    cl.check(cl.clFinish(queue))
    assert len(cl.records("CREATE_BUFFER")) == 3
    assert cl.last("REUSE_BUFFER")["id"] == cl.records("CREATE_BUFFER")[0]["id"]


def a_buffer_that_something_failed_to_write_is_not_used_again(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    cl.check(cl.clReleaseMemObject(cl.buffer(context, 4096)))
    cl.buffer(context, 4096)
    cl.check(cl.clFinish(queue))
    first, second = cl.records("CREATE_BUFFER")
    assert first["id"] != second["id"] and not cl.records("REUSE_BUFFER")
    assert [r["id"] for r in cl.records("RELEASE_BUFFER")] == [first["id"]]


def too_much_is_not_kept(cl: Cl) -> None:
    _released(cl, [200 << 20] * 7, 2)  # of a GiB


def too_many_are_not_kept(cl: Cl) -> None:
    _released(cl, [4096] * 1026, 2)


def _released(cl: Cl, sizes: list[int], too_many: int) -> None:
    """Of buffers of these sizes that are released in order, the first ``too_many`` go."""
    context = cl.context()
    queue = cl.queue(context)
    buffers = [cl.buffer(context, nbytes) for nbytes in sizes]
    ids = [r["id"] for r in cl.records("CREATE_BUFFER")]
    for buffer in buffers:
        cl.check(cl.clReleaseMemObject(buffer))
    cl.check(cl.clFinish(queue))
    assert [r["id"] for r in cl.records("RELEASE_BUFFER")] == ids[:too_many]
    assert [r["id"] for r in cl.records("RECYCLE_BUFFER")] == ids


def a_list_of_another_size_gets_one_that_has_room(cl: Cl) -> None:
    """Sizes differ from time to time: from the second on there is room to grow, and nothing is wasted."""
    context = cl.context()
    queue = cl.queue(context)
    kernel = cl.kernel(cl.program(context, ADD), "add")
    for number in range(60):
        buffer = cl.buffer(context, (1 << 16) + 64 * number)
        assert cl.number("clGetMemObjectInfo", buffer, 0x1102) == (1 << 16) + 64 * number
        too_much = (1 << 16) + 64 * number + 1
        assert cl.clEnqueueReadBuffer(queue, buffer, 1, 0, too_much, DATA, 0, None, None) == -30
        cl.set_args(kernel, c_void_p(buffer), c_int32(1))
        cl.launch(queue, kernel)
        cl.check(cl.clFinish(queue))
        cl.check(cl.clReleaseMemObject(buffer))
    exact, roomy = cl.records("CREATE_BUFFER")
    assert (exact["buffer_nbytes"], roomy["buffer_nbytes"]) == (1 << 16, (1 << 16) + 4096)
    assert [r["id"] for r in cl.records("REUSE_BUFFER")] == [roomy["id"]] * 58
    launched = [places_of(record, 1) for record in cl.records("NDRANGE")]
    assert launched[1:] == [[(roomy["id"], 0, (1 << 16) + 4096)]] * 59, "all launches are the same"
    cl.buffer(context, 1 << 16)
    cl.check(cl.clFinish(queue))
    assert cl.last("REUSE_BUFFER")["id"] == exact["id"], "what fits exactly comes first"
    cl.buffer(context, 3 << 15)
    assert cl.last("CREATE_BUFFER")["buffer_nbytes"] == 3 << 15


def of_many_that_are_about_as_large_one_is_given_up(cl: Cl) -> None:
    """It has touched pages, which the next gets."""
    context = cl.context()
    queue = cl.queue(context)
    for buffer in [cl.buffer(context, 1 << 16) for _ in range(20)]:
        cl.check(cl.clReleaseMemObject(buffer))
    created = [r["id"] for r in cl.records("CREATE_BUFFER")]
    for _ in range(7):
        cl.buffer(context, 70_000)
    cl.check(cl.clFinish(queue))
    assert [r["id"] for r in cl.records("RELEASE_BUFFER")] == created[:5], "all but the last 15"
    assert [r["buffer_nbytes"] for r in cl.records("CREATE_BUFFER")[20:]] == [73_728] * 7


def what_is_kept_goes_where_memory_is_wanted(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    cl.check(cl.clReleaseMemObject(cl.buffer(context, 4096)))
    while cl.made("clCreateBuffer", context, 0, 1 << 30, None)[0]:
        pass
    cl.check(cl.clFinish(queue))
    asked = [r["op"] for r in cl.records("CREATE_BUFFER", "RELEASE_BUFFER")]
    assert asked[-3:] == ["CREATE_BUFFER", "RELEASE_BUFFER", "CREATE_BUFFER"], (
        "once more, when there may be room"
    )
    assert cl.last("RELEASE_BUFFER")["id"] == cl.records("CREATE_BUFFER")[0]["id"]


def writes_to_new_buffers_are_done_at_once(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context, PROFILING)
    buffer = cl.buffer(context, 4096)
    cl.write(queue, buffer, DATA)
    data = bytearray(b"once")
    event = cl.event_of(
        "clEnqueueWriteBuffer", queue, buffer, 0, 10, 4, (ctypes.c_char * 4).from_buffer(data), 0, None
    )
    data[:] = b"late"
    assert cl.status(event) == 0
    times = [cl.number("clGetEventProfilingInfo", event, what) for what in range(QUEUED, END + 1)]
    assert times[0] > 0 and times == sorted(times)
    box = sizes([16, 1, 0]), sizes([0, 0, 0]), sizes([2, 2, 1])
    cl.check(cl.clEnqueueWriteBufferRect(queue, buffer, 0, *box, 64, 0, 0, 0, b"abcd", 0, None, None))
    cl.check(cl.clReleaseEvent(event))
    expected = bytearray(DATA)
    expected[10:14] = b"once"
    expected[80:82], expected[144:146] = b"ab", b"cd"
    assert cl.read(queue, buffer, 4096) == expected
    cl.check(cl.clFinish(queue))
    writes = cl.records("WRITE")
    assert len(writes) == 3 and all(r["written_ns"] and r["slot"] == 0 for r in writes)
    assert [r["id"] for r in cl.records("TRANSFER_DONE")] == [cl.last("READ")["id"]]
    cl.write(queue, buffer, b"told")  # it was read: another thread might be at it
    assert cl.read(queue, buffer, 4) == b"told" and not cl.last("WRITE")["written_ns"]


def writes_behind_others_complete_in_order(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    program = cl.program(context, HOLD_AND_LET_GO)
    hold, go = cl.kernel(program, "hold"), cl.kernel(program, "let_go")
    for kernel in (hold, go):
        cl.set_args(kernel, c_void_p(cl.buffer(context, 1024)), c_int32(1))
    cl.launch(queue, hold)
    cl.write(queue, cl.buffer(context, 4096), DATA)  # one that blocks does not wait for what is before it
    buffer = cl.buffer(context, 4096)
    event = cl.event_of("clEnqueueWriteBuffer", queue, buffer, 0, 0, 4096, DATA, 0, None)
    cl.check(cl.clFlush(queue))
    assert cl.status(event) > 0, "the launch before it is not complete"
    other = cl.queue(context)
    cl.launch(other, go)
    cl.check(cl.clFinish(other))
    writes = cl.records("WRITE")
    assert all(r["written_ns"] for r in writes) and [bool(r["slot"]) for r in writes] == [False, True]
    assert cl.wait(event) == 0
    assert cl.read(queue, buffer, 4096) == DATA
    next_event = cl.event_of("clEnqueueWriteBuffer", queue, cl.buffer(context, 64), 0, 0, 64, DATA, 0, None)
    assert cl.status(next_event) == 0, "the read was the last before it"
    cl.check(cl.clFinish(queue))
    assert cl.last("WRITE")["slot"] == 0


def sources_that_are_not_there_yet_are_waited_for(cl: Cl) -> None:
    context = cl.context()
    queue, gate = cl.queue(context), cl.user_event(context)
    source, target = cl.buffer(context, 64), cl.buffer(context, 64)
    cl.check(cl.clEnqueueWriteBuffer(queue, source, 1, 0, 64, DATA, 0, None, None))
    cl.check(cl.clFinish(queue))
    assert not cl.last("WRITE")["written_ns"], "a user event may stand for what the application makes yet"
    middle = ctypes.create_string_buffer(64)
    read = cl.event_of("clEnqueueReadBuffer", queue, source, 0, 0, 64, middle, 1, handles([gate]))
    cl.check(cl.clSetUserEventStatus(gate, 0))
    write = cl.event_of("clEnqueueWriteBuffer", queue, target, 0, 0, 64, middle, 0, None)
    assert cl.wait(write) == 0 and cl.wait(read) == 0
    assert cl.read(queue, target, 64) == DATA[:64]
    mapped = cl.make("clEnqueueMapBuffer", queue, source, 0, 1, 0, 64, 0, None, None)
    copy = cl.buffer(context, 128)
    cl.check(cl.clEnqueueWriteBuffer(queue, copy, 0, 0, 64, c_void_p(mapped), 0, None, None))
    assert cl.read(queue, copy, 64) == DATA[:64]
    assert not cl.last("WRITE")["written_ns"], "the map may not be done yet"


def what_names_a_buffer_ends_that(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    kernel = cl.kernel(cl.program(context, ADD), "add")
    fill = struct.pack("<I", 5)

    def is_early() -> bool:
        cl.check(cl.clFinish(queue))
        return bool(cl.last("WRITE")["written_ns"])

    def launched(buffer: int) -> None:
        cl.set_args(kernel, c_void_p(buffer), c_int32(7))
        cl.launch(queue, kernel)

    def mapped(buffer: int) -> None:
        cl.make("clEnqueueMapBuffer", queue, buffer, 1, 2, 0, 64, 0, None, None)

    def copied(source: int, target: int) -> None:
        cl.check(cl.clEnqueueCopyBuffer(queue, source, target, 0, 0, 64, 0, None, None))

    whole = cl.buffer(context, 4096)
    for name in (
        launched,
        mapped,
        lambda b: copied(b, whole),
        lambda b: copied(whole, b),
        lambda b: cl.check(cl.clEnqueueFillBuffer(queue, b, fill, 4, 0, 64, 0, None, None)),
        lambda b: cl.read(queue, b, 4),
        lambda b: launched(cl.make("clCreateSubBuffer", b, 0, 0x1220, sizes([1024, 1024]))),
    ):
        buffer = cl.buffer(context, 4096)
        cl.write(queue, buffer, DATA)
        assert is_early()
        name(buffer)
        cl.write(queue, buffer, DATA)
        assert not is_early()


POISONED = frozenset({"a_buffer_that_something_failed_to_write_is_not_used_again"})
PROGRAMS = (
    a_released_buffer_is_used_again,
    a_buffer_in_use_is_not_used_again,
    a_buffer_that_something_failed_to_write_is_not_used_again,
    too_much_is_not_kept,
    too_many_are_not_kept,
    a_list_of_another_size_gets_one_that_has_room,
    of_many_that_are_about_as_large_one_is_given_up,
    what_is_kept_goes_where_memory_is_wanted,
    writes_to_new_buffers_are_done_at_once,
    writes_behind_others_complete_in_order,
    sources_that_are_not_there_yet_are_waited_for,
    what_names_a_buffer_ends_that,
)
