"""Who owns what lies between bytes that several assignments write."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from sdi.intervals import ByteRange
from sdi.launch import ownership
from sdi.launch.ownership import needed_and_owned
from sdi.region import Region
from sdi.region_map import RegionMap
from sdi.regions import RegionSet, are_disjoint
from tests.test_regions import listed

FIELDS, SIDE, PLANES = 5, 6, 12
CELL, ROW = 4 * FIELDS, 4 * FIELDS * SIDE
PLANE = ROW * SIDE


def moved_cells(first: int, stop: int, fields: list[tuple[int, tuple[int, int, int]]]) -> RegionSet:
    """What work-items for the inner cells of planes write, each field into the cell that is so far away."""
    inner, found = SIDE - 2, list[Region]()
    for field, (x, y, z) in fields:
        base = (first + z) * PLANE + (1 + y) * ROW + (1 + x) * CELL + 4 * field
        planes = ((PLANE, stop - first),) if stop - first > 1 else ()
        found.append(Region(base, 4, ((CELL, inner), (ROW, inner), *planes)))
    return RegionSet.of(found)


def bytes_of(found: RegionSet) -> set[int]:
    return {byte for each in found.regions for byte in listed(each)}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that a test can list count as many pieces; walls are more of so small a volume."""
    monkeypatch.setattr(ownership, "_PIECES_MIN", 1)
    monkeypatch.setattr(ownership, "_DENSE", 0.2)


@pytest.mark.usefixtures("few")
def test_slabs_own_all_that_is_theirs_alone_and_share_out_the_planes_where_they_meet() -> None:
    choose = random.Random(4)
    has_divided = 0
    for _ in range(40):
        fields = [
            (field, (choose.randint(-1, 1), choose.randint(-1, 1), choose.randint(-1, 1)))
            for field in range(FIELDS)
        ]
        edges = sorted({1, PLANES - 1, *choose.sample(range(3, PLANES - 2), choose.randint(1, 2))})
        slabs = list(pairwise(edges))
        writes = [moved_cells(*slab, fields) for slab in slabs]
        against = [(field, (-x, -y, -z)) for field, (x, y, z) in fields]
        reads = [moved_cells(*slab, against) for slab in slabs]
        assert are_disjoint(writes)
        found = needed_and_owned(reads, writes)
        owned = [bytes_of(own) for _, own in found]
        assert sum(map(len, owned)) == len(set().union(*owned)), "nobody owns what another does"
        for (needs, _), own, read, written in zip(found, owned, reads, writes, strict=True):
            assert bytes_of(written) <= own
            assert bytes_of(needs) >= bytes_of(read) | (own - bytes_of(written)), "it is current then"
            assert sum(each.total_nbytes for each in needs.regions) == len(bytes_of(needs))
        has_divided += any(len(own.regions) > 1 for _, own in found)
        assert all(len(own.regions) <= 3 * FIELDS for _, own in found), "not one per row or cell"
    assert has_divided > 10


def test_slabs_of_many_cells_own_few_regions() -> None:
    """Of the planes between two slabs one has the fields that move up, and the other those that move down."""
    cell, row, plane = 76, 76 * 64, 76 * 64 * 64
    moves = [(0, 0, 0), (1, 0, 0), (0, 1, 1), (0, -1, -1), (1, 0, 1), (-1, 0, -1)]

    def written(first: int, stop: int) -> RegionSet:
        return RegionSet.of(
            Region(
                (first + z) * plane + (1 + y) * row + (1 + x) * cell + 4 * field,
                4 if field < len(moves) - 1 else 56,
                ((cell, 62), (row, 62), (plane, stop - first)),
            )
            for field, (x, y, z) in enumerate(moves)
        )

    writes = [written(1, 30), written(30, 63)]
    (_, low), (_, high) = needed_and_owned(writes, writes)
    assert len(low.regions) + len(high.regions) < 16
    assert max(each.total_nbytes for each in low.regions) > 27 * plane


@pytest.mark.usefixtures("few")
def test_what_is_thin_is_left_as_it_is() -> None:
    columns = [RegionSet((Region(4 * k, 4, ((400, 50),)),)) for k in (0, 40)]
    assert [own for _, own in needed_and_owned(columns, columns)] == columns


def test_narrow_gaps_are_filled_where_that_leaves_them_apart() -> None:
    rows = RegionSet((Region(0, 60, ((64, 10),)),))
    ((needs, own),) = needed_and_owned([RegionSet()], [rows])
    assert own == RegionSet((ByteRange(0, 636),)) and needs.nbytes >= 36


def test_what_slabs_of_cells_on_no_common_grid_need_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every third field moves alike, and 12 bytes are no part of 80: a map would have each run."""
    monkeypatch.setattr(RegionMap, "assign", None)
    cell, side = 80, 64
    row, plane = cell * side, cell * side * side
    edges = [1 + (side - 2) * k // 8 for k in range(9)]
    moves = [(field, (field * 7 % 3 - 1, field * 5 % 3 - 1, field * 11 % 3 - 1)) for field in range(20)]
    inner = ((cell, side - 2), (row, side - 2))
    writes = [
        RegionSet.of_disjoint(
            Region(
                (first + z) * plane + (1 + y) * row + (1 + x) * cell + 4 * field,
                4,
                (*inner, (plane, stop - first)),
            )
            for field, (x, y, z) in moves
        )
        for first, stop in pairwise(edges)
    ]
    for (needs, own), written in zip(needed_and_owned(writes, writes), writes, strict=True):
        assert needs == own and own.nbytes >= written.nbytes and len(own.regions) < 20
