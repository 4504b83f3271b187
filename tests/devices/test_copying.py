"""Copies between members, directly and through a bounce buffer."""

from __future__ import annotations

import numpy as np
import pytest

from sdi.devices import copying
from sdi.devices.base import Device, Place
from sdi.devices.handles import DeviceBuffer
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.region import Region
from tests.devices.conftest import OpenMembers, finish

NBYTES = 10_000


def host(array: np.ndarray) -> memoryview:
    return memoryview(array).cast("B")


def two(open_members: OpenMembers) -> tuple[list[Device], list[DeviceBuffer], np.ndarray]:
    members = open_members(2)
    data = np.random.default_rng(3).integers(0, 256, NBYTES, np.uint8)
    buffers = [member.allocate(NBYTES) for member in members]
    finish(copying.upload(members[0], host(data), buffers[0], 0, []))
    finish(members[1].fill(buffers[1], 0, NBYTES, b"\0", []))
    return members, buffers, data


def test_a_peer_copy_moves_the_range_and_nothing_else(open_members: OpenMembers) -> None:
    (first, second), (source, target), data = two(open_members)
    ticket = copying.across(second, first, source, 100, target, 7, 5000, [], [])[1]
    found = np.empty(NBYTES, np.uint8)
    finish(copying.download(second, target, 0, host(found), [ticket]))
    assert (found[7:5007] == data[100:5100]).all()
    assert not found[:7].any() and not found[5007:].any()


def test_a_peer_copy_waits_for_the_source(open_members: OpenMembers) -> None:
    (first, second), (source, target), _ = two(open_members)
    gate = Ticket()
    filled = first.fill(source, 0, NBYTES, b"\5", [gate])
    ticket = copying.across(second, first, source, 0, target, 0, NBYTES, [filled], [])[1]
    assert not ticket.done
    gate.complete()
    found = np.empty(NBYTES, np.uint8)
    finish(copying.download(second, target, 0, host(found), [ticket]))
    assert (found == 5).all()


def test_a_peer_copy_fails_with_what_it_waits_for(open_members: OpenMembers) -> None:
    (first, second), (source, target), _ = two(open_members)
    gate, error = Ticket(), DeviceFailed("a member", "is gone")
    ticket = copying.across(second, first, source, 0, target, 0, NBYTES, [gate], [])[1]
    gate.complete(error)
    with pytest.raises(DeviceFailed, match="is gone"):
        finish(ticket)


@pytest.mark.parametrize("chunk_nbytes", [1000, 5000, NBYTES])
def test_a_bounced_copy_is_the_same_in_any_number_of_chunks(
    open_members: OpenMembers, monkeypatch: pytest.MonkeyPatch, chunk_nbytes: int
) -> None:
    monkeypatch.setattr(copying, "CHUNK_NBYTES", chunk_nbytes)
    (first, second), (source, target), data = two(open_members)
    there, here = Place(source, 3, first), Place(target, 0, second)
    ticket = copying.bounce(there, here, Region(0, NBYTES - 3), [], [])[1]
    found = np.empty(NBYTES, np.uint8)
    finish(copying.download(second, target, 0, host(found), [ticket]))
    assert (found[:-3] == data[3:]).all() and not found[-3:].any()
