"""What goes when a member is full, and what that brings to the host first.

Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sdi.devices.base import Device
from sdi.devices.issue import Issue
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, Status
from sdi.intervals import ByteRange
from sdi.region import Bytes
from sdi.vmem.accounting import Events
from sdi.vmem.buffer import Allocation, VirtualBuffer
from sdi.vmem.directory import member_memory
from sdi.vmem.placed import KeptImages, Placed, Wanted, rounded


class Eviction:
    """``spill(buffer, over, issue)`` issues the copies that make ``over`` current on the host."""

    def __init__(
        self,
        placed: Placed,
        devices: Sequence[Device],
        events: Events,
        spill: Callable[[VirtualBuffer, Bytes, Issue], None],
    ) -> None:
        self._placed = placed
        self._heaps = placed.heaps
        self._devices = devices
        self._events = events
        self._spill = spill

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
        """The member gives up ``over``; what nobody else holds goes to the host."""
        memory = member_memory(member)
        dirty = buffer.directory.only_in(memory, over)
        for part in dirty:
            self._spill(buffer, part, issue)
        if dirty:
            self._events.spills += 1
            self._events.spilled_nbytes += sum(part.total_nbytes for part in dirty)
        else:
            self._events.drops += 1
            self._events.dropped_nbytes += over.nbytes
        buffer.directory.dropped(memory, over)

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
