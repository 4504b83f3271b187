"""Host memory that a driver has page-locked, slab by slab: copies of it are faster and do not block.

Who owns a mapping *offers* it; copies lock what they use often; the mapping's owner asks before it gives
pages back, since a locked page that is replaced would leave the driver with the old one.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sdi.errors import DeviceFailed

_log = logging.getLogger(__name__)

SLAB_NBYTES = 64 << 20
RUN_NBYTES = 1 << 30
"""Slabs beside each other are locked in one call of the driver, up to so many bytes."""

Driver = tuple[Callable[[int, int], None], Callable[[int], None]]
"""(lock address and bytes, unlock address); the first raises DeviceFailed."""


@dataclass(slots=True)
class _Region:
    """An offered mapping, less the slabs at its ends that another region has.

    ``copied``: bytes copied so far, by slab; ``runs``: addresses of locked runs.
    """

    address: int
    begin: int
    end: int
    copied: dict[int, int] = field(default_factory=dict)
    runs: list[int] = field(default_factory=list)


class PageLocks:
    """Which host memory is locked.  Any thread; locking takes 0.07 s per GiB and blocks others that lock.

    Slabs begin at multiples of ``SLAB_NBYTES`` and end with their region.  ``limit_nbytes``: no more is
    locked because it is copied often; None: half of the machine's memory.
    """

    def __init__(self, limit_nbytes: int | None = None) -> None:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._limit: Final = memory // 2 if limit_nbytes is None else limit_nbytes
        self._changing: Final = threading.Lock()
        self._regions: Final[list[_Region]] = []
        self._locked: Final[dict[int, tuple[int, int]]] = {}  # by slab: its begin and end
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
            for slab, (begin, end) in list(self._locked.items()):
                if region.begin <= begin < region.end:
                    del self._locked[slab]
                    self._locked_nbytes -= end - begin
            for run in region.runs:
                assert self._driver is not None
                self._driver[1](run)

    def holds(self, host: memoryview) -> bool:
        """Whether all of ``host`` is locked."""
        if not self._locked or host.readonly:
            return False
        begin = ctypes.addressof(ctypes.c_char.from_buffer(host))
        end = begin + host.nbytes
        locked = self._locked
        for slab in range(begin // SLAB_NBYTES, (end - 1) // SLAB_NBYTES + 1):
            found = locked.get(slab)
            if found is None or max(begin, slab * SLAB_NBYTES) < found[0]:
                return False
            if min(end, (slab + 1) * SLAB_NBYTES) > found[1]:
                return False
        return True

    def copying(self, host: memoryview) -> None:
        """``host`` is about to be copied: lock those of its slabs of which half was copied by now.

        The first slab of a region, where many small things are, is locked at once.
        """
        if host.readonly or self._driver is None or self._refused:
            return
        begin = ctypes.addressof(ctypes.c_char.from_buffer(host))
        end = begin + host.nbytes
        with self._changing:
            region = self._region(begin, end)
            if region is None:
                return
            due: list[int] = []
            first = region.begin // SLAB_NBYTES
            for slab in range(begin // SLAB_NBYTES, -(-end // SLAB_NBYTES)):
                if slab in self._locked:
                    continue
                low, high = _begin(slab, region), _end(slab, region)
                copied = region.copied.get(slab, 0) + min(end, high) - max(begin, low)
                region.copied[slab] = copied
                if 2 * copied >= high - low or slab == first:
                    due.append(slab)
            nbytes = sum(_end(slab, region) - _begin(slab, region) for slab in due)
            if not due or self._locked_nbytes + nbytes > self._limit:
                return
            try:
                self._lock(region, due)
            except DeviceFailed as cause:
                self._refused = True
                _log.warning("host memory is not page-locked, copies take several times longer: %s", cause)

    def lock(self, host: memoryview) -> int:
        """Lock all of ``host`` now; its address.  Raises DeviceFailed, also outside of every region."""
        begin = ctypes.addressof(ctypes.c_char.from_buffer(host))
        end = begin + host.nbytes
        with self._changing:
            region = self._region(begin, end)
            if region is None or self._driver is None:
                raise DeviceFailed("host", f"{host.nbytes} bytes at {begin:#x} can't be page-locked")
            slabs = range(begin // SLAB_NBYTES, -(-end // SLAB_NBYTES))
            self._lock(region, [slab for slab in slabs if slab not in self._locked])
        return begin

    def unless_locked(self, address: int, nbytes: int, then: Callable[[], object]) -> bool:
        """Call ``then``, which gives pages back, if none of them is locked; whether it did."""
        slabs = range(address // SLAB_NBYTES, -(-(address + nbytes) // SLAB_NBYTES))
        with self._changing:
            if any(slab in self._locked for slab in slabs):
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
        self._locked.update((slab, (_begin(slab, region), _end(slab, region))) for slab in run)


def _begin(slab: int, region: _Region) -> int:
    return max(slab * SLAB_NBYTES, region.begin)


def _end(slab: int, region: _Region) -> int:
    return min((slab + 1) * SLAB_NBYTES, region.end)


PAGE_LOCKS = PageLocks()
"""One for the process: pages are locked for all members at once."""
