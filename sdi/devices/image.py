"""Images and samplers as values: shapes, formats, and how pixels lie in linear bytes.

Source: OpenCL 3.0 API specification, section "Image Objects".
"""

from __future__ import annotations

from typing import Self

from sdi.dataclass import dataclass
from sdi.devices.handles import DeviceBuffer
from sdi.intervals import ByteRange
from sdi.ndrange import Int3
from sdi.region import Region, region
from sdi.wire.arguments import SAMPLER
from sdi.wire.opencl import Addressing, ChannelOrder, ChannelType, Filter, MemObjectType

CHANNELS: dict[int, str] = {
    ChannelOrder.R: "r",
    ChannelOrder.A: "a",
    ChannelOrder.RG: "rg",
    ChannelOrder.RA: "ra",
    ChannelOrder.RGBA: "rgba",
    ChannelOrder.BGRA: "bgra",
    ChannelOrder.ARGB: "argb",
    ChannelOrder.ABGR: "abgr",
    ChannelOrder.INTENSITY: "r",
    ChannelOrder.LUMINANCE: "r",
}
"""Which components of a color the channels of a pixel are, by channel order."""
STORED: dict[int, str] = {
    **dict.fromkeys((ChannelType.SNORM_INT8, ChannelType.SIGNED_INT8), "i1"),
    **dict.fromkeys((ChannelType.UNORM_INT8, ChannelType.UNSIGNED_INT8), "u1"),
    **dict.fromkeys((ChannelType.SNORM_INT16, ChannelType.SIGNED_INT16), "i2"),
    **dict.fromkeys((ChannelType.UNORM_INT16, ChannelType.UNSIGNED_INT16), "u2"),
    ChannelType.SIGNED_INT32: "i4",
    ChannelType.UNSIGNED_INT32: "u4",
    ChannelType.HALF_FLOAT: "f2",
    ChannelType.FLOAT: "f4",
}
"""What a channel is stored as, by its type: numpy's name without the order of bytes."""
_CHANNEL_NBYTES = {data_type: int(stored[1]) for data_type, stored in STORED.items()}

_LAST_DIMENSION: dict[int, int] = {
    **dict.fromkeys((MemObjectType.IMAGE1D, MemObjectType.IMAGE1D_BUFFER), 0),
    **dict.fromkeys((MemObjectType.IMAGE2D, MemObjectType.IMAGE1D_ARRAY), 1),
    **dict.fromkeys((MemObjectType.IMAGE3D, MemObjectType.IMAGE2D_ARRAY), 2),
}
_ADDRESSINGS, _FILTERS = frozenset(map(int, Addressing)), frozenset(map(int, Filter))


def is_known_format(order: int, data_type: int) -> bool:
    """Whether sdi can compute with pixels of this format."""
    return order in CHANNELS and data_type in STORED


def pixel_nbytes(order: int, data_type: int) -> int:
    """Size of a pixel of a known format."""
    return len(CHANNELS[order]) * _CHANNEL_NBYTES[data_type]


