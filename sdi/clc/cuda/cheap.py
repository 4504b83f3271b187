"""Operands of ``&&`` and ``||`` that may be computed whether they are needed or not.

A branch around a comparison costs a GPU more than the comparison, above all in loops that few warps run:
drivers' compilers compute both sides where that is cheap, NVRTC's often does not.
"""

from __future__ import annotations

from collections.abc import Container

from sdi.clc.cuda.builtins import NATIVE_GEOMETRY
from sdi.clc.cuda.types import is_scalar
from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode, callee_of

_NODES_MAX = 12
"""Operations and values; beyond that a branch may be worth it."""
_LITERALS = (NodeKind.INTEGER_LITERAL, NodeKind.FLOATING_LITERAL, NodeKind.CHARACTER_LITERAL)
_BINARY = frozenset({"<", ">", "<=", ">=", "==", "!=", "&", "|", "^", "&&", "||"})
_CHANGES = frozenset({"=", "++", "--", "x++", "x--"})
_WRAPPING = frozenset({"+", "-", "*"})
_OWN_GEOMETRY = "__sdi_get_"
_LOCAL_GEOMETRY = frozenset({"get_local_id", "get_local_size"})


def may_be_computed(before: SyntaxNode, node: SyntaxNode, known: Container[int]) -> bool:
    """Whether ``node`` may be computed in vain, and at any time, beside ``before``, its first operand.

    It is short, changes nothing, reads no memory and can't go wrong, and what comes before it changes nothing
    that it reads.  Sums and products of signed integers are written so that they wrap.  ``known``:
    declarations of variables that have a value from the start.
    """
    return _changes_nothing(before) and _left(node, _NODES_MAX, known) >= 0


def _changes_nothing(node: SyntaxNode) -> bool:
    for each in node.walk():
        is_change = each.kind is NodeKind.COMPOUND_ASSIGNMENT or each.operator in _CHANGES
        is_call = each.kind is NodeKind.CALL and not _is_geometry(each)
        if is_change or is_call or each.kind is NodeKind.COMPOUND:
            return False
    return True


def _left(node: SyntaxNode, budget: int, known: Container[int]) -> int:
    """What is left of ``budget`` after ``node``; negative where it must not be computed in vain."""
    operands = node.operands
    match node.kind:
        case NodeKind.PAREN:
            return _left(operands[0], budget, known)
        case NodeKind.UNEXPOSED | NodeKind.CAST:
            if not operands or not is_scalar(node.type):
                return -1
            inner = operands[-1]
            if inner.type.form is Form.VECTOR and node.kind is NodeKind.UNEXPOSED:  # a component
                return budget - 1 if _is_private(inner, known) else -1
            is_defined = node.type.form is Form.FLOATING or inner.type.form is Form.INTEGER
            return _left(inner, budget, known) if is_scalar(inner.type) and is_defined else -1
        case NodeKind.DECL_REF:
            return budget - 1 if is_scalar(node.type) and _is_private(node, known) else -1
        case NodeKind.INTEGER_LITERAL | NodeKind.FLOATING_LITERAL | NodeKind.CHARACTER_LITERAL:
            return budget - 1
        case NodeKind.UNARY_OPERATOR:
            is_safe = node.operator in ("!", "~") or (node.operator == "-" and operands[0].kind in _LITERALS)
            return _left(operands[0], budget - 1, known) if is_safe and is_scalar(operands[0].type) else -1
        case NodeKind.BINARY_OPERATOR:
            if node.operator not in _BINARY | _WRAPPING or not all(is_scalar(n.type) for n in operands):
                return -1
            left = _left(operands[0], budget - 1, known)
            return _left(operands[1], left, known) if left >= 0 else left
        case NodeKind.CALL:
            return budget - 1 if _is_geometry(node) else -1
        case _:
            return -1


def _is_private(node: SyntaxNode, known: Container[int]) -> bool:
    """A variable in registers that has a value, or a parameter."""
    while node.kind in (NodeKind.PAREN, NodeKind.UNEXPOSED) and len(node.operands) == 1:
        node = node.operands[0]
    is_variable = node.kind is NodeKind.DECL_REF and node.declaration in known
    return is_variable and not node.type.volatile and node.type.space in (Space.PRIVATE, Space.NONE)


def _is_geometry(node: SyntaxNode) -> bool:
    """An identifier or size of the launch, of a dimension that is written down."""
    reference = callee_of(node)
    if reference is None:
        return False
    *before, dimension = node.children[1:] or (node,)
    while dimension.kind in (NodeKind.PAREN, NodeKind.UNEXPOSED) and len(dimension.operands) == 1:
        dimension = dimension.operands[0]
    if reference.name.startswith(_OWN_GEOMETRY):
        return len(before) == 1 and dimension.kind is NodeKind.INTEGER_LITERAL
    is_given = reference.name in NATIVE_GEOMETRY | _LOCAL_GEOMETRY
    return not before and is_given and dimension.kind is NodeKind.INTEGER_LITERAL
