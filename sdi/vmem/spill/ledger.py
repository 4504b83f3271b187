"""What the files of all services of a user in one folder may have together."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from sdi.errors import ClError, Status
from sdi.sizes import size

UNIT_NBYTES = 1 << 20
_FLOCK = struct.Struct("hhqqi4x")  # type, whence, start, length, pid
_TURN = 1 << 60
"""The byte whose lock says who counts and takes now."""


class SpillLedger:
    """Bytes of an empty file stand for ``UNIT_NBYTES`` each of the limit; who has some has locked them.

    The kernel drops the locks of a process that ends in any way.  Services with other limits in the same
    folder count each other's bytes below their own.  Owned by: sdi-scheduler.
    """

    def __init__(self, path: Path, limit_nbytes: int) -> None:
        """``path``: made if it is not there; of this user's alone.  Raises OSError."""
        self.limit_nbytes: Final = limit_nbytes
        self.taken_nbytes = 0
        self._own: list[tuple[int, int]] = []
        self._path = path
        self._fd = self._opened()

    def take(self, nbytes: int) -> None:
        """Count ``nbytes`` more.  Raises ClError where the limit does not leave so much."""
        units = -(-(self.taken_nbytes + nbytes) // UNIT_NBYTES) - self._num_own
        if units > 0:
            self._begin_turn()
            try:
                free = self._free(self.limit_nbytes // UNIT_NBYTES)
                left = sum(stop - start for start, stop in free)
                if left < units:
                    used = self.limit_nbytes - left * UNIT_NBYTES
                    raise ClError(
                        Status.MEM_OBJECT_ALLOCATION_FAILURE,
                        f"files: {size(nbytes)} more asked, {size(used)} of the limit of "
                        f"{size(self.limit_nbytes)} (SDI_SPILL) are in use",
                    )
                for start, stop in free:
                    count = min(units, stop - start)
                    if count:
                        self._lock(fcntl.F_WRLCK, start, count)
                        self._own.append((start, start + count))
                        units -= count
            finally:
                self._lock(fcntl.F_UNLCK, _TURN, 1)
        self.taken_nbytes += nbytes

    def give(self, nbytes: int) -> None:
        """Count ``nbytes`` less."""
        self.taken_nbytes -= nbytes
        spare = self._num_own + self.taken_nbytes // -UNIT_NBYTES
        while spare > 0:
            start, stop = self._own.pop()
            count = min(spare, stop - start)
            self._lock(fcntl.F_UNLCK, stop - count, count)
            if stop - count > start:
                self._own.append((start, stop - count))
            spare -= count

    def close(self) -> None:
        """Nothing is taken any more; the last one takes the file away.  Once closed it stays so."""
        if self._fd < 0:
            return
        self._begin_turn()
        self._own.clear()
        self._lock(fcntl.F_UNLCK, 0, _TURN)
        if self._free(_TURN) == [(0, _TURN)]:
            os.unlink(self._path)
        os.close(self._fd)
        self._fd = -1

    def _opened(self) -> int:
        found = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if os.fstat(found).st_uid != os.geteuid():
            os.close(found)
            raise PermissionError(f"{self._path} belongs to somebody else")
        return found

    def _begin_turn(self) -> None:
        """Nobody else counts now.  Who has taken something keeps the file from being taken away."""
        self._lock(fcntl.F_WRLCK, _TURN, 1, is_waiting=True)
        while not os.fstat(self._fd).st_nlink:
            os.close(self._fd)
            self._fd = self._opened()
            self._lock(fcntl.F_WRLCK, _TURN, 1, is_waiting=True)

    @property
    def _num_own(self) -> int:
        return sum(stop - start for start, stop in self._own)

    def _free(self, num: int) -> list[tuple[int, int]]:
        """Of the first ``num`` units, those that nobody has."""
        found: list[tuple[int, int]] = []
        gaps = self._not_own(num)
        while gaps:
            start, stop = gaps.pop()
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, stop - start, 0)
            kind, _, at, count, _ = _FLOCK.unpack(fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, asked))
            if kind == fcntl.F_UNLCK:
                found.append((start, stop))
                continue
            parts = ((start, at), (at + count, stop))
            gaps += [(low, high) for low, high in parts if low < high]
        return sorted(found)

    def _not_own(self, num: int) -> list[tuple[int, int]]:
        """The units ``[0, num)`` but this service's own: these locks do not show as anybody's."""
        found, at = [], 0
        for start, stop in sorted(self._own):
            if at < min(start, num):
                found.append((at, min(start, num)))
            at = stop
        if at < num:
            found.append((at, num))
        return found

    def _lock(self, kind: int, start: int, count: int, is_waiting: bool = False) -> None:
        command = fcntl.F_OFD_SETLKW if is_waiting else fcntl.F_OFD_SETLK
        fcntl.fcntl(self._fd, command, _FLOCK.pack(kind, os.SEEK_SET, start, count, 0))
