"""Conditions over figures, and what is no condition."""

import pytest

from sdi.profile.analyse.condition import ConditionError, parse_condition
from sdi.profile.analyse.figures import compared, comparison_text

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
    assert bool(parse_condition(text).holds(FIGURES)) == is_true


def test_what_made_a_condition_true_is_told() -> None:
    true = parse_condition("wall_ms < 1 or split > 2 and wall_ms > 1").holds(FIGURES)
    assert [str(one) for one in true] == ["split > 2", "wall_ms > 1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is missing at the end"),
        ("wall_ms", "is missing at the end"),
        ("wall_ms > 1 or", "is missing at the end"),
        ("1 > wall_ms", "expected the name of a figure, not '1'"),
        ("wall_ms = 1", "expected one of <= >= == != < > after wall_ms, not '='"),
        ("wall_ms > -1", "expected a number or a name after >, not '-'"),
        ("wall_ms > 1 xor split > 2", "expected 'and' or 'or', not 'xor'"),
        ("__import__('os') > 1", "expected one of <= >="),
    ],
)
def test_what_is_no_condition_is_one_line(text: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse_condition(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_figure_that_does_not_exist_is_an_error_also_where_it_would_not_matter() -> None:
    with pytest.raises(ConditionError, match="no figure 'wall_m'; did you mean wall_ms"):
        parse_condition("split > 2 or wall_m > 1").holds(FIGURES)


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