@dataclass(frozen=True, slots=True)
class ImageShape:
    """An image's pixels: ``planes`` of ``rows`` of ``width`` pixels, with bytes from one to the next.

    The layers of a 1D array are its rows, those of a 2D array its planes.  Raises ValueError for what is
    no image.
    """

    type: int
    order: int
    data_type: int
    width: int
    rows: int
    planes: int
    row_pitch: int
    plane_pitch: int

    def __post_init__(self) -> None:
        last = _LAST_DIMENSION.get(self.type)
        if last is None or not is_known_format(self.order, self.data_type):
            raise ValueError(f"image type {self.type:#x}, format {self.order:#x}, {self.data_type:#x}")
        if min(self.width, self.rows, self.planes) < 1 or (last < 1 and self.rows > 1):
            raise ValueError(f"an image of {self.width} x {self.rows} x {self.planes}")
        if last < 2 and self.planes > 1:
            raise ValueError(f"{self.planes} planes in an image of type {self.type:#x}")
        if self.row_pitch < self.row_nbytes or self.plane_pitch < self.row_pitch * self.rows:
            raise ValueError(f"pitches of {self.row_pitch} and {self.plane_pitch} bytes")

    @property
    def pixel_nbytes(self) -> int:
        """Size of a pixel."""
        return pixel_nbytes(self.order, self.data_type)

    @property
    def row_nbytes(self) -> int:
        """Bytes of a row's pixels."""
        return self.width * self.pixel_nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of all pixels, without what lies between them."""
        return self.row_nbytes * self.rows * self.planes

    @property
    def span_nbytes(self) -> int:
        """From the first pixel's first byte to the last one's last."""
        return (self.planes - 1) * self.plane_pitch + (self.rows - 1) * self.row_pitch + self.row_nbytes

    @property
    def is_addressable(self) -> bool:
        """Whether kernels can find each pixel in linear bytes: at a multiple of its bytes, if the first one
        is, in rows that are no 4 GiB apart, and planes that are some rows apart.
        """
        are_rows = self.planes == 1 or not self.plane_pitch % self.row_pitch
        return are_rows and not self.row_pitch % self.pixel_nbytes and self.row_pitch < 1 << 32

    @property
    def axis(self) -> int:
        """The outermost dimension that has more than one pixel: 0 x, 1 rows, 2 planes."""
        return 2 if self.planes > 1 else 1 if self.rows > 1 else 0

    @property
    def is_deep(self) -> bool:
        """Whether ``axis`` is the last dimension that an image of this type has."""
        return self.axis == _LAST_DIMENSION[self.type]

    @property
    def slab_pitch(self) -> int:
        """Bytes from one slab (a plane, row or pixel along ``axis``) to the next."""
        return (self.pixel_nbytes, self.row_pitch, self.plane_pitch)[self.axis]

    @property
    def num_slabs(self) -> int:
        """Slabs along ``axis``."""
        return (self.width, self.rows, self.planes)[self.axis]

    def slabs_of(self, over: ByteRange) -> Slabs:
        """The slabs that hold the bytes ``over``, counted from the first pixel."""
        last = min((over.stop - 1) // self.slab_pitch, self.num_slabs - 1)
        return Slabs(min(over.start // self.slab_pitch, last), last + 1)

    def bytes_of(self, slabs: Slabs) -> ByteRange:
        """From the first byte of the first of ``slabs`` to the last byte of the last one's pixels."""
        behind = self.num_slabs - slabs.stop
        return ByteRange(slabs.start * self.slab_pitch, self.span_nbytes - behind * self.slab_pitch)

    def pixels(self, slabs: Slabs) -> Region:
        """The bytes of the pixels of ``slabs``, counted from the first pixel."""
        (x, y, z), (width, rows, planes) = self.region_of(slabs)
        base = x * self.pixel_nbytes + y * self.row_pitch + z * self.plane_pitch
        return region(base, (width * self.pixel_nbytes, rows, planes), (self.row_pitch, self.plane_pitch))

    def region_of(self, slabs: Slabs) -> tuple[Int3, Int3]:
        """Origin and region of ``slabs`` in pixels, as the API counts them."""
        origin, counts = [0, 0, 0], [self.width, self.rows, self.planes]
        origin[self.axis] = slabs.start
        counts[self.axis] = slabs.stop - slabs.start
        return (origin[0], origin[1], origin[2]), (counts[0], counts[1], counts[2])


@dataclass(frozen=True, slots=True)
class Slabs:
    """Slabs ``start`` up to ``stop`` of an image, at least one."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(f"slabs [{self.start}, {self.stop})")


@dataclass(frozen=True, slots=True)
class LinearImage:
    """An image whose pixels are bytes of ``buffer``, the first of them at ``offset``; not all of them need be
    inside of it.  See ``Capabilities.has_linear_images``.
    """

    buffer: DeviceBuffer
    offset: int
    shape: ImageShape


@dataclass(frozen=True, slots=True)
class Sampler:
    """A sampler's modes: CL_ADDRESS_..., CL_FILTER_...  Raises ValueError for what is none."""

    normalized: bool
    addressing: int
    filter: int

    def __post_init__(self) -> None:
        if self.addressing not in _ADDRESSINGS or self.filter not in _FILTERS:
            raise ValueError(f"a sampler with modes {self.addressing:#x} and {self.filter:#x}")

    @classmethod
    def of(cls, record: bytes) -> Self:
        """Of a ``SAMPLER_ARGUMENT``.  Raises struct.error, too."""
        normalized, addressing, filter_mode, _ = SAMPLER.unpack(record)
        return cls(bool(normalized), addressing, filter_mode)

    def record(self) -> bytes:
        """The ``SAMPLER_ARGUMENT``."""
        return SAMPLER.pack(self.normalized, self.addressing, self.filter, 0)
