"""Texture objects: the hardware filters pixels where they lie, in linear bytes.

A texture object says what a launch's image and one sampler say together, as on the vendor's OpenCL, so that
the same weights come out; without one ``compat_images.h`` computes them, more exactly and much slower.
"""

from __future__ import annotations

import ctypes
import logging
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from sdi.devices.base import BoundArgument
from sdi.devices.cuda.context import CudaContext
from sdi.devices.cuda.driver import check, drv, quick
from sdi.devices.cuda.memory import CudaBuffer
from sdi.devices.image import CHANNELS, LinearImage
from sdi.errors import DeviceFailed
from sdi.wire.cuda import (
    CU_AD_FORMAT_FLOAT,
    CU_AD_FORMAT_HALF,
    CU_AD_FORMAT_SIGNED_INT8,
    CU_AD_FORMAT_SIGNED_INT16,
    CU_AD_FORMAT_UNSIGNED_INT8,
    CU_AD_FORMAT_UNSIGNED_INT16,
    CU_RESOURCE_TYPE_PITCH2D,
    CU_TR_ADDRESS_MODE_BORDER,
    CU_TR_ADDRESS_MODE_CLAMP,
    CU_TR_ADDRESS_MODE_MIRROR,
    CU_TR_ADDRESS_MODE_WRAP,
    CU_TR_FILTER_MODE_LINEAR,
    CU_TRSF_NORMALIZED_COORDINATES,
)
from sdi.wire.kernels import CUDA_IMAGE, texture_of
from sdi.wire.opencl import ChannelType

_log = logging.getLogger(__name__)
NUM_TEXTURES: Final = next(field.count for field in CUDA_IMAGE if field.name == "textures")
NO_TEXTURES: Final = (0,) * NUM_TEXTURES
ALIGNMENT, PITCH_ALIGNMENT = 512, 32
"""Bytes, of the first pixel and of rows; where a GPU has others its driver refuses, and kernels filter.

Source: CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT and CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT.
"""
_WIDTH_MAX, _ROWS_MAX, _PITCH_MAX = 131072, 65000, 2097120
"""Source: CUDA C++ programming guide, technical specifications: a 2D texture bound to linear memory."""
_STORED = {
    ChannelType.UNORM_INT8: CU_AD_FORMAT_UNSIGNED_INT8,
    ChannelType.UNORM_INT16: CU_AD_FORMAT_UNSIGNED_INT16,
    ChannelType.SNORM_INT8: CU_AD_FORMAT_SIGNED_INT8,
    ChannelType.SNORM_INT16: CU_AD_FORMAT_SIGNED_INT16,
    ChannelType.HALF_FLOAT: CU_AD_FORMAT_HALF,
    ChannelType.FLOAT: CU_AD_FORMAT_FLOAT,
}
_WITHIN = (CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_BORDER)
_ADDRESS_MODES = (*_WITHIN, *_WITHIN, CU_TR_ADDRESS_MODE_WRAP, CU_TR_ADDRESS_MODE_MIRROR)
"""By ``texture_of``."""


class _Resource(ctypes.Structure):
    """``CUDA_RESOURCE_DESC`` of a 2D texture in linear memory.  Source: CUDA driver API, texture objects."""

    _fields_ = [
        ("type", ctypes.c_uint),
        ("address", ctypes.c_uint64),
        ("format", ctypes.c_uint),
        ("channels", ctypes.c_uint),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("pitch", ctypes.c_size_t),
        ("reserved", ctypes.c_int * 22),
        ("flags", ctypes.c_uint),
    ]


class _Sampling(ctypes.Structure):
    """``CUDA_TEXTURE_DESC``.  Source: as above."""

    _fields_ = [
        ("address_modes", ctypes.c_uint * 3),
        ("filter", ctypes.c_uint),
        ("flags", ctypes.c_uint),
        ("max_anisotropy", ctypes.c_uint),
        ("mipmap_filter", ctypes.c_uint),
        ("mipmap_levels", ctypes.c_float * 3),
        ("border", ctypes.c_float * 4),
        ("reserved", ctypes.c_int * 12),
    ]


