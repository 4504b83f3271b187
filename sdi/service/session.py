"""One application's session: decodes its records, answers, and runs the engine.

The scheduler is a role, taken in turns: ``Session.run`` takes it for each batch of records, a thread that
posts (a member's ``-done`` thread with a completion, say) takes it if it is free and else leaves its call to
whoever has it.  So a completion reaches the application without waking another thread of ours first.  Nothing
that is done in a turn waits.
"""

from __future__ import annotations

import logging
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from sdi import limits
from sdi.cells import STAGE_IN_USE, STAGE_PARKED
from sdi.commands import Launch, Map, Read, Unmap, Write
from sdi.devices.base import Device
from sdi.devices.join import join
from sdi.devices.polling import Polling
from sdi.devices.spread import SpreadDevice
from sdi.errors import BadRecord, BuildError, ClError, Status
from sdi.launch.counters import Counters
from sdi.launch.kernel import Build
from sdi.launch.launcher import Launcher, SplitMode
from sdi.launch.learning import Learning
from sdi.launch.profiling import closing
from sdi.launch.programs.builds import Compiled, Note, Target
from sdi.player.face import READ_MAX_NBYTES, Player
from sdi.player.library import Recycled
from sdi.profile.record.recorder import Recorder
from sdi.region import Region
from sdi.runtime.command_graph import CommandNode, SchedulerCore
from sdi.runtime.engine import Engine
from sdi.runtime.virtual_device import VirtualDevice
from sdi.service.door import Door, Limits, RecordEntry, check_header, name_of
from sdi.service.facts import announce
from sdi.service.kernel_output import Printed
from sdi.service.notifications import Notices
from sdi.service.play import Play, player_of
from sdi.service.replies import build_payload
from sdi.service.status_page import StatusPage
from sdi.settings import Balance, Verify
from sdi.vmem.arena import Arena
from sdi.vmem.host import HostWorker
from sdi.vmem.memory import Coherence, VirtualMemory
from sdi.wire.layout import layout, padded
from sdi.wire.opencl import DeviceInfo, MemFlags, QueueProperties
from sdi.wire.records import (
    COMMAND,
    COMMANDS,
    FAILURE_MAX_NBYTES,
    HEADER,
    NUM_SLOTS,
    REPLIED,
    NoticeKind,
    Op,
    record_layout,
)

_log = logging.getLogger("sdi.session")

