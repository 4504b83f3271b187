"""What a session tells its application: replies, statuses on the page, notices."""

from __future__ import annotations

import socket
from collections.abc import Callable

from sdi.commands import Launch, Read
from sdi.devices.join import join
from sdi.errors import Status
from sdi.player.keeper import SHOWN_MAX_NBYTES
from sdi.region import Region
from sdi.runtime.command_graph import CommandNode
from sdi.service.kernel_output import Printed
from sdi.service.notifications import Notices
from sdi.service.status_page import StatusPage
from sdi.vmem.memory import VirtualMemory
from sdi.wire.layout import padded
from sdi.wire.records import FAILURE_MAX_NBYTES, NoticeKind, Op, record_layout

_REPLY = record_layout(Op.REPLY)
_FAILURES_MAX = 16
KEPT_MAX_NBYTES = 64 << 20
"""Of staged bytes: with more of them kept, the client has to wait until commands are over."""


class Outbox:
    """Implements ``EventSink``.  Owned by: whoever has the turn.

    ``transfer_done(command, status)``: a copy, or what stands for one, is made; any thread.  ``gone()``: the
    application does not listen any more.
    """

    def __init__(
        self,
        commands: socket.socket,
        notices: Notices,
        page: StatusPage,
        memory: VirtualMemory,
        printed: Printed | None,
        transfer_done: Callable[[int, int], None],
        gone: Callable[[], None],
    ) -> None:
        self._commands = commands
        self._notices = notices
        self.page = page
        self._memory = memory
        self._printed = printed
        self._transfer_done = transfer_done
        self._gone = gone
        self._transfers: dict[int, tuple[int, bool]] = {}
        self._kept: dict[int, tuple[int, bool]] = {}
        self._kept_nbytes = 0
        self.failures: list[str] = []
        """What the first builds and commands that failed said, one line each."""

    def expect_transfer(self, command_id: int, nbytes: int, blocking: bool) -> None:
        """The client copies so many bytes when it is told to; ``blocking``: it waits for that."""
        self._transfers[command_id] = (nbytes, blocking)

    def keeps_staged(self, command_id: int, nbytes: int, is_in_place: bool = False) -> None:
        """So many staged bytes are kept until the command is over; the client hears now that they are taken.

        Or then, where many are kept: only it can stop bringing more; or ``is_in_place``, where it put them.
        """
        is_told = not is_in_place and self._kept_nbytes + nbytes <= KEPT_MAX_NBYTES
        self._kept[command_id] = (nbytes, is_told)
        self._kept_nbytes += nbytes
        if is_told:
            self.page.has_taken(nbytes)

    def let_go(self, command_id: int) -> None:
        """A command is over, or was none."""
        nbytes, is_told = self._kept.pop(command_id, (0, True))
        self._kept_nbytes -= nbytes
        if not is_told:
            self.page.has_taken(nbytes)

    def submitted(self, node: CommandNode) -> None:
        """See ``EventSink``."""
        if node.slot:
            self.page.submitted(node.slot, node.submitted_ns)
        if node.watches and 2 in node.watches:
            self.notice(NoticeKind.EVENT_STATUS, node.id, 2)

    def start_transfer(self, node: CommandNode) -> None:
        """See ``EventSink``."""
        if isinstance(node.command, Launch):
            self._print(node.id)
            return
        if isinstance(node.command, Read) and node.command.into:
            self._copy_into_arena(node, node.command)
            return
        nbytes, blocking = self._transfers[node.id]
        if node.slot:
            self.page.ready(node.slot, nbytes, node.packed_at)
        if not blocking:
            self.notice(NoticeKind.TRANSFER_READY, node.id, 0)

    def _copy_into_arena(self, node: CommandNode, read: Read) -> None:
        """Do what the client does of other reads."""
        memory, nbytes, command_id = self._memory, read.rectangle.nbytes, node.id
        source, target = memory.arena.view(node.packed_at, nbytes), memory.arena.view(read.into, nbytes)

        def done(error: BaseException | None) -> None:
            self._transfer_done(command_id, 0 if error is None else Status.OUT_OF_RESOURCES)

        if nbytes <= SHOWN_MAX_NBYTES:
            target[:] = source
            done(None)
        else:
            join([memory.host.copy(source, Region(0, nbytes), target, Region(0, nbytes), ())], done)

    def _print(self, launch: int) -> None:
        """Have the client put out what was printed; the launch is complete when it has."""
        text = self._printed.take() if self._printed is not None else b""
        if not text:
            self._transfer_done(launch, 0)
            return
        self.notice(NoticeKind.PRINTED, launch, 0, text)

    def finished(self, node: CommandNode) -> None:
        """See ``EventSink``."""
        transfer = self._transfers.pop(node.id, None)
        if self._kept:
            self.let_go(node.id)
        if node.slot:
            self.page.finished(node.slot, node.status, node.submitted_ns, node.start_ns, node.end_ns)
        # The completion thread holds what a transfer needs until it hears of it, also if it fails before.
        if node.watches or (transfer is not None and node.status < 0):
            self.notice(NoticeKind.EVENT_STATUS, node.id, node.status)
        if node.failure:
            self.failed(node.failure)
        if node.failure and node.listener:
            text = node.failure.encode("utf-8", "replace")[:FAILURE_MAX_NBYTES]
            self.notice(NoticeKind.FAILED, node.listener, node.status, text)

    def failed(self, what: str) -> None:
        """Have ``failures`` tell of a build or a command."""
        if len(self.failures) < _FAILURES_MAX:
            self.failures.append(" ".join(what.split()))

    def reply(self, record_id: int, status: int, value: int, payload: bytes) -> None:
        """The client waits for this reply, so the short time it takes to drain it is all we may block."""
        body = padded(payload)
        record = (
            _REPLY.pack(_REPLY.size + len(body), Op.REPLY, record_id, status, 0, value, len(payload)) + body
        )
        self._commands.setblocking(True)
        try:
            self._commands.sendall(record)
        except OSError:
            self._gone()
        else:
            self._commands.setblocking(False)

    def notice(self, kind: NoticeKind, event: int, status: int, text: bytes = b"") -> None:
        """Tell the client's completion thread."""
        self.page.wake()
        self._notices.send(kind, event, status, text)
