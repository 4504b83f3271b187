"""A kernel's name and arguments as bytes, for nodes that bind them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from sdi.atomics import Operation
from sdi.cluster.records import DamagedBatch, strings, strings_of
from sdi.devices.base import BoundArgument, DeviceBuffer, LocalBytes
from sdi.devices.image import Sampler

UPDATES: tuple[Operation, ...] = get_args(Operation)
"""The operations of atomic updates, by number."""

_NULL, _VALUE, _LOCAL, _SAMPLER, _OBJECT = range(5)
_NUMBER = struct.Struct("<Q")
_SAMPLING = struct.Struct("<BII")


def bound(name: str, arguments: Sequence[BoundArgument], id_of: Callable[[object], int]) -> bytes:
    """``id_of``: a device buffer's or image's id on the node."""
    parts: list[str | bytes] = [name]
    for argument in arguments:
        match argument:
            case None:
                parts.append(bytes((_NULL,)))
            case bytes():
                parts.append(bytes((_VALUE,)) + argument)
            case LocalBytes():
                parts.append(bytes((_LOCAL,)) + _NUMBER.pack(argument.nbytes))
            case Sampler():
                modes = _SAMPLING.pack(argument.normalized, argument.addressing, argument.filter)
                parts.append(bytes((_SAMPLER,)) + modes)
            case _:
                parts.append(bytes((_OBJECT,)) + _NUMBER.pack(id_of(argument)))
    return strings(parts)


def arguments_of(tail: bytes | memoryview, objects: Mapping[int, object]) -> tuple[str, list[BoundArgument]]:
    """Name and arguments as ``bound`` packed them.  Raises DamagedBatch, and why an object was not made."""
    name, *parts = strings_of(tail)
    found: list[BoundArgument] = []
    for part in parts:
        try:
            found.append(_argument(part[0], part[1:], objects))
        except (IndexError, struct.error, ValueError) as error:
            raise DamagedBatch(f"argument {len(found)} of {name!r}: {error}") from error
    return name.decode(), found


def _argument(kind: int, data: bytes, objects: Mapping[int, object]) -> BoundArgument:
    match kind:
        case 0:
            return None
        case 1:
            return data
        case 2:
            return LocalBytes(*_NUMBER.unpack(data))
        case 3:
            normalized, addressing, filtering = _SAMPLING.unpack(data)
            return Sampler(bool(normalized), addressing, filtering)
        case 4:
            made = objects.get(*_NUMBER.unpack(data))
            if made is None:
                raise ValueError("an object that is not known")
            if isinstance(made, Exception):
                raise made
            return DeviceBuffer(made)
        case _:
            raise ValueError(f"no kind of argument is {kind}")
