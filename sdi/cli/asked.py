"""The launch that the command line of ``sdi explain`` describes: sizes, arguments and buffers, no data."""

from __future__ import annotations

import argparse
import re
import struct
from collections.abc import Mapping, Sequence

from sdi.clc.frontend.syntax import Form, Type
from sdi.clc.model import Argument, ArgumentKind, CompiledProgram, KernelModel
from sdi.dataclass import dataclass
from sdi.devices.image import ImageShape
from sdi.explain.notes import KernelNote
from sdi.launch.access_plans import AccessPlans
from sdi.launch.arguments import ArgumentValue, BufferArgument, ImageArgument, LocalSize
from sdi.launch.geometry import choose_local_size
from sdi.launch.plan import image_slabs
from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.sampling import KernelAnalysis
from sdi.sampling.model import BoundAccess, KernelAccess
from sdi.vmem.buffer import ImageView
from sdi.vmem.dependencies import Dependencies
from sdi.vmem.directory import Directory
from sdi.vmem.memory import VirtualBuffer
from sdi.wire.opencl import IMAGE_TYPES, ChannelOrder, ChannelType, MemObjectType

_HUGE_NBYTES = 1 << 50
"""A size no buffer has: what a kernel reaches in it is what it reaches at all."""
_LARGE_NBYTES = 1 << 31
"""Through an index that is not followed, a kernel may "reach" as far as a 32-bit number does."""
_FLOATS = {2: "<e", 4: "<f", 8: "<d"}
_POINTERS = (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT)
_SIZE = re.compile(r"([0-9]{1,15})([KMGT]?)(?:i?B)?", re.IGNORECASE)


class ExplainError(ValueError):
    """What was asked can't be answered; one line that says what is wrong."""


class _MalformedError(ValueError):
    """A value has not the form that its type needs."""


@dataclass(frozen=True, slots=True)
class SizeNote:
    """A buffer's size.  ``source``: "given", "reached" by the kernel, or "assumed": one element each."""

    argument: str
    nbytes: int
    source: str


@dataclass(frozen=True, slots=True)
class AskedLaunch:
    """The launch that a command line describes, all its data on the host."""

    ndrange: NDRange
    values: Sequence[ArgumentValue]
    sizes: tuple[SizeNote, ...]
    bound: BoundAccess
    plans: AccessPlans


def asked_launch(
    compiled: CompiledProgram,
    model: KernelModel,
    access: KernelAccess,
    kernel: KernelNote,
    options: argparse.Namespace,
    members: int,
) -> AskedLaunch:
    """The launch that the command line describes.  Raises ExplainError."""
    ndrange = _ndrange(model, options)
    types = _parameter_types(compiled, model)
    scalars = _scalars(model, types, assignments("--arg", options.arg))
    packed = tuple(scalars.get(index) for index in range(len(model.arguments)))
    given = _given_sizes(model, assignments("--buffer", options.buffer))
    huge = tuple(_HUGE_NBYTES if a.kind in _POINTERS else None for a in model.arguments)
    reached = _reached(kernel, model, access.bind(ndrange, packed, huge), ndrange)
    sizes = _sizes(model, types, given, reached, ndrange)
    by_name = {note.argument: note.nbytes for note in sizes}
    buffer_nbytes = tuple(by_name.get(a.name) if a.kind in _POINTERS else None for a in model.arguments)
    buffers: dict[int, VirtualBuffer] = {}
    values: list[ArgumentValue] = []
    for index, (argument, nbytes) in enumerate(zip(model.arguments, buffer_nbytes, strict=True)):
        if nbytes is not None:
            buffers[index + 1] = _buffer(index + 1, nbytes, members)
            values.append(BufferArgument(index + 1, 0))
        elif argument.kind is ArgumentKind.IMAGE:
            shape = _assumed_image(argument, ndrange)
            buffers[index + 1] = _buffer(index + 1, shape.nbytes, members)
            values.append(ImageArgument(index + 1, ImageView(0, shape)))
            sizes = (*sizes, SizeNote(argument.name, shape.nbytes, "assumed"))
        else:
            values.append(LocalSize(1) if argument.kind is ArgumentKind.LOCAL else scalars.get(index, b""))
    bound = access.bind(ndrange, packed, buffer_nbytes)
    images = None
    if isinstance(access, KernelAnalysis) and access.images is not None:
        images = access.images.bind(ndrange, packed, image_slabs(model, values))
    return AskedLaunch(
        ndrange, values, sizes, bound, AccessPlans(model, values, buffers, lambda: bound, images)
    )


