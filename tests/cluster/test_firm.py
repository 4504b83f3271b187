"""Firm replays: which recordings have them, what they leave, and that nothing stands still for them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from sdi.cluster.firm import FirmCopies
from sdi.cluster.head import Heads
from sdi.cluster.job import Job
from sdi.cluster.mailboxes import RepeatedRound
from sdi.cluster.members import facts_of, host_id, open_job_members
from sdi.cluster.part import replay_name
from sdi.cluster.remote_node import RemoteNode
from sdi.devices.discover import MemberSettings, all_devices
from sdi.devices.ticket import Ticket
from sdi.wire.records import Op
from tests.cluster.jobs import local_job
from tests.devices.testing.hooks import hooks
from tests.service.wire_client import WireClient

SOURCE = """
kernel void blend(global const int *in, global int *out, int n, int k) {
    int i = get_global_id(0);
    out[i] = 3 * in[i] + (i ? in[i - 1] : 7) - (i + 1 < n ? in[i + 1] : 5) + k;
}
kernel void mirror(global const int *in, global int *out, int n, int k) {
    int i = get_global_id(0);
    out[i] = in[n - 1 - i] ^ k;
}
kernel void grow(global int *a, int by) { a[get_global_id(0)] += by; }
"""
BLEND, MIRROR, GROW = range(3)
LOCAL, MEMBERS = 16, 4
Step = Callable[[np.ndarray, int], np.ndarray]


def blended(a: np.ndarray, k: int) -> np.ndarray:
    left, right = np.append(7, a[:-1]).astype(np.int32), np.append(a[1:], 5).astype(np.int32)
    return 3 * a + left - right + np.int32(k)


def mirrored(a: np.ndarray, k: int) -> np.ndarray:
    return a[::-1] ^ np.int32(k)


@pytest.fixture(scope="module")
def near() -> Iterator[Job]:
    with local_job(3, host_id()) as job:
        yield job


class Rig:
    """A session with a member here and on three other processes."""

    def __init__(self, job: Job, client: WireClient) -> None:
        self.job = job
        self.client = client
        client.session.keep_parts(partial(Heads, job))
        self.program, status, _ = client.build(SOURCE)
        assert status == 0

    def step(self, kernel: int, source: int, target: int, n: int, k: int) -> int:
        arguments = [(source, 0), (target, 0), np.int32(n).tobytes(), np.int32(k).tobytes()]
        return self.client.launch(self.program, arguments, [n], [LOCAL], kernel)

    def firm(self) -> int:
        """So many replays were firm."""
        accounting = self.client.session.counters._accounting
        accounting.settle()
        return accounting.events.firm_replays


@contextmanager
def rig(job: Job, lost: tuple[int, int] | None = None) -> Iterator[Rig]:
    devices = all_devices()
    wanted = MemberSettings(count=MEMBERS, testing=hooks(signals=True, lost=lost))
    members = open_job_members(wanted, job, devices, facts_of(devices))
    with WireClient(members, "always", share=job.share) as client:
        yield Rig(job, client)
    job.end_session()


def start(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 20, n, np.int32)


@pytest.mark.parametrize(("kernel", "wanted"), [(BLEND, blended), (MIRROR, mirrored)], ids=["halos", "all"])
@pytest.mark.parametrize("waits", [True, False], ids=["each waited for", "ahead"])
def test_loops_are_firm_from_the_third_turn_on_and_right(
    near: Job, kernel: int, wanted: Step, waits: bool
) -> None:
    n, turns = 1 << 12, 40
    with rig(near) as on:
        expected = start(n)
        a, b = on.client.buffer(expected.tobytes()), on.client.buffer(4 * n)
        for turn in range(turns):
            command = on.step(kernel, a, b, n, turn)
            assert not waits or on.client.wait(command) == 0
            expected, a, b = wanted(expected, turn), b, a
        assert on.client.read(a, 4 * n) == expected.tobytes()
        assert on.firm() >= turns - 6
        assert not near.exchange.mailboxes.is_in_doubt


def test_what_else_is_asked_for_in_between_keeps_its_place(near: Job) -> None:
    """Writes, launches without copies, reads, and what waits for them: none is held up, none too early."""
    n = 1 << 12
    with rig(near) as on:
        data = [start(n, 1), start(n, 2)]
        pair = [on.client.buffer(each.tobytes()) for each in data]
        numbers = np.random.default_rng(3)
        for turn in range(120):
            match int(numbers.integers(0, 6)):
                case 0:
                    at = int(numbers.integers(0, n - 9))
                    on.client.write(pair[0], np.full(9, turn, np.int32).tobytes(), 4 * at)
                    data[0][at : at + 9] = turn
                case 1:
                    given = [(pair[0], 0), np.int32(turn).tobytes()]
                    on.client.launch(on.program, given, [n], [LOCAL], GROW)
                    data[0] = data[0] + np.int32(turn)
                case 2 if turn % 3 == 0:
                    assert on.client.read(pair[0], 4 * n) == data[0].tobytes()
                case kind:
                    kernel, wanted = ((BLEND, blended), (MIRROR, mirrored))[kind % 2]
                    on.step(kernel, *pair, n, turn)
                    data = [wanted(data[0], turn), data[0]]
                    pair.reverse()
        assert [on.client.read(each, 4 * n) for each in pair] == [each.tobytes() for each in data]
        assert on.firm() > 0


@pytest.mark.logs("lost: |failed")
def test_a_member_that_fails_fails_its_commands_and_all_else_goes_on(near: Job) -> None:
    n = 1 << 12
    with rig(near, lost=(2, 60)) as on:
        expected = start(n)
        a, b = on.client.buffer(expected.tobytes()), on.client.buffer(4 * n)
        states = []
        for turn in range(60):
            states.append(on.client.wait(on.step(BLEND, a, b, n, turn)))
            a, b = b, a
        assert states[0] == 0 and any(states), "one of them was lost"
        again = start(n, 5)
        on.client.write(a, again.tobytes())
        for turn in range(8):
            assert on.client.wait(on.step(BLEND, a, b, n, turn)) == 0
            again, a, b = blended(again, turn), b, a
        assert on.client.read(a, 4 * n) == again.tobytes()


@pytest.mark.logs("lost: |failed")
def test_a_process_that_dies_holds_nobody_up() -> None:
    n = 1 << 12
    with local_job(3, host_id(), killed=[2]) as job, rig(job) as on:
        a, b = on.client.buffer(start(n).tobytes()), on.client.buffer(4 * n)
        commands = []
        for turn in range(60):
            commands.append(on.step(BLEND, a, b, n, turn))
            a, b = b, a
            if turn == 30:
                assert on.client.wait(commands[20]) == 0
                os.kill(job.facts[2].pid, signal.SIGKILL)
        states = [on.client.wait(command) for command in commands]
        assert states[0] == 0 and states[-1] != 0
        taken = {*job.exchange.mailboxes._sizes}
        again = start(n, 5)
        on.client.write(a, again.tobytes())
        for turn in range(6):
            assert on.client.wait(on.step(BLEND, a, b, n, turn)) == 0
            again, a, b = blended(again, turn), b, a
        assert on.client.read(a, 4 * n) == again.tobytes()
        assert {*job.exchange.mailboxes._sizes} <= taken, "none is made that will not be used"


def test_what_was_said_to_any_node_is_sent_before_the_own_round_is_issued() -> None:
    """The driver's next call may wait for the round, and that for a node which has no part in it."""
    asked: list[str] = []
    issue = SimpleNamespace(issue=lambda number: asked.append("issue") or Ticket())
    nodes = [SimpleNamespace(flush=partial(asked.append, f"node {rank}")) for rank in (1, 2)]
    copies = FirmCopies({}, cast(RepeatedRound, issue), cast("Sequence[RemoteNode]", nodes))
    assert copies.again(replay_name(3)) is not None
    assert asked == ["node 1", "node 2", "issue"]


