"""Calls that are made at a time: what test hooks delay."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import Final


class DueCalls:
    """Makes calls on a thread of its own, each when it is due (``time.monotonic_ns``), equal ones in order.

    They must be short and never raise.
    """

    def __init__(self, thread_name: str) -> None:
        self._changed: Final = threading.Condition()
        self._calls: Final[list[tuple[int, int, Callable[[], None]]]] = []
        self._numbers: Final = itertools.count()
        self._closing = False
        self._thread: Final = threading.Thread(target=self._run, name=thread_name, daemon=True)
        self._thread.start()

    def at(self, due_ns: int, call: Callable[[], None]) -> None:
        """Any thread; before ``close``."""
        with self._changed:
            heapq.heappush(self._calls, (due_ns, next(self._numbers), call))
            self._changed.notify()

    def close(self) -> None:
        """Make all calls that are left at once, then join the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._calls or self._closing)
                if not self._calls:
                    return
                left_ns = self._calls[0][0] - time.monotonic_ns()
                if left_ns > 0 and not self._closing:
                    self._changed.wait(left_ns / 1e9)
                    continue
                _, _, call = heapq.heappop(self._calls)
            call()
