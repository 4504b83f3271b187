"""Buffers of which some lie in a file: all bytes right, no more in memory than there may be."""

from __future__ import annotations

import ctypes
import mmap
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.region import Region, as_region
from sdi.vmem.arena import PAGE_NBYTES, Arena
from sdi.vmem.spill.budget import Spill
from sdi.vmem.spill.file import SpillFile, libc
from sdi.vmem.spill.spilling import Spilling
from tests.vmem.conftest import PATIENCE_S, MakeRig, noise

HOST_NBYTES = 1 << 20
CACHE_NBYTES, MEMORY_NBYTES = HOST_NBYTES // 4, 3 * HOST_NBYTES // 4
PIECE = CACHE_NBYTES // 8
MEMBER_NBYTES = 1 << 19


def resident(arena: Arena, nbytes: int) -> int:
    """Bytes of the first ``nbytes`` of the file that are in memory."""
    pages = (ctypes.c_ubyte * (nbytes // PAGE_NBYTES))()
    at = ctypes.c_void_p(arena.address + arena.file_offset)
    assert libc.mincore(at, ctypes.c_size_t(nbytes), pages) == 0
    return sum(page & 1 for page in pages) * PAGE_NBYTES


def idle(spilling: Spilling) -> None:
    """Wait until the threads have done all that they were given; what ends has more read."""
    for worker in (spilling._reads, spilling._writes, spilling._reads):
        done = threading.Event()
        worker.put(done.set)
        assert done.wait(PATIENCE_S)


@pytest.fixture
def spill(tmp_path: Path) -> Spill:
    return Spill(tmp_path, 1 << 30, HOST_NBYTES)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "read", "fill", "fetch", "push"]),
        st.integers(0, 2),
        st.integers(0, 15),
        st.integers(1, 16),
        st.integers(0, 255),
    ),
    max_size=25,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_whatever_members_and_the_application_do_bytes_are_as_without_a_file(
    rig: MakeRig, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    members = data.draw(st.sampled_from([1, 2, 3]))
    spill = Spill(tmp_path_factory.mktemp("spill"), 1 << 30, HOST_NBYTES)
    made = rig(members, MEMBER_NBYTES, spill=spill)
    unit = MEMBER_NBYTES // 16 + 1000
    models = [np.frombuffer(noise(16 * unit, seed), np.uint8).copy() for seed in range(3)]
    buffers = [made.buffer(model.tobytes()) for model in models]
    assert made.spilling is not None and made.arena.file_offset < buffers[2].offset
    for what, number, first, count, value in data.draw(STEPS):
        buffer, model = buffers[number], models[number]
        over = ByteRange(first * unit, min(16, first + count) * unit)
        member = value % members
        if what == "write":
            bytes_ = noise(over.nbytes, value)
            made.write(buffer, over.start, bytes_)
            model[over.start : over.stop] = np.frombuffer(bytes_, np.uint8)
        elif what == "read":
            assert made.read(buffer, over) == model[over.start : over.stop].tobytes()
        elif what == "push":
            made.push_out(member)
        else:
            half = ByteRange(over.start, over.start + min(over.nbytes, MEMBER_NBYTES // 2))
            if what == "fill":
                made.wait(made.fill(member, buffer, half, bytes([value])))
                model[half.start : half.stop] = value
            else:
                made.fetch(buffer, member, half, same_undefined=False)
    for buffer, model in zip(buffers, models, strict=True):
        assert made.read(buffer) == model.tobytes()
    made.settle()
    idle(made.spilling)
    made.spilling._pieces.check()
    for buffer in buffers:
        made.memory.release(buffer.id)
    made.settle()
    assert made.arena.file is not None and made.arena.file._ledger.taken_nbytes == 0


def test_no_more_is_in_memory_than_may_be_and_what_goes_is_read_again(rig: MakeRig, spill: Spill) -> None:
    made = rig(1, MEMBER_NBYTES, spill=spill)
    assert made.spilling is not None
    spilling, part = made.spilling, MEMBER_NBYTES // 2
    data = noise(4 << 20)
    made.buffer(MEMORY_NBYTES)
    buffer = made.buffer(len(data))
    assert buffer.offset == made.arena.file_offset, "the one before has all of the memory"
    for start in range(0, len(data), part):
        made.write(buffer, start, data[start : start + part])
        idle(spilling)
        assert resident(made.arena, len(data)) <= CACHE_NBYTES
    for start in range(0, len(data), part):
        made.fetch(buffer, 0, ByteRange(start, start + part), same_undefined=False)
        made.settle()
        idle(spilling)
        assert resident(made.arena, len(data)) <= CACHE_NBYTES
    assert made.read(buffer) == data
    made.memory.accounting.settle()
    events = made.memory.accounting.events
    assert len(data) - CACHE_NBYTES <= events.file_written_nbytes <= len(data)
    assert len(data) - CACHE_NBYTES <= events.file_read_nbytes <= len(data)
    assert events.file_nbytes == len(data) and events.file_read_ns > 0 < events.file_written_ns
    assert events.file_cached_nbytes <= CACHE_NBYTES + part


def test_what_members_overwrite_is_not_read_before(rig: MakeRig, spill: Spill) -> None:
    made = rig(1, MEMBER_NBYTES, spill=spill)
    assert made.spilling is not None
    made.buffer(MEMORY_NBYTES)
    buffer = made.buffer(2 << 20)
    made.write(buffer, 0, noise(2 << 20))
    idle(made.spilling)
    over = ByteRange(PIECE, PIECE + MEMBER_NBYTES // 2)
    made.wait(made.fill(0, buffer, over, b"\7"))
    made.push_out(0)
    made.settle()
    idle(made.spilling)
    made.memory.accounting.settle()
    assert made.memory.accounting.events.file_read_nbytes == 0
    found = made.read(buffer)
    expected = bytearray(noise(2 << 20))
    expected[over.start : over.stop] = b"\7" * over.nbytes
    assert found == bytes(expected)


def test_a_copy_is_cut_where_pieces_are_and_where_the_file_begins(spill: Spill) -> None:
    file = SpillFile(spill.folder, spill.limit_nbytes)
    arena = Arena(1 << 24, 1 << 16, file=file, file_offset=1 << 20)
    spilling = Spilling(arena, file, CACHE_NBYTES)
    offset = (1 << 20) - 5000
    parts = spilling.parts(offset, as_region(ByteRange(100, 5000 + 2 * PIECE + 7)))
    assert [(part.base, part.nbytes) for part in parts] == [
        (100, 4900),
        (5000, PIECE),
        (5000 + PIECE, PIECE),
        (5000 + 2 * PIECE, 7),
    ]
    inside = spilling.parts((1 << 20) + 100, as_region(ByteRange(0, PIECE)))
    assert [(part.base, part.nbytes) for part in inside] == [(0, PIECE - 100), (PIECE - 100, 100)]
    rows = Region(0, 8, ((64, 100),))
    assert spilling.parts(offset, rows) == [rows]
    assert spilling.covers(1 << 20, 1) and not spilling.covers((1 << 20) - 1, 1)
    spilling.close()
    arena.close()


def test_what_lies_behind_the_arena_is_not_touched_when_its_last_piece_goes(spill: Spill) -> None:
    file = SpillFile(spill.folder, spill.limit_nbytes)
    arena = Arena((1 << 16) + 20 * PIECE + PAGE_NBYTES, 1 << 16, file=file, file_offset=1 << 16)
    spilling = Spilling(arena, file, CACHE_NBYTES)
    with mmap.mmap(-1, arena.nbytes + PIECE, flags=mmap.MAP_PRIVATE) as others:
        behind = noise(PIECE, 1)
        others[arena.nbytes :] = behind
        window = ctypes.c_char.from_buffer(others)
        arena.addresses = [ctypes.addressof(window)]
        for number in (20, *range(9)):
            use, ticket = spilling.use((1 << 16) + number * PIECE, PAGE_NBYTES), Ticket()
            use.until(ticket, PAGE_NBYTES)
            ticket.complete()
            idle(spilling)
        assert spilling.traffic.written_nbytes >= PAGE_NBYTES
        assert others[arena.nbytes :] == behind
        del window
    spilling.close()
    arena.close()


@pytest.mark.parametrize("changes", [False, True])
def test_what_the_copy_waits_for_fails_the_copy(spill: Spill, changes: bool) -> None:
    file = SpillFile(spill.folder, spill.limit_nbytes)
    arena = Arena(1 << 24, 1 << 16, file=file, file_offset=1 << 16)
    spilling = Spilling(arena, file, CACHE_NBYTES)
    at = arena.allocate(1 << 22)
    first = spilling.use(at, 1 << 22)
    done = Ticket()
    first.until(done, 1 << 22)
    done.complete()
    idle(spilling)
    use, failed = spilling.use(at, PIECE), Ticket()
    failed.complete(RuntimeError("x"))
    (gate,) = use.overwritten([failed]) if changes else use.fetched([failed])
    assert gate.done and isinstance(gate.error, RuntimeError)
    idle(spilling)
    assert spilling.traffic.read_nbytes == 0
    use.until(failed)
    idle(spilling)
    spilling._pieces.check()
    arena.free(at)
    spilling.close()
    arena.close()
