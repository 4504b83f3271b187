"""Sets of strided bytes: ``RegionSet``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise
from operator import attrgetter, is_, itemgetter
from typing import Generic, TypeVar

from sdi.bands import combined
from sdi.dataclass import dataclass
from sdi.grid import num_entries
from sdi.intervals import ByteRange, coalesce
from sdi.region import Bytes, Levels, bytes_of, do_meet, within
from sdi.region_map import ENTRIES_MAX, RegionMap

K = TypeVar("K")
V = TypeVar("V")
_LOOKED_AT, _ROW_MIN = 4, 3
"""How many regions behind one may be the next of its row; how many make a row."""
_COMPARED_MAX = 16
_RANGES_MAX = 64
"""Sets with more regions are put together run by run."""
_PAIRS_MAX = 1 << 14
"""So many regions of two sets are compared one by one."""
_FEW_RUNS = 1 << 10
"""Of more it is worth finding out first whether sets have a byte in common."""
_FILLED_RUNS_MAX = 1 << 16
"""Several regions of more, with gaps filled, take longer to bring together than their gaps are worth."""
_RUNS_MAX = 1 << 18
"""As far as there are no more runs than that, or few for each region."""


@dataclass(slots=True, eq=False)
class RegionSet:
    """A set of bytes, never changed: disjoint regions by their bases, as few as ``of`` finds.  Equal sets
    compare equal.

    What lies between regions of no levels is no part of it: there they never touch.
    """

    regions: tuple[Bytes, ...] = ()

    def __post_init__(self) -> None:
        if len(self.regions) > 1:
            for a, b in pairwise(self.regions):
                if not (a.levels or b.levels) and a.bounds.stop >= b.base:
                    raise ValueError("ranges of a set are sorted and never touch")

    @staticmethod
    def of(regions: Iterable[Bytes]) -> RegionSet:
        """The union of any regions."""
        given = list(regions)
        if len(given) < 2 and not (given and given[0].levels):
            return RegionSet((given[0].bounds,)) if given else EMPTY
        levels = _common_levels(given)
        if levels is not None:
            runs = coalesce([ByteRange(each.base, each.base + each.nbytes) for each in given])
            return _with_levels(_in_rows(runs) if len(runs) >= _ROW_MIN else runs, levels)
        given = _runs_together(given)
        parts = combined(given, (), False)
        if parts is None and _are_apart(given):
            parts = given
        if parts is None:
            union = _marked(given)
            parts = [part for part, has in union.items(ByteRange(0, union.nbytes)) if has]
        return RegionSet(tuple(_joined(parts)))

    @staticmethod
    def of_disjoint(regions: Iterable[Bytes]) -> RegionSet:
        """The union of regions that have no byte in common."""
        return RegionSet(tuple(_joined(list(regions))))

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
        """With all gaps of at most so many bytes; as it is where too many runs would be left."""
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
        if len(found) > 1 and sum([each.num_runs for each in found]) > _FILLED_RUNS_MAX:
            return self
        return RegionSet.of(found)

    def widened(self, unit_nbytes: int, nbytes: int) -> RegionSet:
        """With the whole of each unit of which it has a byte, as far as ``nbytes`` have one."""

        def units(over: Bytes) -> Bytes:
            start = over.base // unit_nbytes * unit_nbytes
            stop = -(-(over.base + over.nbytes) // unit_nbytes) * unit_nbytes
            span = stop - start
            for stride, count in over.levels:
                if stride % unit_nbytes or stride < span:
                    return ByteRange(start, -(-over.bounds.stop // unit_nbytes) * unit_nbytes)
                span += stride * (count - 1)
            return bytes_of(start, stop - start, over.levels)

        return RegionSet.of([part for each in self.regions for part in within(units(each), 0, nbytes)])

    def _by(self, other: RegionSet, is_in: bool) -> RegionSet:
        """The bytes that are in ``other``, or that are not."""
        mine, theirs = self.bounds, other.bounds
        if mine is None or theirs is None or mine.stop <= theirs.start or theirs.stop <= mine.start:
            return EMPTY if is_in else self
        if self.regions == other.regions:
            return self if is_in else EMPTY
        levels = _common_levels((*self.regions, *other.regions))
        if levels is not None:
            return _with_levels(_either(self.regions, other.regions, is_in), levels)
        parts = combined(self.regions, other.regions, is_in)
        if parts is not None:
            return RegionSet(tuple(_joined(parts)))
        num_regions = len(self.regions) + len(other.regions)
        if num_regions > _RANGES_MAX and self.num_runs + other.num_runs <= max(_RUNS_MAX, 8 * num_regions):
            runs = [coalesce(run for each in given.regions for run in each.runs()) for given in (self, other)]
            return RegionSet(tuple(_joined(_either(runs[0], runs[1], is_in))))
        marked = _marked(other.regions, mine.stop)
        parts = [part for each in self.regions for part, has in marked.items(each) if has == is_in]
        return RegionSet(tuple(_joined(parts)))


EMPTY = RegionSet()


def _common_levels(regions: Sequence[Bytes]) -> Levels | None:
    """The levels that all have, if no other run lies between the first ones; None where there are none.

    Then what is done to the first runs is done to all.
    """
    levels = regions[0].levels
    for each in regions:
        if each.levels != levels:
            return None
    if levels and len(regions) > 1:
        first, last = min([each.base for each in regions]), max([each.base + each.nbytes for each in regions])
        if not _fits(last - first, levels):
            return None
    return levels


def _fits(nbytes: int, levels: Levels) -> bool:
    """Whether so many bytes repeated as ``levels`` say overlap nowhere."""
    for stride, count in levels:
        if stride < nbytes:
            return False
        nbytes += (count - 1) * stride
    return True


def _runs_together(regions: list[Bytes]) -> list[Bytes]:
    """The same bytes: of regions that have the same levels, first runs that touch are one."""
    groups: _Table[Levels, list[Bytes]] = _Table(len(regions))
    for each in regions:
        group = groups.get(each.levels)
        if group is None:
            groups.set(each.levels, group := [])
        group.append(each)
    found: list[Bytes] = []
    for group in groups.values():
        levels = group[0].levels
        if levels and len(group) > 1:
            runs = coalesce([ByteRange(each.base, each.base + each.nbytes) for each in group])
            together = [_repeated(run, levels) for run in runs]
            fewer = [each for each in together if each is not None]
            group = fewer if len(fewer) == len(together) else group
        found += group
    return found


def _repeated(run: ByteRange, levels: Levels) -> Bytes | None:
    """A run as often as ``levels`` say, also where it goes past their strides; None if no region is that."""
    nbytes = run.nbytes
    while levels and nbytes >= levels[0][0]:
        (stride, count), *rest = levels
        nbytes, levels = nbytes + (count - 1) * stride, tuple(rest)
    return bytes_of(run.start, nbytes, levels) if _fits(nbytes, levels) else None


def _with_levels(runs: Sequence[Bytes], levels: Levels) -> RegionSet:
    """Runs in order that don't touch, or rows of such, each as often as ``levels`` say."""
    if levels:
        return RegionSet(tuple([bytes_of(run.base, run.nbytes, (*run.levels, *levels)) for run in runs]))
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


