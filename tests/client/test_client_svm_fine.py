"""Programs about fine-grained regions of images whose members have copies (see test_client.py)."""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import byref, c_int32, c_void_p

from tests.client.test_client_binding import READ, Cl, asks_the_kernel, until
from tests.client.test_client_host_pointers import SOURCE, unasked
from tests.client.test_client_session import in_child
from tests.client.test_client_svm import CAPABILITIES, PTRS

FINE = 1 << 10
NUM, PAGE = 1 << 14, 1024  # 64 KiB: 16 pages
Ints = ctypes.c_int32 * NUM
FOLLOW = "kernel void follow_add(global int *data, int term) {}"


class Fine:
    """A context, a queue, kernels."""

    def __init__(self, cl: Cl) -> None:
        self.cl, self.context = cl, cl.context()
        self.queue = cl.queue(self.context)
        program = cl.program(self.context, SOURCE)
        self.add, self.look, self.hold, self.let_go, self.withhold = (
            cl.kernel(program, name) for name in ("add", "look", "hold", "let_go", "withhold")
        )

    def region(self, flags: int = FINE) -> ctypes.Array[c_int32]:
        """Of NUM ints, which are counted."""
        at = self.cl.clSVMAlloc(self.context, flags, 4 * NUM, 0)
        assert at
        found = Ints.from_address(at)
        found[:] = range(NUM)
        return found

    def added(self, region: ctypes.Array[c_int32], term: int) -> None:
        """Adds ``term`` to all ints, and waits."""
        self.cl.check(self.cl.clSetKernelArgSVMPointer(self.add, 0, region))
        self.cl.check(self.cl.clSetKernelArg(self.add, 1, 4, byref(c_int32(term))))
        self.cl.launch(self.queue, self.add)
        self.cl.check(self.cl.clFinish(self.queue))

    def free(self, region: ctypes.Array[c_int32]) -> None:
        """Of the application."""
        self.cl.clSVMFree(self.context, ctypes.addressof(region))


def host_and_kernels_see_one_memory_without_commands(cl: Cl) -> None:
    fine = Fine(cl)
    for closes in (False, True):
        region = fine.region()
        if closes:  # as applications do that close what they did not open
            for each in [*asks_the_kernel()]:
                os.close(each)
        fine.added(region, 5)
        assert region[:] == [i + 5 for i in range(NUM)]
        before = len(unasked(cl, "WRITE"))
        fine.added(region, 1)
        assert len(unasked(cl, "WRITE")) == before, "nothing was changed"
        region[PAGE] = region[2 * PAGE] = region[5 * PAGE - 1] = 100
        fine.added(region, 1)
        assert unasked(cl, "WRITE")[before:] == [(4096, 8192), (16384, 4096)], "whole pages in few runs"
        assert [region[i] for i in (0, PAGE, 2 * PAGE, 5 * PAGE - 1)] == [7, 101, 101, 101]
        fine.free(region)


def only_pages_that_were_written_are_compared_where_the_kernel_knows_them(cl: Cl) -> None:
    fine = Fine(cl)
    region, other = fine.region(), cl.buffer(fine.context, 4 * NUM)
    knows = len([*asks_the_kernel()]) == 2  # else Linux before 6.7, or a container that forbids it
    cl.check(cl.clSetKernelArgSVMPointer(fine.look, 0, region))
    cl.check(cl.clSetKernelArg(fine.look, 1, 8, byref(c_void_p(other))))
    for value in (7, 8):
        region[3] = value
        cl.launch(fine.queue, fine.look)
        cl.check(cl.clFinish(fine.queue))
    fine.free(region)
    assert cl.counted("host_compared_nbytes") == 4 * NUM + (PAGE * 4 if knows else 4 * NUM)


