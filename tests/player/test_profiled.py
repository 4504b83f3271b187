"""Profiles of sessions whose known commands are replayed: they tell of these as of all others."""

from __future__ import annotations

import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sdi.profile.analyse.model import HOST, Profile, SessionProfile
from sdi.profile.analyse.stream import read_session
from sdi.profile.analyse.tables import make_tables
from sdi.wire.records import Op
from tests.player.test_player import ITEMS, Loop
from tests.service.conftest import Serve
from tests.service.wire_client import QUEUE, WireClient


def session_in(folder: Path) -> SessionProfile:
    session = read_session(folder / f"service-{os.getpid()}.jsonl")
    assert session is not None
    return session


def ended(client: WireClient, folder: Path) -> SessionProfile:
    """The session's profile after its end."""
    client.close()
    return session_in(folder)


def check(session: SessionProfile, sent: list[int], members: int) -> None:
    """Each command is in the profile once, with all its launches' groups, and times that rise."""
    assert Counter(command.id for command in session.commands) == Counter(sent)
    shapes = {shape.id: shape for shape in session.shapes}
    ends = {command.id: command.end_ns for command in session.commands}
    groups: Counter[int] = Counter()
    first_ns = {}
    for assignment in session.assignments:
        groups[assignment.command] += assignment.groups
        assert 0 < assignment.start_ns <= assignment.end_ns <= ends[assignment.command]
        first_ns[assignment.command] = min(
            first_ns.get(assignment.command, assignment.start_ns), assignment.start_ns
        )
    assert len({launch.command for launch in session.launches}) == len(session.launches)
    for launch in session.launches:
        assert groups[launch.command] == np.prod(shapes[launch.shape].num_groups)
        assert launch.begin_ns <= launch.bound_ns <= launch.issued_ns
        assert launch.begin_ns <= first_ns[launch.command]
    launches = {command.id for command in session.commands if command.kind == "launch"}
    assert launches == {launch.command for launch in session.launches} == set(groups)
    assert len(session.assignments) == members * len(launches)
    for command in session.commands:
        times = (command.queued_ns, command.submitted_ns, command.start_ns, command.end_ns)
        assert list(times) == sorted(times) and times[0] > 0 and command.status == 0
    for span in (*session.copies, *session.works):
        assert 0 < span.start_ns <= span.end_ns
    turns = sorted((turn.start_ns, turn.end_ns) for turn in session.turns)
    assert all(start <= end for start, end in turns)
    assert all(before[1] <= after[0] for before, after in pairwise(turns))


def replays(session: SessionProfile) -> int:
    return sum(launch.known == "replay" for launch in session.launches)


@pytest.mark.parametrize("members", [1, 2, 3])
def test_replayed_commands_are_in_the_profile_once_each(serve: Serve, tmp_path: Path, members: int) -> None:
    client = serve(members, plays=True, profile=tmp_path)
    sent = sent_by(client)
    loop = Loop(client)
    loop.settle()

    def once(number: int) -> None:
        loop.step(number)
        loop.put(np.arange(number % 7 + 1, dtype=np.int32))
        loop.step(number)
        loop.mix()

    loop.until_replayed(once, 4)
    # Where the machine is busy Python may take over in between.
    assert any(loop.replayed(lambda: [once(number) for number in range(100)]) > 300 for _ in range(20))
    loop.check()
    session = ended(client, tmp_path)
    check(session, sent, members)
    assert replays(session) > 200
    names = [launch.kernel for launch in session.launches]
    assert names.count("advance") > 200 and names.count("blend") > 100
    writes = Counter(command.nbytes for command in session.commands if command.kind == "write")
    assert set(writes) == {4 * count for count in range(1, 8)}
    replayed = {launch.command for launch in session.launches if launch.known == "replay"}
    brought = [copy for copy in session.copies if copy.command in replayed]
    assert brought and all(copy.source == HOST and copy.cause == "advance: a" for copy in brought)
    (advance, _) = make_tables(Profile((session,))).kernels
    assert advance.replays + advance.bindings + advance.plans + advance.new_plans == advance.launches
    of_members = [0] * members
    for assignment in session.assignments:
        if names[0] == "advance" and assignment.command in {
            launch.command for launch in session.launches if launch.kernel == "advance"
        }:
            of_members[assignment.member] += assignment.end_ns - assignment.start_ns
    assert list(advance.member_ns) == of_members


