"""Small reads and writes of the application, which leave all bytes where they are held.

What is read does not count as held by the host, and what is written is written wherever it was held.  So
launches find the buffer in a state that they know, and one recording is right for all such transfers of a run
of bytes that are held alike: else programs that read or write another element in each step would leave a new
state each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sdi.devices.issue import Issue
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.player.builder import COPY_MAX_NBYTES
from sdi.player.keeper import WRITE_GRANULE_NBYTES
from sdi.region import Bytes, as_region
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, Copy, State, member_memory
from sdi.vmem.memory import VirtualMemory
from sdi.vmem.transfers import Transfer

SMALL_NBYTES_MAX = 64 << 10
_RUNS_MAX = 64


@dataclass(frozen=True, slots=True)
class HeldAlike:
    """A run of bytes, and the memories that hold all of it; ``state``: of its buffer."""

    over: ByteRange
    memories: tuple[int, ...]
    state: State

    @property
    def is_on_one_member(self) -> bool:
        """Whether one member has it: of several, some may never want what is written."""
        return len(self.memories) - (HOST in self.memories) == 1


def held_alike(memory: VirtualMemory, buffer: VirtualBuffer, over: ByteRange) -> HeldAlike | None:
    """Around ``over``, all of which is held alike; None where it is not, is too much, or is far."""
    memories = memory.memories
    if over.nbytes > SMALL_NBYTES_MAX or memories.nodes.mask or memories.spilling is not None:
        return None
    state = buffer.directory.state()
    if state is None or memories.pooled_allocation(buffer) is not None:
        return None
    for run, held, is_defined in buffer.directory.runs(ByteRange(0, buffer.nbytes), _RUNS_MAX) or ():
        if run.start <= over.start and over.stop <= run.stop:
            found = tuple(each for each in range(held.bit_length()) if held >> each & 1)
            return HeldAlike(run, found, state) if found and is_defined else None
    return None


def read_where_held(
    memory: VirtualMemory, buffer: VirtualBuffer, held: HeldAlike, over: ByteRange, issue: Issue
) -> list[Transfer]:
    """Make ``over`` current in the arena, where nobody counts on that.

    What would do so at the beginning of the run.
    """
    transfers = memory.transfers.plan(buffer, HOST, (over,), False, issue.cause)
    for transfer in transfers:
        memory.transfers.perform(transfer, issue)
    buffer.directory.enter(held.state)
    return [_at_the_beginning(transfer, held.over) for transfer in transfers]


def write_where_held(
    memory: VirtualMemory,
    buffer: VirtualBuffer,
    held: HeldAlike,
    over: ByteRange,
    issue: Issue,
    done: list[Ticket],
) -> list[Transfer]:
    """Bring ``over``, which the host has just written, to all that held it.  Adds to ``done``.

    What would do so at the beginning of the run.
    """
    found: list[Transfer] = []
    for target in held.memories:
        if target != HOST:
            planned = memory.transfers.plan(buffer, target, (over,), False, issue.cause, HOST)
            done += [memory.transfers.perform(transfer, issue) for transfer in planned]
            memory.memories.device(target).flush()
            found += planned
    buffer.directory.enter(held.state)
    return [_at_the_beginning(transfer, held.over) for transfer in found]


def _at_the_beginning(transfer: Transfer, within: ByteRange) -> Transfer:
    """The same copy there, behind all that conflicts with one anywhere in ``within``."""
    copy, dependencies = transfer.copy, transfer.buffer.dependencies
    first = ByteRange(within.start, within.start + transfer.nbytes)
    return replace(
        transfer,
        copy=Copy(copy.source, copy.target, first),
        leave=dependencies[copy.source].use((within,), ()),
        arrive=dependencies[copy.target].use((), (within,)),
        region=as_region(first),
    )


def copied_alone(memory: VirtualMemory, buffer: VirtualBuffer, over: ByteRange) -> dict[int, list[Bytes]]:
    """By member of this machine, what of ``over`` it has a copy of, as the host does and nobody else."""
    found: dict[int, list[Bytes]] = {}
    if over.nbytes > COPY_MAX_NBYTES or memory.memories.pooled_allocation(buffer) is not None:
        return found
    near = [member for member in memory.members if not memory.devices[member].capabilities.node]
    alone = {1 << HOST | 1 << member_memory(member): member for member in near}
    for part, held, _ in buffer.directory.holders(over):
        if (member := alone.get(held)) is not None:
            found.setdefault(member, []).append(part)
    return found


def renew(
    memory: VirtualMemory,
    buffer: VirtualBuffer,
    copies: Mapping[int, Sequence[Bytes]],
    issue: Issue,
    done: list[Ticket],
) -> list[Transfer]:
    """Bring what the host wrote over to the members that had it: it goes while the application prepares
    the launch that will want it, as on a single device.  Adds to ``done``.
    """
    found: list[Transfer] = []
    for member, parts in copies.items():
        planned = memory.transfers.plan(buffer, member_memory(member), parts, False, issue.cause)
        done += [memory.transfers.perform(transfer, issue) for transfer in planned]
        memory.devices[member].flush()
        found += planned
    return found


def held_beside(buffer: VirtualBuffer, over: ByteRange) -> ByteRange | None:
    """``over``, if the host has it, with what else the host has around it, up to multiples of a granule.

    Where all of that counts as written, writes of other lengths leave the same state.
    """
    start = over.start // WRITE_GRANULE_NBYTES * WRITE_GRANULE_NBYTES
    stop = min(-(-over.stop // WRITE_GRANULE_NBYTES) * WRITE_GRANULE_NBYTES, buffer.nbytes)
    held = buffer.directory.current_in(HOST, ByteRange(start, stop))
    for run in [run for part in held for run in part.runs()]:
        if run.start <= over.start and over.stop <= run.stop:
            return None if buffer.dependencies[HOST].before_read(run) else run
    return None
