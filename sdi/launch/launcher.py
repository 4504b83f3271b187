"""Launches: from an NDRange command to pieces on members.

Every member gets the bytes that its piece may read, or may leave unwritten where it may write; bytes that
only one piece may write stay there, the others are brought together with twins and diffs (papers/1, 3.6).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Protocol

from sdi.commands import Launch
from sdi.devices.base import BoundKernel
from sdi.devices.image import Sampler
from sdi.devices.join import join
from sdi.devices.pace import PACE
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed, Status, require
from sdi.intervals import ByteRange, RangeSet
from sdi.launch.arguments import ArgumentValue, BufferArgument, ImageArgument, decode_arguments
from sdi.launch.chunks import RECORDINGS_MAX, Wave, make_waves
from sdi.launch.counters import Counters
from sdi.launch.cutting import Cutter, SplitMode
from sdi.launch.issue import Issued, Issuer
from sdi.launch.kernel import Arrangement, Binding, Build, Kernel, Recent
from sdi.launch.plan import LaunchPlan, image_slabs, make_plan
from sdi.launch.plan_memory import PlanKey, numbered
from sdi.launch.profiling import shape_number
from sdi.launch.recording import Recording
from sdi.launch.steps import Steps
from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.partition.balance import BalanceMode
from sdi.partition.usage import Usage
from sdi.profile.record.recorder import Recorder
from sdi.sampling.model import BoundAccess, Bounds, KernelAccess, WorkEstimate
from sdi.sampling.whole import WholeAccess
from sdi.vmem.allocation import GRANULE_NBYTES, Wanted
from sdi.vmem.directory import member_memory
from sdi.vmem.memory import VirtualBuffer, VirtualMemory

if TYPE_CHECKING:
    from sdi.launch.verify.verify import Verifier

_log = logging.getLogger("sdi.launcher")
KNOWN_MAX = 256
"""Launches that are known by the bytes of their records, least recently used first out."""
_ITEMS_MAX = 1 << 56
"""Drivers count work-groups in 64 bits, or in fewer, and end the process where that is not enough."""
LOCAL_ITEMS_MAX = 64
"""Work-items per group that sdi chooses when the application passes no local size."""


class Replayer(Protocol):
    """Who executes recordings without Python: ``sdi/player``."""

    def keep_launch(self, binding: Binding, recording: Recording, kernels: Sequence[BoundKernel]) -> None:
        """A launch that may be issued again was issued as ``recording``."""
        ...

    def changed(self) -> None:
        """What many recordings rest on is no more as it was."""
        ...


class Launcher:
    """Issues launches on the members.  Owned by: sdi-scheduler."""

    def __init__(
        self,
        memory: VirtualMemory,
        split: SplitMode,
        counters: Counters,
        verifier: Verifier | None = None,
        recorder: Recorder | None = None,
        balance: tuple[BalanceMode, int] = ("off", 0),
    ) -> None:
        """``balance``: how shares adapt, and the seed if they do so at random."""
        self._memory = memory
        self._recorder = recorder
        self.split = split
        self._counters = counters
        self._verifier = verifier
        self._issuer = Issuer(memory)
        self.known: Recent[bytes, Binding] = Recent(KNOWN_MAX)
        self._builds: dict[int, Build] = {}
        self._bereft: dict[int, DeviceFailed] = {}
        self._balance = balance
        self.player: Replayer | None = None
        self._meet()

    def _meet(self) -> None:
        """Launches run on the members that there are now."""
        memory = self._memory
        self._everyone = tuple(memory.members)
        facts = [memory.devices[member].facts for member in memory.members]
        self._is_far = not all(each.is_near for each in facts)
        kinds, nodes, units = zip(*[(each.kind, each.node, each.unit) for each in facts], strict=True)
        self._cutter = Cutter(self.split, kinds, memory.links, *self._balance, self._everyone, nodes, units)

    def lose(self, member: int, why: DeviceFailed) -> None:
        """The member is lost: what is launched from now on runs on the others."""
        self.known.clear()
        if self.player is not None:
            self.player.changed()
        for number, build in self._builds.items():
            for kernel in build.kernels:
                kernel.forget_all()
                if kernel.has_variables and member == self._everyone[0]:
                    self._bereft[number] = why
        if self._verifier is not None and member == self._verifier.member:
            self._verifier = None
            _log.error("nothing is verified any more: %s ran the launches that were compared", why.device)
        if self._memory.members:
            self._meet()

    def _capacities(self) -> list[int]:
        """Bytes that each member can hold."""
        return [self._memory.placement.heaps[member].capacity for member in self._everyone]

    def add(self, build_id: int, build: Build) -> None:
        """Make a finished build known."""
        self._builds[build_id] = build

    def remove(self, build_id: int) -> None:
        """The application has no use for the build any more."""
        for record in [
            record for record, known in self.known.values.items() if known.launch.build == build_id
        ]:
            self.known.drop(record)
        build = self._builds.pop(build_id, None)
        if self.player is not None and build is not None and any(kernel.cell for kernel in build.kernels):
            self.player.changed()  # it keeps kernels that it has given cells
        self._bereft.pop(build_id, None)

    def forget_kernels(self) -> None:
        """Have the player get launches anew that are issued again: it has dropped its recordings."""
        for binding in self.known.values.values():
            binding.placed = -1

    def spoil(self, launch: Launch, why: Exception) -> None:
        """``launch`` could not be issued: whoever reads what it may write fails too."""
        build = self._builds.get(launch.build)
        if build is None:
            return
        model = build.kernels[launch.kernel_index].model
        for argument, value in zip(model.arguments, decode_arguments(model, launch), strict=True):
            if not argument.writes:
                continue
            with suppress(ClError):  # what is gone is read by nobody
                if isinstance(value, ImageArgument):
                    self._memory.spoil(self._memory.buffer(value.buffer), value.view.over, why)
                elif isinstance(value, BufferArgument) and value.buffer:
                    buffer = self._memory.buffer(value.buffer)
                    stop = value.offset + value.reach(buffer.nbytes)
                    self._memory.spoil(buffer, ByteRange(value.offset, stop), why)

    def repeat(self, launch: Launch) -> list[Ticket] | None:
        """Issue ``launch`` as it was before; None, and nothing done, where that would not be right."""
        binding = self.known.find(launch.record)
        return None if binding is None else self._replay(binding)

    def _replay(self, binding: Binding) -> list[Ticket] | None:
        """Issue a launch as one that differs from it at most in scalars was; None as for ``repeat``."""
        arrangement, memory = binding.arrangement, self._memory
        recording, generation = arrangement.waves[0].find(), memory.placement.generation
        if recording is None or recording.tally is None or recording.placed != generation:
            return None
        kernels = binding.kernels.get(recording) if binding.placed == generation else None
        if kernels is None:
            kernels = self._issuer.kernels(binding, 0, recording.where)
            self._keep(binding, recording, kernels)
        if not arrangement.passes():
            return None
        arrangement.launches += 1
        arrangement.usage.ran(len(kernels))
        memory.placement.touch(recording.extents)
        trial = arrangement.trial
        # Not where copies come between: they wait for the launch before, which has an event then anyway.
        is_brief = PACE.has_more and trial is not None and trial.is_brief and not recording.transfers
        tickets = recording.replay(memory, kernels, is_brief)
        recording.tally.launches += 1
        if self.player is not None:
            arrangement.usage.refill(arrangement.trial)
        return tickets

    def _keep(self, binding: Binding, recording: Recording, kernels: Sequence[BoundKernel]) -> None:
        """Remember as what a launch is issued while its buffers are as they are."""
        if binding.placed != recording.placed or len(binding.kernels) >= RECORDINGS_MAX:
            binding.kernels.clear()
        binding.placed = recording.placed
        binding.kernels[recording] = kernels
        if self.player is not None:
            self.player.keep_launch(binding, recording, kernels)

    def issue(self, launch: Launch) -> Steps[list[Ticket]]:
        """Issue all pieces; the launch is done when the returned tickets are."""
        build = self._builds.get(launch.build)
        if build is None or not launch.kernel_index < len(build.kernels):
            what = f"build {launch.build}, kernel {launch.kernel_index}"
            raise ClError(Status.INVALID_PROGRAM_EXECUTABLE, what)
        if self._bereft or not self._memory.members:
            self._require_members(launch.build)
        recorder, begin_ns, held_ns = self._recorder, 0, 0
        if recorder is not None:
            begin_ns = time.monotonic_ns()
        kernel = build.kernels[launch.kernel_index]
        binding = self.known.find(launch.record)
        if binding is not None and not self._is_valid(kernel, binding.arrangement):
            binding = None
        known = "" if binding is None else "binding"
        if binding is None:
            start_ns = time.perf_counter_ns()
            binding = self._bind(build, kernel, launch)
            self._counters.planned(kernel, binding, time.perf_counter_ns() - start_ns)
            if launch.record:
                self.known.keep(launch.record, binding, binding.arrangement.buffers)
            if recorder is None and (tickets := self._replay(binding)) is not None:
                return tickets
        arrangement = binding.arrangement
        arrangement.launches += 1
        arrangement.usage.ran(len(arrangement.plan.boxes))
        is_split = len(arrangement.plan.boxes) > 1
        where, is_usual = self._everyone, True
        if not (is_split or len(where) == 1 or kernel.has_variables):
            where, is_usual = self._best_member(arrangement)
        bound_ns = time.monotonic_ns() if recorder is not None else 0
        placement = self._memory.placement
        usage, wants_times = arrangement.usage, PACE.wants_times
        is_measured, trial = not usage.is_fixed and usage.is_sampled(), arrangement.trial
        if trial is not None and trial.count(usage.launches):
            is_measured = True
        PACE.wants_times = wants_times or is_measured
        tickets = []
        made: Issued | None = None
        for number, wave in enumerate(arrangement.waves):
            recording = wave.find()
            if recording is None or (recording.where, recording.placed) != (where, placement.generation):
                wanted, images = wave.places(where), wave.images(where)
                is_one = len(arrangement.waves) == 1
                try:
                    while waits := self._shared(wave, wanted) or placement.reserve(
                        wanted, images, is_one, wave.on_host
                    ):
                        before_ns = time.monotonic_ns()
                        yield waits
                        held_ns += time.monotonic_ns() - before_ns
                        PACE.wants_times = wants_times or is_measured
                        if not set(where) <= set(self._memory.members):
                            raise DeviceFailed(kernel.model.name, "a member was lost while the launch waited")
                except ClError:
                    if number or not self._is_shorter(arrangement):
                        raise
                    kernel.forget(arrangement)  # its waves were cut for memory that a driver has not got
                    self.known.clear()
                    return (yield from self.issue(launch))
            else:
                placement.touch(recording.extents)
            generation = placement.generation
            if self._verifier is not None and is_split and len(arrangement.waves) == 1:
                issue = partial(self._issuer.issue, binding, number, where, is_usual)
                issued = self._verifier.launch(binding, issue)
            else:
                made = self._issuer.issue(binding, number, where, is_usual)
                issued = made.tickets
                if (recording := made.recording) is not None and recording.placed != generation:
                    recording.extents, recording.placed = wave.extents(where), generation
                if is_measured:
                    self._measure(kernel, arrangement, wave, issued)
            if recorder is not None:
                for k, box, ticket in zip(wave.members, wave.plan.boxes, issued, strict=False):
                    recorder.piece(number, where[k], box.total_groups, ticket)
            tickets = tickets + issued if tickets else issued
        PACE.wants_times = wants_times
        self._memory.accounting.events.waves += len(arrangement.waves) - 1
        self._counters.ran(kernel, binding, where)
        if self._verifier is None and (recorder is not None or kernel.note is None):
            recording = made.recording if made is not None and not launch.prints else None
            if recording is not None and made is not None and len(arrangement.waves) == 1:
                recording.tally = self._counters.tally(kernel, arrangement, where)
                self._keep(binding, recording, made.kernels)
            if self.player is not None:
                usage.refill(arrangement.trial)
        if recorder is not None:
            known = known or ("plan" if arrangement.launches > 1 else "")
            number = shape_number(recorder, kernel.model.name, arrangement)
            recorder.launched(kernel.model.name, number, known, begin_ns, bound_ns, held_ns)
        return tickets

    def _shared(self, wave: Wave, wanted: list[Wanted]) -> list[Ticket]:
        """Give what is larger than a member a place in the memory of all together, if that can be."""
        if not wave.mapped or self._memory.coherence == "host":
            return []
        for used in wave.plan.buffers:
            if used.buffer.id in wave.mapped:
                waits = self._memory.placement.share(used.buffer, wanted, self._everyone)
                if waits:
                    return waits
        return []

    def _require_members(self, build: int) -> None:
        """Raise DeviceFailed where members were lost without which a build's kernels can't run."""
        if not self._memory.members:
            raise DeviceFailed("the image", "all of its members are lost")
        if build in self._bereft:
            raise DeviceFailed(
                "the program", f"its variables in global memory are lost: {self._bereft[build]}"
            )

    def _bind(self, build: Build, kernel: Kernel, launch: Launch) -> Binding:
        """Decode the arguments, and arrange the launch if no other with the same ranges was."""
        values = decode_arguments(kernel.model, launch)
        buffers = {
            v.buffer: self._memory.buffer(v.buffer)
            for v in values
            if isinstance(v, ImageArgument) or (isinstance(v, BufferArgument) and v.buffer)
        }
        image_nbytes = _image_nbytes(kernel.model.name, values, buffers)
        ndrange = _ndrange(kernel, launch)
        usage_key = (ndrange.work_dim, ndrange.total_groups.bit_length(), tuple(sorted(buffers)))
        usage = kernel.usage(usage_key, self._cutter.usage)
        # One member needs no ranges: everything is on it anyway, if it fits.  But what is spoilt is needed
        # only by who reads it.
        capacity = min(self._capacities())
        needed = sum(buffer.nbytes + GRANULE_NBYTES for buffer in buffers.values()) + image_nbytes
        is_spoilt = self._memory.has_spoilt and _are_spoilt(buffers.values())
        is_trivial = (needed <= capacity and not is_spoilt) and (
            len(self._everyone) == 1
            or (
                usage.pieces == 1
                and not usage.is_due()
                and (usage.may_gather() or self._are_gathered(buffers.values()))
            )
        )
        shaping = frozenset() if is_trivial else kernel.shaping
        shape = tuple(
            [
                None if isinstance(value, bytes | Sampler) and index not in shaping else value
                for index, value in enumerate(values)
            ]
        )
        key = (launch.work_dim, launch.offset, launch.global_size, launch.local_size, shape, is_trivial)
        arrangement = kernel.find(key)
        if arrangement is not None and not self._is_valid(kernel, arrangement):
            arrangement = None
        if arrangement is None:
            maps = WholeAccess(kernel.model) if is_trivial else kernel.maps
            usage.has_gathered |= is_trivial
            is_choice, start_ns = usage.shape is None or usage.is_due(), time.perf_counter_ns()
            inner = numbered(shape)
            sizes = tuple([buffer.nbytes for buffer in buffers.values()])
            plan_key = None if inner is None else (*key[:4], inner, sizes, is_trivial)
            arrangement = self._arrange(kernel, maps, ndrange, usage, values, buffers, image_nbytes, plan_key)
            if not is_choice:
                usage.planned(len(arrangement.plan.boxes), time.perf_counter_ns() - start_ns)
            arrangement.is_trivial = is_trivial
            arrangement.is_gathered = is_trivial and len(self._everyone) > 1
            kernel.keep(key, arrangement)
        return Binding(build, kernel, launch, arrangement, values)

    def _arrange(
        self,
        kernel: Kernel,
        maps: KernelAccess,
        ndrange: NDRange,
        usage: Usage,
        values: tuple[ArgumentValue, ...],
        buffers: dict[int, VirtualBuffer],
        image_nbytes: int,
        plan_key: PlanKey | None,
    ) -> Arrangement:
        """Cut the NDRange, find what each piece needs.  ``image_nbytes``: see ``_image_nbytes``.

        ``plan_key``: by which plans are remembered, if they are.
        """
        model = kernel.model
        capacities = [nbytes - image_nbytes for nbytes in self._capacities()]
        access: BoundAccess | None = None

        images = None
        if kernel.images is not None:
            images = kernel.images.bind(
                ndrange,
                tuple(value if isinstance(value, bytes) else None for value in values),
                image_slabs(model, values),
            )

        in_order = list(buffers.values())

        def bound() -> BoundAccess:
            nonlocal access
            if access is None:
                access = _bound(maps, ndrange, values, buffers)
            return access

        def foresee(dim: int) -> WorkEstimate | None:
            return bound().work(dim)

        def effort() -> float | None:
            return kernel.effort(ndrange) or bound().effort()

        def plan(boxes: tuple[GroupBox, ...], exact: bool) -> LaunchPlan:
            if plan_key is not None:
                known = kernel.plans.find(plan_key, boxes, exact, in_order)
                if known is not None:
                    return known
            maps_here = bound()
            made = make_plan(model, values, maps_here if exact else Bounds(maps_here), boxes, buffers, images)
            if plan_key is not None:
                kernel.plans.keep(plan_key, exact, made)
            return made

        why_whole = self._never_split(kernel, ndrange)
        whole = (GroupBox((0, 0, 0), ndrange.num_groups),)
        if why_whole:
            chosen = plan(whole, exact=self._memory.has_spoilt and _are_spoilt(in_order))
            usage.decide((1, 1, 1), 1, why_whole)
            usage.is_fixed = True
        else:
            chosen, why_whole = self._cutter.cut(usage, ndrange.num_groups, plan, foresee, effort)
        for buffer in buffers.values():
            buffer.on_release.update((kernel.forget_buffer, self.known.drop_buffer))

        def plan_wave(boxes: tuple[GroupBox, ...]) -> LaunchPlan:
            return self._cutter.best([boxes], plan)

        def waves_of(chosen: LaunchPlan) -> tuple[Wave, ...]:
            # Of one box, the member is chosen at launch.
            room = capacities if len(chosen.boxes) > 1 else [min(capacities)]
            return make_waves(plan_wave, chosen, room, self._verifier is not None, self._is_far)

        waves = waves_of(chosen)
        if len(waves) > 1 and self._cutter.stay_even(usage, chosen):
            chosen, why_whole = self._cutter.cut(usage, ndrange.num_groups, plan)
            waves = waves_of(chosen)
        if len(chosen.boxes) > 1 and (why_whole := _unsafe(waves)):
            chosen = plan(whole, exact=False)
            waves = waves_of(chosen)
        groups = tuple(box.total_groups for box in chosen.boxes)
        made = Arrangement(
            ndrange, chosen, groups, why_whole, waves, usage, usage.version, tuple(self._capacities())
        )
        if len(groups) > 1 and len(waves) == 1:
            made.trial = self._cutter.trial(usage, chosen)
        return made

    def _is_shorter(self, arrangement: Arrangement) -> bool:
        """Whether members turned out to hold less than when a launch was arranged."""
        pairs = zip(self._capacities(), arrangement.capacities, strict=False)
        return any(now < then for now, then in pairs)

    def _is_valid(self, kernel: Kernel, arrangement: Arrangement) -> bool:
        """Whether it may be used again as it is; forgotten if that will never be so."""
        if not arrangement.is_valid():
            kernel.forget(arrangement)
            return False
        if not arrangement.is_gathered or arrangement.waves[0].find() is not None:
            return True
        return self._are_gathered(used.buffer for used in arrangement.plan.buffers)

    def _are_gathered(self, buffers: Iterable[VirtualBuffer]) -> bool:
        """Whether one member has all that is current of some buffers: a launch there needs no ranges."""
        found = list(buffers)
        return any(
            all(not b.directory.stale_nbytes(member_memory(m), RangeSet((b.whole,))) for b in found)
            for m in self._everyone
        )

    def _never_split(self, kernel: Kernel, ndrange: NDRange) -> str:
        """Why a launch can't be split; empty when it can."""
        if kernel.model.why_whole:
            return kernel.model.why_whole
        if len(self._everyone) == 1:
            return "the image has one member"
        if kernel.has_variables:
            return f"its program's variables in global memory are on member {self._everyone[0]}"
        if self.split == "never":
            return "SDI_SPLIT=never"
        if ndrange.total_groups == 1:
            return "one work-group"
        return ""

    def _best_member(self, arrangement: Arrangement) -> tuple[tuple[int, ...], bool]:
        """Where one member runs all of a launch, and whether it does so whenever its buffers are as they are.

        The member that lacks the fewest bytes, the first among equals; but what is written elsewhere than on
        the first one is fetched from there again and again where other launches run.  So once that could have
        cost as much as what the launch lacks on the first member, it runs there.
        """
        first, usage = self._everyone[0], arrangement.usage
        known = arrangement.waves[0].find() if len(arrangement.waves) == 1 else None
        missing = self._missing(arrangement) if known is None or known.where[0] != first else [0]
        best = known.where[0] if known is not None else self._everyone[missing.index(min(missing))]
        if best == first:
            usage.first_away = usage.home_at = 0
            return (best,), True
        usage.first_away = usage.first_away or usage.launches
        written = sum(part.nbytes for used in arrangement.plan.buffers for part in used.written(0))
        usage.home_at = usage.first_away - 1 + -(-missing[0] // written) if written else 0
        if not 0 < usage.home_at <= usage.launches:
            return (best,), True
        usage.first_away = usage.home_at = 0
        return (first,), False

    def _missing(self, arrangement: Arrangement) -> list[int]:
        """Bytes that each member lacks for a launch that one member runs."""
        needs = [(used.buffer.directory, used.pieces[0].needs) for used in arrangement.plan.buffers]
        return [sum(d.stale_nbytes(member_memory(m), over) for d, over in needs) for m in self._everyone]

    def _measure(self, kernel: Kernel, arrangement: Arrangement, wave: Wave, issued: list[Ticket]) -> None:
        """Learn from a launch once it is done."""
        is_first, kernel.is_warm = not kernel.is_warm, True
        launched = issued[: len(wave.members)]

        def record(error: BaseException | None) -> None:
            if error is None:
                arrangement.measured(wave.plan.boxes, launched, is_first)

        join(launched, record)


def _bound(
    maps: KernelAccess,
    ndrange: NDRange,
    values: Sequence[ArgumentValue],
    buffers: dict[int, VirtualBuffer],
) -> BoundAccess:
    """The access maps of one launch."""
    return maps.bind(
        ndrange,
        tuple(value if isinstance(value, bytes) else None for value in values),
        tuple(
            v.reach(buffers[v.buffer].nbytes) if isinstance(v, BufferArgument) and v.buffer else None
            for v in values
        ),
    )


def _ndrange(kernel: Kernel, launch: Launch) -> NDRange:
    """The index space of a launch.  Raises ClError."""
    model = kernel.model
    local = launch.local_size or model.required_work_group_size or choose_local_size(launch.global_size)
    num_items = prod(launch.global_size)
    if num_items >= _ITEMS_MAX:
        what = f"{model.name}: no member gets through {num_items} work-items"
        raise ClError(Status.OUT_OF_RESOURCES, what)
    try:
        return NDRange(launch.work_dim, launch.offset, launch.global_size, local)
    except ValueError as cause:
        raise ClError(Status.INVALID_WORK_GROUP_SIZE, f"{model.name}: {cause}") from cause


def _are_spoilt(buffers: Iterable[VirtualBuffer]) -> bool:
    """Whether bytes of them were not written that should have been, as far as was looked."""
    return any(hazards.spoilt for buffer in buffers for hazards in buffer.hazards)


def _unsafe(waves: Sequence[Wave]) -> str:
    """Why a launch that is cut into waves can't be split after all; empty when it can."""
    mixed = next((wave.plan.why_whole for wave in waves if wave.plan.why_whole), "")
    if mixed:
        return mixed
    if any(wave.plan.combines_in(wave.mapped) for wave in waves):
        return "updates atomically what is larger than a member's memory"
    return ""


def _image_nbytes(kernel: str, values: Sequence[ArgumentValue], buffers: dict[int, VirtualBuffer]) -> int:
    """What copies of all images of a launch take on a member.  Raises ClError for one outside its buffer."""
    found = {(value.buffer, value.view) for value in values if isinstance(value, ImageArgument)}
    for buffer_id, view in found:
        nbytes = buffers[buffer_id].nbytes
        what = f"{kernel}: an image at [{view.over.start}, {view.over.stop}) of {nbytes} bytes"
        require(view.over.stop <= nbytes, Status.INVALID_KERNEL_ARGS, what)
    return sum(view.shape.nbytes for _, view in found)


def choose_local_size(global_size: Int3, limit: int = LOCAL_ITEMS_MAX) -> Int3:
    """A local size that divides ``global_size``: per dimension the largest divisor that still fits ``limit``.

    Depends on the full NDRange only, never on the number of members.
    """
    chosen: list[int] = []
    for size in global_size:
        divisor = next(d for d in range(min(size, limit), 0, -1) if size % d == 0)
        chosen.append(divisor)
        limit //= divisor
    return (chosen[0], chosen[1], chosen[2])


__all__ = ["Launcher", "SplitMode", "choose_local_size"]
