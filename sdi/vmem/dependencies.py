"""Dependencies: which tickets an access to bytes of one memory has to wait for (RAW, WAR and WAW edges).

The bytes of a buffer are divided into *cells*, each the bytes that the same accesses touched, wherever they
lie.  A launch that is repeated touches the same cells each time: ``Use`` looks them up once and again only
after the division changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.region import Bytes
from sdi.region_map import RegionMap
from sdi.vmem.replayed import Replayed

_ENTRIES = 64
"""So many entries may be there before cells that are alike become one."""
_READERS = 4
"""So many readers are kept before those that are done go; then again after as many more as were left."""


class _Cell:
    """Accesses to ``nbytes`` bytes: the last issued writer and the readers issued since.

    ``limit``: so many readers may be there before those that are done go.
    """

    __slots__ = ("limit", "nbytes", "readers", "writer")

    def __init__(self, nbytes: int, writer: Ticket | None = None, readers: Sequence[Ticket] = ()) -> None:
        self.nbytes = nbytes
        self.writer = writer
        self.readers = list(readers)
        self.limit = _READERS

    def taken(self, nbytes: int) -> _Cell:
        """So many bytes of it as a cell of their own."""
        self.nbytes -= nbytes
        return _Cell(nbytes, self.writer, self.readers)

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
    ``replayed``: of a member of another node, the buffer's; ``memory``: then that member's.
    """

    __slots__ = (
        "_cells",
        "_holders",
        "_limit",
        "_seen",
        "_whole",
        "generation",
        "memory",
        "nbytes",
        "poisoned",
        "replayed",
    )

    def __init__(self, nbytes: int, replayed: Replayed | None = None, memory: int = 0) -> None:
        self.nbytes = nbytes
        self.generation = 0
        self.poisoned = False
        self.replayed = replayed
        self.memory = memory
        self._seen = 0
        self._whole = ByteRange(0, nbytes)
        self._cells = RegionMap(nbytes, _Cell(nbytes))
        self._limit = _ENTRIES
        self._holders: list[Ticket] = []

    def before_read(self, over: Bytes) -> list[Ticket]:
        """Tickets that make ``over`` true here; failed ones included, completed ones left out."""
        return self.use((over,), ()).waits()

    def before_write(self, over: Bytes) -> list[Ticket]:
        """Tickets of all pending accesses to ``over``."""
        return self.use((), (over,)).waits()

    def read_by(self, over: Bytes, ticket: Ticket) -> None:
        """Record a read of ``over`` that is done when ``ticket`` is."""
        self.use((over,), ()).by(ticket)

    def written_by(self, over: Bytes, ticket: Ticket) -> None:
        """Record that ``over`` holds its bytes once ``ticket`` is done."""
        self.use((), (over,)).by(ticket)

    def use(self, reads: Sequence[Bytes], writes: Sequence[Bytes]) -> Use:
        """An access that can be made any number of times.  The regions of each are disjoint."""
        return Use(self, reads, writes)

    def pending(self) -> list[Ticket]:
        """All tickets not done yet: the memory must stay until they are."""
        holders = [ticket for ticket in self._holders if not ticket.done]
        return self.use((), (self._whole,)).waits(holders)

    def catch_up(self) -> None:
        """Record what replays did here of which nothing is known yet."""
        replayed = self.replayed
        if replayed is None or self._seen == replayed.count:
            return
        seen, self._seen = self._seen, replayed.count
        for replay in replayed.since(seen):
            for use, operation in replay.accesses.get(self, ()):
                use.record(replay.ticket(operation))

    def is_idle(self) -> bool:
        """Whether all that was recorded is done."""
        self.catch_up()
        for cell in self._cells.values(self._whole):
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

    def failed(self) -> list[Bytes]:
        """The bytes whose last writer failed."""
        self.catch_up()
        return [over for over, cell in self._cells.items(self._whole) if cell.failure() is not None]

    def forget_failures(self, regions: Sequence[Bytes]) -> None:
        """What is in ``regions`` does not count any more: nobody reads it here before it is written."""
        self.catch_up()
        for cell in self.cells(regions):
            if cell.failure() is not None:
                cell.writer = None

    def tidy(self) -> None:
        """Make cells with the same accesses one, idle ones above all, where there are very many."""
        if len(self._cells) <= self._limit:
            return
        alike: dict[tuple[Ticket | None, ...], _Cell] = {}
        by: dict[_Cell, _Cell] = {}

        def first(cell: _Cell) -> _Cell:
            found = by.get(cell)
            if found is None:
                if cell.writer is not None or cell.readers:
                    cell.tidy()
                found = by[cell] = alike.setdefault((cell.writer, *cell.readers), cell)
                if found is not cell:
                    found.nbytes += cell.nbytes
            return found

        self._cells.update(self._whole, first)
        self.generation += 1
        self._limit = max(_ENTRIES, 3 * len(self._cells))

    def beneath(self, regions: Sequence[Bytes]) -> list[_Cell]:
        """The cells that have bytes of ``regions``, some perhaps more than once; nothing is divided."""
        if len(regions) == 1:
            return self._cells.values(regions[0])
        return [cell for each in regions for cell in self._cells.values(each)]

    def once(self, reads: Sequence[Bytes], writes: Sequence[Bytes], ticket: Ticket) -> list[_Cell]:
        """Record what ``ticket`` will write; the other cells that it reads.

        What it wrote is one cell: most are issued once only, and do not leave ever more of them behind.
        """
        cells, written = self._cells, None
        self.tidy()
        if writes:
            written = _Cell(0, ticket)
            for each in writes:
                for cell, nbytes in cells.sizes(each):
                    cell.nbytes -= nbytes
                    written.nbytes += nbytes
                cells.assign(each, written)
            self.generation += 1
        found = self.cells(reads) if reads else []
        if written in found:
            found.remove(written)
        return found

    def cells(self, regions: Sequence[Bytes]) -> list[_Cell]:
        """The cells that make up ``regions``; what others have of them is taken from these."""
        inside: dict[_Cell, int] = {}
        for each in regions:
            for cell, nbytes in self._cells.sizes(each):
                inside[cell] = inside.get(cell, 0) + nbytes
        taken: dict[_Cell, _Cell] = {}
        for cell, nbytes in inside.items():
            if nbytes < cell.nbytes:
                taken[cell] = cell.taken(nbytes)
        if not taken:
            return list(inside)
        self.generation += 1
        if len(inside) == len(regions) == 1:
            ((_, own),) = taken.items()
            self._cells.assign(regions[0], own)
            return [own]
        for each in regions:
            self._cells.update(each, lambda cell: taken.get(cell, cell))
        return [taken.get(cell, cell) for cell in inside]

    def check(self) -> None:
        """Assert the invariants (for tests)."""
        self._cells.check()
        nbytes: dict[_Cell, int] = {}
        for over, cell in self._cells.items(self._whole):
            nbytes[cell] = nbytes.get(cell, 0) + over.total_nbytes
        assert all(cell.nbytes == total for cell, total in nbytes.items())


