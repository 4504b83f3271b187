"""Out-of-order queues: what is known of them is played in order, what waits for the application is not."""

from __future__ import annotations

import pytest

from sdi.wire.records import Op
from tests.player.test_player import ITEMS, Loop, over
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


@pytest.mark.parametrize("members", [1, 2, 3])
def test_what_the_client_shows_is_played(serve: Serve, members: int) -> None:
    """Each buffer in a queue of its own: all are ready before any is copied."""
    loop = Loop(serve(members, plays=True))
    client, buffers = loop.client, (loop.a, loop.b)
    queues = [queue_of(loop, unasked=2) for _ in buffers]
    whole = {"region": [4 * ITEMS, 1, 1], "blocking": 1, "unasked": 1}

    def once(number: int) -> None:
        loop.step(number)
        loop.mix()
        both = zip(queues, buffers, strict=True)
        reads = [client.command(Op.READ, queue=queue, buffer=buffer, **whole) for queue, buffer in both]
        for read, buffer, truth in zip(reads, buffers, loop.truth, strict=True):
            over(lambda: client.slot(read)[1] != 4 * ITEMS)  # noqa: B023
            at = client.offsets[buffer]
            assert client.arena[at : at + 4 * ITEMS] == truth.tobytes()
        for read in reads:
            client.send(Op.TRANSFER_DONE, read)
            client.send(Op.RELEASE_EVENT, read)
            assert over(lambda: client.slot(read)[0]) == 0  # noqa: B023

    loop.until_replayed(once, 4)
    assert loop.replayed(lambda: [once(number) for number in range(30)]) == 4 * 30
    assert len(loop.player._queues) == 1, "they take no stream"
    loop.check()
