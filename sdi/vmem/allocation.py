"""Giving bytes of buffers a place on the members.

Nothing here waits: where memory can be had only later, the answer is what to wait for.
Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sdi.devices.base import Device, Place
from sdi.devices.copying import within
from sdi.devices.handles import HostBytes
from sdi.devices.issue import Issue
from sdi.devices.pooled import PooledMemory
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed, Status
from sdi.intervals import ByteRange
from sdi.region import Bytes, as_region
from sdi.vmem.accounting import Accounting
from sdi.vmem.buffer import Allocation, ImageCopy, VirtualBuffer
from sdi.vmem.dependencies import Dependencies
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.eviction import Eviction
from sdi.vmem.heap import Block, MemberHeap
from sdi.vmem.node_memory import NodeMemories
from sdi.vmem.placed import GRANULE_NBYTES, KeptImages, Placed, Wanted, WantedImage, rounded

_MARGIN_SHARE = 16
_ATTEMPTS = 4
"""What is wanted together may push each other out so often; then it is too much."""


class Placement:
    """The allocations of all buffers on all members.

    ``bring``, ``nodes``: see ``Eviction``.  ``window``: a buffer in the host's memory, for members whose
    memory that is.  ``pooled``: the memory of all of them together, the last place then.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        accounting: Accounting,
        post: Callable[[Callable[[], None]], None],
        bring: Callable[[VirtualBuffer, int, Bytes, Issue], None],
        nodes: NodeMemories,
        window: Callable[[VirtualBuffer], HostBytes],
        pooled: PooledMemory | None = None,
    ) -> None:
        self._window = window
        self._devices = devices
        self._accounting = accounting
        self._events = accounting.events
        self.heaps = [
            MemberHeap(device, post, partial(accounting.resident, member))
            for member, device in enumerate(devices)
        ]
        self._pool = pooled
        self._pooled = None if pooled is None else len(devices)
        if pooled is not None:  # it is the members' memory
            self.heaps.append(MemberHeap(pooled, post, lambda nbytes: None, is_pooled=True))
        self.placed = Placed(self.heaps)
        self._eviction = Eviction(self.placed, devices, accounting.events, bring, nodes)

    def reserve(
        self,
        wanted: Sequence[Wanted],
        issue: Issue,
        images: Sequence[WantedImage] = (),
        keeps_old: bool = True,
        on_host: frozenset[int] = frozenset(),
    ) -> list[Ticket]:
        """Give all of ``wanted`` and ``images`` a place.  Empty: done; else ask again once the tickets are.

        ``on_host``: buffers that get it, where they are wanted whole, in the memory of the member's host; it
        stays there.

        ``keeps_old``: places that are too small grow, so what was there stays; without it, as for a chunk
        of which the next one wants other bytes, they are exactly what is wanted.
        Buffers that are not wanted may lose their place: those whose bytes others hold too first, then
        those that have to be copied to the host, each least recently used first.  Raises ClError when all
        that is wanted on a member at a time is more than it can hold.
        """
        self.placed.clock += 1
        kept = _kept(images)
        waits: list[Ticket]
        for attempt in range(2 * _ATTEMPTS):
            if attempt == _ATTEMPTS:  # room was made of places that are wanted, again and again
                waits = []
                if not self._unshare(waits, issue, self.placed.clock - 1):
                    break
                if waits:
                    self._events.holds += 1
                    return waits
            missing: dict[int, list[tuple[VirtualBuffer, ByteRange]]] = {}
            for buffer, member, over in wanted:
                allocation = buffer.allocations[member]
                is_inside = buffer.id not in on_host or over != buffer.whole
                if allocation is not None and allocation.holds(over) and (is_inside or allocation.is_on_host):
                    allocation.used = self.placed.clock
                else:
                    missing.setdefault(member, []).append((buffer, over))
            if not missing:
                for heap in self.heaps:
                    heap.tight = False
                return self._reserve_images(wanted, images, kept, issue)
            waits = []
            for member, parts in missing.items():
                if attempt and not self.heaps[member].tight:
                    self._eviction.trim(member, wanted, issue)
                others = [w[0] for w in wanted if w[1] == member]
                try:
                    inside = self._reserve_on_host(member, parts, on_host, issue)
                    waits += self._reserve_on(member, inside, others, keeps_old, kept, issue)
                except ClError:
                    if not self._unshare(waits, issue, self.placed.clock - 1):
                        raise
            if waits:
                self._events.holds += 1
                return waits
        for heap in self.heaps:
            heap.tight = False
        total = {m: sum(rounded(o, b.nbytes).nbytes for b, k, o in wanted if k == m) for m in missing}
        asked = ", ".join(
            f"{self._devices[m].capabilities.name}: {nbytes} bytes needed at a time, "
            f"{max(0, nbytes - self.heaps[m].capacity)} of them missing of the {self.heaps[m].capacity} there"
            for m, nbytes in total.items()
        )
        raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, asked)

    def share(
        self,
        buffer: VirtualBuffer,
        wanted: Sequence[Wanted],
        images: Sequence[WantedImage],
        members: Sequence[int],
        issue: Issue,
    ) -> list[Ticket]:
        """Give ``buffer`` a place in the memory of all ``members`` together, if there is one and it has room.

        ``wanted``, ``images``: what the members need beside it.  Empty: it has one, or will have none now;
        else ask again once the tickets are done.
        """
        pooled = self._pooled
        if pooled is None or self._pool is None or self.heaps[pooled].is_lost:
            return []
        allocation = buffer.allocations[pooled]
        if allocation is not None:
            allocation.used = self.placed.clock + 1  # when the launch makes its places
            return []
        if buffer.nbytes > self.heaps[pooled].capacity:
            return []
        try:
            each = self._pool.share_nbytes(buffer.nbytes)
        except DeviceFailed:
            return []
        beside = dict.fromkeys(members, 0)
        for other, member, over in wanted:
            beside[member] += rounded(over, other.nbytes).nbytes
        for _, member, view in images:
            beside[member] += view.shape.nbytes
        if any(each + beside[m] > self.heaps[m].capacity for m in members):
            return []
        waits = self._room_for_share(each, wanted, _kept(images), members, issue)
        if waits:
            self._events.holds += 1
        elif waits is not None:
            self._share(buffer, pooled, members, issue)
        return waits or []

    def share_surely(
        self,
        buffer: VirtualBuffer,
        wanted: Sequence[Wanted],
        images: Sequence[WantedImage],
        members: Sequence[int],
        issue: Issue,
    ) -> list[Ticket]:
        """``share``, for what has to be there: others lose their places in that memory, if it takes that.

        Raises ClError where even that is not enough.
        """
        assert self._pooled is not None
        waits = self.share(buffer, wanted, images, members, issue)
        if not waits and buffer.allocations[self._pooled] is None:
            if not self._unshare(waits, issue, self.placed.clock):
                what = f"{buffer.nbytes} bytes of shared virtual memory on all members together"
                raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, what)
            waits = waits or self.share_surely(buffer, wanted, images, members, issue)
        return waits

    def _room_for_share(
        self,
        nbytes: int,
        wanted: Sequence[Wanted],
        kept: KeptImages,
        members: Sequence[int],
        issue: Issue,
    ) -> list[Ticket] | None:
        """Have so much free on each of the members.  None: that can't be; else what it waits for."""
        assert self._pooled is not None
        waits: list[Ticket] = []
        try:
            for member in members:
                self.heaps[member].free_pool(nbytes)
                if self.heaps[member].available < nbytes:
                    keep = [b for b, where, _ in wanted if where == member]
                    waits += self._eviction.make_room(member, nbytes, [], keep, kept, issue)
        except ClError:
            return None
        return waits or self.heaps[self._pooled].leaving()  # perhaps from the very address

    def _share(self, buffer: VirtualBuffer, pooled: int, members: Sequence[int], issue: Issue) -> None:
        assert self._pool is not None
        make = partial(self._pool.allocate, ByteRange(buffer.offset, buffer.offset + buffer.nbytes))
        block = self.heaps[pooled].take_by(buffer.nbytes, make)
        if block is None:
            freed = [self.heaps[member].free_pool() for member in members]
            if not any(freed):
                return
            block = self.heaps[pooled].take_by(buffer.nbytes, make)
            if block is None:
                return
        self._place(buffer, pooled, block, buffer.whole, issue)
        allocation = buffer.allocations[pooled]
        assert allocation is not None
        allocation.used = self.placed.clock + 1
        self._events.shared += 1
        for member in members:
            self._accounting.resident(member, self._devices[member].memory.in_use)

    def _unshare(self, waits: list[Ticket], issue: Issue, since: int) -> bool:
        """Take the places in the memory of all members together away that were not used after ``since``, if
        there are any.

        Adds to ``waits`` what to wait for until they are free.
        """
        pooled = self._pooled
        if pooled is None:
            return False
        over = [
            buffer
            for buffer in self.placed.buffers[pooled].values()
            if (allocation := buffer.allocations[pooled]) is not None and allocation.used <= since
        ]
        for buffer in over:
            self._eviction.evict(buffer, pooled, issue)
        heap = self.heaps[pooled]
        is_freed = heap.reap()  # what was waited for is done, but that may not have been said to the heap yet
        pending = heap.leaving()
        waits += pending
        return bool(over or is_freed or pending)

    def fits(self, member: int, over: ByteRange, places: int = 2) -> bool:
        """Whether so many such places can be made on the member at a time."""
        return over.nbytes + 2 * GRANULE_NBYTES <= self.heaps[member].capacity // places

    def trim(self) -> None:
        """Give back what members keep for reuse and did not use for long."""
        for heap in self.heaps:
            heap.trim_pool()

    def drop_member(self, member: int) -> None:
        """The member is lost: what had a place there has none any more."""
        self.heaps[member].drop()
        for buffer in list(self.placed.buffers[member].values()):
            allocation = buffer.allocations[member]
            assert allocation is not None
            self.placed.give(buffer, member, allocation)
        for (_, view), buffer in list(self.placed.images[member].items()):
            self.placed.drop_image(buffer, member, view)
        self.placed.generation += 1

    def discard(self, buffer: VirtualBuffer) -> None:
        """The buffer is released: its allocations and images go once everything issued on them is done."""
        self.drop_images(buffer)
        for member, allocation in enumerate(buffer.allocations):
            if allocation is not None:
                self.placed.give(buffer, member, allocation)

    def drop_images(self, buffer: VirtualBuffer) -> None:
        """The buffer's opaque copies go once everything issued on them is done."""
        for member, view in list(buffer.images):
            self.placed.drop_image(buffer, member, view)

    def _reserve_images(
        self, wanted: Sequence[Wanted], images: Sequence[WantedImage], kept: KeptImages, issue: Issue
    ) -> list[Ticket]:
        """Make the opaque copies that are missing; the wanted buffers keep their places."""
        for buffer, member, view in images:
            copy = buffer.images.get((member, view))
            while copy is None:
                heap = self.heaps[member]
                block = heap.take_image(view.shape)
                if block is None:
                    keep = [b for b, where, _ in wanted if where == member]
                    # If it was refused although there seemed to be room, it may help that less is in use.
                    room = max(view.shape.nbytes, heap.available + 1)
                    waits: list[Ticket] = []
                    try:
                        waits += self._eviction.make_room(member, room, [], keep, kept, issue, may_move=False)
                    except ClError:
                        if not self._unshare(waits, issue, self.placed.clock - 1):
                            raise
                    if waits:
                        self._events.holds += 1
                        return waits
                    continue
                assert block.image is not None
                taken = {other.number for other in buffer.images.values()}
                number = next(n for n in range(len(taken) + 1) if n not in taken)
                copy = ImageCopy(block.image, view, number, Dependencies(buffer.nbytes))
                self.placed.put_image(buffer, member, copy)
            copy.used = self.placed.clock
        return []

    def _reserve_on_host(
        self,
        member: int,
        parts: Sequence[tuple[VirtualBuffer, ByteRange]],
        on_host: frozenset[int],
        issue: Issue,
    ) -> list[tuple[VirtualBuffer, ByteRange]]:
        """Give those of ``parts`` a place that get it in the host's memory; the others."""
        others: list[tuple[VirtualBuffer, ByteRange]] = []
        for buffer, over in parts:
            is_there = buffer.own(member_memory(member)) == HOST
            if is_there or (buffer.id in on_host and over == buffer.whole):
                wanted = self._window(buffer) if is_there else buffer.nbytes
                self._place(buffer, member, self.heaps[member].take_on_host(wanted), buffer.whole, issue)
                self._events.mapped += not is_there
            else:
                others.append((buffer, over))
        return others

    def _reserve_on(
        self,
        member: int,
        parts: Sequence[tuple[VirtualBuffer, ByteRange]],
        wanted: Sequence[VirtualBuffer],
        keeps_old: bool,
        kept: KeptImages,
        issue: Issue,
    ) -> list[Ticket]:
        heap = self.heaps[member]
        for buffer, over in parts:
            exact = rounded(over, buffer.nbytes)
            allocation = buffer.allocations[member]
            while True:
                sizes = [exact]
                if allocation is not None and keeps_old and not heap.tight:
                    both = ByteRange(
                        min(exact.start, allocation.over.start), max(exact.stop, allocation.over.stop)
                    )
                    sizes = [
                        rounded(_ahead(allocation.over, both, buffer.nbytes), buffer.nbytes),
                        both,
                        exact,
                    ]
                elif keeps_old and heap.has_plenty(exact.nbytes):
                    sizes = [rounded(_with_margin(exact, buffer.nbytes), buffer.nbytes), exact]
                found = next(((b, size) for size in sizes if (b := heap.take(size.nbytes))), None)
                if found is not None:
                    self._place(buffer, member, *found, issue)
                    break
                waits = self._eviction.make_room(
                    member, exact.nbytes, [b for b, _ in parts], wanted, kept, issue
                )
                if waits:
                    return waits
                allocation = buffer.allocations[member]
        return []

    def _place(self, buffer: VirtualBuffer, member: int, block: Block, over: ByteRange, issue: Issue) -> None:
        """``block`` becomes the buffer's place on the member; what the old one held moves or goes."""
        assert block.device_buffer is not None
        place = None
        if member != self._pooled:
            place = Place(block.device_buffer, -over.start, self._devices[member])
        new = Allocation(block.device_buffer, over, block.nbytes, self.placed.clock, place)
        old = buffer.allocations[member]
        if old is not None:
            self._events.moves += 1
            self._move(buffer, member, old, new, issue)
        self.placed.put(buffer, member, new)

    def _move(
        self, buffer: VirtualBuffer, member: int, old: Allocation, new: Allocation, issue: Issue
    ) -> None:
        memory = member_memory(member)
        dependencies = buffer.dependencies[memory]
        for part in _outside(old.over, new.over):
            self._eviction.bring_home(buffer, member, part, issue)
        pending = dependencies.pending()
        for held in buffer.directory.current_in(memory, old.over):
            ticket = within(
                self._devices[member],
                old.device_buffer,
                as_region(held.moved(-old.over.start)),
                new.device_buffer,
                as_region(held.moved(-new.over.start)),
                dependencies.before_read(held),
                issue.timing,
            )
            self._accounting.worked("move", member, held.total_nbytes, ticket, issue)
            dependencies.written_by(held, ticket)
            pending.append(ticket)
        self._devices[member].flush()
        self.heaps[member].give(Block(old.device_buffer, old.nbytes), pending)


def _kept(images: Sequence[WantedImage]) -> KeptImages:
    return frozenset((buffer.id, view) for buffer, _, view in images)


def _ahead(old: ByteRange, new: ByteRange, nbytes: int) -> ByteRange:
    """``new``, and half as much again where it is more than ``old``, which it holds.

    So a range that grows step by step is moved a few times, not every time.
    """
    more = new.nbytes // 2
    return ByteRange(
        max(0, new.start - more) if new.start < old.start else new.start,
        min(nbytes, new.stop + more) if new.stop > old.stop else new.stop,
    )


def _with_margin(over: ByteRange, nbytes: int) -> ByteRange:
    """``over`` and a little on both sides: who has written a slab is likely to read its neighbours' edges."""
    more = over.nbytes // _MARGIN_SHARE
    return ByteRange(max(0, over.start - more), min(nbytes, over.stop + more))


def _outside(over: ByteRange, inner: ByteRange) -> list[ByteRange]:
    """The parts of ``over`` that are not in ``inner``."""
    found = []
    if over.start < inner.start:
        found.append(ByteRange(over.start, min(over.stop, inner.start)))
    if over.stop > inner.stop:
        found.append(ByteRange(max(over.start, inner.stop), over.stop))
    return found
