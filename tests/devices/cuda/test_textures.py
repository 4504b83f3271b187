"""Textures over pixels in linear bytes: which there are, how long they live, what they filter."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from sdi.clc.cuda.translate import translate
from sdi.devices import copying
from sdi.devices.base import Device
from sdi.devices.cuda import textures
from sdi.devices.cuda.context import CudaContext, Kept
from sdi.devices.cuda.launch import filtered_images, parameter_block
from sdi.devices.cuda.memory import CudaBuffer
from sdi.devices.cuda.textures import Textures
from sdi.devices.handles import DeviceBuffer
from sdi.devices.image import ImageShape, LinearImage, Sampler
from sdi.wire.kernels import CUDA_IMAGE, texture_of
from sdi.wire.layout import layout
from sdi.wire.opencl import ChannelOrder, ChannelType, MemObjectType
from tests.clc.cuda.test_images import FORMATS
from tests.clc.image_functions import coordinates, modelled, pixels_of, samplers, suffix_of
from tests.devices.conftest import finish
from tests.devices.cuda.test_images import ITEMS, gpu, run

__all__ = ["gpu"]
EDGE, REPEATED = 2 | 32, 1 | 6 | 32
KERNEL = """
kernel void read(read_only image2d_t m, sampler_t s, global const float2 *at, global float4 *colors) {
  size_t i = get_global_id(0);
  colors[i] = read_imagef(m, s, at[i]);
}
"""


class Driver:
    """Makes texture objects, by their numbers."""

    def __init__(self) -> None:
        self.made: list[tuple[int, ...]] = []
        self.destroyed: list[int] = []
        self.status = 0

    def create(self, handle: Any, resource: Any, sampling: Any, view: None) -> int:
        r, s = resource._obj, sampling._obj
        self.made.append(
            (r.address, r.format, r.channels, r.width, r.height, r.pitch, s.address_modes[0], s.flags)
        )
        handle._obj.value = len(self.made)
        return self.status

    def destroy(self, handle: int) -> int:
        self.destroyed.append(handle)
        return 0


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """In place of CUDA's."""
    made = Driver()
    calls = SimpleNamespace(cuTexObjectCreate=made.create, cuTexObjectDestroy=made.destroy)
    monkeypatch.setattr(textures, "quick", lambda: calls)
    monkeypatch.setattr("sdi.devices.cuda.context.cuda_driver.quick", lambda: calls)
    monkeypatch.setattr(textures, "drv", SimpleNamespace(Error=RuntimeError))
    return made


def of_member() -> Textures:
    @contextmanager
    def pushed() -> Iterator[None]:
        yield

    return Textures(cast(CudaContext, SimpleNamespace(kept=Kept(), pushed=pushed)), "a GPU")


def picture(
    offset: int = 1024, pitch: int = 128, kind: int = ChannelType.UNORM_INT8, rows: int = 6
) -> LinearImage:
    shape = ImageShape(MemObjectType.IMAGE2D, ChannelOrder.RGBA, kind, 8, rows, 1, pitch, pitch * rows)
    return LinearImage(DeviceBuffer(CudaBuffer(None, 1 << 40, 1 << 20)), offset, shape)


def test_the_driver_takes_structures_of_these_sizes() -> None:
    assert (ctypes.sizeof(textures._Resource), textures._Resource.flags.offset) == (144, 136)
    assert (ctypes.sizeof(textures._Sampling), textures._Sampling.border.offset) == (104, 40)


def test_one_is_made_for_each_way_to_filter_and_used_while_a_kernel_names_it(driver: Driver) -> None:
    member = of_member()
    found = member.find([b"", picture(), picture()], {1: {EDGE, REPEATED}, 2: {EDGE}})
    assert found is not None
    handles = {n: [each.handle if each else 0 for each in some] for n, some in found.items()}
    assert sorted(handles[1]) == [0, 0, 0, 0, 1, 2] and handles[1][0] == handles[2][0] != 0
    assert handles[1][texture_of(REPEATED)] != 0
    common = (1024 + (1 << 40), 0x01, 4, 8, 6, 128)
    assert set(driver.made) == {(*common, 1, 0), (*common, 0, 2)}
    assert member.find([picture()], {0: {EDGE}}) is not None and len(driver.made) == 2
    del found
    gc.collect()
    assert member.find([picture(2048)], {0: {EDGE}}) is not None
    assert sorted(driver.destroyed) == [1, 2]


