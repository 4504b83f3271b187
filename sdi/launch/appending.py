"""Launches that use results of atomic functions, each member on copies of its own.

Where members append, each from where the counters stood before, the counters are looked at once they are
done.  What each has appended is moved behind what the ones before it have, and the counters are added up.
What else results are used for counts as it is where at most one member has changed what all watch.  Where it
is not what one device could have done, nothing of it counts, and the assignments run one after the other.
Source: design/0023-atomics-that-answer.md.

Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sdi.appends import SMALL, Append, AppendStore, Load, magnitude_of, value_of
from sdi.dataclass import dataclass, replace
from sdi.devices.copying import across, download
from sdi.devices.issue import MEASURED, Issue, Timing
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.intervals import ByteRange
from sdi.launch.arguments import ArgumentValue, BufferArgument
from sdi.launch.chunks import one_by_one, reserve
from sdi.launch.issue import Issuer, Started
from sdi.launch.kernel import Binding
from sdi.launch.recording import Change
from sdi.launch.steps import Steps
from sdi.launch.trials import KeptLaunch, trial_of
from sdi.vmem.directory import HOST, State, member_memory
from sdi.vmem.links import MEASURED_NBYTES
from sdi.vmem.memory import VirtualBuffer, VirtualMemory

_COPIES_MAX = 64
"""Of more pieces all that lies between them is copied too, and the host puts them in order."""

_FAR = 1 << 62
"""No buffer has such elements, and numbers of 64 bits could not tell where they are."""

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Counted:
    """What members made of counters: of counter k of ``append`` number ``elements[k]``, which stood at
    ``before[k]``, member m handed out ``handed[m, k]`` places.
    """

    append: Append
    elements: Numbers
    before: Numbers
    handed: Numbers

    @property
    def after(self) -> Numbers:
        """Where the counters stand in the end."""
        return np.asarray(self.before + self.handed.sum(axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """What is to be moved within one buffer, in bytes of it: piece k of member m has ``nbytes[m, k]`` at
    ``sources[m, k]``, which belong at ``targets[m, k]``.  All are elements of ``unit_nbytes``; each place has
    ``block_nbytes``.
    """

    buffer: VirtualBuffer
    sources: Numbers
    targets: Numbers
    nbytes: Numbers
    unit_nbytes: int
    block_nbytes: int
    cause: str


@dataclass(frozen=True, slots=True)
class AppendedRange:
    """Bytes that a launch has appended, in an order that is open: blocks of ``block_nbytes`` each."""

    buffer: int
    over: ByteRange
    block_nbytes: int


class RanChunk(NamedTuple):
    """A chunk that was issued: its tickets, those of its assignments first, and what it has appended.

    ``appended``: None where that depends on the order of work-items.  ``kept``: what it came to, where it
    may be carried out again without Python.
    """

    tickets: list[Ticket]
    appended: Sequence[AppendedRange] | None
    kept: KeptLaunch | None = None


class Appender:
    """Issues such launches."""

    def __init__(self, memory: VirtualMemory, issuer: Issuer) -> None:
        self._memory = memory
        self._issuer = issuer
        self._post = memory.post

    def launch(
        self, binding: Binding, number: int, where: tuple[int, ...], everyone: Sequence[int], issue: Issue
    ) -> Steps[RanChunk]:
        """Issue chunk ``number``, whose data have their places, on the members ``where``."""
        kernel = binding.kernel
        if kernel.was_tried:
            kernel.was_tried = False
            kernel.attempts.is_undone()
            return RanChunk((yield from self._one_by_one(binding, number, where, everyone, issue)), None)
        before = binding.launch_plan.chunks[number].states()
        started = self._issuer.start(binding, number, where, issue)
        counts, waits = self._counts(started, issue)
        bases = self._bases(binding, started, waits, issue)
        yield waits
        if not set(started.members) <= set(self._memory.members):
            raise DeviceFailed(kernel.model.name, "a member was lost while the launch waited")
        if any(ticket.error is not None for ticket in waits):
            return RanChunk(self._failed(started, issue), ())
        attempts = kernel.attempts
        if kernel.model.watched:
            changed = _changed_by(counts)
            if changed <= 1:
                attempts.stands()
                tickets = [*started.tickets, *self._issuer.finish(started, issue)]
                return RanChunk(tickets, None if changed else (), self._kept(binding, started, before, ()))
        else:
            found = self._counted(binding, started, counts)
            pieces = None if found is None or bases is None else self._pieces(binding, started, found, bases)
            if found is not None and pieces is not None:
                attempts.stands()
                plan = binding.launch_plan
                plan.history.after_ns[len(plan.groups)] = len(plan.chunks) * self._after_ns(started, pieces)
                moved = [ticket for each in pieces for ticket in self._move(started, each, issue)]
                tickets = [*started.tickets, *moved, *self._issuer.finish(started, issue)]
                begins = [int(each.before[0]) if each.before.size else 0 for each in found]
                return RanChunk(tickets, _appended(pieces), self._kept(binding, started, before, begins))
        attempts.is_undone()
        self._issuer.undo(started)
        return RanChunk((yield from self._one_by_one(binding, number, where, everyone, issue)), None)

    def _kept(
        self, binding: Binding, started: Started, before: Sequence[State | None], begins: Sequence[int]
    ) -> KeptLaunch | None:
        """What the launch came to, which counted, if it may be carried out without Python from now on.

        ``before``, ``begins``: residency and counters before it.
        """
        after = started.chunk.states()
        changes = [
            Change(buffer.directory, old, new)
            for buffer, old, new in zip(started.chunk.buffers, before, after, strict=True)
            if old is not None and new is not None
        ]
        if len(changes) < len(before):
            return None
        keeper = self._keeper(started)
        trial = trial_of(self._memory, binding, changes, started.members, keeper, begins)
        if trial is None:
            return None
        started.recording.repeats(changes)
        return KeptLaunch(started.recording, started.kernels, trial)

    def _failed(self, started: Started, issue: Issue) -> list[Ticket]:
        """A member did not do its part: who reads what was to be appended fails as it did."""
        failed = [k for k, ticket in enumerate(started.tickets) if ticket.error is not None]
        member = started.members[failed[0] if failed else 0]
        for used in started.chunk.plan.buffers:
            if used.appended is not None:
                used.buffer.directory.wrote(member_memory(member), used.appended)
        return [*started.tickets, *self._issuer.finish(started, issue)]

    def _one_by_one(
        self, binding: Binding, number: int, where: tuple[int, ...], everyone: Sequence[int], issue: Issue
    ) -> Steps[list[Ticket]]:
        plan = binding.launch_plan
        assert plan.plans is not None, "it hands out places"
        chunks = tuple(one_by_one(plan.plans, plan.chunks[number]))
        apart = Binding(
            binding.build, binding.kernel, binding.launch, replace(plan, chunks=chunks), binding.values
        )
        launched: list[Ticket] = []
        others: list[Ticket] = []
        for at, chunk in enumerate(chunks):
            name = binding.kernel.model.name
            yield from reserve(self._memory, chunk, where, everyone, False, name, issue)
            first, *more = self._issuer.issue(apart, at, where, False, issue).tickets
            launched.append(first)
            others += more
        return launched + others

    # -- counters ---------------------------------------------------------------------------------

    def _counts(self, started: Started, issue: Issue) -> tuple[dict[int, list[Numbers]], list[Ticket]]:
        """By buffer, what is watched, or counters: before the launch, and of each member after it.

        Once the tickets are done.
        """
        memory = self._memory
        found: dict[int, list[Numbers]] = {}
        waits: list[Ticket] = list(started.tickets)
        for used in started.chunk.plan.buffers:
            for merged in used.merged if used.is_counter or used.is_watched else ():
                waits += used.buffer.dependencies[HOST].before_read(merged.over)
                kind = np.dtype(np.uint8 if merged.update is None else f"i{merged.update.nbytes}")
                copies = [memory.memories.host_array(used.buffer, merged.over).view(kind)]
                for k, member in enumerate(started.members):
                    content = memoryview(bytearray(merged.over.nbytes))
                    waits.append(
                        self._read(started, used.buffer, k, merged.over.start, content, (), issue.timing)
                    )
                    memory.devices[member].flush()
                    copies.append(np.frombuffer(content, kind))
                found[used.buffer.id] = copies
        return found, waits

    def _bases(
        self, binding: Binding, started: Started, waits: list[Ticket], issue: Issue
    ) -> dict[Load, Numbers] | None:
        """What is added to places, once ``waits`` are done; None where some member may change it."""
        memory, found = self._memory, dict[Load, Numbers]()
        used = {each.buffer.id: each for each in started.chunk.plan.buffers}
        appends = binding.kernel.model.appends
        for argument in {argument for append in appends for argument in append.reads}:
            value = binding.values[argument]
            if not isinstance(value, BufferArgument) or value.buffer not in used:
                return None
            if any(used[value.buffer].written(k) for k in range(len(started.members))):
                return None
        for load in {store.base for append in appends for store in append.stores if store.base is not None}:
            value = binding.values[load.argument]
            assert isinstance(value, BufferArgument)
            plan = used[value.buffer]
            nbytes = value.reach(plan.buffer.nbytes)
            over = ByteRange(value.offset, value.offset + nbytes - nbytes % load.nbytes)
            memory.transfers.fetch_host(plan.buffer, over, issue.because(plan.cause))
            waits += plan.buffer.dependencies[HOST].before_read(over)
            kind = np.dtype(f"{'i' if load.signed else 'u'}{load.nbytes}")
            found[load] = memory.memories.host_array(plan.buffer, over).view(kind)
        return found

    def _counted(
        self, binding: Binding, started: Started, counts: dict[int, list[Numbers]]
    ) -> list[_Counted] | None:
        """What was handed out by each counter; None where a limit may have counted."""
        values, appends = binding.values, binding.kernel.model.appends
        found: dict[tuple[int, int | None], _Counted] = {}
        for append in appends:
            counter = values[append.counter]
            if not isinstance(counter, BufferArgument) or counter.buffer not in counts:
                return None
            before, *after = counts[counter.buffer]
            handed = np.stack([(own - before).astype(np.int64) for own in after])
            index = None
            if append.index is None:
                elements = np.flatnonzero(handed.any(axis=0)).astype(np.int64)
            else:
                index = value_of(append.index, values)
                if not 0 <= index < before.size:
                    return None
                elements = np.array([index], np.int64)
            one = _Counted(append, elements, before[elements].astype(np.int64), handed[:, elements])
            if not _is_below(one, values):
                return None
            known = found.setdefault((append.counter, index), one)
            if set(known.append.stores) != set(append.stores):
                return None
        return list(found.values())

    # -- what was appended ------------------------------------------------------------------------

    def _pieces(
        self,
        binding: Binding,
        started: Started,
        found: Sequence[_Counted],
        bases: Mapping[Load, Numbers],
    ) -> list[_Pieces] | None:
        """What has to be moved, by buffer; None where places meet, or are none."""
        by_buffer: dict[int, list[_Pieces]] = {}
        used = {each.buffer.id: each for each in started.chunk.plan.buffers}
        for counted in found:
            for store in counted.append.stores:
                value = binding.values[store.argument]
                if not isinstance(value, BufferArgument) or value.buffer not in used:
                    return None
                plan = used[value.buffer]
                assert plan.appended is not None, "it is stored to at places that are handed out"
                first = _first_places(counted, store, binding.values, bases)
                if first is None:
                    return None
                pieces = _pieces_of(counted, store, first, plan.buffer, value.offset, plan.cause)
                if not _are_within(pieces, plan.appended):
                    return None
                by_buffer.setdefault(value.buffer, []).append(pieces)
        return [each for several in by_buffer.values() for each in several] if _are_apart(by_buffer) else None

    def _after_ns(self, started: Started, pieces: Sequence[_Pieces]) -> float:
        """What moving them is predicted to take: who gets them gets one copy after the other."""
        keeper = self._keeper(started)
        target = HOST if keeper is None else member_memory(keeper)
        total = 0.0
        for each in pieces:
            for member, nbytes in zip(started.members, each.nbytes.sum(axis=1).tolist(), strict=True):
                if member != keeper:
                    total += self._memory.transfers.links.cost_ns(member_memory(member), target, nbytes)
        return total

    def _move(self, started: Started, pieces: _Pieces, issue: Issue) -> list[Ticket]:
        """Bring what members appended to where it belongs, on one of them or on the host."""
        if not pieces.nbytes.any():
            return []
        if np.count_nonzero(pieces.nbytes) > _COPIES_MAX:
            return [self._move_scattered(started, pieces, issue)]
        tickets = []
        keeper = self._keeper(started)
        for k, member in enumerate(started.members):
            for at in np.flatnonzero(pieces.nbytes[k]):
                nbytes, target = int(pieces.nbytes[k, at]), int(pieces.targets[k, at])
                over, source = ByteRange(target, target + nbytes), int(pieces.sources[k, at])
                if keeper is None:
                    host = pieces.buffer.dependencies[HOST]
                    view, waits = (
                        self._memory.memories.host_view(pieces.buffer, over),
                        host.before_write(over),
                    )
                    ticket = self._download(started, pieces, k, source, view, waits, issue)
                    host.written_by(over, ticket)
                    pieces.buffer.directory.wrote(HOST, over)
                    tickets.append(ticket)
                else:
                    if (member, source) != (keeper, target):
                        tickets.append(self._copy(started, pieces, k, source, over, keeper, issue))
                    pieces.buffer.directory.wrote(member_memory(keeper), over)
            self._memory.devices[member].flush()
        return tickets

    def _keeper(self, started: Started) -> int | None:
        """The member that gets what all have appended; None where the host does, as for what is merged."""
        return started.members[0] if self._memory.merges.are_able(started.members) else None

    def _copy(
        self,
        started: Started,
        pieces: _Pieces,
        k: int,
        source: int,
        over: ByteRange,
        keeper: int,
        issue: Issue,
    ) -> Ticket:
        """Bring a piece of the k-th member to its place on the keeper."""
        memory, buffer, member = self._memory, pieces.buffer, started.members[k]
        here, there = (memory.memories.allocation(buffer, each) for each in (keeper, member))
        dependencies = buffer.dependencies[member_memory(keeper)]
        left, arrived = across(
            memory.devices[keeper],
            memory.devices[member],
            there.device_buffer,
            source - there.over.start,
            here.device_buffer,
            over.start - here.over.start,
            over.nbytes,
            [started.tickets[k]],
            dependencies.before_write(over),
            MEASURED if over.nbytes >= MEASURED_NBYTES else issue.timing,
        )
        memory.devices[keeper].flush()
        buffer.dependencies[member_memory(member)].read_by(ByteRange(source, source + over.nbytes), left)
        dependencies.written_by(over, arrived)
        ends = member_memory(member), member_memory(keeper)
        memory.accounting.copied(*ends, over.nbytes, arrived, pieces.cause, issue.command)
        return arrived

    def _download(
        self,
        started: Started,
        pieces: _Pieces,
        k: int,
        source: int,
        to: memoryview,
        waits: Sequence[Ticket],
        issue: Issue,
    ) -> Ticket:
        timing = MEASURED if to.nbytes >= MEASURED_NBYTES else issue.timing
        ticket = self._read(started, pieces.buffer, k, source, to, waits, timing)
        source_memory = member_memory(started.members[k])
        self._memory.accounting.copied(source_memory, HOST, to.nbytes, ticket, pieces.cause, issue.command)
        return ticket

    def _read(
        self,
        started: Started,
        buffer: VirtualBuffer,
        k: int,
        source: int,
        to: memoryview,
        waits: Sequence[Ticket],
        timing: Timing,
    ) -> Ticket:
        """Bring bytes of the k-th member, once it has done its assignment, into the host's memory."""
        member = started.members[k]
        allocation = self._memory.memories.allocation(buffer, member)
        ticket = download(
            self._memory.devices[member],
            allocation.device_buffer,
            source - allocation.over.start,
            to,
            [started.tickets[k], *waits],
            timing=timing,
        )
        dependencies = buffer.dependencies[member_memory(member)]
        dependencies.read_by(ByteRange(source, source + to.nbytes), ticket)
        return ticket

    def _move_scattered(self, started: Started, pieces: _Pieces, issue: Issue) -> Ticket:
        """The same for many pieces: the host puts them where they belong."""
        memory, buffer, unit = self._memory, pieces.buffer, pieces.unit_nbytes
        some = pieces.nbytes > 0
        hull = ByteRange(int(pieces.targets[some].min()), int((pieces.targets + pieces.nbytes)[some].max()))
        memory.transfers.fetch_host(buffer, hull, issue.because(pieces.cause))
        staged: list[tuple[int, int, int]] = []
        waits: list[Ticket] = []
        for k, member in enumerate(started.members):
            mine = some[k]
            if not mine.any():
                continue
            start = int(pieces.sources[k, mine].min())
            nbytes = int((pieces.sources + pieces.nbytes)[k, mine].max()) - start
            at = memory.arena.allocate(nbytes)
            waits.append(self._download(started, pieces, k, start, memory.arena.view(at, nbytes), (), issue))
            memory.devices[member].flush()
            staged.append((k, at, start))
        host = buffer.dependencies[HOST]
        waits += [*host.before_read(hull), *host.before_write(hull)]
        target = memory.memories.host_array(buffer, hull).view(np.dtype((np.void, unit)))

        def put(k: int, at: int, start: int) -> None:
            mine = some[k]
            counts = pieces.nbytes[k, mine] // unit
            end = int((pieces.sources + pieces.nbytes)[k, mine].max())
            source = np.frombuffer(memory.arena.view(at, end - start), np.dtype((np.void, unit)))
            behind = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            from_ = np.repeat((pieces.sources[k, mine] - start) // unit, counts) + behind
            to = np.repeat((pieces.targets[k, mine] - hull.start) // unit, counts) + behind
            target[to] = source[from_]

        ticket = memory.host.submit_all([partial(put, *each) for each in staged], waits)
        memory.accounting.worked("append", -1, hull.nbytes, ticket, issue)
        host.written_by(hull, ticket)
        buffer.directory.wrote(HOST, hull)

        def finished() -> None:
            for _, at, _ in staged:
                memory.arena.free(at)

        ticket.when_done(lambda _ticket: self._post(finished))
        return ticket


def _changed_by(copies: dict[int, list[Numbers]]) -> int:
    """How many members changed anything of what is watched."""
    changes = [[not np.array_equal(before, own) for own in after] for before, *after in copies.values()]
    return sum(map(any, zip(*changes, strict=True)))


def _is_below(counted: _Counted, values: Sequence[ArgumentValue]) -> bool:
    """Whether no comparison with a limit could come out in another way, and no number wrap around."""
    after = counted.after
    if not after.size:
        return True
    highest = int(after.max())
    if counted.handed.min() < 0 or highest >= SMALL:
        return False
    if counted.before.min() < 0 and counted.append.limits:
        return False  # unsigned, it would be above them
    for limit in counted.append.limits:
        bound = value_of(limit.bound, values)
        if magnitude_of(limit.bound, values) >= SMALL:
            return False  # it may have wrapped around, or been converted to what has fewer bits
        if highest + limit.more > bound:
            return False
    return True


def _first_places(
    counted: _Counted,
    store: AppendStore,
    values: Sequence[ArgumentValue],
    bases: Mapping[Load, Numbers],
) -> Numbers | None:
    """Which elements a store through place 0 of each counter would be to; None where that is not known."""
    highest = int(counted.elements.max(initial=0))
    if magnitude_of(store.start, values) + magnitude_of(store.stride, values) * highest >= _FAR:
        return None
    first = value_of(store.start, values) + value_of(store.stride, values) * counted.elements
    if store.base is not None:
        base = bases[store.base]
        if counted.elements.size and highest >= base.size:
            return None
        first = first + base[counted.elements].astype(np.int64)
    return np.asarray(first)


def _pieces_of(
    counted: _Counted,
    store: AppendStore,
    first: Numbers,
    buffer: VirtualBuffer,
    offset: int,
    cause: str,
) -> _Pieces:
    """Where members have stored, and where that belongs.

    ``first``: see ``_first_places``.  ``offset``: of the argument in its buffer.
    """
    unit, scale = store.element_nbytes, store.scale
    behind = np.cumsum(counted.handed, axis=0) - counted.handed
    if scale > 0:
        own = first + scale * counted.before + np.zeros_like(behind)
    else:  # downwards: the last place comes first
        own = first + scale * (counted.before + counted.handed - 1)
    return _Pieces(
        buffer,
        offset + unit * own,
        offset + unit * (own + scale * behind),
        unit * abs(scale) * counted.handed,
        unit,
        unit * abs(scale),
        cause,
    )


def _are_within(pieces: _Pieces, over: ByteRange) -> bool:
    some = pieces.nbytes > 0
    if not some.any():
        return True
    ends = (pieces.targets + pieces.nbytes)[some], (pieces.sources + pieces.nbytes)[some]
    starts = pieces.targets[some], pieces.sources[some]
    is_small = max(int(each.max()) for each in ends) - over.start < SMALL * pieces.unit_nbytes
    return (
        is_small
        and all(int(each.min()) >= over.start for each in starts)
        and all(int(each.max()) <= over.stop for each in ends)
    )


def _are_apart(by_buffer: dict[int, list[_Pieces]]) -> bool:
    """Whether no two pieces belong to the same bytes of a buffer."""
    for several in by_buffer.values():
        starts = np.concatenate([each.targets.ravel() for each in several])
        nbytes = np.concatenate([each.nbytes.ravel() for each in several])
        order = np.argsort(starts[nbytes > 0])
        starts, stops = starts[nbytes > 0][order], (starts + nbytes)[nbytes > 0][order]
        if np.any(starts[1:] < stops[:-1]):
            return False
    return True


def _appended(pieces: Sequence[_Pieces]) -> list[AppendedRange]:
    """What members appended in all."""
    return [
        AppendedRange(each.buffer.id, ByteRange(start, start + nbytes), each.block_nbytes)
        for each in pieces
        for start, nbytes in zip(
            each.targets.min(axis=0).tolist(), each.nbytes.sum(axis=0).tolist(), strict=True
        )
        if nbytes
    ]
