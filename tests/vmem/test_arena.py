"""The arena's allocator, and what it keeps of pages."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator

import pytest

from sdi.devices.page_locks import SLAB_NBYTES, PageLocks
from sdi.errors import ClError
from sdi.vmem import arena as arenas
from sdi.vmem.arena import PAGE_NBYTES, Arena
from sdi.wire.records import HEAP_OFFSET, SHARED_ADDRESSES, STAGING_NBYTES, STAGING_OFFSET

HEAP, NBYTES = 4 * PAGE_NBYTES, 64 * PAGE_NBYTES


class Locks:
    """Page locks of which some are held: ``unless_locked`` is the only question."""

    def __init__(self) -> None:
        self.is_locked = False
        self.offered: list[tuple[int, int]] = []

    def offer(self, address: int, nbytes: int) -> None:
        self.offered.append((address, nbytes))

    def withdraw(self, address: int) -> None:
        self.offered = [each for each in self.offered if each[0] != address]

    def unless_locked(self, address: int, nbytes: int, then: Callable[[], object]) -> bool:
        if not self.is_locked:
            then()
        return not self.is_locked


@pytest.fixture
def locks() -> Locks:
    return Locks()


@pytest.fixture
def arena(locks: Locks) -> Iterator[Arena]:
    made = Arena(NBYTES, HEAP, locks)  # type: ignore[arg-type]
    yield made
    made.close()
    assert not locks.offered and made.fd == -1
    made.__dict__.clear()  # pytest keeps what a fixture made for a while


def test_pieces_are_pages_behind_the_first_and_neighbours_become_one_again(arena: Arena) -> None:
    one, two, three = (arena.allocate(nbytes) for nbytes in (1, PAGE_NBYTES + 1, PAGE_NBYTES))
    assert (one, two, three) == (HEAP, HEAP + PAGE_NBYTES, HEAP + 3 * PAGE_NBYTES)
    arena.free(one)
    arena.free(three)
    assert arena.allocate(2 * PAGE_NBYTES) == three, "it does not fit where the first was"
    arena.free(two)
    assert arena.allocate(3 * PAGE_NBYTES) == one, "what lies side by side is one piece"


def test_what_begins_behind_a_pages_beginning_gives_all_of_its_pages_back(arena: Arena) -> None:
    first, second = arena.allocate(PAGE_NBYTES, 256), arena.allocate(PAGE_NBYTES - 512, 512)
    assert (first, second) == (HEAP + 256, HEAP + 2 * PAGE_NBYTES + 512)
    assert arena.allocate(1) == HEAP + 3 * PAGE_NBYTES
    arena.free(first)
    assert arena.allocate(2 * PAGE_NBYTES) == HEAP
    arena.free(second)
    assert arena.allocate(PAGE_NBYTES) == HEAP + 2 * PAGE_NBYTES


def test_what_there_is_no_room_for_is_refused_with_the_largest_piece(arena: Arena) -> None:
    arena.allocate(NBYTES - HEAP - PAGE_NBYTES)
    with pytest.raises(ClError, match=f"{2 * PAGE_NBYTES} bytes asked, largest free piece {PAGE_NBYTES}"):
        arena.allocate(PAGE_NBYTES + 1)
    arena.allocate(1)


@pytest.mark.parametrize("is_locked", [False, True])
def test_pages_past_what_is_kept_go_unless_a_driver_has_locked_some(
    arena: Arena, locks: Locks, monkeypatch: pytest.MonkeyPatch, is_locked: bool
) -> None:
    monkeypatch.setattr(arenas, "KEEP_NBYTES", PAGE_NBYTES)
    locks.is_locked = is_locked
    kept, large = arena.allocate(PAGE_NBYTES), arena.allocate(4 * PAGE_NBYTES)
    for offset in (kept, large):
        arena.view(offset, 4)[:] = b"here"
    arena.free(kept)
    arena.free(large)
    assert bytes(arena.view(kept, 4)) == b"here"
    assert bytes(arena.view(large, 4)) == (b"here" if is_locked else bytes(4))


def test_a_window_shows_the_same_bytes_at_an_address_of_its_own(arena: Arena) -> None:
    assert bytes(arena.window(HEAP, 3)) == bytes(3), "without one it is the usual view"
    address = arena.map_window(SHARED_ADDRESSES)
    assert address in SHARED_ADDRESSES
    arena.view(HEAP, 3)[:] = b"abc"
    assert ctypes.string_at(address + HEAP, 3) == b"abc"
    arena.window(HEAP, 3)[1:2] = b"x"
    assert bytes(arena.view(HEAP, 3)) == b"axc"


def test_windows_are_at_different_addresses_and_leave_these_when_nobody_has_any_of_them(locks: Locks) -> None:
    made = [Arena(NBYTES, HEAP, locks) for _ in range(len(SHARED_ADDRESSES) + 1)]  # type: ignore[arg-type]
    found = [each.map_window(SHARED_ADDRESSES) for each in made]
    assert found == [*SHARED_ADDRESSES, 0]
    kept = made[1].window(HEAP, 3)
    for each in made:
        each.close()
        each.__dict__.clear()
    again = [Arena(NBYTES, HEAP, locks) for _ in range(2)]  # type: ignore[arg-type]
    assert [each.map_window(SHARED_ADDRESSES) for each in again] == [found[0], found[2]]
    kept.release()
    for each in again:
        each.close()
        each.__dict__.clear()


@pytest.mark.parametrize("pages", [0, 1, 1000, 5000, 16383])
def test_the_front_of_it_can_be_locked_in_one_piece(pages: int) -> None:
    """Wherever the system would put it, and whatever of the heap was locked before."""
    above = mmap.mmap(-1, max(1, pages) * PAGE_NBYTES)
    locks = PageLocks()
    runs: list[tuple[int, int]] = []
    locks.use((lambda address, nbytes: runs.append((address, nbytes)), lambda _: None))
    arena = Arena(1 << 40, HEAP_OFFSET, locks, copied_offset=STAGING_OFFSET)
    assert arena.address % SLAB_NBYTES == 0
    with locks.copying(arena.view(HEAP_OFFSET, PAGE_NBYTES)):
        pass
    staging = arena.view(STAGING_OFFSET, STAGING_NBYTES)
    locks.lock(staging)
    assert [(part.stop, part.is_locked) for part in locks.parts(staging)] == [(STAGING_NBYTES, True)]
    assert len(runs) == 1
    arena.close()
    above.close()
