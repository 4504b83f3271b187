"""What launches use by addresses: regions that their arguments name, and others that they may reach.

Of the others the application tells once.
Source: clSetKernelExecInfo, ``design/0022-shared-virtual-memory.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sdi.vmem.buffer import Allocation, VirtualBuffer
from sdi.vmem.dependencies import Use
from sdi.vmem.memories import Memories
from sdi.vmem.transfers import Transfer, Transfers

_FEW = 256
"""Of more that are reached together the player orders all accesses as if they were one buffer's."""
_KEPT = 16
"""So many launches that reach the same beside other arguments are remembered."""


class Reached:
    """Any assignment of a launch may do anything to all of each of ``buffers``, in the one memory that all
    members use.  There may be very many of them.  Owned by: sdi-scheduler.
    """

    __slots__ = ("_uses", "buffers", "ids")

    def __init__(self, buffers: Iterable[VirtualBuffer]) -> None:
        self.buffers = tuple(buffers)
        self.ids = frozenset([buffer.id for buffer in self.buffers])
        self._uses: tuple[Use, ...] = ()

    def plan(self, memories: Memories, transfers: Transfers, cause: str) -> list[Transfer]:
        """What moves so that the one memory has all bytes; the directories count it as done."""
        found = list[Transfer]()
        for buffer in self.buffers:
            where = memories.backing(buffer)
            if not buffer.directory.is_only_on(where):
                found += transfers.plan(buffer, where, (buffer.whole,), False, cause)
        return found

    def uses(self, memories: Memories) -> tuple[Use, ...]:
        """What a launch waits for and leaves behind there, once all have their places."""
        if not self._uses:
            found = [(each.dependencies[memories.backing(each)], (each.whole,)) for each in self.buffers]
            self._uses = tuple([dependencies.use(whole, whole) for dependencies, whole in found])
        return self._uses

    def wrote(self, memories: Memories) -> None:
        """The one memory alone has all bytes now."""
        for buffer in self.buffers:
            where = memories.backing(buffer)
            if not buffer.directory.is_only_on(where):
                buffer.directory.wrote(where, buffer.whole)

    def allocations(self, pooled: int | None) -> list[Allocation]:
        """Their places in the memory of all members, if that is what they use."""
        if pooled is None:
            return []
        found = [buffer.allocations[pooled] for buffer in self.buffers]
        return [allocation for allocation in found if allocation is not None]


NOTHING = Reached(())


class Reach:
    """``buffers``: those of the ones that were told that there still are.

    ``on_change``: told the reach's id when one of them goes.  ``reached``: by launches, by the ids of the
    regions that their arguments name.
    """

    __slots__ = ("buffers", "on_change", "reached")

    def __init__(self, buffers: Iterable[VirtualBuffer]) -> None:
        self.buffers = {buffer.id: buffer for buffer in buffers}
        self.on_change: set[Callable[[int], None]] = set()
        self.reached: dict[tuple[int, ...], Reached] = {}

    def with_arguments(self, arguments: Sequence[VirtualBuffer]) -> Reached:
        """What a launch reaches whose arguments name the regions ``arguments``."""
        key = tuple([buffer.id for buffer in arguments])
        found = self.reached.get(key)
        if found is None:
            if len(self.reached) >= _KEPT:
                self.reached.clear()
            found = self.reached[key] = Reached(dict.fromkeys((*arguments, *self.buffers.values())))
        return found


class Reaches:
    """All that were told.  Owned by: sdi-scheduler."""

    def __init__(self) -> None:
        self._reaches: dict[int, Reach] = {}
        self._named_by: dict[int, set[int]] = {}

    def tell(self, reach_id: int, buffers: Sequence[VirtualBuffer]) -> bool:
        """Launches that name ``reach_id`` may reach ``buffers``, until these are released or recycled.

        Whether some are from now on one of many, of which recordings may know otherwise.
        """
        self._reaches[reach_id] = Reach(buffers)
        new = [buffer for buffer in buffers if not buffer.is_one_of_many] if len(buffers) > _FEW else ()
        for buffer in new:
            buffer.is_one_of_many = True
        for buffer in buffers:
            self._named_by.setdefault(buffer.id, set()).add(reach_id)
            buffer.on_release.add(self.forget)
        return any(buffer.places is not None for buffer in new)

    def untell(self, reach_id: int) -> None:
        """No launch names it any more."""
        reach = self._reaches.pop(reach_id, None)
        if reach is None:
            return
        for buffer in reach.buffers:
            self._named_by[buffer].discard(reach_id)
        _changed(reach, reach_id)

    def forget(self, buffer_id: int) -> None:
        """A buffer was released or recycled: no launch reaches it any more."""
        for reach_id in self._named_by.pop(buffer_id, ()):
            reach = self._reaches[reach_id]
            del reach.buffers[buffer_id]
            _changed(reach, reach_id)

    def find(self, reach_id: int) -> Reach | None:
        """What launches that name ``reach_id`` may reach."""
        return self._reaches.get(reach_id)


def _changed(reach: Reach, reach_id: int) -> None:
    reach.reached.clear()
    for forget in tuple(reach.on_change):
        forget(reach_id)