class Texture:
    """A texture object.  ``handle``: the driver's.  It goes after the last kernel that is bound to it."""

    __slots__ = ("__weakref__", "handle")

    def __init__(self, handle: int) -> None:
        self.handle: Final = handle


_Key = tuple[int, int, int, int, int, int, int]


class Textures:
    """Those of a member.  Owned by: sdi-scheduler."""

    def __init__(self, context: CudaContext, name: str) -> None:
        self._context: Final = context
        self._name: Final = name
        self._made: Final[weakref.WeakValueDictionary[_Key, Texture]] = weakref.WeakValueDictionary()
        self._has_refused = False

    def find(
        self, arguments: Sequence[BoundArgument], filtered: Mapping[int, Iterable[int]]
    ) -> dict[int, list[Texture | None]] | None:
        """For each of the ``filtered`` images, by argument: those by ``texture_of``, for its samplers' bits.

        None where the kernel has to filter itself.
        """
        found: dict[int, list[Texture | None]] = {}
        for number, samplers in filtered.items():
            image: object = arguments[number]
            if isinstance(image, LinearImage) and image.shape.data_type not in _STORED:
                continue  # no function reads integers between pixels
            if not isinstance(image, LinearImage) or not _may_filter(image):
                return None
            try:
                found[number] = self._of(image, {texture_of(bits) for bits in samplers})
            except (DeviceFailed, drv.Error) as cause:
                say = _log.debug if self._has_refused else _log.warning
                self._has_refused = True
                say("%s: kernels filter an image themselves: %s", self._name, cause)
                return None
        return found

    def _of(self, image: LinearImage, which: set[int]) -> list[Texture | None]:
        shape = image.shape
        address = cast(CudaBuffer, image.buffer).address + image.offset
        form, channels = _STORED[ChannelType(shape.data_type)], len(CHANNELS[shape.order])
        found: list[Texture | None] = [None] * NUM_TEXTURES
        for at in which:
            key = (address, form, channels, shape.width, shape.rows, shape.row_pitch, at)
            texture = self._made.get(key)
            if texture is None:
                texture = self._made[key] = self._make(key)
            found[at] = texture
        return found

    def _make(self, key: _Key) -> Texture:
        address, form, channels, width, rows, pitch, at = key
        resource = _Resource(CU_RESOURCE_TYPE_PITCH2D, address, form, channels, width, rows, pitch)
        mode = _ADDRESS_MODES[at]
        sampling = _Sampling(
            address_modes=(ctypes.c_uint * 3)(mode, mode, mode),
            filter=CU_TR_FILTER_MODE_LINEAR,
            flags=CU_TRSF_NORMALIZED_COORDINATES if at >= 2 else 0,
        )
        handle = ctypes.c_uint64()
        with self._context.pushed():
            self._context.kept.unload_textures()
            status = quick().cuTexObjectCreate(
                ctypes.byref(handle), ctypes.byref(resource), ctypes.byref(sampling), None
            )
            check(status, "cuTexObjectCreate")
        if handle.value >> 32:
            raise DeviceFailed(self._name, f"a texture object {handle.value:#x}")
        texture = Texture(handle.value)
        # The context is not current on every thread that lets the last kernel go.
        weakref.finalize(texture, self._context.kept.textures.append, handle.value).atexit = False
        return texture


def _may_filter(image: LinearImage) -> bool:
    """Whether the hardware can: by what is the same on all members, so that all filter alike."""
    shape = image.shape
    return (
        image.offset % ALIGNMENT == 0
        and shape.row_pitch % PITCH_ALIGNMENT == 0
        and (shape.width <= _WIDTH_MAX and shape.rows <= _ROWS_MAX and shape.row_pitch <= _PITCH_MAX)
    )
