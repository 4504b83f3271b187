"""The integer expressions of ``#if``.

Source: ISO C99, section 6.10.1: all arithmetic is as wide as the widest integer type, which in
clang's OpenCL C has 128 bits.  What C leaves open is as clang has it.
"""

from __future__ import annotations

import re

from sdi.clc.frontend.names import NAME
from sdi.clc.preprocess.macros import MacroError

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\.?[0-9](?:[eEpP][+-]|[A-Za-z0-9_.])*)"
    r"|(?P<wide>L?)'(?P<char>(?:\\.|[^'\\])+)'"
    rf"|(?P<name>{NAME})"
    r"|(?P<operator><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>?:(),]))"
)
_NUMBER = re.compile(
    r"(?P<digits>0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)"
    r"(?P<suffix>[uU]?(?:l|L|ll|LL)?|(?:l|L|ll|LL)[uU])\Z"
)
_CHAR = re.compile(r"\\x(?P<hex>[0-9a-fA-F]+)|\\(?P<octal>[0-7]{1,3})|\\(?P<escape>.)|(?P<plain>.)")
_ESCAPES = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "e": 27, "E": 27}
WIDTH = 128
"""Bits of ``intmax_t`` where nothing else is known."""

Number = tuple[int, bool]  # value, is unsigned


def _wrapped(value: int, width: int, unsigned: bool) -> Number:
    value &= (1 << width) - 1
    if not unsigned and value >> (width - 1):
        value -= 1 << width
    return value, unsigned


def _integer(text: str, width: int) -> Number:
    """An integer constant; one that does not fit the signed type is unsigned."""
    match = _NUMBER.match(text)
    if match is None:
        raise MacroError(f"'{text}' is no integer constant")
    digits = match["digits"]
    octal = digits[0] == "0" and digits.isdigit()
    value = int(digits, 8 if octal else 0)
    if value >> width:
        raise MacroError(f"'{text}' is too large for any integer type")
    return value, "u" in match["suffix"].lower() or value >> (width - 1) != 0


def _character(text: str, is_wide: bool) -> Number:
    """A character constant: several characters are an int, one is a char, which is signed."""
    width = 32 if is_wide else 8
    value, count = 0, 0
    for match in _CHAR.finditer(text):
        if match["hex"]:
            code = int(match["hex"], 16)
        elif match["octal"]:
            code = int(match["octal"], 8)
        else:
            escape, plain = match["escape"], match["plain"]
            code = _ESCAPES.get(escape, ord(escape)) if escape else ord(plain)
            if not is_wide and code > 127:
                raise MacroError(f"'{text}': a character that does not fit a char")
        if code >> width:
            raise MacroError(f"'{text}': an escape sequence out of range")
        value = code if is_wide else value << 8 | code
        count += 1
    return _wrapped(value, 32 if count > 1 else width, False)


_LEVELS = {
    "*": 10,
    "/": 10,
    "%": 10,
    "+": 9,
    "-": 9,
    "<<": 8,
    ">>": 8,
    "<": 7,
    ">": 7,
    "<=": 7,
    ">=": 7,
    "==": 6,
    "!=": 6,
    "&": 5,
    "^": 4,
    "|": 3,
    "&&": 2,
    "||": 1,
}


