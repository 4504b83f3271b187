"""Affine expressions of a bound launch: a kernel's terms with scalars, sizes and offsets put in.

An expression is ``(constant, {variable: coefficient})``.  Variables 0 to 8 are the global ids, group ids
and local ids; then come loop counters and other *unknowns*: what is not affine (floor divisions, minima,
wrapped values, data), each with its range.  A range that is unbounded ends at INFINITY.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from sdi.ndrange import NDRange
from sdi.sampling.affine import (
    INFINITY,
    AffineExpr,
    Range,
    interval,
    is_finite,
    minus,
    plus,
    scaled,
    shifted,
)
from sdi.sampling.float_bounds import FloatValue, integer_bounds
from sdi.sampling.machine import Loop
from sdi.sampling.ops import OPERATIONS
from sdi.sampling.terms import I32, IntType, Row, TermOp, TermTable
from sdi.sampling.unknowns import BASES, GLOBAL, GROUP, LOCAL, Unknown, UnknownKind, bounds, unknown_range

Scalar = tuple[int, int, IntType]
"""A number in the arguments: argument, offset in its bytes, type."""

_MAX_ITERATIONS = 130
_MAX_ALTERNATIVES = 8


MAX_EXPRS = 200_000
"""Of one launch; a kernel of a few hundred lines has a few hundred."""


class TooManyExprs(Exception):
    """The kernel's terms are too much to bind."""


