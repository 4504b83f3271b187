"""The host as an executor: copies, fills and merges of arena bytes, with tickets like a member's."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue

import numpy as np

from sdi.devices.join import all_of, join
from sdi.devices.ticket import Ticket
from sdi.limits import cores
from sdi.region import Region, alike

_log = logging.getLogger("sdi.host")

THREADS_MAX = 4
"""More add nothing: a few cores saturate the host's memory."""
_COPY_TASK_NBYTES = 2 << 20
AT_ONCE_NBYTES = 256 << 10
"""What takes less time than to have another thread do it."""
_RUN_NBYTES = 64
"""One more run of bytes costs as much as so many."""


def is_short(from_: Region, to: Region) -> bool:
    """Whether a copy takes less time than to have another thread make it.  The regions are alike."""
    nbytes = to.total_nbytes + _RUN_NBYTES * max(from_.num_runs, to.num_runs)
    return nbytes <= AT_ONCE_NBYTES and max(from_.span_nbytes, to.span_nbytes) <= 4 * AT_ONCE_NBYTES


class HostWorker:
    """Threads (``sdi-host-k``) that run tasks whose tickets are done, in the order they become ready."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(THREADS_MAX, cores())
        self._ready: SimpleQueue[tuple[Callable[[], object], Ticket] | None] = SimpleQueue()
        self._unfinished: set[Ticket] = set()
        self._threads = [
            threading.Thread(target=self._run, name=f"sdi-host-{number}", daemon=True)
            for number in range(self.threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Callable[[], object], wait: Sequence[Ticket]) -> Ticket:
        """Run ``task`` when ``wait`` is done; if one of them failed, fail with its error instead."""
        return self.submit_all([task], wait)

    def at_once(self, task: Callable[[], object], nbytes: int, wait: Sequence[Ticket]) -> Ticket:
        """Likewise a task about so many bytes: here and now, if these are few and it waits for nothing."""
        if wait or nbytes > AT_ONCE_NBYTES:
            return self.submit(task, wait)
        ticket = Ticket(self)
        _perform(task, ticket)
        return ticket

    def submit_all(self, tasks: Sequence[Callable[[], object]], wait: Sequence[Ticket]) -> Ticket:
        """Likewise for tasks that may run side by side; the ticket is done when all of them are."""
        ticket = Ticket(self)
        self._unfinished.add(ticket)
        ticket.when_done(self._unfinished.discard)
        parts = [Ticket(self) for _ in tasks]

        def ready(error: BaseException | None) -> None:
            if error is not None:
                ticket.complete(error)
                return
            for task, part in zip(tasks, parts, strict=True):
                self._ready.put((task, part))

        if len(parts) == 1:
            parts = [ticket]
        else:
            all_of(parts, ticket)
        join(wait, ready)
        return ticket

    def copy(
        self, source: memoryview, from_: Region, target: memoryview, to: Region, wait: Sequence[Ticket]
    ) -> Ticket:
        """Copy between bytes that the host sees, by several threads where it is worth it."""
        from_, to = alike(from_, to)
        if is_short(from_, to):
            task = partial(np.copyto, to.of(target), from_.of(source))
            return self.at_once(task, to.total_nbytes, wait)
        most = max(from_.span_nbytes, to.span_nbytes) // _COPY_TASK_NBYTES
        num = max(1, min(self.threads, most, to.counts[-1] if to.levels else 1))
        cuts = [to.counts[-1] * number // num for number in range(num + 1)] if num > 1 else []
        parts = [(from_.part(a, b), to.part(a, b)) for a, b in itertools.pairwise(cuts)] or [(from_, to)]
        tasks = [partial(np.copyto, there.of(target), here.of(source)) for here, there in parts]
        return self.submit_all(tasks, wait)

    def is_idle(self) -> bool:
        """Whether all that was given is done."""
        return not self._unfinished

    def close(self) -> None:
        """Run what is ready, then stop."""
        for _ in self._threads:
            self._ready.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (item := self._ready.get()) is not None:
            _perform(*item)


def _perform(task: Callable[[], object], ticket: Ticket) -> None:
    start, error = time.monotonic_ns(), None
    try:
        task()
    except Exception as problem:
        _log.exception("a host task failed")
        error = problem
    ticket.complete(error, start, time.monotonic_ns())
