"""Bytes that something failed to write stay poisoned until they are written, whatever is written around them.

Who reads them fails; what was never theirs is neither poisoned by a failure nor made whole by a neighbour.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sdi.devices.discover import MemberSettings, open_members
from sdi.errors import DeviceFailed, Status
from sdi.intervals import ByteRange
from sdi.wire.records import NoticeKind, Op
from tests.devices.short import refuse_host_memory
from tests.devices.testing.hooks import hooks
from tests.service.wire_client import WireClient

pytestmark = pytest.mark.logs("failed: |refused")

SOURCE = """
__kernel void columns(__global int *to, int by) { to[(size_t)get_global_id(0) * 64] = by; }
__kernel void add(__global int *to) { to[get_global_id(1) * 256 + get_global_id(0)]++; }
__kernel void set(__global const int *from, __global int *to) {
    to[get_global_id(1) * 256 + get_global_id(0)] = *from;
}
__kernel void pick(__global const int *from, __global int *to) { to[get_global_id(0)] = from[*from & 8191]; }
__kernel void follow(__global const ulong *where, __global int *to) {
    to[get_global_id(0)] = ((__global const int *)where[0])[get_global_id(0)];
}
"""
COLUMNS, ADD, SET, PICK, FOLLOW = range(5)
PITCH, ROWS = 256, 256
NBYTES = PITCH * ROWS
DATA = np.random.default_rng(1).integers(1, 1 << 30, NBYTES // 4, np.int32).tobytes()


class Application(WireClient):
    """Two members; what failed is said here."""

    def poisoned(self, *ranges: tuple[int, int]) -> int:
        """A buffer with ``DATA``, of which some ranges (start, stop) were not written."""
        buffer = self.buffer(DATA)
        self.finish()
        memory = self.session._memory
        for start, stop in ranges:
            memory.recovery.poison(
                memory.buffer(buffer), ByteRange(start, stop), DeviceFailed("a test", "was there")
            )
        return buffer

    def status(self, op: Op, variable: bytes = b"", **fields: Any) -> int:
        """Of a command; the application copies nothing."""
        command = self.command(op, variable, **fields)
        kind, event, status = self.notice() if op in (Op.READ, Op.WRITE) else (NoticeKind.EVENT_STATUS, 0, 1)
        if kind is NoticeKind.TRANSFER_READY:
            self.send(Op.TRANSFER_DONE, command, status=0)
        elif event == command:
            return status
        return self.wait(command)

    def is_poisoned(self, buffer: int, start: int, stop: int) -> bool:
        return self.status(Op.READ, buffer=buffer, offset=start, region=[stop - start, 1, 1]) < 0


def rows(count: int) -> dict[str, Any]:
    """The first 64 bytes of so many rows."""
    return {"region": [64, count, 1], "row_pitch": PITCH, "slice_pitch": NBYTES}


@pytest.fixture
def app() -> Iterator[Application]:
    with Application(open_members(MemberSettings(count=2)), "auto") as client:
        yield client


@pytest.mark.parametrize("count", [30, ROWS])
def test_rows_that_are_written_leave_what_lies_between_them_poisoned(app: Application, count: int) -> None:
    statuses = []
    for op in (Op.WRITE, Op.FILL):
        buffer = app.poisoned((64, 200), (PITCH * 5, PITCH * 6))
        pattern: dict[str, Any] = {"variable": b"\7" * 4, "pattern_nbytes": 4} if op is Op.FILL else {}
        statuses.append(app.status(op, buffer=buffer, **rows(count), **pattern))
        assert app.is_poisoned(buffer, 100, 104) and app.is_poisoned(buffer, PITCH * 5 + 64, PITCH * 6)
        assert not app.is_poisoned(buffer, PITCH * 5, PITCH * 5 + 64)
        assert app.read(buffer, 64, PITCH * 20 + 64) == DATA[PITCH * 20 + 64 :][:64]
    source, target = app.buffer(DATA), app.poisoned((100, 200))
    ends = {
        f"{end}_{name}": rows(count)[name]
        for end in ("source", "target")
        for name in ("row_pitch", "slice_pitch")
    }
    statuses.append(app.status(Op.COPY, source=source, target=target, region=[64, count, 1], **ends))
    assert app.is_poisoned(target, 100, 104)
    assert statuses == [0, 0, 0]


def test_what_is_filled_or_written_as_a_whole_is_poisoned_no_more(app: Application) -> None:
    buffer = app.poisoned((0, NBYTES))
    assert (
        app.status(Op.FILL, b"\7" * 4, buffer=buffer, offset=256, region=[512, 1, 1], pattern_nbytes=4) == 0
    )
    assert app.read(buffer, 512, 256) == b"\7" * 512
    app.write(buffer, b"\1" * 64, 2048)
    assert app.read(buffer, 64, 2048) == b"\1" * 64
    assert app.is_poisoned(buffer, 0, 256) and app.is_poisoned(buffer, 768, 772)


@pytest.mark.parametrize("region", [{"region": [512, 1, 1]}, rows(ROWS)])
def test_a_region_that_can_not_be_mapped_is_poisoned_no_more_than_it_was(
    app: Application, region: dict[str, Any]
) -> None:
    buffer = app.poisoned((100, 200))
    assert app.status(Op.MAP, buffer=buffer, flags=3, **region) < 0  # for reading and writing
    assert app.read(buffer, 64) == DATA[:64] and app.read(buffer, 64, 256) == DATA[256:320]
    assert app.is_poisoned(buffer, 100, 104)
    assert app.status(Op.MAP, buffer=buffer, offset=100, region=[100, 1, 1], flags=4) == 0  # invalidates
    at = app.offsets[buffer] + 100
    app.arena[at : at + 100] = b"\7" * 100
    assert app.status(Op.UNMAP, buffer=buffer, offset=100, region=[100, 1, 1], wrote=1) == 0
    assert app.read(buffer, 512) == DATA[:100] + b"\7" * 100 + DATA[200:512]


def test_what_a_failed_command_was_not_to_write_is_not_poisoned(app: Application) -> None:
    memory = app.session._memory
    buffer = app.buffer(DATA)
    app.finish()
    raised = DeviceFailed("a test", "failed: refused")

    def refuse(*_: object, **__: object) -> None:
        raise raised

    view, memory.memories.host_view = memory.memories.host_view, refuse  # type: ignore[method-assign, assignment]
    assert app.status(Op.FILL, b"\7" * 4, buffer=buffer, pattern_nbytes=4, **rows(ROWS)) < 0
    memory.memories.host_view = view  # type: ignore[method-assign]
    assert app.is_poisoned(buffer, PITCH * 3, PITCH * 3 + 4)
    assert app.read(buffer, 64, PITCH * 3 + 64) == DATA[PITCH * 3 + 64 :][:64]


def test_a_launch_that_finds_no_memory_poisons_what_it_was_to_write() -> None:
    with Application(open_members(MemberSettings(count=1, memory_nbytes=8192)), "always") as app:
        build, _, _ = app.build(SOURCE)
        from_, to = app.buffer(DATA), app.buffer(DATA)

        refuse_host_memory(app.session._memory.devices[0])
        status = app.wait(app.launch(build, [(from_, 0), (to, 0)], [NBYTES // 4], [64], PICK))
        assert status == Status.MEM_OBJECT_ALLOCATION_FAILURE
        assert app.is_poisoned(to, 0, 4)
        assert app.read(from_, NBYTES) == DATA


@pytest.mark.logs("lost: |a test asked for it|failed: ")
def test_buffers_of_the_host_can_be_filled_when_no_member_is_left() -> None:
    with Application(open_members(MemberSettings(count=1, testing=hooks(lost=(0, 0)))), "always") as app:
        build, _, _ = app.build(SOURCE)
        buffer, other = app.buffer(DATA), app.buffer(DATA)
        assert app.wait(app.launch(build, [(buffer, 0), np.int32(7).tobytes()], [ROWS], [8], COLUMNS)) < 0
        assert (
            app.status(Op.FILL, b"\7" * 4, buffer=other, offset=0, region=[512, 1, 1], pattern_nbytes=4) == 0
        )
        assert app.read(other, 516) == b"\7" * 512 + DATA[512:516]


@pytest.mark.parametrize("height", [32, 128])
def test_launches_on_many_ranges_succeed_again_once_what_failed_is_written(height: int) -> None:
    with Application(open_members(MemberSettings(count=2)), "always") as app:
        build, _, _ = app.build(SOURCE)
        data = np.arange(256 * height, dtype=np.int32)

        def columns(kernel: int, *buffers: int) -> int:
            arguments = [(buffer, 0) for buffer in buffers]
            return app.wait(app.launch(build, arguments, [256, height], [1, height], kernel))

        memory = app.session._memory
        one, other = app.buffer(data.tobytes()), app.buffer(data.tobytes())
        app.finish()
        memory.recovery.poison(
            memory.buffer(one), ByteRange(0, data.nbytes), DeviceFailed("a test", "was there")
        )
        assert columns(ADD, one) < 0 and columns(SET, one, other) < 0
        app.write(one, data.tobytes())
        assert columns(SET, one, other) == columns(ADD, one) == 0
        assert np.array_equal(np.frombuffer(app.read(one, data.nbytes), np.int32), data + 1)
        assert not np.frombuffer(app.read(other, data.nbytes), np.int32).any()
        assert app.session.counters.kernel("add").members_used == {2: 2}


def test_what_follows_a_refused_launch_waits_for_what_was_under_way() -> None:
    with Application(open_members(MemberSettings(count=1, memory_nbytes=8192)), "always") as app:
        build, _, _ = app.build(SOURCE)
        from_, to = app.buffer(DATA), app.buffer(DATA)
        app.finish()

        refuse_host_memory(app.session._memory.devices[0])
        write = app.command(Op.WRITE, buffer=to, offset=0, region=[NBYTES, 1, 1])
        assert app.notice()[:2] == (NoticeKind.TRANSFER_READY, write)
        launch = app.launch(build, [(from_, 0), (to, 0)], [NBYTES // 4], [64], PICK)
        fill = app.command(Op.FILL, b"\7" * 4, buffer=to, offset=0, region=[NBYTES, 1, 1], pattern_nbytes=4)
        app.buffer(16)  # an answer: all of the above is issued
        at = app.offsets[to]
        app.arena[at : at + NBYTES] = DATA  # the application's copy, late
        app.send(Op.TRANSFER_DONE, write, status=0)
        assert app.wait(launch) == Status.MEM_OBJECT_ALLOCATION_FAILURE and app.wait(fill) == 0
        assert app.read(to, NBYTES) == b"\7" * NBYTES


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("before", [0, 4], ids=["new", "replayed"])
def test_a_launch_that_reaches_what_is_poisoned_fails_until_that_is_written(
    members: int, before: int
) -> None:
    gc.collect()  # failures keep sessions, which keep their addresses, of which there are few
    with Application(open_members(MemberSettings(count=members)), "always") as app:
        build, _, _ = app.build(SOURCE)
        reached, to = app.buffer(DATA), app.buffer(NBYTES)
        where, reach = app.buffer(app.address(reached)), app.new_id()
        app.send(Op.REACH, reach, reached.to_bytes(8, "little"), num_regions=1)
        memory = app.session._memory

        def follow() -> int:
            arguments = [(where, 0), (to, 0)]
            return app.launch(build, arguments, [64 * 96], [64], FOLLOW, regions=[where, to], reach=reach)

        for _ in range(before):
            assert app.wait(follow()) == 0
        part = ByteRange(4096, 4100)
        memory.recovery.poison(memory.buffer(reached), part, DeviceFailed("a test", "was there"))
        assert app.wait(follow()) < 0
        assert all(app.is_poisoned(buffer, 0, 4) for buffer in (to, where, reached)), "it may write them"
        app.write(reached, DATA)
        assert app.wait(follow()) < 0, "two others are as they were"
        for buffer, data in ((where, app.address(reached)), (to, bytes(NBYTES)), (reached, DATA)):
            app.write(buffer, data)
        assert [app.wait(follow()) for _ in range(3)] == [0, 0, 0]
        assert app.read(to, 64 * 96 * 4) == DATA[: 64 * 96 * 4]
