"""Keeps what was issued as recordings, where the player can issue it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from sdi.commands import CopyBuffer, Fill, Map, Read, Unmap, Write
from sdi.devices.handles import BoundKernel
from sdi.intervals import ByteRange
from sdi.launch.kernel import Binding, Kernel
from sdi.launch.recording import Change, Recording
from sdi.launch.trials import Trial
from sdi.partition.balance import ShareEpoch
from sdi.partition.history import LaunchHistory
from sdi.player import library as c
from sdi.player.builder import Builder, PlayerTables, address
from sdi.player.recorded import Recorded
from sdi.region import Region
from sdi.sampling.scalar_cases import ScalarCase
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST
from sdi.vmem.transfers import Transfer
from sdi.wire.arguments import ArgumentKind, entries
from sdi.wire.layout import layout
from sdi.wire.records import BODY, CARRIED_MAX_NBYTES, STAGED_MAX_NBYTES
from sdi.wire.records import Op as WireOp

_NDRANGE = layout(BODY[WireOp.NDRANGE])
_ON_HOST = {Fill: WireOp.FILL, Map: WireOp.MAP, Unmap: WireOp.UNMAP}
READ_MAX_NBYTES, LARGE_MAX_NBYTES = 2 << 20, 16 << 20
"""More is copied by several threads if Python has it done; what the client alone copies may be longer, and
what GPUs copy to locked memory."""
SHOWN_MAX_NBYTES = 256 << 10
"""Of what the player copies itself, where the client need not."""
_GUARDED_MAX = 1 << 14
"""Launches that reach more buffers are Python's: there are not so many cells."""
_WRITE_GRANULE_NBYTES = 16 << 10


