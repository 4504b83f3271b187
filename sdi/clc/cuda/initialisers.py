"""OpenCL C initialisers as CUDA C++: each value in its place, all braces and no designators but unions'."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sdi.clc.cuda.types import (
    TypeNames,
    UnknownConstruct,
    in_unicode,
    is_anonymous,
    is_scalar,
    safe_name,
    unqualified,
)
from sdi.clc.frontend.syntax import Form, NodeKind, SyntaxNode, Type
from sdi.clc.printf_text import literal_bytes
from sdi.dataclass import dataclass, field

_AGGREGATES = (Form.ARRAY, Form.RECORD)
_HAVE_EFFECTS = (NodeKind.CALL, NodeKind.COMPOUND_ASSIGNMENT, NodeKind.OTHER)
_CHANGE = ("=", "++", "--", "x++", "x--")


@dataclass(slots=True)
class _Place:
    """An object that is initialised: by ``value``, else part by part; what has neither is zero."""

    type: Type
    value: SyntaxNode | None = None
    parts: dict[int, _Place] = field(default_factory=dict)


def _is_designated(node: SyntaxNode) -> bool:
    return node.kind is NodeKind.UNEXPOSED and node.type.form is Form.VOID


def _has_effects(node: SyntaxNode) -> bool:
    """Whether to compute a value twice may not be to compute it once."""
    if node.kind in _HAVE_EFFECTS:
        return True
    if node.kind in (NodeKind.UNARY_OPERATOR, NodeKind.BINARY_OPERATOR) and node.operator in _CHANGE:
        return True
    return any(map(_has_effects, node.operands[-1:] if _is_designated(node) else node.operands))


def _is_union(found: Type) -> bool:
    return found.form is Form.RECORD and unqualified(found).startswith("union ")


def _string_of(node: SyntaxNode) -> SyntaxNode | None:
    """The string that a value is, or a list of nothing but it."""
    while node.kind in (NodeKind.PAREN, NodeKind.INIT_LIST) and len(node.operands) == 1:
        node = node.operands[0]
    return node if node.kind is NodeKind.STRING_LITERAL else None


class InitialiserWriter:
    """Writes the initialisers of one program.

    ``fields``: of each record; those without a name are records whose members have names of their own.
    ``numbers``: indices of designators, by (begin, end).  ``value``, ``source``: an expression in C++, and as
    it stands; ``is_boolean``: one that was true or false.
    Source: C99, section 6.7.8.
    """

    def __init__(
        self,
        types: TypeNames,
        fields: Mapping[int, tuple[SyntaxNode, ...]],
        numbers: Mapping[tuple[int, int], int | float],
        value: Callable[[SyntaxNode], str],
        source: Callable[[SyntaxNode], str],
        is_boolean: Callable[[SyntaxNode], bool],
    ) -> None:
        self.types = types
        self.fields = fields
        self.numbers = numbers
        self._value = value
        self._source = source
        self._is_boolean = is_boolean

    def __call__(self, target: Type, node: SyntaxNode) -> str:
        """The value of an initialiser of ``target``: a list with braces, or an expression."""
        place = _Place(target)
        self._set(place, node)
        return self._written(place, node)

    def of_member(self, target: Type, value: SyntaxNode) -> str:
        """The union ``target`` of a value of the type of one of its members."""
        for at, each in enumerate(self._fields_of(target, value)):
            if unqualified(each.type) == unqualified(value.type):
                place = _Place(target)
                self._set(self._part(place, at, value), value)
                return self._written(place, value)
        raise UnknownConstruct(value, f"a conversion of '{value.type.spelling}' to '{target.spelling}'")

    # -- what belongs where ----------------------------------------------------------------------

    def _set(self, place: _Place, value: SyntaxNode) -> None:
        """All of ``place`` is ``value``, which may be a list."""
        place.value, place.parts = value, {}
        if value.kind is not NodeKind.INIT_LIST or place.type.form not in _AGGREGATES:
            return
        if not self._is_text(place.type, value):
            place.value = None
            self._set_parts(place, value)

    def _set_parts(self, place: _Place, listed: SyntaxNode) -> None:
        """What a list says of the parts of ``place``: in order from where a designator says.

        What is too much, C leaves out, with a warning.
        """
        path: list[tuple[_Place, int]] = [(place, 0)]
        """Objects, each a part of the one before it, and which part of each is next."""
        for each in listed.operands:
            if _is_designated(each):
                self._set_designated(place, each, path)
                continue
            while path and path[-1][1] >= self._count(path[-1][0].type, listed):
                self._leave(path)
            if not path:
                return
            self._set_next(path, each)

    def _leave(self, path: list[tuple[_Place, int]]) -> None:
        path.pop()
        if path:
            outer, at = path[-1]
            path[-1] = outer, self._after(outer.type, at)

    def _set_next(self, path: list[tuple[_Place, int]], value: SyntaxNode) -> None:
        """The next part, or the first scalar in it for a value that is not for all of it."""
        while not self._fills(self._part_type(*path[-1], value), value):
            path.append((self._part(*path[-1], value), 0))
        outer, at = path[-1]
        self._set(self._part(outer, at, value), value)
        path[-1] = outer, self._after(outer.type, at)

    def _set_designated(self, place: _Place, node: SyntaxNode, path: list[tuple[_Place, int]]) -> None:
        """``.field[index] = value``; ``path`` becomes what follows it."""
        *designators, value = node.operands
        ranges: list[range] = []
        current = place.type
        while designators:
            ranges.append(self._designated(current, designators, node))
            current = self._type_of_part(current, ranges[-1][0], node)
        if any(len(each) > 1 for each in ranges) and _has_effects(value):
            raise UnknownConstruct(node, "a range of elements whose value is computed once")
        places = [[place]]
        for each in ranges[:-1]:
            places.append([self._part(outer, at, node) for outer in places[-1] for at in each])
        before = [(outers[-1], each[-1]) for outers, each in zip(places, ranges[:-1], strict=False)]
        for outer in places[-1]:
            for at in ranges[-1]:
                path[:] = [*before, (outer, at)]
                self._set_next(path, value)

    def _designated(self, target: Type, designators: list[SyntaxNode], node: SyntaxNode) -> range:
        """Which parts of ``target`` the first of ``designators`` name, which are taken away."""
        first = designators.pop(0)
        if target.form is Form.RECORD:
            name = in_unicode(self._source(first)) if first.end > first.begin else ""
            for at, each in enumerate(self._fields_of(target, node)):
                if each.name == name and (name or each.type.record == first.type.record):
                    return range(at, at + 1)
            raise UnknownConstruct(node, f"the designator '.{name}'")
        low = self._index(first)
        if not designators or designators[0].kind is NodeKind.OTHER:
            return range(low, low + 1)
        between = self._source(first._replace(begin=first.end, end=designators[0].begin))
        return range(low, (self._index(designators.pop(0)) if "..." in between else low) + 1)

    def _index(self, node: SyntaxNode) -> int:
        number = self.numbers.get((node.begin, node.end))
        if not isinstance(number, int):
            raise UnknownConstruct(node, "this designator")
        return number

    # -- types of parts --------------------------------------------------------------------------

    def _fields_of(self, target: Type, node: SyntaxNode) -> tuple[SyntaxNode, ...]:
        fields = self.fields.get(target.record)
        if fields is None:
            raise UnknownConstruct(node, f"an initialiser of '{target.spelling}'")
        return fields

    def _count(self, target: Type, node: SyntaxNode) -> int:
        if target.form is Form.ARRAY:
            return target.count or 1 << 62
        return len(self._fields_of(target, node))

    def _after(self, target: Type, at: int) -> int:
        """The part that follows: none in a union."""
        return 1 << 62 if _is_union(target) else at + 1

    def _type_of_part(self, target: Type, at: int, node: SyntaxNode) -> Type:
        if target.form is not Form.ARRAY:
            return self._fields_of(target, node)[at].type
        assert target.element is not None
        return target.element

    def _part_type(self, outer: _Place, at: int, node: SyntaxNode) -> Type:
        return self._type_of_part(outer.type, at, node)

    def _part(self, outer: _Place, at: int, node: SyntaxNode) -> _Place:
        """A part that is going to be set; the rest of a value for the whole is not kept."""
        if outer.value is not None:
            raise UnknownConstruct(node, "a designator for a part of what has a value")
        found = outer.parts.get(at)
        if found is None:
            if _is_union(outer.type):
                outer.parts.clear()
            found = outer.parts[at] = _Place(self._part_type(outer, at, node))
        return found

    def _is_text(self, target: Type, node: SyntaxNode) -> bool:
        of_characters = target.element is not None and target.element.form is Form.INTEGER
        return target.form is Form.ARRAY and of_characters and _string_of(node) is not None

    def _fills(self, target: Type, node: SyntaxNode) -> bool:
        """The initialiser is for all of ``target``, not for its first scalar (braces left out)."""
        if node.kind is NodeKind.INIT_LIST or target.form not in _AGGREGATES:
            return True
        if target.form is Form.RECORD:
            return node.type.record == target.record
        return self._is_text(target, node)

    # -- C++ -------------------------------------------------------------------------------------

    def _written(self, place: _Place, node: SyntaxNode) -> str:
        target = place.type
        if place.value is not None:
            return self._of_value(target, place.value)
        if target.form is Form.ARRAY:
            listed = [self._part_or_zero(place, at, node) for at in range(max(place.parts, default=-1) + 1)]
            return "{" + ", ".join(listed) + "}"
        name = "" if is_anonymous(target) else self.types.record(target)
        last = max(place.parts, default=-1)
        if not _is_union(target) or last <= 0:
            listed = [self._part_or_zero(place, at, node) for at in range(last + 1)]
        else:
            listed = self._designators(place, node, bool(name))
        return f"{name}{{{', '.join(listed)}}}"

    def _designators(self, place: _Place, node: SyntaxNode, has_name: bool) -> list[str]:
        """Parts by their names; C++ knows those of a part without one in a record with a name only."""
        listed: list[str] = []
        for at, part in sorted(place.parts.items()):
            name = self._fields_of(place.type, node)[at].name
            if name:
                listed.append(f".{safe_name(name)} = {self._written(part, node)}")
            elif has_name and part.value is None:
                listed += self._designators(part, node, False)
            else:
                raise UnknownConstruct(node, "a value for a record without a name inside another")
        return listed

    def _part_or_zero(self, place: _Place, at: int, node: SyntaxNode) -> str:
        part = place.parts.get(at)
        if part is not None:
            return self._written(part, node)
        return "0" if self._part_type(place, at, node).form in (Form.INTEGER, Form.POINTER) else "{}"

    def _of_value(self, target: Type, node: SyntaxNode) -> str:
        if self._is_text(target, node):
            return self._text(target, node)
        if node.kind is not NodeKind.INIT_LIST:
            return self._one(target, node)
        if target.form is Form.VECTOR:
            values = ", ".join(self._value(each) for each in node.operands)
            return f"_cl_make<{self.types.plain(target, node)}>({values})"
        if len(node.operands) != 1:
            raise UnknownConstruct(node, "this initialiser")
        return self(target, node.operands[0])

    def _one(self, target: Type, node: SyntaxNode) -> str:
        """What a single value makes of ``target``: a scalar all elements of a vector."""
        value = self._value(node)
        if target.form is Form.VECTOR and is_scalar(node.type):
            sign = "-" if self._is_boolean(node) else ""
            return f"_cl_splat<{self.types.plain(target, node)}>({sign}{value})"
        return value

    def _text(self, target: Type, node: SyntaxNode) -> str:
        """Characters of an array; C++ has a string only where there is room for its final 0."""
        string = _string_of(node)
        assert string is not None
        characters = literal_bytes(in_unicode(self._source(string)))
        if not target.count or len(characters) < target.count:
            return self._value(string)
        return "{" + ", ".join(f"(char){each}" for each in characters[: target.count]) + "}"
