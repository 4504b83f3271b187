"""One member's memory: device buffers in use, on their way out, and kept for reuse.

Owned by: sdi-scheduler.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from sdi.dataclass import dataclass
from sdi.devices.capabilities import Capabilities
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.image import ImageShape
from sdi.devices.join import join
from sdi.devices.memory_share import MemoryShare
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceLost

POOL_SHARE, POOL_NBYTES = 4, 1 << 30
"""At most this fraction of a member's memory, and no more than that, is kept for reuse for any time."""
GPU_POOL_SHARE, GPU_POOL_NS = 2, 10_000_000_000
"""Of a GPU's memory so much is kept, since giving it back waits for all that runs there; but what was not
used for so long goes."""
_SLACK_SHARE, _SLACK_NBYTES = 8, 1 << 12
_PLENTY = 4
_CLASSES, _CLASS_MIN_NBYTES = 16, 64 << 10
"""So many sizes of blocks per power of two, from there on: one can be used for another of about that size."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A device buffer of ``nbytes``, or an image's pixels.  0 bytes: it lies in the memory of its host."""

    device_buffer: DeviceBuffer | None
    nbytes: int
    image: DeviceBuffer | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """A block of the pool, since when."""

    block: Block
    since_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class _Leaving:
    """A block that nobody wants any more, once ``pending`` is done."""

    block: Block
    pending: list[Ticket]


class HeapMemory(Protocol):
    """A member, or the memory of several together; see ``Device``."""

    capabilities: Capabilities
    memory: MemoryShare

    def free(self, buffer: DeviceBuffer) -> None: ...


class MemberMemory(HeapMemory, Protocol):
    """A member."""

    def allocate(self, wanted: int | ImageShape | HostBytes, on_host: bool = False) -> DeviceBuffer: ...


