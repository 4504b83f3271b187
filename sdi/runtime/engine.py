"""The engine: carries out what the scheduler core decides, on the thread sdi-scheduler.

Nothing here blocks: members and host report completions from their own threads through ``post``.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol, assert_never, cast

from sdi.commands import Command, Launch, Write, described
from sdi.devices.issue import MEASURED, SEEN, Issue
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed, Status
from sdi.launch.steps import Steps
from sdi.profile.record.recorder import Recorder
from sdi.runtime.command_graph import (
    Action,
    CommandNode,
    IssueCommand,
    Publish,
    SchedulerCore,
    Stage,
    StartTransfer,
)
from sdi.runtime.virtual_device import IssuedWork, VirtualDevice

_log = logging.getLogger("sdi.engine")
_KNOWN_LAUNCH = {
    timing: (Issue("launch", 0, timing), Issue("launch", 0, timing, has_more=True))
    for timing in (SEEN, MEASURED)
}
_SETTLED_MAX = 64
"""So many errors are remembered that were looked into."""


class EventSink(Protocol):
    """Where the engine tells the application about its events."""

    def submitted(self, node: CommandNode) -> None:
        """The command was issued."""

    def start_transfer(self, node: CommandNode) -> None:
        """The client may copy now."""

    def finished(self, node: CommandNode) -> None:
        """The command or user event has its final status and times."""


class Engine:
    """Runs the commands of one session.  Owned by: sdi-scheduler."""

    def __init__(
        self,
        core: SchedulerCore,
        device: VirtualDevice,
        sink: EventSink,
        post: Callable[[Callable[[], None]], None],
        recorder: Recorder | None = None,
    ) -> None:
        self.core = core
        self._device = device
        self._sink = sink
        self._post = post
        self._recorder = recorder
        self._transfers: dict[int, Ticket] = {}
        self._deferred: deque[tuple[int, Callable[[], None]]] = deque()
        self.has_failed = False
        self._held: CommandNode | None = None
        self._failure: DeviceFailed | None = None
        self._dropped_ns = 0
        self._settled: deque[DeviceFailed] = deque(maxlen=_SETTLED_MAX)
        self._behind: deque[CommandNode] = deque()

    def enqueue(
        self,
        queue: int,
        command_id: int,
        slot: int,
        command: Command,
        waits: tuple[int, ...],
        has_more: bool = False,
    ) -> None:
        """A command arrived from the application; ``has_more``: others are there."""
        now_ns = _begun_ns(command)
        actions = self.core.enqueue(queue, command_id, slot, command, waits, now_ns)
        if self._recorder is not None:
            asked = self._recorder.asked(command)
            self._recorder.arrived(command_id, queue, *described(command), now_ns, asked)
        self.run(actions, has_more)

    def is_settled(self) -> bool:
        """Whether nothing is under way, and nothing is held back."""
        is_free = self._held is None and self._failure is None and not self._behind and not self._deferred
        return is_free and self.core.is_settled()

    def under_way(self) -> list[str]:
        """A line for each command that is not over, and for what is held back."""
        found = []
        for node in self.core.unfinished():
            what = "user event" if node.command is None else described(node.command)[0]
            missing = f"{node.unissued} to be issued and {node.incomplete} to end before it"
            own = "done" if node.work_done else "not done"
            copied = ", the application copies" if node.id in self._transfers else ""
            found.append(f"{what} {node.id}: {node.stage.name.lower()}, {missing}, its work {own}{copied}")
        held = {"waits for memory": self._held, "a failure is looked into": self._failure}
        found += [what for what, reason in held.items() if reason is not None]
        counts = {"behind that": len(self._behind), "put off": len(self._deferred)}
        return found + [f"{number} {what}" for what, number in counts.items() if number]

    def awaits_client(self) -> bool:
        """Whether something under way needs the client, which says so in a record to come."""
        return bool(self._transfers) or self.core.has_user_events()

    def adopt(
        self, node: CommandNode, tickets: list[Ticket], transfer: Ticket | None, is_copying: bool
    ) -> None:
        """``node`` was issued elsewhere; ``is_copying``: the client has been told to copy."""
        if transfer is not None:
            node.transfer = True
            self._transfers[node.id] = transfer
        if is_copying:
            node.work_done = True
            node.stage = Stage.COPYING
            return
        self.run(self._issued(node, tickets))

    def after_issued(self, call: Callable[[], None]) -> None:
        """Do ``call`` once all commands that have arrived so far are issued (release of what they name)."""
        if self.core.oldest_unissued >= self.core.sequence:
            call()
        else:
            self._deferred.append((self.core.sequence, call))

    def transfer_done(self, command_id: int, status: int) -> None:
        """The client has copied, or could not (negative ``status``)."""
        ticket = self._transfers.pop(command_id, None)
        node = self.core.node(command_id)
        if node is None:
            return
        if ticket is None:  # it will not copy what has yet to be issued
            node.given_up |= status < 0
            return
        error = None if status >= 0 else DeviceFailed("application", f"copy failed with {status}")
        if not isinstance(node.command, Launch):  # putting out what it printed is no part of it
            node.end_ns = time.monotonic_ns()
        ticket.complete(error, node.start_ns, node.end_ns)
        self.run(self.core.transfer_done(node, status))

    def run(self, actions: Iterable[Action], has_more: bool = False) -> None:
        """Carry out ``actions`` and all that follow from them.  ``has_more``: see ``Issue``.

        While a command is held back for memory, or a failure is looked into, commands that become ready queue
        up behind it; everything else goes on.
        """
        todo = list(actions)
        while True:
            for action in todo:  # which gets longer meanwhile
                match action:
                    case IssueCommand():
                        if self._held is not None or self._behind or self._failure is not None:
                            self._behind.append(action.node)
                        else:
                            todo += self._issue(action.node, has_more)
                    case StartTransfer():
                        if not isinstance(action.node.command, Launch):
                            action.node.start_ns = time.monotonic_ns()
                        self._sink.start_transfer(action.node)
                    case Publish():
                        self._publish(action.node)
                    case _:
                        assert_never(action)
            if not self._behind or self._held is not None or self._failure is not None:
                break
            todo = self._issue(self._behind.popleft(), has_more)
        while self._deferred and self.core.oldest_unissued >= self._deferred[0][0]:
            self._deferred.popleft()[1]()

    def _issue(self, node: CommandNode, has_more: bool) -> list[Action]:
        assert node.command is not None
        node.submitted_ns = _begun_ns(node.command)
        self._sink.submitted(node)
        timing = MEASURED if node.is_profiled or self._recorder is not None else SEEN
        if self._recorder is None and isinstance(node.command, Launch):
            try:
                tickets = self._device.repeat(node.command, _KNOWN_LAUNCH[timing][has_more])
            except Exception as error:
                return self._refused(node, error)
            if tickets is not None:
                return self._issued(node, tickets)
        issue = Issue(type(node.command).__name__.lower(), node.id, timing, has_more)
        return self._advance(node, self._device.issue(node.command, issue))

    def _resume(self, node: CommandNode, steps: Steps[IssuedWork]) -> None:
        self._held = None
        self.run(self._advance(node, steps))

    def _advance(self, node: CommandNode, steps: Steps[IssuedWork]) -> list[Action]:
        """Issue ``node``'s work up to its end, or to where it has to wait for memory."""
        try:
            waits = next(steps)
        except StopIteration as end:
            return self._done(node, cast(IssuedWork, end.value))
        except Exception as error:
            return self._refused(node, error)
        self._held = node
        join(waits, lambda _error: self._post(lambda: self._resume(node, steps)))
        return []

    def _refused(self, node: CommandNode, error: Exception) -> list[Action]:
        """``node``'s work could not be issued."""
        match error:
            case ClError() if error.status != Status.MEM_OBJECT_ALLOCATION_FAILURE:
                _log.info("command %d: %s", node.id, error)
            case ClError():
                _log.warning("command %d: %s", node.id, error)
            case DeviceFailed():
                _log.warning("command %d failed: %s", node.id, error)
            case _:
                _log.error("command %d: our bug", node.id, exc_info=error)
        assert node.command is not None
        self.poison(node.id, node.command, error)
        self._fails(node, error)
        return self.core.issued(node, error)

    def _done(self, node: CommandNode, work: IssuedWork) -> list[Action]:
        """``node``'s work is issued, up to what the client does."""
        if work.transfer is not None:
            node.transfer = True
            node.packed_at = work.packed_at
            self._transfers[node.id] = work.transfer
            if node.given_up:
                self._post(lambda: self.transfer_done(node.id, Status.OUT_OF_RESOURCES))
        return self._issued(node, work.tickets)

    def _issued(self, node: CommandNode, tickets: list[Ticket]) -> list[Action]:
        """All that members and host do of ``node``'s work is issued."""
        actions = self.core.issued(node)
        last = _pending(tickets, len(tickets))
        if last:
            _Completion(self, node, tickets, last)
            return actions
        failure = _error(tickets)
        if failure is not None:
            self._fails(node, failure)
        return actions + self.core.work_done(node, failure, *_times(tickets))

    def post(self, call: Callable[[], None]) -> None:
        """Have ``call`` done in a turn of this session.  Any thread."""
        self._post(call)

    def work_done(self, node: CommandNode, tickets: list[Ticket]) -> None:
        """All that was issued for a command is done."""
        error = _error(tickets)
        if error is not None:
            _log.warning("command %d failed: %s", node.id, error)
            self._fails(node, error)
        self.run(self.core.work_done(node, error, *_times(tickets)))

    def poison(self, command_id: int, command: Command, error: Exception) -> None:
        """A command was not issued: who reads what it was to write fails too, and sees no old bytes.

        Not where the application named what is not there: that it is told, and nothing was to be written.
        """
        if isinstance(error, ClError) and error.status != Status.MEM_OBJECT_ALLOCATION_FAILURE:
            return
        self.has_failed = True
        error.__traceback__ = None  # tickets keep the error, and its frames would keep all of us
        try:
            self._device.poison(command, error)
        except Exception:  # the command fails in any case, with the error that was there first
            _log.exception("command %d: what it was to write can still be read as it was", command_id)

    def _fails(self, node: CommandNode, error: BaseException) -> None:
        """``node`` failed with ``error``: it says what went wrong.

        What that leaves is found out once nothing of what was issued pends: so no copy is under way that will
        fail, and what is issued later is planned from what there is.  Not for what was issued before that was
        done last, and not again for an error of which it was found out: of those who read the same bytes
        since then, no copy is right either.
        """
        self.has_failed = True
        kind = described(node.command)[0] if node.command is not None else "command"
        node.failure = f"{kind} {node.id} failed: {error}"
        if not isinstance(error, DeviceFailed) or node.submitted_ns < self._dropped_ns:
            return
        if error in self._settled:
            self._device.forget_copies(error)
        elif self._failure is None:
            self._failure = error
            join(self._device.pending(), lambda _error: self._post(self._drop_members))

    def _drop_members(self) -> None:
        assert self._failure is not None
        pending = self._device.pending()
        if pending:  # a command that was held back went on meanwhile
            join(pending, lambda _error: self._post(self._drop_members))
            return
        failure, self._failure = self._failure, None
        self._dropped_ns = time.monotonic_ns()
        failure.__traceback__ = None  # whose frames keep what failed
        self._settled.append(failure)
        self._device.drop_members(failure)
        self.run(())

    def _publish(self, node: CommandNode) -> None:
        ticket = self._transfers.pop(node.id, None)
        if ticket is not None:
            ticket.complete(
                DeviceFailed("application", f"command {node.id} failed with {node.status} before its copy")
            )
        # To the application, times rise: also those of commands that nothing was issued for.
        node.submitted_ns = node.submitted_ns or node.arrived_ns or time.monotonic_ns()
        node.start_ns = max(node.start_ns, node.floor_ns, node.submitted_ns)
        node.end_ns = max(node.end_ns, node.start_ns)
        if self._recorder is not None:
            self._recorder.finished(node.id, node.submitted_ns, node.start_ns, node.end_ns, node.status)
        self._sink.finished(node)


