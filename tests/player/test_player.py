"""Known commands are executed by the player, with the bytes and the guards of an ordinary issue."""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sdi.appends import COPIES_MAX_NBYTES
from sdi.cells import STAGE_IN_USE, STAGE_RECYCLED
from sdi.commands import Launch
from sdi.devices.base import Device, Place
from sdi.devices.issue import Issue
from sdi.devices.pooled import PooledMemory
from sdi.devices.ticket import Ticket, completed
from sdi.errors import ClError, DeviceFailed, Status
from sdi.launch.kernel import LaunchPlan
from sdi.launch.launcher import Launcher
from sdi.partition.balance import Balance, ShareEpoch
from sdi.partition.cost import Edges
from sdi.player.face import Player
from sdi.player.library import NO_RECORDING, PlayerReport, Told
from sdi.player.recorded import Recorded
from sdi.region import Region
from sdi.vmem.arena import Arena
from sdi.vmem.buffer import VirtualBuffer
from sdi.wire.opencl import MemFlags
from sdi.wire.records import NoticeKind, Op
from tests.devices.testing.pool import pool_of
from tests.service.conftest import Serve
from tests.service.wire_client import WireClient

SOURCE = """
kernel void advance(global int *a, int factor, float shift)
{
    size_t i = get_global_id(0);
    a[i] = a[i] * 3 + factor + (int)shift;
}

kernel void blend(global int *b, global const int *a) { b[get_global_id(0)] ^= a[get_global_id(0)]; }

kernel void pick(global int *a, global const int *b, int first) { a[get_global_id(0)] += b[first]; }

kernel void turn(global int *a, global const int *b, int step)
{
    int i = get_global_id(0);
    a[i] += b[step % 2 == 0 ? i / 2 : 128 + i / 2] * step;
}

kernel void wave(global int *a, global const int *b)
{
    int i = get_global_id(0);
    a[i] ^= b[i > 0 ? i - 1 : 0] + 3 * b[i < 255 ? i + 1 : 255];
}

kernel void yield_columns(global int *a)
{
    for (int i = 0; i < 256; i++)
        a[256 * i + get_global_id(0)] += i;
}

kernel void yield_rows(global int *b, global const int *a)
{
    int sum = 0;
    for (int i = 0; i < 256; i++)
        sum += a[256 * get_global_id(0) + i];
    b[get_global_id(0)] += sum;
}
"""
THIRDS = """
kernel void thirds(global int *a, int t)
{
    size_t i = get_global_id(0);
    if (i < 128)
        a[i + (t % 3 == 1) * 128] += t + (t == 0);
}
"""
APPEND = """
kernel void append(volatile global int *number, global const int *x, global int *y)
{
    int i = get_global_id(0);
    if (!(x[i] & 3)) y[atomic_inc(number)] = i;
}
"""
CHOOSE = """
kernel void choose(global int *number, global const int *x, global int *y, int k)
{
    int i = get_global_id(0);
    if (i >= k) return;
    int at = atomic_add(number, x[i] > 4); /* for each, and not only where data say so */
    if (x[i] > 4) y[at & 0xffffff] = i; /* an append would be split */
}
"""
STEP, MIX, FROM, TURN, WAVE, COLUMNS, ROWS = range(7)  # by name
ITEMS = 256
PROFILED = 2
"""CL_QUEUE_PROFILING_ENABLE"""
INVALIDATE = 4
Array = np.ndarray[tuple[int, ...], np.dtype[np.int32]]


class Loop:
    """A client that launches on two buffers, and the bytes that these must have."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.stages = False
        self.build, status, _ = client.build(SOURCE)
        assert status == 0
        self.truth: list[Array] = [np.arange(ITEMS, dtype=np.int32), np.zeros(ITEMS, np.int32)]
        self.a, self.b = (client.buffer(array.tobytes()) for array in self.truth)

    @property
    def player(self) -> Player:
        """The session's."""
        found = self.client.session.player
        assert found is not None
        return found

    def step(self, factor: int = 5, shift: float = 2.5, **more: Sequence[int]) -> int:
        """One launch that writes the first buffer; ``more``: regions, waits."""
        values = struct.pack("<i", factor), struct.pack("<f", shift)
        self.truth[0] = self.truth[0] * np.int32(3) + np.int32(factor + int(shift))
        arguments = [(self.a, 0), *values]
        return self.client.launch(self.build, arguments, [ITEMS], [16], kernel_index=STEP, **more)

    def mix(self) -> int:
        """One launch that reads it and writes the second."""
        self.truth[1] = self.truth[1] ^ self.truth[0]
        return self.client.launch(self.build, [(self.b, 0), (self.a, 0)], [ITEMS], [16], kernel_index=MIX)

    def put(self, values: Array, first: int = 10) -> int:
        """One write to the first buffer."""
        self.truth[0] = self.truth[0].copy()
        self.truth[0][first : first + len(values)] = values
        put = self.client.stage if self.stages else self.client.put
        return put(self.a, values.tobytes(), offset=4 * first)

    def land(self, values: Array, first: int = 0) -> int:
        """Likewise one that the client has made, in a buffer that nobody else uses."""
        self.truth[0] = self.truth[0].copy()
        self.truth[0][first : first + len(values)] = values
        at = self.client.offsets[self.a] + 4 * first
        self.client.arena[at : at + values.nbytes] = values.tobytes()
        where = {"offset": 4 * first, "region": [values.nbytes, 1, 1]}
        return self.client.command(Op.WRITE, buffer=self.a, written_ns=time.monotonic_ns(), **where)

    def fill(self, value: int, first: int = 20, count: int = 100) -> int:
        """One fill of the first buffer."""
        self.truth[0] = self.truth[0].copy()
        self.truth[0][first : first + count] = value
        over = {"offset": 4 * first, "region": [4 * count, 1, 1]}
        return self.client.command(Op.FILL, struct.pack("<i", value), buffer=self.a, pattern_nbytes=4, **over)

    def mapped(self, flags: int, values: Array | None = None, first: int = 5, count: int = 100) -> None:
        """The second buffer is mapped and looked at, or written, and unmapped."""
        client, over = self.client, {"offset": 4 * first, "region": [4 * count, 1, 1]}
        assert client.wait(client.command(Op.MAP, buffer=self.b, flags=flags, blocking=1, **over)) == 0
        at = client.offsets[self.b] + 4 * first
        if flags != INVALIDATE:
            found = np.frombuffer(client.arena[at : at + 4 * count], np.int32)
            np.testing.assert_array_equal(found, self.truth[1][first : first + count])
        if values is not None:
            self.truth[1] = self.truth[1].copy()
            self.truth[1][first : first + count] = values
            client.arena[at : at + 4 * count] = self.truth[1][first : first + count].tobytes()
        client.command(Op.UNMAP, buffer=self.b, wrote=int(values is not None), **over)

    def rounds(self, count: int, changing: bool = False) -> None:
        """Both launches, that often, each time waited for."""
        for number in range(count):
            self.step(number if changing else 5)
            self.mix()
            self.client.finish()

    def replayed(self, do: Callable[[], object]) -> int:
        """How many commands that are no markers were replayed in what ``do`` sends."""
        before = self.player.replayed()
        do()
        self.client.finish()
        return self.player.replayed() - before

    def repeated(self, do: Callable[[], object]) -> int:
        """How many of these were replayed by recordings that there are before: others are made meanwhile."""
        posted(self, lambda: None)
        player, runs = self.player, [0]
        there, count = player.recorded(), player._count

        def counted(recorded: Recorded, times: int) -> None:
            if any(each is recorded for each in there):
                runs.append(times)
            count(recorded, times)

        player._count = counted  # type: ignore[method-assign]
        do()
        posted(self, lambda: None)
        player._count = count  # type: ignore[method-assign]
        return sum(runs)

    def settle(self) -> None:
        """Launch until both launches are replayed; then once more the first one, which is."""
        self.rounds(12)
        self.until_replayed(lambda _: (self.step(), self.mix()), 2)
        self.until_replayed(lambda _: self.step(), 1)

    def until_replayed(self, once: Callable[[int], object], count: int) -> None:
        """Do ``once``, with rising numbers, until ``count`` commands of one go were replayed."""
        for number in range(200):
            before = self.player.replayed()
            once(number)
            self.client.finish()
            if self.player.replayed() - before == count:
                return
        raise AssertionError(f"never {count} at once: {self.player.summary()}")

    def check(self) -> None:
        """The bytes are what they must be."""
        for buffer, truth in zip((self.a, self.b), self.truth, strict=True):
            found = np.frombuffer(self.client.read(buffer, 4 * ITEMS), np.int32)
            np.testing.assert_array_equal(found, truth)


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("changing", [False, True], ids=["same", "changing"])
def test_loops_are_replayed_with_the_same_bytes(serve: Serve, members: int, changing: bool) -> None:
    loop = Loop(serve(members, plays=True))

    def once(number: int) -> None:
        loop.step(number if changing else 5)
        loop.mix()

    loop.until_replayed(once, 2)
    loop.rounds(20, changing)
    loop.check()
    kernels = [loop.client.session.counters.kernel(name) for name in ("advance", "blend")]
    assert all(list(kernel.members_used) == [members] for kernel in kernels)
    assert kernels[0].members_used == kernels[1].members_used


