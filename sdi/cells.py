"""Cells: facts that recordings are guarded by, as numbers that C compares.

Whoever owns a fact writes its cell when it changes; nobody looks for recordings that it makes wrong.
"""

from __future__ import annotations

import ctypes

CELL_POSTED, CELL_PYTHON_EVENTS, CELL_NO_WAITS, CELL_AWAITS, CELL_TAKEN, CELLS_RESERVED = 1, 2, 3, 4, 5, 8
"""Cells that the player knows by their number; ``CELLS_RESERVED``: the first that is not for itself.
``CELL_TAKEN``: it counts the records of the stream there, whoever acts on them.
"""
STAGE_RECYCLING, STAGE_IN_USE, STAGE_RECYCLED = range(3)
"""Of a buffer: the application has released it, and may not use it again yet; uses it; may."""
CELLS_MAX = 1 << 16
ROW = 3


class Cells:
    """Numbers of 32 bits that C reads and writes too.  ``at``: by index.  Owned by: sdi-scheduler."""

    def __init__(self) -> None:
        self.memory = (ctypes.c_uint32 * CELLS_MAX)()
        self.at = memoryview(self.memory).cast("B").cast("I")
        self._used = CELLS_RESERVED
        self._free: list[int] = []
        self._free_rows: list[int] = []

    @property
    def num_left(self) -> int:
        """How many there are to be had."""
        return CELLS_MAX - self._used + len(self._free) + ROW * len(self._free_rows)

    def give_back(self, *cells: int) -> None:
        """No recording is guarded by them any more; 0 is none."""
        self._free += filter(None, cells)

    def new(self) -> int:
        """A cell; 0 where there is none left."""
        if self._free:
            cell = self._free.pop()
            self.at[cell] = 0
            return cell
        if self._used == CELLS_MAX:
            return 0
        self._used += 1
        return self._used - 1

    def new_row(self) -> int:
        """The first of ``ROW`` cells side by side; 0 where there are none left."""
        if self._free_rows:
            first = self._free_rows.pop()
            self.at[first : first + ROW] = memoryview(bytes(4 * ROW)).cast("I")
            return first
        if self._used + ROW > CELLS_MAX:
            return 0
        self._used += ROW
        return self._used - ROW

    def give_back_row(self, first: int) -> None:
        """Likewise those of ``new_row``."""
        self._free_rows += [first] if first else []

    def changed(self, cell: int) -> None:
        """The fact of ``cell`` is another one, that was never before."""
        self.at[cell] = (self.at[cell] + 1) & 0xFFFFFFFF
