"""Members that give and await signals on the host."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sdi.devices.base import Device
from sdi.devices.copying import download, upload
from sdi.devices.opencl.member import DriverDevice, OpenCLDevice
from sdi.devices.signals import Signal
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.region import Region
from tests.devices.conftest import failure, finish
from tests.devices.testing.signalling import HostSignals

ROWS = Region(8, 4, ((16, 3),))
BROKEN = DeviceFailed("a member", "it is broken")


def word() -> memoryview:
    return memoryview(bytearray(4))


@pytest.fixture
def device(driver: DriverDevice) -> Iterator[Device]:
    made = OpenCLDevice(driver, 0, 1 << 20)
    yield made
    made.close()


@pytest.fixture
def signals(device: Device) -> Iterator[HostSignals]:
    made = HostSignals(device)
    yield made
    made.close()


def test_rows_come_one_after_the_other_with_the_signal(device: Device, signals: HostSignals) -> None:
    own = np.arange(64, dtype=np.uint8)
    buffer, memory, signal = device.allocate(64), memoryview(bytearray(12)), Signal(word(), 1)
    written, said = upload(device, memoryview(own).cast("B"), buffer, 0, ()), []
    finish(signals.send(buffer, ROWS, memory, signal, [written], lambda: said.append(signal.is_given())))
    assert said and signal.is_given()
    assert bytes(memory) == b"".join(own[at : at + 4].tobytes() for at in (8, 24, 40))
    device.free(buffer)


def test_a_copy_that_fails_gives_no_signal(device: Device, signals: HostSignals) -> None:
    buffer, signal, gate = device.allocate(64), Signal(word(), 1), Ticket()
    said: list[int] = []
    failed = signals.send(buffer, ROWS, memoryview(bytearray(12)), signal, [gate], lambda: said.append(1))
    assert said, "the device has it to do"
    gate.complete(BROKEN)
    assert failure(failed) is BROKEN
    late = signals.send(
        buffer, ROWS, memoryview(bytearray(12)), signal, [completed(BROKEN)], lambda: said.append(2)
    )
    assert failure(late) is BROKEN and not signal.is_given() and said == [1]
    device.free(buffer)


def test_what_comes_is_written_behind_its_signal(device: Device, signals: HostSignals) -> None:
    buffer, memory, signal = device.allocate(64), memoryview(bytearray(12)), Signal(word(), 5)
    blank = device.fill(buffer, 0, 64, b"\xff", ())
    ticket = signals.receive(buffer, ROWS, [blank], lambda: (memory, signal), lambda: None)
    memory[:] = bytes(range(12))
    assert not ticket.done
    signal.give()
    finish(ticket)
    found = memoryview(bytearray(64))
    finish(download(device, buffer, 0, found, [ticket]))
    wanted = np.full(64, 0xFF, np.uint8)
    for row, at in enumerate((8, 24, 40)):
        wanted[at : at + 4] = range(4 * row, 4 * row + 4)
    assert ticket.error is None and bytes(found) == wanted.tobytes()
    device.free(buffer)


def test_a_verdict_fails_what_was_written(device: Device, signals: HostSignals) -> None:
    buffer, signal = device.allocate(64), Signal(word(), 5)
    signal.give()
    ticket = signals.receive(buffer, ROWS, [], lambda: (memoryview(bytearray(12)), signal), lambda: BROKEN)
    assert failure(ticket) is BROKEN
    device.free(buffer)


def test_nothing_waits_when_the_member_is_closed(device: Device) -> None:
    signals, buffer = HostSignals(device), device.allocate(64)
    came = memoryview(bytearray(12)), Signal(word(), 5)
    ticket = signals.receive(buffer, ROWS, [], lambda: came, lambda: None)
    signals.close()
    assert "closed" in str(failure(ticket))
    device.free(buffer)