@pytest.mark.parametrize("members", [2, 3, 5])
def test_launches_that_get_bytes_of_other_members_are_replayed(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))

    def wave(to: int) -> None:
        buffers, from_ = (loop.a, loop.b), loop.truth[1 - to]
        neighbours = np.concatenate([from_[:1], from_[:-1]]) + 3 * np.concatenate([from_[1:], from_[-1:]])
        loop.truth[to] = loop.truth[to] ^ neighbours
        arguments = [(buffers[to], 0), (buffers[1 - to], 0)]
        loop.client.launch(loop.build, arguments, [ITEMS], [16], kernel_index=WAVE)

    def both(_: int = 0) -> None:
        wave(0)
        wave(1)

    def many() -> None:
        for _ in range(30):
            both()

    loop.until_replayed(both, 2)
    moved, kernel = loop.client.session._memory.moved, loop.client.session.counters.kernel("wave")
    before = moved.member_to_member
    assert loop.replayed(many) > 50
    assert list(kernel.members_used) == [members]
    assert moved.member_to_member - before == 60 * 2 * (members - 1) * 4, "an element each way at each cut"
    loop.check()


@pytest.mark.parametrize("shares", [[128, 128], [96, 80, 80]])
def test_launches_that_get_parts_of_rows_of_other_members_are_replayed(
    serve: Serve, shares: list[int]
) -> None:
    loop = Loop(serve(len(shares), plays=True))
    client, square, sums = loop.client, np.ones((256, 256), np.int32), np.zeros(256, np.int32)
    whole, parts = (client.buffer(array.tobytes()) for array in (square, sums))

    def both(_: int = 0) -> None:
        client.launch(loop.build, [(whole, 0)], [256], [16], kernel_index=COLUMNS)
        client.launch(loop.build, [(parts, 0), (whole, 0)], [256], [16], kernel_index=ROWS)
        square[:] += np.arange(256, dtype=np.int32)[:, None]
        sums[:] += square.sum(axis=1, dtype=np.int32)

    loop.until_replayed(both, 2)
    moved = client.session._memory.moved
    before = moved.member_to_member
    both()
    client.finish()
    assert moved.member_to_member - before == sum(share * (256 - share) for share in shares) * 4
    assert loop.replayed(lambda: [both() for _ in range(30)]) > 50
    for buffer, array in ((whole, square), (parts, sums)):
        np.testing.assert_array_equal(
            np.frombuffer(client.read(buffer, array.nbytes), np.int32), array.ravel()
        )


@pytest.mark.parametrize("members", [1, 2, 3])
def test_launches_that_reach_regions_are_replayed_and_not_taken_for_others(
    serve: Serve, members: int
) -> None:
    loop = Loop(serve(members, plays=True))
    loop.settle()
    sets = ([loop.a], [loop.b], [loop.b, loop.a])
    for regions in sets:
        assert loop.replayed(lambda: loop.step(regions=regions)) == 0  # noqa: B023
        loop.until_replayed(lambda _: loop.step(regions=regions), 1)  # noqa: B023
    loop.check()
    loop.settle()
    counters = loop.client.session.counters
    before = counters.kernel("advance").launches_by_address
    for _ in range(6):
        for regions in sets:
            loop.step(regions=regions)
            loop.mix()
    loop.check()
    assert counters.kernel("advance").launches_by_address == before + 18
    assert counters.kernel("blend").launches_by_address == 0


