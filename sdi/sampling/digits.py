"""Exact bytes of an access whose index takes ids apart with / and %: bricks, tiles, rows of a flat range.

Where ids, or loop counters, are divided by constants that divide each other, each is written with digits, as
a number with mixed bases: ``id = d0 + 8 * d1 + 64 * d2``.  Quotients and remainders are affine in the digits;
where a neighbour's digit wraps, ``(d1 + 1) % 8``, in the part before that and in the one behind.  A box of
work-groups is cut into parts in which each digit takes a whole interval, independently of the others; there
the bytes have a closed form, however many work-items there are.  Anything else has no answer here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import gcd

from sdi.ndrange import GroupBox
from sdi.region import Bytes, Region
from sdi.regions import RegionSet
from sdi.sampling.affine import AffineExpr, Range, interval, plus
from sdi.sampling.affine_context import AffineContext
from sdi.sampling.boxes import FEW_RANGES, MAX_RANGES, Part, base_ranges, box_within, joined, merged, of_box
from sdi.sampling.machine import Access
from sdi.sampling.terms import TermOp
from sdi.sampling.unknowns import BASES, GLOBAL, GROUP, LOCAL, Unknown, UnknownKind

_KNOWN_MAX = 4096
_known: dict[object, list[Part] | None] = {}
"""Answers by what they follow from.  Any thread."""
_PARTS_MAX = 256
_VALUES_MAX = 8
"""Of a digit that is taken apart since a quotient has others, too: ``(x + y) / 2``."""

Digit = tuple[int, int, int]
"""Weight, first value, number of values."""


class _NoAnswer(Exception):
    """The bytes have no closed form of this kind."""


class _Wraps(Exception):
    """A quotient of digit number ``variable`` is another one, or simpler, from value ``at`` on."""

    def __init__(self, variable: int, at: int) -> None:
        super().__init__()
        self.variable, self.at = variable, at


def bytes_of(binding: AffineContext, access: Access, box: GroupBox) -> list[Part] | None:
    """Exactly the bytes of a definite access, if all that data decide is decided for it; None where ids are
    taken apart otherwise.  What holds for one iteration of its loops holds for all earlier ones.
    """
    guards: list[int] = []
    for guard in access.guards:
        row = binding.rows[guard]
        parts = row.args if row.op is TermOp.ALL else (guard,)
        guards += [part for part in parts if not binding.opaque[part]]
    if binding.opaque[access.offset]:
        return None
    saved, binding.is_overapproximate = binding.is_overapproximate, False
    offset = binding.exact(access.offset)
    alternatives = binding.conjunction([binding.alternatives(guard) for guard in guards])
    is_overapproximate, binding.is_overapproximate = binding.is_overapproximate, saved
    if is_overapproximate:
        return None
    if binding.is_traced:
        return _over_parts(binding, offset, alternatives, access.nbytes, box)
    # Launches that differ in a scalar often ask the same again: of a step's number only the parity may count.
    n, described = binding.ndrange, Described(binding.unknowns)
    exprs = tuple([tuple([described.of(expr) for expr in (offset, *each)]) for each in alternatives])
    key = exprs, access.nbytes, box, n.offset, n.local_size
    known = _known.get(key, key)  # a key is no answer
    if not isinstance(known, tuple):
        return known
    if len(_known) >= _KNOWN_MAX:
        _known.clear()
    found = _known[key] = _over_parts(binding, offset, alternatives, access.nbytes, box)
    return found


def _over_parts(
    binding: AffineContext,
    offset: AffineExpr,
    alternatives: list[list[AffineExpr]],
    nbytes: int,
    box: GroupBox,
) -> list[Part] | None:
    try:
        every = [
            part
            for constraints in alternatives
            for part in _Boxes(binding, [offset, *constraints], box).reached(nbytes)
        ]
    except _NoAnswer:
        return None
    spans = merged([part for part in every if not isinstance(part, Region)])
    return [*spans, *(part for part in every if isinstance(part, Region))]


class Described:
    """Expressions of one launch as values that are equal where the expressions say the same."""

    def __init__(self, unknowns: Sequence[Unknown]) -> None:
        self._unknowns = unknowns
        self._known: dict[int, object] = {}

    def of(self, expr: AffineExpr) -> object:
        """``expr`` by what its unknowns are, not by their numbers."""
        constant, parts = expr
        return constant, frozenset([(self._variable(v), factor) for v, factor in parts.items()])

    def _variable(self, variable: int) -> object:
        if variable < BASES:
            return variable
        known = self._known.get(variable)
        if known is None:
            unknown = self._unknowns[variable - BASES]
            exprs = tuple([self.of(expr) for expr in unknown.exprs])
            own = variable if unknown.kind in (UnknownKind.ANY, UnknownKind.COUNTER) else unknown.number
            values = unknown.range if unknown.kind is UnknownKind.COUNTER else None
            known = self._known[variable] = (unknown.kind, exprs, own, unknown.type, values)
        return known


class _Boxes:
    """An offset and what must be >= 0, over the parts of one box."""

    def __init__(self, binding: AffineContext, exprs: list[AffineExpr], box: GroupBox) -> None:
        self._binding = binding
        self._exprs = exprs
        self._ranges = base_ranges(binding, box)
        self._weights: dict[int, set[int]] = {}
        for expr in exprs:
            self._divisors(expr)
        n = binding.ndrange
        self._global: dict[int, AffineExpr] = {}
        self._local_sizes: dict[int, int] = {}
        for dim in range(3):
            used = [v for v in (GROUP + dim, LOCAL + dim) if v in self._weights]
            if GLOBAL + dim not in self._weights or not used:
                continue
            local = n.local_size[dim]
            if len(self._weights[GLOBAL + dim]) > 1:
                if n.offset[dim]:
                    raise _NoAnswer  # its quotients are none of the group's and the item's digits
                by_group = {local * weight for weight in self._weights.pop(GROUP + dim, {1})}
                self._weights[GLOBAL + dim] |= by_group | self._weights.pop(LOCAL + dim, {1})
                self._local_sizes[GLOBAL + dim] = local
                continue
            del self._weights[GLOBAL + dim]
            for variable in (GROUP + dim, LOCAL + dim):
                self._weights.setdefault(variable, {1})
            self._global[GLOBAL + dim] = (n.offset[dim], {GROUP + dim: local, LOCAL + dim: 1})

    def _divisors(self, expr: AffineExpr) -> dict[int, set[int]]:
        """By what each id, or counter, in an expression is divided; all of it is noted."""
        found: dict[int, set[int]] = {}
        for variable in expr[1]:
            unknown = self._binding.unknowns[variable - BASES] if variable >= BASES else None
            if unknown is None or unknown.kind is UnknownKind.COUNTER:
                found.setdefault(variable, set()).add(1)
                continue
            if unknown.kind not in (UnknownKind.FLOOR, UnknownKind.WRAPPED):
                raise _NoAnswer
            for inner, factor in self._unwrapped(unknown.exprs[0])[1].items():
                by = unknown.number // gcd(factor, unknown.number) if unknown.kind is UnknownKind.FLOOR else 1
                for base, divisors in self._divisors((0, {inner: 1})).items():
                    found.setdefault(base, set()).update(divisor * by for divisor in divisors)
        for base, divisors in found.items():
            self._weights.setdefault(base, {1}).update(divisors)
        return found

    def _unwrapped(self, expr: AffineExpr) -> AffineExpr:
        """With what is wrapped to a type as if it were not."""
        found: AffineExpr = (expr[0], {})
        for variable, factor in expr[1].items():
            unknown = self._binding.unknowns[variable - BASES] if variable >= BASES else None
            is_wrapped = unknown is not None and unknown.kind is UnknownKind.WRAPPED
            part = (
                self._unwrapped(unknown.exprs[0])
                if unknown is not None and is_wrapped
                else (0, {variable: 1})
            )
            found = plus(found, part, factor)
        return found

    def reached(self, nbytes: int) -> list[Part]:
        """All parts' bytes."""
        bases = sorted(self._weights)
        choices: list[list[list[Digit]]] = []
        count = 1
        for base in bases:
            weights = sorted(self._weights[base])
            if any(b % a for a, b in pairwise(weights)):
                raise _NoAnswer
            low, high = self._ranges[base]
            if low < 0:
                raise _NoAnswer
            choices.append(parts_of(low, high + 1, weights))
            count *= len(choices[-1])
        if count > _PARTS_MAX:
            raise _NoAnswer
        spans: list[Part] = []
        strided: list[Bytes] = []
        parts = [dict(zip(bases, chosen, strict=True)) for chosen in product(*choices)]
        for part in parts:  # more come while they are gone through
            if len(parts) > 2 * _PARTS_MAX:
                raise _NoAnswer
            where: list[tuple[int, int]] = []
            try:
                found = self._part(part, nbytes, where)
            except _Wraps as wraps:
                base, place = where[wraps.variable]
                weight, first, values = part[base][place]
                for half in ((weight, first, wraps.at), (weight, first + wraps.at, values - wraps.at)):
                    own = [*part[base][:place], half, *part[base][place + 1 :]]
                    parts.append({**part, base: own})
                continue
            strided += [each for each in found if isinstance(each, Region)]
            spans += [each for each in found if not isinstance(each, Region)]
        if sum([region.num_runs for region in strided]) > FEW_RANGES * len(strided):
            strided = list(RegionSet.of(strided).regions)  # together, they may be whole rows
            if len(strided) > MAX_RANGES:
                raise _NoAnswer
            return [
                *spans,
                *(each if isinstance(each, Region) else (each.start, each.stop) for each in strided),
            ]
        listed: list[Part] = [(run.start, run.stop) for region in strided for run in region.runs()]
        return listed + spans

    def _part(
        self, digits: dict[int, list[Digit]], nbytes: int, where: list[tuple[int, int]]
    ) -> Sequence[Part]:
        """The bytes where each digit takes its whole interval.

        ``where``: takes which digit of which id each variable is.  Raises _Wraps, _NoAnswer.
        """
        ranges: list[Range] = []
        known: dict[int, AffineExpr] = {}
        for base, own in digits.items():
            constant, parts = 0, {}
            for place, (weight, first, count) in enumerate(own):
                constant += weight * first
                if count > 1:
                    parts[len(ranges)] = weight
                    ranges.append((0, count - 1))
                    where.append((base, place))
            known[base] = (constant, parts)
            local = self._local_sizes.get(base)
            if local is not None:  # the digits from the local size on are the group's, the others the item's
                low = sum([weight * first for weight, first, _ in own if weight < local])
                below = {v: weight for v, weight in parts.items() if weight < local}
                above = {v: weight // local for v, weight in parts.items() if weight >= local}
                known[base - GLOBAL + GROUP] = ((constant - low) // local, above)
                known[base - GLOBAL + LOCAL] = (low, below)
        for variable, expr in self._global.items():
            known[variable] = _substituted(expr, known)
        exprs = [self._valued(expr, known, ranges) for expr in self._exprs]
        offset, *constraints = joined(exprs, ranges)
        is_left = box_within(constraints, ranges)
        if is_left is False:
            return []
        found = of_box(offset, nbytes, ranges, MAX_RANGES) if is_left else None
        if found is None:
            raise _NoAnswer
        return found

    def _valued(self, expr: AffineExpr, known: dict[int, AffineExpr], ranges: list[Range]) -> AffineExpr:
        """An expression in digits.  Adds what is below it to ``known``."""
        for variable in expr[1]:
            if variable not in known:
                unknown = self._binding.unknowns[variable - BASES]
                below = self._valued(unknown.exprs[0], known, ranges)
                if unknown.kind is UnknownKind.FLOOR:
                    known[variable] = _quotient(below, unknown.number, ranges)
                    continue
                low, high = interval(below, ranges)
                if low < unknown.type.lo or high > unknown.type.hi:
                    raise _NoAnswer
                known[variable] = below
        return _substituted(expr, known)


def parts_of(low: int, stop: int, weights: list[int]) -> list[list[Digit]]:
    """The numbers from ``low`` to ``stop`` - 1 as parts in which each digit takes a whole interval.

    ``weights``: of the digits, from 1 up, each dividing the next.
    """
    if low >= stop:
        return []
    *lower, top = weights
    if not lower:
        return [[(1, low, stop - low)]]
    first, last = -(-low // top), stop // top
    if first > last:  # within one value of the top digit
        return _under(top, low // top, low, stop, lower)
    found = _under(top, low // top, low, first * top, lower)
    if first < last:
        full = [(a, 0, b // a) for a, b in pairwise(weights)]
        found.append([*full, (top, first, last - first)])
    return found + _under(top, last, last * top, stop, lower)


def _under(top: int, digit: int, low: int, stop: int, lower: list[int]) -> list[list[Digit]]:
    """Parts where the top digit is ``digit``."""
    inner = parts_of(low - top * digit, stop - top * digit, lower)
    return [[*part, (top, digit, 1)] for part in inner]


def _quotient(expr: AffineExpr, divisor: int, ranges: list[Range]) -> AffineExpr:
    """``expr`` divided by ``divisor``, rounded down."""
    constant, parts = expr
    out = {v: c // divisor for v, c in parts.items() if c % divisor == 0}
    rest: AffineExpr = (constant, {v: c for v, c in parts.items() if c % divisor})
    low, high = interval(rest, ranges)
    if low // divisor != high // divisor:
        if len(rest[1]) > 1:
            fewest, variable = min([(ranges[v][1] + 1, v) for v in rest[1]])
            if fewest > _VALUES_MAX:
                raise _NoAnswer
            raise _Wraps(variable, fewest // 2)
        ((variable, factor),) = rest[1].items()
        # The first value with another quotient than the value 0 has.
        beyond = divisor - constant % divisor if factor > 0 else constant % divisor + 1
        raise _Wraps(variable, -(-beyond // abs(factor)))
    return (low // divisor, out)


def _substituted(expr: AffineExpr, known: dict[int, AffineExpr]) -> AffineExpr:
    found: AffineExpr = (expr[0], {})
    for variable, factor in expr[1].items():
        found = plus(found, known[variable], factor)
    return found
