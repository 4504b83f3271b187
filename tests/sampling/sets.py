"""The bytes of a kernel's accesses as sets of integers that isl computes, at any size: an oracle.

Nothing here uses the affine expressions, ranges or closed forms of ``sdi.sampling``.  From the symbolic run's
terms each access becomes a set over ids, loop counters and what C computes from them, wrapping included, with
the corners of a box of work-groups as parameters.  Data are any values of their types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd
from typing import cast

import islpy as isl

from sdi.ndrange import GroupBox, NDRange
from sdi.sampling import KernelAnalysis
from sdi.sampling.float_bounds import FloatValue, integer_bounds
from sdi.sampling.machine import Access, Loop
from sdi.sampling.terms import IntType, Row, TermOp

BOX = ("x0", "y0", "z0", "x1", "y1", "z1")
"""Parameters: the corners of a box, in work-groups."""
OPERATIONS_MAX = 40_000
_HORIZONS = (1 << 6, 1 << 12, 1 << 18, 1 << 25)
"""A loop's iterations are looked for below the first of these that it does not reach."""
_TABLE_MAX = 256
_IDS = {TermOp.GLOBAL_ID: "i", TermOp.GROUP_ID: "g", TermOp.LOCAL_ID: "l"}

Sum = tuple[int, dict[str, int]]
"""A constant and coefficients of variables."""


class NoSet(Exception):
    """The access has no set that isl can compute, or not with so many operations."""


@contextmanager
def few_operations(most: int = OPERATIONS_MAX) -> Iterator[None]:
    """Raises NoSet after so many of isl's operations: the same on every machine."""
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(most)
    try:
        yield
    except isl.Error as cause:
        raise NoSet(str(cause)) from cause
    finally:
        context.set_max_operations(0)


@dataclass(frozen=True, slots=True)
class ByteSet:
    """Bytes in units of ``unit``: ``[BOX] -> { [e] }``.

    ``is_certain``: these are touched, whatever the data; else these may be.
    """

    elements: isl.Set
    unit: int
    is_certain: bool

    def at(self, box: GroupBox, unit: int) -> isl.Set:
        """What a box of work-groups touches, in units that divide these; without parameters."""
        found = self.elements
        for number, corner in enumerate((*box.start, *box.stop)):
            found = found.fix_val(isl.dim_type.param, number, corner)
        found = found.project_out(isl.dim_type.param, 0, len(BOX))
        each = self.unit // unit
        if each == 1:
            return found
        return found.apply(isl.Map(f"{{ [e] -> [d] : {each}e <= d < {each}e + {each} }}"))


