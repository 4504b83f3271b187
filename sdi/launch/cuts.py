"""Which of several cuts of a launch to run, by what their plans move."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sdi.grid import num_entries
from sdi.launch.plan import CutPlan, CutPlans
from sdi.ndrange import GroupBox
from sdi.region_map import ENTRIES_MAX
from sdi.vmem.directory import member_memory

_CANDIDATES_MAX = 16
_EXACT_MIN_NBYTES, _GAPS_MAX = 1 << 20, 0.5
"""Where so many bytes are moved, it is asked whether fewer than that part of them do."""
_SCATTERED_RUNS, _SCATTERED_TIMES, _ENDLESS_RUNS = 1 << 15, 16, 1 << 18
_ALL_ASKED_MAX, _ASKED = 16, 5
"""Of more assignments so many are asked for that."""


def candidate_plans(
    cuts: Sequence[tuple[GroupBox, ...]],
    plans: CutPlans,
    order: Callable[[CutPlan], tuple[float, ...]],
    members: Sequence[int] = (),
    is_dear: bool = False,
) -> list[CutPlan]:
    """A plan for each cut, of which the launch runs the first in ``order``.

    From bounds of the access ranges; also from the exact ranges if the best of these has to merge, as bounds
    of several assignments overlap and their bytes may not, or if it moves bytes that it does not need.
    ``members``: box k is that of member ``members[k]``, or k.  ``is_dear``: to move bytes is so dear that
    exact ranges are asked for also where the best has many members get the same ones.
    """
    found = [plans.plan(boxes, False) for boxes in cuts[:_CANDIDATES_MAX]]
    best = cheapest(found, order)
    is_rough = bool(best.merged_nbytes or best.why_whole) or (is_dear and len(found) > 1 and _spreads(best))
    if is_rough or _moves_gaps(best, plans, members):
        exact = [plans.plan(boxes, True) for boxes in cuts[:_CANDIDATES_MAX]]
        scattered = [_is_scattered(plan) for plan in exact]
        most = _SCATTERED_TIMES * order(best)[1] if any(scattered) else 0
        found = [
            rough
            if is_scattered and (order(rough)[1] > most or (_is_endless(plan) and not rough.why_whole))
            else _better(rough, plan, order)
            for rough, plan, is_scattered in zip(found, exact, scattered, strict=True)
        ]
    return found


def _is_scattered(plan: CutPlan) -> bool:
    """Whether an assignment's bytes are so many runs that to say what of them moves may take half a minute,
    which a cut is not worth whose bounds cost many times what another's do.
    """
    return any(each.needs.num_runs > _SCATTERED_RUNS for used in plan.buffers for each in used.assignments)


def _is_endless(plan: CutPlan) -> bool:
    """Whether maps of what it needs and writes would have an entry for each of very many runs."""
    for used in plan.buffers:
        sets = [each for a in used.assignments for each in (a.needs, a.owns)]
        if sum([each.num_runs for each in sets]) > _ENDLESS_RUNS:
            found = num_entries([part for each in sets for part in each.regions])
            if found is None or found > ENTRIES_MAX:
                return True
    return False


def _better(rough: CutPlan, exact: CutPlan, order: Callable[[CutPlan], tuple[float, ...]]) -> CutPlan:
    """One of two plans of the same boxes.  Of very many it takes long to find out what they cost."""
    if len(rough.boxes) > _ALL_ASKED_MAX and not (exact.merged_nbytes or exact.why_whole):
        return exact
    return min((rough, exact), key=order)


def _spreads(best: CutPlan) -> bool:
    """Whether many bytes are needed by several assignments."""
    for used in best.buffers:
        needed = sum([assignment.needs.nbytes for assignment in used.assignments])
        if needed > 2 * used.buffer.nbytes and needed - used.buffer.nbytes >= _EXACT_MIN_NBYTES:
            return True
    return False


def _moves_gaps(best: CutPlan, plans: CutPlans, members: Sequence[int]) -> bool:
    """Whether much less is moved where what lies between the bytes that are read stays where it is.

    Some assignments stand for very many.
    """
    count = len(best.boxes)
    some: Sequence[int] = range(count)
    if count > _ALL_ASKED_MAX:
        some = [k * (count - 1) // (_ASKED - 1) for k in range(_ASKED)]
    where = [members[k] if members else k for k in some]
    each = _stale_nbytes(best, some, where)
    moved = sum(each)
    if moved * count < _EXACT_MIN_NBYTES * len(where):
        return False
    exact = plans.plan(tuple([best.boxes[k] for k in some]), True)
    less = zip(_needed_nbytes(best, some), _needed_nbytes(exact, range(len(where))), strict=True)
    if (
        sum([max(0, nbytes - (a - b)) for nbytes, (a, b) in zip(each, less, strict=True)])
        >= _GAPS_MAX * moved
    ):
        return False  # even if nothing that lies between is current
    return sum(_stale_nbytes(exact, range(len(where)), where)) < _GAPS_MAX * moved


def _stale_nbytes(plan: CutPlan, some: Sequence[int], members: Sequence[int]) -> list[int]:
    """Bytes that move now for some assignments, of these members: of each buffer, one after the other."""
    return [
        used.buffer.directory.stale_nbytes(member_memory(member), used.assignments[k].needs)
        for used in plan.buffers
        for k, member in zip(some, members, strict=True)
    ]


def _needed_nbytes(plan: CutPlan, some: Sequence[int]) -> list[int]:
    return [used.assignments[k].needs.nbytes for used in plan.buffers for k in some]


def cheapest(plans: Sequence[CutPlan], order: Callable[[CutPlan], tuple[float, ...]]) -> CutPlan:
    """The plan to run."""
    return plans[0] if len(plans) == 1 else min(plans, key=order)


def moved_nbytes(plan: CutPlan) -> int:
    """Bytes that running ``plan`` moves now: stale ones there, and merged ones home and back again."""
    every = range(len(plan.boxes))
    return sum(_stale_nbytes(plan, every, every)) + 2 * plan.merged_nbytes
