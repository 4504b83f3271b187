"""C11's ``_Generic``: which of its expressions clang chose, of which libclang says nothing.

Source: C11, section 6.5.1.1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sdi.clc.cuda.types import UnknownConstruct
from sdi.clc.frontend.syntax import Form, NodeKind, SyntaxNode, Tree

_LENGTHS = frozenset({"short", "long"})
_SPACES = re.compile(r"(__)?(private|generic)\b")
_QUALIFIED = re.compile(r"(?<!\w)(global|local|constant)\b")
_USUAL = {
    **{f"u{name}": f"unsigned {name}" for name in ("char", "short", "int", "long")},
    **dict.fromkeys(("size_t", "uintptr_t"), "unsigned long"),
    **dict.fromkeys(("ptrdiff_t", "intptr_t"), "long"),
}
_VECTOR = re.compile(r"\b([a-z]+)(2|3|4|8|16)\b")
_OF_VECTORS = re.compile(r"__attribute__\(\(ext_vector_type\(\d+\)\)\)")
_BUILT_IN = frozenset(["void", "bool", "_Bool", "char", "short", "int", "long", "half", "float", "double"])
_BUILT_IN |= {"signed", "unsigned", "const", "volatile", "restrict"}
_BUILT_IN |= {
    f"{how}{space}" for how in ("", "__") for space in ("global", "local", "constant", "private", "generic")
}
_WORD = re.compile(r"(?:(?:struct|union|enum)\s+)?[A-Za-z_]\w*")


def _normal(written: str, typedefs: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """The words of a type between its stars, in an order of their own."""
    found = []
    written = _VECTOR.sub(r"\1 __attribute__((ext_vector_type(\2)))", written)
    written = re.sub(r"\w+", lambda word: typedefs.get(word.group(), word.group()), written)
    written = _QUALIFIED.sub(r"__\1", _SPACES.sub(" ", written))
    vectors = _OF_VECTORS.findall(written)  # clang writes them behind a pointer's stars
    written = " ".join(vectors) + " " + _OF_VECTORS.sub(" ", written)
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


def _require_known(written: str, typedefs: Mapping[str, str], node: SyntaxNode) -> None:
    """What clang makes of other names is not known here.  Raises UnknownConstruct."""
    words = _WORD.findall(_OF_VECTORS.sub(" ", _VECTOR.sub(r"\1", written)))
    for word in words:
        if word in typedefs:
            is_known = len(words) == 1 or not {"*", "["} & set(typedefs[word])  # const P is no const *
        else:
            is_known = word in _BUILT_IN or " " in word
        if not is_known:
            raise UnknownConstruct(node, f"a _Generic with the type '{written}'")


def chosen(tree: Tree, node: SyntaxNode) -> SyntaxNode | None:
    """The expression for the type of the first operand, else the default one; None when there is none.

    Raises UnknownConstruct.
    """
    typedefs = dict(_USUAL)
    for each in tree.declarations:
        if each.kind is NodeKind.TYPEDEF_DECL:
            typedefs[each.name] = each.type.canonical
    control, *rest = node.operands
    bare = re.sub(r"\b(const|volatile|restrict)\b(?=[^*]*\Z)", "", control.type.canonical)
    wanted, other, at = {_normal(bare, {})}, None, control.end
    if bare.startswith("enum ") and control.type.form is Form.INTEGER:  # as good as the integer that it is
        size = "long" if control.type.nbytes == 8 else "int"
        wanted.add(_normal(f"{'unsigned ' * control.type.unsigned}{size}", {}))
    for each in rest:
        name = tree.text[at : each.begin].rpartition(",")[2].strip().removesuffix(":").strip()
        at = each.end
        if name == "default":
            other = each
            continue
        _require_known(name, typedefs, node)
        if _normal(name, typedefs) in wanted:
            return each
        if (
            re.search(r"\benum\b", name)
            and not bare.startswith("enum ")
            and control.type.form is Form.INTEGER
        ):
            raise UnknownConstruct(node, f"a _Generic with the type '{name}'")
    return other
