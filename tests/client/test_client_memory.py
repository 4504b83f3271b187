"""Programs about reading, writing, copying, filling and mapping buffers (see test_client.py)."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from ctypes import byref, c_int32, c_void_p

from sdi.wire.records import STAGED_MAX_NBYTES, STAGING_NBYTES, STAGING_OFFSET
from tests.client.test_client_binding import (
    ADD,
    COPY_HOST_PTR,
    HOST_NO_ACCESS,
    HOST_READ_ONLY,
    HOST_WRITE_ONLY,
    INVALIDATE,
    PROFILING,
    READ,
    USE_HOST_PTR,
    WRITE,
    Cl,
    handles,
    sizes,
    until,
)

DATA = bytes(range(256)) * 16
QUEUE_TO_END = range(0x1280, 0x1284)
HOLD_AND_LET_GO = (
    "kernel void hold(global uint *a, int k) { }\nkernel void let_go(global uint *a, int k) { }\n"
)


def hold_and_let_go(cl: Cl, context: c_void_p) -> tuple[c_void_p, c_void_p]:
    """A kernel whose launches end when the other one's is issued."""
    program = cl.program(context, HOLD_AND_LET_GO)
    kernels = cl.kernel(program, "hold"), cl.kernel(program, "let_go")
    for kernel in kernels:
        cl.set_args(kernel, c_void_p(cl.buffer(context, 1024)), c_int32(1))
    return kernels


