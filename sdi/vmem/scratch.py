"""Bytes in a memory for what is under way.  Owned by: sdi-scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sdi.dataclass import dataclass
from sdi.devices.handles import DeviceBuffer
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.errors import ClError
from sdi.vmem.arena import Arena
from sdi.vmem.directory import HOST
from sdi.vmem.heap import MemberHeap


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """``give(pending)``: the bytes are not wanted any more once all of that is done.

    ``offset``: in the arena, if they are there.
    """

    bytes: DeviceBuffer | memoryview
    give: Callable[[Sequence[Ticket]], None]
    offset: int = 0


class ScratchMemory:
    """Takes them from the arena and the members' heaps.  ``post``: as in VirtualMemory."""

    def __init__(
        self, arena: Arena, heaps: Sequence[MemberHeap], post: Callable[[Callable[[], None]], None]
    ) -> None:
        self._arena = arena
        self._heaps = heaps
        self._post = post

    def take(self, memory: int, nbytes: int) -> Scratch | None:
        """Bytes in a memory for what is under way, until they are given back; None where there is no room."""
        if memory == HOST:
            try:
                offset = self._arena.allocate(nbytes)
            except ClError:
                return None

            def give(pending: Sequence[Ticket]) -> None:
                join(pending, lambda _error: self._post(lambda: self._arena.free(offset)))

            return Scratch(self._arena.view(offset, nbytes), give, offset)
        heap = self._heaps[memory - 1]
        block = heap.take(nbytes)
        if block is None:
            return None
        assert block.device_buffer is not None
        return Scratch(block.device_buffer, partial(heap.give, block))
