"""The command scheduler's decisions: which command is issued when, and when it is complete.

Pure: no thread, no device.  ``SchedulerCore`` is told what happened and answers what to do; the shell
(``Engine``) does it.  A command is *ready* when its dependencies have been issued; it is *complete* when its
own work is done and its dependencies are complete.  Source: papers/1 section 3.1; DESIGN "Asynchronous".
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from sdi.commands import Command, Marker
from sdi.dataclass import dataclass, field
from sdi.errors import ClError, Status

ISSUED_MAX = 512
"""Commands issued but not complete; more wait, so that a flood of commands needs bounded memory."""


class Stage(Enum):
    """How far a node has come."""

    WAITING = 0
    READY = 1
    ISSUED = 2
    COPYING = 3
    FINISHED = 4


@dataclass(slots=True, eq=False)
class CommandNode:
    """One command or user event in the dependency graph.  ``command`` is None for a user event.

    ``unissued``, ``incomplete``: dependencies that are not issued, not complete.  ``transfer``: the client
    has to copy when everything else is done (``packed_at``: see ``Work``); ``given_up``: it will not.
    ``failed_wait``: an event of the wait list failed.
    ``failure``: what went wrong with its own work, for ``listener``, the context that hears of it (or 0).
    ``is_profiled``: the application may ask when it ran.
    ``arrived_ns``: when the command came.  ``floor_ns``: end of the last dependency.  Assignments of the next
    command may start before that, on members that are done with this one, but to the application commands in
    order run one after the other.
    """

    id: int
    command: Command | None
    slot: int
    sequence: int = -1
    forgotten: bool = False
    arrived_ns: int = 0
    stage: Stage = Stage.WAITING
    unissued: int = 0
    incomplete: int = 0
    work_done: bool = False
    transfer: bool = False
    packed_at: int = 0
    given_up: bool = False
    status: int = 0
    failed_wait: bool = False
    listener: int = 0
    failure: str = ""
    is_profiled: bool = False
    floor_ns: int = 0
    start_ns: int = 0
    end_ns: int = 0
    submitted_ns: int = 0
    issue_waiters: list[CommandNode] = field(default_factory=list)
    complete_waiters: list[tuple[CommandNode, bool]] = field(default_factory=list)
    watches: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class IssueCommand:
    """Start the work of ``node`` and report ``issued``, then ``work_done``."""

    node: CommandNode


@dataclass(slots=True, eq=False)
class StartTransfer:
    """Tell the client to copy; it answers ``transfer_done``."""

    node: CommandNode


@dataclass(slots=True, eq=False)
class Publish:
    """Tell the client the event's final status."""

    node: CommandNode


Action = IssueCommand | StartTransfer | Publish


@dataclass(slots=True, eq=False)
class _Queue:
    """``last``: tail of an in-order queue, or the last barrier; ``since``: unfinished nodes after the last
    barrier without a wait list.
    """

    in_order: bool
    listener: int = 0
    is_profiled: bool = False
    last: CommandNode | None = None
    since: list[CommandNode] = field(default_factory=list)


