"""What C writes down for profiles.

``calls-PID.bin`` is a process' calls of the API (``client/link/profile.c``): CALLS_HEADER, COUNTS for each
slot of the dispatch table, then a SPAN for each call, up to the capacity.  Commands that the player executed
are lines of LOGGED (``sdi/player/profile.c``).
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

LOG_COMMAND, LOG_END, LOG_TURN = 0xFFFFFFFD, 0xFFFFFFFE, 0xFFFFFFFF
LOGGED = fields("u32 what; u32 which; u64 id; u64 began_ns; u64 ended_ns")
"""``what``: an operation's number in its recording, or one of LOG_...  ``which``: the recording's number in
the profile, 0 for a marker.  ``id``: the command.  Two lines are of a command: when it was submitted and all
of it issued; then its bytes (0: those of its recording), its queue, and its times (0: Python finishes it)."""

STRUCTS = {
    "sdi_calls_header": CALLS_HEADER,
    "sdi_calls_counts": COUNTS,
    "sdi_calls_span": SPAN,
    "logged": LOGGED,
}
