"""Plans: the cut of one launch, and what each piece of it needs and writes, buffer by buffer.

Offsets are bytes of root buffers.  Source: papers/1 sections 3.2-3.4 and 3.6; DESIGN "Splitting or not".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sdi.clc.model import KernelModel
from sdi.intervals import ByteRange, RangeSet
from sdi.ndrange import GroupBox
from sdi.runtime.arguments import ArgumentValue, Pointer
from sdi.sampling.model import BoundAccess, Precision
from sdi.vmem.directory import member_memory
from sdi.vmem.memory import VirtualBuffer

_EMPTY = RangeSet()
_ALIGNMENT = 8
"""Merged ranges are widened to multiples of the largest unit that a kernel can store."""
_CANDIDATES_MAX = 16
_MERGED_RANGES_MAX = 256
"""More ranges than that are merged as the one range that holds them all."""


@dataclass(frozen=True, slots=True)
class PieceAccess:
    """One piece of a launch on one root buffer.

    ``needs``: must be current on the member before the launch.  ``owns``: written by this piece alone, whole
    or in bytes that were current before: the member is its only holder afterwards.
    """

    needs: RangeSet
    owns: RangeSet


@dataclass(frozen=True, slots=True)
class MergedRange:
    """Bytes that the pieces ``pieces`` may all write: brought together with twins and diffs."""

    over: ByteRange
    pieces: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BufferPlan:
    """What a cut does to one root buffer: ``pieces[k]`` belongs to box k.

    ``merged``: disjoint, in order; compared in units between ``smallest_nbytes`` and ``unit_nbytes``.
    ``cause``: the kernel and the arguments that name the buffer, for accounting.
    """

    buffer: VirtualBuffer
    pieces: tuple[PieceAccess, ...]
    merged: tuple[MergedRange, ...]
    unit_nbytes: int
    smallest_nbytes: int
    cause: str

    def written(self, k: int) -> list[ByteRange]:
        """All that piece k may write: disjoint, in order."""
        found = list(self.pieces[k].owns.ranges)
        if self.merged:
            found = sorted([*found, *(merged.over for merged in self.merged if k in merged.pieces)])
        return found


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A cut with all that follows from it."""

    boxes: tuple[GroupBox, ...]
    buffers: tuple[BufferPlan, ...]

    @property
    def merged_nbytes(self) -> int:
        """Bytes that go through twins and diffs, over all writers."""
        return sum(merged.over.nbytes * len(merged.pieces) for plan in self.buffers for merged in plan.merged)


@dataclass(slots=True)
class _Gathered:
    """All that one piece does to one root buffer, over all arguments that name it."""

    reads: RangeSet
    exact: RangeSet
    may: RangeSet

    def union(self, other: _Gathered) -> _Gathered:
        """What two arguments do."""
        return _Gathered(
            self.reads.union(other.reads), self.exact.union(other.exact), self.may.union(other.may)
        )


def make_plan(
    model: KernelModel,
    values: Sequence[ArgumentValue],
    access: BoundAccess,
    boxes: tuple[GroupBox, ...],
    buffers: dict[int, VirtualBuffer],
) -> LaunchPlan:
    """What the pieces ``boxes`` of a launch need and write.  Pure but for the access maps' own caches."""
    pointers = [
        (index, value) for index, value in enumerate(values) if isinstance(value, Pointer) and value.buffer
    ]
    gathered: list[dict[int, _Gathered]] = []
    for box in boxes:
        by_argument = {item.argument: item for item in access.over(box)}
        piece: dict[int, _Gathered] = {}
        for index, pointer in pointers:
            item = by_argument[index]
            is_exact = item.precision is Precision.EXACT
            writes = _moved(item.writes, pointer.offset)
            one = _Gathered(
                _moved(item.reads, pointer.offset),
                writes if is_exact else _EMPTY,
                _EMPTY if is_exact else writes,
            )
            other = piece.get(pointer.buffer)
            piece[pointer.buffer] = one if other is None else other.union(one)
        gathered.append(piece)
    return LaunchPlan(
        boxes,
        tuple(
            _buffer_plan(model, pointers, buffer, [piece[buffer_id] for piece in gathered])
            for buffer_id, buffer in buffers.items()
        ),
    )


def candidate_plans(
    cuts: Sequence[tuple[GroupBox, ...]], plan: Callable[[tuple[GroupBox, ...], bool], LaunchPlan]
) -> list[LaunchPlan]:
    """A plan for each cut, of which the launch runs the one that costs least (``cheapest``).

    ``plan(boxes, exact)`` makes them, from bounds of the access ranges; if the best of these has to merge,
    also from the exact ranges: bounds of several pieces overlap, their bytes may not.
    """
    found = [plan(boxes, False) for boxes in cuts[:_CANDIDATES_MAX]]
    if cheapest(found).merged_nbytes:
        exact = [plan(boxes, True) for boxes in cuts[:_CANDIDATES_MAX]]
        found = [min(pair, key=cost) for pair in zip(found, exact, strict=True)]
    return found


