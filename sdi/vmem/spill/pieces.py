"""Which pieces of a file are in memory, and which go first when they are too many."""

from __future__ import annotations

from typing import Final

from sdi.dataclass import dataclass


@dataclass(slots=True)
class _HeldPiece:
    """``uses``: under way.  ``changed_nbytes``: of it, that are not on disk."""

    uses: int = 0
    changed_nbytes: int = 0
    is_here: bool = False


class Pieces:
    """Of ``piece_nbytes`` each, by number; no more than ``limit_nbytes`` are to be in memory.

    Those that are used stay, so there may be more for a while.  What was used longest ago goes first.
    """

    def __init__(self, limit_nbytes: int, piece_nbytes: int) -> None:
        self.piece_nbytes: Final = piece_nbytes
        self.most: Final = max(1, limit_nbytes // piece_nbytes)
        self.num_here = self.peak = 0
        self._pieces: dict[int, _HeldPiece] = {}  # used longest ago first
        self._stored: set[int] = set()

    def numbers(self, start: int, stop: int) -> range:
        """Those that have bytes ``[start, stop)`` of the file."""
        return range(start // self.piece_nbytes, -(-stop // self.piece_nbytes))

    def begin(self, number: int) -> None:
        """A piece is going to be used; ``end`` has to follow."""
        piece = self._pieces.pop(number, None) or _HeldPiece()
        piece.uses += 1
        self._pieces[number] = piece

    def enter(self, number: int) -> bool:
        """A piece that is going to be used comes to memory; whether it has to be read for that."""
        piece = self._pieces[number]
        if piece.is_here:
            return False
        piece.is_here = True
        self.num_here += 1
        self.peak = max(self.peak, self.num_here)
        return number in self._stored

    def end(self, number: int, changed_nbytes: int) -> bool:
        """A use is over that changed so many bytes; whether the piece was read for it, unasked."""
        was_read = self.enter(number)
        piece = self._pieces[number]
        piece.uses -= 1
        piece.changed_nbytes = min(self.piece_nbytes, piece.changed_nbytes + changed_nbytes)
        return was_read

    def is_stored(self, number: int) -> bool:
        """Whether a piece is on disk alone: writing some of it would read it first."""
        piece = self._pieces.get(number)
        return number in self._stored and (piece is None or not piece.is_here)

    def forget(self, start: int, stop: int) -> None:
        """Bytes ``[start, stop)``, which nobody uses, mean nothing any more."""
        for number in range(-(-start // self.piece_nbytes), stop // self.piece_nbytes):
            self._stored.discard(number)
            piece = self._pieces.get(number)
            if piece is not None and not piece.uses:
                del self._pieces[number]
                self.num_here -= 1

    @property
    def has_room(self) -> bool:
        """Whether one more may come to memory."""
        return self.num_here < self.most

    def is_awaited(self, number: int) -> bool:
        """Whether a piece is going to be used and is not in memory."""
        piece = self._pieces.get(number)
        return piece is not None and piece.uses > 0 and not piece.is_here

    def victim(self, coming: int = 0) -> tuple[int, int] | None:
        """What has to go for so many to come, and how much of it is not on disk; None: nothing can."""
        if self.num_here + coming <= self.most:
            return None
        for number, piece in self._pieces.items():
            if piece.is_here and not piece.uses:
                del self._pieces[number]
                self.num_here -= 1
                if piece.changed_nbytes:
                    self._stored.add(number)
                return number, piece.changed_nbytes
        return None

    def check(self) -> None:
        """Raise AssertionError where it contradicts itself."""
        assert self.num_here == sum(piece.is_here for piece in self._pieces.values())
        assert all(piece.uses >= 0 for piece in self._pieces.values())
        assert all(piece.uses or piece.is_here for piece in self._pieces.values())
