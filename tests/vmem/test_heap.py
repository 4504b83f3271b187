"""Blocks that are given back serve later ones of about their size."""

from __future__ import annotations

import pytest

from sdi.devices.base import Device
from sdi.devices.handles import DeviceBuffer
from sdi.devices.image import ImageShape
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.vmem.heap import MemberHeap
from tests.vmem.conftest import MakeRig


class Counting(ForwardingDevice):
    """Counts the blocks that the driver is asked for, and notes their sizes."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.asked: list[int] = []

    def allocate(self, wanted: int | ImageShape, on_host: bool = False) -> DeviceBuffer:
        assert isinstance(wanted, int)
        self.asked.append(wanted)
        return super().allocate(wanted, on_host)


@pytest.mark.parametrize("nbytes", [1 << 16, 1 << 20, 3 << 20])
def test_sizes_that_grow_a_little_each_round_share_few_blocks(rig: MakeRig, nbytes: int) -> None:
    made = rig(1)
    device = Counting(made.devices[0])
    heap = MemberHeap(device, made.post, lambda nbytes: None)
    rounds, step = 200, nbytes // 2000 // 4 * 4
    for number in range(rounds):
        first, second = heap.take(nbytes + number * step), heap.take(nbytes + number * step)
        assert first is not None and second is not None
        assert min(first.nbytes, second.nbytes) >= nbytes + number * step
        heap.give(first, [])
        heap.give(second, [])
    assert len(device.asked) <= 8
    assert max(device.asked) <= (nbytes + rounds * step) * 17 // 16
    heap.free_pool()
    assert device.memory.in_use == 0


def test_small_blocks_and_those_of_a_member_that_is_nearly_full_have_the_size_asked_for(rig: MakeRig) -> None:
    made = rig(1)
    device = Counting(made.devices[0])
    heap = MemberHeap(device, made.post, lambda nbytes: None)
    heap.take(4100)
    heap.capacity = 4100 + 4 * ((1 << 20) + 1)  # not four of 17 / 16 MiB
    heap.take((1 << 20) + 1)
    heap.tight = True
    heap.capacity = 1 << 30
    heap.take((1 << 20) + 2)
    assert device.asked == [4100, (1 << 20) + 1, (1 << 20) + 2]


def test_the_smallest_block_that_fits_is_taken_and_of_equal_ones_the_oldest(rig: MakeRig) -> None:
    made = rig(1)
    heap = MemberHeap(made.devices[0], made.post, lambda nbytes: None)
    sizes = [40_000, 41_000, 39_000, 40_000, 60_000]
    blocks = [heap.take(nbytes) for nbytes in sizes]
    for block in blocks:
        assert block is not None
        heap.give(block, [])
    assert [heap.take(39_500) for _ in range(3)] == [blocks[0], blocks[3], blocks[1]]
    other = heap.take(39_500)
    assert other not in blocks, "60,000 are far too many"
