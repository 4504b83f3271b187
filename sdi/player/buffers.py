"""Cells of buffers, and what the player knows of each: so it can recycle and reuse them without Python."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from sdi.cells import Cells
from sdi.player import library as c
from sdi.vmem.buffer import VirtualBuffer

_Fresh = ctypes.c_uint32 * 2


class Buffers:
    """Buffers that recordings name.  Owned by: whoever has the turn.

    ``segments``: the player's, by buffer and memory.
    """

    def __init__(
        self, quick: ctypes.PyDLL, handle: int, cells: Cells, segments: Mapping[tuple[int, int], int]
    ) -> None:
        self._quick = quick
        self._handle = handle
        self._cells = cells
        self._segments = segments
        self._cells_of: dict[int, tuple[int, int, int]] = {}
        self._free: list[tuple[int, int, int]] = []
        self._followed: dict[int, VirtualBuffer] = {}
        self._untold: set[int] = set()
        self._told = (c.Recycled * c.BUFFERS_MAX)()

    def cells_of(self, buffer: VirtualBuffer) -> tuple[int, int, int] | None:
        """Its cells: of its places, of its residency, of its stage; None where there are none left."""
        found = self._cells_of.get(buffer.id)
        if found is None:
            new = self._cells.new
            found = self._free.pop() if self._free else (new(), new(), new())
            if not found[2]:
                self._cells.give_back(*found)
                return None
            self._cells_of[buffer.id] = found
            self._followed[buffer.id] = buffer
            buffer.follow(self._cells, found[0], found[2])
            # Recordings name states by numbers; those that are forgotten go with the buffer's places.
            buffer.directory.mirror(self._cells.at, found[1], buffer.moved)
            buffer.on_release.add(self._forget)
            self._untold.add(buffer.id)
        if buffer.id in self._untold:
            self._tell(buffer, found)
        return found

    def _tell(self, buffer: VirtualBuffer, cells: tuple[int, int, int]) -> None:
        """Where the player has no room for it, or orders it with others, its releases are Python's."""
        if buffer.is_one_of_many:
            self._untold.discard(buffer.id)
            return
        directory = buffer.directory
        fresh = _Fresh(*(directory.number_of(directory.fresh(defined)) for defined in (False, True)))
        if self._quick.sdi_player_buffer(self._handle, buffer.id, cells[1], cells[2], fresh):
            self._untold.discard(buffer.id)
            for memory in range(len(buffer.dependencies)):
                segment = self._segments.get((buffer.id, memory))
                if segment is not None:
                    self.has_segment(buffer, segment)

    def has_segment(self, buffer: VirtualBuffer, segment: int) -> None:
        """One of its memories has one now."""
        self._quick.sdi_player_buffer_segment(self._handle, buffer.id, segment)

    def _forget(self, buffer: int) -> None:
        """It is released, and writes to its cells no more: others get them, each for the same kind of fact.

        The first one goes on from its value, so that no recording finds what it expects by chance.
        """
        self._quick.sdi_player_no_buffer(self._handle, buffer)
        self._untold.discard(buffer)
        cells, gone = self._cells_of.pop(buffer), self._followed.pop(buffer)
        gone.unfollow()
        self._cells.changed(cells[0])
        self._cells.at[cells[1]] = self._cells.at[cells[2]] = 0
        self._free.append(cells)

    def forget_all(self) -> None:
        """There are no recordings any more: all cells go back."""
        for buffer in self._followed.values():
            self._quick.sdi_player_no_buffer(self._handle, buffer.id)
            buffer.unfollow()
            buffer.on_release.discard(self._forget)
        for cells in (*self._cells_of.values(), *self._free):
            self._cells.give_back(*cells)
        self._followed.clear()
        self._untold.clear()
        self._cells_of.clear()
        self._free.clear()

    def recycled(self, takes_over: bool) -> list[c.Recycled]:
        """Those that the player recycled or reused, the first that was recycled first; directories say so.

        ``takes_over``: also those that are in use yet, of which Python is to say when they may be used.
        """
        count = self._quick.sdi_player_recycled(self._handle, self._told, takes_over)
        found = sorted(self._told[:count], key=lambda told: told.recycled_ns)
        for told in found:
            self._followed[told.id].directory.follow(is_new=True)
        return found
