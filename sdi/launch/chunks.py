"""Chunks: a launch in parts that fit into the members' memories, one after the other.

The work-groups of an NDRange may run in any order, so a part may see what an earlier one wrote.
Source: DESIGN "Virtual device memory"; issue and memory: ``vmem/allocation.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from sdi.dataclass import dataclass, field
from sdi.devices.handles import BoundKernel
from sdi.devices.issue import Issue
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed, Status
from sdi.intervals import ByteRange
from sdi.launch.cuts import candidate_plans, cheapest
from sdi.launch.plan import BufferPlan, CutPlan, CutPlans
from sdi.launch.recording import Recording
from sdi.launch.steps import Steps
from sdi.ndrange import GroupBox, Int3
from sdi.partition.slabs import cut
from sdi.vmem.buffer import Allocation, ImageCopy, VirtualBuffer
from sdi.vmem.dependencies import Use
from sdi.vmem.directory import State
from sdi.vmem.images import Images
from sdi.vmem.memory import VirtualMemory
from sdi.vmem.placed import GRANULE_NBYTES, Wanted, WantedImage, rounded
from sdi.vmem.reaches import NOTHING, Reached

WAVES_MAX = 1024


@dataclass(slots=True, eq=False)
class MemberKernel:
    """A kernel with its arguments set on one member.

    ``allocations``, ``images``: what the arguments name.  ``uses``: the chunk's for this member;
    ``image_uses``: those of the images' pixels.
    ``shared``: buffers that all members use in one memory, with their places if that is not the host's.
    ``generation``: of the placement when these allocations were last seen to be the buffers' own.
    """

    kernel: BoundKernel
    allocations: tuple[tuple[VirtualBuffer, Allocation], ...]
    images: tuple[tuple[VirtualBuffer, ImageCopy], ...]
    uses: tuple[Use, ...]
    image_uses: tuple[Use, ...]
    generation: int
    shared: tuple[tuple[VirtualBuffer, Allocation | None], ...] = ()

    def is_valid_on(self, member: int, pooled: int | None) -> bool:
        """Whether what the arguments name is still the buffers' own."""
        return (
            all(buffer.allocations[member] is allocation for buffer, allocation in self.allocations)
            and all(buffer.images.get((member, copy.view)) is copy for buffer, copy in self.images)
            and (
                pooled is None
                or all(buffer.allocations[pooled] is allocation for buffer, allocation in self.shared)
            )
        )


RECORDINGS_MAX = 64
"""Kept per chunk; a launch that finds its buffers in ever new states begins again."""


