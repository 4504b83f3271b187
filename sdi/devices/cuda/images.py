"""Images of CUDA members: pixels in linear bytes, which kernels address themselves.

Kernels are given a description of the pixels, ``CUDA_IMAGE``; the functions of ``compat_images.h``
convert, address and filter.  So an image needs no memory of its own, but where its rows can't be described
so, or a check wants a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from sdi.dataclass import dataclass
from sdi.devices.cuda.driver import MAX_PITCH, copy_pitched
from sdi.devices.cuda.memory import CudaBuffer, check_range
from sdi.devices.cuda.textures import NO_TEXTURES
from sdi.devices.image import CHANNELS, STORED, ImageShape, LinearImage, Sampler, Slabs
from sdi.wire.kernels import CUDA_IMAGE
from sdi.wire.layout import layout
from sdi.wire.opencl import Addressing, ChannelOrder, ChannelType, Filter

_DESCRIPTION = layout(CUDA_IMAGE)
_FLOATING = (
    *(ChannelType.SNORM_INT8, ChannelType.SNORM_INT16, ChannelType.UNORM_INT8, ChannelType.UNORM_INT16),
    *(ChannelType.HALF_FLOAT, ChannelType.FLOAT),
)
_BYTES = tuple(data_type for data_type, stored in STORED.items() if stored in ("i1", "u1"))
_ALL_USES = (1 << 24) - 1
_PITCH_MAX = (1 << 32) - 1


def _picks(order: int) -> int:
    """``CUDA_IMAGE.picks``."""
    channels = CHANNELS[order]
    is_gray = order in (ChannelOrder.INTENSITY, ChannelOrder.LUMINANCE)
    opaque = 4 if "a" in channels or order == ChannelOrder.INTENSITY else 5
    found = [0] * 3 if is_gray else [channels.find(each) for each in "rgb"]
    found.append(0 if order == ChannelOrder.INTENSITY else channels.find("a"))
    missing = (4, 4, 4, opaque)
    return sum(
        (at if at >= 0 else none) << 4 * n for n, (at, none) in enumerate(zip(found, missing, strict=True))
    )


_PICKS = {order: _picks(order) for order in CHANNELS}


def image_formats() -> dict[tuple[int, int], int]:
    """See ``Capabilities.formats``: every kind of image takes every format, for every access.

    Source: OpenCL 3.0 API specification, table of channel orders: which data types they go with.
    """
    allowed: dict[int, tuple[int, ...]] = {
        **dict.fromkeys((ChannelOrder.INTENSITY, ChannelOrder.LUMINANCE), _FLOATING),
        **dict.fromkeys((ChannelOrder.BGRA, ChannelOrder.ARGB, ChannelOrder.ABGR), _BYTES),
    }
    return {
        (order, data_type): _ALL_USES for order in CHANNELS for data_type in allowed.get(order, tuple(STORED))
    }


@dataclass(frozen=True, slots=True, eq=False)
class CudaImage:
    """An image: ``shape`` says how its pixels lie in linear bytes elsewhere, not here."""

    buffer: CudaBuffer
    shape: ImageShape

    def description(self) -> bytes:
        """``CUDA_IMAGE``.  Raises ValueError for rows that it can't describe."""
        row_nbytes = self.shape.row_nbytes
        pitches = row_nbytes, row_nbytes * self.shape.rows
        return _description(self.buffer.address, self.shape, *pitches, NO_TEXTURES)


def linear_description(image: LinearImage, textures: Sequence[int] = NO_TEXTURES) -> bytes:
    """The same of pixels that lie in a buffer."""
    shape, buffer = image.shape, cast(CudaBuffer, image.buffer)
    address = (buffer.address + image.offset) % (1 << 64)
    return _description(address, shape, shape.row_pitch, shape.plane_pitch, textures)


def _description(
    address: int, shape: ImageShape, row_pitch: int, plane_pitch: int, textures: Sequence[int]
) -> bytes:
    if shape.rows > 1 and row_pitch > _PITCH_MAX:
        raise ValueError(f"an image with rows of {row_pitch} bytes")
    return _DESCRIPTION.pack(
        address,
        plane_pitch,
        row_pitch & _PITCH_MAX,
        *(shape.width, shape.rows, shape.planes),
        (shape.order & 255) << 12 | (shape.data_type & 255) << 4 | len(CHANNELS[shape.order]),
        shape.pixel_nbytes,
        _PICKS[shape.order],
        *textures,
        0,
    )


def sampler_bits(sampler: Sampler) -> int:
    """A sampler as kernels have it: the bits of CLK_NORMALIZED_COORDS_..., CLK_ADDRESS_..., CLK_FILTER_..."""
    return int(sampler.normalized) | Addressing(sampler.addressing).bits | Filter(sampler.filter).bits


def copy_pixels(
    image: CudaImage, slabs: Slabs, buffer: CudaBuffer, offset: int, stream: int, to_image: bool
) -> None:
    """Between linear bytes, the image's first pixel at ``offset``, and an image.

    Raises ValueError for bytes outside the buffer, and DeviceFailed.
    """
    shape = image.shape
    over = shape.bytes_of(slabs)
    check_range(over.nbytes, offset + over.start, buffer.nbytes)
    (x, y, z), (width, rows, planes) = shape.region_of(slabs)
    dense = shape.row_nbytes
    if shape.plane_pitch == shape.row_pitch * shape.rows:
        rows, planes = rows * planes, 1
    if rows > 1 and max(shape.row_pitch, dense) > MAX_PITCH:
        raise ValueError(f"rows of {shape.row_pitch} bytes are more than a copy can skip")
    for plane in range(z, z + planes):
        here = x * shape.pixel_nbytes + (plane * shape.rows + y) * dense
        there = x * shape.pixel_nbytes + y * shape.row_pitch + plane * shape.plane_pitch
        inside = (image.buffer.address + here, dense)
        outside = (buffer.address + offset + there, shape.row_pitch)
        to, from_ = (inside, outside) if to_image else (outside, inside)
        copy_pitched(to, from_, width * shape.pixel_nbytes, rows, stream)