def _buffer(buffer_id: int, nbytes: int, members: int) -> VirtualBuffer:
    """A buffer whose bytes are all on the host."""
    dependencies = [Dependencies(nbytes) for _ in range(members + 1)]
    return VirtualBuffer(
        buffer_id, nbytes, 0, Directory(nbytes, defined=True), dependencies, [None] * members
    )


def _int3(flag: str, text: str, rest: int) -> tuple[Int3, int]:
    """Three sizes, missing ones ``rest``, and how many were given."""
    parts = text.split(",")
    if not 1 <= len(parts) <= 3 or not all(re.fullmatch(r"[0-9]{1,18}", part) for part in parts):
        raise ExplainError(f"{flag} {text}: expected 1 to 3 whole numbers with commas, such as 4096,4096")
    numbers = [int(part) for part in parts] + [rest] * (3 - len(parts))
    return (numbers[0], numbers[1], numbers[2]), len(parts)


def _ndrange(model: KernelModel, options: argparse.Namespace) -> NDRange:
    global_size, work_dim = _int3("--global", options.global_size, 1)
    if 0 in global_size:
        raise ExplainError(f"--global {options.global_size}: a size is 0")
    local = model.required_work_group_size
    if options.local_size:
        given, count = _int3("--local", options.local_size, 1)
        if count != work_dim:
            raise ExplainError(f"--local has {count} dimensions, --global has {work_dim}")
        if local is not None and given != local:
            raise ExplainError(f"kernel {model.name} requires --local {','.join(map(str, local))}")
        local = given
    offset: Int3 = (0, 0, 0)
    if options.offset:
        offset, count = _int3("--offset", options.offset, 0)
        if count != work_dim:
            raise ExplainError(f"--offset has {count} dimensions, --global has {work_dim}")
    try:
        return NDRange(work_dim, offset, global_size, local or choose_local_size(global_size))
    except ValueError as error:
        raise ExplainError(f"--global, --local: {error}") from error


