"""What the image functions of CUDA members read and write, against the specification (no GPU needed)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sdi.devices import image as im
from sdi.devices.cuda.images import image_formats
from sdi.devices.image import Sampler
from sdi.wire.opencl import ChannelOrder as Order
from sdi.wire.opencl import ChannelType as Type
from tests.clc.image_functions import (
    DIMENSIONS,
    RESULTS,
    STORED,
    HeaderFunctions,
    Pixels,
    coordinates,
    header_functions,
    modelled,
    pixels_of,
    samplers,
    suffix_of,
)

SIZES = {
    "image1d_t": (37,),
    "image1d_array_t": (37, 5),
    "image2d_t": (19, 11),
    "image2d_array_t": (13, 9, 4),
    "image3d_t": (13, 9, 4),
}
# Each channel order and each data type, and the unusual ones together.
FORMATS = [
    *((Order.RGBA, data_type) for data_type in STORED),
    *((order, Type.SNORM_INT8) for order in im.CHANNELS if order != Order.RGBA),
    *((Order.R, data_type) for data_type in (Type.UNORM_INT16, Type.HALF_FLOAT, Type.UNSIGNED_INT32)),
    (Order.RG, Type.FLOAT),
]
INSIDE = Sampler(False, 0x1131, 0x1140)


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> HeaderFunctions:
    return header_functions(tmp_path_factory.mktemp("images"))


def test_formats_are_those_that_the_specification_allows() -> None:
    found = image_formats()
    assert all(im.is_known_format(*key) for key in found)
    assert (Order.BGRA, Type.UNORM_INT8) in found and (Order.BGRA, Type.FLOAT) not in found
    assert (Order.INTENSITY, Type.FLOAT) in found and (Order.LUMINANCE, Type.SIGNED_INT8) not in found
    assert set(FORMATS) <= set(found)


@pytest.mark.parametrize("kind", DIMENSIONS)
@pytest.mark.parametrize("form", FORMATS, ids=lambda each: "{:x}-{:x}".format(*each))
def test_reads_are_what_the_specification_says(
    header: HeaderFunctions, kind: str, form: tuple[int, int]
) -> None:
    pixels = pixels_of(kind, *form, SIZES[kind])
    suffix = suffix_of(form[1])
    for is_float in (False, True):
        for sampler in samplers(suffix, is_float):
            at = coordinates(pixels, sampler, is_float, 600)
            found, wanted = header.read(pixels, sampler, at), modelled(pixels, sampler, at)
            if suffix != "f":
                wrong = found != wanted
            elif sampler.filter == 0x1141:  # weights are floats: errors are those of the largest pixel
                wrong = np.abs(found - wanted) > 3e-6 * np.abs(pixels.values()).max()
            else:
                wrong = found != wanted.astype(np.float32)
            places = np.flatnonzero(wrong.any(1))
            assert not places.size, (sampler, at[places[0]], found[places[0]], wanted[places[0]])


@pytest.mark.parametrize("data_type", [Type.SNORM_INT8, Type.SNORM_INT16, Type.UNORM_INT8, Type.UNORM_INT16])
def test_each_fraction_is_the_nearest_float(header: HeaderFunctions, data_type: int) -> None:
    dtype, most = STORED[data_type]
    limits = np.iinfo(dtype)
    stored = np.arange(limits.min, limits.max + 1).astype(dtype)
    shape = pixels_of("image1d_t", Order.R, data_type, (stored.size,)).shape
    at = np.arange(stored.size, dtype=np.int32)[:, None]
    found = header.read(Pixels("image1d_t", shape, stored.view(np.uint8)), INSIDE, at)[:, 0]
    assert (found == np.maximum(stored.astype(float) / most, -1).astype(np.float32)).all()


@pytest.mark.parametrize("form", FORMATS, ids=lambda each: "{:x}-{:x}".format(*each))
def test_what_is_written_is_read_again(header: HeaderFunctions, form: tuple[int, int]) -> None:
    for kind, size in SIZES.items():
        source, target = pixels_of(kind, *form, size), pixels_of(kind, *form, size, seed=9)
        places = list(itertools.product(*(range(-1, length + 1) for length in size)))
        at = np.zeros((len(places), 4 if len(size) == 3 else len(size)), np.int32)
        at[:, : len(size)] = places
        inside = ((at[:, : len(size)] >= 0) & (at[:, : len(size)] < size)).all(1)
        header.write(target, at[~inside], np.ones((int((~inside).sum()), 4), RESULTS[suffix_of(form[1])]))
        assert (target.raw == pixels_of(kind, *form, size, seed=9).raw).all(), "outside nothing is written"
        header.write(target, at[inside], header.read(source, INSIDE, at[inside]))
        assert (target.values() == source.values()).all()


def test_colors_are_rounded_to_even_and_limited(header: HeaderFunctions) -> None:
    colors = np.array([[0.5, 1.5, -3, 2 / 255], [126.5 / 255, 127.5 / 255, np.inf, np.nan]], np.float32)
    at = np.array([[0], [1]], np.int32)
    for data_type, wanted in (
        (Type.UNORM_INT8, [128, 255, 0, 2, 126, 128, 255, 0]),
        (Type.SNORM_INT8, [64, 127, -127, 1, 63, 64, 127, 0]),
    ):
        pixels = pixels_of("image1d_t", Order.RGBA, data_type, (2,))
        header.write(pixels, at, colors)
        stored = pixels.raw.view(STORED[data_type][0]).astype(int)
        assert (stored == np.where(np.array(wanted) == -127, stored, wanted)).all(), stored
        assert stored[2] in (0, -127, -128)
    numbers = np.array([[70000, -70000, 5, -5], [300, -300, 127, -129]], np.int32)
    for data_type, least, most in ((Type.SIGNED_INT8, -128, 127), (Type.SIGNED_INT16, -32768, 32767)):
        pixels = pixels_of("image1d_t", Order.RGBA, data_type, (2,))
        header.write(pixels, at, numbers)
        assert (pixels.raw.view(STORED[data_type][0]).reshape(2, 4) == np.clip(numbers, least, most)).all()


def test_coordinates_that_are_no_places_read_nothing_but_the_image(header: HeaderFunctions) -> None:
    pixels = pixels_of("image2d_t", Order.RGBA, Type.UNORM_INT8, (8, 8))
    odd = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45]
    at = np.array(list(itertools.product(odd, odd)), np.float32)
    for sampler in samplers("f", is_float=True):
        found = header.read(pixels, sampler, at)
        assert ((found >= 0) | np.isnan(found)).all() and not (found > 1).any()
