"""One application's session: reads its records, has them acted on, and rests in between."""

from __future__ import annotations

import logging
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from sdi.cells import CELL_TAKEN
from sdi.commands import Read
from sdi.devices.base import Device
from sdi.devices.polling import Polling
from sdi.devices.pooled import PooledMemory
from sdi.errors import BadRecord
from sdi.launch.counters import Counters
from sdi.launch.issue import Issuer
from sdi.launch.launcher import Launcher, SplitMode
from sdi.launch.learning import Learning
from sdi.launch.profiling import closing
from sdi.launch.programs.builds import Note, Target, on_all
from sdi.launch.replayers import PartsReplayer
from sdi.player.face import Player
from sdi.player.library import Recycled
from sdi.profile.record.recorder import Recorder
from sdi.runtime.command_graph import SchedulerCore
from sdi.runtime.engine import Engine
from sdi.runtime.virtual_device import VirtualDevice
from sdi.service.dispatch import Dispatcher
from sdi.service.door import check_header, name_of
from sdi.service.facts import announce
from sdi.service.kernel_output import Printed
from sdi.service.notifications import Notices
from sdi.service.outbox import Outbox
from sdi.service.play import Play, player_of
from sdi.service.status_page import StatusPage
from sdi.service.turns import Turns
from sdi.settings import Balance, Verify
from sdi.vmem.arena import Arena
from sdi.vmem.host import HostWorker
from sdi.vmem.memories import brings_staged, computes_in_arena
from sdi.vmem.memory import Coherence, VirtualMemory
from sdi.vmem.spill.budget import Spill
from sdi.vmem.spill.spilling import spilling_of
from sdi.wire.layout import layout
from sdi.wire.records import HEADER, STAGED_MAX_NBYTES, STAGED_TWICE_MAX_NBYTES

_log = logging.getLogger("sdi.session")

_HEADER = layout(HEADER)
_RECV_NBYTES = 1 << 18
_LOOK_AFTER = 16
"""Records after which the service looks what is complete meanwhile."""
_LINGER_NS = 100_000
"""How long it goes on looking when there is nothing else to do."""
_IDLE_S = 10.0
"""How often a session that has nothing to do looks whether members keep memory that others could use."""


