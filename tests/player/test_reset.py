"""A buffer that is set back in each step: members copy what only the host has, once they have it too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sdi.errors import ClError, Status
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


def test_where_there_is_no_room_for_it_the_copy_is_made_all_the_same(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = Loop(serve(1, plays=True))
    loop.settle()
    client, placement = loop.client, loop.client.session._memory.placement
    first = np.arange(9, ITEMS + 9, dtype=np.int32)
    kept = client.buffer(first.tobytes())
    reserve, asked = placement.reserve, list[int]()

    def refuse(wanted: Any, *more: Any) -> Any:
        asked.append(len(wanted))
        if len(asked) == 1:
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, "no room")
        return reserve(wanted, *more)

    monkeypatch.setattr(placement, "reserve", refuse)
    copied = client.command(Op.COPY, source=kept, target=loop.a, region=[NBYTES, 1, 1])
    assert client.wait(copied) == 0 and asked[0] == 2
    loop.truth[0] = first
    loop.step()
    loop.check()
