"""Programs about commands on shared virtual memory: copies, fills, maps, frees (see test_client.py)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from ctypes import byref, c_uint32, c_void_p, string_at

from tests.client.test_client_binding import (
    COPY_HOST_PTR,
    INVALIDATE,
    OUT_OF_ORDER,
    READ,
    WRITE,
    Cl,
    handles,
    sizes,
    until,
)
from tests.client.test_client_events import Calls
from tests.client.test_client_svm import (
    FREES,
    INVALID_CONTEXT,
    INVALID_QUEUE,
    INVALID_VALUE,
    INVALID_WAIT_LIST,
    OVERLAP,
    WAITED_FOR_FAILURE,
    Svm,
    regions_of,
)

SVM_FREE, SVM_MEMCPY, SVM_MEMFILL, SVM_MAP, SVM_UNMAP, SVM_MIGRATE = range(0x1209, 0x120F)


def regions_and_memory_are_copied(cl: Cl) -> None:
    for properties in (0, OUT_OF_ORDER):
        svm = Svm(cl, properties)
        data = os.urandom(300_000)
        for nbytes in (1, 100, 5000, 300_000):
            (a, _), (b, _) = svm.region(data), svm.region(bytes(len(data)))
            host = ctypes.create_string_buffer(len(data))
            at = ctypes.addressof(host)
            svm.copy(b + 3, a, nbytes - 3 if nbytes == len(data) else nbytes)
            expected = (bytes(3) + data[:nbytes])[: len(data)]
            assert svm.bytes_at(b, len(expected)) == expected
            for blocking in (1, 0):
                memcpy = cl.clEnqueueSVMMemcpy
                gate = cl.user_event(svm.context)
                waits = (1, handles([gate])) if not blocking else (0, None)
                ends = [c_void_p() for _ in range(4)]
                between = ctypes.create_string_buffer(len(data))
                ctypes.memset(host, 0, len(host))
                steps = ((at, a), (b, at), (ctypes.addressof(between), at), (b, a))
                for (to, source), end in zip(steps, ends, strict=True):
                    cl.check(memcpy(svm.queue, blocking, to, source, nbytes, *waits, byref(end)))
                    waits = (1, handles([end.value or 0]))
                if not blocking:
                    assert all(cl.status(end.value or 0) > 0 for end in ends) and not any(between.raw)
                cl.check(cl.clSetUserEventStatus(gate, 0))
                assert cl.wait(*(end.value or 0 for end in ends)) == 0
                assert host.raw[:nbytes] == between.raw[:nbytes] == data[:nbytes]
                assert not any(host.raw[nbytes:]) and not any(between.raw[nbytes:])
                assert svm.bytes_at(b, nbytes) == data[:nbytes]
                types = {cl.number("clGetEventInfo", end.value, 0x11D1) for end in ends}
                assert types == {SVM_MEMCPY}
            for region in (a, b):
                cl.clSVMFree(svm.context, region)


def copies_within_a_region_and_of_what_buffers_are_mapped_to(cl: Cl) -> None:
    svm = Svm(cl)
    at, number = svm.region(bytes(range(256)))
    svm.copy(at + 128, at, 128)
    assert svm.last("COPY")["source"] == svm.last("COPY")["target"] == number
    assert svm.bytes_at(at, 256) == bytes(range(128)) * 2
    buffer = cl.buffer(svm.context, 256, COPY_HOST_PTR, b"m" * 256)
    mapped = cl.make("clEnqueueMapBuffer", svm.queue, buffer, 1, READ | WRITE, 0, 256, 0, None, None)
    svm.copy(at, mapped, 10)
    assert svm.bytes_at(at, 12) == b"m" * 10 + b"\12\13"
    svm.copy(mapped + 20, at + 128, 4)
    assert string_at(mapped + 16, 12) == b"mmmm\0\1\2\3mmmm"


def wrong_copies_are_refused(cl: Cl) -> None:
    svm, memcpy = Svm(cl), cl.clEnqueueSVMMemcpy
    (a, _), (b, _) = svm.region(bytes(100)), svm.region(bytes(100))
    foreign = cl.clSVMAlloc(cl.context(), 0, 100, 0)
    host = ctypes.create_string_buffer(200)
    at = ctypes.addressof(host)
    none, num = (0, None, None), len(cl.records("COPY", "READ", "WRITE"))
    assert memcpy(None, 1, a, b, 4, *none) == INVALID_QUEUE
    for to, source, nbytes, code in (
        (None, a, 4, INVALID_VALUE),
        (a, None, 4, INVALID_VALUE),
        (None, a, 0, INVALID_VALUE),
        (a, None, 0, INVALID_VALUE),
        (a, a, 1, OVERLAP),
        (a, a + 3, 4, OVERLAP),
        (a + 3, a, 4, OVERLAP),
        (at, at + 99, 100, OVERLAP),
        (at + 99, at, 100, OVERLAP),
        (a, b, 101, INVALID_VALUE),
        (a + 1, b, 100, INVALID_VALUE),
        (a, b + 1, 100, INVALID_VALUE),
        (a, at, 101, INVALID_VALUE),
        (at, a, 101, INVALID_VALUE),
        (at, a, 2**64 - 200, OVERLAP),
        (foreign, a, 4, INVALID_CONTEXT),
        (a, foreign, 4, INVALID_CONTEXT),
        (at, foreign, 4, INVALID_CONTEXT),
    ):
        assert memcpy(svm.queue, 1, to, source, nbytes, *none) == code, (to, source, nbytes)
    elsewhere = cl.user_event(cl.context())
    for to, source, nbytes in ((a, b, 4), (at, a, 4), (a, at, 4), (at, at + 8, 4), (a, b, 0)):
        assert memcpy(svm.queue, 1, to, source, nbytes, 1, None, None) == INVALID_WAIT_LIST
        assert memcpy(svm.queue, 1, to, source, nbytes, 0, handles([elsewhere]), None) == INVALID_WAIT_LIST
        assert memcpy(svm.queue, 1, to, source, nbytes, 1, handles([svm.queue]), None) == INVALID_WAIT_LIST
        assert memcpy(svm.queue, 1, to, source, nbytes, 1, handles([elsewhere]), None) == INVALID_CONTEXT
    assert len(cl.records("COPY", "READ", "WRITE")) == num
    gate = cl.user_event(svm.context)
    cl.check(cl.clSetUserEventStatus(gate, -5))
    for to, source, nbytes in ((a, b, 4), (at, a, 4), (a, at, 4), (at, at + 8, 4), (a, b, 0)):
        event = c_void_p()
        code = memcpy(svm.queue, 1, to, source, nbytes, 1, handles([gate]), byref(event))
        assert code == WAITED_FOR_FAILURE and not event.value, (to, source, nbytes)


def nothing_is_copied_and_filled_in_its_turn(cl: Cl) -> None:
    svm = Svm(cl, OUT_OF_ORDER)
    at, _ = svm.region(bytes(100))
    gate = cl.user_event(svm.context)
    waits = (1, handles([gate]))
    copied = cl.event_of("clEnqueueSVMMemcpy", svm.queue, 0, at, at + 50, 0, *waits)
    filled = cl.event_of("clEnqueueSVMMemFill", svm.queue, at, b"ab", 2, 0, *waits)
    assert cl.status(copied) > 0 and cl.status(filled) > 0
    cl.check(cl.clSetUserEventStatus(gate, 0))
    assert cl.wait(copied, filled) == 0
    done = cl.event_of("clEnqueueSVMMemcpy", svm.queue, 1, at, at + 50, 0, 0, None)
    assert cl.status(done) == 0
    types = [cl.number("clGetEventInfo", event, 0x11D1) for event in (copied, filled, done)]
    assert types == [SVM_MEMCPY, SVM_MEMFILL, SVM_MEMCPY]
    assert not cl.records("COPY", "FILL")


def regions_are_filled(cl: Cl) -> None:
    svm, fill = Svm(cl), cl.clEnqueueSVMMemFill
    at, number = svm.region(bytes(1024))
    event = cl.event_of("clEnqueueSVMMemFill", svm.queue, at + 16, b"abcd", 4, 24, 0, None)
    assert cl.wait(event) == 0 and cl.number("clGetEventInfo", event, 0x11D1) == SVM_MEMFILL
    record = svm.last("FILL")
    assert (record["buffer"], record["offset"], record["region"][0]) == (number, 16, 24)
    assert svm.bytes_at(at, 48) == bytes(16) + b"abcd" * 6 + bytes(8)
    long = bytes(range(128))
    cl.check(fill(svm.queue, at + 256, long, 128, 768, 0, None, None))
    assert svm.bytes_at(at + 256, 768) == long * 6
    mine, num = ctypes.create_string_buffer(4096), len(cl.records("FILL"))
    foreign = cl.clSVMAlloc(cl.context(), 0, 100, 0)
    aligned = -(-ctypes.addressof(mine) // 1024) * 1024
    none, wrong = (0, None, None), (1, handles([svm.queue]), None)
    assert fill(None, at, b"abcd", 4, 8, *none) == INVALID_QUEUE
    for pointer, pattern, pattern_nbytes, nbytes in (
        (None, b"abcd", 4, 8),
        (at, None, 4, 8),
        (at, b"abcd", 0, 8),
        (at, b"abc", 3, 9),
        (at, bytes(256), 256, 512),
        (at + 2, b"abcd", 4, 8),
        (at, b"abcd", 4, 6),
        (at, b"abcd", 4, 1028),
        (at + 1020, b"abcd", 4, 8),
        (aligned, b"abcd", 4, 8),
        (at, None, 4, 0),
        (None, b"abcd", 4, 0),
        (at, b"abcd", 3, 0),
    ):
        assert fill(svm.queue, pointer, pattern, pattern_nbytes, nbytes, *none) == INVALID_VALUE, nbytes
    assert fill(svm.queue, foreign, b"abcd", 4, 8, *none) == INVALID_CONTEXT
    assert fill(svm.queue, at, b"abcd", 4, 8, *wrong) == INVALID_WAIT_LIST
    assert fill(svm.queue, at, b"abcd", 4, 0, *wrong) == INVALID_WAIT_LIST
    assert len(cl.records("FILL")) == num


def maps_lie_within_each_other(cl: Cl) -> None:
    svm = Svm(cl)
    at, number = svm.region(bytes(1000))
    places = [(at, 1000, READ | WRITE), (at, 10, READ), (at + 100, 50, WRITE), (at + 120, 500, INVALIDATE)]
    for pointer, nbytes, flags in places:
        event = cl.event_of("clEnqueueSVMMap", svm.queue, 0, flags, pointer, nbytes, 0, None)
        assert cl.wait(event) == 0 and cl.number("clGetEventInfo", event, 0x11D1) == SVM_MAP
        record = svm.last("MAP")
        found = (record["buffer"], record["offset"], record["region"], record["flags"], record["transfer"])
        assert found == (number, pointer - at, [nbytes, 1, 1], flags, 0)
    ctypes.memmove(at + 110, b"written", 7)
    ended = []
    for pointer in (at + 100, at, at + 120, at):
        event = cl.event_of("clEnqueueSVMUnmap", svm.queue, pointer, 0, None)
        assert cl.wait(event) == 0 and cl.number("clGetEventInfo", event, 0x11D1) == SVM_UNMAP
        record = svm.last("UNMAP")
        ended.append((record["offset"], record["region"][0], record["wrote"], record["transfer"]))
    assert ended == [(100, 50, 1, 0), (0, 10, 0, 0), (120, 500, 1, 0), (0, 1000, 1, 0)]
    assert svm.bytes_at(at + 110, 8) == b"written\0"
    assert cl.clEnqueueSVMUnmap(svm.queue, at, 0, None, None) == INVALID_VALUE
    cl.check(cl.clEnqueueSVMMap(svm.queue, 1, WRITE, at, 1000, 0, None, None))
    cl.clSVMFree(svm.context, at)  # mapped: gone altogether
    cl.check(cl.clFinish(svm.queue))
    assert [(r["op"], r["id"]) for r in cl.records(*FREES)] == [("RELEASE_BUFFER", number)]


def wrong_maps_are_refused(cl: Cl) -> None:
    svm, map_it, unmap = Svm(cl), cl.clEnqueueSVMMap, cl.clEnqueueSVMUnmap
    at, _ = svm.region(bytes(100))
    other = cl.context()
    foreign, elsewhere = cl.clSVMAlloc(other, 0, 100, 0), cl.queue(other)
    mine = ctypes.create_string_buffer(8)
    none, wrong = (0, None, None), (1, handles([svm.queue]), None)
    assert map_it(None, 1, READ, at, 8, *none) == unmap(None, at, *none) == INVALID_QUEUE
    for pointer, nbytes, flags in (
        (None, 8, READ),
        (at, 0, READ),
        (at, 8, 8),
        (at, 8, READ | INVALIDATE),
        (at, 8, WRITE | INVALIDATE),
        (at, 101, READ),
        (at + 99, 2, READ),
        (at + 100, 1, READ),
        (at, 2**64 - 1, READ),
        (ctypes.addressof(mine), 8, READ),
    ):
        assert map_it(svm.queue, 1, flags, pointer, nbytes, *none) == INVALID_VALUE, (nbytes, flags)
    assert map_it(svm.queue, 1, READ, foreign, 8, *none) == INVALID_CONTEXT
    assert map_it(svm.queue, 1, READ, at, 8, *wrong) == INVALID_WAIT_LIST
    cl.check(map_it(svm.queue, 1, READ, at + 8, 8, *none))
    for pointer in (None, at, at + 9, at + 16, ctypes.addressof(mine)):
        assert unmap(svm.queue, pointer, *none) == INVALID_VALUE
    assert unmap(elsewhere, at + 8, *none) == INVALID_CONTEXT
    assert unmap(svm.queue, at + 8, *wrong) == INVALID_WAIT_LIST
    assert not cl.records("UNMAP")
    cl.check(unmap(svm.queue, at + 8, *none))
    gate = cl.user_event(svm.context)
    cl.check(cl.clSetUserEventStatus(gate, -5))
    assert map_it(svm.queue, 1, READ, at, 8, 1, handles([gate]), None) == WAITED_FOR_FAILURE
    assert unmap(svm.queue, at, *none) == INVALID_VALUE


def regions_migrate(cl: Cl) -> None:
    svm, migrate = Svm(cl), cl.clEnqueueSVMMigrateMem
    (a, first), (b, second) = svm.region(bytes(1000)), svm.region(bytes(500))
    pointers, host, undefined = handles([a + 10, b + 499]), 1, 2
    event = cl.event_of("clEnqueueSVMMigrateMem", svm.queue, 2, pointers, sizes([20, 0]), host, 0, None)
    assert cl.wait(event) == 0 and cl.number("clGetEventInfo", event, 0x11D1) == SVM_MIGRATE
    record = svm.last("MIGRATE")
    told = struct.unpack("<6Q", bytes.fromhex(record["tail"]))
    assert (record["num_places"], record["member"], told) == (2, 0, (first, 10, 20, second, 0, 500))
    cl.check(migrate(svm.queue, 2, pointers, None, host, 0, None, None))
    told = struct.unpack("<6Q", bytes.fromhex(svm.last("MIGRATE")["tail"]))
    assert told == (first, 0, 1000, second, 0, 500)
    for flags in (0, undefined, host | undefined):
        event = cl.event_of("clEnqueueSVMMigrateMem", svm.queue, 2, pointers, None, flags, 0, None)
        assert cl.wait(event) == 0 and cl.number("clGetEventInfo", event, 0x11D1) == SVM_MIGRATE
    assert len(cl.records("MIGRATE")) == 2
    mine, none = ctypes.create_string_buffer(8), (0, None, None)
    foreign = cl.clSVMAlloc(cl.context(), 0, 100, 0)
    assert migrate(None, 2, pointers, None, 0, *none) == INVALID_QUEUE
    for num, given, lengths, flags in (
        (0, pointers, None, 0),
        (2, None, None, 0),
        (2, pointers, None, 4),
        (2, pointers, [991, 1], 0),
        (2, pointers, [1, 2], 0),
        (1, handles([ctypes.addressof(mine)]), [1], 0),
        (1, handles([ctypes.addressof(mine)]), None, 0),
    ):
        assert migrate(svm.queue, num, given, sizes(lengths), flags, *none) == INVALID_VALUE, lengths
    assert migrate(svm.queue, 1, handles([foreign]), None, 0, *none) == INVALID_CONTEXT
    assert migrate(svm.queue, 2, pointers, None, 0, 1, handles([svm.queue]), None) == INVALID_WAIT_LIST


def regions_are_freed_in_their_turn(cl: Cl) -> None:
    svm, free = Svm(cl), cl.clEnqueueSVMFree
    (a, first), (b, second), (c, third) = (svm.region(bytes(5000)) for _ in range(3))
    gate, none = cl.user_event(svm.context), (0, None, None)
    waits = (1, handles([gate]))
    pointers = handles([a, b, None])  # type: ignore[list-item]
    event = cl.event_of("clEnqueueSVMFree", svm.queue, 3, pointers, None, None, *waits)
    ctypes.memset(pointers, 0, 24)  # they are the application's again
    assert cl.number("clGetEventInfo", event, 0x11D1) == SVM_FREE
    cl.check(cl.clFlush(svm.queue))
    assert cl.status(event) > 0
    assert svm.cl.clSetKernelArgSVMPointer(svm.kernel("plain"), 0, a) == 0  # it lives
    assert not cl.records(*FREES)
    cl.check(cl.clSetUserEventStatus(gate, 0))
    assert cl.wait(event) == 0
    until(lambda: len(cl.records(*FREES)) == 2)
    assert {r["id"] for r in cl.records(*FREES)} == {first, second}
    assert cl.number("clGetEventInfo", event, 0x11D2) == 1
    # with a callback it is for that to free
    seen: list[tuple[int, list[int], int]] = []

    def give(queue: int, num: int, given: Sequence[int], data: int) -> None:
        seen.append((queue, list(given[:num]), data))
        cl.clSVMFree(svm.context, given[0])

    notify = cl.callback(give, c_void_p, c_uint32, ctypes.POINTER(c_void_p))
    mine = ctypes.create_string_buffer(8)
    at = ctypes.addressof(mine)
    cl.check(free(svm.queue, 2, handles([c, at]), notify, 77, *none))
    until(lambda: len(cl.records(*FREES)) == 3)
    assert seen == [(svm.queue, [c, at], 77)] and cl.records(*FREES)[-1]["id"] == third
    cl.check(free(svm.queue, 0, None, None, None, *none))
    assert free(None, 1, handles([c]), None, None, *none) == INVALID_QUEUE
    assert free(svm.queue, 0, handles([c]), None, None, *none) == INVALID_VALUE
    assert free(svm.queue, 1, None, None, None, *none) == INVALID_VALUE
    assert free(svm.queue, 1, handles([c]), None, None, 1, handles([svm.queue]), None) == INVALID_WAIT_LIST


def what_is_not_freed_stays(cl: Cl) -> None:
    svm, calls = Svm(cl), Calls(cl)
    (a, _), (b, _) = svm.region(b"a" * 5000), svm.region(b"b" * 5000)
    asked: list[int] = []
    notify = cl.callback(lambda *_: asked.append(1), c_void_p, c_uint32, c_void_p)
    gate = cl.user_event(svm.context)
    waits = (1, handles([gate]))
    first = cl.event_of("clEnqueueSVMFree", svm.queue, 1, handles([a]), None, None, *waits)
    second = cl.event_of("clEnqueueSVMFree", svm.queue, 1, handles([b]), notify, None, *waits)
    for event in (first, second):  # called after what frees
        cl.check(cl.clSetEventCallback(event, 0, calls.function, 0))
    cl.check(cl.clSetUserEventStatus(gate, -5))
    assert {status for _, status, _ in calls.wait_for(2)} == {WAITED_FOR_FAILURE}
    assert not asked and not cl.records(*FREES)
    assert svm.bytes_at(a, 2) == b"aa" and svm.bytes_at(b, 2) == b"bb"


def a_queue_may_go_before_what_it_frees(cl: Cl) -> None:
    svm = Svm(cl)
    at, number = svm.region(bytes(5000))
    gate, queue = cl.user_event(svm.context), cl.queue(svm.context)
    cl.check(cl.clEnqueueSVMFree(queue, 1, handles([at]), None, None, 1, handles([gate]), None))
    cl.check(cl.clReleaseCommandQueue(queue))
    cl.check(cl.clSetUserEventStatus(gate, 0))
    until(lambda: [r["id"] for r in cl.records(*FREES)] == [number])
    until(lambda: len(cl.records("RELEASE_QUEUE")) == 1)


def regions_may_be_freed_behind_commands_that_use_them(cl: Cl) -> None:
    svm = Svm(cl)
    gate = cl.user_event(svm.context)
    waits = (1, handles([gate]))
    (a, first), (b, second) = svm.region(b"x" * 5000), svm.region(bytes(5000))
    host = ctypes.create_string_buffer(5000)
    kernel = svm.kernel("follow", a, b)
    launched = c_void_p()
    cl.launch(svm.queue, kernel, 8, [gate], byref(launched))
    copied = cl.event_of("clEnqueueSVMMemcpy", svm.queue, 0, host, a, 5000, *waits)
    cl.clSVMFree(svm.context, a)
    cl.clSVMFree(svm.context, b)
    cl.check(cl.clSetUserEventStatus(gate, 0))
    assert cl.wait(launched.value or 0, copied) == 0
    assert regions_of(svm.last("NDRANGE")) == [first, second] and host.raw == b"x" * 5000
    until(lambda: {r["id"] for r in cl.records(*FREES)} == {first, second})


PROGRAMS = (
    regions_and_memory_are_copied,
    copies_within_a_region_and_of_what_buffers_are_mapped_to,
    wrong_copies_are_refused,
    nothing_is_copied_and_filled_in_its_turn,
    regions_are_filled,
    maps_lie_within_each_other,
    wrong_maps_are_refused,
    regions_migrate,
    regions_are_freed_in_their_turn,
    what_is_not_freed_stays,
    a_queue_may_go_before_what_it_frees,
    regions_may_be_freed_behind_commands_that_use_them,
)
