"""Which kernels follow pointers: what they do depends on where memory is, not only on what is in it.

Kernels that don't may have their arguments anywhere, each member its own copy.  What C can do with addresses
is listed here, so what is not on the list is missed: ``tests/clc/test_pointers.py`` has a case of each.
"""

from __future__ import annotations

from sdi.clc.frontend.syntax import (
    Form,
    Function,
    NodeKind,
    Space,
    SyntaxNode,
    Tree,
    Type,
    callee_of,
    is_zero,
)

_IN_MEMORY = frozenset({NodeKind.ARRAY_SUBSCRIPT, NodeKind.MEMBER_REF})
_OF_ONE_GROUP = frozenset({Space.LOCAL, Space.PRIVATE})
_COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">="})
_NUMBERS = frozenset({Form.INTEGER, Form.FLOATING, Form.VECTOR})
_CONVERSIONS = frozenset({NodeKind.CAST, NodeKind.UNEXPOSED})


def follows_pointers(tree: Tree, kernel: Function) -> SyntaxNode | None:
    """Where ``kernel`` or a function that it may call reads a pointer from memory or puts one there, makes
    one from a number or a number from one, compares, subtracts or prints some, looks at one's bytes, or has
    assembly; None: nowhere.
    """
    return next((node for node in tree.reached(kernel) if _follows(tree, node)), None)


def _follows(tree: Tree, node: SyntaxNode) -> bool:
    kind = node.kind
    if kind is NodeKind.ASM:
        return True
    if kind in _IN_MEMORY or (kind is NodeKind.UNARY_OPERATOR and node.operator == "*"):
        return _is_address(node.type)
    if kind is NodeKind.BINARY_OPERATOR:
        one, other = node.operands
        if node.operator in _COMPARISONS:
            return any(_is_address(each.type) for each in (one, other)) and not (
                is_zero(one, tree) or is_zero(other, tree)
            )
        return node.operator == "-" and _is_address(one.type) and _is_address(other.type)
    if kind is NodeKind.INIT_LIST:
        return any(_is_address(each.type) and not is_zero(each, tree) for each in node.walk())
    if kind in _CONVERSIONS and len(node.operands) == 1:
        (inner,) = node.operands
        if _converts(tree, inner, node.type) or _converts(tree, node, inner.type):
            return True
        return _looks_into(inner.type, node.type)
    if kind is NodeKind.CALL:
        callee = callee_of(node)
        return callee is not None and callee.name == "printf" and any(map(_is_printed, node.operands[2:]))
    return False


def _is_address(kind: Type) -> bool:
    """Of memory that other work-groups, or the application, may know too."""
    if kind.form is Form.ARRAY and kind.element is not None:
        return _is_address(kind.element)
    if kind.form is not Form.POINTER:
        return False
    return kind.element is None or kind.element.space not in _OF_ONE_GROUP


def _converts(tree: Tree, source: SyntaxNode, target: Type) -> bool:
    """Whether an integer of ``source`` becomes an address."""
    return source.type.form in _NUMBERS and _is_address(target) and not is_zero(source, tree)


def _looks_into(one: Type, other: Type) -> bool:
    """Whether memory that has addresses in it is seen as something else from there on."""
    if one.form is not Form.POINTER or other.form is not Form.POINTER:
        return False
    here, there = one.element, other.element
    if here is None or there is None:
        return here is not there
    holds = here.holds_pointer or there.holds_pointer or _is_address(here) or _is_address(there)
    return holds and here.canonical != there.canonical


def _is_printed(node: SyntaxNode) -> bool:
    """Whether an address may be among what is printed; texts are of constant memory."""
    return _is_address(node.type) and not (node.type.element and node.type.element.space is Space.CONSTANT)
