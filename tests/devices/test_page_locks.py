"""Which host memory is page-locked, with a driver that only notes what it is asked."""

from __future__ import annotations

import ctypes
import logging
import mmap
import threading
from collections.abc import Iterator

import pytest

from sdi.devices.page_locks import SLAB_NBYTES, PageLocks
from sdi.errors import DeviceFailed
from sdi.vmem.arena import KEEP_NBYTES, Arena

MIB = 1 << 20


class Driver:
    """Notes what is locked; refuses beyond ``room`` bytes."""

    def __init__(self, room: int = 1 << 40) -> None:
        self.locked: dict[int, int] = {}
        self.room = room

    def lock(self, address: int, nbytes: int) -> None:
        if sum(self.locked.values()) + nbytes > self.room:
            raise DeviceFailed("CUDA", "no room")
        assert all(address + nbytes <= a or a + n <= address for a, n in self.locked.items()), "locked twice"
        self.locked[address] = nbytes

    def unlock(self, address: int) -> None:
        del self.locked[address]


class Rig:
    """A mapping of 4 slabs, aligned to slabs, with a part of one at its beginning."""

    def __init__(self, room: int = 1 << 40, limit_nbytes: int | None = None) -> None:
        self.driver = Driver(room)
        self.locks = PageLocks(limit_nbytes)
        self.locks.use((self.driver.lock, self.driver.unlock))
        self.map = mmap.mmap(-1, 6 * SLAB_NBYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
        whole = memoryview(self.map)
        address = ctypes.addressof(ctypes.c_char.from_buffer(whole))
        skip = -address % SLAB_NBYTES + SLAB_NBYTES - MIB
        self.view = whole[skip : skip + MIB + 4 * SLAB_NBYTES]
        self.address = address + skip
        self.locks.offer(self.address, self.view.nbytes)

    def at(self, slab: int, offset: int, nbytes: int) -> memoryview:
        """Bytes of the n-th full slab; -1 is the small one before them."""
        begin = MIB + slab * SLAB_NBYTES + offset if slab >= 0 else offset
        return self.view[begin : begin + nbytes]


def copy(rig: Rig, host: memoryview) -> None:
    """A copy, whose parts are as they should be."""
    with rig.locks.copying(host) as parts:
        assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
        assert parts[-1].stop == host.nbytes
        for part in parts:
            assert rig.locks.holds(host[part.start : part.stop]) == part.is_locked


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.locks.withdraw(made.address)
    assert not made.driver.locked


def test_a_slab_is_locked_when_half_of_it_was_copied(rig: Rig) -> None:
    copy(rig, rig.at(1, 5 * MIB, 16 * MIB))
    part = rig.at(1, 21 * MIB, 16 * MIB)
    assert not rig.driver.locked and not rig.locks.holds(part)
    copy(rig, part)
    assert rig.driver.locked == {rig.address + MIB + SLAB_NBYTES: SLAB_NBYTES}
    assert rig.locks.holds(part)
    assert rig.locks.holds(rig.at(1, 0, SLAB_NBYTES))
    assert not rig.locks.holds(rig.at(0, SLAB_NBYTES - 1, 2))
    assert not rig.locks.holds(rig.at(1, SLAB_NBYTES - 1, 2))


def test_a_slab_of_which_little_is_ever_touched_is_locked_only_when_that_pays(rig: Rig) -> None:
    part = rig.at(1, 5 * MIB, 10 * MIB)
    copies = 0
    while not rig.locks.holds(part):
        copy(rig, part)
        copies += 1
    # Copies of as much as the slab, and of five times what locking it has to make of its half.
    assert copies * 10 * MIB >= 32 * MIB + 5 * 22 * MIB > (copies - 1) * 10 * MIB


def test_the_first_slabs_are_locked_at_once(rig: Rig) -> None:
    copy(rig, rig.at(-1, 100, 1))
    assert rig.driver.locked == {rig.address: MIB}
    assert rig.locks.holds(rig.at(-1, 0, MIB))
    assert not rig.locks.holds(rig.at(-1, 0, MIB + 1))
    copy(rig, rig.at(0, 100, 1))
    assert rig.driver.locked == {rig.address: MIB, rig.address + MIB: SLAB_NBYTES}
    copy(rig, rig.at(1, 100, 1))
    assert not rig.locks.holds(rig.at(1, 100, 1))


def test_slabs_beside_each_other_are_locked_in_one_call(rig: Rig) -> None:
    copy(rig, rig.at(0, 0, 3 * SLAB_NBYTES))
    assert rig.driver.locked == {rig.address + MIB: 3 * SLAB_NBYTES}
    assert rig.locks.holds(rig.at(0, 7, 3 * SLAB_NBYTES - 7))


def test_a_copy_never_spans_what_was_locked_by_two_calls(rig: Rig) -> None:
    copy(rig, rig.at(1, 0, SLAB_NBYTES))
    copy(rig, rig.at(0, 0, SLAB_NBYTES))
    copy(rig, rig.at(3, 0, SLAB_NBYTES))
    parts = [(part.stop - part.start, part.is_locked) for part in rig.locks.parts(rig.view[100:])]
    assert parts == [
        (MIB - 100, False),
        (SLAB_NBYTES, True),
        (SLAB_NBYTES, True),
        (SLAB_NBYTES, False),
        (SLAB_NBYTES, True),
    ]


def test_nothing_is_locked_under_a_copy_that_is_under_way(rig: Rig) -> None:
    slow = rig.at(1, 0, 4096)
    with rig.locks.copying(slow) as parts:
        copy(rig, rig.at(0, 0, 2 * SLAB_NBYTES))
        assert rig.locks.holds(rig.at(0, 0, SLAB_NBYTES))
        assert not rig.locks.holds(slow) and not parts[0].is_locked
        locker = threading.Thread(target=lambda: rig.locks.lock(slow))
        locker.start()
        assert not rig.locks.holds(slow)
    locker.join()
    assert rig.locks.holds(slow)


def test_locking_all_of_a_range_leaves_what_is_locked(rig: Rig) -> None:
    copy(rig, rig.at(1, 0, SLAB_NBYTES))
    assert rig.locks.lock(rig.view) == rig.address
    assert sum(rig.driver.locked.values()) == rig.view.nbytes
    assert rig.locks.holds(rig.view)


def test_memory_that_nobody_offered_is_never_locked(rig: Rig) -> None:
    other = memoryview(bytearray(1000))
    copy(rig, other)
    assert not rig.driver.locked and not rig.locks.holds(other)
    with pytest.raises(DeviceFailed, match="can't be page-locked"):
        rig.locks.lock(other)
    assert not rig.locks.holds(memoryview(b"read only"))


def test_regions_that_meet_within_a_slab_do_not_count_for_each_other(rig: Rig) -> None:
    locks, driver = rig.locks, rig.driver
    edge = SLAB_NBYTES // 2
    locks.withdraw(rig.address)
    first, second = rig.at(0, 0, edge), rig.at(0, edge, SLAB_NBYTES)
    begin = rig.address + MIB
    locks.offer(begin, first.nbytes)
    locks.offer(begin + edge, second.nbytes)
    locks.lock(first)
    assert driver.locked == {begin: edge}
    assert locks.holds(first) and not locks.holds(second[:1]) and not locks.holds(rig.at(0, 0, edge + 1))
    locks.lock(second[-edge:])
    assert driver.locked == {begin: edge, begin + SLAB_NBYTES: edge}
    assert locks.holds(second[-edge:]) and not locks.holds(second)
    locks.withdraw(begin)
    locks.withdraw(begin + edge)


@pytest.mark.logs("not page-locked")
def test_a_refusal_is_said_once_and_copies_go_on(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(room=SLAB_NBYTES)
    with caplog.at_level(logging.WARNING):
        for slab in (0, 1, 2):
            copy(rig, rig.at(slab, 0, SLAB_NBYTES))
    assert [record.message for record in caplog.records] == [
        "host memory is not page-locked, copies take several times longer: CUDA: no room"
    ]
    assert rig.locks.holds(rig.at(0, 0, 1)) and not rig.locks.holds(rig.at(1, 0, 1))
    rig.locks.withdraw(rig.address)


def test_no_more_is_locked_for_copies_than_the_limit_but_what_must_be_is() -> None:
    rig = Rig(limit_nbytes=SLAB_NBYTES)
    copy(rig, rig.at(0, 0, SLAB_NBYTES))
    copy(rig, rig.at(1, 0, SLAB_NBYTES))
    assert not rig.locks.holds(rig.at(1, 0, 1))
    rig.locks.lock(rig.at(1, 0, 1))
    assert rig.locks.holds(rig.at(1, 0, 1))
    rig.locks.withdraw(rig.address)


def test_the_arena_never_gives_locked_pages_back() -> None:
    driver, locks = Driver(), PageLocks()
    locks.use((driver.lock, driver.unlock))
    arena = Arena(1 << 33, 1 << 16, locks)
    nbytes = KEEP_NBYTES + 4096
    for is_locked in (False, True):
        at = arena.allocate(nbytes)
        arena.view(at + nbytes - 1, 1)[0] = 7
        if is_locked:
            locks.lock(arena.view(at, nbytes))
        arena.free(at)
        assert arena.view(at + nbytes - 1, 1)[0] == 7 * is_locked
    assert driver.locked
    arena.close()
    assert not driver.locked


def test_an_arenas_first_buffers_are_locked_with_their_first_copies() -> None:
    driver = Driver()
    locks = PageLocks()
    locks.use((driver.lock, driver.unlock))
    heap_offset = 2 * SLAB_NBYTES
    arena = Arena(1 << 33, heap_offset, locks)
    first = arena.view(arena.allocate(4096), 4096)
    with locks.copying(first):
        pass
    assert locks.holds(first)
    assert min(driver.locked) >= arena.address + heap_offset, "nothing else is ever copied"
    del first
    arena.close()
    assert not driver.locked
