"""Host memory that a driver has page-locked, slab by slab: copies of it are faster and do not block.

Who owns a mapping *offers* it; copies lock what they use often; the mapping's owner asks before it gives
pages back, since a locked page that is replaced would leave the driver with the old one.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from sdi.dataclass import dataclass, field
from sdi.errors import DeviceFailed

_log = logging.getLogger(__name__)

SLAB_NBYTES = 64 << 20
_FIRST_NBYTES = 32 << 20
"""Slabs that begin within so many bytes of a region are its first: it may begin with a small part of one."""
_NEW_PAGES = 10
"""Locking pages that nobody has touched takes so many times as long as locking others.  [M] H200 host: 64 MiB
take 25 ms, touched ones 4, which is what copying half as much gains."""
RUN_NBYTES = 1 << 30
"""Slabs beside each other are locked in one call of the driver, up to so many bytes."""

Driver = tuple[Callable[[int, int], None], Callable[[int], None]]
"""(lock address and bytes, unlock address); the first raises DeviceFailed."""


class CopyPart(NamedTuple):
    """Bytes ``[start, stop)`` of a copy."""

    start: int
    stop: int
    is_locked: bool


class _LockedSpan(NamedTuple):
    """Addresses of what is locked of a slab; ``run``: where what was locked with it begins."""

    begin: int
    end: int
    run: int


@dataclass(slots=True)
class _Region:
    """An offered mapping, less the slabs at its ends that another region has.

    ``copied``: bytes copied so far, by slab; ``touched``: from the lowest to the highest of them;
    ``runs``: addresses of locked runs.
    """

    address: int
    begin: int
    end: int
    copied: dict[int, int] = field(default_factory=dict)
    touched: dict[int, tuple[int, int]] = field(default_factory=dict)
    runs: list[int] = field(default_factory=list)


class PageLocks:
    """Which host memory is locked.  Any thread; locking takes 0.07 s per GiB and blocks others that lock.

    Slabs begin at multiples of ``SLAB_NBYTES`` and end with their region.  ``limit_nbytes``: no more is
    locked because it is copied often; None: half of the machine's memory.
    """

    def __init__(self, limit_nbytes: int | None = None) -> None:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._limit: Final = memory // 2 if limit_nbytes is None else limit_nbytes
        self._changing: Final = threading.Condition()
        self._regions: Final[list[_Region]] = []
        self._locked: Final[dict[int, _LockedSpan]] = {}
        self._busy: Final[dict[int, int]] = {}  # copies under way, by slab that is not locked
        self._elsewhere: Final[set[int]] = set()
        self._locked_nbytes = 0
        self._refused = False
        self._driver: Driver | None = None

    def use(self, driver: Driver) -> None:
        """The driver that locks; without one nothing is ever locked."""
        self._driver = driver

    def offer(self, address: int, nbytes: int) -> None:
        """``nbytes`` from ``address`` may be locked; they stay mapped until ``withdraw``."""
        with self._changing:
            begin, end = address, address + nbytes
            for other in self._regions:
                if begin // SLAB_NBYTES == (other.end - 1) // SLAB_NBYTES:
                    begin = (begin // SLAB_NBYTES + 1) * SLAB_NBYTES
                if (end - 1) // SLAB_NBYTES == other.begin // SLAB_NBYTES:
                    end = (end - 1) // SLAB_NBYTES * SLAB_NBYTES
            self._regions.append(_Region(address, begin, max(begin, end)))

    def withdraw(self, address: int) -> None:
        """Undo ``offer``; no copy of the region may be pending."""
        with self._changing:
            region = next((each for each in self._regions if each.address == address), None)
            if region is None:
                return
            self._regions.remove(region)
            for slab, place in list(self._locked.items()):
                if region.begin <= place.begin < region.end:
                    del self._locked[slab]
                    self._locked_nbytes -= place.end - place.begin
            for run in region.runs:
                assert self._driver is not None
                self._driver[1](run)
            bounds = _slabs(region.begin, region.end)
            self._elsewhere.difference_update([slab for slab in self._elsewhere if slab in bounds])

    @property
    def locks(self) -> bool:
        """Whether any memory is ever locked."""
        return self._driver is not None

    def keep(self, address: int, nbytes: int) -> None:
        """Another process may lock this memory with what lies around it, in slabs of its own: as long as it
        is offered here none of these pages is given back.
        """
        slabs = _slabs(address - SLAB_NBYTES, address + nbytes + SLAB_NBYTES)
        if not self._elsewhere.issuperset(slabs):
            with self._changing:
                self._elsewhere.update(slabs)

    def parts(self, host: memoryview) -> list[CopyPart]:
        """``host`` in parts, each locked by one call of the driver or not at all: no copy may span two."""
        if not self._locked or host.readonly:
            return [CopyPart(0, host.nbytes, False)]
        begin = ctypes.addressof(ctypes.c_char.from_buffer(host))
        return self._parts(begin, begin + host.nbytes)

    def _parts(self, begin: int, end: int) -> list[CopyPart]:
        found: list[CopyPart] = []
        run: int | None = None
        at = begin
        locked = self._locked.get
        while at < end:
            place = locked(at // SLAB_NBYTES)
            stop = min(end, (at // SLAB_NBYTES + 1) * SLAB_NBYTES)
            here: int | None = None
            if place is not None:
                if at < place.begin:
                    stop = min(end, place.begin)
                elif at < place.end:
                    stop, here = min(end, place.end), place.run
            if found and here == run:
                found[-1] = CopyPart(found[-1].start, stop - begin, here is not None)
            else:
                found.append(CopyPart(at - begin, stop - begin, here is not None))
            run, at = here, stop
        return found

    def holds(self, host: memoryview) -> bool:
        """Whether all of ``host`` is locked."""
        return all(part.is_locked for part in self.parts(host))

    @staticmethod
    def is_within_slab(host: memoryview) -> bool:
        """Whether ``host`` becomes locked as a whole, if it does."""
        if host.readonly:
            return True
        begin = ctypes.addressof(ctypes.c_char.from_buffer(host))
        return begin // SLAB_NBYTES == (begin + host.nbytes - 1) // SLAB_NBYTES

    @contextlib.contextmanager
    def copying(self, host: memoryview) -> Iterator[list[CopyPart]]:
        """``host``, of which some is not locked, is copied meanwhile: its ``parts``, which stay as they are.

        First locks those of its slabs of which half was copied by now, or more where most of it was never
        touched, since locking makes those pages too; at once the first slabs of a region, where many small
        things are, and all slabs of a copy as large as one.
        """
        if host.readonly or self._driver is None:
            yield [CopyPart(0, host.nbytes, False)]
            return
        begin = ctypes.addressof(ctypes.c_char.from_buffer(host))
        end = begin + host.nbytes
        with self._changing:
            self._lock_due(begin, end)
            parts = self._parts(begin, end)
            slabs = [slab for slab in _slabs(begin, end) if slab not in self._locked]
            for slab in slabs:
                self._busy[slab] = self._busy.get(slab, 0) + 1
        try:
            yield parts
        finally:
            with self._changing:
                for slab in slabs:
                    self._busy[slab] -= 1
                    if not self._busy[slab]:
                        del self._busy[slab]
                self._changing.notify_all()

    def _lock_due(self, begin: int, end: int) -> None:
        region = self._region(begin, end)
        if region is None or self._refused:
            return
        due: list[int] = []
        is_large = end - begin >= SLAB_NBYTES
        for slab in _slabs(begin, end):
            if slab in self._locked:
                continue
            low, high = _begin(slab, region), _end(slab, region)
            here, to = max(begin, low), min(end, high)
            copied = region.copied[slab] = region.copied.get(slab, 0) + to - here
            first, last = region.touched.get(slab, (here, to))
            region.touched[slab] = first, last = min(first, here), max(last, to)
            untouched = max(0, (high - low) // 2 - (last - first))
            is_first = low < region.begin + _FIRST_NBYTES
            is_due = 2 * copied >= high - low + _NEW_PAGES * untouched
            if (is_due or is_first or is_large) and slab not in self._busy:
                due.append(slab)
        nbytes = sum(_end(slab, region) - _begin(slab, region) for slab in due)
        if not due or self._locked_nbytes + nbytes > self._limit:
            return
        try:
            self._lock(region, due)
        except DeviceFailed as cause:
            self._refused = True
            _log.warning("host memory is not page-locked, copies take several times longer: %s", cause)

    def offers(self, host: memoryview) -> bool:
        """Whether all of ``host`` may be locked."""
        begin = ctypes.addressof(ctypes.c_char.from_buffer(host))
        with self._changing:
            return self._driver is not None and self._region(begin, begin + host.nbytes) is not None

    def lock(self, host: memoryview) -> int:
        """Lock all of ``host`` now; its address.  Raises DeviceFailed, also outside of every region."""
        begin = ctypes.addressof(ctypes.c_char.from_buffer(host))
        end = begin + host.nbytes
        known = self._locked.get(begin // SLAB_NBYTES)
        if known is not None and known.begin <= begin and end <= known.end:
            return begin
        with self._changing:
            region = self._region(begin, end)
            if region is None or self._driver is None:
                raise DeviceFailed("host", f"{host.nbytes} bytes at {begin:#x} can't be page-locked")
            slabs = _slabs(begin, end)
            self._changing.wait_for(lambda: not any(slab in self._busy for slab in slabs))
            self._lock(region, [slab for slab in slabs if slab not in self._locked])
        return begin

    def unless_locked(self, address: int, nbytes: int, then: Callable[[], object]) -> bool:
        """Call ``then``, which gives pages back, if none of them is locked; whether it did."""
        with self._changing:
            slabs = _slabs(address, address + nbytes)
            if any(slab in self._locked or slab in self._elsewhere for slab in slabs):
                return False
            then()
            return True

    def _region(self, begin: int, end: int) -> _Region | None:
        return next((each for each in self._regions if each.begin <= begin and end <= each.end), None)

    def _lock(self, region: _Region, slabs: list[int]) -> None:
        """Lock ``slabs``, in runs.  Raises DeviceFailed; runs locked before that stay."""
        assert self._driver is not None
        run: list[int] = []
        for slab in slabs:
            if run and (slab != run[-1] + 1 or (len(run) + 1) * SLAB_NBYTES > RUN_NBYTES):
                self._lock_run(region, run)
                run = []
            run.append(slab)
        if run:
            self._lock_run(region, run)

    def _lock_run(self, region: _Region, run: list[int]) -> None:
        assert self._driver is not None
        begin, end = _begin(run[0], region), _end(run[-1], region)
        self._driver[0](begin, end - begin)
        region.runs.append(begin)
        self._locked_nbytes += end - begin
        for slab in run:
            self._locked[slab] = _LockedSpan(_begin(slab, region), _end(slab, region), begin)


def _slabs(begin: int, end: int) -> range:
    return range(begin // SLAB_NBYTES, -(-end // SLAB_NBYTES))


def _begin(slab: int, region: _Region) -> int:
    return max(slab * SLAB_NBYTES, region.begin)


def _end(slab: int, region: _Region) -> int:
    return min((slab + 1) * SLAB_NBYTES, region.end)


PAGE_LOCKS = PageLocks()
"""One for the process: pages are locked for all members at once."""
