"""Programs about fine-grained regions whose update is batch, lazy or rolling (see test_client.py)."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections.abc import Callable
from ctypes import byref, c_int32, c_void_p

from tests.client.test_client_binding import Cl, asks_the_kernel, handles, until
from tests.client.test_client_host_pointers import unasked
from tests.client.test_client_session import die, in_child
from tests.client.test_client_svm_fine import FINE, NUM, PAGE, Fine

NBYTES = 4 * NUM
libc = ctypes.CDLL(None)  # whose functions let other threads run, also while a fault is answered


def looked_at(region: ctypes.Array[c_int32], page: int, found: list[int]) -> threading.Thread:
    """A thread that adds the first int of a page to ``found``."""
    number = c_int32()

    def look() -> None:
        libc.memcpy(byref(number), c_void_p(ctypes.addressof(region) + 4096 * page), 4)
        found.append(number.value)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    return thread


def withheld(fine: Fine) -> None:
    """From now on what nobody asked for comes only after ``let_come``."""
    fine.cl.check(fine.cl.clSetKernelArg(fine.withhold, 0, 4, byref(c_int32(0))))
    fine.cl.launch(fine.queue, fine.withhold)


def let_come(fine: Fine) -> None:
    """All that was withheld."""
    other = fine.cl.buffer(fine.context, 64)
    queue = fine.cl.queue(fine.context)
    fine.cl.check(fine.cl.clEnqueueFillBuffer(queue, other, b"\1", 1, 0, 64, 0, None, None))
    fine.cl.check(fine.cl.clFinish(queue))


def seen_by_kernels(fine: Fine, region: ctypes.Array[c_int32]) -> None:
    """A kernel that could write the region, but does not."""
    other = fine.cl.buffer(fine.context, NBYTES)
    fine.cl.check(fine.cl.clSetKernelArg(fine.look, 0, 8, byref(c_void_p(other))))
    fine.cl.check(fine.cl.clSetKernelArgSVMPointer(fine.look, 1, region))
    fine.cl.launch(fine.queue, fine.look)
    fine.cl.check(fine.cl.clFinish(fine.queue))


def all_of_a_region_comes_when_it_is_first_looked_at(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    fine.added(region, 5)
    fine.added(region, 5)
    cl.buffer(fine.context, 64)  # answered after what was said before
    assert unasked(cl, "READ") == []
    assert region[PAGE] == PAGE + 10
    assert region[:] == [i + 10 for i in range(NUM)]
    assert unasked(cl, "READ") == [(0, NBYTES)]
    before = len(unasked(cl, "WRITE"))
    region[3] = -1
    fine.added(region, 1)
    assert [region[i] for i in (2, 3, PAGE)] == [13, 0, PAGE + 11]
    assert unasked(cl, "WRITE")[before:] == [(0, 4096)]


def blocks_come_when_they_are_looked_at(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    fine.added(region, 5)
    assert [region[i] for i in (PAGE, 3 * PAGE, 0)] == [PAGE + 5, 3 * PAGE + 5, 5]
    region[4 * PAGE] = 7  # brings what is beside it
    assert unasked(cl, "READ") == [(0, 8192), (8192, 8192), (16384, 8192)]
    before = len(unasked(cl, "WRITE"))
    fine.added(region, 1)
    assert unasked(cl, "WRITE")[before:] == [(16384, 4096)]
    assert region[:] == [8 if i == 4 * PAGE else i + 6 for i in range(NUM)]


def blocks_that_were_written_first_are_taken_early(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    fine.added(region, 1)
    before = len(unasked(cl, "WRITE"))
    for page in (9, 3, 5, 3, 0, 7):  # two at a time
        region[page * PAGE] = 100 + page
    found: list[int] = []
    looked_at(region, 15, found).join()  # so all is done that was begun before
    cl.buffer(fine.context, 64)
    assert unasked(cl, "WRITE")[before:] == [(4096 * page, 4096) for page in (9, 3, 5)]
    region[3 * PAGE] = -3
    fine.added(region, 1)
    wrote = {9: 110, 3: -2, 5: 106, 0: 101, 7: 108}
    expected = [i + 2 for i in range(NUM)]
    for page, value in wrote.items():
        expected[page * PAGE] = value
    assert region[:] == expected


def two_blocks_of_each_region_may_be_written(cl: Cl) -> None:
    fine = Fine(cl)
    regions = [fine.region(), fine.region()]
    for region in regions:
        fine.added(region, 1)
    before = len(unasked(cl, "WRITE"))
    for page in (0, 2):
        for region in regions:
            region[page * PAGE] = -1
    found: list[int] = []
    looked_at(regions[0], 15, found).join()
    cl.buffer(fine.context, 64)
    assert len(unasked(cl, "WRITE")) == before
    regions[1][4 * PAGE] = -1
    looked_at(regions[0], 13, found).join()
    cl.buffer(fine.context, 64)
    assert unasked(cl, "WRITE")[before:] == [(0, 4096)]
    fine.free(regions[0])
    fine.added(regions[1], 1)
    assert [regions[1][page * PAGE] for page in (0, 2, 4)] == [0, 0, 0]


def system_calls_read_and_write_what_has_to_come(cl: Cl) -> None:
    fine = Fine(cl)
    region, again = fine.region(), fine.region()
    for each in (region, again):
        fine.added(each, 1)
    with tempfile.TemporaryFile(buffering=0) as file:
        assert file.write(region) == NBYTES
        fine.added(region, 1)
        file.seek(0)
        assert file.readinto(region) == NBYTES
        file.seek(4096)
        assert file.readinto(memoryview(again).cast("B")[8192:20480]) == 12288
    assert region[:] == [i + 1 for i in range(NUM)]
    fine.added(region, 1)
    fine.added(again, 1)
    assert region[:] == [i + 2 for i in range(NUM)]
    assert again[:] == [i + 2 - 1024 * (2 * PAGE <= i < 5 * PAGE) for i in range(NUM)]


def many_threads_look_at_once(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    for step in range(20):
        fine.added(region, 1)
        found: list[int] = []
        threads = [looked_at(region, page, found) for page in range(16)]
        for thread in threads:
            thread.join()
        assert sorted(found) == [page * PAGE + step + 1 for page in range(16)]


def what_is_written_beside_a_kernel_is_kept(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    for turn in range(3):
        cl.check(cl.clSetKernelArgSVMPointer(fine.hold, 0, region))
        cl.launch(fine.queue, fine.hold)
        cl.check(cl.clSetKernelArgSVMPointer(fine.add, 0, region))
        cl.check(cl.clSetKernelArg(fine.add, 1, 4, byref(c_int32(1))))
        cl.launch(fine.queue, fine.add)
        if turn != 1:
            region[PAGE] = region[5 * PAGE] = -9  # else it is missing, and would have to wait for the kernel
        other = cl.queue(fine.context)
        cl.check(cl.clSetKernelArg(fine.let_go, 0, 4, byref(c_int32(0))))
        cl.launch(other, fine.let_go)
        cl.check(cl.clFinish(fine.queue))
        if turn != 1:
            assert [region[i] for i in (PAGE, 5 * PAGE)] == [-9, -9]
            assert region[PAGE + 1] == PAGE + 2 + turn
    fine.added(region, 1)
    assert [region[i] for i in (0, PAGE, PAGE + 1, 5 * PAGE)] == [4, -8, PAGE + 5, -8]


def handles_may_lie_in_a_region(cl: Cl) -> None:
    """The client reads them while it has its lock, which who answers the fault needs."""
    fine = Fine(cl)
    region = fine.region()
    event = cl.event_of("clEnqueueMarkerWithWaitList", fine.queue, 0, None)
    c_void_p.from_address(ctypes.addressof(region)).value = event
    seen_by_kernels(fine, region)
    before = len(unasked(cl, "READ"))
    cl.check(cl.clWaitForEvents(1, region))
    assert len(unasked(cl, "READ")) == before + 1


def waited_for(fine: Fine, region: ctypes.Array[c_int32], page: int) -> tuple[threading.Thread, list[int]]:
    """A thread that looks at a page which does not come before ``let_come``, and what it finds then."""
    withheld(fine)
    found: list[int] = []
    looking = looked_at(region, page, found)
    until(lambda: bool(unasked(fine.cl, "READ")))
    return looking, found


def a_region_that_goes_while_it_is_looked_at_goes_afterwards(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    fine.added(region, 1)
    looking, found = waited_for(fine, region, 2)
    fine.free(region)
    let_come(fine)
    looking.join()
    assert found in ([2 * PAGE + 1], [2 * PAGE])  # the arena's, where that was seen there again


def a_context_that_goes_with_such_a_region_is_told_of_by_a_thread_that_may_look_at_others(cl: Cl) -> None:
    fine, other = Fine(cl), Fine(cl)
    region, second = fine.region(), other.region()
    for each, its in ((fine, region), (other, second)):
        each.added(its, 1)
    called: list[int] = []
    notify = cl.callback(lambda _context, _data: called.append(second[PAGE]), c_void_p)
    cl.check(cl.clSetContextDestructorCallback(fine.context, notify, None))
    looking, _ = waited_for(fine, region, 2)
    cl.check(cl.clReleaseProgram(cl.number("clGetKernelInfo", fine.add, 0x1194)))
    for kernel in (fine.add, fine.look, fine.hold, fine.let_go, fine.withhold):
        cl.check(cl.clReleaseKernel(kernel))
    cl.check(cl.clReleaseCommandQueue(fine.queue))
    fine.free(region)
    cl.check(cl.clReleaseContext(fine.context))
    assert not called
    let_come(other)
    looking.join()
    until(lambda: bool(called))
    assert called == [PAGE + 1]


def faults_are_answered_when_the_service_is_gone(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    fine.added(region, 1)
    looking, found = waited_for(fine, region, 2)
    die(cl, fine.context)
    looking.join()
    assert found == [2 * PAGE], "what both had last"
    region[3 * PAGE] = 5
    assert region[3 * PAGE : 3 * PAGE + 2] == [5, 3 * PAGE + 1]


def descriptors_may_be_closed_by_who_did_not_open_them(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    fine.added(region, 1)
    for each in [*asks_the_kernel()]:
        os.close(each)
    assert region[PAGE] == PAGE + 1
    for turn in range(3):
        region[2 * PAGE] = region[9 * PAGE] = turn
        fine.added(region, 1)
        assert [region[i] for i in (0, 2 * PAGE, 9 * PAGE)] == [turn + 2, turn + 1, turn + 1]
    fine.free(region)


def a_child_answers_its_own_faults(cl: Cl) -> None:
    fine = Fine(cl)
    region = fine.region()
    fine.added(region, 1)

    def child() -> None:
        mine = Fine(cl)
        own = mine.region()
        mine.added(own, 2)
        assert own[:] == [i + 2 for i in range(NUM)]
        mine.free(own)

    in_child(child)
    assert region[:] == [i + 1 for i in range(NUM)]


def regions_have_eager_update_where_faults_may_not_be_answered(cl: Cl) -> None:
    fine = Fine(cl)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    regions = [fine.region() for _ in range(2)]
    if is_root:
        os.seteuid(0)
    for region in regions:
        fine.added(region, 5)
        assert unasked(cl, "READ")[-1:] == [(0, NBYTES)]
        assert region[:] == [i + 5 for i in range(NUM)]


def all_regions_go_and_come_with_each_launch(cl: Cl) -> None:
    fine = Fine(cl)
    region, other = fine.region(), fine.region()
    cl.buffer(fine.context, 64)
    before = len(unasked(cl, "WRITE"))
    for step in range(2):
        fine.added(region, 1)
        assert region[:] == [i + step + 1 for i in range(NUM)]
    assert other[:] == [*range(NUM)]
    assert unasked(cl, "WRITE")[before:] == [(0, NBYTES)] * 4
    assert unasked(cl, "READ") == [(0, NBYTES)] * 4
    fine.free(other)
    fine.added(region, 1)
    assert len(unasked(cl, "READ")) == 5


def regions_go_on_completion_while_launches_name_all(cl: Cl) -> None:
    fine = Fine(cl)
    kept, other = fine.region(), cl.queue(fine.context)
    cl.check(cl.clSetKernelArgSVMPointer(fine.add, 0, kept))
    cl.check(cl.clSetKernelArg(fine.add, 1, 4, byref(c_int32(1))))
    for turn in range(20):
        given = [cl.clSVMAlloc(fine.context, FINE, 4096, 0) for _ in range(8)]
        assert all(given)
        freed = len(cl.records("RECYCLE_BUFFER")) + len(given)
        cl.check(cl.clEnqueueSVMFree(other, len(given), handles(given), None, None, 0, None, None))
        for _ in range(8):
            cl.launch(fine.queue, fine.add)
        cl.check(cl.clFinish(fine.queue))
        until(lambda freed=freed: len(cl.records("RECYCLE_BUFFER")) == freed)
        assert kept[:] == [i + 8 * (turn + 1) for i in range(NUM)]


LAZY, ROLLING = (2, 0, 0), (3, 8192, 2)
UPDATES: dict[Callable[[Cl], None], tuple[int, int, int]] = {
    all_of_a_region_comes_when_it_is_first_looked_at: LAZY,
    blocks_come_when_they_are_looked_at: ROLLING,
    blocks_that_were_written_first_are_taken_early: (3, 4096, 2),
    two_blocks_of_each_region_may_be_written: (3, 4096, 0),
    system_calls_read_and_write_what_has_to_come: ROLLING,
    many_threads_look_at_once: ROLLING,
    what_is_written_beside_a_kernel_is_kept: ROLLING,
    handles_may_lie_in_a_region: LAZY,
    a_region_that_goes_while_it_is_looked_at_goes_afterwards: LAZY,
    a_context_that_goes_with_such_a_region_is_told_of_by_a_thread_that_may_look_at_others: ROLLING,
    faults_are_answered_when_the_service_is_gone: ROLLING,
    descriptors_may_be_closed_by_who_did_not_open_them: ROLLING,
    a_child_answers_its_own_faults: ROLLING,
    regions_have_eager_update_where_faults_may_not_be_answered: LAZY,
    all_regions_go_and_come_with_each_launch: (1, 0, 0),
    regions_go_on_completion_while_launches_name_all: (1, 0, 0),
}
"""What FACT_FINE_UPDATE says, by program."""
PROGRAMS = [*UPDATES]
WITHOUT_FAULTS = {
    regions_have_eager_update_where_faults_may_not_be_answered.__name__,
    all_regions_go_and_come_with_each_launch.__name__,
    regions_go_on_completion_while_launches_name_all.__name__,
}
"""Programs that run where nobody may answer faults, too."""
REFUSED_IN = {regions_have_eager_update_where_faults_may_not_be_answered.__name__}
REFUSED = (
    "sdi: this process may not answer its own page faults (userfaultfd: root, vm.unprivileged_userfaultfd=1"
    " or /dev/userfaultfd): fine-grained memory has eager update\n"
)
