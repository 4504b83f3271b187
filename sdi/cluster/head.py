"""Recordings of which nodes keep their parts: rank 0 says once what each node does, and then to do it again.

A launch that is repeated costs rank 0 one short message per node that has a part in it, not one for each
copy, kernel and byte range.  Rank 0 keeps the head: what has to hold, what changes, and its own part.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial

from sdi.cluster.arguments import bound
from sdi.cluster.firm import FirmCopies, FirmReplays
from sdi.cluster.gathered import GATHERED_NBYTES_MAX, PART_NBYTES_MAX, Gather
from sdi.cluster.job import Job
from sdi.cluster.part import OPERATIONS_MAX, KeptOperation, KeptPart, KeptRecord, KeptUse, replay_name
from sdi.cluster.records import RecordKind, packed
from sdi.cluster.remote_device import RemoteDevice, made_name, remote
from sdi.cluster.remote_node import RemoteNode, RemoteTicket
from sdi.cluster.tree import FIRST, ReplayTree
from sdi.cluster.writing import READING, WRITING, Half, Keys, NotKept, Writer, writer_of
from sdi.devices.base import BoundArgument, Place
from sdi.devices.image import Sampler
from sdi.devices.issue import MEASURED, Issue, Timing
from sdi.devices.ticket import Ticket
from sdi.launch.issue import Issuer
from sdi.launch.kernel import Binding
from sdi.launch.recording import Assignment, Recording
from sdi.launch.replayers import IssueParts, IssueTimed
from sdi.regions import as_few
from sdi.vmem.dependencies import Dependencies, Use
from sdi.vmem.directory import HOST
from sdi.vmem.memory import VirtualMemory
from sdi.vmem.recovery import forget_unheld
from sdi.vmem.replayed import Accesses, NodeAccess, Replayed
from sdi.vmem.transfers import Transfer

HEADS_MAX = 512
"""Recordings that nodes keep, the one that was replayed longest ago first out."""
TOUCHED = 64
"""So many uses of places may lie between two notes that a recording's are in use: there may be very many."""


class _Operation(RemoteTicket):
    """The ticket of an operation of a replay: the node knows it, and here it is done with all of its part."""

    __slots__ = ()


class _Replay:
    """One replay.  Implements ``replayed.Replay``."""

    __slots__ = ("_head", "_tickets", "accesses", "name", "parts")

    def __init__(self, head: Head, name: int) -> None:
        self._head = head
        self.accesses: Accesses = head.accesses
        self.name = name
        self.parts: list[Ticket] = []  # one for each node, or one for all
        self._tickets: dict[int, Ticket] = {}

    @property
    def is_over(self) -> bool:
        return all(part.done and part.error is None for part in self.parts)

    def ticket(self, operation: int) -> Ticket:
        at, number = self._head.operations[operation]
        part = self.parts[at] if len(self.parts) > 1 else self.parts[0]
        if part.done:
            return part
        found = self._tickets.get(operation)
        if found is None:
            found = self._tickets[operation] = _Operation(self._head.nodes[at], self.name + 1 + number)
            part.when_done(partial(_follow, found))
        return found


def _follow(ticket: Ticket, done: Ticket) -> None:
    ticket.complete(done.error, done.start_ns, done.end_ns)


