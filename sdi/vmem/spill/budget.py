"""How much of host memory and of files a session's buffers may take."""

from __future__ import annotations

import os
from pathlib import Path

from sdi.dataclass import dataclass
from sdi.free_memory import free_nbytes

_HOST_LEAST_NBYTES = 64 << 20
_CACHE_SHARE = 4
_CACHE_MOST_NBYTES = 4 << 30
_GRANULE_NBYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Spill:
    """``folder``: of files, which may have ``limit_nbytes`` in all.  ``host_nbytes``: of host memory."""

    folder: Path
    limit_nbytes: int
    host_nbytes: int

    @property
    def cache_nbytes(self) -> int:
        """Of host memory, for what is on its way from and to files."""
        return min(self.host_nbytes // _CACHE_SHARE, _CACHE_MOST_NBYTES)

    @property
    def memory_nbytes(self) -> int:
        """Of host memory, for buffers that lie there for good: those that are made first."""
        return (self.host_nbytes - self.cache_nbytes) // _GRANULE_NBYTES * _GRANULE_NBYTES


def spill_of(folder: Path, limit_nbytes: int | None, host_nbytes: int | None, promised_nbytes: int) -> Spill:
    """Where a limit is not given: half of what is free, of memory less what members that compute there have.

    Raises OSError where there is no such folder.
    """
    if limit_nbytes is None:
        found = os.statvfs(folder)
        limit_nbytes = found.f_bavail * found.f_frsize // 2
    if host_nbytes is None:
        host_nbytes = max(_HOST_LEAST_NBYTES, (free_nbytes() - promised_nbytes) // 2)
    return Spill(folder, limit_nbytes, host_nbytes)
