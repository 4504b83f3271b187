"""Small reads and writes of the application, which leave all bytes where they are held.

What is read does not count as held by the host, and what is written is written wherever it was held.  So
launches find the buffer in a state that they know, and one recording is right for all such transfers of a run
of bytes that one memory holds.  Else programs that read or write another element in each step would leave a
new state each time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from sdi.commands import Rectangle
from sdi.dataclass import dataclass, replace
from sdi.devices.issue import Issue
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed
from sdi.intervals import ByteRange
from sdi.launch.steps import Steps
from sdi.player.builder import COPY_MAX_NBYTES, address, are_few_rows
from sdi.player.keeper import write_granule
from sdi.region import Bytes, Region, as_region
from sdi.runtime.region_copies import parts_of
from sdi.vmem.buffer import VirtualBuffer
from sdi.vmem.directory import HOST, Copy, State, member_memory
from sdi.vmem.memory import VirtualMemory
from sdi.vmem.transfers import Transfer
from sdi.wire.records import CARRIED_MAX_NBYTES, STAGED_MAX_NBYTES

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
    """Bytes that memory ``holder`` has, all of them; the buffer is in ``state``.

    ``before``: where writes of any length are brought to it, the state that the buffer was in.
    """

    over: ByteRange
    holder: int
    state: State
    before: State | None = None


def is_small(memory: VirtualMemory, buffer: VirtualBuffer, over: Bytes) -> bool:
    """Whether a transfer of ``over``, which is one run or a few rows, is short, and near."""
    region = as_region(over)
    is_short = region.total_nbytes <= SMALL_NBYTES_MAX and region.span_nbytes <= COPY_MAX_NBYTES
    return is_short and are_few_rows(region) and _is_near(memory, buffer)


def _is_near(memory: VirtualMemory, buffer: VirtualBuffer) -> bool:
    """Whether it is in memory of this machine, each byte in that of one member or the host."""
    memories = memory.memories
    is_here = not memories.nodes.mask and memories.spilling is None
    return is_here and memories.pooled_allocation(buffer) is None


def run_to_read(memory: VirtualMemory, buffer: VirtualBuffer, over: Bytes) -> Run | None:
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


def run_to_write(memory: VirtualMemory, buffer: VirtualBuffer, over: Bytes) -> Run | None:
    """Around ``over``, bytes that one member has and no other; None likewise.

    Of several members some may never want what is written.  Of a run that the host has too the state comes
    back anyway, and recordings that know no length (``held_beside``) are right; of rows, or of some of a run,
    it may have it, and has all that a member has which computes in the arena.
    """
    ignored = 1 << HOST if buffer.together or as_region(over).levels else 0

    def holder_of(masks: Sequence[int]) -> int | None:
        nonlocal ignored
        holder = masks[0].bit_length() - 1
        if len(set(masks)) > 1:
            ignored = 1 << HOST
        return holder if holder > HOST and {mask & ~ignored for mask in masks} == {1 << holder} else None

    return _run(memory, buffer, over, holder_of, lambda mask, holder: mask & ~ignored == 1 << holder)


def run_to_bring(
    memory: VirtualMemory, buffer: VirtualBuffer, over: ByteRange, may_take: bool = True
) -> Run | None:
    """Around ``over``, bytes that one member has, which has memory of its own, and no other; None likewise.

    It gets what is written at once, and the host no more: so writes of all lengths leave the same state.
    What the host has of them too, up to multiples of a granule, it does not have any more, which the
    directory says from now on; not ``may_take``: None.
    """
    directory, before = buffer.directory, buffer.directory.state()
    is_long = over.nbytes > STAGED_MAX_NBYTES
    if (
        before is None
        or is_long
        or memory.coherence != "lazy"
        or buffer.is_in_place
        or not _is_near(memory, buffer)
    ):
        return None
    masks = {mask * defined for _, mask, defined in directory.holders(over)}
    found = {mask & ~(1 << HOST) for mask in masks}
    member = _by_bit(memory).get(found.pop()) if len(found) == 1 else None
    if member is None or memory.devices[member].capabilities.is_host_memory:
        return None
    holder = member_memory(member)
    around = buffer.whole if over.nbytes > CARRIED_MAX_NBYTES else _window(memory, buffer, over)
    if masks == {1 << holder}:
        run = _extent(buffer, over, around, lambda mask: mask == 1 << holder)
        return None if run is None else Run(run, holder, before, before)
    if not may_take:
        return None
    granule = write_granule(over.nbytes)
    start = max(around.start, over.start // granule * granule)
    near = ByteRange(start, min(-(-over.stop // granule) * granule, around.stop))
    run = _extent(buffer, over, near, lambda mask: mask & ~(1 << HOST) == 1 << holder)
    if run is None:
        return None
    directory.wrote(holder, run)
    after = directory.state()
    return None if after is None else Run(run, holder, after, before)


def _run(
    memory: VirtualMemory,
    buffer: VirtualBuffer,
    bytes_: Bytes,
    holder_of: Callable[[Sequence[int]], int | None],
    has: Callable[[int, int], bool],
) -> Run | None:
    state, over = buffer.directory.state(), bytes_.bounds
    if state is None or not is_small(memory, buffer, bytes_):
        return None
    holder = holder_of([mask * defined for _, mask, defined in buffer.directory.holders(over)])
    if holder is None:
        return None
    run = _extent(buffer, over, _window(memory, buffer, over), lambda mask: has(mask, holder))
    return None if run is None else Run(run, holder, state)


def _extent(
    buffer: VirtualBuffer, over: ByteRange, window: ByteRange, has: Callable[[int], bool]
) -> ByteRange | None:
    """Around ``over``, which is so itself, what of ``window`` is held as ``has`` says, by its bit set."""
    start, stop = window.start, window.stop
    for part, mask, defined in buffer.directory.holders(window):
        if defined and has(mask):
            continue
        if part.num_runs > _RUNS_MAX:
            return None
        for run in part.runs():
            if run.stop <= over.start:
                start = max(start, run.stop)
            else:
                stop = min(stop, run.start)
    return ByteRange(start, stop)


def _window(memory: VirtualMemory, buffer: VirtualBuffer, over: ByteRange) -> ByteRange:
    at = address(memory.memories.host_view(buffer, over))
    before, behind = at % WINDOW_NBYTES, WINDOW_NBYTES - at % WINDOW_NBYTES
    if over.nbytes > behind:
        return over
    return ByteRange(max(0, over.start - before), min(buffer.nbytes, over.start + behind))


def read_where_held(
    memory: VirtualMemory, buffer: VirtualBuffer, run: Run, over: Bytes, issue: Issue
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
    over: Bytes,
    issue: Issue,
    done: list[Ticket],
) -> list[Transfer]:
    """Bring ``over``, which the host has just written, to the member that held it.  Adds to ``done``.

    What would do so at the beginning of the run.
    """
    buffer.directory.enter(run.state)
    if buffer.own(run.holder) == HOST:
        return []
    transfer = memory.transfers.transfer(buffer, Copy(HOST, run.holder, over), issue.cause, False)
    done.append(memory.transfers.perform(transfer, issue))
    memory.memories.device(run.holder).flush()
    return [_at_the_beginning(transfer, run.over)]


def _at_the_beginning(transfer: Transfer, within: ByteRange) -> Transfer:
    """The same copy there, behind all that conflicts with one anywhere in ``within``."""
    copy, dependencies = transfer.copy, transfer.buffer.dependencies
    first = transfer.region.at(within.start)
    return replace(
        transfer,
        copy=Copy(copy.source, copy.target, first if first.levels else first.bounds),
        leave=dependencies[copy.source].use((within,), ()),
        arrive=dependencies[copy.target].use((), (within,)),
        region=first,
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
    granule = write_granule(over.nbytes)
    start = over.start // granule * granule
    stop = min(-(-over.stop // granule) * granule, buffer.nbytes)
    held = buffer.directory.current_in(HOST, ByteRange(start, stop))
    for run in [run for part in held for run in part.runs()]:
        if run.start <= over.start and over.stop <= run.stop:
            return None if buffer.dependencies[HOST].before_read(run) else run
    return None


Part = tuple[VirtualBuffer, ByteRange]
"""Some bytes of a buffer."""


def bring_for_copy(
    memory: VirtualMemory, source: Part, target: Part, is_run: bool, wanted: int, issue: Issue
) -> Steps[None]:
    """Before a copy: what only the host has goes to members that have the other end, where there is room.

    It would have to go there for each copy else, also where a program copies the same bytes in each step.
    ``is_run``: of all bytes; else of rows of them.  ``wanted``: the memory that has to have the target, or
    HOST.
    """
    is_lazy, pooled = memory.coherence == "lazy", memory.memories.pooled_allocation
    if is_lazy and not any(each.is_in_place or pooled(each) for each, _ in (source, target)):
        bring = _bring_to_target if is_run else _bring_rows_together
        yield from bring(memory, source, target, wanted, issue)


def _bring_rows_together(
    memory: VirtualMemory, source: Part, target: Part, wanted: int, issue: Issue
) -> Steps[None]:
    """Where one member has one of them and only the host the other, that goes to the member too."""
    alone = _by_bit(memory)
    masks = [_held_by(buffer.directory.holders(over)) for buffer, over in (source, target)]
    on_member = [mask for mask in masks if mask & ~(1 << HOST)]
    if sorted(mask == 1 << HOST for mask in masks) != [False, True] or not on_member:
        return
    member = alone.get(on_member[0] & ~(1 << HOST))
    buffer, over = source if masks[0] == 1 << HOST else target
    if member is None or wanted not in (HOST, member_memory(member)) or over.nbytes > COPY_MAX_NBYTES:
        return
    if memory.placement.fits(member, over):
        yield from _bring(memory, member, (buffer, over), [source, target], issue)


def _bring_to_target(
    memory: VirtualMemory, source: Part, target: Part, wanted: int, issue: Issue
) -> Steps[None]:
    """To the members that have the target goes what of the source only the host has."""
    (from_, here), (to, there) = source, target
    alone = _by_bit(memory)
    for run, mask, _ in to.directory.runs(there, _RUNS_MAX) or ():
        member = alone.get(mask & ~(1 << HOST))
        part = ByteRange(run.start - there.start + here.start, run.stop - there.start + here.start)
        if member is None or wanted not in (HOST, member_memory(member)):
            continue
        held = [holders * defined for _, holders, defined in from_.directory.holders(part)]
        is_near = all(each == 1 << HOST or each >> member_memory(member) & 1 for each in held)
        if not is_near or 1 << HOST not in held or not memory.placement.fits(member, part):
            continue
        yield from _bring(memory, member, (from_, part), [(from_, part), (to, run)], issue)


def _bring(
    memory: VirtualMemory,
    member: int,
    what: Part,
    places: Sequence[Part],
    issue: Issue,
) -> Steps[None]:
    """Where ``places`` have room there at once; else it stays where it is."""
    buffer, over = what
    try:
        for _ in range(_ATTEMPTS):
            waits = memory.placement.reserve([(each, member, part) for each, part in places], issue)
            if not waits:
                memory.transfers.bring(buffer, member_memory(member), over, issue)
                return
            yield waits
    except (ClError, DeviceFailed) as cause:
        _log.debug("buffer %d is copied on the host: %s", buffer.id, cause)


Held = Sequence[tuple[Bytes, int, bool]]
"""Parts of some bytes: the memories that hold each, and whether it is defined."""


def holding(buffer: VirtualBuffer, over: Rectangle, is_written: bool) -> Held | None:
    """Of a run in order; None where it has very many parts.  ``is_written``: just now, so that it is all
    that each of its parts is held by; else what the parts have in common does.

    Where a member's memory is the host's, the member counts.
    """
    found: Held | None
    if not over.contiguous:
        found = buffer.directory.holders(over.strided)
    elif is_written:
        found = buffer.directory.runs(over.bounds, _RUNS_MAX)
    else:
        parts = parts_of(buffer.directory, over.bounds)
        found = None if parts is None else [(part.over, part.holders, part.defined) for part in parts]
    if found is None or not buffer.together:
        return found
    return [
        (part, mask & ~(1 << HOST) if mask & buffer.together else mask, is_there)
        for part, mask, is_there in found
    ]


def copied_by(
    held: Held | None, made: Held | None, from_: Region, to: Region
) -> list[tuple[int, Region, Region]]:
    """Which member copied what, and where to, of a copy of one buffer to another; the regions are alike.

    ``held``, ``made``: by whom the source was held before, and the target is now.  Empty where not each byte
    was copied by a member that had it, and alone has the copy; or, of rows, where several did.
    """
    found: list[tuple[int, Region, Region]] = []
    if held is None or made is None:
        return []
    if from_.levels or to.levels:
        holder = _held_by(made)
        is_copied = holder > 1 and holder.bit_count() == 1 and all(mask & holder for _, mask, _ in held)
        return [(holder.bit_length() - 2, from_, to)] if is_copied else []
    shift = to.base - from_.base
    for part, holder, _ in made:
        there = part.bounds
        start, stop = there.start - shift, there.stop - shift
        if holder <= 1 or holder.bit_count() != 1:
            return []
        if not all(
            holders & holder
            for over, holders, _ in held
            if over.bounds.start < stop and start < over.bounds.stop
        ):
            return []
        found.append((holder.bit_length() - 2, Region(start, stop - start), as_region(there)))
    return found


def _held_by(parts: Held) -> int:
    """The memories that have each of these; 0 where they differ, or something of it nobody wrote."""
    masks = {mask if defined else 0 for _, mask, defined in parts}
    return masks.pop() if len(masks) == 1 else 0
