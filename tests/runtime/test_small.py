"""Small reads and writes leave all bytes where they are held: so what comes behind them is known."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from sdi.devices.ticket import completed
from sdi.errors import DeviceFailed
from sdi.intervals import ByteRange
from sdi.player.builder import address
from sdi.region import Region
from sdi.runtime.small import SMALL_NBYTES_MAX, WINDOW_NBYTES, is_small, run_to_read, run_to_write
from sdi.vmem.directory import HOST, member_memory
from sdi.wire.records import NoticeKind, Op
from tests.player.test_player import ITEMS, Loop
from tests.service.conftest import Serve

NBYTES = 4 * ITEMS


def state_of(loop: Loop) -> object:
    return loop.client.session._memory.buffer(loop.a).directory.state()


def element(loop: Loop, at: int) -> int:
    """One that is read."""
    found = struct.unpack("<i", loop.client.read(loop.a, 4, 4 * at))[0]
    assert found == loop.truth[0][at]
    return int(found)


@pytest.mark.parametrize("members", [1, 2, 3])
def test_a_read_leaves_the_state_and_finds_what_is_newest(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    loop.settle()
    loop.player.changed()
    before = state_of(loop)
    for at in (0, 7, ITEMS - 1):
        element(loop, at)
        assert state_of(loop) is before
    loop.step()
    for at in (0, 7, ITEMS - 1):
        element(loop, at)
    loop.check()


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("stages", [False, True], ids=["carried", "staged"])
def test_a_write_leaves_the_state_and_is_seen_where_it_is_needed(
    serve: Serve, members: int, stages: bool
) -> None:
    loop = Loop(serve(members, plays=True))
    loop.stages = stages
    loop.put(np.array([1, 2, 3], np.int32), 5)  # another length than before
    loop.settle()
    before = state_of(loop)
    for first in (0, 7, ITEMS - 3):
        loop.put(np.array([first + 70, first - 5, 9], np.int32), first)
        loop.client.finish()
        assert state_of(loop) is before
        element(loop, first + 1)
    loop.step()
    loop.mix()
    loop.check()


@pytest.mark.parametrize("members", [1, 2, 3])
def test_other_elements_in_each_step_are_replayed(serve: Serve, members: int) -> None:
    """Beside, but not across what two members have."""
    loop = Loop(serve(members, plays=True))
    loop.settle()
    random = np.random.default_rng(members)

    def once(number: int) -> None:
        at = int(random.integers(0, ITEMS // members - 2))
        loop.put(np.array([number, at], np.int32), at)
        loop.step(number)
        element(loop, at)

    loop.until_replayed(once, 3)
    assert loop.replayed(lambda: [once(number) for number in range(100)]) > 290
    for at in range(0, ITEMS - 2, 5):
        loop.put(np.array([at, 1], np.int32), at)
        element(loop, at + 1)
    loop.step()
    loop.check()


def test_any_length_of_what_the_host_has_too_is_replayed(serve: Serve) -> None:
    """As an application does that hands another number of rows to each launch."""
    loop = Loop(serve(1, plays=True))

    def once(number: int) -> None:
        loop.put(np.arange(number, 2 * number + 1, dtype=np.int32), first=0)
        loop.mix()
        loop.client.finish()

    loop.until_replayed(once, 2)
    assert loop.replayed(lambda: [once(number) for number in range(ITEMS - 80, ITEMS - 20)]) > 110
    loop.check()


@pytest.mark.parametrize("members", [1, 2])
def test_none_is_replayed_past_the_bytes_that_one_has(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    loop.settle()
    loop.until_replayed(lambda number: element(loop, number % 8), 1)
    end = ITEMS // members
    assert loop.replayed(lambda: element(loop, end - 1)) == 1
    loop.client.put(loop.b, struct.pack("<i", 3), offset=0)
    if members > 1:
        assert loop.replayed(lambda: element(loop, end)) == 0, "another member has it"
        both = loop.client.read(loop.a, 8, 4 * end - 4)
        np.testing.assert_array_equal(np.frombuffer(both, np.int32), loop.truth[0][end - 1 : end + 1])


@pytest.mark.parametrize("members", [1, 2])
def test_what_python_takes_over_is_behind_them(serve: Serve, members: int) -> None:
    """Whatever is in flight when a command comes that is Python's."""
    loop = Loop(serve(members, plays=True))
    loop.settle()

    def once(number: int) -> None:
        loop.put(np.array([number], np.int32), number % 8)
        loop.step(number)

    loop.until_replayed(once, 2)
    for number in range(60):
        once(number)
        loop.fill(number, number % 13, 3 + number % 5)
        loop.put(np.array([7, 8], np.int32), number % 50)
        if number % 3 == 0:
            element(loop, number)
        loop.mix()
    loop.check()


