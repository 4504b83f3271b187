"""Ids that are taken apart with / and %: the closed form is what all work-items do, one by one."""

from __future__ import annotations

import random
import struct
from itertools import pairwise

import pytest

from sdi.clc.compile import compile_source
from sdi.launch.programs.access import access_of
from sdi.ndrange import GroupBox, NDRange
from sdi.sampling import KernelAnalysis, dense, digits
from sdi.sampling.bound import BoundKernel
from sdi.sampling.boxes import region_set
from sdi.sampling.digits import parts_of

BRICKS = """
__kernel void brick(__global float *out, int side, int across, int down) {
    int group = get_group_id(0), item = get_local_id(0);
    int x = group % across * 4 + item % 4;
    int y = group / across % down * 2 + item / 4 % 2;
    int z = group / (across * down) * 2 + item / 8;
    if (x < side && y < side && z < side)
        out[(z * side + y) * side + x] = 1.0f;
}
"""
FLAT = """
__kernel void flat(__global int *out, uint width, uint pitch) {
    uint i = get_global_id(0), x = i % width, y = i / width;
    out[y * pitch + x] = 1;
}
__kernel void turned(__global int *out, uint width, uint height) {
    uint i = get_global_id(0), x = i % width, y = i / width;
    if (y < height)
        out[x * height + y] = 1;
}
__kernel void tiles(__global int *out, uint width, uint pitch) {
    uint tile = get_group_id(0), x = get_local_id(0) & 7, y = get_local_id(0) >> 3;
    out[(tile / width * 8 + y) * pitch + tile % width * 8 + x] = 1;
}
__kernel void every_other(__global int *out, uint width, uint pitch) {
    uint i = get_global_id(0);
    if (i % width < width / 2)
        out[i / width * pitch + i % width] = 1;
}
__kernel void to_the_right(__global int *out, uint width, uint height) {
    uint i = get_global_id(0), x = i % width, y = i / width;
    out[y * width + (x + 1) % width] = 1;
}
__kernel void to_the_left(__global int *out, uint width, uint height) {
    uint i = get_global_id(0), x = i % width, y = i / width;
    out[y * width + (x + width - 3) % width] = 1;
}
__kernel void aslant(__global int *out, uint width, uint height) {
    uint i = get_global_id(0), x = i % width, y = i / width % height, z = i / (width * height);
    out[(z * height + (y + height - 1) % height) * width + (x + 1) % width] = 1;
}
__kernel void radix_4(__global int *out, uint p, uint n) {
    uint i = get_global_id(0), k = i & (p - 1), to = ((i - k) << 2) + k;
    for (uint m = 0; m < n; m++)
        out[to + m * p] = 1;
}
__kernel void every_other_step(__global int *out, uint width, uint n) {
    uint i = get_global_id(0), x = i % width, y = i / width;
    for (uint m = 0; m < n; m++)
        out[(y * n + m / 2) * width * 2 + m % 2 * width + x] = 1;
}
__kernel void checkered(__global int *out, uint of, uint n) {
    uint i = get_global_id(0);
    for (uint m = 1; m < n; m++)
        if ((i + 3 * m) % of == 1 && i > 2)
            out[m * 4096 + i] = 1;
}
__kernel void odd(__global int *out, uint a, uint b) {
    uint i = get_global_id(0);
    out[i / a + i % b] = 1;
}
"""


def bound(source: str, name: str, scalars: tuple[int, ...], groups: int, local: int) -> BoundKernel:
    """A kernel's access maps for one launch."""
    compiled = compile_source(source, "")
    model = next(kernel for kernel in compiled.kernels if kernel.name == name)
    analysis = access_of(compiled, model)
    assert isinstance(analysis, KernelAnalysis)
    ndrange = NDRange(1, (0, 0, 0), (groups * local, 1, 1), (local, 1, 1))
    values = (None, *(struct.pack("<i", value) for value in scalars))
    return analysis.bind(ndrange, values, (1 << 40, *[None] * len(scalars)))


def both(kernel: BoundKernel, box: GroupBox) -> list[tuple[object, object]]:
    """The bytes of each access: in closed form, and point by point."""
    binding = kernel._binding
    found = []
    for access in kernel._accesses:
        slow = dense.spans_of(binding, access, box)
        assert slow is not None
        parts = digits.bytes_of(binding, access, box)
        found.append((None if parts is None else region_set(parts, 1 << 60), region_set(slow, 1 << 60)))
    return found


