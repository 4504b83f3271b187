"""What a session does about each record of its application."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from sdi import limits
from sdi.cells import STAGE_IN_USE, STAGE_RECYCLED
from sdi.commands import Command, Launch, Map, Read, Unmap, Write
from sdi.errors import BadRecord, BuildError, ClError, DeviceFailed, Status, require
from sdi.launch.kernel import Build
from sdi.launch.launcher import Launcher
from sdi.launch.learning import Learning
from sdi.launch.programs.builds import Compiled, Target, ask_sub_groups
from sdi.player.face import Player
from sdi.player.library import Recycled
from sdi.profile.record.recorder import Recorder
from sdi.runtime.engine import Engine
from sdi.service import progress
from sdi.service.decode import QUEUE, SLOT, sub_group_query
from sdi.service.door import Door, Limits, RecordEntry, check_header
from sdi.service.outbox import Outbox
from sdi.service.replies import build_payload, numbers_payload
from sdi.vmem.memory import VirtualMemory
from sdi.wire.layout import layout
from sdi.wire.opencl import DeviceInfo, MemFlags, QueueProperties
from sdi.wire.records import COMMAND, COMMANDS, HEADER, NUM_SLOTS, REPLIED, NoticeKind, Op

_log = logging.getLogger("sdi.session")

_HEADER, _PREFIX = layout(HEADER), layout(HEADER, COMMAND)
_NDRANGE, _RELEASE_EVENT = Op.NDRANGE.value, Op.RELEASE_EVENT.value
_RECYCLE_BUFFER = Op.RECYCLE_BUFFER.value
_OUT_OF_ORDER = QueueProperties.OUT_OF_ORDER_EXEC_MODE_ENABLE.value
_PROFILING = QueueProperties.PROFILING_ENABLE.value
_USE_HOST_PTR = MemFlags.USE_HOST_PTR.value
_HAS_BYTES = MemFlags.COPY_HOST_PTR | MemFlags.USE_HOST_PTR | MemFlags.SVM_FINE_GRAIN_BUFFER


class Dispatcher:
    """Acts on records.  Owned by: whoever has the turn; builds run on a thread of their own.

    ``prints``: what kernels print is taken.  ``post``: runs a call in a turn, from any thread.
    """

    def __init__(
        self,
        engine: Engine,
        memory: VirtualMemory,
        launcher: Launcher,
        outbox: Outbox,
        target: Target,
        post: Callable[[Callable[[], None]], None],
        prints: bool,
        player: Player | None,
        recorder: Recorder | None,
        learning: Learning | None,
    ) -> None:
        self._engine = engine
        self._memory = memory
        self._launcher = launcher
        self._outbox = outbox
        self._target = target
        self._post = post
        self._prints = prints
        self._player = player
        self._recorder = recorder
        self._learning = learning
        self._builder = ThreadPoolExecutor(1, "sdi-build")
        self._printing: dict[int, frozenset[int]] = {}
        self._num_created = 0
        self.door = Door(_limits(target), lambda event: engine.core.node(event) is not None)

    def close(self) -> None:
        """Build nothing more; waits for the build under way."""
        self._builder.shutdown(cancel_futures=True)

    def act(self, number: int, record_id: int, record: bytes, has_more: bool) -> None:
        """Act on one record; ``has_more``: others are there.

        What the application brought about is answered or logged and never ends the session; raises BadRecord
        for what it can't.
        """
        command: Command | None = None
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
            entry = self.door.check(record)
            command = entry.command
            if isinstance(entry.command, Write) and entry.command.staged_at:
                entry = entry._replace(command=self._taken(record_id, entry.command))
            self.door.admit(entry)
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
            self._outbox.failed(f"{Op(number).name.lower()} {record_id} failed: {error}")
            self.door.forget(record_id)
            self._outbox.let_go(record_id)
            if command is not None:
                self._engine.poison(record_id, command, error)
            if number in REPLIED:
                self._outbox.reply(record_id, status, 0, b"")
            elif number in COMMANDS and len(record) >= 32:
                slot = int.from_bytes(record[24:28], "little")
                if 0 < slot < NUM_SLOTS:
                    self._outbox.page.finished(slot, status, 0, 0, 0)

    def plan(self, record: bytes) -> None:
        """Have the player know what to do for a launch or a released buffer, where that needs nothing issued.

        Else nothing is done: it comes again, for ``act``.
        """
        _, number, record_id = _HEADER.unpack_from(record)
        try:
            check_header(number, len(record))
            if number == _RECYCLE_BUFFER and self._player is not None:
                self._player.buffers.cells_of(self._memory.buffer(record_id))
            elif number == _NDRANGE:
                launch = self.door.launch(record)
                if launch.kernel_index not in self._printing.get(launch.build, ()):
                    self._launcher.plan(launch)
        except Exception as error:
            is_bug = not isinstance(error, BadRecord | ClError | DeviceFailed)
            what = f"record op {number}, id {record_id}, is not planned: {error}"
            _log.log(logging.ERROR if is_bug else logging.DEBUG, what, exc_info=is_bug)

    def _taken(self, command_id: int, command: Write) -> Write:
        """The same with its bytes."""
        nbytes = command.rectangle.nbytes
        try:
            data = self._outbox.page.staged(command.staged_at, nbytes)
        finally:  # where there is no memory for them, too, or the client would wait for that for ever
            self._outbox.keeps_staged(command_id, nbytes)
        return replace(command, data=data, staged_at=0)

    def _command(self, entry: RecordEntry, has_more: bool) -> None:
        command, queue, slot = entry.command, entry.fields[QUEUE], entry.fields[SLOT]
        assert command is not None
        if (isinstance(command, Read) and not command.into) or (
            isinstance(command, Write) and command.is_transfer
        ):
            self._outbox.expect_transfer(entry.id, command.rectangle.nbytes, command.blocking)
        elif isinstance(command, Map | Unmap) and command.transfer:
            blocking = isinstance(command, Map) and command.blocking
            self._outbox.expect_transfer(entry.id, command.rectangle.nbytes, blocking)
        elif isinstance(command, Launch) and command.kernel_index in self._printing.get(command.build, ()):
            command = replace(command, prints=True)
        if isinstance(command, Launch):
            known = self._launcher.known.values.get(command.record)
            if known is not None:
                command, known.checked = known.launch, self._num_created
        self._engine.enqueue(queue, entry.id, slot, command, entry.waits, has_more)

    def _other(self, entry: RecordEntry) -> None:
        engine, memory = self._engine, self._memory
        record_id, asked = entry.id, entry.get
        match entry.op:
            case Op.CREATE_BUFFER:
                self._num_created += 1  # launches were checked against the buffers that there were
                has_bytes = bool(asked("flags") & _HAS_BYTES)
                buffer = memory.create(record_id, asked("buffer_nbytes"), has_bytes, asked("shift"))
                buffer.is_in_place = bool(asked("flags") & MemFlags.SVM_FINE_GRAIN_BUFFER)
                buffer.is_outside = bool(asked("flags") & _USE_HOST_PTR)
                if self._recorder is not None:
                    self._recorder.created(record_id, asked("buffer_nbytes"), has_bytes)
                self._outbox.reply(record_id, Status.SUCCESS, buffer.offset, b"")
            case Op.RELEASE_BUFFER:
                self._gone(record_id)
                engine.after_issued(lambda: memory.release(record_id))
            case Op.RECYCLE_BUFFER:
                self._recycle(record_id, asked("slot"))
            case Op.REUSE_BUFFER:
                memory.reuse(record_id, bool(asked("flags") & _HAS_BYTES))
                memory.buffer(record_id).is_outside = bool(asked("flags") & _USE_HOST_PTR)
            case Op.REACH:
                if memory.reaches.tell(record_id, memory.known(entry.reached)) and self._player is not None:
                    self._player.changed()
            case Op.RELEASE_REACH:
                engine.after_issued(lambda: memory.reaches.untell(record_id))
            case Op.BUILD | Op.COMPILE | Op.LINK:
                self._build(entry)
            case Op.SUB_GROUPS:
                self._ask_sub_groups(entry)
            case Op.KEEP_BUILD:
                self._keep_build(record_id)
            case Op.RELEASE_BUILD:
                self._gone(record_id)
                engine.after_issued(lambda: self._launcher.remove(record_id))
                self._printing.pop(record_id, None)
            case Op.CREATE_QUEUE:
                properties, listener = asked("properties"), asked("listener")
                is_ordered, is_profiled = not properties & _OUT_OF_ORDER, bool(properties & _PROFILING)
                engine.core.create_queue(record_id, is_ordered, listener, is_profiled)
                if self._player is not None:
                    # What is played is done in order, which holds up nobody: none of it waits for what the
                    # application has yet to do.  But that may wait for what the client does unasked and free.
                    unasked = asked("unasked")
                    self._player.queue(record_id, unasked != 1, is_profiled, launches=not unasked)
            case Op.RELEASE_QUEUE:
                engine.core.release_queue(record_id)
                if self._player is not None:
                    self._player.queue(record_id, False)
            case Op.CREATE_USER_EVENT:
                engine.core.create_user_event(record_id, asked("slot"))
            case Op.SET_USER_EVENT:
                engine.run(engine.core.set_user_event(record_id, asked("status")))
            case Op.WATCH:
                self._watch(record_id, asked("status"))
            case Op.TRANSFER_DONE:
                engine.transfer_done(record_id, asked("status"))
            case _:
                raise AssertionError(f"the door let {entry.op.name} in")

    def _gone(self, number: int) -> None:
        if self._recorder is not None:
            self._recorder.released(number)

    def _recycle(self, buffer_id: int, slot: int) -> None:
        """Tell the client when it may use a released buffer again, and that it may not yet."""
        page, memory = self._outbox.page, self._memory
        page.busy(slot)

        def told(is_clean: bool) -> None:
            page.finished(slot, Status.SUCCESS if is_clean else Status.OUT_OF_RESOURCES, 0, 0, 0)

        self._engine.after_issued(lambda: memory.recycle(buffer_id, told))

    def recycled(self, told: Recycled) -> None:
        """The player recycled or reused a buffer."""
        self.door.recycled(told.id, told.stage != STAGE_IN_USE)
        recycling, buffer = self._memory.recycling, self._memory.buffer(told.id)
        if told.stage == STAGE_RECYCLED:
            self._memory.reaches.forget(told.id)
            recycling.keep(buffer, told.recycled_ns)
            return
        recycling.take(buffer)
        buffer.is_outside = bool(told.is_outside)
        if told.slot:
            self._recycle(told.id, told.slot)

    def _build(self, entry: RecordEntry) -> None:
        """Has the build thread build, compile or link."""
        build_id, work = entry.id, entry.work
        assert work is not None
        if self._recorder is not None:
            work = self._recorder.built(work)
        if progress.is_watched():
            work = progress.told(work, len(self._target.devices))
        future = self._builder.submit(work, self._target)
        future.add_done_callback(lambda done: self._post(lambda: self._built(build_id, done)))

    def _built(self, build_id: int, done: Future[Build | Compiled]) -> None:
        if done.cancelled():
            return  # the application has gone
        error = done.exception()
        if error is not None:
            self._refuse_build(build_id, error)
            return
        try:
            result = done.result()
            if isinstance(result, Build):
                self._take(build_id, result)
            else:
                self.door.forget(build_id)
            self._outbox.reply(build_id, Status.SUCCESS, 0, build_payload(result))
        except Exception as bug:
            self._refuse_build(build_id, bug)

    def _refuse_build(self, build_id: int, error: BaseException) -> None:
        """Tell the application why it has no program."""
        self.door.forget(build_id)
        if isinstance(error, ClError):
            log = error.log if isinstance(error, BuildError) else f"error: {error.what}\n"
            lines = log.splitlines()
            said = next((line for line in lines if "error" in line), lines[0] if lines else str(error))
            self._outbox.failed(f"build {build_id} failed: {said}")
            self._outbox.reply(build_id, error.status, 0, build_payload(Compiled(b"", log)))
        elif isinstance(error, MemoryError | OSError):
            is_memory = isinstance(error, MemoryError)
            log = f"error: the service {'has no memory left' if is_memory else f'failed: {error}'}"
            log += limits.described() + "\n"
            _log.error("build %d: %s", build_id, log.rstrip())
            status = Status.OUT_OF_HOST_MEMORY if is_memory else Status.OUT_OF_RESOURCES
            self._outbox.reply(build_id, status, 0, build_payload(Compiled(b"", log)))
        else:
            _log.error("build %d", build_id, exc_info=error)
            log = f"sdi: internal error: {error!r}\n"
            self._outbox.reply(build_id, Status.BUILD_PROGRAM_FAILURE, 0, build_payload(Compiled(b"", log)))

    def _take(self, build_id: int, result: Build) -> None:
        """Have the application's kernels from now on."""
        self._launcher.add(build_id, result)
        if self._recorder is not None:
            self._recorder.program(build_id, result.object)
        if self._learning is not None:
            result.begin_with(self._learning.pages(result.object, len(self._memory.members)))
        self.door.built(build_id, [kernel.model for kernel in result.kernels])
        printing = frozenset(k for k, kernel in enumerate(result.kernels) if kernel.model.prints)
        if printing and self._prints:
            self._printing[build_id] = printing

    def _keep_build(self, number: int) -> None:
        made = self._launcher.build(number)
        for program in made.programs if made else ():
            if program is not None:
                program.keep()

    def _ask_sub_groups(self, entry: RecordEntry) -> None:
        """Has the build thread ask a member."""
        made = self._launcher.build(entry.get("build"))
        require(made, Status.INVALID_KERNEL, f"build {entry.get('build')} was released")
        assert made is not None
        asked, kernel = sub_group_query(entry.fields), entry.get("kernel_index")
        future = self._builder.submit(ask_sub_groups, made, kernel, asked, self._target.devices)
        future.add_done_callback(lambda done: self._post(lambda: self._sub_groups_told(entry.id, done)))

    def _sub_groups_told(self, record_id: int, done: Future[tuple[int, ...]]) -> None:
        if done.cancelled():
            return  # the application has gone
        error = done.exception()
        if error is None:
            self._outbox.reply(record_id, Status.SUCCESS, 0, numbers_payload(done.result()))
            return
        if not isinstance(error, ClError | DeviceFailed):
            _log.error("query %d of sub-groups", record_id, exc_info=error)
        status = error.status if isinstance(error, ClError) else Status.OUT_OF_RESOURCES
        self._outbox.reply(record_id, status, 0, b"")

    def _watch(self, event: int, status: int) -> None:
        node = self._engine.core.node(event)
        if node is None or node.stage.value >= 4:
            self._outbox.notice(NoticeKind.EVENT_STATUS, event, node.status if node else 0)
        else:
            node.watches.append(status)
            if status >= 2 and node.submitted_ns:
                self._outbox.notice(NoticeKind.EVENT_STATUS, event, 2)


def _limits(target: Target) -> Limits:
    """What the client was told of the devices, as far as records are checked by it."""
    infos = [device.capabilities.info for device in target.devices]
    limit = min if target.is_image else max
    local_mem, group_size = (
        limit(int.from_bytes(info.get(param, b""), "little") for info in infos)
        for param in (DeviceInfo.LOCAL_MEM_SIZE, DeviceInfo.MAX_WORK_GROUP_SIZE)
    )
    return Limits(local_mem, group_size, 0 if target.is_image else len(infos))
