"""Plans: the cut of one launch, and what each assignment of it needs and writes, buffer by buffer.

Offsets are bytes of root buffers.  Source: papers/1 sections 3.2-3.4 and 3.6; DESIGN "Splitting or not".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Protocol

from sdi.atomics import Update
from sdi.clc.model import Argument, KernelModel
from sdi.intervals import ByteRange
from sdi.launch.arguments import ArgumentValue, BufferArgument, ImageArgument
from sdi.ndrange import GroupBox
from sdi.region import Bytes
from sdi.regions import EMPTY, RegionSet, shared, union_of
from sdi.sampling.model import AccessRange, BoundAccess, Precision, WorkEstimate
from sdi.vmem.buffer import ImageView
from sdi.vmem.directory import member_memory
from sdi.vmem.memory import VirtualBuffer

_ALIGNMENT = 8
"""Merged ranges are widened to multiples of the largest unit that a kernel can store."""
_CANDIDATES_MAX = 16
_GAP_NBYTES = 64
"""Gaps up to this size cost more to leave out than to move."""
_EXACT_MIN_NBYTES, _GAPS_MAX = 1 << 20, 0.5
"""Where so many bytes are moved, it is asked whether fewer than that part of them do."""
_ALL_ASKED_MAX, _ASKED = 16, 5
"""Of more assignments so many are asked for that."""
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
    ``is_counter``: what is merged are such counters.
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

    ``hands_out``: counters hand out places to several assignments, each from a copy of its own.
    """

    boxes: tuple[GroupBox, ...]
    buffers: tuple[BufferPlan, ...]
    images: tuple[ImagePlan, ...] = ()
    hands_out: bool = False

    @property
    def merged_nbytes(self) -> int:
        """Bytes that go through twins and diffs, over all writers."""
        return sum(one.over.nbytes * len(one.assignments) for plan in self.buffers for one in plan.merged)

    @property
    def why_whole(self) -> str:
        """What forbids to run the assignments on several members, for the user; empty when nothing does."""
        for plan in self.buffers:
            if plan.mixed:
                return (
                    f"may update bytes atomically that it accesses in another way too, through {plan.names}"
                )
        for image in self.images:
            if image.is_shared:
                return f"several members might write the same rows of image {image.names}"
            if self.hands_out and any(image.writes):
                return f"appends, and writes image {image.names}"
        return ""

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

    ``access``: what a box does, exactly or in bounds.  ``regions``: where each may do anything: ``Launch``.
    ``image_access``: which slabs of images are written (``image_slabs``); None: that is not known.
    """
    pointers = [
        (index, value)
        for index, value in enumerate(values)
        if isinstance(value, BufferArgument) and value.buffer
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
    hands_out = bool(model.appends) and len(boxes) > 1
    appending = _appending_plans(model, values, buffers, len(boxes), regions) if hands_out else {}
    return CutPlan(
        boxes,
        tuple(
            appending[buffer_id]
            if buffer_id in appending
            else _reached(model, buffer, len(boxes))
            if buffer_id in regions
            else _buffer_plan(model, named, buffer, [by_buffer[buffer_id] for by_buffer in gathered])
            for buffer_id, buffer in buffers.items()
        ),
        images,
        hands_out,
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


def candidate_plans(
    cuts: Sequence[tuple[GroupBox, ...]],
    plans: CutPlans,
    order: Callable[[CutPlan], tuple[float, ...]],
    members: Sequence[int] = (),
    is_dear: bool = False,
) -> list[CutPlan]:
    """A plan for each cut, of which the launch runs the first in ``order``.

    From bounds of the access ranges; also from the exact ranges if the best of these has to merge, as bounds
    of several assignments overlap and their bytes may not, or if it moves bytes that it does not need.
    ``members``: box k is that of member ``members[k]``, or k.  ``is_dear``: to move bytes is so dear that
    exact ranges are asked for also where the best has many members get the same ones.
    """
    found = [plans.plan(boxes, False) for boxes in cuts[:_CANDIDATES_MAX]]
    best = cheapest(found, order)
    is_rough = bool(best.merged_nbytes or best.why_whole) or (is_dear and len(found) > 1 and _spreads(best))
    if is_rough or _moves_gaps(best, plans, members):
        exact = [plans.plan(boxes, True) for boxes in cuts[:_CANDIDATES_MAX]]
        found = [_better(*pair, order) for pair in zip(found, exact, strict=True)]
    return found


def _better(rough: CutPlan, exact: CutPlan, order: Callable[[CutPlan], tuple[float, ...]]) -> CutPlan:
    """One of two plans of the same boxes.  Of very many it takes long to find out what they cost."""
    if len(rough.boxes) > _ALL_ASKED_MAX and not (exact.merged_nbytes or exact.why_whole):
        return exact
    return min((rough, exact), key=order)


def _spreads(best: CutPlan) -> bool:
    """Whether many bytes are needed by several assignments."""
    for used in best.buffers:
        needed = sum([assignment.needs.nbytes for assignment in used.assignments])
        if needed > 2 * used.buffer.nbytes and needed - used.buffer.nbytes >= _EXACT_MIN_NBYTES:
            return True
    return False


def _moves_gaps(best: CutPlan, plans: CutPlans, members: Sequence[int]) -> bool:
    """Whether much less is moved where what lies between the bytes that are read stays where it is.

    Some assignments stand for very many.
    """
    count = len(best.boxes)
    some: Sequence[int] = range(count)
    if count > _ALL_ASKED_MAX:
        some = [k * (count - 1) // (_ASKED - 1) for k in range(_ASKED)]
    where = [members[k] if members else k for k in some]
    each = _stale_nbytes(best, some, where)
    moved = sum(each)
    if moved * count < _EXACT_MIN_NBYTES * len(where):
        return False
    exact = plans.plan(tuple([best.boxes[k] for k in some]), True)
    less = zip(_needed_nbytes(best, some), _needed_nbytes(exact, range(len(where))), strict=True)
    if (
        sum([max(0, nbytes - (a - b)) for nbytes, (a, b) in zip(each, less, strict=True)])
        >= _GAPS_MAX * moved
    ):
        return False  # even if nothing that lies between is current
    return sum(_stale_nbytes(exact, range(len(where)), where)) < _GAPS_MAX * moved


def _stale_nbytes(plan: CutPlan, some: Sequence[int], members: Sequence[int]) -> list[int]:
    """Bytes that move now for some assignments, of these members: of each buffer, one after the other."""
    return [
        used.buffer.directory.stale_nbytes(member_memory(member), used.assignments[k].needs)
        for used in plan.buffers
        for k, member in zip(some, members, strict=True)
    ]


def _needed_nbytes(plan: CutPlan, some: Sequence[int]) -> list[int]:
    return [used.assignments[k].needs.nbytes for used in plan.buffers for k in some]


def cheapest(plans: Sequence[CutPlan], order: Callable[[CutPlan], tuple[float, ...]]) -> CutPlan:
    """The plan to run."""
    return plans[0] if len(plans) == 1 else min(plans, key=order)


def moved_nbytes(plan: CutPlan) -> int:
    """Bytes that running ``plan`` moves now: stale ones there, and merged ones home and back again."""
    every = range(len(plan.boxes))
    return sum(_stale_nbytes(plan, every, every)) + 2 * plan.merged_nbytes


def cost(plan: CutPlan) -> tuple[bool, int, int, int]:
    """Order of cuts by bytes: those that may run; to move now and after; all needed; contiguous ranges."""
    needed = num_ranges = 0
    for buffer in plan.buffers:
        for assignment in buffer.assignments:
            needed += assignment.needs.nbytes
            num_ranges += assignment.needs.num_runs + assignment.owns.num_runs
    return (bool(plan.why_whole), moved_nbytes(plan), needed, num_ranges)


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
            AssignmentAccess(union_of((one.reads, one.may, own.difference(written))).filled(_GAP_NBYTES), own)
            for one, written, own in zip(gathered, writes, _owned(writes), strict=True)
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
        if not any(index in counters or index in places for index in arguments):
            continue
        buffer, value = buffers[buffer_id], values[arguments[0]]
        assert isinstance(value, BufferArgument)
        cause = f"{model.name}: {', '.join([model.arguments[index].name for index in arguments])}"
        over = ByteRange(value.offset, value.offset + value.reach(buffer.nbytes))
        nbytes = counters.get(arguments[0])
        if len(arguments) > 1 or buffer_id in regions or over.nbytes < (nbytes or 1):
            found[buffer_id] = BufferPlan(buffer, nothing, (), 1, 1, cause, mixed=True)
        elif nbytes is None:
            found[buffer_id] = BufferPlan(buffer, nothing, (), 1, 1, cause, appended=over)
        else:
            counted = ByteRange(over.start, over.stop - over.nbytes % nbytes)
            merged = MergedRange(counted, tuple(range(num_assignments)), Update("add", nbytes))
            found[buffer_id] = BufferPlan(buffer, nothing, (merged,), nbytes, nbytes, cause, is_counter=True)
    return found


def _reached(model: KernelModel, buffer: VirtualBuffer, num_assignments: int) -> BufferPlan:
    """Of a buffer that all assignments use in one memory, where nothing is brought together afterwards."""
    whole = RegionSet((buffer.whole,))
    anything = AssignmentAccess(whole, whole)
    return BufferPlan(buffer, (anything,) * num_assignments, (), 1, 1, f"{model.name}: pointers")


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


def _owned(writes: Sequence[RegionSet]) -> Sequence[RegionSet]:
    """Disjoint sets without narrow gaps, where that leaves them disjoint.

    What is in a gap is not written: it has to be current before the launch, and nobody else holds it
    afterwards.  A few bytes more to move, once, for one range instead of one per row or element.
    """
    filled = [written.filled(_GAP_NBYTES) for written in writes]
    is_same = all(map(is_, filled, writes))
    return writes if is_same or shared(filled) else filled


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
    edges = sorted(
        edge
        for k, ranges in enumerate(compared)
        for part in ranges.runs()
        for edge in ((part.start, k), (part.stop, k))
    )
    found: list[MergedRange] = []
    inside: set[int] = set()
    start = 0
    for offset, k in edges:
        if inside and offset > start:
            found.append(MergedRange(ByteRange(start, offset), tuple(sorted(inside)), update))
        inside ^= {k}
        start = offset
    return tuple(found)
