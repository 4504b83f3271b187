"""What sdi plans for a program on many members: its operations, who waits for whom, and what planning took.

The program's commands go through the runtime of a session (engine, launcher, directory, planner) whose
members write down what they are asked for.  Nothing is computed, no byte is copied.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bench.simulation.programs import Program
from sdi.cluster.gathered import GATHERED_NBYTES_MAX, PART_NBYTES_MAX
from sdi.commands import Command, Launch
from sdi.devices.base import Device, Place
from sdi.devices.capabilities import MemberKind
from sdi.devices.handles import BoundKernel
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.testing.null import NullDevice
from sdi.devices.ticket import Ticket
from sdi.launch.counters import Counters
from sdi.launch.kernel import Binding
from sdi.launch.launcher import Launcher
from sdi.launch.programs.builds import Target, build
from sdi.launch.recording import Recording
from sdi.launch.replayers import IssueParts, IssueTimed
from sdi.ndrange import Int3
from sdi.region import Region
from sdi.runtime.command_graph import CommandNode, SchedulerCore
from sdi.runtime.engine import Engine
from sdi.runtime.virtual_device import VirtualDevice
from sdi.vmem.arena import Arena
from sdi.vmem.directory import HOST
from sdi.vmem.host import HostWorker
from sdi.vmem.links import Links
from sdi.vmem.memory import VirtualMemory

_APART_NS = 10**12
"""Commands are planned as if what was copied for those before had long arrived."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A copy of ``nbytes`` from memory ``source`` to ``target`` (0: rank 0's host, 1 + m: member m's), or,
    where that is 0, a launch of ``groups`` on the member of both.

    ``leave``, ``arrive``: the numbers of operations that its ends wait for; a launch has the second only.
    ``issue_ns``: what rank 0 took for it since the one before, or since its command began.
    ``base``: where in the buffer a copy begins.
    """

    source: int
    target: int
    nbytes: int
    groups: int
    leave: tuple[int, ...]
    arrive: tuple[int, ...]
    issue_ns: int = 0
    base: int = 0


@dataclass(slots=True)
class Traced:
    """What came of one command: the operations ``first`` to ``stop`` - 1.

    ``kernel``: of a launch, else -1.  ``is_replayed``: nodes keep it, and rank 0 only says so; ``keeps``:
    that it told them what to keep; ``is_gathered``: it is a read, whose bytes come with nodes' answers;
    ``is_known``: an equal command was issued before.  ``planned_ns``: what rank 0 took before it asked if
    nodes keep it; ``rest_ns``: behind the last operation.  ``blocks``, ``host_ns``: see ``Step``.
    """

    kernel: int
    blocks: bool
    host_ns: float
    first: int
    stop: int = 0
    is_replayed: bool = False
    keeps: bool = False
    is_known: bool = False
    is_gathered: bool = False
    planned_ns: int = 0
    rest_ns: int = 0


@dataclass(slots=True)
class Trace:
    """``nodes``: of each member.  ``group_ns``: see ``Program``."""

    nodes: tuple[int, ...]
    group_ns: tuple[float, ...]
    operations: list[Operation] = field(default_factory=list)
    commands: list[Traced] = field(default_factory=list)

    def nbytes_by_pair(self) -> dict[tuple[int, int], int]:
        """Bytes that are copied, by source and target memory."""
        found: dict[tuple[int, int], int] = {}
        for each in self.operations:
            if each.nbytes:
                ends = each.source, each.target
                found[ends] = found.get(ends, 0) + each.nbytes
        return found

    def nbytes_by_nodes(self) -> dict[tuple[int, int], int]:
        """Bytes that go from node to node."""
        nodes = (0, *self.nodes)
        found: dict[tuple[int, int], int] = {}
        for (source, target), nbytes in self.nbytes_by_pair().items():
            ends = nodes[source], nodes[target]
            if ends[0] != ends[1]:
                found[ends] = found.get(ends, 0) + nbytes
        return found


class NumberedTicket(Ticket):
    """The ticket of operation ``number``."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class _Tracer:
    """Writes down operations.  Their tickets stay pending until the application waits."""

    def __init__(self, trace: Trace) -> None:
        self.trace: Final = trace
        self._pending: list[NumberedTicket] = []
        self._before_ns = 0

    def begin(self) -> None:
        """A command is issued from now on."""
        self._before_ns = time.thread_time_ns()

    def since(self) -> int:
        """Processor time since the last operation."""
        now_ns = time.thread_time_ns()
        took, self._before_ns = now_ns - self._before_ns, now_ns
        return took

    def add(
        self,
        source: int,
        target: int,
        nbytes: int,
        groups: int,
        leave: Sequence[Ticket],
        arrive: Sequence[Ticket],
        base: int = 0,
    ) -> Ticket:
        operations = self.trace.operations
        ticket = NumberedTicket(len(operations))
        ends = _numbers(leave), _numbers(arrive)
        operations.append(Operation(source, target, nbytes, groups, *ends, self.since(), base))
        self._pending.append(ticket)
        self._before_ns = time.thread_time_ns()  # writing it down takes time too
        return ticket

    def settle(self) -> None:
        """The application waits: all is done."""
        pending, self._pending = self._pending, []
        for ticket in pending:
            ticket.complete()


