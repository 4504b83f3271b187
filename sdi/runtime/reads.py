"""What the application reads again and again, a few bytes that many members have: planned once.

What brings the same bytes of a buffer to the host from the same state of it is a recording of which nodes
keep their parts, as of a launch: a read costs rank 0 a message or two, however many members have a part.
"""

from __future__ import annotations

from typing import Final

from sdi.devices.issue import Issue
from sdi.intervals import ByteRange
from sdi.launch.kernel import Recent
from sdi.launch.launcher import Launcher
from sdi.launch.recording import Change, Recording
from sdi.region import Bytes
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST
from sdi.vmem.memory import VirtualMemory

_READ_NBYTES_MAX = 256 << 10
"""What is longer is on its way longer than it takes to plan it."""
_READS_MAX = 256
_STATES_MAX = 8
"""So many states of a buffer in which the same bytes were read."""


class Reads:
    """Of a session.  Owned by: sdi-scheduler."""

    def __init__(self, memory: VirtualMemory, launcher: Launcher) -> None:
        self._memory: Final = memory
        self._launcher: Final = launcher
        self._known: Final[Recent[tuple[int, ByteRange], list[Recording]]] = Recent(_READS_MAX)

    def fetch(self, buffer: VirtualBuffer, over: Bytes, issue: Issue) -> None:
        """Make ``over`` current in the arena; readers wait through the host's dependencies."""
        parts, memory = self._launcher.parts, self._memory
        is_kept = parts is not None and isinstance(over, ByteRange) and over.nbytes <= _READ_NBYTES_MAX
        if not is_kept or buffer.directory.is_current(HOST, over):
            memory.transfers.fetch_host(buffer, over, issue)
            return
        assert parts is not None and isinstance(over, ByteRange)
        before = buffer.directory.state()
        recordings = self._known.find((buffer.id, over)) or []
        known = next((each for each in recordings if each.is_there()), None)
        if known is None:
            transfers = memory.transfers.plan(buffer, HOST, (over,), False, issue.cause)
            for transfer in transfers:
                memory.transfers.perform(transfer, issue)
            after = buffer.directory.state()
            if before is not None and after is not None and len(transfers) > 1:
                made = Recording((), (), transfers, (1, 1, 1), 1)
                made.repeats((Change(buffer.directory, before, after),))
                made.placed = memory.placed.generation
                self._keep(buffer, over, [made, *recordings[: _STATES_MAX - 1]])
            return
        is_placed = known.placed == memory.placed.generation
        known.placed = memory.placed.generation
        replay = parts.find(None, known) if is_placed else None
        if replay is not None:
            replay(issue, issue.timing)
        else:
            known.replay(memory, (), issue, issue.timing)

    def _keep(self, buffer: VirtualBuffer, over: ByteRange, recordings: list[Recording]) -> None:
        buffer.on_release.add(self._known.drop_buffer)
        self._known.keep((buffer.id, over), recordings, (buffer.id,))

    def forget(self) -> None:
        """A member is lost: what it had others have."""
        self._known.clear()