class Session:
    """Serves one application until its end of the command socket closes.

    ``commands``, ``notices``: connected stream sockets.  ``shared``: the arena and its page, where the client
    has been told of the image; else it is told now.  Owned by: whoever has the turn.
    """

    def __init__(
        self,
        commands: socket.socket,
        notices: socket.socket,
        devices: Sequence[Device],
        split: SplitMode,
        verify: Verify = "off",
        coherence: Coherence = "lazy",
        explain: bool = False,
        printed: Printed | None = None,
        recorder: Recorder | None = None,
        balance: Balance = ("off", 0),
        pooled: PooledMemory | None = None,
        shared: tuple[Arena, StatusPage] | None = None,
        plays: bool = False,
        learns: bool = False,
        polling: Polling | None = None,
        is_image: bool = True,
        nodes: Sequence[Device] = (),
        spill: Spill | None = None,
        has_limits: bool = True,
    ) -> None:
        """``plays``: known commands are executed by the player, if it can.  ``learns``: see ``Learning``.

        ``polling``: what the members were opened with.  ``is_image``: the application sees one device, else
        each member: then nothing is split.  ``nodes``: see ``VirtualMemory``.  ``spill``: what the arena was
        made with.  ``has_limits``: members have no more memory than they say, so what they use is theirs.
        """
        if not is_image:
            split, balance, verify = "never", ("off", 0), "off"
        self._commands = commands
        self.polling = polling or Polling()
        self._arena, page = (
            announce(commands, devices, is_image=is_image, pooled=pooled) if shared is None else shared
        )
        self.page = page
        self._turns = Turns(self.polling, page.wake, recorder)
        self.post = post = self._turns.post
        self._notices = Notices(notices, post)
        self._devices = devices
        self._has_pools = any(device.capabilities.kind.keeps_memory for device in devices)
        self._trim_ns = 0
        self._host = HostWorker()
        self._spilling = spilling_of(self._arena, spill)
        keeps_copies = coherence != "lazy" or verify != "off" or has_limits or pooled or nodes or spill
        self._memory = VirtualMemory(
            self._arena,
            devices,
            self._host,
            post,
            coherence,
            pooled=pooled,
            nodes=nodes,
            spilling=self._spilling,
            in_arena=None if keeps_copies or not is_image else computes_in_arena(devices, split == "always"),
        )
        page.rest(self._memory.memories.together_most_nbytes)
        page.stage(STAGED_TWICE_MAX_NBYTES)
        self._memory.accounting.recorder = self._recorder = recorder
        self.counters = Counters(
            len(devices),
            self._memory.accounting,
            self._memory.transfers.links,
            split if is_image else "apart",
            max(device.capabilities.kind.assignment_ns for device in devices),
        )
        self.counters.nodes = tuple(device.capabilities.node for device in devices)
        note: Note | None = None
        if explain or recorder is not None:
            from sdi.explain.notes import note_kernel as note
        target = Target(devices, verify != "off", note, is_image)
        verifier = None
        if target.verified:
            from sdi.launch.verify.verify import Verifier

            verifier = Verifier(self._memory, self.counters, post, self._end, verify == "warn")
        self._launcher = Launcher(self._memory, split, self.counters, verifier, recorder, balance)
        is_usual = split == "auto" and coherence == "lazy" and verifier is None and balance[0] != "random"
        self.learning = Learning([each.capabilities for each in devices]) if learns and is_usual else None
        virtual_device = VirtualDevice(self._memory, self._launcher)
        self.printed = printed
        self._outbox = Outbox(commands, self._notices, page, self._memory, printed, self._copied, self.gone)
        self._engine = Engine(SchedulerCore(), virtual_device, self._outbox, post, recorder)
        self.player: Player | None = None
        """What executes known commands, if anything does."""
        if plays and not (verifier or explain or coherence == "host"):
            self.player = player_of(devices, (commands, notices), self._arena.address, self._memory, recorder)
        self._dispatcher = Dispatcher(
            self._engine,
            self._memory,
            self._launcher,
            self._outbox,
            target,
            post,
            printed is not None,
            self.player,
            recorder,
            self.learning,
        )
        self._play: Play | None = None
        self.counters.failures = self._outbox.failures
        if self.player is not None:
            self._play = Play(self, self.player, self._engine, self._memory, recorder)
            self._launcher.player = virtual_device.player = self.player.keeper
            self.player.on_drop = self._launcher.forget_kernels
            self.counters.records = self.player.records
            self._turns.poke = self.player.poke
            self.player.offer_ring()
            if brings_staged(devices):
                page.stage(STAGED_MAX_NBYTES)
        self._selector = selectors.PollSelector()  # which needs no descriptor: there may be few
        self._unparsed = bytearray()
        self._needed = _HEADER.size
        self._num_records = 0
        self._open = True

    def keep_parts(self, made: Callable[[VirtualMemory, Issuer], PartsReplayer]) -> None:
        """Have other processes keep their parts of recordings; before ``run``."""
        self._launcher.keep_parts(made)

    def _copied(self, command_id: int, status: int) -> None:
        self.post(lambda: self._engine.transfer_done(command_id, status))

    def under_way(self) -> list[str]:
        """What Python has under way, a line each: commands, and who has something to do."""
        busy = [each.capabilities.name for each in self._devices if each.native and not each.native.is_idle()]
        busy += ["the host"] * (not self._memory.host.is_idle())
        return [*self._engine.under_way(), f"busy: {', '.join(busy) or 'nobody'}"]

    # -- the loop -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the application is gone."""
        self._commands.setblocking(False)
        self._selector.register(self._commands, selectors.EVENT_READ)
        try:
            while self._open:
                self._wait()
                self._turns.begin_with([self._receive])
        finally:
            self.page.end()
            self.polling.idle()

    def _wait(self) -> None:
        """Wait until there is something to read.

        What members finish soon is seen here, without waking anybody; the rest is left to their threads.
        """
        now_ns = time.monotonic_ns()
        if self._keeps_memory() and now_ns > self._trim_ns:
            self._trim(now_ns)
        limit_ns, player = now_ns + _LINGER_NS, self.player
        while self._turns.look():
            if (player is not None and player.is_told()) or self._selector.select(0):
                return
            if time.monotonic_ns() > limit_ns:
                break
        self.polling.idle()
        while player is None or player.may_sleep():
            if self._selector.select(_IDLE_S if self._keeps_memory() else None):
                return
            self._trim(time.monotonic_ns())

    def _keeps_memory(self) -> bool:
        """Whether members may have memory that nobody uses."""
        return self._has_pools or self._memory.recycling.has_places

    def _trim(self, now_ns: int) -> None:
        """Have members give back memory that they did not use for long: other processes may want it."""
        self._trim_ns = now_ns + int(_IDLE_S * 1e9)
        self.post(self._memory.trim)

    def close(self) -> None:
        """Stop the session's threads after what was issued is done.  The sockets stay the caller's."""
        self._dispatcher.close()
        elsewhere = [device for device in self._devices if device.capabilities.node]
        if elsewhere:
            on_all(elsewhere, lambda number: elsewhere[number].close())
        for device in self._devices:
            if not device.capabilities.node:
                device.close()
        if self.player is not None:  # then no driver calls it back any more
            self.player.close()
        self._host.close()
        if self._spilling is not None:
            self._spilling.close()
        self._notices.close()
        self._selector.close()
        self._arena.close()

    def end_files(self) -> None:
        """The process ends, and with it what buffers have of files."""
        if self._arena.file is not None:
            self._arena.file.end()

    def count(self) -> None:
        """Have the counters tell what the client counts by itself."""
        for name, value in self.page.counted().items():
            setattr(self._memory.accounting.events, name, value)

    def end_profile(self) -> None:
        """Write the rest of the profile, if there is one."""
        if self._recorder is not None:
            if self.player is not None and not self.player.is_running:
                self.player.write_profile()
            from sdi.explain.last_launch import explained, for_profile

            notes = {name: for_profile(each) for name, each in explained(self.counters).items()}
            self._recorder.close(closing(notes, self._memory.transfers.links, self._memory.accounting))

    def _receive(self) -> None:
        if self._play is not None:
            self._play.turn()
            return
        try:
            data = self._commands.recv(_RECV_NBYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self._open = False
            return
        self._unparsed += data
        if len(self._unparsed) >= self._needed:
            data, self._unparsed = bytes(self._unparsed), bytearray()
            self._unparsed += data[self._records(data) :]

    def progress(self) -> int:
        """Another number when a record was dealt with.  Any thread."""
        return self._num_records if self.player is None else self.player.cells.at[CELL_TAKEN]

    def take(self, record: bytes, has_more: bool) -> None:
        """Act on one record, or on the head of one that can't be."""
        nbytes, number, record_id = _HEADER.unpack_from(record)
        try:
            check_header(number, nbytes)
            self._dispatcher.act(number, record_id, record, has_more)
        except BadRecord as error:
            self._damaged(number, record_id, error)

    def plan(self, record: bytes) -> None:
        """See ``Dispatcher``."""
        self._dispatcher.plan(record)

    def _damaged(self, number: int, record_id: int, error: BadRecord) -> None:
        _log.error("the command stream is damaged: %s %d: %s", name_of(number), record_id, str(error))
        self.gone()
        self._end()

    def gone(self) -> None:
        """Nothing more comes from the application."""
        self._open = False

    @property
    def is_open(self) -> bool:
        """Whether more may come."""
        return self._open

    def drain(self) -> None:
        """Run what was posted; the caller has the turn."""
        self._turns.drain()

    @property
    def is_behind(self) -> bool:
        """Whether something was posted that did not run yet, or a notice is not sent."""
        return self._turns.is_behind or self._notices.is_behind

    def recycled(self, told: Recycled) -> None:
        """See ``Dispatcher``."""
        self._dispatcher.recycled(told)

    def keeps_staged(self, command_id: int, nbytes: int) -> None:
        """So many staged bytes are in use until the command is over."""
        self._outbox.keeps_staged(command_id, nbytes, is_in_place=True)

    def expect_transfer(self, command_id: int, read: Read) -> None:
        """The client copies what ``read`` reads."""
        self._outbox.expect_transfer(command_id, read.rectangle.nbytes, read.blocking)

    def _records(self, data: bytes) -> int:
        """Act on the whole records at the start of ``data``: how many bytes these are."""
        at, end, count = 0, len(data), 0
        number, record_id, self._needed = 0, 0, _HEADER.size
        try:
            while end - at >= _HEADER.size:
                nbytes, number, record_id = _HEADER.unpack_from(data, at)
                check_header(number, nbytes)
                if end - at < nbytes:
                    self._needed = nbytes
                    break
                has_more = end - at >= 2 * nbytes  # a release may be all that follows
                self._dispatcher.act(number, record_id, data[at : at + nbytes], has_more)
                at += nbytes
                count += 1
                self._num_records += 1
                if not count % _LOOK_AFTER:
                    self.polling.poll()
                    self._turns.drain()
        except BadRecord as error:
            self._damaged(number, record_id, error)
        return at

    def _end(self) -> None:
        """End the session: the application finds the service gone, and all that it waits for fails."""
        self.page.end()
        with suppress(OSError):  # the application has gone already
            self._commands.shutdown(socket.SHUT_RDWR)
