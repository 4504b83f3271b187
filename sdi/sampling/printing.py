"""Access forms as a kernel's author would write them: ``C[get_global_id(1) * WB + get_global_id(0)]``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from sdi.clc.model import Argument
from sdi.sampling.float_bounds import FloatValue
from sdi.sampling.machine import Access
from sdi.sampling.ops import OPERATIONS
from sdi.sampling.terms import IntType, TermOp, TermTable

_LONGEST = 160
"""A longer text is of no use to anybody: what is inside becomes "..."."""
_SUM, _PRODUCT, _UNARY = 4, 5, 6
_IDS = {
    TermOp.GLOBAL_ID: "get_global_id",
    TermOp.GROUP_ID: "get_group_id",
    TermOp.LOCAL_ID: "get_local_id",
    TermOp.GLOBAL_SIZE: "get_global_size",
    TermOp.LOCAL_SIZE: "get_local_size",
    TermOp.NUM_GROUPS: "get_num_groups",
    TermOp.GLOBAL_OFFSET: "get_global_offset",
}
_VECTOR = re.compile(r"[a-z]+(2|3|4|8|16)\Z")

_INTEGERS = {
    IntType(bits, signed): "u" * (not signed) + name
    for bits, name in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))
    for signed in (False, True)
}


def _enclosed(text: tuple[str, int], level: int) -> str:
    """A text, in parentheses if it binds less than ``level``."""
    return text[0] if text[1] >= level else f"({text[0]})"


class Printer:
    """Prints the terms of one kernel.  ``arguments``: the kernel's, whose names scalars get."""

    def __init__(self, table: TermTable, arguments: Sequence[Argument]) -> None:
        self._rows = table.rows
        self._arguments = arguments
        self._known: dict[int, tuple[str, int]] = {}

    def access(self, access: Access, element_nbytes: int) -> str:
        """``name[index]``, counted in elements of the argument; in bytes where they don't fit."""
        name = self._arguments[access.argument].name or f"argument {access.argument}"
        row = self._rows[access.offset]
        constant, parts = 0, {access.offset: 1}
        if row.op is TermOp.LINEAR:
            constant, coefficients = cast(tuple[int, tuple[int, ...]], row.payload)
            parts = dict(zip(row.args, coefficients, strict=True))
        elif row.op is TermOp.CONST:
            constant, parts = cast(int, row.payload), {}
        unit = element_nbytes
        if unit < 1 or any(number % unit for number in (constant, *parts.values())):
            unit = 1
        index = self._sum(constant // unit, {term: c // unit for term, c in parts.items()})[0]
        if len(index) > _LONGEST:
            index = "..."
        if unit == element_nbytes and access.nbytes == element_nbytes:
            return f"{name}[{index}]"
        if unit == element_nbytes and access.nbytes % unit == 0:
            return f"{name}[{index}], {access.nbytes // unit} elements"
        return f"{name}, {access.nbytes} bytes at byte {index}"

    def condition(self, guards: Sequence[int]) -> str:
        """The guards that all hold, empty when there are none."""
        texts = [self._wrapped(term, 1) for term in guards]
        return " && ".join(text if len(text) <= _LONGEST else "..." for text in dict.fromkeys(texts))

    def _wrapped(self, term: int, level: int) -> str:
        """The text, in parentheses if it binds less than ``level``."""
        return _enclosed(self._text(term), level)

    def _text(self, term: int) -> tuple[str, int]:
        """The text and how strongly its outermost operator binds."""
        known = self._known.get(term)
        if known is None:
            known = self._made(term)
            if len(known[0]) > 2 * _LONGEST:
                known = ("...", _UNARY)
            self._known[term] = known
        return known

    def _made(self, term: int) -> tuple[str, int]:
        op, args, kind, payload = self._rows[term]
        if op in _IDS:
            return f"{_IDS[op]}({payload})", _UNARY
        if op in (TermOp.LT, TermOp.EQ) and self._rows[args[0]].op is TermOp.CONST:
            sign = " > " if op is TermOp.LT else " == "
            return self._wrapped(args[1], 3) + sign + self._wrapped(args[0], 3), 2
        match op:
            case TermOp.CONST:
                value = cast(int, payload)
                return str(value), _UNARY if value >= 0 else _SUM
            case TermOp.SCALAR:
                argument, offset = cast(tuple[int, int], payload)
                return self._scalar(argument, offset, kind.bits // 8), _UNARY
            case TermOp.WORK_DIM:
                return "get_work_dim()", _UNARY
            case TermOp.COUNTER:
                return f"i{payload}", _UNARY
            case TermOp.LINEAR:
                constant, coefficients = cast(tuple[int, tuple[int, ...]], payload)
                return self._sum(constant, dict(zip(args, coefficients, strict=True)))
            case TermOp.MUL:
                ordered = sorted(args, key=lambda a: self._rows[a].op in (TermOp.SCALAR, TermOp.LOCAL_SIZE))
                return " * ".join(self._wrapped(a, _PRODUCT) for a in ordered), _PRODUCT
            case TermOp.LT | TermOp.EQ:
                sign = " < " if op is TermOp.LT else " == "
                return self._wrapped(args[0], 2) + sign + self._wrapped(args[1], 3), 2
            case TermOp.OPERATION:
                return self._operation(str(payload), args)
            case TermOp.FLOORDIV | TermOp.FLOORMOD:
                sign = " / " if op is TermOp.FLOORDIV else " % "
                return f"{self._wrapped(args[0], _PRODUCT)}{sign}{payload}", _PRODUCT
            case TermOp.CONVERT:
                return self._text(args[0])
            case TermOp.SELECT:
                a, b, c = (self._wrapped(a, 1) for a in args)
                return f"{a} ? {b} : {c}", 0
            case TermOp.NOT:
                return self._negated(args[0])
            case TermOp.ALL:
                return " && ".join(self._wrapped(a, 2) for a in args), 1
            case TermOp.ANY:
                return " || ".join(self._wrapped(a, 2) for a in args), 1
            case TermOp.LOOKUP:
                values = cast(tuple[int, ...], payload)
                shown = ", ".join(map(str, values[:4])) + (", ..." if len(values) > 4 else "")
                return f"{{{shown}}}[{self._text(args[0])[0]}]", _UNARY
            case TermOp.FLOAT:
                name = _INTEGERS.get(kind)
                number = self._float(cast(FloatValue, payload))
                return (f"({name}){_enclosed(number, _UNARY)}" if name else "..."), _UNARY
            case _:
                return "...", _UNARY

    def _float(self, value: FloatValue) -> tuple[str, int]:
        """A floating-point number, with its conversions."""
        parts = [self._float(part) for part in value.parts]
        of = "float" if value.nbytes == 4 else "double"
        match value.op:
            case "number":
                return value.text, _UNARY
            case "bits":
                return self._text(value.term)
            case "integer":
                return f"({of}){self._wrapped(value.term, _UNARY)}", _UNARY
            case "converted":
                return f"({of}){_enclosed(parts[0], _UNARY)}", _UNARY
            case "minus":
                return f"-{_enclosed(parts[0], _UNARY)}", _SUM
            case "+" | "-" | "*" | "/":
                level = _SUM if value.op in "+-" else _PRODUCT
                first, second = _enclosed(parts[0], level), _enclosed(parts[1], level + 1)
                return f"{first} {value.op} {second}", level
            case _:
                return f"{value.op}({', '.join(text for text, _ in parts)})", _UNARY

    def _operation(self, name: str, args: tuple[int, ...]) -> tuple[str, int]:
        operation = OPERATIONS[name]
        if operation.is_call:
            return f"{name}({', '.join(self._text(a)[0] for a in args)})", _UNARY
        first, second, level = args[0], args[1], operation.level
        return f"{self._wrapped(first, level)} {name} {self._wrapped(second, level + 1)}", level

    def _negated(self, term: int) -> tuple[str, int]:
        op, args, _, _ = self._rows[term]
        if op in (TermOp.LT, TermOp.EQ):
            sign = " >= " if op is TermOp.LT else " != "
            if self._rows[args[0]].op is TermOp.CONST:
                args, sign = (args[1], args[0]), sign.replace(">", "<")
            return self._wrapped(args[0], 2) + sign + self._wrapped(args[1], 3), 2
        return "!" + self._wrapped(term, _UNARY), _UNARY

    def _scalar(self, argument: int, offset: int, nbytes: int) -> str:
        name = self._arguments[argument].name or f"argument {argument}"
        type_name = self._arguments[argument].type_name
        if _VECTOR.match(type_name):
            part = offset // max(nbytes, 1)
            return f"{name}.{'xyzw'[part] if part < 4 else f's{part:x}'}"
        return name if offset == 0 and " " not in type_name else f"{name}.byte{offset}"

    def _is_plain(self, term: int, number: int) -> bool:
        """Not a product, not even behind conversions: written after the products."""
        while self._rows[term].op is TermOp.CONVERT:
            term = self._rows[term].args[0]
        return number == 1 and self._rows[term].op is not TermOp.MUL

    def _sum(self, constant: int, parts: dict[int, int]) -> tuple[str, int]:
        """``constant`` plus terms times numbers; what is added comes first."""
        texts: list[tuple[bool, str]] = []
        alone = len(parts) == 1 and constant == 0
        for term, number in sorted(parts.items(), key=lambda item: (item[1] < 0, self._is_plain(*item))):
            if abs(number) == 1:
                if alone and number == 1:
                    return self._text(term)
                texts.append((number < 0, self._wrapped(term, _PRODUCT if number < 0 else _SUM)))
            else:
                texts.append((number < 0, f"{abs(number)} * {self._wrapped(term, _UNARY)}"))
        if constant or not texts:
            texts.append((constant < 0, str(abs(constant))))
        text = ("-" if texts[0][0] else "") + texts[0][1]
        for negative, part in texts[1:]:
            text += (" - " if negative else " + ") + part
        return text, _PRODUCT if alone else _SUM
