"""Numbers that devices of several processes write and wait for."""

from __future__ import annotations

from sdi.devices.signals import Signal


def test_numbers_go_round() -> None:
    signal = Signal(memoryview(bytearray(b"\xfe\xff\xff\xff")), 2**32 - 1)
    assert not signal.is_given()
    signal.give()
    assert signal.is_given() and not Signal(signal.word, 1).is_given()
    Signal(signal.word, 1).give()
    assert signal.is_given()
