"""Reads ``calls-PID.bin``: a process's calls of the API, as ``sdi/icd/client/profile.c`` writes them.

Without numpy, which starts threads: they would take signals from ``sdi profile`` (``cli/run.py``).
"""

from __future__ import annotations

import struct
from pathlib import Path

from sdi.icd.api import ENTRIES, NUM_SLOTS
from sdi.profile.model import Application, Call, CallTotals

_MAGIC = int.from_bytes(b"SDICALL1", "little")
_VERSION = 1
_HEADER = struct.Struct("<QIIQQQQ")
_HEADER_NBYTES = 64
_COUNTS = struct.Struct("<QQQQQ24x")
_SPAN = struct.Struct("<IIQQ")


def read_calls(path: Path) -> Application | None:
    """The calls of one process; None when it ended while it made the file.  Raises ValueError."""
    data = path.read_bytes()
    if len(data) < _HEADER_NBYTES:
        return None
    magic, version, functions, pid, started_ns, capacity, used = _HEADER.unpack_from(data)
    if magic == 0:
        return None
    if (magic, version, functions) != (_MAGIC, _VERSION, NUM_SLOTS):
        raise ValueError(f"{path}: not the calls of this version of sdi")
    spans_at = _HEADER_NBYTES + NUM_SLOTS * _COUNTS.size
    spans_end = spans_at + min(used, capacity) * _SPAN.size
    if len(data) < spans_end:
        raise ValueError(f"{path}: {len(data)} bytes of at least {spans_end}")
    content = memoryview(data)
    totals = [
        CallTotals(entry.name, calls, ns, min_ns - 1, max_ns, failed)
        for entry, (calls, ns, min_ns, max_ns, failed) in zip(
            ENTRIES, _COUNTS.iter_unpack(content[_HEADER_NBYTES:spans_at]), strict=True
        )
        if calls
    ]
    calls = [
        Call(ENTRIES[function].name, thread, start_ns, end_ns)
        for function, thread, start_ns, end_ns in _SPAN.iter_unpack(content[spans_at:spans_end])
        if start_ns
    ]
    return Application(pid, started_ns, tuple(totals), tuple(calls), max(0, used - capacity))
