"""Chunks of copies between processes, and what waits for those that are still to come."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from sdi.devices.handles import DeviceBuffer
from sdi.devices.join import all_of
from sdi.devices.ticket import Ticket
from sdi.intervals import ByteRange
from sdi.region import Region
from sdi.vmem.links import CHUNK_NBYTES


def chunks(region: Region) -> Iterator[tuple[int, Region]]:
    """Parts of at most ``CHUNK_NBYTES`` of a region of no more than one level, each with the number of packed
    bytes before it.

    A run that is larger is cut, too, where it is the only one.
    """
    if not region.levels:
        for at in range(0, region.nbytes, CHUNK_NBYTES):
            yield at, Region(region.base + at, min(CHUNK_NBYTES, region.nbytes - at))
        return
    ((_, count),) = region.levels
    each = max(1, CHUNK_NBYTES // region.nbytes)
    for first in range(0, count, each):
        yield first * region.nbytes, region.part(first, min(first + each, count))


class Arriving(Ticket):
    """Of a copy that comes to ``buffer`` in several chunks: where each goes, in order, and its own ticket."""

    __slots__ = ("buffer", "chunks")

    def __init__(self, buffer: DeviceBuffer, chunks: Sequence[tuple[ByteRange, Ticket]]) -> None:
        super().__init__()
        self.buffer: DeviceBuffer | None = buffer
        self.chunks = chunks
        all_of([ticket for _, ticket in chunks], self)

    def complete(self, error: BaseException | None = None, start_ns: int = 0, end_ns: int = 0) -> None:
        super().complete(error, start_ns, end_ns)
        self.buffer, self.chunks = None, ()

    def behind(self, over: ByteRange) -> list[Ticket]:
        """What has to be done before ``over`` of its buffer is there: the chunks that have some of it."""
        chunks = self.chunks
        if self.done:
            return [self]
        first = bisect_right(chunks, over.start, key=lambda each: each[0].stop)
        last = bisect_left(chunks, over.stop, key=lambda each: each[0].start)
        return [ticket for _, ticket in chunks[first:last]]


def behind(wait: Sequence[Ticket], buffer: DeviceBuffer, over: ByteRange) -> list[Ticket]:
    """What of ``wait`` has to be done before ``over`` of ``buffer`` can be read.

    Of copies that come there these bytes are enough: a node passes each chunk on as it arrives.
    """
    found: dict[Ticket, None] = {}
    for ticket in wait:
        if isinstance(ticket, Arriving) and ticket.buffer is buffer:
            found.update(dict.fromkeys(ticket.behind(over)))
        else:
            found[ticket] = None
    return list(found)
