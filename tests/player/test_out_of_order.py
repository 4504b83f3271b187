"""Out-of-order queues: what is known of them is played in order, what waits for the application is not."""

from __future__ import annotations

import pytest

from sdi.wire.records import Op
from tests.player.test_player import Loop
from tests.service.conftest import Serve

UNORDERED = 1


def queue_of(loop: Loop, **more: int) -> int:
    made = loop.client.new_id()
    loop.client.send(Op.CREATE_QUEUE, made, properties=UNORDERED, **more)
    return made


@pytest.mark.parametrize("members", [1, 2, 3])
def test_launches_of_one_are_replayed_with_the_same_bytes(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    queue = queue_of(loop)

    def once(number: int) -> None:
        first = loop.step(number, queue=queue)
        loop.step(number + 1, queue=queue, waits=[first])
        assert loop.client.wait(loop.client.command(Op.MARKER, queue=queue)) == 0

    loop.until_replayed(once, 2)
    assert loop.replayed(lambda: [once(number) for number in range(30)]) > 50
    loop.check()


def test_what_waits_for_the_application_holds_up_nothing_behind_it(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    queue, client = queue_of(loop), loop.client
    loop.until_replayed(lambda number: loop.step(number, queue=queue), 1)
    for _ in range(3):
        gate = client.new_id()
        client.send(Op.CREATE_USER_EVENT, gate, slot=0)
        held = client.command(Op.MARKER, queue=queue, waits=[gate])
        assert client.wait(loop.step(7, queue=queue)) == 0, "although one before it waits"
        assert client.slot(held)[0] > 0
        client.send(Op.SET_USER_EVENT, gate, status=0)
        assert client.wait(held) == 0
        client.send(Op.RELEASE_EVENT, gate)
    loop.until_replayed(lambda number: loop.step(number, queue=queue), 1)
    loop.check()


def test_a_marker_is_behind_all_that_came_before_it(serve: Serve) -> None:
    loop = Loop(serve(2, plays=True))
    queue, client = queue_of(loop), loop.client
    loop.until_replayed(lambda number: loop.step(number, queue=queue), 1)
    for number in range(20):
        launched = [loop.step(number, queue=queue) for _ in range(3)]
        assert client.wait(client.command(Op.MARKER, queue=queue)) == 0
        assert all(client.slot(each)[0] == 0 for each in launched)
    loop.check()


def test_what_the_client_needs_while_other_reads_are_awaited_is_pythons(serve: Serve) -> None:
    loop = Loop(serve(1, plays=True))
    queue = queue_of(loop, unasked=1)
    for number in range(10):
        assert loop.replayed(lambda: loop.step(number, queue=queue)) == 0  # noqa: B023
    loop.check()
