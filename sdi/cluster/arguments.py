"""A kernel's name and arguments as bytes, for nodes that bind them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import get_args

from sdi.atomics import Operation
from sdi.cluster.records import DamagedBatch, strings, strings_of
from sdi.devices.base import BoundArgument, LocalBytes
from sdi.devices.handles import DeviceBuffer
from sdi.devices.image import ImageShape, LinearImage, Sampler
from sdi.wire.arguments import LOCAL, ArgumentKind

UPDATES: tuple[Operation, ...] = get_args(Operation)
"""The operations of atomic updates, by number."""

_OBJECT = struct.Struct("<Q")
"""A buffer's or image's id on the node, both of kind GLOBAL; 0: NULL."""
_LINEAR = struct.Struct("<Qq8Q")
"""Of an image in a buffer: that one's id, the offset there, an ImageShape."""


def bound(name: str, arguments: Sequence[BoundArgument], id_of: Callable[[object], int]) -> bytes:
    """``id_of``: a device buffer's or image's id on the node."""
    parts: list[str | bytes] = [name]
    for argument in arguments:
        match argument:
            case None:
                parts.append(bytes((ArgumentKind.GLOBAL,)) + _OBJECT.pack(0))
            case bytes():
                parts.append(bytes((ArgumentKind.VALUE,)) + argument)
            case LocalBytes():
                parts.append(bytes((ArgumentKind.LOCAL,)) + LOCAL.pack(argument.nbytes))
            case Sampler():
                parts.append(bytes((ArgumentKind.SAMPLER,)) + argument.record())
            case LinearImage():
                place = id_of(argument.buffer), argument.offset
                parts.append(bytes((ArgumentKind.IMAGE,)) + _LINEAR.pack(*place, *astuple(argument.shape)))
            case _:
                parts.append(bytes((ArgumentKind.GLOBAL,)) + _OBJECT.pack(id_of(argument)))
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
        case ArgumentKind.VALUE:
            return data
        case ArgumentKind.LOCAL:
            return LocalBytes(*LOCAL.unpack(data))
        case ArgumentKind.SAMPLER:
            return Sampler.of(data)
        case ArgumentKind.GLOBAL:
            (number,) = _OBJECT.unpack(data)
            return _object(number, objects) if number else None
        case ArgumentKind.IMAGE:
            number, offset, *numbers = _LINEAR.unpack(data)
            return LinearImage(_object(number, objects), offset, ImageShape(*numbers))
        case _:
            raise ValueError(f"no kind of argument is {kind}")


def _object(number: int, objects: Mapping[int, object]) -> DeviceBuffer:
    made = objects.get(number)
    if made is None:
        raise ValueError("an object that is not known")
    if isinstance(made, Exception):
        raise made
    return DeviceBuffer(made)
