"""The scheduler core: small command graphs in every legal order of messages."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import pytest

from sdi.commands import Command, Fill, Marker, Read, Rectangle
from sdi.errors import ClError, Status
from sdi.runtime import command_graph
from sdi.runtime.command_graph import (
    Action,
    CommandNode,
    IssueCommand,
    Publish,
    SchedulerCore,
    Stage,
    StartTransfer,
)

FILL = Fill(1, Rectangle(0, (4, 1, 1), 4, 4), b"\0")
READ = Read(1, Rectangle(0, (4, 1, 1), 0, 0), blocking=False)


class Shell:
    """Carries out actions as the engine would, one chosen step at a time."""

    def __init__(self) -> None:
        self.core = SchedulerCore()
        self.to_issue: list[CommandNode] = []
        self.running: list[CommandNode] = []
        self.copying: list[CommandNode] = []
        self.issued_order: list[int] = []
        self.finished: dict[int, int] = {}
        self.check_each_step = True

    def do(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case IssueCommand(node=node):
                    self.to_issue.append(node)
                case StartTransfer(node=node):
                    self.copying.append(node)
                case Publish(node=node):
                    assert node.id not in self.finished
                    self.finished[node.id] = node.status
        if self.check_each_step:
            self.core.check()

    def steps(self) -> list[Callable[[], None]]:
        found: list[Callable[[], None]] = []
        if self.to_issue:
            found.append(self.issue)
        found += [lambda node=node: self.complete(node) for node in self.running]
        found += [lambda node=node: self.copied(node) for node in self.copying]
        return found

    def issue(self, error: BaseException | None = None) -> None:
        node = self.to_issue.pop(0)
        self.issued_order.append(node.id)
        node.transfer = isinstance(node.command, Read)
        if error is None:
            self.running.append(node)
        self.do(self.core.issued(node, error))

    def complete(self, node: CommandNode, error: BaseException | None = None) -> None:
        self.running.remove(node)
        self.do(self.core.work_done(node, error, 1, 2))

    def copied(self, node: CommandNode, status: int = 0) -> None:
        self.copying.remove(node)
        self.do(self.core.transfer_done(node, status))

    def enqueue(self, queue: int, command_id: int, command: Command, waits: tuple[int, ...] = ()) -> None:
        self.do(self.core.enqueue(queue, command_id, 1, command, waits))

    def drain(self, choose: random.Random | None = None) -> None:
        while steps := self.steps():
            (choose.choice(steps) if choose else steps[0])()


@pytest.fixture
def shell() -> Iterator[Shell]:
    made = Shell()
    made.core.create_queue(100, in_order=True)
    made.core.create_queue(200, in_order=True)
    made.core.create_queue(300, in_order=False)
    yield made
    made.core.check()


def test_a_command_is_issued_before_its_predecessor_is_complete(shell: Shell) -> None:
    shell.enqueue(100, 1, FILL)
    shell.enqueue(100, 2, FILL)
    shell.issue()
    shell.issue()
    assert shell.issued_order == [1, 2]
    assert shell.finished == {}


def test_an_in_order_queue_completes_in_order_whatever_finishes_first() -> None:
    for order in itertools.permutations([1, 2, 3]):
        shell = Shell()
        shell.core.create_queue(100, in_order=True)
        for number in (1, 2, 3):
            shell.enqueue(100, number, READ if number == 2 else FILL)
        for _ in range(3):
            shell.issue()
        nodes = {node.id: node for node in shell.running}
        for number in order:
            shell.complete(nodes[number])
        shell.drain()
        assert list(shell.finished) == [1, 2, 3]


@pytest.mark.parametrize(
    ("submitted_ns", "floor_ns"), [(70, 70), (0, 20)], ids=["issued late", "never issued"]
)
def test_what_waits_begins_no_earlier_than_what_nothing_ran_for(submitted_ns: int, floor_ns: int) -> None:
    """Such a command is over when it was issued, or came, whatever was done before that."""
    core = SchedulerCore()
    core.create_queue(1, in_order=True)
    (first,) = core.enqueue(1, 10, 1, FILL, (), arrived_ns=20)
    core.enqueue(1, 11, 2, Marker(barrier=True), (), arrived_ns=30)
    node, waiter = first.node, core.node(11)
    assert waiter is not None
    core.issued(node)
    node.submitted_ns = submitted_ns
    core.work_done(node, None, 0, 0)
    assert waiter.floor_ns == floor_ns


def test_a_transfer_that_the_client_gives_up_before_it_starts_fails_and_what_is_behind_it_goes_on(
    shell: Shell,
) -> None:
    shell.core.create_queue(1, in_order=True)
    for number, command in enumerate((FILL, READ, FILL), 1):
        shell.do(shell.core.enqueue(1, number, number, command, ()))
    while shell.to_issue:
        shell.issue()
    shell.do(shell.core.transfer_done(shell.running[1], Status.OUT_OF_RESOURCES))
    assert not shell.finished
    while shell.running:
        shell.complete(shell.running[0])
    assert not shell.copying
    assert shell.finished == {1: 0, 2: Status.OUT_OF_RESOURCES, 3: 0}


def test_a_transfer_starts_only_when_its_dependencies_are_complete(shell: Shell) -> None:
    shell.enqueue(100, 1, FILL)
    shell.enqueue(100, 2, READ)
    shell.issue()
    shell.issue()
    fill, read = shell.running
    shell.complete(read)
    assert shell.copying == []
    shell.complete(fill)
    assert shell.copying == [read]
    shell.copied(read)
    assert shell.finished == {1: 0, 2: 0}


Arrival = tuple[int, Command | None, tuple[int, ...]]
"""Queue, command and wait list; no command: a user event, which is completed later."""
IN_ORDER, OTHER, OUT_OF_ORDER = 100, 200, 300
MARKER, BARRIER = Marker(barrier=False), Marker(barrier=True)
SMALL_CASES: dict[str, list[Arrival]] = {
    "one queue": [(IN_ORDER, FILL, ()), (IN_ORDER, READ, ()), (IN_ORDER, FILL, ())],
    "two queues": [(IN_ORDER, FILL, ()), (OTHER, READ, (1,)), (IN_ORDER, FILL, (2,))],
    "crossing": [(IN_ORDER, READ, ()), (OTHER, FILL, ()), (IN_ORDER, FILL, (2,)), (OTHER, FILL, (1,))],
    "out of order": [(OUT_OF_ORDER, FILL, ()), (OUT_OF_ORDER, READ, (1,)), (OUT_OF_ORDER, FILL, ())],
    "barrier": [(OUT_OF_ORDER, FILL, ()), (OUT_OF_ORDER, BARRIER, ()), (OUT_OF_ORDER, READ, ())],
    "marker": [(OUT_OF_ORDER, READ, ()), (OUT_OF_ORDER, MARKER, ()), (OTHER, FILL, (2,))],
    "user event": [(0, None, ()), (IN_ORDER, FILL, (1,)), (OTHER, READ, ()), (IN_ORDER, READ, (3,))],
}


def _dependencies(case: list[Arrival]) -> dict[int, set[int]]:
    """By number from 1 on, what must be complete before each command is."""
    found: dict[int, set[int]] = {}
    for number, (queue, command, waits) in enumerate(case, 1):
        earlier = [n for n in range(1, number) if case[n - 1][0] == queue and command is not None]
        if queue == OUT_OF_ORDER:
            is_last = isinstance(command, Marker)
            earlier = [n for n in earlier if is_last or case[n - 1][1] == BARRIER]
        found[number] = {*waits, *earlier}
    return found


def _run_in_order(case: list[Arrival], choices: list[int]) -> list[int]:
    """One order of all messages: arrivals, issues, completions, the client's copies.

    At step k the message ``choices[k]`` of those that may come next, the first where there is no choice
    given.  Returns how many there were at each step.
    """
    shell = Shell()
    for queue in (IN_ORDER, OTHER, OUT_OF_ORDER):
        shell.core.create_queue(queue, in_order=queue != OUT_OF_ORDER)
    coming, held = list(enumerate(case, 1)), []
    before = _dependencies(case)
    offered: list[int] = []

    def arrive() -> None:
        number, (queue, command, waits) = coming.pop(0)
        if command is None:
            shell.core.create_user_event(number, 1)
            held.append(number)
        else:
            shell.enqueue(queue, number, command, waits)

    def complete_user_event() -> None:
        shell.do(shell.core.set_user_event(held.pop(0), 0))

    while steps := [
        *([arrive] if coming else []),
        *([complete_user_event] if held else []),
        *shell.steps(),
    ]:
        chosen = choices[len(offered)] if len(offered) < len(choices) else 0
        offered.append(len(steps))
        steps[chosen]()
        assert all(before[node.id] <= set(shell.finished) for node in shell.copying), choices
    assert set(shell.finished) == set(before) and set(shell.finished.values()) == {0}, choices
    order = list(shell.finished)
    assert all(before[n] <= set(order[: order.index(n)]) for n in order), (choices, order)
    assert all(node.stage is Stage.FINISHED for node in shell.core._nodes.values())
    return offered


@pytest.mark.parametrize("name", SMALL_CASES)
def test_small_cases_end_right_in_every_order_of_their_messages(name: str) -> None:
    choices: list[int] = []
    orders = 0
    while True:
        offered = _run_in_order(SMALL_CASES[name], choices)
        orders += 1
        taken = choices + [0] * (len(offered) - len(choices))
        while taken and taken[-1] + 1 == offered[len(taken) - 1]:
            taken.pop()
        if not taken:
            break
        choices = [*taken[:-1], taken[-1] + 1]
    assert orders >= 10


def test_random_orders_respect_dependencies_and_finish_everything() -> None:
    for seed in range(200):
        choose = random.Random(seed)
        shell = Shell()
        for queue in (100, 200):
            shell.core.create_queue(queue, in_order=True)
        shell.core.create_queue(300, in_order=False)
        waits_of: dict[int, tuple[int, ...]] = {}
        tails: dict[int, int] = {}
        for number in range(1, 13):
            queue = choose.choice([100, 200, 300])
            waits = tuple(choose.sample(range(1, number), min(number - 1, choose.randrange(3))))
            command = choose.choice([FILL, READ, Marker(barrier=False)])
            waits_of[number] = waits + ((tails[queue],) if queue != 300 and queue in tails else ())
            tails[queue] = number
            shell.enqueue(queue, number, command, waits)
            for _ in range(choose.randrange(3)):
                if steps := shell.steps():
                    choose.choice(steps)()
        shell.drain(choose)
        order = list(shell.finished)
        assert sorted(order) == list(range(1, 13))
        for number, waits in waits_of.items():
            assert all(order.index(wait) < order.index(number) for wait in waits)


def test_a_user_event_holds_back_issue_and_its_failure_fails_dependants_without_running_them(
    shell: Shell,
) -> None:
    shell.core.create_user_event(1, 1)
    shell.enqueue(100, 2, FILL, (1,))
    shell.enqueue(200, 3, FILL, (2,))
    shell.enqueue(100, 4, FILL)
    assert shell.to_issue == []
    shell.do(shell.core.set_user_event(1, -7))
    shell.drain()
    assert shell.finished == {
        1: -7,
        2: Status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
        3: Status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST,
        4: 0,
    }
    assert shell.issued_order == [4]


def test_an_error_at_issue_finishes_the_command_and_lets_the_queue_go_on(shell: Shell) -> None:
    shell.enqueue(100, 1, READ)
    shell.enqueue(100, 2, FILL)
    shell.issue(ClError(Status.INVALID_MEM_OBJECT, "gone"))
    shell.drain()
    assert shell.finished == {1: Status.INVALID_MEM_OBJECT, 2: 0}


def test_a_barrier_of_an_out_of_order_queue_separates_what_is_before_and_after(shell: Shell) -> None:
    shell.enqueue(300, 1, FILL)
    shell.enqueue(300, 2, FILL)
    shell.enqueue(300, 3, Marker(barrier=True))
    shell.enqueue(300, 4, READ)
    for _ in range(3):
        shell.issue()
    first, second, third = shell.running
    shell.complete(third)
    assert shell.copying == []
    shell.complete(second)
    assert list(shell.finished) == [2]
    shell.complete(first)
    assert list(shell.finished) == [2, 1, 3]
    shell.drain()


@pytest.mark.parametrize("barrier", [False, True])
def test_who_waits_for_all_also_waits_for_what_is_before_a_barrier_with_a_wait_list(
    shell: Shell, barrier: bool
) -> None:
    shell.enqueue(300, 1, FILL)
    shell.enqueue(300, 2, FILL)
    shell.enqueue(300, 3, Marker(barrier=True), (2,))
    shell.enqueue(300, 4, Marker(barrier=barrier))
    shell.issue()
    shell.issue()
    first, second = shell.running
    shell.complete(second)
    assert list(shell.finished) == [2, 3]
    shell.complete(first)
    assert list(shell.finished) == [2, 3, 1, 4]


def test_ten_thousand_commands_behind_one_user_event_are_released_within_the_bound(shell: Shell) -> None:
    shell.check_each_step = False
    shell.core.create_user_event(1, 1)
    for number in range(2, 10_002):
        shell.do(shell.core.enqueue(100, number, 0, FILL, (1,) if number == 2 else ()))
    shell.do(shell.core.set_user_event(1, 0))
    while shell.to_issue or shell.running:
        while shell.to_issue:
            shell.issue()
        assert len(shell.running) <= command_graph.ISSUED_MAX
        while shell.running:
            shell.complete(shell.running[0])
    assert len(shell.finished) == 10_001
    assert shell.core.oldest_unissued == shell.core.sequence


def test_forgotten_events_leave_nothing_behind(shell: Shell) -> None:
    shell.enqueue(100, 1, FILL)
    shell.drain()
    assert shell.core.node(1) is not None
    shell.core.release_event(1)
    assert shell.core.node(1) is None
    shell.enqueue(100, 2, FILL)
    shell.core.release_event(2)
    shell.drain()
    assert shell.core.node(2) is None
