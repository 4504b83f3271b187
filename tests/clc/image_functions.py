"""Reads and writes of images on CUDA members, computed here: the compat header as C++, and a model of them.

The header's image functions are compiled for this machine with a few words of CUDA made plain.  The model is
numpy in double precision, written from the OpenCL C 3.0 specification, section 8, and knows no header.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdi.devices import image as im
from sdi.devices.cuda.images import CudaImage, sampler_bits
from sdi.devices.cuda.memory import CudaBuffer
from sdi.devices.image import ImageShape, Sampler
from sdi.wire.opencl import IMAGE_TYPES
from sdi.wire.opencl import ChannelOrder as Order
from sdi.wire.opencl import ChannelType as Type
from tests.clc.host_cpp import host_library, host_text

Array = np.ndarray

DIMENSIONS = {
    "image1d_t": (1, False),
    "image1d_array_t": (1, True),
    "image2d_t": (2, False),
    "image2d_array_t": (2, True),
    "image3d_t": (3, False),
}
"""How many coordinates are places in space, and whether the next one is a layer."""
STORED = {
    Type.SNORM_INT8: ("i1", 127), Type.SNORM_INT16: ("i2", 32767), Type.UNORM_INT8: ("u1", 255),
    Type.UNORM_INT16: ("u2", 65535), Type.SIGNED_INT8: ("i1", 0), Type.SIGNED_INT16: ("i2", 0),
    Type.SIGNED_INT32: ("i4", 0), Type.UNSIGNED_INT8: ("u1", 0), Type.UNSIGNED_INT16: ("u2", 0),
    Type.UNSIGNED_INT32: ("u4", 0), Type.HALF_FLOAT: ("f2", 1), Type.FLOAT: ("f4", 1),
}  # fmt: skip
"""dtype and the value that is read as 1 (0: integers are read as they are), by channel data type."""
_OPAQUE = (Order.R, Order.RG, Order.LUMINANCE)  # what lies around them has an alpha of 1


def coordinate_width(kind: str) -> int:
    """Elements of a coordinate: three come as four."""
    space, layered = DIMENSIONS[kind]
    return (1, 2, 4)[space + layered - 1]


def suffix_of(data_type: int) -> str:
    """Which of read_imagef, ...i and ...ui is for this channel data type."""
    dtype, most = STORED[data_type]
    return "f" if most else {"i": "i", "u": "ui"}[dtype[0]]


RESULTS = {"f": np.float32, "i": np.int32, "ui": np.uint32}
_READS = {"f": 0, "i": 1, "ui": 2}


@dataclass(frozen=True, slots=True)
class Pixels:
    """An image without gaps, in host memory."""

    kind: str
    shape: ImageShape
    raw: Array

    @property
    def size(self) -> tuple[int, ...]:
        """As the application gives it: x first, layers last."""
        full = (self.shape.width, self.shape.rows, self.shape.planes)
        return full[: sum(DIMENSIONS[self.kind])]

    def values(self) -> Array:
        """Pixels as a read gives them, indexed z, y, x, component; in double precision."""
        shape = self.shape
        dtype, most = STORED[shape.data_type]
        names = im.CHANNELS[shape.order]
        stored = self.raw.view(dtype).reshape(shape.planes, shape.rows, shape.width, len(names)).astype(float)
        if most > 1:
            stored = np.maximum(stored / most, -1)
        made = np.zeros((*stored.shape[:3], 4))
        if "a" not in names:
            made[..., 3] = 1
        for channel, name in enumerate(names):
            made[..., "rgba".index(name)] = stored[..., channel]
        if shape.order in (Order.INTENSITY, Order.LUMINANCE):
            made[..., 1] = made[..., 2] = made[..., 0]
        if shape.order == Order.INTENSITY:
            made[..., 3] = made[..., 0]
        return made


def pixels_of(kind: str, order: int, data_type: int, size: tuple[int, ...], seed: int = 1) -> Pixels:
    """An image of random pixels; half of those of integers and fractions are extremes."""
    full = (*size, 1, 1)[:3]
    row = full[0] * im.pixel_nbytes(order, data_type)
    shape = ImageShape(IMAGE_TYPES[kind], order, data_type, *full, row, row * full[1])
    rng = np.random.default_rng(seed)
    dtype = np.dtype(STORED[data_type][0])
    count = shape.nbytes // dtype.itemsize
    if dtype.kind == "f":
        return Pixels(kind, shape, rng.normal(0, 10, count).astype(dtype).view(np.uint8))
    limits = np.iinfo(dtype)
    made = rng.integers(limits.min, limits.max, count, dtype, endpoint=True)
    made[::7], made[3::7] = limits.max, limits.min
    return Pixels(kind, shape, made.view(np.uint8))


class HeaderFunctions:
    """The compat header's image functions as a library of this machine."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def read(self, pixels: Pixels, sampler: Sampler, at: Array) -> Array:
        """What is read at ``at``: (n, coordinate_width) of int32 or float32."""
        suffix = suffix_of(pixels.shape.data_type)
        found = np.zeros((len(at), 4), RESULTS[suffix])
        self._call(_READS[suffix], pixels, sampler_bits(sampler), at, found)
        return found

    def write(self, pixels: Pixels, at: Array, colors: Array) -> None:
        """Write ``colors`` at int32 ``at``, one after the other."""
        self._call(3 + _READS[suffix_of(pixels.shape.data_type)], pixels, 0, at, colors)

    def _call(self, what: int, pixels: Pixels, bits: int, at: Array, colors: Array) -> None:
        image = CudaImage(CudaBuffer(None, pixels.raw.ctypes.data, pixels.raw.nbytes), pixels.shape)
        name = f"{pixels.kind}_{at.dtype.kind}"
        places, found = (array.ctypes.data_as(ctypes.c_void_p) for array in (at, colors))
        self._library[name](what, image.description(), bits, places, len(at), found)


