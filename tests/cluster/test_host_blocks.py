"""A node's own memory: what members of the node copy there and back, and what is sent from there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sdi.cluster import host_blocks
from sdi.devices import copying
from sdi.devices.base import Device, Place
from sdi.devices.opencl.member import DriverDevice, OpenCLDevice
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.region import Region
from tests.cluster.jobs import Threads, open_on_nodes, threads
from tests.cluster.test_remote_device import N, content, filled, finish

NBYTES = 4 * N
OTHER_ROWS = Region(0, 256, ((512, 8),))


@pytest.fixture
def made() -> Iterator[Threads]:
    with threads(2) as found:
        yield found


def put(memory: Device, member: Device, buffer: object) -> object:
    """A block of a node's memory with what a member's buffer has."""
    block = memory.allocate(NBYTES, on_host=True)
    assert finish(copying.across(memory, member, buffer, 0, block, 0, NBYTES, [], [])[1]).error is None
    return block


def bulk(made: Threads) -> list[int]:
    """Bytes of buffers that each rank has sent."""
    transports = (made.root, *made.others)
    return [sum(each.bulk_nbytes for each in t.traffic.values()) for t in transports]


def test_members_copy_to_their_nodes_memory_and_back_and_nothing_leaves_the_node(
    made: Threads, driver: DriverDevice
) -> None:
    first, _, third = open_on_nodes(made.job, driver, 3)  # the first and the third on node 1
    memory, before = made.job.memory_of(1, 1 << 20), bulk(made)
    source, target = filled(first, 5), filled(third, 9)
    block = put(memory, first, source)
    assert finish(copying.across(third, memory, block, 0, target, 0, NBYTES, [], [])[1]).error is None
    assert bulk(made) == before
    assert (content(third, target) == 5).all()
    assert first.memory.in_use == third.memory.in_use == NBYTES, "it counts as none of theirs"
    memory.free(block)


def test_rows_go_there_and_back(made: Threads, driver: DriverDevice) -> None:
    first, _ = open_on_nodes(made.job, driver, 2)
    memory = made.job.memory_of(1, 1 << 20)
    block, other, target = put(memory, first, filled(first, 5)), filled(first, 7), filled(first, 9)
    places = Place(other, 0, first), Place(block, 0, memory), Place(target, 0, first)
    there = memory.copy(places[0], places[1], OTHER_ROWS, [], [])[1]
    assert finish(first.copy(places[1], places[2], OTHER_ROWS, [there], [])[1]).error is None
    found = content(first, target).reshape(-1, 64)
    assert (found[0:16:2] == 7).all() and (found[1:16:2] == 9).all()
    host = np.zeros(N, np.int32)
    down = memory.copy(places[1], Place(memoryview(host).cast("B")), Region(0, NBYTES), [there], [])[1]
    assert finish(down).error is None
    assert (host.reshape(-1, 64)[0:16:2] == 7).all() and (host.reshape(-1, 64)[1:16:2] == 5).all()


def test_other_nodes_and_members_of_rank_0_get_bytes_from_there(made: Threads, driver: DriverDevice) -> None:
    first, second = open_on_nodes(made.job, driver, 2)
    here = OpenCLDevice(driver, 7, 1 << 20)
    memory = made.job.memory_of(1, 1 << 20)
    block, before = put(memory, first, filled(first, 5)), bulk(made)
    for member in (second, here):
        target, gate = filled(member, 9), Ticket()
        left, arrived = copying.across(member, memory, block, 0, target, 0, NBYTES, [gate], [])
        assert not left.done
        gate.complete()
        assert finish(left).error is None and finish(arrived).error is None
        assert (content(member, target) == 5).all()
    sent = [after - earlier for earlier, after in zip(before, bulk(made), strict=True)]
    assert sent == [0, 2 * NBYTES, NBYTES], "rank 0 passed nothing on; node 2 told what it has got"
    here.close()


def test_what_the_machine_refuses_fails_what_uses_it(
    made: Threads, driver: DriverDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(nbytes: int) -> None:
        raise OSError(12, "no memory")

    first, _ = open_on_nodes(made.job, driver, 2)
    memory, source = made.job.memory_of(1, 1 << 20), filled(first, 5)
    monkeypatch.setattr(host_blocks, "HostBlock", refused)
    block = memory.allocate(NBYTES, on_host=True)
    copied = finish(copying.across(memory, first, source, 0, block, 0, NBYTES, [], [])[1])
    assert isinstance(copied.error, Exception) and "no memory" in str(copied.error)
    host = memoryview(bytearray(NBYTES))
    assert finish(copying.download(memory, block, 0, host, [])).error is not None
    monkeypatch.undo()
    memory.free(block)
    assert (content(first, source) == 5).all()


def test_a_node_gives_its_memory_back_when_a_session_ends(made: Threads, driver: DriverDevice) -> None:
    first, _ = open_on_nodes(made.job, driver, 2)
    memory = made.job.memory_of(1, 1 << 20)
    kept, freed = put(memory, first, filled(first, 5)), put(memory, first, filled(first, 6))
    blocks = made.nodes[0]._blocks._blocks
    assert len(blocks) == 2
    memory.free(freed)
    content(first, filled(first, 7))  # behind that
    assert len(blocks) == 1 and kept is not None
    made.job.end_session()
    assert not blocks


def test_a_kernel_is_not_asked_of_a_nodes_memory(made: Threads, driver: DriverDevice) -> None:
    first, _ = open_on_nodes(made.job, driver, 2)
    memory = made.job.memory_of(1, 1 << 20)
    block = put(memory, first, filled(first, 5))
    assert isinstance(finish(memory.fill(block, 0, 4, b"\1", [])).error, DeviceFailed)
