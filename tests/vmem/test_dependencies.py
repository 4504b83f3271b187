"""Dependencies against a model that keeps every byte's accesses by itself."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.intervals import ByteRange, RangeSet
from sdi.vmem.dependencies import RANGES_MAX, Dependencies, Use

NBYTES = 40


class Model:
    """Per byte the last writer and the readers since; ``holders`` touch none."""

    def __init__(self) -> None:
        self.writer: list[Ticket | None] = [None] * NBYTES
        self.readers: list[list[Ticket]] = [[] for _ in range(NBYTES)]
        self.holders: list[Ticket] = []

    def waits(self, reads: RangeSet, writes: RangeSet) -> set[Ticket]:
        found = set()
        for byte in _bytes(reads):
            writer = self.writer[byte]
            if writer is not None and (not writer.done or writer.error is not None):
                found.add(writer)
        for byte in _bytes(writes):
            found |= {t for t in (self.writer[byte], *self.readers[byte]) if t is not None and not t.done}
        return found

    def by(self, reads: RangeSet, writes: RangeSet, ticket: Ticket) -> None:
        for byte in _bytes(reads):
            self.readers[byte].append(ticket)
        for byte in _bytes(writes):
            before = [t for t in (self.writer[byte], *self.readers[byte]) if t is not None and not t.done]
            self.writer[byte], self.readers[byte] = ticket, before if ticket.done else []
        if not (reads.ranges or writes.ranges):
            self.holders.append(ticket)


def _bytes(ranges: RangeSet) -> list[int]:
    return [byte for part in ranges.ranges for byte in range(part.start, part.stop)]


@st.composite
def range_sets(draw: st.DrawFn) -> RangeSet:
    parts = draw(st.lists(st.tuples(st.integers(0, NBYTES - 1), st.integers(1, 12)), max_size=3))
    return RangeSet.of(ByteRange(start, min(start + size, NBYTES)) for start, size in parts)


@settings(max_examples=300, deadline=None)
@given(accesses=st.lists(st.tuples(range_sets(), range_sets()), min_size=1, max_size=5), data=st.data())
def test_repeated_accesses_wait_for_what_they_conflict_with_and_nothing_else(
    accesses: list[tuple[RangeSet, RangeSet]], data: st.DataObject
) -> None:
    dependencies, model = Dependencies(NBYTES), Model()
    uses: list[Use] = [dependencies.use(reads.ranges, writes.ranges) for reads, writes in accesses]
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
    everything = RangeSet((ByteRange(0, NBYTES),))
    assert set(dependencies.before_write(everything.ranges[0])) == model.waits(RangeSet(), everything)
    holders = {ticket for ticket in model.holders if not ticket.done}
    assert set(dependencies.pending()) == model.waits(RangeSet(), everything) | holders


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


def test_an_access_to_very_many_ranges_counts_as_one_to_all_between_them() -> None:
    dependencies = Dependencies(4096)
    ticket = Ticket()
    dependencies.use((), tuple(ByteRange(8 * k, 8 * k + 4) for k in range(512))).by(ticket)
    assert len(dependencies._cells) <= 2
    assert dependencies.before_read(ByteRange(4, 8)) == [ticket]  # more than needed, never less


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


def test_what_lies_between_very_many_writes_stays_poisoned() -> None:
    dependencies = Dependencies(1 << 12)
    failure = completed(ValueError("failed"))
    dependencies.written_by(ByteRange(0, 1 << 12), failure)
    for count in (RANGES_MAX, RANGES_MAX + 1):
        writes = [ByteRange(16 * k, 16 * k + 8) for k in range(count)]
        assert (failure in dependencies.use((), writes).waits()) == (count > RANGES_MAX)
    writer = Ticket()
    few = dependencies.use((), writes[:RANGES_MAX])
    few.by(writer)
    assert dependencies.before_read(ByteRange(0, 8)) == [writer]
    assert dependencies.before_read(ByteRange(8, 16)) == [failure]


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
