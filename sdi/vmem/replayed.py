"""Accesses that other processes order: replays of recordings whose parts nodes keep.

A node knows what its part of a recording reads and writes, and orders its memories itself as long as replays
follow each other.  What the dependencies of these memories say here is behind then; they catch up when
something else asks for them.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from sdi.devices.ticket import Ticket


class NodeAccess(Protocol):
    """See ``dependencies.Use``."""

    def gather(self, found: dict[Ticket, None]) -> None:
        """Add what it waits for."""

    def record(self, ticket: Ticket) -> None:
        """It was made by what is done when ``ticket`` is."""


Accesses = Mapping[object, Sequence[tuple[NodeAccess, int]]]
"""What the parts of a recording do, by the dependencies where they do it: each use, and the number of the
operation whose it is."""


class Replay(Protocol):
    """One replay.  ``accesses``: its recording's, one object for all replays of it."""

    accesses: Accesses

    @property
    def is_over(self) -> bool:
        """Whether it is done and did not fail."""

    def ticket(self, operation: int) -> Ticket:
        """The ticket of one of its operations."""


class Replayed:
    """The replays that used root buffer ``buffer``.

    ``count``: how many.  ``changes``: how often something else used it in the memory of a node's member;
    ``changed``: by memory, the number of the last of these.
    """

    __slots__ = ("_limit", "_replays", "buffer", "changed", "changes", "count")

    def __init__(self, buffer: int) -> None:
        self.buffer = buffer
        self.count = 0
        self.changes = 0
        self.changed: dict[int, int] = {}
        self._replays: list[tuple[int, Replay]] = []
        self._limit = 16

    def by(self, replay: Replay) -> None:
        """One more."""
        if len(self._replays) >= self._limit:
            self._tidy()
        self.count += 1
        self._replays.append((self.count, replay))

    def change(self, memory: int) -> None:
        """Something else used the buffer in ``memory``."""
        self.changes += 1
        self.changed[memory] = self.changes

    def since(self, seen: int) -> Iterator[Replay]:
        """Those behind number ``seen``, in their order, but for what nobody has to wait for any more."""
        at = len(self._replays)
        while at and self._replays[at - 1][0] > seen:
            at -= 1
        for _, replay in self._replays[at:]:
            yield replay

    def forget(self, accesses: Accesses) -> None:
        """What one recording's replays did is known where they did it."""
        self._replays = [each for each in self._replays if each[1].accesses is not accesses]

    def _tidy(self) -> None:
        """Forget what is over.  The last of each recording stays: what it wrote may have failed before."""
        last = {id(replay.accesses): number for number, replay in self._replays}
        self._replays = [
            (number, replay)
            for number, replay in self._replays
            if not replay.is_over or last[id(replay.accesses)] == number
        ]
        self._limit = 16 + 2 * len(self._replays)
