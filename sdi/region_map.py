"""Maps of strided bytes: ``RegionMap``.

A map lies on a grid (``grid.py``) that it learns from the regions it is asked for.  On the grid it is a
table: along each digit the places where values change, and a value for each box between them.  So what rows,
columns and planes of a matrix have is a few entries, however many runs these are; and equal maps on a grid
have equal tables.  Without strides it is a ``RangeMap``, which has an entry for each run.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Generic, TypeVar

from sdi.grid import Box, Grid, Interval, num_entries
from sdi.intervals import ByteRange, RangeMap
from sdi.region import Bytes, within

V = TypeVar("V")
_LEARNT_MIN, _APART_MAX = 8, 64
"""A grid is learnt for so many runs; so many that are on no common one are put on it one by one."""
ENTRIES_MAX = 4096
"""Of a table: one that grows beyond is put on the grid without strides, where each run has an entry."""
_TABLE_MAX = 8 * ENTRIES_MAX
"""No grid is learnt on which there might be more: ranges anywhere have edges on each of its digits."""
_COPIED_MAX = 256
"""A larger map learns what it is asked for itself."""
_NO_GRID = Grid()


class RegionMap(Generic[V]):
    """Total map from the bytes of ``[0, nbytes)`` to values, which are compared with ``==``.

    A look-up or change costs as many steps as the boxes it meets, and one along each digit's changes.
    Changes teach the grid; where the map is only asked, a copy learns what the question needs, so that what
    was looked at once makes nothing slower from then on.
    """

    __slots__ = ("_asked", "_cuts", "_flat", "_grid", "_learns", "_values", "nbytes")

    def __init__(self, nbytes: int, value: V, grid: Grid | None = None, learns: bool = True) -> None:
        """``learns``: whether the grid gets the strides of regions that it is asked for."""
        if nbytes < 1:
            raise ValueError(f"a map over {nbytes} bytes")
        self.nbytes = nbytes
        self._grid = grid or _NO_GRID
        self._learns = learns
        self._asked: RegionMap[V] | None = None
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
        made._grid, made._learns, made._asked = self._grid, self._learns, None
        made._flat = None if self._flat is None else self._flat.copy()
        made._cuts = [list(cuts) for cuts in self._cuts]
        made._values = list(self._values)
        return made

    def values(self, over: Bytes) -> list[V]:
        """The values in ``over``, some perhaps more than once."""
        at = self._to_ask(over) if over.levels else self
        if (flat := at._flat) is not None:
            return [value for _, value in _items_of(flat, over)] if over.levels else flat.values(over.bounds)
        return [value for box in at._boxes_of(over) for _, value in at._items(box)]

    def items(self, over: Bytes) -> Sequence[tuple[Bytes, V]]:
        """Disjoint regions that make up ``over``, and their values; equal neighbours of one box are one."""
        at = self._to_ask(over) if over.levels else self
        if (flat := at._flat) is not None:
            return _items_of(flat, over) if over.levels else flat.items(over.bounds)
        region = at._grid.region
        return [(region(box), value) for part in at._boxes_of(over) for box, value in at._items(part)]

    def sizes(self, over: Bytes) -> list[tuple[V, int]]:
        """The values of ``items``, each with how many bytes have it; faster."""
        at = self._to_ask(over) if over.levels else self
        if (flat := at._flat) is not None:
            if not over.levels:
                return flat.sizes(over.bounds)
            return [(value, part.total_nbytes) for part, value in _items_of(flat, over)]
        return [(value, _size(box)) for part in at._boxes_of(over) for box, value in at._items(part)]

    def update(self, over: Bytes, change: Callable[[V], V]) -> None:
        """Replace each value v in ``over`` by ``change(v)``; called at least once per value."""
        self._asked = None
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
        self._asked = None
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

    def fill(self, empty: V) -> None:
        """Give what is ``empty`` the value of a neighbour along a digit, of bytes within the smallest stride
        last, so that few entries are left.  Not without strides.
        """
        self._asked = None
        for digit in (*range(1, len(self._cuts)), 0):
            values, inner = self._values, self._inner(digit)
            step = inner * len(self._cuts[digit])
            for start in range(0, len(values) if self._flat is None else 0, step):
                for first in range(start, start + inner):
                    for line in (
                        range(first, first + step, inner),
                        range(first + step - inner, first - 1, -inner),
                    ):
                        last = empty
                        for at in line:
                            last = values[at] = values[at] if values[at] != empty else last
            for at in range(len(self._cuts[digit]) - 1, 0, -1):
                if self._are_alike(digit, at):
                    self._join(digit, at)

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

    def _to_ask(self, over: Bytes) -> RegionMap[V]:
        """A map of the same values that has, or learns, the strides of ``over``: this one, where it has no
        grid, or these are on no common one, or it is large.
        """
        if self._flat is not None or not self._would_learn(over):
            return self
        refined = self._grid.refined(over)
        if refined is self._grid:
            return self
        if refined is None or len(self) > _COPIED_MAX:
            self._learn(over)
            return self
        if self._asked is None:
            if not self._has_room(over, _TABLE_MAX):
                self._learn(over)
                return self
            self._asked = self.copy()
        elif self._asked._would_learn(over) and self._asked.grid.refined(over) is None:
            self._learn(over)  # unlike questions by turns: as if each was a change
            self._asked = None
            return self
        self._asked._learn(over)
        return self._asked

    # -- the grid ----------------------------------------------------------------------------------------

    def _learn(self, over: Bytes) -> None:
        """Have the strides of a region that is asked for, if it is worth it.

        Of many runs that are on no common grid with those before, each has an entry.
        """
        if self._would_learn(over):
            grid = self._grid.refined(over)
            if grid is not None and grid is not self._grid and self._has_room(over, _TABLE_MAX):
                self._put_on(grid)
            elif grid is not self._grid and over.num_runs > _APART_MAX:
                self._put_on(_NO_GRID)
                self._learns = False

    def _has_room(self, over: Bytes, most: int) -> bool:
        """Whether what is here is at most so many entries on a grid that has the strides of ``over`` too."""
        here = [part for part, _ in self.items(ByteRange(0, self.nbytes))]
        return (num_entries([*here, over]) or 0) <= most

    def _would_learn(self, over: Bytes) -> bool:
        return self._learns and over.num_runs >= _LEARNT_MIN and len(self) <= ENTRIES_MAX

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


def _size(box: Box) -> int:
    return prod([stop - start for start, stop in box])


def _items_of(flat: RangeMap[V], over: Bytes) -> Sequence[tuple[Bytes, V]]:
    """As ``RegionMap.items``: run by run, or as far as each entry goes where that is less."""
    if (value := flat.whole()) is not None:
        return [(over, value)]
    entries = flat.items(over.bounds)
    if len(entries) < over.num_runs >= _LEARNT_MIN:
        return [(part, value) for each, value in entries for part in within(over, each.start, each.stop)]
    return [item for run in over.runs() for item in flat.items(run)]
