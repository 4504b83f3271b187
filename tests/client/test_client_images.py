"""Programs about images and samplers (see test_client.py); test_client_service has the device's limits."""

from __future__ import annotations

import ctypes
import struct
from ctypes import byref, c_size_t, c_uint32, c_void_p

from tests.client.test_client_binding import (
    COPY_HOST_PTR,
    HOST_NO_ACCESS,
    HOST_READ_ONLY,
    INVALIDATE,
    READ,
    READ_ONLY,
    READ_WRITE,
    USE_HOST_PTR,
    WRITE,
    WRITE_ONLY,
    Cl,
    handles,
    sizes,
)

IMAGE2D, IMAGE3D, IMAGE2D_ARRAY, IMAGE1D, IMAGE1D_ARRAY, IMAGE1D_BUFFER = range(0x10F1, 0x10F7)
RGBA, BGRA, R = 0x10B5, 0x10B6, 0x10B0
UNORM8, FLOAT, UINT32, SNORM16 = 0x10D2, 0x10DE, 0x10DC, 0x10D1
DATA = bytes(range(256)) * 16
MAPPED_TWICE = -59


def layout(order: int, data_type: int) -> object:
    """A cl_image_format."""
    return (c_uint32 * 2)(order, data_type)


def described(
    kind: int,
    width: int = 0,
    height: int = 0,
    depth: int = 0,
    layers: int = 0,
    row_pitch: int = 0,
    slice_pitch: int = 0,
    levels: int = 0,
    samples: int = 0,
    source: int = 0,
) -> object:
    """A cl_image_desc."""
    numbers = (kind, width, height, depth, layers, row_pitch, slice_pitch, levels, samples, source)
    return ctypes.create_string_buffer(struct.pack("<I4x6Q2IQ", *numbers))


def image(
    cl: Cl, context: int, kind: int, *shape: int, flags: int = 0, host: object = None, **more: int
) -> int:
    """An image of RGBA bytes."""
    return cl.make(
        "clCreateImage", context, flags, layout(RGBA, UNORM8), described(kind, *shape, **more), host
    )


def formats(cl: Cl, context: int, flags: int, kind: int) -> list[tuple[int, int]]:
    """What clGetSupportedImageFormats lists."""
    num = c_uint32()
    cl.check(cl.clGetSupportedImageFormats(context, flags, kind, 0, None, byref(num)))
    found = (c_uint32 * (2 * num.value))()
    if num.value:
        cl.check(cl.clGetSupportedImageFormats(context, flags, kind, num.value, found, None))
    return list(zip(found[::2], found[1::2], strict=True))


def images_and_samplers_that_the_device_lacks_are_refused(cl: Cl) -> None:
    context = cl.context()
    queue, buffer, num = cl.queue(context), cl.buffer(context, 64), c_uint32(7)
    assert cl.clGetSupportedImageFormats(context, READ_WRITE, IMAGE2D, 0, None, byref(num)) == 0
    assert num.value == 0
    what = layout(RGBA, UNORM8)
    assert cl.code("clCreateImage", context, 0, what, described(IMAGE2D, 4, 4), None) == -59
    assert cl.code("clCreateImage", buffer, 0, what, described(IMAGE2D, 4, 4), None) == -34
    assert cl.code("clCreateImageWithProperties", context, None, 0, what, what, None) == -59
    assert cl.code("clCreateImage2D", context, 0, what, 4, 4, 0, None) == -59
    assert cl.code("clCreateImage3D", context, 0, what, 4, 4, 4, 0, 0, None) == -59
    assert cl.code("clCreateSampler", context, 0, 0x1130, 0x1140) == -59
    assert cl.code("clCreateSamplerWithProperties", context, None) == -59
    assert cl.clGetImageInfo(buffer, 0x1110, 0, None, None) == -38
    assert cl.clEnqueueReadImage(queue, buffer, 1, None, None, 0, 0, None, 0, None, None) == -38


