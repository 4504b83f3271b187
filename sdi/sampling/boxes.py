"""What a bound kernel's accesses reach when a box of work-groups runs: ranges of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from math import gcd

from sdi.bands import FEW
from sdi.dataclass import dataclass
from sdi.intervals import ByteRange
from sdi.ndrange import GroupBox
from sdi.region import Region, within
from sdi.regions import RegionSet
from sdi.sampling.affine import INFINITY, AffineExpr, Range, interval, is_finite, plus
from sdi.sampling.affine_context import AffineContext
from sdi.sampling.model import Precision
from sdi.sampling.rows import spans_by_rows
from sdi.sampling.unknowns import BASES, GLOBAL, GROUP, LOCAL, Unknown, bounds, unknown_range

MAX_RANGES = 10_000
_ROUNDS = 3

FEW_RANGES = 32
"""So many are listed as fast as regions are put together."""

_REGIONS_MAX = 128

Span = tuple[int, int]
Part = Span | Region
"""Bytes: from one number up to another, or runs at equal distances."""


@dataclass(frozen=True, slots=True)
class Domain:
    """One way in which a group of guards can hold: every constraint is >= 0.

    ``regular``: those of them that depend on ids and counters only.
    ``precision``: EXACT where the work-items and iterations that satisfy these are those that pass the
    guards; COVER where data decide which of them do; else MAY.
    ``unknowns``: the unknowns to compute, in order.
    """

    constraints: tuple[AffineExpr, ...]
    regular: tuple[AffineExpr, ...]
    precision: Precision
    unknowns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Footprint:
    """The bytes one access reaches, sorted or not.  ``precision``: see there; MAY: their bounds, one span."""

    parts: Sequence[Part]
    precision: Precision


def base_ranges(binding: AffineContext, box: GroupBox) -> list[Range]:
    """The ranges of all variables in a box; those of unknowns are the whole launch's."""
    n = binding.ndrange
    found = list(binding.ranges)
    for dim in range(3):
        first, stop, local = box.start[dim], box.stop[dim], n.local_size[dim]
        found[GLOBAL + dim] = (n.offset[dim] + first * local, n.offset[dim] + stop * local - 1)
        found[GROUP + dim] = (first, stop - 1)
    return found


def tightened(domain: Domain, unknowns: list[Unknown], ranges: list[Range]) -> list[Range] | None:
    """The ranges inside a domain; None when it is empty."""
    found = list(ranges)
    for variable in domain.unknowns:
        unknown = unknowns[variable - BASES]
        if unknown.exprs:
            lo, hi = unknown_range(unknown, found, unknowns)
            found[variable] = (lo, hi)
    for _ in range(_ROUNDS):
        changed = False
        for constant, parts in domain.constraints:
            # Each variable's part is at least what the others leave.
            highest = constant
            for variable, factor in parts.items():
                highest += factor * (found[variable][1] if factor > 0 else found[variable][0])
            if highest < 0:
                return None
            for variable, factor in parts.items():
                lo, hi = found[variable]
                if factor > 0:
                    least = hi - highest // factor
                    if least > lo:
                        if least > hi:
                            return None
                        found[variable] = (least, hi)
                        changed = True
                else:
                    most = lo + highest // -factor
                    if most < hi:
                        if most < lo:
                            return None
                        found[variable] = (lo, most)
                        changed = True
        if not changed:
            break
        for variable in domain.unknowns:
            unknown = unknowns[variable - BASES]
            if unknown.exprs:
                lo, hi = unknown_range(unknown, found, unknowns)
                lo, hi = max(lo, found[variable][0]), min(hi, found[variable][1])
                if lo > hi:
                    return None
                found[variable] = (lo, hi)
    return found


