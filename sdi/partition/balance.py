"""Shares: where launches of a kernel are cut so that all members end at the same time, learnt from launches.

A cut that was used is a ``ShareEpoch``.  What its launches took is put together until it is clear that some
member has too much to do; then the costs are fitted anew and another cut is proposed (``cost.py``).
Three things keep it from going to and fro: the longer one looks at a cut, the smaller the imbalance that
counts; each move asks for more launches before the next one; and a move has to earn what it costs.
"""

from __future__ import annotations

import math
import random
import threading
from collections import deque
from collections.abc import Sequence
from typing import Literal

from sdi.cells import Cells
from sdi.dataclass import dataclass, replace
from sdi.ndrange import GroupBox, Int3
from sdi.partition.cost import EVEN, UNKNOWN, Cost, Edges, Sample, fit, guess
from sdi.partition.gain import SHORTEST_FIRST_NS
from sdi.partition.table import grid

BalanceMode = Literal["auto", "off", "random"]

IMBALANCE = 0.05
"""What is left alone: how much shorter the mean assignment is than the longest."""
_SIGMAS = 2.5
_NOISE, _NOISE_WEIGHT = 0.02, 4
"""Standard deviation of measured times that is assumed first, and how many measurements this counts for."""
_WORTH, _WORTH_TRIED = 0.5, 0.85
"""A cut must be predicted to leave less than this part of the imbalance, or have left it before."""
_SHORTEST_NS = 50_000.0
"""Assignments that take less say more about issuing than about work."""
_FREE_MOVES = 4
"""After so many moves the next ones need 2, 4, 8 ... launches."""
_LAUNCHES_MAX = 64
_NEVER = 1 << 30
"""More launches than anybody measures."""
_WATCHED = 8
"""The first launches of a cut are all measured, then one of ``_RARELY``; one of ``_SELDOM`` once as many as
the first ones, in a row, took too short a time to learn from it: measuring costs small launches the most.
"""
_RARELY, _SELDOM = 16, 256
_PART = 1 / 16
"""What a launch weighs among those before it, at least."""
_LASTING = 16
_TRIALS_MAX = 10
_MODEL_VARIANCE = 4e-4
"""What the fit may be off by: costs are no smooth curves, and assignments are cut between work-groups."""
_FORESEEN = 0.1
"""So much imbalance must be estimated before anything is measured."""
_OTHER_KERNELS = 0.02
"""Variance of a member's slowness from one kernel to another."""
_EXPLAINED = 0.03
"""What members alone may leave unexplained of the times."""
_BALANCES_MAX = 32
"""Kernels that are asked how slow members are."""
_GRAINS = 64
"""Cuts lie at multiples of about such a part of an assignment: positions with many twos in them fit tiles."""


