"""Queues of the application have streams of their own on members that can give some."""

from __future__ import annotations

import ctypes
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sdi.devices.handles import BoundKernel, DeviceBuffer, HostBytes
from sdi.devices.native import DriverKind, NativeLane, NativeLaunch, NativeMember, NativePart, NativePlace
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3
from sdi.player import face
from sdi.player.face import Player
from sdi.player.load import loaded
from tests.player.soak import TRIALS, build


class Member:
    """A member of which nothing is asked but streams: it can give ``sides``, and has given ``given``."""

    def __init__(self, sides: int = 99) -> None:
        self.sides = sides
        self.given = 0

    def lane(self) -> NativeLane | None:
        return NativeLane(DriverKind.CUDA, 1, 1)

    def side(self) -> NativeLane | None:
        if self.given == self.sides:
            return None
        self.given += 1
        return NativeLane(DriverKind.CUDA, 1, 1 + self.given)

    def launch(
        self, bound: BoundKernel, groups: Int3, local_size: Int3, work_dim: int
    ) -> NativeLaunch | None:
        raise NotImplementedError

    def place(self, buffer: DeviceBuffer, offset: int) -> NativePlace | None:
        raise NotImplementedError

    def host(self, host: HostBytes, is_large: bool = False) -> bool:
        raise NotImplementedError

    def peer(self, source: NativeMember | None) -> bool:
        raise NotImplementedError

    def may_begin(self, bound: BoundKernel, groups: Int3, local_size: Int3) -> bool:
        raise NotImplementedError

    def fetch(self, source: NativeMember, parts: Sequence[NativePart]) -> NativeLaunch | None:
        return None

    def marker(self) -> Ticket:
        raise NotImplementedError

    def launched(self, launch: NativeLaunch, ticket: Ticket) -> None:
        raise NotImplementedError

    def is_idle(self) -> bool:
        raise NotImplementedError


class Players:
    """Makes players of members."""

    def __init__(self) -> None:
        self._ends = [*socket.socketpair(), *socket.socketpair()]
        self._made: list[Player] = []

    def of(self, members: Sequence[Member], *others: object) -> Player:
        """One of ``members``; ``others``: devices of the memory that are no members."""
        memory = cast(Any, SimpleNamespace(devices=[*members, *others]))
        lanes = [lane for member in members if (lane := member.lane()) is not None]
        ends = (self._ends[0].fileno(), self._ends[2].fileno())
        self._made.append(Player(loaded(), ends, 0, memory, members, lanes))
        return self._made[-1]

    def close(self) -> None:
        """And what they need."""
        for player in self._made:
            player.close()
        for end in self._ends:
            end.close()


@pytest.fixture
def players(monkeypatch: pytest.MonkeyPatch) -> Iterator[Players]:
    nothing = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)
    address = ctypes.cast(nothing, ctypes.c_void_p).value
    monkeypatch.setattr(face, "cuda_table", lambda: (ctypes.c_void_p * 32)(*[address] * 32))
    made = Players()
    yield made
    made.close()


def test_a_program_with_one_queue_makes_no_more_streams(players: Players) -> None:
    member = Member()
    player = players.of([member])
    player.queue(1, True)
    player.queue(2, False)
    player.queue(1, False)
    player.queue(3, True)
    assert member.given == 0


@pytest.mark.parametrize(
    ("num_members", "streams"), [(1, 4), (2, 4), (4, 4), (5, 3), (6, 2), (8, 2), (9, 1), (16, 1)]
)
def test_each_queue_has_a_stream_on_each_member_until_there_are_enough(
    players: Players, num_members: int, streams: int
) -> None:
    members = [Member() for _ in range(num_members)]
    player = players.of(members)
    given = []
    for queue in range(1, 8):
        player.queue(queue, True)
        given.append({member.given for member in members})
    assert given == [{min(queue, streams) - 1} for queue in range(1, 8)]


def test_memory_of_all_members_together_needs_no_stream(players: Players) -> None:
    members = [Member(), Member()]
    player = players.of(members, object())
    player.queue(1, True)
    player.queue(2, True)
    assert [member.given for member in members] == [1, 1]


def test_queues_that_come_and_go_use_the_streams_that_there_are(players: Players) -> None:
    member = Member()
    player = players.of([member])
    player.queue(1, True)
    for queue in range(2, 20):
        player.queue(queue, True)
        player.queue(queue, False)
    assert member.given == 1


def test_a_member_that_has_one_stream_is_asked_once(players: Players) -> None:
    members = [Member(), Member(0), Member()]
    player = players.of(members)
    for queue in range(1, 8):
        player.queue(queue, True)
    assert [member.given for member in members] == [1, 0, 0]