class KernelSets:
    """The accesses of one launch as sets."""

    def __init__(self, analysis: KernelAnalysis, ndrange: NDRange, values: tuple[bytes | None, ...]) -> None:
        self.rows, self.opaque = analysis.table.rows, analysis.table.opaque
        self.ndrange = ndrange
        self.values = values
        self._loops = analysis.loops
        self._known: dict[object, list[ByteSet] | NoSet] = {}

    def of(self, access: Access) -> list[ByteSet]:
        """What an access touches: the union of these.  Raises NoSet."""
        key = (access.offset, access.guards, access.loops, access.nbytes, access.is_definite)
        if key not in self._known:
            try:
                with few_operations():
                    self._known[key] = [each for each in self._of(access) if not each.elements.is_empty()]
            except NoSet as cause:
                self._known[key] = cause
        found = self._known[key]
        if isinstance(found, NoSet):
            raise found
        return found

    def _of(self, access: Access) -> Iterator[ByteSet]:
        loops = [loop for number in access.loops if (loop := self._loops[number]) is not None]
        if len(loops) < len(access.loops):
            raise NoSet("a loop of which nothing is known")
        roots = [access.offset, *access.guards]
        roots += [term for loop in loops for term in (*loop.conditions, *loop.guards)]
        below = self._below(roots)
        is_certain = access.is_definite and not any(self.opaque[term] for term in roots)
        others = [term for loop in loops for term in (*loop.conditions, *loop.guards)]
        unrolled = self._powers(below)
        start = _Writer(self, below, [n for n in access.loops if n not in unrolled], {})
        is_by_data = any(self.opaque[t] for t in others) or start.is_by_data(access.offset)
        is_by_guards = access.is_definite and not is_certain and not is_by_data
        for around in self._domains(list(zip(access.loops, loops, strict=True)), unrolled, start):
            yield self._touched(access, around, is_certain, _Writer.holds)
            if is_by_guards:
                yield self._touched(access, around, True, _Writer.surely)

    def _touched(
        self, access: Access, around: _Writer, is_certain: bool, written: Callable[[_Writer, int], str]
    ) -> ByteSet:
        writer = around.again()
        guards = [written(writer, guard) for guard in access.guards]
        constant, parts = writer.value(access.offset)
        unit = gcd(access.nbytes, constant, *parts.values())
        first = _text((constant // unit, {name: factor // unit for name, factor in parts.items()}))
        span = f"{first} <= e < {first} + {access.nbytes // unit}"
        found = writer.set_where([*guards, *writer.in_box(), span], [*writer.dims, "e"])
        found = found.intersect(writer.domain.add_dims(isl.dim_type.set, 1))
        found = found.project_out(isl.dim_type.set, 0, len(writer.dims)).coalesce()
        return ByteSet(found, unit, is_certain)

    # -- loops -----------------------------------------------------------------------------------

    def _domains(self, loops: list[tuple[int, Loop]], unrolled: set[int], at: _Writer) -> Iterator[_Writer]:
        """Where iterations happen: for each number of those that are unrolled, and all of the others."""
        if not loops:
            yield at
            return
        (number, loop), *rest = loops
        if number not in unrolled:
            yield from self._domains(rest, unrolled, self._iterated(number, loop, at))
            return
        for iteration in range(_HORIZONS[0]):
            at = at.again()
            at.fixed = {**at.fixed, number: iteration}
            holds = [at.truth(c, True) for c in (*loop.guards, *loop.conditions)]
            at.domain = at.domain.intersect(at.set_where(holds, at.dims))
            if at.domain.is_empty():
                return
            yield from self._domains(rest, unrolled, at)
        raise NoSet("too many iterations to unroll")

    def _iterated(self, number: int, loop: Loop, at: _Writer) -> _Writer:
        """With the iterations of one more loop: those before the first for which a condition fails."""
        counter = f"t{number}"
        dim = at.dims.index(counter)
        for horizon in _HORIZONS:
            found = at.again()
            found.ranges = {**at.ranges, counter: (0, horizon)}
            guards = [found.truth(guard, True) for guard in loop.guards]
            every = at.domain.intersect(found.set_where(guards, at.dims))
            left = every
            for condition in loop.conditions:
                if self.opaque[condition]:  # it may hold for some data
                    left = left.intersect(found.set_where([found.truth(condition, True)], at.dims))
                    continue
                ended = every.intersect(found.set_where([found.truth(condition, False)], at.dims))
                left = left.subtract(ended.apply(_onwards(at.dims, dim)))
            own = left.project_out(isl.dim_type.set, dim + 1, len(at.dims) - dim - 1)
            own = own.project_out(isl.dim_type.set, 0, dim).project_out(isl.dim_type.param, 0, len(BOX))
            last = -1 if own.is_empty() else cast(int, own.dim_max_val(0).to_python())
            if last < horizon:
                found.domain = left.coalesce()
                found.ranges = {**at.ranges, counter: (0, max(last, 0))}
                return found
        raise NoSet("no end of a loop")

    def _powers(self, below: set[int]) -> set[int]:
        """The loops whose counters are exponents: computed with as numbers only."""
        tops = [self.rows[term].args[2] for term in below if self.rows[term].op is TermOp.GEOMETRIC]
        return {
            cast(int, self.rows[term].payload)
            for term in self._below(tops)
            if self.rows[term].op is TermOp.COUNTER
        }

    def _below(self, roots: Sequence[int]) -> set[int]:
        found: set[int] = set()
        pending = list(roots)
        while pending:
            term = pending.pop()
            if term not in found:
                found.add(term)
                pending += self.rows[term].args
        return found


def _onwards(dims: Sequence[str], dim: int) -> isl.Map:
    """From each point to those with the same or a larger value of one dim."""
    later = [f"{name}_" if at == dim else name for at, name in enumerate(dims)]
    return isl.Map(f"{{ [{', '.join(dims)}] -> [{', '.join(later)}] : {later[dim]} >= {dims[dim]} }}")


def _text(found: Sum) -> str:
    parts = [f"{factor}*{name}" for name, factor in found[1].items()]
    return f"({' + '.join([*parts, str(found[0])])})"


def _plus(a: Sum, b: Sum, factor: int = 1) -> Sum:
    parts = dict(a[1])
    for name, more in b[1].items():
        parts[name] = parts.get(name, 0) + factor * more
    return a[0] + factor * b[0], {name: each for name, each in parts.items() if each}


def _times(a: Sum, factor: int) -> Sum:
    return _plus((0, {}), a, factor)


class _Writer:
    """Writes terms over ids and counters (``dims``) and further variables.

    ``domain``: the iterations that happen.  ``ranges``: of variables.  ``fixed``: counters that are numbers.
    """

    def __init__(self, sets: KernelSets, below: set[int], counters: list[int], fixed: dict[int, int]) -> None:
        n, rows = sets.ndrange, sets.rows
        self._sets = sets
        self.fixed = fixed
        self.ranges: dict[str, tuple[int, int]] = {}
        used = {(rows[t].op, cast(int, rows[t].payload)) for t in below if rows[t].op in _IDS}
        self._ids: dict[tuple[TermOp, int], Sum] = {}
        for dim in sorted({dim for _, dim in used}):
            local, first, groups = n.local_size[dim], n.offset[dim], n.num_groups[dim]
            if {op for op, number in used if number == dim} == {TermOp.GLOBAL_ID}:
                self.ranges[f"i{dim}"] = (first, first + groups * local - 1)
                self._ids[TermOp.GLOBAL_ID, dim] = (0, {f"i{dim}": 1})
                continue
            self.ranges[f"g{dim}"], self.ranges[f"l{dim}"] = (0, groups - 1), (0, local - 1)
            self._ids[TermOp.GROUP_ID, dim] = (0, {f"g{dim}": 1})
            self._ids[TermOp.LOCAL_ID, dim] = (0, {f"l{dim}": 1})
            self._ids[TermOp.GLOBAL_ID, dim] = (first, {f"g{dim}": local, f"l{dim}": 1})
        self.dims = [*self.ranges, *(f"t{number}" for number in counters)]
        self._clear()
        self.domain = isl.Set(f"[{', '.join(BOX)}] -> {{ [{', '.join(self.dims)}] }}")

    def _clear(self) -> None:
        self._own: list[str] = []
        self._conditions: list[str] = []
        self._ring: dict[int, Sum] = {}
        self._values: dict[int, Sum] = {}

    def again(self) -> _Writer:
        """The same dims and domain, and nothing written."""
        made = _Writer.__new__(_Writer)
        made._sets, made._ids, made.dims = self._sets, self._ids, self.dims
        made.fixed, made.domain = self.fixed, self.domain
        made.ranges = {name: self.ranges[name] for name in self.dims if name in self.ranges}
        made._clear()
        return made

    def set_where(self, parts: Iterable[str], dims: Sequence[str]) -> isl.Set:
        """The values of ``dims`` for which all is true, for some values of the other variables."""
        limits = [f"{low} <= {name} <= {high}" for name, (low, high) in self.ranges.items()]
        every = " and ".join([*limits, *self._conditions, *parts]) or "true"
        inner = f"exists ({', '.join(self._own)} : {every})" if self._own else every
        return isl.Set(f"[{', '.join(BOX)}] -> {{ [{', '.join(dims)}] : {inner} }}")

    def in_box(self) -> list[str]:
        """That the work-item is in the box that the parameters name."""
        n, found = self._sets.ndrange, []
        for (op, dim), (_, parts) in self._ids.items():
            low, high = BOX[dim], BOX[dim + 3]
            if op is TermOp.GROUP_ID:
                found.append(f"{low} <= g{dim} < {high}")
            elif f"i{dim}" in parts:
                local, first = n.local_size[dim], n.offset[dim]
                found.append(f"{first} + {local}*{low} <= i{dim} < {first} + {local}*{high}")
        return found

    # -- numbers ---------------------------------------------------------------------------------

    def _variable(self, low: int, high: int, *conditions: str) -> Sum:
        """A new one; ``{}`` in conditions is its name."""
        name = f"v{len(self._own)}"
        self._own.append(name)
        self.ranges[name] = (low, high)
        self._conditions += [condition.replace("{}", name) for condition in conditions]
        return (0, {name: 1})

    def _bounds(self, found: Sum) -> tuple[int, int]:
        low = high = found[0]
        for name, factor in found[1].items():
            ends = sorted(factor * end for end in self.ranges[name])
            low, high = low + ends[0], high + ends[1]
        return low, high

    def value(self, term: int) -> Sum:
        """What C computes."""
        if term not in self._values:
            self._values[term] = self._wrapped(self._congruent(term), self._sets.rows[term].type)
        return self._values[term]

    def _congruent(self, term: int) -> Sum:
        """The value, or what differs from it by a multiple of two to the number of its bits."""
        if term not in self._ring:
            self._ring[term] = self._make(self._sets.rows[term])
        return self._ring[term]

    def _wrapped(self, found: Sum, kind: IntType) -> Sum:
        low, high = self._bounds(found)
        first, last = (low - kind.lo) >> kind.bits, (high - kind.lo) >> kind.bits
        if first == last:
            return (found[0] - (first << kind.bits), found[1])
        turns = self._variable(first, last)
        around = _plus(found, turns, -(1 << kind.bits))
        return self._variable(kind.lo, kind.hi, f"{{}} = {_text(around)}")

    def _make(self, row: Row) -> Sum:
        op, args, kind, payload = row
        n = self._sets.ndrange
        match op:
            case TermOp.CONST:
                return (cast(int, payload), {})
            case TermOp.SCALAR:
                return (self._scalar(cast(tuple[int, int], payload), kind), {})
            case TermOp.GLOBAL_ID | TermOp.GROUP_ID | TermOp.LOCAL_ID:
                return self._ids[op, cast(int, payload)]
            case TermOp.GLOBAL_SIZE | TermOp.LOCAL_SIZE | TermOp.NUM_GROUPS | TermOp.GLOBAL_OFFSET:
                numbers = (n.global_size, n.local_size, n.num_groups, n.offset)[op - TermOp.GLOBAL_SIZE]
                return (numbers[cast(int, payload)], {})
            case TermOp.WORK_DIM:
                return (n.work_dim, {})
            case TermOp.COUNTER:
                number = cast(int, payload)
                if number in self.fixed:
                    return (self.fixed[number], {})
                if f"t{number}" not in self.ranges:
                    raise NoSet("a counter behind its loop")
                return (0, {f"t{number}": 1})
            case TermOp.OPAQUE:
                return self._variable(kind.lo, kind.hi)
            case TermOp.LINEAR:
                constant, factors = cast(tuple[int, tuple[int, ...]], payload)
                found: Sum = (constant, {})
                for arg, factor in zip(args, factors, strict=True):
                    found = _plus(found, self._congruent(arg), factor)
                return found
            case TermOp.CONVERT:
                is_narrower = kind.bits <= self._sets.rows[args[0]].type.bits
                return self._congruent(args[0]) if is_narrower else self.value(args[0])
            case TermOp.MUL:
                return self._product(self._congruent(args[0]), self._congruent(args[1]))
            case TermOp.FLOORDIV:
                return self._floor(self.value(args[0]), cast(int, payload))
            case TermOp.FLOORMOD:
                return self._bits(self.value(args[0]), cast(int, payload) - 1, kind)
            case TermOp.SELECT:
                return self._either(
                    [(self.truth(args[0], True), args[1]), (self.truth(args[0], False), args[2])]
                )
            case TermOp.LOOKUP:
                return self._looked_up(self.value(args[0]), cast(tuple[int, ...], payload))
            case TermOp.GEOMETRIC:
                return self._power(args, str(payload))
            case TermOp.OPERATION:
                return self._operated(str(payload), [self.value(arg) for arg in args], kind)
            case TermOp.FLOAT:
                return self._from_float(cast(FloatValue, payload), args, kind)
            case _:
                holds, fails = self._truth(row, True), self._truth(row, False)
                return self._variable(0, 1, f"(({{}} = 1 and {holds}) or ({{}} = 0 and {fails}))")

    def _from_float(self, value: FloatValue, args: tuple[int, ...], kind: IntType) -> Sum:
        """Any integer that the number may become."""
        sums = [self.value(arg) for arg in args]
        if any(parts for _, parts in sums):
            raise NoSet("a floating-point number of variables")
        numbers = {arg: constant for arg, (constant, _) in zip(args, sums, strict=True)}
        low, high = integer_bounds(value, numbers, kind) or (kind.lo, kind.hi)
        return (low, {}) if low == high else self._variable(low, high)

    def _scalar(self, place: tuple[int, int], kind: IntType) -> int:
        argument, first = place
        raw, stop = self._sets.values[argument], first + kind.bits // 8
        if raw is None or len(raw) < stop:
            raise NoSet("a scalar that is not given")
        return int.from_bytes(raw[first:stop], "little", signed=kind.signed)

    def _product(self, a: Sum, b: Sum) -> Sum:
        if not a[1]:
            return _times(b, a[0])
        if not b[1]:
            return _times(a, b[0])
        raise NoSet("a product of variables")

    def _floor(self, a: Sum, divisor: int) -> Sum:
        low, high = self._bounds(a)
        if low // divisor == high // divisor:
            return (low // divisor, {})
        whole = f"{divisor}*{{}} <= {_text(a)} <= {divisor}*{{}} + {divisor - 1}"
        return self._variable(low // divisor, high // divisor, whole)

    def _quotient(self, a: Sum, divisor: int) -> Sum:
        """Towards zero."""
        if divisor == 0:
            raise NoSet("a division by zero")
        low, high = self._bounds(a)
        sign, size = (1 if divisor > 0 else -1), abs(divisor)
        if low >= 0:
            return _times(self._floor(a, size), sign)
        if high <= 0:
            return _times(self._floor(_times(a, -1), size), -sign)
        text, most = _text(a), max(-low, high) // size
        up = f"({text} >= 0 and {size}*{{}} <= {text} < {size}*{{}} + {size})"
        down = f"({text} < 0 and {size}*{{}} >= {text} > {size}*{{}} - {size})"
        return _times(self._variable(-most, most, f"({up} or {down})"), sign)

    def _either(self, choices: Sequence[tuple[str, int]]) -> Sum:
        values = [self.value(term) for _, term in choices]
        if values[0] == values[1]:
            return values[0]
        ends = [self._bounds(value) for value in values]
        parts = [f"({{}} = {_text(v)} and {when})" for v, (when, _) in zip(values, choices, strict=True)]
        return self._variable(min(a for a, _ in ends), max(b for _, b in ends), f"({' or '.join(parts)})")

    def _extreme(self, a: Sum, b: Sum, sign: str) -> Sum:
        ends = [self._bounds(a), self._bounds(b)]
        of = min if sign == "<=" else max
        low, high = of(low for low, _ in ends), of(high for _, high in ends)
        if low == high:
            return (low, {})
        one, other = _text(a), _text(b)
        parts = f"(({{}} = {one} and {one} {sign} {other}) or ({{}} = {other} and {other} {sign} {one}))"
        return self._variable(low, high, parts)

    def _looked_up(self, index: Sum, table: tuple[int, ...]) -> Sum:
        if len(table) > _TABLE_MAX:
            raise NoSet("a long table")
        at = _text(index)
        parts = [f"({at} = {k} and {{}} = {item})" for k, item in enumerate(table)]
        beyond = f"{at} < 0 or {at} >= {len(table)}"
        return self._variable(min(table), max(table), f"({' or '.join([*parts, beyond])})")

    def _power(self, args: tuple[int, ...], how: str) -> Sum:
        found, factor, count = (self.value(arg) for arg in args)
        if factor[1] or count[1]:
            raise NoSet("a power of a variable")
        for _ in range(count[0]):
            if how == "*":
                found = _times(found, factor[0])
            elif how == "/" or self._bounds(found)[0] >= 0:
                found = self._quotient(found, factor[0])
            else:
                raise NoSet("a negative number is shifted")
        return found

    def _operated(self, name: str, values: list[Sum], kind: IntType) -> Sum:
        a, b = values[0], values[-1]
        match name:
            case "min" | "max":
                found = a
                for other in values[1:]:
                    found = self._extreme(found, other, "<=" if name == "min" else ">=")
                return found
            case "/" | "%" if not b[1]:
                quotient = self._quotient(a, b[0])
                return quotient if name == "/" else _plus(a, quotient, -b[0])
            case "<<" | ">>" if not b[1]:
                unit = 1 << (b[0] & (kind.bits - 1))
                return _times(a, unit) if name == "<<" else self._floor(a, unit)
            case "mul24":
                limit = 1 << (23 if kind.signed else 24)
                ends = [end for value in values for end in self._bounds(value)]
                if min(ends) < (-limit if kind.signed else 0) or max(ends) >= limit:
                    raise NoSet("what mul24 leaves open")
                return self._product(a, b)
            case "clz" if not a[1]:
                return (kind.bits - (a[0] & ((1 << kind.bits) - 1)).bit_length(), {})
            case "mul_hi":
                return self._floor(self._product(a, b), 1 << kind.bits)
            case "&" | "|" | "^" if not (a[1] and b[1]):
                mask, other = (a[0], b) if not a[1] else (b[0], a)
                both = self._bits(other, mask, kind)
                if name == "&":
                    return both
                return _plus(_plus(other, (mask, {})), both, -1 if name == "|" else -2)
        raise NoSet(f"{name} of variables")

    def _bits(self, a: Sum, mask: int, kind: IntType) -> Sum:
        """``a & mask``, run by run of its bits."""
        found: Sum = (0, {})
        at = 0
        while (mask & ((1 << kind.bits) - 1)) >> at:
            if not mask >> at & 1:
                at += 1
                continue
            end = at
            while end < kind.bits and mask >> end & 1:
                end += 1
            found = _plus(found, self._floor(a, 1 << at), 1 << at)
            if end < kind.bits:
                found = _plus(found, self._floor(a, 1 << end), -(1 << end))
            at = end
        return found

    # -- truth values ----------------------------------------------------------------------------

    def truth(self, term: int, wanted: bool) -> str:
        """That a term is not 0, or that it is."""
        row = self._sets.rows[term]
        if row.op in (TermOp.LT, TermOp.EQ, TermOp.NOT, TermOp.ALL, TermOp.ANY):
            return self._truth(row, wanted)
        return f"{_text(self.value(term))} {'!=' if wanted else '='} 0"

    def holds(self, term: int) -> str:
        """That a term is not 0."""
        return self.truth(term, True)

    def surely(self, term: int) -> str:
        """That a term is not 0, whatever the data: less than that."""
        row = self._sets.rows[term]
        if not self._sets.opaque[term]:
            return self.truth(term, True)
        if row.op not in (TermOp.ALL, TermOp.ANY):
            return "1 = 1" if self._is_sure(row, True) else "1 = 0"
        word = " and " if row.op is TermOp.ALL else " or "
        return f"({word.join(self.surely(arg) for arg in row.args)})"

    def is_by_data(self, term: int) -> bool:
        """Whether a term has other values for other data."""
        return self._sets.opaque[term] and any(name not in self.dims for name in self.value(term)[1])

    def _is_sure(self, row: Row, wanted: bool) -> bool:
        """Whether the bounds of what is compared decide it."""
        if row.op is TermOp.NOT:
            return self._is_sure(self._sets.rows[row.args[0]], not wanted)
        if row.op not in (TermOp.LT, TermOp.EQ):
            return False
        a, b = (self.value(arg) for arg in row.args)
        low, high = self._bounds(_plus(a, b, -1))
        if row.op is TermOp.LT:
            return high < 0 if wanted else low >= 0
        return low == high == 0 if wanted else low > 0 or high < 0

    def _truth(self, row: Row, wanted: bool) -> str:
        match row.op:
            case TermOp.LT:
                a, b = (self.value(arg) for arg in row.args)
                return f"{_text(_plus(a, b, -1))} {'<' if wanted else '>='} 0"
            case TermOp.EQ:
                a, b = (self.value(arg) for arg in row.args)
                return f"{_text(_plus(a, b, -1))} {'=' if wanted else '!='} 0"
            case TermOp.NOT:
                return self.truth(row.args[0], not wanted)
            case TermOp.ALL | TermOp.ANY:
                word = " and " if (row.op is TermOp.ALL) == wanted else " or "
                return f"({word.join(self.truth(arg, wanted) for arg in row.args)})"
        raise NoSet(f"no truth value: {row.op.name}")
