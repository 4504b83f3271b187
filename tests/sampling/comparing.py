"""Compares access maps with isl's sets, at any size."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import gcd
from random import Random

import islpy as isl
import numpy as np

from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.region import Bytes
from sdi.regions import RegionSet
from sdi.sampling import AccessRange, KernelAnalysis, Precision
from sdi.sampling.machine import Mode
from tests.sampling.sets import OPERATIONS_MAX, ByteSet, KernelSets, NoSet, few_operations

_PATIENCE = 2
"""Where isl has given up so often of one launch, its other reads are not compared: each try takes seconds."""
_WINDOW = 12
"""So many neighbouring regions of an answer are compared at once."""


@dataclass(slots=True)
class Tally:
    """How many answers were compared: found ``equal``, to ``contain`` the set, and left ``open``.

    ``exceeded``: of one launch, how often isl gave up.
    """

    equal: int = 0
    contain: int = 0
    open: int = 0
    exceeded: int = 0
    why: Counter[str] = field(default_factory=Counter)

    def leave(self, cause: NoSet) -> None:
        """Count what could not be compared."""
        self.open += 1
        self.exceeded += "operations exceeded" in str(cause)
        self.why[str(cause)[-60:]] += 1


@dataclass(frozen=True, slots=True)
class Asked:
    """A launch as access maps are bound to it."""

    ndrange: NDRange
    values: tuple[bytes | None, ...]
    buffer_nbytes: tuple[int | None, ...]

    @staticmethod
    def of(ndrange: NDRange, arguments: Sequence[object]) -> Asked:
        """Arrays are buffers, bytes are values."""
        return Asked(
            ndrange,
            tuple(each if isinstance(each, bytes) else None for each in arguments),
            tuple(each.nbytes if isinstance(each, np.ndarray) else None for each in arguments),
        )


def compare(
    analysis: KernelAnalysis,
    asked: Asked,
    boxes: Iterable[GroupBox],
    tally: Tally,
    operations: int = OPERATIONS_MAX,
) -> None:
    """Fail on the first answer that isl contradicts within so many operations a comparison."""
    tally.exceeded = 0
    sets = KernelSets(analysis, asked.ndrange, asked.values)
    bound = analysis.bind(asked.ndrange, asked.values, asked.buffer_nbytes)
    for box in boxes:
        for found in bound.over(box):
            nbytes = asked.buffer_nbytes[found.argument]
            if nbytes:
                what = f"{analysis.name}, argument {found.argument}, {asked}, {box}"
                _compare_writes(analysis, sets, box, found, nbytes, what, tally, operations)
                _compare_reads(analysis, sets, box, found, nbytes, what, tally, operations)


def _compare_writes(
    analysis: KernelAnalysis,
    sets: KernelSets,
    box: GroupBox,
    found: AccessRange,
    nbytes: int,
    what: str,
    tally: Tally,
    operations: int,
) -> None:
    if found.precision is Precision.WHOLE:
        return
    own: list[ByteSet] = []
    unknown: NoSet | None = None
    for access in analysis.accesses:
        if access.argument == found.argument and access.mode is Mode.WRITE and access.update is None:
            try:
                own += sets.of(access)
            except NoSet as cause:
                unknown = cause
    regions = regions_of(found.writes)
    try:
        with few_operations(operations):
            excess, missing = _differences(own, regions, box, nbytes, found.precision is Precision.EXACT)
    except NoSet as cause:
        tally.leave(cause)
        return
    assert missing is None, f"{what}: writes {missing} too, not only {regions[:4]}"
    if found.precision is Precision.EXACT:
        if unknown is not None:
            tally.leave(unknown)
            return
        assert excess is None, f"{what}: EXACT, but does not write {excess} of {regions[:4]}"
        tally.equal += 1
    else:
        tally.contain += 1


def _compare_reads(
    analysis: KernelAnalysis,
    sets: KernelSets,
    box: GroupBox,
    found: AccessRange,
    nbytes: int,
    what: str,
    tally: Tally,
    operations: int,
) -> None:
    if found.reads_whole:
        return
    for access in analysis.accesses:
        if access.argument == found.argument and access.mode is Mode.READ:
            if tally.exceeded >= _PATIENCE:
                tally.leave(NoSet("isl gave up on others"))
                continue
            try:
                own = sets.of(access)
                regions = regions_of(found.reads)
                with few_operations(operations):
                    _, missing = _differences(own, regions, box, nbytes, False)
            except NoSet as cause:
                tally.leave(cause)
                continue
            assert missing is None, f"{what}: reads {missing} too, not only {regions[:4]}"
            tally.contain += 1


def regions_of(found: RegionSet) -> tuple[Bytes, ...]:
    """As few regions as there are."""
    return RegionSet.of(found.regions).regions


def _differences(
    own: Sequence[ByteSet], regions: Sequence[Bytes], box: GroupBox, nbytes: int, is_exact: bool
) -> tuple[str | None, str | None]:
    """What is in ``regions`` alone (if ``is_exact``, of what is certain), and what in the sets alone."""
    unit = gcd(nbytes, *(each.unit for each in own))
    for each in regions:
        unit = gcd(unit, each.base, each.nbytes, *(stride for stride, _ in each.levels))
    inside = isl.Set(f"{{ [e] : 0 <= e < {nbytes // unit} }}")
    named = [(each.is_certain, each.at(box, unit).intersect(inside)) for each in own]
    for window, part in _windows(regions, nbytes, unit):
        answer = isl.Set(f"{{ [e] : {' or '.join(_listed(each, unit) for each in part) or 'false'} }}")
        answer = answer.intersect(window).intersect(inside)
        for _, touched in named:
            beyond = touched.intersect(window).subtract(answer)
            if not beyond.is_empty():
                return None, f"unit {beyond.sample_point()} of {unit} bytes"
        if is_exact:
            for certain, touched in named:
                if certain:
                    answer = answer.subtract(touched)
            if not answer.is_empty():
                return f"unit {answer.sample_point()} of {unit} bytes", None
    return None, None


def _windows(regions: Sequence[Bytes], nbytes: int, unit: int) -> Iterator[tuple[isl.Set, Sequence[Bytes]]]:
    """Some intervals, from neighbour to neighbour, and the regions that may be in them."""
    if len(regions) <= _WINDOW or any(each.levels for each in regions):
        yield isl.Set("{ [e] }"), regions
        return
    last = len(regions) - _WINDOW
    for first in sorted({0, last // 2, last}):
        part = regions[first : first + _WINDOW]
        start = regions[first - 1].bounds.stop if first else 0
        stop = nbytes if first == last else part[-1].bounds.stop
        yield isl.Set(f"{{ [e] : {start // unit} <= e < {-(-stop // unit)} }}"), part


def _listed(region: Bytes, unit: int) -> str:
    names = [f"k{level}" for level in range(len(region.levels))]
    first = " + ".join(
        [
            str(region.base // unit),
            *(f"{s // unit}*{k}" for (s, _), k in zip(region.levels, names, strict=True)),
        ]
    )
    parts = [f"0 <= {k} < {count}" for (_, count), k in zip(region.levels, names, strict=True)]
    every = " and ".join([*parts, f"{first} <= e < {first} + {region.nbytes // unit}"])
    return f"exists ({', '.join(names)} : {every})" if names else f"({every})"


# -- launches ----------------------------------------------------------------------------------------


def larger(ndrange: NDRange, arguments: Sequence[object], random: Random) -> Asked:
    """A launch like this one, of any size: more work-groups, other scalars, larger buffers."""
    by = random.choice((1, 3, 16, 100, 1024))
    size = tuple(n * random.choice((1, by)) if n > 1 else 1 for n in ndrange.global_size)
    grid = NDRange(ndrange.work_dim, ndrange.offset, (size[0], size[1], size[2]), ndrange.local_size)
    values = tuple(_other(each, by, random) if isinstance(each, bytes) else None for each in arguments)
    nbytes = tuple(
        each.nbytes * random.choice((1, by, by * by)) if isinstance(each, np.ndarray) else None
        for each in arguments
    )
    return Asked(grid, values, nbytes)


def _other(raw: bytes, by: int, random: Random) -> bytes:
    if len(raw) != 4:
        return raw
    value = int.from_bytes(raw, "little", signed=True)
    near = (value, value * by, value * by + 1, value * by - 1, value + 1, value - 1)
    made = random.choice((*near, random.randrange(2000), random.choice((-value, 0, 2**31 - 1, -(2**31)))))
    return struct.pack("<I", made & 0xFFFFFFFF)


def some_boxes(groups: Int3, random: Random, count: int) -> Iterator[GroupBox]:
    """Random boxes of work-groups."""
    for _ in range(count):
        start = [random.randrange(n) for n in groups]
        stop = [random.choice((n, random.randrange(at, n) + 1)) for at, n in zip(start, groups, strict=True)]
        yield GroupBox((start[0], start[1], start[2]), (stop[0], stop[1], stop[2]))
