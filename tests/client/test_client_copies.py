"""Programs about large reads and writes, which several threads copy (see test_client.py)."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.client.test_client_binding import READ, WRITE, Cl, sizes, until
from tests.client.test_client_session import in_child

PIECE, SHARED = 1 << 20, 4 << 20
"""What one thread copies in a row, and from where on copies are shared (transfer.c, client.h)."""
BUFFER = 11 * PIECE + 12345
NOISE = os.urandom(BUFFER)


def arena(cl: Cl, queue: int, buffer: int, flags: int = READ) -> int:
    """Where the buffer's bytes are in this process."""
    return cl.make("clEnqueueMapBuffer", queue, buffer, 1, flags, 0, BUFFER, 0, None, None)


def pool_threads() -> list[str]:
    """The copying threads of this process, by name."""
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return sorted(name for name in names if name.startswith("sdi-copy"))


def await_pool() -> None:
    """Wait until they are as many as the process' CPUs allow and have their names."""
    number = min(7, len(os.sched_getaffinity(0)) // 2)
    until(lambda: pool_threads() == [f"sdi-copy-{k + 1}" for k in range(number)])


def ranges() -> Iterator[tuple[int, int]]:
    """Offset and size of copies that begin and end in all places of a piece."""
    for nbytes in (PIECE, SHARED - 1, SHARED, SHARED + 1, SHARED + PIECE + 4097):
        for offset in (0, 1, 4095, PIECE - 1, PIECE, 2 * PIECE + 77):
            yield offset, nbytes
    yield 0, BUFFER
    yield 3, BUFFER - 3
    yield 2 * PIECE - 1, BUFFER - 2 * PIECE + 1


def large_copies_are_right_at_odd_offsets_and_sizes(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, BUFFER)
    there = arena(cl, queue, buffer)
    host = ctypes.create_string_buffer(BUFFER + 4096)
    for number, (offset, nbytes) in enumerate(ranges()):
        shift = (1, 4096, 777)[number % 3]
        given = ctypes.addressof(host) + shift
        ctypes.memset(there, 1, BUFFER)
        ctypes.memmove(given, NOISE, nbytes)
        cl.check(cl.clEnqueueWriteBuffer(queue, buffer, 1, offset, nbytes, given, 0, None, None))
        cl.check(cl.clFinish(queue))  # it has been read before that, and may be on its way
        rest = BUFFER - offset - nbytes
        assert ctypes.string_at(there, BUFFER) == b"\1" * offset + NOISE[:nbytes] + b"\1" * rest
        ctypes.memmove(there, NOISE, BUFFER)
        ctypes.memset(host, 2, len(host))
        cl.check(cl.clEnqueueReadBuffer(queue, buffer, 1, offset, nbytes, given, 0, None, None))
        rest = len(host) - shift - nbytes
        assert host.raw == b"\2" * shift + NOISE[offset : offset + nbytes] + b"\2" * rest


def copies_into_memory_without_pages_are_right(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, BUFFER)
    ctypes.memmove(arena(cl, queue, buffer), NOISE, BUFFER)
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    memory = os.memfd_create("pages")
    os.ftruncate(memory, BUFFER + 8192)
    for private, file in ((0x22, -1), (0x21, -1), (0x2, memory), (0x1, memory)):
        for shift in (0, 1, 4095):
            at = libc.mmap(None, BUFFER + 8192, 3, private, file, 0)
            cl.check(cl.clEnqueueReadBuffer(queue, buffer, 1, 0, BUFFER, at + shift, 0, None, None))
            assert ctypes.string_at(at + shift, BUFFER) == NOISE
            before, after = ctypes.string_at(at, shift), ctypes.string_at(at + shift + BUFFER, 4096 - shift)
            assert not any(before) and not any(after)
            ctypes.memset(at, 0, BUFFER + 8192)
    os.close(memory)


def large_copies_may_overlap(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, BUFFER)
    there = arena(cl, queue, buffer, READ | WRITE)
    nbytes = 9 * PIECE
    for source, target in ((0, 1000), (1000, 0), (0, PIECE + 1), (PIECE + 1, 0), (7, 7)):
        expected = bytearray(NOISE)
        expected[target : target + nbytes] = NOISE[source : source + nbytes]
        for function, offset, host in (
            (cl.clEnqueueWriteBuffer, target, source),
            (cl.clEnqueueReadBuffer, source, target),
        ):
            ctypes.memmove(there, NOISE, BUFFER)
            cl.check(function(queue, buffer, 1, offset, nbytes, there + host, 0, None, None))
            assert ctypes.string_at(there, BUFFER) == expected, (source, target)


def large_rectangles_are_right(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, BUFFER)
    there = arena(cl, queue, buffer)
    host = ctypes.create_string_buffer(BUFFER)
    for width, rows, slices in ((5001, 1000, 1), (2_200_000, 2, 1), (300, 200, 90), (4_500_001, 1, 2)):
        region, origin = sizes([width, rows, slices]), sizes([3, 0, 0])
        given = ctypes.create_string_buffer(NOISE[: width * rows * slices])
        row, slice_ = width + 7, (width + 7) * rows + 11
        pitches = (row, slice_, width, width * rows)
        ctypes.memset(there, 1, BUFFER)
        cl.check(
            cl.clEnqueueWriteBufferRect(
                queue, buffer, 1, origin, sizes([0, 0, 0]), region, *pitches, given, 0, None, None
            )
        )
        cl.check(cl.clFinish(queue))  # it has been read before that, and may be on its way
        expected = bytearray(b"\1" * BUFFER)
        for number in range(rows * slices):
            at = 3 + number // rows * slice_ + number % rows * row
            expected[at : at + width] = NOISE[number * width : (number + 1) * width]
        assert ctypes.string_at(there, BUFFER) == expected
        ctypes.memset(host, 2, BUFFER)
        cl.check(
            cl.clEnqueueReadBufferRect(
                queue, buffer, 1, origin, sizes([0, 0, 0]), region, *pitches, host, 0, None, None
            )
        )
        assert host.raw == NOISE[: width * rows * slices] + b"\2" * (BUFFER - width * rows * slices)


def many_threads_copy_at_once(cl: Cl) -> None:
    context = cl.context()
    right: list[int] = []

    def work(number: int) -> None:
        queue, buffer = cl.queue(context), cl.buffer(context, BUFFER)
        data = bytes([number]) + NOISE[1:]
        for offset in range(4):
            cl.write(queue, buffer, data[: BUFFER - offset], offset)
            landed = ctypes.create_string_buffer(BUFFER - offset)
            event = cl.event_of(
                "clEnqueueReadBuffer", queue, buffer, 0, offset, BUFFER - offset, landed, 0, None
            )
            again = cl.read(queue, buffer, BUFFER - offset, offset)
            assert cl.wait(event) == 0
            assert landed.raw == again == data[: BUFFER - offset]
        right.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(right) == [0, 1, 2, 3, 4]


def copy_something(cl: Cl) -> None:
    """A large write and read from the beginning."""
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, BUFFER)
    cl.write(queue, buffer, NOISE)
    assert cl.read(queue, buffer, BUFFER) == NOISE


