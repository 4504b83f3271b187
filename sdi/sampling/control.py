"""What statements are made of, as a symbolic run needs to know it: chains of branches, exits, trip counts."""

from __future__ import annotations

from sdi.clc.frontend.syntax import LOOPS, STEPPING, Form, NodeKind, Space, SyntaxNode, Tree, Type, callee_of
from sdi.dataclass import dataclass
from sdi.sampling.ops import operate
from sdi.sampling.terms import I64, TermOp, Terms


@dataclass(frozen=True, slots=True)
class Chain:
    """``if ... else if ... else``: (condition, statements) each, and what runs otherwise."""

    branches: list[tuple[int, list[SyntaxNode]]]
    otherwise: list[SyntaxNode]


def leaves(node: SyntaxNode) -> bool:
    """Whether a ``break`` in a statement leaves what is around the statement."""
    if node.kind is NodeKind.BREAK:
        return True
    if node.kind in LOOPS or node.kind is NodeKind.SWITCH:
        return False
    return any(leaves(child) for child in node.children)


def has_label(node: SyntaxNode) -> bool:
    """Whether a label in a statement belongs to a switch around the statement."""
    if node.kind in (NodeKind.CASE, NodeKind.DEFAULT):
        return True
    return node.kind is not NodeKind.SWITCH and any(has_label(child) for child in node.children)


def trip_count(terms: Terms, condition: int, counter: int) -> int | None:
    """How often ``i < n`` or ``i <= n`` holds for i = start + step * t, as a term; None for other ones."""
    row = terms.rows[condition]
    is_strict = row.op is TermOp.LT
    if not is_strict:
        row = terms.rows[row.args[0]] if row.op is TermOp.NOT else row
        if row.op is not TermOp.LT:
            return None
    small, large = row.args if is_strict else (row.args[1], row.args[0])
    kind = terms.type(small)
    own = terms.convert(counter, kind)
    _, parts = terms.parts(terms.sub(large, small))
    step = -parts.pop(own, 0)
    if step <= 0 or any(terms.mentions(part, counter) for part in parts):
        return None

    def at_start(term: int) -> int:
        constant, inner = terms.parts(term)
        inner.pop(own, None)
        return terms.sum(constant, inner, kind)

    small, large = at_start(small), at_start(large)
    if any(terms.mentions(t, counter) for t in (small, large)):
        return None
    first = terms.less(small, large) if is_strict else terms.negate(terms.less(large, small))
    wide = kind if kind.bits == 64 else I64  # the distance may be too large for their type
    rest = terms.sub(terms.convert(large, wide), terms.convert(small, wide))
    rest = terms.add(rest, terms.const(step - is_strict, wide))
    trips = operate(terms, "/", rest, terms.const(step, wide))
    return terms.select(first, trips, terms.const(0, wide))


def _undecayed(node: SyntaxNode) -> SyntaxNode:
    """An array before it became a pointer to its first item."""
    while node.kind in (NodeKind.PAREN, NodeKind.UNEXPOSED) and len(node.children) == 1:
        if node.type.form is not Form.POINTER and node.type.form is not Form.ARRAY:
            break
        node = node.children[0]
    return node


def is_item(node: SyntaxNode) -> bool:
    """Whether an lvalue is a variable or an item of an array: no part of a vector or a record."""
    while node.kind is not NodeKind.DECL_REF:
        if node.kind is NodeKind.ARRAY_SUBSCRIPT and _undecayed(node.children[0]).type.form is not Form.ARRAY:
            return False
        if (
            node.kind not in (NodeKind.ARRAY_SUBSCRIPT, NodeKind.PAREN, NodeKind.UNEXPOSED)
            or not node.children
        ):
            return False
        node = node.children[0]
    return True


def record_of(node: SyntaxNode) -> Type | None:
    """The type of the structure that an lvalue is, or a member of by names only; None: it is neither."""
    while node.kind is not NodeKind.DECL_REF:
        if node.kind not in (NodeKind.PAREN, NodeKind.MEMBER_REF) or len(node.children) != 1:
            return None
        node = node.children[0]
    return node.type if node.type.form is Form.RECORD else None


def variable_of(node: SyntaxNode) -> int:
    """The variable that an lvalue is, or is a part of; 0 for what a pointer points to."""
    while node.kind is not NodeKind.DECL_REF:
        inner = node.children[0] if node.children else node
        is_part = (
            (node.kind in (NodeKind.PAREN, NodeKind.UNEXPOSED) and len(node.children) == 1)
            or (node.kind is NodeKind.MEMBER_REF and inner.type.form is not Form.POINTER)
            or (
                node.kind is NodeKind.ARRAY_SUBSCRIPT
                and _undecayed(inner).type.form in (Form.VECTOR, Form.ARRAY)
            )
        )
        if not is_part or inner is node:
            return 0
        node = inner
    return node.declaration


JUMPS = frozenset({NodeKind.GOTO, NodeKind.INDIRECT_GOTO, NodeKind.LABEL})
NOT_PRIVATE = (Space.GLOBAL, Space.LOCAL, Space.CONSTANT)
"""Where private memory is not."""


class Assigned:
    """What statements may assign, found once for each.  Owned by: the thread of the build."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._known: dict[int, tuple[frozenset[int], bool]] = {}

    def by(self, node: SyntaxNode) -> tuple[frozenset[int], bool]:
        """Variables that a statement assigns by name, and whether it may assign others through pointers."""
        known = self._known.get(id(node))
        if known is None:
            found: set[int] = set()
            is_through = False
            self._known[id(node)] = frozenset(), True  # for a function that calls itself
            for each in node.walk():
                is_assignment = each.kind is NodeKind.COMPOUND_ASSIGNMENT or (
                    each.kind is NodeKind.BINARY_OPERATOR and each.operator == "="
                )
                if is_assignment or (each.kind is NodeKind.UNARY_OPERATOR and each.operator in STEPPING):
                    name = variable_of(each.children[0])
                    found.add(name)
                    is_through |= not name and each.children[0].type.space not in NOT_PRIVATE
                elif each.kind is NodeKind.ASM:
                    found |= {variable_of(child) for child in each.children}
                    is_through |= 0 in found
                elif each.kind is NodeKind.CALL:
                    is_through |= any(_may_point_to_private(argument.type) for argument in each.children[1:])
                    called = callee_of(each)
                    function = self._tree.functions.get(called.declaration) if called is not None else None
                    if function is not None and function.body is not None:
                        is_through |= self.by(function.body)[1]
            known = self._known[id(node)] = frozenset(found - {0}), is_through
        return known


def _may_point_to_private(of: Type) -> bool:
    if of.form in (Form.POINTER, Form.ARRAY) and of.element is not None:
        return of.element.space not in NOT_PRIVATE or of.element.holds_pointer
    return of.holds_pointer
