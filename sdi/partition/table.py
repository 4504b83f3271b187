"""The partition table: all work-group-optimal cuts of a group grid, by dimensions and number of members.

Source: papers/1 section 3.2: every assignment is one box of work-groups (constraint 1), and the boxes are as
equal as the grid allows (constraint 2).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from sdi.ndrange import GroupBox, Int3
from sdi.partition.slabs import cut

ALL_SHAPES_MAX = 16
"""For so many parts every shape is looked at."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A partition: ``shape`` says into how many parts each dimension is cut, (0, 0, 0) if unevenly."""

    shape: Int3
    boxes: tuple[GroupBox, ...]


@functools.cache
def shapes(parts: int) -> tuple[Int3, ...]:
    """All ways to write ``parts`` as a product over three dimensions; slabs first, slowest dimension first.

    For 4 parts: (1,1,4), (1,4,1), (4,1,1), then (1,2,2), (2,1,2), (2,2,1): the six of papers/1 figure 5.
    """
    found = [
        (x, y, parts // (x * y))
        for x in range(1, parts + 1)
        if parts % x == 0
        for y in range(1, parts // x + 1)
        if (parts // x) % y == 0
    ]
    return tuple(sorted(found, key=lambda shape: (sum(part > 1 for part in shape), shape)))


@functools.lru_cache(maxsize=4096)
def cuts(num_groups: Int3, members: int) -> tuple[Cut, ...]:
    """All optimal cuts of the grid into ``min(members, groups)`` boxes, slabs of the slowest dimension first.

    A shape fits if no dimension is cut into more parts than it has groups.  If none fits (3 x 3 groups on 8
    members), the only cut is the one of ``slabs.cut``, as equal as recursive halving gets.  Of very many
    parts only slabs and the shape with the least surface between parts: each costs a plan of all of them.
    """
    parts = min(members, num_groups[0] * num_groups[1] * num_groups[2])
    fit = [
        shape
        for shape in shapes(parts)
        if all(part <= groups for part, groups in zip(shape, num_groups, strict=True))
    ]
    if parts > ALL_SHAPES_MAX:
        slabs = [shape for shape in fit if sum(part > 1 for part in shape) == 1]
        blocks = [shape for shape in fit if shape not in slabs]

        def surface(shape: Int3) -> float:
            return sum(part / groups for part, groups in zip(shape, num_groups, strict=True))

        fit = slabs + sorted(blocks, key=surface)[:1]
    found = [Cut(shape, grid(num_groups, shape)) for shape in fit]
    return tuple(found) or (Cut((0, 0, 0), cut(num_groups, members)),)


def shape_of(boxes: Sequence[GroupBox]) -> Int3:
    """Into how many parts each dimension is cut; (0, 0, 0) for boxes that form no grid."""
    x, y, z = (len({(box.start[d], box.stop[d]) for box in boxes}) for d in range(3))
    return (x, y, z) if x * y * z == len(boxes) else (0, 0, 0)


def grid(num_groups: Int3, shape: Int3, dim: int = 0, at: Sequence[int] = ()) -> tuple[GroupBox, ...]:
    """The boxes of a shape, first dimension fastest: in equal parts, but for dimension ``dim``, which is cut
    ``at`` these ids (0, ..., groups) if any are given.
    """
    edges = [
        [groups * part // parts for part in range(parts + 1)]
        for groups, parts in zip(num_groups, shape, strict=True)
    ]
    if at:
        edges[dim] = list(at)
    x, y, z = edges
    return tuple(
        GroupBox((x[i], y[j], z[k]), (x[i + 1], y[j + 1], z[k + 1]))
        for k in range(shape[2])
        for j in range(shape[1])
        for i in range(shape[0])
    )
