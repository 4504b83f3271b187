"""Maps and sets of strided bytes: ``RegionMap``, ``RegionSet``.

A map lies on a grid (``grid.py``) that it learns from the regions it is asked for.  On the grid it is a
table: along each digit the places where values change, and a value for each box between them.  So what rows,
columns and planes of a matrix have is a few entries, however many runs these are; and equal maps on a grid
have equal tables.  Without strides it is a ``RangeMap``, which has an entry for each run.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from operator import attrgetter, is_
from typing import Generic, TypeVar

from sdi.grid import Box, Grid, Interval
from sdi.intervals import ByteRange, RangeMap, coalesce
from sdi.region import Bytes, Levels, bytes_of, within

V = TypeVar("V")
_LOOKED_AT, _ROW_MIN, _LEARNT_MIN = 4, 3, 8
"""How many regions behind one may be the next of its row; how many make a row; and so many runs that it is
worth to learn a grid for them.
"""
ENTRIES_MAX = 4096
"""Of a table: one that grows beyond is put on the grid without strides, where each run has an entry."""
_NO_GRID = Grid()


class RegionMap(Generic[V]):
    """Total map from the bytes of ``[0, nbytes)`` to values, which are compared with ``==``.

    A look-up or change costs as many steps as the boxes it meets, and one along each digit's changes.
    """

    __slots__ = ("_cuts", "_flat", "_grid", "_learns", "_values", "nbytes")

    def __init__(self, nbytes: int, value: V, grid: Grid | None = None) -> None:
        if nbytes < 1:
            raise ValueError(f"a map over {nbytes} bytes")
        self.nbytes = nbytes
        self._grid = grid or _NO_GRID
        self._learns = True
        self._flat = None if self._grid.strides else RangeMap(nbytes, value)
        self._cuts = [] if self._flat is not None else [[0] for _ in self._grid.units]
        self._values = [value]

    def __len__(self) -> int:
        """Entries."""
        return len(self._values if self._flat is None else self._flat)

    @property
    def grid(self) -> Grid:
        """The grid that the map has learnt."""
        return self._grid

    def whole(self) -> V | None:
        """The one value when all bytes have it, else None."""
        if self._flat is not None:
            return self._flat.whole()
        return self._values[0] if len(self._values) == 1 else None

    def key(self) -> tuple[object, ...]:
        """Equal for equal maps on equal grids."""
        if self._flat is not None:
            return self._flat.key()
        return self._grid.strides, *map(tuple, self._cuts), *self._values

    def copy(self) -> RegionMap[V]:
        """A map with the same values that changes by itself."""
        made: RegionMap[V] = RegionMap.__new__(RegionMap)
        made.nbytes = self.nbytes
        made._grid, made._learns = self._grid, self._learns
        made._flat = None if self._flat is None else self._flat.copy()
        made._cuts = [list(cuts) for cuts in self._cuts]
        made._values = list(self._values)
        return made

    def values(self, over: Bytes) -> list[V]:
        """The values in ``over``, some perhaps more than once."""
        if over.levels:
            self._learn(over)
        if (flat := self._flat) is not None:
            if not over.levels:
                return flat.values(over.bounds)
            return [value for run in over.runs() for value in flat.values(run)]
        return [value for box in self._boxes_of(over) for _, value in self._items(box)]

    def items(self, over: Bytes) -> Sequence[tuple[Bytes, V]]:
        """Disjoint regions that make up ``over``, and their values; equal neighbours of one box are one."""
        if over.levels:
            self._learn(over)
        if (flat := self._flat) is not None:
            if not over.levels:
                return flat.items(over.bounds)
            if (value := flat.whole()) is not None:
                return [(over, value)]
            return [item for run in over.runs() for item in flat.items(run)]
        region = self._grid.region
        return [(region(box), value) for part in self._boxes_of(over) for box, value in self._items(part)]

    def sizes(self, over: Bytes) -> list[tuple[V, int]]:
        """The values of ``items``, each with how many bytes have it; faster."""
        if over.levels:
            self._learn(over)
        if (flat := self._flat) is not None:
            if not over.levels:
                return flat.sizes(over.bounds)
            return [item for run in over.runs() for item in flat.sizes(run)]
        return [(value, _size(box)) for part in self._boxes_of(over) for box, value in self._items(part)]

    def update(self, over: Bytes, change: Callable[[V], V]) -> None:
        """Replace each value v in ``over`` by ``change(v)``; called at least once per value."""
        if over.levels:
            self._learn(over)
        if (flat := self._flat) is not None:
            for run in over.runs():
                flat.update(run, change)
            return
        for box in self._boxes_of(over, is_padded=True):
            self._update(box, change)
        if len(self._values) > ENTRIES_MAX:
            self._put_on(_NO_GRID)
            self._learns = False  # what is accessed here has no grid, until all is one again

    def assign(self, over: Bytes, value: V) -> None:
        """Give every byte of ``over`` the same value."""
        if over.nbytes == self.nbytes:
            self._learns = True
        if over.levels:
            self._learn(over)
        if (flat := self._flat) is not None:
            for run in over.runs():
                flat.assign(run, value)
        elif over.nbytes == self.nbytes:
            self._cuts, self._values = [[0] for _ in self._cuts], [value]
        else:
            self.update(over, lambda _: value)

    def check(self) -> None:
        """Assert the invariants (for tests)."""
        if self._flat is not None:
            assert not self._grid.strides
            self._flat.check()
            return
        assert prod(map(len, self._cuts)) == len(self._values)
        for digit, cuts in enumerate(self._cuts):
            assert cuts[0] == 0 and all(a < b for a, b in pairwise(cuts)) and cuts[-1] < self._stop(digit)
            assert not any(self._are_alike(digit, at) for at in range(1, len(cuts)))

    # -- the grid ----------------------------------------------------------------------------------------

    def _learn(self, over: Bytes) -> None:
        """Have the strides of a region that is asked for, if it is worth it."""
        if self._learns and over.num_runs >= _LEARNT_MIN and len(self) <= ENTRIES_MAX:
            grid = self._grid.refined(over)
            if grid is not None and grid is not self._grid:
                self._put_on(grid)

    def _put_on(self, grid: Grid) -> None:
        """Learn a grid."""
        made = RegionMap(self.nbytes, self.values(ByteRange(0, 1))[0], grid)
        flat = made._flat
        for over, value in self.items(ByteRange(0, self.nbytes)):
            if flat is not None:
                for run in over.runs():
                    flat.assign(run, value)
            else:
                for box in made._boxes_of(over, is_padded=True):
                    made._update(box, lambda _, value=value: value)  # type: ignore[misc]
        self._grid, self._flat, self._cuts, self._values = made._grid, flat, made._cuts, made._values

    def _boxes_of(self, over: Bytes, is_padded: bool = False) -> Iterator[Box]:
        """Of ``over``, of its runs each where the grid lacks its strides.

        ``is_padded``: with the last byte goes what follows it on the grid.
        """
        stop = over.bounds.stop
        if stop > self.nbytes:
            raise ValueError(f"{over} goes past the {self.nbytes} bytes")
        units = self._grid.units
        if over.levels and not all(stride in self._grid.strides for stride, _ in over.levels):
            for run in over.runs():
                yield from self._boxes_of(run, is_padded)
            return
        if is_padded and stop == self.nbytes and not over.levels:
            over = ByteRange(over.base, self._stop(len(units) - 1) * units[-1])
        yield from self._grid.boxes(over)

    def _stop(self, digit: int) -> int:
        radices = self._grid.radices
        return radices[digit] if digit < len(radices) else -(-self.nbytes // self._grid.units[-1])

    # -- the table: the values along the lowest digit are side by side ---------------------------------------

    def _update(self, box: Box, change: Callable[[V], V]) -> None:
        for digit, (start, stop) in enumerate(box):
            self._cut(digit, start)
            self._cut(digit, stop)
        spans = self._spans(box)
        known: dict[int, tuple[V, V]] = {}
        values = self._values
        for at in self._rows(spans):
            for number in range(at, at + spans[0][1] - spans[0][0]):
                old = values[number]
                found = known.get(id(old))
                if found is None:
                    found = known[id(old)] = old, change(old)
                values[number] = found[1]
        for digit, (first, last) in enumerate(spans):
            for at in range(min(last, len(self._cuts[digit]) - 1), max(first, 1) - 1, -1):
                if self._are_alike(digit, at):
                    self._join(digit, at)

    def _spans(self, box: Box) -> list[Interval]:
        """Which entries of each digit a box has, whose edges are cuts or not."""
        return [
            (bisect_right(cuts, start) - 1, bisect_left(cuts, stop))
            for cuts, (start, stop) in zip(self._cuts, box, strict=True)
        ]

    def _rows(self, spans: Sequence[Interval]) -> list[int]:
        """Where in the table the entries of ``spans`` begin, for each combination of the higher digits."""
        found, size = [spans[0][0]], 1
        for cuts, (first, last) in zip(self._cuts, spans[1:], strict=False):
            size *= len(cuts)
            found = [at + number * size for number in range(first, last) for at in found]
        return found

    def _inner(self, digit: int) -> int:
        return prod(map(len, self._cuts[:digit]))

    def _cut(self, digit: int, at: int) -> None:
        """Have entries begin at ``at``."""
        cuts = self._cuts[digit]
        number = bisect_left(cuts, at)
        if at >= self._stop(digit) or (number < len(cuts) and cuts[number] == at):
            return
        inner = self._inner(digit)
        values, step = self._values, inner * len(cuts)
        made: list[V] = []
        for first in range(0, len(values), step):
            middle = first + number * inner
            made += values[first:middle]
            made += values[middle - inner : first + step]
        cuts.insert(number, at)
        self._values = made

    def _are_alike(self, digit: int, at: int) -> bool:
        """Whether the entries number ``at`` along a digit equal those before."""
        inner = self._inner(digit)
        values, step = self._values, inner * len(self._cuts[digit])
        return all(
            values[first - inner : first] == values[first : first + inner]
            for first in range(at * inner, len(values), step)
        )

    def _join(self, digit: int, at: int) -> None:
        inner = self._inner(digit)
        values, step = self._values, inner * len(self._cuts[digit])
        made: list[V] = []
        for first in range(0, len(values), step):
            made += values[first : first + at * inner]
            made += values[first + (at + 1) * inner : first + step]
        del self._cuts[digit][at]
        self._values = made

    def _items(self, over: Box) -> list[tuple[Box, V]]:
        """Boxes that make up ``over``, with their values."""
        spans = self._spans(over)
        edges = [
            [start, *cuts[first + 1 : last], stop]
            for cuts, (start, stop), (first, last) in zip(self._cuts, over, spans, strict=True)
        ]
        sizes = [self._inner(digit) for digit in range(len(spans))]
        base = sum(first * size for (first, _), size in zip(spans, sizes, strict=True))
        return self._joined(len(spans) - 1, base, edges, sizes)

    def _joined(self, digit: int, base: int, edges: list[list[int]], sizes: list[int]) -> list[tuple[Box, V]]:
        """The entries from ``base`` on, as boxes of the digits up to ``digit``: like neighbours are one."""
        found: list[tuple[Box, V]] = []
        own = edges[digit]
        if digit == 0:
            start = 0
            values = self._values[base : base + len(own) - 1]
            for at in range(1, len(values) + 1):
                if at == len(values) or values[at] != values[start]:
                    found.append((((own[start], own[at]),), values[start]))
                    start = at
            return found
        if len(own) == 2:
            return [((*box, (own[0], own[1])), v) for box, v in self._joined(digit - 1, base, edges, sizes)]
        begun: dict[Box, tuple[int, V]] = {}
        for at in range(len(own) - 1):
            here = dict(self._joined(digit - 1, base + at * sizes[digit], edges, sizes))
            for box in [box for box, (_, value) in begun.items() if box not in here or here[box] != value]:
                start, value = begun.pop(box)
                found.append(((*box, (start, own[at])), value))
            for box, value in here.items():
                begun.setdefault(box, (own[at], value))
        return found + [((*box, (start, own[-1])), value) for box, (start, value) in begun.items()]


@dataclass(frozen=True, slots=True, eq=False)
class RegionSet:
    """A set of bytes: disjoint regions by their bases, as few as ``of`` finds.  Equal sets compare equal.

    What lies between regions of no levels is no part of it: there they never touch.
    """

    regions: tuple[Bytes, ...] = ()

    def __post_init__(self) -> None:
        if len(self.regions) > 1 and any(
            not (a.levels or b.levels) and a.bounds.stop >= b.base for a, b in pairwise(self.regions)
        ):
            raise ValueError("ranges of a set are sorted and never touch")

    @staticmethod
    def of(regions: Iterable[Bytes]) -> RegionSet:
        """The union of any regions."""
        given = list(regions)
        if len(given) < 2 and not (given and given[0].levels):
            return RegionSet((given[0].bounds,)) if given else EMPTY
        levels = _common_levels(given)
        if levels == ():
            runs = coalesce([each.bounds for each in given])
            return RegionSet(tuple(_in_rows(runs) if len(runs) >= _ROW_MIN else runs))
        if levels is not None:
            firsts = coalesce([ByteRange(each.base, each.base + each.nbytes) for each in given])
            return _with_levels(firsts, levels)
        union = _marked(given)
        parts = [part for part, has in union.items(ByteRange(0, union.nbytes)) if has]
        return RegionSet(tuple(_joined(parts)))

    def __bool__(self) -> bool:
        """Whether there is any byte."""
        return bool(self.regions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RegionSet):
            return NotImplemented
        if self.regions == other.regions:
            return True
        return self.nbytes == other.nbytes and self.bounds == other.bounds and not self.difference(other)

    def __hash__(self) -> int:
        return hash((self.nbytes, self.bounds))

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return sum([each.total_nbytes for each in self.regions])

    @property
    def num_runs(self) -> int:
        """Runs of bytes."""
        return sum([each.num_runs for each in self.regions])

    @property
    def bounds(self) -> ByteRange | None:
        """The smallest range that holds the set; None without bytes."""
        if not self.regions:
            return None
        if len(self.regions) == 1:
            return self.regions[0].bounds
        return ByteRange(self.regions[0].base, max([each.bounds.stop for each in self.regions]))

    def runs(self) -> list[ByteRange]:
        """All runs, in order."""
        return coalesce([run for each in self.regions for run in each.runs()])

    def moved(self, by: int) -> RegionSet:
        """The same, that many bytes on."""
        return RegionSet(tuple([each.moved(by) for each in self.regions])) if by else self

    def union(self, other: RegionSet) -> RegionSet:
        """Bytes of either set."""
        return RegionSet.of((*self.regions, *other.regions)) if self and other else self or other

    def intersection(self, other: RegionSet) -> RegionSet:
        """Bytes of both sets."""
        return self._by(other, True)

    def difference(self, other: RegionSet) -> RegionSet:
        """Bytes of this set that are not in ``other``."""
        return EMPTY if self is other else self._by(other, False)

    def overlaps(self, other: RegionSet) -> bool:
        """Whether a byte is in both sets."""
        return bool(self.intersection(other))

    def filled(self, gap_nbytes: int) -> RegionSet:
        """With all gaps of at most so many bytes."""
        if len(self.regions) < 2 and not (self.regions and self.regions[0].levels):
            return self
        found: list[Bytes] = []
        for each in [_filled(each, gap_nbytes) for each in self.regions]:
            last = found[-1] if found else None
            is_near = last is not None and not (last.levels or each.levels)
            if is_near and last is not None and each.base - last.bounds.stop <= gap_nbytes:
                found[-1] = ByteRange(last.base, max(last.bounds.stop, each.bounds.stop))
            else:
                found.append(each)
        if len(found) == len(self.regions) and all(map(is_, found, self.regions)):
            return self
        return RegionSet.of(found)

    def widened(self, unit_nbytes: int, nbytes: int) -> RegionSet:
        """With the whole of each unit of which it has a byte, as far as ``nbytes`` have one."""

        def units(over: Bytes) -> Bytes:
            start = over.base // unit_nbytes * unit_nbytes
            stop = -(-(over.base + over.nbytes) // unit_nbytes) * unit_nbytes
            strides = [stride for stride, _ in over.levels]
            if any(stride % unit_nbytes for stride in strides) or (strides and strides[0] < stop - start):
                return ByteRange(start, -(-over.bounds.stop // unit_nbytes) * unit_nbytes)
            return bytes_of(start, stop - start, over.levels)

        return RegionSet.of([part for each in self.regions for part in within(units(each), 0, nbytes)])

    def _by(self, other: RegionSet, is_in: bool) -> RegionSet:
        """The bytes that are in ``other``, or that are not."""
        mine, theirs = self.bounds, other.bounds
        if mine is None or theirs is None or mine.stop <= theirs.start or theirs.stop <= mine.start:
            return EMPTY if is_in else self
        levels = _common_levels((*self.regions, *other.regions))
        if levels is not None:
            return _with_levels(_either(self.regions, other.regions, is_in), levels)
        marked = _marked(other.regions, mine.stop)
        parts = [part for each in self.regions for part, has in marked.items(each) if has == is_in]
        return RegionSet(tuple(_joined(parts)))


EMPTY = RegionSet()


def _size(box: Box) -> int:
    return prod([stop - start for start, stop in box])


def _common_levels(regions: Sequence[Bytes]) -> Levels | None:
    """The levels that all have, if the first runs of all lie within one stride; None where there are none.

    Then what is done to the first runs is done to all.
    """
    levels = regions[0].levels
    for each in regions:
        if each.levels != levels:
            return None
    if levels and len(regions) > 1:
        first, last = min([each.base for each in regions]), max([each.base + each.nbytes for each in regions])
        if last - first > levels[0][0]:
            return None
    return levels


def _with_levels(runs: Sequence[ByteRange], levels: Levels) -> RegionSet:
    """Sorted runs that don't touch, each as often as ``levels`` say."""
    if levels:
        return RegionSet(tuple([bytes_of(run.start, run.nbytes, levels) for run in runs]))
    return RegionSet(tuple(runs))


