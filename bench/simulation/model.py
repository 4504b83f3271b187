"""What a trace takes: rank 0 issues, messages go down a tree, bytes along links, and members work.

Each node has a thread that hears and sends, an end of a link in each direction, and members, each of which
runs one launch at a time and copies beside that.  Rank 0's session issues on a thread of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bench.simulation.trace import Operation, Trace, Traced
from sdi.cluster.tree import FIRST, ROOT, children, parent
from sdi.predict.schedule import Schedule
from sdi.vmem.directory import HOST
from sdi.vmem.links import CHUNK_NBYTES


@dataclass(frozen=True, slots=True)
class Link:
    """What connects nodes: each sends and receives at ``bytes_per_s`` at the same time.

    ``limits_arrival``: whether many can't send to one at more than that together.
    """

    bytes_per_s: float
    latency_ns: float
    limits_arrival: bool = True


@dataclass(frozen=True, slots=True)
class Costs:
    """Processor time of sdi, ns, on one machine of two cores, Python 3.11.  [M] ``operation``, ``replay`` and
    ``replay_anew``, by ``bench/cluster_root.py``; the others are estimates.

    ``plan``: what tracing took counts so many times.  ``operation``: of one that rank 0 issues to another
    node, beside planning it: it is packed, and its end is heard.  ``replay``, ``replay_anew``: of a launch
    that nodes replay, with a record that is known and one that is not, messages included.  ``keep``: of an
    operation that a node is told to keep.  ``send``, ``hear``: of a message.  ``act``: of an operation that a
    node is told of.  ``part``: of an operation of a part that it keeps.  ``launch``: from a member's call to
    the kernel's begin and from its end to the ticket's.  ``wake``: of an application that waits.
    ``copy_bytes_per_s``: between a member's memory and its node's.  ``touch_ns_per_byte``: of bytes that
    a node's thread sends or hears itself, as through sockets; 0 where the network reads memory.
    ``timer``: what timers are late that kernels, copies and links are made of, 0 of real ones.
    """

    plan: float = 1.0
    operation: float = 20e3
    replay: float = 45e3
    replay_anew: float = 95e3
    read: float = 150e3
    keep: float = 30e3
    send: float = 15e3
    hear: float = 30e3
    act: float = 30e3
    part: float = 40e3
    launch: float = 60e3
    wake: float = 60e3
    copy_bytes_per_s: float = 5e9
    touch_ns_per_byte: float = 0.0
    timer: float = 0.0


@dataclass(slots=True)
class Prediction:
    """``end_ns``: from the first command to the last one's end.  ``path``: what that went to, by label.

    ``root_ns``: how long rank 0 issues.  ``root_link_ns``: how long its link is taken, the longer way.
    ``kernels_ns``: how long each member runs kernels.
    """

    end_ns: float
    path: dict[str, float]
    root_ns: float
    root_link_ns: float
    kernels_ns: dict[int, float] = field(default_factory=dict)


@dataclass(slots=True)
class _Ends:
    """The last tasks of an operation's two ends, and the nodes whose tickets these are.

    ``chunks``: of a copy in several, the task behind which each is there.
    """

    left: int
    left_at: int
    arrived: int
    arrived_at: int
    chunks: Sequence[int] = ()


class Simulation:
    """Tasks of one trace."""

    def __init__(self, trace: Trace, costs: Costs, link: Link) -> None:
        self._trace = trace
        self._costs = costs
        self._link = link
        self._size = max(trace.nodes, default=0) + 1
        self._schedule = Schedule()
        self._ends: list[_Ends] = []
        self._seen: dict[tuple[int, int], int] = {}  # a task of one node, as another one sees it
        self._last = -1  # of the thread that issues

    # -- resources ------------------------------------------------------------------------------------------

    _ISSUING, _PER_NODE, _PER_MEMBER = 0, 3, 2

    def _net(self, node: int) -> int:
        return 1 + self._PER_NODE * node

    def _out(self, node: int) -> int:
        return self._net(node) + 1

    def _into(self, node: int) -> int:
        return self._net(node) + 2

    def _lane(self, member: int, is_copy: bool) -> int:
        return 1 + self._PER_NODE * self._size + self._PER_MEMBER * member + is_copy

    def _node(self, memory: int) -> int:
        return 0 if memory == HOST else self._trace.nodes[memory - 1]

    # -- tasks ----------------------------------------------------------------------------------------------

    def _issue(self, label: str, duration_ns: float, after: Iterable[int] = ()) -> int:
        before = [self._last] if self._last >= 0 else []
        self._last = self._schedule.add(label, duration_ns, (self._ISSUING,), [*before, *after])
        return self._last

    def _latency(self, after: Iterable[int]) -> int:
        return self._schedule.add("latency", self._link.latency_ns + self._costs.timer, (), after)

    def _message(self, source: int, target: int, after: Iterable[int]) -> int:
        """A small one, heard."""
        add, costs = self._schedule.add, self._costs
        sent = add("messages", costs.send, (self._net(source),), after)
        return add("messages", costs.hear, (self._net(target),), (self._latency((sent,)),))

    def _as_seen(self, task: int, at: int, node: int) -> int:
        """A task's end as another node knows it: through rank 0."""
        if at == node:
            return task
        found = self._seen.get((task, node))
        if found is None:
            found = task
            if at != ROOT:
                found = self._message(at, ROOT, (found,))
            if node != ROOT:
                found = self._message(ROOT, node, (found,))
            self._seen[task, node] = found
        return found

    def _waits(self, numbers: Sequence[int], source: int, node: int) -> list[int]:
        """Of an end on ``node`` that waits for operations because of what these do in memory ``source``."""
        found = []
        for number in numbers:
            ends, operation = self._ends[number], self._trace.operations[number]
            is_left = operation.source == source and operation.target != source
            task, at = (ends.left, ends.left_at) if is_left else (ends.arrived, ends.arrived_at)
            found.append(self._as_seen(task, at, node))
        return found

    def _ready(self, operation: Operation, at: int, node: int) -> list[int]:
        """What the chunk ``at`` of a copy that leaves ``node`` waits for: of copies that came there, only for
        chunks that have some of it.
        """
        found, start = list[int](), operation.base + at
        for number in operation.leave:
            ends, before = self._ends[number], self._trace.operations[number]
            first = (start - before.base) // CHUNK_NBYTES
            last = (start - before.base + min(CHUNK_NBYTES, operation.nbytes - at) - 1) // CHUNK_NBYTES
            is_of_it = before.target == operation.source and ends.arrived_at == node
            if is_of_it and ends.chunks and first >= 0 and last < len(ends.chunks):
                found += ends.chunks[first : last + 1]
            else:
                found += self._waits([number], operation.source, node)
        return found

    def _send(self, source: int, target: int, nbytes: int, after: Iterable[int]) -> int:
        """Bytes from node to node; heard."""
        add, costs, link = self._schedule.add, self._costs, self._link
        touched = costs.touch_ns_per_byte * nbytes
        given = add("messages", costs.send + touched, (self._net(source),), after)
        wire_ns = 1e9 * nbytes / link.bytes_per_s
        gone = add("link", wire_ns, (self._out(source),), (given,))
        if link.limits_arrival:  # bytes go in while they come out, unless others' do
            gone = add("arriving", wire_ns, (self._into(target),), (gone,), wire_ns)
        there = self._latency((gone,))
        return add("messages", costs.hear + touched, (self._net(target),), (there,))

    def _copy_lane(self, memory: int, nbytes: int, after: Iterable[int]) -> int:
        duration_ns = 1e9 * nbytes / self._costs.copy_bytes_per_s
        task = self._schedule.add("copies", duration_ns, (self._lane(memory - 1, True),), after)
        return self._late(task)

    def _late(self, task: int) -> int:
        return self._schedule.add("timers", self._costs.timer, (), (task,)) if self._costs.timer else task

    def _operation(self, operation: Operation, kernel: int, told: dict[int, int], own: int) -> _Ends:
        """``told``: by node the task behind which it knows of the operation; ``own``: that of rank 0."""
        source, target = operation.source, operation.target
        from_, to = self._node(source), self._node(target)
        if source == target and not operation.nbytes:
            waits = [told.get(to, own), *self._waits(operation.arrive, target, to)]
            duration_ns = self._trace.group_ns[kernel] * operation.groups
            called = self._schedule.add("launches", self._costs.launch, (), waits)
            task = self._schedule.add("kernels", duration_ns, (self._lane(target - 1, False),), (called,))
            task = self._late(task)
            return _Ends(task, to, task, to)
        leave, arrive = operation.leave, operation.arrive
        if HOST in (source, target):  # one operation, whose waits are of both ends
            leave = arrive = tuple(sorted({*leave, *arrive}))
            leave = tuple(each for each in leave if from_ == to or self._is_of(each, source, from_))
            arrive = tuple(each for each in arrive if each not in leave)
        before = [told.get(from_, own), *self._waits(leave, source, from_)]
        behind = [told.get(to, own), *self._waits(arrive, target, to)]
        if from_ == to:
            member = target if target != HOST else source
            task = self._copy_lane(member, operation.nbytes, {*before, *behind})
            return _Ends(task, to, task, to)
        reads, writes = [], []
        for at in range(0, operation.nbytes, CHUNK_NBYTES):
            nbytes = min(CHUNK_NBYTES, operation.nbytes - at)
            if source == HOST:
                read = before
            else:
                ready = {told.get(from_, own), *self._ready(operation, at, from_)}
                read = [self._copy_lane(source, nbytes, ready)]
            arrived = self._send(from_, to, nbytes, read)
            reads.append(arrived if source == HOST else read[0])
            writes.append(arrived if target == HOST else self._copy_lane(target, nbytes, {arrived, *behind}))
        left, done = (each[0] if len(each) == 1 else self._all(each) for each in (reads, writes))
        if HOST in (source, target):  # and one ticket
            left = done
        chunks = writes if len(writes) > 1 and target != HOST else ()
        return _Ends(left, to if HOST in (source, target) else from_, done, to, chunks)

    def _all(self, tasks: Sequence[int]) -> int:
        return self._schedule.add("latency", 0.0, (), tasks)

    def _is_of(self, number: int, memory: int, node: int) -> bool:
        """Whether an operation's ticket is one that ``node`` itself waits for where it reads ``memory``."""
        ends = self._ends[number]
        operation = self._trace.operations[number]
        at = ends.left_at if operation.source == memory else ends.arrived_at
        return at == node

    # -- commands -------------------------------------------------------------------------------------------

    def _nodes_of(self, operation: Operation) -> set[int]:
        return {self._node(operation.source), self._node(operation.target)}

    def _tell(self, operations: Sequence[Operation], rest_ns: float) -> tuple[dict[int, int], list[int]]:
        """Rank 0 issues each operation; nodes hear of theirs together.  The task of each other node behind
        that, and of each operation rank 0's.
        """
        costs, counts, issued = self._costs, dict[int, int](), list[int]()
        for each in operations:
            nodes = self._nodes_of(each)
            elsewhere = len(nodes - {ROOT})
            issued.append(self._issue("rank 0", costs.plan * each.issue_ns + elsewhere * costs.operation))
            for node in nodes:
                counts[node] = counts.get(node, 0) + 1
        self._issue("rank 0", costs.plan * rest_ns)
        found: dict[int, int] = {}
        for node, count in counts.items():
            if node != ROOT:
                sent = self._issue("rank 0", costs.send)
                heard = self._latency((sent,))
                duration_ns = costs.hear + count * costs.act
                found[node] = self._schedule.add("messages", duration_ns, (self._net(node),), (heard,))
        return found, issued

    def _replay(self, command: Traced, operations: Sequence[Operation]) -> tuple[dict[int, int], list[int]]:
        """Rank 0 tells a few, who tell others.  The task of each other node behind which its part is issued,
        and of each operation rank 0's.
        """
        costs, add = self._costs, self._schedule.add
        counts: dict[int, int] = {}
        for each in operations:
            for node in self._nodes_of(each):
                counts[node] = counts.get(node, 0) + 1
        keep_ns = costs.keep * len(operations) + costs.plan * command.planned_ns if command.keeps else 0.0
        if command.is_gathered:
            said_ns = costs.read
        else:
            said_ns = costs.replay if command.is_known else costs.replay_anew
        self._issue("rank 0", keep_ns + said_ns)
        found: dict[int, int] = {}
        others = [node for node in counts if node != ROOT]
        if self._size - 1 <= FIRST or len(others) <= FIRST:
            told = {node: self._latency((self._last,)) for node in others}
        else:
            told = {node: self._latency((self._last,)) for node in children(ROOT, self._size)}
            for node in range(1, self._size):
                heard = told[node] = add("messages", costs.hear, (self._net(node),), (told[node],))
                for child in children(node, self._size):
                    heard = add("messages", costs.send, (self._net(node),), (heard,))
                    told[child] = self._latency((heard,))
                told[node] = heard
        for node in others:
            duration_ns = costs.hear + costs.part * counts[node]
            found[node] = add("messages", duration_ns, (self._net(node),), (told[node],))
        return found, [self._last] * len(operations)

    def _gathered(self, operations: Sequence[Operation], told: dict[int, int], own: int) -> list[_Ends]:
        """A read that nodes replay: what each has goes up the tree when all behind it have answered."""
        read: dict[int, list[int]] = {}
        nbytes: dict[int, int] = {}
        for each in operations:
            node = self._node(each.source)
            waits = {told.get(node, own), *self._waits(each.leave, each.source, node)}
            read.setdefault(node, []).append(self._copy_lane(each.source, each.nbytes, waits))
            nbytes[node] = nbytes.get(node, 0) + each.nbytes
        is_flat = len(read.keys() - {ROOT}) <= FIRST
        for node in range(self._size - 1, ROOT, -1):
            if node in read:
                to = ROOT if is_flat else parent(node)
                there = self._send(node, to, nbytes[node], read[node])
                read.setdefault(to, []).append(there)
                nbytes[to] = nbytes.get(to, 0) + nbytes[node]
        done = self._all(read[ROOT])
        return [_Ends(done, ROOT, done, ROOT)] * len(operations)

    def run(self) -> Prediction:
        """How long all of it takes."""
        trace, kernels_ns = self._trace, dict[int, float]()
        for command in trace.commands:
            operations = trace.operations[command.first : command.stop]
            if command.is_replayed:
                told, own = self._replay(command, operations)
            else:
                told, own = self._tell(operations, command.rest_ns)
            if command.is_gathered:
                self._ends += self._gathered(operations, told, own[0])
                operations = []
            for each, issued in zip(operations, own, strict=False):
                self._ends.append(self._operation(each, command.kernel, told, issued))
                if each.source == each.target and not each.nbytes:
                    took = trace.group_ns[command.kernel] * each.groups
                    kernels_ns[each.target - 1] = kernels_ns.get(each.target - 1, 0.0) + took
            if command.blocks:
                landed = [self._ends[n].arrived for n in range(command.first, command.stop)]
                self._issue("application", self._costs.wake + command.host_ns, landed)
        end_ns = self._schedule.run()
        busy = self._schedule.busy
        link_ns = max(busy(self._out(ROOT)), busy(self._into(ROOT)))
        return Prediction(end_ns, self._schedule.path(), busy(self._ISSUING), link_ns, kernels_ns)


def predict(trace: Trace, costs: Costs, link: Link) -> Prediction:
    """What a trace takes."""
    return Simulation(trace, costs, link).run()