@dataclass(slots=True, eq=False)
class ShareEpoch:
    """A cut in use.  ``issued``: launches of it that were measured or will be; by the scheduler only.

    ``is_current``: launches may go on with it; any thread may clear it, then the scheduler looks at it anew.
    ``launches``: that were measured; ``logs``, ``longest_ns``: means over them.
    ``is_proven``: it was even for some launches.  ``share``: the longest assignment's of the time of all.
    ``short``: how many of those that were measured last, in a row, took too short a time.
    ``cell``: in ``cells``, how many launches may be replayed.
    """

    balance: Balance
    edges: Edges | None
    expires: int = 0
    is_current: bool = True
    issued: int = 0
    launches: int = 0
    logs: tuple[float, ...] = ()
    ran: Edges = ()
    longest_ns: float = 0.0
    is_proven: bool = False
    short: int = 0
    cells: Cells | None = None
    cell: int = 0

    def follow(self, cells: Cells) -> None:
        """Have a cell say how many launches may be replayed."""
        self.cells, self.cell = cells, cells.new()

    def unfollow(self) -> None:
        """Nothing is recorded of this cut: its cell goes back."""
        if self.cells is not None:
            self.cells.give_back(self.cell)
        self.cells, self.cell = None, 0

    def num_passing(self) -> int:
        """How many of the next launches, at most, run before the cut is to be looked at anew."""
        if not self.is_current:
            return 0
        return self.expires - self.issued - 1 if self.expires > self.issued else _NEVER

    def num_first(self) -> int:
        """How many of the next launches are measured, in a row."""
        return max(_WATCHED - self.issued, 0)

    @property
    def every(self) -> int:
        """Afterwards one of so many is."""
        return _SELDOM if self.is_brief else _RARELY

    def missed(self) -> None:
        """A launch that was to be measured was not."""
        if self.issued <= _WATCHED:
            self.issued -= 1

    def count(self, launch: int) -> bool:
        """Launch number ``launch`` is being issued with this cut: whether to measure it."""
        self.issued += 1
        if self.issued == self.expires:
            self.is_current = False
        return self._is_watched(self.issued, launch)

    def passes(self, launch: int) -> bool:
        """Whether launch number ``launch`` may be issued with this cut unmeasured; counts it then."""
        issued = self.issued + 1
        if not self.is_current or issued == self.expires or self._is_watched(issued, launch):
            return False
        self.issued = issued
        return True

    def _is_watched(self, issued: int, launch: int) -> bool:
        return issued <= _WATCHED or launch % self.every == 0

    @property
    def is_brief(self) -> bool:
        """Whether all assignments that were measured lately took too short a time to learn from it."""
        return self.short >= _WATCHED

    @property
    def imbalance(self) -> float:
        """How much shorter the mean assignment is than the longest: 0 to 1."""
        return 1 - self._even if self.logs else 0.0

    @property
    def share(self) -> float | None:
        """The longest assignment's part of the time of all assignments; None before a launch was measured."""
        return 1 / (len(self.logs) * self._even) if self.logs else None

    @property
    def _even(self) -> float:
        return _mean_of_longest([math.exp(each) for each in self.logs])


class Speeds:
    """How slow members are, put together from all kernels.  Owned by: sdi-scheduler."""

    def __init__(self) -> None:
        self._balances: deque[Balance] = deque(maxlen=_BALANCES_MAX)

    def add(self, balance: Balance) -> None:
        """Hear what ``balance`` finds out."""
        self._balances.append(balance)

    def known(self, assignments: int, apart: Balance) -> tuple[list[float], list[float]]:
        """Slowness (logarithm, 0 in the mean) and its variance of the first ``assignments`` members, without
        what ``apart`` says.
        """
        weights, totals = [1 / UNKNOWN] * assignments, [0.0] * assignments
        for balance in self._balances:
            cost = None if balance is apart else balance.members_cost()
            for member in range(0 if cost is None else min(assignments, len(cost.slowness))):
                assert cost is not None
                one = 1 / (float(cost.variances[member]) + _OTHER_KERNELS)
                weights[member] += one
                totals[member] += one * float(cost.slowness[member])
        means = [total / weight for total, weight in zip(totals, weights, strict=True)]
        mean = sum(means) / len(means)
        return [one - mean for one in means], [1 / weight + _OTHER_KERNELS for weight in weights]


