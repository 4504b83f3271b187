"""The variables of affine expressions: ids, *unknowns*, which stand for what is not affine, and bounds."""

from __future__ import annotations

from enum import Enum

from sdi.dataclass import dataclass
from sdi.sampling.affine import FINITE, INFINITY, AffineExpr, Range, interval, plus
from sdi.sampling.terms import IntType

GLOBAL, GROUP, LOCAL = 0, 3, 6  # first variables of the ids
BASES = 9


class UnknownKind(Enum):
    """What an unknown is.

    FLOOR: of an expression, divided by ``number``.  LEAST, GREATEST: of some.  EITHER: one of some.
    PRODUCT: of two.  WRAPPED: an expression, wrapped to ``type``.  ANY: a value of ``range``.
    """

    COUNTER = "counter"
    FLOOR = "floor"
    LEAST = "least"
    GREATEST = "greatest"
    EITHER = "either"
    PRODUCT = "product"
    WRAPPED = "wrapped"
    ANY = "any"


@dataclass(slots=True)
class Unknown:
    """A variable that is not an id."""

    kind: UnknownKind
    exprs: tuple[AffineExpr, ...]
    number: int
    type: IntType
    range: Range
    is_data: bool


def bounds(found: AffineExpr, ranges: list[Range], unknowns: list[Unknown]) -> Range:
    """Smallest and largest value over a box of variables, where a remainder is below its divisor."""
    lo, hi = interval(found, ranges)
    below = above = 0
    for variable in sorted([v for v in found[1] if v >= BASES], reverse=True):
        unknown, factor = unknowns[variable - BASES], found[1].get(variable, 0)
        if unknown.kind is UnknownKind.FLOOR and factor % unknown.number == 0:
            # It is its expression less 0 to number - 1, divided by the number.
            times = factor // unknown.number
            rest = plus(plus(found, (0, {variable: 1}), -factor), unknown.exprs[0], times)
            if len(rest[1]) < len(found[1]):
                found = rest
                below += min(-times, 0) * (unknown.number - 1)
                above += max(-times, 0) * (unknown.number - 1)
    if below or above:
        low, high = interval(found, ranges)
        lo, hi = max(lo, low + below), min(hi, high + above)
    return lo, hi


def unknown_range(unknown: Unknown, ranges: list[Range], unknowns: list[Unknown]) -> Range:
    """The range of an unknown, given those of the variables below it."""
    lo, hi = _unknown_range(unknown, ranges, unknowns)
    return (lo if lo > -FINITE else -INFINITY, hi if hi < FINITE else INFINITY)


def _unknown_range(unknown: Unknown, ranges: list[Range], unknowns: list[Unknown]) -> Range:
    found = [bounds(f, ranges, unknowns) for f in unknown.exprs]
    match unknown.kind:
        case UnknownKind.FLOOR:
            return (found[0][0] // unknown.number, found[0][1] // unknown.number)
        case UnknownKind.LEAST:
            return (min(lo for lo, _ in found), min(hi for _, hi in found))
        case UnknownKind.GREATEST:
            return (max(lo for lo, _ in found), max(hi for _, hi in found))
        case UnknownKind.EITHER:
            return (min(lo for lo, _ in found), max(hi for _, hi in found))
        case UnknownKind.PRODUCT:
            corners = [x * y for x in found[0] for y in found[1]]
            return (min(corners), max(corners))
        case UnknownKind.WRAPPED:
            lo, hi = found[0]
            return (
                (lo, hi)
                if unknown.type.lo <= lo and hi <= unknown.type.hi
                else (unknown.type.lo, unknown.type.hi)
            )
        case _:
            return unknown.range
