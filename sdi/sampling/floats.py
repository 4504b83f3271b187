"""Floating-point numbers of a symbolic run: those that are the same for all work-items are followed.

They are made of literals, scalar arguments and integers, and matter where they become integers again:
``(int)ceil((float)n / 64.0f)`` is a term whose value is found at a launch, when ``n`` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sdi.clc.frontend.syntax import Form, NodeKind, SyntaxNode, Tree, Type
from sdi.sampling.float_bounds import (
    FLOAT_OPERATIONS,
    FLOAT_SIZES,
    WITH_TWO,
    FloatValue,
    integer_bounds,
    is_literal,
)
from sdi.sampling.terms import IntType, TermOp, Terms

SIZE_MAX = 64
"""Numbers that are made of more parts are not followed."""
INEXACT = frozenset(
    {
        "-cl-fast-relaxed-math",
        "-cl-finite-math-only",
        "-cl-mad-enable",
        "-cl-single-precision-constant",
        "-cl-unsafe-math-optimizations",
    }
)
"""Options with which a result may be far from what the program says."""
_LOOSE = re.compile(r"clang\s+fp\b|float_control|\boptimize\b")
_LOOSE_WORDS = "clang", "float_control", "optimize"


def is_exact(text: str, options: Sequence[str]) -> bool:
    """Whether nothing in a program's text or its options loosens what operations may make of numbers."""
    if INEXACT.intersection(options):
        return False
    return not (any(word in text for word in _LOOSE_WORDS) and _LOOSE.search(text))


def keeps_number(tree: Tree, node: SyntaxNode, child: SyntaxNode) -> bool:
    """Whether a conversion keeps the number: not ``as_int(x)`` of a ``float``, which keeps the bits."""
    kinds = {(each.type.element or each.type).form for each in (node, child)}
    if node.kind is NodeKind.CAST or Form.FLOATING not in kinds:
        return True
    is_macro = child.kind is NodeKind.PAREN and tree.text[node.begin] != "("
    return (node.begin, node.end) == (child.begin, child.end) and not is_macro


class Floats:
    """Makes numbers on a machine's terms.  Owned by: the thread of the build.

    ``are_followed``: otherwise none is made.
    """

    def __init__(self, terms: Terms, are_followed: bool) -> None:
        self._terms = terms
        self.are_followed = are_followed

    def literal(self, text: str, of: Type) -> FloatValue | None:
        """The number that a literal says."""
        return self._made("number", of, text=text) if is_literal(text) else None

    def scalar(self, number: int, offset: int, of: Type) -> FloatValue | None:
        """The part of an argument at ``offset``."""
        if of.form is not Form.FLOATING or of.nbytes not in FLOAT_SIZES or not self.are_followed:
            return None
        bits = self._terms.make(TermOp.SCALAR, (), IntType(8 * of.nbytes, False), (number, offset))
        return self._made("bits", of, term=bits)

    def converted(self, value: object, of: Type) -> FloatValue | None:
        """An integer, or a number of another type, as one of type ``of``."""
        if isinstance(value, FloatValue):
            return value if value.nbytes == of.nbytes else self._made("converted", of, (value,))
        if isinstance(value, int) and self._terms.uniform[value]:
            return self._made("integer", of, term=value)
        return None

    def operated(self, name: str, operands: Sequence[object], of: Type) -> FloatValue | None:
        """An operator, or a function, of numbers of type ``of``."""
        numbers = [each for each in operands if isinstance(each, FloatValue) and each.nbytes == of.nbytes]
        if name not in FLOAT_OPERATIONS or not len(numbers) == len(operands) == 1 + (name in WITH_TWO):
            return None
        return self._made(name, of, tuple(numbers))

    def called(self, name: str, values: Sequence[object], of: Type) -> FloatValue | None:
        """A built-in function whose result is of type ``of``."""
        if name.startswith("convert_") and len(values) == 1:
            return self.converted(values[0], of)
        return self.operated(name, values, of) if name.isidentifier() and name != "minus" else None

    def integer(self, value: FloatValue, kind: IntType) -> int:
        """The term for ``(kind)value``, towards zero."""
        terms = self._terms
        args = tuple(sorted(set(value.terms())))
        numbers = {arg: number for arg in args if (number := terms.value(arg)) is not None}
        if kind.bits < 8:  # to a truth value it is compared with zero
            return terms.unknown(kind)
        if len(numbers) == len(args):
            bounds = integer_bounds(value, numbers, kind)
            if bounds is not None and bounds[0] == bounds[1]:
                return terms.const(bounds[0], kind)
        return terms.make(TermOp.FLOAT, args, kind, value)

    def _made(
        self, op: str, of: Type, parts: tuple[FloatValue, ...] = (), term: int = -1, text: str = ""
    ) -> FloatValue | None:
        size = 1 + sum(part.size for part in parts)
        is_known = of.form is Form.FLOATING and of.nbytes in FLOAT_SIZES and self.are_followed
        if not is_known or size > SIZE_MAX:
            return None
        self._terms.operations += size
        return FloatValue(op, of.nbytes, parts, term, text, size)
