"""What the text says of calls of atomic functions, and of what a kernel only does where it makes such a call.

A *claim* is a call whose result is used.  Something stands behind claims if whoever does it makes one too,
before it or in the same branch.  That decides how often members conflict, never whether a result is right,
so what is not clear stands behind none.  Source: design/0023-atomics-that-answer.md.
"""

from __future__ import annotations

from sdi.clc.atomics import unused_calls, update_of
from sdi.clc.frontend.builtins import Action, action_of
from sdi.clc.frontend.syntax import (
    LOOPS,
    OWN_SPACES,
    WAYS_OUT,
    NodeKind,
    SyntaxNode,
    Tree,
    callee_of,
    ends_with_way_out,
    has_any,
)
from sdi.clc.linear import changed_by
from sdi.clc.seldom import guarded_calls
from sdi.dataclass import dataclass, field

_JUMPS = frozenset({NodeKind.GOTO, NodeKind.INDIRECT_GOTO, NodeKind.ASM})
_ENTRIES = frozenset({NodeKind.CASE, NodeKind.DEFAULT, NodeKind.LABEL})
_ELSEWHERE = WAYS_OUT | _JUMPS | _ENTRIES
_SAME = frozenset({NodeKind.PAREN, NodeKind.UNEXPOSED, NodeKind.CAST})
_CHOICES = {"&&": True, "||": False}
"""What the first operand is where the second is looked at."""


@dataclass(slots=True, eq=False)
class _Body:
    """Of one function.  ``values``: of variables that keep their first one.  ``sure``, ``implied``: known
    answers, by nodes' ids; while one is looked for it is no.
    """

    unused: frozenset[int]
    guarded: frozenset[int]
    values: dict[int, SyntaxNode]
    sure: dict[int, bool] = field(default_factory=dict)
    implied: dict[tuple[int, bool], bool] = field(default_factory=dict)
    behind: frozenset[int] | None = None


