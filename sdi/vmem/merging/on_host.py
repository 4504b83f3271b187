"""Merges in the arena: what several members wrote to the same bytes in one launch is brought home.

Source: papers/1 section 3.6.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from sdi.atomics import Update
from sdi.devices.copying import download
from sdi.devices.issue import MEASURED, Issue
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.vmem.accounting import Accounting
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.host import HostWorker
from sdi.vmem.links import MEASURED_NBYTES
from sdi.vmem.memories import Memories
from sdi.vmem.merging.host import MergeResult, merge_diffs, merge_updates
from sdi.vmem.transfers import Transfers

_MERGE_TASK_NBYTES = 4 << 20
"""Merges are cut into tasks of this size, for several threads."""


class HostMerges:
    """Makes merges.  ``post``: as in VirtualMemory."""

    def __init__(
        self,
        memories: Memories,
        transfers: Transfers,
        accounting: Accounting,
        host: HostWorker,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._memories = memories
        self._transfers = transfers
        self._accounting = accounting
        self._host = host
        self._post = post

    def merge(
        self,
        buffer: VirtualBuffer,
        over: ByteRange,
        launched: Sequence[tuple[int, Sequence[Ticket]]],
        unit_nbytes: int,
        smallest_nbytes: int,
        update: Update | None,
        issue: Issue,
    ) -> Ticket:
        """Bring home what several members wrote to ``over`` in one launch.

        ``launched``: each member, and what is done when it has written.

        The arena and all of these members held the same bytes before the launch (the twin).  With ``update``
        they all changed them by that, each on its own copy.
        """
        staged: list[int] = []
        downloads: list[Ticket] = []
        for member, launch in launched:
            at = self._memories.arena.allocate(over.nbytes)
            staged.append(at)
            dependencies = buffer.dependencies[member_memory(member)]
            allocation = self._memories.allocation(buffer, member)
            ticket = download(
                self._memories.devices[member],
                allocation.device_buffer,
                over.start - allocation.over.start,
                self._memories.arena.view(at, over.nbytes),
                launch,
                timing=MEASURED if over.nbytes >= MEASURED_NBYTES else issue.timing,
            )
            dependencies.read_by(over, ticket)
            downloads.append(ticket)
            self._memories.devices[member].flush()
            self._accounting.copied(
                member_memory(member), HOST, over.nbytes, ticket, issue.cause, issue.command
            )
            self._transfers.links.planned(member_memory(member), HOST, over.nbytes)
            self._transfers.links.issued(member_memory(member), HOST, over.nbytes, ticket)
        target = self._memories.host_array(buffer, over)
        copies = [np.frombuffer(self._memories.arena.view(at, over.nbytes), np.uint8) for at in staged]
        found: list[MergeResult] = []

        def merge(start: int, stop: int) -> None:
            parts = [copy[start:stop] for copy in copies]
            if update is not None:
                found.append(merge_updates(target[start:stop], parts, update))
            else:
                found.append(merge_diffs(target[start:stop], parts, unit_nbytes, smallest_nbytes))

        tasks = [
            partial(merge, start, min(start + _MERGE_TASK_NBYTES, over.nbytes))
            for start in range(0, over.nbytes, _MERGE_TASK_NBYTES)
        ]
        dependencies = buffer.dependencies[HOST]  # what did not change stays as it is there, poisoned or not
        waits = [*downloads, *dependencies.before_read(over), *dependencies.before_write(over)]
        merged = self._host.submit_all(tasks, waits)
        self._accounting.worked("merge", -1, over.nbytes, merged, issue)
        buffer.dependencies[HOST].written_by(over, merged)
        buffer.directory.wrote(HOST, over)
        events = self._accounting.events
        events.twins += 1
        events.twin_nbytes += over.nbytes

        def finished() -> None:
            for offset in staged:
                self._memories.arena.free(offset)
            self._accounting.raced(issue.cause, sum(result.conflicts for result in found))
            events.diff_nbytes += unit_nbytes * sum(result.changed_units for result in found)

        merged.when_done(lambda _ticket: self._post(finished))
        return merged
