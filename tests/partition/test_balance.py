"""Shares follow what work costs and how fast members are: quickly, and not to and fro.

Members are simulated: a launch takes what a cost function says, on a clock of its own.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from sdi.ndrange import GroupBox
from sdi.partition.balance import Balance, ShareEpoch, Speeds, edges_of, placed
from sdi.partition.table import grid

GROUPS = 1024
COSTS: dict[str, Callable[[float], float]] = {
    "even": lambda x: 1.0,
    "triangular": lambda x: x + 0.0005,
    "falling": lambda x: 1.0005 - x,
    "square": lambda x: x * x + 0.001,
    "a step": lambda x: 1.0 if x < 0.5 else 8.0,
    "an early step": lambda x: 10.0 if x < 0.3 else 1.0,
    "a wave": lambda x: 1.2 + math.sin(9 * x),
    "costly ends": lambda x: 5.0 if x < 0.1 or x > 0.9 else 1.0,
}
PARTS = 240


class Members:
    """Members that take ``slowness[k] * cost`` ns for work, with noise."""

    def __init__(
        self,
        cost: Callable[[float], float],
        slowness: Sequence[float],
        noise: float = 0.0,
        speeds: Speeds | None = None,
        total_ns: float = 1e8,
    ) -> None:
        self.cost, self.slowness, self.noise = cost, slowness, noise
        self.total_ns = total_ns
        self.random = random.Random(5)
        self.balance = Balance(0, len(slowness), speeds or Speeds())
        self.moved_at: list[int] = []

    def work(self, start: float, stop: float) -> float:
        step = (stop - start) / PARTS
        return sum(self.cost(start + (k + 0.5) * step) for k in range(PARTS)) * step

    def launch(self, number: int) -> float:
        """One launch, cut anew first if that is asked for; its imbalance without the noise."""
        balance, count = self.balance, len(self.slowness)
        if not balance.current.is_current:
            proposal = balance.proposal()
            if proposal is None:
                balance.stay()
            else:
                balance.move(proposal[0])
                self.moved_at.append(number)
        boxes = balance.boxes((GROUPS, 1, 1), (count, 1, 1))
        edges = edges_of(boxes, (GROUPS, 1, 1), 0)
        times = [
            slow * self.work(a, b) * self.total_ns
            for slow, (a, b) in zip(self.slowness, pairwise(edges), strict=True)
        ]
        noisy = [ns * (1 + self.random.uniform(-self.noise, self.noise)) for ns in times]
        balance.record(balance.current, edges, noisy)
        return 1 - sum(times) / count / max(times)

    def launches(self, count: int) -> list[float]:
        return [self.launch(number) for number in range(count)]


@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("members", [2, 3, 4, 8])
def test_the_fifth_launch_is_balanced_whatever_work_groups_cost(name: str, members: int) -> None:
    found = Members(COSTS[name], [1.0] * members).launches(24)
    assert found[4] <= 0.10 and max(found[8:]) <= 0.10, found


@pytest.mark.parametrize("name", ["even", "triangular", "falling", "a step", "a wave"])
@pytest.mark.parametrize("slowness", [(1, 3), (2, 1, 1), (1, 3, 1, 1), (1, 1.5, 2, 2.5), (1, 1, 1, 1.3)])
def test_the_fifth_launch_is_balanced_where_members_differ_too(name: str, slowness: tuple[float]) -> None:
    members = Members(COSTS[name], slowness)
    found = members.launches(24)
    assert found[4] <= 0.10 and max(found[8:]) <= 0.10, found


def drawn_cost(numbers: random.Random) -> Callable[[float], float]:
    """Steps, a power, a wave or a plateau."""
    kind = numbers.randrange(4)
    if kind == 0:
        steps = [numbers.uniform(0.1, 3) for _ in range(numbers.choice((2, 3, 4, 6)))]
        return lambda x: steps[min(int(x * len(steps)), len(steps) - 1)]
    if kind == 1:
        power = numbers.uniform(-0.9, 4)
        return lambda x: (x + 0.01) ** power
    if kind == 2:
        rate, phase = numbers.uniform(2, 25), numbers.uniform(0, 6)
        return lambda x: 1.05 + math.sin(rate * x + phase)
    at, height, width = numbers.random(), numbers.uniform(2, 20), numbers.uniform(0.05, 0.4)
    return lambda x: height if abs(x - at) < width / 2 else 1.0


def test_nearly_all_costs_and_speeds_are_balanced_by_the_fifth_launch() -> None:
    numbers = random.Random(3)
    fifth = []
    for _ in range(60):
        slowness = [
            numbers.choice((1, 1, 1, numbers.uniform(1, 3))) for _ in range(numbers.choice((2, 3, 4, 8)))
        ]
        fifth.append(Members(drawn_cost(numbers), slowness, numbers.choice((0, 0.02))).launches(5)[4])
    fifth.sort()
    # [M] Of 150, all but three were at 10 % or less; a narrow and high plateau was at 15.
    assert fifth[56] <= 0.10 and fifth[-1] <= 0.20, fifth


def test_a_slow_member_gets_its_share_and_the_next_kernel_begins_with_it() -> None:
    speeds = Speeds()
    first = Members(COSTS["even"], (1, 1, 3, 1), speeds=speeds)
    first.launches(24)
    boxes = first.balance.boxes((GROUPS, 1, 1), (4, 1, 1))
    shares = [box.total_groups / GROUPS for box in boxes]
    assert shares == pytest.approx([0.3, 0.3, 0.1, 0.3], abs=0.02)
    second = Members(COSTS["even"], (1, 1, 3, 1), speeds=speeds)
    assert second.launch(0) < 0.12, "its first launch knows already who is slow"


def test_costly_work_is_not_taken_for_a_slow_member() -> None:
    speeds = Speeds()
    Members(COSTS["triangular"], [1.0] * 4, speeds=speeds).launches(24)
    assert Members(COSTS["even"], [1.0] * 4, speeds=speeds).launch(0) < 0.06


@pytest.mark.parametrize("noise", [0.03, 0.1])
@pytest.mark.parametrize("name", COSTS)
def test_noise_never_has_shares_go_to_and_fro(name: str, noise: float) -> None:
    members = Members(COSTS[name], [1.0] * 4, noise)
    found = members.launches(600)
    assert max(found[100:]) <= 0.12
    assert len(members.moved_at) <= 6 and all(number < 100 for number in members.moved_at), members.moved_at


def test_even_work_is_never_moved() -> None:
    members = Members(COSTS["even"], [1.0] * 4, 0.1)
    members.launches(600)
    assert members.moved_at == [] and members.balance.current.edges is None


def test_work_that_changes_is_followed() -> None:
    members = Members(COSTS["triangular"], [1.0] * 4)
    members.launches(40)
    members.cost = COSTS["falling"]
    found = members.launches(300)
    assert max(found[-100:]) <= 0.12, found


def test_alternating_work_does_not_flap() -> None:
    """Two kinds of launches that nothing tells apart: no shares are right for both."""
    members = Members(COSTS["triangular"], [1.0] * 4)
    for number in range(800):
        members.cost = COSTS["triangular" if number % 2 else "falling"]
        members.launch(number)
    assert len([number for number in members.moved_at if number > 100]) <= 6


def test_short_launches_are_left_alone() -> None:
    members = Members(COSTS["triangular"], [1.0] * 4, total_ns=1e4)
    members.launches(50)
    assert members.moved_at == []


def test_a_first_launch_counts_where_loading_code_is_nothing_beside_it() -> None:
    for total_ns, is_moved in ((1e8, False), (1e9, True)):
        members = Members(COSTS["triangular"], [1.0] * 4)
        edges = (0.0, 0.25, 0.5, 0.75, 1.0)
        times = [members.work(a, b) * total_ns * 2 for a, b in pairwise(edges)]
        members.balance.record(members.balance.current, edges, times, is_first=True)
        assert members.balance.current.is_current is not is_moved


def test_launches_too_short_to_learn_from_are_measured_seldom_until_one_is_long() -> None:
    balance = Balance(0, 2, Speeds())
    epoch = balance.current

    def measured(numbers: range, took_ns: float) -> int:
        found = [number for number in numbers if epoch.count(number)]
        for _ in found:
            balance.record(epoch, (0.0, 0.5, 1.0), [took_ns, took_ns])
        return len(found)

    assert measured(range(1, 9), 1e3) == 8  # the first ones
    assert measured(range(9, 1025), 1e3) == 4
    assert measured(range(1025, 1281), 1e6) == 1
    assert measured(range(1281, 1537), 1e6) == 16
    assert epoch.is_current


def test_a_refused_move_is_asked_for_again_later_and_more_seldom() -> None:
    members = Members(COSTS["triangular"], [1.0] * 4)
    asked = []
    for number in range(200):
        if not members.balance.current.is_current:
            asked.append(number)
            assert members.balance.proposal() is not None
            members.balance.stay()
        members.launch(number)
    assert 3 <= len(asked) <= 9 and asked[0] == 1


def test_what_a_move_gains_is_how_much_sooner_the_longest_assignment_ends() -> None:
    members = Members(COSTS["triangular"], [1.0] * 4)
    members.launch(0)
    proposal = members.balance.proposal()
    assert proposal is not None
    whole_ns = members.work(0, 1) * members.total_ns
    assert proposal[1] == pytest.approx((7 / 16 - 1 / 4) * whole_ns, rel=0.15)


def test_each_move_after_the_fourth_waits_for_twice_as_many_launches() -> None:
    balance, edges = Balance(0, 2, Speeds()), (0.0, 0.5, 1.0)
    waited = []
    for _ in range(13):
        launches = 0
        while balance.current.is_current:
            balance.record(balance.current, edges, [1e6, 3e6])
            launches += 1
        waited.append(launches)
        balance.move(edges)
    assert waited == [1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 64, 64, 64]


def test_after_four_moves_the_best_cut_that_was_tried_is_taken() -> None:
    """Costs that follow no curve: the fit promises much and is wrong each time."""
    balance = Balance(0, 2, Speeds())
    tried = [(0.0, edge, 1.0) for edge in (0.5, 0.3, 0.45, 0.6, 0.2)]
    for number, edges in enumerate(tried):
        if number:
            balance.move(edges)
        second_ns = 1.03e6 if edges[1] == 0.45 else 3e6 + 1e5 * number
        balance.record(balance.current, edges, [1e6, second_ns])
    proposal = balance.proposal()
    assert proposal is not None and proposal[0] == (0.0, 0.45, 1.0)


def test_equal_parts_for_good_are_the_table_s() -> None:
    members = Members(COSTS["triangular"], [1.0] * 4)
    members.launches(5)
    members.balance.move(None, for_good=True)
    found = members.launches(50)
    assert len(set(found)) == 1
    assert members.balance.boxes((GROUPS, 1, 1), (4, 1, 1)) == grid((GROUPS, 1, 1), (4, 1, 1))


@pytest.mark.parametrize("groups", [2, 3, 5, 8, 100, 1024, 64_512])
@pytest.mark.parametrize("assignments", [2, 3, 5, 8])
def test_every_assignment_has_work_groups_whatever_the_edges(groups: int, assignments: int) -> None:
    if groups < assignments:
        pytest.skip("fewer work-groups than assignments")
    numbers = random.Random(groups * assignments)
    for _ in range(200):
        inner = sorted(numbers.random() ** numbers.choice((1, 9)) for _ in range(assignments - 1))
        found = placed((0.0, *inner, 1.0), groups)
        assert found[0] == 0 and found[-1] == groups
        assert all(a < b for a, b in pairwise(found))


def test_random_cuts_cover_the_grid_and_change() -> None:
    balance = Balance(1, 3, Speeds(), seed=4)
    seen = set()
    for number in range(40):
        epoch: ShareEpoch = balance.current
        boxes = balance.boxes((4, 16, 1), (1, 3, 1))
        assert sum(box.total_groups for box in boxes) == 64 and isinstance(boxes[0], GroupBox)
        seen.add(boxes)
        epoch.count(number)
        if not epoch.is_current:
            proposal = balance.proposal()
            assert proposal is not None
            balance.move(proposal[0])
    assert len(seen) >= 4


def test_shares_that_loops_foretell_are_used_before_anything_is_measured() -> None:
    balance = Balance(0, 4, Speeds())
    found = balance.estimated([2.0 * k + 1 for k in range(10)])
    assert found is not None
    edges, gain = found
    assert list(edges) == pytest.approx([0.0, 0.5, 0.7071, 0.866, 1.0], abs=0.01)
    assert gain == pytest.approx(7 / 16 - 1 / 4, abs=0.01)


@pytest.mark.parametrize("density", [[], [1.0, 1.05, 1.1, 1.0]])
def test_work_that_is_nearly_even_is_cut_evenly_at_first(density: list[float]) -> None:
    balance = Balance(0, 4, Speeds())
    assert balance.estimated(density) is None and balance.is_estimated
    assert balance.current.edges is None


def test_what_was_measured_counts_more_than_what_loops_foretell() -> None:
    balance = Balance(0, 4, Speeds())
    balance.record(balance.current, (0.0, 0.25, 0.5, 0.75, 1.0), [1e6] * 4)
    assert balance.estimated([1.0, 9.0]) is None
