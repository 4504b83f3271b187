"""Image shapes, and members' images against linear bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sdi.devices import copying
from sdi.devices.base import Device
from sdi.devices.image import ImageShape, LinearImage, Sampler, Slabs, is_known_format, pixel_nbytes
from sdi.errors import ClError, DeviceLost, Status
from sdi.intervals import ByteRange
from sdi.wire.opencl import ChannelOrder as Order
from sdi.wire.opencl import ChannelType as Type
from sdi.wire.opencl import MemObjectType as Kind
from tests.devices.conftest import finish
from tests.devices.testing.faulty import LosingDevice

SIZES = {
    Kind.IMAGE1D: (9, 1, 1),
    Kind.IMAGE1D_BUFFER: (9, 1, 1),
    Kind.IMAGE2D: (9, 5, 1),
    Kind.IMAGE1D_ARRAY: (9, 5, 1),
    Kind.IMAGE2D_ARRAY: (9, 5, 3),
    Kind.IMAGE3D: (9, 5, 3),
}


def shape_of(
    kind: int, gap: int = 0, order: int = Order.RGBA, data_type: int = Type.UNSIGNED_INT8
) -> ImageShape:
    width, rows, planes = SIZES[kind]
    row = width * pixel_nbytes(order, data_type) + gap
    return ImageShape(kind, order, data_type, width, rows, planes, row, row * rows + gap * 2)


def offsets_of(shape: ImageShape, slabs: Slabs) -> list[int]:
    """Every byte of some slabs' pixels, by the definition."""
    places = (range(shape.planes), range(shape.rows), range(shape.row_nbytes))
    found = []
    for plane, row, byte in itertools.product(*places):
        slab = (byte // shape.pixel_nbytes, row, plane)[shape.axis]
        if slabs.start <= slab < slabs.stop:
            found.append(plane * shape.plane_pitch + row * shape.row_pitch + byte)
    return found


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("gap", [0, 4])
def test_slabs_name_the_bytes_of_their_pixels(kind: int, gap: int) -> None:
    shape = shape_of(kind, gap)
    assert shape.nbytes == len(offsets_of(shape, Slabs(0, shape.num_slabs)))
    for start in range(shape.num_slabs):
        for stop in range(start + 1, shape.num_slabs + 1):
            expected = offsets_of(shape, Slabs(start, stop))
            over = shape.bytes_of(Slabs(start, stop))
            assert (over.start, over.stop) == (min(expected), max(expected) + 1)
            assert shape.slabs_of(over) == Slabs(start, stop)
            assert shape.slabs_of(ByteRange(over.start, over.start + 1)) == Slabs(start, start + 1)
    assert shape.bytes_of(Slabs(0, shape.num_slabs)) == ByteRange(0, shape.span_nbytes)


@pytest.mark.parametrize(
    "values",
    [
        (0x10F0, Order.RGBA, Type.FLOAT, 4, 4, 1, 64, 256),
        (Kind.IMAGE2D, 1, Type.FLOAT, 4, 4, 1, 64, 256),
        (Kind.IMAGE2D, Order.RGBA, 0x10D4, 4, 4, 1, 64, 256),
        (Kind.IMAGE2D, Order.RGBA, Type.FLOAT, 0, 4, 1, 64, 256),
        (Kind.IMAGE2D, Order.RGBA, Type.FLOAT, 4, 4, 2, 64, 256),
        (Kind.IMAGE1D, Order.RGBA, Type.FLOAT, 4, 2, 1, 64, 128),
        (Kind.IMAGE2D, Order.RGBA, Type.FLOAT, 4, 4, 1, 63, 256),
        (Kind.IMAGE3D, Order.RGBA, Type.FLOAT, 4, 4, 2, 64, 255),
    ],
)
def test_what_is_no_image_is_refused(values: tuple[int, int, int, int, int, int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"image|pitches|planes"):
        ImageShape(*values)


def test_what_is_no_sampler_is_refused() -> None:
    for modes in ((0x112F, 0x1140), (0x1135, 0x1140), (0x1130, 0x1142)):
        with pytest.raises(ValueError, match="sampler"):
            Sampler(True, *modes)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("gap", [0, 4])
def test_pixels_come_back_and_bytes_between_rows_stay(member: Device, kind: int, gap: int) -> None:
    shape = shape_of(kind, gap)
    nbytes = shape.span_nbytes
    random = np.random.default_rng(kind)
    first, second = random.integers(0, 256, (2, nbytes + 64), np.uint8)
    source, target = member.allocate(nbytes + 64), member.allocate(nbytes + 64)
    picture = member.allocate(shape)
    before = member.memory.in_use
    waits = [
        copying.upload(member, memoryview(first), source, 0, []),
        copying.upload(member, memoryview(second), target, 0, []),
    ]
    waits = [copying.to_image(member, source, 32, picture, shape, Slabs(0, shape.num_slabs), waits)]
    slabs = Slabs(shape.num_slabs // 2, shape.num_slabs)
    # The bytes begin in the middle of the image: the first pixel would lie before the buffer.
    skipped = shape.bytes_of(slabs).start
    waits = [copying.from_image(member, picture, shape, slabs, target, 16 - skipped, waits)]
    found = np.zeros_like(second)
    finish(copying.download(member, target, 0, memoryview(found), waits))
    expected = second.copy()
    for at in offsets_of(shape, slabs):
        expected[at - skipped + 16] = first[at + 32]
    assert (found == expected).all()
    member.free(picture)
    assert member.memory.in_use == before - shape.nbytes


LOOK = """
kernel void look(read_only TYPE from, write_only TYPE to, global uint4 *seen, int skipped) {
    int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2) + skipped;
    uint4 value = read_imageui(from, AT);
    seen[((z - skipped) * get_global_size(1) + y) * get_global_size(0) + x] = value;
    write_imageui(to, AT, value + (uint4)(1, x, y, z));
}
"""
TYPES = {
    Kind.IMAGE1D: ("image1d_t", "x"),
    Kind.IMAGE1D_BUFFER: ("image1d_buffer_t", "x"),
    Kind.IMAGE2D: ("image2d_t", "(int2)(x, y)"),
    Kind.IMAGE1D_ARRAY: ("image1d_array_t", "(int2)(x, y)"),
    Kind.IMAGE2D_ARRAY: ("image2d_array_t", "(int4)(x, y, z, 0)"),
    Kind.IMAGE3D: ("image3d_t", "(int4)(x, y, z, 0)"),
}


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("rows_between", [0, 2])
def test_kernels_use_pixels_where_they_lie(member: Device, kind: int, rows_between: int) -> None:
    """Also where the first planes, which the kernel does not use, would lie before the buffer."""
    if not member.capabilities.has_linear_images:
        pytest.skip("its images are objects of the driver's")
    (width, rows, planes), pitch = SIZES[kind], 4 * SIZES[kind][0] + 4 * rows_between
    shape = ImageShape(
        kind, Order.RGBA, Type.UNSIGNED_INT8, width, rows, planes, pitch, pitch * (rows + rows_between)
    )
    skipped = planes - 1
    before = np.random.default_rng(kind).integers(0, 200, (2, shape.span_nbytes + 64), np.uint8)
    expected, seen = before[1].copy(), np.zeros((rows, width, 4), np.uint32)
    for y in range(rows):
        at = 16 + y * pitch
        pixels = before[0][at : at + 4 * width].reshape(width, 4)
        more = np.array([[1, x, y, skipped] for x in range(width)], np.uint8)
        expected[at : at + 4 * width] = (pixels + more).ravel()
        seen[y] = pixels
    buffers = [member.allocate(each.nbytes) for each in before]
    ready = [
        copying.upload(member, memoryview(data), buffer, 0, [])
        for data, buffer in zip(before, buffers, strict=True)
    ]
    result = member.allocate(seen.nbytes)
    name, at_ = TYPES[kind]
    program = member.build(LOOK.replace("TYPE", name).replace("AT", at_), [])
    images = [LinearImage(buffer, 16 - skipped * shape.plane_pitch, shape) for buffer in buffers]
    arguments = [*images, result, np.int32(skipped).tobytes()]
    found, told = np.zeros_like(seen), np.zeros_like(expected)
    for _ in range(2):  # the second time the member knows the views
        bound = member.bind(program, "look", arguments)
        done = member.launch(bound, (width, rows, 1), (1, 1, 1), 3, ready)
        finish(copying.download(member, result, 0, memoryview(found).cast("B"), [done]))
        finish(copying.download(member, buffers[1], 0, memoryview(told), [done]))
        np.testing.assert_array_equal(found, seen)
        np.testing.assert_array_equal(told, expected)


READ = """
kernel void look(read_only image2d_t image, sampler_t s, global float4 *result) {
  result[get_global_id(0)] = read_imagef(image, s, (float2)(get_global_id(0) - 1.5f, 0.5f));
}
"""


def test_kernels_take_images_and_samplers(member: Device) -> None:
    shape = ImageShape(Kind.IMAGE2D, Order.R, Type.FLOAT, 4, 2, 1, 16, 32)
    pixels = np.arange(8, dtype=np.float32) + 1
    buffer, result = member.allocate(32), member.allocate(8 * 16)
    picture = member.allocate(shape)
    ready = copying.to_image(
        member,
        buffer,
        0,
        picture,
        shape,
        Slabs(0, 2),
        [copying.upload(member, memoryview(pixels).cast("B"), buffer, 0, [])],
    )
    program = member.build(READ, [])
    found = np.zeros((8, 4), np.float32)
    for addressing, edges in ((0x1131, (1, 4)), (0x1132, (0, 0))):
        bound = member.bind(program, "look", [picture, Sampler(False, addressing, 0x1140), result])
        done = member.launch(bound, (8, 1, 1), (1, 1, 1), 1, [ready])
        finish(copying.download(member, result, 0, memoryview(found).cast("B"), [done]))
        assert list(found[:, 0]) == [edges[0], edges[0], 1, 2, 3, 4, edges[1], edges[1]]


def test_an_image_beyond_the_members_memory_is_refused(member: Device) -> None:
    wide = member.capabilities.memory_nbytes // 4 + 1
    shape = ImageShape(Kind.IMAGE1D_BUFFER, Order.R, Type.FLOAT, wide, 1, 1, wide * 4, wide * 4)
    with pytest.raises(ClError) as caught:
        member.allocate(shape)
    assert caught.value.status == Status.MEM_OBJECT_ALLOCATION_FAILURE


def test_a_member_lists_its_formats_by_use(member: Device) -> None:
    uses = member.capabilities.formats[Order.RGBA, Type.UNORM_INT8]
    for kind in SIZES:
        for access in range(3):
            assert uses >> (4 * (kind - Kind.IMAGE2D) + access) & 1
    assert all(is_known_format(*key) for key in member.capabilities.formats)


def test_a_lost_member_makes_no_image(member: Device) -> None:
    losing = LosingDevice(member, 0)
    buffer = losing.allocate(64)
    with pytest.raises(DeviceLost):
        finish(losing.fill(buffer, 0, 64, b"a", []))
    with pytest.raises(DeviceLost):
        losing.allocate(shape_of(Kind.IMAGE2D))
    member.free(buffer)
