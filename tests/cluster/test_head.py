"""Recordings of which nodes keep their parts: what is said of repeated launches, and what changes that."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from sdi.cluster.head import Heads
from sdi.cluster.part import replay_name
from sdi.cluster.records import RecordKind, records
from sdi.cluster.remote_node import RemoteTicket
from sdi.devices.handles import BoundKernel
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.opencl.member import DriverDevice
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.launch.counters import Counters
from sdi.launch.kernel import LaunchPlan
from sdi.ndrange import Int3
from sdi.partition.gain import Span
from sdi.wire.records import Op
from tests.cluster import jobs
from tests.devices.conftest import finish
from tests.service.wire_client import WireClient

SOURCE = """
kernel void stencil(global const int *a, global int *b, int n) {
    int i = get_global_id(0);
    b[i] = a[i] + (i ? a[i - 1] : 1) + (i + 1 < n ? a[i + 1] : 2);
}
kernel void grow(global int *p, int by) { p[get_global_id(0)] += by; }
kernel void shrink(global int *p, int by) { p[get_global_id(0)] -= by; }
kernel void shout(global int *p) { if (!p[get_global_id(0)]++) printf("nought\\n"); }
kernel void set(global int *p, int to) { p[get_global_id(0)] = to; }
"""
STENCIL, GROW, SHRINK, SHOUT, SET = range(5)
COUNT = 960
RANDOM = np.random.default_rng(5).integers(0, 1 << 20, COUNT, np.int32)


@dataclass(slots=True)
class Rig:
    """A session with a member on each node of a job in this process; ``expected``: what buffers hold."""

    made: jobs.Threads
    client: WireClient
    build: int

    def said(self) -> list[tuple[int, RecordKind, int]]:
        """What was said since this was last called: to whom, kind, and bytes of the record's tail."""
        found = [
            (to, record.kind, len(record.tail))
            for to, batch in self.made.root.sent
            for record in records(memoryview(batch))
            if record.kind is not RecordKind.SEEN
        ]
        self.made.root.sent.clear()
        return found

    def kinds(self) -> set[RecordKind]:
        return {kind for _, kind, _ in self.said()}

    def stencil(self, source: int, target: int) -> int:
        arguments = [(source, 0), (target, 0), np.int32(COUNT).tobytes()]
        return self.client.launch(self.build, arguments, [COUNT], [16], STENCIL)

    def stencils(self, turns: int) -> Iterator[list[tuple[int, RecordKind, int]]]:
        """Go from one buffer to another and back; what was said in each turn.  The result is right."""
        a, b = self.client.buffer(RANDOM.tobytes()), self.client.buffer(4 * COUNT)
        expected = RANDOM
        for _ in range(turns):
            self.said()
            assert self.client.wait(self.stencil(a, b)) == 0
            yield self.said()
            expected = stencil(expected)
            a, b = b, a
        assert self.client.read(a, 4 * COUNT) == expected.tobytes()

    def grow(self, buffer: int, by: int) -> int:
        return self.client.launch(self.build, [(buffer, 0), np.int32(by).tobytes()], [COUNT], [16], GROW)


def stencil(a: np.ndarray) -> np.ndarray:
    return a + np.append(1, a[:-1]).astype(np.int32) + np.append(a[1:], 2).astype(np.int32)


@contextmanager
def rig(driver: DriverDevice, nodes: int) -> Iterator[Rig]:
    with (
        jobs.threads(nodes) as made,
        WireClient(jobs.open_on_nodes(made.job, driver, nodes), "always") as client,
    ):
        client.session.keep_parts(partial(Heads, made.job))
        build, status, _ = client.build(SOURCE)
        assert status == 0
        yield Rig(made, client, build)


def test_a_launch_that_is_repeated_is_one_short_record_per_node(driver: DriverDevice) -> None:
    with rig(driver, 2) as on:
        *_, last_but_one, last = on.stencils(8)
    for said in (last_but_one, last):
        assert [(to, kind) for to, kind, _ in said] == [(to, RecordKind.REPLAY) for to in (2, 1)]
        assert all(tail < 40 for _, _, tail in said)


