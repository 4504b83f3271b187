"""The file in which buffers lie that host memory has no room for: without a name, gone with its users."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import tempfile
from pathlib import Path
from typing import Final

from sdi.errors import ClError, Status
from sdi.sizes import size
from sdi.vmem.spill.ledger import SpillLedger

_log = logging.getLogger("sdi.spill")

_KEEP_SIZE, _PUNCH_HOLE, _ZERO_RANGE = 1, 2, 16
_WAIT_BEFORE, _WRITE, _WAIT_AFTER = 1, 2, 4
_ASKED_NBYTES = 128 << 10
_LOCKS = Path("/dev/shm")
"""Where ledgers are: on this machine, gone when it starts anew."""

libc = ctypes.CDLL(None, use_errno=True)
"""Calls by it leave the interpreter's lock, as those of ``mmap.madvise`` do not."""
_OFFSET = ctypes.c_longlong
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, _OFFSET, _OFFSET]
libc.sync_file_range.argtypes = [ctypes.c_int, _OFFSET, _OFFSET, ctypes.c_uint]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class SpillFile:
    """``limit_nbytes``: for the files of all services of this user in ``folder`` together.

    Blocks are on disk before bytes are: what is mapped of ``reserve``'s bytes can be written whenever the
    disk is full.  Owned by: sdi-scheduler; ``zero``, ``write_out`` and ``drop``: any thread.
    """

    def __init__(self, folder: Path, limit_nbytes: int) -> None:
        """Raises OSError, also where the file system can't keep room for a file."""
        self.folder: Final = folder
        self.fd = _unnamed(folder)
        try:
            found = os.stat(folder)
            name = f"sdi-spill-{os.geteuid()}-{found.st_dev:x}-{found.st_ino:x}"
            self._ledger = SpillLedger(_LOCKS / name, limit_nbytes)
        except OSError:
            os.close(self.fd)
            raise
        self.limit_nbytes: Final = limit_nbytes
        self._has_warned = False
        self.most_nbytes = 0
        """The most that was reserved at a time."""

    @property
    def is_in_memory(self) -> bool:
        """Whether the folder's file system takes memory for its files, as far as that shows."""
        found = os.stat(self.folder).st_dev
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            fields = line.split()
            if fields[2] == f"{os.major(found)}:{os.minor(found)}":
                return fields[fields.index("-") + 1] in ("tmpfs", "ramfs")
        return False

    def extend(self, nbytes: int) -> None:
        """So many bytes can be mapped; none is on disk yet.  Raises OSError."""
        os.ftruncate(self.fd, nbytes)
        self._fallocate(_KEEP_SIZE, 0, 1)  # it must not turn out later that this can't be done here
        self._fallocate(_KEEP_SIZE | _PUNCH_HOLE, 0, 4096)

    def reserve(self, offset: int, nbytes: int) -> None:
        """Have room on disk for these bytes, which have none.  Raises ClError."""
        try:
            self._take(offset, nbytes)
        except ClError as error:
            if not self._has_warned:  # the application may try smaller and smaller buffers
                _log.warning("%s", error.what)
                self._has_warned = True
            raise
        self.most_nbytes = max(self.most_nbytes, self._ledger.taken_nbytes)

    def _take(self, offset: int, nbytes: int) -> None:
        self._ledger.take(nbytes)
        try:
            self._fallocate(_KEEP_SIZE, offset, nbytes)
        except OSError as cause:
            self.release(offset, nbytes)
            raise ClError(
                Status.MEM_OBJECT_ALLOCATION_FAILURE,
                f"files: no room for {size(nbytes)} more in {self.folder} (SDI_SPILL): {cause.strerror}",
            ) from cause

    def release(self, offset: int, nbytes: int) -> None:
        """Give up what ``reserve`` got: what is there is gone, wherever it is mapped."""
        self._fallocate(_KEEP_SIZE | _PUNCH_HOLE, offset, nbytes)
        self._ledger.give(nbytes)

    def zero(self, offset: int, nbytes: int) -> None:
        """These bytes, whole pages, are about to be overwritten: what is on disk need not be read before."""
        self._fallocate(_KEEP_SIZE | _ZERO_RANGE, offset, nbytes)

    def begin_writing(self, offset: int, nbytes: int) -> None:
        """Have what was changed go to disk, soon.  Raises OSError."""
        self._sync(offset, nbytes, _WRITE)

    def write_out(self, offset: int, nbytes: int) -> None:
        """Likewise, and wait until it is there."""
        self._sync(offset, nbytes, _WAIT_BEFORE | _WRITE | _WAIT_AFTER)

    def drop(self, offset: int, nbytes: int) -> None:
        """Give up memory that holds what is on disk too, and is mapped by nobody."""
        os.posix_fadvise(self.fd, offset, nbytes, os.POSIX_FADV_DONTNEED)

    def fetch(self, offset: int, nbytes: int) -> None:
        """Have these bytes read, soon."""
        for start in range(offset, offset + nbytes, _ASKED_NBYTES):  # of more the kernel reads a part alone
            asked_nbytes = min(_ASKED_NBYTES, offset + nbytes - start)
            os.posix_fadvise(self.fd, start, asked_nbytes, os.POSIX_FADV_WILLNEED)

    def end(self) -> None:
        """Nothing of it counts any more."""
        self._ledger.close()

    def close(self) -> None:
        """Likewise; its bytes stay as long as they are mapped."""
        self.end()
        os.close(self.fd)

    def _fallocate(self, mode: int, offset: int, nbytes: int) -> None:
        while libc.fallocate(self.fd, mode, offset, nbytes):
            _fail_unless_interrupted()

    def _sync(self, offset: int, nbytes: int, flags: int) -> None:
        while libc.sync_file_range(self.fd, offset, nbytes, flags):
            _fail_unless_interrupted()


def _fail_unless_interrupted() -> None:
    number = ctypes.get_errno()
    if number != errno.EINTR:
        raise OSError(number, os.strerror(number))


def _unnamed(folder: Path) -> int:
    """A new file of this user's alone.  Raises OSError."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT) or not folder.is_dir():
            raise
    found, path = tempfile.mkstemp(prefix="sdi-spill-", dir=folder)
    os.unlink(path)
    return found