_HEADER = layout(HEADER)
_REPLY = record_layout(Op.REPLY)
_PREFIX = layout(HEADER, COMMAND)
_NDRANGE, _RELEASE_EVENT = Op.NDRANGE.value, Op.RELEASE_EVENT.value
_RECV_NBYTES = 1 << 18
_LOOK_AFTER = 16
"""Records after which the service looks what is complete meanwhile."""
_LINGER_NS = 100_000
"""How long it goes on looking when there is nothing else to do."""
_IDLE_S = 10.0
"""How often a session that has nothing to do looks whether members keep memory that others could use."""
_OUT_OF_ORDER = QueueProperties.OUT_OF_ORDER_EXEC_MODE_ENABLE.value
_PROFILING = QueueProperties.PROFILING_ENABLE.value
_COPY_OR_USE_HOST_PTR = MemFlags.COPY_HOST_PTR | MemFlags.USE_HOST_PTR


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
        spread: SpreadDevice | None = None,
        shared: tuple[Arena, StatusPage] | None = None,
        plays: bool = False,
        learns: bool = False,
        polling: Polling | None = None,
    ) -> None:
        """``plays``: known commands are executed by the player, if it can.  ``learns``: see ``Learning``.

        ``polling``: what the members were opened with.
        """
        self._commands = commands
        self._notices = Notices(notices, self.post)
        self._devices = devices
        self._polling = polling or Polling()
        self._inbox: deque[Callable[[], None]] = deque()
        self._turn = threading.Lock()
        self._has_pools = any(device.capabilities.kind.keeps_memory for device in devices)
        self._trim_ns = 0
        self._arena, self._page = announce(commands, devices) if shared is None else shared
        self._host = HostWorker()
        self._memory = VirtualMemory(self._arena, devices, self._host, self.post, coherence, spread=spread)
        self._memory.accounting.recorder = self._recorder = recorder
        self.counters = Counters(len(devices), self._memory.accounting)
        note: Note | None = None
        if explain or recorder is not None:
            from sdi.explain.notes import note_kernel as note
        self._target = Target(devices, verify != "off", note)
        verifier = None
        if self._target.verified:
            from sdi.launch.verify.verify import Verifier

            verifier = Verifier(self._memory, self.counters, self.post, self._end, verify == "warn")
        self._launcher = Launcher(self._memory, split, self.counters, verifier, recorder, balance)
        is_usual = split == "auto" and coherence == "lazy" and verifier is None and balance[0] != "random"
        self.learning = Learning([each.capabilities for each in devices]) if learns and is_usual else None
        virtual_device = VirtualDevice(self._memory, self._launcher)
        self._engine = Engine(SchedulerCore(), virtual_device, self, self.post, recorder)
        self._play: Play | None = None
        if plays and not (verifier or explain or coherence == "host"):
            player = player_of(devices, (commands, notices), self._arena.address, self._memory, recorder)
            if player is not None:
                self._play = Play(self, player, self._engine, self._memory, recorder)
                self._launcher.player = virtual_device.player = player
                player.on_drop = self._launcher.forget_kernels
                self.counters.records = player.records
        self._builder = ThreadPoolExecutor(1, "sdi-build")
        self.printed = printed
        self._printing: dict[int, frozenset[int]] = {}
        self._num_created = 0
        self._transfer_nbytes: dict[int, tuple[int, bool]] = {}
        self._selector = selectors.PollSelector()  # which needs no descriptor: there may be few
        self._door = Door(_limits(devices), lambda event: self._engine.core.node(event) is not None)
        self._unparsed = bytearray()
        self._needed = _HEADER.size
        self.num_records = 0
        self._open = True

    # -- from other threads ---------------------------------------------------------------------------

    def post(self, call: Callable[[], None]) -> None:
        """Run ``call`` in a turn of the scheduler: now, or by the thread that has the turn.  Any thread."""
        self._inbox.append(call)
        if self._play is not None:
            self._play.player.poke()
        self._take_turns()

    # -- the loop -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the application is gone."""
        self._commands.setblocking(False)
        self._selector.register(self._commands, selectors.EVENT_READ, self._receive)
        try:
            while self._open:
                ready = self._ready()
                self._polling.is_busy = True
                self._turn_with(ready)
                self._take_turns()
        finally:
            self._polling.idle()

    def _turn_with(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        """A turn that begins with what there is to read."""
        with self._turn:
            if self._recorder is not None:
                self._recorder.turn_begins()
            for key, _ in ready:
                key.data()
            self._drain()
            if self._recorder is not None:
                self._recorder.turn_ends()

    def _ready(self) -> list[tuple[selectors.SelectorKey, int]]:
        """What there is to read; blocks until there is.

        What members finish soon is seen here, without waking anybody; the rest is left to their threads.
        """
        now_ns = time.monotonic_ns()
        if self._keeps_memory() and now_ns > self._trim_ns:
            self._trim(now_ns)
        limit_ns = now_ns + _LINGER_NS
        while self._look():
            ready = self._selector.select(0)
            if ready:
                return ready
            if time.monotonic_ns() > limit_ns:
                break
        self._polling.idle()
        while not (ready := self._selector.select(_IDLE_S if self._keeps_memory() else None)):
            self._trim(time.monotonic_ns())
        return ready

    def _keeps_memory(self) -> bool:
        """Whether members may have memory that nobody uses."""
        return self._has_pools or self._memory.parking.has_places

    def _trim(self, now_ns: int) -> None:
        """Have members give back memory that they did not use for long: other processes may want it."""
        self._trim_ns = now_ns + int(_IDLE_S * 1e9)
        self.post(self._memory.trim)

    def _look(self) -> bool:
        """Complete what is done on members; whether anything is left there."""
        with self._turn:
            is_left = self._polling.poll()
            self._drain()
        self._take_turns()
        return is_left

    def close(self) -> None:
        """Stop the session's threads after what was issued is done.  The sockets stay the caller's."""
        self._builder.shutdown(cancel_futures=True)
        for device in self._devices:
            device.close()
        if self._play is not None:  # then no driver calls it back any more
            self._play.player.close()
        self._host.close()
        self._notices.close()
        self._selector.close()
        self._arena.close()

    def end_profile(self) -> None:
        """Write the rest of the profile, if there is one."""
        if self._recorder is not None:
            if self._play is not None and not self._play.player.is_running:
                self._play.player.write_profile()
            from sdi.explain.last_launch import explained, for_profile

            notes = {name: for_profile(each) for name, each in explained(self.counters).items()}
            self._recorder.close(closing(notes, self._memory.links, self._memory.accounting))

    def _take_turns(self) -> None:
        """Run what was posted while nobody had the turn; after the release look again, or a call is lost."""
        while self._inbox and self._turn.acquire(blocking=False):
            if self._recorder is not None:
                self._recorder.turn_begins()
            try:
                self._drain()
            finally:
                if self._recorder is not None:
                    self._recorder.turn_ends()
                self._turn.release()

    def _drain(self) -> None:
        """Run what was posted, then let the application's threads look.  The caller has the turn."""
        inbox = self._inbox
        if inbox:
            self._polling.gathers = True
            while inbox:
                self._guarded(inbox.popleft())
            self._polling.send()
        self._page.wake()

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

    def take(self, record: bytes, has_more: bool) -> None:
        """Act on one record, or on the head of one that can't be."""
        nbytes, number, record_id = _HEADER.unpack_from(record)
        try:
            check_header(number, nbytes)
            self._record(number, record_id, record, has_more)
            self.num_records += 1
        except BadRecord as error:
            self._damaged(number, record_id, error)

    def _damaged(self, number: int, record_id: int, error: BadRecord) -> None:
        _log.error("the command stream is damaged: %s %d: %s", name_of(number), record_id, str(error))
        self.gone()
        self._end()

    def gone(self) -> None:
        """Nothing more comes from the application."""
        self._open = False

    @property
    def player(self) -> Player | None:
        """What executes known commands, if anything does."""
        return None if self._play is None else self._play.player

    @property
    def polling(self) -> Polling:
        """Who asks members what is complete."""
        return self._polling

    @property
    def is_open(self) -> bool:
        """Whether more may come."""
        return self._open

    def drain(self) -> None:
        """Run what was posted; the caller has the turn."""
        self._drain()

    @property
    def is_behind(self) -> bool:
        """Whether something was posted that did not run yet, or a notice is not sent."""
        return bool(self._inbox) or self._notices.is_behind

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
                self._record(number, record_id, data[at : at + nbytes], has_more)
                at += nbytes
                count += 1
                self.num_records += 1
                if not count % _LOOK_AFTER:
                    self._polling.poll()
                    self._drain()
        except BadRecord as error:
            self._damaged(number, record_id, error)
        return at

    def _end(self) -> None:
        """End the session: the application finds the service gone, and all that it waits for fails."""
        with suppress(OSError):  # the application has gone already
            self._commands.shutdown(socket.SHUT_RDWR)

    def _guarded(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            _log.exception("our bug")

    # -- records --------------------------------------------------------------------------------------

    def _record(self, number: int, record_id: int, record: bytes, has_more: bool) -> None:
        """Act on one record; ``has_more``: others are there.

        What the application brought about is answered or logged and never ends the session; raises BadRecord
        for what it can't.
        """
        try:
            if number == _NDRANGE and len(record) >= _PREFIX.size:
                _, _, _, queue, slot, num_waits = _PREFIX.unpack_from(record)
                known = self._launcher.known.values.get(record[_PREFIX.size :]) if not num_waits else None
                if (
                    known is not None
                    and known.checked == self._num_created
                    and slot < NUM_SLOTS
                    and self._engine.core.node(record_id) is None
                ):
                    self._engine.enqueue(queue, record_id, slot, known.launch, (), has_more)
                    return
            elif number == _RELEASE_EVENT:  # there is one for each launch of most programs
                self._engine.core.release_event(record_id)
                return
            entry = self._door.check(record)
            self._door.admit(entry)
            if entry.command is not None:
                self._command(entry, has_more)
            else:
                self._other(entry)
        except BadRecord:
            raise
        except Exception as error:
            expected = isinstance(error, ClError | ValueError | struct.error)  # what it says is wrong
            _log.log(
                logging.INFO if expected else logging.ERROR,
                "record op %d, id %d: %s",
                number,
                record_id,
                error,
                exc_info=not expected,
            )
            status = error.status if isinstance(error, ClError) else Status.OUT_OF_RESOURCES
            self._door.forget(record_id)
            if number in REPLIED:
                self._reply(record_id, status, 0, b"")
            elif number in COMMANDS and len(record) >= 32:
                slot = int.from_bytes(record[24:28], "little")
                if 0 < slot < NUM_SLOTS:
                    self._page.finished(slot, status, 0, 0, 0)

    def expect_transfer(self, command_id: int, read: Read) -> None:
        """The client copies what ``read`` reads."""
        self._transfer_nbytes[command_id] = (read.rectangle.nbytes, read.blocking)

    def _command(self, entry: RecordEntry, has_more: bool) -> None:
        command, (queue, slot) = entry.command, entry.fields[3:5]
        assert command is not None
        if (isinstance(command, Read) and not command.into) or (
            isinstance(command, Write) and command.is_transfer
        ):
            self._transfer_nbytes[entry.id] = (command.rectangle.nbytes, command.blocking)
        elif isinstance(command, Map | Unmap) and command.transfer:
            self._transfer_nbytes[entry.id] = (
                command.rectangle.nbytes,
                isinstance(command, Map) and command.blocking,
            )
        elif isinstance(command, Launch) and command.kernel_index in self._printing.get(command.build, ()):
            command = replace(command, prints=True)
        if isinstance(command, Launch):
            known = self._launcher.known.values.get(command.record)
            if known is not None:
                command, known.checked = known.launch, self._num_created
        self._engine.enqueue(queue, entry.id, slot, command, entry.waits, has_more)

    def _other(self, entry: RecordEntry) -> None:
        engine, memory = self._engine, self._memory
        record_id, fields = entry.id, entry.fields
        match entry.op:
            case Op.CREATE_BUFFER:
                self._num_created += 1  # launches were checked against the buffers that there were
                buffer = memory.create(record_id, fields[4], bool(fields[3] & _COPY_OR_USE_HOST_PTR))
                self._reply(record_id, Status.SUCCESS, buffer.offset, b"")
            case Op.RELEASE_BUFFER:
                engine.after_issued(lambda: memory.release(record_id))
            case Op.PARK_BUFFER:
                self._park(record_id, fields[3])
            case Op.RENEW_BUFFER:
                memory.renew(record_id, bool(fields[3] & _COPY_OR_USE_HOST_PTR))
            case Op.HOST_POINTERS:
                events = memory.accounting.events
                events.host_compared_nbytes += fields[3]
                events.host_copied_nbytes += fields[4]
            case Op.BUILD | Op.COMPILE | Op.LINK:
                self._build(entry)
            case Op.RELEASE_BUILD:
                engine.after_issued(lambda: self._launcher.remove(record_id))
                self._printing.pop(record_id, None)
            case Op.CREATE_QUEUE:
                is_ordered, is_profiled = not fields[3] & _OUT_OF_ORDER, bool(fields[3] & _PROFILING)
                engine.core.create_queue(record_id, is_ordered, listener=fields[4], is_profiled=is_profiled)
                if self._play is not None:
                    self._play.player.queue(record_id, is_ordered, is_profiled)
            case Op.RELEASE_QUEUE:
                engine.core.release_queue(record_id)
                if self._play is not None:
                    self._play.player.queue(record_id, False)
            case Op.CREATE_USER_EVENT:
                engine.core.create_user_event(record_id, fields[3])
            case Op.SET_USER_EVENT:
                engine.run(engine.core.set_user_event(record_id, fields[3]))
            case Op.WATCH:
                self._watch(record_id, fields[3])
            case Op.TRANSFER_DONE:
                engine.transfer_done(record_id, fields[3])
            case _:
                raise AssertionError(f"the door let {entry.op.name} in")

    def _park(self, buffer_id: int, slot: int) -> None:
        """Tell the client when it may use a released buffer again, and that it may not yet."""
        page, memory = self._page, self._memory
        page.busy(slot)

        def told(is_clean: bool) -> None:
            page.finished(slot, Status.SUCCESS if is_clean else Status.OUT_OF_RESOURCES, 0, 0, 0)

        self._engine.after_issued(lambda: memory.park(buffer_id, told))

    def recycled(self, told: Recycled) -> None:
        """The player parked or renewed a buffer."""
        self._door.recycled(told.id, told.stage != STAGE_IN_USE)
        parking, buffer = self._memory.parking, self._memory.buffer(told.id)
        if told.stage == STAGE_PARKED:
            parking.keep(buffer, told.parked_ns)
            return
        parking.take(buffer)
        if told.slot:
            self._park(told.id, told.slot)

    def _build(self, entry: RecordEntry) -> None:
        """Has the build thread build, compile or link."""
        build_id, work = entry.id, entry.work
        assert work is not None
        if self._recorder is not None:
            work = self._recorder.built(work)
        future = self._builder.submit(work, self._target)
        future.add_done_callback(lambda done: self.post(lambda: self._built(build_id, done)))

    def _built(self, build_id: int, done: Future[Build | Compiled]) -> None:
        if done.cancelled():
            return  # the application has gone
        error = done.exception()
        if error is not None or not isinstance(done.result(), Build):
            self._door.forget(build_id)
        if error is None:
            result = done.result()
            if isinstance(result, Build):
                self._launcher.add(build_id, result)
                if self.learning is not None:
                    result.begin_with(self.learning.pages(result.object, len(self._memory.members)))
                self._door.built(build_id, [kernel.model for kernel in result.kernels])
                printing = frozenset(k for k, kernel in enumerate(result.kernels) if kernel.model.prints)
                if printing and self.printed is not None:
                    self._printing[build_id] = printing
            self._reply(build_id, Status.SUCCESS, 0, build_payload(result))
        elif isinstance(error, ClError):
            log = error.log if isinstance(error, BuildError) else f"error: {error.what}\n"
            self._reply(build_id, error.status, 0, build_payload(Compiled(b"", log)))
        elif isinstance(error, MemoryError | OSError):
            is_memory = isinstance(error, MemoryError)
            log = f"error: the service {'has no memory left' if is_memory else f'failed: {error}'}"
            log += limits.described() + "\n"
            _log.error("build %d: %s", build_id, log.rstrip())
            status = Status.OUT_OF_HOST_MEMORY if is_memory else Status.OUT_OF_RESOURCES
            self._reply(build_id, status, 0, build_payload(Compiled(b"", log)))
        else:
            _log.error("build %d", build_id, exc_info=error)
            log = f"sdi: internal error: {error!r}\n"
            self._reply(build_id, Status.BUILD_PROGRAM_FAILURE, 0, build_payload(Compiled(b"", log)))

    def _watch(self, event: int, status: int) -> None:
        node = self._engine.core.node(event)
        if node is None or node.stage.value >= 4:
            self._notice(NoticeKind.EVENT_STATUS, event, node.status if node else 0)
        else:
            node.watches.append(status)
            if status >= 2 and node.submitted_ns:
                self._notice(NoticeKind.EVENT_STATUS, event, 2)

    # -- what the engine tells the application ----------------------------------------------------------

    def submitted(self, node: CommandNode) -> None:
        """See ``EventSink``."""
        if node.slot:
            self._page.submitted(node.slot, node.submitted_ns)
        if node.watches and 2 in node.watches:
            self._notice(NoticeKind.EVENT_STATUS, node.id, 2)

    def start_transfer(self, node: CommandNode) -> None:
        """See ``EventSink``."""
        if isinstance(node.command, Launch):
            self._print(node.id)
            return
        if isinstance(node.command, Read) and node.command.into:
            self._copy_into_arena(node, node.command)
            return
        nbytes, blocking = self._transfer_nbytes[node.id]
        if node.slot:
            self._page.ready(node.slot, nbytes, node.packed_at)
        if not blocking:
            self._notice(NoticeKind.TRANSFER_READY, node.id, 0)

    def _copy_into_arena(self, node: CommandNode, read: Read) -> None:
        """Do what the client does of other reads."""
        memory, nbytes, command_id = self._memory, read.rectangle.nbytes, node.id
        source, target = memory.arena.view(node.packed_at, nbytes), memory.arena.view(read.into, nbytes)

        def done(error: BaseException | None) -> None:
            status = 0 if error is None else Status.OUT_OF_RESOURCES
            self.post(lambda: self._engine.transfer_done(command_id, status))

        if nbytes <= READ_MAX_NBYTES:
            target[:] = source
            done(None)
        else:
            join([memory.copy_on_host(source, Region(0, nbytes), target, Region(0, nbytes), ())], done)

    def _print(self, launch: int) -> None:
        """Have the client put out what was printed; the launch is complete when it has."""
        text = self.printed.take() if self.printed is not None else b""
        if not text:
            self.post(lambda: self._engine.transfer_done(launch, 0))
            return
        self._notice(NoticeKind.PRINTED, launch, 0, text)

    def finished(self, node: CommandNode) -> None:
        """See ``EventSink``."""
        transfer = self._transfer_nbytes.pop(node.id, None)
        if node.slot:
            self._page.finished(node.slot, node.status, node.submitted_ns, node.start_ns, node.end_ns)
        # The lander holds what a transfer needs until it hears of it, also if it fails before it starts.
        if node.watches or (transfer is not None and node.status < 0):
            self._notice(NoticeKind.EVENT_STATUS, node.id, node.status)
        if node.failure and node.listener:
            text = node.failure.encode("utf-8", "replace")[:FAILURE_MAX_NBYTES]
            self._notice(NoticeKind.FAILED, node.listener, node.status, text)

    # -- sending --------------------------------------------------------------------------------------

    def _reply(self, record_id: int, status: int, value: int, payload: bytes) -> None:
        """The client waits for this reply, so the short time it takes to drain it is all we may block."""
        body = padded(payload)
        record = (
            _REPLY.pack(_REPLY.size + len(body), Op.REPLY, record_id, status, 0, value, len(payload)) + body
        )
        self._commands.setblocking(True)
        try:
            self._commands.sendall(record)
        except OSError:
            self._open = False
        else:
            self._commands.setblocking(False)

    def _notice(self, kind: NoticeKind, event: int, status: int, text: bytes = b"") -> None:
        self._page.wake()
        self._notices.send(kind, event, status, text)


def _limits(devices: Sequence[Device]) -> Limits:
    """What the client was told of the image, as far as records are checked by it."""
    infos = [device.capabilities.info for device in devices]
    local_mem, group_size = (
        min(int.from_bytes(info.get(param, b""), "little") for info in infos)
        for param in (DeviceInfo.LOCAL_MEM_SIZE, DeviceInfo.MAX_WORK_GROUP_SIZE)
    )
    return Limits(local_mem, group_size)