class Balance:
    """The shares of one kernel's launches of about one size, cut along dimension ``dim`` into so many.

    Owned by: sdi-scheduler; any thread records.
    """

    def __init__(
        self, dim: int, assignments: int, speeds: Speeds, seed: int | None = None, edges: Edges | None = None
    ) -> None:
        """``seed``: cuts are chosen at random, and changed now and then: for tests.  ``edges``: the cut to
        begin with, where one is known.
        """
        self.dim = dim
        self._assignments = assignments
        self._speeds = speeds
        self._random = None if seed is None else random.Random(seed)
        self._lock = threading.Lock()
        self._needed = 1
        self._squares, self._freedom = _NOISE_WEIGHT * _NOISE**2, float(_NOISE_WEIGHT)
        self._settled: tuple[tuple[int, int], Cost | None] = ((0, 0), None)
        self.moves = 0
        if self._random is not None:
            self.current = ShareEpoch(self, self._drawn(), expires=1)
        else:
            self.current = ShareEpoch(self, self._by_speed() if edges is None else edges)
        self.is_estimated = self.current.edges is not None  # what else is known, or drawn, is not asked for
        self._epochs = [self.current]
        speeds.add(self)

    # -- while launches run: any thread ------------------------------------------------------------------

    def record(
        self, epoch: ShareEpoch, edges: Edges, times_ns: Sequence[float], is_first: bool = False
    ) -> None:
        """A launch that was cut at ``edges``, as ``epoch`` says, took so long assignment by assignment.

        ``is_first``: drivers may have loaded the kernel's code in that time.
        """
        shortest_ns = SHORTEST_FIRST_NS if is_first else _SHORTEST_NS
        if self._random is not None or min(times_ns) <= 0:
            return
        if max(times_ns) < shortest_ns:
            epoch.short += 1
            return
        epoch.short = 0
        logs = [math.log(ns) for ns in times_ns]
        mean = sum(logs) / len(logs)
        with self._lock:
            epoch.launches += 1
            before = epoch.logs or (0.0,) * len(logs)
            part = max(1 / epoch.launches, _PART)
            epoch.logs = tuple(
                [old + (one - mean - old) * part for old, one in zip(before, logs, strict=True)]
            )
            epoch.longest_ns += (max(times_ns) - epoch.longest_ns) * part
            epoch.ran = edges
            if epoch.launches > 1:
                self._squares += sum(
                    (one - mean - old) * (one - mean - new)
                    for one, old, new in zip(logs, before, epoch.logs, strict=True)
                )
                self._freedom += len(logs) - 1
            if epoch is self.current and epoch.launches >= self._needed and self._is_uneven(epoch):
                epoch.is_current = False
                if epoch.launches > _LASTING and epoch.is_proven:
                    self._epochs = [epoch]  # the work has changed: what other cuts took is over
            elif epoch.launches > _WATCHED:
                epoch.is_proven = True

    def _is_uneven(self, epoch: ShareEpoch) -> bool:
        """Whether more than chance speaks against this cut."""
        noise = math.sqrt(self._squares / self._freedom / min(epoch.launches, 1 / _PART))
        return epoch.imbalance > IMBALANCE + _SIGMAS * noise

    # -- when launches are cut anew: sdi-scheduler ---------------------------------------------------------

    def proposal(self) -> tuple[Edges, float] | None:
        """A better cut than the current one, and what a launch is predicted to gain in ns; None: none is."""
        if self._random is not None:
            return self._drawn(), math.inf
        current, tried, noise = self._tried()
        if not current.launches:
            return None
        cost = self._members_cost(tried, noise)
        if cost is None:
            cost = fit(_samples(tried, noise), *self._speeds.known(self._assignments, self))
        best = min(tried, key=lambda epoch: epoch.imbalance)
        edges, worth = cost.level(), _WORTH
        if self.moves >= _FREE_MOVES and best.ran != current.ran:
            # The costs are no smooth curve: what was good before is better than what should be.
            edges, left, worth = best.ran, best.imbalance, _WORTH_TRIED
        else:
            before, after = cost.times(current.ran), cost.times(edges)
            even = (1 - current.imbalance) * _mean_of_longest(after) / _mean_of_longest(before)
            left = max(0.0, 1 - even)
        if left > worth * current.imbalance:
            return None
        return edges, current.longest_ns * (1 - (1 - current.imbalance) / (1 - left))

    def estimated(self, density: Sequence[float]) -> tuple[Edges, float] | None:
        """A cut for work-groups that are thought to cost ``density``, and by which part of all work the
        longest assignment gets shorter; None where equal parts do as well.  Asked once, before measuring.
        """
        self.is_estimated = True
        if not density or self.current.launches:
            return None
        cost = guess(density, *self._speeds.known(self._assignments, self))
        even = cost.times(tuple([k / self._assignments for k in range(self._assignments + 1)]))
        edges = cost.level()
        level = cost.times(edges)
        if _mean_of_longest(even) > 1 - _FORESEEN:
            return None
        return edges, (max(even) - max(level)) / sum(even)

    def members_cost(self) -> Cost | None:
        """How slow members are, where that alone explains what more than one cut took; else None."""
        _, tried, noise = self._tried()
        return self._members_cost(tried, noise)

    def _members_cost(self, tried: Sequence[ShareEpoch], noise: float) -> Cost | None:
        if self._settled[0] != (state := (self.moves, len(tried))):
            found = None
            if len(tried) > 1:
                samples = _samples(tried, noise)
                found = fit(samples, [0.0] * self._assignments, [1.0] * self._assignments, EVEN)
                if found.misfit(samples) > _EXPLAINED + math.sqrt(noise):
                    found = None
            self._settled = (state, found)
        return self._settled[1]

    def _tried(self) -> tuple[ShareEpoch, list[ShareEpoch], float]:
        """The current cut, all that were measured, and the variance of what is measured."""
        with self._lock:
            tried = [replace(epoch) for epoch in self._epochs if epoch.launches]
            return self.current, tried, self._squares / self._freedom

    def move(self, edges: Edges | None, for_good: bool = False) -> None:
        """Use this cut from now on; None: equal parts.  ``for_good``: whatever is measured."""
        with self._lock:
            self.current.is_current = False
            self.moves += 1
            expires = 0 if self._random is None else 1 << min(self.moves, 6)
            self.current = ShareEpoch(self, edges, expires)
            self._needed = min(_LAUNCHES_MAX, 1 << max(0, self.moves - _FREE_MOVES))
            if for_good:
                self._needed = _NEVER
            if self._random is None:
                self._epochs = [*self._epochs, self.current][-_TRIALS_MAX:]

    def stay(self, factor: float = 2.0) -> None:
        """Go on with this cut, and look at it again after ``factor`` times as many measured launches."""
        with self._lock:
            launches = max(self.current.launches, 1)
            self._needed = max(launches + 1, min(int(launches * max(factor, 2.0)), _NEVER))
            self.current.is_current = True

    def boxes(self, num_groups: Int3, shape: Int3) -> tuple[GroupBox, ...]:
        """The boxes of the current cut of this grid."""
        return self.boxes_at(self.current.edges, num_groups, shape)

    def boxes_at(self, edges: Edges | None, num_groups: Int3, shape: Int3) -> tuple[GroupBox, ...]:
        """The boxes of a cut at ``edges``, each of one group or more."""
        if edges is None:
            return grid(num_groups, shape)
        return grid(num_groups, shape, self.dim, placed(edges, num_groups[self.dim]))

    def _by_speed(self) -> Edges | None:
        """Shares by throughput, as far as other kernels have shown it; None: equal parts."""
        slowness, variances = self._speeds.known(self._assignments, self)
        spread = [
            abs(one) - 2 * math.sqrt(variance) for one, variance in zip(slowness, variances, strict=True)
        ]
        if max(spread) <= IMBALANCE:
            return None
        shares = [math.exp(-one) for one in slowness]
        return (0.0, *[sum(shares[:k]) / sum(shares) for k in range(1, self._assignments)], 1.0)

    def _drawn(self) -> Edges:
        assert self._random is not None
        return (0.0, *sorted(self._random.random() for _ in range(self._assignments - 1)), 1.0)