def union_of(sets: Iterable[RegionSet]) -> RegionSet:
    """Bytes of any of the sets.  It is one of them where the others are the same object or empty."""
    found = {id(regions): regions for regions in sets if regions.regions}
    if len(found) < 2:
        return next(iter(found.values()), EMPTY)
    return RegionSet.of([part for regions in found.values() for part in regions.regions])


def are_disjoint(sets: Sequence[RegionSet]) -> bool:
    """Whether no byte is in more than one of the sets."""
    spans = [(bounds.start, bounds.stop, each) for each in sets if (bounds := each.bounds) is not None]
    spans.sort(key=itemgetter(0))
    for number, (_, stop, one) in enumerate(spans):
        for start, _, other in spans[number + 1 :]:
            if start >= stop:
                break
            if _do_meet(one, other):
                return False
    return True


def _do_meet(one: RegionSet, other: RegionSet) -> bool:
    if len(one.regions) * len(other.regions) > _PAIRS_MAX:
        return one.overlaps(other)
    spans = [(bounds.start, bounds.stop, there) for there in other.regions for bounds in (there.bounds,)]
    for part in one.regions:
        start, stop = part.bounds.start, part.bounds.stop
        for first, last, there in spans:
            if first >= stop or last <= start:
                continue
            found = do_meet(part, there)
            if found is None:
                return one.overlaps(other)
            if found:
                return True
    return False


def _are_apart(regions: Sequence[Bytes]) -> bool:
    """Whether many runs, which no map holds as a few entries, are a few regions without a byte in common."""
    if len(regions) > _RANGES_MAX or sum([each.num_runs for each in regions]) <= _RUNS_MAX:
        return False
    found = num_entries(regions)
    if found is not None and found <= ENTRIES_MAX:
        return False
    return all(do_meet(one, other) is False for one, other in combinations(regions, 2))