def _either(mine: Sequence[Bytes], theirs: Sequence[Bytes], is_in: bool) -> list[ByteRange]:
    """The bytes of ``mine``'s first runs, which are in order, that are in those of ``theirs``, or are not."""
    found: list[ByteRange] = []
    there = 0
    for part in mine:
        start, stop = part.base, part.base + part.nbytes
        while there < len(theirs) and theirs[there].base + theirs[there].nbytes <= start:
            there += 1
        look = there
        while look < len(theirs) and theirs[look].base < stop:
            begin, end = theirs[look].base, theirs[look].base + theirs[look].nbytes
            if is_in:
                found.append(ByteRange(max(start, begin), min(stop, end)))
            elif start < begin:
                found.append(ByteRange(start, begin))
            start = max(start, end)
            look += 1
        if not is_in and start < stop:
            found.append(ByteRange(start, stop))
    return found


def as_few(parts: list[Bytes]) -> list[Bytes]:
    """The same bytes of disjoint regions in as few as ``RegionSet.of`` finds."""
    return parts if len(parts) < 2 else list(RegionSet.of(parts).regions)


def shared(sets: Sequence[RegionSet]) -> RegionSet:
    """Bytes that more than one of the sets hold."""
    spans = [bounds for each in sets if (bounds := each.bounds) is not None]
    spans.sort(key=attrgetter("start"))
    if all([before.stop <= after.start for before, after in pairwise(spans)]):  # noqa: C419 (faster)
        return EMPTY
    every = [part for each in sets for part in each.regions]
    levels = _common_levels(every)
    if levels is not None:
        edges = sorted([edge for e in every for edge in ((e.base, 1), (e.base + e.nbytes, -1))])
        twice: list[ByteRange] = []
        depth = start = 0
        for offset, step in edges:
            if depth >= 2 and offset > start:
                twice.append(ByteRange(start, offset))
            depth += step
            start = offset
        return _with_levels(coalesce(twice), levels)
    stride = max([stride for each in every for stride, _ in each.levels])
    seen = _marked([], max([each.bounds.stop for each in every]), stride)
    found: list[Bytes] = []
    for each in sets:
        for part in each.regions:
            found += [both for both, has in seen.items(part) if has]
            seen.assign(part, True)
    return RegionSet.of(found)


