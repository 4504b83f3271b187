"""Where the members of a structure lie."""

from __future__ import annotations

from sdi.clc.frontend.syntax import Form, NodeKind, SyntaxNode, Tree, Type
from sdi.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class MemberLayout:
    """A member: its first byte and its type."""

    offset: int
    type: Type


def alignment(of: Type) -> int:
    """The natural alignment of a type; 0 when it is not known."""
    match of.form:
        case Form.ARRAY if of.element is not None:
            return alignment(of.element)
        case Form.INTEGER | Form.FLOATING | Form.POINTER | Form.VECTOR:
            return of.nbytes
        case _:
            return 0


class Layouts:
    """The structures of a program.  Owned by: the thread of the build."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._declared: dict[str, SyntaxNode | None] | None = None
        self._known: dict[str, dict[str, MemberLayout] | None] = {}

    def fields(self, record: Type) -> dict[str, MemberLayout] | None:
        """Members by name; None when it is not known where they lie."""
        key = name_of(record)
        if key not in self._known:
            self._known[key] = None  # a structure can't hold itself
            self._known[key] = self._lay_out(key, record.nbytes)
        return self._known[key]

    def is_disjoint(self, record: Type) -> bool:
        """Whether no two members of a structure share bytes."""
        fields = self.fields(record)
        return fields is not None and len({f.offset for f in fields.values()}) == len(fields)

    def is_dense(self, of: Type) -> bool:
        """Whether a value of this type has no padding, so that storing it writes every byte."""
        match of.form:
            case Form.VECTOR:
                return of.count != 3
            case Form.ARRAY:
                return of.element is not None and self.is_dense(of.element)
            case Form.RECORD:
                fields = self.fields(of)
                if fields is None:
                    return False
                covered = sum(f.type.nbytes for f in {f.offset: f for f in fields.values()}.values())
                return covered == of.nbytes and all(self.is_dense(f.type) for f in fields.values())
            case _:
                return True

    def _declarations(self) -> dict[str, SyntaxNode | None]:
        """Structures by name; None where a function has one that another one's name hides."""
        found: dict[str, SyntaxNode | None] = {}
        for top in self._tree.declarations:
            for node in top.walk():
                if node.kind in (NodeKind.STRUCT_DECL, NodeKind.UNION_DECL) and any(
                    c.kind is NodeKind.FIELD_DECL for c in node.children
                ):
                    name = name_of(node.type)
                    same = found.setdefault(name, node)
                    if same is not None and same.begin != node.begin:
                        found[name] = None
        return found

    def _lay_out(self, key: str, nbytes: int) -> dict[str, MemberLayout] | None:
        if self._declared is None:
            self._declared = self._declarations()
        declaration = self._declared.get(key)
        if declaration is None:
            return None
        is_union = declaration.kind is NodeKind.UNION_DECL
        found: dict[str, MemberLayout] = {}
        at = largest = 0
        for child in declaration.children:
            if child.kind is NodeKind.UNEXPOSED_ATTRIBUTE or "__attribute__" in self._tree.source(child):
                return None  # packed or aligned
            if child.kind is not NodeKind.FIELD_DECL:
                continue
            source = self._tree.source(child)
            unit = self._alignment(child.type)
            if not unit or ":" in source or not child.name or child.type.nbytes == 0:
                return None
            at = 0 if is_union else -(-at // unit) * unit
            found[child.name] = MemberLayout(at, child.type)
            at += child.type.nbytes
            largest = max(largest, unit)
            end = max(f.offset + f.type.nbytes for f in found.values())
        if not found or -(-end // largest) * largest != nbytes:
            return None
        text = self._tree.text
        if "__attribute__" in text[declaration.begin : text.find(";", declaration.end) + 1]:
            return None
        return found

    def _alignment(self, of: Type) -> int:
        inner = of
        while inner.form is Form.ARRAY and inner.element is not None:
            inner = inner.element
        if inner.form is not Form.RECORD:
            return alignment(inner)
        fields = self.fields(inner)
        return max((self._alignment(f.type) for f in fields.values()), default=0) if fields else 0


def name_of(record: Type) -> str:
    """The canonical name without qualifiers and address spaces."""
    words = [w for w in record.canonical.split() if not w.startswith("__") and w not in ("const", "volatile")]
    return " ".join(w for w in words if w not in ("struct", "union"))