def _numbers(tickets: Sequence[Ticket]) -> tuple[int, ...]:
    found = []
    for ticket in tickets:
        if not ticket.done:
            assert isinstance(ticket, NumberedTicket), "only members have work to do"
            found.append(ticket.number)
    return tuple(found)


class TracedMember(NullDevice):
    """A member that writes down what it is asked for."""

    def __init__(self, tracer: _Tracer, number: int, kind: MemberKind, node: int) -> None:
        super().__init__(number, kind, 1 << 40)
        self.capabilities = replace(self.capabilities, node=node, is_near=node == 0)
        self._memory = number + 1
        self._tracer = tracer

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        ends = [HOST if each.device is None else _memory_of(each.device) for each in (source, target)]
        nbytes = region.total_nbytes
        ticket = self._tracer.add(ends[0], ends[1], nbytes, 0, source_waits, target_waits, region.base)
        return ticket, ticket

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
        return self._tracer.add(self._memory, self._memory, 0, total, (), wait)

    def _issue(self, wait: Sequence[Ticket], more: Sequence[Ticket] = ()) -> Ticket:
        raise NotImplementedError("the simulation knows copies and launches only")


def _memory_of(device: Device) -> int:
    assert isinstance(device, TracedMember)
    return device._memory


class _Parts:
    """Says what nodes would replay.  Implements ``PartsReplayer``."""

    def __init__(self, tracer: _Tracer) -> None:
        self.is_replayed = self.keeps = self.is_gathered = False
        self.planned_ns = 0
        self._tracer = tracer
        self._known: set[int] = set()
        self._kept: list[Recording] = []  # so that their ids stay theirs

    def find(self, binding: Binding | None, recording: Recording) -> IssueParts | None:
        self.planned_ns = self._tracer.since()
        nbytes = [each.nbytes for each in recording.transfers]
        is_short = max(nbytes, default=0) <= PART_NBYTES_MAX and sum(nbytes) <= GATHERED_NBYTES_MAX
        self.is_gathered = (
            binding is None and is_short and not any(t.region.levels for t in recording.transfers)
        )
        to_members = all(each.copy.target != HOST for each in recording.transfers)
        self.is_replayed = self.is_gathered or to_members
        self.keeps = self.is_replayed and id(recording) not in self._known
        if self.keeps:
            self._known.add(id(recording))
            self._kept.append(recording)
        return None

    def find_timed(self, binding: Binding, recording: Recording) -> IssueTimed | None:
        """Nodes replay a launch that is measured as they do any other."""
        self.find(binding, recording)
        return None