class Use:
    """What one operation reads and writes of a buffer in one memory, each time it is issued."""

    __slots__ = ("_dependencies", "_generation", "_is_repeated", "_read", "_reads", "_writes", "_written")

    def __init__(self, dependencies: Dependencies, reads: Sequence[Bytes], writes: Sequence[Bytes]) -> None:
        self._dependencies = dependencies
        self._reads = reads
        self._writes = writes
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

    @property
    def touches(self) -> tuple[Dependencies, Sequence[Bytes], Sequence[Bytes]]:
        """Of what it is a use, what it reads there, and what it writes."""
        return self._dependencies, self._reads, self._writes

    def gather(self, found: dict[Ticket, None]) -> None:
        """Add what the operation waits for."""
        of = self._dependencies
        if of.replayed is not None:
            of.catch_up()
        if not self._is_repeated:
            self._read = of.beneath(self._reads) if self._reads else []
            self._written = of.beneath(self._writes) if self._writes else []
            self._generation = -1
        elif self._generation != of.generation:
            self._look_up()
        for cell in self._read:
            writer = cell.writer
            if writer is not None and not (writer.done and writer.error is None):
                found[writer] = None
        for cell in self._written:
            writer = cell.writer
            if writer is not None and not writer.done:
                found[writer] = None
            for reader in cell.readers:
                if not reader.done:
                    found[reader] = None

    def by(self, ticket: Ticket) -> None:
        """Record that the operation was issued and is done when ``ticket`` is."""
        of = self._dependencies
        if of.replayed is not None:
            of.catch_up()
            of.replayed.change(of.memory)
        self.record(ticket)

    def record(self, ticket: Ticket) -> None:
        """The same, where all that replays did before is known."""
        if not (self._reads or self._writes):
            self._dependencies.held_by(ticket)
            return
        if not (self._is_repeated or ticket.done):
            self._is_repeated = True
            self._read, self._written = self._dependencies.once(self._reads, self._writes, ticket), []
        elif self._generation != self._dependencies.generation:
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

    def _look_up(self) -> None:
        of, reads, writes = self._dependencies, self._reads, self._writes
        of.tidy()
        self._read = of.cells(reads) if reads else []
        generation = of.generation
        self._written = of.cells(writes) if writes else []
        if reads and of.generation != generation:
            self._read = of.cells(reads)
        self._generation = of.generation