def formats_are_listed_by_kind_and_access(cl: Cl) -> None:
    context = cl.context()
    every = [(RGBA, UNORM8), (R, FLOAT), (RGBA, UINT32), (BGRA, SNORM16)]
    assert formats(cl, context, READ_WRITE, IMAGE2D) == every[:2]
    assert formats(cl, context, 0, IMAGE3D) == every[:2]
    assert formats(cl, context, WRITE_ONLY, IMAGE1D_BUFFER) == every[:2]
    assert formats(cl, context, READ_ONLY, IMAGE1D_BUFFER) == every
    assert formats(cl, context, 1 << 12, IMAGE2D_ARRAY) == every[:2]
    one, num = (c_uint32 * 4)(), c_uint32()
    cl.check(cl.clGetSupportedImageFormats(context, READ_ONLY, IMAGE2D, 1, one, byref(num)))
    assert (list(one), num.value) == ([RGBA, UNORM8, 0, 0], len(every))
    for what in every:
        cl.make("clCreateImage", context, READ_ONLY, layout(*what), described(IMAGE2D, 4, 4), None)
    assert cl.clGetSupportedImageFormats(None, READ_ONLY, IMAGE2D, 1, one, None) == -34
    assert cl.clGetSupportedImageFormats(context, READ_ONLY, 0x10F0, 1, one, None) == -30
    assert cl.clGetSupportedImageFormats(context, READ_ONLY, 0x10F7, 1, one, None) == -30
    assert cl.clGetSupportedImageFormats(context, READ_ONLY | WRITE_ONLY, IMAGE2D, 1, one, None) == -30
    assert cl.clGetSupportedImageFormats(context, READ_ONLY, IMAGE2D, 0, one, None) == -30
    assert cl.clGetDeviceInfo(cl.device(), 0x80000001, 0, None, None) == -30  # the client's own fact


def images_answer_what_they_are(cl: Cl) -> None:
    context = cl.context()
    host = ctypes.create_string_buffer(1 << 16)
    buffer = cl.buffer(context, 4096)
    cases = [
        (IMAGE1D, {"width": 9}, (36, 0, 9, 0, 0, 0), 36),
        (IMAGE1D_BUFFER, {"width": 9, "source": buffer}, (36, 0, 9, 0, 0, 0), 36),
        (IMAGE2D, {"width": 9, "height": 5}, (36, 0, 9, 5, 0, 0), 180),
        (IMAGE2D, {"width": 9, "height": 5, "source": buffer}, (36, 0, 9, 5, 0, 0), 180),
        (IMAGE2D, {"width": 9, "height": 5, "source": buffer, "row_pitch": 44}, (44, 0, 9, 5, 0, 0), 220),
        (IMAGE2D, {"width": 9, "height": 5, "row_pitch": 40}, (40, 0, 9, 5, 0, 0), 200),
        (IMAGE1D_ARRAY, {"width": 9, "layers": 5}, (36, 36, 9, 0, 0, 5), 180),
        (IMAGE1D_ARRAY, {"width": 9, "layers": 5, "slice_pitch": 72}, (36, 72, 9, 0, 0, 5), 360),
        (IMAGE2D_ARRAY, {"width": 9, "height": 5, "layers": 3}, (36, 180, 9, 5, 0, 3), 540),
        (IMAGE3D, {"width": 9, "height": 5, "depth": 3}, (36, 180, 9, 5, 3, 0), 540),
        (
            IMAGE3D,
            {"width": 9, "height": 5, "depth": 3, "row_pitch": 40, "slice_pitch": 240},
            (40, 240, 9, 5, 3, 0),
            720,
        ),
    ]
    for kind, shape, expected, nbytes in cases:
        pitched = ("row_pitch" in shape or "slice_pitch" in shape) and "source" not in shape
        made = image(
            cl, context, kind, flags=COPY_HOST_PTR if pitched else 0, host=host if pitched else None, **shape
        )
        assert cl.info("clGetImageInfo", made, 0x1110) == struct.pack("<2I", RGBA, UNORM8)
        assert cl.number("clGetImageInfo", made, 0x1111) == 4
        params = (0x1112, 0x1113, 0x1114, 0x1115, 0x1116, 0x1117)
        assert tuple(cl.number("clGetImageInfo", made, p) for p in params) == expected, shape
        assert cl.number("clGetImageInfo", made, 0x1118) == shape.get("source", 0)
        assert cl.number("clGetImageInfo", made, 0x1119) == cl.number("clGetImageInfo", made, 0x111A) == 0
        assert cl.number("clGetMemObjectInfo", made, 0x1100) == kind
        assert cl.number("clGetMemObjectInfo", made, 0x1102) == nbytes
        assert cl.number("clGetMemObjectInfo", made, 0x1107) == shape.get("source", 0)
        assert cl.clGetImageInfo(made, 0x111B, 0, None, None) == -30
        assert cl.clGetImageInfo(made, 0x1112, 4, byref(c_size_t()), None) == -30
    assert cl.clGetImageInfo(buffer, 0x1110, 0, None, None) == -38
    old = cl.make("clCreateImage2D", context, 0, layout(R, FLOAT), 7, 3, 0, None)
    assert cl.number("clGetImageInfo", old, 0x1112) == 28
    old = cl.make("clCreateImage3D", context, COPY_HOST_PTR, layout(R, FLOAT), 7, 3, 2, 32, 128, host)
    assert cl.number("clGetImageInfo", old, 0x1113) == 128
    properties = (ctypes.c_uint64 * 1)(0)
    what, shape_of = layout(RGBA, UNORM8), described(IMAGE1D, 4)
    made = cl.make("clCreateImageWithProperties", context, properties, 0, what, shape_of, None)
    assert cl.info("clGetMemObjectInfo", made, 0x110A) == bytes(8)
    properties[0] = 5
    assert cl.code("clCreateImageWithProperties", context, properties, 0, what, shape_of, None) == -64


