"""What is built on a thread of its own because it will probably be needed: it runs while there is any."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from sdi.errors import BuildError

_log = logging.getLogger(__name__)
Build = Callable[[], object]
"""Raises BuildError where it fails, and each time that it is asked again."""


class BuildsAhead:
    """Any thread; ``add`` does not block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Build] = deque()
        self._thread: threading.Thread | None = None

    def add(self, build: Build) -> None:
        """Build this, too, in turn."""
        with self._lock:
            self._waiting.append(build)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sdi-ahead", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Give up what has not begun; blocks until the last one is over."""
        with self._lock:
            self._waiting.clear()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                build = self._waiting.popleft()
            try:
                build()
            except BuildError as cause:  # whoever needs it is told
                _log.debug("a program builds no more: %s", cause)
            except Exception:
                _log.exception("our bug")
