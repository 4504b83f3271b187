"""What becomes of bytes that were not written as they should have been, or are lost with a member."""

from __future__ import annotations

import pytest

from sdi.devices.ticket import completed
from sdi.errors import DeviceFailed, DeviceLost
from sdi.intervals import ByteRange
from sdi.vmem.directory import HOST
from sdi.vmem.recovery import forget_unheld
from tests.vmem.conftest import MakeRig, noise


def why() -> DeviceFailed:
    return DeviceFailed("a kernel", "broke")


def test_poisoned_bytes_fail_their_readers_until_they_are_written(rig: MakeRig) -> None:
    made = rig(2)
    data = noise(4096)
    buffer, recovery = made.buffer(data), made.memory.recovery
    assert not recovery.are_poisoned([buffer])
    recovery.poison(buffer, ByteRange(100, 1 << 20), why())  # nobody checked what was not issued
    assert recovery.are_poisoned([buffer])
    assert made.read(buffer, ByteRange(0, 100)) == data[:100]
    with pytest.raises(DeviceFailed, match="broke"):
        made.read(buffer, ByteRange(99, 101))
    made.write(buffer, 100, data[100:])
    assert made.read(buffer) == data


def test_what_a_lost_member_alone_had_is_poisoned_and_the_rest_stays(rig: MakeRig) -> None:
    made = rig(3)
    data = noise(4096)
    buffer, memory = made.buffer(data), made.memory
    made.fetch(buffer, 1, buffer.whole, same_undefined=False)
    made.wait(made.fill(1, buffer, ByteRange(1024, 2048), b"\7"))
    made.wait(made.fill(1, buffer, ByteRange(2048, 4096), b"\5"))
    made.fetch(buffer, 2, ByteRange(2048, 4096), same_undefined=False)
    made.settle()
    assert memory.recovery.drop_member(1, DeviceLost("member 1", "is gone")) == 1024
    assert memory.members == [0, 2] and buffer.allocations[1] is None
    assert made.read(buffer, ByteRange(0, 1024)) == data[:1024]
    assert made.read(buffer, ByteRange(2048, 4096)) == b"\5" * 2048
    with pytest.raises(DeviceLost, match="is gone"):
        made.read(buffer, ByteRange(1024, 1025))


def test_a_copy_that_failed_counts_no_more_where_others_have_the_bytes(rig: MakeRig) -> None:
    made = rig(2)
    data = noise(4096)
    buffer, recovery = made.buffer(data), made.memory.recovery
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    made.settle()
    half = ByteRange(0, 2048)
    buffer.dependencies[1].written_by(half, completed(why()))  # as a copy that did not come about
    assert not recovery.pending() and recovery.drop_member(None, why()) == 0
    assert not buffer.dependencies[1].failed()
    assert list(buffer.directory.current_in(1, buffer.whole)) == [ByteRange(2048, 4096)]
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    assert made.read(buffer) == data


def test_failures_matter_only_in_bytes_that_a_memory_counts_as_having(rig: MakeRig) -> None:
    made = rig(1)
    buffer = made.buffer(noise(4096))
    made.fetch(buffer, 0, ByteRange(0, 1024), same_undefined=False)
    made.settle()
    buffer.dependencies[1].written_by(ByteRange(512, 4096), completed(why()))
    forget_unheld(buffer, 1)
    assert buffer.dependencies[1].failed() == [ByteRange(512, 1024)] and buffer.dependencies[1].poisoned
    buffer.directory.wrote(HOST, buffer.whole)
    forget_unheld(buffer, 1)
    assert not buffer.dependencies[1].failed() and not buffer.dependencies[1].poisoned
