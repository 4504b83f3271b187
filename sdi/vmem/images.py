"""Opaque copies of images on members: caches of linear bytes, whose truth is in the directory.

Members whose kernels use the linear bytes themselves have none.  Elsewhere, before a kernel uses an image,
what is old in its copy is set from the member's linear bytes; what the kernel wrote goes back there at once.
Source: design/0006-images.md.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

from sdi.dataclass import dataclass
from sdi.devices.base import Device
from sdi.devices.copying import from_image, to_image
from sdi.devices.handles import DeviceBuffer
from sdi.devices.image import LinearImage, Slabs
from sdi.devices.issue import Issue, Timing
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.region import Bytes
from sdi.regions import RegionSet
from sdi.vmem.accounting import Accounting
from sdi.vmem.buffer import ImageCopy, ImageView, VirtualBuffer
from sdi.vmem.dependencies import Dependencies
from sdi.vmem.directory import member_memory
from sdi.vmem.memories import Memories


@dataclass(frozen=True, slots=True)
class LinearBytes:
    """A member's view of a root buffer: its bytes from ``start`` on, and the accesses to that memory."""

    device_buffer: DeviceBuffer
    start: int
    dependencies: Dependencies


class Images:
    """The opaque copies of a session.  The caller has reserved those that it names."""

    def __init__(self, memories: Memories, accounting: Accounting) -> None:
        self._memories = memories
        self._accounting = accounting

    def is_copied(self, member: int, view: ImageView) -> bool:
        """Whether that member's kernels use an opaque copy, and not the linear bytes themselves."""
        is_addressable = view.shape.is_addressable and view.offset % view.shape.pixel_nbytes == 0
        return not (self._memories.devices[member].capabilities.has_linear_images and is_addressable)

    def is_copied_anywhere(self, members: Iterable[int], view: ImageView) -> bool:
        """Whether any of ``members`` uses a copy."""
        return any(self.is_copied(member, view) for member in members)

    def linear(self, buffer: VirtualBuffer, member: int, view: ImageView, mapped: bool) -> LinearImage:
        """The pixels in a member's linear bytes."""
        linear = self._linear(buffer, member, mapped)
        return LinearImage(linear.device_buffer, view.offset - linear.start, view.shape)

    def refresh(
        self,
        buffer: VirtualBuffer,
        member: int,
        view: ImageView,
        needs: RegionSet,
        mapped: bool,
        issue: Issue,
    ) -> None:
        """Make the pixels in ``needs``, whose linear bytes are current there, current in the opaque copy."""
        copy, linear = buffer.images[member, view], self._linear(buffer, member, mapped)
        self._accounting.events.image_refreshed_nbytes += _refresh(
            self._memories.devices[member], buffer, copy, linear, needs, issue.timing
        )

    def write_back(
        self,
        buffer: VirtualBuffer,
        member: int,
        view: ImageView,
        writes: RegionSet,
        mapped: bool,
        issue: Issue,
    ) -> list[Ticket]:
        """Bring what a kernel may have written to the opaque copy to the linear bytes."""
        copy, linear = buffer.images[member, view], self._linear(buffer, member, mapped)
        self._accounting.events.image_written_nbytes += writes.nbytes
        tickets = _write_back(self._memories.devices[member], copy, linear, writes, issue.timing)
        self._memories.devices[member].flush()
        return tickets

    def is_current(self, buffer: VirtualBuffer, member: int, view: ImageView, writes: RegionSet) -> None:
        """The linear bytes ``writes`` have their last values from this opaque copy."""
        memory = member_memory(member)
        for over in writes.regions:
            if buffer.directory.is_current(memory, over):
                buffer.directory.copied_opaquely(buffer.images[member, view].number, over)

    def _linear(self, buffer: VirtualBuffer, member: int, mapped: bool) -> LinearBytes:
        if mapped:
            return LinearBytes(
                self._memories.mapped(buffer, member), 0, buffer.dependencies[self._memories.backing(buffer)]
            )
        allocation, dependencies = (
            self._memories.allocation(buffer, member),
            buffer.dependencies[member_memory(member)],
        )
        return LinearBytes(allocation.device_buffer, allocation.over.start, dependencies)


def _refresh(
    device: Device,
    buffer: VirtualBuffer,
    copy: ImageCopy,
    linear: LinearBytes,
    needs: RegionSet,
    timing: Timing,
) -> int:
    """Set the pixels in ``needs`` (current in the linear bytes, whole slabs) that are old; how many bytes."""
    view = copy.view
    old = list(needs.regions)
    if not buffer.is_in_place:  # of which nobody knows what was written
        old = [part for over in old for part in buffer.directory.old_in(copy.number, over)]
    moved = 0
    for slabs in _slabs(view, old):
        over = _bytes(view, slabs)
        ticket = to_image(
            device,
            linear.device_buffer,
            view.offset - linear.start,
            copy.device_image,
            view.shape,
            slabs,
            [*linear.dependencies.before_read(over), *copy.dependencies.before_write(over)],
            timing,
        )
        linear.dependencies.read_by(over, ticket)
        copy.dependencies.written_by(over, ticket)
        buffer.directory.copied_opaquely(copy.number, over)
        moved += over.nbytes
    return moved


def _write_back(
    device: Device, copy: ImageCopy, linear: LinearBytes, writes: RegionSet, timing: Timing
) -> list[Ticket]:
    """A kernel that was issued on ``copy`` may have written ``writes``: bring these to the linear bytes."""
    tickets = []
    for slabs in _slabs(copy.view, writes.regions):
        over = _bytes(copy.view, slabs)
        ticket = from_image(
            device,
            copy.device_image,
            copy.view.shape,
            slabs,
            linear.device_buffer,
            copy.view.offset - linear.start,
            [*copy.dependencies.before_read(over), *linear.dependencies.before_write(over)],
            timing,
        )
        copy.dependencies.read_by(over, ticket)
        linear.dependencies.written_by(over, ticket)
        tickets.append(ticket)
    return tickets


def _slabs(view: ImageView, parts: Sequence[Bytes]) -> list[Slabs]:
    """The slabs that hold some bytes of the root buffer, those that touch as one."""
    found: list[Slabs] = []
    for run in sorted([run for part in parts for run in part.runs()], key=attrgetter("start")):
        slabs = view.shape.slabs_of(run.moved(-view.offset))
        if found and slabs.start <= found[-1].stop:
            before = found.pop()
            slabs = Slabs(before.start, max(before.stop, slabs.stop))
        found.append(slabs)
    return found


def _bytes(view: ImageView, slabs: Slabs) -> ByteRange:
    return view.shape.bytes_of(slabs).moved(view.offset)
