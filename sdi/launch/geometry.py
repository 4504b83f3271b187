"""The index space of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from sdi.clc.model import KernelModel
from sdi.commands import Launch
from sdi.dataclass import dataclass
from sdi.devices.base import KernelFacts
from sdi.devices.capabilities import CPU, Capabilities
from sdi.errors import ClError, Status
from sdi.ndrange import Int3, NDRange
from sdi.wire.opencl import DeviceInfo

_ITEMS_MAX = 1 << 56
"""Drivers count work-groups in 64 bits, or in fewer, and end the process where that is not enough."""
_GROUP_ITEMS = 32
"""What a group costs beside its work-items, in work-items of short kernels; more on GPUs."""
_LIMIT_MAX = 4096
"""Longer groups are never better, and to look for them takes time."""
_GROUPS_IDLE = 8
"""So many groups' time is lost at the end of a launch, as members and their cores don't end together."""


@dataclass(frozen=True, slots=True)
class GroupRule:
    """How large groups are to be where the application leaves that open.

    ``most``: work-items, or up to ``limit`` where nothing smaller divides well; ``sizes``: per dimension.
    ``lanes``: so many work-items run at once, whether there are that many or not.
    """

    most: int
    limit: int
    lanes: int
    sizes: Int3 = (_LIMIT_MAX, _LIMIT_MAX, _LIMIT_MAX)


def group_rule(members: Sequence[Capabilities], facts: KernelFacts, member: int = 0) -> GroupRule:
    """Of a kernel for which ``facts`` hold on all members, or on one, which has this number from 1 on."""
    asked = members[member - 1 : member] if member else members
    limit = min(max(facts.work_group_size, 1), _LIMIT_MAX)
    told = [each.info.get(DeviceInfo.MAX_WORK_ITEM_SIZES, b"") for each in asked]
    sizes = [memoryview(each)[:24].cast("Q") for each in told if len(each) >= 24]
    x, y, z = [min([_LIMIT_MAX, *[int(each[dim]) for each in sizes]]) for dim in range(3)]
    most = min(limit, *[each.kind.group_items for each in asked])
    return GroupRule(most, limit, max(facts.preferred_multiple, 1), (x, y, z))


ANY_GROUP = GroupRule(CPU.group_items, CPU.group_items, 8)
"""Where nobody knows the members."""


def ndrange_of(model: KernelModel, launch: Launch, rule: GroupRule = ANY_GROUP) -> NDRange:
    """The index space of a launch.  Raises ClError."""
    local = launch.local_size or model.required_work_group_size
    local = local or choose_local_size(launch.global_size, rule)
    num_items = prod(launch.global_size)
    if num_items >= _ITEMS_MAX:
        what = f"{model.name}: no member gets through {num_items} work-items"
        raise ClError(Status.OUT_OF_RESOURCES, what)
    try:
        return NDRange(launch.work_dim, launch.offset, launch.global_size, local)
    except ValueError as cause:
        raise ClError(Status.INVALID_WORK_GROUP_SIZE, f"{model.name}: {cause}") from cause


@lru_cache(1024)
def choose_local_size(global_size: Int3, rule: GroupRule = ANY_GROUP) -> Int3:
    """A local size that divides ``global_size``.

    The same for any number of members: kernels can see it.  Drivers choose about the same: [M] H200 the
    largest divisor of the first size up to 256, PoCL up to 4096 in two groups at least.  In groups of 64, as
    sdi took before, short kernels take three times as long on an H200 and twice as long on PoCL.
    """
    total, row, items, chosen = prod(global_size), 1, 1, list[int]()

    def best_of(dim: int, most: int) -> int:
        """The best divisor up to ``most``."""
        size = global_size[dim]
        divisors = [d for d in range(1, min(size, most, rule.sizes[dim]) + 1) if size % d == 0]
        return min(divisors, key=lambda d: _cost(rule, row if dim else d, items * d, total))

    for dim, size in enumerate(global_size):
        best = best_of(dim, max(rule.most // items, 1))
        if not dim:
            row = best = best if best >= min(rule.lanes, size) else best_of(dim, rule.limit)
        items *= best
        chosen.append(best)
    return (chosen[0], chosen[1], chosen[2])


def _cost(rule: GroupRule, row: int, items: int, total: int) -> float:
    """Of a work-item in groups of so many, ``row`` of them in the first dimension."""
    lanes = -(-row // rule.lanes) * rule.lanes / row
    return (lanes + _GROUP_ITEMS / items) * (1 + _GROUPS_IDLE * items / total)