class Claims:
    """Of the functions of a program, by their declarations.  Owned by: a build's thread."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._bodies: dict[int, _Body] = {}
        self._claiming: dict[int, bool] = {}

    def is_unused(self, function: int, call: SyntaxNode) -> bool:
        """Whether nobody looks at what a call returns."""
        return id(call) in self._of(function).unused

    def is_guarded(self, function: int, call: SyntaxNode) -> bool:
        """Whether a call only happens where data say so."""
        return id(call) in self._of(function).guarded

    def is_behind(self, function: int, node: SyntaxNode) -> bool:
        """Whether a node stands behind a claim of the same function, or of one that it calls."""
        if not self._may_claim(function):
            return False
        of, body = self._of(function), self._tree.functions[function].body
        if of.behind is None:
            is_plain = body is not None and not has_any(body, _JUMPS)
            of.behind = self._found_behind(of, body) if body is not None and is_plain else frozenset()
        return id(node) in of.behind

    def _may_claim(self, function: int) -> bool:
        """Whether an atomic function is called in a function of the program, or in one that it calls."""
        known = self._claiming.get(function)
        if known is None:
            self._claiming[function] = False  # for one that calls itself
            body = self._tree.functions[function].body
            calls = () if body is None else (node for node in body.walk() if node.kind is NodeKind.CALL)
            known = self._claiming[function] = any(map(self._may_be_claim, calls))
        return known

    def _may_be_claim(self, call: SyntaxNode) -> bool:
        callee = callee_of(call)
        if callee is None:
            return False
        if callee.declaration in self._tree.functions:
            return self._may_claim(callee.declaration)
        return action_of(callee.name) is Action.ATOMIC

    def _of(self, function: int) -> _Body:
        found = self._bodies.get(function)
        if found is None:
            body = self._tree.functions[function].body
            found = _Body(frozenset(), frozenset(), {})
            if body is not None:
                changed = changed_by([body])
                values = {
                    node.declaration: node.operands[0]
                    for node in body.walk()
                    if node.kind is NodeKind.VAR_DECL and len(node.operands) == 1
                }
                values = {variable: value for variable, value in values.items() if variable not in changed}
                found = _Body(unused_calls(body), guarded_calls(self._tree, body), values)
            self._bodies[function] = found
        return found

    def _found_behind(self, of: _Body, body: SyntaxNode) -> frozenset[int]:
        found: set[int] = set()
        pending = [(body, False)]
        while pending:
            node, is_behind = pending.pop()
            is_statement = node.kind is NodeKind.COMPOUND or _is_branched(node)
            is_behind = is_behind or (not is_statement and self._is_sure(of, node))
            if is_behind:
                found.add(id(node))
                pending += [(child, True) for child in node.children]
            elif node.kind is NodeKind.COMPOUND:
                pending += self._in_block(of, node)
            else:
                pending += self._in_branches(of, node)
        return frozenset(found)

    def _in_block(self, of: _Body, block: SyntaxNode) -> list[tuple[SyntaxNode, bool]]:
        """Statements, and whether one before them, or one that surely follows, makes a claim."""
        statements, found = block.children, list[bool]()
        is_made = False
        for each in statements:
            is_made = is_made and not has_any(each, _ENTRIES)
            found.append(is_made)
            is_made = is_made or self._is_sure(of, each) or self._is_passed(of, each)
        is_coming = False
        for number in range(len(statements) - 1, -1, -1):
            each = statements[number]
            has_way_out = has_any(each, WAYS_OUT)
            found[number] |= is_coming and not has_way_out
            is_coming = self._is_sure(of, each) or (is_coming and not has_way_out)
        return list(zip(statements, found, strict=True))

    def _is_passed(self, of: _Body, node: SyntaxNode) -> bool:
        """Whether who gets past a conditional way out has made a claim."""
        if node.kind is not NodeKind.IF:
            return False
        return any(
            ends_with_way_out(branch) and self._is_implied(of, node.operands[0], not holds)
            for branch, holds in zip(node.operands[1:], (True, False), strict=False)
        )

    def _in_branches(self, of: _Body, node: SyntaxNode) -> list[tuple[SyntaxNode, bool]]:
        children = node.operands
        if not _is_branched(node) or not children:
            return [(child, False) for child in node.children]
        match node.kind:
            case NodeKind.IF | NodeKind.CONDITIONAL_OPERATOR:
                ways: list[bool | None] = [None, True, False]
            case NodeKind.WHILE:
                ways = [None, True]
            case NodeKind.FOR if len(children) == 4:
                is_sure = self._is_sure(of, children[0])
                is_so = is_sure or self._is_implied(of, children[1], True)
                return list(zip(children, (False, is_sure, is_so, is_so), strict=True))
            case NodeKind.SWITCH:
                is_sure = self._is_sure(of, children[0])
                return [(child, number > 0 and is_sure) for number, child in enumerate(children)]
            case NodeKind.BINARY_OPERATOR:
                ways = [None, _CHOICES[node.operator]]
            case _:
                ways = []
        ways += [None] * (len(children) - len(ways))
        return [
            (child, holds is not None and self._is_implied(of, children[0], holds))
            for child, holds in zip(children, ways, strict=False)
        ]

    def _is_sure(self, of: _Body, node: SyntaxNode) -> bool:
        """Whether who carries out a node makes a claim."""
        known = of.sure.get(id(node))
        if known is None:
            of.sure[id(node)] = False
            known = of.sure[id(node)] = self._makes_one(of, node)
        return known

    def _makes_one(self, of: _Body, node: SyntaxNode) -> bool:
        children = node.operands
        match node.kind:
            case NodeKind.CALL:
                return self._is_claim(of, node) or any(self._is_sure(of, child) for child in children)
            case NodeKind.COMPOUND:
                for child in children:
                    is_sure = self._is_sure(of, child)
                    if is_sure or has_any(child, _ELSEWHERE):
                        return is_sure and not has_any(child, _ENTRIES)
                return False
            case NodeKind.IF | NodeKind.CONDITIONAL_OPERATOR:
                branches = [self._is_sure(of, child) for child in children[1:]]
                return self._is_sure(of, children[0]) or (len(branches) == 2 and all(branches))
            case NodeKind.WHILE | NodeKind.SWITCH | NodeKind.FOR:
                count = 2 if len(children) == 4 else 1
                return any(self._is_sure(of, child) for child in children[:count])
            case NodeKind.DO:
                return bool(children) and self._is_sure(of, children[0])
            case NodeKind.CASE | NodeKind.DEFAULT | NodeKind.LABEL:
                return self._is_sure(of, children[-1])
            case NodeKind.SIZEOF:
                return False
            case NodeKind.BINARY_OPERATOR if node.operator in _CHOICES:
                return self._is_sure(of, children[0])
            case _:
                return any(self._is_sure(of, child) for child in children)

    def _is_claim(self, of: _Body, call: SyntaxNode) -> bool:
        callee = callee_of(call)
        if callee is None:
            return False
        function = self._tree.functions.get(callee.declaration)
        if function is not None:
            return function.body is not None and self._is_sure(self._of(callee.declaration), function.body)
        arguments = call.children[1:]
        pointee = arguments[0].type.element if arguments else None
        if action_of(callee.name) is not Action.ATOMIC or pointee is None:
            return False
        is_update = id(call) in of.unused and update_of(self._tree, callee.name, arguments) is not None
        return pointee.space not in OWN_SPACES and not is_update

    def _is_implied(self, of: _Body, node: SyntaxNode, holds: bool) -> bool:
        """Whether a claim was made wherever a condition has come out so."""
        known = of.implied.get((id(node), holds))
        if known is None:
            of.implied[id(node), holds] = False
            known = self._is_sure(of, node) or self._is_told(of, node, holds)
            of.implied[id(node), holds] = known
        return known

    def _is_told(self, of: _Body, node: SyntaxNode, holds: bool) -> bool:
        children = node.operands
        if node.kind in _SAME and len(children) == 1:
            return self._is_implied(of, children[0], holds)
        if node.kind is NodeKind.UNARY_OPERATOR and node.operator == "!":
            return self._is_implied(of, children[0], not holds)
        if node.kind is NodeKind.BINARY_OPERATOR and node.operator in _CHOICES:
            ways = [self._is_implied(of, child, holds) for child in children]
            return any(ways) if _CHOICES[node.operator] is holds else all(ways)
        if node.kind is NodeKind.DECL_REF and node.declaration in of.values:
            return self._is_implied(of, of.values[node.declaration], holds)
        return False


def _is_branched(node: SyntaxNode) -> bool:
    """Whether some of its operands are only carried out under a condition."""
    if node.kind in (NodeKind.IF, NodeKind.SWITCH, NodeKind.CONDITIONAL_OPERATOR) or node.kind in LOOPS:
        return True
    return node.kind is NodeKind.BINARY_OPERATOR and node.operator in _CHOICES
