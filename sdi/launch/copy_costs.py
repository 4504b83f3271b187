"""What the copies cost that a plan needs: between nodes and within them.

Over networks all members of a node share what comes in: a byte that several of them need comes once, and one
that many nodes need leaves where it is once, since they pass it on (``vmem/links.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from sdi.dataclass import dataclass
from sdi.launch.plan import CutPlan
from sdi.launch.staleness import Stale, missing, stale
from sdi.partition.gain import COPY_BYTES_PER_NS
from sdi.regions import union_of
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.links import Links, each_of

_ATTEMPT_NS = 2_000_000.0
"""From the end of an attempt's kernels to the end of the launch.  [M] 2.1 ms on a host with H200s, 2.2 on two
busy cores: a few small copies and a merge, by Python."""
_TRIAL_NS = 60_000.0
"""The same where the player does it, as it mostly does, or merges.  [M] two members: 50 to 70 us on two
cores, 10 to 20 on an H200 that both share."""
_MERGE_NS = 1_500_000.0
"""What the player does not merge is planned anew each time, and where members merge it takes two turns of
Python, before it is known how much changed and after that.  [M] 1.1 to 1.8 ms there, 1.2 on two cores."""
_SAMPLED = 16
"""So many members stand for all that write to the same bytes."""
_NODES_SAMPLED = 4
"""So many nodes stand for all in what their members copy from each other."""


def order(plan: CutPlan, links: Links, members: Sequence[int] = ()) -> tuple[int, ...]:
    """Order of plans, see ``Cutter.order``."""
    needed = num_ranges = 0
    for buffer in plan.buffers:
        for assignment in buffer.assignments:
            needed += assignment.needs.nbytes
            num_ranges += assignment.needs.num_runs + assignment.owns.num_runs
    return (
        bool(plan.why_whole),
        int(move_ns(plan, links, members) / 1e3),
        needed,
        plan.merged_nbytes,
        num_ranges,
    )


def move_ns(plan: CutPlan, links: Links, members: Sequence[int] = ()) -> float:
    """Predicted time to make current what assignments need, where it is stale, and to merge what they share.

    Box k runs on member ``members[k]``, or k without that.  Each memory sends, and receives, one copy after
    the other, but the host serves several GPUs; different memories do at once.  See ``between_nodes``.
    """
    where = members or range(len(plan.boxes))
    if links.is_far and len({links.place(member_memory(where[k])) for k in range(len(plan.boxes))}) > 1:
        return _over_nodes_ns(plan, links, where) + merge_ns(plan, links, where)
    sent: dict[int, float] = {}
    received: dict[int, float] = {}
    for used in plan.buffers:
        for k, assignment in enumerate(used.assignments):
            memory = member_memory(where[k])
            for lacked in stale(used.buffer.directory, memory, assignment.needs):
                source = links.nearest(memory, lacked.holders)
                cost = _copies_ns(lacked, links, source, memory)
                sent[source] = sent.get(source, 0.0) + cost * links.occupies(source, memory)
                received[memory] = received.get(memory, 0.0) + cost
    longest = max((*sent.values(), *received.values()), default=0.0)
    return longest + merge_ns(plan, links, members)


def _copies_ns(lacked: Stale, links: Links, source: int, target: int) -> float:
    """Predicted time of copies from one memory into another."""
    cost = links.cost_ns(source, target, lacked.nbytes)
    return cost + links.more_ns(source, target, lacked.copies - 1, lacked.runs - lacked.copies)


@dataclass(frozen=True, slots=True)
class BetweenNodes:
    """Predicted copies over networks.  ``longest_ns``: of the node, or host, that sends or gets most.

    ``mean_ns``: what nodes get on average.  ``received``: bytes that each place gets, see ``Links.place``.
    """

    longest_ns: float
    mean_ns: float
    received: dict[int, int]


def between_nodes(
    plan: CutPlan, links: Links, members: Sequence[Sequence[int]], limit_ns: float = inf
) -> BetweenNodes:
    """What goes over networks before ``plan``, whose box k is that of the members ``members[k]``.

    Looks no further where it is sure to be longer than ``limit_ns``.
    """
    memories: dict[int, int] = {}
    boxes: dict[int, list[int]] = {}
    for k, here in enumerate(members):
        place = links.place(member_memory(here[0]))
        for member in here:
            memories[place] = memories.get(place, links.home(place)) | 1 << member_memory(member)
        boxes.setdefault(place, []).append(k)
    received_ns = dict.fromkeys(boxes, 0.0)
    received = dict.fromkeys(boxes, 0)
    sent_ns: dict[int, float] = {}
    for used in plan.buffers:
        sent: dict[int, tuple[float, int]] = {}
        for place, those in boxes.items():
            needs = union_of(used.assignments[k].needs for k in those)
            target = member_memory(members[those[0]][0])
            for lacked in missing(used.buffer.directory, memories[place], needs):
                source = links.nearest(target, lacked.holders)
                cost = _copies_ns(lacked, links, source, target)
                received_ns[place] += cost
                received[place] += lacked.nbytes
                from_ = links.place(source)
                ns, total = sent.get(from_, (0.0, 0))
                sent[from_] = ns + cost, total + lacked.nbytes
            if received_ns[place] > limit_ns:
                return BetweenNodes(received_ns[place], received_ns[place], received)
        for from_, (ns, total) in sent.items():
            once = min(1.0, used.buffer.nbytes / total)
            sent_ns[from_] = sent_ns.get(from_, 0.0) + ns * once
    longest = max((*sent_ns.values(), *received_ns.values()), default=0.0)
    return BetweenNodes(longest, sum(received_ns.values()) / max(len(boxes), 1), received)


def _over_nodes_ns(plan: CutPlan, links: Links, members: Sequence[int]) -> float:
    """``move_ns`` of a plan on several nodes, but for merges."""
    between = between_nodes(plan, links, [(members[k],) for k in range(len(plan.boxes))])
    by_place: dict[int, list[int]] = {}
    for k in range(len(plan.boxes)):
        by_place.setdefault(links.place(member_memory(members[k])), []).append(k)
    places = list(by_place)
    step = max(1, len(places) // _NODES_SAMPLED)
    longest = 0.0
    for place in places[::step]:
        those = by_place[place]
        if len(those) == 1 and place != links.place(HOST):
            continue
        here = [member_memory(members[k]) for k in those]
        mask = sum([1 << memory for memory in here]) | links.home(place)
        for k, memory in zip(those, here, strict=True):
            got = 0.0
            for used in plan.buffers:
                for holders, *_, nbytes in stale(used.buffer.directory, memory, used.assignments[k].needs):
                    if holders & mask:
                        got += links.cost_ns(links.nearest(memory, holders & mask), memory, nbytes)
            longest = max(longest, got)
    return between.longest_ns + longest


def missing_nbytes(plan: CutPlan, members: Sequence[int]) -> list[int]:
    """Bytes that each of some members lacks for a plan of one box: all are looked at together."""
    total, held = 0, dict.fromkeys([member_memory(member) for member in members], 0)
    for used in plan.buffers:
        by_holders: dict[int, int] = {}
        for part, holders in used.buffer.directory.missing(0, used.assignments[0].needs):
            by_holders[holders] = by_holders.get(holders, 0) + part.total_nbytes
        for holders, nbytes in by_holders.items():
            total += nbytes
            for memory in each_of(holders):
                if memory in held:
                    held[memory] += nbytes
    return [total - nbytes for nbytes in held.values()]


def attempt_ns(plan: CutPlan, links: Links) -> float:
    """What it costs that members' copies are looked at before anything else is issued."""
    if plan.is_trial and not links.is_far:
        return _TRIAL_NS
    return _ATTEMPT_NS if plan.is_attempt else 0.0


