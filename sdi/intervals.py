"""Half-open byte intervals: ``RangeMap``, the noun in which residency and hazards are written.

Intervals are ``[start, stop)`` in bytes from the start of a root buffer, never empty.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True, order=True)
class ByteRange:
    """Bytes ``start`` <= b < ``stop``; never empty."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(f"empty or negative range [{self.start}, {self.stop})")

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.stop - self.start


def coalesce(ranges: Iterable[ByteRange]) -> list[ByteRange]:
    """The same bytes as sorted, disjoint ranges that never touch."""
    found: list[ByteRange] = []
    for item in sorted(ranges):
        if found and item.start <= found[-1].stop:
            found[-1] = ByteRange(found[-1].start, max(found[-1].stop, item.stop))
        else:
            found.append(item)
    return found


@dataclass(frozen=True, slots=True)
class RangeSet:
    """A set of bytes: sorted, disjoint ranges that never touch, so that equal sets compare equal."""

    ranges: tuple[ByteRange, ...] = ()

    def __post_init__(self) -> None:
        if any(a.stop >= b.start for a, b in zip(self.ranges, self.ranges[1:], strict=False)):
            raise ValueError("ranges of a set are sorted and never touch")

    @staticmethod
    def of(ranges: Iterable[ByteRange]) -> RangeSet:
        """The union of any ranges."""
        return RangeSet(tuple(coalesce(ranges)))

    def __bool__(self) -> bool:
        """Whether there is any byte."""
        return bool(self.ranges)

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return sum(part.nbytes for part in self.ranges)

    def union(self, other: RangeSet) -> RangeSet:
        """Bytes of either set."""
        return RangeSet.of((*self.ranges, *other.ranges)) if self and other else self or other

    def intersection(self, other: RangeSet) -> RangeSet:
        """Bytes of both sets; O(n + m)."""
        found: list[ByteRange] = []
        mine, theirs = self.ranges, other.ranges
        at = there = 0
        while at < len(mine) and there < len(theirs):
            start, stop = max(mine[at].start, theirs[there].start), min(mine[at].stop, theirs[there].stop)
            if start < stop:
                found.append(ByteRange(start, stop))
            if mine[at].stop < theirs[there].stop:
                at += 1
            else:
                there += 1
        return RangeSet(tuple(found))

    def difference(self, other: RangeSet) -> RangeSet:
        """Bytes of this set that are not in ``other``; O(n + m)."""
        found: list[ByteRange] = []
        there = 0
        for part in self.ranges:
            start = part.start
            while there < len(other.ranges) and other.ranges[there].stop <= start:
                there += 1
            look = there
            while look < len(other.ranges) and other.ranges[look].start < part.stop:
                if start < other.ranges[look].start:
                    found.append(ByteRange(start, other.ranges[look].start))
                start = other.ranges[look].stop
                look += 1
            if start < part.stop:
                found.append(ByteRange(start, part.stop))
        return RangeSet(tuple(found))

    def overlaps(self, other: RangeSet) -> bool:
        """Whether a byte is in both sets."""
        return bool(self.intersection(other))


class RangeMap(Generic[V]):
    """Total map from the bytes of ``[0, nbytes)`` to values; equal neighbours are one interval.

    Values are compared with ``==``.  O(log n + k) to look up or change k intervals.
    """

    __slots__ = ("_starts", "_values", "nbytes")

    def __init__(self, nbytes: int, value: V) -> None:
        if nbytes < 1:
            raise ValueError(f"a map over {nbytes} bytes")
        self.nbytes = nbytes
        self._starts = [0]
        self._values = [value]

    def __len__(self) -> int:
        """Number of intervals."""
        return len(self._starts)

    def whole(self) -> V | None:
        """The one value when the whole map has one interval, else None."""
        return self._values[0] if len(self._values) == 1 else None

    def key(self) -> tuple[tuple[int, ...], tuple[V, ...]]:
        """Equal for equal maps."""
        return tuple(self._starts), tuple(self._values)

    def copy(self) -> RangeMap[V]:
        """A map with the same values that changes by itself."""
        made = RangeMap(self.nbytes, self._values[0])
        made._starts, made._values = list(self._starts), list(self._values)
        return made

    def values(self, over: ByteRange) -> list[V]:
        """The values of ``items``, faster."""
        self._check(over)
        starts = self._starts
        return self._values[bisect_right(starts, over.start) - 1 : bisect_left(starts, over.stop)]

    def items(self, over: ByteRange) -> Iterator[tuple[ByteRange, V]]:
        """Intervals that overlap ``over``, cut to it, in order."""
        self._check(over)
        if len(self._starts) == 1:
            yield over, self._values[0]
            return
        at = bisect_right(self._starts, over.start) - 1
        while at < len(self._starts) and self._starts[at] < over.stop:
            stop = self._starts[at + 1] if at + 1 < len(self._starts) else self.nbytes
            yield ByteRange(max(self._starts[at], over.start), min(stop, over.stop)), self._values[at]
            at += 1

    def update(self, over: ByteRange, change: Callable[[V], V]) -> None:
        """Replace each value v in ``over`` by ``change(v)``; called once per interval."""
        self._check(over)
        if len(self._starts) == 1 and over.stop - over.start == self.nbytes:
            self._values[0] = change(self._values[0])
            return
        first, last = self._split(over.start), self._split(over.stop)
        for at in range(first, last):
            self._values[at] = change(self._values[at])
        self._join(first, last)

    def assign(self, over: ByteRange, value: V) -> None:
        """Give every byte of ``over`` the same value."""
        self._check(over)
        if over.stop - over.start == self.nbytes:
            self._starts, self._values = [0], [value]
            return
        first, last = self._split(over.start), self._split(over.stop)
        self._starts[first:last] = [over.start]
        self._values[first:last] = [value]
        self._join(first, first + 1)

    def check(self) -> None:
        """Assert the invariants (for tests)."""
        assert self._starts[0] == 0 and self._starts == sorted(set(self._starts))
        assert self._starts[-1] < self.nbytes and len(self._starts) == len(self._values)
        assert all(a != b for a, b in zip(self._values, self._values[1:], strict=False))

    def _check(self, over: ByteRange) -> None:
        if over.stop > self.nbytes:
            raise ValueError(f"range [{over.start}, {over.stop}) past the {self.nbytes} bytes")

    def _split(self, offset: int) -> int:
        """Index of the interval that starts at ``offset``, made if needed; the length for ``nbytes``."""
        if offset == self.nbytes:
            return len(self._starts)
        at = bisect_right(self._starts, offset) - 1
        if self._starts[at] == offset:
            return at
        self._starts.insert(at + 1, offset)
        self._values.insert(at + 1, self._values[at])
        return at + 1

    def _join(self, first: int, last: int) -> None:
        """Merge equal neighbours among the intervals ``first - 1`` to ``last``."""
        at = min(last, len(self._starts) - 1)
        while at >= max(first, 1):
            if self._values[at] == self._values[at - 1]:
                del self._starts[at], self._values[at]
            at -= 1
