"""Members that fail, or are lost after some operations."""

from __future__ import annotations

import pytest

from sdi.devices import copying
from sdi.devices.testing.null import NullDevice
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed, DeviceLost
from tests.devices.testing.faulty import FaultyDevice, LosingDevice

SIZE = (1, 1, 1)


def test_only_launches_of_the_kernel_that_fails_do_when_their_turn_comes() -> None:
    null, gate = NullDevice(0), Ticket()
    member = FaultyDevice(null, "bad")
    program = member.build("", ())
    bad, good = (member.bind(program, name, ()) for name in ("bad", "good"))
    held = member.launch(bad, SIZE, SIZE, 1, [gate])
    assert member.launch(good, SIZE, SIZE, 1, []).error is None and null.launches == 1 and not held.done
    gate.complete()
    assert isinstance(held.error, DeviceFailed) and "kernel bad fails" in str(held.error)
    before = ValueError("before")
    assert member.launch(bad, SIZE, SIZE, 1, [completed(before)]).error is before


def test_a_member_that_is_lost_does_nothing_more_and_others_can_not_read_it() -> None:
    member, other = LosingDevice(NullDevice(0), 2), LosingDevice(NullDevice(1), 100)
    buffer, there, program = member.allocate(8), other.allocate(8), member.build("", ())
    for number in range(4):
        assert member.is_lost() == (number > 2)
        error = member.fill(buffer, 0, 8, b"\1", []).error
        assert isinstance(error, DeviceLost) == (number > 1)
    for ask in (
        lambda: member.allocate(8),
        lambda: member.bind(program, "k", ()),
        lambda: member.build("", ()),
        lambda: member.kernel_info(program, "k"),
    ):
        with pytest.raises(DeviceLost):
            ask()
    assert member.host_bytes(buffer) is None
    failed = copying.across(other, member, buffer, 0, there, 0, 8, [], [])[1].error
    assert isinstance(failed, DeviceFailed) and not isinstance(failed, DeviceLost) and not other.is_lost()
