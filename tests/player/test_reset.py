"""A buffer that is set back in each step: members copy what only the host has, once they have it too."""

from __future__ import annotations

import numpy as np
import pytest

from sdi.wire.records import Op
from tests.player.test_player import ITEMS, Loop
from tests.service.conftest import Serve

NBYTES = 4 * ITEMS


@pytest.mark.parametrize("members", [1, 2, 3])
def test_what_only_the_host_has_is_copied_where_the_target_is(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    client, memory = loop.client, loop.client.session._memory
    first = np.arange(5, ITEMS + 5, dtype=np.int32)
    kept = client.buffer(first.tobytes())

    def once(number: int) -> None:
        client.command(Op.COPY, source=kept, target=loop.a, region=[NBYTES, 1, 1])
        loop.truth[0] = first
        loop.step(number)
        client.finish()

    loop.until_replayed(once, 2)
    before = memory.moved.host_to_member
    assert loop.replayed(lambda: [once(number) for number in range(20)]) == 40
    assert memory.moved.host_to_member == before
    loop.check()
    assert client.read(kept, NBYTES) == first.tobytes()


@pytest.mark.parametrize("members", [1, 2])
def test_what_the_host_writes_there_is_what_is_copied_next(serve: Serve, members: int) -> None:
    loop = Loop(serve(members, plays=True))
    client = loop.client
    kept = client.buffer(bytes(NBYTES))
    expected = np.zeros(ITEMS, np.int32)
    loop.settle()
    for number in range(30):
        at = number * 7 % (ITEMS - 2)
        expected = expected.copy()
        expected[at : at + 2] = number, number + 1
        client.put(kept, expected[at : at + 2].tobytes(), offset=4 * at)
        half = NBYTES // 2 if number % 3 == 0 else NBYTES
        client.command(Op.COPY, source=kept, target=loop.a, region=[half, 1, 1])
        loop.truth[0] = loop.truth[0].copy()
        loop.truth[0][: half // 4] = expected[: half // 4]
        loop.step(number)
        if number % 5 == 0:
            loop.check()
    loop.check()
