"""Host memory for bytes on their way between processes."""

from __future__ import annotations

import mmap
import threading
from typing import Final

from sdi.cluster.shared import Pool

LENT_NBYTES = 64 << 10
"""What is longer is lent to processes that can read it: to say so, and that it is not needed any more, takes
about as long as to send so many bytes."""
_KEPT_NBYTES = 64 << 20
_PAGE_NBYTES = 1 << 16


class Staging:
    """Host memory for bytes on their way.  Any thread.

    ``pool``: this process', if it has one: members that copy from locked memory lock it once for all, so
    short chunks lie there too.
    """

    def __init__(self) -> None:
        self.pool: Pool | None = None
        self._lock: Final = threading.Lock()
        self._kept: dict[int, list[memoryview]] = {}
        self._kept_nbytes = 0

    def take(self, nbytes: int) -> memoryview:
        """``nbytes`` of memory, content undefined."""
        if self.pool is not None and nbytes <= LENT_NBYTES:
            pooled = self.pool.take(nbytes)
            if pooled is not None:
                return pooled
        size = -(-nbytes // _PAGE_NBYTES) * _PAGE_NBYTES
        with self._lock:
            found = self._kept.get(size)
            if found:
                self._kept_nbytes -= size
                return found.pop()[:nbytes]
        return memoryview(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))[:nbytes]

    def give(self, memory: memoryview) -> None:
        """What ``take`` gave is not used any more."""
        if self.pool is not None and self.pool.give(memory):
            return
        whole = memoryview(memory.obj)
        with self._lock:
            if self._kept_nbytes + whole.nbytes <= _KEPT_NBYTES:
                self._kept.setdefault(whole.nbytes, []).append(whole)
                self._kept_nbytes += whole.nbytes
