"""Constants of a program: enumerators, and scalars and tables at program scope."""

from __future__ import annotations

from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode, Tree
from sdi.sampling.operators import Evaluator
from sdi.sampling.terms import I32
from sdi.sampling.values import Value


class Constants:
    """Looks declarations up when they are first asked for.  Owned by: the thread of the build."""

    def __init__(self, tree: Tree, run: Evaluator) -> None:
        self._tree = tree
        self._run = run
        self._variables: dict[int, SyntaxNode] | None = None
        self._enumerators: dict[int, int] = {}
        self._tables: dict[int, tuple[Value, ...] | None] = {}

    def value(self, declaration: int) -> Value:
        """The value of an enumerator or of a scalar constant of the program."""
        if self._variables is None:
            self._variables = {}
            for top in self._tree.declarations:
                if top.kind is NodeKind.VAR_DECL and (top.type.const or top.type.space is Space.CONSTANT):
                    self._variables[top.declaration] = top
                elif top.kind is not NodeKind.FUNCTION_DECL:
                    self._note_enumerators(top)
        number = self._enumerators.get(declaration)
        if number is not None:
            return self._run.terms.const(number, I32)
        variable = self._variables.get(declaration)
        if variable is None or variable.type.form is not Form.INTEGER:
            return None
        initial = [c for c in variable.operands if c.kind < 400]
        if not initial:
            return None
        return self._run.operators.converted(self._run.value(initial[-1]), initial[-1].type, variable.type)

    def table(self, declaration: int) -> tuple[Value, ...] | None:
        """The elements of a constant array of integers or vectors of integers, all known, at least one."""
        if declaration not in self._tables:
            self._tables[declaration] = self._elements(declaration)
        return self._tables[declaration]

    def _elements(self, declaration: int) -> tuple[Value, ...] | None:
        self.value(declaration)  # so that the program's variables are known
        variable = (self._variables or {}).get(declaration)
        if variable is None or variable.type.form is not Form.ARRAY or variable.type.element is None:
            return None
        of = variable.type.element
        lists = [c for c in variable.operands if c.kind is NodeKind.INIT_LIST]
        if (
            len(lists) != 1
            or "=" in self._tree.source(lists[0])
            or of.form not in (Form.INTEGER, Form.VECTOR)
        ):
            return None
        found: list[Value] = []
        for child in lists[0].operands:
            if of.form is Form.VECTOR and child.type.form is not Form.VECTOR:
                return None  # braces left out
            value = self._run.operators.converted(self._run.value(child), child.type, of)
            parts = value if isinstance(value, tuple) else (value,)
            if not all(isinstance(part, int) and self._run.terms.value(part) is not None for part in parts):
                return None
            found.append(value)
        if not found or variable.type.nbytes != len(found) * of.nbytes:
            return None  # elements without a value of their own
        return tuple(found)

    def _note_enumerators(self, top: SyntaxNode) -> None:
        for node in top.walk():
            if node.kind is not NodeKind.ENUM_DECL:
                continue
            following: int | None = 0
            for child in node.children:
                if child.kind is not NodeKind.ENUM_CONSTANT_DECL:
                    continue
                if child.operands:
                    value = self._run.value(child.operands[-1])
                    following = self._run.terms.value(value) if isinstance(value, int) else None
                if following is not None:
                    self._enumerators[child.declaration] = following
                    following += 1
