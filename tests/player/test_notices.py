"""Commands that the application watches: it is told that they are complete, by whoever executes them."""

from __future__ import annotations

import numpy as np
import pytest

from sdi.cells import CELL_PYTHON_EVENTS
from sdi.wire.records import NoticeKind, Op
from tests.player.test_player import Loop
from tests.service.conftest import Serve


def told(loop: Loop, command: int) -> None:
    """The next notice is that it is complete, and the page says so by then."""
    assert loop.client.notice() == (NoticeKind.EVENT_STATUS, command, 0)
    assert loop.client.slot(command)[0] == 0


@pytest.mark.parametrize("members", [1, 2, 3])
def test_what_is_watched_is_replayed_and_told_of(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    client = loop.client

    def once(number: int) -> None:
        with client.at_once():
            command = loop.step(number)
            client.send(Op.WATCH, command, status=0)
            loop.mix()
        told(loop, command)
        client.send(Op.WATCH, command, status=0)  # Python has events yet, and this may be one of them
        told(loop, command)
        client.send(Op.RELEASE_EVENT, command)

    loop.until_replayed(once, 2)
    before = loop.player.records()["WATCH"]
    assert loop.replayed(lambda: [once(number) for number in range(30)]) > 40, "Python may still be busy"
    after = loop.player.records()["WATCH"]
    assert after["played"] > before["played"] + 20
    loop.check()


@pytest.mark.parametrize("members", [1, 2])
def test_what_python_takes_over_is_told_of_too(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    loop.settle()
    client = loop.client
    for number in range(20):
        with client.at_once():
            commands = [loop.step(number) for _ in range(4)]
            for command in commands:
                client.send(Op.WATCH, command, status=0)
            loop.mix()
            unknown = client.new_queue()  # which is Python's
        for command in commands:
            told(loop, command)
            client.send(Op.RELEASE_EVENT, command)
        client.send(Op.RELEASE_QUEUE, unknown)
    loop.check()


def test_a_read_that_is_watched_is_told_of_when_the_client_has_copied(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    loop.settle()
    client = loop.client

    def once(_: int) -> None:
        command = client.command(Op.READ, buffer=loop.a, region=[64, 1, 1])
        client.send(Op.WATCH, command, status=0)
        assert client.notice()[:2] == (NoticeKind.TRANSFER_READY, command)
        here = client.offsets[loop.a]
        found = np.frombuffer(client.arena[here : here + 64], np.int32)
        np.testing.assert_array_equal(found, loop.truth[0][:16])
        assert client.slot(command)[0] > 0
        client.send(Op.TRANSFER_DONE, command, status=0)
        told(loop, command)

    loop.until_replayed(once, 1)
    assert loop.replayed(lambda: [once(number) for number in range(20)]) == 20


def test_what_python_knows_is_told_of_by_python(serve: Serve) -> None:
    """Of an event that the player does not know it can't say that it is complete."""
    loop = Loop(serve(1, plays=True))
    loop.settle()
    client = loop.client
    gate = client.new_id()
    client.send(Op.CREATE_USER_EVENT, gate, slot=0)
    held = client.command(Op.MARKER, waits=[gate])
    client.send(Op.WATCH, held, status=0)
    other = client.new_queue()
    assert client.wait(client.command(Op.MARKER, queue=other)) == 0
    assert client.slot(held)[0] > 0, "it is not told of before it is complete"
    client.send(Op.SET_USER_EVENT, gate, status=0)
    told(loop, held)
    assert loop.player.cells.at[CELL_PYTHON_EVENTS] > 0