@dataclass(slots=True, eq=False)
class Chunk:
    """A part of a launch that is in memory as a whole: box k of ``plan`` runs on the launch's member number
    ``members[k]``.

    ``wanted``: per box, what must have a place on its member, None for any place (nothing is touched).
    ``mapped``: buffers that the members use in the arena instead.  ``on_host``: those of which each member
    has all in the memory of its own host.  ``uses``: by member, per buffer of the plan, what its box reads
    and writes, once it was needed there.  ``reached``: what it uses by addresses, all of it ``mapped``.
    ``is_repeatable``: it leaves residency in a state that depends on nothing but the one that it found, where
    no members have copies of its images.
    ``buffers``: the plan's, then those that it reaches.
    """

    plan: CutPlan
    members: tuple[int, ...]
    wanted: tuple[tuple[tuple[VirtualBuffer, ByteRange | None], ...], ...]
    mapped: frozenset[int]
    on_host: frozenset[int] = frozenset()
    reached: Reached = NOTHING
    uses: dict[int, tuple[Use, ...]] = field(default_factory=dict)
    is_repeatable: bool = field(init=False)
    buffers: tuple[VirtualBuffer, ...] = field(init=False)
    _recordings: dict[tuple[State | None, ...], Recording] = field(default_factory=dict)
    _last: Recording | None = None

    def __post_init__(self) -> None:
        merges = any(used.merged for used in self.plan.buffers)
        self.buffers = (*[used.buffer for used in self.plan.buffers], *self.reached.buffers)
        is_mapped = len(self.mapped) > len(self.reached.buffers)
        self.is_repeatable = not (is_mapped or merges or self.plan.is_attempt)

    def may_repeat(self, members: Sequence[int], images: Images) -> bool:
        """Whether what it comes to on ``members`` may be carried out again where its states are the same."""
        return self.is_repeatable and not self.copied(members, images)

    def states(self) -> tuple[State | None, ...]:
        """Those that its buffers are in."""
        return tuple([buffer.directory.state() for buffer in self.buffers])

    def find(self) -> Recording | None:
        """What was planned when its buffers were in the states that they are in now."""
        if not self._recordings:
            return None
        if self._last is None or not self._last.is_there():
            self._last = self._recordings.get(self.states())
        return self._last

    def keep(self, before: tuple[State | None, ...], recording: Recording) -> None:
        """Remember what was planned when its buffers were in the states ``before``."""
        if len(self._recordings) >= RECORDINGS_MAX:
            self._recordings.clear()
        self._recordings[before] = recording

    def allocations(
        self, members: Sequence[int], memory: VirtualMemory
    ) -> tuple[Allocation | ImageCopy, ...]:
        """What all that is wanted has, once it is reserved."""
        places = [buffer.allocations[member] for buffer, member, _ in self.places(members)]
        copies = [buffer.images[member, view] for buffer, member, view in self.copied(members, memory.images)]
        found = [allocation for allocation in places if allocation is not None]
        return (*found, *copies, *self.reached.allocations(memory.memories.pooled))

    def places(self, members: Sequence[int]) -> list[Wanted]:
        """``wanted``, box k's on member ``members[k]``."""
        found: list[Wanted] = []
        for k, assignment in zip(self.members, self.wanted, strict=True):
            member = members[k]
            for buffer, over in assignment:
                if over is None:  # a part of the place that there is, which may be too large to stay
                    allocation = buffer.allocations[member]
                    start = allocation.over.start if allocation else 0
                    over = ByteRange(start, min(start + GRANULE_NBYTES, buffer.nbytes))
                found.append((buffer, member, over))
        return found

    def is_placed(self, members: Sequence[int]) -> bool:
        """Whether all that is wanted has a place there."""
        for k, assignment in zip(self.members, self.wanted, strict=True):
            for buffer, over in assignment:
                allocation = buffer.allocations[members[k]]
                if allocation is None or not (over is None or allocation.holds(over)):
                    return False
        return True

    def copied(self, members: Sequence[int], images: Images) -> list[WantedImage]:
        """The images of which members of this chunk need a copy, and which of them."""
        wanted = [(i.buffer, members[k], i.view) for i in self.plan.images for k in self.members]
        return [each for each in wanted if images.is_copied(*each[1:])]


@dataclass(frozen=True, slots=True)
class Outside:
    """The buffers of a launch that lie outside of members' memory; ``is_far``: see ``make_chunks``."""

    buffers: frozenset[int]
    is_far: bool
    reached: Reached = NOTHING


