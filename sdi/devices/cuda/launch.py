"""The parameter block of a launch: arguments as CUDA kernels take them, and the native grid."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from sdi.clc import launch
from sdi.clc.cuda.emit import LOCAL_ALIGNMENT
from sdi.clc.cuda.translate import CudaKernel, ParameterKind
from sdi.devices.base import BoundArgument, LocalBytes
from sdi.devices.cuda.images import CudaImage, linear_description, sampler_bits
from sdi.devices.cuda.memory import CudaBuffer
from sdi.devices.cuda.textures import NO_TEXTURES
from sdi.devices.image import LinearImage, Sampler
from sdi.ndrange import Int3
from sdi.wire.kernels import CUDA_GRID
from sdi.wire.layout import layout
from sdi.wire.opencl import Filter

_GRID = layout(CUDA_GRID)
_NONE: Mapping[int, Sequence[int]] = {}
MAX_GRID_Y, MAX_GRID_X = 65_535, (1 << 31) - 1

Offsets = tuple[Int3, Int3]
"""First group of the box of work-groups, and global offset of the NDRange."""


def offsets_of(kernel: CudaKernel, arguments: Sequence[BoundArgument]) -> Offsets:
    """The offsets in the hidden argument of sub-range text; zeros without one."""
    hidden = arguments[-1] if kernel.is_subrange and arguments else None
    if not isinstance(hidden, bytes):
        return (0, 0, 0), (0, 0, 0)
    return launch.offsets_of(hidden)


def filtered_images(kernel: CudaKernel, arguments: Sequence[BoundArgument]) -> dict[int, set[int]]:
    """Images that textures can filter, by argument: the bits of the samplers that may be used with each."""
    given = [sampler_bits(each) for each in arguments if isinstance(each, Sampler)]
    linear = {bits for bits in given if bits & Filter.LINEAR.bits}
    pairs = zip(kernel.parameters, arguments, strict=False)
    return {
        number: found
        for number, (parameter, _) in enumerate(pairs)
        if parameter.samplers is not None and (found := linear | parameter.samplers)
    }


def parameter_block(
    kernel: CudaKernel, arguments: Sequence[BoundArgument], textures: Mapping[int, Sequence[int]] = _NONE
) -> tuple[bytes, int]:
    """(parameters with their padding, up to the grid; bytes of dynamic shared memory).

    ``textures``: by argument, see ``Textures.find``.  Raises ValueError for an argument that is not what the
    kernel declares.
    """
    if len(arguments) != len(kernel.parameters):
        raise ValueError(f"{kernel.name}: {len(arguments)} arguments for {len(kernel.parameters)}")
    block = bytearray()
    shared_nbytes = 0
    shifts: Iterator[int] = itertools.repeat(0)
    if kernel.is_subrange and arguments and isinstance(arguments[-1], bytes):
        shifts = iter(launch.shifts_of(arguments[-1]))
    for number, (parameter, argument) in enumerate(zip(kernel.parameters, arguments, strict=True)):
        block += bytes(-len(block) % parameter.alignment)
        own: object = argument
        match parameter.kind, own:
            case ParameterKind.VALUE, bytes() if len(own) == parameter.nbytes:
                block += own
            case ParameterKind.LOCAL, LocalBytes():
                shared_nbytes += -shared_nbytes % LOCAL_ALIGNMENT
                block += shared_nbytes.to_bytes(4, "little")
                shared_nbytes += own.nbytes
            case ParameterKind.POINTER, None:
                next(shifts, 0)
                block += bytes(8)
            case ParameterKind.IMAGE, CudaImage():
                block += own.description()
            case ParameterKind.IMAGE, LinearImage():
                block += linear_description(own, textures.get(number, NO_TEXTURES))
            case ParameterKind.SAMPLER, Sampler():
                block += sampler_bits(own).to_bytes(4, "little")
            case ParameterKind.POINTER, CudaBuffer():
                address = own.address - next(shifts, 0)
                block += (address % (1 << 64)).to_bytes(8, "little")
            case _:
                what = f"{len(own)} bytes" if isinstance(own, bytes) else type(own).__name__
                wanted = f"{parameter.kind.value} of {parameter.nbytes} bytes"
                raise ValueError(f"{kernel.name}: argument {number} is {what}, not a {wanted}")
    block += bytes(-len(block) % 8)
    return bytes(block), shared_nbytes


def places_of(kernel: CudaKernel) -> dict[int, int]:
    """By argument, where its value is in ``parameter_block``; of values only."""
    found: dict[int, int] = {}
    at = 0
    for number, parameter in enumerate(kernel.parameters):
        at += -at % parameter.alignment
        if parameter.kind is ParameterKind.VALUE:
            found[number] = at
        at += parameter.nbytes
    return found


def packed(
    parameters: bytes, offsets: Offsets, groups: Int3, local_size: Int3, work_dim: int
) -> tuple[Int3, bytes]:
    """Grid and parameters; a grid whose y or z CUDA does not allow is launched in x alone."""
    is_flat = max(groups[1], groups[2]) > MAX_GRID_Y
    grid = (groups[0] * groups[1] * groups[2], 1, 1) if is_flat else groups
    base = [
        first * local + offset
        for first, local, offset in zip(offsets[0], local_size, offsets[1], strict=True)
    ]
    return grid, parameters + _GRID.pack(*base, *groups, work_dim)
