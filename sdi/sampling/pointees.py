"""Private variables that pointers point to: what is known of a part of one, and what a store makes of it."""

from __future__ import annotations

from sdi.clc.frontend.syntax import Form, NodeKind, SyntaxNode, Type
from sdi.sampling.control import JUMPS, is_item, record_of, variable_of
from sdi.sampling.layout import Layouts, name_of
from sdi.sampling.machine import GaveUp, Machine
from sdi.sampling.places import Path, Variable, with_part
from sdi.sampling.values import (
    PRIVATE_MEMORY,
    ArrayValue,
    PointerValue,
    RecordValue,
    Value,
    declaration_of,
    fresh,
    int_type,
    unset,
)


class Pointees:
    """Looks into a machine's variables.  Owned by: the thread of the build.

    ``records``: the types of structures that pointers may point to.
    """

    def __init__(self, machine: Machine, layouts: Layouts) -> None:
        self._machine = machine
        self._terms = machine.terms
        self._layouts = layouts
        self.records: dict[int, Type] = {}
        self._scanned: set[int] = set()

    def look_for(self, declaration: int, body: SyntaxNode) -> None:
        """Variables whose address a function takes may change behind the analysis' back."""
        if declaration in self._scanned:
            return
        self._scanned.add(declaration)
        for node in body.walk():
            if node.kind in JUMPS:
                raise GaveUp("uses goto", node.begin)
            if node.kind is NodeKind.MEMBER_REF and node.type.form is Form.ARRAY:
                self._note(node, may_be_other=False)  # its items are read and stored through pointers
            if node.kind is NodeKind.UNARY_OPERATOR and node.operator == "&":
                inner = node.children[0]
                self._note(inner, inner.type.form in (Form.INTEGER, Form.POINTER) and is_item(inner))

    def _note(self, place: SyntaxNode, may_be_other: bool) -> None:
        """``may_be_other``: it need not be a structure, or a part of one."""
        name, record = variable_of(place), record_of(place)
        if not name:
            return
        self._machine.exposed.add(name)
        if record is not None and self._layouts.is_disjoint(record):
            self.records[name] = record
        elif not may_be_other:
            self._machine.sticky.add(name)

    def of(self, pointer: Value) -> tuple[int, int] | None:
        """The private variable that ``pointer`` points to, and where in it, as a term."""
        if not isinstance(pointer, PointerValue) or len(pointer.choices) != 1:
            return None
        root, offset = pointer.choices[0]
        return (declaration_of(root), offset) if root < PRIVATE_MEMORY else None

    def offset(self, place: Variable) -> int | None:
        """How many bytes from its start a part of a variable begins; None: not known."""
        record, at = self.records.get(place.declaration), 0
        for name in place.path:
            fields = self._layouts.fields(record) if record is not None else None
            if fields is None or str(name) not in fields:
                return None
            record, at = fields[str(name)].type, at + fields[str(name)].offset
        return at

    def typed(self, value: Value, of: Type) -> Value:
        """A known value, or a fresh one of the right type."""
        kind = int_type(of)
        if kind is not None:
            is_known = isinstance(value, int) and self._terms.type(value) == kind
            return value if is_known else fresh(self._terms, of)
        return fresh(self._terms, of) if value is None else value

    def load(self, declaration: int, offset: int, of: Type) -> Value:
        """What is known of a part of a private variable that a pointer points to."""
        value, at = self._machine.env.get(declaration), self._terms.value(offset)
        if declaration in self._machine.sticky or at is None:
            return fresh(self._terms, of)
        match value:
            case ArrayValue() if value.holds(of) and (number := value.at(at)) is not None:
                return self.typed(value.items[number], of)
            case RecordValue() if (found := self._part(declaration, at, of)) is not None:
                path, _, rest = found
                part = _at(value, path)
                if isinstance(part, ArrayValue):
                    number = part.at(rest) if part.holds(of) else None
                    part = None if number is None else part.items[number]
                return self.typed(part, of)
            case int() if at == 0:
                return self.typed(value, of)
            case PointerValue() if at == 0 and of.form is Form.POINTER:
                return value
            case _:
                return fresh(self._terms, of)

    def store(self, declaration: int, offset: int, of: Type, value: Value) -> None:
        """Note what is stored through a pointer to a private variable."""
        env, at = self._machine.env, self._terms.value(offset)
        if declaration not in env:
            return
        old = env[declaration]
        match old:
            case ArrayValue() if at is not None and old.holds(of):
                number = old.at(at)
                env[declaration] = None if number is None else old.replaced(number, self.typed(value, of))
            case RecordValue() if at is not None and (found := self._part(declaration, at, of)) is not None:
                path, member, rest = found
                if member.form is not Form.ARRAY:
                    env[declaration] = with_part(old, path, self.typed(value, of))
                    return
                items = _at(old, path) or unset(member)
                number = items.at(rest) if isinstance(items, ArrayValue) and items.holds(of) else None
                if not isinstance(items, ArrayValue) or number is None:
                    env[declaration] = None  # more than an item, perhaps of what is behind the array too
                    return
                env[declaration] = with_part(old, path, items.replaced(number, self.typed(value, of)))
            case int() if at == 0 and int_type(of) == self._terms.type(old):
                env[declaration] = self.typed(value, of)
            case PointerValue() if at == 0 and of.form is Form.POINTER:
                env[declaration] = value
            case _:
                env[declaration] = None

    def _part(self, declaration: int, at: int, of: Type) -> tuple[Path, Type, int] | None:
        """Which part of a structure begins so many bytes from its start and has a type; None: no member.

        Of items of an array: the array, and how far behind its start.
        """
        record = self.records.get(declaration)
        path: Path = ()
        while record is not None and record.form is not Form.ARRAY and not (at == 0 and _is_same(of, record)):
            fields = self._layouts.fields(record) if record.form is Form.RECORD else None
            inner = [
                (name, field)
                for name, field in (fields or {}).items()
                if field.offset <= at < field.offset + field.type.nbytes
            ]
            if len(inner) != 1:
                return None
            ((name, field),) = inner
            path, record, at = (*path, name), field.type, at - field.offset
        return (path, record, at) if record is not None else None


def _at(value: Value, path: Path) -> Value:
    """The part of a structure at a path of names."""
    for name in path:
        value = value.get(str(name)) if isinstance(value, RecordValue) else None
    return value


def _is_same(one: Type, other: Type) -> bool:
    """Whether what is stored as one type is read as the same value in the other."""
    if one.form is not other.form or one.nbytes != other.nbytes:
        return False
    match one.form:
        case Form.INTEGER:
            return int_type(one) == int_type(other)
        case Form.RECORD:
            return name_of(one) == name_of(other)
        case Form.VECTOR:
            return (
                one.element is not None
                and other.element is not None
                and _is_same(one.element, other.element)
                and one.count == other.count
            )
        case Form.FLOATING | Form.POINTER:
            return True
        case _:
            return False
