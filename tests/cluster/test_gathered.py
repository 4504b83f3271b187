"""Bytes that come to the host with answers: how they are packed, and reads that nodes keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.cluster.gathered import GATHERED_NBYTES_MAX, Gather, runs_of, runs_packed
from sdi.cluster.records import DamagedBatch, RecordKind
from sdi.devices.opencl.member import DriverDevice
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.intervals import ByteRange
from sdi.vmem.dependencies import Dependencies
from sdi.wire.records import Op
from tests.cluster import jobs
from tests.cluster.test_head import COUNT, RANDOM, Failing, rig

MOVES = {RecordKind.SEND, RecordKind.RECEIVE, RecordKind.DOWNLOAD, RecordKind.GATHER}
FEW = 4 * COUNT


@given(lengths=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=8), order=st.randoms())
def test_runs_come_back_and_neighbours_are_one(lengths: list[tuple[int, int]], order: st.DataObject) -> None:
    memory, runs, at, gaps = bytearray(200), [], 0, 0
    for gap, nbytes in lengths:
        gaps += bool(gap) or not runs
        at += gap
        runs.append((at, bytes(range(at, at + nbytes))))
        memory[at : at + nbytes] = runs[-1][1]
        at += nbytes
    order.shuffle(runs)  # type: ignore[attr-defined]
    found = list(runs_of(runs_packed(runs)))
    assert len(found) == gaps
    again = bytearray(200)
    for start, data in found:
        again[start : start + len(data)] = data
    assert again == memory


def test_what_is_no_sequence_of_runs_is_refused() -> None:
    good = runs_packed([(3, b"abc")])
    for nbytes in range(1, len(good)):
        with pytest.raises(DamagedBatch):
            list(runs_of(good[:nbytes]))


def test_bytes_are_put_when_all_have_answered_and_nobody_uses_those_of_the_host() -> None:
    host, dependencies = memoryview(bytearray(8)), Dependencies(8)
    reader, parts = Ticket(), [Ticket(), Ticket()]
    dependencies.read_by(ByteRange(2, 4), reader)
    gathering = Gather(host, 0, dependencies.use((), (ByteRange(0, 6),))).begin()
    there = gathering.behind(parts)
    assert dependencies.before_read(ByteRange(0, 1)) == [there]
    gathering.hear(runs_packed([(0, b"ab")]))
    parts[0].complete()
    gathering.hear(runs_packed([(2, b"cdef")]))
    parts[1].complete()
    assert bytes(host) == bytes(8) and not there.done
    reader.complete()
    assert bytes(host) == b"abcdef\0\0" and there.error is None


def test_of_an_answer_that_failed_nothing_is_put() -> None:
    host, dependencies = memoryview(bytearray(8)), Dependencies(8)
    gathering = Gather(host, 0, dependencies.use((), (ByteRange(0, 8),))).begin()
    gathering.hear(runs_packed([(0, b"ab")]))
    there = gathering.behind([completed(), completed(DeviceFailed("a member", "it failed"))])
    assert isinstance(there.error, DeviceFailed) and bytes(host) == bytes(8)
    assert dependencies.failed() == [ByteRange(0, 8)]


@pytest.mark.parametrize(("nodes", "kind"), [(2, RecordKind.REPLAY), (6, RecordKind.SPREAD)])
def test_a_read_that_is_repeated_is_one_message_however_many_members_have_a_part(
    driver: DriverDevice, nodes: int, kind: RecordKind
) -> None:
    with rig(driver, nodes) as on:
        a, expected = on.client.buffer(RANDOM.tobytes()), RANDOM.copy()
        for by in range(8):
            assert on.client.wait(on.grow(a, by)) == 0
            expected += by
            on.said()
            assert on.client.read(a, FEW) == expected.tobytes()
            said = [each for _, each, _ in on.said()]
            assert on.client.read(a, 40, 4 * COUNT - 40) == expected.tobytes()[-40:], "it is at the host"
        assert said == [kind] * 2


def test_reads_of_parts_writes_between_and_launches_elsewhere_leave_the_right_bytes(
    driver: DriverDevice,
) -> None:
    with rig(driver, 3) as on:
        a, b = on.client.buffer(RANDOM.tobytes()), on.client.buffer(RANDOM.tobytes())
        one, other = RANDOM.copy(), RANDOM.copy()
        for turn in range(24):
            on.grow(a, turn)
            one += turn
            if turn % 3 == 1:
                on.grow(b, 2)
                other += 2
            if turn % 5 == 4:
                on.client.write(a, RANDOM[:100].tobytes(), 4 * 200)
                one[200:300] = RANDOM[:100]
            start = 0 if turn % 2 else 300
            assert on.client.read(a, FEW - 4 * start, 4 * start) == one[start:].tobytes()
            assert on.client.read(b, FEW) == other.tobytes()


def test_a_read_that_waits_for_the_application_and_the_next_one_have_their_own_bytes(
    driver: DriverDevice,
) -> None:
    with rig(driver, 3) as on:
        a, expected = on.client.buffer(RANDOM.tobytes()), RANDOM.copy()
        for by in range(5):
            on.grow(a, by)
            expected += by
            assert on.client.read(a, FEW) == expected.tobytes()
        on.said()
        for _ in range(4):
            on.grow(a, 3)
            expected += 3
            assert on.client.read(a, FEW) == expected.tobytes()
        assert not on.kinds() & MOVES


def test_much_is_read_as_before(driver: DriverDevice) -> None:
    with rig(driver, 2) as on:
        data = bytes(GATHERED_NBYTES_MAX + 4096)
        a = on.client.buffer(data)
        for _ in range(4):
            on.client.wait(on.client.launch(on.build, [(a, 0), bytes(4)], [len(data) // 4], [16], 1))
            on.said()
            assert on.client.read(a, len(data)) == data
        assert RecordKind.SEND in on.kinds()


@pytest.mark.logs("a launch failed")
def test_a_kept_read_of_what_failed_fails_and_is_right_when_it_was_written_anew(
    monkeypatch: pytest.MonkeyPatch, driver: DriverDevice
) -> None:
    open_all = jobs.open_here
    monkeypatch.setattr(jobs, "open_here", lambda *given: [Failing(each) for each in open_all(*given)])
    with rig(driver, 3) as on:
        a, expected = on.client.buffer(RANDOM.tobytes()), RANDOM.copy()
        for by in range(5):
            assert on.client.wait(on.grow(a, by)) == 0
            expected += by
            assert on.client.read(a, FEW) == expected.tobytes()
        monkeypatch.setattr(Failing, "is_failing", True)
        assert on.client.wait(on.grow(a, 1)) < 0
        monkeypatch.setattr(Failing, "is_failing", False)
        for _ in range(2):
            command = on.client.command(Op.READ, buffer=a, offset=0, region=[FEW, 1, 1])
            assert on.client.wait(command) < 0, "its bytes are poisoned"
        on.client.finish()
        on.client.write(a, RANDOM.tobytes())
        expected = RANDOM.copy()
        for by in range(5):
            assert on.client.wait(on.grow(a, by)) == 0
            expected += by
            assert on.client.read(a, FEW) == expected.tobytes()