def test_many_launches_at_once_are_replayed(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    loop.rounds(6)

    def many() -> None:
        with loop.client.at_once():
            for number in range(1500):
                loop.step(number)
                loop.mix()

    assert loop.replayed(many) > 1000  # the first ones find others under way
    loop.check()


@pytest.mark.parametrize("members", [1, 2])
def test_reads_into_the_arena_are_replayed_without_the_client(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    client = loop.client
    into = client.offsets[client.buffer(bytes(4 * ITEMS))]
    count = ITEMS // members  # of one member: several that write one buffer's bytes on the host are Python's

    def once(number: int) -> None:
        loop.step(number)
        loop.step(number)
        read = client.command(Op.READ, buffer=loop.a, region=[4 * count, 1, 1], into=into)
        assert client.wait(read) == 0
        shown = np.frombuffer(client.arena[into : into + 4 * count], np.int32)
        np.testing.assert_array_equal(shown, loop.truth[0][:count])

    loop.until_replayed(once, 3)
    for number in range(50):
        once(number)
    loop.check()


@pytest.mark.parametrize("nbytes", [1024, 1 << 20], ids=["small", "large"])
def test_reads_into_the_arena_need_no_player(serve: Serve, nbytes: int) -> None:
    client = serve(1)
    values = np.arange(nbytes // 4, dtype=np.int32)
    source, target = client.buffer(values.tobytes()), client.buffer(bytes(nbytes))
    read = client.command(Op.READ, buffer=source, region=[nbytes, 1, 1], into=client.offsets[target])
    assert client.wait(read) == 0
    at = client.offsets[target]
    assert client.arena[at : at + nbytes] == values.tobytes()


@pytest.mark.parametrize("plays", [False, True], ids=["Python", "player"])
def test_what_is_read_into_a_mapping_is_there_for_what_comes_after_it(serve: Serve, plays: bool) -> None:
    client = serve(1, plays=plays)
    loop = Loop(client)
    target, shape = client.buffer(bytes(4 * ITEMS)), [4 * ITEMS, 1, 1]
    into = client.offsets[target]

    def once(number: int) -> None:
        assert client.wait(client.command(Op.MAP, buffer=target, region=shape, flags=3)) == 0
        with client.at_once():
            for _ in range(4):
                loop.step(number)
            client.command(Op.READ, buffer=loop.a, region=shape, into=into)
            client.command(Op.UNMAP, buffer=target, region=shape, wrote=1)
            loop.truth[1] = loop.truth[1] ^ loop.truth[0]
            client.launch(loop.build, [(loop.b, 0), (target, 0)], [ITEMS], [16], kernel_index=MIX)
        client.finish()

    for number in range(40):
        once(number)
        loop.check()


def test_a_buffer_may_be_released_while_it_is_read_into_the_arena(serve: Serve) -> None:
    client = serve(1)
    values = np.arange(ITEMS, dtype=np.int32)
    into = client.offsets[client.buffer(bytes(4 * ITEMS))]
    gate = client.new_id()
    client.send(Op.CREATE_USER_EVENT, gate)
    source = client.buffer(values.tobytes())
    waited = client.command(Op.READ, buffer=source, region=[4 * ITEMS, 1, 1], into=into, waits=[gate])
    client.send(Op.RELEASE_BUFFER, source)
    client.send(Op.SET_USER_EVENT, gate, status=0)
    assert client.wait(waited) == 0
    assert client.arena[into : into + 4 * ITEMS] == values.tobytes()


@pytest.mark.logs("has byte")
@pytest.mark.parametrize("into", [2048, 1 << 62], ids=["the status page", "beyond"])
def test_reads_to_where_no_buffer_lies_fail(serve: Serve, into: int) -> None:
    client = serve(1)
    buffer = client.buffer(bytes(64))
    before = bytes(client.arena[2048:2112])
    read = client.command(Op.READ, buffer=buffer, region=[64, 1, 1], into=into)
    assert client.wait(read) == Status.INVALID_VALUE
    assert bytes(client.arena[2048:2112]) == before


def test_reads_behind_launches_are_replayed(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))

    def once(number: int) -> None:
        loop.step(number)
        found = loop.client.read(loop.a, 8, offset=40)
        np.testing.assert_array_equal(np.frombuffer(found, np.int32), loop.truth[0][10:12])

    loop.until_replayed(once, 2)
    loop.check()


@pytest.mark.parametrize("stages", [False, True], ids=["carried", "staged"])
@pytest.mark.parametrize("members", [1, 2, 3])
def test_writes_before_launches_are_replayed(serve: Serve, members: int, stages: bool) -> None:
    loop = Loop(serve(members, plays=True))
    loop.stages = stages
    loop.rounds(6)

    def once(number: int) -> None:
        loop.put(np.arange(number, number + 3, dtype=np.int32))
        loop.step(number)
        loop.put(np.full(200, number, np.int32), first=50)
        loop.mix()
        found = np.frombuffer(loop.client.read(loop.b, 64, offset=40), np.int32)
        np.testing.assert_array_equal(found, loop.truth[1][10:26])

    loop.until_replayed(once, 5)
    for number in range(20):
        once(number)
    moved, nbytes = loop.client.session._memory.moved, 12 + 800 + 64
    before = moved.application
    once(5)
    loop.client.finish()
    assert moved.application - before == nbytes, "whoever executes them"
    loop.check()
    assert (loop.client.taken_nbytes > 0) == stages


@pytest.mark.parametrize("stages", [False, True], ids=["carried", "staged"])
@pytest.mark.parametrize(
    ("members", "pool"),
    [(1, None), (1, pool_of), (2, None), (2, pool_of), (3, None)],
    ids=["1", "1 pooled", "2", "2 pooled", "3"],
)
def test_members_that_have_a_copy_get_what_is_written_before_the_launch_that_wants_it(
    serve: Serve, members: int, pool: Callable[[Sequence[Device]], PooledMemory] | None, stages: bool
) -> None:
    """Also where they have memory together, as all images of GPUs do."""
    loop = Loop(serve(members, plays=True, pool=pool))
    loop.stages = stages
    loop.rounds(6)
    memory = loop.client.session._memory

    def write(number: int) -> None:
        loop.put(np.arange(number, number + ITEMS, dtype=np.int32), first=0)

    def once(number: int) -> None:
        write(number)
        loop.mix()

    once(0)
    loop.until_replayed(once, 2)
    sent, before = memory.moved.host_to_member, memory.buffer(loop.a).directory.state()
    assert loop.replayed(lambda: write(3)) == 1
    assert memory.moved.host_to_member - sent == 4 * ITEMS
    assert memory.buffer(loop.a).directory.state() is before
    assert loop.replayed(loop.mix) == 1
    loop.check()
    assert memory.moved.host_to_member - sent == 4 * ITEMS, "it was there"


@pytest.mark.logs("refused")
def test_a_write_fails_with_its_copy_and_nothing_is_replayed_on_what_it_left(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launch that comes next would find that the member has the bytes."""
    loop = Loop(serve(1, plays=True))

    def once(number: int) -> None:
        loop.put(np.arange(number, number + ITEMS, dtype=np.int32), first=0)
        loop.mix()

    loop.until_replayed(once, 2)
    loop.player.changed()
    loop.until_replayed(lambda _: loop.mix(), 1)
    (member,) = loop.client.session._memory.devices
    copy = member.copy

    def refuse(source: Place, target: Place, region: Region, *more: Any) -> tuple[Ticket, Ticket]:
        if source.device is not None:
            return copy(source, target, region, *more)
        failed = completed(DeviceFailed("member 0", "refused"))
        return failed, failed

    monkeypatch.setattr(member, "copy", refuse)
    written = loop.put(np.arange(1000, 1000 + ITEMS, dtype=np.int32), first=0)
    assert loop.client.wait(written) < 0
    monkeypatch.undo()
    assert loop.replayed(loop.mix) == 0
    loop.check()


def test_what_several_members_have_a_copy_of_goes_to_those_that_want_it(serve: Serve) -> None:
    """Who had it once may never want it again."""
    loop = Loop(serve(2, plays=True))
    client, memory = loop.client, loop.client.session._memory
    expected = loop.truth[0].copy()

    def sent_by_write(value: int) -> int:
        client.finish()
        before = memory.moved.host_to_member
        client.put(loop.b, struct.pack("<i", value), offset=120)
        client.finish()
        return memory.moved.host_to_member - before

    def pick(value: int, items: int) -> int:
        """How many bytes a launch on so many items takes along that adds ``value``, which was written."""
        before = memory.moved.host_to_member
        arguments = [(loop.a, 0), (loop.b, 0), struct.pack("<i", 30)]
        client.launch(loop.build, arguments, [items], [16], kernel_index=FROM)
        client.finish()
        expected[:items] += value
        return memory.moved.host_to_member - before

    pick(0, ITEMS)
    for value in range(1, 12, 2):
        assert sent_by_write(value) == 0
        assert pick(value, 16) == 4, "on the one that runs the only group"
        assert sent_by_write(value + 1) == 4, "it alone had a copy"
        assert pick(value + 1, ITEMS) == 4, "the other one"
    found = np.frombuffer(client.read(loop.a, 4 * ITEMS), np.int32)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("stages", [False, True], ids=["carried", "staged"])
@pytest.mark.parametrize("members", [1, 2])
def test_writes_of_other_bytes_are_the_same_where_the_host_has_what_is_beside_them(
    serve: Serve, members: int, stages: bool
) -> None:
    loop = Loop(serve(members, plays=True))
    loop.stages = stages
    loop.rounds(6)

    def once(number: int) -> None:
        loop.put(np.arange(1 + number % 50, dtype=np.int32), first=number % 7)
        loop.mix()
        assert loop.client.read(loop.a, 4 * ITEMS) == loop.truth[0].tobytes()

    loop.until_replayed(once, 3)
    loop.until_replayed(lambda _: [once(number) for number in range(49, 0, -7)], 21)
    loop.check()


@pytest.mark.parametrize("members", [1, 2])
def test_writes_of_all_lengths_are_few_recordings(serve: Serve, members: int) -> None:
    loop, random = Steps(serve(members, plays=True)), np.random.default_rng(4)
    loop.truth[0] = np.arange(1 << 19, dtype=np.int32)
    loop.a = loop.client.buffer(loop.truth[0].tobytes())
    loop.stages = True

    def once(number: int) -> None:
        nbytes = int(2 ** random.uniform(17, 21))
        loop.put(np.full(nbytes // 4, number, np.int32), first=0)
        loop.truth[1] = loop.truth[1] ^ loop.truth[0][:ITEMS]
        arguments = [(loop.b, 0), (loop.a, 0)]
        loop.client.launch(loop.build, arguments, [ITEMS], [16], kernel_index=MIX)
        assert loop.client.read(loop.b, 4 * ITEMS) == loop.truth[1].tobytes()

    left = loop.left(lambda: [once(number) for number in range(300)])
    assert left["WRITE"] < 50, left
    assert loop.client.read(loop.a, 1 << 21) == loop.truth[0].tobytes()


@pytest.mark.parametrize("members", [1, 2])
def test_staged_rows_without_gaps_between_them_are_all_taken(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    loop.rounds(6)
    for number in range(10):
        values = np.arange(number, number + 48, dtype=np.int32)
        loop.truth[0][16:64] = values
        loop.client.stage(loop.a, values.tobytes(), offset=64, region=[64, 3, 1], row_pitch=64)
        loop.mix()
        assert loop.client.read(loop.a, 4 * ITEMS) == loop.truth[0].tobytes()
    assert loop.client.taken_nbytes == 10 * 192
    loop.check()


@pytest.mark.parametrize("members", [1, 2])
def test_early_writes_are_replayed(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    loop.rounds(6)

    def once(number: int) -> None:
        loop.land(np.arange(number, number + ITEMS, dtype=np.int32))
        loop.mix()
        loop.step(number)
        assert loop.client.read(loop.b, 64, offset=40) == loop.truth[1][10:26].tobytes()

    loop.until_replayed(once, 4)
    moved = loop.client.session._memory.moved
    before = moved.application
    once(5)
    loop.client.finish()
    assert moved.application - before == 4 * ITEMS + 64, "whoever executes them"

    def less(number: int) -> None:
        loop.land(np.arange(number, number + 100, dtype=np.int32), first=number % 2)
        loop.mix()
        assert loop.client.read(loop.b, 4 * ITEMS) == loop.truth[1].tobytes()

    for number in range(10):
        less(number)
        once(number)
    loop.check()


@pytest.mark.parametrize("members", [1, 2])
def test_fills_are_replayed_with_other_patterns(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    loop.rounds(6)

    def once(number: int) -> None:
        loop.fill(number)
        loop.step(number)
        loop.mix()
        assert loop.client.read(loop.b, 8, offset=80) == loop.truth[1][20:22].tobytes()

    loop.until_replayed(once, 4)
    for number in range(10):
        once(number)
    loop.check()


@pytest.mark.parametrize("members", [2, 3])
def test_fills_of_which_each_member_makes_a_part_are_replayed(serve: Serve, members: int) -> None:
    loop, count = Loop(serve(members, plays=True)), 1 << 14
    client = loop.client
    large = client.buffer(np.zeros(count, np.int32).tobytes())

    def once(number: int) -> None:
        over = {"offset": 0, "region": [4 * count, 1, 1]}
        client.command(Op.FILL, struct.pack("<i", number), buffer=large, pattern_nbytes=4, **over)
        arguments = [(large, 0), struct.pack("<i", 5), struct.pack("<f", 2.5)]
        client.launch(loop.build, arguments, [count], [16], kernel_index=STEP)

    loop.until_replayed(once, 2)
    sent = client.session._memory.moved.host_to_member
    once(17)
    client.finish()
    assert client.session._memory.moved.host_to_member == sent, "the members filled it"
    found = np.frombuffer(client.read(large, 4 * count), np.int32)
    np.testing.assert_array_equal(found, 3 * 17 + 5 + 2)


def test_a_fill_of_an_image_is_no_pattern_that_is_repeated(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    color = {"order": 0x10B5, "data_type": 0x10D2, "pattern_nbytes": 16}  # RGBA, UNORM_INT8
    for value in (0.0, 1.0) * 5:
        loop.step()
        loop.client.command(
            Op.FILL, struct.pack("<4f", *[value] * 4), buffer=loop.a, region=[64, 1, 1], **color
        )
        loop.truth[0] = loop.truth[0].copy()
        loop.truth[0][:16] = -int(value)
        loop.client.finish()
    loop.check()
    assert "played" not in loop.player.records()["FILL"]


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("flags", [1, 3, INVALIDATE], ids=["read", "write", "invalidate"])
def test_maps_are_replayed(serve: Serve, members: int, flags: int) -> None:
    loop = Loop(serve(members, plays=True))
    loop.rounds(6)

    def once(number: int) -> None:
        loop.step(number)
        loop.mix()
        values = None if flags == 1 else np.arange(number, number + 100, dtype=np.int32)
        loop.mapped(flags, values)

    loop.until_replayed(once, 4)
    for number in range(10):
        once(number)
    loop.check()


def test_writes_in_a_row_wait_for_the_bytes_that_are_on_their_way(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    loop.rounds(6)

    def many(_: int) -> None:
        with loop.client.at_once():
            for number in range(100):
                loop.put(np.full(5, number, np.int32))
                loop.step(number)

    loop.until_replayed(many, 200)
    loop.check()


def test_a_write_to_bytes_that_the_client_has_yet_to_copy_is_left_to_python(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    other = loop.client.new_queue()

    def once(number: int) -> None:
        loop.step(number)
        assert len(loop.client.read(loop.a, 40, offset=40)) == 40
        loop.client.finish()
        loop.put(np.full(3, number, np.int32))

    loop.until_replayed(once, 3)
    loop.step(7)
    read = loop.client.command(Op.READ, buffer=loop.a, offset=40, region=[40, 1, 1])
    assert loop.client.notice()[:2] == (NoticeKind.TRANSFER_READY, read)
    expected = loop.truth[0][10:20].tobytes()
    put = loop.client.put(loop.a, b"else", offset=40, queue=other)
    loop.truth[0][10] = int.from_bytes(b"else", "little")
    for _ in range(20):  # it had time
        assert loop.client.wait(loop.client.command(Op.MARKER, queue=loop.client.new_queue())) == 0
    at = loop.client.offsets[loop.a] + 40
    assert loop.client.arena[at : at + 40] == expected and loop.client.slot(put)[0] > 0
    loop.client.send(Op.TRANSFER_DONE, read)
    assert loop.client.wait(put) == 0
    loop.check()


# -- buffers that are released and used again ---------------------------------------------------------------


def over(status: Callable[[], int]) -> int:
    """The status of a slot, once it is final, which only the page says."""
    while (found := status()) > 0:
        os.sched_yield()
    return found


class Steps(Loop):
    """Each step makes a buffer, writes it, uses it, reads what that comes to, and releases it."""

    def __init__(self, client: WireClient) -> None:
        super().__init__(client)
        self.recycled: Callable[[], int] | None = None

    def release(self) -> None:
        """The first buffer."""
        self.recycled = self.client.recycle(self.a)

    def reuse(self, defined: bool = False) -> None:
        """It again; its bytes are others."""
        recycled = self.recycled
        assert recycled is not None
        assert over(recycled) == 0
        self.truth[0] = np.full(ITEMS, 7, np.int32)
        self.client.reuse(self.a, self.truth[0].tobytes() if defined else b"")

    def once(self, number: int, defined: bool = False) -> None:
        """One step, with no buffer before and behind it."""
        self.use(number, defined)
        self.release()

    def use(self, number: int, defined: bool = False) -> None:
        """All of it but the end."""
        self.reuse(defined)
        if not defined:
            self.land(np.arange(number, number + ITEMS, dtype=np.int32))
        self.step(number)
        self.mix()
        assert self.shown(self.b) == self.truth[1].tobytes()

    def shown(self, buffer: int) -> bytes:
        """What a read finds that nobody but the player hears of."""
        return self.copied(self.client.command(Op.READ, buffer=buffer, region=[4 * ITEMS, 1, 1]), buffer)

    def copied(self, read: int, buffer: int) -> bytes:
        """What a read of all of a buffer finds."""
        client = self.client
        assert client.notice()[:2] == (NoticeKind.TRANSFER_READY, read)
        at = client.offsets[buffer]
        data = client.arena[at : at + 4 * ITEMS]
        client.send(Op.TRANSFER_DONE, read)
        assert over(lambda: client.slot(read)[0]) == 0
        return data

    def left(self, do: Callable[[], object]) -> dict[str, int]:
        """How many records of each kind Python acted on in what ``do`` sends."""
        before = self.player.records()
        do()
        after = self.player.records()
        return {
            op: count
            for op, whys in after.items()
            if (
                count := sum(n - before.get(op, {}).get(why, 0) for why, n in whys.items() if why != "played")
            )
        }

    def settle(self) -> None:
        """Until releases are the player's."""
        self.rounds(6)
        self.release()
        for number in range(200):
            if not self.left(lambda number=number: self.once(number)):  # type: ignore[misc]
                return
        raise AssertionError(f"something is always left: {self.player.summary()}")


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("defined", [False, True], ids=["early", "defined"])
def test_buffers_are_released_and_used_again_without_python(
    serve: Serve, members: int, defined: bool
) -> None:
    steps = Steps(serve(members, plays=True))
    steps.settle()
    for number in range(10):
        steps.once(number, defined)
    left = steps.left(lambda: [steps.once(number, defined) for number in range(50)])
    assert sum(left.values()) <= 5 and not {"RECYCLE_BUFFER", "REUSE_BUFFER"} & left.keys(), left
    steps.reuse(True)
    steps.check()


def test_what_several_members_change_in_place_is_read_when_each_of_them_has_its_part(serve: Serve) -> None:
    steps = Steps(serve(2, plays=True))

    def once(number: int) -> None:
        with steps.client.at_once():
            steps.put(np.full(ITEMS, number, np.int32), first=0)  # of which each member gets its part
            steps.step(number)
            read = steps.client.command(Op.READ, buffer=steps.a, region=[4 * ITEMS, 1, 1])
        assert steps.copied(read, steps.a) == steps.truth[0].tobytes()

    for number in range(10):
        once(number)
    left = steps.left(lambda: [once(number) for number in range(100)])
    assert left.get("READ", 0) < 10, left


def test_no_old_bytes_are_seen_in_a_buffer_that_the_player_gives_again(serve: Serve) -> None:
    steps = Steps(serve(2, plays=True))
    steps.settle()
    for number in range(5):
        steps.reuse(True)  # whose bytes the host has, and members had those of before
        steps.mix()
        steps.step(number)
        assert steps.shown(steps.a) == steps.truth[0].tobytes()
        assert steps.shown(steps.b) == steps.truth[1].tobytes()
        steps.release()


def _buffer_of(steps: Steps) -> VirtualBuffer:
    return steps.client.session._memory.buffer(steps.a)


def test_python_knows_what_the_player_released(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(serve(2, plays=True))
    steps.settle()
    session = steps.client.session
    door, recycling = session._dispatcher.door, session._memory.recycling
    found: list[tuple[object, ...]] = []

    def look() -> None:
        buffer = _buffer_of(steps)
        is_known = buffer.id in door._recycled
        is_new = buffer.directory.state() is buffer.directory.fresh()
        found.append((buffer.stage, is_known, is_new, buffer.id in recycling._since_ns))

    for _ in range(2):
        posted(steps, look)
        assert not steps.left(lambda: steps.use(3))
        posted(steps, look)
        assert not steps.left(lambda: (steps.release(), over(steps.recycled or int)))
    posted(steps, look)
    assert found == [(STAGE_RECYCLED, True, True, True), (STAGE_IN_USE, False, False, False)] * 2 + [found[0]]
    monkeypatch.setattr("sdi.vmem.recycling.KEEP_NS", 0)
    posted(steps, recycling.trim)
    assert not any(_buffer_of(steps).allocations) and not recycling.has_places
    for number in range(5):
        steps.once(number)
    steps.reuse(True)
    steps.check()


def test_python_knows_whose_memory_a_buffer_is_that_the_player_gives_again(serve: Serve) -> None:
    steps = Steps(serve(2, plays=True))
    steps.settle()
    found: list[tuple[int, bool]] = []
    for flags in (MemFlags.USE_HOST_PTR, MemFlags.READ_WRITE):
        assert over(steps.recycled or int) == 0
        steps.client.send(Op.REUSE_BUFFER, steps.a, flags=flags)
        posted(steps, lambda: found.append((_buffer_of(steps).stage, _buffer_of(steps).is_outside)))
        steps.release()
    assert found == [(STAGE_IN_USE, True), (STAGE_IN_USE, False)]


@pytest.mark.parametrize("defined", [False, True])
def test_members_hold_nothing_of_what_the_player_gives_again(serve: Serve, defined: bool) -> None:
    steps = Steps(serve(2, plays=True))
    steps.settle()
    steps.reuse(defined)
    states: list[bool] = []

    def look() -> None:
        directory = _buffer_of(steps).directory
        states.append(directory.state() is directory.fresh(defined))

    posted(steps, look)
    assert states == [True]


def test_what_is_under_way_when_python_takes_over_ends_before_its_buffer_is_given_again(serve: Serve) -> None:
    steps = Steps(serve(1, plays=True))
    client = steps.client
    source = "kernel void slow(global int *a) { for (int i = 0; i < 3000000; i++) a[i & 255] ^= i; }"
    slow, status, _ = client.build(source)
    assert status == 0
    steps.settle()
    for _ in range(12):
        steps.reuse(True)
        before = steps.player.records().get("RECYCLE_BUFFER", {}).get("played", 0)
        with client.at_once():
            launch = client.launch(slow, [(steps.a, 0)], [1], [1])
            steps.release()
            client.send(Op.CREATE_QUEUE, client.new_id())  # which is Python's
        assert steps.recycled is not None and client.wait(launch) == 0
    assert steps.player.records()["RECYCLE_BUFFER"]["played"] == before + 1
    steps.reuse(True)
    steps.check()


def test_a_buffer_that_the_player_released_can_be_released_for_good(serve: Serve) -> None:
    steps = Steps(serve(2, plays=True))
    steps.settle()
    steps.client.send(Op.RELEASE_BUFFER, steps.a)
    steps.client.finish()
    assert steps.a not in steps.client.session._memory._buffers
    assert not steps.client.session._memory.recycling.has_places


@pytest.mark.logs("is no buffer")
def test_a_buffer_that_is_gone_is_not_known_to_the_player(serve: Serve) -> None:
    steps = Steps(serve(1, plays=True))
    steps.settle()
    client, gone = steps.client, steps.a
    client.send(Op.RELEASE_BUFFER, gone)
    steps.a = client.buffer(steps.truth[0].tobytes())
    steps.rounds(6)  # it has the cells of the one that is gone
    assert steps.replayed(steps.step) == 1
    client.recycle(gone)
    while client.session.is_open:
        os.sched_yield()
    assert steps.player.records()["RECYCLE_BUFFER"]["unknown"] == 1


def test_waits_for_events_that_are_over_or_under_way_do_not_matter(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))

    def once(number: int) -> None:
        first = loop.step(number)
        loop.truth[1] = loop.truth[1] ^ loop.truth[0]
        arguments = [(loop.b, 0), (loop.a, 0)]
        loop.client.launch(loop.build, arguments, [ITEMS], [16], kernel_index=MIX, waits=[first])

    loop.until_replayed(once, 2)
    loop.check()


@pytest.mark.parametrize("kept", [0, 100])
def test_barriers_that_wait_for_another_queue_are_replayed(serve: Serve, kept: int) -> None:
    """Also in a program that keeps the events of many commands that are over."""
    loop = Loop(serve(2, plays=True))
    for _ in range(kept):
        loop.client.command(Op.MARKER)
        loop.client.finish()
    other = loop.client.new_id()
    loop.client.send(Op.CREATE_QUEUE, other, properties=0)

    def once(number: int) -> None:
        for _ in range(3):
            loop.step(number)
        loop.client.command(Op.BARRIER, queue=other, waits=[loop.client.command(Op.MARKER)])
        arguments = [(loop.b, 0), (loop.a, 0)]
        for _ in range(3):
            loop.truth[1] = loop.truth[1] ^ loop.truth[0]
            mixed = loop.client.launch(loop.build, arguments, [ITEMS], [16], kernel_index=MIX, queue=other)
        loop.client.command(Op.BARRIER, waits=[mixed])

    loop.until_replayed(once, 6)
    loop.check()
    assert "waits" not in loop.player.records()["BARRIER"]


@pytest.mark.parametrize("members", [1, 2, 3])
def test_copies_of_what_each_member_has_are_replayed(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    nbytes, shifted = 4 * ITEMS, ITEMS // members // 2 * 4

    def once(number: int) -> None:
        loop.step(number)
        loop.client.command(Op.COPY, source=loop.a, target=loop.b, region=[nbytes, 1, 1])
        loop.truth[1] = loop.truth[0]
        loop.mix()
        loop.step(number)
        over = {"source_offset": 16, "target_offset": 64, "region": [shifted, 1, 1]}
        loop.client.command(Op.COPY, source=loop.a, target=loop.b, **over)
        loop.truth[1] = loop.truth[1].copy()
        loop.truth[1][16 : 16 + shifted // 4] = loop.truth[0][4 : 4 + shifted // 4]

    loop.until_replayed(once, 5)
    for number in range(20):
        once(number)
        loop.client.finish()
    loop.check()


def test_copies_between_buffers_are_replayed(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))

    def once(number: int) -> None:
        loop.step(number)
        places = {"source": loop.a, "target": loop.b, "source_offset": 16, "target_offset": 64}
        loop.client.command(Op.COPY, region=[128, 1, 1], **places)
        loop.truth[1] = loop.truth[1].copy()
        loop.truth[1][16:48] = loop.truth[0][4:36]
        loop.mix()

    loop.until_replayed(once, 3)
    loop.check()


# -- each fact that a recording is guarded by, changed alone ------------------------------------------------


def _write(loop: Loop) -> None:
    data = np.arange(ITEMS, dtype=np.int32) * 7
    loop.client.write(loop.a, data.tobytes())
    loop.truth[0] = data


def _fill(loop: Loop) -> None:
    loop.client.command(
        Op.FILL, struct.pack("<i", 9), buffer=loop.a, region=[4 * ITEMS, 1, 1], pattern_nbytes=4
    )
    loop.truth[0] = np.full(ITEMS, 9, np.int32)


def _other_queue(loop: Loop) -> None:
    queue = loop.client.new_id()
    loop.client.send(Op.CREATE_QUEUE, queue)
    copy = loop.client.command(Op.COPY, queue=queue, source=loop.b, target=loop.a, region=[4 * ITEMS, 1, 1])
    assert loop.client.wait(copy) == 0
    loop.truth[0] = loop.truth[1].copy()


def _map(loop: Loop) -> None:
    client, over = loop.client, {"region": [4 * ITEMS, 1, 1]}
    mapped = client.command(Op.MAP, buffer=loop.a, flags=3, **over)
    assert client.wait(mapped) == 0
    at = client.offsets[loop.a]
    loop.truth[0] = loop.truth[0] + np.int32(1)
    client.arena[at : at + 4 * ITEMS] = loop.truth[0].tobytes()
    client.command(Op.UNMAP, buffer=loop.a, wrote=1, **over)


def evict(loop: Loop) -> None:
    memory = loop.client.session._memory

    def evict() -> None:
        placement, buffer = memory.placement, memory.buffer(loop.a)
        for member, allocation in enumerate(buffer.allocations):
            if allocation is not None:
                placement._eviction.evict(buffer, member, Issue("a test"))

    posted(loop, evict)


def _new_share(loop: Loop) -> None:
    def decide() -> None:
        for kernel in loop.client.session._launcher._builds[loop.build].kernels:
            for history in kernel._histories.values.values():
                assert history.shape is not None
                history.decide((history.shape[0] + 1, 1, 1), history.assignments, "")
                history.decide((history.shape[0] - 1, 1, 1), history.assignments, "")

    posted(loop, decide)


def _measured(loop: Loop) -> None:
    def look() -> None:
        player = loop.player
        for recorded in player.recorded():
            assert recorded.launch_plan is not None
            player.cells.at[recorded.launch_plan.history.cell] = 0

    posted(loop, look)


def _forget(loop: Loop) -> None:
    def forget() -> None:
        for kernel in loop.client.session._launcher._builds[loop.build].kernels:
            for launch_plan in list(kernel._launch_plans.values.values()):
                kernel.forget(launch_plan)

    posted(loop, forget)


def posted(loop: Loop, call: Callable[[], None]) -> None:
    """In a turn of the session, with nothing under way."""
    loop.client.finish()
    done = threading.Event()

    def both() -> None:
        call()
        done.set()

    loop.client.session.post(both)
    assert done.wait(60)


@pytest.mark.parametrize(
    "change",
    [_write, _map, evict, _new_share, _forget],
    ids=lambda change: change.__name__.strip("_"),
)
def test_a_launch_is_not_replayed_once_a_fact_has_changed(
    serve: Serve, change: Callable[[Loop], None]
) -> None:
    loop = Loop(serve(2, plays=True))
    loop.settle()
    loop.mix()
    change(loop)
    assert loop.repeated(loop.step) == 0
    loop.mix()
    loop.check()


def test_python_looks_at_a_launch_of_which_no_more_may_be_replayed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(serve(2, plays=True))
    loop.settle()
    loop.mix()
    looked: list[Launch] = []
    plan = Launcher.plan

    def planned(self: Launcher, launch: Launch) -> None:
        looked.append(launch)
        plan(self, launch)

    monkeypatch.setattr(Launcher, "plan", planned)
    loop.step()
    loop.client.finish()
    assert not looked
    loop.mix()
    _measured(loop)
    loop.step()
    loop.client.finish()
    assert [launch.kernel_index for launch in looked] == [STEP]
    loop.mix()
    loop.check()


@pytest.mark.parametrize("change", [_fill, _other_queue], ids=["fill", "other_queue"])
def test_a_launch_may_be_replayed_where_members_wrote_the_bytes_that_they_have(
    serve: Serve, change: Callable[[Loop], None]
) -> None:
    loop = Loop(serve(2, plays=True))
    loop.rounds(30)
    change(loop)
    loop.rounds(3)
    loop.check()


def test_arguments_that_are_set_anew_are_another_launch(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    loop.rounds(6)
    loop.a, loop.b = loop.b, loop.a
    loop.truth.reverse()
    assert loop.repeated(loop.step) == 0
    loop.mix()
    loop.check()


def test_scalars_on_which_ranges_depend_are_another_launch(serve: Serve) -> None:
    loop = Loop(serve(2, plays=True))
    client = loop.client

    def launch(first: int) -> None:
        loop.truth[0] = loop.truth[0] + loop.truth[1][first]
        values = [(loop.a, 0), (loop.b, 0), struct.pack("<i", first)]
        client.launch(loop.build, values, [ITEMS], [16], kernel_index=FROM)

    loop.mix()
    loop.until_replayed(lambda _: launch(3), 1)
    assert loop.repeated(lambda: launch(ITEMS - 1)) == 0
    loop.check()


def test_of_a_step_that_counts_by_its_parity_there_are_two_recordings(serve: Serve) -> None:
    loop = Loop(serve(2, plays=True))

    def launch(step: int) -> None:
        i = np.arange(ITEMS)
        loop.truth[0] = loop.truth[0] + loop.truth[1][i // 2 + step % 2 * 128] * np.int32(step)
        values = [(loop.a, 0), (loop.b, 0), struct.pack("<i", step)]
        loop.client.launch(loop.build, values, [ITEMS], [16], kernel_index=TURN)

    loop.mix()
    loop.until_replayed(lambda number: [launch(20 * number + k) for k in range(20)], 20)
    kernel = loop.client.session._launcher._builds[loop.build].kernels[TURN]
    assert len(kernel._launch_plans.values) == 2
    assert loop.repeated(lambda: launch(-1)) == 0  # the remainder is -1, of which only the sign tells
    loop.check()


@pytest.mark.parametrize("members", [1, 2, 3])
def test_a_step_counter_has_a_recording_for_each_case(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, "always", plays=True))
    build, status, _ = loop.client.build(THIRDS)
    assert status == 0

    def launch(t: int) -> int:
        start = 128 if t > 0 and t % 3 == 1 else 0
        loop.truth[0] = loop.truth[0].copy()
        loop.truth[0][start : start + 128] += np.int32(t + (t == 0))
        return loop.client.launch(build, [(loop.a, 0), struct.pack("<i", t)], [ITEMS], [16])

    loop.until_replayed(lambda number: launch(3 + 3 * number), 1)  # one of four cases
    if members > 1:  # where there is one, whole buffers are there, whatever it touches
        assert [loop.repeated(lambda t=t: launch(t)) for t in (31, -3)] == [0, 0]
    turns = [900, -6, 901, 77, -5, 0, 902, -4, (1 << 31) - 1, 903, -(1 << 31), 904, 1 << 30]
    for _ in range(3):
        for t in turns:
            launch(t)
            loop.client.finish()
    loop.until_replayed(lambda number: [launch(1000 + 3 * number + case) for case in range(3)], 3)
    loop.check()


def test_a_released_buffer_is_not_used_again(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    loop.rounds(6)
    loop.client.send(Op.RELEASE_BUFFER, loop.a)
    number = loop.step()
    assert loop.client.wait(number) == Status.INVALID_MEM_OBJECT


def test_events_can_be_asked_for_while_they_are_replayed(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    loop.rounds(6)
    for _ in range(50):
        with loop.client.at_once():
            steps = [loop.step() for _ in range(20)]
        assert [loop.client.wait(step) for step in steps[::7]] == [0, 0, 0]
    loop.mix()
    loop.check()


def test_times_of_replayed_commands_rise(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    loop.rounds(6)
    numbers = [loop.step() for _ in range(10)]
    loop.client.finish()
    last_ns = 0
    for number in numbers:
        _, _, queued, submitted, started, ended = loop.client.slot(number)
        assert submitted <= started <= ended and last_ns <= started, (queued, submitted, started, ended)
        last_ns = ended


def test_commands_of_profiled_queues_are_replayed_with_the_times_of_their_member(serve: Serve) -> None:
    client = serve(1, plays=True)
    source = "kernel void brief(global int *a) { a[0]++; }"
    source += " kernel void thorough(global int *a) { for (int i = 0; i < 999999; i++) a[i & 255] ^= i; }"
    build, status, _ = client.build(source)
    assert status == 0
    buffer, queue = client.buffer(bytes(1024)), client.new_id()
    client.send(Op.CREATE_QUEUE, queue, properties=PROFILED)
    took_ns, last_ns = [0, 0], 0
    for _ in range(30):
        with client.at_once():
            numbers = [
                client.launch(build, [(buffer, 0)], [1], [1], kernel_index=index, queue=queue)
                for index in (0, 1, 0, 1)
            ]
        assert client.wait(client.command(Op.MARKER, queue=queue)) == 0
        for index, number in zip((0, 1, 0, 1), numbers, strict=True):
            _, _, _, submitted, started, ended = client.slot(number)
            assert submitted <= started <= ended and last_ns <= started
            last_ns = ended
            took_ns[index] += ended - started
    found = client.session.player
    assert found is not None and found.records()["NDRANGE"]["played"] > 60
    assert took_ns[1] > took_ns[0], "each has its own time, not when it was seen"


@pytest.mark.parametrize(("members", "split"), [(1, "auto"), (2, "auto"), (3, "always")])
def test_what_runs_whole_is_replayed_with_scalars_that_ranges_depend_on_after_writes_of_the_application(
    serve: Serve, members: int, split: str
) -> None:
    """What the host alone has moves but once: whole buffers may go to the member that runs the kernel."""
    client = serve(members, split, plays=True)
    build, status, _ = client.build(CHOOSE)
    assert status == 0
    values = np.random.default_rng(5).integers(0, 9, ITEMS * 8, np.int32)
    number, x, y = (client.buffer(data) for data in (bytes(4), values.tobytes(), bytes(values.nbytes)))
    assert client.session.player is not None
    replayed = []
    for k in range(1, 120):
        values[k : k + 16] = k % 9
        before = client.session.player.replayed()
        client.put(x, values[k : k + 16].tobytes(), offset=4 * k)
        client.put(number, bytes(4))
        arguments = [(number, 0), (x, 0), (y, 0), struct.pack("<i", 16 * k)]
        client.launch(build, arguments, [len(values)], [16])
        client.finish()
        replayed.append(client.session.player.replayed() - before)
        chosen = np.flatnonzero(values[: 16 * k] > 4)
        if k % 20 == 0:
            assert struct.unpack("<i", client.read(number, 4)) == (len(chosen),)
    found = np.frombuffer(client.read(y, 4 * len(chosen)), np.int32)
    assert np.array_equal(np.sort(found), chosen)
    assert sum(each == 3 for each in replayed) > 80, client.session.player.summary()


def test_where_the_arena_is_full_launches_that_append_are_not_recorded(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve(2, "always", plays=True)
    build, status, _ = client.build(APPEND)
    assert status == 0
    values = np.arange(ITEMS, dtype=np.int32)
    number, x, y = (client.buffer(data) for data in (bytes(4), values.tobytes(), bytes(values.nbytes)))

    def launch(times: int) -> int:
        assert client.session.player is not None
        before = client.session.player.replayed()
        for _ in range(times):
            client.put(number, bytes(4))
            assert client.wait(client.launch(build, [(number, 0), (x, 0), (y, 0)], [ITEMS], [16])) == 0
            assert struct.unpack("<i", client.read(number, 4)) == (ITEMS // 4,)
        return client.session.player.replayed() - before

    allocate = Arena.allocate

    def allocated(arena: Arena, nbytes: int) -> int:
        if nbytes == 2 * COPIES_MAX_NBYTES:
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, "full")
        return allocate(arena, nbytes)

    with monkeypatch.context() as patch:
        patch.setattr(Arena, "allocate", allocated)
        launch(6)
    assert launch(12) > 20  # with what is written and read


def test_scalars_that_ranges_depend_on_are_no_holes_where_a_buffer_is_larger_than_its_member(
    serve: Serve,
) -> None:
    client = serve(1, plays=True, memory_nbytes=1 << 20)
    source = "kernel void at(global int *a, int first) { a[first + get_global_id(0)] += 1; }"
    build, status, _ = client.build(source)
    assert status == 0
    nbytes = 4 << 20
    buffer = client.buffer(bytes(nbytes))
    counts = np.zeros(nbytes // 4, np.int32)
    for first in [0] * 20 + [nbytes // 4 - 256, 0, 1 << 18] * 4:
        client.launch(build, [(buffer, 0), struct.pack("<i", first)], [256], [16])
        counts[first : first + 256] += 1
        client.finish()
    np.testing.assert_array_equal(np.frombuffer(client.read(buffer, nbytes), np.int32), counts)


def test_what_a_released_buffer_yet_writes_is_no_other_buffers_fact(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    loop.settle()
    client, player = loop.client, loop.player
    gone = client.buffer(bytes(4 * ITEMS))
    values = struct.pack("<i", 1), struct.pack("<f", 0.0)
    for _ in range(30):
        client.launch(loop.build, [(gone, 0), *values], [ITEMS], [16], kernel_index=STEP)
        client.finish()
    memory = client.session._memory
    followed = memory.buffer(gone)
    places = followed.places
    assert places is not None
    client.send(Op.RELEASE_BUFFER, gone)
    client.finish()
    assert followed.places is None
    before = list(player.cells.at)
    posted(loop, lambda: (followed.moved(), followed.directory.define()))
    assert list(player.cells.at)[8:] == before[8:]
    loop.mix()
    loop.check()


def test_a_session_goes_on_at_its_pace_after_a_failure(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    loop.settle()
    waits = [loop.client.new_id()]
    loop.client.send(Op.CREATE_USER_EVENT, waits[0], slot=0)
    posted(loop, loop.player.stop)
    assert not loop.player.recorded()
    assert loop.replayed(lambda: loop.rounds(20)) == 0
    loop.check()


def test_nothing_is_recorded_where_no_cells_are_left(serve: Serve) -> None:
    loop = Loop(serve(2, plays=True))

    def use_up() -> None:
        while loop.player.cells.new():
            pass

    posted(loop, use_up)
    loop.rounds(20)
    assert not loop.player.recorded()
    loop.check()


def test_a_long_session_finds_cells_for_what_comes_after_much_that_is_gone(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sdi.cells.CELLS_MAX", 300)
    loop = Loop(serve(1, plays=True))
    client, values = loop.client, (struct.pack("<i", 1), struct.pack("<f", 0.0))
    for _ in range(150):  # launches on other buffers are counted in cells of their own
        buffer = client.buffer(bytes(4 * ITEMS))
        for _ in range(5):
            client.launch(loop.build, [(buffer, 0), *values], [ITEMS], [16], kernel_index=STEP)
            client.finish()
        client.send(Op.RELEASE_BUFFER, buffer)
    assert loop.player.replayed() > 150
    loop.settle()
    loop.check()


def test_what_was_recorded_outlives_other_builds_and_goes_with_its_own(serve: Serve) -> None:
    loop = Loop(serve(2, plays=True))
    loop.settle()
    other, status, _ = loop.client.build("kernel void other(global int *a) { a[0] = 1; }")
    assert status == 0
    assert loop.replayed(loop.step) == 1
    loop.client.send(Op.RELEASE_BUILD, other)
    assert loop.replayed(loop.step) == 1
    loop.check()
    loop.client.send(Op.RELEASE_BUILD, loop.build)
    loop.client.finish()
    assert not any(isinstance(each.command, Launch) for each in loop.player.recorded())


def test_known_launches_are_replayed_again_after_all_recordings_were_dropped(serve: Serve) -> None:
    loop = Loop(serve(2, plays=True))
    loop.settle()
    loop.client.finish()
    loop.client.session.post(loop.player._drop_all)
    loop.settle()
    other, _, _ = loop.client.build(SOURCE)
    loop.client.launch(other, [(loop.b, 0), (loop.a, 0)], [ITEMS], [16], kernel_index=MIX)
    loop.truth[1] = loop.truth[1] ^ loop.truth[0]
    loop.client.finish()
    known = len(loop.client.session._launcher.known.values)
    loop.client.send(Op.RELEASE_BUILD, other)  # its kernels may be known to the player
    loop.settle()
    assert len(loop.client.session._launcher.known.values) == known - 1
    loop.check()


def test_other_launches_of_a_kernel_are_replayed_again_after_one_plan_was_dropped(serve: Serve) -> None:
    """They differ from it in a scalar that ranges depend on: each has its plan."""
    loop = Loop(serve(2, plays=True))

    def launch(first: int) -> None:
        loop.truth[0] = loop.truth[0] + loop.truth[1][first]
        values = [(loop.a, 0), (loop.b, 0), struct.pack("<i", first)]
        loop.client.launch(loop.build, values, [ITEMS], [16], kernel_index=FROM)

    def both(_: int) -> None:
        launch(3)
        launch(ITEMS - 1)

    def forget() -> None:
        kernel = loop.client.session._launcher._builds[loop.build].kernels[FROM]
        assert len(kernel._launch_plans.values) == 2
        kernel.forget(next(iter(kernel._launch_plans.values.values())))

    loop.mix()
    loop.until_replayed(both, 2)
    posted(loop, forget)
    assert loop.repeated(lambda: both(0)) == 0
    loop.until_replayed(both, 2)
    loop.check()


def test_launches_that_are_measured_are_replayed(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[list[int]] = []

    def record(
        self: Balance, epoch: ShareEpoch, edges: Edges, times_ns: list[int], is_first: bool = False
    ) -> None:
        measured.append(times_ns)

    monkeypatch.setattr(Balance, "record", record)
    loop = Loop(serve(2, plays=True, balance=("auto", 0)))
    loop.settle()
    recorded = next(r for r in loop.player.recorded() if r.launch_plan is not None)
    assert recorded.launch_plan is not None and recorded.launch_plan.epoch is not None
    epoch = recorded.launch_plan.epoch
    loop.until_replayed(lambda _: [loop.step() for _ in range(20)], 20)
    assert epoch.issued >= 20
    launches = 160

    def run() -> None:
        last = [loop.step() for _ in range(launches)][-1]
        while loop.client.slot(last)[0] > 0:  # no record is sent, for which Python would take over
            pass

    found = -1
    for _ in range(20):  # unless Python takes over all the same: what is in flight then is not measured
        before = len(measured)
        are_all = loop.replayed(run) == launches
        found = len(measured) - before
        if are_all and found == launches // 16:
            break
    assert found == launches // 16
    assert all(len(times_ns) == 2 and 0 < min(times_ns) < max(times_ns) + 1 < 1e9 for times_ns in measured)
    loop.check()


def test_a_launch_that_is_under_way_when_python_takes_over_is_made_up_for(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Balance, "record", lambda *arguments: None)
    loop = Loop(serve(2, plays=True, balance=("auto", 0)))
    loop.settle()
    recorded = next(r for r in loop.player.recorded() if r.launch_plan is not None)
    launch_plan = recorded.launch_plan
    assert launch_plan is not None and launch_plan.epoch is not None
    epoch, told = launch_plan.epoch, Told(recording=recorded.number, lanes=1, is_measured=1)
    epoch.issued = 8
    loop.player.missed(told)
    assert epoch.issued == 7 and loop.player.cells.at[launch_plan.history.watch] == 1
    for other in ({"lanes": 0, "is_measured": 1}, {"lanes": 1, "is_measured": 0}):
        loop.player.missed(Told(recording=recorded.number, **other))
        assert epoch.issued == 7 and loop.player.cells.at[launch_plan.history.watch] == 1
    loop.player.missed(Told(recording=NO_RECORDING, lanes=1, is_measured=1))


def test_a_cut_that_turns_out_uneven_is_looked_at_by_python(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Balance, "record", lambda *arguments: None)  # what is measured here may be uneven
    loop = Loop(serve(2, plays=True, balance=("auto", 0)))
    loop.settle()
    loop.until_replayed(lambda _: [loop.step() for _ in range(20)], 20)
    matching = [r for r in loop.player.recorded() if r.launch_plan is not None and loop.player.matches(r)]
    recorded = matching[0]
    assert recorded.launch_plan is not None and recorded.launch_plan.epoch is not None
    epoch = recorded.launch_plan.epoch
    assert loop.player.cells.at[epoch.cell] > 0 and loop.player.matches(recorded)
    epoch.is_current = False  # as by a time that was measured
    loop.player.learnt(recorded.launch_plan)
    assert loop.player.cells.at[epoch.cell] == 0 and not loop.player.matches(recorded)


@pytest.mark.parametrize("is_news", [False, True])
def test_launches_of_which_a_replay_says_something_new_are_looked_at_by_python(
    is_news: bool, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LaunchPlan, "measured", lambda *arguments: is_news)
    loop = Loop(serve(1, plays=True))
    loop.settle()
    player = loop.player
    recorded = next(r for r in player.recorded() if r.launch_plan is not None and player.matches(r))
    assert recorded.launch_plan is not None
    reports = [PlayerReport(1 << 40, recorded.number, op, 1000, 9000) for op, _ in recorded.launches]

    def learn() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(player, "_reports", reports)
            patched.setattr(player, "_quick", SimpleNamespace(sdi_player_reports=lambda *_: len(reports)))
            player._learn()

    posted(loop, learn)
    left = player.cells.at[recorded.launch_plan.history.cell]
    assert (left == 0) == is_news and player.matches(recorded) == (not is_news)
    loop.rounds(3)
    loop.check()


@pytest.mark.parametrize("members", [1, 2])
def test_a_kernel_that_is_launched_on_many_buffers_in_turn_is_replayed_on_each(
    serve: Serve, members: int
) -> None:
    """As networks do, whose layers have weights of their own."""
    loop = Loop(serve(members, plays=True))
    weights = [np.arange(ITEMS, dtype=np.int32) * number for number in range(300)]
    buffers = [loop.client.buffer(each.tobytes()) for each in weights]

    def once() -> None:
        for each, weight in zip(buffers, weights, strict=True):
            loop.client.launch(loop.build, [(loop.b, 0), (each, 0)], [ITEMS], [16], kernel_index=MIX)
            loop.truth[1] = loop.truth[1] ^ weight

    assert max(loop.replayed(once) for _ in range(8)) > 290
    loop.check()
