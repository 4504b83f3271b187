"""Constants of a program: enumerators, and scalars at program scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdi.clc.syntax import Form, Kind, Node, Space, Tree
from sdi.sampling.terms import I32
from sdi.sampling.values import Value

if TYPE_CHECKING:
    from sdi.sampling.expressions import Expressions


class Constants:
    """Looks declarations up when they are first asked for.  Owned by: the thread of the build."""

    def __init__(self, tree: Tree, run: Expressions) -> None:
        self._tree = tree
        self._run = run
        self._variables: dict[int, Node] | None = None
        self._enumerators: dict[int, int] = {}

    def value(self, declaration: int) -> Value:
        """The value of an enumerator or of a scalar constant of the program."""
        if self._variables is None:
            self._variables = {}
            for top in self._tree.declarations:
                if top.kind is Kind.VAR_DECL and (top.type.const or top.type.space is Space.CONSTANT):
                    self._variables[top.declaration] = top
                elif top.kind is not Kind.FUNCTION_DECL:
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
        return self._run.converted(self._run.value(initial[-1]), initial[-1].type, variable.type)

    def _note_enumerators(self, top: Node) -> None:
        for node in top.walk():
            if node.kind is not Kind.ENUM_DECL:
                continue
            following: int | None = 0
            for child in node.children:
                if child.kind is not Kind.ENUM_CONSTANT_DECL:
                    continue
                if child.operands:
                    value = self._run.value(child.operands[-1])
                    following = self._run.terms.value(value) if isinstance(value, int) else None
                if following is not None:
                    self._enumerators[child.declaration] = following
                    following += 1
