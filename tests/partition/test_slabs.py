"""Cuts of group grids: disjoint boxes that cover them, one per member."""

from __future__ import annotations

import itertools

import pytest

from sdi.ndrange import GroupBox
from sdi.partition.slabs import cut


def groups(box: GroupBox) -> set[tuple[int, ...]]:
    return set(itertools.product(*(range(a, b) for a, b in zip(box.start, box.stop, strict=True))))


@pytest.mark.parametrize("members", [1, 2, 3, 5, 8, 16])
def test_boxes_are_disjoint_cover_the_grid_and_use_every_member_that_has_work(members: int) -> None:
    for grid in itertools.product((1, 2, 3, 5, 7), repeat=3):
        boxes = cut(grid, members)
        assert len(boxes) == min(members, grid[0] * grid[1] * grid[2])
        seen = [groups(box) for box in boxes]
        assert sum(map(len, seen)) == grid[0] * grid[1] * grid[2]
        assert set().union(*seen) == groups(GroupBox((0, 0, 0), grid))


def test_slabs_are_cut_from_the_slowest_dimension_with_enough_groups() -> None:
    assert cut((64, 64, 1), 4) == tuple(GroupBox((0, 16 * k, 0), (64, 16 * (k + 1), 1)) for k in range(4))
    assert cut((64, 3, 1), 4)[0] == GroupBox((0, 0, 0), (16, 3, 1))


def test_slabs_differ_by_one_slice_at_most() -> None:
    sizes = [box.total_groups for box in cut((1009, 1, 1), 8)]
    assert max(sizes) - min(sizes) == 1
