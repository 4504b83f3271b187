"""Where a launch may run, and where one member runs all of it."""

from __future__ import annotations

from collections.abc import Sequence

from sdi.commands import Launch
from sdi.errors import DeviceFailed, DeviceLost
from sdi.launch.copy_costs import missing_nbytes
from sdi.launch.kernel import LaunchPlan
from sdi.vmem.memory import VirtualMemory


def best_member(
    launch_plan: LaunchPlan, everyone: Sequence[int], launches: int
) -> tuple[tuple[int, ...], bool]:
    """Where one member runs all of a launch, and whether it does so whenever its buffers are as they are.

    ``launches``: how many there were of its history, with this one.

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
    history.first_away = history.first_away or launches
    written = sum(part.total_nbytes for used in launch_plan.plan.buffers for part in used.written(0))
    history.home_at = history.first_away - 1 + -(-missing[0] // written) if written else 0
    if not 0 < history.home_at <= launches:
        return (best,), True
    history.first_away = history.home_at = 0
    return (first,), False


def require_members(memory: VirtualMemory, launch: Launch, without_variables: DeviceFailed | None) -> None:
    """Raise DeviceFailed where members were lost without which a launch can't run.

    ``without_variables``: why its program's variables in global memory are lost, if they are.
    """
    if not memory.members:
        raise DeviceFailed("the image", "all of its members are lost")
    if launch.member and launch.member - 1 not in memory.members:
        name = memory.devices[launch.member - 1].capabilities.name
        raise DeviceLost(name, "it is lost, and the queue is for it")
    if not launch.member and without_variables is not None:
        what = f"its variables in global memory are lost: {without_variables}"
        raise DeviceFailed("the program", what)
