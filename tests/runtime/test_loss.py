"""A member is lost at its k-th operation, for every k: what is elsewhere stays right, what is gone fails.

Commands either succeed with the right bytes or fail; afterwards the image works on the other members.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from sdi.devices.discover import MemberSettings, open_members
from sdi.intervals import ByteRange
from sdi.wire.arguments import IMAGE_ARGUMENT, ArgumentKind
from sdi.wire.layout import layout
from sdi.wire.records import NoticeKind, Op
from tests.devices.testing.faulty import LosingDevice
from tests.devices.testing.hooks import hooks
from tests.service.wire_client import WireClient

SOURCE = """
__kernel void blur(__global const int *from, __global int *to, int n) {
    int i = get_global_id(0);
    to[i] = from[i] + 2 * from[i > 0 ? i - 1 : n - 1] + 3 * from[i < n - 1 ? i + 1 : 0];
}
__kernel void grow(__global int *p) { p[get_global_id(0)] += 7; }
__kernel void spread(__global int *to, __global const int *where, int by) {
    int i = get_global_id(0);
    to[where[i]] = i + by;
}
__kernel void draw(write_only image2d_t to, __global const int *from) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    write_imagei(to, at, (int4)(from[at.y * 64 + at.x] + 1, 0, 0, 0));
}
__kernel void show(read_only image2d_t from, __global int *to) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    to[at.y * 64 + at.x] = 2 * read_imagei(from, at).x;
}
__kernel void follow(__global const ulong *where, __global int *to) {
    __global const int *from = (__global const int *)where[0];
    to[get_global_id(0)] = from[get_global_id(0)] + 3;
}
"""
BLUR, GROW, SPREAD, DRAW, SHOW, FOLLOW = range(6)
COUNT, LOCAL, MEMBERS = 3072, 64, 3
NBYTES = 4 * COUNT
START = np.arange(COUNT, dtype=np.int32)
WHERE = np.random.default_rng(3).permutation(COUNT).astype(np.int32)
SPREADED = np.empty(COUNT, np.int32)
SPREADED[WHERE] = START + 5


def blurred(a: np.ndarray) -> np.ndarray:
    return a + 2 * np.roll(a, 1) + 3 * np.roll(a, -1)


class Application:
    """What one program does, and what it should see: ``truth`` by buffer, None where nothing is promised."""

    def __init__(self, client: WireClient, in_a_row: bool) -> None:
        self.client, self.in_a_row = client, in_a_row
        self.build, status, _ = client.build(SOURCE)
        assert status == 0
        self.truth: dict[int, np.ndarray | None] = {}
        self.statuses: list[int] = []
        self._launched: list[tuple[int, int, tuple[int, ...], np.ndarray]] = []

    def buffer(self, data: np.ndarray | None) -> int:
        buffer = self.client.buffer(NBYTES if data is None else data.tobytes())
        self.truth[buffer] = data
        return buffer

    def launch(self, kernel: int, to: int, *others: int, expected: np.ndarray) -> None:
        """Launch; ``to`` holds ``expected`` if that succeeds."""
        last: dict[int, bytes | int] = {BLUR: np.int32(COUNT).tobytes(), SPREAD: np.int32(5).tobytes()}
        pointers = [(buffer, 0) for buffer in ((*others, to) if kernel == BLUR else (to, *others))]
        values = [last[kernel]] if kernel in last else []
        command = self.client.launch(self.build, [*pointers, *values], [COUNT], [LOCAL], kernel)
        self.issued(command, to, (*others, to) if kernel == GROW else others, expected)

    def paint(self, kernel: int, to: int, from_: int, expected: np.ndarray) -> None:
        """Launch with one of the two buffers as an image of 64 x 48 ints."""
        numbers = (from_ if kernel == SHOW else to, 0, 0x10F1, 0x10B0, 0x10D9, 0, 64, 48, 1, 256, NBYTES)
        image = (ArgumentKind.IMAGE, layout(IMAGE_ARGUMENT).pack(*numbers))
        given = [image, (from_ if kernel == DRAW else to, 0)]
        self.issued(self.client.launch(self.build, given, [64, 48], [8, 8], kernel), to, (from_,), expected)

    def follow(self, to: int, from_: int, expected: np.ndarray) -> None:
        """Launch by address; ``from_`` is no argument."""
        client = self.client
        where, reach = client.buffer(client.address(from_)), client.new_id()
        client.send(Op.REACH, reach, from_.to_bytes(8, "little"), num_regions=1)
        arguments, regions = [(where, 0), (to, 0)], [where, to]
        command = client.launch(self.build, arguments, [COUNT], [LOCAL], FOLLOW, regions, reach=reach)
        self.issued(command, to, (from_,), expected)

    def copy(self, to: int, from_: int, expected: np.ndarray) -> None:
        command = self.client.command(Op.COPY, source=from_, target=to, region=[NBYTES, 1, 1])
        self.issued(command, to, (from_,), expected)

    def fill(self, to: int, value: int, expected: np.ndarray, rows: int = 0) -> None:
        """All of it, or the first 64 bytes of so many rows of 256."""
        pitches = {"row_pitch": 256, "slice_pitch": 256 * rows} if rows else {}
        region = [64, rows, 1] if rows else [NBYTES, 1, 1]
        pattern = np.int32(value).tobytes()
        command = self.client.command(Op.FILL, pattern, buffer=to, region=region, pattern_nbytes=4, **pitches)
        self.issued(command, to, (to,) if rows else (), expected)

    def issued(self, command: int, to: int, reads: tuple[int, ...], expected: np.ndarray) -> None:
        """``to`` holds ``expected`` once ``command`` succeeds, if what it reads is what it should be."""
        self._launched.append((command, to, reads, expected))
        if not self.in_a_row:
            self.settle()

    def settle(self) -> None:
        """Wait for what was launched; what launches were to write that failed is not promised."""
        for command, to, reads, expected in self._launched:
            status = self.client.wait(command)
            self.statuses.append(status)
            is_known = status == 0 and all(self.truth[buffer] is not None for buffer in reads)
            self.truth[to] = expected if is_known else None
        self._launched.clear()

    def read(self, buffer: int) -> bytes | int:
        """The buffer's bytes, or a negative status."""
        command = self.client.command(Op.READ, buffer=buffer, offset=0, region=[NBYTES, 1, 1])
        kind, event, status = self.client.notice()
        assert event == command
        if kind is NoticeKind.EVENT_STATUS:
            assert status < 0
            return status
        at = self.client.offsets[buffer]
        data = self.client.arena[at : at + NBYTES]
        self.client.send(Op.TRANSFER_DONE, command, status=0)
        assert self.client.wait(command) == 0
        return data

    def check(self, buffer: int) -> bool:
        """Read; whether that succeeded.  What is promised is right then."""
        found, expected = self.read(buffer), self.truth[buffer]
        if isinstance(found, bytes) and expected is not None:
            assert found == expected.astype(np.int32).tobytes()
        return isinstance(found, bytes)

    def write(self, buffer: int, data: np.ndarray) -> None:
        assert self.client.wait(self.client.write(buffer, data.tobytes())) == 0
        self.truth[buffer] = data


