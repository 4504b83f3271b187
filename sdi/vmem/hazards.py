"""Hazards: which tickets an access to bytes of one memory has to wait for (RAW, WAR and WAW edges)."""

from __future__ import annotations

from dataclasses import dataclass

from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange, RangeMap


@dataclass(frozen=True, slots=True)
class _Uses:
    """The last issued writer of some bytes and the readers issued since."""

    writer: Ticket | None
    readers: tuple[Ticket, ...]


_UNUSED = _Uses(None, ())


class Hazards:
    """Issued accesses to one root buffer's bytes in one memory.  Owned by: sdi-scheduler.

    ``before_*`` answers what to wait for; ``*_by`` records the ticket of the access that was issued.
    A writer that failed stays: its bytes are poisoned, and readers of them fail with its error.
    """

    __slots__ = ("_uses",)

    def __init__(self, nbytes: int) -> None:
        self._uses = RangeMap[_Uses](nbytes, _UNUSED)

    def before_read(self, over: ByteRange) -> list[Ticket]:
        """Tickets that make ``over`` true here; failed ones included, completed ones left out."""
        found: dict[int, Ticket] = {}
        for _, uses in self._uses.items(over):
            writer = uses.writer
            if writer is not None and not (writer.done and writer.error is None):
                found[id(writer)] = writer
        return list(found.values())

    def before_write(self, over: ByteRange) -> list[Ticket]:
        """Tickets of all pending accesses to ``over``."""
        found: dict[int, Ticket] = {}
        for _, uses in self._uses.items(over):
            for ticket in (uses.writer, *uses.readers):
                if ticket is not None and not ticket.done:
                    found[id(ticket)] = ticket
        return list(found.values())

    def read_by(self, over: ByteRange, ticket: Ticket) -> None:
        """Record a read of ``over`` that is done when ``ticket`` is.  Forgets what is done on the way."""

        def used(uses: _Uses) -> _Uses:
            writer = uses.writer
            if writer is not None and writer.done and writer.error is None:
                writer = None
            return _Uses(writer, (*(r for r in uses.readers if not r.done), ticket))

        self._uses.update(over, used)

    def written_by(self, over: ByteRange, ticket: Ticket) -> None:
        """Record that ``over`` holds its bytes once ``ticket`` is done."""
        self._uses.assign(over, _Uses(ticket, ()))

    def pending(self) -> list[Ticket]:
        """All tickets not done yet."""
        return self.before_write(ByteRange(0, self._uses.nbytes))
