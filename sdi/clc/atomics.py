"""Calls of atomic functions that are ``Update``s: commutative, relaxed, their results unused.

Source: OpenCL C 3.0 specification, sections 6.15.12 (atomic functions) and 6.15.12.8 (legacy ones).
"""

from __future__ import annotations

import re

from sdi.atomics import Operation, Update
from sdi.clc.frontend.syntax import Form, NodeKind, SyntaxNode, Tree, Type

_LEGACY = re.compile(r"(?:atomic|atom)_(add|sub|inc|dec|min|max|and|or|xor)\Z")
_RELAXED = re.compile(r"atomic_fetch_(add|sub|min|max|and|or|xor)_explicit\Z")
_EXCHANGES = re.compile(r"(?:atomic|atom)_(xchg|cmpxchg)\Z")
_FLOATS = re.compile(r"atomic_fetch_(add|sub|min|max)(_explicit)?\Z")
_ORDERS = re.compile(r"\bmemory_order_\w+")
_ORDER_ARGUMENT = 2
_OPERATIONS: dict[str, Operation] = {
    "add": "add",
    "sub": "add",
    "inc": "add",
    "dec": "add",
    "min": "min",
    "max": "max",
    "and": "and",
    "or": "or",
    "xor": "xor",
}


def update_of(tree: Tree, name: str, arguments: tuple[SyntaxNode, ...]) -> Update | None:
    """The update that a call of ``name`` makes through its first argument, were its result unused."""
    match = _LEGACY.match(name)
    if match is None:
        match = _RELAXED.match(name)
        if match is None or not _is_relaxed(tree, arguments):
            return None
    pointee = arguments[0].type.element if arguments else None
    if pointee is None or pointee.form is not Form.INTEGER or pointee.nbytes not in (4, 8):
        return None
    operation = _OPERATIONS[match[1]]
    return Update(operation, pointee.nbytes, operation in ("min", "max") and not _is_unsigned(pointee))


def orders_nothing(tree: Tree, call: SyntaxNode, name: str) -> bool:
    """Whether an atomic function leaves the order of all other accesses open."""
    if _LEGACY.match(name) or _EXCHANGES.match(name):
        return True
    orders = set(_ORDERS.findall(tree.source(call)))
    return name.endswith("_explicit") and orders == {"memory_order_relaxed"}


def why_not_merged(name: str, arguments: tuple[SyntaxNode, ...]) -> str:
    """Why copies that such calls have changed can't be combined: of floating-point numbers; else empty."""
    match = _FLOATS.match(name)
    pointee = arguments[0].type.element if match is not None and arguments else None
    if match is None or pointee is None or pointee.form is not Form.FLOATING:
        return ""
    if match[1] in ("min", "max"):
        return "where the order decides which zero or NaN is left of floating-point numbers"
    return "where the order decides what floating-point numbers sum up to"


def unused_calls(body: SyntaxNode) -> frozenset[int]:
    """The ``id()`` of each call in a function's body whose result is plainly thrown away.

    In doubt a result is used: in a statement expression, say, whose last statement is its value.
    """
    found: set[int] = set()
    pending = [body]
    while pending:
        node = pending.pop()
        children = node.operands
        match node.kind:
            case NodeKind.COMPOUND:
                pending += children
            case NodeKind.IF | NodeKind.SWITCH:
                pending += children[1:]
            case NodeKind.WHILE | NodeKind.FOR | NodeKind.CASE | NodeKind.DEFAULT | NodeKind.LABEL:
                pending += children[-1:]
            case NodeKind.DO:
                pending += children[:1]
            case NodeKind.BINARY_OPERATOR if node.operator == ",":
                pending += children
            case NodeKind.PAREN | NodeKind.UNEXPOSED if len(children) == 1:
                pending += children
            case NodeKind.CAST if node.type.form is Form.VOID:
                pending += children
            case NodeKind.CALL:
                found.add(id(node))
            case _:
                pass
    return frozenset(found)


def _is_relaxed(tree: Tree, arguments: tuple[SyntaxNode, ...]) -> bool:
    return (
        len(arguments) > _ORDER_ARGUMENT
        and tree.source(arguments[_ORDER_ARGUMENT]).strip("() ") == "memory_order_relaxed"
    )


def _is_unsigned(pointee: Type) -> bool:
    """Of integers and atomic ones: the type of an ``atomic_uint`` is "_Atomic(unsigned int)"."""
    return pointee.unsigned or "unsigned" in pointee.canonical