def sent_by(client: WireClient) -> list[int]:
    """The commands that it sends from now on."""
    found: list[int] = []
    command = client.command

    def counted(*arguments: object, **more: object) -> int:
        found.append(command(*arguments, **more))  # type: ignore[arg-type]
        return found[-1]

    client.command = counted  # type: ignore[method-assign]
    return found


def test_commands_that_python_takes_over_are_in_the_profile_once_each(serve: Serve, tmp_path: Path) -> None:
    client = serve(2, plays=True, profile=tmp_path)
    sent = sent_by(client)
    loop = Loop(client)
    loop.settle()

    def many() -> None:
        with client.at_once():
            for number in range(60):
                for _ in range(5):
                    loop.step(number)
                # Python's, as it was never seen: what is in flight changes hands.
                loop.fill(number, first=number, count=number + 1)
                loop.mix()

    assert loop.replayed(many) > 0
    sizes = {}
    for number in range(100):  # writes behind launches of another buffer, of which some change hands
        values = np.arange(1 + number % 7, dtype=np.int32)
        loop.truth[1] = loop.truth[1].copy()
        loop.truth[1][: len(values)] = values
        with client.at_once():
            for _ in range(5):
                loop.step(number)
            sizes[client.put(loop.b, values.tobytes())] = values.nbytes
            if number % 3 == 2:
                loop.fill(-number, first=number, count=number + 2)
        client.finish()
    for number in range(20):  # reads that the client copies while launches are behind them
        with client.at_once():
            loop.step(number)
            read = client.command(Op.READ, buffer=loop.a, region=[4 * ITEMS, 1, 1])
            loop.mix()
            other = client.command(Op.FILL, b"abcd", buffer=loop.b, pattern_nbytes=4, region=[4, 1, 1])
            loop.truth[1] = loop.truth[1].copy()
            loop.truth[1][0] = int.from_bytes(b"abcd", "little")
        while client.notice()[1] != read:
            pass
        client.send(Op.TRANSFER_DONE, read, status=0)
        assert client.wait(other) == 0
    loop.check()
    client.finish()
    session = ended(client, tmp_path)
    check(session, sent, 2)
    assert {each.id: each.nbytes for each in session.commands if each.kind == "write"} == sizes
    assert 0 < replays(session) < len(session.launches)


def test_a_profile_that_is_long_loses_nothing(serve: Serve, tmp_path: Path) -> None:
    client = serve(1, plays=True, profile=tmp_path)
    sent = sent_by(client)
    loop = Loop(client)
    loop.settle()

    def many() -> None:
        with client.at_once():
            for number in range(1500):
                loop.step(number)
                loop.mix()

    assert loop.replayed(many) > 1000
    loop.check()
    session = ended(client, tmp_path)
    check(session, sent, 1)
    assert replays(session) > 1000 and {command.queue for command in session.commands} == {QUEUE}


def test_what_was_replayed_is_written_while_the_session_goes_on(serve: Serve, tmp_path: Path) -> None:
    loop = Loop(serve(1, plays=True, profile=tmp_path))
    loop.settle()
    before = loop.player.replayed()
    for _ in range(2000):
        loop.step()
        loop.client.finish()
        if replays(session_in(tmp_path)) > 10:
            break
    assert replays(session_in(tmp_path)) > 10 and loop.player.replayed() > before
    assert not session_in(tmp_path).is_complete
