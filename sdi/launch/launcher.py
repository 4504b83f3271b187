"""Launches: from an NDRange command to assignments on members.

Every member gets the bytes that its assignment may read, or may leave unwritten where it may write; bytes
that only one assignment may write stay there, the others are brought together with twins and diffs (papers/1,
3.6).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sdi.commands import Launch
from sdi.devices.handles import BoundKernel
from sdi.devices.issue import MEASURED, SEEN, TOGETHER, Issue
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed, Status
from sdi.launch.access_plans import AccessPlans, bound_access
from sdi.launch.appending import Appender, RanChunk
from sdi.launch.arguments import (
    ArgumentValue,
    BufferArgument,
    ImageArgument,
    decode_arguments,
    image_nbytes_of,
)
from sdi.launch.chunks import RECORDINGS_MAX, Chunk, make_chunks, reserve, unsafe
from sdi.launch.counters import Counters
from sdi.launch.cutting import Cutter, SplitMode
from sdi.launch.gathering import are_gathered, are_on_one, needs_no_ranges, overwrites
from sdi.launch.geometry import ANY_GROUP, group_rule, ndrange_of
from sdi.launch.home import best_member, require_members
from sdi.launch.issue import Issued, Issuer
from sdi.launch.kernel import Binding, Build, Kernel, LaunchPlan, Recent
from sdi.launch.patterns import CopyPattern
from sdi.launch.plan import CutPlan, image_slabs
from sdi.launch.plan_memory import PlanKey, numbered, shaped
from sdi.launch.poisoning import poison_written
from sdi.launch.profiling import shape_number
from sdi.launch.recording import Recording
from sdi.launch.replayers import IssueTimed, PartsReplayer, Replayer
from sdi.launch.steps import Steps
from sdi.launch.trials import KeptLaunch
from sdi.ndrange import GroupBox, NDRange
from sdi.partition.balance import BalanceMode
from sdi.partition.history import LaunchHistory
from sdi.profile.record.recorder import Recorder
from sdi.sampling.model import KernelAccess
from sdi.sampling.whole import WholeAccess
from sdi.vmem.memory import VirtualBuffer, VirtualMemory
from sdi.vmem.placed import GRANULE_NBYTES
from sdi.vmem.reaches import Reached

if TYPE_CHECKING:
    from sdi.launch.verify.verify import Verifier

_log = logging.getLogger("sdi.launcher")
KNOWN_MAX = 256
"""Launches that are known by the bytes of their records, least recently used first out."""
_OF_ONE_DEVICE = "its queue is for one device"
_ATOMIC_BY_ADDRESS = "updates shared virtual memory atomically, which is one memory of several GPUs"


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
        self._appender = Appender(memory, self._issuer)
        self.known: Recent[bytes, Binding] = Recent(KNOWN_MAX)
        self._builds: dict[int, Build] = {}
        self._without_variables: dict[int, DeviceFailed] = {}
        self._balance = balance
        self.player: Replayer | None = None
        self.parts: PartsReplayer | None = None
        self._set_members()

    def _set_members(self) -> None:
        """Launches run on the members that there are now."""
        memory = self._memory
        self._everyone = tuple(memory.members)
        self._known_members = [device.capabilities for device in memory.devices]
        facts = [self._known_members[member] for member in memory.members]
        self._is_far = not all(each.is_near for each in facts)
        kinds, nodes, units = zip(*[(each.kind, each.node, each.unit) for each in facts], strict=True)
        self._cutter = Cutter(
            self.split, kinds, memory.transfers.links, *self._balance, self._everyone, nodes, units
        )

    def drop_member(self, member: int, why: DeviceFailed) -> None:
        """The member is lost: what is launched from now on runs on the others."""
        self.known.clear()
        if self.player is not None:
            self.player.changed()
        for number, build in self._builds.items():
            for kernel in build.kernels:
                kernel.forget_all()
                if kernel.has_variables and member == self._everyone[0]:
                    self._without_variables[number] = why
        if self._verifier is not None and member == self._verifier.member:
            self._verifier = None
            _log.error("nothing is verified any more: %s ran the launches that were compared", why.device)
        if self._memory.members:
            self._set_members()

    def keep_parts(self, made: Callable[[VirtualMemory, Issuer], PartsReplayer]) -> None:
        """Have other processes keep their parts of recordings."""
        self.parts = made(self._memory, self._issuer)

    def _capacities(self, member: int = 0) -> list[int]:
        """Bytes that each member can hold, or the one that a launch is for (``Launch.member``)."""
        members = (member - 1,) if member else self._everyone
        return [self._memory.placement.heaps[each].capacity for each in members]

    def add(self, build_id: int, build: Build) -> None:
        """Make a finished build known."""
        self._builds[build_id] = build

    def build(self, build_id: int) -> Build | None:
        """One that was added and not removed."""
        return self._builds.get(build_id)

    def remove(self, build_id: int) -> None:
        """The application has no use for the build any more."""
        for record in [
            record for record, known in self.known.values.items() if known.launch.build == build_id
        ]:
            self.known.drop(record)
        build = self._builds.pop(build_id, None)
        if self.player is not None and build is not None and any(kernel.cell for kernel in build.kernels):
            self.player.changed()  # it keeps kernels that it has given cells
        self._without_variables.pop(build_id, None)

    def forget_kernels(self) -> None:
        """Have the player get launches anew that are issued again: it has dropped its recordings."""
        for binding in self.known.values.values():
            binding.kept_at = (-1, -1)

    def poison(self, launch: Launch, why: Exception) -> None:
        """``launch`` could not be issued: whoever reads what it may write fails too."""
        build = self.build(launch.build)
        if build is not None:
            poison_written(self._memory, build.kernels[launch.kernel_index].model, launch, why)

    def repeat(self, launch: Launch, issue: Issue) -> list[Ticket] | None:
        """Issue ``launch`` as it was before; None, and nothing done, where that would not be right."""
        binding = self.known.find(launch.record)
        return None if binding is None else self._replay(binding, issue)

    def _replay(self, binding: Binding, issue: Issue) -> list[Ticket] | None:
        """Issue a launch as one that differs from it at most in scalars was; None as for ``repeat``."""
        launch_plan, memory = binding.launch_plan, self._memory
        recording, generation = launch_plan.chunks[0].find(), memory.placed.generation
        if recording is None or recording.tally is None or recording.placed != generation:
            return None
        parts = None if self.parts is None else self.parts.find(binding, recording)
        kernels: Sequence[BoundKernel] | None = None
        if parts is None:
            is_kept = binding.kept_at == (generation, binding.kernel.generation)
            kernels = binding.kernels.get(recording) if is_kept else None
            if kernels is None:
                kernels = self._issuer.kernels(binding, 0, recording.where)
                self._keep(binding, recording, kernels)
        if not launch_plan.passes():
            return None
        launch_plan.launches += 1
        launch_plan.history.ran(len(recording.assignments))
        launch_plan.copied(recording.copying)
        epoch = launch_plan.epoch
        # Not where copies come between: they wait for the launch before, which has an event then anyway.
        timing = issue.timing
        if issue.has_more and timing is SEEN and epoch is not None and epoch.is_brief:
            timing = TOGETHER if not recording.transfers else SEEN
        if parts is not None:
            tickets = parts(issue, timing)
        else:
            assert kernels is not None
            memory.placed.touch(recording.allocations)
            tickets = recording.replay(memory, kernels, issue, timing)
        recording.tally.launches += 1
        if self.player is not None:
            launch_plan.history.refill(launch_plan.epoch)
        return tickets

    def _timed(self, binding: Binding, where: Sequence[int]) -> IssueTimed | None:
        """What has nodes replay a launch that is measured; None where they don't."""
        chunks, placed = binding.launch_plan.chunks, self._memory.placed.generation
        known = chunks[0].find() if self.parts is not None and len(chunks) == 1 else None
        is_same = known is not None and (known.where, known.placed) == (where, placed)
        return self.parts.find_timed(binding, known) if self.parts and known and is_same else None

    def _keep(self, binding: Binding, recording: Recording, kernels: Sequence[BoundKernel]) -> None:
        """Remember as what a launch is issued while its buffers are as they are."""
        kept_at = (recording.placed, binding.kernel.generation)
        if binding.kept_at != kept_at or len(binding.kernels) >= RECORDINGS_MAX:
            binding.kernels.clear()
        binding.kept_at = kept_at
        binding.kernels[recording] = kernels
        if self.player is not None:
            self.player.keep_launch(binding, recording, kernels)

    def _where(
        self, launch: Launch, kernel: Kernel, launch_plan: LaunchPlan, launches: int
    ) -> tuple[tuple[int, ...], bool]:
        """On which members it runs, and whether it does so whenever its buffers are as they are."""
        where, is_usual = self._everyone, True
        if launch.member:
            where = (launch.member - 1,)
        elif not (len(launch_plan.plan.boxes) > 1 or len(where) == 1 or kernel.has_variables):
            where, is_usual = best_member(launch_plan, self._everyone, launches)
        if launch_plan.is_gathered and launch_plan.chunks[0].find() is None:
            is_usual = is_usual and self._is_gathered(launch_plan)  # data are not brought together each time
        return where, is_usual

    def plan(self, launch: Launch) -> None:
        """Have the player know what the next launch comes to, if nothing has to be issued for that.

        What it has in flight stays its own.
        """
        player, build = self.player, self.build(launch.build)
        is_plain = self._verifier is None and self._recorder is None and self.parts is None
        if player is None or build is None or not (is_plain and player.has_room()):
            return
        kernel = build.kernels[launch.kernel_index]
        is_lost = self._without_variables or len(self._memory.members) < len(self._memory.devices)
        if not kernel.has_run or kernel.note is not None or is_lost:
            return
        binding, _ = self._find(build, kernel, launch)
        launch_plan = binding.launch_plan
        history, groups = launch_plan.history, launch_plan.ndrange.total_groups
        is_new = len(self._everyone) > 1 and self._counters.lacks_times(kernel.model.name, groups)
        chunk, kept_at = launch_plan.chunks[0], (self._memory.placed.generation, kernel.generation)
        has_it = binding.kept_at == kept_at and chunk.find() in binding.kernels  # or had no use for it
        is_open = is_new or not (chunk.is_repeatable and history.is_routine())
        is_poisoned = self._memory.recovery.are_poisoned(chunk.buffers)
        if len(launch_plan.chunks) > 1 or has_it or is_open or is_poisoned:
            return
        away = history.first_away, history.home_at
        where, is_usual = self._where(launch, kernel, launch_plan, history.launches + 1)
        planned = self._issuer.plan(binding, where) if is_usual else None
        if planned is None:
            history.first_away, history.home_at = away
            return
        recording, kernels = planned
        recording.tally = recording.tally or self._counters.tally(kernel, launch_plan, where)
        self._keep(binding, recording, kernels)
        history.refill(launch_plan.epoch)

    def issue(self, launch: Launch, issue: Issue) -> Steps[list[Ticket]]:
        """Issue all assignments; the launch is done when the returned tickets are."""
        build = self.build(launch.build)
        if build is None or not launch.kernel_index < len(build.kernels):
            what = f"build {launch.build}, kernel {launch.kernel_index}"
            raise ClError(Status.INVALID_PROGRAM_EXECUTABLE, what)
        if self._without_variables or len(self._memory.members) < len(self._memory.devices):
            require_members(self._memory, launch, self._without_variables.get(launch.build))
        recorder, held_ns = self._recorder, 0
        begin_ns = time.monotonic_ns() if recorder is not None else 0
        kernel = build.kernels[launch.kernel_index]
        binding, is_known = self._find(build, kernel, launch)
        known = "binding" if is_known else ""
        if not is_known and recorder is None and (tickets := self._replay(binding, issue)) is not None:
            return tickets
        launch_plan = binding.launch_plan
        launch_plan.launches += 1
        launch_plan.history.ran(len(launch_plan.plan.boxes))
        kernel.has_run = True
        is_split = len(launch_plan.plan.boxes) > 1
        where, is_usual = self._where(launch, kernel, launch_plan, launch_plan.history.launches)
        bound_ns = time.monotonic_ns() if recorder is not None else 0
        placed = self._memory.placed
        history, asked = launch_plan.history, issue
        epoch = launch_plan.epoch
        if history.is_fixed:  # it makes no difference to launches, but people want to know
            is_measured = len(self._everyone) > 1 and self._counters.lacks_times(
                kernel.model.name, launch_plan.ndrange.total_groups
            )
        else:
            is_measured = history.is_sampled()
        if epoch is not None and epoch.count(history.launches):
            is_measured = True
        if is_measured and issue.timing is not MEASURED:
            issue = issue.timed()
        tickets = []
        made: Issued | None = None
        kept: KeptLaunch | None = None
        undone = kernel.attempts.undone
        patterns: tuple[CopyPattern, ...] = ()
        for number, chunk in enumerate(launch_plan.chunks):
            recording = chunk.find()
            if recording is None or (recording.where, recording.placed) != (where, placed.generation):
                try:
                    is_one, name = len(launch_plan.chunks) == 1, kernel.model.name
                    held_ns += yield from reserve(
                        self._memory, chunk, where, self._everyone, is_one, name, issue
                    )
                except ClError:
                    if number or not self._is_shorter(launch_plan):
                        raise
                    kernel.forget(launch_plan)  # its chunks were cut for memory that a driver has not got
                    self.known.clear()
                    return (yield from self.issue(launch, asked))
            else:
                placed.touch(recording.allocations)
            generation = placed.generation
            timed = self._timed(binding, where) if is_measured and is_usual and recorder is None else None
            if self._verifier is not None and is_split and len(launch_plan.chunks) == 1:
                run = partial(self._run, binding, number, where, is_usual, issue)
                issued = yield from self._verifier.launch(binding, run, issue)
            elif chunk.plan.is_attempt:
                ran = yield from self._appender.launch(binding, number, where, self._everyone, issue)
                issued, kept = ran.tickets, ran.kept
                if is_measured and kernel.attempts.undone == undone:
                    self._measure(kernel, launch_plan, chunk, issued)
            elif timed is not None:
                issued = timed(issue)
                self._measure(kernel, launch_plan, chunk, issued)
            else:
                made = self._issuer.issue(binding, number, where, is_usual, issue)
                issued, patterns, kept = made.tickets, patterns + made.patterns, made.kept
                launch_plan.copied(made.copying)
                if (recording := made.recording) is not None and recording.placed != generation:
                    recording.allocations = chunk.allocations(where, self._memory)
                    recording.placed = generation
                if is_measured:
                    self._measure(kernel, launch_plan, chunk, issued)
            if recorder is not None:
                for k, box, ticket in zip(chunk.members, chunk.plan.boxes, issued, strict=False):
                    recorder.assignment(issue.command, number, where[k], box.total_groups, ticket)
            tickets = tickets + issued if tickets else issued
        self._memory.accounting.events.chunks += len(launch_plan.chunks) - 1
        if kernel.attempts.undone > undone:
            self._counters.kernel(kernel.model.name).attempts_undone += kernel.attempts.undone - undone
        self._counters.ran(kernel, binding, where, patterns)
        if self._verifier is None and (recorder is not None or kernel.note is None):
            recording = made.recording if made is not None and not launch.prints else None
            if recording is not None and made is not None and len(launch_plan.chunks) == 1:
                recording.tally = self._counters.tally(kernel, launch_plan, where)
                self._keep(binding, recording, made.kernels)
            if kept is not None and self.player is not None and is_usual and not launch.prints:
                kept.recording.tally = self._counters.tally(kernel, launch_plan, where)
                kept.recording.allocations = launch_plan.chunks[0].allocations(where, self._memory)
                self.player.keep_launch(binding, kept.recording, kept.kernels, kept.trial)
            if self.player is not None:
                history.refill(launch_plan.epoch)
        if recorder is not None:
            known = known or ("plan" if launch_plan.launches > 1 else "")
            number = shape_number(recorder, kernel.model.name, launch_plan)
            name = kernel.model.name
            recorder.launched(issue.command, name, number, known, begin_ns, bound_ns, held_ns)
        return tickets

    def _run(
        self, binding: Binding, number: int, where: tuple[int, ...], is_usual: bool, issue: Issue
    ) -> Steps[RanChunk]:
        """Issue a chunk that is verified."""
        if binding.launch_plan.chunks[number].plan.is_attempt:
            return (yield from self._appender.launch(binding, number, where, self._everyone, issue))
        return RanChunk(self._issuer.issue(binding, number, where, is_usual, issue).tickets, ())

    def _find(self, build: Build, kernel: Kernel, launch: Launch) -> tuple[Binding, bool]:
        """How a launch is run, and whether that was known."""
        before = self.known.find(launch.record)
        if before is not None and self._goes_on(kernel, before.launch_plan):
            return before, True
        start_ns = time.perf_counter_ns()
        binding = self._bind(build, kernel, launch)
        if before is not None and before.launch_plan is binding.launch_plan:
            binding = before  # with what was kept of it
        self._counters.planned(kernel, binding, time.perf_counter_ns() - start_ns)
        if launch.record:
            self.known.keep(launch.record, binding, binding.launch_plan.buffers)
        return binding, False

    def _bind(self, build: Build, kernel: Kernel, launch: Launch) -> Binding:
        """Decode the arguments, and arrange the launch if no other with the same ranges was."""
        values = decode_arguments(kernel.model, launch)
        named = [v.buffer for v in values if isinstance(v, ImageArgument | BufferArgument) and v.buffer]
        buffers = {each: self._memory.buffer(each) for each in named}
        reached = self._memory.reached(launch)
        image_nbytes = image_nbytes_of(kernel.model.name, values, buffers, self._memory)
        rule = ANY_GROUP
        if launch.local_size is None:  # else it is no matter
            rule = group_rule(self._known_members, build.facts_of(launch), launch.member)
        ndrange = ndrange_of(kernel.model, launch, rule)
        history_key = (
            ndrange.work_dim,
            ndrange.total_groups.bit_length(),
            tuple(sorted({*buffers, *launch.names})),
        )
        history = kernel.history(history_key, self._cutter.history)
        # One member needs no ranges, if all fits on it.  But what is poisoned only its readers need.
        capacity = min(self._capacities())
        needed = sum(buffer.nbytes + GRANULE_NBYTES for buffer in buffers.values()) + image_nbytes
        is_poisoned = self._memory.recovery.are_poisoned(buffers.values())
        may_be_trivial = needed <= capacity and not is_poisoned and not launch.is_by_address
        is_trivial = may_be_trivial and (
            len(self._everyone) == 1
            or needs_no_ranges(history, buffers.values(), self._everyone, launch.member)
        )
        is_trivial = is_trivial and not overwrites(kernel.model, values, buffers, self._everyone)
        shape = shaped(values, *kernel.counted(is_trivial))
        sizes_of = (launch.work_dim, launch.offset, launch.global_size, launch.local_size)
        key = (*sizes_of, shape, is_trivial, launch.member, launch.names)
        launch_plan = kernel.find(key)
        if launch_plan is not None and not self._goes_on(kernel, launch_plan):
            launch_plan = None
        if launch_plan is None:
            maps = WholeAccess(kernel.model) if is_trivial else kernel.maps
            is_choice, start_ns = history.shape is None or history.is_due(), time.perf_counter_ns()
            inner = None if launch.is_by_address else numbered(shape)
            sizes = tuple([buffer.nbytes for buffer in buffers.values()])
            plan_key = None if inner is None else (*sizes_of, inner, sizes, is_trivial)
            is_on_one = may_be_trivial and not (is_trivial or launch.member or history.assignments > 1)
            is_on_one = is_on_one and are_on_one(buffers.values(), self._everyone)
            launch_plan = self._arrange(
                kernel,
                maps,
                ndrange,
                history,
                values,
                buffers,
                image_nbytes,
                plan_key,
                launch,
                reached,
                is_on_one,
            )
            if not is_choice:
                history.planned(len(launch_plan.plan.boxes), time.perf_counter_ns() - start_ns)
            if is_on_one and len(launch_plan.plan.boxes) == 1:
                is_trivial, shape = True, shaped(values, *kernel.counted(True))
                key = (*sizes_of, shape, is_trivial, launch.member, launch.names)
            launch_plan.is_trivial, launch_plan.member = is_trivial, launch.member
            launch_plan.is_gathered = is_trivial and len(self._everyone) > 1
            before = kernel.find(key)
            if before is not None and before.is_like(launch_plan):
                before.why_whole = launch_plan.why_whole
                launch_plan = before  # with all that was recorded of it
            else:
                if before is not None:
                    kernel.forget(before)
                kernel.keep(key, launch_plan)
        return Binding(build, kernel, launch, launch_plan, values)

    def _arrange(
        self,
        kernel: Kernel,
        maps: KernelAccess,
        ndrange: NDRange,
        history: LaunchHistory,
        values: tuple[ArgumentValue, ...],
        buffers: dict[int, VirtualBuffer],
        image_nbytes: int,
        plan_key: PlanKey | None,
        launch: Launch,
        reached: Reached,
        is_on_one: bool,
    ) -> LaunchPlan:
        """Cut the NDRange, find what each assignment needs.  ``image_nbytes``: see ``image_nbytes_of``.

        ``plan_key``: by which plans are remembered, if they are.  ``is_on_one``: one member has all.
        """
        model, member = kernel.planned(self._memory.transfers.links.is_far), launch.member
        capacities = [nbytes - image_nbytes for nbytes in self._capacities(member)]
        images = None
        if kernel.images is not None:
            images = kernel.images.bind(
                ndrange,
                tuple(value if isinstance(value, bytes) else None for value in values),
                image_slabs(model, values),
            )
        bind = partial(bound_access, maps, ndrange, values, buffers)
        accesses = kernel.effort(ndrange)
        whole = (GroupBox((0, 0, 0), ndrange.num_groups),)
        all_of_it = (whole, bound_access(WholeAccess(model), ndrange, values, buffers)) if is_on_one else None
        plans = AccessPlans(
            model, values, buffers, bind, images, accesses, kernel.plans, plan_key, reached.ids, all_of_it
        )
        why_whole = _OF_ONE_DEVICE if member else self._never_split(kernel, ndrange)
        is_pooled = reached.buffers and self._memory.memories.pooled is not None
        if not why_whole and is_pooled and any(each.atomic or each.updates for each in model.arguments):
            why_whole = _ATOMIC_BY_ADDRESS
        if why_whole:
            is_exact = self._memory.recovery.are_poisoned(buffers.values())
            chosen = plans.plan(whole, is_exact)
            history.decide((1, 1, 1), 1, why_whole)
            history.is_fixed = True
        else:
            chosen, why_whole = self._cutter.cut(history, ndrange.num_groups, plans)
        forget = (kernel.forget_buffer, self.known.drop_buffer, self._issuer.forget_buffer)
        for buffer in (*buffers.values(), *self._memory.known(launch.regions)):
            buffer.on_release.update(forget)
        if (reach := self._memory.reaches.find(launch.reach)) is not None:
            reach.on_change.update(forget)

        def chunks_of(chosen: CutPlan) -> tuple[Chunk, ...]:
            # Of one box, the member is chosen at launch.
            room = capacities if len(chosen.boxes) > 1 else [min(capacities)]
            is_guarded = self._verifier is not None
            return make_chunks(plans, self._cutter.order, chosen, room, is_guarded, self._is_far, reached)

        chunks = chunks_of(chosen)
        if len(chunks) > 1 and self._cutter.freeze_equal(history, chosen):
            chosen, why_whole = self._cutter.cut(history, ndrange.num_groups, plans)
            chunks = chunks_of(chosen)
        if len(chosen.boxes) > 1 and (why_whole := unsafe(chunks)):
            chosen = plans.plan(whole, False)
            chunks = chunks_of(chosen)
        groups = tuple(box.total_groups for box in chosen.boxes)
        made = LaunchPlan(
            ndrange,
            chosen,
            groups,
            why_whole,
            chunks,
            history,
            history.version,
            tuple(self._capacities()),
            reached=reached,
            names=launch.names,
        )
        made.plans = plans if chosen.is_attempt else None
        if len(groups) > 1 and len(chunks) == 1:
            made.epoch = self._cutter.epoch(history, chosen)
        return made

    def _is_shorter(self, launch_plan: LaunchPlan) -> bool:
        """Whether members turned out to hold less than when a launch was arranged."""
        pairs = zip(self._capacities(), launch_plan.capacities, strict=False)
        return any(now < then for now, then in pairs)

    def _goes_on(self, kernel: Kernel, launch_plan: LaunchPlan) -> bool:
        """Whether it may be used again as it is; forgotten if never, not where its cut is to be chosen."""
        is_given_up = launch_plan.plan.is_attempt and kernel.attempts.why_not(len(self._everyone))
        if is_given_up or not launch_plan.is_valid():
            kernel.forget(launch_plan)
            return False
        if launch_plan.history.is_due():
            return False
        if not launch_plan.is_gathered or launch_plan.chunks[0].find() is not None:
            return True
        return self._is_gathered(launch_plan)

    def _is_gathered(self, launch_plan: LaunchPlan) -> bool:
        buffers = [used.buffer for used in launch_plan.plan.buffers]
        return are_gathered(buffers, self._everyone, launch_plan.member)

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
        return kernel.why_not_tried(ndrange, len(self._everyone))

    def _measure(self, kernel: Kernel, launch_plan: LaunchPlan, chunk: Chunk, issued: list[Ticket]) -> None:
        """Learn from a launch once it is done."""
        is_first, kernel.is_warm = not kernel.is_warm, True
        self._counters.timed(kernel.model.name, launch_plan)
        launched = issued[: len(chunk.members)]
        history, player = launch_plan.history, self.player
        # The player measures one that it repeats, without the time that Python takes to launch it.
        is_played = player is not None and player.is_on and not history.is_fixed
        is_rough = is_played and len(launched) == 1 and chunk.may_repeat(self._everyone, self._memory.images)

        def record(error: BaseException | None) -> None:
            is_news = error is None and launch_plan.measured(chunk.plan.boxes, launched, is_first, is_rough)
            if is_news and player is not None:  # none is replayed before
                self._memory.post(history.wake)

        join(launched, record)


__all__ = ["Launcher", "SplitMode"]