def assignments(flag: str, texts: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE texts by name.  Raises ExplainError."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise ExplainError(f"{flag} {text}: expected NAME=VALUE")
        found[name] = value
    return found


def _parameter_types(compiled: CompiledProgram, model: KernelModel) -> list[Type]:
    functions = compiled.tree.functions.values()
    function = next(f for f in functions if f.name == model.name and f.body is not None)
    return [parameter.type for parameter in function.parameters]


def _scalars(model: KernelModel, types: Sequence[Type], given: Mapping[str, str]) -> dict[int, bytes]:
    """The bytes of each argument passed by value."""
    by_value = {a.name: k for k, a in enumerate(model.arguments) if a.kind is ArgumentKind.VALUE}
    for name in given:
        if name not in by_value:
            known = ", ".join(by_value) or "none"
            raise ExplainError(f"--arg {name}: kernel {model.name} has the scalar arguments {known}")
    missing = [name for name in by_value if name not in given]
    if missing:
        wanted = " ".join(f"--arg {name}=..." for name in missing)
        raise ExplainError(f"kernel {model.name} needs values: {wanted}")
    return {
        k: _value(model.arguments[k].type_name, name, given[name], types[k]) for name, k in by_value.items()
    }


def _value(type_name: str, name: str, text: str, kind: Type) -> bytes:
    """``text`` as the argument's bytes: a number, numbers with commas for a vector, or hex:0011..."""
    try:
        return _value_bytes(text, kind)
    except (ValueError, OverflowError) as error:
        why = str(error) if isinstance(error, _MalformedError) else f"{kind.nbytes} bytes"
        raise ExplainError(f"--arg {name}={text}: not a value of type {type_name} ({why})") from error


def _value_bytes(text: str, kind: Type) -> bytes:
    """See ``_value``.  Raises ValueError or OverflowError."""
    if text.startswith("hex:"):
        data = bytes.fromhex(text.removeprefix("hex:"))
        if len(data) != kind.nbytes:
            raise _MalformedError(f"{len(data)} bytes instead of {kind.nbytes}")
        return data
    match kind.form:
        case Form.INTEGER:
            return int(text, 0).to_bytes(kind.nbytes, "little", signed=not kind.unsigned)
        case Form.FLOATING:
            return struct.pack(_FLOATS[kind.nbytes], float(text))
        case Form.VECTOR if kind.element is not None:
            parts = text.strip("()").split(",")
            if len(parts) != kind.count:
                raise _MalformedError(f"{len(parts)} numbers instead of {kind.count}")
            data = b"".join(_value_bytes(part.strip(), kind.element) for part in parts)
            return data.ljust(kind.nbytes, b"\0")
        case _:
            raise _MalformedError(f"give its {kind.nbytes} bytes as hex:...")


def _given_sizes(model: KernelModel, given: Mapping[str, str]) -> dict[str, int]:
    """The sizes that ``--buffer`` gives."""
    names = [a.name for a in model.arguments if a.kind in _POINTERS]
    sizes: dict[str, int] = {}
    for name, text in given.items():
        if name not in names:
            known = ", ".join(names) or "none"
            raise ExplainError(f"--buffer {name}: kernel {model.name} has the buffers {known}")
        match = _SIZE.fullmatch(text)
        if match is None or int(match[1]) == 0:
            raise ExplainError(f"--buffer {name}={text}: expected a size in bytes such as 4096 or 64M")
        sizes[name] = int(match[1]) << (10 * " KMGT".index(match[2].upper() or " "))
    return sizes


def _sizes(
    model: KernelModel,
    types: Sequence[Type],
    given: Mapping[str, int],
    reached: Mapping[str, int],
    ndrange: NDRange,
) -> tuple[SizeNote, ...]:
    """Each buffer's size: as given, else as far as the kernel reaches, else one element per work-item."""
    items = ndrange.global_size[0] * ndrange.global_size[1] * ndrange.global_size[2]
    notes = []
    for argument, kind in zip(model.arguments, types, strict=True):
        name, element = argument.name, kind.element
        if argument.kind not in _POINTERS:
            continue
        if name in given:
            notes.append(SizeNote(name, given[name], "given"))
        elif name in reached:
            notes.append(SizeNote(name, reached[name], "reached"))
        else:
            each = element.nbytes if element is not None and element.nbytes else 1
            notes.append(SizeNote(name, items * each, "assumed"))
    return tuple(notes)


def _assumed_image(argument: Argument, ndrange: NDRange) -> ImageShape:
    """As many pixels as there are work-items in each dimension, of four bytes."""
    width, rows, planes = ndrange.global_size
    kind = IMAGE_TYPES.get(argument.type_name, MemObjectType.IMAGE2D)
    if kind in (MemObjectType.IMAGE1D, MemObjectType.IMAGE1D_BUFFER):
        rows = 1
    if kind not in (MemObjectType.IMAGE3D, MemObjectType.IMAGE2D_ARRAY):
        planes = 1
    pixel = (ChannelOrder.RGBA, ChannelType.UNORM_INT8)
    return ImageShape(kind, *pixel, width, rows, planes, 4 * width, 4 * width * rows)


def _reached(kernel: KernelNote, model: KernelModel, access: BoundAccess, ndrange: NDRange) -> dict[str, int]:
    """Bytes up to the last one that a launch may touch, by argument; only where that tells something."""
    doubtful = {note.name for note in kernel.arguments if note.reasons}
    found = {}
    for item in access.bounds(GroupBox((0, 0, 0), ndrange.num_groups)):
        name = model.arguments[item.argument].name
        touched = [item.reads, item.writes, *(ranges for _, ranges in item.updates)]
        last = max((bounds.stop for each in touched if (bounds := each.bounds) is not None), default=0)
        if 0 < last < (_LARGE_NBYTES if name in doubtful else _HUGE_NBYTES // 2):
            found[name] = last
    return found
