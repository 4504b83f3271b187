"""``SDI_VERIFY``: each split launch runs a second time, whole on one member, from the same bytes.

Both results are compared byte by byte on the host.  Nothing that comes later sees bytes that are not
verified yet.  Source: design/0005-explain-and-verify.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial

import numpy as np

from sdi.clc.launch import pack_hidden
from sdi.dataclass import dataclass, field
from sdi.devices.copying import download, from_image, to_image, upload
from sdi.devices.handles import BoundKernel, DeviceBuffer
from sdi.devices.image import LinearImage, Slabs
from sdi.devices.issue import Issue
from sdi.devices.join import join
from sdi.devices.ticket import Ticket, completed
from sdi.errors import ClError, DeviceFailed, Status
from sdi.intervals import ByteRange
from sdi.launch.appending import AppendedRange, RanChunk
from sdi.launch.arguments import BufferArgument, ImageArgument, on_member
from sdi.launch.counters import Counters
from sdi.launch.kernel import Binding
from sdi.launch.plan import ImagePlan
from sdi.launch.steps import Steps
from sdi.launch.verify.difference import Difference, first_difference, locate_argument
from sdi.ndrange import GroupBox
from sdi.vmem.buffer import ImageView
from sdi.vmem.dependencies import Dependencies
from sdi.vmem.directory import HOST
from sdi.vmem.memory import VirtualBuffer, VirtualMemory
from sdi.vmem.merging.host import Bytes

_log = logging.getLogger("sdi.verify")

_MEMBER = 0
"""The member that runs launches whole."""
_CONST = 1
"""CL_KERNEL_ARG_TYPE_CONST."""


@dataclass(slots=True)
class _Shadow:
    """What the second run of launches on one root buffer works on.

    ``device_buffer``: its copy of the buffer; ``images``: views of that.  ``before``, ``after``: arena
    offsets of the bytes from before the launch and from after the whole run; None until a launch may write
    the buffer.  ``is_in_place``: it is no copy, since kernels that follow pointers find no other: the whole
    run comes first, and the bytes from before are put back.  ``is_pooled``: it is the buffer's place in the
    memory of all members, for the same reason, so that has other bytes then.
    """

    device_buffer: DeviceBuffer
    is_in_place: bool = False
    is_pooled: bool = False
    images: dict[ImageView, DeviceBuffer] = field(default_factory=dict)
    before: int | None = None
    after: int | None = None


@dataclass(slots=True)
class _Check:
    """One launch that is being verified.

    ``compared``: the buffers that it may write; ``written``: their ids.  ``verified`` fails when the results
    differ; ``over`` is done when the shadows are free again and never fails.  ``appended``: what has no
    order, see ``RanChunk``.
    """

    binding: Binding
    shadows: dict[int, _Shadow]
    compared: list[VirtualBuffer]
    written: frozenset[int]
    verified: Ticket = field(default_factory=Ticket)
    over: Ticket = field(default_factory=Ticket)
    difference: Difference | None = None
    appended: Sequence[AppendedRange] | None = ()


class Verifier:
    """Verifies split launches.  Owned by: sdi-scheduler.

    ``goes_on``: after a difference the whole run's bytes are taken and the program goes on; if not, the
    launch fails and ``stop`` is called.  ``post`` runs a call on sdi-scheduler, from any thread.
    """

    def __init__(
        self,
        memory: VirtualMemory,
        counters: Counters,
        post: Callable[[Callable[[], None]], None],
        stop: Callable[[], None],
        goes_on: bool,
    ) -> None:
        self._memory = memory
        self.member = _MEMBER
        self._device = memory.devices[_MEMBER]
        self._counters = counters
        self._post = post
        self._stop = stop
        self._goes_on = goes_on
        self._shadows: dict[tuple[int, bool], _Shadow] = {}
        self._idle = completed()
        self._left_out: set[str] = set()

    def launch(
        self, binding: Binding, run: Callable[[], Steps[RanChunk]], issue: Issue
    ) -> Steps[list[Ticket]]:
        """Issue a split launch by ``run``, and all that verifies it; it is done when the tickets are."""
        if any(buffer.is_in_place for buffer in binding.launch_plan.reached.buffers):
            self._leave_out(binding.kernel.model.name)
            return (yield from run())[0]
        reached = binding.launch_plan.reached.ids
        buffers, written = list(binding.launch_plan.chunks[0].buffers), _written(binding) | reached
        compared = [buffer for buffer in buffers if buffer.id in written]
        try:
            shadows = {b.id: self._shadow(b, b.id in written, b.id in reached) for b in buffers}
            for image in self._copied(binding):
                views = shadows[image.buffer.id].images
                if image.view not in views:
                    views[image.view] = self._device.allocate(image.view.shape)
        except ClError as error:
            _log.warning("kernel '%s' is not verified: %s", binding.kernel.model.name, error)
            return (yield from run())[0]
        check = _Check(binding, shadows, compared, written)
        kept = self._keep(check, buffers, issue)
        downloads = self._run_whole(check, buffers, kept, issue) if reached else []
        try:
            tickets, check.appended, _ = yield from run()
        except (ClError, DeviceFailed):
            self._idle = _over([*kept.values(), *downloads])
            raise
        if not reached:
            downloads = self._run_whole(check, buffers, kept, issue)
        for buffer in compared:
            self._memory.transfers.fetch_host(buffer, buffer.whole, issue)
        pending = [
            t for buffer in compared for dependencies in buffer.dependencies for t in dependencies.pending()
        ]
        result = self._memory.run_on_host(
            lambda: self._compare(check), [*tickets, *downloads, *kept.values(), *pending], issue
        )
        for buffer in compared:
            for dependencies in buffer.dependencies:
                dependencies.written_by(buffer.whole, check.verified)
            if self._goes_on:
                buffer.directory.wrote(HOST, buffer.whole)
        self._idle = check.over
        result.when_done(lambda ticket: self._post(lambda: self._judge(check, ticket.error)))
        yield [check.over]  # a search runs launches: nothing that waits for its end may be issued before them
        return [*tickets, check.verified]

    def _leave_out(self, kernel: str) -> None:
        """Say that launches of a kernel are not verified: bytes can't be put back that others may write."""
        if kernel not in self._left_out:
            self._left_out.add(kernel)
            what = "it uses fine-grained shared virtual memory, which the application may write meanwhile"
            _log.warning("kernel '%s' is not verified: %s", kernel, what)

    # -- the second run -------------------------------------------------------------------------------

    def _shadow(self, buffer: VirtualBuffer, written: bool, by_address: bool) -> _Shadow:
        """The shadow of ``buffer``, made when needed.  Raises ClError when there is no room."""
        shadow = self._shadows.get((buffer.id, by_address))
        if shadow is None:
            if by_address:
                is_pooled = self._memory.memories.pooled_allocation(buffer) is not None
                shadow = _Shadow(self._memory.memories.mapped(buffer, _MEMBER), not is_pooled, is_pooled)
            else:
                shadow = _Shadow(self._device.allocate(buffer.nbytes))
            self._shadows[buffer.id, by_address] = shadow
            buffer.on_release.add(self._forget)
        elif shadow.is_pooled:  # its place may have gone and come again
            shadow.device_buffer = self._memory.memories.mapped(buffer, _MEMBER)
        if written and shadow.before is None:
            shadow.before = self._memory.arena.allocate(buffer.nbytes)
        if written and shadow.after is None:
            shadow.after = self._memory.arena.allocate(buffer.nbytes)
        return shadow

    def _forget(self, buffer_id: int) -> None:
        """The application has released a buffer: its shadow goes once the last verification is over."""
        keys = [(buffer_id, by_address) for by_address in (False, True)]
        shadows = [self._shadows.pop(key) for key in keys if key in self._shadows]

        def free() -> None:
            for shadow in shadows:
                if not (shadow.is_in_place or shadow.is_pooled):
                    self._device.free(shadow.device_buffer)
                for image in shadow.images.values():
                    self._device.free(image)
                for offset in (shadow.before, shadow.after):
                    if offset is not None:
                        self._memory.arena.free(offset)

        self._idle.when_done(lambda _ticket: self._post(free))

    def _view(self, buffer: VirtualBuffer, offset: int | None) -> memoryview:
        assert offset is not None
        return self._memory.arena.view(offset, buffer.nbytes)

    def _keep(self, check: _Check, buffers: list[VirtualBuffer], issue: Issue) -> dict[int, Ticket]:
        """Bring all buffers home and copy the bytes that the launch may change; the copies' tickets.

        Undefined bytes get one value for both runs: whatever the arena holds.
        """
        kept = {}
        for buffer in buffers:
            buffer.directory.define()
            self._memory.transfers.fetch_host(buffer, buffer.whole, issue)
            if buffer.id not in check.written:
                continue
            source = self._memory.memories.host_array(buffer, buffer.whole)
            target = np.frombuffer(self._view(buffer, check.shadows[buffer.id].before), np.uint8)
            host = buffer.dependencies[HOST]
            waits = [self._idle, *host.before_read(buffer.whole)]
            kept[buffer.id] = self._memory.run_on_host(partial(np.copyto, target, source), waits, issue)
            host.read_by(buffer.whole, kept[buffer.id])
        return kept

    def _run_whole(
        self, check: _Check, buffers: list[VirtualBuffer], kept: dict[int, Ticket], issue: Issue
    ) -> list[Ticket]:
        """Run the launch whole on the shadows; the tickets of the downloads of what it wrote."""
        uploads = []
        for buffer in buffers:
            shadow = check.shadows[buffer.id]
            if shadow.is_in_place:
                uploads += buffer.dependencies[HOST].before_write(buffer.whole)
            elif buffer.id in check.written:
                waits = [kept[buffer.id]]
                if shadow.is_pooled:
                    waits += self._pooled(buffer).before_write(buffer.whole)
                uploads.append(self._restore(check, buffer, waits))
            else:
                host = buffer.dependencies[HOST]
                ticket = upload(
                    self._device,
                    self._memory.memories.host_view(buffer, buffer.whole),
                    shadow.device_buffer,
                    0,
                    [self._idle, *host.before_read(buffer.whole)],
                )
                host.read_by(buffer.whole, ticket)
                uploads.append(ticket)
        whole = GroupBox((0, 0, 0), check.binding.launch_plan.ndrange.num_groups)
        launched = self._run_box(check, whole, [self._idle, *uploads])
        downloads = []
        for buffer in check.compared:
            shadow = check.shadows[buffer.id]
            if shadow.is_in_place:
                downloads.append(self._take_back(check, buffer, launched, issue))
                continue
            after = self._view(buffer, shadow.after)
            downloads.append(download(self._device, shadow.device_buffer, 0, after, [launched]))
            if shadow.is_pooled:
                self._pooled(buffer).written_by(buffer.whole, downloads[-1])
                buffer.directory.wrote(HOST, buffer.whole)
        self._device.flush()
        return downloads or [launched]

    def _pooled(self, buffer: VirtualBuffer) -> Dependencies:
        """Those of the buffer's place in the memory of all members."""
        return buffer.dependencies[self._memory.memories.pooled_memory]

    def _take_back(self, check: _Check, buffer: VirtualBuffer, launched: Ticket, issue: Issue) -> Ticket:
        """Keep what the whole run left of a buffer, and put the bytes from before back."""
        shadow = check.shadows[buffer.id]
        here = self._memory.memories.host_array(buffer, buffer.whole)
        before, after = (
            np.frombuffer(self._view(buffer, offset), np.uint8) for offset in (shadow.before, shadow.after)
        )

        def exchange() -> None:
            np.copyto(after, here)
            np.copyto(here, before)

        ticket = self._memory.run_on_host(exchange, [launched], issue)
        buffer.dependencies[HOST].written_by(buffer.whole, ticket)
        return ticket

    def _restore(self, check: _Check, buffer: VirtualBuffer, waits: list[Ticket]) -> Ticket:
        """Give a shadow the bytes from before the launch."""
        shadow = check.shadows[buffer.id]
        if shadow.is_in_place:  # nobody else uses them until it is known what differs
            self._memory.memories.host_view(buffer, buffer.whole)[:] = self._view(buffer, shadow.before)
            return completed()
        return upload(self._device, self._view(buffer, shadow.before), shadow.device_buffer, 0, waits)

    def _run_box(self, check: _Check, box: GroupBox, waits: list[Ticket]) -> Ticket:
        """Run some work-groups on the shadows; done when what they wrote is in the shadows' linear bytes."""
        ndrange, images = check.binding.launch_plan.ndrange, self._copied(check.binding)
        for image in images:
            shadow, view = check.shadows[image.buffer.id], image.view
            whole = Slabs(0, view.shape.num_slabs)
            pixels = shadow.images[image.view]
            waits = [
                *waits,
                to_image(self._device, shadow.device_buffer, view.offset, pixels, view.shape, whole, waits),
            ]
        ticket = self._device.launch(
            self._bind(check, box), box.extent, ndrange.local_size, ndrange.work_dim, waits
        )
        for image in images:
            shadow, view = check.shadows[image.buffer.id], image.view
            whole = Slabs(0, view.shape.num_slabs)
            if image.writes[0]:
                pixels = shadow.images[image.view]
                ticket = from_image(
                    self._device, pixels, view.shape, whole, shadow.device_buffer, view.offset, [ticket]
                )
        self._device.flush()
        return ticket

    def _copied(self, binding: Binding) -> list[ImagePlan]:
        """The images of which the member's kernels use opaque copies."""
        is_copied = self._memory.images.is_copied
        return [image for image in binding.launch_plan.plan.images if is_copied(_MEMBER, image.view)]

    def _pixels(self, shadow: _Shadow, view: ImageView) -> DeviceBuffer | LinearImage:
        """As launches have them: kernels may filter copies and linear bytes in different ways."""
        if self._memory.images.is_copied(_MEMBER, view):
            return shadow.images[view]
        return LinearImage(shadow.device_buffer, view.offset, view.shape)

    def _bind(self, check: _Check, box: GroupBox) -> BoundKernel:
        arguments, shifts = on_member(
            check.binding.values,
            lambda pointer: (check.shadows[pointer.buffer].device_buffer, 0),
            lambda image: self._pixels(check.shadows[image.buffer], image.view),
        )
        model = check.binding.kernel.model
        arguments.append(pack_hidden(model, check.binding.launch_plan.ndrange, box, shifts))
        silent = check.binding.build.silent
        assert silent is not None, "this member is not lost"
        return self._device.bind(silent, model.name, arguments)

    # -- the verdict ----------------------------------------------------------------------------------

    def _compare(self, check: _Check) -> None:
        """On sdi-host: note the first difference; where the program goes on, take the whole run's bytes."""
        values = check.binding.values
        for buffer in sorted(
            check.compared,
            key=lambda b: next((k for k, v in enumerate(values) if _names(v, b.id)), len(values)),
        ):
            split = self._memory.memories.host_array(buffer, buffer.whole)
            whole = np.frombuffer(self._view(buffer, check.shadows[buffer.id].after), np.uint8)
            found = first_difference(*_determined(check, buffer, split, whole))
            if found is None:
                continue
            if check.difference is None:
                at = locate_argument(check.binding.kernel.model, values, buffer.id, found.offset)
                check.difference = Difference.of(check.binding.kernel.model, at, buffer, found, split, whole)
            if self._goes_on:
                np.copyto(split, whole)

    def _judge(self, check: _Check, error: BaseException | None) -> None:
        """In a turn of the scheduler: the comparison is done, or could not be made."""
        if error is not None or check.difference is None:
            if error is None:
                self._counters.kernel(check.binding.kernel.model.name).launches_verified += 1
            check.verified.complete(error)
            check.over.complete()
            return
        self._advance(self._search(check, check.difference), check)

    def _advance(self, steps: Generator[Ticket, None, None], check: _Check) -> None:
        """Go on with a search when the ticket that it waits for is done; report at its end."""
        for ticket in steps:
            ticket.when_done(lambda _ticket: self._post(lambda: self._advance(steps, check)))
            return
        self._report(check)

    def _search(self, check: _Check, found: Difference) -> Generator[Ticket, None, None]:
        """Find the work-group that writes the first differing byte: run ever smaller boxes from before.

        The boxes that the members ran come first, so all runs together are about two whole ones.
        """
        for member, box in enumerate(check.binding.launch_plan.plan.boxes):
            if (yield from self._writes(check, found, box)):
                found.member, found.member_box = member, box
                break
        else:
            return
        while box.total_groups > 1:
            low, high = _halves(box)
            box = low if (yield from self._writes(check, found, low)) else high
        found.group = box.start

    def _writes(self, check: _Check, found: Difference, box: GroupBox) -> Generator[Ticket, None, bool]:
        """Whether a run of ``box`` changes the bytes that differ."""
        uploads = [self._restore(check, buffer, []) for buffer in check.compared]
        launched = self._run_box(check, box, uploads)
        shadow = check.shadows[found.buffer.id]
        over = ByteRange(found.offset, found.offset + len(found.whole))
        after = self._view(found.buffer, shadow.after)[over.start : over.stop]
        if shadow.is_in_place:
            ticket, after = launched, self._memory.memories.host_view(found.buffer, over)
        else:
            ticket = download(self._device, shadow.device_buffer, over.start, after, [launched])
        self._device.flush()
        yield ticket
        before = self._view(found.buffer, shadow.before)[over.start : over.stop]
        return ticket.error is None and after != before

    def _report(self, check: _Check) -> None:
        """Say what differs, and go on or stop."""
        assert check.difference is not None
        name = check.binding.kernel.model.name
        text = check.difference.describe(name, len(check.binding.launch_plan.plan.boxes))
        if self._goes_on:
            for buffer in check.compared:  # boxes were run there
                shadow = check.shadows[buffer.id]
                if shadow.is_in_place:
                    after = self._view(buffer, shadow.after)
                    self._memory.memories.host_view(buffer, buffer.whole)[:] = after
            _log.error("%s\n  the program goes on with the bytes of the whole run", text)
            check.verified.complete()
        else:
            _log.error("%s\n  SDI_VERIFY=1: the session ends here; SDI_VERIFY=warn goes on", text)
            what = f"verification: kernel '{name}' differs between split and whole"
            check.verified.complete(ClError(Status.OUT_OF_RESOURCES, what))
            self._post(self._stop)
        check.over.complete()


