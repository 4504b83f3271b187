"""Maps of regions against a dense model: one value per byte."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.grid import Grid
from sdi.region import Region
from sdi.region_map import ENTRIES_MAX, RegionMap
from tests.test_regions import NBYTES, listed, regions


@settings(max_examples=300)
@given(
    st.integers(NBYTES - 7, NBYTES),
    st.lists(st.tuples(regions(NBYTES - 7), st.integers(0, 2)), max_size=8),
    st.data(),
)
def test_a_map_has_what_one_value_per_byte_has(
    nbytes: int, changes: list[tuple[Region, int]], data: st.DataObject
) -> None:
    found, model = RegionMap(nbytes, 0), [0] * nbytes
    whole = Region(0, nbytes)
    for over, value in changes:
        if data.draw(st.booleans()):
            found.assign(over, value)
            for byte in listed(over):
                model[byte] = value
        else:
            found.update(over, lambda old, value=value: (old + value) % 3)  # type: ignore[misc]
            for byte in listed(over):
                model[byte] = (model[byte] + value) % 3
        found.check()
        asked = data.draw(regions(nbytes))
        items = found.copy().items(asked)
        bytes_of = [byte for part, _ in items for byte in listed(part)]
        assert sorted(bytes_of) == listed(asked)
        assert all(model[byte] == value for part, value in items for byte in listed(part))
        assert set(found.values(asked)) == {model[byte] for byte in listed(asked)}
    again = [0] * nbytes
    for part, value in found.items(whole):
        for byte in listed(part):
            again[byte] = value
    assert again == model
    assert found.whole() == (model[0] if len(set(model)) == 1 else None)


@given(st.lists(st.tuples(regions(), st.integers(0, 1)), max_size=5), st.permutations(range(5)))
def test_maps_of_equal_values_on_a_grid_have_equal_keys(
    changes: list[tuple[Region, int]], order: list[int]
) -> None:
    """However they came about: what is assigned last, in another order."""
    grid, last = Grid((12, 60)), {}
    first = RegionMap(NBYTES, 0, grid)
    for over, value in changes:
        for run in over.runs():
            part = Region(run.start, run.nbytes)
            first.assign(part, value)
            last.update(dict.fromkeys(listed(part), value))
    second = RegionMap(NBYTES, 0, grid)
    for byte in sorted(last, key=lambda byte: (order[byte % 5], byte)):
        second.assign(Region(byte, 1), last[byte])
    assert first.key() == second.key() and first.grid == second.grid


def slabs(kind: str, members: int, side: int = 1024, record: int = 16) -> list[Region]:
    """What each of the members has of a square matrix of records."""
    pitch = side * record
    share = side // members
    return [
        {
            "rows": Region(m * share * pitch, share * pitch),
            "columns": Region(m * share * record, share * record, ((pitch, side),)),
            "fields": Region(m * record // members, record // members, ((record, side * side),)),
            "planes": Region(m * pitch, pitch, ((members * pitch, side // members),)),
        }[kind]
        for m in range(members)
    ]


def test_ways_to_share_a_matrix_in_turn_leave_few_entries() -> None:
    members = 8
    found = RegionMap(1024 * 1024 * 16, 0)
    for number in range(60):
        kind = ("rows", "columns", "fields", "planes")[number % 4]
        for member, over in enumerate(slabs(kind, members)):
            found.assign(over, member)
            assert len(found) < 8 * members**2
        assert [found.values(over) for over in slabs(kind, members)] == [[m] for m in range(members)]


def test_a_question_teaches_the_map_nothing() -> None:
    found, field = RegionMap(1 << 20, 0), Region(4, 4, ((76, 10_000),))
    found.assign(Region(0, 1 << 19), 1)
    before, entries = found.key(), len(found)
    assert sorted(found.sizes(field)) == [(0, 12_404), (1, 27_596)], found.sizes(field)
    assert {value for _, value in found.items(field)} == {0, 1} and not found.grid.strides
    assert (found.key(), len(found)) == (before, entries)
    found.assign(Region(1 << 18, 1 << 18), 2)
    assert set(found.values(field)) == {0, 1, 2}, "what was learnt for the question is not what it was"
    found.assign(field, 3)
    assert found.grid.strides and found.values(field) == [3]


def test_a_question_on_no_common_grid_is_answered_from_then_on_without_a_grid() -> None:
    """Else each question would take the map apart run by run."""
    found, other = RegionMap(1 << 16, 0), Region(0, 4, ((100, 200),))
    found.assign(Region(0, 4, ((64, 500),)), 1)
    assert found.grid.strides and set(found.values(other)) == {0, 1}
    assert not found.grid.strides and set(found.values(other)) == {0, 1}


def test_unlike_questions_by_turns_are_answered_rightly() -> None:
    found = RegionMap(1 << 16, 0)
    found.assign(Region(0, 1 << 14), 1)
    for stride in (64, 100, 64, 100, 48):
        assert set(found.values(Region(0, 4, ((stride, 500),)))) >= {0, 1}
        found.assign(Region(1 << 15, 64), stride)
    assert not found.grid.strides


def test_what_is_empty_gets_its_neighbours_value() -> None:
    cell, row = 8, 8 * 16
    found = RegionMap(16 * row, -1)
    for field, value in ((0, 3), (4, 5)):  # of the inner cells
        found.assign(Region(row + cell + field, 4, ((cell, 14), (row, 14))), value)
    given = {byte: value for part, value in found.items(Region(0, 16 * row)) for byte in listed(part)}
    found.fill(-1)
    found.check()
    assert len(found) == 2
    after = {byte: value for part, value in found.items(Region(0, 16 * row)) for byte in listed(part)}
    assert all(after[byte] == value for byte, value in given.items() if value != -1)
    assert {after[byte] for byte in range(0, 16 * row, 8)} == {3}
    assert {after[byte] for byte in range(4, 16 * row, 8)} == {5}


def test_a_triangle_has_an_entry_per_row() -> None:
    side = 100
    found = RegionMap(side * side, 0)
    found.assign(Region(0, 1, ((side, side),)), 1)
    for row in range(side):
        found.assign(Region(row * side, row + 1), 2)
    assert len(found) <= ENTRIES_MAX or not found.grid.strides
    assert [len(listed(part)) for part, value in found.items(Region(0, side * side)) if value == 2] != []
    assert sum(len(listed(part)) for part, value in found.items(Region(0, side * side)) if value == 2) == 5050


def test_ranges_anywhere_are_asked_for_strided_bytes_at_once() -> None:
    """A few ranges have edges on each digit of a grid of three strides: half a million entries."""
    nbytes = 128 * 64 * 64 * 20
    found = RegionMap(nbytes, 0)
    for number in range(14):
        start = number * 1_000_003 % (nbytes - 4000)
        found.assign(Region(start, 1 + number * 271), number % 7 + 1)
    asked = Region(64, 4, ((128, 64), (128 * 64, 64), (128 * 64 * 64, 16)))
    for number in range(20):
        parts = found.items(asked)
        assert len(parts) < 500 and sum(part.total_nbytes for part, _ in parts) == asked.total_nbytes
        assert sum(nbytes for _, nbytes in found.sizes(asked)) == asked.total_nbytes
        found.assign(Region(number * 500_009, 77), number)
    assert len(found) < 100
    found.assign(asked, 9)
    assert set(found.values(asked)) == {9} and not found.grid.strides


def test_a_map_that_was_asked_and_then_filled_says_what_it_has_now() -> None:
    found = RegionMap(4000, -1)
    found.assign(Region(0, 4, ((40, 100),)), 3)
    assert -1 in found.values(Region(8, 4, ((20, 150),)))
    found.fill(-1)
    assert set(found.values(Region(8, 4, ((20, 150),)))) == {3}