def cheapest(plans: Sequence[LaunchPlan]) -> LaunchPlan:
    """The plan to run."""
    return plans[0] if len(plans) == 1 else min(plans, key=cost)


def moved_nbytes(plan: LaunchPlan) -> int:
    """Bytes that running ``plan`` moves now: stale ones there, and merged ones home and back again."""
    stale = sum(
        used.buffer.directory.stale_nbytes(member_memory(k), piece.needs)
        for used in plan.buffers
        for k, piece in enumerate(used.pieces)
    )
    return stale + 2 * plan.merged_nbytes


def cost(plan: LaunchPlan) -> tuple[int, int, int]:
    """Order of cuts: bytes to move now and after; all bytes needed; number of contiguous pieces."""
    needed = pieces = 0
    for buffer in plan.buffers:
        for piece in buffer.pieces:
            needed += piece.needs.nbytes
            pieces += len(piece.needs.ranges) + len(piece.owns.ranges)
    return (moved_nbytes(plan), needed, pieces)


def _moved(ranges: RangeSet, offset: int) -> RangeSet:
    """``ranges`` of a sub-buffer as ranges of its root."""
    if not offset:
        return ranges
    return RangeSet(tuple(ByteRange(r.start + offset, r.stop + offset) for r in ranges.ranges))


def _buffer_plan(
    model: KernelModel,
    pointers: Sequence[tuple[int, Pointer]],
    buffer: VirtualBuffer,
    pieces: Sequence[_Gathered],
) -> BufferPlan:
    writes = [piece.exact.union(piece.may) for piece in pieces]
    arguments = [model.arguments[index] for index, pointer in pointers if pointer.buffer == buffer.id]
    cause = f"{model.name}: {', '.join([argument.name for argument in arguments])}"
    shared = _shared(writes)
    if not shared:
        found = [
            PieceAccess(piece.reads.union(piece.may), written)
            for piece, written in zip(pieces, writes, strict=True)
        ]
        return BufferPlan(buffer, tuple(found), (), 1, 1, cause)
    shared = _aligned(shared, buffer.nbytes)
    if len(shared.ranges) > _MERGED_RANGES_MAX:
        shared = RangeSet((ByteRange(shared.ranges[0].start, shared.ranges[-1].stop),))
    # Bytes that may stay unwritten keep their old value, and bytes that are merged are compared with it:
    # both must be current before the launch.
    compared = [_aligned(written, buffer.nbytes).intersection(shared) for written in writes]
    units = [(a.unit_nbytes or 1, a.smallest_unit_nbytes or 1) for a in arguments if a.writes]
    return BufferPlan(
        buffer,
        tuple(
            PieceAccess(piece.reads.union(piece.may).union(own), written.difference(shared))
            for piece, written, own in zip(pieces, writes, compared, strict=True)
        ),
        _merged(compared),
        max((largest for largest, _ in units), default=1),
        min((smallest for _, smallest in units), default=1),
        cause,
    )


def _merged(compared: Sequence[RangeSet]) -> tuple[MergedRange, ...]:
    """The bytes of all sets, cut where the sets that hold them change."""
    edges = sorted(
        edge
        for piece, ranges in enumerate(compared)
        for part in ranges.ranges
        for edge in ((part.start, piece), (part.stop, piece))
    )
    found: list[MergedRange] = []
    inside: set[int] = set()
    start = 0
    for offset, piece in edges:
        if inside and offset > start:
            found.append(MergedRange(ByteRange(start, offset), tuple(sorted(inside))))
        inside ^= {piece}
        start = offset
    return tuple(found)


def _shared(writes: Sequence[RangeSet]) -> RangeSet:
    """Bytes that more than one set holds; O(n log n) over all ranges."""
    everything = sorted([(part.start, part.stop) for ranges in writes for part in ranges.ranges])
    if all(before[1] <= after[0] for before, after in pairwise(everything)):
        return _EMPTY
    edges = sorted(edge for start, stop in everything for edge in ((start, 1), (stop, -1)))
    found: list[ByteRange] = []
    depth = start = 0
    for offset, step in edges:
        if depth >= 2 and offset > start:
            found.append(ByteRange(start, offset))
        depth += step
        start = offset
    return RangeSet.of(found)


def _aligned(ranges: RangeSet, nbytes: int) -> RangeSet:
    """``ranges`` widened to multiples of the alignment, within the buffer."""
    return RangeSet.of(
        ByteRange(
            part.start // _ALIGNMENT * _ALIGNMENT, min(-(-part.stop // _ALIGNMENT) * _ALIGNMENT, nbytes)
        )
        for part in ranges.ranges
    )
