"""What goes when a member is full, and what that brings to the host, or its own node's memory, first.

Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sdi.devices.base import Device
from sdi.devices.issue import Issue
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, Status
from sdi.intervals import ByteRange
from sdi.region import Bytes
from sdi.regions import as_few
from sdi.vmem.accounting import Events
from sdi.vmem.buffer import Allocation, VirtualBuffer
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.node_memory import NodeMemory
from sdi.vmem.placed import KeptImages, Placed, Wanted, rounded


class Eviction:
    """``bring(buffer, memory, over, issue)`` issues the copies that make ``over`` current in a memory.

    ``nodes``: where members of other machines leave what they have no room for.
    """

    def __init__(
        self,
        placed: Placed,
        devices: Sequence[Device],
        events: Events,
        bring: Callable[[VirtualBuffer, int, Bytes, Issue], None],
        nodes: Iterable[NodeMemory] = (),
    ) -> None:
        self._placed = placed
        self._heaps = placed.heaps
        self._devices = devices
        self._events = events
        self._bring = bring
        of_node = {each.node: each for each in nodes}
        self._homes: dict[int, NodeMemory] = {}  # by member
        self._there = {each.node: 1 << each.number for each in nodes}  # bit sets of the nodes' memories
        for member, device in enumerate(devices):
            known = device.capabilities
            if not known.is_near and known.node in self._there:
                self._homes[member] = of_node[known.node]
                self._there[known.node] |= 1 << member_memory(member)

    def trim(self, member: int, wanted: Sequence[Wanted], issue: Issue) -> None:
        """From now on every place has the very size that is wanted; those of another size go."""
        self._heaps[member].tight = True
        for buffer, where, over in wanted:
            allocation, exact = buffer.allocations[member], rounded(over, buffer.nbytes)
            if (
                where == member
                and allocation is not None
                and not allocation.is_on_host
                and (allocation.over, allocation.nbytes) != (exact, exact.nbytes)
            ):
                self.evict(buffer, member, issue)

    def bring_home(self, buffer: VirtualBuffer, member: int, over: ByteRange, issue: Issue) -> None:
        """The member gives up ``over``; what nobody else holds goes to the host.

        Of a member on another machine, what nobody there holds goes to its node's memory before that, as far
        as there is room: it would have to come over the network again.
        """
        memory = member_memory(member)
        is_kept = self._keep_on_node(buffer, member, over, issue)
        dirty = buffer.directory.only_in(memory, over)
        for part in dirty:
            self._bring(buffer, HOST, part, issue)
        if dirty:
            self._events.spills += 1
            self._events.spilled_nbytes += sum(part.total_nbytes for part in dirty)
        elif not is_kept:
            self._events.drops += 1
            self._events.dropped_nbytes += over.nbytes
        buffer.directory.dropped(memory, over)

    def _keep_on_node(self, buffer: VirtualBuffer, member: int, over: ByteRange, issue: Issue) -> bool:
        """Copy to the member's node's memory what it has and nobody else there; whether that was anything."""
        home, memory = self._homes.get(member), member_memory(member)
        if home is None or not home.limit_nbytes:
            return False
        others = self._there[home.node] & ~(1 << memory)
        lacking = [
            part
            for part, holders, is_defined in buffer.directory.holders(over)
            if is_defined and holders >> memory & 1 and not holders & others
        ]
        kept_nbytes, events = 0, self._events
        for part in as_few(lacking):
            if home.take(buffer, part):
                self._bring(buffer, home.number, part, issue)
                kept_nbytes += part.total_nbytes
            else:
                events.node_refused_nbytes += part.total_nbytes
        events.node_spills += kept_nbytes > 0
        events.node_spilled_nbytes += kept_nbytes
        return kept_nbytes > 0

    def evict(self, buffer: VirtualBuffer, member: int, issue: Issue) -> None:
        allocation = buffer.allocations[member]
        assert allocation is not None
        self.bring_home(buffer, member, allocation.over, issue)
        self._placed.give(buffer, member, allocation)

    def make_room(
        self,
        member: int,
        nbytes: int,
        moving: Sequence[VirtualBuffer],
        wanted: Sequence[VirtualBuffer],
        kept_images: KeptImages,
        issue: Issue,
        may_move: bool = True,
    ) -> list[Ticket]:
        """Take places away until ``nbytes`` can be had; what to wait for until they are free.

        First images that are not kept, then places of buffers that are not ``wanted``, then those of
        ``moving``, which get new ones anyway, at last (if they ``may_move``) those that are larger than
        wanted.  Raises ClError when even that is not enough.
        """
        heap, memory = self._heaps[member], member_memory(member)
        keep = {id(buffer) for buffer in wanted}
        idle = [
            (b.images[member, v].used, b, v)
            for (i, v), b in self._placed.images[member].items()
            if (i, v) not in kept_images
        ]
        for _, buffer, view in sorted(idle, key=lambda item: item[0]):
            if heap.obtainable < nbytes:
                self._placed.drop_image(buffer, member, view)
        others = [
            b
            for b in self._placed.buffers[member].values()
            if id(b) not in keep and not _is_on_host(b.allocations[member])
        ]

        def worth(buffer: VirtualBuffer) -> tuple[bool, int]:
            allocation = buffer.allocations[member]
            assert allocation is not None
            return bool(buffer.directory.only_in(memory, allocation.over)), allocation.used

        for victim in sorted(others, key=worth):
            if heap.obtainable >= nbytes:
                break
            self.evict(victim, member, issue)
        else:
            for buffer in (*moving, *wanted) if may_move else ():
                allocation = buffer.allocations[member]
                if heap.obtainable < nbytes and allocation is not None and not allocation.is_on_host:
                    self.evict(buffer, member, issue)
        if heap.obtainable < nbytes:
            missing = nbytes - heap.obtainable
            heap.tight = False
            raise ClError(
                Status.MEM_OBJECT_ALLOCATION_FAILURE,
                f"{self._devices[member].capabilities.name}: {nbytes} bytes asked, {missing} of them missing "
                f"of the {heap.capacity} that it has; {heap.refusal}",
            )
        return heap.pending(nbytes)


def _is_on_host(allocation: Allocation | None) -> bool:
    return allocation is not None and allocation.is_on_host
