"""What operators and built-in functions of OpenCL C do to integers, one entry for each.

``OPERATIONS`` has them by the name that OpenCL C has for them; a new one needs an entry, and nothing else.
Sums, products by numbers, floor divisions by powers of two and truth values are no entries: affine
expressions are made of them (``terms.py``, ``affine_context.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np

from sdi.dataclass import dataclass
from sdi.sampling.affine import AffineExpr, Range, plus, scaled
from sdi.sampling.terms import IntType, TermOp, Terms

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class Undefined(Exception):
    """A value depends on what the specification leaves open."""


class ExprMaker(Protocol):
    """What expressions are made with: ``AffineContext``.  ``term``: the one whose expression is made."""

    ranges: list[Range]

    def bounds(self, found: AffineExpr) -> Range:
        """Its smallest and largest value, as far as is known."""
        ...

    def fresh_unknown(self, term: int, kind: IntType, bounds: Range | None = None) -> AffineExpr:
        """Any value of ``kind`` within ``bounds``."""
        ...

    def floor(self, a: AffineExpr, divisor: int, term: int) -> AffineExpr:
        """``floor(a / divisor)``, ``divisor`` > 0."""
        ...

    def modulo(self, a: AffineExpr, divisor: int, term: int) -> AffineExpr:
        """``a - divisor * floor(a / divisor)``, ``divisor`` > 0."""
        ...

    def product(self, a: AffineExpr, b: AffineExpr, term: int) -> AffineExpr:
        """``a * b``."""
        ...

    def extreme(self, least: bool, a: AffineExpr, b: AffineExpr, term: int) -> AffineExpr:
        """The least, or greatest, of two expressions."""
        ...


def _not_simpler(terms: Terms, kind: IntType, *operands: int) -> int | None:
    return None


def _no_expr(made: ExprMaker, term: int, kind: IntType, *operands: AffineExpr) -> AffineExpr | None:
    return None


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on integers of one type, which its result has too (but for what is shifted by).

    ``name``: in OpenCL C, of an operator or a built-in function.
    ``fold``: ``(type, numbers...)`` to the number, not yet wrapped; None where C leaves it undefined.  These
    may be traced: such ones have ``+ - * // % << >> & | ^ abs`` and compare, and ``int(x)`` has everything.
    ``dense``: the same of arrays of the type; raises Undefined.
    ``expr``: ``(maker, term, type, exact expressions...)`` to one congruent to the value; None: it may be any
    of the type.  Where all expressions are numbers ``fold`` is asked instead.
    ``simplify``: ``(terms, type, terms...)`` to a term without the operation; None: there is none.
    ``level``: how strongly an operator binds where it is printed; ``*`` has 5.
    """

    name: str
    fold: Callable[..., int | None]
    dense: Callable[..., Array]
    expr: Callable[..., AffineExpr | None] = _no_expr
    simplify: Callable[..., int | None] = _not_simpler
    commutes: bool = False
    level: int = 2

    @property
    def is_call(self) -> bool:
        """Whether it is written as a call of a function."""
        return self.name.isidentifier()


OPERATIONS: dict[str, Operation] = {}
"""By name.  Filled by ``register``, before programs are built."""


def register(operation: Operation) -> None:
    """Let expressions have ``operation``."""
    assert operation.name not in OPERATIONS, f"{operation.name!r} is there already"
    OPERATIONS[operation.name] = operation


def operate(terms: Terms, name: str, *operands: int) -> int:
    """The term for an operation on terms, all of one type but for what is shifted by."""
    operation, kind = OPERATIONS[name], terms.type(operands[0])
    numbers = [terms.value(operand) for operand in operands]
    if None not in numbers:
        folded = operation.fold(kind, *numbers)
        if folded is not None:
            return terms.const(folded, kind)
    simpler = operation.simplify(terms, kind, *operands)
    if simpler is not None:
        return simpler
    args = tuple(sorted(operands)) if operation.commutes else operands
    return terms.make(TermOp.OPERATION, args, kind, name)


# -- division ------------------------------------------------------------------------------------------


