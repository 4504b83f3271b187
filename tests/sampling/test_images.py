"""Rows of images that kernels write: the access maps against what boxes of work-groups change."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sdi.clc.compile import compile_source
from sdi.clc.launch import pack_hidden
from sdi.devices import copying
from sdi.devices.base import Device
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.image import ImageShape, Slabs
from sdi.ndrange import GroupBox, NDRange
from sdi.regions import RegionSet
from sdi.sampling import analyse
from sdi.wire.opencl import IMAGE_TYPES, ChannelOrder, ChannelType
from tests.devices.conftest import finish
from tests.sampling.checking import boxes
from tests.sampling.sources import kernels_of, tree_of

KERNELS = {
    "plain": ("image2d_t", "write_imageui(to, (int2)(get_global_id(0), get_global_id(1)), value);", True),
    "turned": ("image2d_t", "write_imageui(to, (int2)(get_global_id(1), get_global_id(0)), value);", False),
    "upside down": ("image2d_t", "write_imageui(to, (int2)(x, n - 1 - y), value);", True),
    "shifted out": ("image2d_t", "write_imageui(to, (int2)(x, y - 5), value);", True),
    "wrapping": ("image2d_t", "uint w = y; write_imageui(to, (int2)(x, w - 3u), value);", True),
    "wrapping shorts": ("image2d_t", "short w = y * 13107; write_imageui(to, (int2)(x, w), value);", False),
    "guarded": ("image2d_t", "if (y > 3 && x < 7) write_imageui(to, (int2)(x, y), value);", True),
    "looped": (
        "image2d_t",
        "for (int k = 0; k < 2; k++) write_imageui(to, (int2)(x, 2 * y + k), value);",
        True,
    ),
    "tiled": ("image2d_t", "write_imageui(to, (int2)(x, get_group_id(1) * 2 + (y + 1) % 2), value);", True),
    "chosen": ("image2d_t", "write_imageui(to, (int2)(x, x < 4 ? y : 0), value);", False),
    "helped": ("image2d_t", "put(to, (int2)(x, y), value);", True),
    "assigned": ("image2d_t", "int2 at; at.x = x; at.y = y / 2; write_imageui(to, at, value);", True),
    "swizzled": ("image2d_t", "int4 at = (int4)(y, x, 7, 7); write_imageui(to, at.yx, value);", True),
    "from data": ("image2d_t", "write_imageui(to, (int2)(x, data[y]), value);", False),
    "line": ("image1d_t", "write_imageui(to, y * 8 + x, value);", True),
    "planes": ("image3d_t", "write_imageui(to, (int4)(x, 1, y, 0), value);", True),
    "layers": ("image2d_array_t", "write_imageui(to, (int4)(1, x, y, 0), value);", True),
    "modulo": ("image2d_t", "write_imageui(to, (int2)(x, (y * 5) % 8), value);", False),
}
"""By name: the image's type, the statement, and whether each row of groups is known to write other rows."""
PIXELS = (ChannelOrder.R, ChannelType.UNSIGNED_INT32)
SHAPES = {
    "image1d_t": ImageShape(IMAGE_TYPES["image1d_t"], *PIXELS, 64, 1, 1, 256, 256),
    "image2d_t": ImageShape(IMAGE_TYPES["image2d_t"], *PIXELS, 8, 8, 1, 32, 256),
    "image2d_array_t": ImageShape(IMAGE_TYPES["image2d_array_t"], *PIXELS, 8, 8, 8, 32, 256),
    "image3d_t": ImageShape(IMAGE_TYPES["image3d_t"], *PIXELS, 8, 8, 8, 32, 256),
}
SOURCE = """
#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable
void put(write_only image2d_t image, int2 at, uint4 value) {{ write_imageui(image, at, value); }}
__kernel void one(write_only {type} to, __global const int *data, int n)
{{
    int x = get_global_id(0), y = get_global_id(1);
    uint4 value = (uint4)(7, 7, 7, 7);
    {statement}
}}
"""


@pytest.fixture(scope="module")
def member() -> Iterator[Device]:
    """A CPU member."""
    (device,) = open_members(MemberSettings(count=1))
    yield device
    device.close()


@pytest.mark.parametrize("name", KERNELS)
def test_boxes_change_the_rows_that_the_maps_name(name: str, member: Device) -> None:
    type_name, statement, is_disjoint = KERNELS[name]
    source, shape = SOURCE.format(type=type_name, statement=statement), SHAPES[type_name]
    compiled = compile_source(source, "")
    (model,) = compiled.kernels
    assert model.why_whole == "" and model.arguments[0].writes
    tree = tree_of(source)
    analysis = analyse(tree, kernels_of(tree)["one"])
    assert analysis.images is not None
    ndrange = NDRange(2, (0, 0, 0), (8, 8, 1), (2, 2, 1))
    number = (8).to_bytes(4, "little")
    bound = analysis.images.bind(ndrange, (None, None, number), (shape.num_slabs, None, None))
    program = member.build(compiled.text, compiled.member_options)
    data = np.array([3, 1, 4, 1, 5, 2, 6, 9], np.int32)
    table, linear = member.allocate(32), member.allocate(shape.span_nbytes)
    picture, whole = member.allocate(shape), Slabs(0, shape.num_slabs)
    ready = copying.upload(member, memoryview(data).cast("B"), table, 0, [])
    pixels = np.zeros(shape.span_nbytes // 4, np.uint32)
    predicted: dict[GroupBox, RegionSet] = {}
    rows_of_groups = [GroupBox((0, k, 0), (4, k + 1, 1)) for k in range(4)]
    for box in (*boxes(ndrange.num_groups), *rows_of_groups):
        cleared = member.fill(linear, 0, shape.span_nbytes, bytes(4), [ready])
        cleared = copying.to_image(member, linear, 0, picture, shape, whole, [cleared])
        kernel = member.bind(program, "one", [picture, table, number, pack_hidden(model, ndrange, box, [0])])
        done = member.launch(kernel, box.extent, ndrange.local_size, 2, [cleared])
        done = copying.from_image(member, picture, shape, whole, linear, 0, [done])
        ready = copying.download(member, linear, 0, memoryview(pixels).cast("B"), [done])
        finish(ready)
        changed = {int(at) * 4 // shape.slab_pitch for at in np.flatnonzero(pixels)}
        (found,) = bound.bounds(box)
        named = {k for part in found.writes.runs() for k in range(part.start, part.stop)}
        assert changed <= named, f"{name}, {box}: {changed}, not only {named}"
        predicted[box] = found.writes
    rows = [predicted[box] for box in rows_of_groups]
    apart = all(not a.intersection(b) for i, a in enumerate(rows) for b in rows[:i])
    assert apart == is_disjoint, rows
