"""The host as an executor: copies, fills and merges of arena bytes, with tickets like a member's."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from sdi.devices.join import join
from sdi.devices.ticket import Ticket

_log = logging.getLogger("sdi.host")


class HostWorker:
    """One thread (``sdi-host``) that runs tasks whose tickets are done, in the order they become ready."""

    def __init__(self) -> None:
        self._ready: SimpleQueue[tuple[Callable[[], None], Ticket] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sdi-host", daemon=True)
        self._thread.start()

    def submit(self, task: Callable[[], None], wait: Sequence[Ticket]) -> Ticket:
        """Run ``task`` when ``wait`` is done; if one of them failed, fail with its error instead."""
        ticket = Ticket(self)

        def ready(error: BaseException | None) -> None:
            if error is None:
                self._ready.put((task, ticket))
            else:
                ticket.complete(error)

        join(wait, ready)
        return ticket

    def close(self) -> None:
        """Run what is ready, then stop."""
        self._ready.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._ready.get()) is not None:
            task, ticket = item
            start, error = time.monotonic_ns(), None
            try:
                task()
            except Exception as problem:
                _log.exception("a host task failed")
                error = problem
            ticket.complete(error, start, time.monotonic_ns())
