"""Merges in the arena, of what real members wrote."""

from __future__ import annotations

import pytest

from tests.vmem.conftest import FOR, MakeRig, noise


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
        there = made.memory.memories.allocation(buffer, member).device_buffer
        launched.append((member, [device.fill(there, at, 1, bytes([value]), waits)]))
        expected[at] = value
    made.wait(made.memory.host_merges.merge(buffer, buffer.whole, launched, 4, 4, None, FOR))
    assert made.read(buffer) == expected
    events = made.memory.accounting.events
    assert (events.twins, events.twin_nbytes) == (1, nbytes)
