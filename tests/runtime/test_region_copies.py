"""Copies, fills, reads and writes of regions, on members and between them, against what one device leaves."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.commands import CopyBuffer, Read, Rectangle, Write
from sdi.intervals import ByteRange
from sdi.region import Region, alike, region
from sdi.runtime.region_copies import HeldBytes, parts_of, pieces
from sdi.vmem.directory import Directory, member_memory
from tests.runtime.mover import NBYTES, MakeMover

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
