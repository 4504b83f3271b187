"""Released buffers that the application may want again: they keep their places on members, but no bytes.

Programs make the same buffers anew for each problem.  One that gets a recycled buffer of the size it asks for
finds everything that was ever planned, bound or placed for the old one: its next launch is a repeated one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sdi.cells import STAGE_IN_USE, STAGE_RECYCLED, STAGE_RECYCLING
from sdi.vmem.allocation import Placement
from sdi.vmem.buffer import VirtualBuffer

KEEP_NS = 10_000_000_000
"""What was not wanted for so long gives its places back: others may want them."""


class Recycling:
    """The recycled buffers of a session.  Which is used again, and how many there are, the client says.

    ``post`` runs a call on sdi-scheduler.  Members that are short of memory take places of these buffers as
    they take others': there is nothing to save.  Owned by: sdi-scheduler.
    """

    def __init__(self, placement: Placement, post: Callable[[Callable[[], None]], None]) -> None:
        self._placement = placement
        self._post = post
        self._since_ns: dict[int, tuple[VirtualBuffer, int]] = {}  # with places; the oldest is the first

    @property
    def has_places(self) -> bool:
        """Whether there is anything to trim."""
        return bool(self._since_ns)

    def recycle(self, buffer: VirtualBuffer, on_idle: Callable[[bool], None]) -> None:
        """Once all that was issued on ``buffer`` is done, its bytes are undefined, and ``on_idle`` is called.

        With False where that can't be, because something failed to write them: it can only be released.
        """
        buffer.enter(STAGE_RECYCLING)
        buffer.when_idle(self._post, lambda: self._keep(buffer, on_idle))

    def _keep(self, buffer: VirtualBuffer, on_idle: Callable[[bool], None]) -> None:
        if any(dependencies.failed() for dependencies in buffer.dependencies):
            self._placement.discard(buffer)
            on_idle(False)
            return
        buffer.directory.reset()
        self.keep(buffer, time.monotonic_ns())
        on_idle(True)

    def keep(self, buffer: VirtualBuffer, since_ns: int) -> None:
        """``buffer``, of which nothing is current, is recycled since then."""
        self._placement.drop_images(buffer)
        buffer.enter(STAGE_RECYCLED)
        self._since_ns.pop(buffer.id, None)
        if any(buffer.allocations):
            self._since_ns[buffer.id] = buffer, since_ns

    def take(self, buffer: VirtualBuffer) -> bool:
        """``buffer`` is in use again, or released; whether it was recycled."""
        self._since_ns.pop(buffer.id, None)
        if buffer.stage != STAGE_RECYCLED:
            return False
        buffer.enter(STAGE_IN_USE)
        return True

    def trim(self) -> None:
        """Take the places of those away that were not wanted for long."""
        before_ns = time.monotonic_ns() - KEEP_NS
        while self._since_ns:
            buffer, since_ns = next(iter(self._since_ns.values()))
            if since_ns > before_ns:
                break
            del self._since_ns[buffer.id]
            self._placement.discard(buffer)
