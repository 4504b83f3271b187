"""Plans: the cut of one launch, and what each assignment of it needs and writes, buffer by buffer.

Offsets are bytes of root buffers.  Source: papers/1 sections 3.2-3.4 and 3.6; DESIGN "Splitting or not".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from sdi.appends import COPIES_MAX_NBYTES, are_merged_by_player, are_named, are_small, is_simple, room_of
from sdi.atomics import Update
from sdi.clc.model import Argument, KernelModel
from sdi.dataclass import dataclass
from sdi.intervals import ByteRange, overlaid
from sdi.launch.arguments import ArgumentValue, BufferArgument, ImageArgument
from sdi.launch.ownership import needed_and_owned
from sdi.ndrange import GroupBox
from sdi.region import Bytes
from sdi.regions import EMPTY, RegionSet, shared, union_of
from sdi.sampling.model import AccessRange, BoundAccess, Precision, WorkEstimate
from sdi.vmem.buffer import ImageView
from sdi.vmem.memory import VirtualBuffer

_ALIGNMENT = 8
"""Merged ranges are widened to multiples of the largest unit that a kernel can store."""
_WATCHED_MAX = 1 << 20
"""Bytes that at most one assignment may change are copied from all members to see whether that is so."""
_MERGED_RANGES_MAX = 256
"""More ranges than that are merged as the one range that holds them all."""


@dataclass(slots=True, unsafe_hash=True)
class AssignmentAccess:
    """One assignment of a launch on one root buffer.

    ``needs``: must be current on the member before the launch.  ``owns``: written by this assignment alone,
    whole or in bytes that were current before: the member is its only holder afterwards.
    """

    needs: RegionSet
    owns: RegionSet


@dataclass(frozen=True, slots=True)
class MergedRange:
    """Bytes that the assignments ``assignments`` may all write: brought together with twins and diffs.

    ``update``: how, where they are atomically updated; each assignment does so on a copy of its own.
    """

    over: ByteRange
    assignments: tuple[int, ...]
    update: Update | None = None


@dataclass(frozen=True, slots=True)
class BufferPlan:
    """What a cut does to one root buffer: ``assignments[k]`` belongs to box k.

    ``merged``: disjoint, in order; compared in units between ``smallest_nbytes`` and ``unit_nbytes``.
    ``cause``: the kernel and the arguments that name the buffer, for accounting.
    ``mixed``: bytes that are atomically updated may also be accessed otherwise, or by another kind of update:
    private copies would show.
    ``appended``: where each assignment stores at places that a counter hands out, on a copy of its own;
    ``is_counter``: what is merged are such counters.  ``is_watched``: at most one assignment may change it.
    """

    buffer: VirtualBuffer
    assignments: tuple[AssignmentAccess, ...]
    merged: tuple[MergedRange, ...]
    unit_nbytes: int
    smallest_nbytes: int
    cause: str
    mixed: bool = False
    appended: ByteRange | None = None
    is_counter: bool = False
    is_watched: bool = False

    @property
    def watched(self) -> list[ByteRange]:
        """What at most one assignment may change."""
        return [each.over for each in self.merged if self.is_watched]

    @property
    def names(self) -> str:
        """Of the arguments."""
        return self.cause.partition(": ")[2]

    def written(self, k: int) -> list[Bytes]:
        """All that assignment k may write: disjoint."""
        owned = self.assignments[k].owns.regions
        appended = () if self.appended is None else (self.appended,)
        return [*owned, *[each.over for each in self.merged if k in each.assignments], *appended]


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """One image that a launch uses, under all arguments that name it.

    ``needs[k]``, ``writes[k]``: bytes of its root buffer that box k may read or write through it; all of
    them are in the buffer's plan too.  What may be written is needed: pixels may keep their values.
    ``names``: of the arguments.
    """

    buffer: VirtualBuffer
    view: ImageView
    needs: tuple[RegionSet, ...]
    writes: tuple[RegionSet, ...]
    names: str

    @property
    def is_shared(self) -> bool:
        """Whether several assignments may write one pixel, or one slab as far as is known."""
        seen = EMPTY
        for written in self.writes:
            if seen.overlaps(written):
                return True
            seen = seen.union(written)
        return False


@dataclass(frozen=True, slots=True)
class CutPlan:
    """A cut with all that follows from it.

    ``is_attempt``: only what the assignments did can tell whether one device could have done it, since each
    has a copy of its own of counters that hand out places, or of what at most one may change.
    ``is_trial``: the player looks at members' copies once it ran, to tell that or to merge all of them.
    ``refusal``: why that can't be told, for the user.  ``is_simple``: see ``sdi.appends``; what is appended
    counts then unless it lies outside of its buffer.
    """

    boxes: tuple[GroupBox, ...]
    buffers: tuple[BufferPlan, ...]
    images: tuple[ImagePlan, ...] = ()
    is_attempt: bool = False
    refusal: str = ""
    is_simple: bool = False
    is_trial: bool = False

    @property
    def merged_nbytes(self) -> int:
        """Bytes that go through twins and diffs, over all writers."""
        return sum(one.over.nbytes * len(one.assignments) for plan in self.buffers for one in plan.merged)

    @property
    def num_regions(self) -> int:
        """How large it is: what the assignments need and own, and what is merged."""
        sizes = [
            sum(len(each.needs.regions) + len(each.owns.regions) for each in used.assignments)
            + len(used.merged)
            for used in self.buffers
        ]
        return 1 + sum(sizes)

    @property
    def why_whole(self) -> str:
        """What forbids to run the assignments on several members, for the user; empty when nothing does."""
        for plan in self.buffers:
            if plan.mixed:
                return (
                    f"may update bytes atomically that it accesses in another way too, through {plan.names}"
                )
        if self.refusal:
            return self.refusal
        for image in self.images:
            if image.is_shared:
                return f"several members might write the same rows of image {image.names}"
            if self.is_attempt and any(image.writes):
                return f"uses results of atomic functions, and writes image {image.names}"
        return ""

    def kept(self) -> Iterator[tuple[BufferPlan, Bytes]]:
        """Of an attempt that does not count: what the host has from before it, or is all written again.

        What is appended ``is_simple`` stays where it was: members have stored only where that is done again.
        """
        for used in self.buffers:
            if used.appended is not None and self.is_simple:
                continue
            for k in range(len(self.boxes)):
                for part in used.written(k):
                    yield used, part

    def combines_in(self, buffer_ids: Collection[int]) -> bool:
        """Whether private copies of one of these buffers are combined."""
        return any(
            merged.update is not None
            for plan in self.buffers
            if plan.buffer.id in buffer_ids
            for merged in plan.merged
        )


class CutPlans(Protocol):
    """What there is to choose from for one launch, and what it would have to do."""

    def plan(self, boxes: tuple[GroupBox, ...], exact: bool) -> CutPlan:
        """From the ranges, or, sooner, from bounds of them."""
        ...

    def work(self, dim: int) -> WorkEstimate | None:
        """What work-groups have to do along a dimension; see ``BoundAccess.work``."""
        ...

    def effort(self) -> float | None:
        """Accesses of the launch, None where nothing is known; see ``BoundAccess.effort``."""
        ...


@dataclass(slots=True)
class _Gathered:
    """All that one assignment does to one root buffer, over all arguments that name it.

    ``updates``: the bytes that it updates atomically, by kind; they count as neither read nor written.
    """

    reads: RegionSet
    exact: RegionSet
    may: RegionSet
    updates: dict[Update, RegionSet] | None = None

    def union(self, other: _Gathered) -> _Gathered:
        """What two arguments do."""
        updates = self.updates or other.updates
        if self.updates and other.updates:
            updates = {
                update: union_of((self.updates.get(update, EMPTY), other.updates.get(update, EMPTY)))
                for update in (*self.updates, *other.updates)
            }
        return _Gathered(
            self.reads.union(other.reads), self.exact.union(other.exact), self.may.union(other.may), updates
        )


def make_plan(
    model: KernelModel,
    values: Sequence[ArgumentValue],
    access: Callable[[GroupBox], tuple[AccessRange, ...]],
    boxes: tuple[GroupBox, ...],
    buffers: dict[int, VirtualBuffer],
    image_access: BoundAccess | None = None,
    regions: Collection[int] = (),
) -> CutPlan:
    """What the assignments ``boxes`` of a launch need and write.  Pure but for the access maps' own caches.

    ``access``: what a box does, exactly or in bounds.  ``regions``: what they use by addresses (``Reached``),
    which is no part of the plan.
    ``image_access``: which slabs of images are written (``image_slabs``); None: that is not known.
    """
    pointers = [
        (index, value)
        for index, value in enumerate(values)
        if isinstance(value, BufferArgument) and value.buffer and value.buffer not in regions
    ]
    gathered: list[dict[int, _Gathered]] = []
    for box in boxes:
        by_argument = {item.argument: item for item in access(box)}
        by_buffer: dict[int, _Gathered] = {}
        for index, pointer in pointers:
            item = by_argument[index]
            is_exact = item.precision is Precision.EXACT
            writes = item.writes.moved(pointer.offset)
            one = _Gathered(
                item.reads.moved(pointer.offset),
                writes if is_exact else EMPTY,
                EMPTY if is_exact else writes,
            )
            if item.updates or model.arguments[index].updates:
                _count_updates(
                    one, model.arguments[index], item, pointer.offset, buffers[pointer.buffer].nbytes
                )
            other = by_buffer.get(pointer.buffer)
            by_buffer[pointer.buffer] = one if other is None else other.union(one)
        gathered.append(by_buffer)
    images = _image_plans(model, values, boxes, buffers, image_access)
    for image in images:
        for by_buffer, needs, writes in zip(gathered, image.needs, image.writes, strict=True):
            one = _Gathered(needs, EMPTY, writes)
            other = by_buffer.get(image.buffer.id)
            by_buffer[image.buffer.id] = one if other is None else other.union(one)
    named = [
        *((index, pointer.buffer) for index, pointer in pointers),
        *((index, value.buffer) for index, value in enumerate(values) if isinstance(value, ImageArgument)),
    ]
    is_attempt = bool(model.appends or model.watched) and len(boxes) > 1
    apart: dict[int, BufferPlan] = {}
    refusal = ""
    if is_attempt and model.appends:
        apart = _appending_plans(model, values, buffers, len(boxes), regions)
    elif is_attempt:
        apart = _watched_plans(model, named, values, buffers, len(boxes), regions)
        apart |= _claimed_plans(model, named, values, buffers, gathered, apart, regions)
    if is_attempt:
        read = [
            model.arguments[index].name
            for index, buffer_id in named
            if buffer_id not in apart and _read_others([by_buffer[buffer_id] for by_buffer in gathered])
        ]
        if read:
            refusal = f"uses results of atomic functions, and may read what others write: {', '.join(read)}"
        elif sum(each.nbytes for plan in apart.values() for each in plan.watched) > _WATCHED_MAX:
            refusal = "uses results of atomic functions on so many bytes that they take long to compare"
    plans = tuple(
        [
            apart[buffer_id]
            if buffer_id in apart
            else _buffer_plan(model, named, buffer, [by_buffer[buffer_id] for by_buffer in gathered])
            for buffer_id, buffer in buffers.items()
            if buffer_id in apart or buffer_id not in regions
        ]
    )
    merged = [each for plan in plans for each in plan.merged]
    is_trial = are_merged_by_player([each.over.nbytes for each in merged for _ in each.assignments])
    if is_attempt:
        is_apart = all(plan.buffer.id in apart for plan in plans if plan.merged)
        is_few = room_of(each.over.nbytes for each in merged) <= COPIES_MAX_NBYTES
        is_trial = is_apart and is_few and are_named(model.appends)
    return CutPlan(
        boxes,
        plans,
        images,
        is_attempt,
        refusal,
        is_simple(model.appends) and are_small(model.appends, values),
        is_trial and not images,
    )


def image_slabs(model: KernelModel, values: Sequence[ArgumentValue]) -> tuple[int | None, ...]:
    """How many slabs each written image has, for binding the access maps of images; None for other arguments,
    and where slabs are not what the maps count: an image whose outermost dimension has a size of one.
    """
    found: list[int | None] = []
    for argument, value in zip(model.arguments, values, strict=True):
        is_counted = isinstance(value, ImageArgument) and argument.writes and value.view.shape.is_deep
        found.append(value.view.shape.num_slabs if isinstance(value, ImageArgument) and is_counted else None)
    return tuple(found)


def _image_plans(
    model: KernelModel,
    values: Sequence[ArgumentValue],
    boxes: tuple[GroupBox, ...],
    buffers: dict[int, VirtualBuffer],
    access: BoundAccess | None,
) -> tuple[ImagePlan, ...]:
    """Images that are read go to all assignments; of those that are written one needs what it may write."""
    known = [{item.argument: item.writes for item in access.bounds(box)} if access else {} for box in boxes]
    slabs = image_slabs(model, values)
    named: dict[tuple[int, ImageView], list[int]] = {}
    for index, value in enumerate(values):
        if isinstance(value, ImageArgument):
            named.setdefault((value.buffer, value.view), []).append(index)
    plans = []
    for (buffer_id, view), indices in named.items():
        whole = RegionSet((view.over,))
        arguments = [(i, model.arguments[i]) for i in indices]
        writes = [
            union_of(
                view.bytes_of(writes[i]) if slabs[i] is not None and i in writes else whole
                for i, argument in arguments
                if argument.writes
            )
            for writes in known
        ]
        reads = any(argument.reads for _, argument in arguments)
        plans.append(
            ImagePlan(
                buffers[buffer_id],
                view,
                tuple(whole if reads else written for written in writes),
                tuple(writes),
                ", ".join(argument.name for _, argument in arguments),
            )
        )
    return tuple(plans)


def _buffer_plan(
    model: KernelModel,
    named: Sequence[tuple[int, int]],
    buffer: VirtualBuffer,
    gathered: Sequence[_Gathered],
) -> BufferPlan:
    writes = [union_of((one.exact, one.may)) for one in gathered]
    arguments = [model.arguments[index] for index, buffer_id in named if buffer_id == buffer.id]
    cause = f"{model.name}: {', '.join([argument.name for argument in arguments])}"
    several = shared(writes)
    combined: tuple[MergedRange, ...] = ()
    updated: Sequence[RegionSet] = ()
    mixed = False
    if any(one.updates for one in gathered):
        updated = [union_of((one.updates or {}).values()) for one in gathered]
        combined = _combined(gathered)
        mixed = len(gathered) > 1 and _is_mixed(gathered)
    elif not several:
        found = [
            AssignmentAccess(needs, own)
            for needs, own in needed_and_owned([one.reads.union(one.may) for one in gathered], writes)
        ]
        return BufferPlan(buffer, tuple(found), (), 1, 1, cause)
    several = _ranges(several.widened(_ALIGNMENT, buffer.nbytes))
    common = RegionSet.of(merged.over for merged in combined)
    several = several.difference(common)
    common = common.union(several)
    # Bytes that may stay unwritten keep their old value, and bytes that are merged are compared with it:
    # both must be current before the launch.
    compared = [written.widened(_ALIGNMENT, buffer.nbytes).intersection(several) for written in writes]
    units = [(a.unit_nbytes or 1, a.smallest_unit_nbytes or 1) for a in arguments if a.writes]
    return BufferPlan(
        buffer,
        tuple(
            AssignmentAccess(
                union_of((one.reads, one.may, own, more)), written.union(more).difference(common)
            )
            for one, written, own, more in zip(
                gathered, writes, compared, updated or [EMPTY] * len(gathered), strict=True
            )
        ),
        tuple(sorted((*_merged(compared), *combined), key=lambda merged: merged.over)),
        max((largest for largest, _ in units), default=1),
        min((smallest for _, smallest in units), default=1),
        cause,
        mixed,
    )


def _appending_plans(
    model: KernelModel,
    values: Sequence[ArgumentValue],
    buffers: dict[int, VirtualBuffer],
    num_assignments: int,
    regions: Collection[int],
) -> dict[int, BufferPlan]:
    """Of the buffers with counters that hand out places, and of those where these are."""
    counters = {append.counter: append.nbytes for append in model.appends}
    places = {store.argument for append in model.appends for store in append.stores}
    named: dict[int, list[int]] = {}
    for index, value in enumerate(values):
        if isinstance(value, BufferArgument | ImageArgument) and value.buffer:
            named.setdefault(value.buffer, []).append(index)
    nothing = (AssignmentAccess(EMPTY, EMPTY),) * num_assignments
    found: dict[int, BufferPlan] = {}
    for buffer_id, arguments in named.items():
        touched = [each for each in arguments if each in counters or each in places]
        if not touched:
            continue
        buffer, value = buffers[buffer_id], values[touched[0]]
        assert isinstance(value, BufferArgument)
        cause = f"{model.name}: {', '.join([model.arguments[each].name for each in arguments])}"
        over = ByteRange(value.offset, value.offset + value.reach(buffer.nbytes))
        nbytes = counters.get(touched[0])
        if len(arguments) > 1 or buffer_id in regions or over.nbytes < (nbytes or 1):
            found[buffer_id] = BufferPlan(buffer, nothing, (), 1, 1, cause, mixed=True)
        elif nbytes is None:
            found[buffer_id] = BufferPlan(buffer, nothing, (), 1, 1, cause, appended=over)
        else:
            counted = ByteRange(over.start, over.stop - over.nbytes % nbytes)
            merged = MergedRange(counted, tuple(range(num_assignments)), Update("add", nbytes))
            found[buffer_id] = BufferPlan(buffer, nothing, (merged,), nbytes, nbytes, cause, is_counter=True)
    return found


def _watched_plans(
    model: KernelModel,
    named: Sequence[tuple[int, int]],
    values: Sequence[ArgumentValue],
    buffers: dict[int, VirtualBuffer],
    num_assignments: int,
    regions: Collection[int],
) -> dict[int, BufferPlan]:
    """Of the buffers that at most one assignment may change."""
    nothing = (AssignmentAccess(EMPTY, EMPTY),) * num_assignments
    found: dict[int, BufferPlan] = {}
    for buffer_id in {buffer_id for index, buffer_id in named if index in model.watched}:
        buffer, indices = buffers[buffer_id], [index for index, each in named if each == buffer_id]
        cause = f"{model.name}: {', '.join([model.arguments[index].name for index in indices])}"
        over, value = buffer.whole, values[indices[0]]
        if len(indices) == 1 and isinstance(value, BufferArgument):
            over = ByteRange(value.offset, value.offset + value.reach(buffer.nbytes))
        merged = MergedRange(over, tuple(range(num_assignments)))
        is_mixed = buffer_id in regions
        found[buffer_id] = BufferPlan(buffer, nothing, (merged,), 1, 1, cause, is_mixed, is_watched=True)
    return found


def _claimed_plans(
    model: KernelModel,
    named: Sequence[tuple[int, int]],
    values: Sequence[ArgumentValue],
    buffers: dict[int, VirtualBuffer],
    gathered: Sequence[Mapping[int, _Gathered]],
    apart: Mapping[int, BufferPlan],
    regions: Collection[int],
) -> dict[int, BufferPlan]:
    """Of those that only whoever changes what is watched writes to, where they would be merged, or where the
    launch would run whole for them.

    They are watched too if there is little in all: to merge them so little that the player looks at it.
    """
    found: dict[int, BufferPlan] = {}
    most = COPIES_MAX_NBYTES
    for buffer_id in {buffer_id for index, buffer_id in named if index in model.claimed}:
        indices = [index for index, each in named if each == buffer_id]
        is_claimed = all(index in model.claimed or not model.arguments[index].writes for index in indices)
        is_image = any(isinstance(values[index], ImageArgument) for index in indices)
        if buffer_id in apart or buffer_id in regions or is_image or not is_claimed:
            continue
        own = [by_buffer[buffer_id] for by_buffer in gathered]
        plan, over = _buffer_plan(model, named, buffers[buffer_id], own), union_of(_writes(own)).bounds
        is_whole = plan.mixed or _read_others(own)
        if over is not None and (plan.merged or is_whole):
            most = _WATCHED_MAX if is_whole else most
            rest = [
                AssignmentAccess(one.needs.difference(RegionSet((over,))), EMPTY) for one in plan.assignments
            ]
            merged = MergedRange(over, tuple(range(len(own))))
            found[buffer_id] = BufferPlan(
                plan.buffer, tuple(rest), (merged,), 1, 1, plan.cause, is_watched=True
            )
    watched = [each.nbytes for plan in (*apart.values(), *found.values()) for each in plan.watched]
    return found if sum(watched) <= most else {}


def _writes(gathered: Sequence[_Gathered]) -> list[RegionSet]:
    """All that each assignment may write."""
    return [union_of((one.exact, one.may, *(one.updates or {}).values())) for one in gathered]


def _read_others(gathered: Sequence[_Gathered]) -> bool:
    """Whether an assignment may read what another one writes."""
    writes = _writes(gathered)
    common = shared(writes)
    every = union_of(writes)
    return any(
        one.reads.overlaps(common) or one.reads.overlaps(every.difference(own))
        for one, own in zip(gathered, writes, strict=True)
    )


def _count_updates(into: _Gathered, argument: Argument, item: AccessRange, offset: int, nbytes: int) -> None:
    """Add what is updated through ``argument``: ``nbytes`` of a root buffer in all, from ``offset``."""
    updates = item.updates
    if item.precision is Precision.WHOLE:
        # What is not known may be any of the updates that the kernel makes through this pointer.
        updates = tuple((update, item.writes) for update in argument.updates)
    found: dict[Update, RegionSet] = {}
    for update, ranges in updates:
        moved = ranges.moved(offset).widened(update.nbytes, nbytes // update.nbytes * update.nbytes)
        if moved:
            found[update] = moved
    into.updates = found
    if argument.only_updates:
        into.reads = into.exact = into.may = EMPTY


def _ranges(found: RegionSet) -> RegionSet:
    """What is merged, which is done range by range: the one that holds them all where they are too many."""
    bounds = found.bounds
    if bounds is not None and found.num_runs > _MERGED_RANGES_MAX:
        return RegionSet((bounds,))
    return RegionSet(tuple(found.runs()))


def _is_mixed(gathered: Sequence[_Gathered]) -> bool:
    """Whether bytes that are atomically updated may be accessed in another way too, by anyone."""
    seen = union_of(part for one in gathered for part in (one.reads, one.exact, one.may))
    for update in _kinds(gathered):
        updated = union_of((one.updates or {}).get(update, EMPTY) for one in gathered)
        if updated.overlaps(seen):
            return True
        seen = seen.union(updated)
    return False


def _combined(gathered: Sequence[_Gathered]) -> tuple[MergedRange, ...]:
    """The bytes that several assignments update, by kind of update."""
    found: list[MergedRange] = []
    for update in _kinds(gathered):
        updated = [(one.updates or {}).get(update, EMPTY) for one in gathered]
        several = shared(updated)
        found += _merged([each.intersection(several) for each in updated], update)
    return tuple(found)


def _kinds(gathered: Sequence[_Gathered]) -> list[Update]:
    return sorted({update for one in gathered for update in one.updates or ()})


def _merged(compared: Sequence[RegionSet], update: Update | None = None) -> tuple[MergedRange, ...]:
    """The bytes of all sets, cut where the sets that hold them change."""
    held = overlaid([ranges.runs() for ranges in compared])
    return tuple([MergedRange(over, assignments, update) for over, assignments in held])
