"""The cut of a launch: of all in the partition table, in one piece to as many as there are members.

Source: papers/1 section 3.4, constraint 3: the least predicted time, given where the data is now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from sdi.ndrange import GroupBox, Int3
from sdi.partition.gain import COPY_BYTES_PER_NS, PIECE_NS, Rates, Way, choose, described
from sdi.partition.table import cuts, shape_of
from sdi.partition.usage import Usage
from sdi.runtime.plan import LaunchPlan, candidate_plans, cheapest
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.links import LATENCY_NS, Links

SplitMode = Literal["auto", "always", "never"]
MakePlan = Callable[[tuple[GroupBox, ...], bool], LaunchPlan]

_RANGE_NS, _ROW_NS = 40_000.0, 300.0
"""What one more range costs: a copy of its own, or a row more of one.  [M] CPU members, two busy cores."""


class Cutter:
    """Chooses cuts.  Owned by: sdi-scheduler."""

    def __init__(self, split: SplitMode, kinds: Sequence[str], links: Links) -> None:
        self._split = split
        self._members = len(kinds)
        self._links = links
        self._is_shared = "cpu" in kinds
        self._piece_ns = max(PIECE_NS[kind] for kind in kinds)

    def usage(self) -> Usage:
        """For launches of a kind that was not seen before."""
        return Usage(Rates(self._is_shared), is_fixed=self._split != "auto")

    def cut(self, usage: Usage, num_groups: Int3, plan: MakePlan) -> tuple[LaunchPlan, str]:
        """The cheapest plan, and why it is whole, if it is."""
        is_due = usage.shape is None or usage.is_due()
        if not is_due and usage.pieces == 1:
            return self._whole(num_groups, plan), usage.why_fewer
        most = min(self._members, num_groups[0] * num_groups[1] * num_groups[2])
        if not is_due:
            alike = [c.boxes for c in cuts(num_groups, usage.pieces) if c.shape == usage.shape]
            found = self.best(alike or _boxes(num_groups, min(usage.pieces, most)), plan)
        elif usage.is_fixed or usage.rates.group_ns(most) is None:
            found = self._most_that_may(num_groups, most, plan)
            usage.decide(shape_of(found.boxes), len(found.boxes), "")
        else:
            found = self._reconsidered(usage, num_groups, most, plan)
        if found.why_whole:
            return self._whole(num_groups, plan), found.why_whole
        return found, usage.why_fewer

    def best(self, candidates: Sequence[tuple[GroupBox, ...]], plan: MakePlan) -> LaunchPlan:
        """The plan of the cut that costs least."""
        return cheapest(candidate_plans(candidates, plan, self.order), self.order)

    def order(self, plan: LaunchPlan) -> tuple[int, ...]:
        """Order of cuts: those that may run; time to move, in µs; bytes needed; bytes that several write;
        contiguous pieces.
        """
        return order(plan, self._links)

    def _whole(self, num_groups: Int3, plan: MakePlan) -> LaunchPlan:
        return plan((GroupBox((0, 0, 0), num_groups),), False)

    def _most_that_may(self, num_groups: Int3, most: int, plan: MakePlan) -> LaunchPlan:
        """The best plan of ``most`` pieces, or of fewer where only they may run on several members."""
        first = found = self.best(_boxes(num_groups, most), plan)
        for pieces in range(most - 1, 1, -1):
            if not found.why_whole:
                return found
            found = self.best(_boxes(num_groups, pieces), plan)
        return first if found.why_whole else found

    def _reconsidered(self, usage: Usage, num_groups: Int3, most: int, plan: MakePlan) -> LaunchPlan:
        plans = {1: self._whole(num_groups, plan)}
        plans |= {k: self.best(_boxes(num_groups, k), plan) for k in range(2, most + 1)}
        if all(plans[k].why_whole for k in range(2, most + 1)):
            usage.decided_at = usage.launches
            return plans[most]
        ways = [self._way(usage, found) for found in plans.values() if not found.why_whole]
        for way in ways:
            if way.pieces == usage.pieces:
                usage.steady_ns[way.pieces] = way.move_ns
        ahead = max(usage.launches, 1)
        chosen = choose(ways, usage.pieces, ahead)
        found = plans[chosen.pieces]
        why_fewer = described(chosen, ways[-1], ahead) if chosen.pieces == 1 else ""
        usage.decide(shape_of(found.boxes), chosen.pieces, why_fewer)
        return found

    def _way(self, usage: Usage, plan: LaunchPlan) -> Way:
        pieces = len(plan.boxes)
        group_ns = usage.rates.group_ns(pieces)
        assert group_ns is not None, "something was measured"
        moving = min(move_ns(plan, self._links, m) for m in range(self._members if pieces == 1 else 1))
        steady = usage.steady_ns.get(pieces, merge_ns(plan, self._links))
        if pieces == usage.pieces:
            steady = moving
        run = group_ns * max(box.total_groups for box in plan.boxes)
        return Way(pieces, run, pieces * self._piece_ns + usage.plan_ns(pieces), moving, steady)


def order(plan: LaunchPlan, links: Links) -> tuple[int, ...]:
    """See ``Cutter.order``."""
    needed = pieces = 0
    for buffer in plan.buffers:
        for piece in buffer.pieces:
            needed += piece.needs.nbytes
            pieces += len(piece.needs.ranges) + len(piece.owns.ranges)
    return (bool(plan.why_whole), int(move_ns(plan, links) / 1e3), needed, plan.merged_nbytes, pieces)


def move_ns(plan: LaunchPlan, links: Links, first: int = 0) -> float:
    """Predicted time to make current what the pieces need, where it is stale, and to merge what they share.

    Box k runs on member ``first + k``.  Each memory sends, and receives, one copy after the other; different
    memories do at once.
    """
    sent: dict[int, float] = {}
    received: dict[int, float] = {}
    for used in plan.buffers:
        for k, piece in enumerate(used.pieces):
            memory = member_memory(first + k)
            sources: dict[int, tuple[int, int, int]] = {}
            for part, holders in used.buffer.directory.stale(memory, piece.needs):
                source, nbytes = links.nearest(memory, holders), part.stop - part.start
                cost = links.cost_ns(source, memory, nbytes)
                last, length, pitch = sources.get(source, (-1, 0, 0))
                distance = part.start - last
                if last >= 0 and length == nbytes and pitch in (0, distance):
                    cost += _ROW_NS - LATENCY_NS  # one more row of the same copy
                    sources[source] = (part.start, nbytes, distance)
                else:
                    cost += _RANGE_NS - LATENCY_NS if last >= 0 else 0.0
                    sources[source] = (part.start, nbytes, 0)
                sent[source] = sent.get(source, 0.0) + cost
                received[memory] = received.get(memory, 0.0) + cost
    longest = max((*sent.values(), *received.values()), default=0.0)
    return longest + merge_ns(plan, links)


def merge_ns(plan: LaunchPlan, links: Links) -> float:
    """Predicted time to bring home what several pieces write, to compare it, and to send it out again."""
    total = 0.0
    for used in plan.buffers:
        for merged in used.merged:
            nbytes = merged.over.nbytes
            for piece in merged.pieces:
                total += links.cost_ns(member_memory(piece), HOST, nbytes) + nbytes / COPY_BYTES_PER_NS
                total += links.cost_ns(HOST, member_memory(piece), nbytes)
    return total


def _boxes(num_groups: Int3, pieces: int) -> list[tuple[GroupBox, ...]]:
    return [cut.boxes for cut in cuts(num_groups, pieces)]


__all__ = ["Cutter", "SplitMode", "move_ns", "order"]