def a_thread_with_one_cpu_copies_alone(cl: Cl) -> None:
    all_cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(all_cpus)})
    copy_something(cl)
    assert not pool_threads()
    os.sched_setaffinity(0, all_cpus)
    copy_something(cl)
    await_pool()


def children_have_copying_threads_of_their_own(cl: Cl) -> None:
    copy_something(cl)
    await_pool()

    def child() -> None:
        assert not pool_threads()
        copy_something(cl)
        await_pool()
        in_child(copy_something, cl)

    in_child(child)
    copy_something(cl)
    await_pool()


def forks_may_come_while_copies_go_on(cl: Cl) -> None:
    stop = threading.Event()
    rounds: list[int] = []

    def busy() -> None:
        while not stop.is_set():
            copy_something(cl)
            rounds.append(1)

    # The loader must have looked for drivers before: a child forked meanwhile waits in it for ever (ocl-icd).
    copy_something(cl)
    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        in_child(copy_something, cl)
    stop.set()
    for thread in threads:
        thread.join()
    assert len(rounds) >= 2


# The sanitizers' allocator may be locked by another thread at the moment of a fork: the child hangs in it.
NOT_SANITIZED = frozenset({"forks_may_come_while_copies_go_on"})

PROGRAMS = (
    large_copies_are_right_at_odd_offsets_and_sizes,
    copies_into_memory_without_pages_are_right,
    large_copies_may_overlap,
    large_rectangles_are_right,
    many_threads_copy_at_once,
    a_thread_with_one_cpu_copies_alone,
    children_have_copying_threads_of_their_own,
    forks_may_come_while_copies_go_on,
)