def test_of_many_nodes_two_are_told_and_the_result_is_the_same(driver: DriverDevice) -> None:
    with rig(driver, 6) as on:
        *_, said = on.stencils(7)
    assert [(to, kind) for to, kind, _ in said] == [(1, RecordKind.SPREAD), (2, RecordKind.SPREAD)]


@pytest.mark.parametrize(
    ("nodes", "kinds"),
    [(2, {RecordKind.REPLAY}), (6, {RecordKind.REPLAY, RecordKind.SPREAD, RecordKind.BEHIND})],
)
def test_launches_that_are_measured_are_replayed_too(
    driver: DriverDevice, monkeypatch: pytest.MonkeyPatch, nodes: int, kinds: set[RecordKind]
) -> None:
    """Each node says itself when its member ran."""
    measured: list[list[int]] = []
    turns = itertools.count()

    def record(self: LaunchPlan, boxes: object, ran: Sequence[Span], *how: bool) -> bool:
        measured.append([each.end_ns - each.start_ns for each in ran])
        return False

    monkeypatch.setattr(LaunchPlan, "passes", lambda self: next(turns) % 3 > 0)
    monkeypatch.setattr(LaunchPlan, "measured", record)
    monkeypatch.setattr(Counters, "lacks_times", lambda *_: True)
    with rig(driver, nodes) as on:
        for turn, said in enumerate(on.stencils(24)):
            if turn == 5:
                measured.clear()
            assert turn < 6 or {kind for _, kind, _ in said} <= kinds
    assert len(measured) >= 5
    assert all(len(times) == nodes and min(times) > 0 for times in measured)


def test_of_many_nodes_all_are_told_where_kernels_print(driver: DriverDevice) -> None:
    """What is printed comes with a node's own answer, and so before the launch is done."""
    with rig(driver, 6) as on:
        a = on.client.buffer(RANDOM.tobytes())
        for _ in range(4):
            assert on.client.wait(on.client.launch(on.build, [(a, 0)], [COUNT], [16], SHOUT)) == 0
            said = on.said()
        assert sorted((to, kind) for to, kind, _ in said) == [(to, RecordKind.REPLAY) for to in range(1, 7)]


def test_sessions_one_after_the_other_do_not_mix_what_nodes_keep(driver: DriverDevice) -> None:
    names: list[set[int]] = []
    with jobs.threads(6) as made:
        for nodes in (6, 2, 6):
            made.root.sent.clear()
            with WireClient(jobs.open_on_nodes(made.job, driver, nodes), "always") as client:
                client.session.keep_parts(partial(Heads, made.job))
                build, status, _ = client.build(SOURCE)
                assert status == 0
                on, expected = Rig(made, client, build), RANDOM
                a, b = client.buffer(RANDOM.tobytes()), client.buffer(4 * COUNT)
                for _ in range(4):
                    for source, target in ((a, b), (b, a)):
                        assert client.wait(on.stencil(source, target)) == 0
                        expected = stencil(expected)
                assert client.read(a, 4 * COUNT) == expected.tobytes()
            made.job.end_session()
            sent = [record for _, batch in made.root.sent for record in records(memoryview(batch))]
            kinds = RecordKind.REPLAY, RecordKind.SPREAD
            names.append({record.ticket for record in sent if record.kind in kinds})
    assert all(names) and not (names[0] & names[1] or names[1] & names[2] or names[0] & names[2])


def test_a_scalar_that_changes_goes_with_the_record(driver: DriverDevice) -> None:
    with rig(driver, 2) as on:
        a = on.client.buffer(RANDOM.tobytes())
        for by in range(6):
            assert on.client.wait(on.grow(a, by)) == 0
            kinds = on.kinds()
        assert kinds == {RecordKind.REPLAY}
        assert on.client.read(a, 4 * COUNT) == (RANDOM + 15).tobytes()


