"""Launches: from an NDRange command to pieces on members.

Access is WHOLE for now: every member gets all bytes that the kernel reads or may write, and what several
members wrote is merged on the host with twins and diffs (papers/1 section 3.6).
"""

from __future__ import annotations

from typing import Literal

from sdi.clc import pack_hidden
from sdi.devices.base import BoundArgument, BoundKernel, LocalBytes
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, Status
from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.partition.slabs import cut
from sdi.runtime.commands import Launch
from sdi.runtime.counters import Counters
from sdi.runtime.programs import Binding, Build, Kernel, LocalSize, Pointer
from sdi.vmem.directory import member_memory
from sdi.vmem.memory import VirtualMemory

SplitMode = Literal["auto", "always", "never"]

LOCAL_ITEMS_MAX = 64
"""Work-items per group that sdi chooses when the application passes no local size."""


class Launcher:
    """Issues launches on the members.  Owned by: sdi-scheduler."""

    def __init__(self, memory: VirtualMemory, split: SplitMode, counters: Counters) -> None:
        self._memory = memory
        self._devices = memory.devices
        self._split = split
        self._counters = counters
        self._builds: dict[int, Build] = {}

    def add(self, build_id: int, build: Build) -> None:
        """Make a finished build known."""
        self._builds[build_id] = build

    def remove(self, build_id: int) -> None:
        """The application has no use for the build any more."""
        self._builds.pop(build_id, None)

    def issue(self, launch: Launch) -> list[Ticket]:
        """Issue all pieces; the launch is done when the returned tickets are."""
        build = self._builds.get(launch.build)
        if build is None or not launch.kernel_index < len(build.kernels):
            raise ClError(
                Status.INVALID_PROGRAM_EXECUTABLE, f"build {launch.build}, kernel {launch.kernel_index}"
            )
        kernel = build.kernels[launch.kernel_index]
        key = (launch.work_dim, launch.offset, launch.global_size, launch.local_size, launch.arguments)
        binding = kernel.find(key)
        if binding is None:
            binding = self._bind(kernel, launch)
            kernel.keep(key, binding)
        first = 0 if len(binding.boxes) > 1 else self._best_member(binding)
        tickets = self._run(build, kernel, binding, first)
        self._counters.kernel(kernel.model.name).count(binding.groups, first, binding.why_whole)
        return tickets

    def _bind(self, kernel: Kernel, launch: Launch) -> Binding:
        """Cut the NDRange and decode the arguments."""
        values = kernel.decode(launch)
        local = (
            launch.local_size
            or kernel.model.required_work_group_size
            or choose_local_size(launch.global_size)
        )
        try:
            ndrange = NDRange(launch.work_dim, launch.offset, launch.global_size, local)
        except ValueError as cause:
            raise ClError(Status.INVALID_WORK_GROUP_SIZE, f"{kernel.model.name}: {cause}") from cause
        why_whole = self._why_whole(kernel, ndrange)
        boxes = cut(ndrange.num_groups, 1 if why_whole else len(self._devices))
        uses = kernel.uses(values)
        for use in uses:
            self._memory.buffer(use.buffer).on_release.add(kernel.forget_buffer)
        groups = tuple(box.total_groups for box in boxes)
        return Binding(ndrange, boxes, groups, values, uses, why_whole, {})

    def _why_whole(self, kernel: Kernel, ndrange: NDRange) -> str:
        """Why a launch runs on one member; empty when it is split."""
        if kernel.model.why_whole:
            return kernel.model.why_whole
        if len(self._devices) == 1:
            return "the image has one member"
        if self._split == "never":
            return "SDI_SPLIT=never"
        if ndrange.total_groups == 1:
            return "one work-group"
        return ""

    def _best_member(self, binding: Binding) -> int:
        """The member that lacks the fewest bytes; the lowest number among equals."""
        if len(self._devices) == 1:
            return 0
        held = [0] * len(self._devices)
        for use in binding.uses:
            buffer = self._memory.buffer(use.buffer)
            for part, mask in buffer.directory.holders(buffer.whole):
                for member in range(len(held)):
                    if mask >> member_memory(member) & 1:
                        held[member] += part.nbytes
        return held.index(max(held))

    def _run(self, build: Build, kernel: Kernel, binding: Binding, first: int) -> list[Ticket]:
        """Bring in what is stale, launch the pieces, merge what several of them wrote."""
        memory, split = self._memory, len(binding.boxes) > 1
        uses = [(memory.buffer(use.buffer), use) for use in binding.uses]
        for buffer, use in uses:
            if split and use.writes:
                memory.fetch_host(buffer, buffer.whole)
        for member in range(first, first + len(binding.boxes)):
            for buffer, use in uses:
                memory.fetch(buffer, member, buffer.whole, same_undefined=split and use.writes)
        bound = binding.bound
        for member, box in enumerate(binding.boxes, first):
            if member not in bound:
                bound[member] = self._bind_on(build, kernel, binding, member, box)
        # From here on nothing raises: a launch is issued on all its members or on none.
        launched: list[tuple[int, Ticket]] = []
        for member, box in enumerate(binding.boxes, first):
            here = member_memory(member)
            waits: list[Ticket] = []
            for buffer, use in uses:
                hazards = buffer.hazards[here]
                waits += hazards.before_read(buffer.whole)
                if use.writes:
                    waits += hazards.before_write(buffer.whole)
            device, ndrange = self._devices[member], binding.ndrange
            ticket = device.launch(bound[member], box.extent, ndrange.local_size, ndrange.work_dim, waits)
            device.flush()
            for buffer, use in uses:
                if use.writes:
                    buffer.hazards[here].written_by(buffer.whole, ticket)
                else:
                    buffer.hazards[here].read_by(buffer.whole, ticket)
            launched.append((member, ticket))
        tickets = [ticket for _, ticket in launched]
        for buffer, use in uses:
            if use.writes and split:
                tickets.append(memory.merge(buffer, launched, use.unit_nbytes, use.smallest_unit_nbytes))
            elif use.writes:
                buffer.directory.wrote(member_memory(first), buffer.whole)
        return tickets

    def _bind_on(
        self, build: Build, kernel: Kernel, binding: Binding, member: int, box: GroupBox
    ) -> BoundKernel:
        """Set the arguments of one piece on one member."""
        shifts: list[int] = []
        arguments: list[BoundArgument] = []
        for value in binding.values:
            match value:
                case Pointer(buffer=0):
                    shifts.append(0)
                    arguments.append(None)
                case Pointer():
                    shifts.append(-value.offset)
                    buffer = self._memory.buffer(value.buffer)
                    arguments.append(self._memory.device_buffer(buffer, member))
                case LocalSize():
                    arguments.append(LocalBytes(value.nbytes))
                case bytes():
                    arguments.append(value)
        arguments.append(pack_hidden(kernel.model, binding.ndrange, box, shifts))
        return self._devices[member].bind(build.programs[member], kernel.model.name, arguments)


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
