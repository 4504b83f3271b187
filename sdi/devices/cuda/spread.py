"""Groups that a GPU holds all at once are to be spread evenly over its units.

Where another queue's kernel is still running when such a launch begins, some units take fewer groups at
first, and the others as many as they have room for: half as many again, so that the launch takes half as
long again.  (OpenMM launches four groups per unit, of which six fit: 170 us where they are spread evenly,
245 where not.)  Local memory that nobody uses keeps a unit from taking more than its share.
"""

from __future__ import annotations

from collections.abc import Callable

from sdi.dataclass import dataclass

_STEP_NBYTES = 256
_LEAST_EACH = 4
"""With fewer groups per unit, each would need more local memory than a group gets without asking."""


@dataclass(frozen=True, slots=True)
class Units:
    """A GPU's units: how many; work-items and local memory of each, some of it reserved for each group."""

    count: int
    items: int
    local_nbytes: int
    reserved_nbytes: int
    group_nbytes: int
    """What a group may have."""


def spread_nbytes(
    units: Units, groups: int, items: int, local_nbytes: int, fitting: Callable[[int], int]
) -> int:
    """Bytes of local memory that each group is given besides; 0: it is spread anyway, or need not be.

    ``groups`` of ``items`` work-items with ``local_nbytes`` each.  ``fitting``: how many a unit has room for
    with so many bytes besides.  Only for kernels that use local memory (others may live by the cache, which
    has the same place), and for groups that take half a unit or more, so that others find little room anyway.
    """
    each = -(-groups // units.count)
    if not local_nbytes or each < _LEAST_EACH or 2 * each * items < units.items or fitting(0) <= each:
        return 0
    wanted = units.local_nbytes // (each + 1) - units.reserved_nbytes - local_nbytes
    wanted = (wanted // _STEP_NBYTES + 1) * _STEP_NBYTES
    if wanted <= 0 or local_nbytes + wanted > units.group_nbytes or fitting(wanted) != each:
        return 0
    return wanted
