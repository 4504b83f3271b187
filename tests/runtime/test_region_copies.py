"""Copies, fills, reads and writes of regions, on members and between them, against what one device leaves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.commands import CopyBuffer, Fill, Read, Rectangle, Write
from sdi.errors import DeviceLost
from sdi.intervals import ByteRange
from sdi.region import Region, alike, region
from sdi.runtime.region_copies import HeldBytes, parts_of, pieces
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import Directory, member_memory
from tests.runtime.mover import NBYTES, MakeMover, Mover
from tests.vmem.conftest import noise

SIZE = 60
CUTS = st.lists(st.integers(1, SIZE - 1), max_size=5, unique=True).map(sorted)
SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(1, 2))
GAPS = st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 3))


def _region(shape: tuple[int, int, int], gaps: tuple[int, int, int]) -> Region:
    row = shape[0] + gaps[1]
    return region(gaps[0], shape, (row, row * shape[1] + gaps[2]))


def _parts(cuts: list[int]) -> list[HeldBytes]:
    edges = [0, *cuts, 1 << 10]
    return [HeldBytes(ByteRange(a, b), 1 << n, True) for n, (a, b) in enumerate(itertools.pairwise(edges))]


@given(SHAPES, GAPS, GAPS, CUTS, CUTS)
def test_pieces_are_the_regions_and_each_end_of_one_lies_in_one_part(
    shape: tuple[int, int, int],
    here: tuple[int, int, int],
    there: tuple[int, int, int],
    from_cuts: list[int],
    to_cuts: list[int],
) -> None:
    source, target = alike(_region(shape, here), _region(shape, there))
    from_parts, to_parts = _parts(from_cuts), _parts(to_cuts)
    found: list[tuple[int, int]] = []
    for left, right in pieces(source, target, from_parts, to_parts):
        for end, parts in ((left, from_parts), (right, to_parts)):
            over = end.bounds
            assert any(part.over.start <= over.start and over.stop <= part.over.stop for part in parts)
        found += zip(_bytes(left), _bytes(right), strict=True)
    assert found == list(zip(_bytes(source), _bytes(target), strict=True))


def _bytes(over: Region) -> list[int]:
    return [byte for run in over.runs() for byte in range(run.start, run.stop)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, SIZE - 2), st.integers(1, SIZE), st.booleans())))
def test_parts_are_held_by_the_memories_that_they_name(steps: list[tuple[int, int, int, bool]]) -> None:
    directory = Directory(SIZE)
    for memory, start, nbytes, is_write in steps:
        over = ByteRange(start, min(start + nbytes, SIZE))
        if is_write:
            directory.wrote(memory, over)
        else:
            directory.copied(memory, over)
    found = parts_of(directory, ByteRange(0, SIZE))
    assert found is not None
    assert [part.over.start for part in found] == [0, *(part.over.stop for part in found[:-1])]
    for part in found:
        assert part.holders
        for over, holders, defined in directory.holders(part.over):
            assert holders & part.holders == part.holders and defined == part.defined, over


def test_bytes_that_are_very_scattered_have_no_parts() -> None:
    directory = Directory(1 << 16, defined=True)
    for start in range(0, 1 << 12, 16):
        directory.wrote(1 + start // 16 % 2, ByteRange(start, start + 8))
    assert parts_of(directory, ByteRange(0, 1 << 12)) is None
    assert parts_of(directory, ByteRange(1 << 12, 1 << 16)) is not None


def _column(offset: int, nbytes: int, rows: int, pitch: int) -> Rectangle:
    return Rectangle(offset, (nbytes, rows, 1), pitch, pitch * rows)


def test_a_column_of_what_members_hold_is_copied_there_and_nothing_else_moves(mover: MakeMover) -> None:
    machine = mover(2)
    made = machine.rig
    a, b = machine.buffers(1, 2)
    machine.move(a.id, b.id, 0, 0, 0)
    machine.move(b.id, a.id, 0, 0, 0)
    before = made.moved()
    machine.run(CopyBuffer(a.id, b.id, _column(4, 4, NBYTES // 64, 64), _column(12, 4, NBYTES // 64, 64)))
    assert made.moved() == before
    half = NBYTES // 2
    for member, over in enumerate((ByteRange(0, half), ByteRange(half, NBYTES))):
        assert {holders for _, holders, _ in b.directory.holders(over)} == {1 << member_memory(member)}
    machine.finish()


@pytest.mark.parametrize("apart", [False, True], ids=["seen", "apart"])
@pytest.mark.parametrize("kind", ["read", "write"])
def test_of_a_column_that_members_hold_only_its_bytes_cross_a_link(
    mover: MakeMover, kind: str, apart: bool
) -> None:
    machine = mover(2, apart=apart)
    made = machine.rig
    a, b = machine.buffers(1, 2)
    machine.move(a.id, b.id, 0, 0, 0)
    machine.move(b.id, a.id, 0, 0, 0)
    before = made.moved()
    column = _column(4, 4, NBYTES // 64, 64)
    machine.run(Read(a.id, column, False) if kind == "read" else Write(a.id, column, False))
    assert made.moved() - before == column.nbytes
    machine.finish()


def _on_its_node(mover: MakeMover) -> tuple[Mover, VirtualBuffer, VirtualBuffer]:
    """Of two buffers the first lies in its node's own memory alone, filled with 5."""
    machine = mover(2, 4 * NBYTES, nodes=(0, 1))
    a, b = machine.buffers(1, 2)
    machine.rig.wait(machine.rig.fill(1, a, a.whole, b"\5"))
    machine.rig.push_out(1)
    assert machine.rig.links() == {"1>node 1": NBYTES}
    return machine, a, b


