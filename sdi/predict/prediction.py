"""A recorded run on each of several numbers of members: times, what they go to, and what holds them."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Mapping, Sequence

from sdi.commands import Launch
from sdi.dataclass import dataclass, replace
from sdi.devices.capabilities import kind_named
from sdi.partition.learnt import SizeKey
from sdi.predict.program import RecordedProgram
from sdi.predict.rates import MachineCosts
from sdi.predict.simulate import APPLICATION, OWN_COPIES, Simulated, Speed, TimePart, simulate
from sdi.predict.trace import COPY, GroupTimes, MemberTrace, trace
from sdi.wire.opencl import DeviceInfo


@dataclass(frozen=True, slots=True)
class KernelOn:
    """A kernel's launches on so many members.

    ``assignments``: into how many they are cut, with how many launches of each; ``why_fewer``: the most
    frequent reason.  ``groups``, ``local_items``: of the largest.  ``ns``: from when each could begin, the
    command before it being over, to its end.  ``by_cause``: what of the way to the end went to them.
    """

    kernel: str
    launches: int
    assignments: Mapping[int, int]
    why_fewer: str
    groups: int
    local_items: int
    ns: float
    by_cause: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Moved:
    """Copies for one ``cause`` in all launches of a kernel: how many, and their bytes."""

    copies: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class OnMembers:
    """The run on so many members of so many machines.  ``end_ns``: from the first command to the last one's
    end.  ``moved``: by ``TimePart.cause`` and buffer.
    """

    members: int
    machines: int
    end_ns: float
    parts: tuple[TimePart, ...]
    kernels: tuple[KernelOn, ...]
    moved: Mapping[str, Moved]

    def by_cause(self) -> dict[str, float]:
        """What the time goes to, in ns, most first."""
        found: dict[str, float] = {}
        for part in self.parts:
            found[part.cause] = found.get(part.cause, 0.0) + part.ns
        return dict(sorted(found.items(), key=lambda each: -each[1]))

    def kernel(self, name: str) -> KernelOn | None:
        """The one of that name."""
        return next((each for each in self.kernels if each.kernel == name), None)


@dataclass(frozen=True, slots=True)
class RunPrediction:
    """``own``: on the number of members that the profile has, to be compared with what was measured."""

    program: RecordedProgram
    costs: MachineCosts
    own: OnMembers
    one: OnMembers
    on: tuple[OnMembers, ...]

    @property
    def off(self) -> float:
        """By what part the prediction for the profile's own members is longer than the measured time."""
        return self.own.end_ns / self.program.measured_ns - 1

    def speed_up(self, on: OnMembers) -> float:
        """Over one member, both predicted."""
        return self.one.end_ns / on.end_ns


def predict(
    program: RecordedProgram, costs: MachineCosts, counts: Sequence[int], factor: float = 1.0
) -> RunPrediction:
    """``factor``: how much faster kernels run than in the profile.  Raises NotPredictable."""
    known = program.session.members[0]
    is_shared = kind_named(known.kind).is_host_processor
    speed = Speed(factor, _units(known.info), is_shared)
    times = group_times(program, costs, speed)
    own = len(program.session.members)
    trace(program, own, costs, times)  # so that what planning takes is not taken for what loading it takes
    before = trace(program, own, costs, times)
    found: dict[int, OnMembers] = {own: _on(before, simulate(before, costs, speed, before))}
    for members in dict.fromkeys((1, *counts)):
        if members not in found:
            made = trace(program, members, costs, times)
            found[members] = _on(made, simulate(made, costs, speed, before))
    mine = found[own]
    if factor != 1.0:  # what was measured is of kernels as they were
        mine = _on(before, simulate(before, costs, replace(speed, factor=1.0), before))
    return RunPrediction(program, costs, mine, found[1], tuple([found[count] for count in counts]))


def group_times(program: RecordedProgram, costs: MachineCosts, speed: Speed) -> GroupTimes:
    """What sdi would have learnt of each kernel by then, from the times in the profile."""
    sums: dict[tuple[str, SizeKey], list[float]] = {}
    for step in program.launches():
        launch = step.command
        assert isinstance(launch, Launch)
        if step.groups and step.kernel_ns:
            items = 1
            for local in launch.local_size or (1, 1, 1):
                items *= local
            known = sums.setdefault(
                (step.kernel, (launch.work_dim, step.groups.bit_length())), [0.0, 0.0, 0.0]
            )
            known[0] += step.kernel_ns / speed.factor
            known[1] += step.groups
            known[2] = max(known[2], items)
    most = {key: (ns, int(groups), int(items)) for key, (ns, groups, items) in sums.items()}
    of_one = Counter[tuple[str, SizeKey]]()
    for step in program.launches():
        assert isinstance(step.command, Launch)
        key = step.kernel, (step.command.work_dim, step.groups.bit_length())
        of_one[key] = max(of_one[key], step.groups)

    def times(kernel: str, size: SizeKey, assignments: int) -> float | None:
        found = most.get((kernel, size))
        if found is None:
            return None
        ns, groups, items = found
        if speed.is_shared and assignments <= costs.members_per_node:
            return assignments * ns / groups
        total = of_one[kernel, size]
        part = speed.share(-(-total // assignments), total, items, costs.fill_items)
        return assignments * part * ns / groups

    return times


def _units(info: Mapping[str, str]) -> int:
    """Compute units of a device, 0 where they are not recorded."""
    return int.from_bytes(b64decode(info.get(str(int(DeviceInfo.MAX_COMPUTE_UNITS)), "")), "little")


def _on(made: MemberTrace, found: Simulated) -> OnMembers:
    launches: dict[str, list[int]] = {}
    whys: dict[str, Counter[str]] = {}
    sizes: dict[str, tuple[int, int]] = {}
    moved: dict[str, Moved] = {}
    took: dict[str, float] = {}
    before_ns = 0.0
    for traced, (came_ns, end_ns) in zip(made.commands, found.commands, strict=True):
        own_ns, before_ns = max(0.0, end_ns - max(came_ns, before_ns)), max(before_ns, end_ns)
        if isinstance(traced.step.command, Launch):
            name = traced.step.kernel
            took[name] = took.get(name, 0.0) + own_ns
            launches.setdefault(name, []).append(traced.assignments)
            if traced.why_fewer and traced.assignments < len(made.nodes):
                whys.setdefault(name, Counter())[traced.why_fewer] += 1
            sizes[name] = max(sizes.get(name, (0, 0)), (traced.step.groups, traced.local_items))
        for operation in made.operations[traced.first : traced.stop]:
            if operation.what == COPY:
                known = moved.get(operation.cause, Moved(0, 0))
                moved[operation.cause] = Moved(known.copies + 1, known.nbytes + operation.nbytes)
    by_kernel: dict[str, dict[str, float]] = {}
    for part in found.parts:
        if part.kernel and part.cause not in (APPLICATION, OWN_COPIES):
            causes = by_kernel.setdefault(part.kernel, {})
            causes[part.cause] = causes.get(part.cause, 0.0) + part.ns
    kernels = tuple(
        [
            KernelOn(
                name,
                len(cuts),
                Counter(cuts),
                whys[name].most_common(1)[0][0] if name in whys else "",
                *sizes[name],
                took[name],
                by_kernel.get(name, {}),
            )
            for name, cuts in launches.items()
        ]
    )
    machines = max(made.nodes) + 1
    return OnMembers(len(made.nodes), machines, found.end_ns, found.parts, kernels, moved)
