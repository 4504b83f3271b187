"""Issuing one chunk of a launch: bring in what is stale, launch the assignments, merge what several wrote.

What can be known from a launch's binding and from where its buffers' bytes are is found once (``Recording``,
``MemberKernel``) and looked up afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from sdi.clc.launch import pack_hidden
from sdi.dataclass import dataclass
from sdi.devices.base import BoundArgument
from sdi.devices.handles import BoundKernel, DeviceBuffer, DeviceProgram
from sdi.devices.issue import Issue
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceLost
from sdi.intervals import ByteRange
from sdi.launch.arguments import BufferArgument, ImageArgument, on_member
from sdi.launch.chunks import Chunk, MemberKernel
from sdi.launch.copy_costs import merge_ns
from sdi.launch.kernel import Binding, LaunchPlan
from sdi.launch.patterns import CopyPattern, patterns_of
from sdi.launch.plan import BufferPlan, CutPlan, ImagePlan, MergedRange
from sdi.launch.recording import Assignment, Change, CopyTime, Recording
from sdi.launch.trials import KeptLaunch, merging_trial
from sdi.partition.history import LaunchHistory
from sdi.region import Bytes
from sdi.regions import RegionSet, union_of
from sdi.vmem.dependencies import Use
from sdi.vmem.directory import HOST, State, member_memory
from sdi.vmem.memory import VirtualBuffer, VirtualMemory
from sdi.vmem.merging.members import MemberMerge, MergeUnits
from sdi.vmem.rounds import in_rounds
from sdi.vmem.transfers import Transfer

Merges = dict[tuple[int, MergedRange], list[MemberMerge]]
"""Merges that members make, by buffer and range: one of each part of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Issued:
    """``tickets``: of the assignments, in the order of the chunk's members, then those of merges.

    ``copying``: see ``Recording``.  ``recording``: if the chunk can be issued like this again, with
    ``kernels``; ``kept``: if the player alone can.  ``patterns``: where somebody wants to know.
    """

    tickets: list[Ticket]
    copying: CopyTime
    recording: Recording | None = None
    kernels: Sequence[BoundKernel] = ()
    patterns: tuple[CopyPattern, ...] = ()
    kept: KeptLaunch | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Started:
    """A chunk that members run: assignment k on ``members[k]``, which is done when ``tickets[k]`` is."""

    chunk: Chunk
    members: list[int]
    bounds: list[MemberKernel]
    recording: Recording
    kernels: list[BoundKernel]
    tickets: list[Ticket]


