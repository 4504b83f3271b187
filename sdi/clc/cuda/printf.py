"""``printf`` on CUDA members: a call writes a record, whose format only the host knows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from sdi.clc.cuda.types import UnknownConstruct, in_unicode, space_of
from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode, Tree
from sdi.clc.printf_text import BadFormat, Format, literal_bytes, parse_format, specifiers

_AROUND = (NodeKind.UNEXPOSED, NodeKind.PAREN, NodeKind.CAST, NodeKind.INIT_LIST)


class Printing:
    """The calls of one program.  ``formats``: theirs, in the order of their numbers.

    ``condition``: writes what a choice hangs on.
    """

    def __init__(self, tree: Tree, condition: Callable[[SyntaxNode], str]) -> None:
        self.formats: list[Format] = []
        self._tree = tree
        self._condition = condition

    def call(self, arguments: Sequence[SyntaxNode], values: Sequence[str]) -> str:
        """A call as C++; ``values``: the arguments'.  Raises UnknownConstruct."""
        return self._with(arguments[0], arguments, values)

    def _with(self, given: SyntaxNode, arguments: Sequence[SyntaxNode], values: Sequence[str]) -> str:
        """A call with a format: a string, a constant, or a choice of two."""
        is_named = False
        while True:
            if given.kind in _AROUND and len(given.operands) == 1:
                given = given.operands[0]
            elif given.kind is NodeKind.DECL_REF and given.declaration in self._constants:
                given, is_named = self._constants[given.declaration], True
            else:
                break
        if given.kind is NodeKind.CONDITIONAL_OPERATOR and not is_named:  # of a name it was made elsewhere
            condition, *both = given.operands
            if condition.type.form is not Form.VECTOR:
                yes, no = (self._with(each, arguments, values) for each in both)
                return f"({self._condition(condition)} ? {yes} : {no})"
        if given.kind is not NodeKind.STRING_LITERAL:
            raise UnknownConstruct(arguments[0], "a printf whose format is not known")
        return self._record(given, arguments, values)

    @functools.cached_property
    def _constants(self) -> dict[int, SyntaxNode]:
        """What constants are that nothing changes, by declaration: strings, and pointers to such."""
        found: dict[int, SyntaxNode] = {}
        for declaration in self._tree.declarations:
            for node in declaration.walk():
                is_constant = node.type.const or space_of(node.type) is Space.CONSTANT
                if node.kind is NodeKind.VAR_DECL and is_constant and node.operands:
                    found[node.declaration] = node.operands[-1]
        return found

    def _record(self, literal: SyntaxNode, arguments: Sequence[SyntaxNode], values: Sequence[str]) -> str:
        try:
            form = parse_format(literal_bytes(in_unicode(self._tree.source(literal))))
        except BadFormat as bad:
            raise UnknownConstruct(literal, str(bad)) from bad
        wanted = specifiers(form)
        if len(wanted) > len(arguments) - 1:
            raise UnknownConstruct(literal, "a printf with fewer arguments than its format asks for")
        passed = [f"{self._number(form)}u"]
        for how, argument, value in zip(wanted, arguments[1:], values[1:], strict=False):
            count = argument.type.count if argument.type.form is Form.VECTOR else 0
            if count != how.count:
                what = f"%v{how.count}" if how.count else f"%{how.conversion.decode()}"
                raise UnknownConstruct(argument, f"a printf of '{argument.type.spelling}' as {what}")
            passed.append(f"_cl_text_of((const char *){value})" if how.conversion == b"s" else f"({value})")
        # More than the format asks for is evaluated and not printed.
        extra = [f"(void)({value})" for value in values[1 + len(wanted) :]]
        return "(" + ", ".join([*extra, f"_cl_printf({', '.join(passed)})"]) + ")"

    def _number(self, form: Format) -> int:
        if form not in self.formats:
            self.formats.append(form)
        return self.formats.index(form)