def what_is_no_image_has_its_code(cl: Cl) -> None:
    context, other = cl.context(), cl.context()
    buffer, foreign = cl.buffer(context, 64), cl.buffer(other, 64)
    host = ctypes.create_string_buffer(1 << 16)
    fine = layout(RGBA, UNORM8)

    def code(what: object, shape: object, flags: int = 0, memory: object = None) -> int:
        return cl.code("clCreateImage", context, flags, what, shape, memory)

    plane = described(IMAGE2D, 4, 4)
    for flags in (3, 5, 8 | 32, 1 << 20, 128 | 256, 1 << 12):
        assert code(fine, plane, flags, host) == -30, flags
    assert code(None, plane) == -39
    wrong = ((1, 1), (RGBA, 0x10D4), (0x10B4, UNORM8), (0x10BC, UNORM8), (0x10B6, FLOAT), (0x10B8, UINT32))
    for order, data_type in (*wrong, (0x10B0, 0x10E0)):
        assert code(layout(order, data_type), plane) == -39, (order, data_type)
    for order, data_type in ((0x10B1, UNORM8), (0x10BC, 0x10D4), (RGBA, 0x10E0)):
        assert code(layout(order, data_type), plane) == -10, (order, data_type)
    assert code(layout(RGBA, UINT32), plane) == -10
    assert cl.make("clCreateImage", context, READ_ONLY, layout(RGBA, UINT32), plane, None)
    assert code(fine, None) == -65
    bad = [
        described(0x10F0, 4, 4),
        described(0x10F7, 4, 4),
        described(IMAGE2D, 4, 4, levels=1),
        described(IMAGE2D, 4, 4, samples=2),
        described(IMAGE2D, 4, 4, row_pitch=16),
        described(IMAGE2D_ARRAY, 4, 4, 0, 1, source=buffer),
        described(IMAGE3D, 4, 4, 1, source=buffer),
        described(IMAGE2D, 4, 4, 0, 0, 12, source=buffer),
        described(IMAGE1D_BUFFER, 4),
        described(IMAGE2D, 0, 4),
        described(IMAGE2D, 4, 0),
        described(IMAGE3D, 4, 4, 0),
        described(IMAGE1D_ARRAY, 4, layers=0),
    ]
    for shape in bad:
        assert code(fine, shape) == -65
    for pitches in ((8, 0), (18, 0), (16, 60), (16, 72)):
        shape = described(IMAGE3D, 4, 4, 2, 0, *pitches)
        assert code(fine, shape, COPY_HOST_PTR, host) == -65, pitches
    large = [
        described(IMAGE2D, 1025, 4),
        described(IMAGE2D, 4, 513),
        described(IMAGE3D, 257, 1, 1),
        described(IMAGE3D, 1, 1, 65),
        described(IMAGE2D_ARRAY, 4, 4, 0, 33),
        described(IMAGE1D_ARRAY, 4, 0, 0, 33),
        described(IMAGE1D, 2**64 - 1),
        described(IMAGE1D_BUFFER, 17, source=buffer),
        described(IMAGE1D_BUFFER, 2**62, source=buffer),
        described(IMAGE2D, 4, 5, source=buffer),
        described(IMAGE2D, 4, 4, 0, 0, 20, source=buffer),
    ]
    for shape in large:
        assert code(fine, shape) == -40
    assert code(fine, described(IMAGE1D_BUFFER, 4, source=foreign)) == -38
    assert code(fine, described(IMAGE1D_BUFFER, 4, source=context)) == -38
    assert code(fine, described(IMAGE2D, 4, 4, source=foreign)) == -38
    assert code(fine, described(IMAGE2D, 4, 2, 0, 0, 18, source=buffer)) == -39
    assert code(fine, plane, 0, host) == code(fine, plane, COPY_HOST_PTR) == -37
    assert cl.code("clCreateImage2D", context, 0, fine, 0, 4, 0, None) == -40
    assert cl.code("clCreateImage2D", context, 0, fine, 4, 4, 16, None) == -40
    assert cl.code("clCreateImage3D", context, 0, fine, 4, 4, 2**60, 0, 0, None) == -40
    read_only = cl.buffer(context, 64, READ_ONLY)
    assert code(fine, described(IMAGE1D_BUFFER, 4, source=read_only), WRITE_ONLY) == -30
    view = image(cl, context, IMAGE1D_BUFFER, 4, source=read_only)
    assert cl.number("clGetMemObjectInfo", view, 0x1101) == READ_ONLY
    picture = image(cl, context, IMAGE2D, 4, 4)
    assert code(fine, described(IMAGE1D_BUFFER, 4, source=picture)) == -38
    assert code(fine, described(IMAGE2D, 4, 4, source=picture)) == -39


