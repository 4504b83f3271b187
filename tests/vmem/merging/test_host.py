"""Merging of members' writes against a model with one Python value per unit."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.atomics import Operation, Update
from sdi.vmem.merging import host as merge
from sdi.vmem.merging.host import MergeResult, merge_diffs, merge_updates


@given(
    st.integers(1, 70),
    st.sampled_from([1, 2, 4, 8]),
    st.lists(
        st.lists(st.tuples(st.integers(0, 69), st.integers(0, 255)), max_size=8), min_size=1, max_size=4
    ),
    st.sampled_from([8, 16, 1 << 20]),
)
def test_each_changed_unit_comes_from_the_last_member_that_changed_it(
    nbytes: int, unit: int, writes: list[list[tuple[int, int]]], chunk: int
) -> None:
    before = np.arange(nbytes, dtype=np.uint8)
    copies = [before.copy() for _ in writes]
    for copy, stores in zip(copies, writes, strict=True):
        for at, value in stores:
            copy[at % nbytes] = value
    expected, changed, conflicts = before.copy(), 0, 0
    whole = nbytes - nbytes % unit
    spans = [(at, at + unit) for at in range(0, whole, unit)] + [(at, at + 1) for at in range(whole, nbytes)]
    for start, stop in spans:
        writers = [copy for copy in copies if bytes(copy[start:stop]) != bytes(before[start:stop])]
        changed += bool(writers)
        conflicts += max(0, len(writers) - 1)
        if writers:
            expected[start:stop] = writers[-1][start:stop]
    target = before.copy()
    chunk_before = merge._CHUNK_NBYTES
    merge._CHUNK_NBYTES = chunk
    try:
        assert merge_diffs(target, copies, unit) == MergeResult(changed, conflicts)
    finally:
        merge._CHUNK_NBYTES = chunk_before
    assert bytes(target) == bytes(expected)


def test_racing_stores_never_mix_into_a_third_value() -> None:
    target = np.zeros(4, np.uint8)
    first, second = np.array([0x100], np.uint32).view(np.uint8), np.array([1], np.uint32).view(np.uint8)
    assert merge_diffs(target, [first, second], 4).conflicts == 1
    assert target.view(np.uint32)[0] == 1


@pytest.mark.parametrize(
    ("copies", "expected", "conflicts"),
    [
        ([[1, 1, 0, 0], [0, 1, 0, 0]], [1, 1, 0, 0], 1),
        ([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], [1, 1, 1, 1], 2),
        ([[1, 1, 0, 0], [0, 2, 0, 0], [0, 2, 0, 3]], [0, 2, 0, 3], 2),
        ([[1, 1, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0]], [1, 2, 0, 0], 1),
    ],
)
def test_small_stores_are_kept_beside_those_that_several_members_made_alike(
    copies: list[list[int]], expected: list[int], conflicts: int
) -> None:
    target = np.zeros(4, np.uint8)
    found = merge_diffs(target, [np.array(each, np.uint8) for each in copies], 4, 1)
    assert target.tolist() == expected
    assert found == MergeResult(1, conflicts)


def test_neighbouring_small_stores_in_one_large_unit_are_all_kept() -> None:
    target = np.zeros(32, np.uint8)
    first, second = target.copy(), target.copy()
    first.view(np.uint32)[[0, 4]] = 7, 8
    second.view(np.uint32)[[1, 4]] = 9, 10
    assert merge_diffs(target, [first, second], 8, 4) == MergeResult(2, 1)
    assert list(target.view(np.uint32)) == [7, 9, 0, 0, 10, 0, 0, 0]


@pytest.mark.parametrize("members", [255, 256, 257, 300])
def test_a_unit_that_very_many_members_changed_is_shared_and_counted(members: int) -> None:
    before = np.zeros(8, np.uint8)
    copies = [before.copy() for _ in range(members)]
    for number, copy in enumerate(copies):
        copy[0] = 1 + number % 255
    copies[-1][:2] = 0, 7  # the last one stores to another byte of the same unit
    target = before.copy()
    assert merge_diffs(target, copies, 4, 1) == MergeResult(1, members - 2)
    assert list(target) == [1 + (members - 2) % 255, 7, 0, 0, 0, 0, 0, 0]


def test_copies_of_another_size_are_a_bug() -> None:
    with pytest.raises(ValueError, match="bytes"):
        merge_diffs(np.zeros(4, np.uint8), [np.zeros(5, np.uint8)], 1)


def _signs(operation: Operation) -> tuple[bool, ...]:
    return (False, True) if operation in ("min", "max") else (False,)


OPERATIONS: dict[Operation, Callable[[int, int], int]] = {
    "add": operator.add,
    "xor": operator.xor,
    "and": operator.and_,
    "or": operator.or_,
    "min": min,
    "max": max,
}


@given(
    st.sampled_from([Update(o, n, s) for o in OPERATIONS for n in (4, 8) for s in _signs(o)]),
    st.integers(1, 9),
    st.lists(st.lists(st.tuples(st.integers(0, 8), st.integers(0, (1 << 64) - 1)), max_size=6), max_size=4),
    st.integers(0, 10_000),
    st.sampled_from([16, 1 << 20]),
)
def test_updates_on_copies_leave_what_updates_on_one_would(
    update: Update, count: int, members: list[list[tuple[int, int]]], seed: int, chunk: int
) -> None:
    kind = np.dtype(f"{'i' if update.signed else 'u'}{update.nbytes}")
    twin = np.random.default_rng(seed).integers(0, 256, count * update.nbytes, np.uint8)
    truth = [int(value) for value in twin.view(kind)]
    copies = []
    for updates in members:
        copy = [int(value) for value in twin.view(kind)]
        for at, operand in updates:
            value = int(np.uint64(operand).astype(kind))
            for values in (copy, truth):
                made = OPERATIONS[update.operation](values[at % count], value)
                values[at % count] = int(np.array(made & ((1 << 64) - 1), np.uint64).astype(kind))
        copies.append(np.array(copy, kind).view(np.uint8))
    target = twin.copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "_CHUNK_NBYTES", chunk)
        found = merge_updates(target, copies, update)
    assert target.view(kind).tolist() == truth
    changed = int(np.count_nonzero(target.view(kind) != twin.view(kind)))
    assert found == MergeResult(changed, 0)
