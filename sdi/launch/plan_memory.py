"""Plans that were made before, for launches that differ from those in nothing but which buffers they use.

A program that makes new buffers for each problem asks the same questions again: how a kernel reaches bytes
depends on the sizes of its buffers and on where sub-buffers lie, not on which ones they are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import starmap
from typing import Any, Final

from sdi.dataclass import dataclass, fields, replace
from sdi.devices.image import Sampler
from sdi.launch.arguments import ArgumentValue, BufferArgument, ImageArgument
from sdi.launch.plan import BufferPlan, CutPlan
from sdi.ndrange import GroupBox, Int3
from sdi.sampling.scalar_cases import ArgumentCases
from sdi.vmem.memory import VirtualBuffer

LAUNCHES_MAX = 512
"""Launches of a kernel whose plans are kept, least recently used first out."""
REGIONS_MAX = 100_000
"""Regions in all of these together."""

PlanKey = tuple[int, Int3, Int3, Int3 | None, tuple[object, ...], tuple[int, ...], bool]
"""Like a launch plan's key, with numbers for the buffers, in the order of arguments, and their sizes."""
_ACCESS: Final = tuple(each.name for each in fields(BufferPlan) if each.name != "buffer")


@dataclass(frozen=True, slots=True)
class _KeptCut:
    """``plan`` without buffers, and by buffer all that its plan says but of which (``_ACCESS``)."""

    plan: CutPlan
    accesses: tuple[tuple[Any, ...], ...]


_Plans = dict[tuple[tuple[GroupBox, ...], bool], _KeptCut]


class PlanMemory:
    """The plans of one kernel.  Owned by: sdi-scheduler."""

    def __init__(self) -> None:
        self._known: OrderedDict[PlanKey, _Plans] = OrderedDict()
        self._num_regions: dict[PlanKey, int] = {}
        self._total_regions = 0

    def find(
        self, key: PlanKey, boxes: tuple[GroupBox, ...], exact: bool, buffers: Sequence[VirtualBuffer]
    ) -> CutPlan | None:
        """The plan of ``boxes`` for ``buffers``, in the order of their numbers."""
        plans = self._known.get(key)
        found = None if plans is None else plans.get((boxes, exact))
        if found is None:
            return None
        self._known.move_to_end(key)
        made = (BufferPlan(buffer, *access) for buffer, access in zip(buffers, found.accesses, strict=True))
        return replace(found.plan, buffers=tuple(made))

    def keep(self, key: PlanKey, exact: bool, plan: CutPlan) -> None:
        """Remember ``plan``, which names its buffers in the order of their numbers and no images."""
        assert not plan.images, "images are no bytes whose ranges can be kept"
        plans = self._known.get(key)
        if plans is None:
            plans = self._known[key] = {}
            self._num_regions[key] = 0
        accesses = tuple(tuple(getattr(used, name) for name in _ACCESS) for used in plan.buffers)
        plans[plan.boxes, exact] = _KeptCut(replace(plan, buffers=()), accesses)
        more = plan.num_regions
        self._num_regions[key] += more
        self._total_regions += more
        while len(self._known) > LAUNCHES_MAX or (self._total_regions > REGIONS_MAX and self._known):
            oldest, _ = self._known.popitem(last=False)
            self._total_regions -= self._num_regions.pop(oldest)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._num_regions.clear()
        self._total_regions = 0


def shaped(
    values: Sequence[ArgumentValue], shaping: Mapping[int, int], cases: Mapping[int, ArgumentCases]
) -> tuple[object, ...]:
    """Argument values, of scalars those bits that ``shaping`` has, and of samplers None; then their cases."""

    def of(index: int, value: ArgumentValue) -> object:
        if isinstance(value, bytes):
            return int.from_bytes(value, "little") & shaping.get(index, 0)
        return None if isinstance(value, Sampler) else value

    found = tuple(starmap(of, enumerate(values)))
    if not cases:
        return found
    data = ((each, values[index]) for index, each in cases.items())
    return (*found, *[each.of(value) for each, value in data if isinstance(value, bytes)])


def numbered(shape: Sequence[object]) -> tuple[object, ...] | None:
    """Argument values with numbers for buffers; None where there are images."""
    numbers: dict[int, int] = {}
    found: list[object] = []
    for value in shape:
        if isinstance(value, BufferArgument) and value.buffer:
            number = numbers.setdefault(value.buffer, len(numbers))
            found.append((number, value.offset, value.nbytes))
        elif isinstance(value, ImageArgument):
            return None
        else:
            found.append(value)
    return tuple(found)
