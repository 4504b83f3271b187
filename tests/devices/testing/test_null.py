"""A member that answers at once and computes nothing."""

from __future__ import annotations

import pytest

from sdi.devices import copying
from sdi.devices.testing.null import NullDevice
from sdi.devices.ticket import Ticket, completed
from sdi.errors import ClError, DeviceFailed


def test_it_is_done_as_soon_as_what_it_waits_for_is_and_fails_with_it() -> None:
    member, before, host = NullDevice(0), Ticket(), memoryview(bytearray(b"kept"))
    buffer = member.allocate(4)
    at_once = copying.upload(member, host, buffer, 0, [])
    held = copying.download(member, buffer, 0, host, [before])
    assert at_once.done and not held.done
    before.complete()
    failure = DeviceFailed("another", "it failed")
    failed = member.launch(
        member.bind(member.build("", ()), "k", ()), (1, 1, 1), (1, 1, 1), 1, [completed(failure)]
    )
    assert held.done and held.error is None and failed.error is failure
    assert (bytes(host), member.copies, member.launches) == (b"kept", 2, 1)


def test_operations_that_are_kept_end_in_order_when_they_are_told_to() -> None:
    member = NullDevice(0, keeps=True)
    tickets = [member.fill(member.allocate(8), 0, 8, b"\1", []) for _ in range(3)]
    member.complete(keep=1)
    assert [ticket.done for ticket in tickets] == [True, True, False]
    member.close()
    assert tickets[2].done


def test_it_has_no_more_memory_than_it_says() -> None:
    member = NullDevice(0, memory_nbytes=100)
    buffer = member.allocate(60)
    with pytest.raises(ClError, match="60 bytes asked, 40 of 100 available"):
        member.allocate(60)
    member.free(buffer)
    assert member.memory.in_use == 0