class Head:
    """Rank 0's of one recording.  Owned by: sdi-scheduler.

    ``number``: what nodes call the recording.  ``nodes``: those that have a part.  ``operations``: of all
    parts, which node's, and their number there.  ``placed``, ``losses``: the recording's places, and how many
    nodes were lost, when it was made.  ``accesses``: see ``Replay``.  ``buffers``: those that
    nodes' members use.
    """

    def __init__(self, number: int, recording: Recording, losses: int) -> None:
        self.number = number
        self.recording = recording
        self.placed = recording.placed
        self.losses = losses
        self.nodes: list[RemoteNode] = []
        self.ranks: frozenset[int] = frozenset()
        self.operations: list[tuple[int, int]] = []
        self.accesses: dict[object, list[tuple[NodeAccess, int]]] = {}
        self.buffers: set[int] = set()
        self.own: list[tuple[Assignment, int, int]] = []
        self.replays = self.firm_replays = 0
        self._replayed: list[tuple[Replayed, dict[Dependencies, None]]] = []
        self._seen: list[int] = []  # of each of these, how often something else had used it
        self._copies: list[Half | Transfer] = []  # this process' own part
        self._num_first = 0  # so many of these bring bytes to the arena that nodes get from there
        self._counted: list[Transfer] = []
        self._host: list[tuple[Use, int]] = []  # of the host's bytes, which nodes find in the arena
        self._on_host: set[int] = set()
        self._shared: list[tuple[RemoteNode, int]] = []
        self._gathered: list[Transfer] = []
        self._gather_host: Gather | None = None
        self.firm: FirmCopies | None = None
        self._ran: list[int] = []  # by assignment, the rank whose member runs it; 0: a member here
        self._holes: tuple[int, ...] = ()
        self._given: tuple[Binding | None, bytes] = None, b""
        self._touch_at = 0

    def build(
        self, binding: Binding | None, memory: VirtualMemory, issuer: Issuer, firm: FirmReplays
    ) -> None:
        """Find what each node does, and tell it.  Raises NotKept, ClError.

        ``binding``: of a launch; None of what brings bytes to the host.
        """
        keys = Keys()
        writers: dict[int, Writer] = {}
        for transfer in self.recording.transfers:
            self._write_transfer(transfer, memory, writers, keys)
        if binding is not None:
            self._write_launches(binding, memory, issuer, writers, keys)
        elif self._gathered:
            self._gather_host = self._gather_of(self._gathered, memory)
        names = [len(keys), *(len(writer.operations) + 1 for writer in writers.values())]
        if max(names) >= OPERATIONS_MAX:
            raise NotKept("very many operations")
        if binding is not None:
            own = [memory.devices[member] for _, _, member in self.own]
            self.firm = firm.made(writers, self._copies, own)
        for at, writer in enumerate(writers.values()):
            self.nodes.append(writer.node)
            if writer.shared_nbytes:
                self._shared.append((writer.node, writer.shared_nbytes))
            kept = [self._operation(at, number, *each) for number, each in enumerate(writer.operations)]
            records = [record for each in kept for record in each.records]
            places = {} if self.firm is None else self.firm.places_of(records)
            part = pickle.dumps(KeptPart(tuple(kept), self._holes, places))
            writer.node.say(packed(RecordKind.KEEP, 0, self.number, tail=part))
        self._seen = [-1] * len(self._replayed)
        self._on_host = {operation for _, operation in self._host}
        to_host = [n for n, copy in enumerate(self._copies, 1) if _is_to_host(copy)]
        self._num_first = max(to_host, default=0) if self._host else 0
        self.ranks = frozenset(writers)

    def _operation(
        self, at: int, number: int, records: list[KeptRecord], uses: tuple[Use, ...]
    ) -> KeptOperation:
        """Operation ``number`` of node ``at``, as that keeps it."""
        operation = len(self.operations)
        self.operations.append((at, number))
        self._host += [(use, operation) for use in uses if not _is_kept(use)]
        kept = tuple([self._access(use, operation) for use in uses if _is_kept(use)])
        return KeptOperation(tuple(records), kept)

    def _access(self, use: Use, operation: int) -> KeptUse:
        dependencies, reads, writes = use.touches
        replayed = dependencies.replayed
        assert replayed is not None
        self.accesses.setdefault(dependencies, []).append((use, operation))
        self.buffers.add(replayed.buffer)
        for known, used in self._replayed:
            if known is replayed:
                used[dependencies] = None
                break
        else:
            self._replayed.append((replayed, {dependencies: None}))
        return KeptUse(replayed.buffer, dependencies.memory, dependencies.nbytes, tuple(reads), tuple(writes))

    def _write_transfer(
        self, transfer: Transfer, memory: VirtualMemory, writers: dict[int, Writer], keys: Keys
    ) -> None:
        source, target = transfer.copy.source, transfer.copy.target
        devices = memory.devices
        if max(source, target) > len(devices):
            raise NotKept("a copy of what is no member's alone")
        from_ = remote(devices[source - 1]) if source != HOST else None
        if target == HOST and from_ is not None:
            self._write_gather(transfer, from_, memory, writers, keys)
            return
        if from_ is None and (target == HOST or remote(devices[target - 1]) is None):
            self._copies.append(transfer)
            return

        ends: dict[int, Writer] = {}

        def written(memory_number: int) -> Place:
            place = memory.transfers.place(
                transfer.buffer, memory_number, memory_number or target, transfer.copy.over
            )
            device = remote(place.device)
            if device is None:
                return place
            writer = ends[device.node.rank] = writer_of(writers, device.node, keys)
            return place._replace(device=writer.member(device))

        there, here = written(source), written(target)
        half = Half(transfer.leave if from_ is None else transfer.arrive)
        counts = {rank: len(writer.operations) for rank, writer in ends.items()}
        for writer in ends.values():
            writer.exchange.half = half
        assert here.device is not None
        here.device.copy(there, here, transfer.region, (), ())
        if half.parts:
            self._copies.append(half)
        self._counted.append(transfer)
        for rank, writer in ends.items():
            written_down = writer.operations[counts[rank] :]
            if written_down:
                records = [record for parts, _ in written_down for record in parts]
                kind = records[0].kind
                # An upload finds the host's bytes in the arena.
                reads = kind in READING or kind is RecordKind.UPLOAD
                uses = ([transfer.leave] if reads else []) + ([transfer.arrive] if kind in WRITING else [])
                writer.operations[counts[rank] :] = [(records, tuple(uses))]

    def _write_gather(
        self,
        transfer: Transfer,
        device: RemoteDevice,
        memory: VirtualMemory,
        writers: dict[int, Writer],
        keys: Keys,
    ) -> None:
        """A few bytes that come to the host with the answer."""
        if self.recording.assignments:
            raise NotKept("what a launch brings to the host")
        region, over = transfer.region, transfer.copy.over
        self._gathered.append(transfer)
        total = sum(each.nbytes for each in self._gathered)
        if region.levels or transfer.nbytes > PART_NBYTES_MAX or total > GATHERED_NBYTES_MAX:
            raise NotKept("many bytes for the host, or rows")
        source = transfer.copy.source
        place = memory.transfers.place(transfer.buffer, source, source, over)
        fields = (made_name(place.memory), place.offset + region.base, region.nbytes, region.base)
        record = KeptRecord(RecordKind.GATHER, device.number, 0, fields, b"")
        writer_of(writers, device.node, keys).operations.append(([record], (transfer.leave,)))
        self._counted.append(transfer)

    def _gather_of(self, transfers: Sequence[Transfer], memory: VirtualMemory) -> Gather:
        """What these, of one buffer, come to at this end."""
        buffer = transfers[0].buffer
        regions = as_few([each.copy.over for each in transfers])
        use = buffer.dependencies[HOST].use((), regions)
        return Gather(memory.memories.host_view(buffer, buffer.whole), 0, use)

    def _write_launches(
        self,
        binding: Binding,
        memory: VirtualMemory,
        issuer: Issuer,
        writers: dict[int, Writer],
        keys: Keys,
    ) -> None:
        recording, chunk = self.recording, binding.launch_plan.chunks[0]
        self._holes = _holes(binding)
        for k, (of, assignment) in enumerate(zip(chunk.members, recording.assignments, strict=True)):
            member = recording.where[of]
            device = remote(memory.devices[member])
            self._ran.append(0 if device is None else device.node.rank)
            if device is None:
                self.own.append((assignment, k, member))
                continue
            program, arguments = issuer.arguments(binding, chunk, k, member)
            writer = writer_of(writers, device.node, keys)
            box = (*assignment.groups, *recording.local_size, recording.work_dim)
            fields = (made_name(program), *box)
            tail = bound(binding.kernel.model.name, arguments, made_name)
            record = KeptRecord(RecordKind.LAUNCH, device.number, 0, fields, tail)
            writer.operations.append(([record], assignment.uses))

    def replay(
        self,
        binding: Binding | None,
        memory: VirtualMemory,
        issuer: Issuer,
        issue: Issue,
        timing: Timing,
        name: int,
        first: int,
        tree: ReplayTree,
        is_firm: bool,
        is_told: bool,
    ) -> list[Ticket]:
        """Have all parts done once more, as the replay ``name``; the tickets of parts and own kernels.

        ``first``: the first replay behind which nodes put later ones.  ``is_firm``: see ``firm``.
        ``is_told``: each node is told directly, and answers so; as where kernels print: what it printed comes
        before.
        """
        kernels = (
            [issuer.kernel(binding, 0, k, member) for _, k, member in self.own] if binding is not None else []
        )
        gathering = None if self._gather_host is None else self._gather_host.begin()
        made = _Replay(self, name)
        self._copy(self._copies[: self._num_first], memory, issue, name)
        self._say_waits(memory, name, first)
        known, given = self._given
        if binding is not None and known is not binding:
            given = _given(binding, self._holes)
            self._given = binding, given
        hear = None if gathering is None else gathering.hear
        prints = binding is not None and binding.kernel.model.prints
        spread = None
        if tree.is_on and len(self.nodes) > FIRST and not (prints or is_told):
            spread = tree.spread(name, self.number, timing.value, is_firm, given, self.ranks, hear)
        if spread is not None:
            made.parts = [spread]
        else:
            record = packed(RecordKind.REPLAY, 0, name, (self.number, timing.value, is_firm), tail=given)
            made.parts = [node.replay(name, record, hear) for node in self.nodes]
        tickets = [*made.parts, gathering.behind(made.parts)] if gathering is not None else [*made.parts]
        for node, nbytes in self._shared:
            node.copies_host(nbytes)
        if is_firm and self.firm is not None:
            copied = self.firm.again(name)
            self.firm.last = made.parts if copied is None else [*made.parts, copied]
        else:
            self._copy(self._copies[self._num_first :], memory, issue, name)
        for use, operation in self._host:
            use.by(made.ticket(operation))
        recording = self.recording
        own = (
            recording.start(kernels, timing, [assignment for assignment, _, _ in self.own]) if kernels else []
        )
        for change in recording.changes:
            change.directory.enter(change.after)
        is_due = memory.placed.clock >= self._touch_at
        memory.placed.touch(recording.allocations if is_due else ())
        if is_due:
            self._touch_at = memory.placed.clock + TOUCHED
        for replayed, _ in self._replayed:
            replayed.by(made)
        self.replays += 1
        self.firm_replays += is_firm
        return [*tickets, *own]

    def _copy(
        self, copies: Sequence[Half | Transfer], memory: VirtualMemory, issue: Issue, name: int
    ) -> None:
        """Do some of this process' own part."""
        for copy in copies:
            if isinstance(copy, Transfer):
                memory.transfers.perform(copy, issue, is_repeated=True)
            else:
                copy.again(name)

    @property
    def tells_times(self) -> bool:
        """Whether each part has one launch: its ticket says when that ran."""
        remote_ranks = [rank for rank in self._ran if rank]
        return len(remote_ranks) == len(set(remote_ranks)) == len(self.nodes)

    def in_order(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Of a replay's tickets, of parts and own kernels, those of its assignments."""
        parts = {node.rank: ticket for node, ticket in zip(self.nodes, tickets, strict=False)}
        own = iter(tickets[len(self.nodes) :])
        return [parts[rank] if rank else next(own) for rank in self._ran]

    def count(self, memory: VirtualMemory) -> None:
        """Have the accounts know what was copied since this was last called."""
        for transfer in self._counted:
            source, target = transfer.copy.source, transfer.copy.target
            memory.accounting.repeated(
                source, target, transfer.nbytes * self.replays, transfer.cause, self.replays
            )
        memory.accounting.events.node_replays += self.replays
        memory.accounting.events.firm_replays += self.firm_replays
        self.replays = self.firm_replays = 0

    def forget(self) -> None:
        """It is not replayed any more: nobody has to know it for what it did."""
        for replayed, used in self._replayed:
            for dependencies in used:
                dependencies.catch_up()
            replayed.forget(self.accesses)

    def _say_waits(self, memory: VirtualMemory, name: int, first: int) -> None:
        """Tell nodes what operations wait for that no replay from ``first`` on did.

        What failed to be written where it does not count any more is forgotten first: the replay may bring
        these very bytes, and what reads them would wait for the writer that failed.
        """
        waits: dict[int, dict[Ticket, None]] = {}
        for use, operation in self._host:
            self._gather(waits, use, operation, first)
        for at, (replayed, used) in enumerate(self._replayed):
            seen = self._seen[at]
            if seen == replayed.changes:
                continue
            is_over = True
            for dependencies in used:
                if seen < 0 or replayed.changed.get(dependencies.memory, 0) > seen:
                    if dependencies.poisoned:
                        forget_unheld(memory.buffer(replayed.buffer), dependencies.memory)
                    for access, operation in self.accesses[dependencies]:
                        is_over &= not self._gather(waits, access, operation, first)
            if is_over:  # else the next replay is behind that too, perhaps not behind this one
                self._seen[at] = replayed.changes
        for operation, found in waits.items():
            at, number = self.operations[operation]
            self.nodes[at].wait_before(name, number, [*found], operation in self._on_host)

    def _gather(
        self, waits: dict[int, dict[Ticket, None]], use: NodeAccess, operation: int, first: int
    ) -> bool:
        """Add to ``waits`` of an operation what its use waits for that no replay did; whether that is any."""
        found: dict[Ticket, None] = {}
        use.gather(found)
        node = self.nodes[self.operations[operation][0]]
        others = [ticket for ticket in found if not _is_ordered(ticket, node, first)]
        if others:
            waits.setdefault(operation, {}).update(dict.fromkeys(others))
        return bool(others)


def _is_to_host(copy: Half | Transfer) -> bool:
    return isinstance(copy, Transfer) and copy.copy.target == HOST


def _is_kept(use: Use) -> bool:
    """Whether what it uses is the memory of a node's member."""
    dependencies, _, _ = use.touches
    return dependencies.replayed is not None


def _is_ordered(ticket: Ticket, node: RemoteNode, first: int) -> bool:
    """Whether the node itself puts what follows behind it: it is of replay ``first`` or a later one."""
    return isinstance(ticket, RemoteTicket) and ticket.owner is node and ticket.name >= first


def _holes(binding: Binding) -> tuple[int, ...]:
    """The numbers of the arguments in which launches by one recording may differ."""
    return tuple([n for n, value in enumerate(binding.values) if isinstance(value, bytes | Sampler)])


def _given(binding: Binding, holes: Sequence[int]) -> bytes:
    found: list[BoundArgument] = []
    for hole in holes:
        value = binding.values[hole]
        assert isinstance(value, bytes | Sampler)
        found.append(value)
    return bound("", found, made_name) if found else b""


class Heads:
    """All of a session.  Implements ``launch.replayers.PartsReplayer``.  Owned by: sdi-scheduler."""

    def __init__(self, job: Job, memory: VirtualMemory, issuer: Issuer) -> None:
        self._job = job
        self._memory = memory
        self._issuer = issuer
        self._heads: OrderedDict[Recording, Head | None] = OrderedDict()
        self._knowing: dict[int, set[RemoteNode]] = {}  # of a buffer, the nodes that know accesses to it
        self._first = replay_name(next(job.replays) + 1)
        self._has_failed = False
        self._firm = FirmReplays(job, memory.merges)
        memory.accounting.on_report.append(self._count)

    def find(self, binding: Binding | None, recording: Recording) -> IssueParts | None:
        """What has nodes replay a recording, which they keep from now on if they can.  Raises ClError.

        ``binding``: of a launch; None of a recording that brings bytes of one buffer to the host.
        """
        head = self._head(binding, recording)
        return None if head is None else partial(self._replay, head, binding)

    def find_timed(self, binding: Binding, recording: Recording) -> IssueTimed | None:
        """See ``PartsReplayer``.  Raises ClError."""
        head = self._head(binding, recording)
        return partial(self._timed, head, binding) if head is not None and head.tells_times else None

    def _timed(self, head: Head, binding: Binding, issue: Issue) -> list[Ticket]:
        return head.in_order(self._replay(head, binding, issue, MEASURED, is_told=True))

    def _head(self, binding: Binding | None, recording: Recording) -> Head | None:
        """What is kept here of a recording of which nodes keep their parts, from now on if they can."""
        if self._has_failed:
            self._begin_anew()
        if self._memory.accounting.recorder is not None:  # who wants to know when each operation ran
            return None
        head = self._heads.get(recording)
        if head is not None and (head.placed, head.losses) != (recording.placed, self._job.losses):
            self._drop(recording)
            head = None
        if recording not in self._heads:
            head = self._heads[recording] = self._made(binding, recording)
            while len(self._heads) > HEADS_MAX:
                self._drop(next(iter(self._heads)))
        self._heads.move_to_end(recording)
        return head

    def _replay(
        self, head: Head, binding: Binding | None, issue: Issue, timing: Timing, is_told: bool = False
    ) -> list[Ticket]:
        name = replay_name(next(self._job.replays))
        is_firm = self._firm.may_be(head.firm, name)
        tickets = head.replay(
            *(binding, self._memory, self._issuer, issue, timing, name, self._first, self._job.tree),
            is_firm=is_firm,
            is_told=is_told,
        )
        look = partial(self._look, is_firm)
        for ticket in tickets:
            ticket.when_done(look)
        return tickets

    def _look(self, is_firm: bool, done: Ticket) -> None:
        """A part is done.  Any thread."""
        if done.error is not None:
            self._has_failed = True
            if is_firm:
                self._job.exchange.mailboxes.give_up()

    def _made(self, binding: Binding | None, recording: Recording) -> Head | None:
        head = Head(next(self._job.recordings), recording, self._job.losses)
        try:
            head.build(binding, self._memory, self._issuer, self._firm)
        except NotKept:
            return None
        if not head.nodes:
            return None
        for buffer in head.buffers:
            self._memory.buffer(buffer).on_release.add(self._forget_buffer)
            self._knowing.setdefault(buffer, set()).update(head.nodes)
        return head

    def _drop(self, recording: Recording) -> None:
        """Nodes keep it no more."""
        head = self._heads.pop(recording)
        if head is not None:
            head.count(self._memory)
            head.forget()
            for node in head.nodes:
                node.say(packed(RecordKind.KEEP, 0, head.number))
            if head.firm is not None:
                self._firm.retire(head.firm)

    def _forget_buffer(self, buffer: int) -> None:
        """A buffer is released: nothing names it any more."""
        for recording, head in list(self._heads.items()):
            if head is not None and buffer in head.buffers:
                self._drop(recording)
        for node in self._knowing.pop(buffer, ()):
            node.say(packed(RecordKind.FORGET, 0, buffer))

    def _begin_anew(self) -> None:
        """A replay failed: what nodes know of what failed is not told to them otherwise, so they forget all.

        What they still do counts as done by nobody they know: who comes next waits for its tickets.
        """
        self._has_failed = False
        for recording in list(self._heads):
            self._drop(recording)
        self._knowing.clear()
        for node in self._job.nodes.values():
            node.say(packed(RecordKind.FORGET, 0, 0))
        self._first = replay_name(next(self._job.replays) + 1)

    def _count(self) -> None:
        for head in self._heads.values():
            if head is not None:
                head.count(self._memory)
