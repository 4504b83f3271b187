"""Puts recordings together for the player: guards, effects, operations with what they use."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any, Protocol

from sdi.cells import Cells
from sdi.devices.comparing import operation_number
from sdi.devices.native import FETCHED_MAX, NativeLane, NativeLaunch, NativeMember, NativePart, NativePlace
from sdi.intervals import ByteRange
from sdi.launch.chunks import Chunk
from sdi.launch.recording import Assignment, Change, Recording
from sdi.launch.trials import Trial, TrialCopies, TrialStore
from sdi.player import library as c
from sdi.player.buffers import Buffers
from sdi.region import Region, do_meet
from sdi.sampling.scalar_cases import ScalarCase
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.dependencies import Use
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.memory import VirtualMemory
from sdi.vmem.transfers import Transfer
from sdi.wire.layout import layout
from sdi.wire.records import COMMAND, HEADER
from sdi.wire.records import Op as WireOp

_PREFIX = layout(HEADER, COMMAND)
_ELEMENTS: dict[str, Any] = {name: kind._type_ for name, kind in c.GIVEN.items() if f"num_{name}" in c.GIVEN}
"""Of what the arrays of a recording consist."""
_PITCH_MAX = (1 << 31) - 1
"""Of a copy of rows on any GPU."""
COPY_MAX_NBYTES = 2 << 20
"""Larger copies of members go beside their kernels."""
_NOW_RUNS_MAX = 1 << 14
"""Of a copy that the player makes itself, each of which takes it some 10 ns besides its bytes."""
PEER_MAX_NS = 300_000.0
"""Longer ones between members, too: what is shorter takes less than to have Python issue it."""


class PlayerTables(Protocol):
    """The player, as far as recordings name what it has."""

    @property
    def cells(self) -> Cells: ...

    @property
    def buffers(self) -> Buffers: ...

    @property
    def memory(self) -> VirtualMemory: ...

    @property
    def lanes(self) -> Sequence[NativeLane]: ...

    @property
    def members(self) -> Sequence[NativeMember]: ...

    def segment(self, buffer: VirtualBuffer, memory: int) -> int:
        """The number of the accesses to a buffer's bytes in one memory."""
        ...


