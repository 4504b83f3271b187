"""Brings pieces of the file to memory before they are used, and has them go again: two threads."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from typing import Final

from sdi.dataclass import dataclass
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.region import Region, as_region, within
from sdi.vmem.accounting import Events
from sdi.vmem.arena import PAGE_NBYTES, Arena
from sdi.vmem.spill.budget import Spill
from sdi.vmem.spill.file import SpillFile, libc
from sdi.vmem.spill.pieces import Pieces

_log = logging.getLogger("sdi.spill")

PIECE_NBYTES = 8 << 20
_PIECES_LEAST = 8
_WRITE_AT_ONCE_NBYTES = 256 << 10
"""Less is written with what is changed beside it later."""
_DONTNEED, _POPULATE_READ, _POPULATE_WRITE = 4, 22, 23


@dataclass(slots=True)
class FileTraffic:
    """``..._ns``: time for which the disk was waited for."""

    read_nbytes: int = 0
    written_nbytes: int = 0
    read_ns: int = 0
    written_ns: int = 0


class _Worker:
    """A thread that does one task after the other."""

    def __init__(self, name: str) -> None:
        self._tasks: Final[SimpleQueue[Callable[[], None] | None]] = SimpleQueue()
        self.put: Final = self._tasks.put
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Once it has done all that it was given."""
        self._tasks.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:
                _log.exception("a task of the file failed")


