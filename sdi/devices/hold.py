"""Operations that may not go to their drivers yet: the same for members of all drivers.

An operation goes to its driver when every ticket that it waits for is *done* or, where the driver orders the
two, *issued*.  Until then it is held back here, not in the driver.  Why not OpenCL user events: pocl 3.1
hangs when a command waits for one that has failed, and a blocked command in an in-order queue blocks commands
that do not depend on it.  [M] A hop between two members costs the same within the noise (alternating runs on
two busy cores: held 41-105 us, through a user event 24-124 us).

No deadlock: the driver only ever has operations that can run, or wait for what a device of another process
was given before or will be given whatever becomes of them (``signals.py``), and a held operation waits only
for tickets that existed before it was issued, or, once it waits for none of these, for what can run whatever
becomes of it (``pocl_order.py``), so that the waits form no cycle.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed

_order = threading.Lock()
"""Guards who follows whom, over all members: an operation may follow one of another member."""


class Failed:
    """``native`` of a ticket whose operation never reaches the driver, until it is completed."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class HeldTicket(Ticket):
    """An operation of a member: the ticket, and what its lane keeps of it until it is done.

    ``native`` is None while it is held back.  ``start``: gives it to the driver.  ``wait``: what it waits
    for; ``missing``: once it is held back, by how many of these.  ``keep``: is referenced until it is done.
    ``followers``: operations that are held back until this one is issued.
    """

    __slots__ = ("followers", "hold", "issued_ns", "keep", "missing", "start", "wait")

    missing: int

    def __init__(
        self, owner: object, hold: Hold, start: Callable[[], object], wait: Sequence[Ticket], keep: object
    ) -> None:
        Ticket.__init__(self, owner)  # quicker than by super(), for each operation
        self.hold = hold
        self.start: Callable[[], object] | None = start
        self.wait = wait
        self.keep = keep
        self.issued_ns = 0
        self.followers: list[HeldTicket] | None = None


class Hold:
    """What one lane holds back.  Any thread may release it.

    ``order``: the driver orders what lanes with the same one issue.  ``give``: gives an operation to the
    driver; False where another thread will, and then calls ``release``, or where it is held back again.
    """

    def __init__(self, name: str, order: object, give: Callable[[HeldTicket], bool]) -> None:
        self.is_closed = False
        self._name: Final = name
        self._order: Final = order
        self._give: Final = give
        self._held: Final[set[HeldTicket]] = set()
        self._starting = 0  # operations on their way to the driver
        self._idle: Final = threading.Condition(_order)

    def add(self, ticket: HeldTicket, blockers: Sequence[Ticket]) -> None:
        """Start the operation once none of ``blockers`` is in its way."""
        ticket.missing = len(blockers) + 1
        with _order:
            self._held.add(ticket)
        for blocker in blockers:
            if not isinstance(blocker, HeldTicket) or blocker.hold._order is not self._order:
                blocker.when_done(lambda _: _unblock(ticket))
            elif not _follows(ticket, blocker):
                _unblock(ticket)
        _unblock(ticket)

    def close(self, fail: Callable[[HeldTicket], None]) -> bool:
        """Hold nothing back any more: what is held fails, by ``fail``, once all else is with the driver.

        False, and nothing is done, where that has happened.
        """
        with _order:
            if self.is_closed:
                return False
            self.is_closed = True
            self._idle.wait_for(lambda: not self._starting)
            abandoned = list(self._held)
            self._held.clear()
        for ticket in abandoned:
            ticket.wait = ()
            ticket.native = Failed(DeviceFailed(self._name, "closed before the operation could start"))
            fail(ticket)
            release(ticket)
        return True

    def _take(self, ticket: HeldTicket) -> bool:
        """One thing less is in the way: whether the operation may start now.  The caller holds ``_order``."""
        ticket.missing -= 1
        if ticket.missing or ticket not in self._held:
            return False
        self._held.remove(ticket)
        self._starting += 1
        return True

    def _start(self, ticket: HeldTicket) -> bool:
        is_issued = self._give(ticket)
        with _order:
            self._starting -= 1
            if not self._starting:
                self._idle.notify_all()
        return is_issued


def release(ticket: HeldTicket) -> None:
    """Start what was held back until ``ticket`` was issued, and what follows that, without recursion."""
    ready = deque(_followers(ticket))
    while ready:
        now = ready.popleft()
        if now.hold._start(now):
            ready += _followers(now)


def _followers(ticket: HeldTicket) -> list[HeldTicket]:
    """What may start now that ``ticket`` is issued."""
    with _order:
        followers, ticket.followers = ticket.followers, None
        return [each for each in followers or () if each.hold._take(each)]


def _follows(ticket: HeldTicket, blocker: HeldTicket) -> bool:
    """Whether ``ticket`` will be unblocked when ``blocker`` is issued; False where that has happened."""
    with _order:
        if blocker.native is not None or blocker.done:
            return False
        if blocker.followers is None:
            blocker.followers = []
        blocker.followers.append(ticket)
        return True


def _unblock(ticket: HeldTicket) -> None:
    with _order:
        if not ticket.hold._take(ticket):
            return
    if ticket.hold._start(ticket):
        release(ticket)
