"""What goes when a member is full, and what that leaves, with real members."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from sdi.devices.capabilities import GPU
from sdi.devices.image import ImageShape
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceLost
from sdi.intervals import ByteRange
from sdi.vmem import heap
from sdi.vmem.buffer import ImageView
from sdi.vmem.heap import MemberHeap
from sdi.wire.opencl import ChannelOrder, ChannelType, MemObjectType
from tests.devices.short import ShortDevice
from tests.vmem.conftest import FOR, MakeRig, Rig, noise

_GPU_NBYTES = 1 << 24


def test_memory_that_is_given_up_is_reused_only_when_nothing_uses_it(rig: MakeRig) -> None:
    made = rig(1, 8192)
    first, second = made.buffer(noise(8192)), made.buffer(noise(8192, 2))
    made.fetch(first, 0, first.whole, same_undefined=False)
    gate = Ticket()
    first.dependencies[1].read_by(first.whole, gate)  # as a kernel that has not started
    waits = made.memory.placement.reserve([(second, 0, second.whole)], FOR)
    assert gate in waits and made.devices[0].memory.in_use == 8192
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
    allocation = made.memory.memories.allocation(buffer, 0)
    assert allocation.over == ByteRange(0, 53_248)
    expected = bytearray(data)
    expected[50_000:50_010], expected[20_000:20_010] = b"\1" * 10, b"\2" * 10
    assert made.read(buffer) == expected
    assert made.memory.moved.member_to_host == 20


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
        assert first.memory.in_use == 2 * nbytes and not keeps_more()
        for buffer in buffers:
            made.memory.release(buffer.id)
        made.turn()
        assert first.memory.in_use == 2 * nbytes and keeps_more()
    placement.trim()
    assert keeps_more(), "it was used just now"
    large = made.buffer(_GPU_NBYTES - nbytes)
    made.reserve((large, 0, large.whole))
    assert first.memory.in_use == _GPU_NBYTES, "what is wanted goes before what is kept"
    made.memory.release(large.id)
    made.turn()
    assert first.memory.in_use == nbytes, "half of its memory at most"
    other = made.buffer(nbytes)
    made.reserve((other, 1, other.whole))
    made.memory.release(other.id)
    made.turn()
    assert second.memory.in_use == nbytes
    monkeypatch.setattr(heap.time, "monotonic_ns", lambda: 1 << 62)
    placement.trim()
    assert first.memory.in_use == second.memory.in_use == 0 and not keeps_more()


def test_places_on_a_gpu_have_room_for_the_edges_of_their_neighbours(rig: MakeRig) -> None:
    made = on_gpus(rig, 1)
    nbytes = 1 << 20
    buffer = made.buffer(nbytes)
    made.reserve((buffer, 0, ByteRange(nbytes // 4, nbytes // 2)))
    first = made.memory.memories.allocation(buffer, 0)
    assert first.over == ByteRange(nbytes // 4 - nbytes // 64, nbytes // 2 + nbytes // 64)
    made.reserve((buffer, 0, ByteRange(nbytes // 4 - 4096, nbytes // 2 + 4096)))
    assert made.memory.memories.allocation(buffer, 0) is first and made.memory.accounting.events.moves == 0
    large = made.buffer(_GPU_NBYTES)
    made.reserve((large, 0, ByteRange(0, _GPU_NBYTES // 4)))
    assert made.memory.memories.allocation(large, 0).over == ByteRange(0, _GPU_NBYTES // 4), (
        "much of it is in use"
    )


def test_a_driver_that_has_less_than_it_says_is_not_asked_for_it_again(rig: MakeRig) -> None:
    made = rig(1)
    heap = MemberHeap(ShortDevice(made.devices[0], 3 << 16), made.post, lambda nbytes: None)
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
    device = ShortDevice(made.devices[0], 3 << 16)
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
    heap = MemberHeap(ShortDevice(made.devices[0], 3 << 16), made.post, lambda nbytes: None)
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