def _marked(regions: Sequence[Bytes], least_nbytes: int = 1, stride: int = 1) -> RegionMap[bool]:
    """Which bytes are in any of them.  Its size is a whole number of their strides."""
    stop = max([least_nbytes, *(each.bounds.stop for each in regions)])
    stride = max([stride, *(stride for each in regions for stride, _ in each.levels)])
    marked = RegionMap(-(-stop // stride) * stride, False)
    for each in regions:
        marked.assign(each, True)
    return marked


def _filled(over: Bytes, gap_nbytes: int) -> Bytes:
    nbytes = over.nbytes
    for number, (stride, count) in enumerate(over.levels):
        if stride - nbytes > gap_nbytes:
            return over if not number else bytes_of(over.base, nbytes, over.levels[number:])
        nbytes += stride * (count - 1)
    return over if not over.levels else ByteRange(over.base, over.base + nbytes)


def _joined(regions: Sequence[Bytes]) -> list[Bytes]:
    """The same bytes of disjoint regions: what touches is one, what is at equal distances a level more."""
    touching: list[Bytes] = []
    at: dict[tuple[int, Levels], int] = {}  # where runs of such levels end
    for each in sorted(regions, key=lambda each: each.base):
        before = at.pop((each.base, each.levels), None)
        if before is None:
            before = len(touching)
            touching.append(each)
        else:
            last = touching[before]
            touching[before] = bytes_of(last.base, last.nbytes + each.nbytes, each.levels)
        one = touching[before]
        at[one.base + one.nbytes, one.levels] = before
    return _in_rows(touching)


def _in_rows(regions: Sequence[Bytes]) -> list[Bytes]:
    """The same, what is at equal distances as a level more."""
    alike: dict[tuple[int, Levels], list[Bytes]] = {}
    for each in regions:
        alike.setdefault((each.nbytes, each.levels), []).append(each)
    found = [part for group in alike.values() for part in _series(group)]
    found.sort(key=lambda each: each.base)
    return found


def _series(group: list[Bytes]) -> Iterator[Bytes]:
    """Like regions, by their bases: those at equal distances as one, from each the longest row of them."""
    bases = [each.base for each in group]
    span, levels = group[0].bounds.nbytes, group[0].levels
    left = dict.fromkeys(bases)
    for at, base in enumerate(bases):
        if base not in left:
            continue
        best = (1, 0)
        for other in bases[at + 1 : at + 1 + _LOOKED_AT]:
            distance = other - base
            if other in left and distance >= span:
                count = 2
                while base + count * distance in left:
                    count += 1
                best = max(best, (count, -distance))
        count, distance = best[0], -best[1]
        if count < _ROW_MIN:
            count = 1
        for number in range(count):
            del left[base + number * distance]
        more = ((distance, count),) if count > 1 else ()
        yield bytes_of(base, group[0].nbytes, (*levels, *more))
