"""The memory of other nodes: bytes of buffers that their members have no room for.

Each node's is one memory of the directory.  It is filled from the node's members alone, and never over a
network; who needs what is there gets it as from any other memory.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sdi.dataclass import dataclass
from sdi.devices.base import Device, Place
from sdi.devices.handles import DeviceBuffer
from sdi.errors import DeviceLost
from sdi.region import Bytes
from sdi.regions import EMPTY, RegionSet
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.placed import rounded


@dataclass(slots=True, eq=False)
class _OnNode:
    """A buffer's bytes there.  ``place``: of the root buffer.  ``counted``: of it, as there."""

    buffer: VirtualBuffer
    device_buffer: DeviceBuffer
    place: Place
    counted: RegionSet = EMPTY


class NodeMemory:
    """That of the node of ``device``, which is no member: it allocates and copies there.

    ``number``: in the directory.  ``limit_nbytes``: no more is ever there; ``in_use``: so much is now.
    """

    def __init__(self, device: Device, number: int) -> None:
        self.device: Final = device
        self.number: Final = number
        self.node: Final = device.capabilities.node
        self.limit_nbytes = device.capabilities.memory_nbytes
        self.in_use = self.peak_nbytes = 0
        self.is_lost = False
        self._kept: dict[int, _OnNode] = {}

    def take(self, buffer: VirtualBuffer, over: Bytes) -> bool:
        """Have room for ``over``; False where there is none.

        What others have too goes for that.
        """
        kept = self._kept.get(buffer.id)
        wanted = RegionSet((rounded(over.bounds, buffer.nbytes),))
        missing = wanted if kept is None else wanted.difference(kept.counted)
        if self.in_use + missing.nbytes > self.limit_nbytes:
            self._drop_copies(buffer, missing.nbytes)
            if self.in_use + missing.nbytes > self.limit_nbytes:
                return False
        if kept is None:
            try:
                made = self.device.allocate(buffer.nbytes, on_host=True)
            except DeviceLost:
                return False
            kept = self._kept[buffer.id] = _OnNode(buffer, made, Place(made, 0, self.device))
        kept.counted = kept.counted.union(missing)
        self.in_use += missing.nbytes
        self.peak_nbytes = max(self.peak_nbytes, self.in_use)
        return True

    def _drop_copies(self, wanting: VirtualBuffer, nbytes: int) -> None:
        """Give up buffers of which nothing is here alone, and nothing under way, until ``nbytes`` fit."""
        for kept in list(self._kept.values()):
            if self.in_use + nbytes <= self.limit_nbytes:
                break
            buffer = kept.buffer
            if buffer is wanting or not buffer.dependencies[self.number].is_idle():
                continue
            if not buffer.directory.only_in(self.number, buffer.whole):
                buffer.directory.dropped(self.number)
                self.discard(buffer)

    def place(self, buffer: VirtualBuffer) -> Place:
        """Where the buffer's bytes are."""
        return self._kept[buffer.id].place

    def discard(self, buffer: VirtualBuffer) -> None:
        """Give up what is there of a buffer, on which nothing is under way."""
        kept = self._kept.pop(buffer.id, None)
        if kept is not None:
            self.in_use -= kept.counted.nbytes
            self.device.free(kept.device_buffer)

    def drop(self) -> None:
        """The node is lost."""
        self.limit_nbytes = self.in_use = 0
        self._kept.clear()


class NodeMemories:
    """All of a session."""

    def __init__(self, memories: Iterable[NodeMemory] = ()) -> None:
        self._by_number: Final = {memory.number: memory for memory in memories}
        self.mask: Final = sum([1 << number for number in self._by_number])
        """Bit set of their numbers."""

    def __iter__(self) -> Iterator[NodeMemory]:
        return iter(self._by_number.values())

    def numbered(self, number: int) -> NodeMemory | None:
        """The one that is memory ``number``, if it is one."""
        return self._by_number.get(number)

    def lost(self) -> list[NodeMemory]:
        """Those of nodes that were lost since this was asked last."""
        found = [
            memory for memory in self._by_number.values() if not memory.is_lost and memory.device.is_lost()
        ]
        for memory in found:
            memory.is_lost = True
        return found

    def discard(self, buffer: VirtualBuffer) -> None:
        """See ``NodeMemory.discard``."""
        for memory in self._by_number.values():
            memory.discard(buffer)
