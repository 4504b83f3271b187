"""Launches that the player does not know are planned while it has others in flight, and are its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sdi.cells import CELL_POSTED
from sdi.launch.launcher import Launcher
from sdi.player.face import Player
from sdi.player.library import IDLE, POSTED
from sdi.service.dispatch import Dispatcher
from sdi.wire.records import Op
from tests.client.test_client_binding import until
from tests.player.test_player import ITEMS, MIX, Loop, posted
from tests.service.conftest import Serve


class Rotating(Loop):
    """Buffers take turns, as the temporary arrays of a program do."""

    def launches(self, count: int) -> Callable[[], None]:
        """So many launches on pairs of other buffers, none of which is waited for."""
        others = [self.client.buffer(np.full(ITEMS, n, np.int32).tobytes()) for n in range(count + 1)]
        for buffer in others:  # they have their places, and what is there is known
            for _ in range(3):
                self.client.launch(self.build, [(buffer, 0), (buffer, 0)], [ITEMS], [16], kernel_index=MIX)
        self.client.finish()
        self.others = others

        def launch() -> None:
            for to, from_ in zip(others[1:], others, strict=False):
                self.client.launch(self.build, [(to, 0), (from_, 0)], [ITEMS], [16], kernel_index=MIX)

        return launch


@pytest.mark.parametrize("members", [1, 2])
def test_new_combinations_of_buffers_are_played_at_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, members: int
) -> None:
    loop = Rotating(serve(members, plays=True))
    loop.settle()
    launch = loop.launches(8)
    issued: list[int] = []
    act = Dispatcher.act

    def acted(self: Dispatcher, number: int, record_id: int, record: bytes, has_more: bool) -> None:
        if number == Op.NDRANGE:
            issued.append(record_id)
        act(self, number, record_id, record, has_more)

    monkeypatch.setattr(Dispatcher, "act", acted)
    assert loop.replayed(launch) == 8 and not issued
    assert loop.repeated(launch) == 8, "they are known from now on"
    found = [np.frombuffer(loop.client.read(buffer, 4 * ITEMS), np.int32) for buffer in loop.others]
    for n, each in enumerate(found):  # x ^ x is 0, and so is what comes of that
        np.testing.assert_array_equal(each, 0, err_msg=str(n))
    loop.check()


def test_what_was_posted_to_python_takes_nothing_over_later(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Rotating(serve(1, plays=True))
    loop.settle()
    player, ended, run = loop.player, list[int](), Player.run

    def ran(self: Player, may_play: bool, plan: Callable[[], None]) -> int:
        ended.append(run(self, may_play, plan))
        return ended[-1]

    monkeypatch.setattr(Player, "run", ran)
    loop.client.buffer(b"acted on by Python")
    until(lambda: ended[-1:] == [IDLE])
    ended.clear()
    player.cells.at[CELL_POSTED] = 1
    step = loop.step()
    until(lambda: loop.client.slot(step)[0] == 0)
    loop.check()
    assert POSTED not in ended


def test_what_is_planned_waits_for_what_is_in_flight(serve: Serve) -> None:
    """A launch on one buffer that was played is not complete yet where one that was planned reads it."""
    loop = Rotating(serve(1, plays=True))
    loop.settle()
    fresh = [loop.client.buffer(np.full(ITEMS, 7 * n, np.int32).tobytes()) for n in range(6)]
    truth = [np.full(ITEMS, 7 * n, np.int32) for n in range(6)]
    for buffer in fresh:
        loop.client.launch(loop.build, [(buffer, 0), (loop.b, 0)], [ITEMS], [16], kernel_index=MIX)
    truth = [each ^ loop.truth[1] for each in truth]
    loop.client.finish()

    def mixed() -> None:
        for n, buffer in enumerate(fresh):
            loop.step(n)
            loop.client.launch(loop.build, [(buffer, 0), (loop.a, 0)], [ITEMS], [16], kernel_index=MIX)
            truth[n] = truth[n] ^ loop.truth[0]

    assert loop.replayed(mixed) > 6
    for buffer, each in zip(fresh, truth, strict=True):
        np.testing.assert_array_equal(np.frombuffer(loop.client.read(buffer, 4 * ITEMS), np.int32), each)
    loop.check()


def test_one_that_can_not_be_planned_is_pythons(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Rotating(serve(1, plays=True))
    loop.settle()
    launch = loop.launches(4)
    monkeypatch.setattr(Launcher, "plan", lambda self, launch: None)
    assert loop.replayed(launch) == 0
    loop.check()


@pytest.mark.parametrize("why", ["room", "poisoned", "place"])
def test_nothing_is_planned_for_which_something_has_to_happen_first(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    loop = Rotating(serve(1, plays=True))
    loop.settle()
    planned: list[int] = []
    plan = Launcher.plan

    def looked(self: Launcher, launch) -> None:  # type: ignore[no-untyped-def]
        before = len(loop.player.recorded())
        plan(self, launch)
        planned.append(len(loop.player.recorded()) - before)

    if why == "room":
        launch = loop.launches(3)
        monkeypatch.setattr(type(loop.player), "has_room", lambda self: False)
        monkeypatch.setattr(type(loop.player), "make_room", lambda self: None)
    elif why == "poisoned":
        launch = loop.launches(3)
        recovery = type(loop.client.session._memory.recovery)
        monkeypatch.setattr(recovery, "are_poisoned", lambda self, buffers: True)
    else:
        values = np.zeros(ITEMS, np.int32).tobytes()
        new = [loop.client.buffer(values) for _ in range(3)]
        posted(loop, lambda: None)

        def launch() -> None:
            for buffer in new:  # which have no places yet
                arguments = [(buffer, 0), (loop.a, 0)]
                loop.client.launch(loop.build, arguments, [ITEMS], [16], kernel_index=MIX)

    monkeypatch.setattr(Launcher, "plan", looked)
    assert loop.replayed(launch) == 0
    assert planned and not any(planned)
    monkeypatch.undo()
    loop.check()


def test_a_buffer_that_is_released_is_known_from_then_on(serve: Serve) -> None:
    """Nothing that is in flight is taken over for it."""
    loop = Rotating(serve(1, plays=True))
    loop.settle()
    client = loop.client
    other = client.buffer(np.zeros(ITEMS, np.int32).tobytes())
    posted(loop, lambda: None)
    before = loop.player.records().get("RECYCLE_BUFFER", {})
    loop.step()
    status = client.recycle(other)
    client.finish()
    assert loop.player.records()["RECYCLE_BUFFER"].get("played", 0) == before.get("played", 0) + 1
    assert status() == 0
    loop.check()


def test_the_first_launch_that_is_wider_than_all_before_is_issued_by_python(serve: Serve) -> None:
    """PoCL may not be given it beside others: ``devices/opencl/pocl_order.py``."""
    loop = Rotating(serve(1, plays=True))
    loop.settle()
    wide = [loop.client.buffer(np.full(3 * ITEMS, n, np.int32).tobytes()) for n in range(5)]

    def launch(to: int, from_: int, count: int) -> None:
        arguments = [(wide[to], 0), (wide[from_], 0)]
        loop.client.launch(loop.build, arguments, [count * ITEMS], [16], kernel_index=MIX)

    for n in range(5):
        launch(n, n, 1)  # has a place then
        launch(n, n, 1)
    loop.client.finish()
    assert loop.replayed(lambda: launch(0, 1, 3)) == 0
    assert loop.replayed(lambda: launch(0, 1, 3)) == 1, "it is like any other now"
    assert loop.replayed(lambda: launch(2, 1, 3)) == 1
    assert loop.replayed(lambda: launch(3, 4, 2)) == 1