@pytest.mark.parametrize(
    "image",
    [
        picture(offset=1024 + 4),
        picture(pitch=132),
        picture(rows=65001),
    ],
    ids=["begins between", "rows begin between", "too many rows"],
)
def test_what_the_hardware_can_not_filter_kernels_do(driver: Driver, image: LinearImage) -> None:
    member = of_member()
    assert member.find([image, picture()], {0: {EDGE}, 1: {EDGE}}) is None
    integers = picture(kind=ChannelType.UNSIGNED_INT8)
    assert list(member.find([integers, picture()], {0: {EDGE}, 1: {EDGE}}) or ()) == [1]


def test_what_the_driver_refuses_is_said_once(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    monkeypatch.setattr(textures._log, "warning", lambda text, *given: said.append(text % given))
    member, driver.status = of_member(), 1
    for _ in range(2):
        assert member.find([picture()], {0: {EDGE}}) is None
    assert said == ["a GPU: kernels filter an image themselves: CUDA: cuTexObjectCreate failed with 1"]


def test_what_textures_may_filter_is_told_of_by_arguments() -> None:
    source = """
    constant sampler_t s = CLK_ADDRESS_CLAMP | CLK_FILTER_LINEAR;
    kernel void k(read_only image2d_t a, write_only image2d_t b, read_only image3d_t c, sampler_t given) {
      const sampler_t t = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_REPEAT | CLK_FILTER_NEAREST;
      float4 x = read_imagef(a, s, (float2)(1.0f)) + read_imagef(a, t, (float2)(1.0f));
      write_imagef(b, (int2)(0), x + read_imagef(c, given, (float4)(1.0f)));
    }
    """
    (first,) = translate(source, ()).kernels
    (second,) = translate(
        "kernel void k(read_only image2d_t a, int bits) { sampler_t s = bits; }", ()
    ).kernels
    shape = ImageShape(MemObjectType.IMAGE2D, ChannelOrder.R, ChannelType.FLOAT, 8, 6, 1, 32, 192)
    image = LinearImage(DeviceBuffer(CudaBuffer(None, 1 << 40, 1 << 20)), 0, shape)
    nearest, linear = Sampler(True, 0x1131, 0x1140), Sampler(True, 0x1134, 0x1141)
    assert filtered_images(first, [image, image, image, nearest]) == {0: {4 | 32}}
    assert filtered_images(first, [image, image, image, linear]) == {0: {4 | 32, 1 | 8 | 32}}
    assert {texture_of(bits) for bits in filtered_images(second, [image, bytes(4)])[0]} == set(range(6))
    block, _ = parameter_block(first, [image, image, image, linear], {0: [0, 7, 0, 0, 0, 9]})
    descriptions = [layout(CUDA_IMAGE).unpack_from(block, n * layout(CUDA_IMAGE).size) for n in range(3)]
    assert [each[9:15] for each in descriptions] == [(0, 7, 0, 0, 0, 9), (0,) * 6, (0,) * 6]


FLOATS = [form for form in FORMATS if suffix_of(form[1]) == "f"]


@pytest.mark.parametrize("width", [64, 33], ids=["by textures", "by kernels"])
@pytest.mark.parametrize("form", FLOATS, ids=lambda each: "{:x}-{:x}".format(*each))
def test_2d_images_in_a_buffer_are_filtered(gpu: Device, form: tuple[int, int], width: int) -> None:
    program = gpu.build(KERNEL, [])
    pixels = pixels_of("image2d_t", *form, (width, 21))
    has_textures = pixels.shape.row_pitch % 32 == 0
    begin = 3 * 512 if has_textures else 3 * pixels.shape.pixel_nbytes
    linear = gpu.allocate(begin + pixels.raw.nbytes)
    finish(copying.upload(gpu, memoryview(pixels.raw), linear, begin, []))
    image = LinearImage(linear, begin, pixels.shape)
    # The hardware's weights have eight bits.
    most = np.abs(pixels.values()).max()
    for sampler in samplers("f", True):
        if sampler.filter == 0x1140:
            continue
        at = coordinates(pixels, sampler, True, ITEMS)
        found = np.zeros((ITEMS, 4), np.float32)
        run(gpu, program, "read", [image, sampler], at, found)
        off = np.abs(found - modelled(pixels, sampler, at)).max()
        assert off <= (0.02 if has_textures else 3e-6) * most, sampler
        assert off > 1e-5 * most or not has_textures, "weights are exact: no texture filters"
    gpu.free(linear)
