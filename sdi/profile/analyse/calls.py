"""Reads ``calls-PID.bin``: a process's calls of the API, see ``sdi/wire/profile.py``.

Without numpy, which starts threads: they would take signals from ``sdi profile`` (``cli/run.py``).
"""

from __future__ import annotations

from pathlib import Path

from sdi.profile.analyse.model import Application, Call, CallTotals
from sdi.wire.api import ENTRIES, NUM_SLOTS
from sdi.wire.layout import layout
from sdi.wire.profile import CALLS_HEADER, COUNTS, MAGIC, SPAN, VERSION

_HEADER, _COUNTS, _SPAN = layout(CALLS_HEADER), layout(COUNTS), layout(SPAN)


def read_calls(path: Path) -> Application | None:
    """The calls of one process; None when it ended while it made the file.  Raises ValueError."""
    data = path.read_bytes()
    if len(data) < _HEADER.size:
        return None
    magic, version, functions, pid, started_ns, capacity, used, *_ = _HEADER.unpack_from(data)
    if magic == 0:
        return None
    if (magic, version, functions) != (MAGIC, VERSION, NUM_SLOTS):
        raise ValueError(f"{path}: not the calls of this version of sdi")
    spans_at = _HEADER.size + NUM_SLOTS * _COUNTS.size
    spans_end = spans_at + min(used, capacity) * _SPAN.size
    if len(data) < spans_end:
        raise ValueError(f"{path}: {len(data)} bytes of at least {spans_end}")
    content = memoryview(data)
    totals = [
        CallTotals(entry.name, calls, ns, min_ns - 1, max_ns, failed)
        for entry, (calls, ns, min_ns, max_ns, failed, *_) in zip(
            ENTRIES, _COUNTS.iter_unpack(content[_HEADER.size : spans_at]), strict=True
        )
        if calls
    ]
    calls = [
        Call(ENTRIES[function].name, thread, start_ns, end_ns)
        for function, thread, start_ns, end_ns in _SPAN.iter_unpack(content[spans_at:spans_end])
        if start_ns
    ]
    return Application(pid, started_ns, tuple(totals), tuple(calls), max(0, used - capacity))
