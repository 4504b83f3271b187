"""Commands that the player executed, as the rows that other commands have.

The player has no row for each: a ``recording`` says once what its commands come to, and ``replayed`` has
lines of ``LOGGED`` in base64, see ``sdi/wire/profile.py``.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from typing import Any

from sdi.wire.layout import layout
from sdi.wire.profile import LOG_COMMAND, LOG_TURN, LOGGED

_LINE = layout(LOGGED)
_MARKER: list[Any] = ["marker", 0, "", 0, False, [], 0]
Rows = dict[str, list[list[Any]]]


def expand(rows: Rows) -> None:
    """Put what was replayed in its place among ``rows``.  Raises ValueError or TypeError if malformed."""
    recordings = {number: content for number, *content in rows.pop("recording", [])}
    recordings[0] = _MARKER
    texts = [text for (text,) in rows.pop("replayed", [])]
    if not texts:
        return
    for kind in ("command", "launch", "piece", "copy", "work", "turn"):
        rows.setdefault(kind, [])
    taken_over, came_nbytes = set[int](), dict[int, int]()
    try:
        for text in texts:
            taken_over |= _expand(rows, recordings, came_nbytes, b64decode(text, validate=True))
    except (LookupError, StopIteration, struct.error) as error:
        raise ValueError(f"lines of replays: {error!r}") from error
    _time(rows, taken_over)
    for row in rows["copy"]:  # of a write of any length: as much as came with it
        row[3] = row[3] or came_nbytes.get(row[0], 0)
    rows["launch"].sort(key=lambda row: row[4])
    rows["command"].sort(key=lambda row: row[4])


def _expand(
    rows: Rows, recordings: dict[int, list[Any]], came_nbytes: dict[int, int], data: bytes
) -> set[int]:
    """Returns the launches that the service finished.  ``came_nbytes``: takes what came with writes."""
    taken_over: set[int] = set()
    lines = _LINE.iter_unpack(data)
    for what, which, number, began_ns, ended_ns in lines:
        if what == LOG_TURN:
            rows["turn"].append([began_ns, ended_ns, ended_ns - began_ns])  # it never sleeps
            continue
        kind, nbytes, kernel, shape, is_on_host, operations, *asked = recordings[which]
        if what != LOG_COMMAND:
            of, *operation = operations[what]
            if of == "piece":
                operation.insert(0, 0)  # chunk
            rows[of].append([number, *operation, began_ns, ended_ns, 0])
            continue
        if shape:
            rows["launch"].append([number, kernel, shape, "replay", began_ns, began_ns, ended_ns, 0])
        _, own_nbytes, queue, start_ns, end_ns = next(lines)
        if own_nbytes:
            came_nbytes[number] = own_nbytes
        if not end_ns:  # there is a row for it
            taken_over |= {number} if shape else set()
        else:
            nbytes = own_nbytes or nbytes
            times = began_ns, began_ns, start_ns, end_ns
            rows["command"].append([number, queue, kind, nbytes, *times, 0, *asked])
            if is_on_host:
                rows["work"].append([number, kind, -1, nbytes, kind, start_ns, end_ns, 0])
    return taken_over


def _time(rows: Rows, launches: set[int]) -> None:
    """Launches that the service finished ran when their assignments did, of which it was not told."""
    spans: dict[int, tuple[int, int]] = {}
    for command, _, _, _, start_ns, end_ns, _ in rows["piece"]:
        if command in launches and end_ns:
            first_ns, last_ns = spans.get(command, (start_ns, end_ns))
            spans[command] = min(first_ns, start_ns), max(last_ns, end_ns)
    for row in rows["command"]:
        if row[0] in spans and row[7]:
            row[6:8] = spans[row[0]]
