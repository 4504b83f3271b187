"""Which values of a scalar make no difference to any access range: those of one residue in one interval.

A step counter of which only ``t % 3`` and ``t == 0`` matter has four cases, however often it changes; each
case has its own plan and recording.  What a few bits decide (``t % 2``) is ``shaping``'s.  Found on the terms
of the analysis: a scalar has cases if accesses, guards and loops depend on it through remainders by constants
and comparisons with constants only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import lcm
from typing import TypeAlias, cast

from sdi.dataclass import dataclass
from sdi.sampling.analysis import KernelAnalysis
from sdi.sampling.shaping import roots
from sdi.sampling.terms import IntType, Row, TermOp

_MODULUS_MAX, _THRESHOLDS_MAX = 64, 8
_BITS_FEW = 6
_NBYTES = (4, 8)
_HIGHEST = (1 << 63) - 1
"""Numbers are compared with signs where recordings are looked for."""


@dataclass(frozen=True, slots=True)
class ScalarCase:
    """The values v of a scalar with ``lo`` <= v <= ``hi`` and v % ``modulus`` == ``residue`` >= 0.

    ``offset``, ``nbytes``, ``is_signed``: where in the argument it is, and as what.
    """

    offset: int
    nbytes: int
    is_signed: bool
    lo: int
    hi: int
    modulus: int
    residue: int


@dataclass(frozen=True, slots=True)
class _Use:
    """What matters of a scalar from ``lo`` to ``hi``: between which ``thresholds`` it is, rising, at which
    intervals begin, and its remainder.  Elsewhere all matters.
    """

    lo: int
    hi: int
    thresholds: tuple[int, ...] = ()
    modulus: int = 1


@dataclass(frozen=True, slots=True)
class _Scalar:
    offset: int
    type: IntType
    use: _Use

    def of(self, value: bytes) -> bytes | ScalarCase:
        nbytes, use = self.type.bits // 8, self.use
        own = value[self.offset : self.offset + nbytes]
        number = int.from_bytes(own, "little", signed=self.type.signed)
        if not use.lo <= number <= use.hi:
            return own
        at = bisect_right(use.thresholds, number)
        lo = use.thresholds[at - 1] if at else use.lo
        hi = use.thresholds[at] - 1 if at < len(use.thresholds) else use.hi
        residue = number % use.modulus
        return ScalarCase(self.offset, nbytes, self.type.signed, lo, hi, use.modulus, residue)

    @property
    def bits(self) -> int:
        return (1 << self.type.bits) - 1 << 8 * self.offset


@dataclass(frozen=True, slots=True)
class ArgumentCases:
    """The cases of scalars of one argument."""

    scalars: tuple[_Scalar, ...]

    @property
    def bits(self) -> int:
        """All bits of these scalars in the argument."""
        return sum([scalar.bits for scalar in self.scalars])

    def of(self, value: bytes) -> tuple[bytes | ScalarCase, ...]:
        """Equal for values of the argument between whose scalars there is no difference."""
        return tuple([scalar.of(value) for scalar in self.scalars])

    def tests(self, value: bytes) -> list[ScalarCase] | None:
        """What others hold that make no difference; None: each of some scalar's makes one."""
        found = [case for case in self.of(value) if isinstance(case, ScalarCase)]
        return found if len(found) == len(self.scalars) else None


