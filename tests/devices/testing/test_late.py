"""Members that are late."""

from __future__ import annotations

import time

from sdi.devices.testing.null import NullDevice
from tests.devices.conftest import finish
from tests.devices.testing.late import DelayedDevice


def test_operations_start_in_order_some_time_after_they_were_issued() -> None:
    delays = iter([30_000_000, 0, 0])
    member = DelayedDevice(NullDevice(0), lambda: next(delays))
    buffer = member.allocate(4)
    begin_ns = time.monotonic_ns()
    tickets = [member.fill(buffer, 0, 4, b"\1", []) for _ in range(3)]
    assert not any(ticket.done for ticket in tickets)
    finish(tickets[2])
    assert all(ticket.done for ticket in tickets) and time.monotonic_ns() - begin_ns >= 30_000_000
    member.close()


def test_closing_waits_for_nothing() -> None:
    member = DelayedDevice(NullDevice(0), lambda: int(3600e9))
    ticket = member.fill(member.allocate(4), 0, 4, b"\1", [])
    member.close()
    assert ticket.done and ticket.error is None