@contextmanager
def image(member: int, lasts: int, limit: int | None, merging: bool) -> Iterator[WireClient]:
    """``merging``: members bring together what they wrote, as GPUs do, instead of the host."""
    gc.collect()  # failures keep sessions, which keep their addresses, of which there are few
    devices = open_members(
        MemberSettings(count=MEMBERS, testing=hooks(lost=(member, lasts)), memory_nbytes=limit)
    )
    with WireClient(devices, "always") as client:
        client.session._memory.merges._able = [merging] * MEMBERS
        yield client


def kernels(app: Application) -> tuple[list[int], list[int]]:
    """Launches.  Buffers that nothing but the host writes, and others."""
    kept, source, index = app.buffer(START * 3), app.buffer(START), app.buffer(WHERE)
    middle, end, grown, merged = (app.buffer(None) for _ in range(4))
    app.launch(BLUR, middle, source, expected=blurred(START))
    app.launch(BLUR, end, middle, expected=blurred(blurred(START)))
    app.launch(BLUR, grown, source, expected=blurred(START))
    app.launch(GROW, grown, expected=blurred(START) + 7)
    app.launch(SPREAD, merged, index, expected=SPREADED)
    return [kept, source, index], [middle, end, grown, merged]


def transfers(app: Application) -> tuple[list[int], list[int]]:
    """Fills, copies and images.  Buffers that nothing but the host writes, and others."""
    kept, source = app.buffer(START * 3), app.buffer(START)
    filled, copied, again, picture, shown = (app.buffer(None) for _ in range(5))
    app.fill(filled, 7, np.full(COUNT, 7, np.int32))
    app.launch(GROW, filled, expected=np.full(COUNT, 14, np.int32))
    app.copy(copied, source, expected=START)
    app.launch(GROW, copied, expected=START + 7)
    app.copy(again, copied, expected=START + 7)
    app.paint(DRAW, picture, again, expected=START + 8)
    app.paint(SHOW, shown, picture, expected=2 * START + 16)
    rows = (START + 7).reshape(-1, 64).copy()
    rows[:40, :16] = 9
    app.fill(copied, 9, rows.ravel(), rows=40)
    app.launch(GROW, copied, expected=rows.ravel() + 7)
    return [kept, source], [filled, copied, again, picture, shown]


