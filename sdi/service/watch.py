"""Sees to it that the service ends when its client has ended, whatever it is doing.

The scheduler notices by itself when it reads the socket.  Where it doesn't come to that (it plans, walks,
waits for a driver or for another thread), three things happen, one after the other:

1. it may go on while it gets through records that came before the end: they count;
2. it is interrupted (``ClientGone``), writes what there is to write, and ends, if what it does is Python;
3. it waits for something that can't be interrupted: this thread writes that, and ends the process.

A thread of the C library looks on.  It ends the process where Python does not run at all, as a driver holds
its lock: soon, or, where files are to be written at the end (SDI_STATS, SDI_PROFILE), after a minute.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

_log = logging.getLogger("sdi")

LIBRARY = Path(sys.prefix, "lib", "sdi", "libsdi_icd.so")
SOON_MS = 700
"""How long the process may go on after its client when Python does not run and nothing is to be written."""
WRITING_MS = 60_000
"""How long, when something is written or is to be."""
_RECORD_S = 0.4
"""How long the scheduler may take for one record after the end of the client."""
_BACKLOG_S = 0.2
"""How long it may go on with what came before."""
_COUNTED_S = 5.0
"""How long where that is counted in a file: each record is there or is not, but all that can be are."""
_INTERRUPTED_S = 0.25
_LOOK_S = 0.02
_WRITES_MAX = 20


class _Signs(ctypes.Structure):
    """For the library's thread: how long Python may be silent, and signs that it is not."""

    _fields_ = (("patience_ms", ctypes.c_int), ("beats", ctypes.c_int))


class ClientGone(BaseException):
    """The client has ended, and the scheduler with it: no error of anything."""


class Watch:
    """Watches one client from a thread of its own.  Made, and told that it is ``over``, by the scheduler."""

    def __init__(self, commands: socket.socket) -> None:
        """``commands`` stays open for the rest of the process."""
        self._end = commands.fileno()
        self._scheduler = threading.get_ident()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._signs = _Signs(SOON_MS, 0)
        self._write: Callable[[], None] | None = None
        self._progress: Callable[[], int] = int
        self._has_files = False
        self._look_on()
        threading.Thread(target=self._run, name="sdi-watch", daemon=True).start()

    def serve(self, write: Callable[[], None], progress: Callable[[], int], has_files: bool) -> None:
        """A session begins.  ``write``: writes all that is to be there after its end, also after a clean one.

        ``progress``: changes when a record was dealt with.  ``has_files``: ``write`` makes files.
        """
        self._progress = progress
        self._has_files = has_files
        if has_files:
            self._signs.patience_ms = WRITING_MS
        self._write = write

    def over(self) -> None:
        """The session is over: the scheduler writes and ends.  Until then it may get one ClientGone."""
        with self._lock:
            self._signs.patience_ms = WRITING_MS
            self._over.set()
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._scheduler), None)

    def _look_on(self) -> None:
        """Start the library's thread."""
        try:
            ctypes.CDLL(str(LIBRARY)).sdi_watch_client(self._end, ctypes.byref(self._signs))
        except (OSError, AttributeError) as error:
            _log.warning("a driver that never returns will keep the service after its client: %s", error)

    def _run(self) -> None:
        hang_up = select.poll()
        hang_up.register(self._end, select.POLLRDHUP)
        hang_up.poll()
        self._let_go_on()
        with self._lock:
            if self._over.is_set():
                return
            if self._write is None:
                os._exit(1)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._scheduler), ctypes.py_object(ClientGone)
            )
        if self._over.wait(_INTERRUPTED_S):
            return
        with self._lock:
            if not self._over.is_set():
                self._signs.patience_ms = WRITING_MS
                self._write_beside()
                os._exit(1)

    def _let_go_on(self) -> None:
        """Return when the scheduler is at its end, or does not come to it."""
        begun_s = seen_s = time.monotonic()
        seen, limit_s = self._progress(), _COUNTED_S if self._has_files else _BACKLOG_S
        while not self._over.wait(_LOOK_S):
            self._signs.beats += 1
            now_s, done = time.monotonic(), self._progress()
            if now_s - seen_s > _RECORD_S or now_s - begun_s > limit_s:
                return
            if done != seen:
                seen, seen_s = done, now_s

    def _write_beside(self) -> None:
        """Write while other threads may yet change what is written."""
        assert self._write is not None
        for _ in range(_WRITES_MAX):
            try:
                self._write()
            except RuntimeError:  # a dictionary changed its size meanwhile
                continue
            except Exception:
                _log.exception("our bug")
            return
