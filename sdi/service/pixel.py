"""The bytes of a pixel from a color, as ``clEnqueueFillImage`` converts it.

Source: OpenCL C 3.0 specification, section "Conversion Rules" of "Image Addressing and Filtering".
"""

from __future__ import annotations

import numpy as np

from sdi.devices.image import CHANNELS, STORED, is_known_format
from sdi.errors import Status, require
from sdi.wire.opencl import ChannelType

COLOR_NBYTES = 16
_SCALES: dict[int, float] = {
    ChannelType.SNORM_INT8: 127.0,
    ChannelType.SNORM_INT16: 32767.0,
    ChannelType.UNORM_INT8: 255.0,
    ChannelType.UNORM_INT16: 65535.0,
}


def pixel_of(color: bytes, order: int, data_type: int) -> bytes:
    """The pixel in which a color of four floats, ints or uints (as the format has it) is stored.

    What a channel can't hold is clamped; fractions are rounded to the nearest even value.  Raises ClError.
    """
    require(
        len(color) == COLOR_NBYTES and is_known_format(order, data_type),
        Status.INVALID_VALUE,
        f"fill: a color of {len(color)} bytes for the format {order:#x}, {data_type:#x}",
    )
    stored = np.dtype(f"<{STORED[data_type]}")
    if data_type in _SCALES or stored.kind == "f":
        values = np.frombuffer(color, "<f4")
    else:
        values = np.frombuffer(color, f"<{stored.kind}4")
    if data_type in _SCALES:
        values = np.rint(
            np.nan_to_num(values, posinf=np.inf, neginf=-np.inf) * np.float32(_SCALES[data_type])
        )
    with np.errstate(over="ignore"):
        if stored.kind != "f":
            limits = np.iinfo(stored)
            values = np.clip(values, limits.min, limits.max)
        channels = dict(zip("rgba", values.astype(stored), strict=True))
    return b"".join(channels[name].tobytes() for name in CHANNELS[order])
