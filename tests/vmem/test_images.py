"""Opaque copies of images on members: what is set from linear bytes, what is brought back, and when."""

from __future__ import annotations

from dataclasses import replace

from sdi.devices import copying
from sdi.devices.image import ImageShape, Slabs
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.region import Region
from sdi.regions import RegionSet
from sdi.vmem.buffer import ImageView
from sdi.vmem.directory import HOST
from sdi.vmem.images import _slabs
from sdi.wire.opencl import ChannelOrder, ChannelType, MemObjectType
from tests.vmem.conftest import FOR, MakeRig, noise

ROW = 256
SHAPE = ImageShape(MemObjectType.IMAGE2D, ChannelOrder.RGBA, ChannelType.UNORM_INT8, 64, 64, 1, ROW, 64 * ROW)
VIEW = ImageView(0, SHAPE)
WHOLE = RegionSet((ByteRange(0, 64 * ROW),))


def test_only_what_is_old_in_a_copy_is_set_and_what_was_written_there_comes_back(rig: MakeRig) -> None:
    made = rig(2)
    data = noise(64 * ROW)
    buffer, memory = made.buffer(data), made.memory
    events, images = memory.accounting.events, memory.images
    made.reserve((buffer, 0, buffer.whole), images=[(buffer, 0, VIEW)])
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    images.refresh(buffer, 0, VIEW, WHOLE, False, FOR)
    images.refresh(buffer, 0, VIEW, WHOLE, False, FOR)
    assert events.image_refreshed_nbytes == 64 * ROW, "the second time nothing is old"
    made.write(buffer, 10 * ROW, b"\1" * ROW)
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    images.refresh(buffer, 0, VIEW, WHOLE, False, FOR)
    assert events.image_refreshed_nbytes == 65 * ROW

    # As a kernel that writes two rows of the opaque copy.
    device, copy = made.devices[0], buffer.images[0, VIEW]
    pixels = made.buffer(b"\7" * (64 * ROW))
    made.fetch(pixels, 0, pixels.whole, same_undefined=False)
    waits = [*copy.dependencies.before_write(VIEW.over), *pixels.dependencies[1].before_read(pixels.whole)]
    there = memory.memories.allocation(pixels, 0).device_buffer
    made.wait(copying.to_image(device, there, 0, copy.device_image, SHAPE, Slabs(20, 22), waits))
    written = RegionSet((ByteRange(20 * ROW, 22 * ROW),))
    tickets: list[Ticket] = images.write_back(buffer, 0, VIEW, written, False, FOR)
    buffer.directory.wrote(1, written.runs()[0])
    images.is_current(buffer, 0, VIEW, written)
    made.wait(*tickets)
    assert events.image_written_nbytes == 2 * ROW
    expected = bytearray(data)
    expected[10 * ROW : 11 * ROW] = b"\1" * ROW
    expected[20 * ROW : 22 * ROW] = b"\7" * (2 * ROW)
    assert made.read(buffer) == expected
    images.refresh(buffer, 0, VIEW, WHOLE, False, FOR)
    assert events.image_refreshed_nbytes == 65 * ROW, "what it wrote itself need not be set"
    buffer.directory.wrote(HOST, ByteRange(20 * ROW, 21 * ROW))
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    images.refresh(buffer, 0, VIEW, WHOLE, False, FOR)
    assert events.image_refreshed_nbytes == 66 * ROW


def test_an_image_shows_all_rows_of_which_columns_and_then_one_pixel_were_written(rig: MakeRig) -> None:
    made = rig(2)
    data = bytearray(noise(64 * ROW))
    buffer, memory = made.buffer(bytes(data)), made.memory
    made.reserve((buffer, 0, buffer.whole), images=[(buffer, 0, VIEW)])
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    memory.images.refresh(buffer, 0, VIEW, WHOLE, False, FOR)
    written = [(row * ROW, b"\1" * 32) for row in range(64)] + [(10 * ROW + 128, b"\2" * 4)]
    for at, values in written:
        data[at : at + len(values)] = values
        made.write(buffer, at, values)
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    memory.images.refresh(buffer, 0, VIEW, WHOLE, False, FOR)
    tickets = memory.images.write_back(buffer, 0, VIEW, WHOLE, False, FOR)  # what the image shows
    buffer.directory.wrote(1, buffer.whole)
    made.wait(*tickets)
    assert made.read(buffer) == bytes(data)


def test_rows_that_are_apart_are_slabs_that_are_apart() -> None:
    rows = Region(0, 64, ((8 * ROW, 3),))
    assert _slabs(VIEW, [rows]) == [Slabs(0, 1), Slabs(8, 9), Slabs(16, 17)]
    assert _slabs(VIEW, [Region(0, 32, ((ROW, 64),)), ByteRange(10 * ROW + 128, 10 * ROW + 132)]) == [
        Slabs(0, 64)
    ]


def test_members_whose_kernels_use_linear_bytes_have_no_copies(rig: MakeRig) -> None:
    made = rig(2)
    memory, images = made.memory, made.memory.images
    for device, has_linear_images in zip(made.devices, (True, False), strict=True):
        device.capabilities = replace(device.capabilities, has_linear_images=has_linear_images)
    assert [images.is_copied(member, VIEW) for member in (0, 1)] == [False, True]
    assert images.is_copied_anywhere((0, 1), VIEW) and not images.is_copied_anywhere((0,), VIEW)
    crooked = ImageView(0, replace(SHAPE, row_pitch=ROW + 2, plane_pitch=64 * (ROW + 2)))
    assert images.is_copied(0, ImageView(2, SHAPE)) and images.is_copied(0, crooked), "pixels are not aligned"
    far = ImageView(0, replace(SHAPE, row_pitch=1 << 32, plane_pitch=1 << 38))
    assert images.is_copied(0, far)
    buffer = made.buffer(bytes(64 * ROW))
    made.reserve((buffer, 0, ByteRange(32 * ROW, 64 * ROW)))
    allocation = memory.memories.allocation(buffer, 0)
    found = images.linear(buffer, 0, VIEW, False)
    assert (found.buffer, found.offset) == (allocation.device_buffer, -allocation.over.start)
    assert found.offset < 0 and found.shape is SHAPE
