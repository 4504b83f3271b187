"""What a variable of a kernel may hold, as far as index expressions need it.

``int``: a term; ``PointerValue``; ``tuple``: components of a vector; ``RecordValue``; ``ArrayValue``;
``FloatValue``: a floating-point number that all work-items have; None: not known (also other such numbers).
"""

from __future__ import annotations

from collections.abc import Sequence

from sdi.clc.frontend.syntax import Form, Type
from sdi.dataclass import dataclass
from sdi.sampling.float_bounds import FloatValue
from sdi.sampling.terms import IntType, TermOp, Terms

PRIVATE_MEMORY = -1
"""Root of memory that no other work-group sees; roots below it are private variables, see ``root_of``."""
POINTER_NBYTES = 8
ITEMS_MAX = 64
"""Of an array whose items are followed one by one."""


@dataclass(frozen=True, slots=True)
class PointerValue:
    """An address: ``offset`` bytes (a 64-bit term) after the start of what ``root`` names.

    ``root``: number of the kernel's argument, ``root_of`` a private variable, or PRIVATE_MEMORY.
    ``choices``: where it may point; empty for NULL.  ``conditions``: for each choice the truth value that
    holds where it is the one; empty where there is no other.
    """

    choices: tuple[tuple[int, int], ...]
    conditions: tuple[int, ...] = ()

    @property
    def offsets(self) -> list[int]:
        """Those of the choices."""
        return [offset for _, offset in self.choices]

    def at(self, offsets: Sequence[int]) -> PointerValue:
        """A pointer into the same objects under the same conditions."""
        roots = [root for root, _ in self.choices]
        return PointerValue(tuple(zip(roots, offsets, strict=True)), self.conditions)

    def is_beside(self, other: PointerValue) -> bool:
        """Whether the two differ in offsets only."""
        return self.at(other.offsets) == other if len(self.choices) == len(other.choices) else False


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
    """A private array in one or more dimensions: its items as they lie in memory.

    ``kind``: the integers' type; None: they are pointers.
    """

    kind: IntType | None
    items: tuple[Value, ...]

    def at(self, nbytes: int) -> int | None:
        """The number of the item so many bytes from the start; None where none begins."""
        number, rest = divmod(nbytes, self.kind.bits // 8 if self.kind is not None else POINTER_NBYTES)
        return number if not rest and 0 <= number < len(self.items) else None

    def holds(self, of: Type) -> bool:
        """Whether items are read and written as this type."""
        kind = int_type(of)
        return kind == self.kind and (kind is not None or of.form is Form.POINTER)

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
    is_pointer = item.form is Form.POINTER and item.nbytes == POINTER_NBYTES
    if of.form is not Form.ARRAY or not 0 < item.nbytes <= of.nbytes:
        return None
    if not is_pointer and (kind is None or kind.bits < 8):
        return None
    count = of.nbytes // item.nbytes
    return ArrayValue(kind, (None,) * count) if count <= ITEMS_MAX else None


def has_items(value: Value) -> bool:
    """Whether it is an array whose items are followed, or a structure with one."""
    if isinstance(value, RecordValue):
        return any(has_items(part) for _, part in value.fields)
    return isinstance(value, ArrayValue)


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
            return _either(terms, condition, a, b)
        case tuple(), tuple() if len(a) == len(b):
            return tuple(joined(terms, condition, x, y) for x, y in zip(a, b, strict=True))
        case RecordValue(), RecordValue():
            return RecordValue(tuple((n, joined(terms, condition, v, b.get(n))) for n, v in a.fields))
        case ArrayValue(), ArrayValue() if a.kind == b.kind and len(a.items) == len(b.items):
            pairs = zip(a.items, b.items, strict=True)
            return ArrayValue(a.kind, tuple(joined(terms, condition, x, y) for x, y in pairs))
        case _:
            return None


def _either(terms: Terms, condition: int, a: PointerValue, b: PointerValue) -> PointerValue | None:
    """``condition ? a : b`` of two pointers."""
    mine, theirs = dict(a.choices), dict(b.choices)
    if len(mine) < len(a.choices) or len(theirs) < len(b.choices):
        return None
    if a.is_beside(b):
        return a.at([terms.select(condition, *each) for each in zip(a.offsets, b.offsets, strict=True)])
    held: dict[int, list[int]] = {}
    for pointer, side in ((a, condition), (b, terms.negate(condition))):
        for number, root in enumerate(dict(pointer.choices)):
            held.setdefault(root, []).append(terms.join([side, *pointer.conditions[number : number + 1]]))
    merged = tuple(
        (
            root,
            terms.select(condition, mine.get(root, theirs.get(root, 0)), theirs.get(root, mine.get(root, 0))),
        )
        for root in held
    )
    return PointerValue(merged, tuple(terms.join(each, TermOp.ANY) for each in held.values()))