def test_of_what_several_members_have_a_write_leaves_the_host_the_only_holder(serve: Serve) -> None:
    loop = Loop(serve(2, plays=True))
    loop.settle()
    memory = loop.client.session._memory
    buffer = memory.buffer(loop.b)
    for member in (0, 1):
        buffer.directory.copied(member_memory(member), ByteRange(0, 64))
    assert run_to_write(memory, buffer, ByteRange(8, 12)) is None
    found = run_to_read(memory, buffer, ByteRange(8, 12))
    assert found is not None and found.holder in (HOST, member_memory(0))


def test_only_short_ones_of_bytes_that_somebody_has_count(serve: Serve) -> None:
    loop = Loop(serve(2, plays=True))
    loop.settle()
    memory = loop.client.session._memory
    buffer = memory.buffer(loop.a)
    half = ByteRange(0, NBYTES // 2)
    for run_of in (run_to_read, run_to_write):
        found = run_of(memory, buffer, ByteRange(0, 4))
        assert found is not None and (found.over, found.holder) == (half, member_memory(0))
        assert run_of(memory, buffer, ByteRange(NBYTES // 2 - 4, NBYTES // 2 + 4)) is None
    large = memory.buffer(loop.client.buffer(bytes(SMALL_NBYTES_MAX + 4)))
    found = run_to_read(memory, large, ByteRange(0, SMALL_NBYTES_MAX))
    assert found is not None and found.holder == HOST and run_to_write(memory, large, ByteRange(0, 4)) is None
    assert run_to_read(memory, large, ByteRange(0, SMALL_NBYTES_MAX + 4)) is None


def test_where_the_host_has_some_of_it_reads_leave_the_state_too(serve: Serve) -> None:
    loop = Loop(serve(2, plays=True))
    loop.settle()
    memory = loop.client.session._memory
    buffer = memory.buffer(loop.a)
    loop.client.read(loop.a, NBYTES)  # all of it
    buffer.directory.copied(HOST, ByteRange(64, 128))
    state = buffer.directory.state()
    for over in (ByteRange(60, 68), ByteRange(124, 132)):
        assert run_to_read(memory, buffer, over) is None
    found = run_to_read(memory, buffer, ByteRange(64, 128))
    assert found is not None and (found.over, found.holder) == (ByteRange(64, 128), HOST)
    found = run_to_read(memory, buffer, ByteRange(0, 4))
    assert found is not None and (found.over, found.holder) == (ByteRange(0, 64), member_memory(0))
    middle = NBYTES // 2
    for start in (60, 68, 124, middle - 4):  # the last of what two members have
        data = loop.client.read(loop.a, 8, start)
        np.testing.assert_array_equal(
            np.frombuffer(data, np.int32), loop.truth[0][start // 4 : start // 4 + 2]
        )
        assert state_of(loop) is state
    loop.mix()
    loop.check()


@pytest.mark.parametrize("at", [0, 12344, (1 << 20) - 4, (1 << 20) + 4, (3 << 20) - 4])
def test_of_a_large_run_what_is_locked_alike_counts(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    client = serve(1, plays=True)
    loop = Loop(client)
    memory = client.session._memory
    large = client.buffer(bytes(3 << 20))
    buffer, over = memory.buffer(large), ByteRange(at, at + 4)
    client.command(Op.FILL, b"abcd", buffer=large, pattern_nbytes=4, region=[3 << 20, 1, 1])
    client.finish()
    held = run_to_read(memory, buffer, over)
    assert held is not None and held.over.start <= at and at + 4 <= held.over.stop
    first = address(memory.memories.host_view(buffer, held.over))
    last = first + held.over.nbytes - 1
    assert first // WINDOW_NBYTES == last // WINDOW_NBYTES
    assert held.over.start == 0 or first % WINDOW_NBYTES == 0
    assert held.over.stop == 3 << 20 or (last + 1) % WINDOW_NBYTES == 0
    asked: list[tuple[int, int]] = []

    def host(_: object, view: memoryview, is_large: bool) -> bool:
        assert not is_large
        asked.append((address(view), view.nbytes))
        return True

    (native,) = loop.player.members
    monkeypatch.setattr(type(native), "host", host)
    for _ in range(2):  # the first one may be the only one
        assert client.read(large, 4, at) == b"abcd"
    assert asked[-1] == (first, held.over.nbytes)


def test_a_write_that_fails_on_its_way_fails_its_command(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(serve(1, plays=True))
    loop.put(np.array([1], np.int32), first=3)  # the next one has its length
    loop.settle()
    loop.player.changed()
    (member,) = loop.client.session._memory.devices
    failed = completed(DeviceFailed("member 0", "refused"))
    monkeypatch.setattr(member, "copy", lambda *_: (failed, failed))
    written = loop.put(np.array([1], np.int32), first=3)
    assert loop.client.wait(written) < 0


ROW, PITCH = 12, 32
"""Of rows of the first buffer: bytes, and from one to the next."""


def rows(at: int, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The numbers of the elements of so many rows from element ``at`` on."""
    return at + np.arange(count)[:, None] * (PITCH // 4) + np.arange(ROW // 4)[None]


def read_rows(loop: Loop, at: int, count: int) -> None:
    """They are what they must be."""
    client, elements = loop.client, rows(at, count)
    box = {"region": [ROW, count, 1], "row_pitch": PITCH, "slice_pitch": PITCH * count}
    command = client.command(Op.READ, buffer=loop.a, offset=4 * at, **box)
    kind, event, _ = client.notice()
    assert (kind, event) == (NoticeKind.TRANSFER_READY, command)
    packed, here = client.packed_at(command), client.offsets[loop.a]
    found = np.frombuffer(client.arena[here : here + NBYTES], np.int32)[elements]
    if packed:
        found = np.frombuffer(client.arena[packed : packed + 4 * elements.size], np.int32).reshape(count, -1)
    client.send(Op.TRANSFER_DONE, command, status=0)
    assert client.wait(command) == 0
    np.testing.assert_array_equal(found, loop.truth[0][elements])


def put_rows(loop: Loop, at: int, count: int, first: int) -> None:
    """Other bytes there, and none between them."""
    elements = rows(at, count)
    values = np.arange(first, first + elements.size, dtype=np.int32)
    loop.truth[0] = loop.truth[0].copy()
    loop.truth[0][elements.ravel()] = values
    box = {"region": [ROW, count, 1], "row_pitch": PITCH, "slice_pitch": PITCH * count}
    put = loop.client.stage if loop.stages else loop.client.put
    put(loop.a, values.tobytes(), offset=4 * at, **box)


@pytest.mark.parametrize("members", [1, 2, 3])
@pytest.mark.parametrize("stages", [False, True], ids=["carried", "staged"])
def test_rows_elsewhere_in_each_step_are_replayed(serve: Serve, members: int, stages: bool) -> None:
    """As far as one member has them, and what lies between."""
    loop = Loop(serve(members, plays=True))
    loop.stages = stages
    put_rows(loop, 1, 5, 0)  # of the same length as those before
    loop.settle()
    random = np.random.default_rng(members)
    most = ITEMS // 16 // members * 16 - rows(0, 5)[-1, -1] - 1
    before = state_of(loop)

    def once(number: int) -> None:
        at = int(random.integers(0, most))
        put_rows(loop, at, 5, 100 * number)
        loop.step(number)
        read_rows(loop, at, 5)

    loop.until_replayed(once, 3)
    assert loop.replayed(lambda: [once(number) for number in range(60)]) > 170
    assert state_of(loop) is before
    for at in range(0, ITEMS - rows(0, 5)[-1, -1] - 1, 7):
        put_rows(loop, at, 5, at)
        read_rows(loop, at, 5)
    loop.step()
    loop.mix()
    loop.check()


def test_rows_that_end_behind_what_one_member_has_are_not_replayed(serve: Serve) -> None:
    loop = Loop(serve(2, plays=True))
    put_rows(loop, 1, 5, 0)
    loop.settle()
    last = ITEMS // 2 - int(rows(0, 5)[-1, -1]) - 1
    loop.until_replayed(lambda number: read_rows(loop, number % 8, 5), 1)
    assert loop.replayed(lambda: read_rows(loop, last, 5)) == 1
    assert loop.replayed(lambda: read_rows(loop, last + 1, 5)) == 0
    loop.until_replayed(lambda number: put_rows(loop, number % 8, 5, number), 1)
    assert loop.replayed(lambda: put_rows(loop, last, 5, 7)) == 1
    assert loop.replayed(lambda: put_rows(loop, last + 1, 5, 8)) == 0
    loop.check()


@pytest.mark.parametrize("members", [1, 2])
def test_rows_of_what_launches_only_read_are_replayed_and_so_are_these(serve: Serve, members: int) -> None:
    """The host has some of it too, from when their lengths were not known to be the same each time."""
    loop = Loop(serve(members, plays=True))

    def once(number: int) -> None:
        put_rows(loop, number % 10, 5, 100 * number)
        loop.mix()

    loop.until_replayed(once, 2)
    several = [loop.replayed(lambda: [once(number) for number in range(30)]) for _ in range(5)]
    assert max(several) > 50, "Python may still be busy when the first one comes"
    loop.check()


def test_rows_far_apart_are_not_small(serve: Serve) -> None:
    """Drivers would lock all the host's memory between them."""
    loop = Loop(serve(1, plays=True))
    memory = loop.client.session._memory
    buffer = memory.buffer(loop.client.buffer(bytes(3 << 20)))
    assert is_small(memory, buffer, Region(0, 64, ((1 << 14, 100),)))
    for region in (
        Region(0, 64, ((1 << 15, 90),)),
        Region(0, 4, ((64, 300),)),
        Region(0, 4, ((64, 30), (1 << 15, 3))),
        Region(0, 2048, ((4096, 40),)),
    ):
        assert not is_small(memory, buffer, region)


@pytest.mark.parametrize("members", [1, 2])
def test_copies_of_rows_are_replayed_and_leave_what_is_between(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    loop.settle()
    source, target = rows(3, 4), 7 + np.arange(4)[:, None] * 5 + np.arange(ROW // 4)[None]
    places = {"source_offset": 12, "target_offset": 28, "region": [ROW, 4, 1], "target_row_pitch": 20}
    pitches = {"source_row_pitch": PITCH, "source_slice_pitch": 4 * PITCH, "target_slice_pitch": 80}

    def once(number: int) -> None:
        loop.step(number)
        loop.client.command(Op.COPY, source=loop.a, target=loop.b, **places, **pitches)
        loop.truth[1] = loop.truth[1].copy()
        loop.truth[1][target] = loop.truth[0][source]

    loop.until_replayed(once, 2)
    several = [loop.replayed(lambda: [once(number) for number in range(30)]) for _ in range(5)]
    assert max(several) > 50, "Python may still be busy when the first one comes"
    loop.check()
    loop.mix()
    loop.check()
