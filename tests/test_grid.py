"""Grids against the list of the bytes."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.grid import Box, Grid, num_entries
from sdi.region import Region
from sdi.region_map import RegionMap

GRIDS = st.lists(st.integers(2, 5), max_size=3).map(
    lambda radices: Grid(tuple(itertools.accumulate(radices, lambda a, b: a * b)))
)


def listed(over: Region) -> list[int]:
    return [byte for run in over.runs() for byte in range(run.start, run.stop)]


def bytes_of(grid: Grid, box: Box) -> list[int]:
    digits = [range(*interval) for interval in box]
    return sorted(
        sum(map(math.prod, zip(each, grid.units, strict=True))) for each in itertools.product(*digits)
    )


@st.composite
def regions(draw: st.DrawFn, grid: Grid) -> Region:
    """Any region whose strides the grid has."""
    nbytes = draw(st.integers(1, 40))
    span, levels = nbytes, []
    for stride in grid.strides:
        if stride >= span and draw(st.booleans()):
            count = draw(st.integers(2, 6))
            levels.append((stride, count))
            span += (count - 1) * stride
    return Region(draw(st.integers(0, 100)), nbytes, tuple(levels))


@given(GRIDS, st.data())
def test_a_region_is_its_boxes_and_each_box_a_region(grid: Grid, data: st.DataObject) -> None:
    over = data.draw(regions(grid))
    boxes = grid.boxes(over)
    found = sorted(byte for box in boxes for byte in bytes_of(grid, box))
    assert found == listed(over)
    assert sorted(byte for box in boxes for byte in listed(grid.region(box))) == found
    assert grid.refined(over) is grid


@given(GRIDS, st.data())
def test_regions_of_boxes_have_no_level_too_many(grid: Grid, data: st.DataObject) -> None:
    box = grid.boxes(data.draw(regions(grid)))[0]
    made = grid.region(box)
    starts = [run.start for run in made.runs()]
    assert all(b - a > made.nbytes for a, b in itertools.pairwise(starts))
    assert all(inner[0] * inner[1] != outer[0] for inner, outer in itertools.pairwise(made.levels))


@pytest.mark.parametrize(
    ("strides", "levels", "expected"),
    [
        ((), ((64, 4),), (64,)),
        ((64,), ((1024, 4),), (64, 1024)),
        ((1024,), ((64, 4),), (64, 1024)),
        ((64, 4096), ((1024, 2),), (64, 1024, 4096)),
        ((64,), ((96, 4),), None),
        ((6,), ((18, 2), (36, 2)), (6, 18, 36)),
        ((2, 4, 8), ((16, 2), (32, 2)), None),
    ],
)
def test_a_grid_gets_strides_that_are_multiples_of_each_other(
    strides: tuple[int, ...], levels: tuple[tuple[int, int], ...], expected: tuple[int, ...] | None
) -> None:
    found = Grid(strides).refined(Region(0, 1, levels))
    assert found == (None if expected is None else Grid(expected))


@pytest.mark.parametrize("strides", [(1,), (0,), (4, 6), (8, 4), (4, 4)])
def test_strides_that_are_no_multiples_make_no_grid(strides: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="no such grid"):
        Grid(strides)


def test_entries_are_counted_before_there_is_a_map() -> None:
    field, row = Region(4, 4, ((76, 512), (76 * 512, 9))), Region(76 * 1024, 76 * 512)
    found = num_entries([field, row])
    made = RegionMap(76 * 512 * 40, 0)
    for value, each in enumerate((field, row), 1):
        made.assign(each, value)
    assert found is not None and len(made) <= found <= 32
    assert num_entries([Region(0, 1, ((10, 5),)), Region(0, 1, ((16, 5),))]) is None
    assert num_entries([]) == 1