class _Parser:
    """Precedence climbing; ``live`` is False in operands that C does not evaluate."""

    def __init__(self, text: str, width: int) -> None:
        self.items: list[Number | str] = []
        self.width = width
        at = 0
        text = text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise MacroError(f"#if {text}: unexpected '{text[at:].strip()[:10]}'")
            at = match.end()
            if match["number"]:
                self.items.append(_integer(match["number"], width))
            elif match["char"]:
                self.items.append(_character(match["char"], bool(match["wide"])))
            elif match["name"]:
                self.items.append((int(match["name"] == "true"), False))
            else:
                self.items.append(match["operator"])
        self.at = 0
        self.text = text

    def peek(self) -> Number | str:
        return self.items[self.at] if self.at < len(self.items) else ""

    def wrap(self, value: int, unsigned: bool) -> Number:
        return _wrapped(value, self.width, unsigned)

    def fail(self) -> MacroError:
        return MacroError(f"#if {self.text}: not an integer expression")

    def unary(self, live: bool) -> Number:
        item = self.peek()
        self.at += 1
        if isinstance(item, tuple):
            return item
        if item == "(":
            value = self.comma(live)
            if self.peek() != ")":
                raise self.fail()
            self.at += 1
            return value
        if item in ("-", "+", "~", "!"):
            number, unsigned = self.unary(live)
            if item == "-":
                return self.wrap(-number, unsigned)
            if item == "~":
                return self.wrap(~number, unsigned)
            return (int(not number), False) if item == "!" else (number, unsigned)
        raise self.fail()

    def binary(self, level: int, live: bool) -> Number:
        left = self.unary(live)
        while True:
            operator = self.peek()
            if not isinstance(operator, str) or _LEVELS.get(operator, 0) < level:
                return left
            self.at += 1
            needed = live
            if operator == "&&":
                needed = live and left[0] != 0
            elif operator == "||":
                needed = live and left[0] == 0
            right = self.binary(_LEVELS[operator] + 1, needed)
            left = self.apply(operator, left, right, live)

    def apply(self, operator: str, left: Number, right: Number, live: bool) -> Number:
        a, b, unsigned = left[0], right[0], left[1] or right[1]
        if operator in ("&&", "||"):
            return (int(bool(a and b) if operator == "&&" else bool(a or b)), False)
        if operator in ("<<", ">>"):
            # Too many bits, and fewer than none: to the left nothing is left, to the right one bit is.
            if operator == "<<":
                return self.wrap(a << b if 0 <= b < self.width else 0, left[1])
            shift = b & 0xFFFFFFFF if 0 <= b < 1 << 64 else self.width
            return self.wrap(a >> min(shift, self.width - 1), left[1])
        a, b = self.wrap(a, unsigned)[0], self.wrap(b, unsigned)[0]
        match operator:
            case "+":
                return self.wrap(a + b, unsigned)
            case "-":
                return self.wrap(a - b, unsigned)
            case "*":
                return self.wrap(a * b, unsigned)
            case "/" | "%":
                if b == 0:
                    if live:
                        raise MacroError(f"#if {self.text}: division by zero")
                    return (0, unsigned)
                quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                return self.wrap(quotient if operator == "/" else a - b * quotient, unsigned)
            case "&":
                return self.wrap(a & b, unsigned)
            case "|":
                return self.wrap(a | b, unsigned)
            case "^":
                return self.wrap(a ^ b, unsigned)
            case "<":
                return (int(a < b), False)
            case ">":
                return (int(a > b), False)
            case "<=":
                return (int(a <= b), False)
            case ">=":
                return (int(a >= b), False)
            case "==":
                return (int(a == b), False)
            case _:
                return (int(a != b), False)

    def ternary(self, live: bool) -> Number:
        condition = self.binary(1, live)
        if self.peek() != "?":
            return condition
        self.at += 1
        yes = self.comma(live and condition[0] != 0)
        if self.peek() != ":":
            raise self.fail()
        self.at += 1
        no = self.ternary(live and condition[0] == 0)
        return self.wrap((yes if condition[0] else no)[0], yes[1] or no[1])

    def comma(self, live: bool) -> Number:
        value = self.ternary(live)
        while self.peek() == ",":
            self.at += 1
            value = self.ternary(live)
        return value


def evaluate(text: str, width: int = WIDTH) -> int:
    """Value of an expression without macros or ``defined``; other names are 0, as C has it.

    ``width``: bits of the type that is computed with.  Raises MacroError when it is none.
    """
    parser = _Parser(text, width)
    value, _ = parser.comma(True)
    if parser.at != len(parser.items):
        raise parser.fail()
    return value
