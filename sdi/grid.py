"""Grids: a buffer's bytes as boxes of digits, so that rows, columns, fields and planes are one box each.

A grid has strides of which each divides the next one: a record, a row, a plane.  They take a byte's offset
apart into digits, the lowest within the first stride.  Regions whose levels have these strides are few boxes
then: one, or some more where a run passes a stride's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from math import prod

from sdi.dataclass import dataclass
from sdi.region import Bytes, bytes_of

Interval = tuple[int, int]
"""Digits ``start`` <= d < ``stop``."""
Box = tuple[Interval, ...]
"""An interval for each digit, the lowest first."""

STRIDES_MAX = 4


@dataclass(frozen=True)
class Grid:
    """``strides``: in bytes, above 1, rising, each a multiple of the one before."""

    strides: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        below = 1
        for stride in self.strides:
            if stride <= below or stride % below:
                raise ValueError(f"no such grid: {self.strides}")
            below = stride

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Bytes that one of each digit stands for."""
        return (1, *self.strides)

    @cached_property
    def radices(self) -> tuple[int, ...]:
        """How many values each digit but the highest has."""
        return tuple([stride // unit for stride, unit in zip(self.strides, self.units, strict=False)])

    def refined(self, over: Bytes) -> Grid | None:
        """A grid that has the strides of ``over`` too; None where they are no multiples of each other."""
        missing = [stride for stride, _ in over.levels if stride not in self.strides]
        if not missing:
            return self
        strides = sorted({*self.strides, *missing})
        if len(strides) > STRIDES_MAX or strides[0] == 1:
            return None
        if any(above % below for below, above in pairwise(strides)):
            return None
        return Grid(tuple(strides))

    def boxes(self, over: Bytes) -> list[Box]:
        """Disjoint boxes of the bytes of ``over``, whose strides the grid has."""
        counts = [1] * len(self.units)
        counts[0] = over.nbytes
        for stride, count in over.levels:
            counts[self.strides.index(stride) + 1] = count
        return list(self._boxes(0, over.base, counts))

    def _boxes(self, digit: int, base: int, counts: list[int]) -> Iterator[Box]:
        """Of the digits from ``digit`` on, in whose units ``base`` is."""
        count = counts[digit]
        if digit == len(self.strides):
            yield ((base, base + count),)
            return
        radix = self.radices[digit]
        above, first = divmod(base, radix)
        if first:
            here = min(count, radix - first)
            for rest in self._boxes(digit + 1, above, counts):
                yield ((first, first + here), *rest)
            above, count = above + 1, count - here
        full, last = divmod(count, radix)
        if full:
            # Of more than one nothing is repeated: they are longer than the next stride.
            repeated = [*counts[: digit + 1], max(full, counts[digit + 1]), *counts[digit + 2 :]]
            for rest in self._boxes(digit + 1, above, repeated):
                yield ((0, radix), *rest)
        if last:
            for rest in self._boxes(digit + 1, above + full, counts):
                yield ((0, last), *rest)

    def region(self, box: Box) -> Bytes:
        """The bytes of ``box``: on as few levels as they can have."""
        base = nbytes = 0
        levels: list[tuple[int, int]] = []
        is_run = True  # all below is full: what comes is one run
        radices: Iterable[int] = (*self.radices, 0)
        for (start, stop), unit, radix in zip(box, self.units, radices, strict=True):
            base += start * unit
            count = stop - start
            if is_run:
                nbytes = count * unit
                is_run = count == radix
            elif levels and levels[-1][0] * levels[-1][1] == unit:
                levels[-1] = (levels[-1][0], levels[-1][1] * count)
            elif count > 1:
                levels.append((unit, count))
        return bytes_of(base, nbytes, tuple(levels))


def num_entries(regions: Iterable[Bytes]) -> int | None:
    """How many entries a map of some regions may have; None where they are on no common grid."""
    given, grid = list(regions), Grid()
    for each in given:
        refined = grid.refined(each)
        if refined is None:
            return None
        grid = refined
    cuts: list[set[int]] = [{0} for _ in grid.units]
    for each in given:
        for box in grid.boxes(each):
            for found, ends in zip(cuts, box, strict=True):
                found.update(ends)
    return prod(map(len, cuts))
