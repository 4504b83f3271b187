"""When a buffer is idle."""

from __future__ import annotations

from collections.abc import Callable

from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.intervals import ByteRange
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.dependencies import Dependencies
from sdi.vmem.directory import Directory

NBYTES = 64


def test_a_buffer_is_idle_when_what_was_issued_on_it_meanwhile_is_done_too() -> None:
    dependencies = [Dependencies(NBYTES) for _ in range(3)]
    buffer = VirtualBuffer(1, NBYTES, 0, Directory(NBYTES), dependencies, [None, None])
    posted: list[Callable[[], None]] = []
    calls: list[int] = []

    def turn() -> None:
        while posted:
            posted.pop(0)()

    buffer.when_idle(posted.append, lambda: calls.append(0))
    assert calls == [0] and not posted, "at once where nothing is pending"
    kernel, spill, holder = Ticket(), Ticket(), Ticket()
    dependencies[1].written_by(ByteRange(0, NBYTES), kernel)
    dependencies[2].held_by(holder)
    buffer.when_idle(posted.append, lambda: calls.append(1))
    dependencies[1].read_by(ByteRange(0, NBYTES), spill)  # a member that is short of memory brings it home
    dependencies[0].written_by(ByteRange(0, NBYTES), spill)
    kernel.complete()
    holder.complete()
    turn()
    assert calls == [0], "the host's bytes are still being written"
    spill.complete(DeviceFailed("a test", "was there"))
    assert calls == [0], "in a turn of its own, on whatever thread it ended"
    turn()
    assert calls == [0, 1]


def test_whether_a_kind_of_commands_came_before_is_known_of_each() -> None:
    buffer = VirtualBuffer(1, NBYTES, 0, Directory(NBYTES), [Dependencies(NBYTES)], [])
    assert [buffer.came_before(op) for op in (3, 4, 3, 5, 4)] == [False, False, True, False, True]
