"""Records through the ring of the arena: an application's side of it in Python, a whole session behind it."""

from __future__ import annotations

import struct

import pytest

from sdi.wire.layout import Fields, layout, offset_of
from sdi.wire.records import (
    ARENA_HEADER,
    HEADER,
    RING,
    RING_BYTES_OFFSET,
    RING_NBYTES,
    RING_OFFSET,
    Op,
)
from tests.service.conftest import Serve
from tests.service.wire_client import WireClient

PIECE = 8 << 10
"""Of a write's bytes that come with its record."""


class Ring:
    """What the application writes from now on goes through the ring."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        assert self._word("I", ARENA_HEADER, "has_ring", 0) == 1
        client.send(Op.RING, 0)
        self.head = 0
        client.sendall = self.write

    def _word(self, code: str, fields: Fields, name: str, base: int = RING_OFFSET) -> int:
        at = base + offset_of(fields, name)
        return int(struct.unpack_from(f"<{code}", self.client.arena, at)[0])

    @property
    def unread(self) -> int:
        """Bytes that the service has not taken."""
        return self.head - self._word("Q", RING, "tail")

    @property
    def is_asleep(self) -> bool:
        """Whether the service waits to be woken."""
        return bool(self._word("I", RING, "asleep"))

    def write(self, data: bytes | bytearray) -> None:
        """All of it, as there is room; the service is woken each time, whether it sleeps or not."""
        while data:
            at = self.head % RING_NBYTES
            nbytes = min(len(data), RING_NBYTES - self.unread, RING_NBYTES - at)
            start = RING_BYTES_OFFSET + at
            self.client.arena[start : start + nbytes] = data[:nbytes]
            self.head, data = self.head + nbytes, data[nbytes:]
            self.say(self.head)

    def say(self, head: int) -> None:
        """The service may read up to there: by one store."""
        with memoryview(self.client.arena) as arena, arena.cast("Q") as words:
            words[(RING_OFFSET + offset_of(RING, "head")) // 8] = head
        self.client.commands.sendall(b"!")


def test_records_go_round_the_ring_many_times(serve: Serve) -> None:
    client = serve(2, plays=True)
    data = bytes(n * 7 % 251 for n in range(PIECE))
    buffer = client.buffer(PIECE * 4)
    ring = Ring(client)
    for turn in range(160):
        client.put(buffer, data[turn:] + data[:turn], turn % 4 * PIECE)
    client.finish()
    assert ring.head > 4 * RING_NBYTES and not ring.unread
    expected = b"".join(data[turn:] + data[:turn] for turn in range(156, 160))
    assert client.read(buffer, 4 * PIECE) == expected


def test_records_come_to_a_service_that_sleeps(serve: Serve) -> None:
    client = serve(1, plays=True)
    buffer = client.buffer(64)
    ring = Ring(client)
    for turn in range(20):
        while not ring.is_asleep:  # it has nothing to do, so it will be
            pass
        client.put(buffer, bytes([turn]) * 64)
        assert client.read(buffer, 64) == bytes([turn]) * 64


def test_what_was_written_before_the_application_ended_is_read(serve: Serve) -> None:
    client = serve(1, plays=True)
    buffer = client.buffer(PIECE)
    Ring(client)
    with client.at_once():
        for turn in range(20):
            client.put(buffer, bytes([turn]) * PIECE)
    client.close()
    player = client.session.player
    assert player is not None
    assert sum(player.records()["WRITE"].values()) == 20


def test_a_record_may_be_larger_than_the_ring(serve: Serve) -> None:
    client = serve(1, plays=True)
    Ring(client)
    source = "kernel void k(global int *a) { a[0] = 1; }" + " " * (3 * RING_NBYTES)
    _, status, _ = client.build(source)
    assert status == 0


def test_a_head_that_is_no_head_ends_the_session(serve: Serve) -> None:
    client = serve(1, plays=True)
    Ring(client).say(RING_NBYTES + 8)
    assert client.has_ended(60)


@pytest.mark.logs("damaged")
def test_without_a_player_there_is_no_ring(serve: Serve) -> None:
    client = serve(1)
    has_ring = struct.unpack_from("<I", client.arena, offset_of(ARENA_HEADER, "has_ring"))[0]
    client.commands.sendall(layout(HEADER).pack(16, Op.RING, 0))
    assert not has_ring and client.has_ended(60)
