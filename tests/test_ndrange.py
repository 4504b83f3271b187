"""NDRanges and boxes of work-groups."""

from __future__ import annotations

import pytest

from sdi.ndrange import GroupBox, NDRange


def test_groups_are_counted_per_dimension_and_in_all() -> None:
    found = NDRange(2, (3, 0, 0), (64, 12, 1), (16, 4, 1))
    assert found.num_groups == (4, 3, 1) and found.total_groups == 12
    box = GroupBox((1, 0, 0), (4, 2, 1))
    assert box.extent == (3, 2, 1) and box.total_groups == 6


WRONG = {
    "no dimension": (0, (0, 0, 0), (1, 1, 1), (1, 1, 1)),
    "four": (4, (0, 0, 0), (1, 1, 1), (1, 1, 1)),
    "a size that is not divided": (1, (0, 0, 0), (10, 1, 1), (4, 1, 1)),
    "no work-item": (1, (0, 0, 0), (0, 1, 1), (1, 1, 1)),
    "no local size": (1, (0, 0, 0), (4, 1, 1), (0, 1, 1)),
    "a dimension too many": (1, (0, 0, 0), (4, 2, 1), (4, 1, 1)),
    "an offset too many": (1, (0, 1, 0), (4, 1, 1), (4, 1, 1)),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_opencl_has_not_is_refused(what: str) -> None:
    with pytest.raises(ValueError, match="dim"):
        NDRange(*WRONG[what])


@pytest.mark.parametrize("stop", [(0, 1, 1), (1, 0, 1)])
def test_boxes_are_never_empty(stop: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="empty box"):
        GroupBox((0, 0, 0), stop)
    with pytest.raises(ValueError, match="empty box"):
        GroupBox((-1, 0, 0), (1, 1, 1))
