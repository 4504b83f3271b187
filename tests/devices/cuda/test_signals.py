"""Copies between members whose streams wait for each other by numbers in shared memory."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from sdi import limits
from sdi.cluster.shared import Pool
from sdi.devices.copying import download, upload
from sdi.devices.cuda import signals
from sdi.devices.cuda.gpu import CudaGpu
from sdi.devices.cuda.member import CudaDevice
from sdi.devices.handles import DeviceBuffer
from sdi.devices.page_locks import SLAB_NBYTES, PageLocks
from sdi.devices.signals import Signal, Signals
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.region import Region
from tests.devices.conftest import failure, finish

NBYTES = 1 << 16
ROWS = Region(8, 100, ((256, 40),))
BROKEN = DeviceFailed("a member", "it is broken")


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(1 << 28)
    yield made
    made.close()


@pytest.fixture
def members(gpu: CudaGpu, pool: Pool) -> Iterator[list[CudaDevice]]:
    """Two on the first GPU that reach the pool."""
    made = [CudaDevice(gpu, number, 1 << 30) for number in range(2)]
    for member in made:
        assert signals_of(member).reaches(lambda: [pool.words()])
    yield made
    for member in reversed(made):
        member.close()


def signals_of(member: CudaDevice) -> Signals:
    assert member.signals is not None
    return member.signals


def loan(pool: Pool, nbytes: int) -> tuple[memoryview, Signal]:
    """Memory and its next signal."""
    memory = pool.take(nbytes)
    assert memory is not None
    word = pool.word(pool.place(memory))
    return memory[:nbytes], Signal(word, int.from_bytes(word, "little") + 1)


@pytest.mark.parametrize(
    "region", [Region(8, 3000), Region(8, 100, ((256, 40),)), Region(8, 7, ((7, 300),))], ids=str
)
def test_no_piece_of_a_copy_is_in_two_slabs(region: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver knows each by itself."""
    locks, made = PageLocks(), mmap.mmap(-1, 3 * SLAB_NBYTES, flags=mmap.MAP_PRIVATE | limits.MAP_NORESERVE)
    monkeypatch.setattr(signals, "PAGE_LOCKS", locks)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(made))
    locks.use((lambda address, nbytes: None, lambda address: None))
    locks.offer(begin, 3 * SLAB_NBYTES)
    edge = (begin // SLAB_NBYTES + 1) * SLAB_NBYTES - begin
    for slab in (edge - 4096, edge):  # one call of the driver each
        locks.lock(memoryview(made)[slab : slab + 10])
    own = np.arange(1 << 16, dtype=np.uint16).view(np.uint8)
    wanted = b"".join(own[run.start : run.stop].tobytes() for run in region.runs())
    for before in (0, 1, 99, 100, 101, 1000, region.total_nbytes):
        packed = np.zeros(region.total_nbytes, np.uint8)
        memory = memoryview(made)[edge - before : edge - before + packed.nbytes]
        for there, at, nbytes, count in signals._pieces(memory, region):
            for row in range(count):
                here = at + row * region.nbytes
                assert here + nbytes <= before or here >= before
                from_ = region.base + there + row * signals._pitch(region)
                packed[here : here + nbytes] = own[from_ : from_ + nbytes]
        assert packed.tobytes() == wanted
    locks.withdraw(begin)


@pytest.mark.parametrize("region", [Region(24, 5000), ROWS], ids=["run", "rows"])
def test_bytes_go_round_and_all_of_it_is_issued_before_it_may_begin(
    members: list[CudaDevice], pool: Pool, region: Region
) -> None:
    buffers = [DeviceBuffer(member.allocate(NBYTES)) for member in members]
    start, gate = np.random.default_rng(1).integers(0, 256, NBYTES, np.uint8), Ticket()
    last = [upload(members[0], memoryview(start), buffers[0], 0, [gate])]
    last.append(members[1].fill(buffers[1], 0, NBYTES, b"\0", ()))
    lent = []
    for number in range(40):
        from_, to = number % 2, 1 - number % 2
        memory, signal = loan(pool, region.total_nbytes)
        lent.append(memory)
        said, came = Ticket(), partial(tuple, (memory, signal))
        before = [last[to], said]
        last[to] = signals_of(members[to]).receive(buffers[to], region, before, came, lambda: None)  # type: ignore[arg-type]
        last[from_] = signals_of(members[from_]).send(
            buffers[from_], region, memory, signal, [last[from_]], said.complete
        )
        if to == 0:  # what comes back is what went
            last[0] = members[0].fill(buffers[0], region.base, 1, bytes([number]), [last[0]])
    assert not any(ticket.done for ticket in last)
    gate.complete()
    found = [memoryview(bytearray(NBYTES)) for _ in members]
    for member, buffer, memory, ticket in zip(members, buffers, found, last, strict=True):
        finish(download(member, buffer, 0, memory, [ticket]))
    wanted, mask = start.copy(), np.zeros(NBYTES, bool)
    wanted[region.base] = 39
    for run in region.runs():
        mask[run.start : run.stop] = True
    assert bytes(found[0]) == wanted.tobytes()
    wanted[region.base] = 37
    assert bytes(found[1]) == np.where(mask, wanted, 0).astype(np.uint8).tobytes()


def test_what_fails_before_it_begins_gives_no_signal(members: list[CudaDevice], pool: Pool) -> None:
    (member, _), said = members, list[int]()
    buffer, (memory, signal) = member.allocate(NBYTES), loan(pool, 100)
    ticket = signals_of(member).send(
        buffer, Region(0, 100), memory, signal, [completed(BROKEN)], lambda: said.append(1)
    )
    assert failure(ticket) is BROKEN and not signal.is_given() and not said


def test_a_signal_of_the_host_ends_the_wait_and_the_verdict_counts(
    members: list[CudaDevice], pool: Pool
) -> None:
    (_, member), why = members, list[BaseException]()
    buffer, (memory, signal) = member.allocate(NBYTES), loan(pool, 100)
    ticket = signals_of(member).receive(
        buffer, Region(0, 100), (), lambda: (memory, signal), lambda: why[0] if why else None
    )
    behind = member.fill(buffer, 0, 4, b"\1", [ticket])
    assert not ticket.done and not behind.done
    why.append(BROKEN)
    signal.give()
    assert failure(ticket) is BROKEN and failure(behind) is BROKEN


def test_bytes_that_are_there_may_lie_anywhere(members: list[CudaDevice]) -> None:
    (_, member), own = members, np.random.default_rng(2).integers(0, 256, 4000, np.uint8)
    buffer = member.allocate(NBYTES)
    blank = member.fill(buffer, 0, NBYTES, b"\0", ())
    came = memoryview(own)
    ticket = signals_of(member).receive(buffer, ROWS, [blank], lambda: (came, None), lambda: None)
    found = memoryview(bytearray(NBYTES))
    finish(download(member, buffer, 0, found, [ticket]))
    rows = np.frombuffer(found, np.uint8)[8 : 8 + 256 * 40].reshape(40, 256)
    assert (rows[:, :100] == own.reshape(40, 100)).all() and not rows[:, 100:].any()


def test_what_can_t_be_read_fails_the_ticket(members: list[CudaDevice]) -> None:
    _, member = members

    def came() -> tuple[memoryview, Signal | None]:
        raise BROKEN

    ticket = signals_of(member).receive(member.allocate(NBYTES), ROWS, (), came, lambda: None)
    assert "it is broken" in str(failure(ticket))
