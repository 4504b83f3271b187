"""The books of a generator: every command gets the wait list that makes its data determined."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from tests.sequences.model import Access, Kernel, Memory, Program, Queue, View

if TYPE_CHECKING:
    from tests.sequences.pictures import Picture

Step = tuple[str, dict[str, Any]]
"""A method of ``Runner`` and its arguments, which JSON can hold."""

Use = tuple[Memory, int, int, bool]
"""Memory, first byte, end, whether it is written."""


class Book:
    """What a sequence has so far: steps, objects, and what may still be pending."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, random.Random(seed)
        self.steps: list[Step] = []
        self.views: list[View] = []
        self.pictures: list[Picture] = []
        self.queues: list[Queue] = []
        self.programs: list[Program] = []
        self.kernels: list[Kernel] = []
        self.events: list[tuple[str, Queue]] = []
        self.user_events: list[str] = []
        self.host = [Memory(f"h{k}", 1 << 15) for k in range(3)]
        self.number = 0

    # -- bookkeeping ---------------------------------------------------------------------------------

    def emit(self, op: str, **arguments: Any) -> None:
        self.steps.append((op, arguments))

    def name(self, letter: str) -> str:
        self.number += 1
        return f"{letter}{self.number}"

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def memories(self) -> list[Memory]:
        roots = {id(v.root): v.root for v in [*self.views, *(p.view for p in self.pictures)]}
        return [*roots.values(), *self.host]

    def finish(self, queue: Queue) -> None:
        """Wait for everything in the queue."""
        self.open_gates()
        self.emit("finish", queue=queue.name)
        for memory in self.memories():
            memory.accesses = [a for a in memory.accesses if a.queue is not queue]

    def finish_all(self) -> None:
        for queue in self.queues:
            self.finish(queue)

    def open_gates(self) -> None:
        """Complete the user events: before anything blocks."""
        for event in self.user_events:
            self.emit("set_user_event", event=event, status=0)
        self.user_events.clear()
        for queue in self.queues:
            self.emit("flush", queue=queue.name)

    def order(self, queue: Queue, uses: list[Use], blocking: bool) -> dict[str, Any]:
        """Wait list and event of a command that uses memory like this; records it."""
        waits: list[str] = []
        for memory, start, stop, writes in uses:
            for access in list(memory.accesses):
                if access not in memory.accesses or not access.conflicts(start, stop, writes):
                    continue
                if access.queue is queue and queue.in_order:
                    continue
                if access.event:
                    waits.append(access.event)
                else:
                    self.finish(access.queue)
        if blocking:
            self.open_gates()
        elif self.user_events and self.chance(0.3):
            waits.append(self.random.choice(self.user_events))
        if self.events and self.chance(0.1):
            waits.append(self.random.choice(self.events)[0])
        event = self.name("e") if not queue.in_order or self.chance(0.6) else ""
        for memory, start, stop, writes in uses:
            if blocking and queue.in_order:
                for other in self.memories():
                    other.accesses = [a for a in other.accesses if a.queue is not queue]
            if not blocking:
                memory.accesses.append(Access(queue, event, start, stop, writes))
        if event:
            self.events.append((event, queue))
        return {"queue": queue.name, "waits": list(dict.fromkeys(waits)), "event": event}

    def order_blocking(self, queue: Queue, uses: list[Use]) -> tuple[dict[str, Any], bool]:
        blocking = self.chance(0.4)
        return self.order(queue, uses, blocking), blocking

    def free(self, uses: list[Use]) -> bool:
        """Whether no mapping forbids these uses."""
        return not any(
            m.start < stop and start < m.stop and (m.writes or writes)
            for memory, start, stop, writes in uses
            for m in memory.maps
        )

    def span(self, nbytes: int, unit: int = 1) -> tuple[int, int]:
        """A random part of so many bytes: offset and size, multiples of ``unit``."""
        units = nbytes // unit
        if self.chance(0.2):
            return 0, units * unit
        size = self.random.randint(1, units)
        return self.random.randint(0, units - size) * unit, size * unit
