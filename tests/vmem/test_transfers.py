"""Copies between memories over real members: from where, in what, behind what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from sdi.devices import copying
from sdi.devices.capabilities import CPU, GPU
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.intervals import ByteRange
from sdi.region import Region
from sdi.vmem.directory import HOST, Copy
from sdi.vmem.links import LATENCY_NS, Links
from sdi.vmem.transfers import Transfer
from tests.vmem.conftest import FOR, MakeRig, noise


def test_bytes_that_a_member_wrote_go_to_another_without_the_host(rig: MakeRig) -> None:
    made = rig(2)
    buffer = made.buffer(noise(4096))
    made.wait(made.fill(0, buffer, ByteRange(100, 200), b"\7"))
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


@pytest.mark.parametrize("through_host", [False, True])
def test_columns_move_as_rows_at_a_time(rig: MakeRig, through_host: bool) -> None:
    made, rows, pitch, width = rig(3), 100, 64, 24
    if through_host:
        made.memory.transfers.links.through_host = lambda *_: True  # type: ignore[method-assign]
    expected = bytearray(noise(rows * pitch))
    buffer = made.buffer(bytes(expected))
    for row in range(rows):
        for member in (0, 1):
            over = ByteRange(row * pitch + 8 + member * width, row * pitch + 8 + member * width + width)
            made.wait(made.fill(member, buffer, over, bytes([1 + row % 7 + 100 * member])))
            expected[over.start : over.stop] = bytes([1 + row % 7 + 100 * member]) * width
    before = {ends: total.copies for ends, total in made.memory.accounting._links.items()}
    made.fetch(buffer, 2, buffer.whole, same_undefined=False)
    copies = {
        ends: total.copies - before.get(ends, 0) for ends, total in made.memory.accounting._links.items()
    }
    direct = {(1, 3): 1, (2, 3): 1}
    staged = {(1, 0): 1, (2, 0): 1}
    # What the host had from the start lies between; its first and last ranges have other lengths.
    assert {ends: n for ends, n in copies.items() if n and ends[0] != 0} == (
        staged if through_host else direct
    )
    assert copies[0, 3] <= (5 if through_host else 3)
    assert made.memory.accounting._links[1, 0 if through_host else 3].nbytes == rows * width
    there = bytearray(rows * pitch)
    device = made.devices[2]
    allocation = made.memory.memories.allocation(buffer, 2)
    waits = buffer.dependencies[3].before_read(buffer.whole)
    made.wait(copying.download(device, allocation.device_buffer, 0, memoryview(there), waits))
    assert there == expected
    assert made.read(buffer) == expected


def test_rows_that_arrive_on_a_member_leave_what_failed_there_between_them_poisoned(rig: MakeRig) -> None:
    made, rows, pitch = rig(1), 100, 64
    buffer = made.buffer(noise(rows * pitch))
    made.wait(made.fill(0, buffer, buffer.whole, b"\1"))
    for row in range(rows):
        made.write(buffer, row * pitch, b"\2" * 24)
    over = ByteRange(5 * pitch + 30, 5 * pitch + 40)
    buffer.dependencies[1].written_by(over, completed(DeviceFailed("a kernel", "broke")))
    ranges = [ByteRange(row * pitch, row * pitch + 24) for row in range(rows)]
    for transfer in made.memory.transfers.plan(buffer, 1, ranges, False, FOR.cause):
        assert transfer.region.levels
        made.memory.transfers.perform(transfer, FOR)
    with pytest.raises(DeviceFailed, match="broke"):
        made.read(buffer, over)


def test_bytes_that_all_want_go_along_a_tree(rig: MakeRig) -> None:
    made = rig(8)
    made.memory.transfers.links = Links([CPU] * 8, lambda: 0)  # as if all were issued at once
    data = noise(1 << 20)
    buffer = made.buffer(1 << 20)
    made.write(buffer, 0, data)
    made.fetch(buffer, 0, buffer.whole, same_undefined=False)
    buffer.directory.wrote(1, buffer.whole)  # as a kernel that left all as it was
    for member in range(1, 8):
        made.fetch(buffer, member, buffer.whole, same_undefined=False)
    accounting = made.memory.accounting
    served = [0] * 9
    for (source, target), total in accounting._links.items():
        served[source] += (total.nbytes >> 20) if target else 0
    assert sum(served[1:]) == 7
    assert max(served[1:]) <= 3
    assert accounting.moved.member_to_host == 0
    for member in range(8):
        there = bytearray(1 << 20)
        dependencies = buffer.dependencies[member + 1]
        device = made.devices[member]
        ticket = copying.download(
            device,
            made.memory.memories.allocation(buffer, member).device_buffer,
            0,
            memoryview(there),
            dependencies.before_read(buffer.whole),
        )
        made.wait(ticket)
        assert there == data


def test_where_the_peer_link_is_slow_bytes_go_through_the_arena(rig: MakeRig) -> None:
    made = rig(2)
    buffer = made.buffer(4096)
    made.wait(made.fill(0, buffer, buffer.whole, b"\7"))
    links = made.memory.transfers.links
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


def test_bytes_come_home_only_after_those_who_still_read_the_old_ones(rig: MakeRig) -> None:
    made = rig(1)
    buffer = made.buffer(noise(4096))
    gate = Ticket()
    buffer.dependencies[HOST].read_by(buffer.whole, gate)  # as an upload that has not started
    made.fill(0, buffer, ByteRange(0, 100), b"\7")
    done = Ticket()
    waits = made.read_behind(buffer, buffer.whole, done)
    made.wait(*buffer.dependencies[1].before_read(buffer.whole))
    assert made.memory.memories.host_view(buffer, buffer.whole) == noise(4096)
    gate.complete()
    made.wait(*waits)
    assert made.memory.memories.host_view(buffer, ByteRange(0, 101)) == b"\7" * 100 + noise(4096)[100:101]
    done.complete()


def test_a_copy_between_members_waits_for_those_who_still_use_the_old_bytes(
    rig: MakeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = rig(2)
    waits: list[Ticket] = []
    copy = made.devices[1].copy
    monkeypatch.setattr(
        made.devices[1], "copy", lambda *args: waits.extend((*args[-3], *args[-2])) or copy(*args)
    )
    buffer = made.buffer(noise(4096))
    made.fetch(buffer, 1, buffer.whole, same_undefined=False)
    gate = Ticket()
    buffer.dependencies[2].read_by(buffer.whole, gate)  # as a kernel that has not started
    made.fill(0, buffer, buffer.whole, b"\7")
    made.fetch(buffer, 1, buffer.whole, same_undefined=False)
    (copied,) = buffer.dependencies[2].before_read(buffer.whole)
    assert gate in waits and not copied.done
    gate.complete()
    made.wait(copied)


def test_what_a_member_gets_of_another_one_at_once_has_one_latency(rig: MakeRig) -> None:
    transfers = rig(2).memory.transfers
    transfers.links = Links([GPU] * 3)

    def plane(source: int, target: int, start: int) -> Transfer:
        over = ByteRange(start, start + 1000)
        made = SimpleNamespace(copy=Copy(source, target, over), nbytes=1000, region=Region(start, 1000))
        return cast(Transfer, made)

    planes = [plane(1, 2, 5000 * k) for k in range(10)]
    each_ns = LATENCY_NS + 10_000 * GPU.peer_ns_per_byte + 9 * GPU.peer_copy_ns
    assert transfers.predicted_ns(planes) == pytest.approx(each_ns)
    both = [*planes, plane(HOST, 2, 1), *[plane(3, 2, 5000 * k) for k in range(10)], plane(2, 1, 7)]
    assert transfers.predicted_ns(both) == pytest.approx(2 * each_ns), "one after the other"
    assert transfers.predicted_ns([plane(HOST, 2, 1)]) == 0
