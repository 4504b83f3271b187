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


@dataclass(slots=True)
class _Launches:
    """``width``: of the widest launch so far; ``widest``: its ticket; ``running``: those not known done."""

    width: int = 0
    widest: Ticket | None = None
    running: list[Ticket] = field(default_factory=list)

    def add(self, width: int, ticket: Ticket) -> None:
        self.running.append(ticket)
        if width > self.width:
            self.width, self.widest = width, ticket


class PoclOrder:
    """Launches of this process on pocl.  Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[Key, _Launches] = {}

    def enter(self, key: Key, width: int, ticket: Ticket) -> list[Ticket]:
        """What is in the way of a launch of this width, in work-items along its widest dimension.

        Where that is nothing it goes to pocl now; of another queue than those, else it waits and asks again.
        """
        with self._lock:
            launches = self._by_key.setdefault(key, _Launches())
            launches.running = [other for other in launches.running if not other.done]
            if width > launches.width:
                before = list(launches.running)
            else:
                widest = launches.widest
                before = [widest] if widest is not None and not widest.done else []
            in_the_way = [other for other in before if other.owner is not ticket.owner]
            if not in_the_way:
                launches.add(width, ticket)
            return in_the_way

    def launched(self, key: Key, width: int, ticket: Ticket) -> None:
        """pocl has a launch that is no wider than one before it."""
        with self._lock:
            self._by_key.setdefault(key, _Launches()).add(width, ticket)


def grid_width(groups: Int3, local_size: Int3) -> int:
    """Work-items along the widest dimension, as pocl counts them."""
    return max(groups[dim] * local_size[dim] for dim in range(3))


POCL_ORDER = PoclOrder()
"""One for the process, because pocl's list is."""
