"""Virtual memory on real members: where bytes go, and over which link."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from sdi.devices.capabilities import CPU, GPU
from sdi.devices.handles import DeviceBuffer
from sdi.devices.image import ImageShape
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket, completed
from sdi.errors import ClError, DeviceFailed, DeviceLost, Status
from sdi.intervals import ByteRange
from sdi.vmem import heap
from sdi.vmem.buffer import ImageView
from sdi.vmem.directory import HOST
from sdi.vmem.heap import MemberHeap
from sdi.vmem.links import Links
from sdi.vmem.merging.members import MergeUnits
from sdi.wire.opencl import ChannelOrder, ChannelType, MemObjectType
from tests.vmem.conftest import FOR, MakeRig, Rig, noise


def test_bytes_that_a_member_wrote_go_to_another_without_the_host(rig: MakeRig) -> None:
    made = rig(2)
    buffer = made.buffer(noise(4096))
    made.wait(made.fill(0, buffer, ByteRange(100, 200), b"\7"))
    made.fetch(buffer, 1, ByteRange(150, 250), same_undefined=False)
    assert made.memory.moved.member_to_member == 50
    assert made.memory.moved.host_to_member == 50  # the bytes that only the host has
    assert made.memory.moved.member_to_host == 0
    report = made.memory.accounting.report()
    assert report["causes"] == {"k: a": {"0>1": 50, "host>1": 50}}
    made.wait(made.fill(1, buffer, ByteRange(0, 1), b"\1"))
    expected = bytearray(noise(4096))
    expected[100:200] = b"\7" * 100
    expected[0] = 1
    assert made.read(buffer) == expected


@pytest.mark.parametrize("through_host", [False, True])
def test_columns_move_as_rows_at_a_time(rig: MakeRig, through_host: bool) -> None:
    made, rows, pitch, width = rig(3), 100, 64, 24
    if through_host:
        made.memory.links.through_host = lambda *_: True  # type: ignore[method-assign]
    expected = bytearray(noise(rows * pitch))
    buffer = made.buffer(bytes(expected))
    for row in range(rows):
        for member in (0, 1):
            over = ByteRange(row * pitch + 8 + member * width, row * pitch + 8 + member * width + width)
            made.wait(made.fill(member, buffer, over, bytes([1 + row % 7 + 100 * member])))
            expected[over.start : over.stop] = bytes([1 + row % 7 + 100 * member]) * width
    before = {ends: total.copies for ends, total in made.memory.accounting._links.items()}
    made.fetch(buffer, 2, buffer.whole, same_undefined=False)
    copies = {
        ends: total.copies - before.get(ends, 0) for ends, total in made.memory.accounting._links.items()
    }
    direct = {(1, 3): 1, (2, 3): 1}
    staged = {(1, 0): 1, (2, 0): 1}
    # What the host had from the start lies between; its first and last ranges have other lengths.
    assert {ends: n for ends, n in copies.items() if n and ends[0] != 0} == (
        staged if through_host else direct
    )
    assert copies[0, 3] <= (5 if through_host else 3)
    assert made.memory.accounting.link_nbytes(1, 0 if through_host else 3) == rows * width
    there = bytearray(rows * pitch)
    device = made.devices[2]
    allocation = made.memory.allocation(buffer, 2)
    waits = buffer.dependencies[3].before_read(buffer.whole)
    made.wait(device.download(allocation.device_buffer, 0, memoryview(there), waits))
    assert there == expected
    assert made.read(buffer) == expected


def test_rows_that_arrive_on_a_member_leave_what_failed_there_between_them_poisoned(rig: MakeRig) -> None:
    made, rows, pitch = rig(1), 100, 64
    buffer = made.buffer(noise(rows * pitch))
    made.wait(made.fill(0, buffer, buffer.whole, b"\1"))
    for row in range(rows):
        made.write(buffer, row * pitch, b"\2" * 24)
    over = ByteRange(5 * pitch + 30, 5 * pitch + 40)
    buffer.dependencies[1].written_by(over, completed(DeviceFailed("a kernel", "broke")))
    ranges = [ByteRange(row * pitch, row * pitch + 24) for row in range(rows)]
    for transfer in made.memory.plan_fetch(buffer, 1, ranges, False, FOR.cause):
        assert transfer.rows is not None
        made.memory.perform(transfer, FOR)
    with pytest.raises(DeviceFailed, match="broke"):
        made.read(buffer, over)


def test_bytes_that_all_want_go_along_a_tree(rig: MakeRig) -> None:
    made = rig(8)
    made.memory.links = Links([CPU] * 8, lambda: 0)  # as if all were issued at once
    data = noise(1 << 20)
    buffer = made.buffer(1 << 20)
    made.write(buffer, 0, data)
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    buffer.directory.wrote(1, buffer.whole)  # as a kernel that left all as it was
    for member in range(1, 8):
        made.fetch(buffer, member, buffer.whole, same_undefined=False)
    accounting = made.memory.accounting
    served = [sum(accounting.link_nbytes(m, t) for t in range(1, 9)) >> 20 for m in range(1, 9)]
    assert sum(served) == 7
    assert max(served) <= 3
    assert accounting.moved.member_to_host == 0
    for member in range(8):
        there = bytearray(1 << 20)
        dependencies = buffer.dependencies[member + 1]
        device = made.devices[member]
        ticket = device.download(
            made.memory.allocation(buffer, member).device_buffer,
            0,
            memoryview(there),
            dependencies.before_read(buffer.whole),
        )
        made.wait(ticket)
        assert there == data


def test_in_the_host_protocol_a_kernel_leaves_its_bytes_on_the_host_only(rig: MakeRig) -> None:
    made = rig(2, coherence="host")
    buffer = made.buffer(noise(64))
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    buffer.directory.wrote(1, ByteRange(0, 32))
    made.memory.after_kernel(buffer, [0, 1], FOR)
    assert list(buffer.directory.holders(buffer.whole)) == [(buffer.whole, 1 << HOST)]
    assert made.memory.moved.member_to_host == 32


@pytest.mark.parametrize("nbytes", [1, 1000, (4 << 20) - 1, (9 << 20) + 5])
def test_merges_in_several_tasks_are_one_merge(rig: MakeRig, nbytes: int) -> None:
    made = rig(2)
    data = noise(nbytes)
    buffer = made.buffer(data)
    for member in range(2):
        made.fetch(buffer, member, buffer.whole, same_undefined=True)
    expected = bytearray(data)
    launched = []
    for member, at in ((0, 0), (1, nbytes - 1)):
        value = data[at] ^ 255
        device = made.devices[member]
        waits = buffer.dependencies[member + 1].before_write(buffer.whole)
        there = made.memory.allocation(buffer, member).device_buffer
        launched.append((member, [device.fill(there, at, 1, bytes([value]), waits)]))
        expected[at] = value
    made.wait(made.memory.merge(buffer, buffer.whole, launched, 4, 4, None, FOR))
    assert made.read(buffer) == expected
    events = made.memory.accounting.events
    assert (events.twins, events.twin_nbytes) == (1, nbytes)


@pytest.mark.parametrize("on_members", [False, True])
def test_stores_to_one_unit_are_counted_alike_where_host_and_members_merge(
    rig: MakeRig, on_members: bool
) -> None:
    made = rig(3, compares=on_members)
    expected = bytearray(noise(4096))
    buffer = made.buffer(bytes(expected))
    whole, members = buffer.whole, [0, 1, 2]
    for member in members:
        made.fetch(buffer, member, whole, same_undefined=True)
    merge = made.memory.merges.begin(buffer, whole, members, MergeUnits(4, 4))
    assert (merge is not None) == on_members
    if merge is not None:
        made.memory.merges.keep_twins(merge, FOR)
    written: list[tuple[int, list[Ticket]]] = []
    for member in members:  # as pieces of one launch that race for the last 100 units
        over = ByteRange(4096 - 4 * 100 * (3 - member), 4096)
        device, allocation = made.devices[member], made.memory.allocation(buffer, member)
        waits = buffer.dependencies[member + 1].before_write(over)
        pattern = bytes([1 + member] * 4)
        written.append(
            (member, [device.fill(allocation.device_buffer, over.start, over.nbytes, pattern, waits)])
        )
        buffer.dependencies[member + 1].written_by(over, written[-1][1][0])
        expected[over.start : over.stop] = pattern * (over.nbytes // 4)
    if merge is not None:
        made.wait(made.memory.merges.run(merge, [tickets for _, tickets in written], FOR))
    else:
        made.wait(made.memory.merge(buffer, whole, written, 4, 4, None, FOR))
    assert made.read(buffer) == expected
    made.turn()
    assert made.memory.accounting.events.conflicts == 100 + 2 * 100  # of two members, and of all three


@pytest.mark.parametrize("method", ["peer_copy", "apply", "download"])
def test_a_merge_that_can_not_be_issued_fails_its_launch(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    made = rig(2, compares=True)
    buffer = made.buffer(noise(4096))
    for member in (0, 1):
        made.fetch(buffer, member, buffer.whole, same_undefined=True)
    merge = made.memory.merges.begin(buffer, buffer.whole, [0, 1], MergeUnits(4, 4))
    assert merge is not None
    made.memory.merges.keep_twins(merge, FOR)
    written = [[made.fill(member, buffer, ByteRange(64 * member, 4096), b"\1")] for member in (0, 1)]

    def refuse(*_: object) -> None:
        raise RuntimeError("our bug")

    done = made.memory.merges.run(merge, written, FOR)
    monkeypatch.setattr(made.devices[0], method, refuse)
    for _ in range(2):  # once in the turn that issues it, and once from its ticket
        with pytest.raises(RuntimeError, match="our bug"):
            made.wait(done)
    monkeypatch.undo()
    assert buffer.dependencies[1].failed() == [buffer.whole]


def test_where_the_peer_link_is_slow_bytes_go_through_the_arena(rig: MakeRig) -> None:
    made = rig(2)
    buffer = made.buffer(4096)
    made.wait(made.fill(0, buffer, buffer.whole, b"\7"))
    links = made.memory.links
    for _ in range(50):
        ticket = Ticket()
        links.issued(1, 2, 1 << 20, ticket)
        ticket.complete(None, 1, 1 << 30)
    made.fetch(buffer, 1, ByteRange(0, 100), same_undefined=False)
    assert (made.memory.moved.member_to_host, made.memory.moved.host_to_member) == (100, 100)
    made.wait(made.fill(0, buffer, ByteRange(0, 4096), b"\1"))
    made.fetch(buffer, 1, ByteRange(0, 100), same_undefined=False)
    made.wait(made.fill(1, buffer, ByteRange(0, 50), b"\2"))
    assert made.read(buffer, ByteRange(0, 100)) == b"\2" * 50 + b"\1" * 50


def test_bytes_come_home_only_after_those_who_still_read_the_old_ones(rig: MakeRig) -> None:
    made = rig(1)
    buffer = made.buffer(noise(4096))
    gate = Ticket()
    buffer.dependencies[HOST].read_by(buffer.whole, gate)  # as an upload that has not started
    made.fill(0, buffer, ByteRange(0, 100), b"\7")
    done = Ticket()
    waits = made.read_behind(buffer, buffer.whole, done)
    made.wait(*buffer.dependencies[1].before_read(buffer.whole))
    assert made.memory.host_view(buffer, buffer.whole) == noise(4096)
    gate.complete()
    made.wait(*waits)
    assert made.memory.host_view(buffer, ByteRange(0, 101)) == b"\7" * 100 + noise(4096)[100:101]
    done.complete()


def test_a_copy_between_members_waits_for_those_who_still_use_the_old_bytes(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rig(2)
    waits: list[Ticket] = []
    peer_copy = made.devices[1].peer_copy
    monkeypatch.setattr(
        made.devices[1], "peer_copy", lambda *args: waits.extend((*args[-3], *args[-2])) or peer_copy(*args)
    )
    buffer = made.buffer(noise(4096))
    made.fetch(buffer, 1, buffer.whole, same_undefined=False)
    gate = Ticket()
    buffer.dependencies[2].read_by(buffer.whole, gate)  # as a kernel that has not started
    made.fill(0, buffer, buffer.whole, b"\7")
    made.fetch(buffer, 1, buffer.whole, same_undefined=False)
    (copied,) = buffer.dependencies[2].before_read(buffer.whole)
    assert gate in waits and not copied.done
    gate.complete()
    made.wait(copied)


def test_memory_that_is_given_up_is_reused_only_when_nothing_uses_it(rig: MakeRig) -> None:
    made = rig(1, 8192)
    first, second = made.buffer(noise(8192)), made.buffer(noise(8192, 2))
    made.fetch(first, 0, first.whole, same_undefined=False)
    gate = Ticket()
    first.dependencies[1].read_by(first.whole, gate)  # as a kernel that has not started
    waits = made.memory.placement.reserve([(second, 0, second.whole)], FOR)
    assert gate in waits and made.devices[0].memory_in_use() == 8192
    gate.complete()
    made.wait(*waits)
    assert made.memory.placement.reserve([(second, 0, second.whole)], FOR) == []
    events = made.memory.accounting.events
    assert (events.drops, events.spills, events.holds) == (1, 0, 1)
    assert made.memory.accounting.peak_nbytes == [8192]


def test_memory_of_released_buffers_serves_the_next_ones(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rig(1)
    asked: list[int] = []
    allocate = made.devices[0].allocate
    monkeypatch.setattr(made.devices[0], "allocate", lambda nbytes: asked.append(nbytes) or allocate(nbytes))
    for number in range(5):
        buffer = made.buffer(noise(8192, number))
        assert len(asked) == min(number, 1)  # none for the buffer, one for its first use of all
        made.wait(made.fill(0, buffer, buffer.whole, b"\1"))
        assert made.read(buffer) == b"\1" * 8192
        made.memory.release(buffer.id)
        made.turn()
    assert asked == [8192]


def test_clean_bytes_go_before_dirty_ones_and_the_least_recently_used_first(rig: MakeRig) -> None:
    made = rig(1, 4 * 4096)
    dirty, old, new, other = (made.buffer(noise(4096, k)) for k in range(4))
    made.fill(0, dirty, dirty.whole, b"\1")
    for buffer in (old, new, other):
        made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    made.settle()
    made.reserve((old, 0, old.whole))
    for wanted, gone in ((made.buffer(4096), new), (made.buffer(4096), other), (made.buffer(4096), old)):
        made.reserve((wanted, 0, wanted.whole))
        made.fill(0, wanted, wanted.whole, b"\2")
        made.settle()
        assert gone.allocations[0] is None
    assert dirty.allocations[0] is not None
    fifth = made.buffer(4096)
    made.reserve((fifth, 0, fifth.whole))
    assert dirty.allocations[0] is None and made.read(dirty) == b"\1" * 4096
    assert made.memory.accounting.events.spilled_nbytes == 4096


def test_places_grow_to_hold_both_ranges_and_some_more_and_keep_what_they_held(rig: MakeRig) -> None:
    made = rig(1)
    data = noise(100_000)
    buffer = made.buffer(data)
    made.fill(0, buffer, ByteRange(50_000, 50_010), b"\1")
    made.fill(0, buffer, ByteRange(20_000, 20_010), b"\2")
    allocation = made.memory.allocation(buffer, 0)
    assert allocation.over == ByteRange(0, 53_248)
    expected = bytearray(data)
    expected[50_000:50_010], expected[20_000:20_010] = b"\1" * 10, b"\2" * 10
    assert made.read(buffer) == expected
    assert made.memory.moved.member_to_host == 20


_GPU_NBYTES = 1 << 24


def on_gpus(rig: MakeRig, members: int) -> Rig:
    """A rig whose heaps take their members for GPUs of so many bytes."""
    made = rig(members, _GPU_NBYTES)
    for member, device in enumerate(made.devices):
        gpu = ForwardingDevice(device)
        gpu.capabilities = replace(device.capabilities, kind=GPU)
        used = partial(made.memory.accounting.resident, member)
        made.memory.placement.heaps[member] = MemberHeap(gpu, made.post, used)
    return made


def test_a_gpu_keeps_more_memory_for_reuse_until_it_is_idle(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap, "POOL_NBYTES", 1 << 16)
    made = on_gpus(rig, 2)
    placement, nbytes = made.memory.placement, 1 << 20
    first, second = made.devices

    def keeps_more() -> bool:
        return any(each.holds_more for each in placement.heaps)

    for _ in range(3):
        buffers = [made.buffer(nbytes), made.buffer(nbytes)]
        made.reserve(*((buffer, 0, buffer.whole) for buffer in buffers))
        assert first.memory_in_use() == 2 * nbytes and not keeps_more()
        for buffer in buffers:
            made.memory.release(buffer.id)
        made.turn()
        assert first.memory_in_use() == 2 * nbytes and keeps_more()
    placement.trim()
    assert keeps_more(), "it was used just now"
    large = made.buffer(_GPU_NBYTES - nbytes)
    made.reserve((large, 0, large.whole))
    assert first.memory_in_use() == _GPU_NBYTES, "what is wanted goes before what is kept"
    made.memory.release(large.id)
    made.turn()
    assert first.memory_in_use() == nbytes, "half of its memory at most"
    other = made.buffer(nbytes)
    made.reserve((other, 1, other.whole))
    made.memory.release(other.id)
    made.turn()
    assert second.memory_in_use() == nbytes
    monkeypatch.setattr(heap.time, "monotonic_ns", lambda: 1 << 62)
    placement.trim()
    assert first.memory_in_use() == second.memory_in_use() == 0 and not keeps_more()


def test_places_on_a_gpu_have_room_for_the_edges_of_their_neighbours(rig: MakeRig) -> None:
    made = on_gpus(rig, 1)
    nbytes = 1 << 20
    buffer = made.buffer(nbytes)
    made.reserve((buffer, 0, ByteRange(nbytes // 4, nbytes // 2)))
    first = made.memory.allocation(buffer, 0)
    assert first.over == ByteRange(nbytes // 4 - nbytes // 64, nbytes // 2 + nbytes // 64)
    made.reserve((buffer, 0, ByteRange(nbytes // 4 - 4096, nbytes // 2 + 4096)))
    assert made.memory.allocation(buffer, 0) is first and made.memory.accounting.events.moves == 0
    large = made.buffer(_GPU_NBYTES)
    made.reserve((large, 0, ByteRange(0, _GPU_NBYTES // 4)))
    assert made.memory.allocation(large, 0).over == ByteRange(0, _GPU_NBYTES // 4), "much of it is in use"


class Misleading(ForwardingDevice):
    """A member whose driver has less than it says, ``has`` bytes, and no images."""

    has = 3 << 16

    def allocate(self, wanted: int | ImageShape, on_host: bool = False) -> DeviceBuffer:
        if not isinstance(wanted, int):
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, f"no image of {wanted.nbytes} bytes")
        if self.memory_in_use() + wanted > self.has:
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, "the driver has no more")
        return super().allocate(wanted, on_host)


def test_a_driver_that_has_less_than_it_says_is_not_asked_for_it_again(rig: MakeRig) -> None:
    made = rig(1)
    heap = MemberHeap(Misleading(made.devices[0]), made.post, lambda nbytes: None)
    made.memory.placement.heaps[0] = heap
    buffers = [made.buffer(noise(1 << 16, seed)) for seed in range(5)]
    for buffer in (*buffers, *buffers):
        made.fetch(buffer, 0, buffer.whole, False)
    assert all(made.read(buffer) == noise(1 << 16, seed) for seed, buffer in enumerate(buffers))
    assert heap.capacity < 4 << 16
    large = made.buffer(1 << 18)
    with pytest.raises(ClError, match="MEM_OBJECT_ALLOCATION_FAILURE"):
        made.reserve((large, 0, large.whole))


def test_memory_that_others_gave_back_is_used_again(rig: MakeRig) -> None:
    made = rig(1)
    device = Misleading(made.devices[0])
    heap = made.memory.placement.heaps[0] = MemberHeap(device, made.post, lambda nbytes: None)
    everything, large = heap.capacity, made.buffer(noise(1 << 18))
    with pytest.raises(ClError, match="the driver has no more"):
        made.reserve((large, 0, large.whole))
    assert heap.capacity < 1 << 18
    device.has = 1 << 30
    made.fetch(large, 0, large.whole, False)
    assert heap.capacity == everything
    assert made.read(large) == noise(1 << 18)


def test_a_refused_image_takes_no_memory_from_buffers(rig: MakeRig) -> None:
    made = rig(1)
    heap = MemberHeap(Misleading(made.devices[0]), made.post, lambda nbytes: None)
    made.memory.placement.heaps[0] = heap
    everything, (wanted, other) = heap.capacity, (made.buffer(noise(1 << 16, seed)) for seed in range(2))
    made.fill(0, other, other.whole, b"\1")
    made.fetch(wanted, 0, wanted.whole, False)
    shape = ImageShape(
        MemObjectType.IMAGE2D, ChannelOrder.RGBA, ChannelType.UNORM_INT8, 64, 64, 1, 256, 1 << 14
    )
    image = (wanted, 0, ImageView(0, shape))
    with pytest.raises(ClError, match="no image of 16384 bytes"):
        made.reserve((wanted, 0, wanted.whole), images=[image])
    assert heap.capacity == everything
    assert other.allocations[0] is None, "it made room, in case that helps"
    made.fetch(other, 0, other.whole, False)
    assert made.read(other) == b"\1" * (1 << 16) and made.read(wanted) == noise(1 << 16, 0)


def test_a_place_on_a_member_that_was_lost_meanwhile_is_refused_as_such(rig: MakeRig) -> None:
    made = rig(2)
    here, gone = (made.buffer(noise(256, seed)) for seed in range(2))
    made.fetch(gone, 0, gone.whole, False)
    made.memory.placement.drop_member(0)
    assert gone.allocations[0] is None
    with pytest.raises(DeviceLost):
        made.reserve((here, 0, here.whole))
    made.fetch(here, 1, here.whole, False)
    assert made.read(here) == noise(256, 0)
