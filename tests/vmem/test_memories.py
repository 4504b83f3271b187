"""Where a buffer's bytes are: views of the arena, places on members, and the arena as a member's memory."""

from __future__ import annotations

import numpy as np
import pytest

from sdi.intervals import ByteRange
from sdi.vmem.directory import HOST
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