class Runtime:
    """A session's, over members that somebody else made, with buffers that the application has filled."""

    def __init__(self, devices: Sequence[Device], links: Links | None, program: Program) -> None:
        self.calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.arena = Arena(1 << 36, 1 << 20)
        self.host = HostWorker(1)
        self.memory = VirtualMemory(self.arena, devices, self.host, self.calls.put, links=links)
        counters = Counters(len(devices), self.memory.accounting, self.memory.transfers.links, "always", 1e4)
        self.launcher = Launcher(self.memory, "always", counters)
        core = SchedulerCore()
        core.create_queue(1, in_order=True)
        self.engine = Engine(core, VirtualDevice(self.memory, self.launcher), self, self.calls.put)
        self.launcher.add(1, build(program.source, "", "", Target(devices)))
        self.issued = self.failed = self.done = 0
        for number, nbytes in enumerate(program.nbytes, 1):
            self.memory.create(number, nbytes, True)

    def submitted(self, node: CommandNode) -> None: ...

    def start_transfer(self, node: CommandNode) -> None: ...

    def finished(self, node: CommandNode) -> None:
        self.done += 1
        self.failed += node.status < 0

    def enqueue(self, command: Command) -> None:
        """The next command of an ordered queue."""
        self.issued += 1
        self.engine.enqueue(1, 100 + self.issued, 0, command, ())

    def settle(self, waits: bool) -> None:
        """Do what members' threads posted; ``waits``: until all commands are complete."""
        while True:
            try:
                self.calls.get(waits and self.done < self.issued)()
            except queue.Empty:
                return

    def close(self) -> None:
        assert self.done == self.issued and not self.failed, "the runtime refused a command"
        self.host.close()
        self.arena.close()


def trace(program: Program, nodes: Sequence[int], kind: MemberKind) -> Trace:
    """What sdi has members of the kind do for a program, each on the node that ``nodes`` has for it."""
    found = Trace(tuple(nodes), program.group_ns)
    tracer = _Tracer(found)
    parts = _Parts(tracer)
    members = [TracedMember(tracer, number, kind, node) for number, node in enumerate(nodes)]
    clock = itertools.count(_APART_NS, _APART_NS)
    links = Links([kind] * len(members), lambda: next(clock), nodes, [node == 0 for node in nodes])
    runtime = Runtime(members, links, program)
    if any(nodes):
        runtime.launcher.keep_parts(lambda memory, issuer: parts)
    seen: set[bytes] = set()
    for step in program.steps:
        command = step.command
        kernel = command.kernel_index if isinstance(command, Launch) else -1
        traced = Traced(kernel, step.blocks, step.host_ns, len(found.operations))
        if isinstance(command, Launch):
            traced.is_known = command.record in seen
            seen.add(command.record)
        parts.is_replayed = parts.keeps = parts.is_gathered = False
        parts.planned_ns = 0
        tracer.begin()
        runtime.enqueue(command)
        traced.rest_ns = tracer.since()
        traced.stop = len(found.operations)
        traced.is_replayed, traced.keeps = parts.is_replayed, parts.keeps
        traced.is_gathered, traced.planned_ns = parts.is_gathered, parts.planned_ns
        found.commands.append(traced)
        if step.blocks:
            tracer.settle()
            runtime.settle(True)
    tracer.settle()
    runtime.settle(True)
    runtime.close()
    return found


def timed_as(shorter: Trace, longer: Trace) -> Trace:
    """``shorter`` with what rank 0 took in ``longer``, of a program that does the same more often before its
    last command: so that they differ by what is done more often alone.
    """
    last = len(shorter.commands) - 1
    operations, commands = list[Operation](), list[Traced]()
    for number, mine in enumerate(shorter.commands):
        known = longer.commands[number if number < last else -1]
        took = longer.operations[known.first : known.stop]
        planned = shorter.operations[mine.first : mine.stop]
        assert len(took) == len(planned), "the same program, more often"
        operations += [replace(op, issue_ns=of.issue_ns) for op, of in zip(planned, took, strict=True)]
        commands.append(replace(mine, planned_ns=known.planned_ns, rest_ns=known.rest_ns))
    return Trace(shorter.nodes, shorter.group_ns, operations, commands)
