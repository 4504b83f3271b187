"""The variables of affine forms: ids, and *atoms*, which stand for what is not affine; and forms' bounds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sdi.sampling.affine import FINITE, INFINITY, Form, Range, interval, plus
from sdi.sampling.terms import IntType

GLOBAL, GROUP, LOCAL = 0, 3, 6  # first variables of the ids
BASES = 9


class UnknownKind(Enum):
    """What an atom is.

    FLOOR: of a form, divided by ``number``.  LEAST, GREATEST: of some forms.  EITHER: one of some forms.
    PRODUCT: of two forms.  WRAPPED: a form, wrapped to ``type``.  ANY: a value of ``range``.
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
class Atom:
    """A variable that is not an id."""

    kind: UnknownKind
    forms: tuple[Form, ...]
    number: int
    type: IntType
    range: Range
    is_data: bool


def bounds(found: Form, ranges: list[Range], atoms: list[Atom]) -> Range:
    """Smallest and largest value over a box of variables, where a remainder is below its divisor."""
    lo, hi = interval(found, ranges)
    below = above = 0
    for variable in sorted([v for v in found[1] if v >= BASES], reverse=True):
        atom, factor = atoms[variable - BASES], found[1].get(variable, 0)
        if atom.kind is UnknownKind.FLOOR and factor % atom.number == 0:
            # It is its form less 0 to number - 1, divided by the number.
            times = factor // atom.number
            rest = plus(plus(found, (0, {variable: 1}), -factor), atom.forms[0], times)
            if len(rest[1]) < len(found[1]):
                found = rest
                below += min(-times, 0) * (atom.number - 1)
                above += max(-times, 0) * (atom.number - 1)
    if below or above:
        low, high = interval(found, ranges)
        lo, hi = max(lo, low + below), min(hi, high + above)
    return lo, hi


def atom_range(atom: Atom, ranges: list[Range], atoms: list[Atom]) -> Range:
    """The range of an atom, given those of the variables below it."""
    lo, hi = _atom_range(atom, ranges, atoms)
    return (lo if lo > -FINITE else -INFINITY, hi if hi < FINITE else INFINITY)


def _atom_range(atom: Atom, ranges: list[Range], atoms: list[Atom]) -> Range:
    found = [bounds(f, ranges, atoms) for f in atom.forms]
    match atom.kind:
        case UnknownKind.FLOOR:
            return (found[0][0] // atom.number, found[0][1] // atom.number)
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
            return (lo, hi) if atom.type.lo <= lo and hi <= atom.type.hi else (atom.type.lo, atom.type.hi)
        case _:
            return atom.range