class MemberHeap:
    """Blocks of one member.  ``post`` runs a call on sdi-scheduler; ``used`` is told the bytes allocated.

    ``capacity``: bytes that can be had in all, as far as is known: less than the member has once its driver
    refused a buffer, until it gives one that is larger than that.
    """

    def __init__(
        self,
        device: HeapMemory,
        post: Callable[[Callable[[], None]], None],
        used: Callable[[int], None],
        is_pooled: bool = False,
    ) -> None:
        """``is_pooled``: the memory of several members together, of which each has a part."""
        self._is_pooled = is_pooled
        self._device = device
        self._post = post
        self._used = used
        self._pool: dict[int, _Kept] = {}  # the one that was kept first is the first
        self._by_nbytes: list[tuple[int, int]] = []  # sizes and keys of the same, sorted
        self._next_kept = 0
        self._pool_nbytes = 0
        self._keeps_memory = device.capabilities.kind.keeps_memory
        self._leaving: list[_Leaving] = []
        self.capacity = device.capabilities.memory_nbytes
        self.tight = False
        """Whether blocks must have the very size asked for, because memory is that short."""
        self.is_lost = False
        self.refusal = ""
        """What the driver said when it last refused memory."""

    @property
    def available(self) -> int:
        """Bytes that can be had at once: free ones and those of the pool."""
        return 0 if self.is_lost else self.capacity - self._device.memory.in_use + self._pool_nbytes

    @property
    def obtainable(self) -> int:
        """Bytes that can be had once everything on its way out is gone."""
        return self.available + sum(item.block.nbytes for item in self._leaving)

    def take(self, nbytes: int) -> Block | None:
        """A block of at least ``nbytes``, or None while there is no room."""
        self.reap()
        if not self.tight:
            most = nbytes + max(nbytes // _SLACK_SHARE, _SLACK_NBYTES)
            at = bisect_left(self._by_nbytes, (nbytes, 0))
            if at < len(self._by_nbytes) and self._by_nbytes[at][0] <= most:
                return self._taken(self._by_nbytes[at][1])
            more = _class_nbytes(nbytes)
            if more > nbytes and more * _PLENTY <= self.available:
                made = self._make_buffer(more)
                if made is not None:
                    return made
        return self._counted(nbytes, self._make_buffer(nbytes))

    def take_by(self, nbytes: int, allocate: Callable[[], DeviceBuffer]) -> Block | None:
        """A new block of so many bytes that ``allocate`` makes, or None while there is no room."""
        return self._counted(nbytes, self._make(nbytes, lambda: Block(allocate(), nbytes)))

    def leaving(self) -> list[Ticket]:
        """What has to be done before everything on its way out is gone."""
        self.reap()
        return [ticket for item in self._leaving for ticket in item.pending if not ticket.done]

    def _counted(self, nbytes: int, made: Block | None) -> Block | None:
        """``made`` for so many bytes; how much can be had is known better then."""
        in_use = self._device.memory.in_use
        if made is None and nbytes <= self.available:
            # The driver has less than it said (others use it too): count on no more from now on.
            self.capacity = in_use + nbytes - 1
        elif made is not None and in_use > self.capacity:
            self.capacity = self._device.capabilities.memory_nbytes
        return made

    def take_on_host(self, wanted: int | HostBytes) -> Block:
        """A block in the memory of the member's host, of so many bytes, or these.

        Raises ClError, and DeviceLost.
        """
        if self.is_lost:
            raise DeviceLost(self._device.capabilities.name, "was lost while a command waited for memory")
        return Block(self._member.allocate(wanted, on_host=True), 0)

    def free_pool(self, wanted_nbytes: int | None = None) -> bool:
        """Give all that is kept for reuse back to the driver; not where so much can be had beside it.

        Whether there was anything.
        """
        in_use = self._device.memory.in_use
        if not self._pool or (wanted_nbytes is not None and wanted_nbytes <= self.capacity - in_use):
            return False
        while self._pool:
            self._free_oldest()
        return True

    @property
    def _member(self) -> MemberMemory:
        assert not self._is_pooled
        return cast(MemberMemory, self._device)

    def has_plenty(self, nbytes: int) -> bool:
        """Whether a place of ``nbytes`` may as well be larger: on a GPU most of whose memory is free.

        Of members in the host's memory each byte more is one that others could have.
        """
        return self._keeps_memory and not self.tight and nbytes * _PLENTY <= self.available

    @property
    def holds_more(self) -> bool:
        """Whether more is kept for reuse than may be for any time."""
        return self._pool_nbytes > self._lasting_nbytes

    def trim_pool(self, unused_ns: int = GPU_POOL_NS) -> None:
        """Give back what was not used for so long, until no more is kept than may be for any time."""
        before_ns = time.monotonic_ns() - unused_ns
        while self.holds_more and next(iter(self._pool.values())).since_ns <= before_ns:
            self._free_oldest()

    @property
    def _lasting_nbytes(self) -> int:
        return min(self.capacity // POOL_SHARE, POOL_NBYTES)

    def take_image(self, shape: ImageShape) -> Block | None:
        """A new image, or None while there is no room, or the driver refuses it.

        Of that ``capacity`` does not change: images may be refused for what they are.
        """
        self.reap()
        nbytes = shape.nbytes
        return self._make(nbytes, lambda: Block(None, nbytes, self._member.allocate(shape)))

    def _make(self, nbytes: int, make: Callable[[], Block]) -> Block | None:
        if self.is_lost:
            raise DeviceLost(self._device.capabilities.name, "was lost while a command waited for memory")
        has_room = nbytes <= self.available
        is_idle = self._device.memory.in_use == self._pool_nbytes
        # Also more than ``capacity`` where nothing is in use: what was refused may be there by now.
        if not has_room and not (is_idle and nbytes <= self._device.capabilities.memory_nbytes):
            return None
        while self._pool and (not has_room or self.capacity - self._device.memory.in_use < nbytes):
            self._free_oldest()
        while True:
            try:
                made = make()
            except ClError as error:
                self.refusal = str(error)
                if not self._pool:
                    return None
                self._free_oldest()
            else:
                self._used(self._device.memory.in_use)
                return made

    def _make_buffer(self, nbytes: int) -> Block | None:
        return self._make(nbytes, lambda: Block(self._member.allocate(nbytes), nbytes))

    def drop(self) -> None:
        """The member is lost, and its driver's objects with it: nothing can be had, nothing is given back.

        What is pooled is given back all the same: the members that are left get their parts.
        """
        self.is_lost = True
        self.capacity = 0
        if self._is_pooled:
            return
        self._pool.clear()
        self._by_nbytes.clear()
        self._pool_nbytes = 0
        self._leaving.clear()
        self._used(0)

    def give(self, block: Block, pending: Sequence[Ticket]) -> None:
        """``block`` is not wanted any more, but until ``pending`` is done it is in use."""
        if self.is_lost and not self._is_pooled:
            return
        waits = [ticket for ticket in pending if not ticket.done]
        if waits:
            self._leaving.append(_Leaving(block, waits))
            join(waits, lambda _error: self._post(self._reap))
        else:
            self._keep(block)

    def pending(self, nbytes: int) -> list[Ticket]:
        """What has to be done before so much more is available, oldest first; empty when nothing is left."""
        found: list[Ticket] = []
        missing = nbytes - self.available
        for item in self._leaving:
            if missing <= 0:
                break
            found += [ticket for ticket in item.pending if not ticket.done]
            missing -= item.block.nbytes
        return found

    def _reap(self) -> None:
        self.reap()

    def reap(self) -> bool:
        """Take back what was on its way out and is not in use any more; whether there was anything."""
        gone = [item for item in self._leaving if all(ticket.done for ticket in item.pending)]
        if gone:
            self._leaving = [item for item in self._leaving if item not in gone]
            for item in gone:
                self._keep(item.block)
        return bool(gone)

    def _keep(self, block: Block) -> None:
        if block.image is not None:
            self._device.free(block.image)
            return
        assert block.device_buffer is not None
        most = self.capacity // GPU_POOL_SHARE if self._keeps_memory else self._lasting_nbytes
        if self.tight or self._is_pooled or not block.nbytes or self._pool_nbytes + block.nbytes > most:
            self._device.free(block.device_buffer)
            self._used(self._device.memory.in_use)
        else:
            self._next_kept += 1
            self._pool[self._next_kept] = _Kept(block, time.monotonic_ns())
            insort(self._by_nbytes, (block.nbytes, self._next_kept))
            self._pool_nbytes += block.nbytes
            self.trim_pool()

    def _taken(self, key: int) -> Block:
        """A block out of the pool."""
        block = self._pool.pop(key).block
        del self._by_nbytes[bisect_left(self._by_nbytes, (block.nbytes, key))]
        self._pool_nbytes -= block.nbytes
        return block

    def _free_oldest(self) -> None:
        """Give the block of the pool that was kept first back to the driver."""
        block = self._taken(next(iter(self._pool)))
        assert block.device_buffer is not None
        self._device.free(block.device_buffer)
        self._used(self._device.memory.in_use)


def _class_nbytes(nbytes: int) -> int:
    """The size of blocks for this many bytes where there is plenty of memory."""
    if nbytes < _CLASS_MIN_NBYTES:
        return nbytes
    step = (1 << (nbytes.bit_length() - 1)) // _CLASSES
    return -(-nbytes // step) * step
