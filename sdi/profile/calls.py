"""Reads ``calls-PID.bin``: a process's calls of the API, as ``sdi/icd/client/profile.c`` writes them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from sdi.icd.api import ENTRIES, NUM_SLOTS
from sdi.profile.model import Application, Call, CallTotals

_MAGIC = int.from_bytes(b"SDICALL1", "little")
_VERSION = 1
_HEADER = struct.Struct("<QIIQQQQ")
_HEADER_NBYTES = 64
_COUNTS = np.dtype([(name, "<u8") for name in ("calls", "ns", "min_ns", "max_ns", "failed", "a", "b", "c")])
_SPANS = np.dtype([("function", "<u4"), ("thread", "<u4"), ("start_ns", "<u8"), ("end_ns", "<u8")])


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
    counts = np.frombuffer(data, _COUNTS, NUM_SLOTS, _HEADER_NBYTES)
    number = min(used, capacity)
    spans = np.frombuffer(data, _SPANS, number, _HEADER_NBYTES + counts.nbytes)
    totals = [
        CallTotals(entry.name, calls, ns, min_ns - 1, max_ns, failed)
        for entry, (calls, ns, min_ns, max_ns, failed, *_) in zip(ENTRIES, counts.tolist(), strict=True)
        if calls
    ]
    calls = [
        Call(ENTRIES[function].name, thread, start_ns, end_ns)
        for function, thread, start_ns, end_ns in spans.tolist()
        if start_ns
    ]
    return Application(pid, started_ns, tuple(totals), tuple(calls), max(0, used - capacity))
