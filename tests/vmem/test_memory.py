"""Virtual memory on real members: where bytes go, and over which link."""

from __future__ import annotations

import pytest

from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.vmem.directory import HOST
from sdi.vmem.links import Links

from .conftest import MakeRig, noise


def test_bytes_that_a_member_wrote_go_to_another_without_the_host(rig: MakeRig) -> None:
    made = rig(2)
    buffer = made.buffer(noise(4096))
    made.wait(made.fill(0, buffer, ByteRange(100, 200), b"\7"))
    made.memory.accounting.cause = "k: a"
    made.fetch(buffer, 1, ByteRange(150, 250), same_undefined=False)
    assert made.memory.moved.member_to_member == 50
    assert made.memory.moved.host_to_member == 50  # the bytes that only the host has
    assert made.memory.moved.member_to_host == 0
    report = made.memory.accounting.report()
    assert report["causes"] == {"k: a": {"0>1": 50, "host>1": 50}}
    made.wait(made.fill(1, buffer, ByteRange(0, 1), b"\1"))
    expected = bytearray(noise(4096))
    expected[100:200] = b"\7" * 100
    expected[0] = 1
    assert made.read(buffer) == expected


def test_bytes_that_all_want_go_along_a_tree(rig: MakeRig) -> None:
    made = rig(8)
    made.memory.links = Links(["cpu"] * 8, lambda: 0)  # as if all were issued at once
    data = noise(1 << 20)
    buffer = made.buffer(1 << 20)
    made.write(buffer, 0, data)
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    buffer.directory.wrote(1, buffer.whole)  # as a kernel that left all as it was
    for member in range(1, 8):
        made.fetch(buffer, member, buffer.whole, same_undefined=False)
    accounting = made.memory.accounting
    served = [sum(accounting.link_nbytes(m, t) for t in range(1, 9)) >> 20 for m in range(1, 9)]
    assert sum(served) == 7
    assert max(served) <= 3
    assert accounting.moved.member_to_host == 0
    for member in range(8):
        there = bytearray(1 << 20)
        hazards = buffer.hazards[member + 1]
        device = made.devices[member]
        ticket = device.download(
            made.memory.extent(buffer, member).device_buffer,
            0,
            memoryview(there),
            hazards.before_read(buffer.whole),
        )
        made.wait(ticket)
        assert there == data


def test_in_the_host_protocol_a_kernel_leaves_its_bytes_on_the_host_only(rig: MakeRig) -> None:
    made = rig(2, coherence="host")
    buffer = made.buffer(noise(64))
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    buffer.directory.wrote(1, ByteRange(0, 32))
    made.memory.after_kernel(buffer, [0, 1])
    assert list(buffer.directory.holders(buffer.whole)) == [(buffer.whole, 1 << HOST)]
    assert made.memory.moved.member_to_host == 32


@pytest.mark.parametrize("nbytes", [1, 1000, (4 << 20) - 1, (9 << 20) + 5])
def test_merges_in_several_tasks_are_one_merge(rig: MakeRig, nbytes: int) -> None:
    made = rig(2)
    data = noise(nbytes)
    buffer = made.buffer(data)
    for member in range(2):
        made.fetch(buffer, member, buffer.whole, same_undefined=True)
    expected = bytearray(data)
    launched = []
    for member, at in ((0, 0), (1, nbytes - 1)):
        value = data[at] ^ 255
        device = made.devices[member]
        waits = buffer.hazards[member + 1].before_write(buffer.whole)
        there = made.memory.extent(buffer, member).device_buffer
        launched.append((member, device.fill(there, at, 1, bytes([value]), waits)))
        expected[at] = value
    made.wait(made.memory.merge(buffer, buffer.whole, launched, 4, 4))
    assert made.read(buffer) == expected
    events = made.memory.accounting.events
    assert (events.twins, events.twin_nbytes) == (1, nbytes)


def test_where_the_peer_link_is_slow_bytes_go_through_the_arena(rig: MakeRig) -> None:
    made = rig(2)
    buffer = made.buffer(4096)
    made.wait(made.fill(0, buffer, buffer.whole, b"\7"))
    links = made.memory.links
    for _ in range(50):
        ticket = Ticket()
        links.issued(1, 2, 1 << 20, ticket)
        ticket.complete(None, 1, 1 << 30)
    made.fetch(buffer, 1, ByteRange(0, 100), same_undefined=False)
    assert (made.memory.moved.member_to_host, made.memory.moved.host_to_member) == (100, 100)
    made.wait(made.fill(0, buffer, ByteRange(0, 4096), b"\1"))
    made.fetch(buffer, 1, ByteRange(0, 100), same_undefined=False)
    made.wait(made.fill(1, buffer, ByteRange(0, 50), b"\2"))
    assert made.read(buffer, ByteRange(0, 100)) == b"\2" * 50 + b"\1" * 50
