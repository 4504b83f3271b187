"""A member that computes in the arena: what the application writes there is what kernels read."""

from __future__ import annotations

import numpy as np
import pytest

from sdi.wire.records import Op
from tests.player.test_player import ITEMS, Loop
from tests.runtime.test_small import put_rows, read_rows
from tests.service.conftest import Serve

IMAGES = [(1, "always"), (2, "auto"), (3, "auto")]


def image(serve: Serve, members: int, split: str) -> Loop:
    loop = Loop(serve(members, split, plays=True, has_limits=False))
    devices = loop.client.session._memory.devices
    if not all(device.capabilities.maps_host for device in devices):
        pytest.skip("these members have memory of their own")
    assert loop.client.session._memory.buffer(loop.a).together == 0b11
    return loop


def moved(loop: Loop) -> int:
    loop.client.finish()
    moved = loop.client.session._memory.moved
    return moved.host_to_member + moved.member_to_host + moved.member_to_member


@pytest.mark.parametrize(("members", "split"), IMAGES)
def test_loops_are_replayed_and_nothing_is_copied(serve: Serve, members: int, split: str) -> None:
    loop = image(serve, members, split)
    values = np.arange(50, dtype=np.int32)

    def once(number: int) -> None:
        loop.step(number)
        loop.put(values + number, first=number % 7)
        loop.mix()
        loop.fill(number)
        put_rows(loop, number % 10, 5, 100 * number)
        loop.step(3)
        read_rows(loop, number % 10, 5)
        loop.client.command(Op.COPY, source=loop.a, target=loop.b, region=[64, 1, 1])
        loop.truth[1] = loop.truth[1].copy()
        loop.truth[1][:16] = loop.truth[0][:16]

    for number in range(6):
        once(number)
        loop.check()
    loop.until_replayed(once, 8)
    assert loop.replayed(lambda: [once(number) for number in range(30)]) > 120, "of 240: Python may be busy"
    loop.check()
    assert moved(loop) == 0
    kernels = [loop.client.session.counters.kernel(name) for name in ("advance", "blend")]
    assert all(kernel.launches_split == 0 for kernel in kernels)


@pytest.mark.parametrize(("members", "split"), IMAGES)
def test_writes_wait_for_launches_that_read_and_reads_for_those_that_write(
    serve: Serve, members: int, split: str
) -> None:
    """Without a wait between: nobody has a copy of what was there before."""
    loop = image(serve, members, split)
    loop.settle()
    values = np.arange(ITEMS, dtype=np.int32)
    for stages in (False, True):
        loop.stages = stages
        for number in range(40):
            with loop.client.at_once():
                for _ in range(4):
                    loop.mix()
                loop.put(values * number, first=0)
                loop.mix()
                loop.step(number)
            if number % 8 == 0:
                loop.check()
    loop.check()
    assert moved(loop) == 0


@pytest.mark.parametrize("members", [1, 2])
def test_two_queues_write_and_read_the_same_bytes_in_the_order_of_their_events(
    serve: Serve, members: int
) -> None:
    loop = image(serve, members, "always" if members == 1 else "auto")
    loop.settle()
    other = loop.client.new_queue()
    last: list[int] = []
    for number in range(60):
        with loop.client.at_once():
            last = [loop.step(number, queue=other, waits=last)]
            loop.client.command(Op.MARKER, waits=last)
            last = [loop.put(np.arange(16, dtype=np.int32) + number, first=number)]
    assert loop.client.wait(last[0]) == 0
    loop.check()


def test_a_buffer_that_is_used_again_is_where_it_was(serve: Serve) -> None:
    loop = image(serve, 1, "always")
    loop.settle()
    client = loop.client
    for number in range(20):
        made = client.buffer(np.full(ITEMS, number, np.int32).tobytes())
        client.launch(loop.build, [(loop.b, 0), (made, 0)], [ITEMS], [16], kernel_index=1)
        loop.truth[1] = loop.truth[1] ^ np.int32(number)
        client.send(Op.RELEASE_BUFFER, made)
    loop.check()