def buffers_and_images_are_not_taken_for_each_other(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 4096)
    picture = image(cl, context, IMAGE2D, 4, 4)
    at = ctypes.create_string_buffer(4096)
    zero, one = sizes([0, 0, 0]), sizes([1, 1, 1])
    assert cl.clEnqueueReadBuffer(queue, picture, 1, 0, 4, at, 0, None, None) == -38
    assert cl.clEnqueueWriteBuffer(queue, picture, 1, 0, 4, at, 0, None, None) == -38
    assert cl.clEnqueueCopyBuffer(queue, picture, buffer, 0, 0, 4, 0, None, None) == -38
    assert cl.clEnqueueFillBuffer(queue, picture, at, 4, 0, 4, 0, None, None) == -38
    assert cl.code("clEnqueueMapBuffer", queue, picture, 1, READ, 0, 4, 0, None, None) == -38
    assert cl.code("clCreateSubBuffer", picture, 0, 0x1220, sizes([0, 4])) == -38
    assert cl.clEnqueueReadImage(queue, buffer, 1, zero, one, 0, 0, at, 0, None, None) == -38
    assert cl.clEnqueueWriteImage(queue, buffer, 1, zero, one, 0, 0, at, 0, None, None) == -38
    assert cl.clEnqueueCopyImage(queue, buffer, picture, zero, zero, one, 0, None, None) == -38
    assert cl.clEnqueueFillImage(queue, buffer, at, zero, one, 0, None, None) == -38
    assert cl.clEnqueueCopyImageToBuffer(queue, picture, picture, zero, one, 0, 0, None, None) == -38
    assert cl.clEnqueueCopyBufferToImage(queue, picture, picture, 0, zero, one, 0, None, None) == -38
    pitch = c_size_t()
    arguments = (queue, buffer, 1, READ, zero, one, byref(pitch), byref(pitch), 0, None, None)
    assert cl.code("clEnqueueMapImage", *arguments) == -38


