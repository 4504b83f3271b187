"""Image shapes, and members' images against linear bytes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sdi.devices import copying
from sdi.devices.base import Device
from sdi.devices.image import ImageShape, Sampler, Slabs, is_known_format, pixel_nbytes
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