def _quotient(kind: IntType, x: int, y: int) -> int | None:
    """C division: towards zero."""
    return None if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _remainder(kind: IntType, x: int, y: int) -> int | None:
    quotient = _quotient(kind, x, y)
    return None if quotient is None else x - y * quotient


def quotients(kind: IntType, a: Array, b: Array) -> Array:
    """C division: towards zero.  By zero: nothing that a correct kernel uses."""
    b = np.where(b == 0, np.ones_like(b), b)
    found = a // b
    return np.where((found * b != a) & ((a < 0) != (b < 0)), found + 1, found)


def _remainders(kind: IntType, a: Array, b: Array) -> Array:
    found: Array = a - quotients(kind, a, b) * np.where(b == 0, np.ones_like(b), b)
    return found


def _divided(made: ExprMaker, term: int, kind: IntType, a: AffineExpr, b: AffineExpr) -> AffineExpr | None:
    lo, hi = made.bounds(a)
    if b[1] or b[0] == 0:
        low = made.bounds(b)[0]
        return made.fresh_unknown(term, kind, (0, hi // low)) if lo >= 0 and low > 0 else None
    divisor = b[0]
    if divisor > 0 and lo >= 0:
        return made.floor(a, divisor, term)
    if divisor > 0 and hi <= 0:
        return scaled(made.floor(scaled(a, -1), divisor, term), -1)
    bound = max(abs(lo), abs(hi)) // abs(divisor)
    return made.fresh_unknown(term, kind, (-bound, bound))


def _remaining(made: ExprMaker, term: int, kind: IntType, a: AffineExpr, b: AffineExpr) -> AffineExpr | None:
    lo, hi = made.bounds(a)
    if b[1] or b[0] == 0:
        low, high = made.bounds(b)
        return made.fresh_unknown(term, kind, (0, min(hi, high - 1))) if lo >= 0 and low > 0 else None
    divisor = b[0]
    if divisor > 0 and lo >= 0:
        return made.modulo(a, divisor, term)
    if divisor > 0 and hi <= 0:
        return scaled(made.modulo(scaled(a, -1), divisor, term), -1)
    size = abs(divisor)
    return made.fresh_unknown(term, kind, (-(size - 1) if lo < 0 else 0, size - 1 if hi > 0 else 0))


def _simpler_division(terms: Terms, kind: IntType, a: int, b: int) -> int | None:
    y = terms.value(b)
    if y == 1 or _is_unsigned_power(kind, y):
        return terms.floordiv(a, y or 1)
    return None


def _simpler_remainder(terms: Terms, kind: IntType, a: int, b: int) -> int | None:
    y = terms.value(b)
    return terms.floormod(a, y or 1) if _is_unsigned_power(kind, y) else None


def _is_unsigned_power(kind: IntType, y: int | None) -> bool:
    return y is not None and y > 0 and y & (y - 1) == 0 and not kind.signed


# -- bits ----------------------------------------------------------------------------------------------


def _simpler_shift(left: bool) -> Callable[[Terms, IntType, int, int], int | None]:
    def simplify(terms: Terms, kind: IntType, a: int, b: int) -> int | None:
        y = terms.value(b)
        if y is None:
            return None
        unit = 1 << (y & (kind.bits - 1))
        return terms.scale(a, unit) if left else terms.floordiv(a, unit)

    return simplify


def _amount(kind: IntType, values: Array, by: Array) -> Array:
    return (by & (kind.bits - 1)).astype(values.dtype)


def _shifted_left(
    made: ExprMaker, term: int, kind: IntType, a: AffineExpr, b: AffineExpr
) -> AffineExpr | None:
    if not b[1]:
        return scaled(a, 1 << (b[0] & (kind.bits - 1)))
    (lo, hi), (low, high) = made.bounds(a), made.bounds(b)
    if lo >= 0 and 0 <= low <= high < kind.bits and hi << high <= kind.hi:
        return made.fresh_unknown(term, kind, (lo << low, hi << high))
    return None


def _shifted_right(
    made: ExprMaker, term: int, kind: IntType, a: AffineExpr, b: AffineExpr
) -> AffineExpr | None:
    if not b[1]:
        return made.floor(a, 1 << (b[0] & (kind.bits - 1)), term)
    lo, hi = made.bounds(a)
    return made.fresh_unknown(term, kind, (0, hi)) if lo >= 0 and made.bounds(b)[0] >= 0 else None


_BIT_RUNS_MAX = 4
"""Of a mask; each makes two divisions."""


def _is_mask(number: int | None) -> bool:
    return number is not None and number >= 0 and number & (number + 1) == 0


def _masked(terms: Terms, kind: IntType, a: int, b: int) -> int | None:
    for one, mask in ((a, terms.value(b)), (b, terms.value(a))):
        if mask is not None and _is_mask(mask):
            return terms.floormod(one, mask + 1)
    return None


def _without_zero(terms: Terms, kind: IntType, a: int, b: int) -> int | None:
    return a if terms.value(b) == 0 else b if terms.value(a) == 0 else None


def _in_both(made: ExprMaker, term: int, kind: IntType, a: AffineExpr, b: AffineExpr) -> AffineExpr | None:
    for one, (mask, none) in ((a, b), (b, a)):
        if not none and (found := _bits_of(made, term, one, mask)) is not None:
            return found
    tops = _tops(made, a, b)
    return None if tops is None else made.fresh_unknown(term, kind, (0, min(tops)))


def _bits_of(made: ExprMaker, term: int, one: AffineExpr, mask: int) -> AffineExpr | None:
    """Its bits in a mask, each run of them as what a division leaves; None where there are many runs."""
    if mask < 0:
        rest = _bits_of(made, term, one, ~mask)
        return None if rest is None else plus(one, rest, -1)
    if _is_mask(mask):
        return made.modulo(one, mask + 1, term)
    found: AffineExpr = (0, {})
    mask = int(mask)
    for _ in range(_BIT_RUNS_MAX):
        low = mask & -mask
        high = low + mask & -(low + mask)
        part = made.modulo(made.floor(one, low, term), high // low, term)
        found, mask = plus(found, part, low), mask & -high
        if not mask:
            return found
    return None


def _in_any(made: ExprMaker, term: int, kind: IntType, a: AffineExpr, b: AffineExpr) -> AffineExpr | None:
    tops = _tops(made, a, b)
    if tops is not None and (_are_disjoint(made, a, b) or _are_disjoint(made, b, a)):
        return plus(a, b)
    both = _in_both_with_number(made, term, a, b)
    if both is not None:
        return plus(plus(a, b), both, -1)
    if tops is None:
        return None
    least = max(made.bounds(a)[0], made.bounds(b)[0])
    return made.fresh_unknown(term, kind, (least, (1 << max(tops).bit_length()) - 1))


def _in_one(made: ExprMaker, term: int, kind: IntType, a: AffineExpr, b: AffineExpr) -> AffineExpr | None:
    both = _in_both_with_number(made, term, a, b)
    if both is not None:
        return plus(plus(a, b), both, -2)
    tops = _tops(made, a, b)
    return None if tops is None else made.fresh_unknown(term, kind, (0, (1 << max(tops).bit_length()) - 1))


def _in_both_with_number(made: ExprMaker, term: int, a: AffineExpr, b: AffineExpr) -> AffineExpr | None:
    """``a & b`` where one of them is a number."""
    return None if a[1] and b[1] else _bits_of(made, term, *((b, a[0]) if not a[1] else (a, b[0])))


def _tops(made: ExprMaker, a: AffineExpr, b: AffineExpr) -> Range | None:
    """The largest values of two expressions that are never negative, else None."""
    (lo, hi), (low, high) = made.bounds(a), made.bounds(b)
    return (hi, high) if lo >= 0 and low >= 0 else None


def _are_disjoint(made: ExprMaker, a: AffineExpr, b: AffineExpr) -> bool:
    """Whether ``a`` is below a power of two that divides ``b``."""
    unit = 1 << made.bounds(a)[1].bit_length()
    return b[0] % unit == 0 and all(c % unit == 0 for c in b[1].values())


# -- functions -----------------------------------------------------------------------------------------


def _same(terms: Terms, kind: IntType, a: int, b: int) -> int | None:
    return a if a == b else None


def _least(made: ExprMaker, term: int, kind: IntType, a: AffineExpr, b: AffineExpr) -> AffineExpr:
    return made.extreme(True, a, b, term)


def _greatest(made: ExprMaker, term: int, kind: IntType, a: AffineExpr, b: AffineExpr) -> AffineExpr:
    return made.extreme(False, a, b, term)


def _bounds_24(kind: IntType) -> Range:
    return (-(1 << 23), (1 << 23) - 1) if kind.signed else (0, (1 << 24) - 1)


def _product_24(kind: IntType, x: int, y: int) -> int | None:
    low, high = _bounds_24(kind)
    return x * y if low <= x <= high and low <= y <= high else None


def _products_24(kind: IntType, a: Array, b: Array) -> Array:
    low, high = _bounds_24(kind)
    if any((v < low).any() or (v > high).any() for v in (a, b)):
        raise Undefined
    found: Array = a * b
    return found


def _multiplied_24(
    made: ExprMaker, term: int, kind: IntType, a: AffineExpr, b: AffineExpr
) -> AffineExpr | None:
    low, high = _bounds_24(kind)
    for lo, hi in (made.bounds(a), made.bounds(b)):
        if lo < low or hi > high:
            return None
    return made.product(a, b, term)


def _high_halves(kind: IntType, a: Array, b: Array) -> Array:
    wide = np.int64 if kind.bits < 64 else object
    found: Array = (a.astype(wide) * b.astype(wide) >> kind.bits).astype(a.dtype)
    return found


def _high_half(made: ExprMaker, term: int, kind: IntType, a: AffineExpr, b: AffineExpr) -> AffineExpr | None:
    return None if a[1] and b[1] else made.floor(made.product(a, b, term), 1 << kind.bits, term)


def _leading_zeros(kind: IntType, a: Array) -> Array:
    whole = a.astype(f"u{kind.bits // 8}")
    found: Array = kind.bits - sum((whole >> bit != 0).astype(a.dtype) for bit in range(kind.bits))
    return found


for _each in (
    Operation("/", _quotient, quotients, _divided, _simpler_division, level=5),
    Operation("%", _remainder, _remainders, _remaining, _simpler_remainder, level=5),
    Operation(
        "<<",
        lambda kind, x, y: x << (y & (kind.bits - 1)),
        lambda kind, a, b: a << _amount(kind, a, b),
        _shifted_left,
        _simpler_shift(left=True),
        level=3,
    ),
    Operation(
        ">>",
        lambda kind, x, y: x >> (y & (kind.bits - 1)),
        lambda kind, a, b: a >> _amount(kind, a, b),
        _shifted_right,
        _simpler_shift(left=False),
        level=3,
    ),
    Operation("&", lambda _, x, y: x & y, lambda _, a, b: a & b, _in_both, _masked, commutes=True),
    Operation("|", lambda _, x, y: x | y, lambda _, a, b: a | b, _in_any, _without_zero, commutes=True),
    Operation("^", lambda _, x, y: x ^ y, lambda _, a, b: a ^ b, _in_one, _without_zero, commutes=True),
    Operation("min", lambda _, *n: min(n), lambda _, *n: np.minimum(*n), _least, _same, commutes=True),
    Operation("max", lambda _, *n: max(n), lambda _, *n: np.maximum(*n), _greatest, _same, commutes=True),
    Operation("mul24", _product_24, _products_24, _multiplied_24, commutes=True),
    Operation("mul_hi", lambda kind, x, y: x * y >> kind.bits, _high_halves, _high_half, commutes=True),
    Operation(
        "clz",
        lambda kind, x: kind.bits - (int(x) & ((1 << kind.bits) - 1)).bit_length(),
        _leading_zeros,
        lambda made, term, kind, _: made.fresh_unknown(term, kind, (0, kind.bits)),
    ),
):
    register(_each)
