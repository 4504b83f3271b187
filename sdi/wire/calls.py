"""``calls-PID.bin``: a process' calls of the API, as ``sdi/icd/client/profile.c`` writes them.

CALLS_HEADER, COUNTS for each slot of the dispatch table, then a SPAN for each call, up to the capacity.
"""

from __future__ import annotations

from sdi.wire.layout import fields

MAGIC = int.from_bytes(b"SDICALL1", "little")
VERSION = 1
CALLS_HEADER = fields(
    "u64 magic; u32 version; u32 num_functions; u64 pid; u64 started_ns; u64 capacity; u64 used;"
    " u64 unused[2]"
)
"""``used``: spans begun; may exceed the capacity."""
COUNTS = fields("u64 calls; u64 ns; u64 min_ns; u64 max_ns; u64 failed; u64 unused[3]")
"""``min_ns``: one more than that; 0: none yet."""
SPAN = fields("u32 function; u32 thread; u64 start_ns; u64 end_ns")
"""``end_ns`` 0: it has not returned."""
