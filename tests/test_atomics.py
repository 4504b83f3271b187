"""Atomic updates whose order nobody can see."""

from __future__ import annotations

import pytest

from sdi.atomics import Update


@pytest.mark.parametrize("wrong", [("add", 2, False), ("add", 4, True), ("xor", 8, True), ("min", 1, True)])
def test_only_updates_that_there_are_can_be_named(wrong: tuple[str, int, bool]) -> None:
    with pytest.raises(ValueError, match="no such update"):
        Update(*wrong)  # type: ignore[arg-type]


def test_they_are_told_apart_by_all_that_they_are() -> None:
    kinds = [Update("min", 4), Update("min", 4, True), Update("min", 8), Update("max", 4)]
    assert len({*kinds, Update("min", 4)}) == len(kinds) and sorted(kinds)[0] == Update("max", 4)