def _determined(check: _Check, buffer: VirtualBuffer, split: Bytes, whole: Bytes) -> tuple[Bytes, Bytes]:
    """Results of both runs as far as one device determines them: what was appended without its order.

    Where a limit was reached, or one member changed what all watch, it is open what was stored.  If the
    kernel looks at that itself, it is open what it made of it.
    """
    plans = check.binding.launch_plan.plan.buffers
    used = next((each for each in plans if each.buffer is buffer), None)
    if used is None:  # it is reached, of which nothing is open
        return split, whole
    is_open = check.appended is None
    left_out = [used.appended] if is_open and used.appended is not None else []
    if is_open and any(each.is_watched for each in plans):
        if _looks_at_finds(check.binding):
            return split[:0], whole[:0]
        left_out += [merged.over for merged in used.merged if merged.update is None]
    if used.appended is None and not left_out:
        return split, whole
    split, whole = split.copy(), whole.copy()
    for over in left_out:
        for content in (split, whole):
            content[over.start : over.stop] = 0
    for each in check.appended or ():
        if each.buffer == buffer.id:
            for content in (split, whole):
                blocks = content[each.over.start : each.over.stop].view(
                    np.dtype((np.void, each.block_nbytes))
                )
                blocks[:] = sorted(blocks, key=bytes)
    return split, whole


