"""Which processes of a job have stopped answering, without being dead.

A node that has anything to do says so now and then; rank 0 counts how long one is silent that owes it
something.  It counts ticks of its own, each of which lets in what has come: while rank 0 itself stands still,
or is too busy to listen, nobody grows silent.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection
from typing import Final

_log = logging.getLogger(__name__)
BEAT_S = 0.5
"""A node with work says that it is there so often; rank 0 looks so often."""


class Silence:
    """Of each rank how many ticks it has been silent.  Owned by: who calls ``tick``.

    ``timeout_s``: so long at least a rank may be silent that owes something.
    """

    def __init__(self, timeout_s: float) -> None:
        self._most: Final = math.ceil(timeout_s / BEAT_S)
        self._silent: Final[dict[int, int]] = {}

    def tick(self, owing: Collection[int], heard: Collection[int]) -> list[int]:
        """Ranks that are silent for too long now.

        ``owing``: ranks that have something to do; ``heard``: that said anything since the last tick.
        """
        for rank in self._silent.keys() - owing:
            del self._silent[rank]
        for rank in owing:
            self._silent[rank] = 0 if rank in heard else self._silent.get(rank, 0) + 1
        return [rank for rank, ticks in self._silent.items() if ticks > self._most]


class Ticking:
    """Calls ``tick`` every BEAT_S on a thread of its own until it is closed."""

    def __init__(self, name: str, tick: Callable[[], None]) -> None:
        self._tick: Final = tick
        self._over: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(BEAT_S):
            try:
                self._tick()
            except Exception:
                _log.exception("heartbeat")

    def close(self) -> None:
        """Joins the thread."""
        self._over.set()
        self._thread.join()
