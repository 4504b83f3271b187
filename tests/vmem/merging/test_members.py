"""Merges that stay on members."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.atomics import Operation, Update
from sdi.devices.base import Place
from sdi.devices.capabilities import CPU
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.vmem.accounting import Accounting, BytesMoved
from sdi.vmem.links import Links
from sdi.vmem.merging.members import MemberMerges, MergeUnits
from tests.vmem.conftest import FOR, MakeRig, noise


@pytest.mark.parametrize(("on_members", "keeps"), [(False, 0), (True, 0), (True, 1), (True, 2)])
def test_stores_to_one_unit_are_counted_alike_where_host_and_members_merge(
    rig: MakeRig, on_members: bool, keeps: int
) -> None:
    made = rig(3, compares=on_members)
    expected = bytearray(noise(4096))
    buffer = made.buffer(bytes(expected))
    whole, members = buffer.whole, [0, 1, 2]
    for member in members:
        made.fetch(buffer, member, whole, same_undefined=True)
    merge = made.memory.merges.begin(buffer, whole, members, MergeUnits(4, 4), keeps)
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
    holders = {mask for _, mask, _ in buffer.directory.holders(whole)}
    assert holders == {1 << (1 + keeps) if on_members else 1}
    assert made.read(buffer) == expected
    made.turn()
    assert made.memory.accounting.races == {FOR.cause: 100 + 2 * 100}  # of two members, and of all three


@pytest.mark.parametrize("keeps", [0, 1, 2])
@pytest.mark.parametrize("operation", ["add", "max", "xor"])
def test_updates_are_combined_on_whichever_member_keeps_them(
    rig: MakeRig, operation: Operation, keeps: int
) -> None:
    made = rig(3, compares=True)
    before = np.frombuffer(noise(4096), np.uint32) & 0x7F7F7F7F  # so that each store is a maximum, too
    buffer = made.buffer(before.tobytes())
    for member in range(3):
        made.fetch(buffer, member, buffer.whole, same_undefined=True)
    units = MergeUnits(4, 4, Update(operation, 4))
    merge = made.memory.merges.begin(buffer, buffer.whole, [0, 1, 2], units, keeps)
    assert merge is not None
    made.memory.merges.keep_twins(merge, FOR)
    values = [np.uint32(0x01010101 * (200 + member)) for member in range(3)]
    written = [[made.fill(member, buffer, buffer.whole, values[member].tobytes())] for member in range(3)]
    made.wait(made.memory.merges.run(merge, written, FOR))
    wanted = before.copy()
    for value in values:
        if operation == "add":
            wanted += value - before
        elif operation == "xor":
            wanted ^= value ^ before
        else:
            wanted = np.maximum(wanted, value)
    assert made.read(buffer) == wanted.tobytes()


@pytest.mark.parametrize("keeps", [0, 1, 3])
@pytest.mark.parametrize("operation", ["add", None])
def test_members_of_a_node_bring_theirs_together_before_one_list_of_changes_leaves_it(
    rig: MakeRig, operation: Operation | None, keeps: int
) -> None:
    nodes = [0, 1, 1, 2, 2, 2]
    made = rig(len(nodes), compares=True)
    links = made.memory.merges._links = Links([CPU] * len(nodes), nodes=nodes)
    before = np.frombuffer(noise(4096), np.uint32)
    buffer = made.buffer(before.tobytes())
    members = range(len(nodes))
    for member in members:
        made.fetch(buffer, member, buffer.whole, same_undefined=True)
    moved = made.links()
    units = MergeUnits(4, 4, Update(operation, 4) if operation else None)
    merge = made.memory.merges.begin(buffer, buffer.whole, members, units, keeps)
    assert merge is not None
    made.memory.merges.keep_twins(merge, FOR)
    wanted, written = before.copy(), []
    for member in members:
        over = ByteRange(256 * member, 4096 - 256 * member)
        made.reserve((buffer, member, over))
        value = np.uint32(0x01010101 * (200 + member))
        written.append([made.fill(member, buffer, over, value.tobytes())])
        mine = slice(over.start // 4, over.stop // 4)
        wanted[mine] = wanted[mine] + (value - before[mine]) if operation else value
    done = made.memory.merges.run(merge, written, FOR)
    assert {mask for _, mask, _ in buffer.directory.holders(buffer.whole)} == {1 << 1 + keeps}
    made.wait(done)
    sent: dict[tuple[int, int], int] = {}
    for ends, nbytes in made.links().items():
        source, target = (0 if end == "host" else 1 + int(end) for end in ends.split(">"))
        if links.crosses(source, target) and nbytes > moved.get(ends, 0):
            sent[source, target] = nbytes - moved.get(ends, 0)
    firsts = {1 + nodes.index(node) for node in (0, 1, 2)}
    assert set(sent) == {(first, 1 + keeps) for first in firsts - {1 + keeps}}
    assert all(nbytes <= 1.2 * 4096 for nbytes in sent.values()), "as much as one member may change"
    assert made.read(buffer) == wanted.tobytes()
    made.turn()
    clashes = sum((4096 - 512 * member) // 4 for member in range(1, 6))
    assert made.memory.accounting.races == ({} if operation else {FOR.cause: clashes})


@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=9),
    st.integers(0, 1 << 20),
    st.integers(1, 1 << 26),
    st.floats(0.1, 100),
)
def test_parts_cover_what_is_merged_and_each_node_keeps_one_at_most(
    nodes: list[int], start: int, nbytes: int, rate: float
) -> None:
    links = Links([CPU] * len(nodes), nodes=nodes)
    links._network = rate
    merges = MemberMerges(
        [], [], Accounting(BytesMoved(), []), lambda _call: None, lambda _device: True, links
    )
    over = ByteRange(start * 8, start * 8 + nbytes)
    found = merges.shared_out(over, range(len(nodes)))
    assert [part.start for part, _ in found] == [over.start, *(part.stop for part, _ in found[:-1])]
    assert found[-1][0].stop == over.stop and found[0][1] == 0
    assert all(part.start % 4096 == 0 for part, _ in found[1:]), "no unit is cut"
    keepers = [nodes[position] for _, position in found]
    assert len(set(keepers)) == len(keepers)
    if nbytes * rate < 1e6:
        assert len(found) == 1
    if nbytes * rate > 1e8:
        assert len(found) == len(set(nodes))


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
