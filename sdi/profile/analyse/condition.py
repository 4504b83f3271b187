"""Conditions over figures: ``unexplained_percent > 5 or kernel.step.imbalance_percent > 10``.

A comparison is a name, one of < <= > >= == !=, and a name or a number; ``and`` binds closer than ``or``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_TOKEN = re.compile(r"\s*(<=|>=|==|!=|<|>|[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|[A-Za-z_][\w.]*|\S)")


class ConditionError(ValueError):
    """The text is no condition, or names what there is not; one line."""


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """``right`` is a number, or the name of one."""

    left: str
    operator: str
    right: str | float

    def holds(self, figures: Mapping[str, float]) -> bool:
        """Whether it is true.  Raises ConditionError."""
        return _OPERATORS[self.operator](_value(self.left, figures), _value(self.right, figures))

    def __str__(self) -> str:
        right = f"{self.right:g}" if isinstance(self.right, float) else self.right
        return f"{self.left} {self.operator} {right}"


@dataclass(frozen=True, slots=True)
class Condition:
    """True where all comparisons of one of ``choices`` are."""

    choices: tuple[tuple[FigureComparison, ...], ...]

    def holds(self, figures: Mapping[str, float]) -> tuple[FigureComparison, ...]:
        """The comparisons that make it true; empty when it is not.  Raises ConditionError."""
        for comparison in (one for choice in self.choices for one in choice):
            _value(comparison.left, figures)
            _value(comparison.right, figures)
        for choice in self.choices:
            if all(one.holds(figures) for one in choice):
                return choice
        return ()


def _value(operand: str | float, figures: Mapping[str, float]) -> float:
    if isinstance(operand, float):
        return operand
    if operand not in figures:
        near = get_close_matches(operand, figures, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConditionError(f"there is no figure {operand!r}{hint}")
    return figures[operand]


def parse_condition(text: str) -> Condition:
    """The condition that ``text`` means.  Raises ConditionError."""
    tokens = _TOKEN.findall(text)
    choices: list[list[FigureComparison]] = [[]]
    at = 0
    while True:
        if len(tokens) < at + 3:
            raise ConditionError(f"{text!r}: a comparison (name, sign, number) is missing at the end")
        left, sign, right = tokens[at : at + 3]
        if not _is_name(left):
            raise ConditionError(f"{text!r}: expected the name of a figure, not {left!r}")
        if sign not in _OPERATORS:
            raise ConditionError(
                f"{text!r}: expected one of {' '.join(_OPERATORS)} after {left}, not {sign!r}"
            )
        if not _is_name(right) and not right[0].isdigit():
            raise ConditionError(f"{text!r}: expected a number or a name after {sign}, not {right!r}")
        choices[-1].append(FigureComparison(left, sign, right if _is_name(right) else float(right)))
        at += 3
        if at == len(tokens):
            return Condition(tuple(map(tuple, choices)))
        if tokens[at] not in ("and", "or"):
            raise ConditionError(f"{text!r}: expected 'and' or 'or', not {tokens[at]!r}")
        if tokens[at] == "or":
            choices.append([])
        at += 1


def _is_name(token: str) -> bool:
    return token[0].isalpha() or token[0] == "_"
