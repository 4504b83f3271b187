"""What kernels on a GPU read from images and write to them, against the specification."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from sdi.clc.cuda.translate import translate
from sdi.devices import copying
from sdi.devices.base import BoundArgument, Device
from sdi.devices.cuda.gpu import cuda_devices
from sdi.devices.cuda.images import CudaImage
from sdi.devices.cuda.launch import parameter_block
from sdi.devices.cuda.member import CudaDevice
from sdi.devices.cuda.memory import CudaBuffer
from sdi.devices.handles import DeviceBuffer, DeviceProgram
from sdi.devices.image import ImageShape, LinearImage, Sampler, Slabs
from sdi.wire.kernels import CUDA_IMAGE
from sdi.wire.layout import layout
from sdi.wire.opencl import ChannelOrder, ChannelType, MemObjectType
from tests.clc.cuda.test_images import FORMATS, INSIDE, SIZES
from tests.clc.image_functions import (
    DIMENSIONS,
    RESULTS,
    Array,
    Pixels,
    coordinate_width,
    coordinates,
    modelled,
    pixels_of,
    samplers,
    suffix_of,
)
from tests.devices.conftest import finish

ITEMS = 640
_TYPES = {"f": "float", "i": "int", "ui": "uint"}
_KERNELS = """
kernel void read_SUFFIX_COORD(read_only KIND m, sampler_t s, global const COORD *at, global TYPE4 *colors) {
  size_t i = get_global_id(0);
  colors[i] = read_imageSUFFIX(m, s, at[i]);
}
"""
_WRITES = """
kernel void write_SUFFIX(write_only KIND m, global const INT *at, global const TYPE4 *colors) {
  size_t i = get_global_id(0);
  write_imageSUFFIX(m, at[i], colors[i]);
}
kernel void plain_SUFFIX(read_only KIND m, global const INT *at, global TYPE4 *colors) {
  size_t i = get_global_id(0);
  colors[i] = read_imageSUFFIX(m, at[i]);
}
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Device]:
    """A member on the first GPU."""
    found = cuda_devices()
    if not found:
        pytest.skip("no CUDA GPU, or pycuda or NVRTC is not installed")
    member = CudaDevice(found[0], 0, 1 << 30)
    yield member
    member.close()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("sdi-")]


@pytest.fixture(scope="module", params=list(DIMENSIONS))
def built(gpu: Device, request: pytest.FixtureRequest) -> tuple[str, DeviceProgram]:
    """A kind of image, and kernels that read and write it."""
    kind = request.param
    width = str(coordinate_width(kind)).removeprefix("1")
    text = "#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable\n"
    for suffix, name in _TYPES.items():
        body = "".join(_KERNELS.replace("COORD", f"{c}{width}") for c in ("int", "float")) + _WRITES
        body = body.replace("SUFFIX", suffix).replace("KIND", kind).replace("INT", f"int{width}")
        text += body.replace("TYPE", name)
    return kind, gpu.build(text, [])


def put(gpu: Device, pixels: Pixels) -> DeviceBuffer:
    """An image of these pixels."""
    linear = gpu.allocate(pixels.raw.nbytes)
    picture = gpu.allocate(pixels.shape)
    sent = copying.upload(gpu, memoryview(pixels.raw), linear, 0, [])
    finish(copying.to_image(gpu, linear, 0, picture, pixels.shape, Slabs(0, pixels.shape.num_slabs), [sent]))
    gpu.free(linear)
    return picture


def taken(gpu: Device, picture: DeviceBuffer, pixels: Pixels) -> Pixels:
    """What is in it now."""
    found = Pixels(pixels.kind, pixels.shape, np.zeros_like(pixels.raw))
    linear = gpu.allocate(pixels.raw.nbytes)
    got = copying.from_image(gpu, picture, pixels.shape, Slabs(0, pixels.shape.num_slabs), linear, 0, [])
    finish(copying.download(gpu, linear, 0, memoryview(found.raw), [got]))
    gpu.free(linear)
    return found


def run(gpu: Device, program: DeviceProgram, name: str, first: list[BoundArgument], *arrays: Array) -> None:
    """Run a kernel whose last arguments are ``arrays``; the last of those comes back."""
    buffers = [gpu.allocate(array.nbytes) for array in arrays]
    for buffer, array in zip(buffers, arrays, strict=True):
        finish(copying.upload(gpu, memoryview(array).cast("B"), buffer, 0, []))
    bound = gpu.bind(program, name, [*first, *buffers])
    done = gpu.launch(bound, (len(arrays[0]), 1, 1), (1, 1, 1), 1, [])
    finish(copying.download(gpu, buffers[-1], 0, memoryview(arrays[-1]).cast("B"), [done]))
    for buffer in buffers:
        gpu.free(buffer)


