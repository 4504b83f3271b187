"""Short forms of ``Device.copy``, and copies that a driver can't make at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from sdi.devices.base import Device, Place
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.image import ImageShape, Slabs
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.join import all_of
from sdi.devices.ticket import Ticket
from sdi.region import Region, alike

CHUNK_NBYTES = 4 << 20
"""[M] Chunks that fit the cache: 7.0 GB/s on a CPU driver, 5.4 in one piece."""

Part = tuple[Place, Place, Region]
"""Source, target and region of a copy."""
Ends = tuple[Ticket, Ticket]
"""The source was read, the target written."""


def upload(
    device: Device,
    host: HostBytes,
    buffer: DeviceBuffer,
    offset: int,
    wait: Sequence[Ticket],
    region: Region | None = None,
    timing: Timing = MEASURED,
) -> Ticket:
    """All of ``host``, or a region of it, to ``buffer`` from ``offset`` on."""
    over = Region(0, host.nbytes) if region is None else region
    return device.copy(Place(host), Place(buffer, offset, device), over, wait, (), timing)[1]


def download(
    device: Device,
    buffer: DeviceBuffer,
    offset: int,
    host: HostBytes,
    wait: Sequence[Ticket],
    region: Region | None = None,
    timing: Timing = MEASURED,
) -> Ticket:
    """The contrary; nothing between the runs of a region changes."""
    over = Region(0, host.nbytes) if region is None else region
    return device.copy(Place(buffer, offset, device), Place(host), over, wait, (), timing)[1]


def within(
    device: Device,
    source: DeviceBuffer,
    from_: Region,
    target: DeviceBuffer,
    to: Region,
    wait: Sequence[Ticket],
    timing: Timing = MEASURED,
) -> Ticket:
    """From one buffer to another, or within one; the regions are ``alike`` and share no byte."""
    levels = None if to.levels == from_.levels else to.levels
    here, there = Place(target, to.base, device, levels), Place(source, from_.base, device)
    return device.copy(there, here, from_.at(0), wait, (), timing)[1]


def across(
    device: Device,
    other: Device,
    source: DeviceBuffer,
    source_offset: int,
    target: DeviceBuffer,
    target_offset: int,
    region: Region | int,
    leave: Sequence[Ticket],
    arrive: Sequence[Ticket],
    timing: Timing = MEASURED,
) -> Ends:
    """From a buffer of the member ``other``.  ``region``: or so many bytes."""
    over = Region(0, region) if isinstance(region, int) else region
    there, here = Place(source, source_offset, other), Place(target, target_offset, device)
    return device.copy(there, here, over, leave, arrive, timing)


def to_image(
    device: Device,
    buffer: DeviceBuffer,
    offset: int,
    image: DeviceBuffer,
    shape: ImageShape,
    slabs: Slabs,
    wait: Sequence[Ticket],
    timing: Timing = MEASURED,
) -> Ticket:
    """Slabs from linear bytes; ``offset``: of the image's first pixel, perhaps outside."""
    linear, pixels = Place(buffer, offset, device), Place(image, 0, device)
    return device.copy(linear, pixels, shape.pixels(slabs), wait, (), timing)[1]


def from_image(
    device: Device,
    image: DeviceBuffer,
    shape: ImageShape,
    slabs: Slabs,
    buffer: DeviceBuffer,
    offset: int,
    wait: Sequence[Ticket],
    timing: Timing = MEASURED,
) -> Ticket:
    """Slabs to linear bytes; bytes between rows keep their values."""
    linear, pixels = Place(buffer, offset, device), Place(image, 0, device)
    return device.copy(pixels, linear, shape.pixels(slabs), wait, (), timing)[1]


class Sender(Protocol):
    """A member of another process, which sends its bytes to members of this one."""

    def send_to(
        self,
        source: Place,
        target: Place,
        region: Region,
        leave: Sequence[Ticket],
        arrive: Sequence[Ticket],
    ) -> Ends:
        """See ``Device.copy``."""


Copy = Callable[[Place, Place, Region], Ends]
"""A copy of one part."""


def by(device: Device, leave: Sequence[Ticket], arrive: Sequence[Ticket], timing: Timing = MEASURED) -> Copy:
    """Of a member's, each part behind the same."""

    def copy(source: Place, target: Place, part: Region) -> Ends:
        return device.copy(source, target, part, leave, arrive, timing)

    return copy


def is_rows(source: Place, target: Place, region: Region) -> bool:
    """Whether the runs lie alike at both ends, and in rows at equal distances, if they are several."""
    return source.levels is None and target.levels is None and len(region.levels) < 2


def in_parts(copy: Copy, source: Place, target: Place, region: Region) -> Ends:
    """The same as several copies of less, each of less levels."""
    from_, to = alike(source.here(region), target.here(region))
    if not from_.levels or (len(from_.levels) == 1 and from_.levels == to.levels):
        return copy(*_part(source, from_, target, to))
    numbers = range(from_.counts[-1])
    pairs = [(from_.part(number, number + 1), to.part(number, number + 1)) for number in numbers]
    copies = [copy(*_part(source, part, target, other)) for part, other in pairs]
    return all_of([left for left, _ in copies]), all_of([arrived for _, arrived in copies])


def run_by_run(copy: Copy, source: Place, target: Place, region: Region) -> Ends:
    """The same as a copy of each run."""
    from_, to = alike(source.here(region), target.here(region))
    copies = [
        copy(source.at(part.start), target.at(other.start), Region(0, part.nbytes))
        for part, other in zip(from_.runs(), to.runs(), strict=True)
    ]
    return all_of([left for left, _ in copies]), all_of([arrived for _, arrived in copies])


def _part(source: Place, from_: Region, target: Place, to: Region) -> Part:
    levels = None if to.levels == from_.levels else to.levels
    return source.at(from_.base), target.at(to.base, levels), from_.at(0)


def bounce(
    source: Place,
    target: Place,
    region: Region,
    leave: Sequence[Ticket],
    arrive: Sequence[Ticket],
    timing: Timing = MEASURED,
) -> Ends:
    """Between members that share no memory: down and up in chunks, two of them on the way at a time."""
    other, device = source.device, target.device
    assert other is not None and device is not None
    if other.capabilities.node != device.capabilities.node:
        return cast(Sender, other).send_to(source, target, region, leave, arrive)
    if region.levels:
        return run_by_run(by(device, leave, arrive, timing), source, target, region)
    there, here, nbytes = source.offset + region.base, target.offset + region.base, region.nbytes
    from_, to = cast(DeviceBuffer, source.memory), cast(DeviceBuffer, target.memory)
    memory = memoryview(bytearray(min(nbytes, 2 * CHUNK_NBYTES)))
    downloads: list[Ticket] = []
    uploads: list[Ticket] = []
    for number, at in enumerate(range(0, nbytes, CHUNK_NBYTES)):
        size = min(CHUNK_NBYTES, nbytes - at)
        half = number % 2 * CHUNK_NBYTES
        chunk = memory[half : half + size]
        before = [*leave, uploads[number - 2]] if number >= 2 else leave
        downloads.append(download(other, from_, there + at, chunk, before, timing=timing))
        behind = [*arrive, downloads[-1]]
        uploads.append(upload(device, chunk, to, here + at, behind, timing=timing))
    other.flush()
    device.flush()
    return all_of(downloads), all_of([*downloads, *uploads])
