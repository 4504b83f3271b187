"""Tasks on resources: when each begins and ends, and what the last one waited for."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

NONE: Final = -1


class Schedule:
    """Tasks that each take all of their resources for a time, behind others.

    A task that is ready takes its resources when all of them are free; of several in the order in which they
    got ready, equal ones as they were added.  Times are in ns, from 0 on.
    """

    def __init__(self) -> None:
        self._durations: Final = array("d")
        self._resources: Final[list[tuple[int, ...]]] = []
        self._labels: Final[list[str]] = []
        self._leads: Final = array("d")
        self._left: Final = array("l")  # how many each waits for
        self._behind: Final[list[list[int] | None]] = []
        self._ready: Final = array("d")
        self.ends: Final = array("d")
        self._because: Final = array("l")

    def add(
        self,
        label: str,
        duration_ns: float,
        resources: Sequence[int] = (),
        after: Iterable[int] = (),
        lead_ns: float = 0.0,
    ) -> int:
        """A task, which waits for others that were added before; its number.

        ``lead_ns``: it may begin so long before these are over, but not before they begin.
        """
        number = len(self._durations)
        waits = 0
        for other in set(after):
            behind = self._behind[other]
            if behind is None:
                self._behind[other] = [number]
            else:
                behind.append(number)
            waits += 1
        self._durations.append(duration_ns)
        self._resources.append(tuple(resources))
        self._labels.append(label)
        self._leads.append(lead_ns)
        self._left.append(waits)
        self._behind.append(None)
        self._ready.append(0.0)
        self.ends.append(0.0)
        self._because.append(NONE)
        return number

    def run(self) -> float:
        """Find when all tasks end; when the last one does."""
        free: dict[int, float] = {}
        last: dict[int, int] = {}  # of each resource the task that had it last
        ready = [(0.0, number) for number, left in enumerate(self._left) if not left]
        done, end = 0, 0.0
        while ready:
            begin, number = heapq.heappop(ready)
            for resource in self._resources[number]:
                if (at := free.get(resource, 0.0)) > begin:
                    begin, self._because[number] = at, last[resource]
            end_ns = begin + self._durations[number]
            self.ends[number] = end_ns
            end, done = max(end, end_ns), done + 1
            for resource in self._resources[number]:
                free[resource], last[resource] = end_ns, number
            for other in self._behind[number] or ():
                if (ready_ns := end_ns - self._leads[other]) >= self._ready[other]:
                    self._ready[other], self._because[other] = ready_ns, number
                self._left[other] -= 1
                if not self._left[other]:
                    heapq.heappush(ready, (self._ready[other], other))
        assert done == len(self._durations), "tasks wait for each other"
        return end

    def path(self) -> dict[str, float]:
        """What the time to the end went to: of the chain of tasks that ends last, each waiting for the one
        before or for its resource, how long by label.
        """
        found: dict[str, float] = {}
        at = max(range(len(self.ends)), key=self.ends.__getitem__, default=NONE)
        while at != NONE:
            label, before = self._labels[at], self._because[at]
            took = self.ends[at] - (self.ends[before] if before != NONE else 0.0)
            found[label] = found.get(label, 0.0) + took
            at = before
        return found

    def busy(self, resource: int) -> float:
        """How long a resource is taken."""
        return sum(
            duration
            for duration, taken in zip(self._durations, self._resources, strict=True)
            if resource in taken
        )
