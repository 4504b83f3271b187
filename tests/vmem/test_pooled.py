"""What is larger than a member and wanted whole by each lies in the memory of all members together."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.image import ImageShape
from sdi.devices.pooled import PooledBytes, PooledMemory
from sdi.errors import ClError, DeviceFailed, Status
from sdi.intervals import ByteRange
from sdi.limits import MAP_NORESERVE
from sdi.settings import Coherence, Verify
from sdi.vmem.accounting import Events
from sdi.vmem.buffer import ImageView
from sdi.wire.opencl import ChannelOrder, ChannelType, MemObjectType
from sdi.wire.records import ARENA_NBYTES, SHARED_ADDRESSES, Op
from tests.devices.testing.faulty import LosingDevice
from tests.devices.testing.hooks import hooks
from tests.devices.testing.pool import Elsewhere, pool_of
from tests.service.wire_client import WireClient
from tests.vmem.conftest import FOR, MakeRig, noise

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
__kernel void join(__global int *a, __global const int *b) { a[get_global_id(0)] += b[get_global_id(0)]; }
"""
PICK, PUT, GROW, JOIN = range(4)
LIMIT_NBYTES = 2 << 20
COUNT, LOCAL, PICKED = 3 << 18, 64, 1 << 14
_MAP_FIXED_NOREPLACE = 0x100000
_IMAGE = ImageShape(
    MemObjectType.IMAGE2D, ChannelOrder.RGBA, ChannelType.UNORM_INT8, 64, 80, 1, 256, 5 << 12
)  # of 20 KiB


@contextmanager
def image(is_pooled: bool = True, lost: tuple[int, int] | None = None) -> Iterator[WireClient]:
    members = open_members(MemberSettings(count=3, memory_nbytes=LIMIT_NBYTES, testing=hooks(lost=lost)))
    with WireClient(members, "always", pooled=pool_of(members) if is_pooled else None) as client:
        yield client


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE | _MAP_FIXED_NOREPLACE
    access = mmap.PROT_READ | mmap.PROT_WRITE
    address = next(a for a in SHARED_ADDRESSES if libc.mmap(a, ARENA_NBYTES, access, flags, -1, 0) == a)
    yield Elsewhere(address)
    libc.munmap(address, ARENA_NBYTES)


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


