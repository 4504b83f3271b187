"""How much a kernel's work-groups have to do before any launch was measured: iterations of loops whose number
follows from ids and scalars, as in triangular loops.

An estimate for the first shares of a launch; results never depend on it.  Numbers of iterations are found at
some work-items by doubling and then between powers of two, to about 6 %.  What data decide within such a loop
(a search, a test) is taken to be as much everywhere.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from sdi.ndrange import GroupBox
from sdi.sampling.affine_context import AffineContext
from sdi.sampling.dense import Points
from sdi.sampling.machine import Access, Loop
from sdi.sampling.model import WorkEstimate
from sdi.sampling.ops import Undefined
from sdi.sampling.terms import TermOp, rows_below

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
_Nest: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Numbers of loops in each other, and of conditions."""

BINS = 48
"""Parts of the dimension that is cut."""
_FINER = 8
_NESTS_MAX, _DEPTH_MAX = 16, 3
"""Different nests of loops, and loops in each other, that are looked at."""


class _Look(NamedTuple):
    """How closely to look: parts of the dimension that is cut, work-groups in each of the others, and
    iterations of a loop, as parts of their number, to know what is inside.
    """

    parts: int
    across: int
    inside: tuple[float, ...]


_CLOSE = _Look(BINS, 8, (0.125, 0.375, 0.625, 0.875))
_SUM = _Look(6, 6, (0.5,))
"""Where only the sum is asked for: what becomes more or less mostly does so evenly."""


def work_of(binding: AffineContext, accesses: Sequence[Access], dim: int) -> WorkEstimate | None:
    """The work along dimension ``dim``; None where it is the same everywhere, or unknown."""
    nests = _nests(binding, accesses)
    if not nests or len(nests) > _NESTS_MAX or not any(_varies(binding, nest, dim) for nest in nests):
        return None
    along = _along(binding, nests, dim, _CLOSE)
    if along is None:
        return None
    return WorkEstimate(tuple(along.tolist()), float(along.mean()) * math.prod(binding.ndrange.global_size))


def effort_of(binding: AffineContext, accesses: Sequence[Access]) -> float | None:
    """Accesses of all work-items, those outside of loops included; None where loops say nothing."""
    if None in binding.loops:
        return None
    nests = _nests(binding, accesses)
    along = _along(binding, nests, 0, _SUM) if len(nests) <= _NESTS_MAX else None
    if along is None:
        return None
    each = float(along.mean()) + sum(not access.loops for access in accesses)
    return each * math.prod(binding.ndrange.global_size)


def _nests(binding: AffineContext, accesses: Sequence[Access]) -> Counter[_Nest]:
    """Loops in each other, with the conditions under which what is inside happens, and how much that is."""
    nests = Counter((access.loops, access.guards) for access in accesses if access.loops)
    known = [(number, loop) for number, loop in enumerate(binding.loops) if loop is not None]
    nests.update(((*loop.around, number), loop.guards) for number, loop in known)
    return nests


def _along(binding: AffineContext, nests: Counter[_Nest], dim: int, look: _Look) -> Array | None:
    """What a work-item does on average, in equal parts of dimension ``dim``; at least 1."""
    key = (dim, look.parts)
    if key not in binding.work:
        binding.work[key] = _looked_at(binding, nests, dim, look)
    found: Array | None = binding.work[key]
    return found


def _looked_at(binding: AffineContext, nests: Counter[_Nest], dim: int, look: _Look) -> Array | None:
    parts: list[tuple[list[Loop], tuple[int, ...], int]] = []
    for (numbers, guards), times in nests.items():
        loops = _foretold(binding, numbers)
        is_all = len(loops) == len(numbers)
        if len(loops) > _DEPTH_MAX or not (is_all or (loops and look is not _SUM)):
            return None  # data decides how often
        parts.append((loops, guards if is_all else (), times))
    sample = _Sample(binding, dim, look)
    total: Array = np.ones((1, 1, 1, 1))
    try:
        with np.errstate(all="ignore"):
            for loops, guards, times in parts:
                total = total + times * sample.weigh(loops, guards, {})
    except (Undefined, KeyError):  # KeyError: a condition depends on a counter of another loop
        return None
    return np.broadcast_to(total.mean(axis=(1, 2, 3)), (look.parts,)).astype(float)


def _foretold(binding: AffineContext, numbers: Sequence[int]) -> list[Loop]:
    """Those of loops in each other that are around all whose number of iterations data decide."""
    found: list[Loop] = []
    for number in numbers:
        loop = binding.loops[number]
        if loop is None or any(binding.opaque[condition] for condition in loop.conditions):
            break
        found.append(loop)
    return found


def _varies(binding: AffineContext, nest: tuple[tuple[int, ...], tuple[int, ...]], dim: int) -> bool:
    """Whether ids of ``dim`` decide how often the inside of some loops happens."""
    loops = [binding.loops[number] for number in nest[0]]
    terms = [*nest[1], *(c for loop in loops if loop is not None for c in loop.conditions)]
    return any(
        row.op in (TermOp.GLOBAL_ID, TermOp.GROUP_ID) and row.payload == dim
        for row in rows_below(binding.rows, terms)
    )


