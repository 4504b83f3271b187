"""What becomes of bytes that were not written as they should have been, or are lost with a member.

Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sdi.devices.ticket import Ticket, completed
from sdi.region import Bytes, within
from sdi.regions import RegionSet
from sdi.vmem.allocation import Placement
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.memories import Memories
from sdi.vmem.node_memory import NodeMemory


class Recovery:
    """Of all ``buffers`` of a session."""

    def __init__(self, buffers: dict[int, VirtualBuffer], memories: Memories, placement: Placement) -> None:
        self._buffers = buffers
        self._memories = memories
        self._placement = placement
        self._has_poisoned = False

    def poison(self, buffer: VirtualBuffer, over: Bytes, why: BaseException) -> None:
        """What should have been written to ``over`` was not: whoever reads it fails, until it is written."""
        dependencies = buffer.dependencies[HOST]
        for part in within(over, 0, buffer.nbytes):  # nobody checked what was not issued
            buffer.directory.wrote(HOST, part)
            dependencies.written_by(part, completed(why))
            dependencies.poisoned = self._has_poisoned = True
            buffer.moved()  # what was recorded of it knows of no failure

    def are_poisoned(self, buffers: Iterable[VirtualBuffer]) -> bool:
        """Whether bytes of some buffers were not written that should have been, as far as was looked."""
        if not self._has_poisoned:
            return False
        return any(dependencies.poisoned for buffer in buffers for dependencies in buffer.dependencies)

    def pending(self) -> list[Ticket]:
        """Tickets of everything issued on any buffer that is not done yet."""
        found = dict.fromkeys(
            ticket for buffer in self._buffers.values() for h in buffer.dependencies for ticket in h.pending()
        )
        return list(found)

    def drop_member(self, lost: int | None, why: BaseException) -> int:
        """Something failed: forget copies that are not what they should be where others are; nothing pends.

        ``lost``: a member that is lost.  What it alone held is gone: whoever reads it fails with ``why``,
        until it is written again.  Returns the bytes of that.
        """
        if lost is None:
            return self._forget([None], why)
        self._memories.members.remove(lost)
        memories = [member_memory(lost)]
        if self._memories.pooled is not None:  # a part of it was there
            memories.append(member_memory(self._memories.pooled))
        gone_nbytes = self._forget(memories, why)
        for buffer in self._buffers.values():
            buffer.mapped.pop(lost, None)
        for memory in memories:
            self._placement.drop_member(memory - 1)
        return gone_nbytes

    def drop_node(self, node: NodeMemory, why: BaseException) -> int:
        """A node is lost, and its own memory with it: see ``drop_member``."""
        gone_nbytes = self._forget([node.number], why)
        node.drop()
        return gone_nbytes

    def _forget(self, memories: Sequence[int | None], why: BaseException) -> int:
        """Copies that are not what they should be count no more, nor do ``memories`` that are lost."""
        gone_nbytes = 0
        for buffer in self._buffers.values():
            bad = [
                (where, over)
                for where, dependencies in enumerate(buffer.dependencies)
                for over in dependencies.failed()
            ]
            for memory in memories if bad or memories != [None] else ():
                for over in buffer.directory.without(bad, memory):
                    self.poison(buffer, over, why)
                    gone_nbytes += over.total_nbytes
            for where in dict(bad):
                forget_unheld(buffer, where)
        return gone_nbytes


def forget_unheld(buffer: VirtualBuffer, memory: int) -> None:
    """What failed to arrive in ``memory`` does not matter where it does not count as a holder now."""
    dependencies = buffer.dependencies[memory]
    for over in dependencies.failed():
        held = RegionSet.of(buffer.directory.current_in(memory, over))
        dependencies.forget_failures(RegionSet((over,)).difference(held).regions)
    dependencies.poisoned = bool(dependencies.failed())