def make_chunks(
    plans: CutPlans,
    order: Callable[[CutPlan], tuple[float, ...]],
    plan: CutPlan,
    capacities: Sequence[int],
    is_guarded: bool = False,
    is_far: bool = False,
    reached: Reached = NOTHING,
) -> tuple[Chunk, ...]:
    """The launch ``plan`` cut so that each chunk fits; ``capacities[k]``: what the member of box k can hold
    beside the images.

    ``order``: see ``candidate_plans``.
    ``is_guarded``: the access ranges are in doubt, so members get places for whole buffers, in which a wrong
    range does no harm that can't be seen.
    ``reached``: what members use in one memory in any case.
    Raises ClError where not even images fit.
    Chunks take half of a member, so that the copies of one can run beside the kernels of the one before, or
    all of it where that takes less than a quarter of their number.  Where no cut fits, the buffer of which a
    work-group wants most is used in the arena; or, where members are on other machines (``is_far``), in the
    memory of each member's host.
    """

    def best(boxes: tuple[GroupBox, ...]) -> CutPlan:
        return cheapest(candidate_plans([boxes], plans, order), order)

    outside = set(reached.ids)
    members = tuple(range(len(plan.boxes)))
    if is_guarded:
        places = tuple(
            (used.buffer, used.buffer.whole) for used in plan.buffers if used.buffer.id not in outside
        )
        guarded = Chunk(plan, members, (places,) * len(plan.boxes), frozenset(outside), reached=reached)
        if _fits(guarded, capacities, 1):
            return (guarded,)
    while True:
        which = Outside(frozenset(outside), is_far, reached)
        whole = _chunk(plan, members, which)
        if _fits(whole, capacities, 1):
            return (whole,)
        finest = [whole]
        for count in _counts(plan.boxes):
            finest, fits = _cut(best, plan.boxes, count, which, capacities, 1)
            if not fits:
                continue
            for more in (count, 2 * count, 4 * count):
                if more > WAVES_MAX:
                    break
                half, fits = _cut(best, plan.boxes, more, which, capacities, 2)
                if fits:
                    return tuple(half)
            return tuple(finest)
        sizes: dict[int, int] = {}
        for chunk in finest:
            for buffer, over in (place for assignment in chunk.wanted for place in assignment):
                if buffer.id in outside:
                    continue
                sizes[buffer.id] = max(sizes.get(buffer.id, 0), over.nbytes if over is not None else 0)
        if not sizes:  # images have no bytes in the arena that a kernel could use
            views = {(image.buffer.id, image.view) for image in plan.images}
            nbytes, left = sum(view.shape.nbytes for _, view in views), min(capacities)
            what = f"{nbytes} bytes of images at a time, {-left} of them missing of the {nbytes + left} there"
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, what)
        outside.add(max(sizes, key=lambda buffer_id: sizes[buffer_id]))


def one_by_one(plans: CutPlans, chunk: Chunk) -> list[Chunk]:
    """The assignments of ``chunk``, each after the one before, on the same members."""
    which = Outside(chunk.on_host or chunk.mapped, bool(chunk.on_host))
    return [
        _chunk(plans.plan((box,), False), (number,), which)
        for number, box in zip(chunk.members, chunk.plan.boxes, strict=True)
    ]


def unsafe(chunks: Sequence[Chunk]) -> str:
    """Why a launch that is cut into chunks can't be split after all; empty when it can."""
    mixed = next((chunk.plan.why_whole for chunk in chunks if chunk.plan.why_whole), "")
    if mixed:
        return mixed
    if any(chunk.plan.is_attempt and chunk.mapped for chunk in chunks):
        return "uses results of atomic functions, and what is larger than a member's memory"
    if any(chunk.plan.combines_in(chunk.mapped) for chunk in chunks):
        return "updates atomically what is larger than a member's memory"
    return ""


def _fits(chunk: Chunk, capacities: Sequence[int], share: int) -> bool:
    """Whether each box wants at most so large a share of its member, beside what is in the arena anyway."""
    return all(
        sum(
            rounded(over, buffer.nbytes).nbytes if over else GRANULE_NBYTES
            for buffer, over in assignment
            if not buffer.together and (over is None or buffer.id not in chunk.on_host)
        )
        <= capacities[member] // share
        for member, assignment in zip(chunk.members, chunk.wanted, strict=True)
    )


def _counts(boxes: Sequence[GroupBox]) -> Iterator[int]:
    """Into how many parts boxes may be cut: at last into single work-groups, or what ``WAVES_MAX`` allows."""
    count, most = 2, max(box.total_groups for box in boxes)
    while count <= WAVES_MAX and count < 2 * most:
        yield count
        count *= 2