def ints_beside_each_other_may_be_written_by_both(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    cl.check(cl.clSetKernelArgSVMPointer(fine.hold, 0, region))
    cl.launch(fine.queue, fine.hold)
    cl.check(cl.clSetKernelArgSVMPointer(fine.add, 0, region))
    cl.check(cl.clSetKernelArg(fine.add, 1, 4, byref(c_int32(1))))
    cl.launch(fine.queue, fine.add)
    region[PAGE] = -1  # while kernels may run
    other = cl.queue(fine.context)
    cl.check(cl.clSetKernelArg(fine.let_go, 0, 4, byref(c_int32(0))))
    cl.launch(other, fine.let_go)
    cl.check(cl.clFinish(fine.queue))
    assert [region[i] for i in (PAGE - 1, PAGE, PAGE + 1)] == [PAGE, -1, PAGE + 2]
    fine.added(region, 1)
    assert [region[i] for i in (PAGE - 1, PAGE, PAGE + 1)] == [PAGE + 1, 0, PAGE + 3]


def what_is_written_beside_a_kernel_is_seen_by_the_next(cl: Cl) -> None:
    """Though nobody waited for the first, which uses other bytes of the region."""
    fine = Fine(cl)
    region, other = fine.region(), cl.buffer(fine.context, 4 * NUM)
    cl.check(cl.clSetKernelArg(fine.look, 0, 8, byref(c_void_p(other))))
    cl.check(cl.clSetKernelArgSVMPointer(fine.look, 1, region))
    cl.launch(fine.queue, fine.look)
    region[PAGE] = 100
    fine.added(region, 1)
    assert [region[i] for i in (PAGE - 1, PAGE, PAGE + 1)] == [PAGE, 101, PAGE + 2]


def what_a_kernel_reaches_is_taken_and_shown_like_its_arguments(cl: Cl) -> None:
    fine = Fine(cl)
    first, second = fine.region(), fine.region()
    follow = cl.kernel(cl.program(fine.context, FOLLOW), "follow_add")
    cl.check(cl.clSetKernelArgSVMPointer(follow, 0, first))
    cl.check(cl.clSetKernelArg(follow, 1, 4, byref(c_int32(1))))
    reached = (c_void_p * 1)(ctypes.addressof(second))
    cl.check(cl.clSetKernelExecInfo(follow, PTRS, 8, reached))
    cl.buffer(fine.context, 64)  # answered after what was said before
    before = [r["buffer"] for r in cl.records("WRITE") if r["unasked"]]
    cl.launch(fine.queue, follow)
    cl.check(cl.clFinish(fine.queue))
    taken = [r["buffer"] for r in cl.records("WRITE") if r["unasked"]][len(before) :]
    made = [r["id"] for r in cl.records("CREATE_BUFFER")][-3:-1]
    assert sorted(taken) == sorted(made)
    assert {r["buffer"] for r in cl.records("READ") if r["unasked"]} == set(made)


def a_launch_reaches_what_it_took_whatever_others_of_its_kernel_reach(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    source = "kernel void follow_heads(global ulong *heads) {}"
    follow = cl.kernel(cl.program(fine.context, source), "follow_heads")
    cl.set_args(follow, c_void_p(cl.buffer(fine.context, 64)))
    other = cl.make("clCloneKernel", follow)
    cl.check(cl.clSetKernelArgSVMPointer(fine.hold, 0, region))
    cl.launch(fine.queue, fine.hold)
    region[PAGE] = -1  # launches that may reach it wait until it can be taken
    queues = [cl.queue(fine.context) for _ in range(2)]
    threads = [threading.Thread(target=cl.launch, args=(queue, follow)) for queue in queues]
    kept = []
    for number, thread in enumerate(threads):
        thread.start()
        until(lambda number=number: len(cl.records("REACH")) == number + 1)
        kept.append(fine.region(0))
    for number in range(8):  # all that is remembered of what kernels reached
        kept.append(fine.region(0))
        reached = (c_void_p * len(kept))(*map(ctypes.addressof, kept))
        cl.check(cl.clSetKernelExecInfo(other, PTRS, ctypes.sizeof(reached), reached))
        until(lambda number=number: len(cl.records("REACH")) == number + 3)
    cl.set_args(fine.let_go, c_int32(0))
    cl.launch(cl.queue(fine.context), fine.let_go)
    for thread, queue in zip(threads, queues, strict=True):
        thread.join()
        cl.check(cl.clFinish(queue))
    first, second = (r["id"] for r in cl.records("REACH")[:2])
    ended: set[int] = set()
    found = []
    for record in cl.records("NDRANGE", "RELEASE_REACH"):
        if record["op"] == "RELEASE_REACH":
            ended.add(record["id"])
        elif record["reach"]:
            assert record["reach"] not in ended
            found.append(record["reach"])
    assert sorted(found) == sorted([first, second])


def reads_and_copies_into_them_arrive(cl: Cl) -> None:
    fine = Fine(cl)
    region, coarse = fine.region(), fine.region(0)
    data = bytes(range(256)) * 16
    buffer = cl.buffer(fine.context, 4096)
    cl.write(fine.queue, buffer, data)
    at = ctypes.addressof(region)
    cl.check(cl.clEnqueueReadBuffer(fine.queue, buffer, 1, 0, 4096, at + 8192, 0, None, None))
    assert ctypes.string_at(at + 8192, 4096) == data
    cl.check(cl.clEnqueueSVMMemcpy(fine.queue, 1, ctypes.addressof(coarse), at + 8192, 4096, 0, None, None))
    cl.check(cl.clEnqueueSVMMap(fine.queue, 1, READ, ctypes.addressof(coarse), 4096, 0, None, None))
    assert ctypes.string_at(ctypes.addressof(coarse), 4096) == data
    cl.check(cl.clEnqueueSVMMemcpy(fine.queue, 1, at, ctypes.addressof(coarse), 4096, 0, None, None))
    assert ctypes.string_at(at, 4096) == data
    cl.check(cl.clEnqueueSVMMemFill(fine.queue, at + 4, b"\7\7\7\7", 4, 4, 0, None, None))
    cl.check(cl.clFinish(fine.queue))
    assert (region[0], region[1], region[2]) == (0x03020100, 0x07070707, 0x0B0A0908)


def what_a_region_holds_from_the_beginning_is_told(cl: Cl) -> None:
    fine = Fine(cl)
    fine.free(fine.region(0))  # whose bytes members may have
    region = fine.region()
    cl.buffer(fine.context, 64)  # answered after what was said before
    made = [r["buffer"] for r in cl.records("WRITE") if r["unasked"]][-1]
    told = [
        (r["offset"], r["region"][0]) for r in cl.records("WRITE") if r["unasked"] and r["buffer"] == made
    ]
    assert told == [(0, 4 * NUM)]
    region[:] = [0] * NUM
    fine.added(region, 1)
    assert region[:] == [1] * NUM


def a_place_is_the_arenas_again_when_it_was_freed(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    fine.added(region, 1)
    place = ctypes.addressof(region)
    fine.free(region)
    again = cl.clSVMAlloc(fine.context, 0, 4 * NUM, 0)
    assert again == place, "recycled"
    data = bytes(range(100, 164))
    cl.check(cl.clEnqueueSVMMemcpy(fine.queue, 1, again, data, 64, 0, None, None))
    assert ctypes.string_at(again, 64) == data


def a_child_has_an_arena_of_its_own(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    fine.added(region, 1)

    def child() -> None:
        assert cl.number("clGetDeviceInfo", cl.device(), CAPABILITIES) == 3
        mine = Fine(cl)
        own = mine.region()
        mine.added(own, 2)
        assert own[:] == [i + 2 for i in range(NUM)]
        mine.free(own)

    in_child(child)
    fine.added(region, 1)
    assert region[:] == [i + 2 for i in range(NUM)]


PROGRAMS = [
    host_and_kernels_see_one_memory_without_commands,
    only_pages_that_were_written_are_compared_where_the_kernel_knows_them,
    ints_beside_each_other_may_be_written_by_both,
    what_is_written_beside_a_kernel_is_seen_by_the_next,
    what_a_kernel_reaches_is_taken_and_shown_like_its_arguments,
    a_launch_reaches_what_it_took_whatever_others_of_its_kernel_reach,
    reads_and_copies_into_them_arrive,
    what_a_region_holds_from_the_beginning_is_told,
    a_place_is_the_arenas_again_when_it_was_freed,
    a_child_has_an_arena_of_its_own,
]
