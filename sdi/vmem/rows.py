"""Copies of many short ranges at equal distances as few copies of rows: columns of a matrix, say.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sdi.devices.base import Rows
from sdi.intervals import ByteRange
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

    def planned(self) -> list[tuple[Copy, Rows | None]]:
        first, last = self.copies[0], self.copies[-1]
        if len(self.copies) < ROWS_MIN:
            return [(copy, None) for copy in self.copies]
        rows = Rows(len(self.copies), first.over.nbytes, self.pitch)
        return [(Copy(first.source, first.target, ByteRange(first.over.start, last.over.stop)), rows)]


def in_rows(copies: Sequence[Copy]) -> list[tuple[Copy, Rows | None]]:
    """The same copies, which are disjoint and in order, with runs of ``ROWS_MIN`` or more as one.

    Of such, ``over`` is from the first row to the last.
    """
    if len(copies) < ROWS_MIN:
        return [(copy, None) for copy in copies]
    running: dict[int, _RowsRun] = {}
    found: list[tuple[Copy, Rows | None]] = []
    for copy in copies:
        run = running.get(copy.source)
        if run is None or not run.takes(copy):
            if run is not None:
                found += run.planned()
            running[copy.source] = _RowsRun([copy])
    for run in running.values():
        found += run.planned()
    return found


def ranges_of(over: ByteRange, rows: Rows | None, most: int) -> tuple[ByteRange, ...]:
    """The ranges that such a copy touches, or ``over`` if there are more than ``most``."""
    if rows is None or rows.count > most:
        return (over,)
    starts = range(over.start, over.stop, rows.pitch)
    return tuple([ByteRange(start, start + rows.nbytes) for start in starts])
