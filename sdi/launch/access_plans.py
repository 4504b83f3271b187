"""The plans that one launch may get, each made when it is asked for: what cuts are chosen among."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sdi.clc.model import KernelModel
from sdi.launch.arguments import ArgumentValue, BufferArgument
from sdi.launch.plan import CutPlan, make_plan
from sdi.launch.plan_memory import PlanKey, PlanMemory
from sdi.ndrange import GroupBox, NDRange
from sdi.sampling.model import BoundAccess, KernelAccess, WorkEstimate
from sdi.vmem.buffer import VirtualBuffer


class AccessPlans:
    """Made from the access ranges of a launch.  Implements ``CutPlans``; decides and issues nothing.

    ``bind``: binds the access maps, if anybody asks.  ``images``: which slabs are written.  ``accesses``: of
    all its work-items, where that is known.  ``known``, ``key``: where plans of launches alike are, if they
    are kept.  ``regions``: see ``make_plan``.  ``whole``: the cut into one assignment, and what it may touch,
    where that needs no access maps.
    """

    def __init__(
        self,
        model: KernelModel,
        values: Sequence[ArgumentValue],
        buffers: dict[int, VirtualBuffer],
        bind: Callable[[], BoundAccess],
        images: BoundAccess | None = None,
        accesses: float | None = None,
        known: PlanMemory | None = None,
        key: PlanKey | None = None,
        regions: Collection[int] = (),
        whole: tuple[tuple[GroupBox, ...], BoundAccess] | None = None,
    ) -> None:
        self._model, self._values, self._buffers = model, values, buffers
        self._bind = bind
        self._images = images
        self._accesses = accesses
        self._known, self._key = known, key
        self._regions = regions
        self._whole = whole
        self._bound: BoundAccess | None = None

    def plan(self, boxes: tuple[GroupBox, ...], exact: bool) -> CutPlan:
        """See ``CutPlans``."""
        if self._whole is not None and boxes == self._whole[0]:
            over = self._whole[1].over
            return make_plan(
                self._model, self._values, over, boxes, self._buffers, self._images, self._regions
            )
        known, key = self._known, self._key
        if known is not None and key is not None:
            found = known.find(key, boxes, exact, list(self._buffers.values()))
            if found is not None:
                return found
        bound = self._access()
        bound.foresee(boxes, exact)
        access = bound.over if exact else bound.bounds
        made = make_plan(self._model, self._values, access, boxes, self._buffers, self._images, self._regions)
        if known is not None and key is not None:
            known.keep(key, exact, made)
        return made

    def work(self, dim: int) -> WorkEstimate | None:
        """See ``CutPlans``."""
        return self._access().work(dim)

    def effort(self) -> float | None:
        """See ``CutPlans``."""
        return self._accesses or self._access().effort()

    def _access(self) -> BoundAccess:
        if self._bound is None:
            self._bound = self._bind()
        return self._bound


def bound_access(
    maps: KernelAccess,
    ndrange: NDRange,
    values: Sequence[ArgumentValue],
    buffers: dict[int, VirtualBuffer],
) -> BoundAccess:
    """The access maps of one launch."""
    return maps.bind(
        ndrange,
        tuple(value if isinstance(value, bytes) else None for value in values),
        tuple(
            v.reach(buffers[v.buffer].nbytes) if isinstance(v, BufferArgument) and v.buffer else None
            for v in values
        ),
    )
