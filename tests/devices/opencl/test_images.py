"""Arrays of rows of pixels on a driver that does not copy them to buffers and back."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

from sdi.devices.image import ImageShape
from sdi.devices.opencl import images
from sdi.devices.opencl.member import DriverDevice
from sdi.wire.opencl import ChannelOrder, ChannelType, MemObjectType

WIDTH, LAYERS = 5, 3


def shape(row_pitch: int) -> ImageShape:
    kind = MemObjectType.IMAGE1D_ARRAY
    order, data_type = ChannelOrder.RGBA, ChannelType.UNSIGNED_INT8
    return ImageShape(kind, order, data_type, WIDTH, LAYERS, 1, row_pitch, row_pitch * LAYERS)


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked = list[str]()
    for name in ("_enqueue_copy_buffer_to_image", "_enqueue_copy_image_to_buffer"):

        def refuse(*_given: object, name: str = name) -> cl.Event:
            asked.append(name)
            raise cl.LogicError(name, cl.status_code.INVALID_VALUE, "")

        monkeypatch.setattr(images._cl, name, refuse)
    return asked


@pytest.mark.parametrize("row_pitch", [4 * WIDTH, 4 * WIDTH + 12])
def test_they_go_through_the_host(driver: DriverDevice, refusals: list[str], row_pitch: int) -> None:
    context = cl.Context([driver.handle])
    queue = cl.CommandQueue(context)
    layout = shape(row_pitch)
    image = images.new_image(context, layout)
    data = np.random.default_rng(3).integers(1, 256, layout.plane_pitch, np.uint8)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    there, back = (cl.Buffer(context, flags, hostbuf=each) for each in (data, np.zeros_like(data)))
    slabs = layout.slabs_of(range(layout.plane_pitch))
    images.copy_pixels(queue, image, slabs, there, 0, True)
    images.copy_pixels(queue, image, slabs, back, 0, False).wait()
    found = np.zeros_like(data)
    cl.enqueue_copy(queue, found, back)
    pixels = (slice(None), slice(4 * WIDTH))
    assert np.array_equal(found.reshape(LAYERS, -1)[pixels], data.reshape(LAYERS, -1)[pixels])
    assert len(set(refusals)) == 2


def test_other_images_are_refused_as_the_driver_says(driver: DriverDevice, refusals: list[str]) -> None:
    context = cl.Context([driver.handle])
    order, data_type = ChannelOrder.RGBA, ChannelType.UNSIGNED_INT8
    layout = ImageShape(MemObjectType.IMAGE2D, order, data_type, 4, 4, 1, 16, 64)
    image = images.new_image(context, layout)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, layout.nbytes)
    slabs = layout.slabs_of(range(layout.nbytes))
    with pytest.raises(cl.LogicError):
        images.copy_pixels(cl.CommandQueue(context), image, slabs, buffer, 0, True)
    assert refusals
