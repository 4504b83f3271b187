"""Merges that stay on members."""

from __future__ import annotations

from typing import Any

import pytest

from sdi.devices.base import Place
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.vmem.merging.members import MergeUnits
from tests.vmem.conftest import FOR, MakeRig, noise


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
    for member in members:  # as assignments of one launch that race for the last 100 units
        over = ByteRange(4096 - 4 * 100 * (3 - member), 4096)
        device, allocation = made.devices[member], made.memory.memories.allocation(buffer, member)
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
        made.wait(made.memory.host_merges.merge(buffer, whole, written, 4, 4, None, FOR))
    assert made.read(buffer) == expected
    made.turn()
    assert made.memory.accounting.races == {FOR.cause: 100 + 2 * 100}  # of two members, and of all three


@pytest.mark.parametrize("what", ["peer copy", "apply", "download"])
def test_a_merge_that_can_not_be_issued_fails_its_launch(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    made = rig(2, compares=True)
    buffer = made.buffer(noise(4096))
    for member in (0, 1):
        made.fetch(buffer, member, buffer.whole, same_undefined=True)
    merge = made.memory.merges.begin(buffer, buffer.whole, [0, 1], MergeUnits(4, 4))
    assert merge is not None
    made.memory.merges.keep_twins(merge, FOR)
    written = [[made.fill(member, buffer, ByteRange(64 * member, 4096), b"\1")] for member in (0, 1)]

    device = made.devices[0]
    copy = device.copy

    def refuse(*_: object) -> None:
        raise RuntimeError("our bug")

    def refuse_copy(source: Place, target: Place, *given: Any) -> tuple[Ticket, Ticket]:
        if (target.device is None) == (what == "download"):
            refuse()
        return copy(source, target, *given)

    done = made.memory.merges.run(merge, written, FOR)
    method, refuse_it = ("merge", refuse) if what == "apply" else ("copy", refuse_copy)
    monkeypatch.setattr(device, method, refuse_it)
    for _ in range(2):  # once in the turn that issues it, and once from its ticket
        with pytest.raises(RuntimeError, match="our bug"):
            made.wait(done)
    monkeypatch.undo()
    assert buffer.dependencies[1].failed() == [buffer.whole]