class Issuer:
    """Issues chunks whose buffers have their places.  Owned by: sdi-scheduler."""

    def __init__(self, memory: VirtualMemory) -> None:
        self._memory = memory
        self._devices = memory.devices
        self._apart: dict[int, LaunchHistory] = {}  # by buffer: launches that last left it in parts

    def issue(
        self, binding: Binding, number: int, where: tuple[int, ...], is_usual: bool, issue: Issue
    ) -> Issued:
        """Issue chunk ``number`` of a launch whose box k is member ``where[k]``'s.  Raises ClError.

        ``is_usual``: it runs there whenever it finds its buffers as they are now.
        """
        launch_plan, memory = binding.launch_plan, self._memory
        chunk = launch_plan.chunks[number]
        known = chunk.find()
        if known is not None and known.where == where:
            kernels = self.kernels(binding, number, where)
            tickets = known.replay(memory, kernels, issue, issue.timing)
            return Issued(tickets, known.copying, known, kernels, known.patterns)
        is_kept = is_usual and memory.coherence == "lazy" and launch_plan.launches > 1
        merges_little = self._merges_little(launch_plan, chunk)
        is_kept = is_kept and (merges_little or chunk.may_repeat(where, memory.images))
        before = chunk.states() if is_kept else (None,)
        history = launch_plan.history
        start_ns = history.budget.now_ns()
        recording, kernels, tickets = self._issue_planned(binding, number, where, issue)
        history.began(history.budget.now_ns() - start_ns)
        after = chunk.states() if None not in before else before
        if None in after:
            return Issued(tickets, recording.copying, patterns=recording.patterns)
        recording.repeats(_changes(chunk, before, after))
        if merges_little:
            trial = merging_trial(binding.kernel, chunk.plan, [where[k] for k in chunk.members])
            kept = KeptLaunch(recording, kernels, trial)
            return Issued(tickets, recording.copying, patterns=recording.patterns, kept=kept)
        chunk.keep(before, recording)
        return Issued(tickets, recording.copying, recording, kernels, recording.patterns)

    def plan(
        self, binding: Binding, where: tuple[int, ...]
    ) -> tuple[Recording, Sequence[BoundKernel]] | None:
        """What the only chunk of a launch comes to with its buffers as they are, on the members ``where``.

        Nothing is issued.  None where that shows only when it is, or places have to be made first.
        """
        launch_plan, memory = binding.launch_plan, self._memory
        chunk, placed = launch_plan.chunks[0], memory.placed.generation
        known = chunk.find()
        if known is not None and (known.where, known.placed) == (where, placed):
            return known, self.kernels(binding, 0, where)
        before, members = chunk.states(), [where[k] for k in chunk.members]
        may_repeat = (
            memory.coherence == "lazy" and chunk.may_repeat(where, memory.images) and None not in before
        )
        if not may_repeat or chunk.reached.buffers or chunk.mapped or not chunk.is_placed(where):
            return None
        bounds = self._bounds(binding, 0, where)
        local_size = launch_plan.ndrange.local_size
        for member, box, bound in zip(members, chunk.plan.boxes, bounds, strict=True):
            native = self._devices[member].native
            if native is None or not native.may_begin(bound.kernel, box.extent, local_size):
                return None
        try:
            with memory.transfers.links.at_once():
                transfers = self._plan(chunk, members, {})
            self._own(chunk, members)
            after = chunk.states()
        finally:
            for buffer, state in zip(chunk.buffers, before, strict=True):
                if state is not None:
                    buffer.directory.enter(state)
        recording = self._recording(launch_plan, chunk, where, bounds, transfers)
        recording.repeats(_changes(chunk, before, after))
        recording.allocations, recording.placed = chunk.allocations(where, memory), placed
        chunk.keep(before, recording)
        return recording, [bound.kernel for bound in bounds]

    def forget_buffer(self, buffer: int) -> None:
        """It is gone, and its number may be another's."""
        self._apart.pop(buffer, None)

    def kernels(self, binding: Binding, number: int, where: tuple[int, ...]) -> list[BoundKernel]:
        """What the members run in chunk ``number``."""
        return [bound.kernel for bound in self._bounds(binding, number, where)]

    def kernel(self, binding: Binding, number: int, k: int, member: int) -> BoundKernel:
        """What ``member`` runs of chunk ``number``, whose box k is its."""
        return self._bound(binding, number, k, member).kernel

    def start(self, binding: Binding, number: int, where: tuple[int, ...], issue: Issue) -> Started:
        """Launch a chunk whose results are to be looked at before they count.

        The host has what its buffers held before, as far as that can be lost.  Directories and images say
        nothing of what was written, until ``finish``.
        """
        return self._start(binding, number, where, issue, {}, is_kept=True)

    def finish(self, started: Started, issue: Issue) -> list[Ticket]:
        """What a chunk wrote counts now, but for what it appended.  Returns all further tickets."""
        return self._finish(started, {}, issue)

    def undo(self, started: Started) -> None:
        """What a chunk wrote counts nowhere: the host has what was there before."""
        for used, part in started.chunk.plan.kept():
            used.buffer.directory.wrote(HOST, part)

    def _issue_planned(
        self, binding: Binding, number: int, where: tuple[int, ...], issue: Issue
    ) -> tuple[Recording, list[BoundKernel], list[Ticket]]:
        """Plan a chunk, issue it; what it came to, with which kernels, and the tickets that ``Issued`` has.

        From where kernels are bound nothing raises: a chunk is issued on all its members or on none.
        """
        chunk = binding.launch_plan.chunks[number]
        merges: Merges = {}
        try:
            if not self._merges_little(binding.launch_plan, chunk):
                self._begin_merges(chunk, [where[k] for k in chunk.members], merges)
            started = self._start(binding, number, where, issue, merges)
        except Exception:
            for parts in merges.values():
                for merge in parts:
                    self._memory.merges.give_up(merge)
            raise
        more = self._finish(started, merges, issue)
        return started.recording, started.kernels, started.tickets + more

    def _start(
        self,
        binding: Binding,
        number: int,
        where: tuple[int, ...],
        issue: Issue,
        merges: Merges,
        is_kept: bool = False,
    ) -> Started:
        memory, chunk = self._memory, binding.launch_plan.chunks[number]
        plan, members = chunk.plan, [where[k] for k in chunk.members]
        with memory.transfers.links.at_once():
            transfers = self._plan_kept(chunk) if is_kept else []
            transfers += self._plan(chunk, members, merges)
            transfers += chunk.reached.plan(
                memory.memories, memory.transfers, f"{binding.kernel.model.name}: pointers"
            )
        for transfer in transfers:
            memory.transfers.perform(transfer, issue)
        for used in plan.buffers:
            for merged in used.merged:
                for merge in merges.get((used.buffer.id, merged), ()):
                    memory.merges.keep_twins(merge, issue.because(used.cause))
        self._refresh_images(chunk, members, issue)
        bounds = self._bounds(binding, number, where)
        is_merged = bool(merges) or self._merges_little(binding.launch_plan, chunk)
        recording = self._recording(binding.launch_plan, chunk, where, bounds, transfers, is_merged)
        recording.uses_together(chunk.reached, chunk.reached.uses(memory.memories))
        if binding.kernel.note is not None:
            together = [
                (used.cause, several)
                for used in plan.buffers
                for merged in used.merged
                if (several := merges.get((used.buffer.id, merged)))
            ]
            recording.patterns = patterns_of(transfers, together, memory.transfers.links)
        kernels = [bound.kernel for bound in bounds]
        tickets = recording.start(kernels, issue.timing)
        return Started(chunk, members, bounds, recording, kernels, tickets)

    def _recording(
        self,
        launch_plan: LaunchPlan,
        chunk: Chunk,
        where: tuple[int, ...],
        bounds: Sequence[MemberKernel],
        transfers: Sequence[Transfer],
        merges: bool = False,
    ) -> Recording:
        plan, members, ndrange = chunk.plan, [where[k] for k in chunk.members], launch_plan.ndrange
        assignments = [
            Assignment(self._devices[member], box.extent, *_all_uses(chunk, bound))
            for member, box, bound in zip(members, plan.boxes, bounds, strict=True)
        ]
        made = Recording(where, assignments, transfers, ndrange.local_size, ndrange.work_dim)
        made.copying = self._copying(launch_plan, plan, members, transfers, merges)
        return made

    def _copying(
        self,
        launch_plan: LaunchPlan,
        plan: CutPlan,
        members: Sequence[int],
        transfers: Sequence[Transfer],
        merges: bool,
    ) -> CopyTime:
        """How long the copies of a part of a launch take, and because of whom."""
        links, predicted_ns = self._memory.transfers.links, self._memory.transfers.predicted_ns
        total_ns = predicted_ns(transfers) + (merge_ns(plan, links, members) if merges else 0.0)
        if len(members) > 1:
            for used in plan.buffers:
                if any(each.owns for each in used.assignments):
                    self._apart[used.buffer.id] = launch_plan.history
            return CopyTime(total_ns)
        owed: dict[int, tuple[LaunchHistory, list[Transfer]]] = {}
        for each in transfers:
            history = self._apart.get(each.buffer.id)
            if history is not None and each.copy.source != HOST:
                owed.setdefault(id(history), (history, []))[1].append(each)
        return CopyTime(total_ns, tuple([(history, predicted_ns(those)) for history, those in owed.values()]))

    def _finish(self, started: Started, merges: Merges, issue: Issue) -> list[Ticket]:
        chunk, members, tickets = started.chunk, started.members, started.tickets
        done = (
            self._write_images_back(chunk, members, tickets, issue)
            if chunk.plan.images
            else [[t] for t in tickets]
        )
        started.recording.leave([ticket for several in done for ticket in several])
        chunk.reached.wrote(self._memory.memories)
        if chunk.mapped:
            self._record_mapped(chunk, started.bounds, done)
        written = self._written(chunk, members, done, merges, issue)
        self._images_are_current(chunk, members)
        return [ticket for several in done for ticket in several[1:]] + written

    def _plan_kept(self, chunk: Chunk) -> list[Transfer]:
        """What moves so that the host has what members may lose, where that is anything."""
        found: list[Transfer] = []
        for used in chunk.plan.buffers:
            written = union_of(RegionSet.of(used.written(k)) for k in range(len(chunk.plan.boxes)))
            needed = union_of(each.needs for each in used.assignments)
            also = [each.over for each in used.merged]
            if used.appended is not None and not chunk.plan.is_simple:
                also.append(used.appended)
            kept = union_of((written.intersection(needed), RegionSet.of(also)))
            if kept:
                transfers = self._memory.transfers
                found += transfers.plan(used.buffer, HOST, kept.regions, False, used.cause)
        return found

    def _refresh_images(self, chunk: Chunk, members: list[int], issue: Issue) -> None:
        """Have the images' copies show the members' linear bytes."""
        for k, image in self._copied(chunk, members):
            is_mapped, needs = image.buffer.id in chunk.mapped, image.needs[k]
            self._memory.images.refresh(image.buffer, members[k], image.view, needs, is_mapped, issue)

    def _copied(self, chunk: Chunk, members: list[int]) -> list[tuple[int, ImagePlan]]:
        """The images of which members have copies, each with the number of an assignment there."""
        is_copied = self._memory.images.is_copied
        every = [(k, image) for image in chunk.plan.images for k in range(len(members))]
        return [(k, image) for k, image in every if is_copied(members[k], image.view)]

    def _write_images_back(
        self, chunk: Chunk, members: list[int], launches: list[Ticket], issue: Issue
    ) -> list[list[Ticket]]:
        """Bring what the assignments wrote to copies of images to the linear bytes.

        Per assignment: its launch, and what brought its pixels home.
        """
        done = [[launch] for launch in launches]
        for k, image in self._copied(chunk, members):
            where, is_mapped = (image.buffer, members[k], image.view), image.buffer.id in chunk.mapped
            done[k] += self._memory.images.write_back(*where, image.writes[k], is_mapped, issue)
        return done

    def _images_are_current(self, chunk: Chunk, members: list[int]) -> None:
        """What an assignment wrote to a copy and nobody changed since need not be set there again."""
        for k, image in self._copied(chunk, members):
            self._memory.images.is_current(image.buffer, members[k], image.view, image.writes[k])

    def _begin_merges(self, chunk: Chunk, members: list[int], found: Merges) -> None:
        """Add the merges that members can make; the host makes the others."""
        for used in chunk.plan.buffers:
            for merged in used.merged if used.buffer.id not in chunk.mapped else ():
                units = MergeUnits(used.unit_nbytes, used.smallest_nbytes, merged.update)
                where = [members[k] for k in merged.assignments]
                if len(where) > 1 and (parts := self._merge_parts(used.buffer, merged.over, where, units)):
                    found[used.buffer.id, merged] = parts

    def _merges_little(self, launch_plan: LaunchPlan, chunk: Chunk) -> bool:
        """Whether all that it merges is so little that the host does, and the player then."""
        plan, memory = chunk.plan, self._memory
        is_alone = len(launch_plan.chunks) == 1 and not (chunk.mapped or chunk.reached.buffers)
        is_near = memory.coherence == "lazy" and not memory.transfers.links.is_far
        return plan.is_trial and not plan.is_attempt and is_alone and is_near

    def _merge_parts(
        self, buffer: VirtualBuffer, over: ByteRange, where: Sequence[int], units: MergeUnits
    ) -> list[MemberMerge]:
        """The merges of all parts of ``over``; none where the host makes them."""
        merges, found = self._memory.merges, list[MemberMerge]()
        for part, keeps in merges.shared_out(over, where):
            merge = merges.begin(buffer, part, where, units, keeps)
            if merge is None:
                for made in found:
                    merges.give_up(made)
                return []
            found.append(merge)
        return found

    def _plan(self, chunk: Chunk, members: Sequence[int], merges: Merges) -> list[Transfer]:
        """What moves before the launch; the directories count it as done."""
        memory, plan = self._memory, chunk.plan
        found: list[Transfer] = []

        def fetch(
            used: BufferPlan, where: int, regions: Sequence[Bytes], same_undefined: bool = False
        ) -> None:
            found.extend(memory.transfers.plan(used.buffer, where, regions, same_undefined, used.cause))

        for used in plan.buffers:
            for merged in used.merged:
                if (used.buffer.id, merged) not in merges:
                    fetch(used, HOST, (merged.over,))
            if used.buffer.id not in chunk.mapped:
                needed = zip(
                    map(member_memory, members), [each.needs for each in used.assignments], strict=True
                )
                found += in_rounds(memory.transfers, used.buffer, list(needed), used.cause)
        for k, member in enumerate(members):
            here = member_memory(member)
            for used in plan.buffers:
                is_mapped = used.buffer.id in chunk.mapped
                if not is_mapped:
                    for merged in used.merged:
                        if k in merged.assignments:
                            fetch(used, here, (merged.over,), same_undefined=True)
                if needs := used.assignments[k].needs.regions:
                    fetch(used, memory.memories.backing(used.buffer) if is_mapped else here, needs)
        return found

    def _bounds(self, binding: Binding, number: int, where: tuple[int, ...]) -> list[MemberKernel]:
        """The assignments of chunk ``number``, ready to launch."""
        members = binding.launch_plan.chunks[number].members
        return [self._bound(binding, number, k, where[of]) for k, of in enumerate(members)]

    def _bound(self, binding: Binding, number: int, k: int, member: int) -> MemberKernel:
        chunk, known = binding.launch_plan.chunks[number], binding.bounds[number]
        bound, generation = known.get(member), self._memory.placed.generation
        if bound is None or (
            bound.generation != generation and not bound.is_valid_on(member, self._memory.memories.pooled)
        ):
            bound = known[member] = self._bind(binding, chunk, k, member)
        bound.generation = generation
        return bound

    def arguments(
        self, binding: Binding, chunk: Chunk, k: int, member: int
    ) -> tuple[DeviceProgram, list[BoundArgument]]:
        """What one assignment binds on one member: the program, and all arguments, hidden ones last."""
        memory, model = self._memory, binding.kernel.model

        def place(pointer: BufferArgument) -> tuple[DeviceBuffer, int]:
            buffer = memory.buffer(pointer.buffer)
            if pointer.buffer in chunk.mapped:
                return memory.memories.mapped(buffer, member), 0
            allocation = memory.memories.allocation(buffer, member)
            return allocation.device_buffer, allocation.over.start

        def image(of: ImageArgument) -> BoundArgument:
            buffer = memory.buffer(of.buffer)
            if memory.images.is_copied(member, of.view):
                return buffer.images[member, of.view].device_image
            return memory.images.linear(buffer, member, of.view, of.buffer in chunk.mapped)

        arguments, shifts = on_member(binding.values, place, image)
        ndrange = binding.launch_plan.ndrange
        arguments.append(pack_hidden(model, ndrange, chunk.plan.boxes[k], shifts))
        program = binding.build.programs[member]
        if program is None:  # the engine finds out now that the member is lost
            raise DeviceLost(self._devices[member].capabilities.name, "was lost before its program was built")
        return program, arguments

    def _bind(self, binding: Binding, chunk: Chunk, k: int, member: int) -> MemberKernel:
        """Set the arguments of one assignment on one member."""
        memory = self._memory
        program, arguments = self.arguments(binding, chunk, k, member)
        handle = self._devices[member].bind(program, binding.kernel.model.name, arguments)
        placed = [used.buffer for used in chunk.plan.buffers if used.buffer.id not in chunk.mapped]
        # Where all members use one memory, it may have become another one.
        uses = chunk.uses.get(member) if not chunk.mapped else None
        if uses is None:
            uses = tuple([self._use(chunk, used, k, member) for used in chunk.plan.buffers])
            chunk.uses[member] = uses
        copied = [i for i in chunk.plan.images if memory.images.is_copied(member, i.view)]
        images = [(i, i.buffer.images[member, i.view]) for i in copied]
        return MemberKernel(
            handle,
            tuple([(buffer, memory.memories.allocation(buffer, member)) for buffer in placed]),
            tuple([(image.buffer, copy) for image, copy in images]),
            uses,
            tuple([copy.dependencies.use(i.needs[k].regions, i.writes[k].regions) for i, copy in images]),
            memory.placed.generation,
            tuple(
                [
                    (buffer, memory.memories.pooled_allocation(buffer))
                    for buffer in self._shared(binding, chunk)
                ]
            ),
        )

    def _shared(self, binding: Binding, chunk: Chunk) -> list[VirtualBuffer]:
        """What its arguments name in the one memory of all members."""
        named = [each.buffer for each in binding.values if isinstance(each, BufferArgument | ImageArgument)]
        return [self._memory.buffer(each) for each in dict.fromkeys(named) if each in chunk.mapped]

    def _use(self, chunk: Chunk, used: BufferPlan, k: int, member: int) -> Use:
        is_mapped = used.buffer.id in chunk.mapped
        where = self._memory.memories.backing(used.buffer) if is_mapped else member_memory(member)
        return used.buffer.dependencies[where].use(used.assignments[k].needs.regions, used.written(k))

    def _record_mapped(self, chunk: Chunk, bounds: Sequence[MemberKernel], done: list[list[Ticket]]) -> None:
        """Some assignments work on the arena's bytes of one buffer: they do not wait for each other, and what
        comes next waits for all of them.
        """
        everyone = Ticket()
        join([ticket for several in done for ticket in several], everyone.complete)
        for bound in bounds:
            for use in _uses(chunk, bound, is_mapped=True):
                use.by(everyone)

    def _own(self, chunk: Chunk, members: Sequence[int]) -> None:
        """Have the directories know what each member wrote alone."""
        for used in chunk.plan.buffers:
            if used.buffer.id in chunk.mapped:
                continue
            for member, assignment in zip(members, used.assignments, strict=True):
                for part in assignment.owns.regions:
                    used.buffer.directory.wrote(member_memory(member), part)

    def _written(
        self,
        chunk: Chunk,
        members: list[int],
        done: list[list[Ticket]],
        merges: Merges,
        issue: Issue,
    ) -> list[Ticket]:
        """Have the directories know what was written.  Returns the tickets of merges."""
        memory = self._memory
        tickets: list[Ticket] = []
        self._own(chunk, members)
        for used in chunk.plan.buffers:
            directory = used.buffer.directory
            of_buffer = issue.because(used.cause)
            if used.buffer.id in chunk.mapped:
                for k in range(len(members)):
                    for part in used.written(k):
                        directory.wrote(memory.memories.backing(used.buffer), part)
                continue
            for merged in used.merged:
                if parts := merges.get((used.buffer.id, merged)):
                    mine = [done[k] for k in merged.assignments]
                    tickets += [memory.merges.run(merge, mine, of_buffer) for merge in parts]
                    continue
                launched = [(members[k], done[k]) for k in merged.assignments]
                units = (used.unit_nbytes, used.smallest_nbytes)
                tickets.append(
                    memory.host_merges.merge(
                        used.buffer, merged.over, launched, *units, merged.update, of_buffer
                    )
                )
            memory.after_kernel(used.buffer, members, of_buffer)
        return tickets


def _changes(chunk: Chunk, before: Sequence[State | None], after: Sequence[State | None]) -> list[Change]:
    """Of a chunk that found its buffers in one state each and left them in another."""
    return [
        Change(buffer.directory, old, new)
        for buffer, old, new in zip(chunk.buffers, before, after, strict=True)
        if old is not None and new is not None
    ]


def _all_uses(chunk: Chunk, bound: MemberKernel) -> tuple[tuple[Use, ...], tuple[Use, ...]]:
    """What an assignment waits for, and what of it is in use until its kernel is done."""
    leaves = bound.uses if not chunk.mapped else tuple(_uses(chunk, bound, is_mapped=False))
    return (*bound.uses, *bound.image_uses), (*bound.image_uses, *leaves)


def _uses(chunk: Chunk, bound: MemberKernel, is_mapped: bool) -> list[Use]:
    """What an assignment does to the buffers that all members use in one memory, or to the others."""
    return [
        use
        for used, use in zip(chunk.plan.buffers, bound.uses, strict=True)
        if (used.buffer.id in chunk.mapped) == is_mapped
    ]
