"""Which launches pocl must not run side by side.

pocl (3.1 to 6.0) keeps one list of loaded work-group functions for the whole process.  A function is looked
up by kernel, local size and "made for a grid at least this wide", but given back by kernel and local size
alone, so that with two of different width in use the wrong one is given back and an assertion ends the
process.  One context with one in-order queue never does that; members that share a pocl device do, as soon as
their boxes differ in width.  The widest one is always first in the list, and all narrower launches use it: so
nothing goes wrong if a launch that is wider than all before it runs alone.  That costs something once per
width, then nothing.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3

Key = tuple[object, ...]
"""What makes pocl share a function: program text, options, kernel name, local size."""


_RUNNING_MANY = 64


@dataclass(slots=True)
class _Launches:
    """``width``: of the widest launch so far; ``widest``: its ticket; ``running``: those not known done.

    ``waiting``: launches wider than all before, which pocl gets when what ran then is done.
    """

    width: int = 0
    widest: Ticket | None = None
    running: list[Ticket] = field(default_factory=list)
    waiting: set[Ticket] = field(default_factory=set)

    def add(self, ticket: Ticket) -> None:
        if len(self.running) > _RUNNING_MANY:
            self.prune()
        self.running.append(ticket)

    def prune(self) -> None:
        self.running = [ticket for ticket in self.running if not ticket.done]
        self.waiting = {ticket for ticket in self.waiting if not ticket.done}


class PoclOrder:
    """Launches of this process on pocl.  Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[Key, _Launches] = {}

    def enter(self, key: Key, width: int, ticket: Ticket) -> list[Ticket]:
        """What is in the way of a launch of this width, in work-items along its widest dimension.

        Where that is nothing it goes to pocl now, else it waits and asks again.  One that is wider than all
        before is in the way of all that ask later, or it might never get there.
        """
        with self._lock:
            launches = self._by_key.setdefault(key, _Launches())
            if ticket in launches.waiting:  # what ran then is done, and what came since waits for it
                launches.waiting.discard(ticket)
                launches.add(ticket)
                return []
            launches.prune()
            widest = launches.widest
            before = [widest] if widest is not None and not widest.done else []
            if width > launches.width:
                before += [other for other in launches.running if other is not widest]
                launches.width, launches.widest = width, ticket
            # A queue keeps in order what it has been given.
            in_the_way = [o for o in before if o.owner is not ticket.owner or o in launches.waiting]
            if not in_the_way:
                launches.add(ticket)
            elif launches.widest is ticket:
                launches.waiting.add(ticket)
            return in_the_way

    def launched(self, key: Key, ticket: Ticket) -> None:
        """pocl has a launch that is no wider than one before it."""
        with self._lock:
            self._by_key.setdefault(key, _Launches()).add(ticket)


def grid_width(groups: Int3, local_size: Int3) -> int:
    """Work-items along the widest dimension, as pocl counts them."""
    return max(groups[dim] * local_size[dim] for dim in range(3))


POCL_ORDER = PoclOrder()
"""One for the process, because pocl's list is."""
