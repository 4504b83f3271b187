"""Copies of buffers' bytes between memories: planned from the directory, performed now or again.

Source: papers/1 section 3.6.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from sdi.dataclass import dataclass
from sdi.devices.base import Place
from sdi.devices.issue import MEASURED, Issue
from sdi.devices.join import all_of
from sdi.devices.pooled import PooledMemory
from sdi.devices.ticket import Ticket
from sdi.region import Bytes, Region, as_region, within
from sdi.regions import RegionSet, as_few
from sdi.vmem.accounting import Accounting
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.dependencies import Use
from sdi.vmem.directory import HOST, Copy, member_memory
from sdi.vmem.links import MEASURED_NBYTES, Links
from sdi.vmem.memories import Memories
from sdi.vmem.recovery import forget_unheld
from sdi.vmem.spill.spilling import Spilling

_SHARE_NBYTES = 64 << 10
"""What is shorter comes to a node from one other node."""


@dataclass(slots=True, eq=False)
class Transfer:
    """A copy of bytes of ``buffer`` between two memories, which can be made any number of times.

    ``region``: what is copied, ``nbytes`` in all.
    ``leave``, ``arrive``: what it reads and writes there.  ``cause``: see ``Accounting``.  ``is_staged``: one
    of two that together bring bytes from a member to another through the host.  ``round``: of those in which
    all get what all have (``vmem/rounds.py``), from 1 on; 0 of other copies.
    """

    buffer: VirtualBuffer
    copy: Copy
    nbytes: int
    leave: Use
    arrive: Use
    cause: str
    is_staged: bool
    region: Region
    round: int = 0


class Transfers:
    """Plans and performs them."""

    def __init__(self, memories: Memories, links: Links, accounting: Accounting) -> None:
        self._memories = memories
        self.links = links
        self._accounting = accounting

    def predicted_ns(self, transfers: Iterable[Transfer]) -> float:
        """What copies from members are expected to take that are made at once: each memory gets what one
        other has after what another one has.
        """
        by_ends: dict[tuple[int, int], list[Transfer]] = {}
        for each in transfers:
            if each.copy.source != HOST:  # what comes from there comes once, whoever needs it
                by_ends.setdefault((each.copy.source, each.copy.target), []).append(each)
        received: dict[int, float] = {}
        for (source, target), those in by_ends.items():
            cost = self.links.cost_ns(source, target, sum([each.nbytes for each in those]))
            runs = sum([each.region.num_runs for each in those])
            cost += self.links.more_ns(source, target, len(those) - 1, runs - len(those))
            received[target] = received.get(target, 0.0) + cost
        return max(received.values(), default=0.0)

    def fetch_host(self, buffer: VirtualBuffer, over: Bytes, issue: Issue) -> None:
        """Make ``over`` current in the arena; readers wait through the host's dependencies."""
        self.bring(buffer, HOST, over, issue)

    def bring(self, buffer: VirtualBuffer, memory: int, over: Bytes, issue: Issue) -> None:
        """Make ``over``, which has a place in ``memory``, current there."""
        for transfer in self.plan(buffer, memory, (over,), False, issue.cause):
            self.perform(transfer, issue)

    def plan(
        self,
        buffer: VirtualBuffer,
        memory: int,
        regions: Sequence[Bytes],
        same_undefined: bool,
        cause: str,
        source: int | None = None,
    ) -> list[Transfer]:
        """What has to be performed, in order, to make ``regions``, which are disjoint, current in ``memory``;
        it counts as done.

        ``source``: the memory that all of it is to come from, another node's, which has it.
        """
        directory = buffer.directory
        choose = partial(self.links.choose, memory) if source is None else partial(self._from, source, memory)
        if buffer.dependencies[memory].poisoned:
            forget_unheld(buffer, memory)
        direct: list[Copy] = []
        home: list[Copy] = []  # the first halves of those that are staged
        is_shared_out = self.links.is_far and source is None
        for over in self._shared_out(buffer, memory, regions) if is_shared_out else regions:
            for copy in directory.read(memory, over, same_undefined, choose):
                from_ = copy.source = buffer.own(copy.source)
                part = copy.over
                if (
                    HOST not in (from_, memory)
                    and self.links.through_host(from_, memory, part.total_nbytes)
                    and self._memories.in_file(buffer, as_region(part)) is None
                ):
                    directory.copied(HOST, part)
                    home.append(Copy(from_, HOST, part))
                else:
                    direct.append(copy)
        staged = _fewer(home)
        if home:
            staged += [Copy(HOST, memory, over) for over in as_few([copy.over for copy in home])]
        found = [self.transfer(buffer, copy, cause, True) for copy in staged]
        found += [self.transfer(buffer, copy, cause, False) for copy in _fewer(direct)]
        return found

    def _from(self, source: int, memory: int, holders: int, nbytes: int) -> int:
        assert holders >> source & 1, f"memory {source} has not what memory {memory} is to get from there"
        return self.links.choose(memory, 1 << source, nbytes)

    def _shared_out(self, buffer: VirtualBuffer, memory: int, regions: Sequence[Bytes]) -> Iterator[Bytes]:
        """``regions``, in parts where much is missing that several nodes have: each may come from another."""
        for over in regions:
            if over.levels or over.nbytes < 2 * _SHARE_NBYTES or not self._is_shared(buffer, memory, over):
                yield over
                continue
            part_nbytes = max(_SHARE_NBYTES, -(-over.nbytes // self.links.num_places))
            for start in range(over.base, over.base + over.nbytes, part_nbytes):
                yield from within(over, start, start + part_nbytes)

    def _is_shared(self, buffer: VirtualBuffer, memory: int, over: Bytes) -> bool:
        stale = buffer.directory.stale(memory, RegionSet((over.bounds,)))
        return any(
            holders & (holders - 1) and part.total_nbytes >= 2 * _SHARE_NBYTES for part, holders in stale
        )

    def transfer(self, buffer: VirtualBuffer, copy: Copy, cause: str, is_staged: bool) -> Transfer:
        """A copy of bytes that the source has; see ``Transfer``."""
        over, nbytes = (copy.over,), copy.over.total_nbytes
        leave = buffer.dependencies[copy.source].use(over, ())
        arrive = buffer.dependencies[copy.target].use((), over)
        # Who is asked next for the same bytes should know that this source is busy.
        self.links.planned(copy.source, copy.target, nbytes)
        return Transfer(buffer, copy, nbytes, leave, arrive, cause, is_staged, as_region(copy.over))

    def place(self, buffer: VirtualBuffer, memory: int, by: int, over: Bytes) -> Place:
        """The buffer's bytes in ``memory``, those of ``over`` at least, as the member of memory ``by`` names
        them.
        """
        if memory == HOST:
            bounds = over.bounds
            return Place(self._memories.host_view(buffer, bounds), -bounds.start)
        node = self._memories.nodes.numbered(memory)
        if node is not None:
            return node.place(buffer)
        allocation = buffer.allocations[memory - 1]
        assert allocation is not None, f"buffer {buffer.id} has no place on member {memory - 1}"
        if allocation.place is not None:
            return allocation.place
        view = PooledMemory.view(allocation.device_buffer, by - 1)
        return Place(view, -allocation.over.start, self._memories.devices[by - 1])

    def perform(self, transfer: Transfer, issue: Issue, is_repeated: bool = False) -> Ticket:
        """Issue a copy, behind everything that conflicts with it; both places are there.  What is done then.

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
        device = memories.device(to or from_)
        there, here = self.place(buffer, source, from_, over), self.place(buffer, target, to, over)
        before: dict[Ticket, None] = {}
        behind: dict[Ticket, None] = {}
        is_one = HOST in (from_, to) or from_ == to  # operation, not one at each end
        transfer.leave.gather(before)
        transfer.arrive.gather(before if is_one else behind)
        spilling = memories.in_file(buffer, transfer.region) if HOST in (from_, to) else None
        if spilling is None:
            left, ticket = device.copy(there, here, transfer.region, list(before), list(behind), timing)
        else:
            whole = buffer, transfer.region, to == HOST
            ticket = left = _in_parts(
                spilling,
                whole,
                list(before),
                lambda part, waits: device.copy(there, here, part, waits, list(behind), timing)[1],
            )
        if target == HOST:
            device.flush()
        transfer.leave.by(left)
        transfer.arrive.by(ticket)
        cause, is_staged = transfer.cause, transfer.is_staged
        self._accounting.copied(from_, to, nbytes, ticket, cause, issue.command, is_staged)
        if nbytes >= MEASURED_NBYTES and spilling is None:
            if is_repeated:
                self.links.planned(source, target, nbytes)
            if not transfer.region.levels:
                self.links.issued(source, target, nbytes, ticket)
        return ticket


def _in_parts(
    spilling: Spilling,
    whole: tuple[VirtualBuffer, Region, bool],
    waits: Sequence[Ticket],
    copy: Callable[[Region, Sequence[Ticket]], Ticket],
) -> Ticket:
    """``copy`` what partly lies in a file, piece by piece: a buffer's region; whether it is overwritten."""
    buffer, region, is_overwritten = whole
    parts: list[Ticket] = []
    for part in spilling.parts(buffer.offset, region):
        bounds = part.bounds
        use = spilling.use(buffer.offset + bounds.start, bounds.nbytes)
        before = waits
        if not is_overwritten:
            before = use.fetched(waits)
        elif not part.levels:
            before = use.overwritten(waits)
        parts.append(copy(part, before))
        use.until(parts[-1], part.total_nbytes if is_overwritten else 0)
    return all_of(parts)


def _fewer(copies: list[Copy]) -> list[Copy]:
    """The same copies, which have one target, by where they come from, as few as that takes."""
    if len(copies) < 2:
        return copies
    parts: dict[int, list[Bytes]] = {}
    for copy in copies:
        parts.setdefault(copy.source, []).append(copy.over)
    target = copies[0].target
    return [Copy(source, target, each) for source, found in parts.items() for each in as_few(found)]
