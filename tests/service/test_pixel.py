"""The bytes of a pixel from a color."""

from __future__ import annotations

import struct

import pytest

from sdi.errors import ClError
from sdi.service.pixel import pixel_of
from sdi.wire.opencl import ChannelOrder, ChannelType

COLOR = struct.pack("<4f", 0.5, -1.0, 2.0, float("nan"))


def test_normalized_channels_are_scaled_rounded_to_even_and_clamped() -> None:
    assert pixel_of(COLOR, ChannelOrder.RGBA, ChannelType.UNORM_INT8) == bytes([128, 0, 255, 0])
    assert pixel_of(COLOR, ChannelOrder.BGRA, ChannelType.SNORM_INT8) == bytes([127, 129, 64, 0])
    assert pixel_of(COLOR, ChannelOrder.R, ChannelType.UNORM_INT16) == struct.pack("<H", 32768)


def test_integers_are_clamped_and_floats_are_as_they_are() -> None:
    color = struct.pack("<4i", -1, 1 << 20, -(1 << 20), 7)
    assert pixel_of(color, ChannelOrder.RGBA, ChannelType.SIGNED_INT16) == struct.pack(
        "<4h", -1, 32767, -32768, 7
    )
    assert pixel_of(color, ChannelOrder.RA, ChannelType.UNSIGNED_INT8) == bytes([255, 7])
    assert pixel_of(COLOR, ChannelOrder.RG, ChannelType.FLOAT) == COLOR[:8]
    assert pixel_of(COLOR, ChannelOrder.R, ChannelType.HALF_FLOAT) == struct.pack("<e", 0.5)


def test_colors_of_no_known_format_or_size_are_refused() -> None:
    for color, order in ((COLOR[:8], ChannelOrder.RGBA), (COLOR, 0x1)):
        with pytest.raises(ClError, match="INVALID_VALUE"):
            pixel_of(color, order, ChannelType.FLOAT)
