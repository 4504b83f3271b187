"""The partition table: all work-group-optimal cuts of a group grid, by dimensions and number of members.

Source: papers/1 section 3.2: every assignment is one box of work-groups (constraint 1), and the boxes are as
equal as the grid allows (constraint 2).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from math import prod

from sdi.dataclass import dataclass
from sdi.ndrange import GroupBox, Int3
from sdi.partition.slabs import cut

ALL_SHAPES_MAX = 16
"""For so many parts every shape is looked at."""


@dataclass(frozen=True)
class Cut:
    """A partition of ``num_groups``: ``shape`` says into how many parts each dimension is cut, (0, 0, 0) if
    unevenly, into ``parts`` boxes in all.

    ``nodes``: the parts that are nodes', where boxes run on several; those of a node follow each other.
    """

    num_groups: Int3
    parts: int
    shape: Int3
    nodes: Int3 = (1, 1, 1)

    @functools.cached_property
    def boxes(self) -> tuple[GroupBox, ...]:
        """One for each member."""
        if self.shape == (0, 0, 0):
            return cut(self.num_groups, self.parts)
        if prod(self.nodes) == 1:
            return grid(self.num_groups, self.shape)
        return tuple([box for node in range(prod(self.nodes)) for box in self.boxes_of(node)])

    def boxes_of(self, node: int) -> tuple[GroupBox, ...]:
        """Those of one node's members, of a cut over several nodes."""
        return tuple(_within(self.num_groups, self.shape, self.nodes, node))

    @functools.cached_property
    def node_boxes(self) -> tuple[GroupBox, ...]:
        """One for each node, of all that its members have."""
        return grid(self.num_groups, self.nodes)


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
def cuts(num_groups: Int3, members: int, of_node: int = 0) -> tuple[Cut, ...]:
    """All optimal cuts of the grid into ``min(members, groups)`` boxes, slabs of the slowest dimension first.

    A shape fits if no dimension is cut into more parts than it has groups.  If none fits (3 x 3 groups on 8
    members), the only cut is the one of ``slabs.cut``, as equal as recursive halving gets.  Of very many
    parts only slabs and the shape with the least surface between parts: each costs a plan of all of them.
    ``of_node``: so many members side by side are on one node; then cuts over nodes that are cut again, of
    those with the same shape that with the least surface between nodes.
    """
    parts = min(members, prod(num_groups))
    if of_node and of_node < parts == members and members % of_node == 0:
        found: dict[Int3, Cut] = {}
        for over in _few(num_groups, members // of_node):
            for within in _few(num_groups, of_node):
                shape = (over[0] * within[0], over[1] * within[1], over[2] * within[2])
                if not _fits(shape, num_groups):
                    continue
                known = found.get(shape)
                if known is None or _surface(over, num_groups) < _surface(known.nodes, num_groups):
                    found[shape] = Cut(num_groups, parts, shape, over)
        if found:
            return tuple(found.values())
    plain = [Cut(num_groups, parts, shape) for shape in _few(num_groups, parts)]
    return tuple(plain) or (Cut(num_groups, parts, (0, 0, 0)),)


def _fits(shape: Int3, num_groups: Int3) -> bool:
    return all(part <= groups for part, groups in zip(shape, num_groups, strict=True))


def _few(num_groups: Int3, parts: int) -> list[Int3]:
    """The shapes that fit; of many parts only few."""
    fit = [shape for shape in shapes(parts) if _fits(shape, num_groups)]
    if parts <= ALL_SHAPES_MAX:
        return fit
    slabs = [shape for shape in fit if sum([part > 1 for part in shape]) == 1]
    blocks = [shape for shape in fit if shape not in slabs]
    return slabs + sorted(blocks, key=lambda shape: _surface(shape, num_groups))[:1]


def _surface(shape: Int3, num_groups: Int3) -> float:
    """Between the parts, but for a factor."""
    return sum([part / groups for part, groups in zip(shape, num_groups, strict=True)])


def shape_of(boxes: Sequence[GroupBox]) -> Int3:
    """Into how many parts each dimension is cut; (0, 0, 0) for boxes that form no grid."""
    x, y, z = (len({(box.start[d], box.stop[d]) for box in boxes}) for d in range(3))
    return (x, y, z) if x * y * z == len(boxes) else (0, 0, 0)


def grid(num_groups: Int3, shape: Int3, dim: int = 0, at: Sequence[int] = ()) -> tuple[GroupBox, ...]:
    """The boxes of a shape, first dimension fastest: in equal parts, but for dimension ``dim``, which is cut
    ``at`` these ids (0, ..., groups) if any are given.
    """
    edges = _edges(num_groups, shape)
    if at:
        edges[dim] = list(at)
    x, y, z = edges
    return tuple(
        GroupBox((x[i], y[j], z[k]), (x[i + 1], y[j + 1], z[k + 1]))
        for k in range(shape[2])
        for j in range(shape[1])
        for i in range(shape[0])
    )


def _edges(num_groups: Int3, shape: Int3) -> list[list[int]]:
    return [
        [groups * part // parts for part in range(parts + 1)]
        for groups, parts in zip(num_groups, shape, strict=True)
    ]


def _within(num_groups: Int3, shape: Int3, nodes: Int3, node: int) -> Iterator[GroupBox]:
    """The boxes of a shape in equal parts that one of ``nodes`` has; of both the first dimension fastest."""
    x, y, z = _edges(num_groups, shape)
    over = node % nodes[0], node // nodes[0] % nodes[1], node // (nodes[0] * nodes[1])
    each = [parts // number for parts, number in zip(shape, nodes, strict=True)]
    i, j, k = ([*range(at * parts, (at + 1) * parts)] for at, parts in zip(over, each, strict=True))
    for c in k:
        for b in j:
            for a in i:
                yield GroupBox((x[a], y[b], z[c]), (x[a + 1], y[b + 1], z[c + 1]))
