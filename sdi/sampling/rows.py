"""Exact bytes of an access row by row: for domains that are no box, such as triangles.

All variables but one are laid out as arrays; along the last, whose multiples touch, each row is one range
whose ends follow from the constraints.  Where no variable's do, those of one may when the sum with it stands
for another: what lies below the diagonal of a matrix, by columns, are rows again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any, TypeAlias, cast

import numpy as np

from sdi.sampling.affine import AffineExpr, Range, interval, plus
from sdi.sampling.tracing import Traced, Untraceable

Array: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

MAX_ROWS = 1 << 17
_SAFE = 1 << 61
"""Numbers below that don't overflow when two are added."""


def spans_by_rows(
    offset: AffineExpr,
    nbytes: int,
    constraints: Sequence[AffineExpr],
    ranges: Sequence[Range],
    most_ranges: int,
) -> list[tuple[int, int]] | None:
    """``nbytes`` at every value of ``offset`` where all constraints are >= 0; sorted, never touching.

    ``ranges``: of the variables, all of them finite.  None where no variable's multiples touch, or there are
    too many rows or ranges.
    """
    offset, *constraints = exprs = [offset, *constraints]
    numbers = [*(end for own in ranges for end in own), *(constant for constant, _ in exprs)]
    numbers += [factor for _, parts in exprs for factor in parts.values()]
    if any(isinstance(number, Traced) for number in cast(list[Any], numbers)):
        raise Untraceable("arrays have no traced numbers")
    ranges = list(ranges)
    touching = [(ranges[v][1] - ranges[v][0], v) for v, factor in offset[1].items() if abs(factor) <= nbytes]
    if not touching:
        skewed = _skewed(exprs, ranges, nbytes)
        if skewed is None:
            return None
        along, (offset, *constraints) = skewed
    else:
        along = max(touching)[1]
    others = sorted({v for expr in (offset, *constraints) for v in expr[1]} - {along})
    total = 1
    for variable in others:
        total *= ranges[variable][1] - ranges[variable][0] + 1
        if total > MAX_ROWS:
            return None
    for expr in (offset, *constraints):
        reach = abs(expr[0]) + sum(abs(c) * max(map(abs, ranges[v])) for v, c in expr[1].items())
        if reach >= _SAFE:
            return None
    axes: dict[int, Array] = {}
    for axis, variable in enumerate(others):
        lo, hi = ranges[variable]
        shape = [1] * len(others)
        shape[axis] = hi - lo + 1
        axes[variable] = np.arange(lo, hi + 1, dtype=np.int64).reshape(shape)

    def rest(expr: AffineExpr) -> Array:
        """An expression without its part along the row."""
        found: Array = np.full((1,) * len(others), expr[0], np.int64)
        for variable, factor in expr[1].items():
            if variable != along:
                found = found + factor * axes[variable]
        return found

    first: Array = np.full((1,) * len(others), ranges[along][0], np.int64)
    last: Array = np.full((1,) * len(others), ranges[along][1], np.int64)
    for expr in constraints:
        if interval(expr, ranges)[0] >= 0:
            continue
        factor = expr[1].get(along, 0)
        if factor > 0:
            first = np.maximum(first, -(rest(expr) // factor))
        elif factor < 0:
            last = np.minimum(last, rest(expr) // -factor)
        else:
            last = np.where(rest(expr) >= 0, last, ranges[along][0] - 1)
    every = np.broadcast_arrays(rest(offset), first, last)
    inside = every[1] <= every[2]
    if not inside.any():
        return []
    base, first, last = (part[inside] for part in every)
    factor = offset[1].get(along, 0)  # of a sum of both alone it is none
    if factor < 0:
        first, last = last, first
    starts, stops = base + factor * first, base + factor * last + nbytes
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], np.maximum.accumulate(stops[order])
    breaks = np.flatnonzero(starts[1:] > stops[:-1])
    if breaks.size >= most_ranges:
        return None
    firsts = starts[np.concatenate(([0], breaks + 1))].tolist()
    lasts = stops[np.concatenate((breaks, [stops.size - 1]))].tolist()
    return list(zip(firsts, lasts, strict=True))


def _skewed(
    exprs: Sequence[AffineExpr], ranges: list[Range], nbytes: int
) -> tuple[int, list[AffineExpr]] | None:
    """The same offset and constraints with the sum of two variables for one of them, so that the other's
    multiples touch; that one first.  ``ranges`` gets the sum's.
    """
    (_, parts), *_ = exprs
    for along, other in permutations(parts, 2):
        sign = 1 if parts[along] * parts[other] > 0 else -1
        if abs(parts[along] - sign * parts[other]) <= nbytes:
            break
    else:
        return None
    # other = total - sign * along
    total, (low, high) = len(ranges), ranges[other]
    first, last = interval((0, {other: 1, along: sign}), ranges)
    ranges.append((first, last))
    value: AffineExpr = (0, {total: 1, along: -sign})
    ends = [(-low, {other: 1}), (high, {other: -1})]
    return along, [
        plus((constant, {v: c for v, c in own.items() if v != other}), value, own.get(other, 0))
        for constant, own in (*exprs, *ends)
    ]
