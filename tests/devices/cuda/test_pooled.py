"""Memory of several GPUs behind one range of addresses, on a stand-in for the driver's calls."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.devices.cuda import pooled as cuda_pooled
from sdi.devices.cuda.pooled import Reservation, pool_over
from sdi.devices.memory_share import MemoryShare
from sdi.devices.testing.null import NullDevice
from sdi.errors import ClError, DeviceFailed
from sdi.intervals import ByteRange

GRANULE = 1 << 21
BASE = 0x2000_0000_0000
_FAILED = 2


class Addresses:
    """What the driver's calls do with addresses and memory, with what they insist on.

    ``free_nbytes``: what each GPU has; ``moves``: a reservation is somewhere else than asked.
    """

    def __init__(self, free_nbytes: int = 1 << 40, moves: bool = False) -> None:
        self.free = [free_nbytes] * 4
        self.moves = moves
        self.reserved: dict[int, int] = {}
        self.made: dict[int, tuple[int, int]] = {}
        self.mapped: dict[int, tuple[int, int]] = {}
        self.reachable: dict[int, tuple[int, ...]] = {}
        self._next = 1

    def cuMemGetAllocationGranularity(self, found: Any, _properties: Any, _minimum: int) -> int:  # noqa: N802
        found._obj.value = GRANULE
        return 0

    def cuMemAddressReserve(self, found: Any, nbytes: int, _align: int, address: int, _flags: int) -> int:  # noqa: N802
        found._obj.value = address if address and not self.moves else 0x7F00_0000_0000
        self.reserved[found._obj.value] = nbytes
        return 0

    def cuMemAddressFree(self, address: int, nbytes: int) -> int:  # noqa: N802
        assert self.reserved.pop(address) == nbytes
        return 0

    def cuMemCreate(self, handle: Any, nbytes: int, properties: Any, _flags: int) -> int:  # noqa: N802
        ordinal = properties.contents.location.id
        if nbytes % GRANULE or nbytes > self.free[ordinal]:
            return _FAILED
        self.free[ordinal] -= nbytes
        handle._obj.value = self._next
        self.made[self._next] = (nbytes, ordinal)
        self._next += 1
        return 0

    def cuMemRelease(self, handle: int) -> int:  # noqa: N802
        nbytes, ordinal = self.made.pop(handle)
        assert handle not in [each for _, each in self.mapped.values()]
        self.free[ordinal] += nbytes
        return 0

    def cuMemMap(self, address: int, nbytes: int, _offset: int, handle: int, _flags: int) -> int:  # noqa: N802
        assert self.made[handle][0] == nbytes
        if any(a < address + nbytes and address < a + n for a, (n, _) in self.mapped.items()):
            return _FAILED
        self.mapped[address] = (nbytes, handle)
        return 0

    def cuMemUnmap(self, address: int, nbytes: int) -> int:  # noqa: N802
        assert self.mapped.pop(address)[0] == nbytes
        self.reachable.pop(address, None)
        return 0

    def cuMemSetAccess(self, address: int, nbytes: int, access: Any, count: int) -> int:  # noqa: N802
        assert self.mapped[address][0] == nbytes
        self.reachable[address] = tuple(access[k].location.id for k in range(count))
        return 0

    def ordinal_at(self, address: int) -> int:
        """Of the GPU whose memory is there."""
        return next(self.made[h][1] for a, (n, h) in self.mapped.items() if a <= address < a + n)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Addresses:
    made = Addresses()
    monkeypatch.setattr(cuda_pooled, "slow", lambda: made)
    monkeypatch.setattr(cuda_pooled, "do_reach", lambda _one, _other: True)
    return made


SHARE = 12 * GRANULE


def members(count: int, gpus: int, linked: bool = True) -> list[Any]:
    """On ``gpus`` GPUs, in turn, each with ``SHARE`` bytes of memory."""
    found = []
    for number in range(count):
        member: Any = NullDevice(number)
        member.gpu = SimpleNamespace(ordinal=number % gpus)
        member.memory = MemoryShare(f"GPU {number}", SHARE)
        member.link = lambda _other: linked
        found.append(member)
    return found


@given(st.data())
def test_places_in_any_order_have_their_addresses_and_leave_nothing(data: st.DataObject) -> None:
    driver = Addresses()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda_pooled, "slow", lambda: driver)
        ordinals = list(range(data.draw(st.integers(1, 4))))
        window = Reservation(ordinals)
        assert window.reserve(1 << 40, BASE)
        counted = dict.fromkeys(ordinals, 0)

        def take(ordinal: int, nbytes: int) -> None:
            counted[ordinal] += nbytes

        there: list[tuple[ByteRange, Any]] = []
        for _ in range(data.draw(st.integers(1, 12))):
            if there and data.draw(st.booleans()):
                there.pop(data.draw(st.integers(0, len(there) - 1)))[1].free()
            start = data.draw(st.integers(0, 40)) * GRANULE // 4
            over = ByteRange(start, start + data.draw(st.integers(1, 24)) * GRANULE // 4)
            if any(over.start < other.stop and other.start < over.stop for other, _ in there):
                continue
            before = dict(counted)
            made = window.make(over, take, lambda ordinal, nbytes: take(ordinal, -nbytes))
            there.append((over, made))
            assert (made.address, made.nbytes) == (BASE + over.start, over.nbytes)
            most = window.most_nbytes(over.nbytes)
            assert all(counted[ordinal] - before[ordinal] <= most for ordinal in ordinals)
            for each, _ in there:
                at = range(BASE + each.start, BASE + each.stop, GRANULE // 4)
                assert {driver.ordinal_at(address) for address in at} <= set(ordinals)
            assert all(reached == tuple(ordinals) for reached in driver.reachable.values())
        assert {k: (1 << 40) - driver.free[k] for k in ordinals} == counted
        for _, made in there:
            made.free()
        assert not driver.mapped and not driver.made and not any(counted.values())


def test_a_large_place_is_spread_evenly(driver: Addresses) -> None:
    window = Reservation([0, 1, 2, 3])
    assert window.reserve(1 << 40)
    made = window.make(ByteRange(GRANULE // 2, 64 * GRANULE), lambda *_: None, lambda *_: None)
    used = [((1 << 40) - free) // GRANULE for free in driver.free]
    assert sum(used) == 64 and max(used) <= 17 and min(used) >= 15
    made.free()


def test_addresses_that_are_taken_are_given_back(driver: Addresses) -> None:
    driver.moves = True
    window = Reservation([0])
    assert not window.reserve(1 << 40, BASE)
    assert not driver.reserved and not window.address


@pytest.mark.parametrize("call", ["cuMemCreate", "cuMemMap", "cuMemSetAccess"])
def test_what_the_driver_refuses_leaves_nothing(
    driver: Addresses, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    shared = pool_over(members(3, 3))
    assert shared.reserve(1 << 40, BASE)
    first = shared.allocate(ByteRange(0, GRANULE // 2))
    usual, left = getattr(driver, call), [1]

    def refuse(*arguments: Any) -> int:
        left[0] -= 1
        return usual(*arguments) if left[0] >= 0 else _FAILED

    monkeypatch.setattr(driver, call, refuse)
    with pytest.raises(ClError, match="MEM_OBJECT_ALLOCATION_FAILURE"):
        shared.allocate(ByteRange(GRANULE // 2, 9 * GRANULE))
    assert len(driver.mapped) == len(driver.made) == 1
    shared.free(first)
    assert not driver.mapped and not driver.made and shared.memory.in_use == 0


def test_it_counts_on_each_member_while_it_is_there(driver: Addresses) -> None:
    those = members(3, 3)
    shared = pool_over(those)
    assert shared.reserve(1 << 40, BASE)
    those[2].memory.take(SHARE - GRANULE)
    with pytest.raises(ClError, match="MEM_OBJECT_ALLOCATION_FAILURE"):
        shared.allocate(ByteRange(0, 6 * GRANULE))
    assert [member.memory.in_use for member in those] == [0, 0, SHARE - GRANULE] and not driver.mapped
    those[0].memory.take(GRANULE)
    buffer = shared.allocate(ByteRange(0, 3 * GRANULE))
    assert [member.memory.in_use for member in those] == [2 * GRANULE, GRANULE, SHARE]
    shared.free(buffer)
    assert [member.memory.in_use for member in those] == [GRANULE, 0, SHARE - GRANULE]


def test_what_is_little_lies_on_the_first_gpu_and_more_on_all(driver: Addresses) -> None:
    those = members(3, 3)
    shared = pool_over(those)
    assert shared.reserve(1 << 40, BASE)
    little = shared.allocate(ByteRange(GRANULE // 2, 3 * GRANULE))
    assert [member.memory.in_use for member in those] == [3 * GRANULE, 0, 0]
    assert set(driver.reachable.values()) == {(0, 1, 2)}, "all GPUs reach it all the same"
    much = shared.allocate(ByteRange(3 * GRANULE, 6 * GRANULE))
    assert [member.memory.in_use for member in those] == [4 * GRANULE, GRANULE, GRANULE]
    for buffer in (little, much):
        shared.free(buffer)
    assert [member.memory.in_use for member in those] == [0, 0, 0]


def test_gpus_that_do_not_reach_each_other_have_no_such_memory(
    driver: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_pooled, "do_reach", lambda one, other: {one.ordinal, other.ordinal} != {0, 2})
    shared = pool_over(members(3, 3))
    assert not shared.reserve(1 << 40, BASE) and not driver.reserved
    with pytest.raises(ClError, match="do not reach each other"):
        shared.allocate(ByteRange(0, GRANULE))


def test_a_copy_that_shows_the_driver_wrong_is_an_error(driver: Addresses) -> None:
    shared = pool_over(members(2, 2, linked=False))
    assert shared.reserve(1 << 40, BASE)
    with pytest.raises(ClError, match="do not reach each other"):
        shared.allocate(ByteRange(0, GRANULE))
    assert not driver.made


def test_describing_the_device_makes_no_copy(driver: Addresses) -> None:
    those = members(2, 2)
    for member in those:
        member.link = lambda _other: pytest.fail("a copy to prove it")
    assert pool_over(those).reserve(1 << 40, BASE)


def test_a_driver_without_such_calls_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise DeviceFailed("CUDA", "no driver")

    monkeypatch.setattr(cuda_pooled, "slow", missing)
    assert not pool_over(members(1, 1)).reserve(1 << 40, BASE)


def test_members_on_one_gpu_share_its_addresses(driver: Addresses) -> None:
    shared = pool_over(members(3, 1))
    assert shared.reserve(1 << 40, BASE)
    buffer = shared.allocate(ByteRange(5, 2 * GRANULE))
    assert {ctypes.c_uint64(address).value for address in driver.mapped} == {BASE, BASE + GRANULE}
    shared.free(buffer)