def merge_ns(plan: CutPlan, links: Links, members: Sequence[int] = ()) -> float:
    """Predicted time to bring together what several assignments write, and to send it out again.

    ``members``: see ``move_ns``.  What is an attempt is waited for, too.
    """
    total = attempt_ns(plan, links)
    is_played = plan.is_trial and not links.is_far
    if is_played and plan.is_attempt:
        return total  # what members counted is added up where it is looked at
    for used in plan.buffers:
        known: dict[tuple[tuple[int, ...], int], float] = {}  # ranges may be very many, and alike
        for merged in used.merged:
            nbytes = merged.over.nbytes
            key = merged.assignments, nbytes
            each = known.get(key)
            if each is None:
                where = [members[k] if members else k for k in merged.assignments]
                on_members = None if is_played else links.merge_ns(where, nbytes)
                if on_members is None:
                    each = _merge_on_host_ns(where, nbytes, links)
                else:
                    needs = [used.assignments[k].needs.nbytes for k in merged.assignments]
                    each = on_members + _sent_again_ns(where, [min(n, nbytes) for n in needs], links)
                known[key] = each
            total += each
    is_planned = plan.merged_nbytes and not (plan.is_attempt or is_played or links.is_far)
    return total + (_MERGE_NS if is_planned else 0.0)


def _merge_on_host_ns(members: Sequence[int], nbytes: int, links: Links) -> float:
    """All of it comes home from each member, is compared, and goes out again."""
    some = [member_memory(member) for member in members[:_SAMPLED]]
    copies = sum(links.cost_ns(memory, HOST, nbytes) for memory in some)
    copies += sum(links.cost_ns(HOST, memory, nbytes) for memory in some)
    return len(members) * (copies / len(some) + nbytes / COPY_BYTES_PER_NS)


def _sent_again_ns(members: Sequence[int], nbytes: Sequence[int], links: Links) -> float:
    """The first of them, which has the result, sends each other one so much of it, one after the other."""
    first, *others = [member_memory(member) for member in members]
    return sum(links.cost_ns(first, to, each) for to, each in zip(others, nbytes[1:], strict=True) if each)
