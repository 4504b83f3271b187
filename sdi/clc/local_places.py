"""What work-items of a group do to places in local memory, and where in a block they wait for each other.

Source: design/0023-atomics-that-answer.md; OpenCL C 3.0 specification, section 6.15.8: a barrier is reached
by all work-items of a group or by none, in a loop each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from sdi.clc.frontend.builtins import Action, action_of
from sdi.clc.frontend.syntax import LOOPS, STEPPING, Form, NodeKind, Space, SyntaxNode, Tree, callee_of
from sdi.dataclass import dataclass

_BARRIERS = re.compile(r"(work_group_)?barrier\Z")
BEFORE = -1
AFTER = 1 << 30
_NEGATIVE = 1 << 31
_AROUND = frozenset({NodeKind.PAREN, NodeKind.UNEXPOSED})


class LocalPlace(NamedTuple):
    """An element of a variable, or of what a kernel's argument points to; None: some element."""

    variable: int
    element: int | None


@dataclass(frozen=True, slots=True)
class LocalAccess:
    """``node``: the place's expression, a pointer to it for atomic functions.  ``by``: what writes it.

    ``what``: "other" where it is not followed.
    """

    place: LocalPlace
    what: Literal["read", "write", "atomic", "passed", "other"]
    node: SyntaxNode
    by: SyntaxNode


class LocalPlaces:
    """All accesses of one kernel to local memory."""

    def __init__(
        self,
        tree: Tree,
        body: SyntaxNode,
        parents: Mapping[int, SyntaxNode],
        pointers: Sequence[int],
        constant: Callable[[SyntaxNode], int | None],
    ) -> None:
        """``pointers``: the declarations of arguments that point to local memory."""
        self._parents = parents
        self._constant = constant
        self._functions = tree.functions
        declared = {
            node.declaration: node.type
            for node in body.walk()
            if node.kind is NodeKind.VAR_DECL and node.type.space is Space.LOCAL
        }
        roots = {*declared, *pointers}
        copies_later = "async_work_group" in tree.text
        self.accesses = [
            self._access(node, copies_later)
            for node in body.walk()
            if node.kind is NodeKind.DECL_REF and node.declaration in roots
        ]

        self._of: dict[LocalPlace, list[LocalAccess]] = {}

    def of(self, place: LocalPlace) -> list[LocalAccess]:
        """All accesses that may be to a place."""
        if place not in self._of:
            self._of[place] = [
                each
                for each in self.accesses
                if each.place.variable == place.variable and each.place.element in (place.element, None)
            ]
        return self._of[place]

    def place(self, node: SyntaxNode) -> LocalPlace | None:
        """The place that an expression is."""
        while node.kind in _AROUND and len(node.operands) == 1:
            node = node.operands[0]
        found = [each.place for each in self.accesses if each.node is node]
        return found[0] if found and found[0].element is not None else None

    def _access(self, node: SyntaxNode, copies_later: bool) -> LocalAccess:
        variable, form = node.declaration, node.type.form
        is_pointer = form in (Form.ARRAY, Form.POINTER)
        place, element = node, 0 if form in (Form.INTEGER, Form.ARRAY, Form.POINTER) else None
        above = self._around(place)
        if form in (Form.ARRAY, Form.POINTER):
            if above.operator == "+" and above.kind is NodeKind.BINARY_OPERATOR:
                left, right = above.operands
                element = self._number(right) if _holds(left, place) else None
                place, above = above, self._around(above)
            if above.kind is NodeKind.ARRAY_SUBSCRIPT and _holds(above.operands[0], place):
                index = self._number(above.operands[1])
                element = None if element is None or index is None else element + index
                place, is_pointer = above, False
            elif above.kind is NodeKind.UNARY_OPERATOR and above.operator == "*":
                place, is_pointer = above, False
        found = LocalPlace(variable, element)
        while not is_pointer and place.type.form is Form.ARRAY:  # an element of an element
            above, found = self._around(place), LocalPlace(variable, None)
            if above.kind is not NodeKind.ARRAY_SUBSCRIPT:
                return LocalAccess(found, "other", place, above)
            place = above
        if is_pointer:
            return self._pointed(found, place, copies_later)
        if place.type.form is not Form.INTEGER:
            found = LocalPlace(variable, None)
        above = self._around(place)
        if above.kind is NodeKind.UNARY_OPERATOR and above.operator == "&":
            return self._pointed(found, above, copies_later, place)
        is_assigned = above.operator == "=" or above.kind is NodeKind.COMPOUND_ASSIGNMENT
        is_step = above.kind is NodeKind.UNARY_OPERATOR and above.operator in STEPPING
        if is_step or (is_assigned and _holds(above.operands[0], place)):
            return LocalAccess(found, "write", place, above)
        if found.element is None and place.type.form not in (Form.INTEGER, Form.FLOATING, Form.POINTER):
            return LocalAccess(found, "passed", place, above)  # parts of it may be written
        return LocalAccess(found, "read", place, above)

    def _pointed(
        self, place: LocalPlace, pointer: SyntaxNode, copies_later: bool, node: SyntaxNode | None = None
    ) -> LocalAccess:
        above = self._around(pointer)
        callee = callee_of(above) if above.kind is NodeKind.CALL else None
        somewhere = LocalPlace(place.variable, None)  # a pointer to one element leads to all
        if callee is None or copies_later:
            return LocalAccess(somewhere, "other", pointer, above)
        is_first = len(above.children) > 1 and _holds(above.children[1], pointer)
        is_own = callee.declaration in self._functions
        if action_of(callee.name) is Action.ATOMIC and is_first and not is_own:
            return LocalAccess(place, "atomic", node or pointer, above)
        return LocalAccess(somewhere, "passed", pointer, above)

    def _number(self, node: SyntaxNode) -> int | None:
        """The number of an element, if it is surely not less than 0."""
        number = self._constant(node)
        return number if number is not None and number < _NEGATIVE else None

    def _around(self, node: SyntaxNode) -> SyntaxNode:
        """What stands around a node, without parentheses and conversions that nobody wrote."""
        above = self._parents[id(node)]
        while above.kind in _AROUND and len(above.operands) == 1:
            (child,) = above.operands
            if above.kind is NodeKind.UNEXPOSED and (above.begin, above.end) != (child.begin, child.end):
                break  # a part of a vector
            above = self._parents[id(above)]
        return above


