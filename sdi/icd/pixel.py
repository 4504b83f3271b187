"""The bytes of a pixel from a color, as ``clEnqueueFillImage`` converts it.

Source: OpenCL C 3.0 specification, section "Conversion Rules" of "Image Addressing and Filtering".
"""

from __future__ import annotations

import numpy as np

from sdi.devices.image import (
    CHANNELS,
    FLOAT,
    HALF_FLOAT,
    SIGNED_INT8,
    SIGNED_INT16,
    SIGNED_INT32,
    SNORM_INT8,
    SNORM_INT16,
    UNORM_INT8,
    UNORM_INT16,
    UNSIGNED_INT8,
    UNSIGNED_INT16,
    UNSIGNED_INT32,
    is_known_format,
)
from sdi.errors import Status, require

COLOR_NBYTES = 16
_STORED = {
    SNORM_INT8: "i1",
    UNORM_INT8: "u1",
    SIGNED_INT8: "i1",
    UNSIGNED_INT8: "u1",
    SNORM_INT16: "i2",
    UNORM_INT16: "u2",
    SIGNED_INT16: "i2",
    UNSIGNED_INT16: "u2",
    SIGNED_INT32: "i4",
    UNSIGNED_INT32: "u4",
    HALF_FLOAT: "f2",
    FLOAT: "f4",
}
_SCALES = {SNORM_INT8: 127.0, SNORM_INT16: 32767.0, UNORM_INT8: 255.0, UNORM_INT16: 65535.0}
_SIGNED = (SIGNED_INT8, SIGNED_INT16, SIGNED_INT32)
_FLOATING = (HALF_FLOAT, FLOAT)


def pixel_of(color: bytes, order: int, data_type: int) -> bytes:
    """The pixel in which a color of four floats, ints or uints (as the format has it) is stored.

    What a channel can't hold is clamped; fractions are rounded to the nearest even value.  Raises ClError.
    """
    require(
        len(color) == COLOR_NBYTES and is_known_format(order, data_type),
        Status.INVALID_VALUE,
        f"fill: a color of {len(color)} bytes for the format {order:#x}, {data_type:#x}",
    )
    stored = np.dtype(f"<{_STORED[data_type]}")
    if data_type in _SCALES or data_type in _FLOATING:
        values = np.frombuffer(color, "<f4")
    else:
        values = np.frombuffer(color, "<i4" if data_type in _SIGNED else "<u4")
    if data_type in _SCALES:
        values = np.rint(
            np.nan_to_num(values, posinf=np.inf, neginf=-np.inf) * np.float32(_SCALES[data_type])
        )
    with np.errstate(over="ignore"):
        if data_type not in _FLOATING:
            limits = np.iinfo(stored)
            values = np.clip(values, limits.min, limits.max)
        channels = dict(zip("rgba", values.astype(stored), strict=True))
    return b"".join(channels[name].tobytes() for name in CHANNELS[order])
