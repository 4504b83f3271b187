"""Virtual device memory: virtual buffers in the arena, device buffers on members, and what brings them there.

Source: papers/1 section 3.6.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from sdi.commands import Launch
from sdi.devices.base import Device
from sdi.devices.issue import Issue
from sdi.devices.pooled import PooledMemory
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, Status
from sdi.intervals import ByteRange
from sdi.region import Bytes
from sdi.vmem.accounting import Accounting, BytesMoved
from sdi.vmem.allocation import Placement
from sdi.vmem.arena import Arena
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.dependencies import Dependencies
from sdi.vmem.directory import HOST, Directory, member_memory
from sdi.vmem.host import HostWorker
from sdi.vmem.images import Images
from sdi.vmem.links import Links
from sdi.vmem.memories import Memories
from sdi.vmem.merging.members import MemberMerges
from sdi.vmem.merging.on_host import HostMerges
from sdi.vmem.node_memory import NodeMemories, NodeMemory
from sdi.vmem.reaches import NOTHING, Reached, Reaches
from sdi.vmem.recovery import Recovery
from sdi.vmem.recycling import Recycling
from sdi.vmem.replayed import Replayed
from sdi.vmem.scratch import ScratchMemory
from sdi.vmem.spill.spilling import Spilling
from sdi.vmem.transfers import Transfers

Coherence = Literal["lazy", "host"]


class VirtualMemory:
    """All virtual buffers of one session over the members' memories."""

    def __init__(
        self,
        arena: Arena,
        devices: Sequence[Device],
        host: HostWorker,
        post: Callable[[Callable[[], None]], None],
        coherence: Coherence = "lazy",
        links: Links | None = None,
        compares: Callable[[int], bool] | None = None,
        pooled: PooledMemory | None = None,
        nodes: Sequence[Device] = (),
        spilling: Spilling | None = None,
        in_arena: int | None = None,
    ) -> None:
        """``post`` runs a call on sdi-scheduler, from any thread.

        ``compares(member)``: whether that member, if it can, compares and merges what it and others wrote; as
        ``Links.merges`` says without that.
        ``pooled``: the memory of all members together, if they have that.
        ``nodes``: of each other node what copies to and from its own memory, which has so much room; not used
        by the protocol of papers/1.
        ``spilling``: of what lies in a file, if anything may.
        ``in_arena``: see ``Memories``; with nothing pooled and no file.
        ``coherence``: "lazy", or "host" for the protocol of papers/1 to the letter: results go to the host
        after every kernel, and members get the ranges that they access from there before the next.
        """
        self.arena = arena
        self.devices = devices
        self.coherence = coherence
        self.accounting = Accounting(BytesMoved(), [0] * len(devices))
        self.moved = self.accounting.moved
        known = [device.capabilities for device in devices]
        if pooled is not None:
            known.append(pooled.capabilities)
        if coherence == "host":
            nodes = ()
        first = len(known) + 1
        made = NodeMemories([NodeMemory(node, number) for number, node in enumerate(nodes, first)])
        known += [node.capabilities for node in nodes]
        self.accounting.nodes = tuple([node.capabilities.node for node in nodes])
        links = links or Links(
            [each.kind for each in known],
            nodes=[each.node for each in known],
            near=[each.is_near for each in known],
            own=[each.number for each in made],
            hops_ns=[each.hop_ns for each in known if not each.is_near],
        )
        number = None if pooled is None else len(devices)
        self.memories = Memories(arena, devices, number, self.accounting, made, spilling, in_arena)
        self.members = self.memories.members
        self.transfers = Transfers(self.memories, links, self.accounting)
        self.placement = Placement(
            devices, self.accounting, post, self.transfers.bring, made, self.memories.window, pooled
        )
        self.placed = self.placement.placed
        self.images = Images(self.memories, self.accounting)
        able = compares or links.merges
        self.merges = MemberMerges(
            devices,
            self.placement.heaps,
            self.accounting,
            post,
            lambda member: coherence == "lazy" and able(member),
            links,
        )
        self.host_merges = HostMerges(self.memories, self.transfers, self.accounting, host, post)
        self.scratch = ScratchMemory(arena, self.placement.heaps, post)
        self.host = host
        self.post = post
        self._buffers: dict[int, VirtualBuffer] = {}
        self._in_arena = in_arena is not None
        self._num_memories = len(known) + 1
        # The memories of members that another process runs.
        self._elsewhere = [
            member_memory(member) for member, device in enumerate(devices) if device.capabilities.node
        ]
        if spilling is not None:
            self.accounting.on_report.append(lambda: spilling.count(self.accounting.events))
        self.recovery = Recovery(self._buffers, self.memories, self.placement)
        self.reaches = Reaches()
        self.recycling = Recycling(self.placement, post)

    def create(self, buffer_id: int, nbytes: int, defined: bool, shift: int = 0) -> VirtualBuffer:
        """A new root buffer; nothing is allocated on members.  ``defined``: the client fills it first.

        ``shift``: how far behind a page's beginning it may begin, where members compute in the arena.
        """
        together = self.memories.together(nbytes)
        buffer = VirtualBuffer(
            buffer_id,
            nbytes,
            self.arena.allocate(nbytes, shift if self._in_arena else 0),
            Directory(nbytes, defined, together),
            self._dependencies(buffer_id, nbytes, together),
            [None] * len(self.placement.heaps),
        )
        self._buffers[buffer_id] = buffer
        return buffer

    def _dependencies(self, buffer_id: int, nbytes: int, together: int) -> list[Dependencies]:
        """Of a new buffer, per memory; those of nodes' members know of replays, and ``together`` are one."""
        found = [Dependencies(nbytes) for _ in range(self._num_memories)]
        if self._elsewhere:
            replayed = Replayed(buffer_id)
            for memory in self._elsewhere:
                found[memory] = Dependencies(nbytes, replayed, memory)
        return [found[HOST] if together >> memory & 1 else each for memory, each in enumerate(found)]

    def buffer(self, buffer_id: int) -> VirtualBuffer:
        """The buffer with this id.  Raises ClError(INVALID_MEM_OBJECT)."""
        found = self._buffers.get(buffer_id)
        if found is None:
            raise ClError(Status.INVALID_MEM_OBJECT, f"buffer {buffer_id} is not known")
        return found

    def known(self, buffer_ids: Iterable[int]) -> list[VirtualBuffer]:
        """Those of them that there still are, each once."""
        return [self._buffers[each] for each in dict.fromkeys(buffer_ids) if each in self._buffers]

    def reached(self, launch: Launch) -> Reached:
        """What a launch uses by addresses: regions that its arguments name, then others that it may reach.

        Raises ClError where there is none of the first any more.
        """
        if not launch.is_by_address:
            return NOTHING
        arguments, reach = [self.buffer(each) for each in launch.regions], self.reaches.find(launch.reach)
        return Reached(arguments) if reach is None else reach.with_arguments(arguments)

    def holding(self, offset: int, nbytes: int) -> tuple[VirtualBuffer, ByteRange]:
        """The buffer that has these bytes of the arena, and which they are.  Raises ClError."""
        for buffer in self._buffers.values():
            start = offset - buffer.offset
            if start >= 0 and start + nbytes <= buffer.nbytes:
                return buffer, ByteRange(start, start + nbytes)
        raise ClError(Status.INVALID_VALUE, f"no buffer has byte {offset} of the arena")

    def recycle(self, buffer_id: int, on_idle: Callable[[bool], None]) -> None:
        """Keep a released buffer for ``reuse``, see ``Recycling.recycle``.  Raises ClError."""
        self.reaches.forget(buffer_id)
        self.recycling.recycle(self.buffer(buffer_id), on_idle)

    def reuse(self, buffer_id: int, defined: bool) -> None:
        """A recycled buffer is as if it were just created.  Raises ClError where it is not recycled."""
        buffer = self.buffer(buffer_id)
        if not self.recycling.take(buffer):
            raise ClError(Status.INVALID_MEM_OBJECT, f"buffer {buffer_id} is in use")
        buffer.directory.reset(defined)

    def trim(self) -> None:
        """Give back memory of members that is kept for reuse and was not used for long."""
        self.recycling.trim()
        self.placement.trim()

    def release(self, buffer_id: int) -> None:
        """Free a buffer once everything issued on it is done."""
        buffer = self._buffers.pop(buffer_id, None)
        if buffer is None:
            return
        self.recycling.take(buffer)
        for forget in buffer.on_release:
            forget(buffer_id)
        buffer.when_idle(self.post, lambda: self._free(buffer))

    def after_kernel(self, buffer: VirtualBuffer, members: Sequence[int], issue: Issue) -> None:
        """A kernel that used ``buffer`` was issued on ``members``, and the directory knows what it wrote."""
        if self.coherence == "host":
            self.transfers.fetch_host(buffer, buffer.whole, issue)
            for member in members:
                buffer.directory.dropped(member_memory(member))

    def write_host(self, buffer: VirtualBuffer, over: Bytes, ticket: Ticket) -> list[Ticket]:
        """``over`` is overwritten in the arena by an action that ``ticket`` stands for: what it waits for."""
        dependencies = buffer.dependencies[HOST]
        waits = dependencies.before_write(over)
        dependencies.written_by(over, ticket)
        buffer.directory.wrote(HOST, over)
        for others in buffer.dependencies[HOST + 1 :]:
            if others.poisoned:
                others.forget_failures((over,))
        self.used_on_host(buffer, over, ticket, over.total_nbytes)
        return waits

    def used_on_host(
        self, buffer: VirtualBuffer, over: Bytes, ticket: Ticket, changed_nbytes: int = 0, fetch: bool = False
    ) -> None:
        """``over`` is used in the arena until ``ticket`` is done, and ``changed_nbytes`` of it changed.

        ``fetch``: it is read from a file before, as far as it lies there and nothing is about to change it.
        """
        bounds = over.bounds
        spilling = self.memories.spilling
        if spilling is not None and spilling.covers(buffer.offset + bounds.start, bounds.nbytes):
            use = spilling.use(buffer.offset + bounds.start, bounds.nbytes)
            if fetch:
                use.ahead()
            use.until(ticket, changed_nbytes)

    def fill_on_member(
        self, member: int, buffer: VirtualBuffer, over: ByteRange, pattern: bytes, issue: Issue
    ) -> Ticket:
        """Repeat ``pattern`` over a range that has a place on ``member``; only that member has it then."""
        memory = member_memory(member)
        allocation = self.memories.allocation(buffer, member)
        ticket = self.devices[member].fill(
            allocation.device_buffer,
            over.start - allocation.over.start,
            over.nbytes,
            pattern,
            buffer.dependencies[memory].before_write(over),
            issue.timing,
        )
        self.devices[member].flush()
        self.accounting.worked("fill", member, over.nbytes, ticket, issue)
        buffer.dependencies[memory].written_by(over, ticket)
        buffer.directory.wrote(memory, over)
        return ticket

    def run_on_host(
        self,
        task: Callable[[], object],
        wait: Sequence[Ticket],
        issue: Issue,
        what: str = "task",
        nbytes: int = 0,
    ) -> Ticket:
        """Run ``task``, which works on arena bytes, after ``wait``; the profile calls it ``what``.

        ``nbytes``: those that it is about; 0: it may take long.
        """
        ticket = self.host.at_once(task, nbytes, wait) if nbytes else self.host.submit(task, wait)
        self.accounting.worked(what, -1, nbytes, ticket, issue)
        return ticket

    def _free(self, buffer: VirtualBuffer) -> None:
        self.placement.discard(buffer)
        self.memories.nodes.discard(buffer)
        for member, device_buffer in buffer.mapped.items():  # a lost member has none
            self.devices[member].free(device_buffer)
        self.arena.free(buffer.offset)
        if self.memories.spilling is not None:
            self.memories.spilling.freed(buffer.offset, buffer.nbytes)


__all__ = ["Coherence", "VirtualBuffer", "VirtualMemory"]
