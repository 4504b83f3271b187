"""Where a buffer's bytes are in each memory: the arena's, a member's, that of all members together.

Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sdi.devices.base import Device
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.pooled import PooledMemory
from sdi.intervals import ByteRange
from sdi.region import Region
from sdi.vmem.accounting import Accounting
from sdi.vmem.arena import Arena
from sdi.vmem.buffer import Allocation, VirtualBuffer
from sdi.vmem.directory import HOST, member_memory
from sdi.vmem.merging.host import Bytes
from sdi.vmem.node_memory import NodeMemories
from sdi.vmem.spill.spilling import Spilling
from sdi.wire.opencl import DeviceInfo


def computes_in_arena(devices: Sequence[Device], may_split: bool) -> int | None:
    """The member that uses buffers in the arena itself, so that nothing is copied to and from it.

    Only where no launch is ever split, as nobody keeps what was there before: a member alone, or the first of
    members that are one device if launches are not ``may_split``; None where they can't.
    """
    known = [device.capabilities for device in devices]
    are_one = len(known) == 1 or (not may_split and len({(each.node, each.unit) for each in known}) == 1)
    can = all(each.is_host_memory and each.maps_host and each.is_near and not each.node for each in known)
    return 0 if are_one and can else None


def brings_staged(devices: Sequence[Device]) -> bool:
    """Whether members get written bytes from where they are staged: they have memory of their own."""
    known = [device.capabilities for device in devices]
    return all(each.is_near and not each.node and not each.is_host_memory for each in known)


class Memories:
    """``members``: those that are not lost.  ``pooled``: the number of what is pooled, if anything is.

    ``in_arena``: the member whose memory is the arena, see ``computes_in_arena``.
    ``nodes``: the other nodes' own.  ``spilling``: of what lies in a file, if anything may.
    """

    def __init__(
        self,
        arena: Arena,
        devices: Sequence[Device],
        pooled: int | None,
        accounting: Accounting,
        nodes: NodeMemories | None = None,
        spilling: Spilling | None = None,
        in_arena: int | None = None,
    ) -> None:
        self._in_arena = in_arena
        self.arena = arena
        self.spilling = spilling
        self.devices = devices
        self.pooled = pooled
        self.nodes = nodes or NodeMemories()
        self.members = list(range(len(devices)))
        self._accounting = accounting

    def together(self, nbytes: int) -> int:
        """The bit set of memories that are one for buffers of this size, if any are."""
        if self._in_arena is None or nbytes > self.together_most_nbytes:
            return 0
        return 1 << HOST | 1 << member_memory(self._in_arena)

    @property
    def together_most_nbytes(self) -> int:
        """The largest of these buffers: the driver has none that are larger; 0: there are none."""
        if self._in_arena is None:
            return 0
        most = self.devices[self._in_arena].capabilities.info.get(DeviceInfo.MAX_MEM_ALLOC_SIZE, b"")
        return int.from_bytes(most, "little")

    def device(self, memory: int) -> Device:
        """Who copies to and from a memory that is not the host's."""
        node = self.nodes.numbered(memory)
        return self.devices[memory - 1] if node is None else node.device

    def window(self, buffer: VirtualBuffer) -> HostBytes:
        """All of its bytes in the arena, at the application's address if that is known."""
        return self.arena.window(buffer.offset, buffer.nbytes)

    def host_view(self, buffer: VirtualBuffer, over: ByteRange) -> memoryview:
        """The arena's bytes of ``over``."""
        return self.arena.view(buffer.offset + over.start, over.nbytes)

    def in_file(self, buffer: VirtualBuffer, over: Region) -> Spilling | None:
        """Who brings ``over`` to the arena's memory, where some of it lies in a file."""
        spilling = self.spilling
        if spilling is None:
            return None
        bounds = over.bounds
        return spilling if spilling.covers(buffer.offset + bounds.start, bounds.nbytes) else None

    def allocation(self, buffer: VirtualBuffer, member: int) -> Allocation:
        """The buffer's place on a member; the caller has reserved one."""
        found = buffer.allocations[member]
        assert found is not None, f"buffer {buffer.id} has no place on member {member}"
        return found

    @property
    def pooled_memory(self) -> int:
        """The memory of all members together; the host's number where there is none."""
        return HOST if self.pooled is None else member_memory(self.pooled)

    @property
    def shared(self) -> int:
        """The bit set of memories that are not the host's, and no member's alone."""
        return self.nodes.mask | (0 if self.pooled is None else 1 << self.pooled_memory)

    def pooled_allocation(self, buffer: VirtualBuffer) -> Allocation | None:
        """The buffer's place in the memory of all members together, if it has one."""
        return None if self.pooled is None else buffer.allocations[self.pooled]

    def backing(self, buffer: VirtualBuffer) -> int:
        """The memory in which all members use a buffer that is larger than any of them."""
        return HOST if self.pooled_allocation(buffer) is None else self.pooled_memory

    def mapped(self, buffer: VirtualBuffer, member: int) -> DeviceBuffer:
        """``buffer``'s bytes in its backing memory as a device buffer of ``member``.  Raises ClError."""
        pooled = self.pooled_allocation(buffer)
        if pooled is not None:
            return PooledMemory.view(pooled.device_buffer, member)
        found = buffer.mapped.get(member)
        if found is None:
            found = buffer.mapped[member] = self.devices[member].allocate(self.window(buffer))
            self._accounting.events.mapped += 1
        return found

    def host_array(self, buffer: VirtualBuffer, over: ByteRange) -> Bytes:
        """``host_view`` as uint8, shape ``(over.nbytes,)``."""
        return np.frombuffer(self.host_view(buffer, over), np.uint8)
