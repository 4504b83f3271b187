"""Where a buffer's bytes are: views of the arena, places on members, and the arena as a member's memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sdi.devices.testing.null import NullDevice
from sdi.intervals import ByteRange
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.memories import computes_in_arena
from sdi.wire.opencl import DeviceInfo
from tests.vmem.conftest import MakeRig, noise


def test_the_hosts_bytes_are_the_arenas(rig: MakeRig) -> None:
    made = rig(1)
    data = noise(5000)
    buffer, memories = made.buffer(data), made.memory.memories
    over = ByteRange(100, 4100)
    assert bytes(memories.host_view(buffer, over)) == data[100:4100]
    memories.host_array(buffer, over)[:] = 3
    assert bytes(made.arena.view(buffer.offset, 5000)) == data[:100] + bytes([3]) * 4000 + data[4100:]


def test_a_member_without_a_place_has_none(rig: MakeRig) -> None:
    made = rig(2)
    buffer, memories = made.buffer(bytes(4096)), made.memory.memories
    made.reserve((buffer, 0, buffer.whole))
    assert memories.allocation(buffer, 0) is buffer.allocations[0]
    with pytest.raises(AssertionError, match=f"buffer {buffer.id} has no place on member 1"):
        memories.allocation(buffer, 1)


def test_a_member_may_use_the_arenas_bytes_themselves_and_is_counted_once(rig: MakeRig) -> None:
    made = rig(2)
    data = noise(8192)
    buffer, memories = made.buffer(data), made.memory.memories
    views = [memories.mapped(buffer, member) for member in (0, 1, 0)]
    assert views[0] is views[2] and views[0] is not views[1]
    assert made.memory.accounting.events.mapped == 2
    made.wait(made.devices[0].fill(views[0], 0, 4, np.int32(9).tobytes(), []))
    assert bytes(memories.host_view(buffer, ByteRange(0, 8))) == np.int32(9).tobytes() + data[4:8]


def test_without_pooled_memory_and_nodes_the_host_backs_what_is_too_large(rig: MakeRig) -> None:
    made = rig(2)
    buffer, memories = made.buffer(bytes(64)), made.memory.memories
    assert memories.members == [0, 1] and memories.shared == 0
    assert memories.pooled_memory == memories.backing(buffer) == HOST
    assert memories.pooled_allocation(buffer) is None
    assert memories.in_file(buffer, buffer.whole) is None


def test_one_device_that_can_computes_in_the_arena_where_nothing_is_split(rig: MakeRig) -> None:
    one, two = rig(1).devices, rig(2).devices
    assert computes_in_arena(one, may_split=True) == computes_in_arena(two, may_split=False) == 0
    assert computes_in_arena(two, may_split=True) is None
    for change in ({"maps_host": False}, {"is_host_memory": False}, {"is_near": False}, {"node": 1}):
        two[1].capabilities = replace(two[0].capabilities, **change)  # type: ignore[arg-type]
        assert computes_in_arena(two, may_split=False) is None
    two[1].capabilities = replace(two[0].capabilities, unit="another CPU")
    assert computes_in_arena(two, may_split=False) is None
    assert computes_in_arena([NullDevice(0)], may_split=False) is None


def test_the_memory_of_a_member_that_computes_in_the_arena_is_the_hosts(rig: MakeRig) -> None:
    made = rig(2, in_arena=0)
    first, second = map(member_memory, (0, 1))
    data = noise(8192)
    buffer = made.buffer(data)
    assert [buffer.own(memory) for memory in (HOST, first, second)] == [HOST, HOST, second]
    assert buffer.dependencies[first] is buffer.dependencies[HOST] is not buffer.dependencies[second]
    made.fetch(buffer, 0, ByteRange(0, 100), same_undefined=False)
    place = buffer.allocations[0]
    assert place is not None and place.over == buffer.whole and place.is_on_host
    assert made.moved() == 0 and buffer.directory.is_current(first, ByteRange(0, 100))
    made.fill(0, buffer, ByteRange(0, 64), b"\1\2\3\4")
    made.fetch(buffer, 1, buffer.whole, same_undefined=False)
    made.fill(1, buffer, ByteRange(4096, 8192), b"\5")
    assert made.memory.moved.host_to_member + made.memory.moved.member_to_member == 8192
    assert made.read(buffer) == b"\1\2\3\4" * 16 + data[64:4096] + b"\5" * 4096
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    assert made.memory.moved.member_to_host == 4096, "and that is all that the first one lacks"


def test_what_is_too_large_for_the_drivers_buffers_has_a_place_for_what_is_wanted(rig: MakeRig) -> None:
    made = rig(1, in_arena=0)
    device = made.devices[0]
    info = {**device.capabilities.info, DeviceInfo.MAX_MEM_ALLOC_SIZE: (1 << 16).to_bytes(8, "little")}
    device.capabilities = replace(device.capabilities, info=info)
    small, large = (made.buffer(noise(nbytes)) for nbytes in (1 << 16, (1 << 16) + 1))
    assert small.together == 0b11 and not large.together
    made.fill(0, large, ByteRange(0, 4096), b"\3")
    place = large.allocations[0]
    assert place is not None and place.over == ByteRange(0, 4096)
    assert made.read(large) == b"\3" * 4096 + noise((1 << 16) + 1)[4096:]