@pytest.mark.parametrize("form", FORMATS, ids=lambda each: "{:x}-{:x}".format(*each))
def test_kernels_read_what_the_specification_says(
    gpu: Device, built: tuple[str, DeviceProgram], form: tuple[int, int]
) -> None:
    kind, program = built
    width = str(coordinate_width(kind)).removeprefix("1")
    pixels = pixels_of(kind, *form, SIZES[kind])
    picture = put(gpu, pixels)
    suffix = suffix_of(form[1])
    wrong = []
    for is_float in (False, True):
        name = f"read_{suffix}_{'float' if is_float else 'int'}{width}"
        for sampler in samplers(suffix, is_float):
            at = coordinates(pixels, sampler, is_float, ITEMS)
            found = np.zeros((ITEMS, 4), RESULTS[suffix])
            run(gpu, program, name, [picture, sampler], at, found)
            wanted = modelled(pixels, sampler, at)
            off = np.abs(found - wanted) > 3e-6 * np.abs(pixels.values()).max()
            if sampler.filter == 0x1140:
                off = found != (wanted.astype(np.float32) if suffix == "f" else wanted)
            places = np.flatnonzero(off.any(1))
            if places.size:
                one = int(places[0])
                wrong.append(f"{sampler}, {places.size}: {at[one]} gives {found[one]}, not {wanted[one]}")
    gpu.free(picture)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("form", FORMATS, ids=lambda each: "{:x}-{:x}".format(*each))
def test_kernels_write_what_they_read(
    gpu: Device, built: tuple[str, DeviceProgram], form: tuple[int, int]
) -> None:
    kind, program = built
    source, target = (pixels_of(kind, *form, SIZES[kind], seed=seed) for seed in (3, 4))
    pictures = [put(gpu, source), put(gpu, target)]
    suffix = suffix_of(form[1])
    at = coordinates(source, Sampler(False, 0x1132, 0x1140), False, ITEMS)
    colors = np.zeros((ITEMS, 4), RESULTS[suffix])
    run(gpu, program, f"plain_{suffix}", [pictures[0]], at, colors)
    size = np.array(source.size)
    inside = ((at[:, : size.size] >= 0) & (at[:, : size.size] < size)).all(1)
    wanted = modelled(source, INSIDE, at)[inside]
    assert (colors[inside] == (wanted.astype(np.float32) if suffix == "f" else wanted)).all()
    run(gpu, program, f"write_{suffix}", [pictures[1]], at, colors)
    # Places in the image have the source's pixel now, all others what they had; outside nothing is written.
    places = np.zeros((int(inside.sum()), 3), int)
    places[:, : size.size] = at[inside][:, : size.size]
    expected = target.values()
    x, y, z = places.T
    expected[z, y, x] = source.values()[z, y, x]
    assert inside.any() and not inside.all()
    assert (taken(gpu, pictures[1], target).values() == expected).all()
    for picture in pictures:
        gpu.free(picture)


def test_an_image_in_a_buffer_begins_and_goes_on_where_that_says() -> None:
    (kernel,) = translate("kernel void k(read_only image3d_t from) {}", ()).kernels
    buffer = CudaBuffer(None, 1 << 40, 1 << 20)
    kind = (MemObjectType.IMAGE3D, ChannelOrder.RGBA, ChannelType.FLOAT)
    dense = ImageShape(*kind, 8, 6, 4, 8 * 16, 8 * 16 * 6)
    alone, _ = parameter_block(kernel, [DeviceBuffer(CudaImage(buffer, dense))])
    assert parameter_block(kernel, [LinearImage(DeviceBuffer(buffer), 0, dense)])[0] == alone
    apart = replace(dense, row_pitch=10 * 16, plane_pitch=10 * 16 * 7)
    block, _ = parameter_block(kernel, [LinearImage(DeviceBuffer(buffer), -512, apart)])
    pixels, plane_pitch, row_pitch, *rest = layout(CUDA_IMAGE).unpack(block)
    assert (pixels, plane_pitch, row_pitch) == ((1 << 40) - 512, 1120, 160)
    assert rest == list(layout(CUDA_IMAGE).unpack(alone))[3:]
    far = replace(apart, row_pitch=1 << 32, plane_pitch=6 << 32)
    with pytest.raises(ValueError, match="rows of"):
        parameter_block(kernel, [LinearImage(DeviceBuffer(buffer), 0, far)])
