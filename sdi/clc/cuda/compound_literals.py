"""C's compound literals, ``(int[]){1, 2}``: objects of the block around them, which C++ does not have."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from sdi.clc.cuda.types import TypeNames, UnknownConstruct, space_of
from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode, Type


class CompoundLiterals:
    """Writes those of one program.  Owned by: the thread of the build.

    ``initialiser``: writes one of a type.  ``declared``: variables for the block that is being written.
    """

    def __init__(self, types: TypeNames, initialiser: Callable[[Type, SyntaxNode], str]) -> None:
        self.types = types
        self.declared: list[str] = []
        self._initialiser = initialiser
        self._placed: set[tuple[int, int]] = set()
        self._numbers = itertools.count()

    def __call__(self, node: SyntaxNode, values: SyntaxNode) -> str:
        """A variable that gets its value here, for an array and where ``place`` said so; else a value."""
        if values.kind is not NodeKind.INIT_LIST:
            raise UnknownConstruct(node, "this compound literal")
        value, found = self._initialiser(node.type, values), node.type
        if found.form is not Form.ARRAY and (node.begin, node.end) not in self._placed:
            return value
        name = f"_cl_literal{next(self._numbers)}"
        if space_of(found) is Space.CONSTANT:
            self.declared.append(f"static __constant__ {self.types.declare(found, name, node)} = {value};")
            return name
        if found.form is not Form.ARRAY:
            self.declared.append(f"{self.types.value(found, node)} {name};")
            return f"({name} = {value})"
        assert found.element is not None
        element = self.types.of(replace(found.element, const=False), node)
        self.declared.append(f"_cl_list<{element}, {found.count}> {name};")
        return f"({name} = _cl_list<{element}, {found.count}>{{{value}}}).v"

    def place(self, node: SyntaxNode) -> None:
        """Where ``node`` is matters, which is going to be written: it is changed, or its address taken."""
        while True:
            match node.kind:
                case NodeKind.COMPOUND_LITERAL:
                    self._placed.add((node.begin, node.end))
                    return
                case NodeKind.PAREN | NodeKind.UNEXPOSED | NodeKind.ARRAY_SUBSCRIPT if node.operands:
                    node = node.operands[0]
                case NodeKind.MEMBER_REF if node.operands[0].type.form is not Form.POINTER:
                    node = node.operands[0]
                case _:
                    return
