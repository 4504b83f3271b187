"""Issuing one wave of a launch: bring in what is stale, launch the pieces, bring together what several wrote.

What can be known from a launch's binding and from where its buffers' bytes are is found once (``Recording``,
``Bound``) and looked up afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sdi.clc import pack_hidden
from sdi.devices.base import BoundKernel, DeviceBuffer, DeviceImage
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceLost
from sdi.intervals import ByteRange
from sdi.launch.recording import Assignment, Change, Recording
from sdi.runtime.arguments import Image, Pointer, on_member
from sdi.runtime.plan import BufferPlan, MergedRange
from sdi.runtime.programs import Arrangement, Binding, Build, Kernel
from sdi.runtime.waves import Bound, Wave
from sdi.vmem.directory import HOST, State, member_memory
from sdi.vmem.hazards import Use
from sdi.vmem.member_merge import MemberMerge, MergeUnits
from sdi.vmem.memory import Transfer, VirtualMemory

Merges = dict[tuple[int, MergedRange], MemberMerge]
"""Merges that members make, by buffer and range."""

_RECORDINGS_MAX = 64
"""Kept per wave; a launch that finds its buffers in ever new states begins again."""


@dataclass(frozen=True, slots=True, eq=False)
class Issued:
    """``tickets``: of the assignments, in the order of the wave's members, then those of merges.

    ``recording``: if the wave can be issued like this again, with ``kernels``.
    """

    tickets: list[Ticket]
    recording: Recording | None = None
    kernels: Sequence[BoundKernel] = ()


class Issuer:
    """Issues waves whose buffers have their places.  Owned by: sdi-scheduler."""

    def __init__(self, memory: VirtualMemory) -> None:
        self._memory = memory
        self._devices = memory.devices

    def issue(
        self, build: Build, kernel: Kernel, binding: Binding, number: int, where: tuple[int, ...]
    ) -> Issued:
        """Issue wave ``number`` of a launch whose box k is member ``where[k]``'s.  Raises ClError."""
        arrangement, memory = binding.arrangement, self._memory
        wave = arrangement.waves[number]
        members = [where[k] for k in wave.members]

        def bind() -> list[Bound]:
            return [self._bound(build, kernel, binding, number, k, m) for k, m in enumerate(members)]

        before: tuple[State | None, ...] = (None,)
        if wave.is_repeatable and memory.coherence == "lazy" and arrangement.launches > 1:
            before = _states(wave)
            known = wave.recordings.get((where, before))
            if known is not None:
                kernels = [bound.kernel for bound in bind()]
                return Issued(known.replay(memory, kernels), known, kernels)
        recording, kernels, tickets = self._issue_planned(arrangement, wave, members, bind)
        if None in before:
            return Issued(tickets)
        after = _states(wave)
        if None in after:
            return Issued(tickets)
        buffers = [used.buffer for used in wave.plan.buffers]
        recording.changes = tuple(
            [
                Change(buffer.directory, old, new)
                for buffer, old, new in zip(buffers, before, after, strict=True)
                if old is not None and new is not None
            ]
        )
        if len(wave.recordings) >= _RECORDINGS_MAX:
            wave.recordings.clear()
        wave.recordings[where, before] = recording
        return Issued(tickets, recording, kernels)

    def _issue_planned(
        self, arrangement: Arrangement, wave: Wave, members: list[int], bind: Callable[[], list[Bound]]
    ) -> tuple[Recording, list[BoundKernel], list[Ticket]]:
        """Plan a wave and issue it; what it came to, with which kernels, and the tickets that ``Issued`` has.

        From where kernels are bound nothing raises: a wave is issued on all its members or on none.
        """
        memory, plan, ndrange = self._memory, wave.plan, arrangement.ndrange
        merges: Merges = {}

        try:
            self._begin_merges(wave, members, merges)
            transfers = self._plan(wave, members, merges)
            for transfer in transfers:
                memory.perform(transfer)
            for merge in merges.values():
                memory.merges.keep_twins(merge)
            self._refresh_images(wave, members)
            bounds = bind()
        except Exception:
            for merge in merges.values():
                memory.merges.give_up(merge)
            raise
        assignments = [
            Assignment(self._devices[member], box.extent, *_all_uses(wave, bound))
            for member, box, bound in zip(members, plan.boxes, bounds, strict=True)
        ]
        recording = Recording(assignments, transfers, (), ndrange.local_size, ndrange.work_dim)
        kernels = [bound.kernel for bound in bounds]
        tickets = recording.start(kernels)
        done = self._write_images_back(wave, members, tickets) if plan.images else [[t] for t in tickets]
        if wave.mapped:
            self._record_mapped(wave, bounds, done)
        written = self._written(wave, members, done, merges)
        self._images_are_current(wave, members)
        return recording, kernels, tickets + [ticket for several in done for ticket in several[1:]] + written

    def _refresh_images(self, wave: Wave, members: list[int]) -> None:
        """Have the images show the members' linear bytes."""
        for image in wave.plan.images:
            is_mapped = image.buffer.id in wave.mapped
            for member, needs in zip(members, image.needs, strict=True):
                self._memory.refresh_image(image.buffer, member, image.view, needs, is_mapped)

    def _write_images_back(
        self, wave: Wave, members: list[int], launches: list[Ticket]
    ) -> list[list[Ticket]]:
        """Bring what the pieces wrote to images to the linear bytes.

        Per piece: its launch, and what brought its pixels home.
        """
        done = [[launch] for launch in launches]
        for image in wave.plan.images:
            is_mapped = image.buffer.id in wave.mapped
            for k, member in enumerate(members):
                done[k] += self._memory.write_image_back(
                    image.buffer, member, image.view, image.writes[k], is_mapped
                )
        return done

    def _images_are_current(self, wave: Wave, members: list[int]) -> None:
        """What a piece wrote to an image and nobody changed since need not be set there again."""
        for image in wave.plan.images:
            for member, writes in zip(members, image.writes, strict=True):
                self._memory.image_is_current(image.buffer, member, image.view, writes)

    def _begin_merges(self, wave: Wave, members: list[int], found: Merges) -> None:
        """Add the merges that members can make; the host makes the others."""
        for used in wave.plan.buffers:
            for merged in used.merged if used.buffer.id not in wave.mapped else ():
                units = MergeUnits(used.unit_nbytes, used.smallest_nbytes, merged.update)
                where = [members[k] for k in merged.pieces]
                if len(where) > 1 and (
                    merge := self._memory.merges.begin(used.buffer, merged.over, where, units)
                ):
                    found[used.buffer.id, merged] = merge

    def _plan(self, wave: Wave, members: Sequence[int], merges: Merges) -> list[Transfer]:
        """What moves before the launch; the directories count it as done."""
        memory, plan = self._memory, wave.plan
        found: list[Transfer] = []

        def fetch(
            used: BufferPlan, where: int, ranges: Sequence[ByteRange], same_undefined: bool = False
        ) -> None:
            memory.accounting.cause = used.cause
            found.extend(memory.plan_fetch(used.buffer, where, ranges, same_undefined))

        for used in plan.buffers:
            for merged in used.merged:
                if (used.buffer.id, merged) not in merges:
                    fetch(used, HOST, (merged.over,))
        for k, member in enumerate(members):
            here = member_memory(member)
            for used in plan.buffers:
                is_mapped = used.buffer.id in wave.mapped
                if not is_mapped:
                    for merged in used.merged:
                        if k in merged.pieces:
                            fetch(used, here, (merged.over,), same_undefined=True)
                if needs := used.pieces[k].needs.ranges:
                    fetch(used, memory.home(used.buffer) if is_mapped else here, needs)
        return found

    def _bound(
        self, build: Build, kernel: Kernel, binding: Binding, number: int, k: int, member: int
    ) -> Bound:
        """Piece ``k`` of wave ``number``, ready to launch on ``member``."""
        known = binding.bounds[number]
        bound, generation = known.get(member), self._memory.placement.generation
        if bound is not None:
            if bound.generation == generation:
                return bound
            if bound.is_right_on(member, self._memory.spread):
                bound.generation = generation
                return bound
        wave = binding.arrangement.waves[number]
        bound = known[member] = self._bind(build, kernel, binding, wave, k, member)
        return bound

    def _bind(self, build: Build, kernel: Kernel, binding: Binding, wave: Wave, k: int, member: int) -> Bound:
        """Set the arguments of one piece on one member."""
        memory = self._memory

        def place(pointer: Pointer) -> tuple[DeviceBuffer, int]:
            buffer = memory.buffer(pointer.buffer)
            if pointer.buffer in wave.mapped:
                return memory.mapped(buffer, member), 0
            extent = memory.extent(buffer, member)
            return extent.device_buffer, extent.over.start

        def image(of: Image) -> DeviceImage:
            return memory.image(memory.buffer(of.buffer), member, of.view).device_image

        arguments, shifts = on_member(binding.values, place, image)
        ndrange = binding.arrangement.ndrange
        arguments.append(pack_hidden(kernel.model, ndrange, wave.plan.boxes[k], shifts))
        program = build.programs[member]
        if program is None:  # the engine finds out now that the member is lost
            raise DeviceLost(self._devices[member].facts.name, "was lost before its program was built")
        handle = self._devices[member].bind(program, kernel.model.name, arguments)
        placed = [used.buffer for used in wave.plan.buffers if used.buffer.id not in wave.mapped]
        # Where all members use one memory, it may have become another one.
        uses = wave.uses.get(member) if not wave.mapped else None
        if uses is None:
            uses = tuple([self._use(wave, used, k, member) for used in wave.plan.buffers])
            wave.uses[member] = uses
        images = [(i, memory.image(i.buffer, member, i.view)) for i in wave.plan.images]
        return Bound(
            handle,
            tuple([(buffer, memory.extent(buffer, member)) for buffer in placed]),
            tuple([(image.buffer, copy) for image, copy in images]),
            uses,
            tuple([copy.hazards.use(i.needs[k].ranges, i.writes[k].ranges) for i, copy in images]),
            memory.placement.generation,
            tuple(
                [
                    (used.buffer, memory.shared_extent(used.buffer))
                    for used in wave.plan.buffers
                    if used.buffer.id in wave.mapped
                ]
            ),
        )

    def _use(self, wave: Wave, used: BufferPlan, k: int, member: int) -> Use:
        is_mapped = used.buffer.id in wave.mapped
        where = self._memory.home(used.buffer) if is_mapped else member_memory(member)
        reads, writes = used.pieces[k].needs.ranges, used.written(k)
        if len(reads) > 1:
            over = ByteRange(reads[0].start, reads[-1].stop)
            if any(part.start <= over.start and over.stop <= part.stop for part in writes):
                reads = (over,)  # it waits for as much, in one range
        return used.buffer.hazards[where].use(reads, writes)

    def _record_mapped(self, wave: Wave, bounds: Sequence[Bound], done: list[list[Ticket]]) -> None:
        """Some pieces work on the arena's bytes of one buffer: they do not wait for each other, and what
        comes next waits for all of them.
        """
        everyone = Ticket()
        join([ticket for several in done for ticket in several], everyone.complete)
        for bound in bounds:
            for use in _uses(wave, bound, is_mapped=True):
                use.by(everyone)

    def _written(
        self, wave: Wave, members: list[int], done: list[list[Ticket]], merges: Merges
    ) -> list[Ticket]:
        """Have the directories know what was written.  Returns the tickets of merges."""
        memory = self._memory
        tickets: list[Ticket] = []
        for used in wave.plan.buffers:
            directory = used.buffer.directory
            memory.accounting.cause = used.cause
            if used.buffer.id in wave.mapped:
                for k in range(len(members)):
                    for part in used.written(k):
                        directory.wrote(memory.home(used.buffer), part)
                continue
            for member, piece in zip(members, used.pieces, strict=True):
                for part in piece.owns.ranges:
                    directory.wrote(member_memory(member), part)
            for merged in used.merged:
                merge = merges.get((used.buffer.id, merged))
                if merge is not None:
                    tickets.append(memory.merges.run(merge, [done[k] for k in merged.pieces]))
                    continue
                launched = [(members[k], done[k]) for k in merged.pieces]
                units = (used.unit_nbytes, used.smallest_nbytes)
                tickets.append(memory.merge(used.buffer, merged.over, launched, *units, merged.update))
            memory.after_kernel(used.buffer, members)
        return tickets


def _states(wave: Wave) -> tuple[State | None, ...]:
    return tuple([used.buffer.directory.state() for used in wave.plan.buffers])


def _all_uses(wave: Wave, bound: Bound) -> tuple[tuple[Use, ...], tuple[Use, ...]]:
    """What an assignment waits for, and what of it is in use until its kernel is done."""
    leaves = bound.uses if not wave.mapped else tuple(_uses(wave, bound, is_mapped=False))
    return (*bound.uses, *bound.image_uses), (*bound.image_uses, *leaves)


def _uses(wave: Wave, bound: Bound, is_mapped: bool) -> list[Use]:
    """What a piece does to the buffers that all members use in one memory, or to the others."""
    return [
        use
        for used, use in zip(wave.plan.buffers, bound.uses, strict=True)
        if (used.buffer.id in wave.mapped) == is_mapped
    ]


__all__ = ["Issued", "Issuer"]
