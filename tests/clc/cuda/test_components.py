"""Names of components."""

from __future__ import annotations

import pytest

from sdi.clc.cuda.components import component_indices


@pytest.mark.parametrize(
    ("name", "count", "indices"),
    [
        ("x", 2, (0,)),
        ("wzyx", 4, (3, 2, 1, 0)),
        ("s0aF", 16, (0, 10, 15)),
        ("S1", 2, (1,)),
        ("lo", 8, (0, 1, 2, 3)),
        ("hi", 3, (2, 2)),
        ("odd", 4, (1, 3)),
        ("even", 3, (0, 2)),
        ("rgba", 4, (0, 1, 2, 3)),
        ("z", 2, None),
        ("s4", 4, None),
        ("sg", 16, None),
        ("length", 4, None),
    ],
)
def test_component_names(name: str, count: int, indices: tuple[int, ...] | None) -> None:
    assert component_indices(name, count) == indices
