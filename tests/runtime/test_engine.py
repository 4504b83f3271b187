"""The engine while a command is held back for memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from sdi.commands import Command, Fill, Rectangle
from sdi.devices.issue import Issue
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed, Status
from sdi.launch.steps import Steps
from sdi.runtime.command_graph import CommandNode, SchedulerCore
from sdi.runtime.engine import Engine
from sdi.runtime.virtual_device import IssuedWork, VirtualDevice


class Device:
    """Issues fills; a buffer listed in ``full`` has to wait for these tickets, one after the other."""

    def __init__(self) -> None:
        self.full: dict[int, list[Ticket]] = {}
        self.fails: set[int] = set()
        self.keeps: set[int] = set()
        self.poisoned: list[int] = []
        self.issued: list[int] = []
        self.work: dict[int, Ticket] = {}
        self.looked: list[str] = []

    def pending(self) -> list[Ticket]:
        return [ticket for ticket in self.work.values() if not ticket.done]

    def poison(self, command: Command, why: Exception) -> None:
        assert isinstance(command, Fill)
        self.poisoned.append(command.buffer)
        if command.buffer in self.keeps:
            raise KeyError(command.buffer)

    def drop_members(self, error: DeviceFailed) -> None:
        self.looked.append(f"at all after {error}")

    def forget_copies(self, error: DeviceFailed) -> None:
        self.looked.append(f"at copies after {error}")

    def issue(self, command: Command, _issue: Issue) -> Steps[IssuedWork]:
        assert isinstance(command, Fill)
        for ticket in self.full.get(command.buffer, []):
            yield [ticket]
        if command.buffer in self.fails:
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, "nothing left")
        self.issued.append(command.buffer)
        self.work[command.buffer] = Ticket()
        return IssuedWork([self.work[command.buffer]])


class Rig:
    """An engine over such a device; ``calls`` is what was posted."""

    def __init__(self) -> None:
        self.device = Device()
        self.calls: list[Callable[[], None]] = []
        self.finished_with: dict[int, int] = {}
        core = SchedulerCore()
        core.create_queue(1, in_order=False)
        self.engine = Engine(core, cast(VirtualDevice, self.device), self, self.calls.append)

    def submitted(self, node: CommandNode) -> None: ...

    def start_transfer(self, node: CommandNode) -> None: ...

    def finished(self, node: CommandNode) -> None:
        self.finished_with[node.id] = node.status

    def enqueue(self, *numbers: int) -> None:
        for number in numbers:
            self.engine.enqueue(1, number, 0, Fill(number, Rectangle(0, (4, 1, 1), 4, 4), b"\0"), ())

    def turn(self) -> None:
        while self.calls:
            self.calls.pop(0)()


def test_a_held_command_holds_later_ones_and_nothing_else() -> None:
    rig = Rig()
    tickets = [Ticket(), Ticket()]
    rig.device.full[12] = tickets
    rig.enqueue(11, 12, 13, 14)
    released: list[int] = []
    rig.engine.after_issued(lambda: released.append(12))
    assert rig.device.issued == [11]
    rig.device.work[11].complete()
    rig.turn()
    assert rig.finished_with == {11: 0}  # completions go on
    tickets[0].complete()
    rig.turn()
    assert rig.device.issued == [11] and not released
    tickets[1].complete(ClError(Status.OUT_OF_RESOURCES, "what failed has given its memory back too"))
    rig.turn()
    assert rig.device.issued == [11, 12, 13, 14] and released == [12]
    for number in (12, 13, 14):
        rig.device.work[number].complete()
    rig.turn()
    assert rig.finished_with == dict.fromkeys((11, 12, 13, 14), 0)


def test_commands_behind_a_held_one_keep_their_order_when_they_are_held_themselves() -> None:
    rig = Rig()
    first, second = Ticket(), Ticket()
    rig.device.full = {11: [first], 12: [second]}
    rig.enqueue(11, 12, 13)
    second.complete()
    rig.turn()
    assert rig.device.issued == []
    first.complete()
    rig.turn()
    assert rig.device.issued == [11, 12, 13]


@pytest.mark.logs("command 11: .*nothing left")
def test_a_held_command_that_finds_no_memory_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    ticket = Ticket()
    rig.device.full[11], rig.device.fails = [ticket], {11}
    rig.enqueue(11, 12)
    ticket.complete()
    rig.turn()
    assert rig.device.issued == [12]
    assert rig.finished_with == {11: Status.MEM_OBJECT_ALLOCATION_FAILURE}
    assert rig.device.poisoned == [11]
    assert ["nothing left" in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.logs("can still be read as it was|nothing left")
def test_old_bytes_that_a_bug_leaves_readable_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.device.fails = rig.device.keeps = {11}
    rig.enqueue(11, 12)
    rig.turn()
    assert rig.device.issued == [12] and rig.finished_with == {11: Status.MEM_OBJECT_ALLOCATION_FAILURE}
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert ["command 11" in record.getMessage() and record.exc_info is not None for record in told] == [True]


@pytest.mark.logs("failed: ")
def test_an_error_is_looked_into_once_while_issuing_stands_still_and_then_beside_it() -> None:
    rig = Rig()
    first, second = DeviceFailed("a", "first"), DeviceFailed("b", "second")
    rig.enqueue(11, 12)
    rig.device.work[11].complete(first)
    rig.turn()
    rig.enqueue(13)
    assert rig.device.issued == [11, 12] and not rig.device.looked, "12 is pending"
    rig.device.work[12].complete()
    rig.turn()
    assert rig.device.issued == [11, 12, 13] and rig.device.looked == ["at all after a: first"]
    rig.enqueue(14, 15)
    rig.device.work[14].complete(first)  # it read what 11 was to write
    rig.turn()
    rig.enqueue(16)
    assert rig.device.issued[-1] == 16 and rig.device.looked[1:] == ["at copies after a: first"]
    rig.device.work[15].complete(second)
    rig.turn()
    rig.enqueue(17)
    assert rig.device.issued[-1] == 16
    for number in (13, 16):
        rig.device.work[number].complete()
    rig.turn()
    assert rig.device.issued[-1] == 17 and rig.device.looked[2:] == ["at all after b: second"]