def _looks_at_finds(binding: Binding) -> bool:
    """Whether a work-item may read what others only store where they use the result of an atomic."""
    watched = {each.buffer.id for each in binding.launch_plan.plan.buffers if each.is_watched}
    model = binding.kernel.model
    claimed = [(model.arguments[index].reads, binding.values[index]) for index in model.claimed]
    return any(
        reads and isinstance(value, BufferArgument) and value.buffer in watched for reads, value in claimed
    )


def _written(binding: Binding) -> frozenset[int]:
    """The buffers to compare, of its arguments: all but those that only pointers to constants name."""
    return frozenset(
        value.buffer
        for argument, value in zip(binding.kernel.model.arguments, binding.values, strict=True)
        if (
            isinstance(value, BufferArgument)
            and (argument.writes or argument.atomic or not argument.type_qualifier & _CONST)
        )
        or (isinstance(value, ImageArgument) and argument.writes)
    )


def _names(value: object, buffer_id: int) -> bool:
    return isinstance(value, BufferArgument | ImageArgument) and value.buffer == buffer_id


def _over(tickets: Iterable[Ticket]) -> Ticket:
    """A ticket that is done when all of ``tickets`` are, and never fails."""
    over = Ticket()
    join(tickets, lambda _error: over.complete())
    return over


def _halves(box: GroupBox) -> tuple[GroupBox, GroupBox]:
    """``box`` cut in two along its longest dimension."""
    extent = box.extent
    dim = extent.index(max(extent))
    low, high = list(box.stop), list(box.start)
    low[dim] = high[dim] = box.start[dim] + extent[dim] // 2
    return GroupBox(box.start, (low[0], low[1], low[2])), GroupBox((high[0], high[1], high[2]), box.stop)