class GroupBlock:
    """Statements that all work-items of a group come through in this order, if there is a barrier among them.

    ``is_repeated``: it is in a loop.
    """

    def __init__(self, tree: Tree, node: SyntaxNode, parents: Mapping[int, SyntaxNode]) -> None:
        self.node = node
        self.statements = node.children
        self._barriers = [
            number
            for number, each in enumerate(self.statements)
            if each.kind is NodeKind.CALL and _is_barrier(tree, each)
        ]
        outermost = above = node
        while (found := parents.get(id(above))) is not None:
            above = found
            if above.kind in LOOPS:
                outermost = above
        self.is_repeated = outermost is not node
        self._positions: dict[int, int] = {}
        self._begin, self._end = outermost.begin, outermost.end

    def position(self, node: SyntaxNode) -> int:
        """The number of the statement that a node is in; BEFORE or AFTER all of them, each time."""
        found = self._positions.get(id(node))
        if found is None:
            outside = BEFORE if node.end <= self._begin else AFTER
            within = [
                number
                for number, each in enumerate(self.statements)
                if each.begin <= node.begin and node.end <= each.end
            ]
            found = self._positions[id(node)] = within[0] if within else outside
        return found

    def waits_between(self, one: int, other: int) -> bool:
        """Whether all wait for each other between two statements, the next time too."""
        first, last = sorted((one, other))
        if not any(first < each < last for each in self._barriers) or last == AFTER:
            return False
        is_again = self.is_repeated and first != BEFORE
        return not is_again or any(each < first or each > last for each in self._barriers)

    def leaves(self, first: int, last: int) -> bool:
        """Whether a work-item may leave the statements from ``first`` to ``last``."""
        return any(_leaves(each) for each in self.statements[max(first, 0) : last + 1])


def _leaves(statement: SyntaxNode, is_inner: bool = False) -> bool:
    """Whether a statement may be left; breaks of loops within it stay there."""
    if statement.kind is NodeKind.RETURN:
        return True
    if statement.kind in (NodeKind.BREAK, NodeKind.CONTINUE):
        return not is_inner
    is_loop = statement.kind in LOOPS
    # In a switch "continue" is of what is around it.
    is_inner = is_inner or is_loop
    return any(_leaves(each, is_inner) for each in statement.children)


def _is_barrier(tree: Tree, call: SyntaxNode) -> bool:
    callee = callee_of(call)
    if callee is None or callee.declaration in tree.functions or not _BARRIERS.match(callee.name):
        return False
    flags = tree.source(call.children[1]) if len(call.children) > 1 else ""
    return _orders_local(flags)


def _orders_local(flags: str) -> bool:
    """Whether a barrier's flags, as written, surely have that of local memory."""
    parts = [each.strip("() \t\n") for each in flags.split("|")]
    return "CLK_LOCAL_MEM_FENCE" in parts and all(re.fullmatch(r"CLK_\w+|\d+", each) for each in parts)


def _holds(operand: SyntaxNode, node: SyntaxNode) -> bool:
    """Whether an operand is a node, but for parentheses and conversions."""
    while operand is not node and operand.kind in _AROUND and len(operand.operands) == 1:
        operand = operand.operands[0]
    return operand is node
