"""Copies of buffers' bytes between memories: planned from the directory, performed now or again.

Source: papers/1 section 3.6.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from sdi.devices.base import Place
from sdi.devices.issue import MEASURED, Issue
from sdi.devices.pooled import PooledMemory
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange, coalesce
from sdi.region import Region
from sdi.vmem.accounting import Accounting
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.dependencies import RANGES_MAX, Use
from sdi.vmem.directory import HOST, Copy, member_memory
from sdi.vmem.links import MEASURED_NBYTES, Links
from sdi.vmem.memories import Memories
from sdi.vmem.recovery import forget_unheld
from sdi.vmem.rows import in_rows, ranges_of

_PIECE_NBYTES = 4 << 20
_PIECES_MAX = 64


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """A copy of bytes of ``buffer`` between two memories, which can be made any number of times.

    ``copy.over``: from its first to its last byte; ``region``: what is copied of that, ``nbytes`` in all.
    ``leave``, ``arrive``: what it reads and writes there.  ``cause``: see ``Accounting``.  ``is_staged``: one
    of two that together bring bytes from a member to another through the host.
    """

    buffer: VirtualBuffer
    copy: Copy
    nbytes: int
    leave: Use
    arrive: Use
    cause: str
    is_staged: bool
    region: Region


class Transfers:
    """Plans and performs them."""

    def __init__(self, memories: Memories, links: Links, accounting: Accounting) -> None:
        self._memories = memories
        self.links = links
        self._accounting = accounting

    def predicted_ns(self, transfers: Iterable[Transfer]) -> float:
        """What copies are expected to take that are made at once: each memory gets one after the other."""
        received: dict[int, float] = {}
        for each in transfers:
            source, target = each.copy.source, each.copy.target
            cost = self.links.cost_ns(source, target, each.nbytes)
            received[target] = received.get(target, 0.0) + cost
        return max(received.values(), default=0.0)

    def fetch_host(self, buffer: VirtualBuffer, over: ByteRange, issue: Issue) -> None:
        """Make ``over`` current in the arena; readers wait through the host's dependencies."""
        for transfer in self.plan(buffer, HOST, (over,), False, issue.cause):
            self.perform(transfer, issue)

    def plan(
        self,
        buffer: VirtualBuffer,
        memory: int,
        ranges: Sequence[ByteRange],
        same_undefined: bool,
        cause: str,
    ) -> list[Transfer]:
        """What has to be performed, in order, to make ``ranges``, which are disjoint and in order, current in
        ``memory``; it counts as done.
        """
        directory, choose = buffer.directory, partial(self.links.choose, memory)
        if buffer.dependencies[memory].poisoned:
            forget_unheld(buffer, memory)
        direct: list[Copy] = []
        home: list[Copy] = []  # the first halves of those that are staged
        for over in ranges:
            if directory.is_current(memory, over):
                continue
            for copy in directory.read(memory, over, same_undefined, choose):
                source, part = copy.source, copy.over
                if HOST not in (source, memory) and self.links.through_host(source, memory, part.nbytes):
                    directory.copied(HOST, part)
                    home.append(Copy(source, HOST, part))
                else:
                    direct.append(copy)
        if not direct and not home:
            return []
        out = [Copy(HOST, memory, over) for over in coalesce(copy.over for copy in home)]
        return [
            *(
                self._transfer(buffer, copy, region, cause, True)
                for copy, region in (*in_rows(home), *in_rows(out))
            ),
            *(self._transfer(buffer, *each, cause, False) for each in self._in_pieces(direct)),
        ]

    def _in_pieces(self, copies: list[Copy]) -> Iterable[tuple[Copy, Region]]:
        """``copies`` in rows, large ones between nodes in pieces: the next is sent one while others come."""
        return self._pieces(in_rows(copies)) if self.links.is_far else in_rows(copies)

    def _pieces(self, copies: Iterable[tuple[Copy, Region]]) -> Iterator[tuple[Copy, Region]]:
        for copy, region in copies:
            if region.levels or not self.links.crosses(copy.source, copy.target):
                yield copy, region
                continue
            over = copy.over
            each = max(_PIECE_NBYTES, -(-over.nbytes // (_PIECES_MAX * _PIECE_NBYTES)) * _PIECE_NBYTES)
            for start in range(over.start, over.stop, each):
                stop = min(start + each, over.stop)
                yield Copy(copy.source, copy.target, ByteRange(start, stop)), Region(start, stop - start)

    def _transfer(
        self, buffer: VirtualBuffer, copy: Copy, region: Region, cause: str, is_staged: bool
    ) -> Transfer:
        over = ranges_of(copy.over, region, RANGES_MAX)
        leave, there = buffer.dependencies[copy.source].use(over, ()), buffer.dependencies[copy.target]
        if region.num_runs > RANGES_MAX:
            arrive = there.use_all(copy.over, partial(ranges_of, copy.over, region, region.num_runs))
        else:
            arrive = there.use((), over)
        nbytes = region.total_nbytes
        # Who is asked next for the same bytes should know that this source is busy.
        self.links.planned(copy.source, copy.target, nbytes)
        return Transfer(buffer, copy, nbytes, leave, arrive, cause, is_staged, region)

    def _place(self, buffer: VirtualBuffer, memory: int, by: int, over: ByteRange) -> Place:
        """The buffer's bytes in ``memory``, those of ``over`` at least, as the member of memory ``by`` names
        them.
        """
        if memory == HOST:
            return Place(self._memories.host_view(buffer, over), -over.start)
        allocation = buffer.allocations[memory - 1]
        assert allocation is not None, f"buffer {buffer.id} has no place on member {memory - 1}"
        if allocation.place is not None:
            return allocation.place
        view = PooledMemory.view(allocation.device_buffer, by - 1)
        return Place(view, -allocation.over.start, self._memories.devices[by - 1])

    def perform(self, transfer: Transfer, issue: Issue, is_repeated: bool = False) -> None:
        """Issue a copy, behind everything that conflicts with it; both places are there.

        ``is_repeated``: it was planned for an earlier launch.
        """
        memories, buffer, copy = self._memories, transfer.buffer, transfer.copy
        source, target, over = copy.source, copy.target, copy.over
        nbytes = transfer.nbytes
        timing = MEASURED if nbytes >= MEASURED_NBYTES else issue.timing
        from_, to = source, target  # or, for the memory of all together, the member that copies
        if memories.pooled is not None and memories.pooled_memory in (source, target):
            ends = (target, source, member_memory(memories.members[0]))
            by = next(memory for memory in ends if memory not in (HOST, memories.pooled_memory))
            from_, to = (by if memory == memories.pooled_memory else memory for memory in (source, target))
        device = memories.devices[(to or from_) - 1]
        there, here = self._place(buffer, source, from_, over), self._place(buffer, target, to, over)
        before: dict[Ticket, None] = {}
        is_one = HOST in (from_, to) or from_ == to  # operation, not one at each end
        behind = before if is_one else dict[Ticket, None]()
        transfer.leave.gather(before)
        transfer.arrive.gather(behind)
        then = () if is_one else list(behind)
        left, ticket = device.copy(there, here, transfer.region, list(before), then, timing)
        if target == HOST:
            device.flush()
        transfer.leave.by(left)
        transfer.arrive.by(ticket)
        cause, is_staged = transfer.cause, transfer.is_staged
        self._accounting.copied(from_, to, nbytes, ticket, cause, issue.command, is_staged)
        if nbytes >= MEASURED_NBYTES:
            if is_repeated:
                self.links.planned(source, target, nbytes)
            self.links.issued(source, target, nbytes, ticket)
