"""A session's turns with the player: which records C executes, which Python, and how work changes hands."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Sequence
from typing import Protocol

from sdi.cells import CELL_AWAITS, CELL_NO_WAITS, CELL_POSTED, CELL_PYTHON_EVENTS
from sdi.commands import Command, Marker, Read
from sdi.devices.base import Device
from sdi.devices.cuda.context import forget_current
from sdi.devices.native import NativeLane, NativeMember
from sdi.devices.polling import Polling
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.player import library as c
from sdi.player.face import Player
from sdi.player.library import Recycled
from sdi.player.load import NoPlayer, loaded
from sdi.profile.record.recorder import Recorder
from sdi.runtime.engine import Engine
from sdi.vmem.directory import HOST
from sdi.vmem.memory import VirtualMemory

_log = logging.getLogger("sdi.player")
_LOOK_AFTER = 16
_DRAIN_NS = 1_000_000_000
_SPIN_NS = 200_000
_NAP_S = 50e-6
_NAP_PART = 64
"""Naps are this part of what was waited for already: members on a CPU need it themselves."""


def player_of(
    devices: Sequence[Device],
    ends: tuple[socket.socket, socket.socket],
    page_address: int,
    memory: VirtualMemory,
    recorder: Recorder | None = None,
) -> Player | None:
    """None where it can't be built, or members' operations can't be issued by it."""
    members: list[NativeMember] = []
    lanes: list[NativeLane] = []
    for device in devices:
        native = device.native
        lane = native.lane() if native is not None else None
        if native is None or lane is None:
            _log.info("nothing is replayed in C: %s gives no handles for it", device.capabilities.name)
            return None
        members.append(native)
        lanes.append(lane)
    if len(lanes) > c.LANES_MAX or len({lane.driver for lane in lanes}) > 1:
        _log.info("nothing is replayed in C: members of several kinds, or more than %d", c.LANES_MAX)
        return None
    try:
        library = loaded()
    except NoPlayer as error:
        _log.warning("%s", error)
        return None
    commands, notices = ends
    return Player(
        library, (commands.fileno(), notices.fileno()), page_address, memory, members, lanes, recorder
    )


class PlayedSession(Protocol):
    """The session, as far as its player needs it."""

    @property
    def is_open(self) -> bool:
        """Whether the application is there."""
        ...

    @property
    def is_behind(self) -> bool:
        """Whether something was posted, or has to be sent to the client."""
        ...

    @property
    def polling(self) -> Polling:
        """Who asks members what is complete."""
        ...

    def take(self, record: bytes, has_more: bool) -> None:
        """Act on a record."""
        ...

    def plan(self, record: bytes) -> None:
        """Have the player know what to do for a record, where that needs nothing to be issued."""
        ...

    def drain(self) -> None:
        """Run what was posted."""
        ...

    def gone(self) -> None:
        """The application has gone."""
        ...

    def recycled(self, told: Recycled) -> None:
        """The player has recycled a buffer."""
        ...

    def keeps_staged(self, command_id: int, nbytes: int) -> None:
        """So many staged bytes are in use until the command is over."""
        ...

    def expect_transfer(self, command_id: int, read: Read) -> None:
        """The client will say when it has copied."""
        ...


