"""What an operation is issued for: a value that is handed down to whoever issues it.

Nobody looks anywhere else for it: sessions of one process, and commands of one session, share nothing.
"""

from __future__ import annotations

from enum import Enum

from sdi.dataclass import dataclass


class Timing(Enum):
    """What has to be known of when an operation ran.

    ``MEASURED``: when it began and ended, by the driver's clock.  ``SEEN``: when that was seen is enough.
    ``TOGETHER``: likewise, and it takes so little that it may be known of several together that they are
    complete: who issues it issues more soon.
    """

    MEASURED = 0
    SEEN = 1
    TOGETHER = 2


MEASURED, SEEN, TOGETHER = Timing.MEASURED, Timing.SEEN, Timing.TOGETHER


@dataclass(frozen=True, slots=True)
class Issue:
    """Why operations are issued.

    ``cause``: what they are for: "kernel: argument", or a command's name.  ``command``: whose they are in a
    profile; 0: nobody's.  ``timing``: of all of them, or more exactly where somebody learns from one.
    ``has_more``: who issues will issue more before it looks what is complete.
    """

    cause: str
    command: int = 0
    timing: Timing = SEEN
    has_more: bool = False

    def because(self, cause: str) -> Issue:
        """The same, for another cause."""
        return Issue(cause, self.command, self.timing, self.has_more)

    def timed(self) -> Issue:
        """The same, measured."""
        return Issue(self.cause, self.command, MEASURED, self.has_more)
