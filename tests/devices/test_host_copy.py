"""Copies within the host's memory."""

from __future__ import annotations

import pytest

from sdi.devices.host_copy import HostCopy
from sdi.region import Region


def test_all_of_it_or_a_region_is_copied_when_it_is_waited_for() -> None:
    source, target = memoryview(bytes(range(24))), memoryview(bytearray(24))
    whole = HostCopy(target, source)
    assert not any(target) and whole.times() == (0, 0)
    whole.wait()
    begin, end = whole.times()
    assert target == source and 0 < begin <= end
    rows = HostCopy(target, source, (Region(1, 2, ((12, 2),)), Region(0, 2, ((4, 2),))))
    rows.wait()
    expected = bytearray(range(24))
    expected[1:3], expected[13:15] = bytes([0, 1]), bytes([4, 5])
    assert target == expected


def test_memory_that_can_not_be_written_is_refused_before_anything_is_waited_for() -> None:
    with pytest.raises(ValueError, match="read-only"):
        HostCopy(memoryview(bytes(4)), memoryview(bytes(4)))