def reach(
    offset: AffineExpr,
    nbytes: int,
    precision: Precision,
    domain: Domain,
    ranges: list[Range],
    unknowns: list[Unknown],
    is_listed: bool,
    is_strided: bool,
) -> Footprint | None:
    """The bytes of ``offset`` over a tightened domain; None when they have no bounds.

    ``precision``: EXACT or COVER only where the offset depends on nothing but ids and counters.
    ``is_strided``: runs at equal distances are one region.  ``is_listed``: others are single ranges, as far
    as these are not too many; else the one range that holds them all is the answer, MAY.
    """
    lo, hi = bounds(offset, ranges, unknowns)
    if not is_finite(lo, hi):
        return None
    bounded = Footprint([(lo, hi + nbytes)], Precision.MAY)
    if precision is not Precision.MAY and domain.precision is not Precision.MAY:
        if domain.precision is Precision.COVER:
            precision = Precision.COVER
        limits: Range = (lo, hi)
        for constraint in domain.regular:
            if interval(constraint, ranges)[0] < 0:
                along = _along(offset, constraint, nbytes)
                if along is None:
                    if not is_listed:
                        return bounded
                    found = _in_joined(offset, nbytes, domain.regular, ranges)
                    if found is None:
                        found = spans_by_rows(offset, nbytes, domain.regular, ranges, MAX_RANGES)
                    return bounded if found is None else Footprint(found, precision)
                limits = (max(limits[0], along[0]), min(limits[1], along[1]))
        parts = of_box(offset, nbytes, ranges, MAX_RANGES if is_listed else 1, is_strided)
        if parts is not None:
            if limits != (lo, hi):
                # Whole elements: they lie on multiples of the strides' common divisor.
                unit = gcd(*offset[1].values())
                first = lo + -(-(limits[0] - lo) // unit) * unit
                stop = lo + (limits[1] - lo) // unit * unit + nbytes
                parts = [each for part in parts for each in _clipped(part, first, stop)]
            return Footprint(parts, precision)
    return bounded


def _along(offset: AffineExpr, constraint: AffineExpr, nbytes: int) -> Range | None:
    """The bounds that a constraint puts on an offset's value, when it says something of that value only."""
    constant, parts = constraint
    base, own = offset
    if parts.keys() != own.keys() or gcd(*own.values()) < nbytes:
        return None
    # parts = own * up / down for one fraction.
    variable = next(iter(own))
    up, down = parts[variable], own[variable]
    if down < 0:
        up, down = -up, -down
    if any(parts[v] * down != own[v] * up for v in own):
        return None
    # constant + (value - base) * up / down >= 0
    if up > 0:
        return (base - constant * down // up, INFINITY)
    return (-INFINITY, base + constant * down // -up)


def of_box(
    offset: AffineExpr, nbytes: int, ranges: list[Range], most_ranges: int, is_strided: bool = True
) -> Sequence[Part] | None:
    """``nbytes`` at all values of ``offset``; None where these are too many ranges.  See ``reach``."""
    start, _ = interval(offset, ranges)
    strides = sorted((abs(c), ranges[v][1] - ranges[v][0] + 1) for v, c in offset[1].items())
    region = nested(start, strides, nbytes) if is_strided else None
    if region is not None and region.levels:
        return [region]
    return image(start, strides, nbytes, most_ranges)


def box_within(constraints: Sequence[AffineExpr], ranges: list[Range]) -> bool | None:
    """Whether anything is left where all constraints are >= 0; None where one is not about one variable.

    ``ranges`` gets narrower by them.
    """
    for constraint in constraints:
        constant, parts = constraint
        low, high = interval(constraint, ranges)
        if low >= 0:
            continue
        if high < 0:
            return False
        if len(parts) > 1:
            return None
        ((variable, factor),) = parts.items()
        first, last = ranges[variable]
        if factor > 0:
            first = max(first, -(constant // factor))
        else:
            last = min(last, constant // -factor)
        if first > last:
            return False
        ranges[variable] = (first, last)
    return True


def _in_joined(
    offset: AffineExpr, nbytes: int, constraints: Sequence[AffineExpr], ranges: Sequence[Range]
) -> Sequence[Part] | None:
    """``nbytes`` at all values of ``offset`` where the constraints hold, if these are about one number each,
    of which variables may be digits; else None.
    """
    from_zero = [(0, hi - lo) for lo, hi in ranges]
    exprs = [
        (constant + sum([factor * ranges[v][0] for v, factor in parts.items()]), parts)
        for constant, parts in (offset, *constraints)
    ]
    offset, *constraints = joined(exprs, from_zero)
    is_left = box_within(constraints, from_zero)
    return of_box(offset, nbytes, from_zero, MAX_RANGES) if is_left else None if is_left is None else []


def joined(exprs: list[AffineExpr], ranges: list[Range]) -> list[AffineExpr]:
    """``exprs`` with variables put together that all of them use as digits of one number; ``ranges``, which
    all begin at 0, gets the new variables' ranges.
    """
    exprs = [(constant, dict(parts)) for constant, parts in exprs]
    while (pair := _digits_of_one(exprs, ranges)) is not None:
        low, high = pair
        count = (ranges[low][1] + 1) * (ranges[high][1] + 1)
        new = len(ranges)
        ranges.append((0, count - 1))
        for _, parts in exprs:
            factor = parts.pop(low, 0)
            parts.pop(high, None)
            if factor:
                parts[new] = factor
    return exprs


def _digits_of_one(exprs: list[AffineExpr], ranges: list[Range]) -> tuple[int, int] | None:
    """Two variables of which one counts as often as the other has values, in every expression."""
    used = sorted({variable for _, parts in exprs for variable in parts})
    for low, high in product(used, used):
        values = ranges[low][1] + 1
        if low != high and all(parts.get(high, 0) == values * parts.get(low, 0) for _, parts in exprs):
            return low, high
    return None


def nested(start: int, strides: Iterable[tuple[int, int]], nbytes: int) -> Region | None:
    """What ``image`` answers as one region; None where one stride's multiples fall between another's."""
    levels: list[tuple[int, int]] = []
    span = nbytes
    for stride, count in strides:
        if count == 1 or stride == 0:
            continue
        if not levels and stride <= nbytes:
            nbytes = span = nbytes + stride * (count - 1)
        elif stride >= span:
            levels.append((stride, count))
            span += stride * (count - 1)
        else:
            return None
    return Region(start, nbytes, tuple(levels)) if start >= 0 else None


def image(
    start: int, strides: Iterable[tuple[int, int]], nbytes: int, most_ranges: int = MAX_RANGES
) -> list[Span] | None:
    """``nbytes`` at ``start`` plus any sum of multiples of strides; None when these are too many ranges.

    ``strides``: (stride, number of multiples from 0), smallest stride first.
    """
    spans = [(start, start + nbytes)]
    for stride, count in strides:
        if count == 1 or stride == 0:
            continue
        if len(spans) == 1:
            first, stop = spans[0]
            if stride <= stop - first:
                spans = [(first, stop + stride * (count - 1))]
                continue
        if len(spans) * count > most_ranges:
            return None
        if len(spans) == 1:
            spans = [(first + stride * k, stop + stride * k) for k in range(count)]
            continue
        spans = merged([(a + stride * k, b + stride * k) for k in range(count) for a, b in spans])
    return spans


def merged(spans: list[Span]) -> list[Span]:
    """The same bytes as sorted spans that never touch."""
    if len(spans) < 2:
        return spans
    spans.sort()
    found: list[Span] = []
    first, stop = spans[0]
    for a, b in spans:
        if a <= stop:
            if b > stop:
                stop = b
        else:
            found.append((first, stop))
            first, stop = a, b
    found.append((first, stop))
    return found


def region_set(parts: Sequence[Part], nbytes: int) -> RegionSet:
    """A set of bytes, cut to a buffer of ``nbytes``."""
    spans = merged([part for part in parts if not isinstance(part, Region)])
    if spans and (spans[0][0] < 0 or spans[-1][1] > nbytes):
        spans = [(max(a, 0), min(b, nbytes)) for a, b in spans if a < nbytes and b > 0]
    ranges = [ByteRange(a, b) for a, b in spans]
    regions = [part for part in parts if isinstance(part, Region)]
    if not regions:
        return RegionSet(tuple(ranges))
    return RegionSet.of([*ranges, *(each for part in regions for each in within(part, 0, nbytes))])


def simpler(*groups: list[Part]) -> list[list[Part]]:
    """The same bytes without regions where these take long to join: with many spans, or on no common grid.

    Where all would be too many ranges, the last group gets bounds and the others nothing.
    """
    parts = [part for group in groups for part in group]
    regions = [part for part in parts if isinstance(part, Region)]
    strides = sorted({stride for region in regions for stride, _ in region.levels})
    is_grid = all(b % a == 0 for a, b in pairwise(strides)) and len(regions) <= _REGIONS_MAX
    if len(parts) > FEW:
        is_grid = is_grid and sum([region.num_runs for region in regions]) > FEW_RANGES * len(regions)
    if not regions or len(parts) == 1 or (is_grid and len(parts) - len(regions) <= FEW_RANGES):
        return list(groups)
    if len(parts) + sum([region.num_runs for region in regions]) > MAX_RANGES:
        ends = [_ends(part) for part in parts]
        return [*([] for _ in groups[1:]), [(min(a for a, _ in ends), max(b for _, b in ends))]]
    return [[span for part in group for span in _spans(part)] for group in groups]


def _clipped(part: Part, start: int, stop: int) -> list[Part]:
    if not isinstance(part, Region):
        return [(max(part[0], start), min(part[1], stop))] if part[0] < stop and part[1] > start else []
    return [
        each if isinstance(each, Region) else (each.start, each.stop) for each in within(part, start, stop)
    ]


def _spans(part: Part) -> list[Span]:
    return [(run.start, run.stop) for run in part.runs()] if isinstance(part, Region) else [part]


def _ends(part: Part) -> Span:
    return (part.bounds.start, part.bounds.stop) if isinstance(part, Region) else part


def without_mixed_ids(binding: AffineContext, exprs: list[AffineExpr]) -> list[AffineExpr]:
    """Expressions in which no dimension has a global id beside a group or local id."""
    used = {v for _, parts in exprs for v in parts if v < BASES}
    for dim in range(3):
        if dim in used and (GROUP + dim in used or LOCAL + dim in used):
            n = binding.ndrange
            parts = {GROUP + dim: n.local_size[dim], LOCAL + dim: 1}
            whole: AffineExpr = (
                n.offset[dim],
                {v: c for v, c in parts.items() if binding.ranges[v][0] != binding.ranges[v][1]},
            )
            exprs = [_replaced(expr, dim, whole) for expr in exprs]
    return exprs


def _replaced(expr: AffineExpr, variable: int, value: AffineExpr) -> AffineExpr:
    factor = expr[1].get(variable, 0)
    if not factor:
        return expr
    rest = (expr[0], {v: c for v, c in expr[1].items() if v != variable})
    return plus(rest, value, factor)
