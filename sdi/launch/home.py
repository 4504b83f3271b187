"""Where one member runs all of a launch."""

from __future__ import annotations

from collections.abc import Sequence

from sdi.launch.copy_costs import missing_nbytes
from sdi.launch.kernel import LaunchPlan


def best_member(launch_plan: LaunchPlan, everyone: Sequence[int]) -> tuple[tuple[int, ...], bool]:
    """Where one member runs all of a launch, and whether it does so whenever its buffers are as they are.

    The member that lacks the fewest bytes, the first among equals; but what is written elsewhere than on
    the first one is fetched from there again and again where other launches run.  So once that could have
    cost as much as what the launch lacks on the first member, it runs there.
    """
    first, history = everyone[0], launch_plan.history
    known = launch_plan.chunks[0].find() if len(launch_plan.chunks) == 1 else None
    is_elsewhere = known is None or known.where[0] != first
    missing = missing_nbytes(launch_plan.plan, everyone) if is_elsewhere else [0]
    best = known.where[0] if known is not None else everyone[missing.index(min(missing))]
    if best == first:
        history.first_away = history.home_at = 0
        return (best,), True
    history.first_away = history.first_away or history.launches
    written = sum(part.total_nbytes for used in launch_plan.plan.buffers for part in used.written(0))
    history.home_at = history.first_away - 1 + -(-missing[0] // written) if written else 0
    if not 0 < history.home_at <= history.launches:
        return (best,), True
    history.first_away = history.home_at = 0
    return (first,), False