def pointers(app: Application) -> tuple[list[int], list[int]]:
    """Launches by address of what members have copies of.  As for ``kernels``."""
    kept, source = app.buffer(START * 3), app.buffer(START)
    middle, end, grown, last = (app.buffer(None) for _ in range(4))
    app.launch(BLUR, middle, source, expected=blurred(START))
    app.launch(BLUR, last, source, expected=blurred(START))  # what is lost now, the next launch is told
    app.follow(end, middle, expected=blurred(START) + 3)
    app.launch(GROW, middle, expected=blurred(START) + 7)
    app.launch(BLUR, grown, end, expected=blurred(blurred(START) + 3))
    app.follow(last, grown, expected=blurred(blurred(START) + 3) + 3)
    app.launch(GROW, last, expected=blurred(blurred(START) + 3) + 10)
    return [kept, source], [end, middle, grown, last]


Program = Callable[[Application], tuple[list[int], list[int]]]


def run(client: WireClient, in_a_row: bool, program: Program) -> tuple[int, LosingDevice]:
    """One program, and what holds whatever happens; negative statuses, and the member that is lost."""
    memory = client.session._memory
    (losing,) = (device for device in memory.devices if isinstance(device, LosingDevice))
    app = Application(client, in_a_row)
    unwritten, written = program(app)
    app.settle()
    checked = [app.check(buffer) for buffer in written]
    # Nobody wrote these after the host did: they are right whatever was lost.
    assert all(app.check(buffer) for buffer in unwritten)
    failures = sum(status < 0 for status in app.statuses) + checked.count(False)
    events = memory.accounting.events
    if losing.is_lost():
        assert failures > 0 or events.lost_nbytes == 0
    else:
        assert failures == 0 and events.members_lost == 0
    # Afterwards everything works, on those that are left.
    app.in_a_row = False
    app.statuses.clear()
    source, end, merged, index = unwritten[1], written[1], written[-1], app.buffer(WHERE)
    while True:  # the loss may be found only now: once
        again = START[::-1] * 2
        app.write(source, again)
        app.write(merged, START)
        app.launch(BLUR, end, source, expected=blurred(again))
        app.launch(GROW, end, expected=blurred(again) + 7)
        app.launch(SPREAD, merged, index, expected=SPREADED)
        worked = [app.check(buffer) for buffer in (end, merged)]
        if all(status == 0 for status in app.statuses) and all(worked):
            break
        failures += 1
        app.write(source, again)  # it is issued when the failure was looked into
        assert losing.is_lost() and events.members_lost == 1, "what failed was the loss, and it was noticed"
        app.statuses.clear()
        assert failures < 100
    if events.members_lost:
        assert events.members_lost == 1 and len(memory.members) == MEMBERS - 1
        split = client.session.counters.kernel("grow").members_used
        assert split.get(MEMBERS - 1), "the others share the work"
    for buffer in memory._buffers.values():
        buffer.directory.check()
        for part, holders, _ in buffer.directory.holders(ByteRange(0, buffer.nbytes)):
            assert all(m in memory.members for m in range(MEMBERS) if holders >> (m + 1) & 1), part
    return failures, losing


class Said(logging.Handler):
    """Keeps the texts of errors, and nothing that they refer to."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What the user was told."""
    handler = Said()
    logging.getLogger("sdi.members").addHandler(handler)
    yield handler.texts
    logging.getLogger("sdi.members").removeHandler(handler)


