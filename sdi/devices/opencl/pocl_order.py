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


class PoclOrder:
    """Launches of this process on pocl.  Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_key: dict[Key, _Launches] = {}

    def before(self, key: Key, width: int) -> list[Ticket]:
        """What a launch of this width has to wait for, in work-items along its widest dimension."""
        with self._lock:
            launches = self._by_key.setdefault(key, _Launches())
            launches.running = [ticket for ticket in launches.running if not ticket.done]
            if width > launches.width:
                return list(launches.running)
            widest = launches.widest
            return [widest] if widest is not None and not widest.done else []

    def launched(self, key: Key, width: int, ticket: Ticket) -> None:
        """The launch was issued; call it right after ``before``, on the same thread."""
        with self._lock:
            launches = self._by_key[key]
            launches.running.append(ticket)
            if width > launches.width:
                launches.width, launches.widest = width, ticket


def grid_width(groups: Int3, local_size: Int3) -> int:
    """Work-items along the widest dimension, as pocl counts them."""
    return max(groups[dim] * local_size[dim] for dim in range(3))


POCL_ORDER = PoclOrder()
"""One for the process, because pocl's list is."""
