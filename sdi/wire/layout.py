"""Records as lists of fields, from which structures of C and layouts of Python are made."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from sdi.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record: C type (u32, i32, u64, i64), name, number of elements (0: a scalar)."""

    kind: str
    name: str
    count: int = 0

    @property
    def nbytes(self) -> int:
        """Of all elements."""
        return (8 if self.kind.endswith("64") else 4) * max(1, self.count)


Fields = tuple[Field, ...]
_CODES = {"u32": "I", "i32": "i", "u64": "Q", "i64": "q"}


def fields(text: str) -> Fields:
    """The fields that ``text`` tells of, as C would: "u32 op; u64 size[3]"."""
    found = []
    for item in text.split(";"):
        kind, name = item.split()
        name, _, count = name.partition("[")
        found.append(Field(kind, name, int(count.rstrip("]")) if count else 0))
    return tuple(found)


def layout(*groups: Fields) -> struct.Struct:
    """The ``struct.Struct`` of the fields of ``groups`` in order; C layout, no tail padding.

    The tables are arranged so that natural alignment leaves no hole (checked here).
    """
    code, at = "<", 0
    for field in (f for group in groups for f in group):
        if at % (8 if field.kind.endswith("64") else 4):
            raise ValueError(f"field {field.name} at offset {at} is not aligned")
        at += field.nbytes
        code += f"{field.count or ''}{_CODES[field.kind]}"
    if at % 8:
        raise ValueError(f"a structure of {at} bytes is not a multiple of 8")
    return struct.Struct(code)


def declarations(group: Fields, types: Mapping[str, str]) -> str:
    """The fields as members of a structure of C; ``types``: by kind, or by name where that is another."""
    return " ".join(
        f"{types.get(each.name) or types[each.kind]} {each.name}{f'[{each.count}]' if each.count else ''};"
        for each in group
    )


def numbered(*groups: Fields) -> dict[str, int]:
    """Where each field, or its first element, is among what ``layout`` of the same unpacks."""
    found, at = {}, 0
    for field in (f for group in groups for f in group):
        found[field.name] = at
        at += max(1, field.count)
    return found


def offset_of(group: Fields, name: str) -> int:
    """Where a field begins."""
    at = 0
    for field in group:
        if field.name == name:
            return at
        at += field.nbytes
    raise KeyError(name)


def padded(data: bytes) -> bytes:
    """``data`` with zeros up to a multiple of 8 bytes."""
    return data + bytes(-len(data) % 8)
