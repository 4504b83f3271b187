"""The partition table: every optimal cut, and nothing else."""

from __future__ import annotations

import itertools

import pytest

from sdi.ndrange import GroupBox
from sdi.partition.table import Cut, cuts, shapes


def groups(box: GroupBox) -> set[tuple[int, ...]]:
    return set(itertools.product(*(range(a, b) for a, b in zip(box.start, box.stop, strict=True))))


def test_three_dimensions_and_four_members_have_the_six_ways_of_the_paper() -> None:
    found = cuts((8, 8, 8), 4)
    assert {cut.shape for cut in found} == {(1, 1, 4), (1, 4, 1), (4, 1, 1), (1, 2, 2), (2, 1, 2), (2, 2, 1)}
    assert [cut.shape for cut in found][:3] == [(1, 1, 4), (1, 4, 1), (4, 1, 1)]


def test_two_dimensions_and_four_members_have_three_ways_and_one_dimension_one() -> None:
    assert {cut.shape for cut in cuts((8, 8, 1), 4)} == {(1, 4, 1), (4, 1, 1), (2, 2, 1)}
    assert [cut.shape for cut in cuts((8, 1, 1), 4)] == [(4, 1, 1)]


@pytest.mark.parametrize("members", [*range(1, 17), 61, 62, 64, 100, 256])
def test_every_cut_covers_the_grid_with_disjoint_balanced_boxes(members: int) -> None:
    for grid in [(16, 1, 1), (17, 5, 1), (3, 3, 1), (4, 6, 5), (1, 1, 2), (31, 1, 29)]:
        for cut in cuts(grid, members):
            assert len(cut.boxes) == min(members, grid[0] * grid[1] * grid[2])
            seen = [groups(box) for box in cut.boxes]
            assert sum(map(len, seen)) == grid[0] * grid[1] * grid[2] == len(set().union(*seen))
            if cut.shape != (0, 0, 0):
                allocations = [box.extent for box in cut.boxes]
                assert all(
                    max(e[d] for e in allocations) - min(e[d] for e in allocations) <= 1 for d in range(3)
                )


def test_primes_are_cut_along_one_dimension_only() -> None:
    assert all(sum(part > 1 for part in shape) == 1 for shape in shapes(13))


def test_a_grid_that_no_shape_fits_is_still_shared_by_all() -> None:
    (only,) = cuts((3, 3, 1), 8)
    assert only.shape == (0, 0, 0)
    assert len(only.boxes) == 8


@pytest.mark.parametrize(("nodes", "of_node"), [(2, 2), (4, 4), (64, 4), (16, 1), (3, 8)])
def test_members_of_a_node_have_a_box_together_and_follow_each_other(nodes: int, of_node: int) -> None:
    for grid in [(96, 1, 1), (96, 64, 1), (24, 20, 12)]:
        found = cuts(grid, nodes * of_node, of_node)
        assert len({cut.shape for cut in found}) == len(found) > 0
        for cut in found:
            plain = Cut(grid, nodes * of_node, cut.shape)
            assert set(cut.boxes) == set(plain.boxes), "the same boxes in another order"
            if cut.nodes == (1, 1, 1):
                assert grid == (96, 1, 1), "256 parts don't fit"
                continue
            assert len(cut.node_boxes) == nodes
            for node, whole in enumerate(cut.node_boxes):
                own = cut.boxes[node * of_node : (node + 1) * of_node]
                assert list(own) == list(cut.boxes_of(node))
                assert set().union(*map(groups, own)) == groups(whole)


def test_of_cuts_over_nodes_with_one_shape_that_with_the_least_surface_is_there() -> None:
    found = {cut.shape: cut.nodes for cut in cuts((64, 64, 1), 16, 4)}
    assert found == {(1, 16, 1): (1, 4, 1), (16, 1, 1): (4, 1, 1)} | {
        (4, 4, 1): (2, 2, 1), (2, 8, 1): (2, 2, 1), (8, 2, 1): (2, 2, 1),
    }  # fmt: skip


def test_rows_over_rows_are_the_rows_of_all_members() -> None:
    (rows,) = (cut for cut in cuts((64, 256, 1), 256, 4) if cut.shape == (1, 256, 1))
    assert rows.boxes == Cut((64, 256, 1), 256, (1, 256, 1)).boxes
