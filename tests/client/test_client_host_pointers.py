"""Programs about memory of the application that CPU members seem to use (see test_client.py)."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Callable
from ctypes import c_int32, c_void_p
from pathlib import Path

from tests.client.test_client_binding import (
    COMPLETE,
    HOST_NO_ACCESS,
    HOST_READ_ONLY,
    HOST_WRITE_ONLY,
    INVALIDATE,
    OUT_OF_ORDER,
    PROFILING,
    READ,
    READ_ONLY,
    USE_HOST_PTR,
    WRITE,
    Cl,
    asks_the_kernel,
)

SOURCE = """
kernel void add(global int *data, int term) {}
kernel void look(global const int *data, global int *other) {}
kernel void glance(global int *unwritten, global int *other) {}
kernel void hold(global int *data) {}
kernel void let_go(int nothing) {}
kernel void withhold(int nothing) {}
"""
NUM = 1 << 14  # 64 KiB: 16 pages
PAGE = 1024
Int = ctypes.c_int32


class Shared:
    """A buffer of ``num`` ints in ``memory`` of ours, kernels and a queue."""

    def __init__(self, cl: Cl, num: int = NUM, flags: int = 0, properties: int = 0) -> None:
        self.cl = cl
        self.context = cl.context()
        self.queue = cl.queue(self.context, properties)
        program = cl.program(self.context, SOURCE)
        self.add, self.look, self.hold, self.let_go, self.withhold = (
            cl.kernel(program, name) for name in ("add", "look", "hold", "let_go", "withhold")
        )
        self.memory = (Int * num)(*range(num))
        self.buffer = cl.buffer(self.context, 4 * num, USE_HOST_PTR | flags, self.memory)

    def added(self, term: int, waits: tuple[int, ...] = (), buffer: int | None = None) -> int:
        """Enqueues adding ``term`` to all ints; the event."""
        event = c_void_p()
        self.cl.set_args(self.add, c_void_p(buffer or self.buffer), c_int32(term))
        self.cl.launch(self.queue, self.add, waits=waits, event=ctypes.byref(event))
        assert event.value
        return event.value

    def held(self, queue: int | None = None) -> None:
        """Enqueues a kernel that runs until ``release_held``."""
        self.cl.set_args(self.hold, c_void_p(self.buffer))
        self.cl.launch(queue or self.queue, self.hold)

    def release_held(self) -> None:
        """Lets it end."""
        queue = self.cl.queue(self.context)
        self.cl.set_args(self.let_go, c_int32(0))
        self.cl.launch(queue, self.let_go)


def unasked(cl: Cl, op: str) -> list[tuple[int, int]]:
    """Offset and length of the records that nobody asked for."""
    return [(r["offset"], r["region"][0]) for r in cl.records(op) if r["unasked"]]


def both_sides_see_one_memory(cl: Cl) -> None:
    shared = Shared(cl)
    memory = shared.memory
    shared.added(5)
    cl.check(cl.clFinish(shared.queue))
    assert memory[:] == [i + 5 for i in range(NUM)]
    assert unasked(cl, "WRITE") == [], "nothing was changed"
    memory[PAGE] = memory[2 * PAGE] = memory[5 * PAGE - 1] = 100
    shared.added(1)
    cl.check(cl.clFinish(shared.queue))
    assert unasked(cl, "WRITE") == [(4096, 8192), (16384, 4096)], "whole pages in few runs"
    assert [memory[i] for i in (0, PAGE, 2 * PAGE, 5 * PAGE - 1)] == [6, 101, 101, 101]
    other = cl.buffer(shared.context, 4 * NUM)
    assert cl.counted("host_compared_nbytes") == 4 * 4 * NUM
    assert cl.counted("host_copied_nbytes") == 2 * 4 * NUM + 3 * 4096
    # Other commands: of the buffer, of a part of it.
    memory[3] = -3
    cl.check(cl.clEnqueueCopyBuffer(shared.queue, shared.buffer, other, 0, 0, 4096, 0, None, None))
    assert cl.read(shared.queue, other, 4, 12) == (-3).to_bytes(4, "little", signed=True)
    memory[4] = -4
    assert cl.read(shared.queue, shared.buffer, 4, 16) == (-4).to_bytes(4, "little", signed=True)
    part = cl.make("clCreateSubBuffer", shared.buffer, 0, 0x1220, (ctypes.c_size_t * 2)(4096, 4096))
    memory[PAGE] = memory[0] = 7
    cl.check(cl.clFinish(shared.queue))
    shared.added(1, buffer=part)
    cl.check(cl.clFinish(shared.queue))
    assert (memory[PAGE], memory[0], memory[2 * PAGE]) == (8, 7, 101)
    cl.check(cl.clEnqueueFillBuffer(shared.queue, shared.buffer, b"\1", 1, 8, 4, 0, None, None))
    cl.write(shared.queue, shared.buffer, b"\2" * 4, 16)
    assert memory[:5] == [7, 7, 0x01010101, -3, 0x02020202]
    assert cl.read(shared.queue, shared.buffer, 4, 0) == b"\7\0\0\0"
    assert memory[0] == 7


def many_changed_pages_are_few_records(cl: Cl) -> None:
    shared = Shared(cl, num=1 << 19)
    for page in range(0, 512, 2):
        shared.memory[page * PAGE] = -1
    shared.added(1)
    cl.check(cl.clFinish(shared.queue))
    assert 1 <= len(unasked(cl, "WRITE")) <= 64
    assert shared.memory[:] == [0 if i % (2 * PAGE) == 0 else i + 1 for i in range(1 << 19)]


def results_are_there_after_every_way_to_wait(cl: Cl) -> None:
    shared = Shared(cl, properties=PROFILING)
    other = cl.buffer(shared.context, 64)
    queue = shared.queue

    def called_back(event: int) -> None:
        seen = []
        done = threading.Event()

        def notify(_event: int, _status: int, _data: object) -> None:
            seen.append(shared.memory[1])
            done.set()

        types = (c_void_p, c_int32)
        cl.check(cl.clSetEventCallback(event, COMPLETE, cl.callback(notify, *types), None))
        done.wait()
        assert seen == [shared.memory[1]]

    def polled(event: int) -> None:
        while cl.status(event) != COMPLETE:
            pass

    def timed(event: int) -> None:
        while cl.clGetEventProfilingInfo(event, 0x1283, 8, (ctypes.c_uint64 * 1)(), None):
            pass

    def mapped(_event: int) -> None:
        pointer = cl.make("clEnqueueMapBuffer", queue, other, 1, READ, 0, 64, 0, None, None)
        cl.check(cl.clEnqueueUnmapMemObject(queue, other, pointer, 0, None, None))

    def mapped_itself(_event: int) -> None:
        pointer = cl.make("clEnqueueMapBuffer", queue, shared.buffer, 1, READ, 400, 8, 0, None, None)
        assert pointer == ctypes.addressof(shared.memory) + 400
        cl.check(cl.clEnqueueUnmapMemObject(queue, shared.buffer, pointer, 0, None, None))

    waits: list[Callable[[int], object]] = [
        lambda _event: cl.check(cl.clFinish(queue)),
        lambda event: cl.check(cl.wait(event)),
        lambda _event: cl.read(queue, other, 64),
        lambda _event: cl.write(queue, other, bytes(64)),
        mapped,
        mapped_itself,
        polled,
        timed,
        called_back,
    ]
    for number, wait in enumerate(waits, 1):
        event = shared.added(1)
        wait(event)
        assert shared.memory[1] == 1 + number, f"way {number - 1}"
        cl.check(cl.clReleaseEvent(event))
    shared.added(1)
    cl.check(cl.clReleaseMemObject(shared.buffer))
    assert shared.memory[1] == 2 + len(waits), "the last release"


def what_is_written_beside_pending_commands_is_not_lost(cl: Cl) -> None:
    shared = Shared(cl)
    memory = shared.memory
    shared.held()
    shared.added(1)
    memory[7] = 1000  # to the plain driver, a race; kernels that do not touch it leave it
    shared.release_held()
    cl.check(cl.clFinish(shared.queue))
    assert memory[:8] == [1, 2, 3, 4, 5, 6, 7, 1000]
    shared.added(1)
    cl.check(cl.clFinish(shared.queue))
    assert memory[:8] == [2, 3, 4, 5, 6, 7, 8, 1001]
    # Another part is free to be used meanwhile.
    low, high = (
        cl.make("clCreateSubBuffer", shared.buffer, 0, 0x1220, (ctypes.c_size_t * 2)(at, 4096))
        for at in (0, 8192)
    )
    cl.set_args(shared.hold, c_void_p(low))
    cl.launch(shared.queue, shared.hold)
    second = cl.queue(shared.context)
    memory[2 * PAGE] = 50
    cl.set_args(shared.add, c_void_p(high), c_int32(1))
    cl.launch(second, shared.add)
    cl.check(cl.clFinish(second))
    assert memory[2 * PAGE] == 51
    shared.release_held()
    cl.check(cl.clFinish(shared.queue))


def commands_behind_a_user_event_see_what_was_written_before_it_was_set(cl: Cl) -> None:
    for properties in (0, OUT_OF_ORDER):
        shared = Shared(cl, properties=properties)
        gate, idle = cl.user_event(shared.context), cl.user_event(shared.context)
        first = shared.added(1, (gate,))
        second = shared.added(1, (first,))
        shared.memory[0] = 100
        cl.check(cl.clSetUserEventStatus(gate, 0))
        cl.check(cl.wait(second))
        assert shared.memory[:3] == [102, 3, 4]
        # The last release does not wait for the application, and what it writes then is seen too.
        gate = cl.user_event(shared.context)
        last = shared.added(1, (gate,))
        cl.check(cl.clReleaseMemObject(shared.buffer))
        shared.memory[1] = 200
        cl.check(cl.clSetUserEventStatus(gate, 0))
        cl.check(cl.wait(last))
        assert shared.memory[:3] == [103, 201, 5]
        cl.check(cl.clReleaseEvent(idle))


def maps_copy_nothing_of_their_own(cl: Cl) -> None:
    shared = Shared(cl)
    memory, queue = shared.memory, shared.queue
    for flags in (READ, WRITE, INVALIDATE):
        event = c_void_p()
        pointer = cl.make(
            "clEnqueueMapBuffer", queue, shared.buffer, 0, flags, 4, 4, 0, None, ctypes.byref(event)
        )
        assert event.value and cl.wait(event.value) == 0
        memory[1] = 40 + flags
        cl.check(cl.clEnqueueUnmapMemObject(queue, shared.buffer, pointer, 0, None, None))
        assert cl.read(queue, shared.buffer, 4, 4) == (40 + flags).to_bytes(4, "little")
    assert {r["transfer"] for r in cl.records("MAP", "UNMAP")} == {0}


def results_beside_what_a_host_that_only_writes_wrote_are_kept(cl: Cl) -> None:
    shared = Shared(cl, flags=HOST_WRITE_ONLY)
    queue = shared.queue
    other = cl.buffer(shared.context, 4 * NUM)
    expected = list(range(NUM))

    def launched() -> None:
        expected[:] = [value + 5 for value in expected]
        cl.check(cl.wait(shared.added(5)))

    def compared(how: str) -> None:
        cl.check(cl.clEnqueueCopyBuffer(queue, shared.buffer, other, 0, 0, 4 * NUM, 0, None, None))
        assert cl.read(queue, other, 4 * NUM) == bytes((Int * NUM)(*expected)), how

    launched()
    pointer = cl.make("clEnqueueMapBuffer", queue, shared.buffer, 1, WRITE, 400, 80, 0, None, None)
    shared.memory[102] = expected[102] = -7  # of the 20 that are mapped, and of their page
    cl.check(cl.clEnqueueUnmapMemObject(queue, shared.buffer, pointer, 0, None, None))
    compared("with a map")
    launched()
    shared.memory[PAGE] = expected[PAGE] = -8
    compared("without a map")
    launched()
    cl.write(queue, shared.buffer, b"\3" * 4, 40)
    expected[10] = 0x03030303
    shared.memory[11] = expected[11] = -9
    compared("beside a write")


def what_kernels_only_read_is_not_read_back(cl: Cl) -> None:
    shared = Shared(cl)
    other = cl.buffer(shared.context, 4 * NUM)
    for _ in range(3):
        shared.memory[0] += 1
        cl.set_args(shared.look, c_void_p(shared.buffer), c_void_p(other))
        cl.launch(shared.queue, shared.look)
        cl.launch(shared.queue, shared.look)
        cl.check(cl.clFinish(shared.queue))
    assert unasked(cl, "READ") == []
    assert unasked(cl, "WRITE") == [(0, 4096)] * 3
    constant = Shared(cl, flags=READ_ONLY)
    cl.check(cl.wait(constant.added(1)))
    assert unasked(cl, "READ") == []


def what_a_kernel_does_not_write_is_not_read_back(cl: Cl) -> None:
    """Whatever its argument is declared as."""
    shared = Shared(cl)
    other = (Int * PAGE)()
    glance = cl.kernel(cl.program(shared.context, SOURCE), "glance")
    written = cl.buffer(shared.context, 4 * PAGE, USE_HOST_PTR, other)
    cl.set_args(glance, c_void_p(shared.buffer), c_void_p(written))
    cl.launch(shared.queue, glance)
    cl.check(cl.clFinish(shared.queue))
    assert unasked(cl, "READ") == [(0, 4 * PAGE)], "only of what may be written"


class Apart:
    """Memory of 64 pages and a bit, that begins somewhere in a page, and a buffer there."""

    NBYTES = 64 * 4096 + 100
    BEGIN = 48

    def __init__(self, cl: Cl) -> None:
        self.cl = cl
        self.context = cl.context()
        self.queue = cl.queue(self.context)
        self.pages = mmap.mmap(-1, 66 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.bytes = (ctypes.c_uint8 * self.NBYTES).from_buffer(self.pages, self.BEGIN)
        self.buffer = cl.buffer(self.context, self.NBYTES, USE_HOST_PTR, self.bytes)

    def seen(self, buffer: int | None = None) -> int:
        """Kernels see what is there now; how many bytes were compared for that."""
        before = self.cl.counted("host_compared_nbytes")
        assert self.cl.read(self.queue, buffer or self.buffer, self.NBYTES) == bytes(self.bytes)
        return self.cl.counted("host_compared_nbytes") - before

    def settle(self) -> int:
        """Have the kernel watch it; how many bytes are compared then where nothing was written."""
        for _ in range(3):
            assert self.seen() == self.NBYTES
        return self.seen()


def memory_that_mostly_stays_as_it_is_is_not_compared(cl: Cl) -> None:
    apart = Apart(cl)
    assert [*asks_the_kernel()] == [], "not before it is worth it"
    at_ends = apart.settle()
    if len([*asks_the_kernel()]) < 2:  # Linux before 6.7, or a container that forbids it
        assert at_ends == apart.NBYTES
        return
    assert at_ends == 2 * 4096 + 100, "where others may write to the same pages"
    for at in (0, 4048, 4049, 9000, 32 * 4096, 64 * 4096 - 1, apart.NBYTES - 1):
        apart.bytes[at] += 1
        assert apart.seen() <= at_ends + 2 * 4096, "a page of ours is in two of the kernel's"
        assert apart.seen() == at_ends, "and forgotten"
    with Path("/dev/zero").open("rb", buffering=0) as zeros:
        apart.bytes[20000] = apart.bytes[21000] = 7
        apart.seen()
        assert zeros.readinto(memoryview(apart.bytes)[20000:20001]) == 1  # type: ignore[attr-defined]
    assert apart.seen() > at_ends and apart.bytes[20000] == 0
    apart.pages.madvise(mmap.MADV_DONTNEED, 4096 * 4, 4096 * 4)  # they are zero from now on
    assert apart.bytes[21000] == 0
    assert apart.seen() > at_ends
    # What is written again and again is compared all of it, as the kernel takes longer to tell of it.
    for step in range(3):
        ctypes.memset(ctypes.byref(apart.bytes, 4096), step + 1, 20 * 4096)
        assert at_ends < apart.seen() < apart.NBYTES
    assert apart.seen() == apart.NBYTES
    apart.bytes[9000] += 1
    assert apart.seen() == apart.NBYTES


def buffers_in_one_memory_are_told_of_all_that_is_written(cl: Cl) -> None:
    apart = Apart(cl)
    apart.settle()
    other = cl.buffer(apart.context, apart.NBYTES, USE_HOST_PTR, apart.bytes)
    for step in range(6):
        apart.bytes[9000] = step
        apart.seen(other)
        apart.seen()
    cl.check(cl.clReleaseMemObject(apart.buffer))
    apart.bytes[9000] = 77
    apart.seen(other)
    cl.check(cl.clReleaseMemObject(other))
    apart.buffer = cl.buffer(apart.context, apart.NBYTES, USE_HOST_PTR, apart.bytes)
    apart.settle()
    apart.bytes[9000] = 78
    apart.seen()


def memory_may_be_another_behind_the_same_address(cl: Cl) -> None:
    apart = Apart(cl)
    apart.settle()
    libc = ctypes.CDLL(None)
    libc.mmap.restype = c_void_p
    libc.mmap.argtypes = [c_void_p, ctypes.c_size_t, c_int32, c_int32, c_int32, ctypes.c_long]
    at = ctypes.addressof(apart.bytes) - apart.BEGIN + 4096 * 8
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED
    assert libc.mmap(at, 4096 * 4, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) == at
    # Beside it, in a page that this read has only a part of, and the next one another.
    apart.bytes[4096 * 6] = 42
    for offset, nbytes in ((4096 * 6 + 2048, 4096 * 4), (0, 4096 * 7)):
        part = bytes(apart.bytes[offset : offset + nbytes])
        assert cl.read(apart.queue, apart.buffer, nbytes, offset) == part
    for step in range(4):
        apart.bytes[4096 * 9] = step + 1
        apart.bytes[4096 * 30] = step + 1
        assert apart.seen() == apart.NBYTES


def what_commands_wrote_here_and_there_is_shown(cl: Cl) -> None:
    """Rows of words, parts of them, bytes, an end that is no word; beside what the program writes."""
    context = cl.context()
    queue = cl.queue(context)
    pages = mmap.mmap(-1, 3 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory = (ctypes.c_uint8 * (2 * 4096 + 13)).from_buffer(pages, 3)
    buffer = cl.buffer(context, len(memory), USE_HOST_PTR, memory)
    expected = bytearray(len(memory))
    own = (7, 130, 4097, 8191)  # the program's, in words that commands change
    given = (
        (0, 8205, 1),
        (0, 8205, 16),
        (8, 8205, 9),
        (4000, 4200, 1),
        (8190, 8205, 1),
        (0, 8205, 64),
        (64, 128, 1),
    )
    for step, (begin, end, stride) in enumerate(given, 1):
        for at in range(begin, end, stride):
            if at not in own:
                cl.check(cl.clEnqueueFillBuffer(queue, buffer, bytes([step]), 1, at, 1, 0, None, None))
                expected[at] = step
        for at in own:
            memory[at] = expected[at] = 100 + step
        cl.check(cl.clFinish(queue))
        assert bytes(memory) == expected


def pinned_memory_is_compared(cl: Cl) -> None:
    """A device may write there without a fault: io_uring here."""
    setup, register, register_buffers = 425, 427, 0
    libc, entries = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(120)
    ring = libc.syscall(setup, 1, entries)
    if ring < 0:  # a container or a kernel without it
        return
    apart = Apart(cl)
    apart.settle()
    where = (ctypes.c_size_t * 2)(ctypes.addressof(apart.bytes), apart.NBYTES)
    assert libc.syscall(register, ring, register_buffers, where, 1) == 0, os.strerror(ctypes.get_errno())
    for _ in range(3):
        assert apart.seen() == apart.NBYTES
    os.close(ring)


def memory_that_others_write_too_is_compared(cl: Cl) -> None:
    """The kernel tells only of what is written here."""
    context = cl.context()
    queue = cl.queue(context)
    file = os.memfd_create("shared")
    os.ftruncate(file, 64 * 4096)
    here, there = (mmap.mmap(file, 64 * 4096) for _ in range(2))
    memory = (ctypes.c_uint8 * (64 * 4096)).from_buffer(here)
    buffer = cl.buffer(context, len(memory), USE_HOST_PTR, memory)
    for step in range(6):
        there[9000] = step
        for _ in range(3):
            assert cl.read(queue, buffer, len(memory)) == bytes(memory)


def other_buffers_pay_nothing(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    add = cl.kernel(cl.program(context, SOURCE), "add")
    memory = (Int * NUM)()
    for flags, host in ((0, None), (16, None), (32, memory), (USE_HOST_PTR | HOST_NO_ACCESS, memory)):
        buffer = cl.buffer(context, 4 * NUM, flags, host)
        cl.set_args(add, c_void_p(buffer), c_int32(1))
        cl.launch(queue, add)
        cl.check(cl.clFinish(queue))
        cl.check(cl.clReleaseMemObject(buffer))
    assert memory[:] == [0] * NUM
    assert cl.records("READ", "WRITE") == [] and cl.counted("host_compared_nbytes") == 0
    assert len(cl.records("CREATE_QUEUE")) == 1


def threads_wait_and_launch_at_once(cl: Cl) -> None:
    rounds = 60
    shared = [Shared(cl) for _ in range(3)]
    wrong: list[str] = []

    def work(one: Shared, number: int) -> None:
        expected = list(range(64))
        for turn in range(rounds):
            at = (turn * 7 + number) % 64
            one.memory[at] = expected[at] = turn
            event = one.added(1)
            cl.check(cl.wait(event) if turn % 2 else cl.clFinish(one.queue))
            cl.check(cl.clReleaseEvent(event))
            expected = [value + 1 for value in expected]
            if one.memory[:64] != expected:
                wrong.append(f"thread {number}, round {turn}")

    threads = [threading.Thread(target=work, args=(one, number)) for number, one in enumerate(shared)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    for one in shared:
        cl.check(cl.clReleaseMemObject(one.buffer))


def a_buffer_may_be_used_again_while_what_commands_wrote_is_shown(cl: Cl) -> None:
    """As by a callback's thread: its list of such buffers once became a ring."""
    shared = Shared(cl, flags=HOST_READ_ONLY)
    queue = cl.queue(shared.context)
    cl.set_args(shared.withhold, c_int32(0))
    cl.launch(shared.queue, shared.withhold)
    shared.added(1)
    waiting = threading.Thread(target=lambda: cl.check(cl.clFinish(shared.queue)), daemon=True)
    waiting.start()
    while not unasked(cl, "READ"):
        pass
    cl.check(cl.clEnqueueFillBuffer(queue, shared.buffer, b"\1", 1, 0, 4 * NUM, 0, None, None))
    waiting.join()
    cl.check(cl.clFinish(queue))
    assert shared.memory[:] == [0x01010101] * NUM
    assert len(unasked(cl, "READ")) == 2
    cl.check(cl.clReleaseMemObject(shared.buffer))


