"""What work-groups cost along the dimension that is cut, and how slow members are: fitted to what was seen.

Only the proportions of the assignments of one launch count, so launches that do more or less work in all can
be put together.  One cut can't tell a slow member from costly work-groups; the next ones do, because the same
groups then run elsewhere.  Until then both are taken to be likely, as the weights of ``fit`` say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sdi.dataclass import dataclass

Edges: TypeAlias = tuple[float, ...]
"""Where a dimension is cut, as parts of its length: from 0.0 to 1.0, rising."""
_Array: TypeAlias = npt.NDArray[np.float64]

_BINS = 48
ROUGH, EVEN = 9.0, 0.003
"""Variance of the logarithm of the cost between the two ends of the dimension: where anything may be, and
where work-groups are taken to be alike."""
_ROUNDS = 12
_LONGEST_STEP = 1.0
UNKNOWN = 0.16
"""Variance of the logarithm of a member's slowness before anything is known."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Measured launches that were cut alike.

    ``logs[k]``: logarithm of the time of assignment k, less the mean of them all.  ``variance``: of each.
    """

    edges: Edges
    logs: tuple[float, ...]
    variance: float


@dataclass(frozen=True, slots=True)
class Cost:
    """``density``: what work-groups cost, in equal parts of the dimension.  ``slowness``: logarithm of each
    member's time for the same work; ``variances``: how well these are known.
    """

    density: _Array
    slowness: _Array
    variances: _Array

    def times(self, edges: Edges) -> list[float]:
        """Predicted times of the assignments, in units of its own."""
        work = _overlaps(edges) @ self.density
        return [float(part) for part in work * np.exp(self.slowness)]

    def misfit(self, samples: Sequence[Sample]) -> float:
        """By how much times differ from the predicted ones, as a part of them, in the root of the mean."""
        squares = []
        for sample in samples:
            left = np.array(sample.logs) - np.log(self.times(sample.edges))
            squares.append(float(left.var()))
        return math.sqrt(sum(squares) / len(squares))

    def level(self) -> Edges:
        """The cut with which all members are predicted to take the same time."""
        shares = np.exp(-self.slowness)
        wanted = np.cumsum(shares)[:-1] / shares.sum()
        total = np.concatenate([[0.0], np.cumsum(self.density)])
        inner = np.interp(wanted * total[-1], total, np.linspace(0.0, 1.0, _BINS + 1))
        return (0.0, *(float(edge) for edge in inner), 1.0)


def guess(density: Sequence[float], slowness: Sequence[float], variances: Sequence[float]) -> Cost:
    """Costs before anything is measured: ``density`` of work-groups, in any number of equal parts."""
    bins, parts = (np.arange(_BINS) + 0.5) / _BINS, (np.arange(len(density)) + 0.5) / len(density)
    return Cost(np.interp(bins, parts, density), np.array(slowness), np.array(variances))


def fit(
    samples: Sequence[Sample],
    slowness: Sequence[float],
    variances: Sequence[float],
    roughness: float = ROUGH,
) -> Cost:
    """The likeliest costs: densities that change smoothly, members about as slow as ``slowness`` says.

    Gauss-Newton on logarithms; about a millisecond.
    """
    members = len(slowness)
    known, sure = np.array(slowness), 1.0 / np.array(variances)
    smooth = np.diff(np.eye(_BINS), axis=0)
    prior = np.zeros((_BINS + members,) * 2)
    prior[:_BINS, :_BINS] = smooth.T @ smooth * (_BINS / roughness) + 1e-4 * np.eye(_BINS)
    prior[_BINS:, _BINS:] = np.diag(sure)
    pull = np.concatenate([np.zeros(_BINS), sure * known])
    found = np.concatenate([np.zeros(_BINS), known])
    parts = [_overlaps(sample.edges) for sample in samples]
    curvature = prior
    for _ in range(_ROUNDS):
        density = np.exp(found[:_BINS])
        curvature, slope = prior.copy(), pull - prior @ found
        for sample, overlaps in zip(samples, parts, strict=True):
            work = overlaps * density
            total = work.sum(axis=1, keepdims=True)
            change = np.hstack([work / total, np.eye(members)])
            left = np.array(sample.logs) - np.log(total[:, 0]) - found[_BINS:]
            change, left = change - change.mean(axis=0), left - left.mean()
            curvature += change.T @ change / sample.variance
            slope += change.T @ left / sample.variance
        step = np.linalg.solve(curvature, slope)
        longest = float(np.abs(step).max())
        found = found + step * min(1.0, _LONGEST_STEP / max(longest, 1e-12))
        if longest < 1e-4:
            break
    # How slow all members are together shows nowhere: only differences from their mean are known.
    apart = np.eye(members) - 1 / members
    spread = np.diag(apart @ np.linalg.inv(curvature)[_BINS:, _BINS:] @ apart)
    return Cost(np.exp(found[:_BINS]), apart @ found[_BINS:], spread)


def _overlaps(edges: Edges) -> _Array:
    """How much of each bin lies in each assignment."""
    bins = np.arange(_BINS) / _BINS
    rows = [np.minimum(stop, bins + 1 / _BINS) - np.maximum(start, bins) for start, stop in pairwise(edges)]
    overlaps: _Array = np.maximum(np.array(rows), 0.0) * _BINS + 1e-9
    return overlaps