_AFTER = """
#define READ(n, suffix, T) case n: ((_cl_vec<T, 4> *)colors)[i] = _cl_read_image##suffix(m, s, at[i]); break;
#define WRITE(n, suffix, T) case n: \\
  if constexpr (!is_float) _cl_write_image##suffix(m, at[i], ((const _cl_vec<T, 4> *)colors)[i]); break;
template<bool is_float, int K, class C>
void each(int what, const _cl_image<K> &m, unsigned s, const C *at, int n, void *colors) {
  for (int i = 0; i < n; i++) switch (what) {
    READ(0, f, float) READ(1, i, int) READ(2, ui, unsigned)
    WRITE(3, f, float) WRITE(4, i, int) WRITE(5, ui, unsigned)
  }
}
#define EXPORT(name, kind, T, is_float) \\
  extern "C" void name(int what, const void *m, unsigned s, const void *at, int n, void *colors) { \\
    each<is_float>(what, *(const _cl_image<kind> *)m, s, (const T *)at, n, colors); \\
  }
typedef _cl_vec<int, 2> int2; typedef _cl_vec<int, 4> int4;
typedef _cl_vec<float, 2> float2; typedef _cl_vec<float, 4> float4;
"""


def header_functions(folder: Path) -> HeaderFunctions:
    """The library, made in ``folder``.  Skips the test without a C++ compiler."""
    exports = [
        f"EXPORT({kind}_{name[0]}, {IMAGE_TYPES[kind]:#x}, {name}{coordinate_width(kind)}, {is_float})\n"
        for kind in DIMENSIONS
        for is_float, name in enumerate(("int", "float"))
    ]
    text = host_text("compat.h", "compat_images.h") + _AFTER
    text += "".join(exports).replace("int1,", "int,").replace("float1,", "float,")
    return HeaderFunctions(host_library(text, folder))


