"""Range maps against a dense model: one value per byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.intervals import ByteRange, RangeMap, coalesce

N = 24
RANGES = st.tuples(st.integers(0, N - 1), st.integers(1, N)).filter(lambda p: p[0] < p[1])


@given(st.lists(st.tuples(RANGES, st.integers(0, 3), st.booleans())))
def test_a_range_map_equals_one_value_per_byte(steps: list[tuple[tuple[int, int], int, bool]]) -> None:
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


@given(st.lists(RANGES))
def test_coalesced_ranges_hold_the_same_bytes_and_never_touch(pairs: list[tuple[int, int]]) -> None:
    merged = coalesce(ByteRange(*pair) for pair in pairs)
    assert {b for r in merged for b in range(r.start, r.stop)} == {b for a, z in pairs for b in range(a, z)}
    assert all(a.stop < b.start for a, b in zip(merged, merged[1:], strict=False))


def test_empty_and_outside_ranges_are_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        ByteRange(3, 3)
    with pytest.raises(ValueError, match="past the 24 bytes"):
        RangeMap(N, 0).assign(ByteRange(0, N + 1), 1)
