"""Values that a condition chooses (``c ? a : b``), case by case, with what holds in each.

An index like ``i > 0 ? i - 1 : 0`` is affine in each of its cases only, within the ids of that case.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from sdi.sampling.terms import TermOp, Terms

MAX_CASES = 9
"""Of more (two ends in three dimensions), all are taken together."""

_Case = tuple[dict[int, bool], int]
"""Which of the truth values hold that were asked, and the value then."""


def cases(terms: Terms, term: int) -> list[tuple[tuple[int, ...], int]]:
    """The values of ``term``, each with truth values that all hold then; of all cases exactly one is there.

    A choice by data is none: nothing would be known of either case.
    """
    if not terms.chooses[term]:
        return [((), term)]
    found = _Cases(terms).of(term)
    if found is None:
        return [((), term)]
    return [
        (tuple([each if holds else terms.negate(each) for each, holds in asked.items()]), value)
        for asked, value in found
    ]


class _Cases:
    """Of one term and all below it, each once."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._known: dict[int, list[_Case] | None] = {}

    def of(self, term: int) -> list[_Case] | None:
        """None: there are too many."""
        if not self._terms.chooses[term]:
            return [({}, term)]
        if term not in self._known:
            found = self._made(term)
            self._known[term] = found if found is not None and len(found) <= MAX_CASES else None
        return self._known[term]

    def _made(self, term: int) -> list[_Case] | None:
        terms = self._terms
        op, args, kind, _ = terms.rows[term]
        parts = [each for each in map(self.of, args[1:] if op is TermOp.SELECT else args) if each is not None]
        if len(parts) < len(args) - (op is TermOp.SELECT):
            return None
        if op is TermOp.SELECT:
            condition = terms.truth(args[0])
            return [
                ({condition: holds, **asked}, value)
                for holds, branch in zip((True, False), parts, strict=True)
                for asked, value in branch
                if asked.get(condition, holds) is holds
            ]
        if op is TermOp.MUL:
            return _together(parts[0], parts[1], terms.mul)
        if op is TermOp.CONVERT:
            return [(asked, terms.convert(value, kind)) for asked, value in parts[0]]
        constant, factors = terms.parts(term)
        found: list[_Case] = [({}, terms.const(constant, kind))]
        for factor, part in zip(factors.values(), parts, strict=True):
            found = _together(
                found, [(asked, terms.scale(value, factor)) for asked, value in part], terms.add
            )
            if len(found) > MAX_CASES:
                return None
        return found


def _together(first: list[_Case], second: list[_Case], make: Callable[[int, int], int]) -> list[_Case]:
    """The cases of what ``make`` makes of two values."""
    return [
        ({**asked, **more}, make(a, b))
        for (asked, a), (more, b) in product(first, second)
        if all(asked.get(condition, holds) is holds for condition, holds in more.items())
    ]