class _Completion:
    """Waits until the first ``left`` of ``tickets`` are done, then has the engine go on.

    For one ticket at a time, the last first: they complete in order, so it is mostly the only one.
    """

    __slots__ = ("engine", "left", "node", "tickets")

    def __init__(self, engine: Engine, node: CommandNode, tickets: list[Ticket], left: int) -> None:
        self.engine = engine
        self.node = node
        self.tickets = tickets
        self.left = left
        tickets[left - 1].when_done(self.look)

    def look(self, _: Ticket) -> None:
        """A ticket is done, on any thread."""
        self.left = _pending(self.tickets, self.left)
        if self.left:
            self.tickets[self.left - 1].when_done(self.look)
        else:
            self.engine.post(self.finish)

    def finish(self) -> None:
        """All of them are."""
        self.engine.work_done(self.node, self.tickets)


def _begun_ns(command: Command) -> int:
    """Now, or when the client began with what it did of ``command`` before it sent it."""
    now_ns = time.monotonic_ns()
    return min(now_ns, command.written_ns) if isinstance(command, Write) and command.written_ns else now_ns


def _pending(tickets: list[Ticket], left: int) -> int:
    """How many of the first ``left`` tickets remain when those at the end that are done are left out."""
    while left and tickets[left - 1].done:
        left -= 1
    return left


def _error(tickets: list[Ticket]) -> BaseException | None:
    """Of several errors that of the first ticket."""
    for ticket in tickets:
        if ticket.error is not None:
            return ticket.error
    return None


def _times(tickets: list[Ticket]) -> tuple[int, int]:
    """Start of the earliest and end of the latest assignment, 0 where nothing ran."""
    start_ns = end_ns = 0
    for ticket in tickets:
        if ticket.start_ns and (not start_ns or ticket.start_ns < start_ns):
            start_ns = ticket.start_ns
        if ticket.end_ns > end_ns:
            end_ns = ticket.end_ns
    return start_ns, end_ns
