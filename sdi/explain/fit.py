"""Closed formulas of integer sizes, found from values: polynomials in sizes and in 1/N, checked elsewhere.

What the analysis answers for a cut into equal parts is such a polynomial wherever no size is divided with a
remainder.  Degrees are found by varying one size at a time, coefficients, exact fractions, from as many
values as there are; and a formula is only believed that holds for sizes that it was not made from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import TypeAlias

from sdi.dataclass import dataclass

Point: TypeAlias = tuple[Fraction, ...]
Exponents: TypeAlias = tuple[int, ...]
Value: TypeAlias = Callable[[Point], int | Fraction]
_WHOLE = Fraction(6, 100)
"""Estimates so near to a whole number, in parts of it, are that number."""


@dataclass(frozen=True, slots=True)
class Polynomial:
    """``terms``: coefficients, none 0, by the exponents of the variables."""

    terms: Mapping[Exponents, Fraction]

    def __call__(self, at: Point) -> Fraction:
        """Its value."""
        powers = ((c, zip(at, exponents, strict=True)) for exponents, c in self.terms.items())
        return sum(
            (c * math.prod([x**e for x, e in pairs], start=Fraction(1)) for c, pairs in powers), Fraction(0)
        )


def fitted(value: Value, axes: Sequence[Sequence[Fraction]], checks: Sequence[Point]) -> Polynomial | None:
    """The polynomial that ``value`` is; None where it is none of a degree below the length of ``axes``.

    ``axes``: distinct values of each variable; at all combinations of them ``value`` may be asked.  It is
    believed only if it holds at ``checks`` too.
    """
    middle = [axis[len(axis) // 2] for axis in axes]
    bases: list[Sequence[Fraction]] = []
    for number, axis in enumerate(axes):
        row = [value((*middle[:number], x, *middle[number + 1 :])) for x in axis]
        degree = _degree(axis, row)
        if degree is None:
            return None
        bases.append(axis[: degree + 1])
    points = list(product(*bases))
    exponents = list(product(*[range(len(base)) for base in bases]))
    rows = [[_product(at, each) for each in exponents] for at in points]
    found = _solved(rows, [Fraction(value(at)) for at in points])
    made = Polynomial({each: c for each, c in zip(exponents, found, strict=True) if c})
    return made if all(made(at) == value(at) for at in checks) else None


def leading(value: Value, axes: Sequence[Sequence[Fraction]], checks: Sequence[Point]) -> Polynomial | None:
    """The one term that ``value`` is about; None where it is not within a tenth at ``checks``."""
    largest = tuple([axis[-1] for axis in axes])
    exponents: list[int] = []
    for number, axis in enumerate(axes):
        ratio = float(value(largest) / value((*largest[:number], axis[0], *largest[number + 1 :])))
        exponents.append(round(math.log(ratio, axis[-1] / axis[0])) if ratio > 0 else 0)
    each = tuple(exponents)
    exact = Fraction(value(largest)) / _product(largest, each)
    is_whole = abs(exact - round(exact)) < _WHOLE * exact
    coefficient = Fraction(round(exact)) if is_whole else Fraction(f"{float(exact):.2g}")
    made = Polynomial({each: coefficient})
    return made if all(abs(made(at) / value(at) - 1) < Fraction(1, 10) for at in checks) else None


def _product(at: Point, exponents: Exponents) -> Fraction:
    return math.prod([x**e for x, e in zip(at, exponents, strict=True)], start=Fraction(1))


def _degree(axis: Sequence[Fraction], values: Sequence[int | Fraction]) -> int | None:
    """Of the polynomial through all values, if at least one value more than it needs is on it."""
    differences = [Fraction(value) for value in values]
    for order in range(len(axis) - 1):
        for at in range(len(axis) - 1, order, -1):  # divided differences
            span = axis[at] - axis[at - order - 1]
            differences[at] = (differences[at] - differences[at - 1]) / span
        if not any(differences[order + 1 :]):
            return order
    return None


def _solved(rows: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """The solution of linear equations that have exactly one."""
    count = len(right)
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for column in range(count):
        pivot = next(at for at in range(column, count) if table[at][column])
        table[column], table[pivot] = table[pivot], table[column]
        scale = table[column][column]
        table[column] = [each / scale for each in table[column]]
        for at in range(count):
            factor = table[at][column]
            if at != column and factor:
                table[at] = [a - factor * b for a, b in zip(table[at], table[column], strict=True)]
    return [row[-1] for row in table]