class Builder:
    """Puts a recording together."""

    def __init__(
        self, player: PlayerTables, guards: list[tuple[int, int]], budgets: list[int], watch: int = 0
    ) -> None:
        self._player = player
        self.guards = guards
        self.effects: list[tuple[int, int]] = []
        self.budgets = budgets
        self.watch = watch
        self.num_beside = self.num_together = 0
        self.ops: list[c.PlayerOp] = []
        self.accesses: list[tuple[int, int]] = []
        self.holes: list[tuple[int, int, int]] = []
        self.tests: list[c.Test] = []
        self.block = bytearray()
        self.uses: list[tuple[int, tuple[Use, ...]]] = []
        self.keep: list[object] = []
        self.client = (c.CLIENT_NONE, 0, 0, 0, 0, 0)
        self.span = (0, 0, 0, 0)
        self.floats = self.merges = False
        self.shown = 0
        self.launches: list[tuple[int, NativeLaunch]] = []
        self.told: list[tuple[str | int, ...]] = []
        self.profiled = 0
        self.watched: list[c.PlayerWatched] = []
        self.handed: list[c.PlayerHanded] = []
        self.stores: list[c.PlayerStore] = []
        self.undone: list[tuple[int, int]] = []
        self.moves: list[tuple[int, int, int, str]] = []
        self.num_moves = self.num_tried = self.now_nbytes = 0
        self._touched: dict[int, set[tuple[int, int]]] = {}

    def guard_layout(self, buffer: VirtualBuffer) -> bool:
        """Its places are what they are."""
        cells = self._player.buffers.cells_of(buffer)
        if cells is None:
            return False
        self.guards.append((cells[0], self._player.cells.at[cells[0]]))
        return True

    def states(self, chunk: Chunk, changes: Sequence[Change]) -> bool:
        """Each buffer is found in one state and left in another."""
        return all(self.change(buffer, change) for buffer, change in zip(chunk.buffers, changes, strict=True))

    def change(self, buffer: VirtualBuffer, change: Change) -> bool:
        """One buffer's."""
        cells = self._player.buffers.cells_of(buffer)
        if cells is None:
            return False
        before, after = (change.directory.number_of(state) for state in (change.before, change.after))
        self.guards.append((cells[1], before))
        if before != after:
            self.effects.append((cells[1], after))
        return True

    def transfers(self, transfers: Sequence[Transfer]) -> bool:
        """Copies before it; False where the player can't make one of them."""
        has_events = any(lane.has_events for lane in self._player.lanes)
        is_beside = has_events and len(transfers) > 1 and _are_beside(transfers)
        is_now = not has_events and _is_chain(transfers)
        for group in _by_ends(transfers) if is_beside else [[transfer] for transfer in transfers]:
            if not self._fetch(group) and not all(
                self._fetch([t]) or self._transfer(t, is_now) for t in group
            ):
                return False
        if is_beside and 1 < len(self.ops) <= c.BESIDE_MAX:
            self.num_beside = len(self.ops)
        return True

    def _fetch(self, group: Sequence[Transfer]) -> bool:
        """One kernel of a member brings what it gets of another one; False where none does."""
        memory, source, target = self._player.memory, group[0].copy.source, group[0].copy.target
        if HOST in (source, target) or memory.memories.pooled_memory in (source, target):
            return False
        native, other = (self._player.members[end - 1] for end in (target, source))
        nbytes = sum(transfer.nbytes for transfer in group)
        if not native.peer(other) or self._is_long(source, target, nbytes):
            return False
        parts: list[NativePart] = []
        accesses: list[tuple[int, int]] = []
        for transfer in group:
            buffer, over = transfer.buffer, transfer.copy.over.bounds
            here, there = (self._place(buffer, end - 1, over) for end in (target, source))
            if here is None or there is None:
                return False
            parts.append(NativePart(here, there, transfer.region))
            accesses += [(self._player.segment(buffer, source), 0), (self._player.segment(buffer, target), 1)]
        kernel = native.fetch(other, parts)
        if kernel is None:
            return False
        op = c.PlayerOp(kind=c.OP_FETCH, lane=target - 1, nbytes=nbytes)
        self._kernel(op, kernel)
        self.uses += [(target - 1, (transfer.leave, transfer.arrive)) for transfer in group]
        told = ("copy", source, target, nbytes, group[0].cause, group[0].is_staged)
        return self._op(op, list(dict.fromkeys(accesses)), told)

    def _is_long(self, source: int, target: int, nbytes: int) -> bool:
        """Whether a copy goes beside what members compute."""
        links = self._player.memory.transfers.links
        return nbytes > COPY_MAX_NBYTES and links.cost_ns(source, target, nbytes) > PEER_MAX_NS

    def _transfer(self, transfer: Transfer, is_now: bool) -> bool:
        """``is_now``: also one from or to the host's memory is made at once, if it can be."""
        player = self._player
        memory, copy, buffer = player.memory, transfer.copy, transfer.buffer
        source, target, over = copy.source, copy.target, copy.over.bounds
        runs, nbytes = transfer.region, copy.over.total_nbytes
        is_pooled = memory.memories.pooled is not None and memory.memories.pooled_memory in (source, target)
        is_on_host = HOST in (source, target)
        if is_pooled or (is_on_host and not are_few_rows(runs)):
            return False
        is_large = is_on_host and over.nbytes > COPY_MAX_NBYTES  # all of which would be page-locked
        if self._is_long(source, target, nbytes):
            return False
        member = (source if target == HOST else target) - 1
        native = player.members[member]
        op = c.PlayerOp(lane=member, nbytes=nbytes)
        places: dict[int, NativePlace] = {}
        for end in (source, target):
            if end == HOST:
                view = memory.memories.host_view(buffer, over)
                reached = view
                if self.floats:
                    reached = memory.memories.host_view(buffer, ByteRange(*self.span[:2]))
                if not native.host(reached, is_large):
                    return False
                places[end] = NativePlace(0, address(view))
                continue
            place = self._place(buffer, end - 1, over)
            if place is None:
                return False
            op.object, op.near = place.buffer, place.near
            places[end] = place
        op.from_, op.to = places[source].at, places[target].at
        if (is_now or not is_on_host) and all(place.near for end, place in places.items() if end != HOST):
            self.now_nbytes += nbytes
            if self.now_nbytes > COPY_MAX_NBYTES or len(runs.levels) > 1 or runs.num_runs > _NOW_RUNS_MAX:
                return False
            op.kind, op.near, op.near_other = c.OP_COPY_NOW, places[target].near, places[source].near
            _set_rows(op, runs, runs)
        elif not is_on_host:
            if runs.levels or not native.peer(player.members[source - 1]):
                return False
            op.kind = c.OP_COPY
            op.object, op.other = (player.lanes[end - 1].context for end in (target, source))
        else:
            op.kind = c.OP_DOWNLOAD if target == HOST else c.OP_UPLOAD
            _set_rows(op, runs, runs)
        # No byte is brought twice.  Members without events in common need none for that.
        is_beside = op.kind == c.OP_DOWNLOAD and not player.lanes[member].has_events
        writes = c.WRITES_BESIDE if is_beside else 1
        accesses = [(player.segment(buffer, source), 0), (player.segment(buffer, target), writes)]
        self.uses.append((member, (transfer.leave, transfer.arrive)))
        told = ("copy", source, target, nbytes, transfer.cause, transfer.is_staged)
        return self._op(op, accesses, told)

    def copy(
        self,
        buffers: tuple[VirtualBuffer, VirtualBuffer],
        member: int,
        regions: tuple[Region, Region],
    ) -> bool:
        """A copy within one member, of regions that are ``alike``."""
        native = self._player.members[member]
        if not all(map(are_few_rows, regions)):
            return False
        op = c.PlayerOp(kind=c.OP_COPY, lane=member, nbytes=regions[0].total_nbytes)
        _set_rows(op, *regions)
        places, uses, accesses = [], [], []
        for buffer, over, writes in zip(buffers, regions, (0, 1), strict=True):
            allocation = buffer.allocations[member]
            if allocation is None or not allocation.holds(over.bounds):
                return False
            place = native.place(allocation.device_buffer, over.base - allocation.over.start)
            if place is None:
                return False
            places.append(place)
            self.keep.append(allocation.device_buffer)
            dependencies = buffer.dependencies[member + 1]
            uses.append(dependencies.use((), (over,)) if writes else dependencies.use((over,), ()))
            accesses.append((self._player.segment(buffer, member + 1), writes))
        op.other, op.object = places[0].buffer, places[1].buffer
        op.near_other, op.near = places[0].near, places[1].near
        op.from_, op.to = places[0].at, places[1].at
        self.uses.append((member, tuple(uses)))
        return self._op(op, accesses, ("work", "copy", member, op.nbytes, "copybuffer"))

    def on_host(self, kind: int, buffer: VirtualBuffer, over: ByteRange) -> bool:
        """What is done in the arena besides."""
        segment = self._player.segment(buffer, HOST)
        view = self._player.memory.memories.host_view(buffer, over)
        self.client = (kind, segment, view.nbytes, 0, address(view), 0)
        return segment >= 0

    def staged(self, buffer: VirtualBuffer, member: int, within: ByteRange, cause: str) -> bool:
        """A write anywhere in ``within``, of any length, from where it is staged to a member."""
        place = self._place(buffer, member, within)
        if place is None:
            return False
        op = c.PlayerOp(kind=c.OP_UPLOAD, lane=member, object=place.buffer, to=place.at)
        target = member_memory(member)
        self.uses.append((member, (buffer.dependencies[target].use((), (within,)),)))
        self.moves.append((0, HOST, target, cause))
        return self._op(
            op, [(self._player.segment(buffer, target), 1)], ("copy", HOST, target, 0, cause, False)
        )

    def carried(self, transfer: Transfer) -> bool:
        """Likewise from the arena; ``transfer``: if it were the first of them."""
        copy, cause = transfer.copy, transfer.cause
        if not self._transfer(transfer, False):
            return False
        self.moves.append((0, copy.source, copy.target, cause))
        self.told[-1] = ("copy", copy.source, copy.target, 0, cause, False)
        return True

    def fill(self, buffer: VirtualBuffer, member: int, over: ByteRange, pattern_nbytes: int) -> bool:
        """Of a range that has a place on a member."""
        native, allocation = self._player.members[member], buffer.allocations[member]
        if allocation is None or not allocation.holds(over):
            return False
        place = native.place(allocation.device_buffer, over.start - allocation.over.start)
        fills = self._player.lanes[member].fills_nbytes
        if fills and pattern_nbytes not in fills:
            return False
        if place is None or place.at % pattern_nbytes:
            return False
        op = c.PlayerOp(kind=c.OP_FILL, lane=member, nbytes=over.nbytes, object=place.buffer, to=place.at)
        self.keep.append(allocation.device_buffer)
        self.uses.append((member, (buffer.dependencies[member + 1].use((), (over,)),)))
        told = ("work", "fill", member, over.nbytes, "fill")
        return self._op(op, [(self._player.segment(buffer, member + 1), 1)], told)

    def tested(self, at: int, case: ScalarCase) -> None:
        """Of the argument whose value is at ``at`` of the record, a scalar is no part of the key."""
        numbers = (case.lo, case.hi, case.modulus, case.residue)
        self.tests.append(c.Test(at + case.offset, case.nbytes, case.is_signed, 0, *numbers))

    def launch(
        self,
        member: int,
        native: NativeLaunch,
        assignment: Assignment,
        scalars: Sequence[tuple[int, int, int]],
        chunk: Chunk,
        together: Sequence[tuple[int, int]] = (),
    ) -> bool:
        """One assignment.  ``together``: its accesses to what all of them use in one memory."""
        op = c.PlayerOp(kind=c.OP_LAUNCH, lane=member)
        self._kernel(op, native)
        op.first_hole = len(self.holes)
        for argument, at, nbytes in scalars:
            to = native.scalars.get(argument)
            if to is None:
                return False
            self.holes.append((at + _PREFIX.size, to, nbytes))
        op.num_holes = len(self.holes) - op.first_hole
        self.launches.append((member, native))
        accesses = [*together]
        for used, use in zip(chunk.plan.buffers, assignment.uses, strict=True):
            segment = self._player.segment(used.buffer, member + 1)
            reads, writes = use.kinds
            if reads:
                accesses.append((segment, 0))
            if writes:
                accesses.append((segment, 1))
        self.uses.append((member, assignment.uses))
        return self._op(op, accesses, ("piece", member, prod(assignment.groups)))

    def _kernel(self, op: c.PlayerOp, native: NativeLaunch) -> None:
        op.object = native.kernel
        op.size[:], op.local[:] = native.size, native.local_size
        op.shared, op.dim = native.shared_nbytes, native.work_dim
        self.block += bytes(-len(self.block) % 16)
        op.block_at, op.block_nbytes = len(self.block), len(native.block)
        self.block += native.block
        self.keep.append(native.keep)

    def together(self, recording: Recording) -> list[tuple[int, int]] | None:
        """Accesses of each assignment to what all of them use in one memory; None where there are too many
        assignments.  To be asked before ``launch``.
        """
        if not recording.together:
            return []
        if len(recording.assignments) > c.BESIDE_MAX:
            return None
        self.num_together = len(recording.assignments)
        self.uses.append((recording.where[0], recording.together))
        backing = self._player.memory.memories.backing
        found = [self._player.segment(buffer, backing(buffer)) for buffer in recording.reached.buffers]
        return [(segment, c.WRITES_TOGETHER) for segment in dict.fromkeys(found)]

    def trial(self, trial: Trial, copies: memoryview) -> bool:
        """What tells whether the launch counts, or is merged, and what happens then.

        ``copies``: where those of members go.
        """
        for buffer, state in trial.undone:
            cells = self._player.buffers.cells_of(buffer)
            if cells is None:
                return False
            self.undone.append((cells[1], buffer.directory.number_of(state)))
        self.num_tried, self.merges = len(trial.members), trial.merges
        if self.num_tried * sum(len(counter.stores) for counter in trial.counters) > c.PIECES_MAX:
            return False
        at = 0
        for each in trial.copies:
            nbytes = len(each.members) * (-(-each.over.nbytes // 8) * 8)
            if at + nbytes > copies.nbytes or not self._copies_of(each, copies[at : at + nbytes]):
                return False
            at += nbytes
        first = len(self.ops)
        for each in trial.copies if trial.merges else ():  # that it was merged, for the profile
            told = ("work", "merge", -1, each.over.nbytes, each.cause)
            if not self._op(c.PlayerOp(kind=c.OP_NONE, lane=trial.members[0]), [], told):
                return False
        for counter in trial.counters:
            self.handed.append(
                c.PlayerHanded(counter.copies, counter.element, counter.is_limited, 0, counter.most)
            )
            for store in counter.stores:
                ends = store.over.start, store.over.stop
                named = (len(self.handed) - 1, len(self.ops), store.buffer.id & 0xFFFFFFFF, 0)
                self.stores.append(c.PlayerStore(*named, store.first, store.step, *ends))
                if not all(self._move(trial, store, member) for member in trial.members):
                    return False
        self.num_moves = len(self.ops) - first
        return True

    def _copies_of(self, of: TrialCopies, copies: memoryview) -> bool:
        """Each member's copy goes where it is looked at."""
        memory, segment = self._player.memory, self._player.segment(of.buffer, HOST)
        host, over = of.buffer.dependencies[HOST], of.over
        view = memory.memories.host_view(of.buffer, over)
        if segment < 0:
            return False
        stride = copies.nbytes // len(of.members)
        for k, member in enumerate(of.members):
            native, place = self._player.members[member], self._place(of.buffer, member, over)
            if place is None or not native.host(copies):
                return False
            op = c.PlayerOp(kind=c.OP_DOWNLOAD, lane=member, nbytes=over.nbytes)
            op.object, op.from_, op.to = place.buffer, place.at, address(copies) + k * stride
            op.near = place.near
            uses = (of.buffer.dependencies[member_memory(member)].use((over,), ()), host.use((), (over,)))
            self.uses.append((member, uses))
            accesses = [(self._player.segment(of.buffer, member_memory(member)), 0)]
            told: tuple[str | int, ...] = ("work", "append", member, over.nbytes, "append")
            if of.units is not None:
                told = ("copy", member_memory(member), HOST, over.nbytes, of.cause, False)
            if not self._op(op, accesses, told):
                return False
        watched = c.PlayerWatched(address(view), address(copies), over.nbytes)
        watched.segment, watched.element_nbytes, watched.num_copies = (
            segment,
            of.element_nbytes,
            len(of.members),
        )
        if of.units is not None:
            watched.smallest_nbytes = min(of.units.smallest_nbytes, of.element_nbytes)
            watched.operation = operation_number(of.units.update)
        self.watched.append(watched)
        return True

    def _move(self, trial: Trial, store: TrialStore, member: int) -> bool:
        """What a member appends goes to who keeps it, once it is known how much that is, and where."""
        player, buffer, over = self._player, store.buffer, store.over
        source = member_memory(member)
        target = HOST if trial.keeper is None else member_memory(trial.keeper)
        here = self._place(buffer, member, over)
        if here is None:
            return False
        op = c.PlayerOp(kind=c.OP_NONE, lane=member)
        if target == HOST:
            view = player.memory.memories.host_view(buffer, over)
            if not player.members[member].host(view):
                return False
            op.kind, op.object, op.size[1] = c.OP_DOWNLOAD, here.buffer, address(view)
            op.near = here.near
            writes = c.WRITES_BESIDE if not player.lanes[member].has_events else 1
        else:
            assert trial.keeper is not None
            there, writes = self._place(buffer, trial.keeper, over), 1
            if there is None or not player.members[trial.keeper].peer(player.members[member]):
                return False
            op.size[1] = there.at
            if target != source:
                op.kind, op.lane = c.OP_COPY, trial.keeper
                op.object, op.other = (player.lanes[each].context for each in (trial.keeper, member))
        op.size[0] = here.at
        accesses: list[tuple[int, int]] = []
        if target != source:
            accesses = [(player.segment(buffer, source), 0), (player.segment(buffer, target), writes)]
            ends = buffer.dependencies[source].use((over,), ()), buffer.dependencies[target].use((), (over,))
            self.uses.append((op.lane, ends))
            self.moves.append((len(self.ops), source, target, store.cause))
        return self._op(op, accesses, ("copy", source, target, 0, store.cause, False))

    def _place(self, buffer: VirtualBuffer, member: int, over: ByteRange) -> NativePlace | None:
        """Where a member has these bytes."""
        allocation = buffer.allocations[member]
        if allocation is None or not allocation.holds(over):
            return None
        self.keep.append(allocation.device_buffer)
        start = over.start - allocation.over.start
        return self._player.members[member].place(allocation.device_buffer, start)

    def _op(self, op: c.PlayerOp, accesses: list[tuple[int, int]], told: tuple[str | int, ...]) -> bool:
        """``told``: what a profile says of it, see ``profile.replayed``."""
        if any(segment < 0 for segment, _ in accesses) or len(self.ops) == c.OPS_MAX:
            return False
        if not self._player.lanes[op.lane].has_events:
            # Members have a context each: one operation can not wait for another one elsewhere.  Nor can a
            # copy that is made at once; but then nothing has to wait for it.
            is_now = op.kind == c.OP_COPY_NOW
            for segment, writes in accesses:
                for lane, wrote in self._touched.setdefault(segment, set()):
                    is_beside = writes == wrote and writes in (c.WRITES_BESIDE, c.WRITES_TOGETHER)
                    if (is_now or lane != op.lane) and (writes or wrote) and not is_beside:
                        return False
                if not is_now:
                    self._touched[segment].add((op.lane, writes))
        op.first_access, op.num_accesses = len(self.accesses), len(accesses)
        self.accesses += accesses
        self.ops.append(op)
        self.told.append(told)
        return True

    def given(self, op: WireOp, build: int, index: int, masked: bytes, mask: bytes) -> c.Given:
        """For C, which copies it."""
        kind, segment, nbytes, blocking, at, to = self.client
        rows = {name: each for name in _ELEMENTS if (each := getattr(self, name))}
        return c.Given(
            op=op,
            key_nbytes=len(masked),
            key=masked,
            mask=mask,
            block=bytes(self.block),
            build=build,
            block_nbytes=len(self.block),
            client_nbytes=nbytes,
            client_at=at,
            client_to=to,
            client_shown=self.shown,
            client_from=self.span[0],
            client_stop=self.span[1],
            client_slack=self.span[2],
            client_span=self.span[3],
            floats=self.floats,
            merges=self.merges,
            index=index,
            client=kind,
            client_segment=segment,
            blocking=blocking,
            watch=self.watch,
            num_beside=self.num_beside,
            num_together=self.num_together,
            num_moves=self.num_moves,
            num_tried=self.num_tried,
            profiled=self.profiled,
            **{name: (_ELEMENTS[name] * len(each))(*each) for name, each in rows.items()},
            **{f"num_{name}": len(each) for name, each in rows.items()},
        )


def are_few_rows(region: Region) -> bool:
    """Whether it is one run, or some at equal distances."""
    if not region.levels:
        return True
    return len(region.levels) == 1 and region.num_runs <= c.RUNS_MAX and region.levels[0][0] <= _PITCH_MAX


def _set_rows(op: c.PlayerOp, from_: Region, to: Region) -> None:
    """Between regions that are few rows, and alike."""
    if from_.levels or to.levels:
        op.num_runs = from_.num_runs
        op.from_pitch, op.to_pitch = (
            each.levels[0][0] if each.levels else each.nbytes for each in (from_, to)
        )


def _by_ends(transfers: Sequence[Transfer]) -> list[Sequence[Transfer]]:
    """Those together that a member gets of another one for the same cause, as many as one kernel brings."""
    groups: dict[tuple[int, int, str, bool], list[Transfer]] = {}
    for each in transfers:
        ends = each.copy.source, each.copy.target
        groups.setdefault((*ends, each.cause, each.is_staged), []).append(each)
    most = FETCHED_MAX
    return [group[at : at + most] for group in groups.values() for at in range(0, len(group), most)]


def _is_chain(transfers: Sequence[Transfer]) -> bool:
    """Whether one of these copies may bring on what another one has brought."""
    targets = {(transfer.buffer.id, transfer.copy.target) for transfer in transfers}
    return any((transfer.buffer.id, transfer.copy.source) in targets for transfer in transfers)


def _are_beside(transfers: Sequence[Transfer]) -> bool:
    """Whether none of these copies writes what another one uses, and one member makes all of a memory."""
    for writer in transfers:
        copy = writer.copy
        for other in transfers:
            if other is writer or other.buffer is not writer.buffer:
                continue
            is_used = copy.target in (other.copy.source, other.copy.target)
            if is_used and do_meet(copy.over, other.copy.over) is not False:
                return False
            if copy.target == other.copy.target == HOST and copy.source != other.copy.source:
                return False
    return True


def address(view: memoryview) -> int:
    """Where its bytes are in this process."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view))