def a_destructor_callback_may_release_memory_that_is_used(cl: Cl) -> None:
    first, second = Shared(cl), Shared(cl)
    gates = [cl.user_event(each.context) for each in (first, second)]
    called: list[int] = []

    def release_other(handle: int, _data: object) -> None:
        cl.check(cl.clReleaseMemObject(second.buffer))
        called.append(handle)

    notify = cl.callback(release_other, c_void_p)
    cl.check(cl.clSetMemObjectDestructorCallback(first.buffer, notify, None))
    for each, gate in zip((first, second), gates, strict=True):
        each.added(1, waits=(gate,))
    cl.check(cl.clReleaseMemObject(first.buffer))
    assert not called, "what waits for a user event uses it"
    cl.check(cl.clSetUserEventStatus(gates[0], COMPLETE))
    cl.check(cl.clFinish(first.queue))  # in which it goes
    assert called == [first.buffer]
    assert first.memory[:] == [i + 1 for i in range(NUM)]
    cl.check(cl.clSetUserEventStatus(gates[1], COMPLETE))
    cl.check(cl.clFinish(second.queue))
    assert second.memory[:] == [i + 1 for i in range(NUM)]


PROGRAMS = (
    both_sides_see_one_memory,
    many_changed_pages_are_few_records,
    results_are_there_after_every_way_to_wait,
    what_is_written_beside_pending_commands_is_not_lost,
    commands_behind_a_user_event_see_what_was_written_before_it_was_set,
    maps_copy_nothing_of_their_own,
    results_beside_what_a_host_that_only_writes_wrote_are_kept,
    what_kernels_only_read_is_not_read_back,
    what_a_kernel_does_not_write_is_not_read_back,
    memory_that_mostly_stays_as_it_is_is_not_compared,
    buffers_in_one_memory_are_told_of_all_that_is_written,
    memory_may_be_another_behind_the_same_address,
    pinned_memory_is_compared,
    what_commands_wrote_here_and_there_is_shown,
    memory_that_others_write_too_is_compared,
    other_buffers_pay_nothing,
    threads_wait_and_launch_at_once,
    a_buffer_may_be_used_again_while_what_commands_wrote_is_shown,
    a_destructor_callback_may_release_memory_that_is_used,
)