def reads_and_writes_are_one_record_and_one_answer(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    data = DATA * (STAGED_MAX_NBYTES // len(DATA) + 1)  # too much to be staged
    buffer = cl.buffer(context, len(data))
    cl.read(queue, buffer, 1)  # so it is not the client's alone any more
    cl.write(queue, buffer, data)
    assert cl.read(queue, buffer, 100, 7) == DATA[7:107]
    cl.check(cl.clFinish(queue))
    created, queued = cl.last("CREATE_BUFFER"), cl.last("CREATE_QUEUE")
    assert created["buffer_nbytes"] == len(data)
    write, read = cl.last("WRITE"), cl.last("READ")
    for record, offset, nbytes in ((write, 0, len(data)), (read, 7, 100)):
        assert record["slot"] > 0
        same = {"queue": queued["id"], "buffer": created["id"], "blocking": 1, "waits": [], "tail": ""}
        shape = {"offset": offset, "region": [nbytes, 1, 1], "row_pitch": 0, "slice_pitch": 0}
        assert {k: record[k] for k in same | shape} == same | shape
    ids = [r["id"] for r in cl.records("TRANSFER_DONE")][1:]
    assert ids == [write["id"], read["id"]]
    assert [r["id"] for r in cl.records("RELEASE_EVENT")][1:3] == ids
    order = [r["op"] for r in cl.records() if r["id"] == read["id"]]
    assert order == ["READ", "TRANSFER_DONE", "RELEASE_EVENT"]


def small_writes_carry_their_bytes(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context, PROFILING)
    buffer = cl.buffer(context, 1 << 17)
    cl.read(queue, buffer, 1)  # so it is not the client's alone any more
    source = ctypes.create_string_buffer(DATA, len(DATA))
    for blocking, offset in ((1, 0), (0, 4096)):
        cl.check(cl.clEnqueueWriteBuffer(queue, buffer, blocking, offset, 4093, source, 0, None, None))
        source.raw = bytes(4096)  # it has been read
        source.raw = DATA
    box = sizes([64, 2, 0]), sizes([8, 1, 0]), sizes([16, 3, 1])
    cl.check(cl.clEnqueueWriteBufferRect(queue, buffer, 1, *box, 128, 0, 256, 0, DATA, 0, None, None))
    expected = bytearray(1 << 17)
    expected[:4093] = expected[4096:8189] = DATA[:4093]
    for row in range(3):
        expected[320 + 128 * row : 336 + 128 * row] = DATA[264 + 256 * row : 280 + 256 * row]
    assert cl.read(queue, buffer, 8189) == expected[:8189]
    cl.write(queue, buffer, DATA * 16)
    event = cl.event_of("clEnqueueWriteBuffer", queue, buffer, 1, 0, 4, DATA, 0, None)
    assert cl.status(event) == 0, "who looks at what blocked finds it complete"
    times = [cl.number("clGetEventProfilingInfo", event, what) for what in QUEUE_TO_END]
    assert times[0] > 0 and times == sorted(times)
    cl.check(cl.clReleaseEvent(event))
    assert cl.read(queue, buffer, 65536) == DATA * 16
    cl.check(cl.clFinish(queue))
    writes = cl.records("WRITE")
    assert [r["carried_nbytes"] for r in writes] == [4093, 4093, 48, 0, 4]
    assert [r["staged_at"] > 0 for r in writes] == [False, False, False, True, False]
    assert [r["slot"] for r in writes] == [0, 0, 0, 0, 0], "nobody waits for them, or they are over"
    rows = [DATA[264 + 256 * row : 280 + 256 * row] for row in range(3)]
    assert bytes.fromhex(writes[2]["tail"]) == b"".join(rows)
    assert {r["id"] for r in cl.records("TRANSFER_DONE")} == {r["id"] for r in cl.records("READ")}


def small_writes_are_not_waited_for_unless_copies_are_before_them(cl: Cl) -> None:
    context = cl.context()
    queue, other = cl.queue(context), cl.queue(context)
    hold, go = hold_and_let_go(cl, context)
    nbytes = STAGED_MAX_NBYTES + 4096
    buffer, large = cl.buffer(context, 64), cl.buffer(context, nbytes)
    cl.read(queue, buffer, 4)
    cl.read(queue, large, 4)
    cl.launch(queue, hold)
    cl.write(queue, buffer, b"held")
    cl.launch(other, go)
    assert cl.read(queue, buffer, 4) == b"held"
    data = bytes(range(256)) * (nbytes // 256)
    event = cl.event_of("clEnqueueWriteBuffer", queue, large, 0, 0, nbytes, data, 0, None)
    cl.write(queue, buffer, b"both")
    assert cl.status(event) == 0, "its source may go once what is behind it has returned"
    assert cl.read(queue, large, nbytes) == data and cl.read(queue, buffer, 4) == b"both"
    assert [r["carried_nbytes"] for r in cl.records("WRITE")] == [4, 0, 4]


def reads_that_block_are_over_for_the_application_when_it_has_the_bytes(cl: Cl) -> None:
    context = cl.context()
    queue, other = cl.queue(context, PROFILING), cl.queue(context)
    mumble = cl.kernel(cl.program(context, ADD.replace("add", "mumble")), "mumble")
    buffer = cl.buffer(context, 1 << 16)
    cl.write(queue, buffer, DATA)
    cl.set_args(mumble, c_void_p(buffer), c_int32(1))
    cl.launch(other, mumble)
    cl.check(cl.clFinish(other))
    bytes_there, called = (ctypes.c_char * len(DATA))(), []
    read = cl.event_of("clEnqueueReadBuffer", queue, buffer, 1, 0, len(DATA), bytes_there, 0, None)
    assert bytes_there.raw == DATA
    assert cl.wait(read) == 0 and cl.status(read) == 0
    notify = cl.callback(lambda _event, status, _data: called.append(status), c_void_p, c_int32)
    cl.check(cl.clSetEventCallback(read, 0, notify, None))
    until(lambda: called == [0])
    assert not cl.records("WATCH")
    cl.check(cl.clEnqueueFillBuffer(other, buffer, byref(c_int32()), 4, 0, 4, 1, handles([read]), None))
    cl.check(cl.clFinish(other))
    assert not cl.last("FILL")["waits"], "nobody need wait for it"
    times = [cl.number("clGetEventProfilingInfo", read, n) for n in QUEUE_TO_END]
    assert times == sorted(times) and times[0] > 0, "these the service says"


def writes_and_unmaps_that_wait_for_nothing_are_over_at_once(cl: Cl) -> None:
    context = cl.context()
    queue, other = cl.queue(context), cl.queue(context)
    hold, go = hold_and_let_go(cl, context)
    buffer = cl.buffer(context, 1 << 16)
    cl.read(queue, buffer, 1)
    large = DATA * 16

    def write(data: bytes) -> c_void_p:
        return cl.event_of("clEnqueueWriteBuffer", queue, buffer, 0, 0, len(data), data, 0, None)

    for data in (b"carried", large):
        assert cl.status(write(data)) == 0
    mapped = cl.make("clEnqueueMapBuffer", queue, buffer, 1, READ | WRITE, 0, 64, 0, None, None)
    ctypes.memmove(mapped, b"mapped", 6)
    unmapped = cl.event_of("clEnqueueUnmapMemObject", queue, buffer, c_void_p(mapped), 0, None)
    assert cl.status(unmapped) == 0
    assert cl.read(queue, buffer, len(large)) == b"mapped" + large[6:]
    assert [r["slot"] for r in [*cl.records("WRITE"), *cl.records("UNMAP")]] == [0, 0, 0]
    cl.launch(queue, hold)
    held = write(large)
    assert cl.status(held) > 0, "there is something before it"
    cl.launch(other, go)
    assert cl.wait(held) == 0 and cl.last("WRITE")["slot"] > 0


def writes_of_what_may_not_be_read_yet_carry_nothing(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    buffer, source = cl.buffer(context, 2 * STAGED_MAX_NBYTES), cl.buffer(context, 64, COPY_HOST_PTR, DATA)
    cl.read(queue, buffer, 1)
    cl.write(queue, buffer, bytes(STAGED_MAX_NBYTES + 1))  # too many
    gate = cl.user_event(context)
    cl.write(queue, buffer, b"user")
    event = cl.event_of("clEnqueueWriteBuffer", queue, buffer, 0, 4, 4, b"wait", 1, handles([gate]))
    cl.check(cl.clSetUserEventStatus(gate, 0))
    assert cl.wait(event) == 0
    mapped = cl.make("clEnqueueMapBuffer", queue, source, 0, READ, 0, 64, 0, None, None)
    cl.check(cl.clEnqueueWriteBuffer(queue, buffer, 0, 8, 8, c_void_p(mapped), 0, None, None))
    assert cl.read(queue, buffer, 16) == b"userwait" + DATA[:8]
    assert [r["carried_nbytes"] + r["staged_at"] for r in cl.records("WRITE")] == [0, 0, 0, 0]


def writes_of_what_is_mapped_carry_it_once_it_is_there(cl: Cl) -> None:
    context = cl.context()
    queue, other = cl.queue(context), cl.queue(context)
    hold, go = hold_and_let_go(cl, context)
    buffer, source = cl.buffer(context, 1 << 16), cl.buffer(context, 1 << 16, COPY_HOST_PTR, DATA * 16)
    third = cl.buffer(context, 64, COPY_HOST_PTR, b"third" * 12 + b"____")
    for each in (buffer, source, third):
        cl.read(queue, each, 1)

    def carried(at: int, nbytes: int, to: c_void_p = buffer, through: c_void_p = other) -> int:
        """How many bytes a write of these brings with it."""
        cl.check(cl.clEnqueueWriteBuffer(through, to, 0, 0, nbytes, c_void_p(at), 0, None, None))
        cl.check(cl.clFinish(through))
        found = cl.last("WRITE")
        return found["carried_nbytes"] + (nbytes if found["staged_at"] else 0)

    mapped = cl.make("clEnqueueMapBuffer", queue, source, 1, READ | WRITE, 4096, 8192, 0, None, None)
    assert carried(mapped, 100) == 100 and carried(mapped + 4096, 4096) == 4096
    assert carried(mapped, 8192) == 8192, "all of it"
    assert cl.read(other, buffer, 8192) == (DATA * 16)[4096:12288]
    ctypes.memmove(mapped, b"written", 7)
    assert carried(mapped, 8) == 8
    assert cl.read(other, buffer, 7) == b"written"
    assert carried(mapped + 1, 8192) == carried(mapped - 1, 8) == 0, "not mapped"
    assert carried(mapped, 8, source) == 0, "it is the same buffer"
    # What brings bytes there is under way, in another queue.
    cl.launch(queue, hold)
    into = cl.event_of("clEnqueueReadBuffer", queue, third, 0, 0, 64, c_void_p(mapped), 0, None)
    assert carried(mapped + 4096, 8) == 0
    cl.launch(other, go)
    assert cl.wait(into) == 0
    assert carried(mapped, 8) == 8
    assert cl.read(other, buffer, 8) == b"thirdthi"
    cl.check(cl.clEnqueueUnmapMemObject(queue, source, c_void_p(mapped), 0, None, None))
    assert carried(mapped, 8) == 0, "no longer"
    cl.check(cl.clFinish(queue))
    cl.check(cl.clFinish(other))


def writes_are_copied_later_where_nothing_more_can_be_staged_for_long(cl: Cl) -> None:
    """What would make room may be waiting for the application."""
    context = cl.context()
    queue = cl.queue(context)
    keep = cl.kernel(cl.program(context, "kernel void keep(int nothing) {}"), "keep")
    cl.set_args(keep, c_int32(0))
    fitting = STAGING_NBYTES // STAGED_MAX_NBYTES
    count = fitting + 2  # the second one does not wait for room
    buffers = [cl.buffer(context, STAGED_MAX_NBYTES) for _ in range(count)]
    parts = [bytes([1 + n]) * STAGED_MAX_NBYTES for n in range(count)]
    for buffer in buffers:
        cl.read(queue, buffer, 1)
    cl.launch(queue, keep)
    for buffer, part in zip(buffers, parts, strict=True):
        cl.check(cl.clEnqueueWriteBuffer(queue, buffer, 0, 0, len(part), part, 0, None, None))
    for buffer, part in zip(buffers, parts, strict=True):
        assert cl.read(queue, buffer, len(part)) == part
    cl.check(cl.clEnqueueFillBuffer(queue, buffers[0], byref(c_int32()), 4, 0, 4, 0, None, None))
    cl.check(cl.clFinish(queue))  # or the next write finds no more taken than the last one, and does not wait
    cl.write(queue, buffers[1], parts[0])
    assert cl.read(queue, buffers[1], len(parts[0])) == parts[0]
    assert [r["staged_at"] > 0 for r in cl.records("WRITE")] == [*[True] * fitting, False, False, True]


def staged_bytes_go_to_the_front_again_once_they_are_taken(cl: Cl) -> None:
    """More than there is room for, row by row too, and the client waits where the service is behind."""
    context = cl.context()
    queue = cl.queue(context)
    buffer = cl.buffer(context, STAGED_MAX_NBYTES)
    cl.read(queue, buffer, 1)
    parts = [bytes([n]) * (STAGED_MAX_NBYTES - n) for n in range(1, 4 * STAGING_NBYTES // STAGED_MAX_NBYTES)]
    for part in parts:
        cl.write(queue, buffer, part)
    last = bytearray(len(parts[0]))
    for part in parts:
        last[: len(part)] = part
    assert cl.read(queue, buffer, len(last)) == last
    box = sizes([64, 2, 0]), sizes([8, 1, 0]), sizes([200, 100, 1])
    wide = bytes(range(256)) * 101
    cl.check(cl.clEnqueueWriteBufferRect(queue, buffer, 1, *box, 512, 0, 256, 0, wide, 0, None, None))
    for row in range(100):
        last[64 + 512 * (row + 2) : 264 + 512 * (row + 2)] = wide[8 + 256 * (row + 1) : 208 + 256 * (row + 1)]
    assert cl.read(queue, buffer, len(last)) == last
    staged = [at for r in cl.records("WRITE") if (at := r["staged_at"])]  # or it has to wait for too long
    assert all(STAGING_OFFSET <= at < STAGING_OFFSET + STAGING_NBYTES for at in staged)
    assert staged.count(STAGING_OFFSET) > 1, "the front is used again"


def what_nobody_waits_for_wakes_no_service(cl: Cl) -> None:
    """Where records come through a ring, and the members' processor is the application's."""
    context = cl.context()
    queue = cl.queue(context)
    buffer = cl.buffer(context, 1024)
    cl.read(queue, buffer, 1)  # so it is not the client's alone any more
    with_ring = "SDI_FAKE_RING" in os.environ
    if with_ring:  # another thread of the client says that it has what was read
        until(lambda: cl.lines()[-1] == {"sleeps": True} and len(cl.records("RELEASE_EVENT")) == 1)
    before = cl.lines()
    for n in range(50):
        event = cl.event_of("clEnqueueWriteBuffer", queue, buffer, 0, n, 1, bytes([n]), 0, None)
        cl.check(cl.clReleaseEvent(event))
    for _ in range(300 if with_ring else 0):  # a service that was woken would have said so by now
        assert cl.lines() == before
    cl.check(cl.clFlush(queue))
    until(lambda: len(cl.records("WRITE")) == 50)
    for n in range(50, 60):
        cl.write(queue, buffer, bytes([n]), n)
    assert cl.read(queue, buffer, 60) == bytes(range(60))


def bad_ranges_have_their_codes(cl: Cl) -> None:
    context, other = cl.context(), cl.context()
    queue = cl.queue(context)
    buffer, foreign = cl.buffer(context, 64), cl.buffer(other, 64)
    event = cl.user_event(other)
    at = ctypes.create_string_buffer(64)
    for name in ("clEnqueueReadBuffer", "clEnqueueWriteBuffer"):
        call = cl.functions[name]
        for offset, nbytes in ((0, 65), (64, 1), (65, 0), (1, 2**64 - 1), (2**64 - 1, 2), (0, 0)):
            assert call(queue, buffer, 1, offset, nbytes, at, 0, None, None) == -30, (offset, nbytes)
        assert call(queue, buffer, 1, 0, 4, None, 0, None, None) == -30
        assert call(queue, foreign, 1, 0, 4, at, 0, None, None) == -34
        assert call(queue, None, 1, 0, 4, at, 0, None, None) in (-38,)
        assert call(queue, buffer, 1, 0, 4, at, 1, None, None) == -57
        assert call(queue, buffer, 1, 0, 4, at, 0, handles([event]), None) == -57
        assert call(queue, buffer, 1, 0, 4, at, 1, handles([event]), None) == -34
    assert cl.clEnqueueCopyBuffer(queue, buffer, buffer, 0, 0, 4, 0, None, None) == -8
    assert cl.clEnqueueCopyBuffer(queue, buffer, buffer, 0, 31, 32, 0, None, None) == -8
    assert cl.clEnqueueCopyBuffer(queue, buffer, buffer, 32, 0, 32, 0, None, None) == 0
    for source, target, nbytes in ((40, 0, 32), (0, 40, 32), (0, 0, 0), (0, 2**64 - 1, 4)):
        assert cl.clEnqueueCopyBuffer(queue, buffer, buffer, source, target, nbytes, 0, None, None) == -30
    assert cl.clEnqueueCopyBuffer(queue, buffer, foreign, 0, 0, 4, 0, None, None) == -34
    pattern = b"abcdefgh" * 32
    for size, offset, nbytes in (
        (0, 0, 4),
        (3, 0, 6),
        (256, 0, 64),
        (4, 2, 8),
        (4, 4, 6),
        (4, 64, 4),
        (4, 0, 0),
    ):
        assert cl.clEnqueueFillBuffer(queue, buffer, pattern, size, offset, nbytes, 0, None, None) == -30
    assert cl.clEnqueueFillBuffer(queue, buffer, None, 4, 0, 4, 0, None, None) == -30
    assert cl.clEnqueueMigrateMemObjects(queue, 0, None, 0, 0, None, None) == -30
    assert cl.clEnqueueMigrateMemObjects(queue, 1, handles([buffer]), 4, 0, None, None) == -30
    assert cl.clEnqueueMigrateMemObjects(queue, 1, handles([queue]), 0, 0, None, None) == -38
    cl.check(cl.clEnqueueMigrateMemObjects(queue, 1, handles([buffer]), 1, 0, None, None))
    cl.check(cl.clFinish(queue))
    assert not cl.records("READ", "WRITE", "FILL")


def a_migration_to_the_host_says_which_bytes_and_any_other_is_a_marker(cl: Cl) -> None:
    context = cl.context()
    queue, gate = cl.queue(context), cl.user_event(context)
    buffer = cl.buffer(context, 4096)
    part = cl.make("clCreateSubBuffer", buffer, 0, 0x1220, struct.pack("<QQ", 1024, 512))
    event = cl.event_of(
        "clEnqueueMigrateMemObjects", queue, 2, handles([buffer, part]), 1, 1, handles([gate])
    )
    cl.check(cl.clSetUserEventStatus(gate, 0))
    assert cl.wait(event) == 0
    for flags in (0, 2, 3):
        cl.check(cl.clEnqueueMigrateMemObjects(queue, 1, handles([buffer]), flags, 0, None, None))
    cl.check(cl.clFinish(queue))
    (found,) = cl.records("MIGRATE")
    places = list(struct.iter_unpack("<3Q", bytes.fromhex(found["tail"])))
    assert found["num_places"] == 2 and len(found["waits"]) == 1
    assert [each[1:] for each in places] == [(0, 4096), (1024, 512)] and places[0][0] == places[1][0]
    assert len(cl.records("MARKER")) >= 3


def a_hint_to_amds_drivers_is_taken_and_other_unknown_flags_are_not(cl: Cl) -> None:
    context, hint = cl.context(), 0x40
    for flags in (hint, hint | 4, hint | 16):
        buffer = cl.buffer(context, 8192, flags)
        assert cl.number("clGetMemObjectInfo", buffer, 0x1101) == flags
        part = cl.make("clCreateSubBuffer", buffer, 0, 0x1220, sizes([0, 64]))
        assert cl.number("clGetMemObjectInfo", part, 0x1101) == flags & ~hint
    for flags in (1 << 10, 1 << 12, 1 << 40):
        assert cl.made("clCreateBuffer", context, flags, 64, None) == (None, -30)


def the_host_keeps_off_what_it_said_it_would(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    at = ctypes.create_string_buffer(64)
    for flags, may_read, may_write in (
        (HOST_NO_ACCESS, False, False),
        (HOST_READ_ONLY, True, False),
        (HOST_WRITE_ONLY, False, True),
    ):
        buffer = cl.buffer(context, 64, flags)
        assert cl.number("clGetMemObjectInfo", buffer, 0x1101) == flags
        expected = 0 if may_read else -59
        assert cl.clEnqueueReadBuffer(queue, buffer, 1, 0, 64, at, 0, None, None) == expected
        mapped, status = cl.made("clEnqueueMapBuffer", queue, buffer, 1, READ, 0, 64, 0, None, None)
        assert status == expected and bool(mapped) == may_read
        expected = 0 if may_write else -59
        assert cl.clEnqueueWriteBuffer(queue, buffer, 1, 0, 64, at, 0, None, None) == expected
        for how in (WRITE, INVALIDATE):
            mapped, status = cl.made("clEnqueueMapBuffer", queue, buffer, 1, how, 0, 64, 0, None, None)
            assert status == expected
            assert not mapped or cl.clEnqueueUnmapMemObject(queue, buffer, mapped, 0, None, None) == 0


def large_transfers_become_ready_in_steps(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    nbytes = (40 << 20) + 123
    data = bytes(range(251)) * (nbytes // 251 + 1)
    data = data[:nbytes]
    buffer = cl.buffer(context, nbytes + 4096)
    cl.write(queue, buffer, data, 17)
    assert cl.read(queue, buffer, nbytes, 17) == data
    landed = ctypes.create_string_buffer(nbytes)
    event = cl.event_of("clEnqueueReadBuffer", queue, buffer, 0, 17, nbytes, landed, 0, None)
    assert cl.wait(event) == 0
    assert landed.raw == data
    changed = data[::-1]
    event = cl.event_of("clEnqueueWriteBuffer", queue, buffer, 0, 0, nbytes, changed, 0, None)
    assert cl.wait(event) == 0
    assert cl.read(queue, buffer, nbytes) == changed
    copied = cl.buffer(context, nbytes, COPY_HOST_PTR, changed)
    assert cl.read(queue, copied, nbytes) == changed


def transfers_that_do_not_block_are_done_in_order(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    buffer = cl.buffer(context, 4096, COPY_HOST_PTR, DATA)
    gate = cl.user_event(context)
    at = ctypes.create_string_buffer(4096)
    # the read lands in `at` before the write takes from it
    cl.check(cl.clEnqueueReadBuffer(queue, buffer, 0, 0, 2048, at, 1, handles([gate]), None))
    cl.check(cl.clEnqueueWriteBuffer(queue, buffer, 0, 2048, 2048, at, 0, None, None))
    values = [struct.pack("<i", n) for n in range(50)]  # alive until they are written
    events = [cl.event_of("clEnqueueWriteBuffer", queue, buffer, 0, 0, 4, v, 0, None) for v in values]
    assert {cl.status(e) for e in events} <= {1, 2, 3}
    cl.check(cl.clSetUserEventStatus(gate, 0))
    cl.check(cl.clFinish(queue))
    assert [cl.status(e) for e in events] == [0] * 50
    assert cl.read(queue, buffer, 4096) == struct.pack("<i", 49) + DATA[4:2048] + DATA[:2048]
    first = cl.records("READ")[0]["id"]
    assert [r["op"] for r in cl.records() if r["id"] == first] == ["READ", "TRANSFER_DONE", "RELEASE_EVENT"]


def a_buffer_outlives_its_release_while_commands_use_it(cl: Cl) -> None:
    context = cl.context()
    queue, gate = cl.queue(context), cl.user_event(context)
    buffer = cl.buffer(context, 4096, COPY_HOST_PTR, DATA)
    at = ctypes.create_string_buffer(4096)
    event = cl.event_of("clEnqueueReadBuffer", queue, buffer, 0, 0, 4096, at, 1, handles([gate]))
    cl.check(cl.clReleaseMemObject(buffer))
    assert cl.clReleaseMemObject(buffer) == -38
    cl.check(cl.clReleaseEvent(event))
    cl.check(cl.clSetUserEventStatus(gate, 0))
    cl.check(cl.clFinish(queue))
    assert at.raw == DATA


def rectangles_are_boxes_of_bytes(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    buffer = cl.buffer(context, 4096, COPY_HOST_PTR, DATA)
    at = ctypes.create_string_buffer(1024)

    def read(origin: list[int], there: list[int], region: list[int], *pitches: int) -> int:
        return cl.clEnqueueReadBufferRect(
            queue, buffer, 1, sizes(origin), sizes(there), sizes(region), *pitches, at, 0, None, None
        )

    cl.check(read([3, 2, 1], [1, 0, 0], [5, 4, 2], 16, 256, 8, 64))
    record = cl.last("READ")
    shape = {"offset": 256 + 32 + 3, "region": [5, 4, 2], "row_pitch": 16, "slice_pitch": 256}
    assert {k: record[k] for k in shape} == shape
    for z in range(2):
        for y in range(4):
            start = (z + 1) * 256 + (y + 2) * 16 + 3
            assert at.raw[z * 64 + y * 8 + 1 :][:5] == DATA[start : start + 5]
    cl.check(read([0, 0, 0], [0, 0, 0], [16, 4, 2], 0, 0, 0, 0))
    assert cl.last("READ")["region"] == [128, 1, 1]
    assert at.raw[:128] == DATA[:128]
    for origin, region, pitches in (
        ([0, 0, 0], [0, 1, 1], (0, 0, 0, 0)),
        ([0, 0, 0], [8, 4, 1], (7, 0, 0, 0)),
        ([0, 0, 0], [8, 4, 2], (8, 31, 0, 0)),
        ([0, 0, 0], [8, 4, 1], (0, 0, 7, 0)),
        ([0, 0, 0], [4097, 1, 1], (0, 0, 0, 0)),
        ([1, 0, 0], [16, 16, 16], (0, 0, 0, 0)),
        ([2**63, 2, 0], [1, 1, 1], (2**63, 0, 0, 0)),
    ):
        assert read(origin, [0, 0, 0], region, *pitches) == -30, (origin, region, pitches)
    data = ctypes.create_string_buffer(b"0123456789" * 10)
    cl.check(
        cl.clEnqueueWriteBufferRect(
            queue,
            buffer,
            0,
            sizes([1, 1, 0]),
            sizes([2, 0, 0]),
            sizes([3, 2, 1]),
            10,
            0,
            10,
            0,
            data,
            0,
            None,
            None,
        )
    )
    cl.check(cl.clFinish(queue))
    assert cl.read(queue, buffer, 3, 11) == cl.read(queue, buffer, 3, 21) == b"234"
    assert cl.read(queue, buffer, 1, 14) == DATA[14:15]


def rectangles_are_copied_unless_they_overlap(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    buffer = cl.buffer(context, 4096, COPY_HOST_PTR, DATA)

    def copy(source: list[int], target: list[int], region: list[int], *pitches: int) -> int:
        return cl.clEnqueueCopyBufferRect(
            queue, buffer, buffer, sizes(source), sizes(target), sizes(region), *pitches, 0, None, None
        )

    assert copy([0, 0, 0], [8, 0, 0], [8, 4, 1], 16, 0, 16, 0) == 0
    record = cl.last("COPY") if cl.clFinish(queue) == 0 else {}
    expected = {
        "source_offset": 0,
        "target_offset": 8,
        "region": [8, 4, 1],
        "source_row_pitch": 16,
        "target_row_pitch": 16,
        "source_slice_pitch": 64,
        "target_slice_pitch": 64,
    }
    assert {k: record[k] for k in expected} == expected
    rows = cl.read(queue, buffer, 64)
    assert all(rows[16 * y :][:8] == rows[16 * y + 8 :][:8] == DATA[16 * y :][:8] for y in range(4))
    # every pair of boxes in a small memory, against a set of bytes
    for dx in range(-4, 5):
        for dy in range(-3, 4):
            for dz in range(-2, 3):
                source, target = [8, 6, 4], [8 + dx, 6 + dy, 4 + dz]
                boxes = [
                    {
                        (z + o[2]) * 160 + (y + o[1]) * 16 + x + o[0]
                        for z in range(2)
                        for y in range(3)
                        for x in range(4)
                    }
                    for o in (source, target)
                ]
                expected_code = -8 if boxes[0] & boxes[1] else 0
                assert copy(source, target, [4, 3, 2], 16, 160, 16, 160) == expected_code, (dx, dy, dz)
    assert copy([0, 0, 0], [0, 20, 0], [4, 2, 2], 16, 160, 24, 200) == -30
    assert copy([0, 0, 0], [0, 0, 13], [16, 16, 16], 16, 256, 16, 256) == -30


def fills_repeat_their_pattern(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    buffer = cl.buffer(context, 4096, COPY_HOST_PTR, DATA)
    cl.check(cl.clEnqueueFillBuffer(queue, buffer, b"ab", 2, 4, 8, 0, None, None))
    assert cl.read(queue, buffer, 16) == DATA[:4] + b"ab" * 4 + DATA[12:16]
    record = cl.last("FILL")
    assert (record["offset"], record["region"], record["pattern_nbytes"]) == (4, [8, 1, 1], 2)
    assert bytes.fromhex(record["tail"]) == b"ab" + bytes(6)
    assert record["slot"] == 0


def mapping_gives_the_bytes_themselves(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    buffer = cl.buffer(context, 4096, COPY_HOST_PTR, DATA)
    arguments = (queue, buffer, 1, READ | WRITE, 100, 50, 0, None, None)
    pointer = cl.make("clEnqueueMapBuffer", *arguments)
    assert ctypes.string_at(pointer, 50) == DATA[100:150]
    assert cl.number("clGetMemObjectInfo", buffer, 0x1104) == 1
    ctypes.memmove(pointer, b"mapped", 6)
    cl.check(cl.clEnqueueUnmapMemObject(queue, buffer, pointer, 0, None, None))
    assert cl.number("clGetMemObjectInfo", buffer, 0x1104) == 0
    assert cl.read(queue, buffer, 8, 100) == b"mapped" + DATA[106:108]
    record = cl.last("MAP")
    expected = {"offset": 100, "region": [50, 1, 1], "flags": 3, "transfer": 0, "blocking": 1}
    assert {k: record[k] for k in expected} == expected
    record = cl.last("UNMAP")
    expected = {"offset": 100, "region": [50, 1, 1], "wrote": 1, "transfer": 0, "slot": 0}
    assert {k: record[k] for k in expected} == expected
    assert cl.clEnqueueUnmapMemObject(queue, buffer, pointer, 0, None, None) == -30
    assert cl.clEnqueueUnmapMemObject(queue, buffer, None, 0, None, None) == -30


def mappings_are_counted_and_checked(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    buffer = cl.buffer(context, 4096)

    def map_(flags: int, offset: int, nbytes: int, event: object = None) -> tuple[int | None, int]:
        return cl.made("clEnqueueMapBuffer", queue, buffer, 0, flags, offset, nbytes, 0, None, event)

    for flags, offset, nbytes in (
        (INVALIDATE | READ, 0, 4),
        (INVALIDATE | WRITE, 0, 4),
        (8, 0, 4),
        (READ, 0, 0),
        (READ, 4096, 1),
        (READ, 1, 4096),
        (READ, 2**64 - 4, 8),
    ):
        assert map_(flags, offset, nbytes) == (None, -30)
    first, status = map_(READ, 0, 16)
    second, _ = map_(READ, 0, 32)
    assert first == second and status == 0
    written, status = map_(WRITE, 64, 64)
    assert status == 0
    assert map_(WRITE, 100, 4) == (None, -59)
    assert map_(INVALIDATE, 127, 4) == (None, -59)
    assert map_(READ, 100, 4)[1] == 0
    assert map_(WRITE, 128, 4)[1] == 0
    assert cl.number("clGetMemObjectInfo", buffer, 0x1104) == 5
    for _ in range(2):
        cl.check(cl.clEnqueueUnmapMemObject(queue, buffer, first, 0, None, None))
    assert cl.clEnqueueUnmapMemObject(queue, buffer, first, 0, None, None) == -30
    cl.check(cl.clEnqueueUnmapMemObject(queue, buffer, written, 0, None, None))
    event = c_void_p()
    assert map_(WRITE, 100, 4, ctypes.byref(event))[1] == 0
    assert event.value and cl.wait(event.value) == 0
    assert cl.number("clGetEventInfo", event.value, 0x11D1) == 0x11FB


def memory_of_the_application_is_used_where_it_is(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    host = ctypes.create_string_buffer(DATA, 4096)
    address = ctypes.addressof(host)
    buffer = cl.buffer(context, 4096, USE_HOST_PTR, host)
    cl.check(cl.clEnqueueFillBuffer(queue, buffer, b"x", 1, 0, 128, 0, None, None))
    pointer = cl.make("clEnqueueMapBuffer", queue, buffer, 1, READ, 64, 128, 0, None, None)
    assert pointer == address + 64
    assert host.raw == DATA[:64] + b"x" * 64 + DATA[128:]
    cl.check(cl.clEnqueueUnmapMemObject(queue, buffer, pointer, 0, None, None))
    event = c_void_p()
    pointer = cl.make("clEnqueueMapBuffer", queue, buffer, 0, WRITE, 0, 64, 0, None, ctypes.byref(event))
    assert event.value and cl.wait(event.value) == 0
    assert pointer == address and host.raw[:64] == b"x" * 64
    host[:5] = b"hello"
    event = cl.event_of("clEnqueueUnmapMemObject", queue, buffer, pointer, 0, None)
    assert cl.wait(event) == 0
    assert cl.number("clGetEventInfo", event, 0x11D1) == 0x11FD
    assert cl.read(queue, buffer, 8) == b"helloxxx"
    pointer = cl.make("clEnqueueMapBuffer", queue, buffer, 1, INVALIDATE, 0, 64, 0, None, None)
    cl.check(cl.clEnqueueUnmapMemObject(queue, buffer, pointer, 0, None, None))
    cl.check(cl.clFinish(queue))
    assert [r["transfer"] for r in cl.records("MAP")] == [1, 1, 0]
    assert [(r["wrote"], r["transfer"]) for r in cl.records("UNMAP")] == [(0, 0), (1, 0), (1, 0)]


def a_mapping_of_another_buffer_is_used_where_it_is(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    other = cl.buffer(context, 4096, COPY_HOST_PTR, DATA)
    host = cl.make("clEnqueueMapBuffer", queue, other, 1, READ | WRITE, 0, 4096, 0, None, None)
    assert host is not None
    buffer = cl.buffer(context, 4096, USE_HOST_PTR, c_void_p(host))
    cl.check(cl.clEnqueueFillBuffer(queue, buffer, b"x", 1, 0, 128, 0, None, None))
    for blocking in (1, 0):
        pointer = cl.make("clEnqueueMapBuffer", queue, buffer, blocking, READ, 64, 128, 0, None, None)
        cl.check(cl.clFinish(queue))
        assert pointer == host + 64 and ctypes.string_at(pointer, 128) == b"x" * 64 + DATA[128:192]
        cl.check(cl.clEnqueueUnmapMemObject(queue, buffer, pointer, 0, None, None))
    assert [r["transfer"] for r in cl.records("MAP")] == [0, 1, 1]


def memory_that_is_unmapped_may_be_freed(cl: Cl) -> None:
    context = cl.context()
    queue, other = cl.queue(context), cl.queue(context)
    reader = cl.buffer(context, 4096)
    host = ctypes.create_string_buffer(DATA, 4096)
    buffer = cl.buffer(context, 4096, USE_HOST_PTR, host)
    pointer = cl.make("clEnqueueMapBuffer", queue, buffer, 1, INVALIDATE, 0, 4096, 0, None, None)
    ctypes.memset(pointer, 7, 4096)
    gate = cl.user_event(context)
    copied = c_void_p()
    cl.check(cl.clEnqueueUnmapMemObject(queue, buffer, pointer, 1, handles([gate]), ctypes.byref(copied)))
    ctypes.memset(host, 0, 4096)  # what is freed may be written by others
    cl.check(cl.clEnqueueCopyBuffer(queue, buffer, reader, 0, 0, 4096, 0, None, None))
    cl.check(cl.clReleaseMemObject(buffer))
    cl.check(cl.clSetUserEventStatus(gate, 0))
    assert copied.value and cl.wait(copied.value) == 0
    assert cl.read(queue, reader, 4096) == b"\7" * 4096
    # A map that waits for the application: nobody has written, so that the bytes are as they were.
    host = ctypes.create_string_buffer(DATA, 4096)
    buffer = cl.buffer(context, 4096, USE_HOST_PTR, host)
    gate = cl.user_event(context)
    place = (0, 4096, 1, handles([gate]), None)
    pointer = cl.make("clEnqueueMapBuffer", queue, buffer, 0, READ | WRITE, *place)
    cl.check(cl.clEnqueueUnmapMemObject(queue, buffer, pointer, 0, None, None))
    cl.check(cl.clEnqueueCopyBuffer(queue, buffer, reader, 0, 0, 4096, 0, None, None))
    cl.check(cl.clReleaseMemObject(buffer))
    cl.check(cl.clReleaseCommandQueue(other))
    cl.check(cl.clSetUserEventStatus(gate, 0))
    assert cl.read(queue, reader, 4096) == DATA
    assert [r["transfer"] for r in cl.records("UNMAP")] == [0, 1]


def releases_wait_for_copies_of_the_applications_memory(cl: Cl) -> None:
    nbytes = 2 << 20  # becomes ready in two steps
    context = cl.context()
    for what in ("clReleaseMemObject", "clReleaseCommandQueue", "clReleaseContext"):
        context = cl.context()
        queue = cl.queue(context)
        own = ctypes.create_string_buffer(nbytes)
        buffer = cl.buffer(context, nbytes, USE_HOST_PTR, own)
        cl.check(cl.clEnqueueFillBuffer(queue, buffer, b"x", 1, 0, nbytes, 0, None, None))
        to = ctypes.create_string_buffer(nbytes)
        cl.check(cl.clEnqueueReadBuffer(queue, buffer, 0, 0, nbytes, to, 0, None, None))
        released = {"clReleaseMemObject": buffer, "clReleaseCommandQueue": queue, "clReleaseContext": context}
        cl.check(cl.functions[what](released[what]))
        assert to.raw == b"x" * nbytes, what


def a_mapping_that_is_being_made_is_not_ended_by_other_threads(cl: Cl) -> None:
    context = cl.context()
    memory = (c_int32 * 1024)()
    buffer = cl.buffer(context, 4096, USE_HOST_PTR, memory)
    writer, reader = cl.queue(context), cl.queue(context)
    is_over = threading.Event()
    sys.setswitchinterval(1e-4)  # so that they take turns often

    def read() -> None:
        while not is_over.is_set():
            pointer = cl.make("clEnqueueMapBuffer", reader, buffer, 1, READ, 0, 4096, 0, None, None)
            cl.check(cl.clEnqueueUnmapMemObject(reader, buffer, pointer, 0, None, None))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    for _ in range(200):
        pointer = cl.make("clEnqueueMapBuffer", writer, buffer, 0, READ | WRITE, 0, 4096, 0, None, None)
        cl.check(cl.clEnqueueUnmapMemObject(writer, buffer, pointer, 0, None, None))
    is_over.set()
    thread.join()
    cl.check(cl.clFinish(writer))
    assert cl.number("clGetMemObjectInfo", buffer, 0x1104) == 0, "mappings that are left"


def unmapping_ends_the_mapping_of_its_queue(cl: Cl) -> None:
    context = cl.context()
    memory = (c_int32 * 1024)()
    buffer = cl.buffer(context, 4096, USE_HOST_PTR, memory)
    writer, reader = cl.queue(context), cl.queue(context)
    written = cl.make("clEnqueueMapBuffer", writer, buffer, 1, READ | WRITE, 0, 4096, 0, None, None)
    read = cl.make("clEnqueueMapBuffer", reader, buffer, 1, READ, 0, 4096, 0, None, None)
    assert written == read, "the application's memory"
    cl.check(cl.clEnqueueUnmapMemObject(writer, buffer, written, 0, None, None))
    again = cl.make("clEnqueueMapBuffer", writer, buffer, 1, READ | WRITE, 0, 4096, 0, None, None)
    cl.check(cl.clEnqueueUnmapMemObject(reader, buffer, read, 0, None, None))
    cl.check(cl.clEnqueueUnmapMemObject(reader, buffer, again, 0, None, None))
    cl.check(cl.clFinish(writer))
    assert [r["wrote"] for r in cl.records("UNMAP")] == [1, 0, 1]


ON_GPUS = {
    "a_mapping_that_is_being_made_is_not_ended_by_other_threads",
    "a_mapping_of_another_buffer_is_used_where_it_is",
    "memory_of_the_application_is_used_where_it_is",
    "memory_that_is_unmapped_may_be_freed",
    "unmapping_ends_the_mapping_of_its_queue",
}
"""Programs for an image of GPUs: CPU members are as if they used the application's memory themselves."""

PROGRAMS = (
    reads_and_writes_are_one_record_and_one_answer,
    small_writes_carry_their_bytes,
    writes_are_copied_later_where_nothing_more_can_be_staged_for_long,
    staged_bytes_go_to_the_front_again_once_they_are_taken,
    what_nobody_waits_for_wakes_no_service,
    reads_that_block_are_over_for_the_application_when_it_has_the_bytes,
    writes_and_unmaps_that_wait_for_nothing_are_over_at_once,
    a_mapping_that_is_being_made_is_not_ended_by_other_threads,
    unmapping_ends_the_mapping_of_its_queue,
    small_writes_are_not_waited_for_unless_copies_are_before_them,
    writes_of_what_may_not_be_read_yet_carry_nothing,
    writes_of_what_is_mapped_carry_it_once_it_is_there,
    bad_ranges_have_their_codes,
    a_migration_to_the_host_says_which_bytes_and_any_other_is_a_marker,
    a_hint_to_amds_drivers_is_taken_and_other_unknown_flags_are_not,
    the_host_keeps_off_what_it_said_it_would,
    large_transfers_become_ready_in_steps,
    transfers_that_do_not_block_are_done_in_order,
    a_buffer_outlives_its_release_while_commands_use_it,
    rectangles_are_boxes_of_bytes,
    rectangles_are_copied_unless_they_overlap,
    fills_repeat_their_pattern,
    mapping_gives_the_bytes_themselves,
    mappings_are_counted_and_checked,
    memory_of_the_application_is_used_where_it_is,
    a_mapping_of_another_buffer_is_used_where_it_is,
    memory_that_is_unmapped_may_be_freed,
    releases_wait_for_copies_of_the_applications_memory,
)
