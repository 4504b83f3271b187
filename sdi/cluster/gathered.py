"""A few bytes of members' buffers that nodes answer a replay with: they come up the tree with the answers.

Each run of bytes says where it belongs in the root buffer; what lies side by side on a node is one run.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from sdi.cluster.records import DamagedBatch
from sdi.devices.handles import HostBytes
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.vmem.dependencies import Use

PART_NBYTES_MAX = 64 << 10
"""Of one member; more than that is sent straight to rank 0, as each byte here passes several nodes."""
GATHERED_NBYTES_MAX = 256 << 10
"""Of all together."""

Run = tuple[int, bytes | memoryview]
"""Bytes, and where in the root buffer they belong."""
_HEAD = struct.Struct("<QI")


def runs_packed(runs: Sequence[Run]) -> bytes:
    """Runs that share no byte, as a tail."""
    found: list[bytes | memoryview] = []
    at, heads = -1, list[tuple[int, int]]()
    for start, data in sorted(runs, key=lambda run: run[0]):
        if start == at:
            heads[-1] = heads[-1][0], heads[-1][1] + len(data)
        else:
            heads.append((start, len(data)))
            found.append(b"")  # its head
        found.append(data)
        at = start + len(data)
    left = iter(heads)
    return b"".join(part or _HEAD.pack(*next(left)) for part in found)


def runs_of(tail: bytes | memoryview) -> Iterator[Run]:
    """What ``runs_packed`` packed, once or several times.  Raises DamagedBatch."""
    data, at = memoryview(tail), 0
    while at < len(data):
        if len(data) - at < _HEAD.size:
            raise DamagedBatch("the head of a run is cut off")
        start, nbytes = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        if at + nbytes > len(data):
            raise DamagedBatch(f"a run of {nbytes} bytes, {len(data) - at} of them there")
        yield start, data[at : at + nbytes]
        at += nbytes


class Gather:
    """What a recording brings to ``host``, the bytes of a root buffer from ``start`` on, in answers.

    ``use``: that it writes them.
    """

    def __init__(self, host: HostBytes, start: int, use: Use) -> None:
        self._host = host
        self._start = start
        self._use = use

    def begin(self) -> Gathering:
        """Once more."""
        return Gathering(self._host, self._start, self._use)


class Gathering:
    """One replay's.  ``hear``: a part of the answer has come; any thread."""

    def __init__(self, host: HostBytes, start: int, use: Use) -> None:
        self._host = host
        self._start = start
        self._use = use
        self._waits = use.waits()
        self._tails: list[bytes] = []
        self.hear = self._tails.append

    def behind(self, parts: Sequence[Ticket]) -> Ticket:
        """The bytes are there when this is done: when all parts are, and nobody uses the host's any more."""
        there = Ticket()

        def answered(error: BaseException | None) -> None:
            if error is None:
                try:
                    self._put()
                except ValueError as damaged:
                    error = damaged
            there.complete(error, parts[0].start_ns, parts[0].end_ns)

        join([*parts, *self._waits], answered)
        self._use.by(there)
        return there

    def _put(self) -> None:
        for tail in self._tails:
            for start, data in runs_of(tail):
                at = start - self._start
                self._host[at : at + len(data)] = data
