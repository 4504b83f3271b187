"""Waiting for signals that are blocked, a while each time.

``signal.sigtimedwait`` is not for this: where the process was stopped meanwhile (Ctrl-Z, a frozen container),
for longer than it was to wait, Python 3.11 returns what happens to be in memory, as if that were a signal.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable
from typing import NamedTuple

_NBYTES = 128
"""Of ``sigset_t`` and ``siginfo_t``, as large as they get on Linux."""
_libc = ctypes.CDLL(None, use_errno=True)


class _Time(ctypes.Structure):
    _fields_ = (("s", ctypes.c_long), ("ns", ctypes.c_long))


class _Info(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("error", ctypes.c_int), ("code", ctypes.c_int))


class SentSignal(NamedTuple):
    """``code``: who sent it, SI_... in signal.h."""

    number: int
    code: int


def next_signal(watched: Iterable[int], wait_s: float) -> SentSignal | None:
    """The next of ``watched``, which are blocked; None where none comes within ``wait_s``, or it was
    interrupted.
    """
    wanted, found = ctypes.create_string_buffer(_NBYTES), ctypes.create_string_buffer(_NBYTES)
    _libc.sigemptyset(wanted)
    for number in watched:
        _libc.sigaddset(wanted, int(number))
    time = _Time(int(wait_s), int(wait_s % 1 * 1e9))
    number = _libc.sigtimedwait(wanted, found, ctypes.byref(time))
    if number > 0:
        return SentSignal(number, _Info.from_buffer(found).code)
    cause = ctypes.get_errno()
    if cause not in (errno.EAGAIN, errno.EINTR):
        raise OSError(cause, os.strerror(cause))
    return None