@pytest.mark.logs("lost: |a test asked for it|can't read|failed")
@pytest.mark.parametrize("in_a_row", [False, True])
@pytest.mark.parametrize(
    ("member", "program", "limit", "merging"),
    [
        *((member, kernels, None, False) for member in range(MEMBERS)),
        *((member, kernels, None, True) for member in (0, 1)),
        *((member, transfers, None, False) for member in (0, 2)),
        *((member, pointers, None, False) for member in (0, 2)),
        *((1, each, 5 * 4096, False) for each in (kernels, transfers)),  # what is placed pushes others out
    ],
)
def test_a_member_that_is_lost_at_any_operation_takes_only_what_it_alone_had(
    member: int, program: Program, limit: int | None, merging: bool, in_a_row: bool, said: list[str]
) -> None:
    with image(member, 1 << 30, limit, merging) as client:
        failures, losing = run(client, in_a_row, program)
        assert not failures
        operations = losing.operations
        events = client.session._memory.accounting.events
        assert (events.drops + events.spills > 0) == (limit is not None)
    assert operations > 10
    outcomes = set()
    every = 2 if program is transfers or limit is not None or merging else 1  # these take long enough
    # On a busy machine all commands in a row may have begun before anybody sees that the first one's is lost.
    for number, lasts in enumerate([*range(0, operations, every), *[0] * 20]):
        if number * every >= operations and len(outcomes) == 2:
            break
        said.clear()
        with image(member, lasts, limit, merging) as client:
            run(client, in_a_row, program)
            memory = client.session._memory
            assert memory.members == [m for m in range(MEMBERS) if m != member]
            lost_nbytes = memory.accounting.events.lost_nbytes
        assert len(said) == 1 and f"member {member}" in said[0], said
        assert ("nothing was there alone" in said[0]) == (lost_nbytes == 0)
        outcomes.add(lost_nbytes > 0)
    assert outcomes == {False, True}, "both were tried"


@pytest.mark.logs("lost: |a test asked for it|failed")
def test_the_last_member_overwrites_what_is_gone_and_goes_on() -> None:
    with WireClient(open_members(MemberSettings(count=2, testing=hooks(lost=(1, 8)))), "always") as client:
        build, _, _ = client.build(SOURCE)
        buffers = [client.buffer(START.tobytes()), client.buffer(NBYTES)]
        statuses: list[int] = []
        for turn in range(20):
            expected = START + turn
            statuses.append(client.wait(client.write(buffers[0], expected.tobytes())))
            for step in range(3):
                arguments = [(buffers[step % 2], 0), (buffers[1 - step % 2], 0), np.int32(COUNT).tobytes()]
                statuses.append(client.wait(client.launch(build, arguments, [COUNT], [LOCAL], BLUR)))
                expected = blurred(expected)
        assert client.session._memory.members == [0]
        assert statuses.count(0) < len(statuses) and not any(statuses[-40:])
        assert client.read(buffers[1], NBYTES) == expected.tobytes()


@pytest.mark.logs("lost: |a test asked for it|failed")
def test_a_launch_on_a_buffer_that_is_gone_fails_alone_also_when_no_member_is_left() -> None:
    with WireClient(open_members(MemberSettings(count=1, testing=hooks(lost=(0, 0)))), "always") as client:
        build, _, _ = client.build(SOURCE)
        buffer = client.buffer(np.arange(COUNT, dtype=np.int32).tobytes())
        for arguments in ([(buffer, 0)], [(77, 0)], [(buffer, 0)]):
            assert client.wait(client.launch(build, arguments, [COUNT], [LOCAL], GROW)) < 0
        assert client.wait(client.command(Op.MARKER)) == 0


@pytest.mark.logs("lost: |a test asked for it|failed")
def test_a_launch_that_fails_leaves_no_old_bytes_beside_a_buffer_that_is_gone() -> None:
    source = "kernel void both(global int *a, global int *b) { a[get_global_id(0)] = b[get_global_id(0)]++; }"
    with WireClient(open_members(MemberSettings(count=1, testing=hooks(lost=(0, 0)))), "always") as client:
        build, _, _ = client.build(source)
        first, second = (client.buffer(bytes(NBYTES)) for _ in range(2))
        for arguments in ([(first, 0), (first, 0)], [(77, 0), (second, 0)]):
            assert client.wait(client.launch(build, arguments, [COUNT], [LOCAL], 0)) < 0
        assert client.wait(client.command(Op.READ, buffer=second, offset=0, region=[NBYTES, 1, 1])) < 0


@pytest.mark.logs("lost: |a test asked for it|failed|the command stream is damaged: NDRANGE")
@pytest.mark.parametrize(
    "extra", [[np.int32(1).tobytes()], [0, 0], [NBYTES]], ids=["kind", "number", "offset"]
)
def test_a_malformed_launch_ends_the_session_also_when_no_member_is_left(extra: list[bytes | int]) -> None:
    with WireClient(open_members(MemberSettings(count=1, testing=hooks(lost=(0, 0)))), "always") as client:
        build, _, _ = client.build(SOURCE)
        buffer = client.buffer(np.arange(COUNT, dtype=np.int32).tobytes())
        assert client.wait(client.launch(build, [(buffer, 0)], [COUNT], [LOCAL], GROW)) < 0
        arguments = [each if isinstance(each, bytes) else (buffer, each) for each in extra]
        client.launch(build, arguments, [COUNT], [LOCAL], GROW)
        client._thread.join(timeout=30)
        assert not client._thread.is_alive()
