"""What the player needs to know of a launch to carry it out again where members' copies are looked at then.

Of one that uses results of atomics these are copies of the counters.  Where the launch counts, the player
moves what members have appended and adds the counters up; where it does not, or is of another kind than this
says, the launch is Python's (``launch/appending.py``).  What several members wrote to a few bytes it merges.
Source: design/0023-atomics-that-answer.md, design/0019-merging.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sdi.appends import (
    COPIES_MAX_NBYTES,
    SMALL,
    Append,
    AppendStore,
    Polynomial,
    magnitude_of,
    room_of,
    value_of,
)
from sdi.dataclass import dataclass
from sdi.devices.handles import BoundKernel
from sdi.intervals import ByteRange
from sdi.launch.arguments import ArgumentValue, BufferArgument
from sdi.launch.chunks import Chunk
from sdi.launch.kernel import Binding, Kernel
from sdi.launch.plan import BufferPlan, CutPlan
from sdi.launch.recording import Change, Recording
from sdi.vmem.directory import HOST, State, member_memory
from sdi.vmem.memory import VirtualBuffer, VirtualMemory
from sdi.vmem.merging.members import MergeUnits


@dataclass(frozen=True, slots=True)
class TrialCopies:
    """Bytes of which ``members`` have copies: counters of ``element_nbytes`` each, or what is watched, or
    merged: in these ``units`` then.
    """

    buffer: VirtualBuffer
    over: ByteRange
    element_nbytes: int
    members: tuple[int, ...]
    cause: str
    units: MergeUnits | None = None


@dataclass(frozen=True, slots=True)
class TrialStore:
    """What is stored for the places of a counter, and belongs behind each other in ``over`` of a buffer.

    Place p begins at ``first`` + ``step`` p, in bytes of the buffer, and has abs(``step``) bytes.
    ``is_part``: it may also store elsewhere, which would change residency.
    """

    buffer: VirtualBuffer
    over: ByteRange
    is_part: bool
    first: int
    step: int
    cause: str


@dataclass(frozen=True, slots=True)
class TrialCounter:
    """``element`` of ``copies`` number so many: at most ``most`` in the end, and at least 0 before where that
    is a limit.
    """

    copies: int
    element: int
    most: int
    is_limited: bool
    stores: tuple[TrialStore, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """``counters``: none where members' copies are merged, or compared, and one of them may have changed.

    ``members``: in the order of the assignments.  ``keeper``: who gets what is appended, None: the host.
    ``scalars``: arguments of which it depends on every bit.  ``undone``: what residency is where it does not
    count.
    """

    kernel: Kernel
    members: tuple[int, ...]
    copies: tuple[TrialCopies, ...]
    counters: tuple[TrialCounter, ...]
    keeper: int | None
    scalars: frozenset[int]
    undone: tuple[tuple[VirtualBuffer, State], ...]

    @property
    def merges(self) -> bool:
        """Whether it counts in any case."""
        return any(each.units is not None for each in self.copies)


@dataclass(frozen=True, slots=True, eq=False)
class KeptLaunch:
    """``recording``: up to the kernels, which are ``kernels``; ``trial``: what comes then."""

    recording: Recording
    kernels: Sequence[BoundKernel]
    trial: Trial


def merging_trial(kernel: Kernel, plan: CutPlan, members: Sequence[int]) -> Trial:
    """Of a launch of one chunk that ``merges_little``."""
    copies = [
        TrialCopies(
            used.buffer,
            merged.over,
            units.compared_nbytes,
            tuple([members[k] for k in merged.assignments]),
            used.cause,
            units,
        )
        for used in plan.buffers
        for merged in used.merged
        for units in (MergeUnits(used.unit_nbytes, used.smallest_nbytes, merged.update),)
    ]
    return Trial(kernel, tuple(members), tuple(copies), (), None, frozenset(), ())


def trial_of(
    memory: VirtualMemory,
    binding: Binding,
    changes: Sequence[Change],
    members: Sequence[int],
    keeper: int | None,
    begins: Sequence[int],
) -> Trial | None:
    """Of a launch that counted, and changed residency like this; None where it is Python's each time.

    ``begins``: where its counters stood before it.
    """
    plan, model = binding.launch_plan, binding.kernel.model
    chunk = plan.chunks[0]
    if len(plan.chunks) > 1 or chunk.mapped or chunk.plan.images or chunk.reached.buffers:
        return None
    copies = _copies(chunk, tuple(members))
    if copies is None or memory.coherence != "lazy":
        return None
    stays = {change.directory for change in changes if change.before is change.after}
    used = {each.buffer.id: each for each in chunk.plan.buffers}
    counters: list[TrialCounter] = []
    appends = _once(model.appends, binding.values) if not model.watched else []
    for append, begin in zip(appends, begins, strict=True):
        counter = _counter(append, binding.values, copies, used, keeper, begin)
        if counter is None or any(store.buffer.directory not in stays for store in counter.stores):
            return None
        if binding.kernel.outgrows and any(store.is_part for store in counter.stores):
            return None
        counters.append(counter)
    if not model.watched and not counters:
        return None
    return Trial(
        binding.kernel,
        tuple(members),
        tuple(copies),
        tuple(counters),
        keeper,
        frozenset().union(*[_scalars(append) for append in model.appends]),
        tuple(_undone(chunk, changes)),
    )


def _copies(chunk: Chunk, members: tuple[int, ...]) -> list[TrialCopies] | None:
    """What members have copies of, if nothing else is merged."""
    found: list[TrialCopies] = []
    for used in chunk.plan.buffers:
        if not (used.is_counter or used.is_watched):
            if used.merged:
                return None
            continue
        for merged in used.merged:
            size = 1 if merged.update is None else merged.update.nbytes
            found.append(TrialCopies(used.buffer, merged.over, size, members, used.cause))
    return found if found and room_of(each.over.nbytes for each in found) <= COPIES_MAX_NBYTES else None


def _once(appends: Sequence[Append], values: Sequence[ArgumentValue]) -> list[Append]:
    """Of several to one counter the first, which stores as the others do, with the limits of all."""
    found: dict[tuple[int, object], Append] = {}
    for append in appends:
        index = None if append.index is None else value_of(append.index, values)
        known = found.get((append.counter, index), append)
        limits = known.limits if known is append else (*known.limits, *append.limits)
        found[append.counter, index] = Append(
            known.counter, known.nbytes, known.index, known.stores, limits, known.line, known.reads
        )
    return list(found.values())


def _counter(
    append: Append,
    values: Sequence[ArgumentValue],
    copies: Sequence[TrialCopies],
    used: Mapping[int, BufferPlan],
    keeper: int | None,
    begin: int,
) -> TrialCounter | None:
    value = values[append.counter]
    if append.index is None or append.reads or not isinstance(value, BufferArgument):
        return None
    which = [n for n, each in enumerate(copies) if each.buffer.id == value.buffer]
    element = value_of(append.index, values)
    if len(which) != 1 or copies[which[0]].element_nbytes not in (4, 8):
        return None
    if not 0 <= element < copies[which[0]].over.nbytes // copies[which[0]].element_nbytes:
        return None
    most = SMALL - 1
    for limit in append.limits:
        if magnitude_of(limit.bound, values) >= SMALL:
            return None
        most = min(most, value_of(limit.bound, values) - limit.more)
    stores: list[TrialStore] = []
    for store in append.stores:
        found = _store(store, values, used, keeper, begin)
        if found is None:
            return None
        stores.append(found)
    return TrialCounter(which[0], element, most, bool(append.limits), tuple(stores))


def _store(
    store: AppendStore,
    values: Sequence[ArgumentValue],
    used: Mapping[int, BufferPlan],
    keeper: int | None,
    begin: int,
) -> TrialStore | None:
    """Where it may store without a change of residency: in the part with the first place, or else the longest
    one, that only the keeper has.
    """
    value = values[store.argument]
    if store.base is not None or store.stride or not isinstance(value, BufferArgument):
        return None
    plan = used.get(value.buffer)
    if plan is None or plan.appended is None:
        return None
    only = 1 << (HOST if keeper is None else member_memory(keeper))
    parts = [
        part.bounds
        for part, held, is_defined in plan.buffer.directory.holders(plan.appended)
        if held == only and is_defined and not part.levels
    ]
    if not parts:
        return None
    first = value.offset + store.element_nbytes * value_of(store.start, values)
    step = store.element_nbytes * store.scale
    over = max(parts, key=lambda part: (part.start <= first + step * begin < part.stop, part.nbytes))
    return TrialStore(plan.buffer, over, over != plan.appended, first, step, plan.cause)


def _scalars(append: Append) -> frozenset[int]:
    """The scalar arguments that say how places are handed out, and where they are."""
    polynomials: list[Polynomial] = [append.index or (), *[limit.bound for limit in append.limits]]
    polynomials += [of for store in append.stores for of in (store.start, store.stride)]
    return frozenset(scalar.argument for each in polynomials for _, of in each for scalar in of)


def _undone(chunk: Chunk, changes: Sequence[Change]) -> list[tuple[VirtualBuffer, State]]:
    """What residency is where nothing counts: the host has what members may have written."""
    for change in changes:
        change.directory.enter(change.before)
    for used, part in chunk.plan.kept():
        used.buffer.directory.wrote(HOST, part)
    found: list[tuple[VirtualBuffer, State]] = []
    for used, change in zip(chunk.plan.buffers, changes, strict=True):
        undone = change.directory.state()
        change.directory.enter(change.after)
        assert undone is not None, "it has no opaque copies"
        found.append((used.buffer, undone))
    return found