def write_granule(nbytes: int) -> int:
    """What lies beside a write up to multiples of this counts as written too, where the host has it.

    A power of two of at most an eighth: writes of all lengths are a few recordings, and copies little longer.
    """
    return max(_WRITE_GRANULE_NBYTES, 1 << (nbytes // 8).bit_length() >> 1)


def _mask(op: WireOp, free: set[str]) -> bytes:
    """Which bits of such a record count, behind its command fields."""
    shape = layout(BODY[op])
    values: list[int] = []
    for each in BODY[op]:
        ones = (1 << (64 if each.kind == "u64" else 32)) - 1
        # Of a region the bytes in a row, of which there is one.
        values += [0 if each.name in free else ones, *[ones] * (each.count - 1)]
    return shape.pack(*values)


_WRITE_MASK = _mask(WireOp.WRITE, {"offset", "region", "written_ns", "carried_nbytes", "staged_at"})
_READ_MASK = _mask(WireOp.READ, {"offset"})

CellOwner = Kernel | LaunchHistory | ShareEpoch
"""What guards look at."""


class RecordingTable(PlayerTables, Protocol):
    """The player, as far as recordings are kept there."""

    is_on: bool

    def guard(self) -> tuple[int, int]:
        """That members are still the same."""
        ...

    def has_room(self) -> bool:
        """Whether nothing has to be forgotten before more is kept."""
        ...

    def make_room(self) -> None:
        """Before a table is full; nothing is in flight."""
        ...

    def follow(self, owner: CellOwner) -> None:
        """Give ``owner`` cells, if there are some, until all is dropped."""
        ...

    def has(self, key: tuple[object, ...]) -> bool:
        """Whether there is such a recording."""
        ...

    def add(
        self,
        builder: Builder,
        op: WireOp,
        key: tuple[object, ...],
        masked: bytes,
        mask: bytes,
        recorded: Recorded,
        kernel: str = "",
    ) -> None:
        """Execute it from now on."""
        ...

    def reaches_staged(self) -> bool:
        """Whether all members copy from where writes' bytes are staged, without blocking."""
        ...

    def copies_at(self) -> memoryview | None:
        """Where members' copies go that are looked at.  None: there is no room."""
        ...

    def changed(self) -> None:
        """Nothing that was recorded is right any more."""
        ...


class Keeper:
    """Implements ``Replayer``.  Owned by: whoever has the turn."""

    def __init__(self, table: RecordingTable) -> None:
        self._table = table

    @property
    def is_on(self) -> bool:
        """Whether anything is replayed."""
        return self._table.is_on

    def brings(self, nbytes: int) -> bool:
        """Whether members can get so many bytes of a write from where they are."""
        return nbytes <= CARRIED_MAX_NBYTES or self._table.reaches_staged()

    def has_room(self) -> bool:
        """See ``Replayer``."""
        return self._table.has_room()

    def changed(self) -> None:
        """What many recordings rest on is no more as it was."""
        self._table.changed()

    def keep_launch(
        self,
        binding: Binding,
        recording: Recording,
        kernels: Sequence[BoundKernel],
        trial: Trial | None = None,
    ) -> None:
        """Record a launch as it was issued if the player can issue it; ``LaunchHistory.refill`` follows.

        ``trial``: what tells whether it counts.
        """
        launch, kernel, launch_plan = binding.launch, binding.kernel, binding.launch_plan
        chunk = launch_plan.chunks[0]
        if not launch.record or not self._table.is_on or len(chunk.buffers) > _GUARDED_MAX:
            return
        self._table.make_room()
        record = launch.record
        holes: list[tuple[int, int, int]] = []
        mask = bytearray(b"\xff" * len(record))
        tests: list[tuple[int, ScalarCase]] = []
        shaping, cases = kernel.counted(launch_plan.is_trivial)
        fixed = frozenset[int]() if trial is None else trial.scalars
        for number, at, nbytes, counts in _scalars(kernel, record, shaping):
            if number in fixed:
                continue
            mask[at : at + nbytes] = counts
            holes.append((number, at, nbytes))
            if number in cases:
                found = cases[number].tests(record[at : at + nbytes])
                if found is None:
                    return
                tests += [(at, test) for test in found]
        masked = _masked(record, mask)
        history, epoch = launch_plan.history, launch_plan.epoch
        if not self._have_cells(kernel, history, epoch):
            return
        guards = [self._table.guard(), (kernel.cell, self._table.cells.at[kernel.cell])]
        guards.append((history.version_cell, launch_plan.version))
        budgets = [history.cell] + ([epoch.cell] if epoch is not None else [])
        is_watched = epoch is not None or not history.is_fixed
        builder = Builder(self._table, guards, budgets, history.watch if is_watched else 0)
        for buffer in chunk.buffers:
            builder.guard_layout(buffer)
        if not builder.states(chunk, recording.changes):
            return
        for at, test in tests:
            builder.tested(at, test)
        key = (masked, tuple(builder.guards), recording.where, tuple(tests))
        if self._table.has(key) or not builder.transfers(recording.transfers):
            return
        together = builder.together(recording)
        if together is None:
            return
        for member, assignment, bound in zip(recording.where, recording.assignments, kernels, strict=False):
            shape = (assignment.groups, recording.local_size, recording.work_dim)
            native = self._table.members[member].launch(bound, *shape)
            if native is None or not builder.launch(member, native, assignment, holes, chunk, together):
                return
        if trial is not None:
            copies = self._table.copies_at()
            if copies is None or not builder.trial(trial, copies):
                return
        self._table.add(
            builder,
            WireOp.NDRANGE,
            key,
            masked,
            bytes(mask),
            Recorded(
                0,
                key,
                launch,
                recording.transfers,
                recording.moves,
                builder.uses,
                launch_plan,
                recording,
                builder.keep,
                trial=trial,
                moves=builder.moves,
            ),
            kernel.model.name,
        )

    def _have_cells(self, kernel: Kernel, history: LaunchHistory, epoch: ShareEpoch | None) -> bool:
        """Whether each of them has cells, or gets them now."""
        owners: list[CellOwner] = [kernel, history]
        if epoch is not None:
            owners.append(epoch)
        for owner in owners:
            if not owner.cell:
                self._table.follow(owner)
        return all(owner.cell for owner in owners) and history.version_cell != 0 and history.watch != 0

    def keep_read(
        self,
        command: Read,
        buffer: VirtualBuffer,
        transfers: tuple[Transfer, ...],
        change: Change,
    ) -> None:
        """Likewise a read."""
        memory, over, blocking = self._table.memory, command.rectangle.bounds, int(command.blocking)
        target = memory.holding(command.into, over.nbytes)[0] if command.into else None

        def finish(builder: Builder) -> bool:
            segment = self._table.segment(buffer, HOST)
            builder.client = (c.CLIENT_READS, segment, over.nbytes, blocking, 0, 0)
            if target is not None:
                at = address(memory.memories.host_view(buffer, over))
                to = address(memory.arena.view(command.into, over.nbytes))
                builder.client = (c.CLIENT_SHOWN, segment, over.nbytes, blocking, at, to)
                builder.shown = self._table.segment(target, HOST) + 1
                if not builder.shown:
                    return False
            return segment >= 0 and builder.transfers(transfers)

        buffers = (buffer,) if target is None else (buffer, target)
        self._keep_transfer(WireOp.READ, command, buffers, (change,), transfers, finish)

    def keep_on_host(
        self,
        command: Fill | Map | Unmap,
        kind: int,
        buffer: VirtualBuffer,
        transfers: tuple[Transfer, ...],
        change: Change,
    ) -> None:
        """Likewise what is done at a buffer's bytes in the arena, or waits for who is there.

        ``kind``: ``library.CLIENT_...``.
        """

        def finish(builder: Builder) -> bool:
            return builder.on_host(kind, buffer, command.rectangle.bounds) and builder.transfers(transfers)

        self._keep_transfer(_ON_HOST[type(command)], command, (buffer,), (change,), transfers, finish)

    def keep_write(
        self,
        command: Write,
        buffer: VirtualBuffer,
        over: ByteRange,
        slack: int,
        transfers: Sequence[Transfer],
        change: Change,
    ) -> None:
        """Likewise a write whose bytes come with its record, or were written early.

        ``over``: what counts as written; that is so of any other that comes within ``slack`` of its ends.
        ``transfers``: copies of that for members.
        """

        def finish(builder: Builder) -> bool:
            builder.span = (over.start, over.stop, slack, over.nbytes)
            kind = c.CLIENT_WRITTEN if command.written_ns else c.CLIENT_WRITES
            return builder.on_host(kind, buffer, over) and builder.transfers(transfers)

        known = replace(command, data=b"")  # those of the next are others
        copies = tuple(transfers)
        self._keep_transfer(WireOp.WRITE, known, (buffer,), (change,), copies, finish, _WRITE_MASK, over)

    def keep_small(
        self, command: Read | Write, buffer: VirtualBuffer, within: ByteRange, transfers: Sequence[Transfer]
    ) -> None:
        """Likewise a read or write anywhere in ``within``, which leaves all bytes where they are held.

        ``transfers``: its copies, if it were at the beginning.
        """
        nbytes, span_nbytes = command.rectangle.nbytes, command.rectangle.bounds.nbytes

        def finish(builder: Builder) -> bool:
            builder.span, builder.floats = (within.start, within.stop, 0, span_nbytes), True
            segment = self._table.segment(buffer, HOST)
            if isinstance(command, Write):
                at = address(self._table.memory.memories.host_view(buffer, within))
                builder.client = (c.CLIENT_WRITES, segment, nbytes, 0, at, 0)
            else:
                builder.client = (c.CLIENT_READS, segment, nbytes, int(command.blocking), 0, 0)
            return segment >= 0 and builder.transfers(transfers)

        state = buffer.directory.state()
        if state is not None:
            known, op, mask = command, WireOp.READ, _READ_MASK
            if isinstance(command, Write):
                known, op, mask = replace(command, data=b""), WireOp.WRITE, _WRITE_MASK
            change = Change(buffer.directory, state, state)
            copies, of = tuple(transfers), (within, nbytes, span_nbytes)
            self._keep_transfer(op, known, (buffer,), (change,), copies, finish, mask, of, within)

    def keep_brought(
        self,
        command: Write,
        buffer: VirtualBuffer,
        within: ByteRange,
        transfers: Sequence[Transfer],
        change: Change,
    ) -> None:
        """Likewise a write of any length anywhere in ``within``, which a member with memory of its own has.

        ``transfers``: its copy, if it were at the beginning.  What is staged does not come to the arena.
        """
        (transfer,) = transfers
        is_staged = command.rectangle.nbytes > CARRIED_MAX_NBYTES
        kind, most = (
            (c.CLIENT_STAGED, STAGED_MAX_NBYTES) if is_staged else (c.CLIENT_WRITES, CARRIED_MAX_NBYTES)
        )

        def finish(builder: Builder) -> bool:
            builder.span, builder.floats = (within.start, within.stop, 0, most), True
            at = address(self._table.memory.memories.host_view(buffer, within))
            builder.client = (kind, self._table.segment(buffer, HOST), 0, 0, at, 0)
            if builder.client[1] < 0:
                return False
            if is_staged:
                return builder.staged(buffer, transfer.copy.target - 1, within, transfer.cause)
            return builder.carried(transfer)

        known, of = replace(command, data=b""), (within, kind)
        self._keep_transfer(WireOp.WRITE, known, (buffer,), (change,), (), finish, _WRITE_MASK, of, within)

    def keep_unmap(self, command: Unmap) -> None:
        """Likewise the end of a mapping that was only read."""
        self._keep_transfer(WireOp.UNMAP, command, (), (), (), lambda builder: True)

    def keep_fill(
        self, command: Fill, buffer: VirtualBuffer, parts: Sequence[tuple[int, ByteRange]], change: Change
    ) -> None:
        """Likewise a fill; ``parts``: of which member what."""

        def finish(builder: Builder) -> bool:
            return all(builder.fill(buffer, member, over, len(command.pattern)) for member, over in parts)

        self._keep_transfer(WireOp.FILL, command, (buffer,), (change,), (), finish)

    def keep_copy(
        self,
        command: CopyBuffer,
        buffers: tuple[VirtualBuffer, VirtualBuffer],
        parts: Sequence[tuple[int, Region, Region]],
        changes: tuple[Change, ...],
    ) -> None:
        """Likewise a copy between two buffers; ``parts``: which member copies what, and where to."""

        def finish(builder: Builder) -> bool:
            return all(builder.copy(buffers, member, (here, there)) for member, here, there in parts)

        self._keep_transfer(WireOp.COPY, command, buffers, changes, (), finish)

    def _keep_transfer(
        self,
        op: WireOp,
        command: Read | Write | CopyBuffer | Fill | Map | Unmap,
        buffers: Sequence[VirtualBuffer],
        changes: tuple[Change, ...],
        transfers: tuple[Transfer, ...],
        finish: Callable[[Builder], bool],
        mask: bytes | None = None,
        over: object = None,
        within: ByteRange | None = None,
    ) -> None:
        """Record a command that is no launch; ``finish`` adds its operations, or can't.

        ``mask``: which bits of its record count, or all.  ``over``: what tells it from others like it.
        ``within``: see ``Recorded``.
        """
        came = [buffer.came_before(op) for buffer in buffers]
        if not command.record or not self._table.is_on or not all(came):
            return
        self._table.make_room()
        mask = mask or b"\xff" * len(command.record)
        record = _masked(command.record, mask)
        builder = Builder(self._table, [self._table.guard()], [])
        if not all(builder.guard_layout(buffer) for buffer in buffers):
            return
        # A read's target comes last, and may be in any state.
        if not all(map(builder.change, buffers, changes)):
            return
        # Where the bytes are, and so who copies, follows from the states.
        key = (record, tuple(builder.guards), over)
        if self._table.has(key) or not finish(builder):
            return
        recorded = Recorded(
            0,
            key,
            command,
            transfers,
            changes,
            builder.uses,
            None,
            None,
            builder.keep,
            moves=builder.moves,
            within=within,
        )
        self._table.add(builder, op, key, record, mask, recorded)


def _scalars(
    kernel: Kernel, record: bytes, shaping: Mapping[int, int]
) -> Iterator[tuple[int, int, int, bytes]]:
    """Arguments of which access ranges depend on no bit, or not on all: (number, offset of the value in the
    record, bytes, which bits count).
    """
    arguments = entries(record, _NDRANGE.size, len(kernel.model.arguments))
    for number, (kind, at, nbytes) in enumerate(arguments):
        every = (1 << 8 * nbytes) - 1
        counts = every & shaping.get(number, 0)
        if kind == ArgumentKind.VALUE and counts != every:
            yield number, at, nbytes, counts.to_bytes(nbytes, "little")


def _masked(record: bytes, mask: bytes | bytearray) -> bytes:
    found = int.from_bytes(record, "little") & int.from_bytes(mask, "little")
    return found.to_bytes(len(record), "little")