def modelled(pixels: Pixels, sampler: Sampler, at: Array) -> Array:
    """What the specification says is read at ``at``, in double precision.

    Places in the image are rounded to float, as the specification's formulas are: which pixel is nearest
    depends on it.
    """
    space, layered = DIMENSIONS[pixels.kind]
    sizes = (pixels.shape.width, pixels.shape.rows, pixels.shape.planes)
    linear = sampler.filter == 0x1141
    pairs = [_pair(at[:, d], sizes[d], sampler, linear) for d in range(space)]
    if layered:
        layer = np.clip(np.rint(at[:, space].astype(float)), 0, sizes[space] - 1).astype(int)
        pairs.append((layer, layer, np.zeros(len(at))))
    none = np.zeros(len(at), int)
    pairs += [(none, none, np.zeros(len(at)))] * (3 - len(pairs))
    found = np.zeros((len(at), 4))
    for corner in range(8):
        picks = [corner >> d & 1 for d in range(3)]
        weight = np.prod([a if pick else 1 - a for pick, (_, _, a) in zip(picks, pairs, strict=True)], axis=0)
        places = [pair[pick] for pick, pair in zip(picks, pairs, strict=True)]
        found += np.where(weight[:, None] > 0, weight[:, None] * _fetched(pixels, places), 0)
    return found


def _fetched(pixels: Pixels, places: list[Array]) -> Array:
    values = pixels.values()
    inside = np.ones(len(places[0]), bool)
    for place, size in zip(places, reversed(values.shape[:3]), strict=True):
        inside &= (place >= 0) & (place < size)
    x, y, z = (np.where(inside, place, 0) for place in places)
    border = [0, 0, 0, int(pixels.shape.order in _OPAQUE)]
    return np.where(inside[:, None], values[z, y, x], border)


def _pair(at: Array, size: int, sampler: Sampler, linear: bool) -> tuple[Array, Array, Array]:
    """The pixels around each coordinate and the weight of the second, by the tables of section 8.2."""
    one = np.float32(1)
    if at.dtype.kind == "i":
        u = at.astype(float)
    elif not sampler.normalized:
        u = at
    elif sampler.addressing == 0x1133:
        u = (at - np.floor(at)) * np.float32(size)
    elif sampler.addressing == 0x1134:
        u = np.abs(at - 2 * one * np.rint(one / 2 * at)) * np.float32(size)
    else:
        u = at * np.float32(size)
    v = u - one / 2 if linear else u
    i = np.floor(v).astype(int)
    j = i + 1 if linear else i
    if sampler.addressing == 0x1133:
        i, j = np.where(i < 0, i + size, i), np.where(j > size - 1, j - size, j)
        i = np.where(i > size - 1, i - size, i)
    elif sampler.addressing != 0x1132:
        i, j = np.clip(i, 0, size - 1), np.clip(j, 0, size - 1)
    return i, j, (v - np.floor(v)).astype(float) if linear else np.zeros(len(at))


def coordinates(pixels: Pixels, sampler: Sampler, is_float: bool, count: int, seed: int = 2) -> Array:
    """Places in and around an image, many on edges of pixels; inside where the mode has no outside."""
    space, layered = DIMENSIONS[pixels.kind]
    rng = np.random.default_rng(seed)
    at = np.zeros((count, coordinate_width(pixels.kind)))
    for d, size in enumerate(pixels.size):
        scale = size if not (is_float and sampler.normalized) or d >= space else 1
        around = 0 if sampler.addressing == 0x1130 and d < space else 3 if scale > 1 else 1.7
        at[:, d] = rng.uniform(-around, scale * (1 - 1e-3) + around, count)
        limits = (-9, 99) if around else (0, scale * (1 - 1e-3))
        at[::3, d] = np.clip(np.round(at[::3, d] * 8) / 8, *limits)
    if layered:
        at[:, space] += 0.01 * (at[:, space] % 1 == 0.5)  # PoCL 3.1 rounds halves up
    return at.astype(np.float32) if is_float else np.floor(at).astype(np.int32)


def samplers(suffix: str, is_float: bool) -> list[Sampler]:
    """All samplers that reads with such coordinates may have.  Source: section 6.15.15.1."""
    found = []
    for normalized in (False, True)[: 1 + is_float]:
        for addressing in range(0x1130, 0x1135 if normalized else 0x1133):
            for kind in (0x1140, 0x1141)[: 1 + (is_float and suffix == "f")]:
                found.append(Sampler(normalized, addressing, kind))
    return found
