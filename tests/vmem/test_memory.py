"""All of virtual memory over real members."""

from __future__ import annotations

import pytest

from sdi.errors import ClError
from sdi.intervals import ByteRange
from sdi.vmem.directory import HOST
from tests.vmem.conftest import FOR, MakeRig, noise


def test_in_the_host_protocol_a_kernel_leaves_its_bytes_on_the_host_only(rig: MakeRig) -> None:
    made = rig(2, coherence="host")
    buffer = made.buffer(noise(64))
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    buffer.directory.wrote(1, ByteRange(0, 32))
    made.memory.after_kernel(buffer, [0, 1], FOR)
    assert buffer.directory.holders(buffer.whole) == [(buffer.whole, 1 << HOST, True)]
    assert made.memory.moved.member_to_host == 32


def test_a_buffer_is_found_by_its_number_and_by_its_bytes_until_it_is_released(rig: MakeRig) -> None:
    made = rig(2)
    memory, buffer = made.memory, made.buffer(noise(8192))
    assert memory.buffer(buffer.id) is buffer
    assert memory.holding(buffer.offset + 10, 20) == (buffer, ByteRange(10, 30))
    with pytest.raises(ClError, match="no buffer has byte"):
        memory.holding(buffer.offset + 8000, 1000)
    forgotten: list[int] = []
    buffer.on_release.add(forgotten.append)
    made.wait(made.fill(1, buffer, buffer.whole, b"\1"))
    assert made.devices[1].memory.in_use >= 8192
    memory.release(buffer.id)
    made.turn()
    assert forgotten == [buffer.id]
    with pytest.raises(ClError, match="is not known"):
        memory.buffer(buffer.id)
