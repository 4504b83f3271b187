"""Memory that processes of one machine share: files without a name, handed over as descriptors.

A ``Pool`` is one process' memory for bytes on their way, which others read where they are; a ``Mapped`` is
another one's pool, or the arena of the application's session.  Both are offered to ``PAGE_LOCKS``: members
that copy from locked memory lock it.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import threading
from typing import Final

from sdi import limits
from sdi.devices.page_locks import PAGE_LOCKS
from sdi.vmem.arena import map_fixed

POOL_NBYTES = 4 << 30
"""Address space of a pool; pages are there only where bytes were.  [M] 1 GiB in the air is the most seen."""
PAGE_NBYTES = 1 << 16
_WORD_NBYTES = 4


def offset_in(address: int, nbytes: int, host: memoryview) -> int | None:
    """Where in ``nbytes`` from ``address`` on all of ``host`` lies; None where it does not."""
    if host.readonly:
        return None
    found = ctypes.addressof(ctypes.c_char.from_buffer(host)) - address
    return found if 0 <= found <= nbytes - host.nbytes else None


class Mapped:
    """``nbytes`` of the memory file ``descriptor``, which stays the caller's, mapped here.  Raises OSError.

    ``file``: what lies behind ``file_offset`` is this file's, on disk.
    ``address``: where it begins.  Unmapped when it is closed and nobody looks at its bytes any more.
    """

    def __init__(
        self, descriptor: int, nbytes: int, file_offset: int | None = None, file: int | None = None
    ) -> None:
        try:
            made = mmap.mmap(descriptor, nbytes, flags=mmap.MAP_SHARED | limits.MAP_NORESERVE)
        except ValueError as error:  # the file is shorter
            raise OSError(str(error)) from error
        made.madvise(mmap.MADV_DONTDUMP)
        self.nbytes: Final = nbytes
        self.address: Final = ctypes.addressof(ctypes.c_char.from_buffer(made))
        in_memory = nbytes if file is None or file_offset is None else file_offset
        if file is not None:
            map_fixed(self.address + in_memory, nbytes - in_memory, file)
        self._bytes: memoryview | None = memoryview(made)
        PAGE_LOCKS.offer(self.address, in_memory)

    def view(self, offset: int, nbytes: int) -> memoryview:
        """The bytes ``[offset, offset + nbytes)``.  Raises ValueError where there are none."""
        if self._bytes is None or offset + nbytes > self.nbytes:
            raise ValueError(f"bytes [{offset}, {offset + nbytes}) of shared memory of {self.nbytes} bytes")
        return self._bytes[offset : offset + nbytes]

    def offset(self, host: memoryview) -> int | None:
        """Where all of ``host`` lies in it; None where it does not."""
        return offset_in(self.address, self.nbytes, host)

    def close(self) -> None:
        """No copy of its bytes is pending, and none begins."""
        if self._bytes is not None:
            PAGE_LOCKS.withdraw(self.address)
            self._bytes = None


def words_nbytes(pool_nbytes: int) -> int:
    """So much at the beginning of a pool is a word for each page that may be taken."""
    return -(-pool_nbytes // PAGE_NBYTES * _WORD_NBYTES // PAGE_NBYTES) * PAGE_NBYTES


def word_at(place: int) -> tuple[int, int]:
    """Where in a pool the word of memory that begins at ``place`` is, and how long it is."""
    return place // PAGE_NBYTES * _WORD_NBYTES, _WORD_NBYTES


class Pool:
    """This process' memory for bytes on their way.  Any thread.  Raises OSError."""

    def __init__(self, nbytes: int = POOL_NBYTES) -> None:
        nbytes = limits.largest_file(nbytes)
        self.descriptor: Final = limits.memory_file("sdi-pool", os.MFD_ALLOW_SEALING)
        try:
            os.fchmod(self.descriptor, 0o600)
            os.ftruncate(self.descriptor, nbytes)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
            self._memory: Final = Mapped(self.descriptor, nbytes)
        except OSError:
            os.close(self.descriptor)
            raise
        self.nbytes: Final = nbytes
        self._lock: Final = threading.Lock()
        self._free: Final[dict[int, list[int]]] = {}
        self._end = words_nbytes(nbytes)

    def take(self, nbytes: int) -> memoryview | None:
        """``nbytes`` of memory, content undefined; None where there is no room."""
        size = max(PAGE_NBYTES, 1 << (nbytes - 1).bit_length())
        with self._lock:
            found = self._free.get(size)
            if found:
                offset = found.pop()
            elif self._end + size <= self.nbytes:
                offset, self._end = self._end, self._end + size
            else:
                return None
        return self._memory.view(offset, nbytes)

    def view(self, place: int, nbytes: int) -> memoryview:
        """The bytes from ``place``.  Raises ValueError where there are none."""
        return self._memory.view(place, nbytes)

    def words(self) -> memoryview:
        """Those of all memory that may be taken, see ``word_at``."""
        return self._memory.view(0, words_nbytes(self.nbytes))

    def word(self, place: int) -> memoryview:
        """That of memory that ``take`` gave at ``place``."""
        return self._memory.view(*word_at(place))

    def place(self, memory: memoryview) -> int:
        """Where ``memory``, which ``take`` gave, lies in the file; -1 for any other."""
        found = self._memory.offset(memory)
        return -1 if found is None else found

    def give(self, memory: memoryview) -> bool:
        """``memory`` is not used any more; False where ``take`` did not give it."""
        offset = self._memory.offset(memory)
        if offset is None:
            return False
        size = max(PAGE_NBYTES, 1 << (memory.nbytes - 1).bit_length())
        with self._lock:
            self._free.setdefault(size, []).append(offset)
        return True

    def close(self) -> None:
        """No byte of it is on its way any more."""
        self._memory.close()
        os.close(self.descriptor)
