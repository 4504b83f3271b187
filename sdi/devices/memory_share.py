"""What a member may use of its device's memory, and what it uses now."""

from __future__ import annotations

from sdi.dataclass import dataclass
from sdi.errors import Status, require


@dataclass(slots=True)
class MemoryShare:
    """``nbytes`` of memory, of which ``in_use`` are allocated.  Owned by: sdi-scheduler.

    ``name``: whose they are.
    """

    name: str
    nbytes: int
    in_use: int = 0

    def asked(self, nbytes: int) -> str:
        """What is asked for, as errors say it.  Raises ClError(MEM_OBJECT_ALLOCATION_FAILURE)."""
        available = self.nbytes - self.in_use
        what = f"{self.name}: {nbytes} bytes asked, {available} of {self.nbytes} available"
        require(0 < nbytes <= available, Status.MEM_OBJECT_ALLOCATION_FAILURE, what)
        return what

    def take(self, nbytes: int) -> None:
        """Count so much as allocated.  Raises ClError(MEM_OBJECT_ALLOCATION_FAILURE) past the share."""
        self.asked(nbytes)
        self.in_use += nbytes

    def give(self, nbytes: int) -> None:
        """Count so much as allocated no more."""
        self.in_use -= nbytes
