"""What every member does, whatever its kind."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest

from sdi.devices import copying
from sdi.devices.base import Device, LocalBytes, SubGroupQuery
from sdi.devices.capabilities import CPU
from sdi.devices.handles import BoundKernel, DeviceBuffer
from sdi.devices.ticket import Ticket, completed
from sdi.errors import BuildError, ClError, DeviceFailed, Status
from sdi.region import Region
from sdi.wire.opencl import DeviceInfo
from tests.devices.conftest import PATIENCE_S, OpenMembers, finish

SOURCE = """
kernel void add(global int *a, int b) { a[get_global_id(0)] += b; }
kernel void sum(global const int *a, global int *sums, local int *part) {
  int l = get_local_id(0);
  part[l] = a[get_global_id(0)];
  for (int n = get_local_size(0) / 2; n > 0; n /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < n) part[l] += part[l + n];
  }
  if (l == 0) sums[get_group_id(0)] = part[0];
}
kernel void ids(global int *a, global int *none) {
  size_t i = get_global_id(2) * get_global_size(1) + get_global_id(1);
  i = i * get_global_size(0) + get_global_id(0);
  a[i] = get_work_dim() * 1000 + get_group_id(0) * 100 + get_group_id(1) * 10 + get_group_id(2);
  if (none) none[0] = 7;
}
"""


def int32(value: int) -> bytes:
    return value.to_bytes(4, "little", signed=True)


def host(array: np.ndarray) -> memoryview:
    return memoryview(array).cast("B")


def contents(member: Device, buffer: DeviceBuffer, count: int, *wait: Ticket) -> np.ndarray:
    found = np.zeros(count, np.int32)
    finish(copying.download(member, buffer, 0, host(found), wait))
    return found


def filled(member: Device, count: int, value: int = 0) -> DeviceBuffer:
    buffer = member.allocate(4 * count)
    finish(member.fill(buffer, 0, 4 * count, int32(value), []))
    return buffer


def adder(member: Device, buffer: DeviceBuffer, value: int = 1) -> BoundKernel:
    return member.bind(member.build(SOURCE, []), "add", [buffer, int32(value)])


def test_bytes_come_back_as_they_were_sent(member: Device) -> None:
    sent = np.arange(1000, dtype=np.int32)
    buffer = member.allocate(sent.nbytes)
    ticket = copying.upload(member, host(sent), buffer, 0, [])
    assert (contents(member, buffer, 1000, ticket) == sent).all()


def test_copies_take_offsets_in_bytes(member: Device) -> None:
    buffer = filled(member, 8)
    ticket = copying.upload(member, memoryview(b"\1\2\3"), buffer, 5, [])
    found = bytearray(4)
    finish(copying.download(member, buffer, 4, memoryview(found), [ticket]))
    assert found == b"\0\1\2\3"


def test_a_copy_on_the_member_moves_the_range_and_nothing_else(member: Device) -> None:
    source, target = filled(member, 8, 5), filled(member, 8, 9)
    ticket = copying.within(member, source, Region(8, 12), target, Region(4, 12), [])
    assert contents(member, target, 8, ticket).tolist() == [9, 5, 5, 5, 9, 9, 9, 9]


def test_a_copy_within_one_buffer_moves_the_range(member: Device) -> None:
    buffer = filled(member, 4)
    finish(copying.upload(member, host(np.array([1, 2, 3, 4], np.int32)), buffer, 0, []))
    ticket = copying.within(member, buffer, Region(0, 8), buffer, Region(8, 8), [])
    assert contents(member, buffer, 4, ticket).tolist() == [1, 2, 1, 2]


REGIONS = [
    (Region(8, 4, ((40, 30),)), Region(3, 4, ((12, 30),))),  # a column to a narrower one
    (Region(8, 12, ((40, 30),)), Region(0, 12, ((12, 30),))),  # to packed bytes
    (Region(5, 3, ((7, 4), (35, 6))), Region(1, 3, ((5, 4), (25, 6)))),  # a box of a volume
    (Region(5, 3, ((7, 4), (31, 6))), Region(1, 3, ((5, 4), (23, 6)))),  # slices begin anywhere
    (Region(0, 3, ((7, 2), (20, 3), (70, 4))), Region(9, 3, ((4, 2), (11, 3), (60, 4)))),
    (Region(16, 8, ((64, 1 << 15),)), Region(24, 8, ((80, 1 << 15),))),
]


@pytest.mark.parametrize(("from_", "to"), REGIONS)
@pytest.mark.parametrize("is_within", [False, True])
def test_regions_are_copied_and_what_lies_between_stays(
    member: Device, from_: Region, to: Region, is_within: bool
) -> None:
    nbytes = from_.bounds.stop + to.bounds.stop
    if is_within:
        to = to.moved(from_.bounds.stop)
    sent = np.random.default_rng(7).integers(0, 256, nbytes, np.uint8)
    source = member.allocate(nbytes)
    uploaded = [copying.upload(member, memoryview(sent), source, 0, [])]
    target, expected = source, sent.copy()
    if not is_within:
        target, expected = member.allocate(nbytes), np.full(nbytes, 9, np.uint8)
        uploaded.append(member.fill(target, 0, nbytes, b"\x09", []))
    for here, there in zip(from_.runs(), to.runs(), strict=True):
        expected[there.start : there.stop] = sent[here.start : here.stop]
    found = np.zeros(nbytes, np.uint8)
    copied = copying.within(member, source, from_, target, to, uploaded)
    finish(copying.download(member, target, 0, memoryview(found), [copied]))
    assert (found == expected).all()
    for buffer in {id(one): one for one in (source, target)}.values():
        member.free(buffer)


BOXES = [
    (Region(5646, 3, ((6, 200),)), Region(4449, 3, ((6, 200),))),  # between each other's rows
    (Region(36, 4, ((32, 5), (320, 3))), Region(48, 4, ((32, 5), (320, 3)))),
    (Region(30, 4, ((32, 5), (320, 3))), Region(40, 4, ((32, 5), (320, 3)))),  # rows that go on in the next
]


@pytest.mark.parametrize(("from_", "to"), BOXES)
@pytest.mark.parametrize("is_host", [False, True])
def test_boxes_in_one_buffer_are_copied_whatever_the_driver_thinks_of_overlaps(
    open_members: OpenMembers, monkeypatch: pytest.MonkeyPatch, from_: Region, to: Region, is_host: bool
) -> None:
    (member,) = open_members(1)
    own = getattr(member, "_device", member)
    # Without: memory that only the driver knows, as all memory of CUDA members is.
    monkeypatch.setattr(own, "_is_pocl", is_host, raising=False)
    sent = np.random.default_rng(9).integers(0, 256, 8192, np.uint8)
    expected, found = sent.copy(), np.zeros_like(sent)
    for here, there in zip(from_.runs(), to.runs(), strict=True):
        expected[there.start : there.stop] = sent[here.start : here.stop]
    buffer = member.allocate(sent.nbytes)
    uploaded = copying.upload(member, memoryview(sent), buffer, 0, [])
    copied = copying.within(member, buffer, from_, buffer, to, [uploaded])
    finish(copying.download(member, buffer, 0, memoryview(found), [copied]))
    assert (found == expected).all()
    member.free(buffer)


@pytest.mark.parametrize("wrong", [Region(128, 4, ((8, 4),)), Region(237, 4, ((8, 3),)), Region(253, 4)])
def test_regions_that_are_not_alike_or_past_the_end_fail(member: Device, wrong: Region) -> None:
    buffer = member.allocate(256)
    from_ = Region(0, 4, ((8, 3),)) if wrong.levels else Region(0, 4)
    with pytest.raises(DeviceFailed):
        finish(copying.within(member, buffer, from_, buffer, wrong, []))
    member.free(buffer)


ROWS = Region(0, 24, ((40, 5),))


def _rows(offset: int) -> np.ndarray:
    """The places of the bytes of ROWS, the first at ``offset``."""
    return np.concatenate([np.arange(24) + offset + 40 * row for row in range(5)])


@pytest.mark.parametrize("offset", [0, 8, 72])
def test_rows_go_up_and_down_and_leave_what_is_between(member: Device, offset: int) -> None:
    buffer = filled(member, 100, 7)
    sent = np.arange(ROWS.span_nbytes, dtype=np.uint8)
    uploaded = copying.upload(member, memoryview(sent), buffer, offset, [], ROWS)
    expected = np.full(100, 7, np.int32).view(np.uint8)
    expected[_rows(offset)] = sent[_rows(0)]
    assert (contents(member, buffer, 100, uploaded).view(np.uint8) == expected).all()
    found, wanted = np.full(ROWS.span_nbytes, 9, np.uint8), np.full(ROWS.span_nbytes, 9, np.uint8)
    finish(copying.download(member, buffer, offset, memoryview(found), [uploaded], ROWS))
    wanted[_rows(0)] = sent[_rows(0)]
    assert (found == wanted).all()


def test_rows_go_from_member_to_member(open_members: OpenMembers) -> None:
    first, second = open_members(2)
    source, target = filled(first, 100, 1), filled(second, 100, 2)
    sent = np.arange(200, dtype=np.uint8)
    uploaded = copying.upload(first, memoryview(sent), source, 16, [])
    copied = copying.across(second, first, source, 16, target, 32, ROWS, [uploaded], [])[1]
    expected = np.full(100, 2, np.int32).view(np.uint8)
    expected[_rows(32)] = sent[_rows(0)]
    assert (contents(second, target, 100, copied).view(np.uint8) == expected).all()


@pytest.mark.parametrize("pattern_nbytes", [1, 2, 4, 8, 16, 32, 64, 128])
def test_a_fill_repeats_its_pattern(member: Device, pattern_nbytes: int) -> None:
    pattern = bytes(range(1, pattern_nbytes + 1))
    buffer = filled(member, 256)
    ticket = member.fill(buffer, pattern_nbytes, 3 * pattern_nbytes, pattern, [])
    found = contents(member, buffer, 256, ticket).tobytes()
    assert found == bytes(pattern_nbytes) + 3 * pattern + bytes(1024 - 4 * pattern_nbytes)


def test_a_kernel_runs_on_its_arguments(member: Device) -> None:
    buffer = filled(member, 64, 5)
    ticket = member.launch(adder(member, buffer, -2), (4, 1, 1), (16, 1, 1), 1, [])
    assert (contents(member, buffer, 64, ticket) == 3).all()


def test_bindings_of_one_kernel_keep_their_own_arguments(member: Device) -> None:
    program = member.build(SOURCE, [])
    buffers = [filled(member, 16), filled(member, 16)]
    bound = [
        member.bind(program, "add", [buffer, int32(value)])
        for buffer, value in ((buffers[0], 1), (buffers[1], 10), (buffers[0], 100))
    ]
    ticket = completed()
    for kernel in (bound[0], bound[1], bound[0], bound[2], bound[1], bound[1]):
        ticket = member.launch(kernel, (1, 1, 1), (16, 1, 1), 1, [ticket])
    assert (contents(member, buffers[0], 16, ticket) == 102).all()
    assert (contents(member, buffers[1], 16, ticket) == 30).all()


def test_local_memory_is_given_by_its_size(member: Device) -> None:
    values, sums = filled(member, 64, 3), filled(member, 4)
    kernel = member.bind(member.build(SOURCE, []), "sum", [values, sums, LocalBytes(64)])
    ticket = member.launch(kernel, (4, 1, 1), (16, 1, 1), 1, [])
    assert contents(member, sums, 4, ticket).tolist() == [48] * 4


def test_groups_local_sizes_and_null_pointers_reach_the_kernel(member: Device) -> None:
    buffer = filled(member, 48)
    kernel = member.bind(member.build(SOURCE, []), "ids", [buffer, None])
    ticket = member.launch(kernel, (2, 3, 1), (2, 2, 2), 3, [])
    found = contents(member, buffer, 48, ticket).reshape(2, 6, 4)
    assert found[0, :, 0].tolist() == [3000, 3000, 3010, 3010, 3020, 3020]
    assert found[1, 5].tolist() == [3020, 3020, 3120, 3120]
    ticket = member.launch(kernel, (3, 4, 1), (2, 2, 1), 2, [])
    assert contents(member, buffer, 48, ticket)[-1] == 2230


def test_build_options_reach_the_compiler(member: Device) -> None:
    program = member.build("kernel void put(global int *a) { *a = VALUE; }", ["-D", "VALUE=12"])
    buffer = filled(member, 1)
    ticket = member.launch(member.bind(program, "put", [buffer]), (1, 1, 1), (1, 1, 1), 1, [])
    assert contents(member, buffer, 1, ticket).tolist() == [12]


def test_a_text_that_does_not_compile_raises_with_the_log(member: Device) -> None:
    with pytest.raises(BuildError) as caught:
        member.build("kernel void f(global int *a) { *a = no_such_name; }", [])
    assert "no_such_name" in caught.value.log


def test_a_kernel_that_the_program_lacks_is_an_invalid_name(member: Device) -> None:
    program = member.build(SOURCE, [])

    def run() -> None:  # a member of another process says so when it is launched
        finish(member.launch(member.bind(program, "nothing", []), (1, 1, 1), (1, 1, 1), 1, []))

    for ask in (lambda: member.kernel_info(program, "nothing"), run):
        with pytest.raises(ClError) as caught:
            ask()
        assert caught.value.status == Status.INVALID_KERNEL_NAME


def max_work_group_size(member: Device) -> int:
    return int.from_bytes(member.capabilities.info[0x1004], "little")


def test_kernel_facts_are_those_of_the_driver(member: Device) -> None:
    facts = member.kernel_info(member.build(SOURCE, []), "sum")
    assert 0 < facts.work_group_size <= max_work_group_size(member)
    assert facts.preferred_multiple >= 1
    assert facts.local_mem_nbytes >= 0
    assert facts.private_mem_nbytes >= 0


def test_what_is_asked_of_sub_groups_is_answered_or_refused_as_by_the_driver(member: Device) -> None:
    program, most = member.build(SOURCE, []), SubGroupQuery(0x11B9, (), 1)
    has = int.from_bytes(member.capabilities.info.get(DeviceInfo.MAX_NUM_SUB_GROUPS, b""), "little")
    assert member.kernel_info(program, "sum").sub_groups == ()
    if has:
        (number,) = member.kernel_info(program, "sum", most).sub_groups
        assert 0 < number <= has
        return
    with pytest.raises(ClError) as refused:
        member.kernel_info(program, "sum", most)
    assert refused.value.status in (Status.INVALID_OPERATION, Status.INVALID_VALUE)


def test_facts_carry_the_bytes_that_the_driver_gives(member: Device) -> None:
    info = member.capabilities.info
    assert member.capabilities.kind == CPU
    assert info[0x102B].rstrip(b"\0").decode() in member.capabilities.name  # CL_DEVICE_NAME
    assert len(info[0x1005]) == 8 * int.from_bytes(info[0x1003], "little")  # sizes per dimension
    assert max_work_group_size(member) > 0
    assert not {0x1031, 0x1042} & set(info), "handles mean nothing to the application"


def test_memory_is_limited_and_given_back(member: Device) -> None:
    limit = member.capabilities.memory_nbytes
    buffer = member.allocate(1 << 20)
    assert member.memory.in_use == 1 << 20
    with pytest.raises(ClError, match=f"{limit} bytes asked, {limit - (1 << 20)} of {limit} avail") as caught:
        member.allocate(limit)
    assert caught.value.status == Status.MEM_OBJECT_ALLOCATION_FAILURE
    member.free(buffer)
    assert member.memory.in_use == 0
    for _ in range(3):
        buffer = member.allocate(1 << 20)
        member.free(buffer)
    assert member.memory.in_use == 0


def test_a_request_that_the_driver_refuses_is_an_allocation_failure(member: Device) -> None:
    largest = int.from_bytes(member.capabilities.info[0x1010], "little")
    if largest >= member.capabilities.memory_nbytes:
        pytest.skip("the driver allows a buffer as large as the member")
    with pytest.raises(ClError, match="available; ") as caught:
        member.allocate(largest + 1)
    assert caught.value.status == Status.MEM_OBJECT_ALLOCATION_FAILURE
    assert member.memory.in_use == 0


def test_times_are_on_the_host_clock(member: Device) -> None:
    buffer = filled(member, 16)
    kernel = adder(member, buffer)
    before = time.monotonic_ns()
    ticket = member.launch(kernel, (1, 1, 1), (16, 1, 1), 1, [])
    finish(ticket)
    assert before <= ticket.start_ns <= ticket.end_ns <= time.monotonic_ns()


def test_issuing_does_not_wait(member: Device) -> None:
    buffer, gate = filled(member, 16), Ticket()
    kernel = adder(member, buffer)
    found = np.zeros(16, np.int32)
    tickets = [copying.upload(member, host(np.full(16, 7, np.int32)), buffer, 0, [gate])]
    tickets.append(member.launch(kernel, (1, 1, 1), (16, 1, 1), 1, tickets))
    tickets.append(copying.download(member, buffer, 0, host(found), tickets))
    member.flush()
    assert not any(ticket.done for ticket in tickets)
    gate.complete()
    finish(tickets[-1])
    assert (found == 8).all()


def test_a_blocked_operation_lets_others_pass(member: Device) -> None:
    first, second = filled(member, 16), filled(member, 16)
    gate = Ticket()
    blocked = copying.upload(member, host(np.ones(16, np.int32)), first, 0, [gate])
    finish(member.launch(adder(member, second, 4), (1, 1, 1), (16, 1, 1), 1, []))
    assert (contents(member, second, 16) == 4).all()
    assert not blocked.done
    gate.complete()
    finish(blocked)


def test_a_failed_ticket_fails_all_that_depends_on_it_and_nothing_is_performed(
    open_members: OpenMembers,
) -> None:
    first, second = open_members(2)
    buffers = [filled(first, 16, 1), filled(second, 16, 2)]
    kernels = [adder(first, buffers[0]), adder(second, buffers[1])]
    gate, failure = Ticket(), ValueError("by hand")
    found = np.full(16, 9, np.int32)
    tickets = [gate]
    tickets.append(first.launch(kernels[0], (1, 1, 1), (16, 1, 1), 1, [gate]))
    tickets.append(second.launch(kernels[1], (1, 1, 1), (16, 1, 1), 1, [tickets[-1]]))
    tickets.append(second.fill(buffers[1], 0, 64, int32(5), [tickets[-1]]))
    tickets.append(
        copying.upload(first, host(np.zeros(16, np.int32)), buffers[0], 0, [completed(), tickets[-1]])
    )
    tickets.append(
        copying.within(first, buffers[0], Region(0, 32), buffers[0], Region(32, 32), [tickets[-1]])
    )
    tickets.append(copying.download(first, buffers[0], 0, host(found), [tickets[-1]]))
    gate.complete(failure)
    for ticket in tickets[1:]:
        with pytest.raises(ValueError, match="by hand"):
            finish(ticket)
        assert ticket.error is failure
        assert ticket.start_ns == ticket.end_ns == 0
    late = second.launch(kernels[1], (1, 1, 1), (16, 1, 1), 1, [tickets[2]])
    with pytest.raises(ValueError, match="by hand"):
        finish(late)
    assert (found == 9).all()
    assert (contents(first, buffers[0], 16) == 1).all()
    assert (contents(second, buffers[1], 16) == 2).all()


def test_what_the_driver_refuses_fails_its_ticket_and_the_member_lives_on(member: Device) -> None:
    buffer = filled(member, 16)
    kernel = adder(member, buffer)
    too_big = (2 * max_work_group_size(member), 1, 1)
    wrong_size = member.bind(member.build(SOURCE, []), "add", [buffer, b"12345678"])
    refused = [
        copying.upload(member, memoryview(bytes(65)), buffer, 0, []),
        copying.download(member, buffer, 60, memoryview(bytearray(5)), []),
        copying.download(member, buffer, 0, memoryview(bytes(4)), []),
        member.fill(buffer, 0, 64, b"123", []),
        copying.within(member, buffer, Region(0, 64), buffer, Region(32, 64), []),
        member.launch(kernel, (1, 1, 1), too_big, 1, []),
        member.launch(wrong_size, (1, 1, 1), (16, 1, 1), 1, []),
    ]
    for ticket in refused:
        with pytest.raises(DeviceFailed) as caught:
            finish(ticket)
        assert member.capabilities.name.startswith(
            caught.value.device
        )  # of a member of a node its name there
        assert caught.value.__cause__ is not None
    with pytest.raises(DeviceFailed):
        finish(member.launch(kernel, (1, 1, 1), (16, 1, 1), 1, [refused[0]]))
    finish(member.launch(kernel, (1, 1, 1), (16, 1, 1), 1, []))
    assert (contents(member, buffer, 16) == 1).all()


def test_host_memory_lives_until_its_copy_is_done_and_no_longer(member: Device) -> None:
    buffer, gate = filled(member, 1 << 16), Ticket()
    sent, found = np.full(1 << 16, 3, np.int32), np.zeros(1 << 16, np.int32)
    released = [threading.Event(), threading.Event()]
    weakref.finalize(sent, released[0].set)
    weakref.finalize(found, released[1].set)
    tickets = [copying.upload(member, host(sent), buffer, 0, [gate])]
    tickets.append(copying.download(member, buffer, 0, host(found), tickets))
    del sent, found
    gc.collect()
    assert not any(event.is_set() for event in released)
    gate.complete()
    finish(tickets[1])
    assert all(event.wait(PATIENCE_S) for event in released), "dropped without further operations"
    assert (contents(member, buffer, 1 << 16) == 3).all()


def test_uploads_of_memory_dropped_right_after_the_call_are_right(member: Device) -> None:
    buffer = member.allocate(64 * 4096)
    tickets = []
    for number in range(64):
        tickets.append(copying.upload(member, memoryview(bytes([number]) * 4096), buffer, number * 4096, []))
        junk = bytearray(b"\xff" * 4096)
        del junk
    found = bytearray(64 * 4096)
    finish(copying.download(member, buffer, 0, memoryview(found), tickets))
    assert found == b"".join(bytes([number]) * 4096 for number in range(64))


def test_10000_operations_may_be_outstanding(member: Device) -> None:
    buffer, gate = filled(member, 16), Ticket()
    kernel = adder(member, buffer)
    ticket = gate
    for _ in range(5_000):
        ticket = member.launch(kernel, (1, 1, 1), (16, 1, 1), 1, [ticket])
    gate.complete()
    for _ in range(5_000):
        ticket = member.launch(kernel, (1, 1, 1), (16, 1, 1), 1, [ticket])
    assert (contents(member, buffer, 16, ticket) == 10_000).all()


def test_closing_with_work_pending_completes_every_ticket(open_members: OpenMembers) -> None:
    before = set(threading.enumerate())
    (member,) = open_members(1)
    buffer = filled(member, 16)
    kernel = adder(member, buffer)
    never = Ticket()
    held = [member.launch(kernel, (1, 1, 1), (16, 1, 1), 1, [never])]
    held.append(member.launch(kernel, (1, 1, 1), (16, 1, 1), 1, held))
    running = [member.launch(kernel, (1, 1, 1), (16, 1, 1), 1, []) for _ in range(1000)]
    found = np.zeros(16, np.int32)
    running.append(copying.download(member, buffer, 0, host(found), running))
    member.close()
    assert all(ticket.done for ticket in running)
    assert [ticket.error for ticket in running if ticket.error] == []
    assert (found == 1000).all()
    assert all(isinstance(ticket.error, DeviceFailed) for ticket in held)
    never.complete()
    with pytest.raises(DeviceFailed):
        finish(member.launch(kernel, (1, 1, 1), (16, 1, 1), 1, []))
    assert set(threading.enumerate()) <= before
