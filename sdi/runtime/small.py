"""Small reads and writes of the application, which leave all bytes where they are held.

What is read does not count as held by the host, and what is written is written wherever it was held.  So
launches find the buffer in a state that they know, and one recording is right for all such transfers of a run
of bytes that one memory holds.  Else programs that read or write another element in each step would leave a
new state each time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sdi.devices.issue import Issue
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed
from sdi.intervals import ByteRange
from sdi.launch.steps import Steps
from sdi.player.builder import COPY_MAX_NBYTES, address
from sdi.player.keeper import WRITE_GRANULE_NBYTES
from sdi.region import Bytes, as_region
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, Copy, State, member_memory
from sdi.vmem.memory import VirtualMemory
from sdi.vmem.transfers import Transfer

SMALL_NBYTES_MAX = 64 << 10
WINDOW_NBYTES = 1 << 20
"""A recording is right within so many bytes of the host's memory, which a driver has locked alike: no slab of
``page_locks.py`` ends in them.  They are also all that counts as used by it.
"""
_RUNS_MAX = 64
_ATTEMPTS = 4
_log = logging.getLogger("sdi.copies")


@dataclass(frozen=True, slots=True)
class Run:
    """Bytes that memory ``holder`` has, all of them; the buffer is in ``state``."""

    over: ByteRange
    holder: int
    state: State


def is_small(memory: VirtualMemory, buffer: VirtualBuffer, over: ByteRange) -> bool:
    """Whether a transfer of ``over`` is short, and near."""
    memories = memory.memories
    is_near = not memories.nodes.mask and memories.spilling is None
    return over.nbytes <= SMALL_NBYTES_MAX and is_near and memories.pooled_allocation(buffer) is None


def run_to_read(memory: VirtualMemory, buffer: VirtualBuffer, over: ByteRange) -> Run | None:
    """Around ``over``, bytes that the host has, or that one member has and the host has not.

    A member does not write where the host has good bytes: it might fail.  None where nobody has all of it, or
    it is not small.
    """

    def holder_of(masks: Sequence[int]) -> int | None:
        everywhere, anywhere = masks[0], 0
        for mask in masks:
            everywhere &= mask
            anywhere |= mask
        if everywhere >> HOST & 1:
            return HOST
        return None if anywhere >> HOST & 1 or not everywhere else (everywhere & -everywhere).bit_length() - 1

    def has(mask: int, holder: int) -> bool:
        return mask >> holder & 1 == 1 and (holder == HOST or not mask >> HOST & 1)

    return _run(memory, buffer, over, holder_of, has)


def run_to_write(memory: VirtualMemory, buffer: VirtualBuffer, over: ByteRange) -> Run | None:
    """Around ``over``, bytes that one member has and nobody else; None likewise.

    Of several members some may never want what is written; where the host has it too its state comes back
    anyway, and recordings that know no length (``held_beside``) are right.
    """

    def holder_of(masks: Sequence[int]) -> int | None:
        holder = masks[0].bit_length() - 1
        return holder if holder > HOST and set(masks) == {1 << holder} else None

    return _run(memory, buffer, over, holder_of, lambda mask, holder: mask == 1 << holder)


def _run(
    memory: VirtualMemory,
    buffer: VirtualBuffer,
    over: ByteRange,
    holder_of: Callable[[Sequence[int]], int | None],
    has: Callable[[int, int], bool],
) -> Run | None:
    state = buffer.directory.state()
    if state is None or not is_small(memory, buffer, over):
        return None
    window = _window(memory, buffer, over)
    runs = buffer.directory.runs(window, _RUNS_MAX) or ()
    masks = [mask * defined for run, mask, defined in runs if run.start < over.stop and over.start < run.stop]
    holder = holder_of(masks) if masks else None
    if holder is None:
        return None
    start, stop = window.start, window.stop
    for run, mask, defined in runs:
        if not (defined and has(mask, holder)):
            if run.stop <= over.start:
                start = run.stop
            else:
                stop = min(stop, run.start)
    return Run(ByteRange(start, stop), holder, state)


def _window(memory: VirtualMemory, buffer: VirtualBuffer, over: ByteRange) -> ByteRange:
    at = address(memory.memories.host_view(buffer, over))
    before, behind = at % WINDOW_NBYTES, WINDOW_NBYTES - at % WINDOW_NBYTES
    if over.nbytes > behind:
        return over
    return ByteRange(max(0, over.start - before), min(buffer.nbytes, over.start + behind))


def read_where_held(
    memory: VirtualMemory, buffer: VirtualBuffer, run: Run, over: ByteRange, issue: Issue
) -> list[Transfer]:
    """Make ``over`` current in the arena, where nobody counts on that.

    What would do so at the beginning of the run.
    """
    if run.holder == HOST:
        return []
    transfer = memory.transfers.transfer(buffer, Copy(run.holder, HOST, over), issue.cause, False)
    memory.transfers.perform(transfer, issue)
    return [_at_the_beginning(transfer, run.over)]


def write_where_held(
    memory: VirtualMemory,
    buffer: VirtualBuffer,
    run: Run,
    over: ByteRange,
    issue: Issue,
    done: list[Ticket],
) -> list[Transfer]:
    """Bring ``over``, which the host has just written, to the member that held it.  Adds to ``done``.

    What would do so at the beginning of the run.
    """
    transfer = memory.transfers.transfer(buffer, Copy(HOST, run.holder, over), issue.cause, False)
    done.append(memory.transfers.perform(transfer, issue))
    memory.memories.device(run.holder).flush()
    buffer.directory.enter(run.state)
    return [_at_the_beginning(transfer, run.over)]


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
    alone = _by_bit(memory)
    for part, held, _ in buffer.directory.holders(over):
        if held >> HOST & 1 and (member := alone.get(held & ~(1 << HOST))) is not None:
            found.setdefault(member, []).append(part)
    return found


def _by_bit(memory: VirtualMemory) -> dict[int, int]:
    """Members of this machine, by the bit set that has each alone."""
    near = [member for member in memory.members if not memory.devices[member].capabilities.node]
    return {1 << member_memory(member): member for member in near}


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


def bring_to_target(
    memory: VirtualMemory,
    source: tuple[VirtualBuffer, ByteRange],
    target: tuple[VirtualBuffer, ByteRange],
    wanted: int,
    issue: Issue,
) -> Steps[None]:
    """Before a copy: what only the host has goes to the members that have the target, where there is room.

    It would have to go there after each copy else, also where a program copies the same bytes in each step.
    ``wanted``: the memory that has to have the target, or HOST.
    """
    (from_, here), (to, there) = source, target
    memories, is_lazy = memory.memories, memory.coherence == "lazy"
    if not is_lazy or any(each.is_in_place or memories.pooled_allocation(each) for each in (from_, to)):
        return
    alone = _by_bit(memory)
    for run, mask, _ in to.directory.runs(there, _RUNS_MAX) or ():
        member = alone.get(mask & ~(1 << HOST))
        part = ByteRange(run.start - there.start + here.start, run.stop - there.start + here.start)
        if member is None or wanted not in (HOST, member_memory(member)):
            continue
        held = from_.directory.runs(part, 1)
        if held is None or held[0][1:] != (1 << HOST, True) or not memory.placement.fits(member, part):
            continue
        try:
            for _ in range(_ATTEMPTS):
                waits = memory.placement.reserve([(from_, member, part), (to, member, run)], issue)
                if not waits:
                    memory.transfers.bring(from_, member_memory(member), part, issue)
                    break
                yield waits
        except (ClError, DeviceFailed) as cause:
            _log.debug("buffer %d is copied on the host: %s", from_.id, cause)
            return
