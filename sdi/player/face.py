"""The player's face in Python: makes recordings, runs them, takes over what is in flight."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable, Sequence

from sdi.appends import COPIES_MAX_NBYTES, MERGED_MAX_NBYTES
from sdi.cells import CELL_TAKEN, Cells
from sdi.commands import Command, Read, Write
from sdi.devices.join import join
from sdi.devices.native import DriverKind, NativeLane, NativeMember
from sdi.devices.ticket import Ticket
from sdi.errors import ClError
from sdi.launch.kernel import LaunchPlan
from sdi.launch.trials import Trial
from sdi.limits import has_few_files
from sdi.partition.gain import Ran
from sdi.player import library as c
from sdi.player.buffers import Buffers
from sdi.player.builder import Builder
from sdi.player.drivers import cuda_table, opencl_table
from sdi.player.keeper import CellOwner, Keeper
from sdi.player.profiled import Profiled
from sdi.player.recorded import Recorded
from sdi.profile.record.recorder import Recorder
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.memory import VirtualMemory
from sdi.wire.layout import layout
from sdi.wire.records import BODY, STAGING_NBYTES, STAGING_OFFSET
from sdi.wire.records import Op as WireOp

_log = logging.getLogger("sdi.player")
_NDRANGE = layout(BODY[WireOp.NDRANGE])
_SEGMENTS_MAX = 1 << 14
_RECORDINGS_MAX = 1 << 14
_GUARDS_MAX = 1 << 20
"""Of all recordings: a launch that may reach thousands of buffers by their addresses has two for each."""
_SEGMENTS_SPARE = 1 << 10
"""More than one recording has."""
_CELLS_SPARE = 1 << 8
"""More than one recording is guarded by."""
_WAYS = ("", ", queues share a stream", ", the longest launch of several queues runs alone")
"""By ``enum streams_way``."""


class Player:
    """Executes a session's known commands.  Owned by: whoever has the turn."""

    def __init__(
        self,
        loaded: tuple[ctypes.CDLL, ctypes.PyDLL],
        ends: tuple[int, int],
        page_address: int,
        memory: VirtualMemory,
        members: Sequence[NativeMember],
        lanes: Sequence[NativeLane],
        recorder: Recorder | None = None,
    ) -> None:
        """``ends``: descriptors of the command and notice sockets.  ``lanes``: of the members.

        ``recorder``: of a profile.
        """
        self._c, self._quick = loaded
        quick = self._quick
        self.memory = memory
        self.members, self.lanes = members, lanes
        self.cells = Cells()
        self._segment_memory = ctypes.create_string_buffer(_SEGMENTS_MAX * quick.sdi_player_segment_nbytes())
        self._released = (ctypes.c_uint64 * c.NODES_MAX)()
        self._told = (c.Told * c.NODES_MAX)()
        self._num_guards = 0
        self._pairs = (ctypes.c_uint64 * (2 * _RECORDINGS_MAX))()
        self._reports = (c.PlayerReport * c.REPORTS_MAX)()
        self._measured: dict[int, dict[int, Ran]] = {}
        self._nbytes, self._left = ctypes.c_uint64(), ctypes.c_uint64()
        self._handle: int = quick.sdi_player_new(
            *ends,
            page_address,
            ctypes.addressof(self.cells.memory),
            ctypes.addressof(self._segment_memory),
            ctypes.addressof(self._released),
        )
        if not self._handle:
            raise MemoryError
        if not has_few_files():
            quick.sdi_player_hang_bell(self._handle)
        self.profiled = None if recorder is None else Profiled(quick, self._handle, recorder)
        kinds = {lane.driver for lane in lanes}
        quick.sdi_player_drivers(
            self._handle,
            cuda_table() if DriverKind.CUDA in kinds else None,
            opencl_table() if DriverKind.OPENCL in kinds else None,
        )
        for lane in lanes:
            quick.sdi_player_lane(self._handle, lane.driver, lane.context, lane.stream)
        self._queues: set[int] = set()
        self._num_streams = 1
        self._streams_max = min(c.STREAMS_MAX, c.LANES_MAX // max(1, len(lanes)))
        self._epoch = self.cells.new()
        self._segments: dict[tuple[int, int], int] = {}
        self._recorded: dict[int, Recorded] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._recent: dict[int, Recorded] = {}
        self.buffers = Buffers(quick, self._handle, self.cells, self._segments)
        self._with_cells: list[CellOwner] = []
        self._replayed = self._carried_nbytes = 0
        self.is_on = True
        self.is_running = False
        self._poking = threading.Lock()
        self.on_drop: Callable[[], None] = lambda: None
        self._reaches_staged: bool | None = None
        self._copies_at: memoryview | None = None
        self.keeper = Keeper(self)

    def close(self) -> None:
        """Nothing is in flight."""
        self.write_profile()
        self.profiled = None
        with self._poking:
            self.is_running = False
        self._c.sdi_player_free(self._handle)

    # -- running --------------------------------------------------------------------------------------

    def run(self, may_play: bool, plan: Callable[[], None]) -> int:
        """Read and execute until Python is needed: why.  ``is_running`` is set.

        ``plan``: has Python plan the next record, if it can; the player looks at it again, whatever it has in
        flight.
        """
        try:
            while True:
                why = int(self._c.sdi_player_run(self._handle, may_play))
                if why == c.UNKNOWN:
                    plan()
                elif why == c.MEASURED:
                    self._learn()
                    self.write_profile()
                else:
                    break
        finally:
            self.is_running = False
        return why

    def offer_ring(self) -> None:
        """Have the client send its records through the ring, as soon as it sees that."""
        self._quick.sdi_player_offer_ring(self._handle)

    def is_told(self) -> bool:
        """Whether the client has written records that nobody has read."""
        return bool(self._quick.sdi_player_is_told(self._handle))

    def may_sleep(self) -> bool:
        """Have the client wake whoever polls the socket next; False: there are records already."""
        return bool(self._quick.sdi_player_may_sleep(self._handle))

    def write_profile(self) -> None:
        """Have the profile, if there is one, say what was executed so far."""
        if self.profiled is not None:
            self.profiled.write()

    def _learn(self) -> None:
        """Learn from the launches that were measured."""
        for report in self._reports[: self._quick.sdi_player_reports(self._handle, self._reports)]:
            recorded, found = self._recorded[report.recording], self._measured.setdefault(report.command, {})
            found[report.op] = Ran(report.began_ns, report.ended_ns)
            launch_plan = recorded.launch_plan
            if len(found) == len(recorded.launches) and launch_plan is not None:
                if launch_plan.measured(launch_plan.plan.boxes, [found[op] for op in sorted(found)]):
                    launch_plan.history.wake()
                self.learnt(launch_plan)
                del self._measured[report.command]

    def learnt(self, launch_plan: LaunchPlan) -> None:
        """Have Python look at a cut that turned out uneven."""
        epoch = launch_plan.epoch
        if epoch is not None and not epoch.is_current:
            self.cells.at[epoch.cell] = 0

    def missed(self, told: c.Told) -> None:
        """A command that was in flight is not complete, and nobody will know how long it took."""
        recorded = self.command_of(told)
        if told.is_measured and told.lanes and recorded is not None and recorded.launch_plan is not None:
            recorded.launch_plan.history.missed(recorded.launch_plan.epoch)

    def stop(self) -> None:
        """Replay nothing any more; nothing is in flight."""
        self.is_on = False
        self.changed()

    def poke(self) -> None:
        """Something was posted: have ``run`` return soon.  Any thread."""
        with self._poking:
            if self.is_running:
                self._quick.sdi_player_poke(self._handle)

    def record(self) -> tuple[bytes, bool]:
        """The record that Python is to act on, and whether there is more after it."""
        at = self._quick.sdi_player_record(self._handle, self._nbytes, self._left)
        nbytes = self._nbytes.value
        return ctypes.string_at(at, nbytes), self._left.value >= nbytes

    def waited(self, gave_up: bool) -> None:
        """``WANTED`` was answered; ``gave_up``: Python goes on with what it has in flight."""
        self._quick.sdi_player_waited(self._handle, gave_up)

    def queue(self, queue: int, is_playable: bool, is_timed: bool = False, launches: bool = True) -> None:
        """A queue was made, or is gone.  ``is_timed``: the application may ask when its commands ran.

        ``launches``: there may be launches in it, which may run beside those of other queues.
        """
        if is_playable and launches:
            self._queues.add(queue)
        else:
            self._queues.discard(queue)
        if self._num_streams < min(len(self._queues), self._streams_max):
            self._add_streams()
        self._quick.sdi_player_queue(self._handle, queue, is_playable, is_timed, launches)

    def _add_streams(self) -> None:
        """Have one more stream on each member, so that another queue's launches run beside the others."""
        found: list[int] = []
        for member in self.members:
            lane = member.side()
            if lane is None:
                self._streams_max = self._num_streams
                return
            found.append(lane.stream)
        self._quick.sdi_player_streams(self._handle, (ctypes.c_void_p * len(found))(*found))
        self._num_streams += 1

    def replayed(self) -> int:
        """Commands that were replayed; markers and barriers do not count."""
        runs: list[int] = [self._quick.sdi_player_runs(self._handle, number) for number in self._recorded]
        return self._replayed + sum(runs)

    def recorded(self) -> list[Recorded]:
        """All recordings."""
        return list(self._recorded.values())

    def matches(self, recorded: Recorded) -> bool:
        """Whether all that it is guarded by holds now."""
        return bool(self._quick.sdi_player_holds(self._handle, recorded.number))

    def records(self) -> dict[str, dict[str, int]]:
        """How many records of each kind were executed, or left to Python and why: ``library.WHYS``."""
        found: dict[str, dict[str, int]] = {}
        for op in WireOp:
            for number, why in enumerate(c.WHYS):
                if count := self._quick.sdi_player_records(self._handle, op, number):
                    found.setdefault(op.name, {})[why] = count
        return found

    def summary(self) -> str:
        """What it did, for the log."""
        quick = self._quick
        looks, naps = quick.sdi_player_looks(self._handle), quick.sdi_player_naps(self._handle)
        records = self.records()
        kinds = [f"{op} {', '.join(f'{w} {n}' for w, n in whys.items())}" for op, whys in records.items()]
        way = _WAYS[quick.sdi_player_way(self._handle)]
        return f"{len(self._recorded)} recordings, {looks} looks, {naps} naps{way}; {'; '.join(kinds)}"

    def under_way(self) -> list[str]:
        """Each command in flight, and what it knows of the stream of records.  Not while it runs."""
        found = [
            f"command {told.id}: stage {told.stage}, not done on lanes {told.lanes:#x}, status {told.status}"
            for told in self.in_flight()
        ]
        unread = "records are unread" if self.is_told() else "all records are read"
        on = "" if self.is_on else ", stopped"
        return [*found, f"{self.cells.at[CELL_TAKEN]} records taken, {unread}{on}", self.summary()]

    # -- what happened --------------------------------------------------------------------------------

    def sync(self) -> list[int]:
        """Have Python's tables say what recordings did; the events that the application let go."""
        self._learn()
        if undone := self._quick.sdi_player_undone(self._handle):
            is_outside = bool(undone & c.SAYS_OUTSIDE)
            self._undone(self._recorded[(undone & ~c.SAYS_OUTSIDE) - 1], is_outside)
        count = self._quick.sdi_player_played(self._handle, self._pairs)
        for at in range(count):
            recorded = self._recorded[self._pairs[2 * at]]
            self._recent[recorded.number] = recorded
            self._count(recorded, self._pairs[2 * at + 1])
        carried_nbytes = self._quick.sdi_player_carried(self._handle)
        self.memory.moved.application += carried_nbytes - self._carried_nbytes
        self._carried_nbytes = carried_nbytes
        released = self._quick.sdi_player_released(self._handle)
        return list(self._released[:released])

    def _undone(self, recorded: Recorded, is_outside: bool) -> None:
        """Members ran a launch that does not count, and that Python is to run now.

        ``is_outside``: only since it stored where residency would change.
        """
        assert recorded.trial is not None
        if is_outside:
            recorded.trial.kernel.outgrows = True
        for buffer, _ in recorded.trial.undone:
            buffer.directory.follow()
        recorded.trial.kernel.was_tried = True
        for transfer in recorded.transfers:
            copy = transfer.copy
            self.memory.accounting.repeated(copy.source, copy.target, transfer.nbytes, transfer.cause, 1)

    def _count(self, recorded: Recorded, runs: int) -> None:
        self._replayed += runs
        accounting = self.memory.accounting
        for change in recorded.changes:
            change.directory.follow()
        if recorded.trial is not None and recorded.trial.merges:
            self._count_merges(recorded.number, recorded.trial, runs)
        elif recorded.trial is not None:
            recorded.trial.kernel.attempts.stands(runs)
        for op, source, target, cause in recorded.moves:
            if nbytes := self._quick.sdi_player_moved(self._handle, recorded.number, op):
                accounting.repeated(source, target, nbytes, cause, runs)
        for transfer in recorded.transfers:
            copy = transfer.copy
            accounting.repeated(copy.source, copy.target, transfer.nbytes * runs, transfer.cause, runs)
        launch_plan, recording = recorded.launch_plan, recorded.recording
        if launch_plan is not None and recording is not None and recording.tally is not None:
            recording.tally.launches += runs
            launch_plan.launches += runs
            launch_plan.history.ran(len(launch_plan.plan.boxes), runs)
            launch_plan.copied(recording.copying, runs)
            if launch_plan.epoch is not None:
                launch_plan.epoch.issued += runs
            self.memory.placed.touch(recording.allocations)
            launch_plan.history.refill(launch_plan.epoch)
        else:
            self.memory.moved.application += _copied_nbytes(recorded.command) * runs

    def _count_merges(self, number: int, trial: Trial, runs: int) -> None:
        accounting, counts = self.memory.accounting, (ctypes.c_uint64 * 2)()
        for i, copies in enumerate(trial.copies):
            nbytes = copies.over.nbytes * runs
            for member in copies.members:
                accounting.repeated(member_memory(member), HOST, nbytes, copies.cause, runs)
            self._quick.sdi_player_merged(self._handle, number, i, counts)
            conflicts, changed_nbytes = counts
            accounting.raced(copies.cause, conflicts)
            accounting.events.twins += runs
            accounting.events.twin_nbytes += nbytes
            accounting.events.diff_nbytes += changed_nbytes

    def in_flight(self) -> list[c.Told]:
        """Commands in flight, as they arrived."""
        count = self._quick.sdi_player_nodes(self._handle, self._told)
        return sorted(self._told[:count], key=lambda told: told.sequence)

    def tickets(self, told: Sequence[c.Told]) -> dict[int, Ticket]:
        """By lane, what is done when all that the player gave to it is; dependencies know of it."""
        bits = 0
        for each in told:
            bits |= each.lanes
        found: dict[int, Ticket] = {}
        for lane in range(len(self.lanes)):
            if bits >> lane & 1:
                found[lane] = self.members[lane].marker()
        # One for all lanes: in which order they wrote the same bytes is not known here any more.
        everything = Ticket()
        if len(found) == 1:
            everything = next(iter(found.values()))
        else:
            join(list(found.values()), everything.complete)
        for recorded in self._recent.values():
            for _, uses in recorded.uses:
                for use in uses:
                    use.by(everything)
            for lane, launch in recorded.launches:
                if lane in found:
                    self.members[lane].launched(launch, found[lane])
        return found

    def command_of(self, told: c.Told) -> Recorded | None:
        """What a command in flight is; None for a marker."""
        return None if told.recording == c.NO_RECORDING else self._recorded[told.recording]

    def handed_over(self, was_busy: bool) -> None:
        """Python has taken over all that was in flight, if anything was."""
        self._recent.clear()
        self._measured.clear()
        if was_busy:
            self._quick.sdi_player_handed_over(self._handle, len(self._segments))
        self.write_profile()

    # -- recording ------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Members are others now: nothing that was recorded is right any more."""
        self.cells.changed(self._epoch)
        self._drop_all()

    def _drop_all(self) -> None:
        self._quick.sdi_player_drop_all(self._handle)
        self._recorded.clear()
        self._num_guards = 0
        self._numbers.clear()
        self._recent.clear()
        # Without recordings no cell says anything: all go back, above all those of what is gone.
        for owner in self._with_cells:
            owner.unfollow()
        self._with_cells.clear()
        self.buffers.forget_all()
        self.on_drop()

    def has_room(self) -> bool:
        """See ``RecordingTable``."""
        return (
            len(self._recorded) < _RECORDINGS_MAX // 2
            and self._num_guards <= _GUARDS_MAX
            and len(self._segments) <= _SEGMENTS_MAX - _SEGMENTS_SPARE
            and self.cells.num_left >= _CELLS_SPARE
        )

    def make_room(self) -> None:
        """Forget everything before a table is full; nothing is in flight."""
        if not self.has_room():
            self._drop_all()
            self._segments.clear()

    def guard(self) -> tuple[int, int]:
        """See ``RecordingTable``."""
        return self._epoch, self.cells.at[self._epoch]

    def follow(self, owner: CellOwner) -> None:
        """See ``RecordingTable``."""
        owner.follow(self.cells)
        if owner.cell:
            self._with_cells.append(owner)

    def copies_at(self) -> memoryview | None:
        """See ``RecordingTable``."""
        if self._copies_at is None:
            nbytes, arena = max(len(self.members) * COPIES_MAX_NBYTES, MERGED_MAX_NBYTES), self.memory.arena
            try:
                self._copies_at = arena.view(arena.allocate(nbytes), nbytes)
            except ClError:  # full: the launch, which was issued, is none the worse for it
                return None
        return self._copies_at

    def reaches_staged(self) -> bool:
        """See ``RecordingTable``."""
        if self._reaches_staged is None:
            staging = self.memory.arena.view(STAGING_OFFSET, STAGING_NBYTES)
            self._reaches_staged = all(member.host(staging) for member in self.members)
            if not self._reaches_staged:
                _log.warning("what is written goes to members by the arena: its front can't be page-locked")
        return self._reaches_staged

    def has(self, key: tuple[object, ...]) -> bool:
        """See ``RecordingTable``."""
        return key in self._numbers

    def segment(self, buffer: VirtualBuffer, memory: int) -> int:
        """-1: there is no room for more."""
        memory = buffer.own(memory)
        is_one = buffer.is_one_of_many and memory in (HOST, self.memory.memories.pooled_memory)
        key = (0 if is_one else buffer.id, memory)
        found = self._segments.get(key)
        if found is None:
            if len(self._segments) == _SEGMENTS_MAX:
                return -1
            found = self._segments[key] = len(self._segments)
            self.buffers.has_segment(buffer, found)
        return found

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
        """See ``RecordingTable``."""
        build = index = 0
        if op is WireOp.NDRANGE:
            body = _NDRANGE.unpack_from(masked)
            build, index = body[0], body[2]
        if self.profiled is not None:
            self.profiled.recorded(builder, recorded.command, recorded.launch_plan, kernel)
        given = builder.given(op, build, index, masked, mask)
        number = self._quick.sdi_player_add(self._handle, given)
        if number < 0:
            return
        recorded.number = number
        recorded.guards, recorded.launches = builder.guards, builder.launches
        self._num_guards += len(builder.guards)
        self._recorded[number] = recorded
        self._numbers[key] = number


def _copied_nbytes(command: Command) -> int:
    """What the client copies of a command each time; what comes with records is counted by the player."""
    if isinstance(command, Read) or (isinstance(command, Write) and command.written_ns):
        return 0 if command.unasked else command.rectangle.nbytes
    return 0
