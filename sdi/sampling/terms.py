"""Integer expressions of a kernel, as a directed acyclic graph of hash-consed terms.

A term is an index into ``Terms.rows``; its row is plain data, so a graph can be pickled and compared.
Every term has a C integer type and stands for the value that the kernel computes, wrapping included.
Sums are kept as linear combinations, so that equal sums are equal terms and differences cancel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple, cast

from sdi.dataclass import dataclass

MAX_DEPTH = 200
MAX_PARTS = 200
"""Longer sums are any value: each one that is made of them would be longer still."""


class IntType(NamedTuple):
    """An integer type of OpenCL C."""

    bits: int
    signed: bool

    @property
    def lo(self) -> int:
        """Smallest value."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def hi(self) -> int:
        """Largest value."""
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    def wrap(self, value: int) -> int:
        """The value of this type that is congruent to ``value``."""
        if self.lo <= value <= self.hi:
            return value
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if self.signed and value >> (self.bits - 1) else value


I32 = IntType(32, True)
U32 = IntType(32, False)
I64 = IntType(64, True)
U64 = IntType(64, False)


class TermOp(IntEnum):
    """What a term is.  ``payload`` and arguments as said."""

    CONST = 0  # payload: value
    SCALAR = 1  # payload: (argument, byte offset in it)
    GLOBAL_ID = 2  # payload: dimension, also for the next ones
    GROUP_ID = 3
    LOCAL_ID = 4
    GLOBAL_SIZE = 5
    LOCAL_SIZE = 6
    NUM_GROUPS = 7
    GLOBAL_OFFSET = 8
    WORK_DIM = 9
    COUNTER = 10  # iteration number of a loop, from 0; payload: number of the loop
    OPAQUE = 11  # any value of its type; payload: (serial number, 1 when it depends on data)
    LINEAR = 12  # payload: (constant, coefficients of the arguments)
    MUL = 13
    OPERATION = 14  # payload: its name in ``ops.py``
    FLOORDIV = 15  # by a power of two: arithmetic shift; payload: the divisor
    FLOORMOD = 16  # by a power of two: mask; likewise
    CONVERT = 17
    SELECT = 18  # condition, then, else
    LT = 19
    EQ = 20
    NOT = 21  # of a truth value, also the next ones
    ALL = 22
    ANY = 23
    GEOMETRIC = 24  # start, factor, iteration number; payload: "*", "/" or, of floor division, "//"
    LOOKUP = 25  # index; payload: the table's values
    FLOAT = 26  # what a FloatValue becomes as an integer; the terms that it is made of; payload: the value


class Row(NamedTuple):
    """One term."""

    op: TermOp
    args: tuple[int, ...]
    type: IntType
    payload: object


_VARYING = frozenset(
    {TermOp.GLOBAL_ID, TermOp.GROUP_ID, TermOp.LOCAL_ID, TermOp.COUNTER, TermOp.OPAQUE, TermOp.GEOMETRIC}
)
_TRANSPARENT = frozenset({TermOp.LINEAR, TermOp.MUL, TermOp.CONVERT})
TRUTHS = frozenset({TermOp.LT, TermOp.EQ, TermOp.NOT, TermOp.ALL, TermOp.ANY})


@dataclass(frozen=True, slots=True)
class TermTable:
    """The finished graph.

    ``opaque``: for each term, whether an OPAQUE is below it.
    """

    rows: tuple[Row, ...]
    opaque: tuple[bool, ...]


def rows_below(rows: Sequence[Row], terms: Iterable[int]) -> Iterator[Row]:
    """The rows of some terms and of all that they are made of, each once."""
    pending, seen = list(terms), set[int]()
    while pending:
        term = pending.pop()
        if term not in seen:
            seen.add(term)
            yield rows[term]
            pending += rows[term].args


