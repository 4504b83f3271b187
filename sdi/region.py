"""Strided bytes: ``Region``, a run of bytes that is repeated at equal distances, on a few levels.

A column of a matrix, a box of a volume, one field of an array of structures.  Offsets are in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sdi.dataclass import dataclass
from sdi.intervals import ByteRange

Levels = tuple[tuple[int, int], ...]
"""(stride, count) of each level, the innermost first."""
Runs: TypeAlias = npt.NDArray[Any]

_RUN_NBYTES_MAX = 1 << 16
"""Longer runs are no single elements for NumPy: it copies them as fast by bytes."""
_INTEGERS_NBYTES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Region:
    """``nbytes`` from ``base`` on, and the same again ``count`` times in all at each ``stride``.

    What is repeated never overlaps, and each level goes past what it repeats.
    """

    base: int
    nbytes: int
    levels: Levels = ()

    def __post_init__(self) -> None:
        span = self.nbytes
        for stride, count in self.levels:
            if count < 2 or stride < span:
                raise ValueError(f"no such region: {self}")
            span += (count - 1) * stride
        if self.base < 0 or self.nbytes < 1:
            raise ValueError(f"no such region: {self}")

    @property
    def span_nbytes(self) -> int:
        """From the first byte to the last one."""
        return self.nbytes + sum((count - 1) * stride for stride, count in self.levels)

    @property
    def bounds(self) -> ByteRange:
        """The smallest range that holds the region."""
        return ByteRange(self.base, self.base + self.span_nbytes)

    @property
    def counts(self) -> tuple[int, ...]:
        """How often what is repeated is there, on each level."""
        return tuple([count for _, count in self.levels])

    @property
    def num_runs(self) -> int:
        """Runs of ``nbytes``."""
        return math.prod(self.counts)

    @property
    def total_nbytes(self) -> int:
        """Bytes of all runs."""
        return self.nbytes * self.num_runs

    @property
    def is_dense(self) -> bool:
        """Whether there is nothing between the runs."""
        return self.total_nbytes == self.span_nbytes

    def at(self, base: int) -> Region:
        """The same elsewhere."""
        return Region(base, self.nbytes, self.levels)

    def moved(self, by: int) -> Region:
        """The same, that many bytes on."""
        return Region(self.base + by, self.nbytes, self.levels)

    def runs(self) -> Iterator[ByteRange]:
        """All runs, in order."""
        starts = [self.base]
        for stride, count in self.levels[::-1]:
            starts = [start + number * stride for start in starts for number in range(count)]
        for start in starts:
            yield ByteRange(start, start + self.nbytes)

    def part(self, first: int, stop: int) -> Region:
        """The numbers ``first`` up to ``stop`` of the outermost level, at least one."""
        stride, _ = self.levels[-1]
        outer = ((stride, stop - first),) if stop - first > 1 else ()
        return Region(self.base + first * stride, self.nbytes, self.levels[:-1] + outer)

    def of(self, memory: memoryview, unit_nbytes: int = 0) -> Runs:
        """The runs in ``memory`` as an array that has an element for each, or for each so many bytes of one.

        Arrays of like regions have the same shape, so that one can be copied to the other.  Raises ValueError
        past the end.
        """
        size = unit_nbytes or (self.nbytes if self.nbytes <= _RUN_NBYTES_MAX else 1)
        shape, strides = [*self.counts[::-1]], [stride for stride, _ in self.levels[::-1]]
        if size < self.nbytes:
            shape.append(self.nbytes // size)
            strides.append(size)
        # [M] NumPy 2.4 copies integers within one memory three times as fast as as many bytes without a type.
        element = np.dtype(f"u{size}") if size in _INTEGERS_NBYTES else np.dtype((np.void, size))
        return np.ndarray(shape, element, memory, self.base, strides)


Bytes: TypeAlias = ByteRange | Region
"""Bytes of a buffer: a range, or runs at equal distances."""


def bytes_of(base: int, nbytes: int, levels: Levels) -> Bytes:
    """``nbytes`` from ``base`` on, as often as ``levels`` say: on as few levels as that takes."""
    while levels and levels[0][0] == nbytes:
        nbytes *= levels[0][1]
        levels = levels[1:]
    for number in range(len(levels) - 1, 0, -1):
        (stride, count), (above, times) = levels[number - 1 : number + 1]
        if stride * count == above:
            levels = (*levels[: number - 1], (stride, count * times), *levels[number + 1 :])
    return Region(base, nbytes, levels) if levels else ByteRange(base, base + nbytes)


def as_region(over: Bytes) -> Region:
    """The same, as what members copy."""
    return over if isinstance(over, Region) else Region(over.start, over.nbytes)


_STEPS_MAX = 256
"""Of regions whose strides are not several times what they repeat, so many pairs of runs are not compared."""


def do_meet(one: Bytes, other: Bytes) -> bool | None:
    """Whether they have a byte in common, found out without their runs; None where that would take long.

    Of two runs, one of each, the second begins so far behind the first: the difference of the bases, and of
    each stride some times.  From the largest stride on few numbers of times leave it possible that they meet.
    """
    period = math.gcd(*[stride for stride, _ in one.levels], *[stride for stride, _ in other.levels])
    if period:  # both repeat with it: what is apart within one period is so everywhere
        behind = (other.base - one.base) % period
        if one.nbytes <= behind <= period - other.nbytes:
            return False
    if one.bounds.stop <= other.bounds.start or other.bounds.stop <= one.bounds.start:
        return False
    times: dict[int, tuple[int, int]] = {stride: (0, count - 1) for stride, count in one.levels}
    for stride, count in other.levels:
        low, high = times.get(stride, (0, 0))
        times[stride] = (low - count + 1, high)
    steps = sorted(times.items(), reverse=True)
    rests = [(0, 0)]  # least and most that the strides from there on add, the last first
    for stride, (low, high) in reversed(steps):
        least, most = rests[-1]
        rests.append((least + low * stride, most + high * stride))
    rests.reverse()
    most_steps = 1
    for number, (stride, _) in enumerate(steps[:-1]):
        least, most = rests[number + 1]
        most_steps *= (most - least + one.nbytes + other.nbytes) // stride + 1
    if most_steps > _STEPS_MAX:
        return None

    def meet(distance: int, number: int) -> bool:
        least, most = rests[number]
        if distance + most <= -one.nbytes or distance + least >= other.nbytes:
            return False
        if number == len(steps):
            return True
        stride, (low, high) = steps[number]
        least, most = rests[number + 1]
        first = max(low, -((one.nbytes - 1 + most + distance) // stride))
        last = min(high, (other.nbytes - 1 - least - distance) // stride)
        return any(meet(distance + count * stride, number + 1) for count in range(first, last + 1))

    return meet(one.base - other.base, 0)


def within(over: Bytes, start: int, stop: int) -> list[Bytes]:
    """The bytes of ``over`` from ``start`` up to ``stop``."""
    return list(_within(over.base, over.nbytes, over.levels, start, stop))


def _within(base: int, nbytes: int, levels: Levels, start: int, stop: int) -> Iterator[Bytes]:
    """At most two of what a level repeats pass an end."""
    span = nbytes + sum([(count - 1) * stride for stride, count in levels])
    if base >= stop or base + span <= start:
        return
    if not levels:
        yield ByteRange(max(base, start), min(base + nbytes, stop))
        return
    *inner, (stride, count) = levels
    if start <= base and base + span <= stop:
        yield bytes_of(base, nbytes, levels)
        return
    span -= (count - 1) * stride
    first = max(0, -(-(start - base) // stride))  # the first that begins inside
    last = min(count, max(0, (stop - span - base) // stride + 1))  # behind the last one that ends inside
    if first > 0:
        yield from _within(base + (first - 1) * stride, nbytes, (*inner,), start, stop)
    if last - first > 0:
        outer = ((stride, last - first),) if last - first > 1 else ()
        yield bytes_of(base + first * stride, nbytes, (*inner, *outer))
    if last < count and last >= first:
        yield from _within(base + last * stride, nbytes, (*inner,), start, stop)


def alike(source: Region, target: Region) -> tuple[Region, Region]:
    """The same two regions, of which one is to be copied to the other, with as few levels as both can have.

    Raises ValueError where they are not alike: of the same runs as often on each level.
    """
    if source.nbytes != target.nbytes or source.counts != target.counts:
        raise ValueError(f"{source} is not like {target}")
    nbytes = source.nbytes
    levels: list[tuple[int, int, int]] = []
    for (here, count), (there, _) in zip(source.levels, target.levels, strict=True):
        if not levels and here == there == nbytes:
            nbytes *= count
        elif levels and (here, there) == (levels[-1][0] * levels[-1][2], levels[-1][1] * levels[-1][2]):
            levels[-1] = (*levels[-1][:2], levels[-1][2] * count)
        else:
            levels.append((here, there, count))
    return (
        Region(source.base, nbytes, tuple([(here, count) for here, _, count in levels])),
        Region(target.base, nbytes, tuple([(there, count) for _, there, count in levels])),
    )


def region(base: int, counts: Sequence[int], pitches: Sequence[int]) -> Region:
    """``counts``: bytes of a run, and how often it is there on each level; ``pitches``: strides."""
    levels = [(pitch, count) for pitch, count in zip(pitches, counts[1:], strict=True) if count > 1]
    return Region(base, counts[0], tuple(levels))


def packed_like(over: Region) -> Region:
    """The same runs, one right after the other from 0 on."""
    levels, span = [], over.nbytes
    for _, count in over.levels:
        levels.append((span, count))
        span *= count
    return Region(0, over.nbytes, tuple(levels))
