"""What is larger than a member and wanted whole by each lies in the memory of all members together."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from sdi.devices.base import Device
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.handles import HostBytes
from sdi.devices.pooled import PooledBytes, PooledMemory
from sdi.devices.testing.faulty import LosingDevice
from sdi.errors import ClError, Status
from sdi.vmem.accounting import Events
from sdi.wire.records import Op
from tests.service.wire_client import WireClient

SOURCE = """
__kernel void pick(__global const int *table, __global int *out, uint n) {
    uint i = get_global_id(0);
    out[i] = table[((uint)table[i] * 2654435761u + i) % n];
}
__kernel void put(__global int *table, __global const int *where, int by) {
    int i = get_global_id(0);
    table[where[i]] += by + i;
}
__kernel void grow(__global int *p) { p[get_global_id(0)] += 7; }
"""
PICK, PUT, GROW = range(3)
LIMIT_NBYTES = 2 << 20
COUNT, LOCAL, PICKED = 3 << 18, 64, 1 << 14


def pool_of(members: Sequence[Device]) -> PooledMemory:
    """Host memory that all members map, with as much taken from each as if a part lay there."""

    def share(nbytes: int) -> int:
        return -(-nbytes // len(members) // 4096) * 4096

    def make(nbytes: int) -> PooledBytes:
        taken = [member.allocate(share(nbytes)) for member in members]
        host: HostBytes = memoryview(mmap.mmap(-1, nbytes)).cast("B")
        views = tuple(member.allocate(host) for member in members)

        def free() -> None:
            for member, view, part in zip(members, views, taken, strict=True):
                member.free(view)
                member.free(part)

        return PooledBytes(views, nbytes, free)

    return PooledMemory(members, make, share)


@contextmanager
def image(is_pooled: bool = True, lost: tuple[int, int] | None = None) -> Iterator[WireClient]:
    members = open_members(MemberSettings(count=3, memory_nbytes=LIMIT_NBYTES, lost=lost))
    with WireClient(members, "always", pooled=pool_of(members) if is_pooled else None) as client:
        yield client


def pool_of_session(client: WireClient) -> PooledMemory:
    pool = client.session._memory.placement._pool
    assert pool is not None
    return pool


def events(client: WireClient) -> Events:
    return client.session._memory.accounting.events


def picked(table: np.ndarray) -> np.ndarray:
    i = np.arange(PICKED, dtype=np.uint32)
    return table[(table[:PICKED].astype(np.uint32) * np.uint32(2654435761) + i) % np.uint32(COUNT)]


def read(client: WireClient, buffer: int, count: int) -> np.ndarray:
    return np.frombuffer(client.read(buffer, 4 * count), np.int32)


@pytest.mark.parametrize("is_pooled", [True, False])
def test_a_table_above_a_members_memory_is_read_and_written_by_all(is_pooled: bool) -> None:
    with image(is_pooled) as client:
        build, status, _ = client.build(SOURCE)
        assert status == 0
        rng = np.random.default_rng(1)
        table = rng.integers(0, 1 << 30, COUNT, np.int32)
        where = rng.permutation(COUNT)[:PICKED].astype(np.int32)
        tables, out = client.buffer(table.tobytes()), client.buffer(4 * PICKED)
        places = client.buffer(where.tobytes())
        for step in range(3):
            client.launch(build, [(tables, 0), (out, 0), np.uint32(COUNT).tobytes()], [PICKED], [LOCAL], PICK)
            assert np.array_equal(read(client, out, PICKED), picked(table))
            client.launch(build, [(tables, 0), (places, 0), np.int32(step).tobytes()], [PICKED], [LOCAL], PUT)
            table[where] += step + np.arange(PICKED, dtype=np.int32)
            if step == 1:
                assert np.array_equal(read(client, tables, COUNT), table)
            client.launch(build, [(tables, 0)], [COUNT], [LOCAL], GROW)
            table += 7
        assert np.array_equal(read(client, tables, COUNT), table)
        kernels = {name: client.session.counters.kernel(name) for name in ("pick", "grow")}
        assert all(kernel.launches_split == 3 for kernel in kernels.values())
        assert (events(client).shared > 0) == is_pooled and (events(client).mapped > 0) != is_pooled
        assert max(client.session._memory.accounting.peak_nbytes) <= LIMIT_NBYTES


@pytest.mark.parametrize("is_told_late", [False, True])
def test_what_all_share_goes_where_members_need_the_room(is_told_late: bool) -> None:
    with image() as client:
        if is_told_late:  # that what was on its way out of the memory of all is not in use any more
            client.session._memory.placement.heaps[3]._post = lambda call: None
        build, _, _ = client.build(SOURCE)
        table = np.random.default_rng(2).integers(0, 1 << 30, COUNT, np.int32)
        tables, out = client.buffer(table.tobytes()), client.buffer(4 * PICKED)
        other = client.buffer(np.arange(COUNT * 3 // 2, dtype=np.int32).tobytes())  # half as large again
        for step in range(3):
            client.launch(build, [(tables, 0), (out, 0), np.uint32(COUNT).tobytes()], [PICKED], [LOCAL], PICK)
            client.launch(build, [(other, 0)], [COUNT * 3 // 2], [LOCAL], GROW)
            assert np.array_equal(read(client, out, PICKED), picked(table)), step
        expected = np.arange(COUNT * 3 // 2, dtype=np.int32) + 21
        assert np.array_equal(read(client, other, COUNT * 3 // 2), expected)
        assert events(client).shared == 3 and events(client).mapped == 0
        client.send(Op.RELEASE_BUFFER, tables)
        client.finish()
        assert pool_of_session(client).memory.in_use == 0


def test_memory_of_all_that_is_refused_is_not_asked_for_again_and_takes_no_places_away() -> None:
    members = open_members(MemberSettings(count=3, memory_nbytes=LIMIT_NBYTES))
    asked: list[int] = []

    def refuse(nbytes: int) -> PooledBytes:
        asked.append(nbytes)
        raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, "the members do not reach each other")

    with WireClient(members, "always", pooled=PooledMemory(members, refuse, lambda n: n // 3)) as client:
        build, _, _ = client.build(SOURCE)
        table = np.random.default_rng(4).integers(0, 1 << 30, COUNT, np.int32)
        small = np.arange(1 << 18, dtype=np.int32)
        tables, out, other = (client.buffer(data) for data in (table.tobytes(), 4 * PICKED, small.tobytes()))
        for _ in range(3):
            client.launch(build, [(other, 0)], [len(small)], [LOCAL], GROW)
            client.launch(build, [(tables, 0), (out, 0), np.uint32(COUNT).tobytes()], [PICKED], [LOCAL], PICK)
            assert np.array_equal(read(client, out, PICKED), picked(table))
        assert asked == [4 * COUNT] and events(client).mapped > 0
        assert events(client).spilled_nbytes <= small.nbytes, "at most to make room, once"
        assert np.array_equal(read(client, other, len(small)), small + 21)


@pytest.mark.logs("lost: |a test asked for it|can't read|failed")
@pytest.mark.parametrize("lasts", [0, 1, 3, 6])
def test_with_a_member_the_memory_of_all_together_is_lost(lasts: int) -> None:
    with image(lost=(1, lasts)) as client:
        memory = client.session._memory
        build, _, _ = client.build(SOURCE)
        table = np.random.default_rng(3).integers(0, 1 << 30, COUNT, np.int32)
        tables, out = client.buffer(table.tobytes()), client.buffer(4 * PICKED)
        statuses = []
        for _ in range(8):
            arguments = [(tables, 0), (out, 0), np.uint32(COUNT).tobytes()]
            statuses.append(client.wait(client.launch(build, arguments, [PICKED], [LOCAL], PICK)))
        assert statuses[-1] == 0, "the host has the table, the others go on"
        assert np.array_equal(read(client, out, PICKED), picked(table))
        assert isinstance(memory.devices[1], LosingDevice) and memory.devices[1].is_lost()
        assert memory.members == [0, 2]
        assert pool_of_session(client).memory.in_use == 0, "the others have their parts back"
