"""Sets of a few regions that are put together band by band, against sets of bytes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.bands import FEW, combined
from sdi.intervals import ByteRange
from sdi.region import Bytes, Region, region

SIDE, PLANE = 16, 128


@st.composite
def boxes(draw: st.DrawFn) -> Region:
    """A box of a volume of rows of 16 bytes and planes of 8 rows; it may go past the end of a row."""
    counts = draw(st.integers(1, SIDE)), draw(st.integers(1, 6)), draw(st.integers(1, 4))
    return region(draw(st.integers(0, 4 * PLANE)), counts, (SIDE, PLANE))


def bytes_in(regions: list[Bytes] | list[Region]) -> list[int]:
    return [byte for each in regions for run in each.runs() for byte in range(run.start, run.stop)]


@settings(max_examples=400)
@given(st.lists(boxes(), min_size=1, max_size=5), st.lists(boxes(), max_size=4), st.booleans())
def test_unions_intersections_and_differences(mine: list[Region], theirs: list[Region], is_in: bool) -> None:
    found = combined(mine, theirs, is_in)
    if found is None:
        return
    listed, own, others = bytes_in(found), set(bytes_in(mine)), set(bytes_in(theirs))
    assert len(listed) == len(set(listed)), "they are disjoint"
    assert set(listed) == (own & others if is_in else own - others)


def test_rows_around_a_box_and_the_box_are_three_bands() -> None:
    rows, columns = Region(SIDE + 4, 8, ((SIDE, 5),)), Region(2 * SIDE + 3, 10, ((SIDE, 3),))
    assert combined([rows, columns], [], False) == [
        ByteRange(SIDE + 4, SIDE + 12),
        columns,
        ByteRange(5 * SIDE + 4, 5 * SIDE + 12),
    ]


def test_disjoint_boxes_of_which_bands_would_make_more_stay_as_they_are() -> None:
    even, odd = Region(0, 4, ((8, 2), (32, 3))), Region(20, 4, ((8, 2), (32, 2)))
    assert combined([even, odd], [], False) == [even, odd]


def test_many_regions_and_those_on_no_common_grid_are_left_to_maps() -> None:
    column = Region(0, 1, ((SIDE, 4),))
    assert combined([column] * (FEW + 1), [], False) is None
    assert combined([column, Region(0, 1, ((SIDE + 1, 4),))], [], False) is None
    assert combined([Region(0, 4), Region(8, 4)], [], False) is None, "of ranges alone there is no grid"
