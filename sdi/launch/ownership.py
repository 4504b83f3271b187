"""Which bytes each assignment of a launch owns where none is written by several, and what it needs then.

What lies between the bytes that it writes may be its own too, if nobody else writes there: it has to be
current before the launch, and nobody else holds it afterwards.  So much more moves, once, and there is one
range instead of one per row or element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_

from sdi.grid import num_entries
from sdi.intervals import ByteRange, overlaid
from sdi.region import Bytes, within
from sdi.region_map import ENTRIES_MAX, RegionMap
from sdi.regions import RegionSet, are_disjoint, union_of

_GAP_NBYTES = 64
"""Gaps up to this size cost more to leave out than to move."""
_PIECES_MIN, _DENSE = 1 << 12, 0.75
"""In so many pieces together, and so full, a range is one's own from the first to the last byte."""
_ANYWHERE = ByteRange(0, 1 << 62)


def needed_and_owned(
    reads: Sequence[RegionSet], writes: Sequence[RegionSet]
) -> list[tuple[RegionSet, RegionSet]]:
    """For each assignment; ``reads``: and what it writes perhaps.  The sets of ``writes`` are disjoint."""
    filled = _filled(writes)
    alone = _alone(writes) if sum([own.num_runs for own in filled]) >= _PIECES_MIN else None
    if alone is not None:
        return _with_all(reads, writes, alone)
    return [
        (union_of((read, own.difference(written))).filled(_GAP_NBYTES), own)
        for read, written, own in zip(reads, writes, filled, strict=True)
    ]


def _filled(writes: Sequence[RegionSet]) -> Sequence[RegionSet]:
    """Disjoint sets without narrow gaps, where that leaves them disjoint."""
    filled = [written.filled(_GAP_NBYTES) for written in writes]
    is_same = all(map(is_, filled, writes))
    return filled if not is_same and are_disjoint(filled) else writes


def _alone(writes: Sequence[RegionSet]) -> list[list[ByteRange]] | None:
    """For each assignment the ranges between whose first and last byte only its own are written, where these
    are most of it and in little pieces; else None.

    Of a slab of cells the planes are left at which slabs meet.
    """
    if len(writes) < 2:
        return None
    levels = [level for written in writes for each in written.regions for level in each.levels]
    stride = max([stride for stride, _ in levels], default=1)
    found: list[list[ByteRange]] = [[] for _ in writes]
    bounds = [[] if written.bounds is None else [written.bounds] for written in writes]
    for over, holders in overlaid(bounds):
        first, last = -(-over.start // stride) * stride, over.stop // stride * stride  # whole rows or planes
        if len(holders) == 1 and first < last:
            found[holders[0]].append(ByteRange(first, last))
    for written, ranges in zip(writes, found, strict=True):
        held = sum([part.total_nbytes for part in _in_any(written.regions, ranges)])
        if held < _DENSE * sum([each.nbytes for each in ranges]):
            return None
    return found if any(found) else None


def _with_all(
    reads: Sequence[RegionSet], writes: Sequence[RegionSet], alone: Sequence[Sequence[ByteRange]]
) -> list[tuple[RegionSet, RegionSet]]:
    """Of assignments that own all of some ranges, which they need then, and share the others out."""
    divided: list[list[Bytes]] = [[] for _ in alone]
    ends = [bounds for written in writes if (bounds := written.bounds) is not None]
    all_written = ByteRange(min([each.start for each in ends]), max([each.stop for each in ends]))
    for over in _between([each for ranges in alone for each in ranges], all_written):
        for k, part in _shared_out(over, writes):
            divided[k].append(part)
    found: list[tuple[RegionSet, RegionSet]] = []
    for read, parts, ranges in zip(reads, divided, alone, strict=True):
        own = RegionSet.of_disjoint([*ranges, *parts])
        needs = list(own.regions)
        for over in _between(ranges, _ANYWHERE):  # one by one: together they have more edges
            here, mine = [RegionSet.of_disjoint(_in_any(each, [over])) for each in (read.regions, parts)]
            needs += here.difference(mine).regions
        found.append((RegionSet.of_disjoint(needs), own))
    return found


def _shared_out(over: ByteRange, writes: Sequence[RegionSet]) -> list[tuple[int, Bytes]]:
    """Whose what is in ``over`` is, where several write; what nobody writes goes with its neighbours."""
    pieces = [(k, part) for k, written in enumerate(writes) for part in _in_any(written.regions, [over])]
    stride = max([stride for _, part in pieces for stride, _ in part.levels], default=1)
    base = over.start // stride * stride
    if (num_entries([part for _, part in pieces]) or ENTRIES_MAX + 1) > ENTRIES_MAX:
        return pieces
    owners = RegionMap[int](over.stop - base, -1)
    for k, part in pieces:
        owners.assign(part.moved(-base), k)
    if not owners.grid.strides:
        return pieces
    owners.fill(-1)
    parts = [
        (k, part.moved(base)) for part, k in owners.items(ByteRange(over.start - base, over.stop - base))
    ]
    return [(k, part) for k, part in parts if k >= 0]


def _between(ranges: Sequence[ByteRange], all_of: ByteRange) -> list[ByteRange]:
    """What of ``all_of`` is in none of them."""
    return RegionSet((all_of,)).difference(RegionSet.of(ranges)).runs()


def _in_any(regions: Iterable[Bytes], ranges: Iterable[ByteRange]) -> list[Bytes]:
    return [part for each in ranges for over in regions for part in within(over, each.start, each.stop)]
