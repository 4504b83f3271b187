"""How an NDRange is cut: one box of work-groups per member, all as equal as the grid allows.

Source: papers/1 section 3.2, constraints 1 (one box each) and 2 (balanced).
"""

from __future__ import annotations

from sdi.ndrange import GroupBox, Int3


def cut(num_groups: Int3, members: int) -> tuple[GroupBox, ...]:
    """``min(members, groups)`` disjoint boxes that cover the grid ``num_groups``.

    Slabs of the slowest dimension with at least ``members`` groups; where no dimension has as many, cuts
    along the longest dimension first, then within the parts.
    """
    parts = min(members, num_groups[0] * num_groups[1] * num_groups[2])
    for dim in (2, 1, 0):
        if num_groups[dim] >= parts:
            return tuple(
                _box(num_groups, dim, num_groups[dim] * k // parts, num_groups[dim] * (k + 1) // parts)
                for k in range(parts)
            )
    return tuple(_halve(GroupBox((0, 0, 0), num_groups), parts))


def _box(num_groups: Int3, dim: int, start: int, stop: int) -> GroupBox:
    """The slab ``start`` <= id < ``stop`` of dimension ``dim``."""
    return _replace(GroupBox((0, 0, 0), num_groups), dim, start, stop)


def _replace(box: GroupBox, dim: int, start: int, stop: int) -> GroupBox:
    """``box`` with other bounds in dimension ``dim``."""
    a, b = list(box.start), list(box.stop)
    a[dim], b[dim] = start, stop
    return GroupBox((a[0], a[1], a[2]), (b[0], b[1], b[2]))


def _halve(box: GroupBox, parts: int) -> list[GroupBox]:
    """``parts`` boxes that cover ``box``, which has at least as many groups."""
    if parts == 1:
        return [box]
    extent = box.extent
    dim = max(range(3), key=lambda d: (extent[d], d))
    across = box.total_groups // extent[dim]
    first = parts // 2
    low = min(max(round(extent[dim] * first / parts), 1), extent[dim] - 1)
    first = min(max(first, parts - (extent[dim] - low) * across), low * across)
    at = box.start[dim] + low
    return _halve(_replace(box, dim, box.start[dim], at), first) + _halve(
        _replace(box, dim, at, box.stop[dim]), parts - first
    )
