"""What a variable of a kernel may hold, as far as index expressions need it.

``int``: a term; ``PointerValue``; ``tuple``: components of a vector; ``RecordValue``; ``ArrayValue``;
``FloatValue``: a floating-point number that all work-items have; None: not known (also other such numbers).
"""

from __future__ import annotations

from dataclasses import dataclass

from sdi.clc.frontend.syntax import Form, Type
from sdi.sampling.float_bounds import FloatValue
from sdi.sampling.terms import IntType, Terms

PRIVATE_MEMORY = -1
"""Root of memory that no other work-group sees; roots below it are private variables, see ``root_of``."""
ITEMS_MAX = 64
"""Of an array whose items are followed one by one."""


@dataclass(frozen=True, slots=True)
class PointerValue:
    """An address: ``offset`` bytes (a 64-bit term) after the start of what ``root`` names.

    ``root``: number of the kernel's argument, ``root_of`` a private variable, or PRIVATE_MEMORY.
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


@dataclass(frozen=True, slots=True)
class ArrayValue:
    """A private array of integers of one type, in one or more dimensions: its items as they lie in memory."""

    kind: IntType
    items: tuple[Value, ...]

    def at(self, nbytes: int) -> int | None:
        """The number of the item so many bytes from the start; None where none begins."""
        number, rest = divmod(nbytes, self.kind.bits // 8)
        return number if not rest and 0 <= number < len(self.items) else None

    def replaced(self, number: int, value: Value) -> ArrayValue:
        """The array with another item."""
        return ArrayValue(self.kind, (*self.items[:number], value, *self.items[number + 1 :]))


Value = int | PointerValue | tuple["Value", ...] | RecordValue | ArrayValue | FloatValue | None


def unset(of: Type) -> ArrayValue | None:
    """An array of a type before anything was stored in it; None where its items are not followed."""
    item = of
    while item.form is Form.ARRAY and item.element is not None:
        item = item.element
    kind = int_type(item)
    if of.form is not Form.ARRAY or kind is None or kind.bits < 8 or not item.nbytes <= of.nbytes:
        return None
    count = of.nbytes // item.nbytes
    return ArrayValue(kind, (None,) * count) if count <= ITEMS_MAX else None


def root_of(declaration: int) -> int:
    """What pointers to a private variable have as root; 0: to private memory that nothing is known of."""
    return PRIVATE_MEMORY - 1 - declaration


def declaration_of(root: int) -> int:
    """The variable of ``root_of``."""
    return PRIVATE_MEMORY - 1 - root


HARMLESS = PointerValue(((root_of(0), 0),))
"""To memory that no other work-group sees, and that holds no variable whose value is followed."""


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
        case ArrayValue(), ArrayValue() if a.kind == b.kind and len(a.items) == len(b.items):
            pairs = zip(a.items, b.items, strict=True)
            return ArrayValue(a.kind, tuple(joined(terms, condition, x, y) for x, y in pairs))
        case _:
            return None