class Play:
    """Owned by: whoever has the turn."""

    def __init__(
        self,
        session: PlayedSession,
        player: Player,
        engine: Engine,
        memory: VirtualMemory,
        recorder: Recorder | None = None,
    ) -> None:
        self.player = player
        self._recorder = recorder
        self._session = session
        self._engine = engine
        self._memory = memory

    def turn(self) -> None:
        """Act on all that there is to read."""
        session, player, count = self._session, self.player, 0
        while session.is_open:
            player.is_running = True  # what is posted from now on ends ``run``
            player.cells.at[CELL_POSTED] = 0  # what was posted before is done, or nothing is played now
            may_play = self._may_play()
            core = self._engine.core
            player.cells.at[CELL_PYTHON_EVENTS] = core.num_known
            player.cells.at[CELL_NO_WAITS] = may_play and not core.has_succeeded()
            player.cells.at[CELL_AWAITS] = self._engine.awaits_client()
            why = self._run(may_play)
            forget_current()
            if may_play:
                self._take_over()
            match why:
                case c.RECORD:
                    record, has_more = player.record()
                    session.take(record, has_more)
                    count += 1
                    if not count % _LOOK_AFTER:
                        session.polling.poll()
                    if not has_more or not count % _LOOK_AFTER:  # the player may rest, while the client waits
                        session.drain()
                case c.IDLE:
                    return
                case c.END:
                    _log.info("%s", player.summary())
                    session.gone()
                case c.POSTED:
                    session.drain()
                case c.WANTED:
                    self._drain()
                case _:
                    self._stop()

    def _run(self, may_play: bool) -> int:
        """Run the player, which tells the profile by itself what it does, and waits between."""
        recorder = self._recorder
        if recorder is None or not may_play:
            return self.player.run(may_play, self._plan)
        recorder.turn_ends()
        try:
            return self.player.run(True, self._plan)
        finally:
            recorder.turn_begins()

    def _may_play(self) -> bool:
        if self._engine.has_failed and self.player.is_on:
            # What a failure leaves is in no state that recordings are guarded by.
            self.player.stop()
            _log.info("a command failed: nothing is replayed any more")
        if not self.player.is_on or self._session.is_behind or not self._engine.is_settled():
            return False
        return all(member.is_idle() for member in self.player.members) and self._memory.host.is_idle()

    def _drain(self) -> None:
        """Wait until Python has nothing in flight, so that the player may go on."""
        begin_ns = time.monotonic_ns()
        while not (may_play := self._may_play()):
            waited_ns = time.monotonic_ns() - begin_ns
            if waited_ns > _DRAIN_NS or not self.player.is_on or self._engine.awaits_client():
                break
            if waited_ns > _SPIN_NS:
                time.sleep(max(_NAP_S, waited_ns / _NAP_PART * 1e-9))
            self._session.polling.poll()
            self._session.drain()
        self.player.waited(not may_play)

    def _stop(self) -> None:
        """A driver refused something: Python finds out what that leaves, and goes on without the player."""
        _log.warning("a driver refused what the player gave it: sdi goes on without")
        self.player.stop()

    def _plan(self) -> None:
        """Have the player know the next record, if that can be; all that is in flight stays its own."""
        forget_current()
        self._sync()
        for buffer in self.player.buffers.recycled(takes_over=False):
            self._session.recycled(buffer)
        self._session.plan(self.player.record()[0])

    def _sync(self) -> None:
        """Have Python know what was played."""
        for event in self.player.sync():
            self._engine.core.release_event(event)

    def _take_over(self) -> None:
        """Have Python know what was played, and own all that is in flight."""
        player = self.player
        self._sync()
        recycled = player.buffers.recycled(takes_over=True)
        told = player.in_flight()
        if told:
            tickets = player.tickets(told)
            for each in told:
                self._adopt(each, tickets)
        for buffer in recycled:
            self._session.recycled(buffer)
        player.handed_over(bool(told))

    def _adopt(self, told: c.Told, tickets: dict[int, Ticket]) -> None:
        recorded = self.player.command_of(told)
        command: Command = recorded.command if recorded is not None else Marker(False)
        if self.player.profiled is not None:
            self.player.profiled.adopted(told, command)
        node = self._engine.core.adopt(
            told.queue, told.id, told.slot, command, told.submitted_ns, bool(told.forgotten)
        )
        self.player.missed(told)
        if told.staged:
            self._session.keeps_staged(told.id, told.staged)
        if told.wants_notice:
            node.watches.append(0)
        waits = [ticket for lane, ticket in tickets.items() if told.lanes >> lane & 1]
        if told.ended_ns:  # only what is before it in its queue is not over
            ran = Ticket()
            ran.complete(None, told.began_ns, told.ended_ns)
            waits.append(ran)
        if told.status and recorded is not None:
            failed = completed(DeviceFailed("a member", f"its driver refused a command with {told.status}"))
            for _, uses in recorded.uses:
                for use in uses:
                    use.by(failed)
            waits.append(failed)
        transfer: Ticket | None = None
        if isinstance(command, Read):
            transfer = Ticket()
            assert recorded is not None
            over = recorded.within or command.rectangle.bounds
            buffer = self._memory.buffer(command.buffer)  # its release is a record that is Python's
            buffer.dependencies[HOST].read_by(over, transfer)
            if command.into:
                node.packed_at = buffer.offset + over.start
                target, there = self._memory.holding(command.into, over.nbytes)
                target.dependencies[HOST].written_by(there, transfer)
            else:
                self._session.expect_transfer(told.id, command)
        self._engine.adopt(node, waits, transfer, is_copying=told.stage == 1)
