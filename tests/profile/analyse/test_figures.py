"""Conditions over the figures of profiles, and two profiles side by side."""

import pytest

from sdi.condition import ConditionError, parse_condition
from sdi.profile.analyse.figures import compared, comparison_text, fulfilled

FIGURES = {"wall_ms": 12.5, "split": 3.0, "whole": 3.0, "kernel.a_b.ms": 7.0}


@pytest.mark.parametrize(
    ("text", "is_true"),
    [
        ("wall_ms > 12.5", False),
        ("wall_ms>=12.5", True),
        ("split == whole", True),
        ("split != whole", False),
        ("kernel.a_b.ms < 1e1", True),
        ("wall_ms < 1 or split > 2", True),
        ("wall_ms < 1 and split > 2", False),
        ("wall_ms < 1 and split > 2 or whole <= 3 and split >= 3", True),
    ],
)
def test_conditions_are_true_or_not(text: str, is_true: bool) -> None:
    assert bool(fulfilled(parse_condition(text), FIGURES)) == is_true


def test_what_made_a_condition_true_is_told() -> None:
    true = fulfilled(parse_condition("wall_ms < 1 or split > 2 and wall_ms > 1"), FIGURES)
    assert [str(one) for one in true] == ["split > 2", "wall_ms > 1"]


def test_a_figure_that_does_not_exist_is_an_error_also_where_it_would_not_matter() -> None:
    with pytest.raises(ConditionError, match="no figure 'wall_m'; did you mean wall_ms"):
        fulfilled(parse_condition("split > 2 or wall_m > 1"), FIGURES)


def test_two_profiles_are_compared_figure_by_figure() -> None:
    first, second = {"wall_ms": 10.0, "split": 0.0, "gone": 1.0}, {"wall_ms": 12.5, "split": 4.0}
    found = compared(first, second)
    assert found["ratio.wall_ms"] == 1.25 and "ratio.split" not in found and found["b.split"] == 4.0
    assert [line.split() for line in comparison_text(first, second).splitlines()] == [
        ["figure", "A", "B", "B", "/", "A"],
        ["wall_ms", "10", "12.500", "1.250"],
        ["split", "0", "4", "-"],
        ["gone", "1", "-", "-"],
    ]
