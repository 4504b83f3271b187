"""Copies put together as rows: the same bytes between the same memories."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sdi.intervals import ByteRange
from sdi.region import Region
from sdi.vmem.directory import Copy
from sdi.vmem.rows import in_rows, ranges_of

PARTS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 3)), max_size=40)
"""Source, length, and distance to the copy before."""


@given(PARTS)
def test_the_same_bytes_come_from_the_same_memories(parts: list[tuple[int, int, int]]) -> None:
    copies, at = [], 0
    for source, length, gap in parts:
        copies.append(Copy(source, 0, ByteRange(at + gap, at + gap + length)))
        at += gap + length
    found = [
        (copy.source, byte)
        for copy, rows in in_rows(copies)
        for part in ranges_of(copy.over, rows, 1000)
        for byte in range(part.start, part.stop)
    ]
    expected = [(c.source, byte) for c in copies for byte in range(c.over.start, c.over.stop)]
    assert sorted(found) == sorted(expected)


def test_the_columns_of_two_members_are_two_copies() -> None:
    pitch, rows = 4096, 1024
    copies = []
    for row in range(rows):
        for member in (1, 2):
            start = row * pitch + (member - 1) * pitch // 2
            copies.append(Copy(member, 0, ByteRange(start, start + pitch // 2)))
    found = in_rows(copies)
    assert [(copy.source, made.base, made.levels) for copy, made in found] == [
        (1, 0, ((pitch, rows),)),
        (2, pitch // 2, ((pitch, rows),)),
    ]
    assert len(found) == 2
    assert ranges_of(found[0][0].over, found[0][1], 64) == (found[0][0].over,)


def test_few_or_uneven_ranges_stay_single_copies() -> None:
    uneven = [Copy(1, 0, ByteRange(start, start + 4)) for start in (0, 10, 30, 31 + 4)]
    assert in_rows(uneven) == [(copy, Region(copy.over.start, 4)) for copy in uneven]
    two = [Copy(1, 0, ByteRange(start, start + 4)) for start in (0, 10)]
    assert in_rows(two) == [(copy, Region(copy.over.start, 4)) for copy in two]
