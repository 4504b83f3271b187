"""GNU's statement expressions, ``({ ... })``, and where jumps in them go."""

from __future__ import annotations

import re

from sdi.clc.frontend.syntax import LOOPS, Form, NodeKind, SyntaxNode, Tree

_LABEL = re.compile(r"(?:goto\s+)?([\w$\x80-\xff]+)")
_WRAPPERS = (NodeKind.UNEXPOSED, NodeKind.PAREN, NodeKind.CAST)


def statement_expression(tree: Tree, node: SyntaxNode) -> SyntaxNode | None:
    """The block of a statement expression; None for any other node."""
    is_one = node.kind is NodeKind.OTHER and len(node.children) == 1 and tree.text.startswith("(", node.begin)
    return node.children[0] if is_one and node.children[0].kind is NodeKind.COMPOUND else None


def inside(tree: Tree, node: SyntaxNode) -> SyntaxNode | None:
    """The statement expression that an expression is, but for conversions."""
    while node.kind in _WRAPPERS and len(node.operands) == 1:
        node = node.operands[0]
    return node if statement_expression(tree, node) is not None else None


def with_value(node: SyntaxNode, whole: SyntaxNode, value: SyntaxNode) -> SyntaxNode:
    """``node``, conversions of ``whole``, as conversions of ``value``."""
    if node is whole:
        return value
    inner = with_value(node.operands[0], whole, value)
    return node._replace(children=(inner,), begin=value.begin, end=value.end)


def label_of(tree: Tree, node: SyntaxNode) -> str:
    """The name of a label or of what a goto goes to, as it is written there."""
    match = _LABEL.match(tree.text, node.begin)
    assert match is not None
    return match.group(1).encode("latin-1").decode("utf-8", "replace")


def leaves(tree: Tree, block: SyntaxNode) -> bool:
    """Whether a jump in a block goes out of it."""
    labels = {label_of(tree, each) for each in block.walk() if each.kind is NodeKind.LABEL}

    def goes(node: SyntaxNode, in_loop: bool, in_switch: bool) -> bool:
        match node.kind:
            case NodeKind.RETURN | NodeKind.INDIRECT_GOTO:
                return True
            case NodeKind.GOTO:
                return label_of(tree, node) not in labels
            case NodeKind.BREAK:
                return not in_loop and not in_switch
            case NodeKind.CONTINUE:
                return not in_loop
        in_loop, in_switch = in_loop or node.kind in LOOPS, in_switch or node.kind is NodeKind.SWITCH
        return any(goes(child, in_loop, in_switch) for child in node.children)

    return goes(block, False, False)


def value_of(block: SyntaxNode) -> SyntaxNode | None:
    """The expression whose value a statement expression has, through labels; None without one."""
    last = block.children[-1] if block.children else None
    while last is not None and last.kind is NodeKind.LABEL:
        last = last.children[-1]
    if last is None or 200 <= last.kind < 300 or last.type.form is Form.VOID:
        return None
    return last
