"""Bounds of floating-point numbers that are the same for all work-items, whatever a device makes of them.

OpenCL leaves each operation some room: sums and products are rounded correctly, or not at all where they are
contracted; quotients and functions may be off by some units in the last place; denormal numbers may be taken
for zero.  The bounds contain every result that is allowed, and more: each error is taken several times.
Source: OpenCL C 3.0 specification, section 7.4 (relative error as ULPs) and 6.6 (contraction).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from operator import add, mul, sub
from typing import NamedTuple

from sdi.dataclass import dataclass
from sdi.sampling.terms import IntType

Bounds = tuple[float, float]
"""The smallest and the largest value; both are finite."""

_SLACK = 4
"""Errors are taken so many times as large as they are allowed to be."""
_LITERAL = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)([fF]?)\Z")
_HEX_LITERAL = re.compile(r"(0[xX][0-9a-fA-F]{0,6}\.?[0-9a-fA-F]{0,6}[pP][+-]?\d{1,3})([fF]?)\Z")
_LITERAL_LENGTH = 60


class _Format(NamedTuple):
    """A floating-point type: bits of the significand, the least normal number, and one that is large."""

    digits: int
    least: float
    most: float
    pack: str
    bits: str


_FORMATS = {
    4: _Format(24, 2.0**-126, 2.0**127, "<f", "<I"),
    8: _Format(53, 2.0**-1022, 2.0**1023, "<d", "<Q"),
}
FLOAT_SIZES = frozenset(_FORMATS)
"""Bytes of the types that are followed."""


@dataclass(frozen=True, slots=True)
class FloatValue:
    """A number of a floating-point type of ``nbytes``: ``op`` of ``parts``.

    ``op``: an operator, a function's name, or "number" (a literal, ``text``), "bits" (those of ``term``),
    "integer" (the value of ``term``), "converted" (from another such type).
    ``size``: how many there are in it.
    """

    op: str
    nbytes: int
    parts: tuple[FloatValue, ...] = ()
    term: int = -1
    text: str = ""
    size: int = 1

    def terms(self) -> Iterator[int]:
        """The terms that it is made of."""
        if self.term >= 0:
            yield self.term
        for part in self.parts:
            yield from part.terms()


class _Nowhere(Exception):
    """There are no bounds: it may be infinite, or not a number."""


def integer_bounds(value: FloatValue, numbers: Mapping[int, int], kind: IntType) -> tuple[int, int] | None:
    """The least and the greatest integer that ``value`` becomes when it is converted to ``kind``.

    ``numbers``: the values of its terms.  None: that is not defined, or not known.
    """
    bounds = float_bounds(value, numbers)
    if bounds is None:
        return None
    lo, hi = math.trunc(bounds[0]), math.trunc(bounds[1])
    return (lo, hi) if kind.lo <= lo and hi <= kind.hi else None


def float_bounds(value: FloatValue, numbers: Mapping[int, int]) -> Bounds | None:
    """What ``value`` may be; None: nothing is known."""
    try:
        return _bounds(value, numbers)
    except (_Nowhere, ArithmeticError, ValueError):
        return None


def _bounds(value: FloatValue, numbers: Mapping[int, int]) -> Bounds:
    form = _FORMATS[value.nbytes]
    found = [_bounds(part, numbers) for part in value.parts]
    match value.op:
        case "number":
            exact = _literal(value.text)
            lo, hi = _rounded(exact, exact, form)
        case "bits":
            (lo,) = struct.unpack(form.pack, struct.pack(form.bits, numbers[value.term]))
            hi = lo
        case "integer":
            whole = Fraction(numbers[value.term])
            lo, hi = _rounded(whole, whole, form)
        case "converted":
            lo, hi = _rounded(Fraction(found[0][0]), Fraction(found[0][1]), form)
        case _:
            lo, hi = FLOAT_OPERATIONS[value.op](form, *found)
    if not (-form.most <= lo <= hi <= form.most):  # nor if one is not a number
        raise _Nowhere
    if lo < form.least and hi > -form.least:  # a denormal number may be taken for zero
        return min(lo, 0.0), max(hi, 0.0)
    return lo, hi


def is_literal(text: str) -> bool:
    """Whether the text is a number that is read here."""
    return len(text) <= _LITERAL_LENGTH and bool(_LITERAL.match(text) or _HEX_LITERAL.match(text))


def _literal(text: str) -> Fraction:
    decimal = _LITERAL.match(text)
    return Fraction(decimal[1]) if decimal else Fraction(float.fromhex(text.rstrip("fF")))


def _rounded(lo: Fraction, hi: Fraction, form: _Format) -> Bounds:
    """What numbers from ``lo`` to ``hi`` are rounded to, in whichever direction."""
    return _end(lo, -1, form), _end(hi, 1, form)


def _end(exact: Fraction, sign: int, form: _Format) -> float:
    if abs(exact) > form.most:
        raise _Nowhere
    near = float(exact)
    if Fraction(near) == exact and struct.unpack(form.pack, struct.pack(form.pack, near))[0] == near:
        return near
    return _moved(near, sign, 1.0, form)


def _moved(near: float, sign: int, ulps: float, form: _Format) -> float:
    return near + sign * max(abs(near) * ulps * _SLACK * 2.0 ** (1 - form.digits), form.least)


def _spread(lo: float, hi: float, ulps: float, form: _Format) -> Bounds:
    """What is at most so many units in the last place away from something from ``lo`` to ``hi``."""
    return _moved(lo, -1, ulps, form), _moved(hi, 1, ulps, form)


# -- operations ----------------------------------------------------------------------------------------


def _arithmetic(operation: Callable[[Fraction, Fraction], Fraction]) -> Callable[..., Bounds]:
    """Sums and products: of them the corners are the ends."""

    def bounds(form: _Format, a: Bounds, b: Bounds) -> Bounds:
        corners = [operation(Fraction(x), Fraction(y)) for x in a for y in b]
        return _rounded(min(corners), max(corners), form)

    return bounds


def _quotient(form: _Format, a: Bounds, b: Bounds) -> Bounds:
    if b[0] <= 0 <= b[1] or max(-b[0], b[1]) > form.most / 4:  # of such ones some reciprocals are denormal
        raise _Nowhere
    corners = [Fraction(x) / Fraction(y) for x in a for y in b]
    found = _rounded(min(corners), max(corners), form)
    return _spread(*found, 3, form) if form.digits < 53 else found


def _root(form: _Format, a: Bounds) -> Bounds:
    lo, hi = math.sqrt(a[0]), math.sqrt(a[1])
    if form.digits < 53:
        return _spread(lo, hi, 3, form)
    wide = _spread(lo, hi, 1, form)  # a double's root is rounded correctly
    low, high = (Fraction(root) ** 2 == Fraction(x) for root, x in zip((lo, hi), a, strict=True))
    return lo if low else wide[0], hi if high else wide[1]


def _power(form: _Format, a: Bounds, b: Bounds) -> Bounds:
    if a[0] <= 0:
        raise _Nowhere
    corners = [math.pow(x, y) for x in a for y in b]
    return _spread(min(corners), max(corners), 16, form)


def _rising(function: Callable[[float], float], ulps: float) -> Callable[..., Bounds]:
    """A function that never falls."""

    def bounds(form: _Format, a: Bounds) -> Bounds:
        return _spread(function(a[0]), function(a[1]), ulps, form)

    return bounds


def _whole(function: Callable[[float], float]) -> Callable[..., Bounds]:
    """Likewise one whose result has no error."""
    return lambda _, a: (float(function(a[0])), float(function(a[1])))


def _round(number: float) -> float:
    """To the nearest integer, halves away from zero."""
    whole = math.trunc(number)
    return whole + math.copysign(1, number) if abs(number - whole) >= 0.5 else whole


def _absolute(form: _Format, a: Bounds) -> Bounds:
    lo, hi = sorted((abs(a[0]), abs(a[1])))
    return (0.0 if a[0] <= 0 <= a[1] else lo), hi


def _rest(form: _Format, a: Bounds, b: Bounds) -> Bounds:
    if a[0] != a[1] or b[0] != b[1]:
        raise _Nowhere
    found = math.fmod(a[0], b[0])
    return found, found


FLOAT_OPERATIONS: dict[str, Callable[..., Bounds]] = {
    "+": _arithmetic(add),
    "-": _arithmetic(sub),
    "*": _arithmetic(mul),
    "/": _quotient,
    "minus": lambda _, a: (-a[1], -a[0]),
    "ceil": _whole(math.ceil),
    "floor": _whole(math.floor),
    "rint": _whole(round),
    "round": _whole(_round),
    "trunc": _whole(math.trunc),
    "fabs": _absolute,
    "fmin": lambda _, a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "fmax": lambda _, a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "fmod": _rest,
    "sqrt": _root,
    "pow": _power,
    "exp": _rising(math.exp, 4),
    "exp2": _rising(lambda x: math.pow(2.0, x), 4),
    "log": _rising(math.log, 4),
    "log2": _rising(math.log2, 4),
}
"""``(form, bounds of each operand)`` to those of the result; "minus" has one operand."""
WITH_TWO = frozenset({"+", "-", "*", "/", "fmin", "fmax", "fmod", "pow"})
