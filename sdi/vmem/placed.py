"""Which buffers and images have a place on which member.  Owned by: sdi-scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sdi.intervals import ByteRange
from sdi.vmem.buffer import Allocation, ImageCopy, ImageView, VirtualBuffer
from sdi.vmem.directory import member_memory
from sdi.vmem.heap import Block, MemberHeap

GRANULE_NBYTES = 4096
"""Allocations start and end at multiples of this: more than the alignment that any device promises."""

Wanted = tuple[VirtualBuffer, int, ByteRange]
"""A buffer, a member, and the bytes that must have a place there."""
WantedImage = tuple[VirtualBuffer, int, ImageView]
"""A buffer, a member, and the view of which there must be an opaque copy."""
KeptImages = frozenset[tuple[int, ImageView]]
"""Numbers of buffers, and views of which no opaque copy goes now."""


def rounded(over: ByteRange, nbytes: int) -> ByteRange:
    """``over`` widened to granules, within a buffer of ``nbytes``."""
    stop = -(-over.stop // GRANULE_NBYTES) * GRANULE_NBYTES
    return ByteRange(over.start // GRANULE_NBYTES * GRANULE_NBYTES, min(stop, nbytes))


class Placed:
    """``generation`` changes with every place that is given or taken.  ``clock``: with every use of some.

    ``buffers``, ``images``: per member, and last of what is pooled.
    """

    def __init__(self, heaps: Sequence[MemberHeap]) -> None:
        self.heaps = heaps
        self.generation = 0
        self.clock = 0
        self.buffers: list[dict[int, VirtualBuffer]] = [{} for _ in heaps]
        self.images: list[dict[tuple[int, ImageView], VirtualBuffer]] = [{} for _ in heaps]

    def touch(self, allocations: Iterable[Allocation | ImageCopy]) -> None:
        """These are in use again."""
        self.clock += 1
        for allocation in allocations:
            allocation.used = self.clock

    def put(self, buffer: VirtualBuffer, member: int, allocation: Allocation) -> None:
        """It is the buffer's place on the member from now on."""
        self.buffers[member][buffer.id] = buffer
        buffer.allocations[member] = allocation
        buffer.moved()
        self.generation += 1

    def give(self, buffer: VirtualBuffer, member: int, allocation: Allocation) -> None:
        """Take the buffer's place on the member away."""
        buffer.allocations[member] = None
        buffer.moved()
        self.generation += 1
        self.buffers[member].pop(buffer.id, None)
        pending = buffer.dependencies[member_memory(member)].pending()
        self.heaps[member].give(Block(allocation.device_buffer, allocation.nbytes), pending)

    def put_image(self, buffer: VirtualBuffer, member: int, copy: ImageCopy) -> None:
        """It is the opaque copy of its view on the member from now on."""
        buffer.images[member, copy.view] = copy
        self.images[member][buffer.id, copy.view] = buffer
        self.generation += 1

    def drop_image(self, buffer: VirtualBuffer, member: int, view: ImageView) -> None:
        """An opaque copy goes once everything issued on it is done; the linear bytes have all it holds."""
        copy = buffer.images.pop((member, view))
        self.generation += 1
        del self.images[member][buffer.id, view]
        buffer.directory.dropped_opaquely(copy.number)
        self.heaps[member].give(
            Block(None, view.shape.nbytes, copy.device_image), copy.dependencies.pending()
        )