def test_what_all_share_goes_where_the_places_of_one_launch_need_the_room() -> None:
    """Each of them has room if the other one goes, so nobody says that there is none."""
    with image() as client:
        build, status, _ = client.build(SOURCE)
        assert status == 0
        table, out = client.buffer(np.zeros(COUNT, np.int32).tobytes()), client.buffer(4 * PICKED)
        arguments = [(table, 0), (out, 0), np.uint32(COUNT).tobytes()]
        assert client.wait(client.launch(build, arguments, [PICKED], [LOCAL], PICK)) == 0
        assert events(client).shared == 1
        values = np.arange(COUNT * 9 // 10 // LOCAL * LOCAL, dtype=np.int32)
        pair = [(client.buffer(values.tobytes()), 0) for _ in range(2)]
        for _ in range(2):
            assert client.wait(client.launch(build, pair, [len(values)], [LOCAL], JOIN)) == 0
        assert np.array_equal(read(client, pair[0][0], len(values)), 3 * values)


def test_what_all_share_goes_where_an_image_needs_the_room(rig: MakeRig) -> None:
    made = rig(2, memory_nbytes=1 << 16, is_pooled=True)
    table, pixels = made.buffer(noise(1 << 16)), made.buffer(noise(_IMAGE.nbytes))
    place, image = (pixels, 0, pixels.whole), (pixels, 0, ImageView(0, _IMAGE))
    assert not made.memory.placement.share(table, [], [], [0, 1], FOR) and table.allocations[2]
    made.reserve(place)
    assert table.allocations[2], "there is room for both"
    made.reserve(place, images=[image])
    assert table.allocations[2] is None and image[1:] in pixels.images
    assert made.read(table) == noise(1 << 16)


def test_what_all_share_leaves_room_for_the_images_of_its_launch(rig: MakeRig) -> None:
    made = rig(2, memory_nbytes=1 << 16, is_pooled=True)
    table, pixels = made.buffer(noise(1 << 16)), made.buffer(noise(_IMAGE.nbytes))
    place, image = (pixels, 0, pixels.whole), (pixels, 0, ImageView(0, _IMAGE))
    assert not made.memory.placement.share(table, [place], [image], [0, 1], FOR)
    assert table.allocations[2] is None
    assert not made.memory.placement.share(table, [place], [], [0, 1], FOR) and table.allocations[2]


def test_memory_of_all_that_is_refused_is_not_asked_for_again_and_takes_no_places_away() -> None:
    members = open_members(MemberSettings(count=3, memory_nbytes=LIMIT_NBYTES))
    asked: list[int] = []

    def refuse(over: ByteRange) -> PooledBytes:
        asked.append(over.nbytes)
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


LINKED = """
typedef struct node { __global struct node *next; int value; int seen; } node;
__kernel void link(__global node *nodes, __global const int *order, int count) {
    int i = get_global_id(0);
    nodes[order[i]].next = i + 1 < count ? &nodes[order[i + 1]] : 0;
    nodes[order[i]].value += 3 * i + 1;
}
__kernel void walk(__global ulong *heads, __global int *sums, int steps) {
    int i = get_global_id(0), sum = 0;
    __global node *at = (__global node *)heads[i];
    for (int k = 0; k < steps && at; k++, at = at->next)
        sum += at->value * (k + 1);
    sums[i] = sum;
}
__kernel void visit(__global ulong *heads) {
    __global node *at = (__global node *)heads[get_global_id(0)];
    at->seen += at->value;
}
__kernel void count(__global ulong *heads, __global int *n) {
    __global node *at = (__global node *)heads[get_global_id(0)];
    atomic_add(n, at->value);
}
"""
LINK, WALK, VISIT, ADD = range(4)
NODE = np.dtype([("next", np.uint64), ("value", np.int32), ("seen", np.int32)])
NODES, STEPS = 960, 5


def walked(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """What ``walk`` leaves for heads that are the nodes in turn."""
    padded = np.concatenate([values[order], np.zeros(STEPS, np.int32)])
    sums = np.zeros(NODES, np.int32)
    sums[order] = sum((k + 1) * padded[k : k + NODES] for k in range(STEPS))
    return sums


@pytest.mark.parametrize("coherence", ["lazy", "host"])
@pytest.mark.parametrize("verify", ["off", "stop"])
def test_kernels_that_follow_pointers_use_the_memory_of_all_at_the_applications_addresses(
    elsewhere: Elsewhere, coherence: Coherence, verify: Verify
) -> None:
    members = open_members(MemberSettings(count=3))
    pooled = pool_of(members, elsewhere)
    with WireClient(members, "always", coherence, pooled, verify=verify) as client:
        assert client.arena_address in SHARED_ADDRESSES
        base = client.arena_address
        build, status, text = client.build(LINKED)
        assert status == 0, text
        order = np.random.default_rng(5).permutation(NODES).astype(np.int32)
        nodes = client.buffer(np.zeros(NODES, NODE).tobytes())
        orders, sums, n = client.buffer(order.tobytes()), client.buffer(4 * NODES), client.buffer(bytes(4))
        addresses = base + client.offsets[nodes] + NODE.itemsize * np.arange(NODES, dtype=np.uint64)
        heads = client.buffer(addresses.tobytes())
        values, total, seen = np.zeros(NODES, np.int32), 0, np.zeros(NODES, np.int32)
        for _ in range(3):
            arguments = [(nodes, 0), (orders, 0), np.int32(NODES).tobytes()]
            client.launch(build, arguments, [NODES], [16], LINK, regions=[nodes])
            arguments = [(heads, 0), (sums, 0), np.int32(STEPS).tobytes()]
            client.launch(build, arguments, [NODES], [16], WALK, regions=[nodes])
            client.launch(build, [(heads, 0)], [NODES], [16], VISIT, regions=[nodes])
            client.launch(build, [(heads, 0), (n, 0)], [NODES], [16], ADD, regions=[nodes])
            values[order] += 3 * np.arange(NODES, dtype=np.int32) + 1
            total, seen = total + int(values.sum()), seen + values
            assert np.array_equal(read(client, sums, NODES), walked(values, order))
            assert read(client, n, 1)[0] == total
        found = np.frombuffer(client.read(nodes, NODES * NODE.itemsize), NODE)
        assert np.array_equal(found["value"], values) and np.array_equal(found["seen"], seen)
        kernel = client.session.counters.kernel
        assert [kernel(name).launches_split for name in ("link", "walk", "visit", "count")] == [3, 3, 3, 0]
        assert events(client).shared == 1 and not events(client).mapped
        client.send(Op.RELEASE_BUFFER, nodes)
        client.finish()
        assert pool_of_session(client).memory.in_use == 0


@pytest.mark.logs("of shared virtual memory on all members together")
def test_regions_take_turns_where_there_is_no_room_for_all_and_one_too_large_fails(
    elsewhere: Elsewhere,
) -> None:
    members = open_members(MemberSettings(count=3, memory_nbytes=1 << 18))
    with WireClient(members, "always", pooled=pool_of(members, elsewhere)) as client:
        base = client.arena_address
        build, _, _ = client.build(LINKED)
        count = 12 << 10  # 192 KiB of nodes, 96 KiB of addresses
        regions = [client.buffer(np.zeros(count, NODE).tobytes()) for _ in range(5)]
        large = client.buffer((1 << 20) * 3)
        heads = [
            client.buffer((base + client.offsets[each] + 16 * np.arange(count, dtype=np.uint64)).tobytes())
            for each in regions
        ]
        order = client.buffer(np.arange(count, dtype=np.int32).tobytes())
        launches = []
        for _ in range(2):
            for region, head in zip(regions, heads, strict=True):
                arguments = [(region, 0), (order, 0), np.int32(count).tobytes()]
                launches.append(client.launch(build, arguments, [count], [16], LINK, regions=[region]))
                launches.append(client.launch(build, [(head, 0)], [count], [16], VISIT, regions=[region]))
        assert [client.wait(launch) for launch in launches] == [0] * len(launches)
        value = 3 * np.arange(count) + 1
        for region in regions:
            found = np.frombuffer(client.read(region, count * NODE.itemsize), NODE)
            assert np.array_equal(found["value"], 2 * value) and np.array_equal(found["seen"], 3 * value)
        assert events(client).shared > 5
        refused = client.launch(build, [(heads[0], 0)], [count], [16], VISIT, regions=[regions[0], large])
        assert client.wait(refused) == Status.MEM_OBJECT_ALLOCATION_FAILURE


@pytest.mark.logs("failed: ")
def test_a_launch_that_reaches_what_is_poisoned_fails_until_it_is_written(elsewhere: Elsewhere) -> None:
    members = open_members(MemberSettings(count=3))
    with WireClient(members, "always", pooled=pool_of(members, elsewhere)) as client:
        build, _, _ = client.build(LINKED)
        nodes, data = client.buffer(NODES * NODE.itemsize), np.ones(NODES, NODE).tobytes()
        first = client.arena_address + client.offsets[nodes]
        addresses = (first + NODE.itemsize * np.arange(NODES, dtype=np.uint64)).tobytes()
        heads = client.buffer(addresses)
        client.write(nodes, data)
        memory = client.session._memory

        def visit() -> int:
            return client.wait(client.launch(build, [(heads, 0)], [NODES], [16], VISIT, regions=[nodes]))

        assert [visit() for _ in range(3)] == [0, 0, 0]
        memory.recovery.poison(memory.buffer(nodes), ByteRange(64, 68), DeviceFailed("a test", "was there"))
        assert visit() < 0 and visit() < 0
        client.write(nodes, data)
        client.write(heads, addresses)  # an argument that it may write
        assert visit() == 0
        assert (np.frombuffer(client.read(nodes, len(data)), NODE)["seen"] == 2).all()
