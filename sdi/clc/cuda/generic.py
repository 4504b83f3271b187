"""C11's ``_Generic``: which of its expressions clang chose, of which libclang says nothing.

Source: C11, section 6.5.1.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sdi.clc.frontend.syntax import NodeKind, SyntaxNode, Tree

_LENGTHS = frozenset({"short", "long"})
_SPACES = re.compile(r"(__)?(private|generic)\b")
_QUALIFIED = re.compile(r"(?<!\w)(global|local|constant)\b")
_USUAL = {
    **{f"u{name}": f"unsigned {name}" for name in ("char", "short", "int", "long")},
    **dict.fromkeys(("size_t", "uintptr_t"), "unsigned long"),
    **dict.fromkeys(("ptrdiff_t", "intptr_t"), "long"),
}
_VECTOR = re.compile(r"\b([a-z]+)(2|3|4|8|16)\b")


def _normal(written: str, typedefs: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """The words of a type between its stars, in an order of their own."""
    found = []
    written = _VECTOR.sub(r"\1 __attribute__((ext_vector_type(\2)))", written)
    written = re.sub(r"\w+", lambda word: typedefs.get(word.group(), word.group()), written)
    written = _QUALIFIED.sub(r"__\1", _SPACES.sub(" ", written))
    for level in re.sub(r"([*\[\]()])", r" \1 ", written).split("*"):
        words = level.split()
        if {"signed", "unsigned"} & set(words) and not {"char", "int", *_LENGTHS} & set(words):
            words.append("int")
        if _LENGTHS & set(words):
            words = [word for word in words if word != "int"]
        if "char" not in words:
            words = [word for word in words if word != "signed"]
        found.append(tuple(sorted(words)))
    return tuple(found)


def is_generic(tree: Tree, node: SyntaxNode) -> bool:
    """Whether a node is such a selection."""
    return node.kind is NodeKind.OTHER and tree.text.startswith("_Generic", node.begin)


def chosen(tree: Tree, node: SyntaxNode) -> SyntaxNode | None:
    """The expression for the type of the first operand, else the default one; None when there is none."""
    typedefs = dict(_USUAL)
    for each in tree.declarations:
        if each.kind is NodeKind.TYPEDEF_DECL:
            typedefs[each.name] = each.type.canonical
    control, *rest = node.operands
    bare = re.sub(r"\b(const|volatile|restrict)\b(?=[^*]*\Z)", "", control.type.canonical)
    wanted, other, at = _normal(bare, {}), None, control.end
    for each in rest:
        name = tree.text[at : each.begin].rpartition(",")[2].strip().removesuffix(":").strip()
        at = each.end
        if name == "default":
            other = each
        elif _normal(name, typedefs) == wanted:
            return each
    return other
