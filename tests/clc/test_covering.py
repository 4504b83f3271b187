"""Stores that fill all places which are handed out, and those that do not."""

from __future__ import annotations

import pytest

from sdi.clc.covering import Filled, Refused, Store, Trip, filled
from sdi.clc.linear import ONE, Linear, Symbol

PLACE, COUNT, LOOP = Symbol("place", 1), Symbol("variable", 2), Symbol("variable", 3)
P, K, N = (PLACE,), (COUNT,), (LOOP,)
BOTH = frozenset({"x", "y"})


def store(index: Linear, width: int = 1, trip: Trip | None = None, parts: str = "") -> Store:
    return Store(0, 4, index, width, trip, frozenset(parts))


EACH, BY_THREE = Trip(LOOP, 1, {K: 1}), Trip(LOOP, 3, {K: 3})


@pytest.mark.parametrize(
    ("stores", "addend", "found"),
    [
        ([store({P: 1})], {ONE: 1}, Filled(1, {}, 0)),
        ([store({P: 1, ONE: 5, K: 2})], {ONE: 1}, Filled(1, {K: 2}, 5)),
        ([store({P: -1, ONE: 9})], {ONE: 1}, Filled(-1, {}, 9)),
        ([store({P: 2, ONE: 1}), store({P: 2})], {ONE: 1}, Filled(2, {}, 0)),
        ([store({P: 3}, 3)], {ONE: 1}, Filled(3, {}, 0)),
        ([store({P: 1}), store({P: 1, ONE: 1})], {ONE: 2}, Filled(1, {}, 0)),
        ([store({P: 1, N: 1}, trip=EACH)], {K: 1}, Filled(1, {}, 0)),
        ([store({P: 2, N: 2}, 2, trip=EACH)], {K: 1}, Filled(2, {}, 0)),
        ([store({P: 1, N: 3, ONE: k}, trip=EACH) for k in range(3)], {K: 3}, Filled(1, {}, 0)),
        ([store({P: 1, N: 1, ONE: k}, trip=BY_THREE) for k in range(3)], {K: 3}, Filled(1, {}, 0)),
        ([store({P: 1}, parts="x"), store({P: 1}, parts="y")], {ONE: 1}, Filled(1, {}, 0)),
        ([store({P: 1}), store({P: 1}, parts="y")], {ONE: 1}, Filled(1, {}, 0)),
    ],
)
def test_what_all_stores_fill_together(stores: list[Store], addend: Linear, found: Filled) -> None:
    assert filled(stores, PLACE, addend, BOTH) == found


@pytest.mark.parametrize(
    ("stores", "addend"),
    [
        ([store({P: 2})], {ONE: 1}),
        ([store({P: 1})], {ONE: 2}),
        ([store({P: 1}), store({P: 1, ONE: 2})], {ONE: 3}),
        ([store({P: 1}), store({P: 1, ONE: 1})], {ONE: 1}),
        ([store({P: 1}), store({P: 1, K: 1})], {ONE: 1}),
        ([store({P: 1}), store({P: 2})], {ONE: 1}),
        ([store({P: -1}), store({P: -1, ONE: 1})], {ONE: 2}),
        ([store({P: 1})], {K: 1}),
        ([store({P: 1, N: 2}, trip=EACH)], {K: 1}),
        ([store({P: 1, N: 1}, trip=EACH)], {K: 2}),
        ([store({P: 1, N: 1}, trip=EACH), store({P: 1})], {K: 1}),
        ([store({P: 1, N: 1}, trip=Trip(LOOP, 2, {K: 1}))], {K: 1}),
        ([store({P: 1}, parts="x")], {ONE: 1}),
        ([store({P: 1}, parts="x"), store({P: 1, ONE: 1}, parts="y")], {ONE: 2}),
        ([store({P: 1})], {ONE: 1 << 40}),
    ],
)
def test_more_or_less_than_all_places_is_refused(stores: list[Store], addend: Linear) -> None:
    with pytest.raises(Refused):
        filled(stores, PLACE, addend, BOTH)
