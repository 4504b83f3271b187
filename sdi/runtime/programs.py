"""Programs built for every member, and the bindings of their kernels."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from sdi.clc.model import KernelModel
from sdi.devices.base import DeviceProgram, KernelFacts
from sdi.ndrange import Int3, NDRange
from sdi.partition.balance import Balance, Trial
from sdi.partition.usage import Usage
from sdi.runtime.arguments import ArgumentValue
from sdi.runtime.explain import KernelNote
from sdi.runtime.plan import LaunchPlan
from sdi.runtime.plan_memory import PlanMemory
from sdi.runtime.waves import Bound, Wave
from sdi.sampling import KernelAnalysis
from sdi.sampling.model import KernelAccess
from sdi.sampling.parametric import Parametric, shaping_arguments
from sdi.vmem.directory import State

BINDINGS_MAX = 64
"""Bindings kept per kernel, least recently used first out."""


@dataclass(slots=True, eq=False)
class Arrangement:
    """How launches are run that differ at most in scalars which no access range depends on.

    Box k of ``plan`` runs on the k-th member there is; one box alone on one that is chosen at launch.
    ``waves``: the same launch in parts that fit into memory; mostly one.  ``usage``: of launches like these,
    whose cut had this ``version`` when they were arranged.  ``launches``: how often it ran.  ``best``: which
    of the members runs it whole, by the states of its buffers.  ``is_gathered``: it runs whole, on a member
    that has all that its buffers hold, so that no ranges were asked for.
    ``profiled``: its number in the profile, once it is there.  ``trial``: what its shares are measured by,
    None where they stay as they are.  ``capacities``: what each member could hold, as far as was known.
    """

    ndrange: NDRange
    plan: LaunchPlan
    groups: tuple[int, ...]
    why_whole: str
    waves: tuple[Wave, ...]
    usage: Usage
    version: int
    capacities: tuple[int, ...]
    launches: int = 0
    is_gathered: bool = False
    best: dict[tuple[State | None, ...], int] = field(default_factory=dict)
    profiled: int = 0
    trial: Trial | None = None

    def is_valid(self) -> bool:
        """Whether launches like these are still cut like this, and need not be looked at anew."""
        if self.trial is not None and not self.trial.is_current:
            return False
        return self.version == self.usage.version and not self.usage.is_due()


class Binding:
    """A launch whose arrangement, packed parameters and bound kernels are known.

    ``bounds``: per wave, the kernel bound on each member where it was needed.
    """

    __slots__ = ("arrangement", "bounds", "values")

    def __init__(self, arrangement: Arrangement, values: tuple[ArgumentValue, ...]) -> None:
        self.arrangement = arrangement
        self.values = values
        self.bounds: tuple[dict[int, Bound], ...] = tuple({} for _ in arrangement.waves)


BindingKey = tuple[int, Int3, Int3, Int3 | None, bytes]
ArrangementKey = tuple[int, Int3, Int3, Int3 | None, tuple[ArgumentValue | None, ...], bool]
"""Like a binding's, with None for scalars that no access range depends on; whether none was asked for."""
UsageKey = tuple[int, int, tuple[int, ...]]
"""Dimensions, bits of the number of work-groups, buffers: launches that are alike."""