def argument_cases(
    analyses: Iterable[KernelAnalysis], shaping: Mapping[int, int]
) -> dict[int, ArgumentCases]:
    """The cases of scalars, by argument.  All analyses are of one kernel.

    ``shaping``: bits that count, see ``shaping_bits``; scalars of which few do need no cases.
    """
    found: dict[_Key, _Use | None] = {}
    for analysis in analyses:
        for key, use in _Dependence(analysis.table.rows).uses(roots(analysis)).items():
            found[key] = _both(found[key], use) if key in found else use
    cases: dict[int, ArgumentCases] = {}
    for argument in {argument for argument, _, _ in found}:
        own = sorted([(offset, kind) for number, offset, kind in found if number == argument])
        if any(after < offset + kind.bits // 8 for (offset, kind), (after, _) in pairwise(own)):
            continue  # one scalar is looked at in several ways
        scalars: list[_Scalar] = []
        for offset, kind in own:
            use, bits = found[argument, offset, kind], shaping[argument] >> 8 * offset
            if use is not None and (bits & (1 << kind.bits) - 1).bit_count() > _BITS_FEW:
                scalars.append(_Scalar(offset, kind, use))
        if scalars:
            cases[argument] = ArgumentCases(tuple(scalars))
    return cases


_Key: TypeAlias = tuple[int, int, IntType]
"""Argument, offset in it, type."""
_Uses: TypeAlias = dict[_Key, _Use | None]


def _both(a: _Use | None, b: _Use | None) -> _Use | None:
    """What matters where both do; None: all."""
    if a is None or b is None:
        return None
    lo, hi, modulus = max(a.lo, b.lo), min(a.hi, b.hi), lcm(a.modulus, b.modulus)
    thresholds = tuple(sorted({at for at in (*a.thresholds, *b.thresholds) if lo < at <= hi}))
    if lo > hi or modulus > _MODULUS_MAX or len(thresholds) > _THRESHOLDS_MAX:
        return None
    return _Use(lo, hi, thresholds, modulus)


@dataclass(frozen=True, slots=True)
class _Line:
    """(``factor`` * scalar + ``constant``) // ``divisor``, while lo <= scalar <= hi."""

    scalar: _Key
    factor: int
    constant: int
    divisor: int
    lo: int
    hi: int


class _Dependence:
    """What each term depends on: a line of one scalar, cases of scalars ("uses"), or neither."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._known: dict[int, _Line | _Uses | None] = {}

    def uses(self, terms: Iterable[int]) -> _Uses:
        """What matters of each scalar to all of ``terms``."""
        found: _Uses = {}
        pending, seen = list(terms), set[int]()
        while pending:
            term = pending.pop()
            if term in seen:
                continue
            seen.add(term)
            own = self._of(term)
            if isinstance(own, dict):
                for key, use in own.items():
                    found[key] = _both(found[key], use) if key in found else use
                continue
            row = self._rows[term]
            if row.op is TermOp.SCALAR:
                found[_key(row)] = None
            pending += row.args
        return found

    def _of(self, term: int) -> _Line | _Uses | None:
        """A dictionary: the term is decided by these cases of scalars.  None: by something else too."""
        if term not in self._known:
            self._known[term] = self._found(term)
        return self._known[term]

    def _found(self, term: int) -> _Line | _Uses | None:
        row = self._rows[term]
        if row.op is TermOp.CONST:
            return {}
        if row.op is TermOp.SCALAR:
            kind = row.type
            return _Line(_key(row), 1, 0, 1, kind.lo, kind.hi) if kind.bits // 8 in _NBYTES else None
        if not row.args or row.op is TermOp.GEOMETRIC:
            return None
        parts = [self._of(each) for each in row.args]
        lines = [part for part in parts if isinstance(part, _Line)]
        if None in parts:
            return None
        if not lines:  # a pure function of what is decided
            found: _Uses = {}
            for part in parts:
                for key, use in cast(_Uses, part).items():
                    found[key] = _both(found[key], use) if key in found else use
            return None if None in found.values() else found
        return self._of_line(row, lines[0]) if len(lines) == 1 else None

    def _of_line(self, row: Row, line: _Line) -> _Line | _Uses | None:
        """Of a term with one argument that is a line, and others that are decided."""
        others = [self._rows[each] for each in row.args if not isinstance(self._of(each), _Line)]
        match row.op:
            case TermOp.LINEAR if not others and line.divisor == 1:
                constant, (factor,) = cast(tuple[int, tuple[int, ...]], row.payload)
                return _unwrapped(line, line.factor * factor, line.constant * factor + constant, row.type)
            case TermOp.CONVERT if line.divisor == 1:
                return _unwrapped(line, line.factor, line.constant, row.type)
            case TermOp.FLOORDIV:
                divisor = line.divisor * cast(int, row.payload)
                return _Line(line.scalar, line.factor, line.constant, divisor, line.lo, line.hi)
            case TermOp.FLOORMOD:
                return _decided(line, (), line.divisor * cast(int, row.payload))
            case TermOp.OPERATION if row.payload == "%" and row.args[0] != row.args[1]:
                number = others[0].payload if others[0].op is TermOp.CONST else None
                is_first = isinstance(self._of(row.args[0]), _Line)
                if not isinstance(number, int) or number == 0 or not is_first:
                    return None
                return _decided(line, (_passes(line, 0),), line.divisor * abs(number))
            case TermOp.LT | TermOp.EQ if others[0].op is TermOp.CONST:
                number = cast(int, others[0].payload)
                at, above = _passes(line, number), _passes(line, number + 1)
                if row.op is TermOp.EQ:
                    return _decided(line, (at, above), 1)
                return _decided(line, (at if self._rows[row.args[1]] is others[0] else above,), 1)
            case _:
                return None


def _key(row: Row) -> _Key:
    return (*cast(tuple[int, int], row.payload), row.type)


def _unwrapped(line: _Line, factor: int, constant: int, kind: IntType) -> _Line | None:
    """The line with these numbers, as far as nothing wraps in ``kind``."""
    if factor == 0:
        return None
    low, high = (
        (kind.lo - constant, kind.hi - constant) if factor > 0 else (constant - kind.hi, constant - kind.lo)
    )
    size = abs(factor)
    lo, hi = max(line.lo, -(-low // size)), min(line.hi, high // size)
    return _Line(line.scalar, factor, constant, 1, lo, hi) if lo <= hi else None


def _passes(line: _Line, number: int) -> int:
    """The value of the scalar from which on the line is at least ``number``; if it falls, no longer is."""
    wanted = number * line.divisor - line.constant  # factor * scalar >= wanted
    return -(-wanted // line.factor) if line.factor > 0 else -wanted // -line.factor + 1


def _decided(line: _Line, thresholds: Iterable[int], modulus: int) -> _Uses | None:
    kind = line.scalar[2]
    found = _both(_Use(line.lo, line.hi), _Use(kind.lo, min(kind.hi, _HIGHEST), (*thresholds,), modulus))
    return None if found is None else {line.scalar: found}
