"""Half-open byte intervals: ``RangeMap``, the noun in which residency and dependencies are written.

Intervals are ``[start, stop)`` in bytes from the start of a root buffer, never empty.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import ClassVar, Generic, TypeVar

from sdi.dataclass import dataclass

V = TypeVar("V")


@dataclass(slots=True, order=True, unsafe_hash=True)
class ByteRange:
    """Bytes ``start`` <= b < ``stop``; never empty, never changed.  A ``Region`` without levels, too.

    [M] Not frozen: planning makes them by the dozen, in 0.28 us each rather than in 0.64.
    """

    levels: ClassVar[tuple[tuple[int, int], ...]] = ()
    num_runs: ClassVar[int] = 1

    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise ValueError(f"empty or negative range [{self.start}, {self.stop})")

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self.stop - self.start

    @property
    def base(self) -> int:
        """The first byte."""
        return self.start

    @property
    def total_nbytes(self) -> int:
        """Number of bytes."""
        return self.stop - self.start

    @property
    def bounds(self) -> ByteRange:
        """Itself."""
        return self

    def runs(self) -> tuple[ByteRange]:
        """Itself alone."""
        return (self,)

    def moved(self, by: int) -> ByteRange:
        """The same, that many bytes on."""
        return ByteRange(self.start + by, self.stop + by)


def coalesce(ranges: Iterable[ByteRange]) -> list[ByteRange]:
    """The same bytes as sorted, disjoint ranges that never touch."""
    found: list[ByteRange] = []
    for item in sorted(ranges, key=attrgetter("start")):
        if found and item.start <= found[-1].stop:
            found[-1] = ByteRange(found[-1].start, max(found[-1].stop, item.stop))
        else:
            found.append(item)
    return found


_CHUNK = 512
"""Intervals per chunk when it is made; a chunk of twice as many is cut."""


def overlaid(sets: Sequence[Iterable[ByteRange]]) -> list[tuple[ByteRange, tuple[int, ...]]]:
    """The bytes of any of some sets of disjoint ranges, cut where the sets that hold them change; with the
    numbers of these.
    """
    edges = sorted(
        [edge for k, each in enumerate(sets) for r in each for edge in ((r.start, k), (r.stop, k))]
    )
    found: list[tuple[ByteRange, tuple[int, ...]]] = []
    inside: set[int] = set()
    start = 0
    for offset, k in edges:
        if inside and offset > start:
            found.append((ByteRange(start, offset), tuple(sorted(inside))))
        inside ^= {k}
        start = offset
    return found


class RangeMap(Generic[V]):
    """Total map from the bytes of ``[0, nbytes)`` to values; equal neighbours are one interval.

    Values are compared with ``==``.  O(log n + k) to look up or change k intervals: they are kept in chunks,
    each a list of starts and one of values, so that a change moves the intervals of one chunk only.
    """

    __slots__ = ("_chunks", "_firsts", "nbytes")

    def __init__(self, nbytes: int, value: V) -> None:
        if nbytes < 1:
            raise ValueError(f"a map over {nbytes} bytes")
        self.nbytes = nbytes
        self._firsts = [0]  # the first start of each chunk
        self._chunks: list[tuple[list[int], list[V]]] = [([0], [value])]

    def __len__(self) -> int:
        """Number of intervals."""
        chunks = self._chunks
        return len(chunks[0][0]) if len(chunks) == 1 else sum([len(starts) for starts, _ in chunks])

    def whole(self) -> V | None:
        """The one value when the whole map has one interval, else None."""
        if len(self._chunks) == 1:
            values = self._chunks[0][1]
            if len(values) == 1:
                return values[0]
        return None

    def key(self) -> tuple[tuple[int, ...], tuple[V, ...]]:
        """Equal for equal maps."""
        starts, values = self._joined(0, len(self._chunks))
        return tuple(starts), tuple(values)

    def copy(self) -> RangeMap[V]:
        """A map with the same values that changes by itself."""
        made: RangeMap[V] = RangeMap.__new__(RangeMap)
        made.nbytes = self.nbytes
        made._firsts = list(self._firsts)
        made._chunks = [(list(starts), list(values)) for starts, values in self._chunks]
        return made

    def values(self, over: ByteRange) -> list[V]:
        """The values of ``items``, faster."""
        _, values, first, last = self._find(over)
        return values[first:last]

    def items(self, over: ByteRange) -> list[tuple[ByteRange, V]]:
        """Intervals that overlap ``over``, cut to it, in order."""
        starts, values, first, last = self._find(over)
        if last - first == 1:
            return [(over, values[first])]
        edges = [over.start, *starts[first + 1 : last], over.stop]
        return [(ByteRange(edges[at], edges[at + 1]), value) for at, value in enumerate(values[first:last])]

    def sizes(self, over: ByteRange) -> list[tuple[V, int]]:
        """The values of ``items``, each with how many bytes have it; faster."""
        starts, values, first, last = self._find(over)
        if last - first == 1:
            return [(values[first], over.stop - over.start)]
        edges = [over.start, *starts[first + 1 : last], over.stop]
        return [(values[first + at], edges[at + 1] - edges[at]) for at in range(last - first)]

    def update(self, over: ByteRange, change: Callable[[V], V]) -> None:
        """Replace each value v in ``over`` by ``change(v)``; called once per interval."""
        starts, values, first, last = self._find(over)
        if last - first == 1:
            only = change(values[first])
            if only != values[first]:
                self.assign(over, only)
            return
        begins = [over.start, *starts[first + 1 : last]]
        made_starts: list[int] = []
        made_values: list[V] = []
        for begin, value in zip(begins, [change(value) for value in values[first:last]], strict=True):
            if not made_values or made_values[-1] != value:
                made_starts.append(begin)
                made_values.append(value)
        self._put(over, made_starts, made_values)

    def assign(self, over: ByteRange, value: V) -> None:
        """Give every byte of ``over`` the same value."""
        if over.start == 0 and over.stop == self.nbytes:
            self._firsts, self._chunks = [0], [([0], [value])]
        else:
            self._put(over, [over.start], [value])

    def check(self) -> None:
        """Assert the invariants (for tests)."""
        starts, values = self._joined(0, len(self._chunks))
        assert starts[0] == 0 and starts == sorted(set(starts))
        assert starts[-1] < self.nbytes and len(starts) == len(values)
        assert all(a != b for a, b in pairwise(values))
        assert self._firsts == [chunk[0][0] for chunk in self._chunks]
        assert all(len(chunk[0]) <= 2 * _CHUNK for chunk in self._chunks)

    def _find(self, over: ByteRange) -> tuple[list[int], list[V], int, int]:
        """Starts and values of some intervals, and the numbers of those that overlap ``over``."""
        if over.stop > self.nbytes:
            raise ValueError(f"range [{over.start}, {over.stop}) past the {self.nbytes} bytes")
        one = len(self._chunks) == 1
        starts, values = self._chunks[0] if one else self._around(over.start, over.stop - 1)[:2]
        return starts, values, bisect_right(starts, over.start) - 1, bisect_left(starts, over.stop)

    def _around(self, first: int, last: int) -> tuple[list[int], list[V], int, int]:
        """Starts and values of the chunks that hold the bytes ``first`` to ``last``; the first one's number
        and how many.  The lists of one chunk are its own, to be changed.
        """
        if len(self._chunks) == 1:
            return *self._chunks[0], 0, 1
        chunk = bisect_right(self._firsts, first) - 1
        stop = bisect_right(self._firsts, last)
        if stop - chunk == 1:
            return *self._chunks[chunk], chunk, 1
        return *self._joined(chunk, stop), chunk, stop - chunk

    def _joined(self, first: int, stop: int) -> tuple[list[int], list[V]]:
        starts: list[int] = []
        values: list[V] = []
        for own_starts, own_values in self._chunks[first:stop]:
            starts += own_starts
            values += own_values
        return starts, values

    def _put(self, over: ByteRange, made_starts: list[int], made_values: list[V]) -> None:
        """Put intervals, of which no neighbours are equal, in the place of what is in ``over``."""
        start, stop, nbytes = over.start, over.stop, self.nbytes
        if stop > nbytes:
            raise ValueError(f"range [{start}, {stop}) past the {nbytes} bytes")
        starts, values, chunk, count = self._around(max(start - 1, 0), min(stop, nbytes - 1))
        first, last = bisect_right(starts, start) - 1, bisect_left(starts, stop)
        if last < len(starts) and starts[last] == stop:
            if values[last] == made_values[-1]:
                last += 1
        elif stop < nbytes and values[last - 1] != made_values[-1]:
            made_starts.append(stop)
            made_values.append(values[last - 1])
        # What is before it stays, or becomes one with the first.
        if starts[first] < start:
            first += 1
        if first > 0 and values[first - 1] == made_values[0]:
            del made_starts[0], made_values[0]
        starts[first:last] = made_starts
        values[first:last] = made_values
        if count > 1 or len(starts) > 2 * _CHUNK:
            self._rechunk(starts, values, chunk, count)

    def _rechunk(self, starts: list[int], values: list[V], chunk: int, count: int) -> None:
        """These intervals take the place of so many chunks."""
        pieces = range(0, len(starts), _CHUNK) if len(starts) > 2 * _CHUNK else (0,)
        size = _CHUNK if len(pieces) > 1 else len(starts)
        self._chunks[chunk : chunk + count] = [(starts[a : a + size], values[a : a + size]) for a in pieces]
        self._firsts[chunk : chunk + count] = [starts[a] for a in pieces]
