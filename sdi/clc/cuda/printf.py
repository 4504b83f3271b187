"""``printf`` on CUDA members: a call writes a record, whose format only the host knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sdi.clc.cuda.types import UnknownConstruct, in_unicode
from sdi.clc.frontend.syntax import Form, NodeKind, SyntaxNode
from sdi.clc.printf_text import BadFormat, Format, literal_bytes, parse_format, specifiers


def _literal(node: SyntaxNode) -> SyntaxNode | None:
    while node.kind in (NodeKind.UNEXPOSED, NodeKind.PAREN) and len(node.operands) == 1:
        node = node.operands[0]
    return node if node.kind is NodeKind.STRING_LITERAL else None


class Printing:
    """The calls of one program.  ``formats``: theirs, in the order of their numbers."""

    def __init__(self) -> None:
        self.formats: list[Format] = []

    def call(
        self, arguments: Sequence[SyntaxNode], values: Sequence[str], source: Callable[[SyntaxNode], str]
    ) -> str:
        """A call as C++; ``values``: the arguments'.  Raises UnknownConstruct."""
        literal = _literal(arguments[0])
        if literal is None:
            raise UnknownConstruct(arguments[0], "a printf whose format is not a string literal")
        try:
            form = parse_format(literal_bytes(in_unicode(source(literal))))
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
            passed.append(f"_cl_text_of({value})" if how.conversion == b"s" else f"({value})")
        # More than the format asks for is evaluated and not printed.
        extra = [f"(void)({value})" for value in values[1 + len(wanted) :]]
        return "(" + ", ".join([*extra, f"_cl_printf({', '.join(passed)})"]) + ")"

    def _number(self, form: Format) -> int:
        if form not in self.formats:
            self.formats.append(form)
        return self.formats.index(form)
