"""What sdi plans for a recorded program on so many members: its operations, and who waits for whom.

The program's commands go through the runtime of a session (engine, launcher, planner, directories) whose
members and host write down what they are asked for.  Nothing is computed, no byte is copied.
"""

from __future__ import annotations

import itertools
import queue
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Final

from sdi.commands import Command, Launch
from sdi.dataclass import dataclass, field, replace
from sdi.devices.base import Comparison, Device, MergeStep, Place
from sdi.devices.capabilities import MemberKind, kind_named
from sdi.devices.handles import BoundKernel, DeviceBuffer
from sdi.devices.issue import MEASURED, Issue, Timing
from sdi.devices.testing.null import NullDevice
from sdi.devices.ticket import Ticket
from sdi.errors import BuildError, ClError
from sdi.launch.counters import Counters
from sdi.launch.launcher import Launcher
from sdi.launch.learning import Learning, Page, Pages
from sdi.launch.programs.builds import Target, rebuild
from sdi.ndrange import Int3
from sdi.partition.history import LaunchHistory
from sdi.partition.learnt import Attempts, SizeKey
from sdi.predict.program import Built, Created, Enqueued, Gone, NotPredictable, RecordedProgram
from sdi.predict.rates import MachineCosts
from sdi.profile.analyse.model import Member
from sdi.region import Region
from sdi.runtime.command_graph import CommandNode, SchedulerCore
from sdi.runtime.engine import Engine
from sdi.runtime.virtual_device import VirtualDevice
from sdi.vmem.arena import Arena
from sdi.vmem.directory import HOST
from sdi.vmem.host import HostWorker
from sdi.vmem.links import Links
from sdi.vmem.memories import computes_in_arena
from sdi.vmem.memory import VirtualMemory

_APART_NS = 10**12
"""Commands are planned as if what was copied for those before had long arrived."""
_ROUNDS_MAX = 10_000
_PLANNED = 2
"""Launches of a kind whose results are looked at, before the player carries them out."""
_SURE = 3
"""So often a time counts as measured: short ones are believed then (``launch/cutting.py``)."""
KERNEL, COPY, MERGE, WORK, TASK = "kernel", "copy", "merge", "work", "task"
"""A launch; a copy between memories; a comparison, or a copy within a member; a fill or a copy that was asked
for; something on the host."""

GroupTimes = Callable[[str, SizeKey, int], float | None]
"""Time per work-group of a kernel's launches of a size, with so many assignments, all of them added up."""


@dataclass(slots=True)
class TracedOperation:
    """What a member, or the host, does: from memory ``source`` to ``target`` (0: the host, 1 + m: member m).

    ``waits``: the numbers of operations before it.  ``cause``: what a copy is for.
    """

    what: str
    source: int
    target: int
    nbytes: int
    groups: int
    waits: tuple[int, ...]
    cause: str = ""


@dataclass(slots=True)
class TracedCommand:
    """What came of one command: the operations ``first`` to ``stop`` - 1.

    ``behind``: it waits for all operations before this number.  ``is_known``: the service did not plan it,
    else ``plan_ns`` is the processor time that this took.  ``assignments``, ``why_fewer``: of a launch, the
    second where it has fewer than there are members.
    """

    step: Enqueued
    first: int
    behind: int
    stop: int = 0
    is_known: bool = False
    plan_ns: float = 0.0
    assignments: int = 0
    local_items: int = 0
    why_fewer: str = ""


@dataclass(slots=True)
class MemberTrace:
    """All of a program on so many members.  ``nodes``: of each."""

    nodes: tuple[int, ...]
    operations: list[TracedOperation] = field(default_factory=list)
    commands: list[TracedCommand] = field(default_factory=list)


