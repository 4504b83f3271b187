"""``printf`` with vectors: CUDA's knows scalars only, so the format and the arguments are taken apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sdi.clc.cuda_types import UnknownConstruct
from sdi.clc.syntax import Form, Kind, Node

# flags, width, precision, vector, length, conversion.  Source: OpenCL C 3.0, section 6.15.14.
_SPECIFIER = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\d*)(?P<precision>(\.\d*)?)(v(?P<count>2|3|4|8|16))?"
    r"(?P<length>hh|hl|h|l|)(?P<conversion>[diouxXfFeEgGaAcsp%])"
)


def _literal(node: Node) -> Node | None:
    while node.kind in (Kind.UNEXPOSED, Kind.PAREN) and len(node.operands) == 1:
        node = node.operands[0]
    return node if node.kind is Kind.STRING_LITERAL else None


def printf_arguments(
    arguments: Sequence[Node], values: Sequence[str], source: Callable[[Node], str]
) -> list[str]:
    """The arguments of CUDA's printf for those of OpenCL's.  Raises UnknownConstruct."""
    literal = _literal(arguments[0])
    if literal is None:
        raise UnknownConstruct(arguments[0], "a printf whose format is not a string literal")
    passed: list[str] = []
    position = 1

    def replace(match: re.Match[str]) -> str:
        nonlocal position
        if match["conversion"] == "%":
            return "%%"
        if position >= len(arguments):
            raise UnknownConstruct(literal, "a printf with fewer arguments than its format asks for")
        argument, value = arguments[position], values[position]
        position += 1
        length = "" if match["length"] == "hl" else match["length"]
        one = f"%{match['flags']}{match['width']}{match['precision']}{length}{match['conversion']}"
        if match["count"] is None:
            passed.append(
                f"({value})" if argument.type.form is not Form.POINTER else f"(const void*)({value})"
            )
            if match["conversion"] == "s":
                passed[-1] = value
            return one
        count = int(match["count"])
        if argument.type.form is not Form.VECTOR or argument.type.count != count:
            raise UnknownConstruct(argument, f"a printf of '{argument.type.spelling}' as %v{count}")
        floating = match["conversion"] in "fFeEgGaA"
        cast = "(double)" if floating else ""
        passed.extend(f"{cast}({value}).v[{index}]" for index in range(count))
        return ",".join([one] * count)

    rewritten = _SPECIFIER.sub(replace, source(literal))
    if position != len(arguments):
        raise UnknownConstruct(literal, "a printf with more arguments than its format asks for")
    return [rewritten, *passed]
