"""What a traced program takes: the application enqueues, the service issues, members copy and compute.

Each member runs one kernel at a time, and receives and sends beside that; what all of a machine receive from
the host, or send to it, has a rate of its own.  CPU members of one machine share its cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sdi.commands import Launch
from sdi.dataclass import dataclass
from sdi.partition.gain import COPY_BYTES_PER_NS
from sdi.predict.rates import MachineCosts
from sdi.predict.schedule import Schedule
from sdi.predict.trace import COPY, KERNEL, MERGE, WORK, MemberTrace, TracedCommand, TracedOperation
from sdi.vmem.directory import HOST

APPLICATION = "application"
OWN_COPIES = "application's copies"
KERNELS = "kernels"
WHOLE = "whole kernels"
UPLOADS = "copies from the host"
DOWNLOADS = "copies to the host"
BETWEEN = "copies between members"
NETWORK = "copies between machines"
MERGES = "merges"
PLANNING = "planning"
ISSUING = "issuing"
STARTING = "starting"


@dataclass(frozen=True, slots=True)
class TimePart:
    """``ns`` of the time to the end that went to ``cause``, because of ``kernel`` (empty: of no launch);
    ``of``: the buffer that was copied or merged.
    """

    cause: str
    kernel: str
    of: str
    ns: float


@dataclass(frozen=True, slots=True)
class Simulated:
    """``end_ns``: from the first command to the last one's end, which all ``parts`` make up.

    ``commands``: when each came and was over.
    """

    end_ns: float
    parts: tuple[TimePart, ...]
    commands: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Speed:
    """``factor``: how much faster kernels run than in the profile.  ``units``: compute units of a member, 0
    where that is not known.  ``is_shared``: the members of a machine share its cores.
    """

    factor: float
    units: int
    is_shared: bool

    def share(self, groups: int, total: int, local_items: int, fill_items: int) -> float:
        """The part of a kernel's time on one member that so many of its work-groups take.

        A unit runs as many groups at once as it needs to be busy; with fewer it is no faster.
        """
        if not self.units or self.is_shared or not total:
            return groups / total if total else 0.0
        least = max(1.0, fill_items / max(local_items, 1))
        return max(-(-groups // self.units), least) / max(-(-total // self.units), least)


class _Simulation:
    """Tasks of one trace."""

    _SERVICE, _PER_NODE, _PER_MEMBER = 0, 5, 3

    def __init__(
        self, trace: MemberTrace, costs: MachineCosts, speed: Speed, before: MemberTrace | None
    ) -> None:
        self._before: Final = [] if before is None else before.commands
        self._trace: Final = trace
        self._costs: Final = costs
        self._speed: Final = speed
        self._schedule: Final = Schedule()
        self._tasks: list[int] = []  # of each operation the last one
        self._ends: list[int] = []  # of the commands so far
        self._joined = (0, -1)  # a task behind so many operations
        self._members_at = 1 + self._PER_NODE * (max(trace.nodes) + 1)

    # -- resources ------------------------------------------------------------------------------------------

    def _node(self, memory: int) -> int:
        return 0 if memory == HOST else self._trace.nodes[memory - 1]

    def _of_node(self, node: int, which: int) -> int:
        """0: from its host, 1: to its host, 2: out to others, 3: in from others, 4: its cores."""
        return 1 + self._PER_NODE * node + which

    def _of_member(self, memory: int, which: int) -> int:
        """0: kernels, 1: what it receives, 2: what it sends."""
        return self._members_at + self._PER_MEMBER * (memory - 1) + which

    # -- tasks ----------------------------------------------------------------------------------------------

    def _add(
        self, cause: str, kernel: str, of: str, ns: float, resources: Sequence[int], after: Sequence[int]
    ) -> int:
        return self._schedule.add(f"{cause}\0{kernel}\0{of}", ns, resources, after)

    def _join(self, after: Sequence[int]) -> int:
        return self._schedule.add("\0\0", 0.0, (), after)

    def _copy(self, operation: TracedOperation, kernel: str, waits: Sequence[int]) -> int:
        costs, source, target = self._costs, operation.source, operation.target
        of, latency_ns = operation.cause, 1e3 * costs.copy_latency_us
        here, there = self._node(source), self._node(target)
        if here != there:
            ns = operation.nbytes / costs.network_gb_per_s + 1e3 * costs.network_latency_us
            ends = (self._of_node(here, 2), self._of_node(there, 3))
            return self._add(NETWORK, kernel, of, ns, ends, waits)
        if HOST not in (source, target):
            ns = operation.nbytes / costs.between_members_gb_per_s + latency_ns
            return self._add(
                BETWEEN, kernel, of, ns, (self._of_member(source, 2), self._of_member(target, 1)), waits
            )
        is_up = source == HOST
        cause = UPLOADS if is_up else DOWNLOADS
        one = costs.host_to_member_gb_per_s if is_up else costs.member_to_host_gb_per_s
        every = costs.host_to_all_gb_per_s if is_up else costs.all_to_host_gb_per_s
        # All members together get no more than the host can give: each copy takes its part of that.
        shared_ns = operation.nbytes / every
        given = self._add(cause, kernel, of, shared_ns, (self._of_node(here, 0 if is_up else 1),), waits)
        lane = self._of_member(target, 1) if is_up else self._of_member(source, 2)
        label = f"{cause}\0{kernel}\0{of}"
        return self._schedule.add(
            label, operation.nbytes / one + latency_ns, (lane,), (*waits, given), shared_ns
        )

    def _operation(self, traced: TracedCommand, operation: TracedOperation, waits: Sequence[int]) -> int:
        step, costs, of = traced.step, self._costs, operation.cause
        kernel, node = step.kernel, self._node(operation.target)
        match operation.what:
            case what if what == KERNEL:
                start_ns = 1e3 * costs.start_us
                begun = [self._add(STARTING, kernel, "", start_ns, (), waits)]
                shared = self._speed.is_shared
                lane = (self._of_node(node, 4) if shared else self._of_member(operation.target, 0),)
                if step.start_ns > start_ns:  # the driver did something else first
                    begun = [self._add(STARTING, kernel, "", step.start_ns - start_ns, lane, begun)]
                part = self._speed.share(operation.groups, step.groups, traced.local_items, costs.fill_items)
                ns = step.kernel_ns * part / self._speed.factor
                is_whole = traced.assignments == 1 and len(self._trace.nodes) > 1
                return self._add(WHOLE if is_whole else KERNELS, kernel, "", ns, lane, begun)
            case what if what == COPY:
                return self._copy(operation, kernel, waits)
            case what if what == MERGE:
                rate = costs.compare_gb_per_s
                if operation.target == HOST:
                    rate = min(rate, COPY_BYTES_PER_NS)
                return self._add(MERGES, kernel, of, operation.nbytes / rate, (self._lane(operation),), waits)
            case what if what == WORK:
                total = _nbytes(traced)
                ns = step.work_ns * operation.nbytes / total if step.work_ns and total else 0.0
                if not step.work_ns:  # not in the profile, as a member's copy for a merge
                    ns = operation.nbytes / costs.compare_gb_per_s
                return self._add(
                    KERNELS if step.work_ns else MERGES, kernel, of, ns, (self._lane(operation),), waits
                )
            case _:
                ns = operation.nbytes / costs.compare_gb_per_s
                return self._add(MERGES, kernel, of, ns, (), waits)

    def _lane(self, operation: TracedOperation) -> int:
        memory = operation.target or operation.source
        if self._speed.is_shared or memory == HOST:
            return self._of_node(self._node(memory), 4)
        return self._of_member(memory, 0)

    # -- commands -------------------------------------------------------------------------------------------

    def _all_before(self, number: int) -> list[int]:
        """A task behind the operations before that number, which is no less than the last one asked for."""
        joined, task = self._joined
        if number > joined:
            earlier = [task] if joined else []
            self._joined = number, self._join([*earlier, *self._tasks[joined:number]])
        return [self._joined[1]] if number else []

    def _issue(self, traced: TracedCommand, came: int) -> int:
        operations = self._trace.operations[traced.first : traced.stop]
        kernel, costs = traced.step.kernel, self._costs
        launches = sum(1 for each in operations if each.what == KERNEL)
        if not traced.is_known and isinstance(traced.step.command, Launch):
            plan_ns = traced.plan_ns
            if self._before and traced.step.issue_ns:  # as in the profile, and what planning takes more
                before_ns = self._before[len(self._ends)].plan_ns
                plan_ns = max(0.0, traced.step.issue_ns + plan_ns - before_ns)
            return self._add(PLANNING, kernel, "", plan_ns, (self._SERVICE,), (came,))
        ns = 1e3 * (launches * costs.launch_us + (len(operations) - launches) * costs.copy_us)
        if any(self._node(each.target) for each in operations) and launches:
            near = sum(1 for each in operations if not (self._node(each.target) or self._node(each.source)))
            ns = 1e3 * (costs.node_launch_us + near * costs.launch_us)
        return self._add(ISSUING, kernel, "", ns or 1e3 * costs.launch_us, (self._SERVICE,), (came,))

    def run(self) -> Simulated:
        """How long all of it takes."""
        came, arrivals, queues = -1, [], dict[int, int]()
        for traced in self._trace.commands:
            step = traced.step
            after = [came] if came >= 0 else []
            if step.after:
                after.append(self._ends[step.after - 1])
            came = self._add(APPLICATION, "", "", step.gap_ns, (), after)
            arrivals.append(came)
            issued = self._issue(traced, came)
            behind = self._all_before(traced.behind)
            last = [issued]
            for number in range(traced.first, traced.stop):
                operation = self._trace.operations[number]
                waits = [issued, *behind, *[self._tasks[each] for each in operation.waits]]
                self._tasks.append(self._operation(traced, operation, waits))
                last.append(self._tasks[-1])
            # Commands of a queue end in order: what ends with this one is all that came before.
            last += [queues[step.queue]] if step.queue in queues else []
            if step.host_ns:
                last = [self._add(OWN_COPIES, step.kernel, "", step.host_ns, (), [*last, *behind])]
            queues[step.queue] = self._join(last)
            self._ends.append(queues[step.queue])
        end_ns = self._schedule.run()
        parts: dict[tuple[str, str, str], float] = {}
        for label, ns in self._schedule.path().items():
            cause, kernel, of = label.split("\0")
            if ns:
                parts[cause, kernel, of] = ns
        ends = self._schedule.ends
        times = tuple([(ends[came], ends[end]) for came, end in zip(arrivals, self._ends, strict=True)])
        return Simulated(end_ns, tuple([TimePart(*key, ns) for key, ns in parts.items()]), times)


def _nbytes(traced: TracedCommand) -> int:
    rectangle = getattr(traced.step.command, "rectangle", None) or getattr(
        traced.step.command, "target_rectangle", None
    )
    return 0 if rectangle is None else int(rectangle.nbytes)


def simulate(
    trace: MemberTrace, costs: MachineCosts, speed: Speed, before: MemberTrace | None = None
) -> Simulated:
    """What a trace takes on members of such costs and speed.

    ``before``: of as many members as the profile has, of which it is known what planning and drivers took.
    """
    return _Simulation(trace, costs, speed, before).run()