class _NumberedTicket(Ticket):
    """The ticket of operation ``number``."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class _Tracer:
    """Writes down operations; their tickets stay pending until ``complete``.

    Implements ``OperationRecorder``.
    """

    def __init__(self, trace: MemberTrace) -> None:
        self.trace: Final = trace
        self.memories: Final[dict[str, int]] = {}
        self.pending: list[_NumberedTicket] = []
        self.behind = 0
        self.is_dynamic = False
        self._since_ns = 0

    def memory_of(self, device: Device | None) -> int:
        """The number of a member's memory; without one it is the host's."""
        return HOST if device is None else self.memories[device.capabilities.name]

    def begin(self) -> None:
        """A command is issued from now on."""
        self.is_dynamic = False
        self._since_ns = time.thread_time_ns()

    def took_ns(self) -> int:
        """Processor time since then, but for what it took to write it down."""
        return time.thread_time_ns() - self._since_ns

    def add(
        self, what: str, source: int, target: int, nbytes: int, groups: int, waits: Sequence[Ticket]
    ) -> Ticket:
        """Write down an operation."""
        begun_ns = time.thread_time_ns()
        operations = self.trace.operations
        numbers = tuple(
            {each.number for each in waits if not each.done and isinstance(each, _NumberedTicket)}
        )
        ticket = _NumberedTicket(len(operations))
        operations.append(TracedOperation(what, source, target, nbytes, groups, numbers))
        self.pending.append(ticket)
        self._since_ns += time.thread_time_ns() - begun_ns
        return ticket

    def complete(self) -> bool:
        """All that is pending is done; whether anything was.  What comes later waits for all of it."""
        pending, self.pending = self.pending, []
        self.behind = len(self.trace.operations)
        for ticket in pending:
            ticket.complete()
        return bool(pending)

    def copied(
        self, command: int, source: int, target: int, nbytes: int, cause: str, is_staged: bool, ticket: Ticket
    ) -> None:
        if isinstance(ticket, _NumberedTicket):
            self.trace.operations[ticket.number].cause = cause

    def worked(self, command: int, what: str, member: int, nbytes: int, cause: str, ticket: Ticket) -> None:
        self.is_dynamic |= what in ("twin", "diff", "merge", "task")
        if isinstance(ticket, _NumberedTicket):
            operation = self.trace.operations[ticket.number]
            operation.cause = cause
            if what in ("twin", "diff", "merge"):
                operation.nbytes = nbytes if operation.what == TASK else operation.nbytes
                operation.what = MERGE

    def resident(self, member: int, nbytes: int) -> None:
        """Nobody asks."""


class PredictedMember(NullDevice):
    """A member that writes down what it is asked for."""

    def __init__(
        self,
        tracer: _Tracer,
        number: int,
        node: int,
        kind: MemberKind,
        known: Member,
    ) -> None:
        """``known``: the member of the profile that it is like."""
        info = {int(param): b64decode(value) for param, value in known.info.items()}
        super().__init__(number, kind, known.memory_nbytes, info)
        is_shared = kind.is_host_processor
        unit = f"machine {node}" if is_shared else self.capabilities.unit
        self.capabilities = replace(
            self.capabilities,
            node=node,
            is_near=node == 0,
            unit=unit,
            compares=not is_shared,
            is_host_memory=is_shared,
            maps_host=is_shared,  # as PoCL; of other drivers of CPUs nobody asks
            formats={(order, data_type): uses for order, data_type, uses in known.formats},
        )
        self._memory: Final = number + 1
        tracer.memories[self.capabilities.name] = self._memory
        self._tracer: Final = tracer

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        here, there = (self._tracer.memory_of(each.device) for each in (source, target))
        what = COPY if here != there else WORK
        waits = [*source_waits, *target_waits]
        ticket = self._tracer.add(what, here, there, region.total_nbytes, 0, waits)
        return ticket, ticket

    def merge(
        self,
        step: MergeStep,
        comparison: Comparison,
        changes: DeviceBuffer,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._tracer.add(MERGE, self._memory, self._memory, comparison.nbytes, 0, wait)

    def fill(
        self,
        buffer: DeviceBuffer,
        offset: int,
        nbytes: int,
        pattern: bytes,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return self._tracer.add(WORK, self._memory, self._memory, nbytes, 0, wait)

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        total = groups[0] * groups[1] * groups[2]
        return self._tracer.add(KERNEL, self._memory, self._memory, 0, total, wait)


class _NoHost(HostWorker):
    """Does nothing of what the host is asked for."""

    def __init__(self, tracer: _Tracer) -> None:
        super().__init__(1)
        self._tracer = tracer

    def submit(self, task: Callable[[], object], wait: Sequence[Ticket]) -> Ticket:
        return self._tracer.add(TASK, HOST, HOST, 0, 0, wait)

    def at_once(self, task: Callable[[], object], nbytes: int, wait: Sequence[Ticket]) -> Ticket:
        return self._tracer.add(TASK, HOST, HOST, 0, 0, wait)

    def submit_all(self, tasks: Sequence[Callable[[], object]], wait: Sequence[Ticket]) -> Ticket:
        return self._tracer.add(TASK, HOST, HOST, 0, 0, wait)

    def copy(
        self, source: memoryview, from_: Region, target: memoryview, to: Region, wait: Sequence[Ticket]
    ) -> Ticket:
        return self._tracer.add(TASK, HOST, HOST, to.total_nbytes, 0, wait)


class _KnownPage(Page):
    """Launches of a kernel begin with the times that the profile has."""

    def __init__(self, pages: _KnownPages, kernel: str, times: GroupTimes, members: int) -> None:
        super().__init__(pages, kernel)
        self._name, self._times, self._members = kernel, times, members

    def begin(self, size: SizeKey, new: LaunchHistory) -> None:
        for assignments in range(1, self._members + 1):
            ns = self._times(self._name, size, assignments)
            if ns is not None:
                new.rates.guessed[assignments] = ns
                new.rates.times[assignments] = _SURE


class _KnownPages(Pages):
    """Of all programs; nothing is kept."""

    def __init__(self, learning: Learning, times: GroupTimes, members: int) -> None:
        super().__init__("", learning, ())
        self._times, self._count = times, members

    def page(self, kernel: str) -> Page:
        return _KnownPage(self, kernel, self._times, self._count)

    def attempts(self, kernel: str) -> Attempts:
        return Attempts()


class _Watched(VirtualDevice):
    """Says whether the last command was issued as it was known."""

    was_known = False

    def repeat(self, launch: Launch, issue: Issue) -> list[Ticket] | None:
        found = super().repeat(launch, issue)
        self.was_known = found is not None
        return found


class _TracedSession:
    """The runtime of a session over members that write down.  Implements ``EventSink``."""

    def __init__(
        self, tracer: _Tracer, devices: Sequence[Device], links: Links, room_nbytes: int, pages: _KnownPages
    ) -> None:
        self._tracer = tracer
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._arena = Arena(room_nbytes, 1 << 20)
        self._host = _NoHost(tracer)
        self._devices = devices
        post = self._calls.put
        in_arena = computes_in_arena(devices, may_split=False)
        self.memory = VirtualMemory(self._arena, devices, self._host, post, links=links, in_arena=in_arena)
        self.memory.accounting.recorder = tracer
        counters = Counters(len(devices), self.memory.accounting, links, "auto", 0.0)
        self.launcher = Launcher(self.memory, "auto", counters)
        self.core = SchedulerCore()
        self.device = _Watched(self.memory, self.launcher)
        self.engine = Engine(self.core, self.device, self, post)
        self._target = Target(devices)
        self._pages = pages
        self._queues: set[int] = set()
        self._transfers: list[int] = []
        self._issued = self._failed = self._done = 0
        self.plan_ns = 0.0

    def submitted(self, node: CommandNode) -> None: ...

    def start_transfer(self, node: CommandNode) -> None:
        self._transfers.append(node.id)

    def finished(self, node: CommandNode) -> None:
        self._done += 1
        self._failed += node.status < 0

    def build(self, step: Built) -> None:
        """Raises NotPredictable."""
        try:
            made = rebuild(step.packed, self._target)
        except (BuildError, ClError) as error:
            raise NotPredictable(f"program {step.id} of the profile can't be built again: {error}") from error
        self.launcher.add(step.id, made)
        made.begin_with(self._pages)

    def forget(self, number: int) -> None:
        """A buffer or a program has gone."""
        if self.launcher.build(number) is not None:
            self.launcher.remove(number)
        else:
            self.settle()
            self.memory.release(number)

    def enqueue(self, queue_id: int, command: Command) -> None:
        """Issue a command; what only the end of others tells is told at once."""
        if queue_id not in self._queues:
            self._queues.add(queue_id)
            self.core.create_queue(queue_id, True)
        self._issued += 1
        self.device.was_known = False
        self._tracer.begin()
        self.engine.enqueue(queue_id, (1 << 40) + self._issued, 0, command, ())
        self.plan_ns = float(self._tracer.took_ns())
        self._turn()
        if not isinstance(command, Launch) or self._tracer.is_dynamic or self._transfers:
            self.settle()
        if self._failed:
            raise NotPredictable(f"the runtime refused command {self._issued} of the profile")

    def settle(self) -> None:
        """All commands are complete."""
        for _ in range(_ROUNDS_MAX):
            if self._done == self._issued and not self._tracer.pending:
                return
            transfers, self._transfers = self._transfers, []
            for number in transfers:
                self.engine.transfer_done(number, 0)
            self._tracer.complete()
            self._turn()
        raise NotPredictable(
            f"command {self._issued} of the profile waits for something that is not recorded"
        )

    def _turn(self) -> None:
        while not self._calls.empty():
            self._calls.get_nowait()()

    def close(self) -> None:
        self._host.close()
        for device in self._devices:
            device.close()
        self._arena.close()


def trace(program: RecordedProgram, members: int, costs: MachineCosts, times: GroupTimes) -> MemberTrace:
    """What sdi has so many members do for a program.  Raises NotPredictable."""
    known = program.session.members[0]
    kind = costs.kind(known.kind)
    is_shared = kind_named(known.kind).is_host_processor
    each = max(len(program.session.members), costs.members_per_node) if is_shared else costs.members_per_node
    nodes = tuple([number // each for number in range(members)])
    found = MemberTrace(nodes)
    tracer = _Tracer(found)
    devices = [PredictedMember(tracer, number, node, kind, known) for number, node in enumerate(nodes)]
    clock = itertools.count(_APART_NS, _APART_NS)
    near, network = [node == 0 for node in nodes], 1 / costs.network_gb_per_s
    links = Links([kind] * members, lambda: next(clock), nodes, near, network=network)
    pages = _KnownPages(Learning(()), times, members)
    room = sum(step.nbytes + (1 << 16) for step in program.steps if isinstance(step, Created))
    session = _TracedSession(tracer, devices, links, (64 << 20) + 2 * room, pages)
    try:
        for step in program.steps:
            _act(session, tracer, found, step)
        session.settle()
    finally:
        session.close()
    return found


def _act(
    session: _TracedSession, tracer: _Tracer, found: MemberTrace, step: Built | Created | Gone | Enqueued
) -> None:
    match step:
        case Built():
            session.build(step)
        case Created():
            session.memory.create(step.id, step.nbytes, step.is_defined)
        case Gone():
            session.forget(step.id)
        case Enqueued():
            made = TracedCommand(step, len(found.operations), tracer.behind)
            session.enqueue(step.queue, step.command)
            made.plan_ns, made.is_known = session.plan_ns, session.device.was_known
            made.stop = len(found.operations)
            if isinstance(step.command, Launch):
                _describe(made, session.launcher, step.command, found.nodes)
            found.commands.append(made)


def _describe(made: TracedCommand, launcher: Launcher, launch: Launch, nodes: Sequence[int]) -> None:
    binding = launcher.known.values.get(launch.record)
    if binding is not None:
        plan = binding.launch_plan
        made.assignments = len(plan.plan.boxes)
        made.why_fewer = plan.why_whole or plan.history.why_fewer
        is_played = plan.plan.is_trial and len(plan.chunks) == 1 and not any(nodes)
        made.is_known |= is_played and plan.launches > _PLANNED
        x, y, z = plan.ndrange.local_size
        made.local_items = x * y * z