def test_what_only_a_nodes_own_memory_has_is_copied_by_a_member_there(mover: MakeMover) -> None:
    machine, a, b = _on_its_node(mover)
    row = Rectangle(0, (NBYTES // 2, 1, 1), NBYTES, NBYTES)
    machine.run(CopyBuffer(a.id, b.id, row, row))
    machine.finish()
    assert machine.rig.links() == {"1>node 1": NBYTES, "node 1>1": NBYTES // 2}
    assert b.directory.is_current(member_memory(1), ByteRange(0, NBYTES // 2))
    assert machine.rig.read(b) == b"\5" * (NBYTES // 2) + noise(NBYTES, 2)[NBYTES // 2 :]


def test_of_a_column_in_a_nodes_own_memory_only_its_bytes_are_read(mover: MakeMover) -> None:
    machine, a, _ = _on_its_node(mover)
    column = _column(4, 4, NBYTES // 64, 64)
    machine.run(Read(a.id, column, False))
    machine.finish()
    assert machine.rig.links() == {"1>node 1": NBYTES, "node 1>host": column.nbytes}
    shown = machine.memory.memories.host_array(a, a.whole).reshape(-1, 64)[:, 4:8]
    assert (shown == 5).all()


def test_columns_are_copied_to_and_written_into_what_a_nodes_own_memory_has(mover: MakeMover) -> None:
    machine, a, b = _on_its_node(mover)
    wanted = np.full(NBYTES, 5, np.uint8).reshape(-1, 64)
    there, here = (_column(offset, 4, NBYTES // 64, 64) for offset in (4, 12))
    machine.run(CopyBuffer(b.id, a.id, there, here))
    machine.finish()
    wanted[:, 12:16] = np.frombuffer(noise(NBYTES, 2), np.uint8).reshape(-1, 64)[:, 4:8]
    assert machine.rig.read(a) == wanted.tobytes()

    machine, a, _ = _on_its_node(mover)
    wanted[:] = 5
    machine.run(Fill(a.id, here, b"\7\7\7\7"))
    wanted[:, 12:16] = 7
    machine.run(Write(a.id, there, False, data=bytes([9] * there.nbytes)))
    wanted[:, 4:8] = 9
    machine.finish()
    assert machine.rig.read(a) == wanted.tobytes()


def test_where_all_members_of_a_node_are_lost_its_own_memory_still_serves(mover: MakeMover) -> None:
    machine, a, b = _on_its_node(mover)
    assert machine.memory.recovery.drop_member(1, DeviceLost("member 1", "is gone")) == 0
    row = Rectangle(0, (NBYTES, 1, 1), NBYTES, NBYTES)
    machine.run(CopyBuffer(a.id, b.id, row, row))
    machine.finish()
    assert machine.rig.read(b) == b"\5" * NBYTES
