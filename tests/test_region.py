"""Regions against the list of their bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.region import Region, alike, region

SHAPES = st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 4))
"""Bytes of a run, runs, and how often these."""
GAPS = st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 20))


def made(shape: tuple[int, int, int], gaps: tuple[int, int, int]) -> tuple[Region, list[int]]:
    """A region and its bytes."""
    nbytes, rows, slices = shape
    base, row_pitch = gaps[0], nbytes + gaps[1]
    slice_pitch = rows * row_pitch + gaps[2]
    starts = [base + z * slice_pitch + y * row_pitch for z in range(slices) for y in range(rows)]
    found = [start + byte for start in starts for byte in range(nbytes)]
    return region(base, shape, (row_pitch, slice_pitch)), found


@given(SHAPES, GAPS)
def test_a_region_is_its_runs(shape: tuple[int, int, int], gaps: tuple[int, int, int]) -> None:
    found, listed = made(shape, gaps)
    assert [byte for run in found.runs() for byte in range(run.start, run.stop)] == listed
    assert (found.bounds.start, found.bounds.stop) == (listed[0], listed[-1] + 1)
    assert found.total_nbytes == len(listed) == found.num_runs * shape[0]
    assert found.is_dense == (len(listed) == listed[-1] + 1 - listed[0])
    assert found.moved(3).bounds.start == listed[0] + 3 and found.at(0).span_nbytes == found.span_nbytes


@given(SHAPES, GAPS, st.data())
def test_parts_of_the_outermost_level_are_the_region(
    shape: tuple[int, int, int], gaps: tuple[int, int, int], data: st.DataObject
) -> None:
    found, listed = made(shape, gaps)
    if not found.levels:
        return
    count = found.counts[-1]
    cut = data.draw(st.integers(1, count - 1))
    parts = [found.part(0, cut), found.part(cut, count)]
    assert [byte for part in parts for run in part.runs() for byte in range(run.start, run.stop)] == listed


@given(SHAPES, GAPS, GAPS)
def test_like_regions_are_copied_byte_by_byte_on_as_few_levels(
    shape: tuple[int, int, int], here: tuple[int, int, int], there: tuple[int, int, int]
) -> None:
    (source, from_), (target, to) = made(shape, here), made(shape, there)
    left, right = alike(source, target)
    assert (left.nbytes, left.counts) == (right.nbytes, right.counts)
    assert [b for run in left.runs() for b in range(run.start, run.stop)] == from_
    assert [b for run in right.runs() for b in range(run.start, run.stop)] == to
    assert not left.levels or not (left.is_dense and right.is_dense)
    sent, found = np.arange(256, dtype=np.uint8), np.full(256, 255, np.uint8)
    expected = found.copy()
    expected[to] = sent[from_]
    np.copyto(right.of(memoryview(found)), left.of(memoryview(sent)))
    assert (found == expected).all()


@given(SHAPES, GAPS)
def test_a_unit_is_repeated_in_every_run(shape: tuple[int, int, int], gaps: tuple[int, int, int]) -> None:
    found, listed = made((2 * shape[0], *shape[1:]), gaps)
    content = np.zeros(512, np.uint8)
    units = found.of(memoryview(content), 2)
    np.copyto(units, np.frombuffer(b"\x07\x09", units.dtype))
    expected = np.zeros(512, np.uint8)
    expected[listed] = [*itertools.islice(itertools.cycle((7, 9)), len(listed))]
    assert (content == expected).all()


def test_runs_longer_than_an_element_are_copied_by_bytes() -> None:
    sent = np.random.default_rng(3).integers(0, 256, 1 << 19, np.uint8)
    found = np.zeros_like(sent)
    column = Region(7, 70_000, ((150_000, 3),))
    np.copyto(column.of(memoryview(found)), column.of(memoryview(sent)))
    for run in column.runs():
        assert (found[run.start : run.stop] == sent[run.start : run.stop]).all()
    assert np.count_nonzero(found) == sum(
        np.count_nonzero(sent[run.start : run.stop]) for run in column.runs()
    )


def test_what_overlaps_or_is_empty_or_past_the_end_is_refused() -> None:
    for wrong in ((0, 0, ()), (-1, 4, ()), (0, 4, ((3, 2),)), (0, 4, ((4, 1),)), (0, 4, ((8, 3), (19, 2)))):
        with pytest.raises(ValueError, match="no such region"):
            Region(*wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not like"):
        alike(Region(0, 4), Region(0, 5))
    with pytest.raises(ValueError, match="not like"):
        alike(Region(0, 4, ((8, 2),)), Region(0, 4, ((8, 3),)))
    with pytest.raises(ValueError):
        Region(0, 4, ((8, 2),)).of(memoryview(bytes(11)))
