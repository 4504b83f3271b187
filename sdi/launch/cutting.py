"""The cut of a launch: of all in the partition table, from one assignment to as many as there are members.

Source: papers/1 section 3.4, constraint 3: the least predicted time, given where the data is now.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf, prod
from typing import Literal

from sdi.devices.capabilities import MemberKind
from sdi.launch.copy_costs import between_nodes, merge_ns, missing_nbytes, move_ns, order
from sdi.launch.cuts import candidate_plans, cheapest
from sdi.launch.plan import CutPlan, CutPlans
from sdi.ndrange import GroupBox, Int3
from sdi.partition.balance import Balance, BalanceMode, ShareEpoch, Speeds
from sdi.partition.budget import Budget
from sdi.partition.gain import Candidate, Rates, choose, described
from sdi.partition.history import TRIAL, LaunchHistory
from sdi.partition.table import Cut, cuts, shape_of
from sdi.vmem.directory import member_memory
from sdi.vmem.links import Links

SplitMode = Literal["auto", "always", "never"]

_SLACK = 8.0
"""A launch may take so many times as long as its accesses do at least."""
_SURE_NS, _MEASURED_LEAST = 1e6, 3
"""Times of less are believed once that many were taken."""
_SURE_AFTER, _SETTLED = 16, 64
"""After so many launches what was measured has to do; and the others of a loop run where they stay, most
likely."""
_PATIENCE = 5.0
"""Once the budget is spent, so many times the time to choose must be at stake."""
_ALL_NUMBERS_MAX = 8
"""Of so many members on one node every number is tried; of more, and of several nodes, few are."""


def few_numbers(nodes: Sequence[int]) -> tuple[int, ...]:
    """How many members a launch may be worth: of one node any number, if they are few; else whole nodes.

    ``nodes``: the node of each member, those of a node side by side.
    """
    total = len(nodes)
    of_first = nodes.count(nodes[0])
    if of_first == total:
        if total <= _ALL_NUMBERS_MAX:
            return tuple(range(1, total + 1))
        return (*(1 << power for power in range(total.bit_length()) if 1 << power < total), total)
    ends = [end for end in range(1, total + 1) if end == total or nodes[end] != nodes[end - 1]]
    whole = {ends[(1 << power) - 1] for power in range(len(ends).bit_length()) if 1 << power <= len(ends)}
    return tuple(sorted({1, of_first, *whole, total}))


def _members_of_each(places: Sequence[int]) -> int:
    """How many members each of several machines has; 0 where there is one, or they have not as many."""
    counts = {places.count(place) for place in set(places)}
    return counts.pop() if len(counts) == 1 and len(set(places)) > 1 else 0


class Cutter:
    """Chooses cuts.  Owned by: sdi-scheduler."""

    def __init__(
        self,
        split: SplitMode,
        kinds: Sequence[MemberKind],
        links: Links,
        balance: BalanceMode = "off",
        seed: int = 0,
        members: Sequence[int] = (),
        nodes: Sequence[int] = (),
        units: Sequence[str] = (),
        budget: Budget | None = None,
    ) -> None:
        """``seed``: of cuts at random.  ``members``: their numbers, if they are not 0, 1, 2 ...; ``nodes``:
        the node of each, if they are not on one; those of a node are neighbours.  ``units``: the
        physical device of each.  ``budget``: the session's.
        """
        self.budget = budget or Budget()
        self._split = split
        self._balance, self._seed = balance, seed
        self._speeds = Speeds()
        self._members = tuple(members or range(len(kinds)))
        self._links = links
        self.is_shared = any(kind.is_host_processor for kind in kinds)
        self._assignment_ns = max(kind.assignment_ns for kind in kinds)
        self._access_ns = max(kind.access_ns for kind in kinds)
        self._of_node = _members_of_each([links.place(member_memory(member)) for member in self._members])
        self._few = few_numbers(nodes or (0,) * len(kinds))
        self._is_one_device = len(set(zip(nodes, units, strict=False))) == 1

    def history(self) -> LaunchHistory:
        """For launches of a kind that was not seen before."""
        return LaunchHistory(Rates(self.is_shared), self._split != "auto", self.budget)

    def cut(self, history: LaunchHistory, num_groups: Int3, plans: CutPlans) -> tuple[CutPlan, str]:
        """The cheapest plan, and why it is whole, if it is."""
        is_due = history.shape is None or history.is_due()
        history.is_news = False
        if self._is_one_device and self._split == "auto":  # as ``computes_in_arena`` counts on
            return self._stays_for_good(history, self._whole(num_groups, plans)), history.why_fewer
        if not is_due and history.assignments == 1:
            return self._whole(num_groups, plans), history.why_fewer
        most = min(len(self._members), num_groups[0] * num_groups[1] * num_groups[2])
        if not is_due:
            alike = self._cuts(num_groups, history.assignments, history.shape)
            found = self._best_of(history, alike or self._cuts(num_groups, history.assignments), plans)
        elif history.is_fixed:
            found = self._most_that_may(history, num_groups, most, plans)
            history.decide(shape_of(found.boxes), len(found.boxes), "")
        elif history.rates.group_ns(most) is None:
            found = self._untried(history, num_groups, most, plans)
        else:
            found = self._reconsidered(history, num_groups, most, plans)
        if found.why_whole:
            return self._whole(num_groups, plans), found.why_whole
        if len(found.boxes) == 1:
            return found, history.why_fewer
        shape = shape_of(found.boxes)
        balance = self._balance_of(history, shape)
        if balance is not None:
            found = self._estimated(balance, shape, num_groups, found, plans)
            found = self._balanced(history, balance, shape, num_groups, found, plans)
        return found, history.why_fewer

    def epoch(self, history: LaunchHistory, plan: CutPlan) -> ShareEpoch | None:
        """What the shares of ``plan`` are measured by; None where they stay as they are."""
        balance = self._balance_of(history, shape_of(plan.boxes))
        return None if balance is None else balance.current

    def freeze_equal(self, history: LaunchHistory, plan: CutPlan) -> bool:
        """Have launches like these cut into equal parts from now on; whether they were not."""
        balance = self._balance_of(history, shape_of(plan.boxes))
        if balance is None or balance.current.edges is None:
            return False
        balance.move(None, for_good=True)
        return True

    def _balance_of(self, history: LaunchHistory, shape: Int3) -> Balance | None:
        """The shares of a shape: of slabs only.  More dimensions are cut into equal parts."""
        sliced = [dim for dim in range(3) if shape[dim] > 1]
        if self._balance == "off" or len(sliced) != 1 or len(self._members) == 1:
            return None
        found = history.balances.get(shape)
        if found is None:
            seed = None
            if self._balance == "random":
                self._seed += 1
                seed = self._seed
            edges = None if history.learnt is None else history.learnt.edges.get(shape)
            found = Balance(sliced[0], shape[sliced[0]], self._speeds, seed, edges)
            history.balances[shape] = found
        return found

    def _cuts(self, num_groups: Int3, assignments: int, shape: Int3 | None = None) -> list[Cut]:
        """The cuts of the table; ``shape``: these only."""
        most = min(assignments, len(self._members))
        return [cut for cut in cuts(num_groups, most, self._of_node) if shape in (None, cut.shape)]

    def _boxes(self, history: LaunchHistory, cut: Cut) -> tuple[GroupBox, ...]:
        """``cut`` with the shares that are known for it."""
        balance = self._balance_of(history, cut.shape)
        return cut.boxes if balance is None else balance.boxes(cut.num_groups, cut.shape)

    def _best(self, history: LaunchHistory, num_groups: Int3, assignments: int, plans: CutPlans) -> CutPlan:
        """The plan of the cut into so many assignments that costs least."""
        return self._best_of(history, self._cuts(num_groups, assignments), plans)

    def _best_of(self, history: LaunchHistory, found: Sequence[Cut], plans: CutPlans) -> CutPlan:
        nearest = self._over_nodes(found, plans)
        best = self.best([self._boxes(history, cut) for cut in nearest], plans)
        if best.why_whole and len(nearest) < len(found):
            return self.best([self._boxes(history, cut) for cut in found], plans)
        return best

    def _over_nodes(self, found: Sequence[Cut], plans: CutPlans) -> Sequence[Cut]:
        """Of cuts over several nodes the one that has least go over the network, and then between the members
        of a node; all others as they are.
        """
        by_nodes: dict[Int3, list[Cut]] = {}
        for cut in found:
            by_nodes.setdefault(cut.nodes, []).append(cut)
        if len(found) < 2 or prod(found[0].nodes) == 1:
            return found
        nodes, each = prod(found[0].nodes), self._of_node
        members = [self._members[node * each : (node + 1) * each] for node in range(nodes)]
        firsts = [those[0] for those in members]
        least = inf

        def order(plan: CutPlan) -> tuple[float, ...]:
            nonlocal least
            merging = merge_ns(plan, self._links, firsts)
            between = between_nodes(plan, self._links, members, least - merging)
            ns = between.longest_ns + between.mean_ns + merging
            if not plan.why_whole:
                least = min(least, ns)
            needed = sum([a.needs.nbytes for used in plan.buffers for a in used.assignments])
            return (bool(plan.why_whole), int(ns / 1e3), needed, plan.merged_nbytes)

        chosen = next(iter(by_nodes.values()))
        if len(by_nodes) > 1:
            options = [those[0].node_boxes for those in by_nodes.values()]
            over = cheapest(candidate_plans(options, plans, order, firsts, is_dear=True), order)
            chosen = next(those for those in by_nodes.values() if those[0].node_boxes == over.boxes)
        if len(chosen) == 1:
            return chosen
        return [self._within_node(chosen, nodes // 2, members[nodes // 2], plans)]

    def _within_node(self, found: Sequence[Cut], node: int, members: Sequence[int], plans: CutPlans) -> Cut:
        """The cut that is best for one node's members: that node stands for all."""

        def cost(plan: CutPlan) -> tuple[int, ...]:
            return order(plan, self._links, members)

        boxes = [cut.boxes_of(node) for cut in found]
        options = [plans.plan(those, False) for those in boxes]
        best = cheapest(options, cost)
        if best.merged_nbytes or best.why_whole:
            options = [plans.plan(those, True) for those in boxes]
            best = cheapest(options, cost)
        return found[options.index(best)]

    def _estimated(
        self, balance: Balance, shape: Int3, num_groups: Int3, found: CutPlan, plans: CutPlans
    ) -> CutPlan:
        """``found``, or for first launches a plan with shares by what loops say, if that pays at once."""
        if balance.is_estimated:
            return found
        work = plans.work(balance.dim)
        better = balance.estimated(() if work is None else work.density)
        if work is None or better is None:
            return found
        edges, gain = better
        moved = self.best([balance.boxes_at(edges, num_groups, shape)], plans)
        once_ns = move_ns(moved, self._links) - move_ns(found, self._links)
        least_ns = gain * work.accesses * self._access_ns
        if moved.boxes == found.boxes or moved.why_whole or least_ns <= once_ns:
            return found
        balance.move(edges)
        return moved

    def _balanced(
        self,
        history: LaunchHistory,
        balance: Balance,
        shape: Int3,
        num_groups: Int3,
        found: CutPlan,
        plans: CutPlans,
    ) -> CutPlan:
        """``found``, or a plan with other shares if some were measured to be uneven and a move pays."""
        if balance.current.is_current:
            return found
        start_ns = time.perf_counter_ns()
        proposal = balance.proposal()
        if proposal is None:
            balance.stay()
            return found
        edges, gain_ns = proposal
        moved = self.best([balance.boxes_at(edges, num_groups, shape)], plans)
        if moved.boxes == found.boxes or moved.why_whole:
            balance.stay()
            return found
        again_ns = merge_ns(moved, self._links) - merge_ns(found, self._links)
        once_ns = move_ns(moved, self._links) - move_ns(found, self._links) - again_ns
        once_ns = max(once_ns, 0.0) + time.perf_counter_ns() - start_ns
        worth_ns = (gain_ns - max(again_ns, 0.0)) * max(history.launches, 1)
        if worth_ns <= once_ns:
            balance.stay(once_ns / worth_ns if worth_ns > 0 else 16.0)
            return found
        balance.move(edges)
        return moved

    def best(self, candidates: Sequence[tuple[GroupBox, ...]], plans: CutPlans) -> CutPlan:
        """The plan of the cut that costs least."""
        return cheapest(candidate_plans(candidates, plans, self.order, self._members), self.order)

    def order(self, plan: CutPlan) -> tuple[int, ...]:
        """Order of cuts: those that may run; time to move, in µs; bytes needed; bytes that several write;
        contiguous ranges.
        """
        return order(plan, self._links, self._members)

    def _whole(self, num_groups: Int3, plans: CutPlans) -> CutPlan:
        return plans.plan((GroupBox((0, 0, 0), num_groups),), False)

    def _most_that_may(self, history: LaunchHistory, num_groups: Int3, most: int, plans: CutPlans) -> CutPlan:
        """The best plan of ``most`` assignments, or of fewer where only they may run on several members."""
        first = found = self._best(history, num_groups, most, plans)
        for assignments in reversed([number for number in self._few if 1 < number < most]):
            if not found.why_whole:
                return found
            found = self._best(history, num_groups, assignments, plans)
        return first if found.why_whole else found

    def _untried(self, history: LaunchHistory, num_groups: Int3, most: int, plans: CutPlans) -> CutPlan:
        """Before anything was measured: split only where what that costs is sure to be saved, or where more
        could be saved and what is at stake may be spent on finding out.

        Members that share a machine's cores save nothing that is known beforehand.
        """
        start_ns = self.budget.now_ns()
        whole = self._whole(num_groups, plans)
        if (found := self._going_on(history, num_groups, plans)) is not None:
            return found
        if self.is_shared or most == 1 or history.assignments:
            return self._stays_whole(history, whole, "until it is known how long that takes")
        accesses = plans.effort()
        least_ns = (accesses or 0.0) * self._access_ns
        most_ns = inf if accesses is None else _SLACK * least_ns
        moving = self._move_ns(whole)
        why = ""
        if not self._pays_to_choose(history, self._saved_ns(most_ns, most), moving, 1):
            why = f"it takes no more than about {most_ns / 1e6:.2f} ms"
        elif self.budget.left_ns() <= 0 and self._saved_ns(least_ns, most) + moving <= 0:
            why = "until it is known how long that takes"
        if why:
            self.budget.spend(self.budget.now_ns() - start_ns)
            return self._stays_whole(history, whole, why)
        found = self._most_that_may(history, num_groups, most, plans)
        self._planned(history, len(found.boxes), start_ns)
        assignments = len(found.boxes)
        if assignments == 1 or found.why_whole:
            history.decide(shape_of(found.boxes), assignments, "")
            return found
        issue = self._assignment_ns * (assignments - 1)
        costs = max(0.0, self._move_ns(found) - moving) + issue
        saved = 1 - 1 / assignments
        if costs > least_ns * saved:
            risk = costs + (merge_ns(found, self._links) + issue) * (TRIAL - 1)
            if costs > most_ns * saved or not self.budget.affords(risk):
                why = f"in {assignments} assignments {costs / 1e6:.2f} ms would go into issuing and copies"
                return self._stays_whole(history, whole, why)
            self.budget.spend(risk)
            history.at_stake_ns = risk
        history.decide(shape_of(found.boxes), assignments, "")
        return found

    def _planned(self, history: LaunchHistory, assignments: int, start_ns: int) -> None:
        """What it took to choose is spent, until it has paid."""
        took_ns = self.budget.now_ns() - start_ns
        history.think_ns = self.budget.thought(took_ns, history.think_ns)
        if assignments > 1:
            history.planned_ns += took_ns

    def _pays_to_choose(
        self, history: LaunchHistory, saved_ns: float, moving_ns: float, launches: int
    ) -> bool:
        """Whether to look for another way may save more than it takes, in so many launches.

        ``moving_ns``: what one member has to fetch now, and each time if that goes on.  Once the budget is
        spent that is not counted on: what was tried in parts may be whole again after ``TRIAL`` launches.
        """
        takes_ns = (history.think_ns or self.budget.think_ns) + self.budget.begin_ns
        if self.budget.left_ns() > takes_ns:
            return (saved_ns + moving_ns) * launches > takes_ns
        return saved_ns * launches + moving_ns * min(launches, TRIAL) > _PATIENCE * takes_ns

    def _going_on(self, history: LaunchHistory, num_groups: Int3, plans: CutPlans) -> CutPlan | None:
        """The plan by which launches in several assignments go on, of which too little was measured."""
        if history.assignments < 2 or history.is_losing():
            return None
        found = self._best(history, num_groups, history.assignments, plans)
        if not self._goes_on(history, found):
            return None
        history.decide(shape_of(found.boxes), len(found.boxes), "")
        return found

    def _goes_on(self, history: LaunchHistory, found: CutPlan) -> bool:
        """Whether launches may go on like ``found`` although too few of them were measured yet."""
        if not history.at_stake_ns:
            return True
        each_ns = self._assignment_ns * (len(found.boxes) - 1) + self._move_ns(found)
        more_ns = each_ns * (TRIAL << history.untried)
        if more_ns > self.budget.left_ns():
            return False
        self.budget.spend(more_ns)
        history.at_stake_ns += more_ns
        return True

    def _stays_whole(self, history: LaunchHistory, whole: CutPlan, why: str) -> CutPlan:
        history.decide((1, 1, 1), 1, f"one member runs it, {why}")
        return whole

    def _stays_for_good(self, history: LaunchHistory, whole: CutPlan) -> CutPlan:
        history.is_small = history.is_final = True
        return self._stays_whole(history, whole, "all members are one device, which it has for itself")

    def _saved_ns(self, run_ns: float, most: int) -> float:
        """The most that could be saved of ``run_ns`` on one member: no copies, and all members as fast."""
        assignments = [number for number in self._few if 1 < number < most] + [most]
        return max(run_ns * (1 - 1 / k) - (k - 1) * self._assignment_ns for k in assignments)

    def _move_ns(self, plan: CutPlan) -> float:
        """See ``move_ns``; what runs whole runs where that is least."""
        if len(plan.boxes) > 1:
            return move_ns(plan, self._links, self._members)
        alone = self._members
        if len(alone) > _ALL_NUMBERS_MAX:  # of very many the one that has most of it, or the first
            lacks = missing_nbytes(plan, alone)
            alone = (alone[0], alone[lacks.index(min(lacks))])
        return min(move_ns(plan, self._links, (member,)) for member in alone)

    def _reconsidered(self, history: LaunchHistory, num_groups: Int3, most: int, plans: CutPlans) -> CutPlan:
        start_ns = self.budget.now_ns()
        found_for = {1: self._whole(num_groups, plans)}
        run_ns = history.rates.group_ns(1)
        assert run_ns is not None, "something was measured"
        run_ns *= prod(num_groups)
        if self._is_unsure(history, run_ns):
            # To bring all to one member, and away again, may cost more than a few launches more.
            if (found := self._going_on(history, num_groups, plans)) is not None:
                return found
            return self._stays_whole(history, found_for[1], "until it is sure how long that takes")
        saved, moving = self._saved_ns(run_ns, most), self._move_ns(found_for[1])
        history.rest(run_ns, moving)
        history.is_small = self._saved_ns(2 * run_ns, most) + moving <= 0
        # What is short first runs where it can't lose: then its bytes are together for the others, too.
        if most > 1 and saved <= 0 and (history.launches < _SETTLED or saved + moving <= 0):
            history.decide((1, 1, 1), 1, f"it takes {run_ns / 1e6:.2f} ms on one member")
            return found_for[1]
        if history.is_losing():
            return self._stays_whole(history, found_for[1], "several have lost more than they saved")
        several = [number for number in self._few if 1 < number < most] + [most] * (most > 1)
        likely = max(history.launches + history.earlier, history.ahead)
        if not self._pays_to_choose(history, saved, moving, likely):
            # What is in use is known.
            several = [number for number in several if number == history.assignments]
            if not several:
                why = (
                    f"which takes {run_ns / 1e6:.2f} ms: to choose otherwise would take longer than it saves"
                )
                return self._stays_whole(history, found_for[1], why)
        found_for |= {number: self._best(history, num_groups, number, plans) for number in several}
        if all(found_for[number].why_whole for number in several):
            history.decided_at = history.launches
            return found_for[most]
        ways = [self._way(history, found) for found in found_for.values() if not found.why_whole]
        for way in ways:
            if way.assignments == history.assignments:
                history.steady_ns[way.assignments] = way.move_ns
        ahead = history.ahead
        chosen, why_fewer = choose(ways, history.assignments, ahead), ""
        self._planned(history, chosen.assignments, start_ns)
        history.rest(run_ns, moving)
        risk = self._risk_ns(history, chosen, ways[0])
        if risk and self.budget.affords(risk):
            self.budget.spend(risk)
            history.at_stake_ns += risk
        elif risk:
            why_fewer = f"one member runs it, until more is known of {chosen.assignments} assignments"
            if risk < inf:
                why_fewer = f"to try {chosen.assignments} assignments could cost {risk / 1e6:.2f} ms"
            chosen = choose(
                [way for way in ways if not self._risk_ns(history, way, ways[0])], history.assignments, ahead
            )
        if chosen.assignments == history.assignments > 1 and chosen.assignments in history.rates.measured:
            self.budget.spend(-history.at_stake_ns - history.planned_ns)  # it has paid
            history.at_stake_ns = history.planned_ns = 0.0
        found = found_for[chosen.assignments]
        if chosen.assignments == 1:
            why_fewer = why_fewer or described(chosen, ways[-1], ahead)
        history.decide(shape_of(found.boxes), chosen.assignments, why_fewer)
        return found

    def _is_unsure(self, history: LaunchHistory, run_ns: float) -> bool:
        """Whether so little was measured that the time says nothing: of short kernels the host's time to
        launch them is a part, and the first ones take far longer.
        """
        if self.is_shared or run_ns >= _SURE_NS or history.launches >= _SURE_AFTER:
            return False
        number, rates = history.assignments, history.rates
        if history.learnt is not None and number > 1 and number in rates.guessed:
            return False  # an earlier run was sure, and nothing contradicts it
        return rates.times.get(number, 0) < _MEASURED_LEAST

    def _risk_ns(self, history: LaunchHistory, way: Candidate, whole: Candidate) -> float:
        """What it may cost in vain to try a way: 0 if it was measured, or is the one that can't lose; what
        others than the one in use have lost so far.
        """
        if way.assignments == 1:
            return 0.0
        lost_ns = max(0.0, -history.worth_ns) if way.assignments != history.assignments else 0.0
        if way.assignments in history.rates.known:
            return lost_ns
        if way.assignments == history.assignments and self.is_shared:
            return inf  # none of its launches was measured yet: the application is far ahead
        each = way.issue_ns - whole.issue_ns + way.steady_ns
        if not self.is_shared:
            each -= whole.run_ns - way.run_ns
        return max(lost_ns, max(0.0, way.move_ns - way.steady_ns - whole.move_ns) + each * TRIAL)

    def _way(self, history: LaunchHistory, plan: CutPlan) -> Candidate:
        number = len(plan.boxes)
        group_ns = history.rates.group_ns(number)
        assert group_ns is not None, "something was measured"
        moving = self._move_ns(plan)
        after = history.after_ns.get(number, 0.0) + history.owing(number)
        moving += after
        steady = history.steady_ns.get(number, merge_ns(plan, self._links) + after)
        if number == history.assignments:
            steady = moving
        groups = [box.total_groups for box in plan.boxes]
        epoch = self.epoch(history, plan)
        share = None if epoch is None else epoch.share
        run = group_ns * (max(groups) if share is None else share * sum(groups))
        return Candidate(number, run, number * self._assignment_ns + history.plan_ns(number), moving, steady)
