"""The index space of a launch."""

from __future__ import annotations

from math import prod

from sdi.clc.model import KernelModel
from sdi.commands import Launch
from sdi.errors import ClError, Status
from sdi.ndrange import Int3, NDRange

_ITEMS_MAX = 1 << 56
"""Drivers count work-groups in 64 bits, or in fewer, and end the process where that is not enough."""
LOCAL_ITEMS_MAX = 64
"""Work-items per group that sdi chooses when the application passes no local size."""


def ndrange_of(model: KernelModel, launch: Launch) -> NDRange:
    """The index space of a launch.  Raises ClError."""
    local = launch.local_size or model.required_work_group_size or choose_local_size(launch.global_size)
    num_items = prod(launch.global_size)
    if num_items >= _ITEMS_MAX:
        what = f"{model.name}: no member gets through {num_items} work-items"
        raise ClError(Status.OUT_OF_RESOURCES, what)
    try:
        return NDRange(launch.work_dim, launch.offset, launch.global_size, local)
    except ValueError as cause:
        raise ClError(Status.INVALID_WORK_GROUP_SIZE, f"{model.name}: {cause}") from cause


def choose_local_size(global_size: Int3, limit: int = LOCAL_ITEMS_MAX) -> Int3:
    """A local size that divides ``global_size``: per dimension the largest divisor that still fits ``limit``.

    Depends on the full NDRange only, never on the number of members.
    """
    chosen: list[int] = []
    for size in global_size:
        divisor = next(d for d in range(min(size, limit), 0, -1) if size % d == 0)
        chosen.append(divisor)
        limit //= divisor
    return (chosen[0], chosen[1], chosen[2])