class Terms:
    """Builds a graph.  Owned by: the thread of the build.

    ``chooses``: for each term, whether it is a sum or product of what a condition chooses, not data.
    ``uniform``: whether it is the same for all work-items, and in all iterations.
    ``operations``: a measure of the work so far.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.opaque: list[bool] = []
        self.chooses: list[bool] = []
        self.uniform: list[bool] = []
        self._newest: list[int] = []
        self._depth: list[int] = []
        self._index: dict[Row, int] = {}
        self._serial = 0
        self.operations = 0

    def finish(self) -> TermTable:
        """The graph as it is now."""
        return TermTable(tuple(self.rows), tuple(self.opaque))

    def make(self, op: TermOp, args: tuple[int, ...], kind: IntType, payload: object = None) -> int:
        """The term with this row; too deep a term becomes opaque."""
        row = Row(op, args, kind, payload)
        self.operations += 1 + len(args)
        known = self._index.get(row)
        if known is not None:
            return known
        depth = 1 + max((self._depth[a] for a in args), default=0)
        if depth > MAX_DEPTH:
            return self.unknown(kind, data=any(self.opaque[a] for a in args))
        number = len(self.rows)
        self._index[row] = number
        self.rows.append(row)
        self.opaque.append(op is TermOp.OPAQUE or any(self.opaque[a] for a in args))
        self.uniform.append(op not in _VARYING and all(self.uniform[a] for a in args))
        if op is TermOp.SELECT:
            self.chooses.append(not self.opaque[args[0]])
        else:
            self.chooses.append(op in _TRANSPARENT and any(self.chooses[a] for a in args))
        newest = max((self._newest[a] for a in args), default=-1)
        self._newest.append(number if op in (TermOp.OPAQUE, TermOp.COUNTER) else newest)
        self._depth.append(depth)
        return number

    # -- leaves ----------------------------------------------------------------------------------

    def const(self, value: int, kind: IntType = I32) -> int:
        """A constant, wrapped to its type."""
        return self.make(TermOp.CONST, (), kind, kind.wrap(value))

    def unknown(self, kind: IntType, data: bool = True) -> int:
        """A fresh value that nothing is known about but its type."""
        self._serial += 1
        return self.make(TermOp.OPAQUE, (), kind, (self._serial, int(data)))

    def type(self, term: int) -> IntType:
        """The type of a term."""
        return self.rows[term].type

    def value(self, term: int) -> int | None:
        """The value of a constant, else None."""
        row = self.rows[term]
        return row.payload if row.op is TermOp.CONST and isinstance(row.payload, int) else None

    def is_older(self, term: int, mark: int) -> bool:
        """Whether it depends on no unknown and no counter made since there were ``mark`` terms."""
        return self._newest[term] < mark

    def mentions(self, term: int, leaf: int) -> bool:
        """Whether ``leaf`` is below ``term``."""
        seen: set[int] = set()
        pending = [term]
        while pending:
            at = pending.pop()
            if at == leaf:
                return True
            if at not in seen and at > leaf:  # arguments are older than what they are in
                seen.add(at)
                pending += self.rows[at].args
        return False

    # -- sums ------------------------------------------------------------------------------------

    def parts(self, term: int) -> tuple[int, dict[int, int]]:
        """Constant and coefficients of a sum; other terms are a sum of one."""
        row = self.rows[term]
        if row.op is TermOp.LINEAR:
            constant, coefficients = cast(tuple[int, tuple[int, ...]], row.payload)
            return constant, dict(zip(row.args, coefficients, strict=True))
        value = self.value(term)
        return (value, {}) if value is not None else (0, {term: 1})

    def sum(self, constant: int, parts: dict[int, int], kind: IntType) -> int:
        """``constant`` plus each term times its coefficient, in the ring of ``kind``."""
        signed = IntType(kind.bits, True)
        items = sorted((t, signed.wrap(c)) for t, c in parts.items())
        items = [(t, c) for t, c in items if c]
        if not items:
            return self.const(constant, kind)
        constant = signed.wrap(constant)
        if constant == 0 and len(items) == 1 and items[0][1] == 1:
            return items[0][0]
        if len(items) > MAX_PARTS:
            return self.unknown(kind, data=any(self.opaque[t] for t, _ in items))
        return self.make(
            TermOp.LINEAR, tuple(t for t, _ in items), kind, (constant, tuple(c for _, c in items))
        )

    def add(self, a: int, b: int, sign: int = 1) -> int:
        """``a + sign * b``, both of one type."""
        kind = self.type(a)
        assert kind == self.type(b), "operands of a sum have one type"
        constant, parts = self.parts(a)
        more, others = self.parts(b)
        for term, coefficient in others.items():
            parts[term] = parts.get(term, 0) + sign * coefficient
        return self.sum(constant + sign * more, parts, kind)

    def sub(self, a: int, b: int) -> int:
        """``a - b``."""
        return self.add(a, b, -1)

    def scale(self, a: int, factor: int) -> int:
        """``a`` times a number."""
        constant, parts = self.parts(a)
        return self.sum(constant * factor, {t: c * factor for t, c in parts.items()}, self.type(a))

    def mul(self, a: int, b: int) -> int:
        """``a * b``, both of one type."""
        for one, other in ((a, b), (b, a)):
            value = self.value(one)
            if value is not None:
                return self.scale(other, value)
        return self.make(TermOp.MUL, (min(a, b), max(a, b)), self.type(a))

    # -- conversions -----------------------------------------------------------------------------

    def convert(self, a: int, kind: IntType) -> int:
        """``(kind)a``."""
        row = self.rows[a]
        if row.type == kind:
            return a
        value = self.value(a)
        if value is not None:
            return self.const(value, kind)
        if kind.bits <= row.type.bits:
            if row.op is TermOp.LINEAR:
                constant, parts = self.parts(a)
                narrow: dict[int, int] = {}
                for term, coefficient in parts.items():
                    made = self.convert(term, kind)
                    narrow[made] = narrow.get(made, 0) + coefficient
                return self.sum(constant, narrow, kind)
            if row.op is TermOp.CONVERT:
                return self.convert(row.args[0], kind)
            if row.op is TermOp.MUL:
                return self.mul(self.convert(row.args[0], kind), self.convert(row.args[1], kind))
        return self.make(TermOp.CONVERT, (a,), kind)

    # -- other arithmetic ------------------------------------------------------------------------

    def floordiv(self, a: int, divisor: int) -> int:
        """``a`` divided by a power of two, downwards."""
        return a if divisor == 1 else self.make(TermOp.FLOORDIV, (a,), self.type(a), divisor)

    def floormod(self, a: int, divisor: int) -> int:
        """``a`` modulo a power of two."""
        kind = self.type(a)
        return self.const(0, kind) if divisor == 1 else self.make(TermOp.FLOORMOD, (a,), kind, divisor)

    def lookup(self, index: int, values: tuple[int, ...], kind: IntType) -> int:
        """``values[index]``."""
        number = self.value(index)
        if number is not None:
            return self.const(values[number], kind) if 0 <= number < len(values) else self.unknown(kind)
        return self.make(TermOp.LOOKUP, (index,), kind, values)

    def select(self, condition: int, a: int, b: int) -> int:
        """``condition ? a : b``."""
        value = self.value(condition)
        if a == b or value is not None:
            return b if value == 0 else a
        return self.make(TermOp.SELECT, (condition, a, b), self.type(a))

    # -- truth values ----------------------------------------------------------------------------

    def truth(self, a: int) -> int:
        """``a != 0`` as 0 or 1."""
        row = self.rows[a]
        if row.op in TRUTHS:
            return a
        if row.op is TermOp.CONVERT and self.rows[row.args[0]].op in TRUTHS:
            return row.args[0]
        value = self.value(a)
        if value is not None:
            return self.const(int(value != 0))
        return self.negate(self.equal(a, self.const(0, row.type)))

    def less(self, a: int, b: int) -> int:
        """``a < b``, both of one type."""
        if a == b:
            return self.const(0)
        x, y = self.value(a), self.value(b)
        if x is not None and y is not None:
            return self.const(int(x < y))
        return self.make(TermOp.LT, (a, b), I32)

    def equal(self, a: int, b: int) -> int:
        """``a == b``, both of one type."""
        if a == b:
            return self.const(1)
        x, y = self.value(a), self.value(b)
        if x is not None and y is not None:
            return self.const(int(x == y))
        for one, other in ((a, y), (b, x)):
            row = self.rows[one]
            if other == 0 and (row.op in TRUTHS or row.op is TermOp.CONVERT):
                inner = one if row.op in TRUTHS else row.args[0]
                if self.rows[inner].op in TRUTHS:
                    return self.negate(inner)
        return self.make(TermOp.EQ, (min(a, b), max(a, b)), I32)

    def negate(self, a: int) -> int:
        """``!a`` of a truth value."""
        row = self.rows[a]
        value = self.value(a)
        if value is not None:
            return self.const(int(value == 0))
        if row.op is TermOp.NOT:
            return row.args[0]
        if row.op in (TermOp.ALL, TermOp.ANY):
            return self.join(
                [self.negate(x) for x in row.args], TermOp.ANY if row.op is TermOp.ALL else TermOp.ALL
            )
        return self.make(TermOp.NOT, (a,), I32)

    def join(self, terms: list[int], op: TermOp = TermOp.ALL) -> int:
        """All, or any, of some truth values."""
        absorbing = 0 if op is TermOp.ALL else 1
        kept: dict[int, None] = {}
        for term in terms:
            row = self.rows[term]
            for each in row.args if row.op is op else (term,):
                value = self.value(each)
                if value == absorbing:
                    return self.const(absorbing)
                if value is None:
                    kept[each] = None
        if not kept:
            return self.const(1 - absorbing)
        if len(kept) == 1:
            return next(iter(kept))
        return self.make(op, tuple(kept), I32)
