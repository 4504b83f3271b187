"""What a variable of a kernel may hold, as far as index expressions need it.

``int``: a term; ``PointerValue``; ``tuple``: components of a vector; ``RecordValue``; None: not known (also
every floating-point value).
"""

from __future__ import annotations

from dataclasses import dataclass

from sdi.clc.frontend.syntax import Form, Type
from sdi.sampling.terms import IntType, Terms

PRIVATE_MEMORY = -1  # root of memory that no other work-group sees


@dataclass(frozen=True, slots=True)
class PointerValue:
    """An address: ``offset`` bytes (a 64-bit term) after the start of what ``root`` names.

    ``root``: number of the kernel's argument, or PRIVATE_MEMORY.
    ``choices``: where it may point; empty for NULL.
    """

    choices: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RecordValue:
    """A structure by value; fields that are not named are not known."""

    fields: tuple[tuple[str, Value], ...]

    def get(self, name: str) -> Value:
        """The value of a field."""
        return dict(self.fields).get(name)

    def replaced(self, name: str, value: Value) -> RecordValue:
        """The structure with another value for one field."""
        return RecordValue((*((n, v) for n, v in self.fields if n != name), (name, value)))


Value = int | PointerValue | tuple["Value", ...] | RecordValue | None
HARMLESS = PointerValue(((PRIVATE_MEMORY, 0),))


def int_type(of: Type) -> IntType | None:
    """The integer type, or None for other types; ``bool`` has one bit and no sign."""
    if of.form is not Form.INTEGER or of.nbytes == 0:
        return None
    return IntType(1, False) if is_bool(of) else IntType(8 * of.nbytes, not of.unsigned)


def is_bool(of: Type) -> bool:
    """Whether conversions to it compare with 0."""
    return of.form is Form.INTEGER and of.nbytes == 1 and of.canonical.split()[-1] in ("bool", "_Bool")


def fresh(terms: Terms, of: Type, data: bool = True) -> Value:
    """A value of this type that nothing is known about."""
    kind = int_type(of)
    if kind is not None:
        return terms.unknown(kind, data)
    if of.form is Form.VECTOR and of.element is not None and int_type(of.element) is not None:
        return tuple(fresh(terms, of.element, data) for _ in range(of.count))
    return None


def joined(terms: Terms, condition: int, a: Value, b: Value) -> Value:
    """``condition ? a : b``."""
    if a == b:
        return a
    match a, b:
        case int(), int():
            return terms.select(condition, a, b) if terms.type(a) == terms.type(b) else None
        case PointerValue(), PointerValue():
            known = terms.value(condition)
            if known is not None:
                return a if known else b
            mine, theirs = dict(a.choices), dict(b.choices)
            if len(mine) < len(a.choices) or len(theirs) < len(b.choices):
                return None
            merged: list[tuple[int, int]] = []
            for root in (*mine, *(r for r in theirs if r not in mine)):
                if root in mine and root in theirs:
                    merged.append((root, terms.select(condition, mine[root], theirs[root])))
                else:
                    merged.append((root, mine.get(root, theirs.get(root, 0))))
            return PointerValue(tuple(merged))
        case tuple(), tuple() if len(a) == len(b):
            return tuple(joined(terms, condition, x, y) for x, y in zip(a, b, strict=True))
        case RecordValue(), RecordValue():
            return RecordValue(tuple((n, joined(terms, condition, v, b.get(n))) for n, v in a.fields))
        case _:
            return None
