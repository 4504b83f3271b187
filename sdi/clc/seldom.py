"""What the text of a kernel says of how often something happens, and for how long.

Source: design/0023-atomics-that-answer.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sdi.clc.frontend.syntax import WAYS_OUT, NodeKind, Space, SyntaxNode, Tree, has_any
from sdi.clc.linear import changed_by

_PLACES = frozenset({NodeKind.DECL_REF, NodeKind.ARRAY_SUBSCRIPT, NodeKind.MEMBER_REF})
_CHOICES = frozenset({NodeKind.IF, NodeKind.CONDITIONAL_OPERATOR})
_SHORT = 40
"""Nodes of an expression."""
_READS = re.compile(r"(vload|read_image|atom)")
_FLIPPED = {"<": ">", ">": "<"}
_POSITIVE = re.compile(r"([1-9][0-9]*|get_(global|local)_size\(\s*[0-2]\s*\))[uUlL]*\Z")


def guarded_calls(tree: Tree, body: SyntaxNode) -> frozenset[int]:
    """The ``id()`` of each call in a function's body that only happens where data say so."""
    found: set[int] = set()
    values = _values(body)
    pending = [(body, False)]
    while pending:
        node, is_guarded = pending.pop()
        if node.kind is NodeKind.CALL and is_guarded:
            found.add(id(node))
        is_choice = node.kind in _CHOICES or node.operator in ("&&", "||")
        by_data = is_choice and not is_guarded and _is_data(tree, node.operands[0], values, set())
        for number, child in enumerate(node.operands):
            pending.append((child, is_guarded or (by_data and number > 0)))
            # What stands behind a way out happens less often than that.
            is_way_out = child.kind is NodeKind.IF and has_any(child, WAYS_OUT)
            if node.kind is NodeKind.COMPOUND and is_way_out and not is_guarded:
                is_guarded = _is_data(tree, child.operands[0], values, set())
    return frozenset(found)


def _values(body: SyntaxNode) -> dict[int, list[SyntaxNode]]:
    """All that is assigned to each variable, as far as that is seen."""
    found: dict[int, list[SyntaxNode]] = {}
    for node in body.walk():
        if node.kind is NodeKind.VAR_DECL:
            found.setdefault(node.declaration, []).extend(node.operands)
        elif node.kind is NodeKind.COMPOUND_ASSIGNMENT or node.operator == "=":
            found.setdefault(_variable(node.operands[0]), []).append(node.operands[1])
    return found


def _is_data(
    tree: Tree, condition: SyntaxNode, values: Mapping[int, Sequence[SyntaxNode]], seen: set[int]
) -> bool:
    """Whether a value is more than a little made of ids, sizes and scalar arguments: in memory, or computed
    at length, as a hash is.
    """
    for number, node in enumerate(condition.walk()):
        is_target = node.kind is NodeKind.UNARY_OPERATOR and node.operator == "*"
        if is_target or node.kind in (NodeKind.ARRAY_SUBSCRIPT, NodeKind.MEMBER_REF):
            return True
        if node.kind is not NodeKind.DECL_REF or node.declaration in seen:
            continue
        if node.declaration in tree.functions or _READS.match(node.name):
            return True
        seen.add(node.declaration)
        given = values.get(node.declaration, ())
        if number > _SHORT or len(given) > 1 or any(_is_data(tree, each, values, seen) for each in given):
            return True
    return False


def is_counted(tree: Tree, loop: SyntaxNode) -> bool:
    """Whether a loop surely ends, whatever is in memory: one number goes up or down to a bound."""
    if loop.kind is not NodeKind.FOR or len(loop.operands) != 4:
        return False
    _, condition, step, body = loop.operands
    if condition.kind is not NodeKind.BINARY_OPERATOR or not step.operands:
        return False
    counter = _variable(step.operands[0])
    if not counter or counter in changed_by([body, condition]):
        return False
    left, right = (_variable(each) for each in condition.operands)
    if (left == counter) == (right == counter):
        return False
    operator = condition.operator if left == counter else _FLIPPED.get(condition.operator, condition.operator)
    if step.kind is NodeKind.UNARY_OPERATOR:
        ways = {"++": ("<", "!="), "x++": ("<", "!="), "--": (">", "!="), "x--": (">", "!=")}
        return operator in ways.get(step.operator, ())
    return step.kind is NodeKind.COMPOUND_ASSIGNMENT and operator == "<" and _adds(tree, step)


def _adds(tree: Tree, step: SyntaxNode) -> bool:
    """Whether a positive number is added, or a number of work-items."""
    counter, by = step.operands
    return tree.text[counter.end : by.begin].strip() == "+=" and bool(_POSITIVE.match(tree.source(by)))


def reads_global(tree: Tree, loop: SyntaxNode) -> bool:
    """Whether a loop may read global memory, or calls what may."""
    return any(
        (
            (node.kind in _PLACES or node.kind is NodeKind.UNARY_OPERATOR)
            and node.type.space in (Space.GLOBAL, Space.GENERIC)
        )
        or (node.kind is NodeKind.DECL_REF and node.declaration in tree.functions)
        for node in loop.walk()
    )


def _variable(node: SyntaxNode) -> int:
    """The variable that an expression is; 0 where it is something else."""
    while node.kind in (NodeKind.PAREN, NodeKind.UNEXPOSED) and len(node.operands) == 1:
        node = node.operands[0]
    return node.declaration if node.kind is NodeKind.DECL_REF else 0
