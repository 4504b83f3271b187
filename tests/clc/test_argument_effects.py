"""Units in which what is stored through an argument is compared."""

from __future__ import annotations

import pytest

from sdi.clc.argument_effects import UNKNOWN_NBYTES, ArgumentEffects


@pytest.mark.parametrize(
    ("stored", "largest", "smallest"),
    [({4}, 4, 4), ({8, 2}, 8, 2), ({8, UNKNOWN_NBYTES}, 1, 1), (set(), 1, 1)],
)
def test_units_are_the_sizes_of_stored_scalars(stored: set[int], largest: int, smallest: int) -> None:
    effects = ArgumentEffects(writes=True, store_nbytes=stored)
    assert (effects.unit_nbytes, effects.smallest_unit_nbytes) == (largest, smallest)


def test_what_is_not_written_has_no_unit() -> None:
    effects = ArgumentEffects(reads=True, store_nbytes={4})
    assert (effects.unit_nbytes, effects.smallest_unit_nbytes) == (0, 0)
