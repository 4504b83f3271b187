"""Programs built for every member, and the bindings of their kernels."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Generic, TypeVar

from sdi.cells import Cells
from sdi.clc.model import KernelModel
from sdi.commands import Launch
from sdi.dataclass import dataclass, field, replace
from sdi.devices.base import KernelFacts
from sdi.devices.handles import BoundKernel, DeviceProgram
from sdi.launch.arguments import ArgumentValue
from sdi.launch.chunks import Chunk, MemberKernel
from sdi.launch.learning import Page, Pages
from sdi.launch.plan import CutPlan, CutPlans
from sdi.launch.plan_memory import REGIONS_MAX, PlanMemory
from sdi.launch.recording import CopyTime, Recording
from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.partition.balance import Balance, ShareEpoch, edges_of
from sdi.partition.gain import Span
from sdi.partition.history import LONG_NS, LaunchHistory
from sdi.partition.learnt import Attempts
from sdi.sampling import KernelAnalysis
from sdi.sampling.model import KernelAccess
from sdi.sampling.parametric import Parametric
from sdi.sampling.scalar_cases import ArgumentCases, argument_cases
from sdi.sampling.shaping import shaping_bits
from sdi.vmem.reaches import NOTHING, Reached

_LONGER = 2.0
"""Launches that take so many times what they did are another matter."""
ARRANGEMENTS_MAX = 1024
"""Kept per kernel, least recently used first out.  Networks launch one on hundreds of buffers in turn."""


@dataclass(slots=True, eq=False)
class LaunchPlan:
    """How launches are run that differ at most in bits of scalars on which no access range depends.

    Box k of ``plan`` runs on the k-th member there is; one box alone on one that is chosen at launch.
    ``chunks``: the same launch in parts that fit into memory, mostly one.  ``history``: of launches like it,
    whose cut had this ``version`` when they were arranged.  ``launches``: how often it ran.
    ``is_gathered``: it runs whole, on a member that has all that its buffers hold, so that no ranges were
    asked for.
    ``profiled``: its number in the profile, once it is there.  ``epoch``: what its shares are measured by,
    None where they stay as they are.  ``capacities``: what each member could hold, as far as was known.
    ``reached``: what it uses by addresses; ``names``: the ids of what says so.
    ``buffers``: the ids of all that it refers to.  ``is_trivial``: no ranges were asked for.
    ``member``: see ``Launch``.  ``plans``: what its cut was chosen among, where it hands out places.
    """

    ndrange: NDRange
    plan: CutPlan
    groups: tuple[int, ...]
    why_whole: str
    chunks: tuple[Chunk, ...]
    history: LaunchHistory
    version: int
    capacities: tuple[int, ...]
    launches: int = 0
    is_gathered: bool = False
    profiled: int = 0
    epoch: ShareEpoch | None = None
    is_trivial: bool = False
    member: int = 0
    plans: CutPlans | None = None
    reached: Reached = NOTHING
    names: tuple[int, ...] = ()
    buffers: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.buffers = (*[used.buffer.id for used in self.plan.buffers], *self.names)

    def is_valid(self) -> bool:
        """Whether launches like these are still cut like this, as far as is known."""
        if self.epoch is not None and not self.epoch.is_current:
            return False
        return self.version == self.history.version

    def is_like(self, other: LaunchPlan) -> bool:
        """Whether it does the same in the same way, so that what was recorded of it goes on.

        Why it is whole may be said in other figures.
        """
        if self.plan.is_attempt or self.history is not other.history:
            return False  # a history says when it is looked at again
        return self._way() == other._way() and self.plan == other.plan

    def _way(self) -> tuple[object, ...]:
        return self.version, self.capacities, self.epoch, self.reached, len(self.chunks)

    def measured(
        self, boxes: Sequence[GroupBox], ran: Sequence[Span], is_first: bool = False, is_rough: bool = False
    ) -> bool:
        """Learn from when the assignments of a launch, or of a part of it, ran; whether that is a reason to
        look at the next one.  Any thread.

        ``is_first``: drivers may have loaded the kernel's code in that time.  ``is_rough``: what it took to
        launch it may be part of that, too, on a member that has something for itself: 0.05 to 0.3 ms.
        """
        history, epoch = self.history, self.epoch
        times_ns = [each.end_ns - each.start_ns for each in ran]
        if min(times_ns) <= 0:
            return False  # it is not known
        groups, total_ns = sum([box.total_groups for box in boxes]), history.rates.total_ns(ran)
        if is_rough and total_ns < LONG_NS and not history.rates.is_shared:
            return False
        known_ns, was_unknown = history.rates.group_ns(len(ran)), history.is_unknown(history.launches)
        is_longer = known_ns is not None and total_ns > _LONGER * known_ns * groups and history.rest_until > 0
        if is_longer:
            history.rest_until = 0
        history.rates.record(len(ran), total_ns, groups, is_first)
        is_open = history.untried and not (history.is_fixed or history.is_final)
        if is_open and total_ns >= LONG_NS and len(ran) in history.rates.known:
            history.is_news = True
        if epoch is not None:
            edges = edges_of(boxes, self.ndrange.num_groups, epoch.balance.dim)
            epoch.balance.record(epoch, edges, times_ns, is_first)
        return history.is_news or is_longer or (was_unknown and not history.is_unknown(history.launches))

    def copied(self, copying: CopyTime, times: int = 1) -> None:
        """So much of the time of each of some launches went into copies from members.

        One member has to fetch what others ran in several assignments before: it is these that lose.  That
        the application has its launches take turns on members is no loss.
        """
        history, rates = self.history, self.history.rates
        if len(self.groups) == 1:
            if copying.ns > 0:
                history.rest_until = 0
            for other, owed_ns in copying.apart:
                history.budget.lose(owed_ns * times)
                other.owes(owed_ns * times)
            return
        if history.is_fixed or history.is_final:
            return
        one_ns, several_ns = rates.group_ns(1), rates.group_ns(len(self.groups))
        if one_ns is not None and several_ns is not None:
            saved_ns = one_ns * sum(self.groups) - several_ns * max(self.groups)
            history.copied(copying.ns, saved_ns, times)

    def passes(self) -> bool:
        """Whether the next launch is cut like this and nothing is to be learnt from it.

        Counts it with the epoch then: to be asked last.
        """
        history, epoch = self.history, self.epoch
        if self.version != history.version or not history.is_routine():
            return False
        return epoch is None or epoch.passes(history.launches + 1)


@dataclass(slots=True, eq=False)
class Binding:
    """A launch whose launch plan, packed parameters and bound kernels are known.

    ``bounds``: per chunk, the kernel bound on each member where it was needed.  ``kernels``: those of
    recordings as which it was issued when placement and kernel had the generations ``kept_at``.
    ``checked``: with which buffers there were the launch was last looked at, see ``Session``.
    """

    build: Build
    kernel: Kernel
    launch: Launch
    launch_plan: LaunchPlan
    values: tuple[ArgumentValue, ...]
    bounds: tuple[dict[int, MemberKernel], ...] = field(init=False)
    kernels: dict[Recording, Sequence[BoundKernel]] = field(default_factory=dict)
    kept_at: tuple[int, int] = (-1, -1)
    checked: int = -1

    def __post_init__(self) -> None:
        self.bounds = tuple({} for _ in self.launch_plan.chunks)


LaunchPlanKey = tuple[int, Int3, Int3, Int3 | None, tuple[object, ...], bool, int, tuple[int, ...]]
"""With bits and cases of scalars that access ranges depend on; whether none was asked for; see ``Launch``."""
LaunchHistoryKey = tuple[int, int, tuple[int, ...]]
"""Dimensions, bits of the number of work-groups, buffers: launches that are alike."""


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Recent(Generic[_Key, _Value]):
    """The values that were used last, ``most`` of them, and as many as their sizes, of ``size_of``, come to
    REGIONS_MAX; those that refer to a buffer are found by it.

    ``values``: by key, the least recently used first.  Owned by: sdi-scheduler.
    """

    def __init__(self, most: int = ARRANGEMENTS_MAX, size_of: Callable[[_Value], int] = lambda _: 0) -> None:
        self.values: OrderedDict[_Key, _Value] = OrderedDict()
        self._most = most
        self._size_of = size_of
        self._sizes: dict[_Key, int] = {}
        self._total_size = 0
        self._buffers: dict[_Key, tuple[int, ...]] = {}
        self._keys: dict[int, dict[_Key, None]] = {}

    def find(self, key: _Key) -> _Value | None:
        """The value of ``key``, now the most recently used."""
        found = self.values.get(key)
        if found is not None:
            self.values.move_to_end(key)
        return found

    def keep(self, key: _Key, value: _Value, buffers: Iterable[int]) -> None:
        """Remember ``value``, which refers to ``buffers``."""
        if key in self.values:
            self.drop(key)
        self.values[key] = value
        self._sizes[key] = size = self._size_of(value)
        self._total_size += size
        self._buffers[key] = tuple(dict.fromkeys(buffers))
        for buffer in self._buffers[key]:
            keys = self._keys.get(buffer)
            if keys is None:
                keys = self._keys[buffer] = {}
            keys[key] = None
        while len(self.values) > self._most or (self._total_size > REGIONS_MAX and len(self.values) > 1):
            self.drop(next(iter(self.values)))

    def drop(self, key: _Key) -> None:
        """Forget the value of ``key``, which there is."""
        del self.values[key]
        self._total_size -= self._sizes.pop(key)
        for buffer in self._buffers.pop(key):
            keys = self._keys[buffer]
            del keys[key]
            if not keys:
                del self._keys[buffer]

    def drop_buffer(self, buffer: int) -> None:
        """Forget what refers to ``buffer``."""
        for key in tuple(self._keys.get(buffer, ())):
            self.drop(key)

    def clear(self) -> None:
        """Forget everything."""
        self.values.clear()
        self._sizes.clear()
        self._total_size = 0
        self._buffers.clear()
        self._keys.clear()


def _size_of(launch_plan: LaunchPlan) -> int:
    """What it knows of regions, and how many buffers its launches reach."""
    return sum(chunk.plan.num_regions + len(chunk.buffers) for chunk in launch_plan.chunks)


class Kernel:
    """One kernel of a build, with how its launches are arranged.  Owned by: sdi-scheduler.

    ``access``: its access maps; ``maps``: the same for launches, quick for scalars that change.  ``images``:
    which slabs of images it writes, None if it writes none or nothing is known.  ``shaping``: by argument,
    the bits of its value that all of these depend on, but for ``cases``.
    ``has_variables``: its program has variables in global memory, of which each member has its own.  So all
    launches of all of the program's kernels run on one member, the first.
    ``note``: what it does, for people (``sdi/explain``), where that was asked for.
    ``plans``: of its launches, whatever buffers they used.  ``page``: what earlier runs learnt of it, if
    that counts.
    ``is_warm``: it ran before, so that what a launch takes is its work; ``has_run``: it was launched before.
    ``attempts``: what became of launches that append.
    ``was_tried``: members ran the next launch already, and that did not count.
    ``outgrows``: it has appended beyond where it did before, which only Python can carry out.
    ``generation``: changes whenever a launch plan is to be chosen anew, and with it ``cell``, see ``follow``.
    """

    def __init__(self, model: KernelModel, access: KernelAccess, has_variables: bool = False) -> None:
        self.model = model
        self.has_variables = has_variables
        self.access = access
        self.maps: KernelAccess = Parametric(access) if isinstance(access, KernelAnalysis) else access
        self.images = access.images if isinstance(access, KernelAnalysis) else None
        analyses = [each for each in (access, self.images) if isinstance(each, KernelAnalysis)]
        self.shaping: dict[int, int] = {}
        for each in analyses:
            for argument, bits in shaping_bits(each).items():
                self.shaping[argument] = self.shaping.get(argument, 0) | bits
        self.cases = argument_cases(analyses, self.shaping)
        for argument, cases in self.cases.items():
            self.shaping[argument] &= ~cases.bits
        self.note: Callable[[], object] | None = None
        self._launch_plans: Recent[LaunchPlanKey, LaunchPlan] = Recent(size_of=_size_of)
        self._histories: Recent[LaunchHistoryKey, LaunchHistory] = Recent()
        self._last_history: tuple[LaunchHistoryKey, LaunchHistory] | None = None
        self._balances: dict[tuple[int, int], dict[Int3, Balance]] = {}
        self.page: Page | None = None
        self.plans = PlanMemory()
        self.is_warm = self.has_run = False
        self.attempts = Attempts()
        self.was_tried = False
        self.outgrows = False
        self.generation = 0
        self.cell = 0
        self._cells: Cells | None = None

    def planned(self, is_far: bool) -> KernelModel:
        """The model by which launches are cut.

        Over a network what only claimers write is merged: that sends what changed alone, and there is no
        player that would do without.
        """
        return replace(self.model, claimed=()) if is_far else self.model

    def effort(self, ndrange: NDRange) -> float | None:
        """Accesses of all work-items of a kernel without loops; None: ask the bound access."""
        if not isinstance(self.access, KernelAnalysis) or self.access.loops:
            return None
        return float((1 + len(self.access.accesses)) * prod(ndrange.global_size))

    def why_not_tried(self, ndrange: NDRange, members: int) -> str:
        """Why a launch that uses results of atomics does not run on several members; mostly empty."""
        for append in self.model.appends:
            if any(ndrange.local_size[dim] > 1 for dim in append.flat):
                name = self.model.arguments[append.counter].name
                return (
                    f"line {append.line}: several work-items of a work-group add to '{name}', as it has"
                    " more than one dimension"
                )
        return self.attempts.why_not(members)

    def counted(self, is_trivial: bool) -> tuple[Mapping[int, int], Mapping[int, ArgumentCases]]:
        """The bits and cases of scalars that count, by argument: none where no ranges are asked for."""
        return ({}, {}) if is_trivial else (self.shaping, self.cases)

    def follow(self, cells: Cells) -> None:
        """Have a cell change with the generation."""
        self._cells, self.cell = cells, cells.new()

    def unfollow(self) -> None:
        """Nothing is recorded of it: its cell goes back."""
        if self._cells is not None:
            self._cells.give_back(self.cell)
        self._cells, self.cell = None, 0

    def _is_other(self) -> None:
        self.generation += 1
        if self._cells is not None:
            self._cells.changed(self.cell)

    def find(self, key: LaunchPlanKey) -> LaunchPlan | None:
        """The launch plan for ``key``, now the most recently used."""
        return self._launch_plans.find(key)

    def keep(self, key: LaunchPlanKey, launch_plan: LaunchPlan) -> None:
        """Remember ``launch_plan``."""
        self._launch_plans.keep(key, launch_plan, launch_plan.buffers)

    def forget(self, launch_plan: LaunchPlan) -> None:
        """Drop a launch plan that is to be chosen anew."""
        for key in [key for key, found in self._launch_plans.values.items() if found is launch_plan]:
            self._launch_plans.drop(key)
        if launch_plan.version == launch_plan.history.version:  # otherwise that says it, of these launches
            self._is_other()

    def forget_all(self) -> None:
        """Everything is to be chosen anew."""
        self._launch_plans.clear()
        self._histories.clear()
        self._balances.clear()
        self.page = None  # it is about all members
        self._last_history = None
        self._is_other()

    def forget_buffer(self, buffer: int) -> None:
        """Drop the launch plans and histories that refer to ``buffer``."""
        self._launch_plans.drop_buffer(buffer)
        self._histories.drop_buffer(buffer)

    def history(self, key: LaunchHistoryKey, new: Callable[[], LaunchHistory]) -> LaunchHistory:
        """What is remembered of launches like this one: with other scalars, data had better stay in place."""
        found = self._histories.find(key)
        if found is None:
            found = new()
            found.balances = self._balances.setdefault(key[:2], found.balances)
            if self._last_history is not None:
                found.begin_like(self._last_history[1], is_smaller=key[1] < self._last_history[0][1])
            if self.page is not None:
                self.page.begin(key[:2], found)
            self._histories.keep(key, found, key[2])
        self._last_history = (key, found)
        return found


@dataclass(frozen=True, slots=True)
class Build:
    """A program built for all members: ``programs[m]`` is member m's, None for one that was lost before;
    ``facts[k]``: kernel k's limits, on each device that the application sees.

    ``silent``: member 0's program without its output, to run launches a second time.
    ``object``: what the program can be made from again, packed.
    """

    kernels: tuple[Kernel, ...]
    facts: tuple[tuple[KernelFacts, ...], ...]
    programs: tuple[DeviceProgram | None, ...]
    log: str
    silent: DeviceProgram | None
    object: bytes

    def facts_of(self, launch: Launch) -> KernelFacts:
        """Limits of the kernel on the device that it is launched on."""
        return self.facts[launch.kernel_index][max(launch.member - 1, 0)]

    def begin_with(self, pages: Pages | None) -> None:
        """Its kernels begin with what earlier runs learnt."""
        for kernel in self.kernels:
            kernel.page = pages.page(kernel.model.name) if pages is not None else None
            if pages is not None and (kernel.model.appends or kernel.model.watched):
                kernel.attempts = pages.attempts(kernel.model.name)
