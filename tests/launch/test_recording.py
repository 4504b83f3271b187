"""Launches that are issued again just as before: when that is done, and what puts an end to it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from sdi.commands import Launch
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.issue import TOGETHER, Issue
from sdi.devices.ticket import Ticket
from sdi.errors import Status
from sdi.explain.notes import KernelNote
from sdi.launch.issue import Issuer
from sdi.launch.launcher import KNOWN_MAX, Launcher
from sdi.launch.steps import Steps
from sdi.partition.balance import Balance as Shares
from sdi.partition.balance import ShareEpoch
from sdi.settings import Balance
from sdi.wire.records import Op
from tests.devices.testing.hooks import hooks
from tests.runtime.test_waiting import Gated
from tests.service.wire_client import WireClient

SOURCE = """
kernel void blur(global const int *from, global int *to, int n) {
    int i = get_global_id(0);
    to[i] = from[i] + 2 * from[i > 0 ? i - 1 : n - 1] + 3 * from[i < n - 1 ? i + 1 : 0];
}
kernel void grow(global int *p) { p[get_global_id(0)] += 7; }
kernel void add(global int *p, int by) { p[get_global_id(0)] += by; }
"""
BLUR, GROW, ADD = range(3)
COUNT, LOCAL = 3072, 64
NBYTES = 4 * COUNT


class Application:
    """Launches in one queue, what its buffers hold after them, and the ordinary issues that these took."""

    def __init__(self, client: WireClient, issues: list[Launch]) -> None:
        self.client, self.issues = client, issues
        self.build, status, _ = client.build(SOURCE)
        assert status == 0
        self.truth: dict[int, np.ndarray] = {}

    def buffer(self) -> int:
        data = np.arange(COUNT, dtype=np.int32) * (len(self.truth) + 1)
        buffer = self.client.buffer(data.tobytes())
        self.truth[buffer] = data
        return buffer

    def blur(self, from_: int, to: int) -> int:
        a = self.truth[from_]
        self.truth[to] = a + 2 * np.roll(a, 1) + 3 * np.roll(a, -1)
        arguments = [(from_, 0), (to, 0), np.int32(COUNT).tobytes()]
        return self.client.launch(self.build, arguments, [COUNT], [LOCAL], BLUR)

    def grow(self, buffer: int, **more: int | list[int]) -> int:
        self.truth[buffer] = self.truth[buffer] + 7
        return self.client.launch(self.build, [(buffer, 0)], [COUNT], [LOCAL], GROW, **more)

    def add(self, buffer: int, by: int) -> int:
        self.truth[buffer] = self.truth[buffer] + by
        arguments = [(buffer, 0), np.int32(by).tobytes()]
        return self.client.launch(self.build, arguments, [COUNT], [LOCAL], ADD)

    def ordinary(self) -> int:
        """Launches since the last call that were not issued just as before."""
        self.client.finish()
        found = len(self.issues)
        self.issues.clear()
        return found

    def check(self) -> None:
        for buffer, expected in self.truth.items():
            assert self.client.read(buffer, NBYTES) == expected.astype(np.int32).tobytes()


@pytest.fixture(params=[1, 3], ids=["one-member", "three-members"])
def app(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Application]:
    with serve(MemberSettings(count=request.param), monkeypatch) as made:
        yield made


@contextmanager
def serve(
    settings: MemberSettings, monkeypatch: pytest.MonkeyPatch, balance: Balance = ("off", 0)
) -> Iterator[Application]:
    issues: list[Launch] = []
    issue = Launcher.issue

    def noted(self: Launcher, launch: Launch, why: Issue) -> Steps[object]:
        issues.append(launch)
        return issue(self, launch, why)

    monkeypatch.setattr(Launcher, "issue", noted)
    with ExitStack() as stack:
        client = stack.enter_context(
            WireClient([Gated(device) for device in open_members(settings)], balance=balance)
        )
        yield Application(client, issues)


def test_launches_that_come_back_to_the_same_states_are_issued_as_before(app: Application) -> None:
    a, b = app.buffer(), app.buffer()
    for _ in range(40):  # ping-pong, and in place
        app.blur(a, b)
        app.blur(b, a)
        app.grow(a)
    # Each record is new once, then known; its states are found twice before they are known too.
    assert app.ordinary() <= 3 * 5
    kernels = app.client.session.counters
    for name, launches in (("blur", 80), ("grow", 40)):
        counted = kernels.kernel(name)
        assert counted.launches_split + counted.launches_whole == launches
        assert sum(counted.groups_per_member) == launches * COUNT // LOCAL
    app.check()


def test_what_the_host_wrote_meanwhile_is_seen(app: Application) -> None:
    a, b = app.buffer(), app.buffer()
    for turn in range(12):
        app.blur(a, b)
        app.blur(a, b)
        if turn % 3 == 2:
            piece = np.full(100, turn, np.int32)
            app.client.write(a, piece.tobytes(), 4 * 1000)
            app.truth[a] = app.truth[a].copy()
            app.truth[a][1000:1100] = piece
    assert app.ordinary() < 24
    app.check()


def test_a_place_that_was_taken_meanwhile_is_given_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(MemberSettings(count=2, memory_nbytes=5 * NBYTES), monkeypatch) as app:
        buffers = [app.buffer() for _ in range(12)]
        for _ in range(3):
            for first, second in zip(buffers[::2], buffers[1::2], strict=True):
                for _ in range(6):
                    app.blur(first, second)
                    app.blur(second, first)
        assert app.ordinary() < 3 * 6 * 12
        app.check()


def test_places_that_are_new_for_one_scalar_are_new_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(MemberSettings(count=2, memory_nbytes=5 * NBYTES), monkeypatch) as app:
        buffers = [app.buffer() for _ in range(12)]
        shuffle = random.Random(3)
        for _ in range(6):
            for buffer in shuffle.sample(buffers, 12):  # others get the places of the last round
                for by in (1, 1, 1, 2, 2, 2, 1, 2):
                    app.add(buffer, by)
        assert app.ordinary() < 6 * 8 * 12
        app.check()


def test_launches_in_order_wait_for_those_before_them_on_every_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serve(MemberSettings(count=3), monkeypatch) as app:
        a, b = app.buffer(), app.buffer()
        for _ in range(8):
            app.blur(a, b)
            app.blur(b, a)
        app.ordinary()
        late, gates = app.client.session._devices[1], [Ticket() for _ in range(4)]
        assert isinstance(late, Gated)
        late.gates.extend(gates)
        commands = [app.blur(a, b), app.blur(b, a), app.blur(a, b), app.blur(b, a)]
        third = app.client.new_id()
        app.client.send(Op.CREATE_QUEUE, third, properties=0)
        assert app.client.wait(app.client.command(Op.MARKER, queue=third)) == 0  # all are issued
        assert not app.issues, "as before"
        for command, gate in zip(commands, gates, strict=True):
            assert app.client.slot(command)[0] > 0
            gate.complete()
            assert app.client.wait(command) == 0
        app.check()


def test_what_is_released_is_not_used_again(app: Application) -> None:
    a, b = app.buffer(), app.buffer()
    for _ in range(6):
        app.blur(a, b)
    app.ordinary()
    app.client.send(Op.RELEASE_BUFFER, b)
    del app.truth[b]
    truth = app.truth.copy()
    assert app.client.wait(app.blur(a, b)) < 0  # no client sends that
    app.truth = truth
    for _ in range(6):
        app.grow(a)
    assert app.ordinary() > 0
    app.check()
    for _ in range(6):
        app.grow(a)
    assert app.ordinary() < 6
    app.client.send(Op.RELEASE_BUILD, app.build)
    assert app.client.wait(app.grow(a)) == Status.INVALID_PROGRAM_EXECUTABLE


@pytest.mark.logs("the command stream is damaged")
def test_a_known_launch_is_looked_at_anew_once_there_are_other_buffers(app: Application) -> None:
    client, a = app.client, app.buffer()

    def launch() -> None:
        client.launch(app.build, [(a, 16)], [COUNT - LOCAL], [LOCAL], GROW)

    for _ in range(6):
        launch()
    assert app.ordinary() < 6
    held = client.new_id()
    client.send(Op.CREATE_USER_EVENT, held, slot=0)
    client.command(Op.MARKER, waits=[held])
    client.send(Op.RELEASE_BUFFER, a)  # which is put off: the marker is not issued
    client.send(Op.CREATE_BUFFER, a, flags=1, buffer_nbytes=4)
    assert client.reply()[0] == 0
    with client.at_once():
        launch()
        client.send(Op.CREATE_BUFFER, client.new_id(), flags=1, buffer_nbytes=4)
    assert client.commands.recv(1) == b"", "a launch past the end of its new buffer was let in"


@pytest.mark.parametrize("fact", ["version", "routine", "epoch"])
def test_a_launch_that_is_cut_anew_or_measured_is_not_issued_as_before(
    fact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(MemberSettings(count=3), monkeypatch, ("auto", 0)) as app:
        a = app.buffer()
        for _ in range(20):
            app.client.wait(app.grow(a))
        assert app.ordinary() < 20
        app.grow(a)
        assert app.ordinary() == 0
        (binding,) = app.client.session._launcher.known.values.values()
        history, epoch = binding.launch_plan.history, binding.launch_plan.epoch
        assert epoch is not None
        match fact:
            case "version":
                history.version += 1
            case "routine":
                history.home_at = 1  # it is to run elsewhere
            case "epoch":
                epoch.is_current = False
        app.grow(a)
        assert app.ordinary() == 1
        app.check()


def test_launches_that_are_explained_are_all_looked_at(app: Application) -> None:
    a = app.buffer()
    app.client.session._launcher._builds[app.build].kernels[GROW].note = lambda: KernelNote(
        "grow", 1, "", "", ()
    )
    for _ in range(6):
        app.grow(a)
    assert app.ordinary() == 6
    app.check()


def test_launches_that_wait_for_events_are_the_same_launches(app: Application) -> None:
    a = app.buffer()
    before = app.grow(a)
    for _ in range(20):
        before = app.grow(a, waits=[before])
    assert app.ordinary() <= 3
    app.check()


def test_launches_with_a_new_scalar_are_issued_as_others_and_the_oldest_forgotten(app: Application) -> None:
    client, a = app.client, app.buffer()
    planned = 0
    plan = Issuer._plan

    def noted(self: Issuer, *more: object) -> object:
        nonlocal planned
        planned += 1
        return plan(self, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Issuer, "_plan", noted)
        for _ in range(2):
            for value in range(300):
                app.add(a, value)
        client.finish()
    assert planned <= 4
    assert len(client.session._launcher.known.values) <= KNOWN_MAX < 300
    app.check()


def test_of_brief_launches_that_came_together_members_are_told_all_but_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[bool] = []
    launch = Gated.launch

    def noted(self: Gated, *more: object) -> Ticket:
        told.append(more[-1] is TOGETHER)
        return launch(self, *more)

    monkeypatch.setattr(Gated, "launch", noted)
    monkeypatch.setattr(Shares, "record", lambda *_: None)  # nothing is learnt from these
    monkeypatch.setattr(ShareEpoch, "is_brief", False)
    with serve(MemberSettings(count=3), monkeypatch, ("auto", 0)) as app:
        a = app.buffer()
        for _ in range(20):
            app.client.wait(app.grow(a))
        assert not any(told) and app.ordinary() < 20

        def burst() -> list[bool]:
            told.clear()
            with app.client.at_once():
                commands = [app.grow(a) for _ in range(4)]
            while app.client.slot(commands[-1])[0] > 0:  # nothing else is sent meanwhile
                pass
            assert app.ordinary() == 0
            return list(told)

        assert burst() == [False] * 12, "they take longer"
        monkeypatch.setattr(ShareEpoch, "is_brief", True)
        assert burst() == [True] * 9 + [False] * 3
        app.client.wait(app.grow(a))
        assert told[-3:] == [False] * 3
        app.check()


def test_times_are_known_where_the_application_may_ask(app: Application) -> None:
    a, client = app.buffer(), app.client
    queue = client.new_id()
    client.send(Op.CREATE_QUEUE, queue, properties=1 << 1)
    commands = []
    for turn in range(20):
        commands.append(app.grow(a, queue=queue) if turn % 2 else app.grow(a))
        assert client.wait(commands[-1]) == 0
    assert app.ordinary() < 6
    last = 0
    for command in commands:
        _, _, _, submitted, started, ended = client.slot(command)
        assert last <= submitted <= started <= ended
        last = ended
    app.check()


@pytest.mark.logs("lost: |a test asked for it|can't read|failed")
@pytest.mark.parametrize("lasts", range(20, 140, 7))
def test_a_member_that_is_lost_in_between_has_no_part_in_what_follows(
    lasts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(MemberSettings(count=3, testing=hooks(lost=(1, lasts))), monkeypatch) as app:
        client, start = app.client, np.arange(COUNT, dtype=np.int32)
        a, b = app.buffer(), app.buffer()
        failed = 0
        for turn in range(25):
            commands = [app.blur(a, b), app.blur(b, a), app.grow(a)]
            if turn % 5 == 4:
                failed += sum(client.wait(command) < 0 for command in commands)
                assert client.wait(client.write(a, start.tobytes())) == 0
                app.truth[a] = start
        memory = client.session._memory
        assert not failed or memory.members == [0, 2]
        for buffer in (a, b):
            assert client.wait(client.write(buffer, start.tobytes())) == 0
            app.truth[buffer] = start
        while any(client.wait(c) < 0 for c in [app.blur(a, b), app.blur(b, a), app.grow(a)]):
            assert 1 not in memory.members, "what failed was the loss, and it was noticed"
            assert client.wait(client.write(a, start.tobytes())) == 0
            app.truth[a] = start
        app.check()
