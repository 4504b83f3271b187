"""Structs and unions as CUDA C++, laid out as clang laid them out; the compiler checks that.

All are defined at the scope of the program, before the declaration that theirs stands in: C has them in
parameters, casts and other places where C++ allows none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sdi.clc.cuda.tree import CudaTree, Layout
from sdi.clc.cuda.types import TypeNames, UnknownConstruct, is_anonymous, is_empty, safe_name
from sdi.clc.frontend.syntax import Form, NodeKind, SyntaxNode, Type

RECORDS = (NodeKind.STRUCT_DECL, NodeKind.UNION_DECL)
_ALIGNED = re.compile(r"(?:__)?aligned(?:__)?\s*\(\s*(\d+)\s*\)\Z")
_PACKED = ("packed", "__packed__")


def _innermost(found: Type) -> Type:
    while found.form is Form.ARRAY and found.element is not None:
        found = found.element
    return found


class Records:
    """Writes the records of one program.  Owned by: the thread of the build."""

    def __init__(self, program: CudaTree, types: TypeNames) -> None:
        self.program = program
        self.tree = program.tree
        self.types = types
        self.fields: dict[int, tuple[SyntaxNode, ...]] = {}
        self._defined: set[int] = set()
        self._declaring: set[int] = set()
        for declaration in self.tree.declarations:
            for node in declaration.walk():
                if node.kind not in RECORDS:
                    continue
                self._declaring.add(declaration.begin)
                fields = tuple(self._fields(node))
                if fields:
                    self.fields.setdefault(node.type.record, fields)

    def _fields(self, node: SyntaxNode) -> Iterator[SyntaxNode]:
        """The members that a list gives values; a record without a name is one."""
        for child, is_member in self._members(node):
            if is_member:
                yield child if child.kind is NodeKind.FIELD_DECL else child._replace(name="")

    def _members(self, node: SyntaxNode) -> Iterator[tuple[SyntaxNode, bool]]:
        """The declarations in a record, and whether each is a member."""
        fields = [c for c in node.children if c.kind is NodeKind.FIELD_DECL]
        named = {_innermost(c.type).record for c in fields if c.name}
        for child in node.children:
            is_inner = child.kind in RECORDS and is_anonymous(child.type) and child.type.record not in named
            is_field = child.kind is NodeKind.FIELD_DECL and bool(child.name)
            yield child, is_inner or (is_field and not is_empty(child.type))

    def inside(self, declaration: SyntaxNode) -> str:
        """Definitions of all records that are declared somewhere in a declaration, in their order."""
        return self._inside(declaration) if declaration.begin in self._declaring else ""

    def _inside(self, node: SyntaxNode) -> str:
        if node.kind in RECORDS:
            return self._define(node) + "\n"
        return "".join(map(self._inside, node.children))

    def _define(self, node: SyntaxNode) -> str:
        """A definition with checks of its layout, after those of the records inside; or a declaration."""
        keyword = "union" if node.kind is NodeKind.UNION_DECL else "struct"
        name = self.types.record(node.type)
        if "{" not in self.tree.source(node):
            return f"{keyword} {name};"
        if node.type.record in self._defined:
            return ""
        self._defined.add(node.type.record)
        inner, body = self._body(node)
        layout = self.program.layouts.get(node.type.record)
        if layout is None:
            raise UnknownConstruct(node, f"'{node.type.spelling}'")
        attributes = [self.tree.source(c) for c in node.children if c.kind is NodeKind.OTHER]
        packed = any(text in _PACKED for text in attributes)
        how = "__attribute__((packed)) " if packed else ""
        how += f"alignas({layout.alignment}) " if layout.alignment > 1 or packed else ""
        empty = {c.name for c in node.children if c.kind is NodeKind.FIELD_DECL and is_empty(c.type)}
        checks = [f"sizeof({name}) == {layout.nbytes}", f"alignof({name}) == {layout.alignment}"]
        checks += [
            f"_CL_OFFSET({name}, {safe_name(field)}) == {offset}"
            for field, offset in layout.offsets.items()
            if field and field not in empty
        ]
        asserted = f'static_assert({" && ".join(checks)}, "layout of {name}");'
        defined = f"{keyword} {how}{name} {{ {body} }};"
        if not packed and self._is_tighter(node, layout):
            defined = f'_Pragma("pack(push, {layout.alignment})") {defined} _Pragma("pack(pop)")'
        return f"{keyword} {name}; {inner}{defined} {asserted}"

    def _is_tighter(self, node: SyntaxNode, layout: Layout) -> bool:
        """Whether ``#pragma pack`` put members closer together than their types say."""
        fields = [c for c in node.children if c.kind is NodeKind.FIELD_DECL]
        apart = [c for c in fields if not any(self.tree.source(a) in _PACKED for a in c.children)]
        units = {c.name: self._alignment(c.type) for c in apart}
        if layout.nbytes % max(units.values(), default=1):
            return True
        return any(offset % units.get(name, 1) for name, offset in layout.offsets.items())

    def _alignment(self, found: Type) -> int:
        """The alignment of a type that nothing packs; 1 when it is not known."""
        inner = _innermost(found)
        layout = self.program.layouts.get(inner.record)
        return layout.alignment if layout is not None else max(inner.nbytes, 1)

    def _body(self, node: SyntaxNode) -> tuple[str, str]:
        """(definitions that must come first, members)."""
        inner: list[str] = []
        members: list[str] = []
        for child, is_member in self._members(node):
            if child.kind in RECORDS:
                if is_member:
                    before, body = self._body(child)
                    keyword = "union" if child.kind is NodeKind.UNION_DECL else "struct"
                    inner.append(before)
                    members.append(f"{keyword} {{ {body} }};")
                else:
                    inner.append(self._define(child) + " ")
            elif is_member:
                members.append(self._field(child))
            elif child.kind not in (
                NodeKind.OTHER,
                NodeKind.ENUM_DECL,
                NodeKind.TYPE_REF,
                NodeKind.UNEXPOSED_ATTRIBUTE,
                NodeKind.FIELD_DECL,
            ):
                raise UnknownConstruct(child, "this member")
        return "".join(inner), " ".join(members)

    def _field(self, node: SyntaxNode) -> str:
        alignment = packed = ""
        for child in node.children:
            if child.kind is not NodeKind.OTHER:
                continue
            text = self.tree.source(child)
            if text in _PACKED:
                packed = " __attribute__((packed))"
                continue
            match = _ALIGNED.match(text)
            if match is None:
                raise UnknownConstruct(child, f"the attribute '{text}'")
            alignment = f"alignas({match.group(1)}) "
        return f"{alignment}{self.types.declare(node.type, safe_name(node.name), node)}{packed};"
