"""Loops, conditions and limits around stores at places that are handed out."""

from __future__ import annotations

import pytest

from sdi.appends import Limit, Scalar
from tests.clc.test_group_appends import COUNTED, changed, kernel

M = ((1, (Scalar(3, False),)),)


@pytest.mark.parametrize(
    ("condition", "limits"),
    [
        ("keep", ()),
        ("keep && base + slot < m", (Limit(0, M),)),
        ("keep && m > slot + base", (Limit(0, M),)),
        ("base + slot <= m && keep", (Limit(-1, M),)),
        ("keep && base + slot + 2 < m", (Limit(2, M),)),
        ("keep && base + count <= m", (Limit(0, M),)),
        ("keep && base < m", (Limit(1, M),)),
        ("keep && count > 0", ()),
    ],
)
def test_conditions_that_hold_for_all_that_was_counted_below_a_limit(
    condition: str, limits: tuple[Limit, ...]
) -> None:
    (append,) = kernel(changed(COUNTED, ("if (keep) out", f"if ({condition}) out"))).appends
    assert append.limits == limits and len(append.stores) == 1


@pytest.mark.parametrize(
    "condition",
    ["keep && base + slot > m", "keep || base + slot < m", "base + slot < m", "keep && base + lid < m", "m"],
)
def test_other_conditions_are_refused(condition: str) -> None:
    assert not kernel(changed(COUNTED, ("if (keep) out", f"if ({condition}) out"))).appends
