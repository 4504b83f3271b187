"""Sets of regions against sets of bytes."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.intervals import ByteRange
from sdi.region import Bytes, Region, bytes_of, do_meet
from sdi.region_map import RegionMap
from sdi.regions import RegionSet, are_disjoint, shared

NBYTES = 240
STRIDES = (3, 4, 6, 12, 24, 48, 60, 120)


def listed(over: Region) -> list[int]:
    return [byte for run in over.runs() for byte in range(run.start, run.stop)]


@st.composite
def regions(draw: st.DrawFn, nbytes: int = NBYTES) -> Region:
    """Runs, rows, columns, planes: some with strides that are no multiples of each other."""
    run = draw(st.integers(1, 30))
    span, levels = run, []
    for stride in sorted(draw(st.sets(st.sampled_from(STRIDES), max_size=2))):
        most = (nbytes - span) // stride + 1
        if stride >= span and most >= 2:
            count = draw(st.integers(2, min(most, 12)))
            levels.append((stride, count))
            span += (count - 1) * stride
    return Region(draw(st.integers(0, nbytes - span)), run, tuple(levels))


SETS = st.lists(regions(), max_size=5).map(RegionSet.of)


def members_of(found: RegionSet) -> set[int]:
    every = [byte for each in found.regions for byte in listed(each)]
    assert len(every) == len(set(every)) == found.nbytes
    assert [each.base for each in found.regions] == sorted(each.base for each in found.regions)
    return set(every)


@given(st.lists(regions(), max_size=5))
def test_a_set_has_the_bytes_of_its_regions(given: list[Region]) -> None:
    found = RegionSet.of(given)
    assert members_of(found) == {byte for each in given for byte in listed(each)}
    assert {byte for run in found.runs() for byte in range(run.start, run.stop)} == members_of(found)
    bounds = found.bounds
    assert bounds is None or (bounds.start, bounds.stop) == (
        min(members_of(found)),
        max(members_of(found)) + 1,
    )


@settings(max_examples=200)
@given(regions(120), st.lists(st.integers(0, 120), min_size=1, max_size=12), st.lists(regions(), max_size=2))
def test_regions_that_are_alike_but_for_where_they_begin_are_put_together(
    one: Region, moves: list[int], others: list[Region]
) -> None:
    every = [one.moved(by) for by in moves] + others
    assert members_of(RegionSet.of(every)) == {byte for each in every for byte in listed(each)}


def test_shifted_neighbours_of_a_grid_with_several_numbers_a_cell_are_one_region() -> None:
    levels = ((40, 34), (1440, 34), (51840, 17))
    found = RegionSet.of([Region(8 * number, 8, levels) for number in (4, 0, 2, 7, 3, 1, 6, 5)] * 2)
    assert found.regions == (Region(0, 34 * 40 + 24, ((1440, 34), (51840, 17))),)
    assert RegionSet.of([Region(at, 8, levels) for at in range(0, 120, 8)]).regions == (
        Region(0, 34 * 1440, ((51840, 17),)),
    )


@given(SETS, SETS)
def test_unions_intersections_and_differences_are_those_of_sets(one: RegionSet, other: RegionSet) -> None:
    left, right = members_of(one), members_of(other)
    assert members_of(one.union(other)) == left | right
    assert members_of(one.intersection(other)) == left & right
    assert members_of(one.difference(other)) == left - right
    assert one.overlaps(other) == bool(left & right)
    assert (one == other) == (left == right)


@settings(max_examples=200)
@given(st.lists(SETS, max_size=4))
def test_what_several_sets_share_are_the_bytes_that_more_than_one_has(sets: list[RegionSet]) -> None:
    counts = Counter(byte for each in sets for byte in members_of(each))
    assert members_of(shared(sets)) == {byte for byte, count in counts.items() if count > 1}
    assert are_disjoint(sets) == (not counts or max(counts.values()) == 1)


@settings(max_examples=500)
@given(regions(), regions(), st.integers(0, 100))
def test_regions_meet_where_they_have_a_byte_in_common(one: Region, other: Region, by: int) -> None:
    assert do_meet(one, other.moved(by)) == bool({*listed(one)} & {*listed(other.moved(by))})


def test_large_regions_are_compared_without_their_runs() -> None:
    box = Region(76, 4, ((76, 510), (76 * 512, 510), (76 * 512**2, 128)))
    assert not do_meet(box, box.moved(4)) and do_meet(box, box.moved(2)) and do_meet(box, box.moved(76 * 509))
    assert not do_meet(box, box.moved(76 * 512**2 * 128))
    assert do_meet(Region(0, 1, ((3, 10**6),)), Region(1, 1, ((1000, 10**3), (10**6 + 1, 10**3)))) is None


@given(SETS)
def test_equal_sets_compare_equal_however_they_came_about(found: RegionSet) -> None:
    runs = RegionSet.of(Region(run.start, run.nbytes) for run in found.runs())
    single = RegionSet.of(Region(byte, 1) for byte in members_of(found))
    assert found == runs == single and hash(found) == hash(runs) == hash(single)


@given(SETS, st.integers(0, 12))
def test_gaps_are_filled_and_no_others(found: RegionSet, gap: int) -> None:
    before, after = members_of(found), members_of(found.filled(gap))
    assert before <= after
    edges = sorted(before)
    small = {
        byte for left, right in pairwise(edges) if right - left - 1 <= gap for byte in range(left + 1, right)
    }
    assert after <= before | small


def test_regions_of_a_set_are_as_few_as_they_can_be() -> None:
    rows = [Region(row * 64, 16) for row in range(100)]
    assert RegionSet.of(rows).regions == (Region(0, 16, ((64, 100),)),)
    halves = [Region(0, 8, ((64, 100),)), Region(8, 8, ((64, 100),))]
    assert RegionSet.of(halves).regions == (Region(0, 16, ((64, 100),)),)
    assert RegionSet.of([Region(0, 64), Region(64, 64), Region(128, 1)]).regions == (ByteRange(0, 129),)
    assert RegionSet.of(rows).filled(48).regions == (ByteRange(0, 99 * 64 + 16),)
    pitches = RegionSet((Region(0, 4, ((8, 40_000),)), Region(400_000, 4, ((12, 40_000),))))
    assert pitches.filled(1) is pitches, "as many runs would be left, on no common grid"
    assert pitches.filled(4).regions[0] == ByteRange(0, 319_996)
    checkers = [Region(row * 64 + row % 2 * 4, 4, ((8, 8),)) for row in range(100)]
    assert len(RegionSet.of(checkers).regions) <= 2


def test_units_of_rows_whose_next_level_begins_within_them_are_all_between() -> None:
    given = RegionSet.of([Region(4, 8, ((16, 2), (24, 10)))])
    found = given.widened(8, 4096)
    assert not given.difference(found) and found.runs() == [ByteRange(0, 248)]


def halves(over: Bytes, rng: random.Random) -> list[Bytes]:
    """Two parts of a region, cut within its runs or along a level."""
    number = rng.randrange(len(over.levels) + 1)
    if not number:
        at = rng.randrange(1, over.nbytes)
        ends = ((over.base, at), (over.base + at, over.nbytes - at))
        return [bytes_of(base, nbytes, over.levels) for base, nbytes in ends]
    stride, count = over.levels[number - 1]
    at = rng.randrange(1, count)
    found = []
    for first, stop in ((0, at), (at, count)):
        own = ((stride, stop - first),) if stop - first > 1 else ()
        levels = (*over.levels[: number - 1], *own, *over.levels[number:])
        found.append(bytes_of(over.base + first * stride, over.nbytes, levels))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_parts_of_a_region_are_one_again_wherever_they_begin(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(250):
        nbytes, row, count = rng.choice([2, 4, 16]), rng.choice([16, 20, 48]), rng.randrange(3, 8)
        levels = [(row, count)]
        if rng.random() < 0.5:
            levels.append((row * (count + rng.randrange(3)), rng.randrange(3, 8)))
        whole = bytes_of(rng.randrange(100), nbytes, tuple(levels))
        if not whole.levels:
            continue
        parts = halves(whole, rng)
        rng.shuffle(parts)
        assert RegionSet.of(parts).regions == (whole,)


def test_disjoint_regions_that_come_to_ranges_are_joined_to_those_beside_them() -> None:
    """Rows that are side by side leave nothing between them, and so touch what comes before and after."""
    rows = [Region(176, 3, ((8, 2),)), Region(179, 4, ((8, 2),)), Region(183, 1, ((8, 2),))]
    found = RegionSet.of_disjoint([ByteRange(80, 176), *rows, ByteRange(192, 199)])
    assert found.regions == (ByteRange(80, 199),)


def test_fields_of_cells_that_are_no_part_of_a_row_come_together_without_a_map(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows of 128 cells of 80 bytes, and 4 more: each run would be an entry, which took minutes."""
    monkeypatch.setattr(RegionMap, "assign", None)
    row = 80 * 128 + 4
    fields = [Region(12 * field, 4, ((80, 126), (row, 126), (row * 128 + 4, 126))) for field in range(6)]
    found = RegionSet.of(fields)
    assert found.nbytes == sum(each.total_nbytes for each in fields) and len(found.regions) <= 6
