"""The hidden argument, which says what part of an NDRange is run."""

from __future__ import annotations

import pytest

from sdi.clc.launch import offsets_of, pack_hidden, shifted_arguments, shifts_of
from sdi.ndrange import GroupBox, NDRange
from tests.clc.test_model import model_of

MODEL = model_of(
    "kernel void k(global int *a, int n, constant int *c, local int *l, global int *b) { *a = n; }"
)
NDRANGE = NDRange(2, (5, 6, 0), (64, 32, 1), (8, 8, 1))


def test_it_tells_the_box_and_one_shift_for_each_pointer_to_memory_of_the_device() -> None:
    hidden = pack_hidden(MODEL, NDRANGE, GroupBox((2, 1, 0), (8, 4, 1)), [0, -16, 1 << 40])
    assert shifted_arguments(MODEL) == 3 and len(hidden) == 104 + 3 * 8
    assert offsets_of(hidden) == ((2, 1, 0), (5, 6, 0)) and shifts_of(hidden) == (0, -16, 1 << 40)


def test_what_does_not_fit_is_a_bug_of_who_asks() -> None:
    with pytest.raises(ValueError, match="2 shifts for 3 pointers"):
        pack_hidden(MODEL, NDRANGE, GroupBox((0, 0, 0), (1, 1, 1)), [0, 0])
    with pytest.raises(ValueError, match="box"):
        pack_hidden(MODEL, NDRANGE, GroupBox((0, 0, 0), (9, 1, 1)), [0, 0, 0])
