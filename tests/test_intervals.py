"""Range maps against a dense model: one value per byte."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi import intervals
from sdi.intervals import ByteRange, RangeMap, coalesce
from sdi.regions import RegionSet

N = 24
RANGES = st.tuples(st.integers(0, N - 1), st.integers(1, N)).filter(lambda p: p[0] < p[1])


@given(st.lists(st.tuples(RANGES, st.integers(0, 3), st.booleans())), st.sampled_from([1, 2, 3, 512]))
def test_a_range_map_equals_one_value_per_byte(
    steps: list[tuple[tuple[int, int], int, bool]], chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "_CHUNK", chunk)
        _compare_with_one_value_per_byte(steps)


def _compare_with_one_value_per_byte(steps: list[tuple[tuple[int, int], int, bool]]) -> None:
    sparse, dense = RangeMap(N, 0), [0] * N
    for (start, stop), value, assign in steps:
        if assign:
            sparse.assign(ByteRange(start, stop), value)
            dense[start:stop] = [value] * (stop - start)
        else:
            sparse.update(ByteRange(start, stop), lambda old, value=value: old | value)
            dense[start:stop] = [old | value for old in dense[start:stop]]
        sparse.check()
        found = [value for part, value in sparse.items(ByteRange(0, N)) for _ in range(part.nbytes)]
        assert found == dense
        assert sparse.whole() == (dense[0] if len(set(dense)) == 1 else None)
        assert len(sparse) == len(sparse.key()[0]) == len(list(itertools.groupby(dense)))
        for part in (ByteRange(start, stop), ByteRange(0, stop), ByteRange(start, N)):
            values = [value for _, value in sparse.items(part)]
            assert (
                values
                == sparse.values(part)
                == [v for v, _ in itertools.groupby(dense[part.start : part.stop])]
            )
        before, copied = sparse.key(), sparse.copy()
        copied.assign(ByteRange(start, stop), 9)
        copied.check()
        assert sparse.key() == before


@given(st.lists(RANGES))
def test_coalesced_ranges_hold_the_same_bytes_and_never_touch(pairs: list[tuple[int, int]]) -> None:
    merged = coalesce(ByteRange(*pair) for pair in pairs)
    assert {b for r in merged for b in range(r.start, r.stop)} == {b for a, z in pairs for b in range(a, z)}
    assert all(a.stop < b.start for a, b in itertools.pairwise(merged))


def _bytes_of(a_set: RegionSet) -> set[int]:
    return {b for part in a_set.runs() for b in range(part.start, part.stop)}


@given(st.lists(RANGES), st.lists(RANGES))
def test_range_sets_are_sets_of_bytes(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    a, b = (RegionSet.of(ByteRange(*pair) for pair in pairs) for pairs in (first, second))
    mine, theirs = _bytes_of(a), _bytes_of(b)
    assert _bytes_of(a.union(b)) == mine | theirs
    assert _bytes_of(a.intersection(b)) == mine & theirs
    assert _bytes_of(a.difference(b)) == mine - theirs
    assert a.overlaps(b) == bool(mine & theirs)
    assert (a.nbytes, bool(a)) == (len(mine), bool(mine))
    assert (a == b) == (mine == theirs)


def test_empty_and_outside_ranges_are_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        ByteRange(3, 3)
    with pytest.raises(ValueError, match="past the 24 bytes"):
        RangeMap(N, 0).assign(ByteRange(0, N + 1), 1)