class Kernel:
    """One kernel of a build, with its bindings.  Owned by: sdi-scheduler.

    ``access``: its access maps; ``maps``: the same for launches, quick for scalars that change.  ``images``:
    which slabs of images it writes, None if it writes none or nothing is known.  ``shaping``: arguments that
    all of these depend on.  ``has_variables``: its program has variables in global memory, of which each
    member has its own.  So all launches of all of the program's kernels run on one member, the first.
    ``plans``: of its launches, whatever buffers they used.
    ``is_warm``: it ran before, so that what a launch takes is its work.  ``generation`` changes when bindings
    that were right are so no more.
    """

    def __init__(self, model: KernelModel, access: KernelAccess, has_variables: bool = False) -> None:
        self.model = model
        self.has_variables = has_variables
        self.access = access
        self.maps: KernelAccess = Parametric(access) if isinstance(access, KernelAnalysis) else access
        self.shaping = shaping_arguments(access) if isinstance(access, KernelAnalysis) else frozenset()
        self.images = access.images if isinstance(access, KernelAnalysis) else None
        if self.images is not None:
            self.shaping |= shaping_arguments(self.images)
        self.note: KernelNote | None = None
        self._bindings: OrderedDict[BindingKey, Binding] = OrderedDict()
        self._arrangements: OrderedDict[ArrangementKey, Arrangement] = OrderedDict()
        self._usages: OrderedDict[UsageKey, Usage] = OrderedDict()
        self._last_usage: tuple[UsageKey, Usage] | None = None
        self._balances: dict[tuple[int, int], dict[Int3, Balance]] = {}
        self.plans = PlanMemory()
        self.is_warm = False
        self.generation = 0

    def find(self, key: BindingKey) -> Binding | None:
        """The binding for ``key``, now the most recently used."""
        found = self._bindings.get(key)
        if found is not None:
            self._bindings.move_to_end(key)
        return found

    def keep(self, key: BindingKey, binding: Binding) -> None:
        """Remember ``binding``."""
        self._bindings[key] = binding
        if len(self._bindings) > BINDINGS_MAX:
            self._bindings.popitem(last=False)

    def find_arrangement(self, key: ArrangementKey) -> Arrangement | None:
        """The arrangement for ``key``, now the most recently used."""
        found = self._arrangements.get(key)
        if found is not None:
            self._arrangements.move_to_end(key)
        return found

    def keep_arrangement(self, key: ArrangementKey, arrangement: Arrangement) -> None:
        """Remember ``arrangement``."""
        self._arrangements[key] = arrangement
        if len(self._arrangements) > BINDINGS_MAX:
            self._arrangements.popitem(last=False)

    def forget(self, arrangement: Arrangement) -> None:
        """Drop an arrangement that is to be chosen anew, with its bindings."""
        self._drop(lambda other: other is arrangement)

    def forget_all(self) -> None:
        """Everything is to be chosen anew."""
        self._bindings.clear()
        self._arrangements.clear()
        self._usages.clear()
        self._balances.clear()
        self._last_usage = None
        self.generation += 1

    def forget_buffer(self, buffer: int) -> None:
        """Drop the arrangements, bindings and usages that refer to ``buffer``."""
        self._drop(lambda arrangement: any(used.buffer.id == buffer for used in arrangement.plan.buffers))
        for used in [used for used in self._usages if buffer in used[2]]:
            del self._usages[used]

    def _drop(self, is_over: Callable[[Arrangement], bool]) -> None:
        for key in [key for key, binding in self._bindings.items() if is_over(binding.arrangement)]:
            del self._bindings[key]
        for other in [other for other, found in self._arrangements.items() if is_over(found)]:
            del self._arrangements[other]
        self.generation += 1

    def usage(self, key: UsageKey, new: Callable[[], Usage]) -> Usage:
        """What is remembered of launches like this one: with other scalars, data had better stay in place."""
        found = self._usages.get(key)
        if found is None:
            found = self._usages[key] = new()
            found.balances = self._balances.setdefault(key[:2], found.balances)
            if self._last_usage is not None:
                found.begin_like(self._last_usage[1], is_smaller=key[1] < self._last_usage[0][1])
            if len(self._usages) > BINDINGS_MAX:
                self._usages.popitem(last=False)
        self._last_usage = (key, found)
        self._usages.move_to_end(key)
        return found


@dataclass(frozen=True, slots=True)
class Build:
    """A program built for all members: ``programs[m]`` is member m's, None for one that was lost before;
    ``facts[k]``: kernel k's limits.

    ``silent``: member 0's program without its output, to run launches a second time.
    ``object``: what the program can be made from again, packed.
    """

    kernels: tuple[Kernel, ...]
    facts: tuple[KernelFacts, ...]
    programs: tuple[DeviceProgram | None, ...]
    log: str
    silent: DeviceProgram | None
    object: bytes