def shared(sets: Sequence[RegionSet]) -> RegionSet:
    """Bytes that more than one of the sets hold."""
    spans = [bounds for each in sets if (bounds := each.bounds) is not None]
    spans.sort(key=attrgetter("start"))
    if all([before.stop <= after.start for before, after in pairwise(spans)]):  # noqa: C419 (faster)
        return EMPTY
    if sum([each.num_runs for each in sets]) > _FEW_RUNS and are_disjoint(sets):
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
    has_few_ranges = sum([not each.levels for each in regions]) <= _RANGES_MAX
    marked = RegionMap(-(-stop // stride) * stride, False, learns=has_few_ranges)
    for each in regions:
        marked.assign(each, True)
    return marked


class _Table(Generic[K, V]):
    """A dictionary.  A small one compares its keys and doesn't hash them: they may be numbers that note what
    they are compared with (``sdi.sampling.tracing``).
    """

    __slots__ = ("_keys", "_large", "_values")

    def __init__(self, most: int) -> None:
        self._large: dict[K, V] | None = {} if most > _COMPARED_MAX else None
        self._keys: list[K] = []
        self._values: list[V] = []

    def get(self, key: K) -> V | None:
        if self._large is not None:
            return self._large.get(key)
        return self._values[self._keys.index(key)] if key in self._keys else None

    def set(self, key: K, value: V) -> None:
        if self._large is not None:
            self._large[key] = value
        elif key in self._keys:
            self._values[self._keys.index(key)] = value
        else:
            self._keys.append(key)
            self._values.append(value)

    def values(self) -> Iterable[V]:
        return self._values if self._large is None else self._large.values()


def _filled(over: Bytes, gap_nbytes: int) -> Bytes:
    nbytes = over.nbytes
    for number, (stride, count) in enumerate(over.levels):
        if stride - nbytes > gap_nbytes:
            return over if not number else bytes_of(over.base, nbytes, over.levels[number:])
        nbytes += stride * (count - 1)
    return over if not over.levels else ByteRange(over.base, over.base + nbytes)


def _joined(regions: Sequence[Bytes]) -> list[Bytes]:
    """The same bytes of disjoint regions: what touches is one, what is at equal distances a level more."""
    if len(regions) < 2:
        return list(regions)
    touching: list[Bytes] = []
    is_other = False  # something became a range, or rows of fewer levels, which may touch others of these
    at: _Table[tuple[int, Levels], int] = _Table(len(regions))  # where runs of such levels end
    for each in sorted(regions, key=lambda each: each.base):
        before = at.get((each.base, each.levels))
        if before is None:
            before = len(touching)
            touching.append(each)
        else:
            last = touching[before]
            touching[before] = bytes_of(last.base, last.nbytes + each.nbytes, each.levels)
        one = touching[before]
        is_other = is_other or one.levels != each.levels
        at.set((one.base + one.nbytes, one.levels), before)
    return _joined(touching) if is_other else _in_rows(touching)


def _in_rows(regions: Sequence[Bytes]) -> list[Bytes]:
    """The same, what is at equal distances as a level more."""
    if len(regions) < _ROW_MIN:
        return list(regions)
    alike: _Table[tuple[int, Levels], list[Bytes]] = _Table(len(regions))
    for each in regions:
        group = alike.get((each.nbytes, each.levels))
        if group is None:
            alike.set((each.nbytes, each.levels), group := [])
        group.append(each)
    found: list[Bytes] = []
    for group in alike.values():
        found += group if len(group) < _ROW_MIN else _series(group)
    found.sort(key=lambda each: each.base)
    return found


def _series(group: list[Bytes]) -> Iterator[Bytes]:
    """Like regions, by their bases: those at equal distances as one, from each the longest row of them."""
    bases = [each.base for each in group]
    span, nbytes, levels = group[0].bounds.nbytes, group[0].nbytes, group[0].levels
    left: _Table[int, bool] = _Table(len(bases))
    for base in bases:
        left.set(base, True)
    for at, base in enumerate(bases):
        if not left.get(base):
            continue
        best = (1, 0)
        for other in bases[at + 1 : at + 1 + _LOOKED_AT]:
            distance = other - base
            if left.get(other) and (distance >= span or (nbytes <= distance < levels[0][0])):
                count = 2
                while left.get(base + count * distance):
                    count += 1
                if distance < span:  # between the runs of what is repeated
                    count = min(count, 1 + (levels[0][0] - nbytes) // distance)
                best = max(best, (count, -distance))
        count, distance = best[0], -best[1]
        if count < _ROW_MIN:
            count = 1
        for number in range(count):
            left.set(base + number * distance, False)
        more = ((distance, count),) if count > 1 else ()
        yield bytes_of(base, nbytes, (*levels, *more) if distance >= span else (*more, *levels))
