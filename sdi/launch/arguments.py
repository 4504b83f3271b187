"""Kernel arguments of one launch, decoded from the wire's argument entries."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from sdi.clc.model import ArgumentKind, KernelModel
from sdi.commands import Launch
from sdi.dataclass import dataclass
from sdi.devices.base import BoundArgument, LocalBytes
from sdi.devices.handles import DeviceBuffer
from sdi.devices.image import ImageShape, Sampler
from sdi.errors import ClError, Status, require
from sdi.vmem.buffer import ImageView, VirtualBuffer
from sdi.vmem.memory import VirtualMemory
from sdi.wire.arguments import ENTRY, IMAGE, LOCAL, POINTER
from sdi.wire.opencl import IMAGE_TYPES


@dataclass(frozen=True, slots=True)
class BufferArgument:
    """A buffer bound to an argument: root buffer (0: NULL), and where the bound sub-buffer lies in it.

    ``nbytes``: of the sub-buffer, 0 for all that is left of the root.  The kernel may touch no others, so
    none of them count as touched: another part of the same root may be mapped meanwhile.
    """

    buffer: int
    offset: int
    nbytes: int = 0

    def reach(self, root_nbytes: int) -> int:
        """Bytes from ``offset`` on that the kernel may touch, of a root of ``root_nbytes``."""
        return self.nbytes or root_nbytes - self.offset


@dataclass(frozen=True, slots=True)
class LocalSize:
    """Bytes of a ``__local`` argument."""

    nbytes: int


@dataclass(frozen=True, slots=True)
class ImageArgument:
    """An image: the root buffer that has its linear bytes, and how these lie there."""

    buffer: int
    view: ImageView

    @property
    def offset(self) -> int:
        """Of the first pixel, in the root buffer."""
        return self.view.offset


ArgumentValue = bytes | BufferArgument | LocalSize | ImageArgument | Sampler


def on_member(
    values: Sequence[ArgumentValue],
    place: Callable[[BufferArgument], tuple[DeviceBuffer, int]],
    image: Callable[[ImageArgument], BoundArgument],
) -> tuple[list[BoundArgument], list[int]]:
    """The arguments as a member binds them, and each pointer's shift: see ``pack_hidden``.

    ``place(pointer)``: the member's buffer, and which of the root's bytes is its first one.
    """
    arguments: list[BoundArgument] = []
    shifts: list[int] = []
    for value in values:
        match value:
            case BufferArgument(buffer=0):
                shifts.append(0)
                arguments.append(None)
            case BufferArgument():
                device_buffer, start = place(value)
                shifts.append(start - value.offset)
                arguments.append(device_buffer)
            case LocalSize():
                arguments.append(LocalBytes(value.nbytes))
            case ImageArgument():
                arguments.append(image(value))
            case bytes() | Sampler():
                arguments.append(value)
    return arguments, shifts


def decode_arguments(model: KernelModel, launch: Launch) -> tuple[ArgumentValue, ...]:
    """The argument values of ``launch``.  Raises ClError(INVALID_KERNEL_ARGS) for a bad record."""
    expected = model.arguments
    data, at = launch.arguments, 0
    values: list[ArgumentValue] = []
    try:
        for argument in expected:  # not by ``entries``: this is done for each launch that is new
            kind, nbytes = ENTRY.unpack_from(data, at)
            payload = data[at + ENTRY.size : at + ENTRY.size + nbytes]
            at += ENTRY.size + nbytes + -nbytes % 8
            if kind != argument.kind or len(payload) != nbytes:
                raise ClError(Status.INVALID_KERNEL_ARGS, f"{model.name}: {argument.name} has kind {kind}")
            values.append(_decode(argument.kind, argument.nbytes, argument.type_name, payload))
    except struct.error as cause:
        raise ClError(Status.INVALID_KERNEL_ARGS, f"{model.name}: {len(data)} bytes of arguments") from cause
    except ValueError as cause:
        raise ClError(Status.INVALID_KERNEL_ARGS, f"{model.name}: {cause}") from cause
    if at != len(data) or launch.num_args != len(expected):
        raise ClError(
            Status.INVALID_KERNEL_ARGS,
            f"{model.name}: {launch.num_args} arguments for {len(expected)}",
        )
    return tuple(values)


def _decode(kind: ArgumentKind, nbytes: int, type_name: str, payload: bytes) -> ArgumentValue:
    match kind:
        case ArgumentKind.GLOBAL | ArgumentKind.CONSTANT:
            return BufferArgument(*POINTER.unpack(payload))
        case ArgumentKind.LOCAL:
            return LocalSize(*LOCAL.unpack(payload))
        case ArgumentKind.VALUE:
            if len(payload) != nbytes:
                raise ClError(Status.INVALID_ARG_SIZE, f"{len(payload)} bytes for a value of {nbytes}")
            return payload
        case ArgumentKind.IMAGE:
            return _image(type_name, payload)
        case ArgumentKind.SAMPLER:
            return Sampler.of(payload)


def _image(type_name: str, payload: bytes) -> ImageArgument:
    buffer, offset, *numbers = IMAGE.unpack(payload)
    image_type, order, data_type, _, width, rows, planes, row_pitch, plane_pitch = numbers
    if IMAGE_TYPES.get(type_name, image_type) != image_type:
        raise ValueError(f"an image of type {image_type:#x} for {type_name}")
    shape = ImageShape(image_type, order, data_type, width, rows, planes, row_pitch, plane_pitch)
    return ImageArgument(buffer, ImageView(offset, shape))


def image_nbytes_of(
    kernel: str,
    values: Sequence[ArgumentValue],
    buffers: dict[int, VirtualBuffer],
    memory: VirtualMemory,
) -> int:
    """What copies of images of a launch take on a member.  Raises ClError for one outside its buffer."""
    found = {(value.buffer, value.view) for value in values if isinstance(value, ImageArgument)}
    for buffer_id, view in found:
        nbytes = buffers[buffer_id].nbytes
        what = f"{kernel}: an image at [{view.over.start}, {view.over.stop}) of {nbytes} bytes"
        require(view.over.stop <= nbytes, Status.INVALID_KERNEL_ARGS, what)
    return sum(
        view.shape.nbytes for _, view in found if memory.images.is_copied_anywhere(memory.members, view)
    )
