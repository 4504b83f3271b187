"""The event status page, as the application's threads see it."""

from __future__ import annotations

import ctypes
import threading
from typing import cast

import pytest

from sdi.service.status_page import StatusPage
from sdi.vmem.arena import Arena
from sdi.wire.layout import offset_of
from sdi.wire.records import ARENA_HEADER, ENDED_BY_ITSELF, HEAP_OFFSET, SLOT, SLOT_NBYTES, SLOTS_OFFSET

EPOCH = offset_of(ARENA_HEADER, "epoch")
STATUS = SLOTS_OFFSET + SLOT_NBYTES + offset_of(SLOT, "status")
FUTEX, WAIT = 202, 0


class Page:
    """Memory for a page, and nothing behind it."""

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(HEAP_OFFSET)
        self.address = ctypes.addressof(self._memory)
        self.bytes = memoryview(self._memory).cast("B")
        self.nbytes = HEAP_OFFSET

    def view(self, offset: int, nbytes: int) -> memoryview:
        return self.bytes[offset : offset + nbytes]


@pytest.fixture
def arena() -> Arena:
    return cast(Arena, Page())


def epoch(arena: Arena) -> int:
    return int.from_bytes(arena.bytes[EPOCH : EPOCH + 4], "little")


def test_how_the_service_ends_is_there_for_the_client(arena: Arena) -> None:
    page = StatusPage(arena)
    at = offset_of(ARENA_HEADER, "ended")
    assert not any(arena.bytes[at : at + 4])
    page.end()
    assert int.from_bytes(arena.bytes[at : at + 4], "little") == ENDED_BY_ITSELF


def test_each_batch_of_stores_is_a_new_epoch_whoever_counted_before(arena: Arena) -> None:
    page = StatusPage(arena)
    page.wake()
    assert epoch(arena) == 0
    page.finished(1, 0, 1, 2, 3)
    page.wake()
    page.wake()
    assert epoch(arena) == 1
    for before in (41, 0xFFFFFFFF):  # the player counts, too
        arena.bytes[EPOCH : EPOCH + 4] = before.to_bytes(4, "little")
        page.finished(1, 0, 1, 2, 3)
        page.wake()
        assert epoch(arena) == (before + 1) & 0xFFFFFFFF


def test_a_thread_that_sleeps_there_is_woken(arena: Arena) -> None:
    page = StatusPage(arena)
    page.busy(1)
    statuses = arena.bytes[STATUS : STATUS + 4].cast("i")

    def wait() -> None:
        libc = ctypes.CDLL(None)
        while statuses[0] > 0:
            libc.syscall(FUTEX, ctypes.c_void_p(arena.address + EPOCH), WAIT, epoch(arena), None, None, 0)

    page.wake()
    waiter = threading.Thread(target=wait)
    waiter.start()
    page.finished(1, 0, 1, 2, 3)
    page.wake()
    waiter.join(30)
    assert not waiter.is_alive() and statuses[0] == 0
