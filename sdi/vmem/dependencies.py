"""Dependencies: which tickets an access to bytes of one memory has to wait for (RAW, WAR and WAW edges).

The bytes of a buffer are divided into *cells*, refined where accesses begin and end.  A launch that is
repeated touches the same cells each time: ``Use`` looks them up once and again only after the division
changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange, RangeSet

_CELLS = 32
"""So many cells may be there before neighbours that are alike become one."""
RANGES_MAX = 64
"""An access to more ranges counts as one to all that lies between them."""
_READERS = 4
"""So many readers are kept before those that are done go; then again after as many more as were left."""


class _Cell:
    """Accesses to a run of bytes: the last issued writer and the readers issued since.

    ``limit``: so many readers may be there before those that are done go.
    """

    __slots__ = ("limit", "readers", "writer")

    def __init__(self, writer: Ticket | None, readers: list[Ticket]) -> None:
        self.writer = writer
        self.readers = readers
        self.limit = _READERS

    def failure(self) -> Ticket | None:
        """The writer, if it failed."""
        writer = self.writer
        return writer if writer is not None and writer.done and writer.error is not None else None

    def tidy(self) -> None:
        """Forget what is done.  A writer that failed stays."""
        writer = self.writer
        if writer is not None and writer.done and writer.error is None:
            self.writer = None
        self.readers = [reader for reader in self.readers if not reader.done]
        self.limit = _READERS + 2 * len(self.readers)

    def overtaken(self, by: Ticket) -> None:
        """``by`` wrote, and may not have waited for what still pends: who writes next does that."""
        waited_for = self.readers if self.writer is None else [self.writer, *self.readers]
        self.readers = [ticket for ticket in waited_for if not ticket.done]
        self.writer = by


class Dependencies:
    """Issued accesses to one root buffer's bytes in one memory.  Owned by: sdi-scheduler.

    ``before_*`` answers what to wait for; ``*_by`` records the ticket of the access that was issued.
    A writer that failed stays: its bytes are poisoned, and readers of them fail with its error.
    A ticket that is done when it is recorded may have waited for nothing (bytes that the application put into
    the arena itself, an operation that was refused): what pends there still goes before the next write.
    ``generation`` changes with the division into cells.  Operations that are given the memory and touch no
    byte of it wait for nothing, and nothing waits for them, but it may not go before they are done.
    ``poisoned``: bytes are poisoned, as far as was looked; kept by who knows which memories hold bytes.
    """

    __slots__ = ("_cells", "_holders", "_limit", "_starts", "generation", "nbytes", "poisoned")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.generation = 0
        self.poisoned = False
        self._starts = [0]
        self._cells = [_Cell(None, [])]
        self._limit = _CELLS
        self._holders: list[Ticket] = []

    def before_read(self, over: ByteRange) -> list[Ticket]:
        """Tickets that make ``over`` true here; failed ones included, completed ones left out."""
        return self.use((over,), ()).waits()

    def before_write(self, over: ByteRange) -> list[Ticket]:
        """Tickets of all pending accesses to ``over``."""
        return self.use((), (over,)).waits()

    def read_by(self, over: ByteRange, ticket: Ticket) -> None:
        """Record a read of ``over`` that is done when ``ticket`` is."""
        self.use((over,), ()).by(ticket)

    def written_by(self, over: ByteRange, ticket: Ticket) -> None:
        """Record that ``over`` holds its bytes once ``ticket`` is done."""
        self.use((), (over,)).by(ticket)

    def use(self, reads: Sequence[ByteRange], writes: Sequence[ByteRange]) -> Use:
        """An access that can be made any number of times.  Ranges are sorted and disjoint.

        What lies between very many writes counts as written too, but where it is poisoned it stays so.
        """
        few = _few(writes)
        return Use(self, _few(reads), few, None if few is writes else lambda: writes)

    def use_all(self, over: ByteRange, writes: Callable[[], Sequence[ByteRange]]) -> Use:
        """Likewise, an access that writes so many ranges of ``over`` that they are found when needed."""
        return Use(self, (), (over,), writes)

    def pending(self) -> list[Ticket]:
        """All tickets not done yet: the memory must stay until they are."""
        holders = [ticket for ticket in self._holders if not ticket.done]
        return self.use((), (ByteRange(0, self.nbytes),)).waits(holders)

    def is_idle(self) -> bool:
        """Whether all that was recorded is done."""
        for cell in self._cells:
            if cell.writer is not None and not cell.writer.done:
                return False
            for reader in cell.readers:
                if not reader.done:
                    return False
        return all(holder.done for holder in self._holders)

    def held_by(self, ticket: Ticket) -> None:
        """Record an operation that may use the memory, but none of its bytes."""
        if len(self._holders) >= _READERS:
            self._holders = [holder for holder in self._holders if not holder.done]
        self._holders.append(ticket)

    def failed(self) -> list[ByteRange]:
        """The bytes whose last writer failed."""
        return [over for over, _ in self.failures()]

    def failures(self) -> list[tuple[ByteRange, Ticket]]:
        """The same with these writers."""
        stops = [*self._starts[1:], self.nbytes]
        return [
            (ByteRange(start, stop), failure)
            for start, stop, cell in zip(self._starts, stops, self._cells, strict=True)
            if (failure := cell.failure()) is not None
        ]

    def forget_failures(self, ranges: Sequence[ByteRange]) -> None:
        """What is in ``ranges`` does not count any more: nobody reads it here before it is written."""
        for cell in self.divide(ranges)[0]:
            if cell.failure() is not None:
                cell.writer = None

    def divide(self, *accesses: Sequence[ByteRange]) -> list[list[_Cell]]:
        """The cells that make up the ranges of each access."""
        if len(self._cells) > self._limit:
            self._merge()
        for ranges in accesses:
            for over in ranges:
                if over.stop > self.nbytes:
                    raise ValueError(f"range [{over.start}, {over.stop}) past the {self.nbytes} bytes")
                self._split(over.start)
                self._split(over.stop)
        return [[cell for over in ranges for cell in self._within(over)] for ranges in accesses]

    def unite(self, ranges: Sequence[ByteRange]) -> None:
        """Each of ``ranges`` was just written by one operation: its cells are alike."""
        for over in ranges:
            first = bisect_right(self._starts, over.start)
            last = bisect_right(self._starts, over.stop - 1)
            if first < last:
                del self._starts[first:last], self._cells[first:last]
                self.generation += 1

    def check(self) -> None:
        """Assert the invariants (for tests)."""
        assert self._starts[0] == 0 and self._starts == sorted(set(self._starts))
        assert self._starts[-1] < self.nbytes and len(self._starts) == len(self._cells)

    def _within(self, over: ByteRange) -> list[_Cell]:
        first = bisect_right(self._starts, over.start) - 1
        return self._cells[first : bisect_right(self._starts, over.stop - 1)]

    def _split(self, offset: int) -> None:
        """Make a cell begin at ``offset``."""
        at = bisect_right(self._starts, offset) - 1
        if self._starts[at] == offset or offset == self.nbytes:
            return
        cell = self._cells[at]
        self._starts.insert(at + 1, offset)
        self._cells.insert(at + 1, _Cell(cell.writer, list(cell.readers)))
        self.generation += 1

    def _merge(self) -> None:
        """Make neighbours with the same accesses one cell, idle ones above all."""
        starts: list[int] = []
        cells: list[_Cell] = []
        for start, cell in zip(self._starts, self._cells, strict=True):
            cell.tidy()
            last = cells[-1] if cells else None
            if last is None or last.writer is not cell.writer or last.readers != cell.readers:
                starts.append(start)
                cells.append(cell)
        self._starts, self._cells = starts, cells
        self._limit = max(_CELLS, 2 * len(cells))
        self.generation += 1


class Use:
    """What one operation reads and writes of a buffer in one memory, each time it is issued."""

    __slots__ = (
        "_all",
        "_dependencies",
        "_generation",
        "_is_repeated",
        "_read",
        "_reads",
        "_writes",
        "_written",
    )

    def __init__(
        self,
        dependencies: Dependencies,
        reads: Sequence[ByteRange],
        writes: Sequence[ByteRange],
        all_writes: Callable[[], Sequence[ByteRange]] | None = None,
    ) -> None:
        """``all_writes``: what is really written, where ``writes`` is one range around very many."""
        self._dependencies = dependencies
        self._reads = reads
        self._writes = writes
        self._all = all_writes
        self._is_repeated = False
        self._generation = -1
        self._read: list[_Cell] = []
        self._written: list[_Cell] = []  # some of them may be read too

    def waits(self, others: Sequence[Ticket] = ()) -> list[Ticket]:
        """What the operation waits for now, each ticket once, after ``others``."""
        found = dict.fromkeys(others)
        self.gather(found)
        return list(found)

    @property
    def kinds(self) -> tuple[bool, bool]:
        """Whether the operation reads, and whether it writes."""
        return bool(self._reads), bool(self._writes)

    def gather(self, found: dict[Ticket, None]) -> None:
        """Add what the operation waits for."""
        if self._generation != self._dependencies.generation:
            self._look_up()
        for cell in self._read:
            writer = cell.writer
            if writer is not None and not (writer.done and writer.error is None):
                found[writer] = None
        is_poisoned = False
        for cell in self._written:
            writer = cell.writer
            if writer is not None:
                if not writer.done:
                    found[writer] = None
                elif writer.error is not None:
                    is_poisoned = True
            for reader in cell.readers:
                if not reader.done:
                    found[reader] = None
        if is_poisoned and self._all is not None:
            self._gather_between(self._writes[0], RangeSet.of(self._all()), found)

    def _gather_between(self, over: ByteRange, written: RangeSet, found: dict[Ticket, None]) -> None:
        """Add who failed to write what lies between the ranges that are written: it is not made whole."""
        for part, writer in self._dependencies.failures():
            start, stop = max(part.start, over.start), min(part.stop, over.stop)
            if start < stop and RangeSet((ByteRange(start, stop),)).difference(written):
                found[writer] = None

    def by(self, ticket: Ticket) -> None:
        """Record that the operation was issued and is done when ``ticket`` is."""
        if not (self._reads or self._writes):
            self._dependencies.held_by(ticket)
            return
        if self._generation != self._dependencies.generation:
            self._look_up()
        for cell in self._read:
            if len(cell.readers) >= cell.limit:
                cell.tidy()
            cell.readers.append(ticket)
        if ticket.done:
            for cell in self._written:
                cell.overtaken(ticket)
            return
        for cell in self._written:
            cell.writer = ticket
            if cell.readers:
                cell.readers = []
        if not self._is_repeated:
            # Many operations are issued once: do not let them leave ever more cells behind.
            self._is_repeated = True
            self._dependencies.unite(self._writes)

    def _look_up(self) -> None:
        self._read, self._written = self._dependencies.divide(self._reads, self._writes)
        self._generation = self._dependencies.generation


def _few(ranges: Sequence[ByteRange]) -> Sequence[ByteRange]:
    if len(ranges) <= RANGES_MAX:
        return ranges
    return (ByteRange(ranges[0].start, ranges[-1].stop),)
