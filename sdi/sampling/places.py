"""Where lvalues are, and what the text of a few expressions says."""

from __future__ import annotations

import re

from sdi.clc.frontend.syntax import Form, Space, SyntaxNode, Tree, Type
from sdi.dataclass import dataclass
from sdi.sampling.terms import I32, I64, U32, IntType
from sdi.sampling.values import RecordValue, Value

Path = tuple[str | int, ...]

_COMPONENTS = {c: i for i, c in enumerate("xyzw")} | {c: i for i, c in enumerate("rgba")}
_SIZES = {"char": 1, "uchar": 1, "bool": 1, "short": 2, "ushort": 2, "half": 2, "int": 4, "uint": 4}
_SIZES |= {"float": 4, "long": 8, "ulong": 8, "double": 8, "size_t": 8, "unsigned": 4, "ptrdiff_t": 8}
_COMPONENT = re.compile(r"(?:\.|->)\s*(\w+)\s*\Z")
_NAMED_SIZE = re.compile(r"sizeof\s*\(\s*(?:(?:unsigned|signed)\s+)?(\w+?)(2|3|4|8|16)?\s*\)\Z")


@dataclass(frozen=True, slots=True)
class Variable:
    """A private variable, or a part of one."""

    declaration: int
    path: Path


@dataclass(frozen=True, slots=True)
class Memory:
    """What a pointer points to."""

    pointer: Value
    space: Space


@dataclass(frozen=True, slots=True)
class Swizzle:
    """Some components of a vector that lies somewhere."""

    base: Place
    indices: tuple[int, ...]
    vector: Type


@dataclass(frozen=True, slots=True)
class Temporary:
    """A value without a place."""

    value: Value


Place = Variable | Memory | Swizzle | Temporary


def components(tree: Tree, node: SyntaxNode, child: SyntaxNode) -> tuple[int, ...] | None:
    """Which components an UNEXPOSED node names, or None when it is something else."""
    if child.type.form is not Form.VECTOR:
        return None
    match = _COMPONENT.search(tree.text, child.end, node.end)
    if match is None:
        return None
    name, count = match[1], child.type.count
    padded = 4 if count == 3 else count
    if name in ("lo", "hi", "even", "odd"):
        all_of = list(range(padded))
        half = {
            "lo": all_of[: padded // 2],
            "hi": all_of[padded // 2 :],
            "even": all_of[::2],
            "odd": all_of[1::2],
        }
        return tuple(half[name])
    if name[:1] in ("s", "S") and name[1:]:
        try:
            return tuple(int(c, 16) for c in name[1:])
        except ValueError:
            return None
    if all(c in _COMPONENTS for c in name):
        return tuple(_COMPONENTS[c] for c in name)
    return None


def size_of(tree: Tree, node: SyntaxNode) -> int | None:
    """The value of a ``sizeof``; None when its operand is not understood."""
    text = tree.source(node)
    operands = [c for c in node.children if c.type.nbytes]
    if len(operands) == 1:
        inner = tree.source(operands[0])
        if text.removeprefix("sizeof").strip("() \t\n") == inner.strip("() \t\n"):
            return operands[0].type.nbytes
    match = _NAMED_SIZE.match(text)
    if match is None or match.group(1) not in _SIZES:
        return None
    count = int(match.group(2) or 1)
    return _SIZES[match.group(1)] * (4 if count == 3 else count)


def with_part(base: Value, path: Path, value: Value) -> Value:
    """``base`` with another value at a path of field names."""
    if not path:
        return value
    record = base if isinstance(base, RecordValue) else RecordValue(())
    name = path[0]
    assert isinstance(name, str)
    return record.replaced(name, with_part(record.get(name), path[1:], value))


def usual(a: IntType, b: IntType) -> IntType:
    """The type of an arithmetic operation (C99, 6.3.1.8)."""
    a, b = (t if t.bits >= 32 else I32 for t in (a, b))
    if a.bits != b.bits:
        return max(a, b)
    return a if not a.signed else b


def as_type(of: Type, kind: IntType) -> Type:
    """A plain type for ``kind``."""
    name = {I32: "int", U32: "unsigned int", I64: "long"}.get(kind, "unsigned long")
    return Type(
        Form.INTEGER,
        name,
        name,
        kind.bits // 8,
        Space.NONE,
        False,
        False,
        False,
        not kind.signed,
        None,
        0,
        (kind.bits // 8, kind.bits // 8),
        False,
    )
