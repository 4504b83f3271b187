"""Copies of many short ranges at equal distances as few copies of rows: columns of a matrix, say.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sdi.intervals import ByteRange
from sdi.region import Region
from sdi.vmem.directory import Copy

ROWS_MIN = 3
"""Fewer ranges are copied one by one."""


@dataclass(slots=True)
class _RowsRun:
    """Copies between the same memories, of the same length and at the same distance."""

    copies: list[Copy]
    pitch: int = 0

    def takes(self, copy: Copy) -> bool:
        """Add ``copy`` if it goes on with the run."""
        last = self.copies[-1]
        pitch = copy.over.start - last.over.start
        is_next = copy.target == last.target and copy.over.nbytes == last.over.nbytes <= pitch
        if not is_next or pitch != (self.pitch or pitch):
            return False
        self.pitch = pitch
        self.copies.append(copy)
        return True

    def planned(self) -> list[tuple[Copy, Region]]:
        first, last = self.copies[0], self.copies[-1]
        if len(self.copies) < ROWS_MIN:
            return [_plain(copy) for copy in self.copies]
        rows = Region(first.over.start, first.over.nbytes, ((self.pitch, len(self.copies)),))
        return [(Copy(first.source, first.target, ByteRange(first.over.start, last.over.stop)), rows)]


def in_rows(copies: Sequence[Copy]) -> list[tuple[Copy, Region]]:
    """The same copies, which are disjoint and in order, with runs of ``ROWS_MIN`` or more as one.

    Each with its region; of rows ``over`` is from the first one to the last.
    """
    if len(copies) < ROWS_MIN:
        return [_plain(copy) for copy in copies]
    running: dict[int, _RowsRun] = {}
    found: list[tuple[Copy, Region]] = []
    for copy in copies:
        run = running.get(copy.source)
        if run is None or not run.takes(copy):
            if run is not None:
                found += run.planned()
            running[copy.source] = _RowsRun([copy])
    for run in running.values():
        found += run.planned()
    return found


def _plain(copy: Copy) -> tuple[Copy, Region]:
    return copy, Region(copy.over.start, copy.over.nbytes)


def ranges_of(over: ByteRange, region: Region, most: int) -> tuple[ByteRange, ...]:
    """The ranges that such a copy touches, or ``over`` if there are more than ``most``."""
    if not region.levels or region.num_runs > most:
        return (over,)
    return tuple(region.runs())
