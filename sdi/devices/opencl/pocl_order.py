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

from sdi.dataclass import dataclass, field
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3

Key = tuple[object, ...]
"""What makes pocl share a function: program text, options, kernel name, local size."""


_RUNNING_MANY = 64


@dataclass(slots=True)
class _Launches:
    """``width``: of the widest launch that pocl has had; ``widest``: its ticket; ``running``: those that it
    has and that are not known done.

    ``waiting``: launches wider than all before, each with its width, the widest last.  pocl gets one of them
    when what it had then is done.
    """

    width: int = 0
    widest: Ticket | None = None
    running: dict[Ticket, None] = field(default_factory=dict)
    waiting: dict[Ticket, int] = field(default_factory=dict)
    many: int = _RUNNING_MANY

    def add(self, ticket: Ticket, width: int = 0) -> None:
        """pocl gets it."""
        if len(self.running) > self.many:
            self.prune()
            self.many = max(_RUNNING_MANY, 2 * len(self.running))
        self.running[ticket] = None
        if width > self.width:
            self.width, self.widest = width, ticket

    def prune(self) -> None:
        """Forget what is done."""
        self.running = {ticket: None for ticket in self.running if not ticket.done}
        self.waiting = {ticket: width for ticket, width in self.waiting.items() if not ticket.done}


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
            if launches.waiting.pop(ticket, 0):  # what pocl had is done, and what came since waits for it
                launches.add(ticket, width)
                return []
            launches.prune()
            before = list(launches.waiting)[-1:]
            if not before and launches.widest is not None and not launches.widest.done:
                before.append(launches.widest)
            is_widest = width > max(launches.width, *launches.waiting.values(), 0)
            if is_widest:
                before += launches.running
            # A queue keeps in order what it has been given.
            before = [
                o for o in dict.fromkeys(before) if o.owner is not ticket.owner or o in launches.waiting
            ]
            if not before:
                launches.add(ticket, width)
            elif is_widest:
                launches.waiting[ticket] = width
            return before

    def has_had(self, key: Key, width: int) -> bool:
        """Whether pocl had a launch as wide: then one of this width may be given to it at any time."""
        with self._lock:
            launches = self._by_key.get(key)
            return launches is not None and width <= launches.width

    def launched(self, key: Key, ticket: Ticket) -> None:
        """pocl has a launch that is no wider than one before it."""
        with self._lock:
            self._by_key.setdefault(key, _Launches()).add(ticket)


def grid_width(groups: Int3, local_size: Int3) -> int:
    """Work-items along the widest dimension, as pocl counts them."""
    return max(groups[dim] * local_size[dim] for dim in range(3))


POCL_ORDER = PoclOrder()
"""One for the process, because pocl's list is."""