class SchedulerCore:
    """Dependency graph of all unfinished commands.  Owned by: sdi-scheduler."""

    def __init__(self) -> None:
        self._queues: dict[int, _Queue] = {}
        self._nodes: dict[int, CommandNode] = {}
        self._not_good = 0
        self._num_unset = 0
        self._ready: deque[CommandNode] = deque()
        self._issued = 0
        self._sequence = 0
        self._unissued: dict[int, None] = {}

    def create_queue(self, queue: int, in_order: bool, listener: int = 0, is_profiled: bool = False) -> None:
        """A new queue; ``listener``: the context that hears of commands that fail, or 0."""
        self._queues[queue] = _Queue(in_order, listener, is_profiled)

    def release_queue(self, queue: int) -> None:
        """The application has no handle to ``queue`` any more; its commands go on."""
        self._queues.pop(queue, None)

    def create_user_event(self, event: int, slot: int) -> None:
        """A user event: counts as issued when it is complete."""
        self._know(CommandNode(event, None, slot))
        self._num_unset += 1

    def node(self, event: int) -> CommandNode | None:
        """The node of an event that is unfinished, or finished and not yet forgotten."""
        return self._nodes.get(event)

    @property
    def sequence(self) -> int:
        """Number of commands that have arrived."""
        return self._sequence

    @property
    def oldest_unissued(self) -> int:
        """Sequence number of the oldest command not issued yet; ``sequence`` when there is none."""
        return next(iter(self._unissued), self._sequence)

    def enqueue(
        self,
        queue: int,
        command_id: int,
        slot: int,
        command: Command,
        waits: tuple[int, ...],
        arrived_ns: int = 0,
    ) -> list[Action]:
        """A command arrived.  Events in ``waits`` that are unknown are complete.  Raises ClError."""
        owner = self._queues.get(queue)
        if owner is None:
            raise ClError(Status.INVALID_COMMAND_QUEUE, f"queue {queue} is not known")
        if command_id in self._nodes:
            raise ClError(Status.INVALID_EVENT, f"command id {command_id} is in use")
        node = CommandNode(
            command_id, command, slot, self._sequence, forgotten=slot == 0, arrived_ns=arrived_ns
        )
        node.listener = owner.listener
        node.is_profiled = owner.is_profiled
        self._unissued[self._sequence] = None
        self._sequence += 1
        self._know(node)
        barrier = isinstance(command, Marker) and (command.barrier or not waits)
        if owner.in_order:
            self._depend(node, owner.last, False)
            owner.last = node
        else:
            self._depend(node, owner.last, False)
            if barrier and not waits:
                for other in owner.since:
                    self._depend(node, other, False)
            if isinstance(command, Marker) and command.barrier:
                owner.last = node
                if not waits:
                    owner.since = []
            else:
                owner.since.append(node)
            # A barrier with a wait list waits for that alone: what is before it stays in the list.
            owner.since = [n for n in owner.since if n.stage is not Stage.FINISHED]
        for wait in waits:
            self._depend(node, self._nodes.get(wait), True)
        actions: list[Action] = []
        if node.unissued == 0:
            self._make_ready(node)
            self._issue_ready(actions)
        return actions

    def issued(self, node: CommandNode, error: BaseException | None = None) -> list[Action]:
        """The shell started ``node``'s work, or could not (``error``)."""
        actions: list[Action] = []
        node.stage = Stage.ISSUED
        if error is not None:
            node.status = status_of(error)
        self._after_issue(node)
        if error is not None:
            node.transfer = False
            self._work_done(node, actions)
        self._issue_ready(actions)
        return actions

    def work_done(
        self, node: CommandNode, error: BaseException | None, start_ns: int, end_ns: int
    ) -> list[Action]:
        """Everything that ``node`` did on members and host is done (for a transfer: the copy may start)."""
        node.start_ns, node.end_ns = start_ns, end_ns
        if error is not None and node.status == 0:
            node.status = status_of(error)
        actions: list[Action] = []
        self._work_done(node, actions)
        self._issue_ready(actions)
        return actions

    def transfer_done(self, node: CommandNode, error_status: int) -> list[Action]:
        """The client has copied; with an error, at any time: it will not."""
        actions: list[Action] = []
        if node.stage is Stage.COPYING:
            if error_status < 0 and node.status == 0:
                node.status = error_status
            self._finish(node, actions)
            self._issue_ready(actions)
        elif error_status < 0 and node.stage is not Stage.FINISHED:
            node.status = node.status or error_status
        return actions

    def set_user_event(self, event: int, status: int) -> list[Action]:
        """The application completed a user event (0) or failed it (negative)."""
        actions: list[Action] = []
        node = self._nodes.get(event)
        if node is not None and node.command is None and node.stage is not Stage.FINISHED:
            node.status = min(status, 0)
            self._num_unset -= 1
            self._after_issue(node)
            self._finish(node, actions)
            self._issue_ready(actions)
        return actions

    def is_settled(self) -> bool:
        """Whether all commands are complete."""
        return not (self._issued or self._unissued)

    @property
    def num_known(self) -> int:
        """Events that somebody may name."""
        return len(self._nodes)

    def unfinished(self) -> list[CommandNode]:
        """Commands, and events that the application has not set."""
        return [node for node in self._nodes.values() if node.stage is not Stage.FINISHED]

    def has_user_events(self) -> bool:
        """Whether commands may wait for events that the application sets."""
        return bool(self._unissued) and self._num_unset > 0

    def has_succeeded(self) -> bool:
        """Whether all events that somebody may name are complete without an error."""
        return not self._not_good

    def adopt(
        self, queue: int, command_id: int, slot: int, command: Command, submitted_ns: int, is_forgotten: bool
    ) -> CommandNode:
        """A command that was issued elsewhere, behind all others of its queue."""
        node = CommandNode(command_id, command, slot, self._sequence, is_forgotten, submitted_ns)
        self._sequence += 1
        node.submitted_ns = submitted_ns
        node.stage = Stage.ISSUED
        self._issued += 1
        self._know(node)
        owner = self._queues.get(queue)
        if owner is not None:
            node.listener = owner.listener
            self._depend(node, owner.last, False)
            owner.last = node
        return node

    def release_event(self, event: int) -> None:
        """The application has no handle to the event any more."""
        node = self._nodes.get(event)
        if node is not None:
            node.forgotten = True
            if node.stage is Stage.FINISHED:
                del self._nodes[event]
                self._not_good -= node.status != 0

    def check(self) -> None:
        """Assert the invariants (for tests)."""
        good = [n for n in self._nodes.values() if n.stage is Stage.FINISHED and n.status == 0]
        assert self._not_good == len(self._nodes) - len(good)
        assert self._num_unset == sum(
            n.command is None and n.stage is not Stage.FINISHED for n in self._nodes.values()
        )
        live = [n for n in self._nodes.values() if n.stage is not Stage.FINISHED]
        assert self._issued == sum(n.command is not None and n.stage in _ISSUED_STAGES for n in live)
        assert all(n.unissued == 0 for n in live if n.stage in _ISSUED_STAGES or n.stage is Stage.READY)

    def _know(self, node: CommandNode) -> None:
        self._nodes[node.id] = node
        self._not_good += 1

    def _depend(self, node: CommandNode, on: CommandNode | None, explicit: bool) -> None:
        if on is None or on is node:
            return
        if on.stage is Stage.FINISHED:
            node.failed_wait |= explicit and on.status < 0
            return
        on.complete_waiters.append((node, explicit))
        node.incomplete += 1
        if on.stage in (Stage.WAITING, Stage.READY):
            on.issue_waiters.append(node)
            node.unissued += 1

    def _make_ready(self, node: CommandNode) -> None:
        node.stage = Stage.READY
        self._ready.append(node)

    def _issue_ready(self, actions: list[Action]) -> None:
        while self._ready and self._issued < ISSUED_MAX:
            node = self._ready.popleft()
            node.stage = Stage.ISSUED
            self._issued += 1
            if node.failed_wait:
                node.status = Status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
                self._after_issue(node)
                self._work_done(node, actions)
            elif isinstance(node.command, Marker):
                self._after_issue(node)
                self._work_done(node, actions)
            else:
                actions.append(IssueCommand(node))

    def _after_issue(self, node: CommandNode) -> None:
        self._unissued.pop(node.sequence, None)
        waiters, node.issue_waiters = node.issue_waiters, []
        for waiter in waiters:
            waiter.unissued -= 1
            if waiter.unissued == 0:
                self._make_ready(waiter)

    def _work_done(self, node: CommandNode, actions: list[Action]) -> None:
        node.work_done = True
        if node.incomplete == 0 and self._settled(node, actions):
            self._finish(node, actions)

    def _settled(self, node: CommandNode, actions: list[Action]) -> bool:
        """All that ``node`` waited for is over: whether it is finished; if not, the client has to copy."""
        if node.failed_wait and node.status == 0:
            node.status = Status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
        if node.transfer and node.status == 0:
            node.stage = Stage.COPYING
            actions.append(StartTransfer(node))
            return False
        return True

    def _finish(self, node: CommandNode, actions: list[Action]) -> None:
        """Finish ``node`` and all that only waited for it: iteratively, chains may be long."""
        todo = [node]
        for done in todo:
            if done.command is not None:
                self._issued -= 1
            done.stage = Stage.FINISHED
            done.command = None
            actions.append(Publish(done))
            self._not_good -= done.forgotten or done.status == 0
            if done.forgotten:
                del self._nodes[done.id]
            waiters, done.complete_waiters = done.complete_waiters, []
            until_ns = max(done.end_ns, done.floor_ns, done.submitted_ns or done.arrived_ns)
            for waiter, explicit in waiters:
                waiter.incomplete -= 1
                if waiter.floor_ns < until_ns:
                    waiter.floor_ns = until_ns
                waiter.failed_wait |= explicit and done.status < 0
                if waiter.incomplete == 0 and waiter.work_done and self._settled(waiter, actions):
                    todo.append(waiter)


_ISSUED_STAGES = (Stage.ISSUED, Stage.COPYING)


def status_of(error: BaseException) -> int:
    """The event status that the application sees for ``error``."""
    return int(error.status) if isinstance(error, ClError) else int(Status.OUT_OF_RESOURCES)