def pixels_are_boxes_of_bytes(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    picture = image(cl, context, IMAGE2D, 8, 6, flags=COPY_HOST_PTR, host=ctypes.create_string_buffer(DATA))
    at = ctypes.create_string_buffer(256)
    cl.check(
        cl.clEnqueueReadImage(queue, picture, 1, sizes([2, 1, 0]), sizes([3, 2, 1]), 0, 0, at, 0, None, None)
    )
    assert at.raw[:24] == DATA[40:52] + DATA[72:84]
    record = cl.last("READ")
    expected = {"offset": 40, "region": [12, 2, 1], "row_pitch": 32, "slice_pitch": 192, "blocking": 1}
    assert {k: record[k] for k in expected} == expected
    cl.check(
        cl.clEnqueueWriteImage(
            queue, picture, 1, sizes([0, 4, 0]), sizes([8, 2, 1]), 40, 0, DATA[100:], 0, None, None
        )
    )
    cl.check(
        cl.clEnqueueReadImage(queue, picture, 1, sizes([0, 4, 0]), sizes([8, 2, 1]), 0, 0, at, 0, None, None)
    )
    assert at.raw[:64] == DATA[100:132] + DATA[140:172]
    assert cl.last("WRITE")["region"] == cl.last("READ")["region"] == [64, 1, 1], "all of two rows"
    event = cl.event_of(
        "clEnqueueReadImage", queue, picture, 0, sizes([0, 0, 0]), sizes([1, 1, 1]), 0, 0, at, 0, None
    )
    cl.check(cl.wait(event))
    assert cl.number("clGetEventInfo", event, 0x11D2) == 1
    assert cl.number("clGetEventInfo", event, 0x11D1) == 0x11F6


def lines_of_an_array_lie_a_slice_pitch_apart(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    lines = image(
        cl,
        context,
        IMAGE1D_ARRAY,
        4,
        layers=5,
        slice_pitch=32,
        flags=COPY_HOST_PTR,
        host=ctypes.create_string_buffer(DATA),
    )
    at = ctypes.create_string_buffer(256)
    origin, region = sizes([1, 2, 0]), sizes([2, 3, 1])
    cl.check(cl.clEnqueueReadImage(queue, lines, 1, origin, region, 0, 24, at, 0, None, None))
    assert [at.raw[i : i + 8] for i in (0, 24, 48)] == [DATA[i : i + 8] for i in (68, 100, 132)]
    row, layer = c_size_t(), c_size_t()
    pointer = cl.make(
        "clEnqueueMapImage", queue, lines, 1, READ, origin, region, byref(row), byref(layer), 0, None, None
    )
    assert (row.value, layer.value) == (16, 32)
    assert ctypes.string_at(pointer + 32, 8) == DATA[100:108]
    cl.check(cl.clEnqueueUnmapMemObject(queue, lines, pointer, 0, None, None))


def bad_regions_have_their_codes(cl: Cl) -> None:
    context, other = cl.context(), cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 4096)
    picture, foreign = image(cl, context, IMAGE2D, 8, 6), image(cl, other, IMAGE2D, 8, 6)
    cube = image(cl, context, IMAGE3D, 8, 6, 4)
    at = ctypes.create_string_buffer(4096)
    event = cl.user_event(other)
    zero, one = sizes([0, 0, 0]), sizes([1, 1, 1])
    regions = [
        ([0, 0, 0], [9, 1, 1]),
        ([0, 0, 0], [1, 7, 1]),
        ([0, 0, 0], [1, 1, 2]),
        ([0, 0, 1], [1, 1, 1]),
        ([8, 0, 0], [1, 1, 1]),
        ([1, 0, 0], [2**64 - 1, 1, 1]),
        ([2**64 - 1, 0, 0], [2, 1, 1]),
        ([0, 0, 0], [0, 1, 1]),
        ([0, 0, 0], [1, 1, 0]),
    ]
    pitch = c_size_t()
    for origin, region in regions:
        box = sizes(origin), sizes(region)
        assert cl.clEnqueueReadImage(queue, picture, 1, *box, 0, 0, at, 0, None, None) == -30, (
            origin,
            region,
        )
        assert cl.clEnqueueWriteImage(queue, picture, 1, *box, 0, 0, at, 0, None, None) == -30
        assert cl.clEnqueueFillImage(queue, picture, at, *box, 0, None, None) == -30
        assert cl.clEnqueueCopyImageToBuffer(queue, picture, buffer, *box, 0, 0, None, None) == -30
        assert cl.clEnqueueCopyBufferToImage(queue, buffer, picture, 0, *box, 0, None, None) == -30
        assert cl.clEnqueueCopyImage(queue, picture, picture, zero, *box, 0, None, None) == -30
        mapping = (queue, picture, 1, READ, *box, byref(pitch), None, 0, None, None)
        assert cl.code("clEnqueueMapImage", *mapping) == -30
    whole = zero, sizes([8, 6, 1])
    for row, plane in ((31, 0), (0, 192), (2**64 - 1, 0)):
        assert cl.clEnqueueReadImage(queue, picture, 1, *whole, row, plane, at, 0, None, None) == -30
    for row, plane in ((0, 191), (40, 192)):
        region = sizes([8, 6, 4])
        assert cl.clEnqueueReadImage(queue, cube, 1, zero, region, row, plane, at, 0, None, None) == -30
    assert cl.clEnqueueReadImage(queue, picture, 1, None, one, 0, 0, at, 0, None, None) == -30
    assert cl.clEnqueueReadImage(queue, picture, 1, zero, None, 0, 0, at, 0, None, None) == -30
    assert cl.clEnqueueReadImage(queue, picture, 1, zero, one, 0, 0, None, 0, None, None) == -30
    assert cl.clEnqueueReadImage(queue, foreign, 1, zero, one, 0, 0, at, 0, None, None) == -34
    assert cl.clEnqueueReadImage(queue, picture, 1, zero, one, 0, 0, at, 1, None, None) == -57
    assert cl.clEnqueueReadImage(queue, picture, 1, zero, one, 0, 0, at, 1, handles([event]), None) == -34
    assert cl.clEnqueueFillImage(queue, picture, None, zero, one, 0, None, None) == -30
    assert cl.clEnqueueCopyImageToBuffer(queue, picture, buffer, zero, one, 4093, 0, None, None) == -30
    assert cl.clEnqueueCopyBufferToImage(queue, buffer, picture, 2**64 - 1, zero, one, 0, None, None) == -30
    floats = cl.make("clCreateImage", context, 0, layout(R, FLOAT), described(IMAGE2D, 8, 6), None)
    assert cl.clEnqueueCopyImage(queue, picture, floats, zero, zero, one, 0, None, None) == -9
    two = sizes([2, 2, 1])
    for x, y, code in ((1, 0, -8), (0, 1, -8), (1, 1, -8), (2, 0, 0), (0, 2, 0), (2, 1, 0)):
        moved = cl.clEnqueueCopyImage(queue, picture, picture, zero, sizes([x, y, 0]), two, 0, None, None)
        assert moved == code, (x, y)
    hidden = image(cl, context, IMAGE2D, 8, 6, flags=HOST_NO_ACCESS)
    shown = image(cl, context, IMAGE2D, 8, 6, flags=HOST_READ_ONLY)
    assert cl.clEnqueueReadImage(queue, hidden, 1, zero, one, 0, 0, at, 0, None, None) == -59
    assert cl.clEnqueueWriteImage(queue, shown, 1, zero, one, 0, 0, at, 0, None, None) == -59
    mapping = (queue, shown, 1, WRITE, zero, one, byref(pitch), None, 0, None, None)
    assert cl.code("clEnqueueMapImage", *mapping) == -59


def copies_and_fills_are_records_of_boxes(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    picture = image(cl, context, IMAGE2D, 8, 6, flags=COPY_HOST_PTR, host=ctypes.create_string_buffer(DATA))
    cube = image(cl, context, IMAGE3D, 8, 6, 3)
    buffer = cl.buffer(context, 4096)
    box = sizes([1, 2, 0]), sizes([2, 1, 1]), sizes([3, 2, 1])
    cl.check(cl.clEnqueueCopyImage(queue, picture, cube, *box, 0, None, None))
    cl.check(cl.clFinish(queue))
    expected = {"source_offset": 68, "target_offset": 232, "region": [12, 2, 1]}
    expected |= {"source_row_pitch": 32, "source_slice_pitch": 192, "target_row_pitch": 32}
    found = cl.last("COPY")
    assert {k: found[k] for k in expected} == expected, found
    origin, region = sizes([1, 2, 0]), sizes([3, 2, 1])
    event = cl.event_of("clEnqueueCopyImageToBuffer", queue, picture, buffer, origin, region, 5, 0, None)
    assert cl.number("clGetEventInfo", event, 0x11D1) == 0x11F9
    assert cl.read(queue, buffer, 24, 5) == DATA[68:80] + DATA[100:112]
    cl.check(cl.clEnqueueCopyBufferToImage(queue, buffer, picture, 5, origin, region, 0, None, None))
    color = struct.pack("<4f", 1.0, 0.2, 0.0, 2.0)
    cl.check(cl.clEnqueueFillImage(queue, cube, color, origin, region, 0, None, None))
    cl.check(cl.clFinish(queue))
    record = cl.last("FILL")
    expected = {"offset": 68, "region": [12, 2, 1], "row_pitch": 32, "slice_pitch": 192, "pattern_nbytes": 16}
    expected |= {"order": RGBA, "data_type": UNORM8, "tail": color.hex()}
    assert {k: record[k] for k in expected} == expected
    at = ctypes.create_string_buffer(24)
    cl.check(cl.clEnqueueReadImage(queue, cube, 1, origin, region, 0, 0, at, 0, None, None))
    assert at.raw == bytes([255, 51, 0, 255]) * 6


def mapped_pixels_are_the_bytes_themselves(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    row, plane = c_size_t(), c_size_t(7)
    for flag in (COPY_HOST_PTR, USE_HOST_PTR):
        memory = ctypes.create_string_buffer(DATA, 4096)
        picture = image(cl, context, IMAGE2D, 8, 6, row_pitch=48, flags=flag, host=memory)
        first, second = sizes([1, 2, 0]), sizes([4, 2, 0])
        region = sizes([3, 2, 1])
        place = (byref(row), byref(plane), 0, None, None)
        pointer = cl.make("clEnqueueMapImage", queue, picture, 1, READ | WRITE, first, region, *place)
        # GPUs filter rows that begin at multiples of 32 bytes; what is told of the image is what was given.
        pitch = 48 if flag == USE_HOST_PTR else 32
        assert (row.value, plane.value) == (pitch, 0)
        assert (
            cl.number("clGetImageInfo", picture, 0x1112),
            cl.number("clGetMemObjectInfo", picture, 0x1102),
        ) == (48, 288)
        for y in range(2):
            assert ctypes.string_at(pointer + y * pitch, 12) == DATA[100 + 48 * y : 112 + 48 * y]
        if flag == USE_HOST_PTR:
            assert pointer == ctypes.addressof(memory) + 100
            assert cl.last("MAP")["transfer"] == 1
        overlapping = sizes([3, 3, 0])
        again = (queue, picture, 1, WRITE, overlapping, region, *place)
        assert cl.code("clEnqueueMapImage", *again) == MAPPED_TWICE
        beside = cl.make("clEnqueueMapImage", queue, picture, 1, INVALIDATE, second, region, *place)
        ctypes.memset(pointer, 1, 12)
        ctypes.memset(beside + pitch, 2, 12)
        cl.check(cl.clEnqueueUnmapMemObject(queue, picture, pointer, 0, None, None))
        cl.check(cl.clEnqueueUnmapMemObject(queue, picture, beside, 0, None, None))
        cl.check(cl.clFinish(queue))
        expected = {
            "offset": 2 * pitch + 16,
            "region": [12, 2, 1],
            "row_pitch": pitch,
            "slice_pitch": 6 * pitch,
            "wrote": 1,
        }
        assert {k: cl.last("UNMAP")[k] for k in expected} == expected
        at = ctypes.create_string_buffer(192)
        whole = sizes([0, 0, 0]), sizes([8, 6, 1])
        cl.check(cl.clEnqueueReadImage(queue, picture, 1, *whole, 0, 0, at, 0, None, None))
        assert at.raw[68:80] == b"\1" * 12 and at.raw[112:124] == b"\2" * 12
        assert at.raw[100:112] == DATA[148:160]
    cube = image(cl, context, IMAGE3D, 8, 6, 3)
    arguments = (queue, cube, 1, READ, sizes([0, 0, 0]), sizes([1, 1, 1]))
    assert cl.code("clEnqueueMapImage", *arguments, byref(row), None, 0, None, None) == -30
    assert cl.code("clEnqueueMapImage", *arguments, None, byref(plane), 0, None, None) == -30


def samplers_answer_what_they_are(cl: Cl) -> None:
    context = cl.context()
    sampler = cl.make("clCreateSampler", context, 1, 0x1133, 0x1141)
    params = (0x1150, 0x1151, 0x1152, 0x1153, 0x1154)
    answers = [cl.number("clGetSamplerInfo", sampler, p) for p in params]
    assert answers == [1, context, 1, 0x1133, 0x1141]
    assert cl.info("clGetSamplerInfo", sampler, 0x1158) == b""
    cl.check(cl.clRetainSampler(sampler))
    assert cl.number("clGetSamplerInfo", sampler, 0x1150) == 2
    cl.check(cl.clReleaseSampler(sampler))
    cl.check(cl.clReleaseSampler(sampler))
    assert cl.clReleaseSampler(sampler) == -41
    default = cl.make("clCreateSamplerWithProperties", context, None)
    assert [cl.number("clGetSamplerInfo", default, p) for p in params[2:]] == [1, 0x1132, 0x1140]
    given = (ctypes.c_uint64 * 5)(0x1154, 0x1141, 0x1152, 0, 0)
    made = cl.make("clCreateSamplerWithProperties", context, given)
    assert [cl.number("clGetSamplerInfo", made, p) for p in params[2:]] == [0, 0x1132, 0x1141]
    assert cl.info("clGetSamplerInfo", made, 0x1158) == bytes(given)
    assert cl.clGetSamplerInfo(made, 0x1155, 0, None, None) == -30
    for bad in ((2, 0x1130, 0x1140), (1, 0x1135, 0x1140), (1, 0x1130, 0x1142), (1, 0x112F, 0x1140)):
        assert cl.code("clCreateSampler", context, *bad) == -30, bad
    for pairs in ((0x1155, 1, 0), (0x1152, 1, 0x1152, 1, 0), (0x1151, 1, 0), (0x1153, 7, 0)):
        assert (
            cl.code("clCreateSamplerWithProperties", context, (ctypes.c_uint64 * len(pairs))(*pairs)) == -30
        )


PICTURES = """
kernel void reads(read_only image2d_t image, sampler_t sampler, global int *data) {}
kernel void writes(write_only image2d_t image) {}
kernel void cubes(image3d_t image) {}
"""


def images_and_samplers_are_arguments(cl: Cl) -> None:
    context, other = cl.context(), cl.context()
    queue, program = cl.queue(context), cl.program(context, PICTURES)
    reads, writes, cubes = (cl.kernel(program, name) for name in ("reads", "writes", "cubes"))
    buffer = cl.buffer(context, 4096)
    host = ctypes.create_string_buffer(DATA)
    picture = image(cl, context, IMAGE2D, 8, 6, row_pitch=40, flags=COPY_HOST_PTR, host=host)
    sampler = cl.make("clCreateSampler", context, 0, 0x1131, 0x1140)
    for value, code in ((buffer, -38), (sampler, -38), (image(cl, other, IMAGE2D, 8, 6), -38), (1, -38)):
        assert cl.set_arg(reads, 0, c_void_p(value)) == code
    assert cl.clSetKernelArg(reads, 0, 8, None) == -50
    assert cl.set_arg(reads, 0, c_void_p(picture), 4) == -51
    assert cl.set_arg(cubes, 0, c_void_p(picture)) == -50
    only_read = image(cl, context, IMAGE2D, 8, 6, flags=READ_ONLY)
    only_written = image(cl, context, IMAGE2D, 8, 6, flags=WRITE_ONLY)
    assert cl.set_arg(writes, 0, c_void_p(only_read)) == cl.set_arg(reads, 0, c_void_p(only_written)) == -50
    assert cl.set_arg(writes, 0, c_void_p(only_written)) == cl.set_arg(reads, 0, c_void_p(only_read)) == 0
    foreign = cl.make("clCreateSampler", other, 0, 0x1131, 0x1140)
    for value in (buffer, foreign, 1):
        assert cl.set_arg(reads, 1, c_void_p(value)) == -41
    assert cl.clSetKernelArg(reads, 1, 8, None) == -50
    assert cl.set_arg(reads, 1, c_void_p(sampler), 16) == -51
    assert cl.set_arg(reads, 2, c_void_p(picture)) == -38
    assert cl.clEnqueueNDRangeKernel(queue, reads, 1, None, sizes([8]), None, 0, None, None) == -52
    cl.set_args(reads, c_void_p(picture), c_void_p(sampler), c_void_p(buffer))
    cl.check(cl.clReleaseSampler(sampler))  # the kernel has a copy of its modes
    cl.launch(queue, reads, 8)
    cl.check(cl.clFinish(queue))
    root = cl.records("CREATE_BUFFER")[1]["id"]
    tail = bytes.fromhex(cl.last("NDRANGE")["tail"])
    assert struct.unpack_from("<2I2Q4I5Q", tail) == (
        *(4, 72, root, 0, IMAGE2D, RGBA, UNORM8, 0),
        *(8, 6, 1, 40, 240),
    )
    assert struct.unpack_from("<6I", tail, 80) == (5, 16, 0, 0x1131, 0x1140, 0)
    cl.check(cl.clReleaseMemObject(picture))
    assert cl.clEnqueueNDRangeKernel(queue, reads, 1, None, sizes([8]), None, 0, None, None) == -52


def an_image_keeps_the_buffer_it_is_made_from(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 4096, COPY_HOST_PTR, DATA)
    part = cl.make("clCreateSubBuffer", buffer, 0, 0x1220, sizes([1024, 256]))
    view = image(cl, context, IMAGE1D_BUFFER, 40, source=part)
    assert len(cl.records("CREATE_BUFFER")) == 1
    cl.check(cl.clReleaseMemObject(part))
    cl.check(cl.clReleaseMemObject(buffer))
    at = ctypes.create_string_buffer(8)
    box = sizes([3, 0, 0]), sizes([2, 1, 1])
    cl.check(cl.clEnqueueReadImage(queue, view, 1, *box, 0, 0, at, 0, None, None))
    assert at.raw == DATA[1036:1044]
    assert cl.records("RECYCLE_BUFFER") == []
    cl.check(cl.clReleaseMemObject(view))
    cl.check(cl.clFinish(queue))
    assert len(cl.records("RECYCLE_BUFFER")) == 1


ON_GPUS = {"mapped_pixels_are_the_bytes_themselves"}
"""Programs for an image of GPUs."""
WITHOUT_IMAGES = frozenset({"images_and_samplers_that_the_device_lacks_are_refused"})
PROGRAMS = (
    images_and_samplers_that_the_device_lacks_are_refused,
    formats_are_listed_by_kind_and_access,
    images_answer_what_they_are,
    what_is_no_image_has_its_code,
    buffers_and_images_are_not_taken_for_each_other,
    pixels_are_boxes_of_bytes,
    lines_of_an_array_lie_a_slice_pitch_apart,
    bad_regions_have_their_codes,
    copies_and_fills_are_records_of_boxes,
    mapped_pixels_are_the_bytes_themselves,
    samplers_answer_what_they_are,
    images_and_samplers_are_arguments,
    an_image_keeps_the_buffer_it_is_made_from,
)