@pytest.mark.parametrize("side", [8, 9, 11, 12, 13, 16, 21])
def test_bricks_have_exactly_the_bytes_of_their_voxels(side: int) -> None:
    across, down = -(-side // 4), -(-side // 2)
    groups = across * down * (-(-side // 2))
    kernel = bound(BRICKS, "brick", (side, across, down), groups, 16)
    numbers = random.Random(side)
    for _ in range(30):
        start = numbers.randrange(groups)
        box = GroupBox((start, 0, 0), (numbers.randrange(start, groups) + 1, 1, 1))
        for closed, wanted in both(kernel, box):
            assert closed == wanted


CASES = [
    ("flat", (64, 64), 32, 64),
    ("flat", (128, 200), 40, 64),
    ("flat", (12, 16), 30, 24),
    ("flat", (100, 128), 64, 48),
    ("turned", (32, 30), 60, 16),
    ("turned", (48, 20), 60, 16),
    ("tiles", (6, 48), 30, 64),
    ("tiles", (5, 44), 27, 64),
    ("every_other", (16, 16), 40, 32),
    ("every_other", (64, 80), 40, 32),
    ("to_the_right", (16, 20), 40, 8),
    ("to_the_left", (12, 20), 30, 8),
    ("aslant", (8, 4), 40, 4),
    ("aslant", (8, 6), 60, 16),
    ("aslant", (16, 4), 30, 16),
    ("aslant", (16, 6), 30, 8),
    ("to_the_right", (16, 20), 40, 16),
    ("to_the_right", (16, 20), 20, 32),
    ("turned", (16, 20), 20, 16),
    ("radix_4", (1, 4), 40, 8),
    ("radix_4", (4, 4), 40, 8),
    ("radix_4", (16, 4), 40, 8),
    ("radix_4", (16, 3), 40, 8),
    ("radix_4", (64, 4), 40, 16),
    ("every_other_step", (12, 6), 40, 8),
    ("every_other_step", (16, 5), 40, 8),
    ("checkered", (2, 7), 40, 8),
    ("checkered", (3, 9), 40, 7),
    ("checkered", (4, 9), 30, 8),
    ("checkered", (5, 12), 40, 4),
    ("checkered", (9, 12), 40, 4),
    ("odd", (4, 6), 20, 12),
    ("odd", (4, 8), 20, 16),
]


@pytest.mark.parametrize(("name", "scalars", "groups", "local"), CASES)
def test_an_answer_is_exactly_what_all_work_items_do(
    name: str, scalars: tuple[int, ...], groups: int, local: int
) -> None:
    kernel = bound(FLAT, name, scalars, groups, local)
    numbers = random.Random(groups)
    for _ in range(30):
        start = numbers.randrange(groups)
        box = GroupBox((start, 0, 0), (numbers.randrange(start, groups) + 1, 1, 1))
        for closed, wanted in both(kernel, box):
            assert closed is None or closed == wanted
            if name not in ("every_other", "odd") and scalars[0] != 9 and (local, scalars[0]) != (48, 100):
                assert closed is not None, "this one has a closed form"


def test_millions_of_work_items_are_no_more_work_than_some() -> None:
    side, across, down, deep = 252, 63, 126, 126
    kernel = bound(BRICKS, "brick", (side, across, down), across * down * deep, 16)
    groups = across * down * deep
    plane = 2 * 4 * side * side
    (writes,) = [item.writes for item in kernel.over(GroupBox((0, 0, 0), (groups, 1, 1)))]
    assert [(r.start, r.stop) for r in writes.runs()] == [(0, 4 * side**3)]
    boxes = [GroupBox((groups * k // 4, 0, 0), (groups * (k + 1) // 4, 1, 1)) for k in range(4)]
    found = [kernel.over(box)[0] for box in boxes]
    assert all(item.precision.value == "exact" for item in found)
    assert sum(item.writes.nbytes for item in found) == 4 * side**3
    for one, other in pairwise(found):
        assert not one.writes.overlaps(other.writes)
        assert one.writes.runs()[-1].stop > other.writes.runs()[0].start - plane


@pytest.mark.parametrize("weights", [[1], [1, 8], [1, 4, 12], [1, 3, 6, 24]])
def test_parts_hold_every_number_once(weights: list[int]) -> None:
    for low in range(0, 60, 7):
        for stop in range(low, 130, 3):
            found = []
            for part in parts_of(low, stop, weights):
                numbers = [0]
                for weight, first, count in part:
                    numbers = [n + weight * (first + k) for n in numbers for k in range(count)]
                found += numbers
            assert sorted(found) == list(range(low, stop))
