"""What work-groups cost and how slow members are, from the times of launches."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from sdi.partition.cost import EVEN, ROUGH, UNKNOWN, Sample, fit, guess

HALVES = (0.0, 0.5, 1.0)
UNEVEN = (0.0, 0.25, 1.0)


def seen(edges: tuple[float, ...], times: list[float]) -> Sample:
    logs = np.log(times)
    return Sample(edges, tuple(float(each) for each in logs - logs.mean()), 1e-4)


def test_a_member_that_is_slow_wherever_it_is_gets_less() -> None:
    samples = [seen(HALVES, [1.0, 3.0]), seen(UNEVEN, [0.5, 4.5])]
    found = fit(samples, (0.0, 0.0), (UNKNOWN,) * 2, EVEN)
    assert abs(found.slowness[1] - found.slowness[0] - math.log(3)) < 0.05
    assert abs(found.level()[1] - 0.75) < 0.02 and found.misfit(samples) < 0.02
    assert max(found.times(found.level())) / min(found.times(found.level())) < 1.01


def test_work_groups_that_cost_more_at_one_end_are_told_from_slow_members() -> None:
    def work(start: float, stop: float) -> float:  # each costs what its place says
        return stop**2 - start**2

    cuts = [HALVES, UNEVEN, (0.0, 0.7, 1.0), (0.0, 0.6, 1.0)]
    samples = [seen(edges, [work(a, b) for a, b in pairwise(edges)]) for edges in cuts]
    found = fit(samples, (0.0, 0.0), (UNKNOWN,) * 2, ROUGH)
    assert abs(found.level()[1] - math.sqrt(0.5)) < 0.03
    assert abs(found.slowness[1] - found.slowness[0]) < 0.2


def test_a_guess_is_level_where_its_work_is() -> None:
    assert abs(guess([1.0, 3.0], [0.0, 0.0], [1.0, 1.0]).level()[1] - 0.6614) < 0.002
    assert guess([1.0], [0.0, math.log(3)], [1.0, 1.0]).level()[1] == 0.75
