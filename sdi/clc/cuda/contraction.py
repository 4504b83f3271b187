"""Products that are fused with a sum or difference here: NVVM does so late, after it has unrolled loops.

Drivers' front ends fuse within an expression, so the loops that NVVM sees there are shorter.  It fuses no
differences at all: ptxas does.
Source: OpenCL C 3.0 specification, section 6.13 (FP_CONTRACT).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sdi.clc.cuda.types import is_scalar, unqualified
from sdi.clc.frontend.syntax import Form, NodeKind, SyntaxNode

_OFF = re.compile(r"#\s*pragma\s+OPENCL\s+FP_CONTRACT\s*:?\s*OFF")
_ELEMENTS = ("float", "double")
_LITERALS = (NodeKind.INTEGER_LITERAL, NodeKind.FLOATING_LITERAL)
_WRAPPERS = (NodeKind.PAREN, NodeKind.UNEXPOSED, NodeKind.CAST)


def may_contract(text: str) -> bool:
    """Whether a program leaves contraction on."""
    return _OFF.search(text) is None


def factors(node: SyntaxNode) -> tuple[SyntaxNode, SyntaxNode] | None:
    """The factors of a product of floats that is not known before it runs."""
    while node.kind is NodeKind.PAREN:
        node = node.operands[0]
    if node.kind is not NodeKind.BINARY_OPERATOR or node.operator != "*":
        return None
    element = node.type.element if node.type.form is Form.VECTOR else node.type
    if element is None or not is_scalar(element) or unqualified(element) not in _ELEMENTS:
        return None
    first, second = node.operands
    return None if _is_number(first) and _is_number(second) else (first, second)


def fused(node: SyntaxNode, operand: Callable[[SyntaxNode], str]) -> str:
    """A sum or difference with a product, rounded once; empty where it is none.  ``operand`` writes one.

    Of two products it is the left one, as in clang's front end; NVVM takes either.
    """
    left, right = node.operands
    first, second = factors(left), factors(right)
    if first is None and second is None:
        return ""
    sign = "-" * (node.operator == "-")
    a, b = map(operand, first or second or ())
    if first is not None:
        return f"_cl_fused({a}, {b}, {sign}{operand(right)})"
    return f"_cl_fused({sign}{a}, {b}, {operand(left)})"


def subtracted(left: SyntaxNode, right: SyntaxNode) -> tuple[SyntaxNode, SyntaxNode] | None:
    """The factors of ``right`` in ``left -= right``, where both have one type; NVVM fuses ``+=`` itself."""
    is_plain = not left.type.volatile and unqualified(left.type) == unqualified(right.type)
    return factors(right) if is_plain else None


def _is_number(node: SyntaxNode) -> bool:
    """Made of literals."""
    operands = node.operands
    if node.kind in _WRAPPERS or node.operator == "-":
        return bool(operands) and all(map(_is_number, operands))
    if node.kind is NodeKind.BINARY_OPERATOR and node.operator in ("+", "*", "/"):
        return all(map(_is_number, operands))
    return node.kind in _LITERALS
