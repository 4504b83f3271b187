"""What kernels print: drivers write it to the service's standard output, the application's is meant.

Descriptor 1 becomes a file in memory that is only ever appended to: no driver can block on it, and when a
launch is complete all of its text is there.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from contextlib import suppress

from sdi import limits

_STDOUT = 1
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
_libc = ctypes.CDLL(None)


class Printed:
    """Takes ``descriptor`` over for the rest of the process.  Owned by: sdi-scheduler."""

    def __init__(self, descriptor: int = _STDOUT) -> None:
        self._before = os.dup(descriptor)
        self._file = descriptor  # and no other: there may be few
        made = limits.memory_file("sdi-printf")
        fcntl.fcntl(made, fcntl.F_SETFL, os.O_APPEND)
        os.dup2(made, descriptor)
        os.close(made)
        self._taken = 0
        self._added = bytearray()

    def add(self, text: bytes) -> None:
        """What kernels printed in another process; any thread."""
        self._added += text

    def take(self) -> bytes:
        """Everything printed since the last call; its memory is given back."""
        _libc.fflush(None)  # drivers that print through C's stdio
        start, end = self._taken, os.fstat(self._file).st_size
        text = bytearray()
        while len(text) < end - start:
            piece = os.pread(self._file, end - start - len(text), start + len(text))
            if not piece:
                break
            text += piece
        self._taken = start + len(text)
        if text:
            _libc.fallocate(self._file, _PUNCH_HOLE_KEEP_SIZE, ctypes.c_long(start), ctypes.c_long(len(text)))
        # What others printed is whole lines: it goes before a line that may not be whole yet.
        added, last = len(self._added), text.rfind(b"\n") + 1
        text[last:last] = self._added[:added]
        del self._added[:added]
        return bytes(text)

    def close(self) -> None:
        """Text of launches that nobody waited for goes where it went before."""
        text = self.take()
        with suppress(OSError):
            while text:
                text = text[os.write(self._before, text) :]
        os.close(self._before)
