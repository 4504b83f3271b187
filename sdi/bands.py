"""Sets of a few regions put together band by band: no map is made of them.

On a grid that all of them lie on, a region is a box of digits.  Along the highest digit the boxes' edges cut
everything into bands; in a band the same is done with the next lower digit; the lowest has intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise

from sdi.grid import STRIDES_MAX, Box, Grid, Interval
from sdi.region import Bytes, bytes_of

FEW = 12
"""Of more regions a map is faster."""
_PHASES_MAX = 4


def combined(mine: Sequence[Bytes], theirs: Sequence[Bytes], is_in: bool) -> list[Bytes] | None:
    """The bytes of any of ``mine`` that are in one of ``theirs``, or that are in none: disjoint regions.

    None where they lie on no common grid, or are not few.
    """
    every = [*mine, *theirs]
    strides = _apart(stride for each in every for stride, _ in each.levels)
    if len(every) > FEW or not 0 < len(strides) <= STRIDES_MAX:
        return None
    if strides[0] == 1 or any(above % below for below, above in pairwise(strides)):
        return None
    grid = Grid(tuple(strides))
    best: list[list[Box]] = []
    shift = least = 0
    for phase in _phases(every, strides)[:_PHASES_MAX]:
        by = strides[-1] - phase
        boxes = [grid.boxes(each.moved(by)) for each in every]
        count = sum(map(len, boxes))
        if not best or count < least:
            best, least, shift = boxes, count, by
        if count == len(every):
            break
    if least > 2 * FEW:
        return None
    own = [box for boxes in best[: len(mine)] for box in boxes]
    others = [box for boxes in best[len(mine) :] for box in boxes]
    found = _bands(own, others, is_in)
    if not theirs and len(found) > len(mine) and not any(_meet(a, b) for a, b in combinations(own, 2)):
        return list(mine)
    return [_moved(grid.region(box), -shift) for box in found]


def _phases(every: Sequence[Bytes], strides: Sequence[int]) -> list[int]:
    """Where rows may begin: so that few regions pass their end, at best not where one goes on as another."""
    *inner, row = strides
    ends = [each.base + each.nbytes for each in every]
    for step in inner:
        ends += [each.base + step * max([c for s, c in each.levels if s == step] or [1]) for each in every]
    behind = [end % row for end in ends]
    found = _apart(each.base % row for each in every)
    return [
        *[phase for phase in found if phase not in behind],
        *[phase for phase in found if phase in behind],
    ]


def _meet(one: Box, other: Box) -> bool:
    return all(a[0] < b[1] and b[0] < a[1] for a, b in zip(one, other, strict=True))


def _moved(over: Bytes, by: int) -> Bytes:
    return bytes_of(over.base + by, over.nbytes, over.levels)


def _bands(mine: list[Box], theirs: list[Box], is_in: bool) -> list[Box]:
    """The same of boxes; neighbours that are alike are one."""
    if not mine or (is_in and not theirs):
        return []
    if len(mine) == 1 and not theirs:
        return mine
    if len(mine[0]) == 1:
        return [(each,) for each in _intervals([box[0] for box in mine], [box[0] for box in theirs], is_in)]
    edges = _apart(edge for box in (*mine, *theirs) for edge in box[-1])
    found: list[Box] = []
    before: list[Box] = []
    start = edges[0]
    for at in edges:  # behind the last one is nothing
        here = _bands(_across(mine, at), _across(theirs, at), is_in)
        if here != before:
            found += [(*box, (start, at)) for box in before]
            before, start = here, at
    return found


def _apart(numbers: Iterable[int]) -> list[int]:
    """Each once, in order; not by their hashes (see ``sdi.sampling.tracing``)."""
    found: list[int] = []
    for number in sorted(numbers):
        if not found or number != found[-1]:
            found.append(number)
    return found


def _across(boxes: list[Box], at: int) -> list[Box]:
    """What the boxes that have ``at`` as their highest digit have as the others."""
    return [box[:-1] for box in boxes if box[-1][0] <= at < box[-1][1]]


def _intervals(mine: list[Interval], theirs: list[Interval], is_in: bool) -> Iterator[Interval]:
    own, others = _joined(mine), _joined(theirs)
    if not others:
        yield from () if is_in else own
        return
    for start, stop in own:
        at = start
        for first, last in others:
            if last <= at or first >= stop:
                continue
            if is_in:
                yield max(at, first), min(stop, last)
            elif at < first:
                yield at, first
            at = max(at, last)
        if not is_in and at < stop:
            yield at, stop


def _joined(intervals: list[Interval]) -> list[Interval]:
    """The same as intervals that never touch, in order."""
    found: list[Interval] = []
    for start, stop in sorted(intervals):
        if found and start <= found[-1][1]:
            if stop > found[-1][1]:
                found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found