class Way(IntEnum):
    """``enum streams_way``."""

    APART, SHARED, ALONE = range(3)


@dataclass(frozen=True, slots=True)
class Expected:
    """What comes of one of ``trials/trials.c``'s scenarios: how it ends, parts of work and of all time."""

    way: Way
    least: float
    """In that way."""
    shared_most: float
    alone_most: float
    tried_most: float
    trials_least: int = 0


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cc") is None:
        pytest.skip("needs cc")
    try:
        return build(tmp_path_factory.mktemp("trials"), False, TRIALS)
    except subprocess.CalledProcessError as failure:
        raise AssertionError(failure.stderr) from failure


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("shared_is_faster", Expected(Way.SHARED, 0.95, 1, 0, 0.06)),
        ("apart_is_faster", Expected(Way.APART, 0.97, 0.03, 0, 0.05)),
        ("shared_takes_twice", Expected(Way.APART, 0.99, 0.01, 0, 0.02)),
        ("apart_takes_twice", Expected(Way.SHARED, 0.99, 1, 0, 0.02)),
        ("shared_is_stuck", Expected(Way.APART, 0.95, 0.05, 0, 0.06)),
        ("one_queue", Expected(Way.APART, 1, 0, 0, 0)),
        ("one_is_seldom_used", Expected(Way.SHARED, 0.9, 1, 0, 0.2)),
        ("turns_of_a_second", Expected(Way.APART, 1, 0, 0, 0.2)),
        ("another_is_faster_later", Expected(Way.APART, 0.2, 0.8, 0, 0.05)),
        ("other_work_in_between", Expected(Way.APART, 0.97, 0.03, 0, 0.05, trials_least=6)),
        ("its_heart_is_replaced", Expected(Way.SHARED, 0.95, 1, 0, 0.06)),
        ("with_pauses", Expected(Way.SHARED, 0.95, 1, 0, 0.06)),
        ("with_long_pauses", Expected(Way.SHARED, 0.95, 1, 0, 0.06, trials_least=3)),
        ("with_pauses_of_seconds", Expected(Way.SHARED, 0.95, 1, 0, 0.06)),
        ("alone_is_fastest", Expected(Way.ALONE, 0.95, 0.03, 1, 0.06)),
        ("alone_is_little_faster", Expected(Way.ALONE, 0.92, 0.03, 1, 0.11)),
        ("alone_is_slower", Expected(Way.APART, 0.95, 0.03, 0.03, 0.06)),
        ("alone_takes_twice", Expected(Way.APART, 0.98, 0.01, 0.01, 0.02)),
        ("alone_is_stuck", Expected(Way.APART, 0.92, 0.04, 0.04, 0.11)),
        ("nothing_is_long", Expected(Way.SHARED, 0.95, 1, 0, 0.06)),
        ("alone_is_fastest_later", Expected(Way.ALONE, 0.22, 0.03, 0.4, 0.05)),
        ("alone_with_long_pauses", Expected(Way.ALONE, 0.92, 0.04, 1, 0.02)),
        ("alone_and_seldom_a_heart", Expected(Way.ALONE, 0.85, 0.08, 1, 0.16)),
        ("alone_where_shared_is_slow", Expected(Way.ALONE, 0.92, 0.05, 1, 0.08)),
        ("alone_where_shared_takes_seconds", Expected(Way.ALONE, 0.9, 0.04, 1, 0.12)),
        ("all_are_alike", Expected(Way.APART, 0.97, 0.01, 0.01, 0.03)),
        ("all_are_alike_and_long", Expected(Way.APART, 0.9, 0.05, 0.05, 0.11)),
        ("it_changes_in_a_survey", Expected(Way.APART, 0.95, 0.04, 0, 0.09)),
    ],
)
def test_queues_use_streams_in_the_fastest_way(trials: Path, scenario: str, expected: Expected) -> None:
    done = subprocess.run([trials, scenario], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    parts = [ns / found["work_ns"] for ns in found["way_ns"]]
    assert found["way"] == expected.way
    assert parts[expected.way] >= expected.least
    assert parts[Way.SHARED] <= expected.shared_most
    assert parts[Way.ALONE] <= expected.alone_most
    assert found["tried_ns"] / found["all_ns"] <= expected.tried_most
    assert found["trials"] >= expected.trials_least


def test_what_comes_now_and_then_decides_nothing(trials: Path) -> None:
    """The application takes 9 ms for something else every 250 turns: a window in four has that in it."""
    ways = set()
    for turn in range(0, 250, 5):
        command = [trials, "alone_with_hiccups", str(turn)]
        ways.add(json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["way"])
    assert ways == {Way.ALONE}