def _cut(
    best: Callable[[tuple[GroupBox, ...]], CutPlan],
    boxes: Sequence[GroupBox],
    count: int,
    outside: Outside,
    capacities: Sequence[int],
    share: int,
) -> tuple[list[Chunk], bool]:
    """Chunks of which number k has part k of each box that has so many; whether all fit.

    They end with the first that does not: what plans cost is not paid for the others.
    """
    parts = [_parts(box, count) for box in boxes]
    chunks: list[Chunk] = []
    for number in range(max(len(part) for part in parts)):
        members = tuple(k for k, part in enumerate(parts) if number < len(part))
        chunks.append(_chunk(best(tuple(parts[k][number] for k in members)), members, outside))
        if not _fits(chunks[-1], capacities, share):
            return chunks, False
    return chunks, True


def _parts(box: GroupBox, count: int) -> tuple[GroupBox, ...]:
    """``box`` in ``count`` slabs, or as many as it has work-groups, in the order of these."""

    def moved(corner: Int3) -> Int3:
        return (corner[0] + box.start[0], corner[1] + box.start[1], corner[2] + box.start[2])

    return tuple(GroupBox(moved(part.start), moved(part.stop)) for part in cut(box.extent, count))


def _chunk(plan: CutPlan, members: tuple[int, ...], outside: Outside) -> Chunk:
    mapped = frozenset() if outside.is_far else outside.buffers
    on_host = outside.buffers if outside.is_far else frozenset()

    wanted = tuple(
        tuple((used.buffer, _hull(used, k)) for used in plan.buffers if used.buffer.id not in mapped)
        for k in range(len(plan.boxes))
    )
    if on_host:
        wanted = tuple(
            tuple((b, b.whole if over is not None and b.id in on_host else over) for b, over in assignment)
            for assignment in wanted
        )
    return Chunk(plan, members, wanted, mapped, on_host, outside.reached)


def _hull(used: BufferPlan, k: int) -> ByteRange | None:
    """The smallest range that holds all that box k touches of a buffer; None if it touches nothing."""
    assignment = used.assignments[k]
    found = [bounds for each in (assignment.needs, assignment.owns) if (bounds := each.bounds) is not None]
    found += [merged.over for merged in used.merged if k in merged.assignments]
    found += [used.appended] if used.appended is not None else []
    return ByteRange(min([b.start for b in found]), max([b.stop for b in found])) if found else None


def reserve(
    memory: VirtualMemory,
    chunk: Chunk,
    where: tuple[int, ...],
    everyone: Sequence[int],
    is_one: bool,
    name: str,
    issue: Issue,
) -> Steps[int]:
    """Give a chunk's data their places on the members ``where``; how long that was waited for, in ns.

    ``is_one``: it is all of a launch, of the kernel ``name``.  Raises ClError where there is no room, and
    DeviceFailed where a member is lost meanwhile.
    """
    wanted, images = chunk.places(where), chunk.copied(where, memory.images)
    held_ns = 0
    while waits := _share(memory, chunk, wanted, images, everyone, issue) or memory.placement.reserve(
        wanted, issue, images, is_one, chunk.on_host
    ):
        before_ns = time.monotonic_ns()
        yield waits
        held_ns += time.monotonic_ns() - before_ns
        if not set(where) <= set(memory.members):
            raise DeviceFailed(name, "a member was lost while the launch waited")
    return held_ns


def _share(
    memory: VirtualMemory,
    chunk: Chunk,
    wanted: list[Wanted],
    images: list[WantedImage],
    everyone: Sequence[int],
    issue: Issue,
) -> list[Ticket]:
    """Give what is larger than a member a place in the memory of all together, if that can be.

    What kernels reach by its address has to have one, where members don't use the arena's.
    """
    if not chunk.mapped or memory.memories.pooled is None:
        return []
    placement = memory.placement
    shares = [(buffer, placement.share_surely) for buffer in chunk.reached.buffers]
    if memory.coherence == "lazy":
        mapped = chunk.mapped - chunk.reached.ids
        shares += [(used.buffer, placement.share) for used in chunk.plan.buffers if used.buffer.id in mapped]
    for buffer, share in shares:
        if waits := share(buffer, wanted, images, everyone, issue):
            return waits
    return []