def placed(edges: Edges, groups: int) -> list[int]:
    """Where to cut ``groups`` work-groups: 0, ..., ``groups``, rising; at multiples of a power of two where
    parts are large enough for that.
    """
    assignments = len(edges) - 1
    grain = 1 << max(0, (groups // (assignments * _GRAINS)).bit_length() - 1)
    found = [0]
    for k, edge in enumerate(edges[1:-1], 1):
        at = round(edge * groups / grain) * grain
        found.append(min(max(at, found[-1] + 1), groups - (assignments - k)))
    return [*found, groups]


def _samples(tried: Sequence[ShareEpoch], noise: float) -> list[Sample]:
    """For a fit; what was measured long ago counts less."""
    return [
        Sample(
            epoch.ran,
            epoch.logs,
            (noise / epoch.launches + _MODEL_VARIANCE) * (1 + 0.5 * (len(tried) - 1 - age)),
        )
        for age, epoch in enumerate(tried)
    ]


def edges_of(boxes: Sequence[GroupBox], num_groups: Int3, dim: int) -> Edges:
    """Where slabs in dimension ``dim`` are cut."""
    return (0.0, *[box.stop[dim] / num_groups[dim] for box in boxes])


def _mean_of_longest(times: Sequence[float]) -> float:
    """The mean as a part of the longest: 1 where all are alike."""
    return sum(times) / len(times) / max(times)
