"""The integer expressions of ``#if``.  Source: ISO C99, section 6.10.1: all arithmetic is 64 bits wide."""

from __future__ import annotations

import re

from sdi.clc.macros import MacroError

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)(?P<suffix>[uUlL]*)"
    r"|(?P<name>[A-Za-z_$\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*)"
    r"|'(?P<char>\\.[^']*|[^'\\])'"
    r"|(?P<operator><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>?:(),]))"
)
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
_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "a": 7, "b": 8, "f": 12, "v": 11}
_MASK = (1 << 64) - 1

Number = tuple[int, bool]  # value, is unsigned


def _wrap(value: int, unsigned: bool) -> Number:
    value &= _MASK
    if not unsigned and value >> 63:
        value -= 1 << 64
    return value, unsigned


class _Parser:
    """Precedence climbing; ``live`` is False in operands that C does not evaluate."""

    def __init__(self, text: str) -> None:
        self.items: list[Number | str] = []
        at = 0
        text = text.strip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise MacroError(f"#if {text}: unexpected '{text[at:].strip()[:10]}'")
            at = match.end()
            if match["number"]:
                digits = match["number"]
                octal = digits[0] == "0" and digits.isdigit() and len(digits) > 1
                value = int(digits, 8 if octal else 0)
                unsigned = "u" in match["suffix"].lower() or value >> 63 != 0
                self.items.append((value, unsigned))
            elif match["name"]:
                self.items.append(
                    (int(match["name"] == "true"), False) if match["name"] == "true" else (0, False)
                )
            elif match["char"]:
                char = match["char"]
                code = _ESCAPES.get(char[1], ord(char[1])) if char[0] == "\\" else ord(char)
                self.items.append((code, False))
            else:
                self.items.append(match["operator"])
        self.at = 0
        self.text = text

    def peek(self) -> Number | str:
        return self.items[self.at] if self.at < len(self.items) else ""

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
                return _wrap(-number, unsigned)
            if item == "~":
                return _wrap(~number, unsigned)
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
            shift = min(max(b, 0), 64)
            return _wrap(a << shift if operator == "<<" else a >> shift, left[1])
        a, b = _wrap(a, unsigned)[0], _wrap(b, unsigned)[0]
        match operator:
            case "+":
                return _wrap(a + b, unsigned)
            case "-":
                return _wrap(a - b, unsigned)
            case "*":
                return _wrap(a * b, unsigned)
            case "/" | "%":
                if b == 0:
                    if live:
                        raise MacroError(f"#if {self.text}: division by zero")
                    return (0, unsigned)
                quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                return _wrap(quotient if operator == "/" else a - b * quotient, unsigned)
            case "&":
                return _wrap(a & b, unsigned)
            case "|":
                return _wrap(a | b, unsigned)
            case "^":
                return _wrap(a ^ b, unsigned)
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
        return _wrap((yes if condition[0] else no)[0], yes[1] or no[1])

    def comma(self, live: bool) -> Number:
        value = self.ternary(live)
        while self.peek() == ",":
            self.at += 1
            value = self.ternary(live)
        return value


def evaluate(text: str) -> int:
    """Value of an expression without macros or ``defined``; other names are 0, as C has it.

    Raises MacroError when it is none.
    """
    parser = _Parser(text)
    value, _ = parser.comma(True)
    if parser.at != len(parser.items):
        raise parser.fail()
    return value
