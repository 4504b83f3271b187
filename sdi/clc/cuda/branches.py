"""Branches on ``&&`` and ``||`` as drivers' compilers have them.

``if`` jumps from operand to operand.  NVRTC computes a value of all operands and branches by that.  What
hangs on it may then become a choice by that value, while the branches that made the value stay: several in
each turn of a short loop.  Loops are the other way round: a little arithmetic is computed in each turn rather
than branched around, so that a turn has one branch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode


def _bare(node: SyntaxNode) -> SyntaxNode:
    while node.kind is NodeKind.PAREN:
        node = node.operands[0]
    return node


def is_chain(node: SyntaxNode) -> bool:
    """``&&`` or ``||`` of scalars."""
    node = _bare(node)
    is_logical = node.kind is NodeKind.BINARY_OPERATOR and node.operator in ("&&", "||")
    return is_logical and node.type.form is not Form.VECTOR


_ARITHMETIC_MAX = 4
_VALUES = (NodeKind.DECL_REF, NodeKind.PAREN, NodeKind.UNEXPOSED)


def is_little_arithmetic(node: SyntaxNode) -> bool:
    """A comparison of a few sums and products of floats in variables: computed in vain, it has no effect."""
    node = _bare(node)
    is_comparison = node.kind is NodeKind.BINARY_OPERATOR and node.operator in ("<", ">", "<=", ">=")
    if not is_comparison or node.type.form is Form.VECTOR:
        return False
    operations = 0
    for each in itertools.chain.from_iterable(side.walk() for side in node.operands):
        kind, found = each.kind, each.type
        if found.volatile or found.space not in (Space.NONE, Space.PRIVATE):
            return False
        if kind is NodeKind.BINARY_OPERATOR and each.operator in ("+", "-", "*"):
            operations += 1
        elif kind is NodeKind.UNARY_OPERATOR and each.operator in ("+", "-"):
            pass
        elif kind in (NodeKind.FLOATING_LITERAL, NodeKind.INTEGER_LITERAL):
            continue
        elif kind not in _VALUES:
            return False
        if found.form is not Form.FLOATING and (kind not in _VALUES or found.form is not Form.VECTOR):
            return False
    return 0 < operations <= _ARITHMETIC_MAX


class BranchWriter:
    """Writes such statements; ``condition`` writes one operand.  Owned by: the thread of the build."""

    def __init__(self, condition: Callable[[SyntaxNode], str]) -> None:
        self._condition = condition
        self._labels = (f"_cl_to{number}" for number in itertools.count())

    def __call__(self, condition: SyntaxNode, yes: str, no: str) -> str:
        """A block; ``yes`` and ``no``: blocks, the latter may be empty.

        No jump passes a declaration: those of ``yes`` and ``no`` are inside them.
        """
        begin, other, end = (next(self._labels) for _ in range(3))
        jumps = self._unless(condition, other, False, begin)
        rest = f"goto {end}; {other}: {no} {end}:;" if no else f"{other}:;"
        return f"{{ {jumps} {begin}: {yes} {rest} }}"

    def _unless(self, node: SyntaxNode, target: str, wanted: bool, other: str) -> str:
        """Jumps to ``target`` where ``node`` is as wanted, else on to what follows or to ``other``."""
        node = _bare(node)
        if node.kind is NodeKind.UNARY_OPERATOR and node.operator == "!" and is_chain(node.operands[0]):
            return self._unless(node.operands[0], target, not wanted, other)
        if not is_chain(node):
            return f"if ({'' if wanted else '!'}{self._condition(node)}) goto {target};"
        first, second = node.operands
        decisive, following = node.operator == "||", next(self._labels)
        jump = self._unless(first, target if wanted is decisive else other, decisive, following)
        return f"{jump} {following}: {self._unless(second, target, wanted, other)}"