class AffineContext:
    """The expressions of one launch.  Owned by: the thread that binds."""

    def __init__(
        self,
        table: TermTable,
        loops: tuple[Loop | None, ...],
        ndrange: NDRange,
        values: tuple[bytes | None, ...],
        numbers: Mapping[Scalar, int] | None = None,
    ) -> None:
        """``numbers``: the scalars as numbers, in place of the ``values`` that hold them; of a trace."""
        self._numbers = numbers
        self.is_traced = numbers is not None
        self.rows = table.rows
        self.opaque = table.opaque
        self.loops = loops
        self.ndrange = ndrange
        self.values = values
        groups = ndrange.num_groups
        first, size, local = ndrange.offset, ndrange.global_size, ndrange.local_size
        self.ranges: list[Range] = [(first[d], first[d] + size[d] - 1) for d in range(3)]
        self.ranges += [(0, groups[d] - 1) for d in range(3)]
        self.ranges += [(0, local[d] - 1) for d in range(3)]
        self.unknowns: list[Unknown] = []
        self.work: dict[tuple[int, int], Any] = {}  # by dimension and parts: what loops come to (work.py)
        self._exprs: dict[int, AffineExpr] = {}
        self._keys: dict[object, int] = {}
        self._steps: dict[tuple[int, int], tuple[dict[int, AffineExpr], dict[object, int]]] = {}
        self.fixed: dict[int, int] = {}
        """Of loops, the iterations that expressions are of."""
        self._assumed = 0  # depth of runs that take values not to wrap
        self._wraps = 0
        self._made = 0
        self.is_overapproximate = False  # a condition had no expression, and was left out

    def bounds(self, found: AffineExpr) -> Range:
        """Its smallest and largest value, as far as is known."""
        return bounds(found, self.ranges, self.unknowns)

    @contextmanager
    def at_iteration(self, loop: int, number: int) -> Iterator[None]:
        """Meanwhile expressions and unknowns are those of one iteration of a loop."""
        saved = self._exprs, self._keys
        self._exprs, self._keys = self._steps.setdefault((loop, number), ({}, {}))
        self.fixed[loop] = number
        try:
            yield
        finally:
            self._exprs, self._keys = saved
            del self.fixed[loop]

    # -- expressions -----------------------------------------------------------------------------------

    def expr(self, term: int) -> AffineExpr:
        """The value of a term, or a number congruent to it in the ring of its type."""
        known = self._exprs.get(term)
        if known is None:
            self._made += 1
            if self._made > MAX_EXPRS:
                raise TooManyExprs
            known = self._make(term, self.rows[term])
            if not self._assumed:
                self._exprs[term] = known
        return known

    def exact(self, term: int) -> AffineExpr:
        """The value of a term."""
        found = self.expr(term)
        if self._assumed and found[1]:
            return found
        return self.wrapped(found, self.rows[term].type, self.opaque[term])

    def wrapped(self, found: AffineExpr, kind: IntType, is_data: bool) -> AffineExpr:
        """``found`` as a value of ``kind``."""
        constant, parts = found
        if not parts:
            return (kind.wrap(constant), parts)
        lo, hi = self.bounds(found)
        bits = kind.bits
        low = -(1 << (bits - 1)) if kind.signed else 0
        if low <= lo and hi < low + (1 << bits):
            return found
        if is_finite(lo, hi):
            turns = (lo - low) >> bits
            if turns == (hi - low) >> bits:
                return (constant - (turns << bits), parts)
        self._wraps += 1
        return self.unknown(UnknownKind.WRAPPED, (found,), 0, kind, (kind.lo, kind.hi), is_data)

    def unknown(
        self,
        kind: UnknownKind,
        exprs: tuple[AffineExpr, ...],
        number: int = 0,
        of: IntType = I32,
        bounds: Range | None = None,
        is_data: bool = False,
    ) -> AffineExpr:
        """The variable for an unknown, as an expression; equal unknowns are one variable."""
        key = (kind, tuple((c, tuple(sorted(p.items()))) for c, p in exprs), number, of)
        variable = self._keys.get(key)
        if variable is None:
            made = Unknown(kind, exprs, number, of, bounds or (-INFINITY, INFINITY), is_data)
            if bounds is None:
                made.range = unknown_range(made, self.ranges, self.unknowns)
            variable = self.add(made)
            self._keys[key] = variable
        return (0, {variable: 1})

    def add(self, unknown: Unknown) -> int:
        """Number a new variable."""
        self.unknowns.append(unknown)
        self.ranges.append(unknown.range)
        return BASES + len(self.unknowns) - 1

    def set_range(self, variable: int, found: Range) -> None:
        """Change a variable's range, and those of the unknowns over it."""
        self.ranges[variable] = found
        for later in range(variable + 1 - BASES, len(self.unknowns)):
            unknown = self.unknowns[later]
            if unknown.exprs:
                self.ranges[later + BASES] = unknown.range = unknown_range(
                    unknown, self.ranges, self.unknowns
                )

    def fresh_unknown(self, term: int, kind: IntType, bounds: Range | None = None) -> AffineExpr:
        """The variable of a term that has no expression."""
        key = (UnknownKind.ANY, term)
        variable = self._keys.get(key)
        if variable is None:
            lo, hi = bounds or (kind.lo, kind.hi)
            found = (max(lo, kind.lo), min(hi, kind.hi))
            variable = self.add(Unknown(UnknownKind.ANY, (), term, kind, found, self.opaque[term]))
            self._keys[key] = variable
        return (0, {variable: 1})

    def _make(self, term: int, row: Row) -> AffineExpr:
        op, args, kind, payload = row
        if op <= TermOp.WORK_DIM:
            return self._leaf(op, payload, kind, term)
        match op:
            case TermOp.LINEAR:
                constant, coefficients = cast(tuple[int, tuple[int, ...]], payload)
                total: dict[int, int] = {}
                for arg, factor in zip(args, coefficients, strict=True):
                    more, parts = self.expr(arg)
                    constant += factor * more
                    for variable, coefficient in parts.items():
                        total[variable] = total.get(variable, 0) + factor * coefficient
                return (constant, {v: c for v, c in total.items() if c})
            case TermOp.CONVERT:
                inner = self.rows[args[0]].type
                return self.expr(args[0]) if kind.bits <= inner.bits else self.exact(args[0])
            case TermOp.MUL:
                return self.product(self.expr(args[0]), self.expr(args[1]), term)
            case TermOp.COUNTER:
                return self._counter(cast(int, payload))
            case TermOp.OPAQUE:
                return self.fresh_unknown(term, kind)
            case TermOp.FLOORDIV:
                return self.floor(self.exact(args[0]), cast(int, payload), term)
            case TermOp.FLOORMOD:
                return self.modulo(self.expr(args[0]), cast(int, payload), term)
            case TermOp.SELECT:
                return self._select(args, term)
            case TermOp.LT | TermOp.EQ | TermOp.NOT | TermOp.ALL | TermOp.ANY:
                found = self.truth(term)
                return (int(found), {}) if found is not None else self.fresh_unknown(term, kind, (0, 1))
            case TermOp.GEOMETRIC:
                return self._power(args, payload, kind, term)
            case TermOp.FLOAT:
                return self._from_float(args, cast(FloatValue, payload), kind, term)
            case TermOp.LOOKUP:
                return self._looked_up(self.exact(args[0]), cast(tuple[int, ...], payload), kind, term)
            case _:
                return self._operated(cast(str, payload), [self.exact(a) for a in args], kind, term)

    def _leaf(self, op: TermOp, payload: object, kind: IntType, term: int) -> AffineExpr:
        n = self.ndrange
        if op is TermOp.SCALAR:
            argument, offset = cast(tuple[int, int], payload)
            if self._numbers is not None:
                return (self._numbers[argument, offset, kind], {})
            raw = self.values[argument]
            if raw is None or len(raw) < offset + kind.bits // 8:
                return self.fresh_unknown(term, kind)
            return (int.from_bytes(raw[offset : offset + kind.bits // 8], "little", signed=kind.signed), {})
        number = int(payload) if isinstance(payload, int) else 0
        match op:
            case TermOp.GLOBAL_ID | TermOp.GROUP_ID | TermOp.LOCAL_ID:
                variable = number + (GLOBAL, GROUP, LOCAL)[op - TermOp.GLOBAL_ID]
                lo, hi = self.ranges[variable]
                return (lo, {}) if lo == hi else (0, {variable: 1})
            case TermOp.GLOBAL_SIZE:
                return (n.global_size[number], {})
            case TermOp.LOCAL_SIZE:
                return (n.local_size[number], {})
            case TermOp.NUM_GROUPS:
                return (n.num_groups[number], {})
            case TermOp.GLOBAL_OFFSET:
                return (n.offset[number], {})
            case TermOp.WORK_DIM:
                return (n.work_dim, {})
            case _:
                return (number, {})

    def _looked_up(self, index: AffineExpr, table: tuple[int, ...], kind: IntType, term: int) -> AffineExpr:
        """An element of a table: between the least and the greatest of those that the index reaches."""
        lo, hi = self.bounds(index)
        found = table[int(max(lo, 0)) : int(min(hi, len(table) - 1)) + 1] or table
        if len(found) == 1:
            return (found[0], {})
        return self.fresh_unknown(term, kind, (min(found), max(found)))

    def _power(self, args: tuple[int, ...], payload: object, kind: IntType, term: int) -> AffineExpr:
        """What a loop multiplies or divides in each iteration."""
        start, factor, counter = args
        iteration, by = self.expr(counter), self.expr(factor)
        if payload == "*" and not iteration[1] and not by[1]:
            return scaled(self.expr(start), by[0] ** iteration[0])
        return self.fresh_unknown(term, kind)

    def _from_float(self, args: tuple[int, ...], value: FloatValue, kind: IntType, term: int) -> AffineExpr:
        """The integer that a floating-point number becomes; what its error leaves open is as good as data."""
        exprs = [self.exact(arg) for arg in args]
        found: Range | None = None
        if not any(parts for _, parts in exprs):  # a trace holds for these numbers alone
            numbers = {arg: int(constant) for arg, (constant, _) in zip(args, exprs, strict=True)}
            found = integer_bounds(value, numbers, kind)
        if found is not None and found[0] == found[1]:
            return (found[0], {})
        return self.unknown(UnknownKind.ANY, (), term, kind, found or (kind.lo, kind.hi), is_data=True)

    def product(self, a: AffineExpr, b: AffineExpr, term: int) -> AffineExpr:
        """``a * b``."""
        for (factor, none), (constant, parts) in ((a, b), (b, a)):
            if not none:
                return (constant * factor, {v: c * factor for v, c in parts.items()} if factor else {})
        return self.unknown(UnknownKind.PRODUCT, (a, b), is_data=self.opaque[term])

    def floor(self, a: AffineExpr, divisor: int, term: int) -> AffineExpr:
        """``floor(a / divisor)`` of an exact expression, ``divisor`` > 0."""
        constant, parts = a
        if divisor == 1 or not parts:
            return (constant // divisor, parts)
        parts = self._split_ids(parts, divisor)
        whole = {v: c // divisor for v, c in parts.items() if c % divisor == 0}
        rest = {v: c for v, c in parts.items() if c % divisor}
        quotient, remainder = divmod(constant, divisor)
        if not rest:
            return (quotient, whole)
        lo, hi = self.bounds((remainder, rest))
        if lo // divisor == hi // divisor:
            return (quotient + lo // divisor, whole)
        variable = self.unknown(UnknownKind.FLOOR, ((remainder, rest),), divisor, is_data=self.opaque[term])
        return plus((quotient, whole), variable)  # which may be in the expression already: x % 8 % 8

    def _split_ids(self, parts: dict[int, int], divisor: int) -> dict[int, int]:
        """Global ids in terms of group and local ids where that divides evenly."""
        for dim in range(3):
            coefficient = parts.get(dim, 0)
            local = self.ndrange.local_size[dim]
            if coefficient % divisor and coefficient * local % divisor == 0 and not self.ndrange.offset[dim]:
                made = dict(parts)
                del made[dim]
                for variable, factor in ((GROUP + dim, local), (LOCAL + dim, 1)):
                    lo, hi = self.ranges[variable]
                    if lo != hi:
                        made[variable] = made.get(variable, 0) + coefficient * factor
                rest = {v: c for v, c in made.items() if c % divisor}
                lo, hi = interval((0, rest), self.ranges)
                if lo // divisor == hi // divisor:
                    return made
        return parts

    def modulo(self, a: AffineExpr, divisor: int, term: int) -> AffineExpr:
        """``a - divisor * floor(a / divisor)``, ``divisor`` > 0."""
        constant, parts = a
        a = constant, self._split_ids(parts, divisor)
        return minus(a, scaled(self.floor(a, divisor, term), divisor))

    def extreme(self, least: bool, a: AffineExpr, b: AffineExpr, term: int) -> AffineExpr:
        """The least, or greatest, of two expressions."""
        lo, hi = self.bounds(minus(a, b))
        if hi <= 0 or lo >= 0:
            return a if least == (hi <= 0) else b
        kind = UnknownKind.LEAST if least else UnknownKind.GREATEST
        return self.unknown(kind, (a, b), is_data=self.opaque[term])

    def _operated(self, name: str, operands: list[AffineExpr], kind: IntType, term: int) -> AffineExpr:
        operation = OPERATIONS[name]
        if not any(parts for _, parts in operands):
            folded = operation.fold(kind, *(constant for constant, _ in operands))
            return self.fresh_unknown(term, kind) if folded is None else (kind.wrap(folded), {})
        found = operation.expr(self, term, kind, *operands)
        return self.fresh_unknown(term, kind) if found is None else found

    def _select(self, args: tuple[int, ...], term: int) -> AffineExpr:
        condition, a, b = args
        found = self.truth(condition)
        if found is not None:
            return self.expr(a if found else b)
        then, other = self.exact(a), self.exact(b)
        if then == other:
            return then
        return self.unknown(UnknownKind.EITHER, (then, other), term, is_data=self.opaque[term])

    # -- truth values ----------------------------------------------------------------------------

    def truth(self, term: int) -> bool | None:
        """Whether a truth value is the same for every work-item, and which."""
        op, args, _, payload = self.rows[term]
        match op:
            case TermOp.CONST:
                return payload != 0
            case TermOp.LT:
                lo, hi = self.bounds(minus(self.exact(args[0]), self.exact(args[1])))
                return True if hi < 0 else False if lo >= 0 else None
            case TermOp.EQ:
                lo, hi = self.bounds(minus(self.exact(args[0]), self.exact(args[1])))
                return True if lo == hi == 0 else False if lo > 0 or hi < 0 else None
            case TermOp.NOT:
                inner = self.truth(args[0])
                return None if inner is None else not inner
            case TermOp.ALL | TermOp.ANY:
                known = [self.truth(a) for a in args]
                absorbing = op is TermOp.ANY
                if absorbing in known:
                    return absorbing
                return None if None in known else not absorbing
            case _:
                lo, hi = self.bounds(self.exact(term))
                return False if lo == hi == 0 else True if lo > 0 or hi < 0 else None

    def alternatives(self, term: int, wanted: bool = True) -> list[list[AffineExpr]]:
        """Lists of expressions: where the truth value is ``wanted``, all expressions of one list are >= 0.

        The reverse holds too, unless ``is_overapproximate`` is set, which stays.
        """
        op, args, _, payload = self.rows[term]
        match op:
            case TermOp.CONST:
                return [[]] if (payload != 0) == wanted else []
            case TermOp.LT:
                a, b = self.exact(args[0]), self.exact(args[1])
                return self._kept([[shifted(minus(b, a), -1)]] if wanted else [[minus(a, b)]])
            case TermOp.EQ:
                difference = minus(self.exact(args[0]), self.exact(args[1]))
                opposite = scaled(difference, -1)
                if wanted:
                    return self._kept([[difference, opposite]])
                return self._kept([[shifted(difference, -1)], [shifted(opposite, -1)]])
            case TermOp.NOT:
                return self.alternatives(args[0], not wanted)
            case TermOp.ALL | TermOp.ANY:
                parts = [self.alternatives(a, wanted) for a in args]
                if (op is TermOp.ALL) == wanted:
                    return self.conjunction(parts)
                found = [each for p in parts for each in p]
                if [] in found:
                    return [[]]
                if len(found) <= _MAX_ALTERNATIVES:
                    return found
        self.is_overapproximate = True
        return [[]]

    def conjunction(self, parts: list[list[list[AffineExpr]]]) -> list[list[AffineExpr]]:
        """Alternatives of "all of them"."""
        found: list[list[AffineExpr]] = [[]]
        for part in parts:
            if len(found) * len(part) > _MAX_ALTERNATIVES:
                self.is_overapproximate = True
                continue
            found = [[*a, *b] for a in found for b in part]
        return found

    def _kept(self, lists: list[list[AffineExpr]]) -> list[list[AffineExpr]]:
        """Without what always holds; without lists that never hold; least and greatest of two taken apart."""
        found: list[list[AffineExpr]] = []
        for each in [part for one in lists for part in self._without_extremes(one)]:
            kept: list[AffineExpr] = []
            for one in each:
                lo, hi = self.bounds(one)
                if hi < 0:
                    break
                if lo < 0:
                    kept.append(one)
            else:
                if not kept:
                    return [[]]
                found.append(kept)
        return found

    def _without_extremes(self, exprs: list[AffineExpr]) -> list[list[AffineExpr]]:
        """Lists of expressions: all of ``exprs`` are >= 0 where all of one list are."""
        found: list[list[AffineExpr]] = [[]]
        for expr in exprs:
            parts = self._taken_apart(expr)
            if len(found) * len(parts) > _MAX_ALTERNATIVES:
                parts = [[expr]]
            found = [[*one, *part] for one in found for part in parts]
        return found

    def _taken_apart(self, expr: AffineExpr) -> list[list[AffineExpr]]:
        """Likewise of one expression: the least of two makes two conditions, the greatest a choice; or so."""
        for variable, factor in expr[1].items():
            unknown = self.unknowns[variable - BASES] if variable >= BASES else None
            if unknown is None or unknown.kind not in (UnknownKind.LEAST, UnknownKind.GREATEST):
                continue
            rest = expr[0], {v: c for v, c in expr[1].items() if v != variable}
            one, other = (self._taken_apart(plus(rest, scaled(each, factor))) for each in unknown.exprs)
            if (unknown.kind is UnknownKind.LEAST) == (factor > 0):
                return [[*a, *b] for a in one for b in other]
            return [*one, *other]
        return [[expr]]

    # -- loops -----------------------------------------------------------------------------------

    def _counter(self, number: int) -> AffineExpr:
        if number in self.fixed:
            return (self.fixed[number], {})
        key = (UnknownKind.COUNTER, number)
        variable = self._keys.get(key)
        if variable is None:
            unknown = Unknown(UnknownKind.COUNTER, (), number, I32, (0, INFINITY), False)
            variable = self.add(unknown)
            self._keys[key] = variable
            loop = self.loops[number]
            if loop is not None:
                last = self._last_iteration(loop, variable)
                unknown.range = (0, last)
                self.set_range(variable, unknown.range)
        return (0, {variable: 1})

    def _last_iteration(self, loop: Loop, variable: int) -> int:
        """The largest number of an iteration, INFINITY when unknown.

        First values are taken not to wrap; then that is checked for every iteration and the test that
        ends the loop.
        """
        conditions: list[int] = []
        for term in loop.conditions:
            row = self.rows[term]
            conditions += row.args if row.op is TermOp.ALL else (term,)
        best = INFINITY
        for term in conditions:
            last = self._last_by(term, variable)
            if last < best:
                self.set_range(variable, (0, max(last + 1, 0)))
                wraps = self._wraps
                saved, self._exprs = self._exprs, {}
                self._assumed, depth = 0, self._assumed
                after = self._last_by(term, variable, assume=False)
                self._exprs, self._assumed = saved, depth
                if wraps == self._wraps and after <= last:
                    best = last
                self.set_range(variable, (0, INFINITY))
        if best == INFINITY:
            best = self._geometric(conditions, variable)
        return max(best, -1)

    def _last_by(self, term: int, variable: int, assume: bool = True) -> int:
        """The last iteration for which one condition can hold."""
        self._assumed += assume
        found = self.alternatives(term)
        self._assumed -= assume
        best = max([self._last_in(each, variable) for each in found], default=-1)
        return self._unequal(found, variable) if best == INFINITY else best

    def _last_in(self, exprs: list[AffineExpr], variable: int) -> int:
        """The last iteration for which all expressions can be >= 0."""
        best = INFINITY
        for constant, parts in exprs:
            slope = parts.get(variable, 0)
            if slope:
                _, hi = interval((constant, {v: c for v, c in parts.items() if v != variable}), self.ranges)
                if hi < 0:  # not even in the first one
                    return -1
                if slope < 0 and is_finite(hi):
                    best = min(best, hi // -slope)
        return best

    def _unequal(self, found: list[list[AffineExpr]], variable: int) -> int:
        """The last iteration of a loop that runs until two values are equal, one unit nearer each time."""
        if [len(each) for each in found] != [1, 1] or plus(found[0][0], found[1][0]) != (-2, {}):
            return INFINITY
        for ((constant, parts),) in found:
            rest = shifted((constant, {v: c for v, c in parts.items() if v != variable}), 1)
            lo, hi = interval(rest, self.ranges)
            if parts.get(variable) == -1 and lo >= 0 and is_finite(hi):
                return hi - 1 if hi > 0 else -1
        return INFINITY

    def _geometric(self, conditions: list[int], variable: int) -> int:
        """The last iteration of a loop whose variable is multiplied or divided; sets its range."""
        counter = next(t for t, r in enumerate(self.rows) if r.op is TermOp.COUNTER and self._is(t, variable))
        own = [t for t, r in enumerate(self.rows) if r.op is TermOp.GEOMETRIC and r.args[2] == counter]
        best = INFINITY
        for term in own:
            _, args, kind, payload = self.rows[term]
            start, factor = self.exact(args[0]), self.exact(args[1])
            bounds = interval(start, self.ranges)
            if factor[1] or factor[0] < 2 or bounds[0] < 0:
                continue
            place = next(iter(self.expr(term)[1]))
            whole = self.ranges[place]
            low, high = bounds
            for iteration in range(_MAX_ITERATIONS):
                if bounds[1] > kind.hi:
                    break
                self.set_range(place, bounds)
                saved, self._exprs = self._exprs, {term: (0, {place: 1})}
                ended = any(self.truth(c) is False for c in conditions)
                self._exprs = saved
                if ended:
                    best = min(best, iteration - 1)
                    whole = (low, high)
                    break
                low, high = min(low, bounds[0]), max(high, bounds[1])
                if payload == "*":
                    bounds = (bounds[0] * factor[0], bounds[1] * factor[0])
                else:
                    bounds = (bounds[0] // factor[0], bounds[1] // factor[0])
            self.unknowns[place - BASES].range = whole
            self.set_range(place, whole)
        return best

    def _is(self, term: int, variable: int) -> bool:
        return self._keys.get((UnknownKind.COUNTER, self.rows[term].payload)) == variable