class _Sample:
    """Work-items in the middle of their groups: axis 0 along the dimension that is cut, 1 and 2 along the
    others; axis 3 has values of one counter.
    """

    def __init__(self, binding: AffineContext, dim: int, look: _Look) -> None:
        self._binding, self._inside = binding, look.inside
        n = binding.ndrange
        self._axes: dict[tuple[TermOp, int], Array] = {}
        self._known: dict[
            tuple[int, ...], tuple[Array, list[Array]]
        ] = {}  # trips by loop and iteration around it
        self._used: dict[tuple[int, ...], frozenset[int]] = {}
        self._points: dict[tuple[int, ...], Points] = {}  # by iterations, all of which are in _known
        others = [d for d in range(3) if d != dim]
        for d in range(3):
            many = look.parts if d == dim else min(look.across, n.num_groups[d])
            group = ((np.arange(many) + 0.5) / many * n.num_groups[d]).astype(np.int64)
            shape = [1, 1, 1, 1]
            shape[0 if d == dim else 1 + others.index(d)] = many
            self._axes[TermOp.GROUP_ID, d] = group.reshape(shape)
            self._axes[TermOp.LOCAL_ID, d] = np.full((1, 1, 1, 1), n.local_size[d] // 2, np.int64)

    def weigh(self, loops: list[Loop], guards: tuple[int, ...], counters: dict[int, Array]) -> Array:
        """How often what is inside ``loops`` happens."""
        if not loops:
            key = tuple([id(at) for at in counters.values()])
            points = self._points.get(key)
            if points is None:
                points = self._points[key] = self._at(counters)
            known = [guard for guard in guards if not self._binding.opaque[guard]]
            return self._held(known, counters, points).astype(float)
        key = (loops[0].counter, *(id(at) for at in counters.values()))
        if key not in self._known:
            trips = self._trips(loops[0], counters)
            self._known[key] = (trips, [(trips * part).astype(np.int64) for part in self._inside])
        trips, iterations = self._known[key]
        counter = cast(int, self._binding.rows[loops[0].counter].payload)
        if counter not in self._counters(loops[1:], guards):  # each iteration is like the others
            return trips * self.weigh(loops[1:], guards, counters)
        inside: Array = np.zeros((1, 1, 1, 1))
        for at in iterations:
            inside = inside + self.weigh(loops[1:], guards, {**counters, counter: at})
        return trips * inside / len(iterations)

    def _counters(self, loops: list[Loop], guards: tuple[int, ...]) -> frozenset[int]:
        """The counters on which it depends how often what is inside ``loops`` happens."""
        key = (*[loop.counter for loop in loops], -1, *guards)
        found = self._used.get(key)
        if found is None:
            terms = [*guards, *[condition for loop in loops for condition in loop.conditions]]
            rows = rows_below(self._binding.rows, terms)
            found = frozenset(cast(int, row.payload) for row in rows if row.op is TermOp.COUNTER)
            self._used[key] = found
        return found

    def _trips(self, loop: Loop, counters: dict[int, Array]) -> Array:
        """How often a loop runs, at each point."""
        binding = self._binding
        variable = next(iter(binding.expr(loop.counter)[1]))
        most = min(int(binding.ranges[variable][1]), 1 << 40) + 1
        counter = cast(int, binding.rows[loop.counter].payload)

        def passed(values: Array) -> Array:
            at = {**counters, counter: values}
            held = self._held(list(loop.conditions), at, self._at(at))
            count: Array = np.logical_and.accumulate(held, axis=3).sum(axis=3, keepdims=True)
            return count

        doubling = np.array([(1 << k) - 1 for k in range(most.bit_length()) if (1 << k) <= most], np.int64)
        doubled = passed(doubling.reshape(1, 1, 1, -1))
        least = np.where(doubled > 0, 1 << np.maximum(doubled - 1, 0), 0)
        last = np.minimum((1 << doubled) - 1, most)
        step = (last - least) / _FINER
        finer = (least + step * np.arange(_FINER).reshape(1, 1, 1, -1)).astype(np.int64)
        found: Array = np.where(last > least, least + step * np.maximum(passed(finer) - 0.5, 0.0), least)
        return found

    def _at(self, counters: dict[int, Array]) -> Points:
        """The points of these iterations."""
        points = Points(self._binding, GroupBox((0, 0, 0), self._binding.ndrange.num_groups))
        points.dims = 4
        points.axes = {**self._axes, **{(TermOp.COUNTER, number): at for number, at in counters.items()}}
        return points

    def _held(self, conditions: list[int], counters: dict[int, Array], points: Points) -> Array:
        held: Array = np.ones((1, 1, 1, 1), bool)
        for condition in conditions:
            held = held & (points.value(condition) != 0)
        found: Array = np.broadcast_to(
            held, np.broadcast_shapes(held.shape, *[at.shape for at in counters.values()])
        )
        return found
