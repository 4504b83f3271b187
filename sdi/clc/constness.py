"""Whether a program writes to what it has declared ``const``."""

from __future__ import annotations

from sdi.clc.frontend import assembly
from sdi.clc.frontend.syntax import OWN_SPACES, Form, NodeKind, SyntaxNode, Tree, Type


def drops_const(tree: Tree) -> bool:
    """Whether a pointer to ``const`` memory of an argument may become one to other memory, or a number.

    Where none does, nothing is written through an argument that points to ``const``: not by a pointer that
    was in memory or in a structure either, since whatever became of it is still of that type.
    """
    functions = (function.body for function in tree.functions.values())
    return any(_drops(tree, node) for body in functions if body is not None for node in body.walk())


def _drops(tree: Tree, node: SyntaxNode) -> bool:
    if node.type.punned:
        return True
    if node.kind is NodeKind.ASM:
        found = assembly.read(tree, node)
        return found is None or any(_is_const(each.node.type) for each in found.operands)
    if node.kind not in (NodeKind.CAST, NodeKind.UNEXPOSED) or not node.operands:
        return False
    given = node.operands[-1]  # what is before it belongs to the type
    before, after = given.type, node.type
    if after.form is Form.POINTER and before.form in (Form.INTEGER, Form.VECTOR):
        return given.kind is not NodeKind.INTEGER_LITERAL  # an address made of a number
    if reaches_pointers(before) or reaches_pointers(after):  # pointers may become others where they lie
        return before.element != after.element
    if not _is_const(before):
        return False
    return not _is_const(after) if after.form is Form.POINTER else node.kind is NodeKind.CAST


def reaches_pointers(of: Type) -> bool:
    """Whether it is the address of what holds pointers."""
    return of.form in (Form.POINTER, Form.ARRAY) and of.element is not None and of.element.holds_pointer


def _is_const(of: Type) -> bool:
    """Whether it points to ``const`` memory that an argument may name."""
    if of.form is not Form.POINTER:
        return False
    return of.element is None or (of.element.const and of.element.space not in OWN_SPACES)
