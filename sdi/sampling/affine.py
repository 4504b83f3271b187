"""Affine expressions: a constant and integer coefficients of numbered variables."""

from __future__ import annotations

AffineExpr = tuple[int, dict[int, int]]
Range = tuple[int, int]

INFINITY = 1 << 400  # where unbounded ranges end
FINITE = 1 << 300  # sums of what is smaller can't reach INFINITY


def interval(found: AffineExpr, ranges: list[Range]) -> Range:
    """Smallest and largest value over a box of variables (papers/1, theorem 1, term by term)."""
    lo = hi = found[0]
    for variable, coefficient in found[1].items():
        a, b = ranges[variable]
        if coefficient > 0:
            lo += coefficient * a
            hi += coefficient * b
        else:
            lo += coefficient * b
            hi += coefficient * a
    return lo, hi


def plus(a: AffineExpr, b: AffineExpr, factor: int = 1) -> AffineExpr:
    """``a + factor * b``."""
    parts = dict(a[1])
    for variable, coefficient in b[1].items():
        total = parts.get(variable, 0) + factor * coefficient
        if total:
            parts[variable] = total
        else:
            parts.pop(variable, None)
    return (a[0] + factor * b[0], parts)


def minus(a: AffineExpr, b: AffineExpr) -> AffineExpr:
    """``a - b``."""
    return plus(a, b, -1)


def scaled(a: AffineExpr, factor: int) -> AffineExpr:
    """``a * factor``."""
    return (a[0] * factor, {v: c * factor for v, c in a[1].items()} if factor else {})


def shifted(a: AffineExpr, by: int) -> AffineExpr:
    """``a + by``."""
    return (a[0] + by, a[1])


def is_finite(*bounds: int) -> bool:
    """Whether no bound comes from INFINITY."""
    return all(-FINITE < bound < FINITE for bound in bounds)
