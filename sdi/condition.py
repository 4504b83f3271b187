"""Conditions over named values: ``unexplained_percent > 5 or kernel.step.imbalance_percent > 10``.

A comparison is a name, a sign, and a number, a word or a text in quotes; numbers may end in K, M, G or T
(powers of 1024).  ``and`` binds closer than ``or``.  What the names are, who asks knows.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Final, Literal, NoReturn

from sdi.dataclass import dataclass

NUMBER_SIGNS: Final[dict[str, Callable[[float, float], bool]]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
TEXT_SIGNS: Final[dict[str, Callable[[str, str], bool]]] = {
    "==": lambda left, right: left.casefold() == right.casefold(),
    "!=": lambda left, right: left.casefold() != right.casefold(),
    "~": lambda left, right: right.casefold() in left.casefold(),
    "!~": lambda left, right: right.casefold() not in left.casefold(),
}
"""Upper and lower case are the same; ``~``: the right text is a part of the left one."""
Kind = Literal["number", "word", "quoted", "version", "other"]
"""A version: what begins as a number does and is none."""
_TOKEN = re.compile(
    r"""(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?[KMGT]?(?![\w.]))"""
    r"""|(?P<word>[A-Za-z_][\w.]*)"""
    r"""|(?P<quoted>"[^"]*"|'[^']*')"""
    r"""|(?P<version>[0-9][\w.]*)"""
    r"""|(?P<other><=|>=|==|!=|!~|\S)"""
)


class ConditionError(ValueError):
    """The text is no condition, or names what there is not; one line."""


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A part of a text; ``at``: where in it, from 0."""

    text: str
    kind: Kind
    at: int

    @property
    def number(self) -> float:
        """Of a number: its value."""
        digits = self.text.rstrip("KMGT")
        return float(digits) * (1 << 10 * " KMGT".index(self.text[len(digits) :] or " "))

    @property
    def value(self) -> str:
        """The text without its quotes."""
        return self.text[1:-1] if self.kind == "quoted" else self.text

    def __str__(self) -> str:
        return f"{self.number:g}" if self.kind == "number" else self.text


@dataclass(frozen=True, slots=True)
class ValueComparison:
    """``left`` is a name; ``right`` a number, a word or a quoted text."""

    left: Lexeme
    sign: Lexeme
    right: Lexeme

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


@dataclass(frozen=True, slots=True)
class Condition:
    """True where all comparisons of one of ``choices`` are."""

    choices: tuple[tuple[ValueComparison, ...], ...]

    def holds(self, is_true: Callable[[ValueComparison], bool]) -> tuple[ValueComparison, ...]:
        """The comparisons that make it true; empty when it is not."""
        return next((choice for choice in self.choices if all(map(is_true, choice))), ())

    @property
    def comparisons(self) -> tuple[ValueComparison, ...]:
        """All of them, in order."""
        return tuple(one for choice in self.choices for one in choice)


class Reader:
    """Takes a text apart from left to right."""

    def __init__(self, text: str) -> None:
        self.text: Final = text
        self._tokens: Final = [_lexeme(found) for found in _TOKEN.finditer(text)]
        self._at = 0

    @property
    def ahead(self) -> Lexeme | None:
        """The next token; None at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def takes(self, *words: str) -> bool:
        """Whether these words, in upper or lower case, come next; then they are taken."""
        following = self._tokens[self._at : self._at + len(words)]
        if [token.text.lower() for token in following] != [*words]:
            return False
        self._at += len(words)
        return True

    def take(self) -> Lexeme:
        """The next token, of which ``ahead`` says that it is there."""
        token = self._tokens[self._at]
        self._at += 1
        return token

    def name(self, what: str) -> Lexeme:
        """The name of a ``what`` that has to come next.  Raises ConditionError."""
        token = self.ahead
        if token is None:
            self.refuse("a comparison (name, sign, value)", None)
        if token.kind != "word":
            self.refuse(f"the name of a {what}", token)
        return self.take()

    def sign(self, signs: Collection[str], after: Lexeme) -> Lexeme:
        """One of ``signs``, which has to come next.  Raises ConditionError."""
        token = self.ahead
        if token is None or token.text not in signs:
            self.refuse(f"one of {' '.join(signs)} after {after.text}", token)
        return self.take()

    def refuse(self, expected: str, token: Lexeme | None) -> NoReturn:
        """Raises ConditionError that points at ``token``; None: at the end."""
        if token is None:
            raise ConditionError(f"{self.text!r}: {expected} is missing at the end")
        raise ConditionError(
            f"{self.text!r}: expected {expected}, not {token.text!r} (character {token.at + 1})"
        )

    def unknown(self, token: Lexeme, what: str, known: Collection[str]) -> NoReturn:
        """Raises ConditionError: ``token`` is none of ``known``."""
        near = get_close_matches(token.value, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConditionError(
            f"{self.text!r}: there is no {what} {token.text!r} (character {token.at + 1}){hint}"
        )


def _lexeme(found: re.Match[str]) -> Lexeme:
    match found.lastgroup:
        case "number" | "word" | "quoted" | "version" as kind:
            return Lexeme(found[0], kind, found.start())
        case _:
            return Lexeme(found[0], "other", found.start())


def read_comparison(reader: Reader) -> ValueComparison:
    """Of a name with a number or another name.  Raises ConditionError."""
    left = reader.name("figure")
    sign = reader.sign(NUMBER_SIGNS, left)
    right = reader.ahead
    if right is None or right.kind not in ("word", "number"):
        reader.refuse(f"a number or a name after {sign.text}", right)
    return ValueComparison(left, sign, reader.take())


def read_condition(
    reader: Reader,
    ends: Collection[str] = (),
    read: Callable[[Reader], ValueComparison] = read_comparison,
) -> Condition:
    """The condition that comes next, up to the end or one of the words ``ends``.  Raises ConditionError.

    ``read``: takes a comparison.
    """
    choices: list[list[ValueComparison]] = [[read(reader)]]
    while reader.ahead is not None and reader.ahead.text.lower() not in ends:
        if reader.takes("and"):
            choices[-1].append(read(reader))
        elif reader.takes("or"):
            choices.append([read(reader)])
        else:
            wanted = [repr(word) for word in ("and", "or", *ends)]
            reader.refuse(f"{', '.join(wanted[:-1])} or {wanted[-1]}", reader.ahead)
    return Condition(tuple(map(tuple, choices)))


def parse_condition(text: str) -> Condition:
    """The condition over figures that ``text`` is.  Raises ConditionError."""
    return read_condition(Reader(text))
