"""Dependencies against a model that keeps every byte's accesses by itself."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.intervals import ByteRange
from sdi.region import Bytes, Region
from sdi.regions import RegionSet
from sdi.vmem.dependencies import Dependencies, Use

NBYTES = 40


class Model:
    """Per byte the last writer and the readers since; ``holders`` touch none."""

    def __init__(self) -> None:
        self.writer: list[Ticket | None] = [None] * NBYTES
        self.readers: list[list[Ticket]] = [[] for _ in range(NBYTES)]
        self.holders: list[Ticket] = []

    def waits(self, reads: RegionSet, writes: RegionSet) -> set[Ticket]:
        found = set()
        for byte in _bytes(reads):
            writer = self.writer[byte]
            if writer is not None and (not writer.done or writer.error is not None):
                found.add(writer)
        for byte in _bytes(writes):
            found |= {t for t in (self.writer[byte], *self.readers[byte]) if t is not None and not t.done}
        return found

    def by(self, reads: RegionSet, writes: RegionSet, ticket: Ticket) -> None:
        for byte in _bytes(reads):
            self.readers[byte].append(ticket)
        for byte in _bytes(writes):
            before = [t for t in (self.writer[byte], *self.readers[byte]) if t is not None and not t.done]
            self.writer[byte], self.readers[byte] = ticket, before if ticket.done else []
        if not (reads or writes):
            self.holders.append(ticket)


def _bytes(ranges: RegionSet) -> list[int]:
    return [byte for part in ranges.runs() for byte in range(part.start, part.stop)]


@st.composite
def region_sets(draw: st.DrawFn) -> RegionSet:
    """Ranges, and rows at a few distances."""
    parts = draw(st.lists(st.tuples(st.integers(0, NBYTES - 1), st.integers(1, 12)), max_size=3))
    found: list[Bytes] = [ByteRange(start, min(start + size, NBYTES)) for start, size in parts]
    for stride, nbytes, start in draw(
        st.lists(st.tuples(st.sampled_from([4, 7, 8, 16]), st.integers(1, 4), st.integers(0, 15)), max_size=2)
    ):
        count = (NBYTES - start - nbytes) // stride + 1
        if count > 1:
            found.append(Region(start, nbytes, ((stride, draw(st.integers(2, count))),)))
    return RegionSet.of(found)


@settings(max_examples=300, deadline=None)
@given(accesses=st.lists(st.tuples(region_sets(), region_sets()), min_size=1, max_size=5), data=st.data())
def test_repeated_accesses_wait_for_what_they_conflict_with_and_nothing_else(
    accesses: list[tuple[RegionSet, RegionSet]], data: st.DataObject
) -> None:
    dependencies, model = Dependencies(NBYTES), Model()
    uses: list[Use] = [dependencies.use(reads.regions, writes.regions) for reads, writes in accesses]
    pending: list[Ticket] = []
    for _ in range(data.draw(st.integers(1, 12))):
        number = data.draw(st.integers(0, len(uses) - 1))
        reads, writes = accesses[number]
        assert set(uses[number].waits()) == model.waits(reads, writes)
        ticket = completed() if data.draw(st.booleans()) else Ticket()  # it may not have waited
        uses[number].by(ticket)
        model.by(reads, writes, ticket)
        if not ticket.done:
            pending.append(ticket)
        dependencies.check()
        if pending and data.draw(st.booleans()):
            done = pending.pop(data.draw(st.integers(0, len(pending) - 1)))
            done.complete(DeviceFailed("member", "failed") if data.draw(st.booleans()) else None)
    everything = RegionSet((ByteRange(0, NBYTES),))
    assert set(dependencies.before_write(everything.regions[0])) == model.waits(RegionSet(), everything)
    holders = {ticket for ticket in model.holders if not ticket.done}
    assert set(dependencies.pending()) == model.waits(RegionSet(), everything) | holders


@pytest.mark.parametrize("seed", range(4))
def test_many_small_accesses_to_one_buffer_leave_few_cells_and_lose_no_edge(seed: int) -> None:
    rng = random.Random(seed)
    nbytes = 1 << 20
    dependencies = Dependencies(nbytes)
    kept = ByteRange(1000, 1001)
    poison, writer, reader = Ticket(), Ticket(), Ticket()
    dependencies.written_by(ByteRange(500, 501), poison)
    poison.complete(DeviceFailed("member", "failed"))
    dependencies.written_by(kept, writer)
    dependencies.read_by(kept, reader)
    for _ in range(5000):
        start = rng.randrange(2000, nbytes - 64)
        ticket = Ticket()
        dependencies.written_by(ByteRange(start, start + rng.randrange(1, 64)), ticket)
        ticket.complete()
    assert len(dependencies._cells) <= 100
    assert dependencies.before_write(kept) == [writer, reader]
    assert dependencies.before_read(ByteRange(0, 600)) == [poison]
    dependencies.check()


def test_an_access_to_rows_is_one_to_their_bytes_alone_however_many_they_are() -> None:
    dependencies = Dependencies(1 << 20)
    ticket = Ticket()
    columns = [Region(512 * k, 512, ((4096, 256),)) for k in range(8)]
    dependencies.use((), (columns[1],)).by(ticket)
    assert len(dependencies._cells) <= 4
    assert dependencies.before_read(columns[1]) == dependencies.before_write(columns[1]) == [ticket]
    assert not dependencies.before_read(columns[0]) and not dependencies.before_read(columns[2])
    assert not dependencies.before_write(ByteRange(1024, 4096))
    assert dependencies.before_write(ByteRange(1023, 4096)) == [ticket]
    dependencies.check()


def test_an_operation_that_touches_no_byte_orders_nothing_but_keeps_the_memory() -> None:
    dependencies = Dependencies(4096)
    tickets = [Ticket() for _ in range(9)]
    use = dependencies.use((), ())
    for ticket in tickets:
        assert not use.waits()
        use.by(ticket)
        assert not dependencies.before_write(ByteRange(0, 4096))
    assert dependencies.pending() == tickets
    for ticket in tickets[1:]:
        ticket.complete()
    assert dependencies.pending() == tickets[:1]
    tickets[0].complete()
    assert not dependencies.pending()


@pytest.mark.parametrize("count", [3, 64, 65, 200])
def test_what_lies_between_rows_stays_poisoned(count: int) -> None:
    dependencies = Dependencies(1 << 12)
    failure, writer = completed(ValueError("failed")), Ticket()
    dependencies.written_by(ByteRange(0, 1 << 12), failure)
    rows = dependencies.use((), (Region(0, 8, ((16, count),)),))
    assert failure not in rows.waits()
    rows.by(writer)
    for row in (0, 1, count - 1):
        assert dependencies.before_read(ByteRange(16 * row, 16 * row + 8)) == [writer]
        assert dependencies.before_read(ByteRange(16 * row + 8, 16 * row + 16)) == [failure]
    assert sum(part.total_nbytes for part in dependencies.failed()) == (1 << 12) - 8 * count


def test_what_pends_where_something_was_written_without_waiting_goes_before_the_next_write() -> None:
    dependencies = Dependencies(64)
    reader, writer, landed = Ticket(), Ticket(), completed()
    dependencies.read_by(ByteRange(23, 58), reader)
    dependencies.written_by(ByteRange(60, 62), writer)
    dependencies.written_by(ByteRange(0, 64), landed)
    assert not dependencies.before_read(ByteRange(0, 64)), "the bytes are there"
    assert dependencies.before_write(ByteRange(0, 64)) == [reader, writer]
    assert not dependencies.before_write(ByteRange(0, 23)), "nothing pends there"
    reader.complete()
    last = Ticket()
    dependencies.written_by(ByteRange(0, 64), last)
    assert dependencies.before_write(ByteRange(0, 64)) == [last]
    dependencies.check()


def test_cells_behind_a_short_last_row_are_forgotten() -> None:
    row, rows = 4096, 16
    dependencies = Dependencies(row * (rows - 1) + row // 2)
    for region in (
        Region(0, row // 2, ((row, rows),)),
        Region(row // 2, row // 4, ((row, rows - 1),)),
        Region(row // 2, row // 2, ((row, rows - 1),)),
    ):
        dependencies.written_by(region, Ticket())
    for k in range(40):
        at = row * (k % (rows - 1)) + 64 * k
        last = Ticket()
        dependencies.written_by(ByteRange(at, at + 4), last)
        assert last in dependencies.before_read(ByteRange(at, at + 4))
