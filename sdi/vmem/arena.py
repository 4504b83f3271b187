"""The arena: one sparse memfd shared with the application, and its allocator.

Source: DESIGN "Virtual device memory".  Offsets are bytes from the start of the memfd.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import weakref
from bisect import bisect_left, insort
from collections.abc import Iterable
from functools import partial

from sdi import limits
from sdi.devices.page_locks import PAGE_LOCKS, SLAB_NBYTES, PageLocks
from sdi.errors import ClError, Status
from sdi.vmem.spill.file import SpillFile

PAGE_NBYTES = 4096
_MAP_FIXED, _MAP_FIXED_NOREPLACE = 0x10, 0x100000
_MAP_FAILED = ctypes.c_void_p(-1).value
KEEP_NBYTES = 2 << 30
"""Freed bytes whose pages are kept: first touch costs twenty times a copy into warm pages."""


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def map_fixed(address: int, nbytes: int, descriptor: int) -> None:
    """Map the front of a file in place of what is mapped there.  Raises OSError."""
    flags = mmap.MAP_SHARED | limits.MAP_NORESERVE | _MAP_FIXED
    if _libc.mmap(address, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, 0) != address:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _mapped(descriptor: int, nbytes: int) -> mmap.mmap:
    """All of a file.  Raises OSError.

    From the beginning of a slab on, so that the front of it can be locked in one piece, where the system maps
    one below the other, as Linux does.
    """
    shared, nowhere = mmap.MAP_SHARED | limits.MAP_NORESERVE, mmap.MAP_PRIVATE | limits.MAP_NORESERVE
    made = mmap.mmap(descriptor, nbytes, flags=shared)
    address = ctypes.addressof(ctypes.c_char.from_buffer(made))
    if over := address % SLAB_NBYTES:
        made.close()
        flags = nowhere | mmap.MAP_ANONYMOUS | _MAP_FIXED_NOREPLACE
        above = _libc.mmap(address + nbytes - over, over, 0, flags, -1, 0)
        try:
            made = mmap.mmap(descriptor, nbytes, flags=shared)
        finally:
            if above != _MAP_FAILED:
                _libc.munmap(above, over)
    return made


def _window_of(nbytes: int) -> type[ctypes.Array[ctypes.c_char]]:
    """A type of so many bytes whose values can be watched: ctypes' own can't."""

    class Window(ctypes.Array[ctypes.c_char]):
        _type_ = ctypes.c_char
        _length_ = nbytes

    return Window


class Arena:
    """Memory that service and application both map; pages exist only where somebody touched them.

    Owned by: sdi-scheduler (allocation); bytes are read and written by whoever holds a ticket for them.
    """

    def __init__(
        self,
        nbytes: int,
        heap_offset: int,
        locks: PageLocks = PAGE_LOCKS,
        file: SpillFile | None = None,
        file_offset: int = 0,
        copied_offset: int = 0,
    ) -> None:
        """``nbytes`` in all; what lies before ``heap_offset`` is never handed out.  Raises OSError.

        ``copied_offset``: from there on members copy; 0: from the heap on.  ``file``: what lies behind
        ``file_offset`` is this file's, on disk.
        """
        self.fd = limits.memory_file("sdi-arena", os.MFD_ALLOW_SEALING)
        try:
            os.fchmod(self.fd, 0o600)  # made with 0777: nobody else, should its descriptor be found in /proc
            os.ftruncate(self.fd, nbytes)
            self._map = _mapped(self.fd, nbytes)
        except OSError:
            os.close(self.fd)
            raise
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        self._map.madvise(mmap.MADV_DONTDUMP)
        self.nbytes = nbytes
        self.bytes = memoryview(self._map)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.addresses = [self.address]
        self.file = file
        self.file_offset = nbytes if file is None else file_offset
        if file is not None:
            file.extend(nbytes - file_offset)
            self._map_file(self.address)
        self._locks = locks
        copied_offset = copied_offset or heap_offset
        self._copied = self.address + copied_offset
        # What lies before it is never copied to members, and what lies in the file has to come and go.
        locks.offer(self._copied, self.file_offset - copied_offset)
        self._free: list[tuple[int, int]] = [(heap_offset, nbytes - heap_offset)]
        self._used: dict[int, int] = {}
        self._kept_nbytes = 0
        self._window: memoryview | None = None

    def map_window(self, addresses: Iterable[int]) -> int:
        """Map all of it once more, at the first of these addresses where there is room.

        The address; 0: at none.  While there is a descriptor.
        """
        flags = mmap.MAP_SHARED | limits.MAP_NORESERVE | _MAP_FIXED_NOREPLACE
        for address in addresses:
            found = _libc.mmap(address, self.nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, self.fd, 0)
            if found == address:
                made = _window_of(self.nbytes).from_address(address)
                weakref.finalize(made, _libc.munmap, address, self.nbytes)  # when nobody has any of it
                self._map_file(address)
                self.addresses.append(address)
                self._window = memoryview(made).cast("B")
                return address
            if found != _MAP_FAILED:  # an old kernel takes the address for a hint
                _libc.munmap(found, self.nbytes)
        return 0

    def _map_file(self, address: int) -> None:
        """Put the file where it belongs in a mapping of the arena.  Raises OSError."""
        if self.file is None:
            return
        at, nbytes = address + self.file_offset, self.nbytes - self.file_offset
        map_fixed(at, nbytes, self.file.fd)
        _libc.madvise(at, nbytes, mmap.MADV_RANDOM)  # what a fault brings around it would be read in vain
        _libc.madvise(at, nbytes, mmap.MADV_DONTDUMP)

    def window(self, offset: int, nbytes: int) -> memoryview:
        """``view``, at the application's address if there is a window."""
        found = self.bytes if self._window is None else self._window
        return found[offset : offset + nbytes]

    def allocate(self, nbytes: int, shift: int = 0) -> int:
        """Offset of ``nbytes`` bytes with any content, page-aligned, first fit (so warm pages come first).

        ``shift``: how far behind a page's beginning, less than a page.  Raises ClError where there is no
        room, in the file either.
        """
        need = -(-(nbytes + shift) // PAGE_NBYTES) * PAGE_NBYTES
        for at, (offset, size) in enumerate(self._free):
            if size >= need:
                inside = self._in_file(offset, need)
                if self.file is not None and inside[1]:
                    self.file.reserve(*inside)
                if size > need:
                    self._free[at] = (offset + need, size - need)
                else:
                    del self._free[at]
                self._used[offset + shift] = need
                self._kept_nbytes = max(0, self._kept_nbytes - need)
                return offset + shift
        raise ClError(
            Status.MEM_OBJECT_ALLOCATION_FAILURE,
            f"arena: {need} bytes asked, largest free piece {max((s for _, s in self._free), default=0)}",
        )

    def _in_file(self, offset: int, nbytes: int) -> tuple[int, int]:
        """Where in the file the part of these bytes begins that lies there, and how large it is."""
        start = max(offset, self.file_offset)
        return start - self.file_offset, max(0, offset + nbytes - start)

    def free(self, offset: int) -> None:
        """Give back what ``allocate`` returned; pages stay for reuse up to ``KEEP_NBYTES`` in all.

        So do those of which a driver has locked some: it would go on using the old ones.
        """
        size = self._used.pop(offset)
        offset -= offset % PAGE_NBYTES
        inside = self._in_file(offset, size)
        if self.file is not None and inside[1]:
            self.file.release(*inside)
        warm = size - inside[1]
        if self._kept_nbytes + warm <= KEEP_NBYTES:
            self._kept_nbytes += warm
        else:
            punch = partial(self._map.madvise, mmap.MADV_REMOVE, offset, warm)
            if not self._locks.unless_locked(self.address + offset, warm, punch):
                self._kept_nbytes += warm
        at = bisect_left(self._free, (offset, 0))
        if at < len(self._free) and offset + size == self._free[at][0]:
            size += self._free.pop(at)[1]
        if at > 0 and sum(self._free[at - 1]) == offset:
            at -= 1
            before = self._free.pop(at)
            offset, size = before[0], before[1] + size
        insort(self._free, (offset, size))

    def view(self, offset: int, nbytes: int) -> memoryview:
        """The bytes ``[offset, offset + nbytes)``."""
        return self.bytes[offset : offset + nbytes]

    def close(self) -> None:
        """Close the descriptor, once no copy is pending.

        The mapping goes with the process, as others may still look at it.
        """
        self._locks.withdraw(self._copied)
        self.close_descriptor()
        if self.file is not None:
            self.file.close()
            self.file = None

    def close_descriptor(self) -> None:
        """When the application has its own, ours is not needed any more: there may be few.

        The file's is.
        """
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
