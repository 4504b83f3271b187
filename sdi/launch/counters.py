"""Counters of one session: what was split, over how many members, and what moved."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from sdi import whole_file
from sdi.dataclass import asdict, dataclass, field
from sdi.launch.arguments import BufferArgument, ImageArgument
from sdi.launch.kernel import Binding, Kernel, LaunchPlan
from sdi.launch.patterns import CopyPattern
from sdi.launch.plan import BufferPlan
from sdi.launch.recording import HowLaunched, Tally
from sdi.partition.gain import Rates
from sdi.sampling import KernelAnalysis
from sdi.vmem.accounting import Accounting
from sdi.vmem.links import Links


@dataclass(slots=True)
class KernelCounters:
    """Launches of one kernel name.  ``launch_groups``: groups in a launch → members used → launches.

    ``plans``: launches that were like none before, ``plans_merging`` of them bring together with twins what
    several members write; ``plan_ns``: what their access ranges, choice of the cut and chunks took in all.
    ``attempts_undone``: parts of launches that were split at a risk and had to run again.
    ``launches_by_address``: of all, those that used shared virtual memory by its addresses.
    """

    groups_per_member: list[int]
    launches_split: int = 0
    launches_whole: int = 0
    launches_by_address: int = 0
    launches_verified: int = 0
    attempts_undone: int = 0
    why_whole: str = ""
    plans: int = 0
    plans_merging: int = 0
    plan_ns: int = 0
    members_used: dict[int, int] = field(default_factory=dict)
    launch_groups: dict[int, dict[int, int]] = field(default_factory=dict)

    def count(
        self,
        groups: tuple[int, ...],
        members: tuple[int, ...],
        why_whole: str,
        is_by_address: bool,
        launches: int = 1,
    ) -> None:
        """So many launches ran ``groups[k]`` work-groups on member ``members[k]``."""
        used, total = len(groups), sum(groups)
        self.launches_by_address += launches * is_by_address
        if used > 1:
            self.launches_split += launches
        else:
            self.launches_whole += launches
            self.why_whole = why_whole
        self.members_used[used] = self.members_used.get(used, 0) + launches
        by_members = self.launch_groups.setdefault(total, {})
        by_members[used] = by_members.get(used, 0) + launches
        for member, number in zip(members, groups, strict=False):
            self.groups_per_member[member] += number * launches


@dataclass(frozen=True, slots=True)
class Timed:
    """What was measured of launches of a kernel of about one size.

    ``may_split``: how many members run them is chosen by these times; else they run on as many as they may.
    """

    rates: Rates
    may_split: bool


@dataclass(frozen=True, slots=True)
class LastLaunch:
    """A launch, box k on member ``members[k]``: costs nothing to keep.

    ``patterns``: of the last one that copied anything.
    """

    kernel: Kernel
    binding: Binding
    members: tuple[int, ...]
    patterns: tuple[CopyPattern, ...] = ()


@dataclass(slots=True)
class PatternSums:
    """Sums of patterns of one argument and pattern; ``most_nbytes``, ``rounds``: of all of them the most."""

    launches: int = 0
    nbytes: int = 0
    most_nbytes: int = 0
    passed_nbytes: int = 0
    rounds: int = 0


class Counters:
    """All counters of a session.  Owned by: sdi-scheduler."""

    def __init__(
        self, members: int, accounting: Accounting, links: Links, split: str, assignment_ns: float
    ) -> None:
        """``split``: the setting, or "apart": each member is a device.

        ``assignment_ns``: what issuing one more assignment costs.
        """
        self._members = members
        self._accounting = accounting
        self._links = links
        self._split = split
        self._assignment_ns = assignment_ns
        self._opened_ns = time.monotonic_ns()
        self._timed: dict[str, dict[int, Timed]] = {}
        self._stores: dict[str, tuple[str, ...]] = {}
        self._kernels: dict[str, KernelCounters] = {}
        self.last: dict[str, LastLaunch] = {}
        """Of each kernel that was built with a note."""
        self.patterns: dict[str, dict[tuple[str, str], PatternSums]] = {}
        """Likewise, by argument and pattern: of launches that the player did not replay."""
        self._tallies: dict[tuple[str, HowLaunched], Tally] = {}
        self.nodes: tuple[int, ...] = ()
        """Of each member, in a job."""
        self.network: dict[tuple[int, int], dict[str, int]] = {}
        """What one node sent to another, where there are several: messages, record_nbytes, bulk_nbytes."""
        self.records: Callable[[], dict[str, dict[str, int]]] = dict
        """Of the player: records by kind, and what became of them."""
        self.failures: list[str] = []
        """What builds and commands that failed said."""

    def tally(self, kernel: Kernel, launch_plan: LaunchPlan, members: tuple[int, ...]) -> Tally:
        """Where to count launches that are issued again just as before."""
        key = (kernel.model.name, _how(launch_plan, members))
        found = self._tallies.get(key)
        if found is None:
            found = self._tallies[key] = Tally(*key)
        return found

    def _count(self) -> None:
        """Count what was only tallied."""
        for tally in self._tallies.values():
            if tally.launches:
                self._kernel(tally.name).count(*tally.how, tally.launches)
                tally.launches = 0

    def kernel(self, name: str) -> KernelCounters:
        """The counters of kernels called ``name``."""
        self._count()
        return self._kernel(name)

    def _kernel(self, name: str) -> KernelCounters:
        found = self._kernels.get(name)
        if found is None:
            found = self._kernels[name] = KernelCounters([0] * self._members)
        return found

    def planned(self, kernel: Kernel, binding: Binding, took_ns: int) -> None:
        """A launch of ``kernel`` was like none before."""
        counters, plan = self._kernel(kernel.model.name), binding.launch_plan.plan
        counters.plans += 1
        counters.plan_ns += took_ns
        if plan.merged_nbytes:
            counters.plans_merging += 1
            for used in plan.buffers:
                if used.merged and used.cause not in self._stores:
                    self._stores[used.cause] = _stores(kernel, binding, used)

    def lacks_times(self, name: str, num_groups: int) -> bool:
        """Whether nothing was measured yet of launches of about that size."""
        timed = self._timed.get(name, {}).get(num_groups.bit_length())
        return timed is None or not timed.rates.measured

    def timed(self, name: str, launch_plan: LaunchPlan) -> None:
        """A launch is measured."""
        history, bits = launch_plan.history, launch_plan.ndrange.total_groups.bit_length()
        self._timed.setdefault(name, {})[bits] = Timed(history.rates, not history.is_fixed)

    def ran(
        self,
        kernel: Kernel,
        binding: Binding,
        members: tuple[int, ...],
        patterns: tuple[CopyPattern, ...] = (),
    ) -> None:
        """A launch of ``kernel`` was issued.  ``patterns``: of all its parts."""
        name = kernel.model.name
        launch_plan = binding.launch_plan
        self._kernel(name).count(*_how(launch_plan, members))
        if kernel.note is not None:
            before = self.last.get(name)
            shown = patterns or (before.patterns if before is not None else ())
            self.last[name] = LastLaunch(kernel, binding, members, shown)
            for one in patterns:
                sums = self.patterns.setdefault(name, {}).setdefault(
                    (one.argument, one.pattern), PatternSums()
                )
                sums.launches += 1
                sums.nbytes += one.nbytes
                sums.most_nbytes = max(sums.most_nbytes, one.most_nbytes)
                sums.passed_nbytes += one.passed_nbytes
                sums.rounds = max(sums.rounds, one.rounds)

    def write(self, path: Path, finished: bool, explained: Mapping[str, dict[str, object]]) -> None:
        """Store as JSON; readers see the old file or the whole new one.  Raises OSError.

        ``explained``: notes by kernel.
        ``pid`` names the service: a reader that wants the final counts (``finished``) waits for its end.
        """
        self._count()
        self._accounting.settle()
        kernels = {name: asdict(kernel) for name, kernel in self._kernels.items()}
        for name, note in explained.items():
            kernels[name]["explain"] = note
        for name, sizes in self._timed.items():
            kernels[name]["timed"] = {
                bits: {"may_split": of.may_split, "group_ns": {**of.rates.first, **of.rates.known}}
                for bits, of in sizes.items()
            }
        text = json.dumps(
            {
                "pid": os.getpid(),
                "finished": finished,
                "members": self._members,
                "kernels": kernels,
                "bytes_moved": asdict(self._accounting.moved),
                "races": [
                    {"cause": cause, "lines": self._stores.get(cause, ()), "times": times}
                    for cause, times in self._accounting.races.items()
                ],
                "failures": self.failures,
                "split": self._split,
                "assignment_ns": self._assignment_ns,
                "elapsed_ns": time.monotonic_ns() - self._opened_ns,
                "between_members_ns": self._accounting.between_members_ns(self._links.cost_ns),
                "memory": self._accounting.report(),
                "records": self.records(),
                "network": [{"from": a, "to": b, **sent} for (a, b), sent in sorted(self.network.items())],
            },
            indent=1,
        )
        whole_file.replace(path, text)


def _stores(kernel: Kernel, binding: Binding, used: BufferPlan) -> tuple[str, ...]:
    """The lines that store to a buffer, through any of the arguments that name it."""
    if not isinstance(kernel.access, KernelAnalysis):
        return ()
    named = {
        index
        for index, value in enumerate(binding.values)
        if isinstance(value, BufferArgument | ImageArgument) and value.buffer == used.buffer.id
    }
    return tuple(dict.fromkeys(at for index, at in kernel.access.stores if index in named))


def _how(launch_plan: LaunchPlan, members: tuple[int, ...]) -> HowLaunched:
    return launch_plan.groups, members, launch_plan.why_whole, bool(launch_plan.names)
