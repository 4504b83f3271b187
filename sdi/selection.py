"""Which devices become members: ``gpu and memory > 40G and node != 3 order by memory desc top 4``.

A query is a condition over ATTRIBUTES, then ``order by`` with attributes, then ``top`` with a number; each
part may be missing.  ``gpu`` and ``cpu`` alone stand for a comparison with ``kind``.
Source: papers/4, section 3.1, whose language has these clauses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from sdi.condition import (
    NUMBER_SIGNS,
    TEXT_SIGNS,
    Condition,
    Lexeme,
    Reader,
    ValueComparison,
    read_condition,
)
from sdi.dataclass import dataclass

Facts = Mapping[str, "float | str"]
"""What is known of a device: a value for each attribute."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """``unit``: of a number, "" where it has none."""

    is_text: bool
    unit: str
    meaning: str


ATTRIBUTES: Final[dict[str, Attribute]] = {
    "kind": Attribute(True, "", "gpu or cpu"),
    "name": Attribute(True, "", "the device's, as its driver gives it"),
    "vendor": Attribute(True, "", "the device's"),
    "platform": Attribute(True, "", "the driver's name"),
    "driver": Attribute(True, "", "the driver's version"),
    "memory": Attribute(False, "bytes", "of the whole device; K, M, G and T are powers of 1024"),
    "units": Attribute(False, "", "compute units"),
    "clock": Attribute(False, "MHz", "the highest"),
    "number": Attribute(False, "", "of the device, as sdi devices counts them"),
    "node": Attribute(False, "", "the rank of its process in an MPI job, 0 without one"),
    "host": Attribute(True, "", "the name of its machine"),
    "unit": Attribute(True, "", "the physical device: the same whatever the driver"),
}
_SHORT: Final = ("gpu", "cpu")
_CLAUSES: Final = ("order", "top")
_QUERY = re.compile(r"[<>=!~]|\b(and|or|order|top)\b", re.IGNORECASE)


def is_query(text: str) -> bool:
    """Whether ``text`` is a query, or a list of numbers and parts of names.

    A query has a sign, or one of the words and, or, order and top; or is the name of a kind.
    """
    return text.strip().lower() in _SHORT or _QUERY.search(text) is not None


@dataclass(frozen=True, slots=True)
class Selection:
    """``order``: attributes, each with whether the largest comes first.  ``top``: that many at most."""

    condition: Condition | None
    order: tuple[tuple[str, bool], ...]
    top: int | None

    def of(self, devices: Sequence[Facts]) -> list[int]:
        """Positions of the devices that it selects, in its order; equal ones in theirs.

        A physical device that several drivers show is selected once, with the first that fits.
        """
        units: dict[tuple[object, object], int] = {}
        for position, facts in enumerate(devices):
            if self.condition is None or self.condition.holds(partial(_is_true, facts)):
                units.setdefault((facts["node"], facts["unit"]), position)
        found = list(units.values())
        for name, is_descending in reversed(self.order):
            found.sort(key=lambda position: _key(devices[position][name]), reverse=is_descending)
        return found[: self.top]


def parse_selection(text: str) -> Selection:
    """The query that ``text`` is.  Raises ConditionError."""
    reader = Reader(text)
    condition, order, top = None, [], None
    if not _is_clause(reader.ahead):
        condition = read_condition(reader, _CLAUSES, _restriction)
    if reader.takes("order"):
        if not reader.takes("by"):
            reader.refuse("'by' after order", reader.ahead)
        order.append(_ordering(reader))
        while reader.takes(","):
            order.append(_ordering(reader))
    if reader.takes("top"):
        top = _count(reader)
    if reader.ahead is not None:
        reader.refuse("the end" if top is not None else "',', 'top' or the end", reader.ahead)
    return Selection(condition, tuple(order), top)


def named_in(text: str) -> list[str]:
    """The attributes that a query names; none of a list."""
    if not is_query(text):
        return []
    query = parse_selection(text)
    compared = query.condition.comparisons if query.condition is not None else ()
    return [*(one.left.text for one in compared), *(name for name, _ in query.order)]


def _is_clause(token: Lexeme | None) -> bool:
    return token is not None and token.text.lower() in _CLAUSES


def _attribute(reader: Reader) -> Lexeme:
    name = reader.name("attribute")
    if name.text.lower() not in ATTRIBUTES:
        reader.unknown(name, "attribute", ATTRIBUTES)
    return Lexeme(name.text.lower(), name.kind, name.at)


def _restriction(reader: Reader) -> ValueComparison:
    short = reader.ahead
    if short is not None and short.text.lower() in _SHORT:
        reader.take()
        return ValueComparison(Lexeme("kind", "word", short.at), Lexeme("==", "other", short.at), short)
    name = _attribute(reader)
    is_text = ATTRIBUTES[name.text].is_text
    sign = reader.sign(TEXT_SIGNS if is_text else NUMBER_SIGNS, name)
    right = reader.ahead
    if right is None or (right.kind == "other" if is_text else right.kind != "number"):
        reader.refuse(f"a {'text' if is_text else 'number'} after {name.text} {sign.text}", right)
    return ValueComparison(name, sign, reader.take())


def _ordering(reader: Reader) -> tuple[str, bool]:
    name = _attribute(reader)
    is_descending = reader.takes("desc")
    if not is_descending:
        reader.takes("asc")
    return name.text, is_descending


def _count(reader: Reader) -> int:
    token = reader.ahead
    if token is None or not re.fullmatch("[0-9]{1,6}", token.text) or not int(token.text):
        reader.refuse("a number of devices after top", token)
    return int(reader.take().text)


def _is_true(facts: Facts, one: ValueComparison) -> bool:
    value = facts[one.left.text]
    if isinstance(value, str):
        return TEXT_SIGNS[one.sign.text](value, one.right.value)
    return NUMBER_SIGNS[one.sign.text](value, one.right.number)


def _key(value: float | str) -> float | str:
    return value.casefold() if isinstance(value, str) else value