class Spilling:
    """What is in memory of the part of ``arena`` that lies in ``file``: at most ``limit_nbytes``, more only
    while more is used at a time.

    It decides what is fast, never what is right: the bytes are mapped all the time, and the kernel brings
    those that it was not told of.  ``use``: by sdi-scheduler; the threads are ``sdi-spill-read`` and
    ``sdi-spill-write``.
    """

    def __init__(self, arena: Arena, file: SpillFile, limit_nbytes: int) -> None:
        self.traffic: Final = FileTraffic()
        self._arena: Final = arena
        self._file: Final = file
        least = limit_nbytes // _PIECES_LEAST // PAGE_NBYTES * PAGE_NBYTES
        self._pieces: Final = Pieces(limit_nbytes, max(PAGE_NBYTES, min(PIECE_NBYTES, least)))
        self._lock: Final = threading.Lock()  # of the pieces
        self._later: Final[deque[int]] = deque()  # pieces to be read that there was no room for
        self._reads: Final = _Worker("sdi-spill-read")
        self._writes: Final = _Worker("sdi-spill-write")

    def covers(self, offset: int, nbytes: int) -> bool:
        """Whether any of these bytes of the arena lies in the file."""
        return offset + nbytes > self._arena.file_offset

    def parts(self, offset: int, region: Region) -> list[Region]:
        """``region`` of a buffer at ``offset`` of the arena, in parts that are brought one by one."""
        if region.levels:
            return [region]
        size, first = self._pieces.piece_nbytes, self._arena.file_offset - offset
        start, stop = region.base, region.base + region.nbytes
        begin = max(start, first)
        cuts = {start, stop, *range(begin + (first - begin) % size, stop, size)}
        pairs = pairwise(sorted(cuts))
        return [as_region(part) for low, high in pairs for part in within(region, low, high)]

    def use(self, offset: int, nbytes: int) -> FileUse:
        """Bytes of the arena are going to be used; ``FileUse.until`` has to follow."""
        first = self._arena.file_offset
        start, stop = max(offset - first, 0), max(offset + nbytes - first, 0)
        with self._lock:
            for number in self._pieces.numbers(start, stop):
                self._pieces.begin(number)
        return FileUse(self, start, stop)

    def freed(self, offset: int, nbytes: int) -> None:
        """Bytes of the arena were given back."""
        first = self._arena.file_offset
        with self._lock:
            self._pieces.forget(max(offset - first, 0), max(offset + nbytes - first, 0))

    def count(self, events: Events) -> None:
        """Write down what files were used for so far."""
        traffic, pieces = self.traffic, self._pieces
        events.file_read_nbytes, events.file_read_ns = traffic.read_nbytes, traffic.read_ns
        events.file_written_nbytes, events.file_written_ns = traffic.written_nbytes, traffic.written_ns
        events.file_cached_nbytes = pieces.peak * pieces.piece_nbytes
        events.file_nbytes = self._file.most_nbytes

    def close(self) -> None:
        """Nothing is under way any more."""
        self._writes.close()
        self._reads.close()

    def fetch(self, use: FileUse, ticket: Ticket | None = None) -> None:
        """Have it read, as far as there is room; or all of it, and then ``ticket`` is done."""
        numbers = self._pieces.numbers(use.start, use.stop)
        self._reads.put(partial(self._fetch, deque(numbers), ticket))

    def zero(self, use: FileUse, ticket: Ticket) -> None:
        """All of it is about to be overwritten, once ``ticket`` is done: its pages are there then."""
        self._writes.put(partial(self._zero, use, ticket))

    def end(self, use: FileUse, changed_nbytes: int) -> None:
        """The use is over."""
        self._writes.put(partial(self._end, use, changed_nbytes))

    def is_stored(self, use: FileUse) -> bool:
        """Whether some of it is on disk alone."""
        with self._lock:
            return any(map(self._pieces.is_stored, self._pieces.numbers(use.start, use.stop)))

    def _fetch(self, numbers: deque[int], ticket: Ticket | None = None) -> None:
        try:
            self._read(numbers, ticket is not None)
        finally:
            if ticket is not None:
                ticket.complete()

    def _read(self, numbers: deque[int], is_urgent: bool) -> None:
        size = self._pieces.piece_nbytes
        while numbers:
            number = numbers[0]
            self._make_room(2)
            with self._lock:
                is_wanted = self._pieces.is_awaited(number)
                if is_wanted and not is_urgent and not self._pieces.has_room:
                    self._later.extend(numbers)
                    return
                has_to_read = is_wanted and self._pieces.enter(number)
                is_next = self._pieces.has_room and self._pieces.is_awaited(number + 1)
            numbers.popleft()
            if not has_to_read:
                continue
            begin_ns = time.monotonic_ns()
            self._file.fetch(number * size, 2 * size if is_next else size)
            self._advise(self._arena.address, number, _POPULATE_READ)
            with self._lock:
                self.traffic.read_ns += time.monotonic_ns() - begin_ns
                self.traffic.read_nbytes += size

    def _zero(self, use: FileUse, ticket: Ticket) -> None:
        start, stop = -(-use.start // PAGE_NBYTES) * PAGE_NBYTES, use.stop // PAGE_NBYTES * PAGE_NBYTES
        try:
            if start < stop:
                if self.is_stored(use):
                    self._file.zero(start, stop - start)
                first = self._arena.address + self._arena.file_offset
                libc.madvise(first + start, stop - start, _POPULATE_WRITE)
                with self._lock:
                    for number in self._pieces.numbers(start, stop):
                        self._pieces.enter(number)
        except OSError:
            _log.debug("zero", exc_info=True)  # then it is read
        finally:
            ticket.complete()

    def _end(self, use: FileUse, changed_nbytes: int) -> None:
        size, left_nbytes = self._pieces.piece_nbytes, changed_nbytes
        for number in self._pieces.numbers(use.start, use.stop):
            inside = min(use.stop, (number + 1) * size) - max(use.start, number * size)
            changed = min(left_nbytes, inside)
            left_nbytes -= changed
            with self._lock:
                if self._pieces.end(number, changed):
                    self.traffic.read_nbytes += inside
            if changed >= min(size, _WRITE_AT_ONCE_NBYTES):
                begin_ns = time.monotonic_ns()
                self._file.begin_writing(number * size, size)
                self._wrote(0, begin_ns)
            self._make_room()
        with self._lock:
            later = deque(self._later)
            self._later.clear()
        if later:
            self._reads.put(partial(self._fetch, later))

    def _make_room(self, coming: int = 0) -> None:
        size = self._pieces.piece_nbytes
        while True:
            with self._lock:
                victim = self._pieces.victim(coming)
            if victim is None:
                return
            number, changed_nbytes = victim
            if changed_nbytes:
                begin_ns = time.monotonic_ns()
                self._file.write_out(number * size, size)
                self._wrote(changed_nbytes, begin_ns)
            for address in self._arena.addresses:
                self._advise(address, number, _DONTNEED)
            self._file.drop(number * size, size)

    def _wrote(self, nbytes: int, begin_ns: int) -> None:
        with self._lock:
            self.traffic.written_ns += time.monotonic_ns() - begin_ns
            self.traffic.written_nbytes += nbytes

    def _advise(self, address: int, number: int, advice: int) -> None:
        """For a piece in the mapping of the arena at ``address``: the last one may end before a whole piece,
        and what others have behind it is not to be touched.
        """
        size, arena = self._pieces.piece_nbytes, self._arena
        offset = arena.file_offset + number * size
        libc.madvise(address + offset, min(size, arena.nbytes - offset), advice)


class FileUse:
    """Bytes ``[start, stop)`` of the file that an operation is going to use."""

    __slots__ = ("_spilling", "start", "stop")

    def __init__(self, spilling: Spilling, start: int, stop: int) -> None:
        self._spilling = spilling
        self.start = start
        self.stop = stop

    def ahead(self) -> None:
        """Have it read as far as there is room: who uses it need not wait for that."""
        if self._spilling.is_stored(self):
            self._spilling.fetch(self)

    def fetched(self, waits: Sequence[Ticket]) -> Sequence[Ticket]:
        """What an operation waits for that reads it, and would otherwise wait for ``waits``."""
        return self._behind(waits, self._spilling.fetch) if self._spilling.is_stored(self) else waits

    def overwritten(self, waits: Sequence[Ticket]) -> Sequence[Ticket]:
        """Likewise for one that overwrites all of it."""
        return self._behind(waits, self._spilling.zero)

    def _behind(self, waits: Sequence[Ticket], then: Callable[[FileUse, Ticket], None]) -> Sequence[Ticket]:
        ticket = Ticket(self._spilling)

        def ready(error: BaseException | None) -> None:
            if error is None:
                then(self, ticket)
            else:
                ticket.complete(error)

        join(waits, ready)
        return [ticket]

    def until(self, ticket: Ticket, changed_nbytes: int = 0) -> None:
        """The operation is over once ``ticket`` is done."""
        ticket.when_done(lambda _: self._spilling.end(self, changed_nbytes))


def spilling_of(arena: Arena, spill: Spill | None) -> Spilling | None:
    """For an arena that was made with ``spill``, if that has a file."""
    if arena.file is None or spill is None:
        return None
    return Spilling(arena, arena.file, spill.cache_nbytes)
