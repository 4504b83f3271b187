"""Kernel arguments of one launch, decoded from the wire's argument entries."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from sdi.clc.model import ArgumentKind, KernelModel
from sdi.errors import ClError, Status
from sdi.runtime.commands import Launch

_ENTRY = struct.Struct("<II")
_POINTER = struct.Struct("<QQ")
_SIZE = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Pointer:
    """A buffer bound to an argument: root buffer (0: NULL) and the offset of the bound sub-buffer."""

    buffer: int
    offset: int


@dataclass(frozen=True, slots=True)
class LocalSize:
    """Bytes of a ``__local`` argument."""

    nbytes: int


ArgumentValue = bytes | Pointer | LocalSize


def decode_arguments(model: KernelModel, launch: Launch) -> tuple[ArgumentValue, ...]:
    """The argument values of ``launch``.  Raises ClError(INVALID_KERNEL_ARGS) for a bad record."""
    expected = model.arguments
    data, at = launch.arguments, 0
    values: list[ArgumentValue] = []
    try:
        for argument in expected:
            kind, nbytes = _ENTRY.unpack_from(data, at)
            payload = data[at + 8 : at + 8 + nbytes]
            at += 8 + nbytes + -nbytes % 8
            if kind != argument.kind.value or len(payload) != nbytes:
                raise ClError(Status.INVALID_KERNEL_ARGS, f"{model.name}: {argument.name} has kind {kind}")
            values.append(_decode(argument.kind, argument.nbytes, payload))
    except struct.error as cause:
        raise ClError(Status.INVALID_KERNEL_ARGS, f"{model.name}: {len(data)} bytes of arguments") from cause
    if at != len(data) or launch.num_args != len(expected):
        raise ClError(
            Status.INVALID_KERNEL_ARGS,
            f"{model.name}: {launch.num_args} arguments for {len(expected)}",
        )
    return tuple(values)


def _decode(kind: ArgumentKind, nbytes: int, payload: bytes) -> ArgumentValue:
    match kind:
        case ArgumentKind.GLOBAL | ArgumentKind.CONSTANT:
            return Pointer(*_POINTER.unpack(payload))
        case ArgumentKind.LOCAL:
            return LocalSize(*_SIZE.unpack(payload))
        case ArgumentKind.VALUE:
            if len(payload) != nbytes:
                raise ClError(Status.INVALID_ARG_SIZE, f"{len(payload)} bytes for a value of {nbytes}")
            return payload
        case ArgumentKind.IMAGE | ArgumentKind.SAMPLER:
            raise ClError(Status.INVALID_OPERATION, "images and samplers are not supported")
