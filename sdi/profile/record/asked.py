"""What commands ask for, as rows of a profile: enough to plan them again, without the bytes they write."""

from __future__ import annotations

import dataclasses
from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import cache
from typing import Any, get_args, get_type_hints

from sdi.commands import Command, Launch, Read, Rectangle, Write

_OWN: dict[type, dict[str, Any]] = {
    Read: {"into": 0},
    Write: {"data": b"", "written_ns": 0, "staged_at": 0},
    Launch: {"prints": False},
}
"""What says how the bytes come, and is other each time."""
_CLASSES: dict[str, type] = {each.__name__: each for each in get_args(Command)}


def comparable(command: Command) -> Command:
    """The command without what is of this one alone: equal ones ask for the same."""
    own = _OWN.get(type(command), {})
    return dataclasses.replace(command, **own) if own else command


def row_of(command: Command) -> list[object]:
    """Its class and its fields, as JSON has them."""
    made: type = type(command)
    return [made.__name__, *[_told(getattr(command, name)) for name, _ in _fields(made)]]


def command_of(row: Sequence[Any], record: bytes) -> Command:
    """The command of a row.  ``record``: which tells it from others.  Raises ValueError for what is none."""
    made = _CLASSES.get(str(row[0])) if row else None
    if made is None or len(row) != 1 + len(_fields(made)):
        raise ValueError(f"no command: {row!r}")
    given = {name: _value(of, told) for (name, of), told in zip(_fields(made), row[1:], strict=True)}
    if hasattr(made, "record"):
        given["record"] = record
    found: Command = made(**given)
    return found


@cache
def _fields(made: type) -> tuple[tuple[str, object], ...]:
    """Names and types of what is told."""
    return tuple([(name, of) for name, of in get_type_hints(made).items() if name != "record"])


def _told(value: object) -> object:
    match value:
        case bytes():
            return b64encode(value).decode()
        case Rectangle():
            return [value.offset, value.region, value.row_pitch, value.slice_pitch]
        case _:
            return value


def _value(of: object, told: Any) -> object:  # noqa: ANN401
    if of is bytes:
        return b64decode(told, validate=True)
    if of is Rectangle:
        offset, region, row_pitch, slice_pitch = told
        return Rectangle(offset, _tuple(region), row_pitch, slice_pitch)
    return _tuple(told) if isinstance(told, list) else told


def _tuple(told: Sequence[Any]) -> Any:  # noqa: ANN401
    return tuple([_tuple(each) if isinstance(each, list) else each for each in told])