def test_copies_of_many_bytes_go_as_before(near: Job) -> None:
    """What is longer than a chunk takes longer than it takes to hear of it."""
    n = 1 << 21
    with rig(near) as on:
        expected = start(n)
        a, b = on.client.buffer(expected.tobytes()), on.client.buffer(4 * n)
        for turn in range(5):
            on.step(MIRROR, a, b, n, turn)
            expected, a, b = mirrored(expected, turn), b, a
        assert on.client.read(a, 4 * n) == expected.tobytes()
        assert on.firm() == 0


def test_buffers_that_come_and_go_leave_no_mailbox_behind(near: Job) -> None:
    n = 1 << 11
    with rig(near) as on:
        most = 0
        for turn in range(12):
            expected = start(n, turn)
            a, b = on.client.buffer(expected.tobytes()), on.client.buffer(4 * n)
            for k in range(6):
                assert on.client.wait(on.step(BLEND, a, b, n, k)) == 0
                expected, a, b = blended(expected, k), b, a
            assert on.client.read(a, 4 * n) == expected.tobytes()
            for buffer in (a, b):
                on.client.send(Op.RELEASE_BUFFER, buffer)
            most = max(most, len(near.exchange.mailboxes._sizes))
        assert on.firm() > 12
        assert most <= 3 * 2 * 6, "six copies of each of two recordings, twice while some are retired"