def test_what_was_told_otherwise_is_waited_for_and_then_not_named_again(driver: DriverDevice) -> None:
    with rig(driver, 2) as on:
        a = on.client.buffer(RANDOM.tobytes())
        expected = RANDOM.copy()
        for by in range(4):
            on.client.wait(on.grow(a, by))
            expected += by
        on.said()
        on.made.root.hold(1)
        half = on.client.launch(
            on.build, [(a, 0), np.int32(9).tobytes()], [COUNT // 2], [COUNT // 2], GROW
        )  # one work-group, on one member
        last = on.grow(a, 3)
        on.client.buffer(64)  # its answer comes when both are issued
        on.made.root.let_go(1)
        assert on.client.wait(half) == 0 and on.client.wait(last) == 0
        expected[: COUNT // 2] += 9
        expected += 3
        assert on.kinds() >= {RecordKind.LAUNCH, RecordKind.AWAIT}
        on.client.wait(on.grow(a, 1))
        assert on.kinds() == {RecordKind.REPLAY}
        assert on.client.read(a, 4 * COUNT) == (expected + 1).tobytes()


def test_every_replay_waits_for_what_was_told_otherwise_until_that_is_done(driver: DriverDevice) -> None:
    """Two replays that only read what a launch writes would not wait for each other."""
    with rig(driver, 2) as on:
        a, b = on.client.buffer(RANDOM.tobytes()), on.client.buffer(4 * COUNT)

        def turn(first: int) -> None:
            by = np.int32(9).tobytes()
            on.client.launch(on.build, [(a, 0), by], [COUNT // 2], [COUNT // 2], first)
            for _ in range(3):  # the last two by one recording
                on.stencil(a, b)

        for _ in range(4):
            turn(GROW)
        on.client.wait(on.stencil(a, b))
        on.made.root.hold(1)
        on.said()
        turn(SHRINK)  # which no node has kept yet
        on.client.buffer(64)  # its answer comes when all are issued
        kinds = [kind for to, kind, _ in on.said() if to == 1]
        on.made.root.let_go(1)
        on.client.wait(on.stencil(a, b))
        assert kinds.count(RecordKind.REPLAY) == 3
        for at, kind in enumerate(kinds):
            assert kind is not RecordKind.REPLAY or kinds[at - 1] is RecordKind.AWAIT
        on.said()
        on.client.wait(on.stencil(a, b))
        assert RecordKind.AWAIT not in on.kinds(), "it is done"
        expected = RANDOM.copy()
        expected[: COUNT // 2] += 27
        assert on.client.read(b, 4 * COUNT) == stencil(expected).tobytes()


def test_a_write_by_the_host_is_no_reason_to_replay_what_it_changed(driver: DriverDevice) -> None:
    with rig(driver, 2) as on:
        a = on.client.buffer(RANDOM.tobytes())
        expected = RANDOM.copy()
        for by in range(4):
            on.client.wait(on.grow(a, by))
            expected += by
        for turn in range(3):
            expected[100:130] = turn
            on.client.write(a, expected[100:130].tobytes(), 400)
            on.client.wait(on.grow(a, 7))
            expected += 7
            assert on.client.read(a, 4 * COUNT) == expected.tobytes()


def test_nodes_forget_what_names_a_buffer_that_is_released(driver: DriverDevice) -> None:
    with rig(driver, 2) as on:
        a = on.client.buffer(RANDOM.tobytes())
        for by in range(4):
            on.client.wait(on.grow(a, by))
        assert not any(node._parts.is_empty for node in on.made.nodes)
        on.said()
        on.client.send(Op.RELEASE_BUFFER, a)
        b = on.client.buffer(RANDOM.tobytes())
        assert on.client.wait(on.grow(b, 1)) == 0
        assert {RecordKind.FORGET, RecordKind.KEEP} <= on.kinds()
        assert all(node._parts.is_empty for node in on.made.nodes)


def test_what_released_buffers_leave_behind_does_not_grow(driver: DriverDevice) -> None:
    with rig(driver, 2) as on:
        b = on.client.buffer(4 * COUNT)
        for _ in range(20):
            a = on.client.buffer(RANDOM.tobytes())
            for _ in range(4):
                assert on.client.wait(on.stencil(a, b)) == 0
            assert RecordKind.REPLAY in on.kinds()
            on.client.send(Op.RELEASE_BUFFER, a)
        on.client.wait(on.grow(b, 1))
        memory = on.client.session._memory
        replayed = next(each.replayed for each in memory.buffer(b).dependencies if each.replayed is not None)
        assert not list(replayed.since(0))
        assert on.client.read(b, 4 * COUNT) == (stencil(RANDOM) + 1).tobytes()


class Failing(ForwardingDevice):
    """Fails launches while ``is_failing``."""

    is_failing = False

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        if Failing.is_failing:
            return completed(DeviceFailed("gpu", "a launch failed"))
        return super().launch(bound, groups, local_size, work_dim, wait, timing)


@pytest.mark.logs("a launch failed")
def test_a_replay_that_fails_poisons_what_it_wrote_and_what_is_written_anew_is_right(
    monkeypatch: pytest.MonkeyPatch, driver: DriverDevice
) -> None:
    open_all = jobs.open_here
    monkeypatch.setattr(jobs, "open_here", lambda *given: [Failing(each) for each in open_all(*given)])
    with rig(driver, 2) as on:
        a, b = on.client.buffer(RANDOM.tobytes()), on.client.buffer(RANDOM.tobytes())
        for by in range(4):
            on.client.wait(on.grow(a, by))
            on.client.wait(on.grow(b, by))
        monkeypatch.setattr(Failing, "is_failing", True)
        assert on.client.wait(on.grow(a, 1)) < 0
        monkeypatch.setattr(Failing, "is_failing", False)
        assert on.client.wait(on.grow(a, 1)) < 0, "its bytes are poisoned"
        assert on.client.wait(on.grow(b, 1)) == 0
        on.client.write(a, RANDOM.tobytes())
        for _ in range(3):
            assert on.client.wait(on.grow(a, 5)) == 0
        assert on.client.read(a, 4 * COUNT) == (RANDOM + 15).tobytes()
        assert on.client.read(b, 4 * COUNT) == (RANDOM + 7).tobytes()


@pytest.mark.logs("a launch failed")
def test_a_replay_that_brings_what_failed_to_be_written_where_it_is_used_is_right(
    monkeypatch: pytest.MonkeyPatch, driver: DriverDevice
) -> None:
    open_all = jobs.open_here
    monkeypatch.setattr(jobs, "open_here", lambda *given: [Failing(each) for each in open_all(*given)])
    with rig(driver, 3) as on:
        a, b = on.client.buffer(RANDOM.tobytes()), on.client.buffer(RANDOM.tobytes())

        def turn(to: int) -> None:
            """One member writes all of ``b``, which all read and then write."""
            arguments = [(b, 0), np.int32(to).tobytes()]
            on.client.launch(on.build, arguments, [COUNT], [COUNT], SET)
            assert on.client.wait(on.stencil(b, a)) == 0
            assert on.client.wait(on.stencil(a, b)) == 0

        for to in range(4):
            turn(to)
        monkeypatch.setattr(Failing, "is_failing", True)
        assert on.client.wait(on.stencil(a, b)) < 0
        monkeypatch.setattr(Failing, "is_failing", False)
        for to in range(4, 8):
            turn(to)
        expected = stencil(stencil(np.full(COUNT, 7, np.int32)))
        assert on.client.read(b, 4 * COUNT) == expected.tobytes()


class Losing(Failing):
    """Is lost as well."""

    def is_lost(self) -> bool:
        return Failing.is_failing


@pytest.mark.logs("a launch failed")
def test_members_that_are_lost_in_a_replay_that_others_told_are_known(
    monkeypatch: pytest.MonkeyPatch, driver: DriverDevice
) -> None:
    open_all = jobs.open_here
    monkeypatch.setattr(jobs, "open_here", lambda *given: [Losing(each) for each in open_all(*given)])
    with rig(driver, 6) as on:
        a = on.client.buffer(RANDOM.tobytes())
        for by in range(4):
            on.client.wait(on.grow(a, by))
        assert RecordKind.SPREAD in on.kinds()
        monkeypatch.setattr(Failing, "is_failing", True)
        assert on.client.wait(on.grow(a, 1)) < 0
        assert [node.lost_members for node in on.made.job.nodes.values()] == [{0}] * 6


def test_what_waits_for_a_replay_that_a_node_does_not_know_fails(driver: DriverDevice) -> None:
    with rig(driver, 2) as on:
        device = on.made.job._members[0]
        buffer = device.allocate(64)
        ticket = device.fill(buffer, 0, 64, b"\1", [RemoteTicket(device.node, replay_name(1 << 20))])
        device.flush()
        with pytest.raises(DeviceFailed, match="is not known"):
            finish(ticket)
        device.free(buffer)
